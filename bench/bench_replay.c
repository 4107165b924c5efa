/* SPDX-License-Identifier: MIT
 * How fast a capture is read and replayed: a training job like a transformer's, three iterations, of a few sizes. Prints one
 * JSON object; times are processor time. With files as arguments, captures of those instead.
 */
#include "bench.h"

#include "base/io.h"
#include "base/scope.h"
#include "estimate/replay.h"
#include "tests/capture_write.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define ROUNDS 21
#define TENSORS 6	/* parameters of a layer, and activations it keeps */

static uint64_t bytes_of(unsigned tensor, unsigned width)
{
	static const unsigned factors[TENSORS] = { 3 * 1024, 4, 1024, 4096, 16, 4096 };

	return (uint64_t)factors[tensor] * width;
}

/* A request that is given back at once, as most are. */
static void temporary(struct capture_writer *w, uint64_t bytes)
{
	write_free(w, write_alloc(w, bytes));
}

struct layer { uint64_t kept[TENSORS], gradient[TENSORS]; };

static void forward(struct capture_writer *w, struct layer *l, unsigned width)
{
	for (unsigned t = 0; t < TENSORS; t++) {
		write_gemm(w, 0, 1);
		l->kept[t] = write_alloc(w, bytes_of(t, width) * 2 + t * 8192);
		temporary(w, bytes_of(t, width) / 3 + 512);
	}
}

static void backward(struct capture_writer *w, struct layer *l, unsigned width)
{
	for (unsigned t = TENSORS; t-- > 0;) {
		uint64_t flow = write_alloc(w, bytes_of(t, width) * 2);

		write_gemm(w, 1, 0);
		l->gradient[t] = write_alloc(w, bytes_of(t, width));
		temporary(w, bytes_of(t, width) / 2 + 4096);
		write_free(w, l->kept[t]);
		write_free(w, flow);
	}
}

static void optimize(struct capture_writer *w, struct layer *l, unsigned layers, unsigned width, bool first)
{
	for (unsigned k = 0; k < layers; k++)
		for (unsigned t = 0; t < TENSORS; t++) {
			if (first) {
				write_alloc(w, bytes_of(t, width));
				write_alloc(w, bytes_of(t, width));
			}
			temporary(w, bytes_of(t, width));
		}
	for (unsigned k = 0; k < layers; k++)
		for (unsigned t = 0; t < TENSORS; t++)
			write_free(w, l[k].gradient[t]);
}

static void write_job(struct capture_writer *w, unsigned layers, unsigned width)
{
	static const struct capture_texts texts = { "2.11.0+cu130", "", "bench" };
	scoped_free struct layer *l = calloc(layers, sizeof *l);

	if (!l)
		exit(1);
	write_begin(w, &texts, 0, 0, 0);
	for (unsigned k = 0; k < layers * TENSORS; k++)
		write_alloc(w, bytes_of(k % TENSORS, width));
	for (int i = 0; i < 3; i++) {
		write_record(w, WRITE_MARK, 1);
		for (unsigned k = 0; k < layers; k++)
			forward(w, &l[k], width);
		for (unsigned k = layers; k-- > 0;)
			backward(w, &l[k], width);
		optimize(w, l, layers, width, i == 0);
	}
	write_end(w);
}

/* One pass of requests and frees through the allocator, nothing else. */
static size_t run_once(struct alloc_sim *a, const struct capture *c)
{
	size_t events = 0;

	alloc_sim_reset(a, ALLOC_NO_CAP);
	for (size_t i = 0; i < c->n_records; i++) {
		const struct capture_record *r = &c->records[i];

		if (r->kind == CAPTURE_ALLOC)
			alloc_sim_request(a, r->id, r->bytes, r->what);
		else if (r->kind == CAPTURE_FREE)
			alloc_sim_free(a, r->id);
		else
			continue;
		events++;
	}
	return events;
}

static void measure(const struct buf *file, const char *name, const char *before)
{
	int64_t read[ROUNDS], replay[ROUNDS], whole[ROUNDS], t;
	struct alloc_conf conf = alloc_conf_default();
	struct alloc_sim *a = alloc_sim_create(&conf, NULL);
	struct replay_figures f = { 0 };
	struct error err;
	size_t events = 0;

	for (int i = 0; i < ROUNDS; i++) {
		scoped_capture c = { 0 };

		t = bench_now_ns();
		if (capture_read(file->data, file->len, &c, &err)) {
			fprintf(stderr, "%s: %s\n", name, err.text);
			exit(1);
		}
		read[i] = bench_now_ns() - t;
		t = bench_now_ns();
		events = run_once(a, &c);
		replay[i] = bench_now_ns() - t;
		t = bench_now_ns();
		if (replay_capture(&c, &conf, &(struct replay_environment){ 0 }, replay_overheads("NVIDIA H200"), 0, &f, &err))
			exit(1);
		whole[i] = bench_now_ns() - t;
	}
	alloc_sim_destroy(a);
	bench_sort(read, ROUNDS);
	bench_sort(replay, ROUNDS);
	bench_sort(whole, ROUNDS);
	printf("%s{\"capture\":\"%s\",\"bytes\":%zu,\"events\":%zu,\"read_us\":%.1f,\"replay_us\":%.1f,\"events_per_s\":%.0f,"
	       "\"need_and_comfort_us\":%.1f,\"comfort_mib\":%llu,\"need_mib\":%llu}", before, name, file->len, events,
	       (double)read[ROUNDS / 2] / 1e3, (double)replay[ROUNDS / 2] / 1e3,
	       (double)events * 1e9 / (double)replay[ROUNDS / 2], (double)whole[ROUNDS / 2] / 1e3,
	       (unsigned long long)(f.comfort >> 20), (unsigned long long)(f.need >> 20));
}

int main(int argc, char **argv)
{
	static const struct { const char *name; unsigned layers, width; } jobs[] = {
		{ "12 layers", 12, 768 }, { "48 layers", 48, 1600 }, { "120 layers", 120, 64 },
	};

	printf("{\"bench\":\"replay\",\"results\":[");
	for (int i = 1; i < argc; i++) {
		scoped_buf file = { 0 };
		struct error err;

		if (io_read_file(argv[i], CAPTURE_MAX_BYTES, &file, &err)) {
			fprintf(stderr, "%s\n", err.text);
			return 1;
		}
		measure(&file, argv[i], i > 1 ? "," : "");
	}
	for (size_t i = 0; i < COUNT_OF(jobs) && argc == 1; i++) {
		struct capture_writer w;

		write_job(&w, jobs[i].layers, jobs[i].width);
		measure(&w.out, jobs[i].name, i ? "," : "");
		buf_free(&w.out);
	}
	printf("]}\n");
	return 0;
}
