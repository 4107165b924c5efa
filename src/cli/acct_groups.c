/* SPDX-License-Identifier: MIT
 * See acct_groups.h. Only what is told apart has a column.
 */
#include "cli/acct_groups.h"

#include "base/json.h"
#include "base/scope.h"
#include "cli/format.h"
#include "cli/table.h"

#include <grp.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static const char *const keys[] = { "user", "group", "month" };

void acct_groups_name(json_t *groups)
{
	size_t i;
	json_t *g;
	json_array_foreach(groups, i, g) {
		const json_t *gid = json_object_get(g, "gid");
		const struct group *found = json_is_integer(gid) ? getgrgid((gid_t)json_integer_value(gid)) : NULL;
		char number[24];
		snprintf(number, sizeof number, "%lld", (long long)json_integer_value(gid));
		json_object_set_new(g, "group", !json_is_integer(gid) ? json_null() : json_text(found ? found->gr_name : number));
	}
}

static void print_cells(struct table *table, const json_t *g, const struct format_energy_unit *unit)
{
	char text[FORMAT_LEN];
	for (size_t k = 0; k < COUNT_OF(keys); k++)
		if (*member_text(g, keys[k]))
			table_cell(table, STYLE_PLAIN, member_text(g, keys[k]));
	table_printf(table, STYLE_PLAIN, "%lld", (long long)member_int(g, "tasks"));
	table_printf(table, STYLE_PLAIN, "%lld", (long long)member_int(g, "oom"));
	table_cell(table, STYLE_PLAIN, format_hours(member_number(g, "gpu_s"), text));
	table_cell(table, STYLE_PLAIN, format_hours(member_number(g, "gpu_share_s"), text));
	table_cell(table, STYLE_PLAIN, format_seconds(member_number(g, "avg_wait_s"), text));
	table_cell(table, STYLE_PLAIN, format_seconds(member_number(g, "avg_exec_s"), text));
	table_cell(table, STYLE_PLAIN, format_mib(member_number(g, "peak_mib"), text));
	table_cell(table, STYLE_PLAIN, format_energy_in(unit, member_number(g, "energy_j"), text));
}

struct format_energy_unit acct_groups_unit(const json_t *groups)
{
	double most_j = NAN;
	size_t i;
	json_t *g;
	json_array_foreach(groups, i, g)
		most_j = fmax(most_j, member_number(g, "energy_j"));
	return format_energy_unit(most_j);
}

static void print_table(const json_t *groups, const struct term *term)
{
	static const char *const titles[] = { "USER", "GROUP", "MONTH" };
	struct table_column columns[11];
	size_t n = 0, i;
	json_t *g;
	const struct format_energy_unit unit = acct_groups_unit(groups);
	const struct table_column measures[] = {
		{ "TASKS", .right = true }, { "OOM", .right = true, .drop = 4 }, { "GPU HOURS", .right = true },
		{ "SHARES", .right = true, .drop = 1 }, { "MEAN WAIT", .right = true, .drop = 3 }, { "MEAN RUN", .right = true, .drop = 2 },
		{ "PEAK", .right = true, .drop = 5 },
		{ unit.title, .right = true },
	};
	for (size_t k = 0; k < COUNT_OF(keys); k++)
		if (*member_text(json_array_get(groups, 0), keys[k]))
			columns[n++] = (struct table_column){ titles[k], .min = strcmp(keys[k], "month") ? 5 : 0 };
	for (size_t k = 0; k < COUNT_OF(measures); k++)
		columns[n++] = measures[k];
	struct table *table = table_create(columns, n);
	json_array_foreach(groups, i, g)
		print_cells(table, g, &unit);
	table_print(table, term, stdout);
	table_destroy(table);
}

static void print_csv(const json_t *groups)
{
	static const char *const numbers[] = { "tasks", "oom", "attempts", "gpu_s", "wait_s", "run_s", "peak_mib", "energy_j",
					       "gpu_share_s" };
	size_t i;
	json_t *g;
	fputs("user,group,month,tasks,oom,attempts,gpu_s,wait_s,run_s,peak_mib,energy_j,gpu_share_s\r\n", stdout);
	json_array_foreach(groups, i, g) {
		for (size_t k = 0; k < COUNT_OF(keys); k++) {
			fputs(k ? "," : "", stdout);
			format_csv_text(stdout, member_text(g, keys[k]));
		}
		for (size_t k = 0; k < COUNT_OF(numbers); k++)
			format_csv_number(stdout, member_number(g, numbers[k]));
		fputs("\r\n", stdout);
	}
}

void acct_groups_print(const json_t *groups, const struct term *term, bool csv)
{
	if (csv) {
		print_csv(groups);
	} else if (json_array_size(groups)) {
		putchar('\n');
		print_table(groups, term);
	}
}
