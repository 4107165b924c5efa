/* SPDX-License-Identifier: MIT
 * How long it takes to turn a model summary into features, for each summary of a folder (the first argument, else those of
 * the tests). Prints one JSON object; times are medians, of processor time.
 */
#include "bench.h"

#include "base/io.h"
#include "base/scope.h"
#include "parse/features.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define RUNS 201

/* Median of one file; -1 when it is no summary. */
static int64_t measure(const char *name, const struct buf *text)
{
	const struct features_given given = { .batch_size = 32, .seq_len = 512 };
	int64_t took[RUNS];
	for (size_t i = 0; i < RUNS; i++) {
		struct summary s;
		struct features f;
		int64_t began = bench_now_ns();
		if (summary_parse(name, buf_text(text), text->len, &s, NULL))
			return -1;
		features_from_summary(&s, &given, &f);
		took[i] = bench_now_ns() - began;
		features_clear(&f);
		summary_clear(&s);
	}
	bench_sort(took, RUNS);
	return took[RUNS / 2];
}

int main(int argc, char **argv)
{
	const char *folder = argc > 1 ? argv[1] : BENCH_SOURCE_ROOT "/tests/summaries";
	int64_t medians[1000];
	size_t n = 0;
	scoped_dir DIR *dir = opendir(folder);
	printf("{\"bench\":\"parse\",\"unit\":\"us\",\"files\":{");
	for (struct dirent *e = dir ? readdir(dir) : NULL; e && n < COUNT_OF(medians); e = readdir(dir)) {
		char file[4400];
		scoped_buf text = { 0 };
		snprintf(file, sizeof file, "%.4000s/%s", folder, e->d_name);
		int64_t median = e->d_name[0] == '.' || io_read_file(file, SUMMARY_MAX_BYTES, &text, NULL) ? -1 : measure(e->d_name, &text);
		if (median < 0)
			continue;
		printf("%s\"%s\":%.1f", n ? "," : "", e->d_name, (double)median / 1e3);
		medians[n++] = median;
	}
	bench_sort(medians, n);
	printf("},\"median_us\":%.1f,\"max_us\":%.1f,\"reference_us\":[1000,1800]}\n", n ? (double)medians[n / 2] / 1e3 : 0,
	       n ? (double)medians[n - 1] / 1e3 : 0);
	return n ? 0 : 1;
}
