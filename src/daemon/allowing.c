/* SPDX-License-Identifier: MIT
 * See allowing.h. What comes out for a user is kept for a minute, since a pass asks for it with every task that it tries.
 */
#include "daemon/allowing.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/idmap.h"
#include "base/scope.h"
#include "base/units.h"
#include "settings/who.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KEPT_MS 60000
#define FEW 128		/* rows that are not looked through */
#define KEY "limit:"

/* What somebody said of a user. */
struct allowing_words { struct allowance allows; bool says[ALLOWANCE_COUNT]; };

struct allowing_user {
	uid_t uid;
	struct allowing_words own, admin;
	struct allowance may;		/* what comes of it */
	char *source[ALLOWANCE_COUNT];	/* owned */
	bool known;
	int64_t until_ms;		/* mono; `may` counts until then */
};

struct allowing {
	struct store *store;
	struct names *names, *groups;
	const struct settings *config;
	struct idmap users;		/* uid + 1 -> struct allowing_user */
	size_t most;			/* rows until they are looked through */
};

struct allowing *allowing_create(struct store *store, struct names *names, struct names *groups, const struct settings *config)
{
	struct allowing *a = alloc_zero(sizeof *a);
	*a = (struct allowing){ .store = store, .names = names, .groups = groups, .config = config, .most = FEW };
	return a;
}

static void user_free(struct allowing_user *u)
{
	for (unsigned k = 0; k < ALLOWANCE_COUNT; k++)
		free(u->source[k]);
	free(u);
}

void allowing_destroy(struct allowing *a)
{
	size_t at = 0;
	for (struct allowing_user *u; a && (u = idmap_next(&a->users, &at));)
		user_free(u);
	if (a)
		idmap_free(&a->users);
	free(a);
}

/* What was said stays; only what came of it is found out anew, when somebody asks. */
void allowing_forget(struct allowing *a)
{
	size_t at = 0;
	for (struct allowing_user *u; (u = idmap_next(&a->users, &at));)
		u->until_ms = 0;
}

static bool says_anything(const struct allowing_user *u)
{
	bool any = false;
	for (unsigned k = 0; k < ALLOWANCE_COUNT; k++)
		any |= u->own.says[k] || u->admin.says[k];
	return any;
}

/* Uids come from anywhere, as of user namespaces: of whom nothing was said, and who did not ask for a while, the row is made
 * again when he does. Each time that there are twice as many. */
static void drop_idle(struct allowing *a)
{
	int64_t now = clock_mono_ms();
	struct idmap kept = { 0 };
	size_t at = 0;
	for (struct allowing_user *u; (u = idmap_next(&a->users, &at));) {
		if (says_anything(u) || now < u->until_ms)
			idmap_put(&kept, (int64_t)u->uid + 1, u);
		else
			user_free(u);
	}
	idmap_free(&a->users);
	a->users = kept;
	a->most = 2 * kept.n + FEW;
}

static struct allowing_user *user_of(struct allowing *a, uid_t uid)
{
	struct allowing_user *u = idmap_get(&a->users, (int64_t)uid + 1);
	if (u)
		return u;
	if (a->users.n >= a->most)
		drop_idle(a);
	u = alloc_zero(sizeof *u);
	u->uid = uid;
	idmap_put(&a->users, (int64_t)uid + 1, u);
	return u;
}

/* What comes of it ---------------------------------------------------------------------------------------------------- */

static void user_set(struct allowing_user *u, unsigned k, uint64_t most, char *source)
{
	u->may.most[k] = most;
	free(u->source[k]);
	u->source[k] = source;
}

/* Three words, the later the stronger: rad.conf by user, group or for all; an administrator's by rad limit, which replaces
 * it; the user's own, which can only lower what comes of the others. While the user database has not answered, he is looked
 * up by his number and again with the next question: a limit that names him must not be missed for a minute. */
static void user_find_out(struct allowing *a, struct allowing_user *u)
{
	const struct settings_who *row[ALLOWANCE_COUNT];
	const char *name, *groups = "";
	enum name_state is_named = names_of(a->names, u->uid, &name), is_in = NAME_KNOWN;
	if (who_has_groups(a->config))
		is_in = names_of(a->groups, u->uid, &groups);
	u->known = is_named != NAME_ASKED && is_in != NAME_ASKED;
	u->may = who_allows(a->config, is_named == NAME_KNOWN ? name : "", is_in == NAME_KNOWN ? groups : "", row);
	for (unsigned k = 0; k < ALLOWANCE_COUNT; k++) {
		uint64_t own = u->own.says[k] ? u->own.allows.most[k] : 0;
		user_set(u, k, u->may.most[k], who_source(a->config, row[k], (enum allowance_kind)k));
		if (u->admin.says[k])
			user_set(u, k, u->admin.allows.most[k], alloc_string("an administrator's, by rad limit"));
		if (own && (!u->may.most[k] || own < u->may.most[k]))
			user_set(u, k, own, alloc_string("the user's own, by rad limit"));
	}
	u->until_ms = u->known ? clock_mono_ms() + KEPT_MS : 0;
}

static struct allowing_user *user_now(struct allowing *a, uid_t uid)
{
	struct allowing_user *u = user_of(a, uid);
	if (clock_mono_ms() >= u->until_ms)
		user_find_out(a, u);
	return u;
}

struct allowance allowing_of(struct allowing *a, uid_t uid)
{
	return user_now(a, uid)->may;
}

bool allowing_is_known(struct allowing *a, uid_t uid)
{
	return user_now(a, uid)->known;
}

const char *allowing_source(struct allowing *a, uid_t uid, enum allowance_kind kind)
{
	return user_now(a, uid)->source[kind];
}

/* He said that he wants no limit, or one above what he may have: neither lowers anything. */
bool allowing_own_is_void(struct allowing *a, uid_t uid, enum allowance_kind kind)
{
	const struct allowing_user *u = user_now(a, uid);
	uint64_t own = u->own.says[kind] ? u->own.allows.most[kind] : 0, may = u->may.most[kind];
	return u->own.says[kind] && may && (!own || own > may);
}

size_t allowing_rows(const struct allowing *a)
{
	return a->users.n;
}

/* What was said ------------------------------------------------------------------------------------------------------- */

static char *print(const struct allowing_words *s)
{
	return who_print(&s->allows, s->says);
}

/* "max_gpus=default": nothing is said of it any more. The rest goes into *rest as it is. */
static void take_back(struct allowing_words *s, const char *text, char *rest)
{
	for (const char *at = text + strspn(text, " ,"); *at; at += strspn(at, " ,")) {
		size_t len = strcspn(at, " ,");
		const char *equals = memchr(at, '=', len);
		enum allowance_kind k = equals ? allowance_find(at, (size_t)(equals - at)) : ALLOWANCE_COUNT;
		if (k != ALLOWANCE_COUNT && len == (size_t)(equals - at) + 8 && !memcmp(equals, "=default", 8))
			s->says[k] = false, s->allows.most[k] = 0;
		else
			rest += sprintf(rest, "%.*s ", (int)len, at);
		at += len;
	}
	*rest = 0;
}

/* Parsed and stored on copies first, so that a word that is wrong, or a disk that is full, changes nothing. */
int allowing_say(struct allowing *a, uid_t uid, bool own, const char *text, struct error *err)
{
	struct allowing_user *u = user_of(a, uid);
	struct allowing_words new = own ? u->own : u->admin;
	scoped_free char *rest = alloc_zero(2 * strlen(text) + 2);
	take_back(&new, text, rest);
	if (who_parse(rest, &new.allows, new.says, err))
		return -1;
	scoped_free char *key = alloc_printf(KEY "%u", (unsigned)uid), *owns = print(own ? &new : &u->own),
			 *admins = print(own ? &u->admin : &new), *value = alloc_printf("%s|%s", owns, admins);
	if (store_set_meta(a->store, key, *owns || *admins ? value : NULL, err))
		return -1;
	*(own ? &u->own : &u->admin) = new;
	u->until_ms = 0;
	return 0;
}

/* A word that this release does not know, from a later one, is left out with the others of its side. */
static int restore_one(void *ctx, const char *key, const char *value)
{
	int64_t uid;
	const char *bar = strchr(value, '|');
	if (!bar || units_parse_int(key + strlen(KEY), 0, UINT32_MAX, &uid, NULL))
		return 0;
	struct allowing_user *u = user_of(ctx, (uid_t)uid);
	scoped_free char *own = alloc_printf("%.*s", (int)(bar - value), value);
	who_parse(own, &u->own.allows, u->own.says, NULL);
	who_parse(bar + 1, &u->admin.allows, u->admin.says, NULL);
	return 0;
}

/* Before the first pass: without the limits that were said before a restart, tasks would start that may not. */
int allowing_restore(struct allowing *a, struct error *err)
{
	return store_each_meta(a->store, KEY, restore_one, a, err) ? error_wrap(err, "limits of users") : 0;
}
