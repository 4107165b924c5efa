#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs a trace of the dissertation's chapter 6 on real GPUs, scaled in time, once for each estimator of memory.

    bench/hardware/run_trace.py --bin dist/rad/bin --trace philly-60.csv --workloads workloads.csv --summaries model-summaries \
        --out results --gpus 2 --scale 200

Tasks come `--scale` times as fast as in the trace, and each trains for so many times fewer steps than it took on the authors'
machine; their models are train.py's, with the nearest one for those that it does not have. All memory but --leave is held, so that
a GPU is as small as theirs. `exclusive` knows nothing of memory and needs nothing; `none`, `gpumemnet` (from the summaries) and
`replay` (captures, made before the trace begins) place by magm under MPS. Writes OUT/trace-ESTIMATOR.json after each.
"""
import argparse
import contextlib
import csv
import pathlib
import shutil
import subprocess
import sys
import time
import traceback

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from common import Rad, WORKLOADS, Workspace, save, say, tail, train, wait_for
from run_policies import metrics, seconds_of, watched

# Model: what train.py is given. Fixed by the dissertation's table 4.1: image sizes, sequences, full precision of transformers.
IMAGES = "--optimizer momentum"
SMALL = "--image-size 32 --optimizer momentum"
MODELS = {
    "BERT_base": "--model bert-base --seq-len 512 --precision fp32", "BERT_large": "--model bert-large --seq-len 512 --precision fp32",
    "inception": f"--model inception_v3 --image-size 299 {IMAGES}", "Xception": f"--model inception_v3 --image-size 299 {IMAGES}",
    "efficientnet_b0": f"--model efficientnet_b0 {IMAGES}", "mobilenet_v2": f"--model mobilenet_v2 {IMAGES}",
    "resnet50": f"--model resnet50 {IMAGES}", "vgg16": f"--model vgg16 {IMAGES}", "resnet18": f"--model resnet18 {SMALL}",
    "resnet34": f"--model resnet34 {SMALL}", "mobilenetv3_small": f"--model mobilenet_v3_small {SMALL}",
    "mnist_train": "--model mlp --optimizer sgd", "gpt2_large": "--model gpt2-large --seq-len 512 --precision fp32",
    "xlnet_base": "--model xlnet-base --seq-len 512 --precision fp32", "xlnet_large": "--model xlnet-large --seq-len 512 --precision fp32",
}
# Summary files are named model_batch; those of several names are listed.
SUMMARIES = {"BERT_base": "BERT_base", "BERT_large": "BERT_large", "inception": "Inception", "Xception": "Xception",
             "efficientnet_b0": "efficientnet", "mobilenet_v2": "mobilenet", "resnet50": "resnet50", "vgg16": "vgg",
             "gpt2_large": "gpt2_large", "xlnet_base": "xlnet_base_cased", "mnist_train": "mnist_cnn", "resnet18": "resnet18_cifar100",
             "resnet34": "resnet34_cifar100"}
ESTIMATORS = ("exclusive", "none", "gpumemnet", "replay")
LEAST_STEPS = 8
CAPTURES_AT_A_TIME = 4
CAPTURE_S = 300


def parse_args():
    p = argparse.ArgumentParser(description="Run a trace, scaled in time, with each estimator.")
    p.add_argument("--bin", required=True, type=pathlib.Path, help="folder that holds rad and radd")
    p.add_argument("--trace", required=True, type=pathlib.Path, help="columns submit_s,workload")
    p.add_argument("--workloads", required=True, type=pathlib.Path, help="its workloads, with h200_steps_per_s and solo_s_a100")
    p.add_argument("--summaries", type=pathlib.Path, help="folder of model summaries, for gpumemnet")
    p.add_argument("--out", required=True, type=pathlib.Path)
    p.add_argument("--estimators", default="exclusive,none,gpumemnet,replay", help="some of these")
    p.add_argument("--scale", type=float, default=200, help="times faster than the trace (default 200)")
    p.add_argument("--tasks", type=int, default=10 ** 6, metavar="N", help="only the first N")
    p.add_argument("--gpus", type=int, default=2)
    p.add_argument("--leave", type=int, default=40960, metavar="MIB", help="memory of each GPU that is not held (default 40960)")
    p.add_argument("--deadline", type=float, default=570, metavar="S", help="per estimator (default 570)")
    p.add_argument("--sim", action="store_true", help="simulated A100s, `rad simtask` as the tasks")
    args = p.parse_args()
    args.estimators = args.estimators.split(",")
    if unknown := set(args.estimators) - set(ESTIMATORS):
        p.error(f"no such estimator: {', '.join(sorted(unknown))}; there are {', '.join(ESTIMATORS)}")
    return args


def read_trace(args):
    """[(seconds from the start, name, row of the workload)]; leaves out workloads that have no figures."""
    with open(args.workloads) as f:
        known = {r["workload"]: r for r in csv.DictReader(f)}
    with open(args.trace) as f:
        rows = [(float(r["submit_s"]), r["workload"]) for r in csv.DictReader(f)][:args.tasks]
    missing = {name for _, name in rows if key_of(known[name]) not in MODELS or not known[name]["solo_s_a100"]}
    if missing:
        say(f"left out, since train.py has nothing like them: {', '.join(sorted(missing))}")
    first = rows[0][0]
    return [((at - first) / args.scale, f"{n:02}-{name}", known[name]) for n, (at, name) in enumerate(rows) if name not in missing]


def key_of(workload):
    return workload["workload"] if workload["workload"] in MODELS else workload["model"]


def words_of(workload, scale):
    """train.py's arguments: as many steps as fill the scaled time at the speed that was measured alone."""
    gpus = int(workload["gpus"])
    rate = float(workload["h200_steps_per_s"] or 10)
    steps = max(LEAST_STEPS, round(rate * float(workload["solo_s_a100"]) / scale))
    return [*MODELS[key_of(workload)].split(), "--batch-size", max(1, int(workload["batch_size"]) // gpus), "--gpus", gpus, "--steps",
            steps]


def command_of(args, workload):
    if not args.sim:
        return train(*words_of(workload, args.scale))
    return [str(args.bin.resolve() / "rad"), "simtask", "--mem", workload["mem_mib_2025"], "--seconds",
            f"{max(2, float(workload['solo_s_a100']) / args.scale):.1f}", "--gract", workload["a100_gract"] or "0.5", "--smact",
            workload["a100_smact"] or "0.4"]


def summary_of(args, workload):
    """The nearest summary file of that model; None: there is none."""
    name = SUMMARIES.get(key_of(workload))
    files = sorted(args.summaries.glob(f"{name}*.model")) if name and args.summaries else []
    exact = [f for f in files if f.stem == f"{name}_{workload['batch_size']}"]
    return (exact or files or [None])[0]


def capture_all(args, ws, rad, trace):
    """{workload: its capture}, made side by side; what cannot be captured is left out, and said."""
    todo, running, out = {w["workload"]: w for _, _, w in trace}, {}, {}
    end = time.monotonic() + CAPTURE_S
    while (todo or running) and time.monotonic() < end:
        while todo and len(running) < CAPTURES_AT_A_TIME:
            name, workload = todo.popitem()
            path = ws.dir / f"{name}.radcap"
            running[name] = path, subprocess.Popen([rad.bin / "rad", "capture", "-o", path, "--", *map(str, command_of(args, workload))],
                                                   env=ws.env, cwd=WORKLOADS, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for name, (path, process) in list(running.items()):
            if process.poll() is not None:
                del running[name]
                if process.returncode == 0:
                    out[name] = path
                else:
                    say(f"capture of {name}: exit {process.returncode}")
        time.sleep(0.2)
    return out


def options_of(args, estimator, workload, captures):
    options = ["--gpus", workload["gpus"]]
    if estimator == "gpumemnet" and (path := summary_of(args, workload)):
        options += ["--model", path, "--batch-size", workload["batch_size"]]
    if estimator == "replay" and workload["workload"] in captures:
        options += ["--capture", captures[workload["workload"]]]
    return options


@contextlib.contextmanager
def holders(args, ws):
    """Takes all but --leave of every GPU, while it lasts."""
    runs = []
    try:
        for n in range(0 if args.sim or not args.leave else args.gpus):
            log = ws.dir / f"hold-{n}.log"
            with open(log, "w") as f:
                runs.append((log, subprocess.Popen([sys.executable, str(WORKLOADS / "hold.py"), "--leave", str(args.leave)], stdout=f,
                                                   stderr=f, env={**ws.env, "CUDA_VISIBLE_DEVICES": str(n)})))
        for log, _ in runs:
            wait_for("hold.py to take memory", 60, lambda: "ready:" in (tail(log) or ""))
        yield
    finally:
        for _, run in runs:
            run.terminate()
        for _, run in runs:
            run.wait(20)


def submit_all(args, estimator, rad, trace, captures, end):
    begin, ids = time.monotonic(), {}
    for at, name, workload in trace:
        time.sleep(max(0.0, min(begin + at, end) - time.monotonic()))
        if time.monotonic() >= end:
            raise TimeoutError(f"{len(ids)} of {len(trace)} tasks were submitted in time")
        ids[rad.submit(name, command_of(args, workload), *options_of(args, estimator, workload, captures))] = name
    return ids


def run_one(args, estimator, trace):
    """Never raises: what went wrong is part of the result."""
    policy = "placement: exclusive\nshare: never\n" if estimator == "exclusive" else "placement: magm\nshare: mps\n"
    result = {"estimator": estimator, "sim": args.sim, "scale": args.scale, "gpus": args.gpus, "leave_mib": args.leave,
              "config": policy + "foreign: share\n", "tasks": []}
    with Workspace() as ws:
        try:
            rad = Rad(args.bin, ws, f"sim:{args.gpus}xa100-40g" if args.sim else "nvml", result["config"])
            captures = capture_all(args, ws, rad, trace) if estimator == "replay" and not args.sim else {}
            with holders(args, ws):
                with watched(args, rad, result):
                    try:
                        end = time.monotonic() + args.deadline
                        ids = submit_all(args, estimator, rad, trace, captures, end)
                        rad.wait_all(ids, max(1.0, end - time.monotonic()))
                    finally:
                        if not rad.died():
                            result["tasks"] = [rad.show(t) for t in rad.tasks()]
        except Exception:
            result["error"] = traceback.format_exc()
            say(f"{estimator}: {result['error']}")
        result["radd_log"] = tail(ws.dir / "radd.log", 64 << 10)
    if result["tasks"] and all(t["end_time"] for t in result["tasks"]):
        result["metrics"] = metrics(result["tasks"], result["samples"])
    return result


def main():
    args = parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    if not args.sim and not shutil.which("nvidia-cuda-mps-control"):
        sys.exit("run_trace.py: there is no nvidia-cuda-mps-control here")
    trace, base, failed = read_trace(args), None, 0
    say(f"{len(trace)} tasks, the last one {trace[-1][0]:.0f} s after the first")
    for estimator in args.estimators:
        result = run_one(args, estimator, trace)
        save(args.out / f"trace-{estimator}.json", result)
        found = result.get("metrics")
        failed += not found or found["completed"] < len(trace)
        base = base or found
        if found:
            wait = max(seconds_of(t["start_time"]) - seconds_of(t["submit_time"]) for t in result["tasks"] if t["start_time"])
            say(f"{estimator}: {found['trace_total_s']:.0f} s ({found['trace_total_s'] / base['trace_total_s'] - 1:+.0%}), "
                f"{found['oom']} OOM, {found['completed']}/{len(trace)} completed, longest wait {wait:.0f} s, "
                + (f"{found['energy_j'] / 1e3:.0f} kJ" if found["energy_j"] else "energy not known"))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
