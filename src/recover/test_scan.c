/* SPDX-License-Identifier: MIT
 * The scanner against what frameworks print (tests/outputs), whole, byte by byte and in random cuts; and its bounds.
 */
#include "base/alloc.h"
#include "base/buf.h"
#include "base/io.h"
#include "base/scope.h"
#include "recover/scan.h"

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define SURVIVED 1
#define NEAR 2

struct fixture {
	const char *name;
	enum scan_kind kind;
	const char *source;
	unsigned ooms;
	int flags;
	const char *line;	/* a part of what is kept as the error */
};

static const struct fixture fixtures[] = {
	{ "pytorch-1.12", SCAN_GPU_OOM, "PyTorch", 1, 0, "RuntimeError: CUDA out of memory. Tried to allocate 20.00 MiB" },
	{ "pytorch-1.13", SCAN_GPU_OOM, "PyTorch", 1, 0, "torch.cuda.OutOfMemoryError" },
	{ "pytorch-2.1", SCAN_GPU_OOM, "PyTorch", 1, 0, "torch.cuda.OutOfMemoryError" },
	{ "pytorch-2.5", SCAN_GPU_OOM, "PyTorch", 1, 0, "torch.OutOfMemoryError" },
	{ "pytorch-2.13", SCAN_GPU_OOM, "PyTorch", 1, 0, "torch.OutOfMemoryError" },
	{ "pytorch-exabyte", SCAN_GPU_OOM, "PyTorch", 1, 0, "more than 1EB" },
	{ "pytorch-malloc-async", SCAN_GPU_OOM, "PyTorch", 1, 0, "would exceed allowed memory" },
	{ "pytorch-accelerator-error", SCAN_GPU_OOM, "CUDA", 1, 0, "torch.AcceleratorError: CUDA error: out of memory" },
	{ "pytorch-cuda-error", SCAN_GPU_OOM, "CUDA", 1, 0, "RuntimeError: CUDA error: out of memory" },
	{ "pytorch-cpp", SCAN_GPU_OOM, "PyTorch", 2, 0, "what():  CUDA out of memory" },
	{ "pytorch-hip", SCAN_GPU_OOM, "PyTorch", 1, 0, "HIP out of memory" },
	{ "pytorch-rich", SCAN_GPU_OOM, "PyTorch", 1, 0, "OutOfMemoryError: CUDA" },
	{ "torchrun-ranks", SCAN_GPU_OOM, "PyTorch", 2, 0, "torch.OutOfMemoryError" },
	{ "ray-worker", SCAN_GPU_OOM, "PyTorch", 1, 0, "torch.OutOfMemoryError" },
	{ "accelerate-launch", SCAN_GPU_OOM, "PyTorch", 1, 0, "torch.OutOfMemoryError" },
	{ "wandb-after", SCAN_GPU_OOM, "PyTorch", 1, 0, "torch.OutOfMemoryError" },
	{ "chained-cleanup", SCAN_GPU_OOM, "PyTorch", 1, 0, "torch.OutOfMemoryError" },
	{ "exception-ignored", SCAN_GPU_OOM, "PyTorch", 1, 0, "torch.OutOfMemoryError" },
	{ "tensorflow-2", SCAN_GPU_OOM, "TensorFlow", 2, 0, "OOM when allocating tensor" },
	{ "tensorflow-eager", SCAN_GPU_OOM, "TensorFlow", 1, 0, "failed to allocate memory" },
	{ "tensorflow-1", SCAN_GPU_OOM, "TensorFlow", 2, 0, "errors_impl.ResourceExhaustedError" },
	{ "tensorflow-driver", SCAN_GPU_OOM, "TensorFlow", 1, 0, "failed to allocate 11.90GiB" },
	{ "tensorflow-cpu", SCAN_HOST_OOM, "TensorFlow", 0, 0, "OOM when allocating tensor" },
	{ "tensorflow-disk-full", SCAN_OTHER_ERROR, "", 0, 0, "No space left on device" },
	{ "tensorflow-not-a-failure", SCAN_NOTHING, "", 0, 0, "" },
	{ "tensorflow-handles", SCAN_OTHER_ERROR, "cuBLAS", 0, 0, "CUBLAS_STATUS_NOT_INITIALIZED" },
	{ "jax", SCAN_GPU_OOM, "JAX", 1, 0, "XlaRuntimeError" },
	{ "jax-new", SCAN_GPU_OOM, "JAX", 1, 0, "JaxRuntimeError" },
	{ "jax-request", SCAN_GPU_OOM, "JAX", 1, 0, "Failed to allocate request" },
	{ "jax-old", SCAN_GPU_OOM, "JAX", 1, 0, "Resource exhausted" },
	{ "jax-no-context", SCAN_OTHER_ERROR, "", 1, NEAR, "no supported devices found" },	/* an H100, a fence of 400 MiB */
	{ "cublas-alloc", SCAN_GPU_OOM, "cuBLAS", 1, 0, "CUBLAS_STATUS_ALLOC_FAILED" },
	{ "cublas-not-initialized", SCAN_OTHER_ERROR, "cuBLAS", 0, 0, "CUBLAS_STATUS_NOT_INITIALIZED" },
	{ "cudnn-alloc", SCAN_GPU_OOM, "cuDNN", 1, 0, "CUDNN_STATUS_ALLOC_FAILED" },
	{ "cudnn-9-alloc", SCAN_GPU_OOM, "cuDNN", 1, 0, "DEVICE_ALLOCATION_FAILED" },
	{ "cudnn-plan-warning", SCAN_NOTHING, "", 0, 0, "" },
	{ "cudnn-internal", SCAN_OTHER_ERROR, "cuDNN", 0, 0, "CUDNN_STATUS_INTERNAL_ERROR" },
	{ "cudnn-no-engine", SCAN_OTHER_ERROR, "cuDNN", 0, 0, "unable to find an engine" },
	{ "nccl", SCAN_GPU_OOM, "NCCL", 2, 0, "Cuda failure 2 'out of memory'" },
	{ "nccl-other", SCAN_OTHER_ERROR, "NCCL", 0, 0, "torch.distributed.DistBackendError" },
	{ "cupy", SCAN_GPU_OOM, "CuPy", 1, 0, "cupy.cuda.memory.OutOfMemoryError" },
	{ "rapids-pool", SCAN_GPU_OOM, "RAPIDS", 1, 0, "Maximum pool size exceeded" },
	{ "cuda-sample", SCAN_GPU_OOM, "CUDA", 1, 0, "code=2(cudaErrorMemoryAllocation)" },
	{ "cuda-runtime-2", SCAN_GPU_OOM, "CUDA", 1, 0, "cuda runtime error (2)" },
	{ "cuda-driver-error", SCAN_GPU_OOM, "CUDA", 1, 0, "CUDA driver error: out of memory" },
	{ "triton", SCAN_GPU_OOM, "CUDA", 1, 0, "Triton Error" },
	{ "ggml", SCAN_GPU_OOM, "CUDA", 1, 0, "cudaMalloc failed: out of memory" },
	{ "numba", SCAN_GPU_OOM, "CUDA", 1, 0, "CUDA_ERROR_OUT_OF_MEMORY" },
	{ "paddle", SCAN_GPU_OOM, "Paddle", 1, 0, "Out of memory error on GPU 0" },
	{ "host-memoryerror", SCAN_HOST_OOM, "Python", 0, 0, "MemoryError" },
	{ "host-numpy", SCAN_HOST_OOM, "NumPy", 0, 0, "_ArrayMemoryError" },
	{ "host-cpu-allocator", SCAN_HOST_OOM, "PyTorch", 0, 0, "DefaultCPUAllocator" },
	{ "host-fork", SCAN_HOST_OOM, "", 0, 0, "Cannot allocate memory" },
	{ "host-worker-killed", SCAN_HOST_OOM, "PyTorch", 0, 0, "killed by signal: Killed" },
	{ "host-shared-memory", SCAN_HOST_OOM, "PyTorch", 0, 0, "out of shared memory" },
	{ "host-bad-alloc", SCAN_HOST_OOM, "", 0, 0, "std::bad_alloc" },
	{ "host-java", SCAN_HOST_OOM, "Java", 0, 0, "Java heap space" },
	{ "host-pinned", SCAN_HOST_OOM, "CUDA", 0, 0, "bytes on host" },
	{ "mps-805", SCAN_MPS, "CUDA", 0, 0, "failed to connect" },
	{ "mps-806", SCAN_MPS, "CUDA", 0, 0, "remote procedural call" },
	{ "mps-807", SCAN_MPS, "CUDA", 0, 0, "not ready" },
	{ "mps-808", SCAN_MPS, "CUDA", 0, 0, "create MPS client" },
	{ "mps-809", SCAN_MPS, "CUDA", 0, 0, "device connections" },
	{ "mps-810", SCAN_MPS, "CUDA", 0, 0, "terminated by the server" },
	{ "mps-init", SCAN_MPS, "CUDA", 0, 0, "Error 805" },
	{ "mps-number", SCAN_MPS, "CUDA", 0, 0, "code=807" },
	{ "mps-driver-name", SCAN_MPS, "CUDA", 0, 0, "CUDA_ERROR_MPS_RPC_FAILURE" },
	{ "fault-illegal-access", SCAN_DEVICE_FAULT, "CUDA", 0, 0, "illegal memory access" },
	{ "fault-assert", SCAN_DEVICE_FAULT, "CUDA", 0, 0, "device-side assert triggered" },
	{ "fault-launch", SCAN_DEVICE_FAULT, "CUDA", 0, 0, "unspecified launch failure" },
	{ "fault-xid", SCAN_DEVICE_FAULT, "driver", 0, 0, "NVRM: Xid" },
	{ "fault-xla", SCAN_DEVICE_FAULT, "CUDA", 0, 0, "CUDA_ERROR_ILLEGAL_ADDRESS" },
	/* As PyTorch 2.11 printed them on an H200, under MPS: the culprits, and neighbours that died with them. */
	{ "h200-fence", SCAN_GPU_OOM, "PyTorch", 1, 0, "of which 21.85 MiB is free" },
	{ "h200-assert", SCAN_DEVICE_FAULT, "CUDA", 0, 0, "device-side assert triggered" },
	{ "h200-illegal-culprit", SCAN_DEVICE_FAULT, "CUDA", 0, 0, "illegal memory access" },
	{ "h200-illegal-neighbour", SCAN_DEVICE_FAULT, "CUDA", 0, 0, "illegal memory access" },
	{ "h200-trap-neighbour", SCAN_DEVICE_FAULT, "CUDA", 0, 0, "unspecified launch failure" },
	{ "h200-killed-neighbour", SCAN_DEVICE_FAULT, "CUDA", 0, 0, "illegal memory access" },
	{ "other-valueerror", SCAN_OTHER_ERROR, "", 0, 0, "ValueError: invalid literal" },
	{ "other-custom", SCAN_OTHER_ERROR, "", 0, 0, "__main__.Diverged" },
	{ "other-interrupt", SCAN_OTHER_ERROR, "", 0, 0, "KeyboardInterrupt" },
	{ "other-no-file", SCAN_OTHER_ERROR, "", 0, 0, "can't open file" },
	{ "other-no-command", SCAN_OTHER_ERROR, "", 0, 0, "command not found" },
	{ "other-arguments", SCAN_OTHER_ERROR, "", 0, 0, "train.py: error: unrecognized arguments: --bacth-size 64" },
	{ "other-child", SCAN_OTHER_ERROR, "", 0, 0, "ValueError: bad shape" },
	{ "prose", SCAN_NOTHING, "", 0, 0, "" },
	{ "caught-then-training", SCAN_GPU_OOM, "PyTorch", 1, SURVIVED, "retrying with 256" },
	{ "caught-logged", SCAN_GPU_OOM, "PyTorch", 1, 0, "torch.OutOfMemoryError" },
	{ "caught-then-other", SCAN_OTHER_ERROR, "", 1, 0, "ZeroDivisionError" },
	{ "handler-failed", SCAN_OTHER_ERROR, "", 1, NEAR, "KeyError: 'batch'" },
	{ "tqdm", SCAN_GPU_OOM, "PyTorch", 1, 0, "torch.OutOfMemoryError" },
	{ "tqdm-goes-on", SCAN_GPU_OOM, "PyTorch", 1, SURVIVED, "skipped" },
	{ "ansi", SCAN_GPU_OOM, "PyTorch", 1, 0, "torch.OutOfMemoryError: CUDA out of memory. Tried" },
	{ "no-newline", SCAN_GPU_OOM, "PyTorch", 1, 0, "Tried to allocate 2.00 GiB." },
	{ "crlf", SCAN_GPU_OOM, "PyTorch", 1, 0, "Tried to allocate 2.00 GiB." },
	{ "utf16", SCAN_NOTHING, "", 0, 0, "" },
	{ "binary", SCAN_NOTHING, "", 0, 0, "" },
	{ "invalid-utf8", SCAN_GPU_OOM, "PyTorch", 1, 0, "Tried to allocate ??????? ??GiB caf\xc3\xa9" },
	{ "long-line", SCAN_GPU_OOM, "PyTorch", 1, 0, "torch.OutOfMemoryError: CUDA out of memory" },
	{ "empty", SCAN_NOTHING, "", 0, 0, "" },
};

static char *outputs_dir(void)
{
	return alloc_printf("%s/tests/outputs", getenv("RAD_SOURCE_ROOT"));
}

static void read_fixture(const char *name, struct buf *out)
{
	scoped_free char *dir = outputs_dir(), *path = alloc_printf("%s/%s.txt", dir, name);
	struct error err = ERROR_INIT;

	if (io_read_file(path, 1 << 20, out, &err))
		fail_msg("%s", err.text);
}

/* Feeds it in pieces of `step` bytes; 0: of random lengths. */
static struct scan_result scan_all(const char *bytes, size_t n, size_t step)
{
	struct scan *s = scan_create();
	struct scan_result r;

	for (size_t at = 0; at < n;) {
		size_t piece = step ? step : (size_t)rand() % 400 + 1;

		piece = piece < n - at ? piece : n - at;
		scan_feed(s, bytes + at, piece);
		at += piece;
	}
	scan_finish(s, &r);
	scan_destroy(s);
	return r;
}

static struct scan_result scan_text(const char *text)
{
	return scan_all(text, strlen(text), strlen(text) + 1);
}

static void check_fixture(const struct fixture *f, const struct buf *b, size_t step)
{
	struct scan_result r = scan_all(buf_text(b), b->len, step);

	if (r.kind != f->kind || strcmp(r.source, f->source) || !strstr(r.line, f->line) || r.oom_seen != f->ooms ||
	    r.survived != !!(f->flags & SURVIVED) || r.oom_near != !!(f->flags & NEAR))
		fail_msg("%s: kind %d, source '%s', line '%s', %u ooms, survived %d, near %d", f->name, (int)r.kind, r.source,
			 r.line, r.oom_seen, r.survived, r.oom_near);
}

static void test_fixtures_however_they_are_cut(void **state)
{
	(void)state;
	srand(20261120);
	for (size_t i = 0; i < COUNT_OF(fixtures); i++) {
		scoped_buf b = { 0 };

		read_fixture(fixtures[i].name, &b);
		check_fixture(&fixtures[i], &b, b.len + 1);
		check_fixture(&fixtures[i], &b, 1);
		check_fixture(&fixtures[i], &b, 0);
	}
}

/* As bash, dash, tcsh, Python, argparse, click, absl, hydra, getopt and clap print them last. */
static void test_commands_typed_wrong_are_errors_of_their_own(void **state)
{
	static const char *const texts[] = {
		"/tmp/rad/script: line 3: trian: command not found\n", "zsh:1: command not found: trian\n",
		"rad: conda: not found in CONDA_EXE, PATH, the home folder or /opt: set CONDA_EXE\n",
		"trian: Command not found.\n", "/tmp/rad/script: line 9: syntax error: unexpected end of file\n",
		"run.sh: line 2: syntax error near unexpected token `fi'\n`fi'\n",
		"run.sh: 1: Syntax error: end of file unexpected (expecting \"then\")\n", "run.sh: line 4: LR: unbound variable\n",
		"/usr/bin/python3: No module named trian\n", "  File \"train.py\", line 1\n    if x\n        ^\nSyntaxError: expected ':'\n",
		"usage: train [-h] --lr LR\ntrain: error: the following arguments are required: --lr\n",
		"usage: train [-h] --lr LR\ntrain: error: argument --lr: invalid float value: 'x'\n",
		"usage: torchrun [-h]\ntorchrun: error: unrecognized arguments: --nproc 2\n",
		"Usage: train.py [OPTIONS] MODEL\nTry 'train.py --help' for help.\n\nError: No such option '--lrr'. Did you mean '--lr'?\n",
		"Usage: train.py [OPTIONS] MODEL\nTry 'train.py --help' for help.\n\nError: Missing argument 'MODEL'.\n",
		"Usage: train.py [OPTIONS] MODEL\nTry 'train.py --help' for help.\n\nError: Missing option '--lr'.\n",
		"Error: Invalid value for '--lr': 'x' is not a valid float.\n", "Error: Got unexpected extra argument (n)\n",
		"FATAL Flags parsing error: Unknown command line flag 'lrr'. Did you mean: lr ?\n"
		"Pass --helpshort or --helpfull to see help on flags.\n",
		"Could not override 'lrr'.\nTo append to your config use +lrr=2\nKey 'lrr' is not in struct\n    full_key: lrr\n\n"
		"Set the environment variable HYDRA_FULL_ERROR=1 for a complete stack trace.\n",
		"Cannot find primary config 'd'. Check that it's in your config search path.\n",
		"train: unrecognized option '--lrr'\nTry 'train --help' for more information.\n", "train: invalid option -- 'Y'\n",
		"error: unexpected argument '--lrr' found\n\nUsage: train [OPTIONS]\n",
	};
	(void)state;
	for (size_t i = 0; i < COUNT_OF(texts); i++) {
		struct scan_result r = scan_text(texts[i]);
		if (r.kind != SCAN_OTHER_ERROR || r.source[0] || r.survived)
			fail_msg("%s: kind %d, source '%s'", texts[i], (int)r.kind, r.source);
	}
}

/* What was asked for and what the process had, of those that tell; in MiB. */
static void test_sizes_that_are_told(void **state)
{
	static const struct { const char *name; uint64_t tried, held; } rows[] = {
		{ "pytorch-1.12", 20, 0 }, { "pytorch-2.13", 2048, 39906 }, { "pytorch-cpp", 2048, 0 }, { "pytorch-hip", 6144, 0 },
		{ "pytorch-rich", 2048, 0 }, { "pytorch-exabyte", 0, 0 }, { "pytorch-cuda-error", 0, 0 },
		{ "torchrun-ranks", 2048, 39906 }, { "h200-fence", 26, 5100 }, { "tensorflow-2", 3134, 0 }, { "tensorflow-driver", 0, 0 },
		{ "jax", 7064, 0 }, { "jax-new", 7066, 0 }, { "jax-old", 5266, 0 }, { "jax-request", 3062, 0 },
		{ "rapids-pool", 6656, 0 },
		{ "cupy", 24415, 3467 }, { "ggml", 23512, 0 }, { "paddle", 1536, 0 }, { "handler-failed", 2048, 39906 },
		{ "caught-then-other", 0, 0 }, { "host-numpy", 0, 0 }, { "invalid-utf8", 0, 0 },
	};
	(void)state;
	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		scoped_buf b = { 0 };
		read_fixture(rows[i].name, &b);
		struct scan_result r = scan_all(buf_text(&b), b.len, b.len + 1);
		if (r.tried_mib != rows[i].tried || r.held_mib != rows[i].held)
			fail_msg("%s: tried %llu, held %llu", rows[i].name, (unsigned long long)r.tried_mib, (unsigned long long)r.held_mib);
	}
}

/* What is no size of a GPU's memory teaches nothing. */
static void test_sizes_that_lie(void **state)
{
	static const char *const sizes[] = { "-5.00 GiB", "1e30 GiB", "18446744073709551615 bytes", "99999999999999999999999999 GiB",
					     "2.00", "2.00 parsecs", "nan GiB", "0x10 GiB", "0 bytes", ". GiB", "1.2.3 GiB",
					     "2048.00 PiB", "2000000 TiB", "" };
	(void)state;
	for (size_t i = 0; i < COUNT_OF(sizes); i++) {
		scoped_free char *text = alloc_printf("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate %s", sizes[i]);
		struct scan_result r = scan_text(text);
		assert_int_equal(r.kind, SCAN_GPU_OOM);
		if (r.tried_mib)
			fail_msg("%s: %llu", sizes[i], (unsigned long long)r.tried_mib);
	}
}

static void test_every_file_has_its_row(void **state)
{
	scoped_free char *path = outputs_dir();
	scoped_dir DIR *dir = opendir(path);
	size_t files = 0;

	(void)state;
	assert_non_null(dir);
	for (struct dirent *e = readdir(dir); e; e = readdir(dir)) {
		size_t len = strlen(e->d_name), row = 0;

		if (len < 4 || strcmp(e->d_name + len - 4, ".txt"))
			continue;
		files++;
		while (row < COUNT_OF(fixtures) && (strlen(fixtures[row].name) != len - 4 ||
						    strncmp(fixtures[row].name, e->d_name, len - 4)))
			row++;
		if (row == COUNT_OF(fixtures))
			fail_msg("no row for %s", e->d_name);
	}
	assert_int_equal(files, COUNT_OF(fixtures));
}

static void test_offset_is_of_the_line(void **state)
{
	struct scan_result r = scan_text("one\r\n\033[31mtwo\033[0m\nValueError: x\nfour\n");

	(void)state;
	assert_int_equal(r.kind, SCAN_OTHER_ERROR);
	assert_int_equal(r.offset, strlen("one\r\n\033[31mtwo\033[0m\n"));
}

static void test_finish_does_not_disturb(void **state)
{
	struct scan *s = scan_create();
	struct scan_result r;

	(void)state;
	scan_feed(s, "torch.OutOf", 11);
	scan_finish(s, &r);
	assert_int_equal(r.kind, SCAN_NOTHING);
	scan_feed(s, "MemoryError: x", 14);
	scan_finish(s, &r);
	scan_finish(s, &r);
	assert_int_equal(r.kind, SCAN_GPU_OOM);
	assert_int_equal(r.oom_seen, 1);
	scan_destroy(s);
	scan_destroy(NULL);
}

/* At every place relative to the scanner's windows a phrase is found, once. (What follows it may be cut.) */
static void test_phrase_anywhere_in_a_long_line(void **state)
{
	static const char phrase[] = "CUDA out of memory. Tried to allocate";
	char line[12000];

	(void)state;
	for (size_t at = 0; at + sizeof phrase < sizeof line; at += 23) {
		struct scan_result r;

		memset(line, 'x', sizeof line);
		memcpy(line + at, phrase, sizeof phrase - 1);
		r = scan_all(line, sizeof line, sizeof line);
		assert_int_equal(r.kind, SCAN_GPU_OOM);
		assert_int_equal(r.oom_seen, 1);
		assert_int_equal(r.offset, 0);
		assert_non_null(strstr(r.line, phrase));
	}
}

/* Memory does not grow with the line: the scanner allocates nothing after scan_create. Long enough for every window to have
 * been reused thousands of times. */
static void test_endless_line(void **state)
{
	struct scan *s = scan_create();
	struct scan_result r;
	char block[65536];

	(void)state;
	memset(block, 'x', sizeof block);
	for (int i = 0; i < 256; i++)
		scan_feed(s, block, sizeof block);
	scan_feed(s, "\nMemoryError\n", 13);
	scan_finish(s, &r);
	assert_int_equal(r.kind, SCAN_HOST_OOM);
	assert_int_equal(r.offset, 256 * sizeof block + 1);
	scan_destroy(s);
}

/* An escape sequence that never ends must not swallow what follows it. */
static void test_unfinished_escapes(void **state)
{
	(void)state;
	assert_int_equal(scan_text("\033]0;title without end\nMemoryError\n").kind, SCAN_HOST_OOM);
	assert_int_equal(scan_text("\033[12;\nMemoryError\n").kind, SCAN_HOST_OOM);
	assert_int_equal(scan_text("x\033\nMemoryError\n").kind, SCAN_HOST_OOM);
}

/* The ends of colours as tput writes them, titles, links, pictures: each a terminal's, and no part of a line. */
static void test_escapes(void **state)
{
	static const char *const lines[] = {
		"\033(B\033[mValueError: x\n", "\033[31mValueError\033(B\033[m: x\n", "\033]0;title\aValueError: x\n",
		"\033]8;;file:\\host\033\\ValueError: x\n", "\033Pq#0~~@@\033\\ValueError: x\n",
		"\033_Ga=T;AAAA\033\\ValueError: x\n", "\033\033[1mValueError: x\n", "\033[12\033[1mValueError: x\n",
	};
	(void)state;
	for (size_t i = 0; i < COUNT_OF(lines); i++)
		assert_string_equal(scan_text(lines[i]).line, "ValueError: x");
}

/* The numbers alone: only 805 to 810, only as error codes, only of CUDA. */
static void test_mps_numbers(void **state)
{
	static const struct { const char *line; enum scan_kind kind; } cases[] = {
		{ "CUDA failed with error 805", SCAN_MPS }, { "CUDA failed with error 810", SCAN_MPS },
		{ "cuInit returned CUDA error (808)", SCAN_MPS }, { "CUDA code: 809", SCAN_MPS },
		{ "CUDA failed with error 804", SCAN_NOTHING }, { "CUDA failed with error 811", SCAN_NOTHING },
		{ "CUDA failed with error 8050", SCAN_NOTHING }, { "disk failed with error 805", SCAN_NOTHING },
		{ "train error 0.2 | cuda:0 | step 805", SCAN_NOTHING }, { "cuda:0 error 80", SCAN_NOTHING },
	};

	(void)state;
	for (size_t i = 0; i < COUNT_OF(cases); i++)
		if (scan_text(cases[i].line).kind != cases[i].kind)
			fail_msg("%s", cases[i].line);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_fixtures_however_they_are_cut),
		cmocka_unit_test(test_sizes_that_are_told),
		cmocka_unit_test(test_sizes_that_lie),
		cmocka_unit_test(test_every_file_has_its_row),
		cmocka_unit_test(test_commands_typed_wrong_are_errors_of_their_own),
		cmocka_unit_test(test_offset_is_of_the_line),
		cmocka_unit_test(test_finish_does_not_disturb),
		cmocka_unit_test(test_phrase_anywhere_in_a_long_line),
		cmocka_unit_test(test_endless_line),
		cmocka_unit_test(test_unfinished_escapes),
		cmocka_unit_test(test_escapes),
		cmocka_unit_test(test_mps_numbers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
