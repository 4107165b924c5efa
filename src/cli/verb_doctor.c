/* SPDX-License-Identifier: MIT
 * rad doctor: what usually stands in the way, one line each, with what to do. Changes nothing.
 */
#include "base/alloc.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/scope.h"
#include "base/units.h"
#include "cli/cli.h"
#include "cli/client.h"
#include "cli/member.h"
#include "cli/term.h"
#include "device/device.h"
#include "launch/cgroup.h"
#include "launch/mps.h"
#include "monitor/sampler.h"
#include "settings/settings.h"
#include "store/store.h"
#include "submit/wire.h"

#include <math.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#define DRIVER_MS 10000		/* the first call of a driver may take seconds */
#define SERVER_SETTINGS "/etc/rad/rad.conf"
#define LOW_DISK ((uint64_t)1 << 30)

enum grade { GRADE_OK, GRADE_WARN, GRADE_FAIL };

struct doctor {
	struct term term;
	json_t *checks;		/* [{check, grade, text}] */
	json_t *status, *gpus;	/* of the daemon; NULL when there is none */
	struct device *device;	/* the daemon's, or what one would have without settings */
	bool json, failed;
};

static void report(struct doctor *d, enum grade grade, const char *check, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

static void report(struct doctor *d, enum grade grade, const char *check, const char *fmt, ...)
{
	static const char *const words[] = { "ok", "warn", "fail" };
	static const enum style styles[] = { STYLE_GOOD, STYLE_WARN, STYLE_BAD };
	char text[1400];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	scoped_free char *clean = term_text(text, 0, &d->term);
	d->failed = d->failed || grade == GRADE_FAIL;
	json_array_append_new(d->checks, json_pack("{ss, ss, ss}", "check", check, "grade", words[grade], "text", clean));
	scoped_free char *lines = term_wrap(text, 17, &d->term);
	if (!d->json)
		printf("%s%-4s%s  %-9s  %s\n", term_style(&d->term, styles[grade]), words[grade], term_style(&d->term, STYLE_PLAIN),
		       check, lines);
}

/* ---- daemon ---- */

static void report_setting(void *d, const char *text)
{
	report(d, GRADE_FAIL, "settings", "%s", text);
}

/* Of a radd that does not answer: each mistake it would find in its file, and the devices it would have: those that the file
 * says, whatever is wrong with the rest of it. NULL: not known. */
static struct device *check_settings(struct doctor *d)
{
	struct settings s;
	struct error err = ERROR_INIT;
	bool machines = client_server() && !access(SERVER_SETTINGS, F_OK);	/* not those of a radd of the caller's */
	settings_load(&s, machines ? SERVER_SETTINGS : NULL, NULL, report_setting, d, NULL);
	if (device_check(s.devices, &err))
		report_setting(d, err.text);
	struct device *found = device_create(s.devices, NULL, NULL);
	settings_clear(&s);
	return found;
}

static void check_daemon(struct doctor *d)
{
	struct error err = ERROR_INIT;
	scoped_free char *socket = wire_socket_path(), *words = client_server() ? wire_last_words() : NULL;
	const char *devices = "";
	d->status = client_call(wire_request("status"), &err);
	if (d->status) {
		d->gpus = client_call(wire_request("gpus"), &err);
		devices = member_text(d->status, "devices");
		/* Which GPUs are used, its environment decided, not the caller's. */
		unsetenv("CUDA_VISIBLE_DEVICES");
	}
	if (!d->status && err.code == ERR_UNAVAILABLE)
		report(d, words ? GRADE_FAIL : GRADE_WARN, "daemon", "%s", err.text);
	else if (!d->gpus)
		report(d, GRADE_FAIL, "daemon", "%s", err.text);
	else if (strcmp(member_text(d->status, "version"), RAD_VERSION))
		report(d, GRADE_WARN, "daemon", "radd is %s, rad is %s: restart radd (tasks go on)", member_text(d->status, "version"),
		       RAD_VERSION);
	else
		report(d, GRADE_OK, "daemon", "radd %s, pid %lld, on %s, devices %s", member_text(d->status, "version"),
		       (long long)member_int(d->status, "pid"), socket, devices);
	d->device = d->status ? device_create(devices, NULL, NULL) : check_settings(d);
	if (!d->device)
		d->device = device_create("nvml", NULL, NULL);
}

static void check_programs(struct doctor *d)
{
	static const char *const names[] = { "radd", "rad-shim" };
	for (size_t i = 0; i < COUNT_OF(names); i++) {
		scoped_free char *path = client_find_program(names[i]);
		if (!path)
			report(d, GRADE_FAIL, "programs", "%s is neither beside rad nor in PATH: install it whole", names[i]);
		else if (i == 0)
			report(d, GRADE_OK, "programs", "%s", path);
	}
}

/* What the daemon itself found wanting. */
static void check_troubles(struct doctor *d)
{
	size_t i;
	json_t *one;
	json_array_foreach(json_object_get(d->status, "troubles"), i, one)
		report(d, GRADE_WARN, member_text(one, "check"), "%s", member_text(one, "text"));
}

/* ---- driver and devices ---- */

static void check_readings(struct doctor *d, const struct snapshot *s)
{
	size_t gpm = 0, memory = 0;
	for (size_t i = 0; i < s->n_gpus; i++) {
		gpm += !!(s->gpus[i].valid & GPU_SMACT);
		memory += !!(s->gpus[i].valid & GPU_PROC_MEM);
	}
	scoped_free char *which = snapshot_describe(s);
	report(d, s->n_gpus ? GRADE_OK : GRADE_FAIL, "driver", "answers, and shows %s", which);
	if (gpm < s->n_gpus)
		report(d, GRADE_WARN, "activity", "SMACT can be read of %zu of %u GPUs: those before Hopper need DCGM (install "
		       "datacenter-gpu-manager and start nvidia-dcgm); without it max_tasks decides", gpm, s->n_gpus);
	if (memory < s->n_gpus)
		report(d, GRADE_WARN, "activity", "memory per process can be read of %zu of %u GPUs: where it cannot, claims are "
		       "held for life", memory, s->n_gpus);
}

/* Asks the driver as radd does: in a process of its own, that may hang. */
static void check_driver(struct doctor *d)
{
	struct error err = ERROR_INIT;
	scoped_free char *radd = client_find_program("radd");
	struct snapshot s = { 0 };
	bool needed = device_kind(d->device)->needs_driver;
	if (!needed)
		report(d, GRADE_OK, "driver", "none is needed: radd's GPUs are simulated; with it stopped, "
		       "RAD_DEVICES=nvml rad doctor checks the real ones");
	if (!radd || !needed)
		return;
	/* Activity is measured between two samples: the second one tells whether it can be read. */
	struct sampler *sampler = sampler_create(radd, d->device, 250);
	int rc = sampler_start(sampler, &err) ? -1 : 0, samples = 0;
	for (int64_t until = clock_mono_ms() + DRIVER_MS, left; rc >= 0 && samples < 2 && (left = until - clock_mono_ms()) > 0;) {
		struct pollfd p = { sampler_fd(sampler), POLLIN, 0 };
		poll(&p, 1, (int)left);
		snapshot_clear(&s);
		rc = sampler_read(sampler, &s, &err);
		samples += rc > 0;
	}
	rc = rc < 0 ? -1 : samples;
	if (rc < 0)
		report(d, d->status ? GRADE_WARN : GRADE_FAIL, "driver", "%s", err.text);
	else if (!rc)
		report(d, GRADE_FAIL, "driver", "does not answer in %d s: see dmesg for Xid errors; a reboot may be needed",
		       DRIVER_MS / 1000);
	else
		check_readings(d, &s);
	snapshot_clear(&s);
	sampler_destroy(sampler);
}

/* A GPU's instances follow each other and share its index: it counts once. */
static void report_used(struct doctor *d, const json_t *gpus, size_t n)
{
	scoped_buf list = { 0 };
	json_int_t last = -1, others = member_int(d->status, "other_gpus");
	size_t i, whole = 0;
	json_t *g;
	json_array_foreach(gpus, i, g) {
		if (member_int(g, "index") == last)
			continue;
		last = member_int(g, "index");
		buf_printf(&list, "%s%lld", whole++ ? ", " : "", (long long)last);
	}
	if (n && others > 0)
		report(d, GRADE_OK, "gpus", "radd uses %s of the machine's %lld (radd(8), WHICH GPUS)", buf_text(&list),
		       (long long)whole + others);
	else
		report(d, n ? GRADE_OK : GRADE_FAIL, "gpus", n ? "radd sees %zu" : "radd sees %zu: nothing can run", n);
}

static void check_gpus(struct doctor *d)
{
	size_t i, n = 0;
	json_t *g;
	const json_t *gpus = json_object_get(d->gpus, "gpus");
	json_array_foreach(gpus, i, g) {
		double foreign = member_number(g, "mem_foreign_mib");
		if (json_is_true(json_object_get(g, "stale")))
			report(d, GRADE_FAIL, "gpus", "GPU %lld does not answer: see nvidia-smi, and dmesg for Xid errors",
			       (long long)member_int(g, "index"));
		else if (json_array_size(json_object_get(g, "claims")))
			report(d, GRADE_OK, "gpus", "GPU %lld: another daemon of this machine has tasks there, so it is left alone (rad gpus -v)",
			       (long long)member_int(g, "index"));
		else if (foreign > 1024)
			report(d, GRADE_WARN, "gpus", "GPU %lld: processes that RAD-RM did not start hold %.1f GiB (rad gpus -v)",
			       (long long)member_int(g, "index"), foreign / 1024);
		n++;
	}
	if (d->gpus)
		report_used(d, gpus, n);
}

/* ---- the machine ---- */

/* Of a radd of root's: whose tasks run under one server. What that gives up is said where it holds. */
static void report_mps_users(struct doctor *d)
{
	const char *users = d->status ? member_text(d->status, "mps_users") : "";
	bool together = !strcmp(users, "together");
	bool wanted = d->status && !strcmp(member_text(d->status, "mps_users_wanted"), "together");
	if (!*users || member_int(d->status, "uid"))
		report(d, GRADE_OK, "mps", MPS_CONTROL " is there");
	else if (together)
		report(d, GRADE_OK, "mps", "one server for all users: a task's fatal fault ends the tasks of all users under MPS on its "
		       "GPUs, which run again by themselves (mps_users: apart keeps users apart)");
	else if (wanted)
		report(d, GRADE_WARN, "mps", "a server for each user, who take turns on a GPU, though mps_users is together: %s; a newer "
		       "driver and a restart of radd allow it", member_text(d->status, "mps_users_why"));
	else
		report(d, GRADE_OK, "mps", "a server for each user, who take turns on a GPU (mps_users: apart)");
}

static void check_mps(struct doctor *d)
{
	const struct device_kind *kind = device_kind(d->device);
	if (kind->mps == DEVICE_MPS_NONE)
		report(d, GRADE_OK, "mps", "these GPUs have none: they are shared by time slicing (streams)");
	else if (kind->mps == DEVICE_MPS_FILE)
		report(d, GRADE_OK, "mps", "simulated as well");
	else if (mps_available(kind))
		report_mps_users(d);
	else
		report(d, GRADE_WARN, "mps", MPS_CONTROL " is not in PATH: GPUs are shared by time slicing (streams) instead");
}

/* Nothing to mend: it is what the times and loads are told with that radd and rad estimate expect of tasks. */
static void check_host(struct doctor *d)
{
	const json_t *host = json_object_get(d->status, "host_pace");
	if (json_is_object(host))
		report(d, GRADE_OK, "host", "what it launches takes %.2f times as long as where loads were modelled, by %lld task%s seen "
		       "alone: so it is expected of others", member_number(host, "pace"), (long long)member_int(host, "tasks"),
		       member_int(host, "tasks") == 1 ? "" : "s");
}

/* Whether radd can make groups there: the machine's does, whatever its users may. */
static bool may_write(const char *path, pid_t radd)
{
	struct stat st;
	scoped_free char *proc = alloc_printf("/proc/%d", (int)radd);
	return !access(path, W_OK) || (!stat(proc, &st) && !st.st_uid && geteuid());
}

static void check_cgroup(struct doctor *d)
{
	char path[PATH_MAX];
	pid_t of = d->status ? (pid_t)member_int(d->status, "pid") : getpid();
	if (cgroup_path(of, "rad-doctor", path)) {
		report(d, GRADE_WARN, "cgroup", "no cgroup version 2: tasks are told apart by their processes' parents alone");
		return;
	}
	*strrchr(path, '/') = 0;
	if (!may_write(path, of))
		report(d, GRADE_WARN, "cgroup", "%s cannot be written to: tasks are told apart by their processes' parents alone "
		       "(a service file with Delegate=yes allows it)", path);
	else
		report(d, GRADE_OK, "cgroup", "%s", path);
}

static void check_state(struct doctor *d)
{
	scoped_free char *own = wire_own_state_dir();
	const char *dir = d->status ? member_text(d->status, "state_dir") : own;
	struct statvfs fs;
	char room[32];
	if (access(dir, F_OK)) {
		report(d, GRADE_OK, "state", "%s will be made", dir);
		return;
	}
	if (store_network_folder(dir)) {
		report(d, GRADE_FAIL, "state", "%s is on a network file system (%s), where locks are not safe: radd --state "
		       "/var/tmp/rad-%u", dir, store_network_folder(dir), (unsigned)geteuid());
		return;
	}
	if (statvfs(dir, &fs))
		return;
	uint64_t bytes = (uint64_t)fs.f_bavail * fs.f_frsize;
	report(d, bytes < LOW_DISK ? GRADE_WARN : GRADE_OK, "state", "%s, %s of room%s", dir,
	       units_format_mib((double)bytes / MIB, room, sizeof room), bytes < LOW_DISK ? ": soon no task can be accepted" : "");
}

/* A store from the future means that the clock was set back: times of tasks would be wrong. */
static void check_clock(struct doctor *d)
{
	int64_t started;
	if (!d->status || clock_parse_iso(member_text(d->status, "start_time"), &started))
		return;
	if (started > clock_wall_ms())
		report(d, GRADE_WARN, "clock", "radd was started in the future: the clock was set back, and times of tasks are wrong "
		       "by that");
	else
		report(d, GRADE_OK, "clock", "agrees with radd's");
}

static void check_home(struct doctor *d)
{
	const char *home = getenv("HOME");
	if (geteuid() && home && *home == '/' && store_network_folder(home))
		report(d, GRADE_WARN, "home", "your home folder is on a network (%s): a radd of your own needs --state on a local "
		       "disk, such as /var/tmp/rad-%u", store_network_folder(home), (unsigned)geteuid());
}

int verb_doctor(struct cli_call *c)
{
	struct doctor d = { .term = term_ask(), .checks = json_array() };
	const struct args_option options[] = { { "json", 0, NULL, "print JSON", .flag = &d.json }, { 0 } };
	static void (*const checks[])(struct doctor *) = {
		check_daemon, check_troubles, check_programs, check_driver, check_gpus, check_host, check_mps, check_cgroup, check_state,
		check_home, check_clock,
	};
	if (!cli_options(c, options) || !cli_want_words(c, 0, 0)) {
		json_decref(d.checks);
		return c->rc;
	}
	for (size_t i = 0; i < COUNT_OF(checks); i++)
		checks[i](&d);
	if (d.json)
		cli_print_json(json_pack("{si, sb, sO}", "schema", 1, "ok", !d.failed, "checks", d.checks));
	json_decref(d.checks);
	json_decref(d.status);
	json_decref(d.gpus);
	device_destroy(d.device);
	return d.failed ? CLI_FAILED : CLI_DONE;
}
