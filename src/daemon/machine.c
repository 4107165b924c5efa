/* SPDX-License-Identifier: MIT
 * See machine.h. A container or a systemd slice gives less than the machine has: the least limit of the cgroups above us
 * counts, and of CPUs no more than those that we may run on.
 */
#include "daemon/machine.h"

#include "base/buf.h"
#include "base/io.h"
#include "base/log.h"
#include "base/scope.h"
#include "device/device.h"
#include "launch/cgroup.h"

#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <sys/sysinfo.h>
#include <unistd.h>

/* Without a limit, or with one above what is there, all the memory that the kernel has. */
static uint64_t memory_mib(void)
{
	struct sysinfo s;
	uint64_t limit = cgroup_memory_limit(), bytes = sysinfo(&s) ? 0 : (uint64_t)s.totalram * s.mem_unit;
	return (limit && limit < bytes ? limit : bytes) >> 20;
}

static unsigned cpus(void)
{
	cpu_set_t set;
	long n = sched_getaffinity(0, sizeof set, &set) ? sysconf(_SC_NPROCESSORS_ONLN) : CPU_COUNT(&set);
	double limit = ceil(cgroup_cpu_limit());
	if (limit > 0 && limit < (double)n)
		n = (long)limit;
	return n > 0 ? (unsigned)n : 0;
}

/* How long we ran, how long we waited for it, how often: where that is not counted, zeros. */
static bool kernel_tells_delays(void)
{
	scoped_buf text = { 0 };
	unsigned long long times;
	return !io_read_file("/proc/self/schedstat", 256, &text, NULL) &&
	       sscanf(buf_text(&text), "%*u %*u %llu", &times) == 1 && times;
}

#define MISSED 3	/* samples, until a GPU is silent */

struct core_config machine_fill(const struct settings *config, const struct device *device)
{
	struct core_config c = config->core;
	if (c.stale_ms < MISSED * config->interval_ms)
		c.stale_ms = MISSED * config->interval_ms;
	if (!kernel_tells_delays() || (c.host_cpus == CORE_HOST_AUTO && !device_kind(device)->needs_driver))
		c.max_cpu = 0;
	if (c.host_mem_mib == CORE_HOST_AUTO)
		c.host_mem_mib = memory_mib();
	if (c.host_cpus == CORE_HOST_AUTO)
		c.host_cpus = cpus();
	return c;
}

void machine_tell_cores(const struct core_config *filled)
{
	if (core_host_known(filled->host_cpus) && filled->max_cpu > 0)
		log_info("cores: tasks share GPUs while the %llu cores allow it (max_cpu %g)", (unsigned long long)filled->host_cpus,
			 filled->max_cpu);
	else
		log_info("cores: not considered in placement (max_cpu: rad.conf(5))");
}

void machine_take_memory(void)
{
	if (cgroup_take_memory())
		log_info("host memory: the kernel holds each task to what it asks for with --mem");
	else
		log_info("host memory: what tasks ask for with --mem is counted and watched, not enforced (no part of the cgroup tree is "
			 "ours: radd(8), HOST MEMORY)");
}
