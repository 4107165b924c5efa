/* SPDX-License-Identifier: MIT
 * See pilot_node.h. All of it is on the node: it must work while the shared file system does not.
 */
#include "cli/pilot_node.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/io.h"
#include "base/json.h"
#include "base/proc.h"
#include "base/scope.h"
#include "base/units.h"
#include "cli/client.h"
#include "cli/client_queue.h"
#include "cli/member.h"
#include "launch/attempt.h"
#include "launch/processes.h"
#include "settings/settings.h"
#include "submit/wire.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <unistd.h>

#define LOCK_MS 5000		/* the agent of a pilot that was killed takes a moment to follow */
#define STOP_MS 15000
#define ANSWER_S 5

/* ---- the folder ---- */

static char *default_state(const struct pilot *p, const char *mark)
{
	if (*p->who.job)
		return alloc_printf("/tmp/rad-pilot-%u/%s.%lld-%.24s-%.8s", (unsigned)geteuid(), p->who.job,
				    (long long)p->who.restarts, p->who.host, mark);
	return alloc_printf("/tmp/rad-pilot-%u/%.8s", (unsigned)geteuid(), mark);
}

/* Locks that file for as long as we live, and says there who we are. Returns 0; 1: after `wait_ms` somebody else still has it,
 * a process of this number; -1. */
static int lock_file(const char *path, int64_t wait_ms, char holder[16], struct error *err)
{
	scoped_fd int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return error_errno(err, "%s", path);
	for (int64_t until = clock_mono_ms() + wait_ms; flock(fd, LOCK_EX | LOCK_NB); poll(NULL, 0, 50)) {
		if (errno != EWOULDBLOCK)
			return error_set(err, ERR_SYSTEM, "%s: %s: give a folder on a local disk with --state", path, strerror(errno));
		if (clock_mono_ms() < until)
			continue;
		ssize_t n = pread(fd, holder, 15, 0);
		holder[n > 0 ? n : 0] = 0;
		holder[strcspn(holder, "\n")] = 0;
		if (!*holder)
			strcpy(holder, "?");
		return 1;
	}
	if (ftruncate(fd, 0) || dprintf(fd, "%d\n", (int)getpid()) < 0)
		return error_errno(err, "%s", path);
	(void)steal_fd(fd);
	return 0;
}

static int take_lock(const struct pilot *p, struct error *err)
{
	char pid[16];
	scoped_free char *path = alloc_printf("%s/lock", p->state);
	int rc = lock_file(path, LOCK_MS, pid, err);
	return rc <= 0 ? rc : error_set(err, ERR_CONFLICT, "a pilot is at work here already (pid %s, %s): one a node is enough (srun "
					"--ntasks-per-node=1); a second one on other GPUs needs --state", pid, p->state);
}

static void read_boot(char boot[40])
{
	scoped_buf text = { 0 };
	proc_boot(&text);
	snprintf(boot, 40, "%.36s", buf_text(&text));
}

/* Whoever comes after a pilot that was killed is that pilot: what it had claimed is his. */
static int take_name(struct pilot *p, struct error *err)
{
	scoped_free char *path = alloc_printf("%s/name", p->state);
	scoped_buf text = { 0 };
	uint32_t chance = 0;
	if (!io_read_file(path, SPOOL_NAME - 2, &text, NULL) && text.len > 4 && !strpbrk(buf_text(&text), "/\n") &&
			*text.data != '.') {
		snprintf(p->who.name, sizeof p->who.name, "%s", buf_text(&text));
		return 0;
	}
	if (getrandom(&chance, sizeof chance, 0) < 0)
		return error_errno(err, "getrandom");
	snprintf(p->who.name, sizeof p->who.name, "%.60s-%08x", p->who.host, chance);
	for (char *c = p->who.name; *c; c++)
		if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._", *c))
			*c = '_';
	return io_replace_file(path, p->who.name, strlen(p->who.name), 0600, err);
}

/* What lies there was claimed in one queue, and means nothing in another. */
static int check_queue(const struct pilot *p, const char *mark, struct error *err)
{
	scoped_free char *path = alloc_printf("%s/queue", p->state);
	scoped_buf text = { 0 };
	if (!io_read_file(path, 100, &text, NULL) && text.len && strcmp(buf_text(&text), mark))
		return error_set(err, ERR_CONFLICT, "%s: is the folder of a pilot of another queue: give another one with --state", p->state);
	return text.len ? 0 : io_replace_file(path, mark, strlen(mark), 0600, err);
}

static int write_settings(const struct pilot *p, struct error *err);

/* Of folders that somebody has locked systemd-tmpfiles leaves all that is in them, old as it may be (tmpfiles.d(5)). */
static void keep_from_cleaners(const struct pilot *p)
{
	int fd = open(p->state, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB))
		close(fd);
}

int pilot_node_enter(struct pilot *p, const char *mark, struct error *err)
{
	if (!*p->who.host && gethostname(p->who.host, sizeof p->who.host - 1))
		return error_errno(err, "gethostname");
	json_make_showable(p->who.host);	/* as the others read it in the queue */
	read_boot(p->who.boot);
	p->state = p->options.state ? realpath(p->options.state, NULL) : NULL;
	if (!p->state)
		p->state = p->options.state ? alloc_string(p->options.state) : default_state(p, mark);
	scoped_free char *socket = alloc_printf("%s/radd.sock", p->state), *handed = alloc_printf("%s/handed", p->state);
	if (*p->state != '/')
		return error_set(err, ERR_INVALID, "--state: '%.200s' is no absolute path", p->state);
	static const char other[] = "give another folder with --state";
	if (wire_prepare_folder(p->state, other, err) || wire_prepare_folder(socket, other, err) || io_make_dirs(handed, 0700, err))
		return error_wrap(err, "the pilot's folder on this node (--state)");
	if (take_lock(p, err))
		return -1;
	keep_from_cleaners(p);
	return check_queue(p, mark, err) || take_name(p, err) || write_settings(p, err) ? -1 : 0;
}

/* ---- its radd ---- */

static bool has_setting(const char *text, const char *key)
{
	size_t len = strlen(key);
	for (const char *line = text; line; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (!strncmp(line, key, len) && line[len] == ':')
			return true;
		if (!*line)
			break;
	}
	return false;
}

static void add_setting(struct buf *text, const char *key, double value)
{
	if (value > 0 && !has_setting(buf_text(text), key))
		buf_printf(text, "%s: %.3f\n", key, value);
}

static double slurm_number(const char *name)
{
	const char *text = getenv(name);
	double value = 0;
	return text && !units_parse_double(text, 0, 1e12, &value, NULL) ? value : 0;
}

/* The user's settings, and what the allocation gives where they say nothing: not every Slurm fences its jobs by cgroups,
 * which radd would see by itself. */
static int write_settings(const struct pilot *p, struct error *err)
{
	scoped_buf text = { 0 };
	scoped_free char *path = alloc_printf("%s/rad.conf", p->state), *own = settings_path();
	if (!access(own, R_OK) && strcmp(own, path) && io_read_file(own, 1 << 20, &text, err))
		return -1;
	if (text.len && text.data[text.len - 1] != '\n')
		buf_add_text(&text, "\n");
	double mem_mib = slurm_number("SLURM_MEM_PER_NODE"), cpus = slurm_number("SLURM_CPUS_ON_NODE");
	if (mem_mib <= 0)
		mem_mib = slurm_number("SLURM_MEM_PER_CPU") * cpus;
	add_setting(&text, "host_mem", mem_mib / 1024);
	if (cpus >= 1 && !has_setting(buf_text(&text), "host_cpus"))
		buf_printf(&text, "host_cpus: %.0f\n", cpus);
	add_setting(&text, "kill_wait", (double)pilot_cut_ms(&p->options) / 2000);
	return io_replace_file(path, buf_text(&text), text.len, 0600, err);
}

int pilot_node_start_radd(struct pilot *p, struct error *err)
{
	bool started;
	scoped_free char *socket = alloc_printf("%s/radd.sock", p->state), *state = alloc_printf("%s/radd", p->state),
		*config = alloc_printf("%s/rad.conf", p->state);
	client_queue_said = NULL;
	unsetenv("RAD_QUEUE");
	setenv("RAD_SOCKET", socket, 1);
	setenv("RAD_STATE", state, 1);
	setenv("RAD_CONFIG", config, 1);
	if (p->options.devices)
		setenv("RAD_DEVICES", p->options.devices, 1);
	return client_start(&started, err);
}

/* Where no claims are shared (RAD_CLAIMS_DIR empty, for tests) nobody asks whose GPUs these are. */
static int take_gpu(const char *uuid, struct error *err)
{
	char path[200], pid[16];
	snprintf(path, sizeof path, "/tmp/rad-pilot-%u/gpu-%.100s", (unsigned)geteuid(), uuid);
	int rc = wire_prepare_folder(path, "have it removed", err) ? -1 : lock_file(path, 0, pid, err);
	return rc <= 0 ? rc : error_set(err, ERR_CONFLICT, "GPU %s: another pilot of yours (pid %s) has it: give each its own GPUs "
					"(--devices nvml:0,1), or end that one", uuid, pid);
}

int pilot_node_take_gpus(size_t *gpus, struct error *err)
{
	const char *claims = getenv("RAD_CLAIMS_DIR");
	scoped_json *said = client_call(wire_request("gpus"), err);
	size_t i;
	json_t *gpu;
	if (!said)
		return -1;
	*gpus = json_array_size(json_object_get(said, "gpus"));
	json_array_foreach(json_object_get(said, "gpus"), i, gpu)
		if (!(claims && !*claims) && take_gpu(member_text(gpu, "uuid"), err))
			return -1;
	return 0;
}

void pilot_node_stop_radd(void)
{
	struct error ignored = ERROR_INIT;
	scoped_fd int connection = client_connect_now(&ignored);
	scoped_json *status = client_call_within(connection, ANSWER_S, wire_request("status"), &ignored);
	pid_t pid = (pid_t)member_int(status, "pid");
	scoped_fd int fd = pid > 1 ? proc_pidfd(pid) : -1;
	struct pollfd gone = { fd, POLLIN, 0 };
	if (fd >= 0 && !proc_pidfd_signal(fd, SIGTERM))
		poll(&gone, 1, STOP_MS);
}

/* ---- what radd was given ---- */

char *pilot_node_key(task_id id, unsigned claim, char key[PILOT_KEY])
{
	char text[TASK_ID_TEXT];
	snprintf(key, PILOT_KEY, "%s.%u", task_id_text(id, text), claim);
	return key;
}

static char *handed_path(const struct pilot *p, const struct pilot_handed *h, const char *mark)
{
	char key[PILOT_KEY];
	return alloc_printf("%s/handed/%s%s%s", p->state, pilot_node_key(h->id, h->claim, key), *mark ? "." : "", mark);
}

int pilot_node_note(const struct pilot *p, const struct pilot_handed *h, struct error *err)
{
	scoped_free char *path = handed_path(p, h, "");
	scoped_json *o = json_pack("{ss, si, sI, si}", "local", h->local, "signal", h->signal, "before_ms", (json_int_t)h->before_ms,
				   "code", h->code);
	scoped_free char *text = json_to_text(o);
	return io_replace_file(path, text, strlen(text), 0600, err);
}

void pilot_node_mark(const struct pilot *p, const struct pilot_handed *h, const char *mark)
{
	scoped_free char *path = handed_path(p, h, mark);
	scoped_fd int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	(void)fd;
}

bool pilot_node_has_mark(const struct pilot *p, const struct pilot_handed *h, const char *mark)
{
	scoped_free char *path = handed_path(p, h, mark);
	return !access(path, F_OK);
}

void pilot_node_forget(const struct pilot *p, const struct pilot_handed *h)
{
	static const char *const marks[] = { "asked", "cut", "" };
	for (size_t i = 0; i < COUNT_OF(marks); i++) {
		scoped_free char *path = handed_path(p, h, marks[i]);
		unlink(path);
	}
}

static bool read_handed(const struct pilot *p, const char *name, struct pilot_handed *h)
{
	scoped_free char *path = alloc_printf("%s/handed/%s", p->state, name), *id = alloc_string(name);
	char *dot = strchr(id, '.');
	int64_t claim;
	if (!dot || units_parse_int(dot + 1, 1, SPOOL_MAX_VERSION, &claim, NULL))
		return false;	/* a mark */
	*dot = 0;
	*h = (struct pilot_handed){ .claim = (unsigned)claim };
	scoped_json *o = json_load_file(path, 0, NULL);
	h->signal = (int)member_int(o, "signal");
	h->before_ms = member_int(o, "before_ms");
	h->code = (int)member_int(o, "code");
	snprintf(h->local, sizeof h->local, "%.20s", member_text(o, "local"));
	return !task_id_parse(id, &h->id, NULL) && *h->local;
}

void pilot_node_handed(const struct pilot *p, void (*each)(void *ctx, const struct pilot_handed *h), void *ctx)
{
	scoped_free char *path = alloc_printf("%s/handed", p->state);
	scoped_dir DIR *d = opendir(path);
	struct pilot_handed h;
	for (struct dirent *e; d && (e = readdir(d));)
		if (*e->d_name != '.' && read_handed(p, e->d_name, &h))
			each(ctx, &h);
}

/* ---- its processes ---- */

/* Its attempts have folders "LOCAL.N-..."; the one that runs has a shim that lives. */
int pilot_node_signal(const struct pilot *p, const char *local, int signal, bool handlers)
{
	scoped_free char *path = alloc_printf("%s/radd/attempts", p->state);
	scoped_dir DIR *d = opendir(path);
	size_t len = strlen(local);
	int got = -1;
	for (struct dirent *e; d && (e = readdir(d));) {
		struct proc_id shim;
		struct family f;
		if (strncmp(e->d_name, local, len) || e->d_name[len] != '.')
			continue;
		scoped_fd int folder = openat(dirfd(d), e->d_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (folder < 0 || claim_read(folder, ATTEMPT_CLAIM, &shim, NULL) != 1 || !proc_alive(shim))
			continue;
		family_of(shim, folder, &f);
		got = family_signal(&f, signal, handlers ? signal : 0);
	}
	return got;
}
