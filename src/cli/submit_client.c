/* SPDX-License-Identifier: MIT
 * Reading of a submission: see submit_client.h. Command line beats directive beats file, so the file is applied first and
 * paths are settled last.
 */
#include "cli/submit_client.h"

#include "base/alloc.h"
#include "base/args.h"
#include "base/clock.h"
#include "base/io.h"
#include "base/scope.h"
#include "base/words.h"
#include "cli/client_queue.h"
#include "cli/moment.h"
#include "cli/submit_caller.h"
#include "cli/submit_capture.h"
#include "cli/submit_files.h"
#include "cli/submit_notify.h"
#include "estimate/gpumemnet_vector.h"
#include "parse/radfile.h"
#include "submit/options.h"
#include "submit/sbatch.h"
#include "submit/signature.h"
#include "submit/validate.h"
#include "submit/wire.h"

#include <ctype.h>
#include <fcntl.h>
#include <libgen.h>
#include <string.h>
#include <sys/stat.h>

#define STDIN_NAME "standard input"
#define MOST_AHEAD_MS (10LL * 366 * 86400 * 1000)

/* A submission being read. */
struct submit_job {
	struct spec *spec;
	struct submit_flags *flags;
	struct submit_pending pending;
	char *model_where, *capture_where;	/* what to say before errors about those files; owned */
	char *caller_dir, *base_dir;	/* where the caller is; where the task runs without --chdir. Owned */
	char *program;			/* content of the script that a command runs, for the signature; owned, may be NULL */
	size_t program_len;
};

static void job_clear(struct submit_job *j)
{
	spec_unref(j->spec);
	options_pending_clear(&j->pending);
	free(j->model_where);
	free(j->capture_where);
	free(j->caller_dir);
	free(j->base_dir);
	free(j->program);
}

/* Takes it. NULL: there is none. */
static void add_note(struct submit_flags *f, char *note)
{
	if (!note)
		return;
	f->notes = alloc_resize(f->notes, f->n_notes + 1, sizeof *f->notes);
	f->notes[f->n_notes++] = note;
}

void submit_flags_clear(struct submit_flags *f)
{
	for (size_t i = 0; i < f->n_notes; i++)
		free(f->notes[i]);
	free(f->notes);
	free(f->copy);
	f->notes = NULL;
	f->copy = NULL;
	f->n_notes = 0;
}

static char *absolute(const char *path, const char *base)
{
	return *path == '/' ? alloc_string(path) : alloc_printf("%s%s%s", base, strcmp(base, "/") ? "/" : "", path);
}

static void make_absolute(char **path, const char *base)
{
	if (!*path || **path == '/')
		return;
	char *whole = absolute(*path, base);
	free(*path);
	*path = whole;
}

static char *folder_of(const char *path)
{
	scoped_free char *copy = alloc_string(path);
	return alloc_string(dirname(copy));
}

/* ---- the command line ---- */

void submit_flag_targets(struct args_option *options, struct submit_flags *f)
{
	const struct { const char *name; bool *flag; } flags[] = {
		{ "parsable", &f->parsable }, { "dry-run", &f->dry_run },
		{ "test-only", &f->dry_run }, { "wait", &f->wait }, { "json", &f->json },
		{ "pty", &f->pty }, { "snapshot", &f->snapshot },
	};
	for (struct args_option *o = options; o->name; o++) {
		for (size_t i = 0; i < COUNT_OF(flags); i++)
			if (!strcmp(o->name, flags[i].name))
				o->flag = flags[i].flag;
		if (!strcmp(o->name, "queue"))
			o->value = &client_queue_said;
	}
}

/* Of an option that names a file: errors about that file begin so. */
static void note_where(struct submit_job *j, const char *option, const char *where)
{
	char **said = !strcmp(option, "model") ? &j->model_where : !strcmp(option, "capture") ? &j->capture_where : NULL;
	if (!said)
		return;
	free(*said);
	*said = alloc_string(where);
}

/* In the order given: of two that say the same, the later one counts. */
static int apply_given(struct submit_job *j, const struct args *a, const struct args_option *options, struct error *err)
{
	for (size_t i = 0; i < a->n_given; i++) {
		const struct submit_option *o = &submit_options[a->given[i].option - options];
		scoped_free char *where = alloc_printf("--%s", o->name);
		if (!o->set)
			continue;
		if (options_set(j->spec, &j->pending, o, a->given[i].value, where, err))
			return -1;
		note_where(j, o->name, where);
	}
	make_absolute(&j->pending.model, j->caller_dir);
	make_absolute(&j->pending.capture, j->caller_dir);
	make_absolute(&j->pending.chdir, j->caller_dir);
	return 0;
}

/* ---- task files ---- */

/* One that is too large has such lines all the same, in the text it begins with: it is refused for its size later, not run
 * without them. */
bool submit_is_task_file(const char *word)
{
	struct stat st;
	if (radfile_is_name(word))
		return true;
	if (stat(word, &st) || !S_ISREG(st.st_mode))
		return false;
	scoped_fd int fd = open(word, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	scoped_free char *text = alloc_zero(SPEC_MAX_TEXT + 1);
	return fd >= 0 && io_read_full(fd, text, SPEC_MAX_TEXT) > 0 && radfile_has_directives(text, strlen(text));
}

static int apply_settings(struct submit_job *j, const char *name, const struct radfile *f, struct error *err)
{
	for (size_t i = 0; i < f->n; i++) {
		const struct rad_setting *set = &f->settings[i];
		scoped_free char *where = alloc_printf("%.300s:%d: %s", name, set->line, set->key);
		if (options_set(j->spec, &j->pending, options_find(set->key), set->value, where, err))
			return -1;
		note_where(j, set->key, where);
	}
	memcpy(j->spec->estimates_mib, f->estimates_mib, sizeof f->estimates_mib);
	return 0;
}

/* "-": a script comes on standard input. */
static bool is_stdin(const char *word)
{
	return !strcmp(word, "-");
}

/* As sbatch reads one where no file is named: out of a pipe or a file, never off a terminal or /dev/null. */
static bool stdin_is_script(void)
{
	struct stat st;
	return !fstat(STDIN_FILENO, &st) && (S_ISFIFO(st.st_mode) || S_ISREG(st.st_mode));
}

static int read_task_text(const char *path, struct buf *text, struct error *err)
{
	struct stat st;
	if (is_stdin(path) && (fcntl(STDIN_FILENO, F_GETFL) & O_ACCMODE) == O_WRONLY)	/* io_fill_standard */
		return error_set(err, ERR_INVALID, "standard input is closed: a script comes by a pipe or a file: rad submit - <train.sh");
	if (is_stdin(path))
		return io_read_fd(STDIN_FILENO, STDIN_NAME, SPEC_MAX_TEXT, text, err);
	if (stat(path, &st))
		return error_errno(err, "%.300s", path);
	if (!S_ISREG(st.st_mode))
		return error_set(err, ERR_INVALID, "%.300s: is a %s, not a task file", path,
				 S_ISDIR(st.st_mode) ? "folder" : "device or pipe");
	if (st.st_size > SPEC_MAX_TEXT)
		return error_set(err, ERR_INVALID, "%.300s: is larger than 1 MiB: a task file is a short script; keep data elsewhere", path);
	return io_read_file(path, SPEC_MAX_TEXT, text, err);
}

/* Reads a task file and applies what it says; paths in it are taken from its own folder. */
static int read_task_file(struct submit_job *j, const char *path, struct error *err)
{
	scoped_buf text = { 0 };
	struct radfile f;
	if (read_task_text(path, &text, err))
		return -1;
	bool from_stdin = is_stdin(path);
	scoped_free char *real = from_stdin ? NULL : realpath(path, NULL);
	scoped_free char *folder = from_stdin ? alloc_string(j->base_dir) : folder_of(real ? real : path);
	path = from_stdin ? STDIN_NAME : path;
	bool policy_counts = j->flags->positional_policy && j->flags->positional_policy();
	if (j->flags->for_slurm ? radfile_parse_for_slurm(path, real, buf_text(&text), text.len, &f, err) :
	    radfile_parse(path, real, buf_text(&text), text.len, policy_counts, &f, err))
		return -1;
	int failed = apply_settings(j, path, &f, err);
	make_absolute(&j->pending.model, folder);
	make_absolute(&j->pending.capture, folder);
	if (radfile_is_name(path)) {
		free(j->base_dir);
		j->base_dir = steal(folder);
	}
	make_absolute(&j->pending.chdir, j->base_dir);
	j->spec->script = steal(f.script);
	j->spec->script_name = submit_caller_name(from_stdin ? "stdin" : words_base(path));
	for (size_t i = 0; i < f.n_notes; i++)
		add_note(j->flags, alloc_printf("%.300s: %s", path, f.notes[i]));
	radfile_clear(&f);
	return failed;
}

/* The words after a task file are its script's arguments. Options among them are a likely slip. */
static int check_script_words(struct submit_job *j, const char *file, char *const *words, struct error *err)
{
	for (; *words; words++) {
		if (radfile_is_name(*words) && !access(*words, F_OK))
			return error_set(err, ERR_INVALID, "%.200s and %.200s: one task file at a time: submit each by itself", file, *words);
		scoped_free char *name = alloc_string(strncmp(*words, "--", 2) ? "" : *words + 2);
		name[strcspn(name, "=")] = 0;
		if (options_find(name))
			add_note(j->flags, alloc_printf("'--%s' stands after %.200s and so goes to the script: options of rad stand before it",
							name, file));
	}
	return 0;
}

/* Of a command they may be its own. These are no training script's, and without them the task is not what was meant. */
static void note_options_behind(struct submit_job *j, char *const *words)
{
	static const char *const ours[] = { "--gpu-mem", "--array", "--dependency" };
	for (; *words; words++)
		for (size_t i = 0; i < COUNT_OF(ours); i++) {
			size_t n = strlen(ours[i]);
			if (!strncmp(*words, ours[i], n) && (!(*words)[n] || (*words)[n] == '='))
				add_note(j->flags, alloc_printf("'%s' stands behind the command and so goes to it: options of rad stand before it",
								ours[i]));
		}
}

static bool is_script(const char *word)
{
	static const char *const endings[] = { ".py", ".sh", ".bash", ".jl", ".R" };
	for (size_t i = 0; i < COUNT_OF(endings); i++)
		if (words_end_in(word, endings[i]))
			return true;
	return false;
}

/* What a shell's command is best called: the first script in it, else as the program; `text` is cut up. */
static const char *telling_part(char *text, const char *program)
{
	for (char *word; (word = strsep(&text, " \t\n;&|()<>'\"")); )
		if (is_script(word))
			return word;
	return program;
}

/* What a command is best called in a list: its script ("python -u train.py", "torchrun ... train.py", "sh -c 'python
 * train.py'"), or the module that Python is told to run, else the program. */
static char *telling_name(char *const *words)
{
	bool python = !strncmp(words_base(words[0]), "python", 6);
	for (char *const *w = words; *w && strcmp(*w, "-c"); w++) {
		bool shell = words_end_in(*w, "sh") && w[1] && *w[1] == '-' && words_end_in(w[1], "c") && w[2];
		scoped_free char *text = shell ? alloc_string(w[2]) : NULL;
		if (is_script(*w))
			return submit_caller_name(words_base(*w));
		if (shell)
			return submit_caller_name(words_base(telling_part(text, words[0])));
		if (python && !strcmp(*w, "-m") && w[1])
			return submit_caller_name(words_base(w[1]));
	}
	return submit_caller_name(words_base(words[0]));
}

/* A script that is run by a command ("bash job.sh") is the command's business, and so are its lines: better said. */
static void note_unread_lines(struct submit_job *j, char *const *words)
{
	for (int i = 0; *words && i < 2; words++, i++)
		if (submit_is_task_file(*words))
			add_note(j->flags, alloc_printf("%.300s: its #RAD and #SBATCH lines are not read here: they are by 'rad submit %.300s'",
							*words, *words));
}

static int read_words(struct submit_job *j, char *const *words, bool dashes, struct error *err)
{
	struct spec *s = j->spec;
	if (!words[0])
		return error_set(err, ERR_INVALID, "nothing to run: write a task file (train.rad), a command (python train.py), or - for a "
				 "script on standard input");
	bool script = !dashes && is_stdin(words[0]), file = script || (!dashes && submit_is_task_file(words[0]));
	if (!file)
		note_unread_lines(j, words + !dashes);
	if (!file && !dashes)
		note_options_behind(j, words + 1);
	if (file && (check_script_words(j, words[0], words + 1, err) || read_task_file(j, words[0], err)))
		return -1;
	spec_set_argv(s, file ? words + 1 : words);
	if (!s->name)
		s->name = script || file ? submit_caller_name(script ? "stdin" : words_base(words[0])) : telling_name(words);
	return 0;
}

static int read_estimator_files(struct submit_job *j, struct error *err)
{
	if (j->pending.model && submit_read_model(j->spec, j->pending.model, err))
		return error_wrap(err, "%s", j->model_where);
	if (j->pending.capture && submit_read_capture(j->spec, j->pending.capture, err))
		return error_wrap(err, "%s", j->capture_where);
	return 0;
}

/* ---- settling ---- */

static int settle_folder(struct submit_job *j, struct error *err)
{
	const char *wanted = j->pending.chdir ? j->pending.chdir : j->base_dir;
	struct stat st;
	scoped_free char *real = realpath(wanted, NULL);
	if (!real)
		return error_errno(err, "working directory %.300s", wanted);
	if (stat(real, &st) || !S_ISDIR(st.st_mode))
		return error_set(err, ERR_INVALID, "working directory %.300s: is not a folder", wanted);
	if (access(real, X_OK))
		return error_errno(err, "working directory %.300s", real);
	if (strlen(real) >= SPEC_MAX_PATH || !submit_caller_is_utf8(real))
		return error_set(err, ERR_INVALID, "working directory %.60s...: its path is too long or not UTF-8: use another", real);
	j->spec->cwd = steal(real);
	return 0;
}

/* What travels as JSON is UTF-8; files were checked, words of the command line were not. */
static int check_utf8(const struct spec *s, struct error *err)
{
	const struct { const char *option, *value; } texts[] = {
		{ "name", s->name }, { "optimizer", s->optimizer }, { "precision", s->precision }, { "env", s->conda_env },
	};
	for (size_t i = 0; i < COUNT_OF(texts); i++)
		if (texts[i].value && !submit_caller_is_utf8(texts[i].value))
			return error_set(err, ERR_INVALID, "--%s: is not UTF-8 text", texts[i].option);
	return 0;
}

int submit_check_words(const struct spec *s, struct error *err)
{
	if (s->optimizer && !gpumemnet_knows_optimizer(s->optimizer))
		return error_set(err, ERR_INVALID, "optimizer: '%.60s' is none that is known: one of %s; or leave it out", s->optimizer,
				 GPUMEMNET_OPTIMIZERS);
	if (s->precision && !gpumemnet_knows_precision(s->precision))
		return error_set(err, ERR_INVALID, "precision: '%.60s' is none that is known: one of %s; or leave it out", s->precision,
				 GPUMEMNET_PRECISIONS);
	return 0;
}

/* What is shown on a terminal is seen; a log of it is kept for who asks for one. */
static int settle_terminal(struct submit_job *j, struct error *err)
{
	struct spec *s = j->spec;
	if (!j->flags->pty)
		return 0;
	if (!j->flags->terminal)
		return error_set(err, ERR_INVALID, "--pty: a task that waits in the queue has no terminal: use rad run --pty");
	const char *socket = j->flags->terminal(err);
	if (!socket)
		return -1;
	s->terminal = alloc_string(socket);
	if (!s->output)
		s->output = alloc_string("/dev/null");
	return 0;
}

/* What is past already keeps it from nothing. */
int submit_read_begin(const char *text, int64_t *begin_s, struct error *err)
{
	int64_t now_ms = clock_wall_ms(), begin_ms;
	if (moment_parse(text, MOMENT_NEXT, now_ms, &begin_ms, err))
		return -1;
	if (begin_ms > now_ms + MOST_AHEAD_MS)
		return error_set(err, ERR_INVALID, "'%.60s' is more than ten years ahead", text);
	*begin_s = begin_ms > now_ms ? begin_ms / 1000 : 0;
	return 0;
}

/* Of a text that knows where it is, both are read. */
static bool reads_slurms_index(const char *text, size_t len)
{
	static const char theirs[] = "SLURM_ARRAY_", ours[] = "RAD_ARRAY_TASK_ID";
	return memmem(text, len, theirs, strlen(theirs)) && !memmem(text, len, ours, strlen(ours));
}

/* Elements of an array that all read nothing where Slurm has their index do the same work each. Of a script with #SBATCH lines
 * it is told already, and with the line. */
static void note_array_variables(struct submit_job *j)
{
	const struct spec *s = j->spec;
	bool reads = s->script ? reads_slurms_index(s->script, strlen(s->script)) && !strstr(s->script, "#SBATCH") :
				 j->program && reads_slurms_index(j->program, j->program_len);
	for (char *const *word = s->argv; word && *word; word++)
		reads = reads || reads_slurms_index(*word, strlen(*word));
	if (reads && s->n_array)
		add_note(j->flags, alloc_string("Slurm's variables are not set here: an element's index is RAD_ARRAY_TASK_ID (rad(5))"));
}

static int settle_logs(struct submit_job *j, struct error *err)
{
	struct spec *s = j->spec;
	if (!s->output)
		s->output = alloc_string(spec_log_name(wire_is_own_beside_server(), s->n_array));
	submit_caller_name_machine(&s->output);
	submit_caller_name_machine(&s->error);
	scoped_free char *folder = spec_literal_path(s->cwd);
	make_absolute(&s->output, folder);
	make_absolute(&s->error, folder);
	if (submit_caller_check_log("output", s, s->output, err) || (s->error && submit_caller_check_log("error", s, s->error, err)))
		return -1;
	return 0;
}

static int settle_program(struct submit_job *j, struct error *err)
{
	struct spec *s = j->spec;
	char *note;
	if ((!s->script && submit_caller_check_program(s, err)) || submit_caller_check_conda(s, &note, err))
		return -1;
	add_note(j->flags, note);
	add_note(j->flags, s->script ? NULL : submit_caller_script_note(s));
	add_note(j->flags, s->script || j->flags->pty ? NULL : submit_caller_reads_nothing(s));
	return 0;
}

static int settle_begin(struct submit_job *j, struct error *err)
{
	const char *begin = j->pending.begin;
	if (!begin)
		return 0;
	if (submit_read_begin(begin, &j->spec->begin_s, err))
		return error_wrap(err, "--begin");
	if (!j->spec->begin_s && strncasecmp(begin, "now", 3))
		add_note(j->flags, alloc_printf("--begin: '%.60s' is past: it starts as soon as there is room", begin));
	return 0;
}

static int settle_environ(struct submit_job *j, struct error *err)
{
	size_t dropped = submit_caller_environ(j->spec);
	if (dropped)
		add_note(j->flags, alloc_printf("%zu environment variable%s left out: not UTF-8, or too long", dropped,
						dropped == 1 ? " is" : "s are"));
	return submit_caller_export(j->spec, j->pending.export, err) ? error_wrap(err, "--export") : 0;
}

/* The folder comes first, since logs and programs are named from it; the terminal before the logs, since with it there is none
 * that nobody asked for. */
static int settle(struct submit_job *j, struct error *err)
{
	struct spec *s = j->spec;
	char *note;
	submit_caller_identity(s);
	if (check_utf8(s, err) || submit_check_words(s, err) || settle_folder(j, err) || settle_terminal(j, err) ||
	    settle_logs(j, err) || settle_program(j, err))
		return -1;
	add_note(j->flags, alloc_string_or_null(j->pending.mem_doubt));
	add_note(j->flags, alloc_string_or_null(j->pending.time_doubt));
	if (read_estimator_files(j, err) || submit_notify_settle(s, &note, err))
		return -1;
	add_note(j->flags, note);
	j->flags->capture = submit_capture_wish(s, j->pending.capture_how);
	s->priority -= j->pending.nice;
	if (settle_begin(j, err) || settle_environ(j, err))
		return -1;
	if (!s->script)
		j->program = submit_caller_program_text(s, &j->program_len);
	s->signature = signature_make(s, j->program, j->program_len);
	note_array_variables(j);
	return submit_validate(s, err);
}

static const char *given_value(const struct args *a, const struct args_option *options, const char *name)
{
	const char *value = NULL;
	for (size_t i = 0; i < a->n_given; i++)
		if (!strcmp(submit_options[a->given[i].option - options].name, name))
			value = a->given[i].value;
	return value;
}

/* --wrap: a line of shell as a script, which goes on behind a command that failed, as the one that sbatch makes. */
static int read_wrap(struct submit_job *j, const char *line, char *const *words, struct error *err)
{
	if (words[0])
		return error_set(err, ERR_INVALID, "--wrap says what runs: leave out '%.60s'", words[0]);
	if (!line[strspn(line, " \t\n")] || strlen(line) > SPEC_MAX_TEXT - 100)
		return error_set(err, ERR_INVALID, "--wrap: expected a command of at most 1 MiB");
	if (radfile_check_text("--wrap", line, strlen(line), err))
		return -1;
	j->spec->script = alloc_printf("set +e\n%s\n", line);
	j->spec->name = alloc_string("wrap");
	j->spec->script_name = alloc_string("wrap");
	return 0;
}

/* Where nothing is said to run, but something is handed in, that. */
static char *const *words_of(const struct args *a)
{
	static char *const script[] = { "-", NULL };
	return !a->n_words && !a->dashes && stdin_is_script() ? script : a->words;
}

/* "CUDA_VISIBLE_DEVICES=1 rad submit ...", as without us; a task's and a job's own is not what somebody wants. */
static void note_chosen_gpus(struct submit_job *j)
{
	const char *chosen = getenv("CUDA_VISIBLE_DEVICES");
	bool names = chosen && (isdigit((unsigned char)*chosen) || !strncmp(chosen, "GPU-", 4));
	if (names && j->spec->gpus && isatty(STDERR_FILENO) && !getenv("RAD_TASK_ID") && !getenv("SLURM_JOB_ID"))
		add_note(j->flags, alloc_printf("CUDA_VISIBLE_DEVICES=%.60s of your shell does not count: the task is given its GPU",
						chosen));
}

static int read_job(struct submit_job *j, const struct args *a, const struct args_option *options, struct error *err)
{
	if (!j->caller_dir)
		return error_set(err, ERR_NOT_FOUND, "the current folder was removed, or cannot be entered any more: go to another (cd)");
	const char *wrap = given_value(a, options, "wrap");
	if (given_value(a, options, "radt")) {
		j->flags->usage = true;
		return error_set(err, ERR_INVALID, "--radt is of 'rad submit'");
	}
	if (wrap ? read_wrap(j, wrap, a->words, err) : read_words(j, words_of(a), a->dashes, err)) {
		j->flags->usage = j->flags->usage || wrap;
		return -1;
	}
	if (apply_given(j, a, options, err)) {
		j->flags->usage = true;
		return -1;
	}
	note_chosen_gpus(j);
	return settle(j, err);
}

#define EACH_LINE "--array=1-N, and line $RAD_ARRAY_TASK_ID of the file: sed -n ${RAD_ARRAY_TASK_ID}p"

/* What comes to mind of those who know neither us nor Slurm; NULL: it is none of that. */
static const char *of_nobody(const char *name)
{
	static const char *const words[][2] = {
		{ "vram", "--gpu-mem=12G" }, { "conda", "--env=NAME" }, { "log", "--output=FILE" }, { "stdout", "--output=FILE" },
		{ "cwd", "--chdir=DIR" }, { "workdir", "--chdir=DIR" }, { "walltime", "--time=2h" }, { "after", "--dependency=afterok:ID" },
		{ "stderr", "--error=FILE" }, { "stdin", "sh -c 'COMMAND <FILE'" }, { "working-dir", "--chdir=DIR" },
		{ "working-directory", "--chdir=DIR" }, { "label", "--name=NAME" }, { "stashed", "--hold" }, { "delay", "--begin=now+10m" },
		{ "depends", "--dependency=afterok:ID" }, { "crash-limit", "--retries=N" }, { "print-task-id", "--parsable" },
		{ "each-line", EACH_LINE }, { "from-json", EACH_LINE }, { "progress", "rad run, or rad logs -f ID" },
		{ "gpu", "--gpus=N: RAD-RM chooses which" }, { "entrypoint-num-gpus", "--gpus=N" }, { "num-gpus", "--gpus=N" },
		{ "gpu-type", "--constraint=a100" }, { "interactive", "rad run --pty" }, { "follow", "rad run, or rad logs -f ID" },
		{ "watch", "rad run, or rad logs -f ID" }, { "gpu-id", "--gpus=N: RAD-RM chooses which" },
		{ "device", "--gpus=N: RAD-RM chooses which" }, { "memory", "--gpu-mem=12G of a GPU's, --mem=12G of the machine's" },
		{ "jobid", "a shell of yours, beside the task: 'rad gpus -v', 'rad logs -f ID'" },
		{ "container-image", "container.sh IMAGE COMMAND, from RAD-RM's examples" },
		{ NULL },
	};
	return words_beside(words, name);
}

/* An option that is unknown here and sbatch's: what there is instead of it, or why there is nothing; and others that come to
 * mind. Values of others may stand before it. */
static void explain_unknown(char *const *words, struct error *err)
{
	for (; *words && strcmp(*words, "--"); words++) {
		if (**words != '-')
			continue;
		bool is_long = (*words)[1] == '-';
		scoped_free char *name = alloc_string(*words + 1 + is_long), *quoted = alloc_printf("'%.*s", is_long ? 60 : 2, *words);
		name[strcspn(name, "=")] = 0;
		const struct sbatch_option *o = !*name || !strstr(err->text, quoted) ? NULL :
						is_long ? sbatch_find(name) : sbatch_find_letter(*name);
		if (is_long && strstr(err->text, quoted) && of_nobody(name))
			error_set(err, ERR_INVALID, "unknown option '--%s': here it is %s", name, of_nobody(name));
		else if (o && o->kind == SBATCH_COUNTED)
			error_set(err, ERR_INVALID, "--%s is read from #SBATCH lines: here say how much in all, by --gpus, --cpus-per-task and "
				  "--mem (memory of the machine; of each GPU: --gpu-mem)", o->name);
		else if (o && !options_find(o->name))
			error_set(err, ERR_INVALID, o->kind == SBATCH_REFUSED ? "--%s is sbatch's, and not done here: %s" :
				  o->kind == SBATCH_OBEYED ? "--%s is sbatch's: here it is --%s" :
				  "--%s is sbatch's, and means nothing here (%s): leave it out", o->name, o->said ? o->said : "this is one machine");
		if (o)
			return;
	}
}

int submit_parse_command(int argc, char **argv, struct spec **out, struct submit_flags *flags, struct error *err)
{
	scoped_free struct args_option *options = options_args();
	struct args a;
	*out = NULL;
	submit_flag_targets(options, flags);
	int failed = args_read(&a, argc, argv, options, ARGS_FIRST, err);
	if (failed)
		explain_unknown(argv + 1, err);
	flags->help = a.help;
	flags->usage = failed || (!a.help && !*words_of(&a) && !given_value(&a, options, "wrap"));
	const bool nothing = flags->usage;
	if (!failed && !a.help) {
		struct submit_job j = { .spec = spec_create(), .flags = flags, .caller_dir = getcwd(NULL, 0) };
		j.base_dir = alloc_string_or_null(j.caller_dir);
		failed = read_job(&j, &a, options, err);
		const struct error said = *err;
		if (nothing && failed && a.n_given && a.given[a.n_given - 1].value == argv[argc - 1])
			error_set(err, said.code, "%s; '%.60s' is the value of --%s", said.text, argv[argc - 1],
				  a.given[a.n_given - 1].option->name);
		flags->dependent = j.spec->n_deps;
		if (!failed)
			*out = steal(j.spec);
		job_clear(&j);
	}
	args_clear(&a);
	return failed ? -1 : 0;
}

int submit_parse_file(const char *path, struct spec **out, struct submit_flags *flags, struct error *err)
{
	*out = NULL;
	struct submit_job j = { .spec = spec_create(), .flags = flags, .base_dir = alloc_string("/") };
	submit_caller_identity(j.spec);
	int failed = read_task_file(&j, path, err) || submit_check_words(j.spec, err) || read_estimator_files(&j, err);
	if (!failed && !j.spec->name)
		j.spec->name = submit_caller_name(words_base(path));
	if (!failed) {
		j.spec->signature = signature_make(j.spec, NULL, 0);
		flags->capture = submit_capture_wish(j.spec, j.pending.capture_how);
		*out = steal(j.spec);
	}
	job_clear(&j);
	return failed ? -1 : 0;
}

int submit_parse_script(char *const *words, struct spec **out, struct submit_flags *flags, struct error *err)
{
	*out = NULL;
	struct submit_job j = { .spec = spec_create(), .flags = flags, .base_dir = getcwd(NULL, 0) };
	if (!j.base_dir)
		j.base_dir = alloc_string("/");
	int failed = read_task_file(&j, words[0], err) || settle_folder(&j, err);
	if (!failed) {
		spec_set_argv(j.spec, words + 1);
		*out = steal(j.spec);
	}
	job_clear(&j);
	return failed ? -1 : 0;
}

json_t *submit_request(const struct spec *s)
{
	json_t *request = wire_request("submit");
	json_object_set_new(request, "spec", spec_to_json(s));
	json_object_set_new(request, "environ", spec_environ_to_json(s));
	return request;
}
