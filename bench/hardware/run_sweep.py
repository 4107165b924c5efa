#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A sweep: like tasks that each fill a GPU, submitted at once to a radd that saw one of them alone. When is each done?

    bench/hardware/run_sweep.py --bin dist/rad/bin --out sweep.jsonl                # on one GPU; about 12 minutes for each order
    bench/hardware/run_sweep.py --bin build --out sweep.jsonl --sim --scale 1

All settings are those that are shipped, but for `order`. One line of JSON for each order, printed and added to OUT as it is known.
"""
import argparse
import json
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from common import Rad, say
from run_cores import told
from run_first import TASKS
from run_policies import command, measured, seconds_of, warm_up, watched


def parse_args():
    p = argparse.ArgumentParser(description="Measure when the tasks of a sweep are done.")
    p.add_argument("--bin", required=True, help="folder that holds rad and radd")
    p.add_argument("--out", required=True, type=pathlib.Path, help="file of JSON lines")
    p.add_argument("--task", default="vit-b32", help="one of run_first.py (default %(default)s)")
    p.add_argument("--count", type=int, default=5, metavar="N", help="tasks of the sweep (default 5)")
    p.add_argument("--orders", default="plan,backfill", help="values of the setting (default %(default)s)")
    p.add_argument("--scale", type=float, default=10.0, help="steps of the task times this (default 10)")
    p.add_argument("--gpu", type=int, default=0, metavar="INDEX", help="which (default 0)")
    p.add_argument("--look", type=float, default=20, metavar="S", help="when who waits is asked why, after submission (default 20)")
    p.add_argument("--deadline", type=float, default=800, metavar="S", help="of one sweep (default 800)")
    p.add_argument("--sim", action="store_true", help="a simulated GPU, and `rad simtask` as the tasks")
    args = p.parse_args()
    args.gpus, args.task = 1, next(t for t in TASKS if t.name == args.task)
    return args


def sweep(args, order):
    row = {"order": order, "task": args.task.name, "count": args.count, "scale": args.scale, "sim": args.sim,
           "started": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())}
    seen = {"tasks": []}
    with measured(order, seen) as ws:
        rad = Rad(args.bin, ws, "sim:1xa100-40g" if args.sim else f"nvml:{args.gpu}", f"order: {order}\n")
        with watched(args, rad, seen, args.gpu):
            taught = rad.submit(args.task.name, command(args, args.task))
            rad.wait_all([taught], args.deadline)
            row["alone_s"] = rad.show(taught)["run_s"]
            ids = [rad.submit(args.task.name, command(args, args.task)) for _ in range(args.count)]
            time.sleep(args.look)
            row["why"] = [rad.run("why", i, check=False).stdout for i in ids]
            rad.wait_all(ids, args.deadline)
            seen["tasks"] = [rad.show(i) for i in ids]
            row["each"] = [told(rad, i, args.task) for i in ids]
    if "metrics" in seen:
        first = min(seconds_of(t["submit_time"]) for t in seen["tasks"])
        row.update(seen["metrics"], ends_s=sorted(round(seconds_of(t["end_time"]) - first, 1) for t in seen["tasks"]))
    else:
        row.update(error=seen.get("error", "not all ended"), radd_log=seen["radd_log"][-4000:])
    return row


def main():
    args, failed = parse_args(), 0
    if not args.sim:
        warm_up(args.out.parent)
    for order in args.orders.split(","):
        row = sweep(args, order)
        with open(args.out, "a", encoding="utf-8") as f:
            f.write(json.dumps(row) + "\n")
        failed += "error" in row
        say(order, {k: row.get(k) for k in ("alone_s", "trace_total_s", "avg_jct_s", "ends_s", "energy_j", "error")})
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
