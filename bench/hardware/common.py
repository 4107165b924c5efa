# SPDX-License-Identifier: MIT
"""What the experiments share: a private daemon, the rad command, tidying up. Standard library only."""
import json
import os
import pathlib
import pwd
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
WORKLOADS = ROOT / "workloads"
MARK = "RAD_BENCH_RUN"  # in the environment of everything started here; also part of the private folder's name


def say(*words):
    print(time.strftime("%H:%M:%S"), *words, flush=True)


def save(path, data):
    """Whole or not at all: a run that is cut off leaves the file as it was after the last step."""
    path = pathlib.Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(path.name + ".new")
    new.write_text(json.dumps(data, indent=1) + "\n")
    new.replace(path)


def kept(path):
    """The lines of a file to which one run after another adds, without one that was cut off. Nothing where there is none yet."""
    return [json.loads(line) for line in path.read_text().splitlines() if line.endswith("}")] if path.exists() else []


def tail(path, limit=16384):
    """The end of a file, or None."""
    try:
        with open(path, "rb") as f:
            f.seek(max(0, os.path.getsize(path) - limit))
            return f.read().decode(errors="replace")
    except OSError:
        return None


def last_json(text):
    """The last line that is a JSON object: the summary that train.py prints. None if there is none."""
    for line in reversed((text or "").splitlines()):
        if line.startswith("{"):
            try:
                return json.loads(line)
            except ValueError:
                pass
    return None


def wait_for(what, deadline_s, test, period_s=0.2):
    """Waits until test() gives something true, and returns that. Raises TimeoutError naming `what`."""
    end = time.monotonic() + deadline_s
    while True:
        got = test()
        if got:
            return got
        if time.monotonic() > end:
            raise TimeoutError(f"{what}: not within {deadline_s} s")
        time.sleep(period_s)


def in_turn(names, budget_s, measure, took_s=0.0):
    """Calls measure(name, seconds that are left) for each, which says whether all went well. None is taken to need less than the one
    before it, the first `took_s`; what would not end in time is left out. Returns how many did not go well or were left out."""
    begin, failed = time.monotonic(), 0
    for name in names:
        at = time.monotonic()
        left_s = budget_s - (at - begin)
        if left_s <= took_s:
            say(f"{name}: left out, {left_s:.0f} s are left of {budget_s:.0f} s: run it again")
            failed += 1
            continue
        failed += not measure(name, left_s)
        took_s = time.monotonic() - at
    return failed


class Workspace:
    """A private folder, and the sure end of every process that was started in it."""
    PATIENCE_S = 5

    def __init__(self):
        # Short: sockets lie in it, and their paths may have 107 characters.
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="rb-", dir="/tmp"))
        self.env = {**os.environ, MARK: self.dir.name}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def processes(self):
        """Pids that carry the mark in their environment or the folder in their command line; not this one."""
        mark = self.dir.name.encode()
        found = []
        for entry in os.listdir("/proc"):
            if not entry.isdigit() or int(entry) == os.getpid():
                continue
            if any(mark in self._read(entry, name) for name in ("environ", "cmdline")):
                found.append(int(entry))
        return found

    @staticmethod
    def _read(pid, name):
        try:
            return pathlib.Path("/proc", pid, name).read_bytes()
        except OSError:
            return b""

    def end_processes(self):
        """TERM, some patience, KILL. Returns how many needed KILL."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            left = self.processes()
            for pid in left:
                try:
                    os.kill(pid, number)
                except OSError:
                    pass
            try:
                wait_for("processes to end", self.PATIENCE_S, lambda: not self.processes())
                return len(left) if number == signal.SIGKILL else 0
            except TimeoutError:
                continue
        return len(self.processes())

    def close(self):
        killed = self.end_processes()
        if killed:
            say(f"note: {killed} processes had to be killed")
        shutil.rmtree(self.dir, ignore_errors=True)


class Client:
    """A process of an experiment, with its output in NAME.log."""
    def __init__(self, workspace, name, command, env):
        self.path = workspace.dir / f"{name}.log"
        with open(self.path, "w") as f:
            self.process = subprocess.Popen(command, env={**env, "PYTHONUNBUFFERED": "1"}, stdin=subprocess.DEVNULL, stdout=f,
                                            stderr=f, cwd=WORKLOADS)

    def text(self):
        return tail(self.path, 1 << 20)

    def alive(self):
        return self.process.poll() is None

    def rates(self, since=0):
        """Steps a second of each progress line, from line `since` on."""
        return [rate for _, rate in progress(self.text())][since:]

    def wait_output(self, words, deadline_s):
        """Until `words` are in the output. Raises when it ends without them."""
        def seen():
            return words in self.text() or (not self.alive() and self._ended(words))
        return wait_for(f"'{words}' from {self.path.stem}", deadline_s, seen)

    def wait_rates(self, n, deadline_s):
        """Until n progress lines are there."""
        def seen():
            return len(self.rates()) >= n or (not self.alive() and self._ended("progress"))
        return wait_for(f"progress of {self.path.stem}", deadline_s, seen)

    def _ended(self, words):
        raise RuntimeError(f"{self.path.stem} ended with {self.process.returncode} before '{words}': {self.text()[-1000:]}")

    def wait(self, deadline_s):
        """Its exit code; None if it still runs then."""
        try:
            return self.process.wait(deadline_s)
        except subprocess.TimeoutExpired:
            return None

    def end(self, number=signal.SIGTERM, deadline_s=15):
        if self.alive():
            self.process.send_signal(number)
        return self.wait(deadline_s)


class Rad:
    """A private radd with its own state, socket and configuration, and the rad command that talks to it."""
    def __init__(self, bin_dir, workspace, devices, config):
        self.bin, self.ws, self.devices = pathlib.Path(bin_dir).resolve(), workspace, devices
        self.socket, self.state, self.config = (workspace.dir / n for n in ("sock", "s", "rad.yaml"))
        self.log = workspace.dir / "radd.log"
        self.env = {**workspace.env, "RAD_SOCKET": str(self.socket), "RAD_CONFIG": str(self.config), "RAD_NO_START": "1",
                    "PATH": f"{self.bin}:{os.environ.get('PATH', '/usr/bin:/bin')}"}
        self.config.write_text(config)
        self.process = None

    def start(self):
        """Starts the daemon and waits until it answers."""
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                [self.bin / "radd", "--foreground", "--devices", self.devices, "--config", self.config, "--state", self.state,
                 "--socket", self.socket], stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=self.env)

        def answers():
            if self.process.poll() is not None:
                raise RuntimeError(f"radd ended with {self.process.returncode}: {tail(self.log, 2000)}")
            return self.run("gpus", "--json", check=False).returncode == 0
        wait_for("radd to answer", 30, answers)
        try:  # a GPU whose load is not yet known takes two tasks only, which is not what is to be measured
            wait_for("a first reading", 5, lambda: self.json("gpus")["gpus"][0]["smact_now"] is not None)
        except TimeoutError as e:
            say(f"note: {e}")
        return self

    def died(self):
        """Whether the daemon is gone; its exit code, negative for a signal, is then in the text."""
        code = self.process.poll()
        return None if code is None else f"radd is gone: exit {code}"

    def stop(self):
        """Ends the daemon; running tasks go on, as they must."""
        if self.process and self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()

    def kill(self):
        self.process.kill()
        self.process.wait()

    def run(self, *args, check=True, timeout=60, cwd=None):
        result = subprocess.run([self.bin / "rad", *map(str, args)], env=self.env, cwd=cwd, stdin=subprocess.DEVNULL,
                                capture_output=True, text=True, timeout=timeout)
        if check and result.returncode:
            raise RuntimeError(f"rad {' '.join(map(str, args))}: exit {result.returncode}: {result.stderr.strip()}")
        return result

    def json(self, *args):
        return json.loads(self.run(*args, "--json").stdout)

    def submit(self, name, command, *options):
        """Queues a command; returns its id. Its output goes to NAME.log in the private folder."""
        out = self.run("submit", "--parsable", "--name", name, "--output", self.output(name), *options, "--", *command,
                       cwd=WORKLOADS)
        return out.stdout.strip()

    def output(self, name):
        return self.ws.dir / f"{name}.log"

    def tasks(self):
        return {t["id"]: t for t in self.json("queue", "-t", "all")["tasks"]}

    def show(self, task_id):
        answer = self.json("show", task_id)
        return answer["tasks"][0] if "tasks" in answer else answer

    def wait_all(self, ids, deadline_s):
        """Until every one of them is in a state that is final. Raises TimeoutError with the states."""
        running = {"PENDING", "HELD", "RUNNING"}

        def done():
            if self.died():
                raise RuntimeError(self.died())
            tasks = self.tasks()
            return all(i in tasks and tasks[i]["state"] not in running for i in ids)
        try:
            wait_for("tasks to end", deadline_s, done, 0.5)
        except TimeoutError as e:
            states = {i: t["state"] for i, t in self.tasks().items() if i in ids}
            raise TimeoutError(f"{e}: {states}") from None

    def wait_state(self, task_id, states, deadline_s):
        return wait_for(f"task {task_id} to be {'/'.join(states)}", deadline_s,
                        lambda: (t := self.tasks().get(task_id)) and t["state"] in states and t)


class Users(Rad):
    """A radd of root's whose tasks are submitted by others, accounts of this machine. What they need is copied to where they can
    read it: the programs, and into `work` what tasks run."""
    def __init__(self, bin_dir, workspace, devices, config, names):
        workspace.dir.chmod(0o755)
        self.work = workspace.dir / "work"
        self.work.mkdir()
        shutil.copy(WORKLOADS / "train.py", self.work)
        (workspace.dir / "bin").mkdir()
        for name in ("rad", "radd", "rad-shim"):
            shutil.copy(pathlib.Path(bin_dir) / name, workspace.dir / "bin")
        beside = pathlib.Path(bin_dir).resolve().parent / "lib"  # a bundle's own libraries
        if beside.is_dir():
            shutil.copytree(beside, workspace.dir / "lib")
        super().__init__(workspace.dir / "bin", workspace, devices, config)
        self.users = [pwd.getpwnam(name) for name in names]
        for user in self.users:
            (workspace.dir / user.pw_name).mkdir()
            os.chown(workspace.dir / user.pw_name, user.pw_uid, user.pw_gid)

    def as_user(self, user, command, timeout=30, **more):
        home = self.ws.dir / user.pw_name
        env = {**self.env, "HOME": str(home), "TMPDIR": str(home), "USER": user.pw_name, **more}
        return subprocess.run([str(c) for c in command], env=env, cwd=home, user=user.pw_uid, group=user.pw_gid, extra_groups=[],
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=timeout)

    def submit_of(self, user, name, command, *options):
        done = self.as_user(user, [self.bin / "rad", "submit", "--parsable", "--name", name, "--output", self.output_of(user, name),
                                   *options, "--", *command])
        if done.returncode:
            raise RuntimeError(f"rad submit {name}: {done.stderr.strip()}")
        return done.stdout.strip()

    def output_of(self, user, name):
        return self.ws.dir / user.pw_name / f"{name}.log"

    def cancel_of(self, user, task):
        self.as_user(user, [self.bin / "rad", "cancel", task])


def train(*args, python=sys.executable):
    """The command of one training task."""
    return [python, str(WORKLOADS / "train.py"), *map(str, args)]


def progress(text):
    """[(step, steps/s)] of the progress lines of train.py and of rad simtask."""
    return [(int(step), float(rate)) for step, rate in re.findall(r"^step (\d+)\b.* ([\d.]+) steps/s", text or "", re.M)]
