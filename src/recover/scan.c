/* SPDX-License-Identifier: MIT
 *
 * The output scanner: bytes to lines, lines to errors, and the last error kept.
 *
 * Wordings are looked for as whole phrases that the frameworks print, never as the bare words "out of memory": logs speak
 * of memory in prose. What the phrases cannot tell (was it caught? did it matter?) is left to recover_verdict, which gets
 * the count, whether the output went on, and the last error.
 *
 * Logs are of any size and any bytes, and come in pieces of any length: memory is one line's window, nothing is read twice, and
 * what is kept of a line is made printable before it goes anywhere. A progress bar's carriage returns end lines too. The same
 * bytes give the same result however they are cut (a test cuts them everywhere).
 *
 * The last error counts, because a program that survived the first one says so by going on; but not the last *line*: what dies
 * prints dozens of lines after its error (AFTERMATH_LINES), and launchers report the death of their children (`echo`).
 */
#include "recover/scan.h"

#include "base/alloc.h"
#include "base/escape.h"
#include "base/scope.h"
#include "base/units.h"
#include "base/words.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WINDOW 3584		/* of a line that is looked at in one piece */
#define OVERLAP 256		/* kept of a window when the line goes on: longer than any phrase */
#define AFTERMATH_LINES 100	/* what dying programs print after their error: C++ frames, launcher tables, summaries */

/* One wording: both phrases (the second may be NULL) in one line. The first row that matches decides. */
struct wording {
	enum scan_kind kind;
	const char *source;
	const char *phrase, *with;
	bool echo;	/* reports the failure of something else: stands only when nothing better was seen shortly before */
};

static const struct wording wordings[] = {
	/* These contain phrases of rows below and mean something else. */
	{ SCAN_NOTHING, "", "ran out of memory trying to allocate", "this is not a failure" },
	{ SCAN_NOTHING, "", "Search for `cuda", "for more information" },
	{ SCAN_NOTHING, "", "Plan failed with an OutOfMemoryError" },	/* PyTorch 2.3 says so and takes another kernel */
	{ SCAN_OTHER_ERROR, "", "No space left on device" },
	{ SCAN_HOST_OOM, "TensorFlow", "OOM when allocating tensor", "device:CPU" },
	{ SCAN_HOST_OOM, "CUDA", "bytes on host: CUDA_ERROR_OUT_OF_MEMORY" },
	{ SCAN_HOST_OOM, "cuDNN", "CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED" },

	/* PyTorch 1.13 to 2.13, the newest names first; cudaMallocAsync words it differently, ROCm says HIP. */
	{ SCAN_GPU_OOM, "PyTorch", "torch.OutOfMemoryError:" },
	{ SCAN_GPU_OOM, "PyTorch", "torch.cuda.OutOfMemoryError:" },
	{ SCAN_GPU_OOM, "PyTorch", "CUDA out of memory. Tried to allocate" },
	{ SCAN_GPU_OOM, "PyTorch", "HIP out of memory. Tried to allocate" },
	{ SCAN_GPU_OOM, "PyTorch", "Error: CUDA out of memory" },
	{ SCAN_GPU_OOM, "PyTorch", "would exceed allowed memory. (out of memory)" },
	{ SCAN_GPU_OOM, "PyTorch", "'c10::OutOfMemoryError'" },

	{ SCAN_GPU_OOM, "TensorFlow", "OOM when allocating tensor" },
	{ SCAN_GPU_OOM, "TensorFlow", "ResourceExhaustedError", "failed to allocate memory" },
	{ SCAN_GPU_OOM, "TensorFlow", "_bfc) ran out of memory trying to allocate" },
	{ SCAN_GPU_OOM, "TensorFlow", "failed to allocate", "from device: CUDA_ERROR_OUT_OF_MEMORY" },

	{ SCAN_GPU_OOM, "JAX", "RESOURCE_EXHAUSTED:", "ut of memory" },
	{ SCAN_GPU_OOM, "JAX", "RESOURCE_EXHAUSTED:", "Failed to allocate request" },
	{ SCAN_GPU_OOM, "JAX", "Resource exhausted: Out of memory" },
	{ SCAN_GPU_OOM, "JAX", "Resource exhausted: Failed to allocate request" },

	{ SCAN_GPU_OOM, "cuBLAS", "CUBLAS_STATUS_ALLOC_FAILED" },
	{ SCAN_GPU_OOM, "cuDNN", "CUDNN_STATUS_ALLOC_FAILED" },
	{ SCAN_GPU_OOM, "cuDNN", "CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED" },
	{ SCAN_GPU_OOM, "cuSOLVER", "CUSOLVER_STATUS_ALLOC_FAILED" },
	{ SCAN_GPU_OOM, "cuSPARSE", "CUSPARSE_STATUS_ALLOC_FAILED" },
	{ SCAN_GPU_OOM, "cuFFT", "CUFFT_ALLOC_FAILED" },
	{ SCAN_GPU_OOM, "cuRAND", "CURAND_STATUS_ALLOCATION_FAILED" },
	{ SCAN_GPU_OOM, "NCCL", "Cuda failure", "'out of memory'" },
	{ SCAN_GPU_OOM, "CuPy", "cupy.cuda.memory.OutOfMemoryError" },
	{ SCAN_GPU_OOM, "CuPy", "Out of memory allocating", "(allocated so far:" },
	{ SCAN_GPU_OOM, "RAPIDS", "std::bad_alloc:", "RMM failure" },	/* of the GPU, though Python calls it a MemoryError */
	{ SCAN_GPU_OOM, "Paddle", "Out of memory error on GPU" },

	{ SCAN_GPU_OOM, "CUDA", "CUDA_ERROR_OUT_OF_MEMORY" },
	{ SCAN_GPU_OOM, "CUDA", "cudaErrorMemoryAllocation" },
	{ SCAN_GPU_OOM, "CUDA", "cuda runtime error (2)" },
	{ SCAN_GPU_OOM, "CUDA", "Cuda Runtime (out of memory)" },
	{ SCAN_GPU_OOM, "CUDA", "cuMemAlloc failed: out of memory" },
	{ SCAN_GPU_OOM, "CUDA", "CUDA", "rror: out of memory" },
	{ SCAN_GPU_OOM, "CUDA", "CUDA error:out of memory" },
	{ SCAN_GPU_OOM, "CUDA", "cuda failed with error 2 out of memory" },
	{ SCAN_GPU_OOM, "CUDA", "[CUDA]: out of memory" },
	{ SCAN_GPU_OOM, "CUDA", "CUDA failure 2: out of memory" },
	{ SCAN_GPU_OOM, "CUDA", "cudaMalloc", "failed: out of memory" },

	/* CUDA errors 805-810, by what cudaGetErrorString says and by name; by number in mps_number. */
	{ SCAN_MPS, "CUDA", "MPS client failed to connect to the MPS control daemon" },
	{ SCAN_MPS, "CUDA", "remote procedural call between the MPS server and the MPS client failed" },
	{ SCAN_MPS, "CUDA", "MPS server is not ready to accept new MPS client requests" },
	{ SCAN_MPS, "CUDA", "hardware resources required to create MPS client have been exhausted" },
	{ SCAN_MPS, "CUDA", "the hardware resources required to", "device connections have been exhausted" },
	{ SCAN_MPS, "CUDA", "MPS client has been terminated by the server" },
	{ SCAN_MPS, "CUDA", "CUDA_ERROR_MPS_" },
	{ SCAN_MPS, "CUDA", "cudaErrorMps" },

	{ SCAN_DEVICE_FAULT, "CUDA", "an illegal memory access was encountered" },
	{ SCAN_DEVICE_FAULT, "CUDA", "device-side assert triggered" },
	{ SCAN_DEVICE_FAULT, "CUDA", "unspecified launch failure" },
	{ SCAN_DEVICE_FAULT, "CUDA", "an illegal instruction was encountered" },
	{ SCAN_DEVICE_FAULT, "CUDA", "CUDA", "misaligned address" },
	{ SCAN_DEVICE_FAULT, "CUDA", "uncorrectable ECC error encountered" },
	{ SCAN_DEVICE_FAULT, "CUDA", "the launch timed out and was terminated" },
	{ SCAN_DEVICE_FAULT, "CUDA", "CUDA_ERROR_ILLEGAL_ADDRESS" },
	{ SCAN_DEVICE_FAULT, "CUDA", "CUDA_ERROR_LAUNCH_FAILED" },
	{ SCAN_DEVICE_FAULT, "CUDA", "CUDA_ERROR_ASSERT" },
	{ SCAN_DEVICE_FAULT, "CUDA", "cudaErrorIllegalAddress" },
	{ SCAN_DEVICE_FAULT, "CUDA", "cudaErrorLaunchFailure" },
	{ SCAN_DEVICE_FAULT, "driver", "NVRM: Xid" },
	{ SCAN_DEVICE_FAULT, "driver", "GPU has fallen off the bus" },

	{ SCAN_HOST_OOM, "PyTorch", "DefaultCPUAllocator: can't allocate memory" },
	{ SCAN_HOST_OOM, "PyTorch", "DefaultCPUAllocator: not enough memory" },
	{ SCAN_HOST_OOM, "PyTorch", "DataLoader worker (pid", "is killed by signal: Killed" },
	{ SCAN_HOST_OOM, "PyTorch", "workers are out of shared memory" },
	{ SCAN_HOST_OOM, "NumPy", "MemoryError: Unable to allocate" },
	{ SCAN_HOST_OOM, "Java", "java.lang.OutOfMemoryError" },
	{ SCAN_HOST_OOM, "", "Cannot allocate memory" },
	{ SCAN_HOST_OOM, "", "std::bad_alloc" },
	{ SCAN_HOST_OOM, "kernel", "Out of memory: Killed process" },
	{ SCAN_HOST_OOM, "Slurm", "oom-kill event" },

	/* Often a full device when handles are made, but not only then: the verdict looks at the device. */
	{ SCAN_OTHER_ERROR, "cuBLAS", "CUBLAS_STATUS_NOT_INITIALIZED" },
	{ SCAN_OTHER_ERROR, "cuBLAS", "CUBLAS_STATUS_INTERNAL_ERROR" },
	{ SCAN_OTHER_ERROR, "cuDNN", "CUDNN_STATUS_NOT_INITIALIZED" },
	{ SCAN_OTHER_ERROR, "cuDNN", "CUDNN_STATUS_INTERNAL_ERROR" },
	{ SCAN_OTHER_ERROR, "cuDNN", "unable to find an engine to execute this computation" },
	{ SCAN_OTHER_ERROR, "cuDNN", "probably because cuDNN failed to initialize" },
	{ SCAN_OTHER_ERROR, "cuSOLVER", "CUSOLVER_STATUS_INTERNAL_ERROR" },
	{ SCAN_OTHER_ERROR, "cuSOLVER", "CUSOLVER_STATUS_NOT_INITIALIZED" },
	{ SCAN_OTHER_ERROR, "cuSPARSE", "CUSPARSE_STATUS_INSUFFICIENT_RESOURCES" },

	/* Launchers and peers that report what happened to another process, or to the one before. */
	{ SCAN_OTHER_ERROR, "NCCL", "unhandled cuda error", NULL, true },
	{ SCAN_OTHER_ERROR, "NCCL", "ncclUnhandledCudaError", NULL, true },
	{ SCAN_OTHER_ERROR, "NCCL", "Watchdog caught collective operation timeout", NULL, true },
	{ SCAN_OTHER_ERROR, "NCCL", "NCCL communicator was aborted", NULL, true },
	{ SCAN_OTHER_ERROR, "", "Connection closed by peer", NULL, true },
	{ SCAN_OTHER_ERROR, "", "Connection reset by peer", NULL, true },
	{ SCAN_OTHER_ERROR, "", "errors.ChildFailedError:", NULL, true },
	{ SCAN_OTHER_ERROR, "", "RayTaskError(", NULL, true },
	{ SCAN_OTHER_ERROR, "", "subprocess.CalledProcessError:", NULL, true },
	{ SCAN_OTHER_ERROR, "", "ProcessExitedException:", NULL, true },
	{ SCAN_OTHER_ERROR, "", "DataLoader worker (pid", "exited unexpectedly", true },
	{ SCAN_OTHER_ERROR, "", "DataLoader worker (pid", "is killed by signal", true },
	{ SCAN_OTHER_ERROR, "", "terminate called after throwing an instance of", NULL, true },
	{ SCAN_OTHER_ERROR, "", "Fatal Python error:", NULL, true },
	{ SCAN_OTHER_ERROR, "", "Segmentation fault", NULL, true },
	{ SCAN_OTHER_ERROR, "", "Aborted (core dumped)", NULL, true },

	{ SCAN_OTHER_ERROR, "CUDA", "CUDA error:" },
	{ SCAN_OTHER_ERROR, "CUDA", "CUDA_ERROR_" },

	/* A command that was typed wrong, in the words of who reads commands: shells, Python, argparse, click, absl, hydra, getopt,
	 * clap. No fault of a device prints these. */
	{ SCAN_OTHER_ERROR, "", "can't open file", "No such file or directory" },
	{ SCAN_OTHER_ERROR, "", ": command not found" },
	{ SCAN_OTHER_ERROR, "", "rad: conda: " },	/* launch/shim_program.c: the script ends there */
	{ SCAN_OTHER_ERROR, "", ": Command not found." },
	{ SCAN_OTHER_ERROR, "", ": line ", ": syntax error" },
	{ SCAN_OTHER_ERROR, "", ": Syntax error: " },
	{ SCAN_OTHER_ERROR, "", ": line ", ": unbound variable" },
	{ SCAN_OTHER_ERROR, "", "python", ": No module named " },
	{ SCAN_OTHER_ERROR, "", ".py: error: " },
	{ SCAN_OTHER_ERROR, "", ": error: unrecognized arguments: " },
	{ SCAN_OTHER_ERROR, "", ": error: the following arguments are required: " },
	{ SCAN_OTHER_ERROR, "", ": error: argument " },
	{ SCAN_OTHER_ERROR, "", "o such option" },
	{ SCAN_OTHER_ERROR, "", "Error: Missing argument '" },
	{ SCAN_OTHER_ERROR, "", "Error: Missing option '" },
	{ SCAN_OTHER_ERROR, "", "Error: Invalid value for " },
	{ SCAN_OTHER_ERROR, "", "Error: Got unexpected extra argument" },
	{ SCAN_OTHER_ERROR, "", "Flags parsing error: " },
	{ SCAN_OTHER_ERROR, "", "Could not override '" },
	{ SCAN_OTHER_ERROR, "", "Cannot find primary config '" },
	{ SCAN_OTHER_ERROR, "", ": unrecognized option '" },
	{ SCAN_OTHER_ERROR, "", ": invalid option -- '" },
	{ SCAN_OTHER_ERROR, "", "error: unexpected argument '" },
};

/* What stands before the sizes in a GPU out-of-memory. Not TensorFlow's "failed to allocate 11.90GiB from device": it goes on
 * to ask for less, so that is no need. */
static const char *const tried_words[] = { "Tried to allocate ", "trying to allocate ", "Failed to allocate request for ",
					   "Out of memory allocating ", "Cannot allocate ", "(failed to allocate ",
					   "allocating " };
static const char *const held_words[] = { "this process has ", "(allocated so far: " };

/* Every phrase of the table contains one of these, so most lines of a log are passed over quickly. */
static const char *const hints[] = { "rror", "emory", "EMORY", "STATUS_", "ALLOC", "failure", "xception", "fault", "hausted",
				     "EXHAUSTED", "OOM", "oom-", "No s", "MPS", "Mps", "encountered", "triggered",
				     "terminated", "misaligned", "Xid", "fallen off", "bad_alloc", "killed", "exited",
				     "NCCL", "peer", "engine", "cuDNN", "terminate called", "Aborted", "ommand not found", "conda: ",
				     "collective", "CUDA", "unbound", "No module", " option", " override", "primary config" };

/* Matches that are no row of the table: the last line of a traceback, MemoryError under any name, CUDA's numbers. */
static const struct wording traceback_end = { SCAN_OTHER_ERROR, "", "" };
static const struct wording memory_error = { SCAN_HOST_OOM, "Python", "" };
static const struct wording mps_numbered = { SCAN_MPS, "CUDA", "" };

struct scan {
	uint64_t offset;	/* of the next byte */
	uint64_t line_offset;	/* of the first byte of the line */
	char line[WINDOW];
	size_t len;
	bool continued;		/* `line` does not begin where its line begins */
	bool matched;		/* this line gave its error already */
	enum escape escape;	/* sequences are dropped as they come, so that colours cannot split a phrase */

	bool in_traceback;	/* a header was seen, its exception line not yet */
	bool ignored;		/* ... and it is of "Exception ignored in" */
	bool caused;		/* ... and it was raised on purpose from the one before */
	unsigned lines_after;	/* since the last error; stops counting at a bound */
	unsigned lines_after_oom;
	struct scan_result last;
};

struct scan *scan_create(void)
{
	return alloc_zero(sizeof(struct scan));
}

void scan_destroy(struct scan *s)
{
	free(s);
}

static const char *scan_find(const char *text, size_t n, const char *phrase)
{
	return memmem(text, n, phrase, strlen(phrase));
}

static bool starts_with(const char *text, size_t n, const char *prefix)
{
	size_t len = strlen(prefix);

	return n >= len && memcmp(text, prefix, len) == 0;
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool is_word(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || is_digit(c) || c == '_';
}

/* Copies what fits as valid UTF-8 without control characters. */
static void copy_printable(const char *text, size_t n, char *out, size_t size)
{
	size_t used = 0;

	for (const char *p = text; n > 0;) {
		size_t len = words_utf8(p, n);
		bool plain = len > 1 || (len == 1 && p[0] >= 0x20 && p[0] != 0x7f);

		len = len ? len : 1;
		if (used + len >= size)
			break;
		if (plain)
			memcpy(out + used, p, len);
		else
			out[used] = p[0] == '\t' ? ' ' : '?';
		used += plain ? len : 1;
		p += len;
		n -= len;
	}
	out[used] = '\0';
}

/* "[rank0]: ", "[default0]:", "[1,0]<stderr>:" (mpirun), "(train pid=12) " (Ray), "3: " (srun --label): how launchers tell
 * the lines of their processes apart. Returns how long that is. */
static size_t label_length(const char *text, size_t n)
{
	size_t i = 1;

	if (n && text[0] == '[') {
		while (i < n && i < 24 && (is_word(text[i]) || text[i] == ','))
			i++;
		if (i == n || text[i] != ']')
			return 0;
		i++;
		if (starts_with(text + i, n - i, "<stderr>") || starts_with(text + i, n - i, "<stdout>"))
			i += strlen("<stderr>");
		if (i == n || text[i] != ':')
			return 0;
		return i + 1 < n && text[i + 1] == ' ' ? i + 2 : i + 1;
	}
	if (n && text[0] == '(') {
		const char *end = memchr(text, ')', n < 80 ? n : 80);

		return end && scan_find(text, (size_t)(end - text), "pid=") ? (size_t)(end - text) + 1 + (text + n - end > 1) : 0;
	}
	for (i = 0; i < n && i < 5 && is_digit(text[i]); i++)
		;
	return i && i + 1 < n && text[i] == ':' && text[i + 1] == ' ' ? i + 2 : 0;
}

/* Whether an error code from 805 to 810 stands in the line the way CUDA programs print codes. */
static bool mps_number(const char *text, size_t n)
{
	static const char *const before[] = { "rror ", "rror: ", "rror (", "code=", "code ", "code: ", "ailure " };

	if (!scan_find(text, n, "CUDA") && !scan_find(text, n, "cuda") && !scan_find(text, n, "Cuda"))
		return false;
	for (size_t i = 0; i < COUNT_OF(before); i++) {
		size_t len = strlen(before[i]);

		for (const char *p = scan_find(text, n, before[i]); p; p = scan_find(p, (size_t)(text + n - p), before[i])) {
			size_t left;

			p += len;
			left = (size_t)(text + n - p);
			if (left < 3 || (left > 3 && is_word(p[3])))
				continue;
			if ((p[0] == '8' && p[1] == '0' && p[2] >= '5' && p[2] <= '9') || memcmp(p, "810", 3) == 0)
				return true;
		}
	}
	return false;
}

/* Length of a dotted name that is followed by a colon, a parenthesis or the end; 0 if the line does not begin with one. */
static size_t exception_name(const char *text, size_t n)
{
	size_t i = 0;

	if (n == 0 || is_digit(text[0]))
		return 0;
	while (i < n && (is_word(text[i]) || (text[i] == '.' && i > 0)))
		i++;
	return i && (i == n || text[i] == ':' || text[i] == '(') ? i : 0;
}

static bool ends_with(const char *text, size_t n, const char *end)
{
	size_t len = strlen(end);

	return n > len && memcmp(text + n - len, end, len) == 0;
}

/* A Python exception line that the table does not know. */
static const struct wording *match_exception(const char *text, size_t n, bool in_traceback)
{
	size_t name = exception_name(text, n);

	if (!name)
		return NULL;
	if (ends_with(text, name, "MemoryError") || (name == 11 && starts_with(text, n, "MemoryError")))
		return &memory_error;
	if (in_traceback || ends_with(text, name, "Error") || ends_with(text, name, "Exception"))
		return &traceback_end;
	return NULL;
}

/* The hints come first because nearly all lines have none, and they are a third of the wordings. */
static const struct wording *match_wording(const char *text, size_t n, size_t *at)
{
	bool hinted = false;

	for (size_t i = 0; i < COUNT_OF(hints) && !hinted; i++)
		hinted = scan_find(text, n, hints[i]) != NULL;
	for (size_t i = 0; hinted && i < COUNT_OF(wordings); i++) {
		const char *p = scan_find(text, n, wordings[i].phrase);

		if (p && (!wordings[i].with || scan_find(text, n, wordings[i].with))) {
			*at = (size_t)(p - text);
			return &wordings[i];
		}
	}
	*at = 0;
	return hinted && mps_number(text, n) ? &mps_numbered : NULL;
}

/* The size that begins there, as frameworks write sizes: "2.00 GiB", "3.06GiB", "25,600,000,000 bytes". In MiB; 0: there is
 * none, it has no unit, or more than any GPU has. */
static uint64_t size_at(const char *text, size_t n)
{
	char size[40] = "";
	size_t len = 0, i = 0;
	uint64_t mib;

	for (; i < n && len < sizeof size - 8 && (is_digit(text[i]) || text[i] == '.' || text[i] == ','); i++)
		if (text[i] != ',')
			size[len++] = text[i];
	i += i < n && text[i] == ' ';
	bool bytes = i < n && (text[i] == 'B' || text[i] == 'b');
	if (i == n || (!bytes && !memchr("KMGT", text[i], 4)))
		return 0;
	snprintf(size + len, sizeof size - len, "%cB", bytes ? 'K' : text[i]);
	if (units_parse_mib(size, &mib, NULL))
		return 0;
	return bytes ? (mib + 1023) / 1024 : mib;
}

static uint64_t size_after(const char *const *words, size_t n_words, const char *text, size_t n)
{
	for (size_t i = 0; i < n_words; i++) {
		const char *p = scan_find(text, n, words[i]);
		uint64_t mib = p ? size_at(p + strlen(words[i]), n - (size_t)(p - text) - strlen(words[i])) : 0;

		if (mib)
			return mib;
	}
	return 0;
}

/* TensorFlow tells the size in one line and dies with another: what was told near stands. */
static void note_sizes(struct scan_result *r, const char *text, size_t n, bool near)
{
	uint64_t tried_mib = size_after(tried_words, COUNT_OF(tried_words), text, n);

	if (!tried_mib && near)
		return;
	r->tried_mib = tried_mib;
	r->held_mib = size_after(held_words, COUNT_OF(held_words), text, n);
}

/* An echo, or an exception that was raised on purpose from another, does not replace an error that is still fresh: it
 * reports that one. The quote begins a little before the phrase when that stands far inside the line. */
static void scan_record(struct scan *s, const struct wording *w, const char *text, size_t n, size_t at)
{
	bool fresh = s->last.kind != SCAN_NOTHING && s->lines_after <= AFTERMATH_LINES;
	bool near = s->last.oom_seen && s->lines_after_oom <= AFTERMATH_LINES;
	size_t from = at > 120 ? at - 40 : 0;

	s->matched = true;
	if (w->kind == SCAN_GPU_OOM) {
		s->last.oom_seen++;
		s->lines_after_oom = 0;
		note_sizes(&s->last, text, n, near);
	} else if (fresh && (w->echo || s->caused)) {
		return;
	}
	while (from > 0 && from < n && ((unsigned char)text[from] & 0xc0) == 0x80)
		from++;
	s->last.kind = w->kind;
	s->last.oom_near = near && w->kind != SCAN_GPU_OOM;
	if (!near && w->kind != SCAN_GPU_OOM)
		s->last.tried_mib = s->last.held_mib = 0;
	s->last.offset = s->line_offset;
	s->lines_after = 0;
	copy_printable(text + from, n - from, s->last.line, sizeof s->last.line);
	copy_printable(w->source, strlen(w->source), s->last.source, sizeof s->last.source);
}

/* Frames of a traceback, C++ frames, boxes drawn by rich: they quote source code, and say nothing of going on. */
static bool is_detail(const char *text, size_t n)
{
	return text[0] == ' ' || text[0] == '\t' || starts_with(text, n, "\xe2\x94") || starts_with(text, n, "\xe2\x95") ||
	       starts_with(text, n, "frame #");
}

/* Tools that sum up or complain at length while a program dies. */
static bool is_epilogue(const char *text, size_t n)
{
	return starts_with(text, n, "wandb:") || scan_find(text, n, "bfc_allocator.cc") || scan_find(text, n, "NCCL INFO");
}

/* Lines that say what the next traceback is. Returns whether it was one. */
static bool note_traceback(struct scan *s, const char *text, size_t n)
{
	if (scan_find(text, n, "Traceback (most recent call last)")) {
		s->in_traceback = true;
		return true;
	}
	if (starts_with(text, n, "The above exception was the direct cause of the following exception")) {
		s->caused = true;
		return true;
	}
	if (starts_with(text, n, "Exception ignored in")) {
		s->ignored = true;
		return true;
	}
	return false;
}

/* The start of a line, or all of it. */
static void look_at_line(struct scan *s, const char *text, size_t n)
{
	const struct wording *w;
	size_t at = 0;
	bool detail;

	if (n == 0 || note_traceback(s, text, n))
		return;
	detail = is_detail(text, n);
	if (!detail && !is_epilogue(text, n)) {
		s->lines_after += s->lines_after <= AFTERMATH_LINES;
		s->lines_after_oom += s->lines_after_oom <= AFTERMATH_LINES;
	}
	if (detail && (s->in_traceback || text[0] != ' '))
		return;
	w = match_wording(text, n, &at);
	if (!w && !detail)
		w = match_exception(text, n, s->in_traceback);
	if (w && w->kind != SCAN_NOTHING && !s->ignored)
		scan_record(s, w, text, n, at);
	if (!detail)
		s->in_traceback = s->ignored = s->caused = false;
}

/* A further window of a long line: only phrases count there. */
static void look_further(struct scan *s)
{
	size_t at;
	const struct wording *w = s->matched ? NULL : match_wording(s->line, s->len, &at);

	if (w && w->kind != SCAN_NOTHING)
		scan_record(s, w, s->line, s->len, at);
}

static void scan_look(struct scan *s)
{
	if (s->continued) {
		look_further(s);
	} else {
		size_t label = label_length(s->line, s->len);

		look_at_line(s, s->line + label, s->len - label);
	}
}

static void end_line(struct scan *s)
{
	scan_look(s);
	s->len = 0;
	s->continued = s->matched = false;
	s->escape = ESCAPE_NONE;
}

/* A line longer than the window is looked at in pieces that overlap by more than any phrase is long. */
static void add_byte(struct scan *s, char c)
{
	if (s->len == sizeof s->line) {
		scan_look(s);
		memmove(s->line, s->line + sizeof s->line - OVERLAP, OVERLAP);
		s->len = OVERLAP;
		s->continued = true;
	}
	s->line[s->len++] = c;
}

void scan_feed(struct scan *s, const char *bytes, size_t n)
{
	for (size_t i = 0; i < n; i++, s->offset++) {
		char c = bytes[i];

		if (c == '\n' || c == '\r') {
			end_line(s);
			s->line_offset = s->offset + 1;
		} else if (!escape_takes(&s->escape, c)) {
			add_byte(s, c);
		}
	}
}

/* On a copy: the scanner may be asked in the middle of a line and then be fed on. */
void scan_finish(const struct scan *s, struct scan_result *out)
{
	struct scan whole = *s;

	end_line(&whole);
	*out = whole.last;
	out->survived = out->kind != SCAN_NOTHING && whole.lines_after > AFTERMATH_LINES;
}
