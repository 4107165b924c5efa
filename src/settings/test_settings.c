/* SPDX-License-Identifier: MIT
 * The table of settings: every row takes its own default and nothing beyond its range, mistakes are named with line and nearest
 * key, all ways in take the same words, and rad.conf(5) says what the rows say.
 */
#include "settings/settings.h"

#include "base/alloc.h"
#include "base/io.h"
#include "base/json.h"
#include "base/scope.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define OF_FILE(n) ((struct settings_source){ SETTINGS_FILE, n })

static int read_told(const char *text, struct settings *s, settings_tell *tell, void *ctx, struct error *err)
{
	char path[] = "/tmp/rad-config-XXXXXX";
	int fd = mkstemp(path);
	assert_true(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
	close(fd);
	int rc = settings_read(s, path, true, tell, ctx, err);
	unlink(path);
	return rc;
}

static int read_text(const char *text, struct settings *s, struct error *err)
{
	return read_told(text, s, NULL, NULL, err);
}

static void assert_prints(const struct settings *s, const char *name, const char *value)
{
	scoped_free char *text = settings_print(s, settings_find(name));
	assert_string_equal(text, value);
}

static void every_default_is_a_value_of_its_row(void **state)
{
	(void)state;
	struct settings s = settings_default();
	struct core_config core = core_config_default();
	struct error err = ERROR_INIT;
	for (const struct setting *row = settings_table; row->name; row++) {
		scoped_free char *range = settings_range(row);
		assert_ptr_equal(settings_find(row->name), row);
		assert_true(strlen(row->help) > 10 && *range);
		assert_prints(&s, row->name, row->standard);
		if (settings_set(&s, row, row->standard, OF_FILE(1), &err))
			fail_msg("%s: %s", row->name, err.text);
		assert_prints(&s, row->name, row->standard);
	}
	/* And they are what those have who use the core alone. */
	s.core = core;
	for (const struct setting *row = settings_table; row->name; row++)
		assert_prints(&s, row->name, row->standard);
	settings_clear(&s);
}

/* A text of that number in the row's unit. */
static char *number_text(const struct setting *row, double v)
{
	if (row->type == SETTING_COUNT)
		return alloc_printf("%.0f", v);
	return alloc_printf("%.17g", v);
}

static void assert_refused(struct settings *s, const struct setting *row, const char *text)
{
	struct error err = ERROR_INIT;
	scoped_free char *before = settings_print(s, row), *range = settings_range(row);
	if (!settings_set(s, row, text, OF_FILE(1), &err))
		fail_msg("%s took '%s'", row->name, text);
	if (!strstr(err.text, row->type == SETTING_WORD ? text : range))
		fail_msg("%s: '%s' gave: %s", row->name, text, err.text);
	assert_prints(s, row->name, before);
}

static void every_row_keeps_its_range(void **state)
{
	(void)state;
	static const char *const never[] = { "", "nonsense", "-1", "1e400", "nan", "inf", "1 2", "\x01" };
	struct settings s = settings_default();
	for (const struct setting *row = settings_table; row->name; row++) {
		for (size_t i = 0; row->type != SETTING_TEXT && i < COUNT_OF(never); i++)
			assert_refused(&s, row, never[i]);
		if (row->type == SETTING_WORD || row->type == SETTING_TEXT)
			continue;
		scoped_free char *least = number_text(row, row->min), *most = number_text(row, row->max);
		scoped_free char *below = number_text(row, row->min - (row->type == SETTING_COUNT ? 1 : 0.001));
		scoped_free char *above = number_text(row, row->max + 1);
		assert_int_equal(settings_set(&s, row, least, OF_FILE(1), NULL), 0);
		assert_int_equal(settings_set(&s, row, most, OF_FILE(1), NULL), 0);
		assert_refused(&s, row, below);
		assert_refused(&s, row, above);
		if (row->off)
			assert_int_equal(settings_set(&s, row, "off", OF_FILE(1), NULL), 0);
		else
			assert_refused(&s, row, "off");
	}
	settings_clear(&s);
}

/* Whatever is taken is printed so that it is taken again, as the same value. */
static void what_is_printed_is_read_back(void **state)
{
	(void)state;
	static const char *const texts[] = {
		"0.005", "0.3333333333333333", "1", "0.1", "2.5", "90s", "15m", "1:30", "512M", "1.5G", "1M", "0.0009", "7", "48", "off",
		"no", "FALSE", "on", "Yes", "gain", "plan", "never", "auto", "grow", "share", "honour", "100",
	};
	struct settings s = settings_default(), again = settings_default();
	size_t taken = 0;
	for (const struct setting *row = settings_table; row->name; row++)
		for (size_t i = 0; i < COUNT_OF(texts); i++) {
			if (settings_set(&s, row, texts[i], OF_FILE(1), NULL))
				continue;
			scoped_free char *printed = settings_print(&s, row);
			assert_int_equal(settings_set(&again, row, printed, OF_FILE(1), NULL), 0);
			if (row->type != SETTING_TEXT)
				assert_memory_equal((char *)&s + row->offset, (char *)&again + row->offset, row->size);
			assert_prints(&again, row->name, printed);
			taken++;
		}
	assert_true(taken > 100);
	settings_clear(&s);
	settings_clear(&again);
}

static void values_arrive(void **state)
{
	(void)state;
	struct settings c = settings_default();
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
	settings_clear(&c);
}

/* What the two readers of before did not agree on: each is one thing now. */
static void odd_values(void **state)
{
	(void)state;
	static const struct { const char *name, *text, *value; } rows[] = {
		{ "max_smact", "0.005", "0.005" }, { "max_smact", "0", "0" }, { "max_smact", "no", "off" }, { "slack", "off", "off" },
		{ "slack", "0", "off" }, { "slack", "1.0001", "1025M" }, { "slack", "1.0001G", "1025M" }, { "slack", ".5", "512M" },
		{ "min_free", "5120M", "5" }, { "min_free", "5000", NULL }, { "min_free", "4097G", NULL }, { "ledger", "YES", "on" },
		{ "ledger", "1", NULL }, { "pass_max", "0.5", "0.5" }, { "pass_max", "1:30", "90" }, { "pass_max", "8-0", NULL },
		{ "keep_max", "soon", NULL }, { "max_slowdown", "false", "off" }, { "max_slowdown", "0", NULL }, { "share", "auto", "mps" },
		{ "share", "mig", NULL }, { "max_tasks", "0", NULL }, { "max_tasks", "Off", "off" }, { "recovery", "no", "off" },
		{ "max-smact", "0.5", "0.5" }, { "warm", "1m", "60" }, { "settle", "0", "0" }, { "interval", "0.01", NULL },
	};
	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct settings file = settings_default(), set = settings_default();
		scoped_free char *line = alloc_printf("%s: \"%s\"\n", rows[i].name, rows[i].text);
		int by_file = read_text(line, &file, NULL), by_name = settings_set_named(&set, rows[i].name, rows[i].text, OF_FILE(1), NULL);
		if (by_file != by_name || (by_file == 0) != (rows[i].value != NULL))
			fail_msg("%s: '%s': %d and %d", rows[i].name, rows[i].text, by_file, by_name);
		if (rows[i].value) {
			assert_prints(&file, rows[i].name, rows[i].value);
			assert_prints(&set, rows[i].name, rows[i].value);
		}
		settings_clear(&file);
		settings_clear(&set);
	}
}

static void mistakes_are_named(void **state)
{
	(void)state;
	static const struct { const char *text, *says; } bad[] = {
		{ "placement: magm\nmax_smcat: 0.5\n", ":2: unknown key 'max_smcat': did you mean 'max_smact'?" },
		{ "max_smact: 80\n", ":1: max_smact: '80' is not a number from 0 to 1, or off" },
		{ "placement: best\n", ":1: placement: 'best' is no placement policy; there are: magm rr" },
		{ "order: lifo\n", ":1: order: 'lifo' is no order of the queue; there are: fifo backfill plan" },
		{ "max_slowdown: 0.5\n", ":1: max_slowdown: " },
		{ "min_gain: 2\n", ":1: min_gain: " },
		{ "slack: lots\n", ":1: slack: 'lots' is not a size" },
		{ "recovery: gorw\n", ":1: recovery: 'gorw' is no way of recovering; there are: exclusive grow off" },
		{ "interval: 0\n", ":1: interval: '0' is not a time from 0.1 to 60 seconds" },
		{ "foreign: hide\n", ":1: foreign: 'hide' is neither avoid nor share" },
		{ "share: mig\n", ":1: share: 'mig' is not a default" },
		{ "policies:\n  - a\n", ":2: one 'key: value' a line" },
		{ "a: {b: c}\n", ":1: one 'key: value' a line" },
		{ "placement: rr\nmax_gpu: 2\n", ":2: unknown key 'max_gpu': did you mean 'max_gpus'?" },
		/* The line that is wrong is named, not the next one, where YAML notices it. */
		{ "placement\n", ":1: 'placement' is not a 'key: value' line" },
		{ "slack: 3\nmin_free 6\nwindow: 60\n", ":2: 'min_free 6' is not a 'key: value' line" },
		{ "# a\r\nslack: 3\r\n\r\nmin_free = 6\r\nwindow: 60\r\n", ":4: 'min_free = 6' is not a 'key: value' line" },
		{ "slack: 3\nwindow:60\n", ":2: 'window:60' is not a 'key: value' line, with a blank after the colon" },
		{ "slack:3\nwindow: 60\n", ":1: 'slack:3' is not a 'key: value' line" },
		{ "devices: nvml: 0\n", ":1: 'devices: nvml: 0' is not a 'key: value' line" },
		{ "slack: 3\n\twindow: 60\n", ":2: 'window: 60' does not begin at the left edge" },
		{ "\tplacement: rr\n", ":1: 'placement: rr' does not begin at the left edge" },
		{ "slack: \"3\n", ":2: not YAML" },
		{ "slack:\t3\nmin_free 6\n", ":2: 'min_free 6' is not a 'key: value' line" },
		/* Bytes of another encoding, which the parser reads ahead of the lines. */
		{ "slack: 3\r\n\nwindow: 60\n# gr\xfc\xdf" "e\n", ":4: not YAML: invalid leading UTF-8 octet: save the file as UTF-8" },
		{ "slack: 3\n\xfc: 4\n", ":2: not YAML: invalid" },
		{ "\xfc: 4\n", ":1: not YAML: invalid" },
		{ "placement: [\n", ":1: one 'key: value' a line" },
	};
	for (size_t i = 0; i < COUNT_OF(bad); i++) {
		struct settings c = settings_default();
		struct error err = ERROR_INIT;
		if (!read_text(bad[i].text, &c, &err))
			fail_msg("accepted: %s", bad[i].text);
		if (!strstr(err.text, bad[i].says))
			fail_msg("'%s' gave: %s", bad[i].text, err.text);
		settings_clear(&c);
	}
}

static void add_line(void *ctx, const char *text)
{
	const char *tail = strchr(text, ':');	/* the path has none */
	buf_printf(ctx, "%s\n", tail ? tail : text);
}

static void all_mistakes_are_told(void **state)
{
	(void)state;
	static const char text[] = "slack: lots\nplacement: rr\nordre: fifo\n\nmax_gract: 2\n";
	struct settings s = settings_default();
	struct error err = ERROR_INIT;
	scoped_buf told = { 0 };
	assert_int_equal(read_told(text, &s, add_line, &told, &err), -1);
	assert_string_equal(buf_text(&told), ":1: slack: 'lots' is not a size from 0 to 4096 GiB, or off: write 5, 20G or 512M\n"
			    ":3: unknown key 'ordre': did you mean 'order'? (rad.conf(5) lists them)\n"
			    ":5: max_gract: '2' is not a number from 0 to 1, or off\n");
	assert_non_null(strstr(err.text, ":1: slack"));
	assert_int_equal(read_text(text, &s, &err), -1);
	assert_non_null(strstr(err.text, "and 2 more: radd --check-config shows them"));
	settings_clear(&s);
}

static void a_line_that_is_none_ends_no_reading(void **state)
{
	(void)state;
	static const char text[] = "slack: lots\r\nwindow:60\r\n\tmin_free: 3\nordre: fifo\ndevices: [0,2]\nplacement: rr\n"
				   "policies:\n  - a\n  - b\nmax_gract: 2\nfair: \"on\n";
	struct settings s = settings_default();
	struct error err = ERROR_INIT;
	scoped_buf told = { 0 };
	assert_int_equal(read_told(text, &s, add_line, &told, &err), -1);
	assert_string_equal(buf_text(&told), ":1: slack: 'lots' is not a size from 0 to 4096 GiB, or off: write 5, 20G or 512M\n"
			    ":2: 'window:60' is not a 'key: value' line, with a blank after the colon\n"
			    ":3: 'min_free: 3' does not begin at the left edge\n"
			    ":4: unknown key 'ordre': did you mean 'order'? (rad.conf(5) lists them)\n"
			    ":5: one 'key: value' a line is expected, no lists or blocks\n"
			    ":8: one 'key: value' a line is expected, no lists or blocks\n"
			    ":10: max_gract: '2' is not a number from 0 to 1, or off\n"
			    ":12: not YAML: found unexpected end of stream\n");
	settings_clear(&s);
}

/* A file may hold anything: it is taken or refused, and what is in force stays within the rows. */
static void any_bytes(void **state)
{
	(void)state;
	static const char text[] = "placement: magm\nmax_smact: 0.5\nslack: 512M\nwindow: 2m # so\ndevices: \"sim:1\"\n"
				   "- &a [b, *a]\n";
	uint64_t dice = 1;
	size_t taken = 0;
	for (unsigned round = 0; round < 3000; round++) {
		char bytes[sizeof text];
		struct settings s = settings_default();
		struct error err = ERROR_INIT;
		memcpy(bytes, text, sizeof text);
		size_t end = round % 2 ? sizeof text - 1 : 75;	/* also without the line that is none */
		bytes[end] = 0;
		for (unsigned i = round % 5; i; i--) {
			dice = dice * 6364136223846793005u + 1442695040888963407u;
			bytes[(dice >> 33) % end] = (char)(1 + (dice >> 48) % 255);
		}
		int rc = read_text(bytes, &s, &err);
		assert_int_equal(rc != 0, *err.text != 0);
		taken += !rc;
		assert_true(s.core.window.span_ms >= 1000 && s.core.window.span_ms <= 3600000);
		assert_true(s.core.map.slack_mib <= 4096 * 1024 && *s.devices);
		settings_clear(&s);
	}
	assert_true(taken > 100 && taken < 2900);
}

static void a_missing_file_is_an_error_only_when_named(void **state)
{
	(void)state;
	struct settings c = settings_default();
	struct error err = ERROR_INIT;
	assert_int_equal(settings_read(&c, "/no/such/rad.conf", false, NULL, NULL, &err), 0);
	assert_int_equal(settings_read(&c, "/no/such/rad.conf", true, NULL, NULL, &err), -1);
	assert_non_null(strstr(err.text, "/no/such/rad.conf"));
	settings_clear(&c);
}

static const char *source_in(json_t *list, const char *name)
{
	size_t i;
	json_t *one;
	json_array_foreach(json_object_get(list, "settings"), i, one)
		if (!strcmp(json_string_value(json_object_get(one, "name")), name))
			return json_string_value(json_object_get(one, "source"));
	return NULL;
}

static void sources_are_known(void **state)
{
	(void)state;
	char path[] = "/tmp/rad-config-XXXXXX";
	struct settings s;
	struct error err = ERROR_INIT;
	scoped_fd int fd = mkstemp(path);
	assert_true(write(fd, "slack: 3\n\ndevices: nvml\norder: fifo\n", 35) == 35);
	setenv("RAD_DEVICES", "sim:1xa100-40g", 1);
	if (settings_load(&s, path, NULL, NULL, NULL, &err))
		fail_msg("%s", err.text);
	scoped_json *list = settings_json(&s);
	scoped_free char *third = alloc_printf("%s:4", path);
	assert_string_equal(source_in(list, "order"), third);
	assert_string_equal(source_in(list, "devices"), "environment");
	assert_string_equal(source_in(list, "max_smact"), "default");
	settings_clear(&s);
	assert_int_equal(settings_load(&s, path, "sim:2xa100-40g", NULL, NULL, &err), 0);
	scoped_json *with_option = settings_json(&s);
	assert_string_equal(source_in(with_option, "devices"), "command line");
	assert_prints(&s, "devices", "sim:2xa100-40g");
	settings_clear(&s);
	unsetenv("RAD_DEVICES");
	unlink(path);
}

/* As every other variable. */
static void an_empty_variable_names_no_file(void **state)
{
	static const struct { const char *said; int rc; } rows[] = { { "", 0 }, { "/no/such/rad.conf", -1 } };
	(void)state;
	setenv("XDG_CONFIG_HOME", "/no/such", 1);
	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct settings s;
		setenv("RAD_CONFIG", rows[i].said, 1);
		assert_int_equal(settings_load(&s, NULL, NULL, NULL, NULL, NULL), rows[i].rc);
		settings_clear(&s);
	}
	unsetenv("RAD_CONFIG");
}

static void note_change(void *ctx, const struct setting *row, const char *old, const char *new, bool taken)
{
	buf_printf(ctx, "%s %s>%s %s\n", row->name, old, new, taken ? "taken" : "kept");
}

static void what_may_change_changes(void **state)
{
	(void)state;
	struct settings s = settings_default(), next = settings_default();
	scoped_buf told = { 0 };
	assert_int_equal(read_text("slack: 3\ndevices: sim:1xa100-40g\nwindow: 5\nmax_smact: off\nkill_wait: 1\norder: fifo\n", &next,
				   NULL), 0);
	settings_adopt(&s, &next, note_change, &told);
	assert_string_equal(buf_text(&told), "devices nvml>sim:1xa100-40g kept\nmax_smact 0.8>off taken\n"
			    "order plan>fifo taken\nslack 2>3 taken\n"
			    "window 90>5 kept\nkill_wait 30>1 taken\n");
	assert_int_equal(s.core.map.slack_mib, 3072);
	assert_int_equal(s.core.window.span_ms, 90000);
	assert_int_equal(s.kill_wait_ms, 1000);
	assert_string_equal(s.devices, "nvml");
	scoped_json *list = settings_json(&s);
	assert_string_equal(source_in(list, "devices"), "default");
	assert_non_null(strstr(source_in(list, "order"), ":6"));
	/* Once more: only what is still to come. */
	buf_drop(&told, told.len);
	settings_adopt(&s, &next, note_change, &told);
	assert_string_equal(buf_text(&told), "devices nvml>sim:1xa100-40g kept\nwindow 90>5 kept\n");
	settings_clear(&s);
	settings_clear(&next);
}

/* "*slack* (_2_; a size from 0 to 4096 GiB, or off)", and a paragraph below it; what needs a restart, and what plays no part in
 * a simulation, says so. */
static void the_manual_says_what_the_rows_say(void **state)
{
	(void)state;
	const char *root = getenv("RAD_SOURCE_ROOT");
	struct error err = ERROR_INIT;
	scoped_buf page = { 0 };
	size_t described = 0;
	if (!root)
		skip();
	scoped_free char *path = alloc_printf("%s/man/rad-conf.5.scd", root);
	if (io_read_file(path, 1 << 20, &page, &err))
		fail_msg("%s", err.text);
	for (const struct setting *row = settings_table; row->name; row++) {
		scoped_free char *range = settings_range(row);
		scoped_free char *head = alloc_printf("\n*%s* (_%s_; %s%s%s)\n\t", row->name, row->standard, range,
						      row->restart ? "; restart" : "", row->server_only ? "; not simulated" : "");
		if (!strstr(buf_text(&page), head))
			fail_msg("rad.conf(5) lacks this heading with a paragraph:%s", head);
	}
	for (const char *p = buf_text(&page); (p = strstr(p, "\n*")); p++)
		described += strchr(p + 2, '*') < strchr(p + 2, '\n') && !strncmp(strchr(p + 2, '*'), "* (_", 4);
	for (const struct setting *row = settings_table; row->name; row++)
		described--;
	assert_int_equal(described, 0);	/* none that is no row */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_default_is_a_value_of_its_row), cmocka_unit_test(every_row_keeps_its_range),
		cmocka_unit_test(what_is_printed_is_read_back), cmocka_unit_test(values_arrive), cmocka_unit_test(odd_values),
		cmocka_unit_test(mistakes_are_named), cmocka_unit_test(all_mistakes_are_told),
		cmocka_unit_test(a_line_that_is_none_ends_no_reading),
		cmocka_unit_test(a_missing_file_is_an_error_only_when_named), cmocka_unit_test(any_bytes),
		cmocka_unit_test(sources_are_known), cmocka_unit_test(an_empty_variable_names_no_file),
		cmocka_unit_test(what_may_change_changes),
		cmocka_unit_test(the_manual_says_what_the_rows_say),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
