/* SPDX-License-Identifier: MIT
 * The task object of the contract, as far as the record says it.
 */
#include "task/task.h"

#include "base/alloc.h"
#include "base/json.h"
#include "base/scope.h"
#include "base/words.h"

#include <math.h>
#include <string.h>

#define COMMAND_MAX 1000	/* bytes of a command that are shown */
#define ALONE_S 1.5	/* alone and computing for less says nothing */

/* A member of `o`, made where it is wanted; its name is a literal, and needs no check of its characters. */
#define SHOW(name, value) do { if (task_wants(w, name)) json_object_set_new_nocheck(o, name, value); } while (0)
/* Of an attempt; `w` NULL: all are. */
#define SHOW_WITHIN(name, value) \
	do { if (!w || task_wants_within(w, "attempts", name)) json_object_set_new_nocheck(o, name, value); } while (0)

/* What was seen alone, else what was inferred in company. */
static struct load_belief load_of(const struct measured *m)
{
	if (!(m->alone_s >= ALONE_S) || (isnan(m->alone_gract) && isnan(m->alone_smact)))
		return load_clean(&m->inferred);
	return (struct load_belief){ { m->alone_gract, m->alone_smact }, LOAD_LEAST_SD, LOAD_LEAST_SD, m->alone_dram, LOAD_LEAST_SD,
				     m->alone_watts, LOAD_MEASURED };
}

json_t *task_show_load(const struct measured *m)
{
	struct load_belief b = load_of(m);
	return load_to_json(&b);
}

static void show_means(json_t *o, const struct measured *m, const struct task_wants *w)
{
	SHOW_WITHIN("mean_smact", json_round3(m->mean_smact));
	SHOW_WITHIN("mean_smocc", json_round3(m->mean_smocc));
	SHOW_WITHIN("mean_dram", json_round3(m->mean_dram));
	SHOW_WITHIN("mean_pcie_rx_mib_s", json_round3(m->mean_pcie_rx_mib_s));
	SHOW_WITHIN("mean_pcie_tx_mib_s", json_round3(m->mean_pcie_tx_mib_s));
}

void task_show_means(json_t *attempt, const struct measured *m)
{
	show_means(attempt, m, NULL);
}

json_t *task_uuids_json(char (*uuids)[GPU_UUID_LEN], uint32_t n)
{
	json_t *list = json_array();
	for (uint32_t i = 0; i < n; i++)
		json_array_append_new(list, json_text(uuids[i]));
	return list;
}

/* Means over its life. */
static void show_cores(json_t *o, const struct cpu_sums *cpu, const struct task_wants *w)
{
	double ran_ms = cpu->ran_ms ? (double)cpu->ran_ms : NAN, waited_ms = cpu->wait_ms >= 0 ? (double)cpu->wait_ms : NAN;
	SHOW_WITHIN("cores", json_round3((double)cpu->cpu_ms / ran_ms));
	SHOW_WITHIN("cores_waited", json_round3(waited_ms / ran_ms));
}

/* An exit code says something only of a program that ended by itself; 0 of a killed one would look like success. */
static json_t *attempt_to_json(const struct attempt *a, const struct task_wants *w)
{
	json_t *o = json_object();
	SHOW_WITHIN("start", json_time_or_null(a->start_ms));
	SHOW_WITHIN("end", json_time_or_null(a->end_ms));
	SHOW_WITHIN("gpus", task_uuids_json(a->gpus, a->n_gpus));
	SHOW_WITHIN("given", a->given ? task_uuids_json(a->given, a->n_given) : json_null());
	SHOW_WITHIN("share", json_text(share_mode_name(a->mode)));
	SHOW_WITHIN("claim_mib", json_int_or_null((int64_t)a->claim_mib, a->claim_mib != 0));
	SHOW_WITHIN("fence_mib", json_int_or_null((int64_t)a->fence_mib, a->fence_mib != 0));
	SHOW_WITHIN("exit_code", json_int_or_null(a->exit_code, a->end_ms && !a->signal && a->exit_code >= 0));
	SHOW_WITHIN("signal", json_int_or_null(a->signal, a->signal != 0));
	SHOW_WITHIN("verdict", json_text(verdict_name(a->verdict)));
	SHOW_WITHIN("evidence", json_text_or_null(a->evidence));
	SHOW_WITHIN("peak_mib", json_int_or_null((int64_t)a->seen.peak_mib, a->seen.peak_mib != 0));
	SHOW_WITHIN("alone_s", json_round3(a->seen.alone_s));
	SHOW_WITHIN("energy_j", json_round3(a->seen.energy_j));
	SHOW_WITHIN("load", task_show_load(&a->seen));
	SHOW_WITHIN("pace", pace_show(&a->seen.pace));
	SHOW_WITHIN("slot_asks", json_integer(a->slot_asks));
	SHOW_WITHIN("slot_asked_time", json_time_or_null(a->slot_asked_ms));
	SHOW_WITHIN("begin_s", json_round3(a->seen.begin_s));
	SHOW_WITHIN("host_peak_mib", json_int_or_null((int64_t)a->seen.host_peak_mib, a->seen.host_peak_mib != 0));
	show_cores(o, &a->seen.cpu, w);
	show_means(o, &a->seen, w);
	return o;
}

static json_t *attempts_json(const struct task *t, const struct task_wants *w)
{
	json_t *attempts = json_array();
	w = task_wants_whole(w, "attempts") ? NULL : w;
	for (uint32_t i = 0; i < t->n_attempts; i++)
		json_array_append_new(attempts, attempt_to_json(&t->attempts[i], w));
	return attempts;
}

/* 0 MiB is "not known" inside and null outside: nobody outside is to take it for a figure. */
json_t *task_estimate_json(const struct estimate *e)
{
	return json_pack("{ss, so, so, so, so}", "estimator", e->estimator,
		"need_mib", json_int_or_null((int64_t)e->need_mib, e->need_mib != 0),
		"comfort_mib", json_int_or_null((int64_t)e->comfort_mib, e->comfort_mib != 0),
		"claim_mib", json_int_or_null((int64_t)e->claim_mib, e->claim_mib != 0), "note", json_text_or_null(e->note));
}

/* A command is shown to be recognised: with two MiB of arguments each, a few tasks would fill a message. */
static json_t *command_json(const struct spec *s)
{
	scoped_free char *text = spec_command_text(s);
	if (strlen(text) > COMMAND_MAX)
		strcpy(text + words_cut(text, COMMAND_MAX - strlen("...")), "...");
	return json_text(text);
}

static json_t *log_json(const struct task *t)
{
	scoped_free char *log = spec_expand_path(t->spec, t->spec->output ? t->spec->output : "", t->id);
	return json_text_or_null(log);
}

static json_t *deps_json(const struct task *t)
{
	size_t n;
	const struct dependency *deps = task_deps(t, &n);
	scoped_free char *text = n ? spec_deps_text(deps, n) : NULL;
	return json_text_or_null(text);
}

void task_show_slowdown(json_t *o, const struct measured *m)
{
	const char *source = NULL;
	double slowdown = m ? pace_slowdown(&m->pace, m->alone_s, m->work_s, &source) : NAN;
	json_object_set_new(o, "slowdown", json_round3(slowdown));
	json_object_set_new(o, "slowdown_source", json_text_or_null(source));
}

static void show_times(json_t *o, const struct task *t, const struct task_times *times, const struct task_wants *w)
{
	SHOW("submit_time", json_time_or_null(t->submit_ms));
	SHOW("start_time", json_time_or_null(t->start_ms));
	SHOW("end_time", json_time_or_null(t->end_ms));
	SHOW("wait_s", json_round3(times->wait_s));
	SHOW("held_s", json_round3(times->held_s));
	SHOW("lost_s", json_round3(times->lost_s));
	SHOW("jct_s", json_round3(times->jct_s));
	SHOW("time_limit_s", json_int_or_null(t->time_limit_s, t->time_limit_s != 0));
	SHOW("suspended_s", json_round3(times->suspended_s));
	SHOW("slots", json_integer(t->n_slots));
	SHOW("slot_lost_s", json_round3((double)t->slot_lost_ms / 1000));
	SHOW("begin_time", json_time_or_null(t->begin_s * 1000));
}

/* What it was submitted with, or is asked for by now. */
static void show_asked(json_t *o, const struct task *t, const struct task_wants *w)
{
	const struct spec *s = t->spec;
	SHOW("command", command_json(s));
	SHOW("cwd", json_text_or_null(s->cwd));
	SHOW("log_path", log_json(t));
	SHOW("capture_notes", json_text_or_null(s->capture_notes));
	SHOW("gpu_model", json_text_or_null(s->gpu_model));
	SHOW("constraint", json_text_or_null(s->constraint));
	SHOW("cpus", json_int_or_null(s->cpus, s->cpus != 0));
	SHOW("host_mem_mib", json_int_or_null((int64_t)t->host_mem_mib, t->host_mem_mib != 0));
	SHOW("feed", s->feed ? json_pack("{ss}", "name", s->feed) : json_null());
	SHOW("slot_s", json_int_or_null(s->slot_s, s->slot_s > 0));
	SHOW("retries", json_integer(t->retries));
	SHOW("retries_used", json_integer(task_retries_used(t)));
	SHOW("dependency", deps_json(t));
	SHOW("terminal", json_boolean(s->terminal));
	SHOW("process", json_int_or_null(s->process_pid, s->process_pid));
	SHOW("lease", json_boolean(s->lease));
}

/* Slowdown is that of the last attempt, which is the one that counts. Progress is known of running ones only, and to the
 * daemon. The id is always there. */
json_t *task_to_json_some(const struct task *t, int64_t now_ms, const struct task_wants *w)
{
	const struct attempt *last = task_attempt(t);
	const struct task_times times = task_times(t, now_ms);
	bool ended = last && task_state_terminal(t->state) && last->end_ms;
	char id[TASK_ID_TEXT];
	json_t *o = json_object();
	json_object_set_new(o, "id", json_text(task_id_text(t->id, id)));
	SHOW("name", json_text(task_name(t)));
	SHOW("user", json_text(t->spec->user ? t->spec->user : ""));
	SHOW("state", json_text(task_state_name(t->state)));
	SHOW("priority", json_integer(t->priority));
	SHOW("gpus_requested", json_integer(t->gpus));
	SHOW("run_s", json_round3(times.run_s));
	SHOW("progress", json_null());
	SHOW("estimate", t->estimated ? task_estimate_json(&t->estimate) : json_null());
	SHOW("attempts", attempts_json(t, w));
	SHOW("array_limit", json_int_or_null(t->array_limit, t->array_limit != 0));
	SHOW("share", json_text(share_mode_name(last && t->state != TASK_PENDING ? last->mode : t->spec->share)));
	SHOW("exit_code", json_int_or_null(last ? last->exit_code : 0, ended && !last->signal && last->exit_code >= 0));
	SHOW("signal", json_int_or_null(last ? last->signal : 0, ended && last->signal));
	show_times(o, t, &times, w);
	show_asked(o, t, w);
	if (task_wants(w, "slowdown") || task_wants(w, "slowdown_source"))
		task_show_slowdown(o, last ? &last->seen : NULL);
	return o;
}

json_t *task_to_json(const struct task *t, int64_t now_ms)
{
	return task_to_json_some(t, now_ms, NULL);
}
