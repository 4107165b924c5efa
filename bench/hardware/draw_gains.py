#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Draws README's picture of what sharing gains, from the raw data of a few experiments in doc/results.

    bench/hardware/draw_gains.py doc/results doc/pictures/gains.svg
"""
import argparse
import json
import pathlib

import svg
from table import read

OTHERS, OURS = "#9aa5ad", svg.COLOURS[0]
LEFT, WIDE, ROW, HEAD = 218, 700, 19, 26  # of names, of the picture; heights of a bar's row and of a panel's title

# A panel: its title, and its bars: whether RAD-RM shared, what the bar is called, and the file of its run.
PANELS = [
    ("Ten PyTorch tasks of half a minute, submitted at once to one H200", "h200/places/run-", [
        (False, "one task a GPU", "exclusive"), (False, "2 fixed places on the GPU", "places-2"), (False, "4 fixed places", "places-4"),
        (False, "all ten at once, time-sliced", "places-10"), (True, "RAD-RM, nothing known", "nothing"),
        (True, "RAD-RM, memory captured before", "first")]),
    ("Ten tasks of one to two minutes, one H100", "h100/minutes/run-", [
        (False, "one task a GPU", "exclusive"), (True, "RAD-RM, nothing known", "nothing"),
        (True, "RAD-RM, memory captured before", "first")]),
    ("Thirteen training scripts of public repositories, unmodified, two H200", "h200/scripts/run-", [
        (False, "one task a GPU", "exclusive"), (True, "RAD-RM, captured while they wait", "auto"),
        (True, "RAD-RM, captured before", "first")]),
    ("Thirteen others, two H200", "h200/thirteen/run-", [
        (False, "one task a GPU", "exclusive"), (True, "RAD-RM, captured before", "first"), (True, "RAD-RM, the second time", "second")]),
    ("The dissertation's 60-task trace, faster, four H200 with 40 GiB each", "h200/trace/trace-", [
        (False, "one task a GPU", "exclusive"), (True, "RAD-RM, its magm and GPUMemNet", "gpumemnet"),
        (True, "RAD-RM as shipped, captured before", "shipped-replay")]),
]


def metrics(results, stem):
    return json.loads(read(results / f"{stem}.json.gz"))["metrics"]


def panel(top, title, runs):
    """`runs`: (ours, name, metrics), the first being what the others are compared with. Returns the parts and their height."""
    base = runs[0][2]
    scale = (WIDE - LEFT - 190) / max(m["trace_total_s"] for _, _, m in runs)
    parts = [svg.text(8, top + 15, title, more='font-weight="bold"')]
    for k, (ours, name, m) in enumerate(runs):
        y, long = top + HEAD + k * ROW, m["trace_total_s"] * scale
        said = f"{m['trace_total_s']:.0f} s"
        if m is not base:
            said += f", energy {m['energy_j'] / base['energy_j'] - 1:+.0%}".replace("-", "−").replace("%", " %")
        parts += [svg.text(LEFT - 8, y + 12, name, "end"),
                  f'<rect x="{LEFT}" y="{y}" width="{long:.1f}" height="15" fill="{OURS if ours else OTHERS}"/>',
                  svg.text(LEFT + long + 6, y + 12, said)]
    return parts, HEAD + len(runs) * ROW + 8


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    p.add_argument("results", type=pathlib.Path, help="the folder doc/results")
    p.add_argument("picture", type=pathlib.Path)
    args = p.parse_args()
    parts, top = [], 4
    for title, stem, bars in PANELS:
        more, high = panel(top, title, [(ours, name, metrics(args.results, stem + run)) for ours, name, run in bars])
        parts, top = parts + more, top + high
    args.picture.write_text(svg.document(WIDE, top, parts, "Seconds until the last task ended: one a GPU, in fixed places, and shared"))


if __name__ == "__main__":
    main()
