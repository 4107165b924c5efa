/* SPDX-License-Identifier: MIT
 * The wiring, made and ended: whole, and as far as it came when something was in the way. That nothing is left of it is told by
 * AddressSanitizer's build.
 */
#include "daemon/daemon.h"

#include "base/alloc.h"
#include "base/io.h"
#include "base/scope.h"
#include "store/store.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

struct place {
	char dir[32], *radd, *state, *socket, *config;
	struct daemon_options options;
};

static int setup(void **state)
{
	struct place *p = alloc_zero(sizeof *p);
	const char *build = getenv("RAD_BUILD_ROOT");
	strcpy(p->dir, "/tmp/rad-wiring.XXXXXX");
	assert_non_null(mkdtemp(p->dir));
	p->radd = alloc_printf("%s/radd", build ? build : "build");	/* is its own sampler */
	p->state = alloc_printf("%s/state", p->dir);
	p->socket = alloc_printf("%s/sock", p->dir);
	p->config = alloc_printf("%s/rad.conf", p->dir);
	scoped_file FILE *f = fopen(p->config, "we");
	fputs("interval: 0.1\n", f);
	p->options = (struct daemon_options){ .devices = "sim:2xa100-40g", .config_path = p->config, .state_dir = p->state,
					      .socket_path = p->socket, .ready_fd = -1 };
	*state = p;
	return 0;
}

static int teardown(void **state)
{
	struct place *p = *state;
	io_remove_tree(p->dir);
	free(p->radd);
	free(p->state);
	free(p->socket);
	free(p->config);
	free(p);
	return 0;
}

static struct daemon *begin(struct place *p)
{
	struct error err = ERROR_INIT;
	struct daemon *d = daemon_create(&p->options, p->radd, &err);
	if (!d)
		fail_msg("%s", err.text);
	assert_int_equal(access(p->socket, F_OK), 0);
	return d;
}

static void refused(struct place *p, enum error_code code, const char *words)
{
	struct error err = ERROR_INIT;
	assert_null(daemon_create(&p->options, p->radd, &err));
	if (err.code != code || !strstr(err.text, words))
		fail_msg("%s: %s", error_code_name(err.code), err.text);
}

static void it_ends_as_often_as_it_begins(void **state)
{
	struct place *p = *state;
	for (int i = 0; i < 3; i++) {
		daemon_destroy(begin(p));
		assert_int_not_equal(access(p->socket, F_OK), 0);
	}
	daemon_destroy(NULL);
}

static void a_signal_ends_its_run(void **state)
{
	struct daemon *d = begin(*state);
	raise(SIGTERM);		/* is kept until the loop runs */
	assert_int_equal(daemon_run(d), 0);
	daemon_destroy(d);
}

static void what_is_in_the_way_leaves_nothing_half_made(void **state)
{
	struct place *p = *state;
	struct error err = ERROR_INIT;
	scoped_free char *none = alloc_printf("%s/none.conf", p->dir), *other = alloc_printf("%s/other", p->dir);
	p->options.config_path = none;
	refused(p, ERR_SYSTEM, "none.conf");
	p->options.config_path = p->config;
	p->options.devices = "sim:nonsense";	/* the sampler ends: the last part of all */
	refused(p, ERR_UNAVAILABLE, "nonsense");
	assert_int_not_equal(access(p->socket, F_OK), 0);
	p->options.devices = "sim:2xa100-40g";
	int lock = store_lock(p->state, &err);
	assert_true(lock >= 0);
	refused(p, ERR_CONFLICT, "already runs");
	close(lock);
	struct daemon *d = begin(p);
	p->options.state_dir = other;		/* the socket is taken: the parts behind it are not made */
	refused(p, ERR_CONFLICT, "already listens");
	assert_int_equal(access(p->socket, F_OK), 0);
	daemon_destroy(d);
	p->options.state_dir = "/proc/none";
	refused(p, ERR_SYSTEM, "/proc/none");
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(it_ends_as_often_as_it_begins), T(a_signal_ends_its_run), T(what_is_in_the_way_leaves_nothing_half_made),
#undef T
	};
	return cmocka_run_group_tests_name("daemon", tests, NULL, NULL);
}
