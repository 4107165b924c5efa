/* SPDX-License-Identifier: MIT
 * rad-slurm: what Slurm's plugins have done by a program of its own, so that neither a hanging radd nor a library of ours is in
 * one of Slurm's processes; and what an administrator runs beside slurmctld.
 *
 *	rad-slurm announce ...	a step has come (the SPANK plugin): radd is told, or asked for a place
 *	rad-slurm depart ...	it ended: radd is told how, and its verdict goes into the job's comment
 *	rad-slurm recover	beside slurmctld: jobs that ran out of GPU memory start again, with a whole GPU
 *
 * Who calls the first two has a deadline and kills them, so they wait without one where radd hangs. Of an end a radd that is being
 * restarted is told as soon as it is there.
 */
#include "helper.h"

#include "base/args.h"
#include "base/error.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const struct {
	const char *name, *help;
	int (*run)(int argc, char **argv, struct error *err);
	bool by_plugin;
} verbs[] = {
	{ "announce", "tell radd of a job that has come, or ask it for a place", helper_announce, true },
	{ "depart", "tell radd how a job ended, and Slurm what radd makes of it", helper_depart, true },
	{ "recover", "start jobs again, with a whole GPU, that ran out of GPU memory", helper_recover, false },
};

static int usage(void)
{
	puts("Usage: rad-slurm announce|depart|recover [options]");
	for (size_t i = 0; i < sizeof verbs / sizeof *verbs; i++)
		printf("  %-10s %s\n", verbs[i].name, verbs[i].help);
	return 0;
}

int helper_options(int argc, char **argv, const struct args_option *options, struct error *err)
{
	struct args a;
	int rc = args_read(&a, argc, argv, options, ARGS_ANYWHERE, err);
	if (!rc && a.help) {
		printf("Usage: rad-slurm %s [options]\n", argv[0]);
		args_help(stdout, options, 0);
		rc = 1;
	} else if (!rc && a.n_words) {
		rc = error_set(err, ERR_INVALID, "%s: '%.100s' is no option", argv[0], a.words[0]);
	}
	args_clear(&a);
	return rc;
}

int main(int argc, char **argv)
{
	struct error err = ERROR_INIT;
	if (argc < 2 || !strcmp(argv[1], "--help") || !strcmp(argv[1], "-h"))
		return argc < 2 ? usage(), 2 : usage();
	for (size_t i = 0; i < sizeof verbs / sizeof *verbs; i++) {
		if (strcmp(argv[1], verbs[i].name))
			continue;
		if (verbs[i].by_plugin && chdir("/"))	/* slurmstepd's folder may be the user's, and may not answer */
			return 1;
		int rc = verbs[i].run(argc - 1, argv + 1, &err);
		if (rc < 0)
			fprintf(stderr, "rad-slurm: %s\n", err.text);
		if (rc < 0 && verbs[i].by_plugin)	/* which logs it */
			printf("%s%c", err.text, 0);
		return rc < 0 ? -rc : rc;
	}
	fprintf(stderr, "rad-slurm: '%.40s': no such command: announce, depart or recover\n", argv[1]);
	return 2;
}
