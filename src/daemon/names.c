/* SPDX-License-Identifier: MIT
 * Users' names, asked outside of the loop: see names.h.
 *
 * An answer is never waited for: until there is one a user is called by his number, and `told` says when to look again. It
 * is asked for anew when it is old; a database that fails then takes back nothing that it said before, as accounts do not end
 * with their server. Workers are started from the loop, not where a name is wanted, which may be in the middle of a turn.
 */
#include "daemon/names.h"

#include "base/alloc.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/idmap.h"
#include "base/json.h"
#include "base/log.h"
#include "base/scope.h"
#include "launch/worker.h"

#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAX_NAME 256	/* LOGIN_NAME_MAX */
#define MAX_GROUPS 65536	/* bytes of their names; more are cut off */
#define MAX_USERS 100000	/* kept: uids come from anywhere, as of processes on a GPU, or of user namespaces */
#define FORGET_MS 1000	/* between two looks for who can be forgotten */

struct user {
	struct names *n;
	struct user *next;	/* of those who wait for a worker */
	uid_t uid, owner;	/* owner: whose subordinate one it is; NAMES_NOBODY: not known */
	enum name_state state;
	char *name;		/* the number while there is no name; owned */
	int64_t good_until_ms;	/* mono */
	bool waits;
	struct worker *worker;
};

struct names {
	uv_loop_t *loop;
	char *program;
	const char *flag;
	int64_t deadline_ms, fresh_ms;
	names_told *told;
	void *ctx;
	struct idmap users;	/* uid + 1 -> struct user */
	size_t most;		/* of them */
	int64_t forgot_ms;	/* mono */
	struct user *first, **last;
	unsigned running;
	uv_timer_t pump;
};

static void on_pump(uv_timer_t *t);

/* What the worker said. A failure of the database leaves what it said before. An empty first line means that there is no
 * such user; what follows it is whose subordinate uid that is (names_tell_owner). Returns whether he is called otherwise
 * now. */
static bool names_take_answer(struct user *u, const char *text, const char *why)
{
	size_t len = strcspn(text, "\n");
	scoped_free char *before = alloc_string(u->name);
	bool was_known = u->state == NAME_KNOWN;
	if (why && u->state != NAME_KNOWN)
		u->state = NAME_NO_ANSWER;
	if (!why && !len) {
		unsigned owner;
		u->state = NAME_NO_ACCOUNT;
		u->owner = sscanf(text, "%u", &owner) == 1 ? (uid_t)owner : NAMES_NOBODY;
	}
	if (!why && len) {
		free(u->name);
		u->name = alloc_printf("%.*s", (int)len, text);
		json_make_showable(u->name);
		u->state = NAME_KNOWN;
	}
	if (u->state != NAME_KNOWN) {
		free(u->name);
		u->name = alloc_printf("%u", (unsigned)u->uid);
	}
	u->good_until_ms = clock_mono_ms() + (why ? NAMES_RETRY_MS : u->n->fresh_ms);
	if (why)
		log_warn_limited("the user database says nothing of uid %u: %s", (unsigned)u->uid, why);
	return was_known != (u->state == NAME_KNOWN) || strcmp(before, u->name);
}

static void on_answer(void *ctx, const struct buf *answer, const char *why)
{
	struct user *u = ctx;
	struct names *n = u->n;
	u->worker = NULL;
	n->running--;
	bool anew = names_take_answer(u, answer ? buf_text(answer) : "", why);
	uv_timer_start(&n->pump, on_pump, 0, 0);
	n->told(n->ctx, anew);
}

/* The file of subordinate uids is read by the worker too: it may lie on the network as well. */
static void names_start(struct user *u)
{
	char why[120] = "";
	const struct worker_plan plan = { .program = u->n->program, .flag = u->n->flag, .deadline_ms = u->n->deadline_ms,
					  .max_answer = MAX_GROUPS };
	const char *subuid = getenv("RAD_SUBUID_FILE");	/* for tests */
	u->n->running++;
	u->worker = worker_start(u->n->loop, &plan, alloc_printf("%u %s\n", (unsigned)u->uid, subuid ? subuid : "/etc/subuid"),
				 on_answer, u, why, sizeof why);
	if (!u->worker)
		on_answer(u, NULL, why);
}

static void on_pump(uv_timer_t *t)
{
	struct names *n = t->data;
	while (n->first && n->running < NAMES_AT_ONCE) {
		struct user *u = n->first;
		if (!(n->first = u->next))
			n->last = &n->first;
		u->waits = false;
		names_start(u);
	}
}

static void names_ask(struct user *u)
{
	struct names *n = u->n;
	if (u->waits || u->worker)
		return;
	u->waits = true;
	u->next = NULL;
	*n->last = u;
	n->last = &u->next;
	uv_timer_start(&n->pump, on_pump, 0, 0);
}

void names_hurry(struct names *n, uid_t uid)
{
	struct user *u = idmap_get(&n->users, (int64_t)uid + 1), **at = &n->first;
	if (!u || !u->waits || n->first == u)
		return;
	while (*at != u)
		at = &(*at)->next;
	if (!(*at = u->next))
		n->last = at;
	u->next = n->first;
	n->first = u;
}

/* There is no room for another: those are forgotten whom the database does not know. */
static void names_forget(struct names *n)
{
	const int64_t now = clock_mono_ms();
	struct idmap kept = { 0 };
	size_t at = 0;
	if (n->forgot_ms && now < n->forgot_ms + FORGET_MS)
		return;
	n->forgot_ms = now;
	for (struct user *u; (u = idmap_next(&n->users, &at));) {
		if (u->state == NAME_KNOWN || u->waits || u->worker) {
			idmap_put(&kept, (int64_t)u->uid + 1, u);
			continue;
		}
		free(u->name);
		free(u);
	}
	idmap_free(&n->users);
	n->users = kept;
}

/* Never waits and never fails: there is always something to call a user by. Users whose name was known stay known while
 * they are asked for again, so that limits by name do not come and go. */
enum name_state names_of(struct names *n, uid_t uid, const char **name)
{
	struct user *u = idmap_get(&n->users, (int64_t)uid + 1);
	static char number[16];
	if (!u && n->users.n >= n->most)
		names_forget(n);
	if (!u && n->users.n >= n->most) {
		snprintf(number, sizeof number, "%u", (unsigned)uid);
		*name = number;
		return NAME_NO_ANSWER;
	}
	if (!u) {
		u = alloc_zero(sizeof *u);
		*u = (struct user){ .n = n, .uid = uid, .owner = NAMES_NOBODY, .state = NAME_ASKED };
		u->name = alloc_printf("%u", (unsigned)uid);
		idmap_put(&n->users, (int64_t)uid + 1, u);
	}
	if (clock_mono_ms() >= u->good_until_ms) {
		if (u->state != NAME_KNOWN)
			u->state = NAME_ASKED;
		names_ask(u);
	}
	*name = u->name;
	return u->state;
}

/* A uid of somebody's user namespace has no account and is paid for by its owner, whose connections and memory its are. Not
 * known yet is an answer of its own: such clients share a bound (server.c). */
uid_t names_payer(struct names *n, uid_t uid, bool ask)
{
	const char *name;
	if (!uid || uid == geteuid())
		return uid;
	if (ask)
		names_of(n, uid, &name);
	const struct user *u = idmap_get(&n->users, (int64_t)uid + 1);
	return !u || u->state == NAME_ASKED ? NAMES_UNKNOWN : u->state == NAME_KNOWN ? uid : u->owner;
}

struct names *names_create(uv_loop_t *loop, const char *program, const char *flag, int64_t deadline_ms,
			   names_told *told, void *ctx)
{
	struct names *n = alloc_zero(sizeof *n);
	n->loop = loop;
	n->program = alloc_string(program);
	n->flag = flag;
	n->deadline_ms = deadline_ms;
	n->told = told;
	n->ctx = ctx;
	n->last = &n->first;
	const char *most = getenv("RAD_NAMES_MOST"), *fresh_ms = getenv("RAD_NAMES_FRESH_MS");	/* for tests */
	n->most = most ? (size_t)atoi(most) : MAX_USERS;
	n->fresh_ms = fresh_ms ? atoi(fresh_ms) : NAMES_FRESH_MS;
	uv_timer_init(loop, &n->pump);
	n->pump.data = n;
	return n;
}

static void on_pump_closed(uv_handle_t *h)
{
	struct names *n = h->data;
	size_t at = 0;
	for (struct user *u; (u = idmap_next(&n->users, &at));) {
		free(u->name);
		free(u);
	}
	idmap_free(&n->users);
	free(n->program);
	free(n);
}

void names_destroy(struct names *n)
{
	size_t at = 0;
	if (!n)
		return;
	for (struct user *u; (u = idmap_next(&n->users, &at));)
		worker_stop(u->worker);
	uv_close((uv_handle_t *)&n->pump, on_pump_closed);
}

/* "ada:100000:65536", also with a number for the name: those uids are ada's, in user namespaces of her own. Without that, she
 * would be as many users as she likes. */
static void names_tell_owner(unsigned uid, const char *path)
{
	FILE *f = fopen(path, "re");
	char line[512], who[MAX_NAME];
	unsigned long first, count;
	while (f && fgets(line, sizeof line, f)) {
		if (sscanf(line, "%255[^:]:%lu:%lu", who, &first, &count) != 3 || uid < first || uid - first >= count)
			continue;
		const struct passwd *pw = getpwnam(who);
		char *end;
		unsigned long number = strtoul(who, &end, 10);
		if (pw || (*who && !*end))
			printf("\n%lu\n", pw ? (unsigned long)pw->pw_uid : number);
		break;
	}
	if (f)
		fclose(f);
	fflush(stdout);
}

/* getpwuid tells "no such user" by NULL and an errno that differs from system to system. */
bool names_database_failed(void)
{
	return errno && errno != ENOENT && errno != ESRCH && errno != EBADF && errno != EPERM;
}

/* The worker's side. */
int names_worker(void)
{
	unsigned uid;
	char path[256];
	if (scanf("%u %255s", &uid, path) != 2)
		return 2;
	errno = 0;
	const struct passwd *pw = getpwuid((uid_t)uid);
	if (pw)
		return puts(pw->pw_name) < 0 || fflush(stdout) ? 1 : 0;
	if (names_database_failed())
		return 1;
	names_tell_owner(uid, path);
	return 0;
}

/* A group without a name can have no row in rad.conf, so it is left out. */
int names_groups_worker(void)
{
	enum { MOST = 4096 };
	gid_t gids[MOST];
	unsigned uid;
	int n = MOST;
	size_t len = 0;
	if (scanf("%u", &uid) != 1)
		return 2;
	errno = 0;
	const struct passwd *pw = getpwuid((uid_t)uid);
	if (!pw)
		return names_database_failed();
	n = getgrouplist(pw->pw_name, pw->pw_gid, gids, &n) < 0 ? MOST : n;
	for (int i = 0; i < n; i++) {
		const struct group *g = getgrgid(gids[i]);
		size_t more = g ? strlen(g->gr_name) + 1 : 0;
		if (g && len + more < MAX_GROUPS - 1)
			len += more, printf("%s:", g->gr_name);
	}
	return puts("") < 0 || fflush(stdout) ? 1 : 0;
}
