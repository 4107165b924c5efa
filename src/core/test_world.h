/* SPDX-License-Identifier: MIT
 *
 * What the tests of this folder share: a small world of GPUs of 40 GiB with a clock of the test's own, and what the core said.
 */
#ifndef RAD_CORE_TEST_WORLD_H
#define RAD_CORE_TEST_WORLD_H

#include "core/private.h"

#include "base/alloc.h"
#include "base/json.h"
#include "base/scope.h"

#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define MAX_GPUS 6
#define MAX_EVENTS 40000

/* A small world: GPUs of 40 GiB, and what the core said. */
struct world {
	struct core *c;
	struct now now;
	unsigned n_gpus;
	struct {
		task_id task;
		uint64_t mib;
		pid_t pid;
		unsigned stuck;	/* on GPU stuck - 1, though its task has ended; 0: it is not */
	} procs[64];
	unsigned n_procs;
	double smact;
	const double *energy_j;	/* counted so far, of each GPU; NULL: none counts */
	uint64_t foreign_mib;	/* on each GPU */
	bool foreigner;		/* a process of nobody's is listed on each, with nothing */
	bool mig;		/* they are instances of GPUs */
	bool fallen;		/* they are listed, and do not answer */
	uint64_t last_mib;	/* of the last GPU in all; 0: as the others */
	struct {
		enum event_kind kind;
		task_id task;
		enum task_state state;
		enum verdict verdict;
		int exit_code;
		int64_t t_ms;
	} log[MAX_EVENTS];
	unsigned n_log;
	struct { task_id id; enum task_state state; } ended[4000];
	unsigned n_ended, n_looked_up;
	uint32_t next_job;
	const char *gpu_name;
	struct core *learns;	/* is told what the core learnt, as after a restart; NULL: nobody */
	int64_t question;	/* the last that a slow estimator was asked; 0: none */
	unsigned n_questions;
	const struct estimator *asked;
	bool mps_together;	/* the machine can have one MPS server for all users */
	task_id deaf;		/* has no handler for the signal of a time slot */
};

static inline void on_event(void *ctx, const struct event *ev, const struct task *t)
{
	struct world *w = ctx;
	assert_true(w->n_log < MAX_EVENTS);
	w->log[w->n_log].kind = ev->kind;
	w->log[w->n_log].task = t->id;
	w->log[w->n_log].t_ms = ev->t_ms;
	w->log[w->n_log].verdict = ev->kind == EV_ENDED ? ev->u.ended.verdict : VERDICT_NONE;
	w->log[w->n_log].exit_code = ev->kind == EV_ENDED ? ev->u.ended.exit_code : 0;
	w->log[w->n_log++].state = t->state;
	if (task_state_terminal(t->state)) {
		w->ended[w->n_ended].id = t->id;
		w->ended[w->n_ended++].state = t->state;
	}
}

static inline bool state_of(task_id id, enum task_state *state, void *ctx)
{
	struct world *w = ctx;
	const struct task *t = core_task(w->c, id);
	w->n_looked_up++;
	if (t)
		*state = t->state;
	if (!t && TASK_INDEX(id) < 0 && core_job_state(w->c, TASK_JOB(id), state))
		return true;
	for (unsigned i = 0; !t && TASK_INDEX(id) < 0 && i < w->n_ended; i++)
		if (TASK_JOB(w->ended[i].id) == TASK_JOB(id)) {
			*state = w->ended[i].state;
			return true;
		}
	for (unsigned i = 0; !t && i < w->n_ended; i++)
		if (w->ended[i].id == id) {
			*state = w->ended[i].state;
			return true;
		}
	return t;
}

static inline void on_question(void *ctx, int64_t question, const struct estimator *row, struct spec *spec,
			       uint64_t declared_mib, const struct estimate_context *context)
{
	struct world *w = ctx;
	(void)spec, (void)declared_mib, (void)context;
	w->question = question;
	w->asked = row;
	w->n_questions++;
}

static inline void on_trouble(void *ctx, const char *text)
{
	(void)ctx;
	fail_msg("%s", text);
}

static inline void on_outcome(void *ctx, const struct outcome *o)
{
	struct world *w = ctx;
	if (w->learns)
		core_remember(w->learns, o);
}

static inline bool slot_hears(void *ctx, const struct task *t)
{
	return t->id != ((struct world *)ctx)->deaf;
}

static inline const char *uuid_of(unsigned gpu)
{
	static const char *const names[MAX_GPUS] = { "GPU-0", "GPU-1", "GPU-2", "GPU-3", "GPU-4", "GPU-5" };
	return names[gpu];
}

/* The invariants of the core hold after whatever was done to it. */
static inline void check(const struct world *w)
{
	struct error err = ERROR_INIT;
	if (core_check(w->c, &err))
		fail_msg("%s", err.text);
}

/* One sample: every process of `procs` on the GPU its task is on. */
static inline void sample(struct world *w)
{
	struct snapshot s = { .mono_ms = w->now.mono_ms, .wall_ms = w->now.wall_ms };
	uint64_t used[MAX_GPUS] = { 0 };
	for (unsigned g = 0; g < w->n_gpus; g++) {
		struct gpu_reading *r = snapshot_add_gpu(&s);
		snprintf(r->uuid, sizeof r->uuid, "%s", uuid_of(g));
		snprintf(r->name, sizeof r->name, "%s", w->gpu_name);
		r->index = g;
		r->mps_capable = true;
		r->mig = w->mig;
		r->valid = GPU_MEM_TOTAL | GPU_MEM_USED | GPU_PROCS | GPU_PROC_MEM | GPU_SMACT | GPU_GRACT;
		r->mem_total_mib = w->last_mib && g + 1 == w->n_gpus ? w->last_mib : 40960;
		r->smact = r->gract = w->smact;
		r->valid |= w->energy_j ? GPU_ENERGY : 0;
		r->energy_j = w->energy_j ? w->energy_j[g] : 0;
		if (w->fallen)
			r->fallen = true, r->valid = 0, r->mem_total_mib = 0;
	}
	for (unsigned i = 0; i < w->n_procs && !w->fallen; i++) {
		const uint32_t *slots;
		unsigned n = fleet_slots_of(w->c->fleet, w->procs[i].task, &slots);
		const uint32_t there = w->procs[i].stuck - 1;
		if (w->procs[i].stuck)
			slots = &there, n = 1;
		for (unsigned k = 0; k < n; k++) {
			struct proc_reading *p = snapshot_add_proc(&s);
			p->gpu = slots[k];
			p->id.pid = w->procs[i].pid;
			p->mem_mib = w->procs[i].mib;
			p->claimed = w->procs[i].task;
			used[p->gpu] += p->mem_mib;
		}
	}
	for (unsigned g = 0; g < w->n_gpus; g++)
		s.gpus[g].mem_used_mib = w->foreign_mib + used[g];
	for (unsigned g = 0; g < w->n_gpus && w->foreigner; g++)
		snapshot_add_proc(&s)->gpu = g;
	core_snapshot(w->c, &s, w->mps_together ? CORE_MPS_TOGETHER : CORE_MPS_APART, w->now);
	snapshot_clear(&s);
	core_turn(w->c, w->now);
	check(w);
}

/* That much later, and nothing was looked at in between. */
static inline void later(struct world *w, int64_t ms)
{
	w->now.mono_ms += ms;
	w->now.wall_ms += ms;
	sample(w);
}

static inline void pass(struct world *w, int seconds)
{
	for (int i = 0; i < seconds; i++)
		later(w, 1000);
}

/* Worst fit, first come first served, and no more than the limits on the load: what most of these tests reckon with. */
static inline struct core_config plain_config(void)
{
	struct core_config config = core_config_default();
	config.map.rank = RANK_MAGM;
	config.order = ORDER_FIFO;
	return config;
}

/* No GPU was read yet. */
static inline struct world *blind_world(unsigned gpus, const struct core_config *config)
{
	struct world *w = alloc_zero(sizeof *w);
	struct core_config standard = plain_config();
	struct core_ops ops = { .ctx = w, .event = on_event, .state_of = state_of, .estimate = on_question,
				.outcome = on_outcome, .trouble = on_trouble, .slot_hears = slot_hears };
	w->n_gpus = gpus;
	w->gpu_name = "NVIDIA A100";
	w->now = (struct now){ 1000000, 1700000000000 };
	w->smact = 0.2;
	w->c = core_create(config ? config : &standard, &ops);
	return w;
}

static inline struct world *new_world(unsigned gpus, const struct core_config *config)
{
	struct world *w = blind_world(gpus, config);
	sample(w);
	return w;
}

static inline void end_world(struct world *w)
{
	core_destroy(w->c);
	free(w);
}

static inline struct spec *spec_of(uint64_t mem_mib, unsigned gpus)
{
	struct spec *s = spec_create();
	s->gpu_mem_mib = mem_mib;
	s->gpus = gpus;
	s->uid = 1000;
	s->signature = alloc_printf("1000:%u:%llu", gpus, (unsigned long long)mem_mib);
	return s;
}

/* The same, with a capture that is being made. */
static inline struct spec *to_be_captured(struct spec *s)
{
	s->capture_until_s = 4000000000;
	s->capture_aside = true;
	return s;
}

static inline bool has_capture(const struct spec *s)
{
	return s->capture || s->capture_until_s;
}

static inline bool replayed(const struct spec *s, uint64_t declared_mib, const struct estimate_context *c,
			    struct estimate_result *out)
{
	(void)declared_mib, (void)c, (void)out;
	assert_false(has_capture(s));	/* that is slow */
	return false;
}

/* `declared`, and one that reads captures, as slowly as they come. */
static inline const struct estimator *capture_estimators(void)
{
	static struct estimator table[4];
	table[0] = *estimate_find("declared", NULL);
	table[1] = (struct estimator){ "replay", has_capture, replayed };
	table[2] = *estimate_find("none", NULL);
	return table;
}

/* The same, after another one. */
static inline struct spec *starts_after(struct spec *s, enum dependency_kind kind, task_id other)
{
	s->deps = alloc_resize(s->deps, s->n_deps + 1, sizeof *s->deps);
	s->deps[s->n_deps++] = (struct dependency){ kind, other };
	return s;
}

/* The same, as an array of elements 0 to n - 1. */
static inline struct spec *array_of(struct spec *s, uint32_t n)
{
	s->n_array = n;
	s->array = alloc_zero(n * sizeof *s->array);
	for (uint32_t i = 0; i < n; i++)
		s->array[i] = i;
	return s;
}

/* A run of the like that is over told so of its load alone. */
static inline void remember_load(struct world *w, const struct spec *s, double gract, double smact, double work_s)
{
	struct outcome o = { .signature = s->signature, .gpu_name = w->gpu_name, .estimator = "", .verdict = VERDICT_OK,
			     .seen = { .peak_mib = 1000, .warm = true, .alone_s = 3600, .alone_gract = gract, .alone_smact = smact,
				       .alone_dram = NAN, .alone_watts = NAN, .work_s = work_s } };
	core_remember(w->c, &o);
}

static inline task_id submit(struct world *w, struct spec *s)
{
	uint32_t job = ++w->next_job;
	core_submit(w->c, job, s, w->now);
	check(w);
	core_turn(w->c, w->now);
	check(w);
	return TASK_ID(job, -1);
}

static inline void hold_memory(struct world *w, task_id id, uint64_t mib)
{
	w->procs[w->n_procs].task = id;
	w->procs[w->n_procs].mib = mib;
	w->procs[w->n_procs].stuck = 0;
	w->procs[w->n_procs].pid = (pid_t)(100 + w->n_procs);
	w->n_procs++;
}

/* So many clients of GPU 0's MPS server that have been there for a while. */
static inline void submit_clients(struct world *w, unsigned n, task_id *ids)
{
	for (unsigned i = 0; i < n; i++)
		ids[i] = submit(w, spec_of(5000, 1));
	for (unsigned i = 0; i < n; i++)
		hold_memory(w, ids[i], 4000);
	pass(w, 3);
}

/* A task that a radd before this one left in its store. */
static inline struct task *restore(struct world *w, task_id id, struct spec *s, const struct event *log, size_t n)
{
	struct task *t = task_create(id, s);
	for (size_t i = 0; i < n; i++)
		assert_int_equal(task_apply(t, &log[i], NULL), 0);
	core_restore(w->c, t, w->now);
	check(w);
	return t;
}

/* How often. */
static inline unsigned happened(const struct world *w, task_id id, enum event_kind kind)
{
	unsigned n = 0;
	for (unsigned i = 0; i < w->n_log; i++)
		n += w->log[i].kind == kind && w->log[i].task == id;
	return n;
}

static inline void end_process(struct world *w, task_id id)
{
	for (unsigned i = 0; i < w->n_procs; i++)
		if (w->procs[i].task == id && !w->procs[i].stuck)
			w->procs[i--] = w->procs[--w->n_procs];
}

static inline void exits(struct world *w, task_id id, int code, enum scan_kind kind)
{
	struct exit_report r = { .have_record = true, .exit_code = code };
	r.output.kind = kind;
	end_process(w, id);
	core_exited(w->c, id, &r, w->now);
	check(w);
	core_turn(w->c, w->now);
	check(w);
}

static inline enum task_state state(const struct world *w, task_id id)
{
	enum task_state s = TASK_STATE_COUNT;
	state_of(id, &s, (void *)w);
	return s;
}

/* The word for why it waits; "" where it does not. Until the next one is asked for. */
static inline const char *reason_of(const struct world *w, task_id id)
{
	static char word[40];
	scoped_json *o = core_task_json(w->c, core_task(w->c, id), w->now, NULL);
	const char *reason = json_string_value(json_object_get(o, "reason"));
	snprintf(word, sizeof word, "%s", reason ? reason : "");
	return word;
}

/* All that is said of why it waits. Free it. */
static inline char *why_of(const struct world *w, task_id id)
{
	scoped_json *why = core_why_json(w->c, id, w->now, NULL);
	return json_dumps(why, 0);
}

static inline const char *gpu_of(const struct world *w, task_id id)
{
	const struct task *t = core_task(w->c, id);
	return t && t->state == TASK_RUNNING ? task_attempt(t)->gpus[0] : "none";
}

/* Nothing but the order, and how long its head is passed, keeps anybody back. */
static inline struct core_config ordered(enum core_order order, int64_t pass_s)
{
	struct core_config c = plain_config();
	c.order = order;
	c.pass_max_ms = pass_s * 1000;
	c.map.max_smact = c.map.max_gract = NAN;
	c.map.slack_mib = 0;
	return c;
}

/* A task of so many GPUs, that completed in so many seconds. */
static inline void teach_time(struct world *w, uint64_t mib, unsigned gpus, int seconds)
{
	task_id id = submit(w, spec_of(mib, gpus));
	hold_memory(w, id, mib);
	pass(w, seconds);
	exits(w, id, 0, SCAN_NOTHING);
	pass(w, 2);
}

/* Small ones come for ever, two at a time, of 40 s each; behind the first two comes a large one. Takes both specs. Returns the
 * second in which the large one starts; -1: in none of 400. */
static inline int starts_among_small_ones(struct world *w, struct spec *small, struct spec *large)
{
	task_id run[2] = { submit(w, spec_ref(small)), submit(w, spec_ref(small)) }, waits = submit(w, large);
	int started = -1;
	for (int t = 0; t < 400 && started < 0; t++) {
		pass(w, 1);
		if (t % 20 == 19) {
			task_id old = run[t / 20 % 2];
			run[t / 20 % 2] = submit(w, spec_ref(small));
			if (state(w, old) == TASK_RUNNING)
				exits(w, old, 0, SCAN_NOTHING);
		}
		if (state(w, waits) == TASK_RUNNING)
			started = t;
	}
	spec_unref(small);
	return started;
}

static inline json_t *start_among(const json_t *starts, task_id id)
{
	char text[TASK_ID_TEXT];
	size_t i;
	json_t *one;
	task_id_text(id, text);
	json_array_foreach(json_object_get(starts, "starts"), i, one)
		if (!strcmp(json_string_value(json_object_get(one, "id")), text))
			return one;
	return NULL;
}

#endif
