#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs a trace of the dissertation's chapter 6 on real GPUs, scaled in time, once for each estimator of memory.

    bench/hardware/run_trace.py --bin dist/rad/bin --trace philly-60.csv --workloads workloads.csv --summaries model-summaries \
        --out results --gpus 2 --scale 200

Tasks come `--scale` times as fast as in the trace, and each trains for so many times fewer steps than it took on the authors'
machine; their models are train.py's, with the nearest one for those that it does not have. `exclusive` knows nothing of memory and needs
nothing; `none`, `gpumemnet` (from the summaries, or what `auto` makes of them) and `replay` (captures, made before the trace
begins) place by magm under MPS, `shipped` (no estimate) and `shipped-replay` as is shipped, while all memory but --leave is held, so
that a GPU is as small as theirs. Who holds it is a foreign process, and beside one no task is ever alone: so `exclusive` runs without
it, and tasks that ran out of memory ask for more instead of a GPU for themselves. What comes twice is known from its first run,
whatever the estimator. Writes OUT/trace-ESTIMATOR.json after each; what is there is not measured again; and of all that are there a
table, the lower bound (src/sim/bound.h) for tasks that do what they did in `exclusive`, and OUT/trace.svg.
"""
import argparse
import contextlib
import csv
import json
import pathlib
import shutil
import subprocess
import sys
import time
import traceback

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import captures
import gantt
import simulate_policies
from common import Rad, WORKLOADS, Workspace, in_turn, last_json, save, say, tail, train, wait_for
from run_first import MAGM, RUNS, bound_s
from run_policies import metrics, seconds_of, warm_up, watched
from table import ESTIMATORS, estimators_table, read

# Model: what train.py is given. Fixed by the dissertation's table 4.1: sequences, full precision of transformers; sizes of images by the
# dataset.
IMAGES = "--optimizer momentum"
MODELS = {
    "BERT_base": "--model bert-base --seq-len 512 --precision fp32", "BERT_large": "--model bert-large --seq-len 512 --precision fp32",
    "inception": f"--model inception_v3 {IMAGES}", "Xception": f"--model inception_v3 {IMAGES}",
    "efficientnet_b0": f"--model efficientnet_b0 {IMAGES}", "mobilenet_v2": f"--model mobilenet_v2 {IMAGES}",
    "resnet50": f"--model resnet50 {IMAGES}", "vgg16": f"--model vgg16 {IMAGES}", "resnet18": f"--model resnet18 {IMAGES}",
    "resnet34": f"--model resnet34 {IMAGES}", "mobilenetv3_small": f"--model mobilenet_v3_small {IMAGES}",
    "mnist_train": "--model mlp --optimizer sgd", "gpt2_large": "--model gpt2-large --seq-len 512 --precision fp32",
    "xlnet_base": "--model xlnet-base --seq-len 512 --precision fp32", "xlnet_large": "--model xlnet-large --seq-len 512 --precision fp32",
}
SMALL = ("cifar100",)  # datasets with images of 32 pixels
LARGE = {"inception": 299, "Xception": 299}
# Summary files are named model_batch; those of several names are listed.
SUMMARIES = {"BERT_base": "BERT_base", "BERT_large": "BERT_large", "inception": "Inception", "Xception": "Xception",
             "efficientnet_b0": "efficientnet", "mobilenet_v2": "mobilenet", "resnet50": "resnet50", "vgg16": "vgg",
             "gpt2_large": "gpt2_large", "xlnet_base": "xlnet_base_cased", "mnist_train": "mnist_cnn", "resnet18": "resnet18_cifar100",
             "resnet34": "resnet34_cifar100"}
SMALL_SUMMARIES = {"efficientnet_b0": "efficientNet_cifar100", "resnet18": "resnet18_cifar100", "resnet34": "resnet34_cifar100"}
# Tasks take seconds instead of hours: so the windows of the load are short, too.
SETTINGS = "foreign: share\nrecovery: grow\nwindow: 10\nsettle: 3\nwarm: 4\n"
POLICIES = {"exclusive": RUNS["exclusive"].settings, "shipped": "", "shipped-replay": ""}
OTHERS = MAGM + "share: mps\n"
WITH_CAPTURES = ("replay", "shipped-replay")
LEAST_STEPS = 8
CAPTURES_AT_A_TIME = 8
CAPTURE_S = 180


def parse_args():
    p = argparse.ArgumentParser(description="Run a trace, scaled in time, with each estimator.")
    p.add_argument("--bin", required=True, type=pathlib.Path, help="folder that holds rad and radd")
    p.add_argument("--trace", required=True, type=pathlib.Path, help="columns submit_s,workload")
    p.add_argument("--workloads", required=True, type=pathlib.Path, help="its workloads, with h200_steps_per_s and solo_s_a100")
    p.add_argument("--summaries", type=pathlib.Path, help="folder of model summaries, for gpumemnet")
    p.add_argument("--out", required=True, type=pathlib.Path)
    p.add_argument("--estimators", default="exclusive,none,gpumemnet,replay", help=f"some of {', '.join(ESTIMATORS)} (default %(default)s)")
    p.add_argument("--scale", type=float, default=200, help="times faster than the trace (default 200)")
    p.add_argument("--tasks", type=int, default=10 ** 6, metavar="N", help="only the first N of those that can run here")
    p.add_argument("--gpus", type=int, default=1, metavar="N", help="how many the machine has; who needs more is left out (default 1)")
    p.add_argument("--leave", type=int, default=40960, metavar="MIB", help="memory of each GPU that is not held (default 40960)")
    p.add_argument("--deadline", type=float, default=300, metavar="S", help="per estimator (default 300)")
    p.add_argument("--budget", type=float, default=570, metavar="S", help="for all estimators together (default 570)")
    p.add_argument("--sim", action="store_true", help="simulated A100s, `rad simtask` as the tasks, declared memory for captures")
    p.add_argument("--table", action="store_true", help="measure nothing: table and picture of what is there")
    args = p.parse_args()
    args.estimators = args.estimators.split(",")
    if unknown := set(args.estimators) - set(ESTIMATORS):
        p.error(f"no such estimator: {', '.join(sorted(unknown))}; there are {', '.join(ESTIMATORS)}")
    if args.summaries and not (args.summaries.is_dir() and any(args.summaries.glob("*.model"))):
        p.error(f"{args.summaries} has no summaries (*.model)")
    if "gpumemnet" in args.estimators and not args.summaries and not args.table:
        p.error("gpumemnet needs --summaries")
    return args


def read_trace(args):
    """[(seconds from the start, name, row of the workload)]; leaves out what cannot run here, and says so."""
    with open(args.workloads) as f:
        known = {r["workload"]: r for r in csv.DictReader(f)}
    with open(args.trace) as f:
        rows = [(float(r["submit_s"]), r["workload"]) for r in csv.DictReader(f)]
    unlike = {name for _, name in rows if key_of(known[name]) not in MODELS or not known[name]["solo_s_a100"]}
    wide = {name for _, name in rows if int(known[name]["gpus"]) > args.gpus}
    for names, why in ((unlike, "train.py has nothing like them"), (wide - unlike, f"they need more GPUs than {args.gpus}")):
        if names:
            say(f"left out, since {why}: {', '.join(sorted(names))}")
    rows = [(at, name) for at, name in rows if name not in unlike | wide][:args.tasks]
    if not rows:
        sys.exit(f"run_trace.py: {args.trace} has no task that can run here")
    return [((at - rows[0][0]) / args.scale, f"{n:02}-{name}", known[name]) for n, (at, name) in enumerate(rows)]


def key_of(workload):
    return workload["workload"] if workload["workload"] in MODELS else workload["model"]


def is_small(workload):
    return any(workload["dataset"].lower().startswith(name) for name in SMALL)


def words_of(workload, scale):
    """train.py's arguments: as many steps as fill the scaled time at the speed that was measured alone."""
    model = key_of(workload)
    rate = float(workload["h200_steps_per_s"] or 10)
    steps = max(LEAST_STEPS, round(rate * float(workload["solo_s_a100"]) / scale))
    size = ["--image-size", 32 if is_small(workload) else LARGE.get(model, 224)] if IMAGES in MODELS[model] else []
    return [*MODELS[model].split(), *size, "--batch-size", batch_of(workload), "--gpus", int(workload["gpus"]), "--steps", steps]


def batch_of(workload):
    """Of one GPU."""
    return max(1, int(workload["batch_size"]) // int(workload["gpus"]))


def command_of(args, workload):
    if not args.sim:
        return train(*words_of(workload, args.scale))
    return [str(args.bin.resolve() / "rad"), "simtask", "--mem", workload["mem_mib_2025"], "--seconds",
            f"{max(2, float(workload['solo_s_a100']) / args.scale):.1f}", "--gract", workload["a100_gract"] or "0.5", "--smact",
            workload["a100_smact"] or "0.4"]


def summary_of(args, workload):
    """The nearest summary file of that model; None: there is none."""
    name = (SMALL_SUMMARIES if is_small(workload) else SUMMARIES).get(key_of(workload))
    files = sorted(args.summaries.resolve().glob(f"{name}*.model")) if name else []  # resolved: rad is run in another folder
    exact = [f for f in files if f.stem == f"{name}_{workload['batch_size']}"]
    return (exact or files or [None])[0]


def options_of(args, estimator, workload):
    options = ["--gpus", workload["gpus"]]
    if estimator == "gpumemnet" and (path := summary_of(args, workload)):
        options += ["--model", path, "--batch-size", batch_of(workload)]
    path = args.out.resolve() / "captures" / f"{workload['workload']}.radcap"
    if estimator in WITH_CAPTURES and args.sim:
        options += ["--gpu-mem", f"{workload['mem_mib_2025']}M"]
    elif estimator in WITH_CAPTURES and path.exists():
        options += ["--capture", path]
    return options


@contextlib.contextmanager
def holders(args, ws, estimator):
    """Takes all but --leave of every GPU, while it lasts; not for `exclusive`."""
    runs = []
    try:
        for n in range(0 if args.sim or not args.leave or estimator == "exclusive" else args.gpus):
            log = ws.dir / f"hold-{n}.log"
            with open(log, "w") as f:
                runs.append((log, subprocess.Popen([sys.executable, str(WORKLOADS / "hold.py"), "--leave", str(args.leave),
                                                    "--gpu", str(n)],
                                                   stdout=f, stderr=f, env=ws.env)))
        for log, run in runs:
            wait_for("hold.py to take memory", 60, lambda: run.poll() is not None or "ready:" in (tail(log) or ""))
            if run.poll() is not None:
                raise RuntimeError(f"hold.py: {tail(log)}")
        yield
    finally:
        for _, run in runs:
            run.terminate()
        for _, run in runs:
            run.wait(20)


def submit_all(args, estimator, rad, trace, end):
    begin, ids = time.monotonic(), {}
    for at, name, workload in trace:
        time.sleep(max(0.0, min(begin + at, end) - time.monotonic()))
        if time.monotonic() >= end:
            raise TimeoutError(f"{len(ids)} of {len(trace)} tasks were submitted in time")
        ids[rad.submit(name, command_of(args, workload), *options_of(args, estimator, workload))] = name
    return ids


def run_one(args, estimator, trace, deadline_s):
    """Never raises: what went wrong is part of the result."""
    result = {"estimator": estimator, **settings_of(args, trace), "config": POLICIES.get(estimator, OTHERS) + SETTINGS, "tasks": []}
    with Workspace() as ws:
        try:
            rad = Rad(args.bin, ws, f"sim:{args.gpus}xa100-40g" if args.sim else "nvml", result["config"])
            with holders(args, ws, estimator), watched(args, rad, result):
                try:
                    end = time.monotonic() + deadline_s
                    ids = submit_all(args, estimator, rad, trace, end)
                    rad.wait_all(ids, max(1.0, end - time.monotonic()))
                finally:
                    if not rad.died():
                        result["tasks"] = [rad.show(t) for t in rad.tasks()]
                        result["output"] = {t["name"]: tail(rad.output(t["name"]), 3000) for t in result["tasks"]}
        except Exception:
            result["error"] = traceback.format_exc()
            say(f"{estimator}: {result['error']}")
        result["radd_log"] = tail(ws.dir / "radd.log", 64 << 10)
    if len(result["tasks"]) == len(trace) and all(t["end_time"] for t in result["tasks"]):
        result["metrics"] = metrics(result["tasks"], result["samples"])
    return result


def settings_of(args, trace):
    """What must be the same in all results of a folder."""
    return {"sim": args.sim, "scale": args.scale, "gpus": args.gpus, "leave_mib": args.leave, "trace": [name for _, name, _ in trace]}


def results_of(args, trace):
    """{estimator: result} of those that are there."""
    found = {}
    for name in ESTIMATORS:
        for path in (p for end in ("json", "json.gz") if (p := args.out / f"trace-{name}.{end}").exists()):
            found[name] = json.loads(read(path))
            if other := [k for k, v in settings_of(args, trace).items() if found[name].get(k) != v]:
                sys.exit(f"run_trace.py: {path} was measured with another {' and '.join(other)}: take another --out")
    return found


def prepare(args, trace, todo):
    """The first start of PyTorch on a machine, and captures, are in nobody's time."""
    if not shutil.which("nvidia-cuda-mps-control"):
        sys.exit("run_trace.py: there is no nvidia-cuda-mps-control here")
    warm_up(args.out)
    if set(WITH_CAPTURES) & set(todo):
        with Workspace() as ws:
            made = captures.make(args.bin.resolve() / "rad", args.out / "captures",
                                 {w["workload"]: command_of(args, w) for _, _, w in trace}, ws.env, CAPTURES_AT_A_TIME, CAPTURE_S,
                                 gpus={w["workload"]: int(w["gpus"]) for _, _, w in trace})
        say(f"captures: {({name: m['seconds'] for name, m in made.items()})}")


def tell(estimator, result, base):
    found = result.get("metrics")
    if not found:
        return
    waits = [seconds_of(t["start_time"]) - seconds_of(t["submit_time"]) for t in result["tasks"] if t["start_time"]]
    say(f"{estimator}: {found['trace_total_s']:.0f} s"
        + (f" ({found['trace_total_s'] / base['trace_total_s'] - 1:+.0%})" if base and base is not found else "")
        + f", {found['oom']} OOM, {found['completed']}/{found['tasks']} completed, longest wait {max(waits, default=0):.0f} s, "
        + (f"{found['energy_j'] / 1e3:.0f} kJ" if found["energy_j"] else "energy not known"))


def show(args, found):
    """Prints the table and the bound, and draws the picture, as far as there is something of each."""
    print(estimators_table(found))
    drawn = [(f"{ESTIMATORS[name]}: {r['metrics']['trace_total_s']:.0f} s",
              [(name_of.split("-", 1)[1], *rest) for name_of, *rest in simulate_policies.measured_spans(r)], {})
             for name, r in found.items() if "metrics" in r]
    if drawn:
        (args.out / "trace.svg").write_text(gantt.picture(drawn, "Tasks on GPUs over time; with a red edge: lost"))
    if "metrics" in found.get("exclusive", {}):
        alone = {**found["exclusive"], "policy": "exclusive"}
        alone["summary"] = {name: last_json(text) for name, text in alone["output"].items()}
        try:
            print(f"lower bound: {bound_s(args.bin.resolve() / 'rad', {'exclusive': alone}):.1f} s")
        except SystemExit as why:
            say(f"no lower bound: {why}")


def main():
    args, begin = parse_args(), time.monotonic()
    args.out.mkdir(parents=True, exist_ok=True)
    trace = read_trace(args)
    found = results_of(args, trace)
    todo = [] if args.table else [name for name in args.estimators if "metrics" not in found.get(name, {})]
    say(f"{len(trace)} tasks, the last one {trace[-1][0]:.0f} s after the first; to measure: {', '.join(todo) or 'nothing'}")
    if todo and not args.sim:
        prepare(args, trace, todo)

    def measure(estimator, left_s):
        found[estimator] = run_one(args, estimator, trace, min(args.deadline, left_s))
        save(args.out / f"trace-{estimator}.json", found[estimator])
        tell(estimator, found[estimator], found.get("exclusive", {}).get("metrics"))
        return found[estimator].get("metrics", {}).get("completed") == len(trace)
    failed = in_turn(todo, args.budget - (time.monotonic() - begin), measure)
    show(args, {name: found[name] for name in ESTIMATORS if name in found})
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
