# SPDX-License-Identifier: MIT
"""The model of src/estimate/activity.c once more, over many tasks at a time, for fitting its parameters. What it computes is
derived there; score_solo.py checks that both say the same."""
import collections
import pathlib
import sys

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "python" / "tests"), str(ROOT / "python")]
from radrm.capture import fileformat as ff  # noqa: E402
from reader import HOST, File  # noqa: E402

CLASSES = ("POINTWISE COPY REDUCE NORM SOFTMAX GATHER SCATTER POOL SORT MANY PRODUCT CONV_OUT CONV_INPUT CONV_WEIGHTS DEPTHWISE "
           "DEPTHWISE_WEIGHTS ATTENTIVE RECURRENT").split()
UNITS = "NONE SINGLE TF32 HALF DOUBLE".split()
MATRIX = {CLASSES.index(c) for c in ("PRODUCT", "CONV_OUT", "CONV_INPUT", "CONV_WEIGHTS", "ATTENTIVE", "RECURRENT")}
TILE_FLOPS = 2 * 128 * 64

Gpu = collections.namedtuple("Gpu", "sms single tf32 half twice gb_s l2_mib idle_w board_w")
GPUS = {"NVIDIA H200": Gpu(132, 66.9, 494.7, 989.4, 33.5, 4800, 60, 75, 700),
        "NVIDIA H100 80GB HBM3": Gpu(132, 66.9, 494.7, 989.4, 33.5, 3352, 50, 70, 700)}


class Tasks:
    """Columns of all kernels of all tasks: `task` says whose."""

    def __init__(self, names, folder):
        self.names, rows, hosts = names, [], []
        for n, name in enumerate(names):
            f = File((folder / f"{name}.radcap").read_bytes())
            rows += [(n, *kernel) for kernel in f.kernels]
            hosts.append([f.host[field] for field in HOST])
        table = np.array(rows, dtype=float)
        self.task, self.kind, self.unit, self.layout = table[:, :4].astype(int).T
        self.count, flops, moved, blocks, depth = table[:, 4:].T
        self.flops, self.bytes, self.blocks, self.depth = (x / self.count for x in (flops, moved, blocks, depth))
        self.host = np.array(hosts, dtype=float)

    def sum(self, values):
        return np.bincount(self.task, values, len(self.names))


def smooth_max(a, b, power=6):
    """Near the larger, a little above it where both are alike."""
    return (a ** power + b ** power) ** (1 / power)


class Model:
    """Parameters by name, each positive, as arrays; what they mean stands in models/activity.h."""

    SHAPES = {
        "fixed_us": len(CLASSES),       # of one kernel, whatever its size
        "memory": len(CLASSES),         # part of the memory's bandwidth that kernels of a class reach
        "compute": (len(CLASSES), len(UNITS)),  # part of the unit's peak
        "planar": len(UNITS),           # of that, for a convolution that is not channels last
        "grouped": 1,                   # and for one in groups
        "deep": 1,                      # products of one result that are one block's, where blocks are few
        "cache": 1,                     # how much faster a small tensor is read from the cache
        "host_us": len(HOST),           # of each thing that the host does; of waits, once
        "active": len(CLASSES),         # part of a kernel's time in which an SM that has a block counts as active
        "dram": 1,                      # part of the bytes of a large tensor that reach memory
        "watts": 4,                     # by GRACT, SMACT, DRAM and products
    }

    def __init__(self, values):
        self.p = values

    def busy(self, t, gpu):
        """(seconds of each kernel, seconds that the GPU is busy in a step of each task)"""
        p, kind = self.p, t.kind
        peak = np.array([gpu.single, gpu.single, gpu.tf32, gpu.half, gpu.twice])[t.unit] * 1e12
        part = p["compute"][kind, t.unit]
        conv = (kind >= CLASSES.index("CONV_OUT")) & (kind <= CLASSES.index("CONV_WEIGHTS"))
        part = part * np.where(conv & (t.layout % 2 == 0), p["planar"][t.unit], 1.0)
        part = part * np.where(conv & (t.layout >= 2), p["grouped"][0], 1.0)
        matrix = np.isin(kind, list(MATRIX))
        work = np.where(matrix & (t.depth > 0), np.maximum(t.flops, t.blocks * TILE_FLOPS * np.maximum(t.depth, 16)), t.flops)
        pieces = t.blocks * np.maximum(1.0, t.depth / p["deep"][0])
        waves = pieces / gpu.sms
        filled = np.where(waves < 1, np.maximum(waves, 1e-9), waves / np.ceil(np.minimum(waves, 1e6)) ** 0.5 / waves ** 0.5)
        compute = np.where(matrix, work / (peak * part * np.minimum(1.0, filled)), 0.0)
        small = t.bytes < gpu.l2_mib * 2 ** 20 / 2
        memory = t.bytes / (gpu.gb_s * 1e9 * p["memory"][kind] * np.where(small, p["cache"][0], 1.0))
        each = p["fixed_us"][kind] * 1e-6 + np.maximum(compute, memory)
        return each, t.sum(each * t.count)

    def host(self, t):
        return t.host @ (self.p["host_us"] * 1e-6)
