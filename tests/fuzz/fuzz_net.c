/* SPDX-License-Identifier: MIT
 * The reader of weights files, fed arbitrary bytes as they are and with length and checksum put right. What it accepts can be run, and
 * gives a distribution unless it holds numbers that are none.
 */
#include "tests/net_write.h"

#include "base/scope.h"
#include "fuzz.h"

#include <math.h>

static struct gpumemnet_vector vector_of(size_t size)
{
	struct gpumemnet_vector v = { .n_tokens = 1 + (unsigned)size % GPUMEMNET_TOKENS, .reference_mib = 1000 };

	for (unsigned i = 0; i < GPUMEMNET_INPUTS; i++)
		v.inputs[i] = (float)((size + i) % 40);
	for (unsigned t = 0; t < v.n_tokens; t++)
		for (unsigned i = 0; i < GPUMEMNET_TOKEN; i++)
			v.tokens[t][i] = (float)((size * t + i) % 30);
	return v;
}

/* Weights that are finite may still be so large that sums are not. */
static bool is_distribution(const float *p, uint32_t bins)
{
	float sum = 0;

	for (uint32_t k = 0; k < bins; k++)
		sum += p[k];
	return isnan(sum) || fabsf(sum - 1) < 1e-3f;
}

static void check(const void *bytes, size_t size)
{
	struct gpumemnet_vector v = vector_of(size);
	float p[NET_MAX_BINS];
	struct error err;

	for (int family = 0; family < FEATURES_FAMILY_COUNT; family++) {
		struct net net;

		err = ERROR_INIT;
		if (net_read(bytes, size, (enum features_family)family, &net, &err)) {
			FUZZ_HOLDS(err.text[0] && !strchr(err.text, '\n'));
			continue;
		}
		net_answer(&net, &v, p);
		FUZZ_HOLDS(is_distribution(p, net.bins));
	}
	err = ERROR_INIT;
	FUZZ_HOLDS(!net_verify(bytes, size, &err) || err.text[0]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	scoped_buf whole = { 0 };

	buf_add(&whole, data, size);	/* aligned, which `data` need not be */
	check(buf_text(&whole), size);
	if (size < 20)
		return 0;
	whole.len = size - 4;
	net_end(&whole);
	check(whole.data, whole.len);
	return 0;
}
