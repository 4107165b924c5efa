/* SPDX-License-Identifier: MIT
 * Executing a task's program: a command as it is, a script by `bash -e` from memory. Line numbers in bash's messages are
 * those of the script, since nothing is put before it: what `conda` needs comes in by BASH_ENV, which is put back at once. So
 * that they name the script, too, bash opens it by a link of that name.
 */
#include "launch/shim.h"

#include "base/alloc.h"
#include "base/buf.h"
#include "base/io.h"
#include "base/scope.h"
#include "base/words.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>

/* Finds conda where its installers put it, lets it define its own function, and calls that. Under `set -e` a function
 * that is the left side of || is not stopped half-way. */
static const char conda_function[] =
	"conda() {\n"
	"	local rad_conda rad_hook\n"
	"	for rad_conda in \"${CONDA_EXE-}\" \"$(type -P conda)\" ~/miniconda3/bin/conda ~/anaconda3/bin/conda"
	" ~/miniforge3/bin/conda ~/mambaforge/bin/conda /opt/conda/bin/conda /opt/miniconda3/bin/conda ''; do\n"
	"		if [ -f \"$rad_conda\" ] && [ -x \"$rad_conda\" ]; then break; fi\n"
	"	done\n"
	"	if [ -z \"$rad_conda\" ]; then\n"
	"		echo 'rad: conda: not found in CONDA_EXE, PATH, the home folder or /opt: set CONDA_EXE' >&2\n"
	"		exit 127\n"
	"	fi\n"
	"	rad_hook=$(\"$rad_conda\" shell.bash hook) || {\n"
	"		echo \"rad: conda: '$rad_conda shell.bash hook' failed\" >&2\n"
	"		exit 127\n"
	"	}\n"
	"	unset -f conda\n"
	"	eval \"$rad_hook\"\n"
	"	conda \"$@\"\n"
	"}\n";

/* A read-only file in memory. It stays open over exec: the shell opens it by its /dev/fd name. */
static int memory_file(const char *name, const char *text)
{
	scoped_fd int fd = memfd_create(name, MFD_ALLOW_SEALING);
	if (fd < 0 || io_write_full(fd, text, strlen(text)) ||
	    fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE))
		return -1;
	return steal_fd(fd);
}

/* What bash reads before the script. It undoes its own way in, then does what the user's BASH_ENV would have done. */
static char *prelude(const struct shim_request *r, const char *bash_env)
{
	scoped_buf text = { 0 };
	if (bash_env) {
		buf_add_text(&text, "export BASH_ENV=");
		words_add_shell(&text, bash_env);
		buf_add_text(&text, "\nif [ -r \"$BASH_ENV\" ]; then . \"$BASH_ENV\"; fi\n");
	} else {
		buf_add_text(&text, "unset BASH_ENV\n");
	}
	buf_add_text(&text, conda_function);
	if (r->conda_env) {
		buf_add_text(&text, "conda activate ");
		words_add_shell(&text, r->conda_env);
		buf_add_text(&text, " || { echo \"rad: env: 'conda activate' failed\" >&2; exit 127; }\n");
	}
	return buf_steal(&text);
}

/* In the shim, which removes it. Where no link can be made, the script goes by its descriptor: it runs all the same. */
static void make_link_folder(const char *name, struct script_link *link)
{
	char folder[] = "/tmp/rad-script-XXXXXX";
	if (name && !strchr(name, '/') && strlen(name) <= NAME_MAX && mkdtemp(folder))
		snprintf(link->path, sizeof link->path, "%s/%s", folder, name);
}

void program_remove_link(const struct script_link *link)
{
	struct script_link folder = *link;
	if (!link->path[0])
		return;
	unlink(link->path);
	*strrchr(folder.path, '/') = 0;
	rmdir(folder.path);
}

/* What is executed: words and environment. Nothing is freed: exec or exit follow. */
struct program { char **argv, **env; };

/* What the child that becomes the program did not get done, and its errno. */
enum step { TAKE_STREAMS, KEEP_SCRIPT, EXECUTE };
struct failure { enum step step; int why; };

static int add_prelude(const struct shim_request *r, struct program *p)
{
	size_t n = alloc_count(p->env), at = n;
	const char *bash_env = NULL;
	for (size_t i = 0; i < n; i++)
		if (!strncmp(p->env[i], "BASH_ENV=", 9)) {
			bash_env = p->env[i] + 9;
			at = i;
		}
	scoped_free char *text = prelude(r, bash_env);
	int fd = memory_file("rad-prelude", text);
	if (fd < 0)
		return -1;
	char **env = alloc_zero((n + 2) * sizeof *env);
	memcpy(env, p->env, n * sizeof *env);
	env[at] = alloc_printf("BASH_ENV=/dev/fd/%d", fd);
	p->env = env;
	return 0;
}

static int prepare_script(const struct shim_request *r, struct program *p, const struct script_link *link)
{
	/* A command in a conda environment needs a shell to enter it. */
	const char *script = r->script ? r->script : "exec \"$@\"\n";
	int fd = memory_file("rad-script", script);
	if (fd < 0)
		return -1;
	size_t n = alloc_count(r->argv);
	p->argv = alloc_zero((n + 4) * sizeof *p->argv);
	p->argv[0] = alloc_string("bash");
	p->argv[1] = alloc_string("-e");
	p->argv[2] = alloc_printf("/dev/fd/%d", fd);
	if (link->path[0] && !symlink(p->argv[2], link->path))
		p->argv[2] = alloc_string(link->path);
	memcpy(p->argv + 3, r->argv, n * sizeof *r->argv);
	return r->conda_env || strstr(script, "conda activate") ? add_prelude(r, p) : 0;
}

/* The submitter's limits, which come from the client's words. */
static void set_limits(const struct shim_request *r)
{
	for (size_t i = 0; i < r->n_rlimits; i++) {
		struct rlimit limit;
		if (getrlimit((__rlimit_resource_t)r->rlimits[i].resource, &limit))
			continue;
		spec_limit_apply(&r->rlimits[i], &limit);
		setrlimit((__rlimit_resource_t)r->rlimits[i].resource, &limit);
	}
}

/* A shell at a terminal leads a session, as after a login: so it has job control, and what stands in the foreground is hung up
 * when the terminal goes. A session of its own is not found by the shim's (processes.h); so who leads it ends with the shim. */
static bool take_terminal(int terminal, pid_t shim)
{
	bool ready = setsid() >= 0 && !ioctl(terminal, TIOCSCTTY, 0) && dup2(terminal, 0) == 0 && dup2(terminal, 1) == 1 &&
		     dup2(terminal, 2) == 2;
	return ready && !prctl(PR_SET_PDEATHSIG, SIGKILL) && getppid() == shim;
}

static bool take_streams(const struct program_streams *io, pid_t shim)
{
	if (io->terminal >= 0)
		return take_terminal(io->terminal, shim);
	setpgid(0, 0);	/* `kill 0` in a script is not meant for the shim */
	return dup2(io->out_fd, 1) == 1 && dup2(io->err_fd, 2) == 2;
}

/* In the child, where all that it makes is gone with the exec; in the shim it would stay as long as the task. Returns what did
 * not work, with errno. */
static enum step become(const struct shim_request *r, const struct program_streams *io, const struct script_link *link,
			pid_t shim)
{
	struct program p = { .argv = r->argv, .env = r->environ };
	bool shell = r->script || r->conda_env;
	if (!take_streams(io, shim))
		return TAKE_STREAMS;
	if (shell && prepare_script(r, &p, link))
		return KEEP_SCRIPT;
	set_limits(r);
	sigset_t none;		/* the shim blocks signals, but never ignores or handles one */
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	environ = p.env;
	if (shell)
		execv("/bin/bash", p.argv);
	if (!shell || errno == ENOENT)
		execvp(p.argv[0], p.argv);
	return EXECUTE;
}

static int explain(const struct failure *f, const char *word, struct error *err)
{
	if (f->step == EXECUTE && f->why == ENOENT && !strchr(word, '/'))
		return error_set(err, ERR_INVALID, "exec %s: not found in PATH", word);
	if (f->step == EXECUTE && f->why == ENOENT && !access(word, F_OK))
		return error_set(err, ERR_INVALID, "exec %s: the interpreter that its first line names does not exist", word);
	errno = f->why;
	if (f->step == EXECUTE)
		return error_errno(err, "exec %s", word);
	return error_errno(err, f->step == KEEP_SCRIPT ? "keeping the script in memory" : "taking its streams");
}

pid_t program_start(const struct shim_request *r, const struct cgroup *cgroup, const struct program_streams *io,
		    struct script_link *link, struct error *err)
{
	struct failure failure;
	int report[2];
	if (pipe2(report, O_CLOEXEC))
		return error_errno(err, "pipe");
	make_link_folder(r->script ? r->script_name : NULL, link);
	pid_t shim = getpid(), pid = cgroup_fork(cgroup);
	if (!pid) {
		failure.step = become(r, io, link, shim);
		failure.why = errno;
		ssize_t ignored = write(report[1], &failure, sizeof failure);
		(void)ignored;
		_exit(127);
	}
	int fork_error = errno;
	close(report[1]);
	ssize_t n = pid < 0 ? 0 : io_read_full(report[0], &failure, sizeof failure);
	close(report[0]);
	if (pid < 0) {
		errno = fork_error;
		return error_errno(err, "fork");
	}
	return n == sizeof failure ? explain(&failure, r->script || r->conda_env ? "bash" : r->argv[0], err) : pid;
}
