/* SPDX-License-Identifier: MIT
 * The environment a task sees, and the form in which it reaches the shim.
 */
#include "launch/environment.h"

#include "base/alloc.h"
#include "base/scope.h"
#include "device/device.h"
#include "launch/request.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

static struct device *real, *simulated;

/* A task on GPUs 2 and 5, submitted with this environment. */
struct bench {
	struct spec spec;
	struct attempt attempt;
	struct task task;
	struct launch_gpu gpus[2];
	struct launch_request request;
	struct environment_input in;
};

static char *user_env[] = {
	(char *)"PATH=/usr/bin", (char *)"SLURM_JOB_ID=4", (char *)"SLURMD_NODENAME=n1",
	(char *)"SRUN_DEBUG=3", (char *)"PMI_FD=11", (char *)"SUBMITIT_EXECUTOR=slurm",
	(char *)"PMIX_RANK=0", (char *)"PMIX_MCA_gds=hash", (char *)"CUDA_VISIBLE_DEVICES=7",
	(char *)"RAD_GPU_MEM_MIB=1", (char *)"RAD_VISIBLE_DEVICES=7",
	(char *)"CUDA_DEVICE_ORDER=FASTEST_FIRST",
	(char *)"RAD_SIM_DEVICES=/tmp/evil", (char *)"CUDA_MPS_PIPE_DIRECTORY=/tmp/evil",
	(char *)"CUDA_MPS_PIPE_DIRECTORY=/tmp/twice", (char *)"no equals sign",
	(char *)"LD_PRELOAD=/old/libradstay.so:libjemalloc.so",
	(char *)"EMPTY=", (char *)"TF_FORCE_GPU_ALLOW_GROWTH=false", (char *)"PYTHONUNBUFFERED=", NULL,
};
static char *meets_others[] = { (char *)"MASTER_PORT=6000", NULL };
static char *meets_by_torchrun[] = { (char *)"PET_MASTER_PORT=6001", NULL };

static void fill(struct bench *b, task_id id)
{
	memset(b, 0, sizeof *b);
	b->spec.environ = user_env;
	b->spec.gpus = 2;
	b->attempt = (struct attempt){ .mode = SHARE_STREAMS, .claim_mib = 12578 };
	b->task = (struct task){ .id = id, .spec = &b->spec, .gpus = 2, .attempts = &b->attempt, .n_attempts = 1 };
	b->gpus[0] = (struct launch_gpu){ .uuid = "GPU-a", .index = 2 };
	b->gpus[1] = (struct launch_gpu){ .uuid = "GPU-b", .index = 5 };
	b->request = (struct launch_request){ .task = &b->task, .gpus = b->gpus, .n_gpus = 2, .device = real,
					      .socket_path = "/run/rad/socket" };
	b->in = (struct environment_input){ .request = &b->request, .no_mps_dir = "/run/rad/no-mps" };
}

static void assert_var(char *const *env, const char *name, const char *expected)
{
	const char *value = environment_get(env, name);
	if (!expected)
		assert_null(value);
	else if (!value)
		fail_msg("%s is not set", name);
	else
		assert_string_equal(value, expected);
}

static size_t count(char *const *env, const char *prefix)
{
	size_t n = 0;
	for (; *env; env++)
		n += !strncmp(*env, prefix, strlen(prefix));
	return n;
}

static void test_two_gpus(void **state)
{
	(void)state;
	struct bench b;
	fill(&b, TASK_ID(12, -1));
	b.in.master_port = 40123;
	char **env = launch_environment(&b.in);
	assert_var(env, "PATH", "/usr/bin");
	assert_var(env, "EMPTY", "");
	assert_var(env, "CUDA_VISIBLE_DEVICES", "2,5");
	assert_var(env, "CUDA_DEVICE_ORDER", "PCI_BUS_ID");
	assert_var(env, "RAD_GPU_UUIDS", "GPU-a,GPU-b");
	assert_var(env, "RAD_VISIBLE_DEVICES", "2,5");
	assert_var(env, "LD_PRELOAD", "libjemalloc.so");
	assert_var(env, "RAD_TASK_ID", "12");
	assert_var(env, "RAD_ATTEMPT", "1");
	assert_var(env, "RAD_REQUEUE_CODE", "85");
	assert_var(env, "RAD_GPU_MEM_MIB", "12578");
	assert_var(env, "RAD_ARRAY_TASK_ID", NULL);
	assert_var(env, "RAD_SIM_DEVICES", NULL);
	assert_var(env, "RAD_SOCKET", "/run/rad/socket");
	assert_var(env, "MASTER_PORT", "40123");
	assert_var(env, "PET_MASTER_PORT", "40123");
	assert_var(env, "CUDA_MPS_PIPE_DIRECTORY", "/run/rad/no-mps");
	assert_var(env, "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", NULL);
	assert_int_equal(count(env, "SLURM"), 0);
	assert_int_equal(count(env, "SRUN_"), 0);
	assert_int_equal(count(env, "PMI_"), 0);
	assert_var(env, "PMIX_RANK", NULL);
	assert_var(env, "SUBMITIT_EXECUTOR", NULL);
	assert_var(env, "PMIX_MCA_gds", "hash");
	assert_int_equal(count(env, "CUDA_MPS_PIPE_DIRECTORY="), 1);
	assert_int_equal(count(env, "CUDA_VISIBLE_DEVICES="), 1);
	assert_int_equal(count(env, "no equals"), 0);
	alloc_free_list(env);
}

static void test_where_the_users_word_counts(void **state)
{
	(void)state;
	struct bench b;
	fill(&b, TASK_ID(12, -1));
	char **env = launch_environment(&b.in);
	assert_var(env, "XLA_PYTHON_CLIENT_PREALLOCATE", "false");
	assert_var(env, "TF_FORCE_GPU_ALLOW_GROWTH", "false");
	assert_var(env, "PYTHONUNBUFFERED", "");
	alloc_free_list(env);
	b.attempt.mode = SHARE_NEVER;
	env = launch_environment(&b.in);
	assert_var(env, "XLA_PYTHON_CLIENT_PREALLOCATE", NULL);
	assert_var(env, "MASTER_PORT", NULL);
	alloc_free_list(env);
	b.spec.environ = meets_others;
	b.in.master_port = 40123;
	env = launch_environment(&b.in);
	assert_var(env, "MASTER_PORT", "6000");
	assert_var(env, "PET_MASTER_PORT", NULL);
	alloc_free_list(env);
	b.spec.environ = meets_by_torchrun;
	env = launch_environment(&b.in);
	assert_var(env, "MASTER_PORT", NULL);
	assert_var(env, "PET_MASTER_PORT", "6001");
	alloc_free_list(env);
}

/* A sweep that runs as a task: each of what it submits would have its port, and its number of threads. */
static void test_submitted_inside_a_task(void **state)
{
	static char *inside[] = { (char *)"RAD_TASK_ID=7", (char *)"RAD_CPUS=2", (char *)"OMP_NUM_THREADS=2",
				  (char *)"MASTER_PORT=39001", (char *)"PET_MASTER_PORT=39001", NULL };
	static char *own[] = { (char *)"RAD_TASK_ID=7", (char *)"RAD_CPUS=2", (char *)"OMP_NUM_THREADS=6",
			       (char *)"MASTER_PORT=6000", (char *)"PET_MASTER_PORT=39001", NULL };
	(void)state;
	struct bench b;
	fill(&b, TASK_ID(12, -1));
	b.spec.cpus = 4;
	b.in.master_port = 40123;
	b.spec.environ = inside;
	char **env = launch_environment(&b.in);
	assert_var(env, "MASTER_PORT", "40123");
	assert_var(env, "PET_MASTER_PORT", "40123");
	assert_var(env, "OMP_NUM_THREADS", "4");
	alloc_free_list(env);
	b.spec.cpus = 0;
	env = launch_environment(&b.in);
	assert_var(env, "OMP_NUM_THREADS", NULL);
	alloc_free_list(env);
	b.task.gpus = 0;	/* counts as one CPU, and computes as one */
	env = launch_environment(&b.in);
	assert_var(env, "RAD_CPUS", "1");
	assert_var(env, "OMP_NUM_THREADS", "1");
	alloc_free_list(env);
	b.spec.environ = own;
	env = launch_environment(&b.in);
	assert_var(env, "MASTER_PORT", "6000");
	assert_var(env, "OMP_NUM_THREADS", "6");
	alloc_free_list(env);
}

static void test_mps(void **state)
{
	(void)state;
	struct bench b;
	fill(&b, TASK_ID(12, 3));
	b.attempt.mode = SHARE_MPS;
	b.request.n_gpus = 1;
	b.request.mps_pipe_dir = "/run/rad/mps/1000.0/pipe";
	b.request.fence_mib = 6000;
	b.request.device = simulated;
	char **env = launch_environment(&b.in);
	assert_var(env, "CUDA_VISIBLE_DEVICES", "2");
	assert_var(env, "CUDA_MPS_PIPE_DIRECTORY", "/run/rad/mps/1000.0/pipe");
	assert_var(env, "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", "0=6000M");
	assert_var(env, "RAD_TASK_ID", "12_3");
	assert_var(env, "RAD_ARRAY_TASK_ID", "3");
	assert_var(env, "RAD_ARRAY_JOB_ID", "12");
	assert_var(env, "RAD_SIM_DEVICES", "/run/rad/sim-devices");
	assert_var(env, "CUDA_DEVICE_ORDER", "PCI_BUS_ID");
	alloc_free_list(env);
	b.request.n_gpus = 2;
	b.gpus[0].by_uuid = b.gpus[1].by_uuid = true;
	b.request.stay_library = "/lib/libradstay.so";
	env = launch_environment(&b.in);
	assert_var(env, "CUDA_VISIBLE_DEVICES", "GPU-a,GPU-b");
	assert_var(env, "RAD_VISIBLE_DEVICES", "GPU-a,GPU-b");
	assert_var(env, "LD_PRELOAD", "libjemalloc.so:/lib/libradstay.so");
	assert_var(env, "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", "0=6000M,1=6000M");
	alloc_free_list(env);
	b.request.fence_mib = 0;
	env = launch_environment(&b.in);
	assert_var(env, "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", NULL);
	alloc_free_list(env);
}

static void test_mig_by_uuid(void **state)
{
	(void)state;
	struct bench b;
	fill(&b, TASK_ID(12, -1));
	b.request.n_gpus = 1;
	b.gpus[0] = (struct launch_gpu){ .uuid = "MIG-x", .by_uuid = true };
	b.attempt.claim_mib = 0;
	char **env = launch_environment(&b.in);
	assert_var(env, "CUDA_VISIBLE_DEVICES", "MIG-x");
	assert_var(env, "RAD_GPU_MEM_MIB", NULL);
	alloc_free_list(env);
}

static char *list_a[] = { (char *)"x=1\n", (char *)"", (char *)"\xff\xfe", NULL };
static char *list_env[] = { (char *)"A=b=c", (char *)"B=\n", NULL };

static void encode(struct buf *out)
{
	struct spec_rlimit limit = { .resource = 7, .soft = 1024, .hard = -1 };
	struct shim_request r = { .label = (char *)"12.1", .uid = 4294967294u, .gid = 0, .user = (char *)"ada",
			     .umask = 077, .cwd = (char *)"/a b",
			     .output = (char *)"log", .script = (char *)"echo 'x=y'\nend=1\n", .script_name = (char *)"a b.rad", .argv = list_a,
			     .environ = list_env, .rlimits = &limit, .n_rlimits = 1 };
	shim_request_encode(&r, out);
}

static void test_request_round_trip(void **state)
{
	(void)state;
	scoped_buf bytes = { 0 };
	encode(&bytes);
	struct shim_request *r = shim_request_decode(bytes.data, bytes.len, NULL);
	assert_non_null(r);
	assert_string_equal(r->label, "12.1");
	assert_int_equal(r->uid, 4294967294u);
	assert_string_equal(r->user, "ada");
	assert_int_equal(r->umask, 077);
	assert_string_equal(r->cwd, "/a b");
	assert_null(r->error);
	assert_null(r->conda_env);
	assert_string_equal(r->script, "echo 'x=y'\nend=1\n");
	assert_string_equal(r->script_name, "a b.rad");
	for (size_t i = 0; i < 3; i++)
		assert_string_equal(r->argv[i], list_a[i]);
	assert_null(r->argv[3]);
	assert_string_equal(r->environ[1], "B=\n");
	assert_int_equal(r->rlimits[0].hard, -1);
	shim_request_destroy(r);
}

/* Whatever is cut off, nothing is started from it. */
static void test_request_cut(void **state)
{
	(void)state;
	scoped_buf bytes = { 0 };
	encode(&bytes);
	for (size_t n = 0; n < bytes.len; n++) {
		struct error err = ERROR_INIT;
		scoped_free char *cut = alloc_zero(n + 1);
		memcpy(cut, bytes.data, n);
		struct shim_request *r = shim_request_decode(cut, n, &err);
		shim_request_destroy(r);
		assert_null(r);
		assert_int_equal(err.code, ERR_CORRUPT);
	}
}

static void test_request_incomplete(void **state)
{
	(void)state;
	static const char *const wrong[] = {
		"", "label=1", "label=1%cwd=/%output=o%gid=0%arg=x", "label=1%cwd=/%output=o%uid=0%gid=0",
		"label=1%cwd=/%output=o%uid=-1%gid=0%arg=x", "label=1%cwd=/%output=o%uid=0%gid=0%arg=x%new=1",
		"label=1%cwd=/%output=o%uid=0%gid=0%arg=x%rlimit=1",
	};
	for (size_t i = 0; i < COUNT_OF(wrong); i++) {
		scoped_buf bytes = { 0 };
		buf_printf(&bytes, "%s%%end=1%%", wrong[i]);
		for (size_t j = 0; j < bytes.len; j++)
			if (bytes.data[j] == '%')
				bytes.data[j] = 0;
		struct shim_request *r = shim_request_decode(bytes.data, bytes.len, NULL);
		assert_null(r);
	}
}

static int make_devices(void **state)
{
	(void)state;
	real = device_create("nvml", "/run/rad", NULL);
	simulated = device_create("sim:1xa100-40g", "/run/rad", NULL);
	return real && simulated ? 0 : -1;
}

static int drop_devices(void **state)
{
	(void)state;
	device_destroy(real);
	device_destroy(simulated);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_two_gpus), cmocka_unit_test(test_where_the_users_word_counts),
		cmocka_unit_test(test_submitted_inside_a_task), cmocka_unit_test(test_mps),
		cmocka_unit_test(test_mig_by_uuid), cmocka_unit_test(test_request_round_trip),
		cmocka_unit_test(test_request_cut), cmocka_unit_test(test_request_incomplete),
	};
	return cmocka_run_group_tests(tests, make_devices, drop_devices);
}
