#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The pictures of doc/results/feed: by how many tasks share, a panel for each load and number of cores; medians of rounds, and where
there are several rounds the least and the most of them.

    draw_feed.py RAW.jsonl OUT.svg [cpu|samples|waiting]    CPU ms for a sample; samples a second of all tasks, and over own
    loaders'; waiting
"""
import argparse
import json
import pathlib
import statistics
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "hardware"))
import svg  # noqa: E402

WAYS = {"own": "a loader each", "tensorsocket": "TensorSocket", "feed": "radrm.feed"}
FIGURES = {"cpu": ("cpu_ms_per_sample", "CPU ms for a sample, all processes"), "samples": ("samples_per_s", "samples a second, all tasks"),
           "waiting": ("waiting_fraction", "part of the time that tasks waited for batches")}
LEFT, LONG = 180, 330


def bar(y, values, own, most, colour, figure):
    """One cell. `own`: the median of a loader each, or None."""
    value = statistics.median(values)
    drawn = [min(each / most, 1.15) * LONG for each in (value, min(values), max(values))]
    words = f"{value:.0f}" if value >= 1000 else f"{value:.3g}"
    words += f", {value / own:.2f} times own" if own and figure == "samples" else ""
    parts = [f'<rect x="{LEFT}" y="{y}" width="{drawn[0]:.1f}" height="11" fill="{colour}"/>']
    if len(values) > 1:
        parts += [svg.line(LEFT + drawn[1], y + 5.5, LEFT + drawn[2], y + 5.5, 'stroke="#000000"')]
    return parts + [svg.text(LEFT + 6 + max(drawn), y + 9, words + (" (bar cut)" if value > 1.15 * most else ""))]


def panel(rows, top, title, figure):
    """Returns the parts and where the next one begins."""
    parts = [svg.text(20, top, title, more='font-weight="bold"')]
    ways, counts = [way for way in WAYS if any(row["way"] == way for row in rows)], sorted({row["tasks"] for row in rows})
    cells = {(tasks, way): [row for row in rows if (row["tasks"], row["way"]) == (tasks, way)] for tasks in counts for way in ways}
    good = {key: [row[FIGURES[figure][0]] for row in found if "failed" not in row] for key, found in cells.items()}
    most = max([statistics.median(values) for (_, way), values in good.items()
                if values and (figure, way) != ("cpu", "tensorsocket")] or [1])
    y = top + 18
    for tasks in counts:
        own = statistics.median(good.get((tasks, "own")) or [0])
        for way in ways:
            parts.append(svg.text(20, y + 9, f"{tasks} task{'s' * (tasks > 1)}, {WAYS[way]}"))
            if good[tasks, way]:
                parts += bar(y, good[tasks, way], None if way == "own" else own, most, svg.COLOURS[list(WAYS).index(way)], figure)
            else:
                why = cells[tasks, way][0]["failed"] if cells[tasks, way] else "not measured"
                parts.append(svg.text(LEFT + 2, y + 9, why, more='fill="#555555"'))
            y += 15
        y += 6
    return parts, y + 22


def main():
    parser = argparse.ArgumentParser(description="Draw what bench_feed.py measured.")
    parser.add_argument("raw", type=pathlib.Path, help="what it wrote")
    parser.add_argument("svg", type=pathlib.Path)
    parser.add_argument("figure", nargs="?", choices=FIGURES, default="cpu")
    args = parser.parse_args()
    rows = [json.loads(line) for line in args.raw.read_text().splitlines()]
    figure = args.figure
    cores = sorted({row["cores"] for row in rows})
    parts, top = [], 40
    for load in sorted({row["load"] for row in rows}):
        for n in cores:
            mine = [row for row in rows if (row["load"], row["cores"]) == (load, n)]
            if mine:
                more, top = panel(mine, top, f"{load}{f', {n} cores' * (len(cores) > 1)}: {FIGURES[figure][1]}", figure)
                parts += more
    drawn = ", ".join(WAYS[way] for way in WAYS if any(row["way"] == way for row in rows))
    args.svg.write_text(svg.document(700, top - 16, parts, f"{FIGURES[figure][1]}: {drawn}"))


if __name__ == "__main__":
    main()
