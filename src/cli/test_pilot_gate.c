/* SPDX-License-Identifier: MIT
 * An array with a limit among real processes that are killed at random moments: never do more of them hold elements than the
 * limit says, and all elements come to their end.
 *	test-cli-pilot_gate [KILLS [SEED [PAUSE_MS [FOLDER...]]]]
 * PAUSE_MS: the longest time between two kills. FOLDERs are one folder: as its server sees it, for the check, and as
 * several clients of that server see it, used by turns.
 */
#include "base/clock.h"
#include "base/scope.h"
#include "cli/pilot_after.h"
#include "cli/pilot_gate.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PILOTS = 4, ELEMENTS = 300, LIMIT = 3, DEADLINE_S = 100 };

struct board {
	_Atomic bool holding[ELEMENTS];
	_Atomic unsigned begun[ELEMENTS], most;
	_Atomic int bad;
};

static struct board *board;
static char dir[160];
static char **folders = (char *[]){ "/tmp" };
static int n_folders = 1;

static void check_limit(void)
{
	unsigned n = 0;
	for (int i = 0; i < ELEMENTS; i++)
		n += board->holding[i];
	for (unsigned most = board->most; n > most && !atomic_compare_exchange_weak(&board->most, &most, n);)
		;
}

/* What it has claimed: held for a moment, and ended, or put back. */
static void work_on(struct pilot_known *k, const struct spool *s, const char *name, struct pilot_known_task *t)
{
	struct spool_record next = spool_record_next(&t->record, "ended", name);
	int element = TASK_INDEX(t->id);
	board->holding[element] = true;
	board->begun[element]++;
	check_limit();
	usleep((useconds_t)(rand() % 2000));
	check_limit();
	next.state = rand() % 6 ? SPOOL_ENDED : SPOOL_PENDING;
	next.end = TASK_COMPLETED;
	board->holding[element] = false;
	if (!spool_change(s, t->id, &next, NULL))
		pilot_known_set(k, t->id, &next);
	else
		atomic_fetch_add(&board->bad, 1);
}

static void try_one(struct pilot_known *k, const struct spool *s, const char *name, struct pilot_known_task *t)
{
	if (t->record.state != SPOOL_PENDING || pilot_gate_take(k, s, t, NULL))
		return;
	struct spool_record next = spool_record_next(&t->record, "claimed", name);
	next.state = SPOOL_CLAIMED;
	next.claim = t->record.version + 1;
	snprintf(next.pilot, sizeof next.pilot, "%s", name);
	if (spool_change(s, t->id, &next, NULL))
		return;
	pilot_known_set(k, t->id, &next);
	work_on(k, s, name, t);
}

struct owner { struct pilot_known *k; const struct spool *s; const char *name; };

static void own(void *ctx, struct pilot_known_task *t)
{
	struct owner *o = ctx;
	if (t->record.state == SPOOL_CLAIMED && !strcmp(t->record.pilot, o->name))
		work_on(o->k, o->s, o->name, t);
}

static void pilot(int number)
{
	char name[24], path[320];
	snprintf(name, sizeof name, "pilot%d", number);
	/* as its client sees it */
	snprintf(path, sizeof path, "%s%s", folders[number % n_folders], strrchr(dir, '/'));
	struct spool *s = spool_open(path, false, NULL);
	struct pilot_known *k = pilot_known_create();
	struct owner o = { k, s, name };
	for (;;) {
		scoped_free struct pilot_known_task **list = NULL;
		size_t at = 0;
		pilot_known_doubt(k);
		if (pilot_known_look(k, s, NULL))
			continue;
		pilot_known_each(k, own, &o);
		size_t n = pilot_known_pending(k, &list);
		if (!n && !pilot_known_next(k, &at))
			_exit(0);
		for (int i = 0; n && i < 4; i++)
			try_one(k, s, name, list[(size_t)rand() % n]);
	}
}

static pid_t start(int number, unsigned seed)
{
	pid_t pid = fork();
	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	srand(seed);
	pilot(number);
	return 0;
}

static int check(void)
{
	unsigned never = 0;
	for (int i = 0; i < ELEMENTS; i++)
		never += !board->begun[i];
	printf("at most %u of %d at once, %u never begun, bad %d\n", board->most, LIMIT, never, board->bad);
	return board->most > LIMIT || board->most < 2 || never || board->bad;
}

static int submit_array(void)
{
	struct spool *s = spool_open(dir, true, NULL);
	uint32_t job = 0;
	struct spec *spec = spec_create();
	spec->array = calloc(ELEMENTS, sizeof *spec->array);
	for (uint32_t i = 0; spec->array && i < ELEMENTS; i++)
		spec->array[spec->n_array++] = i;
	spec->array_limit = LIMIT;
	json_t *said = spec_to_json(spec), *env = json_array();
	int rc = s ? spool_submit(s, SPOOL_FORMAT_WAITS, said, env, &job, NULL) : -1;
	json_decref(said);
	json_decref(env);
	spec_unref(spec);
	spool_close(s);
	return rc;
}

int main(int argc, char **argv)
{
	int kills = argc > 1 ? atoi(argv[1]) : 120, left = PILOTS, pause_us = argc > 3 ? atoi(argv[3]) * 1000 + 1 : 6000;
	unsigned seed = argc > 2 ? (unsigned)atoi(argv[2]) : (unsigned)getpid();
	pid_t pids[PILOTS];
	char command[200];
	if (argc > 5) {
		folders = argv + 5;
		n_folders = argc - 5;
	}
	snprintf(dir, sizeof dir, "%s/rad-gate.XXXXXX", argc > 5 ? argv[4] : "/tmp");
	board = mmap(NULL, sizeof *board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (board == MAP_FAILED || !mkdtemp(dir) || submit_array())
		return 1;
	printf("%d kills, seed %u\n", kills, seed);
	srand(seed);
	for (int i = 0; i < PILOTS; i++)
		pids[i] = start(i, seed + (unsigned)i);
	for (int i = 0; i < kills; i++) {
		int one = rand() % PILOTS;
		usleep((useconds_t)(rand() % pause_us));
		kill(pids[one], SIGKILL);
		waitpid(pids[one], NULL, 0);
		pids[one] = start(one, (unsigned)rand());
	}
	for (int64_t until = clock_mono_ms() + DEADLINE_S * 1000; left && clock_mono_ms() < until; usleep(5000))
		left -= waitpid(-1, NULL, WNOHANG) > 0;
	for (int i = 0; left && i < PILOTS; i++)
		kill(pids[i], SIGKILL);
	snprintf(command, sizeof command, "rm -rf %s", dir);
	int rc = check() || left;
	if (left)
		printf("%d did not come to an end, %s is kept\n", left, dir);
	return left ? 1 : system(command) ? 1 : rc;
}
