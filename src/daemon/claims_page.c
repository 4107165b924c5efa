/* SPDX-License-Identifier: MIT
 * The text of claims: see claims_page.h. Others may have written anything: every number is cut to what it may be, and a line
 * that is none of ours is passed over.
 */
#include "daemon/claims_page.h"

#include "base/alloc.h"
#include "base/crc.h"
#include "base/least.h"
#include "base/scope.h"

#include <stdio.h>
#include <string.h>

#define MAX_TASKS 100000u

/* As text, which an administrator can read, and a later release can add to: what comes behind the known members of a row is
 * passed over. The sum at the end is over all before it, so a page that is half written is told from a whole one. */
void claims_page_write(const struct claims_page *page, struct buf *out)
{
	size_t from = out->len;
	buf_printf(out, "rad-claims 1 %ld %llu %llu\n", (long)page->owner.pid, (unsigned long long)page->owner.start_ticks,
		   (unsigned long long)page->space);
	for (size_t i = 0; i < page->n; i++) {
		const struct core_claim *c = &page->rows[i];
		const struct claims_runs *r = &page->runs[i];
		buf_printf(out, "%s %u %llu %llu %u", c->uuid, (unsigned)c->uid, (unsigned long long)least_of(c->held_mib, CLAIMS_MIB),
			   (unsigned long long)least_of(c->observed_mib, CLAIMS_MIB), (unsigned)least_of(c->n_tasks, MAX_TASKS));
		for (unsigned k = 0; k < r->n; k++)
			buf_printf(out, "%c%ld:%llu", k ? ',' : ' ', (long)r->id[k].pid, (unsigned long long)r->id[k].start_ticks);
		buf_add_text(out, "\n");
	}
	buf_printf(out, "end %08x\n", (unsigned)crc_of(out->data + from, out->len - from));
}

/* A format of another number is no page: its rows may mean something else. */
static bool read_head(const char *line, struct claims_page *p)
{
	long pid;
	unsigned long long start, space;
	if (sscanf(line, "rad-claims 1 %10ld %20llu %20llu", &pid, &start, &space) != 3 || pid <= 0 || pid > INT32_MAX)
		return false;
	p->owner = (struct proc_id){ (pid_t)pid, start };
	p->space = space;
	return true;
}

/* The first that is no process ends the list: what stands behind it cannot be trusted either. Never pid 1 or below: a claim
 * that names one that cannot end would hold memory until the machine stops. */
static void read_runs(const char *text, struct claims_runs *r)
{
	long pid;
	unsigned long long start;
	for (int used = 0; r->n < CLAIMS_RUNS && sscanf(text, "%10ld:%20llu%n", &pid, &start, &used) == 2; text += used + 1) {
		if (pid <= 1 || pid > INT32_MAX)
			return;
		r->id[r->n++] = (struct proc_id){ (pid_t)pid, start };
		if (text[used] != ',')
			return;
	}
}

/* No row begins with the word that ends all of them. */
static void read_row(const char *line, struct claims_page *p)
{
	struct core_claim c = { .uuid = "" };
	unsigned uid, tasks;
	unsigned long long held, used;
	int rest = 0;
	if (p->n == CLAIMS_ROWS ||
	    sscanf(line, "%63s %10u %19llu %19llu %9u%n", c.uuid, &uid, &held, &used, &tasks, &rest) != 5 || !strcmp(c.uuid, "end"))
		return;
	c.uid = (uid_t)uid;
	c.held_mib = least_of(held, CLAIMS_MIB);
	c.observed_mib = least_of(used, CLAIMS_MIB);
	c.n_tasks = (unsigned)least_of(tasks, MAX_TASKS);
	if (line[rest] == ' ')
		read_runs(line + rest + 1, &p->runs[p->n]);
	p->rows[p->n++] = c;
}

/* Whole or not at all: *out is written when everything holds. */
int claims_page_read(const char *text, size_t n, struct claims_page *out)
{
	scoped_free char *copy = alloc_zero(n + 1);
	scoped_free struct claims_page *p = alloc_zero(sizeof *p);
	unsigned crc;
	memcpy(copy, text, n);
	char *end = strstr(copy, "\nend ");
	if (!end || sscanf(end + 5, "%8x", &crc) != 1 || crc != crc_of(copy, (size_t)(end + 1 - copy)))
		return -1;
	*end = 0;
	char *rest = copy, *line = strsep(&rest, "\n");
	if (!read_head(line, p))
		return -1;
	while ((line = strsep(&rest, "\n")))
		read_row(line, p);
	*out = *p;
	return 0;
}

/* The row that a shim's claim counts to: its GPU's and user's; where several users count as one, the GPU's last. `n`: none. */
static size_t row_of(const struct claims_run *run, const struct core_claim *rows, size_t n)
{
	size_t last = n;
	for (size_t i = 0; i < n; i++) {
		if (strcmp(rows[i].uuid, run->uuid))
			continue;
		if (rows[i].uid == run->uid)
			return i;
		last = i;
	}
	return last;
}

void claims_page_name_runs(const struct core_claim *rows, size_t n, const struct claims_run *runs, size_t n_runs,
			   struct claims_runs *out)
{
	for (size_t i = n_runs; i--;) {
		size_t k = row_of(&runs[i], rows, n);
		if (k < n && out[k].n < CLAIMS_RUNS)
			out[k].id[out[k].n++] = runs[i].shim;
	}
}
