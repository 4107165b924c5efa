/* SPDX-License-Identifier: MIT
 * See gather.h.
 */
#include "http/gather.h"

#include "base/alloc.h"
#include "http/ask.h"

#include <stdlib.h>

struct gather {
	gather_done done;
	void *ctx;
	uint64_t from_ns;
	size_t n, open;
	struct one { struct gather *gather; struct ask *ask; json_t *reply; } parts[GATHER_QUESTIONS];
	struct one *failed;	/* the first question, in their order, that was not answered, and why */
	struct error err;
};

void gather_drop(struct gather *g)
{
	if (!g)
		return;
	for (size_t i = 0; i < g->n; i++) {
		ask_drop(g->parts[i].ask);
		json_decref(g->parts[i].reply);
	}
	free(g);
}

static void on_answer(void *ctx, json_t *reply, const struct error *err)
{
	struct one *one = ctx;
	struct gather *g = one->gather;
	json_t *replies[GATHER_QUESTIONS] = { NULL };
	one->ask = NULL;
	one->reply = json_incref(reply);
	if (!reply && (!g->err.code || one < g->failed)) {
		g->err = *err;
		g->failed = one;
	}
	if (--g->open)
		return;
	for (size_t i = 0; i < g->n; i++)
		replies[i] = g->parts[i].reply;
	g->done(g->ctx, replies, g->err.code ? &g->err : NULL, (double)(uv_hrtime() - g->from_ns) / 1e9);
	gather_drop(g);
}

struct gather *gather_ask(uv_loop_t *loop, const char *socket, json_t *const requests[], size_t n, unsigned deadline_ms,
			  gather_done done, void *ctx)
{
	struct gather *g = alloc_zero(sizeof *g);
	g->done = done;
	g->ctx = ctx;
	g->from_ns = uv_hrtime();
	g->n = g->open = n;
	for (size_t i = 0; i < n; i++) {
		g->parts[i].gather = g;
		g->parts[i].ask = ask_radd(loop, socket, requests[i], deadline_ms, on_answer, &g->parts[i]);
	}
	return g;
}
