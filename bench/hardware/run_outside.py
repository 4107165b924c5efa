#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Work outside the queue, on a real GPU: a process that is adopted, a lease that Python asks for, two daemons that share a GPU.

    bench/hardware/run_outside.py --bin dist/rad/bin --out results            # on a GPU: about a minute
    bench/hardware/run_outside.py --bin build --out results --sim             # the same on a simulated one

Writes OUT/outside.jsonl, a line a step as soon as it is known. No setting of the GPU is changed.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import time
import traceback

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from common import ROOT, Rad, Workspace, say, tail, wait_for

CONFIG = "share: mps\nlease_idle: 5\nwarm: 4\nsettle: 3\nwindow: 10\n"
HOLDS = """
import sys, time, torch
x = torch.empty(int(sys.argv[1]) << 20, dtype=torch.uint8, device="cuda")
m = torch.ones(2048, 2048, device="cuda")
print("there", flush=True)
end = time.monotonic() + float(sys.argv[2])
while time.monotonic() < end:
    for _ in range(50):
        m = torch.clamp(m @ m, 0, 1)
    torch.cuda.synchronize()
"""
LEASES = """
import os, sys
import radrm
held = radrm.lease(sys.argv[1], hours=0.1)
print("lease", held.id, os.environ.get("CUDA_VISIBLE_DEVICES"), flush=True)
sys.argv[1:] = sys.argv[2:]
"""


def parse_args():
    p = argparse.ArgumentParser(description="Adopted processes, leases, and two daemons, on a GPU.")
    p.add_argument("--bin", required=True, type=pathlib.Path, help="folder that holds rad and radd")
    p.add_argument("--out", required=True, type=pathlib.Path)
    p.add_argument("--gpu", type=int, default=0)
    p.add_argument("--python", default=sys.executable, help="one that has PyTorch (default: this one)")
    p.add_argument("--sim", action="store_true")
    return p.parse_args()


class Experiment:
    def __init__(self, args, ws):
        self.args, self.ws, self.now = args, ws, None
        ws.env["RAD_CLAIMS_DIR"] = str(ws.dir / "claims")
        (ws.dir / "claims").mkdir(mode=0o1777)
        self.rad = self.daemon("a")
        self.uuid = self.gpu(self.rad)["uuid"]

    def daemon(self, name):
        """A radd with a folder of its own."""
        class Place:
            dir, env = self.ws.dir / name, self.ws.env
        Place.dir.mkdir()
        return Rad(self.args.bin, Place, "sim:1xh200-141g" if self.args.sim else f"nvml:{self.args.gpu}", CONFIG).start()

    def gpu(self, rad):
        return rad.json("gpus")["gpus"][0]

    def check(self, good, text):
        say(f"  {text}" if good else f"  NOT SO: {text}")
        self.now["findings"].append(text if good else f"NOT SO: {text}")
        self.now["as_expected"] &= bool(good)

    def step(self, function):
        say(function.__name__)
        begin, self.now = time.monotonic(), {"step": function.__name__, "as_expected": True, "findings": []}
        try:
            function()
        except Exception:
            self.now.update(as_expected=False, error=traceback.format_exc())
            say(self.now["error"])
        self.now["took_s"] = round(time.monotonic() - begin, 1)
        with open(self.args.out / "outside.jsonl", "a", encoding="utf-8") as f:
            f.write(json.dumps(self.now) + "\n")
        return self.now["as_expected"]

    # Programs -------------------------------------------------------------------------------------------------------

    def holding(self, mib, seconds):
        if self.args.sim:
            return [self.rad.bin / "rad", "simtask", "--mem", str(mib + 500), "--seconds", str(seconds), "--ramp", "0.1"]
        return [self.args.python, "-c", HOLDS, str(mib), str(seconds)]

    def start(self, name, command, **env):
        """A process that nobody placed."""
        if self.args.sim:
            env |= {"RAD_SIM_DEVICES": str(self.rad.state / "sim-devices"), "RAD_GPU_UUIDS": self.uuid}
        with open(self.ws.dir / f"{name}.log", "w", encoding="utf-8") as log:
            return subprocess.Popen([str(c) for c in command], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                    env={**self.rad.env, "CUDA_VISIBLE_DEVICES": self.uuid, **env})

    def processes(self, pid):
        return [p for p in self.gpu(self.rad)["processes"] if p["pid"] == pid]

    # Steps ----------------------------------------------------------------------------------------------------------

    def adopted(self):
        process = self.start("outside", self.holding(5000, 25))
        try:
            seen = wait_for("the process on the GPU", 30, lambda: [p for p in self.processes(process.pid) if p["mem_mib"] > 5000])[0]
            self.check(seen["task"] is None, f"a process that nobody placed is seen with {seen['mem_mib']} MiB")
            task = self.rad.run("adopt", "--parsable", "--name", "adopted", process.pid).stdout.strip()
            shown = self.rad.show(task)
            self.check(shown["state"] == "RUNNING" and shown["attempts"][0]["claim_mib"] >= seen["mem_mib"],
                       f"adopted, it is RUNNING and holds {shown['attempts'][0]['claim_mib']} MiB")
            wait_for("its memory to be the task's", 10, lambda: all(p["task"] == task for p in self.processes(process.pid)))
            self.check(True, "its memory is the task's, and foreign to nobody")
            process.wait(60)
            done = self.rad.wait_state(task, ("COMPLETED", "FAILED"), 15)
            self.check(done["state"] == "COMPLETED", f"it ends: {done['state']}, peak {self.rad.show(task)['attempts'][0]['peak_mib']} MiB")
        finally:
            process.kill()

    def leased(self):
        words = [self.args.python, "-c", LEASES + HOLDS, "6G", "4000", "12"]
        if self.args.sim:
            words = [self.args.python, "-c", LEASES + "import subprocess; subprocess.run(sys.argv[1:])", "6G",
                     *self.holding(4000, 6)]
        process = self.start("lease", words, PYTHONPATH=str(ROOT / "python"), CUDA_VISIBLE_DEVICES="")
        try:
            said = wait_for("the lease", 30, lambda: next((t for t in (tail(self.ws.dir / "lease.log") or "").splitlines()
                                                           if t.startswith("lease ")), None)).split()
            shown = self.rad.show(said[1])
            self.check(shown["state"] == "RUNNING" and shown["lease"] and shown["process"] == process.pid,
                       f"radrm.lease(\"6G\"): a task that is this process, told {said[2] if len(said) > 2 else 'nothing'}")
            wait_for("its memory", 30, lambda: (self.rad.show(said[1])["attempts"][0]["peak_mib"] or 0) > 4000)
            gpu = self.gpu(self.rad)
            self.check(gpu["mem_held_mib"] >= 6144, f"{gpu['mem_held_mib']} MiB are held for it, {gpu['mem_used_mib']} used on the GPU")
            code = process.wait(60)
            done = self.rad.wait_state(said[1], ("COMPLETED", "FAILED"), 15)
            self.check(code == 0 and done["state"] == "COMPLETED", f"it ends with its process: exit {code}, {done['state']}")
            wait_for("its place", 10, lambda: self.gpu(self.rad)["mem_held_mib"] == 0)
            self.check(True, "nothing is held any more")
        finally:
            process.kill()

    def idle_lease(self):
        process = self.start("idle", ["sleep", "60"])
        try:
            task = json.loads(self.rad.run("lease", "--pid", process.pid, "--gpu-mem", "1G", "--json").stdout)["id"]
            wait_for("word of it", 40, lambda: self.rad.show(task)["reason"] == "Idle")
            self.check(self.rad.show(task)["state"] == "RUNNING", f"a place that computes nothing is told: "
                                                                  f"{self.rad.show(task)['reason_text']}")
            self.rad.run("lease", "--give-back", task)
        finally:
            process.kill()

    def two_daemons(self):
        """What one holds, the other counts: both tasks would take most of the GPU."""
        other = self.daemon("b")
        try:
            most = int(self.gpu(self.rad)["mem_total_mib"] * 0.6)
            mine = self.rad.submit("mine", self.holding(3000, 12), "--gpu-mem", f"{most}M")
            self.rad.wait_state(mine, ("RUNNING",), 20)
            theirs = other.submit("theirs", self.holding(3000, 3), "--gpu-mem", f"{most}M")
            waits = wait_for("word of it", 20, lambda: (t := other.show(theirs))["state"] == "PENDING" and t["reason"] and t)
            self.check(True, f"the other daemon's task waits ({waits['reason']}): {waits['reason_text']}")
            held = wait_for("the claim in its table", 10, lambda: (n := sum(c["held_mib"] for c in self.gpu(other)["claims"]))
                            >= most and n)
            self.check(True, f"it counts {held} MiB that the first holds")
            self.rad.wait_state(mine, ("COMPLETED",), 60)
            other.wait_state(theirs, ("COMPLETED",), 60)
            first, second = self.rad.show(mine), other.show(theirs)
            self.check(second["start_time"] >= first["end_time"], "it began when the first's had ended")
        finally:
            other.stop()


def main():
    args = parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    with Workspace() as ws:
        e = Experiment(args, ws)
        try:
            good = [e.step(step) for step in (e.adopted, e.leased, e.idle_lease, e.two_daemons)]
        finally:
            e.rad.stop()
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
