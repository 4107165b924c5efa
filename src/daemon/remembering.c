/* SPDX-License-Identifier: MIT
 * See remembering.h. A row for each user, which says what he had used, when that was so, and when he last started anything.
 */
#include "daemon/remembering.h"

#include "base/alloc.h"
#include "base/idmap.h"
#include "base/scope.h"

#include <stdio.h>
#include <stdlib.h>

#define EVERY_MS 60000
#define KEY "used:"

struct remembering {
	struct store *store;
	struct core *core;
	int64_t noted_ms;	/* mono */
	struct idmap noted;	/* uid + 1 -> double: what he had used at the last note */
	struct now now;		/* while restoring */
};

struct remembering *remembering_create(struct store *store, struct core *core)
{
	struct remembering *r = alloc_zero(sizeof *r);
	r->store = store;
	r->core = core;
	return r;
}

void remembering_destroy(struct remembering *r)
{
	if (r)
		idmap_free_all(&r->noted);
	free(r);
}

/* A row that cannot be read is a user who begins at nothing, which is no reason not to start. */
static int restore_one(void *ctx, const char *key, const char *value)
{
	struct remembering *r = ctx;
	double used_s;
	long long wall_ms, started_ms;
	unsigned uid;
	int n = sscanf(key, KEY "%u", &uid) == 1 ? sscanf(value, "%lf %lld %lld", &used_s, &wall_ms, &started_ms) : 0;
	if (n >= 2)
		core_remember_used(r->core, (uid_t)uid, used_s, wall_ms, r->now);
	if (n == 3)	/* earlier releases did not note it */
		core_remember_start(r->core, (uid_t)uid, started_ms, r->now);
	return 0;
}

int remembering_restore(struct remembering *r, struct now now, struct error *err)
{
	r->now = now;
	r->noted_ms = now.mono_ms;
	return store_each_meta(r->store, KEY, restore_one, r, err) ? error_wrap(err, "GPU time of users") : 0;
}

/* With the moment at which it was so, since it goes on decaying while no radd runs. */
static void note_one(struct remembering *r, const struct core_user *u, struct now now)
{
	const struct fair_standing *s = &u->standing;
	scoped_free char *key = alloc_printf(KEY "%u", (unsigned)s->uid),
			 *started = s->started_ago_ms < 0 ? alloc_string("") :
				    alloc_printf(" %lld", (long long)(now.wall_ms - s->started_ago_ms)),
			 *value = alloc_printf("%.3f %lld%s", s->used_s, (long long)now.wall_ms, started);
	store_set_meta(r->store, key, value, NULL);
}

/* What was used only decays by itself, so a sum that is not above the last note says nothing that the note does not; a short
 * task may have added less than decayed. */
void remembering_note(struct remembering *r, struct now now, bool at_once)
{
	struct core_user *users;
	if (!at_once && now.mono_ms - r->noted_ms < EVERY_MS)
		return;
	int64_t since_ms = now.mono_ms - r->noted_ms;
	r->noted_ms = now.mono_ms;
	size_t n = core_users(r->core, &users);
	for (size_t i = 0; i < n; i++) {
		int64_t key = (int64_t)users[i].standing.uid + 1;
		double *noted_s = idmap_get(&r->noted, key);
		if (!noted_s)
			idmap_put(&r->noted, key, noted_s = alloc_zero(sizeof *noted_s));
		bool started = users[i].standing.started_ago_ms >= 0 && users[i].standing.started_ago_ms <= since_ms;
		if (started || users[i].standing.used_s > *noted_s)
			note_one(r, &users[i], now);
		*noted_s = users[i].standing.used_s;
	}
	free(users);
}
