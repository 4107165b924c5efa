/* SPDX-License-Identifier: MIT
 * MPS of a bench: see bench_mps.h. Started and stopped as radd does it (launch/mps.h).
 */
#include "cli/bench_mps.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/io.h"
#include "launch/mps.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define TICK_MS 50
#define STOP_MS 15000

struct bench_mps {
	char folder[32];	/* short: sockets lie in it */
	char *none;		/* a folder in it where no server is */
	struct mps_server *server;
	const char *file;	/* of simulated devices: needs no server */
};

struct bench_mps *bench_mps_create(struct error *err)
{
	struct bench_mps *m = alloc_zero(sizeof *m);
	strcpy(m->folder, "/tmp/rad-bench.XXXXXX");
	if (!mkdtemp(m->folder)) {
		error_errno(err, "%s", m->folder);
		free(m);
		return NULL;
	}
	m->none = alloc_printf("%s/none", m->folder);
	if (!mkdir(m->none, 0700))
		return m;
	error_errno(err, "%s", m->none);
	bench_mps_destroy(m);
	return NULL;
}

void bench_mps_destroy(struct bench_mps *m)
{
	if (!m)
		return;
	bench_mps_end(m);
	io_remove_tree(m->folder);
	free(m->none);
	free(m);
}

bool bench_mps_available(const struct bench_gpu *g)
{
	return mps_available(bench_gpu_kind(g));
}

int bench_mps_begin(struct bench_mps *m, const struct bench_gpu *g, const volatile sig_atomic_t *stop, struct error *err)
{
	enum mps_state state = MPS_STARTING;
	if (!bench_mps_available(g))
		return error_set(err, ERR_UNAVAILABLE, "there is no " MPS_CONTROL " in PATH; it comes with the driver");
	m->file = bench_gpu_file(g);
	if (m->file)
		return 0;
	m->server = mps_start(m->folder, bench_gpu_uuid(g, 0), getuid(), getgid(), NULL, err);
	while (m->server && !*stop && (state = mps_poll(m->server)) == MPS_STARTING)
		poll(NULL, 0, TICK_MS);
	if (!m->server || state == MPS_READY || *stop)
		return m->server ? 0 : -1;
	bench_mps_end(m);
	return error_set(err, ERR_UNAVAILABLE, "the MPS control daemon does not come up: see rad doctor");
}

void bench_mps_end(struct bench_mps *m)
{
	m->file = NULL;
	if (!m->server)
		return;
	mps_stop(m->server);
	for (int64_t until = clock_mono_ms() + STOP_MS; proc_alive(mps_control(m->server)) && clock_mono_ms() < until;)
		poll(NULL, 0, TICK_MS);
	mps_release(m->server);
	m->server = NULL;
}

const char *bench_mps_pipe(const struct bench_mps *m)
{
	return m->file ? m->file : m->server ? mps_pipe_dir(m->server) : m->none;
}
