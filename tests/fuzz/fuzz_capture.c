/* SPDX-License-Identifier: MIT
 * The reader of capture files, fed arbitrary bytes as they are and with the checksum put right, which random bytes never are.
 * What it accepts is consistent, and can be replayed within what was live and what was reserved.
 */
#include "estimate/activity.h"
#include "estimate/replay.h"
#include "tests/capture_write.h"

#include "base/scope.h"
#include "fuzz.h"

#include <math.h>

static void check_records(const struct capture *c)
{
	scoped_free bool *live = calloc(c->n_allocs + 1, sizeof *live);
	uint32_t next = 0;

	FUZZ_HOLDS(live != NULL);
	for (size_t i = 0; i < c->n_records; i++) {
		const struct capture_record *r = &c->records[i];

		if (r->kind == CAPTURE_ALLOC) {
			FUZZ_HOLDS(r->id == next && r->bytes > 0 && r->bytes <= CAPTURE_MAX_REQUEST);
			live[next++] = true;
		} else if (r->kind == CAPTURE_FREE) {
			FUZZ_HOLDS(r->id < next && live[r->id]);
			live[r->id] = false;
		} else if (r->kind == CAPTURE_CONV) {
			FUZZ_HOLDS(r->id < c->n_convs && c->convs[r->id].taps);
		}
	}
	FUZZ_HOLDS(next == c->n_allocs);
}

static void check_replay(const struct capture *c)
{
	struct replay_figures f;
	struct alloc_conf conf;
	struct error err;

	if (alloc_conf_parse(c->alloc_conf, alloc_torch_parse(c->torch), &conf, &err))
		conf = alloc_conf_default();
	if (replay_capture(c, &conf, &(struct replay_environment){ 0 }, replay_overheads(c->model), (uint64_t)1 << 37, &f, &err))
		return;
	FUZZ_HOLDS(f.allocated >= c->peak_live && f.comfort >= f.allocated);
	FUZZ_HOLDS(f.need >= c->peak_live && f.need < f.comfort + REPLAY_GRID);
}

/* Whatever it says of load: unknown, or figures in their bounds. */
static void check_load(const struct capture *c)
{
	struct activity a;
	struct error err;

	FUZZ_HOLDS(c->n_kernels <= CAPTURE_MAX_KERNELS);
	if (activity_from_capture(c, "NVIDIA H200", &a, &err)) {
		FUZZ_HOLDS(a.load.source == LOAD_UNKNOWN && err.text[0]);
		return;
	}
	FUZZ_HOLDS(a.step_s > 0 && isfinite(a.step_s) && a.load.load.gract >= 0 && a.load.load.gract <= 1);
	FUZZ_HOLDS(a.load.load.smact >= 0 && a.load.load.smact <= a.load.load.gract && a.load.dram >= 0 && a.load.dram <= 1);
	FUZZ_HOLDS(a.load.watts > 0 && a.load.watts <= 700);
}

static void check(const void *bytes, size_t size)
{
	scoped_capture c = { 0 };
	struct error err = ERROR_INIT;

	if (capture_read(bytes, size, &c, &err)) {
		FUZZ_HOLDS(!c.records && !c.convs && !c.kernels && err.code == ERR_INVALID && err.text[0] && !strchr(err.text, '\n'));
		return;
	}
	check_records(&c);
	check_load(&c);
	check_replay(&c);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	scoped_buf whole = { 0 };

	check(data, size);
	if (size > 4)
		buf_add(&whole, data, size - 4);
	if (whole.len)
		write_checksum(&whole);
	check(buf_text(&whole), whole.len);
	return 0;
}
