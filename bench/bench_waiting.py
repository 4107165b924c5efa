#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What one request takes of radd while many tasks wait:  bench/bench_waiting.py BUILD [--short]  prints one JSON object.

WAITING tasks wait, submitted one by one, of which a hundredth depend on another; `OP_ms` is radd's CPU time for one request OP,
`OP_few_ms` the same where FEW wait, `OP_ratio` the first by the second. An event loop that looks at all tasks for each request shows
in the ratio, and matters where the first is above some milliseconds.
"""
import json
import struct
import sys
import tempfile

from bench_daemon import Daemon, build_named, cpu_s, spec
from bench_turns import connect, frame

SHORT = "--short" in sys.argv
FEW, WAITING, TIMES = (20, 300, 3) if SHORT else (100, 10000, 20)


class Asking:
    def __init__(self, daemon):
        self.daemon, self.connection = daemon, connect(daemon)
        self.replies = self.connection.makefile("rb")

    def reply(self):
        said = json.loads(self.replies.read(struct.unpack(">I", self.replies.read(4))[0]))
        if "error" in said:
            sys.exit(f"bench_waiting: {said['error']['text']}")
        return said

    def ask(self, **request):
        self.connection.sendall(frame(request))
        return self.reply()

    def cost_ms(self, requests):
        """Of one of them."""
        before = cpu_s(self.daemon.process.pid)
        for request in requests:
            self.ask(**request)
        return round((cpu_s(self.daemon.process.pid) - before) * 1000 / len(requests), 3)


def fill(asking, folder, n):
    """So many that wait, since the only GPU is drained; returns their ids."""
    ids = []
    for at in range(0, n, 500):
        batch = min(500, n - at)
        more = [dict(spec(folder), hold=False, name=f"task{at + i}", **({"deps": [["afterok", ids[-1]]]} if i % 100 == 99 and ids else {}))
                for i in range(batch)]
        asking.connection.sendall(b"".join(frame({"op": "submit", "spec": s, "environ": []}) for s in more))
        for _ in range(batch):
            ids.append(str(asking.reply()["id"]))
    return ids


def operations(folder, ids):
    some, one = ids[-TIMES - 1:-1], dict(spec(folder), hold=False)
    yield "status", [{"op": "status"}] * TIMES
    yield "submit", [{"op": "submit", "spec": one, "environ": []}] * TIMES
    yield "submit_singleton", [{"op": "submit", "spec": dict(one, name="alone", singleton=True), "environ": []}] * TIMES
    yield "submit_dependent", [{"op": "submit", "spec": dict(one, deps=[["afterany", i]]), "environ": []} for i in some]
    training = dict(one, argv=["python", "train.py"])
    yield "submit_waits_for_capture", [{"op": "submit", "spec": training, "environ": [], "capture": "auto"}] * TIMES
    yield "hold", [{"op": "hold", "id": i} for i in some]
    yield "release", [{"op": "release", "id": i} for i in some]
    yield "update", [{"op": "update", "id": i, "priority": -1} for i in some]
    yield "show", [{"op": "show", "id": i} for i in some]
    yield "why", [{"op": "why", "id": i} for i in some]
    yield "starts", [{"op": "starts"}] * TIMES
    yield "gpus", [{"op": "gpus"}] * TIMES
    yield "users", [{"op": "users"}] * TIMES
    yield "limit", [{"op": "limit", "limits": "max_running=3"}, {"op": "limit", "limits": "max_running=off"}] * (TIMES // 2 or 1)
    yield "list_brief", [{"op": "list", "members": ["id", "state"]}] * 3
    yield "cancel", [{"op": "cancel", "id": i} for i in some]


def measure(build, n):
    with tempfile.TemporaryDirectory(prefix="rad-bench.") as folder:
        daemon = Daemon(build, folder, "sim:1xa100-40g")
        asking = Asking(daemon)
        asking.ask(op="drain", gpu="0", reason="bench")
        ids = fill(asking, folder, n)
        costs = {}
        for name, requests in operations(folder, ids):
            costs[name] = asking.cost_ms(requests)
        daemon.stop()
        return costs


def main():
    build = build_named()
    few, many = measure(build, FEW), measure(build, WAITING)
    out = {"bench": "waiting", "waiting": WAITING, "few": FEW}
    for name, ms in many.items():
        out[f"{name}_ms"], out[f"{name}_few_ms"] = ms, few[name]
        out[f"{name}_ratio"] = round(ms / few[name], 2) if few[name] else None
    print(json.dumps(out))


if __name__ == "__main__":
    main()
