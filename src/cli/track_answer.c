/* SPDX-License-Identifier: MIT
 * See track_answer.h.
 */
#include "cli/track_answer.h"

#include "base/json.h"
#include "base/scope.h"

#include <string.h>

/* What the server says of a refusal: MLflow's own words where there are any. */
static int refused(const char *base, long code, const json_t *answer, struct error *err)
{
	const char *word = json_string_value(json_object_get(answer, "error_code"));
	const char *text = json_string_value(json_object_get(answer, "message"));
	enum error_code kind = code == 401 || code == 403 ? ERR_DENIED
			     : !word || code == 429 || code >= 500 || code == 408 ? ERR_UNAVAILABLE
			     : !strcmp(word, "RESOURCE_ALREADY_EXISTS") ? ERR_CONFLICT
			     : !strcmp(word, "RESOURCE_DOES_NOT_EXIST") ? ERR_NOT_FOUND : ERR_INVALID;
	if (kind == ERR_DENIED)
		return error_set(err, kind, "%.200s: answers %ld: it does not let you in: see MLFLOW_TRACKING_USERNAME and _PASSWORD, or "
				 "MLFLOW_TRACKING_TOKEN", base, code);
	return error_set(err, kind, "%.200s: answers %ld%s%.300s", base, code, text ? ": " : ", not as an MLflow server does",
			 text ? text : "");
}

json_t *track_answer(const char *base, long code, const struct buf *bytes, struct error *err)
{
	json_error_t why;
	scoped_json *answer = json_loadb(buf_text(bytes), bytes->len, 0, &why);
	if (code != 200) {
		refused(base, code, answer, err);
		return NULL;
	}
	if (!json_is_object(answer)) {
		error_set(err, ERR_UNAVAILABLE, "%.200s: answers, but not as an MLflow server does", base);
		return NULL;
	}
	return json_incref(answer);
}
