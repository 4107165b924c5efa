/* SPDX-License-Identifier: MIT
 * Users beside each other: what each had and has, whose turn it is, what he may have, and who may change that.
 */
#include "daemon/requests_internal.h"

#include "base/json.h"
#include "base/log.h"

#include <stdlib.h>
#include <string.h>

#define LIMIT_BYTES 400		/* of a row of the store */

static json_t *limits_json(const struct requests *q, uid_t uid)
{
	const struct allowance may = allowing_of(q->allowing, uid);
	json_t *o = json_object();
	for (unsigned k = 0; k < ALLOWANCE_COUNT; k++)
		json_object_set_new(o, allowance_word((enum allowance_kind)k), json_int_or_null((int64_t)may.most[k], may.most[k] != 0));
	return o;
}

/* Whose limit each is, of those that there are. */
static json_t *sources_json(const struct requests *q, uid_t uid)
{
	const struct allowance may = allowing_of(q->allowing, uid);
	json_t *o = json_object();
	for (unsigned k = 0; k < ALLOWANCE_COUNT; k++)
		if (may.most[k])
			json_object_set_new(o, allowance_word((enum allowance_kind)k),
					    json_text(allowing_source(q->allowing, uid, (enum allowance_kind)k)));
	return o;
}

/* `next` without a turn would be a task that nobody is about to start, so it is told only with one. */
static json_t *user_json(const struct requests *q, const struct core_user *u)
{
	const struct fair_standing *s = &u->standing;
	const char *name;
	char id[TASK_ID_TEXT];
	names_of(q->names, s->uid, &name);
	return json_pack("{sI, ss, so, so, si, si, sI, sI, so, so, so, so}", "uid", (json_int_t)s->uid, "user", name,
		"used_s", json_round3(s->used_s), "gpus_now", json_round3(s->rate), "running", (int)s->taken.tasks,
		"gpus", (int)s->taken.gpus, "mem_mib", (json_int_t)s->taken.mib, "unfinished", (json_int_t)u->live,
		"turn", json_int_or_null(u->turn, u->turn), "next", u->turn ? json_text(task_id_text(u->next, id)) : json_null(),
		"limits", limits_json(q, s->uid), "limits_from", sources_json(q, s->uid));
}

/* Whether the user database has said who he is and in which groups, or that it does not. All are asked before any is waited
 * for. */
static bool is_named(const struct requests *q, uid_t uid)
{
	const char *name;
	bool known = allowing_is_known(q->allowing, uid);
	return names_of(q->names, uid, &name) != NAME_ASKED && known;
}

static bool are_named(const struct requests *q, uid_t caller, const struct core_user *users, size_t n)
{
	bool all = is_named(q, caller);
	for (size_t i = 0; i < n; i++)
		all = is_named(q, users[i].standing.uid) && all;
	return all;
}

/* With a line for whoever asks, though nothing is known of him: he wants to see what he may have. Names and groups are waited
 * for here: a list of numbers is of no use to anybody, nor is one of limits that a group's line would change. */
int request_users(const struct requests *q, const struct message *m, struct reply *reply, struct error *err)
{
	struct core_user *users;
	size_t n = core_users(q->core, &users);
	bool there = false;
	(void)err;
	if (!are_named(q, m->uid, users, n)) {
		free(users);
		return request_again(reply);
	}
	json_t *list = json_array();
	for (size_t i = 0; i < n; i++) {
		there = there || users[i].standing.uid == m->uid;
		json_array_append_new(list, user_json(q, &users[i]));
	}
	if (!there)
		json_array_append_new(list, user_json(q, &(struct core_user){ .standing = { .uid = m->uid } }));
	free(users);
	const struct fair_config *fair = &q->config->core.fair;
	return request_answer(reply, json_pack("{si, sb, sI, so}", "schema", 1, "fair", fair->on, "half_life_s",
					       (json_int_t)(fair->half_life_ms / 1000), "users", list));
}

/* What a user set himself above what he may have anyway: told, or he would think that it counts. */
static json_t *void_limits_json(const struct requests *q, uid_t uid)
{
	json_t *list = json_array();
	for (unsigned k = 0; k < ALLOWANCE_COUNT; k++)
		if (allowing_own_is_void(q->allowing, uid, (enum allowance_kind)k))
			json_array_append_new(list, json_text(allowance_word((enum allowance_kind)k)));
	return list;
}

static int answer_limits(const struct requests *q, uid_t uid, struct reply *reply)
{
	const char *name;
	names_of(q->names, uid, &name);
	return request_answer(reply, json_pack("{si, ss, so, so, so}", "schema", 1, "user", name, "limits", limits_json(q, uid),
					       "limits_from", sources_json(q, uid), "without_effect", void_limits_json(q, uid)));
}

/* Anybody may ask what somebody may have, as request_users tells it. */
static int tell_limits(const struct requests *q, uid_t uid, struct reply *reply)
{
	return is_named(q, uid) ? answer_limits(q, uid, reply) : request_again(reply);
}

/* A user says how little he wants, an administrator how much anybody may have: his word replaces that of rad.conf. */
int request_limit(const struct requests *q, const struct message *m, struct reply *reply, struct error *err)
{
	int64_t uid = m->uid;
	const char *text = json_string_value(json_object_get(m->json, "limits")), *name;
	bool admin = request_is_admin(m->uid);
	if (json_read_int(m->json, "uid", 0, UINT32_MAX - 1, &uid, err))
		return -1;
	if (!json_object_get(m->json, "limits"))
		return tell_limits(q, (uid_t)uid, reply);
	if (request_need_room(q, err) || request_need_store(q, m, err))
		return -1;
	if (!text || strlen(text) > 1000)
		return error_set(err, ERR_INVALID, "'limits' must be a text such as \"max_gpus=2 max_running=4\"");
	if (!admin && (uid_t)uid != m->uid)
		return request_need_admin(m, "setting another user's limits", err);
	/* Of a user's namespace there are 65536 uids, and each would be kept. */
	int unknown = admin ? 0 : request_user_name(q, m->uid, &name, err);
	if (unknown)
		return unknown > 0 ? request_again(reply) : -1;
	if (allowing_say(q->allowing, (uid_t)uid, !admin, text, err))
		return -1;
	request_spend_store(q, m, LIMIT_BYTES);
	names_of(q->names, (uid_t)uid, &name);
	log_info("limits of %s: %s, by uid %u", name, text, (unsigned)m->uid);
	core_reconsider(q->core);
	return answer_limits(q, (uid_t)uid, reply);
}
