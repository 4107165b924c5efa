/* SPDX-License-Identifier: MIT
 * Whom the HTTP server answers.
 */
#include "http/serve_check.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <stdio.h>
#include <unistd.h>

static void numbers_and_localhost_are_nobodys_names(void **state)
{
	static const char *const good[] = {
		"127.0.0.1", "127.0.0.1:8836", "10.1.2.3:80", "localhost", "LOCALHOST:1", "[::1]", "[::1]:8836", "[fe80::1]:1",
	};
	static const char *const bad[] = {
		"", ":80", "evil.example", "evil.example:8836", "localhost.evil.example", "127.0.0.1.evil.example", "127.0.0.1evil",
		"127.0.0.1:80.evil.example", "localhost:x",
		"0x7f.1.example", "[::1].evil", "[::1", "[]", "[evil]:1", "::1", "localhost.", "localhost\n",
	};
	(void)state;
	for (size_t i = 0; i < sizeof good / sizeof *good; i++)
		assert_true(serve_check_host(good[i], NULL));
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		assert_false(serve_check_host(bad[i], NULL));
	assert_false(serve_check_host(NULL, NULL));
}

static void names_are_the_machines_or_were_listed(void **state)
{
	char own[256] = "", with_port[300], longer[300];
	(void)state;
	gethostname(own, sizeof own - 1);
	snprintf(with_port, sizeof with_port, "%s:9836", own);
	snprintf(longer, sizeof longer, "%sx", own);
	assert_true(serve_check_host(own, NULL));
	assert_true(serve_check_host(with_port, NULL));
	assert_false(serve_check_host(longer, NULL));
	assert_true(serve_check_host("GPU1.lab:80", "a.lab,gpu1.lab"));
	assert_true(serve_check_host("a.lab", "a.lab,gpu1.lab"));
	assert_false(serve_check_host("gpu1", "a.lab,gpu1.lab"));
	assert_false(serve_check_host("a.lab,gpu1.lab", "a.lab,gpu1.lab"));
	assert_false(serve_check_host("", "a.lab,,gpu1.lab"));
}

static void a_token_is_all_of_it(void **state)
{
	static const char token[] = "0123456789abcdef0123456789abcdef";
	(void)state;
	assert_true(serve_check_token("Bearer 0123456789abcdef0123456789abcdef", token));
	assert_true(serve_check_token("bearer 0123456789abcdef0123456789abcdef", token));
	assert_false(serve_check_token("Bearer 0123456789abcdef0123456789abcdeg", token));
	assert_false(serve_check_token("Bearer 0123456789abcdef0123456789abcde", token));
	assert_false(serve_check_token("Bearer 0123456789abcdef0123456789abcdef0", token));
	assert_false(serve_check_token("Bearer ", token));
	assert_false(serve_check_token("0123456789abcdef0123456789abcdef", token));
	assert_false(serve_check_token("", token));
	assert_false(serve_check_token(NULL, token));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(numbers_and_localhost_are_nobodys_names), cmocka_unit_test(names_are_the_machines_or_were_listed),
		cmocka_unit_test(a_token_is_all_of_it),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
