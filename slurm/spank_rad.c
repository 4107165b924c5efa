/* SPDX-License-Identifier: MIT
 * The SPANK plugin `rad`: tells the node's radd of jobs that come and how they ended, gives tasks the variables by which they
 * share a GPU, and, in partitions where radd places, has Slurm take back what finds no place now.
 *
 *	required /usr/lib/rad-rm/slurm/rad.so [SETTING=VALUE...]	in plugstack.conf; settings are those of rad-slurm.conf
 *
 * It is loaded into slurmstepd, which runs as root: so it does next to nothing itself. A program of ours speaks to radd
 * (helper.c), with a deadline. It fails open: where there is no radd, or one that does not answer, the job runs as it would
 * without us; no hook ever returns an error, since one of user_init's drains the node.
 *
 * What is where, in the order of the calls: init_post_opt runs once for each step in slurmstepd, as root, before its tasks are
 * forked: the job is announced there. task_init_privileged, in each task, sets its variables. task_init, in each task as its
 * user and with its output open, notes which file that is, or refuses. task_exit and exit, in slurmstepd, tell the end.
 */
#include "call.h"
#include "cli/slurm_conf.h"

#include <slurm/slurm.h>
#include <slurm/spank.h>

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#ifndef RAD_SLURM_HELPER
#define RAD_SLURM_HELPER "/usr/bin/rad-slurm"
#endif
#define NOT_NOW 75		/* of the helper, and of the job: RequeueExit in slurm.conf */
#define GIVEN_UP 74		/* of the helper: it never will have; of the job: its tries are over, too */
#define TASKS 64		/* of a step on one node, whose output is known */
#define MOST_OUT 65536
#define WORDS 48

#pragma GCC visibility push(default)
SPANK_PLUGIN(rad, 1)
#pragma GCC visibility pop

#define PUBLIC __attribute__((visibility("default")))

/* Slurm's own settings, in slurmstepd. */
extern slurm_conf_t slurm_conf __attribute__((weak));

/* What tasks leave for slurmstepd, in memory that both have: where their errors went, and how often the job was started before,
 * which slurmstepd of 22.05 itself does not know yet when it forks them. */
struct left { char restarts[16], output[TASKS][PATH_MAX]; };

static struct {
	struct slurm_conf conf;
	char mem[32];		/* --rad-gpu-mem */
	bool placed;		/* radd places this job */
	bool told, joined;	/* radd knows of it; by another step, which tells its end */
	char id[64], job[64], uid[16], gid[16];
	char variables[MOST_OUT];	/* "NAME=value" and a NUL each */
	size_t n_variables;
	bool refused, never;	/* radd places it, and gave it no place; it is of no use to try again, as job.variables says */
	struct left *left;	/* NULL: there is no memory */
	int status, failed_task;	/* the first exit status that was not 0, and whose */
} job = { .failed_task = -1 };

/* Options and settings ---------------------------------------------------------------------------------------------------- */

static int on_mem(int val, const char *word, int remote)
{
	(void)val, (void)remote;
	snprintf(job.mem, sizeof job.mem, "%s", word ? word : "");
	return ESPANK_SUCCESS;
}

static struct spank_option mem_option = {
	.name = "rad-gpu-mem", .arginfo = "SIZE", .usage = "GPU memory the job takes on each of its GPUs (RAD-RM)", .has_arg = 1,
	.cb = on_mem,
};

static void read_settings(int ac, char *argv[])
{
	struct error err = ERROR_INIT;
	char path[PATH_MAX];
	slurm_conf_default(&job.conf);
	slurm_conf_path(path);
	for (int i = 0; i < ac; i++)
		if (!strncmp(argv[i], "conf=", 5))
			snprintf(path, sizeof path, "%s", argv[i] + 5);
	if (slurm_conf_read(path, &job.conf, &err))
		slurm_error("rad: %s", err.text);
	for (int i = 0; i < ac; i++) {
		char key[64];
		const char *value = strchr(argv[i], '=');
		if (!value || !strncmp(argv[i], "conf=", 5))
			continue;
		snprintf(key, sizeof key, "%.*s", (int)(value - argv[i]), argv[i]);
		if (slurm_conf_set(&job.conf, key, value + 1, &err))
			slurm_error("rad: plugstack.conf: %s", err.text);
	}
}

PUBLIC int slurm_spank_init(spank_t sp, int ac, char **argv)
{
	read_settings(ac, argv);
	if (spank_option_register(sp, &mem_option) != ESPANK_SUCCESS)
		slurm_error("rad: --rad-gpu-mem cannot be registered");
	return ESPANK_SUCCESS;
}

/* The job -------------------------------------------------------------------------------------------------------------- */

/* The helper's command line, as it grows. */
struct words { char *argv[WORDS + 1]; char text[16384]; size_t n, used; };

static void add_word(struct words *w, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void add_word(struct words *w, const char *fmt, ...)
{
	va_list ap;
	if (w->n == WORDS)
		return;
	va_start(ap, fmt);
	int len = vsnprintf(w->text + w->used, sizeof w->text - w->used, fmt, ap);
	va_end(ap);
	if (len < 0 || (size_t)len >= sizeof w->text - w->used)
		return;
	w->argv[w->n++] = w->text + w->used;
	w->argv[w->n] = NULL;
	w->used += (size_t)len + 1;
}

static void begin_words(struct words *w, const char *verb)
{
	memset(w, 0, sizeof *w);
	add_word(w, "%s", *job.conf.helper ? job.conf.helper : RAD_SLURM_HELPER);
	add_word(w, "%s", verb);
	add_word(w, "--socket=%s", job.conf.socket);
}

static bool get_env(spank_t sp, const char *name, char *value, size_t size)
{
	*value = 0;
	return spank_getenv(sp, name, value, (int)size) == ESPANK_SUCCESS && *value;
}

/* `--name=` and what that variable of the job says, if it says anything. */
static bool add_env(spank_t sp, struct words *w, const char *option, const char *name)
{
	char value[1024];
	if (!get_env(sp, name, value, sizeof value))
		return false;
	add_word(w, "--%s=%s", option, value);
	return true;
}

/* Whether Slurm here gives such a thing. What it says of it in a job's environment is Slurm's word only then; else its user's. */
static bool slurm_gives(const char *gres)
{
	const char *types = &slurm_conf ? slurm_conf.gres_plugins : NULL;
	return types && slurm_conf_lists(types, gres, strlen(gres));
}

/* The GPUs that Slurm gave it, by its own count where it says that: CUDA's count begins at 0 in a device cgroup. A user's own
 * CUDA_VISIBLE_DEVICES, which goes along with a job that has none, says nothing; nor does SLURM_STEP_GPUS of a batch script,
 * which is of the step that its sbatch ran in. */
static bool add_gpus(spank_t sp, struct words *w, uint32_t step)
{
	char count[16];
	if (!slurm_gives("gpu") || !get_env(sp, "SLURM_GPUS_ON_NODE", count, sizeof count) || !atoi(count))
		return false;
	return (step != SLURM_BATCH_SCRIPT && add_env(sp, w, "at", "SLURM_STEP_GPUS")) ||
	       add_env(sp, w, "at", "SLURM_JOB_GPUS") || add_env(sp, w, "at", "CUDA_VISIBLE_DEVICES");
}

static bool read_job(spank_t sp, uint32_t *step)
{
	uint32_t id = 0;
	uid_t uid = 0;
	gid_t gid = 0;
	if (spank_get_item(sp, S_JOB_ID, &id) != ESPANK_SUCCESS || spank_get_item(sp, S_JOB_STEPID, step) != ESPANK_SUCCESS ||
	    spank_get_item(sp, S_JOB_UID, &uid) != ESPANK_SUCCESS || spank_get_item(sp, S_JOB_GID, &gid) != ESPANK_SUCCESS)
		return false;
	snprintf(job.job, sizeof job.job, "%u", id);
	snprintf(job.uid, sizeof job.uid, "%u", (unsigned)uid);
	snprintf(job.gid, sizeof job.gid, "%u", (unsigned)gid);
	return true;
}

/* No step of the user's: Slurm's own, for what comes by ssh, and srun's wait for one. */
static bool is_ours(uint32_t step)
{
	return step != SLURM_EXTERN_CONT && step != SLURM_PENDING_STEP;
}

/* Of a job that starts again, what it is given now says more than what it asked for at first: rad-slurm recover raised that. */
static void add_what_it_asked(spank_t sp, struct words *w)
{
	char pieces[16], value[16];
	unsigned all = slurm_conf_all(&job.conf);
	bool given = slurm_gives("shard") && get_env(sp, "SLURM_SHARDS_ON_NODE", pieces, sizeof pieces);
	bool whole = given && all && strtoul(pieces, NULL, 10) >= all;
	if (whole || get_env(sp, "SLURM_RAD_EXCLUSIVE", value, sizeof value))
		add_word(w, "--exclusive");
	if (given && !whole)
		add_word(w, "--pieces=%s", pieces);
	if (!whole && *job.mem)
		add_word(w, "--gpu-mem=%s", job.mem);
	else if (!whole)
		add_env(sp, w, "gpu-mem", "SLURM_RAD_MEM");
	add_word(w, "--piece=%llu", (unsigned long long)job.conf.piece_mib);
	add_word(w, "--all=%u", all);
	if (job.placed)		/* else Slurm says it */
		add_env(sp, w, "gpus", "SLURM_RAD_GPUS");
	add_env(sp, w, "signature", "SLURM_RAD_SIGNATURE");
	add_env(sp, w, "name", "SLURM_JOB_NAME");
}

/* Announcing -------------------------------------------------------------------------------------------------------------- */

/* The first of what the helper printed is the id, and whether another step told of it; the rest is for the tasks. */
static void keep_answer(size_t n)
{
	char *first = job.variables, *second = memchr(first, 0, n);
	job.told = !strncmp(first, "id=", 3) && second && second + 1 < first + n;
	if (!job.told)
		return;
	snprintf(job.id, sizeof job.id, "%.*s", (int)sizeof job.id - 1, first + 3);
	job.joined = !strcmp(second + 1, "joined=1");
	size_t used = (size_t)(second + 1 - first) + strlen(second + 1) + 1;
	job.n_variables = used < n ? n - used : 0;
	memmove(job.variables, job.variables + used, job.n_variables);
}

/* What it came to, in words; `said` is what the helper printed. */
static const char *outcome(int rc, const char *said)
{
	return rc == CALL_LATE ? "no answer in time" : rc == CALL_FAILED ? "the helper could not be run" :
	       rc == NOT_NOW ? "it has no place" : *said ? said : "no reason was given";
}

static void announce(spank_t sp, uint32_t step)
{
	struct words w;
	char partition[256];
	size_t n = 0;
	get_env(sp, "SLURM_JOB_PARTITION", partition, sizeof partition);
	job.placed = slurm_conf_places(&job.conf, partition) == SLURM_PLACES_IN_ALL;
	begin_words(&w, "announce");
	add_word(&w, "--job=%s", job.job);
	add_word(&w, "--uid=%s", job.uid);
	add_word(&w, "--gid=%s", job.gid);
	add_word(&w, "--pid=%d", (int)getpid());
	add_what_it_asked(sp, &w);
	if (job.placed)
		add_word(&w, "--place=%lld", (long long)job.conf.place_limit_s);
	else if (!add_gpus(sp, &w, step))
		return;		/* it has none: nothing of ours */
	int64_t limit_ms = 1000 * (job.placed ? job.conf.place_limit_s + job.conf.announce_limit_s : job.conf.announce_limit_s);
	int rc = call_run(w.argv, NULL, limit_ms, 0, job.variables, sizeof job.variables, &n);
	if (!rc)
		keep_answer(n);
	if (job.told)
		return;
	slurm_info("rad: job %s: radd was not told of it: %s", job.job, outcome(rc, job.variables));
	job.refused = job.placed;
	job.never = job.placed && rc == GIVEN_UP;
}

PUBLIC int slurm_spank_init_post_opt(spank_t sp, int ac, char **argv)
{
	uint32_t step;
	(void)ac, (void)argv;
	if (spank_context() != S_CTX_REMOTE || !read_job(sp, &step) || !is_ours(step))
		return ESPANK_SUCCESS;
	job.left = mmap(NULL, sizeof *job.left, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (job.left == MAP_FAILED)
		job.left = NULL;
	announce(sp, step);
	return ESPANK_SUCCESS;
}

/* Tasks ------------------------------------------------------------------------------------------------------------------- */

/* What the user said himself stands; what Slurm says of GPUs stands too, unless the job is a client of our MPS server, which
 * counts them in its own way, or radd chose them. */
static bool stands(const char *name, bool mps)
{
	if (!strncmp(name, "XLA_", 4) || !strncmp(name, "TF_", 3) || !strcmp(name, "PYTHONUNBUFFERED"))
		return true;
	return !job.placed && !mps && (!strcmp(name, "CUDA_VISIBLE_DEVICES") || !strcmp(name, "CUDA_DEVICE_ORDER"));
}

static bool has_variable(const char *begin)
{
	for (size_t i = 0; i < job.n_variables; i += strlen(job.variables + i) + 1)
		if (!strncmp(job.variables + i, begin, strlen(begin)))
			return true;
	return false;
}

PUBLIC int slurm_spank_task_init_privileged(spank_t sp, int ac, char **argv)
{
	(void)ac, (void)argv;
	bool mps = has_variable("RAD_MPS=1");
	for (size_t i = 0; i < job.n_variables; i += strlen(job.variables + i) + 1) {
		char name[128];
		const char *item = job.variables + i, *value = strchr(item, '=');
		if (!value || (size_t)(value - item) >= sizeof name)
			continue;
		memcpy(name, item, (size_t)(value - item));
		name[value - item] = 0;
		if (strcmp(name, "RAD_MPS"))
			spank_setenv(sp, name, value + 1, !stands(name, mps));
	}
	return ESPANK_SUCCESS;
}

static void note_output(spank_t sp)
{
	int task = -1;
	struct stat st;
	if (spank_get_item(sp, S_TASK_ID, &task) != ESPANK_SUCCESS || task < 0 || task >= TASKS)
		return;
	/* Errors go there; where that is no file, nobody can read it again. */
	if (fstat(STDERR_FILENO, &st) || !S_ISREG(st.st_mode))
		return;
	ssize_t n = readlink("/proc/self/fd/2", job.left->output[task], PATH_MAX - 1);
	job.left->output[task][n < 0 ? 0 : n] = 0;
}

/* A job without a place is put back, so often; then it ends, and says so. */
static void refuse(const char *restarts)
{
	bool again = atoll(restarts) < job.conf.place_tries && !job.never;
	if (job.never)
		dprintf(STDERR_FILENO, "rad: no place on a GPU of this node: %s\n", job.variables);
	else if (again)
		dprintf(STDERR_FILENO, "rad: no place on a GPU of this node now: exit %d, by which Slurm starts the job again later (%s of "
			"%lld times so far)\n", NOT_NOW, restarts, (long long)job.conf.place_tries);
	else
		dprintf(STDERR_FILENO, "rad: no place on a GPU in %lld tries (place_tries of rad-slurm.conf): submit it again\n",
			(long long)job.conf.place_tries + 1);
	_exit(again ? NOT_NOW : GIVEN_UP);
}

PUBLIC int slurm_spank_task_init(spank_t sp, int ac, char **argv)
{
	char restarts[16];
	(void)ac, (void)argv;
	if (!get_env(sp, "SLURM_RESTART_COUNT", restarts, sizeof restarts))
		strcpy(restarts, "0");
	if (job.refused)
		refuse(restarts);
	if (job.told && job.left) {
		memcpy(job.left->restarts, restarts, sizeof restarts);
		note_output(sp);
	}
	return ESPANK_SUCCESS;
}

PUBLIC int slurm_spank_task_exit(spank_t sp, int ac, char **argv)
{
	int status = 0, task = -1;
	(void)ac, (void)argv;
	if (!job.told || job.status || spank_get_item(sp, S_TASK_EXIT_STATUS, &status) != ESPANK_SUCCESS || !status)
		return ESPANK_SUCCESS;
	job.status = status;
	job.failed_task = spank_get_item(sp, S_TASK_ID, &task) == ESPANK_SUCCESS && task >= 0 && task < TASKS ? task : -1;
	return ESPANK_SUCCESS;
}

PUBLIC int slurm_spank_exit(spank_t sp, int ac, char **argv)
{
	struct words w;
	char out[512];
	size_t n;
	(void)sp, (void)ac, (void)argv;
	if (!job.told || job.joined)
		return ESPANK_SUCCESS;
	begin_words(&w, "depart");
	add_word(&w, "--id=%s", job.id);
	add_word(&w, "--job=%s", job.job);
	add_word(&w, "--restarts=%.15s", job.left && *job.left->restarts ? job.left->restarts : "0");
	add_word(&w, "--uid=%s", job.uid);
	add_word(&w, "--gid=%s", job.gid);
	add_word(&w, "--exit-code=%d", WIFEXITED(job.status) ? WEXITSTATUS(job.status) : 0);
	add_word(&w, "--signal=%d", WIFSIGNALED(job.status) ? WTERMSIG(job.status) : 0);
	add_word(&w, "--limit=%lld", (long long)job.conf.end_limit_s);
	if (job.left && job.failed_task >= 0 && *job.left->output[job.failed_task])
		add_word(&w, "--output=%.*s", PATH_MAX - 1, job.left->output[job.failed_task]);
	int rc = call_run(w.argv, NULL, 1000 * job.conf.end_limit_s, 0, out, sizeof out, &n);
	if (rc)
		slurm_info("rad: job %s: its end: %s", job.job, outcome(rc, out));
	return ESPANK_SUCCESS;
}
