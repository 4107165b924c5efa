/* SPDX-License-Identifier: MIT
 * Devices and tasks under a clock of their own. Something happens to a task at three moments: when its memory grows (twice)
 * and when its work is done, or before that when its own clock ends it. Between changes of who runs where, all speeds are
 * constant, so these moments are known ahead.
 */
#include "sim/world.h"

#include "base/alloc.h"
#include "share/power.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MILLION 1000000
#define MEMORY_STEPS 3		/* context, half, all */

/* GPUs ---------------------------------------------------------------------------------------------------------------- */

/* Counts what was used since the last change. */
static void gpu_advance(struct world *w, struct world_gpu *g)
{
	int64_t ms = w->now_ms - g->since_ms;
	g->energy_uj += g->watts_m * ms;
	g->smact_sum += llround(g->activity.smact * MILLION) * ms;
	g->used_ms += g->used ? ms : 0;
	g->since_ms = w->now_ms;
}

void world_touch(struct world *w, uint32_t gpu)
{
	if (w->gpus[gpu].touched)
		return;
	w->gpus[gpu].touched = true;
	w->touched[w->n_touched++] = gpu;
}

static void need_scratch(struct world *w, size_t n)
{
	if (n <= w->cap_scratch)
		return;
	w->cap_scratch = 2 * n;
	w->loads = alloc_resize(w->loads, w->cap_scratch, sizeof *w->loads);
	w->speeds = alloc_resize(w->speeds, w->cap_scratch, sizeof *w->speeds);
	w->alone_w = alloc_resize(w->alone_w, w->cap_scratch, sizeof *w->alone_w);
}

static struct share_task load_now(const struct world_task *t)
{
	return t->computes ? (struct share_task){ t->of->gract, t->of->smact, t->of->kernels } : (struct share_task){ 0, 0 };
}

static void list_loads(struct world *w, const struct world_gpu *g)
{
	need_scratch(w, g->n);
	for (size_t i = 0; i < g->n; i++) {
		w->loads[i] = load_now(g->tasks[i]);
		w->speeds[i] = (double)g->tasks[i]->rate / MILLION;
		w->alone_w[i] = g->tasks[i]->computes ? g->tasks[i]->of->watts : NAN;
		if (g->model->sm_part < 1) {	/* the loads have the speed in them */
			w->loads[i] = share_part_load(&w->loads[i], g->model->sm_part);
			w->speeds[i] = 1;
			w->alone_w[i] = NAN;	/* measured on a whole GPU */
		}
	}
}

/* The activity follows the speeds at which its tasks really run. */
static void update_activity(struct world *w, uint32_t gpu)
{
	struct world_gpu *g = &w->gpus[gpu];
	gpu_advance(w, g);
	g->used = g->n > 0;
	list_loads(w, g);
	g->activity = share_shown(w->loads, g->n, g->n ? g->tasks[0]->mode : SHARE_NEVER, w->speeds);
	const struct power_board board = { g->model->idle_w, g->model->peak_w, g->model->limit_w };
	g->watts_m = llround(power_watts(&board, w->loads, w->speeds, g->n, w->alone_w) * 1000);
	world_touch(w, gpu);
}

void world_create(struct world *w, const struct device_model *models, size_t n)
{
	*w = (struct world){ .n_gpus = n };
	w->gpus = alloc_zero(n * sizeof *w->gpus);
	w->touched = alloc_resize(NULL, n, sizeof *w->touched);
	for (uint32_t i = 0; i < n; i++) {
		struct world_gpu *g = &w->gpus[i];
		g->model = &models[i];
		g->changed_ms = g->left_ms = g->drift_ms = INT64_MIN;
		simdev_uuid(&models[i], i, g->uuid);
		update_activity(w, i);
	}
}

void world_destroy(struct world *w)
{
	for (size_t i = 0; i < w->n_places; i++)
		free(w->tasks[i]);
	for (size_t i = 0; i < w->n_gpus; i++)
		free(w->gpus[i].tasks);
	heap_free(&w->heap);
	free(w->gpus);
	free(w->tasks);
	free(w->free_places);
	free(w->touched);
	free(w->loads);
	free(w->speeds);
	free(w->alone_w);
	*w = (struct world){ 0 };
}

/* Tasks --------------------------------------------------------------------------------------------------------------- */

/* The work after which the next thing happens to it. */
static int64_t milestone(const struct world_task *t)
{
	if (!t->computes)
		return t->start;
	int64_t ramp = simdev_ramp_ms((t->total - t->start) / MILLION) * MILLION;
	return t->step < MEMORY_STEPS ? t->start + ramp * t->step / (MEMORY_STEPS - 1) : t->total;
}

static void book_work(const struct world *w, struct world_task *t)
{
	t->done += t->rate * (w->now_ms - t->since_ms);
	t->since_ms = w->now_ms;
}

double world_fraction(const struct world_task *t, int64_t now_ms)
{
	return (double)(t->done + t->rate * (now_ms - t->since_ms)) / (double)t->total;
}

static void plan(struct world *w, struct world_task *t)
{
	int64_t left = milestone(t) - t->done;
	int64_t ms = left > 0 ? (left + t->rate - 1) / t->rate : 0;
	heap_set(&w->heap, t->place, t->since_ms + ms < t->until_ms ? t->since_ms + ms : t->until_ms);
}

static int64_t slowest(const struct world_task *t)
{
	int64_t rate = MILLION;
	for (unsigned i = 0; i < t->n_gpus; i++)
		rate = t->on[i].rate < rate ? t->on[i].rate : rate;
	return rate;
}

/* The rate on one of its GPUs changed. Where that makes it slower or quicker, its other GPUs feel it too. */
static void set_rate(struct world *w, struct world_task *t, uint32_t gpu, double speed)
{
	for (unsigned i = 0; i < t->n_gpus; i++)
		if (t->on[i].gpu == gpu)
			t->on[i].rate = llround(fmax(speed * MILLION, 1));
	int64_t rate = slowest(t);
	if (rate == t->rate)
		return;
	book_work(w, t);
	t->rate = rate;
	plan(w, t);
	for (unsigned i = 0; i < t->n_gpus; i++)
		if (t->on[i].gpu != gpu) {
			w->gpus[t->on[i].gpu].drift_ms = w->now_ms;
			update_activity(w, t->on[i].gpu);
		}
}

/* MIG instances have one task at a time. */
static double alone_there(const struct world_gpu *g, size_t i)
{
	const struct share_task load = load_now(g->tasks[i]);
	return share_part_speed(&load, g->model->sm_part);
}

/* Who is there changed, or what they do. */
static void share_anew(struct world *w, uint32_t gpu)
{
	struct world_gpu *g = &w->gpus[gpu];
	list_loads(w, g);
	share_speeds(w->loads, g->n, g->n ? g->tasks[0]->mode : SHARE_NEVER, w->speeds);
	/* set_rate uses the scratch for other GPUs, so the speeds are put away first. */
	double few[64], *speed = g->n > 64 ? alloc_resize(NULL, g->n, sizeof *speed) : few;
	memcpy(speed, w->speeds, g->n * sizeof *speed);
	for (size_t i = 0; i < g->n; i++)
		set_rate(w, g->tasks[i], gpu, g->model->sm_part < 1 ? alone_there(g, i) : speed[i]);
	if (speed != few)
		free(speed);
	update_activity(w, gpu);
}

/* Its set of tasks changed. */
static void share_among(struct world *w, uint32_t gpu)
{
	share_anew(w, gpu);
	w->gpus[gpu].changed_ms = w->now_ms;
}

static void start_clock(const struct world *w, struct world_task *t)
{
	t->until_ms = t->of->clock_ms ? w->now_ms + t->of->clock_ms : INT64_MAX;
}

static void begin_to_compute(struct world *w, struct world_task *t)
{
	t->computes = true;
	start_clock(w, t);
	plan(w, t);
	for (unsigned i = 0; i < t->n_gpus; i++) {
		w->gpus[t->on[i].gpu].drift_ms = w->now_ms;
		share_anew(w, t->on[i].gpu);
	}
}

static uint64_t memory_at(uint64_t whole_mib, unsigned step)
{
	return simdev_ramp_mib(whole_mib, (double)step / (MEMORY_STEPS - 1));
}

static uint64_t free_mib(const struct world_gpu *g)
{
	return g->model->mem_total_mib - g->model->mem_reserved_mib - g->used_mib;
}

/* The most that it may hold on each of its GPUs. */
static uint64_t room_of(const struct world *w, const struct world_task *t)
{
	uint64_t room = t->fence_mib ? t->fence_mib : UINT64_MAX;
	for (unsigned i = 0; i < t->n_gpus; i++)
		if (t->mem_mib + free_mib(&w->gpus[t->on[i].gpu]) < room)
			room = t->mem_mib + free_mib(&w->gpus[t->on[i].gpu]);
	return room;
}

static uint64_t needed_at(const struct world_task *t, unsigned step)
{
	return memory_at(t->of->need_mib ? t->of->need_mib : t->of->mem_mib, step);
}

/* Takes the memory of its next step on all its GPUs: where that is not to be had, as much as there is, unless it needs more. */
static bool grow(struct world *w, struct world_task *t)
{
	uint64_t room = room_of(w, t), mib = memory_at(t->of->mem_mib, t->step);
	if (needed_at(t, t->step++) > room)
		return false;
	mib = mib < room ? mib : room;
	uint64_t more = mib > t->mem_mib ? mib - t->mem_mib : 0;
	for (unsigned i = 0; i < t->n_gpus; i++) {
		w->gpus[t->on[i].gpu].used_mib += more;
		world_touch(w, t->on[i].gpu);
	}
	t->mem_mib += more;
	return true;
}

static uint32_t take_place(struct world *w)
{
	if (w->n_free)
		return w->free_places[--w->n_free];
	alloc_grow(w->tasks, w->n_places, w->cap_places);
	return (uint32_t)w->n_places++;
}

static void come(struct world_gpu *g, struct world_task *t)
{
	alloc_grow(g->tasks, g->n, g->cap);
	g->tasks[g->n++] = t;
}

/* Keeps the order in which they came. */
static void go(struct world_gpu *g, const struct world_task *t)
{
	for (size_t i = 0; i < g->n; i++)
		if (g->tasks[i] == t) {
			memmove(&g->tasks[i], &g->tasks[i + 1], (--g->n - i) * sizeof *g->tasks);
			return;
		}
}

struct world_task *world_start(struct world *w, const struct world_begin *b, enum world_event *met)
{
	struct world_task *t = alloc_zero(sizeof *t + b->n_gpus * sizeof *t->on);
	*t = (struct world_task){ .id = b->id, .of = b->of, .place = take_place(w), .mode = b->mode, .fence_mib = b->fence_mib,
				  .total = b->solo_ms * MILLION, .since_ms = w->now_ms, .start_ms = w->now_ms, .rate = MILLION,
				  .until_ms = INT64_MAX, .n_gpus = b->n_gpus };
	if (b->of->start_ms < b->solo_ms)
		t->start = b->of->start_ms * MILLION;
	t->computes = !t->start;
	if (t->computes)
		start_clock(w, t);
	w->tasks[t->place] = t;
	for (unsigned i = 0; i < b->n_gpus; i++) {
		t->on[i].gpu = b->gpus[i];
		t->on[i].rate = MILLION;
		come(&w->gpus[b->gpus[i]], t);
	}
	*met = grow(w, t) ? WORLD_NOTHING : WORLD_OUT_OF_MEMORY;
	plan(w, t);
	for (unsigned i = 0; i < b->n_gpus; i++)
		share_among(w, b->gpus[i]);
	return t;
}

struct world_task *world_find(const struct world *w, task_id id)
{
	for (size_t i = 0; i < w->n_places; i++)
		if (w->tasks[i] && w->tasks[i]->id == id)
			return w->tasks[i];
	return NULL;
}

uint64_t world_refused_mib(const struct world_task *t)
{
	return needed_at(t, t->step - 1) - t->mem_mib;
}

int64_t world_left_ms(const struct world *w, struct world_task *t)
{
	book_work(w, t);
	int64_t done = t->done > t->start ? t->done - t->start : 0, left = t->total - t->start - done;
	return left > 0 ? (left + MILLION - 1) / MILLION : 0;
}

void world_end(struct world *w, struct world_task *t)
{
	for (unsigned i = 0; i < t->n_gpus; i++) {
		struct world_gpu *g = &w->gpus[t->on[i].gpu];
		go(g, t);
		g->used_mib -= t->mem_mib;
		g->left_ms = w->now_ms;
	}
	for (unsigned i = 0; i < t->n_gpus; i++)
		share_among(w, t->on[i].gpu);
	heap_set(&w->heap, t->place, INT64_MAX);
	w->tasks[t->place] = NULL;
	alloc_grow(w->free_places, w->n_free, w->cap_free);
	w->free_places[w->n_free++] = t->place;
	free(t);
}

/* Time ---------------------------------------------------------------------------------------------------------------- */

int64_t world_next(const struct world *w)
{
	return heap_first(&w->heap);
}

void world_go(struct world *w, int64_t now_ms)
{
	w->now_ms = now_ms;
}

struct world_task *world_happen(struct world *w, enum world_event *met)
{
	while (heap_first(&w->heap) <= w->now_ms) {
		struct world_task *t = w->tasks[heap_take(&w->heap)];
		book_work(w, t);
		if (!t->computes) {
			begin_to_compute(w, t);
			continue;
		}
		if (t->step >= MEMORY_STEPS || t->until_ms <= w->now_ms) {
			*met = WORLD_DONE;
			return t;
		}
		if (!grow(w, t)) {
			*met = WORLD_OUT_OF_MEMORY;
			return t;
		}
		plan(w, t);
	}
	return NULL;
}

/* Readings ------------------------------------------------------------------------------------------------------------ */

static void read_gpu(struct world *w, uint32_t index, struct gpu_reading *r)
{
	struct world_gpu *g = &w->gpus[index];
	gpu_advance(w, g);
	simdev_identify(g->model, index, r);
	r->mem_total_mib = g->model->mem_total_mib;
	r->mem_reserved_mib = g->model->mem_reserved_mib;
	r->mem_used_mib = g->model->mem_reserved_mib + g->used_mib;
	r->gract = r->gpu_util = g->activity.gract;
	r->smact = g->activity.smact;
	r->power_w = (double)g->watts_m / 1000;
	r->energy_j = (double)g->energy_uj / MILLION;
	r->valid = GPU_MEM_TOTAL | GPU_MEM_USED | GPU_MEM_RESERVED | GPU_GRACT | GPU_SMACT | GPU_UTIL | GPU_POWER | GPU_ENERGY |
		   GPU_PROCS | GPU_PROC_MEM;
}

static void read_touched(struct world *w, uint32_t gpu, struct snapshot *out)
{
	struct world_gpu *g = &w->gpus[gpu];
	uint32_t at = out->n_gpus;
	read_gpu(w, gpu, snapshot_add_gpu(out));
	for (size_t k = 0; k < g->n; k++) {
		struct proc_reading *p = snapshot_add_proc(out);
		p->gpu = at;
		p->id.pid = (pid_t)g->tasks[k]->place + 1;
		p->mem_mib = g->tasks[k]->mem_mib;
		p->claimed = g->tasks[k]->id;
	}
	g->touched = false;
}

void world_read(struct world *w, struct snapshot *out)
{
	for (size_t i = 0; i < w->n_touched; i++)
		read_touched(w, w->touched[i], out);
	w->n_touched = 0;
}

void world_read_some(struct world *w, uint32_t first, uint32_t n, struct snapshot *out)
{
	for (uint32_t i = first; i < first + n; i++)
		if (w->gpus[i].touched)
			read_touched(w, i, out);
}

void world_forget_touched(struct world *w)
{
	for (size_t i = 0; i < w->n_touched; i++)
		w->gpus[w->touched[i]].touched = false;
	w->n_touched = 0;
}

int64_t world_used_ms(struct world *w)
{
	int64_t sum = 0;
	for (size_t i = 0; i < w->n_gpus; i++) {
		gpu_advance(w, &w->gpus[i]);
		sum += w->gpus[i].used_ms;
	}
	return sum;
}

double world_energy_j(struct world *w)
{
	double sum = 0;
	for (size_t i = 0; i < w->n_gpus; i++) {
		gpu_advance(w, &w->gpus[i]);
		sum += (double)w->gpus[i].energy_uj / MILLION;
	}
	return sum;
}

double world_mean_smact(struct world *w)
{
	double sum = 0, ms = (double)w->now_ms;
	for (size_t i = 0; i < w->n_gpus; i++) {
		gpu_advance(w, &w->gpus[i]);
		sum += (double)w->gpus[i].smact_sum / MILLION;
	}
	return ms > 0 ? sum / ms / (double)w->n_gpus : NAN;
}
