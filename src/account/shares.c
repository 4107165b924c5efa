/* SPDX-License-Identifier: MIT
 * See shares.h. For each GPU the time that a task there alone or in company was given is summed from the beginning: a span's
 * share is what that sum grew by between its two ends.
 */
#include "account/shares.h"

#include "base/alloc.h"

#include <stdbool.h>
#include <stdlib.h>

struct shares_edge { unsigned gpu; int64_t ms; bool begins; struct shares_span *span; };

/* By GPU and time; at one moment ends come first. */
static int compare(const void *a, const void *b)
{
	const struct shares_edge *x = a, *y = b;
	if (x->gpu != y->gpu)
		return x->gpu < y->gpu ? -1 : 1;
	if (x->ms != y->ms)
		return x->ms < y->ms ? -1 : 1;
	return x->begins - y->begins;
}

void shares_split(struct shares_span *list, size_t n)
{
	struct shares_edge *edges = alloc_zero((2 * n + 1) * sizeof *edges);
	size_t m = 0, present = 0;
	double given_ms = 0;	/* to each that was there all the time */
	for (size_t i = 0; i < n; i++) {
		list[i].share_s = 0;
		if (list[i].to_ms <= list[i].from_ms)
			continue;
		edges[m++] = (struct shares_edge){ list[i].gpu, list[i].from_ms, true, &list[i] };
		edges[m++] = (struct shares_edge){ list[i].gpu, list[i].to_ms, false, &list[i] };
	}
	qsort(edges, m, sizeof *edges, compare);
	for (size_t i = 0; i < m; i++) {
		const struct shares_edge *e = &edges[i];
		if (present)	/* then the edge before is of the same GPU */
			given_ms += (double)(e->ms - e[-1].ms) / (double)present;
		present += e->begins ? 1 : -1;
		e->span->share_s += (e->begins ? -given_ms : given_ms) / 1000;
		if (!present)
			given_ms = 0;	/* small again, and exact */
	}
	free(edges);
}
