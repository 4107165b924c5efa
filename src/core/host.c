/* SPDX-License-Identifier: MIT
 * See host.h. What an attempt holds is noted when it begins and given back as it was, so that the sums come out whatever became
 * of the task meanwhile. After a restart they are made of the attempts that run.
 *
 * One task at a time has room kept for it, the head or a CPU task that waits for it, who came first: what others would take
 * of what is free is weighed against its ask as well. Who was refused that is next, or one of its kind (with GPUs or
 * without): else one head after the other would go before CPU tasks, since GPU tasks are placed first. With several there would
 * be heads that keep from each other what neither can use. All that it asks for is kept, though tasks on GPUs that are kept
 * for it will give theirs back: it may start beside some of them. Those for whom others make place were found one after the
 * other, each beside those before it, so what is kept for them all fits.
 */
#include "core/host.h"

#include "base/alloc.h"
#include "base/idmap.h"
#include "base/units.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A feed of which tasks run. */
struct host_feed {
	struct host_feed *next;
	uid_t uid;
	unsigned n;		/* tasks */
	struct host_room room;	/* for its loader */
	char name[];
};

struct host_run { struct host_room room; struct host_feed *feed; };

struct host {
	const struct core_config *config;
	struct idmap running;	/* task_id -> struct host_run, of those that asked for something */
	struct host_feed *feeds;
	struct host_room held;
	task_id kept_for;
	struct host_room kept;
	enum host_kind kind, turn;	/* of whom it is kept for; who was refused because of the other kind is next */
	const struct vacated_list *vacated;
};

struct host *host_create(const struct core_config *config)
{
	struct host *h = alloc_zero(sizeof *h);
	h->config = config;
	return h;
}

void host_destroy(struct host *h)
{
	if (!h)
		return;
	idmap_free_all(&h->running);
	for (struct host_feed *f; (f = h->feeds);) {
		h->feeds = f->next;
		free(f);
	}
	free(h);
}

static struct host_room sum(struct host_room a, struct host_room b)
{
	return (struct host_room){ a.mem_mib + b.mem_mib, a.cpus + b.cpus };
}

/* The task's own, without its feed. */
static struct host_room own_ask(const struct task *t)
{
	return (struct host_room){ t->host_mem_mib, task_cpus(t) };
}

/* Where the feed is, or would be. */
static struct host_feed **feed_of(struct host_feed **at, const struct task *t)
{
	while (*at && ((*at)->uid != t->spec->uid || strcmp((*at)->name, t->spec->feed)))
		at = &(*at)->next;
	return at;
}

/* What the task's feed would take more than it has. */
static struct host_room feed_ask(const struct host *h, const struct task *t)
{
	struct host_room ask = { t->spec->feed_mem_mib, t->spec->feed_cpus }, has = { 0 };
	struct host_feed *feeds = h->feeds;
	const struct host_feed *f = t->spec->feed ? *feed_of(&feeds, t) : NULL;
	if (f)
		has = f->room;
	return (struct host_room){ ask.mem_mib > has.mem_mib ? ask.mem_mib - has.mem_mib : 0,
				   ask.cpus > has.cpus ? ask.cpus - has.cpus : 0 };
}

static struct host_room host_ask(const struct host *h, const struct task *t)
{
	return sum(own_ask(t), feed_ask(h, t));
}

static struct host_feed *feed_join(struct host *h, const struct task *t)
{
	struct host_room more = feed_ask(h, t);
	if (!t->spec->feed)
		return NULL;
	struct host_feed **at = feed_of(&h->feeds, t), *f = *at;
	if (!f) {
		size_t n = strlen(t->spec->feed) + 1;
		f = *at = alloc_zero(sizeof *f + n);
		f->uid = t->spec->uid;
		memcpy(f->name, t->spec->feed, n);
	}
	f->n++;
	f->room = sum(f->room, more);
	h->held = sum(h->held, more);
	return f;
}

static void give_back(struct host *h, struct host_room room)
{
	assert(h->held.mem_mib >= room.mem_mib && h->held.cpus >= room.cpus);
	h->held.mem_mib -= room.mem_mib;
	h->held.cpus -= room.cpus;
}

static void feed_leave(struct host *h, struct host_feed *f)
{
	if (!f || --f->n)
		return;
	struct host_feed **at = &h->feeds;
	while (*at != f)
		at = &(*at)->next;
	*at = f->next;
	give_back(h, f->room);
	free(f);
}

/* For an attempt that is begun twice (placed, then found again) the first booking is taken off. Who asks for nothing is not
 * in the map at all, so machines that do not use this pay nothing. */
void host_begin(struct host *h, const struct task *t)
{
	struct host_room ask = own_ask(t);
	struct host_run *r;
	host_give_up(h, t->id);
	host_end(h, t->id);
	if (!ask.mem_mib && !ask.cpus && !t->spec->feed)
		return;
	idmap_put(&h->running, t->id, r = alloc_zero(sizeof *r));
	*r = (struct host_run){ ask, feed_join(h, t) };
	h->held = sum(h->held, ask);
}

void host_end(struct host *h, task_id id)
{
	struct host_run *r = idmap_remove(&h->running, id);
	if (!r)
		return;
	give_back(h, r->room);
	feed_leave(h, r->feed);
	free(r);
}

/* What is kept for all but that task. A look finds anew what is kept for those for whom others make place. */
static struct host_room kept_from(const struct host *h, task_id id, const struct host_look *look)
{
	struct host_room kept = look ? look->taken : (struct host_room){ 0 };
	if (h->kept_for && h->kept_for != id)
		kept = sum(kept, h->kept);
	for (size_t i = 0; !look && i < h->vacated->n; i++) {
		const struct task *t = h->vacated->list[i].task;
		if (t->id != id && t->id != h->kept_for)
			kept = sum(kept, host_ask(h, t));
	}
	return kept;
}

void host_keep(struct host *h, const struct task *t)
{
	struct host_room others = kept_from(h, t->id, NULL);
	bool taken = others.mem_mib || others.cpus;
	enum host_kind kind = t->gpus ? HOST_GPU_TASKS : HOST_CPU_TASKS, keeper = h->vacated->n ? HOST_GPU_TASKS : h->kind;
	if (taken && keeper != kind)
		h->turn = kind;
	if (taken || (h->turn && h->turn != kind && h->kept_for != t->id))
		return;
	h->turn = h->turn == kind ? HOST_ANY : h->turn;
	h->kept_for = t->id;
	h->kind = kind;
	h->kept = host_ask(h, t);
}

void host_look_take(const struct host *h, struct host_look *look, const struct task *t)
{
	if (h->kept_for != t->id)
		look->taken = sum(look->taken, host_ask(h, t));
}

void host_keep_vacated(struct host *h, const struct vacated_list *for_whom)
{
	h->vacated = for_whom;
}

bool host_give_up(struct host *h, task_id id)
{
	bool kept = id && h->kept_for == id;
	if (kept)
		h->kept_for = 0;
	return kept;
}

void host_give_way(struct host *h, task_id first)
{
	if (h->kind == HOST_CPU_TASKS && h->kept_for != first)
		h->kept_for = 0;
}

void host_end_turn(struct host *h, enum host_kind kind)
{
	if (h->turn == kind && !h->kept_for && !h->vacated->n)
		h->turn = HOST_ANY;
}

struct host_room host_held(const struct host *h)
{
	return h->held;
}

struct host_room host_held_by(const struct host *h, task_id id)
{
	const struct host_run *r = idmap_get(&h->running, id);
	return r ? r->room : (struct host_room){ 0 };
}

/* Zero where more is held than there is: the capacity may have been lowered while tasks run (SIGHUP). */
static uint64_t left(uint64_t capacity, uint64_t more, uint64_t held)
{
	return capacity + more > held ? capacity + more - held : 0;
}

static void say_memory(char why[HOST_TEXT], uint64_t ask, uint64_t free_mib, uint64_t capacity, uint64_t kept)
{
	char a[32], b[32], c[32], d[32] = "";
	if (!why)
		return;
	if (kept)
		units_format_mib((double)kept, d, sizeof d);
	snprintf(why, HOST_TEXT, "asks for %s of host memory: %s of %s are free of what running tasks asked for%s%s%s",
		 units_format_mib((double)ask, a, sizeof a), units_format_mib((double)free_mib, b, sizeof b),
		 units_format_mib((double)capacity, c, sizeof c), kept ? ", " : "", d, kept ? " of it kept for a task before it" : "");
}

/* A task that asks for nothing of one of them is never refused for it: nothing is taken from what is kept, either. */
enum host_lack host_asks(const struct host *h, const struct task *t, const struct host_look *look, char why[HOST_TEXT])
{
	const struct core_config *c = h->config;
	struct host_room ask = host_ask(h, t), kept = kept_from(h, t->id, look), more = look ? look->gone : (struct host_room){ 0 };
	if (ask.mem_mib && core_host_known(c->host_mem_mib)) {
		uint64_t free_mib = left(c->host_mem_mib, more.mem_mib, h->held.mem_mib);
		if (ask.mem_mib + kept.mem_mib > free_mib) {
			say_memory(why, ask.mem_mib, free_mib, c->host_mem_mib, kept.mem_mib);
			return HOST_LACKS_MEMORY;
		}
	}
	if (!ask.cpus || !core_host_known(c->host_cpus))
		return HOST_FITS;
	uint64_t cpus = left(c->host_cpus, more.cpus, h->held.cpus);
	if (ask.cpus + kept.cpus <= cpus)
		return HOST_FITS;
	if (why)
		snprintf(why, HOST_TEXT, "asks for %u CPU%s%s: %llu of %llu are free of what running tasks asked for%s", ask.cpus,
			 ask.cpus == 1 ? "" : "s", t->spec->cpus ? "" : " (as a task without GPUs does by itself)",
			 (unsigned long long)cpus, (unsigned long long)c->host_cpus,
			 kept.cpus ? ", and some are kept for a task before it" : "");
	return HOST_LACKS_CPUS;
}

int host_feasible(const struct core_config *c, const struct spec *spec, uint64_t mem_mib, struct error *err)
{
	unsigned cpus = spec_cpus(spec) + spec->feed_cpus;
	mem_mib += spec->feed_mem_mib;
	char want[32], have[32];
	if (core_host_known(c->host_mem_mib) && mem_mib > c->host_mem_mib)
		return error_set(err, ERR_INVALID, "%s of host memory wanted, and tasks here get %s in all (host_mem in rad.conf): ask "
				 "for less", units_format_mib((double)mem_mib, want, sizeof want),
				 units_format_mib((double)c->host_mem_mib, have, sizeof have));
	if (core_host_known(c->host_cpus) && cpus > c->host_cpus)
		return error_set(err, ERR_INVALID, "%u CPUs wanted, and tasks here get %llu in all (host_cpus in rad.conf): ask for fewer",
				 cpus, (unsigned long long)c->host_cpus);
	return 0;
}
