/* SPDX-License-Identifier: MIT
 * What Slurm's commands print: time left, jobs and their states (squeue, scontrol), and comments of jobs, which users may have
 * written; any bytes.
 */
#include "fuzz.h"

#include "base/alloc.h"
#include "base/json.h"
#include "base/scope.h"
#include "cli/pilot_slurm.h"

#include "slurm/comment.c"

static const struct pilot_who who = { .job = "42", .cluster = "here", .restarts = 1 };

static void check_left(const char *text)
{
	int64_t left = pilot_slurm_parse_left_ms(text), of = pilot_slurm_parse_left_of(text, who.job);
	FUZZ_HOLDS(left >= -1 && of >= -1);
	FUZZ_HOLDS(left == INT64_MAX || left % 1000 == 0 || left == -1);
	FUZZ_HOLDS(of < 0 || strstr(text, "42 "));
}

static void check_fate(const char *text)
{
	char word[40];
	enum pilot_slurm_fate ok = pilot_slurm_fate_of(text, true, &who, word);
	FUZZ_HOLDS(memchr(word, 0, sizeof word) && ok <= PILOT_SLURM_UNKNOWN);
	FUZZ_HOLDS(ok == PILOT_SLURM_UNKNOWN || strstr(text, "JobId=42"));
	enum pilot_slurm_fate failed = pilot_slurm_fate_of(text, false, &who, word);
	FUZZ_HOLDS(failed == PILOT_SLURM_UNKNOWN || (failed == PILOT_SLURM_GONE && strstr(text, "Invalid job id")));
}

static void check_jobs(const char *text)
{
	scoped_json *which = json_array();
	struct pilot_slurm_jobs jobs = { .which = which };
	pilot_slurm_parse_jobs(text, &jobs);
	FUZZ_HOLDS(jobs.waiting >= 0 && jobs.waiting <= jobs.there && json_array_size(which) <= (size_t)jobs.waiting);
	size_t i;
	json_t *id;
	json_array_foreach(which, i, id) {
		const char *number = json_string_value(id);
		FUZZ_HOLDS(number && *number && strspn(number, "0123456789") == strlen(number));
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	scoped_free char *text = alloc_zero(size + 1);
	memcpy(text, data, size);
	check_left(text);
	check_fate(text);
	check_jobs(text);
	unsigned gpus = comment_oom_gpus(text, 1);
	FUZZ_HOLDS(gpus <= MOST_GPUS && (!gpus || !strncmp(text, "rad: oom:", 9)));
	return 0;
}
