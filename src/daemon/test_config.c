/* SPDX-License-Identifier: MIT
 * Settings: every key takes its own default, mistakes are named with line and nearest key, and a broken file changes nothing.
 */
#include "base/alloc.h"
#include "base/scope.h"
#include "daemon/config.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static int read_text(const char *text, struct config *c, struct error *err)
{
	char path[] = "/tmp/rad-config-XXXXXX";
	int fd = mkstemp(path);
	assert_true(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
	close(fd);
	int rc = config_read(path, true, c, err);
	unlink(path);
	return rc;
}

static void every_default_is_a_value_of_its_key(void **state)
{
	(void)state;
	struct config before = config_default(), c = config_default();
	struct error err = ERROR_INIT;
	scoped_free char *text = NULL;
	size_t size = 0;
	FILE *f = open_memstream(&text, &size);
	config_describe(f);
	fclose(f);
	for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
		char *value = strchr(line, '\t'), *help = value ? strchr(value + 1, '\t') : NULL;
		assert_non_null(help);
		*value++ = *help++ = 0;
		assert_true(strlen(help) > 10);
		if (config_set(&c, line, value, &err))
			fail_msg("%s", err.text);
	}
	/* And they are what config_default says without a file. */
	assert_memory_equal(&before.core, &c.core, sizeof c.core);
	assert_string_equal(before.devices, c.devices);
	assert_int_equal(before.interval_ms, c.interval_ms);
	assert_int_equal(before.kill_wait_ms, c.kill_wait_ms);
	assert_true(before.mps == c.mps && before.positional_policy == c.positional_policy);
	config_clear(&before);
	config_clear(&c);
}

static void values_arrive(void **state)
{
	(void)state;
	struct config c = config_default();
	struct error err = ERROR_INIT;
	if (read_text("# ours\nplacement: rr\nshare: streams\nmax_smact: off\nmin_free: 8\nslack: 512M\nwindow: 2m\n"
		      "interval: 0.5\norder: backfill\npass_max: 5m\nmax_slowdown: 1.5\nmin_gain: 0\n"
		      "foreign: share\nledger: off\ndevices: \"sim:2xa100-40g\"\n", &c, &err))
		fail_msg("%s", err.text);
	assert_int_equal(c.core.map.rank, RANK_RR);
	assert_int_equal(c.core.map.share, SHARE_STREAMS);
	assert_true(isnan(c.core.map.max_smact));
	assert_int_equal(c.core.map.min_free_mib, 8192);
	assert_int_equal(c.core.map.slack_mib, 512);
	assert_int_equal(c.core.window.span_ms, 120000);
	assert_int_equal(c.interval_ms, 500);
	assert_int_equal(c.core.order, ORDER_BACKFILL);
	assert_int_equal(c.core.pass_max_ms, 300000);
	assert_true(c.core.map.max_slowdown == 1.5 && c.core.map.min_gain == 0);
	assert_true(c.core.map.foreign_share && !c.core.map.ledger);
	assert_string_equal(c.devices, "sim:2xa100-40g");
	config_clear(&c);
}

static void mistakes_are_named(void **state)
{
	(void)state;
	static const struct { const char *text, *says; } bad[] = {
		{ "placement: magm\nmax_smcat: 0.5\n", ":2: unknown key 'max_smcat': did you mean 'max_smact'?" },
		{ "max_smact: 80\n", ":1: max_smact: '80' is not a number" },
		{ "placement: best\n", ":1: placement: " },
		{ "order: lifo\n", ":1: order: 'lifo' is no order of the queue; there are: fifo backfill plan" },
		{ "max_slowdown: 0.5\n", ":1: max_slowdown: " },
		{ "min_gain: 2\n", ":1: min_gain: " },
		{ "slack: lots\n", ":1: slack: 'lots' is not a size" },
		{ "interval: 0\n", ":1: interval: " },
		{ "share: mig\n", ":1: share: 'mig' is not a default" },
		{ "policies:\n  - a\n", ":2: one 'key: value' a line" },
		{ "a: {b: c}\n", ":1: one 'key: value' a line" },
		{ "placement\n", "'placement' is not a 'key: value' line" },
		{ "\tplacement: rr\n", ":1: not YAML" },
		{ "placement: [\n", ":1: one 'key: value' a line" },
	};
	for (size_t i = 0; i < COUNT_OF(bad); i++) {
		struct config c = config_default();
		struct error err = ERROR_INIT;
		if (!read_text(bad[i].text, &c, &err))
			fail_msg("accepted: %s", bad[i].text);
		if (!strstr(err.text, bad[i].says))
			fail_msg("'%s' gave: %s", bad[i].text, err.text);
		config_clear(&c);
	}
}

static void a_missing_file_is_an_error_only_when_named(void **state)
{
	(void)state;
	struct config c = config_default();
	struct error err = ERROR_INIT;
	assert_int_equal(config_read("/no/such/rad.conf", false, &c, &err), 0);
	assert_int_equal(config_read("/no/such/rad.conf", true, &c, &err), -1);
	assert_non_null(strstr(err.text, "/no/such/rad.conf"));
	config_clear(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_default_is_a_value_of_its_key), cmocka_unit_test(values_arrive),
		cmocka_unit_test(mistakes_are_named), cmocka_unit_test(a_missing_file_is_an_error_only_when_named),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
