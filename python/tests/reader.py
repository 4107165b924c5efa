# SPDX-License-Identifier: MIT
"""Reads capture files back, for the tests: written from doc/capture-format.md and not from the writer."""
import zlib

FIGURES = {1: 2, 2: 7, 3: 1, 4: 1}  # of an OP, by class
HOST = ("forward", "backward", "updates", "views", "modules", "listed", "parameters", "waits", "transfers", "transferred")


class File:
    """`header`: dict. `records`: list of (kind, argument, figures). `events`: n > 0 for a request of n bytes, -1-i for giving
    back the i-th request. `marks`: (index in events, phase). `host`, `kernels`: the load part, each kernel as (class, unit, layout,
    count, flops, bytes, blocks, depth). `loaders`: each as (workers, microseconds, measured, batches, steps). `steps`: of
    the whole run, `beside`: its evaluations, `limit`: of its own clock, in ms."""

    def __init__(self, data):
        self.data, self.at = data, 9
        assert data[:8] == b"RADCAP\r\n" and data[8] in (2, 3, 4, 5, 6)
        assert int.from_bytes(data[-4:], "little") == zlib.crc32(data[:-4])
        texts = ("torch", "alloc_conf", "model", "optimizer", "precision", "key")
        numbers = ("params", "batch", "seq_len", "flags", "growth", "communicators")
        self.header = {name: self._text() for name in texts} | {name: self._varint() for name in numbers}
        self.records, self.events, self.marks, self.requests = [], [], [], 0
        while self._record():
            pass
        self.host = {name: self._varint() for name in HOST}
        self.kernels = [tuple(self._varint() for _ in range(8)) for _ in range(self._varint())]
        self.loaders = [tuple(self._varint() for _ in range(5)) for _ in range(self._varint())] if data[8] >= 5 else []
        self.steps = self._varint() if data[8] >= 3 else 0  # captures that are kept with measurements are older
        self.beside = self._varint() if data[8] >= 4 else 0
        self.limit = self._varint() if data[8] >= 6 else 0
        assert self.at == len(data) - 4

    def _varint(self):
        value = shift = 0
        while True:
            byte = self.data[self.at]
            self.at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    def _text(self):
        n = self._varint()
        self.at += n
        return self.data[self.at - n:self.at].decode()

    def _record(self):
        head = self._varint()
        kind, argument = head & 7, head >> 3
        if kind == 0:
            assert argument == len(self.records)
            return False
        figures = tuple(self._varint() for _ in range(FIGURES[argument] if kind == 5 else 0))
        self.records.append((kind, argument, figures))
        if kind == 1:
            self.events.append(argument)
            self.requests += 1
        elif kind == 2:
            self.events.append(-1 - (self.requests - 1 - argument))
        elif kind == 4:
            self.marks.append((len(self.events), argument))
        return True

    def apart_from_times(self):
        """All that it says and no clock had a part in."""
        loaders = [(workers, *rest) for workers, _, *rest in self.loaders]
        return self.header, self.records, self.host, self.kernels, loaders, self.steps, self.beside

    def ops(self, which):
        return [figures for kind, argument, figures in self.records if kind == 5 and argument == which]

    def iteration(self, number):
        """Events of the number-th iteration, from 0, as sizes: n for a request, -n for giving one of n bytes back."""
        starts = [at for at, phase in self.marks if phase == 1] + [len(self.events)]
        return sizes(self.events)[starts[number]:starts[number + 1]]

    def live_at_end(self):
        return sum(sizes(self.events))

    def phase(self, iteration, phase):
        """Sizes, as in iteration(), of the first stretch of a phase in an iteration."""
        bounds = [at for at, p in self.marks if p == 1] + [len(self.events)]
        order = [(at, p) for at, p in self.marks if bounds[iteration] <= at] + [(len(self.events), None)]
        seen = 0
        for (begin, which), (end, _) in zip(order, order[1:]):
            seen += which == 1
            if seen == 1 and which == phase:
                return sizes(self.events)[begin:end]
            if seen > 1:
                break
        raise AssertionError(f"no phase {phase} in iteration {iteration}")


def sizes(events):
    """Events with bytes in place of numbers: n for a request, -n for giving back a block of n bytes."""
    asked = [e for e in events if e > 0]
    return [e if e > 0 else -asked[-1 - e] for e in events]


def peak(events, round_to=1):
    """Most bytes live at a time, each request rounded up."""
    asked, live, most = [e for e in events if e > 0], 0, 0
    for event in events:
        n = event if event > 0 else asked[-1 - event]
        live += (n + round_to - 1) // round_to * round_to * (1 if event > 0 else -1)
        most = max(most, live)
    return most
