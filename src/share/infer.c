/* SPDX-License-Identifier: MIT
 * Many guesses at once. A guess says what each task on the GPU does; how well a guess explains what the GPU shows is its
 * weight. The law has corners and a full GPU hides what is beyond, so what is known of a load is often a range or a trade with
 * another's: guesses say that as it is, where slopes at one point do not (a Kalman filter on the same measurements was half as
 * far off again).
 *
 * Weights are rational (Student's t), and dice are whole numbers: the same readings give the same beliefs on every machine.
 * Long tails also keep one odd reading from ruling out the truth. Work is bounded: a span costs one solution of the law a
 * guess.
 */
#include "share/infer.h"

#include "base/alloc.h"

#include "models/infer.h"
#include "models/share.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { GRACT, SMACT, DRAM, FIELDS };
#define GUESSES 1024
#define FEW (GUESSES / 4)	/* guesses that still count: with less they are drawn anew around them */
#define WIDEN 0.3
#define BUSY 0.95		/* GRACT of several that shows no more than that the GPU is full */
#define SAYS_LITTLE 0.9		/* of the spread of before: less of a change is no inference */
#define LEAST_S 1
#define WRONG 10		/* of so many guesses one is drawn as if nothing were known: what is believed may be wrong */

struct infer_task {
	int64_t id;
	bool gone;
	enum load_source source;	/* of the prior */
	double watts, kernels;			/* of it too: readings do not show them */
	double prior[FIELDS], prior_sd[FIELDS];	/* as it was drawn */
	double mean[FIELDS], sd[FIELDS];	/* now */
	float guess[FIELDS][GUESSES];
};

struct infer {
	size_t n, present;
	struct infer_task *tasks[INFER_MOST];	/* as they came */
	bool crowded;				/* somebody was refused; until nobody is left */
	double before[GUESSES], now[GUESSES];	/* weights: before the open span, and with what it said so far */
	struct infer_reading alone;		/* the open span, if it has one task only; no time: it has not */
	uint64_t dice;
};

/* splitmix64 */
static uint64_t roll(struct infer *f)
{
	uint64_t z = (f->dice += 0x9e3779b97f4a7c15u);
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

static double draw(struct infer *f)
{
	return (double)(roll(f) >> 11) / 9007199254740992.0;
}

/* Normal, near enough: the sum of four has a third of its variance. */
static double draw_normal(struct infer *f)
{
	uint64_t z = roll(f);
	double sum = (double)((z & 0xffff) + (z >> 16 & 0xffff) + (z >> 32 & 0xffff) + (z >> 48)) / 65536;
	return (sum - 2) * 1.7320508075688772;
}

static void weigh_alike(double *w)
{
	for (size_t k = 0; k < GUESSES; k++)
		w[k] = 1. / GUESSES;
}

struct infer *infer_create(void)
{
	struct infer *f = alloc_zero(sizeof *f);
	weigh_alike(f->before);
	weigh_alike(f->now);
	return f;
}

void infer_destroy(struct infer *f)
{
	for (size_t i = 0; f && i < f->n; i++)
		free(f->tasks[i]);
	free(f);
}

static size_t find_task(const struct infer *f, int64_t id)
{
	size_t i = 0;
	while (i < f->n && f->tasks[i]->id != id)
		i++;
	return i;
}

static bool is_fraction(double v)
{
	return v >= 0 && v <= 1;
}

/* Guesses -------------------------------------------------------------------------------------------------------------- */

static double in_range(double v)
{
	return fmin(fmax(v, SHARE_LEAST_LOAD), 1);
}

static void set_guess(struct infer_task *t, size_t k, double gract, double smact, double dram)
{
	t->guess[SMACT][k] = (float)in_range(smact);
	t->guess[GRACT][k] = (float)fmax(in_range(gract), in_range(smact));
	t->guess[DRAM][k] = (float)fmin(fmax(dram, 0), 1);
}

/* All fields in one walk: each sum waits for its own last addition only, and is added up in the same order as alone. */
static void note_spread(const struct infer_task *t, const double *w, double *mean, double *sd)
{
	double sum[FIELDS] = { 0 }, squares[FIELDS] = { 0 };
	for (size_t k = 0; k < GUESSES; k++)
		for (int i = 0; i < FIELDS; i++)
			sum[i] += w[k] * t->guess[i][k];
	for (size_t k = 0; k < GUESSES; k++)
		for (int i = 0; i < FIELDS; i++)
			squares[i] += w[k] * (t->guess[i][k] - sum[i]) * (t->guess[i][k] - sum[i]);
	for (int i = 0; i < FIELDS; i++) {
		mean[i] = sum[i];
		sd[i] = fmax(sqrt(squares[i]), LOAD_LEAST_SD);
	}
}

static void note_all(struct infer *f)
{
	for (size_t i = 0; i < f->n; i++)
		note_spread(f->tasks[i], f->now, f->tasks[i]->mean, f->tasks[i]->sd);
}

/* Around a belief; a field that is not known goes with the other as it does in tasks of which nothing is known. */
static void draw_guess(struct infer *f, struct infer_task *t, size_t k, const struct load_belief *b)
{
	double gract = draw(f), filled = INFER_FILLED_LEAST + (1 - INFER_FILLED_LEAST) * draw(f);
	double both = draw_normal(f), own = draw_normal(f);
	if (isfinite(b->load.gract))
		gract = in_range(b->load.gract + b->gract_sd * both);
	double smact = gract * filled, rest = sqrt(1 - INFER_TOGETHER * INFER_TOGETHER);
	if (isfinite(b->load.smact))
		smact = in_range(b->load.smact + b->smact_sd * (INFER_TOGETHER * both + rest * own));
	if (isnan(b->load.gract) && isfinite(b->load.smact))
		gract = in_range(smact / filled);
	double dram = isfinite(b->dram) ? b->dram + b->dram_sd * draw_normal(f) : in_range(smact) * INFER_DRAM_MOST * draw(f);
	set_guess(t, k, gract, smact, dram);
}

static void draw_task(struct infer *f, struct infer_task *t, const struct load_belief *prior)
{
	struct load_belief b = load_clean(prior), none = load_unknown();
	bool alone = b.source == LOAD_MEASURED;
	if (isnan(b.gract_sd) || alone)
		b.gract_sd = alone ? LOAD_LEAST_SD : LOAD_VAGUE_SD;
	if (isnan(b.smact_sd) || alone)
		b.smact_sd = alone ? LOAD_LEAST_SD : LOAD_VAGUE_SD;
	if (isnan(b.dram_sd) || alone)
		b.dram_sd = alone ? LOAD_LEAST_SD : LOAD_VAGUE_SD;
	for (size_t k = 0; k < GUESSES; k++)
		draw_guess(f, t, k, !alone && k % WRONG == 0 ? &none : &b);
	t->source = b.source;
	t->watts = b.watts;
	t->kernels = b.load.kernels;
}

/* As many of each as its weight says, each moved a little within the spread of all: mean and spread stay what they were
 * ("Combined Parameter and State Estimation in Simulation-Based Filtering", Liu and West). */
static void draw_again(struct infer *f)
{
	uint16_t from[GUESSES];
	double up_to = f->now[0], shrink = sqrt(1 - WIDEN * WIDEN);
	for (size_t k = 0, of = 0; k < GUESSES; k++) {
		while (up_to < ((double)k + 0.5) / GUESSES && of < GUESSES - 1)
			up_to += f->now[++of];
		from[k] = (uint16_t)of;
	}
	for (size_t i = 0; i < f->n; i++) {
		struct infer_task *t = f->tasks[i];
		struct infer_task old = *t;
		double mean[FIELDS], sd[FIELDS], moved[FIELDS];
		note_spread(&old, f->now, mean, sd);
		for (size_t k = 0; k < GUESSES; k++) {
			for (int x = 0; x < FIELDS; x++)
				moved[x] = mean[x] + shrink * (old.guess[x][from[k]] - mean[x]) + WIDEN * sd[x] * draw_normal(f);
			set_guess(t, k, moved[GRACT], moved[SMACT], moved[DRAM]);
		}
	}
	weigh_alike(f->now);
}

static double still_count(const double *w)
{
	double squares = 0;
	for (size_t k = 0; k < GUESSES; k++)
		squares += w[k] * w[k];
	return 1 / squares;
}

/* What it taught is kept from here on. Who was seen alone is known better than guesses can be dense. Where no guess was drawn
 * anew, means and spreads are what they were. */
static void close_span(struct infer *f)
{
	bool few = still_count(f->now) < FEW, alone = f->alone.seconds > 0;
	const struct load_belief seen = { { f->alone.gract, f->alone.smact }, LOAD_LEAST_SD, LOAD_LEAST_SD,
					  is_fraction(f->alone.dram) ? f->alone.dram : NAN, LOAD_LEAST_SD, NAN, LOAD_MEASURED };
	if (few)
		draw_again(f);
	for (size_t i = 0; alone && i < f->n; i++)
		for (size_t k = 0; !f->tasks[i]->gone && k < GUESSES; k++)
			draw_guess(f, f->tasks[i], k, &seen);
	f->alone.seconds = 0;
	memcpy(f->before, f->now, sizeof f->before);
	if (few || alone)
		note_all(f);
}

/* Coming and going ----------------------------------------------------------------------------------------------------- */

static void infer_forget(struct infer *f, size_t at)
{
	free(f->tasks[at]);
	memmove(&f->tasks[at], &f->tasks[at + 1], (f->n - at - 1) * sizeof f->tasks[0]);
	f->n--;
}

/* Whoever left longest ago makes room; the list is in the order of coming, which is near enough. */
static bool make_room(struct infer *f)
{
	for (size_t i = 0; f->n == INFER_MOST && i < f->n; i++)
		if (f->tasks[i]->gone)
			infer_forget(f, i);
	return f->n < INFER_MOST;
}

void infer_join(struct infer *f, int64_t id, const struct load_belief *prior)
{
	size_t before = find_task(f, id);
	assert(before == f->n || f->tasks[before]->gone);
	f->present++;
	close_span(f);
	if (before < f->n)	/* back again: what it said then was asked for */
		infer_forget(f, before);
	if (!make_room(f)) {
		f->crowded = true;
		return;
	}
	struct infer_task *t = f->tasks[f->n++] = alloc_zero(sizeof *t);
	t->id = id;
	draw_task(f, t, prior);
	note_spread(t, f->now, t->prior, t->prior_sd);
	memcpy(t->mean, t->prior, sizeof t->mean);
	memcpy(t->sd, t->prior_sd, sizeof t->sd);
}

void infer_leave(struct infer *f, int64_t id)
{
	size_t at = find_task(f, id);
	close_span(f);
	if (at < f->n)
		f->tasks[at]->gone = true;
	if (!f->present || --f->present)
		return;
	/* Nobody is left: what comes says nothing of those that were here. */
	while (f->n)
		infer_forget(f, f->n - 1);
	f->crowded = false;
	weigh_alike(f->before);
	weigh_alike(f->now);
}

/* What would be shown -------------------------------------------------------------------------------------------------- */

struct company {
	size_t n;
	enum share_mode mode;
	const struct infer_task *of[INFER_MOST];
	struct share_task loads[INFER_MOST];
	double speed[INFER_MOST];
};

static void gather(const struct infer *f, enum share_mode mode, struct company *c)
{
	*c = (struct company){ .mode = mode };
	for (size_t i = 0; i < f->n; i++)
		if (!f->tasks[i]->gone)
			c->of[c->n++] = f->tasks[i];
}

/* GRACT: half way between tasks that avoid each other and tasks that meet by chance. Kernels are left out even where they are
 * known: they move speeds, but hardly what all come to (decision 80). */
static void predict(struct company *c, size_t guess, double shown[FIELDS])
{
	double sum = 0, idle = 1, dram = 0, linger = c->mode == SHARE_MPS ? INFER_MPS_LINGER : INFER_STREAMS_LINGER;
	for (size_t i = 0; i < c->n; i++)
		c->loads[i] = (struct share_task){ c->of[i]->guess[GRACT][guess], c->of[i]->guess[SMACT][guess] };
	share_speeds(c->loads, c->n, c->mode, c->speed);
	for (size_t i = 0; i < c->n; i++) {
		sum += c->speed[i] * c->loads[i].gract;
		idle *= 1 - c->speed[i] * c->loads[i].gract;
		dram += c->speed[i] * c->of[i]->guess[DRAM][guess];
	}
	double smact = share_shown(c->loads, c->n, c->mode, c->speed).smact;
	if (c->n < 2)
		linger = 0;
	shown[GRACT] = (fmin(sum, 1) + 1 - idle) / 2;
	shown[SMACT] = smact * (1 + linger * (1 - smact));
	shown[DRAM] = dram * (c->n < 2 ? 1 : c->mode == SHARE_MPS ? INFER_MPS_DRAM : INFER_STREAMS_DRAM);
}

/* Learning ------------------------------------------------------------------------------------------------------------- */

/* Student's t with five degrees of freedom, but for a factor. */
static double likelihood(double off, double sd)
{
	double z = 1 + off * off / (5 * sd * sd);
	return 1 / (z * z * z);
}

static double law_sd(const struct company *c, int field)
{
	if (c->n < 2)
		return LOAD_LEAST_SD;
	if (field == DRAM)
		return INFER_DRAM_SD;
	return field == GRACT ? INFER_GRACT_SD : c->mode == SHARE_MPS ? INFER_MPS_SMACT_SD : INFER_STREAMS_SMACT_SD;
}

/* Where time is sliced, GRACT counts slices, used or not; where several keep the GPU busy, it says no more than that. */
static void weigh(struct infer *f, struct company *c, const struct infer_reading *r)
{
	const double seen[FIELDS] = { r->gract, r->smact, r->dram }, most = c->n < 2 ? 1 : BUSY;
	double shown[FIELDS], sd[FIELDS], sum = 0;
	bool counts[FIELDS];
	for (int x = 0; x < FIELDS; x++) {
		counts[x] = is_fraction(seen[x]) && (x != GRACT || c->n < 2 || c->mode == SHARE_MPS);
		sd[x] = sqrt(law_sd(c, x) * law_sd(c, x) + INFER_SECOND_SD * INFER_SECOND_SD / r->seconds);
	}
	for (size_t k = 0; k < GUESSES; k++) {
		predict(c, k, shown);
		for (int x = 0; x < FIELDS; x++)
			if (counts[x])
				f->now[k] *= likelihood(x == GRACT ? fmin(seen[x], most) - fmin(shown[x], most) : seen[x] - shown[x], sd[x]);
		sum += f->now[k];
	}
	for (size_t k = 0; k < GUESSES; k++)
		f->now[k] /= sum;
}

void infer_forget_span(struct infer *f)
{
	f->alone.seconds = 0;
	if (!memcmp(f->now, f->before, sizeof f->now))
		return;		/* it said nothing yet */
	memcpy(f->now, f->before, sizeof f->now);
	note_all(f);
}

void infer_span(struct infer *f, enum share_mode mode, const struct infer_reading *mean)
{
	struct company c;
	if (f->crowded || !f->present || !(mean->seconds >= LEAST_S) || !is_fraction(mean->smact))
		return;
	memcpy(f->now, f->before, sizeof f->now);
	f->alone.seconds = 0;
	gather(f, mode, &c);
	weigh(f, &c, mean);
	if (c.n == 1 && is_fraction(mean->gract))
		f->alone = *mean;
	note_all(f);
}

/* What is believed ----------------------------------------------------------------------------------------------------- */

bool infer_belief(const struct infer *f, int64_t id, struct load_belief *out)
{
	size_t i = find_task(f, id);
	if (i == f->n)
		return false;
	const struct infer_task *t = f->tasks[i];
	bool told = t->sd[GRACT] < SAYS_LITTLE * t->prior_sd[GRACT] || t->sd[SMACT] < SAYS_LITTLE * t->prior_sd[SMACT];
	*out = (struct load_belief){
		{ t->mean[GRACT], t->mean[SMACT], t->kernels }, t->sd[GRACT], t->sd[SMACT], t->mean[DRAM], t->sd[DRAM], t->watts,
		t->source == LOAD_MEASURED || !told ? t->source : LOAD_INFERRED,
	};
	return true;
}

/* What makes the prior into the belief, by inverse variance. False: nothing that counts. */
static bool take_out(const struct infer_task *t, int x, double *value, double *sd)
{
	double now = 1 / (t->sd[x] * t->sd[x]), before = 1 / (t->prior_sd[x] * t->prior_sd[x]);
	*value = *sd = NAN;
	if (t->sd[x] >= SAYS_LITTLE * t->prior_sd[x])
		return false;
	*value = fmin(fmax((t->mean[x] * now - t->prior[x] * before) / (now - before), 0), 1);
	*sd = fmin(sqrt(1 / (now - before)), 1);
	return true;
}

struct load_belief infer_evidence(const struct infer *f, int64_t id)
{
	struct load_belief b = load_unknown();
	size_t i = find_task(f, id);
	if (i == f->n)
		return b;
	bool gract = take_out(f->tasks[i], GRACT, &b.load.gract, &b.gract_sd);
	bool smact = take_out(f->tasks[i], SMACT, &b.load.smact, &b.smact_sd);
	take_out(f->tasks[i], DRAM, &b.dram, &b.dram_sd);
	b.source = gract || smact ? LOAD_INFERRED : LOAD_UNKNOWN;
	return b;
}

/* Nothing is as sure as to leave no room for another voice. */
static double weight(double value, double sd)
{
	double at_least = fmax(isfinite(sd) ? sd : LOAD_VAGUE_SD, LOAD_LEAST_SD);
	return isfinite(value) ? 1 / (at_least * at_least) : 0;
}

static void combine(double a, double a_sd, double b, double b_sd, double *value, double *sd)
{
	double wa = weight(a, a_sd), wb = weight(b, b_sd);
	*value = *sd = NAN;
	if (!(wa + wb > 0))
		return;
	*value = ((wa > 0 ? wa * a : 0) + (wb > 0 ? wb * b : 0)) / (wa + wb);
	*sd = fmax(sqrt(1 / (wa + wb)), LOAD_LEAST_SD);
}

struct load_belief infer_combine(const struct load_belief *a, const struct load_belief *b)
{
	const struct load_belief x = load_clean(a), y = load_clean(b);
	struct load_belief c = load_unknown();
	combine(x.load.gract, x.gract_sd, y.load.gract, y.gract_sd, &c.load.gract, &c.gract_sd);
	combine(x.load.smact, x.smact_sd, y.load.smact, y.smact_sd, &c.load.smact, &c.smact_sd);
	combine(x.dram, x.dram_sd, y.dram, y.dram_sd, &c.dram, &c.dram_sd);
	c.watts = isfinite(x.watts) ? x.watts : y.watts;
	c.load.kernels = x.load.kernels > 0 ? x.load.kernels : y.load.kernels;
	c.source = x.source > y.source ? x.source : y.source;
	return c;
}
