/* SPDX-License-Identifier: MIT
 * rad monitor: what GPUs and processes do, read at an interval by itself: no radd is needed, and none hears of it. Whatever
 * becomes of the watching, what is watched goes on.
 */
#include "base/alloc.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/io.h"
#include "base/scope.h"
#include "base/units.h"
#include "cli/cli.h"
#include "cli/format.h"
#include "cli/ids.h"
#include "cli/process.h"
#include "cli/watch_table.h"
#include "cli/watched.h"
#include "device/device.h"
#include "monitor/procs.h"
#include "monitor/usage.h"
#include "submit/wire.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#define MAX_NUMBER 1024

struct monitoring {
	int64_t interval_ms, count;	/* count 0: without end */
	bool *wanted;			/* by a GPU's number, MAX_NUMBER of them: whether it was asked for; NULL: all. Owned */
	struct device *device;
	struct procs *procs;
	struct usage *usage;
	struct watched who;
	struct watch_table_means *means;	/* NULL: nobody asks for them */
	const char *path;		/* of the CSV; NULL: none */
	int fd;				/* of the CSV, -1: none (any more) */
	off_t written;			/* up to the end of its last whole line */
	bool screen;
	unsigned lines;			/* on it */
	int64_t samples;
	bool failed;			/* something could not be written */
};

/* Processes of a snapshot -------------------------------------------------------------------------------------------------- */

struct monitor_list { struct rows_process *list; struct buf *gpus; size_t n; };	/* gpus: names, blanks between */

static void list_clear(struct monitor_list *l)
{
	for (size_t i = 0; i < l->n; i++)
		buf_free(&l->gpus[i]);
	free(l->list);
	free(l->gpus);
}

static struct rows_process *list_add(struct monitor_list *l, pid_t pid, task_id task, const char *program)
{
	l->list = alloc_resize(l->list, l->n + 1, sizeof *l->list);
	l->gpus = alloc_resize(l->gpus, l->n + 1, sizeof *l->gpus);
	l->gpus[l->n] = (struct buf){ 0 };
	l->list[l->n] = (struct rows_process){ .pid = pid, .task = task, .program = program };
	return &l->list[l->n++];
}

/* A process on a GPU, as a part of the one that its line is of. */
static void list_count(struct monitor_list *l, struct rows_process *of, const struct snapshot *s, const struct proc_reading *p)
{
	const struct gpu_reading *g = &s->gpus[p->gpu];
	char name[GPU_UUID_LEN];
	struct buf *gpus = &l->gpus[of - l->list];
	rows_gpu(g, name);
	bool listed = false;
	for (const char *all = buf_text(gpus), *at = all; (at = strstr(at, name)); at += strlen(name))
		listed = listed || ((at == all || at[-1] == ' ') && strchr(" ", at[strlen(name)]));
	if (!listed)
		buf_printf(gpus, "%s%s", gpus->len ? " " : "", name);
	if (g->valid & GPU_PROC_MEM) {
		of->mem_known = true;
		of->mem_mib += p->mem_mib;
	}
}

static struct rows_process *list_find(struct monitor_list *l, pid_t pid)
{
	for (size_t i = 0; i < l->n; i++)
		if (l->list[i].pid == pid)
			return &l->list[i];
	return NULL;
}

/* Where nobody was named, every process on a GPU that is shown has a line of its own. */
static struct rows_process *line_of(const struct monitoring *w, struct monitor_list *l, const struct proc_reading *p)
{
	if (!w->who.n) {
		struct rows_process *mine = list_find(l, p->id.pid);
		return mine || p->mps_server ? mine : list_add(l, p->id.pid, p->claimed, p->program);
	}
	for (size_t i = 0; i < w->who.n; i++)
		if (p->id.start_ticks && proc_descends(p->id.pid, w->who.roots[i].pid))
			return list_find(l, w->who.roots[i].pid);
	return NULL;
}

static void list_processes(const struct monitoring *w, const struct snapshot *s, struct monitor_list *l)
{
	for (size_t i = 0; i < w->who.n; i++)
		if (proc_alive(w->who.roots[i]))
			list_add(l, w->who.roots[i].pid, w->who.task, w->who.programs[i]);
	for (size_t i = 0; i < s->n_procs; i++) {
		struct rows_process *mine = line_of(w, l, &s->procs[i]);
		if (mine)
			list_count(l, mine, s, &s->procs[i]);
	}
	scoped_free struct proc_id *ids = alloc_zero((l->n + 1) * sizeof *ids);
	for (size_t i = 0; i < l->n; i++) {
		ids[i].pid = l->list[i].pid;
		proc_stat(ids[i].pid, &ids[i].start_ticks, NULL);
	}
	usage_look(w->usage, ids, l->n, s->mono_ms);
	for (size_t i = 0; i < l->n; i++) {
		l->list[i].gpus = buf_text(&l->gpus[i]);
		l->list[i].usage = usage_of(w->usage, ids[i]);
	}
}

/* Samples ----------------------------------------------------------------------------------------------------------------- */

/* Half a line would be taken for a whole one by who reads the file later. */
static void stop_writing(struct monitoring *w)
{
	const char *why = strerror(errno);
	struct stat st;
	if (!fstat(w->fd, &st) && S_ISREG(st.st_mode) && ftruncate(w->fd, w->written))
		why = "what stands at its end is no whole line";
	if (errno != EPIPE || w->path)
		cli_note("monitor: %s: %s: nothing more is written; it holds %lld samples", w->path ? w->path : "stdout", why,
			 (long long)w->samples);
	w->failed = true;
	w->fd = -1;
}

/* Some file systems tell only here that there was no room. */
static void close_output(struct monitoring *w)
{
	if (w->path && w->fd >= 0 && close(w->fd)) {
		cli_note("monitor: %s: %s: its last lines may be missing", w->path, strerror(errno));
		w->failed = true;
	}
	w->fd = -1;
}

static void write_rows(struct monitoring *w, const struct buf *rows)
{
	if (w->fd < 0)
		return;
	if (io_write_full(w->fd, rows->data, rows->len))
		stop_writing(w);
	else
		w->written += (off_t)rows->len;
}

/* Takes GPUs that were not asked for out of the snapshot, with their processes. */
static void keep_wanted(const struct monitoring *w, struct snapshot *s)
{
	uint32_t kept = 0, kept_procs = 0, *place;
	if (!w->wanted)
		return;
	place = alloc_zero((s->n_gpus + 1) * sizeof *place);
	for (uint32_t i = 0; i < s->n_gpus; i++) {
		place[i] = s->gpus[i].index < MAX_NUMBER && w->wanted[s->gpus[i].index] ? kept : UINT32_MAX;
		if (place[i] != UINT32_MAX)
			s->gpus[kept++] = s->gpus[i];
	}
	for (uint32_t i = 0; i < s->n_procs; i++) {
		struct proc_reading p = s->procs[i];
		p.gpu = place[p.gpu];
		if (p.gpu != UINT32_MAX)
			s->procs[kept_procs++] = p;
	}
	s->n_gpus = kept;
	s->n_procs = kept_procs;
	free(place);
}

static int read_devices(const struct monitoring *w, struct snapshot *s, struct error *err)
{
	*s = (struct snapshot){ .mono_ms = clock_mono_ms(), .wall_ms = clock_wall_ms() };
	watched_let_signals(true);
	int rc = device_sample(w->device, s, err);
	watched_let_signals(false);
	if (rc)
		return -1;
	procs_fill(w->procs, s);
	keep_wanted(w, s);
	return 0;
}

static void tell(struct monitoring *w, const struct snapshot *s)
{
	struct monitor_list l = { 0 };
	scoped_buf rows = { 0 };
	list_processes(w, s, &l);
	for (size_t i = 0; i < s->n_gpus; i++)
		rows_add_gpu(&rows, s->wall_ms, &s->gpus[i]);
	for (size_t i = 0; i < l.n; i++)
		rows_add_process(&rows, s->wall_ms, &l.list[i]);
	write_rows(w, &rows);
	if (w->screen)
		watch_table_draw(s, l.list, l.n, &w->lines);
	if (w->means)
		watch_table_means_add(w->means, s);
	w->samples += w->fd >= 0 || !w->failed;
	list_clear(&l);
}

static int sample(struct monitoring *w, int64_t *mono_ms, struct error *err)
{
	struct snapshot s;
	int rc = read_devices(w, &s, err);
	*mono_ms = s.mono_ms;
	if (!rc)
		tell(w, &s);
	snapshot_clear(&s);
	return rc;
}

/* A reading is due an interval after the one before began: closer ones would give loads that are not known (nvml_read.c). A
 * command goes on without readings where these fail. */
static void follow(struct monitoring *w)
{
	struct error err = ERROR_INIT;
	int64_t last_ms = clock_mono_ms(), done = 1;
	bool reading = true;
	while (!watched_over(&w->who) && (!w->count || done < w->count || w->who.child) && (!w->failed || w->who.child)) {
		watched_wait(&w->who, last_ms + w->interval_ms);
		bool over = watched_over(&w->who);
		if (!reading || (over && clock_mono_ms() - last_ms < 100) || (w->count && done >= w->count)) {
			last_ms = clock_mono_ms();
			continue;
		}
		done++;
		if (sample(w, &last_ms, &err)) {
			cli_note("monitor: %s: nothing more is read", err.text);
			w->failed = true;
			reading = false;
		}
	}
}

/* Setting up --------------------------------------------------------------------------------------------------------------- */

struct monitor_asked { const char *interval, *output, *gpus, *task, *pid, *devices, *count; };

/* Where simulated devices lie: those of the task that this is called in, else those of the caller's own radd. */
static char *state_folder(void)
{
	const char *file = getenv("RAD_SIM_DEVICES"), *slash = file ? strrchr(file, '/') : NULL;
	if (slash && slash > file)
		return alloc_printf("%.*s", (int)(slash - file), file);
	return wire_own_state_dir();
}

static int open_device(struct monitoring *w, const char *setting, struct error *err)
{
	const char *environment = getenv("RAD_DEVICES");
	scoped_free char *folder = state_folder();
	bool given = setting;
	if (!setting)
		setting = environment && *environment ? environment : "nvml";
	w->device = device_create(setting, folder, err);
	if (!w->device || (device_file(w->device) && wire_make_state_dir(folder, err)))
		return -1;
	device_watch(w->device, given);
	w->procs = procs_create(device_kind(w->device)->mps_process);
	int rc = device_open(w->device, NULL, err);
	return rc && given && err->code == ERR_CONFLICT ? error_wrap(err, "--devices (without it, what is there is watched)") : rc;
}

/* "0,2": the GPUs with these numbers; every one must be there. */
static int choose_gpus(struct monitoring *w, const char *text, const struct snapshot *s, struct error *err)
{
	scoped_free char *list = alloc_string(text);
	char *rest = list, *word;
	w->wanted = alloc_zero(MAX_NUMBER * sizeof *w->wanted);
	while ((word = strsep(&rest, ","))) {
		int64_t index;
		bool there = false;
		if (units_parse_int(word, 0, MAX_NUMBER - 1, &index, err))
			return error_wrap(err, "--gpus");
		for (uint32_t i = 0; i < s->n_gpus; i++)
			there = there || s->gpus[i].index == (uint32_t)index;
		scoped_free char *which = snapshot_describe(s);
		if (!there)
			return error_set(err, ERR_INVALID, "--gpus: there is no GPU %s: this machine shows %s", word, which);
		w->wanted[index] = true;
	}
	return 0;
}

/* A shell's >> may have put standard output behind lines that are not ours. */
static off_t place_of(int fd)
{
	off_t at = lseek(fd, 0, fcntl(fd, F_GETFL) & O_APPEND ? SEEK_END : SEEK_CUR);
	return at < 0 ? 0 : at;
}

static int open_output(struct monitoring *w, struct error *err)
{
	const struct buf header = { .data = (char *)rows_header, .len = strlen(rows_header) };
	if (w->path) {
		w->fd = open(w->path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
		if (w->fd < 0)
			return error_errno(err, "%s", w->path);
	}
	w->written = place_of(w->fd);
	write_rows(w, &header);
	return 0;
}

/* The first reading: of loads it knows nothing yet. */
static int begin(struct monitoring *w, const struct monitor_asked *a, struct error *err)
{
	struct snapshot s;
	int rc = read_devices(w, &s, err);
	if (!rc && a->gpus)
		rc = choose_gpus(w, a->gpus, &s, err);
	if (!rc)
		rc = open_output(w, err);
	if (!rc) {
		keep_wanted(w, &s);
		tell(w, &s);
	}
	snapshot_clear(&s);
	return rc;
}

static int read_numbers(struct monitoring *w, const struct monitor_asked *a, struct error *err)
{
	double seconds = 1;
	int failed = cli_read_double("interval", a->interval, 0.1, 3600, &seconds, err) ||
		     cli_read_int("count", a->count, 1, INT64_MAX / 2, &w->count, err);
	w->interval_ms = (int64_t)(seconds * 1000);
	return failed;
}

static int find_processes(struct monitoring *w, const struct monitor_asked *a, pid_t pid, struct error *err)
{
	task_id task;
	if (a->pid && watched_pid(&w->who, pid, err))
		return -1;
	return a->task && (task_id_parse(a->task, &task, err) || watched_task(&w->who, task, err)) ? -1 : 0;
}

/* False: c->rc says with what to exit. */
static bool read_options(struct cli_call *c, struct monitoring *w, const struct monitor_asked *a)
{
	struct error err = ERROR_INIT;
	pid_t pid = 0;
	bool wrong = read_numbers(w, a, &err);
	if (wrong)
		c->rc = cli_usage(c, "%s", err.text);
	else if ((wrong = !!a->task + !!a->pid + !!c->n_words > 1))
		c->rc = cli_usage(c, "of --task, --pid and a command, one is watched");
	else if ((a->task && !ids_want_one(c, a->task)) || (a->pid && !process_want_pid(c, a->pid, &pid)))
		return false;
	else if ((wrong = find_processes(w, a, pid, &err)))
		c->rc = cli_fail(c, &err);
	return !wrong;
}

/* To where: the file; without one the screen, and where there is none, or after "-", CSV on standard output. A command keeps
 * its standard output to itself. */
static void choose_output(struct monitoring *w, const struct monitor_asked *a, bool command)
{
	bool dash = a->output && !strcmp(a->output, "-");
	w->path = dash ? NULL : a->output;
	w->screen = !a->output && !command && isatty(STDOUT_FILENO);
	w->fd = dash || (!a->output && !command && !w->screen) ? STDOUT_FILENO : -1;
	w->means = command ? watch_table_means_create() : NULL;
}

static void say_ending(const struct monitoring *w)
{
	if (w->path && !w->failed)
		cli_note("monitor: %lld %s in %s (rad report --monitor %s -o F.html draws them)", (long long)w->samples,
			 w->samples == 1 ? "sample" : "samples", w->path, w->path);
	if (!w->means)
		return;
	watch_table_means_print(w->means);
	char rss[FORMAT_LEN];
	fprintf(stderr, "processors: %.1f s; largest process: %s; exit code %d\n", w->who.cpu_s, format_mib(w->who.peak_rss_mib, rss),
		w->who.code);
}

static int watch_run(struct cli_call *c, struct monitoring *w, const struct monitor_asked *a)
{
	struct error err = ERROR_INIT;
	if (open_device(w, a->devices, &err) || begin(w, a, &err))
		return cli_fail(c, &err);
	/* A command on simulated GPUs is told of them as a task is: rad simtask takes memory of those that are watched. */
	if (c->n_words && device_file(w->device))
		setenv("RAD_SIM_DEVICES", device_file(w->device), 0);
	if (c->n_words && watched_command(&w->who, c->words, &err)) {
		cli_fail(c, &err);
		return w->who.code;
	}
	follow(w);
	close_output(w);
	say_ending(w);
	return w->who.code >= 0 ? w->who.code : w->failed ? CLI_OWN : CLI_DONE;
}

int verb_monitor(struct cli_call *c)
{
	struct monitor_asked a = { 0 };
	const struct args_option options[] = {
		{ "interval", 'i', "S", "seconds between two readings, from 0.1 (1)", .value = &a.interval },
		{ "output", 'o', "F.csv", "write the readings there as CSV; -: standard output", .value = &a.output },
		{ "gpus", 0, "LIST", "only these GPUs: 0,2", .value = &a.gpus },
		{ "task", 't', "ID", "watch this task's processes", .value = &a.task },
		{ "pid", 'p', "P", "watch this process and what descends from it", .value = &a.pid },
		{ "count", 'n', "N", "end after so many readings", .value = &a.count },
		{ "devices", 0, "LIST", "GPUs as radd's setting has them: nvml, sim:4xa100-40g", .value = &a.devices },
		{ 0 },
	};
	struct monitoring w = { .fd = -1, .who.code = -1 };
	if (!cli_options(c, options))
		return c->rc;
	watched_signals();
	int rc;
	if (!read_options(c, &w, &a)) {
		rc = c->rc;
	} else {
		choose_output(&w, &a, c->n_words > 0);
		w.usage = usage_create();
		rc = watch_run(c, &w, &a);
	}
	watched_clear(&w.who);
	watch_table_means_destroy(w.means);
	usage_destroy(w.usage);
	procs_destroy(w.procs);
	device_destroy(w.device);
	free(w.wanted);
	return rc;
}
