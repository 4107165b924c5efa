# SPDX-License-Identifier: MIT
"""Many jobs at a time, each in a process of its own that is a copy of this one: what was imported is there at once, and CUDA,
which this process never touches, starts afresh in each."""

import json
import os
import select
import signal
import time
import traceback


class Pool:
    """workers     processes at one time
    limit_s     seconds that one may take
    deadline    time.monotonic() after which nothing is begun; what runs 20 s later is ended
    room        total of cost(item) at one time; an item that costs more runs alone
    tick        called with the pids that run, every `pause` seconds"""

    def __init__(self, workers, limit_s, deadline, room=float("inf"), cost=lambda item: 0, tick=None, pause=0.2):
        self.workers, self.limit_s, self.deadline = workers, limit_s, deadline
        self.room, self.cost, self.tick, self.pause = room, cost, tick, pause
        self.running = {}  # pid: item, end of its pipe, bytes read, when it must be over

    def fits(self, item):
        taken = sum(self.cost(r["item"]) for r in self.running.values())
        return len(self.running) < self.workers and (not self.running or taken + self.cost(item) <= self.room)

    def start(self, work, item):
        reader, writer = os.pipe()
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                os.close(reader)
                for other in self.running.values():
                    if other["pipe"] is not None:
                        os.close(other["pipe"])
                text = json.dumps(work(item))
                with os.fdopen(writer, "w") as f:
                    f.write(text)
                status = 0
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(status)
        os.close(writer)
        self.running[pid] = {"item": item, "pipe": reader, "said": b"", "end": time.monotonic() + self.limit_s}

    def read(self, seconds):
        poll, of = select.poll(), {r["pipe"]: r for r in self.running.values() if r["pipe"] is not None}
        for fd in of:
            poll.register(fd, select.POLLIN)
        if not of:
            time.sleep(min(seconds, 0.02))
        for fd, _ in poll.poll(seconds * 1000) if of else ():
            part = os.read(fd, 1 << 16)
            of[fd]["said"] += part
            if not part:
                os.close(fd)
                of[fd]["pipe"] = None

    def ended(self):
        """(pid, item, its answer) of those that are over."""
        now = time.monotonic()
        for pid, r in list(self.running.items()):
            if now > r["end"] or now > self.deadline + 20:
                os.kill(pid, signal.SIGKILL)
            done, status = os.waitpid(pid, os.WNOHANG)
            if not done:
                continue
            while r["pipe"] is not None:
                part = os.read(r["pipe"], 1 << 16)
                r["said"] += part
                if not part:
                    os.close(r["pipe"])
                    r["pipe"] = None
            del self.running[pid]
            try:
                yield pid, r["item"], json.loads(r["said"])
            except ValueError:
                yield pid, r["item"], {"error": f"it ended with status {status}" + (" (time)" if now > r["end"] else "")}

    def run(self, work, items, tell):
        """work(item) in a process each; its answer (JSON) to tell(pid, item, answer). tell may return an item to run again."""
        items = list(items)
        while True:
            late = time.monotonic() > self.deadline
            ready = next((i for i in items[:60] if self.fits(i)), None) if not late else None
            if ready is not None:
                items.remove(ready)
                self.start(work, ready)
                continue
            if not self.running:
                return items
            self.read(self.pause)
            if self.tick:
                self.tick(list(self.running))
            for pid, item, answer in self.ended():
                again = tell(pid, item, answer)
                if again is not None:
                    items.append(again)
