/* SPDX-License-Identifier: MIT
 * The report as JSON and as CSV.
 */
#include "account/report_internal.h"

#include "base/json.h"
#include "base/words.h"

#include <math.h>

/* JSON -------------------------------------------------------------------------------------------------------------------- */

static json_t *attempt_json(const struct report_attempt *a)
{
	json_t *gpus = json_array();
	for (unsigned i = 0; i < a->n_gpus; i++)
		json_array_append_new(gpus, json_integer(a->gpus[i]));
	json_t *o = json_pack("{so, so, so, ss, ss, so, so, so, so, so, so}", "start_s", json_round3(a->start_s), "end_s",
		json_round3(a->end_s), "gpus", gpus, "mode", a->mode, "verdict", a->verdict,
		"evidence", json_text_or_null(a->evidence), "claim_mib", json_round3(a->claim_mib),
		"peak_mib", json_round3(a->peak_mib), "mean_smact", json_round3(a->mean_smact),
		"energy_j", json_round3(a->energy_j), "gpu_s", json_round3(a->gpu_s));
	json_t *shares = a->share_s ? json_array() : json_null();
	for (unsigned i = 0; a->share_s && i < a->n_gpus; i++)
		json_array_append_new(shares, json_round3(a->share_s[i]));
	json_object_set_new(o, "gpu_share_s", shares);
	return o;
}

static json_t *task_json(const struct report_task *t)
{
	json_t *attempts = json_array();
	for (size_t i = 0; i < t->n_attempts; i++)
		json_array_append_new(attempts, attempt_json(&t->attempts[i]));
	return json_pack("{ss, ss, ss, ss, so, so, so, so, so, so, s{ss, so}, so}", "id", t->id, "name", t->name, "user", t->user,
		"state", t->state, "submit_s", json_round3(t->submit_s), "wait_s", json_round3(t->wait_s),
		"held_s", json_round3(t->held_s), "exec_s", json_round3(t->exec_s), "lost_s", json_round3(t->lost_s),
		"jct_s", json_round3(t->jct_s), "estimate", "estimator", t->estimator, "claim_mib", json_round3(t->claim_mib),
		"attempts", attempts);
}

static json_t *gpu_json(const struct report_gpu *g)
{
	char number[GPU_NUMBER_LEN];
	return json_pack("{si, ss, ss, ss, so}", "index", (int)g->index, "number", report_gpu_number(g, number),
			 "uuid", g->uuid, "name", g->name ? g->name : "",
			 "mem_total_mib", json_int_or_null((json_int_t)g->mem_total_mib, g->mem_total_mib != 0));
}

static json_t *series_json(const struct series *s, const char *of, size_t number)
{
	json_t *o = json_pack("{sI, so}", of, (json_int_t)number, "from_s", json_round3((double)s->origin_ms / 1000));
	scoped_json *values = series_to_json(s);
	json_object_update(o, values);
	return o;
}

static json_t *totals_json(const struct report_run *run)
{
	json_t *o = json_object();
	for (size_t i = 0; i < REPORT_TOTAL_COUNT; i++)
		json_object_set_new(o, report_total_names[i], json_round3(report_total(run, (enum report_total)i)));
	return o;
}

static json_t *run_json(const struct report_run *run, size_t max_tasks, size_t max_gpus)
{
	json_t *gpus = json_array(), *tasks = json_array(), *all = json_array();
	for (size_t i = 0; i < run->n_gpus; i++) {
		json_array_append_new(gpus, gpu_json(&run->gpus[i]));
		if (run->gpus[i].series.n && i < max_gpus)
			json_array_append_new(all, series_json(&run->gpus[i].series, "gpu", i));
	}
	size_t first = run->n_tasks > max_tasks ? run->n_tasks - max_tasks : 0;
	for (size_t i = first; i < run->n_tasks; i++)
		json_array_append_new(tasks, task_json(&run->tasks[i]));
	json_t *processes = json_array();
	for (size_t i = 0; i < run->n_processes; i++) {
		json_array_append_new(processes, json_text(run->processes[i].name));
		if (i < max_gpus)
			json_array_append_new(all, series_json(&run->processes[i].series, "process", i));
	}
	json_t *o = json_pack("{ss, so, so, so, so, so, so, so}", "name", run->name, "note", json_text_or_null(buf_text(&run->note)),
			 "origin", json_time_or_null(run->origin_ms), "made", json_time_or_null(run->made_ms), "gpus", gpus,
			 "totals", totals_json(run), "tasks", tasks, "series", all);
	json_object_set_new(o, "processes", processes);
	if (first)
		json_object_set_new(o, "tasks_left_out", json_integer((json_int_t)first));
	return o;
}

json_t *report_json_cut(const struct report *r, size_t max_tasks, size_t max_gpus)
{
	json_t *runs = json_array();
	for (size_t i = 0; i < r->n; i++)
		json_array_append_new(runs, run_json(r->runs[i], max_tasks, max_gpus));
	return json_pack("{si, ss, so, so}", "schema", 1, "title", r->title, "made", json_time_or_null(r->made_ms), "runs", runs);
}

json_t *report_json(const struct report *r)
{
	return report_json_cut(r, SIZE_MAX, SIZE_MAX);
}

/* CSV --------------------------------------------------------------------------------------------------------------------- */

static void add_number(struct buf *b, double v)
{
	if (isfinite(v))
		buf_printf(b, ",%.12g", round(v * 1000) / 1000);
	else
		buf_add_text(b, ",");
}

static void add_texts(struct buf *b, const char *const *texts, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (i)
			buf_add_text(b, ",");
		words_add_csv(b, texts[i]);
	}
}

/* "0;2": as `rad gpus` counts them. */
static void add_gpus(struct buf *b, const struct report_run *run, const struct report_attempt *a)
{
	char number[GPU_NUMBER_LEN];
	buf_add_text(b, ",");
	for (unsigned i = 0; i < a->n_gpus; i++)
		buf_printf(b, "%s%s", i ? ";" : "", report_gpu_number(&run->gpus[a->gpus[i]], number));
}

static void csv_row(struct buf *b, const struct report_run *run, const struct report_task *t, size_t k)
{
	static const struct report_attempt none = { NAN, NAN, NULL, 0, "", "", "", NAN, NAN, NAN, NAN, NAN, NULL };
	const struct report_attempt *a = k < t->n_attempts ? &t->attempts[k] : &none;
	add_texts(b, (const char *const[]){ run->name, t->id, t->name, t->user, t->state }, 5);
	const double times[] = { t->submit_s, t->wait_s, t->held_s, t->exec_s, t->lost_s, t->jct_s, t->claim_mib,
				 t->n_attempts ? (double)k + 1 : NAN, a->start_s, a->end_s };
	for (size_t i = 0; i < sizeof times / sizeof *times; i++)
		add_number(b, times[i]);
	add_gpus(b, run, a);
	buf_add_text(b, ",");
	add_texts(b, (const char *const[]){ a->mode, a->verdict }, 2);
	add_number(b, a->peak_mib);
	add_number(b, a->mean_smact);
	add_number(b, a->energy_j);
	buf_add_text(b, "\r\n");
}

void report_csv(const struct report *r, struct buf *out)
{
	buf_add_text(out, "run,id,name,user,state,submit_s,wait_s,held_s,exec_s,lost_s,jct_s,claim_mib,attempt,start_s,end_s,gpus,"
			  "mode,verdict,peak_mib,mean_smact,energy_j\r\n");
	for (size_t i = 0; i < r->n; i++)
		for (size_t t = 0; t < r->runs[i]->n_tasks; t++) {
			size_t k = 0;
			do
				csv_row(out, r->runs[i], &r->runs[i]->tasks[t], k);
			while (++k < r->runs[i]->tasks[t].n_attempts);
		}
}

void report_series_csv(const struct report *r, struct buf *out)
{
	buf_add_text(out, "run,gpu,uuid,from_s,to_s");
	for (size_t v = 0; v < SERIES_OF_GPUS; v++)
		buf_printf(out, ",%s", series_name((enum series_value)v));
	buf_add_text(out, "\r\n");
	for (size_t i = 0; i < r->n; i++)
		for (size_t g = 0; g < r->runs[i]->n_gpus; g++) {
			const struct report_gpu *gpu = &r->runs[i]->gpus[g];
			for (size_t k = 0; k < gpu->series.n; k++) {
				double from_s = (double)(gpu->series.origin_ms + (int64_t)k * gpu->series.step_ms) / 1000;
				words_add_csv(out, r->runs[i]->name);
				buf_printf(out, ",%u,", gpu->index);
				words_add_csv(out, gpu->uuid);
				add_number(out, from_s);
				add_number(out, from_s + (double)gpu->series.step_ms / 1000);
				for (size_t v = 0; v < SERIES_OF_GPUS; v++)
					add_number(out, series_mean(&gpu->series, k, (enum series_value)v));
				buf_add_text(out, "\r\n");
			}
		}
}
