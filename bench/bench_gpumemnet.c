/* SPDX-License-Identifier: MIT
 * How long GPUMemNet takes for each summary of a folder (the first argument, else those of the tests): from features to inputs,
 * the ensemble, the encoder, and the whole estimate from the summary's text. Prints one JSON object: the median and the largest
 * of the summaries' medians.
 */
#include "bench.h"

#include "base/alloc.h"
#include "base/io.h"
#include "base/scope.h"
#include "estimate/estimate.h"
#include "estimate/gpumemnet.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#define RUNS 101
#define MAX_FILES 1000

enum part { VECTOR, ENSEMBLE, ENCODER, WHOLE, PARTS };

static void run(enum part part, const struct features *f, const struct net *net, struct gpumemnet_vector *v,
		const struct spec *s)
{
	const struct estimate_context context = { 0 };
	struct estimate_result r;
	float p[NET_MAX_BINS];
	if (part == VECTOR)
		gpumemnet_vector(f, v);
	else if (part == ENSEMBLE)
		net_ensemble(net, v, p);
	else if (part == ENCODER)
		net_encode(net, v, p);
	else
		estimate_ask(estimate_find("gpumemnet", NULL), s, 0, &context, &r);
}

/* Medians in ns of one file. Returns false where there is nothing to estimate. */
static bool measure(const struct buf *text, int64_t *medians)
{
	const struct features_given given = { .batch_size = 32, .seq_len = 512, .optimizer = "adamw", .precision = "fp32" };
	struct summary summary;
	struct features f;
	struct gpumemnet_vector v;
	struct net net;
	struct spec *s = spec_create();
	bool can = !summary_parse("summary", buf_text(text), text->len, &summary, NULL);
	if (can) {
		features_from_summary(&summary, &given, &f);
		s->model = alloc_string(buf_text(text));
		s->batch_size = given.batch_size;
		can = f.activations_known && !net_read(gpumemnet_weights, (size_t)(gpumemnet_weights_end - gpumemnet_weights), f.family,
						       &net, NULL);
		for (enum part part = VECTOR; can && part < PARTS; part++) {
			int64_t took[RUNS];
			for (size_t i = 0; i < RUNS; i++) {
				int64_t began = bench_now_ns();
				run(part, &f, &net, &v, s);
				took[i] = bench_now_ns() - began;
			}
			bench_sort(took, RUNS);
			medians[part] = took[RUNS / 2];
		}
		features_clear(&f);
		summary_clear(&summary);
	}
	spec_unref(s);
	return can;
}

int main(int argc, char **argv)
{
	static const char *const names[] = { "vector", "ensemble", "encoder", "estimate" };
	const char *folder = argc > 1 ? argv[1] : BENCH_SOURCE_ROOT "/tests/summaries";
	static int64_t all[PARTS][MAX_FILES];
	size_t n = 0;
	scoped_dir DIR *dir = opendir(folder);
	for (struct dirent *e = dir ? readdir(dir) : NULL; e && n < MAX_FILES; e = readdir(dir)) {
		char file[4400];
		int64_t medians[PARTS];
		scoped_buf text = { 0 };
		snprintf(file, sizeof file, "%.4000s/%s", folder, e->d_name);
		if (e->d_name[0] == '.' || io_read_file(file, SUMMARY_MAX_BYTES, &text, NULL) || !measure(&text, medians))
			continue;
		for (enum part part = VECTOR; part < PARTS; part++)
			all[part][n] = medians[part];
		n++;
	}
	printf("{\"bench\":\"gpumemnet\",\"unit\":\"us\",\"summaries\":%zu", n);
	for (enum part part = VECTOR; n && part < PARTS; part++) {
		bench_sort(all[part], n);
		printf(",\"%s_us\":%.1f,\"%s_max_us\":%.1f", names[part], (double)all[part][n / 2] / 1e3, names[part],
		       (double)all[part][n - 1] / 1e3);
	}
	printf(",\"reference_us\":{\"ensemble\":2300,\"encoder\":10700}}\n");
	return n ? 0 : 1;
}
