/* SPDX-License-Identifier: MIT
 * A table by signature, in the order of last use. A signature is a client's word, and whose it is stands in its text, so
 * entries are told apart by the text, not by its hash: nobody can reach another's entry with a made-up collision.
 *
 * Memory is bounded twice: so many signatures, of which the one that was used longest ago goes, and so many models of GPU
 * for each.
 *
 * The table has no memory of attempts, only what they come to: it is made again after a restart by telling it the outcomes
 * in the same order, and must then be the same. So nothing here may hang on the time of day or on when it is asked.
 */
#include "estimate/history.h"

#include "base/alloc.h"
#include "base/hash.h"
#include "base/idmap.h"
#include "base/least.h"
#include "estimate/margin.h"
#include "estimate/whose.h"
#include "models/margins.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define CLEAR_PART 5	/* a run that left so much of its limit was not held down by it */

/* Seconds, so that a mean over runs weighs each by its time alone. */
struct load_sum { double load_s, seen_s; };

/* Evidence of attempts in company, each worth the inverse of its variance. */
struct evidence_sum { double weight, weighted; };

/* What runs of a signature took on one model of GPU. MiB; the kinds of evidence are kept apart, since they are worth different
 * things: a whole run, a limit that was enough, a lower bound. */
struct on_model {
	char *gpu_name;
	int64_t told_ms;
	unsigned runs, cut;		/* warm ones: completed without a limit; others */
	uint64_t peak_mib;		/* of the former */
	uint64_t bound_mib;		/* of all others, the cold ones too */
	uint64_t cut_mib;		/* of the warm ones among those */
	uint64_t limit_mib;
	uint64_t clear_mib;		/* peak of warm ones that completed far below their limit */
	struct load_sum gract, smact, dram, watts;
	struct evidence_sum in_gract, in_smact, in_dram;
	double work_s;			/* mean of the last `worked` completed runs, or so */
	unsigned worked;
	double pace_units, pace_s;	/* of their own progress, alone */
	double cores;			/* mean of the last `counted`, or so */
	unsigned counted;
};

struct history_entry {
	char *signature;
	int64_t key;
	int64_t told_ms;
	uint64_t refuted_mib, retry_mib;
	struct on_model *models[HISTORY_MODELS];
	unsigned n_models;
	struct history_entry *newer, *older;
};

/* What one signature took, as far as it counts. */
struct usual { int64_t key, user; uint64_t peak_mib; };

struct history {
	struct idmap entries;	/* hash of the signature, or the next free number -> struct history_entry */
	struct history_entry *newest, *oldest;
	size_t max;
	struct margins *margins;
	struct hostpaces *paces;
	struct usual usual[HISTORY_USUAL];	/* the oldest first */
	size_t n_usual;
};

struct history *history_create(size_t max_signatures)
{
	struct history *h = alloc_zero(sizeof *h);
	h->max = max_signatures;
	h->margins = margins_create();
	h->paces = hostpace_create();
	return h;
}

static void free_model(struct on_model *m)
{
	free(m->gpu_name);
	free(m);
}

static void free_entry(struct history_entry *e)
{
	for (unsigned i = 0; i < e->n_models; i++)
		free_model(e->models[i]);
	free(e->signature);
	free(e);
}

void history_destroy(struct history *h)
{
	if (!h)
		return;
	for (struct history_entry *e = h->newest, *older; e; e = older) {
		older = e->older;
		free_entry(e);
	}
	idmap_free(&h->entries);
	margins_destroy(h->margins);
	hostpace_destroy(h->paces);
	free(h);
}

/* Entries ------------------------------------------------------------------------------------------------------------- */

/* Open addressing by hand: the map's keys are whole numbers, and two texts of one hash take neighbouring ones. */
static int64_t next_key(int64_t key)
{
	int64_t next = (int64_t)((uint64_t)key + 1);
	return next ? next : 1;		/* 0 is no key */
}

/* The entry, or NULL and the key for it. */
static struct history_entry *history_find(const struct history *h, const char *signature, int64_t *key)
{
	struct history_entry *e;
	int64_t k = hash_key(signature);
	for (; (e = idmap_get(&h->entries, k)) && strcmp(e->signature, signature); k = next_key(k))
		;
	if (key)
		*key = k;
	return e;
}

static void unlink_entry(struct history *h, struct history_entry *e)
{
	*(e->newer ? &e->newer->older : &h->newest) = e->older;
	*(e->older ? &e->older->newer : &h->oldest) = e->newer;
	e->newer = e->older = NULL;
}

static void link_newest(struct history *h, struct history_entry *e)
{
	e->older = h->newest;
	*(h->newest ? &h->newest->newer : &h->oldest) = e;
	h->newest = e;
}

/* An entry behind it in a run of equal hashes is no longer found then, and dropped in its turn. */
static void forget_oldest(struct history *h)
{
	struct history_entry *e = h->oldest;
	unlink_entry(h, e);
	idmap_remove(&h->entries, e->key);
	free_entry(e);
}

/* Using an entry makes it the newest, so a signature that is still submitted never goes. */
static struct history_entry *entry_of(struct history *h, const char *signature)
{
	int64_t key;
	struct history_entry *e = history_find(h, signature, &key);
	if (e) {
		unlink_entry(h, e);
	} else {
		e = alloc_zero(sizeof *e);
		e->signature = alloc_string(signature);
		e->key = key;
		idmap_put(&h->entries, key, e);
	}
	link_newest(h, e);
	if (h->entries.n > h->max)
		forget_oldest(h);
	return e;
}

/* When there are too many models, the one told of longest ago makes room. */
static struct on_model *model_of(struct history_entry *e, const char *gpu_name)
{
	unsigned oldest = 0;
	for (unsigned i = 0; i < e->n_models; i++) {
		if (!strcmp(e->models[i]->gpu_name, gpu_name))
			return e->models[i];
		if (e->models[i]->told_ms < e->models[oldest]->told_ms)
			oldest = i;
	}
	unsigned at = e->n_models < HISTORY_MODELS ? e->n_models++ : oldest;
	if (e->models[at])
		free_model(e->models[at]);
	e->models[at] = alloc_zero(sizeof *e->models[at]);
	e->models[at]->gpu_name = alloc_string(gpu_name);
	return e->models[at];
}

/* Learning ------------------------------------------------------------------------------------------------------------ */

/* A run that was over before its second sample took what the clock says. So did one that its own clock ended, whatever it did
 * in that time: company does not lengthen it. */
static double work_of(const struct task *t, const struct attempt *a)
{
	double ran_s = (double)(a->end_ms - a->start_ms) / 1000, limit_s = t->estimate.prior.limit_s;
	bool clocked = limit_s > 0 && ran_s >= limit_s, known = isfinite(a->seen.work_s) || ran_s <= 0;
	return known && !clocked ? a->seen.work_s : ran_s;
}

/* Loads count only from time without neighbours: what a GPU shows beside others is nobody's in particular. */
static bool alone_long_enough(const struct measured *seen)
{
	return isfinite(seen->alone_s) && seen->alone_s >= HISTORY_ALONE_S;
}

/* A guess is of one process on one GPU; and of the first seconds of a run, most is not training yet. One that failed or was
 * ended may have hung all the while: its steps ran if it told them. */
static double host_pace_of(const struct task *t, const struct attempt *a)
{
	bool stepped = a->verdict == VERDICT_OK || a->verdict == VERDICT_SLOT || isfinite(pace_alone(&a->seen.pace));
	bool telling = stepped && a->n_gpus == 1 && a->seen.warm && alone_long_enough(&a->seen);
	return telling ? hostpace_told(&t->estimate.prior, a->seen.alone_gract) : 0;
}

/* With what it waited for: it says what it wants, whoever was beside it. */
static double cores_of(const struct cpu_sums *cpu)
{
	return cpu->ran_ms > 0 && cpu->wait_ms >= 0 ? (double)(cpu->cpu_ms + cpu->wait_ms) / (double)cpu->ran_ms : 0;
}

struct outcome history_outcome(const struct task *t, const char *gpu_name, int64_t told_ms)
{
	const struct attempt *a = task_attempt(t);
	const char *signature = task_signature(t);
	struct outcome o = {
		.told_ms = told_ms, .signature = signature ? signature : "", .gpu_name = gpu_name,
		.estimator = t->estimate.estimator, .comfort_mib = t->estimate.comfort_mib, .verdict = a->verdict,
		.fenced = a->fence_mib > 0, .claim_mib = attempt_limit_mib(a), .host_pace = host_pace_of(t, a),
		.cores = cores_of(&a->seen.cpu), .seen = a->seen };
	/* One that went on after slots did the last part of the task: all of them together are it. A slot alone is no time of it. */
	o.seen.work_s = work_of(t, a) + (t->n_slots && a->verdict != VERDICT_SLOT ? t->slot_work_s : 0);
	if (a->verdict == VERDICT_SLOT)
		o.seen.work_s = NAN;
	return o;
}

static bool tells_time(const struct outcome *o)
{
	return o->verdict == VERDICT_OK && isfinite(o->seen.work_s);
}

bool history_tells(const struct outcome *o)
{
	return o->seen.peak_mib || o->retry_mib || o->seen.inferred.source == LOAD_INFERRED || tells_time(o) || o->host_pace > 0 ||
	       o->cores > 0;
}

/* A cold run's peak is what it had reached when it ended, no more than a lower bound, though one that completed has not much
 * above it; so is that of a run under a fence, which may have been held down by it. That it completed makes its limit itself
 * evidence: the smallest that was enough counts. */
static void learn_memory(struct on_model *m, const struct outcome *o)
{
	bool ok = o->verdict == VERDICT_OK || o->verdict == VERDICT_SLOT;	/* neither was stopped by what it had */
	if (ok && o->fenced && (!m->limit_mib || o->claim_mib < m->limit_mib))
		m->limit_mib = o->claim_mib;
	if (ok && o->seen.warm && o->fenced && o->seen.peak_mib <= o->claim_mib - o->claim_mib / CLEAR_PART)
		m->clear_mib = largest_of(m->clear_mib, o->seen.peak_mib);
	if (ok && o->seen.warm && !o->fenced) {
		m->peak_mib = largest_of(m->peak_mib, o->seen.peak_mib);
		m->runs++;
		return;
	}
	m->bound_mib = largest_of(m->bound_mib, o->seen.peak_mib);
	if (o->seen.warm || ok) {
		m->cut_mib = largest_of(m->cut_mib, o->seen.peak_mib);
		m->cut++;
	}
}

static void add_load(struct load_sum *l, double load, double alone_s)
{
	if (!isfinite(load))
		return;
	l->load_s += load * alone_s;
	l->seen_s += alone_s;
}

static void add_evidence(struct evidence_sum *s, double load, double sd)
{
	if (!isfinite(load) || !isfinite(sd))
		return;
	double weight = 1 / fmax(sd * sd, LOAD_LEAST_SD * LOAD_LEAST_SD);
	s->weight += weight;
	s->weighted += weight * load;
}

static void learn_loads(struct on_model *m, const struct measured *seen)
{
	const struct load_belief *in = &seen->inferred;
	if (alone_long_enough(seen)) {
		add_load(&m->gract, seen->alone_gract, seen->alone_s);
		add_load(&m->smact, seen->alone_smact, seen->alone_s);
		add_load(&m->dram, seen->alone_dram, seen->alone_s);
		add_load(&m->watts, seen->alone_watts, seen->alone_s);
	}
	if (in->source != LOAD_INFERRED)
		return;
	add_evidence(&m->in_gract, in->load.gract, in->gract_sd);
	add_evidence(&m->in_smact, in->load.smact, in->smact_sd);
	add_evidence(&m->in_dram, in->dram, in->dram_sd);
}

/* A limit that was too small is refuted itself; without one, what the task was seen to have. */
static void learn_oom(struct history_entry *e, const struct outcome *o)
{
	e->refuted_mib = largest_of(e->refuted_mib, o->fenced ? o->claim_mib : o->seen.peak_mib);
	e->retry_mib = largest_of(e->retry_mib, o->retry_mib);
}

/* A declaration is no estimate, and the peak of a run that was cut short may not be the whole. One that completed under its
 * limit may have been held down by it, but only from above the margin; had it needed more, it would have failed, which counts,
 * as out-of-memory does wherever a task went beyond its claim: nobody knows by how much. */
static void learn_residual(struct margins *margins, const struct outcome *o)
{
	if (!o->comfort_mib || !strcmp(o->estimator, "declared"))
		return;
	if (o->verdict == VERDICT_OOM && (o->fenced || o->seen.peak_mib > o->claim_mib))
		margins_note(margins, o->estimator, o->signature, INFINITY);
	else if ((o->verdict == VERDICT_OK || o->verdict == VERDICT_SLOT) && o->seen.warm && o->seen.peak_mib)
		margins_note(margins, o->estimator, o->signature, (double)o->seen.peak_mib / (double)o->comfort_mib - 1);
}

/* The oldest of the user who has most, so that nobody's many push out others' few (as margin.h). */
static void drop_usual(struct history *h)
{
	struct { int64_t user; size_t n, oldest; } users[HISTORY_USUAL];
	size_t n = 0, most = 0;
	for (size_t i = 0; i < h->n_usual; i++) {
		size_t u = 0;
		while (u < n && users[u].user != h->usual[i].user)
			u++;
		if (u == n)
			users[n].user = h->usual[i].user, users[n].n = 0, users[n++].oldest = i;
		users[u].n++;
		most = users[u].n > users[most].n ? u : most;
	}
	size_t at = users[most].oldest;
	memmove(&h->usual[at], &h->usual[at + 1], (--h->n_usual - at) * sizeof *h->usual);
}

/* One of which nothing is known is of a kind that was not there before: so each kind counts once, however often it ran. Of one
 * that was not seen whole nothing is learnt here, but that it ran out of memory: then it takes what the next run is to have. */
static void learn_usual(struct history *h, const struct outcome *o)
{
	bool whole = o->seen.warm || o->verdict == VERDICT_OK, oom = o->verdict == VERDICT_OOM;
	uint64_t mib = oom ? largest_of(o->seen.peak_mib, o->retry_mib) : o->seen.peak_mib;
	int64_t key = hash_key(o->signature);
	if (!mib || (!whole && !oom))
		return;
	for (size_t i = 0; i < h->n_usual; i++)
		if (h->usual[i].key == key) {
			h->usual[i].peak_mib = largest_of(h->usual[i].peak_mib, mib);
			return;
		}
	if (h->n_usual == HISTORY_USUAL)
		drop_usual(h);
	h->usual[h->n_usual++] = (struct usual){ key, whose(o->signature), mib };
}

/* What teaches nothing makes no entry: a user whose tasks all fail at once must not push out what is known. */
void history_note(struct history *h, const struct outcome *o)
{
	learn_residual(h->margins, o);
	hostpace_note(h->paces, o->signature, o->host_pace);
	if (!*o->signature || !history_tells(o))
		return;
	struct history_entry *e = entry_of(h, o->signature);
	struct on_model *m = model_of(e, o->gpu_name);
	e->told_ms = m->told_ms = o->told_ms;
	learn_usual(h, o);
	if (o->verdict == VERDICT_OOM)
		learn_oom(e, o);
	if (o->seen.peak_mib)
		learn_memory(m, o);
	if (isfinite(pace_alone(&o->seen.pace))) {
		m->pace_units += o->seen.pace.alone_units;
		m->pace_s += o->seen.pace.alone_s;
	}
	if (tells_time(o)) {
		m->worked += m->worked < HISTORY_WORKED;
		m->work_s += (o->seen.work_s - m->work_s) / m->worked;
	}
	if (o->cores > 0) {
		m->counted += m->counted < HISTORY_WORKED;
		m->cores += (o->cores - m->cores) / m->counted;
	}
	learn_loads(m, &o->seen);
}

/* Telling ------------------------------------------------------------------------------------------------------------- */

static uint64_t most_of(const struct on_model *m)
{
	return largest_of(largest_of(m->peak_mib, m->cut_mib), m->limit_mib);
}

/* The model asked about, if anything is known of memory there; else the one that took most, which errs on the safe side. */
static const struct on_model *history_choose(const struct history_entry *e, const char *gpu_name)
{
	const struct on_model *most = NULL;
	for (unsigned i = 0; i < e->n_models; i++) {
		const struct on_model *m = e->models[i];
		if (gpu_name && !strcmp(m->gpu_name, gpu_name) && most_of(m))
			return m;
		if (!most || most_of(m) > most_of(most))
			most = m;
	}
	return most;
}

/* Once a whole run was seen, what the next run was to have for lack of knowledge is only heeded up to what that one took; so,
 * with a margin, once one stayed far below its limit, which then held it down nowhere. Declared claims are always enforced: of
 * those no other run is ever seen. */
static uint64_t floor_of(const struct history_entry *e, const struct on_model *m)
{
	uint64_t more = largest_of((uint64_t)((double)m->clear_mib * MARGIN_HISTORY), MARGIN_HISTORY_LEAST_MIB);
	uint64_t taken = m->peak_mib ? m->peak_mib : m->clear_mib ? m->clear_mib + more : 0;
	return largest_of(e->refuted_mib, taken && taken < e->retry_mib ? taken : e->retry_mib);
}

static double history_mean(const struct load_sum *l)
{
	return l->seen_s > 0 ? l->load_s / l->seen_s : NAN;
}

/* What was measured alone beats what was inferred, whatever the spreads say. */
static void tell_load(const struct load_sum *alone, const struct evidence_sum *in, double *load, double *sd)
{
	*load = history_mean(alone);
	*sd = LOAD_LEAST_SD;
	if (isfinite(*load) || !(in->weight > 0))
		return;
	*load = in->weighted / in->weight;
	*sd = fmax(1 / sqrt(in->weight), LOAD_LEAST_SD);
}

static struct load_belief history_load(const struct on_model *m)
{
	struct load_belief b = { .watts = history_mean(&m->watts) };
	tell_load(&m->gract, &m->in_gract, &b.load.gract, &b.gract_sd);
	tell_load(&m->smact, &m->in_smact, &b.load.smact, &b.smact_sd);
	tell_load(&m->dram, &m->in_dram, &b.dram, &b.dram_sd);
	b.source = m->smact.seen_s > 0 || m->gract.seen_s > 0 ? LOAD_MEASURED : LOAD_INFERRED;
	return load_clean(&b);
}

struct estimate_history history_lookup(const struct history *h, const char *signature, const char *gpu_name)
{
	const struct history_entry *e = signature && *signature ? history_find(h, signature, NULL) : NULL;
	const struct on_model *m = e ? history_choose(e, gpu_name) : NULL;
	if (!m)
		return (struct estimate_history){ .load = load_unknown(), .work_s = NAN };
	return (struct estimate_history){
		.peak_mib = m->peak_mib, .runs = m->runs, .bound_mib = m->bound_mib, .cut_mib = m->cut_mib, .cut = m->cut,
		.limit_mib = m->limit_mib, .gpu_name = m->gpu_name, .other_gpu = !gpu_name || strcmp(m->gpu_name, gpu_name),
		.oom_floor_mib = floor_of(e, m), .load = history_load(m),
		.work_s = m->worked ? m->work_s : NAN, .alone_per_s = m->pace_s > 0 ? m->pace_units / m->pace_s : 0,
		.cores = m->cores };
}

/* The smallest that fewer than one in twenty took more than. */
static uint64_t most_usual_mib(const struct history *h)
{
	uint64_t usual_mib = 0;
	for (size_t i = 0; i < h->n_usual; i++) {
		size_t above = 0;
		for (size_t k = 0; k < h->n_usual; k++)
			above += h->usual[k].peak_mib > h->usual[i].peak_mib;
		if (20 * above < h->n_usual && (!usual_mib || h->usual[i].peak_mib < usual_mib))
			usual_mib = h->usual[i].peak_mib;
	}
	return usual_mib;
}

static uint64_t with_margin(uint64_t mib)
{
	return mib + largest_of((uint64_t)((double)mib * MARGIN_HISTORY), MARGIN_HISTORY_LEAST_MIB);
}

struct history_usual history_usual(const struct history *h)
{
	uint64_t sum_mib = 0;
	if (h->n_usual < HISTORY_USUAL_LEAST)
		return (struct history_usual){ MARGIN_USUAL_MIB, MARGIN_USUAL_MEAN_MIB };
	for (size_t i = 0; i < h->n_usual; i++)
		sum_mib += h->usual[i].peak_mib;
	uint64_t most_mib = most_usual_mib(h), mean_mib = sum_mib / h->n_usual;	/* of a few giants, above what most take */
	return (struct history_usual){ with_margin(most_mib), with_margin(mean_mib < most_mib ? mean_mib : most_mib) };
}

int64_t history_told_ms(const struct history *h, const char *signature)
{
	const struct history_entry *e = signature && *signature ? history_find(h, signature, NULL) : NULL;
	return e ? e->told_ms : 0;
}

size_t history_count(const struct history *h)
{
	return h->entries.n;
}

struct margins *history_margins(const struct history *h)
{
	return h->margins;
}

struct hostpace history_host_pace(const struct history *h)
{
	return hostpace_of(h->paces);
}
