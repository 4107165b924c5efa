/* SPDX-License-Identifier: MIT
 * The rows of sbatch's options: each that is obeyed is one of ours, names and letters are there once, abbreviations are found
 * as getopt_long finds them, and what is said per task, GPU and CPU adds up as Slurm adds it.
 */
#include "submit/sbatch.h"

#include "base/scope.h"
#include "submit/options.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

/* Those of sbatch(1) of Slurm 22.05. */
static const char *const names[] = {
	"account", "acctg-freq", "array", "batch", "bb", "bbf", "begin", "chdir", "cluster-constraint", "clusters",
	"comment", "constraint", "container", "contiguous", "core-spec", "cores-per-socket", "cpu-freq", "cpus-per-gpu",
	"cpus-per-task", "deadline", "delay-boot", "dependency", "distribution", "error", "exclude", "exclusive", "export",
	"export-file", "extra-node-info", "get-user-env", "gid", "gpu-bind", "gpu-freq", "gpus", "gpus-per-node",
	"gpus-per-socket", "gpus-per-task", "gres", "gres-flags", "help", "hint", "hold", "ignore-pbs", "input", "job-name",
	"kill-on-invalid-dep", "licenses", "mail-type", "mail-user", "mcs-label", "mem", "mem-bind", "mem-per-cpu",
	"mem-per-gpu", "mincpus", "network", "nice", "no-kill", "no-requeue", "nodefile", "nodelist", "nodes", "ntasks",
	"ntasks-per-core", "ntasks-per-gpu", "ntasks-per-node", "ntasks-per-socket", "open-mode", "output", "overcommit",
	"oversubscribe", "parsable", "partition", "power", "prefer", "priority", "profile", "propagate", "qos", "quiet",
	"reboot", "requeue", "reservation", "signal", "sockets-per-node", "spread-job", "switches", "test-only",
	"thread-spec", "threads-per-core", "time", "time-min", "tmp", "uid", "usage", "use-min-nodes", "verbose", "version",
	"wait", "wait-all-nodes", "wckey", "wrap",
};

static void rows_hold(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT_OF(names); i++) {
		const struct sbatch_option *o = sbatch_find(names[i]);
		if (!o || strcmp(o->name, names[i]))
			fail_msg("--%s has no row", names[i]);
		if (o->letter && sbatch_find_letter(o->letter) != o)
			fail_msg("--%s: -%c is another's", o->name, o->letter);
		if (o->kind == SBATCH_REFUSED && !o->said)
			fail_msg("--%s: refused without a word", o->name);
		if (o->kind != SBATCH_OBEYED)
			continue;
		/* what has Slurm's name here takes a value where Slurm's does */
		const struct submit_option *ours = options_find(o->said);
		if (!ours || !ours->set)
			fail_msg("--%s: there is no option '%s'", o->name, o->said);
		if (!strcmp(ours->name, o->name) && o->value != '?' && !ours->arg != !o->value)
			fail_msg("--%s: with a value in one, and without in the other", o->name);
		if (o->letter && ours->letter && ours->letter != o->letter)
			fail_msg("--%s: -%c here, -%c there", o->name, ours->letter, o->letter);
	}
}

static void found_as_getopt_does(void **state)
{
	(void)state;
	assert_string_equal(sbatch_find("job")->name, "job-name");
	assert_string_equal(sbatch_find("gpus")->name, "gpus");
	assert_null(sbatch_find("gpus-per"));
	assert_null(sbatch_find("grse"));
	assert_string_equal(sbatch_near("grse"), "gres");
	assert_string_equal(sbatch_find_letter('N')->name, "nodes");
	assert_null(sbatch_find_letter(0));
}

static void values_are_looked_at(void **state)
{
	(void)state;
	struct error err = ERROR_INIT;
	assert_int_equal(sbatch_check(sbatch_find("nodes"), "1", &err), 0);
	assert_int_equal(sbatch_check(sbatch_find("nodes"), "1-1", &err), 0);
	assert_int_equal(sbatch_check(sbatch_find("nodes"), "2", &err), -1);
	assert_int_equal(sbatch_check(sbatch_find("container"), "x", &err), -1);
	assert_false(sbatch_is_idle(sbatch_find("exclusive"), NULL));
	assert_true(sbatch_is_idle(sbatch_find("exclusive"), "user"));
	assert_true(sbatch_is_idle(sbatch_find("gres"), "license:2"));
	assert_false(sbatch_is_idle(sbatch_find("gres"), "none"));
	assert_false(sbatch_is_idle(sbatch_find("gres"), "gpu:1"));
	assert_true(sbatch_is_idle(sbatch_find("partition"), "x"));
	assert_false(sbatch_is_idle(sbatch_find("open-mode"), "append"));
	assert_false(sbatch_is_idle(sbatch_find("open-mode"), "truncate"));
}

static struct sbatch_sum sum(const char *const words[][2], size_t n, int64_t gpus, int64_t cpus)
{
	struct sbatch_counts c = { 0 };
	struct error err = ERROR_INIT;
	for (size_t i = 0; i < n; i++)
		if (sbatch_count(&c, sbatch_find(words[i][0]), words[i][1], &err))
			fail_msg("%s", err.text);
	return sbatch_sum(&c, gpus, cpus);
}

static void sums(void **state)
{
	(void)state;
	struct sbatch_sum s = sum((const char *const[][2]){
		{ "ntasks", "4" }, { "gpus-per-task", "a100:2" }, { "mem-per-gpu", "8G" },
	}, 3, 0, 3);
	assert_int_equal(s.gpus, 8);
	assert_int_equal(s.cpus, 12);
	assert_int_equal(s.mem_mib, 64 * 1024);
	s = sum((const char *const[][2]){ { "cpus-per-gpu", "6" }, { "mem-per-cpu", "1G" } }, 2, 2, 0);
	assert_int_equal(s.gpus, 0);
	assert_int_equal(s.cpus, 12);
	assert_int_equal(s.mem_mib, 12 * 1024);
	s = sum((const char *const[][2]){ { "ntasks-per-node", "1" } }, 1, 1, 8);
	assert_true(!s.gpus && !s.cpus && !s.mem_mib);
	s = sum((const char *const[][2]){ { "mincpus", "16" } }, 1, 1, 8);
	assert_int_equal(s.cpus, 16);
	struct sbatch_counts c = { 0 };
	struct error err = ERROR_INIT;
	assert_int_equal(sbatch_count(&c, sbatch_find("ntasks"), "many", &err), -1);
	assert_int_equal(sbatch_count(&c, sbatch_find("gpus-per-task"), "a:b:0", &err), -1);
	assert_int_equal(sbatch_count(&c, sbatch_find("mem-per-gpu"), "-1", &err), -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rows_hold), cmocka_unit_test(found_as_getopt_does), cmocka_unit_test(values_are_looked_at),
		cmocka_unit_test(sums),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
