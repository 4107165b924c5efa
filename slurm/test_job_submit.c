/* SPDX-License-Identifier: MIT
 * job_submit/rad as slurmctld calls it: what is refused, with what words, and what a script's own words become.
 */
#include <slurm/slurm.h>
#include <slurm/slurm_errno.h>

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

extern int init(void);
extern int job_submit(job_desc_msg_t *job, uint32_t submit_uid, char **err_msg);
struct job_record;
#if SLURM_VERSION_NUMBER >= SLURM_VERSION_NUM(23, 2, 0)
extern int job_modify(job_desc_msg_t *job, struct job_record *record, uint32_t submit_uid, char **err_msg);
#else
extern int job_modify(job_desc_msg_t *job, struct job_record *record, uint32_t submit_uid);
#endif

char *xstrdup(const char *text);
char *xstrdup(const char *text)
{
	return strdup(text);
}

void slurm_info(const char *fmt, ...);
void slurm_info(const char *fmt, ...)
{
	(void)fmt;
}

void slurm_error(const char *fmt, ...);
void slurm_error(const char *fmt, ...)
{
	(void)fmt;
}

extern char *default_part_name;
char *default_part_name = "standard";

static char path[] = "/tmp/rad-job-submit.XXXXXX";

static void settings(const char *text)
{
	static time_t t = 1000;
	FILE *f = fopen(path, "w");
	fputs(text, f);
	fclose(f);
	t++;
	struct timespec times[2] = { { .tv_sec = t }, { .tv_sec = t } };
	assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
}

static const char *partition = "main";

/* What it asks for then; NULL: it was refused, with those words. */
static const char *submit(const char *tres, const char *script, const char *words)
{
	static char asked[64];
	char *why = NULL;
	job_desc_msg_t job = { .tres_per_node = tres ? strdup(tres) : NULL, .script = (char *)script, .partition = (char *)partition };
	int rc = job_submit(&job, 1000, &why);
	snprintf(asked, sizeof asked, "%s", job.tres_per_node ? job.tres_per_node : "");
	free(job.tres_per_node);
	if (words && (!rc || !why || !strstr(why, words)))
		fail_msg("%s, %s: rc %d, %s; expected: %s", tres, script, rc, why ? why : "no words", words);
	if (!words && rc)
		fail_msg("%s, %s: refused: %s", tres, script, why);
	free(why);
	return asked;
}

static void what_no_gpu_has_is_refused(void **state)
{
	(void)state;
	settings("gpus: 2x40G\n");
	submit("gres:shard:200", NULL, "200.0G does not fit any GPU of this cluster: the largest has 40.0G");
	submit("gres:gpu:9", NULL, "no node of this cluster has more than 2");
	submit("gres:radmem:81", NULL, "no node of this cluster has so much");
	submit(NULL, "#!/bin/sh\n#RAD --gpu-mem=41G\n", "41.0G does not fit");
	submit("gres:shard:40", NULL, NULL);
	submit("gres:gpu:2", NULL, NULL);
	submit("gres:radmem:80", NULL, NULL);
	submit("gres:craynetwork:1", NULL, NULL);
	submit(NULL, NULL, NULL);
}

static void a_script_says_what_it_needs(void **state)
{
	(void)state;
	settings("gpus: 2x40G\nplace: other\n");
	assert_string_equal(submit(NULL, "#!/bin/sh\n#RAD --gpu-mem=8G\ntrue\n", NULL), "gres:shard:8");
	assert_string_equal(submit(NULL, "#!/bin/sh\n#RAD --name x --gpu-mem 8G --gpus=2\n", NULL), "gres:gpu:2");
	assert_string_equal(submit(NULL, "#RAD --gpu-mem=8G -G 2\n", NULL), "gres:gpu:2");
	assert_string_equal(submit(NULL, "#RAD -G2 --gpu-mem=\"8G\"\t# each\n", NULL), "gres:gpu:2");
	assert_string_equal(submit(NULL, "#RAD\t--gpu-mem=8G\n#RAD --exclusive\n", NULL), "gres:shard:40");
	assert_string_equal(submit(NULL, "#RAD --policy=exclusive --gpu-mem=8G\n", NULL), "gres:shard:40");
	assert_string_equal(submit(NULL, "#RAD --exclusive --gpu-mem 8G --policy exclusive\n", NULL), "gres:shard:40");
	assert_string_equal(submit(NULL, "#RAD --gpu-mem=4G\n#RAD --gpu-mem 8G # --gpu-mem=9G\n", NULL), "gres:shard:8");
	assert_string_equal(submit("gres:shard:9", "#RAD --gpu-mem=8G\n", NULL), "gres:shard:9");
	assert_string_equal(submit(NULL, "#RAD --gpu-mem=much\n", NULL), "");
	assert_string_equal(submit(NULL, "#RAD --gpu-mem", NULL), "");
	assert_string_equal(submit(NULL, "#RAD --gpu-mem=0\n", NULL), "");	/* no client takes that either */
	submit("gres:shard:9", "#RAD --gpu-mem=80G\n", "does not fit any GPU");
	assert_string_equal(submit(NULL, "echo '#RAD'\n#RADIUS --gpu-mem=8G\n", NULL), "");
	settings("gpus: 2x40G\nplace: main\n");
	assert_string_equal(submit(NULL, "#RAD --gpu-mem=8G\n", NULL), "gres:radmem:8");
}

/* As rad submit and rad sbatch read them. */
static void what_only_looks_like_a_directive_is_none(void **state)
{
	(void)state;
	settings("gpus: 2x40G\nplace: other\n");
	assert_string_equal(submit(NULL, "#!/bin/bash\ncat >inner.sh <<EOF\n#RAD --gpu-mem=8G\nEOF\nsbatch inner.sh\n", NULL), "");
	assert_string_equal(submit(NULL, "cat <<-'A B' <<C\n#RAD --gpu-mem=8G\n\tA B\n#RAD --gpu-mem=4G\nC\n#RAD --gpu-mem=6G\n", NULL),
			    "gres:shard:6");
	submit(NULL, "cat <<EOF\n#RAD --gpu-mem=80G\nEOF\n", NULL);
	assert_string_equal(submit(NULL, "cat <<EOF\r\n#RAD --gpu-mem=9G\r\nEOF\r\n#RAD --gpu-mem=8G\r\n", NULL), "gres:shard:8");
	assert_string_equal(submit(NULL, "echo 'open\n#RAD --gpu-mem=8G\n'\n", NULL), "");
	assert_string_equal(submit(NULL, "#RAD mind the --gpu-mem=8G\n", NULL), "");
	/* behind a command it counts, and in Python no shell's rules hold */
	assert_string_equal(submit(NULL, "#!/bin/bash\ntrue $((1 << 2))\n#RAD --gpu-mem=8G\n", NULL), "gres:shard:8");
	assert_string_equal(submit(NULL, "#!/usr/bin/env python3\nx = 1 <<n\n#RAD --gpu-mem=8G\n", NULL), "gres:shard:8");
	assert_string_equal(submit(NULL, "#!/usr/bin/env bash\nx <<n\n#RAD --gpu-mem=8G\n", NULL), "");
}

static void where_radd_places_memory_is_asked_for(void **state)
{
	static const char *const none[] = { NULL, "gres:shard:8", "gres:gpu:1", "gres:craynetwork:1" };
	static const char *const some = "main,other";
	(void)state;
	settings("gpus: 2x40G\nplace: main, standard\n");
	for (size_t i = 0; i < sizeof none / sizeof *none; i++)
		submit(none[i], NULL, "partition main: radd places there");
	submit("gres:radmem:0", NULL, "radd places there");
	assert_string_equal(submit("gres:radmem:8", NULL, NULL), "gres:radmem:8");
	assert_string_equal(submit("gres:radmem:8", "#RAD --gpu-mem=4G\n", NULL), "gres:radmem:8");
	/* A job that names no partition is in Slurm's default one. */
	partition = NULL;
	submit(NULL, NULL, "partition standard: radd places there");
	assert_string_equal(submit(NULL, "#RAD --gpu-mem=4G\n", NULL), "gres:radmem:4");
	partition = "";
	submit(NULL, NULL, "partition standard: radd places there");
	/* Of several, Slurm takes one. */
	partition = "standard,main";
	submit(NULL, NULL, "partition standard,main: radd places there");
	assert_string_equal(submit(NULL, "#RAD --gpu-mem=4G\n", NULL), "gres:radmem:4");
	partition = some;
	submit(NULL, NULL, "partition main,other: radd places there");
	submit(NULL, "#RAD --gpu-mem=4G\n", "name partitions of one kind");
	submit("gres:radmem:8", "#RAD --gpu-mem=4G\n", NULL);
	submit("gres:shard:8", NULL, NULL);
	submit("gres:shard:8", "#RAD --gpu-mem=4G\n", NULL);
	submit("gres:craynetwork:1", NULL, "radd places there");
	partition = "other,others";
	submit(NULL, NULL, NULL);
	partition = "main";
}

static int modify(const char *to, const char *tres)
{
	job_desc_msg_t job = { .tres_per_node = (char *)tres, .partition = (char *)to };
#if SLURM_VERSION_NUMBER >= SLURM_VERSION_NUM(23, 2, 0)
	return job_modify(&job, NULL, 1000, NULL);
#else
	return job_modify(&job, NULL, 1000);
#endif
}

static void a_job_is_moved_to_where_radd_places_with_its_memory(void **state)
{
	(void)state;
	settings("gpus: 2x40G\nplace: main\n");
	assert_int_not_equal(modify("main", NULL), 0);
	assert_int_not_equal(modify("main", "gres:shard:8"), 0);
	assert_int_equal(modify("main", "gres:radmem:8"), 0);
	assert_int_equal(modify("other", NULL), 0);
	assert_int_equal(modify(NULL, "gres:radmem:8"), 0);
	assert_int_equal(modify(NULL, NULL), 0);
}

static void a_slip_in_the_settings_leaves_those_before(void **state)
{
	(void)state;
	settings("gpus: 2x40G\n");
	submit("gres:shard:41", NULL, "does not fit");
	settings("gpus: many\n");
	submit("gres:shard:41", NULL, "does not fit");
	unlink(path);
	submit("gres:shard:41", NULL, "does not fit");
	settings("gpus: 2x48G\n");
	submit("gres:shard:41", NULL, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_no_gpu_has_is_refused), cmocka_unit_test(a_script_says_what_it_needs),
		cmocka_unit_test(what_only_looks_like_a_directive_is_none),
		cmocka_unit_test(where_radd_places_memory_is_asked_for),
		cmocka_unit_test(a_job_is_moved_to_where_radd_places_with_its_memory),
		cmocka_unit_test(a_slip_in_the_settings_leaves_those_before),
	};
	int fd = mkstemp(path);
	if (fd < 0)
		return 1;
	close(fd);
	setenv("RAD_SLURM_CONF", path, 1);
	init();
	int rc = cmocka_run_group_tests_name("job_submit", tests, NULL, NULL);
	unlink(path);
	return rc;
}
