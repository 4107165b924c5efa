/* SPDX-License-Identifier: MIT
 * The caller's environment and limits, and checks with the caller's rights: see submit_caller.h.
 */
#include "cli/submit_caller.h"

#include "base/alloc.h"
#include "base/buf.h"
#include "base/io.h"
#include "base/paths.h"
#include "base/scope.h"
#include "base/words.h"
#include "cli/cli.h"
#include "parse/radfile.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <pwd.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/utsname.h>

#define MAX_NAME 100

void submit_caller_identity(struct spec *s)
{
	static const int kept[] = {
		RLIMIT_AS, RLIMIT_CORE, RLIMIT_CPU, RLIMIT_DATA, RLIMIT_FSIZE, RLIMIT_MEMLOCK, RLIMIT_NOFILE, RLIMIT_NPROC, RLIMIT_STACK,
	};
	const struct passwd *who = getpwuid(getuid());
	s->uid = getuid();
	s->gid = getgid();
	s->user = who ? alloc_string(who->pw_name) : alloc_printf("%lu", (unsigned long)s->uid);
	s->umask = umask(077);
	umask(s->umask);
	s->rlimits = alloc_zero(sizeof kept / sizeof *kept * sizeof *s->rlimits);
	for (size_t i = 0; i < COUNT_OF(kept); i++) {
		struct rlimit l;
		if (!getrlimit((__rlimit_resource_t)kept[i], &l))
			s->rlimits[s->n_rlimits++] = (struct spec_rlimit){ .resource = kept[i],
				.soft = l.rlim_cur == RLIM_INFINITY ? -1 : (int64_t)l.rlim_cur,
				.hard = l.rlim_max == RLIM_INFINITY ? -1 : (int64_t)l.rlim_max };
	}
}

bool submit_caller_is_utf8(const char *text)
{
	return !radfile_check_text("", text, strlen(text), NULL);
}

char *submit_caller_name(const char *file)
{
	char *name = alloc_string(file);
	if (!submit_caller_is_utf8(name))
		for (char *p = name; *p; p++)
			if ((unsigned char)*p >= 0x80)
				*p = '?';
	words_replace_controls(name, '_');
	name[words_cut(name, MAX_NAME)] = 0;
	return name;
}

/* ---- paths ---- */

/* 0: the file is there and may be written; 1: it is not there; -1: it cannot be. */
static int check_log_file(const char *what, const char *path, struct error *err)
{
	struct stat st;
	if (stat(path, &st))
		return 1;
	if (S_ISDIR(st.st_mode))
		return error_set(err, ERR_INVALID, "--%s: %.300s: is a folder: add a file name", what, path);
	return access(path, W_OK) ? error_errno(err, "--%s: %.300s: cannot be written", what, path) : 0;
}

static int check_log_folder(const char *what, const char *folder, struct error *err)
{
	struct stat st;
	if (stat(folder, &st) && errno == ENOENT)
		return error_set(err, ERR_NOT_FOUND, "--%s: there is no folder %.300s: make it first (mkdir -p)", what, folder);
	if (stat(folder, &st))
		return error_errno(err, "--%s: folder %.300s", what, folder);
	if (!S_ISDIR(st.st_mode))
		return error_set(err, ERR_INVALID, "--%s: %.300s: is not a folder", what, folder);
	if (access(folder, W_OK | X_OK))
		return error_errno(err, "--%s: folder %.300s: cannot be written to (--%s=FILE says where else)", what, folder, what);
	return 0;
}

void submit_caller_name_machine(char **pattern)
{
	scoped_buf named = { 0 };
	struct utsname machine;
	if (!*pattern || uname(&machine))
		return;
	machine.nodename[strcspn(machine.nodename, ".")] = 0;
	for (const char *p = *pattern; *p;) {
		size_t digits = *p == '%' ? strspn(p + 1, "0123456789") : 0;
		bool name = *p == '%' && p[digits + 1] == 'N', pair = *p == '%' && p[1];
		if (name)
			buf_add_text(&named, machine.nodename);
		else
			buf_add(&named, p, pair ? 2 : 1);
		p += name ? digits + 2 : pair ? 2 : 1;
	}
	free(*pattern);
	*pattern = buf_steal(&named);
}

int submit_caller_check_log(const char *what, const struct spec *s, const char *pattern, struct error *err)
{
	scoped_free char *copy = alloc_string(pattern), *path = NULL;
	if (strlen(pattern) >= SPEC_MAX_PATH || !submit_caller_is_utf8(pattern))
		return error_set(err, ERR_INVALID, "--%s: %.60s...: the path is too long or not UTF-8", what, pattern);
	const char *folder = dirname(copy);
	for (const char *c = strchr(folder, '%'); c && *(c += strspn(c + 1, "0123456789")) && c[1]; c = strchr(c + 2, '%'))
		if (strchr("jJAa", c[1]))
			return error_set(err, ERR_INVALID, "--%s: %.300s: the folder must be there before the task has its id: put %%%c into the "
					 "file's name", what, pattern, c[1]);
	int file = strchr(pattern, '%') ? 1 : check_log_file(what, pattern, err);
	if (file <= 0)
		return file;
	path = spec_expand_path(s, folder, 0);
	return check_log_folder(what, path, err);
}

/* ---- the program ---- */

static bool is_program(const char *path)
{
	struct stat st;
	return !stat(path, &st) && S_ISREG(st.st_mode) && !access(path, X_OK);
}

/* Where it is in PATH; NULL if it is not. */
static char *find_in_path(const char *program)
{
	const char *path = getenv("PATH");
	for (path = path ? path : PATHS_USER; ; path++) {
		size_t len = strcspn(path, ":");
		char *candidate = alloc_printf("%.*s/%s", len ? (int)len : 1, len ? path : ".", program);
		if (is_program(candidate))
			return candidate;
		free(candidate);
		path += len;
		if (!*path)
			return NULL;
	}
}

static char *in_cwd(const struct spec *s, const char *path)
{
	return *path == '/' ? alloc_string(path) : alloc_printf("%s/%s", s->cwd, path);
}

/* ---- conda ---- */

static char *find_conda(const char *home)
{
	static const char *const places[] = { "~/miniconda3", "~/anaconda3", "~/miniforge3", "~/mambaforge", "/opt/conda",
					      "/opt/miniconda3" };
	const char *said = getenv("CONDA_EXE");
	char *path = said && is_program(said) ? alloc_string(said) : find_in_path("conda");
	for (size_t i = 0; !path && i < COUNT_OF(places); i++) {
		bool below_home = *places[i] == '~';
		path = alloc_printf("%s%s/bin/conda", below_home ? home : "", places[i] + below_home);
		if (!is_program(path)) {
			free(path);
			path = NULL;
		}
	}
	return path;
}

static bool has_folder(const char *base, const char *rest, const char *name)
{
	struct stat st;
	scoped_free char *path = alloc_printf("%s%s%s", base, rest, name);
	return !stat(path, &st) && S_ISDIR(st.st_mode);
}

int submit_caller_check_conda(const struct spec *s, char **note, struct error *err)
{
	const char *env = s->conda_env, *home = getenv("HOME"), *more = getenv("CONDA_ENVS_PATH");
	*note = NULL;
	if (!env)
		return 0;
	if (strchr(env, '='))
		return error_set(err, ERR_INVALID, "--env: '%.100s': a conda environment is meant; a variable is given by "
				 "--export=ALL,%.100s, or as env %.100s before the command", env, env, env);
	scoped_free char *conda = find_conda(home ? home : "");
	if (!conda)
		return error_set(err, ERR_NOT_FOUND, "--env: '%.100s': no conda to enter it with: looked for it in CONDA_EXE, PATH, "
				 "miniconda3, anaconda3, miniforge3 and mambaforge in your home folder, /opt/conda and /opt/miniconda3: "
				 "set CONDA_EXE", env);
	scoped_free char *real = realpath(conda, NULL), *bin = alloc_string(real ? real : conda), *copy = alloc_string(dirname(bin));
	const char *base = dirname(copy);
	if (!strcmp(env, "base") || strchr(env, '/') || more || has_folder(base, "/envs/", env) ||
	    has_folder(home ? home : "", "/.conda/envs/", env))
		return 0;
	*note = alloc_printf("--env: there is no '%.100s' in %.200s/envs or ~/.conda/envs: unless conda knows it from elsewhere, "
			     "the task will fail", env, base);
	return 0;
}

/* Python as it is called here: many machines have no `python`. */
static const char *python_here(void)
{
	scoped_free char *plain = find_in_path("python"), *three = find_in_path("python3");
	return !plain && three ? "python3" : "python";
}

/* What runs a script of that name, for advice. */
static const char *interpreter_of(const char *script)
{
	const char *dot = strrchr(script, '.');
	return dot && (!strcmp(dot, ".sh") || !strcmp(dot, ".bash")) ? "bash" : python_here();
}

static bool is_assignment(const char *word)
{
	size_t n = strspn(word, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_0123456789");
	return n && word[n] == '=' && !isdigit((unsigned char)*word);
}

/* What a shell does itself, and people write before their program. */
static bool is_the_shells(const char *word)
{
	static const char *const words[] = { "cd", "source", ".", "export", "module", "conda", "mamba", "alias", "ulimit", "set",
					     "exec" };
	for (size_t i = 0; i < COUNT_OF(words); i++)
		if (!strcmp(word, words[i]))
			return true;
	return false;
}

/* A word that no folder of PATH has. */
static int explain_no_program(const char *program, bool folder, struct error *err)
{
	if (words_other_dash(program))
		return error_set(err, ERR_NOT_FOUND, "'%.*s' begins with another dash than '-': type it anew", (int)words_cut(program, 60),
				 program);
	if (strchr(program, ' '))
		return error_set(err, ERR_NOT_FOUND, "there is no program '%.60s': leave out the quotes round the command, or write "
				 "bash -c '...'", program);
	if (!strncmp(program, "CUDA_VISIBLE_DEVICES=", 21))
		return error_set(err, ERR_NOT_FOUND, "'%.60s' is no program: leave it out, a task is given its GPU and this variable",
				 program);
	if (is_assignment(program))
		return error_set(err, ERR_NOT_FOUND, "'%.60s' is no program: write env %.60s before the command", program, program);
	if (is_the_shells(program))
		return error_set(err, ERR_NOT_FOUND, "'%.60s' is no program but the shell's: write bash -c '...', or a task file "
				 "(man 5 rad)", program);
	if (!strcmp(program, "python") && strcmp(python_here(), program))
		return error_set(err, ERR_NOT_FOUND, "there is no program 'python' in PATH: here it is %s", python_here());
	if (folder)
		return error_set(err, ERR_CONFLICT, "%.300s: is a folder: name a program or a task file in it", program);
	return error_set(err, ERR_NOT_FOUND, "there is no program '%.60s' in PATH: check its spelling, or give its path", program);
}

int submit_caller_explain_absent(const char *program, const char *path, int why, const char *cwd, struct error *err)
{
	char to[256] = "";
	if (why == EACCES)
		return error_set(err, ERR_CONFLICT, "%.300s: is not executable, or in a folder that you may not enter", program);
	if (readlink(path, to, sizeof to - 1) > 0)
		return error_set(err, ERR_NOT_FOUND, "%.300s: is a link to %.200s, which leads nowhere", program, to);
	return error_set(err, ERR_NOT_FOUND, "%.300s: there is no such program (from %.300s)", program, cwd);
}

/* A script's first line, as the kernel takes it: of a venv that was moved, and of a file with Windows line ends, it names
 * nothing; where it names nothing at all, the shell gets what is Python's. */
static int check_first_line(const char *program, const char *path, struct error *err)
{
	char line[256] = "";
	scoped_fd int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0 || io_read_full(fd, line, sizeof line - 1) < 3)
		return 0;
	if (strncmp(line, "#!", 2) && strncmp(line, "\177ELF", 4) && words_end_in(program, ".py"))
		return error_set(err, ERR_CONFLICT, "%.300s: does not begin with a line that names Python (#!/usr/bin/env python3), so a "
				 "shell would read it: write %s %.300s", program, interpreter_of(program), program);
	if (strncmp(line, "#!", 2) || !strchr(line, '\n'))
		return 0;
	line[strcspn(line, "\n")] = 0;
	if (line[strlen(line) - 1] == '\r')
		return error_set(err, ERR_CONFLICT, "%.300s: its first line ends as Windows has it, so nothing can run it: "
				 "sed -i 's/\\r$//' '%.300s'", program, path);
	char *name = line + 2 + strspn(line + 2, " \t");
	name[strcspn(name, " \t")] = 0;
	if (*name == '/' && access(name, F_OK))
		return error_set(err, ERR_NOT_FOUND, "%.300s: its first line has it run by %.200s, which is not there", program, name);
	return 0;
}

static int check_program(const struct spec *s, struct error *err)
{
	const char *program = s->argv[0];
	scoped_free char *path = in_cwd(s, program);
	scoped_buf word = { 0 };
	struct stat st = { 0 };
	int why = stat(path, &st) ? errno : 0;
	bool there = !why && S_ISREG(st.st_mode);
	words_add_shell_word(&word, program);
	if (strchr(program, '/')) {
		if (is_program(path))
			return check_first_line(program, path, err);
		if (S_ISDIR(st.st_mode))
			return error_set(err, ERR_CONFLICT, "%.300s: is a folder: name a program or a task file in it", program);
		if (!there)
			return submit_caller_explain_absent(program, path, why, s->cwd, err);
		return error_set(err, ERR_CONFLICT, "%.300s: is not executable: run it with its interpreter (%s %.300s), or chmod +x it",
				 program, interpreter_of(program), buf_text(&word));
	}
	scoped_free char *found = find_in_path(program);
	if (s->conda_env || found)
		return s->conda_env ? 0 : check_first_line(program, found, err);
	if (there)
		return error_set(err, ERR_NOT_FOUND, "'%.60s' is not in PATH, but is a file here: write %s%s%.300s", program,
				 access(path, X_OK) ? interpreter_of(program) : "./", access(path, X_OK) ? " " : "", buf_text(&word));
	return explain_no_program(program, S_ISDIR(st.st_mode), err);
}

int submit_caller_check_program(const struct spec *s, struct error *err)
{
	struct error why = ERROR_INIT;
	if (!*s->argv[0])
		return error_set(err, ERR_INVALID, "the command is an empty word: is a variable in it not set?");
	if (!check_program(s, &why))
		return 0;
	error_pass(err, &why);
	if (err)
		err->no = why.code == ERR_NOT_FOUND ? CLI_NO_PROGRAM : CLI_NOT_RUNNABLE;
	return -1;
}

char *submit_caller_reads_nothing(const struct spec *s)
{
	static const char *const readers[] = { "bash", "sh", "zsh", "fish", "python", "python3", "ipython" };
	const char *program = words_base(s->argv[0]);
	for (size_t i = 0; i < COUNT_OF(readers); i++)
		if (!s->argv[1] && !strcmp(program, readers[i]))
			return alloc_printf("%s with nothing to run ends at once, since a task's standard input is empty: "
					    "'rad run --pty %s' has it on your terminal", program, program);
	return NULL;
}

/* What a shell takes for part of each line's last word; Python and most others read such lines as plain ones. */
static char *windows_lines(const char *shell, const char *path)
{
	char bytes[4096] = "";
	scoped_buf word = { 0 };
	scoped_fd int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0 || io_read_full(fd, bytes, sizeof bytes - 1) <= 0 || !strstr(bytes, "\r\n"))
		return NULL;
	words_add_shell_word(&word, path);
	return alloc_printf("%.300s: its lines end as Windows has it, which %.60s takes for part of their words: "
			    "sed -i 's/\\r$//' %.300s", words_base(path), shell, buf_text(&word));
}

char *submit_caller_script_note(const struct spec *s)
{
	static const char *const interpreters[] = { "python", "bash", "sh", "torchrun" };
	const char *program = words_base(s->argv[0]);
	bool known = false;
	for (size_t i = 0; i < COUNT_OF(interpreters); i++)
		known = known || !strncmp(program, interpreters[i], strlen(interpreters[i]));
	for (char *const *w = s->argv + 1; known && *w; w++) {
		const char *dot = strrchr(*w, '.');
		scoped_free char *path = in_cwd(s, *w);
		/* What follows -c or -m is code or a module, however it ends. */
		if (**w == '-' && (*w)[1] != '-' && strpbrk(*w, "cm"))
			return NULL;
		if (**w == '-' || !dot || (strcmp(dot, ".py") && strcmp(dot, ".sh")))
			continue;
		if (!access(path, F_OK))
			return !strcmp(program, "bash") || !strcmp(program, "sh") ? windows_lines(program, path) : NULL;
		return alloc_printf("%.300s is not there (in %.300s): the task will fail unless it is by then", *w, s->cwd);
	}
	return NULL;
}

char *submit_caller_program_text(const struct spec *s, size_t *len)
{
	static const char *const endings[] = { ".py", ".sh", ".pl", ".R", ".jl", ".lua" };
	for (char *const *w = s->argv; *w; w++) {
		const char *dot = strrchr(*w, '.');
		bool script = false;
		for (size_t i = 0; dot && i < COUNT_OF(endings); i++)
			script = script || !strcmp(dot, endings[i]);
		scoped_buf text = { 0 };
		scoped_free char *path = in_cwd(s, *w);
		struct stat st;
		if (!script || stat(path, &st) || !S_ISREG(st.st_mode) || io_read_file(path, SPEC_MAX_TEXT, &text, NULL))
			continue;
		*len = text.len;
		return buf_steal(&text);
	}
	return NULL;
}
