/* SPDX-License-Identifier: MIT
 * Means over time: integrals by parts of equal length.
 */
#include "account/series.h"

#include "base/alloc.h"
#include "base/json.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_STEP_MS 1000

/* In the order of the values; all but memory are doubles. Without a bit: no reading tells it. */
static const struct { const char *name; uint32_t bit; size_t member; } series_values[SERIES_VALUES] = {
	[SERIES_MEM_MIB] = { "mem_mib", GPU_MEM_USED, 0 },
	[SERIES_SMACT] = { "smact", GPU_SMACT, offsetof(struct gpu_reading, smact) },
	[SERIES_GRACT] = { "gract", GPU_GRACT, offsetof(struct gpu_reading, gract) },
	[SERIES_POWER_W] = { "power_w", GPU_POWER, offsetof(struct gpu_reading, power_w) },
	[SERIES_SMOCC] = { "smocc", GPU_SMOCC, offsetof(struct gpu_reading, smocc) },
	[SERIES_DRAM] = { "dram", GPU_DRAM, offsetof(struct gpu_reading, dram) },
	[SERIES_PCIE_RX] = { "pcie_rx_mib_s", GPU_PCIE, offsetof(struct gpu_reading, pcie_rx_mib_s) },
	[SERIES_PCIE_TX] = { "pcie_tx_mib_s", GPU_PCIE, offsetof(struct gpu_reading, pcie_tx_mib_s) },
	[SERIES_TENSOR] = { "tensor", GPU_TENSOR, offsetof(struct gpu_reading, tensor) },
	[SERIES_FP16] = { "fp16", GPU_FP16, offsetof(struct gpu_reading, fp16) },
	[SERIES_FP32] = { "fp32", GPU_FP32, offsetof(struct gpu_reading, fp32) },
	[SERIES_FP64] = { "fp64", GPU_FP64, offsetof(struct gpu_reading, fp64) },
	[SERIES_NVLINK_RX] = { "nvlink_rx_mib_s", GPU_NVLINK, offsetof(struct gpu_reading, nvlink_rx_mib_s) },
	[SERIES_NVLINK_TX] = { "nvlink_tx_mib_s", GPU_NVLINK, offsetof(struct gpu_reading, nvlink_tx_mib_s) },
	[SERIES_SM_MHZ] = { "sm_mhz", GPU_CLOCKS, offsetof(struct gpu_reading, sm_mhz) },
	[SERIES_CORES] = { .name = "cpu_cores" }, [SERIES_RSS_MIB] = { .name = "rss_mib" }, [SERIES_READ] = { .name = "read_mib_s" },
	[SERIES_WRITE] = { .name = "write_mib_s" }, [SERIES_NET_RX] = { .name = "net_rx_mib_s" },
	[SERIES_NET_TX] = { .name = "net_tx_mib_s" },
};

const char *series_name(enum series_value value)
{
	return series_values[value].name;
}

void series_of_reading(const struct gpu_reading *r, double values[SERIES_VALUES])
{
	for (size_t v = 0; v < SERIES_VALUES; v++)
		values[v] = !(r->valid & series_values[v].bit) ? NAN : v == SERIES_MEM_MIB ? (double)r->mem_used_mib
			  : *(const double *)((const char *)r + series_values[v].member);
}

/* Parts of twice the length, half as many. */
static void join_pairs(struct series *s)
{
	for (size_t v = 0; v < SERIES_VALUES; v++) {
		struct series_part *p = s->parts[v];
		for (size_t i = 0; p && i < SERIES_PARTS / 2; i++)
			p[i] = (struct series_part){ p[2 * i].sum + p[2 * i + 1].sum, p[2 * i].ms + p[2 * i + 1].ms };
		if (p)
			memset(p + SERIES_PARTS / 2, 0, SERIES_PARTS / 2 * sizeof *p);
	}
	s->step_ms *= 2;
	s->n = (s->n + 1) / 2;
}

static void add_to_part(struct series *s, size_t i, double ms, const double values[SERIES_VALUES])
{
	for (size_t v = 0; v < SERIES_VALUES; v++) {
		if (!isfinite(values[v]))
			continue;
		if (!s->parts[v])
			s->parts[v] = alloc_zero(SERIES_PARTS * sizeof *s->parts[v]);
		s->parts[v][i].sum += values[v] * ms;
		s->parts[v][i].ms += ms;
	}
	if (s->n <= i)
		s->n = i + 1;
}

void series_add(struct series *s, int64_t from_ms, int64_t to_ms, const double values[SERIES_VALUES])
{
	if (!s->step_ms) {
		s->origin_ms = from_ms;
		s->step_ms = FIRST_STEP_MS;
	}
	if (from_ms < s->origin_ms)
		from_ms = s->origin_ms;
	if (to_ms <= from_ms)
		return;
	while ((to_ms - s->origin_ms - 1) / s->step_ms >= SERIES_PARTS)
		join_pairs(s);
	for (int64_t at = from_ms; at < to_ms;) {
		size_t i = (size_t)((at - s->origin_ms) / s->step_ms);
		int64_t end = s->origin_ms + (int64_t)(i + 1) * s->step_ms, until = end < to_ms ? end : to_ms;
		add_to_part(s, i, (double)(until - at), values);
		at = until;
	}
}

double series_mean(const struct series *s, size_t part, enum series_value value)
{
	const struct series_part *p = s->parts[value] && part < s->n ? &s->parts[value][part] : NULL;
	return p && p->ms > 0 ? p->sum / p->ms : NAN;
}

json_t *series_to_json(const struct series *s)
{
	json_t *o = json_pack("{so}", "step_s", json_round3((double)s->step_ms / 1000));
	for (size_t v = 0; v < SERIES_VALUES; v++) {
		json_t *list = v <= SERIES_POWER_W || s->parts[v] ? json_array() : NULL;
		for (size_t i = 0; list && i < s->n; i++) {
			double mean = series_mean(s, i, (enum series_value)v);
			json_array_append_new(list, json_round3(v == SERIES_MEM_MIB ? round(mean) : mean));
		}
		if (list)
			json_object_set_new(o, series_values[v].name, list);
	}
	return o;
}

void series_clear(struct series *s)
{
	for (size_t v = 0; v < SERIES_VALUES; v++)
		free(s->parts[v]);
	*s = (struct series){ 0 };
}
