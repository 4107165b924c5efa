/* SPDX-License-Identifier: MIT
 * An event log as it lies in a damaged store: lines "KIND JSON". Whatever is accepted leaves a task whose times add up, and an event
 * that was read is written so that it reads the same.
 */
#include "fuzz.h"

#include "base/alloc.h"
#include "base/json.h"
#include "base/scope.h"
#include "task/task.h"

#include <math.h>
#include <string.h>

static void check_times(const struct task *t, int64_t now_ms)
{
	struct task_times times = task_times(t, now_ms);
	FUZZ_HOLDS(fabs(times.jct_s - (times.wait_s + times.held_s + times.run_s + times.suspended_s)) < 0.002);
}

static void check_same(enum event_kind kind, const struct event *ev)
{
	struct event again = { .task = ev->task, .t_ms = ev->t_ms, .kind = kind };
	scoped_json *first = event_to_json(ev);
	FUZZ_HOLDS(first);
	FUZZ_HOLDS(!event_from_json(kind, first, &again, NULL));
	scoped_json *second = event_to_json(&again);
	FUZZ_HOLDS(json_equal(first, second));
	event_clear(&again);
}

static void take_line(struct task *t, char *line, int64_t *now_ms)
{
	char *body = strchr(line, ' ');
	struct error err;
	if (!body)
		return;
	*body++ = 0;
	for (int k = 0; k < EVENT_KIND_COUNT; k++) {
		struct event ev = { .task = t->id, .kind = (enum event_kind)k, .t_ms = *now_ms };
		if (strcmp(line, event_kind_name((enum event_kind)k)))
			continue;
		scoped_json *json = json_loads(body, 0, NULL);
		if (!json || event_from_json(ev.kind, json, &ev, &err))
			return;
		check_same(ev.kind, &ev);
		*now_ms += 1000;
		task_apply(t, &ev, &err);
		event_clear(&ev);
		return;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	scoped_free char *text = alloc_zero(size + 1);
	struct task *t = task_create(TASK_ID(1, -1), spec_create());
	int64_t now_ms = 1000000;
	memcpy(text, data, size);
	for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"))
		take_line(t, line, &now_ms);
	check_times(t, now_ms);
	scoped_json *told = task_to_json(t, now_ms);
	FUZZ_HOLDS(told);
	task_destroy(t);
	return 0;
}
