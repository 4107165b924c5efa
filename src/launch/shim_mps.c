/* SPDX-License-Identifier: MIT
 * What is done with an MPS control daemon, each in a process of its own, since any of it may hang. The words:
 *	mps-control FOLDER UID GID CONTROL GPUS		becomes the control daemon: FOLDER/pid, then exec
 *	mps-try FOLDER UID GID CONTROL MS		runs one for so long at most, without GPUs: "1" if it answers, "0" if it ends
 *	mps-ask FOLDER UID GID CONTROL			writes "1" to standard output if it answers
 *	mps-terminate FOLDER UID GID CONTROL "PID PID..." [MS]	has every server of it end those of them that are its clients
 *	mps-trim FOLDER UID GID CONTROL			empties its logs that have grown beyond MPS_LOG_MOST
 *	mps-stop FOLDER UID GID CONTROL PID START	quit, then TERM, then KILL, also of what is left of it; removes its FOLDER/pid
 * FOLDER belongs to the daemon's user; FOLDER/pipe and FOLDER/log to UID alone, since the sockets that the control daemon
 * makes are open to everybody. CONTROL is the path of nvidia-cuda-mps-control. It runs in the foreground (-f), where it keeps
 * the pid it was started with and writes its log to standard output.
 *
 * UID MPS_ALL_USERS stands for a server of all users, which runs as whoever calls: as root. Everybody may reach the sockets in
 * its FOLDER/pipe once radd has seen that it answers and opens that folder (server_ready in mps.c), and nobody make, rename or
 * remove anything there; its logs, which name every client, are root's alone.
 */
#include "launch/shim.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/io.h"
#include "base/paths.h"
#include "base/scope.h"
#include "base/units.h"
#include "launch/attempt.h"
#include "launch/identity.h"
#include "launch/mps.h"
#include "launch/mps_text.h"
#include "launch/processes.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define ANSWER_MS 3000
#define QUIT_S 5	/* what clients get to end in; a server that hangs can make `quit` last much longer */
#define QUIT_MS 10000
#define TERM_MS 3000
#define ANSWER_MAX 65536
#define SERVERS_MAX 16	/* of one control daemon, which has one or two; each is asked in up to ANSWER_MS */
#define CLIENTS_MAX 256	/* of one server, which takes 48 or 60 */
#define TRY_PAUSE_MS 30

struct mps { const char *folder, *control; char *pipe, *log; uid_t uid; gid_t gid; bool all; };

static char **control_environment(const struct mps *m, const char *gpus)
{
	char **env = alloc_zero(6 * sizeof *env);
	env[0] = alloc_printf("CUDA_MPS_PIPE_DIRECTORY=%s", m->pipe);
	env[1] = alloc_printf("CUDA_MPS_LOG_DIRECTORY=%s", m->log);
	env[2] = alloc_string("CUDA_DEVICE_ORDER=PCI_BUS_ID");
	env[3] = alloc_string("PATH=" PATHS_USER);
	env[4] = gpus ? alloc_printf("CUDA_VISIBLE_DEVICES=%s", gpus) : NULL;
	return env;
}

/* A folder of the user's; nobody else can put something in its place, since `path` lies in a folder of ours. */
static int make_folder(const struct mps *m, const char *path)
{
	struct stat st;
	if (mkdir(path, 0700) && errno != EEXIST)
		return -1;
	scoped_fd int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || (!geteuid() && fchown(fd, m->uid, m->gid)) || fchmod(fd, 0700))
		return -1;
	return fstat(fd, &st) || st.st_uid != m->uid ? -1 : 0;
}

/* While FOLDER/pid is written or removed: one that is stopped late finds that of the next there. By a file of our own: whoever
 * may open the folder may lock it. Unlocked with the descriptor. */
static int lock_pid(const struct mps *m, int flags)
{
	scoped_free char *path = alloc_printf("%s/lock", m->folder);
	scoped_fd int lock = open(path, O_RDWR | O_NOFOLLOW | O_CLOEXEC | flags, 0600);
	return lock < 0 || flock(lock, LOCK_EX) ? -1 : steal_fd(lock);
}

static int write_pid(const struct mps *m)
{
	uint64_t start;
	scoped_free char *path = alloc_printf("%s/pid", m->folder);
	scoped_fd int lock = lock_pid(m, O_CREAT);
	if (lock < 0 || proc_stat(getpid(), &start, NULL))
		return -1;
	scoped_free char *text = alloc_printf("%d %llu\n", (int)getpid(), (unsigned long long)start);
	return io_replace_file(path, text, strlen(text), 0644, NULL);
}

static int become_control(const struct mps *m, const char *gpus)
{
	char *argv[] = { (char *)m->control, (char *)"-f", m->all ? (char *)"-multiuser-server" : NULL, NULL };
	char **env = control_environment(m, gpus);
	/* The pid file comes first: from then on a later radd finds us. */
	if (make_folder(m, m->pipe) || make_folder(m, m->log) || write_pid(m) ||
	    identity_become(m->uid, m->gid, NULL, NULL))
		return SHIM_FAILED;
	umask(m->all ? 022 : 077);
	scoped_free char *path = alloc_printf("%s/control.log", m->log);
	int log = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (log >= 0 && (dup2(log, 1) != 1 || dup2(log, 2) != 2))
		return SHIM_FAILED;
	execve(m->control, argv, env);
	dprintf(2, "%s: %s\n", m->control, strerror(errno));
	return SHIM_FAILED;
}

__attribute__((noreturn)) static void become_client(const struct mps *m, int in, int out)
{
	char *argv[] = { (char *)m->control, NULL };
	char **env = control_environment(m, NULL);
	if (!identity_become(m->uid, m->gid, NULL, NULL) && dup2(in, 0) == 0 && dup2(out, 1) == 1)
		execve(m->control, argv, env);
	_exit(127);
}

/* Reads to the end of the answer; -1 when the deadline passes. */
static int read_answer(int fd, int64_t deadline_ms, struct buf *answer)
{
	char bytes[4096];
	for (;;) {
		int64_t left = deadline_ms - clock_mono_ms();
		struct pollfd p = { .fd = fd, .events = POLLIN };
		if (left <= 0 || answer->len > ANSWER_MAX || poll(&p, 1, (int)left) <= 0)
			return -1;
		ssize_t n = read(fd, bytes, sizeof bytes);
		if (n <= 0)
			return (int)n;
		buf_add(answer, bytes, (size_t)n);
	}
}

/* The status of a child that has closed its output, so that it is about to end. -1 when it is not in time. */
static int end_of(pid_t pid, int64_t deadline_ms)
{
	int status;
	scoped_fd int fd = proc_pidfd(pid);
	struct pollfd p = { .fd = fd, .events = POLLIN };
	int64_t left = deadline_ms - clock_mono_ms();
	if (poll(&p, 1, left > 0 ? (int)left : 0) == 1 && waitpid(pid, &status, 0) == pid)
		return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
	kill(pid, SIGKILL);
	return -1;
}

/* Gives the control daemon one command, as its user. 0 when it was answered. */
static int ask(const struct mps *m, const char *command, int timeout_ms, struct buf *answer)
{
	int in[2], out[2];
	int64_t deadline = clock_mono_ms() + timeout_ms;
	if (pipe2(in, O_CLOEXEC) || pipe2(out, O_CLOEXEC))
		return -1;
	pid_t pid = fork();
	if (!pid)
		become_client(m, in[0], out[1]);
	close(in[0]);
	close(out[1]);
	int result = pid < 0 || io_write_full(in[1], command, strlen(command)) ? -1 : 0;
	close(in[1]);
	if (!result)
		result = read_answer(out[0], deadline, answer);
	close(out[0]);
	if (pid > 0 && end_of(pid, result ? 0 : deadline))
		result = -1;
	return result;
}

static int answer_alive(const struct mps *m)
{
	scoped_buf answer = { 0 };
	bool alive = !ask(m, "get_server_list\n", ANSWER_MS, &answer);
	return write(1, alive ? "1" : "0", 1) == 1 ? SHIM_DONE : SHIM_FAILED;
}

static void remove_files(const char *path)
{
	scoped_dir DIR *folder = opendir(path);
	for (struct dirent *e; folder && (e = readdir(folder));)
		unlinkat(dirfd(folder), e->d_name, 0);
	rmdir(path);
}

/* "1": it came up and answers, "0": it ended, "": neither. */
static const char *try_control(const struct mps *m, int fd, int64_t within_ms)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	for (int64_t end = clock_mono_ms() + within_ms; clock_mono_ms() < end;) {
		scoped_buf answer = { 0 };
		if (poll(&p, 1, TRY_PAUSE_MS) == 1)
			return "0";
		if (!ask(m, "get_server_list\n", (int)(end - clock_mono_ms()), &answer))
			return poll(&p, 1, 0) == 1 ? "0" : "1";
	}
	return "";
}

/* The last line of its log, where a control daemon that ended says why. */
static char *last_words(const struct mps *m)
{
	scoped_buf text = { 0 };
	scoped_free char *path = alloc_printf("%s/control.log", m->log);
	if (io_read_file(path, ANSWER_MAX, &text, NULL))
		return alloc_string("");
	return mps_text_last_line(buf_text(&text), text.len);
}

/* Waits for the end of the control daemon after one step. The pidfd was checked to be it. */
static bool ended(int pidfd, int timeout_ms)
{
	struct pollfd p = { .fd = pidfd, .events = POLLIN };
	return poll(&p, 1, timeout_ms) == 1;
}

/* A killed control daemon would leave its server behind, which holds GPU memory. */
static void kill_servers(struct proc_id control)
{
	struct family f = { .shim = control };
	family_signal(&f, SIGKILL, 0);
}

/* It takes its server along at TERM; clients that run go on, and fail at their next call. */
static void force_end(int pidfd, struct proc_id control)
{
	proc_pidfd_signal(pidfd, SIGTERM);
	if (ended(pidfd, TERM_MS))
		return;
	kill_servers(control);
	proc_pidfd_signal(pidfd, SIGKILL);
	ended(pidfd, TERM_MS);
}

/* With the GPUs that it would serve: without one in sight (CUDA_VISIBLE_DEVICES empty) driver 580's ends at once. It makes no
 * context on them before a client comes. */
static int try_out(const struct mps *m, int64_t within_ms)
{
	struct proc_id child = { .pid = fork() };
	if (!child.pid)
		_exit(become_control(m, NULL));
	scoped_fd int fd = child.pid > 0 ? proc_pidfd(child.pid) : -1;
	const char *word = fd >= 0 && !proc_stat(child.pid, &child.start_ticks, NULL) ? try_control(m, fd, within_ms) : "";
	scoped_free char *said = *word == '0' ? last_words(m) : alloc_string("");
	scoped_free char *all = alloc_printf("%s%.200s", word, said);
	scoped_buf answer = { 0 };
	if (*word == '1')
		ask(m, "quit\n", ANSWER_MS, &answer);
	if (fd >= 0 && !ended(fd, *word ? TERM_MS : 0))
		force_end(fd, child);
	remove_files(m->pipe);
	remove_files(m->log);
	remove_files(m->folder);
	/* Told last: by then nothing of it is left. */
	return write(1, all, strlen(all)) > 0 ? SHIM_DONE : SHIM_FAILED;
}

/* The pids that it answers with. */
static size_t ask_pids(const struct mps *m, const char *command, int *pids, size_t most)
{
	scoped_buf answer = { 0 };
	return ask(m, command, ANSWER_MS, &answer) ? 0 : mps_text_pids(buf_text(&answer), pids, most);
}

static bool is_listed(const char *list, int pid)
{
	for (char *end; ; list = end) {
		long one = strtol(list, &end, 10);
		if (end == list || one == pid)
			return end != list;
	}
}

/* A control daemon that is its user's may answer as late, and name as many, as it likes: by then its clients are killed, and we
 * are not to stand about. */
static int terminate_clients(const struct mps *m, const char *list, int64_t within_ms)
{
	int servers[SERVERS_MAX], clients[CLIENTS_MAX];
	int64_t end = clock_mono_ms() + within_ms;
	size_t n = ask_pids(m, "get_server_list\n", servers, SERVERS_MAX);
	for (size_t i = 0; i < n && clock_mono_ms() < end; i++) {
		scoped_free char *which = alloc_printf("get_client_list %d\n", servers[i]);
		size_t n_clients = ask_pids(m, which, clients, CLIENTS_MAX);
		for (size_t k = 0; k < n_clients && clock_mono_ms() < end; k++) {
			scoped_buf answer = { 0 };
			scoped_free char *command = alloc_printf("terminate_client %d %d\n", servers[i], clients[k]);
			int64_t left = end - clock_mono_ms();
			if (is_listed(list, clients[k]) && left > 0)
				ask(m, command, left < ANSWER_MS ? (int)left : ANSWER_MS, &answer);
		}
	}
	return n ? SHIM_DONE : SHIM_FAILED;
}

static void end_control(const struct mps *m, struct proc_id control)
{
	scoped_buf answer = { 0 };
	scoped_fd int fd = proc_pidfd(control.pid);
	scoped_free char *quit = alloc_printf("quit -t %d\n", QUIT_S);
	if (fd < 0 || !proc_alive(control))
		return;
	int64_t deadline = clock_mono_ms() + QUIT_MS;
	int failed = ask(m, quit, QUIT_MS, &answer);
	int64_t left = deadline - clock_mono_ms();
	if (!ended(fd, failed || left < 0 ? 0 : (int)left))
		force_end(fd, control);
}

/* Session and pipe folder say together that it is a server of that control daemon: clients have a session of their own, and the
 * number of a session comes again with a restart of the machine. */
static bool kill_if_left(const struct mps *m, struct proc_id control, pid_t pid)
{
	char pipe[PATH_MAX];
	struct proc_seen seen;
	scoped_fd int fd = proc_pidfd(pid);
	if (fd < 0 || proc_see(pid, &seen) || seen.session != control.pid || seen.id.start_ticks < control.start_ticks ||
	    proc_environ(pid, "CUDA_MPS_PIPE_DIRECTORY", pipe, sizeof pipe) || strcmp(pipe, m->pipe))
		return false;
	proc_pidfd_signal(fd, SIGKILL);
	return true;
}

/* What a control daemon that was killed left behind. True: nothing, in the end. */
static bool end_left(const struct mps *m, struct proc_id control)
{
	const struct family f = { .shim = control };
	for (int64_t end = clock_mono_ms() + TERM_MS; clock_mono_ms() < end; poll(NULL, 0, TRY_PAUSE_MS)) {
		scoped_free pid_t *pids = NULL;
		size_t n = family_list(&f, &pids), ours = 0;
		for (size_t i = 0; i < n; i++)
			ours += kill_if_left(m, control, pids[i]);
		if (!ours)
			return true;
	}
	return false;
}

static void remove_pid(const struct mps *m, struct proc_id control)
{
	struct proc_id id;
	scoped_fd int lock = lock_pid(m, 0), folder = open(m->folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (lock >= 0 && claim_read(folder, "pid", &id, NULL) > 0 && proc_same(id, control))
		unlinkat(folder, "pid", 0);
}

static int stop(const struct mps *m, struct proc_id control)
{
	end_control(m, control);
	if (proc_alive(control) || !end_left(m, control))
		return SHIM_FAILED;
	remove_pid(m, control);
	return SHIM_DONE;
}

/* What is on the disk counts: a writer that does not append goes on where it was, behind a hole. */
static int trim(const struct mps *m)
{
	if (identity_become(m->uid, m->gid, NULL, NULL))
		return SHIM_FAILED;
	scoped_dir DIR *folder = opendir(m->log);
	for (struct dirent *e; folder && (e = readdir(folder));) {
		struct stat st;
		scoped_fd int fd = openat(dirfd(folder), e->d_name, O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
		if (fd >= 0 && !fstat(fd, &st) && S_ISREG(st.st_mode) && (int64_t)st.st_blocks * 512 > MPS_LOG_MOST &&
		    ftruncate(fd, 0))
			return SHIM_FAILED;
	}
	return SHIM_DONE;
}

static int64_t number(const char *text)
{
	int64_t value = 0;
	return units_parse_int(text, 0, INT64_MAX, &value, NULL) ? -1 : value;
}

int shim_mps(int argc, char **argv)
{
	const char *word = argv[1];
	if (argc < 6 || number(argv[3]) < 0 || number(argv[4]) < 0)
		return SHIM_USAGE;
	signal(SIGPIPE, SIG_IGN);
	bool all = (uid_t)number(argv[3]) == MPS_ALL_USERS;
	scoped_free char *pipe = alloc_printf("%s/pipe", argv[2]), *log = alloc_printf("%s/log", argv[2]);
	const struct mps m = { .folder = argv[2], .control = argv[5], .uid = all ? geteuid() : (uid_t)number(argv[3]),
			       .gid = all ? getegid() : (gid_t)number(argv[4]), .all = all, .pipe = pipe, .log = log };
	if (!strcmp(word, "mps-control") && argc == 7)
		return become_control(&m, argv[6]);
	if (!strcmp(word, "mps-try") && argc == 7 && number(argv[6]) >= 0)
		return try_out(&m, number(argv[6]));
	if (!strcmp(word, "mps-ask") && argc == 6)
		return answer_alive(&m);
	if (!strcmp(word, "mps-trim") && argc == 6)
		return trim(&m);
	if (!strcmp(word, "mps-terminate") && (argc == 7 || (argc == 8 && number(argv[7]) >= 0)))
		return terminate_clients(&m, argv[6], argc == 8 ? number(argv[7]) : MPS_TERMINATE_MS);
	if (!strcmp(word, "mps-stop") && argc == 8 && number(argv[6]) > 1)
		return stop(&m, (struct proc_id){ .pid = (pid_t)number(argv[6]), .start_ticks = (uint64_t)number(argv[7]) });
	return SHIM_USAGE;
}
