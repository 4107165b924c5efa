/* SPDX-License-Identifier: MIT
 * Snapshots and their frames: what is written is read again, and nothing else is.
 */
#include "monitor/monitor.h"

#include "base/alloc.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define HEADER 16

static struct snapshot example(void)
{
	struct snapshot s = { .mono_ms = 123456789, .wall_ms = 1795192567123, .n_others = 3, .chosen = alloc_string("GPU-0,GPU-1") };
	for (uint32_t i = 0; i < 20; i++) {
		struct gpu_reading *r = snapshot_add_gpu(&s);
		snprintf(r->uuid, sizeof r->uuid, "GPU-%u", i);
		strcpy(r->name, "NVIDIA H200");
		r->index = i;
		r->sm_count = 132;
		r->mps_capable = i != 3;
		r->mig = i == 3;
		r->fallen = i == 4;
		r->valid = GPU_MEM_TOTAL | GPU_SMACT | GPU_PROCS;
		r->mem_total_mib = 143771;
		r->smact = i / 20.0;
		strcpy(r->smact_source, "gpm");
		r->energy_j = 1e9 + i;
	}
	strcpy(s.gpus[3].parent_uuid, "GPU-2");
	for (uint32_t i = 0; i < 30; i++) {
		struct proc_reading *p = snapshot_add_proc(&s);
		*p = (struct proc_reading){ .gpu = i % 20, .id = { 1000 + (pid_t)i, 5000 + i }, .uid = 1001, .mem_mib = 740 + i,
					    .claimed = TASK_ID(12, i), .mps_server = i == 7, .started_ms = 1795192567123 + i,
					    .program = "python train.py", .command = "python train.py --lr 0.1", .token = "0123456789abcdef" };
	}
	return s;
}

static void assert_same(const struct snapshot *a, const struct snapshot *b)
{
	assert_int_equal(a->mono_ms, b->mono_ms);
	assert_int_equal(a->wall_ms, b->wall_ms);
	assert_int_equal(a->n_gpus, b->n_gpus);
	assert_int_equal(a->n_procs, b->n_procs);
	assert_int_equal(a->n_others, b->n_others);
	assert_int_equal(!a->chosen, !b->chosen);
	assert_true(!a->chosen || !strcmp(a->chosen, b->chosen));
	/* Both came from zeroed memory, so padding is equal too. */
	assert_memory_equal(a->gpus, b->gpus, a->n_gpus * sizeof *a->gpus);
	for (uint32_t i = 0; i < a->n_procs; i++) {
		const struct proc_reading *p = &a->procs[i], *q = &b->procs[i];
		assert_true(p->gpu == q->gpu && p->id.pid == q->id.pid && p->id.start_ticks == q->id.start_ticks);
		assert_true(p->uid == q->uid && p->mem_mib == q->mem_mib && p->claimed == q->claimed);
		assert_int_equal(p->mps_server, q->mps_server);
		assert_int_equal(p->started_ms, q->started_ms);
		assert_string_equal(p->program, q->program);
		assert_string_equal(p->command, q->command);
		assert_string_equal(p->token, q->token);
	}
}

static void test_round_trip(void **state)
{
	(void)state;
	struct snapshot s = example(), empty = { .mono_ms = 1 }, got;
	scoped_buf pipe = { 0 };
	monitor_frame_write(&s, &pipe);
	monitor_frame_write(&empty, &pipe);
	assert_int_equal(monitor_frame_read(&pipe, &got, NULL), 1);
	assert_same(&s, &got);
	snapshot_clear(&got);
	assert_int_equal(monitor_frame_read(&pipe, &got, NULL), 1);
	assert_same(&empty, &got);
	assert_int_equal(pipe.len, 0);
	assert_int_equal(monitor_frame_read(&pipe, &got, NULL), 0);
	snapshot_clear(&s);
}

static void test_arrives_in_pieces(void **state)
{
	(void)state;
	struct snapshot s = example(), got;
	scoped_buf whole = { 0 }, pipe = { 0 };
	monitor_frame_write(&s, &whole);
	for (size_t i = 0; i + 1 < whole.len; i++) {
		buf_add(&pipe, whole.data + i, 1);
		assert_int_equal(monitor_frame_read(&pipe, &got, NULL), 0);
	}
	buf_add(&pipe, whole.data + whole.len - 1, 1);
	assert_int_equal(monitor_frame_read(&pipe, &got, NULL), 1);
	assert_same(&s, &got);
	snapshot_clear(&got);
	snapshot_clear(&s);
}

static void test_error_frame(void **state)
{
	(void)state;
	struct error sent, got = ERROR_INIT;
	struct snapshot s;
	scoped_buf pipe = { 0 };
	error_set(&sent, ERR_UNAVAILABLE, "NVIDIA driver: not there");
	monitor_frame_write_error(&sent, &pipe);
	assert_int_equal(monitor_frame_read(&pipe, &s, &got), -1);
	assert_int_equal(got.code, ERR_UNAVAILABLE);
	assert_string_equal(got.text, "NVIDIA driver: not there");
	assert_int_equal(pipe.len, 0);
	error_set(&sent, ERR_NOT_FOUND, "NVIDIA driver: none");	/* which no waiting brings */
	monitor_frame_write_error(&sent, &pipe);
	assert_int_equal(monitor_frame_read(&pipe, &s, &got), -1);
	assert_int_equal(got.code, ERR_NOT_FOUND);
}

/* Writes the example, changes `n` bytes at `at`, reads. */
static int read_changed(size_t at, const void *bytes, size_t n)
{
	struct snapshot s = example(), got = { 0 };
	scoped_buf pipe = { 0 };
	struct error err = ERROR_INIT;
	monitor_frame_write(&s, &pipe);
	memcpy(pipe.data + at, bytes, n);
	int rc = monitor_frame_read(&pipe, &got, &err);
	if (rc < 0)
		assert_int_equal(err.code, ERR_CORRUPT);
	if (rc == 1)
		snapshot_clear(&got);
	snapshot_clear(&s);
	return rc;
}

static void test_lies_are_refused(void **state)
{
	(void)state;
	const uint32_t zero = 0, huge = UINT32_MAX, more = 21, fewer = 19, far_gpu = 20;
	assert_int_equal(read_changed(0, &zero, 4), -1);		/* magic */
	assert_int_equal(read_changed(4, &huge, 4), -1);		/* version */
	assert_int_equal(read_changed(8, &zero, 4), -1);		/* kind */
	assert_int_equal(read_changed(12, &huge, 4), -1);		/* length above the bound */
	assert_int_equal(read_changed(HEADER + 16, &huge, 4), -1);	/* GPUs: more than bytes came */
	assert_int_equal(read_changed(HEADER + 16, &more, 4), -1);
	assert_int_equal(read_changed(HEADER + 16, &fewer, 4), -1);
	assert_int_equal(read_changed(HEADER + 20, &huge, 4), -1);	/* processes */
	assert_int_equal(read_changed(HEADER + 20, &zero, 4), -1);
	assert_int_equal(read_changed(HEADER + 28, &huge, 4), -1);	/* the length of what was chosen */
	assert_int_equal(read_changed(HEADER + 28, &more, 4), -1);
	assert_int_equal(read_changed(HEADER + 32, &zero, 4), -1);	/* ... which is text */
	struct snapshot s = example();
	scoped_buf pipe = { 0 };
	monitor_frame_write(&s, &pipe);
	size_t last_proc = pipe.len - (4 + 4 + 8 + 4 + 8 + 8 + 1 + 8 + PROC_PROGRAM_LEN + PROC_COMMAND_LEN + PROC_TOKEN_LEN);
	assert_int_equal(read_changed(last_proc, &far_gpu, 4), -1);	/* a process on a GPU that is not there */
	snapshot_clear(&s);
}

static void test_bad_values_are_refused(void **state)
{
	(void)state;
	struct snapshot s = { 0 }, got;
	scoped_buf pipe = { 0 };
	struct gpu_reading *r = snapshot_add_gpu(&s);
	r->smact = NAN;
	monitor_frame_write(&s, &pipe);
	assert_int_equal(monitor_frame_read(&pipe, &got, NULL), -1);
	r->smact = 0;
	strcpy(r->smact_source, "\xff");
	monitor_frame_write(&s, &pipe);
	assert_int_equal(monitor_frame_read(&pipe, &got, NULL), -1);
	*r->smact_source = 0;
	strcpy(snapshot_add_proc(&s)->program, "\x1b[2J");	/* what a process is called is its owner's to choose */
	monitor_frame_write(&s, &pipe);
	assert_int_equal(monitor_frame_read(&pipe, &got, NULL), -1);
	s.n_procs = 0;
	/* Text without an end gets one. */
	*r->smact_source = 0;
	memset(r->uuid, 'x', sizeof r->uuid);
	monitor_frame_write(&s, &pipe);
	assert_int_equal(monitor_frame_read(&pipe, &got, NULL), 1);
	assert_int_equal(strlen(got.gpus[0].uuid), sizeof r->uuid - 1);
	snapshot_clear(&got);
	snapshot_clear(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_round_trip),
		cmocka_unit_test(test_arrives_in_pieces),
		cmocka_unit_test(test_error_frame),
		cmocka_unit_test(test_lies_are_refused),
		cmocka_unit_test(test_bad_values_are_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
