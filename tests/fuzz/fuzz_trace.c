/* SPDX-License-Identifier: MIT
 * Logs of other clusters' jobs, workloads and traces of simulations. A log that is accepted is in order, begins at 0, and becomes a trace
 * in that order; workloads and traces have sizes and times that can be.
 */
#include "fuzz_file.h"

#include "base/json.h"
#include "base/scope.h"
#include "sim/import.h"
#include "task/spec.h"

static void check_trace(const struct sim_trace *t, const struct sim_workloads *w)
{
	for (size_t i = 0; i < t->n; i++) {
		const struct sim_arrival *a = &t->list[i];
		FUZZ_HOLDS(a->workload < w->n && a->submit_ms >= 0 && a->solo_ms >= 0 && a->limit_ms >= 0);
	}
}

static void check_log(const struct import_log *log)
{
	struct sim_workloads w;
	struct sim_trace t;
	struct error err;
	struct import_window o = { .start_ms = -1, .length_ms = 86400000, .seed = 1 };
	scoped_json *said = import_statistics(log);
	FUZZ_HOLDS(said && log->n && !log->jobs[0].submit_ms);
	for (size_t i = 0; i < log->n; i++) {
		const struct import_job *j = &log->jobs[i];
		FUZZ_HOLDS(j->ran_ms > 0 && j->gpus > 0 && (!i || j->submit_ms >= j[-1].submit_ms));
	}
	FUZZ_HOLDS(!sim_workloads_read(&w, SIM_CATALOGUE, NULL, &err));
	/* The window with the most jobs has one at least. */
	FUZZ_HOLDS(!import_trace(log, &o, &w, &t, &err));
	check_trace(&t, &w);
	sim_trace_clear(&t);
	sim_workloads_clear(&w);
}

static void check_workloads(const char *path)
{
	struct sim_workloads w;
	struct error err;
	if (!sim_workloads_read(&w, path, NULL, &err))
		for (size_t i = 0; i < w.n; i++)
			FUZZ_HOLDS(w.list[i].missing || (w.list[i].gpus <= SPEC_MAX_GPUS && w.list[i].solo_ms > 0));
	sim_workloads_clear(&w);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct sim_workloads known;
	struct import_log log;
	struct sim_trace t;
	struct error err;
	const char *path = fuzz_file(data, size);
	if (!import_read(&log, path, size % 2 ? "submit=Submit,duration_s=Elapsed" : NULL, &err))
		check_log(&log);
	import_clear(&log);
	check_workloads(path);
	FUZZ_HOLDS(!sim_workloads_read(&known, SIM_CATALOGUE, NULL, &err));
	if (!sim_trace_read(&t, path, &known, &err))
		check_trace(&t, &known);
	sim_trace_clear(&t);
	sim_workloads_clear(&known);
	return 0;
}
