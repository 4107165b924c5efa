/* SPDX-License-Identifier: MIT
 * A queue of files: what is refused when it is opened, versions, the list of live jobs, and files that are torn or hostile.
 */
#include "base/alloc.h"
#include "base/io.h"
#include "base/json.h"
#include "base/scope.h"
#include "spool/spool.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

struct place { char dir[64]; struct spool *s; };

static void in_shell(const char *fmt, const char *dir)
{
	scoped_free char *command = alloc_printf(fmt, dir);
	assert_int_equal(system(command), 0);
}

static int make_place(void **state)
{
	struct place *p = alloc_zero(sizeof *p);
	struct error err = ERROR_INIT;
	strcpy(p->dir, "/tmp/rad-spool.XXXXXX");
	assert_non_null(mkdtemp(p->dir));
	p->s = spool_open(p->dir, true, &err);
	if (!p->s)
		fail_msg("%s", err.text);
	*state = p;
	return 0;
}

static int drop_place(void **state)
{
	struct place *p = *state;
	spool_close(p->s);
	in_shell("rm -rf %s", p->dir);
	free(p);
	return 0;
}

static uint32_t submit(const struct place *p, bool hold)
{
	uint32_t job = 0;
	scoped_json *spec = json_pack("{ss, sb}", "name", "x", "hold", hold), *env = json_array();
	assert_int_equal(spool_submit(p->s, SPOOL_FORMAT, spec, env, &job, NULL), 0);
	return job;
}

static struct spool_record read_now(const struct place *p, task_id id)
{
	struct spool_record r;
	assert_int_equal(spool_read(p->s, id, 0, &r, NULL), 0);
	return r;
}

static void put(const struct place *p, const char *path, const void *bytes, size_t n)
{
	scoped_free char *whole = alloc_printf("%s/%s", p->dir, path);
	scoped_fd int fd = open(whole, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(io_write_full(fd, bytes, n), 0);
}

/* ---- opening ---- */

static void refused(const char *dir, bool create, enum error_code code, const char *words)
{
	struct error err = ERROR_INIT;
	struct spool *s = spool_open(dir, create, &err);
	assert_null(s);
	if (err.code != code || !strstr(err.text, words))
		fail_msg("expected '%s', got %d '%s'", words, (int)err.code, err.text);
}

static void what_is_refused(void **state)
{
	struct place *p = *state;
	scoped_free char *none = alloc_printf("%s/none", p->dir), *other = alloc_printf("%s/other", p->dir);
	refused(none, false, ERR_NOT_FOUND, "there is no queue there");
	in_shell("mkdir %s/other && : >%1$s/other/thesis.tex", p->dir);
	refused(other, true, ERR_INVALID, "holds other things");
	in_shell("chmod 770 %s", p->dir);
	refused(p->dir, true, ERR_DENIED, "others may write there");
	static const char newer[] = "{\"format\":7,\"mark\":\"0123456789abcdef\",\"release\":\"9.9\"}";
	in_shell("chmod 700 %s", p->dir);
	put(p, "spool", newer, strlen(newer));
	refused(p->dir, true, ERR_INVALID, "format 7, made by rad 9.9; this is rad " RAD_VERSION);
	put(p, "spool", "{\"form", 6);
	refused(p->dir, true, ERR_CORRUPT, "cannot be read");
	put(p, "spool", "{}", 2);
	refused(p->dir, true, ERR_CORRUPT, "neither format nor mark");
	if (!geteuid()) {
		in_shell("chown nobody %s", p->dir);
		refused(p->dir, true, ERR_DENIED, "belongs to nobody");
	}
}

/* The folder's own mode says who may write there now, not who could before. */
static void what_others_put_there_before_is_refused(void **state)
{
	struct place *p = *state;
	static const char words[] = "is no folder of yours alone";
	in_shell("chmod 770 %s/jobs", p->dir);
	refused(p->dir, true, ERR_DENIED, words);
	in_shell("chmod 700 %s/jobs; mv %1$s/live %1$s/other; ln -s other %1$s/live", p->dir);
	refused(p->dir, false, ERR_DENIED, words);
	in_shell("rm %s/live; mv %1$s/other %1$s/live", p->dir);
	if (geteuid())
		return;
	in_shell("chown nobody %s/jobs", p->dir);
	refused(p->dir, true, ERR_DENIED, words);
	in_shell("chown root %s/jobs; chown nobody %1$s/spool", p->dir);
	refused(p->dir, true, ERR_CORRUPT, "was not written by rad");
	in_shell("chown root %s/spool", p->dir);
	uint32_t job = submit(p, false);
	in_shell("chown nobody %s/jobs/*/job", p->dir);
	struct error err = ERROR_INIT;
	assert_null(spool_job(p->s, job, false, &err));
	assert_non_null(strstr(err.text, "was not written by rad"));
}

static void making_it_twice_is_the_same(void **state)
{
	struct place *p = *state;
	struct spool *again = spool_open(p->dir, true, NULL);
	assert_non_null(again);
	assert_string_equal(spool_mark(again), spool_mark(p->s));
	spool_close(again);
	assert_int_equal(spool_probe(p->s, NULL), 0);
	in_shell("test -z \"$(ls %s/tmp)\"", p->dir);
}

/* ---- versions ---- */

static void a_change_is_the_next_version(void **state)
{
	struct place *p = *state;
	task_id id = TASK_ID(submit(p, false), -1);
	struct spool_record mine = read_now(p, id), theirs = read_now(p, id), now;
	assert_int_equal(mine.state, SPOOL_PENDING);
	assert_int_equal(mine.version, 0);
	struct spool_record claim = spool_record_next(&mine, "claimed", "one"), late = spool_record_next(&theirs, "claimed", "two");
	claim.state = late.state = SPOOL_CLAIMED;
	strcpy(claim.pilot, "one");
	strcpy(late.pilot, "two");
	assert_int_equal(spool_change(p->s, id, &claim, NULL), 0);
	assert_int_equal(claim.version, 1);
	assert_int_equal(spool_change(p->s, id, &late, NULL), 1);
	assert_int_equal(late.version, 0);
	now = read_now(p, id);
	assert_string_equal(now.pilot, "one");
	assert_int_equal(now.version, 1);
	struct spool_record end = spool_record_next(&now, "ended", "one");
	end.state = SPOOL_ENDED;
	end.end = TASK_FAILED;
	end.task = json_pack("{si}", "exit_code", 3);
	strcpy(end.text, "cut \xc3");	/* half a letter */
	assert_int_equal(spool_change(p->s, id, &end, NULL), 0);
	spool_record_clear(&end);
	now = read_now(p, id);
	assert_int_equal(now.end, TASK_FAILED);
	assert_int_equal(json_integer_value(json_object_get(now.task, "exit_code")), 3);
	spool_record_clear(&now);
	in_shell("test -z \"$(ls %s/tmp)\"", p->dir);
}

static void jobs_are_numbered_without_gaps(void **state)
{
	struct place *p = *state;
	assert_int_equal(spool_last_job(p->s), 0);
	for (uint32_t i = 1; i <= 37; i++) {
		assert_int_equal(submit(p, i == 5), i);
		assert_int_equal(spool_last_job(p->s), i);
	}
	assert_int_equal(read_now(p, TASK_ID(5, -1)).state, SPOOL_HELD);
	assert_int_equal(read_now(p, TASK_ID(6, -1)).state, SPOOL_PENDING);
	assert_null(spool_job(p->s, 38, true, NULL));
	scoped_json *job = spool_job(p->s, 37, true, NULL);
	assert_true(json_is_array(json_object_get(job, "environ")));
}

/* ---- the list ---- */

static void count_one(void *ctx, uint32_t job)
{
	(void)job;
	++*(unsigned *)ctx;
}

static unsigned live(const struct place *p)
{
	unsigned n = 0;
	assert_int_equal(spool_live(p->s, count_one, &n, NULL), 0);
	return n;
}

static unsigned ended_with(void *ctx, task_id id)
{
	const struct place *p = ctx;
	struct spool_record r = read_now(p, id);
	unsigned version = r.state == SPOOL_ENDED ? r.version : 0;
	spool_record_clear(&r);
	return version;
}

static struct spool_record step(const struct place *p, task_id id, enum spool_state to, bool revive)
{
	struct spool_record r = read_now(p, id), next = spool_record_next(&r, "moved", NULL);
	next.state = to;
	next.end = TASK_COMPLETED;
	assert_int_equal((revive ? spool_revive : spool_change)(p->s, id, &next, NULL), 0);
	spool_record_clear(&r);
	return next;
}

static void who_is_put_back_stays_on_the_list(void **state)
{
	struct place *p = *state;
	uint32_t job = submit(p, false);
	task_id id = TASK_ID(job, -1);
	spool_tidy(p->s, job, ended_with, p);
	assert_int_equal(live(p), 1);
	step(p, id, SPOOL_ENDED, false);
	spool_tidy(p->s, job, ended_with, p);
	assert_int_equal(live(p), 0);
	assert_int_equal(step(p, id, SPOOL_PENDING, true).version, 2);
	spool_tidy(p->s, job, ended_with, p);
	assert_int_equal(live(p), 1);
	/* Put on the list, and then killed before the version was written: it is looked at in vain, no more. */
	step(p, id, SPOOL_ENDED, false);
	spool_tidy(p->s, job, ended_with, p);
	assert_int_equal(live(p), 0);
	put(p, "live/1.4", "", 0);
	spool_tidy(p->s, job, ended_with, p);
	assert_int_equal(live(p), 1);
}

static void note_version(void *ctx, task_id id, unsigned version)
{
	unsigned *seen = ctx;
	assert_true(TASK_INDEX(id) >= -1 && TASK_INDEX(id) < 4);
	seen[TASK_INDEX(id) + 1] = version;
}

static void elements_have_records_of_their_own(void **state)
{
	struct place *p = *state;
	uint32_t job = submit(p, false);
	unsigned seen[5] = { 0 };
	step(p, TASK_ID(job, 2), SPOOL_CLAIMED - 1, false);
	step(p, TASK_ID(job, 2), SPOOL_HELD, false);
	step(p, TASK_ID(job, 0), SPOOL_HELD, false);
	put(p, "jobs/1/2.99999999", "", 0);
	put(p, "jobs/1/-1.3", "", 0);
	put(p, "jobs/1/.x", "", 0);
	uint64_t stamp = spool_stamp(p->s, job);
	assert_int_equal(spool_versions(p->s, job, note_version, seen, NULL), 0);
	assert_int_equal(seen[3], 2);
	assert_int_equal(seen[1], 1);
	assert_int_equal(seen[2] + seen[0] + seen[4], 0);
	assert_true(stamp && !spool_stamp(p->s, 99));
}

/* ---- what should not be there ---- */

static void broken(const struct place *p, const char *text, size_t n, const char *words)
{
	put(p, "jobs/1/t.1", text, n);
	struct spool_record r = read_now(p, TASK_ID(1, -1));
	assert_int_equal(r.state, SPOOL_BROKEN);
	if (!strstr(r.text, words))
		fail_msg("expected '%s' in '%s'", words, r.text);
	spool_record_clear(&r);
}

static void torn_and_hostile_records(void **state)
{
	struct place *p = *state;
	submit(p, false);
	broken(p, "", 0, "cannot be read");
	broken(p, "{\"format\":1,\"sta", 16, "cannot be read");
	broken(p, "\0\0\0\0", 4, "cannot be read");
	broken(p, "[]", 2, "no object");
	broken(p, "{\"state\":\"asleep\"}", 18, "no 'state'");
	broken(p, "{\"state\":\"claimed\"}", 19, "no name of a pilot");
	broken(p, "{\"state\":\"claimed\",\"pilot\":\"../../etc\"}", 39, "no name of a pilot");
	broken(p, "{\"state\":\"ended\",\"end\":\"RUNNING\"}", 33, "no end of a task");
	broken(p, "{\"state\":\"held\",\"claims\":-1}", 28, "claims");
	broken(p, "{\"format\":2,\"state\":\"held\"}", 27, "format");
	scoped_free char *deep = alloc_zero(60000);
	memset(deep, '[', 60000);
	broken(p, deep, 60000, "cannot be read");
	in_shell("rm %s/jobs/1/t.1; ln -s /etc/passwd %1$s/jobs/1/t.1", p->dir);
	struct spool_record r;
	assert_int_equal(spool_read(p->s, TASK_ID(1, -1), 0, &r, NULL), 0);
	assert_int_equal(r.state, SPOOL_BROKEN);
	assert_non_null(strstr(r.text, "is a link"));
	in_shell("rm %s/jobs/1/t.1; mkfifo %1$s/jobs/1/t.1", p->dir);
	assert_int_equal(spool_read(p->s, TASK_ID(1, -1), 0, &r, NULL), 0);
	assert_int_equal(r.state, SPOOL_BROKEN);
	/* The next version mends it. */
	in_shell("rm %s/jobs/1/t.1; : >%1$s/jobs/1/t.1", p->dir);
	r = read_now(p, TASK_ID(1, -1));
	struct spool_record next = spool_record_next(&r, "requeued", NULL);
	next.state = SPOOL_PENDING;
	assert_int_equal(spool_change(p->s, TASK_ID(1, -1), &next, NULL), 0);
	assert_int_equal(read_now(p, TASK_ID(1, -1)).state, SPOOL_PENDING);
	/* A submission that is damaged. */
	put(p, "jobs/1/job", "{", 1);
	in_shell("rm %s/jobs/1/t.*", p->dir);
	assert_int_equal(read_now(p, TASK_ID(1, -1)).state, SPOOL_BROKEN);
}

/* Nobody reads from it: who opened it for writing as a file would wait forever. */
static void pipes_are_not_waited_for(void **state)
{
	struct place *p = *state;
	uint32_t job;
	scoped_json *spec = json_object(), *env = json_array();
	in_shell("mkfifo %s/live/1 %1$s/live/2.2", p->dir);
	alarm(100);
	spool_submit(p->s, SPOOL_FORMAT, spec, env, &job, NULL);
	struct spool_record r = { .version = 1 };
	assert_int_equal(spool_revive(p->s, TASK_ID(2, -1), &r, NULL), -1);
	alarm(0);
}

/* Any byte of a record may be any other. */
static void random_records(void **state)
{
	(void)state;
	static const char text[] = "{\"format\":1,\"event\":\"claimed\",\"by\":\"x\",\"time_ms\":1,\"state\":\"claimed\","
		"\"pilot\":\"p\","
		"\"claim\":1,\"started\":true,\"claims\":1,\"cuts\":0,\"ran_s\":0.5,\"wish\":\"cancel\",\"text\":null,\"task\":{\"a\":[1]}}";
	struct spool_record r;
	assert_true(spool_parse_record(text, sizeof text - 1, &r));
	spool_record_clear(&r);
	srand(7);
	for (int i = 0; i < 20000; i++) {
		char copy[sizeof text];
		memcpy(copy, text, sizeof text);
		for (int k = rand() % 4; k >= 0; k--)
			copy[(size_t)rand() % sizeof text] = (char)rand();
		bool good = spool_parse_record(copy, (size_t)rand() % sizeof text, &r);
		assert_int_equal(good, r.state != SPOOL_BROKEN);
		assert_true(strlen(r.pilot) < SPOOL_NAME && !strchr(r.pilot, '/'));
		spool_record_clear(&r);
	}
}

/* ---- places of an array ---- */

static void a_place_is_made_by_one(void **state)
{
	struct place *p = *state;
	uint32_t job = submit(p, false);
	struct spool_gate mine, theirs, now;
	assert_int_equal(spool_gate_read(p->s, job, 0, &mine, NULL), 0);
	assert_int_equal(spool_gate_read(p->s, job, 0, &theirs, NULL), 0);
	assert_int_equal(mine.version + mine.n, 0);
	assert_false(mine.broken);
	struct spool_place one = { 3, 1 }, two = { 4, 2 };
	mine.places = &one;
	theirs.places = &two;
	mine.n = theirs.n = 1;
	assert_int_equal(spool_gate_change(p->s, job, &mine, NULL), 0);
	assert_int_equal(spool_gate_change(p->s, job, &theirs, NULL), 1);
	assert_int_equal(theirs.version, 0);
	assert_int_equal(spool_gate_read(p->s, job, 0, &now, NULL), 0);
	assert_int_equal(now.version, 1);
	assert_int_equal(now.n, 1);
	assert_int_equal(now.places[0].element, 3);
	assert_int_equal(now.places[0].claim, 1);
	spool_gate_clear(&now);
	put(p, "jobs/1/g.2", "{\"format\":1,\"pla", 16);
	assert_int_equal(spool_gate_read(p->s, job, 1, &now, NULL), 0);
	assert_true(now.broken);
	assert_int_equal(now.version, 2);
	in_shell("rm %s/jobs/1/g.2; mkfifo %1$s/jobs/1/g.2", p->dir);
	assert_int_equal(spool_gate_read(p->s, job, 0, &now, NULL), 0);
	assert_true(now.broken);
}

/* A submission is read once for all elements; what is changed by hand, taken away or another one is seen all the same. */
static void a_submission_is_read_as_it_is(void **state)
{
	struct place *p = *state;
	struct error err = ERROR_INIT;
	struct spool_record r;
	uint32_t one = submit(p, false), held = submit(p, true);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(spool_read(p->s, TASK_ID(one, i), 0, &r, &err), 0);
		assert_int_equal(r.state, SPOOL_PENDING);
		assert_true(*r.by && r.time_ms > 0);
		assert_int_equal(spool_read(p->s, TASK_ID(held, i), 0, &r, &err), 0);
		assert_int_equal(r.state, SPOOL_HELD);
	}
	in_shell("cd %s/jobs && echo '{' >2/job", p->dir);
	assert_int_equal(spool_read(p->s, TASK_ID(held, 2), 0, &r, &err), 0);
	assert_int_equal(r.state, SPOOL_BROKEN);
	in_shell("cd %s/jobs && cp 1/job 2/job", p->dir);
	assert_int_equal(spool_read(p->s, TASK_ID(held, 2), 0, &r, &err), 0);
	assert_int_equal(r.state, SPOOL_PENDING);
	in_shell("rm %s/jobs/2/job", p->dir);
	assert_int_equal(spool_read(p->s, TASK_ID(held, 2), 0, &r, &err), -1);
	assert_int_equal(err.code, ERR_NOT_FOUND);
}

static void places_that_are_none(void **state)
{
	(void)state;
	static const char *const bad[] = { "", "[]", "{}", "{\"format\":1}", "{\"format\":2,\"places\":[]}",
		"{\"format\":1,\"places\":[3]}", "{\"format\":1,\"places\":[[3,0]]}", "{\"format\":1,\"places\":[[-1,1]]}",
		"{\"format\":1,\"places\":[[1,1,1]]}", "{\"format\":1,\"places\":[[1,100000]]}" };
	struct spool_gate g;
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		if (spool_parse_gate(bad[i], strlen(bad[i]), &g) || !g.broken || g.n)
			fail_msg("%s", bad[i]);
	static const char good[] = "{\"format\":1,\"places\":[[0,1],[9999,99999]]}";
	assert_true(spool_parse_gate(good, sizeof good - 1, &g));
	assert_int_equal(g.n, 2);
	spool_gate_clear(&g);
}

/* ---- what is left over ---- */

/* Whoever is slow finds his file gone, and is told: nothing is accepted that is not there. */
static void who_is_slower_than_the_cleaner_is_told(void **state)
{
	struct place *p = *state;
	struct error err = ERROR_INIT;
	in_shell("cd %s/tmp && z=0000000000000000000000000000000 && mkdir ${z}a && : >${z}a/job && : >${z}b && : >${z}e && "
		 "mkfifo ${z}c && ln -s /etc/passwd ${z}d && : >${z}b.e && : >mine && : >${z}f0 && "
		 "touch -h -d '3 days ago' ${z}[abcd]* mine ${z}f0", p->dir);
	assert_int_equal(spool_clean(p->s, 86400, &err), 5);
	in_shell("test \"$(ls %s/tmp | cut -c 31- | tr '\\n' ' ')\" = '0e 0f0  ' && test -s /etc/passwd", p->dir);
	assert_int_equal(spool_clean(p->s, 0, &err), 1);
	/* What a person put there is his, and so is what lies where a link of his leads. */
	in_shell("cd %s/tmp && rm mine *f0", p->dir);
	in_shell("cd %s && mv tmp other && ln -s other tmp && : >other/0000000000000000000000000000000a", p->dir);
	assert_int_equal(spool_clean(p->s, 0, &err), -1);
	assert_non_null(strstr(err.text, "/tmp: "));
	in_shell("cd %s && rm tmp other/*a && mv other tmp", p->dir);
	in_shell("rmdir %s/tmp", p->dir);
	assert_int_equal(spool_clean(p->s, 0, &err), -1);
	assert_true(err.code);
	in_shell("mkdir %s/tmp", p->dir);
}

/* ---- pilots ---- */

static void pilots_say_who_they_are(void **state)
{
	struct place *p = *state;
	scoped_json *who = json_pack("{ss}", "host", "n1"), *status = json_pack("{si}", "beat", 3);
	assert_int_equal(spool_enter(p->s, "n1-a", who, NULL), 0);
	assert_int_equal(spool_status(p->s, "n1-a", status, NULL), 0);
	scoped_json *said = spool_pilot(p->s, "n1-a"), *names = spool_pilots(p->s);
	assert_int_equal(json_array_size(names), 1);
	assert_int_equal(json_integer_value(json_object_get(json_object_get(said, "status"), "beat")), 3);
	put(p, "pilots/n1-a/status", "{\"bea", 5);
	scoped_json *torn = spool_pilot(p->s, "n1-a");
	assert_int_equal(json_object_size(json_object_get(torn, "status")), 0);
	spool_leave(p->s, "n1-a");
	assert_null(spool_pilot(p->s, "n1-a"));
}

int main(void)
{
#define IN_PLACE(f) cmocka_unit_test_setup_teardown(f, make_place, drop_place)
	const struct CMUnitTest tests[] = {
		IN_PLACE(what_is_refused), IN_PLACE(what_others_put_there_before_is_refused),
		IN_PLACE(making_it_twice_is_the_same), IN_PLACE(a_change_is_the_next_version),
		IN_PLACE(jobs_are_numbered_without_gaps), IN_PLACE(who_is_put_back_stays_on_the_list),
		IN_PLACE(elements_have_records_of_their_own), IN_PLACE(torn_and_hostile_records), IN_PLACE(pipes_are_not_waited_for),
		cmocka_unit_test(random_records),
		IN_PLACE(pilots_say_who_they_are), IN_PLACE(a_place_is_made_by_one), cmocka_unit_test(places_that_are_none),
		IN_PLACE(a_submission_is_read_as_it_is),
		IN_PLACE(who_is_slower_than_the_cleaner_is_told),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
