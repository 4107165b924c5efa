#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What the jobs of jobs.py take on the GPU, as NVML has it:

    truth.py --out FOLDER [--workers N] [--room GIB] [--deadline S] [--tiny] [--fresh] [WORD...]

Each job in a process of its own that starts CUDA afresh. FOLDER/truth.jsonl has a line a job: what NVML shows for its pid
(largest of samples every 40 ms, and at its end), reserved and allocated bytes at most, seconds a step (others run beside it), or
the error. FOLDER/history/NAME.json.gz: what its allocator was asked for until the end of the third step, for finding out where a
capture differs: bytes for a request, -1-n for giving back the n-th; `segments`: [events before it, bytes (negative:
given back)].
"""

import argparse
import gc
import gzip
import json
import math
import os
import pathlib
import random
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "hardware")]

os.environ["PYTORCH_NVML_BASED_CUDA_CHECK"] = "1"  # CUDA must not be started here, see pool.py
import torch  # noqa: E402

import jobs  # noqa: E402
import models  # noqa: E402
import nvml  # noqa: E402
from pool import Pool  # noqa: E402

STEPS, LEAST, ENOUGH_S = 8, 5, 5.0
SCALED_STEPS = 24  # with a gradient scaler, whose first steps may all overflow and change nothing
MIB = 1 << 20


def history():
    events, segments, at, requests = [], [], {}, 0
    for entry in torch.cuda.memory._snapshot()["device_traces"][0]:
        action, size = entry["action"], entry["size"]
        if action == "alloc":
            at[entry["addr"]] = requests
            requests += 1
            events.append(size)
        elif action == "free_requested" and entry["addr"] in at:
            events.append(-1 - at.pop(entry["addr"]))
        elif action in ("segment_alloc", "segment_free"):
            segments.append([len(events), size if action == "segment_alloc" else -size])
    return {"events": events, "segments": segments}


def taken(pid):
    """MiB that NVML shows for a process."""
    for process in nvml.Gpu().processes() or ():
        if process["pid"] == pid:
            return process["mem_mib"]
    return None


def done(scaler, steps):
    """Whether the optimizer has stepped at least three times: each step that overflowed halved the scale."""
    return not scaler or steps - math.log2(65536 / scaler.get_scale()) >= 3


def train(job, out, steps=STEPS):
    """Runs the job in this process. What it took."""
    began = time.monotonic()
    torch.cuda.init()
    if out:
        torch.cuda.memory._record_memory_history(enabled="all", context=None, max_entries=2000000)
    torch.manual_seed(0)
    step, times = None, []
    try:
        step = jobs.setup(job)()
        torch.cuda.synchronize()
        built = time.monotonic()
        for n in range(max(steps, SCALED_STEPS if step.scaler else 0)):
            before = time.monotonic()
            step()
            torch.cuda.synchronize()
            times.append(time.monotonic() - before)
            if out and n == 2:
                found = history()
                torch.cuda.memory._record_memory_history(enabled=None)
                with gzip.open(out / f"{job.name}.json.gz", "wt", 6) as f:
                    json.dump({"name": job.name, **found}, f, separators=(",", ":"))
            scaler = step.scaler
            if n + 1 >= LEAST and sum(times) > ENOUGH_S and done(scaler, n + 1):
                break
            if n + 1 >= steps and done(scaler, n + 1):
                break
    except Exception as e:
        return {"error": f"{type(e).__name__}: {e}"[:600], "oom": isinstance(e, torch.OutOfMemoryError), "steps": len(times)}
    stats = torch.cuda.memory_stats()
    return {
        "end_mib": taken(os.getpid()),
        "reserved": torch.cuda.max_memory_reserved(),
        "allocated": torch.cuda.max_memory_allocated(),
        "reserved_now": torch.cuda.memory_reserved(),
        "retries": stats["num_alloc_retries"],
        "steps": len(times),
        "step_s": round(sorted(times[2:])[len(times[2:]) // 2], 5),
        "first_s": round(times[0], 3),
        "build_s": round(built - began, 3),
        "total_s": round(time.monotonic() - began, 3),
        "scale": scaler.get_scale() if scaler else None,
    }


def machine():
    """Asking for cuDNN's version starts CUDA: for a process of its own."""
    gpu = nvml.Gpu()
    return {
        "gpu": gpu.name,
        "driver": gpu.driver(),
        "total_mib": gpu.memory().total >> 20,
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "cudnn": torch.backends.cudnn.version(),
        "cores": os.cpu_count(),
        **{name: sys.modules[name].__version__ for name in ("torchvision", "transformers") if name in sys.modules},
    }


def ordered(found, seed=3):
    """Jobs so that a run that is cut short has some of every architecture."""
    nth = {}
    rounds = [(nth.setdefault(j.arch, []).append(0) or len(nth[j.arch]), j) for j in found]
    order = random.Random(seed)
    return [j for _, _, j in sorted((n, order.random(), j) for n, j in rounds)]


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--out", type=pathlib.Path, required=True)
    p.add_argument("--workers", type=int, default=10)
    p.add_argument("--room", type=float, default=128, help="GiB of GPU memory that jobs take together")
    p.add_argument("--deadline", type=float, default=1e6, help="seconds after which nothing more is begun")
    p.add_argument("--limit", type=float, default=100, help="seconds that one job may take")
    p.add_argument("--no-history", action="store_true")
    p.add_argument("--tiny", action="store_true", help="one small job an architecture")
    p.add_argument("--done", type=pathlib.Path, help="a truth.jsonl; jobs in it are not run")
    p.add_argument("--fresh", action="store_true", help="jobs of fresh.py")
    p.add_argument("words", nargs="*", help="jobs whose names contain one of these")
    args = p.parse_args()
    deadline = time.monotonic() + args.deadline
    kept = None if args.no_history else args.out / "history"
    (kept or args.out).mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    models.preload()
    gc.freeze()
    gpu, peak, alone, guesses = nvml.Gpu(), {}, set(), jobs.guesses()

    def cost(job):  # GiB
        return args.room if job.name in alone else guesses.get(job.name, 40000) / 1024

    def tick(pids):
        for process in gpu.processes() or ():
            if process["mem_mib"]:
                peak[process["pid"]] = max(peak.get(process["pid"], 0), process["mem_mib"])

    with open(args.out / "truth.jsonl", "a") as f:

        def header(pid, item, line):
            f.write(json.dumps(line) + "\n")

        def tell(pid, job, answer):
            line = {"name": job.name, "nvml_mib": peak.pop(pid, None), **answer}
            if answer.get("oom") and job.name not in alone:
                alone.add(job.name)
                return job
            f.write(json.dumps(line) + "\n")
            f.flush()
            print(
                job.name,
                line["nvml_mib"],
                line.get("error", f"{line.get('total_s')} s, {line.get('step_s')} s/step"),
                flush=True,
            )
            return None

        Pool(1, 60, deadline).run(lambda item: machine(), ["machine"], header)
        pool = Pool(args.workers, args.limit, deadline, args.room, cost, tick, 0.04)
        over = {json.loads(line).get("name") for line in open(args.done)} if args.done else set()
        todo = [j for j in jobs.chosen(args.words, args.tiny, jobs.FRESH if args.fresh else jobs.JOBS) if j.name not in over]
        left = pool.run(lambda job: train(job, kept), ordered(todo), tell)
        print(len(left), "jobs were not begun")


if __name__ == "__main__":
    main()
