#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Fits models/activity.h to what run_solo.py measured, and says how far off the model is.

    python3 fit_solo.py --captures FOLDER --data FOLDER [--write models/activity.h] [--show]

Needs numpy and scipy. Tasks of the families in HELD_OUT are never looked at here: score_solo.py scores on them what `rad estimate`
says. Among the others every family is left out once to choose what belongs into the model (--show): the errors printed are those
of families left out.
"""
import argparse
import json
import pathlib
import statistics

import numpy as np
from scipy.optimize import least_squares

from load_model import CLASSES, GPUS, HOST, UNITS, Model, Tasks, smooth_max

# Frozen before anything was measured.
HELD_OUT = {"bert", "convnext", "densenet", "dlrm", "opt", "resnet", "segmentation", "sound", "vit", "xlnet"}


def read(path):
    return [json.loads(line) for line in path.read_text().splitlines() if line.startswith("{")] if path.exists() else []


def measured(folder, captures, held_out=False):
    """Lines of tasks that were measured whole and captured; of the families that a fit may see, or of the others."""
    lines = [l for l in read(folder / "solo.jsonl") if l.get("step_s") and l.get("gract") is not None]
    return [l for l in lines if (l["family"] in HELD_OUT) == held_out and (captures / f"{l['name']}.radcap").exists()]


def first_guess():
    """Where fits begin, and what a class that no task has keeps."""
    guess = {"fixed_us": np.full(len(CLASSES), 3.0), "memory": np.full(len(CLASSES), 0.7),
             "compute": np.full((len(CLASSES), len(UNITS)), 0.45), "planar": np.full(len(UNITS), 0.7), "grouped": np.full(1, 0.3),
             "deep": np.full(1, 512.0), "cache": np.full(1, 1.6),
             "host_us": np.array([9, 9, 7, 2, 6, 0.6, 1, 10, 8, 1e-4]),
             "active": np.full(len(CLASSES), 0.9), "dram": np.full(1, 0.9), "watts": np.array([0.1, 0.35, 0.3, 0.3])}
    for name in ("DEPTHWISE", "DEPTHWISE_WEIGHTS"):
        guess["memory"][CLASSES.index(name)] = 0.3
    guess["fixed_us"][CLASSES.index("RECURRENT")] = 10
    return guess


def pack(values, keys):
    return np.log(np.concatenate([values[key].ravel() for key in keys]))


def unpack(x, values, keys):
    out, at = dict(values), 0
    for key in keys:
        size = values[key].size
        out[key] = np.exp(x[at:at + size]).reshape(values[key].shape)
        at += size
    return out


def solve(values, keys, residuals, pull=0.05):
    """The values that make residuals(values) small, while each stays near its guess as far as nothing speaks against it."""
    start = pack(values, keys)

    def all_of(x):
        return np.concatenate([residuals(unpack(x, values, keys)), pull * (x - start)])
    found = least_squares(all_of, start, loss="soft_l1", f_scale=0.1, max_nfev=60)
    return unpack(found.x, values, keys)


BUSY = ("fixed_us", "memory", "compute", "planar", "grouped", "deep", "cache")


def column(lines, key):
    return np.array([l[key] if l.get(key) is not None else np.nan for l in lines], dtype=float)
