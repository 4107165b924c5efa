#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""How long one request keeps the others waiting:  bench/bench_turns.py BUILD [FINISHED | --short]  prints one JSON object.

While somebody asks for something large, another connection asks for the daemon's status again and again; `*_stall_ms` is the
longest that one answer took, `*_s` how long the large request took. FINISHED (default 100000, short 1000) tasks of history are
written into the database before the daemon starts. What `rad` never sends, but anybody can, is among them.
"""
import json
import os
import re
import socket
import sqlite3
import struct
import subprocess
import sys
import tempfile
import threading
import time

from bench_daemon import Daemon, build_named, spec

SHORT = "--short" in sys.argv
ARRAY = 1000 if SHORT else 10000
LIMIT = 23 << 20


def frame(request):
    body = request if isinstance(request, bytes) else json.dumps(dict({"v": 1}, **request)).encode()
    return struct.pack(">I", len(body)) + body


def connect(daemon):
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(daemon.socket)
    return connection


def answer(connection):
    data = bytearray()
    while len(data) < 4 or len(data) < 4 + struct.unpack(">I", data[:4])[0]:
        chunk = connection.recv(1 << 20)
        if not chunk:
            return None     # dropped
        data += chunk
    return json.loads(data[4:])


def ask(daemon, request):
    with connect(daemon) as connection:
        try:
            connection.sendall(frame(request))
        except BrokenPipeError:
            pass
        return answer(connection)


def stall(daemon, request):
    """(longest wait of another client in ms, seconds until the answer, the answer)"""
    over, worst = threading.Event(), [0.0]

    def ping():
        message = frame({"op": "status"})
        with connect(daemon) as connection:
            while not over.is_set():
                began = time.monotonic()
                connection.sendall(message)
                answer(connection)
                worst[0] = max(worst[0], time.monotonic() - began)
                time.sleep(0.001)

    other = threading.Thread(target=ping)
    other.start()
    began = time.monotonic()
    # A process of its own, so that reading a large answer here does not hold up the other connection.
    said = subprocess.run([sys.executable, __file__, "--ask", daemon.socket], input=frame(request), stdout=subprocess.PIPE,
                          check=True).stdout.decode()
    took = time.monotonic() - began
    over.set()
    other.join()
    return round(worst[0] * 1000, 1), round(took, 2), said


def ask_once(path):
    """For the process of its own: a message on standard input; prints how the answer begins."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(path)
        try:
            connection.sendall(sys.stdin.buffer.read())
        except (BrokenPipeError, ConnectionResetError):
            pass
        said, chunk = bytearray(), b"."
        while chunk and (len(said) < 4 or len(said) < 4 + struct.unpack(">I", said[:4])[0]):
            chunk = connection.recv(1 << 20)
            said += chunk
        print(said[4:200].decode(errors="replace"))


def fill(build, folder, n):
    """A history of n tasks: one that really ran, many times over."""
    daemon = Daemon(build, folder, "sim:1xa100-40g")
    task = ask(daemon, {"op": "submit", "spec": dict(spec(folder), hold=False), "environ": ["PATH=/usr/bin:/bin"]})["id"]
    ask(daemon, {"op": "wait", "ids": [task]})
    daemon.stop()
    db = sqlite3.connect(os.path.join(folder, "state", "rad.db"))
    (job, uid, gid, user, submit, text, environ), = db.execute("SELECT job, uid, gid, user, submit_ms, spec, environ FROM jobs")
    events = db.execute("SELECT t_ms, kind, body FROM events ORDER BY seq").fetchall()
    (_, _, live, state, _, end), = db.execute("SELECT * FROM tasks")
    gap = 60000
    for i in range(1, n):
        before = (n - i) * gap
        db.execute("INSERT INTO jobs(job, uid, gid, user, submit_ms, spec, environ) VALUES (?, ?, ?, ?, ?, ?, ?)",
                   (job + i, uid, gid, user, submit - before, text, environ))
        db.executemany("INSERT INTO events(task, t_ms, kind, body) VALUES (?, ?, ?, ?)",
                       [(job + i << 20, t - before, kind, body) for t, kind, body in events])
        db.execute("INSERT INTO tasks VALUES (?, ?, ?, ?, ?, ?)",
                   (job + i << 20, uid, live, state, submit - before, end - before))
    db.commit()
    db.close()


def questions(folder):
    held = dict(spec(folder), hold=True)
    array = {"op": "submit", "spec": dict(held, array=list(range(ARRAY))), "environ": []}
    return [
        ("nothing", {"op": "status"}),
        ("deep_lists", b'{"v":1,"op":"status","x":[' + b"[]," * (LIMIT // 3 - 30) + b"[]]}"),
        ("long_text", {"op": "status", "x": "\x1b" * (LIMIT // 7)}),
        ("large_submission", {"op": "submit", "spec": dict(held, script="#" * (1 << 20), model="m" * (1 << 20),
                                                           capture="QUJD" * (2 << 20)), "environ": ["A=" + "x" * 100000] * 18}),
        ("acct", {"op": "acct", "from_ms": 0}),
        ("series", {"op": "series", "from_ms": 0}),
        ("array", array),
        ("list", {"op": "list"}),
        ("show_array", {"op": "show", "id": "ARRAY"}),
        ("update_array", {"op": "update", "id": "ARRAY", "priority": -1}),
        ("release_array", {"op": "release", "id": "ARRAY"}),
        ("list_pending", {"op": "list"}),
        ("dependent_array", {"op": "submit", "spec": dict(held, hold=False, array=list(range(ARRAY)), deps=[["afterany", "ARRAY"]]),
                             "environ": []}),
        ("cancel_array", {"op": "cancel", "id": "ARRAY"}),
        ("show_ended_array", {"op": "show", "id": "ARRAY"}),
        ("wait_ended_array", {"op": "wait", "ids": ["ARRAY"]}),
    ]


def main():
    build = build_named()
    finished = 1000 if SHORT else int(sys.argv[2]) if len(sys.argv) > 2 else 100000
    out = {"bench": "turns", "finished": finished}
    with tempfile.TemporaryDirectory(prefix="rad-bench.") as folder:
        fill(build, folder, finished)
        daemon = Daemon(build, folder, "sim:4xa100-40g")
        ask(daemon, {"op": "drain", "gpu": "0"})
        for gpu in "123":
            ask(daemon, {"op": "drain", "gpu": gpu})
        job = None
        for name, request in questions(folder):
            if job:
                request = json.loads(json.dumps(request).replace('"ARRAY"', f'"{job}"'))
            out[name + "_stall_ms"], out[name + "_s"], said = stall(daemon, request)
            if os.environ.get("BENCH_VERBOSE"):
                print(name, out[name + "_stall_ms"], out[name + "_s"], said.strip()[:150], file=sys.stderr)
            if name == "array":
                job = re.search(r'"id" *: *"?(\d+)', said)[1]
        daemon.stop()
    print(json.dumps(out))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--ask"]:
        ask_once(sys.argv[2])
    else:
        main()
