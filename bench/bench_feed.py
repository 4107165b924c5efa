#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""One loader for all tasks, beside a loader for each and beside TensorSocket: samples a second, the CPU of all processes, waiting.

    bench_feed.py BUILD [--out RAW.jsonl] [--tasks 1,2,4,8] [--loads decode,light] [--ways own,feed] [--cores 4,8,16] [--gpu]
                  [--device cpu] [--epoch BATCHES] [--within S] [--patience S] [--short]

Prints JSON. Each cell (load, cores, tasks, how) is a process tree of its own, measured for --seconds once every task has had its first
batches; the ways take turns, --rounds times. With --out each cell is written as it is done, and what is there is not measured again; with
--within no cell begins that would not end in that time: call it again until it says "left": 0. TensorSocket (`pip install tensorsocket`)
is a peer: without it its cells are named as missing. `decode` inflates coefficients, transforms blocks back, crops and flips, as reading
JPEG files does; `light` only copies. A step is a wait of --step-ms, or with --gpu training a small CNN on the first GPU: own loaders'
batches come there from pinned memory, the feed's by device=, and TensorSocket's by its producer, whose copy there its consumers share.
`--gpu --device cpu` trains on the CPU: it shows on any machine that all of this runs, and measures nothing. Processes come from one that
has PyTorch imported, so a cell begins within seconds also where cores are few.

Who joins late waits for the next epoch: with TensorSocket always, so its producer begins when all tasks are about to ask; with
a feed unless wait_for= says how many there will be. At each end of an epoch TensorSocket waits for a heartbeat: --epoch says
how many batches one has (200; with --gpu 4000).
"""
import argparse
import importlib.util
import json
import multiprocessing
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import zlib

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "python"), str(HERE), str(HERE / "hardware")]
WAYS = ("own", "tensorsocket", "feed")
SIDE, CROP, FILES = 128, 112, 64
TICK = os.sysconf("SC_CLK_TCK")
ASKS, HAS_BATCHES = 1, 2        # how far a task has come


def data_set(load, length):
    """Built in the process that loads: nothing is shared but what is measured."""
    import numpy
    import torch
    rng = numpy.random.default_rng(1)
    if load == "light":
        ready = torch.from_numpy(rng.integers(0, 255, (FILES, 3, CROP, CROP), dtype=numpy.uint8))
    else:
        coarse = rng.normal(0, 12, (FILES, 3, SIDE // 8, SIDE // 8, 8, 8)) / (1 + numpy.add.outer(numpy.arange(8), numpy.arange(8))) ** 2
        files = [zlib.compress(one.astype(numpy.int16).tobytes()) for one in coarse]
        grid = numpy.arange(8)
        basis = numpy.cos((2 * grid[None, :] + 1) * grid[:, None] * numpy.pi / 16) * numpy.where(grid[:, None] == 0, 8 ** -0.5, 0.5)
        basis = basis.astype(numpy.float32)
        colours = numpy.array([[1, 0, 1.402], [1, -0.344, -0.714], [1, 1.772, 0]], numpy.float32)

    class Images(torch.utils.data.Dataset):
        def __len__(self):
            return length

        def __getitem__(self, i):
            if load == "light":
                return ready[i % FILES], i % 10
            blocks = numpy.frombuffer(zlib.decompress(files[i % FILES]), numpy.int16).astype(numpy.float32)
            blocks = basis.T @ (16 * blocks.reshape(3, SIDE // 8, SIDE // 8, 8, 8)) @ basis
            image = blocks.transpose(0, 1, 3, 2, 4).reshape(3, SIDE * SIDE)
            image = (colours @ image).reshape(3, SIDE, SIDE)
            y, x = torch.randint(SIDE - CROP, (2,)).tolist()
            image = torch.from_numpy(numpy.ascontiguousarray(image[:, y:y + CROP, x:x + CROP]))
            image = image.flip(2) if torch.rand(1).item() < 0.5 else image
            return image.add_(128).clamp_(0, 255).to(torch.uint8), i % 10
    return Images()


def make_loader(options, workers, pinned=False):
    import torch
    torch.set_num_threads(1)
    return torch.utils.data.DataLoader(data_set(options["load"], options["epoch"] * options["batch"]), batch_size=options["batch"],
                                       shuffle=True, num_workers=workers, persistent_workers=workers > 0, drop_last=True,
                                       pin_memory=pinned, multiprocessing_context="fork")


def settle_in(options):
    """What a process of a cell does first: its parent is none of this cell's."""
    os.sched_setaffinity(0, options["cpus"])
    os.environ["RADFEED_DIR"] = options["folder"]


def forever(loader):
    while True:
        yield from loader


def producer(options):
    settle_in(options)
    import tensorsocket
    loader = make_loader(options, options["workers"])
    source = tensorsocket.TensorProducer(loader, port=options["port"], ack_port=options["port"] + 1,
                                         heart_ports=(options["port"] + 2, options["port"] + 3))
    while True:
        for _ in source:
            pass


def batches_of(way, options):
    if way == "own":
        return forever(make_loader(options, max(1, options["workers"] // options["tasks"]), pinned=options["device"] == "cuda"))
    if way == "feed":
        import radrm.feed
        device = {"device": "cuda"} if options["device"] == "cuda" else {}
        return forever(radrm.feed.shared(make_loader(options, options["workers"]), "bench", wait_for=options["tasks"], **device))
    import tensorsocket
    return forever(tensorsocket.TensorConsumer(port=options["port"], ack_port=options["port"] + 1,
                                               heart_ports=(options["port"] + 2, options["port"] + 3), batch_size=options["batch"]))


def step_of(options):
    """What a task does with a batch."""
    device = options["device"]
    if not device:
        return lambda images, labels: time.sleep(options["step_ms"] / 1000)
    import torch
    torch.set_num_threads(1)
    net = torch.nn.Sequential(torch.nn.Conv2d(3, 32, 3, 2), torch.nn.ReLU(), torch.nn.Conv2d(32, 64, 3, 2), torch.nn.ReLU(),
                              torch.nn.Conv2d(64, 128, 3, 2), torch.nn.ReLU(), torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(),
                              torch.nn.Linear(128, 10)).to(device)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)

    def step(images, labels):
        images, labels = images.to(device, non_blocking=True), labels.to(device, non_blocking=True)
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(net(images.float().div_(255)), labels).backward()
        optimizer.step()
        if device == "cuda":
            torch.cuda.current_stream().synchronize()
    return step


def task(way, options, samples, waited, begun):
    settle_in(options)
    step = step_of(options)
    begun.value = ASKS
    for number, (images, labels) in enumerate(timed(batches_of(way, options), waited)):
        step(images, labels)
        samples.value += len(labels)
        if number == 2:
            begun.value = HAS_BATCHES


def timed(batches, waited):
    while True:
        since = time.monotonic()
        batch = next(batches)
        waited.value += time.monotonic() - since
        yield batch


def processes():
    """{pid: (parent, seconds of CPU with those of its ended children)}"""
    found = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                rest = pathlib.Path("/proc", entry, "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            found[int(entry)] = int(rest[1]), sum(map(int, rest[11:15])) / TICK
    return found


def tree(roots):
    found = processes()
    inside = set(roots)
    while True:
        more = {pid for pid, (parent, _) in found.items() if parent in inside} - inside
        if not more:
            return {pid: found[pid][1] for pid in inside if pid in found}
        inside |= more


class Witness:
    """Energy by NVML and activity by `rad monitor`, where there is a GPU."""

    def __init__(self, options, build):
        self.file, self.monitor, self.gpu = None, None, None
        if options["device"] != "cuda":
            return
        import nvml
        self.gpu = nvml.Gpu(0)
        self.file = tempfile.NamedTemporaryFile(suffix=".csv")
        rad = pathlib.Path(build, "rad")
        if rad.exists():
            self.monitor = subprocess.Popen([rad, "monitor", "--interval", "0.5", "--gpus", "0", "--output", self.file.name],
                                            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.joules = self._joules()

    def _joules(self):
        import ctypes
        value = ctypes.c_ulonglong()
        return None if self.gpu._call("nvmlDeviceGetTotalEnergyConsumption", self.gpu.handle, ctypes.byref(value)) else value.value / 1000

    def end(self):
        if not self.gpu:
            return {}
        joules = self._joules()
        said = {"energy_j": joules - self.joules if joules is not None and self.joules is not None else None}
        if self.monitor:
            self.monitor.send_signal(signal.SIGINT)
            self.monitor.wait(timeout=10)
            lines = [line.split(",") for line in pathlib.Path(self.file.name).read_text().splitlines() if not line.startswith("#")]
            for name in ("gract", "smact", "dram", "power_w"):
                if lines and name in lines[0]:
                    values = [float(line[lines[0].index(name)]) for line in lines[1:] if line[lines[0].index(name)] not in ("", "-")]
                    said[name] = round(statistics.mean(values), 4) if values else None
        return said


def until(begun, stage, running, deadline):
    """None once all tasks have come so far; else why not."""
    while not all(one.value >= stage for one in begun):
        dead = [process.exitcode for process in running if not process.is_alive()]
        if dead or time.monotonic() > deadline:
            return f"exit {dead}" if dead else "not all tasks had batches" if stage == HAS_BATCHES else "not all tasks were ready"
        time.sleep(0.05)
    return None


def measure(way, options, build):
    """One cell, in processes that are all gone afterwards."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["torch"])
    count = options["tasks"]
    samples, waited, begun = ([context.Value(kind, 0, lock=False) for _ in range(count)] for kind in ("q", "d", "b"))
    running = [context.Process(target=task, args=(way, options, samples[i], waited[i], begun[i])) for i in range(count)]
    try:
        for process in running:
            process.start()
        deadline = time.monotonic() + options["patience"]
        failed = until(begun, ASKS, running, deadline)
        if not failed and way == "tensorsocket":
            running.append(context.Process(target=producer, args=(options,)))
            running[-1].start()
        failed = failed or until(begun, HAS_BATCHES, running, deadline)
        if failed:
            return {"failed": failed if failed.startswith("exit") else f"{failed} within {options['patience']:g} s"}
        roots = [process.pid for process in running]
        witness = Witness(options, build)
        before, since, cpu = [one.value for one in samples], time.monotonic(), tree(roots)
        idle = [one.value for one in waited]
        time.sleep(options["seconds"])
        took, after, used = time.monotonic() - since, [one.value for one in samples], tree(roots)
        more = witness.end()
        spent = {pid: seconds - cpu.get(pid, 0) for pid, seconds in used.items()}
        rate = sum(after) - sum(before)
        return {"samples_per_s": rate / took, "least_task_per_s": min(b - a for a, b in zip(before, after)) / took,
                "cpu_cores": sum(spent.values()) / took, "cpu_ms_per_sample": 1000 * sum(spent.values()) / max(rate, 1),
                "task_cores": sum(spent.get(pid, 0) for pid in roots[:count]) / took,
                "waiting_fraction": sum(one.value - was for one, was in zip(waited, idle)) / took / count,
                "gb_per_s": rate * 3 * CROP * CROP / took / 1e9, **more}
    finally:
        for pid in tree([process.pid for process in running]):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        for process in running:
            process.join()


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build")
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("--tasks", default="1,2,4,8")
    parser.add_argument("--loads", default="decode,light")
    parser.add_argument("--ways", default=",".join(WAYS))
    parser.add_argument("--cores", default="", help="taskset, for each of these numbers; default: all there are")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--step-ms", type=float, default=20)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--gpu", action="store_true")
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"), help="what --gpu trains on (cuda)")
    parser.add_argument("--epoch", type=int, help="batches")
    parser.add_argument("--within", type=float, default=float("inf"))
    parser.add_argument("--patience", type=float, default=60, help="seconds for the first batches of all tasks of a cell (60)")
    parser.add_argument("--short", action="store_true", help="seconds: one round of two tasks")
    args = parser.parse_args()
    args.device = args.device if args.gpu else None
    args.epoch = args.epoch or (4000 if args.gpu else 200)
    return args


def cells(args):
    everywhere = sorted(os.sched_getaffinity(0))
    numbers = [int(n) for n in args.cores.split(",") if n] or [len(everywhere)]
    for turn in range(args.rounds):
        for load in args.loads.split(","):
            for cores in numbers:
                for tasks in map(int, args.tasks.split(",")):
                    ways = WAYS[turn % 3:] + WAYS[:turn % 3]
                    for way in filter(args.ways.split(",").__contains__, ways):
                        yield {"way": way, "load": load, "cores": min(cores, len(everywhere)), "tasks": tasks, "round": turn}


def summary(rows):
    """Medians over rounds, and ratios within one round."""
    said = []
    keys = sorted({(row["load"], row["cores"], row["tasks"]) for row in rows})
    for load, cores, tasks in keys:
        line = {"load": load, "cores": cores, "tasks": tasks}
        for way in WAYS:
            mine = [row for row in rows if (row["load"], row["cores"], row["tasks"], row["way"]) == (load, cores, tasks, way)]
            good = [row for row in mine if "failed" not in row]
            if mine and not good:
                line[way] = {"failed": mine[0]["failed"]}
            elif good:
                line[way] = {name: round(statistics.median(row[name] for row in good), 4) for name in good[0]
                             if isinstance(good[0][name], float) and all(row.get(name) is not None for row in good)}
        by_round = {(row["way"], row["round"]): row["samples_per_s"] for row in rows
                    if (row["load"], row["cores"], row["tasks"]) == (load, cores, tasks) and "failed" not in row}
        for other in WAYS[:2]:
            ratios = [by_round["feed", turn] / rate for (way, turn), rate in by_round.items() if way == other and rate
                      and ("feed", turn) in by_round]
            if ratios:
                line[f"feed_over_{other}"] = round(statistics.median(ratios), 3)
        said.append(line)
    return said


def main():
    args = parse()
    if args.short:
        args.tasks, args.loads, args.rounds, args.seconds = "2", "light", 1, 1
    end = time.monotonic() + args.within
    os.environ["RADFEED_LIBRARY"] = str(pathlib.Path(args.build, "libradfeed.so").resolve())
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = "1"
    rows = [json.loads(line) for line in args.out.read_text().splitlines()] if args.out and args.out.exists() else []
    done = {tuple(row[key] for key in ("way", "load", "cores", "tasks", "round")) for row in rows}
    missing, left, longest = importlib.util.find_spec("tensorsocket") is None, 0, {}
    for row in rows:
        longest[row["way"]] = max(longest.get(row["way"], 0), row.get("took_s", 0))
    everywhere = sorted(os.sched_getaffinity(0))
    for number, cell in enumerate(cells(args)):
        if tuple(cell[key] for key in ("way", "load", "cores", "tasks", "round")) in done:
            continue
        if time.monotonic() + (longest.get(cell["way"]) or args.seconds + 15) > end:
            left += 1
            continue
        began = time.monotonic()
        options = {**cell, "epoch": args.epoch, "batch": args.batch, "workers": cell["cores"], "device": args.device,
                   "port": 21000 + number % 500 * 10,
                   "step_ms": args.step_ms, "seconds": args.seconds, "patience": args.patience, "cpus": everywhere[:cell["cores"]]}
        with tempfile.TemporaryDirectory(prefix="feed-") as folder:
            options["folder"] = folder
            os.chmod(folder, 0o700)
            row = {**cell, **({"failed": "tensorsocket is not installed"} if missing and cell["way"] == "tensorsocket" else
                              measure(cell["way"], options, args.build))}
        row["load_average"], row["took_s"] = round(os.getloadavg()[0], 2), round(time.monotonic() - began, 2)
        longest[cell["way"]] = max(longest.get(cell["way"], 0), row["took_s"])
        rows.append(row)
        if args.out:
            with args.out.open("a") as file:
                file.write(json.dumps(row) + "\n")
    import machine
    good = [row for row in rows if row["way"] == "feed" and "failed" not in row and row["gb_per_s"] > 0]
    said = {"machine": machine.facts(), "step": f"a small CNN on {args.device}" if args.device
            else f"a wait of {args.step_ms:g} ms", "left": left,
            "cells": summary(rows)}
    if good:
        said["feed_task_core_fraction_per_gb_s"] = round(statistics.median(row["task_cores"] / row["gb_per_s"] for row in good), 4)
    print(json.dumps(said, indent=1))


if __name__ == "__main__":
    main()
