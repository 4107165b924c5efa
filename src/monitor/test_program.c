/* SPDX-License-Identifier: MIT
 * What is shown of command lines, to everybody and to who may see all of it.
 */
#include "monitor/program.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static char program[PROC_PROGRAM_LEN], command[PROC_COMMAND_LEN];

#define DESCRIBE(cmdline) program_describe((cmdline), sizeof (cmdline), "comm", program, command)

static void scripts_are_named_and_arguments_are_not(void **state)
{
	(void)state;
	DESCRIBE("/usr/bin/python3.11\0-u\0-W\0ignore\0/home/ada/train.py\0--token\0s3cret");
	assert_string_equal(program, "python3.11 train.py");
	assert_string_equal(command, "/usr/bin/python3.11 -u -W ignore /home/ada/train.py --token s3cret");
	DESCRIBE("/home/ada/miniconda3/envs/a-name-as-people-give-them/lib/jvm/another-folder/bin/python\0train.py");
	assert_string_equal(program, "python train.py");
	DESCRIBE("python\0-m\0torch.distributed.run\0train.py");
	assert_string_equal(program, "python -m torch.distributed.run");
	DESCRIBE("python\0-mjupyter\0lab\0--token=s3cret");
	assert_string_equal(program, "python -m jupyter");
	DESCRIBE("python\0-c\0password = 's3cret'");
	assert_string_equal(program, "python -c");
	DESCRIBE("bash\0-lc\0curl -H s3cret");
	assert_string_equal(program, "bash -c");
	DESCRIBE("perl\0-Ilib\0-ne\0s3cret");
	assert_string_equal(program, "perl -c");
	DESCRIBE("bash\0--login\0run.sh\0s3cret");
	assert_string_equal(program, "bash run.sh");
	DESCRIBE("/opt/bin/my-trainer\0--key\0s3cret");
	assert_string_equal(program, "my-trainer");
	DESCRIBE("ray::Worker token=s3cret");
	assert_string_equal(program, "ray::Worker");
	DESCRIBE("python");
	assert_string_equal(program, "python");
	DESCRIBE("-bash");
	assert_string_equal(program, "bash");
}

static void what_cannot_be_shown_is_not(void **state)
{
	(void)state;
	DESCRIBE("python\0\xe2\x80\xaetrain\x1b[2J\n.py\0\x07");
	assert_string_equal(program, "python ???train?[2J?.py");
	assert_string_equal(command, "python ???train?[2J?.py ?");
	char longest[2 * PROC_COMMAND_LEN];
	memset(longest, 'x', sizeof longest);
	longest[sizeof longest - 1] = 0;
	DESCRIBE(longest);
	assert_int_equal(strlen(program), PROC_PROGRAM_LEN - 1);
	assert_int_equal(strlen(command), PROC_COMMAND_LEN - 1);
	assert_string_equal(command + strlen(command) - 3, "...");
}

/* A kernel thread has no command line, one that rewrote its own may have no end. */
static void without_a_command_line_the_kernel_names_it(void **state)
{
	(void)state;
	program_describe("", 0, "kworker/0:1", program, command);
	assert_string_equal(program, "kworker/0:1");
	program_describe("no end", 6, "comm\n", program, command);
	assert_string_equal(program, "comm?");
	program_describe("", 0, "", program, command);
	assert_string_equal(program, "");
	DESCRIBE("\0\0\0");
	assert_string_equal(program, "comm");
	DESCRIBE("python\0-W");
	assert_string_equal(program, "python");
	DESCRIBE("python\0-m");
	assert_string_equal(program, "python -m ");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(scripts_are_named_and_arguments_are_not),
		cmocka_unit_test(what_cannot_be_shown_is_not),
		cmocka_unit_test(without_a_command_line_the_kernel_names_it),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
