/* SPDX-License-Identifier: MIT
 * Building a task's environment: see environment.h. The user's comes first and ours is laid over it: a task must not claim
 * another's GPUs, memory or MPS server by what its user had exported. What names GPUs is the kind's to say (device.h), not
 * this file's.
 */
#include "launch/environment.h"

#include "base/alloc.h"
#include "base/buf.h"
#include "base/scope.h"
#include "device/device.h"
#include "launch/stay.h"

#include <stdarg.h>
#include <string.h>

struct environment_list { char **items; size_t n, cap; };

/* Whether an entry is that variable: "CUDA" is not the name of "CUDA_VISIBLE_DEVICES=". */
static bool is_named(const char *item, const char *name, size_t len)
{
	return !strncmp(item, name, len) && item[len] == '=';
}

const char *environment_get(char *const *env, const char *name)
{
	size_t len = strlen(name);
	for (; env && *env; env++)
		if (is_named(*env, name, len))
			return *env + len + 1;
	return NULL;
}

static void environment_add(struct environment_list *l, char *item)
{
	if (l->n + 1 >= l->cap) {
		l->cap = l->cap ? 2 * l->cap : 64;
		l->items = alloc_resize(l->items, l->cap, sizeof *l->items);
	}
	l->items[l->n++] = item;
	l->items[l->n] = NULL;
}

/* Takes every entry of that name out: an environment can hold one twice, and programs differ in which they believe. */
static void environment_unset(struct environment_list *l, const char *name)
{
	size_t len = strlen(name), kept = 0;
	for (size_t i = 0; i < l->n; i++) {
		if (is_named(l->items[i], name, len))
			free(l->items[i]);
		else
			l->items[kept++] = l->items[i];
	}
	l->n = kept;
	if (l->items)
		l->items[kept] = NULL;
}

static void environment_set(struct environment_list *l, const char *name, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

static void environment_set(struct environment_list *l, const char *name, const char *fmt, ...)
{
	scoped_buf item = { 0 };
	char value[512];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(value, sizeof value, fmt, ap);
	va_end(ap);
	environment_unset(l, name);
	buf_printf(&item, "%s=%s", name, value);
	environment_add(l, buf_steal(&item));
}

/* For values of any length. */
static void environment_set_text(struct environment_list *l, const char *name, const char *value)
{
	environment_unset(l, name);
	environment_add(l, alloc_printf("%s=%s", name, value));
}

/* The GPUs of a task, as its programs are told of them.
 *  - Whole GPUs: the machine's indices in PCI order, which scripts and launchers parse as numbers.
 *  - By UUID where an index would not do: MIG instances have none, and an MPS client counts as its server does, which may
 *    see fewer GPUs. */
static char *gpu_names(const struct launch_request *r)
{
	scoped_buf list = { 0 };
	for (unsigned i = 0; i < r->n_gpus; i++) {
		const struct launch_gpu *gpu = &r->gpus[i];
		if (gpu->by_uuid)
			buf_printf(&list, "%s%s", i ? "," : "", gpu->uuid);
		else
			buf_printf(&list, "%s%u", i ? "," : "", gpu->index);
	}
	return buf_steal(&list);
}

/* What the kind of device has its tasks told. */
static void set_gpus(struct environment_list *l, const struct launch_request *r)
{
	scoped_free char *names = gpu_names(r);
	scoped_buf uuids = { 0 };
	for (unsigned i = 0; i < r->n_gpus; i++)
		buf_printf(&uuids, "%s%s", i ? "," : "", r->gpus[i].uuid);
	environment_set_text(l, "RAD_GPU_UUIDS", buf_text(&uuids));
	environment_set_text(l, "RAD_VISIBLE_DEVICES", names);
	for (const struct device_variable *v = device_kind(r->device)->variables; v->name; v++) {
		const char *value = v->says == DEVICE_SAYS_GPUS ? names : v->says == DEVICE_SAYS_FILE ? device_file(r->device) : v->text;
		if (value)
			environment_set_text(l, v->name, value);
	}
}

static void unset_twin(struct environment_list *l, const char *name, const char *twin)
{
	const char *a = environment_get(l->items, name), *b = environment_get(l->items, twin);
	if (!a || !b || strcmp(a, b))
		return;
	environment_unset(l, name);
	environment_unset(l, twin);
}

/* Submitted from inside a task: what that one was given, as a pair, is no word of the user's. The port is in use there. */
static void unset_outer(struct environment_list *l)
{
	if (!environment_get(l->items, "RAD_TASK_ID"))
		return;
	unset_twin(l, "MASTER_PORT", "PET_MASTER_PORT");
	unset_twin(l, "OMP_NUM_THREADS", "RAD_CPUS");
}

/* What must not come from the user: it would be believed about this attempt. So would what names the GPUs of any kind. */
static void unset_ours(struct environment_list *l)
{
	static const char *const ours[] = {
		"RAD_GPU_MEM_MIB", "RAD_CPUS", "RAD_TASK_TOKEN", "RAD_ARRAY_TASK_ID", "RAD_ARRAY_JOB_ID", "CUDA_MPS_PIPE_DIRECTORY",
		"CUDA_MPS_LOG_DIRECTORY", "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT",
	};
	for (size_t i = 0; i < COUNT_OF(ours); i++)
		environment_unset(l, ours[i]);
	for (const struct device_kind *const *k = device_kinds; *k; k++)
		for (const struct device_variable *v = (*k)->variables; v->name; v++)
			environment_unset(l, v->name);
}

static void set_preload(struct environment_list *l, const struct launch_request *r)
{
	scoped_free char *all = stay_preload(environment_get(l->items, "LD_PRELOAD"), r->stay_library);
	environment_unset(l, "LD_PRELOAD");
	if (all)
		environment_set_text(l, "LD_PRELOAD", all);
}

static void set_task(struct environment_list *l, const struct launch_request *r)
{
	const struct task *t = r->task;
	const struct attempt *attempt = task_attempt(t);
	char id[TASK_ID_TEXT];
	environment_set(l, "RAD_TASK_ID", "%s", task_id_text(t->id, id));
	environment_set(l, "RAD_ATTEMPT", "%u", t->n_attempts);
	if (attempt && attempt->claim_mib)
		environment_set(l, "RAD_GPU_MEM_MIB", "%llu", (unsigned long long)attempt->claim_mib);
	if (TASK_INDEX(t->id) >= 0) {
		environment_set(l, "RAD_ARRAY_TASK_ID", "%d", TASK_INDEX(t->id));
		environment_set(l, "RAD_ARRAY_JOB_ID", "%u", TASK_JOB(t->id));
	}
	unsigned cpus = task_cpus(t);
	if (cpus)
		environment_set(l, "RAD_CPUS", "%u", cpus);
	if (cpus && !environment_get(l->items, "OMP_NUM_THREADS"))	/* else every library takes all there are */
		environment_set(l, "OMP_NUM_THREADS", "%u", cpus);
	if (t->spec->feed)
		environment_set_text(l, "RAD_FEED", t->spec->feed);
	environment_set(l, "RAD_REQUEUE_CODE", "%d", t->spec->requeue_code ? t->spec->requeue_code : SPEC_REQUEUE_CODE);
	if (r->socket_path)
		environment_set_text(l, "RAD_SOCKET", r->socket_path);
}

/* The limit's keys count the task's own GPUs, in the order in which it sees them. */
static void set_mps(struct environment_list *l, const struct environment_input *in)
{
	const struct launch_request *r = in->request;
	scoped_buf limits = { 0 };
	if (device_kind(r->device)->mps == DEVICE_MPS_NONE)	/* no such variable means anything there */
		return;
	environment_set_text(l, "CUDA_MPS_PIPE_DIRECTORY", r->mps_pipe_dir ? r->mps_pipe_dir : in->no_mps_dir);
	if (!r->mps_pipe_dir || !r->fence_mib)
		return;
	for (unsigned i = 0; i < r->n_gpus; i++)
		buf_printf(&limits, "%s%u=%lluM", i ? "," : "", i, (unsigned long long)r->fence_mib);
	environment_set_text(l, "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", buf_text(&limits));
}

/* JAX and TensorFlow take nearly the whole GPU at their start unless told not to: nobody could share with them. */
static void set_no_preallocation(struct environment_list *l, const struct task *t)
{
	const struct attempt *attempt = task_attempt(t);
	if (!attempt || (attempt->mode != SHARE_STREAMS && attempt->mode != SHARE_MPS))
		return;
	if (!environment_get(l->items, "XLA_PYTHON_CLIENT_PREALLOCATE"))
		environment_set(l, "XLA_PYTHON_CLIENT_PREALLOCATE", "false");
	if (!environment_get(l->items, "TF_FORCE_GPU_ALLOW_GROWTH"))
		environment_set(l, "TF_FORCE_GPU_ALLOW_GROWTH", "true");
}

bool environment_is_of_step(const char *variable)
{
	static const char *const prefixes[] = { "SLURM_", "SLURMD_", "SRUN_", "PMI_FD=", "PMI_JOBID=", "PMI_RANK=", "PMI_SIZE=",
		"PMIX_NAMESPACE=", "PMIX_RANK=", "PMIX_SERVER_", "SUBMITIT_EXECUTOR=slurm" };
	for (size_t i = 0; i < COUNT_OF(prefixes); i++)
		if (!strncmp(variable, prefixes[i], strlen(prefixes[i])))
			return true;
	return false;
}

char **launch_environment(const struct environment_input *in)
{
	const struct task *t = in->request->task;
	struct environment_list l = { 0 };
	/* rad leaves them out already; whoever else speaks to radd need not know of them. */
	for (char **item = t->spec->environ; item && *item; item++)
		if (strchr(*item, '=') && !environment_is_of_step(*item))
			environment_add(&l, alloc_string(*item));
	unset_outer(&l);
	unset_ours(&l);
	set_gpus(&l, in->request);
	set_preload(&l, in->request);
	set_task(&l, in->request);
	if (in->token)
		environment_set(&l, "RAD_TASK_TOKEN", "%s", in->token);
	set_mps(&l, in);
	set_no_preallocation(&l, t);
	/* Python buffers what does not go to a terminal, and then `rad logs -f` shows nothing for minutes. */
	if (!environment_get(l.items, "PYTHONUNBUFFERED"))
		environment_set(&l, "PYTHONUNBUFFERED", "1");
	/* Launchers have one default for all, 29500, at which the second task on a machine fails. torchrun reads the second name.
	 * Tasks that are to meet have a port that their user chose. */
	if (in->master_port && !environment_get(l.items, "MASTER_PORT") && !environment_get(l.items, "PET_MASTER_PORT")) {
		environment_set(&l, "MASTER_PORT", "%u", in->master_port);
		environment_set(&l, "PET_MASTER_PORT", "%u", in->master_port);
	}
	return l.items;
}
