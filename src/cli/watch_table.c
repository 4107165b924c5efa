/* SPDX-License-Identifier: MIT
 * See watch_table.h.
 */
#include "cli/watch_table.h"

#include "base/alloc.h"
#include "base/buf.h"
#include "base/io.h"
#include "base/scope.h"
#include "cli/format.h"
#include "cli/table.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Shares of time and rates of a reading, in the order in which they are shown. */
struct shown { const char *title; const char *column; };
static const struct shown shown[] = {
	{ "GRACT", "gract" }, { "SMACT", "smact" }, { "SMOCC", "smocc" }, { "TENSOR", "tensor" }, { "DRAM", "dram" },
	{ "FP16", "fp16" }, { "FP32", "fp32" }, { "FP64", "fp64" }, { "PCI-IN", "pcie_rx_mib_s" }, { "PCI-OUT", "pcie_tx_mib_s" },
	{ "NVL-IN", "nvlink_rx_mib_s" }, { "NVL-OUT", "nvlink_tx_mib_s" }, { "WATTS", "power_w" }, { "MHZ", "sm_mhz" },
	{ "C", "temperature_c" },
};
#define SHOWN COUNT_OF(shown)

static const struct rows_column *column_named(const char *name)
{
	for (size_t i = 0; i < rows_n_columns; i++)
		if (!strcmp(rows_columns[i].name, name))
			return &rows_columns[i];
	return NULL;
}

static double value_of(const struct gpu_reading *r, const struct rows_column *c)
{
	return r->valid & c->bit ? *(const double *)((const char *)r + c->member) : NAN;
}

static void value_cell(struct table *t, double v, const struct rows_column *c)
{
	char text[FORMAT_LEN];
	if (c->form == ROWS_SHARE)
		table_cell(t, v >= 0.005 ? STYLE_PLAIN : STYLE_DIM, format_percent(v, text));
	else
		table_number(t, v < 0.5 ? STYLE_DIM : STYLE_PLAIN, "%.0f", v);
}

/* Which of the columns anything is known for: a GPU without GPM, a board without NVLink have fewer. */
static size_t pick(const double *values, size_t n_gpus, size_t picked[SHOWN])
{
	size_t n = 0;
	for (size_t k = 0; k < SHOWN; k++)
		for (size_t g = 0; g < n_gpus; g++)
			if (!isnan(values[g * SHOWN + k])) {
				picked[n++] = k;
				break;
			}
	return n;
}

/* GPU, the picked columns, and `more` that the caller fills. Of the picked, the first two and the power last longest. */
static size_t head(struct table_column *columns, const size_t *picked, size_t n, const char *const *more, size_t n_more)
{
	size_t at = 0;
	columns[at++] = (struct table_column){ "GPU", false, 0 };
	for (size_t i = 0; i < n; i++) {
		const struct shown *s = &shown[picked[i]];
		columns[at++] = (struct table_column){ s->title, true, 0, i < 2 || !strcmp(s->column, "power_w") ? 0 : (unsigned)i };
	}
	for (size_t i = 0; i < n_more; i++)
		columns[at++] = (struct table_column){ more[i], true, 0 };
	return at;
}

static void gpu_cell(struct table *t, const struct gpu_reading *r)
{
	char text[GPU_UUID_LEN];
	table_cell(t, r->fallen ? STYLE_BAD : STYLE_BOLD, rows_gpu(r, text));
}

static void print_gpus(const struct snapshot *s, const struct term *term, FILE *out)
{
	static const char *const more[] = { "MEM", "LIMITED" };
	struct table_column columns[SHOWN + 3];
	size_t picked[SHOWN];
	scoped_free double *values = alloc_zero((s->n_gpus + 1) * SHOWN * sizeof *values);
	char text[FORMAT_LEN], words[64];
	for (size_t g = 0; g < s->n_gpus; g++)
		for (size_t k = 0; k < SHOWN; k++)
			values[g * SHOWN + k] = value_of(&s->gpus[g], column_named(shown[k].column));
	size_t n = pick(values, s->n_gpus, picked);
	struct table *t = table_create(columns, head(columns, picked, n, more, COUNT_OF(more)));
	for (size_t g = 0; g < s->n_gpus; g++) {
		const struct gpu_reading *r = &s->gpus[g];
		gpu_cell(t, r);
		for (size_t i = 0; i < n; i++)
			value_cell(t, values[g * SHOWN + picked[i]], column_named(shown[picked[i]].column));
		table_cell(t, STYLE_PLAIN, format_mib(r->valid & GPU_MEM_USED ? (double)r->mem_used_mib : NAN, text));
		table_cell(t, STYLE_DIM, r->fallen ? "fallen" : rows_throttle(r, words));
	}
	table_print(t, term, out);
	table_destroy(t);
}

static void rate_cell(struct table *t, double v, const char *form)
{
	table_number(t, v < 0.05 ? STYLE_DIM : STYLE_PLAIN, form, v);
}

static void print_processes(const struct rows_process *list, size_t n, const struct term *term, FILE *out)
{
	static const struct table_column columns[] = {
		{ "PID", true, 0 }, { "TASK", true, 0 }, { "GPU", false, 0 }, { "GPU-MEM", true, 0 }, { "CORES", true, 0 },
		{ "RSS", true, 0, 3 }, { "READ", true, 0, 1 }, { "WRITTEN", true, 0, 2 }, { "NET-IN", true, 0, 4 },
		{ "NET-OUT", true, 0, 5 }, { "PROGRAM", false, 8 },
	};
	char text[FORMAT_LEN], id[TASK_ID_TEXT];
	struct table *t = table_create(columns, COUNT_OF(columns));
	for (size_t i = 0; i < n; i++) {
		const struct rows_process *p = &list[i];
		const double rates[] = { p->usage.read_mib_s, p->usage.write_mib_s, p->usage.net_rx_mib_s, p->usage.net_tx_mib_s };
		table_printf(t, STYLE_BOLD, "%d", (int)p->pid);
		table_cell(t, STYLE_PLAIN, p->task ? task_id_text(p->task, id) : "");
		table_cell(t, STYLE_PLAIN, p->gpus);
		table_cell(t, STYLE_PLAIN, format_mib(p->mem_known ? (double)p->mem_mib : NAN, text));
		rate_cell(t, p->usage.cores, "%.2f");
		table_cell(t, STYLE_PLAIN, format_mib(p->usage.rss_mib, text));
		for (size_t k = 0; k < COUNT_OF(rates); k++)
			rate_cell(t, rates[k], "%.1f");
		table_cell(t, STYLE_PLAIN, p->program);
	}
	table_print(t, term, out);
	table_destroy(t);
}

/* As many lines as the window has, but one: what is drawn later goes over them. */
static unsigned put_lines(const char *text, const struct term *term, unsigned above)
{
	scoped_buf out = { 0 };
	unsigned lines = 0, most = term->height > 1 ? term->height - 1 : 0;
	if (above)
		buf_printf(&out, "\033[%uA\r", above);
	for (const char *end; (end = strchr(text, '\n')) && (!most || lines < most); text = end + 1, lines++) {
		buf_add(&out, text, (size_t)(end - text));
		buf_add_text(&out, "\033[K\n");
	}
	buf_add_text(&out, "\033[J");
	io_write_full(STDOUT_FILENO, out.data, out.len);
	return lines;
}

void watch_table_draw(const struct snapshot *s, const struct rows_process *processes, size_t n, unsigned *lines)
{
	struct term term = term_ask();
	scoped_free char *text = NULL;
	size_t len;
	FILE *out = open_memstream(&text, &len);
	if (!out)
		return;
	print_gpus(s, &term, out);
	if (n) {
		putc('\n', out);
		print_processes(processes, n, &term, out);
	}
	fclose(out);
	*lines = put_lines(text, &term, *lines);
}

/* Means ------------------------------------------------------------------------------------------------------------------- */

struct watch_gpu {
	struct gpu_reading last;
	struct reading_energy energy;
	double sum[SHOWN], ms[SHOWN];
	uint64_t peak_mib;
};

struct watch_table_means {
	struct watch_gpu *gpus;
	size_t n, cap;
	int64_t last_ms;	/* mono; 0: none yet */
};

struct watch_table_means *watch_table_means_create(void)
{
	return alloc_zero(sizeof(struct watch_table_means));
}

void watch_table_means_destroy(struct watch_table_means *m)
{
	if (m)
		free(m->gpus);
	free(m);
}

static struct watch_gpu *means_of(struct watch_table_means *m, const struct gpu_reading *r)
{
	for (size_t i = 0; i < m->n; i++)
		if (!strcmp(m->gpus[i].last.uuid, r->uuid))
			return &m->gpus[i];
	alloc_grow(m->gpus, m->n, m->cap);
	m->gpus[m->n] = (struct watch_gpu){ .last = *r };
	return &m->gpus[m->n++];
}

void watch_table_means_add(struct watch_table_means *m, const struct snapshot *s)
{
	double ms = m->last_ms ? (double)(s->mono_ms - m->last_ms) : 0;
	m->last_ms = s->mono_ms;
	for (size_t i = 0; i < s->n_gpus; i++) {
		struct watch_gpu *g = means_of(m, &s->gpus[i]);
		g->last = s->gpus[i];
		reading_energy_add(&g->energy, &g->last);
		if (g->last.valid & GPU_MEM_USED && g->last.mem_used_mib > g->peak_mib)
			g->peak_mib = g->last.mem_used_mib;
		for (size_t k = 0; k < SHOWN; k++) {
			double v = value_of(&g->last, column_named(shown[k].column));
			if (isnan(v))
				continue;
			g->sum[k] += v * ms;
			g->ms[k] += ms;
		}
	}
}

void watch_table_means_print(const struct watch_table_means *m)
{
	static const char *const more[] = { "ENERGY", "MEM-PEAK" };
	const struct term term = { .utf8 = true };
	struct table_column columns[SHOWN + 3];
	size_t picked[SHOWN];
	scoped_free double *values = alloc_zero((m->n + 1) * SHOWN * sizeof *values);
	char text[FORMAT_LEN];
	for (size_t g = 0; g < m->n; g++)
		for (size_t k = 0; k < SHOWN; k++)
			values[g * SHOWN + k] = m->gpus[g].ms[k] > 0 ? m->gpus[g].sum[k] / m->gpus[g].ms[k] : NAN;
	size_t n = pick(values, m->n, picked);
	struct table *t = table_create(columns, head(columns, picked, n, more, COUNT_OF(more)));
	for (size_t g = 0; g < m->n; g++) {
		const struct reading_energy *energy = &m->gpus[g].energy;
		gpu_cell(t, &m->gpus[g].last);
		for (size_t i = 0; i < n; i++)
			value_cell(t, values[g * SHOWN + picked[i]], column_named(shown[picked[i]].column));
		table_cell(t, STYLE_PLAIN, format_energy(energy->known ? energy->used_j : NAN, text));
		table_cell(t, STYLE_PLAIN, format_mib(m->gpus[g].peak_mib ? (double)m->gpus[g].peak_mib : NAN, text));
	}
	table_print(t, &term, stderr);
	table_destroy(t);
}
