#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What accounts cost:  bench/bench_accounts.py BUILD [ENDED | --short]  prints one JSON object.

ENDED (default 31000, short 1000) tasks ended in the last days. `COMMAND_reader_ms`: CPU time of radd's reader for one command, by rows of
accounts; `COMMAND_logs_reader_ms`: the same in the same run without the rows, when it replays each task's log; `COMMAND_ratio`: the second
by the first. `COMMAND_rad_ms`: CPU time of rad. `start_fills_ms`: until radd answers where it makes all rows first, once, as after an
upgrade.
"""
import json
import os
import resource
import sqlite3
import subprocess
import sys
import tempfile

import bench_history
from bench_daemon import build_named
from bench_history import example, fill, started

SHORT = "--short" in sys.argv
REPEATS = 2 if SHORT else 5
COMMANDS = {"acct": ["acct"], "csv": ["acct", "--csv"], "by_user": ["acct", "--by", "user"], "report": ["report", "-o", "/dev/null"]}


def change(folder, sql):
    db = sqlite3.connect(os.path.join(folder, "state", "rad.db"))
    db.executescript(sql)
    db.close()


def reader_s(daemon):
    """Of what radd started and waited for."""
    with open(f"/proc/{daemon.process.pid}/stat") as f:
        return sum(int(x) for x in f.read().rpartition(")")[2].split()[13:15]) / os.sysconf("SC_CLK_TCK")


def rad_s():
    own = resource.getrusage(resource.RUSAGE_CHILDREN)
    return own.ru_utime + own.ru_stime


def measure(build, daemon, folder, out, end):
    environ = dict(os.environ, RAD_SOCKET=daemon.socket, RAD_NO_START="1", HOME=folder)
    for name, words in COMMANDS.items():
        before, own = reader_s(daemon), rad_s()
        for _ in range(REPEATS):
            subprocess.run([os.path.join(build, "rad"), words[0], "--since", "30d", *words[1:]], env=environ, check=True,
                           stdout=subprocess.DEVNULL)
        out[f"{name}{end}_reader_ms"] = round((reader_s(daemon) - before) / REPEATS * 1000, 1)
        out[f"{name}{end}_rad_ms"] = round((rad_s() - own) / REPEATS * 1000, 1)


def main():
    build = build_named()
    ended = 1000 if SHORT else int(sys.argv[2]) if len(sys.argv) > 2 else 31000
    bench_history.ELEMENTS = ended // 31
    out = {"bench": "accounts", "ended": ended}
    with tempfile.TemporaryDirectory(prefix="rad-bench.") as folder:
        example(build, folder)
        fill(folder, ended - bench_history.ELEMENTS)
        change(folder, "DELETE FROM tasks")     # made again from the logs, with the rows
        daemon, out["start_fills_ms"] = started(build, folder)
        measure(build, daemon, folder, out, "")
        daemon.stop()
        change(folder, "DELETE FROM accounts")
        daemon, _ = started(build, folder)
        measure(build, daemon, folder, out, "_logs")
        daemon.stop()
    for name in COMMANDS:
        took = out[f"{name}_reader_ms"]
        out[f"{name}_ratio"] = round(out[f"{name}_logs_reader_ms"] / took, 2) if took else None
    print(json.dumps(out))


if __name__ == "__main__":
    main()
