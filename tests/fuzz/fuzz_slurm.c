/* SPDX-License-Identifier: MIT
 * What Slurm's plugins read: rad-slurm.conf, lists of generic resources, a script's #SBATCH and #RAD lines; any bytes. Root's
 * processes and slurmctld do it. What a job asks for by any settings is never less than it takes.
 */
#include "fuzz.h"

#include "base/alloc.h"
#include "base/scope.h"
#include "cli/slurm_conf.h"
#include "cli/slurm_file.h"
#include "cli/slurm_script.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static void check_size(const struct slurm_conf *c, const struct slurm_wish *w)
{
	struct error err = ERROR_INIT;
	char gres[SLURM_GRES] = "";
	const char *why = NULL;
	if (slurm_conf_size(c, w, gres, &why, &err)) {
		FUZZ_HOLDS(*err.text);
		return;
	}
	uint64_t shards = slurm_conf_gres(gres, "shard"), radmem = slurm_conf_gres(gres, "radmem"), gpus = slurm_conf_gres(gres, "gpu");
	FUZZ_HOLDS(why && !slurm_conf_fits(c, w, &err) && strlen(gres) < SLURM_GRES - 1);
	FUZZ_HOLDS(!!shards + !!radmem + !!gpus == 1 && !!radmem == (w->placed == SLURM_PLACES_IN_ALL));
	if (shards)
		FUZZ_HOLDS(shards * c->piece_mib >= w->claim_mib || shards >= slurm_conf_all(c));
	if (radmem)
		FUZZ_HOLDS(radmem >= w->gpus);
	if (gpus)
		FUZZ_HOLDS(gpus == w->gpus);
}

static void check_settings(const struct slurm_conf *c)
{
	static const uint64_t claims[] = { 0, 1, 1023, 1024, 8192, 40960, 150000, 1 << 30 };
	FUZZ_HOLDS(c->n_kinds <= SLURM_CONF_KINDS && c->piece_mib && *c->socket == '/' && c->announce_limit_s > 0 && c->place_limit_s > 0 &&
		   c->end_limit_s > 0 && c->place_tries >= 0 && c->whole >= 0 && c->whole <= 1);
	for (size_t i = 0; i < sizeof claims / sizeof *claims; i++)
		for (unsigned gpus = 1; gpus < 4; gpus++)
			for (int placed = SLURM_PLACES_IN_NONE; placed <= SLURM_PLACES_IN_ALL; placed++)
				check_size(c, &(struct slurm_wish){ claims[i], gpus, gpus == 3, (enum slurm_places)placed });
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char path[40];
	struct error err = ERROR_INIT;
	struct slurm_conf c;
	scoped_fd int fd = memfd_create("rad-slurm.conf", MFD_CLOEXEC);
	FUZZ_HOLDS(fd >= 0 && write(fd, data, size) == (ssize_t)size);
	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	scoped_free char *text = alloc_printf("%.*s", (int)size, (const char *)data);
	slurm_conf_default(&c);
	if (slurm_conf_read(path, &c, &err))
		FUZZ_HOLDS(*err.text);
	else
		check_settings(&c);
	FUZZ_HOLDS(!slurm_conf_gres(text, "radmem") || strstr(text, "radmem"));
	scoped_free char *partitions = slurm_file_partition(text);
	enum slurm_places places = slurm_conf_places(&c, partitions);
	FUZZ_HOLDS(places == SLURM_PLACES_IN_NONE || (partitions && *c.place));
	struct slurm_wish w = { .gpus = 1 };
	if (slurm_script_wish(text, &w))
		FUZZ_HOLDS(w.claim_mib && w.gpus >= 1 && w.gpus <= 1024 && strstr(text, "#RAD"));	/* its options may stand in quotes */
	return 0;
}
