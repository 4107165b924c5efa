/* SPDX-License-Identifier: MIT
 * The simulated training program: options, devices, the loop, and the ways to fail. All times in its options are seconds of
 * work at full speed, so that what happens when does not depend on the neighbours.
 */
#include "cli/simtask.h"

#include "base/alloc.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/io.h"
#include "base/scope.h"
#include "base/units.h"
#include "device/simdev.h"
#include "task/spec.h"

#include <math.h>
#include <signal.h>
#include <string.h>

#define TICK_MS 60
#define STEPS_PER_S 10		/* at full speed */
#define STALLED_S 0.5		/* a tick that took longer was spent stopped, not training */
#define NEVER INFINITY

struct options {
	uint64_t mem_mib, grow_to_mib;
	double seconds, gract, smact, ramp_s, print_every_s;
	double grow_at_s, crash_at_s, mps_fault_at_s, host_oom_at_s;
	int64_t exit_code;
	const char *checkpoint;	/* NULL: it saves nothing */
	enum { SAYS_STEPS, SAYS_BAR, SAYS_EPOCHS, SAYS_LIES } says;
};

struct simtask_target {
	struct gpu_reading gpu;
	uint64_t held_mib;
	uint64_t fence_mib;	/* 0: none */
};

struct simtask_run {
	struct options o;
	struct simdev *devices;
	bool mps;
	struct simtask_target *targets;
	size_t n;
	double work_s;		/* done so far, in seconds of full speed */
	int64_t start_ms;
	double printed_s;	/* since start, when the last line was printed */
	double printed_work_s;
};

enum {
	OPT_MEM, OPT_SECONDS, OPT_GRACT, OPT_SMACT, OPT_RAMP, OPT_GROW_TO, OPT_GROW_AT, OPT_CRASH_AT, OPT_EXIT,
	OPT_MPS_FAULT_AT, OPT_HOST_OOM_AT, OPT_PRINT_EVERY, OPT_PROGRESS,
	OPT_CHECKPOINT,
};

/* Times are in seconds of work when alone. */
static const struct args_option table[] = {
	[OPT_MEM] = { "mem", 0, "SIZE", "GPU memory it takes on each device" },
	[OPT_SECONDS] = { "seconds", 0, "S", "how long it takes when alone; all times are of work when alone" },
	[OPT_GRACT] = { "gract", 0, "F", "share of time it keeps the GPU busy when alone (0.97)" },
	[OPT_SMACT] = { "smact", 0, "F", "its SM activity when alone (0.75)" },
	[OPT_RAMP] = { "ramp", 0, "S", "until it has all its memory (a third of --seconds, at most 20)" },
	[OPT_GROW_TO] = { "grow-to", 0, "SIZE", "takes so much memory later, from --grow-at on" },
	[OPT_GROW_AT] = { "grow-at", 0, "S", "when that is" },
	[OPT_CRASH_AT] = { "crash-at", 0, "S", "fails with an error of its own, with the code of --exit" },
	[OPT_EXIT] = { "exit", 0, "N", "that code (1)" },
	[OPT_MPS_FAULT_AT] = { "mps-fault-at", 0, "S", "an illegal memory access, which ends all MPS clients of its devices" },
	[OPT_HOST_OOM_AT] = { "host-oom-at", 0, "S", "runs out of host memory" },
	[OPT_PRINT_EVERY] = { "print-every", 0, "S", "seconds between progress lines (1)" },
	[OPT_PROGRESS] = { "progress", 0, "FORM", "of those lines: steps, bar, epochs (five bars), lies" },
	[OPT_CHECKPOINT] = { "checkpoint", 0, "FILE", "on SIGUSR1 saves there how far it is and exits with 85; goes on from that" },
	{ 0 },
};

static int read_progress(const char *word, struct options *o, struct error *err)
{
	static const char *const forms[] = {
		[SAYS_STEPS] = "steps", [SAYS_BAR] = "bar", [SAYS_EPOCHS] = "epochs", [SAYS_LIES] = "lies",
	};
	for (unsigned i = 0; i < COUNT_OF(forms); i++)
		if (!strcmp(word, forms[i])) {
			o->says = i;
			return 0;
		}
	return error_set(err, ERR_INVALID, "'%.20s': expected steps, bar, epochs or lies", word);
}

static int read_option(struct options *o, long option, const char *value, struct error *err)
{
	const double most = 1e7;	/* seconds: about four months */
	switch (option) {
	case OPT_MEM:		return units_parse_mib(value, &o->mem_mib, err);
	case OPT_GROW_TO:	return units_parse_mib(value, &o->grow_to_mib, err);
	case OPT_SECONDS:	return units_parse_double(value, 0, most, &o->seconds, err);
	case OPT_GRACT:		return units_parse_double(value, 0, 1, &o->gract, err);
	case OPT_SMACT:		return units_parse_double(value, 0, 1, &o->smact, err);
	case OPT_RAMP:		return units_parse_double(value, 0, most, &o->ramp_s, err);
	case OPT_GROW_AT:	return units_parse_double(value, 0, most, &o->grow_at_s, err);
	case OPT_CRASH_AT:	return units_parse_double(value, 0, most, &o->crash_at_s, err);
	case OPT_MPS_FAULT_AT:	return units_parse_double(value, 0, most, &o->mps_fault_at_s, err);
	case OPT_HOST_OOM_AT:	return units_parse_double(value, 0, most, &o->host_oom_at_s, err);
	case OPT_PRINT_EVERY:	return units_parse_double(value, 0.01, most, &o->print_every_s, err);
	case OPT_PROGRESS:	return read_progress(value, o, err);
	case OPT_CHECKPOINT:	o->checkpoint = value; return 0;
	default:		return units_parse_int(value, 0, 255, &o->exit_code, err);
	}
}

static int check_options(const struct options *o, struct error *err)
{
	if (!o->mem_mib || isnan(o->seconds))
		return error_set(err, ERR_INVALID, "--mem and --seconds are needed");
	if ((o->grow_to_mib > 0) != (o->grow_at_s < NEVER))
		return error_set(err, ERR_INVALID, "--grow-to and --grow-at go together");
	return 0;
}

static int read_options(const struct cli_call *c, struct options *o, struct error *err)
{
	*o = (struct options){ .seconds = NAN, .gract = 0.97, .smact = 0.75, .ramp_s = NAN, .print_every_s = 1,
			       .grow_at_s = NEVER, .crash_at_s = NEVER, .mps_fault_at_s = NEVER, .host_oom_at_s = NEVER,
			       .exit_code = 1 };
	for (size_t i = 0; i < c->n_given; i++)
		if (read_option(o, c->given[i].option - table, c->given[i].value, err))
			return error_wrap(err, "--%s", c->given[i].option->name);
	if (c->n_words)
		return error_set(err, ERR_INVALID, "'%.60s': what is that? All it takes are options", c->words[0]);
	if (check_options(o, err))
		return -1;
	if (isnan(o->ramp_s))
		o->ramp_s = (double)simdev_ramp_ms((int64_t)(o->seconds * 1000)) / 1000;
	return 0;
}

static const struct gpu_reading *find_gpu(const struct snapshot *snap, const char *word)
{
	int64_t index = -1;
	bool number = !units_parse_int(word, 0, SIMDEV_MAX_DEVICES, &index, NULL);
	for (uint32_t i = 0; i < snap->n_gpus; i++)
		if (number ? snap->gpus[i].index == index : !strcmp(snap->gpus[i].uuid, word))
			return &snap->gpus[i];
	return NULL;
}

static int find_targets(struct simtask_run *r, const struct snapshot *snap, struct error *err)
{
	const char *visible = getenv("CUDA_VISIBLE_DEVICES");
	scoped_free char *copy = alloc_string(visible ? visible : "0");
	size_t cap = 0;
	for (char *rest = copy, *word; (word = strsep(&rest, ",")); ) {
		if (!*word)
			continue;
		const struct gpu_reading *gpu = find_gpu(snap, word);
		if (!gpu)
			return error_set(err, ERR_NOT_FOUND, "CUDA_VISIBLE_DEVICES=%.200s: there is no simulated device "
					 "'%.63s'", visible, word);
		for (size_t i = 0; i < r->n; i++)
			if (!strcmp(r->targets[i].gpu.uuid, gpu->uuid))
				return error_set(err, ERR_INVALID, "CUDA_VISIBLE_DEVICES=%.200s names a device twice", visible);
		alloc_grow(r->targets, r->n, cap);
		r->targets[r->n++] = (struct simtask_target){ .gpu = *gpu };
	}
	return r->n ? 0 : error_set(err, ERR_NOT_FOUND, "CUDA_VISIBLE_DEVICES is empty: no GPUs are available");
}

/* "0=12G,1=8G" or "GPU-uuid=12G". */
static int read_fences(struct simtask_run *r, struct error *err)
{
	const char *limits = getenv("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT");
	if (!r->mps || !limits)
		return 0;
	scoped_free char *copy = alloc_string(limits);
	for (char *rest = copy, *word; (word = strsep(&rest, ",")); ) {
		char *size = strchr(word, '=');
		uint64_t mib;
		int64_t place = -1;
		if (!size || units_parse_mib(size + 1, &mib, err))
			return error_set(err, ERR_INVALID, "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=%.200s: write 0=12G or "
					 "UUID=12G", limits);
		*size = 0;
		bool number = !units_parse_int(word, 0, SIMDEV_MAX_DEVICES, &place, NULL);
		for (size_t i = 0; i < r->n; i++)
			if (number ? (int64_t)i == place : !strcmp(r->targets[i].gpu.uuid, word))
				r->targets[i].fence_mib = mib;
	}
	return 0;
}

static int join_devices(struct simtask_run *r, struct error *err)
{
	const char *path = getenv("RAD_SIM_DEVICES"), *pipe = getenv("CUDA_MPS_PIPE_DIRECTORY");
	if (!path || !*path)
		return error_set(err, ERR_UNAVAILABLE, "RAD_SIM_DEVICES is not set: this runs only on simulated GPUs: start "
				 "'radd --devices sim:4xa100-40g' and use 'rad submit -- rad simtask ...'");
	r->devices = simdev_open(path, NULL, err);
	if (!r->devices)
		return -1;
	struct snapshot snap = { 0 };
	int rc = simdev_snapshot(r->devices, &snap, err);
	r->mps = pipe && !strcmp(pipe, path);
	if (!rc)
		rc = find_targets(r, &snap, err) || read_fences(r, err) ? -1 : 0;
	snapshot_clear(&snap);
	for (size_t i = 0; !rc && i < r->n; i++)
		rc = simdev_join(r->devices, r->targets[i].gpu.uuid, r->o.gract, r->o.smact, r->mps, err);
	return rc;
}

/* As PyTorch writes sizes. */
static const char *torch_size(uint64_t mib, char buf[32])
{
	if (mib < 1024)
		snprintf(buf, 32, "%llu.00 MiB", (unsigned long long)mib);
	else
		snprintf(buf, 32, "%.2f GiB", (double)mib / 1024);
	return buf;
}

static void print_traceback(const char *line)
{
	fflush(stdout);
	fprintf(stderr, "Traceback (most recent call last):\n  File \"simtask.py\", line 1, in <module>\n    %s\n", line);
}

static void print_out_of_memory(const struct simtask_run *r, size_t i, uint64_t wanted_mib, uint64_t free_mib)
{
	const struct simtask_target *t = &r->targets[i];
	/* Under a fence, as measured on an H200: the capacity said is the device's, what is free is what the fence leaves. */
	uint64_t total = t->gpu.mem_total_mib - t->gpu.mem_reserved_mib;
	uint64_t context = t->held_mib < SIMDEV_CONTEXT_MIB ? t->held_mib : SIMDEV_CONTEXT_MIB;
	char tried[32], capacity[32], available[32], held[32], allocated[32];
	if (t->held_mib + free_mib < SIMDEV_CONTEXT_MIB) {	/* not even its context: no size is told then */
		print_traceback("model.cuda()");
		fprintf(stderr, "torch.AcceleratorError: CUDA error: out of memory\n");
		return;
	}
	print_traceback("loss.backward()");
	fprintf(stderr, "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate %s. GPU %zu has a total capacity of %s "
		"of which %s is free. Including non-PyTorch memory, this process has %s memory in use. Of the allocated memory "
		"%s is allocated by PyTorch, and 0 bytes is reserved by PyTorch but unallocated.\n",
		torch_size(wanted_mib, tried), i, torch_size(total, capacity), torch_size(free_mib, available),
		torch_size(t->held_mib, held), torch_size(t->held_mib - context, allocated));
}

static uint64_t memory_wanted(const struct simtask_run *r)
{
	const struct options *o = &r->o;
	uint64_t mib = simdev_ramp_mib(o->mem_mib, r->work_s < o->ramp_s ? r->work_s / o->ramp_s : 1);
	return r->work_s >= o->grow_at_s && o->grow_to_mib > mib ? o->grow_to_mib : mib;
}

/* 0, or the exit code. */
static int take_memory(struct simtask_run *r)
{
	uint64_t wanted = memory_wanted(r);
	for (size_t i = 0; i < r->n; i++) {
		struct simtask_target *t = &r->targets[i];
		struct error err = ERROR_INIT;
		uint64_t free_mib = 0;
		int rc = 0;
		if (wanted == t->held_mib)
			continue;
		if (t->fence_mib && wanted > t->fence_mib) {
			rc = 1;
			free_mib = t->fence_mib - t->held_mib;
		} else {
			rc = simdev_set_memory(r->devices, t->gpu.uuid, wanted, &free_mib, &err);
		}
		if (rc > 0)
			print_out_of_memory(r, i, wanted - t->held_mib, free_mib);
		if (rc < 0)
			cli_note("simtask: %s", err.text);
		if (rc)
			return 1;
		t->held_mib = wanted;
	}
	return 0;
}

/* What it computes: a linear model learns from noisy samples, about a tenth of a millisecond a tick. */
#define WEIGHTS 64
struct learner { double weight[WEIGHTS], loss; uint64_t state; };

static double draw(struct learner *l)
{
	l->state = l->state * 6364136223846793005u + 1442695040888963407u;
	return (double)(l->state >> 11) / 9007199254740992.0 - 0.5;
}

static void learn(struct learner *l)
{
	double x[WEIGHTS];
	for (int sample = 0; sample < 64; sample++) {
		double error = 0.1 * draw(l);
		for (int i = 0; i < WEIGHTS; i++) {
			x[i] = draw(l);
			error += (l->weight[i] - i % 7) * x[i];
		}
		for (int i = 0; i < WEIGHTS; i++)
			l->weight[i] -= 0.002 * error * x[i];
		l->loss += (error * error - l->loss) / 256;
	}
}

static long steps(const struct simtask_run *r, double work_s)
{
	return lround(fmin(work_s, r->o.seconds) * STEPS_PER_S);
}

static double elapsed_s(const struct simtask_run *r)
{
	return (double)(clock_mono_ms() - r->start_ms) / 1000;
}

/* As tqdm draws it. */
static void print_bar(const char *title, long done, long total, double rate)
{
	char bar[11] = "          ";
	memset(bar, '#', (size_t)(10 * done / total));
	printf("\r%s%3ld%%|%s| %ld/%ld [00:00<00:00, %.2fit/s]", title, 100 * done / total, bar, done, total, rate);
}

#define EPOCHS 5

static void print_steps(const struct simtask_run *r, long done, long total, double loss, double rate)
{
	char title[32];
	long epoch = total / EPOCHS ? total / EPOCHS : 1, k = done / epoch < EPOCHS ? done / epoch : EPOCHS - 1;
	switch (r->o.says) {
	case SAYS_STEPS:
		printf("step %ld/%ld  loss %.4f  %.1f steps/s  %llu MiB\n", done, total, loss, rate,
		       (unsigned long long)r->targets[0].held_mib);
		break;
	case SAYS_BAR:
		print_bar("", done, total, rate);
		break;
	case SAYS_EPOCHS:
		snprintf(title, sizeof title, "Epoch %ld/%d: ", k + 1, EPOCHS);
		print_bar(title, done - k * epoch < epoch ? done - k * epoch : epoch, epoch, rate);
		break;
	case SAYS_LIES:
		printf("step %ld/%ld\n", done / STEPS_PER_S % 2 ? total - done : done, total);
		break;
	}
}

static void print_progress(struct simtask_run *r, const struct learner *l)
{
	double now_s = elapsed_s(r), span_s = now_s - r->printed_s;
	double rate = span_s > 0 ? (r->work_s - r->printed_work_s) * STEPS_PER_S / span_s : 0;
	long total = steps(r, r->o.seconds);
	print_steps(r, steps(r, r->work_s), total ? total : 1, l->loss, rate);	/* one that is over at once has part of a step */
	fflush(stdout);
	r->printed_s = now_s;
	r->printed_work_s = r->work_s;
}

/* The slowest of its devices sets the pace. 0: no longer on one; negative: ended by another's fault. */
static double speed_now(const struct simtask_run *r)
{
	double slowest = 1;
	for (size_t i = 0; i < r->n; i++)
		slowest = fmin(slowest, simdev_speed(r->devices, r->targets[i].gpu.uuid));
	return slowest;
}

/* 0, or the exit code of what its options ordered to happen by now. */
static int misfortunes(const struct simtask_run *r)
{
	const struct options *o = &r->o;
	if (r->work_s >= o->mps_fault_at_s) {
		for (size_t i = 0; i < r->n; i++)
			simdev_fault(r->devices, r->targets[i].gpu.uuid);
		print_traceback("loss.backward()");
		fputs("RuntimeError: CUDA error: an illegal memory access was encountered\n", stderr);
		return 1;
	}
	if (r->work_s >= o->host_oom_at_s) {
		print_traceback("batch = torch.stack(samples)");
		fputs("RuntimeError: [enforce fail at alloc_cpu.cpp:1] . DefaultCPUAllocator: can't allocate memory: you tried "
		      "to allocate 68719476736 bytes. Error code 12 (Cannot allocate memory)\n", stderr);
		return 1;
	}
	if (r->work_s >= o->crash_at_s) {
		print_traceback("model.load_state_dict(state)");
		fputs("ValueError: a failure that --crash-at asked for\n", stderr);
		return (int)o->exit_code;
	}
	return 0;
}

/* Waits for the next tick. False when SIGTERM came. */
static bool wait_tick(const sigset_t *terms)
{
	const struct timespec tick = { .tv_nsec = TICK_MS * 1000000L };
	return sigtimedwait(terms, NULL, &tick) < 0;
}

static volatile sig_atomic_t asked;

static void on_usr1(int signal)
{
	asked = signal;
}

/* Goes on where the run before it stopped, and listens from now on. */
static void load_checkpoint(struct simtask_run *r)
{
	scoped_buf text = { 0 };
	if (!r->o.checkpoint)
		return;
	if (!io_read_file(r->o.checkpoint, 100, &text, NULL)) {
		r->work_s = fmin(fmax(strtod(buf_text(&text), NULL), 0), r->o.seconds);
		printf("checkpoint: goes on at step %ld/%ld\n", steps(r, r->work_s), steps(r, r->o.seconds));
		fflush(stdout);
	}
	r->printed_work_s = r->work_s;
	sigaction(SIGUSR1, &(struct sigaction){ .sa_handler = on_usr1 }, NULL);
}

/* Whole or not at all, as every checkpoint should be. */
static int save_checkpoint(const struct simtask_run *r)
{
	scoped_free char *draft = alloc_printf("%s.new", r->o.checkpoint);
	FILE *f = fopen(draft, "we");
	bool bad = !f || fprintf(f, "%.3f\n", r->work_s) < 0;
	if ((f && fclose(f)) || bad || rename(draft, r->o.checkpoint)) {
		fprintf(stderr, "checkpoint: %s: cannot be written\n", r->o.checkpoint);
		return 1;
	}
	printf("checkpoint: saved at step %ld/%ld\n", steps(r, r->work_s), steps(r, r->o.seconds));
	return SPEC_REQUEUE_CODE;
}

static int lost_device(double speed)
{
	print_traceback("loss.backward()");
	fputs(speed < 0 ? "RuntimeError: CUDA error: the MPS client has been terminated by the server\n"
			: "RuntimeError: CUDA error: no CUDA-capable device is detected\n", stderr);
	return 1;
}

static int train(struct simtask_run *r)
{
	struct learner l = { .loss = 100 };
	sigset_t terms;
	sigemptyset(&terms);
	sigaddset(&terms, SIGTERM);
	sigprocmask(SIG_BLOCK, &terms, NULL);
	r->start_ms = clock_mono_ms();
	load_checkpoint(r);
	int code = take_memory(r);
	for (int64_t last_ms = r->start_ms; !code && r->work_s < r->o.seconds; ) {
		if (!wait_tick(&terms)) {
			printf("SIGTERM: stopped at step %ld/%ld; no checkpoint was saved\n", steps(r, r->work_s),
			       steps(r, r->o.seconds));
			return 143;
		}
		if (asked)
			return save_checkpoint(r);
		int64_t now_ms = clock_mono_ms();
		double speed = speed_now(r);
		if (speed <= 0)
			return lost_device(speed);
		r->work_s += speed * fmin((double)(now_ms - last_ms) / 1000, STALLED_S);
		last_ms = now_ms;
		learn(&l);
		code = take_memory(r);
		if (!code)
			code = misfortunes(r);
		if (!code && elapsed_s(r) - r->printed_s >= r->o.print_every_s)
			print_progress(r, &l);
	}
	if (!code)
		printf("done: %ld steps in %.1f s, %.1f steps/s, loss %.4f\n", steps(r, r->o.seconds), elapsed_s(r),
		       (double)steps(r, r->o.seconds) / fmax(elapsed_s(r), 0.001), l.loss);
	return code;
}

static void leave(struct simtask_run *r)
{
	for (size_t i = 0; r->devices && i < r->n; i++)
		simdev_leave(r->devices, r->targets[i].gpu.uuid);
	simdev_close(r->devices);
	free(r->targets);
}

int simtask_main(struct cli_call *c)
{
	struct simtask_run r = { 0 };
	struct error err = ERROR_INIT;
	if (!cli_options(c, table))
		return c->rc;
	if (read_options(c, &r.o, &err))
		return cli_usage(c, "%s", err.text);
	if (join_devices(&r, &err)) {
		cli_note("simtask: %s", err.text);
		leave(&r);
		return 1;
	}
	for (size_t i = 0; i < r.n; i++)
		printf("GPU %zu: %s (%s)\n", i, r.targets[i].gpu.name, r.targets[i].gpu.uuid);
	fflush(stdout);
	int code = train(&r);
	fflush(stdout);
	leave(&r);
	return code;
}
