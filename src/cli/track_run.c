/* SPDX-License-Identifier: MIT
 * See track_run.h.
 */
#include "cli/track_run.h"

#include "base/alloc.h"
#include "base/json.h"
#include "base/scope.h"
#include "base/words.h"
#include "cli/member.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_PARAMS 60		/* of a command's own; a batch takes 100 */
#define MAX_VALUE 500		/* bytes of a value: what the oldest servers take */
#define MAX_KEY 250
#define MAX_PARTS 100000	/* of a series: more than radd ever answers */

/* What a task is ---------------------------------------------------------------------------------------------------------- */

static const char *text_of(enum task_state s)
{
	switch (s) {
	case TASK_RUNNING: return "RUNNING";
	case TASK_COMPLETED: return "FINISHED";
	case TASK_CANCELLED:
	case TASK_TIMEOUT: return "KILLED";
	case TASK_PENDING:
	case TASK_HELD: return "SCHEDULED";
	default: return "FAILED";
	}
}

const char *track_run_status(const json_t *task)
{
	return text_of(member_state(task));
}

bool track_run_is_over(const json_t *task)
{
	return task_state_terminal(member_state(task));
}

char *track_run_key(const json_t *task, const char *host)
{
	return alloc_printf("%s:%s:%s", host, member_text(task, "id"), member_text(task, "submit_time"));
}

static json_t *short_text(const char *text, size_t max)
{
	return json_text_n(text, words_cut(text, max));
}

static void add_pair(json_t *list, const char *key, const char *value)
{
	if (*value)
		json_array_append_new(list, json_pack("{ss, so}", "key", key, "value", short_text(value, MAX_VALUE)));
}

static int64_t start_ms(const json_t *task)
{
	const json_t *first = json_array_get(json_object_get(task, "attempts"), 0);
	return member_ms(first, "start", member_ms(task, "start_time", 0));
}

json_t *track_run_create(const json_t *task, const char *host, const char *experiment, const char *commit)
{
	scoped_free char *key = track_run_key(task, host);
	scoped_free char *name = alloc_printf("%.200s-%s", member_text(task, "name"), member_text(task, "id"));
	json_t *tags = json_array();
	add_pair(tags, "mlflow.user", member_text(task, "user"));
	add_pair(tags, "mlflow.source.type", "JOB");
	add_pair(tags, "mlflow.source.name", member_text(task, "command"));
	add_pair(tags, "mlflow.source.git.commit", commit ? commit : "");
	add_pair(tags, "rad.key", key);
	add_pair(tags, "rad.task", member_text(task, "id"));
	add_pair(tags, "rad.host", host);
	add_pair(tags, "rad.cwd", member_text(task, "cwd"));
	add_pair(tags, "rad.log", member_text(task, "log_path"));
	return json_pack("{ss, ss, ss, sI, so}", "experiment_id", experiment, "run_name", name, "user_id", member_text(task, "user"),
			 "start_time", (json_int_t)start_ms(task), "tags", tags);
}

/* Parameters -------------------------------------------------------------------------------------------------------------- */

/* MLflow's names: letters, digits and a few signs. Others would have the whole batch refused. */
static bool can_be_key(const char *key, size_t n)
{
	if (!n || n > MAX_KEY || key[0] == '/' || key[0] == '.' || key[n - 1] == '/')
		return false;
	for (size_t i = 0; i < n; i++) {
		bool sign = strchr("_-. /:", key[i]) != NULL, letter = (key[i] | 32) >= 'a' && (key[i] | 32) <= 'z';
		if (!sign && !letter && !(key[i] >= '0' && key[i] <= '9'))
			return false;
	}
	return !memmem(key, n, "//", 2) && !memmem(key, n, "..", 2);
}

static bool is_option(const char *word)
{
	if (word[0] != '-')
		return false;
	bool letter = (word[1] | 32) >= 'a' && (word[1] | 32) <= 'z';
	return letter || (word[1] == '-' && word[2]);
}

/* "--lr 0.1", "--lr=0.1", "--amp": lr and amp, with all words up to the next option. */
static void add_arguments(json_t *list, const char *command)
{
	scoped_free char *words = alloc_string(command);
	char *rest = words, *word = words_next_shell_word(&rest);
	size_t before = json_array_size(list);
	while (word && json_array_size(list) < before + MAX_PARAMS) {
		char *next = words_next_shell_word(&rest);
		char *name = word + strspn(word, "-"), *value = strchr(name, '=');
		scoped_free char *joined = alloc_string(value ? value + 1 : "");
		size_t n = value ? (size_t)(value - name) : strlen(name);
		bool good = is_option(word) && can_be_key(name, n);
		for (; good && next && !is_option(next); next = words_next_shell_word(&rest)) {
			char *more = alloc_printf("%s%s%s", joined, *joined ? " " : "", next);
			free(joined);
			joined = more;
		}
		scoped_free char *key = alloc_printf("%.*s", (int)n, name);
		if (good && !member_find(list, "key", key))
			add_pair(list, key, *joined ? joined : "True");
		word = next;
	}
}

json_t *track_run_params(const json_t *task)
{
	char number[32];
	json_t *list = json_array();
	const char *id = member_text(task, "id"), *element = strchr(id, '_');
	add_pair(list, "command", member_text(task, "command"));
	snprintf(number, sizeof number, "%lld", (long long)member_int(task, "gpus_requested"));
	add_pair(list, "gpus", number);
	add_pair(list, "share", member_text(task, "share"));
	add_pair(list, "array_index", element ? element + 1 : "");
	add_arguments(list, member_text(task, "command"));
	return list;
}

/* How it ended ------------------------------------------------------------------------------------------------------------ */

static void add_metric(json_t *list, const char *key, double value, int64_t ms, int64_t step)
{
	if (isfinite(value))
		json_array_append_new(list, json_pack("{ss, so, sI, sI}", "key", key, "value", json_real(value), "timestamp",
						      (json_int_t)ms, "step", (json_int_t)step));
}

json_t *track_run_sums(const json_t *task)
{
	static const char *const times[] = { "wait_s", "held_s", "run_s", "lost_s", "jct_s", "slowdown" };
	const json_t *last = member_last_attempt(task);
	json_t *list = json_array();
	int64_t end_ms = member_ms(task, "end_time", 0);
	char key[40];
	for (size_t i = 0; i < COUNT_OF(times); i++) {
		snprintf(key, sizeof key, "rad/%s", times[i]);
		add_metric(list, key, member_number(task, times[i]), end_ms, 0);
	}
	add_metric(list, "rad/energy_j", member_over_attempts(task, "energy_j", true), end_ms, 0);
	add_metric(list, "rad/peak_mib", member_over_attempts(task, "peak_mib", false), end_ms, 0);
	add_metric(list, "rad/claim_mib", member_number(json_object_get(task, "estimate"), "claim_mib"), end_ms, 0);
	add_metric(list, "rad/mean_smact", member_number(last, "mean_smact"), end_ms, 0);
	add_metric(list, "rad/attempts", (double)json_array_size(json_object_get(task, "attempts")), end_ms, 0);
	return list;
}

json_t *track_run_tags(const json_t *task)
{
	const json_t *last = member_last_attempt(task), *code = json_object_get(task, "exit_code");
	char number[32] = "";
	json_t *list = json_array();
	if (json_is_integer(code))
		snprintf(number, sizeof number, "%lld", (long long)json_integer_value(code));
	add_pair(list, "rad.state", member_text(task, "state"));
	add_pair(list, "rad.exit_code", number);
	add_pair(list, "rad.verdict", member_text(last, "verdict"));
	add_pair(list, "rad.evidence", member_text(last, "evidence"));
	return list;
}

/* Series ------------------------------------------------------------------------------------------------------------------ */

static struct track_span attempt_span(const json_t *attempt, int64_t now_ms)
{
	int64_t from_ms = member_ms(attempt, "start", 0);
	return (struct track_span){ from_ms, from_ms ? member_ms(attempt, "end", now_ms) : 0 };
}

struct track_span track_run_span(const json_t *task, int64_t now_ms)
{
	struct track_span last = attempt_span(member_last_attempt(task), now_ms);
	return (struct track_span){ start_ms(task), last.to_ms };
}

/* What is sent of a GPU: `member` of radd's series, times `scale`. `name` has a place for the number of the GPU, or is one for
 * all: their mean, or with `sum` their sum. */
static const struct track_metric { const char *member, *name; double scale; bool each, sum; } metrics[] = {
	{ "mem_mib", "system/gpu_%lld_memory_usage_megabytes", 1.048576, true, false },
	{ "gract", "system/gpu_%lld_utilization_percentage", 100, true, false },
	{ "power_w", "system/gpu_%lld_power_usage_watts", 1, true, false },
	{ "gract", "system/DCGMI - GR Engine Active", 1, false, false },
	{ "smact", "system/DCGMI - SM Active", 1, false, false },
	{ "smocc", "system/DCGMI - SM Occupancy", 1, false, false },
	{ "tensor", "system/DCGMI - Tensor Active", 1, false, false },
	{ "dram", "system/DCGMI - DRAM Active", 1, false, false },
	{ "pcie_tx_mib_s", "system/DCGMI - PCIE TX Bytes", 1048576, false, true },
	{ "pcie_rx_mib_s", "system/DCGMI - PCIE RX Bytes", 1048576, false, true },
};
#define PERCENT "system/gpu_%lld_memory_usage_percentage"

/* One slot. */
struct track_slot { const json_t *series; struct track_span span; int64_t ms, step; };

static const json_t *series_of(const json_t *answer, const char *uuid, const json_t **gpu)
{
	size_t i;
	json_t *one;
	const json_t *gpus = json_object_get(answer, "gpus"), *all = json_object_get(answer, "series");
	json_array_foreach(all, i, one) {
		*gpu = json_array_get(gpus, (size_t)member_int(one, "gpu"));
		if (!strcmp(member_text(*gpu, "uuid"), uuid))
			return one;
	}
	return NULL;
}

/* The mean over the parts that begin within the span; NaN where nothing is known. */
static double mean_in(const json_t *series, const char *member, struct track_span span)
{
	const json_t *values = json_object_get(series, member);
	double step_ms = member_number(series, "step_s") * 1000, sum = 0, n = 0;
	int64_t origin = member_ms(series, "from", -1);
	if (origin < 0 || !(step_ms >= 1) || span.to_ms <= origin)
		return NAN;
	double first = ceil((double)(span.from_ms - origin) / step_ms), end = ceil((double)(span.to_ms - origin) / step_ms);
	for (size_t i = first > 0 ? (size_t)first : 0; i < (size_t)end && i < json_array_size(values) && i < MAX_PARTS; i++) {
		const json_t *v = json_array_get(values, i);
		sum += json_number_value(v);
		n += json_is_number(v);
	}
	return n > 0 ? sum / n : NAN;
}

static void add_of_gpu(const struct track_slot *s, const json_t *uuid, json_t *points)
{
	const json_t *gpu = NULL, *series = series_of(s->series, json_string_value(uuid), &gpu);
	char name[80];
	long long index = member_int(gpu, "index");
	for (size_t m = 0; series && m < COUNT_OF(metrics); m++) {
		if (!metrics[m].each)
			continue;
		snprintf(name, sizeof name, metrics[m].name, index);
		add_metric(points, name, metrics[m].scale * mean_in(series, metrics[m].member, s->span), s->ms, s->step);
	}
	snprintf(name, sizeof name, PERCENT, index);
	if (series && member_number(gpu, "mem_total_mib") > 0)
		add_metric(points, name, 100 * mean_in(series, "mem_mib", s->span) / member_number(gpu, "mem_total_mib"), s->ms, s->step);
}

static void add_of_all(const struct track_slot *s, const json_t *uuids, const struct track_metric *m, json_t *points)
{
	size_t i;
	json_t *uuid;
	double sum = 0, n = 0;
	json_array_foreach(uuids, i, uuid) {
		const json_t *gpu, *series = series_of(s->series, json_string_value(uuid), &gpu);
		double mean = series ? mean_in(series, m->member, s->span) : NAN;
		sum += isnan(mean) ? 0 : mean;
		n += !isnan(mean);
	}
	if (n > 0)
		add_metric(points, m->name, m->scale * sum / (m->sum ? 1 : n), s->ms, s->step);
}

/* The GPUs that the task had in that slot, each once, and since when within it; INT64_MAX: it had none. */
static int64_t gpus_in(const json_t *task, struct track_span slot, int64_t now_ms, json_t *uuids)
{
	const json_t *attempts = json_object_get(task, "attempts");
	int64_t since = INT64_MAX;
	size_t i, k, n;
	json_t *a, *uuid, *other;
	json_array_foreach(attempts, i, a) {
		struct track_span ran = attempt_span(a, now_ms);
		if (ran.from_ms >= slot.to_ms || ran.to_ms <= slot.from_ms)
			continue;
		int64_t from = ran.from_ms > slot.from_ms ? ran.from_ms : slot.from_ms;
		since = from < since ? from : since;
		json_array_foreach(json_object_get(a, "gpus"), k, uuid) {
			bool twice = false;
			json_array_foreach(uuids, n, other)
				twice = twice || json_equal(uuid, other);
			if (!twice)
				json_array_append(uuids, uuid);
		}
	}
	return since;
}

void track_run_points(const json_t *task, const json_t *series, struct track_span span, int64_t step_ms, int64_t now_ms,
		      json_t *points)
{
	int64_t first = start_ms(task) / TRACK_STEP_MS * TRACK_STEP_MS;
	for (int64_t at = (span.from_ms + step_ms - 1) / step_ms * step_ms; at < span.to_ms; at += step_ms) {
		scoped_json *uuids = json_array();
		struct track_slot slot = { .series = series, .span = { at, at + step_ms } };
		size_t i;
		json_t *uuid;
		slot.step = at > first ? (at - first) / TRACK_STEP_MS : 0;
		slot.ms = gpus_in(task, slot.span, now_ms, uuids);
		json_array_foreach(uuids, i, uuid)
			add_of_gpu(&slot, uuid, points);
		for (i = 0; i < COUNT_OF(metrics); i++)
			if (!metrics[i].each)
				add_of_all(&slot, uuids, &metrics[i], points);
	}
}

int64_t track_run_after(int64_t point_ms)
{
	return point_ms / TRACK_STEP_MS * TRACK_STEP_MS + TRACK_STEP_MS;
}

static int64_t slot_of(const json_t *point)
{
	return member_int(point, "timestamp") / TRACK_STEP_MS;
}

size_t track_run_cut(const json_t *points, size_t at, size_t most)
{
	size_t all = json_array_size(points), n = all - at;
	if (n <= most)
		return n;
	for (n = most; n && slot_of(json_array_get(points, at + n - 1)) == slot_of(json_array_get(points, at + n));)
		n--;
	return n ? n : most;
}
