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
