/* SPDX-License-Identifier: MIT
 * rad start: a user's own radd, for whoever has no administrator. Running tasks do not need it, waiting ones do: after a
 * restart of the machine nobody else would start it.
 *
 * At boot systemd starts it as a service of the user's, where `loginctl enable-linger` allows that without his being logged in.
 * The unit is written here and not installed with the programs: a bundle that lies in a home folder has no other way.
 */
#include "base/alloc.h"
#include "base/buf.h"
#include "base/io.h"
#include "base/json.h"
#include "base/paths.h"
#include "base/scope.h"
#include "base/words.h"
#include "cli/cli.h"
#include "cli/client.h"
#include "cli/member.h"
#include "submit/wire.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

/* Its exit code; -1: it could not be run. It says nothing: what it could not do is said by us, with what to do instead. */
static int run_quietly(char *const *argv)
{
	posix_spawn_file_actions_t files;
	pid_t child;
	int status = -1;
	posix_spawn_file_actions_init(&files);
	posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDWR, 0);
	posix_spawn_file_actions_adddup2(&files, 0, 1);
	posix_spawn_file_actions_adddup2(&files, 0, 2);
	int failed = posix_spawnp(&child, argv[0], &files, NULL, argv, environ);
	posix_spawn_file_actions_destroy(&files);
	if (failed)
		return -1;
	while (waitpid(child, &status, 0) < 0 && errno == EINTR)
		;
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* Where this call of ours finds its radd, the one at boot has to be. */
static const char *const kept[] = { "RAD_STATE", "RAD_SOCKET", "RAD_CONFIG", "RAD_DEVICES", "XDG_STATE_HOME" };

/* systemd reads quotes, backslashes and percent signs in what it is told. */
static void add_quoted(struct buf *out, const char *text)
{
	buf_add_text(out, "\"");
	for (; *text; text++)
		buf_printf(out, *text == '"' || *text == '\\' ? "\\%c" : *text == '%' ? "%%%c" : "%c", *text);
	buf_add_text(out, "\"");
}

static void write_unit(struct buf *out, const char *program)
{
	buf_add_text(out, "# Written by 'rad start --on-boot'.\n[Unit]\nDescription=RAD-RM of this user\nStartLimitIntervalSec=0\n\n"
			  "[Service]\nExecStart=");
	add_quoted(out, program);
	buf_add_text(out, " --foreground\n");
	for (size_t i = 0; i < COUNT_OF(kept); i++) {
		const char *value = getenv(kept[i]);
		if (!value || !*value || strchr(value, '\n'))
			continue;
		scoped_free char *both = alloc_printf("%s=%s", kept[i], value);
		buf_add_text(out, "Environment=");
		add_quoted(out, both);
		buf_add_text(out, "\n");
	}
	/* As in the server's unit: tasks go on when radd is stopped. */
	buf_add_text(out, "Restart=on-failure\nRestartSec=5\nKillMode=process\nOOMPolicy=continue\nDelegate=yes\n\n"
			  "[Install]\nWantedBy=default.target\n");
}

/* The unit's path; NULL with an error. Free it. */
static char *install_unit(const char *program, struct error *err)
{
	scoped_free char *config = paths_own("XDG_CONFIG_HOME", ".config");
	scoped_buf text = { 0 };
	if (!config) {
		error_set(err, ERR_INVALID, "HOME is not set: there is no place for a unit of systemd");
		return NULL;
	}
	scoped_free char *path = alloc_printf("%s/systemd/user/radd.service", config);
	scoped_free char *copy = alloc_string(path);
	write_unit(&text, program);
	if (io_make_dirs(dirname(copy), 0755, err) || io_replace_file(path, text.data, text.len, 0644, err))
		return NULL;
	return steal(path);
}

/* A word for the shell of cron, for which a percent sign ends the line also in quotes. */
static void print_cron_word(FILE *out, const char *text)
{
	scoped_buf word = { 0 };
	words_add_shell(&word, text);
	for (const char *at = buf_text(&word); *at; at++)
		fprintf(out, *at == '%' ? "\\%c" : "%c", *at);
}

/* One that systemd does not look after: cron does it too. */
static int say_cron(FILE *out, const char *why)
{
	scoped_free char *rad = client_find_program("rad");
	fprintf(out, "%s: have cron start it instead, with this line in 'crontab -e':\n@reboot ", why);
	for (size_t i = 0; i < COUNT_OF(kept); i++) {
		const char *value = getenv(kept[i]);
		if (!value || !*value || strchr(value, '\n'))
			continue;
		fprintf(out, "%s=", kept[i]);
		print_cron_word(out, value);
		putc(' ', out);
	}
	print_cron_word(out, rad ? rad : "rad");
	fputs(" start\n", out);
	return CLI_FAILED;
}

/* What it says goes to out. */
static int start_on_boot(struct cli_call *c, FILE *out)
{
	char *reload[] = { "systemctl", "--user", "daemon-reload", NULL };
	char *enable[] = { "systemctl", "--user", "enable", "radd.service", NULL };
	char *linger[] = { "loginctl", "enable-linger", NULL };
	struct error err = ERROR_INIT;
	scoped_free char *program = client_find_program("radd"), *systemctl = client_find_program("systemctl");
	if (!program)
		return error_set(&err, ERR_NOT_FOUND, "radd is neither beside rad nor in PATH: install it"), cli_fail(c, &err);
	if (!systemctl)
		return say_cron(out, "There is no systemd here");
	scoped_free char *unit = install_unit(program, &err);
	if (!unit)
		return cli_fail(c, &err);
	if (run_quietly(reload) || run_quietly(enable)) {
		unlink(unit);
		return say_cron(out, "systemd has no manager for you here (systemctl --user)");
	}
	fprintf(out, "At boot: %s\n", unit);
	if (!run_quietly(linger))
		return CLI_DONE;
	fprintf(out, "It will start when you log in, and not before: ask an administrator for 'loginctl enable-linger %u'\n",
		(unsigned)geteuid());
	return CLI_FAILED;
}

static void print_running(const json_t *status, bool started)
{
	const json_t *tasks = json_object_get(status, "tasks");
	long long running = member_int(tasks, "RUNNING"), waiting = member_int(tasks, "PENDING") + member_int(tasks, "HELD");
	printf("radd %s (pid %lld): %lld task%s running, %lld waiting\n", started ? "was started" : "runs already",
	       (long long)member_int(status, "pid"), running, running == 1 ? " is" : "s are", waiting);
}

int verb_start(struct cli_call *c)
{
	bool json = false, on_boot = false, started = false;
	const struct args_option options[] = {
		{ "on-boot", 0, NULL, "at every boot too, by systemd or, where there is none, by cron", .flag = &on_boot },
		{ "json", 0, NULL, "print JSON", .flag = &json },
		{ 0 },
	};
	struct error err = ERROR_INIT;
	if (!cli_options(c, options) || !cli_want_words(c, 0, 0))
		return c->rc;
	if (client_start(&started, &err))
		return cli_fail(c, &err);
	scoped_json *status = client_call(wire_request("status"), &err);
	if (!status)
		return cli_fail(c, &err);
	if (json)
		cli_print_json(json_pack("{si, sb, sO, sO}", "schema", 1, "started", started, "pid", json_object_get(status, "pid"), "socket",
					 json_object_get(status, "socket")));
	else
		print_running(status, started);
	if (on_boot && member_int(status, "uid") != (json_int_t)geteuid()) {
		cli_note("that radd is the machine's, and its administrator sees to it at boot: nothing was arranged "
			 "(RAD_SOCKET=own has one of your own beside it)");
		return CLI_FAILED;
	}
	return on_boot ? start_on_boot(c, json ? stderr : stdout) : CLI_DONE;
}
