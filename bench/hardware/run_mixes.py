#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Measures how fast training tasks run together on one GPU, for many mixes in little time: what src/share predicts.

    python3 run_mixes.py --out mixes.jsonl [--budget 270] [--gpus 2]

Every task is a process that stays: it builds its model once and trains when told to. First each one alone, with what the GPU
and the host show then, then the mixes, then each alone once more, to see drift; under MPS first, then time-sliced, and at the
very end the kernels that one step of each launches. How many mixes, the budget decides; both modes measure the same ones, from
the first on. The first crowds are measured again on few host cores (--narrow). Each line of the output is one measurement,
written as soon as it is known; score_mixes.py reads them.

With --gpus N each GPU has a run of its own, with its part of the host's cores and its part of the mixes, and writes a file of
its own.
"""
import argparse
import contextlib
import json
import multiprocessing
import os
import pathlib
import shutil
import subprocess
import sys
import time
import traceback

import mix_worker
import nvml
from common import WORKLOADS, Workspace, say
from meter import TICK_S, Meter
from mix_plan import ARGS, COPIES, CPU_ARGS, CPU_COPIES, fitting, schedule
from mps import Mps, without_mps

# Loaded once; the workers are forks of that process. Without the NVML check, asking for a GPU would start CUDA before the fork.
PRELOAD = ["torch", "torchvision", "transformers.models.bert.modeling_bert", "transformers.models.gpt2.modeling_gpt2"]
PRELOAD_ENV = {"PYTORCH_NVML_BASED_CUDA_CHECK": "1", "OMP_NUM_THREADS": "1"}

LEAD_S = 0.1       # between telling the workers and the common start
AGAIN_S = 1.0      # the second measurement alone
ALONE_RAMP_S = 0.8 # before the first: a task that has waited long is slow at first
PINNED = 2         # cores of a task, with --pin: its loop, and the backward passes
NARROW_FROM = 4    # a mix is measured on few cores if it has so many members
NARROW_MIXES = 3   # so many of them
MPS_PART = 3       # of the time, for each part that streams get
SPARE_MIB = 3072   # of the GPU's memory, for what no task holds
KERNELS_S = 3      # about what it takes to see the kernels of one task
START_S = 90       # a worker that is not ready by then is left out
PATIENCE_S = 20    # for an answer, after the time of the run
END_S = 20         # for the workers' end; it takes two seconds or so, and of the budget is kept:
RESERVE_S = 4


class WorkerLost(Exception):
    pass


class Worker:
    """One training process, seen from here."""
    def __init__(self, context, serve, name, words, env):
        self.name, self.error = name, None
        self.connection, theirs = context.Pipe()
        self.process = context.Process(target=serve, args=(theirs, words, env), name=name)
        self.process.start()
        theirs.close()

    def tell(self, message):
        with contextlib.suppress(OSError):  # if it is gone, its answer says so
            self.connection.send(message)

    def answer(self, deadline):
        """What it says next; raises WorkerLost, and says why in `error`, if that is an error, nothing, or not in time."""
        try:
            if not self.connection.poll(max(0.0, deadline - time.monotonic())):
                self.error = "no answer in time"
            else:
                said = self.connection.recv()
                if not isinstance(said, dict) or "error" not in said:
                    return said
                self.error = said["error"]
        except (EOFError, OSError):
            self.process.join(5)
            self.error = f"ended with {self.process.exitcode}"
        raise WorkerLost(self.error)

    def end(self, deadline):
        """Politely: a client of MPS that is killed with work in flight takes others with it. Whether it ended."""
        self.connection.close()
        self.process.join(max(0.1, deadline - time.monotonic()))
        if self.process.is_alive():
            self.process.terminate()
            self.process.join(5)
        return not self.process.is_alive()


class Crew:
    """The workers of one mode. `write` takes each measurement as a dict; `meter` sees the GPU and the host."""
    def __init__(self, context, mode, meter, write, serve=mix_worker.serve, pin=False):
        self.context, self.mode, self.meter, self.write, self.serve, self.pin = context, mode, meter, write, serve, pin
        self.workers, self.lost, self.solo = [], [], {}

    def start(self, copies, args, env, deadline_s=START_S):
        begin = time.monotonic()
        new = [Worker(self.context, self.serve, name, args[name].split(), env) for name, n in copies.items() for _ in range(n)]
        self.workers = list(new)
        versions = {said["torch"] for w in new if (said := self.listen(w, begin + deadline_s))}
        say(f"{self.mode}: {len(self.workers)} of {len(new)} tasks ready in {time.monotonic() - begin:.1f} s")
        return sorted(versions)

    def listen(self, worker, deadline):
        """Its answer, or None: then it is no longer one of the workers, and the output says why."""
        try:
            return worker.answer(deadline)
        except WorkerLost as e:
            self.workers.remove(worker)
            self.lost.append(worker)
            say(f"{self.mode}: {worker.name} is left out: {e}")
            self.write({"mode": self.mode, "failed": worker.name, "why": str(e)})
            return None

    def names(self):
        return sorted({w.name for w in self.workers})

    def pick(self, members):
        """A worker for each of the names; None if there are not enough."""
        free, picked = list(self.workers), []
        for name in members:
            worker = next((w for w in free if w.name == name), None)
            if not worker:
                return None
            free.remove(worker)
            picked.append(worker)
        return picked

    def cores(self, n, together, narrow):
        """Of the nth of so many: all alike on the first `narrow`, or with --pin two of its own, or None: wherever there is room."""
        if narrow:
            return list(range(narrow))
        if not self.pin or PINNED * together > len(os.sched_getaffinity(0)):
            return None
        return [PINNED * n + i for i in range(PINNED)]

    def run(self, workers, seconds, ramp_s=mix_worker.RAMP_S, narrow=None):
        """Trains them together; returns (what each says or None, the meter's readings)."""
        at = time.monotonic() + LEAD_S
        for n, worker in enumerate(workers):
            worker.tell({"at": at, "seconds": seconds, "ramp_s": ramp_s, "cores": self.cores(n, len(workers), narrow)})
        time.sleep(max(0.0, at + ramp_s - time.monotonic()))
        loads = self.meter.watch(at + seconds - TICK_S)
        return [self.listen(w, at + seconds + PATIENCE_S) for w in workers], loads

    def alone(self, seconds, again=False):
        ramp_s = mix_worker.RAMP_S if again else ALONE_RAMP_S
        for name in self.names():
            workers = self.pick([name])
            (said,), loads = self.run(workers, seconds + ramp_s, ramp_s) if workers else ((None,), {})
            if said and not again:
                self.solo[name] = said["steps_s"]
            if said:
                self.write({"mode": self.mode, "alone": name, "again": again, **said, "steps_s": round(said["steps_s"], 4),
                            **loads})

    def mixed(self, one, seconds, cores=None):
        """One mix of the schedule. Whether all of it was measured."""
        members = one["members"]
        workers = self.pick(members)
        if not workers or not all(self.solo.get(name) for name in members):
            return False
        said, loads = self.run(workers, seconds, narrow=cores)
        if not all(said):
            return False
        solo, rates = [self.solo[name] for name in members], [s["steps_s"] for s in said]
        what = {"narrow": one["mix"], "cores": cores} if cores else one
        self.write({"mode": self.mode, **what, "members": members, "solo": [round(r, 4) for r in solo],
                    "together": [round(r, 4) for r in rates], "relative": [round(r / s, 4) for r, s in zip(rates, solo)],
                    "cpu": [s["cpu"] for s in said], "host_s": [s["host_s"] for s in said], "loads": loads})
        return True

    def kernels(self, names, end):
        """What one step of each launches; none is begun that could pass `end`."""
        for name in names:
            workers = self.pick([name])
            if workers and time.monotonic() + 2 * KERNELS_S < end:
                workers[0].tell("kernels")
                if said := self.listen(workers[0], time.monotonic() + PATIENCE_S):
                    self.write({"mode": self.mode, "kernels": name, **said})

    def end(self):
        for worker in self.workers:
            worker.connection.close()  # all at once: they end side by side
        deadline = time.monotonic() + END_S
        left = [w.name for w in self.workers + self.lost if not w.end(deadline)]
        if left:
            say(f"{self.mode}: do not end: {', '.join(left)}")


def in_order(mixes, narrow):
    """What is measured: each mix on all cores, and the first large ones, right behind, on as few as `narrow` lists."""
    left = NARROW_MIXES if narrow else 0
    for mix in mixes:
        yield mix, None
        if left and len(mix["members"]) >= NARROW_FROM:
            left -= 1
            yield from ((mix, cores) for cores in narrow)


def measure(crew, args, mixes, end, last=True):
    """All phases of a mode, until the clock reaches `end`. `mixes` is the schedule. Returns how many of it were tried, and how
    many measured."""
    crew.alone(args.seconds)
    slowest, tried, done = args.seconds + 2 * LEAD_S, 0, 0
    kinds, profiled = len(crew.names()), crew.names()[args.part[0]::args.part[1]] if args.kernels and last else []
    after = RESERVE_S + (kinds * (AGAIN_S + mix_worker.RAMP_S + 2 * LEAD_S) if args.again else 0)
    after += len(profiled) * KERNELS_S
    for mix, cores in in_order(mixes, args.narrow if crew.mode == "mps" else ()):
        begin = time.monotonic()
        if begin + slowest + after > end or not crew.workers:
            break
        measured = crew.mixed(mix, args.seconds, cores)
        tried, done = tried + (cores is None), done + (measured and cores is None)
        slowest = max(slowest, time.monotonic() - begin)
    if args.again:
        crew.alone(AGAIN_S + mix_worker.RAMP_S, again=True)
    crew.kernels(profiled, end - RESERVE_S)
    say(f"{crew.mode}: {done} of {tried} mixes measured")
    return tried, done


@contextlib.contextmanager
def surroundings(mode, gpu, ws):
    """The environment of the workers, and what counts them as MPS clients (or None)."""
    if not gpu:
        yield {}, None
    elif mode == "mps":
        with Mps(ws, "mixes", gpu.uuid) as mps:
            yield changes(mps.env), mps
    else:
        yield changes({**without_mps(ws), "CUDA_VISIBLE_DEVICES": gpu.uuid}), None


def changes(env):
    return {k: v for k, v in env.items() if os.environ.get(k) != v}


def run_mode(args, context, mode, gpu, mixes, end, write):
    with Workspace() as ws, surroundings(mode, gpu, ws) as (env, mps):
        crew = Crew(context, mode, Meter(gpu), write, pin=args.pin)
        try:
            versions = crew.start(args.copies, args.args, env)
            if not crew.workers and not args.spawn:
                say(f"{mode}: once more, without forks")
                crew.context = multiprocessing.get_context("spawn")
                versions = crew.start(args.copies, args.args, env)
            crew.meter.pids = mps.servers() if mps else ()
            write({"mode": mode, "ready": len(crew.workers), "torch": versions, "cores": len(os.sched_getaffinity(0)),
                   "mps_clients": len(mps.clients()) if mps else None})
            return measure(crew, args, mixes, end, mode == args.modes[-1])
        finally:
            crew.end()


def parse_args():
    p = argparse.ArgumentParser(description="Measure how fast training tasks run together on one GPU.")
    p.add_argument("--out", required=True, metavar="FILE", help="lines of JSON; must not exist")
    p.add_argument("--budget", type=float, default=270, metavar="S", help="of time in all (default 270)")
    p.add_argument("--seconds", type=float, default=2.5, help="of each measurement (default 2.5)")
    p.add_argument("--mixes", type=int, default=200, help="at most so many (default 200)")
    p.add_argument("--chains", type=int, default=0, metavar="N",
                   help="so many times four tasks that come and go one by one, five spans each, between the mixes (default 0)")
    p.add_argument("--modes", nargs="+", default=["mps", "streams"], choices=["mps", "streams"])
    p.add_argument("--tasks", nargs="+", metavar="NAME", help="only these")
    p.add_argument("--gpu", type=int, default=0, metavar="N", help="in PCI order (default 0)")
    p.add_argument("--gpus", type=int, default=1, metavar="N", help="that many at a time, from --gpu on (default 1)")
    p.add_argument("--part", default="0/1", metavar="I/N", help="only every Nth mix, from the Ith on, and the Ith Nth of the cores")
    p.add_argument("--narrow", type=int, nargs="*", default=(), metavar="CORES",
                   help="the first large mixes also on so few host cores")
    p.add_argument("--pin", action="store_true",
                   help="two cores for each task alone: what the host does is then the same alone and in company")
    p.add_argument("--no-kernels", dest="kernels", action="store_false", help="do not look at the kernels of each task")
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--no-again", dest="again", action="store_false", help="do not measure the drift")
    p.add_argument("--spawn", action="store_true", help="start each worker afresh, not as a fork: slower")
    p.add_argument("--cpu", action="store_true", help="two small models on the CPU, to check this program itself")
    args = p.parse_args()
    args.part = tuple(map(int, args.part.split("/")))
    if args.seconds < 2 * mix_worker.RAMP_S:
        p.error(f"--seconds must be at least {2 * mix_worker.RAMP_S}")
    args.copies, args.args = (CPU_COPIES, CPU_ARGS) if args.cpu else (COPIES, ARGS)
    if unknown := set(args.tasks or ()) - set(args.copies):
        p.error(f"no such task: {', '.join(sorted(unknown))}; there are {', '.join(args.copies)}")
    args.copies = {name: n for name, n in args.copies.items() if not args.tasks or name in args.tasks}
    if args.cpu:
        args.modes = ["streams"]
    return args


def load_modules(spawn, modules=PRELOAD):
    """The context that starts processes; the modules are in memory when it is given."""
    os.environ.update(PRELOAD_ENV)
    sys.path.append(str(WORKLOADS))
    context = multiprocessing.get_context("spawn" if spawn else "forkserver")
    if not spawn:
        begin = time.monotonic()
        context.set_forkserver_preload(modules)
        first = context.Process(target=mix_worker.nothing)
        first.start()
        first.join()
        say(f"modules loaded in {time.monotonic() - begin:.1f} s")
    return context


def side_by_side(args, words):
    """One run for each GPU, all at a time; the first exit code that is not 0."""
    path, runs = pathlib.Path(args.out), []
    for n in range(args.gpus):
        out = path.with_name(f"{path.stem}-gpu{args.gpu + n}{path.suffix}")
        mine = ["--out", out, "--gpus", 1, "--gpu", args.gpu + n, "--part", f"{n}/{args.gpus}"]  # the last of an option counts
        runs.append(subprocess.Popen([sys.executable, __file__, *words, *map(str, mine)]))
    return next((code for run in runs if (code := run.wait())), 0)


def keep_to_part(n, parts):
    """From now on this process and what it starts have their part of the cores alone."""
    cores = sorted(os.sched_getaffinity(0))
    each = max(1, len(cores) // parts)
    os.sched_setaffinity(0, cores[n * each:(n + 1) * each] or cores)


def run_all(args, gpu, mixes, context, end, write):
    """Every mode, each with its part of the time. How many of them failed."""
    failed, parts = 0, {mode: MPS_PART if mode == "mps" else 1 for mode in args.modes}
    for mode in args.modes:
        now = time.monotonic()
        mine = (end - now) * parts[mode] / sum(parts.values())
        del parts[mode]
        try:
            tried, done = run_mode(args, context, mode, gpu, mixes, now + mine, write)
        except Exception:  # the other mode can still be measured
            write({"mode": mode, "error": traceback.format_exc()})
            say(f"{mode}: {traceback.format_exc()}")
            tried = done = 0
        failed += not done
        mixes = mixes[:tried or None]
    return failed


def main():
    args = parse_args()
    end = time.monotonic() + args.budget
    if "mps" in args.modes and not shutil.which("nvidia-cuda-mps-control"):
        sys.exit("run_mixes.py: there is no nvidia-cuda-mps-control here; --modes streams runs without")
    if args.gpus > 1:
        return side_by_side(args, sys.argv[1:])
    gpu = None if args.cpu else nvml.Gpu(args.gpu)
    if gpu and (memory := gpu.memory()):
        args.copies = fitting(args.copies, (memory.total >> 20) - SPARE_MIB)
    keep_to_part(*args.part)
    mixes = schedule(args.copies, args.mixes, args.chains, args.seed, *args.part)
    context = load_modules(args.spawn)
    pathlib.Path(args.out).resolve().parent.mkdir(parents=True, exist_ok=True)
    with open(args.out, "x") as out:
        def write(line):
            out.write(json.dumps(line) + "\n")
            out.flush()
        write({"gpu": gpu and gpu.name, "driver": gpu and gpu.driver(), "seconds": args.seconds, "seed": args.seed, "pin": args.pin,
               "part": "/".join(map(str, args.part)), "args": {name: args.args[name] for name in args.copies}})
        return 1 if run_all(args, gpu, mixes, context, end, write) else 0


if __name__ == "__main__":
    sys.exit(main())
