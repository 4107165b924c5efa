/* SPDX-License-Identifier: MIT
 * Traces like Philly's.
 *
 * Of the log, by our own count over the 82,247 jobs of the list that the artifact of "Pollux: Co-adaptive Cluster Scheduling
 * for Goodput-Optimized Deep Learning" (Qiao et al., OSDI 2021) made of it (4 September to 22 December 2017; jobs that ran):
 *	GPUs		93.2 % of the jobs have one, 4.5 % two or four, 2.0 % eight, 0.35 % more: 1.30 on average. Over the whole
 *			log it is 1.75 (Hu et al., "Characterization and Prediction of Deep Learning Workloads in Large-Scale GPU
 *			Datacenters", SC 2021, table 2)
 *	durations	quantiles below, for each of the four classes of GPUs that the Philly paper's figures have. They are what
 *			the task takes alone here; there, it was on whichever GPUs Philly had in 2017
 *	arrivals	in bursts, here those with at most a minute between two: sizes by the quantiles below, 9 s between two of
 *			one, and as many bursts in each hour of the day as there (the log's clock)
 * Assumed by us, since the log does not say:
 *	- jobs of a burst are independent of each other but for their time (there, most are sweeps of one program);
 *	- what they are: of the workloads given, light, medium and heavy ones of one GPU as 65, 27 and 8 (the dissertation's trace
 *	  of 90 tasks); medium and heavy ones as 27 and 8 where a job has several GPUs, each with the workload's memory and load;
 *	- declared memory: 10 in 100 say 32 GiB whatever they take, 3 too little (60 to 100 % of it), the others 1.2 to 4 times what
 *	  they take; all rounded up to a size that people write, and at most 32 GiB where that is enough;
 *	- time limits: 1.5 to 5 times what they take, rounded up likewise. Nobody says less than half an hour.
 */
#include "sim/philly.h"

#include "base/alloc.h"
#include "base/scope.h"
#include "sim/dice.h"

#include <stdlib.h>

#define HOUR_MS 3600000
#define MOST_KNOWN_MIB 32768	/* what is declared by those who do not know */
#define POINTS 21

/* Position in a distribution, in 2^-32. */
#define PART(percent) ((uint64_t)((percent) * 100) * (UINT64_C(1) << 32) / 10000)

static const uint64_t positions[POINTS] = {
	PART(0), PART(5), PART(10), PART(20), PART(30), PART(40), PART(50), PART(60), PART(70), PART(75), PART(80), PART(85),
	PART(90), PART(92.5), PART(95), PART(96.5), PART(98), PART(98.5), PART(99), PART(99.5), PART(100),
};

/* Seconds, at these positions: of jobs of 1, 2 to 4, 5 to 8, and more GPUs. */
static const int64_t durations_s[4][POINTS] = {
	{ 1, 52, 62, 76, 215, 600, 1117, 1728, 2464, 2716, 3754, 5342, 8512, 11166, 19137, 32185, 68259, 93455, 135404, 266986,
	  3256045 },
	{ 2, 11, 15, 19, 25, 85, 367, 5581, 25432, 45476, 79264, 99995, 166199, 185923, 233725, 293901, 467815, 528732, 748678,
	  1127338, 2750674 },
	{ 1, 125, 216, 783, 3940, 12390, 23683, 64753, 140815, 173288, 203140, 242280, 352409, 408420, 525631, 620645, 807057,
	  928157, 1066894, 2010727, 4628226 },
	{ 1, 35, 69, 345, 880, 3165, 21137, 53862, 73728, 104218, 159985, 181596, 252560, 335284, 446126, 505681, 622377, 657879,
	  1152387, 1369876, 1710643 },
};

/* GPUs, and how many of 100,000 jobs have so many. Twelve and 24, which are rare, count as sixteen. */
static const struct { unsigned gpus, jobs, class; } widths[] = {
	{ 1, 93167, 0 }, { 2, 2210, 1 }, { 4, 2274, 1 }, { 8, 1998, 2 }, { 16, 259, 3 }, { 32, 81, 3 }, { 64, 7, 3 }, { 128, 4, 3 },
};

/* Jobs of a burst at these positions. */
#define BURST_POINTS 15
static const uint64_t burst_positions[BURST_POINTS] = {
	PART(0), PART(75), PART(80), PART(85), PART(90), PART(92.5), PART(95), PART(96.5), PART(97.5), PART(98), PART(98.5),
	PART(99), PART(99.5), PART(99.9), PART(100),
};
static const int64_t burst_sizes[BURST_POINTS] = { 1, 1, 2, 2, 3, 4, 6, 9, 14, 23, 45, 84, 169, 452, 1099 };
#define BURST_GAP_MS 18000	/* at most, between two of one: 9 s on average */

/* Jobs in each hour of the day, of 100 on average. */
static const unsigned hours[24] = { 127, 98, 112, 110, 70, 115, 167, 209, 111, 101, 102, 87, 75, 70, 64, 65, 88, 67, 80, 73,
				    102, 92, 113, 101 };

static const uint64_t sizes_gib[] = { 2, 4, 6, 8, 10, 12, 16, 20, 24, 32, 40, 48, 64, 80, 96, 128, 192, 256 };
static const int64_t limits_s[] = { 1800, 3600, 7200, 14400, 28800, 43200, 86400, 172800, 345600, 604800, 1209600, 2592000,
				    10000000 };

/* Straight between the points. `u`: position in 2^-32. */
static int64_t quantile(const uint64_t *at, const int64_t *value, size_t n, uint64_t u)
{
	size_t i = 1;
	while (i < n - 1 && at[i] <= u)
		i++;
	uint64_t part = u - at[i - 1], whole = at[i] - at[i - 1];
	return value[i - 1] + (int64_t)((uint64_t)(value[i] - value[i - 1]) * part / whole);
}

static uint64_t position(struct dice *d)
{
	return dice_next(d) >> 32;
}

/* The mean of what quantile throws, in thousandths. */
static int64_t burst_mean(void)
{
	uint64_t sum = 0;
	for (size_t i = 1; i < BURST_POINTS; i++)
		sum += (uint64_t)(burst_sizes[i] + burst_sizes[i - 1]) * 500 * ((burst_positions[i] - burst_positions[i - 1]) >> 8);
	return (int64_t)(sum >> 24);
}

/* Jobs -------------------------------------------------------------------------------------------------------------------- */

struct maker {
	const struct philly_options *o;
	struct sim_workloads *w;
	struct dice dice;
	uint32_t *of_class[2][SIM_CLASSES];	/* workloads, of one GPU and of any number */
	size_t n[2][SIM_CLASSES];
};

static int list_classes(struct maker *m, struct error *err)
{
	for (unsigned several = 0; several < 2; several++)
		for (int class = 0; class < SIM_CLASSES; class++) {
			uint32_t *list = alloc_resize(NULL, m->w->n + 1, sizeof *list);
			size_t n = 0;
			for (size_t i = 0; i < m->w->n; i++) {
				const struct sim_workload *w = &m->w->list[i];
				if (w->class == class && !w->missing && !w->variant_of && w->gpus && (several || w->gpus == 1))
					list[n++] = (uint32_t)i;
			}
			m->of_class[several][class] = list;
			m->n[several][class] = n;
			if (!n)
				return error_set(err, ERR_INVALID, "%s: has no workload of one GPU of class %s (column 'class')",
						 m->w->path, sim_class_names[class]);
		}
	return 0;
}

static uint32_t any_workload(struct maker *m, bool several)
{
	static const unsigned shares[2][SIM_CLASSES] = { { 65, 27, 8 }, { 0, 27, 8 } };
	uint64_t at = dice_below(&m->dice, several ? 35 : 100);
	unsigned class = 0;
	while (at >= shares[several][class])
		at -= shares[several][class++];
	return m->of_class[several][class][dice_below(&m->dice, m->n[several][class])];
}

static uint64_t size_from(uint64_t mib)
{
	size_t i = 0;
	while (i < COUNT_OF(sizes_gib) - 1 && sizes_gib[i] * 1024 < mib)
		i++;
	return sizes_gib[i] * 1024;
}

static uint64_t declare(struct maker *m, uint64_t mem_mib)
{
	uint64_t who = dice_below(&m->dice, 100), part = dice_below(&m->dice, 1000), enough = size_from(mem_mib);
	if (who < 3)
		return mem_mib * (600 + part * 4 / 10) / 1000;
	uint64_t mib = who < 13 ? MOST_KNOWN_MIB : size_from(mem_mib * (1200 + part * 28 / 10) / 1000);
	mib = mib < MOST_KNOWN_MIB ? mib : MOST_KNOWN_MIB;
	return mib > enough ? mib : enough;
}

static int64_t limit_ms(struct maker *m, int64_t solo_s)
{
	int64_t want_s = solo_s * (int64_t)(1500 + dice_below(&m->dice, 3501)) / 1000;
	size_t i = 0;
	while (i < COUNT_OF(limits_s) - 1 && limits_s[i] < want_s)
		i++;
	return limits_s[i] * 1000;
}

static struct sim_arrival make_job(struct maker *m)
{
	uint64_t at = dice_below(&m->dice, 100000);
	size_t i = 0;
	while (at >= widths[i].jobs)
		at -= widths[i++].jobs;
	int64_t solo_s = quantile(positions, durations_s[widths[i].class], POINTS, position(&m->dice));
	solo_s = solo_s < m->o->longest_s ? solo_s : m->o->longest_s;
	uint32_t of = any_workload(m, widths[i].gpus > 1);
	uint64_t mib = declare(m, m->w->list[of].mem_mib);
	return (struct sim_arrival){ .workload = sim_workload_variant(m->w, of, widths[i].gpus, mib), .solo_ms = solo_s * 1000,
				     .limit_ms = limit_ms(m, solo_s) };
}

/* Arrivals ---------------------------------------------------------------------------------------------------------------- */

/* The moment until which so much of the day's rhythm has gone by; an hour with twice the jobs goes by at twice the speed. */
static int64_t go_on(int64_t now_ms, int64_t beats_ms)
{
	for (;;) {
		int64_t rate = hours[now_ms / HOUR_MS % 24], left_ms = HOUR_MS - now_ms % HOUR_MS;
		if (beats_ms * 100 <= left_ms * rate)
			return now_ms + beats_ms * 100 / rate;
		beats_ms -= left_ms * rate / 100;
		now_ms += left_ms;
	}
}

static int by_time(const void *x, const void *y)
{
	const struct sim_arrival *a = x, *b = y;
	return a->submit_ms != b->submit_ms ? (a->submit_ms > b->submit_ms) - (a->submit_ms < b->submit_ms)
					    : (a->line > b->line) - (a->line < b->line);
}

/* Bursts overlap, so jobs are sorted in the end. */
static void make_arrivals(struct maker *m, struct sim_trace *out)
{
	int64_t start_ms = 0, mean_ms = m->o->interval_ms * burst_mean() / 1000;
	while (out->n < m->o->n) {
		int64_t size = quantile(burst_positions, burst_sizes, BURST_POINTS, position(&m->dice)), at_ms = start_ms;
		for (int64_t i = 0; i < size && out->n < m->o->n; i++) {
			struct sim_arrival a = make_job(m);
			a.submit_ms = at_ms / 1000 * 1000;
			a.line = (uint32_t)out->n + 2;
			alloc_grow(out->list, out->n, out->cap);
			out->list[out->n++] = a;
			at_ms += (int64_t)dice_below(&m->dice, BURST_GAP_MS);
		}
		start_ms = go_on(start_ms, dice_exponential_ms(&m->dice, mean_ms));
	}
	qsort(out->list, out->n, sizeof *out->list, by_time);
	for (size_t i = 0; i < out->n; i++)
		out->list[i].line = (uint32_t)i + 2;
}

int philly_trace(const struct philly_options *o, struct sim_workloads *w, struct sim_trace *out, struct error *err)
{
	struct maker m = { .o = o, .w = w, .dice = { o->seed } };
	*out = (struct sim_trace){ .path = alloc_string("generated") };
	int rc = list_classes(&m, err);
	if (!rc)
		make_arrivals(&m, out);
	for (unsigned i = 0; i < 2 * SIM_CLASSES; i++)
		free(m.of_class[i / SIM_CLASSES][i % SIM_CLASSES]);
	return rc;
}
