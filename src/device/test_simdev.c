/* SPDX-License-Identifier: MIT
 * Simulated devices: specs and files, the shared file and what is refused, memory and speeds of real processes, and what
 * is left of the ones that die.
 */
#include "device/kinds.h"
#include "device/simdev.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/io.h"
#include "base/scope.h"
#include "share/power.h"
#include "share/share.h"

#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

static char dir[] = "/tmp/rad-simdev-XXXXXX";
static char path[64];

static int setup(void **state)
{
	(void)state;
	strcpy(dir, "/tmp/rad-simdev-XXXXXX");
	assert_non_null(mkdtemp(dir));
	snprintf(path, sizeof path, "%s/devices", dir);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	char yaml[80];
	snprintf(yaml, sizeof yaml, "%s.yaml", path);
	unlink(path);
	unlink(yaml);
	return rmdir(dir);
}

static struct simdev *open_devices(const char *spec)
{
	struct error err = ERROR_INIT;
	struct simdev *s = simdev_open(path, spec, &err);
	if (!s)
		fail_msg("%s", err.text);
	return s;
}

static void refuse_open(const char *spec, enum error_code code, const char *text)
{
	struct error err = ERROR_INIT;
	assert_null(simdev_open(path, spec, &err));
	assert_int_equal(err.code, code);
	if (!strstr(err.text, text) || !strstr(err.text, path))
		fail_msg("'%s' does not say '%s' of the file", err.text, text);
}

static struct snapshot look(struct simdev *s)
{
	struct snapshot snap = { 0 };
	struct error err = ERROR_INIT;
	if (simdev_snapshot(s, &snap, &err))
		fail_msg("%s", err.text);
	return snap;
}

/* A process on a device, ordered about through a pipe: "m MIB", "f"ault, "l"eave. It answers each with one byte. */
struct child { pid_t pid; int to, from; };

static void serve(const char *uuid, bool mps, double gract, double smact, int in, int out)
{
	char order[32];
	struct simdev *s = simdev_open(path, NULL, NULL);
	char answer = s && !simdev_join(s, uuid, gract, smact, mps, NULL) ? 'y' : 'n';
	while (write(out, &answer, 1) == 1 && read(in, order, sizeof order) == sizeof order) {
		if (*order == 'm')
			answer = simdev_set_memory(s, uuid, strtoull(order + 1, NULL, 10), NULL, NULL) ? 'n' : 'y';
		else if (*order == 'f')
			simdev_fault(s, uuid);
		else
			simdev_leave(s, uuid);
	}
	_exit(0);
}

static char answer_of(const struct child *c)
{
	char answer = 0;
	assert_int_equal(read(c->from, &answer, 1), 1);
	return answer;
}

static char tell(const struct child *c, const char *text)
{
	char order[32] = { 0 };
	strncpy(order, text, sizeof order - 1);
	assert_int_equal(write(c->to, order, sizeof order), sizeof order);
	return answer_of(c);
}

static struct child come(const char *uuid, bool mps, double gract, double smact)
{
	int to[2], from[2];
	assert_int_equal(pipe2(to, O_CLOEXEC) | pipe2(from, O_CLOEXEC), 0);
	struct child c = { fork(), to[1], from[0] };
	if (!c.pid) {
		alarm(30);
		close(to[1]);
		close(from[0]);
		serve(uuid, mps, gract, smact, to[0], from[1]);
	}
	close(to[0]);
	close(from[1]);
	assert_int_equal(answer_of(&c), 'y');
	return c;
}

static void end(const struct child *c)
{
	kill(c->pid, SIGKILL);
	assert_int_equal(waitpid(c->pid, NULL, 0), c->pid);
	close(c->to);
	close(c->from);
}

static void test_specs(void **state)
{
	(void)state;
	static const struct { const char *spec; size_t n; const char *last; } good[] = {
		{ "4xa100-40g", 4, "a100-40g" }, { "h200-141g", 1, "h200-141g" }, { "1024xv100-16g", 1024, "v100-16g" },
		{ "4xa100-40g,1xh200-141g", 5, "h200-141g" },
	};
	static const struct { const char *spec, *text; } bad[] = {
		{ "", "there are: a100-40g" }, { "4x", "no simulated device is called ''" }, { "4xa100", "'a100'; there are:" },
		{ "0xa100-40g", "from 1 to 131072" }, { "131073xa100-40g", "from 1 to 131072" }, { "4xa100-40g,", "''" },
		{ "131072xa100-40g,1xa100-40g", "more than 131072" }, { "-1xa100-40g", "'-1xa100-40g'" },
		{ "99999999999999999999xa100-40g", "from 1 to 131072" }, { "/nowhere/d.yaml", "/nowhere/d.yaml: No such file" },
	};
	for (size_t i = 0; i < COUNT_OF(good); i++) {
		scoped_free struct device_model *models = NULL;
		size_t n;
		assert_int_equal(simdev_parse(good[i].spec, &models, &n, NULL), 0);
		assert_int_equal(n, good[i].n);
		assert_string_equal(models[n - 1].name, good[i].last);
	}
	for (size_t i = 0; i < COUNT_OF(bad); i++) {
		struct device_model *models;
		size_t n;
		struct error err = ERROR_INIT;
		assert_int_equal(simdev_parse(bad[i].spec, &models, &n, &err), -1);
		if (!strstr(err.text, bad[i].text))
			fail_msg("'%s': '%s' does not say '%s'", bad[i].spec, err.text, bad[i].text);
	}
}

static void test_nodes(void **state)
{
	(void)state;
	static const struct { const char *spec; size_t nodes, n; uint32_t last; } good[] = {
		{ "4xa100-40g", 1, 4, 3 }, { "1x4xa100-40g", 1, 4, 3 }, { "2048x8xa100-40g", 2048, 16384, 16383 },
		{ "3x2xa100-40g,1xh200-141g", 3, 9, 8 }, { "16384x8xv100-16g", 16384, 131072, 131071 },
	};
	static const struct { const char *spec, *text; } bad[] = {
		{ "0x8xa100-40g", "'0x8xa100-40g': number of nodes: '0'" }, { "8x0xa100-40g", "number of devices: '0'" },
		{ "16385x8xa100-40g", "more than 131072" }, { "2x8x", "called ''" }, { "2x2x2xa100-40g", "called '2xa100-40g'" },
		{ "99999999999999999999x8xa100-40g", "number of nodes" }, { "x8xa100-40g", "'x8xa100-40g'" },
		{ "2x/nowhere/d.yaml", "/d.yaml" },
	};
	for (size_t i = 0; i < COUNT_OF(good); i++) {
		scoped_free struct device_model *models = NULL;
		size_t n, nodes;
		assert_int_equal(simdev_parse_nodes(good[i].spec, &models, &n, &nodes, NULL), 0);
		assert_true(n == good[i].n && nodes == good[i].nodes && models[n - 1].gpu == good[i].last);
		assert_string_equal(models[0].name, models[n / nodes * (nodes - 1)].name);
	}
	for (size_t i = 0; i < COUNT_OF(bad); i++) {
		struct device_model *models;
		size_t n, nodes;
		struct error err = ERROR_INIT;
		assert_int_equal(simdev_parse_nodes(bad[i].spec, &models, &n, &nodes, &err), -1);
		if (!strstr(err.text, bad[i].text))
			fail_msg("'%s': '%s' does not say '%s'", bad[i].spec, err.text, bad[i].text);
	}
}

static void test_more_than_a_file_has(void **state)
{
	(void)state;
	struct error err = ERROR_INIT;
	assert_null(simdev_open(path, "1025xv100-16g", &err));
	assert_non_null(strstr(err.text, "more than 1024 simulated devices: only rad simulate takes more"));
}

static void test_mig_instances(void **state)
{
	(void)state;
	scoped_free struct device_model *m = NULL;
	size_t n;
	assert_int_equal(simdev_parse("v100-16g,2xa100-40g/mig=3g.20gb+2g.10gb,h200-141g/mig=7g.141gb", &m, &n, NULL), 0);
	assert_int_equal(n, 6);
	static const uint32_t gpu[] = { 0, 1, 1, 2, 2, 3 };
	for (size_t i = 0; i < n; i++)
		assert_int_equal(m[i].gpu, gpu[i]);
	assert_true(!*m[0].profile && m[0].sm_part == 1 && m[5].sm_part == 1);
	assert_string_equal(m[1].profile, "3g.20gb");
	assert_string_equal(m[1].gpu_name, "NVIDIA A100-SXM4-40GB MIG 3g.20gb");
	assert_true(m[1].mem_total_mib == 20480 && m[1].sm_count == 42 && m[1].mem_reserved_mib == 300);
	assert_true(m[2].mem_total_mib == 10240 && m[2].sm_count == 28);
	/* Together never more than the board. */
	assert_true(m[1].idle_w + m[2].idle_w < 55.001 && m[1].peak_w + m[2].peak_w < 400);
	struct gpu_reading a = { 0 }, b = { 0 };
	simdev_identify(&m[3], 3, &a);
	simdev_identify(&m[4], 4, &b);
	assert_true(a.mig && !a.mps_capable && a.index == 2 && b.index == 2 && a.instance == 0 && b.instance == 1);
	assert_string_equal(a.parent_uuid, b.parent_uuid);
	assert_string_not_equal(a.uuid, b.uuid);
	assert_int_equal(strncmp(a.uuid, "MIG-", 4) | strncmp(a.parent_uuid, "GPU-", 4), 0);
	static const struct { const char *spec, *text; } bad[] = {
		{ "a100-40g/mig=", "no profile ''; it has: 1g.5gb 2g.10gb 3g.20gb 4g.20gb 7g.40gb" },
		{ "a100-40g/mig=3g.40gb", "no profile '3g.40gb'" }, { "v100-16g/mig=1g.5gb", "a simulated v100-16g has no profiles" },
		{ "a100-40g/mig=3g.20gb+3g.20gb+1g.5gb", "7 of 7 compute and 9 of 8 memory slices" },
		{ "a100-40g/mig=1g.5gb+1g.5gb+1g.5gb+1g.5gb+1g.5gb+1g.5gb+1g.5gb+1g.5gb", "8 of 7 compute" },
		{ "33000xa100-40g/mig=1g.5gb+1g.5gb+1g.5gb+1g.5gb", "more than 131072" }, { "a100-40g/gim=1g.5gb", "'a100-40g/gim=1g.5gb'" },
	};
	for (size_t i = 0; i < COUNT_OF(bad); i++) {
		struct device_model *none;
		struct error err = ERROR_INIT;
		assert_int_equal(simdev_parse(bad[i].spec, &none, &n, &err), -1);
		if (!strstr(err.text, bad[i].text))
			fail_msg("'%s': '%s' does not say '%s'", bad[i].spec, err.text, bad[i].text);
	}
}

static void test_built_in_models_are_sound(void **state)
{
	(void)state;
	size_t n = 0;
	for (const struct device_model *m = simdev_models; *m->name; m++, n++) {
		assert_true(m->mem_reserved_mib > 0 && m->mem_reserved_mib < m->mem_total_mib / 10);
		assert_true(m->sm_count > 0 && m->idle_w > 0 && m->idle_w < m->peak_w && *m->gpu_name);
	}
	assert_int_equal(n, 6);
}

static void test_yaml_files(void **state)
{
	(void)state;
	static const struct { const char *text, *error; } bad[] = {
		{ "", ":1: must hold one key" },
		{ "devices: []\n", ":1: must hold one key" },
		{ "devices: 4\n", "must hold one key" },
		{ "gpus:\n - model: a100-40g\n", "'devices:'" },
		{ "devices:\n - a100-40g\n", ":2: a device is a list of keys" },
		{ "devices:\n - count: 2\n", ":2: a device needs a model" },
		{ "devices:\n - model: a100-40g\n   cuont: 2\n", ":3: unknown key 'cuont'; a device has: model count" },
		{ "devices:\n - model: a100-40g\n   count: two\n", ":3: count: 'two' is not a whole number" },
		{ "devices:\n - model: a100-40g\n   count: [1]\n", ":3: count: must be one word or number" },
		{ "devices:\n - model: mine\n", ":2: 'mine' is no built-in model: say its memory" },
		{ "devices:\n - model: mine\n   memory: 1G\n   reserved: 2G\n", ":2: the driver cannot reserve 2048 MiB" },
		{ "devices:\n - model: mine\n   memory: 17T\n", ":3: memory: '17T' is more than 16T" },
		{ "devices:\n - model: a100-40g\n   idle_w: 900\n", ":2: idle_w 900 is above peak_w 400" },
		{ "devices:\n - model: h100-80g\n   sm_count: 123\n   mig: 3g.40gb+4g.40gb\n",
		  ":2: 'h100-80g' has sm_count 123, and the profiles of its mig have 124" },
		{ "devices:\n - model: a100-40g\n   gpu_name: \"a\\tb\"\n", ":3: gpu_name: control characters" },
		{ "devices:\n - model: a100-40g\n   count: 131072\n - model: v100-16g\n   count: 25\n", ":4: more than 131072" },
		{ "devices:\n - model: [\n", "is not YAML" },
		{ "devices:\n - &a [*a]\n", ":2: a device is a list" },
		{ "devices:\n - model: a100-40g\n   mig: 3g.20gb+9g.90gb\n", ":3: mig: MIG: a simulated a100-40g has no profile '9g" },
		{ "devices:\n - model: mine\n   memory: 8G\n   mig: 1g.5gb\n", ":4: mig: MIG: a simulated mine has no profiles" },
		{ "\x01\x02\x00\xff", "is not YAML" },
	};
	char file[80];
	scoped_free struct device_model *models = NULL;
	size_t n;
	struct error err = ERROR_INIT;
	snprintf(file, sizeof file, "%s.yaml", path);
	for (size_t i = 0; i < COUNT_OF(bad); i++) {
		assert_int_equal(io_replace_file(file, bad[i].text, strlen(bad[i].text), 0600, NULL), 0);
		assert_int_equal(simdev_parse(file, &models, &n, &err), -1);
		if (!strstr(err.text, bad[i].error) || strncmp(err.text, file, strlen(file)))
			fail_msg("file %zu: '%s' does not say '%s'", i, err.text, bad[i].error);
	}
	char example[512];
	snprintf(example, sizeof example, "%s/models/devices.example.yaml", getenv("RAD_SOURCE_ROOT"));
	if (simdev_parse(example, &models, &n, &err))
		fail_msg("%s", err.text);
	assert_int_equal(n, 4);
	assert_string_equal(models[1].gpu_name, "NVIDIA A100-SXM4-40GB");
	assert_int_equal(models[2].mem_total_mib, 143771);
	assert_int_equal(models[3].mem_total_mib, 24576);
	assert_int_equal(models[3].mem_reserved_mib, 400);
	assert_string_equal(models[3].gpu_name, "A workstation's GPU");
	assert_true(models[3].sm_count == 82 && models[3].idle_w == 20 && models[3].peak_w == 350);
}

/* In the file, and nothing else there. */
static void rename_device(const char *from, const char *to)
{
	scoped_buf text = { 0 };
	scoped_fd int fd = open(path, O_WRONLY);
	assert_int_equal(io_read_file(path, 1 << 20, &text, NULL), 0);
	const char *at = memmem(text.data, text.len, from, strlen(from));
	assert_true(at && strlen(from) == strlen(to));
	assert_int_equal(pwrite(fd, to, strlen(to), at - text.data), strlen(to));
}

static void test_empty_devices(void **state)
{
	(void)state;
	struct simdev *s = open_devices("2xa100-40g,1xh200-141g");
	struct snapshot snap = look(s);
	assert_int_equal(snap.n_gpus, 3);
	assert_int_equal(snap.n_procs, 0);
	const struct gpu_reading *g = &snap.gpus[2];
	assert_string_equal(g->name, "NVIDIA H200");
	assert_int_equal(g->index, 2);
	assert_int_equal(g->mem_total_mib, 143771);
	assert_int_equal(g->mem_used_mib, g->mem_reserved_mib);
	assert_true(g->gract == 0 && g->smact == 0 && g->power_w == 75 && !strcmp(g->smact_source, "sim") && g->mps_capable);
	assert_int_equal(g->valid & (GPU_SMOCC | GPU_DRAM | GPU_PCIE), 0);
	assert_true(g->valid & GPU_PROCS && g->valid & GPU_PROC_MEM && g->valid & GPU_SMACT && g->valid & GPU_ENERGY);
	assert_int_equal(strlen(g->uuid), 40);
	assert_memory_equal(g->uuid, "GPU-", 4);
	assert_memory_not_equal(snap.gpus[0].uuid, snap.gpus[1].uuid, 12);
	assert_memory_not_equal(snap.gpus[0].uuid, g->uuid, 12);
	simdev_close(s);
	/* The same after another opening, and in another file. */
	s = open_devices(NULL);
	struct snapshot again = look(s);
	assert_string_equal(again.gpus[2].uuid, g->uuid);
	snapshot_clear(&again);
	simdev_close(s);
	/* Made by a release that named them otherwise. */
	static const char older[] = "GPU-00000000-3a85-4000-8000-000000000000";
	rename_device(snap.gpus[0].uuid, older);
	s = open_devices("2xa100-40g,1xh200-141g");
	again = look(s);
	assert_string_equal(again.gpus[0].uuid, older);
	assert_string_equal(again.gpus[1].uuid, snap.gpus[1].uuid);
	assert_int_equal(simdev_join(s, older, 1, 1, false, NULL), 0);
	snapshot_clear(&snap);
	snapshot_clear(&again);
	simdev_close(s);
	simdev_close(NULL);
}

static void test_memory_is_bounded_and_comes_back(void **state)
{
	(void)state;
	struct simdev *s = open_devices("1xa100-40g");
	struct snapshot snap = look(s);
	char *uuid = snap.gpus[0].uuid;
	uint64_t capacity = snap.gpus[0].mem_total_mib - snap.gpus[0].mem_reserved_mib, free_mib;
	struct child a = come(uuid, false, .5, .3);
	assert_int_equal(tell(&a, "m 30000"), 'y');
	assert_int_equal(simdev_join(s, uuid, .5, .3, false, NULL), 0);
	assert_int_equal(simdev_set_memory(s, uuid, capacity - 30000 + 1, &free_mib, NULL), 1);
	assert_int_equal(free_mib, capacity - 30000);
	assert_int_equal(simdev_set_memory(s, uuid, capacity - 30000, &free_mib, NULL), 0);
	assert_int_equal(tell(&a, "m 30001"), 'n');
	assert_int_equal(tell(&a, "m 20000"), 'y');
	struct snapshot full = look(s);
	assert_int_equal(full.n_procs, 2);
	assert_int_equal(full.gpus[0].mem_used_mib, 40960 - 10000);
	for (uint32_t i = 0; i < 2; i++) {
		bool child = full.procs[i].id.pid == a.pid;
		assert_true(child || full.procs[i].id.pid == getpid());
		assert_int_equal(full.procs[i].mem_mib, child ? 20000 : capacity - 30000);
		assert_int_equal(full.procs[i].uid, geteuid());
		assert_true(proc_alive(full.procs[i].id));
	}
	/* Killed, not left: the memory is free as soon as the process is gone. */
	end(&a);
	assert_int_equal(simdev_set_memory(s, uuid, capacity, NULL, NULL), 0);
	simdev_leave(s, uuid);
	struct error err = ERROR_INIT;
	assert_int_equal(simdev_set_memory(s, uuid, 1, NULL, &err), -1);
	assert_non_null(strstr(err.text, "not on it"));
	assert_int_equal(simdev_join(s, "GPU-00000000-0000-4000-8000-000000000009", 1, 1, false, &err), -1);
	assert_int_equal(err.code, ERR_NOT_FOUND);
	assert_int_equal(simdev_join(s, "GPU-00000000-0000-4000-8000-000000000000", 1, 1, false, &err), -1);
	assert_int_equal(simdev_join(s, "nonsense", 1, 1, false, &err), -1);
	snapshot_clear(&snap);
	snapshot_clear(&full);
	simdev_close(s);
}

static void test_speeds_are_those_of_the_model(void **state)
{
	(void)state;
	struct simdev *s = open_devices("2xh200-141g");
	struct snapshot snap = look(s);
	char *uuid = snap.gpus[1].uuid;
	const struct share_task light_first[] = { { .3, .16 }, { .99, .95 } };
	const struct power_board h200 = { 75, 700, 0 };
	double want[2];
	assert_true(simdev_speed(s, uuid) == 0);
	for (int mps = 0; mps < 2; mps++) {
		simdev_join(s, uuid, .3, .16, mps, NULL);
		assert_true(simdev_speed(s, uuid) == 1);
		struct child heavy = come(uuid, mps, .99, .95);
		share_speeds(light_first, 2, mps ? SHARE_MPS : SHARE_STREAMS, want);
		assert_true(fabs(simdev_speed(s, uuid) - want[0]) < 1e-9);
		struct snapshot busy = look(s);
		const struct share_activity activity = share_activity(light_first, 2, want);
		assert_true(fabs(busy.gpus[1].smact - activity.smact) < 1e-9);
		assert_true(fabs(busy.gpus[1].gract - activity.gract) < 1e-9);
		assert_true(fabs(busy.gpus[1].power_w - power_watts(&h200, light_first, want, 2, NULL)) < 1e-6);
		assert_true(busy.gpus[0].smact == 0);
		snapshot_clear(&busy);
		end(&heavy);
		assert_true(simdev_speed(s, uuid) == 1);
	}
	/* One process that is no MPS client makes the GPU time-sliced, whoever came first. */
	share_speeds(light_first, 2, SHARE_STREAMS, want);
	for (int mps = 0; mps < 2; mps++) {
		simdev_join(s, uuid, .3, .16, mps, NULL);
		struct child heavy = come(uuid, !mps, .99, .95);
		assert_true(fabs(simdev_speed(s, uuid) - want[0]) < 1e-9);
		end(&heavy);
	}
	snapshot_clear(&snap);
	simdev_close(s);
}

static void test_energy_only_grows(void **state)
{
	(void)state;
	struct simdev *s = open_devices("1xh200-141g");
	struct snapshot snap = look(s);
	char *uuid = snap.gpus[0].uuid;
	simdev_join(s, uuid, 1, 1, false, NULL);
	int64_t asked_ms = clock_mono_ms();
	struct snapshot before = look(s), after;
	int64_t began_ms = clock_mono_ms();
	do
		after = look(s), snapshot_clear(&after);
	while (clock_mono_ms() < began_ms + 60);
	after = look(s);
	int64_t took_ms = clock_mono_ms() - asked_ms;
	double used_j = after.gpus[0].energy_j - before.gpus[0].energy_j;
	assert_true(used_j >= 700 * .058 && used_j <= 700 * (double)(took_ms + 2) / 1000);
	simdev_leave(s, uuid);
	struct snapshot idle = look(s);
	assert_true(idle.gpus[0].energy_j >= after.gpus[0].energy_j && idle.gpus[0].power_w == 75);
	snapshot_clear(&snap), snapshot_clear(&before), snapshot_clear(&after), snapshot_clear(&idle);
	simdev_close(s);
}

static void test_a_fault_ends_mps_clients_only(void **state)
{
	(void)state;
	struct simdev *s = open_devices("2xa100-40g");
	struct snapshot snap = look(s);
	char *uuid = snap.gpus[0].uuid, *other = snap.gpus[1].uuid;
	struct child guilty = come(uuid, true, .5, .3), bystander = come(uuid, false, .5, .3);
	simdev_join(s, uuid, .5, .3, true, NULL);
	simdev_join(s, other, .5, .3, true, NULL);
	tell(&bystander, "f");
	assert_true(simdev_speed(s, uuid) > 0);
	tell(&guilty, "f");
	assert_true(simdev_speed(s, uuid) < 0);
	assert_true(simdev_speed(s, other) == 1);
	struct snapshot now = look(s);
	assert_true(fabs(now.gpus[0].smact - .3) < 1e-9);
	snapshot_clear(&now), snapshot_clear(&snap);
	end(&guilty), end(&bystander);
	simdev_close(s);
}

static void test_full_of_processes(void **state)
{
	(void)state;
	struct simdev *s = open_devices("1xa100-40g");
	struct snapshot snap = look(s);
	struct child crowd[SIMDEV_MAX_CLIENTS];
	for (size_t i = 0; i < SIMDEV_MAX_CLIENTS; i++)
		crowd[i] = come(snap.gpus[0].uuid, false, .1, .1);
	struct error err = ERROR_INIT;
	assert_int_equal(simdev_join(s, snap.gpus[0].uuid, 1, 1, false, &err), -1);
	assert_int_equal(err.code, ERR_UNAVAILABLE);
	end(&crowd[7]);
	assert_int_equal(simdev_join(s, snap.gpus[0].uuid, 1, 1, false, &err), 0);
	for (size_t i = 0; i < SIMDEV_MAX_CLIENTS; i++)
		if (i != 7)
			end(&crowd[i]);
	assert_true(simdev_speed(s, snap.gpus[0].uuid) == 1);
	snapshot_clear(&snap);
	simdev_close(s);
}

/* Changes by several processes at once: each must find its own as it left it. Exits 0 if it does. */
static void change_and_check(const char *uuid)
{
	struct simdev *s = simdev_open(path, NULL, NULL);
	bool good = s && !simdev_join(s, uuid, .5, .5, true, NULL);
	for (uint64_t mib = 1; good && mib <= 300; mib++) {
		struct snapshot snap = { 0 };
		bool found = false;
		good = !simdev_set_memory(s, uuid, mib, NULL, NULL) && !simdev_snapshot(s, &snap, NULL);
		for (uint32_t i = 0; i < snap.n_procs; i++)
			found = found || (snap.procs[i].id.pid == getpid() && snap.procs[i].mem_mib == mib);
		good = good && found;
		snapshot_clear(&snap);
	}
	_exit(good ? 0 : 1);
}

static void test_many_at_once(void **state)
{
	(void)state;
	struct simdev *s = open_devices("1xa100-40g");
	struct snapshot snap = look(s);
	pid_t pids[4];
	int status, bad = 0;
	for (int i = 0; i < 4; i++)
		if (!(pids[i] = fork()))
			change_and_check(snap.gpus[0].uuid);
	for (int i = 0; i < 4; i++)
		bad += waitpid(pids[i], &status, 0) != pids[i] || status;
	assert_int_equal(bad, 0);
	snapshot_clear(&snap);
	simdev_close(s);
}

/* Processes killed at any moment, also inside a change: the file stays whole and the lock free. */
static void test_killed_in_the_middle(void **state)
{
	(void)state;
	struct simdev *s = open_devices("1xa100-40g");
	struct snapshot snap = look(s);
	for (int round = 0; round < 40; round++) {
		int ready[2];
		char byte = 0;
		assert_int_equal(pipe(ready), 0);
		pid_t pid = fork();
		if (!pid) {
			struct simdev *own = simdev_open(path, NULL, NULL);
			simdev_join(own, snap.gpus[0].uuid, .5, .5, true, NULL);
			for (uint64_t mib = 1; ; mib = mib % 40000 + 1) {
				simdev_set_memory(own, snap.gpus[0].uuid, mib, NULL, NULL);
				if (byte != 1)
					byte = (char)write(ready[1], "y", 1);
			}
		}
		assert_int_equal(read(ready[0], &byte, 1), 1);
		for (volatile int wait = 0; wait < round * 3000; wait++)
			;
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
		close(ready[0]), close(ready[1]);
		struct snapshot now = look(s);
		assert_int_equal(now.n_procs, 0);
		assert_int_equal(now.gpus[0].mem_used_mib, now.gpus[0].mem_reserved_mib);
		snapshot_clear(&now);
	}
	snapshot_clear(&snap);
	simdev_close(s);
}

static void overwrite(off_t at, const void *bytes, size_t n)
{
	scoped_fd int fd = open(path, O_WRONLY | O_CREAT, 0600);
	assert_int_equal(pwrite(fd, bytes, n, at), n);
}

static void test_bad_files_are_refused(void **state)
{
	(void)state;
	struct error err = ERROR_INIT;
	refuse_open(NULL, ERR_NOT_FOUND, "start radd with --devices sim:");
	assert_int_equal(access(path, F_OK), -1);
	overwrite(0, "#!/bin/sh\nrm -rf precious\n", 26);
	refuse_open("1xa100-40g", ERR_CORRUPT, "is not a file of simulated devices");
	struct stat st;
	assert_int_equal(stat(path, &st) | (st.st_size != 26), 0);
	unlink(path);
	assert_int_equal(mkfifo(path, 0600), 0);
	refuse_open("1xa100-40g", ERR_INVALID, "is not a plain file");
	unlink(path);

	struct simdev *s = open_devices("2xa100-40g");
	uint32_t newer = 77;
	overwrite(16, &newer, sizeof newer);
	refuse_open("2xa100-40g", ERR_CONFLICT, "version 77");
	newer = 3;
	overwrite(16, &newer, sizeof newer);
	simdev_close(open_devices("2xa100-40g"));
	assert_int_equal(truncate(path, 5000), 0);
	refuse_open(NULL, ERR_CORRUPT, "damaged");
	struct snapshot snap = { 0 };
	assert_int_equal(simdev_snapshot(s, &snap, &err), -1);
	simdev_close(s);
	unlink(path);
	/* Zeros where a device should be: the disk ran full, or a hostile task. */
	s = open_devices("2xa100-40g");
	char zeros[4096] = { 0 };
	overwrite(8192, zeros, sizeof zeros);
	assert_int_equal(simdev_snapshot(s, &snap, &err), -1);
	assert_non_null(strstr(err.text, "remove the file"));
	simdev_close(s);
	unlink(path);
	/* A name that no answer to a client could hold. */
	s = open_devices("1xa100-40g");
	overwrite(4096 + 2 * sizeof(uint32_t) + offsetof(struct device_model, gpu_name), "\xff", 1);
	assert_int_equal(simdev_snapshot(s, &snap, &err), -1);
	snapshot_clear(&snap);
	simdev_close(s);
}

/* A load of a hostile task's is in no reading, and slows nobody. */
static void test_absurd_loads_are_refused(void **state)
{
	(void)state;
	static const double absurd[] = { NAN, INFINITY, -INFINITY, -0.5, 1.5 };
	for (size_t i = 0; i < COUNT_OF(absurd) * 2; i++) {
		struct error err = ERROR_INIT;
		struct simdev *s = open_devices("1xa100-40g");
		struct snapshot before = look(s), snap = { 0 };
		const char *uuid = before.gpus[0].uuid;
		assert_int_equal(simdev_join(s, uuid, i % 2 ? .5 : absurd[i / 2], i % 2 ? absurd[i / 2] : .5, false, NULL), 0);
		assert_int_equal(simdev_snapshot(s, &snap, &err), -1);
		assert_non_null(strstr(err.text, "remove the file"));
		assert_true(simdev_speed(s, uuid) == 0);
		snapshot_clear(&before);
		snapshot_clear(&snap);
		simdev_close(s);
		unlink(path);
	}
}

/* A maker that died halfway leaves ready = 0: the next one begins again. */
static void test_unfinished_file_is_made_again(void **state)
{
	(void)state;
	simdev_close(open_devices("2xa100-40g"));
	uint32_t not_ready = 0;
	overwrite(20, &not_ready, sizeof not_ready);
	refuse_open(NULL, ERR_NOT_FOUND, "no simulated devices yet");
	struct simdev *s = open_devices("2xa100-40g");
	struct snapshot snap = look(s);
	assert_int_equal(snap.n_gpus, 2);
	snapshot_clear(&snap);
	simdev_close(s);
}

static void test_another_spec(void **state)
{
	(void)state;
	struct simdev *s = open_devices("2xa100-40g");
	struct snapshot snap = look(s);
	struct child c = come(snap.gpus[0].uuid, false, .5, .5);
	tell(&c, "m 1000");
	scoped_free char *says = alloc_printf("processes still run on other simulated devices than the ones asked for: ask for those, "
					      "or end them first: kill %d", (int)c.pid);
	refuse_open("1xh200-141g", ERR_CONFLICT, says);
	simdev_close(open_devices("2xa100-40g"));
	struct snapshot same = look(s);
	assert_int_equal(same.n_procs, 1);
	end(&c);
	struct simdev *fresh = open_devices("1xh200-141g");
	struct snapshot now = look(fresh);
	assert_int_equal(now.n_gpus, 1);
	assert_string_equal(now.gpus[0].name, "NVIDIA H200");
	/* A handle from before finds that its device is gone. */
	assert_int_equal(simdev_join(s, snap.gpus[1].uuid, 1, 1, false, NULL), -1);
	assert_int_equal(simdev_join(s, snap.gpus[0].uuid, 1, 1, false, NULL), -1);
	snapshot_clear(&snap), snapshot_clear(&same), snapshot_clear(&now);
	simdev_close(s), simdev_close(fresh);
}

/* As many as there is room for, and no part of one: that is the number of another process. */
static void test_processes_of_another_spec_are_named_whole(void **state)
{
	(void)state;
	struct child c[40];
	struct error err = ERROR_INIT;
	struct simdev *s = open_devices("1xa100-40g");
	struct snapshot snap = look(s);
	for (size_t i = 0; i < COUNT_OF(c); i++)
		c[i] = come(snap.gpus[0].uuid, true, .01, .01);
	assert_null(simdev_open(path, "1xh200-141g", &err));
	char *rest = strstr(err.text, ": kill ");
	assert_non_null(rest);
	for (char *end = rest += strlen(": kill"); *rest; rest = end) {
		bool ours = false;
		long pid = strtol(rest, &end, 10);
		for (size_t i = 0; i < COUNT_OF(c); i++)
			ours = ours || c[i].pid == pid;
		assert_true(ours);
	}
	for (size_t i = 0; i < COUNT_OF(c); i++)
		end(&c[i]);
	snapshot_clear(&snap);
	simdev_close(s);
}

static void test_ramp(void **state)
{
	(void)state;
	assert_int_equal(simdev_ramp_ms(0), 0);
	assert_int_equal(simdev_ramp_ms(30000), 10000);
	assert_int_equal(simdev_ramp_ms(60000), 20000);
	assert_int_equal(simdev_ramp_ms(86400000), 20000);
	assert_int_equal(simdev_ramp_mib(12578, 0), SIMDEV_CONTEXT_MIB);
	assert_int_equal(simdev_ramp_mib(12578, 0.5), SIMDEV_CONTEXT_MIB + (12578 - SIMDEV_CONTEXT_MIB) / 2);
	assert_int_equal(simdev_ramp_mib(12578, 1), 12578);
	assert_int_equal(simdev_ramp_mib(12578, 7), 12578);
	assert_int_equal(simdev_ramp_mib(100, 0), 100);	/* less than a context */
}

static void test_kind(void **state)
{
	(void)state;
	struct error err = ERROR_INIT;
	struct snapshot snap = { 0 };
	scoped_free char *folder = alloc_string(path);
	*strrchr(folder, '/') = 0;
	static const struct { const char *setting; bool folder; const char *says; } wrong[] = {
		{ "sim:1xa100-40g", false, "no state folder" }, { "sim", true, "sim:4xa100-40g" }, { "sim:", true, "sim:4xa100-40g" },
	};
	for (size_t i = 0; i < COUNT_OF(wrong); i++) {
		struct device *d = device_create(wrong[i].setting, wrong[i].folder ? folder : NULL, NULL);
		assert_int_equal(device_open(d, NULL, &err), -1);
		assert_non_null(strstr(err.text, wrong[i].says));
		device_destroy(d);
	}
	struct device *d = device_create("sim:3xa100-40g", folder, &err);
	scoped_free char *file = alloc_string(device_file(d));
	assert_int_equal(strncmp(file, folder, strlen(folder)), 0);
	assert_int_equal(device_open(d, NULL, &err), 0);
	assert_int_equal(device_sample(d, &snap, &err), 0);
	assert_int_equal(snap.n_gpus, 3);
	assert_int_equal(snap.n_others, 0);
	snapshot_clear(&snap);
	device_destroy(d);
	/* What tasks open is that file. */
	struct simdev *s = simdev_open(file, NULL, &err);
	assert_non_null(s);
	simdev_close(s);
	unlink(file);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_specs), cmocka_unit_test(test_nodes), cmocka_unit_test(test_mig_instances), TEST(test_yaml_files),
		cmocka_unit_test(test_specs), cmocka_unit_test(test_built_in_models_are_sound), TEST(test_yaml_files),
		TEST(test_more_than_a_file_has), TEST(test_empty_devices), TEST(test_memory_is_bounded_and_comes_back),
		TEST(test_speeds_are_those_of_the_model), TEST(test_energy_only_grows),
		TEST(test_a_fault_ends_mps_clients_only), TEST(test_full_of_processes), TEST(test_many_at_once),
		TEST(test_killed_in_the_middle), TEST(test_bad_files_are_refused),
		TEST(test_absurd_loads_are_refused), TEST(test_unfinished_file_is_made_again), TEST(test_another_spec),
		TEST(test_processes_of_another_spec_are_named_whole), TEST(test_kind), TEST(test_ramp),
	};
	signal(SIGPIPE, SIG_IGN);
	alarm(60);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
