/* SPDX-License-Identifier: MIT
 * What lines say, put together over time: see progress.h. Each loop that prints is remembered by its name and total, four at
 * a time; what they come to is worked out anew whenever one of them moved. Where they contradict each other nothing is known:
 * whoever plans by a wrong end is worse off than one who has none.
 */
#include "parse/progress.h"

#include "base/alloc.h"
#include "base/escape.h"
#include "base/hash.h"

#include <stdlib.h>
#include <string.h>

#define LINE_MAX_BYTES 2048	/* a bar over a wide terminal, with its figures; of a longer line nothing is read */
#define LOOPS 4
#define POINTS 64
#define TOLERATED 0.01		/* part of a loop by which lines of several processes may come in another order */
#define OF_THE_TIME 0.75	/* part of the time since anything was printed that a loop must cover to be the run */
#define ABANDONED 3		/* a loop left for so many times as long as it went on before, */
#define ABANDONED_MS 10000	/* and this, was broken off */
#define STANDS_MS 30000
#define NO_EPOCHS_SEEN (-1)

/* A loop that prints where it is. */
struct loop {
	uint64_t key;		/* 0: free */
	enum progress_source source;
	bool counts_epochs;
	bool interlude;		/* began while another was on its way: validation, say */
	int64_t done, total;
	int64_t first_ms, last_ms;	/* when it was seen first, and advanced last */
	int64_t epoch_number;	/* of the struct progress, when this pass of it began */
	unsigned restarts;
	double advanced;	/* units since it was seen first */
	int64_t series;
	double per_s;
	char unit[PROGRESS_WORD];
};

struct point { int64_t t_ms; double f; };

struct progress {
	/* The line that is being read. */
	char line[LINE_MAX_BYTES];
	size_t len;
	bool dropped;		/* it is too long, or its beginning was left out */
	enum escape escape;
	/* What lines said. */
	struct loop loops[LOOPS];
	int64_t first_ms, last_ms;	/* of all loops; 0: none yet */
	int64_t n_series;
	uint64_t inner;		/* key of the loop inside the epochs; 0: none seen */
	int64_t hint;		/* epochs by the command: 0 none, -1 several */
	int64_t epochs;		/* as lines said; 0: none did */
	int64_t base, label;	/* number of the first epoch, NO_EPOCHS_SEEN; the one printed last */
	unsigned said_over;	/* lines that took this epoch for over */
	bool never_over;	/* such lines come in the midst of epochs, too */
	int64_t epochs_done, epoch_number;	/* the latter counts how often the former changed */
	bool place_known;	/* the loop inside has not begun again without a word of the next epoch */
	bool hf, confused;
	/* What they came to, over time. */
	double fraction;	/* -1: not known */
	struct point points[POINTS];
	size_t n_points;
	int64_t gap_ms;		/* between points that are kept */
};

const char *progress_source_name(enum progress_source s)
{
	static const char *const words[] = {
#define X(name, word) [name] = word,
		PROGRESS_SOURCES(X)
#undef X
	};
	return s < PROGRESS_SOURCE_COUNT ? words[s] : "?";
}

struct progress *progress_create(int64_t epochs)
{
	struct progress *p = alloc_zero(sizeof *p);
	p->hint = epochs;
	p->base = p->label = NO_EPOCHS_SEEN;
	p->fraction = -1;
	return p;
}

void progress_destroy(struct progress *p)
{
	free(p);
}

/* Epochs --------------------------------------------------------------------------------------------------------------- */

static void set_epochs_done(struct progress *p, int64_t k)
{
	if (k < p->epochs_done || (p->epochs && k > p->epochs))
		p->confused = true;
	if (k != p->epochs_done)
		p->epoch_number++;
	p->epochs_done = k;
	p->place_known = true;
}

static void set_epochs(struct progress *p, int64_t n)
{
	if (p->epochs && n && p->epochs != n)
		p->confused = true;	/* a second training of another length, say: how many more nobody knows */
	p->epochs = n ? n : p->epochs;
}

/* Counted from 0 or from 1: the first one that is seen tells, except in a run that goes on from a checkpoint. Then a program
 * that says of how many begins with 1, and one that does not (Lightning) with 0: at worst it is one epoch that is misjudged. */
static int64_t first_label(const struct progress *p, const struct progress_mark *m)
{
	if (p->base == 0 || m->epoch == 0 || m->source == PROGRESS_RICH)
		return 0;
	return p->base > 0 ? p->base : m->epochs || m->epoch == 1 || m->source == PROGRESS_LINES ? 1 : 0;
}

static void note_epoch(struct progress *p, const struct progress_mark *m)
{
	int64_t before = p->label;
	bool over = m->epoch_over && !p->never_over;
	p->base = first_label(p, m);
	p->label = m->epoch;
	bool last_is_named = m->epoch == m->epochs || m->epochs + 1 == p->hint;	/* "0/9" to "9/9", the second by the command */
	set_epochs(p, m->epochs + (m->epochs && !p->base && last_is_named));
	p->said_over = before == m->epoch ? p->said_over + over : over;
	if (p->said_over > 2) {		/* these lines come from within an epoch */
		p->never_over = true;
		over = false;
		p->epochs_done = m->epoch - p->base < p->epochs_done ? m->epoch - p->base : p->epochs_done;
	}
	/* It was said to be over, and still prints. */
	if (before == m->epoch && !over && p->epochs_done == m->epoch - p->base + 1)
		return;
	set_epochs_done(p, m->epoch - p->base + over);
}

/* Loops ---------------------------------------------------------------------------------------------------------------- */

static uint64_t key_of(const struct progress_mark *m)
{
	uint64_t parts[] = { m->name, (uint64_t)m->total, m->source };
	uint64_t key = hash_bytes(HASH_SEED, parts, sizeof parts);
	return key ? key : 1;
}

static struct loop *find_loop(struct progress *p, uint64_t key)
{
	for (size_t i = 0; key && i < LOOPS; i++)
		if (p->loops[i].key == key)
			return &p->loops[i];
	return NULL;
}

static bool is_on_its_way(const struct loop *l)
{
	return l->key && !l->counts_epochs && !l->restarts && l->done && l->done < l->total;
}

static struct loop *begin_loop(struct progress *p, const struct progress_mark *m, int64_t t_ms)
{
	struct loop *l = &p->loops[0];
	bool interlude = false;
	for (size_t i = 0; i < LOOPS; i++) {
		interlude = interlude || is_on_its_way(&p->loops[i]);
		if (l->key && (!p->loops[i].key || p->loops[i].last_ms < l->last_ms))
			l = &p->loops[i];
	}
	*l = (struct loop){ .key = key_of(m), .source = m->source, .counts_epochs = m->counts_epochs, .interlude = interlude,
			    .done = m->done, .total = m->total, .first_ms = t_ms, .last_ms = t_ms,
			    .epoch_number = p->epoch_number, .series = ++p->n_series };
	p->first_ms = p->first_ms ? p->first_ms : t_ms;
	return l;
}

static void restart_loop(struct progress *p, struct loop *l, const struct progress_mark *m)
{
	if (p->base != NO_EPOCHS_SEEN && l->epoch_number == p->epoch_number && l->key == p->inner)
		p->place_known = false;
	l->restarts++;
	l->advanced += (double)m->done;
	l->epoch_number = p->epoch_number;
}

static void move_loop(struct progress *p, struct loop *l, const struct progress_mark *m, int64_t t_ms)
{
	int64_t back = l->done - m->done;
	if (back > 0 && (double)back <= TOLERATED * (double)l->total)
		return;
	if (back > 0)
		restart_loop(p, l, m);
	else
		l->advanced += (double)-back;
	if (back)
		l->last_ms = t_ms;
	l->done = m->done;
}

static void note_loop(struct progress *p, const struct progress_mark *m, int64_t t_ms)
{
	struct loop *l = find_loop(p, key_of(m));
	if (l)
		move_loop(p, l, m, t_ms);
	else
		l = begin_loop(p, m, t_ms);
	l->per_s = m->per_s > 0 ? m->per_s : l->per_s;
	memcpy(l->unit, m->unit, sizeof l->unit);
	p->last_ms = t_ms;
	if (m->counts_epochs) {
		p->base = 0;
		set_epochs(p, m->total);
		set_epochs_done(p, m->done);
	} else if (m->epoch >= 0 || !p->inner) {
		p->inner = l->key;
	}
}

/* The whole ------------------------------------------------------------------------------------------------------------ */

static bool was_left(const struct progress *p, const struct loop *l)
{
	return l->done && l->done < l->total && p->last_ms - l->last_ms > ABANDONED * (l->last_ms - l->first_ms) + ABANDONED_MS;
}

static int64_t covered_ms(const struct progress *p, const struct loop *l)
{
	return (l->done < l->total ? p->last_ms : l->last_ms) - l->first_ms;
}

static bool may_be_run(const struct progress *p, const struct loop *l)
{
	return l->key && !l->counts_epochs && !l->restarts && !was_left(p, l);
}

/* The loop that is the run, NULL: none is for certain. Several on their way leave it open, but for one that began inside
 * the other. */
static const struct loop *find_run(const struct progress *p)
{
	const struct loop *run = NULL;
	for (size_t i = 0; i < LOOPS; i++) {
		const struct loop *l = &p->loops[i];
		if (may_be_run(p, l) && !l->interlude && (!run || covered_ms(p, l) > covered_ms(p, run)))
			run = l;
	}
	if (!run || (double)covered_ms(p, run) < OF_THE_TIME * (double)(p->last_ms - p->first_ms))
		return NULL;
	for (size_t i = 0; i < LOOPS; i++) {
		const struct loop *l = &p->loops[i];
		bool rival = may_be_run(p, l) && !l->interlude && (l->done < l->total || !run->done);
		bool follows = run->done == run->total && l->last_ms > run->last_ms;
		if (l->key && l != run && (rival || follows))
			return NULL;
	}
	return run;
}

/* The one whose units tell the rate, whether or not the whole is known. */
static const struct loop *find_pace(const struct progress *p)
{
	const struct loop *run = find_run(p), *inner = find_loop((struct progress *)p, p->inner), *longest = NULL;
	if (p->base == NO_EPOCHS_SEEN && run)
		return run;
	if (p->base != NO_EPOCHS_SEEN && inner)
		return inner;
	for (size_t i = 0; i < LOOPS; i++) {
		const struct loop *l = &p->loops[i];
		if (l->key && !l->counts_epochs && (!longest || l->last_ms - l->first_ms > longest->last_ms - longest->first_ms))
			longest = l;
	}
	return longest;
}

static int64_t epochs_of(const struct progress *p)
{
	return p->epochs ? p->epochs : p->hint > 0 ? p->hint : 0;
}

static double part_of(const struct loop *l)
{
	return (double)l->done / (double)l->total;
}

static double fraction_by_epochs(const struct progress *p)
{
	const struct loop *inner = find_loop((struct progress *)p, p->inner);
	double k = (double)p->epochs_done, n = (double)epochs_of(p);
	if (n == 0 || !p->place_known || k > n)
		return -1;
	if (inner && inner->epoch_number == p->epoch_number && k < n)
		k += part_of(inner);
	return k / n;
}

/* The command names epochs, and no line does: a loop may be one of them or all, until it begins again. */
static double fraction_by_passes(const struct progress *p)
{
	const struct loop *l = find_pace(p);
	if (!l || !l->restarts || p->hint < 2 || l->restarts >= p->hint)
		return -1;
	return (l->restarts + part_of(l)) / (double)p->hint;
}

static double whole_fraction(const struct progress *p)
{
	const struct loop *run = find_run(p);
	if (p->confused)
		return -1;
	if (p->base != NO_EPOCHS_SEEN)
		return fraction_by_epochs(p);
	if ((p->hint > 1 || p->hint < 0) && !p->hf)
		return fraction_by_passes(p);
	return run ? part_of(run) : -1;
}

/* Over time ------------------------------------------------------------------------------------------------------------ */

/* Every second point goes when there is no room, so they always span all the time. */
static void thin_points(struct progress *p)
{
	size_t n = 0;
	for (size_t i = 0; i < p->n_points; i += 2)
		p->points[n++] = p->points[i];
	p->gap_ms = p->gap_ms ? 2 * p->gap_ms : (p->points[n - 1].t_ms - p->points[0].t_ms) / POINTS;
	p->n_points = n;
}

/* The last one moves on until it is far enough from the one before. */
static void add_point(struct progress *p, int64_t t_ms, double f)
{
	struct point *last = p->n_points ? &p->points[p->n_points - 1] : NULL;
	if (last && f < last->f)
		p->n_points = 0;	/* it is something else that is measured now */
	else if (last && f == last->f)
		return;
	if (p->n_points > 1 && (last->t_ms == t_ms || last->t_ms - last[-1].t_ms < p->gap_ms))
		p->n_points--;
	else if (p->n_points == POINTS)
		thin_points(p);
	p->points[p->n_points++] = (struct point){ t_ms, f };
}

static void weigh(struct progress *p, int64_t t_ms)
{
	p->fraction = whole_fraction(p);
	if (p->fraction < 0)
		p->n_points = 0;
	else
		add_point(p, t_ms, p->fraction);
}

static void read_line(struct progress *p, bool ended, int64_t t_ms)
{
	struct progress_mark m;
	if (p->dropped || !p->len || !progress_line(p->line, p->len, ended, &m) || m.aside)
		return;
	p->hf = p->hf || m.hf;
	if (m.epoch >= 0)
		note_epoch(p, &m);
	if (m.total)
		note_loop(p, &m, t_ms);
	if (m.epoch >= 0 && !p->first_ms)
		p->first_ms = t_ms;
	p->last_ms = t_ms > p->last_ms ? t_ms : p->last_ms;
	weigh(p, t_ms);
}

/* Bytes ---------------------------------------------------------------------------------------------------------------- */

/* Programs begin a line anew with CR, older ones of Keras with a row of backspaces. */
static void feed_byte(struct progress *p, char c, int64_t t_ms)
{
	if (c == '\n' || c == '\r' || c == '\b') {
		read_line(p, true, t_ms);
		p->len = 0;
		p->dropped = false;
		p->escape = ESCAPE_NONE;
	} else if (escape_takes(&p->escape, c)) {
		return;
	} else if (p->len < sizeof p->line) {
		p->line[p->len++] = c;
	} else {
		p->dropped = true;
	}
}

void progress_feed(struct progress *p, const char *bytes, size_t n, int64_t mono_ms)
{
	for (size_t i = 0; i < n; i++)
		feed_byte(p, bytes[i], mono_ms);
	if (n)
		read_line(p, false, mono_ms);	/* a bar stands without an end until the next one */
}

void progress_skip(struct progress *p)
{
	p->len = 0;
	p->dropped = true;
	p->escape = ESCAPE_NONE;
}

/* Reading -------------------------------------------------------------------------------------------------------------- */

/* The first of the points by which the rate is told: of the latter half of the time, three at least, never the very first. */
static size_t window_start(const struct progress *p)
{
	const struct point *last = &p->points[p->n_points - 1];
	int64_t half = p->points[0].t_ms + (last->t_ms - p->points[0].t_ms) / 2;
	size_t w = 1;
	while (w + 3 < p->n_points && p->points[w].t_ms < half)
		w++;
	return w;
}

static void read_end(const struct progress *p, struct progress_report *out)
{
	if (p->n_points < 4 || p->fraction >= 1)
		return;
	size_t w = window_start(p), n = p->n_points;
	const struct point *from = &p->points[w], *to = &p->points[n - 1];
	double d = (double)(to->t_ms - from->t_ms) / 1000, r = (to->f - from->f) / d, deviation = 0;
	int64_t longest = 0;
	if (!(d > 0) || !(r > 0))
		return;
	for (const struct point *q = from; q < to; q++) {
		double dt = (double)(q[1].t_ms - q->t_ms) / 1000, off = (q[1].f - q->f) - r * dt;
		deviation += off < 0 ? -off : off;
		longest = q[1].t_ms - q->t_ms > longest ? q[1].t_ms - q->t_ms : longest;
	}
	double left = (1 - to->f) / r, spread = left * deviation / (to->f - from->f);
	if (spread > left || left > (double)PROGRESS_MOST)
		return;
	out->left_s = left;
	out->spread_s = spread;
	out->stands_ms = 4 * longest > STANDS_MS ? 4 * longest : STANDS_MS;
	out->t_ms = to->t_ms;
	if (out->whole_units > 0)
		out->per_s = r * out->whole_units;
}

/* Epochs alone are the units where no loop inside them prints. */
static void read_epochs_alone(const struct progress *p, struct progress_report *out)
{
	out->source = PROGRESS_LINES;
	for (size_t i = 0; i < LOOPS; i++)
		if (p->loops[i].key && p->loops[i].counts_epochs)
			out->source = p->loops[i].source;
	out->total = out->epochs;
	out->done = out->total ? p->epochs_done : 0;
	out->advanced = (double)p->epochs_done;
	out->whole_units = out->fraction >= 0 ? (double)out->total : 0;
	memcpy(out->unit, "epoch", sizeof "epoch");
}

static void read_loop(const struct progress *p, const struct loop *l, struct progress_report *out)
{
	out->source = l->source;
	out->done = l->done;
	out->total = l->total;
	out->advanced = l->advanced;
	out->series = l->series;
	out->per_s = l->per_s;
	memcpy(out->unit, l->unit, sizeof out->unit);
	double passes = p->base != NO_EPOCHS_SEEN || l->restarts ? (double)epochs_of(p) : 1;
	out->whole_units = out->fraction >= 0 ? passes * (double)l->total : 0;
}

void progress_read(const struct progress *p, struct progress_report *out)
{
	const struct loop *l = find_pace(p);
	*out = (struct progress_report){ .fraction = p->fraction, .left_s = -1, .spread_s = -1, .t_ms = p->last_ms };
	if (!p->first_ms)
		return;
	if (p->base != NO_EPOCHS_SEEN) {
		out->epochs = p->confused || p->epochs_done > epochs_of(p) ? 0 : epochs_of(p);
		out->epoch = p->epochs_done;
	}
	if (l)
		read_loop(p, l, out);
	else
		read_epochs_alone(p, out);
	read_end(p, out);
}
