/* SPDX-License-Identifier: MIT
 * GPUMemNet's nets: arithmetic that can be followed by hand, and files that are refused. That they give what PyTorch gives
 * is in test_gpumemnet.c.
 */
#include "base/scope.h"
#include "tests/net_write.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

static const struct net_sizes plain = { .family = FEATURES_CNN, .bins = 5, .layers = 2, .outs = { 6, 5 } };
static const struct net_sizes encoding = { .family = FEATURES_MLP, .bins = 3, .blocks = 1, .width = 8, .heads = 2, .inside = 12,
					   .hidden = 4, .share = 1 };

static void write_file(struct buf *b, const struct net_sizes *s, float weight)
{
	net_begin(b, 1);
	net_put_section(b, s, weight, 0);
	net_end(b);
}

static void read_file(const struct buf *b, enum features_family family, struct net *net)
{
	struct error err = ERROR_INIT;
	if (net_read(b->data, b->len, family, net, &err))
		fail_msg("%s", err.text);
}

/* The bias of output `k` in the matrix that stands last in the file. */
static void set_last_bias(struct buf *b, uint32_t outputs, uint32_t k, float v)
{
	uint32_t stride = (outputs + NET_LANES - 1) / NET_LANES * NET_LANES;
	memcpy(b->data + b->len - 4 - (stride - k) * sizeof v, &v, sizeof v);
}

static void test_ensemble(void **state)
{
	scoped_buf b = { 0 };
	struct gpumemnet_vector v = { .inputs = { 2, -3 } };
	struct net net;
	float p[NET_MAX_BINS];
	(void)state;
	write_file(&b, &plain, 1);
	set_last_bias(&b, 5, 3, logf(4));
	read_file(&b, FEATURES_CNN, &net);
	net_ensemble(&net, &v, p);
	for (int k = 0; k < 5; k++)	/* equal logits, but for one that is log 4 higher */
		assert_float_equal(p[k], k == 3 ? 0.5 : 0.125, 1e-6);
	assert_string_equal(net.card, "NVIDIA TEST");
	assert_float_equal(net.edges[5], 0.625, 0);
}

/* Negative sums end at the rectifier; positive ones reach the outputs, of which one weighs its inputs. */
static void test_rectifier(void **state)
{
	scoped_buf b = { 0 };
	struct gpumemnet_vector v = { .inputs = { 0.25f } };
	struct net net;
	float p[NET_MAX_BINS], weight = 2;
	(void)state;
	write_file(&b, &plain, 1);
	/* Rows of the last matrix, six of them and the biases, are 8 wide: output 0 weighs the first hidden one twice. */
	memcpy(b.data + b.len - 4 - 7 * 8 * sizeof weight, &weight, sizeof weight);
	read_file(&b, FEATURES_CNN, &net);
	net_ensemble(&net, &v, p);
	assert_float_equal(p[0] / p[1], expf(0.25f), 1e-5);
	v.inputs[0] = -0.25f;
	net_ensemble(&net, &v, p);
	assert_float_equal(p[0] / p[1], 1, 1e-6);
}

static void test_inputs_end_at_the_range(void **state)
{
	scoped_buf b = { 0 };
	struct gpumemnet_vector v = { .inputs = { 64 } }, beyond = { .inputs = { 1e6f } };
	struct net_sizes s = plain;
	struct net net;
	float p[NET_MAX_BINS], q[NET_MAX_BINS];
	(void)state;
	write_file(&b, &s, 0.01f);
	read_file(&b, FEATURES_CNN, &net);
	net_ensemble(&net, &v, p);
	net_ensemble(&net, &beyond, q);
	assert_memory_equal(p, q, 5 * sizeof *p);
}

static void test_encoder(void **state)
{
	scoped_buf b = { 0 };
	struct gpumemnet_vector one = { .n_tokens = 1, .tokens = { { 1, 2, 3 } } }, two = { .n_tokens = 2 };
	struct net net;
	float p[NET_MAX_BINS], q[NET_MAX_BINS];
	(void)state;
	write_file(&b, &encoding, 0.1f);
	set_last_bias(&b, 3, 1, logf(2));
	read_file(&b, FEATURES_MLP, &net);
	net_encode(&net, &one, p);
	assert_float_equal(p[0], 0.25, 1e-6);
	assert_float_equal(p[1], 0.5, 1e-6);
	/* The same token twice: means, maxima and weighted means of equal values are those of one. */
	memcpy(two.tokens[0], one.tokens[0], sizeof one.tokens[0]);
	memcpy(two.tokens[1], one.tokens[0], sizeof one.tokens[0]);
	net_encode(&net, &two, q);
	for (int k = 0; k < 3; k++)
		assert_float_equal(p[k], q[k], 1e-6);
	net_answer(&net, &two, p);
	assert_memory_equal(p, q, 3 * sizeof *p);
}

static void test_mixture(void **state)
{
	scoped_buf b = { 0 };
	struct net_sizes s = { .family = FEATURES_CNN, .bins = 5, .layers = 2, .outs = { 6, 5 }, .blocks = 2, .width = 4, .heads = 1,
			       .inside = 4, .hidden = 4, .share = 0.25f };
	struct gpumemnet_vector v = { .n_tokens = 3, .inputs = { 1 } };
	struct net net;
	float p[NET_MAX_BINS], q[NET_MAX_BINS], both[NET_MAX_BINS];
	(void)state;
	write_file(&b, &s, 0.3f);
	set_last_bias(&b, 5, 0, 3);
	read_file(&b, FEATURES_CNN, &net);
	net_ensemble(&net, &v, p);
	net_encode(&net, &v, q);
	net_answer(&net, &v, both);
	assert_true(fabsf(p[0] - q[0]) > 0.1f);
	for (int k = 0; k < 5; k++)
		assert_float_equal(both[k], 0.75f * p[k] + 0.25f * q[k], 1e-6);
}

/* ---- files ---- */

static void expect(const struct buf *b, const char *part)
{
	struct error err = ERROR_INIT;
	if (!net_verify(b->data, b->len, &err))
		fail_msg("accepted where '%s' was expected", part);
	if (!strstr(err.text, part))
		fail_msg("'%s' lacks '%s'", err.text, part);
}

static void test_whole_files_are_verified(void **state)
{
	scoped_buf b = { 0 };
	struct error err = ERROR_INIT;
	struct net net;
	(void)state;
	net_begin(&b, 2);
	net_put_section(&b, &plain, 1, 0);
	net_put_section(&b, &encoding, 0.1f, 0);
	net_end(&b);
	assert_int_equal(net_verify(b.data, b.len, &err), 0);
	read_file(&b, FEATURES_CNN, &net);
	assert_int_equal(net.n_members, 1);
	assert_int_equal(net.encoder.n, 0);
	read_file(&b, FEATURES_MLP, &net);
	assert_int_equal(net.encoder.n, 1);
	assert_int_equal(net_read(b.data, b.len, FEATURES_TRANSFORMER, &net, &err), -1);
	assert_int_equal(err.code, ERR_NOT_FOUND);
	assert_non_null(strstr(err.text, "'transformer'"));
	b.data[300] ^= 1;
	expect(&b, "wrong checksum");
}

static void test_cut_files(void **state)
{
	scoped_buf whole = { 0 };
	(void)state;
	write_file(&whole, &encoding, 0.1f);
	for (size_t n = 0; n < whole.len; n += n < 200 ? 1 : 97) {
		scoped_buf b = { 0 };
		struct error err = ERROR_INIT;
		struct net net;
		buf_add(&b, whole.data, n);
		assert_int_equal(net_read(buf_text(&b), n, FEATURES_MLP, &net, &err), -1);
		if (n < 20)
			continue;
		b.len -= 4;	/* cut, but of the length that it says, and with its checksum */
		net_end(&b);
		assert_int_equal(net_verify(b.data, b.len, &err), -1);
		assert_int_equal(net_read(b.data, b.len, FEATURES_MLP, &net, &err), -1);
	}
}

struct wrong { const char *what; size_t at; uint32_t value; const char *part; };

#define SECTION 128
static const struct wrong wrongs[] = {
	{ "magic", 0, 0, "not a weights file" },
	{ "version", 8, 2, "version 2" },
	{ "inputs of another version", 16, GPUMEMNET_INPUTS + 1, "inputs: this rad reads" },
	{ "tokens", 20, 0, "this rad reads" },
	{ "families", 28, 9, "cut off" },
	{ "more families than there are", 28, 2, "ends too early" },
	{ "no families", 28, 0, "something follows" },
	{ "family", SECTION, 77, "family that is not known" },
	{ "length of a section", SECTION + 4, 4, "a section of a length" },
	{ "length beyond the file", SECTION + 4, 0x7ffffffc, "a section of a length" },
	{ "length not of floats", SECTION + 4, 1001, "a section of a length" },
	{ "bins", SECTION + 8, NET_MAX_BINS + 1, "number of bins" },
	{ "no bins", SECTION + 8, 0, "number of bins" },
	{ "members", SECTION + 12, NET_MAX_MEMBERS + 1, "of perceptrons" },
	{ "blocks", SECTION + 16, NET_MAX_BLOCKS + 1, "sizes that cannot be" },
	{ "no blocks", SECTION + 16, 0, "nobody answers" },
	{ "width", SECTION + 20, NET_MAX_MODEL + 4, "sizes that cannot be" },
	{ "width not of lanes", SECTION + 20, 6, "sizes that cannot be" },
	{ "heads", SECTION + 24, 3, "sizes that cannot be" },
	{ "no heads", SECTION + 24, 0, "sizes that cannot be" },
	{ "inside", SECTION + 28, 4 * NET_MAX_MODEL + 1, "sizes that cannot be" },
	{ "hidden", SECTION + 32, NET_MAX_WIDTH + 1, "sizes that cannot be" },
	{ "share", SECTION + 36, 0x40000000, "nobody answers" },		/* 2.0 */
	{ "share is no number", SECTION + 36, 0x7fc00000, "nobody answers" },
	{ "edges", SECTION + 40 + 16 * GPUMEMNET_INPUTS + 4, 0, "do not rise" },
	{ "an infinite weight", SECTION + 1500, 0x7f800000, "a number that is none" },
};

static void test_wrong_files(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT_OF(wrongs); i++) {
		scoped_buf b = { 0 };
		print_message("%s\n", wrongs[i].what);
		write_file(&b, &encoding, 0.1f);
		memcpy(b.data + wrongs[i].at, &wrongs[i].value, sizeof wrongs[i].value);
		b.len -= 4;
		net_end(&b);
		expect(&b, wrongs[i].part);
	}
}

static void test_wrong_perceptrons(void **state)
{
	static const struct net_sizes wide = { .bins = 2, .layers = 2, .outs = { NET_MAX_WIDTH + 1, 2 } };
	static const struct net_sizes other = { .bins = 2, .layers = 1, .outs = { 3 } };
	static const struct net_sizes *const sizes[] = { &wide, &other };
	static const char *const parts[] = { "too wide", "not the bins" };
	(void)state;
	for (size_t i = 0; i < COUNT_OF(sizes); i++) {
		scoped_buf b = { 0 };
		write_file(&b, sizes[i], 1);
		expect(&b, parts[i]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ensemble),
		cmocka_unit_test(test_rectifier),
		cmocka_unit_test(test_inputs_end_at_the_range),
		cmocka_unit_test(test_encoder),
		cmocka_unit_test(test_mixture),
		cmocka_unit_test(test_whole_files_are_verified),
		cmocka_unit_test(test_cut_files),
		cmocka_unit_test(test_wrong_files),
		cmocka_unit_test(test_wrong_perceptrons),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
