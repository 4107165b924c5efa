#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What a capture takes: processor time and memory of `python -m radrm.capture`, imports of PyTorch included, and of an answer from
its cache. With --other FOLDER (the `python` of another tree) that one too, by turns. For the Python that runs this, which needs PyTorch:

    build/python-venv/bin/python bench/bench_capture.py [--rounds N] [--other FOLDER]
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
TRAIN = os.path.join(ROOT, "workloads", "train.py")
# Reads a file for each of its samples, as a folder of images is read: what is watched is many openings.
READER = """
import os, sys, torch
names = sorted(os.listdir(sys.argv[1]))
model = torch.nn.Linear(1024, 10).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for at in range(0, len(names), len(names) // 3):
    rows = [torch.frombuffer(bytearray(open(os.path.join(sys.argv[1], n), "rb").read(1024)), dtype=torch.uint8).float()
            for n in names[at:at + len(names) // 3]]
    loss = model(torch.stack(rows).cuda()).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def arguments():
    p = argparse.ArgumentParser()
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--files", type=int, default=1500)
    p.add_argument("--other", metavar="FOLDER")
    return p.parse_args()


def measure(package, cache, words):
    """(seconds of processor, MiB at most) of one capture."""
    environment = dict(os.environ, PYTHONPATH=package, XDG_CACHE_HOME=cache, OMP_NUM_THREADS="1")
    child = subprocess.Popen([sys.executable, "-m", "radrm.capture", "-o", os.path.join(cache, "out"), "--", *words],
                             env=environment, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(child.pid, 0)
    if status:
        raise SystemExit(f"{' '.join(words)}: failed")
    return used.ru_utime + used.ru_stime, used.ru_maxrss / 1024


def jobs(folder, files):
    data, script = os.path.join(folder, "data"), os.path.join(folder, "reader.py")
    os.mkdir(data)
    for n in range(files):
        with open(os.path.join(data, f"{n:05d}"), "wb") as f:
            f.write(os.urandom(100 << 10))
    with open(script, "w") as f:
        f.write(READER)
    out = {model: [TRAIN, "--model", model] for model in ("mlp", "lstm", "dlrm")}
    out[f"{files} files of 100 KiB"] = [script, data]
    return out


def main():
    args = arguments()
    packages = {"this": os.path.join(ROOT, "python"), **({"other": args.other} if args.other else {})}
    with tempfile.TemporaryDirectory(prefix="rad-bench-") as folder:
        figures = {}
        for name, words in jobs(folder, args.files).items():
            seen = {}
            for turn in range(args.rounds):
                for which, package in packages.items():
                    cache = os.path.join(folder, f"{name}-{which}-{turn}".replace(" ", "-"))
                    os.mkdir(cache)
                    seen.setdefault(which, []).append(measure(package, cache, words))
                    seen.setdefault(which + ", from its cache", []).append(measure(package, cache, words))
            figures[name] = {which: {"cpu_s": round(statistics.median(s for s, _ in runs), 3),
                                     "least_cpu_s": round(min(s for s, _ in runs), 3),
                                     "mib": round(max(m for _, m in runs))} for which, runs in seen.items()}
    print(json.dumps({"rounds": args.rounds, "python": sys.version.split()[0], "figures": figures}, indent=1))


if __name__ == "__main__":
    main()
