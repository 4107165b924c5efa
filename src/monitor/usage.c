/* SPDX-License-Identifier: MIT
 *
 * Processes' use of the machine: counters of /proc, added up over trees. Each counter holds what children took that have been
 * waited for, so that a sum over a tree goes on when one of it ends.
 */
#include "monitor/usage.h"

#include "base/alloc.h"
#include "base/io.h"
#include "base/proc_tree.h"
#include "base/scope.h"
#include "base/units.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define SEARCH_MS 500		/* between two searches, but at the beginning, when programs start what they consist of */
#define YOUNG_MS 3000
#define MAX_TABLE ((size_t)1 << 20)	/* bytes of a file in /proc: one of a host of containers has a line for each interface */

enum { CPU_S, READ_MIB, WRITE_MIB, RX_MIB, TX_MIB, COUNTERS };

struct usage_tree {
	struct proc_id root;
	bool wanted;			/* by the look at hand */
	int64_t looked_ms;		/* 0: never */
	double counted[COUNTERS];	/* then; NaN: not known */
	struct usage_figures figures;
};

struct usage_member { struct proc_id id; size_t tree; };

struct usage {
	struct usage_tree *trees;
	size_t n, cap;
	struct usage_member *members;	/* of all trees */
	size_t n_members, cap_members;
	int64_t searched_ms;		/* 0: never, or the trees are others by now */
	int64_t newest_ms;		/* when the last tree was added */
};

static const struct usage_figures nothing_known = { NAN, NAN, NAN, NAN, NAN, NAN };

struct usage *usage_create(void)
{
	return alloc_zero(sizeof(struct usage));
}

void usage_destroy(struct usage *u)
{
	if (!u)
		return;
	free(u->trees);
	free(u->members);
	free(u);
}

/* Searching --------------------------------------------------------------------------------------------------------------- */

static struct usage_tree *tree_of(const struct usage *u, struct proc_id root)
{
	for (size_t i = 0; i < u->n; i++)
		if (proc_same(u->trees[i].root, root))
			return &u->trees[i];
	return NULL;
}

/* That of the process itself or of its nearest ancestor with one. NULL: it is of none. */
static const struct usage_tree *tree_above(const struct usage *u, const struct proc_tree *all, const struct proc_node *p)
{
	for (int depth = 0; p && depth < 64; depth++) {
		const struct usage_tree *t = tree_of(u, p->seen.id);
		if (t)
			return t;
		p = proc_tree_find(all, p->seen.parent);
	}
	return NULL;
}

static void search_members(struct usage *u)
{
	scoped_proc_tree struct proc_tree all;
	proc_tree_read(&all);
	u->n_members = 0;
	for (size_t i = 0; i < all.n; i++) {
		const struct usage_tree *t = tree_above(u, &all, &all.all[i]);
		if (!t)
			continue;
		alloc_grow(u->members, u->n_members, u->cap_members);
		u->members[u->n_members++] = (struct usage_member){ all.all[i].seen.id, (size_t)(t - u->trees) };
	}
}

/* Counting ---------------------------------------------------------------------------------------------------------------- */

/* A file of /proc/PID as text; "" where there is nothing to be seen. */
static const char *read_text(pid_t pid, const char *name, struct buf *text)
{
	char path[48];
	snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, name);
	text->len = 0;
	return io_read_file(path, MAX_TABLE, text, NULL) ? "" : buf_text(text);
}

static bool count_stat(const struct usage_member *m, struct buf *text, double *cpu_s, double *rss_mib)
{
	struct proc_figures f;
	if (!proc_parse_stat(read_text(m->id.pid, "stat", text), &f) || f.start_ticks != m->id.start_ticks)
		return false;
	*cpu_s += (double)f.cpu_ticks / (double)sysconf(_SC_CLK_TCK);
	*rss_mib += (double)f.rss_pages * (double)sysconf(_SC_PAGESIZE) / (double)MIB;
	return true;
}

/* Adds the number behind that name; makes the sum not known where it is not told. */
static void add_named(const char *text, const char *name, double *sum)
{
	const char *line = strstr(text, name);
	*sum = line ? *sum + (double)strtoull(line + strlen(name), NULL, 10) / (double)MIB : NAN;
}

/* Two lines of headings, then "  NAME: bytes packets and six more of what came, then the same of what went". */
static void count_net(pid_t pid, struct buf *text, double *rx_mib, double *tx_mib)
{
	const char *line = strchr(read_text(pid, "net/dev", text), '\n');
	unsigned long long rx, tx;
	*rx_mib = *tx_mib = line ? 0 : NAN;
	while (line && (line = strchr(line + 1, '\n'))) {
		const char *name = line + 1 + strspn(line + 1, " "), *colon = strchr(name, ':');
		if (!colon || !strncmp(name, "lo:", 3) ||
		    sscanf(colon + 1, "%llu %*u %*u %*u %*u %*u %*u %*u %llu", &rx, &tx) != 2)
			continue;
		*rx_mib += (double)rx / (double)MIB;
		*tx_mib += (double)tx / (double)MIB;
	}
}

static double rate(const double *before, const double *after, int which, double s)
{
	double per_s = (after[which] - before[which]) / s;
	return per_s < 0 ? 0 : per_s;	/* of a NaN it stays one */
}

static void take_figures(struct usage_tree *t, const double counted[COUNTERS], double rss_mib, int64_t mono_ms)
{
	double s = t->looked_ms && mono_ms > t->looked_ms ? (double)(mono_ms - t->looked_ms) / 1000 : NAN;
	const double *was = t->counted;
	t->figures = (struct usage_figures){
		.cores = rate(was, counted, CPU_S, s), .rss_mib = rss_mib,
		.read_mib_s = rate(was, counted, READ_MIB, s), .write_mib_s = rate(was, counted, WRITE_MIB, s),
		.net_rx_mib_s = rate(was, counted, RX_MIB, s), .net_tx_mib_s = rate(was, counted, TX_MIB, s),
	};
	memcpy(t->counted, counted, COUNTERS * sizeof *counted);
	t->looked_ms = mono_ms;
}

static void look_at_tree(struct usage *u, size_t at, int64_t mono_ms)
{
	scoped_buf text = { 0 };
	double counted[COUNTERS] = { 0 }, rss_mib = 0;
	bool any = false;
	for (size_t i = 0; i < u->n_members; i++) {
		if (u->members[i].tree != at || !count_stat(&u->members[i], &text, &counted[CPU_S], &rss_mib))
			continue;
		any = true;
		const char *io = read_text(u->members[i].id.pid, "io", &text);
		add_named(io, "\nread_bytes: ", &counted[READ_MIB]);
		add_named(io, "\nwrite_bytes: ", &counted[WRITE_MIB]);
	}
	count_net(u->trees[at].root.pid, &text, &counted[RX_MIB], &counted[TX_MIB]);
	if (any)
		take_figures(&u->trees[at], counted, rss_mib, mono_ms);
	else
		u->trees[at].figures = nothing_known;
}

void usage_look(struct usage *u, const struct proc_id *processes, size_t n, int64_t mono_ms)
{
	size_t kept = 0;
	for (size_t i = 0; i < n; i++) {
		struct usage_tree *t = tree_of(u, processes[i]);
		if (!t) {
			alloc_grow(u->trees, u->n, u->cap);
			t = &u->trees[u->n++];
			*t = (struct usage_tree){ .root = processes[i], .figures = nothing_known };
			u->searched_ms = 0;
			u->newest_ms = mono_ms;
		}
		t->wanted = true;
	}
	for (size_t i = 0; i < u->n; i++) {
		if (u->trees[i].wanted)
			u->trees[kept++] = u->trees[i];
		else
			u->searched_ms = 0;
	}
	u->n = kept;
	if (!u->searched_ms || mono_ms - u->searched_ms >= SEARCH_MS || mono_ms - u->newest_ms < YOUNG_MS) {
		search_members(u);
		u->searched_ms = mono_ms;
	}
	for (size_t i = 0; i < u->n; i++) {
		u->trees[i].wanted = false;
		look_at_tree(u, i, mono_ms);
	}
}

struct usage_figures usage_of(const struct usage *u, struct proc_id process)
{
	const struct usage_tree *t = tree_of(u, process);
	return t ? t->figures : nothing_known;
}
