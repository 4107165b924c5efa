/* SPDX-License-Identifier: MIT
 * Reads job logs: Philly's JSON and CSV lists. The logs come from outside, so every member is checked before it is used.
 */
#include "sim/import.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/io.h"
#include "base/json.h"
#include "base/scope.h"
#include "base/units.h"
#include "sim/csv.h"

#include <math.h>
#include <string.h>

#define MOST_S 1e9
#define MOST_GPUS 4096

/* "2017-10-09 07:02:38", with a T or a space, or a number of seconds. */
static int read_time(const char *text, int64_t *ms)
{
	char iso[32];
	double s;
	if (!units_parse_double(text, 0, 1e11, &s, NULL)) {
		*ms = (int64_t)floor(s * 1000 + 0.5);
		return 0;
	}
	size_t len = strlen(text);
	if (len >= sizeof iso)
		return -1;
	memcpy(iso, text, len + 1);
	if (len > 10 && iso[10] == ' ')
		iso[10] = 'T';
	return clock_parse_iso(iso, ms);
}

static void add_job(struct import_log *log, int64_t submit_ms, int64_t ran_ms, unsigned gpus)
{
	if (!gpus || ran_ms <= 0) {
		log->left_out++;
		return;
	}
	alloc_grow(log->jobs, log->n, log->cap);
	log->jobs[log->n++] = (struct import_job){ submit_ms, ran_ms, gpus };
}

/* Philly ------------------------------------------------------------------------------------------------------------------- */

static unsigned gpus_of(const json_t *attempt)
{
	const json_t *machine;
	size_t i, sum = 0;
	json_array_foreach(json_object_get(attempt, "detail"), i, machine)
		sum += json_array_size(json_object_get(machine, "gpus"));
	return sum <= MOST_GPUS ? (unsigned)sum : 0;
}

/* Attempts without a start or an end did not run. */
static void read_philly_job(struct import_log *log, const json_t *job)
{
	const char *submitted = json_string_value(json_object_get(job, "submitted_time"));
	const json_t *attempt;
	int64_t submit_ms, ran_ms = 0;
	unsigned gpus = 0;
	size_t i;
	if (!submitted || read_time(submitted, &submit_ms)) {
		log->left_out++;
		return;
	}
	json_array_foreach(json_object_get(job, "attempts"), i, attempt) {
		const char *from = json_string_value(json_object_get(attempt, "start_time"));
		const char *to = json_string_value(json_object_get(attempt, "end_time"));
		int64_t from_ms, to_ms;
		if (!from || !to || read_time(from, &from_ms) || read_time(to, &to_ms) || to_ms < from_ms)
			continue;
		ran_ms += to_ms - from_ms;
		gpus = gpus_of(attempt) > gpus ? gpus_of(attempt) : gpus;
	}
	add_job(log, submit_ms, ran_ms, gpus);
}

static int read_philly(struct import_log *log, const char *path, const struct buf *text, struct error *err)
{
	json_error_t problem;
	scoped_json *jobs = json_loadb(text->data, text->len, 0, &problem);
	const json_t *job;
	size_t i;
	if (!jobs)
		return error_set(err, ERR_INVALID, "%s:%d: is not JSON: %s", path, problem.line, problem.text);
	if (!json_is_array(jobs))
		return error_set(err, ERR_INVALID, "%s: is not a list of jobs", path);
	json_array_foreach(jobs, i, job)
		read_philly_job(log, job);
	return 0;
}

/* CSV ---------------------------------------------------------------------------------------------------------------------- */

enum { SUBMIT, DURATION, GPUS, N_COLUMNS };
static const char *const column_names[N_COLUMNS] = { "submit", "duration_s", "gpus" };

static int read_csv_job(struct import_log *log, struct csv *c, const int at[N_COLUMNS], struct error *err)
{
	int64_t submit_ms, gpus;
	double ran_s;
	if (read_time(c->fields[at[SUBMIT]], &submit_ms)) {
		error_set(err, ERR_INVALID, "submit: '%.40s' is neither seconds nor a date such as 2017-10-09 07:02:38",
			  c->fields[at[SUBMIT]]);
		return csv_wrong(c, err);
	}
	if (units_parse_double(c->fields[at[DURATION]], 0, MOST_S, &ran_s, err)) {
		error_wrap(err, "duration_s");
		return csv_wrong(c, err);
	}
	if (units_parse_int(c->fields[at[GPUS]], 0, MOST_GPUS, &gpus, err)) {
		error_wrap(err, "gpus");
		return csv_wrong(c, err);
	}
	add_job(log, submit_ms, (int64_t)floor(ran_s * 1000 + 0.5), (unsigned)gpus);
	return 0;
}

static int read_csv(struct import_log *log, const char *path, const struct buf *text, const char *map, struct error *err)
{
	struct csv c;
	int at[N_COLUMNS], rc = csv_open_text(&c, path, text->data ? text->data : "", text->len, err);
	if (!rc)
		rc = csv_columns(&c, column_names, N_COLUMNS, N_COLUMNS, map, at, err);
	while (!rc && (rc = csv_next(&c, err)) > 0)
		rc = read_csv_job(log, &c, at, err);
	csv_clear(&c);
	return rc;
}

static int by_submission(const void *x, const void *y)
{
	const struct import_job *a = x, *b = y;
	if (a->submit_ms != b->submit_ms)
		return a->submit_ms < b->submit_ms ? -1 : 1;
	if (a->ran_ms != b->ran_ms)
		return a->ran_ms < b->ran_ms ? -1 : 1;
	return (a->gpus > b->gpus) - (a->gpus < b->gpus);
}

int import_read(struct import_log *log, const char *path, const char *map, struct error *err)
{
	scoped_buf text = { 0 };
	*log = (struct import_log){ 0 };
	if (io_read_file(path, CSV_MAX_FILE, &text, err))
		return -1;
	size_t blank = strspn(buf_text(&text), " \t\r\n");
	bool json = text.len > blank && text.data[blank] == '[';
	if (json ? read_philly(log, path, &text, err) : read_csv(log, path, &text, map, err))
		return -1;
	if (!log->n)
		return error_set(err, ERR_INVALID, "%s: holds no job that ran on a GPU (%zu did not)", path, log->left_out);
	qsort(log->jobs, log->n, sizeof *log->jobs, by_submission);
	int64_t first_ms = log->jobs[0].submit_ms;
	for (size_t i = 0; i < log->n; i++)
		log->jobs[i].submit_ms -= first_ms;
	return 0;
}
