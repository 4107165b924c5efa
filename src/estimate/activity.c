/* SPDX-License-Identifier: MIT
 *
 * The load model of activity.h. Each kernel by itself, since what decides differs from one to the next: a product of
 * matrices is bound by the units that multiply, most others by memory, small ones by what any launch costs, a depthwise
 * convolution by its taps, pooling by its windows, and a batch normalisation that is not channels last by its channels, of
 * which a block takes one. The same arithmetic, over many tasks at once, is in bench/hardware/load_model.py, which fits it;
 * test_hardware.py sees that both agree.
 *
 * Figures of a capture are people's: they are bounded, but nothing says that they are likely. What comes out absurd is unknown.
 */
#include "estimate/activity_private.h"

#include "base/buf.h"
#include "base/scope.h"
#include "models/activity.h"

#include <math.h>
#include <string.h>

#define TILE_FLOPS (2.0 * 128 * 64)	/* of a product, per term of the sum: as a capture counts blocks */
#define ELEMENTS 1024.0			/* of a block of most other kernels */
#define LEAST_DEPTH 16.0		/* of a sum: shorter ones are filled up */
#define STEP_LEAST_S 1e-6
#define STEP_MOST_S 86400.0

static bool is_letter_or_digit(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
}

/* By itself, not as a part of another word: an A40 is no A4000. */
static bool activity_has_word(const char *name, const char *word)
{
	size_t n = strlen(word);

	for (const char *at = name; (at = strcasestr(at, word)); at++)
		if ((at == name || !is_letter_or_digit(at[-1])) && !is_letter_or_digit(at[n]))
			return true;
	return false;
}

/* What is less, or more, than the rest of its name says fits a row that says so. */
static bool activity_fits(const struct gpus_row *g, const char *name)
{
	static const char *const others[] = { "MIG", "Laptop", "Max-Q", "SUPER" };
	unsigned others_named = 0;

	for (size_t i = 0; i < COUNT_OF(g->words) && g->words[i]; i++) {
		if (!activity_has_word(name, g->words[i]))
			return false;
		for (size_t k = 0; k < COUNT_OF(others); k++)
			others_named |= !strcmp(g->words[i], others[k]) ? 1U << k : 0;
	}
	for (size_t k = 0; k < COUNT_OF(others); k++)
		if (strcasestr(name, others[k]) && !(others_named & 1U << k))
			return false;
	return true;
}

/* "GRID A10-8Q", "NVIDIA A40-48C": a virtual machine's, which has a part of the card's time or memory. */
static bool is_virtual(const char *name)
{
	const char *dash = strrchr(name, '-');
	size_t digits = dash ? strspn(dash + 1, "0123456789") : 0;
	return digits && dash[1 + digits] && strchr("ABCQ", dash[1 + digits]) && !dash[2 + digits];
}

static const struct gpus_row *activity_row(const char *name)
{
	if (is_virtual(name))
		return NULL;
	for (const struct gpus_row *g = gpus_table; *g->words; g++)
		if (activity_fits(g, name))
			return g;
	return NULL;
}

/* The makers' words for those of the table, each once. */
static void activity_unknown(const char *name, struct error *err)
{
	scoped_buf known = { 0 };
	for (const struct gpus_row *g = gpus_table, *first; *g->words; g++) {
		for (first = gpus_table; strcmp(first->words[0], g->words[0]);)
			first++;
		if (first == g)
			buf_printf(&known, " %s", g->words[0]);
	}
	error_set(err, ERR_INVALID, "no figures of the GPU '%.60s' are known; those with figures are%s", name, buf_text(&known));
}

const struct gpus_row *activity_gpu(const char *name, struct error *err)
{
	const struct gpus_row *g = name ? activity_row(name) : NULL;

	if (!name)
		error_set(err, ERR_INVALID, "on which GPU is not known (--gpu-model NAME)");
	else if (!g)
		activity_unknown(name, err);
	return g;
}

static double activity_peak(const struct gpus_row *g, unsigned unit)
{
	const double tflops[UNIT_COUNT] = { g->single, g->single, g->tf32, g->half, g->twice };

	return tflops[unit] * 1e12;
}

static bool is_convolution(unsigned class)
{
	return class >= KERNEL_CONV_OUT && class <= KERNEL_CONV_WEIGHTS;
}

static bool is_product(unsigned class)
{
	return class == KERNEL_PRODUCT || is_convolution(class) || class == KERNEL_ATTENTIVE || class == KERNEL_RECURRENT;
}

/* Figures of one kernel: means of an entry. */
struct activity_kernel { double flops, bytes, blocks, depth; unsigned class, unit; bool planar, second; };

static struct activity_kernel activity_mean(const struct capture_kernel *k)
{
	double n = (double)k->count;

	return (struct activity_kernel){ (double)k->flops / n, (double)k->bytes / n, (double)k->blocks / n, (double)k->depth / n,
		k->class, k->unit, !(k->layout & 1), k->layout & 2 };
}

/* Blocks of a product, with a long sum cut into pieces where blocks are few. Channels last, a batch normalisation is not cut
 * into its channels. */
static double activity_pieces(const struct activity_kernel *k)
{
	if (k->class == KERNEL_CHANNEL_NORM && !k->planar)
		return k->blocks * k->depth / ELEMENTS;
	return is_product(k->class) ? k->blocks * fmax(1, k->depth / ACTIVITY_DEEP) : k->blocks;
}

/* Seconds that computing takes; 0 for what is bound by memory alone. */
static double activity_compute_s(const struct activity_kernel *k, const struct gpus_row *g)
{
	double part = activity_classes[k->class].compute[k->unit];

	if (k->class == KERNEL_DEPTHWISE)
		return k->flops / (activity_peak(g, UNIT_SINGLE) * activity_taps[k->planar ? 0 : 1]);
	if (k->class == KERNEL_DEPTHWISE_WEIGHTS)
		return 2 * k->blocks * k->depth / (activity_peak(g, UNIT_SINGLE) *
						   activity_strips[k->planar ? 0 : k->unit == UNIT_HALF ? 2 : 1]);
	if (k->class == KERNEL_CHANNEL_NORM && k->planar)	/* a block goes over its channel, value by value */
		return 1e-9 * ACTIVITY_CHANNEL_NS * (k->unit == UNIT_HALF ? ACTIVITY_CHANNEL_HALF : 1) *
		       k->depth * fmax(1, k->blocks / g->sms);
	if (k->class == KERNEL_POOL)
		return 1e-9 * ACTIVITY_WINDOW_NS * ELEMENTS * k->blocks / g->sms;
	if (!is_product(k->class))
		return 0;
	if (is_convolution(k->class) && k->second)
		part *= ACTIVITY_GROUPED;
	if (k->class == KERNEL_PRODUCT && k->second)
		part *= activity_uneven[k->unit];
	return fmax(k->flops, k->blocks * TILE_FLOPS * fmax(k->depth, LEAST_DEPTH)) /
	       (activity_peak(g, k->unit) * part * fmin(1, activity_pieces(k) / g->sms));
}

static bool fits_cache(const struct activity_kernel *k, const struct gpus_row *g)
{
	return k->bytes < g->l2_mib * 1048576 / 2;
}

static double activity_memory_s(const struct activity_kernel *k, const struct gpus_row *g)
{
	double part = activity_classes[k->class].memory;

	if (fits_cache(k, g))
		part *= ACTIVITY_CACHE;
	return k->bytes / (g->gb_s * 1e9 * part);
}

/* Units that multiply matrices want channels last: cuDNN turns what is not, and its results back, in kernels of their own. */
static double activity_turned_s(const struct activity_kernel *k, const struct gpus_row *g)
{
	if (!is_convolution(k->class) || !k->planar || (k->unit != UNIT_TF32 && k->unit != UNIT_HALF))
		return 0;
	return ACTIVITY_TURNED_US * 1e-6 + k->bytes / (g->gb_s * 1e9 * ACTIVITY_TURNED);
}

void activity_add(struct activity_sums *s, const struct capture_kernel *entry, const struct gpus_row *g)
{
	const struct activity_kernel k = activity_mean(entry);
	const struct activity_class *class = &activity_classes[k.class];
	double n = (double)entry->count;
	double each = class->fixed_us * 1e-6 + fmax(activity_compute_s(&k, g), activity_memory_s(&k, g)) + activity_turned_s(&k, g);
	double occupied = class->active * fmin(1, activity_pieces(&k) / g->sms);

	s->busy += n * (each + ACTIVITY_GAP_US * 1e-6);
	s->active += n * occupied * fmax(each - ACTIVITY_LEAD_US * 1e-6, 0.1 * each);
	s->dram += n * k.bytes * (fits_cache(&k, g) ? ACTIVITY_DRAM_SMALL : ACTIVITY_DRAM_LARGE) / (g->gb_s * 1e9);
	s->work += n * k.flops / activity_peak(g, k.unit);
	s->flops += is_product(k.class) ? (double)entry->flops : 0;
	s->kernels += n;
	s->recurrent += k.class == KERNEL_RECURRENT ? n : 0;
}

static double activity_host_s(const struct capture_host *h, const struct activity_sums *s)
{
	const struct activity_host *us = &activity_host_us;

	return 1e-6 * ((double)h->forward * us->forward + (double)h->backward * us->backward + (double)h->updates * us->updates +
		       (double)h->views * us->views + (double)h->modules * us->modules + (double)h->listed * us->listed +
		       (double)h->parameters * us->parameters + (double)h->waits * us->waits + s->recurrent * us->recurrent + us->step);
}

static double eighth_power(double v)
{
	return v * v * (v * v) * (v * v) * (v * v);
}

static double eighth_root(double v)
{
	return sqrt(sqrt(sqrt(v)));
}

double activity_larger(double a, double b)
{
	double most = fmax(a, b);

	return most > 0 ? most * eighth_root(1 + eighth_power(fmin(a, b) / most)) : 0;
}

double activity_other(double larger, double a)
{
	return larger > a ? larger * eighth_root(1 - eighth_power(a / larger)) : 0;
}

static double fraction(double v)
{
	return fmin(1, fmax(0, v));
}

static void activity_loads(const struct activity_sums *s, const struct gpus_row *g, struct activity *a)
{
	struct load_belief *b = &a->load;
	double draw;

	b->load.gract = fraction(s->busy / a->step_s);
	b->load.smact = fmin(b->load.gract, s->active / a->step_s);
	b->load.kernels = s->kernels / a->step_s;
	b->dram = fraction(s->dram / a->step_s);
	draw = b->load.gract * ACTIVITY_WATTS_GRACT + b->load.smact * ACTIVITY_WATTS_SMACT + b->dram * ACTIVITY_WATTS_DRAM +
	       s->work / a->step_s * ACTIVITY_WATTS_WORK;
	b->watts = g->idle_w + (g->board_w - g->idle_w) * fraction(draw);
	b->source = LOAD_GUESSED;
	b->host = fraction(a->host_s / a->step_s);
	b->loader = fraction(a->loading.bound_s / a->step_s);
	b->cores = loading_cores(&a->loading, a->step_s);
}

bool activity_fitted(const struct gpus_row *g)
{
	return !strcmp(g->words[0], ACTIVITY_FITTED) && !g->words[1];
}

/* The part of a step that hangs on how long loading takes. */
static double activity_loaded(const struct activity *a)
{
	return a->loading.bound_s >= a->step_s ? 1 : fraction(a->loading.main_s / a->step_s);
}

static double activity_wide(double a, double b)
{
	return sqrt(a * a + b * b);
}

/* The wider, the further it is from what the model was fitted to: another GPU, a run of which the capture says that it may go
 * another way, or one that its loaders hold up. */
static void activity_spreads(const struct capture *c, const struct gpus_row *g, struct activity *a)
{
	const unsigned doubts = CAPTURE_DATA_DEPENDENT | CAPTURE_UNKNOWN_OP | CAPTURE_VARIABLE_SHAPES | CAPTURE_COMPILED |
		CAPTURE_CUT_SHORT;
	double wider = (activity_fitted(g) ? 1 : ACTIVITY_OTHER_GPU) * (c->flags & doubts ? ACTIVITY_DOUBTFUL : 1);

	double loaded = LOADING_SPREAD * activity_loaded(a);
	struct load_belief *b = &a->load;

	a->step_spread = activity_wide(wider * (a->host_s > a->busy_s ? ACTIVITY_SPREAD_HOST : ACTIVITY_SPREAD_STEP), loaded);
	b->gract_sd = fmin(LOAD_VAGUE_SD, activity_wide(wider * ACTIVITY_SPREAD_GRACT, loaded * b->load.gract));
	b->smact_sd = fmin(LOAD_VAGUE_SD, activity_wide(wider * ACTIVITY_SPREAD_SMACT, loaded * b->load.smact));
	b->dram_sd = fmin(LOAD_VAGUE_SD, activity_wide(wider * ACTIVITY_SPREAD_DRAM, loaded * b->dram));
}

int activity_conclude(const struct activity_sums *s, const struct capture_host *h, const struct loading *loading,
		      const struct gpus_row *g, struct activity *out, struct error *err)
{
	memset(out, 0, sizeof *out);
	out->assumed = "";
	out->loading = *loading;
	out->host_s = activity_host_s(h, s) + loading->main_s;
	out->busy_s = s->busy;
	out->step_s = activity_larger(out->host_s, out->busy_s) + (double)h->transferred / (ACTIVITY_COPY_GB_S * 1e9) +
		(h->waits ? ACTIVITY_WAIT * fmin(out->host_s, out->busy_s) : 0);
	out->step_s = fmax(out->step_s, loading->bound_s);
	if (!(out->step_s >= STEP_LEAST_S && out->step_s <= STEP_MOST_S)) {
		memset(out, 0, sizeof *out);
		return error_set(err, ERR_INVALID, "its figures are not those of a training step: none takes less than a "
				 "microsecond or more than a day");
	}
	out->flops = s->flops;
	out->kernels = s->kernels;
	activity_loads(s, g, out);
	return 0;
}

int activity_from_capture(const struct capture *c, const char *gpu_name, struct activity *out, struct error *err)
{
	struct activity_sums s = { 0 };
	struct loading loading;
	const struct gpus_row *g;

	memset(out, 0, sizeof *out);
	if (!c->n_kernels)
		return error_set(err, ERR_INVALID, "the capture does not tell: it is of an older rad, or was cut short: capture again");
	g = activity_gpu(gpu_name, err);
	if (!g)
		return -1;
	for (size_t i = 0; i < c->n_kernels; i++)
		activity_add(&s, &c->kernels[i], g);
	loading = loading_of(c);
	if (activity_conclude(&s, &c->host, &loading, g, out, err))
		return -1;
	activity_spreads(c, g, out);
	out->steps = (double)c->steps;
	out->load.run_s = c->steps ? (out->steps + (double)c->beside) * out->step_s : 0;
	out->load.limit_s = (double)c->limit_ms / 1000;
	out->source = "capture";
	return 0;
}
