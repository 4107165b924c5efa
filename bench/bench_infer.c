/* SPDX-License-Identifier: MIT
 * Inference of loads by hand: a script of comings, goings and readings on stdin, beliefs on stdout, one JSON object a question.
 * `bench/hardware/score_infer.py` drives it. Without a script (`bench-infer --cost`) it prints what a span costs.
 *	new					a GPU without tasks
 *	join ID [GRACT SMACT SD SOURCE]		SOURCE 1: guessed, 3: measured alone; without: nothing is known
 *	leave ID
 *	span mps|streams GRACT SMACT DRAM SECONDS
 *	tell ID
 */
#include "share/infer.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static void join(struct infer *f, const char *line)
{
	int64_t id;
	int source = LOAD_UNKNOWN;
	struct load_belief b = load_unknown();
	double sd = NAN;
	if (sscanf(line, "join %ld %lf %lf %lf %d", &id, &b.load.gract, &b.load.smact, &sd, &source) < 1)
		exit(2);
	b.gract_sd = b.smact_sd = sd;
	b.source = (enum load_source)source;
	infer_join(f, id, &b);
}

static void span(struct infer *f, const char *line)
{
	char mode[16];
	struct infer_reading r;
	if (sscanf(line, "span %15s %lf %lf %lf %lf", mode, &r.gract, &r.smact, &r.dram, &r.seconds) != 5)
		exit(2);
	infer_span(f, strcmp(mode, "mps") ? SHARE_STREAMS : SHARE_MPS, &r);
}

static void tell(const struct infer *f, const char *line)
{
	struct load_belief b;
	if (!infer_belief(f, strtoll(line + strlen("tell "), NULL, 10), &b))
		exit(2);
	printf("{\"gract\": %.4f, \"gract_sd\": %.4f, \"smact\": %.4f, \"smact_sd\": %.4f, \"dram\": %.4f, \"dram_sd\": %.4f, "
	       "\"inferred\": %s}\n", b.load.gract, b.gract_sd, b.load.smact, b.smact_sd, b.dram, b.dram_sd,
	       b.source == LOAD_INFERRED ? "true" : "false");
}

static int cost(void)
{
	static const unsigned sizes[] = { 2, 4, 8 };
	for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
		struct infer *f = infer_create();
		struct load_belief none = load_unknown();
		struct timespec begin, end;
		int rounds = 20000;
		for (unsigned i = 0; i < sizes[k]; i++)
			infer_join(f, i + 1, &none);
		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &begin);
		for (int i = 0; i < rounds; i++)
			infer_span(f, SHARE_MPS, &(struct infer_reading){ 0.9, 0.3 + i % 7 / 10., 0.2, 60 });
		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &end);
		double us = ((double)(end.tv_sec - begin.tv_sec) * 1e9 + (double)(end.tv_nsec - begin.tv_nsec)) / 1e3 / rounds;
		printf("%s\"span_of_%u_us\": %.1f", k ? ", " : "{", sizes[k], us);
		infer_destroy(f);
	}
	puts("}");
	return 0;
}

int main(int argc, char **argv)
{
	char line[256];
	struct infer *f = infer_create();
	if (argc > 1 && !strcmp(argv[1], "--cost"))
		return infer_destroy(f), cost();
	while (fgets(line, sizeof line, stdin)) {
		if (!strncmp(line, "new", 3)) {
			infer_destroy(f);
			f = infer_create();
		} else if (!strncmp(line, "join ", 5)) {
			join(f, line);
		} else if (!strncmp(line, "leave ", 6)) {
			infer_leave(f, strtoll(line + 6, NULL, 10));
		} else if (!strncmp(line, "span ", 5)) {
			span(f, line);
		} else if (!strncmp(line, "tell ", 5)) {
			tell(f, line);
		} else {
			return fprintf(stderr, "bench-infer: '%s'?\n", line), 2;
		}
	}
	infer_destroy(f);
	return 0;
}
