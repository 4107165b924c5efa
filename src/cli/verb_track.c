/* SPDX-License-Identifier: MIT
 * rad track: tasks and what their GPUs showed as runs of an MLflow server. It asks radd again and again and sends what is new,
 * until it is ended; where the server is away it waits, and goes on where it was.
 */
#include "base/alloc.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/paths.h"
#include "base/scope.h"
#include "cli/cli.h"
#include "cli/client.h"
#include "cli/format.h"
#include "cli/span.h"
#include "cli/track_mlflow.h"
#include "cli/track_sync.h"
#include "submit/wire.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define EVERY_S 10.0
#define SOON_MS 1000		/* the first wait for a server that is away, */
#define LONGEST_MS 60000	/* and the longest */
#define ONCE_TRIES 3

static volatile sig_atomic_t stopped;

static void on_signal(int signum)
{
	(void)signum;
	stopped = 1;
}

struct track_asked { const char *uri, *experiment, *user, *since, *interval, *cursor; bool all, once; };

static const char *said(const char *name)
{
	const char *value = getenv(name);
	return value && *value ? value : NULL;
}

/* A cursor for each place that runs go to, each radd that they come from, and whose they are. */
static char *usual_cursor(const struct track_asked *a, const char *experiment, struct error *err)
{
	scoped_free char *state = paths_own("XDG_STATE_HOME", ".local/state");
	if (!state) {
		error_set(err, ERR_INVALID, "HOME is not set: say where to keep the cursor (--cursor FILE)");
		return NULL;
	}
	scoped_free char *socket = wire_socket_path();
	scoped_free char *what = alloc_printf("%s\n%s\n%s\n%s", a->uri, experiment, socket, a->all ? "" : a->user);
	return alloc_printf("%s/rad-track/%016llx.json", state, (unsigned long long)hash_bytes(HASH_SEED, what, strlen(what)));
}

static int set_user(struct track *t, const struct track_asked *a, struct error *err)
{
	uid_t uid = 0;
	t->uid = -1;
	if (a->all)
		return 0;
	if (span_user(a->user, &uid, err))
		return -1;
	t->user = a->user;
	t->uid = uid;
	return 0;
}

static int since_ms(const struct track_asked *a, int64_t *ms, struct error *err)
{
	scoped_json *request = json_object();
	if (span_fill(request, a->since, NULL, NULL, err))
		return -1;
	*ms = json_integer_value(json_object_get(request, "from_ms"));
	return 0;
}

/* Waiting ----------------------------------------------------------------------------------------------------------------- */

/* Until then, or a signal. */
static void wait_ms(int64_t ms)
{
	sigset_t blocked, before;
	struct timespec span = { ms / 1000, ms % 1000 * 1000000 };
	sigemptyset(&blocked);
	sigaddset(&blocked, SIGINT);
	sigaddset(&blocked, SIGTERM);
	sigprocmask(SIG_BLOCK, &blocked, &before);
	if (!stopped)
		ppoll(NULL, 0, &span, &before);
	sigprocmask(SIG_SETMASK, &before, NULL);
}

/* What stands in the way, told when it begins and when it is over. */
struct track_away { int64_t since_ms, wait_ms; size_t taken; bool radd; };

static void tell_away(struct track_away *w, const struct track *t, bool once, const struct error *err)
{
	if (!w->since_ms || w->radd != t->radd_failed)
		cli_note("%s: trying again%s", err->text, once ? "" : " until it answers; what runs meanwhile is sent then");
	if (!w->since_ms)
		w->since_ms = clock_mono_ms();
	w->radd = t->radd_failed;
	w->wait_ms = w->wait_ms && t->taken == w->taken ? w->wait_ms * 2 : SOON_MS;
	w->taken = t->taken;
	if (w->wait_ms > LONGEST_MS)
		w->wait_ms = LONGEST_MS;
}

static void tell_back(struct track_away *w)
{
	char span[FORMAT_LEN];
	if (w->since_ms)
		cli_note("it answers again, after %s", format_seconds((double)(clock_mono_ms() - w->since_ms) / 1000, span));
	*w = (struct track_away){ 0 };
}

/* The loop ---------------------------------------------------------------------------------------------------------------- */

static int one_round(struct track *t, const char *experiment, int64_t *left_ms, struct error *err)
{
	*err = ERROR_INIT;
	t->radd_failed = false;
	if (!t->experiment && track_mlflow_experiment(t, experiment, err))
		return -1;
	return track_sync_round(t, left_ms, err);
}

static int report_once(const struct track *t)
{
	printf("%zu new run%s, %zu points\n", t->runs, t->runs == 1 ? "" : "s", t->points);
	return CLI_DONE;
}

static int loop(struct cli_call *c, struct track *t, const struct track_asked *a, const char *experiment, double every_s)
{
	struct track_away away = { 0 };
	struct error err = ERROR_INIT;
	int64_t left_ms = 0;
	for (unsigned tries = 1; !stopped; tries++) {
		if (!one_round(t, experiment, &left_ms, &err)) {
			tell_back(&away);
			if (a->once && !left_ms)
				return report_once(t);
			wait_ms(a->once ? left_ms : (int64_t)(every_s * 1000));
			continue;
		}
		if (stopped)
			break;
		if (err.code != ERR_UNAVAILABLE || (a->once && tries >= ONCE_TRIES)) {
			int rc = cli_fail(c, &err);
			return t->radd_failed ? rc : CLI_FAILED;
		}
		tell_away(&away, t, a->once, &err);
		wait_ms(away.wait_ms);
	}
	return a->once ? CLI_FAILED : CLI_DONE;
}

/* A place that is wrong, or a radd that is not there, is told at once, not tried again and again. */
static int run(struct cli_call *c, const struct track_asked *a, const char *experiment, double every_s)
{
	struct error err = ERROR_INIT;
	char host[256] = "";
	int64_t from_ms;
	struct track t = { .host = host, .stop = &stopped };
	gethostname(host, sizeof host - 1);
	json_make_showable(host);	/* as the cursor has it when it is read again */
	if (set_user(&t, a, &err) || since_ms(a, &from_ms, &err))
		return cli_usage(c, "%s", err.text);
	scoped_json *status = client_call(wire_request("status"), &err);
	if (!status)
		return cli_fail(c, &err);
	scoped_free char *path = a->cursor ? alloc_string(a->cursor) : usual_cursor(a, experiment, &err);
	t.http = path ? track_http_create(a->uri, &stopped, &err) : NULL;
	if (!t.http)
		return cli_fail(c, &err);
	int rc = CLI_DONE;
	if (track_cursor_open(&t.cursor, path, from_ms, &err)) {
		rc = cli_fail(c, &err);
	} else {
		if (!a->once) {
			printf("Tasks of %s go to %s, experiment %s; Ctrl-C ends it, and the next call goes on where it was\n",
			       a->all ? "all users" : a->user, a->uri, experiment);
			fflush(stdout);
		}
		rc = loop(c, &t, a, experiment, every_s);
		track_cursor_close(&t.cursor);
	}
	track_http_destroy(t.http);
	free(t.experiment);
	return rc;
}

int verb_track(struct cli_call *c)
{
	struct track_asked a = { 0 };
	const struct args_option options[] = {
		{ "mlflow", 0, "URI", "the MLflow server: http://HOST:5000 (default: MLFLOW_TRACKING_URI)", .value = &a.uri },
		{ "experiment", 0, "NAME", "experiment there, made if there is none (default: MLFLOW_EXPERIMENT_NAME, else rad)",
		  .value = &a.experiment },
		{ "user", 'u', "USER", "this user's tasks (default: your own)", .value = &a.user },
		{ "all", 0, NULL, "everybody's", .flag = &a.all },
		{ "since", 'S', "TIME", "the first time: tasks that ended since, too: 7d, 2026-11-20 (default: midnight)",
		  .value = &a.since },
		{ "once", 0, NULL, "send what there is, and end", .flag = &a.once },
		{ "interval", 0, "S", "seconds between two looks (default 10)", .value = &a.interval },
		{ "cursor", 0, "FILE", "where to note how far it is", .value = &a.cursor },
		{ 0 },
	};
	struct error err = ERROR_INIT;
	double every_s = EVERY_S;
	if (!cli_options(c, options) || !cli_want_words(c, 0, 0))
		return c->rc;
	if (cli_read_double("interval", a.interval, 1, 3600, &every_s, &err))
		return cli_usage(c, "%s", err.text);
	if (a.all && a.user)
		return cli_usage(c, "--all and --user say whose tasks: give one of them");
	a.uri = a.uri ? a.uri : said("MLFLOW_TRACKING_URI");
	if (!a.uri)
		return cli_usage(c, "where to? --mlflow http://HOST:5000, or MLFLOW_TRACKING_URI");
	char own[FORMAT_LEN];
	a.user = a.user ? a.user : format_user(geteuid(), own);
	const char *experiment = a.experiment ? a.experiment : said("MLFLOW_EXPERIMENT_NAME");
	const struct sigaction action = { .sa_handler = on_signal };
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	return run(c, &a, experiment ? experiment : "rad", every_s);
}
