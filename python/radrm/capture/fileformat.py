# SPDX-License-Identifier: MIT
"""Writes capture files: doc/capture-format.md. Knows nothing of PyTorch."""
import zlib
from dataclasses import dataclass

from . import limits

MAGIC = b"RADCAP\r\n"

END, ALLOC, FREE, STREAM, MARK, OP, EMPTY = range(7)
SETUP, ITERATION, FORWARD, BACKWARD, STEP, ZERO_GRAD, EVAL = range(7)
GEMM, CONV, ATTENTION, SCRATCH = range(1, 5)

# The load part: classes of kernels, the units that they compute with, and what the host does.
(POINTWISE, COPY, REDUCE, NORM, SOFTMAX, GATHER, SCATTER, POOL, SORT, MANY, PRODUCT, CONV_OUT, CONV_INPUT, CONV_WEIGHTS, DEPTHWISE,
 DEPTHWISE_WEIGHTS, ATTENTIVE, RECURRENT, CHANNEL_NORM) = range(19)
NONE, SINGLE, TF32, HALF, DOUBLE = range(5)
HOST_FIELDS = ("forward", "backward", "updates", "views", "modules", "listed", "parameters", "waits", "transfers", "transferred")

DATA_DEPENDENT, UNKNOWN_OP, VARIABLE_SHAPES, COMPILED, CUDNN_BENCHMARK, CUDNN_OFF, ALL_TO_ALL, CUT_SHORT, PAIR, SOLVER, MAY_LEARN = (
    1 << bit for bit in range(11))


class TooLarge(Exception):
    """What was captured does not fit the format's limits."""


@dataclass
class Header:
    """The fields of the file's header, in its order. `params`, `batch`, `seq_len`: 0 when not known; `growth`: bytes."""
    torch: str = ""
    alloc_conf: str = ""
    model: str = ""
    optimizer: str = ""
    precision: str = ""
    key: str = ""
    params: int = 0
    batch: int = 0
    seq_len: int = 0
    flags: int = 0
    growth: int = 0
    communicators: int = 0


def varint(value):
    out = bytearray()
    while value > 0x7f:
        out.append(value & 0x7f | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def text(value, limit):
    raw = bytes(c if 0x20 <= c <= 0x7e else 0x3f for c in value.encode("utf-8", "replace"))[:limit]
    return varint(len(raw)) + raw


def steps_of(data):
    """(steps, beside, limit) of a whole file as Records.file() makes it: its last three numbers."""
    found, value = [], 0
    for place, byte in enumerate(reversed(data[:-4])):
        if place and byte < 0x80:
            found.append(value)
            if len(found) == 3:
                break
            value = 0
        value = value << 7 | byte & 0x7f
    return found[::-1]


def with_flags(data, more):
    """A whole file, with further flags."""
    def number(at):
        value = shift = 0
        while True:
            value |= (data[at] & 0x7f) << shift
            at, shift = at + 1, shift + 7
            if data[at - 1] < 0x80:
                return value, at
    at = len(MAGIC + varint(limits.VERSION))
    for name, field in Header.__dataclass_fields__.items():
        value, after = number(at)
        if name == "flags":
            body = data[:at] + varint(value | more) + data[after:-4]
            return body + zlib.crc32(body).to_bytes(4, "little")
        at = after + (value if isinstance(field.default, str) else 0)


class Records:
    """The records of one capture, in order. Storages are numbered from 0 by alloc()."""

    def __init__(self):
        self.out = bytearray()
        self.count = 0
        self.allocs = 0
        self.stream = 0

    def _put(self, kind, argument, *figures):
        if self.count >= limits.MAX_RECORDS or len(self.out) > limits.MAX_BYTES - 4096:
            raise TooLarge(f"more than {self.count} records: capture fewer iterations")
        self.out += varint(argument << 3 | kind)
        for figure in figures:
            self.out += varint(figure)
        self.count += 1

    def alloc(self, nbytes, stream=0):
        """A storage of `nbytes` bytes (1 or more). Returns its number."""
        if not 1 <= nbytes <= limits.MAX_REQUEST or self.allocs >= limits.MAX_ALLOCS:
            raise TooLarge(f"storage {self.allocs} has {nbytes} bytes: beyond the limits of a capture")
        self._on(stream)
        self._put(ALLOC, nbytes)
        self.allocs += 1
        return self.allocs - 1

    def free(self, number):
        self._put(FREE, self.allocs - 1 - number)

    def mark(self, phase):
        self._put(MARK, phase)

    def op(self, kind, *figures, stream=None):
        """`stream`: where it matters."""
        if stream is not None:
            self._on(stream)
        self._put(OP, kind, *figures)

    def _on(self, stream):
        if stream != self.stream:
            self._put(STREAM, min(stream, limits.MAX_STREAM))
            self.stream = stream

    def empty_cache(self):
        self._put(EMPTY, 0)

    def place(self):
        """Where it is, for back_to()."""
        return len(self.out), self.count, self.allocs, self.stream

    def back_to(self, place):
        """What was recorded since was not."""
        length, self.count, self.allocs, self.stream = place
        del self.out[length:]

    def file(self, header, host=(0,) * len(HOST_FIELDS), kernels=(), steps=0, beside=0, limit=0, loaders=()):
        """The whole file, as bytes. `host` and `kernels`: of the load part (radrm.capture.work); nothing: the load is not known.
        `steps`: in the whole run; 0: not known; `beside`: what its evaluations take, in steps; `limit`: milliseconds after which a
        clock of the script ends it, 0: none does; `loaders`:
        (workers, microseconds of a batch, batches that were measured, batches, steps that took these) of each."""
        body = bytearray(MAGIC) + varint(limits.VERSION)
        for name in Header.__dataclass_fields__:
            value = getattr(header, name)
            body += text(value, getattr(limits, f"MAX_{name.upper()}")) if isinstance(value, str) else varint(value)
        body += self.out + varint(self.count << 3 | END)
        for figure in (*host, len(kernels), *(n for kernel in kernels for n in kernel), len(loaders), *(n for one in loaders for n in one),
                       steps, beside, limit):
            body += varint(figure)
        return bytes(body) + zlib.crc32(body).to_bytes(4, "little")


class Unwritten(Records):
    """Goes on from where others are, and is never written."""

    def __init__(self, others):
        super().__init__()
        self.allocs = others.allocs

    def _put(self, kind, argument, *figures):
        pass
