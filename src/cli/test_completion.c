/* SPDX-License-Identifier: MIT
 * Help and completion scripts: every option of every verb is in them, and shells can read them.
 */
#include "cli/completion.h"

#include "base/alloc.h"
#include "base/io.h"
#include "base/scope.h"
#include "submit/options.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

/* As the real one: its table is made for the call. */
static int submit(struct cli_call *c)
{
	scoped_free struct args_option *options = options_args();
	return cli_options(c, options) ? 1 : c->rc;
}

static int why(struct cli_call *c)
{
	bool json = false;
	const char *of = NULL;
	const struct args_option options[] = {
		{ "json", 'j', NULL, "print JSON", .flag = &json }, { "of", 0, "T.csv", "a file", .value = &of },
		{ "secret", 0, "N", NULL, .value = &of }, { 0 },
	};
	return cli_options(c, options) ? 1 : c->rc;
}

static const struct cli_verb verbs[] = {
	{ "submit", "hand in a task", "[options] FILE.rad | COMMAND", submit },
	{ "why", "why it's waiting: [numbers]", "[options] ID", why }, { 0 },
};

static char *completion(const char *shell)
{
	char *text = NULL;
	size_t size = 0;
	FILE *out = open_memstream(&text, &size);
	assert_int_equal(completion_write(out, shell, verbs, NULL), 0);
	fclose(out);
	return text;
}

static char *help(void)
{
	char *text = NULL;
	size_t size = 0;
	FILE *out = open_memstream(&text, &size);
	scoped_free struct args_option *options = options_args();
	args_help(out, options, 0);
	fclose(out);
	return text;
}

static void test_generated(void **state)
{
	(void)state;
	scoped_free char *text = help(), *bash = completion("bash"), *zsh = completion("zsh"), *fish = completion("fish");
	for (const struct submit_option *o = submit_options; o->name; o++) {
		scoped_free char *dashed = alloc_printf("--%s", o->name), *fished = alloc_printf("-l %s", o->name);
		assert_non_null(strstr(text, dashed));
		assert_non_null(strstr(bash, dashed));
		assert_non_null(strstr(zsh, dashed));
		assert_non_null(strstr(fish, fished));
	}
	assert_non_null(strstr(text, "  -G, --gpus=N"));
	assert_non_null(strstr(text, "  -h, --help"));
	assert_non_null(strstr(zsh, "'why:why it'\\''s waiting\\: \\[numbers\\]'"));
	assert_non_null(strstr(zsh, "'--of=[a file]:value:_files'"));
	assert_null(strstr(bash, "--secret "));
	assert_null(strstr(zsh, "--secret"));
	assert_null(strstr(fish, "secret"));
	assert_int_equal(completion_write(stderr, "tcsh", verbs, NULL), -1);
}

/* bash itself reads the script, and completes with it. */
static void test_bash_completes(void **state)
{
	(void)state;
	char path[] = "/tmp/rad-test-XXXXXX";
	scoped_fd int fd = mkstemp(path);
	scoped_free char *script = completion("bash");
	assert_int_equal(io_write_full(fd, script, strlen(script)), 0);
	scoped_free char *command = alloc_printf(
		"bash -c '. %s; COMP_WORDS=(rad submit --share m); COMP_CWORD=3; _rad; echo ${COMPREPLY[@]};"
		" COMP_WORDS=(rad w); COMP_CWORD=1; _rad; echo ${COMPREPLY[@]};"
		" COMP_WORDS=(rad submit --gpu); COMP_CWORD=2; _rad; echo ${COMPREPLY[@]};"
		" COMP_WORDS=(rad why -); COMP_CWORD=2; _rad; echo ${COMPREPLY[@]}'", path);
	FILE *out = popen(command, "r");
	char text[200] = "";
	assert_true(fread(text, 1, sizeof text - 1, out) > 0);
	pclose(out);
	unlink(path);
	assert_string_equal(text, "mps mig\nwhy\n--gpus --gpus-per-node --gpu-mem\n--json --of --help\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_generated), cmocka_unit_test(test_bash_completes) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
