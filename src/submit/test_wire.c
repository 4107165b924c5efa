/* SPDX-License-Identifier: MIT
 * The protocol over a socketpair, whole and in pieces, broken and hostile; and where sockets are.
 */
#include "submit/wire.h"

#include "base/alloc.h"
#include "base/io.h"
#include "base/json.h"
#include "base/scope.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>

#include <cmocka.h>

static void test_pieces(void **state)
{
	(void)state;
	scoped_buf out = { 0 }, in = { 0 };
	scoped_json *a = wire_request("ping"), *b = json_pack("{s:i, s:s}", "v", 1, "text", "n\xc3\xa4h\n");
	assert_int_equal(wire_encode(a, &out, NULL), 0);
	assert_int_equal(wire_encode(b, &out, NULL), 0);
	size_t got = 0;
	/* Byte by byte, the two come out in order and exactly when they are whole. */
	for (size_t i = 0; i < out.len; i++) {
		json_t *m = NULL;
		buf_add(&in, out.data + i, 1);
		int r = wire_decode(&in, &m, NULL);
		assert_int_not_equal(r, -1);
		if (r == 1) {
			assert_true(json_equal(m, got++ ? b : a));
			assert_int_equal(in.len, 0);
			json_decref(m);
		}
	}
	assert_int_equal(got, 2);
}

static void test_broken(void **state)
{
	(void)state;
	static const struct { const char *bytes; size_t n; const char *message; } rows[] = {
		{ "\xff\xff\xff\xff", 4, "4294967295 bytes long" }, { "\x02\x00\x00\x01", 4, "33554433 bytes long" },
		{ "\0\0\0\0", 4, "0 bytes long" }, { "\0\0\0\1x", 5, "1 bytes long" }, { "GET / HTTP/1.1\r\n", 16, "bytes long" },
		{ "\0\0\0\2[]", 6, "not an object" }, { "\0\0\0\4null", 8, "not JSON" }, { "\0\0\0\3{\"a", 7, "not JSON" },
		{ "\0\0\0\4{}{}", 8, "not JSON" }, { "\0\0\0\7{\"\xff\":1}", 11, "not JSON" },
	};
	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		scoped_buf in = { 0 };
		json_t *m = NULL;
		struct error err = ERROR_INIT;
		buf_add(&in, rows[i].bytes, rows[i].n);
		assert_int_equal(wire_decode(&in, &m, &err), -1);
		assert_null(m);
		assert_int_equal(err.code, ERR_CORRUPT);
		if (!strstr(err.text, rows[i].message))
			fail_msg("row %zu: '%s' does not hold '%s'", i, err.text, rows[i].message);
	}
	/* Deep nesting is refused by the parser, not by the stack. */
	scoped_buf deep = { 0 };
	buf_add(&deep, "\0\1\0\0", 4);
	buf_add_text(&deep, "{\"a\":");
	while (deep.len < 4 + 65536)
		buf_add_text(&deep, "[");
	json_t *m;
	assert_int_equal(wire_decode(&deep, &m, NULL), -1);
}

static void test_too_large(void **state)
{
	(void)state;
	scoped_buf out = { 0 };
	struct error err = ERROR_INIT;
	scoped_free char *text = alloc_zero(WIRE_MAX_MESSAGE + 1);
	memset(text, 'x', WIRE_MAX_MESSAGE);
	scoped_json *m = json_pack("{s:s}", "text", text);
	buf_add_text(&out, "before");
	assert_int_equal(wire_encode(m, &out, &err), -1);
	assert_non_null(strstr(err.text, "too large"));
	assert_string_equal(buf_text(&out), "before");
}

/* What `rad` may send at its largest is taken; what only costs the reader time is not even begun with. */
static void test_limits_of_requests(void **state)
{
	static const char in_text[] = "{\"a\":\"[{,\\\"[,\\\\\"";	/* brackets in a text are none, behind an escaped quote neither */
	struct error err = ERROR_INIT;
	scoped_buf message = { 0 }, many = { 0 }, long_one = { 0 }, texts = { 0 };
	json_t *m = NULL;
	(void)state;
	buf_add_text(&many, "[0");
	for (unsigned i = 0; i < WIRE_MAX_VALUES; i++)
		buf_add_text(&many, ",0");
	buf_add_text(&many, "]");
	assert_int_equal(wire_encode_text(many.data, many.len, &message, NULL), 0);
	assert_int_equal(wire_message_bytes(&message), message.len);
	assert_int_equal(wire_decode_request(&message, &m, &err), -1);
	assert_non_null(strstr(err.text, "values"));

	buf_drop(&message, message.len);
	scoped_free char *text = alloc_zero(WIRE_MAX_REQUEST);
	memset(text, ',', WIRE_MAX_REQUEST - 100);
	buf_printf(&long_one, "{\"a\":\"%s\"}", text);
	assert_int_equal(wire_encode_text(long_one.data, long_one.len, &message, NULL), 0);
	assert_int_equal(wire_decode_request(&message, &m, &err), 1);
	assert_int_equal(message.len, 0);
	json_decref(m);

	buf_add_text(&texts, in_text);
	for (unsigned i = 0; i < WIRE_MAX_VALUES - 10; i++)
		buf_add_text(&texts, i ? ",\"\"" : ",\"b\":[\"\"");
	buf_add_text(&texts, "]}");
	assert_int_equal(wire_encode_text(texts.data, texts.len, &message, NULL), 0);
	assert_int_equal(wire_decode_request(&message, &m, &err), 1);
	assert_string_equal(json_string_value(json_object_get(m, "a")), "[{,\"[,\\");
	json_decref(m);

	buf_add(&message, "\x01\x90\0\0", 4);	/* 25 MiB */
	assert_int_equal(wire_decode_request(&message, &m, &err), -1);
	assert_non_null(strstr(err.text, "25165824 are allowed"));
}

static void test_versions(void **state)
{
	(void)state;
	struct error err = ERROR_INIT;
	scoped_json *good = wire_request("ping"), *newer = json_pack("{s:i, s:s, s:s}", "v", 2, "op", "ping", "rad", "0.2");
	scoped_json *bare = json_pack("{s:s}", "op", "ping"), *nameless = json_pack("{s:i}", "v", 1);
	assert_string_equal(wire_check_request(good, &err), "ping");
	assert_null(wire_check_request(newer, &err));
	assert_string_equal(err.text, "rad 0.2 speaks protocol 2, radd " RAD_VERSION " speaks 1: restart radd so that both are "
			    "of the same "
			    "release (running tasks go on)");
	assert_null(wire_check_request(bare, &err));
	assert_non_null(strstr(err.text, "'v'"));
	assert_null(wire_check_request(nameless, &err));
	assert_non_null(strstr(err.text, "'op'"));
	assert_int_equal(wire_check(newer, &err), -1);
	assert_non_null(strstr(err.text, "rad " RAD_VERSION " speaks protocol 1, radd 0.2 speaks 2: restart radd"));
	scoped_json *reply = wire_reply();
	assert_int_equal(wire_check(reply, &err), 0);
}

static void test_errors_travel(void **state)
{
	(void)state;
	struct error sent = { .code = ERR_NOT_FOUND, .text = "task 12: no such task" }, got = ERROR_INIT;
	scoped_json *reply = wire_error(&sent);
	assert_int_equal(wire_check(reply, &got), -1);
	assert_int_equal(got.code, ERR_NOT_FOUND);
	assert_string_equal(got.text, sent.text);
	strcpy(sent.text, "name 'caf\xe9'");
	scoped_json *odd = wire_error(&sent);
	assert_int_equal(wire_check(odd, &got), -1);
	assert_string_equal(got.text, "name 'caf?'");
	scoped_json *empty = json_pack("{s:i, s:{}}", "v", 1, "error");
	assert_int_equal(wire_check(empty, &got), -1);
	assert_int_equal(got.code, ERR_INTERNAL);
}

/* Answers one request on fd with these bytes, in a child. */
static pid_t answer(int fd, int other, const char *bytes, size_t n)
{
	pid_t child = fork();
	assert_true(child >= 0);
	if (child)
		return child;
	close(other);
	char chunk[4096];
	scoped_buf in = { 0 };
	json_t *m = NULL;
	while (!wire_decode(&in, &m, NULL)) {
		ssize_t got = read(fd, chunk, sizeof chunk);
		if (got <= 0)
			_exit(1);
		buf_add(&in, chunk, (size_t)got);
	}
	for (size_t i = 0; i < n; i++)
		if (io_write_full(fd, bytes + i, 1))
			_exit(1);
	_exit(0);
}

static json_t *call(const char *bytes, size_t n, struct error *err)
{
	int pair[2], status;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
	pid_t child = answer(pair[1], pair[0], bytes, n);
	close(pair[1]);
	scoped_json *request = wire_request("ping");
	json_t *reply = wire_call(pair[0], request, err);
	close(pair[0]);
	waitpid(child, &status, 0);
	return reply;
}

static void test_calls(void **state)
{
	(void)state;
	struct error err = ERROR_INIT;
	scoped_json *reply = call("\0\0\0\x0d{\"v\":1,\"a\":2}", 17, &err);
	assert_non_null(reply);
	assert_int_equal(json_integer_value(json_object_get(reply, "a")), 2);
	assert_null(call("", 0, &err));
	assert_int_equal(err.code, ERR_UNAVAILABLE);
	assert_null(call("\0\0\0\x0d{\"v\":1", 10, &err));
	assert_int_equal(err.code, ERR_UNAVAILABLE);
	assert_null(call("\xff\0\0\0", 4, &err));
	assert_int_equal(err.code, ERR_CORRUPT);
	assert_null(call("\0\0\0\x07{\"v\":2}", 11, &err));
	assert_int_equal(err.code, ERR_CONFLICT);
}

static void test_paths(void **state)
{
	(void)state;
	char folder[] = "/tmp/rad-wire-XXXXXX";
	assert_non_null(mkdtemp(folder));
	setenv("RAD_SOCKET", "/x/y.sock", 1);
	scoped_free char *said = wire_socket_path();
	assert_string_equal(said, "/x/y.sock");
	unsetenv("RAD_SOCKET");
	scoped_free char *own = NULL;
	if (geteuid()) {
		setenv("XDG_RUNTIME_DIR", folder, 1);
		own = wire_own_socket_path();
		assert_memory_equal(own, folder, strlen(folder));
		setenv("XDG_RUNTIME_DIR", "/nowhere", 1);
		scoped_free char *fallback = wire_own_socket_path(), *want = alloc_printf("/tmp/rad-%u/radd.sock", (unsigned)geteuid());
		assert_string_equal(fallback, want);
	} else {
		own = wire_own_socket_path();
		assert_string_equal(own, "/run/rad/radd.sock");
	}
	/* A folder that others may write to, a file in its place, and a path that no socket address holds. */
	struct error err = ERROR_INIT;
	scoped_free char *path = alloc_printf("%s/rad/radd.sock", folder), *parent = alloc_printf("%s/rad", folder);
	assert_int_equal(wire_prepare_folder(path, "go elsewhere", &err), 0);
	struct stat st;
	assert_int_equal(stat(parent, &st), 0);
	assert_int_equal(st.st_mode & 022, 0);
	assert_int_equal(wire_prepare_folder(path, "go elsewhere", &err), 0);
	chmod(parent, 0777);
	assert_int_equal(wire_prepare_folder(path, "go elsewhere", &err), -1);
	assert_non_null(strstr(err.text, ": go elsewhere"));
	assert_int_equal(err.code, ERR_DENIED);
	chmod(parent, 01777);
	assert_int_equal(wire_prepare_folder(path, "go elsewhere", &err), 0);
	rmdir(parent);
	assert_int_equal(symlink(folder, parent), 0);
	assert_int_equal(wire_prepare_folder(path, "go elsewhere", &err), -1);
	assert_int_equal(err.code, ERR_DENIED);
	unlink(parent);
	scoped_free char *longest = alloc_printf("/tmp/%0200d", 1);
	assert_int_equal(wire_prepare_folder(longest, "go elsewhere", &err), -1);
	assert_int_equal(wire_connect(longest, &err), -1);
	assert_non_null(strstr(err.text, "too long"));
	rmdir(folder);
}

static void test_connect(void **state)
{
	(void)state;
	char folder[] = "/tmp/rad-wire-XXXXXX";
	struct error err = ERROR_INIT;
	assert_non_null(mkdtemp(folder));
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	snprintf(address.sun_path, sizeof address.sun_path, "%s/s", folder);
	assert_int_equal(wire_connect(address.sun_path, &err), -1);
	assert_int_equal(err.code, ERR_UNAVAILABLE);
	scoped_fd int listener = socket(AF_UNIX, SOCK_STREAM, 0);
	assert_int_equal(bind(listener, (struct sockaddr *)&address, sizeof address), 0);
	assert_int_equal(wire_connect(address.sun_path, &err), -1);	/* bound, but nobody listens */
	assert_int_equal(err.code, ERR_UNAVAILABLE);
	assert_int_equal(listen(listener, 1), 0);
	scoped_fd int fd = wire_connect(address.sun_path, &err);
	assert_true(fd >= 0);
	unlink(address.sun_path);
	rmdir(folder);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_pieces), cmocka_unit_test(test_broken), cmocka_unit_test(test_too_large),
		cmocka_unit_test(test_limits_of_requests),
		cmocka_unit_test(test_versions),
		cmocka_unit_test(test_errors_travel), cmocka_unit_test(test_calls), cmocka_unit_test(test_paths),
		cmocka_unit_test(test_connect),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
