/* SPDX-License-Identifier: MIT
 * radd: its command line, its other lives (`radd --sampler`, `--estimate`, `--read`, `--name`, `--groups`, `--nobody`,
 * `--notify`), and the line to whoever waits for it.
 */
#include "base/args.h"
#include "base/io.h"
#include "base/json.h"
#include "base/log.h"
#include "base/paths.h"
#include "base/scope.h"
#include "base/units.h"
#include "base/version.h"
#include "daemon/daemon.h"
#include "daemon/estimating.h"
#include "daemon/hooks.h"
#include "daemon/jobmap.h"
#include "daemon/names.h"
#include "daemon/nobody.h"
#include "daemon/lookup.h"
#include "daemon/notifying.h"
#include "daemon/reaper.h"
#include "device/device.h"
#include "monitor/sampler.h"
#include "settings/settings.h"
#include "submit/wire.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define EXIT_NO_DRIVER 69	/* EX_UNAVAILABLE of sysexits.h; the unit does not start again after it (share/systemd) */

/* What the command line says. */
struct words {
	struct daemon_options o;
	const char *log_level, *ready_fd;
	bool foreground, check, json, version;
};

static void print_help(const struct args_option *options)
{
	printf("Usage: radd [options]\n"
	       "The RAD-RM daemon: accepts tasks, watches the GPUs, places and runs tasks.\n\n");
	args_help(stdout, options, 0);
	printf("\nSettings: rad.conf(5). More: radd(8).\n");
}

static void print_mistake(void *ctx, const char *text)
{
	(void)ctx;
	fprintf(stderr, "radd: %s\n", text);
}

/* The settings that a radd started in this place would have, and whence, and all that a start would refuse for them, without
 * being one: nothing is locked, opened for writing or run. */
static int check_config(const struct words *w)
{
	struct settings s;
	struct error err = ERROR_INIT;
	int rc = settings_load(&s, w->o.config_path, w->o.devices, print_mistake, NULL, NULL);
	scoped_json *list = rc || !w->json ? NULL : settings_json(&s);
	scoped_free char *text = list ? json_to_text(list) : NULL;
	if (text)
		puts(text);
	else if (!rc)
		settings_write(&s, stdout);
	fflush(stdout);
	if (!rc && hooks_check(&s, print_mistake, NULL))
		rc = 1;
	if (!rc && device_check(s.devices, &err)) {
		print_mistake(NULL, err.text);
		rc = 1;
	}
	if (!rc && jobmap_check(s.dcgm_job_mapping, &err)) {
		fprintf(stderr, "radd: dcgm_job_mapping: %s\n", err.text);
		rc = 1;
	}
	settings_clear(&s);
	return rc || fflush(stdout) ? 1 : 0;
}

static int understand(struct words *w, struct error *err)
{
	int64_t fd;
	enum log_level level;
	if (w->log_level && !log_level_parse(w->log_level, &level))
		return error_set(err, ERR_INVALID, "--log-level '%.40s': error, warn, info or debug", w->log_level);
	if (w->log_level)
		log_set_level(level);
	if (w->ready_fd && units_parse_int(w->ready_fd, 3, 1 << 20, &fd, err))
		return error_wrap(err, "--ready-fd");
	if (w->ready_fd)
		w->o.ready_fd = (int)fd;
	if (w->json && !w->check)
		return error_set(err, ERR_INVALID, "--json goes with --check-config; see radd --help");
	if (w->o.state_dir && !*w->o.state_dir)
		return error_set(err, ERR_INVALID, "--state is empty: name a folder, or leave it out");
	if (w->o.socket_path && !*w->o.socket_path)
		return error_set(err, ERR_INVALID, "--socket is empty: name a path, or leave it out");
	return 0;
}

/* 1: all is said and done. */
static int read_command_line(int argc, char **argv, struct words *w, struct error *err)
{
	const struct args_option options[] = {
		{ "devices", 0, "LIST", "where GPUs come from: nvml, sim:SPEC, sim:FILE.yaml (nvml)", .value = &w->o.devices },
		{ "config", 0, "FILE", "settings (/etc/rad/rad.conf, or ~/.config/rad/rad.conf)", .value = &w->o.config_path },
		{ "state", 0, "DIR", "where the queue and the history are kept", .value = &w->o.state_dir },
		{ "socket", 0, "PATH", "where rad finds it", .value = &w->o.socket_path },
		{ "foreground", 0, NULL, "stay in the foreground (it always does; for service files)", .flag = &w->foreground },
		{ "log-level", 0, "LEVEL", "error, warn, info or debug", .value = &w->log_level, .words = "error warn info debug" },
		{ "check-config", 0, NULL, "print the settings it would run with, and where each is from", .flag = &w->check },
		{ "json", 0, NULL, "the same as JSON", .flag = &w->json },
		{ "version", 'V', NULL, "show its release", .flag = &w->version },
		{ "ready-fd", 0, "N", NULL, .value = &w->ready_fd },
		{ 0 },
	};
	struct args a;
	struct error wrong = ERROR_INIT;
	int rc = args_read(&a, argc, argv, options, ARGS_ANYWHERE, &wrong);
	if (rc)
		error_set(err, wrong.code, "%s; see radd --help", wrong.text);
	else if (a.help)
		print_help(options);
	else if (w->version)
		printf("radd %s\n", version_build);
	else if (a.n_words)
		rc = error_set(err, ERR_INVALID, "'%.60s': radd takes options only; see radd --help", a.words[0]);
	else
		rc = understand(w, err);
	bool done = !rc && (a.help || w->version);
	args_clear(&a);
	return done ? 1 : rc;
}

/* Whoever started us in the background learns how it went: "ok", or the error. */
static void report(int fd, const char *text)
{
	if (fd < 0)
		return;
	dprintf(fd, "%s\n", text);
	close(fd);
}

/* Its other lives: each a process of its own, started by radd itself, with words that are no options of radd's; so this is
 * asked before the command line is read. -1: it is none of them. */
static int other_life(int argc, char **argv)
{
	if (argc >= 2 && !strcmp(argv[1], "--sampler"))
		return sampler_main(argc, argv);
	if (argc == 2 && !strcmp(argv[1], "--estimate"))
		return estimating_worker(estimators);
	if (argc == 2 && !strcmp(argv[1], "--read"))
		return lookup_worker();
	if (argc == 2 && !strcmp(argv[1], "--name"))
		return names_worker();
	if (argc == 2 && !strcmp(argv[1], "--groups"))
		return names_groups_worker();
	if (argc == 2 && !strcmp(argv[1], "--nobody"))
		return nobody_worker();
	if (argc >= 2 && !strcmp(argv[1], "--notify"))
		return notifying_worker(argc, argv);
	return -1;
}

/* The radd that everybody on this machine asks for: it stands where they look. */
static bool for_everybody(const struct daemon_options *o)
{
	scoped_free char *said = wire_said_socket();
	return !geteuid() && !o->socket_path && !said;
}

/* sd_notify(3), which is no more than this: who starts the service learns whether it came up. */
static void tell_systemd(void)
{
	const char *path = getenv("NOTIFY_SOCKET");
	struct sockaddr_un to = { .sun_family = AF_UNIX };
	size_t n = path ? strlen(path) : 0;
	if (!n || n >= sizeof to.sun_path)
		return;
	memcpy(to.sun_path, path, n);
	if (*path == '@')	/* an abstract one */
		to.sun_path[0] = 0;
	scoped_fd int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	sendto(fd, "READY=1", strlen("READY=1"), MSG_NOSIGNAL, (struct sockaddr *)&to,
	       (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n));
	unsetenv("NOTIFY_SOCKET");
}

/* The reaper first: as process 1 it forks, and all that is opened or locked from here on must be the child's alone. Whoever
 * waits on the descriptor is told in both cases, or a start that failed would look like one that takes long. */
static int serve(const struct daemon_options *o, const char *program)
{
	struct error err = ERROR_INIT;
	bool heard = for_everybody(o);
	reaper_start();
	struct daemon *d = daemon_create(o, program, &err);
	if (heard)
		wire_leave_words(d ? NULL : err.text);
	if (!d) {
		fprintf(stderr, "radd: %s\n", err.text);
		report(o->ready_fd, err.text);
		return err.code == ERR_NOT_FOUND ? EXIT_NO_DRIVER : 1;
	}
	report(o->ready_fd, "ok");
	tell_systemd();
	int rc = daemon_run(d);
	daemon_destroy(d);
	if (heard && rc)
		wire_leave_words("its store could not be written (no room, or a failing disk), so it ended: journalctl -u radd "
				 "names the file");
	return rc;
}

/* Where the shim is, for as long as this radd runs: a program that is moved away under it (pip does that, to a folder in /tmp,
 * before it writes the newer one) takes /proc/self/exe along, and tasks started from there would be started by whoever owns it.
 */
static void keep_shim(void)
{
	scoped_free char *shim = paths_beside("rad-shim");
	if (shim)
		setenv("RAD_SHIM", shim, 0);
}

/* 0, 1, 2 and 69: radd(8), EXIT STATUS. */
int main(int argc, char **argv)
{
	struct words w = { .o = { .ready_fd = -1 } };
	struct error err = ERROR_INIT;
	char self[4096];
	ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
	prctl(PR_SET_NAME, "radd");	/* also where it was started from /proc/self/exe (paths_again) */
	io_fill_standard();
	log_never_wait();
	int rc = other_life(argc, argv);
	if (rc >= 0)
		return rc;
	rc = read_command_line(argc, argv, &w, &err);
	if (rc < 0)
		fprintf(stderr, "radd: %s\n", err.text);
	if (rc)
		return rc < 0 ? 2 : 0;
	if (w.check)
		return check_config(&w);
	self[n > 0 ? n : 0] = 0;
	keep_shim();
	return serve(&w.o, n > 0 ? self : argv[0]);
}
