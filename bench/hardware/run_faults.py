#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Breaks things on a real GPU and says what held: tasks that lie, a killed daemon, a cancel, faults under MPS.

    bench/hardware/run_faults.py --bin dist/rad/bin --out results              # on a GPU
    bench/hardware/run_faults.py --bin build --out results --sim               # the four that need no GPU

Each step has a deadline and its own private folder, and never keeps the next from running. OUT/faults.jsonl gets one line a
step as soon as it is known, with everything raw. No step changes a setting of the GPU, and none resets it.
"""
import argparse
import json
import multiprocessing
import pathlib
import statistics
import subprocess
import sys
import time
import traceback

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import faults_mps
import faults_mps_many
import faults_rad
import nvml
from common import Workspace, say

# letter: (function, deadline in seconds, needs a real GPU)
STEPS = {
    "a": (faults_rad.liar, 150, False),
    "b": (faults_rad.killed_daemon, 120, False),
    "c": (faults_rad.cancel, 120, False),
    "d": (faults_mps.naming, 120, True),
    "e": (faults_mps.joining, 90, True),
    "f": (faults_mps.containment, 200, True),
    "g": (faults_mps.process_memory, 60, True),
    "h": (faults_mps_many.across, 90, True),
    "i": (faults_mps_many.training, 150, True),
    "j": (faults_mps_many.fault_apart, 150, True),
    "k": (faults_mps_many.fences, 60, True),
    "l": (faults_mps_many.two_servers, 100, True),
    "m": (faults_rad.killed_control, 200, True),
    "n": (faults_rad.understated, 200, False),
    "o": (faults_mps.ways, 120, True),
    "p": (faults_rad.paged, 150, True),
}


class Step:
    """What an experiment gets and fills in. Every change is on disk at once: a step that hangs leaves what it knew."""
    def __init__(self, name, args, workspace):
        self.args, self.ws = args, workspace
        self.path = workspace.dir / "result.json"
        self.data = {"step": name, "outcome": "running", "findings": [], "raw": {}}

    def gpu(self):
        return nvml.Gpu(self.args.gpu)

    def write(self):
        self.path.write_text(json.dumps(self.data))

    def keep(self, **raw):
        self.data["raw"].update(raw)
        self.write()

    def note(self, text):
        say(f"  {text}")
        self.data["findings"].append(text)
        self.write()

    def check(self, good, text):
        """A finding that can be wrong."""
        self.note(text if good else f"NOT SO: {text}")
        if not good:
            self.data["outcome"] = "differs"

    def run(self, function):
        try:
            function(self)
            if self.data["outcome"] == "running":
                self.data["outcome"] = "as expected"
        except Exception:
            self.data["outcome"] = "failed"
            self.data["error"] = traceback.format_exc()
        self.write()


def spread(rates):
    """Lowest, middle and highest of some speeds, as text."""
    return f"{min(rates):.1f}/{statistics.median(rates):.1f}/{max(rates):.1f}" if rates else "none"


def machine(step):
    """Where this was measured."""
    if step.args.sim:
        step.note("simulated GPU")
        return
    gpu, memory = step.gpu(), step.gpu().memory()
    step.note(f"{gpu.name}, driver {gpu.driver()}, {memory.total >> 20 if memory else 'unknown'} MiB")
    torch = subprocess.run([step.args.python, "-c", "import torch; print(torch.__version__)"], capture_output=True, text=True)
    step.note(f"torch {torch.stdout.strip() or torch.stderr.strip()[-200:]}")


def run_step(name, function, deadline, args):
    """Runs it in a process of its own, which can be ended whatever it waits for. Returns its result."""
    title = f"{name} {function.__name__.replace('_', ' ')}".strip()
    say(title)
    begin = time.monotonic()
    with Workspace() as ws:
        step = Step(title, args, ws)
        step.write()
        process = multiprocessing.Process(target=step.run, args=(function,), daemon=True)
        process.start()
        process.join(deadline)
        late = process.is_alive()
        if late:
            process.kill()
            process.join(5)
        result = json.loads(step.path.read_text())
        left = len(ws.processes())
    if late or result["outcome"] == "running":
        result["outcome"] = f"not within {deadline:.0f} s" if late else "died"
    result.update(took_s=round(time.monotonic() - begin, 1), processes_left=left)
    return result


def main():
    p = argparse.ArgumentParser(description="Experiments on what happens when things break.")
    p.add_argument("--bin", required=True, help="folder that holds rad and radd")
    p.add_argument("--out", required=True, help="folder for the results")
    p.add_argument("--only", default="abcdefg",
                   help="letters of the steps (default abcdefg; h to l need two GPUs; m kills a control daemon; n understates "
                        "memory; o and p take it otherwise)")
    p.add_argument("--gpu", type=int, default=0, metavar="INDEX", help="which GPU, in PCI order (default 0)")
    p.add_argument("--python", default=sys.executable, help="a Python with PyTorch (default: this one)")
    p.add_argument("--config", default="", metavar="TEXT", help="more lines for rad's configuration; \\n between them")
    p.add_argument("--budget", type=float, default=570, metavar="S", help="for all steps together (default 570)")
    p.add_argument("--sim", action="store_true", help="simulated GPU: steps a, b, c, n with `rad simtask`")
    args = p.parse_args()
    names = [n for n in args.only.replace(",", "") if not (args.sim and STEPS.get(n, (0, 0, 0))[2])]
    unknown = set(names) - set(STEPS)
    if unknown:
        p.error(f"no step {', '.join(sorted(unknown))}; there are {', '.join(STEPS)}")
    out = pathlib.Path(args.out)
    out.mkdir(parents=True, exist_ok=True)
    bad, begin = 0, time.monotonic()
    with open(out / "faults.jsonl", "w", buffering=1) as f:
        for name, (function, deadline, _) in [("", (machine, 120, False)), *((n, STEPS[n]) for n in names)]:
            left = args.budget - (time.monotonic() - begin)
            if left < 20:
                say(f"{name}: left out, the budget is used; run it with --only {name}")
                bad += 1
                continue
            try:
                result = run_step(name, function, min(deadline, left), args)
            except Exception:  # the next step must run whatever becomes of this one
                result = {"step": name, "outcome": "failed", "error": traceback.format_exc()}
            f.write(json.dumps(result) + "\n")
            say(f"  {result['outcome']}", result.get("error", ""))
            bad += result["outcome"] != "as expected"
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
