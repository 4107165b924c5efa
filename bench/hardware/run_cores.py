#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What it is worth that tasks which starve each other of cores are kept apart (`max_cpu`), on few cores and on enough.

    bench/hardware/run_cores.py --bin dist/rad/bin --out cores.jsonl            # on one GPU
    bench/hardware/run_cores.py --bin build --out cores.jsonl --sim --cores 1   # a simulated one; the cores are real

For each number of cores, twice: a private radd that may run on so many (as under taskset), with max_cpu off and at 1, and eight
short tasks of mix.py submitted at once. Nothing but memory and cores decides who joins whom. One line of JSON for each, printed
and added to OUT as it is known; what OUT has is not measured again, what would not end within the budget is left out.
"""
import argparse
import contextlib
import json
import os
import pathlib
import sys
import time
import traceback

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from common import Rad, Workspace, in_turn, kept, last_json, say, tail, train
from mix import TASKS
from run_policies import declared, metrics, warm_up, watched

SETTINGS = "placement: magm\norder: fifo\nmax_smact: off\nmax_gract: off\nmax_tasks: off\n"
# Light ones, which wait for their launches, first: few cores cost these most.
NAMES = ("resnet18-c128", "mobilenet-c64", "efficientnet-c128", "resnet34-c64", "gpt2-b4", "resnet18-c32", "resnet34-c128", "mobilenet-b64")
SPIN = 5_000_000    # turns of a loop for each second of a simulated task; about one of a core


def parse_args(words=None):
    p = argparse.ArgumentParser(description="Measure eight tasks on few cores, kept apart and not.")
    p.add_argument("--bin", required=True, help="folder that holds rad and radd")
    p.add_argument("--out", required=True, type=pathlib.Path, help="file of JSON lines")
    p.add_argument("--cores", default="2,4,8", help="numbers of cores (default %(default)s)")
    p.add_argument("--max-cpu", default="off,1", help="values of the setting (default %(default)s)")
    p.add_argument("--scale", type=float, default=1.0, help="steps of every task times this (default 1)")
    p.add_argument("--deadline", type=float, default=120, metavar="S", help="of one run (default 120)")
    p.add_argument("--budget", type=float, default=400, metavar="S", help="for all together (default 400)")
    p.add_argument("--config", default="", metavar="TEXT", help="more lines for rad's configuration; \\n between them")
    p.add_argument("--sim", action="store_true", help="a simulated GPU; the tasks keep a core busy")
    args = p.parse_args(words)
    args.gpus = 1
    args.cores = [int(n) for n in args.cores.split(",")]
    args.max_cpu = args.max_cpu.split(",")
    args.tasks = [t for name in NAMES for t in TASKS if t.name == name]
    return args


@contextlib.contextmanager
def on_cores(n):
    """Whatever is started meanwhile stays on n of the cores that we may use."""
    ours = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(ours)[:n])
    try:
        yield
    finally:
        os.sched_setaffinity(0, ours)


def command(args, task):
    if args.sim:
        return [sys.executable, "-c", f"n = {round(task.seconds * args.scale * SPIN)}\nwhile n:\n    n -= 1"]
    return train(*task.args.split(), "--steps", max(5, round(task.steps * args.scale)))


def told(rad, task_id, task):
    """What is kept of a task."""
    shown, output = rad.show(task_id), tail(rad.output(task.name), 3000)
    last = (shown["attempts"] or [{}])[-1]
    summary = last_json(output) or {}
    return {"name": task.name, "state": shown["state"], **{k: shown[k] for k in ("wait_s", "run_s", "jct_s", "submit_time", "end_time")},
            "cores": last.get("cores"), "cores_waited": last.get("cores_waited"), "steps_per_s": summary.get("steps_per_s"),
            "attempts": shown["attempts"], **({} if shown["state"] == "COMPLETED" else {"output": (output or "")[-300:]})}


def cell(args, cores, max_cpu, deadline_s):
    """One run. Never raises: what went wrong is part of the result."""
    row = {"cores": cores, "max_cpu": max_cpu, "sim": args.sim, "scale": args.scale,
           "started": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())}
    config = SETTINGS + f"max_cpu: {max_cpu}\n" + (f"host_cpus: {cores}\n" if args.sim else "") + args.config.replace("\\n", "\n") + "\n"
    seen, tasks, why = {}, [], {}
    with Workspace() as ws:
        try:
            rad = Rad(args.bin, ws, "sim:1xa100-40g" if args.sim else "nvml", config)
            with contextlib.ExitStack() as stack:
                with on_cores(cores):
                    stack.enter_context(watched(args, rad, seen))
                row["host"] = rad.json("gpus")["host"]
                ids = {rad.submit(t.name, command(args, t), *declared(t)): t for t in args.tasks}
                time.sleep(3)
                why = {i: rad.json("why", i) for i in ids}
                row["running_after_3_s"] = sum(w["state"] == "RUNNING" for w in why.values())
                row["reasons_after_3_s"] = sorted({w["reason"] for w in why.values() if w["reason"]})
                try:
                    rad.wait_all(ids, deadline_s)
                except TimeoutError as e:
                    row["error"] = str(e)
                tasks = [told(rad, i, t) for i, t in ids.items()]
        except Exception:
            row["error"] = traceback.format_exc()
        if "error" in row:
            row["radd_log"] = tail(ws.dir / "radd.log", 4000)
    if tasks and all(t["end_time"] for t in tasks):
        row.update(metrics(tasks, seen.get("samples", [])))
    row["each"] = [{k: v for k, v in t.items() if k not in ("attempts", "submit_time", "end_time")} for t in tasks]
    return row


def key(row):
    return row["cores"], row["max_cpu"], row["sim"], row["scale"]


def known(path):
    """The keys of the runs that went well, of a file that may not be there."""
    return {key(r) for r in kept(path) if "error" not in r and r.get("completed") == len(NAMES)}


def main():
    args = parse_args()
    begin, there = time.monotonic(), len(os.sched_getaffinity(0))
    done = known(args.out)
    todo = {f"{n} cores, max_cpu {m}": (n, m) for n in args.cores for m in args.max_cpu if (n, m, args.sim, args.scale) not in done}
    args.out.parent.mkdir(parents=True, exist_ok=True)
    if todo and not args.sim:
        warm_up(args.out.parent)

    def measure(name, left_s):
        cores, max_cpu = todo[name]
        if cores > there:
            say(f"{name}: left out, there are {there}")
            return False
        row = cell(args, cores, max_cpu, min(args.deadline, left_s))
        line = json.dumps(row)
        with open(args.out, "a") as f:
            f.write(line + "\n")
        print(line, flush=True)
        return "error" not in row and row.get("completed") == len(args.tasks)
    return 1 if in_turn(todo, args.budget - (time.monotonic() - begin), measure) else 0


if __name__ == "__main__":
    sys.exit(main())
