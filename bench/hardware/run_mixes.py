#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Measures how fast training tasks run together on one GPU, for many mixes in little time: what src/share predicts.

    python3 run_mixes.py --out mixes.jsonl [--budget 270]

Every task is a process that stays: it builds its model once and trains when told to. First each one alone, with the loads that
the GPU shows then, then the mixes, then each alone once more, to see drift; under MPS first, then time-sliced. How many mixes,
the budget decides; both modes measure the same ones. Each line of the output is one measurement, written as soon as it is
known; score_mixes.py reads them.
"""
import argparse
import contextlib
import itertools
import json
import multiprocessing
import os
import pathlib
import random
import shutil
import sys
import time
import traceback

import mix
import mix_worker
import nvml
from common import WORKLOADS, Workspace, say
from mps import Mps, without_mps

# How many processes of each: none runs twice at a time in a mix. Light and heavy ones, convolutions and transformers, one that
# waits for its loader. The names are those of mix.py where it has the task.
COPIES = {"resnet18-c128": 4, "resnet18-c32": 2, "resnet50-b64": 2, "vgg16-b32": 2, "mobilenet-b64": 1, "efficientnet-c128": 2,
          "bert-base-b32": 1, "gpt2-b4": 2, "inception-b32": 1, "mlp-b512": 2, "dlrm-loader": 1, "lstm-b32": 1}
ARGS = {**{t.name: t.args for t in mix.TASKS},
        "mlp-b512": "--model mlp --batch-size 512 --optimizer momentum",
        "lstm-b32": "--model lstm --batch-size 32 --seq-len 128"}
CPU_COPIES = {"mlp-cpu": 2, "lstm-cpu": 1}
CPU_ARGS = {"mlp-cpu": "--model mlp --batch-size 2 --optimizer sgd --device cpu",
            "lstm-cpu": "--model lstm --batch-size 1 --seq-len 4 --optimizer sgd --device cpu"}

SIZES = (2, 3, 4, 6)
# Loaded once; the workers are forks of that process. Without the NVML check, asking for a GPU would start CUDA before the fork.
PRELOAD = ["torch", "torchvision", "transformers.models.bert.modeling_bert", "transformers.models.gpt2.modeling_gpt2"]
PRELOAD_ENV = {"PYTORCH_NVML_BASED_CUDA_CHECK": "1", "OMP_NUM_THREADS": "1"}

LEAD_S = 0.1       # between telling the workers and the common start
AGAIN_S = 1.0      # the second measurement alone
START_S = 90       # a worker that is not ready by then is left out
PATIENCE_S = 20    # for an answer, after the time of the run
END_S = 20         # for the workers' end; it takes two seconds or so, and of the budget is kept:
RESERVE_S = 4


def plan(copies, count, seed):
    """That many different mixes, each a sorted list of names: all-equal ones and random ones of each size, in random order."""
    rng = random.Random(seed)
    bag = [name for name, n in copies.items() for _ in range(n)]
    equal = [(name,) * n for name, most in copies.items() for n in range(2, most + 1)]
    mixes = {tuple(m) for m in equal}
    sizes = itertools.cycle([n for n in SIZES if n <= len(bag)])
    for _ in range(20 * count):  # a small bag has few mixes
        if len(mixes) >= count:
            break
        mixes.add(tuple(sorted(rng.sample(bag, next(sizes)))))
    ordered = sorted(mixes)
    rng.shuffle(ordered)
    return [list(m) for m in ordered[:count]]


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
    """The workers of one mode. `write` takes each measurement as a dict."""
    def __init__(self, context, mode, gpu, write, serve=mix_worker.serve):
        self.context, self.mode, self.gpu, self.write, self.serve = context, mode, gpu, write, serve
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

    def run(self, workers, seconds):
        """Trains them together; returns (steps/s of each or None, the GPU's loads meanwhile)."""
        at = time.monotonic() + LEAD_S
        for worker in workers:
            worker.tell((at, seconds))
        loads = self.watch(at, seconds)
        return [self.listen(w, at + seconds + PATIENCE_S) for w in workers], loads

    def watch(self, at, seconds):
        if not self.gpu:
            return {}
        time.sleep(max(0.0, at + mix_worker.RAMP_S - time.monotonic()))
        self.gpu.activity()
        time.sleep(max(0.0, at + seconds - time.monotonic()))
        return {k: v if v is None else round(v, 4) for k, v in self.gpu.activity().items()}

    def alone(self, seconds, again=False):
        for name in self.names():
            workers = self.pick([name])
            (rate,), loads = self.run(workers, seconds) if workers else ((None,), {})
            if rate and not again:
                self.solo[name] = rate
            if rate:
                self.write({"mode": self.mode, "alone": name, "again": again, "steps_s": round(rate, 4), **loads})

    def mixed(self, number, members, seconds):
        """One mix. Whether all of it was measured."""
        workers = self.pick(members)
        if not workers or not all(self.solo.get(name) for name in members):
            return False
        rates, loads = self.run(workers, seconds)
        if not all(rates):
            return False
        solo = [self.solo[name] for name in members]
        self.write({"mode": self.mode, "mix": number, "members": members, "solo": [round(r, 4) for r in solo],
                    "together": [round(r, 4) for r in rates], "relative": [round(r / s, 4) for r, s in zip(rates, solo)],
                    "loads": loads})
        return True

    def end(self):
        for worker in self.workers:
            worker.connection.close()  # all at once: they end side by side
        deadline = time.monotonic() + END_S
        left = [w.name for w in self.workers + self.lost if not w.end(deadline)]
        if left:
            say(f"{self.mode}: do not end: {', '.join(left)}")


def measure(crew, args, mixes, end):
    """The three phases, until the clock reaches `end`. Returns how many of the mixes were tried, and how many measured."""
    crew.alone(args.seconds)
    slowest, tried, done = args.seconds + 2 * LEAD_S, 0, 0
    for number, members in enumerate(mixes):
        again = len(crew.names()) * (AGAIN_S + 2 * LEAD_S) if args.again else 0
        begin = time.monotonic()
        if begin + slowest + again + RESERVE_S > end or not crew.workers:
            break
        done += crew.mixed(number, members, args.seconds)
        tried += 1
        slowest = max(slowest, time.monotonic() - begin)
    if args.again:
        crew.alone(AGAIN_S, again=True)
    say(f"{crew.mode}: {done} of {tried} mixes measured")
    return tried, done


@contextlib.contextmanager
def surroundings(args, mode, ws):
    """The environment of the workers, and what counts them as MPS clients (or None)."""
    if args.cpu:
        yield {}, None
    elif mode == "mps":
        with Mps(ws, "mixes") as mps:
            yield changes(mps.env, args.gpu), mps
    else:
        yield changes(without_mps(ws), args.gpu), None


def changes(env, gpu):
    mine = {k: v for k, v in env.items() if os.environ.get(k) != v}
    return {**mine, "CUDA_VISIBLE_DEVICES": str(gpu)}


def run_mode(args, context, mode, gpu, mixes, end, write):
    with Workspace() as ws, surroundings(args, mode, ws) as (env, mps):
        crew = Crew(context, mode, gpu, write)
        try:
            versions = crew.start(args.copies, args.args, env)
            if not crew.workers and not args.spawn:
                say(f"{mode}: once more, without forks")
                crew.context = multiprocessing.get_context("spawn")
                versions = crew.start(args.copies, args.args, env)
            write({"mode": mode, "ready": len(crew.workers), "torch": versions,
                   "mps_clients": len(mps.clients()) if mps else None})
            return measure(crew, args, mixes, end)
        finally:
            crew.end()


def parse_args():
    p = argparse.ArgumentParser(description="Measure how fast training tasks run together on one GPU.")
    p.add_argument("--out", required=True, metavar="FILE", help="lines of JSON; must not exist")
    p.add_argument("--budget", type=float, default=270, metavar="S", help="of time in all (default 270)")
    p.add_argument("--seconds", type=float, default=2.5, help="of each measurement (default 2.5)")
    p.add_argument("--mixes", type=int, default=200, help="at most so many (default 200)")
    p.add_argument("--modes", nargs="+", default=["mps", "streams"], choices=["mps", "streams"])
    p.add_argument("--tasks", nargs="+", metavar="NAME", help="only these")
    p.add_argument("--gpu", type=int, default=0, metavar="N", help="in PCI order (default 0)")
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--no-again", dest="again", action="store_false", help="do not measure the drift")
    p.add_argument("--spawn", action="store_true", help="start each worker afresh, not as a fork: slower")
    p.add_argument("--cpu", action="store_true", help="two small models on the CPU, to check this program itself")
    args = p.parse_args()
    if args.seconds < 2 * mix_worker.RAMP_S:
        p.error(f"--seconds must be at least {2 * mix_worker.RAMP_S}")
    args.copies, args.args = (CPU_COPIES, CPU_ARGS) if args.cpu else (COPIES, ARGS)
    if unknown := set(args.tasks or ()) - set(args.copies):
        p.error(f"no such task: {', '.join(sorted(unknown))}; there are {', '.join(args.copies)}")
    args.copies = {name: n for name, n in args.copies.items() if not args.tasks or name in args.tasks}
    if args.cpu:
        args.modes = ["streams"]
    return args


def load_modules(spawn):
    """The context that starts processes; the modules are in memory when it is given."""
    os.environ.update(PRELOAD_ENV)
    sys.path.append(str(WORKLOADS))
    context = multiprocessing.get_context("spawn" if spawn else "forkserver")
    if not spawn:
        begin = time.monotonic()
        context.set_forkserver_preload(PRELOAD)
        first = context.Process(target=mix_worker.nothing)
        first.start()
        first.join()
        say(f"modules loaded in {time.monotonic() - begin:.1f} s")
    return context


def main():
    args = parse_args()
    end = time.monotonic() + args.budget
    if "mps" in args.modes and not shutil.which("nvidia-cuda-mps-control"):
        sys.exit("run_mixes.py: there is no nvidia-cuda-mps-control here; --modes streams runs without")
    gpu = None if args.cpu else nvml.Gpu(args.gpu)
    mixes, failed = plan(args.copies, args.mixes, args.seed), 0
    context = load_modules(args.spawn)
    pathlib.Path(args.out).resolve().parent.mkdir(parents=True, exist_ok=True)
    with open(args.out, "x") as out:
        def write(line):
            out.write(json.dumps(line) + "\n")
            out.flush()
        write({"gpu": gpu and gpu.name, "driver": gpu and gpu.driver(), "seconds": args.seconds, "seed": args.seed,
               "args": {name: args.args[name] for name in args.copies}})
        for n, mode in enumerate(args.modes):
            now = time.monotonic()
            try:
                tried, done = run_mode(args, context, mode, gpu, mixes, now + (end - now) / (len(args.modes) - n), write)
            except Exception:  # the other mode can still be measured
                write({"mode": mode, "error": traceback.format_exc()})
                say(f"{mode}: {traceback.format_exc()}")
                tried = done = 0
            failed += not done
            mixes = mixes[:tried or None]
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
