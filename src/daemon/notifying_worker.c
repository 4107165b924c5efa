/* SPDX-License-Identifier: MIT
 * Sending notices, as the user whose they are: see notifying.h. What it starts gets a small environment of its own, its input
 * from memory, and its output into a log of the user's (~/.local/state/rad/notify.log); it is killed when it takes too long.
 *
 * A web hook's address is often its only secret, and arguments are for all to see: curl reads it from a file of options, in
 * memory too. What is told is its input: a line of options has 100 KiB at most.
 */
#include "daemon/notifying.h"

#include "base/alloc.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/io.h"
#include "base/json.h"
#include "base/paths.h"
#include "base/scope.h"
#include "base/units.h"
#include "base/words.h"
#include "launch/identity.h"
#include "submit/notices.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define MAX_REQUEST ((size_t)16 << 20)
#define MAX_LOG (1 << 20)
#define ALL_MS 50000		/* for everything: less than the deadline that radd gives */
#define LOOK_MS 20
#define MAX_SHOWN 500		/* bytes of a command, and of evidence */
#define OPTIONS_FD 3
#define OPTIONS_PATH "/proc/self/fd/3"

struct sending {
	const char *to;
	json_t *notices;
	size_t more;
	char user[256], home[1024], host[256];
	int log_fd, options_fd;	/* options: of curl; -1: none */
	int64_t until_ms;	/* mono */
	struct buf failed;	/* where each is told by itself: ids of those that were not, with blanks around them */
};

/* Texts ---------------------------------------------------------------------------------------------------------------- */

/* "task 12 (train) of ada: COMPLETED". Whatever it holds stays on one line. */
static void add_line(struct buf *out, const json_t *notice)
{
	static const struct { const char *word, *text; } words[] = {
		{ "begin", "began" }, { "oom", "ran out of GPU memory" }, { "slot", "is asked to make place: its time slot is over" },
		{ "mem", "is near the memory of the machine that it asked for (--mem)" },
	};
	const json_t *t = json_object_get(notice, "task");
	const char *state = json_member_text(t, "state"), *said = state, *event = json_member_text(notice, "event");
	for (size_t i = 0; i < COUNT_OF(words); i++)
		if (!strcmp(event, words[i].word))
			said = words[i].text;
	size_t from = out->len;
	buf_printf(out, "task %s (%s) of %s: %s", json_member_text(t, "id"), json_member_text(t, "name"),
		   json_member_text(t, "user"), said);
	if (said != state && strcmp(state, "RUNNING"))
		buf_printf(out, ", %s", state);
	for (size_t i = from; i < out->len; i++)
		if ((unsigned char)out->data[i] < ' ' || out->data[i] == 0x7f)
			out->data[i] = '?';
}

/* The beginning of what may be long; half a character would have no form in JSON. */
static void add_shown(struct buf *out, const char *text)
{
	buf_printf(out, "  %.*s\n", (int)words_cut(text, MAX_SHOWN), text);
}

static void add_text(struct buf *out, const struct sending *s)
{
	size_t i;
	json_t *notice;
	json_array_foreach(s->notices, i, notice) {
		const json_t *t = json_object_get(notice, "task"), *attempts = json_object_get(t, "attempts");
		const char *evidence = json_member_text(json_array_get(attempts, json_array_size(attempts) - 1), "evidence");
		add_line(out, notice);
		buf_add_text(out, "\n");
		add_shown(out, json_member_text(t, "command"));
		buf_printf(out, "  log: %s\n", json_member_text(t, "log_path"));
		if (*evidence && strcmp(json_member_text(notice, "event"), "begin"))
			add_shown(out, evidence);
	}
	if (s->more)
		buf_printf(out, "and %zu more, for which there was no room\n", s->more);
}

/* For a mail's header: printable ASCII. */
static void add_subject(struct buf *out, const struct sending *s)
{
	scoped_buf line = { 0 };
	size_t n = json_array_size(s->notices) + s->more;
	if (n == 1 && !s->more)
		add_line(&line, json_array_get(s->notices, 0));
	else
		buf_printf(&line, "%zu notices of tasks of %s", n, s->user);
	buf_printf(out, "Subject: [rad %s] ", s->host);
	for (size_t i = 0; i < line.len && i < 200; i++)
		buf_printf(out, "%c", line.data[i] >= ' ' && line.data[i] < 0x7f ? line.data[i] : '?');
	buf_add_text(out, "\n");
}

/* The same for all that read JSON; chats show what is in "text". */
static char *body(const struct sending *s)
{
	scoped_buf text = { 0 };
	add_text(&text, s);
	scoped_json *o = json_pack("{si, ss, ss, sO, sI}", "schema", 1, "host", s->host, "text", buf_text(&text), "notices",
				   s->notices, "more", (json_int_t)s->more);
	return json_to_text(o);
}

/* Programs ------------------------------------------------------------------------------------------------------------- */

/* A file in memory is whole before the program begins, and cannot fill a pipe that nobody reads. */
static int memory(const char *text)
{
	int fd = memfd_create("rad-notice", MFD_CLOEXEC);
	if (fd >= 0 && (io_write_full(fd, text, strlen(text)) || lseek(fd, 0, SEEK_SET)))
		return close(fd), -1;
	return fd;
}

static char **environment(const struct sending *s, const json_t *notice)
{
	const json_t *t = json_object_get(notice, "task");
	char **env = alloc_zero(10 * sizeof *env);
	size_t n = 0;
	env[n++] = alloc_string("PATH=" PATHS_ALL);
	env[n++] = alloc_printf("HOME=%s", s->home);
	env[n++] = alloc_printf("USER=%s", s->user);
	env[n++] = alloc_printf("LOGNAME=%s", s->user);
	env[n++] = alloc_printf("RAD_EVENT=%s", json_member_text(notice, "event"));
	env[n++] = alloc_printf("RAD_TASK_ID=%s", json_member_text(t, "id"));
	env[n++] = alloc_printf("RAD_TASK_NAME=%s", json_member_text(t, "name"));
	env[n++] = alloc_printf("RAD_TASK_STATE=%s", json_member_text(t, "state"));
	env[n++] = alloc_printf("RAD_TASK_LOG=%s", json_member_text(t, "log_path"));
	return env;
}

/* Nothing of ours goes along: no descriptor but its own, no terminal, no signal that whoever started us ignores; and it dies
 * with us, whom radd kills when the time is over. */
__attribute__((noreturn)) static void become(const struct sending *s, const char *program, char *const *argv, char *const *env,
					     int in_fd)
{
	for (int signum = 1; signum < NSIG; signum++)
		signal(signum, SIG_DFL);
	setsid();
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	dup2(in_fd, 0);
	dup2(s->log_fd, 1);
	dup2(s->log_fd, 2);
	dup2(s->options_fd, OPTIONS_FD);
	fcntl(OPTIONS_FD, F_SETFD, s->options_fd < 0 ? FD_CLOEXEC : 0);	/* it may have been that one before */
	close_range(OPTIONS_FD + 1, ~0u, 0);
	execvpe(program, argv, env);
	dprintf(2, "rad: %s: %s\n", argv[0], strerror(errno));
	_exit(127);
}

/* Its status, or -1 when it had to be killed. It has a session of its own, so its children are killed with it. Looked at
 * every 20 ms: this process has nothing else to do, and no signal handler to be woken by. */
static int wait_until(pid_t pid, int64_t until_ms)
{
	int status;
	for (;;) {
		pid_t got = waitpid(pid, &status, WNOHANG);
		if (got == pid)
			return status;
		if (got < 0 || clock_mono_ms() >= until_ms)
			break;
		poll(NULL, 0, LOOK_MS);
	}
	kill(-pid, SIGKILL);
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
	return -1;
}

/* The environment is made before the fork: nothing that allocates stands between it and exec. The program is looked for where
 * `rad submit` looked for it: the worker has no PATH, and what exec takes then leaves out where sendmail is. All programs of
 * one request share one deadline, which began with the worker, so that many notices cannot outlast what radd waits. */
static int run(const struct sending *s, const char *const *argv, const char *input, const json_t *notice, struct error *err)
{
	scoped_fd int in_fd = memory(input);
	if (in_fd < 0)
		return error_errno(err, "memory for a notice");
	char **env = environment(s, notice);
	scoped_free char *found = strchr(argv[0], '/') ? NULL : paths_find(argv[0], PATHS_ALL);
	pid_t pid = fork();
	if (!pid)
		become(s, found ? found : argv[0], (char *const *)argv, env, in_fd);
	alloc_free_list(env);
	if (pid < 0)
		return error_errno(err, "fork");
	int status = wait_until(pid, s->until_ms);
	if (status < 0)
		return error_set(err, ERR_UNAVAILABLE, "%s took longer than %d s and was killed", argv[0], ALL_MS / 1000);
	if (WIFSIGNALED(status))
		return error_set(err, ERR_UNAVAILABLE, "%s ended by signal %d", argv[0], WTERMSIG(status));
	if (!WEXITSTATUS(status))
		return 0;
	return error_set(err, ERR_UNAVAILABLE, "%s ended with exit code %d (%s/.local/state/rad/notify.log)", argv[0],
			 WEXITSTATUS(status), s->home);
}

static int send_mail(const struct sending *s, struct error *err)
{
	static const char *const argv[] = { "sendmail", "-t", "-i", NULL };
	scoped_buf mail = { 0 };
	buf_printf(&mail, "To: %s\n", s->to + strlen("mail:"));
	add_subject(&mail, s);
	buf_add_text(&mail, "Auto-Submitted: auto-generated\nMIME-Version: 1.0\nContent-Type: text/plain; charset=utf-8\n\n");
	add_text(&mail, s);
	return run(s, argv, buf_text(&mail), NULL, err);
}

/* In curl's own file of options, where a text is quoted as in C. */
static void add_option(struct buf *out, const char *name, const char *value)
{
	buf_printf(out, "%s = \"", name);
	for (; *value; value++)
		buf_printf(out, *value == '"' || *value == '\\' ? "\\%c" : "%c", *value);
	buf_add_text(out, "\"\n");
}

/* Only HTTP, no redirections, no ~/.curlrc (-q), and one request: brackets in an address are no list of them (-g). The address
 * is a user's word, and what it may reach is what his own curl could. */
static int send_web(struct sending *s, struct error *err)
{
	static const char *const argv[] = { "curl", "-q", "-g", "-sS", "-f", "-o", "/dev/null", "--proto", "=http,https",
					    "--connect-timeout", "10", "--max-time", "30", "--data-binary", "@-", "--config",
					    OPTIONS_PATH, NULL };
	scoped_free char *json = body(s);
	scoped_buf options = { 0 };
	add_option(&options, "url", s->to);
	add_option(&options, "header", "Content-Type: application/json");
	scoped_fd int fd = memory(buf_text(&options));
	if (fd < 0)
		return error_errno(err, "memory for a notice");
	s->options_fd = fd;
	return run(s, argv, json, NULL, err);
}

/* Once for each task: a script that gets a list would have to be longer. The others are told, too, where one call fails, and
 * what is said in the end is the last failure. */
static int run_program(struct sending *s, struct error *err)
{
	size_t i;
	json_t *notice;
	json_array_foreach(s->notices, i, notice) {
		const json_t *t = json_object_get(notice, "task");
		const char *const argv[] = { s->to + strlen("exec:"), json_member_text(notice, "event"), json_member_text(t, "id"),
					     json_member_text(t, "state"), NULL };
		scoped_free char *json = json_to_text(notice);
		if (run(s, argv, json, notice, err))
			buf_printf(&s->failed, " %s ", argv[2]);
	}
	if (s->more)
		return error_set(err, ERR_UNAVAILABLE, "%zu notices had no room", s->more);
	return s->failed.len ? -1 : 0;
}

/* The worker ----------------------------------------------------------------------------------------------------------- */

/* Begun anew when it is large. Where there is none to be had, what is said goes nowhere. */
static int open_log(const struct sending *s)
{
	struct stat st;
	scoped_free char *folder = alloc_printf("%s/.local/state/rad", s->home), *path = alloc_printf("%s/notify.log", folder);
	int flags = O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
	int fd = io_make_dirs(folder, 0700, NULL) ? -1 : open(path, flags, 0600);
	if (fd >= 0 && !fstat(fd, &st) && st.st_size > MAX_LOG && ftruncate(fd, 0))
		st.st_size = 0;		/* it grows on */
	return fd >= 0 ? fd : open("/dev/null", O_WRONLY | O_CLOEXEC);
}

/* By the uid that the kernel has and no variable: what is in the environment is radd's. */
static int know_user(struct sending *s, struct error *err)
{
	const struct passwd *pw = getpwuid(geteuid());
	if (!pw || gethostname(s->host, sizeof s->host - 1))
		return error_set(err, ERR_NOT_FOUND, "uid %u has no account", (unsigned)geteuid());
	json_make_showable(s->host);
	snprintf(s->user, sizeof s->user, "%s", pw->pw_name);
	snprintf(s->home, sizeof s->home, "%s", pw->pw_dir);
	s->log_fd = open_log(s);
	return 0;
}

/* The address is checked again, though it was when it was given: it comes from a store, and decides what is run. */
static int send_all(struct sending *s, struct error *err)
{
	if (notices_check_to(s->to, err) || know_user(s, err))
		return -1;
	if (!strncmp(s->to, "mail:", 5))
		return send_mail(s, err);
	return strncmp(s->to, "exec:", 5) ? send_web(s, err) : run_program(s, err);
}

/* As the user alone: without capabilities that radd could hand on, and without its protection from the out-of-memory
 * killer. */
static int become_user(int argc, char **argv, struct error *err)
{
	int64_t uid, gid;
	if (argc != 2 && argc != 5)
		return error_set(err, ERR_INVALID, "--notify takes a uid, a gid and the name of the uid's account, or nothing");
	if (argc == 5 && (units_parse_int(argv[2], 0, UINT32_MAX - 1, &uid, err) ||
			  units_parse_int(argv[3], 0, UINT32_MAX - 1, &gid, err) ||
			  identity_become((uid_t)uid, (gid_t)gid, argv[4], err)))
		return -1;
	return geteuid() && identity_drop_capabilities() ? error_errno(err, "giving up capabilities") : 0;
}

int notifying_worker(int argc, char **argv)
{
	struct error err = ERROR_INIT;
	scoped_buf text = { 0 };
	umask(077);
	identity_unprotect();
	if (become_user(argc, argv, &err)) {
		puts(err.text);
		return fflush(stdout) ? 1 : 0;
	}
	if (io_read_fd(0, "the request", MAX_REQUEST, &text, &err))
		return 2;
	scoped_json *request = json_loadb(text.data, text.len, 0, NULL);
	struct sending s = { .to = json_member_text(request, "to"), .notices = json_object_get(request, "notices"),
			     .more = (size_t)json_integer_value(json_object_get(request, "more")),
			     .options_fd = -1, .until_ms = clock_mono_ms() + ALL_MS };
	if (send_all(&s, &err))
		printf("%s%s%s", err.text, s.failed.len ? "\n" : "", s.failed.len ? buf_text(&s.failed) : "");
	buf_free(&s.failed);
	return fflush(stdout) ? 1 : 0;
}
