#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Two users of one radd of root's on one GPU, under one MPS server: how fast, and who dies of what. Run it as root.

    bench/hardware/run_users.py --bin dist/rad/bin --out results            # on a GPU: at most 240 s
    bench/hardware/run_users.py --bin build --out results --sim             # the same on a simulated GPU, without MPS servers

OUT/users.tar.gz holds users.jsonl (one line a step, written as soon as it is known) and every log. Steps: what the driver's
control daemon is and allows; one user alone; two users, one of whom lies about his memory, while the other tries to control the
server; a fault; a cancel, deaf to SIGTERM, with work in flight; the server's log pipe closed to users. No setting of the GPU is
changed.
"""
import argparse
import json
import os
import pathlib
import pwd
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tarfile
import time
import traceback

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from common import Users, Workspace, progress, say, tail, wait_for

HERE = pathlib.Path(__file__).resolve().parent
CONFIG = ("placement: magm\nshare: mps\nmps_users: together\norder: backfill\nmax_smact: off\nmax_tasks: off\nslack: 0\n"
          "window: 10\nsettle: 3\nwarm: 6\nkill_wait: 3\n")
CONTROL = "nvidia-cuda-mps-control"


class OutOfTime(Exception):
    pass


class Experiment:
    def __init__(self, args, ws):
        self.args, self.ws = args, ws
        self.rad = Users(args.bin, ws, "sim:1xh200-141g" if args.sim else f"nvml:{args.gpu}", CONFIG, args.users.split(","))
        shutil.copy(HERE / "culprit.py", self.rad.work)
        self.alice, self.bob = self.rad.users
        self.lines = open(ws.dir / "users.jsonl", "w", encoding="utf-8")
        self.now, self.end = None, time.monotonic() + args.limit - 12  # what packing takes

    def left(self, most):
        return max(1, min(most, self.end - time.monotonic()))

    def note(self, text):
        say(f"  {text}")
        self.now["findings"].append(text)

    def check(self, good, text):
        self.note(text if good else f"NOT SO: {text}")
        if not good:
            self.now["outcome"] = "differs"

    def step(self, function):
        if time.monotonic() > self.end:
            say(f"{function.__name__}: no time left")
            return
        say(function.__name__.replace("_", " "))
        begin = time.monotonic()
        self.now = {"step": function.__name__, "outcome": "as expected", "findings": [], "raw": {}}
        try:
            function(self)
        except OutOfTime:
            self.now["outcome"] = "cut: the time is over"
            raise
        except Exception:
            self.now.update(outcome="failed", error=traceback.format_exc())
            say(self.now["error"])
        finally:
            self.now["took_s"] = round(time.monotonic() - begin, 1)
            self.lines.write(json.dumps(self.now) + "\n")
            self.lines.flush()

    # Tasks ----------------------------------------------------------------------------------------------------------

    def train(self, *words):
        return [self.args.python, self.rad.work / "train.py", *words, "--steps", 0, "--optimizer", "momentum"]

    def large(self, seconds):
        """About 4.2 GiB."""
        if self.args.sim:
            return [self.rad.bin / "rad", "simtask", "--mem", "4300", "--seconds", seconds, "--gract", "0.5", "--smact", "0.4"]
        return self.train("--model", "resnet50", "--batch-size", 32, "--seconds", seconds, "--print-every", 10)

    def small(self, seconds):
        """About 1 GiB."""
        if self.args.sim:
            return [self.rad.bin / "rad", "simtask", "--mem", "900", "--seconds", seconds, "--gract", "0.25", "--smact", "0.1"]
        return self.train("--model", "resnet18", "--image-size", 32, "--batch-size", 128, "--seconds", seconds,
                          "--print-every", 50)

    def liar(self):
        """Declares 5 GiB and takes more; run again with what it needs, it ends."""
        if self.args.sim:
            return [self.rad.bin / "rad", "simtask", "--mem", "4300", "--grow-to", "6000", "--grow-at", "2", "--seconds", "5"]
        command = self.train("--model", "resnet50", "--batch-size", 32, "--print-every", 10, "--lie-mib", 1536, "--lie-at", 40)
        command[command.index("--steps") + 1] = 90
        return command

    def culprit(self, kind):
        if self.args.sim:
            fault = ["--mps-fault-at", "3"] if kind == "address" else []
            return [self.rad.bin / "rad", "simtask", "--mem", "900", "--seconds", "60", *fault]
        return [self.args.python, self.rad.work / "culprit.py", kind]

    def works(self, user, name, task):
        """Until it makes progress, or does what it is there for."""
        def seen():
            text = tail(self.rad.output_of(user, name)) or ""
            state = self.rad.show(task)["state"]
            if state not in ("PENDING", "RUNNING"):
                raise RuntimeError(f"{name} is {state}: {text[-600:]}")
            return len(progress(text)) > 1 or "work in flight" in text or "now: " in text
        wait_for(f"{name} to work", self.left(60), seen)

    def speed(self, user, name):
        rates = [r for _, r in progress(tail(self.rad.output_of(user, name), 1 << 20))][2:]
        return statistics.median(rates) if rates else float("nan")

    def collect(self, tasks):
        """{name: (user, id)}: everything of them into the line; returns the task objects."""
        shown = {name: self.rad.show(task) for name, (_, task) in tasks.items()}
        self.now["raw"]["tasks"] = shown
        self.now["raw"]["outputs"] = {name: tail(self.rad.output_of(user, name), 3000) for name, (user, _) in tasks.items()}
        for name, t in shown.items():
            tries = "; ".join(f"{a['share']} {a['verdict']} ({a['evidence']})" for a in t["attempts"])
            self.note(f"{name} of {t['user']}: {t['state']}: {tries}")
        return shown

    def finish(self, tasks, most):
        self.rad.wait_all([task for _, task in tasks.values()], self.left(most))
        return self.collect(tasks)

    def pipe(self):
        """Of the server that runs: a stopped one's folder stays for a while, without its pid file."""
        for pid in (self.rad.state / "run" / "mps").glob("all.*/pid"):
            return pid.parent / "pipe"
        raise RuntimeError("no server for all users runs")

    def ask(self, user, command):
        try:
            done = subprocess.run([CONTROL], input=command + "\n", text=True, capture_output=True, timeout=2,
                                  env={**os.environ, "CUDA_MPS_PIPE_DIRECTORY": str(self.pipe())},
                                  **({"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []} if user else {}))
        except subprocess.TimeoutExpired:
            return "hangs"
        return f"{done.returncode}: {(done.stdout + done.stderr).strip()}"


# Steps --------------------------------------------------------------------------------------------------------------------

def the_machine(e):
    status = e.rad.json("doctor")
    e.now["raw"]["doctor"] = status
    e.check(e.rad.json("gpus")["gpus"][0].get("mps_users") == "together", "radd has one MPS server for all users")
    for line in (tail(e.rad.log) or "").splitlines():
        if "MPS" in line:
            e.note(line)
    if e.args.sim:
        return
    smi = subprocess.run(["nvidia-smi", "--query-gpu=name,driver_version,memory.total,compute_mode", "--format=csv,noheader"],
                         capture_output=True, text=True, timeout=20)
    e.note(smi.stdout.strip())
    binary = pathlib.Path(shutil.which(CONTROL)).read_bytes()
    texts = [t.decode() for t in re.findall(rb"[\x20-\x7e]{5,}", binary) if re.search(rb"(?i)multi|privileg|quit", t)]
    e.now["raw"]["texts_of_the_control_program"] = texts
    for user in (e.alice, e.bob):
        done = e.rad.as_user(user, [e.args.python, "-c", "import torch; print(torch.__version__, torch.version.cuda)"], 60)
        e.check(done.returncode == 0, f"{user.pw_name} has torch {done.stdout.strip() or done.stderr.strip()[-300:]}")


def one_user(e):
    """His two tasks, first one of them alone."""
    seconds = 6 if e.args.sim else 9
    tasks = {"alone": (e.alice, e.rad.submit_of(e.alice, "alone", e.large(seconds), "--gpu-mem", "5G"))}
    e.finish(tasks, 60)
    e.note(f"alone: {e.speed(e.alice, 'alone'):.1f} steps/s")
    tasks = {"same-large": (e.alice, e.rad.submit_of(e.alice, "same-large", e.large(seconds), "--gpu-mem", "5G")),
             "same-small": (e.alice, e.rad.submit_of(e.alice, "same-small", e.small(seconds), "--gpu-mem", "1536M"))}
    e.finish(tasks, 60)
    for name in tasks:
        e.note(f"{name}: {e.speed(e.alice, name):.1f} steps/s, both of one user")


def control(e, victim):
    """What a client's user may say to the control daemon, and do in its folder."""
    pipe = e.pipe()
    said = e.now["raw"]["said"] = {}  # kept as it comes: what asks may also end the server, and with it the step
    listing = subprocess.run(["ls", "-la", str(pipe), str(pipe.parent)], capture_output=True, text=True, timeout=10).stdout
    servers = e.ask(None, "get_server_list")
    server = (re.findall(r"\d+", servers.split(":", 1)[-1]) or ["0"])[0]
    clients = e.ask(None, f"get_client_list {server}")
    client = (re.findall(r"\d+", clients.split(":", 1)[-1]) or ["0"])[0]
    for command in ("get_server_list", f"get_client_list {server}", f"get_server_status {server}", "ps",
                    f"set_active_thread_percentage {server} 5", "set_default_device_pinned_mem_limit 0 1G",
                    f"set_device_pinned_mem_limit {server} 0 1G", f"terminate_client {server} {client}",
                    f"shutdown_server {server}", "quit -t 1"):
        said[command] = e.ask(e.bob, command)
    shell = ("rm -f control && echo REMOVED; mv log x && echo MOVED; touch mine && echo MADE; "
             "ln -s /etc/passwd y && echo LINKED; "
             "ls ../log && echo READ; kill $(cut -d' ' -f1 ../pid) && echo KILLED; true")
    done = e.rad.as_user(e.bob, ["bash", "-c", f"cd {pipe} && {{ {shell}; }}"])
    e.now["raw"].update(pipe=listing, servers=servers, clients=clients, shell=done.stdout + done.stderr)
    e.note("; ".join(f"{command}: {answer}" for command, answer in said.items()))
    e.check(not re.search(r"^[A-Z]+$", done.stdout, re.M), "the other user changes nothing in its folder")
    e.check(e.ask(None, "get_server_list") == servers, "the server is there as before")
    e.check(e.rad.show(victim)["state"] == "RUNNING", "the first user's task runs on")


def two_users(e):
    seconds = 10 if e.args.sim else 24
    tasks = {"large": (e.alice, e.rad.submit_of(e.alice, "large", e.large(seconds), "--gpu-mem", "5G")),
             "small": (e.bob, e.rad.submit_of(e.bob, "small", e.small(seconds), "--gpu-mem", "1536M"))}
    for name, (user, task) in tasks.items():
        e.works(user, name, task)
    e.check(all(e.rad.show(t)["attempts"][0]["share"] == "mps" for _, t in tasks.values()), "both run under MPS")
    if not e.args.sim:
        time.sleep(4)
        e.note(f"before anything: {e.speed(e.alice, 'large'):.1f} and {e.speed(e.bob, 'small'):.1f} steps/s, of two users")
        control(e, tasks["large"][1])
    tasks["liar"] = (e.bob, e.rad.submit_of(e.bob, "liar", e.liar(), "--gpu-mem", "5G"))
    shown = e.finish(tasks, 75)
    for name in ("large", "small"):
        e.check(shown[name]["state"] == "COMPLETED" and len(shown[name]["attempts"]) == 1, f"{name} ran once, to its end")
        e.note(f"{name}: {e.speed(tasks[name][0], name):.1f} steps/s over all")
    e.check(shown["liar"]["attempts"][0]["verdict"] == "oom", "the liar failed alone, at its limit")


def a_cancel(e):
    """Bob's task is asked to end and then killed with work in flight: alice's may die of that, and is not charged."""
    victim = e.rad.submit_of(e.alice, "victim-of-kill", e.large(12), "--gpu-mem", "5G")
    shell = 'trap "" TERM; exec "$@"' if not e.args.sim else 'trap "" TERM; "$@"; sleep 60'
    deaf = ["bash", "-c", shell, "deaf", *e.culprit("busy")]
    killed = e.rad.submit_of(e.bob, "killed", deaf, "--gpu-mem", "1536M")
    e.works(e.alice, "victim-of-kill", victim)
    if not e.args.sim:
        e.works(e.bob, "killed", killed)
    e.rad.cancel_of(e.bob, killed)
    e.rad.wait_state(killed, {"CANCELLED"}, e.left(30))
    shown = e.finish({"victim-of-kill": (e.alice, victim), "killed": (e.bob, killed)}, 45)["victim-of-kill"]
    e.check(shown["state"] == "COMPLETED", f"the other user's task came to its end, after {len(shown['attempts'])} attempts")


def a_fault(e):
    """Bob's task writes to an address that is not there: both are told, and who faults again is the guilty one."""
    victim = e.rad.submit_of(e.alice, "victim-of-fault", e.large(12), "--gpu-mem", "5G")
    e.works(e.alice, "victim-of-fault", victim)
    faulty = e.rad.submit_of(e.bob, "faulty", e.culprit("address"), "--gpu-mem", "1536M")
    shown = e.finish({"victim-of-fault": (e.alice, victim), "faulty": (e.bob, faulty)}, 80)
    first = shown["victim-of-fault"]["attempts"][0]
    e.check(first["verdict"] == "neighbour" and f"task {faulty} of another user" in first["evidence"],
            "the innocent user is told whose task it was")
    e.check(shown["victim-of-fault"]["state"] == "COMPLETED", "the innocent task came to its end")
    e.check(shown["faulty"]["state"] == "FAILED", "the faulty task is FAILED")
    e.now["raw"]["log"] = [line for line in (tail(e.rad.log) or "").splitlines() if "neighbour" in line]


def a_narrow_log_pipe(e):
    """Whether clients want the server's log pipe: closed to them, while one is there that keeps the server."""
    if e.args.sim:
        return
    keeper = e.rad.submit_of(e.alice, "keeper", e.small(15), "--gpu-mem", "1536M")
    e.works(e.alice, "keeper", keeper)
    (e.pipe() / "log").chmod(0o600)
    late = e.rad.submit_of(e.bob, "late", e.small(3), "--gpu-mem", "1536M")
    shown = e.finish({"keeper": (e.alice, keeper), "late": (e.bob, late)}, 45)
    e.check(shown["late"]["state"] == "COMPLETED", "a client comes with the log pipe closed to its user")


STEPS = (the_machine, one_user, two_users, a_fault, a_cancel, a_narrow_log_pipe)


def check_python(p, args):
    """Tasks run as these users: a Python below a closed home folder is none to them."""
    user = pwd.getpwnam(args.users.split(",")[0])
    words = "pass" if args.sim else "import torch"
    try:
        done = subprocess.run([args.python, "-c", words], user=user.pw_uid, group=user.pw_gid, extra_groups=[],
                              capture_output=True, cwd="/", text=True, timeout=60)
        why = done.stderr.strip()[-200:] if done.returncode else ""
    except OSError as err:
        why = str(err)
    if why:
        p.error(f"{args.python} does not serve {user.pw_name}: {why}; name one that does with --python, or other --users")


def pack(args, e):
    out = pathlib.Path(args.out)
    out.mkdir(parents=True, exist_ok=True)
    new = out / "users.tar.gz.new"
    with tarfile.open(new, "w:gz") as tar:
        logs = [*sorted(e.ws.dir.glob("*/*.log")), *sorted(e.rad.state.glob("run/mps/*/log/*"))]
        for path in [e.ws.dir / "users.jsonl", e.rad.log, *logs]:
            if path.is_file() and path.stat().st_size < 4 << 20:
                tar.add(path, arcname="users/" + str(path.relative_to(e.ws.dir)))
    new.replace(out / "users.tar.gz")
    say(f"results: {out / 'users.tar.gz'}")


def on_alarm(*_):
    raise OutOfTime


def main():
    p = argparse.ArgumentParser(description="Two users on one GPU under one MPS server.")
    p.add_argument("--bin", required=True, help="folder that holds rad, radd and rad-shim")
    p.add_argument("--out", required=True, help="folder for users.tar.gz")
    p.add_argument("--gpu", type=int, default=0, metavar="INDEX", help="which GPU, in PCI order (default 0)")
    p.add_argument("--python", default=sys.executable, help="a Python with PyTorch (default: this one)")
    p.add_argument("--users", default="nobody,daemon", help="two accounts (default nobody,daemon)")
    p.add_argument("--limit", type=float, default=240, metavar="S", help="ends itself by then (default 240)")
    p.add_argument("--only", default="", metavar="NAMES", help="these steps, with commas between")
    p.add_argument("--sim", action="store_true", help="a simulated GPU and `rad simtask`")
    args = p.parse_args()
    if os.geteuid():
        p.error("needs root: it is about several users")
    check_python(p, args)
    wanted = [s for s in STEPS if not args.only or s.__name__ in args.only.split(",")]
    signal.signal(signal.SIGALRM, on_alarm)
    signal.signal(signal.SIGTERM, on_alarm)
    signal.setitimer(signal.ITIMER_REAL, args.limit - 12)
    differs = False
    with Workspace() as ws:
        e = Experiment(args, ws)
        try:
            e.rad.start()
            for step in wanted:
                e.step(step)
                differs = differs or e.now["outcome"] != "as expected"
        except OutOfTime:
            say("the time is over")
            differs = True
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            e.lines.close()
            pack(args, e)
            e.rad.stop()
    return 1 if differs else 0


if __name__ == "__main__":
    sys.exit(main())
