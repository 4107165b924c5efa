#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The daemon as its users feel it:  bench/bench_daemon.py BUILD [--short]  prints one JSON object.

  submissions_per_s_one_connection   requests sent ahead on one connection, all of them durable when the last is answered
  submissions_per_s_commands         `rad submit` run again and again
  idle_*                             radd and its sampler over IDLE_S seconds: 8 simulated GPUs at 1 Hz, an empty queue
Compared in the same run with what a user would otherwise have, where it is installed: `tsp` (task-spooler), which queues
commands of one user and keeps its queue in memory.
"""
import atexit
import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time

SHORT = "--short" in sys.argv
PIPELINED, COMMANDS, IDLE_S = (1000, 20, 2) if SHORT else (20000, 300, 30)


class Daemon:
    def __init__(self, build, folder, devices):
        self.socket = os.path.join(folder, "s")
        ready, write = os.pipe()
        self.process = subprocess.Popen(
            [os.path.join(build, "radd"), "--devices", devices, "--state", os.path.join(folder, "state"), "--socket", self.socket,
             "--log-level", "warn", "--ready-fd", str(write)], pass_fds=[write])
        atexit.register(self.process.kill)      # a bench that fails leaves nothing behind that holds its output open
        os.close(write)
        line = os.fdopen(ready).readline().strip()
        if line != "ok":
            sys.exit(f"radd did not start: {line}")

    def pids(self):
        """radd and its children (the sampler)."""
        pid = self.process.pid
        with open(f"/proc/{pid}/task/{pid}/children") as f:
            return [pid] + [int(p) for p in f.read().split()]

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait()


def spec(folder):
    return {"argv": ["true"], "name": "true", "cwd": folder, "hold": True, "output": "/dev/null"}


def receive(connection, n):
    """Reads n replies; returns how many were errors."""
    data, errors = b"", 0
    while n:
        chunk = connection.recv(1 << 20)
        if not chunk:
            sys.exit("radd hung up")
        data += chunk
        while len(data) >= 4 and len(data) >= 4 + struct.unpack(">I", data[:4])[0]:
            size = struct.unpack(">I", data[:4])[0]
            errors += b'"error"' in data[4:4 + size]
            data = data[4 + size:]
            n -= 1
    return errors


def pipelined(daemon, folder):
    body = json.dumps({"v": 1, "op": "submit", "spec": spec(folder), "environ": ["PATH=/usr/bin:/bin"]}).encode()
    message = struct.pack(">I", len(body)) + body
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(daemon.socket)
    began = time.monotonic()
    sent = 0
    while sent < PIPELINED:
        batch = min(500, PIPELINED - sent)
        connection.sendall(message * batch)
        if receive(connection, batch):
            sys.exit("a submission was refused")
        sent += batch
    return PIPELINED / (time.monotonic() - began)


def commands(argv, environ):
    began = time.monotonic()
    for _ in range(COMMANDS):
        subprocess.run(argv, env=environ, check=True, stdout=subprocess.DEVNULL)
    return COMMANDS / (time.monotonic() - began)


def cpu_s(pid):
    with open(f"/proc/{pid}/schedstat") as f:
        return int(f.read().split()[0]) / 1e9


def rss_mib(pid):
    with open(f"/proc/{pid}/status") as f:
        return next(int(line.split()[1]) for line in f if line.startswith("VmRSS:")) / 1024


def idle(build, folder):
    daemon = Daemon(build, folder, "sim:8xa100-40g")
    before = {p: cpu_s(p) for p in daemon.pids()}
    time.sleep(IDLE_S)      # what is measured is what it takes while nothing happens
    pids = [p for p in daemon.pids() if p in before]        # those that looked something up at the start are gone
    used = sum(cpu_s(p) - before[p] for p in pids)
    result = {"idle_core_fraction": round(used / IDLE_S, 5), "idle_memory_mib": round(sum(rss_mib(p) for p in pids), 1),
              "idle_seconds": IDLE_S}
    daemon.stop()
    return result


def build_named():
    """The build folder of the command line."""
    build = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else "build")
    if not os.access(os.path.join(build, "radd"), os.X_OK):
        sys.exit(f"{os.path.basename(sys.argv[0])}: {build}: no radd is there: name the folder of a build")
    return build


def main():
    build = build_named()
    out = {"bench": "daemon"}
    with tempfile.TemporaryDirectory(prefix="rad-bench.") as folder:
        daemon = Daemon(build, folder, "sim:8xa100-40g")
        environ = dict(os.environ, RAD_SOCKET=daemon.socket, RAD_NO_START="1")
        out["submissions_per_s_one_connection"] = round(pipelined(daemon, folder))
        out["submissions_per_s_commands"] = round(
            commands([os.path.join(build, "rad"), "submit", "--hold", "--parsable", "--output", "/dev/null", "true"], environ))
        daemon.stop()
    with tempfile.TemporaryDirectory(prefix="rad-bench.") as folder:
        out.update(idle(build, folder))
    spooler = shutil.which("tsp")
    if spooler:
        with tempfile.TemporaryDirectory(prefix="rad-bench.") as folder:
            environ = dict(os.environ, TS_SOCKET=os.path.join(folder, "ts"), TS_SLOTS="1")
            subprocess.run([spooler, "sleep", "600"], env=environ, check=True, stdout=subprocess.DEVNULL)
            out["task_spooler_commands_per_s"] = round(commands([spooler, "true"], environ))
            subprocess.run([spooler, "-K"], env=environ, check=False)
    print(json.dumps(out))


if __name__ == "__main__":
    main()
