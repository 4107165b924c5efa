/* SPDX-License-Identifier: MIT
 * What the rows come to: see bench_sum.h.
 */
#include "cli/bench_sum.h"

#include "base/json.h"
#include "cli/member.h"

#include <math.h>
#include <string.h>

static bool same_key(const json_t *a, const json_t *b)
{
	const json_t *x = json_object_get(a, "command"), *y = json_object_get(b, "command");
	return member_int(a, "degree") == member_int(b, "degree") && !strcmp(member_text(a, "mode"), member_text(b, "mode")) &&
	       (x == y || json_equal(x, y));	/* one that is not there is NULL */
}

/* NAN where some do not know it. */
static double mean_member(const json_t *rows, const char *name)
{
	double sum = 0;
	size_t i;
	json_t *row;
	json_array_foreach(rows, i, row)
		sum += member_number(row, name);
	return sum / (double)json_array_size(rows);
}

static double rate_of(const json_t *row, size_t n)
{
	return member_number(json_array_get(json_object_get(row, "tasks"), n), "steps_s");
}

/* Of that command alone, over all its rows; NAN if there is none. */
static double rate_alone(const json_t *rows, json_int_t command)
{
	double sum = 0, n = 0;
	size_t i;
	json_t *row;
	json_array_foreach(rows, i, row)
		if (!json_object_get(row, "error") && !strcmp(member_text(row, "mode"), bench_mode_name(BENCH_SERIAL)) &&
		    member_int(row, "command") == command) {
			sum += rate_of(row, 0);
			n++;
		}
	return n > 0 ? sum / n : NAN;
}

static json_int_t command_of(const json_t *row, size_t n)
{
	return member_int(json_array_get(json_object_get(row, "tasks"), n), "command");
}

static double stp_of(const json_t *rows, const json_t *row)
{
	double stp = 0;
	for (size_t n = 0; n < json_array_size(json_object_get(row, "tasks")); n++)
		stp += rate_of(row, n) / rate_alone(rows, command_of(row, n));
	return stp;
}

static double spread_of(const json_t *rows, const json_t *mine)
{
	double least = INFINITY, most = 0, sum = 0;
	size_t i;
	json_t *row;
	json_array_foreach(mine, i, row) {
		double stp = stp_of(rows, row);
		least = fmin(least, stp);
		most = fmax(most, stp);
		sum += stp;
	}
	return json_array_size(mine) > 1 ? (most - least) * (double)json_array_size(mine) / sum : NAN;
}

/* tasks, stp, delta of a run. */
static void add_tasks(json_t *run, const json_t *rows, const json_t *mine)
{
	const json_t *first = json_array_get(mine, 0);
	double stp = 0, alone_s = 0, longest_s = 0;
	size_t n_rows = json_array_size(mine);
	json_t *tasks = json_array();
	for (size_t n = 0; n < json_array_size(json_object_get(first, "tasks")); n++) {
		double rate = 0, alone = rate_alone(rows, command_of(first, n));
		for (size_t k = 0; k < n_rows; k++)
			rate += rate_of(json_array_get(mine, k), n) / (double)n_rows;
		stp += rate / alone;
		alone_s += 1 / alone;
		longest_s = fmax(longest_s, 1 / rate);
		json_array_append_new(tasks, json_pack("{ss, so, so, so}", "name",
			member_text(json_array_get(json_object_get(first, "tasks"), n), "name"), "steps_s", json_round3(rate),
			"relative", json_round3(rate / alone), "slowdown", json_round3(alone / rate)));
	}
	json_object_set_new(run, "tasks", tasks);
	json_object_set_new(run, "stp", json_round3(stp));
	json_object_set_new(run, "delta", json_round3(alone_s / longest_s));
}

static void add_means(json_t *run, const json_t *rows, const json_t *mine)
{
	static const char *const names[] = {
		"gract", "smact", "smocc", "dram", "pcie_rx_mib_s", "pcie_tx_mib_s", "power_w", "mem_used_mib",
	};
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		json_object_set_new(run, names[i], json_round3(mean_member(mine, names[i])));
	double work = BENCH_WORK_S * (double)member_int(run, "degree") / member_number(run, "stp");
	json_object_set_new(run, "energy_j", json_round3(mean_member(mine, "power_w") * work));
	json_object_set_new(run, "repeats", json_integer((json_int_t)json_array_size(mine)));
	json_object_set_new(run, "spread", json_round3(spread_of(rows, mine)));
}

/* The run that `key`, a row, is of. */
static json_t *make_run(const json_t *rows, const json_t *key)
{
	scoped_json *mine = json_array();
	const char *error = "";
	size_t i;
	json_t *row, *run = json_pack("{ss, sI}", "mode", member_text(key, "mode"), "degree", member_int(key, "degree"));
	json_array_foreach(rows, i, row)
		if (same_key(row, key) && json_object_get(row, "error"))
			error = member_text(row, "error");
		else if (same_key(row, key))
			json_array_append(mine, row);
	if (json_array_size(mine)) {
		add_tasks(run, rows, mine);
		add_means(run, rows, mine);
	} else {
		json_object_set_new(run, "error", json_text(error));
	}
	return run;
}

/* Whether it is the first of its run. */
static bool is_first(const json_t *rows, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (same_key(json_array_get(rows, i), json_array_get(rows, n)))
			return false;
	return true;
}

json_t *bench_sum(const json_t *rows)
{
	json_t *runs = json_array();
	for (enum bench_mode m = 0; m < BENCH_MODE_COUNT; m++)
		for (int64_t degree = 1; degree <= BENCH_MAX_DEGREE; degree++)
			for (size_t i = 0; i < json_array_size(rows); i++) {
				const json_t *row = json_array_get(rows, i);
				if (member_int(row, "degree") == degree && !strcmp(member_text(row, "mode"), bench_mode_name(m)) &&
				    is_first(rows, i))
					json_array_append_new(runs, make_run(rows, row));
			}
	return runs;
}
