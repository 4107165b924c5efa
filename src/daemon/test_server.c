/* SPDX-License-Identifier: MIT
 * The server with real connections and made-up operations: who is answered, when, with what, and who is not.
 */
#include "daemon/server.h"

#include "daemon/test_world.h"
#include "submit/wire.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

struct serving {
	struct requests q;	/* first, and empty: what the server hands to run() */
	struct world w;
	char *path;
	struct lookups *lookups;
	struct server *server;
	bool knows_names;
	uid_t payer;		/* who answers for our uid; 0: it does */
	unsigned runs;
	size_t last_bytes;	/* of the text that "count" was sent */
};

/* Operations ----------------------------------------------------------------------------------------------------------- */

static struct awaiting *wait_for_all(struct serving *s, const json_t *list)
{
	task_id ids[10];
	size_t n = 0;
	json_t *id;
	size_t i;
	json_array_foreach(list, i, id)
		assert_int_equal(task_id_parse(json_string_value(id), &ids[n++], NULL), 0);
	return awaiting_create(s->w.core, s->w.store, ids, n, AWAITING_END);
}

static int run(const struct requests *q, const struct message *r, struct reply *reply, struct error *err)
{
	struct serving *s = (struct serving *)q;
	const char *op = json_string_value(json_object_get(r->json, "op"));
	assert_int_equal(r->uid, getuid());
	s->runs++;
	if (!strcmp(op, "fail"))
		return error_set(err, ERR_DENIED, "no");
	if (!strcmp(op, "list"))
		*reply = (struct reply){ .kind = REPLY_WALK, .walk = walk_living(s->w.core) };
	else if (!strcmp(op, "wait"))
		*reply = (struct reply){ .kind = REPLY_WAIT, .awaiting = wait_for_all(s, json_object_get(r->json, "ids")) };
	else if (!strcmp(op, "look"))
		*reply = (struct reply){ .kind = REPLY_LOOKUP,
					 .lookup = alloc_string(json_string_value(json_object_get(r->json, "text"))) };
	else if (!strcmp(op, "much") && json_integer_value(json_object_get(r->so_far, "n")) < 5)
		*reply = (struct reply){ .kind = REPLY_MORE, .json = json_pack("{sI}", "n", 1 +
					 json_integer_value(json_object_get(r->so_far, "n"))) };
	else if (!strcmp(op, "name") && !s->knows_names)
		*reply = (struct reply){ .kind = REPLY_AGAIN };
	else
		*reply = (struct reply){ .kind = REPLY_NOW, .json = json_pack("{sI}", "n", json_integer_value(
					 json_object_get(r->json, "n"))) };
	const char *text = json_string_value(json_object_get(r->json, "text"));
	s->last_bytes = text ? strlen(text) : 0;
	return 0;
}

static uid_t payer(void *ctx, uid_t uid, bool asks)
{
	struct serving *s = ctx;
	(void)asks;
	return s->payer ? s->payer : uid;
}

/* The test is its own worker: says back what it was asked, but for "stuck". */
static int look_up(void)
{
	char text[100] = "";
	size_t n = fread(text, 1, sizeof text - 1, stdin);
	while (!strncmp(text, "stuck", 5))
		pause();
	printf("{\"v\":1,\"said\":\"%.*s\"}", (int)n, text);
	return 0;
}

/* The world ------------------------------------------------------------------------------------------------------------ */

static int setup(void **state)
{
	struct serving *s = alloc_zero(sizeof *s);
	struct error err = ERROR_INIT;
	world_open(&s->w);
	s->path = alloc_printf("%s/sock", s->w.dir);
	s->lookups = lookups_create(&s->w.loop, "/proc/self/exe", s->w.state_dir);
	const struct server_ops ops = { .run = run, .requests = &s->q, .lookups = s->lookups, .payer = payer, .ctx = s };
	s->server = server_create(&s->w.loop, s->path, &ops, &err);
	if (!s->server)
		fail_msg("%s", err.text);
	*state = s;
	return 0;
}

static int teardown(void **state)
{
	struct serving *s = *state;
	server_destroy(s->server);
	assert_int_not_equal(access(s->path, F_OK), 0);
	lookups_destroy(s->lookups);
	world_close(&s->w);
	free(s->path);
	free(s);
	return 0;
}

/* A connection that does not block. */
static int dial(struct serving *s)
{
	struct error err = ERROR_INIT;
	int fd = wire_connect(s->path, &err);
	if (fd < 0)
		fail_msg("%s", err.text);
	io_set_nonblocking(fd, true);
	return fd;
}

static void add_request(struct buf *out, const char *op, const char *fields)
{
	scoped_free char *text = alloc_printf("{\"v\":%d,\"op\":\"%s\"%s}", WIRE_VERSION, op, fields);
	assert_int_equal(wire_encode_text(text, strlen(text), out, NULL), 0);
}

/* All of it, the loop going on where the socket is full. */
static void send_bytes(struct serving *s, int fd, const struct buf *bytes)
{
	for (size_t at = 0; at < bytes->len;) {
		ssize_t n = send(fd, bytes->data + at, bytes->len - at, MSG_NOSIGNAL);
		if (n < 0)
			uv_run(&s->w.loop, UV_RUN_NOWAIT);
		else
			at += (size_t)n;
	}
}

static void ask(struct serving *s, int fd, const char *op, const char *fields)
{
	scoped_buf bytes = { 0 };
	add_request(&bytes, op, fields);
	send_bytes(s, fd, &bytes);
}

/* Until nothing more happens by itself. */
static void spin(struct serving *s)
{
	for (int i = 0; i < 20; i++)
		uv_run(&s->w.loop, UV_RUN_NOWAIT);
}

static void turn(struct serving *s)
{
	uv_run(&s->w.loop, UV_RUN_NOWAIT);
	world_commit(&s->w);
	server_flush(s->server);
	lookups_start(s->lookups);
}

/* 1: something is in *in; 0: nothing; -1: the other side is gone. */
static int take(int fd, struct buf *in)
{
	char chunk[65536];
	ssize_t n = recv(fd, chunk, sizeof chunk, 0);
	if (n > 0)
		buf_add(in, chunk, (size_t)n);
	return n > 0 ? 1 : n == 0 || (n < 0 && errno != EAGAIN) ? -1 : 0;
}

static bool is_silent(struct serving *s, int fd)
{
	char byte;
	spin(s);
	return recv(fd, &byte, 1, MSG_PEEK) < 0 && errno == EAGAIN;
}

static bool is_gone(struct serving *s, int fd)
{
	char byte;
	for (int i = 0; i < 1000; i++) {
		turn(s);
		if (recv(fd, &byte, 1, MSG_PEEK) == 0)
			return true;
	}
	return false;
}

/* The next answer, by turns of the loop. `in` keeps what came behind it. */
static json_t *answer(struct serving *s, int fd, struct buf *in)
{
	struct error err = ERROR_INIT;
	json_t *reply = NULL;
	int rc;
	while (!(rc = wire_decode(in, &reply, &err))) {
		turn(s);
		if (take(fd, in) < 0)
			fail_msg("the server closed the connection");
	}
	if (rc < 0)
		fail_msg("%s", err.text);
	return reply;
}

static void expect_n(struct serving *s, int fd, struct buf *in, int n)
{
	scoped_json *reply = answer(s, fd, in);
	assert_int_equal(json_integer_value(json_object_get(reply, "n")), n);
}

static void expect_error(struct serving *s, int fd, struct buf *in, const char *code)
{
	scoped_json *reply = answer(s, fd, in);
	assert_string_equal(json_string_value(json_object_get(json_object_get(reply, "error"), "code")), code);
}

static size_t expect_tasks(struct serving *s, int fd, struct buf *in)
{
	scoped_json *reply = answer(s, fd, in);
	assert_true(json_is_array(json_object_get(reply, "tasks")));
	return json_array_size(json_object_get(reply, "tasks"));
}

/* Tests ---------------------------------------------------------------------------------------------------------------- */

static void answers_come_in_order_one_byte_at_a_time(void **state)
{
	struct serving *s = *state;
	scoped_fd int fd = dial(s);
	scoped_buf bytes = { 0 }, in = { 0 };
	add_request(&bytes, "echo", ",\"n\":1");
	add_request(&bytes, "fail", "");
	add_request(&bytes, "echo", ",\"n\":2");
	for (size_t i = 0; i < bytes.len; i++) {
		assert_int_equal(send(fd, bytes.data + i, 1, 0), 1);
		uv_run(&s->w.loop, UV_RUN_NOWAIT);
	}
	expect_n(s, fd, &in, 1);
	expect_error(s, fd, &in, "denied");
	expect_n(s, fd, &in, 2);
}

/* A long change is made a piece a turn; others are answered in between, and what its client sends behind it waits. */
static void a_long_change_takes_turns(void **state)
{
	struct serving *s = *state;
	scoped_fd int fd = dial(s), other = dial(s);
	scoped_buf in = { 0 }, others = { 0 };
	ask(s, fd, "much", ",\"n\":7");
	ask(s, fd, "echo", ",\"n\":8");
	while (!s->runs)
		turn(s);
	assert_int_equal(s->runs, 1);
	ask(s, other, "echo", ",\"n\":9");
	expect_n(s, other, &others, 9);
	assert_in_range(s->runs, 2, 6);
	expect_n(s, fd, &in, 7);
	expect_n(s, fd, &in, 8);
	assert_int_equal(s->runs, 8);
	/* One that hangs up is done with. */
	ask(s, other, "much", "");
	while (s->runs < 10)
		turn(s);
	shutdown(other, SHUT_RDWR);
	for (int i = 0; i < 20; i++)
		turn(s);
	assert_in_range(s->runs, 10, 13);
}

static void what_is_no_message_is_refused_and_ends_it(void **state)
{
	struct serving *s = *state;
	static const char *const bad[] = { "\xff\xff\xff\xff rubbish", "GET / HTTP/1.1\r\n\r\n", "\2\0\0\0[]" };
	for (size_t i = 0; i < COUNT_OF(bad); i++) {
		scoped_fd int fd = dial(s);
		scoped_buf in = { 0 };
		assert_true(send(fd, bad[i], i == 2 ? 6 : strlen(bad[i]), 0) > 0);
		expect_error(s, fd, &in, "corrupt");
		assert_true(is_gone(s, fd));
	}
	assert_int_equal(s->runs, 0);
}

/* What is no message comes as the rest of an answer goes out: the refusal, not committed yet, is told all the same. */
static void a_refusal_behind_a_long_answer_is_told(void **state)
{
	struct serving *s = *state;
	scoped_fd int fd = dial(s);
	scoped_buf in = { 0 };
	for (int i = 0; i < 3000; i++)
		world_submit_held(&s->w);
	ask(s, fd, "list", "");
	while (in.len < 4)
		turn(s), take(fd, &in);
	/* As much as the socket holds, again and again, until the rest goes at once. */
	for (size_t had, step = 0; wire_message_bytes(&in) - in.len > step; step = in.len - had) {
		uv_run(&s->w.loop, UV_RUN_NOWAIT);
		for (had = in.len; take(fd, &in) > 0;)
			;
	}
	assert_true(wire_message_bytes(&in) > in.len);
	assert_int_equal(send(fd, "GET /", 5, 0), 5);
	assert_int_equal(expect_tasks(s, fd, &in), 3000);
	expect_error(s, fd, &in, "corrupt");
	assert_true(is_gone(s, fd));
}

static void nothing_is_told_before_the_commit(void **state)
{
	struct serving *s = *state;
	scoped_fd int fd = dial(s);
	scoped_buf in = { 0 };
	ask(s, fd, "echo", ",\"n\":7");
	assert_true(is_silent(s, fd));
	assert_int_equal(s->runs, 1);
	expect_n(s, fd, &in, 7);
}

static void a_failed_commit_takes_back_what_was_not_told(void **state)
{
	struct serving *s = *state;
	struct error why = ERROR_INIT;
	scoped_fd int told = dial(s), listed = dial(s), waits = dial(s), late = -1;
	scoped_buf in = { 0 }, in2 = { 0 };
	char ids[60], text[TASK_ID_TEXT];
	task_id id = world_submit_held(&s->w);
	snprintf(ids, sizeof ids, ",\"ids\":[\"%s\"]", task_id_text(id, text));
	ask(s, waits, "wait", ids);
	ask(s, told, "echo", ",\"n\":1");
	expect_n(s, told, &in, 1);
	ask(s, told, "echo", ",\"n\":2");
	ask(s, told, "echo", ",\"n\":3");
	ask(s, listed, "list", "");
	spin(s);
	assert_int_equal(core_cancel(s->w.core, id, getuid(), now_read(), NULL), 0);
	server_task_changed(s->server);
	error_set(&why, ERR_UNAVAILABLE, "the disk");
	server_fail(s->server, &why);
	spin(s);
	for (int i = 0; i < 2; i++) {	/* one error for both, and the end */
		scoped_json *reply = NULL;
		assert_int_equal(take(i ? listed : told, i ? &in2 : &in), 1);
		assert_int_equal(wire_decode(i ? &in2 : &in, &reply, NULL), 1);
		assert_string_equal(json_string_value(json_object_get(json_object_get(reply, "error"), "text")), "the disk");
		assert_int_equal((i ? in2 : in).len, 0);
		assert_int_equal(take(i ? listed : told, &in), -1);
	}
	assert_int_equal(take(waits, &in), -1);	/* not a word: it asks the next radd */
	late = dial(s);
	ask(s, late, "echo", ",\"n\":4");
	unsigned runs = s->runs;
	spin(s);
	assert_int_equal(s->runs, runs);
	assert_int_equal(take(late, &in), -1);
}

static void a_wait_is_answered_when_all_are_over(void **state)
{
	struct serving *s = *state;
	scoped_fd int fd = dial(s);
	scoped_buf in = { 0 };
	task_id a = world_submit_held(&s->w), b = world_submit_held(&s->w);
	ask(s, fd, "wait", ",\"ids\":[\"1\",\"2\"]");
	ask(s, fd, "echo", ",\"n\":5");
	turn(s);
	core_cancel(s->w.core, b, getuid(), now_read(), NULL);
	server_task_changed(s->server);
	turn(s);
	assert_true(is_silent(s, fd));
	core_cancel(s->w.core, a, getuid(), now_read(), NULL);
	server_task_changed(s->server);
	assert_true(is_silent(s, fd));	/* it is not on disk yet */
	assert_int_equal(expect_tasks(s, fd, &in), 2);
	expect_n(s, fd, &in, 5);
}

/* The second list begins where the wait's answer goes out, in a turn in which no other list is told. */
static void a_long_list_behind_a_wait_comes_in_pieces(void **state)
{
	struct serving *s = *state;
	scoped_fd int fd = dial(s), other = dial(s);
	scoped_buf in = { 0 }, in2 = { 0 };
	for (int i = 0; i < 3000; i++)
		world_submit_held(&s->w);
	ask(s, fd, "wait", ",\"ids\":[\"1\"]");
	ask(s, fd, "list", "");
	ask(s, fd, "echo", ",\"n\":6");
	turn(s);
	core_cancel(s->w.core, TASK_ID(1, -1), getuid(), now_read(), NULL);
	server_task_changed(s->server);
	assert_int_equal(expect_tasks(s, fd, &in), 1);
	ask(s, other, "echo", ",\"n\":1");	/* and nobody waits for the whole of it */
	expect_n(s, other, &in2, 1);
	assert_int_equal(expect_tasks(s, fd, &in), 2999);
	expect_n(s, fd, &in, 6);
}

static void a_request_that_needs_a_name_is_run_again(void **state)
{
	struct serving *s = *state;
	scoped_fd int fd = dial(s);
	scoped_buf in = { 0 };
	ask(s, fd, "name", ",\"n\":8");
	ask(s, fd, "echo", ",\"n\":9");
	turn(s);
	assert_true(is_silent(s, fd));
	s->knows_names = true;
	server_names_changed(s->server);
	expect_n(s, fd, &in, 8);
	expect_n(s, fd, &in, 9);
	assert_int_equal(s->runs, 3);
}

static void a_lookup_answers_later_and_dies_with_its_client(void **state)
{
	struct serving *s = *state;
	scoped_fd int fd = dial(s);
	scoped_buf in = { 0 };
	ask(s, fd, "look", ",\"text\":\"hello\"");
	ask(s, fd, "echo", ",\"n\":1");
	scoped_json *reply = answer(s, fd, &in);
	assert_string_equal(json_string_value(json_object_get(reply, "said")), "hello");
	expect_n(s, fd, &in, 1);
	int leaves = dial(s);
	ask(s, leaves, "look", ",\"text\":\"stuck\"");
	turn(s);
	close(leaves);
	turn(s);
	ask(s, fd, "look", ",\"text\":\"next\"");	/* behind it, as one user's are */
	scoped_json *next = answer(s, fd, &in);
	assert_string_equal(json_string_value(json_object_get(next, "said")), "next");
}

/* Uids of a user namespace are no further users here either, who would have all lookups to themselves. */
static void a_lookup_counts_for_who_answers_for_its_uid(void **state)
{
	struct serving *s = *state;
	scoped_fd int stuck = dial(s), fd = dial(s);
	scoped_buf in = { 0 };
	ask(s, stuck, "look", ",\"text\":\"stuck\"");
	while (!s->runs)
		turn(s);
	s->payer = 12345;
	ask(s, fd, "look", ",\"text\":\"other\"");
	scoped_json *reply = answer(s, fd, &in);
	assert_string_equal(json_string_value(json_object_get(reply, "said")), "other");
}

/* It is read by a thread; what came behind it is not lost, and others are answered meanwhile. */
static void a_large_message_is_read_beside_the_loop(void **state)
{
	struct serving *s = *state;
	scoped_fd int fd = dial(s), other = dial(s);
	scoped_buf bytes = { 0 }, in = { 0 }, in2 = { 0 };
	size_t n = 1000000;
	scoped_free char *text = alloc_zero(n + 1);
	memset(text, 'x', n);
	scoped_free char *fields = alloc_printf(",\"n\":1,\"text\":\"%s\"", text);
	add_request(&bytes, "count", fields);
	send_bytes(s, fd, &bytes);
	ask(s, fd, "echo", ",\"n\":2");
	ask(s, other, "echo", ",\"n\":3");
	expect_n(s, other, &in2, 3);
	expect_n(s, fd, &in, 1);
	expect_n(s, fd, &in, 2);
	int leaves = dial(s);
	send_bytes(s, leaves, &bytes);
	spin(s);
	close(leaves);
	ask(s, other, "echo", ",\"n\":4");
	expect_n(s, other, &in2, 4);
}

static void wait_there(uv_work_t *work)
{
	sem_wait(work->data);
}

static void went_on(uv_work_t *work, int status)
{
	assert_int_equal(status, 0);
	work->data = NULL;
}

/* He may come again and again, and all threads be busy: those are what launches wait for. */
static void a_large_message_of_who_left_is_not_read(void **state)
{
	struct serving *s = *state;
	scoped_buf bytes = { 0 };
	uv_work_t work[4] = { { .data = NULL } };	/* as many threads as there are */
	sem_t gate;
	assert_int_equal(sem_init(&gate, 0, 0), 0);
	for (size_t i = 0; i < COUNT_OF(work); i++) {
		work[i].data = &gate;
		assert_int_equal(uv_queue_work(&s->w.loop, &work[i], wait_there, went_on), 0);
	}
	scoped_free char *text = alloc_zero(1000001);
	memset(text, 'x', 1000000);
	scoped_free char *fields = alloc_printf(",\"text\":\"%s\"", text);
	add_request(&bytes, "count", fields);
	int leaves = dial(s);
	unsigned busy = s->w.loop.active_reqs.count;
	send_bytes(s, leaves, &bytes);
	while (s->w.loop.active_reqs.count == busy)
		turn(s);
	close(leaves);
	while (s->w.loop.active_reqs.count > busy)
		turn(s);
	for (size_t i = 0; i < COUNT_OF(work); i++)
		sem_post(&gate);
	for (size_t i = 0; i < COUNT_OF(work); i++)
		while (work[i].data)
			turn(s);
	assert_int_equal(s->runs, 0);
	sem_destroy(&gate);
}

/* His answers may go out as slowly as he likes, and what he sends meanwhile costs radd time that nobody pays for. */
static void who_was_refused_is_not_read_from(void **state)
{
	struct serving *s = *state;
	scoped_fd int slow = dial(s);
	scoped_buf rubbish = { 0 };
	char byte;
	size_t sent = 0;
	for (int i = 0; i < 3000; i++)
		world_submit_held(&s->w);
	ask(s, slow, "list", "");
	while (recv(slow, &byte, 1, MSG_PEEK) != 1)
		turn(s);
	for (size_t i = 0; i < 10000; i++)
		buf_add_text(&rubbish, "GET / HTTP/1.1\r\n\r\n");
	for (int still = 0; still < 100 && sent < (8u << 20); turn(s)) {
		ssize_t n = send(slow, rubbish.data, rubbish.len, MSG_NOSIGNAL);
		assert_true(n > 0 || errno == EAGAIN);
		sent += n > 0 ? (size_t)n : 0;
		still = n > 0 ? 0 : still + 1;
	}
	assert_in_range(sent, 1, (8u << 20) - 1);
}

static void one_that_leaves_in_the_middle_leaves_nothing(void **state)
{
	struct serving *s = *state;
	scoped_fd int stays = dial(s);
	scoped_buf in = { 0 };
	world_submit_held(&s->w);
	static const char *const ops[] = { "echo", "wait", "name", "list" };
	for (size_t i = 0; i < COUNT_OF(ops); i++) {
		int fd = dial(s);
		ask(s, fd, ops[i], ",\"ids\":[\"1\"]");
		uv_run(&s->w.loop, UV_RUN_NOWAIT);
		close(fd);
	}
	int half = dial(s);
	assert_int_equal(send(half, "\x10\0\0", 3, 0), 3);
	close(half);
	ask(s, stays, "echo", ",\"n\":1");
	expect_n(s, stays, &in, 1);
}

static bool is_open(int fd)
{
	char byte;
	return recv(fd, &byte, 1, MSG_PEEK) != 0;
}

/* Its socket is full, its answers pile up to a bound, and others do not notice. */
static void one_that_does_not_read_is_dropped(void **state)
{
	struct serving *s = *state;
	scoped_fd int slow = dial(s), other = dial(s);
	scoped_buf in = { 0 }, bytes = { 0 };
	for (int i = 0; i < 400; i++)
		world_submit_held(&s->w);
	for (int i = 0; i < 200; i++)
		add_request(&bytes, "list", "");
	size_t at = 0;
	for (int i = 0; i < 20000 && is_open(slow); i++) {
		if (at == bytes.len)
			at = 0;
		ssize_t n = send(slow, bytes.data + at, bytes.len - at, MSG_NOSIGNAL);
		if (n > 0)
			at += (size_t)n;
		else if (errno != EAGAIN)
			break;
		turn(s);
		if (i % 100 == 0) {
			ask(s, other, "echo", ",\"n\":1");
			expect_n(s, other, &in, 1);
		}
	}
	char byte;
	while (recv(slow, &byte, 1, 0) == 1)	/* what the socket held; then the end */
		;
	assert_int_not_equal(errno, EAGAIN);
}

static size_t count_descriptors(void)
{
	size_t n = 0;
	scoped_dir DIR *dir = opendir("/proc/self/fd");
	while (readdir(dir))
		n++;
	return n;
}

/* Whoever connects again and again does not have all of radd's time. */
static void a_crowd_at_the_door_comes_in_pieces(void **state)
{
	struct serving *s = *state;
	int fds[200];
	for (size_t i = 0; i < COUNT_OF(fds); i++)
		fds[i] = dial(s);
	const size_t before = count_descriptors();
	size_t there = before;
	for (size_t turns = 0; there < before + COUNT_OF(fds); turns++) {
		size_t was = there;
		uv_run(&s->w.loop, UV_RUN_ONCE);
		there = count_descriptors();
		assert_in_range(there - was, 0, 65);	/* with the one that libuv keeps in reserve */
		assert_in_range(turns, 0, 1000);
	}
	for (size_t i = 0; i < COUNT_OF(fds); i++) {
		scoped_buf in = { 0 };
		ask(s, fds[i], "echo", ",\"n\":3");
		expect_n(s, fds[i], &in, 3);
		close(fds[i]);
	}
}

/* He waits where the kernel has him, and those who are there already go on. */
static void who_comes_when_there_is_no_descriptor_is_let_in_later(void **state)
{
	struct serving *s = *state;
	struct rlimit before, none;
	scoped_buf in = { 0 }, late = { 0 };
	int first = dial(s);
	ask(s, first, "echo", ",\"n\":1");
	expect_n(s, first, &in, 1);
	int waiter = dial(s);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	none = (struct rlimit){ .rlim_cur = 0, .rlim_max = before.rlim_max };
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	ask(s, waiter, "echo", ",\"n\":2");
	ask(s, first, "echo", ",\"n\":3");
	expect_n(s, first, &in, 3);
	bool silent = is_silent(s, waiter);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
	assert_true(silent);
	expect_n(s, waiter, &late, 2);
	close(first);
	close(waiter);
}

static void a_living_radd_keeps_its_socket(void **state)
{
	struct serving *s = *state;
	struct error err = ERROR_INIT;
	const struct server_ops ops = { .run = run, .requests = &s->q, .lookups = s->lookups };
	assert_null(server_create(&s->w.loop, s->path, &ops, &err));
	assert_int_equal(err.code, ERR_CONFLICT);
	assert_int_equal(access(s->path, F_OK), 0);
	scoped_free char *left = alloc_printf("%s/left", s->w.dir);
	assert_int_equal(close(creat(left, 0600)), 0);	/* a leftover is taken over */
	struct server *second = server_create(&s->w.loop, left, &ops, &err);
	assert_non_null(second);
	server_destroy(second);
	char longer[200];
	memset(longer, 'a', sizeof longer - 1);
	longer[sizeof longer - 1] = 0;
	assert_null(server_create(&s->w.loop, longer, &ops, &err));
	assert_int_equal(err.code, ERR_INVALID);
}

/* Another user's, in a folder that all may write to: a radd that waited for it there would do nothing else. */
static void who_takes_no_connection_is_not_waited_for(void **state)
{
	struct serving *s = *state;
	struct error err = ERROR_INIT;
	const struct server_ops ops = { .run = run, .requests = &s->q, .lookups = s->lookups };
	struct sockaddr_un there = { .sun_family = AF_UNIX };
	snprintf(there.sun_path, sizeof there.sun_path, "%s/full", s->w.dir);
	int deaf = socket(AF_UNIX, SOCK_STREAM, 0), first = socket(AF_UNIX, SOCK_STREAM, 0);
	assert_int_equal(bind(deaf, (struct sockaddr *)&there, sizeof there) | listen(deaf, 0), 0);
	assert_int_equal(connect(first, (struct sockaddr *)&there, sizeof there), 0);	/* all that the kernel lets wait */
	alarm(100);
	assert_null(server_create(&s->w.loop, there.sun_path, &ops, &err));
	alarm(0);
	assert_int_equal(err.code, ERR_CONFLICT);
	assert_int_equal(access(there.sun_path, F_OK), 0);
	close(first);
	close(deaf);
}

/* As a radd that is killed while it starts a task: the child has the socket until it becomes another program. */
static void a_killed_radds_child_does_not_keep_the_socket(void **state)
{
	struct serving *s = *state;
	struct error err = ERROR_INIT;
	const struct server_ops ops = { .run = run, .requests = &s->q, .lookups = s->lookups };
	struct sockaddr_un there = { .sun_family = AF_UNIX };
	int told[2], status;
	pid_t child = 0;
	snprintf(there.sun_path, sizeof there.sun_path, "%s/killed", s->w.dir);
	assert_int_equal(pipe(told), 0);
	pid_t killed = fork();
	if (!killed) {
		int fd = socket(AF_UNIX, SOCK_STREAM, 0);
		if (bind(fd, (struct sockaddr *)&there, sizeof there) || listen(fd, 5))
			_exit(1);
		child = fork();
		if (!child)
			for (;;)
				pause();
		_exit(write(told[1], &child, sizeof child) != sizeof child);
	}
	assert_int_equal(waitpid(killed, &status, 0), killed);
	assert_int_equal(status, 0);
	assert_int_equal(read(told[0], &child, sizeof child), sizeof child);
	struct server *second = server_create(&s->w.loop, there.sun_path, &ops, &err);
	kill(child, SIGKILL);
	close(told[0]);
	close(told[1]);
	if (!second)
		fail_msg("%s", err.text);
	server_destroy(second);
}

int main(int argc, char **argv)
{
	if (argc == 2 && !strcmp(argv[1], "--read"))
		return look_up();
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(answers_come_in_order_one_byte_at_a_time), T(a_long_change_takes_turns),
		T(what_is_no_message_is_refused_and_ends_it), T(a_refusal_behind_a_long_answer_is_told),
		T(nothing_is_told_before_the_commit), T(a_failed_commit_takes_back_what_was_not_told),
		T(a_wait_is_answered_when_all_are_over), T(a_long_list_behind_a_wait_comes_in_pieces),
		T(a_request_that_needs_a_name_is_run_again), T(a_lookup_answers_later_and_dies_with_its_client),
		T(a_lookup_counts_for_who_answers_for_its_uid),
		T(a_large_message_is_read_beside_the_loop), T(a_large_message_of_who_left_is_not_read),
		T(who_was_refused_is_not_read_from), T(one_that_leaves_in_the_middle_leaves_nothing),
		T(one_that_does_not_read_is_dropped), T(a_crowd_at_the_door_comes_in_pieces),
		T(who_comes_when_there_is_no_descriptor_is_let_in_later), T(a_living_radd_keeps_its_socket),
		T(who_takes_no_connection_is_not_waited_for), T(a_killed_radds_child_does_not_keep_the_socket),
#undef T
	};
	return cmocka_run_group_tests_name("server", tests, NULL, NULL);
}
