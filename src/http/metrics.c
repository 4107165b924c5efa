/* SPDX-License-Identifier: MIT
 * See metrics.h.
 */
#include "http/metrics.h"

#include "base/clock.h"
#include "base/json.h"
#include "base/scope.h"
#include "base/words.h"
#include "cli/member.h"

#include <ctype.h>
#include <math.h>
#include <string.h>

#define MIB 1048576.0

/* What is being written. */
struct page { struct buf *out; bool open; };

enum kind { GAUGE, COUNTER, INFO, HISTOGRAM };

/* OpenMetrics names a family without the suffix that its samples have. */
static void family(const struct page *p, const char *name, enum kind kind, const char *help)
{
	static const char *const suffixes[] = { [GAUGE] = "", [COUNTER] = "_total", [INFO] = "_info", [HISTOGRAM] = "" };
	static const char *const types[] = { [GAUGE] = "gauge", [COUNTER] = "counter", [INFO] = "info",
		[HISTOGRAM] = "histogram" };
	size_t n = strlen(name) - (p->open && words_end_in(name, suffixes[kind]) ? strlen(suffixes[kind]) : 0);
	buf_printf(p->out, "# HELP %.*s %s\n# TYPE %.*s %s\n", (int)n, name, help, (int)n, name,
		   !p->open && kind == INFO ? "gauge" : types[kind]);
}

/* `labels`: as label() made them, or "". */
static void sample(const struct page *p, const char *name, const char *labels, double value)
{
	if (isnan(value))
		return;
	buf_printf(p->out, *labels ? "%s{%s} %.15g\n" : "%s%s %.15g\n", name, labels, value);
}

static void one(const struct page *p, const char *name, enum kind kind, const char *help, double value)
{
	if (isnan(value))
		return;
	family(p, name, kind, help);
	sample(p, name, "", value);
}

/* Names of tasks are other people's words: they end no line and no quote. */
static void label(struct buf *to, const char *name, const char *value)
{
	buf_printf(to, "%s%s=\"", to->len ? "," : "", name);
	for (const char *c = value; *c; c++)
		if (*c == '\n')
			buf_add_text(to, "\\n");
		else if (*c == '"' || *c == '\\')
			buf_printf(to, "\\%c", *c);
		else
			buf_add(to, c, 1);
	buf_add_text(to, "\"");
}

static double seconds_of(const char *iso)
{
	int64_t ms;
	return clock_parse_iso(iso, &ms) ? NAN : (double)ms / 1000;
}

/* GPUs ------------------------------------------------------------------------------------------------------------------ */

struct row {
	const char *name;
	enum kind kind;
	const char *key;
	double unit;
	const char *help;
	const json_t *(*part)(const json_t *);	/* of the object, that has the key; NULL: itself */
};

static const struct row gpu_rows[] = {
	{ "rad_gpu_memory_bytes", GAUGE, "mem_total_mib", MIB, "Memory of the GPU." },
	{ "rad_gpu_memory_used_bytes", GAUGE, "mem_used_mib", MIB, "Memory in use, as the driver shows it." },
	{ "rad_gpu_memory_held_bytes", GAUGE, "mem_held_mib", MIB, "Memory that is set aside for tasks." },
	{ "rad_gpu_memory_foreign_bytes", GAUGE, "mem_foreign_mib", MIB, "Memory of processes that are no task's." },
	{ "rad_gpu_memory_available_bytes", GAUGE, "mem_available_mib", MIB, "Memory that the next task could be given." },
	{ "rad_gpu_sm_active_ratio", GAUGE, "smact_now", 1, "SM activity (SMACT) in the last sample." },
	{ "rad_gpu_sm_active_window_ratio", GAUGE, "smact", 1, "SM activity that placement goes by: the mean of its window." },
	{ "rad_gpu_graphics_active_window_ratio", GAUGE, "gract", 1, "Time with any kernel running (GRACT), its mean." },
	{ "rad_gpu_sm_occupancy_ratio", GAUGE, "smocc", 1, "Warps on the SMs, of those that could be (SMOCC), in the last sample." },
	{ "rad_gpu_dram_active_ratio", GAUGE, "dram", 1, "Activity of the memory interface in the last sample." },
	{ "rad_gpu_utilization_ratio", GAUGE, "gpu_util", 1, "The driver's utilization.gpu: whether some kernel ran." },
	{ "rad_gpu_pcie_receive_bytes_per_second", GAUGE, "pcie_rx_mib_s", MIB, "Read over PCIe, in the last sample." },
	{ "rad_gpu_pcie_transmit_bytes_per_second", GAUGE, "pcie_tx_mib_s", MIB, "Written over PCIe, in the last sample." },
	{ "rad_gpu_power_watts", GAUGE, "power_w", 1, "Power drawn." },
	{ "rad_gpu_temperature_celsius", GAUGE, "temperature_c", 1, "Temperature of the chip." },
	{ "rad_gpu_energy_joules_total", COUNTER, "energy_j", 1, "Energy used since the driver was loaded." },
	{ "rad_gpu_tasks", GAUGE, "tasks", 1, "Tasks that run there." },
	{ "rad_gpu_drained", GAUGE, "drained", 1, "1: taken out of use by an administrator." },
	{ "rad_gpu_stale", GAUGE, "stale", 1, "1: has not been read for a while, and gets no tasks." },
};

static double value_of(const json_t *o, const struct row *r)
{
	const json_t *part = r->part ? r->part(o) : o, *v = json_object_get(part, r->key);
	if (json_is_array(v))
		return (double)json_array_size(v);
	return json_is_boolean(v) ? json_is_true(v) : member_number(part, r->key) * r->unit;
}

static void label_gpu(struct buf *to, const json_t *g)
{
	char index[24];
	snprintf(index, sizeof index, "%lld", (long long)member_int(g, "index"));
	label(to, "gpu", index);
	label(to, "uuid", member_text(g, "uuid"));
}

/* Rows over objects: a family where any of them has a value. */
static void rows_over(const struct page *p, const json_t *list, const struct row *rows, size_t n,
		      void (*name_it)(struct buf *, const json_t *))
{
	for (size_t r = 0, i; r < n; r++) {
		bool begun = false;
		json_t *o;
		json_array_foreach(list, i, o) {
			scoped_buf labels = { 0 };
			if (isnan(value_of(o, &rows[r])))
				continue;
			if (!begun)
				family(p, rows[r].name, rows[r].kind, rows[r].help);
			begun = true;
			name_it(&labels, o);
			sample(p, rows[r].name, buf_text(&labels), value_of(o, &rows[r]));
		}
	}
}

static void write_gpu_infos(const struct page *p, const json_t *gpus)
{
	size_t i;
	json_t *g;
	family(p, "rad_gpu_info", INFO, "What the GPU is, and how its tasks share it.");
	json_array_foreach(gpus, i, g) {
		scoped_buf labels = { 0 };
		label_gpu(&labels, g);
		label(&labels, "model", member_text(g, "name"));
		label(&labels, "parent_uuid", member_text(g, "parent_uuid"));
		label(&labels, "share", member_text(g, "share"));
		sample(p, "rad_gpu_info", buf_text(&labels), 1);
	}
}

static void write_gpus(const struct page *p, const json_t *answer)
{
	static const struct row host_rows[] = {
		{ "rad_host_memory_bytes", GAUGE, "mem_mib", MIB, "Memory of the machine that tasks may get in all." },
		{ "rad_host_memory_held_bytes", GAUGE, "mem_held_mib", MIB, "Memory of the machine that running tasks asked for." },
		{ "rad_host_cpus", GAUGE, "cpus", 1, "CPUs that tasks may get in all." },
		{ "rad_host_cpus_held", GAUGE, "cpus_held", 1, "CPUs that running tasks asked for." },
		{ "rad_host_cpus_needed", GAUGE, "cores_needed", 1, "CPUs that running tasks are seen to need." },
	};
	const json_t *gpus = json_object_get(answer, "gpus"), *host = json_object_get(answer, "host");
	if (json_array_size(gpus))
		write_gpu_infos(p, gpus);
	rows_over(p, gpus, gpu_rows, COUNT_OF(gpu_rows), label_gpu);
	for (size_t i = 0; i < COUNT_OF(host_rows); i++)
		one(p, host_rows[i].name, GAUGE, host_rows[i].help, value_of(host, &host_rows[i]));
}

/* radd itself ----------------------------------------------------------------------------------------------------------- */

static void lower(char *to, size_t size, const char *from)
{
	size_t i = 0;
	for (; from[i] && i + 1 < size; i++)
		to[i] = (char)tolower((unsigned char)from[i]);
	to[i] = 0;
}

/* {"WORD": number}: a sample each, labelled with the word in small letters. */
static void write_counts(const struct page *p, const json_t *counts, const char *name, enum kind kind, const char *what,
			 const char *help)
{
	const char *key;
	json_t *v;
	char word[40];
	if (!json_object_size(counts))
		return;
	family(p, name, kind, help);
	json_object_foreach((json_t *)counts, key, v) {
		scoped_buf labels = { 0 };
		lower(word, sizeof word, key);
		label(&labels, what, word);
		sample(p, name, buf_text(&labels), json_number_value(v));
	}
}

/* Of the first attempts: how long their tasks had waited, holds and dependencies apart. */
static void write_waits(const struct page *p, const json_t *since)
{
	const json_t *waits = json_object_get(since, "waits");
	size_t i, n = json_array_size(waits);
	json_t *w;
	if (!n)
		return;
	family(p, "rad_task_wait_seconds", HISTOGRAM, "Time that tasks waited until they were first started.");
	json_array_foreach(waits, i, w) {
		double limit = member_number(w, "le_s");
		char labels[40] = "le=\"+Inf\"";
		if (!isnan(limit))
			snprintf(labels, sizeof labels, "le=\"%.1f\"", limit);
		sample(p, "rad_task_wait_seconds_bucket", labels, member_number(w, "n"));
	}
	sample(p, "rad_task_wait_seconds_sum", "", member_number(since, "wait_s"));
	sample(p, "rad_task_wait_seconds_count", "", member_number(json_array_get(waits, n - 1), "n"));
}

static void write_status(const struct page *p, const json_t *s)
{
	scoped_buf labels = { 0 };
	label(&labels, "version", member_text(s, "version"));
	label(&labels, "placement", member_text(s, "placement"));
	label(&labels, "share", member_text(s, "share"));
	family(p, "rad_info", INFO, "Release and policy of radd.");
	sample(p, "rad_info", buf_text(&labels), 1);
	one(p, "rad_start_time_seconds", GAUGE, "When radd was started, in seconds since 1970.", 
	    seconds_of(member_text(s, "start_time")));
	one(p, "rad_snapshot_age_seconds", GAUGE, "Age of what is known of the GPUs.", member_number(s, "snapshot_age_s"));
	one(p, "rad_sampler_restarts_total", COUNTER, "How often the process that reads the GPUs had to be started again.",
	    member_number(s, "sampler_restarts"));
	one(p, "rad_troubles", GAUGE, "What somebody should look after: rad doctor tells.",
		(double)json_array_size(json_object_get(s, "troubles")));
	write_counts(p, json_object_get(s, "tasks"), "rad_tasks", GAUGE, "state", "Tasks that have not ended, by state.");
	const json_t *since = json_object_get(s, "since_start");
	one(p, "rad_tasks_submitted_total", COUNTER, "Tasks submitted since radd was started.", member_number(since, "submitted"));
	one(p, "rad_attempts_started_total", COUNTER, "Attempts started since then.", member_number(since, "started"));
	write_waits(p, since);
	write_counts(p, json_object_get(since, "ended"), "rad_tasks_ended_total", COUNTER, "state",
		"Tasks that ended since then, by state.");
	write_counts(p, json_object_get(since, "verdicts"), "rad_attempts_ended_total", COUNTER, "verdict",
		     "Attempts that ended since then, by why: one out of memory may have been run again.");
}

/* Users ----------------------------------------------------------------------------------------------------------------- */

static void label_user(struct buf *to, const json_t *u)
{
	label(to, "user", member_text(u, "user"));
}

static void write_users(const struct page *p, const json_t *answer)
{
	static const struct row rows[] = {
		{ "rad_user_running_tasks", GAUGE, "running", 1, "Tasks of the user that run." },
		{ "rad_user_unfinished_tasks", GAUGE, "unfinished", 1, "Tasks of the user that have not ended." },
		{ "rad_user_gpus", GAUGE, "gpus", 1, "GPUs that they have, in sum: one that is shared counts for each." },
		{ "rad_user_gpus_share", GAUGE, "gpus_now", 1, "GPUs that they have, one that is shared in equal parts." },
		{ "rad_user_memory_held_bytes", GAUGE, "mem_mib", MIB, "GPU memory that is held for them." },
		{ "rad_user_recent_gpu_seconds", GAUGE, "used_s", 1,
			"GPU time of the user that counts for whose turn it is; older time counts less." },
	};
	scoped_json *known = json_array();
	size_t i;
	json_t *u;
	/* radd tells of the user who asks, too, who is nobody of note here. */
	json_array_foreach(json_object_get(answer, "users"), i, u)
		if (member_number(u, "unfinished") > 0 || member_number(u, "used_s") > 0)
			json_array_append(known, u);
	rows_over(p, known, rows, COUNT_OF(rows), label_user);
}

/* Tasks ----------------------------------------------------------------------------------------------------------------- */

static void label_task(struct buf *to, const json_t *t)
{
	label(to, "task", member_text(t, "id"));
	label(to, "user", member_text(t, "user"));
}

static const json_t *last_attempt(const json_t *t)
{
	return member_last_attempt(t);
}

static const json_t *estimate_of(const json_t *t) { return json_object_get(t, "estimate"); }
static const json_t *progress_of(const json_t *t) { return json_object_get(t, "progress"); }

static const struct row task_rows[] = {
	{ "rad_task_run_seconds", GAUGE, "run_s", 1, "Time the task has run, all attempts together." },
	{ "rad_task_gpus", GAUGE, "gpus_requested", 1, "GPUs of the task." },
	{ "rad_task_slowdown_ratio", GAUGE, "slowdown", 1, "How many times slower than alone it is." },
	{ "rad_task_claim_bytes", GAUGE, "claim_mib", MIB, "What it is expected to take on each of its GPUs.", estimate_of },
	{ "rad_task_memory_peak_bytes", GAUGE, "peak_mib", MIB, "The most it was seen to take on one GPU.", last_attempt },
	{ "rad_task_sm_active_ratio", GAUGE, "mean_smact", 1, "Mean SM activity of its GPUs.", last_attempt },
	{ "rad_task_energy_joules_total", COUNTER, "energy_j", 1, "Its part of its GPUs' energy, in this attempt.", last_attempt },
	{ "rad_task_done_ratio", GAUGE, "percent", 0.01, "How far it is, by its own output.", progress_of },
	{ "rad_task_left_seconds", GAUGE, "left_s", 1, "What is left, by its own output.", progress_of },
};

/* Joined with the others by `task`; names are in this one alone. */
static void write_task_infos(const struct page *p, const json_t *tasks)
{
	size_t i;
	json_t *t;
	family(p, "rad_task_info", INFO, "What the task is called, and where its estimate is from.");
	json_array_foreach(tasks, i, t) {
		scoped_buf labels = { 0 };
		label_task(&labels, t);
		label(&labels, "name", member_text(t, "name"));
		label(&labels, "estimator", member_text(estimate_of(t), "estimator"));
		sample(p, "rad_task_info", buf_text(&labels), 1);
	}
}

static double memory_on(const json_t *gpu, const char *task)
{
	double sum = NAN;
	size_t i;
	json_t *proc;
	json_array_foreach(json_object_get(gpu, "processes"), i, proc) {
		double mib = member_number(proc, "mem_mib");
		if (!strcmp(member_text(proc, "task"), task) && !isnan(mib))
			sum = (isnan(sum) ? 0 : sum) + mib;
	}
	return sum * MIB;
}

static void write_task_places(const struct page *p, const json_t *gpus, const json_t *shown)
{
	size_t i, k;
	json_t *g, *id;
	family(p, "rad_task_memory_bytes", GAUGE, "Memory that the task has on this GPU.");
	json_array_foreach(gpus, i, g)
		json_array_foreach(json_object_get(g, "tasks"), k, id) {
			scoped_buf labels = { 0 };
			if (!json_object_get(shown, json_string_value(id)))
				continue;
			label(&labels, "task", json_string_value(id));
			label_gpu(&labels, g);
			sample(p, "rad_task_memory_bytes", buf_text(&labels), memory_on(g, json_string_value(id)));
		}
}

static void write_tasks(const struct page *p, const json_t *answer, const json_t *gpus)
{
	scoped_json *running = json_array(), *shown = json_object();
	size_t i, left_out = 0;
	json_t *t;
	json_array_foreach(json_object_get(answer, "tasks"), i, t) {
		if (member_state(t) != TASK_RUNNING)
			continue;
		if (json_array_size(running) == METRICS_TASKS) {
			left_out++;
			continue;
		}
		json_array_append(running, t);
		json_object_set_new(shown, member_text(t, "id"), json_true());
	}
	if (json_array_size(running)) {
		write_task_infos(p, running);
		rows_over(p, running, task_rows, COUNT_OF(task_rows), label_task);
		write_task_places(p, json_object_get(gpus, "gpus"), shown);
	}
	one(p, "rad_exporter_tasks_left_out", GAUGE, "Running tasks that have no series, since there are too many.",
		(double)left_out);
}

/* All --------------------------------------------------------------------------------------------------------------------- */

static void write_answered(const struct page *p, const struct metrics *m)
{
	const struct { const char *question; bool wanted; const json_t *answer; } asked[] = {
		{ "gpus", true, m->gpus }, { "status", true, m->status },
		{ "tasks", m->want_tasks, m->tasks }, { "users", m->want_users, m->users },
	};
	family(p, "rad_exporter_answered", GAUGE, "1: radd answered this question; else what follows from it is missing.");
	for (size_t i = 0; i < COUNT_OF(asked); i++) {
		scoped_buf labels = { 0 };
		if (!asked[i].wanted)
			continue;
		label(&labels, "question", asked[i].question);
		sample(p, "rad_exporter_answered", buf_text(&labels), asked[i].answer != NULL);
	}
}

void metrics_write(const struct metrics *m, bool open, struct buf *out)
{
	const struct page p = { out, open };
	one(&p, "rad_up", GAUGE, "1: radd answers.", m->status && m->gpus);
	one(&p, "rad_exporter_scrape_duration_seconds", GAUGE, "How long radd took to answer.", m->took_s);
	write_answered(&p, m);
	if (m->status)
		write_status(&p, m->status);
	if (m->gpus)
		write_gpus(&p, m->gpus);
	if (m->users)
		write_users(&p, m->users);
	if (m->tasks)
		write_tasks(&p, m->tasks, m->gpus);
	if (open)
		buf_add_text(out, "# EOF\n");
}
