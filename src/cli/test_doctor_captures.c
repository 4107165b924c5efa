/* SPDX-License-Identifier: MIT */
#include "cli/doctor_captures.h"

#include "base/alloc.h"
#include "base/io.h"
#include "base/scope.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

struct machine {
	const char *most, *clone, *restricts, *label, *denied;	/* NULL: it has no such file; nothing is denied */
	bool profile;
};

static void put(const char *proc, const char *folder, const char *name, const char *text)
{
	struct error err = ERROR_INIT;
	scoped_free char *to = alloc_printf("%s/%s", proc, folder), *path = alloc_printf("%s/%s", to, name);
	assert_false(io_make_dirs(to, 0700, &err) || (text && io_replace_file(path, text, strlen(text), 0600, &err)));
}

static void the_setting_that_denies_it_is_named(void **unused)
{
	(void)unused;
	unsetenv("HOME");	/* where it would be tried */
	static const struct machine machines[] = {
		{ "63000\n", NULL, NULL, NULL, NULL, false },					/* no AppArmor */
		{ "0\n", NULL, NULL, NULL, "user.max_user_namespaces is 0", false },
		{ "63000\n", "0\n", NULL, "unconfined\n", "kernel.unprivileged_userns_clone is 0", false },
		{ "63000\n", "1\n", NULL, "unconfined\n", NULL, false },			/* Debian 12, Ubuntu 22.04 */
		{ "63000\n", "1\n", "0\n", "unconfined\n", NULL, false },
		{ "63000\n", "1\n", "1\n", "unconfined\n", "kernel.apparmor_restrict_unprivileged_userns is 1", true },
		{ "63000\n", "1\n", "1\n", "rad (unconfined)\n", NULL, false },		/* ours is loaded */
		{ "0\n", "1\n", "1\n", "unconfined\n", "user.max_user_namespaces is 0", false },	/* no profile helps */
	};
	for (size_t i = 0; i < sizeof machines / sizeof *machines; i++) {
		const struct machine *m = &machines[i];
		char proc[] = "/tmp/rad-test-XXXXXX";
		assert_non_null(mkdtemp(proc));
		put(proc, "sys/user", "max_user_namespaces", m->most);
		put(proc, "sys/kernel", "unprivileged_userns_clone", m->clone);
		put(proc, "sys/kernel", "apparmor_restrict_unprivileged_userns", m->restricts);
		put(proc, "self/attr", "current", m->label);
		struct doctor d = { .json = true, .checks = json_array() };
		doctor_captures(&d, proc);
		const char *grade, *text;
		assert_false(json_unpack(json_array_get(d.checks, 0), "{ss, ss}", "grade", &grade, "text", &text));
		assert_string_equal(grade, m->denied ? "warn" : "ok");
		assert_true(!m->denied || strstr(text, m->denied) == text);
		assert_true(m->profile == (strstr(text, "root can permit it: load a profile of AppArmor for /") != NULL));
		json_decref(d.checks);
		scoped_free char *command = alloc_printf("rm -r %s", proc);
		assert_int_equal(system(command), 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(the_setting_that_denies_it_is_named) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
