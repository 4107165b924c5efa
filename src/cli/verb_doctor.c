/* SPDX-License-Identifier: MIT
 * rad doctor: what usually stands in the way, one line each, with what to do. Changes nothing.
 */
#include "base/alloc.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/io.h"
#include "base/json.h"
#include "base/scope.h"
#include "base/units.h"
#include "cli/cli.h"
#include "cli/client.h"
#include "cli/doctor.h"
#include "cli/doctor_captures.h"
#include "cli/doctor_driver.h"
#include "cli/format.h"
#include "cli/member.h"
#include "cli/releases.h"
#include "device/device.h"
#include "launch/cgroup.h"
#include "launch/mps.h"
#include "map/map.h"
#include "settings/settings.h"
#include "store/store.h"
#include "submit/wire.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#define ANSWER_S 5		/* radd is given that long */
#define SERVER_SETTINGS "/etc/rad/rad.conf"
#define LOW_DISK ((uint64_t)1 << 30)

/* ---- daemon ---- */

static void report_setting(void *d, const char *text)
{
	doctor_say(d, GRADE_FAIL, "settings", "%s", text);
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
	scoped_free char *socket = wire_socket_path(), *words = NULL, *differ = NULL;
	const char *devices = "";
	scoped_fd int fd = client_connect_now(&err);
	d->status = client_call_within(fd, ANSWER_S, wire_request("status"), &err);
	if (d->status) {
		d->gpus = client_call_within(fd, ANSWER_S, wire_request("gpus"), &err);
		devices = member_text(d->status, "devices");
		/* Which GPUs are used, its environment decided, not the caller's. */
		unsetenv("CUDA_VISIBLE_DEVICES");
	}
	if (!d->status && err.code == ERR_UNAVAILABLE && client_server())
		words = client_why_down();
	if (!d->status && err.code == ERR_UNAVAILABLE)
		doctor_say(d, words || fd >= 0 ? GRADE_FAIL : GRADE_WARN, "daemon", "%s", err.text);
	else if (!d->gpus)
		doctor_say(d, GRADE_FAIL, "daemon", "%s", err.text);
	else if ((differ = releases_advice(d->status)))
		doctor_say(d, GRADE_WARN, "daemon", "%s", differ);
	else
		doctor_say(d, GRADE_OK, "daemon", "radd %s, pid %lld, on %s, devices %s", member_text(d->status, "version"),
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
			doctor_say(d, GRADE_FAIL, "programs", "%s is neither beside rad nor in PATH: install RAD-RM again", names[i]);
		else if (i == 0)
			doctor_say(d, GRADE_OK, "programs", "%s", path);
	}
}

/* What the daemon itself found wanting. */
static void check_troubles(struct doctor *d)
{
	size_t i;
	json_t *one;
	json_array_foreach(json_object_get(d->status, "troubles"), i, one)
		doctor_say(d, GRADE_WARN, member_text(one, "check"), "%s", member_text(one, "text"));
}

/* ---- devices ---- */

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
		doctor_say(d, GRADE_OK, "gpus", "radd uses %s of the machine's %lld (radd(8), WHICH GPUS)", buf_text(&list),
		       (long long)whole + others);
	else
		doctor_say(d, n ? GRADE_OK : GRADE_FAIL, "gpus", n ? "radd sees %zu" : "radd sees %zu: nothing can run", n);
}

static void report_foreign(struct doctor *d, const json_t *g, double gib)
{
	bool seen = json_array_size(json_object_get(g, "processes"));
	char number[FORMAT_LEN];
	doctor_say(d, GRADE_WARN, "gpus", "GPU %s: %s hold%s %.1f GiB; above 1 GiB it gets no task, unless rad.conf says foreign: "
		      "share", format_gpu(g, json_object_get(d->gpus, "gpus"), number),
		      seen ? "processes that RAD-RM did not start (rad gpus -v)" :
		      "what the driver names no process for (a display, another container)", seen ? "" : "s", gib);
}

static void check_gpus(struct doctor *d)
{
	char number[FORMAT_LEN];
	size_t i, n = 0;
	json_t *g;
	const json_t *gpus = json_object_get(d->gpus, "gpus");
	json_array_foreach(gpus, i, g) {
		double foreign = member_number(g, "mem_foreign_mib");
		if (json_is_true(json_object_get(g, "stale")))
			doctor_say(d, GRADE_FAIL, "gpus", "GPU %s does not answer: see nvidia-smi, and dmesg for Xid errors",
				   format_gpu(g, gpus, number));
		else if (json_array_size(json_object_get(g, "claims")))
			doctor_say(d, GRADE_OK, "gpus", "GPU %s: another daemon of this machine has tasks there, so it is left alone "
				   "(rad gpus -v)", format_gpu(g, gpus, number));
		else if (foreign > MAP_FOREIGN_MIB)
			report_foreign(d, g, foreign / 1024);
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
		doctor_say(d, GRADE_OK, "mps", MPS_CONTROL " is there");
	else if (together)
		doctor_say(d, GRADE_OK, "mps", "one server for all users: a task's fatal fault ends the tasks of all users under MPS on its "
		       "GPUs, which run again by themselves (mps_users: apart keeps users apart)");
	else if (wanted)
		doctor_say(d, GRADE_WARN, "mps", "a server for each user, who take turns on a GPU, though mps_users is together: %s; a newer "
		       "driver and a restart of radd allow it", member_text(d->status, "mps_users_why"));
	else
		doctor_say(d, GRADE_OK, "mps", "a server for each user, who take turns on a GPU (mps_users: apart)");
}

static void check_mps(struct doctor *d)
{
	const struct device_kind *kind = device_kind(d->device);
	if (kind->mps == DEVICE_MPS_NONE)
		doctor_say(d, GRADE_OK, "mps", "these GPUs have none: they are shared by time slicing (streams)");
	else if (kind->mps == DEVICE_MPS_FILE)
		doctor_say(d, GRADE_OK, "mps", "simulated as well");
	else if (mps_available(kind))
		report_mps_users(d);
	else
		doctor_say(d, GRADE_WARN, "mps", MPS_CONTROL " is not in PATH: GPUs are shared by time slicing (streams) instead. It "
			   "comes with the driver (Debian: nvidia-cuda-mps; Ubuntu: nvidia-compute-utils-*; RHEL: nvidia-driver-cuda)");
}

/* Nothing to mend: it is what the times and loads are told with that radd and rad estimate expect of tasks. */
static void check_host(struct doctor *d)
{
	const json_t *host = json_object_get(d->status, "host_pace");
	if (json_is_object(host))
		doctor_say(d, GRADE_OK, "host", "what it launches takes %.2f times as long as where loads were modelled, by %lld task%s seen "
		       "alone: so it is expected of others", member_number(host, "pace"), (long long)member_int(host, "tasks"),
		       member_int(host, "tasks") == 1 ? "" : "s");
}

static bool sees(pid_t radd, struct stat *st)
{
	scoped_free char *proc = alloc_printf("/proc/%d", (int)radd);
	return !stat(proc, st);
}

static void check_cgroup(struct doctor *d)
{
	char path[PATH_MAX];
	struct stat st;
	pid_t of = d->status ? (pid_t)member_int(d->status, "pid") : getpid();
	if (!d->status && client_server())
		return;		/* its unit has one made, and the caller's is another */
	if (!sees(of, &st))
		return;		/* it is in a container, or /proc hides it (hidepid): then nothing is known of it */
	if (cgroup_path(of, "rad-doctor", path)) {
		doctor_say(d, GRADE_WARN, "cgroup", "no cgroup version 2: tasks are told apart by their processes' parents alone");
		return;
	}
	*strrchr(path, '/') = 0;
	/* The machine's radd can make groups there, whatever its users may. */
	if (access(path, W_OK) && (st.st_uid || !geteuid()))
		doctor_say(d, GRADE_WARN, "cgroup", "%s cannot be written to: tasks are told apart by their processes' parents alone "
		       "(a service file with Delegate=yes allows it)", path);
	else
		doctor_say(d, GRADE_OK, "cgroup", "%s", path);
}

/* Whether the state in that folder can be written to, as far as can be told; else it is told why not. */
static bool takes_writes(struct doctor *d, const char *dir)
{
	enum store_writes takes = store_writes(dir);
	if (store_network_folder(dir))
		doctor_say(d, GRADE_FAIL, "state", "%s is on a network file system (%s), where locks are not safe: radd --state "
			   "/var/tmp/rad-%u", dir, store_network_folder(dir), (unsigned)geteuid());
	else if (takes == STORE_WRITES_READ_ONLY)
		doctor_say(d, GRADE_FAIL, "state", "%s is mounted read-only: nothing that is submitted can be kept: have it mounted for "
			   "writing (mount -o remount,rw; dmesg may say why it is not)", dir);
	else if (takes == STORE_WRITES_HALTED)
		doctor_say(d, GRADE_FAIL, "state", "%s: its file system took an error and lets nobody write: nothing that is submitted can "
			   "be kept: dmesg says which; with radd stopped, have it unmounted and checked (fsck)", dir);
	else
		return true;
	return false;
}

/* Whether a radd that is to be started would take that folder for its own; one that runs has. */
static bool is_taken(struct doctor *d, const char *dir)
{
	struct error why = ERROR_INIT;
	scoped_fd int fd = d->status ? -1 : store_open_place(dir, &why);
	if (!d->status && fd < 0)
		doctor_say(d, GRADE_FAIL, "state", "%s, or RAD_STATE", why.text);
	return d->status || fd >= 0;
}

/* The folder, or the nearest one above it that is there: what a radd that is to be started must be able to write to. */
static char *begun_folder(const char *dir)
{
	char *at = alloc_string(dir), *slash;
	while (access(at, F_OK) && (slash = strrchr(at + 1, '/')))
		*slash = 0;
	if (access(at, F_OK))
		at[1] = 0;
	return at;
}

static void check_state(struct doctor *d)
{
	scoped_free char *own = wire_own_state_dir();
	const char *dir = d->status ? member_text(d->status, "state_dir") : own;
	scoped_free char *begun = begun_folder(dir);
	struct statvfs fs;
	char room[32];
	if (!d->status && client_server() && geteuid())
		return;		/* the machine's is not asked for anything, and one of the caller's own is not meant */
	if (!d->status && access(begun, W_OK | X_OK) && errno == EACCES) {
		doctor_say(d, GRADE_FAIL, "state", "%s cannot be written to: a radd of yours needs a folder that can: export "
			   "RAD_STATE=/var/tmp/rad-%u, or another on a local disk", begun, (unsigned)geteuid());
		return;
	}
	if (access(dir, F_OK)) {
		if (!d->status && takes_writes(d, begun))
			doctor_say(d, GRADE_OK, "state", "%s will be made", dir);
		return;
	}
	if (!is_taken(d, dir) || !takes_writes(d, dir) || statvfs(dir, &fs))
		return;
	uint64_t bytes = (uint64_t)fs.f_bavail * fs.f_frsize;
	enum grade grade = bytes < STORE_MIN_ROOM_BYTES ? GRADE_FAIL : bytes < LOW_DISK ? GRADE_WARN : GRADE_OK;
	doctor_say(d, grade, "state", "%s, %s of room%s", dir, units_format_mib((double)bytes / MIB, room, sizeof room),
		   grade == GRADE_FAIL ? ": no task is accepted until its disk has more than 16M" :
		   grade == GRADE_WARN ? ": soon no task can be accepted: make room on its disk" : "");
}

/* A store from the future means that the clock was set back: times of tasks would be wrong. */
static void check_clock(struct doctor *d)
{
	int64_t started = member_ms(d->status, "start_time", -1);
	if (started < 0)
		return;
	if (started > clock_wall_ms())
		doctor_say(d, GRADE_WARN, "clock", "radd was started in the future: the clock was set back, and times of tasks are wrong "
		       "by that");
	else
		doctor_say(d, GRADE_OK, "clock", "agrees with radd's");
}

static void check_home(struct doctor *d)
{
	const char *home = getenv("HOME");
	if (geteuid() && home && *home == '/' && store_network_folder(home))
		doctor_say(d, GRADE_WARN, "home", "your home folder is on a network (%s): a radd of your own needs --state on a local "
		       "disk, such as /var/tmp/rad-%u", store_network_folder(home), (unsigned)geteuid());
}

static void check_captures(struct doctor *d)
{
	doctor_captures(d, "/proc");
}

int verb_doctor(struct cli_call *c)
{
	struct doctor d = { .term = term_ask(), .checks = json_array() };
	const struct args_option options[] = { { "json", 0, NULL, "print JSON", .flag = &d.json }, { 0 } };
	static void (*const checks[])(struct doctor *) = {
		check_daemon, check_troubles, check_programs, doctor_driver, check_gpus, check_host, check_mps, check_cgroup, check_state,
		check_home, check_clock, check_captures,
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
