/* SPDX-License-Identifier: MIT
 * Prolog and epilog: see hooks.h. A hook is a worker (worker.h) that is a program of the administrator's: its output, both
 * kinds together, is the answer, and the last line of it is what people are told when it fails.
 *
 * Who may write a program is looked at before each run, by its whole path, and not once at the start: what was root's then may
 * have been replaced. What lies between the look and the run is closed by the folders: nobody else can rename anything there.
 * So it is run by its real path: whose folder a link is in may have it lead elsewhere by then.
 *
 * An epilog lies in the store as "epilog:N" of `meta` from the end of its attempt, in one transaction with that, to its own:
 * what a radd that ends did not see the end of, the next one runs again.
 */
#include "daemon/hooks.h"

#include "base/alloc.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"
#include "base/paths.h"
#include "base/scope.h"
#include "base/text.h"
#include "daemon/troubles.h"
#include "daemon/trust.h"
#include "launch/worker.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define EPILOGS_AT_ONCE 8
#define EPILOGS_WAITING 64	/* of one user, before his next launch waits too */
#define OUTPUT_END 4096		/* bytes of what it prints, which may be all that it copies */
#define TOLD_MS (3600 * 1000)
#define MAX_ENV 12
#define KEY "epilog:"

struct hook {
	struct hooks *h;
	struct hook *next;
	int64_t number;			/* of an epilog's key */
	char *env[MAX_ENV];
	uid_t uid;			/* the task's */
	char id[TASK_ID_TEXT];
	hook_done done;			/* of a prolog */
	void *ctx;
	struct worker *worker;
	uv_timer_t *late;		/* of a prolog that could not be started: tells so from the loop */
	char why[700];
};

struct hooks {
	uv_loop_t *loop;
	const struct settings *config;
	struct store *store;
	int64_t last_number;
	struct hook *waiting, **last;	/* epilogs, in the order of the ends */
	struct hook *epilogs;		/* that run */
	unsigned running;
	char trouble[800];
	int64_t trouble_ms;		/* mono */
};

static void hook_warn(void *ctx, const char *text)
{
	(void)ctx;
	log_warn("%s", text);
}

static void hook_free(struct hook *k)
{
	for (size_t i = 0; i < MAX_ENV; i++)
		free(k->env[i]);
	free(k);
}

static void hooks_wait(struct hooks *h, struct hook *k)
{
	*h->last = k;
	h->last = &k->next;
}

/* What is kept of one ------------------------------------------------------------------------------------------------------ */

static char *key_of(int64_t number, char key[40])
{
	snprintf(key, 40, KEY "%lld", (long long)number);
	return key;
}

/* Where that fails, the commit says why, and the end of the attempt is not kept either. */
static void hook_keep(const struct hook *k)
{
	char key[40];
	json_t *env = json_array();
	for (size_t i = 0; k->env[i]; i++)
		json_array_append_new(env, json_text(k->env[i]));
	scoped_json *o = json_pack("{sI, ss, so}", "uid", (json_int_t)k->uid, "id", k->id, "env", env);
	scoped_free char *text = json_to_text(o);
	store_set_meta(k->h->store, key_of(k->number, key), text, NULL);
}

static int hook_restore(void *ctx, const char *key, const char *value)
{
	struct hooks *h = ctx;
	scoped_json *o = json_loads(value, 0, NULL);
	const json_t *env = json_object_get(o, "env"), *word;
	struct hook *k = alloc_zero(sizeof *k);
	size_t i;
	k->h = h;
	k->number = h->last_number = strtoll(key + strlen(KEY), NULL, 10);
	k->uid = (uid_t)json_integer_value(json_object_get(o, "uid"));
	snprintf(k->id, sizeof k->id, "%s", json_member_text(o, "id"));
	json_array_foreach(env, i, word)
		if (i < MAX_ENV - 1 && json_is_string(word))
			k->env[i] = alloc_string(json_string_value(word));
	hooks_wait(h, k);
	return 0;
}

struct hooks *hooks_create(uv_loop_t *loop, const struct settings *config, struct store *store)
{
	struct hooks *h = alloc_zero(sizeof *h);
	struct error err = ERROR_INIT;
	h->loop = loop;
	h->config = config;
	h->store = store;
	h->last = &h->waiting;
	hooks_check(config, hook_warn, NULL);
	if (store_each_meta(store, KEY, hook_restore, h, &err))
		log_error("epilogs that were not over at the last end of radd: %s", err.text);
	return h;
}

void hooks_destroy(struct hooks *h)
{
	if (!h)
		return;
	for (struct hook *k = h->epilogs, *next; k; k = next) {
		next = k->next;
		worker_stop(k->worker);
		hook_free(k);
	}
	for (struct hook *k = h->waiting, *next; k; k = next) {
		next = k->next;
		hook_free(k);
	}
	free(h);
}

/* Who may write it ----------------------------------------------------------------------------------------------------- */

/* The program itself, and every folder on the way to it. Its real path: a link may stand anywhere, what it leads to may
 * not. */
static int check_trust(const char *path, char real[PATH_MAX], struct error *err)
{
	char folders[PATH_MAX];
	struct stat st;
	if (*path != '/')
		return error_set(err, ERR_INVALID, "%s: is not an absolute path", path);
	if (!realpath(path, real) || stat(real, &st))
		return error_errno(err, "%s", path);
	if (trust_check(real, &st, err))
		return -1;
	if (!S_ISREG(st.st_mode))
		return error_set(err, ERR_INVALID, "%s: is not a program", real);
	if (!(st.st_mode & 0111))
		return error_set(err, ERR_INVALID, "%s: is not executable: chmod +x", real);
	strcpy(folders, real);
	return trust_folders(folders, err);
}

/* Of root's settings: whoever may write them names the programs. Told and no more, since they are in force already. What is no
 * file, as /dev/null, holds none, and has the mode that it needs. */
static void check_settings_file(const char *path, void (*tell)(void *ctx, const char *text), void *ctx)
{
	struct error err = ERROR_INIT;
	struct stat st;
	if (path && !geteuid() && !stat(path, &st) && S_ISREG(st.st_mode) && trust_check(path, &st, &err))
		tell(ctx, err.text);
}

unsigned hooks_check(const struct settings *config, void (*tell)(void *ctx, const char *text), void *ctx)
{
	const struct { const char *kind, *path; } named[] = { { "prolog", config->prolog }, { "epilog", config->epilog } };
	unsigned refused = 0;
	check_settings_file(config->file, tell, ctx);
	for (size_t i = 0; i < COUNT_OF(named); i++) {
		struct error err = ERROR_INIT;
		char real[PATH_MAX];
		if (!strcmp(named[i].path, "off") || !check_trust(named[i].path, real, &err))
			continue;
		const char *hence = i ? "" : ": every launch waits until it may be run";
		scoped_free char *text = alloc_printf("%s %s%s", named[i].kind, err.text, hence);
		tell(ctx, text);
		refused++;
	}
	return refused;
}

/* What it is told ------------------------------------------------------------------------------------------------------ */

/* All that it is to know, copied now: an epilog may run when the task is out of memory. No more than this, since what a
 * user chose beyond a name (his environment, his command) has no business in a program of root's. */
static struct hook *hook_create(struct hooks *h, const struct task *t, const struct event *ended)
{
	const struct attempt *a = task_attempt(t);
	struct hook *k = alloc_zero(sizeof *k);
	scoped_buf gpus = { 0 };
	size_t n = 0;
	k->h = h;
	k->uid = t->spec->uid;
	task_id_text(t->id, k->id);
	for (uint32_t i = 0; i < a->n_gpus; i++)
		buf_printf(&gpus, "%s%s", i ? "," : "", a->gpus[i]);
	k->env[n++] = alloc_string("PATH=" PATHS_ALL);
	k->env[n++] = alloc_printf("RAD_TASK_ID=%s", k->id);
	k->env[n++] = alloc_printf("RAD_ATTEMPT=%u", (unsigned)t->n_attempts);
	k->env[n++] = alloc_printf("RAD_TASK_NAME=%s", task_name(t));
	k->env[n++] = alloc_printf("RAD_USER=%s", t->spec->user ? t->spec->user : "");
	k->env[n++] = alloc_printf("RAD_UID=%u", (unsigned)t->spec->uid);
	k->env[n++] = alloc_printf("RAD_GPU_UUIDS=%s", buf_text(&gpus));
	if (ended) {
		k->env[n++] = alloc_printf("RAD_VERDICT=%s", verdict_name(ended->u.ended.verdict));
		k->env[n++] = alloc_printf("RAD_EXIT_CODE=%d", ended->u.ended.exit_code);
		k->env[n++] = alloc_printf("RAD_SIGNAL=%d", ended->u.ended.signal);
	}
	return k;
}

/* Running --------------------------------------------------------------------------------------------------------------- */

/* "prolog /etc/rad/prolog: it ended with exit code 3: no scratch disk": with the last line of its output, where programs say
 * why they gave up. */
static void hook_explain(struct hook *k, const char *kind, const char *path, const struct buf *output, const char *why)
{
	size_t n = output ? output->len : 0;
	while (n && output->data[n - 1] == '\n')
		n--;
	size_t from = n;
	while (from && output->data[from - 1] != '\n' && n - from < 300)
		from--;
	text_printf(k->why, sizeof k->why, "%s %.200s: %s%s%.*s", kind, path, why, n ? ": " : "", (int)(n - from),
		    n ? output->data + from : "");
	for (char *p = k->why; *p; p++)
		if ((unsigned char)*p < ' ')
			*p = '?';
	json_make_showable(k->why);
}

/* 0, or -1 with k->why. By a shell, so that what it says on either output is one stream; the path is an argument of that shell
 * and no part of its text, so nothing in it is read as a command. Who may write the file is asked before each run, as it may
 * have changed since the last. */
static int hook_start(struct hook *k, const char *kind, const char *path, worker_done done)
{
	struct error err = ERROR_INIT;
	char why[120] = "", real[PATH_MAX];
	char *args[] = { "/bin/sh", "-c", "exec \"$0\" \"$1\" 2>&1", real, (char *)kind, NULL };
	const struct worker_plan plan = { .program = args[0], .args = args, .env = k->env, .deadline_ms = k->h->config->hook_wait_ms,
					  .max_answer = OUTPUT_END, .only_end = true };
	if (check_trust(path, real, &err)) {
		text_printf(k->why, sizeof k->why, "%s %.600s", kind, err.text);
		return -1;
	}
	k->worker = worker_start(k->h->loop, &plan, alloc_string(""), done, k, why, sizeof why);
	if (!k->worker)
		hook_explain(k, kind, path, NULL, why);
	return k->worker ? 0 : -1;
}

/* Prolog --------------------------------------------------------------------------------------------------------------- */

bool hooks_has_prolog(const struct hooks *h)
{
	return strcmp(h->config->prolog, "off");
}

/* Freed before it is told: who is told may begin the next one, or end the task, and is to find nothing of this one. */
static void prolog_tell(struct hook *k)
{
	hook_done done = k->done;
	void *ctx = k->ctx;
	char why[sizeof k->why];
	memcpy(why, k->why, sizeof why);
	hook_free(k);
	done(ctx, *why ? why : NULL);
}

static void on_prolog(void *ctx, const struct buf *output, const char *why)
{
	struct hook *k = ctx;
	k->worker = NULL;
	if (why)
		hook_explain(k, "prolog", k->h->config->prolog, output, why);
	prolog_tell(k);
}

static void on_late_closed(uv_handle_t *h)
{
	free(h);
}

static void on_late(uv_timer_t *t)
{
	struct hook *k = t->data;
	uv_close((uv_handle_t *)t, on_late_closed);
	prolog_tell(k);
}

/* Where it cannot be started that is told from the loop all the same: whoever waits for it is not called back from within
 * his own call. */
struct hook *hooks_prolog(struct hooks *h, const struct task *t, hook_done done, void *ctx)
{
	struct hook *k = hook_create(h, t, NULL);
	k->done = done;
	k->ctx = ctx;
	if (!hook_start(k, "prolog", h->config->prolog, on_prolog))
		return k;
	k->late = alloc_zero(sizeof *k->late);
	uv_timer_init(h->loop, k->late);
	k->late->data = k;
	uv_timer_start(k->late, on_late, 0, 0);
	return k;
}

void hooks_leave(struct hook *k)
{
	if (!k)
		return;
	if (k->late)
		uv_close((uv_handle_t *)k->late, on_late_closed);
	worker_cancel(k->worker);
	hook_free(k);
}

/* Epilog --------------------------------------------------------------------------------------------------------------- */

/* In its line only: what ended is not on disk yet, and an epilog that ran for an end that was never kept would run twice. */
void hooks_note_end(struct hooks *h, const struct event *ended, const struct task *t)
{
	if (!strcmp(h->config->epilog, "off"))
		return;
	struct hook *k = hook_create(h, t, ended);
	k->number = ++h->last_number;
	hook_keep(k);
	hooks_wait(h, k);
}

/* Decision 130: his next launches wait, and not everybody's. */
const char *hooks_hold_back(const struct hooks *h, uid_t uid)
{
	static char why[120];
	unsigned n = 0;
	for (const struct hook *k = h->waiting; k; k = k->next)
		n += k->uid == uid;
	if (n < EPILOGS_WAITING)
		return NULL;
	snprintf(why, sizeof why, "%u epilogs of its user's tasks that ended wait for their turn: do they take long?", n);
	return why;
}

static void epilog_over(struct hook *k)
{
	struct hooks *h = k->h;
	char key[40];
	store_set_meta(h->store, key_of(k->number, key), NULL, NULL);
	for (struct hook **at = &h->epilogs; *at; at = &(*at)->next)
		if (*at == k) {
			*at = k->next;
			h->running--;
			break;
		}
	if (*k->why) {
		log_warn_limited("task %s: %s", k->id, k->why);
		text_printf(h->trouble, sizeof h->trouble, "task %s: %s", k->id, k->why);
		h->trouble_ms = clock_mono_ms();
	}
	hook_free(k);
}

static void on_epilog(void *ctx, const struct buf *output, const char *why)
{
	struct hook *k = ctx;
	k->worker = NULL;
	if (why)
		hook_explain(k, "epilog", k->h->config->epilog, output, why);
	epilog_over(k);	/* the turn that follows begins the next */
}

/* Few at a time, so that the end of an array of hundreds is no storm of processes. Where the setting was taken away meanwhile,
 * those that wait are over. */
void hooks_work(struct hooks *h)
{
	while (h->waiting && h->running < EPILOGS_AT_ONCE) {
		struct hook *k = h->waiting;
		if (!(h->waiting = k->next))
			h->last = &h->waiting;
		k->next = h->epilogs;
		h->epilogs = k;
		h->running++;
		if (!strcmp(h->config->epilog, "off") || hook_start(k, "epilog", h->config->epilog, on_epilog))
			epilog_over(k);
	}
}

static void add_trouble(void *troubles, const char *text)
{
	troubles_add(troubles, "settings", "%s", text);
}

void hooks_tell(const struct hooks *h, json_t *troubles)
{
	hooks_check(h->config, add_trouble, troubles);
	if (*h->trouble && clock_mono_ms() - h->trouble_ms < TOLD_MS)
		troubles_add(troubles, "epilog", "%s", h->trouble);
}
