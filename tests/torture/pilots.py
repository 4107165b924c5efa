#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Pilots on one queue of files, killed at random moments: pilot, its agent, its radd, a whole node, an allocation that ends, a controller
of Slurm that does not answer, a `rad submit` or `rad cancel` in its midst. What tasks wrote themselves is compared with what the queue
says at the end: nothing that was accepted is lost, and nothing runs beside itself or again after it has ended (but for what ended just
before its node lost its power, and of which nobody had been told: "ended_untold"); of an array with a limit no more elements run at once
than it says, and what waits for another task begins after that has ended ("broken_rules" counts both).

    tests/torture/pilots.py [--kills 200] [--seed N] [--nodes 3] [--seconds 0] [--keep] [--out F.jsonl] [--on FOLDER...]

Prints a line of JSON: accepted, run, lost, doubled. RAD_BUILD_ROOT: where rad and radd are. Slurm is tests/fake-slurm."""
import argparse
import glob
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
NEWS_S = 10     # a task that ended so shortly before its node lost its power may not have been told of yet, and is done again
ENDED = {"COMPLETED", "FAILED", "OUT_OF_MEMORY", "CANCELLED", "TIMEOUT", "LOST"}

# One line a start and an end, with the time, each in one write; `run/ID` is made by whoever begins, and gone when that one is.
# A task that is told to save goes on where it was.
TASK = r'''
id=$RAD_QUEUE_TASK; cd "$STORM"
if ! ( set -C; echo $$ >"run/$id" ) 2>/dev/null; then
	read -r other <"run/$id"
	if [ -n "$other" ] && [ -e "/proc/$other" ] && grep -qz "RAD_QUEUE_TASK=$id\$" "/proc/$other/environ" 2>/dev/null; then
		echo "D $id $$ $other" >>ledger
	fi
	echo $$ >"run/$id"
fi
n=0
if [ -n "$LIMIT" ]; then
	for f in run/"${id%_*}"_*; do
		other=; read -r other <"$f" 2>/dev/null
		[ -n "$other" ] && [ -e "/proc/$other" ] || continue
		if grep -qz "RAD_QUEUE_TASK=${f#run/}\$" "/proc/$other/environ" 2>/dev/null; then n=$((n + 1)); fi
	done
	[ $n -le "$LIMIT" ] || echo "L $id $$ $n" >>ledger
fi
[ -z "$AFTER" ] || grep -q "^E $AFTER " ledger || echo "B $id $$ $AFTER" >>ledger
echo "S $id $$ $EPOCHREALTIME" >>ledger
trap 'echo "A $id $$" >>ledger; rm -f "run/$id"; exit 85' USR1
i=0
while [ $i -lt "$STEPS" ]; do i=$((i + 1)); sleep 0.1; done
echo "E $id $$ $EPOCHREALTIME" >>ledger
rm -f "run/$id"
'''


def processes_of(folder):
    """All of a node: each names its folder in its command or its environment."""
    found = []
    word = (folder + "/").encode()
    for path in glob.glob("/proc/[0-9]*"):
        pid = int(path[6:])
        if pid == os.getpid():
            continue
        try:
            with open(f"{path}/cmdline", "rb") as f:
                text = f.read()
            with open(f"{path}/environ", "rb") as f:
                text += f.read()
            with open(f"{path}/stat") as f:
                dead = f.read().rsplit(")", 1)[1].split()[0] == "Z"
        except OSError:
            continue
        if word in text and not dead:
            found.append(pid)
    return found


class Node:
    def __init__(self, storm, number):
        self.storm, self.number, self.life = storm, number, 0
        self.begin()

    def begin(self):
        """An allocation on this node, with a folder of its own."""
        self.life += 1
        self.job = str(self.number * 1000 + self.life)
        self.folder = f"{self.storm.root}/n{self.number}.{self.life}"
        os.mkdir(self.folder, 0o700)
        self.says("RUNNING")
        self.start()

    def says(self, state):
        """What Slurm says of the job; None: it was forgotten."""
        path = f"{self.storm.slurm}/job.{self.job}"
        if state:
            with open(path + ".new", "w") as f:
                f.write(f"{state} 0\n")
            os.rename(path + ".new", path)
        elif os.path.exists(path):
            os.unlink(path)

    def start(self):
        env = dict(self.storm.env, SLURM_JOB_ID=self.job, SLURM_CLUSTER_NAME="storm", SLURMD_NODENAME=f"n{self.number}")
        with open(f"{self.storm.root}/pilots.log", "a") as log:
            self.pilot = subprocess.Popen([f"{self.storm.build}/rad", "pilot", "--queue", self.storm.queue_of(self.number),
                                           "--devices", "sim:1xa100-40g",
                                           "--state", f"{self.folder}/state", "--lease", "10s", "--grace", "6s"],
                                          env=env, stdout=log, stderr=log, cwd=self.storm.root, start_new_session=True)

    def pid_of(self, what):
        for path in glob.glob("/proc/[0-9]*"):
            try:
                with open(f"{path}/cmdline", "rb") as f:
                    words = f.read().split(b"\0")
                with open(f"{path}/stat") as f:
                    parent = int(f.read().rsplit(")", 1)[1].split()[1])
                with open(f"{path}/environ", "rb") as f:
                    env = f.read()
            except (OSError, IndexError):
                continue
            if what == "agent" and parent == self.pilot.pid and b"pilot" in words:
                return int(path[6:])
            if what == "radd" and words[0].endswith(b"radd") and b"--ready-fd" in words and (self.folder + "/").encode() in env:
                return int(path[6:])
        return None

    def kill(self, what):
        pid = self.pilot.pid if what == "pilot" else self.pid_of(what)
        if pid:
            os.kill(pid, signal.SIGKILL)
        self.revive()

    def revive(self):
        """Whoever is in the allocation still starts a pilot again."""
        if self.pilot.poll() is not None or not os.path.exists(f"/proc/{self.pilot.pid}"):
            self.pilot.wait()
            self.start()

    def end_all(self):
        while pids := processes_of(self.folder):
            for sig in (signal.SIGSTOP, signal.SIGKILL):
                for pid in pids:
                    try:
                        os.kill(pid, sig)
                    except OSError:
                        pass
        self.pilot.wait()

    def power_cut(self, rng):
        """At once, and Slurm knows a moment later; what was on the node is gone."""
        self.storm.cuts.append(time.time())
        self.end_all()
        job, folder = self.job, self.folder
        self.begin()
        self.storm.later.append((time.monotonic() + rng.uniform(0, 4), job, rng.choice(["NODE_FAIL", "CANCELLED", None])))
        shutil.rmtree(folder, ignore_errors=True)

    def allocation_ends(self):
        """SIGTERM, as by scancel; what is there after its grace is ended."""
        self.pilot.send_signal(signal.SIGTERM)
        try:
            self.pilot.wait(20)
        except subprocess.TimeoutExpired:
            pass
        self.storm.cuts.append(time.time())
        self.storm.note(f"job {self.job} is over, its pilot ended with {self.pilot.poll()}")
        self.end_all()
        self.says("COMPLETED")
        self.begin()


class Storm:
    def __init__(self, a):
        self.a, self.rng = a, random.Random(a.seed)
        self.build = os.environ.get("RAD_BUILD_ROOT", os.path.join(HERE, "../../build"))
        self.build = os.path.abspath(self.build)
        self.root = tempfile.mkdtemp(prefix="rad-pilots.", dir="/tmp")
        self.slurm = f"{self.root}/slurm"
        self.queues = [f"{on}/{os.path.basename(self.root)}" for on in a.on or [self.root]]
        for d in ("slurm", "run", "out"):
            os.mkdir(f"{self.root}/{d}")
        open(f"{self.root}/ledger", "w").close()
        with open(f"{self.root}/rad.conf", "w") as f:
            f.write("interval: 0.2\nwindow: 2\nsettle: 0.2\nwarm: 1\nkill_wait: 1\n")
        self.env = {k: v for k, v in os.environ.items() if not k.startswith(("RAD_", "SLURM_", "CUDA_"))}
        self.env.update(PATH=f"{os.path.abspath(HERE)}/../fake-slurm:{self.build}:{os.environ['PATH']}", FAKE_SLURM=self.slurm,
                        RAD_CONFIG=f"{self.root}/rad.conf", RAD_CLAIMS_DIR="", HOME=self.root, STORM=self.root)
        self.accepted, self.cancelled, self.later, self.cuts = {}, set(), [], []
        self.kills = {}

    def queue_of(self, number):
        """The queue as the client of that node sees it; of 0: that of a login node."""
        return self.queues[number % len(self.queues)]

    def rad(self, *words, kill=False, **more):
        p = subprocess.Popen([f"{self.build}/rad", *words], env=dict(self.env, RAD_QUEUE=self.queue_of(0), **more), cwd=f"{self.root}/out",
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        if kill:
            time.sleep(self.rng.uniform(0, 0.03))
            p.kill()
        out, err = p.communicate()
        return p.returncode, out, err

    def submit(self, kill=False):
        array, limit = self.rng.random() < 0.15, self.rng.choice(["", "1", "2"])
        before = [t for t in list(self.accepted)[-6:] if "_" not in t]
        after = self.rng.choice(before) if before and not array and self.rng.random() < 0.25 else ""
        words = ["--array=0-3" + (limit and "%" + limit)] if array else ["--dependency=afterok:" + after] if after else []
        code, out, err = self.rad("submit", "--parsable", "--gpu-mem", "2G", *words, "--", "bash", "-c", TASK, kill=kill, AFTER=after,
                                  LIMIT=limit if array else "", STEPS=str(self.rng.choice([1, 5, 10, 30, 60])))
        if code == 0:
            job = out.strip()
            for task in ([f"{job}_{i}" for i in range(4)] if array else [job]):
                self.accepted[task] = True
        elif not kill:
            raise SystemExit(f"a submission was refused: {err}")

    def cancel(self, kill=False):
        if self.accepted:
            task = self.rng.choice(list(self.accepted)[-12:])
            self.cancelled.add(task)
            self.rad("cancel", task, kill=kill)

    def moment(self, nodes):
        what = self.rng.choices(["pilot", "agent", "radd", "all three", "power cut", "allocation ends", "submit", "cancel", "slurm down"],
                                [18, 14, 16, 10, 12, 6, 12, 8, 4])[0]
        node = self.rng.choice(nodes)
        self.kills[what] = self.kills.get(what, 0) + 1
        self.note(f"{what}, node {node.number} job {node.job}")
        if what in ("pilot", "agent", "radd"):
            node.kill(what)
        elif what == "all three":
            for part in ("radd", "agent", "pilot"):
                node.kill(part)
        elif what == "power cut":
            node.power_cut(self.rng)
        elif what == "allocation ends":
            node.allocation_ends()
        elif what == "submit":
            self.submit(kill=True)
        elif what == "cancel":
            self.cancel(kill=True)
        else:
            down = f"{self.slurm}/down"
            if os.path.exists(down):
                os.unlink(down)
            else:
                open(down, "w").close()

    def note(self, text):
        with open(f"{self.root}/moments", "a") as f:
            f.write(f"{time.time():.3f} {text}\n")

    def catch_up(self, everything=False):
        """What Slurm learns late."""
        for one in list(self.later):
            if everything or one[0] <= time.monotonic():
                path = f"{self.slurm}/job.{one[1]}"
                if one[2]:
                    with open(path, "w") as f:
                        f.write(f"{one[2]} 0\n")
                elif os.path.exists(path):
                    os.unlink(path)
                self.later.remove(one)

    def states(self):
        code, out, err = self.rad("queue", "-t", "all", "--json")
        if code:
            raise SystemExit(f"rad queue: {err}")
        return {t["id"]: t for t in json.loads(out)["tasks"]}

    def settle(self, nodes):
        """Calm: pilots that died are there again, and people release what is held."""
        if os.path.exists(f"{self.slurm}/down"):
            os.unlink(f"{self.slurm}/down")
        self.catch_up(True)
        end = time.monotonic() + 240
        while time.monotonic() < end:
            for node in nodes:
                node.revive()
            live = [t for t in self.states().values() if t["state"] not in ENDED]
            if not live:
                return
            for t in live:      # what it waited for was cancelled
                if t["reason"] == "DependencyNeverSatisfied":
                    self.cancelled.add(t["id"])
                    self.rad("cancel", t["id"])
            held = [t["id"] for t in live if t["state"] == "HELD"]
            if held:
                self.rad("release", *held)
            time.sleep(1)

    def check(self):
        ran, ends = {}, {}
        with open(f"{self.root}/ledger") as f:
            for line in f:
                what, task, _, *at = line.split()
                ran.setdefault(task, []).append(what)
                if what == "E":
                    ends.setdefault(task, []).append(float(at[0]))
        states = self.states()
        lost = [t for t in self.accepted if states.get(t, {}).get("state") not in ENDED]
        lost += [t for t in self.accepted if states.get(t, {}).get("state") == "COMPLETED" and "E" not in ran.get(t, [])]
        lost += [t for t in self.accepted if states.get(t, {}).get("state") == "CANCELLED" and t not in self.cancelled]
        again = [t for t, what in ran.items() if "S" in what[what.index("E") + 1 if "E" in what else len(what):]]
        untold = [t for t in again if all(any(-3 < cut - at < NEWS_S for cut in self.cuts) for at in ends[t][:-1])]
        doubled = [t for t in ran if "D" in ran[t] or (t in again and t not in untold)]
        strange = [t for t in ran if t not in states]
        broken = [t for t in ran if "L" in ran[t] or "B" in ran[t]]
        return {"accepted": len(self.accepted), "run": sum("E" in w for w in ran.values()),
                "begun_again": sum(w.count("S") > 1 for w in ran.values()), "ended_untold": len(untold),
                "ended": {s: sum(t["state"] == s for t in states.values()) for s in sorted(ENDED)},
                "lost": len(lost), "doubled": len(doubled), "unknown": len(strange),
                "broken_rules": len(broken), "which": {"broken": broken[:5], "lost": lost[:5], "doubled": doubled[:5],
                                                       "unknown": strange[:5]}}

    def run(self):
        self.submit()
        nodes = [Node(self, i + 1) for i in range(self.a.nodes)]
        began = time.monotonic()
        try:
            while sum(self.kills.values()) < self.a.kills or time.monotonic() - began < self.a.seconds:
                for _ in range(self.rng.choice([0, 1, 2, 2])):
                    self.submit()
                if self.rng.random() < 0.1:
                    self.cancel()
                time.sleep(self.rng.uniform(0, 1.2))
                self.moment(nodes)
                self.catch_up()
                for node in nodes:
                    node.revive()
            self.settle(nodes)
            result = self.check()
        finally:
            for node in nodes:
                node.end_all()
        result.update(kills=sum(self.kills.values()), by=self.kills, seed=self.a.seed, seconds=round(time.monotonic() - began))
        good = not (result["lost"] or result["doubled"] or result["unknown"] or result["broken_rules"])
        print(json.dumps(result))
        if self.a.out:
            with open(self.a.out, "a") as f:
                f.write(json.dumps(result) + "\n")
        if good and not self.a.keep:
            shutil.rmtree(self.root, ignore_errors=True)
        else:
            print(f"kept: {self.root}", file=sys.stderr)
        return 0 if good else 1


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--kills", type=int, default=200)
    p.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    p.add_argument("--nodes", type=int, default=3)
    p.add_argument("--seconds", type=float, default=0)
    p.add_argument("--keep", action="store_true")
    p.add_argument("--out", help="a file to which the line is added")
    p.add_argument("--on", nargs="+", help="one folder, for the queue, as several clients of a file server see it: used by turns")
    a = p.parse_args()
    print(f"seed {a.seed}", file=sys.stderr)
    return Storm(a).run()


if __name__ == "__main__":
    sys.exit(main())
