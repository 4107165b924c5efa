/* SPDX-License-Identifier: MIT
 * The daemon's side of starting tasks: see launch.h. Nothing here waits for a task, or for its own writes to be on the disk:
 * what must be durable before the program begins, the shim makes durable. A file system's journal makes it wait for what others
 * have written there all the same, so that launch_run and launch_forget can be given to a thread.
 */
#include "launch/launch.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/io.h"
#include "base/paths.h"
#include "base/scope.h"
#include "launch/adopted.h"
#include "launch/attempt.h"
#include "launch/cgroup.h"
#include "launch/environment.h"
#include "launch/processes.h"
#include "launch/record.h"
#include "launch/request.h"
#include "launch/spawn.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <netinet/in.h>
#include <signal.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

struct launch {
	char label[LAUNCH_NAME_LEN];	/* for people: plain */
	char *folder;
	char token[LAUNCH_TOKEN_LEN];
	struct buf request;
};

/* Names ---------------------------------------------------------------------------------------------------------------- */

/* The moment keeps apart what two lives of one store placed: after it was put back from a copy, say. */
char *launch_name(const struct launch_home *home, const struct task *t, char name[LAUNCH_NAME_LEN])
{
	const struct attempt *a = task_attempt(t);
	char id[TASK_ID_TEXT];
	int n = snprintf(name, LAUNCH_NAME_LEN, "%s.%u", task_id_text(t->id, id), t->n_attempts);
	int64_t placed_ms = a ? a->placed_ms - a->moved_ms : 0;		/* as when it was named */
	if (home->store && a && placed_ms >= home->since_ms)
		snprintf(name + n, LAUNCH_NAME_LEN - (size_t)n, "-%s-%llx", home->store, (unsigned long long)placed_ms);
	return name;
}

char *launch_folder(const struct launch_home *home, const struct task *t)
{
	char name[LAUNCH_NAME_LEN];
	return alloc_printf("%s/attempts/%s", home->state_dir, launch_name(home, t, name));
}

/* What the shim is asked for ------------------------------------------------------------------------------------------- */

/* A port that is free now. Whoever takes it before the task does was quicker; nothing can be reserved for another process. */
static unsigned free_port(void)
{
	struct sockaddr_in a = { .sin_family = AF_INET };
	socklen_t len = sizeof a;
	scoped_fd int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || bind(fd, (struct sockaddr *)&a, len) || getsockname(fd, (struct sockaddr *)&a, &len))
		return 0;
	return ntohs(a.sin_port);
}

static bool make_readable(const char *path)
{
	struct stat st;
	if (!mkdir(path, 0755))
		return !chmod(path, 0755);	/* whatever our umask is */
	return !lstat(path, &st) && S_ISDIR(st.st_mode) && st.st_uid == geteuid() && !(st.st_mode & 022);
}

/* An empty folder that every user can look into and only we can write. It lies where the socket lies, because that is
 * reachable for all. Otherwise a path in our own folder: nobody listens there either. */
static char *no_mps_dir(const struct launch_request *r)
{
	scoped_free char *copy = alloc_string(r->socket_path ? r->socket_path : r->home.state_dir);
	scoped_free char *path = alloc_printf("%s/no-mps", r->socket_path ? dirname(copy) : copy);
	return make_readable(path) ? steal(path) : alloc_printf("%s/attempts/no-mps", r->home.state_dir);
}

static char **make_environment(const struct launch_request *r, const char *token)
{
	scoped_free char *no_mps = no_mps_dir(r);
	struct environment_input in = { .request = r, .no_mps_dir = no_mps, .token = *token ? token : NULL,
					.master_port = free_port() };
	return launch_environment(&in);
}

char **launch_variables(const struct launch_request *r)
{
	return make_environment(r, "");
}

/* Ids are a radd's own, and so are names of logs that are made of them alone: another user's, another machine's, or one whose
 * state is gone may have written there. NULL: the name says more, and was chosen. Free it. */
static char *heading_of(const struct task *t)
{
	const struct spec *s = t->spec;
	char id[TASK_ID_TEXT], host[HOST_NAME_MAX + 1] = "?", now[CLOCK_ISO_LEN];
	if (t->n_attempts > 1 || !spec_log_is_default(s))
		return NULL;
	gethostname(host, sizeof host - 1);
	return alloc_printf(SPEC_LOG_HEADING "%s of %s on %s begins here, %s; what is above was there before ---\n",
			    task_id_text(t->id, id), s->user ? s->user : "?", host, clock_iso(clock_wall_ms(), now));
}

static void encode(const struct launch_request *r, const char *token, struct buf *out)
{
	const struct spec *s = r->task->spec;
	char name[LAUNCH_NAME_LEN];
	scoped_free char *heading = heading_of(r->task);
	scoped_free char *output = spec_expand_path(s, s->output, r->task->id);
	scoped_free char *error = s->error ? spec_expand_path(s, s->error, r->task->id) : NULL;
	char **env = make_environment(r, token);
	struct shim_request request = {
		.label = launch_name(&r->home, r->task, name), .uid = s->uid, .gid = s->gid, .user = s->user, .umask = s->umask & 0777,
		.mem_max_mib = (uint32_t)task_host_limit_mib(r->task), .truncate = s->truncate && r->task->n_attempts == 1,
		.heading = heading,
		.cwd = s->cwd, .output = output, .error = error, .terminal = s->terminal, .script = s->script, .script_name = s->script_name,
		.conda_env = s->conda_env, .argv = s->argv, .environ = env, .rlimits = s->rlimits, .n_rlimits = s->n_rlimits,
	};
	shim_request_encode(&request, out);
	alloc_free_list(env);
}

/* Its folder ----------------------------------------------------------------------------------------------------------- */

/* Whole or not at all, for a shim that may be reading. It need not survive a power cut: nothing was started then. */
static int write_whole(int folder, const char *name, const void *data, size_t n, struct error *err)
{
	char draft[32];
	snprintf(draft, sizeof draft, "%s.new", name);
	scoped_fd int fd = openat(folder, draft, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0 || io_write_full(fd, data, n) || renameat(folder, draft, folder, name)) {
		error_errno(err, "%s", name);
		unlinkat(folder, draft, 0);
		return -1;
	}
	return 0;
}

/* The token comes first: what runs has it then. */
static int write_request(int folder, const struct launch *l, struct error *err)
{
	if (l->request.len > REQUEST_MAX)
		return error_set(err, ERR_INVALID, "script, arguments and environment take %zu MiB; %zu are allowed",
				 l->request.len >> 20, REQUEST_MAX >> 20);
	return write_whole(folder, ATTEMPT_TOKEN, l->token, strlen(l->token), err) ||
	       write_whole(folder, ATTEMPT_REQUEST, l->request.data, l->request.len, err) ? -1 : 0;
}

/* A folder that was claimed, by whomever, is removed by launch_forget only. So is one that was there before: that it is there,
 * and not claimed, is all that tells after a restart that nothing of an attempt ran whose former shim is known; and that shim
 * may be at its claim just now. */
static void remove_unclaimed(int folder, const char *path, bool made)
{
	if (!made || !faccessat(folder, ATTEMPT_CLAIM, F_OK, 0))
		return;
	unlinkat(folder, ATTEMPT_REQUEST, 0);
	unlinkat(folder, ATTEMPT_TOKEN, 0);
	unlinkat(folder, ATTEMPT_EXIT, 0);
	rmdir(path);
}

/* Whatever lies there: who was killed while it wrote a claim or a request has left its draft too. What is always
 * there goes without a further descriptor. */
static void remove_folder(int folder, const char *path)
{
	static const char *const names[] = { ATTEMPT_REQUEST, ATTEMPT_TOKEN, ATTEMPT_CLAIM, ATTEMPT_EXIT, ATTEMPT_CGROUP };
	for (size_t i = 0; i < COUNT_OF(names); i++)
		unlinkat(folder, names[i], 0);
	if (!rmdir(path))
		return;
	scoped_dir DIR *dir = opendir(path);
	for (const struct dirent *e; dir && (e = readdir(dir));)
		if (e->d_name[0] != '.')
			unlinkat(folder, e->d_name, 0);
	rmdir(path);
}

static int make_folder(const char *path, bool *made, struct error *err)
{
	int rc = mkdir(path, 0700);
	if (rc && errno == ENOENT) {	/* the first attempt here */
		scoped_free char *copy = alloc_string(path);
		if (io_make_dirs(dirname(copy), 0700, err))
			return -1;
		rc = mkdir(path, 0700);
	}
	*made = !rc;
	if (rc && errno != EEXIST)
		return error_errno(err, "%s", path);
	return attempt_open(path, err);
}

static int fill_folder(int folder, const struct launch *l, bool made, struct error *err)
{
	struct proc_id before;
	int claimed = claim_read(folder, ATTEMPT_CLAIM, &before, err);
	if (claimed)
		return claimed < 0 ? -1 : error_set(err, ERR_CONFLICT, "was started before, as process %d", (int)before.pid);
	if (!record_reserve(folder, err) && !write_request(folder, l, err))
		return 0;
	remove_unclaimed(folder, l->folder, made);
	return -1;
}

/* Launching ------------------------------------------------------------------------------------------------------------ */

/* "" where the kernel has no chance left to give, which it always has once it is up. */
static void make_token(char token[LAUNCH_TOKEN_LEN])
{
	unsigned char bytes[(LAUNCH_TOKEN_LEN - 1) / 2];
	*token = 0;
	if (getrandom(bytes, sizeof bytes, GRND_NONBLOCK) != (ssize_t)sizeof bytes)
		return;
	for (size_t i = 0; i < sizeof bytes; i++)
		snprintf(token + 2 * i, 3, "%02x", bytes[i]);
}

struct launch *launch_prepare(const struct launch_request *r)
{
	struct launch *l = alloc_zero(sizeof *l);
	launch_name(&(struct launch_home){ 0 }, r->task, l->label);
	l->folder = launch_folder(&r->home, r->task);
	make_token(l->token);
	encode(r, l->token, &l->request);
	return l;
}

void launch_destroy(struct launch *l)
{
	if (!l)
		return;
	free(l->folder);
	buf_free(&l->request);
	free(l);
}

int launch_run(const struct launch *l, struct proc_id *shim, struct error *err)
{
	*shim = (struct proc_id){ 0 };
	scoped_free char *program = spawn_shim_path(err);
	bool made = false;
	scoped_fd int folder = program ? make_folder(l->folder, &made, err) : -1;
	if (folder < 0 || fill_folder(folder, l, made, err))
		return error_wrap(err, "starting %s", l->label);
	char *argv[] = { program, (char *)"task", l->folder, NULL };
	char *env[] = { (char *)"PATH=" PATHS_USER, NULL };
	if (!spawn_detached(argv, env, -1, shim, err))
		return 0;
	remove_unclaimed(folder, l->folder, made);
	return error_wrap(err, "starting %s", l->label);
}

/* What became of it ---------------------------------------------------------------------------------------------------- */

/* That of the task's last attempt; as attempt_open. */
static int open_folder(const struct launch_home *home, const struct task *t, struct error *err)
{
	scoped_free char *path = launch_folder(home, t);
	return attempt_open(path, err);
}

/* A shim is ours until it becomes its task's user. Whoever else has that pid is none, whatever a claim says. One that cannot be
 * looked at lives: as dead, it would have its task's processes killed. */
static bool lives(struct proc_id shim, const struct task *t)
{
	uid_t uid = proc_uid(shim.pid);
	return !proc_gone(shim) && (uid == t->spec->uid || uid == geteuid());
}

bool launch_adopt(const struct launch_home *home, const struct task *t, struct proc_id *shim)
{
	if (adopted_is(t))
		return adopted_find(t, shim);
	scoped_fd int folder = open_folder(home, t, NULL);
	*shim = (struct proc_id){ 0 };
	return folder >= 0 && claim_read(folder, ATTEMPT_CLAIM, shim, NULL) > 0 && lives(*shim, t);
}

void launch_report(const struct exit_record *record, struct exit_report *r)
{
	r->have_record = true;
	r->ended_ms = record->end_ms;
	r->never_began = !record->began;
	r->again = !record->began && record->again;
	r->exit_code = record->exit_code;
	r->signal = record->signal;
	r->output = record->output;
	r->cgroup_oom = record->oom_kills > 0;
	r->machine_oom = record->machine_oom;
	r->host_peak_mib = (uint64_t)record->host_peak_mib;
	r->max_rss_kib = (uint64_t)record->maxrss_kib;
}

int launch_result(const struct launch_home *home, const struct task *t, bool *claimed, struct exit_report *r,
		  struct error *err)
{
	struct exit_record record;
	struct proc_id shim;
	struct error why = ERROR_INIT;
	*claimed = false;
	if (adopted_is(t)) {
		adopted_result(t, claimed, r);
		return 0;
	}
	scoped_fd int folder = open_folder(home, t, &why);
	if (folder < 0)
		return why.code == ERR_NOT_FOUND ? 0 : error_pass(err, &why);
	int claim = claim_read(folder, ATTEMPT_CLAIM, &shim, err);
	if (claim < 0)
		return -1;
	*claimed = claim > 0;
	/* Alive is asked first: its record is complete when it is gone. */
	if (*claimed && lives(shim, t))
		return 1;
	int have = *claimed ? record_read(folder, &record, err) : 0;
	if (have > 0)
		launch_report(&record, r);
	return have < 0 ? -1 : 0;
}

bool launch_progress(const struct launch_home *home, const struct task *t, struct launch_told *out)
{
	scoped_fd int folder = open_folder(home, t, NULL);
	struct progress_record record;
	if (folder < 0 || !record_read_progress(folder, &record))
		return false;
	uint64_t parts[] = { record.dev, record.ino };
	*out = (struct launch_told){ record.seen, hash_bytes(HASH_SEED, parts, sizeof parts), (uint64_t)record.host_mib, record.cpu };
	return true;
}

int launch_token(const struct launch_home *home, const struct task *t, char token[LAUNCH_TOKEN_LEN])
{
	scoped_fd int folder = open_folder(home, t, NULL);
	return folder >= 0 && attempt_read(folder, ATTEMPT_TOKEN, token, LAUNCH_TOKEN_LEN) == LAUNCH_TOKEN_LEN - 1 ? 0 : -1;
}

bool launch_may_begin_again(const struct launch_home *home, const struct task *t)
{
	scoped_fd int folder = open_folder(home, t, NULL);
	struct proc_id shim;
	return folder >= 0 && !claim_read(folder, ATTEMPT_CLAIM, &shim, NULL);
}

/* For nobody: no kernel gives so high a number. */
#define NOBODYS_PID INT_MAX

bool launch_withdraw(const struct launch_home *home, const struct task *t)
{
	scoped_fd int folder = adopted_is(t) ? -1 : open_folder(home, t, NULL);
	struct error err = ERROR_INIT;
	return folder >= 0 && claim_create(folder, (struct proc_id){ .pid = NOBODYS_PID }, &err) && err.code == ERR_CONFLICT;
}

/* What the shim left is made anew by the next. The record goes first: one that says "again" beside a claim of the next shim
 * would have a program run twice, and a claim without a record is lost at worst. */
int launch_unclaim(const struct launch_home *home, const struct task *t, char **cgroup, struct error *err)
{
	scoped_free char *path = launch_folder(home, t);
	scoped_fd int folder = attempt_open(path, err);
	*cgroup = NULL;
	if (folder < 0)
		return -1;
	if (attempt_cgroup(folder, cgroup))
		return error_errno(err, "%s/" ATTEMPT_CGROUP, path);
	unlinkat(folder, ATTEMPT_CGROUP, 0);
	unlinkat(folder, ATTEMPT_EXIT, 0);
	return unlinkat(folder, ATTEMPT_CLAIM, 0) ? error_errno(err, "%s/" ATTEMPT_CLAIM, path) : 0;
}

/* Its processes -------------------------------------------------------------------------------------------------------- */

/* The claim says who started the program. The task's record does not, where radd was killed before it had written that down, or
 * where the shim that it started came second. */
static void task_family(const struct launch_home *home, const struct task *t, struct family *f)
{
	const struct attempt *attempt = task_attempt(t);
	scoped_fd int folder = open_folder(home, t, NULL);
	struct proc_id shim;
	if (folder < 0 || claim_read(folder, ATTEMPT_CLAIM, &shim, NULL) <= 0)
		shim = attempt ? attempt->shim : (struct proc_id){ 0 };
	family_of(shim, folder, f);
}

/* To those that have a handler for `handled`. */
static int signal_those(const struct launch_home *home, const struct task *t, int signal, int handled)
{
	struct family f;
	if (adopted_is(t))
		return adopted_signal(t, signal, handled);
	task_family(home, t, &f);
	return family_signal(&f, signal, handled);
}

int launch_ask(const struct launch_home *home, const struct task *t, int signal)
{
	return signal_those(home, t, signal, signal);
}

bool launch_hears(const struct launch_home *home, const struct task *t, int signal)
{
	return signal_those(home, t, 0, signal) > 0;
}

int launch_signal(const struct launch_home *home, const struct task *t, int signal)
{
	struct family f;
	if (adopted_is(t))
		return adopted_signal(t, signal, 0);
	task_family(home, t, &f);
	int got = family_signal(&f, signal, 0);
	/* Faster than anything that forks. */
	if (signal == SIGKILL && f.cgroup[0])
		cgroup_kill_path(f.cgroup);
	return got;
}

static const char *const sent_names[] = { [LAUNCH_WARNED] = "warned", [LAUNCH_SLOT] = "slot", [LAUNCH_ASKED] = "asked" };

/* Which of several: a task whose limit is changed is warned again, and the note may be of the time before. */
static unsigned sent_number(const struct task *t, enum launch_sent sent)
{
	return sent == LAUNCH_WARNED ? task_attempt(t)->warnings : 0;
}

/* Where that cannot be noted, the next radd sends it once more. */
void launch_note_sent(const struct launch_home *home, const struct task *t, enum launch_sent sent)
{
	scoped_free char *now = alloc_printf("%lld %u\n", (long long)clock_mono_ms(), sent_number(t, sent));
	scoped_fd int folder = open_folder(home, t, NULL);
	if (folder >= 0)
		write_whole(folder, sent_names[sent], now, strlen(now), NULL);
}

int64_t launch_sent_ago_ms(const struct launch_home *home, const struct task *t, enum launch_sent sent)
{
	scoped_fd int folder = open_folder(home, t, NULL);
	char text[48] = "";
	long long at_ms;
	unsigned number;
	if (folder >= 0)
		attempt_read(folder, sent_names[sent], text, sizeof text);
	int got = sscanf(text, "%lld %u", &at_ms, &number);
	if (got < 1 || (got == 2 && number != sent_number(t, sent)))	/* earlier releases noted no number */
		return -1;
	int64_t ago_ms = clock_mono_ms() - at_ms;
	return ago_ms > 0 ? ago_ms : 0;
}

size_t launch_processes(const struct launch_home *home, const struct task *t, pid_t **pids)
{
	if (adopted_is(t))
		return adopted_processes(t, pids);
	struct family f;
	task_family(home, t, &f);
	return family_list(&f, pids);
}

/* Forgetting ----------------------------------------------------------------------------------------------------------- */

/* The cgroup goes first: the folder is what names it. Where there is no descriptor just now, there will be one. */
bool launch_forget(const char *path)
{
	struct error err = ERROR_INIT;
	scoped_fd int folder = attempt_open(path, &err);
	if (folder < 0)
		return err.code == ERR_NOT_FOUND || err.code == ERR_DENIED;
	scoped_free char *cgroup = NULL;
	if (attempt_cgroup(folder, &cgroup) || (cgroup && !cgroup_remove_path(cgroup)))
		return false;
	remove_folder(folder, path);
	return true;
}
