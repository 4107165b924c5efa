#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Fits what the host does for the layers of a summary (models/activity_summary.h) to what captures of the same tasks counted:

    python3 fit_summary.py --tool build/tools/vectors --captures FOLDER --summaries FOLDER --data FOLDER [--all] [--write
    models/activity_summary.h]

Operators forward, backward and views of a step are sums over its layers: how often each role comes is said by the code that ships
(build/tools/vectors), what one costs is fitted, apart for steps under autocast. Least squares of relative errors, none
negative, each drawn to what the header has now by so much as --pull says, as what PyTorch's own modules call is the smallest
that it may be. Tasks of the families in HELD_OUT are left out without --all; so are those whose step is not the one that a
summary shows. Prints how far off the sums are, with what is fitted and, beside it, with what stands in the header. Needs numpy
and scipy.
"""
import argparse
import json
import pathlib
import re
import subprocess

import numpy as np
from scipy.optimize import lsq_linear

from load_model import HOST, File
from score_solo import HELD_OUT, lines_of
from score_summary import UNSEEN, task_of

HEADER = pathlib.Path(__file__).resolve().parents[2] / "models" / "activity_summary.h"
FIGURES = ("forward", "backward", "views")
ROW = re.compile(r"\t\[(?P<role>ROLE_\w+)\] = \{ \{ (?P<plain>[^}]*) \}, \{ (?P<autocast>[^}]*) \} \},")


def read_header(text):
    """Roles in order, and their coefficients: [role, autocast or not, figure]."""
    rows = list(ROW.finditer(text))
    return [r["role"] for r in rows], np.array([[[float(v) for v in r[k].split(",")] for k in ("plain", "autocast")] for r in rows])


def write_header(text, roles, values):
    def row(v):
        return ", ".join(f"{round(float(x), 1):g}" for x in v)
    for role, (plain, autocast) in zip(roles, values):
        text = re.sub(rf"\t\[{role}\] = .*", f"\t[{role}] = {{ {{ {row(plain)} }}, {{ {row(autocast)} }} }},", text)
    return text


def asked(line, summaries):
    """What tools/vectors is asked about a task; None: it has no table."""
    task = task_of(line["name"])
    table = summaries / f"{task['arch']}-{task['size']}.table"
    if not table.exists() or task["extras"] & UNSEEN:
        return None
    text = table.read_text()
    return {"summary": text, "batch_size": int(task["batch"]), "optimizer": task["optimizer"], "precision": task["precision"],
            **({"seq_len": int(task["size"])} if "Embedding" in text else {})}


def gather(args):
    """(names, roles a task, operators a task by figure, whether under autocast)"""
    lines = [l for l in lines_of(args.data / "solo.jsonl") if l.get("step_s") and (args.all or l["family"] not in HELD_OUT)]
    questions = [(l["name"], asked(l, args.summaries)) for l in lines if (args.captures / f"{l['name']}.radcap").exists()]
    questions = [(name, q) for name, q in questions if q]
    out = subprocess.run([args.tool], input="".join(json.dumps(q) + "\n" for _, q in questions), capture_output=True, text=True, check=True)
    told = [(name, json.loads(answer).get("roles")) for (name, _), answer in zip(questions, out.stdout.splitlines())]
    told = [(name, roles) for name, roles in told if roles]
    hosts = [File((args.captures / f"{name}.radcap").read_bytes()).host for name, _ in told]
    return ([name for name, _ in told], np.array([roles for _, roles in told]),
            np.array([[h[HOST[HOST.index(f)]] for f in FIGURES] for h in hosts], dtype=float),
            np.array(["-amp-" in name for name, _ in told]))


def fit(times, seen, before, pull):
    """What one of each role costs: rows of relative errors, and a row a role that draws it to what it was. A role that no task
    has stays."""
    rows = times / np.maximum(seen, 1)[:, None]
    scale = np.maximum(before, 0.5)
    drawn = np.diag(pull / scale)
    found = lsq_linear(np.vstack([rows, drawn]), np.concatenate([np.ones(len(rows)), pull * before / scale]), bounds=(0, np.inf)).x
    return np.where(times.any(0), found, before)


def off(times, seen, values):
    e = np.abs(times @ values / np.maximum(seen, 1) - 1)
    return f"{100 * np.median(e):.1f} % (p90 {100 * np.quantile(e, 0.9):.1f} %)"


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--tool", default="build/tools/vectors")
    p.add_argument("--captures", type=pathlib.Path, required=True)
    p.add_argument("--summaries", type=pathlib.Path, required=True)
    p.add_argument("--data", type=pathlib.Path, required=True, help="folder of solo.jsonl")
    p.add_argument("--pull", type=float, default=0.3)
    p.add_argument("--all", action="store_true", help="fit to the families held out, too")
    p.add_argument("--write", type=pathlib.Path)
    args = p.parse_args()
    text = HEADER.read_text()
    roles, before = read_header(text)
    names, times, seen, autocast = gather(args)
    if not names:
        raise SystemExit(f"{args.data}: no task there has both a capture and a table that tells its load")
    if times.shape[1] != len(roles):
        raise SystemExit(f"{args.tool} knows {times.shape[1]} roles and {HEADER} has {len(roles)}: build again")
    after = before.copy()
    for cast in (0, 1):
        own = autocast == bool(cast)
        for n, figure in enumerate(FIGURES):
            if own.any():
                after[:, cast, n] = fit(times[own], seen[own, n], before[:, cast, n], args.pull)
                print(f"{'autocast' if cast else 'plain':8s} {figure:8s} {own.sum():3d} tasks: off by "
                      f"{off(times[own], seen[own, n], after[:, cast, n])};"
                      f" with what stands: {off(times[own], seen[own, n], before[:, cast, n])}")
    if args.write:
        args.write.write_text(write_header(text, roles, after))


if __name__ == "__main__":
    main()
