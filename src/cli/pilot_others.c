/* SPDX-License-Identifier: MIT
 * See pilot_others.h.
 */
#include "cli/pilot_others.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/scope.h"
#include "cli/cli.h"
#include "cli/member.h"
#include "cli/pilot_notice.h"
#include "cli/pilot_outcome.h"
#include "cli/pilot_slurm.h"

#include <stdio.h>
#include <string.h>

#define LOOKS 8			/* in a lease */

struct other_pilot {
	char name[SPOOL_NAME];
	json_int_t beat;
	int64_t since_ms;	/* mono; since when its heart stands */
	int64_t asked_ms;	/* mono; when it was asked about last */
	bool silent, there;
	bool due;		/* to be asked about */
	bool emptied;		/* it is dead, and all of its tasks that were known went back */
};

struct pilot_others {
	const struct pilot *p;
	struct pilot_known *k;
	struct other_pilot *list;
	size_t n, cap;
	int64_t looked_ms;
};

struct pilot_others *pilot_others_create(const struct pilot *p, struct pilot_known *k)
{
	struct pilot_others *o = alloc_zero(sizeof *o);
	o->p = p;
	o->k = k;
	return o;
}

void pilot_others_destroy(struct pilot_others *o)
{
	if (!o)
		return;
	free(o->list);
	free(o);
}

static struct other_pilot *find(struct pilot_others *o, const char *name)
{
	for (size_t i = 0; i < o->n; i++)
		if (!strcmp(o->list[i].name, name))
			return &o->list[i];
	alloc_grow(o->list, o->n, o->cap);
	struct other_pilot *one = &o->list[o->n++];
	*one = (struct other_pilot){ .beat = -1 };
	snprintf(one->name, sizeof one->name, "%s", name);
	return one;
}

/* ---- giving back ---- */

struct giving { struct pilot_others *o; const char *name, *why; size_t left, given; };

static void give_back(void *ctx, struct pilot_known_task *t)
{
	struct giving *g = ctx;
	const struct pilot *p = g->o->p;
	struct error err = ERROR_INIT;
	if (t->record.state != SPOOL_CLAIMED || strcmp(t->record.pilot, g->name))
		return;
	if (!pilot_known_read(g->o->k, p->s, t->id, &err) || t->record.state != SPOOL_CLAIMED || strcmp(t->record.pilot, g->name))
		return;
	struct spool_record next = pilot_outcome_cut_off(&t->record, t->job->spec, p->who.name, g->why);
	int rc = spool_change(p->s, t->id, &next, &err);
	g->left += rc != 0;
	g->given += !rc;
	if (rc)
		return;
	pilot_notices_note(p->notices, t->job->spec, t->id, &next);
	pilot_known_set(g->o->k, t->id, &next);
}

static void read_who(const json_t *said, const char *name, struct pilot_who *who)
{
	*who = (struct pilot_who){ .restarts = member_int(said, "restarts") };
	snprintf(who->name, sizeof who->name, "%s", name);
	snprintf(who->host, sizeof who->host, "%.64s", member_text(said, "host"));
	snprintf(who->boot, sizeof who->boot, "%.39s", member_text(said, "boot"));
	snprintf(who->job, sizeof who->job, "%.31s", member_text(said, "job"));
	snprintf(who->cluster, sizeof who->cluster, "%.64s", member_text(said, "cluster"));
	if (strspn(who->job, "0123456789") != strlen(who->job))
		*who->job = 0;
}

/* Without Slurm: this machine, by a name that is one machine's, has booted since. */
static bool has_booted(const struct pilot *p, const struct pilot_who *who)
{
	return !*who->job && *who->boot && *p->who.boot && *who->host && strncmp(who->host, "localhost", 9) &&
	       !strcmp(who->host, p->who.host) && strcmp(who->boot, p->who.boot);
}

static bool is_dead(const struct pilot_others *o, const struct pilot_who *who, char why[SPOOL_TEXT])
{
	char word[40];
	if (has_booted(o->p, who)) {
		snprintf(why, SPOOL_TEXT, "%s has booted again", who->host);
		return true;
	}
	if (pilot_slurm_fate(who, o->p->who.cluster, word) != PILOT_SLURM_GONE)
		return false;
	snprintf(why, SPOOL_TEXT, "%s is gone: Slurm's job %s is %s", who->host, who->job, word);
	return true;
}

static void ask_about(struct pilot_others *o, struct other_pilot *one)
{
	scoped_json *said = spool_pilot(o->p->s, one->name);
	char why[SPOOL_TEXT];
	struct pilot_who who;
	if (!said)	/* it has just left */
		return;
	read_who(json_object_get(said, "who"), one->name, &who);
	if (!is_dead(o, &who, why)) {
		if (!one->silent)
			cli_note("pilot %s is silent for %lld s, and whether it is dead is not known: its tasks stay its own", one->name,
				 (long long)((clock_mono_ms() - one->since_ms) / 1000));
		one->silent = true;
		return;
	}
	struct giving g = { .o = o, .name = one->name, .why = why };
	pilot_known_each(o->k, give_back, &g);
	if (g.given)
		cli_note("pilot %s: %zu of its tasks went back into the queue: %s", one->name, g.given, why);
	/* What it claimed last may not be seen here yet, and nobody asks about one that has left: so all is read once more before;
	 * nor of what it has that this release cannot read. */
	if (one->emptied && !g.left && !g.given && !pilot_known_unread(o->k))
		spool_leave(o->p->s, one->name);
	one->emptied = !g.left;
	pilot_known_doubt(o->k);
}

static void look_at(struct pilot_others *o, const char *name, int64_t now)
{
	scoped_json *said = spool_pilot(o->p->s, name);
	struct other_pilot *one = find(o, name);
	json_int_t beat = member_int(json_object_get(said, "status"), "beat");
	one->there = said;
	one->due = false;
	if (!said)
		return;
	if (beat != one->beat || !one->since_ms) {
		one->beat = beat;
		one->since_ms = now;
		one->asked_ms = 0;
		one->silent = one->emptied = false;
		return;
	}
	int64_t lease = o->p->options.lease_ms;
	one->due = now - one->since_ms >= lease && (!one->asked_ms || now - one->asked_ms >= lease);
}

/* One at a time, who waited longest: Slurm may be slow, and our own heart is to beat meanwhile. */
static void ask_about_one(struct pilot_others *o, int64_t now)
{
	struct other_pilot *first = NULL;
	for (size_t i = 0; i < o->n; i++)
		if (o->list[i].due && (!first || o->list[i].asked_ms < first->asked_ms))
			first = &o->list[i];
	if (!first)
		return;
	first->asked_ms = now;
	ask_about(o, first);
}

void pilot_others_look(struct pilot_others *o)
{
	int64_t now = clock_mono_ms();
	size_t i, kept = 0;
	json_t *name;
	if (o->looked_ms && now - o->looked_ms < o->p->options.lease_ms / LOOKS)
		return;
	o->looked_ms = now;
	scoped_json *names = spool_pilots(o->p->s);
	for (i = 0; i < o->n; i++)
		o->list[i].there = false;
	json_array_foreach(names, i, name)
		if (strcmp(json_string_value(name), o->p->who.name))
			look_at(o, json_string_value(name), now);
	for (i = 0; i < o->n; i++)
		if (o->list[i].there)
			o->list[kept++] = o->list[i];
	o->n = kept;
	ask_about_one(o, now);
}

json_t *pilot_others_silent(const struct pilot_others *o)
{
	json_t *names = json_array();
	for (size_t i = 0; i < o->n; i++)
		if (o->list[i].silent)
			json_array_append_new(names, json_text(o->list[i].name));
	return names;
}
