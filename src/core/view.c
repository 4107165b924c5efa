/* SPDX-License-Identifier: MIT
 * The core as JSON: task objects with their reason, GPUs, and the arithmetic of `rad why`. Changes nothing.
 *
 * A reason is not kept from the pass that left a task waiting: it is asked anew, by the same functions on the same request, so
 * that it is true of now. Two things follow. It may say that the task would fit (then it is its turn that has not come:
 * "Priority"), and it costs a look at every GPU, so lists ask for it only where it is shown.
 */
#include "core/private.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/scope.h"
#include "base/text.h"
#include "base/units.h"
#include "core/begins.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

struct reason { const char *word; char text[400]; };

static const char *user_word(const struct task *t)
{
	return t->spec->user ? t->spec->user : "?";
}

/* What its user may have keeps it, or one of his before it; false: nothing does. */
static bool reason_allowance(struct core *c, const struct task *t, struct now now, struct reason *out)
{
	const struct allowance a = pass_allowance(c->pass, t->spec->uid);
	const struct pass_left_out left = pass_left_out(c->pass, t, now);
	const struct fair_taken taken = fair_taken_of(c->fair, t->spec->uid);
	const enum allowance_kind kind = left.kind;
	char id[TASK_ID_TEXT], who[TASK_ID_TEXT + 32] = "it";
	if (kind == ALLOWANCE_COUNT)
		return false;
	if (left.by != t)
		snprintf(who, sizeof who, "task %s, which is before it,", task_id_text(left.by->id, id));
	const char *source = c->ops.allowance_source ? c->ops.allowance_source(c->ops.ctx, t->spec->uid, kind) : "";
	out->word = "UserLimit";
	snprintf(out->text, sizeof out->text, "user %s may have %s %llu%s and has %llu now, and %s asks for %llu%s%s", user_word(t),
		 allowance_word(kind), (unsigned long long)a.most[kind], kind == ALLOWANCE_MEM ? " MiB" : "",
		 (unsigned long long)allowance_has(&taken, kind), who, (unsigned long long)left.asks,
		 *source ? "; the limit is " : "", source);
	return true;
}

/* Why the main queue does not come to this task: who is before it. It would fit, so it is its turn that has not come.
 * The task it waits behind is that of the last pass, which may have been placed since. */
static void reason_behind(const struct core *c, const struct task *t, struct reason *out)
{
	char id[TASK_ID_TEXT];
	task_id blocked = pass_head(c->pass);
	out->word = "Priority";
	if (blocked == t->id)
		snprintf(out->text, sizeof out->text, "there is room for it now: it starts in a moment");
	else if (blocked && t->gpus)
		snprintf(out->text, sizeof out->text, "task %s is before it and waits for a GPU", task_id_text(blocked, id));
	else
		snprintf(out->text, sizeof out->text, "tasks before it are placed first");
}

/* Whoever has what he may have is passed over, and a task that is more than that at any time; NULL: they all are. */
static const struct task *first_in_turn(struct core *c, struct now now)
{
	struct queue_walk w;
	struct pass_left_out left;
	const struct task *first;
	queue_walk_begin(&w, tasks_queue(c->tasks), QUEUE_MAIN);
	while ((first = queue_walk_next(&w)) && (left = pass_left_out(c->pass, first, now)).kind != ALLOWANCE_COUNT)
		if (left.never)
			queue_walk_pass_over(&w);
		else
			queue_walk_leave_user(&w);
	queue_walk_end(&w);
	return first;
}

/* Whose turn it is, and by which figure; null where that plays no part: one user alone waits, users are not told apart, or the
 * task waits for a limit of its user's. By the same figures that the queue goes by (fair_place_of), so that what is told is
 * what happens. */
static json_t *turn_json(struct core *c, const struct task *t, struct now now)
{
	char id[TASK_ID_TEXT];
	if (!c->config.fair.on || queue_users(tasks_queue(c->tasks)) < 2 || !tasks_in_queue(c->tasks, t) ||
	    !t->gpus || pass_left_out(c->pass, t, now).kind != ALLOWANCE_COUNT)
		return json_null();
	const struct task *first = first_in_turn(c, now);
	if (!first)
		return json_null();
	struct fair_standing his = fair_look(c->fair, fair_find(c->fair, first->spec->uid)),
			     own = fair_look(c->fair, fair_find(c->fair, t->spec->uid));
	struct fair_place place = fair_place_of(c->fair, fair_find(c->fair, first->spec->uid), first->id, &(struct fair_taken){ 0 });
	return json_pack("{ss, ss, ss, so, si, ss, so, si, sI}", "user", user_word(first), "task", task_id_text(first->id, id),
		"because", first->priority > t->priority ? "its priority is higher" : fair_why(place), "used_s", json_round3(his.used_s),
		"running", (int)his.taken.tasks, "own_user", user_word(t), "own_used_s", json_round3(own.used_s),
		"own_running", (int)own.taken.tasks, "half_life_s", (json_int_t)(c->config.fair.half_life_ms / 1000));
}

static void say_gpus(const struct core *c, char (*uuids)[GPU_UUID_LEN], uint32_t n, char *text, size_t size)
{
	size_t len = 0;
	*text = 0;
	for (uint32_t i = 0; i < n && len < size; i++) {
		int64_t slot = fleet_slot_of(c->fleet, uuids[i]);
		const struct gpu_reading *g = slot < 0 ? NULL : fleet_look(c->fleet, (uint32_t)slot, 0).reading;
		char number[GPU_NUMBER_LEN];
		int more = text_printf(text + len, size - len, "%s%.20s", i ? ", " : "",
				       g ? reading_number(g->index, g->mig, g->instance, number) : uuids[i]);
		len += more > 0 ? (size_t)more : 0;
	}
}

static void reason_planned(const struct core *c, const struct map_request *r, struct reason *out)
{
	char uuids[SPEC_MAX_GPUS][GPU_UUID_LEN], where[200];
	for (unsigned i = 0; i < r->gpus; i++)
		snprintf(uuids[i], GPU_UUID_LEN, "%s", fleet_look(c->fleet, r->planned[i], 0).reading->uuid);
	say_gpus(c, uuids, r->gpus, where, sizeof where);
	snprintf(out->text, sizeof out->text, "the plan has it start on GPU %s", where);
}

/* It waits for nothing but the host, as GPU tasks may too; false: the host has room. */
static bool reason_from_host(struct core *c, const struct task *t, struct reason *out)
{
	struct error err = ERROR_INIT;
	enum host_lack lack;
	if (host_feasible(&c->config, t->spec, t->host_mem_mib, &err)) {
		out->word = "Infeasible";
		text_printf(out->text, sizeof out->text, "%.399s", err.text);
		return true;
	}
	lack = host_asks(c->host, t, NULL, out->text);
	out->word = lack == HOST_LACKS_MEMORY ? "HostMemory" : lack ? "HostCpus" : NULL;
	return lack;
}

/* Whether people are told of it: one that went away, and is kept because it is drained, say, is nobody's concern. */
static bool gpu_is_listed(const struct core *c, uint32_t slot, struct now now)
{
	struct fleet_gpu g = fleet_look(c->fleet, slot, now.mono_ms);
	return g.present || g.n_tasks;
}

/* Those of GPUs that are listed, to the front. Returns how many. */
static size_t findings_listed(const struct core *c, struct map_finding *findings, size_t n, struct now now)
{
	size_t left = 0;
	for (size_t i = 0; i < n; i++)
		if (gpu_is_listed(c, (uint32_t)i, now))
			findings[left++] = findings[i];
	return left;
}

/* Whether GPUs that are there could ever hold it, as a submission is asked. */
static int reason_feasible(const struct core *c, const struct map_request *r, struct error *err)
{
	scoped_free struct map_gpu *devices = alloc_zero((fleet_size(c->fleet) + 1) * sizeof *devices);
	return map_feasible(&(struct map_scene){ &c->config.map, devices, fleet_devices(c->fleet, devices), NULL }, r, err);
}

/* Asks the map again, as of now, and tells what stands in the way: the word that most GPUs share; each GPU's own is in
 * core_why_json. */
static void reason_from_map(struct core *c, const struct task *t, struct now now, struct reason *out)
{
	struct map_request r = pass_request(c->pass, t, now);
	struct error err = ERROR_INIT;
	size_t n = fleet_size(c->fleet);
	scoped_free struct map_finding *findings = alloc_zero((n + 1) * sizeof *findings);
	if (!r.gpus) {
		if (!reason_from_host(c, t, out))
			reason_behind(c, t, out);
	} else if (!fleet_was_read(c->fleet) || !n) {
		out->word = "NoReading";
		snprintf(out->text, sizeof out->text, "no GPU has been read yet");
	} else if (reason_feasible(c, &r, &err)) {
		out->word = "Infeasible";
		text_printf(out->text, sizeof out->text, "%.399s", err.text);
	} else if (reason_from_host(c, t, out)) {
		return;
	} else if (pass_would_place(c->pass, &r, findings, now)) {
		reason_behind(c, t, out);
	} else {
		enum map_reason why = map_summary(findings, findings_listed(c, findings, n, now), r.gpus);
		out->word = map_reason_word(why);
		snprintf(out->text, sizeof out->text, "%s", map_reason_help(why));
		if (why == MAP_ELSEWHERE && r.planned)
			reason_planned(c, &r, out);
	}
}

/* Its user did nothing wrong, and asks why it waits anew. */
static void reason_again(const struct task *t, struct reason *out)
{
	char why[sizeof out->text];
	if (t->queue != QUEUE_RECOVERY || !t->n_attempts || task_attempt(t)->verdict != VERDICT_NEIGHBOUR)
		return;
	memcpy(why, out->text, sizeof why);
	text_printf(out->text, sizeof out->text, "it runs again, alone at first, since another task under its MPS server ended at the "
		    "same time as it; %.200s", why);
}

/* Its processes are not where it was sent, which its owner may not know. */
static void reason_moved(const struct core *c, const struct attempt *a, struct reason *out)
{
	char given[64], now[64];
	say_gpus(c, a->given, a->n_given, given, sizeof given);
	say_gpus(c, a->gpus, a->n_gpus, now, sizeof now);
	if (!strcmp(given, now))
		return;
	out->word = "OtherGpus";
	int n = snprintf(out->text, sizeof out->text, "was given %s%s; its processes are on GPU %s, where it is counted now. ",
			 a->n_given ? "GPU " : "no GPU", given, now);
	if (!a->n_given)
		snprintf(out->text + n, sizeof out->text - (size_t)n, "Submit it with --gpus %u", a->n_gpus);
	else if (a->n_gpus > a->n_given)
		snprintf(out->text + n, sizeof out->text - (size_t)n, "It asked for fewer GPUs than it uses: submit it with --gpus %u, or "
			 "let it use %u", a->n_gpus, a->n_given);
	else
		snprintf(out->text + n, sizeof out->text - (size_t)n, "If it sets CUDA_VISIBLE_DEVICES itself, let it not: devices are "
			 "numbered from 0 among those that a task was given");
}

static void reason_dependency(const struct core *c, const struct task *t, struct now now, struct reason *out)
{
	char id[TASK_ID_TEXT];
	const struct dependency *open;
	bool never = tasks_waits_in_vain(c->tasks, t, &open);
	out->word = never ? "DependencyNeverSatisfied" : "Dependency";
	if (!open && begins_later(t, now.wall_ms)) {
		char begin[CLOCK_ISO_LEN];
		out->word = "BeginTime";
		clock_iso(t->begin_s * 1000, begin);
		if (t->retrying)
			snprintf(out->text, sizeof out->text, "failed, and begins again at %s: retry %u of %u (--retries)", begin,
				 task_retries_used(t), t->retries);
		else
			snprintf(out->text, sizeof out->text, "begins at %s, as it asks (--begin)", begin);
	} else if (!open)	/* between the end of the last one and the next pass */
		snprintf(out->text, sizeof out->text, "what it waited for has just ended");
	else
		snprintf(out->text, sizeof out->text, never ? "%s:%s can no longer be met: cancel it, or requeue that one" :
			 "waits for %s:%s", dependency_kind_name(open->kind), task_id_text(open->task, id));
}

static const char *signal_words(int number, char *buf, size_t size)
{
	const char *word = sigabbrev_np(number);	/* those of real time have none */
	if (word)
		snprintf(buf, size, "SIG%s", word);
	else
		snprintf(buf, size, "signal %d", number);
	return buf;
}

/* Asked to make place: it saves what it did, or stays. */
static void reason_slot(const struct core *c, const struct task *t, struct now now, struct reason *out)
{
	const struct attempt *a = task_attempt(t);
	bool leaving = timeslots_leaving(c->timeslots, t, now.wall_ms);
	char since[32], sig[16];
	units_format_duration((now.wall_ms - a->slot_asked_ms) / 1000, since, sizeof since);
	out->word = leaving ? "SlotEnds" : "SlotOver";
	if (leaving)
		snprintf(out->text, sizeof out->text, "its time slot is over and others wait: asked %s ago to save and exit", since);
	else if (timeslots_unheard(c->timeslots, t))
		snprintf(out->text, sizeof out->text, "its time slot is over and others wait; none of its processes has a handler for "
			 "%s, so it got none and keeps its GPU: rad-submit(1), --slot", signal_words(task_signal(t), sig, sizeof sig));
	else
		snprintf(out->text, sizeof out->text, "its time slot is over and others wait; asked %s ago (time %u of %d), it did not "
			 "exit and keeps its GPU", since, a->slot_asks, TIMESLOTS_ASKS);
}

/* Nobody is harmed by asking; what is held and not used harms those who wait. */
static void reason_idle(const struct core *c, const struct task *t, struct now now, struct reason *out)
{
	int64_t idle_ms = fleet_idle_ms(c->fleet, t->id, now);
	char id[TASK_ID_TEXT], since[32];
	if (!c->config.lease_idle_ms || idle_ms < c->config.lease_idle_ms)
		return;
	units_format_duration(idle_ms / 1000, since, sizeof since);
	out->word = "Idle";
	snprintf(out->text, sizeof out->text, "nothing was computed for %s; if it is needed no more: rad %s %s", since,
		 t->spec->process_pid ? "lease --give-back" : "cancel", task_id_text(t->id, id));
}

/* Its program may take kill_wait to end, and nothing else tells its owner that it was heard. */
static void reason_stopping(const struct task *t, struct reason *out)
{
	const char *why = t->stopping == STOP_TIME_LIMIT ? "its time limit is over" :
			  t->stopping == STOP_REQUEUE ? "it is to be run again" : "it was cancelled";
	out->word = "Stopping";
	if (t->stopping != STOP_GIVEN_BACK)	/* of that nobody asks anything */
		snprintf(out->text, sizeof out->text, "%s, and its processes were asked to end; those that do not are killed after "
			 "kill_wait (rad.conf(5))", why);
}

static void reason_estimating(const struct task *t, struct reason *out)
{
	bool capture = t->spec->capture_until_s && !t->spec->capture && !t->gpu_mem_mib;
	out->word = capture && t->spec->capture_turn_s ? "CaptureTurn" : "Estimating";
	snprintf(out->text, sizeof out->text, !capture ? "how much GPU memory it needs is being estimated" :
		 t->spec->capture_turn_s ? "its capture waits for its turn: a few captures of a user are made at a time, in the order "
		 "of the tasks; in the end it starts without" :
		 "its capture is under way: how much GPU memory it asks for is found by running it without a GPU");
}

/* In the order in which things stand in a task's way: a person, other tasks, an estimate, its own array, the GPUs. */
static void reason_of(struct core *c, const struct task *t, struct now now, struct reason *out)
{
	const char *waits;
	*out = (struct reason){ .word = NULL };
	if (t->state == TASK_HELD) {
		out->word = "Held";
		snprintf(out->text, sizeof out->text, "held by a person; 'rad release' lets it go");
	} else if (t->state == TASK_CANCELLED && t->unmet.task) {
		char id[TASK_ID_TEXT];
		out->word = "DependencyNeverSatisfied";
		snprintf(out->text, sizeof out->text, "%s:%s could no longer be met, so it was cancelled (%s)",
			 dependency_kind_name(t->unmet.kind), task_id_text(t->unmet.task, id),
			 t->spec->kill_on_invalid_dep > 0 ? "--kill-on-invalid-dep" : "kill_invalid_depend in rad.conf");
	} else if (t->state == TASK_PENDING && t->waiting_for_deps) {
		reason_dependency(c, t, now, out);
	} else if (t->state == TASK_PENDING && !t->estimated) {
		reason_estimating(t, out);
	} else if (t->state == TASK_PENDING && !tasks_in_queue(c->tasks, t)) {
		out->word = "ArrayLimit";
		snprintf(out->text, sizeof out->text, "%u elements of its array run at once", t->array_limit);
	} else if (t->state == TASK_PENDING) {
		if (!reason_allowance(c, t, now, out))
			reason_from_map(c, t, now, out);
		reason_again(t, out);
	} else if (t->state == TASK_RUNNING && t->stopping) {
		reason_stopping(t, out);
	} else if (t->state == TASK_RUNNING && t->suspended) {
		out->word = "Suspended";
		bool own = t->suspended_uid == t->spec->uid;
		snprintf(out->text, sizeof out->text, "its processes are stopped%s, and it keeps its %s and memory; %s",
			 own ? "" : " by an administrator", t->gpus ? "GPUs" : "CPUs",
			 own ? "'rad resume' lets it go on" : "only an administrator may resume it");
	} else if (t->state == TASK_RUNNING && c->ops.start_waits && (waits = c->ops.start_waits(c->ops.ctx, t))) {
		out->word = "Delayed";
		snprintf(out->text, sizeof out->text, "%s", waits);
	} else if (t->state == TASK_RUNNING && task_attempt(t)->slot_asks) {
		reason_slot(c, t, now, out);
	} else if (t->state == TASK_RUNNING && task_attempt(t)->given) {
		reason_moved(c, task_attempt(t), out);
	} else if (t->state == TASK_RUNNING) {
		reason_idle(c, t, now, out);
	}
}

static bool is_listed(const json_t *ids, const char *id)
{
	size_t i;
	json_t *one;
	json_array_foreach(ids, i, one)
		if (!strcmp(json_string_value(one), id))
			return true;
	return false;
}

/* Once each, on however many GPUs. */
static json_t *shared_with(const struct core *c, const struct task *t)
{
	json_t *ids = json_array();
	const uint32_t *slots;
	char id[TASK_ID_TEXT];
	unsigned n = fleet_slots_of(c->fleet, t->id, &slots);
	for (unsigned i = 0; i < n; i++) {
		unsigned there = fleet_look(c->fleet, slots[i], 0).n_tasks;
		for (unsigned k = 0; k < there; k++)
			if (fleet_task_on(c->fleet, slots[i], k) != t->id &&
			    !is_listed(ids, task_id_text(fleet_task_on(c->fleet, slots[i], k), id)))
				json_array_append_new(ids, json_text(id));
	}
	return ids;
}

/* The running tasks of its user that were said to share its loader. Whether they do, nobody asks here (decisions/0141). */
static json_t *feed_tasks(const struct core *c, const struct task *t)
{
	json_t *ids = json_array();
	char id[TASK_ID_TEXT];
	size_t at = 0;
	for (task_id one; (one = fleet_next_of_feed(c->fleet, t->spec->uid, t->spec->feed, &at));)
		json_array_append_new(ids, json_text(task_id_text(one, id)));
	return ids;
}

static json_t *progress_json(const struct progress_report *p, struct now now)
{
	bool ends = p->left_s >= 0, whole = p->fraction >= 0;
	return json_pack("{so, so, so, so, so, so, so, so, so, so, ss}",
		"done", json_int_or_null(p->done, p->total), "total", json_int_or_null(p->total, p->total),
		"unit", json_text_or_null(*p->unit ? p->unit : NULL), "epoch", json_int_or_null(p->epoch, p->epochs),
		"epochs", json_int_or_null(p->epochs, p->epochs), "percent", whole ? json_real(round(p->fraction * 1000) / 10) : json_null(),
		"rate", p->per_s > 0 ? json_real(p->per_s) : json_null(),
		"ends_ms", json_int_or_null(now.wall_ms + (int64_t)(p->left_s * 1000), ends),
		"left_s", ends ? json_round3(p->left_s) : json_null(), "spread_s", p->spread_s >= 0 ? json_round3(p->spread_s) : json_null(),
		"source", progress_source_name(p->source));
}

/* What is measured of the running attempt is not in the log yet. */
static void add_running(struct core *c, const struct task *t, struct now now, json_t *o)
{
	struct measured m;
	struct progress_report p;
	if (estimates_progress(c->estimates, t, now, &p))
		json_object_set_new(o, "progress", progress_json(&p, now));
	if (!fleet_measured(c->fleet, t->id, &m) && !endings_open(c->endings, t->id, &m))
		return;
	json_t *attempts = json_object_get(o, "attempts"), *last = json_array_get(attempts, json_array_size(attempts) - 1);
	json_object_set_new(last, "peak_mib", json_int_or_null((int64_t)m.peak_mib, m.peak_mib != 0));
	json_object_set_new(last, "host_peak_mib", json_int_or_null((int64_t)m.host_peak_mib, m.host_peak_mib != 0));
	task_show_means(last, &m);
	json_object_set_new(last, "alone_s", json_round3(m.alone_s));
	json_object_set_new(last, "energy_j", json_round3(m.energy_j));
	json_object_set_new(last, "load", task_show_load(&m));
	json_object_set_new(last, "pace", pace_show(&m.pace));
	json_object_set_new(last, "begin_s", json_round3(m.begin_s));
	struct fleet_cores cores = fleet_cores_of(c->fleet, t->id);
	json_object_set_new(last, "cores", json_round3(cores.busy));
	json_object_set_new(last, "cores_waited", json_round3(cores.waiting));
	task_show_slowdown(o, &m);
}

/* Not rounded: `rad estimate` goes on computing with it. */
json_t *core_host_pace_json(const struct core *c)
{
	struct hostpace host = estimates_host_pace(c->estimates);
	return host.tasks ? json_pack("{so, si}", "pace", json_real(host.pace), "tasks", (int)host.tasks) : json_null();
}

/* What it is expected to do to a GPU by what it came with, at the pace that hosts are known to have here by now. */
static void add_guess(struct core *c, const struct task *t, json_t *o)
{
	struct load_belief guess = t->estimate.prior;
	if (!t->estimated || guess.source == LOAD_UNKNOWN || task_state_terminal(t->state))
		return;
	hostpace_apply(&guess, estimates_host_pace(c->estimates).pace, fleet_first_model(c->fleet));
	json_t *load = load_to_json(&guess);
	json_object_set_new(load, "host_pace", core_host_pace_json(c));
	json_object_set_new(json_object_get(o, "estimate"), "load", load);
}

/* What is known of the cores that it will want, and from where. */
static void add_cores(struct core *c, const struct task *t, json_t *o)
{
	static const char *const sources[] = { [CORES_CAPTURED] = "capture", [CORES_RUNS] = "history" };
	struct cores_expected e = estimates_cores(c->estimates, t);
	if (t->estimated && e.how != CORES_UNKNOWN && !task_state_terminal(t->state))
		json_object_set_new(json_object_get(o, "estimate"), "cores_expected",
				    json_pack("{so, ss}", "cores", json_round3(e.cores), "source", sources[e.how]));
}

static void add_reason(struct core *c, const struct task *t, struct now now, json_t *o)
{
	struct reason why;
	reason_of(c, t, now, &why);
	json_object_set_new(o, "reason", json_text_or_null(why.word));
	json_object_set_new(o, "reason_text", json_text_or_null(why.text));
}

json_t *core_task_json(struct core *c, const struct task *t, struct now now, const struct task_wants *w)
{
	json_t *o = task_to_json_some(t, now.wall_ms, w);
	if (task_wants_whole(w, "estimate")) {
		add_guess(c, t, o);
		add_cores(c, t, o);
	}
	if (task_wants(w, "reason") || task_wants(w, "reason_text"))
		add_reason(c, t, now, o);
	if (task_wants(w, "shared_with"))
		json_object_set_new(o, "shared_with", shared_with(c, t));
	int64_t slot_ms = timeslots_length_ms(&c->config, t);
	if (task_wants(w, "slot_s"))
		json_object_set_new(o, "slot_s", json_int_or_null(slot_ms / 1000, slot_ms));
	if (t->state == TASK_RUNNING && t->spec->feed && task_wants(w, "feed"))
		json_object_set_new(json_object_get(o, "feed"), "tasks", feed_tasks(c, t));
	if (t->state == TASK_RUNNING)
		add_running(c, t, now, o);
	return o;
}

const char *core_task_reason(struct core *c, const struct task *t, struct now now)
{
	struct reason why;
	reason_of(c, t, now, &why);
	return why.word;
}

/* Null for what was not read: zero would be an idle GPU. */
static json_t *number(const struct gpu_reading *g, unsigned bit, double v)
{
	return g->valid & bit ? json_round3(v) : json_null();
}

static json_t *mib(const struct gpu_reading *g, unsigned bit, uint64_t v)
{
	return json_int_or_null((int64_t)v, g->valid & bit);
}

/* Its command is for its owner and administrators, who are the daemon's to know. */
static json_t *process_json(const struct gpu_reading *g, const struct proc_reading *p)
{
	char id[TASK_ID_TEXT];
	return json_pack("{si, sI, so, so, so, so, so}", "pid", (int)p->id.pid, "uid", (json_int_t)p->uid,
		"task", p->claimed ? json_text(task_id_text(p->claimed, id)) : json_null(),
		"mem_mib", mib(g, GPU_PROC_MEM, p->mem_mib), "start_time", json_time_or_null(p->started_ms),
		"program", json_text_or_null(*p->program ? p->program : NULL),
		"command", json_text_or_null(*p->command ? p->command : NULL));
}

static void add_people(const struct core *c, uint32_t slot, const struct fleet_gpu *g, json_t *o)
{
	json_t *tasks = json_array(), *procs = json_array();
	char id[TASK_ID_TEXT];
	for (unsigned i = 0; i < g->n_tasks; i++)
		json_array_append_new(tasks, json_text(task_id_text(fleet_task_on(c->fleet, slot, i), id)));
	for (size_t i = 0; i < g->n_procs; i++) {
		const struct proc_reading *p = &g->procs[i];
		if (p->mps_server)
			continue;
		json_array_append_new(procs, process_json(g->reading, p));
	}
	json_object_set_new(o, "tasks", tasks);
	json_object_set_new(o, "processes", procs);
}

static const char *share_word(const struct fleet_gpu *g)
{
	if (!g->n_tasks)
		return g->reading->mig ? share_mode_name(SHARE_MIG) : "idle";
	return g->mode == SHARE_NEVER ? "exclusive" : share_mode_name(g->mode);
}

static json_t *memory_json(const struct fleet_gpu *s)
{
	const struct gpu_reading *g = s->reading;
	char number[GPU_NUMBER_LEN];
	bool known = g->valid & GPU_MEM_TOTAL;
	return json_pack("{si, ss, ss, ss, sb, so, so, so, sI, so, so}", "index", (int)g->index,
		"number", reading_number(g->index, g->mig, g->instance, number), "uuid", g->uuid, "name", g->name,
		"mig", g->mig, "parent_uuid", json_text_or_null(g->parent_uuid), "mem_total_mib", mib(g, GPU_MEM_TOTAL, g->mem_total_mib),
		"mem_used_mib", mib(g, GPU_MEM_USED, g->mem_used_mib), "mem_held_mib", (json_int_t)s->held_mib,
		"mem_foreign_mib", json_int_or_null((int64_t)s->foreign_mib, known),
		"mem_available_mib", json_int_or_null((int64_t)s->available_mib, known));
}

static json_t *load_json(const struct fleet_gpu *s)
{
	const struct gpu_reading *g = s->reading;
	return json_pack("{so, so, so, ss, so, so, so, so, so, so, so, ss, sb, sb, so}",
		"gract", s->load.gract_known ? json_round3(s->load.gract) : json_null(),
		"smact", s->load.smact_known ? json_round3(s->load.smact) : json_null(),
		"smact_now", number(g, GPU_SMACT, g->smact), "smact_source",
		s->expected ? "expected" : smact_source_name(g->smact_source),
		"smocc", number(g, GPU_SMOCC, g->smocc), "dram", number(g, GPU_DRAM, g->dram),
		"pcie_rx_mib_s", number(g, GPU_PCIE, g->pcie_rx_mib_s), "pcie_tx_mib_s", number(g, GPU_PCIE, g->pcie_tx_mib_s),
		"power_w", number(g, GPU_POWER, g->power_w), "energy_j", number(g, GPU_ENERGY, g->energy_j),
		"temperature_c", number(g, GPU_TEMPERATURE, g->temperature_c),
		"share", share_word(s), "drained", s->drained, "stale", s->stale, "mps_users", json_text_or_null(s->mps_users));
}

/* Of other daemons of this machine. */
static json_t *claims_json(const struct fleet_gpu *g)
{
	json_t *list = json_array();
	for (size_t i = 0; i < g->n_others; i++)
		json_array_append_new(list, json_pack("{sI, si, sI, sI}", "uid", (json_int_t)g->others[i].uid, "tasks",
			(int)g->others[i].n_tasks, "held_mib", (json_int_t)g->others[i].held_mib, "used_mib",
			(json_int_t)g->others[i].observed_mib));
	return list;
}

static json_t *gpu_json(const struct core *c, uint32_t slot, const struct fleet_gpu *g)
{
	json_t *o = memory_json(g), *rest = load_json(g);
	json_object_update(o, rest);
	json_decref(rest);
	json_object_set_new(o, "claims", claims_json(g));
	json_object_set_new(o, "gpu_util", number(g->reading, GPU_UTIL, g->reading->gpu_util));
	add_people(c, slot, g, o);
	return o;
}

/* Null: not placed by. */
static json_t *host_json(const struct core *c)
{
	struct host_room held = host_held(c->host);
	uint64_t mem = c->config.host_mem_mib, cpus = c->config.host_cpus;
	struct map_cores cores = fleet_cores_room(c->fleet, 1, NULL, NULL);
	return json_pack("{so, sI, so, so, so, sI}", "mem_mib", json_int_or_null((int64_t)mem, core_host_known(mem)),
		"mem_held_mib", (json_int_t)held.mem_mib,
		"cores", cores.have > 0 ? json_round3(cores.have) : json_null(),
		"cores_needed", cores.have > 0 ? json_round3(cores.need) : json_null(),
		"cpus", json_int_or_null((int64_t)cpus, core_host_known(cpus)),
		"cpus_held", (json_int_t)held.cpus);
}

/* Slots stand as they became known: after a restart, first those that tasks run on. People see them by index. */
json_t *core_gpus_json(struct core *c, struct now now)
{
	json_t *gpus = json_array();
	scoped_free uint32_t *order = fleet_in_order(c->fleet);
	for (size_t i = 0; i < fleet_size(c->fleet); i++) {
		struct fleet_gpu g = fleet_look(c->fleet, order[i], now.mono_ms);
		if (gpu_is_listed(c, order[i], now))
			json_array_append_new(gpus, gpu_json(c, order[i], &g));
	}
	return json_pack("{si, so, so}", "schema", 1, "gpus", gpus, "host", host_json(c));
}

/* Processes that are no task's, where they may be what stands in the way. */
static json_t *foreign_json(const struct core *c, uint32_t slot, struct now now)
{
	struct fleet_gpu g = fleet_look(c->fleet, slot, now.mono_ms);
	json_t *list = json_array();
	for (size_t i = 0; i < g.n_procs; i++)
		if (!g.procs[i].claimed && !g.procs[i].mps_server)
			json_array_append_new(list, process_json(g.reading, &g.procs[i]));
	return list;
}

static json_t *finding_json(const struct core *c, const struct map_request *r, const struct map_gpu *g,
			    const struct map_finding *f, struct now now)
{
	char text[400], number[GPU_NUMBER_LEN];
	return json_pack("{so, si, ss, ss, ss, ss, sb, so, so}", "foreign", foreign_json(c, g->slot, now),
		"index", (int)g->index, "number", reading_number(g->index, g->mig, g->instance, number), "uuid", g->uuid,
		"reason", f->reason == MAP_OK ? "ok" : map_reason_word(f->reason),
		"text", map_explain(&c->config.map, g, r, f, text, sizeof text), "fits", f->reason == MAP_OK,
		"have", json_round3(f->have), "want", json_round3(f->want));
}

/* What placement finds on each GPU, as of now; *placed: whether it would be placed. */
static json_t *findings_json(struct core *c, const struct task *t, const struct map_request *asked, struct now now,
			     bool *placed)
{
	struct map_request with = *asked, *r = &with;
	with.company = fleet_company(c->fleet, t->spec->uid, t->spec->feed);
	json_t *list = json_array();
	size_t n = fleet_size(c->fleet);
	scoped_free struct map_finding *findings = alloc_zero((n + 1) * sizeof *findings);
	scoped_free uint32_t *order = fleet_in_order(c->fleet);
	*placed = n && pass_would_place(c->pass, r, findings, now);
	const struct map_gpu *gpus = fleet_gpus(c->fleet, now);
	for (size_t i = 0; i < n; i++)
		if (gpu_is_listed(c, order[i], now))
			json_array_append_new(list, finding_json(c, r, &gpus[order[i]], &findings[order[i]], now));
	return list;
}

/* A task that exists in this function alone: estimated by what is known now, without slow estimators, so an answer is at hand
 * at once. Submitted, it may come out otherwise. */
json_t *core_preview_json(struct core *c, struct spec *spec, struct now now)
{
	struct task *t = task_create(TASK_ID(0, -1), spec_ref(spec));
	struct event submitted = { .kind = EV_SUBMITTED, .t_ms = now.wall_ms };
	struct estimate_result expected;
	estimates_preview(c->estimates, spec, &expected);
	struct event estimated = { .kind = EV_ESTIMATED, .t_ms = now.wall_ms,
				   .u.estimate = expected.value };
	bool fits = false;
	task_apply(t, &submitted, NULL);
	task_apply(t, &estimated, NULL);
	struct map_request r = pass_request(c->pass, t, now);
	json_t *gpus = r.gpus && fleet_was_read(c->fleet) ? findings_json(c, t, &r, now, &fits) : json_array();
	fits = (fits || !r.gpus) && !host_asks(c->host, t, NULL, NULL);
	json_t *whole = task_to_json(t, now.wall_ms);
	json_t *o = json_pack("{si, sb, sb, sO, so}", "schema", 1, "dry_run", true, "fits_now", fits, "estimate",
			      json_object_get(whole, "estimate"), "gpus", gpus);
	json_decref(whole);
	task_destroy(t);
	return o;
}

/* Whose the cores are, where that is asked; null where nobody is placed by them. */
static json_t *cores_json(const struct core *c, const struct map_cores *room)
{
	char id[TASK_ID_TEXT];
	size_t at = 0;
	if (!(room->have > 0))
		return json_null();
	json_t *list = json_array();
	for (struct fleet_run r; fleet_next_run(c->fleet, &at, &r);) {
		struct fleet_cores of = fleet_cores_of(c->fleet, r.task->id);
		json_array_append_new(list, json_pack("{ss, so, so, so}", "task", task_id_text(r.task->id, id), "cores",
			json_round3(of.busy), "cores_waited", json_round3(of.waiting), "need", json_round3(of.need)));
	}
	return json_pack("{so, so, so, so, sb, so}", "have", json_round3(room->have), "need", json_round3(room->need), "more",
		json_round3(room->more), "gain", json_round3(room->gain), "used_up", room->used_up, "tasks", list);
}

/* null where a plan was made, or none was to be. */
static json_t *plan_json(const struct core *c)
{
	size_t known, asked;
	if (!pass_plan_lacks_times(c->pass, &known, &asked))
		return json_null();
	return json_pack("{sI, sI}", "known", (json_int_t)known, "of", (json_int_t)asked);
}

/* Findings are made only for one that could be placed: of a task that is held or runs the GPUs have nothing to say. */
json_t *core_why_json(struct core *c, task_id id, struct now now, struct error *err)
{
	char text[TASK_ID_TEXT];
	const struct task *t = tasks_find_any(c->tasks, id, err);
	struct reason why;
	if (!t)
		return NULL;
	reason_of(c, t, now, &why);
	bool fits;
	struct map_request r = pass_request(c->pass, t, now);
	bool asks = t->state == TASK_PENDING && t->estimated && r.gpus && fleet_was_read(c->fleet);
	json_t *gpus = asks ? findings_json(c, t, &r, now, &fits) : json_array();
	return json_pack("{si, ss, ss, so, so, si, sI, ss, so, so, so, so}", "schema", 1, "task", task_id_text(id, text),
		"state", task_state_name(t->state), "reason", json_text_or_null(why.word),
		"reason_text", json_text_or_null(why.text), "gpus_requested", (int)r.gpus, "claim_mib", (json_int_t)r.claim_mib,
		"estimator", t->estimate.estimator, "turn", turn_json(c, t, now),
		"cores", asks ? cores_json(c, &r.cores) : json_null(), "plan", asks ? plan_json(c) : json_null(), "gpus", gpus);
}
