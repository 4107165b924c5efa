/* SPDX-License-Identifier: MIT
 *
 * One training step made up from a model summary: for each layer the kernels that PyTorch would run forward and backward, with
 * figures counted as a capture counts them (python/radrm/capture/work.py), and what the host does for it. The model of a step
 * is the one of activity.h; nothing here knows how long a kernel takes.
 *
 * A summary shows modules, not operators: what functions do between them is in the coefficients of `activity_roles`, means over
 * captures of the families that the score was not made on (doc/results/load). Taken as PyTorch comes: optimizers in their
 * foreach form, no channels last, no checkpoints, nothing accumulated.
 */
#include "estimate/activity_private.h"
#include "estimate/gpumemnet_vector.h"
#include "models/activity_summary.h"

#include <math.h>
#include <string.h>

_Static_assert(ROLES <= ACTIVITY_ROLES_MOST, "a place for each role");

#define TILE_M 128.0	/* of a product's result, as a capture counts blocks */
#define TILE_N 64.0
#define LIST_CHUNK 65536.0	/* elements, blocks and tensors of kernels over lists: as a capture counts them, on average */
#define LIST_BLOCKS 320.0
#define LIST_TENSORS 64.0
#define WINDOW 64.0	/* tokens that attention in windows looks at */
#define HIDDEN_MOST 0.1	/* of all parameters: in modules of unknown classes that show no layers */
#define MOST 1e18	/* of any figure: absurd beyond, but finite */

struct summary_step {
	const struct summary *s;
	const struct features *f;
	const struct gpus_row *g;
	struct activity_sums sums;
	double host[3];		/* operators forward, backward, views */
	double roles[ROLES];	/* how often each came, for fitting what it costs */
	double modules, tensors, batch;
	double bytes, weight_bytes;	/* of a value, of a parameter */
	double states;		/* that the optimizer keeps of each parameter */
	bool autocast, scaled;	/* scaled: losses, as fp16 wants */
	enum capture_unit conv, product;
	double tokens, token_width;	/* values a sample and width of what attention works on, where the text shows no sizes */
	double before, channels;	/* of what came last: values a sample, and channels where it was an image */
	bool first_conv, causal;
};

static uint64_t whole(double v)
{
	return (uint64_t)fmin(fmax(v, 0), MOST);
}

static double up(double a, double b)
{
	return ceil(fmax(a, 1) / b);
}

/* One kernel `count` times; the figures are those of one. */
static void kernel(struct summary_step *t, enum capture_class class, double count, const struct capture_kernel *of,
		   double bytes, double blocks)
{
	struct capture_kernel k = *of;

	k.class = (uint8_t)class;
	k.count = whole(fmax(count, 1));
	k.bytes = whole(bytes * count);
	k.blocks = whole(fmax(blocks, 1) * count);
	activity_add(&t->sums, &k, t->g);
}

/* `tensors` of n values read and written. */
static void pass_over(struct summary_step *t, enum capture_class class, double count, double n, double tensors, double width)
{
	const struct capture_kernel none = { 0 };

	kernel(t, class, count, &none, tensors * n * width, up(n, 1024));
}

/* Whether rows of so many values do not begin at multiples of 16 bytes. */
static bool is_uneven(double row, double bytes)
{
	return fmod(fmod(row, 16) * bytes, 16) > 0;
}

/* (m, k) x (k, n), with the units for that. */
static void multiply(struct summary_step *t, double count, double m, double n, double k, enum capture_unit unit)
{
	bool uneven = is_uneven(m, t->bytes) || is_uneven(n, t->bytes) || is_uneven(k, t->bytes);
	const struct capture_kernel of = { .flops = whole(2 * m * n * k * count), .depth = whole(k * count), .unit = (uint8_t)unit,
		.layout = uneven ? 2 : 0 };

	kernel(t, KERNEL_PRODUCT, count, &of, (m * k + k * n + m * n) * t->bytes, up(m, TILE_M) * up(n, TILE_N));
}

static void host_of(struct summary_step *t, enum activity_role role, double times)
{
	t->roles[role] += times;
	for (unsigned i = 0; i < 3; i++)
		t->host[i] += times * (t->autocast ? activity_roles[role].autocast : activity_roles[role].operators)[i];
}

/* Under autocast a weight is copied into half precision, and its gradient back. */
static void weights_cast(struct summary_step *t, double times, double params)
{
	if (t->autocast)
		pass_over(t, KERNEL_POINTWISE, 2 * times, params, 1, 6);
}

static bool named(const struct summary_step *t, uint16_t type, const char *part)
{
	struct summary_text name = t->s->types[type].name;

	return memmem(name.at, name.len, part, strlen(part)) != NULL;
}

/* ---- convolutions ---- */

struct summary_conv { double positions, out, taps, groups, depth; bool alone, bias; };

/* Values that a window of a usual size looks at in each channel, where they divide what is summed up for one result; else 1. */
static double summary_taps(double depth)
{
	static const double windows[] = { 9, 25, 49, 15, 3, 7 };

	for (size_t i = 0; depth > 1 && i < sizeof windows / sizeof *windows; i++)
		if (fmod(depth, windows[i]) == 0)
			return windows[i];
	return 1;
}

/* Out of what a table shows (values, the last side, parameters). Images are taken as square; of three dimensions it takes
 * as many channels before as after. `bias`: no batch normalisation follows, which would take it away again. */
static struct summary_conv conv_of(const struct summary_step *t, const struct features_layer *l, bool bias)
{
	double side = fmax(l->side, 1), values = (double)l->activations, params = (double)l->params;
	double before = t->first_conv ? 3 : fmax(1, t->channels);
	struct summary_conv c = { .positions = named(t, l->type, "1") ? side : side * side, .taps = 1, .groups = 1 };

	if (named(t, l->type, "3"))
		c.positions = values / fmax(1, round(sqrt(params / 27)));
	c.positions = fmin(c.positions, values);
	c.out = fmax(1, floor(values / c.positions));
	c.depth = fmax(1, floor(params / c.out));
	bool with = summary_taps(c.depth) == 1 && summary_taps(c.depth - 1) > 1;
	bool without = summary_taps(c.depth) > 1 && summary_taps(c.depth - 1) == 1;
	c.bias = fmod(c.depth, before) != 0 && (fmod(c.depth - 1, before) == 0 || with || (bias && !without));
	c.depth = fmax(1, c.depth - c.bias);
	c.taps = fmod(c.depth, before) == 0 ? c.depth / before : summary_taps(c.depth);
	double each = c.depth / c.taps;
	c.alone = !t->first_conv && each == 1 && c.taps > 1;
	if (c.alone)
		c.groups = c.out;
	else if (!t->first_conv && c.taps > 1 && each < t->channels && fmod(t->channels, each) == 0 &&
		 fmod(c.out, t->channels / each) == 0)
		c.groups = t->channels / each;
	return c;
}

static void add_depthwise(struct summary_step *t, const struct summary_conv *c, const struct features_layer *l)
{
	double n = l->times, out = t->batch * (double)l->activations, in = t->batch * fmax(t->before, (double)l->activations);
	struct capture_kernel of = { .flops = whole(2 * out * c->taps * 2 * n), .depth = whole(c->taps * 2 * n),
		.unit = (uint8_t)t->conv };

	kernel(t, KERNEL_DEPTHWISE, 2 * n, &of, (in + out) * t->bytes, up(in, 1024));
	of.flops /= 2;
	of.depth = whole(t->batch * up(c->positions, 32) * 32 * n);
	kernel(t, KERNEL_DEPTHWISE_WEIGHTS, n, &of, (in + out) * t->bytes, c->out * c->taps);
}

/* Forward, and backward for weights and for what came in, which the first layer of a net does without. */
static void add_dense(struct summary_step *t, const struct summary_conv *c, const struct features_layer *l)
{
	double n = l->times, pixels = t->batch * c->positions, each = c->out / c->groups, channels = fmax(1, c->depth / c->taps);
	double came = fmax(t->before, channels * c->groups * c->positions), before = t->batch * came / (channels * c->groups);
	double moved = (t->batch * (came + (double)l->activations) + (double)l->params) * t->bytes;
	struct capture_kernel of = { .flops = whole(2 * pixels * each * c->depth * c->groups * n), .unit = (uint8_t)t->conv,
		.layout = c->groups > 1 ? 2 : 0, .depth = whole(c->depth * n) };

	kernel(t, KERNEL_CONV_OUT, n, &of, moved, up(pixels, TILE_M) * up(each, TILE_N) * c->groups);
	of.depth = whole(each * c->taps * n);
	if (!t->first_conv)
		kernel(t, KERNEL_CONV_INPUT, n, &of, moved, up(before, TILE_M) * up(channels, TILE_N) * c->groups);
	of.depth = whole(pixels * n);
	kernel(t, KERNEL_CONV_WEIGHTS, n, &of, moved, up(each, TILE_M) * up(c->depth, TILE_N) * c->groups);
}

static void add_conv(struct summary_step *t, const struct features_layer *l, bool bias)
{
	struct summary_conv c = conv_of(t, l, bias);
	double n = l->times;

	if (c.alone)
		add_depthwise(t, &c, l);
	else
		add_dense(t, &c, l);
	weights_cast(t, n, (double)l->params);
	if (c.bias)
		pass_over(t, KERNEL_REDUCE, n, t->batch * (double)l->activations, 1, t->bytes);
	host_of(t, ROLE_CONV, n);
	t->tensors += l->params ? n + c.bias * n : 0;
	t->channels = c.out;
	t->first_conv = false;
}

/* ---- products ---- */

/* Forward, and backward for what came in and for the weights. */
static void add_product(struct summary_step *t, double times, double rows, double in, double out)
{
	multiply(t, times, rows, out, in, t->product);
	multiply(t, times, rows, in, out, t->product);
	multiply(t, times, out, in, rows, t->product);
	weights_cast(t, times, in * out);
}

static void add_linear(struct summary_step *t, const struct features_layer *l, double width_before)
{
	double out = fmax(l->side, 1), rows = t->batch * fmax(1, (double)l->activations / out);
	double in = floor((double)l->params / out);
	bool shared = in < 2, bias = fmod(in, 2) > 0 && !shared;	/* widths are even: one more is the bias */

	add_product(t, l->times, rows, shared ? fmax(width_before, 1) : in - bias, out);
	if (bias)
		pass_over(t, KERNEL_REDUCE, l->times, rows * out, 1, t->bytes);
	if (t->autocast)	/* what came in, and its gradient: from norms in fp32, but not from other products */
		pass_over(t, KERNEL_POINTWISE, l->times, rows * in, 1, 6);
	host_of(t, ROLE_LINEAR, l->times);
	t->tensors += l->params ? l->times * (1 + bias) : 0;
}

/* Of attention that is written out: two products forward and four backward, in `batches` of so many tokens. */
static void multiply_apart(struct summary_step *t, double times, double batches, double seen, double width)
{
	struct capture_kernel of = { .flops = whole(2 * seen * seen * width * batches * 6 * times), .depth = whole(width * 6 * times),
		.unit = (uint8_t)t->product };

	kernel(t, KERNEL_PRODUCT, 6 * times, &of, (2 * seen * width + seen * seen) * batches * t->bytes,
	       up(seen, TILE_M) * up(seen, TILE_N) * batches);
}

/* Attention itself: fused, two products forward and five backward. */
static void add_attention(struct summary_step *t, double times, double values, double width, uint16_t type)
{
	bool windows = named(t, type, "Window") || named(t, type, "RelativePositional"), apart = windows || named(t, type, "T5");
	double window = windows ? WINDOW : MOST;
	double tokens = fmax(1, values / fmax(width, 1)), seen = fmin(tokens, window), heads = fmax(1, width / 64);
	double rows = t->batch * heads * up(tokens, 128);
	double product = 2 * t->batch * values * seen * (t->causal ? 0.5 : 1);
	struct capture_kernel of = { .flops = whole(2 * product * times), .depth = whole(seen * times), .unit = (uint8_t)t->product };

	pass_over(t, KERNEL_COPY, 4 * times, t->batch * values, 2, t->bytes);	/* heads put beside each other, and back */
	pass_over(t, KERNEL_POINTWISE, 2 * times, t->batch * values, 3, t->autocast ? 4 : t->bytes);	/* added to what came in */
	if (apart) {
		double scores = t->batch * heads * tokens * seen;

		multiply_apart(t, times, t->batch * heads * tokens / seen, seen, width / heads);
		pass_over(t, KERNEL_SOFTMAX, 2 * times, scores, 2.5, 4);
		pass_over(t, KERNEL_POINTWISE, 4 * times, scores, 2.5, t->bytes);
		return;
	}
	kernel(t, KERNEL_ATTENTIVE, times, &of, 4 * t->batch * values * t->bytes, rows);
	of.flops = whole(5 * product * times);
	kernel(t, KERNEL_ATTENTIVE, times, &of, 8 * t->batch * values * t->bytes, rows);
}

/* One that holds its four projections itself. */
static void add_attention_module(struct summary_step *t, const struct features_layer *l)
{
	double width = fmax(l->side, 1), rows = t->batch * fmax(1, (double)l->activations / width);

	if ((double)l->params >= 3 * width * width) {
		add_product(t, l->times, rows, width, 3 * width);
		add_product(t, l->times, rows, width, width);
	}
	add_attention(t, l->times, (double)l->activations, width, l->type);
	host_of(t, named(t, l->type, "Window") ? ROLE_WINDOWS : ROLE_ATTENTION, l->times);
	t->tensors += l->params ? 4 * l->times : 0;
}

static void add_recurrent(struct summary_step *t, const struct features_layer *l)
{
	double width = fmax(l->side, 1), steps = fmax(1, (double)l->activations / width);
	double gates = named(t, l->type, "LSTM") ? 4 : named(t, l->type, "GRU") ? 3 : 1;
	double layers = fmax(1, round((double)l->params / (2 * gates * width * width)));
	double each = (double)l->params / layers, n = l->times * layers;
	struct capture_kernel of = { .flops = whole(2 * each * t->batch * steps * n * 2), .depth = whole(width * steps * n * 2),
		.unit = (uint8_t)t->conv };

	kernel(t, KERNEL_RECURRENT, 2 * steps * n, &of, (each + 8 * t->batch * width) * t->bytes, up(each, TILE_M * TILE_N));
	multiply(t, n, each / (2 * width), 2 * width, t->batch * steps, t->conv);	/* cuDNN's, as convolutions are */
	weights_cast(t, l->times, (double)l->params);
	host_of(t, ROLE_RECURRENT, l->times);
	t->tensors += 4 * n;
}

/* ---- what memory bounds ---- */

static void add_norm(struct summary_step *t, const struct features_layer *l)
{
	double n = l->times, values = t->batch * (double)l->activations, width = t->autocast ? 4 : t->bytes;

	t->tensors += l->params ? 2 * n : 0;
	if (named(t, l->type, "RMSNorm") || named(t, l->type, "T5LayerNorm")) {	/* written out in Python */
		pass_over(t, KERNEL_POINTWISE, 10 * n, values, 2.5, width);
		pass_over(t, KERNEL_REDUCE, 3 * n, values, 1, width);
		t->tokens = (double)l->activations;
		t->token_width = l->side;
		host_of(t, ROLE_WRITTEN_NORM, n);
		t->tensors -= n;
		return;
	}
	if (named(t, l->type, "Batch")) {
		double channels = fmax(1, (double)l->params / 2);
		struct capture_kernel of = { .depth = whole(values / channels * n),
			.unit = (uint8_t)(t->weight_bytes < 4 ? UNIT_HALF : UNIT_NONE) };

		kernel(t, KERNEL_CHANNEL_NORM, n, &of, 2 * values * t->bytes, channels);
		of.unit = (uint8_t)(t->bytes < 4 ? UNIT_HALF : UNIT_NONE);
		kernel(t, KERNEL_CHANNEL_NORM, n, &of, 3 * values * t->bytes, channels);
		host_of(t, ROLE_BATCH_NORM, n);
		t->channels = channels;
		return;
	}
	const struct capture_kernel none = { 0 };
	t->tokens = (double)l->activations;
	t->token_width = l->side;
	kernel(t, KERNEL_NORM, 2 * n, &none, 2.5 * values * width, values / fmax(1, l->side));
	host_of(t, ROLE_NORM, n);
}

static void add_embedding(struct summary_step *t, const struct features_layer *l)
{
	const struct capture_kernel none = { 0 };
	double values = t->batch * (double)l->activations;
	double blocks = up(fmax(values, (double)l->params), 1024);

	kernel(t, KERNEL_GATHER, l->times, &none, 2 * values * t->weight_bytes, blocks);
	kernel(t, KERNEL_SCATTER, l->times, &none, ((double)l->params + 2 * values) * t->weight_bytes, blocks);
	pass_over(t, KERNEL_POINTWISE, l->times, (double)l->params, 1, t->weight_bytes);
	host_of(t, ROLE_EMBEDDING, l->times);
	t->tensors += l->params ? l->times : 0;
}

static void add_passing(struct summary_step *t, const struct features_layer *l)
{
	double n = l->times, values = t->batch * (double)l->activations, in = t->batch * fmax(t->before, (double)l->activations);

	switch (l->kind) {
	case SUMMARY_POOL:
		if (l->side == 1) {	/* a mean */
			pass_over(t, KERNEL_REDUCE, n, in, 1, t->bytes);
			pass_over(t, KERNEL_POINTWISE, n, in, 1, t->bytes);
		} else {
			pass_over(t, KERNEL_POOL, 2 * n, in + values, 1.2, t->bytes);
		}
		host_of(t, ROLE_POOL, n);
		break;
	case SUMMARY_SOFTMAX:
		pass_over(t, KERNEL_SOFTMAX, 2 * n, values, 2.5, 4);
		host_of(t, ROLE_ACTIVATION, n);
		break;
	case SUMMARY_ACTIVATION:
		if (named(t, l->type, "NewGELU")) {	/* written out in Python */
			pass_over(t, KERNEL_POINTWISE, 20 * n, values, 2.5, t->bytes);
			host_of(t, ROLE_WRITTEN_ACTIVATION, n);
			break;
		}
		__attribute__((fallthrough));
	case SUMMARY_DROPOUT:
		pass_over(t, KERNEL_POINTWISE, 2 * n, values, 2.5, t->bytes);
		host_of(t, l->kind == SUMMARY_DROPOUT ? ROLE_DROPOUT : ROLE_ACTIVATION, n);
		break;
	default:
		pass_over(t, KERNEL_POINTWISE, 2 * n, values, 2, t->bytes);
		host_of(t, ROLE_OTHER, n);
	}
}

/* `next`: the layer behind it, or NULL. */
static void add_layer(struct summary_step *t, const struct features_layer *l, const struct features_layer *next,
		      double width_before)
{
	if (!l->activations) {	/* never called by itself, or of no size: only its parameters count */
		t->tensors += l->params ? l->times : 0;
		return;
	}
	if (l->kind == SUMMARY_CONV && l->params)
		add_conv(t, l, !next || next->kind != SUMMARY_NORM || !named(t, next->type, "Batch"));
	else if (l->kind == SUMMARY_LINEAR)
		add_linear(t, l, width_before);
	else if (l->kind == SUMMARY_NORM)
		add_norm(t, l);
	else if (l->kind == SUMMARY_EMBEDDING)
		add_embedding(t, l);
	else if (l->kind == SUMMARY_ATTENTION)
		add_attention_module(t, l);
	else if (l->kind == SUMMARY_RECURRENT)
		add_recurrent(t, l);
	else
		add_passing(t, l);
	t->before = (double)l->activations;
}

/* ---- modules that hold others ---- */

/* Those with weights of their own are layers already. */
static bool attends(const struct summary *s, size_t i)
{
	const struct summary_type *type = &s->types[s->layers[i].type];

	return s->layers[i].parent && type->kind == SUMMARY_ATTENTION && !summary_is(type->name, "MultiheadAttention") &&
	       !summary_is(type->name, "XLNetRelativeAttention");
}

/* No other one within it. */
static bool innermost(const struct summary *s, size_t i)
{
	for (size_t k = i + 1; k < s->n_layers && s->layers[k].nesting > s->layers[i].nesting; k++)
		if (attends(s, k))
			return false;
	return true;
}

/* Blocks of a net add what came into them to what they made of it. */
static bool is_block(const struct summary_step *t, const struct summary_layer *l)
{
	static const char *const words[] = { "Block", "Bottleneck", "Residual", "Layer" };

	for (size_t i = 0; l->parent && i < sizeof words / sizeof *words; i++)
		if (named(t, l->type, words[i]))
			return true;
	return false;
}

static void add_modules(struct summary_step *t)
{
	const struct summary *s = t->s;

	for (size_t i = 0; i < s->n_layers; i++) {
		const struct summary_layer *l = &s->layers[i];
		double values = l->has_shape ? (double)l->elements / fmax(l->batch, 1) : 0;
		double tokens = values > 0 ? values : t->tokens, width = values > 0 ? l->last_dim : t->token_width;

		t->modules += named(t, l->type, "ModuleList") ? 0 : l->times;
		if (attends(s, i) && innermost(s, i) && !l->params) {
			add_attention(t, l->times, tokens, width, l->type);
			host_of(t, ROLE_ATTENTION_BLOCK, l->times);
		}
		if (is_block(t, l)) {
			pass_over(t, KERNEL_POINTWISE, 2 * l->times, t->batch * values, 3, t->autocast ? 4 : t->bytes);
			host_of(t, ROLE_BLOCK, l->times);
		}
	}
}

/* ---- around the model ---- */

static void add_loss(struct summary_step *t, const struct features_layer *last)
{
	double values = t->batch * (double)last->activations, rows = last->side > 1 ? values / last->side : t->batch;
	const struct capture_kernel none = { 0 };

	kernel(t, KERNEL_SOFTMAX, 4, &none, 2 * values * 4, rows);
	if (t->f->family == FEATURES_TRANSFORMER)
		pass_over(t, KERNEL_POINTWISE, 2, values, 2, 4);
	host_of(t, ROLE_STEP, 1);
}

/* Kernels over lists of all parameters. */
static void add_updates(struct summary_step *t, struct capture_host *h)
{
	const struct capture_kernel none = { 0 };
	double operators = (t->states >= 2 ? 8 : t->states > 0 ? 4 : 1) + t->scaled, params = (double)t->f->trainable_params;
	double chunks = up(params, LIST_CHUNK) + t->tensors / 2, launches = up(t->tensors, LIST_TENSORS) + floor(chunks / LIST_BLOCKS);

	kernel(t, KERNEL_MANY, operators * launches, &none, 13.0 / 4 * t->weight_bytes * params / launches, chunks / launches);
	h->updates = whole(operators);
	h->listed = whole(operators * t->tensors);
	h->parameters = whole(t->tensors);
	h->waits = t->scaled;
}

static void set_precision(struct summary_step *t)
{
	struct gpumemnet_vector v;	/* knows the words for optimizers and precisions */
	const char *p = t->f->precision;

	gpumemnet_vector(t->f, &v);
	t->states = v.inputs[GPUMEMNET_STATES];
	t->weight_bytes = v.inputs[GPUMEMNET_WEIGHT_BYTES];
	t->bytes = v.inputs[GPUMEMNET_VALUE_BYTES];
	t->autocast = v.inputs[GPUMEMNET_AUTOCAST] > 0;
	t->scaled = t->autocast && strcasestr(p, "fp16");
	t->conv = t->bytes < 4 ? UNIT_HALF : strcasestr(p, "ieee") ? UNIT_SINGLE : UNIT_TF32;
	t->product = t->bytes < 4 ? UNIT_HALF : strcasestr(p, "tf32") ? UNIT_TF32 : UNIT_SINGLE;
}

static void add_layers(struct summary_step *t)
{
	const struct features *f = t->f;
	const struct features_layer *last = NULL;
	double width = 0;

	for (size_t i = 0; i < f->n_list; i++) {
		add_layer(t, &f->list[i], i + 1 < f->n_list ? &f->list[i + 1] : NULL, width);
		width = f->list[i].side ? f->list[i].side : width;
		last = f->list[i].activations ? &f->list[i] : last;
	}
	for (size_t i = 0; i < t->s->n_types; i++)
		t->causal |= named(t, (uint16_t)i, "CausalLM") || named(t, (uint16_t)i, "LMHeadModel");
	add_modules(t);
	if (last)
		add_loss(t, last);
}

/* What was not said, and how it is taken. */
static const char *summary_assumed(const struct features *f)
{
	bool optimizer = gpumemnet_knows_optimizer(f->optimizer);
	bool precision = gpumemnet_knows_precision(f->precision) && !strstr(f->precision, "-bit");
	bool followed = f->format == SUMMARY_MODULES;

	if (optimizer && precision)
		return followed ? "sizes worked out" : "";
	if (optimizer)
		return followed ? "sizes worked out, taken as fp32" : "taken as fp32";
	if (precision)
		return followed ? "sizes worked out, taken as Adam" : "taken as Adam";
	return followed ? "sizes worked out, taken as Adam, fp32" : "taken as Adam, fp32";
}

static void summary_spreads(const struct gpus_row *g, struct activity *a)
{
	double wider = (activity_fitted(g) ? 1 : SUMMARY_OTHER_GPU) * (*a->assumed ? SUMMARY_DOUBTFUL : 1);

	a->step_spread = wider * SUMMARY_SPREAD_STEP;
	a->load.gract_sd = fmin(LOAD_VAGUE_SD, wider * SUMMARY_SPREAD_GRACT);
	a->load.smact_sd = fmin(LOAD_VAGUE_SD, wider * SUMMARY_SPREAD_SMACT);
	a->load.dram_sd = fmin(LOAD_VAGUE_SD, wider * SUMMARY_SPREAD_DRAM);
}

/* Whether the text tells of modules by their parameters alone: a table cut off at a depth. */
static bool hides_layers(const struct summary *s, const struct features *f)
{
	double hidden = 0;

	for (size_t i = 0; i < s->n_layers; i++) {
		const struct summary_layer *l = &s->layers[i];

		if (!l->parent && s->types[l->type].kind == SUMMARY_CONTAINER)
			hidden += (double)l->params * l->times;
	}
	return hidden > HIDDEN_MOST * (double)f->params;
}

static const char *summary_why_not(const struct summary *s, const struct features *f)
{
	if (f->format == SUMMARY_KERAS)
		return "the model summary is of Keras: the load is known of what PyTorch runs";
	if (!f->activations_known)
		return "the model summary shows no output shapes, and so no work";
	if (hides_layers(s, f))
		return "the model summary hides inner layers (torchinfo: a larger depth shows all)";
	return f->batch_size > 0 ? NULL : "no batch size (batch_size: N, --batch-size N)";
}

size_t activity_summary_roles(const struct summary *s, const struct features *f, double *times)
{
	struct summary_step t = { .s = s, .f = f, .batch = (double)f->batch_size, .first_conv = true, .g = &gpus_table[0] };

	if (summary_why_not(s, f))
		return 0;
	set_precision(&t);
	add_layers(&t);
	memcpy(times, t.roles, sizeof t.roles);
	return ROLES;
}

int activity_from_summary(const struct summary *s, const struct features *f, const char *gpu_name, struct activity *out,
			  struct error *err)
{
	struct summary_step t = { .s = s, .f = f, .batch = (double)f->batch_size, .first_conv = true };
	struct capture_host host = { 0 };

	const char *why = summary_why_not(s, f);

	memset(out, 0, sizeof *out);
	if (why)
		return error_set(err, ERR_INVALID, "%s", why);
	t.g = activity_gpu(gpu_name, err);
	if (!t.g)
		return -1;
	set_precision(&t);
	add_layers(&t);
	add_updates(&t, &host);
	host.forward = whole(t.host[0]);
	host.backward = whole(t.host[1]);
	host.views = whole(t.host[2]);
	host.modules = whole(t.modules);
	if (activity_conclude(&t.sums, &host, &(struct loading){ 0 }, t.g, out, err))
		return -1;
	out->source = "summary";
	out->assumed = summary_assumed(f);
	summary_spreads(t.g, out);
	return 0;
}
