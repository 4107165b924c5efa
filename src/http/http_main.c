/* SPDX-License-Identifier: MIT
 * rad-http: what `rad exporter` and `rad web` become. Asks radd as any user may, changes nothing, and has no rights that
 * it does not need: started as root, it is somebody else as soon as it listens.
 */
#include "base/scope.h"
#include "base/version.h"
#include "cli/cli.h"
#include "cli/http_options.h"
#include "http/exporter.h"
#include "http/listen.h"
#include "http/log_end.h"
#include "http/web.h"
#include "launch/identity.h"
#include "submit/wire.h"

#include <errno.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <unistd.h>

struct site {
	const char *name;	/* "exporter" or "web" */
	struct http_options options;
	uv_loop_t loop;
	uv_signal_t signals[3];
	struct listen_place place;
	char *socket;		/* radd's */
};

/* What it keeps: its listening socket, and what everybody may. */
static int give_up_rights(const char *user, struct error *err)
{
	const char *name = user ? user : "nobody";
	errno = 0;
	const struct passwd *who = geteuid() ? NULL : getpwnam(name);
	if (!geteuid() && !who)
		return error_set(err, ERR_INVALID, "--user: there is no user '%.60s'", name);
	if (!geteuid() && !who->pw_uid)
		return error_set(err, ERR_INVALID, "--user: '%.60s' is root: name a user without rights", name);
	if (geteuid() && user)
		return error_set(err, ERR_DENIED, "--user: only root can become another user");
	if (who && identity_become(who->pw_uid, who->pw_gid, NULL, err))
		return -1;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_DUMPABLE, 0))
		return error_errno(err, "prctl");
	return chdir("/") ? error_errno(err, "/") : 0;
}

static void on_signal(uv_signal_t *h, int signum)
{
	struct site *p = h->data;
	fprintf(stderr, "rad: %s: %s: ended\n", p->name, strsignal(signum));
	uv_stop(&p->loop);
}

static void close_handle(uv_handle_t *h, void *ctx)
{
	(void)ctx;
	if (!uv_is_closing(h))
		uv_close(h, NULL);
}

static void loop_open(struct site *p)
{
	static const int caught[] = { SIGINT, SIGTERM, SIGHUP };
	uv_loop_init(&p->loop);
	for (size_t i = 0; i < COUNT_OF(caught); i++) {
		uv_signal_init(&p->loop, &p->signals[i]);
		p->signals[i].data = p;
		uv_signal_start(&p->signals[i], on_signal, caught[i]);
		uv_unref((uv_handle_t *)&p->signals[i]);
	}
}

/* What still stands in the loop is closed by its owners by now, but for the signals. */
static void loop_close(struct site *p)
{
	for (size_t i = 0; i < COUNT_OF(p->signals); i++)
		close_handle((uv_handle_t *)&p->signals[i], NULL);
	uv_run(&p->loop, UV_RUN_DEFAULT);
	uv_loop_close(&p->loop);
}

static int run_exporter(struct site *p, struct error *err)
{
	struct exporter *e = exporter_create(&p->loop, p->socket, p->options.tasks, p->options.users);
	const struct serve_config config = { .place = &p->place, .hosts = p->options.hosts, .routes = exporter_routes, .ctx = e };
	struct serve *s = serve_create(&p->loop, &config, err);
	if (s) {
		printf(p->place.path ? "rad exporter: unix:%s\n" : "rad exporter: http://%s/metrics\n", p->place.address);
		fflush(stdout);
		uv_run(&p->loop, UV_RUN_DEFAULT);
		exporter_stop(e);
		serve_destroy(s);
	}
	exporter_destroy(e);
	return s ? 0 : -1;
}

/* 128 bits by chance, as text. */
static int make_token(char token[33], struct error *err)
{
	unsigned char bytes[16];
	if (getrandom(bytes, sizeof bytes, 0) != sizeof bytes)
		return error_errno(err, "a token by chance");
	for (size_t i = 0; i < sizeof bytes; i++)
		snprintf(token + 2 * i, 3, "%02x", bytes[i]);
	return 0;
}

/* Who came by ssh has his browser elsewhere, where this machine's own address is another's. */
static void tell_tunnel(const struct site *p, const char *port, const char *host)
{
	if (getenv("SSH_CONNECTION") && port && !strncmp(p->place.address, "127.", 4))
		fprintf(stderr, "rad web: from where you came by ssh: 'ssh -L %s:%s %s' there, and then the same address\n", port + 1,
			p->place.address, host);
}

/* Where to look. An address that stands for all of the machine's is not one that a browser can open. */
static void tell_address(const struct site *p, const char *token)
{
	const char *port = strrchr(p->place.address, ':');
	bool any = !strncmp(p->place.address, "0.0.0.0:", 8) || !strncmp(p->place.address, "[::]:", 5);
	char host[256] = "";
	gethostname(host, sizeof host - 1);
	if (p->place.path)
		printf("rad web: unix:%s\n", p->place.path);
	else
		printf("rad web: http://%s%s/%s%s\n", any ? host : p->place.address, any ? port : "", token ? "#token=" : "",
		       token ? token : "");
	fflush(stdout);
	tell_tunnel(p, port, host);
}

static int run_web(struct site *p, struct error *err)
{
	char made[33];
	const char *token = p->place.path || p->options.no_token ? NULL : made;
	if (token && make_token(made, err))
		return -1;
	struct web *w = web_create(&p->loop, p->socket, token != NULL);
	const struct serve_config config = { .place = &p->place, .hosts = p->options.hosts, .token = token, .routes = web_routes,
					     .ctx = w, .fill = web_fill, .streams_changed = web_streams };
	struct serve *s = serve_create(&p->loop, &config, err);
	if (s) {
		web_serve(w, s);
		tell_address(p, token);
		uv_run(&p->loop, UV_RUN_DEFAULT);
		web_serve(w, NULL);
		serve_destroy(s);
	}
	web_destroy(w);
	return s ? 0 : -1;
}

/* Each answer would be that alone, and whoever started it would learn of it from the first browser. */
static void tell_unreachable(const struct site *p)
{
	if (access(p->socket, W_OK) && errno == EACCES)
		fprintf(stderr, "rad: %s: uid %u, which asks radd, may not reach %s: started as root, --user=NAME has another ask\n", p->name,
			(unsigned)geteuid(), p->socket);
}

static int run(struct site *p, bool web, struct error *err)
{
	const char *standard = web ? HTTP_OPTIONS_WEB : HTTP_OPTIONS_EXPORTER;
	p->socket = wire_socket_path();	/* before its uid is another */
	int rc = listen_open(&p->place, p->options.listen ? p->options.listen : standard, p->options.network, p->options.group,
			     err);
	if (!rc && !(rc = give_up_rights(p->options.user, err))) {
		tell_unreachable(p);
		loop_open(p);
		rc = web ? run_web(p, err) : run_exporter(p, err);
		loop_close(p);
	}
	listen_close(&p->place);
	free(p->socket);
	return rc;
}

int main(int argc, char **argv)
{
	static const char said[] = "rad-http: started by rad exporter and rad web; there is nothing to do with it by hand\n";
	bool web = argc > 1 && !strcmp(argv[1], "web");
	if (argc > 1 && !strcmp(argv[1], "--version"))
		return printf("rad-http %s\n", version_build) < 0;
	if (argc == 2 && !strcmp(argv[1], LOG_END_WORD))
		return log_end_main();
	if (!web && (argc < 2 || strcmp(argv[1], "exporter")))
		return fputs(said, stderr) < 0 ? CLI_FAILED : CLI_USAGE;
	struct site p = { .name = argv[1], .place.fd = -1 };
	struct args_option rows[HTTP_OPTIONS_ROWS];
	struct args args;
	struct error err = ERROR_INIT;
	signal(SIGPIPE, SIG_IGN);
	http_options_rows(&p.options, web, rows);
	int failed = args_read(&args, argc - 1, argv + 1, rows, ARGS_ANYWHERE, &err) || run(&p, web, &err);
	args_clear(&args);
	if (failed)
		fprintf(stderr, "rad: %s: %s\n", p.name, err.text);
	return failed ? cli_code(&(struct cli_call){ .verb = NULL }, &err) : CLI_DONE;
}
