/* SPDX-License-Identifier: MIT
 * Histories that PyTorch's allocator recorded of itself (tests/golden/record.py), replayed: the same segments in the same
 * order, every request at the same address, the same peaks. RAD_GOLDEN_DIR names another folder of such files.
 *
 * First line: an object with name, torch, reserved, allocated (peaks, in bytes), and where they were set conf and cap (bytes).
 * Each further line: [action, address, size, stream].
 */
#include "base/alloc.h"
#include "base/json.h"
#include "base/scope.h"
#include "base/units.h"
#include "estimate/alloc.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

enum action { REQUEST, FREE, SEGMENT, OTHER };

struct line {
	enum action action;
	enum alloc_event event;		/* of a SEGMENT */
	uint64_t address, size, stream;
	size_t segments;		/* how many SEGMENT lines stand before */
	bool fails;
};

struct history {
	struct line *lines;
	size_t n, cap, n_segments;
	uint64_t streams[ALLOC_STREAMS];
	unsigned n_streams;
	uint64_t reserved, allocated, most;	/* as recorded; 0: no cap */
	struct alloc_conf conf;
	alloc_torch torch;
};

static void classify(struct line *l, const char *action)
{
	static const struct { const char *word; enum action action; enum alloc_event event; bool fails; } actions[] = {
		{ "alloc", REQUEST, 0, false }, { "oom", REQUEST, 0, true }, { "free_completed", FREE, 0, false },
		{ "segment_alloc", SEGMENT, ALLOC_SEGMENT_NEW, false }, { "segment_free", SEGMENT, ALLOC_SEGMENT_GONE, false },
		{ "segment_map", SEGMENT, ALLOC_PAGES_MAPPED, false }, { "segment_unmap", SEGMENT, ALLOC_PAGES_UNMAPPED, false },
	};

	l->action = OTHER;
	for (size_t i = 0; i < COUNT_OF(actions); i++)
		if (!strcmp(actions[i].word, action)) {
			l->action = actions[i].action;
			l->event = actions[i].event;
			l->fails = actions[i].fails;
		}
}

static void add_line(struct history *h, const json_t *row)
{
	struct line *l;

	alloc_grow(h->lines, h->n, h->cap);
	l = &h->lines[h->n++];
	memset(l, 0, sizeof *l);
	classify(l, json_string_value(json_array_get(row, 0)));
	l->address = (uint64_t)json_integer_value(json_array_get(row, 1));
	l->size = (uint64_t)json_integer_value(json_array_get(row, 2));
	l->stream = (uint64_t)json_integer_value(json_array_get(row, 3));
	l->segments = h->n_segments;
	h->n_segments += l->action == SEGMENT;
}

static void read_header(struct history *h, const json_t *header)
{
	const char *torch = json_string_value(json_object_get(header, "torch"));
	struct error err;

	assert_non_null(torch);
	h->torch = alloc_torch_parse(torch);
	h->reserved = (uint64_t)json_integer_value(json_object_get(header, "reserved"));
	h->allocated = (uint64_t)json_integer_value(json_object_get(header, "allocated"));
	h->most = (uint64_t)json_integer_value(json_object_get(header, "cap"));
	if (alloc_conf_parse(json_string_value(json_object_get(header, "conf")), h->torch, &h->conf, &err))
		fail_msg("%s", err.text);
}

static int by_value(const void *x, const void *y)
{
	uint64_t a = *(const uint64_t *)x, b = *(const uint64_t *)y;

	return (a > b) - (a < b);
}

/* Streams are recorded by their handles, whose order is the allocator's order of streams. */
static void number_streams(struct history *h)
{
	for (size_t i = 0; i < h->n; i++) {
		unsigned k = 0;

		while (k < h->n_streams && h->streams[k] != h->lines[i].stream)
			k++;
		if (k < h->n_streams)
			continue;
		assert_true(h->n_streams < ALLOC_STREAMS);
		h->streams[h->n_streams++] = h->lines[i].stream;
	}
	qsort(h->streams, h->n_streams, sizeof *h->streams, by_value);
}

static unsigned stream_of(const struct history *h, uint64_t handle)
{
	return (unsigned)((uint64_t *)bsearch(&handle, h->streams, h->n_streams, sizeof handle, by_value) - h->streams);
}

static void read_history(const char *path, struct history *h)
{
	scoped_free char *command = alloc_printf("gzip -dc '%s'", path), *text = NULL;
	size_t size = 0;
	FILE *f = popen(command, "re");
	bool first = true;

	assert_non_null(f);
	while (getline(&text, &size, f) > 0) {
		scoped_json *row = json_loads(text, 0, NULL);

		assert_non_null(row);
		if (first)
			read_header(h, row);
		else
			add_line(h, row);
		first = false;
	}
	assert_int_equal(pclose(f), 0);
	assert_true(h->n > 0);
	number_streams(h);
}

struct replay {
	const struct history *h;
	struct alloc_sim *sim;
	size_t segments;		/* how many segment events the simulator gave */
	size_t at;			/* the line of the next one expected */
	uint64_t before;		/* while what was there before is built: its address */
};

static void next_segment(struct replay *r)
{
	while (r->at < r->h->n && r->h->lines[r->at].action != SEGMENT)
		r->at++;
}

static uint64_t place(void *ctx, uint64_t size)
{
	struct replay *r = ctx;

	if (r->before)
		return size == 2 * MIB ? r->before : (uint64_t)1 << 46;
	next_segment(r);
	return r->at < r->h->n ? r->h->lines[r->at].address : 0;
}

static void compare_event(void *ctx, enum alloc_event event, uint64_t address, uint64_t size, unsigned stream)
{
	struct replay *r = ctx;
	const struct line *l;

	if (r->before)
		return;
	next_segment(r);
	assert_true(r->at < r->h->n);
	l = &r->h->lines[r->at++];
	assert_int_equal(event, l->event);
	assert_int_equal(size, l->size);
	assert_int_equal(address, l->address);
	assert_int_equal(stream, stream_of(r->h, l->stream));
	r->segments++;
}

static bool in_segments(const struct history *h, uint64_t address)
{
	for (size_t i = 0; i < h->n; i++) {
		const struct line *l = &h->lines[i];

		if (l->action == SEGMENT && address >= l->address && address < l->address + l->size)
			return true;
	}
	return false;
}

/* A history that began in a process that had trained before: one small segment, free from the first request in it on, and
 * workspaces, all in use. Returns the ids taken. */
static uint32_t build_before(struct replay *r)
{
	uint64_t segments = 0, small = 2 * MIB, gap;

	for (size_t i = 0; i < r->h->n; i++)
		segments += r->h->lines[i].action == SEGMENT ? r->h->lines[i].size : 0;
	for (size_t i = 0; i < r->h->n && r->h->reserved > segments + small && !r->h->most; i++) {
		const struct line *l = &r->h->lines[i];

		if (l->action != REQUEST || in_segments(r->h, l->address))
			continue;
		gap = l->address % small;
		r->before = l->address - gap;
		assert_true(alloc_sim_request(r->sim, 0, gap, 0));
		assert_true(alloc_sim_request(r->sim, 1, r->h->reserved - segments - small, 0));
		r->before = 0;
		return 2;
	}
	return 0;
}

static void replay_lines(struct replay *r)
{
	const struct history *h = r->h;
	uint32_t n = build_before(r), first = n;
	scoped_free uint64_t *live = alloc_zero((h->n + first) * sizeof *live);

	for (size_t i = 0; i < h->n; i++) {
		const struct line *l = &h->lines[i];

		if (l->action == REQUEST) {
			assert_int_equal(alloc_sim_request(r->sim, n, l->size, stream_of(h, l->stream)), !l->fails);
			assert_int_equal(r->segments, l->segments);
			if (!l->fails)
				assert_int_equal(alloc_sim_address(r->sim, n), l->address);
			live[n++] = l->fails ? 0 : l->address;
		}
		for (uint32_t k = n; l->action == FREE && k-- > first;) {
			if (live[k] != l->address)
				continue;
			live[k] = 0;
			alloc_sim_free(r->sim, k);
			break;
		}
	}
}

static void replay_file(const char *path)
{
	struct history h = { 0 };
	struct replay r = { .h = &h };
	struct alloc_watch watch = { compare_event, place, &r };

	print_message("%s\n", path);
	read_history(path, &h);
	r.sim = alloc_sim_create(&h.conf, &watch);
	alloc_sim_reset(r.sim, h.most ? h.most : ALLOC_NO_CAP);
	replay_lines(&r);
	assert_int_equal(r.segments, h.n_segments);
	assert_int_equal(alloc_sim_stats(r.sim)->peak_reserved, h.reserved);
	assert_int_equal(alloc_sim_stats(r.sim)->peak_allocated, h.allocated);
	alloc_sim_destroy(r.sim);
	free(h.lines);
}

static void test_golden(void **state)
{
	const char *given = getenv("RAD_GOLDEN_DIR"), *root = getenv("RAD_SOURCE_ROOT");
	scoped_free char *folder = given ? alloc_string(given) : alloc_printf("%s/tests/golden", root ? root : ".");
	scoped_dir DIR *dir = opendir(folder);
	unsigned files = 0;

	(void)state;
	for (struct dirent *e = dir ? readdir(dir) : NULL; e; e = readdir(dir)) {
		scoped_free char *path = alloc_printf("%s/%s", folder, e->d_name);
		size_t len = strlen(path);

		if (len < 9 || strcmp(path + len - 9, ".jsonl.gz"))
			continue;
		replay_file(path);
		files++;
	}
	print_message("%u histories\n", files);
	assert_true(files || !given);
	if (!files)
		skip();
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_golden) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
