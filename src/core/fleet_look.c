/* SPDX-License-Identifier: MIT
 * The fleet as people, plans and the launcher see it. Changes nothing, not even what is brought up to date on the way: `rad
 * why` and `rad gpus` are asked at any moment, and an answer that moved a version would make the next pass look again, or hide
 * from it what moved. So figures here may be as old as the last turn.
 */
#include "core/fleet_private.h"

#include "base/alloc.h"
#include "base/scope.h"

#include <assert.h>
#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define LOOK_MS 1000	/* between two looks of a daemon */

const char *fleet_model(const struct fleet *f)
{
	return f->models_differ ? "" : f->model;
}

const char *fleet_first_model(const struct fleet *f)
{
	return f->model;
}

const char *fleet_model_of(const struct fleet *f, uint32_t slot)
{
	assert(slot < f->n_slots);
	return f->slots[slot]->r.name;
}

uint64_t fleet_largest_mib(const struct fleet *f)
{
	return f->largest_mib;
}

size_t fleet_present(const struct fleet *f)
{
	return f->n_present;
}

size_t fleet_of_machine(const struct fleet *f)
{
	return f->n_present + f->n_unused;
}

/* Entries of attempts whose processes have ended; the driver gives their memory back within seconds. */
static uint64_t leaving_mib(const struct ledger *l)
{
	uint64_t mib = 0;
	for (size_t i = 0; i < l->n; i++)
		mib += l->entries[i].exit_ms ? ledger_held_of(&l->entries[i]) : 0;
	return mib;
}

/* Figures, not copies: `procs`, `others` and texts are the slot's own, for the caller to read before anything else
 * happens. */
struct fleet_gpu fleet_look(const struct fleet *f, uint32_t slot, int64_t mono_ms)
{
	assert(slot < f->n_slots);
	const struct slot *s = f->slots[slot];
	return (struct fleet_gpu){
		.reading = &s->r, .present = s->in_snapshot, .stale = fleet_is_stale(f, s, mono_ms), .drained = s->drained,
		.expected = window_expects(s->window), .load = window_load(s->window), .held_mib = ledger_held(&s->ledger),
		.others = s->others, .n_others = s->n_others,
		.foreign_mib = ledger_foreign(&s->ledger), .available_mib = ledger_available(&s->ledger),
		.leaving_mib = leaving_mib(&s->ledger), .n_tasks = (unsigned)s->n_runs,
		.mode = s->n_runs ? task_attempt(s->runs[0]->t)->mode : SHARE_NEVER, .procs = s->procs, .n_procs = s->n_procs,
		.mps_users = !f->mps || !s->r.mps_capable || s->r.mig ? NULL : fleet_mps_together(f, s) ? "together" : "apart",
	};
}

task_id fleet_task_on(const struct fleet *f, uint32_t slot, unsigned n)
{
	assert(slot < f->n_slots && n < f->slots[slot]->n_runs);
	return f->slots[slot]->runs[n]->t->id;
}

/* Slots have the order in which devices were first seen, which is nobody's. By number as people count, a GPU before its
 * instances. */
static int compare_slots(const void *a, const void *b, void *ctx)
{
	const struct fleet *f = ctx;
	const struct gpu_reading *x = &f->slots[*(const uint32_t *)a]->r, *y = &f->slots[*(const uint32_t *)b]->r;
	if (x->index != y->index)
		return x->index < y->index ? -1 : 1;
	if (x->mig != y->mig)
		return x->mig ? 1 : -1;
	return x->instance != y->instance ? x->instance < y->instance ? -1 : 1 : strcmp(x->uuid, y->uuid);
}

uint32_t *fleet_in_order(const struct fleet *f)
{
	uint32_t *order = alloc_zero((f->n_slots + 1) * sizeof *order);
	for (uint32_t i = 0; i < f->n_slots; i++)
		order[i] = i;
	qsort_r(order, f->n_slots, sizeof *order, compare_slots, (void *)f);
	return order;
}

/* Whether earlier runs measured all that run there, and none has a time slot, whose end is weighed with its part of the GPU's
 * load. */
static bool all_measured(const struct fleet *f, const struct slot *s)
{
	for (size_t i = 0; i < s->n_runs; i++) {
		const struct load_belief *b = &s->runs[i]->known;
		if (b->source != LOAD_MEASURED || !isfinite(b->load.gract) || !isfinite(b->load.smact) || f->config->slot_ms > 0 ||
		    s->runs[i]->t->spec->slot_s > 0)
			return false;
	}
	return true;
}

/* Whether nothing that is known of the tasks there hangs on the mean of the load any more. An attempt of several GPUs is
 * metered over all of them whenever one is looked at, so those count too. */
static bool loads_stand(const struct fleet *f, const struct slot *s)
{
	bool stand = all_measured(f, s);
	for (size_t i = 0; stand && i < s->n_runs; i++)
		for (unsigned k = 0; stand && k < s->runs[i]->n_slots; k++)
			stand = all_measured(f, f->slots[s->runs[i]->slots[k]]);
	return stand;
}

/* Whole seconds, as a daemon looks. Where only the limits ask for the mean, that is where it passes one: the mean is foretold
 * second by second, which takes a small part of what as many looks would. Until a change has settled the mean is not asked for,
 * and the look at which it has is one that is taken anyway. */
int64_t fleet_load_due_ms(const struct fleet *f, const char *uuid)
{
	int64_t number = fleet_slot_of(f, uuid);
	const struct slot *s = number >= 0 ? f->slots[number] : NULL;
	if (!s || !s->in_snapshot || s->r.fallen)
		return INT64_MAX;
	int64_t next = (s->read_ms / LOOK_MS + 1) * LOOK_MS;
	if (map_minds_load(&f->config->map) || !loads_stand(f, s))
		return next;
	const struct load now = window_load(s->window);
	for (int64_t end = s->read_ms + f->config->window.span_ms + LOOK_MS; next < end; next += LOOK_MS) {
		struct load then = window_load_at(s->window, next, &s->r);
		if (!map_loads_alike(&f->config->map, &now, &then))
			return next;
	}
	return INT64_MAX;
}

/* The earliest of what time alone brings about on that slot. For the simulator, which looks at a GPU only when there is
 * something to see; a daemon samples and never asks. */
int64_t fleet_ripens_ms(const struct fleet *f, const char *uuid)
{
	int64_t number = fleet_slot_of(f, uuid), next = INT64_MAX;
	const struct slot *s = number >= 0 ? f->slots[number] : NULL;
	if (!s)
		return next;
	next = fleet_infer_due_ms(f, s);
	for (size_t i = 0; i < s->n_runs; i++) {
		int64_t due = fleet_warm_due_ms(f, s->runs[i]);
		next = due < next ? due : next;
	}
	return next;
}

unsigned fleet_slots_of(const struct fleet *f, task_id id, const uint32_t **slots)
{
	const struct run *r = fleet_run(f, id);
	*slots = r ? r->slots : NULL;
	return r ? r->n_slots : 0;
}

static void add_company(struct map_company *c, const struct run *r)
{
	for (unsigned i = 0; i < r->n_slots; i++) {
		unsigned k = 0;
		while (k < c->n && c->slots[k] != r->slots[i])
			k++;
		if (k == c->n && c->n < MAP_FEW)
			c->slots[c->n++] = r->slots[i];
	}
}

static const struct run *next_of_feed(const struct fleet *f, uid_t uid, const char *feed, size_t *at)
{
	for (const struct run *r; (r = idmap_next(&f->runs, at));)
		if (r->t->spec->feed && r->t->spec->uid == uid && !strcmp(r->t->spec->feed, feed))
			return r;
	return NULL;
}

struct map_company fleet_company(const struct fleet *f, uid_t uid, const char *feed)
{
	struct map_company c = { .n = 0 };
	size_t at = 0;
	for (const struct run *r; feed && (r = next_of_feed(f, uid, feed, &at));)
		add_company(&c, r);
	return c;
}

task_id fleet_next_of_feed(const struct fleet *f, uid_t uid, const char *feed, size_t *at)
{
	const struct run *r = next_of_feed(f, uid, feed, at);
	return r ? r->t->id : 0;
}

struct fleet_clock *fleet_clock_of(const struct fleet *f, task_id id)
{
	struct run *r = fleet_run(f, id);
	return r ? &r->clock : NULL;
}

struct fleet_clock *fleet_next_clock(const struct fleet *f, size_t *at)
{
	struct run *r = idmap_next(&f->runs, at);
	return r ? &r->clock : NULL;
}

size_t fleet_count_runs(const struct fleet *f)
{
	return f->runs.n;
}

bool fleet_is_used(const struct fleet *f)
{
	return f->runs.n > f->n_cpu_tasks;
}

bool fleet_measured(const struct fleet *f, task_id id, struct measured *out)
{
	const struct run *r = fleet_run(f, id);
	if (r)
		*out = fleet_measure(f, r);
	return r;
}

struct load_belief fleet_load(const struct fleet *f, task_id id)
{
	const struct run *r = fleet_run(f, id);
	return r ? fleet_belief(f, r) : load_unknown();
}

/* Tenants are as of the last time the slot was filled: where they do not match the runs any more, the load is left unknown
 * rather than another one's. */
bool fleet_next_run(const struct fleet *f, size_t *at, struct fleet_run *out)
{
	const struct run *r = idmap_next(&f->runs, at);
	if (!r)
		return false;
	*out = (struct fleet_run){ .task = r->t, .slots = r->slots, .n_slots = r->n_slots, .load = { NAN, NAN },
				   .work_s = fleet_metered(r).work_s, .left_s = fleet_left_alone_s(f, r) };
	for (unsigned i = 0; i < r->n_slots; i++) {
		const struct slot *s = f->slots[r->slots[i]];
		const struct ledger_entry *e = ledger_find(&s->ledger, r->t->id);
		uint64_t held = e ? ledger_held_of(e) : 0;
		out->held_mib = held > out->held_mib ? held : out->held_mib;
		for (size_t x = 0; x < s->n_runs && s->n_tenants == s->n_runs; x++)
			if (s->runs[x] == r)
				out->load = s->tenants[x].load;
	}
	return true;
}

/* For requests and the launcher ---------------------------------------------------------------------------------------- */

static bool is_number(const char *word)
{
	return *word && strspn(word, "0123456789:") == strlen(word);
}

/* "01" is 1, as people and scripts pad numbers. */
static bool has_number(const struct slot *s, const char *word)
{
	char number[GPU_NUMBER_LEN];
	while (word[0] == '0' && isdigit((unsigned char)word[1]))
		word++;
	return s->in_snapshot && !strcmp(reading_number(s->r.index, s->r.mig, s->r.instance, number), word);
}

/* Numbers change when a GPU falls off the bus or is divided anew, so only those of the last snapshot count, while a UUID may be
 * of a GPU that is away. */
const char *fleet_find(const struct fleet *f, const char *word, struct error *err)
{
	const struct slot *found = NULL;
	for (size_t i = 0; i < f->n_slots; i++) {
		const struct slot *s = f->slots[i];
		bool match = is_number(word) ? has_number(s, word) : *word && !strncmp(s->r.uuid, word, strlen(word));
		if (match && found) {
			error_set(err, ERR_INVALID, "GPU '%.60s': several UUIDs begin so; write more of it", word);
			return NULL;
		}
		if (match)
			found = s;
	}
	if (!found)
		error_set(err, ERR_NOT_FOUND, "GPU '%.60s': there is none; 'rad gpus -v' lists them by number and UUID", word);
	return found ? found->r.uuid : NULL;
}

static int by_index(const void *a, const void *b)
{
	const struct slot *const *x = a, *const *y = b;
	return ((*x)->r.index > (*y)->r.index) - ((*x)->r.index < (*y)->r.index);
}

void fleet_list_mps(const struct fleet *f, struct buf *out)
{
	scoped_free struct slot **list = alloc_zero((f->n_slots + 1) * sizeof *list);
	size_t n = 0;
	for (size_t i = 0; i < f->n_slots; i++) {
		struct slot *s = f->slots[i];
		if (s->in_snapshot && s->r.mps_capable && !s->r.mig && !s->r.fallen)
			list[n++] = s;
	}
	qsort(list, n, sizeof *list, by_index);
	for (size_t i = 0; i < n; i++)
		buf_printf(out, "%s%s", i ? "," : "", list[i]->r.uuid);
}

/* Which server's client it is, as placement names them: nobody's, the one for all, or its user's. */
int64_t fleet_mps_of(const struct run *r)
{
	const struct attempt *a = task_attempt(r->t);
	return a->mode != SHARE_MPS ? MAP_MPS_NONE : a->together ? MAP_MPS_ALL : (int64_t)r->t->spec->uid;
}

bool fleet_mps_together(const struct fleet *f, const struct slot *s)
{
	return f->config->mps_together && f->mps == CORE_MPS_TOGETHER && s->r.mps_capable && !s->r.mig;
}

bool fleet_mps_apart(const struct fleet *f)
{
	return f->mps == CORE_MPS_APART || (f->mps == CORE_MPS_TOGETHER && !f->config->mps_together);
}

unsigned fleet_mps_clients(const struct fleet *f, const char *gpu_uuid, int64_t uid)
{
	int64_t slot = fleet_slot_of(f, gpu_uuid);
	const struct slot *s = slot >= 0 ? f->slots[slot] : NULL;
	unsigned n = 0;
	for (size_t i = 0; s && i < s->n_runs; i++)
		n += fleet_mps_of(s->runs[i]) == uid;
	return n;
}
