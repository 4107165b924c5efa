/* SPDX-License-Identifier: MIT
 * radd: its command line, its other lives (`radd --sampler`, `--estimate`, `--read`, `--name`), and the line to whoever waits
 * for it.
 */
#include "base/log.h"
#include "base/units.h"
#include "daemon/daemon.h"
#include "daemon/estimating.h"
#include "daemon/names.h"
#include "daemon/reading.h"
#include "daemon/reaper.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct option long_options[] = {
	{ "devices", required_argument, NULL, 'd' },
	{ "config", required_argument, NULL, 'c' },
	{ "state", required_argument, NULL, 's' },
	{ "socket", required_argument, NULL, 'S' },
	{ "foreground", no_argument, NULL, 'f' },
	{ "log-level", required_argument, NULL, 'l' },
	{ "check-config", no_argument, NULL, 'C' },
	{ "ready-fd", required_argument, NULL, 'r' },
	{ "help", no_argument, NULL, 'h' },
	{ "version", no_argument, NULL, 'V' },
	{ NULL, 0, NULL, 0 },
};

static void usage(FILE *out)
{
	fprintf(out,
		"Usage: radd [options]\n"
		"The RAD-RM daemon: accepts tasks, watches the GPUs, places and runs tasks.\n\n"
		"  --devices nvml | sim:SPEC | sim:FILE.yaml   where GPUs come from (default nvml)\n"
		"  --config FILE      settings (default /etc/rad/rad.conf, or ~/.config/rad/rad.conf)\n"
		"  --state DIR        where the queue and the history are kept\n"
		"  --socket PATH      where rad finds it\n"
		"  --foreground       stay in the foreground (it always does; for service files)\n"
		"  --log-level LEVEL  error, warn, info or debug\n"
		"  --check-config     read the settings, print every key, and exit\n"
		"  --help, --version\n\n"
		"Settings: rad.conf(5). More: radd(8).\n");
}

static int check_config(const char *path)
{
	struct error err = ERROR_INIT;
	struct config c = config_default();
	int rc = path ? config_read(path, true, &c, &err) : 0;
	if (rc)
		fprintf(stderr, "radd: %s\n", err.text);
	else
		config_describe(stdout);
	config_clear(&c);
	return rc ? 1 : 0;
}

static int parse_options(int argc, char **argv, struct daemon_options *o, bool *check, struct error *err)
{
	int c;
	int64_t fd;
	enum log_level level;
	while ((c = getopt_long(argc, argv, "", long_options, NULL)) != -1) {
		switch (c) {
		case 'd': o->devices = optarg; break;
		case 'c': o->config_path = optarg; break;
		case 's': o->state_dir = optarg; break;
		case 'S': o->socket_path = optarg; break;
		case 'f': break;
		case 'C': *check = true; break;
		case 'l':
			if (!log_level_parse(optarg, &level))
				return error_set(err, ERR_INVALID, "--log-level '%.40s': error, warn, info or debug", optarg);
			log_set_level(level);
			break;
		case 'r':
			if (units_parse_int(optarg, 3, 1 << 20, &fd, err))
				return error_wrap(err, "--ready-fd");
			o->ready_fd = (int)fd;
			break;
		case 'h': usage(stdout); exit(0);
		case 'V': printf("radd %s\n", RAD_VERSION); exit(0);
		default: return error_set(err, ERR_INVALID, "see radd --help");
		}
	}
	if (optind < argc)
		return error_set(err, ERR_INVALID, "'%.60s': radd takes options only; see radd --help", argv[optind]);
	return 0;
}

/* Whoever started us in the background learns how it went: "ok", or the error. */
static void report(int fd, const char *text)
{
	if (fd < 0)
		return;
	dprintf(fd, "%s\n", text);
	close(fd);
}

int main(int argc, char **argv)
{
	struct daemon_options o = { .ready_fd = -1 };
	struct error err = ERROR_INIT;
	bool check = false;
	char self[4096];
	ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
	if (argc >= 2 && !strcmp(argv[1], "--sampler"))
		return sampler_main(argc, argv);
	if (argc == 2 && !strcmp(argv[1], "--estimate"))
		return estimating_worker(estimators);
	if (argc == 2 && !strcmp(argv[1], "--read"))
		return reading_worker();
	if (argc == 2 && !strcmp(argv[1], "--name"))
		return names_worker();
	if (parse_options(argc, argv, &o, &check, &err)) {
		fprintf(stderr, "radd: %s\n", err.text);
		return 2;
	}
	if (check)
		return check_config(o.config_path);
	self[n > 0 ? n : 0] = 0;
	reaper_start();
	struct daemon *d = daemon_create(&o, n > 0 ? self : argv[0], &err);
	if (!d) {
		fprintf(stderr, "radd: %s\n", err.text);
		report(o.ready_fd, err.text);
		return 1;
	}
	report(o.ready_fd, "ok");
	daemon_run(d);
	int rc = d->store_failed ? 1 : 0;
	daemon_destroy(d);
	return rc;
}
