/* SPDX-License-Identifier: MIT
 * The comment by which a node tells the controller's side, and people, what became of a job. One line of ASCII without the
 * characters that scontrol would take apart. The count of restarts at its end says of which run it is: Slurm keeps the comment
 * when a job starts again. It stands in brackets, and the job's own words, which come before, have none.
 */
#include "helper.h"

#include "base/units.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_GPUS 1024

static void memory(char *out, size_t size, const json_t *mib)
{
	if (json_is_integer(mib))
		units_format_mib((double)json_integer_value(mib), out, size);
	else
		snprintf(out, size, "?");
}

void comment_write(char out[COMMENT_MAX], const json_t *task, const char *restarts, const char *node)
{
	const json_t *attempts = json_object_get(task, "attempts"), *last = json_array_get(attempts, json_array_size(attempts) - 1);
	const char *verdict = json_string_value(json_object_get(last, "verdict"));
	const char *evidence = json_string_value(json_object_get(last, "evidence")), *id = json_string_value(json_object_get(task, "id"));
	char peak[32], claim[32], gpus[32] = "", tail[128];
	size_t n = json_array_size(json_object_get(last, "gpus"));
	memory(peak, sizeof peak, json_object_get(last, "peak_mib"));
	memory(claim, sizeof claim, json_object_get(last, "claim_mib"));
	if (n > 1)
		snprintf(gpus, sizeof gpus, " gpus=%zu", n);
	snprintf(tail, sizeof tail, " [task %.20s on %.30s%s restarts=%.10s]", id ? id : "?", node, gpus, restarts);
	snprintf(out, COMMENT_MAX - strlen(tail), "rad: %s: peak %s of %s%s%s", verdict ? verdict : "none", peak, claim,
		 evidence ? "; " : "", evidence ? evidence : "");
	for (char *p = out; (p = strpbrk(p, "[]")); p++)
		*p = *p == '[' ? '(' : ')';
	strcat(out, tail);
	for (char *p = out; *p; p++)
		if (*p < ' ' || *p > '~' || strchr("'\"`\\|", *p))
			*p = ' ';
}

unsigned comment_oom_gpus(const char *comment, long restarts)
{
	const char *bracket = strchr(comment, '['), *count = bracket ? strstr(bracket, " restarts=") : NULL;
	const char *gpus = bracket ? strstr(bracket, " gpus=") : NULL;
	long n = gpus ? strtol(gpus + 6, NULL, 10) : 1;
	if (strncmp(comment, "rad: oom:", 9) || !count || strtol(count + 10, NULL, 10) != restarts)
		return 0;
	return n > 1 && n <= MOST_GPUS ? (unsigned)n : 1;
}
