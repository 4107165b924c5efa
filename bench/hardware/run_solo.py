#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Measures training tasks alone on a GPU, many in little time: what a prediction from a capture is fitted to and scored on.

    python3 run_solo.py --out FOLDER [--gpus 2] [--deadline-s 540] [--profiled 0.3] [--count N] [--large] [WORD...]

The tasks are those of solo.py, in an order of which every beginning is a fair sample; with several GPUs each gets every so-manieth.
FOLDER/solo.jsonl gets a line a task, written as soon as it is known: seconds a step, what GPM and the energy counter say of the
same span, what the host alone takes for a step. Then, while time is left, FOLDER/kernels.jsonl: the kernels of one step by the
operator that launched them, in processes of their own, since a profiler slows down whatever comes after it. A second run with the
same folder goes on where the first one stopped. One process a GPU goes through its tasks; one that dies or hangs is replaced and
its task left out.
"""
import argparse
import collections
import contextlib
import gc
import json
import os
import pathlib
import select
import signal
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE)]
os.environ["PYTORCH_NVML_BASED_CUDA_CHECK"] = "1"  # CUDA must not be started before the processes are copied

import nvml  # noqa: E402
from common import kept, say  # noqa: E402

METRICS = {1: "gract", 2: "smact", 3: "smocc", 5: "tensor", 10: "dram", 12: "fp32"}
WARM_STEPS, IDLE_STEPS = 3, 3
RAMP_S, WINDOW_S, RAMP_STEPS, WINDOW_STEPS = 0.3, 0.9, 2, 4
AHEAD = 2        # steps that the host may be ahead of the GPU, so that the end of a span is near
SLOW_S = 1.2     # a step that takes longer is measured with fewer of them
PATIENCE_S = 45  # for one task
OVERHEAD_CALLS = 2000


class Cuda:
    """The GPU that this process sees."""

    name = "cuda"

    def __init__(self, torch):
        self.torch = torch
        torch.cuda.init()
        uuid = str(torch.cuda.get_device_properties(0).uuid)
        for index in range(64):
            self.gpu = nvml.Gpu(index, METRICS)  # raises OSError where there is no further one
            if (self.gpu.uuid or "").removeprefix("GPU-") == uuid.removeprefix("GPU-"):
                break

    def wait(self):
        self.torch.cuda.synchronize()

    def mark(self):
        event = self.torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    @staticmethod
    def reach(mark):
        mark.synchronize()

    @staticmethod
    def between(first, second):
        return first.elapsed_time(second) / 1000

    def begin(self):
        self.gpu.activity()
        self.energy = self.gpu.energy_j(), time.monotonic()

    def read(self):
        energy, now = self.gpu.energy_j(), time.monotonic()
        found = self.gpu.activity()
        before, then = self.energy
        found["watts"] = round((energy - before) / (now - then), 2) if energy is not None and before is not None else None
        found["sm_mhz"], found["mem_mhz"] = self.gpu.clocks()
        return found

    def forget(self):
        self.torch.cuda.empty_cache()
        self.torch.cuda.reset_peak_memory_stats()

    def peak(self):
        return self.torch.cuda.max_memory_reserved() >> 20

    def machine(self):
        torch = self.torch
        properties = torch.cuda.get_device_properties(0)
        return {"gpu": self.gpu.name, "driver": self.gpu.driver(), "torch": torch.__version__,
                "cudnn": torch.backends.cudnn.version(), "sms": properties.multi_processor_count}


class Host:
    """No GPU: steps are over when they return. For trying the script out."""

    name = "cpu"

    def __init__(self, torch):
        self.torch = torch

    wait = begin = forget = lambda self: None
    mark = staticmethod(time.monotonic)
    reach = staticmethod(lambda mark: None)
    between = staticmethod(lambda first, second: second - first)

    def read(self):
        return dict.fromkeys([*METRICS.values(), "watts", "sm_mhz", "mem_mhz"])

    def peak(self):
        return None

    def machine(self):
        return {"gpu": None, "torch": self.torch.__version__}


def processor():
    try:
        with open("/proc/cpuinfo") as f:
            return next((line.split(":", 1)[1].strip() for line in f if line.startswith("model name")), None)
    except OSError:
        return None


def machine(device):
    """What it is measured on, and how quick its host is: microseconds for launching the smallest of operators."""
    torch = device.torch
    x = torch.ones(1, device=device.name)
    for _ in range(200):
        x.add_(1)
    device.wait()
    began = time.monotonic()
    for n in range(OVERHEAD_CALLS):
        x.add_(1)
        if n % 500 == 499:
            device.wait()
    took = time.monotonic() - began
    return {"machine": device.machine(), "cores": os.cpu_count(), "cpu": processor(), "launch_us": round(took / OVERHEAD_CALLS * 1e6, 2)}


def from_idle(device, step):
    """(seconds in which the host launches a step, seconds until the step is done), each a median, from an idle GPU."""
    host, whole = [], []
    for _ in range(IDLE_STEPS):
        device.wait()
        began = time.monotonic()
        step()
        host.append(time.monotonic() - began)
        device.wait()
        whole.append(time.monotonic() - began)
    return sorted(host)[IDLE_STEPS // 2], sorted(whole)[IDLE_STEPS // 2]


def span(device, step, seconds, steps, marks):
    """Steps for so long, and so many at least. The host stays AHEAD of the GPU, no more."""
    end, done = time.monotonic() + seconds, 0
    while time.monotonic() < end or done < steps:
        step()
        marks.append(device.mark())
        done += 1
        if len(marks) > AHEAD:
            device.reach(marks[-1 - AHEAD])
    return done


def measure(device, job, build):
    """One task, from nothing to nothing: its line."""
    began = time.monotonic()
    step = build()
    for _ in range(WARM_STEPS):
        step()
    device.wait()
    ready = time.monotonic()
    host_s, whole_s = from_idle(device, step)
    ramp, window = (1, 2) if whole_s > SLOW_S else (RAMP_STEPS, WINDOW_STEPS)
    marks = []
    span(device, step, RAMP_S, ramp, marks)
    device.begin()
    first, at = len(marks), time.monotonic()
    marks.append(device.mark())
    count = span(device, step, WINDOW_S, window, marks)
    loads = device.read()
    window_s = time.monotonic() - at
    device.wait()
    return {"step_s": round(device.between(marks[first], marks[-1]) / count, 7), "steps": count, "window_s": round(window_s, 3),
            "host_s": round(host_s, 7), "whole_s": round(whole_s, 7),
            **{k: round(v, 4) if v is not None else None for k, v in loads.items()},
            "reserved_mib": device.peak(), "build_s": round(ready - began, 3), "total_s": round(time.monotonic() - began, 3)}


def short(name):
    """A kernel's name without its types' details."""
    return name.replace("void ", "").replace("at::native::", "").replace("(anonymous namespace)::", "")[:90]


def kernels(device, job, build):
    """The kernels of one step, by the operator that launched each: [operator, kernel, count, microseconds, blocks]."""
    from torch.profiler import ProfilerActivity, profile
    step = build()
    for _ in range(WARM_STEPS):
        step()
    device.wait()
    activities = [ProfilerActivity.CPU] + ([ProfilerActivity.CUDA] if device.name == "cuda" else [])
    with profile(activities=activities) as p:
        step()
        device.wait()
    with tempfile.NamedTemporaryFile(suffix=".json") as f:
        p.export_chrome_trace(f.name)
        events = json.load(open(f.name))["traceEvents"]
    operators = {e["args"]["External id"]: e["name"] for e in events
                 if e.get("cat") == "cpu_op" and "External id" in e.get("args", {})}
    table, launches = collections.defaultdict(lambda: [0, 0.0, 0]), 0
    for e in events:
        launches += e.get("cat") == "cuda_runtime" and "Launch" in e.get("name", "")
        if e.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset"):
            args, grid = e.get("args", {}), 1
            for side in args.get("grid", [1]):
                grid *= side
            row = table[operators.get(args.get("External id"), "?"), short(e["name"])]
            row[0] += 1
            row[1] += e.get("dur", 0)
            row[2] += grid
    return {"launches": launches, "operators": sum(e.get("cat") == "cpu_op" for e in events),
            "kernels": [[*names, n, round(us, 1), blocks] for names, (n, us, blocks) in
                        sorted(table.items(), key=lambda item: -item[1][1])]}


def fatal(error):
    """Whether the process can do no more: a context that has seen a fault stays broken."""
    return "CUDA error" in str(error) or "AcceleratorError" in type(error).__name__


def serve(work, todo, gpu, sim, write, deadline):
    """The process of one GPU. Tells by `write` of each task, first that it begins."""
    os.environ.update(CUDA_DEVICE_ORDER="PCI_BUS_ID", CUDA_VISIBLE_DEVICES=str(gpu))
    import torch

    import solo
    torch.set_num_threads(4)
    device = (Host if sim else Cuda)(torch)
    write({"gpu_index": gpu, **machine(device)})
    for job in todo:
        if time.monotonic() > deadline:
            return
        write({"begins": job.name})
        line = {"name": job.name, "family": job.family, "gpu_index": gpu}
        torch.manual_seed(0)
        try:
            line.update(work(device, job, solo.setup(job, device.name, True)))
        except Exception as e:
            line.update(error=f"{type(e).__name__}: {e}"[:400], oom=isinstance(e, torch.OutOfMemoryError))
            write(line)
            if fatal(e):
                os._exit(1)
        else:
            write(line)
        line = None
        gc.collect()
        device.forget()


class Crew:
    """A process a GPU. Their lines go to `keep`; a task whose process is lost is left out and the rest is done by a new one."""

    def __init__(self, work, lists, sim, keep, deadline):
        self.work, self.sim, self.keep, self.deadline, self.running = work, sim, keep, deadline, {}
        for gpu, todo in enumerate(lists):
            self.start(gpu, todo)

    def start(self, gpu, todo):
        if not todo or time.monotonic() > self.deadline:
            return
        reader, writer = os.pipe()
        pid = os.fork()
        if pid:
            os.close(writer)
            self.running[reader] = {"pid": pid, "gpu": gpu, "todo": todo, "said": b"", "at": None,
                                    "end": time.monotonic() + 2 * PATIENCE_S}
            return
        status = 1
        try:
            def write(line):
                os.write(writer, (json.dumps(line) + "\n").encode())
            serve(self.work, todo, gpu, self.sim, write, self.deadline)
            status = 0
        except BaseException as e:
            print(f"GPU {gpu}: {type(e).__name__}: {e}", flush=True)
        finally:
            os._exit(status)

    def take(self, worker, data):
        lines = (worker["said"] + data).split(b"\n")
        worker["said"] = lines.pop()
        for line in map(json.loads, lines):
            worker["end"] = time.monotonic() + PATIENCE_S
            if "begins" in line:
                worker["at"] = line["begins"]
                continue
            if "name" in line:
                worker["at"] = None
            self.keep(line)

    def lost(self, reader, worker):
        """It is over: with all that it was told to do, or without."""
        os.close(reader)
        del self.running[reader]
        os.kill(worker["pid"], signal.SIGKILL)
        os.waitpid(worker["pid"], 0)
        if not worker["at"]:
            return
        names = [job.name for job in worker["todo"]]
        self.keep({"name": worker["at"], "error": "its process was lost"})
        self.start(worker["gpu"], worker["todo"][names.index(worker["at"]) + 1:])

    def run(self):
        while self.running:
            ready, _, _ = select.select(list(self.running), [], [], 0.5)
            for reader in ready:
                data = os.read(reader, 1 << 16)
                if data:
                    self.take(self.running[reader], data)
                else:
                    self.lost(reader, self.running[reader])
            for reader, worker in list(self.running.items()):
                if time.monotonic() > min(worker["end"], self.deadline + PATIENCE_S):
                    self.lost(reader, worker)


def known(path):
    """Names of which the file tells already; what failed for another reason than memory is tried again."""
    return {line["name"] for line in kept(path) if "name" in line and (line.get("oom") or "error" not in line)}


def stage(args, work, file, todo, deadline):
    path = args.out / file
    done = known(path)
    todo = [job for job in todo if job.name not in done]
    said = 0
    with open(path, "a") as f:
        def keep(line):
            nonlocal said
            f.write(json.dumps(line) + "\n")
            f.flush()
            said += "name" in line
            if "error" in line or said % 20 == 0:
                say(f"{file}: {said} of {len(todo)}: {line.get('name')} {line.get('error', '')[:160]}")
        Crew(work, [todo[n::args.gpus] for n in range(args.gpus)], args.sim, keep, deadline).run()
    say(f"{file}: {said} of {len(todo)} tasks")


@contextlib.contextmanager
def captures(out, workers, seconds):
    """Captures the tasks on the processors that are idle meanwhile; FOLDER/captures.tar.xz."""
    if not workers:
        yield
        return
    with tempfile.TemporaryDirectory() as folder:
        with subprocess.Popen([sys.executable, HERE / "capture_solo.py", "--out", folder, "--workers", str(workers), "--deadline",
                               str(seconds)]):
            yield
        subprocess.run(["tar", "cJf", out / "captures.tar.xz", "-C", folder, "."], check=False)


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--out", type=pathlib.Path, required=True)
    p.add_argument("--gpus", type=int, default=1)
    p.add_argument("--deadline-s", type=float, default=540, help="when the whole must be over")
    p.add_argument("--profiled", type=float, default=0.3, metavar="PART", help="of the time, at the end, for kernels; 0: none (0.3)")
    p.add_argument("--count", type=int, default=10000, help="of the tasks, the first so many")
    p.add_argument("--large", action="store_true", help="the tasks for more than 80 GiB instead")
    p.add_argument("--captures", type=int, default=0, metavar="N", help="capture the tasks, too, N at a time, while kernels are seen")
    p.add_argument("--sim", action="store_true", help="on the CPU, to try this script out")
    p.add_argument("words", nargs="*", help="tasks whose names contain one of these")
    args = p.parse_args()
    began = time.monotonic()
    args.out.mkdir(parents=True, exist_ok=True)
    import solo
    solo.models.preload()
    gc.freeze()
    todo = [job for job in (solo.large() if args.large else solo.plan()) if not args.words
            or any(w in job.name for w in args.words)][:args.count]
    say(f"{len(todo)} tasks, {time.monotonic() - began:.0f} s for imports")
    end = began + args.deadline_s - 5  # what runs then may finish
    stage(args, measure, "solo.jsonl", todo, end - args.profiled * args.deadline_s)
    if not args.profiled:
        return
    with captures(args.out, args.captures, max(10, end - time.monotonic() - 20)):
        stage(args, kernels, "kernels.jsonl", todo, end - 3)


if __name__ == "__main__":
    main()
