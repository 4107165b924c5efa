# SPDX-License-Identifier: MIT
"""A month in fast motion: tasks by the thousand (each a real shim and program that writes into the ledger), arrays one after
the other, while the wall clock goes through 30 days. Memory, descriptors, latency and the size of the store are looked at on the
way, one line each; the store is folded by rule meanwhile. In the end every task must have run once, and nothing may have grown
with their number."""
import json
import os
import statistics
import time

from check import check_clean
from load import seeded
from world import World, become_reaper, until

DAYS = 30
ARRAY = 250


def of_process(pid):
    with open(f"/proc/{pid}/status") as f:
        rss = next(int(line.split()[1]) for line in f if line.startswith("VmRSS:")) / 1024
    with open(f"/proc/{pid}/stat") as f:
        fields = f.read().rpartition(")")[2].split()
    return {"rss_mib": round(rss, 1), "descriptors": len(os.listdir(f"/proc/{pid}/fd")),
            "cpu_s": round((int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK"), 1)}


def latency_ms(connection, rng):
    took = []
    for _ in range(20):
        before = time.monotonic()
        connection.call(rng.choice(["status", "gpus"]))
        took.append(1000 * (time.monotonic() - before))
        time.sleep(rng.uniform(0, 0.02))
    return {"latency_p50_ms": round(statistics.median(took), 2), "latency_max_ms": round(max(took), 2)}


def sizes(world):
    found = {}
    for name in ("rad.db", "rad.db-wal", "radd.log"):
        path = world.log if name == "radd.log" else f"{world.state}/{name}"
        found[name + "_mib"] = round(os.path.getsize(path) / 2**20, 2) if os.path.exists(path) else 0
    return found


def submit(world, connection, n, rng):
    spec = {"argv": [f"{world.build}/tests/torture/torture-task", world.ledgers[world.users[0]], "0", "0"], "cwd": "/tmp",
            "name": f"p{rng.randrange(50)}", "output": "/dev/null", "gpu_mem_mib": 500, "array": list(range(n))}
    return connection.call("submit", spec=spec, environ=["PATH=/usr/bin:/bin", "PADDING=" + "x" * 2000])["id"]


def started(world):
    seen = {}
    with open(world.ledgers[world.users[0]]) as f:
        for line in f:
            if line[0] == "S":
                task = line.split()[1]
                seen[task] = seen.get(task, 0) + 1
    return seen


def run(args):
    """Prints and keeps a line for each sample, and one of the whole. Returns 1 if something is wrong."""
    become_reaper()
    rng = seeded(args.seed, "month")
    world = World(args.build, devices="sim:8xa100-40g", users=[os.geteuid()], config={
        "fold_after": 3600, "forget_after": "2d", "keep_tasks": max(1000, args.tasks // 10)})
    lines, wrong, submitted, began = [], [], 0, time.monotonic()

    def keep(line):
        print(json.dumps(line), flush=True)
        lines.append(line)
        if args.out:
            with open(args.out, "a") as f:
                f.write(json.dumps(line) + "\n")
    why = world.start()
    connection = world.connect(timeout=60)
    next_sample = 0
    while not why and submitted < args.tasks:
        submit(world, connection, ARRAY, rng)
        submitted += ARRAY
        world.set_clock(int(DAYS * 86400 * submitted / args.tasks))
        until(600, lambda: len(connection.call("list", members=["id"])["tasks"]) < ARRAY)
        world.reap()    # shims: who never asks for them has used up the machine's processes after some 30,000 tasks
        if submitted >= next_sample:
            next_sample += args.tasks / 30
            keep({"month": "sample", "tasks": submitted, "s": round(time.monotonic() - began, 1), **of_process(world.radd.pid),
                  **sizes(world), **latency_ms(connection, rng)})
    until(120, lambda: not connection.call("list", members=["id"])["tasks"])
    seen = started(world)
    wrong += [f"{submitted - len(seen)} tasks never ran"] if len(seen) != submitted else []
    wrong += [f"RAN TWICE: {t}" for t, n in seen.items() if n > 1][:10]
    wrong += check_clean(world, connection)
    time.sleep(args.rest)       # what is due by rule is done some minutes after a start
    third = len(lines) // 3
    early, late = lines[third:2 * third], lines[2 * third:]
    growth = {k: round(statistics.mean(x[k] for x in late) / max(statistics.mean(x[k] for x in early), 0.01), 2)
              for k in ("rss_mib", "descriptors", "latency_p50_ms")} if third else {}
    wrong += [f"{k} grows by {v} from the second third to the last" for k, v in growth.items() if v > 1.3]
    keep({"month": "whole", "seed": args.seed, "tasks": submitted, "ran": len(seen),
          "took_s": round(time.monotonic() - began), "growth": growth,
          "end": {**of_process(world.radd.pid), **sizes(world)}, "wrong": wrong})
    world.end()
    return bool(wrong)
