/* SPDX-License-Identifier: MIT
 * What GPUs showed over time: rows of means, joined and dropped as they age (doc/decisions/0040). Whole numbers of a few
 * bytes, since these are by far the most rows; what is not known is NULL. Joining and dropping are SQL on ranges of time, in
 * the transaction of a turn like everything else: a crash in between leaves the old rows.
 */
#include "base/text.h"
#include "store/store_internal.h"

#include <math.h>

#define MINUTE_S 60

/* What a stored whole number counts. */
static const double scale[SERIES_KEPT] = {
	[SERIES_MEM_MIB] = 1, [SERIES_SMACT] = 1000, [SERIES_GRACT] = 1000, [SERIES_POWER_W] = 10,
	[SERIES_SMOCC] = 1000, [SERIES_DRAM] = 1000, [SERIES_PCIE_RX] = 1, [SERIES_PCIE_TX] = 1,
};

/* NaN is bound as NULL. What no device shows, a power of 10^12 W, is not known either. */
static double series_stored(const double values[SERIES_VALUES], enum series_value v)
{
	return fabs(values[v]) < 1e12 ? round(values[v] * scale[v]) : NAN;
}

int store_add_means(struct store *s, const struct store_gpu *gpu, int64_t from_ms, int64_t to_ms,
		    const double values[SERIES_VALUES], struct error *err)
{
	if (store_change(s, err, STORE_PUT_GPU, "titi", gpu->uuid, (int64_t)gpu->index, gpu->name, (int64_t)gpu->mem_total_mib))
		return -1;
	double v[SERIES_KEPT];
	for (int i = 0; i < SERIES_KEPT; i++)
		v[i] = series_stored(values, (enum series_value)i);
	return store_change(s, err, STORE_PUT_MEANS, "tiidddddddd", gpu->uuid, from_ms / 1000, (to_ms - from_ms) / 1000,
			    v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7]);
}

/* Only whole minutes are joined: half of one would be joined again with its other half later, as a mean of means. */
int store_thin_means(struct store *s, int64_t from_ms, int64_t to_ms, int64_t keep_ms, struct error *err)
{
	const int64_t minute = MINUTE_S, from_s = from_ms / 60000 * 60, to_s = to_ms / 60000 * 60;
	if (store_change(s, err, STORE_JOIN_MEANS, "iii", from_s, to_s, minute) ||
	    store_change(s, err, STORE_DROP_JOINED, "iii", from_s, to_s, minute))
		return -1;
	return store_change(s, err, STORE_DROP_OLD_MEANS, "i", keep_ms / 1000);
}

static void hand_over(sqlite3_stmt *st, store_each_means each, void *ctx)
{
	struct store_gpu gpu = { .index = (uint32_t)sqlite3_column_int64(st, 4),
				 .mem_total_mib = (uint64_t)sqlite3_column_int64(st, 5) };
	double values[SERIES_VALUES];
	int64_t from_ms = sqlite3_column_int64(st, 0) * 1000;
	snprintf(gpu.uuid, sizeof gpu.uuid, "%s", (const char *)sqlite3_column_text(st, 2));
	text_printf(gpu.name, sizeof gpu.name, "%s", (const char *)sqlite3_column_text(st, 3));
	for (int i = 0; i < SERIES_VALUES; i++)
		values[i] = i >= SERIES_KEPT || sqlite3_column_type(st, 6 + i) == SQLITE_NULL ? NAN
			  : sqlite3_column_double(st, 6 + i) / scale[i];
	each(ctx, &gpu, from_ms, from_ms + sqlite3_column_int64(st, 1) * 1000, values);
}

int store_load_means(struct store *s, int64_t from_ms, int64_t to_ms, store_each_means each, void *ctx, struct error *err)
{
	scoped_statement *st = NULL;
	int rc = sqlite3_prepare_v2(s->db, "SELECT t_s, step_s, uuid, name, place, mem_total_mib, " SERIES_COLUMNS
				    " FROM series JOIN gpus USING (gpu) WHERE t_s >= ?1 AND t_s < ?2 ORDER BY t_s", -1, &st, NULL);
	if (!rc) {
		sqlite3_bind_int64(st, 1, from_ms / 1000);
		sqlite3_bind_int64(st, 2, to_ms / 1000);
		while ((rc = sqlite3_step(st)) == SQLITE_ROW)
			hand_over(st, each, ctx);
	}
	return rc == SQLITE_DONE ? 0 : store_fail(s, rc, err);
}
