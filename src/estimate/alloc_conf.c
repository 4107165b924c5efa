/* SPDX-License-Identifier: MIT
 *
 * The allocator's configuration: "key:value,key:[value:value,value:value]", blanks ignored, as PyTorch splits it.
 *
 * Which keys there are, and what they default to, hangs on the version of PyTorch that the job will run with, so each row says
 * since when. A value that PyTorch would refuse is refused here too: the job would not get to its first allocation, and an
 * estimate under other settings would be believed. A key that nobody here knows is passed over with a note, as it may be one of
 * a later version.
 */
#include "estimate/alloc.h"

#include "base/scope.h"
#include "base/text.h"
#include "base/units.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#define LARGE_SEGMENT (20 * MIB)
#define MOST_MIB ((int64_t)1 << 40)
#define LEAST_SEGMENT_MIB 11	/* PyTorch 2.11 refuses 10: from there on requests have segments of their own */
#define MOST_SEGMENT_MIB ((int64_t)1 << 20)	/* more than any GPU has; an expandable range (alloc_expand.c) holds many */

/* A cursor on the text, and the token it stands on. */
struct lexer {
	const char *at;
	char token[64];
};

struct conf_reading {
	struct lexer in;
	alloc_torch torch;
	struct alloc_conf *conf;
	struct error *err;
};

struct conf_setting {
	const char *name;
	alloc_torch since;
	int (*read)(struct conf_reading *r);
};

alloc_torch alloc_torch_parse(const char *text)
{
	unsigned major, minor;

	if (sscanf(text, "%3u.%3u", &major, &minor) != 2 || major > 9 || minor > 99)
		return 0;
	return major * 100 + minor;
}

struct alloc_conf alloc_conf_default(void)
{
	return (struct alloc_conf){ .max_split = UINT64_MAX, .max_non_split_rounding = LARGE_SEGMENT,
		.large_segment = LARGE_SEGMENT, .fraction = 1 };
}

/* Moves to the next token: one of ",:[]", or a run of other characters; "" at the end. One too long is cut: it is no
 * known word and no number. */
static void conf_next(struct lexer *l)
{
	size_t n = 0;

	for (; *l->at; l->at++) {
		if (strchr(",:[]", *l->at)) {
			if (!n)
				l->token[n++] = *l->at++;
			break;
		}
		if (!isspace((unsigned char)*l->at) && n < sizeof l->token - 1)
			l->token[n++] = *l->at;
	}
	l->token[n] = '\0';
}

static int conf_expect(struct conf_reading *r, char c)
{
	const char want[] = { c, '\0' };

	if (!strcmp(r->in.token, want))
		return 0;
	return error_set(r->err, ERR_INVALID, "allocator configuration: '%c' is missing %s%.40s", c,
			 r->in.token[0] ? "before " : "at the end", r->in.token);
}

/* The value of the key that was just read; leaves the token on it. */
static int conf_value(struct conf_reading *r)
{
	conf_next(&r->in);
	if (conf_expect(r, ':'))
		return -1;
	conf_next(&r->in);
	if (r->in.token[0] && !strchr(",:]", r->in.token[0]))
		return 0;
	return error_set(r->err, ERR_INVALID, "allocator configuration: a value is missing %s%.40s",
			 r->in.token[0] ? "before " : "at the end", r->in.token);
}

/* Sizes are MB in PyTorch's documentation and MiB in its code; the code counts. */
static int read_mib(struct conf_reading *r, const char *name, int64_t least_mib, int64_t most_mib, uint64_t *bytes)
{
	int64_t mib;

	if (conf_value(r) || units_parse_int(r->in.token, least_mib, most_mib, &mib, r->err))
		return error_wrap(r->err, "%s", name);
	*bytes = (uint64_t)mib * MIB;
	return 0;
}

static int read_bool(struct conf_reading *r, const char *name, bool *on)
{
	if (conf_value(r))
		return -1;
	*on = !strcmp(r->in.token, "True");
	if (*on || !strcmp(r->in.token, "False"))
		return 0;
	return error_set(r->err, ERR_INVALID, "allocator configuration: %s is True or False, not '%.40s'", name, r->in.token);
}

static int read_share(struct conf_reading *r, const char *name, double *share)
{
	double v;

	if (conf_value(r) || units_parse_double(r->in.token, 0, 1, &v, r->err))
		return error_wrap(r->err, "%s", name);
	*share = v;
	return 0;
}

static int read_max_split(struct conf_reading *r)
{
	return read_mib(r, "max_split_size_mb", (int64_t)(r->conf->large_segment / MIB), MOST_MIB, &r->conf->max_split);
}

static int read_max_non_split(struct conf_reading *r)
{
	return read_mib(r, "max_non_split_rounding_mb", (int64_t)(r->conf->large_segment / MIB), MOST_MIB,
			&r->conf->max_non_split_rounding);
}

/* Leaves the token on the last of the value. */
static int skip_value(struct conf_reading *r)
{
	if (conf_value(r))
		return -1;
	if (strcmp(r->in.token, "["))
		return 0;
	while (r->in.token[0] && r->in.token[0] != ']')
		conf_next(&r->in);
	return conf_expect(r, ']');
}

static int read_gc_threshold(struct conf_reading *r)
{
	double *threshold = &r->conf->gc_threshold;

	if (read_share(r, "garbage_collection_threshold", threshold))
		return -1;
	if (*threshold > 0 && *threshold < 1)
		return 0;
	return error_set(r->err, ERR_INVALID, "garbage_collection_threshold is above 0 and below 1, not '%.40s'", r->in.token);
}

static int read_fraction(struct conf_reading *r)
{
	return read_share(r, "per_process_memory_fraction", &r->conf->fraction);
}

static int read_expandable(struct conf_reading *r)
{
	return read_bool(r, "expandable_segments", &r->conf->expandable);
}

static int read_backend(struct conf_reading *r)
{
	if (conf_value(r))
		return -1;
	r->conf->async = !strcmp(r->in.token, "cudaMallocAsync");
	if (r->conf->async || !strcmp(r->in.token, "native"))
		return 0;
	return error_set(r->err, ERR_INVALID, "allocator configuration: backend is native or cudaMallocAsync, not '%.40s'",
			 r->in.token);
}

/* 0, none, only for a range of sizes. */
static int read_divisions(struct conf_reading *r, int64_t least, uint32_t *divisions)
{
	int64_t n;

	if (units_parse_int(r->in.token, least, (int64_t)1 << 20, &n, r->err))
		return error_wrap(r->err, "roundup_power2_divisions");
	if (n & (n - 1))
		return error_set(r->err, ERR_INVALID, "roundup_power2_divisions: %.40s is no power of two", r->in.token);
	*divisions = (uint32_t)n;
	return 0;
}

/* "256:4", with the token on the 256, or ">:4". Below the first entry its own divisions hold; the entry ">" is for what comes
 * after the last, which before 2.9 meant: for the last as well. */
static int read_range(struct conf_reading *r, int *last)
{
	uint32_t *ranges = r->conf->power2_divisions, divisions = 0;
	bool rest = !strcmp(r->in.token, ">");
	int64_t mib = 0;
	int index = 0;

	if (!rest && units_parse_int(r->in.token, 1, MOST_MIB, &mib, r->err))
		return error_wrap(r->err, "roundup_power2_divisions");
	if (mib & (mib - 1))
		return error_set(r->err, ERR_INVALID, "roundup_power2_divisions: %.40s is no power of two", r->in.token);
	if (conf_value(r) || read_divisions(r, 0, &divisions))
		return -1;
	if (rest) {
		for (index = *last < 0 ? 0 : r->torch >= 209 ? *last + 1 : *last; index < ALLOC_POWER2_RANGES; index++)
			ranges[index] = divisions;
		return 0;
	}
	while (index < ALLOC_POWER2_RANGES - 1 && mib >> (index + 1))
		index++;
	for (int i = *last < 0 ? 0 : index; i <= index; i++)
		ranges[i] = divisions;
	*last = index;
	return 0;
}

static int read_power2(struct conf_reading *r)
{
	int last = -1;

	if (conf_value(r))
		return -1;
	if (strcmp(r->in.token, "[")) {
		if (read_divisions(r, 1, &r->conf->power2_divisions[0]))
			return -1;
		for (int i = 1; i < ALLOC_POWER2_RANGES; i++)
			r->conf->power2_divisions[i] = r->conf->power2_divisions[0];
		return 0;
	}
	do {
		conf_next(&r->in);
		if (read_range(r, &last))
			return -1;
		conf_next(&r->in);
	} while (!strcmp(r->in.token, ","));
	return conf_expect(r, ']');
}

static const struct conf_setting settings[] = {
	{ "max_split_size_mb", 0, read_max_split },
	{ "max_non_split_rounding_mb", 0, read_max_non_split },
	{ "large_segment_size_mb", 210, skip_value },
	{ "garbage_collection_threshold", 0, read_gc_threshold },
	{ "per_process_memory_fraction", 210, read_fraction },
	{ "roundup_power2_divisions", 0, read_power2 },
	{ "expandable_segments", 0, read_expandable },
	{ "backend", 0, read_backend },
	/* About host memory, locks and CUDA graphs: nothing that a replay sees. */
	{ "release_lock_on_cudamalloc", 0, skip_value },
	{ "pinned_use_cuda_host_register", 0, skip_value },
	{ "pinned_num_register_threads", 0, skip_value },
	{ "pinned_use_background_threads", 0, skip_value },
	{ "pinned_reserve_segment_size_mb", 0, skip_value },
	{ "graph_capture_record_stream_reuse", 0, skip_value },
};

/* Said in the estimate's note: the figure may be wrong because of it. */
static int pass_over(struct conf_reading *r)
{
	size_t len = strlen(r->conf->note);

	text_printf(r->conf->note + len, sizeof r->conf->note - len, "%s%.40s passed over", len ? ", " : "", r->in.token);
	return skip_value(r);
}

static int read_setting(struct conf_reading *r)
{
	if (strchr(",:[]", r->in.token[0]))
		return error_set(r->err, ERR_INVALID, "allocator configuration: a key is missing before %s", r->in.token);
	for (size_t i = 0; i < COUNT_OF(settings); i++)
		if (!strcmp(settings[i].name, r->in.token))
			return r->torch && r->torch < settings[i].since ? pass_over(r) : settings[i].read(r);
	return pass_over(r);
}

/* The only setting that others are checked against, wherever it stands. */
static int read_large_segment(struct conf_reading *r)
{
	bool key = true;

	for (conf_next(&r->in); r->in.token[0]; key = !strcmp(r->in.token, ","), conf_next(&r->in)) {
		if (!key || strcmp(r->in.token, "large_segment_size_mb"))
			continue;
		if (read_mib(r, "large_segment_size_mb", LEAST_SEGMENT_MIB, MOST_SEGMENT_MIB, &r->conf->large_segment))
			return -1;
	}
	r->conf->max_non_split_rounding = r->conf->large_segment;
	return 0;
}

int alloc_conf_parse(const char *text, alloc_torch torch, struct alloc_conf *conf, struct error *err)
{
	struct conf_reading r = { .in.at = text ? text : "", .torch = torch, .conf = conf, .err = err };

	*conf = alloc_conf_default();
	if (strlen(r.in.at) > ALLOC_CONF_MAX)
		return error_set(err, ERR_INVALID, "allocator configuration: longer than %d bytes", ALLOC_CONF_MAX);
	if ((!torch || torch >= 210) && read_large_segment(&r))
		return -1;
	r.in.at = text ? text : "";
	for (conf_next(&r.in); r.in.token[0]; conf_next(&r.in)) {
		if (read_setting(&r))
			return -1;
		conf_next(&r.in);
		if (r.in.token[0] && conf_expect(&r, ','))
			return -1;
	}
	return 0;
}

int alloc_conf_choose(const char *cuda_alloc_conf, const char *alloc_conf, const char **text, struct error *err)
{
	*text = cuda_alloc_conf ? cuda_alloc_conf : alloc_conf;
	if (!cuda_alloc_conf || !alloc_conf || !strcmp(cuda_alloc_conf, alloc_conf))
		return 0;
	return error_set(err, ERR_INVALID, "PYTORCH_CUDA_ALLOC_CONF and PYTORCH_ALLOC_CONF differ, and which one counts depends on "
			 "the version of PyTorch: set one of them, or both alike");
}
