/* SPDX-License-Identifier: MIT
 * Limits of users and groups: rows of a file, who decides, what is refused, what a new file changes.
 */
#include "base/json.h"
#include "base/scope.h"
#include "settings/who.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static const struct settings_source from_file = { SETTINGS_FILE, 7 };

static void set(struct settings *s, const char *key, const char *text)
{
	struct error err = ERROR_INIT;
	if (settings_set_named(s, key, text, from_file, &err))
		fail_msg("%s: %s: %s", key, text, err.text);
}

static void refused(struct settings *s, const char *key, const char *text, const char *because)
{
	struct error err = ERROR_INIT;
	assert_int_equal(settings_set_named(s, key, text, from_file, &err), -1);
	if (!strstr(err.text, because))
		fail_msg("'%s' does not say '%s'", err.text, because);
}

static void the_user_then_the_groups_then_all(void **unused)
{
	(void)unused;
	struct settings s = settings_default();
	const struct settings_who *row[ALLOWANCE_COUNT];
	set(&s, "max_gpus", "4");
	set(&s, "max_running", "10");
	set(&s, "group:students", "max_gpus=1, max_mem=40G");
	set(&s, "group:domain users", "max_gpus=2");
	set(&s, "group:staff", "max_gpus=off");
	set(&s, "user:ada", "max-gpus=8 max_queued=50");
	assert_true(who_has_groups(&s));
	struct allowance a = who_allows(&s, "ada", "students:staff:", row);
	assert_int_equal(a.most[ALLOWANCE_GPUS], 8);
	assert_int_equal(a.most[ALLOWANCE_QUEUED], 50);
	assert_int_equal(a.most[ALLOWANCE_MEM], 40 * 1024);
	assert_int_equal(a.most[ALLOWANCE_RUNNING], 10);
	assert_string_equal(row[ALLOWANCE_GPUS]->name, "user:ada");
	assert_string_equal(row[ALLOWANCE_MEM]->name, "group:students");
	assert_null(row[ALLOWANCE_RUNNING]);
	/* Of several groups the one that allows most; names are whole. */
	assert_int_equal(who_allows(&s, "bob", "students:domain users", NULL).most[ALLOWANCE_GPUS], 2);
	assert_int_equal(who_allows(&s, "bob", "staff:students", NULL).most[ALLOWANCE_GPUS], 0);
	assert_int_equal(who_allows(&s, "bob", "student:tudents:studentss", NULL).most[ALLOWANCE_GPUS], 4);
	assert_int_equal(who_allows(&s, "", "", NULL).most[ALLOWANCE_GPUS], 4);
	settings_clear(&s);
}

static void what_is_refused_changes_nothing(void **unused)
{
	(void)unused;
	struct settings s = settings_default();
	set(&s, "user:ada", "max_gpus=8 max_mem=0.5");
	refused(&s, "user:ada", "max_gpus=2 max_gpu=1", "'max_gpu=1': expected max_running=N");
	refused(&s, "user:ada", "max_gpus=0", "max_gpus: '0' would let nothing run: it is a whole number from 1 to 10000000, "
		"or off (no limit)");
	refused(&s, "user:ada", "max_mem=0", "max_mem: '0' would let nothing run: it is a size from 1 MiB to 4194304 GiB, "
		"or off (no limit)");
	refused(&s, "user:ada", "max_mem=0.0G", "max_mem: '0.0G' would");
	refused(&s, "user:ada", "max_mem=0.0001", "max_mem: '0.0001' is not a size from 1 MiB to 4194304 GiB, or off");
	refused(&s, "user:ada", "max_gpus=two", "'two' is not");
	refused(&s, "user:ada", "max_mem=-1", "max_mem: '-1' is not");
	refused(&s, "user:ada", "=", "expected");
	refused(&s, "user:", "max_gpus=2", "whose?");
	refused(&s, "users:ada", "max_gpus=2", "unknown key");
	assert_int_equal(who_allows(&s, "ada", "", NULL).most[ALLOWANCE_GPUS], 8);
	assert_false(who_has_groups(&s));
	set(&s, "user:ada", "");
	assert_int_equal(s.n_whos, 0);
	settings_clear(&s);
}

static void count_change(void *ctx, const struct setting *row, const char *old, const char *new, bool taken)
{
	assert_true(taken);
	assert_non_null(row->name);
	assert_string_not_equal(old, new);
	++*(unsigned *)ctx;
}

static void a_new_file_replaces_them(void **unused)
{
	(void)unused;
	struct settings s = settings_default(), next = settings_default();
	unsigned changes = 0;
	set(&s, "user:ada", "max_gpus=8");
	set(&s, "user:bob", "max_gpus=1");
	set(&next, "user:bob", "max_gpus=1");
	set(&next, "group:staff", "max_mem=512M");
	set(&next, "share_half_life", "1d");
	settings_adopt(&s, &next, count_change, &changes);
	assert_int_equal(changes, 3);
	assert_int_equal(s.n_whos, 2);
	assert_int_equal(s.core.fair.half_life_ms, 86400000);
	assert_int_equal(who_allows(&s, "ada", "", NULL).most[ALLOWANCE_GPUS], 0);
	assert_int_equal(who_allows(&s, "ada", "staff", NULL).most[ALLOWANCE_MEM], 512);
	changes = 0;
	settings_adopt(&s, &next, count_change, &changes);
	assert_int_equal(changes, 0);
	scoped_json *list = settings_json(&s);
	scoped_free char *text = json_to_text(list);
	assert_non_null(strstr(text, "\"group:staff\""));
	assert_non_null(strstr(text, "\"max_mem=512M\""));
	settings_clear(&s);
	settings_clear(&next);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_user_then_the_groups_then_all),
		cmocka_unit_test(what_is_refused_changes_nothing),
		cmocka_unit_test(a_new_file_replaces_them),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
