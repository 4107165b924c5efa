/* SPDX-License-Identifier: MIT
 * MPS control daemons, the daemon's side: see mps.h. What may hang is done by rad-shim (shim_mps.c); here only pids are looked
 * at, and a pipe that never blocks is read.
 */
#include "launch/mps.h"

#include "base/alloc.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/io.h"
#include "base/log.h"
#include "base/paths.h"
#include "base/scope.h"
#include "device/device.h"
#include "launch/attempt.h"
#include "launch/processes.h"
#include "launch/spawn.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/un.h>

#define READY_DEADLINE_MS 15000
#define PROBE_EVERY_MS 100
/* One that was ready is asked so often, and at once again where it does not answer in the helper's 3 s. The helper may hang as
 * well. */
#define WATCH_EVERY_MS 15000
#define WATCH_DEADLINE_MS 10000
#define SILENT_AFTER 3
#define LOOK_EVERY_MS 100
/* The longest name that MPS makes below the pipe folder, with some to spare. */
#define LONGEST_SOCKET 32
/* For the helper that tries the control program out to end it and to say so. */
#define TRIAL_SLACK_MS 500
/* Daemons of one user at a time: a second one serves GPUs that came later, others are on their way out. */
#define DAEMONS_MAX 16
#define GPUS_TEXT_MAX 4096
#define PIDS_TEXT_MAX 100000	/* the kernel takes no longer word than 128 KiB */

struct mps_server {
	char *folder, *pipe, *gpus, *control, *whose;
	uid_t uid;
	gid_t gid;
	struct proc_id id;
	enum mps_state state;
	int64_t since_ms;	/* when it was first asked whether it is ready; 0: not yet */
	int64_t next_probe_ms, probe_ms;	/* when the next probe is due; when the running one began */
	int probe_fd;		/* what the running probe will say; -1: none runs */
	bool served;		/* it was ready once, or may have been under a former radd */
	unsigned misses;	/* probes on end without an answer, since it was ready */
	int64_t answered_ms;	/* when it answered last */
	int64_t next_look_ms;	/* for what is left of it */
	bool left;
};

/* RAD_MPS_CONTROL, or the first in PATH. NULL if there is none. Free it. */
static char *find_control(void)
{
	const char *set = getenv("RAD_MPS_CONTROL"), *path = getenv("PATH");
	if (set)
		return access(set, X_OK) ? NULL : alloc_string(set);
	return paths_find(MPS_CONTROL, path ? path : PATHS_USER);
}

bool mps_available(const struct device_kind *kind)
{
	scoped_free char *control = kind->mps == DEVICE_MPS_SERVER ? find_control() : NULL;
	return control || kind->mps == DEVICE_MPS_FILE;
}

/* An object for that folder, whether or not anything runs there. */
static struct mps_server *mps_create_in(const char *run_dir, const char *word, uid_t uid, unsigned number)
{
	struct mps_server *s = alloc_zero(sizeof *s);
	s->whose = uid == MPS_ALL_USERS ? alloc_string("all users") : alloc_printf("uid %u", (unsigned)uid);
	s->folder = alloc_printf("%s/mps/%s.%u", run_dir, word, number);
	s->pipe = alloc_printf("%s/pipe", s->folder);
	s->control = find_control();
	s->uid = uid;
	s->probe_fd = -1;
	return s;
}

static struct mps_server *mps_create(const char *run_dir, uid_t uid, unsigned number)
{
	scoped_free char *user = uid == MPS_ALL_USERS ? alloc_string("all") : alloc_printf("%u", (unsigned)uid);
	return mps_create_in(run_dir, user, uid, number);
}

void mps_release(struct mps_server *s)
{
	if (!s)
		return;
	scope_close(&s->probe_fd);
	free(s->folder);
	free(s->pipe);
	free(s->gpus);
	free(s->control);
	free(s->whose);
	free(s);
}

/* Reads the pid file: whether that process runs. */
static bool server_running(struct mps_server *s)
{
	struct stat st;
	scoped_fd int folder = open(s->folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (folder < 0 || fstat(folder, &st) || st.st_uid != geteuid() || (st.st_mode & 022))
		return false;
	return claim_read(folder, "pid", &s->id, NULL) > 0 && !proc_gone(s->id);
}

/* By its session, which keeps its number for as long as anything is in it. Its environment is not asked for here: who is ending
 * has none, and one that hangs in the driver may hold up its reader, which is radd's loop. */
bool mps_is_left(struct mps_server *s)
{
	int64_t now = clock_mono_ms();
	if (!s->id.pid || !proc_gone(s->id))
		return false;
	if (now < s->next_look_ms)
		return s->left;
	struct family f = { .shim = s->id };
	scoped_free pid_t *pids = NULL;
	s->next_look_ms = now + LOOK_EVERY_MS;
	s->left = family_list(&f, &pids);
	return s->left;
}

/* "GID LIST\n": what its folder's name does not say. */
static int write_what(const struct mps_server *s, struct error *err)
{
	scoped_free char *path = alloc_printf("%s/serves", s->folder);
	scoped_free char *text = alloc_printf("%u %s\n", (unsigned)s->gid, s->gpus);
	return io_replace_file(path, text, strlen(text), 0644, err);
}

static int read_what(struct mps_server *s)
{
	scoped_buf text = { 0 };
	unsigned gid;
	int at = 0;
	scoped_free char *path = alloc_printf("%s/serves", s->folder);
	if (io_read_file(path, GPUS_TEXT_MAX, &text, NULL) || sscanf(buf_text(&text), "%u %n", &gid, &at) != 1 || !at)
		return -1;
	s->gid = gid;
	s->gpus = alloc_printf("%.*s", (int)strcspn(buf_text(&text) + at, "\n"), buf_text(&text) + at);
	return 0;
}

/* Runs rad-shim with a word and up to two numbers. */
static int run_shim(const struct mps_server *s, const char *word, const char *a, const char *b, int out_fd, struct proc_id *id,
		    struct error *err)
{
	scoped_free char *program = spawn_shim_path(err);
	scoped_free char *uid = alloc_printf("%u", (unsigned)s->uid);
	scoped_free char *gid = alloc_printf("%u", (unsigned)s->gid);
	char *argv[] = { program, (char *)word, s->folder, uid, gid, s->control, (char *)a, (char *)b, NULL };
	/* None of the daemon's own environment: nothing in it was meant for a server. */
	char *env[] = { (char *)"PATH=" PATHS_USER, NULL };
	return program ? spawn_detached(argv, env, out_fd, id, err) : -1;
}

/* What MPS itself would tell only in its log, if at all. */
static int check_start(struct mps_server *s, struct error *err)
{
	struct stat st;
	if (!s->control)
		return error_set(err, ERR_UNAVAILABLE, MPS_CONTROL ": not found in PATH; it comes with the driver");
	if (strlen(s->pipe) + LONGEST_SOCKET >= sizeof ((struct sockaddr_un *)0)->sun_path)
		return error_set(err, ERR_INVALID, "%s: too long for the sockets of MPS; use a shorter run folder", s->pipe);
	if (io_make_dirs(s->folder, 0755, err))
		return -1;
	if (stat(s->folder, &st) || st.st_uid != geteuid() || (st.st_mode & 022))
		return error_set(err, ERR_DENIED, "%s: must belong to uid %u, and be writable for it alone", s->folder,
				 (unsigned)geteuid());
	return 0;
}

/* In the first folder where nothing runs. NULL when there are too many. */
static struct mps_server *mps_create_free(const char *run_dir, uid_t uid)
{
	for (unsigned n = 0; n < DAEMONS_MAX; n++) {
		struct mps_server *s = mps_create(run_dir, uid, n);
		if (!server_running(s) && !mps_is_left(s))
			return s;
		mps_release(s);
	}
	return NULL;
}

struct mps_server *mps_start(const char *run_dir, const char *gpus, uid_t uid, gid_t gid, const char *user, struct error *err)
{
	struct mps_server *s = mps_create_free(run_dir, uid);
	if (!s) {
		error_set(err, ERR_CONFLICT, "MPS: %d control daemons of one kind run in %s/mps already, and do not stop", DAEMONS_MAX,
			  run_dir);
		return NULL;
	}
	s->gid = gid;
	s->gpus = alloc_string(gpus);
	mps_name_user(s, user);
	if (!check_start(s, err) && !write_what(s, err) && !run_shim(s, "mps-control", s->gpus, NULL, -1, &s->id, err))
		return s;
	error_wrap(err, "MPS for %s", s->whose);
	mps_release(s);
	return NULL;
}

/* NULL unless the name is that of a folder in which one runs, or something of one. */
static struct mps_server *adopt_one(const char *run_dir, const char *name)
{
	unsigned uid = MPS_ALL_USERS, number;
	int end = 0;
	bool all = sscanf(name, "all.%u%n", &number, &end) == 1;
	if ((!all && sscanf(name, "%u.%u%n", &uid, &number, &end) != 2) || name[end] || (!all && uid == MPS_ALL_USERS))
		return NULL;
	struct mps_server *s = mps_create(run_dir, (uid_t)uid, number);
	s->served = true;
	if (s->control && (server_running(s) || mps_is_left(s)) && !read_what(s))
		return s;
	mps_release(s);
	return NULL;
}

void mps_adopt(const char *run_dir, void (*found)(void *ctx, struct mps_server *s), void *ctx)
{
	scoped_free char *path = alloc_printf("%s/mps", run_dir);
	scoped_dir DIR *folders = opendir(path);
	for (struct dirent *e; folders && (e = readdir(folders));) {
		struct mps_server *s = adopt_one(run_dir, e->d_name);
		if (s)
			found(ctx, s);
	}
}

static void start_probe(struct mps_server *s, const char *word, const char *within_ms)
{
	int pipe_fds[2];
	struct proc_id helper;
	if (pipe2(pipe_fds, O_CLOEXEC | O_NONBLOCK))
		return;
	if (run_shim(s, word, within_ms, NULL, pipe_fds[1], &helper, NULL))
		scope_close(&pipe_fds[0]);
	else
		s->probe_fd = pipe_fds[0];
	s->probe_ms = clock_mono_ms();
	close(pipe_fds[1]);
}

/* Whether the probe said yes. One that ended without a word said no: the next one is due soon. */
static bool read_probe(struct mps_server *s)
{
	char answer = 0;
	ssize_t n = read(s->probe_fd, &answer, 1);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return false;
	close(s->probe_fd);
	s->probe_fd = -1;
	return n == 1 && answer == '1';
}

static enum mps_state server_failed(struct mps_server *s, const char *why)
{
	log_warn("MPS control daemon of %s: %s; see %s/log/control.log", s->whose, why, s->folder);
	return s->state = MPS_FAILED;
}

/* NVIDIA's control daemon makes its log pipe writable for all, whatever the umask: whoever fills it holds up the server.
 * Clients of users who may not open it work all the same (tried with driver 580). The folder is ours, so that nobody else names
 * what lies in it; and closed until then, since who has opened the pipe keeps it. */
static enum mps_state server_ready(struct mps_server *s)
{
	scoped_free char *log = alloc_printf("%s/log", s->pipe);
	struct stat st;
	s->served = true;
	s->answered_ms = clock_mono_ms();
	s->next_probe_ms = s->answered_ms + WATCH_EVERY_MS;
	if (s->uid != MPS_ALL_USERS)
		return s->state = MPS_READY;
	if (!lstat(log, &st) && S_ISFIFO(st.st_mode) && chmod(log, 0600))
		log_warn("MPS: %s: %s: users can write into it", log, strerror(errno));
	if (chmod(s->pipe, 0755))
		log_warn("MPS: %s: %s: other users cannot reach it", s->pipe, strerror(errno));
	return s->state = MPS_READY;
}

bool mps_has_served(const struct mps_server *s)
{
	return s->served && !proc_gone(s->id);
}

int64_t mps_silent_ms(const struct mps_server *s)
{
	return s->state == MPS_READY && s->misses >= SILENT_AFTER ? clock_mono_ms() - s->answered_ms : 0;
}

static void watch_answered(struct mps_server *s)
{
	if (s->misses >= SILENT_AFTER)
		log_info("MPS control daemon %d of %s answers again", (int)s->id.pid, s->whose);
	s->misses = 0;
	s->answered_ms = clock_mono_ms();
	s->next_probe_ms = s->answered_ms + WATCH_EVERY_MS;
}

/* Less and less often then: a helper may leave something that hangs as well. */
static void watch_missed(struct mps_server *s)
{
	unsigned beyond = ++s->misses < SILENT_AFTER ? 0 : s->misses - SILENT_AFTER;
	s->next_probe_ms = s->misses < SILENT_AFTER ? 0 : clock_mono_ms() + ((int64_t)WATCH_EVERY_MS << (beyond < 5 ? beyond : 5));
	if (s->misses == SILENT_AFTER)
		log_warn("MPS control daemon %d of %s does not answer any more: its clients go on, and no other comes to it; see "
			 "%s/log/control.log", (int)s->id.pid, s->whose, s->folder);
}

void mps_watch(struct mps_server *s)
{
	int64_t now = clock_mono_ms();
	if (s->state == MPS_STARTING && s->served)	/* nobody may have asked for it since it was adopted */
		mps_poll(s);
	if (s->state != MPS_READY || proc_gone(s->id) || (s->probe_fd < 0 && now < s->next_probe_ms))
		return;
	if (s->probe_fd < 0) {
		start_probe(s, "mps-ask", NULL);
		s->next_probe_ms = now + PROBE_EVERY_MS;	/* where none could be started: that is nothing that it did */
	} else if (read_probe(s)) {
		watch_answered(s);
	} else if (s->probe_fd < 0 || now - s->probe_ms > WATCH_DEADLINE_MS) {
		scope_close(&s->probe_fd);
		s->probe_fd = -1;
		watch_missed(s);
	}
}

enum mps_state mps_poll(struct mps_server *s)
{
	int64_t now = clock_mono_ms();
	s->since_ms = s->since_ms ? s->since_ms : now;
	if (s->state == MPS_FAILED)
		return s->state;
	/* Looked at even when it was ready: no client is to be sent to one that is gone. */
	if (proc_gone(s->id))
		return server_failed(s, "ended");
	if (s->state == MPS_READY)
		return s->state;
	if (s->probe_fd < 0 && now >= s->next_probe_ms) {
		s->next_probe_ms = now + PROBE_EVERY_MS;
		start_probe(s, "mps-ask", NULL);
	} else if (s->probe_fd >= 0 && read_probe(s)) {
		return server_ready(s);
	}
	return now - s->since_ms > READY_DEADLINE_MS ? server_failed(s, "does not answer") : s->state;
}

/* Signals that come meanwhile, a child's end or a reload, do not end it. */
static bool wait_readable(int fd, int timeout_ms)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	for (int64_t end = clock_mono_ms() + timeout_ms, left = timeout_ms; left >= 0; left = end - clock_mono_ms()) {
		int n = poll(&p, 1, (int)left);
		if (n >= 0 || errno != EINTR)
			return n == 1;
	}
	return false;
}

/* What the helper of a trial said: "1", "0" and the last words of a control daemon that ended, nothing. */
static char *read_trial(int fd, int within_ms, bool *serves)
{
	char said[256];
	ssize_t n = wait_readable(fd, within_ms + TRIAL_SLACK_MS) ? read(fd, said, sizeof said - 1) : 0;
	said[n > 0 ? n : 0] = '\0';
	*serves = *said == '1';
	if (*serves)
		return alloc_string("its control daemon knows -multiuser-server");
	if (!*said)
		return alloc_string("its control daemon does not answer");
	/* So does one that takes the option for the wish to be a client. */
	if (strstr(said, "Cannot find MPS control daemon"))
		return alloc_string("its control daemon does not know -multiuser-server");
	return alloc_printf("its control daemon, started with -multiuser-server, ended%s%s", said[1] ? ": " : "", said + 1);
}

/* Bounded, and at a start only: who waits for the first reading of the GPUs waits for this as well. */
bool mps_serves_all(const char *run_dir, int within_ms, char **why)
{
	/* In a folder that is never taken for a server's. */
	struct mps_server *s = mps_create_in(run_dir, "try", MPS_ALL_USERS, (unsigned)getpid());
	scoped_free char *within = alloc_printf("%d", within_ms);
	struct error err = ERROR_INIT;
	bool serves = false;
	*why = NULL;
	if (!s->control || io_make_dirs(s->folder, 0755, &err))
		goto out;
	start_probe(s, "mps-try", within);
	if (s->probe_fd >= 0)
		*why = read_trial(s->probe_fd, within_ms, &serves);
out:
	if (!*why)
		*why = alloc_string("its control daemon could not be tried out");
	mps_release(s);
	return serves;
}

const char *mps_folder(const struct mps_server *s)
{
	return s->folder;
}

const char *mps_pipe_dir(const struct mps_server *s)
{
	return s->pipe;
}

uid_t mps_uid(const struct mps_server *s)
{
	return s->uid;
}

void mps_name_user(struct mps_server *s, const char *user)
{
	if (s->uid == MPS_ALL_USERS || !user)
		return;
	free(s->whose);
	s->whose = alloc_printf("user %s", user);
}

const char *mps_whose(const struct mps_server *s)
{
	return s->whose;
}

const char *mps_gpus(const struct mps_server *s)
{
	return s->gpus;
}

struct proc_id mps_control(const struct mps_server *s)
{
	return s->id;
}

int mps_stop(struct mps_server *s)
{
	struct proc_id helper;
	struct error err = ERROR_INIT;
	/* With its start time: by the time that the helper comes to KILL, the pid may be another's. */
	scoped_free char *pid = alloc_printf("%d", (int)s->id.pid);
	scoped_free char *start = alloc_printf("%llu", (unsigned long long)s->id.start_ticks);
	int rc = run_shim(s, "mps-stop", pid, start, -1, &helper, &err);
	if (rc)
		log_warn_limited("stopping MPS of %s: %s", s->whose, err.text);
	return rc;
}

void mps_trim(struct mps_server *s)
{
	struct proc_id helper;
	struct error err = ERROR_INIT;
	if (run_shim(s, "mps-trim", NULL, NULL, -1, &helper, &err))
		log_warn_limited("emptying logs of MPS of %s: %s", s->whose, err.text);
}

/* One helper for all: a task may have as many processes as it likes, and this is done in the loop. */
void mps_terminate_clients(struct mps_server *s, const pid_t *pids, size_t n)
{
	struct proc_id helper;
	struct error err = ERROR_INIT;
	scoped_buf list = { 0 };
	for (size_t i = 0; i < n && list.len < PIDS_TEXT_MAX; i++)
		buf_printf(&list, "%d ", (int)pids[i]);
	if (n && run_shim(s, "mps-terminate", buf_text(&list), NULL, -1, &helper, &err))
		log_warn("ending MPS clients of %s: %s", s->whose, err.text);
}
