/* SPDX-License-Identifier: MIT
 * See rows.h. Numbers have as many digits as they are good for: an hour of one GPU at one second stays below a MiB.
 */
#include "monitor/rows.h"

#include "base/clock.h"
#include "base/scope.h"
#include "base/words.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#define COLUMN(name, bit, form) { #name, bit, form, offsetof(struct gpu_reading, name) }

const struct rows_column rows_columns[] = {
	COLUMN(gract, GPU_GRACT, ROWS_SHARE), COLUMN(smact, GPU_SMACT, ROWS_SHARE), COLUMN(smocc, GPU_SMOCC, ROWS_SHARE),
	COLUMN(tensor, GPU_TENSOR, ROWS_SHARE), COLUMN(dram, GPU_DRAM, ROWS_SHARE), COLUMN(fp16, GPU_FP16, ROWS_SHARE),
	COLUMN(fp32, GPU_FP32, ROWS_SHARE), COLUMN(fp64, GPU_FP64, ROWS_SHARE), COLUMN(pcie_rx_mib_s, GPU_PCIE, ROWS_RATE),
	COLUMN(pcie_tx_mib_s, GPU_PCIE, ROWS_RATE), COLUMN(power_w, GPU_POWER, ROWS_RATE), COLUMN(energy_j, GPU_ENERGY, ROWS_RATE),
	COLUMN(mem_used_mib, GPU_MEM_USED, ROWS_MIB), COLUMN(mem_total_mib, GPU_MEM_TOTAL, ROWS_MIB),
	COLUMN(nvlink_rx_mib_s, GPU_NVLINK, ROWS_RATE), COLUMN(nvlink_tx_mib_s, GPU_NVLINK, ROWS_RATE),
	COLUMN(sm_mhz, GPU_CLOCKS, ROWS_WHOLE), COLUMN(mem_mhz, GPU_CLOCKS, ROWS_WHOLE), COLUMN(gpu_util, GPU_UTIL, ROWS_SHARE),
	COLUMN(temperature_c, GPU_TEMPERATURE, ROWS_WHOLE),
};
const size_t rows_n_columns = COUNT_OF(rows_columns);
#define COLUMN_OF_MEMORY 12	/* before it the columns that a process's line leaves empty */
#define N_LATER 1		/* the last columns came later, so they stand at the end of a line: new ones go behind them */

const char rows_header[] =
	"time,gpu,gract,smact,smocc,tensor,dram,fp16,fp32,fp64,pcie_rx_mib_s,pcie_tx_mib_s,power_w,energy_j,mem_used_mib,"
	"mem_total_mib,nvlink_rx_mib_s,nvlink_tx_mib_s,sm_mhz,mem_mhz,gpu_util,throttle,pid,task,cpu_cores,rss_mib,"
	"read_mib_s,write_mib_s,net_rx_mib_s,net_tx_mib_s,program,temperature_c\n";

const char *rows_gpu(const struct gpu_reading *r, char text[GPU_UUID_LEN])
{
	if (r->mig)
		snprintf(text, GPU_UUID_LEN, "%s", r->uuid);
	else
		snprintf(text, GPU_UUID_LEN, "%u", r->index);
	return text;
}

const char *rows_throttle(const struct gpu_reading *r, char text[64])
{
	static const struct { enum gpu_throttle bit; const char *word; } words[] = {
		{ GPU_THROTTLE_POWER, "power" }, { GPU_THROTTLE_HARDWARE, "hardware" }, { GPU_THROTTLE_HEAT, "heat" },
		{ GPU_THROTTLE_HARDWARE_HEAT, "hardware-heat" }, { GPU_THROTTLE_BRAKE, "brake" },
	};
	size_t n = 0;
	*text = 0;
	if (!(r->valid & GPU_THROTTLE))
		return text;
	for (size_t i = 0; i < COUNT_OF(words); i++)
		if (r->throttle & words[i].bit)
			n += (size_t)snprintf(text + n, 64 - n, "%s%s", n ? "+" : "", words[i].word);
	return n ? text : strcpy(text, "none");
}

/* With that many decimals, without the zeros at their end. */
static void add_number(struct buf *out, double v, int decimals)
{
	char text[48];
	if (!isfinite(v)) {
		buf_add_text(out, ",");
		return;
	}
	int n = snprintf(text, sizeof text, ",%.*f", decimals, v);
	if (n >= (int)sizeof text)
		n = snprintf(text, sizeof text, ",%.6g", v);
	else if (decimals)
		while (text[n - 1] == '0' || text[n - 1] == '.')
			if (text[--n] == '.')
				break;
	buf_add(out, text, (size_t)n);
}

static void add_column(struct buf *out, const struct rows_column *c, const struct gpu_reading *r)
{
	const void *at = (const char *)r + c->member;
	if (!(r->valid & c->bit))
		buf_add_text(out, ",");
	else if (c->form == ROWS_MIB)
		buf_printf(out, ",%llu", (unsigned long long)*(const uint64_t *)at);
	else
		add_number(out, *(const double *)at, c->form == ROWS_SHARE ? 4 : c->form == ROWS_RATE ? 1 : 0);
}

static void add_moment(struct buf *out, int64_t wall_ms)
{
	char iso[CLOCK_ISO_LEN];
	buf_add_text(out, clock_iso(wall_ms, iso));
}

void rows_add_gpu(struct buf *out, int64_t wall_ms, const struct gpu_reading *r)
{
	char text[GPU_UUID_LEN > 64 ? GPU_UUID_LEN : 64];
	add_moment(out, wall_ms);
	buf_printf(out, ",%s", rows_gpu(r, text));
	for (size_t i = 0; i < rows_n_columns; i++) {
		if (i == rows_n_columns - N_LATER)
			buf_printf(out, ",%s,,,,,,,,,", rows_throttle(r, text));
		add_column(out, &rows_columns[i], r);
	}
	buf_add_text(out, "\n");
}

void rows_add_process(struct buf *out, int64_t wall_ms, const struct rows_process *p)
{
	char task[TASK_ID_TEXT];
	const struct usage_figures *u = &p->usage;
	add_moment(out, wall_ms);
	buf_printf(out, ",%s", p->gpus);
	for (size_t i = 0; i < rows_n_columns - N_LATER; i++)
		if (i == COLUMN_OF_MEMORY && p->mem_known)
			buf_printf(out, ",%llu", (unsigned long long)p->mem_mib);
		else
			buf_add_text(out, ",");
	buf_printf(out, ",,%d,%s", (int)p->pid, p->task ? task_id_text(p->task, task) : "");
	add_number(out, u->cores, 2);
	add_number(out, u->rss_mib, 0);
	const double rates[] = { u->read_mib_s, u->write_mib_s, u->net_rx_mib_s, u->net_tx_mib_s };
	for (size_t i = 0; i < COUNT_OF(rates); i++)
		add_number(out, rates[i], 2);
	buf_add_text(out, ",");
	words_add_csv(out, p->program);
	for (size_t i = 0; i < N_LATER; i++)
		buf_add_text(out, ",");
	buf_add_text(out, "\n");
}
