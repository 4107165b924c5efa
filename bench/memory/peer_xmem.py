#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Captures beside what xMem's authors published of xMem, on their own trainings; no GPU, and nothing of xMem is run:

    peer_xmem.py --xmem CHECKOUT --rad build/rad --out FILE [--every N] [--workers N] [--threads N] [--only WORD,...]
    peer_xmem.py --table FILE

CHECKOUT is their repository (Stone-ResearchLife/xMem, results of d61e076). Of the runs in PART below, one folder each, every
N-th by name is taken, from the first, whatever came of it; those that ran out of memory have no measured peak and are left out.
The training is written out here by what a result says of it (model, batch, optimizer, 86 x 86 pixels) and by their description of
the loop, is captured as anybody would (`rad capture`), and replayed for the card that they measured on.

What they measured is NVML's figure less the one before training, with cuBLAS's workspaces switched off: what the allocator
reserves, without the context. So what is compared is what `replay` says is reserved, under the same setting, and the claim less
what it takes for the context. FILE has a line a run; those that it has already, errors left out, are not done again.
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import resource
import subprocess
import sys
import tempfile

import stats

MIB = 1 << 20
PART = "plot/data/002-Monte Carlo/CNN/001"
LIMIT_S = 300
MODELS = {
    "VGG16": ("vgg16", {}),
    "VGG19": ("vgg19", {}),
    "ResNet101": ("resnet101", {}),
    "ResNet152": ("resnet152", {}),
    "MobileNetV2": ("mobilenet_v2", {}),
    "MobeNetV3Small": ("mobilenet_v3_small", {"num_classes": 10}),
    "MobeNetV3Large": ("mobilenet_v3_large", {"num_classes": 10}),
    "MnasNet": ("mnasnet1_0", {"num_classes": 10}),
    "ConvNeXtTiny": ("convnext_tiny", {}),
    "ConvNeXtBase": ("convnext_base", {}),
    "RegNetX400MF": ("regnet_x_400mf", {}),
    "RegNetY400MF": ("regnet_y_400mf", {}),
}
FAMILIES = {"ConvNeXt": "ConvNeXt", "VGG": "VGG", "": "all other networks"}


def train(model, optimizer, batch):
    import torch
    import torchvision

    class Images(torch.utils.data.Dataset):
        def __len__(self):
            return 50000

        def __getitem__(self, i):
            return torch.zeros(3, 86, 86), i % 10

    name, options = MODELS[model]
    network = getattr(torchvision.models, name)(weights=None, **options).to("cuda").train()
    steps = getattr(torch.optim, optimizer)(network.parameters(), lr=1e-3)
    rate = torch.optim.lr_scheduler.StepLR(steps, step_size=7, gamma=0.1)
    measure = torch.nn.CrossEntropyLoss()
    for n, (x, y) in enumerate(torch.utils.data.DataLoader(Images(), batch_size=batch, shuffle=True)):
        steps.zero_grad()
        x, y = x.to("cuda"), y.to("cuda")
        out = network(x)
        loss = measure(out, y)
        loss.backward()
        steps.step()
        best = torch.max(out, 1)  # noqa: F841  it lives until the next one
        rate.step()
        if n == 3:
            break


def runs(checkout, every, words):
    """The runs of the sample that have a measured peak, and how many there are in it."""
    files = sorted((checkout / PART).glob("*/*/evaluation_result.json"))[::every]
    if not files:
        raise SystemExit(f"{checkout / PART}: no results are there; give --xmem a checkout of Stone-ResearchLife/xMem")
    found = []
    for path in files:
        said = json.loads(path.read_text())
        about, xmem = said["train info"], said["solution"]
        run = {"name": path.parent.parent.name, "gpu": about["gpu_name"], "model": about["model"]}
        run.update(optimizer=about["optimiser"], batch=about["batch_size"], measured_mib=xmem["ground"] / MIB)
        run.update(xmem_mib=xmem["memory"] / MIB, xmem_s=round(xmem["runtime"] / 1e9, 2))
        failed = xmem["2nd verification"]["oom"]  # given no more than xMem's estimate; none: was not tried
        run["xmem_ran"] = None if failed is None else not failed
        if not xmem["real_oom"] and (not words or any(w in run["name"] for w in words)):
            found.append(run)
    return found, len(files)


def captured(run, rad, threads):
    environ = dict(os.environ, CUBLAS_WORKSPACE_CONFIG=":0:0", OMP_NUM_THREADS=str(threads))
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "run.radcap"
        words = [rad, "capture", "--no-cache", "--iterations=4", f"--timeout={LIMIT_S}", f"--clock={LIMIT_S}", "-o", str(out)]
        words += ["--", sys.executable, __file__, "--train", run["model"], run["optimizer"], str(run["batch"])]
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        said = subprocess.run(words, capture_output=True, text=True, env=environ)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        run["cpu_s"] = round(after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime, 2)
        if said.returncode:
            return {**run, "error": said.stderr[-300:]}
        words = [rad, "estimate", "--estimator=replay", "--json", f"--gpu-model={run['gpu']}", f"--capture={out}"]
        said = subprocess.run(words, capture_output=True, text=True, env=environ)
    if said.returncode:
        return {**run, "error": said.stderr[-300:]}
    e = json.loads(said.stdout)["estimates"][0]
    reserved, outside = map(int, re.search(r"(\d+) MiB reserved .* (\d+) outside", e["notes"][0]).groups())
    return {**run, "reserved_mib": reserved, "outside_mib": outside, "claim_mib": e["claim_mib"]}


def alone(run, rad, threads):
    """In a process of its own: seconds of processor time are of all children of one."""
    with concurrent.futures.ProcessPoolExecutor(1) as one:
        return one.submit(captured, run, rad, threads).result()


def percent(x):
    return f"{100 * x:.1f} %"


def table(lines):
    rows = [
        "| networks | runs | estimator | median error | p90 | p95 | lowest | highest | too low |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    groups = {label: [] for label in ("all", *FAMILIES.values())}
    for line in lines:
        groups["all"].append(line)
        groups[next(label for start, label in FAMILIES.items() if line["model"].startswith(start))].append(line)
    for label, of in groups.items():
        for what, says in (
            ("xMem, as published", lambda r: r["xmem_mib"]),
            ("`replay`, reserved", lambda r: r["reserved_mib"]),
            ("`replay`, claim", lambda r: r["claim_mib"] - r["outside_mib"]),
        ):
            pairs = [(says(r), r["measured_mib"]) for r in of]
            if not pairs:
                continue
            s, p90 = stats.summary(pairs), stats.quantile([abs(e / t - 1) for e, t in pairs], 0.9)
            under = round(s["under"] * s["n"])
            rows.append(
                f"| {label} | {s['n']} | {what} | {percent(s['median'])} | {percent(p90)} | {percent(s['p95'])} | "
                f"{100 * s['lowest']:+.1f} % | {100 * s['highest']:+.1f} % | {under} |"
            )
    seconds = [stats.quantile([line[key] for line in lines], 0.5) for key in ("xmem_s", "cpu_s")]
    tried = [line["xmem_ran"] for line in lines if line["xmem_ran"] is not None]
    rows += ["", f"Given no more than xMem's estimate, {sum(tried)} of {len(tried)} finished, as published."]
    rows += [f"Seconds a run, median: xMem {seconds[0]:.1f}, as published; a capture {seconds[1]:.1f} of processor time."]
    return rows


def read(path):
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--xmem", type=pathlib.Path)
    p.add_argument("--rad")
    p.add_argument("--out", type=pathlib.Path)
    p.add_argument("--every", type=int, default=2)
    p.add_argument("--workers", type=int, default=2)
    p.add_argument("--threads", type=int, default=1)
    p.add_argument("--only", default="", help="runs whose names contain one of these")
    p.add_argument("--table", type=pathlib.Path, metavar="FILE")
    p.add_argument("--train", nargs=3, help=argparse.SUPPRESS)
    args = p.parse_args()
    if args.train:
        return train(*args.train[:2], int(args.train[2]))
    if args.table:
        lines = [line for line in read(args.table) if "error" not in line]
        if not lines:
            raise SystemExit(f"{args.table}: no run is in it")
        return print("\n".join(table(lines)))
    if not (args.xmem and args.rad and args.out):
        p.error("--xmem, --rad and --out, or --table")
    found, sample = runs(args.xmem, args.every, [w for w in args.only.split(",") if w])
    done = {line["name"] for line in read(args.out) if "error" not in line}
    print(f"{sample} runs in the sample, {len(found)} with a measured peak, {len(done)} done")
    with args.out.open("a") as f, concurrent.futures.ThreadPoolExecutor(args.workers) as pool:
        todo = [run for run in found if run["name"] not in done]
        waiting = [pool.submit(alone, run, os.path.abspath(args.rad), args.threads) for run in todo]
        for answer in concurrent.futures.as_completed(waiting):
            print(json.dumps(answer.result()), file=f, flush=True)


if __name__ == "__main__":
    main()
