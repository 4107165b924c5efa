/* SPDX-License-Identifier: MIT
 * Signatures: which submissions are the same run as far as memory goes, and which are not.
 */
#include "submit/signature.h"

#include "base/alloc.h"
#include "base/scope.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static char *of_command(const char *line, const char *program, uid_t uid)
{
	struct spec *s = spec_create();
	scoped_free char *copy = alloc_string(line);
	char *words[64] = { NULL };
	size_t n = 0;
	s->uid = uid;
	for (char *w = strtok(copy, " "); w; w = strtok(NULL, " "))
		words[n++] = w;
	spec_set_argv(s, words);
	char *signature = signature_make(s, program, program ? strlen(program) : 0);
	spec_unref(s);
	return signature;
}

static char *of_script(const char *script)
{
	struct spec *s = spec_create();
	s->script = alloc_string(script);
	char *signature = signature_make(s, NULL, 0);
	spec_unref(s);
	return signature;
}

static void test_commands(void **state)
{
	(void)state;
	static const struct { const char *a, *b; bool same; } rows[] = {
		{ "python t.py --seed 1", "python t.py --seed 2", true },
		{ "python t.py --seed=1", "python t.py", true },
		{ "python t.py --lr 1e-3 --b 3", "python t.py --lr -1 --b 3", true },
		{ "python t.py --learning_rate 1", "python t.py --learning-rate 2", true },
		{ "python t.py train.seed=1", "python t.py train.seed=2", true },
		{ "python t.py --output-dir /a --run-name x", "python t.py --output_dir /b --run_name y", true },
		{ "python t.py --SEED=1", "python t.py --seed=3", true },
		{ "python t.py --b 64", "python t.py --b 128", false },
		{ "python t.py --seeds 1", "python t.py --seeds 2", false },
		{ "python t.py --seed --b", "python t.py --seed --c", false },
		{ "python t.py ab c", "python t.py a bc", false },
		{ "python t.py lr", "python t.py", false },
		{ "python t.py", "python3 t.py", false },
	};
	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		scoped_free char *a = of_command(rows[i].a, NULL, 7), *b = of_command(rows[i].b, NULL, 7);
		if (!strcmp(a, b) != rows[i].same)
			fail_msg("'%s' and '%s' should%s be the same", rows[i].a, rows[i].b, rows[i].same ? "" : " not");
	}
	scoped_free char *mine = of_command("t", NULL, 7), *yours = of_command("t", NULL, 8), *edited = of_command("t", "x = 1", 7);
	assert_string_not_equal(mine, yours);
	assert_string_not_equal(mine, edited);
}

static void test_scripts(void **state)
{
	(void)state;
	static const struct { const char *a, *b; bool same; } rows[] = {
		{ "python t.py --seed 1\n", "\n# other words\npython  t.py --seed 2 # why\n", true },
		{ "SEED=1 python t.py\n", "SEED=2 python t.py\n", true },
		{ "python t.py --seed\nls\n", "python t.py --seed\nps\n", false },
		{ "a b\n", "a\nb\n", false },
		{ "python t.py --b 1\n", "python t.py --b 2\n", false },
	};
	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		scoped_free char *a = of_script(rows[i].a), *b = of_script(rows[i].b);
		if (!strcmp(a, b) != rows[i].same)
			fail_msg("'%s' and '%s' should%s be the same", rows[i].a, rows[i].b, rows[i].same ? "" : " not");
	}
}

static void test_settings_count(void **state)
{
	(void)state;
	struct spec *s = spec_create();
	s->script = alloc_string("x");
	scoped_free char *before = signature_make(s, NULL, 0);
	s->priority = 5;
	s->name = alloc_string("n");
	scoped_free char *same = signature_make(s, NULL, 0);
	assert_string_equal(before, same);
	s->batch_size = 64;
	scoped_free char *batch = signature_make(s, NULL, 0);
	assert_string_not_equal(before, batch);
	s->input_channels = 3;
	s->input_height = s->input_width = 224;
	scoped_free char *image = signature_make(s, NULL, 0);
	assert_string_not_equal(batch, image);
	s->input_channels = s->input_height = s->input_width = 0;	/* what was learnt of those that do not say it still counts */
	scoped_free char *unsaid = signature_make(s, NULL, 0);
	assert_string_equal(batch, unsaid);
	s->model = alloc_string("Conv2d");
	scoped_free char *model = signature_make(s, NULL, 0);
	assert_string_not_equal(batch, model);
	spec_unref(s);
}

static char *of_environ(const char *a, const char *b)
{
	struct spec *s = spec_create();
	spec_set_environ(s, (char *[]){ (char *)a, (char *)b, NULL });
	char *signature = signature_make(s, NULL, 0);
	spec_unref(s);
	return signature;
}

static void test_environments_count_where_they_change_memory(void **state)
{
	(void)state;
	static const struct { const char *a[2], *b[2]; bool same; } rows[] = {
		{ { "HOME=/a", "X=1" }, { "HOME=/b", "Y=2" }, true },
		{ { "VIRTUAL_ENV=/a", "X=1" }, { "VIRTUAL_ENV=/b", "X=1" }, false },
		{ { "VIRTUAL_ENV=/a", "PYENV_VERSION=3" }, { "PYENV_VERSION=3", "VIRTUAL_ENV=/a" }, true },
		{ { "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True", "X=1" }, { "X=1", "Y=1" }, false },
		{ { "CUBLAS_WORKSPACE_CONFIG=:4096:8", "X=1" }, { "X=1", "Y=1" }, false },
		{ { "VIRTUAL_ENVY=/a", "X=1" }, { "X=1", "Y=1" }, true },
	};
	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		scoped_free char *a = of_environ(rows[i].a[0], rows[i].a[1]), *b = of_environ(rows[i].b[0], rows[i].b[1]);
		if (!strcmp(a, b) != rows[i].same)
			fail_msg("row %zu should%s be the same", i, rows[i].same ? "" : " not");
	}
}

static void test_belongs(void **state)
{
	(void)state;
	scoped_free char *mine = of_command("t", NULL, 1000);
	assert_true(signature_belongs(mine, 1000));
	assert_false(signature_belongs(mine, 100));
	assert_false(signature_belongs("u1000-0123456789abcdeX", 1000));
	assert_false(signature_belongs("u1000-", 1000));
	assert_false(signature_belongs("", 1000));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_commands), cmocka_unit_test(test_scripts), cmocka_unit_test(test_settings_count),
		cmocka_unit_test(test_environments_count_where_they_change_memory), cmocka_unit_test(test_belongs),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
