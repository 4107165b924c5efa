/* SPDX-License-Identifier: MIT
 * What an MLflow server answers, or whoever listens in its place: a line of input an answer, HTTP's code first; any bytes.
 */
#include "fuzz.h"

#include "base/alloc.h"
#include "base/json.h"
#include "base/scope.h"
#include "cli/track_answer.h"
#include "cli/track_mlflow.h"

#include <string.h>

static const char *answers, *answers_end;

/* In the place of the one that asks a server. */
json_t *track_http_call(struct track_http *h, const char *path, json_t *body, struct error *err)
{
	char *after;
	scoped_buf line = { 0 };
	const char *end = memchr(answers, '\n', (size_t)(answers_end - answers));
	end = end ? end : answers_end;
	buf_add(&line, answers, (size_t)(end - answers));
	answers = end < answers_end ? end + 1 : end;
	(void)h;
	FUZZ_HOLDS(*path);
	json_decref(body);
	long code = strtol(buf_text(&line), &after, 10);
	buf_drop(&line, (size_t)(after - buf_text(&line)));
	json_t *answer = track_answer("http://there", code, &line, err);
	FUZZ_HOLDS(answer ? json_is_object(answer) : err->code && *err->text);
	return answer;
}

char *track_http_escape(const char *text)
{
	return alloc_string(text);
}

static void check_entry(const struct track_entry *e)
{
	FUZZ_HOLDS(!e->run || *e->run);
	FUZZ_HOLDS(e->status && e->sent_ms >= 0);
}

static void one_round(struct track *t, struct track_entry *e)
{
	struct error err = ERROR_INIT;
	scoped_json *points = json_pack("[{ss, sf, sI}]", "key", "system/x", "value", 1.0, "timestamp", (json_int_t)20000);
	if (track_mlflow_ensure(t, e, &err)) {
		FUZZ_HOLDS(err.code && *err.text);
		return;
	}
	check_entry(e);
	FUZZ_HOLDS(e->run);
	if (track_mlflow_send(t, e, points, &err) || track_mlflow_tell(t, e, &err))
		FUZZ_HOLDS(err.code && *err.text);
	check_entry(e);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct track t = { .host = "here", .uid = -1 };
	struct error err = ERROR_INIT;
	scoped_json *task = json_pack("{ss, ss, ss, ss, s[{ss, ss, s[], ss}], s[s]}", "id", "7", "state", "COMPLETED", "submit_time",
				      "2026-01-01T00:00:00Z", "end_time", "2026-01-01T00:01:00Z", "attempts", "start",
				      "2026-01-01T00:00:10Z", "end", "2026-01-01T00:01:00Z", "gpus", "verdict", "ok", "argv", "true");
	struct track_entry e = { .key = "here/7", .task = task, .status = alloc_string("") };
	answers = (const char *)data;
	answers_end = answers + size;
	if (!track_mlflow_experiment(&t, "fuzz", &err))
		FUZZ_HOLDS(*t.experiment);
	else
		FUZZ_HOLDS(err.code && *err.text);
	if (t.experiment)
		for (int round = 0; round < 3 && answers < answers_end; round++)
			one_round(&t, &e);
	free(t.experiment);
	free(e.run);
	free(e.status);
	return 0;
}
