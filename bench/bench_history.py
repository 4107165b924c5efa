#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What looking back costs:  bench/bench_history.py BUILD [FINISHED | --short]  prints one JSON object.

FINISHED (default 100000, short 2000) ended tasks are written into the store before the daemon starts, then an array of as many
elements as ELEMENTS that has ended; the same array waits beside it. `_ms`: medians of REPEATS commands, as the user feels them;
`_cpu_ms`: CPU time of one, in rad, in radd and in what it starts to read. Ratios are of CPU time in the same run: `show_ratio`,
`why_ratio` and `queue_all_ratio` of the array that has ended to the one that waits, `show_json_ratio` of all that is known of its
elements (which rad asked for before it told only what they have in common) to what is told, `queue_ratio` of the queue with the
history to the one without.
"""
import json
import os
import resource
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time

from bench_daemon import Daemon, build_named, rss_mib, spec
from bench_turns import ask

SHORT = "--short" in sys.argv
ELEMENTS, REPEATS = (200, 3) if SHORT else (1000, 7)
NOTES = 10      # of what was measured on the way, in each task's log
DAY_MS = 86400000


def example(build, folder):
    """One task that really ran, as rows: of a job, of events, of a task."""
    daemon = Daemon(build, folder, "sim:1xa100-40g")
    task = ask(daemon, {"op": "submit", "spec": dict(spec(folder), hold=False), "environ": ["PATH=/usr/bin:/bin"] * 40})["id"]
    ask(daemon, {"op": "wait", "ids": [task]})
    daemon.stop()


def measured(ended, task):
    """The end of an attempt that was measured, as no other was."""
    x = task % 9973 / 9973
    return dict(ended, peak_mib=3000 + task % 997, mean_smact=round(x, 3), alone_s=round(600 * x, 3), energy_j=round(1e5 * x, 3), warm=True,
                alone_gract=round(1 - x / 2, 3), alone_smact=round(1 - x / 3, 3), alone_dram=round(x / 2, 3), alone_watts=round(300 * x, 3),
                work_s=round(650 * x, 3), begin_s=round(5 * x, 3))


def fill(folder, finished):
    """A history of so many tasks in 30 days, and an array that has ended, each element like the one task that ran. The array's id."""
    db = sqlite3.connect(os.path.join(folder, "state", "rad.db"))
    (job, uid, gid, user, submit, text, environ), = db.execute("SELECT job, uid, gid, user, submit_ms, spec, environ FROM jobs")
    events = db.execute("SELECT t_ms, kind, body FROM events ORDER BY seq").fetchall()
    (live, state, end), = db.execute("SELECT live, state, end_ms FROM tasks")

    def add_job(number, before, spec_text):
        db.execute("INSERT INTO jobs(job, uid, gid, user, submit_ms, spec, environ) VALUES (?, ?, ?, ?, ?, ?, ?)",
                   (number, uid, gid, user, submit - before, spec_text, environ))

    def add_task(task, before):
        db.executemany("INSERT INTO events(task, t_ms, kind, body) VALUES (?, ?, ?, ?)",
                       [(task, t - before, kind, json.dumps(measured(json.loads(body), task)) if kind == "ended" else body)
                        for t, kind, body in events[:-1] + [(events[-1][0], "measured", events[-1][2])] * NOTES + events[-1:]])
        db.execute("INSERT INTO tasks VALUES (?, ?, ?, ?, ?, ?)", (task, uid, live, state, submit - before, end - before))

    for i in range(1, finished):
        before = (finished - i) * 30 * DAY_MS // finished
        add_job(job + i, before, text)
        add_task(job + i << 20, before)
    array = job + finished
    add_job(array, 0, json.dumps(dict(json.loads(text), array=list(range(ELEMENTS)))))
    for i in range(ELEMENTS):
        add_task((array << 20) + i + 1, 0)
    db.commit()
    db.close()
    return array


def cpu_s(daemon):
    """Of all commands so far, radd, and what it has started and waited for."""
    own = resource.getrusage(resource.RUSAGE_CHILDREN)
    with open(f"/proc/{daemon.process.pid}/stat") as f:
        ticks = [int(x) for x in f.read().rpartition(")")[2].split()[11:15]]
    return own.ru_utime + own.ru_stime + sum(ticks) / os.sysconf("SC_CLK_TCK")


def measure(build, daemon, folder, out, name, *words):
    environ = dict(os.environ, RAD_SOCKET=daemon.socket, RAD_NO_START="1", HOME=folder)
    before, took = cpu_s(daemon), []
    for _ in range(REPEATS):
        began = time.monotonic()
        subprocess.run([os.path.join(build, "rad"), *words], env=environ, check=True, stdout=subprocess.DEVNULL)
        took.append(time.monotonic() - began)
    out[name + "_ms"] = round(statistics.median(took) * 1000, 1)
    out[name + "_cpu_ms"] = round((cpu_s(daemon) - before) / REPEATS * 1000, 1)


def started(build, folder):
    began = time.monotonic()
    return Daemon(build, folder, "sim:1xa100-40g"), round((time.monotonic() - began) * 1000, 1)


def waiting_array(daemon, folder):
    """Of held elements, as long as the one that has ended."""
    return ask(daemon, {"op": "submit", "spec": dict(spec(folder), array=list(range(ELEMENTS))), "environ": []})["id"]


def without_history(build, out):
    with tempfile.TemporaryDirectory(prefix="rad-bench.") as folder:
        daemon, out["start_empty_ms"] = started(build, folder)
        out["memory_empty_mib"] = round(rss_mib(daemon.process.pid), 1)
        waiting_array(daemon, folder)
        measure(build, daemon, folder, out, "queue_empty", "queue")
        daemon.stop()


def with_history(build, finished, out):
    with tempfile.TemporaryDirectory(prefix="rad-bench.") as folder:
        example(build, folder)
        ended = str(fill(folder, finished))
        daemon, out["start_ms"] = started(build, folder)
        out["memory_mib"] = round(rss_mib(daemon.process.pid), 1)
        waiting = str(waiting_array(daemon, folder))
        for name, words in (("queue", ["queue"]), ("show_waiting", ["show", waiting]), ("show_ended", ["show", ended]),
                            ("show_json", ["show", "--json", ended]),
                            ("why_waiting", ["why", waiting]), ("why_ended", ["why", ended]), ("acct_day", ["acct", "--since", "1d"]),
                            ("acct_7d", ["acct", "--since", "7d"]), ("queue_all_ended", ["queue", "-t", "all", ended]),
                            ("queue_all_waiting", ["queue", "-t", "all", waiting]),
                            ("report_7d", ["report", "--since", "7d", "-o", os.path.join(folder, "report.html")])):
            measure(build, daemon, folder, out, name, *words)
        out["memory_after_mib"] = round(rss_mib(daemon.process.pid), 1)
        daemon.stop()


def main():
    build = build_named()
    finished = 2000 if SHORT else int(sys.argv[2]) if len(sys.argv) > 2 else 100000
    out = {"bench": "history", "finished": finished, "elements": ELEMENTS}
    without_history(build, out)
    with_history(build, finished, out)
    for name in ("show", "why", "queue_all"):
        out[name + "_ratio"] = round(out[name + "_ended_cpu_ms"] / out[name + "_waiting_cpu_ms"], 2)
    out["show_json_ratio"] = round(out["show_json_cpu_ms"] / out["show_ended_cpu_ms"], 2)
    out["queue_ratio"] = round(out["queue_cpu_ms"] / out["queue_empty_cpu_ms"], 2)
    print(json.dumps(out))


if __name__ == "__main__":
    main()
