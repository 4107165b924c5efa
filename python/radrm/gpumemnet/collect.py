# SPDX-License-Identifier: MIT
"""Measures what configurations (specs.py) take of a GPU's memory:

    python3 -m radrm.gpumemnet.collect --out FOLDER --rows 4000 --seconds 560 --mps

Many processes measure one configuration after the other; the GPU's memory is shared out among them by specs.estimate(), and
what runs out of it is measured once more with more room. Rows are appended to FOLDER/rows.jsonl as they come, and packed at the
end; FOLDER/stack.json names the card and the stack. A first part measures some configurations each in a process of its own, as
a job is, for what a long-lived process cannot show: the memory outside PyTorch's allocator, where kernels once loaded stay.

    id, set (fresh, rows, sweep), allocated, reserved (peaks, bytes), held (reserved at the end), second (peak reserved after
    two of the three steps), before (allocated at the start; 0), nvml_mib (of the process, at the end), nth (of that process),
    states (whether every parameter got its optimizer state), seconds; or id, set and error (oom, or what else it said)
"""
import argparse
import gc
import gzip
import json
import multiprocessing
import multiprocessing.connection
import os
import pathlib
import random
import shutil
import sys
import time

from . import specs

HARDWARE = pathlib.Path(__file__).resolve().parents[3] / "bench" / "hardware"
STEPS = 3
MIB = 1 << 20
OUTSIDE = 1000 * MIB  # of a process: context, loaded kernels, and some room
LOOK_AHEAD = 24  # jobs among which one is sought that fits: large ones are overtaken by these few only
PATIENCE_S = 60  # for one row; a process that takes longer is ended


class Cuda:
    """The allocator's figures, and NVML's, of this process."""
    device = "cuda"

    def __init__(self):
        import torch
        from nvml import Gpu
        self.torch, self.gpu = torch, Gpu()
        torch.cuda.init()

    def clear(self):
        """Cached memory and the workspaces of cuBLAS go back, so that the next row has its own and no other's."""
        gc.collect()
        self.torch.cuda.synchronize()
        self.torch._C._cuda_clearCublasWorkspaces()
        self.torch.cuda.empty_cache()
        self.torch.cuda.reset_peak_memory_stats()
        return self.torch.cuda.memory_allocated()

    def peaks(self):
        self.torch.cuda.synchronize()
        return self.torch.cuda.max_memory_allocated(), self.torch.cuda.max_memory_reserved(), self.torch.cuda.memory_reserved()

    def nvml_mib(self):
        for process in self.gpu.processes() or ():
            if process["pid"] == os.getpid():
                return process["mem_mib"]
        return None

    def stack(self):
        t = self.torch
        return {"gpu": self.gpu.name, "driver": self.gpu.driver(), "torch": t.__version__, "cuda": t.version.cuda,
                "cudnn": t.backends.cudnn.version(), "total_bytes": t.cuda.mem_get_info()[1]}


class Pretended:
    """Trains on the CPU and makes the figures up: shows on any machine that everything but the GPU works."""
    device = "cpu"

    def clear(self):
        return 0

    def peaks(self):
        return 64 * MIB, 80 * MIB, 80 * MIB

    def nvml_mib(self):
        return 80 + 700

    def stack(self):
        return {"gpu": "none", "total_bytes": 8 << 30}


def _states(optimizer, spec):
    return not specs.OPTIMIZERS[spec["optimizer"]] or all(
        p in optimizer.state for group in optimizer.param_groups for p in group["params"])


def _train(spec, meter, row):
    from . import models
    step = models.setup(spec, meter.device)
    for n in range(STEPS):
        if n == STEPS - 1:
            row["second"] = meter.peaks()[1]
        step()
    row["allocated"], row["reserved"], row["held"] = meter.peaks()
    row["nvml_mib"] = meter.nvml_mib()
    row["states"] = _states(step.optimizer, spec)


def measure(spec, meter):
    row, begun = {"before": meter.clear()}, time.monotonic()
    try:
        _train(spec, meter, row)
    except Exception as e:  # the next configuration can still be measured
        text = f"{type(e).__name__}: {e}"
        row = {"error": "oom" if "OutOfMemory" in text or "out of memory" in text else text[:300]}
    row["seconds"] = round(time.monotonic() - begun, 3)
    return row


def _serve(pipe, make_meter):
    import torch
    torch.set_num_threads(1)
    gc.freeze()  # collecting between rows looks at their objects only
    meter = make_meter()
    pipe.send(meter.stack())
    nth = 0
    while True:
        job = pipe.recv()
        if job is None:
            return
        nth += 1
        pipe.send({"id": job["id"], "set": job["set"], "nth": nth, **measure(job["spec"], meter)})


class Worker:
    def __init__(self, make_meter):
        self.pipe, theirs = multiprocessing.Pipe()
        self.process = multiprocessing.get_context("fork").Process(target=_serve, args=(theirs, make_meter), daemon=True)
        self.process.start()
        theirs.close()
        self.job = self.since = self.stack = None  # the stack comes first: until then it is not ready
        self.gone = False

    def give(self, job):
        self.job, self.since = job, time.monotonic()
        self.pipe.send(job)

    def end(self):
        self.process.kill()
        self.process.join()
        self.pipe.close()


class Collection:
    """Shares jobs out among workers. `total`: bytes of GPU memory for all of them."""
    def __init__(self, make_meter, workers, out, deadline, total):
        self.make_meter, self.n, self.deadline = make_meter, workers, deadline
        self.free = self.total = total - workers * OUTSIDE
        self.out, self.stack = open(out / "rows.jsonl", "a", buffering=1), None
        self.counts = {}

    def _next(self, pending):
        for i, job in enumerate(pending[:LOOK_AHEAD]):
            if job["need"] <= self.free:
                return pending.pop(i)
        return None

    def _done(self, worker, row, pending):
        job, worker.job = worker.job, None
        self.free += job["need"]
        if row.get("error") == "oom" and not job.get("again"):
            pending.insert(0, {**job, "again": True, "need": min(2 * job["need"] + (8 << 30), self.total)})
            return
        self.counts[row.get("error", "measured")] = self.counts.get(row.get("error", "measured"), 0) + 1
        self.out.write(json.dumps(row, separators=(",", ":")) + "\n")

    def _receive(self, worker, pending):
        """False: the worker is gone."""
        try:
            said = worker.pipe.recv()
        except (EOFError, ConnectionError):
            said = None
        if worker.stack is None:
            if not said:
                raise RuntimeError("a process ended before it could measure: what it said stands above")
            worker.stack = self.stack = said
        elif worker.job:
            self._done(worker, said or {"id": worker.job["id"], "set": worker.job["set"], "error": "died"}, pending)
        return bool(said)

    def _renew(self, workers, pending, alone):
        """Ends workers that hang; replaces those that are gone, and with `alone` those that have measured."""
        now = time.monotonic()
        for w in list(workers):
            if w.job and now - w.since > PATIENCE_S:
                self._done(w, {"id": w.job["id"], "set": w.job["set"], "error": "hung"}, pending)
                w.gone = True
            if w.gone or (alone and w.stack and not w.job and w.since):
                w.end()
                workers.remove(w)
                if pending:
                    workers.append(Worker(self.make_meter))

    def run(self, pending, alone=False):
        """All jobs, or as many as there is time for; `alone`: each in a process of its own. Returns what is left."""
        workers = [Worker(self.make_meter) for _ in range(min(self.n, len(pending)))]
        while time.monotonic() < self.deadline and workers and (pending or any(w.job for w in workers)):
            for w in workers:
                if w.stack and not w.job and not (alone and w.since):
                    job = self._next(pending)
                    if job:
                        self.free -= job["need"]
                        w.give(job)
            for pipe in multiprocessing.connection.wait([w.pipe for w in workers], 1):
                worker = next(w for w in workers if w.pipe is pipe)
                worker.gone = not self._receive(worker, pending)
            self._renew(workers, pending, alone)
        left = len(pending) + sum(w.job is not None for w in workers)
        for w in workers:
            self.free += w.job["need"] if w.job else 0
            w.end()
        return left


def jobs_of(list_, set_):
    return [{"id": specs.identity(s), "set": set_, "spec": s, "need": int(1.25 * specs.estimate(s)["bytes"]) + 512 * MIB}
            for s in list_]


def plan(drawn, fresh, sweeps):
    """(jobs in processes of their own, the others). Fresh ones are of every family and precision; they are measured again among
    the others, which come in random order: wherever time ends, what was measured is like what was not."""
    cells = {}
    for s in drawn:
        cells.setdefault((s["family"], s["precision"]), []).append(s)
    first = [s for cell in cells.values() for s in cell[:fresh]]
    known = {specs.identity(s) for s in first}
    rest = jobs_of([s for s in drawn if specs.identity(s) not in known], "rows")
    random.Random(1).shuffle(rest)
    return jobs_of(first, "fresh"), (jobs_of(specs.sweeps(), "sweep") if sweeps else []) + jobs_of(first, "rows") + rest


def measured_in(folders):
    """Ids that runs before have measured."""
    found = set()
    for folder in folders:
        with gzip.open(folder / "rows.jsonl.gz", "rt") as f:
            found |= {row["id"] for row in map(json.loads, f) if row["set"] != "fresh" and "error" not in row}
    return found


def drawn_by(args):
    if args.specs:
        with gzip.open(args.specs, "rt") as f:
            return [json.loads(line) for line in f]
    return list(specs.generate(args.seed, args.rows, largest=args.largest * MIB if args.largest else specs.LARGEST))


def collect(args, out, begun):
    import torch  # noqa: F401  before the fork, which each worker begins as; CUDA is first touched behind it
    make_meter = Pretended if args.pretend else Cuda
    fresh, rest = plan(drawn_by(args), args.fresh, not args.pretend)
    collection = Collection(make_meter, args.workers, out, begun + args.seconds, args.total_gib << 30)
    done = measured_in(args.done)
    rest = [job for job in rest if job["id"] not in done]
    planned = len(fresh) + len(rest)
    left = collection.run(fresh, alone=True)
    fresh_s = round(time.monotonic() - begun, 1)
    left += collection.run(rest)
    report = {"date": time.strftime("%Y-%m-%d"), **(collection.stack or {}), "seed": args.seed, "planned": planned,
              "left": left, "counts": collection.counts, "fresh_s": fresh_s, "seconds": round(time.monotonic() - begun, 1),
              "workers": args.workers, "mps": args.mps}
    with open(out / "rows.jsonl", "rb") as f, gzip.open(out / "rows.jsonl.gz", "wb") as z:
        shutil.copyfileobj(f, z)
    (out / "stack.json").write_text(json.dumps(report, indent=1) + "\n")
    print(json.dumps(report), flush=True)


def main():
    p = argparse.ArgumentParser(prog="radrm.gpumemnet.collect")
    p.add_argument("--out", required=True, type=pathlib.Path)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--rows", type=int, default=4000, help="of each family")
    p.add_argument("--specs", type=pathlib.Path, help="drawn before: one a line, gzip; in place of --seed and --rows")
    p.add_argument("--fresh", type=int, default=8, help="of each family and precision, in processes of their own")
    p.add_argument("--seconds", type=float, default=560)
    p.add_argument("--workers", type=int, default=14)
    p.add_argument("--total-gib", type=int, default=136, help="of GPU memory")
    p.add_argument("--largest", type=int, help="MiB of a configuration")
    p.add_argument("--done", type=pathlib.Path, nargs="*", default=(), help="folders of runs before: what they have is not "
                   "measured again (rows.jsonl.gz)")
    p.add_argument("--mps", action="store_true", help="under an MPS control daemon of its own")
    p.add_argument("--pretend", action="store_true", help="train on the CPU and make the figures up")
    args = p.parse_args()
    begun = time.monotonic()
    args.out.mkdir(parents=True, exist_ok=True)
    sys.path.append(str(HARDWARE))
    if not args.mps:
        return collect(args, args.out, begun)
    from common import Workspace
    from mps import Mps
    with Workspace() as workspace, Mps(workspace, "collect") as mps:
        os.environ.update(mps.client_env())
        collect(args, args.out, begun)


if __name__ == "__main__":
    main()
