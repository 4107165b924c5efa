#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Batches that tasks share on a GPU (radrm.feed, on_device="shared"): whether their bytes are right, also when the one that made the
memory is killed, and what it saves beside each task copying for itself.

    run_feed_device.py OUT.json [--within S] [--only PARTS] [--fake LIBCUDA]

RADFEED_LIBRARY names libradfeed.so. --fake tries this program itself where there is no GPU, with tests/fake-cuda: nothing of what it says
then is a measurement. Each part has its own line in OUT.json's `parts`, with its error where it failed; a part that would not end in time
is named in `left`.
"""
import argparse
import ctypes
import json
import mmap
import os
import pathlib
import random
import shutil
import signal
import struct
import sys
import tempfile
import time
import traceback

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [os.environ.get("RADRM") or str(HERE.parent.parent / "python"), str(HERE)]

import torch  # noqa: E402

import nvml  # noqa: E402
import radrm.feed  # noqa: E402
from radrm import _feedpin  # noqa: E402

SAMPLES, PIXELS = 64, 3 * 224 * 224
PATIENCE_S = 15     # for a part's tasks to begin, or to end


class Batches:
    """`count` batches of int32 that follow from their number; `pool`: made once, for a loader that only copies."""

    def __init__(self, count, pixels, pool=0):
        self.count, self.base = count, torch.arange(SAMPLES * pixels, dtype=torch.int32).reshape(SAMPLES, pixels)
        self.pool = [self.made(i) for i in range(pool)]

    def __len__(self):
        return self.count

    def made(self, i):
        return self.base * (2 * i + 1) + i

    def __iter__(self):
        for i in range(self.count):
            yield {"x": self.pool[i % len(self.pool)] if self.pool else self.made(i), "n": i}


class TooLong(Exception):
    """A part that does not end: a task that hangs in the driver, say. The parts after it have their turn."""


def too_long(*_):
    raise TooLong("it took too long, and what it had started was killed")


class Fork:
    left = {}   # by pid: those that nobody has waited for

    def __init__(self, run, *arguments):
        self.ours, theirs = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(self.ours)
            code = 1
            try:
                for said in run(*arguments):
                    os.write(theirs, json.dumps(said).encode() + b"\n")
                code = 0
            except BaseException:  # noqa: B036
                os.write(theirs, json.dumps({"error": traceback.format_exc()[-1500:]}).encode() + b"\n")
            radrm.feed._close_all()
            os._exit(code)
        Fork.left[self.pid] = self
        os.close(theirs)
        self.file = os.fdopen(self.ours)

    def hear(self):
        return json.loads(self.file.readline() or '{"error": "it ended"}')

    def rest(self):
        said = [json.loads(line) for line in self.file]
        os.waitpid(self.pid, 0)
        Fork.left.pop(self.pid)
        return said[-1] if said else {"error": "killed"}

    def kill(self):
        os.kill(self.pid, signal.SIGKILL)

    def ended(self):
        return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

    @classmethod
    def end_all(cls):
        """What a part that failed has left would go on reading beside the next."""
        until = time.monotonic() + 2
        for fork in cls.left.values():
            fork.kill()
        while cls.left and time.monotonic() < until:    # the driver may hold one of them
            for pid in [pid for pid in cls.left if os.waitpid(pid, os.WNOHANG)[0]]:
                cls.left.pop(pid)
            time.sleep(0.01)
        cls.left.clear()


def shared_loader(loader, way, tasks, slots=6):
    on_device = {"on_device": "shared"} if way == "shared" else {}
    return radrm.feed.shared(loader, "device", device="cuda", slots=slots, wait_for=tasks, seed=1, timeout=PATIENCE_S, **on_device)


def check(way, tasks, epochs, count, say_at):
    """Every byte of every batch, on the GPU."""
    loader = Batches(count, PIXELS // 8)
    feed, base, wrong, seen = shared_loader(loader, way, tasks), None, 0, 0
    for _ in range(epochs):
        for expected, batch in enumerate(feed):
            base = loader.base.to(batch["x"].device) if base is None else base
            good = batch["n"] == expected and torch.equal(batch["x"], base * (2 * expected + 1) + expected)
            wrong, seen = wrong + (not good), seen + 1
            batch["x"].zero_()      # a task may: its batch is its own
            if seen == say_at:
                yield {"created": feed._copier._stage is not None and feed._copier._stage.created}
    yield {"seen": seen, "wrong": wrong, "feed": sum(feed.copies.values()), **feed.copies}


def correctness(args, tasks):
    forks = [Fork(check, "shared", tasks, 2, 60, 0) for _ in range(tasks)]
    said = [fork.rest() for fork in forks]
    return {"tasks": said, "ok": all(one.get("seen") == 120 and one["wrong"] == 0 for one in said) and
            all(one.get("feed") == 120 for one in said) and sum(one.get("made", 0) + one.get("alone", 0) for one in said) < 1.25 * 120}


def owner_killed(args, turn):
    """The task that made the memory on the GPU is killed when it has had some batches; the others go on to the end."""
    rng = random.Random(turn)
    forks = [Fork(check, "shared", 4, 3, 100, 50) for _ in range(4)]
    created = [fork.hear() for fork in forks]
    owners = [fork for fork, said in zip(forks, created) if said.get("created")]
    time.sleep(rng.random() * 0.2)
    for owner in owners:
        owner.kill()
    said = [fork.rest() for fork in forks]
    others = [one for fork, one in zip(forks, said) if fork not in owners]
    return {"created": created, "killed": len(owners), "tasks": others,
            "ok": len(owners) == 1 and len(others) == 3 and all(one.get("seen") == 300 and one["wrong"] == 0 for one in others)}


def step_of(args, kind):
    if kind == "sum":
        return lambda x: x.sum()
    net = torch.nn.Sequential(torch.nn.Conv2d(3, 32, 3, 2), torch.nn.ReLU(), torch.nn.Conv2d(32, 64, 3, 2), torch.nn.ReLU(),
                              torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(64, 10))
    net = net if args.fake else net.cuda()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)

    def step(x):
        optimizer.zero_grad()
        net((x.view(SAMPLES, 3, -1, round((PIXELS // 3) ** 0.5)).float()).mul_(1e-9)).square().mean().backward()
        optimizer.step()
    return step


def consume(args, board, number, way, tasks, kind, loader):
    step, feed, events = step_of(args, kind), shared_loader(loader, way, tasks), []
    stop = False
    while not stop:
        for batch in feed:
            step(batch["x"])
            if not args.fake:       # two steps ahead of the GPU at most
                event = torch.cuda.Event(blocking=True)
                event.record()
                events.append(event)
                if len(events) > 2:
                    events.pop(0).synchronize()
            seen, = struct.unpack_from("q", board, 8 * (number + 1))
            struct.pack_into("q", board, 8 * (number + 1), seen + 1)
            stop = board[0]
            if stop:
                break
    yield {"error": None, **feed.copies}


def cpu_of(pids):
    """Seconds of CPU of those processes and of the children that they have."""
    ticks = 0
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            rest = pathlib.Path("/proc", entry, "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(entry) in pids or int(rest[1]) in pids:
            ticks += int(rest[11]) + int(rest[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def measure(args, way, kind, tasks, seconds):
    board = mmap.mmap(-1, 4096)
    loader = Batches(200, PIXELS, pool=6)
    counts = lambda: [struct.unpack_from("q", board, 8 * (i + 1))[0] for i in range(tasks)]  # noqa: E731
    forks = [Fork(consume, args, board, i, way, tasks, kind, loader) for i in range(tasks)]
    pids = {fork.pid for fork in forks}
    until = time.monotonic() + PATIENCE_S
    while min(counts()) < 10 and time.monotonic() < until:
        if any(fork.ended() for fork in forks):
            board[0] = 1
            raise RuntimeError(f"a task ended: {[fork.rest() for fork in forks]}")
        time.sleep(0.01)
    gpu = None if args.fake else nvml.Gpu(0, metrics={**nvml.GPM, **nvml.PCIE})
    before, since, cpu = counts(), time.monotonic(), cpu_of(pids)
    energy = gpu and gpu.energy_j()
    if gpu:
        gpu.activity()
    time.sleep(seconds)
    took, after, cpu = time.monotonic() - since, counts(), cpu_of(pids) - cpu
    said = {"way": way, "step": kind, "tasks": tasks, "seconds": took, "batches": sum(after) - sum(before),
            "samples_per_s": SAMPLES * (sum(after) - sum(before)) / took, "cpu_cores": cpu / took}
    if gpu:
        said["gpu"] = gpu.read()        # activity since the call above; memory of all, and of each process
        said["energy_j"] = gpu.energy_j() - energy if energy is not None else None
        said["pids"] = sorted(pids)
    board[0] = 1
    ends = [fork.rest() for fork in forks]
    said["copies"] = ends
    size = 4 * SAMPLES * PIXELS
    if way == "shared" and all("made" in one or "alone" in one or "found" in one for one in ends):
        all_batches = sum(one.get(what, 0) for one in ends for what in ("made", "found", "alone"))
        said["from_host_fraction"] = sum(one.get("made", 0) + one.get("alone", 0) for one in ends) / max(all_batches, 1)
    else:
        said["from_host_fraction"] = 1.0
    said["from_host_gb_per_s"] = said["from_host_fraction"] * (sum(after) - sum(before)) * size / took / 1e9
    return said


class NoGpu:
    """For --fake: memory of the host, as far as a feed asks."""

    def __init__(self, device):
        self.index = 0

    def begin(self, tensor):
        return tensor.clone()

    @staticmethod
    def mark():
        class Done:
            synchronize = staticmethod(lambda: None)
        return Done

    @staticmethod
    def use(event, tensors):
        pass

    @staticmethod
    def at(place, size):
        return torch.frombuffer((ctypes.c_char * size).from_address(place), dtype=torch.uint8)

    @staticmethod
    def fill(there, here):
        there.copy_(here)


def parts(args):
    """The most wanted first."""
    yield "correct_2", 8, lambda: correctness(args, 2)
    yield "owner_killed_1", 8, lambda: owner_killed(args, 1)
    for name, kind, ways in (("0", "sum", ("own", "shared")), ("0", "cnn", ("own", "shared")), ("1", "sum", ("shared", "own"))):
        for way in ways:
            yield f"{kind}_{way}_{name}", 6, lambda kind=kind, way=way: measure(args, way, kind, 4, 2 if args.fake else 3)
    yield "correct_4", 8, lambda: correctness(args, 4)
    yield "owner_killed_2", 8, lambda: owner_killed(args, 2)
    yield "owner_killed_3", 8, lambda: owner_killed(args, 3)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--within", type=float, default=55)
    parser.add_argument("--fake")
    parser.add_argument("--only", default="", help="parts whose names begin with one of these, separated by commas")
    args = parser.parse_args()
    end = time.monotonic() + args.within
    signal.signal(signal.SIGALRM, too_long)
    torch.set_num_threads(1)    # threads of OpenMP do not outlive a fork
    if args.fake:
        global PIXELS
        PIXELS = 3 * 32 * 32
        os.environ["RADFEED_CUDA"] = args.fake
        _feedpin.Gpu = NoGpu
    said = {"schema": 1, "torch": torch.__version__, "fake": bool(args.fake), "batch_bytes": 4 * SAMPLES * PIXELS, "parts": {}, "left": []}
    for name, needs, part in parts(args):
        if not name.startswith(tuple(args.only.split(","))):
            continue
        if time.monotonic() + needs > end:
            said["left"].append(name)
            continue
        folder = tempfile.mkdtemp(prefix="feed-")
        os.environ["RADFEED_DIR"] = folder
        since = time.monotonic()
        try:
            signal.setitimer(signal.ITIMER_REAL, min(2 * needs, end - since + 1))
            said["parts"][name] = part()
        except Exception:
            said["parts"][name] = {"error": traceback.format_exc()[-1500:]}
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            Fork.end_all()
        said["parts"][name]["took_s"] = round(time.monotonic() - since, 2)
        shutil.rmtree(folder, ignore_errors=True)
        args.out.write_text(json.dumps(said, indent=1) + "\n")      # as far as it came, whatever comes
        print(name, json.dumps(said["parts"][name])[:600], flush=True)
    args.out.write_text(json.dumps(said, indent=1) + "\n")


if __name__ == "__main__":
    main()
