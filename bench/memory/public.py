#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Training scripts of public repositories, captured and run as they are.

    public.py --rad build/rad --out FILE [--workers N] [--only NAME,...] PART...                 # anywhere
    public.py --run CAPTURED --out FILE [--workers N] [--seconds S] [--fenced] [--only NAME,...] PART...
    public.py --score doc/results/memory/public.jsonl.gz     # or public-unseen, public-fresh, public-new, public-latest, public-recent

--run wants a GPU of 80 GiB that nobody else uses.

A PART is a folder with the sources, which are not ours to ship; `data.py`, which makes the data they read; and `list.jsonl`, a
line a script: `name`, `repo`, `commit`, `path`, `cwd` in the folder, `command`, `env` ({here} in these two stands for the
folder), `data` (how it was made), `kind`, `seconds` (instead of S). A line a script in FILE: those, and what `rad estimate`
says of its capture for an H100. With --run, by what that said of them in CAPTURED as many run side by side as fit, and a line
tells what PyTorch's allocator reserved and had in use at most, what NVML showed for the process, and how many steps optimizers
made, until the script ended or S seconds after it first used CUDA; with --fenced PyTorch's allocator may take no more than was
said. A line of doc/results/memory/public.jsonl.gz and public-unseen.jsonl.gz have `first` beside `captured`: what was said
before anybody had seen a script run, and by captures that were mended since; and `fenced` (`first_fenced`), where a run was
limited to the claim. public-fresh.jsonl.gz, public-new.jsonl.gz, public-latest.jsonl.gz and public-recent.jsonl.gz have others, captured
once. --score prints the tables of doc/results/memory/scripts.md.
"""
import argparse
import concurrent.futures
import gzip
import json
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import tempfile
import threading

import later
from stats import quantile

# Read by Python before the script, which is not changed. Another sitecustomize on the path is read as it would be without this one.
HOOK = '''
import atexit, importlib.machinery, importlib.util, json, os, sys, threading, time

here = os.path.dirname(os.path.abspath(__file__))
sys.path[:] = [p for p in sys.path if os.path.abspath(p or ".") != here]
steps, began, owner, lock, told = [0], time.monotonic(), os.getpid(), threading.Lock(), []

def tell(why):
    torch = sys.modules.get("torch")
    with lock:
        if told or os.getpid() != owner or not torch or not torch.cuda.is_initialized():
            return
        told.append(why)
    torch.cuda.synchronize()
    with open(os.path.join(os.environ["PUBLIC_OUT"], str(owner)), "w") as out:
        json.dump({"pid": owner, "reserved": torch.cuda.max_memory_reserved() >> 20, "in_use": torch.cuda.max_memory_allocated() >> 20,
                   "steps": steps[0], "s": round(time.monotonic() - began, 1), "ended": why}, out)
    time.sleep(0.3)  # for who looks at NVML

def count(*_):
    steps[0] += 1

def watch():
    counts, fence = False, int(os.environ["PUBLIC_MIB"])
    while True:
        time.sleep(0.05)
        found = sys.modules.get("torch.optim.optimizer")
        if not counts and hasattr(found, "register_optimizer_step_post_hook"):
            found.register_optimizer_step_post_hook(count)
            counts = True
        torch = sys.modules.get("torch")
        if fence and counts:  # PyTorch is imported, and has not touched the GPU
            torch.cuda._lazy_call(lambda mib=fence: torch.cuda.set_per_process_memory_fraction(
                (mib << 20) / torch.cuda.get_device_properties(0).total_memory))
            fence = 0
        if counts and torch.cuda.is_initialized():
            break
    time.sleep(float(os.environ["PUBLIC_S"]))
    tell("time")
    os._exit(0)

threading.Thread(target=watch, daemon=True).start()
atexit.register(tell, "itself")
if spec := importlib.machinery.PathFinder.find_spec("sitecustomize", sys.path):
    spec.loader.exec_module(importlib.util.module_from_spec(spec))
'''


GPU = "NVIDIA H100 80GB HBM3"
ROOM_MIB = 72 << 10  # for all that run at a time
UNKNOWN_MIB = 16 << 10  # of which nothing is said


def command_of(part, entry):
    return [sys.executable if word == "python" else word.replace("{here}", str(part)) for word in entry["command"]]


def environment(part, entry, *first, **more):
    given = {key: value.replace("{here}", str(part)) for key, value in entry["env"].items()}
    paths = [*first, *filter(None, [given.get("PYTHONPATH"), os.environ.get("PYTHONPATH")])]
    return {**os.environ, **given, **more, **({"PYTHONPATH": ":".join(paths)} if paths else {})}


class Room:
    """Memory of the GPU, which runs take and give back."""
    def __init__(self, mib):
        self.left, self.changed = mib, threading.Condition()

    def take(self, mib):
        with self.changed:
            self.changed.wait_for(lambda: self.left >= mib)
            self.left -= mib

    def give(self, mib):
        with self.changed:
            self.left += mib
            self.changed.notify_all()


def run_one(part, entry, watch, seconds, limit_s, fence=0):
    """A run; over after so many seconds on the GPU. MiB; what its allocator may take, 0: all."""
    with tempfile.TemporaryDirectory() as folder:
        hook, out = pathlib.Path(folder, "hook"), pathlib.Path(folder, "out")
        hook.mkdir()
        out.mkdir()
        (hook / "sitecustomize.py").write_text(HOOK)
        env = environment(part, entry, str(hook), PUBLIC_OUT=str(out), PUBLIC_S=str(seconds), PUBLIC_MIB=str(fence))
        ran = subprocess.Popen(command_of(part, entry), cwd=part / entry["cwd"], env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, text=True, errors="replace", start_new_session=True)
        try:
            text = ran.communicate(timeout=limit_s)[0]
        except subprocess.TimeoutExpired:
            os.killpg(ran.pid, signal.SIGKILL)
            text = f"no end after {limit_s} s\n" + ran.communicate()[0]
        try:
            os.killpg(ran.pid, signal.SIGKILL)  # workers of loaders
        except ProcessLookupError:
            pass
        told = [json.loads(path.read_text()) for path in out.iterdir() if path.stat().st_size]
    if not told:
        return {"error": text[-400:]}
    most = max(told, key=lambda t: t["reserved"])
    nvml = watch.most.get(most.pop("pid"))
    return {**most, "nvml": nvml, "rc": ran.returncode, **({"said": text[-400:]} if ran.returncode else {})}


def took(row):
    """The run that counts, of which two steps were seen, and NVML showed the process: without a fence, else with one."""
    return next((ran for ran in (row.get("on_gpu", {}), row.get("fenced", {})) if ran.get("steps", 0) >= 2 and ran.get("nvml")), None)


def scored(rows, said):
    """A line of the table: what was said of memory against NVML."""
    known = [(row[said]["reserved"] + row[said]["outside"], row[said]["claim"], took(row)["nvml"]) for row in rows
             if row[said].get("claim")]
    errors = [abs(expected / mib - 1) for expected, _, mib in known]
    return [len(rows), len(known), f"{statistics.median(errors):.1%}", f"{quantile(errors, 0.9):.0%}", sum(e <= 0.05 for e in errors),
            f"{statistics.median(claim / mib - 1 for _, claim, mib in known):.0%}", sum(claim < mib for _, claim, mib in known)]


def score(path):
    every = list(map(json.loads, gzip.open(path, "rt")))
    rows = list(filter(took, every))
    rest = [row for row in rows if "cudnn.benchmark" not in row["captured"].get("note", "")]
    ways = (("first", "before anybody saw a run"),
            ("captured", "mended since")) if "first" in every[0] else (("captured", "captured once"),)
    print("| | scripts | captured | median error | p90 | within 5 % | claim above what was taken, median | claims below it |\n"
          + "|---" * 8 + "|")
    for what, those in (("all of two steps or more", rows), ("of these, without `cudnn.benchmark`", rest)):
        for said, when in ways:
            print(f"| {what}: {when} | " + " | ".join(map(str, scored(those, said))) + " |")
    for said, when in ways:
        runs = [row[key] for row in every if (key := "first_fenced" if said == "first" else "fenced") in row]
        if runs:
            print(f"\nWith the claim as the limit, {when}: {len(runs)} started, {sum(f.get('rc') == 0 for f in runs)} without an error, "
                  f"{sum(f.get('steps', 0) >= 2 for f in runs)} made two steps or more.")


def main():
    if sys.argv[1:2] == ["--score"]:
        return score(*sys.argv[2:])
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    how = parser.add_mutually_exclusive_group(required=True)
    how.add_argument("--rad", type=pathlib.Path)
    how.add_argument("--run", type=pathlib.Path, metavar="CAPTURED")
    parser.add_argument("--out", type=pathlib.Path, required=True, metavar="FILE")
    parser.add_argument("--workers", type=int, default=2, help="how many at a time (default %(default)s)")
    parser.add_argument("--seconds", type=float, default=20, help="of a run, from its first use of CUDA (default %(default)s)")
    parser.add_argument("--limit", type=float, default=120, metavar="S", help="of a whole run (default %(default)s)")
    parser.add_argument("--fenced", action="store_true", help="PyTorch's allocator gets the claim, less what is outside of it")
    parser.add_argument("--only", metavar="NAME,...")
    parser.add_argument("parts", nargs="+", type=pathlib.Path, metavar="PART")
    args = parser.parse_args()
    names = args.only.split(",") if args.only else None
    makers = [subprocess.Popen([sys.executable, "data.py"], cwd=part, stdout=subprocess.DEVNULL) for part in args.parts]
    if any([maker.wait() for maker in makers]):
        sys.exit("public.py: data.py failed")
    todo = [(part.resolve(), entry) for part in args.parts for entry in map(json.loads, (part / "list.jsonl").read_text().splitlines())
            if not names or entry["name"] in names]
    said = {line["name"]: line["captured"] for line in map(json.loads, args.run.read_text().splitlines())} if args.run else {}
    watch, room = later.Watch() if args.run else None, Room(ROOM_MIB)

    def capture(part, entry):
        with tempfile.TemporaryDirectory() as folder:
            return {**entry, "captured": later.captured_command(args.rad.resolve(), command_of(part, entry),
                                                                pathlib.Path(folder, "radcap"), GPU,
                                                                cwd=part / entry["cwd"], env=environment(part, entry))}

    def run(part, entry):
        captured = said.get(entry["name"], {})
        fence = captured["claim"] - captured["outside"] if args.fenced and captured.get("claim") else 0
        mib = min(captured.get("claim") or UNKNOWN_MIB, ROOM_MIB)
        room.take(mib)
        try:
            ran = run_one(part, entry, watch, entry.get("seconds", args.seconds), args.limit, fence)
            return {**entry, "captured": captured, "gpu": watch.gpu.name, **({"fence_mib": fence} if fence else {}), "on_gpu": ran}
        finally:
            room.give(mib)
    with concurrent.futures.ThreadPoolExecutor(args.workers) as pool, open(args.out, "w") as out:
        for done in concurrent.futures.as_completed([pool.submit(run if args.run else capture, *one) for one in todo]):
            print(json.dumps(done.result()), file=out, flush=True)
            print(done.result()["name"], done.result().get("on_gpu") or done.result()["captured"], flush=True)


if __name__ == "__main__":
    main()
