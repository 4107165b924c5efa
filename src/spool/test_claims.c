/* SPDX-License-Identifier: MIT
 * The protocol of claims among real processes that are killed at random moments: pilots that claim and end tasks, people who
 * submit and cancel. A pilot that was killed comes back under its name and goes on with what it had claimed. At the end every
 * submission that was acknowledged is there and has ended; each was begun once, or was cancelled and never begun.
 *	test-spool-claims [KILLS [SEED [PAUSE_MS [FOLDER...]]]]
 * PAUSE_MS: the longest time between two kills. FOLDERs are one folder: as its server sees it, for the check, and as
 * several clients of that server see it, used by turns.
 */
#include "base/clock.h"
#include "spool/spool.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PILOTS = 4, SUBMITTERS = 2, CANCELLERS = 1, WORKERS = PILOTS + SUBMITTERS + CANCELLERS, MOST = 20000, DEADLINE_S = 100 };

struct board {
	_Atomic bool calm, last;		/* nobody submits any more; nobody who began to does, either */
	_Atomic unsigned acknowledged[MOST];	/* by number of the job */
	_Atomic unsigned begun[MOST];		/* O_EXCL files made for it */
	_Atomic int bad;
};

static struct board *board;
static char dir[160], ran[80];
static char **folders = (char *[]){ "/tmp" };
static int n_folders = 1;

static void bad(const char *what, uint32_t job)
{
	atomic_fetch_add(&board->bad, 1);
	printf("bad: %s: job %u\n", what, job);
}

/* One start leaves one file; whoever comes second is seen. */
static void begin(const struct spool_record *r, uint32_t job)
{
	char path[120];
	snprintf(path, sizeof path, "%s/%u.%u", ran, job, r->claim);
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
	if (fd < 0 && errno == EEXIST)
		return;		/* it was begun before its pilot was killed */
	if (fd >= 0)
		close(fd);
	atomic_fetch_add(&board->begun[job], 1);
}

static void end_it(const struct spool *s, task_id id, struct spool_record *r)
{
	while (r->state == SPOOL_CLAIMED) {
		struct spool_record next = spool_record_next(r, "ended", r->pilot);
		next.state = SPOOL_ENDED;
		next.end = r->wish == SPOOL_WISH_CANCEL ? TASK_CANCELLED : TASK_COMPLETED;
		if (!spool_change(s, id, &next, NULL))
			return;
		spool_record_clear(r);
		if (spool_read(s, id, 0, r, NULL))
			bad("cannot be read", TASK_JOB(id));
	}
}

struct round { const struct spool *s; const char *name; unsigned seen; };

static unsigned ended_with(void *ctx, task_id id)
{
	struct spool_record r;
	unsigned version = spool_read(ctx, id, 0, &r, NULL) || r.state != SPOOL_ENDED ? 0 : r.version;
	spool_record_clear(&r);
	return version;
}

static void look_at(void *ctx, uint32_t job)
{
	struct round *round = ctx;
	struct spool_record r;
	task_id id = TASK_ID(job, -1);
	if (spool_read(round->s, id, 0, &r, NULL))
		return;		/* listed before it is there */
	round->seen++;
	if (r.state == SPOOL_PENDING) {
		struct spool_record next = spool_record_next(&r, "claimed", round->name);
		next.state = SPOOL_CLAIMED;
		next.claim = r.version + 1;
		snprintf(next.pilot, sizeof next.pilot, "%s", round->name);
		if (!spool_change(round->s, id, &next, NULL))
			r = next;
	}
	if (r.state == SPOOL_CLAIMED && !strcmp(r.pilot, round->name)) {
		begin(&r, job);
		end_it(round->s, id, &r);
	}
	if (r.state == SPOOL_BROKEN)
		bad("broken", job);
	spool_tidy(round->s, job, ended_with, (void *)round->s);
	spool_record_clear(&r);
}

static void pilot(const struct spool *s, const char *name)
{
	for (;;) {
		bool last = board->last;	/* what is listed after that is all there is */
		struct round round = { s, name, 0 };
		spool_live(s, look_at, &round, NULL);
		if (!round.seen && last)
			_exit(0);
		usleep(500);
	}
}

static void submitter(const struct spool *s)
{
	json_t *spec = json_pack("{ss}", "name", "x"), *env = json_array();
	for (unsigned i = 0; !board->calm; i++) {
		uint32_t job = 0;
		if (spool_submit(s, SPOOL_FORMAT, spec, env, &job, NULL) || job >= MOST)
			bad("submission refused", job);
		else if (atomic_fetch_add(&board->acknowledged[job], 1))
			bad("a number was given twice", job);
		usleep(3000);
	}
	_exit(0);
}

static void canceller(const struct spool *s)
{
	while (!board->calm) {
		uint32_t last = spool_last_job(s), job = last > 8 ? last - (uint32_t)rand() % 8 : 0;
		task_id id = TASK_ID(job, -1);
		struct spool_record r;
		if (job && !spool_read(s, id, 0, &r, NULL)) {
			struct spool_record next = spool_record_next(&r, "cancel", NULL);
			if (r.state == SPOOL_PENDING) {
				next.state = SPOOL_ENDED;
				next.end = TASK_CANCELLED;
			}
			next.wish = SPOOL_WISH_CANCEL;
			if (r.state == SPOOL_PENDING || r.state == SPOOL_CLAIMED)
				spool_change(s, id, &next, NULL);
			spool_record_clear(&r);
		}
		usleep(2000);
	}
	_exit(0);
}

/* The queue, as the client of that worker sees it. */
static struct spool *open_as(int worker)
{
	char path[320];
	snprintf(path, sizeof path, "%s%s", folders[worker % n_folders], strrchr(dir, '/'));
	return spool_open(path, true, NULL);
}

static pid_t start(int worker, unsigned seed)
{
	char name[24];
	pid_t pid = fork();
	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	srand(seed);
	snprintf(name, sizeof name, "pilot%d", worker);
	struct spool *s = open_as(worker);
	if (!s)
		_exit(1);
	if (worker < PILOTS)
		pilot(s, name);
	else if (worker < PILOTS + SUBMITTERS)
		submitter(s);
	canceller(s);
	return 0;
}

static int check(void)
{
	struct spool *s = spool_open(dir, false, NULL);
	unsigned last = spool_last_job(s), acknowledged = 0, begun = 0, cancelled = 0;
	for (uint32_t job = 1; job < MOST; job++) {
		struct spool_record r;
		bool there = job <= last && !spool_read(s, TASK_ID(job, -1), 0, &r, NULL);
		acknowledged += board->acknowledged[job];
		begun += board->begun[job];
		if (board->acknowledged[job] && !there)
			bad("lost", job);
		if (!there)
			continue;
		if (r.state != SPOOL_ENDED)
			bad("has not ended", job);
		if (board->begun[job] > 1)
			bad("ran twice", job);
		if (!board->begun[job] && r.end != TASK_CANCELLED && !r.claim)
			bad("ended and never ran", job);
		cancelled += !board->begun[job];
		spool_record_clear(&r);
	}
	spool_close(s);
	printf("jobs %u, acknowledged %u, begun %u, cancelled before %u, bad %d\n", last, acknowledged, begun, cancelled, board->bad);
	return board->bad || !begun ? 1 : 0;
}

static void wait_for(pid_t *pids, int from, int to)
{
	int64_t until = clock_mono_ms() + DEADLINE_S * 1000;
	for (int i = from; i < to; i++)
		while (waitpid(pids[i], NULL, WNOHANG) == 0) {
			if (clock_mono_ms() > until) {
				bad("did not come to an end", (uint32_t)i);
				kill(pids[i], SIGKILL);
			}
			usleep(5000);
		}
}

int main(int argc, char **argv)
{
	int kills = argc > 1 ? atoi(argv[1]) : 150, pause_us = argc > 3 ? atoi(argv[3]) * 1000 + 1 : 12000;
	unsigned seed = argc > 2 ? (unsigned)atoi(argv[2]) : (unsigned)getpid();
	pid_t pids[WORKERS];
	char command[300];
	if (argc > 5) {
		folders = argv + 5;
		n_folders = argc - 5;
	}
	snprintf(dir, sizeof dir, "%s/rad-claims.XXXXXX", argc > 5 ? argv[4] : "/tmp");
	strcpy(ran, "/tmp/rad-claims-ran.XXXXXX");
	board = mmap(NULL, sizeof *board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (!mkdtemp(dir) || !mkdtemp(ran) || board == MAP_FAILED)
		return 1;
	printf("%d kills, seed %u\n", kills, seed);
	srand(seed);
	for (int i = 0; i < WORKERS; i++)
		pids[i] = start(i, seed + (unsigned)i);
	for (int i = 0; i < kills; i++) {
		int one = rand() % WORKERS;
		usleep((useconds_t)(rand() % pause_us));
		kill(pids[one], SIGKILL);
		waitpid(pids[one], NULL, 0);
		pids[one] = start(one, (unsigned)rand());
	}
	board->calm = true;
	wait_for(pids, PILOTS, WORKERS);
	board->last = true;
	wait_for(pids, 0, PILOTS);
	int rc = check();
	snprintf(command, sizeof command, "rm -rf %s %s", dir, ran);
	return system(command) ? 1 : rc;
}
