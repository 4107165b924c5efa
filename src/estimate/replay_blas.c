/* SPDX-License-Identifier: MIT
 *
 * The workspaces that PyTorch gives cuBLAS and cuBLASLt, out of the caching allocator: their sizes are the card's, unless the
 * job's environment says otherwise.
 */
#include "estimate/replay.h"

#include "base/least.h"

#include <stdlib.h>
#include <string.h>

#define KIB ((uint64_t)1 << 10)

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* Digits at *at, which is moved behind them; what is too large stays above CAPTURE_MAX_REQUEST. */
static uint64_t read_digits(const char **at)
{
	uint64_t n = 0;

	for (; is_digit(**at); ++*at)
		if (n <= CAPTURE_MAX_REQUEST)
			n = n * 10 + (uint64_t)(**at - '0');
	return n;
}

/* ":4096:2:16:8": sizes in KiB and how many of each, summed up. Anything else is passed over; without a pair, `otherwise`. */
static uint64_t read_config(const char *at, uint64_t otherwise)
{
	uint64_t bytes = 0;
	bool any = false;

	while (at && (at = strchr(at, ':'))) {
		const char *pair = ++at;
		uint64_t size = read_digits(&pair), count;

		if (pair == at || *pair != ':' || !is_digit(pair[1]))
			continue;
		pair++;
		count = read_digits(&pair);
		size = least_of(size, CAPTURE_MAX_REQUEST / KIB) * KIB;
		bytes += !count || size <= CAPTURE_MAX_REQUEST / count ? size * count : CAPTURE_MAX_REQUEST;
		bytes = least_of(bytes, CAPTURE_MAX_REQUEST);
		any = true;
		at = pair;
	}
	return any ? bytes : otherwise;
}

/* KiB, as std::stoi reads it; what that refuses, and what is negative, leaves the default. */
static uint64_t read_lt_size(const char *text)
{
	char *end;
	long n = text ? strtol(text, &end, 10) : 0;

	return text && end != text && n >= 0 && n <= INT32_MAX ? (uint64_t)n * KIB : OVERHEADS_LT_BYTES;
}

struct replay_blas replay_blas_of(const struct overheads *o, alloc_torch torch, const struct replay_environment *env)
{
	struct replay_blas b = {
		.bytes = read_config(env->cublas_config, o->cublas_bytes), .lt_bytes = read_lt_size(env->lt_size),
	};
	bool one = env->lt_unified && !strcmp(env->lt_unified, "1"), zero = env->lt_unified && !strcmp(env->lt_unified, "0");

	if (torch >= OVERHEADS_LT_SHARED ? !zero : one && torch >= OVERHEADS_LT_SHARABLE)
		b.lt = REPLAY_LT_SHARED;
	else
		b.lt = !torch || torch >= OVERHEADS_LT_KEPT ? REPLAY_LT_KEPT : REPLAY_LT_CALL;
	return b;
}
