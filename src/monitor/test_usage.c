/* SPDX-License-Identifier: MIT
 * What processes take of the machine: rates are known from the second look on, and not before.
 */
#include "monitor/usage.h"

#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <math.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <cmocka.h>

static void test_the_first_look_knows_no_rate(void **state)
{
	struct proc_id self = { .pid = getpid() };
	struct usage *u = usage_create();
	(void)state;
	assert_int_equal(proc_stat(self.pid, &self.start_ticks, NULL), 0);
	usage_look(u, &self, 1, 1000);
	struct usage_figures first = usage_of(u, self);
	assert_true(first.rss_mib > 0);
	assert_true(isnan(first.cores) && isnan(first.read_mib_s) && isnan(first.write_mib_s));
	assert_true(isnan(first.net_rx_mib_s) && isnan(first.net_tx_mib_s));
	usage_look(u, &self, 1, 2000);
	struct usage_figures second = usage_of(u, self);
	assert_true(second.cores >= 0 && second.read_mib_s >= 0);
	usage_look(u, NULL, 0, 3000);
	assert_true(isnan(usage_of(u, self).rss_mib));
	usage_destroy(u);
}

/* In a network namespace of its own, where there can be one. It goes with this process. */
static bool make_interfaces(int n)
{
	bool made = !unshare(CLONE_NEWNET);
	for (int i = 0; i < n && made; i++) {
		struct ifreq r = { .ifr_flags = IFF_TUN };
		int fd = open("/dev/net/tun", O_RDWR | O_CLOEXEC);
		snprintf(r.ifr_name, sizeof r.ifr_name, "rad%d", i);
		made = fd >= 0 && !ioctl(fd, TUNSETIFF, &r);
	}
	return made;
}

/* A host of containers has one for each of them. */
static void test_many_interfaces(void **state)
{
	struct proc_id self = { .pid = getpid() };
	(void)state;
	if (!make_interfaces(200))
		skip();
	struct usage *u = usage_create();
	assert_int_equal(proc_stat(self.pid, &self.start_ticks, NULL), 0);
	usage_look(u, &self, 1, 1000);
	usage_look(u, &self, 1, 2000);
	assert_true(usage_of(u, self).net_rx_mib_s >= 0);
	usage_destroy(u);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_the_first_look_knows_no_rate), cmocka_unit_test(test_many_interfaces),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
