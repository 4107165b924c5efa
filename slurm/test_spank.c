/* SPDX-License-Identifier: MIT
 * The SPANK plugin as slurmstepd calls it, with Slurm's side made up here, and a shell script for its helper: what is told,
 * what tasks get, and that whatever the helper does, no hook fails and none waits beyond its limit.
 */
#include <slurm/slurm.h>
#include <slurm/spank.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

/* Slurm's side ----------------------------------------------------------------------------------------------------------- */

static struct {
	enum spank_context context;
	uint32_t step;
	int status;
	char env[16][2][256];	/* of the job: names and values */
	size_t n_env;
	struct spank_option *option;
} slurm;

extern slurm_conf_t slurm_conf;
slurm_conf_t slurm_conf;

static char folder[] = "/tmp/rad-spank.XXXXXX";

spank_context_t spank_context(void)
{
	return slurm.context;
}

spank_err_t spank_option_register(spank_t sp, struct spank_option *opt)
{
	(void)sp;
	slurm.option = opt;
	return ESPANK_SUCCESS;
}

spank_err_t spank_get_item(spank_t sp, spank_item_t item, ...)
{
	va_list ap;
	(void)sp;
	va_start(ap, item);
	void *out = va_arg(ap, void *);
	va_end(ap);
	switch (item) {
	case S_JOB_ID: *(uint32_t *)out = 7; break;
	case S_JOB_STEPID: *(uint32_t *)out = slurm.step; break;
	case S_JOB_UID: *(uid_t *)out = 1000; break;
	case S_JOB_GID: *(gid_t *)out = 100; break;
	case S_TASK_ID: *(int *)out = 0; break;
	case S_TASK_EXIT_STATUS: *(int *)out = slurm.status; break;
	default: return ESPANK_BAD_ARG;
	}
	return ESPANK_SUCCESS;
}

static char *find(const char *name)
{
	for (size_t i = 0; i < slurm.n_env; i++)
		if (!strcmp(slurm.env[i][0], name))
			return slurm.env[i][1];
	return NULL;
}

spank_err_t spank_getenv(spank_t sp, const char *var, char *buf, int len)
{
	const char *value = find(var);
	(void)sp;
	if (!value)
		return ESPANK_ENV_NOEXIST;
	snprintf(buf, (size_t)len, "%s", value);
	return ESPANK_SUCCESS;
}

spank_err_t spank_setenv(spank_t sp, const char *var, const char *val, int overwrite)
{
	char *value = find(var);
	(void)sp;
	if (value && !overwrite)
		return ESPANK_ENV_EXISTS;
	if (!value) {
		snprintf(slurm.env[slurm.n_env][0], 256, "%s", var);
		value = slurm.env[slurm.n_env++][1];
	}
	snprintf(value, 256, "%s", val);
	return ESPANK_SUCCESS;
}

void slurm_info(const char *fmt, ...)
{
	(void)fmt;
}

void slurm_error(const char *fmt, ...)
{
	(void)fmt;
}

/* A job ------------------------------------------------------------------------------------------------------------------ */

/* In a process of its own, since the plugin keeps what it knows of its one job; its exit code is what a task would end with. */
static int job(const char *helper, const char *settings, int (*check)(void))
{
	char path[64], conf[64], arg[128], *argv[] = { arg, "announce_limit=1", "end_limit=1", "place_limit=1", (char *)settings, NULL };
	snprintf(path, sizeof path, "%s/helper", folder);
	snprintf(conf, sizeof conf, "%s/told", folder);
	unlink(conf);
	FILE *f = fopen(path, "w");
	fprintf(f, "#!/bin/sh\necho \"$*\" >>%s/told\n%s\n", folder, helper);
	fclose(f);
	chmod(path, 0755);
	snprintf(arg, sizeof arg, "helper=%s", path);
	pid_t pid = fork();
	if (!pid) {
		int ac = settings ? 5 : 4, rc = 0;
		rc |= slurm_spank_init(NULL, ac, argv);
		rc |= slurm_spank_init_post_opt(NULL, ac, argv);
		rc |= slurm_spank_task_init_privileged(NULL, ac, argv);
		pid_t task = fork();
		if (!task)
			_exit(slurm_spank_task_init(NULL, ac, argv) || (check && check()));
		int status = 0;
		waitpid(task, &status, 0);
		rc |= slurm_spank_task_exit(NULL, ac, argv);
		rc |= slurm_spank_exit(NULL, ac, argv);
		_exit(rc ? 200 : WEXITSTATUS(status));
	}
	int status = 0;
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static char *told(void)
{
	static char text[8192];
	char path[64];
	snprintf(path, sizeof path, "%s/told", folder);
	FILE *f = fopen(path, "r");
	size_t n = f ? fread(text, 1, sizeof text - 1, f) : 0;
	text[n] = 0;
	if (f)
		fclose(f);
	return text;
}

static void has(const char *words)
{
	if (!strstr(told(), words))
		fail_msg("'%s' is not in: %s", words, told());
}

static void env(const char *name, const char *value);

/* Slurm gave it that GPU. */
static void gpu(const char *index)
{
	env("SLURM_GPUS_ON_NODE", "1");
	env("CUDA_VISIBLE_DEVICES", index);
}

static void env(const char *name, const char *value)
{
	spank_setenv(NULL, name, value, 1);
}

static char both_kinds[] = "gpu,shard";

static int setup(void **state)
{
	(void)state;
	memset(&slurm, 0, sizeof slurm);
	slurm.context = S_CTX_REMOTE;
	slurm.step = SLURM_BATCH_SCRIPT;
	slurm_conf.gres_plugins = both_kinds;
	return 0;
}

#define PLACED(more) "[ $1 = announce ] || exit 0; printf 'id=12\\0joined=0\\0RAD_TASK_ID=12\\0CUDA_VISIBLE_DEVICES=3\\0" more "'"

/* Tests ------------------------------------------------------------------------------------------------------------------- */

static int slurms_own(void)
{
	return strcmp(find("RAD_TASK_ID") ? find("RAD_TASK_ID") : "", "12") || strcmp(find("CUDA_VISIBLE_DEVICES"), "1");
}

static void a_job_is_told_and_its_end(void **state)
{
	(void)state;
	env("SLURM_JOB_GPUS", "1");
	gpu("1");
	env("SLURM_SHARDS_ON_NODE", "8");
	env("SLURM_RAD_MEM", "8100");
	slurm.status = 1 << 8;
	assert_int_equal(job(PLACED(""), NULL, slurms_own), 0);
	has("announce --socket=/run/rad/radd.sock --job=7 --uid=1000 --gid=100");
	has("--pieces=8 --gpu-mem=8100");
	has("--at=1");
	has("depart --socket=/run/rad/radd.sock --id=12 --job=7 --restarts=0 --uid=1000 --gid=100 --exit-code=1 --signal=0");
}

/* sbatch takes along what the step says that it runs in. */
static void a_batch_script_does_not_have_the_gpus_of_the_step_it_came_from(void **state)
{
	(void)state;
	env("SLURM_STEP_GPUS", "5");
	env("SLURM_JOB_GPUS", "1");
	gpu("0");
	assert_int_equal(job(PLACED(""), NULL, NULL), 0);
	has("--at=1");
	slurm.step = 0;
	assert_int_equal(job(PLACED(""), NULL, NULL), 0);
	has("--at=5");
}

/* Without, its word that is none would keep radd from being told. */
static void how_many_gpus_it_was_given_is_not_its_users_word(void **state)
{
	(void)state;
	gpu("1");
	env("SLURM_RAD_GPUS", "none");
	assert_int_equal(job(PLACED(""), NULL, NULL), 0);
	has("--at=1");
	assert_null(strstr(told(), "--gpus="));
}

/* Below slurmstepd's folder, which may be the user's, stands what he likes. */
static void paths_are_whole(void **state)
{
	(void)state;
	gpu("1");
	assert_int_equal(job(PLACED(""), "socket=radd.sock", NULL), 0);
	has("--socket=/run/rad/radd.sock");
	assert_int_equal(job(PLACED(""), "helper=rad-slurm", NULL), 0);
	has("announce");
}

static int servers(void)
{
	return strcmp(find("CUDA_VISIBLE_DEVICES"), "3") || find("RAD_MPS") || strcmp(find("XLA_FLAG"), "mine");
}

static void a_client_of_our_server_counts_gpus_as_that_does(void **state)
{
	(void)state;
	gpu("1");
	env("XLA_FLAG", "mine");
	assert_int_equal(job(PLACED("RAD_MPS=1\\0XLA_FLAG=ours\\0"), NULL, servers), 0);
}

static void what_is_not_ours_is_left_alone(void **state)
{
	(void)state;
	assert_int_equal(job(PLACED(""), NULL, NULL), 0);	/* no GPU */
	assert_string_equal(told(), "");
	env("CUDA_VISIBLE_DEVICES", "1");
	assert_int_equal(job(PLACED(""), NULL, NULL), 0);	/* its user's word */
	assert_string_equal(told(), "");
	env("SLURM_GPUS_ON_NODE", "1");
	slurm.context = S_CTX_ALLOCATOR;
	assert_int_equal(job(PLACED(""), NULL, NULL), 0);
	assert_string_equal(told(), "");
	slurm.context = S_CTX_REMOTE;
	slurm.step = SLURM_EXTERN_CONT;
	assert_int_equal(job(PLACED(""), NULL, NULL), 0);
	assert_string_equal(told(), "");
}

/* Where Slurm has no such thing, it neither sets the variables nor takes a user's own out. */
static void a_word_that_slurm_does_not_keep_is_its_users(void **state)
{
	static char others[] = "radmem, gpux,mygpu", gpus[] = "radmem,gpu";
	(void)state;
	gpu("1");
	env("SLURM_SHARDS_ON_NODE", "8");
	slurm_conf.gres_plugins = others;
	assert_int_equal(job(PLACED(""), NULL, NULL), 0);
	assert_string_equal(told(), "");
	slurm_conf.gres_plugins = NULL;
	assert_int_equal(job(PLACED(""), NULL, NULL), 0);
	assert_string_equal(told(), "");
	slurm_conf.gres_plugins = gpus;
	assert_int_equal(job(PLACED(""), NULL, NULL), 0);
	has("--at=1");
	assert_null(strstr(told(), "--pieces"));
}

static void another_step_tells_no_end(void **state)
{
	(void)state;
	gpu("1");
	assert_int_equal(job("printf 'id=12\\0joined=1\\0RAD_TASK_ID=12\\0'", NULL, NULL), 0);
	has("announce");
	assert_null(strstr(told(), "depart"));
}

static double now_s(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Whoever hangs for ever is ended, and what he started. */
static void whatever_the_helper_does_the_job_runs(void **state)
{
	static const char *const helpers[] = {
		"sleep 1000", "sleep 1000 & exit 0", "trap '' TERM; while :; do :; done", "exit 1", "kill -9 $$", "printf nonsense",
		"printf 'id='", "printf '\\0\\0\\0\\0'", "printf 'id=1\\0'", "head -c 1000000 /dev/zero", "head -c 1000000 /dev/urandom",
		"printf 'id=12\\0joined=0\\0=\\0A\\0=B\\0'",
	};
	(void)state;
	for (size_t i = 0; i < sizeof helpers / sizeof *helpers; i++) {
		setup(NULL);
		gpu("1");
		double began = now_s();
		if (job(helpers[i], NULL, NULL))
			fail_msg("%s", helpers[i]);
		assert_true(now_s() - began < 60);
	}
	assert_int_equal(job("exit 0", "helper=/nonexistent", NULL), 0);
}

static void a_job_without_a_place_is_put_back_so_often(void **state)
{
	(void)state;
	env("SLURM_JOB_PARTITION", "colo");
	assert_int_equal(job("exit 75", "place=colo", NULL), 75);
	has("--place=1");
	assert_int_equal(job("sleep 1000", "place=colo", NULL), 75);
	env("SLURM_RESTART_COUNT", "19");
	assert_int_equal(job("exit 75", "place=colo", NULL), 75);
	env("SLURM_RESTART_COUNT", "20");
	assert_int_equal(job("exit 75", "place=colo", NULL), 74);
	assert_null(strstr(told(), "depart"));
	/* What no time helps. */
	env("SLURM_RESTART_COUNT", "0");
	assert_int_equal(job("printf 'it asks for nothing\\0'; exit 74", "place=colo", NULL), 74);
}

static int radds(void)
{
	return strcmp(find("CUDA_VISIBLE_DEVICES"), "3");
}

static void where_radd_places_its_gpus_count(void **state)
{
	(void)state;
	env("SLURM_JOB_PARTITION", "colo");
	env("CUDA_VISIBLE_DEVICES", "NoDevFiles");
	assert_int_equal(job(PLACED(""), "place=night,colo", radds), 0);
	has("--place=1");
	assert_null(strstr(told(), "--at="));
}

static void a_whole_gpu_is_alone(void **state)
{
	(void)state;
	gpu("1");
	env("SLURM_SHARDS_ON_NODE", "40");
	env("SLURM_RAD_MEM", "8192");
	assert_int_equal(job(PLACED(""), "gpus=2x40G", NULL), 0);
	has("--exclusive");
	assert_null(strstr(told(), "--gpu-mem"));
}

int main(void)
{
#define T(f) cmocka_unit_test_setup(f, setup)
	const struct CMUnitTest tests[] = {
		T(a_job_is_told_and_its_end), T(a_client_of_our_server_counts_gpus_as_that_does), T(what_is_not_ours_is_left_alone),
		T(another_step_tells_no_end), T(whatever_the_helper_does_the_job_runs), T(a_job_without_a_place_is_put_back_so_often),
		T(where_radd_places_its_gpus_count), T(a_whole_gpu_is_alone), T(paths_are_whole),
		T(a_batch_script_does_not_have_the_gpus_of_the_step_it_came_from), T(how_many_gpus_it_was_given_is_not_its_users_word),
		T(a_word_that_slurm_does_not_keep_is_its_users),
	};
#undef T
	char command[64];
	if (!mkdtemp(folder))
		return 1;
	setenv("RAD_SLURM_CONF", "/nonexistent", 1);
	int rc = cmocka_run_group_tests_name("spank", tests, NULL, NULL);
	snprintf(command, sizeof command, "rm -rf %s", folder);
	return system(command) ? 1 : rc;
}
