/* SPDX-License-Identifier: MIT
 * See exporter.h.
 */
#include "http/exporter.h"

#include "base/alloc.h"
#include "base/json.h"
#include "http/gather.h"
#include "http/metrics.h"
#include "submit/wire.h"

#include <microhttpd.h>
#include <stdlib.h>
#include <string.h>

#define FRESH_MS 1000		/* as often as GPUs are sampled */

struct exporter {
	uv_loop_t *loop;
	const char *socket;
	bool tasks, users;
	struct gather *gather;	/* under way */
	struct serve_call **waiting;
	size_t n_waiting, cap_waiting;
	uint64_t fresh_until_ms;
	struct buf text, open;	/* of the last one, in both forms */
};

static void answer(const struct exporter *e, struct serve_call *call)
{
	const char *accept = serve_header(call, "Accept");
	bool open = accept && strstr(accept, "application/openmetrics-text");
	const struct buf *b = open ? &e->open : &e->text;
	serve_answer(call, MHD_HTTP_OK, open ? METRICS_TYPE_OPEN : METRICS_TYPE_TEXT, b->data, b->len);
}

static void on_gathered(void *ctx, json_t *const replies[], const struct error *why, double took_s)
{
	struct exporter *e = ctx;
	const struct metrics m = {
		.status = replies[0], .gpus = replies[1], .users = e->users ? replies[2] : NULL,
			.tasks = e->tasks ? replies[2 + e->users] : NULL,
		.want_users = e->users, .want_tasks = e->tasks, .took_s = took_s,
	};
	(void)why;
	e->gather = NULL;
	e->fresh_until_ms = uv_now(e->loop) + FRESH_MS;
	buf_drop(&e->text, e->text.len);
	buf_drop(&e->open, e->open.len);
	metrics_write(&m, false, &e->text);
	metrics_write(&m, true, &e->open);
	for (size_t i = 0; i < e->n_waiting; i++)
		answer(e, e->waiting[i]);
	e->n_waiting = 0;
}

static json_t *list_request(void)
{
	json_t *request = wire_request("list");
	json_object_set_new(request, "members", json_pack("[s, s, s, s, s, s, s, s, s, s]", "id", "name", "user", "state", "run_s",
		"gpus_requested", "slowdown", "estimate", "attempts", "progress"));
	return request;
}

static void ask(struct exporter *e)
{
	json_t *requests[GATHER_QUESTIONS] = { wire_request("status"), wire_request("gpus") };
	size_t n = 2;
	if (e->users)
		requests[n++] = wire_request("users");
	if (e->tasks)
		requests[n++] = list_request();
	e->gather = gather_ask(e->loop, e->socket, requests, n, EXPORTER_DEADLINE_MS, on_gathered, e);
}

static void on_metrics(void *ctx, struct serve_call *call)
{
	struct exporter *e = ctx;
	if (e->text.len && uv_now(e->loop) < e->fresh_until_ms) {
		answer(e, call);
		return;
	}
	alloc_grow(e->waiting, e->n_waiting, e->cap_waiting);
	e->waiting[e->n_waiting++] = call;
	if (!e->gather)
		ask(e);
}

static void on_root(void *ctx, struct serve_call *call)
{
	static const char page[] = "<!DOCTYPE html><html lang=en><meta charset=utf-8><title>rad exporter</title>"
		"<p>rad exporter " RAD_VERSION ": <a href=/metrics>metrics</a>\n";
	(void)ctx;
	serve_answer(call, MHD_HTTP_OK, "text/html; charset=utf-8", page, strlen(page));
}

const struct serve_route exporter_routes[] = {
	{ "/metrics", .run = on_metrics }, { "/", .run = on_root }, { 0 },
};

struct exporter *exporter_create(uv_loop_t *loop, const char *socket, bool tasks, bool users)
{
	struct exporter *e = alloc_zero(sizeof *e);
	e->loop = loop;
	e->socket = socket;
	e->tasks = tasks;
	e->users = users;
	return e;
}

void exporter_stop(struct exporter *e)
{
	gather_drop(e->gather);
	e->gather = NULL;
	for (size_t i = 0; i < e->n_waiting; i++)
		serve_fail(e->waiting[i], MHD_HTTP_SERVICE_UNAVAILABLE, "the exporter is ending");
	e->n_waiting = 0;
}

void exporter_destroy(struct exporter *e)
{
	free(e->waiting);
	buf_free(&e->text);
	buf_free(&e->open);
	free(e);
}
