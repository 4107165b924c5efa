/* SPDX-License-Identifier: MIT
 * The rows of sbatch(1), of Slurm 20 to 25, and the arithmetic of those that multiply each other: see sbatch.h. A script is
 * never run with less than it asks for without a word: what has no meaning is told, what would change what it does is refused.
 */
#include "submit/sbatch.h"

#include "base/scope.h"
#include "base/units.h"
#include "base/words.h"
#include "submit/options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST 65536	/* tasks, CPUs, GPUs: whatever is multiplied stays far from the end of an int64_t */

#define OURS(name, letter, value, option) { name, letter, value, SBATCH_OBEYED, option }
#define COUNT(name, letter) { name, letter, '=', SBATCH_COUNTED, NULL }
#define IDLE(name, letter, value, why) { name, letter, value, SBATCH_IDLE, why }
#define NO(name, letter, value, instead) { name, letter, value, SBATCH_REFUSED, instead }

#define CLUSTER "this is one machine"
#define ACCOUNTS "there are no accounts and partitions: users take turns"
#define LAYOUT "where on the machine a task's CPUs are is the kernel's business"
#define STEPS "there are no steps"
#define OUTPUT "it is of sbatch's own output"

static const struct sbatch_option options[] = {
	IDLE("account", 'A', '=', ACCOUNTS), IDLE("acctg-freq", 0, '=', "GPUs are read every second"),
	OURS("array", 'a', '=', "array"), IDLE("batch", 0, '=', CLUSTER), IDLE("bb", 0, '=', "there is no burst buffer"),
	IDLE("bbf", 0, '=', "there is no burst buffer"), OURS("begin", 'b', '=', "begin"), OURS("chdir", 'D', '=', "chdir"),
	IDLE("cluster-constraint", 0, '=', CLUSTER), IDLE("clusters", 'M', '=', CLUSTER), IDLE("comment", 0, '=', "nobody reads it"),
	IDLE("consolidate-segments", 0, 0, CLUSTER), OURS("constraint", 'C', '=', "constraint"),
	NO("container", 0, '=', "start the container in the script"), NO("container-id", 0, '=', "start the container in the script"),
	IDLE("contiguous", 0, 0, CLUSTER), IDLE("core-spec", 'S', '=', LAYOUT), IDLE("cores-per-socket", 0, '=', LAYOUT),
	IDLE("cpu-freq", 0, '=', "clocks are left as they are"), COUNT("cpus-per-gpu", 0),
	OURS("cpus-per-task", 'c', '=', "cpus-per-task"), IDLE("deadline", 0, '=', "a task waits until it runs, or is cancelled"),
	IDLE("delay-boot", 0, '=', CLUSTER), OURS("dependency", 'd', '=', "dependency"), IDLE("distribution", 'm', '=', STEPS),
	OURS("error", 'e', '=', "error"), IDLE("exclude", 'x', '=', CLUSTER), OURS("exclusive", 0, '?', "exclusive"),
	OURS("export", 0, '=', "export"), NO("export-file", 0, '=', "read the file in the script, or use --export"),
	IDLE("extra", 0, '=', "nobody reads it"), IDLE("extra-node-info", 'B', '=', LAYOUT),
	IDLE("get-user-env", 0, '?', "a task has the environment of who submits it"), NO("gid", 0, '=', "submit it as that user"),
	IDLE("gpu-bind", 0, '=', STEPS), IDLE("gpu-freq", 0, '=', "clocks are left as they are"), OURS("gpus", 'G', '=', "gpus"),
	OURS("gpus-per-node", 0, '=', "gpus-per-node"), NO("gpus-per-socket", 0, '=', "say how many in all, by --gpus"),
	COUNT("gpus-per-task", 0), OURS("gres", 0, '=', "gres"), IDLE("gres-flags", 0, '=', LAYOUT), IDLE("help", 'h', 0, OUTPUT),
	IDLE("hint", 0, '=', LAYOUT), OURS("hold", 'H', 0, "hold"), IDLE("ignore-pbs", 0, 0, "PBS lines are never read"),
	NO("input", 'i', '=', "redirect in the script: exec <FILE"), OURS("job-name", 'J', '=', "name"),
	OURS("kill-on-invalid-dep", 0, '=', "kill-on-invalid-dep"),
	IDLE("licenses", 'L', '=', "there are none to count"), OURS("mail-type", 0, '=', "mail-type"),
	OURS("mail-user", 0, '=', "mail-user"), IDLE("mcs-label", 0, '=', ACCOUNTS), OURS("mem", 0, '=', "mem"),
	IDLE("mem-bind", 0, '=', LAYOUT), COUNT("mem-per-cpu", 0), COUNT("mem-per-gpu", 0), COUNT("mincpus", 0),
	IDLE("network", 0, '=', CLUSTER), OURS("nice", 0, '?', "nice"), IDLE("no-kill", 'k', '?', CLUSTER),
	OURS("no-requeue", 0, 0, "no-requeue"), IDLE("nodefile", 'F', '=', CLUSTER), IDLE("nodelist", 'w', '=', CLUSTER),
	IDLE("nodes", 'N', '=', NULL), COUNT("ntasks", 'n'), IDLE("ntasks-per-core", 0, '=', LAYOUT),
	IDLE("ntasks-per-gpu", 0, '=', STEPS), COUNT("ntasks-per-node", 0), IDLE("ntasks-per-socket", 0, '=', LAYOUT),
	IDLE("oom-kill-step", 0, '?', STEPS), OURS("open-mode", 0, '=', "open-mode"),
	OURS("output", 'o', '=', "output"), IDLE("overcommit", 'O', 0, STEPS),
	IDLE("oversubscribe", 's', 0, "GPUs are shared unless --exclusive is said"), IDLE("parsable", 0, 0, OUTPUT),
	IDLE("partition", 'p', '=', ACCOUNTS), IDLE("power", 0, '=', CLUSTER),
	IDLE("prefer", 0, '=', "what must be is said by --constraint"), OURS("priority", 0, '=', "priority"),
	IDLE("profile", 0, '=', "GPUs are always read: rad report"), IDLE("propagate", 0, '?', "limits of processes go along"),
	IDLE("qos", 'q', '=', ACCOUNTS), IDLE("quiet", 'Q', 0, OUTPUT), IDLE("reboot", 0, 0, "the machine stays up"),
	OURS("requeue", 0, 0, "requeue"), IDLE("reservation", 0, '=', "a reservation is its user's without being named: rad reserve"),
	IDLE("resv-ports", 0, '?', STEPS), IDLE("segment", 0, '=', CLUSTER), OURS("signal", 0, '=', "signal"),
	IDLE("sockets-per-node", 0, '=', LAYOUT), IDLE("spread-job", 0, 0, CLUSTER), IDLE("spread-segments", 0, 0, CLUSTER),
	IDLE("stepmgr", 0, 0, STEPS), IDLE("switches", 0, '=', CLUSTER),
	NO("test-only", 0, 0, "say it on the command line"), IDLE("thread-spec", 0, '=', LAYOUT),
	IDLE("threads-per-core", 0, '=', LAYOUT), OURS("time", 't', '=', "time"),
	IDLE("time-min", 0, '=', "a limit stays as it was asked for"), IDLE("tmp", 0, '=', "space on disks is not counted"),
	IDLE("tres-bind", 0, '=', STEPS), NO("tres-per-task", 0, '=', "say how many in all, by --gpus and --cpus-per-task"),
	NO("uid", 0, '=', "submit it as that user"), IDLE("usage", 0, 0, OUTPUT), IDLE("use-min-nodes", 0, 0, CLUSTER),
	IDLE("verbose", 'v', 0, OUTPUT), IDLE("version", 'V', 0, OUTPUT),
	IDLE("wait", 'W', 0, "rad submit --wait and rad run wait for the end"), IDLE("wait-all-nodes", 0, '=', CLUSTER),
	IDLE("wckey", 0, '=', ACCOUNTS), OURS("workdir", 0, '=', "chdir"), NO("wrap", 0, '=', "the script is what runs"),
	{ 0 },
};

const struct sbatch_option *sbatch_find(const char *name)
{
	const struct sbatch_option *begins = NULL;
	size_t len = strlen(name), n = 0;
	for (const struct sbatch_option *o = options; o->name; o++) {
		if (!strcmp(o->name, name))
			return o;
		if (!strncmp(o->name, name, len))
			begins = o, n++;
	}
	return n == 1 ? begins : NULL;
}

const struct sbatch_option *sbatch_find_letter(char letter)
{
	for (const struct sbatch_option *o = options; letter && o->name; o++)
		if (o->letter == letter)
			return o;
	return NULL;
}

const char *sbatch_near(const char *name)
{
	const char *names[COUNT_OF(options)];
	for (size_t i = 0; i < COUNT_OF(options); i++)
		names[i] = options[i].name;
	return words_nearest(name, names);
}

int sbatch_check(const struct sbatch_option *o, const char *value, struct error *err)
{
	if (o->kind == SBATCH_REFUSED)
		return error_set(err, ERR_INVALID, "--%s is not done here: %s", o->name, o->said);
	if (!strcmp(o->name, "nodes") && value && strspn(value, "0123456789-") == strlen(value) && strtol(value, NULL, 10) > 1)
		return error_set(err, ERR_INVALID, "#SBATCH asks for %.20s nodes, and this is one machine", value);
	return 0;
}

bool sbatch_is_idle(const struct sbatch_option *o, const char *value)
{
	if (o->kind == SBATCH_IDLE)
		return o->said;	/* one node is what there is */
	return (!strcmp(o->name, "exclusive") && value && *value) ||
	       (!strcmp(o->name, "gres") && value && !strstr(value, "gpu") && strcmp(value, "none"));
}

/* ---- numbers that multiply each other ---- */

static int count_gpus(struct sbatch_counts *c, const char *value, struct error *err)
{
	const char *colon = strrchr(value, ':');
	if (colon && (size_t)(colon - value) >= sizeof c->gpu_type)
		return error_set(err, ERR_INVALID, "'%.60s': expected [MODEL:]N", value);
	snprintf(c->gpu_type, sizeof c->gpu_type, "%.*s", colon ? (int)(colon - value) : 0, value);
	return units_parse_int(colon ? colon + 1 : value, 1, SPEC_MAX_GPUS, &c->gpus_per_task, err);
}

int sbatch_count(struct sbatch_counts *c, const struct sbatch_option *o, const char *value, struct error *err)
{
	const struct { const char *name; int64_t *to; } numbers[] = {
		{ "ntasks", &c->ntasks }, { "ntasks-per-node", &c->ntasks_per_node }, { "cpus-per-gpu", &c->cpus_per_gpu },
		{ "mincpus", &c->mincpus },
	};
	const struct { const char *name; uint64_t *to; } sizes[] = {
		{ "mem-per-cpu", &c->mem_per_cpu_mib }, { "mem-per-gpu", &c->mem_per_gpu_mib },
	};
	for (size_t i = 0; i < COUNT_OF(numbers); i++)
		if (!strcmp(o->name, numbers[i].name))
			return units_parse_int(value, 1, MOST, numbers[i].to, err);
	for (size_t i = 0; i < COUNT_OF(sizes); i++)
		if (!strcmp(o->name, sizes[i].name))
			return units_parse_mib(value, sizes[i].to, err);
	return count_gpus(c, value, err);
}

static int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }

struct sbatch_sum sbatch_sum(const struct sbatch_counts *c, int64_t gpus, int64_t cpus_per_task)
{
	struct sbatch_sum sum = { 0 };
	int64_t tasks = c->ntasks ? c->ntasks : larger(1, c->ntasks_per_node);
	if (!gpus && c->gpus_per_task)
		gpus = sum.gpus = c->gpus_per_task * tasks;
	if (tasks > 1)
		sum.cpus = tasks * larger(1, cpus_per_task);
	if (c->cpus_per_gpu)
		sum.cpus = c->cpus_per_gpu * larger(1, gpus);
	if (c->mincpus > larger(sum.cpus, cpus_per_task))
		sum.cpus = c->mincpus;
	int64_t cpus = larger(1, sum.cpus ? sum.cpus : cpus_per_task);
	sum.mem_mib = c->mem_per_gpu_mib ? c->mem_per_gpu_mib * (uint64_t)larger(1, gpus) : c->mem_per_cpu_mib * (uint64_t)cpus;
	return sum;
}
