# SPDX-License-Identifier: MIT
"""What a GPU and the host do over a span of time: activity and watts from NVML, busy cores from /proc."""
import os
import statistics
import time

TICK_S = 0.15  # the driver counts energy in steps of up to a tenth of a second
SAMPLE_S = 0.25

CLOCK_HZ = os.sysconf("SC_CLK_TCK")


def cpu_seconds(pid):
    """What a process has used so far, user and system; None if it cannot be read."""
    try:
        with open(f"/proc/{pid}/stat") as f:
            fields = f.read().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / CLOCK_HZ
    except (OSError, ValueError, IndexError):
        return None


def host_seconds():
    """What all processes of the host have used so far, in core seconds; None if it cannot be read."""
    try:
        with open("/proc/stat") as f:
            user, nice, system, _idle, _wait, irq, soft, *_ = (int(w) for w in f.readline().split()[1:])
        return (user + nice + system + irq + soft) / CLOCK_HZ
    except (OSError, ValueError):
        return None


class Meter:
    """Watches the GPU and the host; without a GPU only the host. `pids` are the processes that serve all tasks."""
    def __init__(self, gpu, pids=()):
        self.gpu, self.pids = gpu, pids

    def watch(self, until):
        """Until that time (time.monotonic()): {gract, smact, smocc, dram: means, sd: {the same: between samples}, watts, seconds,
        host_cpu: busy cores, servers_cpu: those of which `pids` keep busy}."""
        energy, cpu = self._tick() if self.gpu else None, self._cpu()
        out = self._activity(until) if self.gpu else {}
        time.sleep(max(0.0, until - time.monotonic()))
        now = self._cpu()
        for name, before, after in zip(("host_cpu", "servers_cpu"), cpu[1:], now[1:]):
            known = before is not None and after is not None and now[0] > cpu[0]
            out[name] = round((after - before) / (now[0] - cpu[0]), 4) if known else None
        if self.gpu:
            out["watts"], out["seconds"] = watts(energy, self._tick()), round(now[0] - cpu[0], 3)
        return out

    def _activity(self, until):
        """Samples until then, each weighted with its length."""
        self.gpu.activity()
        samples, before = [], time.monotonic()
        while (left := until - time.monotonic()) > SAMPLE_S / 2:
            time.sleep(min(left, SAMPLE_S))
            samples.append((time.monotonic() - before, self.gpu.activity()))
            before += samples[-1][0]
        out, sd = {}, {}
        for name in samples[0][1] if samples else ():
            values = [s[name] for _, s in samples]
            if None in values:
                out[name] = sd[name] = None
                continue
            out[name] = round(sum(t * v for (t, _), v in zip(samples, values)) / sum(t for t, _ in samples), 4)
            sd[name] = round(statistics.pstdev(values), 4)
        return {**out, "sd": sd}

    def _cpu(self):
        each = [cpu_seconds(pid) for pid in self.pids]
        return time.monotonic(), host_seconds(), None if None in each or not each else sum(each)

    def _tick(self):
        """(when, joules) at the moment at which the count of energy goes up; at the end of TICK_S if it does not."""
        first, end = self.gpu.energy_j(), time.monotonic() + TICK_S
        while True:
            now, joules = time.monotonic(), self.gpu.energy_j()
            if joules is None or joules != first or now > end:
                return now, joules
            time.sleep(0.001)


def watts(before, after):
    """Between two (when, joules)."""
    (t0, j0), (t1, j1) = before, after
    return round((j1 - j0) / (t1 - t0), 2) if None not in (j0, j1) and t1 > t0 else None
