/* SPDX-License-Identifier: MIT
 * The ledger, as tables: a GPU of 40960 MiB of which the driver reserves 512.
 */
#include "map/ledger.h"

#include "base/scope.h"

#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>

#define TOTAL 40960
#define RESERVED 512

struct task_row { uint64_t claim, observed, then; bool for_life, warm, exited; };

struct situation {
	const char *what;
	uint64_t used;
	bool used_unknown, proc_mem_unknown;
	uint64_t mps, seen;
	struct task_row task[3];	/* ends with the first without claim and observation */
	uint64_t foreign, held, available;
};

static const struct situation situations[] = {
	{ "empty", .used = 512, .available = 40448 },
	{ "claim held before a byte is taken", .used = 512, .task = { { 10000, 0, 0, true } }, .held = 10000, .available = 30448 },
	{ "half way up its ramp", .used = 5512, .task = { { 10000, 5000, 0, true } }, .held = 10000, .available = 30448 },
	{ "observed above a claim for life", .used = 11512, .task = { { 10000, 11000, 0, true } }, .held = 11000,
	  .available = 29448 },
	{ "a claim for life stays when warm", .used = 3512, .task = { { 10000, 3000, 0, true, true } }, .held = 10000,
	  .available = 30448 },
	{ "a cold estimate is held whole", .used = 3512, .task = { { 10000, 3000 } }, .held = 10000, .available = 30448 },
	{ "a cold estimate that is too small", .used = 12512, .task = { { 10000, 12000 } }, .held = 12000, .available = 28448 },
	{ "a warm estimate shrinks to its peak + 512 MiB", .used = 3512, .task = { { 10000, 3000, 0, false, true } },
	  .held = 3512, .available = 36936 },
	{ "5 % is more than 512 MiB from 10240 on", .used = 20512, .task = { { 30000, 20000, 0, false, true } },
	  .held = 21000, .available = 19448 },
	{ "the margin where both are equal", .used = 10752, .task = { { 30000, 10240, 0, false, true } }, .held = 10752,
	  .available = 29696 },
	{ "a warm estimate grows above its claim", .used = 12512, .task = { { 10000, 12000, 0, false, true } }, .held = 12600,
	  .available = 27848 },
	{ "the peak counts, not what it has now", .used = 2512, .task = { { 10000, 8000, 2000, false, true } }, .held = 8512,
	  .available = 31936 },
	{ "foreign by difference", .used = 12512, .task = { { 10000, 5000, 0, true } }, .foreign = 7000, .held = 10000,
	  .available = 23448 },
	{ "foreign by its processes, when that is more", .used = 5512, .seen = 900, .task = { { 10000, 5000, 0, true } },
	  .foreign = 900, .held = 10000, .available = 29548 },
	{ "foreign by difference, when that is more", .used = 8512, .seen = 900, .task = { { 10000, 5000, 0, true } },
	  .foreign = 3000, .held = 10000, .available = 27448 },
	{ "the MPS server is nobody's", .used = 5578, .mps = 66, .task = { { 10000, 5000, 0, true } }, .held = 10000,
	  .available = 30382 },
	{ "more observed than used", .used = 4000, .task = { { 10000, 5000, 0, true } }, .held = 10000, .available = 30448 },
	{ "used below what is reserved", .used = 100, .available = 40448 },
	{ "used is not known", .used = 33333, .used_unknown = true, .seen = 700, .task = { { 10000, 0, 0, true } },
	  .foreign = 700, .held = 10000, .available = 29748 },
	{ "memory per process unknown: used may be ours", .used = 6512, .proc_mem_unknown = true,
	  .task = { { 10000, 6000, 0, true } }, .held = 10000, .available = 30448 },
	{ "... up to what is held", .used = 16512, .proc_mem_unknown = true, .task = { { 10000, 0, 0, true } },
	  .foreign = 6000, .held = 10000, .available = 24448 },
	{ "... and a warm estimate is not released", .used = 3512, .proc_mem_unknown = true,
	  .task = { { 10000, 3000, 0, false, true } }, .held = 10000, .available = 30448 },
	{ "three tasks", .used = 16512, .mps = 66, .task = { { 8000, 8000, 0, true }, { 6000, 4000, 0, false, true },
	  { 5120, 3000 } }, .foreign = 934, .held = 8000 + 4512 + 5120, .available = 40448 - 66 - 934 - 17632 },
	{ "an ended task is held until it is seen to be gone", .used = 10512, .task = { { 10000, 10000, 0, true, true, true } },
	  .held = 10000, .available = 30448 },
	{ "entries above the capacity", .used = 512, .task = { { 30000, 0, 0, true }, { 30000, 0, 0, true } }, .held = 60000,
	  .available = 0 },
};

static void read_gpu(struct ledger *l, const struct situation *s)
{
	ledger_read(l, &(struct ledger_reading){ .total_mib = TOTAL, .reserved_mib = RESERVED, .used_mib = s->used,
		.mps_mib = s->mps, .foreign_seen_mib = s->seen, .used_known = !s->used_unknown, .proc_mem_known = !s->proc_mem_unknown });
}

static void set_up(struct ledger *l, const struct situation *s)
{
	read_gpu(l, s);
	for (size_t i = 0; i < COUNT_OF(s->task); i++) {
		const struct task_row *t = &s->task[i];
		if (!t->claim && !t->observed)
			break;
		ledger_enter(l, TASK_ID(i + 1, -1), t->claim, t->for_life);
		ledger_observe(l, TASK_ID(i + 1, -1), t->observed, t->warm);
		if (t->then)
			ledger_observe(l, TASK_ID(i + 1, -1), t->then, t->warm);
		if (t->exited)
			ledger_exited(l, TASK_ID(i + 1, -1), 1000);
	}
}

static void formula(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT_OF(situations); i++) {
		const struct situation *s = &situations[i];
		struct ledger l = { 0 };
		set_up(&l, s);
		uint64_t foreign = ledger_foreign(&l), held = ledger_held(&l), available = ledger_available(&l);
		if (foreign != s->foreign || held != s->held || available != s->available)
			fail_msg("%s: foreign %ju held %ju available %ju, not %ju %ju %ju", s->what, (uintmax_t)foreign,
				 (uintmax_t)held, (uintmax_t)available, (uintmax_t)s->foreign, (uintmax_t)s->held,
				 (uintmax_t)s->available);
		ledger_clear(&l);
	}
}

static void read_all(struct ledger *l, uint64_t total, uint64_t reserved, uint64_t used)
{
	ledger_read(l, &(struct ledger_reading){ .total_mib = total, .reserved_mib = reserved, .used_mib = used, .used_known = true,
						 .proc_mem_known = true });
}

/* A GPU that was cut into instances, or whose driver talks nonsense, has nothing to give; it never wraps. */
static void shrinking_gpu(void **state)
{
	(void)state;
	struct ledger l = { 0 };
	set_up(&l, &(struct situation){ .used = 10512, .task = { { 20000, 10000, 0, true } } });
	assert_int_equal(ledger_available(&l), 20448);
	read_all(&l, 9856, 128, 5000);
	assert_int_equal(ledger_capacity(&l), 9728);
	assert_int_equal(ledger_available(&l), 0);
	read_all(&l, 100, 512, 0);
	assert_int_equal(ledger_capacity(&l), 0);
	assert_int_equal(ledger_available(&l), 0);
	read_all(&l, TOTAL, RESERVED, UINT64_MAX / 2);
	assert_int_equal(ledger_available(&l), 0);
	ledger_clear(&l);
	assert_int_equal(ledger_capacity(&l), 0);
	assert_int_equal(ledger_available(&l), 0);
}

/* Memory per process that becomes unknown takes back what warm entries gave up, until it is known again. */
static void knowledge_lost(void **state)
{
	(void)state;
	struct ledger l = { 0 };
	struct situation s = { .used = 3512, .task = { { 10000, 3000, 0, false, true } } };
	set_up(&l, &s);
	assert_int_equal(ledger_held(&l), 3512);
	s.proc_mem_unknown = true;
	read_gpu(&l, &s);
	ledger_observe(&l, TASK_ID(1, -1), 0, true);
	assert_int_equal(ledger_held(&l), 10000);
	s.proc_mem_unknown = false;
	read_gpu(&l, &s);
	ledger_observe(&l, TASK_ID(1, -1), 3100, false);
	assert_int_equal(ledger_held(&l), 10000);
	ledger_observe(&l, TASK_ID(1, -1), 3100, true);
	assert_int_equal(ledger_held(&l), 3612);
	/* A window that starts over does not make it cold again. */
	ledger_observe(&l, TASK_ID(1, -1), 3100, false);
	assert_int_equal(ledger_held(&l), 3612);
	ledger_clear(&l);
}

static bool is_present(task_id task, void *ctx)
{
	const task_id *alive = ctx;
	return task == *alive;
}

static void exits(void **state)
{
	(void)state;
	struct ledger l = { 0 };
	task_id one = TASK_ID(1, -1), two = TASK_ID(2, 0), none = 0;
	set_up(&l, &(struct situation){ .used = 12512 });
	ledger_enter(&l, one, 6000, true);
	ledger_enter(&l, two, 6000, false);
	/* Tasks that run stay, whatever the sample shows. */
	assert_int_equal(ledger_settle(&l, 5000, is_present, &none), 0);
	assert_false(ledger_room(&l).settling);

	ledger_exited(&l, one, 1000);
	ledger_exited(&l, TASK_ID(9, -1), 1000);
	assert_true(ledger_room(&l).settling);
	/* A sample begun before the exit, or in the same moment, proves nothing. */
	assert_int_equal(ledger_settle(&l, 999, is_present, &none), 0);
	assert_int_equal(ledger_settle(&l, 1000, is_present, &none), 0);
	/* Its processes linger. */
	assert_int_equal(ledger_settle(&l, 2000, is_present, &one), 0);
	assert_int_equal(ledger_held(&l), 12000);
	/* Told again later: that must not put the release off. */
	ledger_exited(&l, one, 9000);
	assert_int_equal(ledger_settle(&l, 2001, is_present, &none), 1);
	assert_null(ledger_find(&l, one));
	assert_non_null(ledger_find(&l, two));
	assert_int_equal(ledger_held(&l), 6000);
	assert_int_equal(ledger_settle(&l, 2002, is_present, &none), 0);
	ledger_exited(&l, one, 3000);
	assert_int_equal(ledger_settle(&l, 4000, is_present, &none), 0);
	ledger_clear(&l);
}

/* Where nothing is known of processes, memory that an ended task leaves used is foreign until it is free. */
static void processes_unknown(void **state)
{
	(void)state;
	struct ledger l = { 0 };
	struct situation s = { .used = 16512, .proc_mem_unknown = true, .task = { { 10000, 0, 0, true },
			       { 6000, 0, 0, true, true, true } } };
	set_up(&l, &s);
	assert_int_equal(ledger_available(&l), 24448);
	assert_int_equal(ledger_settle(&l, 1000, NULL, NULL), 0);
	assert_int_equal(ledger_settle(&l, 1001, NULL, NULL), 1);
	assert_int_equal(ledger_foreign(&l), 6000);
	assert_int_equal(ledger_available(&l), 24448);
	s.used = 10512;
	read_gpu(&l, &s);
	assert_int_equal(ledger_foreign(&l), 0);
	assert_int_equal(ledger_available(&l), 30448);
	ledger_clear(&l);
}

/* A second attempt on the same GPU, placed before the first was seen to be gone. */
static void placed_again(void **state)
{
	(void)state;
	struct ledger l = { 0 };
	task_id one = TASK_ID(1, -1), none = 0;
	set_up(&l, &(struct situation){ .used = 8512, .task = { { 6000, 9000, 8000, false, true, true } } });
	ledger_enter(&l, one, 7000, false);
	assert_int_equal(l.n, 1);
	assert_false(ledger_room(&l).settling);
	assert_int_equal(ledger_held(&l), 8000);
	assert_int_equal(ledger_settle(&l, 99999, is_present, &none), 0);
	ledger_clear(&l);

	/* An entry that is made twice, as after a restart, keeps what was observed. */
	set_up(&l, &(struct situation){ .used = 3512, .task = { { 6000, 3000, 0, false, true } } });
	ledger_enter(&l, one, 6000, false);
	assert_int_equal(l.n, 1);
	assert_int_equal(ledger_held(&l), 3512);
	ledger_clear(&l);
}

/* What is not here is nobody's business; many entries grow the list. */
static void strangers_and_many(void **state)
{
	(void)state;
	struct ledger l = { 0 };
	set_up(&l, &(struct situation){ .used = 512 });
	ledger_observe(&l, TASK_ID(7, -1), 5000, true);
	assert_int_equal(l.n, 0);
	for (int i = 0; i < 40; i++)
		ledger_enter(&l, TASK_ID(3, i), 100, true);
	assert_int_equal(ledger_held(&l), 4000);
	for (int i = 0; i < 40; i += 2)
		ledger_exited(&l, TASK_ID(3, i), 10);
	task_id alive = TASK_ID(3, 2);
	assert_int_equal(ledger_settle(&l, 11, is_present, &alive), 19);
	assert_int_equal(ledger_held(&l), 2100);
	for (int i = 1; i < 40; i += 2)
		assert_non_null(ledger_find(&l, TASK_ID(3, i)));
	ledger_clear(&l);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(formula), cmocka_unit_test(shrinking_gpu), cmocka_unit_test(knowledge_lost),
		cmocka_unit_test(exits), cmocka_unit_test(processes_unknown), cmocka_unit_test(placed_again),
		cmocka_unit_test(strangers_and_many),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
