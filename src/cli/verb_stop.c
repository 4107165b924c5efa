/* SPDX-License-Identifier: MIT
 * rad stop: ends the caller's own radd, as SIGTERM does. Its tasks run on; what waits is there again at the next start.
 */
#include "base/json.h"
#include "base/proc.h"
#include "base/scope.h"
#include "cli/cli.h"
#include "cli/client.h"
#include "cli/member.h"
#include "submit/wire.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#define STOP_MS 30000	/* it writes what it has to write, and goes */

/* Ends that process and waits until it has. By its descriptor: the number alone may be another's by then. */
static int end_and_wait(pid_t pid, struct error *err)
{
	scoped_fd int fd = proc_pidfd(pid);
	struct pollfd p = { fd, POLLIN, 0 };
	if (fd < 0 || proc_pidfd_signal(fd, SIGTERM))
		return error_errno(err, "stopping radd (pid %d)", (int)pid);
	if (poll(&p, 1, STOP_MS) <= 0)
		return error_set(err, ERR_UNAVAILABLE, "radd (pid %d) was told to end and has not after %d s: see its log", (int)pid,
				 STOP_MS / 1000);
	return 0;
}

static int check_own(const json_t *status, struct error *err)
{
	if (member_int(status, "uid") == (json_int_t)geteuid() && member_int(status, "pid") > 1)
		return 0;
	return error_set(err, ERR_DENIED, "this radd is not yours (uid %lld runs it): an administrator ends it (systemctl stop radd)",
			 (long long)member_int(status, "uid"));
}

static void print_stopped(const json_t *status)
{
	const json_t *tasks = json_object_get(status, "tasks");
	long long running = member_int(tasks, "RUNNING"), waiting = member_int(tasks, "PENDING") + member_int(tasks, "HELD");
	printf("radd was stopped (pid %lld)", (long long)member_int(status, "pid"));
	if (running)
		printf("; %lld task%s on", running, running == 1 ? " runs" : "s run");
	if (waiting)
		printf("; %lld wait%s for the next 'rad start' or 'rad submit'", waiting, waiting == 1 ? "s" : "");
	putchar('\n');
}

int verb_stop(struct cli_call *c)
{
	bool json = false;
	const struct args_option options[] = { { "json", 0, NULL, "print JSON", .flag = &json }, { 0 } };
	struct error err = ERROR_INIT;
	if (!cli_options(c, options) || !cli_want_words(c, 0, 0))
		return c->rc;
	scoped_json *status = client_call(wire_request("status"), &err);
	if (!status || check_own(status, &err) || end_and_wait((pid_t)member_int(status, "pid"), &err))
		return cli_fail(c, &err);
	if (json)
		return cli_print_json(json_pack("{si, sO}", "schema", 1, "pid", json_object_get(status, "pid")));
	print_stopped(status);
	return CLI_DONE;
}
