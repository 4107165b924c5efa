# SPDX-License-Identifier: MIT
"""One training task of run_mixes.py: it builds its model once, then trains whenever it is told to, from an instant that all
tasks of a mix share. PyTorch is imported only in the process that trains.
"""
import contextlib
import json
import os
import tempfile
import time

WARM_UP_STEPS = 20  # the first ones load and choose kernels
WARM_UP_S = 1.0     # and the allocator and the clocks settle
RAMP_S = 0.3        # at the start of a run the queues fill; not counted
PROFILED_STEPS = 2
FIRST_STEPS = 3     # whose time on the host is told: the queue of launches is not full yet


def steps_by(done, t):
    """How many steps were finished at time t, with the part of the one under way; `done`: when each one was, ascending."""
    before = 0.0
    for n, at in enumerate(done):
        if at >= t:
            return n + (t - before) / (at - before)
        before = at
    return float(len(done))


class HostClock:
    """When steps end, where a step is over once its function returns."""
    def start(self):
        self.begin, self.done = time.monotonic(), []

    def mark(self):
        self.done.append(time.monotonic() - self.begin)

    def times(self):
        return self.done


class CudaClock:
    """When steps end on the GPU. Asking there holds nobody up: launches run ahead of the GPU, as in real training."""
    def __init__(self, torch):
        self.cuda = torch.cuda

    def _event(self):
        event = self.cuda.Event(enable_timing=True)
        event.record()
        return event

    def start(self):
        self.begin, self.done = self._event(), []

    def mark(self):
        self.done.append(self._event())

    def times(self):
        self.cuda.synchronize()
        return [self.begin.elapsed_time(event) / 1000 for event in self.done]


def train_for(step, clock, at, seconds, ramp_s=RAMP_S):
    """Trains from `at` (time.monotonic()) for so long. {steps_s: steps per second of the time that counts, cpu: host cores
    that the process kept busy, host_s: how long the host took over each of the first steps}."""
    time.sleep(max(0.0, at - time.monotonic()))
    cpu, begin, host = time.process_time(), time.monotonic(), []
    clock.start()
    while (now := time.monotonic()) < at + seconds:
        step()
        clock.mark()
        if len(host) < FIRST_STEPS:
            host.append(round(time.monotonic() - now, 6))
    cpu, wall = time.process_time() - cpu, time.monotonic() - begin
    done = clock.times()
    return {"steps_s": (steps_by(done, seconds) - steps_by(done, ramp_s)) / (seconds - ramp_s),
            "cpu": round(cpu / wall, 4) if wall > 0 else None, "host_s": host}


def kernels(step, torch):
    """What one step launches: {each: [[microseconds, blocks, threads a block], ...] in the order of launch, copies: of memory}."""
    kinds = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=kinds[:1 + torch.cuda.is_available()]) as seen:
        for _ in range(PROFILED_STEPS):
            step()
        if torch.cuda.is_available():
            torch.cuda.synchronize()
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "trace.json")
        seen.export_chrome_trace(path)
        with open(path) as f:
            events = [e for e in json.load(f)["traceEvents"] if e.get("ph") == "X"]
    ran = sorted((e for e in events if e.get("cat") == "kernel"), key=lambda e: e["ts"])

    def size(e, name):
        x, y, z = e["args"].get(name, (0, 0, 0))
        return x * y * z
    return {"steps": PROFILED_STEPS, "copies": sum(e.get("cat") in ("gpu_memcpy", "gpu_memset") for e in events),
            "each": [[e["dur"], size(e, "grid"), size(e, "block")] for e in ran]}


def keep_to(cores):
    """All threads of this process run on these cores from now on, and none they make on another."""
    for thread in os.listdir("/proc/self/task"):
        with contextlib.suppress(OSError):  # it ended
            os.sched_setaffinity(int(thread), cores)


def set_up(words):
    import torch
    import train
    args = train.parse_args(words)
    _, step = train.prepare(args, torch)
    if args.device != "cuda":
        step()
        return step, HostClock(), torch
    end = time.monotonic() + WARM_UP_S
    for n in range(1000):
        if n >= WARM_UP_STEPS and time.monotonic() > end:
            break
        step()
    torch.cuda.synchronize()
    return step, CudaClock(torch), torch


def serve(connection, words, env):
    """The process: says {"torch": version} when it is ready, then answers each {"at", "seconds", "ramp_s", "cores":
    places in the list of its cores, or None for all} with what train_for gives, and "kernels" with those of one step. It ends
    when the other side closes. A failure is the last thing it says: {"error": text}."""
    os.environ.update(env)  # before CUDA starts
    try:
        step, clock, torch = set_up(words)
        all_cores = now = os.sched_getaffinity(0)
        connection.send({"torch": torch.__version__})
        while True:
            told = connection.recv()
            if told == "kernels":
                connection.send(kernels(step, torch))
                continue
            wanted = {sorted(all_cores)[n] for n in told["cores"]} if told["cores"] else all_cores
            if wanted != now:
                keep_to(wanted)
                now = wanted
            connection.send(train_for(step, clock, told["at"], told["seconds"], told["ramp_s"]))
    except (EOFError, ConnectionError, KeyboardInterrupt):
        return
    except (Exception, SystemExit) as e:
        connection.send({"error": f"{type(e).__name__}: {e}"[:600]})


def nothing():
    """Runs once, so that whoever waits for it knows that the modules are loaded."""
