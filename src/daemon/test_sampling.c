/* SPDX-License-Identifier: MIT
 * The sampler process in the loop: readings come, one that ends is started again, and nothing else in the loop notices. The
 * test is its own sampler: the folder of its devices is a pipe, and what is written there is what it does.
 */
#include "daemon/sampling.h"

#include "base/alloc.h"
#include "base/buf.h"
#include "base/io.h"
#include "base/scope.h"
#include "daemon/polling.h"
#include "device/device.h"
#include "monitor/monitor.h"
#include "monitor/sampler.h"

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define PATIENCE_MS 20000

/* The sampler: 'r' on its pipe is a reading, anything else its end. */
static int sampler(const char *pipe_path)
{
	scoped_fd int orders = open(pipe_path, O_RDWR);
	struct snapshot none = { .mono_ms = 1, .wall_ms = 1 };
	char order;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	while (orders >= 0 && read(orders, &order, 1) == 1 && order == 'r') {
		scoped_buf frame = { 0 };
		monitor_frame_write(&none, &frame);
		if (io_write_full(SAMPLER_FD, frame.data, frame.len))
			return 1;
	}
	return 0;
}

struct world {
	uv_loop_t loop;
	uv_timer_t patience;
	char dir[32], *pipe_path;
	int orders;
	struct sampling *sampling;
	struct sampling_plan plan;
	struct device *device;
	unsigned readings, heard;
};

static void out_of_patience(uv_timer_t *t)
{
	(void)t;
	fail_msg("nothing came in 20 s");
}

static void on_reading(void *ctx, const struct snapshot *snap)
{
	(void)snap;
	((struct world *)ctx)->readings++;
}

static void set_up(struct world *w)
{
	*w = (struct world){ .dir = "/tmp/rad-sampling.XXXXXX" };
	assert_non_null(mkdtemp(w->dir));
	w->pipe_path = alloc_printf("%s/orders", w->dir);
	assert_int_equal(mkfifo(w->pipe_path, 0600), 0);
	w->orders = open(w->pipe_path, O_RDWR | O_CLOEXEC);
	assert_true(w->orders >= 0);
	uv_loop_init(&w->loop);
	uv_timer_init(&w->loop, &w->patience);
	uv_timer_start(&w->patience, out_of_patience, PATIENCE_MS, 0);
	w->device = device_create("nvml", w->pipe_path, NULL);
	w->plan = (struct sampling_plan){ .program = "/proc/self/exe", .device = w->device, .interval_ms = 100,
					  .first_ms = PATIENCE_MS };
}

static void order(struct world *w, const char *what)
{
	assert_int_equal(io_write_full(w->orders, what, strlen(what)), 0);
}

static void begin(struct world *w)
{
	struct error err = ERROR_INIT;
	order(w, "r");
	w->sampling = sampling_create(&w->loop, &w->plan, on_reading, w, &err);
	if (!w->sampling)
		fail_msg("%s", err.text);
}

static void tear_down(struct world *w)
{
	sampling_destroy(w->sampling);
	uv_close((uv_handle_t *)&w->patience, NULL);
	while (uv_run(&w->loop, UV_RUN_NOWAIT))
		;
	assert_int_equal(uv_loop_close(&w->loop), 0);
	close(w->orders);
	unlink(w->pipe_path);
	rmdir(w->dir);
	free(w->pipe_path);
	device_destroy(w->device);
}

static void wait_readings(struct world *w, unsigned n)
{
	while (w->readings < n)
		uv_run(&w->loop, UV_RUN_ONCE);
}

static void readings_come_and_go_on_after_a_restart(void **state)
{
	struct world w;
	(void)state;
	set_up(&w);
	begin(&w);
	assert_int_equal(w.readings, 1);	/* the first was waited for */
	assert_true(sampling_age_ms(w.sampling) >= 0);
	order(&w, "rr");
	wait_readings(&w, 3);
	assert_int_equal(sampling_restarts(w.sampling), 0);
	order(&w, "xr");
	wait_readings(&w, 4);
	assert_int_equal(sampling_restarts(w.sampling), 1);
	tear_down(&w);
}

static void one_that_ends_at_once_is_an_error(void **state)
{
	struct world w;
	struct error err = ERROR_INIT;
	(void)state;
	set_up(&w);
	order(&w, "x");
	assert_null(sampling_create(&w.loop, &w.plan, on_reading, &w, &err));
	assert_int_equal(err.code, ERR_UNAVAILABLE);
	tear_down(&w);
}

static void one_that_hangs_from_the_beginning_is_none(void **state)
{
	struct world w;
	struct error err = ERROR_INIT;
	(void)state;
	set_up(&w);
	w.plan.first_ms = 1;
	w.sampling = sampling_create(&w.loop, &w.plan, on_reading, &w, &err);
	assert_non_null(w.sampling);
	assert_int_equal(sampling_age_ms(w.sampling), -1);
	order(&w, "r");
	wait_readings(&w, 1);
	tear_down(&w);
}

static void on_heard(void *ctx)
{
	((struct world *)ctx)->heard++;
}

/* In the pause before the next start another part of radd gets the number of the pipe: a client, the pidfd of a shim. Its
 * events were lost when the handle of the old pipe was closed only then. */
static void a_descriptor_opened_in_the_pause_is_heard(void **state)
{
	struct world w;
	(void)state;
	set_up(&w);
	int number = dup(w.orders);	/* the lowest free one, which the pipe will have */
	close(number);
	begin(&w);
	order(&w, "x");
	while (!sampling_restarts(w.sampling))
		uv_run(&w.loop, UV_RUN_ONCE);
	int ends[2];
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	assert_int_equal(ends[0], number);
	struct polling *other = polling_start(&w.loop, ends[0], on_heard, &w, NULL);
	assert_non_null(other);
	uv_run(&w.loop, UV_RUN_NOWAIT);	/* the kernel is told of it */
	order(&w, "r");
	wait_readings(&w, 2);		/* the next sampler runs */
	assert_int_equal(write(ends[1], "!", 1), 1);
	while (!w.heard)
		uv_run(&w.loop, UV_RUN_ONCE);
	polling_stop(other);
	close(ends[0]);
	close(ends[1]);
	tear_down(&w);
}

int main(int argc, char **argv)
{
	if (argc == 6 && !strcmp(argv[1], "--sampler"))
		return sampler(argv[3]);
	const struct CMUnitTest tests[] = {
#define T(f) cmocka_unit_test(f)
		T(readings_come_and_go_on_after_a_restart), T(one_that_ends_at_once_is_an_error),
		T(one_that_hangs_from_the_beginning_is_none), T(a_descriptor_opened_in_the_pause_is_heard),
#undef T
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
