/* SPDX-License-Identifier: MIT
 *
 * A capture becomes a program of requests and frees, library workspaces included, once; the program is then run under one cap
 * after the other.
 *
 * Comfort is what a run without a cap reserves at most. Need is the smallest cap, in steps of REPLAY_GRID, under which the
 * job gets through; finding it takes several runs. They share their beginnings: up to where the smallest cap still of
 * interest is first exceeded, all runs go the same way, so one simulator goes ahead there and trials are copies of it.
 *
 * Work is counted, not time, and bounded: the same capture takes the same steps everywhere, and a hostile one cannot keep a
 * worker busy for ever.
 */
#include "estimate/replay.h"

#include "base/alloc.h"
#include "base/scope.h"
#include "base/units.h"
#include "estimate/workspace.h"

#include <stdlib.h>
#include <string.h>

/* Blocks looked at one by one over all runs, a second or so; ordinary captures need some ten thousand of them. */
#define MAX_WORK 100000000u

enum step_kind { STEP_REQUEST, STEP_FREE, STEP_SCRATCH, STEP_CONV, STEP_EMPTY };	/* STEP_CONV: scratch by rules */

struct step {
	uint64_t bytes;
	uint32_t id;
	uint8_t kind, stream;
};

/* Workspaces that stay, by thread and library, of each stream. Each is a storage with an id behind those of the capture. */
enum { KEPT_CUBLAS, KEPT_CUBLAS_BACKWARD, KEPT_LT, KEPT_LT_BACKWARD, KEPT_EACH, KEPT = KEPT_EACH * (CAPTURE_MAX_STREAM + 1) };

struct replay_program {
	const struct capture *c;
	const struct overheads *o;
	struct replay_blas blas;
	struct workspace_job job;
	uint64_t scratch;
	struct step *steps;	/* owned; room for one a record and each workspace that is kept */
	size_t n;
	bool kept[KEPT], gemm;
};

/* Runs under different caps go the same way until what they reserve first exceeds the smaller one. So one simulator, `base`,
 * goes as far as every cap that is still to be tried allows, and each trial goes on from there. */
struct replay_player {
	const struct replay_program *p;
	struct alloc_sim *base, *trial;
	size_t at;		/* the step before which `base` stands */
	bool shares;		/* false: `base` stays where it begins */
	bool collects;		/* garbage, by a share of the cap: each cap makes its own run from the start */
	uint64_t work;
};

enum outcome { SURVIVED, OUT_OF_MEMORY, TOO_LONG };

const struct overheads *replay_overheads(const char *gpu_name)
{
	const struct overheads *o = overheads_table;

	while (o->card[0] && !(gpu_name && strcasestr(gpu_name, o->card)))
		o++;
	return o;
}

/* --- the program --- */

static void replay_add(struct replay_program *p, enum step_kind kind, uint32_t id, uint64_t bytes, unsigned stream)
{
	p->steps[p->n++] = (struct step){ bytes, id, (uint8_t)kind, (uint8_t)stream };
}

static void add_scratch(struct replay_program *p, enum step_kind kind, uint64_t bytes)
{
	if (bytes)
		replay_add(p, kind, p->c->n_allocs + KEPT, bytes, 0);
}

/* The first time only: the library keeps it. */
static void replay_note(struct replay_program *p, unsigned which, unsigned stream, uint64_t bytes)
{
	unsigned at = stream * KEPT_EACH + which;

	if (!p->kept[at])
		replay_add(p, STEP_REQUEST, p->c->n_allocs + at, bytes, stream);
	p->kept[at] = true;
}

/* Each thread that calls cuBLAS has a handle, with a workspace for each stream; the backward pass has a thread of its own. */
static void add_gemm(struct replay_program *p, const struct capture_record *r)
{
	p->gemm = true;
	replay_note(p, KEPT_CUBLAS + r->what, r->stream, p->blas.bytes);
	if (!r->lt || p->blas.lt == REPLAY_LT_SHARED)
		return;
	if (p->blas.lt == REPLAY_LT_CALL)
		add_scratch(p, STEP_SCRATCH, p->blas.lt_bytes);
	else
		replay_note(p, KEPT_LT + r->what, r->stream, p->blas.lt_bytes);
}

static void add_conv(struct replay_program *p, const struct capture_conv *v)
{
	uint64_t bytes = p->c->flags & CAPTURE_CUDNN_OFF ? 0 : workspace_conv(&p->job, v);

	add_scratch(p, STEP_CONV, bytes);
	if (p->scratch < bytes)
		p->scratch = bytes;
}

/* MARK and ATTENTION ask for nothing: what attention takes are ALLOCs of the capture already. */
static void add_record(struct replay_program *p, const struct capture_record *r)
{
	switch ((enum capture_kind)r->kind) {
	case CAPTURE_ALLOC:
		replay_add(p, STEP_REQUEST, r->id, r->bytes, r->what);
		break;
	case CAPTURE_FREE:
		replay_add(p, STEP_FREE, r->id, 0, 0);
		break;
	case CAPTURE_EMPTY:
		replay_add(p, STEP_EMPTY, 0, 0, 0);
		break;
	case CAPTURE_GEMM:
		add_gemm(p, r);
		break;
	case CAPTURE_CONV:
		add_conv(p, &p->c->convs[r->id]);
		break;
	case CAPTURE_SCRATCH:
		add_scratch(p, STEP_SCRATCH, r->bytes);
		break;
	case CAPTURE_MARK:
	case CAPTURE_ATTENTION:
		break;
	}
}

/* What is live at most, rounded but not yet in blocks: no cap below it works. With `scratch`, that of libraries as well. */
static uint64_t live_at_most(const struct replay_program *p, const struct alloc_conf *conf, bool scratch)
{
	scoped_free uint64_t *size = alloc_zero((p->c->n_allocs + KEPT + 1) * sizeof *size);
	uint64_t live = 0, most = 0, now;

	for (size_t i = 0; i < p->n; i++) {
		const struct step *s = &p->steps[i];

		now = live;
		if (s->kind == STEP_REQUEST)
			now = live += size[s->id] = alloc_round(conf, s->bytes);
		else if (s->kind == STEP_FREE)
			live -= size[s->id];
		else if ((s->kind == STEP_SCRATCH || s->kind == STEP_CONV) && scratch)
			now = live + alloc_round(conf, s->bytes);
		if (most < now)
			most = now;
	}
	return most;
}

/* --- running it --- */

/* Libraries do with less scratch memory when they get none, so that alone ends no job; `hard`: the cap is (alloc.h). */
static bool run_step(struct alloc_sim *sim, const struct step *s, bool hard)
{
	switch ((enum step_kind)s->kind) {
	case STEP_REQUEST:
		return alloc_sim_request(sim, s->id, s->bytes, s->stream);
	case STEP_FREE:
		alloc_sim_free(sim, s->id);
		return true;
	case STEP_SCRATCH:
	case STEP_CONV:
		if (!alloc_sim_request(sim, s->id, s->bytes, s->stream))
			return !hard;
		alloc_sim_free(sim, s->id);
		return true;
	case STEP_EMPTY:
		alloc_sim_empty_cache(sim);
		return true;
	}
	return true;
}

/* Runs steps from *at on; leaves there where it stopped. */
static enum outcome replay_run(struct replay_player *y, struct alloc_sim *sim, size_t *at, bool hard)
{
	const struct replay_program *p = y->p;
	const struct alloc_stats *stats = alloc_sim_stats(sim);
	uint64_t before = stats->work;
	enum outcome end = SURVIVED;

	while (*at < p->n && end == SURVIVED) {
		if (!run_step(sim, &p->steps[*at], hard))
			end = OUT_OF_MEMORY;
		else if (y->work + stats->work - before > MAX_WORK)
			end = TOO_LONG;
		else
			++*at;
	}
	y->work += stats->work - before;
	return end;
}

/* Takes the base along: no cap below this one will be tried. False: that takes too long. */
static bool replay_advance(struct replay_player *y, uint64_t cap)
{
	if (!y->shares)
		return true;
	alloc_sim_set_cap(y->base, cap, true);
	return replay_run(y, y->base, &y->at, true) != TOO_LONG;
}

/* How the job ends under that cap. */
static enum outcome replay_try(struct replay_player *y, uint64_t cap)
{
	size_t at = y->at;

	alloc_sim_copy(y->trial, y->base);
	alloc_sim_set_cap(y->trial, cap, false);
	return replay_run(y, y->trial, &at, false);
}

static uint64_t up_to_grid(uint64_t bytes)
{
	return (bytes + REPLAY_GRID - 1) / REPLAY_GRID * REPLAY_GRID;
}

/* Bisection between a cap that cannot work and one that does. A run that got through reserved so much at most, and would
 * go the same way under that as its cap; one that did not says which cap would have helped it on, and one in between
 * would as a rule not have. The result works; a larger cap may not, as memory that is released less scatters more. */
static enum outcome find_need(struct replay_player *y, uint64_t too_little, uint64_t *need)
{
	const struct alloc_stats *stats = alloc_sim_stats(y->trial);

	while (*need > too_little + REPLAY_GRID) {
		uint64_t middle = too_little + (*need - too_little) / 2 / REPLAY_GRID * REPLAY_GRID;
		enum outcome end = replay_try(y, middle);

		if (end == SURVIVED) {
			*need = y->collects ? middle : up_to_grid(stats->peak_reserved);
			continue;
		}
		too_little = stats->lacking > middle + REPLAY_GRID ? up_to_grid(stats->lacking) - REPLAY_GRID : middle;
		if (end == TOO_LONG || !replay_advance(y, too_little + REPLAY_GRID))
			return TOO_LONG;
	}
	return SURVIVED;
}

/* Nothing works below `least`. */
static enum outcome find_both(struct replay_player *y, uint64_t own_cap, uint64_t least, struct replay_figures *out)
{
	const struct alloc_stats *stats = alloc_sim_stats(y->trial);
	uint64_t too_little = least < REPLAY_GRID ? 0 : least / REPLAY_GRID * REPLAY_GRID - REPLAY_GRID;
	uint64_t first = too_little + REPLAY_GRID;
	enum outcome end;

	if (!replay_advance(y, first))
		return TOO_LONG;
	end = own_cap < first ? OUT_OF_MEMORY : replay_try(y, own_cap);
	out->capped = end == OUT_OF_MEMORY;
	if (out->capped)
		end = replay_try(y, ALLOC_NO_CAP);
	if (end != SURVIVED)
		return end;
	out->comfort = stats->peak_reserved;
	out->allocated = stats->peak_allocated;
	out->need = up_to_grid(out->comfort);
	return find_need(y, too_little, &out->need);
}

/* Each workspace that rules guess, changed by one of so many parts. */
static void shift_guesses(struct replay_program *p, int64_t part)
{
	for (size_t i = 0; i < p->n; i++)
		if (p->steps[i].kind == STEP_CONV)
			p->steps[i].bytes += (uint64_t)((int64_t)p->steps[i].bytes / part);
}

/* Best fit carries a difference of a few MiB in a workspace on to a segment of some GiB, now and then, in either direction. So
 * what a job would reserve is asked again with every guessed one a little larger, and a little smaller: where that moves
 * nothing the rules need not be exact, and where it moves much the claim is to know. The guesses are not restored. */
static enum outcome find_high(struct replay_player *y, struct replay_program *p, const struct alloc_conf *conf, uint64_t cap,
			      struct replay_figures *out)
{
	static const int64_t parts[] = { REPLAY_GUESS_PART, -REPLAY_GUESS_PART / 2 };	/* up by one; from there down by two */
	enum outcome end = SURVIVED;

	for (size_t i = 0; i < COUNT_OF(parts) && end == SURVIVED; i++) {
		struct alloc_sim *sim = alloc_sim_create(conf, NULL);
		size_t at = 0;

		shift_guesses(p, parts[i]);
		alloc_sim_set_cap(sim, cap, false);
		end = replay_run(y, sim, &at, false);
		if (end == SURVIVED && alloc_sim_stats(sim)->peak_reserved > out->high)
			out->high = alloc_sim_stats(sim)->peak_reserved;
		alloc_sim_destroy(sim);
	}
	return end == TOO_LONG ? TOO_LONG : SURVIVED;
}

/* What is outside the allocator, so no cap touches it: the context, with cuBLAS's kernels if they are called, cuSOLVER, and
 * NCCL's buffers. */
static uint64_t fixed_costs(const struct replay_program *p)
{
	uint64_t mib = p->gemm ? p->o->context_mib : p->o->context_plain_mib;

	if (p->c->flags & CAPTURE_SOLVER)
		mib += OVERHEADS_SOLVER_MIB;
	mib += (uint64_t)p->c->communicators * (p->c->flags & CAPTURE_PAIR ? p->o->nccl_pair_mib : p->o->nccl_mib);
	if (p->c->communicators && p->c->flags & CAPTURE_ALL_TO_ALL)
		mib += p->o->all_to_all_mib;
	return mib * MIB;
}

/* Sharing beginnings needs runs that differ by nothing but when the cap is met. Garbage collection looks at the cap itself, and
 * an expandable range may have mapped a part of a request when it meets it: those are run from the start. */
int replay_capture(const struct capture *c, const struct alloc_conf *conf, const struct replay_environment *env,
		   const struct overheads *o, uint64_t total, struct replay_figures *out, struct error *err)
{
	struct replay_program p = { .c = c, .o = o, .blas = replay_blas_of(o, alloc_torch_parse(c->torch), env),
				    .job = workspace_job(c) };
	struct replay_player y = { .p = &p };
	enum outcome end = SURVIVED;

	memset(out, 0, sizeof *out);
	p.steps = alloc_resize(NULL, c->n_records + KEPT, sizeof *p.steps);
	for (size_t i = 0; i < c->n_records; i++)
		add_record(&p, &c->records[i]);
	out->fixed = fixed_costs(&p);
	out->scratch = p.scratch;
	if (conf->async) {	/* the driver's own pool: nothing but what is in use is known */
		out->comfort = out->allocated = live_at_most(&p, conf, true);
		out->need = up_to_grid(out->comfort);
	} else {
		uint64_t own_cap = total && conf->fraction < 1 ? (uint64_t)((double)total * conf->fraction) : ALLOC_NO_CAP;

		y.collects = conf->gc_threshold > 0 && !conf->expandable;
		y.shares = !y.collects && !conf->expandable;
		y.base = alloc_sim_create(conf, NULL);
		y.trial = alloc_sim_create(conf, NULL);
		end = find_both(&y, own_cap, live_at_most(&p, conf, false), out);
		alloc_sim_destroy(y.base);
		alloc_sim_destroy(y.trial);
		if (end == SURVIVED && p.scratch)
			end = find_high(&y, &p, conf, out->capped ? ALLOC_NO_CAP : own_cap, out);
	}
	if (out->high < out->comfort)
		out->high = out->comfort;
	free(p.steps);
	if (end == SURVIVED)
		return 0;
	return error_set(err, ERR_INVALID, "its memory is so scattered that a replay takes too long: declare it (gpu_mem: SIZE)");
}
