/* SPDX-License-Identifier: MIT
 * job_submit/rad: in slurmctld, at each submission. What no GPU of the cluster has is refused at once, with a reason; Slurm
 * itself would let it wait for ever. A script that says what it needs (`#RAD --gpu-mem`) and asks Slurm for nothing gets what
 * its words mean, for where neither `rad sbatch` nor the client's plugin was asked.
 *
 * slurmctld holds its locks meanwhile, so nothing is asked of anybody here: rad-slurm.conf is read where it changed, and the
 * script is looked through.
 */
#include "cli/slurm_conf.h"
#include "cli/slurm_script.h"

#include <slurm/slurm.h>
#include <slurm/slurm_errno.h>

#include <pthread.h>
#include <stdio.h>
#include <sys/stat.h>

#define PUBLIC __attribute__((visibility("default")))

/* Of libslurmfull, which public headers do not declare: what slurmctld frees has to come from there. */
extern char *xstrdup(const char *text);
extern void slurm_error(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
extern void slurm_info(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
struct job_record;

/* slurmctld's own: the partition of a job that names none. One that has it no more leaves such a job to its node. */
extern char *default_part_name __attribute__((weak));

PUBLIC const char plugin_name[] = "What RAD-RM knows of GPUs";
PUBLIC const char plugin_type[] = "job_submit/rad";
PUBLIC const uint32_t plugin_version = SLURM_VERSION_NUMBER;

PUBLIC int init(void);
PUBLIC void fini(void);
PUBLIC int job_submit(job_desc_msg_t *job, uint32_t submit_uid, char **err_msg);
#if SLURM_VERSION_NUMBER >= SLURM_VERSION_NUM(23, 2, 0)
PUBLIC int job_modify(job_desc_msg_t *job, struct job_record *record, uint32_t submit_uid, char **err_msg);
#else
PUBLIC int job_modify(job_desc_msg_t *job, struct job_record *record, uint32_t submit_uid);
#endif

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct slurm_conf conf;
static struct timespec read_at;

static bool same_time(struct timespec a, struct timespec b)
{
	return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec;
}

/* A file that is wrong, or gone, leaves what was read last. */
static void settings(struct slurm_conf *out)
{
	struct error err = ERROR_INIT;
	struct slurm_conf fresh;
	char path[PATH_MAX];
	struct stat st;
	slurm_conf_path(path);
	pthread_mutex_lock(&lock);
	if (!stat(path, &st) && !same_time(st.st_mtim, read_at)) {
		read_at = st.st_mtim;
		slurm_conf_default(&fresh);
		if (slurm_conf_read(path, &fresh, &err))
			slurm_error("job_submit/rad: %s", err.text);
		else
			conf = fresh;
	}
	*out = conf;
	pthread_mutex_unlock(&lock);
}

PUBLIC int init(void)
{
	slurm_conf_default(&conf);
	return SLURM_SUCCESS;
}

PUBLIC void fini(void)
{
}

static int refuse(char **err_msg, const struct error *err)
{
	if (err_msg)
		*err_msg = xstrdup(err->text);
	return ESLURM_INVALID_GRES;
}

static int check_request(const struct slurm_conf *c, const char *tres, struct error *err)
{
	struct slurm_wish w = { .claim_mib = slurm_conf_gres(tres, "shard") * c->piece_mib, .gpus = 1 };
	unsigned gpus = slurm_conf_gres(tres, "gpu"), radmem = slurm_conf_gres(tres, "radmem");
	uint64_t most = 0;
	for (unsigned i = 0; i < c->n_kinds; i++)
		if (c->kinds[i].count * c->kinds[i].mib > most)
			most = c->kinds[i].count * c->kinds[i].mib;
	if (slurm_conf_fits(c, &w, err))
		return -1;
	w = (struct slurm_wish){ .gpus = gpus };
	if (gpus && slurm_conf_fits(c, &w, err))
		return -1;
	if (most && radmem * c->piece_mib > most)
		return error_set(err, ERR_INVALID, "radmem:%u: no node of this cluster has so much GPU memory", radmem);
	return 0;
}

static bool asks_for_nothing(const job_desc_msg_t *job)
{
	return !job->tres_per_node && !job->tres_per_job && !job->tres_per_socket && !job->tres_per_task;
}

/* "gres:shard:20" up to 23.02, "gres/shard:20" from 23.11. */
static char *tres_of(const char *gres)
{
	char text[SLURM_GRES + 8];
	snprintf(text, sizeof text, "gres%c%s", SLURM_VERSION_NUMBER >= SLURM_VERSION_NUM(23, 11, 0) ? '/' : ':', gres);
	return xstrdup(text);
}

static const char *partitions_of(const job_desc_msg_t *job)
{
	return job->partition && *job->partition ? job->partition : &default_part_name ? default_part_name : NULL;
}

/* What a script says becomes what the job asks for, where it asks for nothing itself. */
static int obey_script(const struct slurm_conf *c, job_desc_msg_t *job, struct error *err)
{
	struct slurm_wish w = { .gpus = 1 };
	char gres[SLURM_GRES];
	const char *why;
	if (!job->script || !slurm_script_wish(job->script, &w))
		return 0;
	w.placed = slurm_conf_places(c, partitions_of(job));
	if (!asks_for_nothing(job))
		return slurm_conf_fits(c, &w, err);
	if (slurm_conf_size(c, &w, gres, &why, err))
		return -1;
	job->tres_per_node = tres_of(gres);
	return 0;
}

/* Where radd places, memory that Slurm does not count would be taken by a user's own word: doc/slurm.md, decision 147. In
 * partitions of both kinds, shards and GPUs are had where Slurm places. */
static int check_place(const struct slurm_conf *c, const char *partitions, const job_desc_msg_t *job, struct error *err)
{
	enum slurm_places places = slurm_conf_places(c, partitions);
	bool of_slurm = job->tres_per_job || job->tres_per_task || job->tres_per_socket || slurm_conf_gres(job->tres_per_node, "shard") ||
			slurm_conf_gres(job->tres_per_node, "gpu");
	if (places == SLURM_PLACES_IN_NONE || slurm_conf_gres(job->tres_per_node, "radmem") ||
	    (places == SLURM_PLACES_IN_SOME && of_slurm))
		return 0;
	return error_set(err, ERR_INVALID, "partition %.100s: radd places there, by the GPU memory that a job asks for, and this one "
			 "asks for none: add --rad-gpu-mem=8G, '#RAD --gpu-mem=8G' or --gres=radmem:8", partitions);
}

PUBLIC int job_submit(job_desc_msg_t *job, uint32_t submit_uid, char **err_msg)
{
	struct error err = ERROR_INIT;
	struct slurm_conf c;
	(void)submit_uid;
	settings(&c);
	if (check_request(&c, job->tres_per_node, &err) || check_request(&c, job->tres_per_job, &err) || obey_script(&c, job, &err) ||
	    check_place(&c, partitions_of(job), job, &err))
		return refuse(err_msg, &err);
	return SLURM_SUCCESS;
}

/* What the job asks for otherwise stands in a record that no public header describes: a job that is moved to where radd places
 * says so again. */
#if SLURM_VERSION_NUMBER >= SLURM_VERSION_NUM(23, 2, 0)
PUBLIC int job_modify(job_desc_msg_t *job, struct job_record *record, uint32_t submit_uid, char **err_msg)
#else
PUBLIC int job_modify(job_desc_msg_t *job, struct job_record *record, uint32_t submit_uid)
#endif
{
	struct error err = ERROR_INIT;
	struct slurm_conf c;
	(void)record, (void)submit_uid;
	settings(&c);
	if (check_request(&c, job->tres_per_node, &err) || (job->partition && check_place(&c, job->partition, job, &err))) {
		slurm_info("job_submit/rad: %s", err.text);
		return ESLURM_INVALID_GRES;
	}
	return SLURM_SUCCESS;
}
