#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs the same tasks under several policies on a real GPU, and says what each policy cost and saved.

    bench/hardware/run_policies.py --bin dist/rad/bin --out results            # on a GPU
    bench/hardware/run_policies.py --bin build --out results --sim             # on a simulated one
    bench/hardware/run_policies.py --bin dist/rad/bin --out results --check --gpus 2     # for simulate_policies.py

Per policy: a private radd, all tasks submitted at once, measured through rad's JSON and, beside it, once a second through
NVML by this program. Writes OUT/policy-NAME.json after each policy; table.py makes the table. It changes no setting of the GPU.

With --check the tasks run one a GPU first, and the policies after that know of them what a server learns from such a run;
simulate_policies.py then says what the simulator makes of the same tasks from the same knowledge.
"""
import argparse
import contextlib
import datetime
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
import traceback

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import nvml
from common import Rad, WORKLOADS, Workspace, in_turn, last_json, save, say, tail, train, wait_for
from mix import CHECK, LIAR, QUICK, TASKS, WIDE
from scripts import Script

# name: placement, share, whether the tasks' memory is declared, further settings
POLICIES = {
    "exclusive": ("exclusive", "never", False, ()),
    "streams-rr": ("rr", "streams", False, ()),
    "mps-rr": ("rr", "mps", False, ()),
    "mps-magm": ("magm", "mps", True, ()),
    "streams-magm": ("magm", "streams", True, ()),
    "mps-gain": ("gain", "mps", True, ("order: backfill",)),
    "plan": ("gain", "mps", True, ("order: plan",)),
    "mps-packed": ("magm", "mps", True, ("max_smact: off", "max_tasks: off")),  # memory alone decides
}
DEFAULT = ("exclusive", "streams-rr", "mps-rr", "mps-magm")
CHECKED = ("exclusive", "mps-magm", "plan", "mps-gain", "streams-magm")


def parse_args():
    p = argparse.ArgumentParser(description="Compare policies on the same tasks, on a real GPU or a simulated one.")
    p.add_argument("--bin", required=True, help="folder that holds rad and radd")
    p.add_argument("--out", required=True, help="folder for the results")
    p.add_argument("--policies", help=f"some of {', '.join(POLICIES)} (default: {', '.join(DEFAULT)}; with --check "
                   f"{', '.join(CHECKED)})")
    p.add_argument("--scale", type=float, default=1.0, help="steps of every task times this (default 1)")
    p.add_argument("--check", action="store_true", help="fewer tasks, one that takes more memory than said, no holder; what the "
                   "first policy teaches is known to the others")
    p.add_argument("--quick", action="store_true", help="four tasks, a third of the steps")
    p.add_argument("--leave", type=int, default=40960, metavar="MIB",
                   help="a holder takes the rest, but for exclusive; 0: none (default 40960)")
    p.add_argument("--gpus", type=int, default=1, metavar="N",
                   help="how many the machine has; with more than one there are tasks of two, and no holder (default 1)")
    p.add_argument("--deadline", type=float, default=240, metavar="S", help="per policy (default 240)")
    p.add_argument("--budget", type=float, default=570, metavar="S", help="for all policies together (default 570)")
    p.add_argument("--config", default="", metavar="TEXT", help="more lines for rad's configuration; \\n between them")
    p.add_argument("--sim", action="store_true", help="simulated GPU, `rad simtask` as the tasks")
    args = p.parse_args()
    args.policies = args.policies.split(",") if args.policies else list(CHECKED if args.check else DEFAULT)
    unknown = set(args.policies) - set(POLICIES)
    if unknown:
        p.error(f"no such policy: {', '.join(sorted(unknown))}; there are {', '.join(POLICIES)}")
    if args.quick:
        args.scale /= 3
    args.tasks = [t for t in TASKS if not args.quick or t.name in QUICK]
    if args.gpus > 1:
        args.leave = 0
        for at, task in WIDE.items():
            args.tasks.insert(at, task)
    if args.check:
        args.leave = 0
        every = {t.name: t for t in [*args.tasks, LIAR]}
        args.tasks = [every[name] for name in CHECK if name in every]
    return args


def config_text(policy, extra):
    placement, share, _, settings = POLICIES[policy]
    # The holder is a foreign process: the GPU is to be used all the same. The tasks take seconds, not hours, so the
    # window of the load must be short too.
    return "\n".join([f"placement: {placement}", f"share: {share}", "order: fifo", "foreign: share", "window: 10", "settle: 3", "warm: 4",
                      *settings, *extra.split("\\n"), ""])


def command(args, task):
    if isinstance(task, Script):
        return task.command
    if args.sim:
        return [str(pathlib.Path(args.bin).resolve() / "rad"), "simtask", "--mem",
                str(task.takes_mib or task.mem_mib * 9 // 10), "--seconds",
                str(round(task.seconds * args.scale, 2)), "--gract", str(task.gract), "--smact", str(task.smact)]
    return train(*task.args.split(), "--steps", max(5, round(task.steps * args.scale)))


@contextlib.contextmanager
def holder(args, ws, policy):
    """Makes the GPU scarce while it lasts. Gives what the holder said. One task a GPU never lacks memory, and a GPU that a
    foreign process uses is never idle: so `exclusive` runs without a holder."""
    if args.sim or not args.leave or policy == "exclusive":
        yield None
        return
    log = ws.dir / "hold.log"
    with open(log, "w") as f:
        process = subprocess.Popen([sys.executable, str(WORKLOADS / "hold.py"), "--leave", str(args.leave)], stdout=f, stderr=f,
                                   env=ws.env)

    def ready():
        if process.poll() is not None:
            raise RuntimeError(f"hold.py: {tail(log)}")
        return "ready:" in (tail(log) or "")
    try:
        wait_for("hold.py to take memory", 60, ready)
        yield tail(log).strip()
    finally:
        process.terminate()
        process.wait(20)


def mean(values):
    values = [v for v in values if v is not None]
    return sum(values) / len(values) if values else None


def seconds_of(iso):
    """An ISO 8601 time as seconds since 1970."""
    return datetime.datetime.fromisoformat(iso.replace("Z", "+00:00")).timestamp()


def counter_at(samples, name, t):
    """A counter's value at a time, between the samples around it; None outside of them."""
    points = [(s["t"], s[name]) for s in samples if s.get(name) is not None]
    for (t0, v0), (t1, v1) in zip(points, points[1:]):
        if t0 <= t <= t1:
            return v0 + (v1 - v0) * ((t - t0) / (t1 - t0) if t1 > t0 else 0)
    return None


def metrics(tasks, samples):
    """The trace metrics of section 6.3.4 of the dissertation, and what the second witness saw between the first submission and
    the last end. Times from rad, activity and energy from the samples."""
    begin = min(seconds_of(t["submit_time"]) for t in tasks)
    end = max(seconds_of(t["end_time"]) for t in tasks if t["end_time"])
    seen = [s for s in samples if begin <= s["t"] <= end]
    energy = counter_at(samples, "energy_j", begin), counter_at(samples, "energy_j", end)
    attempts = [a for t in tasks for a in t["attempts"]]
    return {
        "tasks": len(tasks),
        "completed": sum(t["state"] == "COMPLETED" for t in tasks),
        "trace_total_s": end - begin,
        "avg_wait_s": mean(t["wait_s"] for t in tasks),
        "avg_exec_s": mean(t["run_s"] for t in tasks),
        "avg_jct_s": mean(t["jct_s"] for t in tasks),
        "mean_smact": mean(s.get("smact") for s in seen),
        "mean_gract": mean(s.get("gract") for s in seen),
        "mean_power_w": mean(s.get("power_w") for s in seen),
        "max_used_mib": max((s["used_mib"] for s in seen if s.get("used_mib") is not None), default=None),
        "energy_j": None if None in energy else energy[1] - energy[0],
        "oom": sum(a["verdict"] == "oom" for a in attempts),
        "neighbours_lost": sum(a["verdict"] == "neighbour" for a in attempts),
        "attempts": len(attempts),
    }


def together(readings):
    """Readings of several GPUs at one time, as one: sums of memory, power and energy, means of activity; and each by itself. One
    of one is itself."""
    if len(readings) == 1:
        return readings[0]
    out = {"t": readings[0]["t"], "each": [{k: r.get(k) for k in ("power_w", "energy_j", "smact", "gract")} for r in readings]}
    for name in ("used_mib", "power_w", "energy_j", "smact", "gract"):
        values = [r[name] for r in readings]
        known = None not in values
        out[name] = (sum(values) if name in ("used_mib", "power_w", "energy_j") else mean(values)) if known else None
    return out


def nvml_reader(n, first=0):
    gpus = [nvml.Gpu(first + i) for i in range(n)]
    return lambda: together([gpu.read() for gpu in gpus])


def rad_reader(rad):
    """The reading of simulated GPUs, which NVML does not know."""
    def read():
        return together([{"t": round(time.time(), 3), "used_mib": gpu["mem_used_mib"], "power_w": gpu["power_w"],
                          "energy_j": gpu["energy_j"], "smact": gpu["smact_now"], "gract": gpu["gpu_util"]}
                         for gpu in rad.json("gpus")["gpus"]])
    return read


def run_tasks(args, policy, rad, result, deadline_s, options_of):
    """Submits all tasks at once, waits for their ends, and has what they did in the result. `options_of`: a task's options."""
    ids = {rad.submit(task.name, command(args, task), "--gpus", task.gpus, *options_of(task)): task for task in args.tasks}
    say(f"{policy}: {len(ids)} tasks submitted")
    try:
        rad.wait_all(ids, deadline_s)
    except TimeoutError as e:
        result["error"] = str(e)
        result["why"] = {i: rad.run("why", i, check=False).stdout for i in ids}
        say(f"{policy}: {e}")
    result["tasks"] = [rad.show(i) for i in ids]
    result["output"] = {t.name: tail(rad.output(t.name), 3000) for t in ids.values()}
    result["summary"] = {name: last_json(text) for name, text in result["output"].items()}
    result["acct"] = rad.run("acct", "--json", check=False).stdout
    result["report"] = last_json(rad.run("report", "--json", "-S", result["started"], "--title", f"{policy}, measured",
                                         check=False).stdout)
    for task in result["tasks"]:
        if task["state"] != "COMPLETED":
            say(f"{policy}: {task['name']} is {task['state']}: {(result['output'][task['name']] or '').strip()[-300:]}")


def only_files(folder, names):
    """For copytree: no sockets and locks of a daemon that is gone."""
    return [n for n in names if not (pathlib.Path(folder, n).is_file() or pathlib.Path(folder, n).is_dir())]


@contextlib.contextmanager
def watched(args, rad, result, first=0):
    """The daemon runs meanwhile, and another witness looks at the GPUs, of which that is the first, once a second; what he saw is in the
    result."""
    rad.start()
    result["gpus_before"] = rad.json("gpus")
    logger = nvml.Logger(rad_reader(rad) if args.sim else nvml_reader(args.gpus, first))
    logger.start()
    try:
        yield
    finally:
        result["samples"] = logger.stop()
        if not rad.died():
            result["gpus_after"] = rad.json("gpus")
        rad.stop()


@contextlib.contextmanager
def measured(name, result):
    """A workspace for one run. Never raises: what went wrong is part of the result, as is what comes of the run in the end."""
    with Workspace() as ws:
        try:
            yield ws
        except Exception:
            result["error"] = traceback.format_exc()
            say(f"{name}: {result['error']}")
        result["radd_log"] = tail(ws.dir / "radd.log", 64 << 10)
    if result["tasks"] and all(t["end_time"] for t in result["tasks"]):
        result["metrics"] = metrics(result["tasks"], result["samples"])


def declared(task):
    return ["--gpu-mem", f"{task.mem_mib}M"]


def run_policy(args, policy, deadline_s, learnt):
    """`learnt`: the state of a daemon before, from where it is there; with --check, else, the place for this one's."""
    result = {"policy": policy, "sim": args.sim, "scale": args.scale, "leave_mib": None if args.sim else args.leave,
              "started": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "tasks": []}
    with measured(policy, result) as ws:
        result["config"] = config_text(policy, args.config)
        with holder(args, ws, policy) as held:
            result["holder"] = held
            rad = Rad(args.bin, ws, f"sim:{args.gpus}xa100-40g" if args.sim else "nvml", result["config"])
            if learnt.is_dir():
                shutil.copytree(learnt, rad.state)
            result["learnt"] = learnt.is_dir()
            try:
                with watched(args, rad, result):
                    run_tasks(args, policy, rad, result, deadline_s, declared if POLICIES[policy][2] else lambda task: [])
            finally:
                if args.check and not learnt.is_dir():
                    shutil.copytree(rad.state, learnt, ignore=only_files)
    return result


def warm_up(out):
    """The first start of PyTorch on a machine reads gigabytes from disk; no policy should pay for that."""
    begin = time.monotonic()
    runs = {model: subprocess.Popen(train("--model", model, "--batch-size", 4, "--image-size", 32, "--steps", 3),
                                    stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for model in ("resnet18", "bert-base")}
    for model, run in runs.items():
        stdout, stderr = run.communicate(timeout=180)
        say(f"warm-up {model}: exit {run.returncode}, {time.monotonic() - begin:.1f} s")
        if run.returncode:
            save(out / "warm-up-failed.json", {"stdout": stdout, "stderr": stderr})
            sys.exit(f"{model} does not run here: {stderr.strip()[-500:]}")


def tell(name, result):
    say(f"{name}:", {k: round(v, 3) if isinstance(v, float) else v for k, v in result.get("metrics", {}).items()})


def main():
    args = parse_args()
    out = pathlib.Path(args.out)
    out.mkdir(parents=True, exist_ok=True)
    begin = time.monotonic()
    if not args.sim:
        if not shutil.which("nvidia-cuda-mps-control"):
            say("note: no nvidia-cuda-mps-control here; mps policies will fail")
        warm_up(out)
    with tempfile.TemporaryDirectory() as kept:

        def measure(policy, left_s):
            result = run_policy(args, policy, min(args.deadline, left_s), pathlib.Path(kept, "learnt"))
            save(out / f"policy-{policy}.json", result)
            tell(policy, result)
            return "metrics" in result and result["metrics"]["completed"] == len(args.tasks)
        return 1 if in_turn(args.policies, args.budget - (time.monotonic() - begin), measure) else 0


if __name__ == "__main__":
    sys.exit(main())
