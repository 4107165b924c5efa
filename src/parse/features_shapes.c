/* SPDX-License-Identifier: MIT
 *
 * What printed modules do not show: sizes of outputs, and parameters where they are not printed.
 *
 * Layers are followed in the order of the text, which is the order in which they were made and nearly always that in which
 * they run. Where a layer wants another number of channels than what comes in, the text tells of a branch (residual,
 * inception, gate), which begins at the entry of a module around it, or of a join (dense connections, U-Net), which has the
 * wanted channels at the current size. What functions do between modules cannot be seen, only guessed from what the next
 * layer wants.
 */
#include "parse/features_private.h"

#include "base/scope.h"

#include <string.h>

#define DEFAULT_SEQ_LEN 512
#define MAX_SIDE 100000

/* What flows between layers: `space` for images and signals, `tokens` for sequences; a plain vector has one token. */
struct shape {
	int64_t channels, space[3], tokens;
	unsigned n_space;
};

/* A module whose children are being followed. */
struct frame {
	size_t layer;
	struct shape entry;
	bool fresh;		/* no layer inside has been followed yet */
	bool gate, side;	/* what leaves it is what came in */
	/* Its own activation function, which may be printed once and called often. */
	unsigned activations, norms, weighted;
	size_t activation;
	uint64_t norm_elements, weighted_elements, widest, last;
};

struct shapes_walk {
	const struct summary *s;
	struct features_fact *facts;
	struct shape now;
	bool begun, joined_next;	/* joined_next: just enlarged, so what follows joins a skip connection */
	int64_t seq_len;
	int64_t input[3];		/* what an image is taken to be; channels 0: that of the first convolution */
	bool saw_image, saw_tokens;
	unsigned misfits;		/* flattened sizes that contradict the input size */
	size_t last_linear;
	size_t loose;			/* since this layer, none has said how many channels there are */
	bool cls_token, classifies;	/* by the class of the whole model */
	struct frame frames[SUMMARY_MAX_NESTING + 2];
	unsigned n;
};

static int64_t bounded(int64_t n)
{
	return n < 1 ? 1 : n > (int64_t)1 << 32 ? (int64_t)1 << 32 : n;
}

static int64_t area_of(const struct shape *s)
{
	int64_t area = 1;
	for (unsigned i = 0; i < s->n_space; i++)
		area = bounded(s->space[i]) > (1 << 20) ? (int64_t)1 << 20 : area * bounded(s->space[i]);
	return area > (int64_t)1 << 40 ? (int64_t)1 << 40 : area;
}

static uint64_t elements_of(const struct shape *s)
{
	return summary_product(summary_product((uint64_t)bounded(s->channels), (uint64_t)area_of(s)), (uint64_t)bounded(s->tokens));
}

/* What flows now is the output of that layer. */
static void set_output(struct shapes_walk *w, size_t i)
{
	w->facts[i].elements = elements_of(&w->now);
	bool last = w->facts[i].kind == SUMMARY_LINEAR || !w->now.n_space;	/* of images, too, a linear layer has channels last */
	w->facts[i].side = (uint32_t)bounded(last ? w->now.channels : w->now.space[w->now.n_space - 1]);
}

static struct shape vector_of(int64_t channels, int64_t tokens)
{
	return (struct shape){ .channels = bounded(channels), .tokens = bounded(tokens) };
}

static bool name_has(struct summary_text t, const char *a, const char *b)
{
	return summary_contains(t, a) || (b && summary_contains(t, b));
}

static struct summary_text type_of(const struct shapes_walk *w, size_t layer)
{
	return w->s->types[w->s->layers[layer].type].name;
}

static struct frame *top(struct shapes_walk *w)
{
	return w->n ? &w->frames[w->n - 1] : NULL;
}

/* ---- branches and joins ---- */

/* What just came in is also where the modules begin that have had no layer yet. */
static void resolve_entries(struct shapes_walk *w)
{
	for (unsigned i = w->n; i-- > 0 && w->frames[i].fresh && !w->frames[i].gate; )
		w->frames[i].entry = w->now;
}

/* What comes in is joined from several branches; pooling and the like before it already saw all of them. */
static void join(struct shapes_walk *w, size_t i, int64_t channels)
{
	for (size_t k = w->loose; k < i; k++)
		if (w->facts[k].kind == SUMMARY_POOL || w->facts[k].kind == SUMMARY_DROPOUT)
			w->facts[k].elements = summary_product(w->facts[k].elements / (uint64_t)bounded(w->now.channels), (uint64_t)channels);
	w->now.channels = channels;
}

/* Makes what comes into layer i have that many channels. */
static void fit(struct shapes_walk *w, size_t i, int64_t channels)
{
	if (channels <= 0 || w->now.channels == channels)
		return;
	channels = bounded(channels);
	for (unsigned k = w->n; !w->joined_next && k-- > 0; )
		if (w->frames[k].entry.channels == channels) {
			w->now = w->frames[k].entry;
			return;
		}
	struct frame *f = top(w);
	if (f && w->now.n_space == 2 && channels == 4 * w->now.channels && name_has(type_of(w, f->layer), "Merging", NULL)) {
		w->now.space[0] = bounded(w->now.space[0] / 2);	/* Swin's patch merging */
		w->now.space[1] = bounded(w->now.space[1] / 2);
	}
	join(w, i, channels);
}

/* ---- layers ---- */

static void set_params(struct shapes_walk *w, size_t i, uint64_t params)
{
	if (!w->s->layers[i].has_params)
		w->facts[i].params = params < SUMMARY_MAX_COUNT ? params : SUMMARY_MAX_COUNT;
}

static int64_t convolved(int64_t n, int64_t kernel, int64_t stride, int64_t padding, int64_t dilation, bool ceil)
{
	int64_t span = n + 2 * padding - dilation * (kernel - 1) - 1;
	int64_t out = span < 0 ? 1 : (span + (ceil ? stride - 1 : 0)) / stride + 1;
	return ceil && out > 1 && (out - 1) * stride >= n + padding ? out - 1 : out;	/* no window starts behind the end */
}

/* kernel_size, stride, padding, dilation, output_padding of up to three dimensions. */
struct shapes_window { int64_t kernel[3], stride[3], padding[3], dilation[3], extra[3]; bool same; };

static void bound_all(int64_t *values, int64_t min)
{
	for (unsigned i = 0; i < 3; i++)
		values[i] = values[i] < min ? min : values[i] > MAX_SIDE ? MAX_SIDE : values[i];
}

/* A stride that is not printed is 1 for convolutions, and for pooling as large as its kernel. */
static struct shapes_window window_of(struct summary_text args, bool pool)
{
	struct shapes_window v = { { 1, 1, 1 }, { 1, 1, 1 }, { 0, 0, 0 }, { 1, 1, 1 }, { 0, 0, 0 },
		features_arg_is(args, "padding", "same") || features_arg_is(args, "padding", "'same'") };
	if (features_arg_numbers(args, "kernel_size", v.kernel, 3) && pool)
		memcpy(v.stride, v.kernel, sizeof v.stride);
	features_arg_numbers(args, "stride", v.stride, 3);
	features_arg_numbers(args, "padding", v.padding, 3);
	features_arg_numbers(args, "dilation", v.dilation, 3);
	features_arg_numbers(args, "output_padding", v.extra, 3);
	bound_all(v.kernel, 1);
	bound_all(v.stride, 1);
	bound_all(v.padding, 0);
	bound_all(v.dilation, 1);
	bound_all(v.extra, 0);
	return v;
}

/* An image or signal for a convolution, from whatever comes in. */
static void make_space(struct shapes_walk *w, int64_t channels, unsigned dims)
{
	struct shape *now = &w->now;
	if (w->begun && now->n_space == dims)
		return;
	if (w->begun && dims == 1 && now->n_space == 0 && now->tokens > 1) {	/* (tokens, channels) turned round */
		*now = (struct shape){ now->channels, { now->tokens, 1, 1 }, 1, 1 };
		return;
	}
	int64_t side = 1;
	bool folded = w->begun && channels > 3 && now->n_space == 0;
	while (folded && side < 64 && side * side * channels < now->channels)
		side++;		/* a generator: a vector seen as a small image */
	int64_t size = dims == 1 ? w->seq_len : w->input[1], other = dims == 1 ? 1 : w->input[2];
	*now = (struct shape){ channels, { dims == 3 ? 16 : folded ? side : size, folded ? side : dims == 3 ? size : other,
		folded ? side : other }, 1, dims };
	w->saw_image |= !folded && dims > 1;
	w->saw_tokens |= !folded && dims == 1;
}

static void follow_conv(struct shapes_walk *w, size_t i)
{
	struct summary_text args = w->s->layers[i].args, type = type_of(w, i);
	int64_t io[2] = { 0, 0 }, groups = 1;
	if (features_arg_plain(args, io, 2) < 2)
		return;
	unsigned dims = summary_contains(type, "1d") ? 1 : summary_contains(type, "3d") ? 3 : 2;
	bool transposed = summary_contains(type, "Transpose");
	struct shapes_window v = window_of(args, false);
	features_arg_numbers(args, "groups", &groups, 1);
	io[0] = bounded(io[0]);
	io[1] = bounded(io[1]);
	if (io[0] <= 3 && w->begun && w->now.channels != io[0] && w->now.n_space == 0)
		w->begun = false;	/* a second input: the images of a model of text and images */
	make_space(w, io[0], dims);
	fit(w, i, io[0]);
	resolve_entries(w);
	uint64_t params = summary_product((uint64_t)io[0] / (uint64_t)bounded(groups), (uint64_t)io[1]);
	for (unsigned d = 0; d < dims; d++) {
		int64_t n = w->now.space[d];
		params = summary_product(params, (uint64_t)v.kernel[d]);
		w->now.space[d] = transposed ? bounded((n - 1) * v.stride[d] - 2 * v.padding[d] + v.dilation[d] * (v.kernel[d] - 1) +
						       v.extra[d] + 1) :
				  v.same ? n : convolved(n, v.kernel[d], v.stride[d], v.padding[d], v.dilation[d], false);
	}
	w->now.channels = io[1];
	w->joined_next = transposed && v.stride[0] > 1;
	set_params(w, i, params + (features_arg_is(args, "bias", "False") ? 0 : (uint64_t)io[1]));
}

static void follow_pool(struct shapes_walk *w, size_t i)
{
	struct summary_text args = w->s->layers[i].args, type = type_of(w, i);
	int64_t size[3];
	struct shapes_window v = window_of(args, true);
	if (features_arg_numbers(args, "output_size", size, 3)) {
		for (unsigned d = 0; d < w->now.n_space; d++)
			w->now.space[d] = size[d] > 0 ? bounded(size[d]) : w->now.space[d];
		return;
	}
	if (summary_starts(type, "Global"))
		for (unsigned d = 0; d < w->now.n_space; d++)
			w->now.space[d] = 1;
	for (unsigned d = 0; d < w->now.n_space; d++)
		w->now.space[d] = convolved(w->now.space[d], v.kernel[d], v.stride[d], v.padding[d], v.dilation[d],
					    features_arg_is(args, "ceil_mode", "True"));
}

/* Channels that a normalisation is made for, and its parameters. */
static int64_t norm_channels(struct shapes_walk *w, size_t i, uint64_t *params)
{
	struct summary_text args = w->s->layers[i].args, type = type_of(w, i);
	int64_t n[4];
	unsigned numbers = features_arg_plain(args, n, 4);
	bool group = summary_contains(type, "GroupNorm"), layer = name_has(type, "LayerNorm", "RMSNorm");
	/* Plain numbers: channels; groups and channels; or the normalised dimensions, in a parenthesis of their own. */
	int64_t channels = !numbers ? w->now.channels : group && numbers > 1 ? n[1] : n[0];
	uint64_t weights = (uint64_t)bounded(channels);
	if (layer && args.len && *args.at == '(')
		for (unsigned k = 1; k < numbers && n[k] > 1; k++)
			weights = summary_product(weights, (uint64_t)n[k]);
	bool one = !numbers || summary_contains(type, "RMSNorm") || features_arg_is(args, "bias", "False");
	bool none = features_arg_is(args, "affine", "False") || features_arg_is(args, "elementwise_affine", "False") ||
		    summary_contains(type, "ResponseNorm");
	*params = none ? 0 : one && layer ? weights : 2 * weights;
	return layer && weights != (uint64_t)channels ? 0 : channels;
}

/* A vision transformer goes from an image to patches and one token more, with learned positions. */
static void make_patches(struct shapes_walk *w)
{
	if (!w->cls_token || w->now.n_space != 2)
		return;
	w->now = vector_of(w->now.channels, area_of(&w->now) + 1);
	w->cls_token = false;
	if (w->n && !w->s->layers[w->frames[0].layer].has_params)
		w->facts[w->frames[0].layer].params += summary_product((uint64_t)w->now.channels, (uint64_t)w->now.tokens + 1);
	resolve_entries(w);
}

static void follow_norm(struct shapes_walk *w, size_t i)
{
	uint64_t params;
	make_patches(w);
	int64_t channels = norm_channels(w, i, &params);
	set_params(w, i, params);
	/* The norm of attention heads looks at a part of the channels at a time. */
	bool heads = channels > 0 && channels < w->now.channels && w->now.n_space == 0 && w->now.channels % channels == 0;
	if (!heads)
		fit(w, i, channels);
	resolve_entries(w);
}

/* Whether what comes out of the body is one vector here: the output layers of classifiers. */
static bool is_head(const struct shapes_walk *w, size_t i)
{
	struct summary_text name = w->s->layers[i].name;
	if (i == w->last_linear || summary_is(name, "fc") || name_has(name, "classif", "head"))
		return true;
	for (unsigned k = w->n; k-- > 1; )	/* the whole model may be called anything */
		if (name_has(w->s->layers[w->frames[k].layer].name, "classif", "head"))
			return true;
	return false;
}

static void one_token(struct shapes_walk *w, size_t i)
{
	if (w->now.n_space == 0 && w->now.tokens > 1 && (w->saw_image || w->classifies) && is_head(w, i))
		w->now.tokens = 1;
}

static void flatten(struct shapes_walk *w)
{
	uint64_t all = summary_product((uint64_t)w->now.channels, (uint64_t)area_of(&w->now));
	if (w->now.n_space)
		w->now = vector_of((int64_t)all, w->now.tokens);
}

/* Inside an auxiliary classifier. */
static bool in_side(const struct shapes_walk *w)
{
	for (unsigned k = 0; k < w->n; k++)
		if (w->frames[k].side)
			return true;
	return false;
}

static void linear_input(struct shapes_walk *w, size_t i, int64_t in)
{
	struct shape *now = &w->now;
	if (!w->begun || !now->n_space) {
		one_token(w, i);
		fit(w, i, in);
		return;
	}
	int64_t area = area_of(now);
	if (area == 1) {
		fit(w, i, in);
		*now = vector_of(in, 1);
	} else if (in == now->channels && is_head(w, i) && !w->cls_token)
		*now = vector_of(in, 1);		/* pooled by a function */
	else if (in != now->channels && area < MAX_SIDE && in == now->channels * area)
		*now = vector_of(in, 1);
	else if (now->n_space == 1 && in == now->channels)
		*now = vector_of(in, now->space[0]);
	else if (in != now->channels && in % now->channels == 0 && in != 4 * now->channels) {
		*now = vector_of(in, 1);		/* pooled to another size on the way, or another input size */
		w->misfits += !in_side(w);
	} else
		fit(w, i, in);
}

/* GPT-2's Conv1D did not print its sizes for long: they follow from the number of its parameters. */
static bool conv1d_sizes(struct shapes_walk *w, size_t i, int64_t *in, int64_t *out)
{
	const struct summary_layer *layer = &w->s->layers[i];
	if (features_arg_numbers(layer->args, "nf", out, 1) && features_arg_numbers(layer->args, "nx", in, 1))
		return true;
	if (!layer->has_params || !layer->params)
		return false;
	int64_t params = (int64_t)layer->params;
	*in = w->now.channels;
	for (unsigned k = w->n; params % (*in + 1) && k-- > 0; )
		*in = bounded(w->frames[k].entry.channels);
	*out = params / (*in + 1);
	return params % (*in + 1) == 0;
}

static void follow_linear(struct shapes_walk *w, size_t i)
{
	struct summary_text args = w->s->layers[i].args;
	int64_t in = 0, out = 0;
	make_patches(w);
	if (summary_is(type_of(w, i), "Conv1D") ? !conv1d_sizes(w, i, &in, &out) :
	    !features_arg_numbers(args, "in_features", &in, 1) || !features_arg_numbers(args, "out_features", &out, 1))
		return;
	in = bounded(in);
	out = bounded(out);
	linear_input(w, i, in);
	resolve_entries(w);
	w->now.channels = out;
	set_params(w, i, summary_product((uint64_t)in, (uint64_t)out) + (features_arg_is(args, "bias", "False") ? 0 : (uint64_t)out));
}

static void follow_embedding(struct shapes_walk *w, size_t i)
{
	int64_t n[2];
	struct summary_text name = w->s->layers[i].name;
	if (features_arg_plain(w->s->layers[i].args, n, 2) < 2) {
		w->facts[i].kind = SUMMARY_OTHER;
		return;
	}
	set_params(w, i, summary_product((uint64_t)bounded(n[0]), (uint64_t)bounded(n[1])));
	if (summary_contains(name, "relative_attention_bias")) {	/* a bias for each pair of tokens and head */
		struct shape pairs = { n[1], { w->seq_len, w->seq_len, 1 }, 1, 2 };
		w->facts[i].elements = elements_of(&pairs);
		return;
	}
	bool bag = summary_contains(type_of(w, i), "Bag");
	w->now = vector_of(n[1], bag ? 1 : w->seq_len);
	w->saw_tokens |= !bag;
	resolve_entries(w);
	w->facts[i].elements = elements_of(&w->now);
}

static void follow_recurrent(struct shapes_walk *w, size_t i)
{
	struct summary_text args = w->s->layers[i].args, type = type_of(w, i);
	int64_t io[2], layers = 1;
	if (features_arg_plain(args, io, 2) < 2)
		return;
	features_arg_numbers(args, "num_layers", &layers, 1);
	uint64_t gates = summary_contains(type, "LSTM") ? 4 : summary_contains(type, "GRU") ? 3 : 1, params = 0;
	uint64_t ways = features_arg_is(args, "bidirectional", "True") ? 2 : 1;
	uint64_t in = (uint64_t)bounded(io[0]), out = (uint64_t)bounded(io[1]);
	uint64_t biases = features_arg_is(args, "bias", "False") ? 0 : 2;
	layers = layers < 1 ? 1 : layers > 1000 ? 1000 : layers;
	for (int64_t k = 0; k < layers; k++)
		params += summary_product(summary_product(gates * ways, out), (k ? ways * out : in) + out + biases);
	set_params(w, i, params);
	if (!w->begun)
		w->saw_tokens = true;
	int64_t tokens = !w->begun ? w->seq_len : w->now.n_space ? area_of(&w->now) : w->now.tokens;
	w->now = vector_of(io[0], tokens);
	resolve_entries(w);
	w->now.channels = (int64_t)(ways * out);
}

static void follow_other(struct shapes_walk *w, size_t i)
{
	struct summary_text args = w->s->layers[i].args, type = type_of(w, i);
	int64_t n[4] = { 0 };
	if (summary_is(type, "Flatten")) {
		flatten(w);
	} else if (summary_is(type, "Unflatten") && features_arg_numbers(args, "unflattened_size", n, 3)) {
		w->now = (struct shape){ bounded(n[0]), { bounded(n[1]), bounded(n[2]), 1 }, 1, 2 };
	} else if (summary_is(type, "PixelShuffle") && features_arg_numbers(args, "upscale_factor", n, 1)) {
		int64_t by = n[0] < 1 ? 1 : n[0] > 64 ? 64 : n[0];
		w->now.channels = bounded(w->now.channels / (by * by));
		for (unsigned d = 0; d < w->now.n_space; d++)
			w->now.space[d] = bounded(w->now.space[d] * by);
	} else if (name_has(type, "Upsampl", "UpSampl")) {
		bool by = features_arg_numbers(args, "scale_factor", n, 3);
		if (!by && !features_arg_numbers(args, "size", n, 3))
			return;
		for (unsigned d = 0; d < w->now.n_space; d++)
			w->now.space[d] = bounded(by ? w->now.space[d] * bounded(n[d] < 64 ? n[d] : 64) : n[d]);
		w->joined_next = true;
	} else if (summary_contains(type, "Pad2d") &&
		   (features_arg_plain(args, n, 4) == 4 || features_arg_numbers(args, "padding", n, 4))) {
		w->now.space[1] = bounded(w->now.space[1] + n[0] + n[1]);
		w->now.space[0] = bounded(w->now.space[0] + n[2] + n[3]);
	}
}

static void count_in_frame(struct shapes_walk *w, size_t i, enum summary_kind kind)
{
	struct frame *f = top(w);
	uint64_t elements = w->facts[i].elements;
	if (!f)
		return;
	if (kind == SUMMARY_ACTIVATION) {
		f->activations++;
		f->activation = i;
	} else if (kind == SUMMARY_NORM && w->now.n_space) {
		f->norms++;
		f->norm_elements += elements;
	} else if (kind == SUMMARY_LINEAR || kind == SUMMARY_CONV) {
		f->weighted++;
		f->weighted_elements += elements;
		f->widest = f->last > f->widest ? f->last : f->widest;
		f->last = elements;
	}
}

/* The dropout of attention weights is a function's argument where attention is fused, and never called as a module. */
static bool never_called(const struct shapes_walk *w, size_t i)
{
	struct summary_text name = w->s->layers[i].name;
	if (summary_is(type_of(w, i), "NonDynamicallyQuantizableLinear"))
		return true;	/* MultiheadAttention uses its weights alone */
	if (w->facts[i].kind != SUMMARY_DROPOUT || !w->n)
		return false;
	struct summary_text around = type_of(w, w->frames[w->n - 1].layer);
	return summary_is(name, "attn_dropout") || summary_is(name, "attention_dropout") ||
	       (summary_is(name, "dropout") && summary_contains(around, "SelfAttention") && !summary_contains(around, "Layer"));
}

static void follow_leaf(struct shapes_walk *w, size_t i)
{
	enum summary_kind kind = w->facts[i].kind;
	static void (*const follow[SUMMARY_KIND_COUNT])(struct shapes_walk *, size_t) = {
		[SUMMARY_CONV] = follow_conv, [SUMMARY_POOL] = follow_pool, [SUMMARY_NORM] = follow_norm,
		[SUMMARY_LINEAR] = follow_linear, [SUMMARY_RECURRENT] = follow_recurrent, [SUMMARY_OTHER] = follow_other,
		[SUMMARY_EMBEDDING] = follow_embedding,
	};
	struct shape before = w->now;
	bool silent = never_called(w, i);
	if (follow[kind])
		follow[kind](w, i);
	if (silent)
		w->now = before;
	if (w->now.channels > 0)
		w->begun = true;
	if (kind != SUMMARY_EMBEDDING && !silent && w->begun)
		set_output(w, i);
	if (kind == SUMMARY_ACTIVATION && summary_is(type_of(w, i), "PReLU")) {
		int64_t n = 1;
		features_arg_numbers(w->s->layers[i].args, "num_parameters", &n, 1);
		set_params(w, i, (uint64_t)bounded(n));
	}
	if (kind == SUMMARY_LINEAR)
		w->joined_next = false;
	if (kind == SUMMARY_CONV || kind == SUMMARY_NORM || kind == SUMMARY_LINEAR || kind == SUMMARY_EMBEDDING)
		w->loose = i + 1;
	count_in_frame(w, i, kind);
	for (unsigned k = w->n; k-- > 0 && w->frames[k].fresh; )
		w->frames[k].fresh = false;
}

/* ---- modules around layers ---- */

/* By its name, a branch beside what stands before it; "branch3x3_2" goes on with branch3x3_1. */
static bool is_branch(struct summary_text name)
{
	return name_has(name, "downsample", "shortcut") || (summary_starts(name, "branch") && !summary_contains(name, "_2") &&
							    !summary_contains(name, "_3"));
}

static void enter(struct shapes_walk *w, size_t i)
{
	struct summary_text type = type_of(w, i), name = w->s->layers[i].name;
	if (w->n && !top(w)->fresh && is_branch(name))
		w->now = top(w)->entry;
	if (name_has(type, "ooler", "ClassificationHead") || name_has(name, "pooler", "sequence_summary"))
		if (!w->now.n_space && w->now.tokens > 1)
			w->now.tokens = 1;
	struct frame *f = &w->frames[w->n++];
	*f = (struct frame){ .layer = i, .entry = w->now, .fresh = true };
	f->gate = w->now.n_space && (summary_contains(type, "Squeeze") || summary_is(name, "se"));
	f->side = name_has(name, "aux", "Aux") || summary_contains(type, "Aux");
	for (unsigned d = 0; f->gate && d < w->now.n_space; d++)
		w->now.space[d] = 1;
}

static bool is_list(struct summary_text type)
{
	return summary_is(type, "ModuleList") || summary_is(type, "Sequential");
}

/* An activation function that a module holds once and calls after each of its normalisations, or of its layers but the last;
 * in the feed-forward part of a transformer it is called once, in the wide middle. */
static void resolve_activation(struct shapes_walk *w, const struct frame *f)
{
	bool list = is_list(type_of(w, f->layer));
	if (f->activations == 1 && !list && f->norms)
		w->facts[f->activation].elements = f->norm_elements;
	else if (f->activations == 1 && !list && f->weighted > 1)
		w->facts[f->activation].elements = w->now.tokens > 1 ? f->widest : f->weighted_elements - f->last;
	if (list && w->n && summary_is(type_of(w, f->layer), "ModuleList")) {
		struct frame *around = top(w);
		around->weighted += f->weighted;
		around->weighted_elements += f->weighted_elements;
		around->widest = f->widest > around->widest ? f->widest : around->widest;
		around->last = f->weighted ? f->last : around->last;
	}
}

/* Parameters that modules hold beside their children, where the text shows no numbers. */
static void own_params(struct shapes_walk *w, const struct frame *f)
{
	uint64_t d = (uint64_t)bounded(f->entry.channels);
	if (w->s->layers[f->layer].has_params)
		return;
	if (summary_is(type_of(w, f->layer), "MultiheadAttention"))
		w->facts[f->layer].params = summary_product(3 * d, d) + 3 * d;		/* query, key and value in one */
	else if (summary_is(type_of(w, f->layer), "XLNetRelativeAttention")) {
		w->facts[f->layer].params = summary_product(5 * d, d) + 5 * d;	/* five projections, three biases, two segments */
		w->facts[f->layer].kind = SUMMARY_ATTENTION;
	}
}

static void leave(struct shapes_walk *w)
{
	struct frame f = w->frames[--w->n];
	struct summary_text type = type_of(w, f.layer);
	bool attention = summary_is(type, "MultiheadAttention");
	resolve_activation(w, &f);
	own_params(w, &f);
	/* A gate: channels weighed by what a pooled branch says of them. */
	if (w->now.n_space && area_of(&w->now) == 1 && area_of(&f.entry) > 1 && f.entry.n_space == w->now.n_space &&
	    f.entry.channels == w->now.channels && !is_list(type) && !summary_contains(type, "Pool"))
		f.gate = true;
	if (f.gate || f.side || attention)
		w->now = f.entry;
	if (w->facts[f.layer].kind != SUMMARY_CONTAINER)
		set_output(w, f.layer);
}

static void walk_through(struct shapes_walk *w)
{
	const struct summary *s = w->s;
	for (size_t i = 0; i < s->n_layers; i++) {
		while (w->n && s->layers[top(w)->layer].nesting >= s->layers[i].nesting)
			leave(w);
		if (s->layers[i].parent)
			enter(w, i);
		else
			follow_leaf(w, i);
	}
	while (w->n)
		leave(w);
}

/* ---- what goes in ---- */

static int64_t default_seq_len(const struct summary *s)
{
	int64_t n[2], positions = DEFAULT_SEQ_LEN;
	for (size_t i = 0; i < s->n_layers; i++) {
		const struct summary_layer *l = &s->layers[i];
		if (s->types[l->type].kind == SUMMARY_EMBEDDING && name_has(l->name, "pos", "wpe") && features_arg_plain(l->args, n, 2) == 2)
			positions = n[0] > 0 && n[0] < positions ? n[0] : positions;
	}
	return positions;
}

static struct shapes_walk begin_walk(const struct summary *s, const struct features_given *given, struct features_fact *facts)
{
	struct shapes_walk w = { .s = s, .facts = facts, .last_linear = SIZE_MAX };
	w.seq_len = given->seq_len > 0 ? bounded(given->seq_len) : default_seq_len(s);
	for (unsigned k = 0; k < 3; k++)
		w.input[k] = given->input[k] > MAX_SIDE ? MAX_SIDE : given->input[k];
	for (size_t i = 0; i < s->n_layers; i++) {
		if (facts[i].kind == SUMMARY_LINEAR)
			w.last_linear = i;
		if (i < 3) {
			struct summary_text type = s->types[s->layers[i].type].name;
			w.cls_token |= name_has(type, "ViT", "VisionTransformer") || summary_contains(type, "DeiT");
			w.classifies |= name_has(type, "SequenceClassification", "MultipleChoice");
		}
	}
	return w;
}

/* The sides that images usually have. The first is taken unless a flattened size in the text contradicts it. */
static void default_input(const struct summary *s, int64_t *input)
{
	int64_t io[2];
	input[0] = 3;
	for (size_t i = 0; i < s->n_layers; i++)
		if (s->types[s->layers[i].type].kind == SUMMARY_CONV && features_arg_plain(s->layers[i].args, io, 2) == 2) {
			input[0] = io[0];
			break;
		}
	input[1] = input[0] == 1 ? 28 : 224;
	for (size_t i = 0; i < s->n_layers && i < 3; i++)
		if (name_has(s->types[s->layers[i].type].name, "Inception3", "Xception"))
			input[1] = 299;
	input[2] = input[1];
}

static void note_guesses(const struct shapes_walk *w, const struct features_given *given, bool guessed, struct features *f)
{
	if (w->saw_image && !given->input[1]) {
		memcpy(f->input, w->input, sizeof f->input);
		features_note(f, "input taken as %jdx%jdx%jd%s", (intmax_t)w->input[0], (intmax_t)w->input[1], (intmax_t)w->input[2],
			      guessed ? ", from the first linear layer" : ": --input-size says otherwise");
	}
	if (w->saw_tokens && given->seq_len <= 0) {
		f->seq_len = w->seq_len;
		features_note(f, "sequence length taken as %jd: --seq-len says otherwise", (intmax_t)w->seq_len);
	}
	if (w->misfits)
		features_note(f, "activations are above the real ones: functions between the modules make outputs smaller");
}

void features_follow_shapes(const struct summary *s, const struct features_given *given, struct features_fact *facts,
			    struct features *out)
{
	static const int64_t sides[] = { 28, 32, 64, 96, 128, 160, 192, 224, 227, 256, 299, 320, 384, 448, 512 };
	struct shapes_walk w = begin_walk(s, given, facts);
	bool guessed = false;
	if (!w.input[1])
		default_input(s, w.input);
	int64_t first = w.input[1];
	walk_through(&w);
	for (size_t k = 0; w.misfits && w.saw_image && !given->input[1] && s->n_layers < 2000 && k <= COUNT_OF(sides); k++) {
		struct shapes_walk again = begin_walk(s, given, facts);
		again.input[0] = w.input[0];
		again.input[1] = again.input[2] = k < COUNT_OF(sides) ? sides[k] : first;	/* none fits: the usual one */
		walk_through(&again);
		guessed = k < COUNT_OF(sides);
		w = again;
	}
	for (size_t i = 0; i < s->n_layers && !out->activations_known; i++)
		out->activations_known = facts[i].elements > 0;
	note_guesses(&w, given, guessed, out);
}
