/* SPDX-License-Identifier: MIT
 *
 * See fair.h. A user's sum is brought up to a time only when something of him changes or he is looked at: an event costs as
 * much as the user it is about, however many there are, and a decision one exponential for each user who waits.
 */
#include "queue/fair.h"

#include "base/alloc.h"
#include "base/idmap.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

#define LN_2 0.69314718055994530942
#define NEVER (INT64_MIN / 2)
#define PASSED 4	/* tasks of a user for which it is noted how long they were passed */

struct fair_user {
	uid_t uid;
	double used_s, rate;
	int64_t as_of_ms;
	struct fair_taken taken;
	int64_t started_ms;		/* when his last attempt began */
	struct { task_id task; int64_t since_ms; } passed[PASSED];	/* task 0: free */
};

struct fair {
	const struct fair_config *config;
	const int64_t *pass_max_ms;
	int64_t now_ms;
	struct idmap users;		/* uid + 1 -> struct fair_user */
	struct { task_id task; int64_t since_ms; } insists;
};

struct fair *fair_create(const struct fair_config *config, const int64_t *pass_max_ms)
{
	struct fair *f = alloc_zero(sizeof *f);
	f->config = config;
	f->pass_max_ms = pass_max_ms;
	f->now_ms = NEVER;
	return f;
}

void fair_destroy(struct fair *f)
{
	if (f)
		idmap_free_all(&f->users);
	free(f);
}

void fair_go_on(struct fair *f, int64_t mono_ms)
{
	f->now_ms = mono_ms > f->now_ms ? mono_ms : f->now_ms;
}

/* Users --------------------------------------------------------------------------------------------------------------- */

struct fair_user *fair_user_of(struct fair *f, uid_t uid)
{
	struct fair_user *u = idmap_get(&f->users, (int64_t)uid + 1);
	if (u)
		return u;
	idmap_put(&f->users, (int64_t)uid + 1, u = alloc_zero(sizeof *u));
	u->uid = uid;
	u->as_of_ms = u->started_ms = NEVER;
	return u;
}

const struct fair_user *fair_find(const struct fair *f, uid_t uid)
{
	return idmap_get(&f->users, (int64_t)uid + 1);
}

const struct fair_user *fair_next(const struct fair *f, size_t *at)
{
	return idmap_next(&f->users, at);
}

static double used_at(const struct fair *f, const struct fair_user *u, int64_t mono_ms)
{
	if (mono_ms <= u->as_of_ms || (u->used_s <= 0 && u->rate <= 0))
		return u->used_s;
	double half_lives = (double)(mono_ms - u->as_of_ms) / (double)f->config->half_life_ms, stays = exp2(-half_lives);
	return u->used_s * stays + u->rate * (double)f->config->half_life_ms / 1000 / LN_2 * (1 - stays);
}

static void user_advance(const struct fair *f, struct fair_user *u, int64_t mono_ms)
{
	u->used_s = used_at(f, u, mono_ms);
	u->as_of_ms = mono_ms > u->as_of_ms ? mono_ms : u->as_of_ms;
}

/* Whether he is owed a start, if he runs nothing: see the order in fair.h. */
static bool owed_if_idle(const struct fair *f, const struct fair_user *u)
{
	bool since_one_insists = !f->insists.task || u->started_ms < f->insists.since_ms;
	return f->config->on && since_one_insists && f->now_ms - u->started_ms >= *f->pass_max_ms;
}

static bool is_owed(const struct fair *f, const struct fair_user *u)
{
	return !u->taken.gpus && owed_if_idle(f, u);
}

struct fair_taken fair_taken_of(const struct fair *f, uid_t uid)
{
	const struct fair_user *u = fair_find(f, uid);
	return u ? u->taken : (struct fair_taken){ 0 };
}

bool fair_is_owed(const struct fair *f, uid_t uid)
{
	const struct fair_user *u = fair_find(f, uid);
	return u && is_owed(f, u);
}

struct fair_standing fair_look(const struct fair *f, const struct fair_user *u)
{
	double used_s = used_at(f, u, f->now_ms);
	int64_t ago_ms = u->started_ms == NEVER ? -1 : f->now_ms > u->started_ms ? f->now_ms - u->started_ms : 0;
	return (struct fair_standing){ u->uid, used_s, u->rate, used_s + FAIR_AHEAD_S * u->rate, u->taken, is_owed(f, u), ago_ms };
}

void fair_take(struct fair *f, uid_t uid, int sign, struct fair_taken what, int64_t mono_ms)
{
	struct fair_user *u = fair_user_of(f, uid);
	unsigned by = (unsigned)sign;
	assert(sign == 1 || (sign == -1 && u->taken.tasks >= what.tasks && u->taken.gpus >= what.gpus && u->taken.mib >= what.mib));
	user_advance(f, u, mono_ms);
	u->taken.tasks += by * what.tasks;
	u->taken.gpus += by * what.gpus;
	u->taken.mib += (uint64_t)(int64_t)sign * what.mib;
	u->taken.cpu_tasks += by * what.cpu_tasks;
	if (sign > 0 && what.gpus && mono_ms > u->started_ms)
		u->started_ms = mono_ms;
	if (!u->taken.gpus)
		u->rate = 0;	/* what sums of fractions leave over */
}

void fair_change_rate(struct fair *f, uid_t uid, double by, int64_t mono_ms)
{
	struct fair_user *u = fair_user_of(f, uid);
	user_advance(f, u, mono_ms);
	u->rate = fmax(u->rate + by, 0);
}

void fair_remember(struct fair *f, uid_t uid, double used_s, int64_t mono_ms)
{
	struct fair_user *u = fair_user_of(f, uid);
	u->used_s = isfinite(used_s) && used_s > 0 ? used_s : 0;
	u->as_of_ms = mono_ms;
}

void fair_remember_start(struct fair *f, uid_t uid, int64_t mono_ms)
{
	struct fair_user *u = fair_user_of(f, uid);
	u->started_ms = mono_ms > u->started_ms ? mono_ms : u->started_ms;
}

/* Passing ------------------------------------------------------------------------------------------------------------- */

int64_t fair_passed_since(struct fair *f, uid_t uid, task_id task, int64_t from_ms)
{
	struct fair_user *u = fair_user_of(f, uid);
	unsigned at = 0;
	for (unsigned i = 0; i < PASSED; i++) {
		if (u->passed[i].task == task)
			return u->passed[i].since_ms;
		if (u->passed[at].task && (!u->passed[i].task || u->passed[i].since_ms > u->passed[at].since_ms))
			at = i;
	}
	u->passed[at].task = task;
	u->passed[at].since_ms = from_ms;
	return from_ms;
}

void fair_waits_no_more(struct fair *f, uid_t uid, task_id task)
{
	struct fair_user *u = fair_user_of(f, uid);
	for (unsigned i = 0; i < PASSED; i++)
		if (u->passed[i].task == task)
			u->passed[i].task = 0;
}

void fair_insist(struct fair *f, task_id task, int64_t since_ms)
{
	if (f->insists.task && f->now_ms - f->insists.since_ms >= *f->pass_max_ms)
		return;
	f->insists.task = task;
	f->insists.since_ms = since_ms;
}

void fair_desist(struct fair *f, task_id task)
{
	if (f->insists.task == task)
		f->insists.task = 0;
}

task_id fair_insists(const struct fair *f)
{
	return f->insists.task;
}

/* Order --------------------------------------------------------------------------------------------------------------- */

static int rank_of(const struct fair *f, bool idle, bool owed, task_id next)
{
	bool insists = next == f->insists.task;
	return owed && insists ? 0 : owed ? 1 : insists ? 2 : idle ? 3 : 4;
}

struct fair_place fair_place_of(const struct fair *f, const struct fair_user *u, task_id next, const struct fair_taken *ahead)
{
	if (!f->config->on)
		return (struct fair_place){ 0, 0 };
	struct fair_standing s = fair_look(f, u);
	bool idle = !s.taken.gpus && !ahead->gpus;
	return (struct fair_place){ rank_of(f, idle, idle && s.owed, next), s.figure_s + FAIR_AHEAD_S * ahead->gpus };
}

/* Ranks are of GPUs. */
struct fair_place fair_cpu_place_of(const struct fair *f, const struct fair_user *u, const struct fair_taken *ahead)
{
	return (struct fair_place){ 0, f->config->on ? u->taken.cpu_tasks + ahead->tasks : 0 };
}

struct fair_place fair_place_without(const struct fair *f, const struct fair_user *u, task_id next, unsigned gone)
{
	if (!f->config->on)
		return (struct fair_place){ 0, 0 };
	struct fair_standing s = fair_look(f, u);
	unsigned there = s.taken.tasks - s.taken.cpu_tasks, left = there > gone ? there - gone : 0;
	double rate = left ? s.rate * left / there : 0;
	return (struct fair_place){ rank_of(f, !left, !left && owed_if_idle(f, u), next), s.used_s + FAIR_AHEAD_S * rate };
}

const char *fair_why(struct fair_place p)
{
	static const char *const words[] = {
		"its user is owed a start, and GPUs are kept for it", "its user is owed a start", "GPUs are kept for it",
		"its user runs nothing", "its user had least GPU time lately, what runs counted an hour ahead",
	};
	return words[p.rank];
}

int fair_compare(struct fair_place a, struct fair_place b)
{
	if (a.rank != b.rank)
		return a.rank < b.rank ? -1 : 1;
	return (a.figure_s > b.figure_s) - (a.figure_s < b.figure_s);
}
