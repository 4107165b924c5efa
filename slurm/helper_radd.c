/* SPDX-License-Identifier: MIT
 * rad-slurm announce and depart: a job of Slurm's and radd. See helper.c.
 */
#include "helper.h"
#include "call.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/proc.h"
#include "base/scope.h"
#include "base/units.h"
#include "base/words.h"
#include "cli/slurm_conf.h"
#include "recover/scan.h"
#include "submit/signature.h"
#include "submit/wire.h"

#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define ASK_SLURM_MS 5000
#define POLL_MS 50
#define TAIL (256 << 10)	/* of the output that is looked at */
/* As a spec has it: a word of the user's beyond that would keep radd from being told. */
#define MEMORY_MAX (1 << 30)	/* MiB */

/* One request to radd at that socket; takes its reference. A new reference, or NULL. */
static json_t *ask(const char *socket, json_t *request, struct error *err)
{
	scoped_fd int fd = wire_connect(socket, err);
	json_t *reply = fd < 0 ? NULL : wire_call(fd, request, err);
	json_decref(request);
	return reply;
}

/* The same, asked again until then while `again` is the error. `times`: how often it was asked; NULL: never mind. */
static json_t *ask_until(const char *socket, json_t *request, enum error_code again, int64_t until_ms, unsigned *times,
			 struct error *err)
{
	scoped_json *each = request;
	for (unsigned n = 1;; n++) {
		*err = ERROR_INIT;
		if (times)
			*times = n;
		json_t *reply = ask(socket, json_incref(each), err);
		if (reply || err->code != again || clock_mono_ms() >= until_ms)
			return reply;
		poll(NULL, 0, POLL_MS);
	}
}

/* A request that needs only an id. */
static json_t *of_id(const char *op, const char *id)
{
	json_t *request = wire_request(op);
	json_object_set_new(request, "id", json_text(id));
	return request;
}

/* Announce --------------------------------------------------------------------------------------------------------------- */

struct announce {
	const char *socket, *job, *uid, *gid, *pid, *mem, *pieces, *piece, *gpus, *all, *at, *place, *name, *signature;
	bool exclusive;
};

static int number(const char *what, const char *text, int64_t min, int64_t max, int64_t *value, struct error *err)
{
	if (!text)
		return error_set(err, ERR_INVALID, "--%s is missing", what);
	return units_parse_int(text, min, max, value, err) ? error_wrap(err, "--%s", what) : 0;
}

/* The first word is the user's: it counts as far as it is one, and as what Slurm gave goes. 0: not known. */
static uint64_t memory_of(const struct announce *a, int64_t pieces, int64_t piece)
{
	uint64_t mib = 0, given = (uint64_t)(pieces * piece);
	if (a->mem && (units_parse_mib(a->mem, &mib, NULL) || mib > MEMORY_MAX))
		mib = 0;
	return given && (!mib || mib > given) ? given : mib;
}

/* How many pieces Slurm has the job down for on each of its GPUs. On a node nobody but slurmctld knows that, so it is asked:
 * what the user's environment says counts only so far, and rad-slurm recover raises it. -1, with ERR_UNAVAILABLE: no answer in
 * time; with ERR_INVALID: it has none, or fewer pieces than GPUs. */
static int64_t pieces_by_slurm(const struct announce *a, int64_t gpus, int64_t until_ms, struct error *err)
{
	char out[256];
	size_t n;
	char *argv[] = { "squeue", "-h", "-j", (char *)a->job, "-O", "tres-per-node:128", NULL };
	for (int64_t left; (left = until_ms - clock_mono_ms()) > 0; poll(NULL, 0, POLL_MS)) {
		if (call_run(argv, NULL, left < ASK_SLURM_MS ? left : ASK_SLURM_MS, 0, out, sizeof out, &n) || !n)
			continue;
		int64_t all = slurm_conf_gres(out, "radmem");
		if (!all)
			return error_set(err, ERR_INVALID, "it asks Slurm for no GPU memory, by which radd places here: --gres=radmem:8");
		if (all < gpus)
			return error_set(err, ERR_INVALID, "%lld GPUs with radmem:%lld: ask for memory on each", (long long)gpus,
					 (long long)all);
		return all / gpus;
	}
	return error_set(err, ERR_UNAVAILABLE, "slurmctld did not say what the job asks for");
}

/* "0,3" to a list: indices, or UUIDs. */
static json_t *list_of(const char *words)
{
	json_t *list = json_array();
	scoped_free char *text = alloc_string(words);
	char *rest = text;
	for (char *word; (word = strsep(&rest, ","));)
		if (*word)
			json_array_append_new(list, json_text(word));
	return list;
}

/* Names of jobs are the user's. */
static json_t *name_of(const struct announce *a, const char *command)
{
	scoped_free char *name = alloc_string(a->name ? a->name : command);
	name[words_cut(name, 200)] = 0;
	words_replace_controls(name, '?');
	json_t *text = json_exact(name);
	return text ? text : json_text(command);	/* "slurm job 15" says more than '?' */
}

/* A job that was given GPUs, and not pieces of one, has them alone by Slurm's word. A signature is its user's word: radd would
 * hear nothing of a job that has another's. */
static json_t *spec_of(const struct announce *a, int64_t uid, int64_t pid, uint64_t ticks, uint64_t mib, int64_t gpus)
{
	scoped_free char *command = alloc_printf("slurm job %s", a->job);
	bool alone = a->exclusive || (a->at && !a->pieces);
	json_t *s = json_pack("{so, s[s], ss, ss, sI, sI, sI, sb, sI}", "name", name_of(a, command), "argv", command, "cwd", "/",
			      "output", "/dev/null", "process_pid", (json_int_t)pid, "process_ticks", (json_int_t)ticks, "gpus",
			      (json_int_t)gpus, "exclusive", alone, "gpu_mem_mib", (json_int_t)mib);
	if (s && a->signature && signature_belongs(a->signature, (uid_t)uid))
		json_object_set_new(s, "signature", json_text(a->signature));
	return s;
}

/* What it may take on each of its GPUs. Where all pieces of one are its, it is alone there; where fewer are, or nobody knows how
 * many a GPU has, it is not, whatever its environment says. */
static int find_memory(struct announce *a, int64_t gpus, int64_t until_ms, uint64_t *mib, struct error *err)
{
	int64_t pieces = 0, piece = 1024, whole = 0;
	if ((a->piece && number("piece", a->piece, 1, 1 << 30, &piece, err)) ||
	    (a->pieces && number("pieces", a->pieces, 0, 1 << 20, &pieces, err)) ||
	    (a->all && number("all", a->all, 0, 1 << 20, &whole, err)) ||
	    (a->place && (pieces = pieces_by_slurm(a, gpus, until_ms, err)) < 0))
		return -1;
	bool all = whole && pieces >= whole, fewer = !all && pieces;
	a->exclusive = all || (a->exclusive && !fewer);
	*mib = all ? 0 : memory_of(a, pieces, piece);
	if (!all && a->place && pieces * piece >= (int64_t)*mib + piece)
		*mib = (uint64_t)(pieces * piece);	/* it was raised */
	return 0;
}

static json_t *announce_request(struct announce *a, int64_t until_ms, struct error *err)
{
	int64_t uid, gid, pid, gpus = 1;
	uint64_t ticks, mib;
	if (number("uid", a->uid, 0, UINT32_MAX - 1, &uid, err) || number("gid", a->gid, 0, UINT32_MAX - 1, &gid, err) ||
	    number("pid", a->pid, 2, INT32_MAX, &pid, err) || (a->gpus && number("gpus", a->gpus, 1, 64, &gpus, err)))
		return NULL;
	if (!a->job || (!a->at && !a->place)) {
		error_set(err, ERR_INVALID, "--job, and --at or --place are needed");
		return NULL;
	}
	if (proc_stat((pid_t)pid, &ticks, NULL)) {
		error_set(err, ERR_NOT_FOUND, "process %lld: there is none", (long long)pid);
		return NULL;
	}
	if (find_memory(a, gpus, until_ms, &mib, err))
		return NULL;
	scoped_free char *key = alloc_printf("slurm:%s", a->job);
	json_t *request = wire_request("announce");
	json_object_update_new(request, json_pack("{ss, sI, sI, so}", "job", key, "uid", (json_int_t)uid, "gid", (json_int_t)gid, "spec",
						  spec_of(a, uid, pid, ticks, mib, gpus)));
	if (!a->place)
		json_object_set_new(request, "at", list_of(a->at));
	return request;
}

static bool is_mps(const struct announce *a, const char *id)
{
	scoped_json *shown = ask(a->socket, of_id("show", id), NULL);
	const json_t *task = json_array_get(json_object_get(shown, "tasks"), 0);
	const char *share = json_string_value(json_object_get(task, "share"));
	return share && !strcmp(share, "mps");
}

/* For the plugin: texts that end with a NUL. */
static void print_place(const char *id, bool joined, bool mps, const json_t *variables)
{
	const char *name;
	json_t *value;
	printf("id=%s%cjoined=%d%c", id, 0, joined, 0);
	json_object_foreach((json_t *)variables, name, value)
		printf("%s=%s%c", name, json_string_value(value), 0);
	if (mps)
		printf("RAD_MPS=1%c", 0);
}

int helper_announce(int argc, char **argv, struct error *err)
{
	struct announce a = { .socket = "/run/rad/radd.sock" };
	struct error ignored = ERROR_INIT;
	int64_t limit_s = 2;
	const struct args_option options[] = {
		{ "socket", 0, "PATH", "radd's", .value = &a.socket }, { "job", 0, "ID", "of Slurm", .value = &a.job },
		{ "uid", 0, "UID", "whose it is", .value = &a.uid }, { "gid", 0, "GID", "and group", .value = &a.gid },
		{ "pid", 0, "PID", "of slurmstepd", .value = &a.pid },
		{ "gpu-mem", 0, "SIZE", "on each of its GPUs", .value = &a.mem },
		{ "pieces", 0, "N", "instead: how many it was given", .value = &a.pieces },
		{ "piece", 0, "MIB", "size of one", .value = &a.piece }, { "gpus", 0, "N", "GPUs it needs", .value = &a.gpus },
		{ "all", 0, "N", "pieces that are a whole GPU", .value = &a.all },
		{ "at", 0, "LIST", "the GPUs that it was given", .value = &a.at },
		{ "place", 0, "SECONDS", "it was given none: ask for a place, and wait so long", .value = &a.place },
		{ "exclusive", 0, NULL, "alone on its GPUs", .flag = &a.exclusive },
		{ "name", 0, "NAME", "of the job", .value = &a.name },
		{ "signature", 0, "TEXT", "of runs that need the same memory", .value = &a.signature }, { 0 },
	};
	int rc = helper_options(argc, argv, options, err);
	if (rc || (a.place && number("place", a.place, 1, 600, &limit_s, err)))
		return rc > 0 ? 0 : -1;
	int64_t until_ms = clock_mono_ms() + limit_s * 1000;
	json_t *request = announce_request(&a, until_ms, err);
	if (!request)
		return a.place && err->code == ERR_INVALID ? -HELPER_NEVER : -1;
	scoped_json *accepted = ask(a.socket, request, err);
	const char *id = json_string_value(json_object_get(accepted, "id"));
	if (!id)
		return err->code ? -1 : error_set(err, ERR_CORRUPT, "radd's answer has no 'id'");
	bool joined = json_is_true(json_object_get(accepted, "joined"));
	/* Its variables, once it stands where it is to run, and an MPS server that it needs is up. */
	scoped_json *place = ask_until(a.socket, of_id("environ", id), ERR_CONFLICT, until_ms, NULL, err);
	if (!place && a.place) {
		if (!joined)
			json_decref(ask(a.socket, of_id("give_back", id), &ignored));
		return HELPER_NOT_NOW;
	}
	print_place(id, joined, place && is_mps(&a, id), json_object_get(place, "environ"));
	return fflush(stdout) ? error_errno(err, "output") : 0;
}

/* Depart ----------------------------------------------------------------------------------------------------------------- */

struct depart { const char *socket, *id, *job, *restarts, *uid, *gid, *code, *signal, *limit, *output; };

/* In a process of the user's own, since it is his file, and his name for it. */
static void scan_as(uid_t uid, gid_t gid, const char *path, int result)
{
	struct scan_result r;
	struct stat st;
	char bytes[16384];
	if (geteuid() ? geteuid() != uid : setgroups(0, NULL) || setgid(gid) || setuid(uid))
		_exit(1);
	int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
	if (fd < 0 || fstat(fd, &st) || !S_ISREG(st.st_mode))
		_exit(1);
	if (st.st_size > TAIL)
		lseek(fd, st.st_size - TAIL, SEEK_SET);
	struct scan *s = scan_create();
	size_t total = 0;
	for (ssize_t n; total < TAIL && (n = read(fd, bytes, sizeof bytes)) > 0; total += (size_t)n)
		scan_feed(s, bytes, (size_t)n);
	scan_finish(s, &r);
	_exit(write(result, &r, sizeof r) != sizeof r);
}

/* The last error in its output; without one, or where it cannot be read: nothing is known. */
static void scan_output(const struct depart *d, uid_t uid, gid_t gid, struct scan_result *r)
{
	int ends[2];
	struct scan_result seen;
	memset(r, 0, sizeof *r);
	if (!d->output || pipe2(ends, O_CLOEXEC))
		return;
	pid_t pid = fork();
	if (!pid)
		scan_as(uid, gid, d->output, ends[1]);
	close(ends[1]);
	ssize_t n = pid < 0 ? 0 : read(ends[0], &seen, sizeof seen);
	close(ends[0]);
	if (pid > 0)
		waitpid(pid, NULL, 0);
	if (n == sizeof seen && seen.kind <= SCAN_OTHER_ERROR) {
		seen.line[sizeof seen.line - 1] = seen.source[sizeof seen.source - 1] = 0;
		*r = seen;
	}
}

static json_t *record_of(int code, int sig, const struct scan_result *r)
{
	json_t *o = json_pack("{si, sb, si, si, si, sb, sb, sI, sI}", "v", 1, "began", 1, "exit_code", code, "signal", sig, "kind",
			      (int)r->kind, "survived", r->survived, "oom_near", r->oom_near, "oom_seen", (json_int_t)r->oom_seen,
			      "offset", (json_int_t)r->offset);
	json_object_set_new(o, "source", json_text(r->source));
	json_object_set_new(o, "line", json_text(r->line));
	return o;
}

/* The task when radd has judged it; its neighbours may have to be heard first, which takes seconds. */
static json_t *judged(const struct depart *d, int64_t until_ms, struct error *err)
{
	for (;;) {
		scoped_json *shown = ask_until(d->socket, of_id("show", d->id), ERR_UNAVAILABLE, until_ms, NULL, err);
		json_t *task = json_array_get(json_object_get(shown, "tasks"), 0);
		const char *state = json_string_value(json_object_get(task, "state"));
		if (!state)
			return NULL;
		if (strcmp(state, "RUNNING"))
			return json_incref(task);
		if (clock_mono_ms() >= until_ms) {
			error_set(err, ERR_UNAVAILABLE, "task %s: is not judged yet", d->id);
			return NULL;
		}
		poll(NULL, 0, POLL_MS);
	}
}

static int tell_slurm(const struct depart *d, const json_t *task, struct error *err)
{
	char comment[COMMENT_MAX], node[65] = "", out[256];
	size_t n;
	gethostname(node, sizeof node - 1);
	const char *name = getenv("SLURMD_NODENAME");
	comment_write(comment, task, d->restarts, name ? name : node);
	scoped_free char *job = alloc_printf("JobId=%s", d->job), *said = alloc_printf("AdminComment=%s", comment);
	char *argv[] = { "scontrol", "update", job, said, NULL };
	if (call_run(argv, NULL, 10000, 1, out, sizeof out, &n))
		return error_set(err, ERR_UNAVAILABLE, "scontrol did not take the comment of job %s", d->job);
	return 0;
}

int helper_depart(int argc, char **argv, struct error *err)
{
	struct depart d = { .socket = "/run/rad/radd.sock" };
	struct scan_result seen;
	int64_t uid = 0, gid = 0, code = 0, sig = 0, limit = 10;
	const struct args_option options[] = {
		{ "socket", 0, "PATH", "radd's", .value = &d.socket }, { "id", 0, "TASK", "of radd", .value = &d.id },
		{ "job", 0, "ID", "of Slurm", .value = &d.job },
		{ "restarts", 0, "N", "times it was started before", .value = &d.restarts },
		{ "uid", 0, "UID", "whose it was", .value = &d.uid }, { "gid", 0, "GID", "and group", .value = &d.gid },
		{ "exit-code", 0, "N", "of the task that failed first", .value = &d.code },
		{ "signal", 0, "N", "that ended it", .value = &d.signal },
		{ "output", 0, "FILE", "where it wrote its errors", .value = &d.output },
		{ "limit", 0, "SECONDS", "wait so long for the verdict", .value = &d.limit }, { 0 },
	};
	int rc = helper_options(argc, argv, options, err);
	if (rc || number("uid", d.uid, 0, UINT32_MAX - 1, &uid, err) || number("gid", d.gid, 0, UINT32_MAX - 1, &gid, err) ||
	    (d.code && number("exit-code", d.code, 0, 255, &code, err)) ||
	    (d.signal && number("signal", d.signal, 0, 64, &sig, err)) || (d.limit && number("limit", d.limit, 1, 600, &limit, err)))
		return rc > 0 ? 0 : -1;
	if (!d.id || !d.job || !d.restarts)
		return error_set(err, ERR_INVALID, "--id, --job and --restarts are needed");
	int64_t until_ms = clock_mono_ms() + (limit > 2 ? limit - 2 : 1) * 1000;
	if (code || sig)
		scan_output(&d, (uid_t)uid, (gid_t)gid, &seen);
	else
		memset(&seen, 0, sizeof seen);
	json_t *request = wire_request("depart");
	json_object_update_new(request, json_pack("{ss, so}", "id", d.id, "record", record_of((int)code, (int)sig, &seen)));
	/* A radd that is being restarted answers in a moment: without it nobody would know that the job ran out of memory. */
	unsigned times;
	scoped_json *told = ask_until(d.socket, request, ERR_UNAVAILABLE, until_ms, &times, err);
	/* One that ended before it could answer may have noted it. */
	bool known = told || (times > 1 && err->code == ERR_CONFLICT);
	scoped_json *task = known ? judged(&d, until_ms, err) : NULL;
	return task ? tell_slurm(&d, task, err) : -1;
}
