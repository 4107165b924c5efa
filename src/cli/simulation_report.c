/* SPDX-License-Identifier: MIT
 * A simulation as a report.
 */
#include "cli/simulation_report.h"

#include "base/clock.h"
#include "base/json.h"
#include "base/scope.h"
#include "base/words.h"
#include "cli/report_save.h"

#include <string.h>

/* "magm, gpumemnet, mps" or "gain, plan, oracle, mps"; where each task has its GPUs alone the rest says nothing. */
static void name_run(const struct sim_options *o, char *name, size_t size)
{
	const char *placement = map_rank_name(o->core.map.rank);
	if (map_gives_alone(&o->core.map))
		snprintf(name, size, "%s", placement);
	else
		snprintf(name, size, "%s%s%s, %s, %s", placement, o->core.order == ORDER_FIFO ? "" : ", ",
			 o->core.order == ORDER_FIFO ? "" : core_order_name(o->core.order), o->estimator,
			 share_mode_name(o->share ? o->share : o->core.map.share));
}

static bool all_alike(const struct sim_options *o)
{
	for (size_t i = 1; i < o->n_devices; i++)
		if (strcmp(o->devices[i].name, o->devices[0].name))
			return false;
	return true;
}

struct report *simulation_report_create(const struct sim_options *o, struct report_run **run)
{
	char name[100], note[300];
	name_run(o, name, sizeof name);
	snprintf(note, sizeof note, "simulated on %zu %s", o->n_devices, all_alike(o) ? o->devices->name : "GPUs");
	struct report *r = report_create(words_base(o->trace->path), clock_wall_ms());
	*run = report_add_run(r, name, 0, NULL);
	report_note(*run, note);
	return r;
}

int simulation_report_save(struct report *r, struct report_run *run, const struct sim_options *o,
			   const struct sim_result *result, const char *path, struct error *err)
{
	scoped_json *whole = sim_result_json(o, result);
	int64_t last_ms = 0;
	for (size_t i = 0; i < result->n; i++)
		last_ms = result->tasks[i].end_ms > last_ms ? result->tasks[i].end_ms : last_ms;
	report_end(run, last_ms);
	report_set_totals(run, whole);
	if (report_add_tasks(run, json_object_get(whole, "tasks"), err))
		return -1;
	return report_save(r, path, REPORT_BY_NAME, err);
}
