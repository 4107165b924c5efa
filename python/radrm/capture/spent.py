# SPDX-License-Identifier: MIT
"""What a capture takes of its limit of time: processor time of all its processes, so that what is captured does not hang on how busy
the machine is. One that waits, as for a download, takes none: such time is counted by itself, while none of them runs or wants
to. The clock is the last bound.

Whoever started the capture looks now and then, and writes down what it saw where all of them can read it.
"""
import mmap
import os
import signal
import struct
import time

from . import limits

TICK = os.sysconf("SC_CLK_TCK")
RESERVE = 3  # seconds of the limit that are kept for writing the file
LOOK, MOST = 0.2, 1  # seconds between two looks; that count as waiting at most
NOTICE = signal.SIGXCPU  # tells a capture that its time is nearly over: what the kernel would send
BUSY = "RD"  # what threads are that run, or would if there were a processor, or wait for a disk
CUT = {"processor": "of processor time", "waiting": "in which it waited for something", "clock": "by the clock, on a busy machine"}


def own():
    """Seconds of processor time of this process, its threads, and those that it waited for."""
    return sum(os.times()[:4])


def read(path):
    try:
        with open(path, "rb") as f:
            return f.read()
    except OSError:  # it is gone
        return b""


def taken(pid):
    """As own(), of another process; 0: it is gone."""
    words = read(f"/proc/{pid}/stat").rpartition(b")")[2].split()
    return sum(map(int, words[11:15])) / TICK if words else 0


def lives(pid):
    """Whether it has not ended."""
    return read(f"/proc/{pid}/stat").rpartition(b")")[2].split()[:1] not in ([], [b"Z"], [b"X"])


def threads(pid):
    try:
        return os.listdir(f"/proc/{pid}/task")
    except OSError:
        return []


def is_busy(pid):
    """Whether one of its threads runs, or would if there were a processor."""
    stats = (read(f"/proc/{pid}/task/{thread}/stat").rpartition(b")")[2].split() for thread in threads(pid))
    return any(words and words[0].decode() in BUSY for words in stats)


def children(pid):
    """Processes that it started, those that nobody waited for yet too."""
    return [int(word) for thread in threads(pid) for word in read(f"/proc/{pid}/task/{thread}/children").split()]


def tree(pids):
    """These and all that they started."""
    found = list(pids)
    for pid in found:
        found += children(pid)
    return found


def heeds(pid):
    """Whether it is a capture, which is told in time."""
    for line in read(f"/proc/{pid}/status").splitlines():
        if line.startswith(b"SigCgt:"):
            return bool(int(line.split()[1], 16) >> (NOTICE - 1) & 1)
    return False


class Clock:
    """Shared by a capture and what it starts."""
    FORM = struct.Struct("3d")

    def __init__(self, seconds, clock=None):
        """`seconds`: of processor time, and of waiting; `clock`: likewise in all, by default so many times as much that a capture ends
        with a fifth of a core."""
        self.bounds = {"processor": seconds, "waiting": seconds, "clock": clock or limits.CLOCK * seconds}
        self.reserve = min(RESERVE, min(self.bounds.values()) / 2)
        self.shared = mmap.mmap(-1, self.FORM.size)
        self.began = time.monotonic()
        self.write(0, 0)

    def write(self, spent, waited):
        self.FORM.pack_into(self.shared, 0, spent, waited, time.monotonic() - self.began)

    def left(self):
        """{what is bounded: seconds that were left of it when somebody looked}"""
        return {name: bound - value for (name, bound), value in zip(self.bounds.items(), self.FORM.unpack_from(self.shared))}

    def nearest(self):
        """(what is nearest to its bound, seconds left)"""
        return min(self.left().items(), key=lambda item: item[1])

    def processor_left(self):
        """Seconds of processor time until the capture is told that it is over."""
        return max(self.left()["processor"] - self.reserve, 0)

    def over(self, reserve=0):
        """What to say of the bound that was reached: "300 s of processor time"."""
        name, _ = self.nearest()
        return f"{self.bounds[name] - reserve:g} s {CUT[name]}"


class Watch:
    """Over the process `pid` and all that it starts; what it leaves behind becomes this process's, which starts nothing else."""

    def __init__(self, clock, pid):
        self.clock, self.pid = clock, pid
        self.spent = self.waited = self.more = 0
        self.seen = self.lost = 0  # seconds of those that are there; of those that are gone, and that nobody waited for
        self.looked = self.told = time.monotonic()
        self.near = False  # those that the script started were told

    def look(self):
        """Whether time is left."""
        now = time.monotonic()
        pids, spent = self.count()
        if spent <= self.spent and not any(map(is_busy, pids)):
            self.waited += min(now - self.looked, MOST)  # of a longer time that nobody looked it is not known
        self.spent, self.looked = max(spent, self.spent), now
        self.clock.write(self.spent, self.waited)
        self.tell(pids, now)
        return self.clock.nearest()[1] + self.more > 0

    def count(self):
        """([processes], seconds of processor time that they took, and those that are gone)"""
        for _ in range(2):  # one that was waited for, or changed its parent, between two reads is there the second time
            pids = tree(children(os.getpid()))
            seen = sum(map(taken, pids))
            if seen >= self.seen:
                break
        self.lost += max(self.seen - seen, 0)
        self.seen = seen
        return pids, seen + self.lost

    def tell(self, pids, now):
        """What the script started is told first: it hands in to the script's own process. Each has so much time to write down what
        was captured. Told again where an `except:` held it."""
        left, reserve = self.clock.nearest()[1], self.clock.reserve
        if left > 2 * reserve or self.near and now < self.told + 1:
            return
        others = [pid for pid in pids if pid != self.pid and heeds(pid)]
        if not self.near:
            self.near, self.more = True, reserve * max(len(others) - 1, 0)
        self.told = now
        for pid in others + [self.pid] * (left + self.more <= reserve and heeds(self.pid)):
            try:
                os.kill(pid, NOTICE)
            except OSError:
                pass
