#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What a person waits for `rad submit`:  bench/bench_submit.py BUILD [--short]  prints one JSON object.

  held_ms_*       the task stays in the queue: the command's start, the request, the commit
  starting_ms_*   each task starts at once, so that those before it begin and end beside it, on the same cores
  task_spooler_ms_*, *_over_task_spooler   `tsp` (task-spooler) likewise, where it is installed: it runs 8 at a time
All by turns, a few of one after a few of the other: what else goes on here is the same for all.
"""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time

from bench_daemon import Daemon, build_named

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "memory"))
from stats import quantile  # noqa: E402

AT_ONCE = 20


class Command:
    def __init__(self, name, argv, environ):
        self.name, self.argv, self.environ, self.took_ms = name, argv, environ, []

    def run(self, folder):
        began = time.monotonic()
        subprocess.run(self.argv, env=self.environ, cwd=folder, check=True, stdout=subprocess.DEVNULL)
        self.took_ms.append((time.monotonic() - began) * 1000)


def rad(name, build, daemon, options):
    environ = dict(os.environ, RAD_SOCKET=daemon.socket, RAD_NO_START="1")
    return Command(name, [os.path.join(build, "rad"), "submit"] + options + ["--output", "/dev/null", "true"], environ)


def measure(build, folder, rounds):
    held_by, started_by = [Daemon(build, os.path.join(folder, name), "sim:64xa100-40g") for name in ("held", "started")]
    all_of_them = [rad("held", build, held_by, ["--hold"]), rad("starting", build, started_by, ["--gpu-mem", "100M"])]
    spooler = shutil.which("tsp")
    if spooler:
        all_of_them.append(Command("task_spooler", [spooler, "true"],
                                   dict(os.environ, TS_SOCKET=os.path.join(folder, "ts"), TS_SLOTS="8", TMPDIR=folder)))
    try:
        for _ in range(rounds):
            for command in all_of_them:
                for _ in range(AT_ONCE):
                    command.run(folder)
                time.sleep(0.2)     # what was started ends: the next is not measured beside it
    finally:
        if spooler:
            subprocess.run([spooler, "-K"], env=all_of_them[-1].environ, check=False)
        held_by.stop()
        started_by.stop()
    return all_of_them


def main():
    build = build_named()
    out = {"bench": "submit"}
    with tempfile.TemporaryDirectory(prefix="rad-bench.") as folder:
        for name in ("held", "started"):
            os.mkdir(os.path.join(folder, name))
        commands = measure(build, folder, 1 if "--short" in sys.argv else 15)
    out["commands"] = len(commands[0].took_ms)
    for command in commands:
        out[command.name + "_ms_median"] = round(quantile(command.took_ms, 0.5), 2)
        out[command.name + "_ms_p95"] = round(quantile(command.took_ms, 0.95), 2)
        if commands[-1].name == "task_spooler" and command is not commands[-1]:
            out[command.name + "_over_task_spooler"] = round(quantile(command.took_ms, 0.5) / quantile(commands[-1].took_ms, 0.5), 2)
    print(json.dumps(out))


if __name__ == "__main__":
    main()
