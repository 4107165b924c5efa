/* SPDX-License-Identifier: MIT
 * From "placed" to a shim that runs: see starting.h. The three waits stand in this order since each may take a minute: a
 * prolog prepares what the next moment needs, and the server may be gone again when it ends, so it is asked for once more.
 */
#include "daemon/starting.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "daemon/hooks.h"
#include "daemon/launching.h"
#include "daemon/servers.h"
#include "launch/adopted.h"
#include "launch/stay.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define MPS_WAIT_MS 60000	/* for a server to come up, or a former one to leave */

struct starting {
	const struct starting_plan *plan;
	const struct starting_ops *ops;
	void *ctx;
	task_id task;
	int64_t mps_since_ms;		/* mono; since when it waits for its server; 0: it does not */
	struct hook *prolog;		/* that runs */
	bool prepared;			/* the prolog is done */
	struct launching *launching;	/* that is under way */
};

struct starting *starting_create(const struct starting_plan *plan, const struct starting_ops *ops, void *ctx, task_id task)
{
	struct starting *s = alloc_zero(sizeof *s);
	*s = (struct starting){ .plan = plan, .ops = ops, .ctx = ctx, .task = task };
	return s;
}

void starting_destroy(struct starting *s)
{
	if (!s)
		return;
	launching_leave(s->launching);
	hooks_leave(s->prolog);
	free(s);
}

bool starting_waits(const struct starting *s)
{
	return s && s->mps_since_ms;
}

bool starting_is_launching(const struct starting *s)
{
	return s && s->launching;
}

static const struct task *task_of(const struct starting *s)
{
	return core_task(s->plan->core, s->task);
}

/* The launch ----------------------------------------------------------------------------------------------------------- */

/* By whose fault it failed: the task's own (INVALID) ends it, another shim's claim is followed, and what the machine is
 * short of is tried again (decision 96). */
static void on_launched(void *ctx, int rc, struct proc_id shim, const struct error *err)
{
	struct starting *s = ctx;
	s->launching = NULL;
	if (rc && err->code == ERR_CONFLICT)	/* a former radd started it */
		rc = launch_adopt(&s->plan->home, task_of(s), &shim) ? 0 : -1;
	if (!rc)
		s->ops->started(s->ctx, shim);
	else if (err->code == ERR_CONFLICT)
		s->ops->over(s->ctx);
	else if (err->code == ERR_INVALID)	/* the task's own */
		s->ops->failed(s->ctx, err->text);
	else if (task_of(s)->stopping)
		s->ops->failed(s->ctx, "it was stopped before it began");
	else
		s->ops->delayed(s->ctx, err->text);
}

/* GPUs by index where that means the same to the program as to its MPS server, else by UUID: a server that was started
 * before a GPU fell off the bus counts others than the driver does now. */
static struct launch_request request_of(const struct starting_plan *plan, const struct task *t,
					struct launch_gpu gpus[SPEC_MAX_GPUS])
{
	const struct attempt *a = task_attempt(t);
	struct core_gpu_ref refs[SPEC_MAX_GPUS];
	size_t n = core_task_gpus(plan->core, t->id, refs);
	const char *pipe = a->mode == SHARE_MPS ? servers_pipe_dir(plan->servers, t) : NULL;
	bool by_uuid = pipe && !servers_count_alike(plan->servers, t, refs, n);
	for (size_t i = 0; i < n; i++) {
		snprintf(gpus[i].uuid, sizeof gpus[i].uuid, "%s", refs[i].uuid);
		gpus[i].index = refs[i].index;
		gpus[i].by_uuid = by_uuid || refs[i].mig;
	}
	return (struct launch_request){
		.home = plan->home, .task = t, .gpus = gpus, .n_gpus = (unsigned)n,
		.fence_mib = a->fence_mib, .device = plan->device, .mps_pipe_dir = pipe,
		.socket_path = plan->socket_path,
	};
}

char **starting_environment(const struct starting_plan *plan, const struct task *t)
{
	struct launch_gpu gpus[SPEC_MAX_GPUS] = { 0 };
	struct launch_request q = request_of(plan, t, gpus);
	return launch_variables(&q);
}

/* Where the machine has one GPU alone, no number leads elsewhere, unless none was given. A GPU that this radd cannot see has a
 * number before or behind it: of the first kind this tells. */
static bool can_go_astray(const struct starting_plan *plan, const struct launch_request *q)
{
	return core_gpus_of_machine(plan->core) > 1 || !q->n_gpus || q->gpus[0].index;
}

/* NULL: none. Without it tasks start all the same, which is said once. */
static const char *library_for(const struct starting_plan *plan, const struct launch_request *q)
{
	struct starting_library *library = plan->library;
	if (!plan->config->stay_on_gpus || !can_go_astray(plan, q))
		return NULL;
	if (!library->looked) {
		struct error err = ERROR_INIT;
		library->looked = true;
		library->path = stay_find(&err);
		if (library->path && stay_check(library->path, !geteuid(), &err)) {
			free(library->path);
			library->path = NULL;
		}
		if (!library->path)
			log_warn("%s; tasks start without it, and those that set CUDA_VISIBLE_DEVICES themselves leave their GPUs "
				 "(stay_on_gpus)", err.text);
	}
	return library->path;
}

static void starting_launch(struct starting *s)
{
	struct launch_gpu gpus[SPEC_MAX_GPUS] = { 0 };
	struct launch_request q = request_of(s->plan, task_of(s), gpus);
	q.stay_library = library_for(s->plan, &q);
	if (adopted_is(q.task))		/* it is there */
		s->ops->started(s->ctx, spec_process(q.task->spec));
	else
		s->launching = launching_start(s->plan->launches, launch_prepare(&q), on_launched, s);
}

/* What comes before it -------------------------------------------------------------------------------------------------- */

static void wait_for_server(struct starting *s)
{
	int64_t now = clock_mono_ms();
	if (!s->mps_since_ms)
		s->mps_since_ms = now;
	if (now - s->mps_since_ms <= MPS_WAIT_MS) {
		s->ops->waits(s->ctx);
		return;
	}
	s->mps_since_ms = 0;
	s->ops->delayed(s->ctx, "its MPS server did not become ready within a minute: do its GPUs answer?");
}

static void on_prolog(void *ctx, const char *why)
{
	struct starting *s = ctx;
	s->prolog = NULL;
	s->prepared = !why;
	if (why)
		s->ops->delayed(s->ctx, why);
	else
		starting_begin(s);	/* its MPS server may have gone meanwhile */
}

/* A server that does not come up is the machine's trouble, and no task's fault. */
void starting_begin(struct starting *s)
{
	const struct task *t = task_of(s);
	const char *why = NULL;
	bool mps = task_attempt(t)->mode == SHARE_MPS;
	enum mps_state server = mps ? servers_want(s->plan->servers, s->plan->core, t, &why) : MPS_READY;
	if (server == MPS_STARTING) {
		wait_for_server(s);
		return;
	}
	s->mps_since_ms = 0;
	if (server != MPS_FAILED)
		why = hooks_hold_back(s->plan->hooks, t->spec->uid);
	if (why)
		s->ops->delayed(s->ctx, why);
	else if (s->prepared || !hooks_has_prolog(s->plan->hooks))
		starting_launch(s);
	else
		s->prolog = hooks_prolog(s->plan->hooks, t, on_prolog, s);
}
