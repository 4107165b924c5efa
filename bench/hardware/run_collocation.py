#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Measures what collocation gains and costs on one GPU: the studies of chapter 4 of the dissertation, on this GPU.

    python3 run_collocation.py --out collocation.jsonl [--budget 290] [--after collocation-1.jsonl...]

Processes stay: each builds a model when told to, trains with others for a while, and takes the next model. So starts are in no
figure, and a point takes two seconds. Groups are measured the most important first (collocation_plan.py), under MPS, then
time-sliced, then under MPS with each process held to its part of the SMs, as far as the budget goes; a group for which there is
no time is left out. A later run with --after goes on with what the earlier ones have not. Each line of the output is one
measurement, written as soon as it is known; score_collocation.py makes the page of them.
"""
import argparse
import json
import os
import pathlib
import shutil
import sys
import time
import traceback

import collocation_plan as plan
import collocation_worker
import nvml
from common import WORKLOADS, Workspace, say
from meter import Meter
from run_mixes import ALONE_RAMP_S, LEAD_S, RESERVE_S, Crew, Worker, load_modules, surroundings
from score_mixes import read_lines

BUILD_S = 60       # a model that is not there by then is given up, and its process
START_S = 60
BUILD_COST_S = 3   # about what it takes: for deciding what there is time for
POOL_COST_S = 15


class Pool(Crew):
    """Processes of one mode that become whatever is measured next."""
    def __init__(self, context, mode, gpu, write, tasks, serve=collocation_worker.serve):
        super().__init__(context, mode, Meter(gpu), write, serve)
        self.gpu, self.tasks = gpu, tasks

    def start_all(self, percents, env):
        new = []
        for n, percent in enumerate(percents):
            more = {"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": str(percent)} if percent else {}
            worker = Worker(self.context, self.serve, f"{self.mode}-{n}", [], {**env, **more})
            worker.percent, worker.task = percent, None
            new.append(worker)
        self.workers, end = list(new), time.monotonic() + START_S
        versions = {said["torch"] for w in new if (said := self.listen(w, end))}
        say(f"{self.mode}: {len(self.workers)} of {len(new)} processes ready")
        return sorted(versions)

    def used_mib(self):
        memory = self.gpu.memory() if self.gpu else None
        return memory.used >> 20 if memory else None

    def build(self, wanted):
        """Workers become tasks, all at a time: [(worker, name)]. What came of it: one line; whether all are there."""
        before, begin = self.used_mib(), time.monotonic()
        for worker, name in wanted:
            worker.tell({"build": self.tasks[name].split()})
        said = [self.listen(w, begin + BUILD_S) for w, _ in wanted]
        for (worker, name), one in zip(wanted, said):
            worker.task = name if one and "failed" not in one else None
        failed = [one["failed"] for one in said if one and "failed" in one]
        self.write({"mode": self.mode, "built": [name for _, name in wanted], "used_mib": [before, self.used_mib()],
                    "reserved_mib": [one and one.get("reserved_mib") for one in said], "failed": failed,
                    "took_s": round(time.monotonic() - begin, 2)})
        return all(w.task for w, _ in wanted)

    def drop(self):
        busy = [w for w in self.workers if w.task]
        for worker in busy:
            worker.tell("drop")
        for worker in busy:
            worker.task = None
            self.listen(worker, time.monotonic() + BUILD_S)

    def point(self, workers, group, seconds, ramp_s, cores=None):
        """One measurement; None if a process was lost on it."""
        said, loads = self.run(workers, seconds + ramp_s, ramp_s, cores)
        if not all(one and "failed" not in one for one in said):
            self.write({"mode": self.mode, "group": group, "lost": [w.name for w, one in zip(workers, said) if not one],
                        "why": [one["failed"] for one in said if one and "failed" in one]})
            return None
        line = {"mode": self.mode, "group": group, "tasks": [w.task for w in workers], "cores": cores,
                "steps_s": [round(one["steps_s"], 4) for one in said], "cpu": [one["cpu"] for one in said],
                "reserved_mib": [one["reserved_mib"] for one in said], "loads": loads, "used_mib": self.used_mib()}
        if workers[0].percent:
            line["percent"] = workers[0].percent
        self.write(line)
        return line


class Kept:
    """Which workers are which tasks of a group."""
    def __init__(self, pool, group):
        self.pool, self.group, self.failed = pool, group, False

    def alone(self, seconds):
        """Builds the first of each kind, and measures it before there is another."""
        for name in dict.fromkeys(self.group.of):
            free = next((w for w in self.pool.workers if not w.task), None)
            if not free or not self.pool.build([(free, name)]):
                return False
            ramp_s = max(ALONE_RAMP_S, self.group.ramp_s)
            if not self.pool.point([free], self.group.name, seconds, ramp_s):
                return False
        return True

    def rest(self):
        """As many of the others as there is memory for."""
        missing = list(self.group.of)
        for worker in self.pool.workers:
            if worker.task:
                missing.remove(worker.task)
        free = [w for w in self.pool.workers if not w.task]
        if missing:
            self.failed = not self.pool.build(list(zip(free, missing)))

    def pick(self, members, percent=None):
        if self.pool.mode == "percent":
            there = [w for w in self.pool.workers if w.task and w.percent == percent]
            return there[:len(members)] if len(there) >= len(members) else None
        free, picked = [w for w in self.pool.workers if w.task], []
        for name in members:
            worker = next((w for w in free if w.task == name), None)
            if not worker:
                return None
            free.remove(worker)
            picked.append(worker)
        return picked


def measure_group(pool, group, seconds):
    """Whether all of it was measured, or what was not never will be: a degree that does not fit."""
    kept, complete = Kept(pool, group), True
    try:
        if not kept.alone(seconds):
            return False
        if pool.mode == "percent":
            pool.build([(w, group.of[0]) for w in pool.workers if not w.task])
        else:
            kept.rest()
        for members, cores in plan.points_of(group, pool.mode):
            workers = kept.pick(members, plan.PERCENT.get(len(members), [None])[0])
            if workers:
                complete &= pool.point(workers, group.name, seconds, group.ramp_s, cores) is not None
            elif kept.failed:
                pool.write({"mode": pool.mode, "group": group.name, "does_not_fit": members})
            else:
                complete = False
        return complete
    finally:
        pool.drop()


def cost_s(group, mode, seconds):
    kinds, points = len(set(group.of)), len(plan.points_of(group, mode))
    return (kinds * (BUILD_COST_S + seconds + ALONE_RAMP_S + 2 * LEAD_S) + BUILD_COST_S
            + points * (seconds + group.ramp_s + 2 * LEAD_S + 0.3))


def missing(mode, done):
    return [g for g in plan.GROUPS if mode in g.modes and (mode, g.name) not in done]


def run_pool(args, context, mode, gpu, end, write):
    """The groups of a mode that are not there yet, until the clock reaches `end`. How many were measured."""
    measured, pace = 0, 1.0
    with Workspace() as ws, surroundings("mps" if mode == "percent" else mode, gpu, ws) as (env, mps):
        pool = Pool(context, mode, gpu, write, args.texts)
        try:
            versions = pool.start_all(plan.workers_needed(mode)[:args.processes], env)
            pool.meter.pids = mps.servers() if mps else ()
            write({"mode": mode, "ready": len(pool.workers), "torch": versions, "cores": len(os.sched_getaffinity(0)),
                   "mps_clients": len(mps.clients()) if mps else None, "used_mib": pool.used_mib()})
            for group in missing(mode, args.done):
                begin, cost = time.monotonic(), cost_s(group, mode, args.seconds)
                if begin + pace * cost > end - RESERVE_S or not pool.workers:
                    say(f"{mode}: no time for {group.name}")
                    continue
                done = measure_group(pool, group, args.seconds)
                took = time.monotonic() - begin
                pace = max(0.7, min(3.0, took / cost))
                say(f"{mode}: {group.name}: {'measured' if done else 'not all of it'} in {took:.1f} s")
                if done:
                    write({"mode": mode, "group": group.name, "done": True, "took_s": round(took, 1)})
                    measured += 1
        finally:
            pool.end()
    return measured


def done_in(paths):
    """{(mode, group)} of the groups that earlier runs finished."""
    done = set()
    for path in paths:
        for line in read_lines(path):
            if line.get("done"):
                done.add((line["mode"], line["group"]))
    return done


def parse_args():
    p = argparse.ArgumentParser(description="Measure what collocation gains and costs on one GPU.")
    p.add_argument("--out", required=True, metavar="FILE", help="lines of JSON; must not exist")
    p.add_argument("--after", nargs="+", default=[], metavar="FILE", help="of earlier runs: what they have is not measured again")
    p.add_argument("--budget", type=float, default=290, metavar="S", help="of time in all (default 290)")
    p.add_argument("--seconds", type=float, default=1.8, help="of each measurement (default 1.8)")
    p.add_argument("--modes", nargs="+", default=["mps", "streams", "percent"], choices=["mps", "streams", "percent"])
    p.add_argument("--gpu", type=int, default=0, metavar="N", help="in PCI order (default 0)")
    p.add_argument("--processes", type=int, metavar="N", help="at most so many (default: what is needed)")
    p.add_argument("--spawn", action="store_true", help="start each process afresh, not as a fork: slower")
    p.add_argument("--cpu", action="store_true", help="tiny models on the CPU, to check this program itself")
    args = p.parse_args()
    if args.cpu:
        args.modes = ["streams"]
    elif "streams" not in args.modes or len(args.modes) > 1:
        if not shutil.which("nvidia-cuda-mps-control"):
            p.error("there is no nvidia-cuda-mps-control here; --modes streams runs without")
    args.done = done_in(args.after)
    return args


def run_all(args, gpu, context, end, write):
    """Each mode with its part of the time, by what is missing of it. How many groups were measured."""
    measured = 0
    for n, mode in enumerate(args.modes):
        costs = {m: sum(cost_s(g, m, args.seconds) for g in missing(m, args.done)) for m in args.modes[n:]}
        now = time.monotonic()
        if not costs[mode] or end - now < POOL_COST_S + RESERVE_S:
            continue
        mine = (end - now) * costs[mode] / sum(costs.values())
        try:
            measured += run_pool(args, context, mode, gpu, now + mine, write)
        except Exception:  # another mode can still be measured
            write({"mode": mode, "error": traceback.format_exc()})
            say(f"{mode}: {traceback.format_exc()}")
    return measured


def main():
    args = parse_args()
    end = time.monotonic() + args.budget
    gpu = None if args.cpu else nvml.Gpu(args.gpu, {**nvml.GPM, **nvml.PCIE})
    context = load_modules(args.spawn, ["torch", "torchvision"])
    pathlib.Path(args.out).resolve().parent.mkdir(parents=True, exist_ok=True)
    with open(args.out, "x") as out, Workspace() as ws:
        def write(line):
            out.write(json.dumps(line) + "\n")
            out.flush()
        args.texts = {name: text.format(jpegs=ws.dir / "jpegs") for name, text in
                      (plan.CPU_TASKS if args.cpu else plan.TASKS).items()}
        write({"gpu": gpu and gpu.name, "driver": gpu and gpu.driver(), "seconds": args.seconds, "tasks": plan.TASKS,
               "cores": len(os.sched_getaffinity(0))})
        measured = run_all(args, gpu, context, end, write)
    left = sum(len(missing(mode, args.done)) for mode in args.modes) - measured
    say(f"{measured} groups measured, {left} are left" + (": go on with --after" if left else ""))
    return 0 if measured or not left else 1


if __name__ == "__main__":
    sys.path.append(str(WORKLOADS))
    sys.exit(main())
