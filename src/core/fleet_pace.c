/* SPDX-License-Identifier: MIT
 * How far attempts are by their own output, and how fast they went alone and in company. Progress is looked at every few
 * seconds; a span counts from one word to the next if those on the GPUs were the same all that time, as seen at every look
 * between. What comes and goes between two looks is overlooked, and shorter than what it could change.
 */
#include "core/fleet_private.h"

#include "base/hash.h"

#include <math.h>

#define BORROWED_MS 60000	/* a rate that is not its own stands for so long without a step */

/* Who else is on its GPUs, as a number; 0: nobody. */
static uint64_t company_of(const struct fleet *f, const struct run *r)
{
	uint64_t company = 0;
	for (unsigned i = 0; i < r->n_slots; i++) {
		const struct slot *s = f->slots[r->slots[i]];
		for (size_t k = 0; k < s->n_runs; k++)
			if (s->runs[k] != r)
				company += hash_bytes(HASH_SEED, &s->runs[k]->t->id, sizeof s->runs[k]->t->id) | 1;
		if (s->foreign_mib > MAP_FOREIGN_MIB)
			company += hash_bytes(HASH_SEED, &i, sizeof i) | 1;
	}
	return company;
}

/* Several tasks that print into one file are told apart by nobody. Of another user's tasks nothing is believed, not even
 * that. */
static void note_file(struct fleet *f, struct run *r, uint64_t file)
{
	size_t at = 0;
	if (file == r->progress.file)
		return;
	r->progress.file = file;
	for (struct run *o; (o = idmap_next(&f->runs, &at));)
		if (o != r && o->progress.file == file && o->t->spec->uid == r->t->spec->uid)
			o->progress.mixed = r->progress.mixed = true;
}

/* What was done since the word before. A first step is none: it may have taken minutes of compilation. */
static void add_span(struct run_progress *p, struct pace *sums, const struct progress_report *now)
{
	double units = now->advanced - p->from_units, s = (double)(now->t_ms - p->from_ms) / 1000;
	if (!p->from_ms || !(units >= 0) || !(s > 0))
		return;
	if (p->company) {
		sums->company_units += units;
		sums->company_s += s;
	} else {
		sums->alone_units += units;
		sums->alone_s += s;
	}
}

/* A program that begins to count anew (a second phase, another loop) makes its old rate worthless. Only the first word after
 * a restart of ours goes on: the series looks new to us, and its sums came out of the log. */
static void begin_series(struct run_progress *p, struct pace *sums, const struct progress_report *now)
{
	bool went_on = !p->known && sums->alone_s + sums->company_s > 0;	/* after a restart of ours */
	if (!went_on)
		*sums = (struct pace){ .before_per_s = sums->before_per_s, .fraction = sums->fraction };
	p->from_ms = 0;
	p->first_units = now->advanced;
	p->stepped.units = 0;
}

void fleet_note_host_peak(struct fleet *f, task_id id, uint64_t mib)
{
	struct run *r = fleet_run(f, id);
	if (r && mib > r->host_peak_mib)
		r->host_peak_mib = mib;
}

/* Words of the future, and of nothing, are left aside: both come from files that users write. All sums come up to now first,
 * since a span is compared with the work that the model of sharing counted in it. */
void fleet_note_progress(struct fleet *f, task_id id, const struct progress_report *now, uint64_t file, struct now at)
{
	struct run *r = fleet_run(f, id);
	struct run_progress *p = r ? &r->progress : NULL;
	int64_t mono_ms = at.mono_ms;
	if (!p || now->source == PROGRESS_NONE || now->t_ms > mono_ms)
		return;
	for (unsigned i = 0; i < r->n_slots; i++)
		fleet_advance(f, f->slots[r->slots[i]], at);
	double work_s = fleet_metered(r).work_s;
	note_file(f, r, file);
	uint64_t company = company_of(f, r);
	if (!p->known || company != p->company) {
		p->company = company;
		p->company_since_ms = mono_ms;
		p->from_ms = 0;
	}
	if (!p->known || now->series != p->now.series)
		begin_series(p, &r->pace, now);
	else if (now->t_ms == p->now.t_ms)
		return;
	add_span(p, &r->pace, now);
	if (!p->known && !r->was_found && isnan(r->begin_s))
		r->begin_s = (double)(now->t_ms - r->placed_ms) / 1000;
	p->known = true;
	p->now = *now;
	p->work_s = work_s;
	if (now->fraction > 0)
		r->pace.fraction = fmin(now->fraction, 1);
	r->pace.whole = now->whole_units;
	bool counts = now->t_ms >= p->company_since_ms && now->advanced > p->first_units;
	p->from_ms = counts ? now->t_ms : 0;
	p->from_units = now->advanced;
	if (p->stepped.units == 0 && now->advanced > p->first_units) {
		p->stepped.units = now->advanced;
		p->stepped.work_s = work_s;
	}
	if (!p->told && now->left_s >= 0) {
		p->told = true;
		f->told++;
	}
}

uint64_t fleet_told(const struct fleet *f)
{
	return f->told;
}

/* Units a second alone, by itself or by those before it. */
static double rate_alone(const struct run *r)
{
	double own = pace_alone(&r->pace);
	return isfinite(own) ? own : r->pace.before_per_s > 0 ? r->pace.before_per_s : NAN;
}

static double units_left(const struct progress_report *p)
{
	return p->fraction >= 0 && p->whole_units > 0 ? (1 - p->fraction) * p->whole_units : NAN;
}

/* Nobody counts with what ends later than that, nor could it be told as a moment. */
static bool is_an_end(double left_s)
{
	return left_s <= (double)PROGRESS_MOST;
}

/* By its rate alone; where none is known, its units since the first step took the work that the model of sharing says it has
 * done since. What was done since the last word is taken off. */
double fleet_left_alone_s(const struct fleet *f, const struct run *r)
{
	struct progress_report now;
	const struct run_progress *p = &r->progress;
	if (!fleet_progress(f, r->t->id, r->meter.last_ms, &now))
		return NAN;
	double rate = rate_alone(r), units = p->now.advanced - p->stepped.units, work_s = p->work_s - p->stepped.work_s;
	double since_s = fleet_metered(r).work_s - p->work_s;
	if (isnan(rate) && now.left_s >= 0 && p->stepped.units > 0 && units > 0 && work_s > 0)
		rate = units / work_s;
	double left_s = units_left(&now) / rate - (since_s > 0 ? since_s : 0);
	return is_an_end(left_s) ? fmax(left_s, 0) : NAN;
}

/* Before its own rate can be told, that of earlier runs stands for it: the first line says how much there is to do. */
static void borrow_rate(const struct run *r, struct progress_report *out)
{
	double units = units_left(out), before = r->pace.before_per_s;
	if (out->left_s >= 0 || !(units > 0) || !(before > 0) || r->pace.alone_s + r->pace.company_s >= PACE_S ||
	    !is_an_end(units / before))
		return;
	out->left_s = units / before;
	out->stands_ms = BORROWED_MS;
}

/* As time passes without a word, what is left goes down by the clock, until the word has stood for longer than steps take:
 * then it is taken back, since a task that hangs would count down to zero and seem to end. */
bool fleet_progress(const struct fleet *f, task_id id, int64_t mono_ms, struct progress_report *out)
{
	const struct run *r = fleet_run(f, id);
	if (!r || !r->progress.known || r->progress.mixed)
		return false;
	*out = r->progress.now;
	borrow_rate(r, out);
	int64_t since_ms = mono_ms > out->t_ms ? mono_ms - out->t_ms : 0;
	if (out->left_s >= 0 && since_ms > out->stands_ms) {	/* it stands still: when it ends, nobody knows */
		out->left_s = out->spread_s = -1;
		out->per_s = 0;
	} else if (out->left_s >= 0) {
		out->left_s = fmax(out->left_s - (double)since_ms / 1000, 0);
	}
	return true;
}

/* Its place is one in the map, so a walk that was left off and taken up again may meet other runs: good enough to look at
 * each now and then. */
task_id fleet_next_to_look(const struct fleet *f, size_t *at)
{
	const struct run *r = idmap_next(&f->runs, at);
	return r ? r->t->id : 0;
}
