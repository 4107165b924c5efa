/* SPDX-License-Identifier: MIT
 * rad-slurm.conf, and what jobs of all kinds ask of Slurm by it.
 */
#include "cli/slurm_conf.h"
#include "base/scope.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static struct slurm_conf conf_of(const char *gpus)
{
	struct error err = ERROR_INIT;
	struct slurm_conf c;
	slurm_conf_default(&c);
	if (gpus && slurm_conf_set(&c, "gpus", gpus, &err))
		fail_msg("%s", err.text);
	return c;
}

static void a_job_asks_for_what_it_takes(void **state)
{
	static const struct { struct slurm_wish w; const char *gres, *why; } rows[] = {
		{ { 1024, 1, false, SLURM_PLACES_IN_NONE }, "shard:1", "estimate" },
		{ { 1025, 1, false, SLURM_PLACES_IN_NONE }, "shard:2", "estimate" },
		{ { 32768, 1, false, SLURM_PLACES_IN_NONE }, "shard:32", "estimate" },
		{ { 32769, 1, false, SLURM_PLACES_IN_NONE }, "shard:40", "more than a share" },
		{ { 0, 1, false, SLURM_PLACES_IN_NONE }, "shard:40", "nothing says" },
		{ { 1024, 1, true, SLURM_PLACES_IN_NONE }, "shard:40", "alone" },
		{ { 1024, 3, false, SLURM_PLACES_IN_NONE }, "gpu:3", "pieces are of one GPU" },
		{ { 10240, 2, false, SLURM_PLACES_IN_ALL }, "radmem:20", "estimate" },
		{ { 10240, 2, true, SLURM_PLACES_IN_ALL }, "radmem:80", "alone" },
	};
	struct slurm_conf c = conf_of("4x40G");
	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		struct error err = ERROR_INIT;
		char gres[SLURM_GRES];
		const char *why;
		if (slurm_conf_size(&c, &rows[i].w, gres, &why, &err))
			fail_msg("%zu: %s", i, err.text);
		assert_string_equal(gres, rows[i].gres);
		assert_non_null(strstr(why, rows[i].why));
	}
}

static void without_shards_a_gpu_is_whole(void **state)
{
	struct slurm_conf c = conf_of("4x40G");
	struct slurm_wish w = { 1024, 1, false, SLURM_PLACES_IN_NONE };
	char gres[SLURM_GRES];
	const char *why;
	(void)state;
	c.shards = false;
	assert_int_equal(slurm_conf_size(&c, &w, gres, &why, NULL), 0);
	assert_string_equal(gres, "gpu:1");
	/* Nothing is known of the cluster. */
	c = conf_of(NULL);
	w.claim_mib = 0;
	assert_int_equal(slurm_conf_size(&c, &w, gres, &why, NULL), 0);
	assert_string_equal(gres, "gpu:1");
	w.placed = SLURM_PLACES_IN_ALL;
	assert_int_equal(slurm_conf_size(&c, &w, gres, &why, NULL), -1);
	w.claim_mib = 1024;
	assert_int_equal(slurm_conf_size(&c, &w, gres, &why, NULL), 0);
	/* Alone, with what Slurm counts as one piece of some number. */
	struct error err = ERROR_INIT;
	w.exclusive = true;
	assert_int_equal(slurm_conf_size(&c, &w, gres, &why, &err), -1);
	assert_non_null(strstr(err.text, "leave out --exclusive"));
}

/* 40G is one piece of 24G and a rest, which Slurm has none for. */
static void no_job_asks_for_more_pieces_than_a_gpu_has(void **state)
{
	struct slurm_conf c = conf_of("4x40G");
	struct slurm_wish w = { 30720, 1, false, SLURM_PLACES_IN_NONE };
	char gres[SLURM_GRES];
	const char *why;
	(void)state;
	assert_int_equal(slurm_conf_set(&c, "piece", "24G", NULL), 0);
	assert_int_equal(slurm_conf_size(&c, &w, gres, &why, NULL), 0);
	assert_string_equal(gres, "shard:1");
	w.placed = SLURM_PLACES_IN_ALL;
	w.gpus = 2;
	assert_int_equal(slurm_conf_size(&c, &w, gres, &why, NULL), 0);
	assert_string_equal(gres, "radmem:2");
}

static void partitions_of_two_kinds_have_no_size(void **state)
{
	struct slurm_conf c = conf_of("4x40G");
	struct slurm_wish w = { 1024, 1, false, SLURM_PLACES_IN_SOME };
	struct error err = ERROR_INIT;
	char gres[SLURM_GRES];
	const char *why;
	(void)state;
	assert_int_equal(slurm_conf_size(&c, &w, gres, &why, &err), -1);
	assert_non_null(strstr(err.text, "name partitions of one kind"));
}

static void refused(const struct slurm_conf *c, uint64_t mib, unsigned gpus, const char *words)
{
	struct error err = ERROR_INIT;
	struct slurm_wish w = { mib, gpus, false, SLURM_PLACES_IN_NONE };
	assert_int_equal(slurm_conf_fits(c, &w, &err), -1);
	if (!strstr(err.text, words))
		fail_msg("%s; expected: %s", err.text, words);
}

static void what_no_node_has_is_refused(void **state)
{
	struct slurm_conf c = conf_of("8x40G, 2x141G");
	struct slurm_wish w = { 141 * 1024, 2, false, SLURM_PLACES_IN_NONE };
	(void)state;
	assert_int_equal(slurm_conf_fits(&c, &w, NULL), 0);
	refused(&c, 200 * 1024, 1, "200.0G does not fit any GPU of this cluster: the largest has 141.0G");
	refused(&c, 0, 9, "no node of this cluster has more than 8");
	refused(&c, 100 * 1024, 4, "4 GPUs of 100.0G each: no node");
}

static void lists_of_gres_are_counted(void **state)
{
	static const struct { const char *list, *name; unsigned count; } rows[] = {
		{ "gres:shard:20", "shard", 20 }, { "gres/shard:20", "shard", 20 }, { "shard:20", "gpu", 0 }, { "gpu", "gpu", 1 },
		{ "gres:gpu:a100:2", "gpu", 2 }, { "gres:gpu:a100", "gpu", 1 }, { "gpu:1,shard:3", "shard", 3 },
		{ "gres:radmem:40      \n", "radmem", 40 }, { "gres:radmemo:40", "radmem", 0 }, { "gpu=4", "gpu", 4 },
		{ "gpu:2(IDX:0-1)", "gpu", 2 }, { "", "gpu", 0 }, { NULL, "gpu", 0 }, { ",,;", "gpu", 0 },
	};
	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
		if (slurm_conf_gres(rows[i].list, rows[i].name) != rows[i].count)
			fail_msg("%s: %u", rows[i].list, slurm_conf_gres(rows[i].list, rows[i].name));
}

static int read_text(const char *text, struct slurm_conf *c, struct error *err)
{
	char path[] = "/tmp/rad-slurm-conf.XXXXXX";
	scoped_fd int fd = mkstemp(path);
	assert_true(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
	*err = ERROR_INIT;
	slurm_conf_default(c);
	int rc = slurm_conf_read(path, c, err);
	unlink(path);
	return rc;
}

static void a_file_is_read_and_its_slips_are_named(void **state)
{
	static const struct { const char *text, *words; } slips[] = {
		{ "gpus: 4\n", ":1: gpus: '4'" }, { "\n# x\ngpu: 4x40G\n", ":3: gpu: no such setting" }, { "gpus\n", "'setting: value'" },
		{ "gpus: 0x40G\n", "gpus" }, { "piece: 0\n", "piece" }, { "piece: some\n", "piece: 'some' is not a size" },
		{ "whole: 2\n", "whole" }, { "shards: maybe\n", "on or off" },
		{ "place_limit: 0\n", "place_limit" }, { "socket: radd.sock\n", "begin with /" }, { "helper:\n", "begin with /" },
		{ "gpus: 1x1G,1x1G,1x1G,1x1G,1x1G,1x1G,1x1G,1x1G,1x1G,1x1G,1x1G,1x1G,1x1G,1x1G,1x1G,1x1G,1x1G\n", "more than" },
	};
	static const struct { const char *partitions; enum slurm_places in; } places[] = {
		{ "colo", SLURM_PLACES_IN_ALL }, { "night", SLURM_PLACES_IN_ALL }, { "night,colo", SLURM_PLACES_IN_ALL },
		{ ",colo,", SLURM_PLACES_IN_ALL }, { "colo,main", SLURM_PLACES_IN_SOME }, { "main,night", SLURM_PLACES_IN_SOME },
		{ "main,col", SLURM_PLACES_IN_NONE }, { "col", SLURM_PLACES_IN_NONE }, { "", SLURM_PLACES_IN_NONE },
		{ ",", SLURM_PLACES_IN_NONE }, { NULL, SLURM_PLACES_IN_NONE },
	};
	struct slurm_conf c;
	struct error err;
	(void)state;
	assert_int_equal(read_text("  gpus: 2x80G   # two\nplace: colo, night\nshards: off\nplace_tries:7\n", &c, &err), 0);
	assert_int_equal(c.n_kinds, 1);
	assert_int_equal(c.kinds[0].mib, 81920);
	assert_int_equal(c.place_tries, 7);
	assert_false(c.shards);
	for (size_t i = 0; i < sizeof places / sizeof *places; i++)
		if (slurm_conf_places(&c, places[i].partitions) != places[i].in)
			fail_msg("%s: %d", places[i].partitions, (int)slurm_conf_places(&c, places[i].partitions));
	for (size_t i = 0; i < sizeof slips / sizeof *slips; i++)
		if (!read_text(slips[i].text, &c, &err) || !strstr(err.text, slips[i].words))
			fail_msg("%s: '%s'", slips[i].text, err.text);
	char text[5000];	/* whose end would be a line of its own */
	snprintf(text, sizeof text, "#%4094dplace: x\n", 0);
	assert_int_equal(read_text(text, &c, &err), -1);
	assert_non_null(strstr(err.text, ":1: is longer than 4094 bytes"));
	snprintf(text, sizeof text, "#%4093d\nplace: x\n", 0);
	assert_int_equal(read_text(text, &c, &err), 0);
	slurm_conf_default(&c);
	assert_int_equal(slurm_conf_read("/nonexistent/rad-slurm.conf", &c, &err), 0);
}

/* Neither waited for nor read for ever. */
static void a_pipe_or_a_device_is_no_file(void **state)
{
	char dir[] = "/tmp/rad-slurm-conf.XXXXXX", pipe[64];
	struct slurm_conf c;
	struct error err = ERROR_INIT;
	(void)state;
	assert_non_null(mkdtemp(dir));
	snprintf(pipe, sizeof pipe, "%s/pipe", dir);
	assert_int_equal(mkfifo(pipe, 0600), 0);
	const struct { const char *path, *words; } others[] = {
		{ pipe, "is a pipe, not a file" }, { dir, "is a folder" }, { "/dev/zero", "/dev/zero: is a device, not a file" },
	};
	slurm_conf_default(&c);
	alarm(100);
	for (size_t i = 0; i < sizeof others / sizeof *others; i++)
		if (slurm_conf_read(others[i].path, &c, &err) != -1 || !strstr(err.text, others[i].words))
			fail_msg("%s: '%s'", others[i].path, err.text);
	assert_int_equal(slurm_conf_read("/dev/null", &c, &err), 0);
	alarm(0);
	unlink(pipe);
	rmdir(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_job_asks_for_what_it_takes), cmocka_unit_test(without_shards_a_gpu_is_whole),
		cmocka_unit_test(no_job_asks_for_more_pieces_than_a_gpu_has),
		cmocka_unit_test(partitions_of_two_kinds_have_no_size), cmocka_unit_test(what_no_node_has_is_refused),
		cmocka_unit_test(lists_of_gres_are_counted),
		cmocka_unit_test(a_file_is_read_and_its_slips_are_named), cmocka_unit_test(a_pipe_or_a_device_is_no_file),
	};
	return cmocka_run_group_tests_name("slurm_conf", tests, NULL, NULL);
}
