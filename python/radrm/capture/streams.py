# SPDX-License-Identifier: MIT
"""Streams that are made again and again, as by a loader that fetches ahead on one of its own in each epoch.

PyTorch gives POOL streams one after the other, then the first once more, and its allocator keeps memory for each: what a run
takes grows until all were given, an epoch at a time. A capture goes through a few; what the others ask for is what those asked
for that were made in the same place.
"""
import itertools
import math

from .between import MOST, entries
from .fileformat import ALLOC, FREE, GEMM, OP, STREAM
from .gpu import Stream
from .length import BEGINNING

BLOCK = 512  # bytes
MANY = 2048  # streams of which it is known where they were made: 64 of each that PyTorch has


class Asks:
    """What was asked for on a stream, from when it was made: [(kind, argument, figures, storage)], all given back in the end.
    `peak`: bytes at once."""

    def __init__(self):
        self.entries, self.live, self.seen = [], {}, set()
        self.bytes = self.peak = 0

    def add(self, kind, argument, figures, number):
        if kind == ALLOC:
            self.live[number] = argument
            self.bytes += -(-argument // BLOCK) * BLOCK
            self.peak = max(self.peak, self.bytes)
        elif kind == FREE:
            if number not in self.live:
                return
            nbytes = self.live.pop(number)
            self.bytes -= -(-nbytes // BLOCK) * BLOCK
            # Given back at once: it is enough to see that once beside what else is alive.
            if self.entries[-1][0] == ALLOC and self.entries[-1][3] == number:
                asked = nbytes, self.bytes
                if asked in self.seen:
                    self.entries.pop()
                    return
                self.seen.add(asked)
        self.entries.append((kind, argument, figures, number))

    def end(self):
        for number in list(self.live):
            self.add(FREE, 0, (), number)


class Streams:
    """Told of each that is made. `made`: [(records before it, its number, where it was made)]."""

    def __init__(self):
        self.made, self.rounds = [], math.inf  # in which they are made anew, in the whole run

    def makes(self, records, number, frame):
        if len(self.made) == MANY:
            return
        where = []
        while frame is not None and frame.f_globals.get("__name__") not in BEGINNING:
            where.append((frame.f_code, frame.f_lineno))
            frame = frame.f_back
        self.made.append((records, number, tuple(where)))

    def since(self, at):
        """Where those were made that came after so many."""
        return [where for *_, where in self.made[at:]]

    def again(self):
        """Where those are made that come anew in each round, in their order."""
        order = self.since(0)
        for length in range(1, min(len(order) // 2, 2 * Stream.POOL) + 1):
            if order[-length:] == order[-2 * length:-length]:
                return order[-length:]
        return []

    def asked(self, records, places):
        """Of each that was made in one of these places: (its number, the place, Asks)."""
        found, current, owner, stream = [], {}, {}, 0
        waiting = iter([*self.made, (float("inf"), 0, None)])
        after, number, where = next(waiting)
        for n, (kind, argument, figures, storage) in enumerate(entries(records.out)):
            while n >= after:
                current.pop(number, None)
                if where in places:
                    current[number] = Asks()
                    found.append((number, where, current[number]))
                after, number, where = next(waiting)
            if kind == STREAM:
                stream = argument
            elif kind == ALLOC and stream in current:
                owner[storage] = current[stream]
                current[stream].add(kind, argument, figures, storage)
            elif kind == FREE and storage in owner:
                owner.pop(storage).add(kind, argument, figures, storage)
            elif kind == OP and argument == GEMM and stream in current:
                current[stream].add(kind, argument, figures, storage)
        for *_, asks in found:
            asks.end()
        return found

    def filled(self, records, result, epochs):
        """Puts what all of them ask for in the run behind the result, whose rounds are epochs where nothing else is known. Of
        how many; 0: nothing was to be added."""
        order = self.again()
        if not order:
            return 0
        found, most, given = self.asked(records, set(order)), {}, {}
        for number, where, asks in found:
            if where not in most or asks.peak > most[where].peak:
                most[where] = asks
            given[number, where] = max(asks.peak, given.get((number, where), 0))
        seen, highs = sum(where == order[-1] for _, where, _ in found), {where: number > Stream.POOL for number, where, _ in found}
        made, rounds = list(Stream.made), self.rounds if self.rounds < math.inf else epochs
        for where in itertools.chain.from_iterable(itertools.repeat(order, int(min(max(rounds - seen, 0), Stream.POOL)))):
            given.setdefault((Stream.numbered(made, highs[where]), where), 0)
        added, room = set(), MOST - result.count
        for (number, where), peak in sorted(given.items(), key=lambda one: one[0][0]):
            asks = most.get(where)
            if asks and asks.peak > peak and len(asks.entries) <= room:
                room -= len(asks.entries)
                added.add(number)
                own = {}
                for kind, argument, figures, storage in asks.entries:
                    if kind == ALLOC:
                        own[storage] = result.alloc(argument, number)
                    elif kind == FREE:
                        result.free(own[storage])
                    else:
                        result.op(argument, *figures, stream=number)
        return len(added)
