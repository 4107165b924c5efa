/* SPDX-License-Identifier: MIT
 * See cpu_watch.h. Where the kernel does not count delays, schedstat is not there, or is all zeros.
 */
#include "launch/cpu_watch.h"

#include "base/alloc.h"
#include "base/proc_tree.h"
#include "base/scope.h"

#include <dirent.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define LOOK_MS 6000

/* All threads that may run on the same cores: what they did since the last look. */
struct cpu_place { cpu_set_t cores; uint64_t ran_ns, waited_ns; };

struct cpu_look {
	struct cpu_thread *threads;
	size_t n, cap;
	struct cpu_place *places;	/* a thread's `place` is one of them */
	unsigned n_places, cap_places;
	uint64_t ticks;
	bool told;		/* the kernel counts: a thread was seen to have got a core */
};

static void add_process(struct cpu_look *l, pid_t pid)
{
	char text[1024];
	struct proc_figures f;
	if (proc_read(pid, "stat", text, sizeof text) > 0 && proc_parse_stat(text, &f))
		l->ticks += f.cpu_ticks;
}

/* One that is gone, or may run on more cores than can be told, counts as pinned to none. */
static unsigned place_of(struct cpu_look *l, pid_t tid)
{
	cpu_set_t its;
	if (sched_getaffinity(tid, sizeof its, &its))
		memset(&its, 0xff, sizeof its);
	for (unsigned i = 0; i < l->n_places; i++)
		if (CPU_EQUAL(&l->places[i].cores, &its))
			return i;
	alloc_grow(l->places, l->n_places, l->cap_places);
	l->places[l->n_places] = (struct cpu_place){ .cores = its };
	return l->n_places++;
}

static void add_threads(struct cpu_look *l, pid_t pid)
{
	char path[40], text[80];
	struct dirent *entry;
	snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
	scoped_dir DIR *dir = opendir(path);
	while (dir && (entry = readdir(dir))) {
		unsigned long long ran, waited, times;
		struct cpu_thread t = { .tid = (pid_t)strtol(entry->d_name, NULL, 10) };
		snprintf(path, sizeof path, "task/%d/schedstat", (int)t.tid);
		if (t.tid <= 0 || proc_read(pid, path, text, sizeof text) <= 0 || sscanf(text, "%llu %llu %llu", &ran, &waited, &times) != 3)
			continue;
		t.ran_ns = ran;
		t.wait_ns = waited;
		t.place = place_of(l, t.tid);
		l->told = l->told || times;
		alloc_grow(l->threads, l->n, l->cap);
		l->threads[l->n++] = t;
	}
}

static int by_tid(const void *a, const void *b)
{
	pid_t x = ((const struct cpu_thread *)a)->tid, y = ((const struct cpu_thread *)b)->tid;
	return (x > y) - (x < y);
}

/* What each did since the last look; one that is new, or bears the number of another that ended, since it began. */
static void sum_places(const struct cpu_watch *w, struct cpu_look *l)
{
	for (size_t i = 0, k = 0; i < l->n; i++) {
		const struct cpu_thread *t = &l->threads[i], *before = NULL;
		struct cpu_place *p = &l->places[t->place];
		while (k < w->n_threads && w->threads[k].tid < t->tid)
			k++;
		if (k < w->n_threads && w->threads[k].tid == t->tid && w->threads[k].wait_ns <= t->wait_ns &&
		    w->threads[k].ran_ns <= t->ran_ns)
			before = &w->threads[k];
		p->ran_ns += t->ran_ns - (before ? before->ran_ns : 0);
		p->waited_ns += t->wait_ns - (before ? before->wait_ns : 0);
	}
}

static int64_t ms_of(const struct timeval *t)
{
	return (int64_t)t->tv_sec * 1000 + t->tv_usec / 1000;
}

/* A process that ends during a look may be missed by it, and is in the next one. */
static int64_t cpu_ms(const struct cpu_look *l)
{
	struct rusage ended;
	int64_t ms = (int64_t)(l->ticks * 1000 / (uint64_t)sysconf(_SC_CLK_TCK));
	return getrusage(RUSAGE_CHILDREN, &ended) ? ms : ms + ms_of(&ended.ru_utime) + ms_of(&ended.ru_stime);
}

/* Those of each place as far as they could have run more than they did, where they may use fewer cores than we: a program that
 * pins itself to one, with all that it starts, waits for no other. Those that have ended may have run there, too. */
static uint64_t waited_ns(const struct cpu_look *l, int64_t span_ms, int64_t took_ms)
{
	cpu_set_t ours;
	uint64_t ns = 0;
	int64_t ended_ns = took_ms * 1000000;
	int all = sched_getaffinity(0, sizeof ours, &ours) ? 0 : CPU_COUNT(&ours);
	for (unsigned i = 0; i < l->n_places; i++)
		ended_ns -= (int64_t)l->places[i].ran_ns;
	ended_ns = ended_ns > 0 ? ended_ns : 0;
	for (unsigned i = 0; i < l->n_places; i++) {
		const struct cpu_place *p = &l->places[i];
		int n = CPU_COUNT(&p->cores);
		int64_t could_ns = n * span_ms * 1000000 - (int64_t)p->ran_ns - ended_ns;
		if (n >= all || (int64_t)p->waited_ns < could_ns)
			ns += p->waited_ns;
		else
			ns += could_ns > 0 ? (uint64_t)could_ns : 0;
	}
	return ns;
}

void cpu_watch_look(struct cpu_watch *w, const struct cgroup *c, pid_t shim, int64_t mono_ms)
{
	struct cpu_look l = { 0 };
	if (!w->began_ms)
		w->began_ms = w->looked_ms = mono_ms;
	if (mono_ms - w->looked_ms < LOOK_MS)
		return;
	scoped_free pid_t *pids = NULL;
	size_t n = c->path[0] ? cgroup_members(c->path, &pids) : proc_descendants(shim, &pids);
	for (size_t i = 0; i < n; i++) {
		add_process(&l, pids[i]);
		add_threads(&l, pids[i]);
	}
	if (l.n)
		qsort(l.threads, l.n, sizeof *l.threads, by_tid);
	int64_t took = cpu_ms(&l), before = w->sums.cpu_ms;
	took = took > before ? took : before;
	sum_places(w, &l);
	w->wait_ns += waited_ns(&l, mono_ms - w->looked_ms, took - before);
	free(l.places);
	free(w->threads);
	w->threads = l.threads;
	w->n_threads = l.n;
	w->looked_ms = mono_ms;
	w->sums = (struct cpu_sums){ mono_ms - w->began_ms, took, l.told ? (int64_t)(w->wait_ns / 1000000) : -1 };
}
