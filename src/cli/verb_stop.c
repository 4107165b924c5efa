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
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define ANSWER_S 20
#define STOP_MS 30000	/* it writes what it has to write, and goes */

/* A descriptor of who listens there, by the kernel's word: the number that radd has for itself may be another process's here,
 * where one of the two is in a container. -1 with what to say. */
static int open_own(int connection, struct error *err)
{
	struct ucred peer = { 0 };
	socklen_t len = sizeof peer;
	if (getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &peer, &len))
		return error_errno(err, "stopping radd");
	if (peer.uid != geteuid())
		return error_set(err, ERR_DENIED, "this radd is not yours (uid %u runs it): an administrator ends it (systemctl stop radd)",
				 (unsigned)peer.uid);
	if (peer.pid <= 0)
		return error_set(err, ERR_DENIED, "this radd runs outside of this container: end it there");
	int fd = proc_pidfd(peer.pid);
	return fd >= 0 ? fd : error_errno(err, "stopping radd (pid %d)", (int)peer.pid);
}

static int end_and_wait(int process, struct error *err)
{
	struct pollfd p = { process, POLLIN, 0 };
	if (proc_pidfd_signal(process, SIGTERM))
		return error_errno(err, "stopping radd");
	if (poll(&p, 1, STOP_MS) <= 0)
		return error_set(err, ERR_UNAVAILABLE, "radd was told to end and has not after %d s: see its log", STOP_MS / 1000);
	return 0;
}

/* `service`: systemd's, which alone has it back. */
static void print_stopped(const json_t *status, bool service)
{
	const json_t *tasks = json_object_get(status, "tasks");
	long long running = member_int(tasks, "RUNNING"), waiting = member_int(tasks, "PENDING") + member_int(tasks, "HELD");
	printf("radd was stopped (pid %lld)", (long long)member_int(status, "pid"));
	if (running)
		printf("; %lld task%s on", running, running == 1 ? " runs" : "s run");
	if (waiting)
		printf("; %lld wait%s for %s", waiting, waiting == 1 ? "s" : "",
		       service ? "'systemctl start radd'" : "the next 'rad start' or 'rad submit'");
	putchar('\n');
}

/* The machine's is missed by everybody, and nobody gets one of his own instead: who asks for it is told, and does not wait for
 * it. Root may have tried it once, and not know that; or it is a service, and comes back as such. */
static void leave_words(bool service)
{
	scoped_free char *socket = wire_socket_path(), *own = wire_own_socket_path();
	if (geteuid() || strcmp(socket, own))
		return;
	if (service) {
		wire_leave_words("it was ended by 'rad stop'");
		cli_note("it was everybody's: nobody's tasks start until 'systemctl start radd', or the machine's next start, has it back");
		return;
	}
	wire_leave_words("it was ended by 'rad stop'. 'rad start' has it back; where none is wanted any more, remove /run/rad and "
			 "/var/lib/rad");
	cli_note("it was everybody's: while /run/rad and /var/lib/rad are there, users get no radd of their own. Remove both where "
		 "none of root's is wanted any more");
}

int verb_stop(struct cli_call *c)
{
	bool json = false;
	const struct args_option options[] = { { "json", 0, NULL, "print JSON", .flag = &json }, { 0 } };
	struct error err = ERROR_INIT;
	if (!cli_options(c, options))
		return c->rc;
	if (c->n_words)
		return cli_usage(c, "it ends radd; 'rad cancel %.60s' ends a task", c->words[0]);
	scoped_fd int connection = client_connect_now(&err);	/* one that is away is not waited for to be ended */
	scoped_fd int process = connection < 0 ? -1 : open_own(connection, &err);
	if (process < 0)
		return cli_fail(c, &err);
	/* Who answers after the descriptor was opened had that number then: it is nobody's who came after him. */
	scoped_json *status = client_call_within(connection, ANSWER_S, wire_request("status"), &err);
	if (!status || end_and_wait(process, &err))
		return cli_fail(c, &err);
	const bool service = client_server() != NULL;
	leave_words(service);
	if (json)
		return cli_print_json(json_pack("{si, sO}", "schema", 1, "pid", json_object_get(status, "pid")));
	print_stopped(status, service);
	return CLI_DONE;
}
