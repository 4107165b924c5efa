# SPDX-License-Identifier: MIT
"""A radd of the torture's own, with all that it starts: nothing outside of its folder is touched, and no process that is not a
descendant of ours. Everything that is orphaned comes to us (subreaper), so what is left over can be counted, and "the machine"
can be switched off."""
import ctypes
import json
import os
import resource
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import time
import uuid

CONFIG = {"mps_idle": 0, "interval": 0.2, "window": 1, "settle": 0.2, "warm": 0.5, "kill_wait": 1, "order": "backfill", "slack": "100M"}
PR_SET_CHILD_SUBREAPER = 36
PATIENCE_S = 120        # a machine may be busy with other things; how long an answer takes is for those faults that are about it


class Refused(Exception):
    """radd's answer is an error."""


class Gone(Exception):
    """No answer: radd is not there, or went away."""


def become_reaper():
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def children(pid):
    try:
        found = []
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/children") as f:
                found += [int(p) for p in f.read().split()]
        return found
    except OSError:
        return []


def descendants(pid):
    found, todo = [], [pid]
    while todo:
        new = children(todo.pop())
        found += new
        todo += new
    return found


def words_of(pid):
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as f:
            return f.read().split(b"\0")
    except OSError:
        return []


def state_of(pid):
    """As /proc has it; "X": there is none."""
    try:
        with open(f"/proc/{pid}/stat") as f:
            return f.read().rpartition(")")[2].split()[0]
    except OSError:
        return "X"


def is_dead(pid):
    return state_of(pid) in "ZX"


def signal_ours(pids, *signals, root=None):
    """Ours: descendants of root, by default of this process. Numbers come round within seconds on a busy machine: what is
    signalled was opened first, and then seen to be ours."""
    opened = {}
    for pid in pids:
        try:
            opened[pid] = os.pidfd_open(pid)
        except OSError:
            pass
    ours = set(descendants(root or os.getpid()))
    for sig in signals:
        for pid, fd in opened.items():
            try:
                if pid in ours:
                    signal.pidfd_send_signal(fd, sig)
            except ProcessLookupError:
                pass
    for fd in opened.values():
        os.close(fd)


def sanitizer(program):
    """The runtime that a sanitized build wants to come first."""
    libraries = subprocess.run(["ldd", program], capture_output=True, text=True, check=False).stdout.split()
    return [path for path in libraries if path.startswith("/") and "asan" in path]


def until(seconds, holds):
    """Waits for it, with a deadline. What holds() returned last."""
    end = time.monotonic() + seconds
    while not (found := holds()) and time.monotonic() < end:
        time.sleep(0.02)
    return found


def mark_of(state):
    """Cgroups are named after the store of the radd that made them."""
    import sqlite3
    try:
        db = sqlite3.connect(f"file:{state}/rad.db?mode=ro", uri=True)
        mark = db.execute("SELECT value FROM meta WHERE key = 'store'").fetchone()[0].split()[0]
        db.close()
        return mark
    except (sqlite3.Error, TypeError):
        return None


def cgroups_of(state):
    """Folders that the radd with this state has made beside ours."""
    mark, found = mark_of(state), []
    for base in ("/sys/fs/cgroup", "/sys/fs/cgroup/unified"):
        with open("/proc/self/cgroup") as f:
            own = next((line.strip()[3:] for line in f if line.startswith("0::")), None)
        if mark and own is not None and os.path.isdir(base + own):
            found += [f"{base}{own}/{n}" for n in os.listdir(base + own) if n.startswith("rad-") and f"-{mark}-" in n]
    return found


class Connection:
    """Requests may be sent ahead; answers come in order."""

    def __init__(self, path, uid=0, timeout=PATIENCE_S):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("@ll", int(timeout), int(timeout % 1 * 1e6)))
        self.data = b""
        try:
            if uid and os.geteuid() == 0:
                os.seteuid(uid)     # whom the kernel will name to radd
            self.socket.connect(path)      # waits for its turn, as rad does
            self.socket.settimeout(timeout)
        except OSError as e:
            raise Gone(str(e)) from e
        finally:
            if os.geteuid() != os.getuid():
                os.seteuid(os.getuid())

    def send(self, op, **members):
        body = json.dumps({"v": 1, "op": op, **members}).encode()
        try:
            self.socket.sendall(struct.pack(">I", len(body)) + body)
        except OSError as e:
            raise Gone(str(e)) from e

    def receive(self):
        while len(self.data) < 4 or len(self.data) < 4 + struct.unpack(">I", self.data[:4])[0]:
            try:
                more = self.socket.recv(1 << 20)
            except OSError as e:
                raise Gone(str(e)) from e
            if not more:
                raise Gone("radd hung up")
            self.data += more
        n = struct.unpack(">I", self.data[:4])[0]
        answer, self.data = json.loads(self.data[4:4 + n]), self.data[4 + n:]
        if "error" in answer:
            raise Refused(answer["error"]["text"])
        return answer

    def call(self, op, **members):
        self.send(op, **members)
        return self.receive()

    def close(self):
        self.socket.close()


class World:
    def __init__(self, build, devices="sim:4xa100-40g", users=(0,), config=None):
        self.build, self.devices, self.users = build, devices, list(users)
        self.folder = tempfile.mkdtemp(prefix="rad-torture.", dir="/tmp")
        os.chmod(self.folder, 0o755)
        self.state, self.socket = f"{self.folder}/state", f"{self.folder}/s"
        self.machine, self.journal = f"{self.folder}/machine", f"{self.folder}/journal"
        self.log, self.config = f"{self.folder}/radd.log", f"{self.folder}/rad.conf"
        os.mkdir(self.machine)
        self.new_boot()
        self.set_clock(0)
        self.write_config(config or {})
        # Fake GPUs of worlds beside this one have the same names: what is claimed there is not to be waited for here.
        self.environ = {"PATH": "/usr/bin:/bin", "RAD_CONFIG": self.config, "FAKE_MACHINE": self.machine, "HOME": self.folder,
                        "LC_ALL": "C.UTF-8", "RAD_CLAIMS_DIR": ""}
        self.preload = [*sanitizer(f"{build}/radd"), f"{build}/tests/fake-machine/libfake-machine.so"]
        self.environ.update({k: v for k, v in os.environ.items() if k.endswith("SAN_OPTIONS")})
        self.limits, self.as_uid = {}, None     # of radd
        self.program = f"{build}/radd"
        self.radd = None
        self.ledgers = {}
        for uid in self.users:
            self.ledgers[uid] = path = f"{self.folder}/ledger-{uid}"
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600))
            if os.geteuid() == 0:
                os.chown(path, uid, -1)

    def write_config(self, settings):
        with open(self.config, "w") as f:
            for key, value in {**CONFIG, **settings}.items():
                print(f"{key}: {value}", file=f)

    def set_clock(self, seconds):
        with open(f"{self.machine}/clock", "r+b" if os.path.exists(f"{self.machine}/clock") else "wb") as f:
            f.write(struct.pack("=q", seconds))

    def new_boot(self):
        with open(f"{self.machine}/boot_id", "w") as f:
            print(uuid.uuid4(), file=f)

    def _prepare(self):
        for what, most in self.limits.items():
            resource.setrlimit(what, (most, most))
        if self.as_uid:
            os.setgroups([])
            os.setgid(65534)
            os.setuid(self.as_uid)

    def start(self, deadline=PATIENCE_S):
        """Returns when it answers; an error's text if it does not start."""
        ready, write = os.pipe()
        environ = dict(self.environ, LD_PRELOAD=":".join(self.preload))
        self.stop_waiting()
        with open(self.log, "ab") as log:
            self.radd = subprocess.Popen(
                [self.program, "--devices", self.devices, "--state", self.state, "--socket", self.socket, "--foreground",
                 "--ready-fd", str(write)], env=environ, pass_fds=[write], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                preexec_fn=self._prepare)
        os.close(write)
        os.set_blocking(ready, False)
        said = b""

        def line():
            nonlocal said
            try:
                said += os.read(ready, 4096)
            except BlockingIOError:
                return self.radd.poll() is not None
            return b"\n" in said or self.radd.poll() is not None
        until(deadline, line)
        os.close(ready)
        return None if said.strip() == b"ok" else said.decode().strip() or "no answer"

    def stop_waiting(self):
        if self.radd and self.radd.poll() is not None:
            self.radd = None
        self.reap()

    def reap(self):
        """Orphans that died; radd itself is Popen's."""
        for pid in children(os.getpid()):
            if not self.radd or pid != self.radd.pid:
                try:
                    os.waitpid(pid, os.WNOHANG)
                except OSError:
                    pass

    def others(self):
        """Living processes of this world but radd and what belongs to it while it lives."""
        self.reap()
        own = [self.radd.pid] if self.radd else []
        for pid in descendants(self.radd.pid) if self.radd else ():
            if b"rad-shim" not in b"".join(words_of(pid)[:1]):
                own.append(pid)
        return [p for p in descendants(os.getpid()) if p not in own and not is_dead(p)]

    def shims(self):
        return [p for p in descendants(os.getpid()) if words_of(p)[1:2] == [b"task"]]

    def kill_radd(self):
        if self.radd:
            self.radd.kill()
            self.radd.wait()
            self.radd = None
        self.reap()

    def kill(self, pids):
        signal_ours(pids, signal.SIGKILL)
        self.reap()

    def kill_whole(self, look):
        """All that look() finds, and how many they were. What is stopped first makes no further ones, which would be missed."""
        found = set()
        while new := set(look()) - found:
            signal_ours(new, signal.SIGSTOP)
            until(5, lambda new=new: all(state_of(p) in "TtZX" for p in new))
            found |= new
        self.kill(found)
        return len(found)

    def switch_off(self):
        """All processes at once, as near as can be: what is stopped first does nothing while the others are killed."""
        def left():
            pids = [p for p in descendants(os.getpid()) if not is_dead(p)]
            signal_ours(pids, signal.SIGSTOP, signal.SIGKILL)
            if self.radd:
                self.radd.poll()
            self.reap()
            return not pids
        until(20, left)
        self.radd = None
        self.new_boot()

    def stop(self):
        if not self.radd:
            return 0
        self.radd.terminate()
        try:
            return self.radd.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            return "no end"
        finally:
            self.kill_radd()

    def connect(self, uid=0, **more):
        return Connection(self.socket, uid, **more)

    def attempts(self):
        try:
            return [n for n in os.listdir(f"{self.state}/attempts") if n[0].isdigit()]
        except OSError:
            return []

    def cgroups(self):
        return cgroups_of(self.state)

    def end(self, keep=False):
        self.switch_off()
        for name in ("disk", "small"):
            if os.path.ismount(f"{self.folder}/{name}"):
                subprocess.run(["umount", "-l", f"{self.folder}/{name}"], check=False)
        if not keep:
            shutil.rmtree(self.folder, ignore_errors=True)
