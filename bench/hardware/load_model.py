# SPDX-License-Identifier: MIT
"""The model of src/estimate/activity.c once more, over many tasks at a time, for fitting its parameters. What it computes is
derived there; test_hardware.py checks that both say the same."""
import collections
import pathlib
import re
import sys

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "python" / "tests"), str(ROOT / "python")]
from reader import HOST, File  # noqa: E402

CLASSES = ("POINTWISE COPY REDUCE NORM SOFTMAX GATHER SCATTER POOL SORT MANY PRODUCT CONV_OUT CONV_INPUT CONV_WEIGHTS DEPTHWISE "
           "DEPTHWISE_WEIGHTS ATTENTIVE RECURRENT CHANNEL_NORM").split()
UNITS = "NONE SINGLE TF32 HALF DOUBLE".split()
MATRIX = {CLASSES.index(c) for c in ("PRODUCT", "CONV_OUT", "CONV_INPUT", "CONV_WEIGHTS", "ATTENTIVE", "RECURRENT")}
TILE_FLOPS = 2 * 128 * 64
ELEMENTS = 1024  # of a block of most kernels
# Of the host's figures those before it cost time each; after them, steps of recurrent networks, and a training step as such.
COSTS = HOST.index("transfers")

Gpu = collections.namedtuple("Gpu", "sms single tf32 half twice gb_s l2_mib idle_w board_w")
GPUS = {"NVIDIA H200": Gpu(132, 66.9, 494.7, 989.4, 33.5, 4800, 60, 75, 700),
        "NVIDIA H100 80GB HBM3": Gpu(132, 66.9, 494.7, 989.4, 33.5, 3352, 50, 70, 700)}


class Tasks:
    """Columns of all kernels of all tasks: `task` says whose."""

    def __init__(self, captures):
        self.n, rows, hosts = len(captures), [], []
        for n, capture in enumerate(captures):
            f = File(capture.read_bytes())
            rows += [(n, *kernel) for kernel in f.kernels]
            hosts.append([f.host[field] for field in HOST])
        table = np.array(rows, dtype=float)
        self.task, self.kind, self.unit, self.layout = table[:, :4].astype(int).T
        self.count, flops, moved, blocks, depth = table[:, 4:].T
        self.flops, self.bytes, self.blocks, self.depth = (x / self.count for x in (flops, moved, blocks, depth))
        self.host = np.array(hosts, dtype=float)

    def sum(self, values):
        return np.bincount(self.task, values, self.n)


SHARPNESS = 8  # of the larger of two times, where they are alike


def larger(a, b):
    """Near the larger, a little above it where both are alike."""
    return (a ** SHARPNESS + b ** SHARPNESS) ** (1 / SHARPNESS)


class Model:
    """Parameters by name, each positive, as arrays; what they mean stands in models/activity.h."""

    def __init__(self, values):
        self.p = values

    def kernels(self, t, gpu):
        """Seconds of each kernel."""
        p, kind = self.p, t.kind
        is_ = {name: kind == n for n, name in enumerate(CLASSES)}
        planar, second = t.layout % 2 == 0, t.layout >= 2
        peak = np.array([gpu.single, gpu.single, gpu.tf32, gpu.half, gpu.twice])[t.unit] * 1e12
        conv = is_["CONV_OUT"] | is_["CONV_INPUT"] | is_["CONV_WEIGHTS"]
        part = p["compute"][kind, t.unit]
        part = part * np.where(conv & second, p["grouped"][0], 1.0)
        part = part * np.where(is_["PRODUCT"] & second, p["uneven"][t.unit], 1.0)
        matrix = np.isin(kind, list(MATRIX))
        work = np.maximum(t.flops, t.blocks * TILE_FLOPS * np.maximum(t.depth, 16))
        pieces = t.blocks * np.maximum(1.0, t.depth / p["deep"][0])
        filled = np.minimum(1.0, pieces / gpu.sms)
        compute = np.where(matrix, work / (peak * part * filled), 0.0)
        half = t.unit == UNITS.index("HALF")
        strips = p["strips"][np.where(planar, 0, np.where(half, 2, 1))]
        compute = np.where(is_["DEPTHWISE_WEIGHTS"], 2 * t.blocks * t.depth / (gpu.single * 1e12 * strips), compute)
        compute = np.where(is_["DEPTHWISE"], t.flops / (gpu.single * 1e12 * p["taps"][1 - planar]), compute)
        channel = p["channel"][0] * 1e-9 * np.where(half, p["channel"][1], 1.0)
        compute = np.where(is_["CHANNEL_NORM"] & planar, channel * t.depth * np.maximum(1.0, t.blocks / gpu.sms), compute)
        compute = np.where(is_["POOL"], p["window_ns"][0] * 1e-9 * ELEMENTS * t.blocks / gpu.sms, compute)
        rate = p["memory"][kind] * np.where(t.bytes < gpu.l2_mib * 2 ** 20 / 2, p["cache"][0], 1.0)
        turned = np.where(conv & planar & np.isin(t.unit, (UNITS.index("TF32"), UNITS.index("HALF"))),
                          p["turned_us"][0] * 1e-6 + t.bytes / (gpu.gb_s * 1e9 * p["turned"][0]), 0.0)
        return p["fixed_us"][kind] * 1e-6 + np.maximum(compute, t.bytes / (gpu.gb_s * 1e9 * rate)) + turned

    def occupied(self, t, gpu):
        """The part of the SMs that each kernel keeps active."""
        pieces = np.where(np.isin(t.kind, list(MATRIX)), t.blocks * np.maximum(1.0, t.depth / self.p["deep"][0]), t.blocks)
        last = (t.kind == CLASSES.index("CHANNEL_NORM")) & (t.layout % 2 == 1)
        pieces = np.where(last, t.blocks * t.depth / ELEMENTS, pieces)
        return self.p["active"][t.kind] * np.minimum(1.0, pieces / gpu.sms)

    def host(self, t):
        steps = t.sum(t.count * (t.kind == CLASSES.index("RECURRENT")))
        return np.column_stack([t.host[:, :COSTS], steps, np.ones(len(steps))]) @ (self.p["host_us"] * 1e-6)

    def predict(self, t, gpu):
        """Columns by name, a number a task."""
        p, each = self.p, self.kernels(t, gpu)
        busy, host = t.sum((each + p["gap_us"][0] * 1e-6) * t.count), self.host(t)
        copied = t.host[:, HOST.index("transferred")] / (p["copy_gb_s"][0] * 1e9)
        waits = t.host[:, HOST.index("waits")] > 0
        step = larger(busy, host) + copied + np.where(waits, p["wait"][0] * np.minimum(busy, host), 0)
        active = np.maximum(each - p["lead_us"][0] * 1e-6, 0.1 * each) * self.occupied(t, gpu)
        big = np.where(t.bytes < gpu.l2_mib * 2 ** 20 / 2, p["dram"][0], p["dram"][1])
        peak = np.array([gpu.single, gpu.single, gpu.tf32, gpu.half, gpu.twice])[t.unit] * 1e12
        parts = {"gract": np.minimum(1.0, busy / step), "smact": t.sum(active * t.count) / step,
                 "dram": np.minimum(1.0, t.sum(t.bytes * t.count * big) / (step * gpu.gb_s * 1e9)),
                 "work": t.sum(t.flops * t.count / peak) / step}
        parts["smact"] = np.minimum(parts["smact"], parts["gract"])
        draw = np.column_stack([parts[k] for k in ("gract", "smact", "dram", "work")]) @ p["watts"]
        watts = gpu.idle_w + (gpu.board_w - gpu.idle_w) * np.minimum(1.0, draw)
        return {"host": host, "busy": busy, "step": step, "watts": watts, **parts}


def shipped():
    """The parameters that are compiled in: models/activity.h as fit_solo.py writes it."""
    text = (ROOT / "models" / "activity.h").read_text()
    one = {name: float(v) for name, v in re.findall(r"#define ACTIVITY_(\w+) ([0-9.e+-]+)$", text, re.MULTILINE)}
    p = {name.lower(): np.array([one[name]]) for name in ("DEEP", "GROUPED", "CACHE", "GAP_US", "LEAD_US", "WAIT", "COPY_GB_S",
                                                         "TURNED_US", "TURNED", "WINDOW_NS")}
    for key, names in (("channel", ("NS", "HALF")), ("dram", ("SMALL", "LARGE")), ("watts", ("GRACT", "SMACT", "DRAM", "WORK"))):
        p[key] = np.array([one[f"{key.upper()}_{name}"] for name in names])

    def numbers(found):
        return np.array([[float(v) for v in re.findall(r"[0-9.e+-]+", row)] for row in found])
    classes = numbers(re.findall(r"^\t({ .*}),\t/\*", text, re.MULTILINE))
    p.update(fixed_us=classes[:, 0], memory=classes[:, 1], active=classes[:, 2], compute=classes[:, 3:])
    p.update({name: numbers([row])[0] for name, row in re.findall(r"activity_(\w+)\[\] = { (.*) };", text)})
    p["host_us"] = numbers([" ".join(re.findall(r"\.\w+ = ([0-9.e+-]+)", text))])[0]
    return Model(p)
