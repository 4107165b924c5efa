#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What metrics say of a GPU's load (figure 3.1 of the dissertation): a kernel with so many blocks of so many threads, and beside
it utilization, GRACT, SMACT and SMOCC as NVML gives them.

    nvcc -O2 -arch=sm_90 -o metrics bench/hardware/metrics.cu
    bench/hardware/run_metrics.py --program ./metrics --out results        # about 50 s
    bench/hardware/run_metrics.py --out results --table                    # again from results/metrics.jsonl, without a GPU

Writes metrics.jsonl as it goes, a line a point, and metrics.md and metrics.svg of it at the end; a second run with the same folder
does what is missing. Without --program it calls nvcc. Standard library only.
"""
import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE)]
import nvml  # noqa: E402
import svg  # noqa: E402
from common import kept, say  # noqa: E402

METRICS = {1: "gract", 2: "smact", 3: "smocc"}
SHOWN = (("utilization", "utilization"), ("gract", "GRACT"), ("smact", "SMACT"), ("smocc", "SMOCC"))
RAMP_S, WINDOW_S, REST_S = 0.35, 0.5, 0.1
THREADS = (1, 32, 256, 1024)


def plan(sms, blocks_per_sm):
    """(kind, blocks, threads): first kernels that fill the time, then those that are over at once."""
    most = sms * blocks_per_sm
    blocks = sorted({1, 4, 16, sms // 2, sms, 2 * sms, 4 * sms, 8 * sms, most})
    return ([("long", b, t) for b in blocks for t in THREADS] +
            [("short", b, t) for b in (1, sms, most) for t in (1, 32, 1024)])


def build(folder):
    nvcc = shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc"
    program = folder / "metrics"
    try:
        subprocess.run([nvcc, "-O2", "-arch=native", "-o", program, HERE / "metrics.cu"], check=True)
    except (OSError, subprocess.CalledProcessError) as e:
        sys.exit(f"run_metrics: metrics.cu could not be built ({e}): build it where there is an nvcc, and name it by --program")
    return program


class Load:
    """The program: told a point, it keeps the GPU busy and answers when that is over."""

    def __init__(self, program):
        env = {**os.environ, "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
        self.process = subprocess.Popen([program], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True)
        first = self.process.stdout.readline().split(None, 2)
        if len(first) < 3:
            sys.exit(f"run_metrics: {program} ended with {self.process.wait()} before it was ready")
        self.sms, self.blocks_per_sm, self.name = int(first[0]), int(first[1]), first[2].strip()

    def begin(self, kind, blocks, threads, seconds):
        self.process.stdin.write(f"{blocks} {threads} {seconds} {kind}\n")
        self.process.stdin.flush()

    def end(self):
        line = self.process.stdout.readline().split()
        if len(line) != 2:
            sys.exit(f"run_metrics: the program ended with {self.process.wait()}")
        return int(line[0]), float(line[1])

    def close(self):
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()


def measure(load, gpu, point):
    kind, blocks, threads = point
    load.begin(kind, blocks, threads, RAMP_S + WINDOW_S + REST_S)
    time.sleep(RAMP_S)
    gpu.activity()
    time.sleep(WINDOW_S)
    found = gpu.activity()
    found["utilization"] = gpu.utilization()
    launches, seconds = load.end()
    return {"kind": kind, "blocks": blocks, "threads": threads, **{k: None if v is None else round(v, 4) for k, v in found.items()},
            "launches": launches, "seconds": round(seconds, 3)}


def points(lines):
    return [line for line in lines if "kind" in line]


def run(args, gpu, deadline):
    path = args.out / "metrics.jsonl"
    load = Load(args.program or build(args.out))
    lines = kept(path)
    done = {(p["kind"], p["blocks"], p["threads"]) for p in points(lines)}
    todo = [p for p in plan(load.sms, load.blocks_per_sm) if p not in done]
    with open(path, "a") as f:
        if not lines:
            f.write(json.dumps({"gpu": load.name, "driver": gpu.driver(), "sms": load.sms, "blocks_per_sm": load.blocks_per_sm}) + "\n")
        for n, point in enumerate(todo):
            if time.monotonic() > deadline:
                say(f"time is up: {len(todo) - n} of {len(todo)} points are left; the same command goes on")
                break
            f.write(json.dumps(measure(load, gpu, point)) + "\n")
            f.flush()
    load.close()


def percent(v):
    return "–" if v is None else f"{v * 100:.1f}"


def tables(lines):
    """Markdown: a table a kind, a row a point."""
    out = []
    for kind, title in (("long", "Kernels that fill the time"), ("short", "Kernels that are over at once")):
        rows = [p for p in points(lines) if p["kind"] == kind]
        if not rows:
            continue
        out += [f"{title} (%):", "", "| blocks | threads a block | utilization | GRACT | SMACT | SMOCC |",
                "|---:|---:|---:|---:|---:|---:|"]
        out += [f"| {p['blocks']} | {p['threads']} | " + " | ".join(percent(p[key]) for key, _ in SHOWN) + " |" for p in rows] + [""]
    return "\n".join(out)


def picture(lines):
    shown = [p for p in points(lines) if p["kind"] == "long"]
    blocks, threads = sorted({p["blocks"] for p in shown}), sorted({p["threads"] for p in shown})
    parts = svg.legend(46, 16, [f"{t} thread{'s' * (t > 1)} a block" for t in threads])
    for k, (key, title) in enumerate(SHOWN):
        series = [[(p["blocks"], p[key]) for p in sorted(shown, key=lambda p: p["blocks"]) if p["threads"] == t] for t in threads]
        parts += svg.lines(10 + k % 2 * 370, 34 + k // 2 * 190, 360, 180, title, series, blocks)
    parts.append(svg.text(380, 430, "thread blocks", "middle"))
    return svg.document(750, 440, parts, "Metrics of a GPU against its load")


def draw(out):
    lines = kept(out / "metrics.jsonl")
    if points(lines):
        (out / "metrics.md").write_text(tables(lines))
        (out / "metrics.svg").write_text(picture(lines))


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--out", type=pathlib.Path, required=True)
    p.add_argument("--program", help="metrics.cu, built")
    p.add_argument("--gpu", type=int, default=0, help="its number in PCI order, which the program must see as its first (0)")
    p.add_argument("--budget", type=float, default=60, help="seconds (60)")
    p.add_argument("--table", action="store_true", help="only the table and the picture, of what is there")
    args = p.parse_args()
    deadline = time.monotonic() + args.budget - RAMP_S - WINDOW_S - 1
    args.out.mkdir(parents=True, exist_ok=True)
    if not args.table:
        try:
            run(args, nvml.Gpu(args.gpu, METRICS), deadline)
        except OSError as e:
            sys.exit(f"run_metrics: no GPU to measure: {e}")
    draw(args.out)


if __name__ == "__main__":
    main()
