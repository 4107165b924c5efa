/* SPDX-License-Identifier: MIT
 * The loop of a simulation: the next moment, what happens in it, what the core makes of that, and what follows from it.
 */
#include "sim/sim.h"

#include "account/account.h"
#include "base/alloc.h"
#include "base/scope.h"
#include "sim/bound.h"
#include "sim/known.h"
#include "sim/look.h"
#include "sim/world.h"

#include <stdlib.h>
#include <string.h>

#define SAMPLE_MS 1000
#define SIM_UID 1000

struct simulation {
	const struct sim_options *o;
	struct sim_result *out;
	struct core *core;
	struct world world;
	struct heap looks;		/* next look at each GPU */
	struct snapshot snap;		/* scratch */
	struct spec **specs;		/* one a workload, made when it is first used */
	int64_t *solo_ms;		/* of each task of the trace */
	int64_t *left_ms;		/* of that, to be done by its next attempt */
	int64_t now_ms;			/* from 0 at the first submission */
	int64_t due_ms;			/* when the core wants its turn */
	int64_t sample_ms;		/* the next of all GPUs; INT64_MAX: none */
	size_t next, ended;		/* of the trace */
	uint32_t *placed;		/* by the core in this turn, to be started */
	size_t n_placed, cap_placed;
	struct { int64_t question; uint32_t workload; } *asked;	/* of what is guessed, to be answered */
	size_t n_asked, cap_asked;
	uint32_t *leaving;		/* by the core in this turn, to make place */
	size_t n_leaving, cap_leaving;
};

/* Estimators --------------------------------------------------------------------------------------------------------------- */

static bool say_column(unsigned i, const struct spec *s, struct estimate_result *out)
{
	struct estimate *e = &out->value;
	e->need_mib = e->comfort_mib = e->claim_mib = s->estimates_mib[i];
	snprintf(out->note, sizeof out->note, "from %s", sim_estimator_columns[i]);
	return s->estimates_mib[i] != 0;
}

#define COLUMN(i, name) \
	static bool name##_column(const struct spec *s, uint64_t declared_mib, const struct estimate_context *c, \
				  struct estimate_result *out) \
	{ \
		(void)declared_mib, (void)c; \
		return say_column(i, s, out); \
	}
COLUMN(0, horus)
COLUMN(1, faketensor)
COLUMN(2, gpumemnet)

static const struct estimator columns[SIM_ESTIMATORS] = {
	{ "horus", NULL, horus_column }, { "faketensor", NULL, faketensor_column },
	{ "gpumemnet", NULL, gpumemnet_column },
};

static const struct estimator *find_estimator(const struct sim_options *o, struct error *err)
{
	bool oracle = !strcmp(o->estimator, "oracle");
	int column;
	if (sim_workloads_estimates(o->workloads, o->estimator, &column, err))
		return NULL;
	if (column >= 0)
		return &columns[column];
	if (oracle || !strcmp(o->estimator, "none"))
		return estimate_find(oracle ? "declared" : "none", NULL);
	error_set(err, ERR_INVALID, "no estimator '%.40s' for simulations; there are: oracle horus faketensor gpumemnet none",
		  o->estimator);
	return NULL;
}

/* Time --------------------------------------------------------------------------------------------------------------------- */

static struct now now_of(const struct simulation *s)
{
	return look_now(s->now_ms);
}

static uint32_t trace_place(task_id id)
{
	return TASK_JOB(id) - 1;
}

/* Where nothing moves, what was said before still holds: a word whenever something did is as good as one every few seconds. */
static void say_progress(struct simulation *s, const struct world_task *t)
{
	int64_t left = t->total - t->done - t->rate * (s->now_ms - t->since_ms);
	double fraction = world_fraction(t, s->now_ms), left_s = (double)left / (double)t->rate / 1000;
	double part = (double)t->total / (double)s->solo_ms[trace_place(t->id)] / 1e6;	/* below 1: it goes on after a time slot */
	fraction = part < 1 ? 1 - (1 - fraction) * part : fraction;
	struct progress_report r = {
		.source = PROGRESS_LINES, .t_ms = now_of(s).mono_ms, .fraction = fraction, .left_s = left_s, .spread_s = left_s / 50,
		.stands_ms = INT64_MAX, .whole_units = 1000, .advanced = 1000 * fraction, .per_s = (double)t->rate / (double)t->total * 1e6,
		.series = t->start_ms };
	if (t->computes && s->now_ms - t->start_ms >= LOOK_PROGRESS_MS)	/* while it loads its data it is not anywhere yet */
		core_progress(s->core, t->id, &r, 0, now_of(s));
}

/* Gives the core the readings of all GPUs that were touched. */
static void show(struct simulation *s)
{
	struct now now = now_of(s);
	if (!s->world.n_touched)
		return;
	s->snap.n_gpus = s->snap.n_procs = 0;
	s->snap.mono_ms = now.mono_ms;
	s->snap.wall_ms = now.wall_ms;
	world_read(&s->world, &s->snap);
	core_snapshot(s->core, &s->snap, s->o->without_mps ? CORE_MPS_NONE : CORE_MPS_TOGETHER, now);	/* all tasks are one user's */
	for (uint32_t i = 0; i < s->snap.n_gpus; i++) {
		const struct gpu_reading *r = &s->snap.gpus[i];
		uint32_t place = look_place(r->uuid);
		heap_set(&s->looks, place, look_next(s->o, s->core, &s->world.gpus[place], s->now_ms));
		for (size_t k = 0; k < s->world.gpus[place].n && s->o->progress_lines; k++)
			say_progress(s, s->world.gpus[place].tasks[k]);
		if (s->o->reading) {
			struct gpu_reading shown = *r;
			shown.index = place;	/* which is all that devices of a simulation go by, instances too */
			shown.mig = false;
			s->o->reading(s->o->ctx, s->now_ms, &shown);
		}
	}
}

/* What the core says ------------------------------------------------------------------------------------------------------- */

static void keep_attempt(const struct attempt *a, struct sim_attempt *out)
{
	*out = (struct sim_attempt){
		.start_ms = a->start_ms - LOOK_WALL_MS, .end_ms = a->end_ms - LOOK_WALL_MS, .n_gpus = a->n_gpus,
		.mode = a->mode, .claim_mib = a->claim_mib, .verdict = a->verdict, .seen = a->seen };
	out->gpus = alloc_resize(NULL, a->n_gpus, sizeof *out->gpus);
	for (unsigned i = 0; i < a->n_gpus; i++)
		out->gpus[i] = look_place(a->gpus[i]);
}

static void keep_task(struct simulation *s, const struct task *t)
{
	struct sim_task *k = &s->out->tasks[trace_place(t->id)];
	k->state = t->state;
	k->estimated = t->estimated && t->estimate.claim_mib;
	k->submit_ms = t->submit_ms - LOOK_WALL_MS;
	k->start_ms = t->start_ms - LOOK_WALL_MS;
	k->end_ms = t->end_ms - LOOK_WALL_MS;
	k->times = task_times(t, t->end_ms);
	k->n_attempts = t->n_attempts;
	k->attempts = alloc_resize(NULL, t->n_attempts, sizeof *k->attempts);
	for (uint32_t i = 0; i < t->n_attempts; i++) {
		keep_attempt(&t->attempts[i], &k->attempts[i]);
		s->out->neighbours_lost += t->attempts[i].verdict == VERDICT_NEIGHBOUR;
	}
	account_add(&s->out->account, t, t->end_ms);
}

static void on_event(void *ctx, const struct event *ev, const struct task *t)
{
	struct simulation *s = ctx;
	if (ev->kind == EV_PLACED) {
		alloc_grow(s->placed, s->n_placed, s->cap_placed);
		s->placed[s->n_placed++] = trace_place(t->id);
	}
	if (ev->kind == EV_SLOT_ASKED) {
		alloc_grow(s->leaving, s->n_leaving, s->cap_leaving);
		s->leaving[s->n_leaving++] = trace_place(t->id);
	}
	s->out->slots += ev->kind == EV_ENDED && ev->u.ended.verdict == VERDICT_SLOT;
	if (!task_state_terminal(t->state))
		return;
	keep_task(s, t);
	s->ended++;
	if (s->o->progress && s->ended % 64 == 0)
		s->o->progress(s->o->ctx, s->ended, s->o->trace->n);
}

/* What is done ------------------------------------------------------------------------------------------------------------- */

static void on_estimate(void *ctx, int64_t question, const struct estimator *row, struct spec *spec, uint64_t declared_mib,
			const struct estimate_context *c)
{
	struct simulation *s = ctx;
	(void)row, (void)declared_mib, (void)c;
	alloc_grow(s->asked, s->n_asked, s->cap_asked);
	s->asked[s->n_asked].question = question;
	uint32_t of = 0;
	while (s->specs[of] != spec)
		of++;
	s->asked[s->n_asked++].workload = of;
}

static void answer_asked(struct simulation *s)
{
	for (size_t i = 0; i < s->n_asked; i++) {
		uint32_t workload = s->asked[i].workload;
		struct estimate_result r;
		bool spoke = known_answer(s->o, s->specs[workload], workload, &r);
		core_estimated(s->core, s->asked[i].question, spoke, &r, now_of(s));
	}
	s->n_asked = 0;
}

static struct spec *spec_of(struct simulation *s, uint32_t workload)
{
	const struct sim_workload *w = &s->o->workloads->list[workload];
	struct spec **spec = &s->specs[workload];
	if (*spec)
		return *spec;
	*spec = spec_create();
	(*spec)->uid = SIM_UID;
	(*spec)->name = alloc_string(w->name);
	/* Without a ledger placement is that of the published system, which learns nothing from one run for the next. */
	(*spec)->signature = s->o->core.map.ledger ? alloc_string(w->name) : NULL;
	(*spec)->gpus = w->gpus;
	(*spec)->cpus = w->cpus;
	(*spec)->share = s->o->share;
	(*spec)->gpu_mem_mib = strcmp(s->o->estimator, "oracle") ? 0 : w->declared_mib ? w->declared_mib : w->mem_mib;
	memcpy((*spec)->estimates_mib, w->estimates_mib, sizeof w->estimates_mib);
	return *spec;
}

static int check_fits(struct simulation *s, struct error *err)
{
	scoped_free bool *seen = alloc_zero(s->o->workloads->n * sizeof *seen);
	const struct sim_trace *t = s->o->trace;
	for (size_t i = 0; i < t->n; i++) {
		uint32_t w = t->list[i].workload;
		if (seen[w])
			continue;
		seen[w] = true;
		if (s->o->workloads->list[w].gpus > SPEC_MAX_GPUS)
			return error_set(err, ERR_INVALID, "%s:%u: wants %u GPUs, on one server a task has at most %d", t->path,
					 t->list[i].line, s->o->workloads->list[w].gpus, SPEC_MAX_GPUS);
		if (core_feasible(s->core, spec_of(s, w), err))
			return error_wrap(err, "%s:%u: %s fits no device", t->path, t->list[i].line, s->o->workloads->list[w].name);
	}
	return 0;
}

static void submit_due(struct simulation *s)
{
	const struct sim_trace *t = s->o->trace;
	for (; s->next < t->n && t->list[s->next].submit_ms - t->list[0].submit_ms <= s->now_ms; s->next++)
		core_submit(s->core, (uint32_t)s->next + 1, spec_ref(spec_of(s, t->list[s->next].workload)), now_of(s));
}

static void leave(struct simulation *s, struct world_task *t, enum world_event met)
{
	const struct exit_report r = look_exit(met == WORLD_OUT_OF_MEMORY ? t : NULL);
	s->out->undone_s += met == WORLD_DONE ? (double)world_left_ms(&s->world, t) / 1000 : 0;
	core_exited(s->core, t->id, &r, now_of(s));
	world_end(&s->world, t);
}

static void start(struct simulation *s, uint32_t place)
{
	uint32_t gpus[SPEC_MAX_GPUS];
	task_id id = TASK_ID(place + 1, -1);
	const struct attempt *a = task_attempt(core_task(s->core, id));
	enum world_event met;
	for (uint32_t i = 0; i < a->n_gpus; i++)
		gpus[i] = look_place(a->gpus[i]);
	struct world_task *t = world_start(&s->world, &(struct world_begin){
		.id = id, .of = &s->o->workloads->list[s->o->trace->list[place].workload], .solo_ms = s->left_ms[place],
		.mode = a->mode, .fence_mib = a->fence_mib, .gpus = gpus, .n_gpus = a->n_gpus }, &met);
	core_started(s->core, id, (struct proc_id){ (pid_t)place + 1, 1 }, now_of(s));
	if (met != WORLD_NOTHING)
		leave(s, t, met);
}

/* It saves at once, and loses its start: that comes again. What there is of it to simulate from now on is the rest. */
static void make_place(struct simulation *s, uint32_t place)
{
	struct exit_report r = { .have_record = true, .exit_code = SPEC_REQUEUE_CODE };
	task_id id = TASK_ID(place + 1, -1);
	struct world_task *t = world_find(&s->world, id);
	if (!t)		/* it ended in this very moment */
		return;
	int64_t left_ms = world_left_ms(&s->world, t);
	left_ms += t->of->start_ms < s->solo_ms[place] ? t->of->start_ms : 0;
	s->left_ms[place] = left_ms > 0 ? left_ms : 1;
	core_exited(s->core, id, &r, now_of(s));
	world_end(&s->world, t);
}

/* As the daemon's turn: until nothing follows from what was done. */
static void turn(struct simulation *s)
{
	do {
		size_t n = s->n_placed, leaving = s->n_leaving;
		s->n_placed = s->n_leaving = 0;
		for (size_t i = 0; i < leaving; i++)
			make_place(s, s->leaving[i]);
		for (size_t i = 0; i < n; i++)
			start(s, s->placed[i]);
		show(s);
		s->due_ms = core_turn(s->core, now_of(s));
	} while (s->n_placed || s->n_leaving);
	if (s->due_ms != INT64_MAX)
		s->due_ms -= LOOK_MONO_MS;
}

static int64_t next_moment(const struct simulation *s)
{
	const struct sim_trace *t = s->o->trace;
	int64_t next = s->due_ms;
	if (s->next < t->n && t->list[s->next].submit_ms - t->list[0].submit_ms < next)
		next = t->list[s->next].submit_ms - t->list[0].submit_ms;
	next = world_next(&s->world) < next ? world_next(&s->world) : next;
	next = heap_first(&s->looks) < next ? heap_first(&s->looks) : next;
	/* Samples alone bring nothing about for ever. */
	return next != INT64_MAX && s->sample_ms < next ? s->sample_ms : next;
}

static void look_at_all(struct simulation *s)
{
	for (uint32_t i = 0; i < s->world.n_gpus; i++)
		world_touch(&s->world, i);
}

static void moment(struct simulation *s)
{
	struct world_task *t;
	enum world_event met;
	world_go(&s->world, s->now_ms);
	submit_due(s);
	answer_asked(s);
	while ((t = world_happen(&s->world, &met)))
		leave(s, t, met);
	while (heap_first(&s->looks) <= s->now_ms)
		world_touch(&s->world, heap_take(&s->looks));
	if (s->sample_ms <= s->now_ms) {
		look_at_all(s);
		s->sample_ms += SAMPLE_MS;
	}
	turn(s);
	s->out->events++;
}

static int run_all(struct simulation *s, struct error *err)
{
	look_at_all(s);
	show(s);
	if (check_fits(s, err))
		return -1;
	while (s->ended < s->o->trace->n) {
		int64_t next = next_moment(s);
		if (next == INT64_MAX)
			return error_set(err, ERR_INVALID, "%zu of %zu tasks never get a GPU under these settings",
					 s->o->trace->n - s->ended, s->o->trace->n);
		s->now_ms = next > s->now_ms ? next : s->now_ms;
		moment(s);
	}
	return 0;
}

/* Begin and end ------------------------------------------------------------------------------------------------------------ */

static void begin(struct simulation *s, const struct estimator *estimator)
{
	const struct sim_options *o = s->o;
	struct core_config config = o->core;
	struct core_ops ops = look_ops(s);
	const struct estimator asked = known_estimator(o, estimator);
	ops.event = on_event;
	ops.estimate = on_estimate;
	config.estimator = &asked;
	config.readings_stand = true;
	config.max_cpu = 0;	/* what tasks take of CPUs, of which they only ask for some, is not simulated */
	s->core = core_create(&config, &ops);
	if (o->loads == SIM_LOADS_KNOWN)
		known_remember(o, o->devices, o->n_devices, s->core);
	world_create(&s->world, o->devices, o->n_devices);
	s->specs = alloc_zero(o->workloads->n * sizeof *s->specs);
	s->solo_ms = alloc_resize(NULL, o->trace->n, sizeof *s->solo_ms);
	s->left_ms = alloc_resize(NULL, o->trace->n, sizeof *s->left_ms);
	s->out->tasks = alloc_zero(o->trace->n * sizeof *s->out->tasks);
	s->out->n = o->trace->n;
	s->due_ms = INT64_MAX;
	s->sample_ms = o->sampled ? 0 : INT64_MAX;
	for (size_t i = 0; i < o->trace->n; i++) {
		s->out->tasks[i].workload = o->trace->list[i].workload;
		s->solo_ms[i] = s->left_ms[i] = known_solo_ms(o, i);
	}
}

static void end(struct simulation *s)
{
	core_destroy(s->core);
	world_destroy(&s->world);
	heap_free(&s->looks);
	snapshot_clear(&s->snap);
	for (size_t i = 0; i < s->o->workloads->n; i++)
		spec_unref(s->specs[i]);
	free(s->specs);
	free(s->solo_ms);
	free(s->left_ms);
	free(s->placed);
	free(s->asked);
	free(s->leaving);
}

int sim_run(const struct sim_options *o, struct sim_result *out, struct error *err)
{
	struct simulation s = { .o = o, .out = out };
	const struct estimator *estimator = find_estimator(o, err);
	*out = (struct sim_result){ 0 };
	if (!estimator)
		return -1;
	begin(&s, estimator);
	int rc = run_all(&s, err);
	if (!rc) {
		bool alone = map_gives_alone(&o->core.map);
		out->energy_j = world_energy_j(&s.world);
		out->mean_smact = world_mean_smact(&s.world);
		out->lower_bound_s = bound_total_s(o->trace, o->workloads, o->devices, o->n_devices,
						   alone ? SHARE_NEVER : o->core.map.share, s.solo_ms);
	}
	end(&s);
	return rc;
}

void sim_result_clear(struct sim_result *r)
{
	for (size_t i = 0; i < r->n; i++) {
		for (unsigned k = 0; k < r->tasks[i].n_attempts; k++)
			free(r->tasks[i].attempts[k].gpus);
		free(r->tasks[i].attempts);
	}
	free(r->tasks);
	account_clear(&r->account);
	*r = (struct sim_result){ 0 };
}
