#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The pictures of doc/results/feed: CPU time for a sample by how many tasks share, medians of rounds.

    draw_feed.py RAW.jsonl OUT.svg
"""
import json
import pathlib
import statistics
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "hardware"))
import svg  # noqa: E402

WAYS = {"own": "a loader each", "tensorsocket": "TensorSocket", "feed": "radrm.feed"}


def main():
    rows = [json.loads(line) for line in pathlib.Path(sys.argv[1]).read_text().splitlines()]
    parts, top = [], 40
    for load in ("decode", "light"):
        parts.append(svg.text(20, top, f"{load}: CPU ms for a sample, all processes", more='font-weight="bold"'))
        found = [(tasks, way, [row["cpu_ms_per_sample"] for row in rows if "failed" not in row and
                               (row["load"], row["tasks"], row["way"]) == (load, tasks, way)]) for tasks in (2, 4, 8) for way in WAYS]
        most = max(statistics.median(values) for _, way, values in found if values and way != "tensorsocket")
        for k, (tasks, way, values) in enumerate(found):
            y = top + 18 + 15 * k + 6 * (k // 3)
            parts.append(svg.text(20, y + 9, f"{tasks} tasks, {WAYS[way]}"))
            if not values:
                parts.append(svg.text(182, y + 9, "not all tasks had batches"))
                continue
            value = statistics.median(values)
            long = min(value / most, 1.15) * 330
            parts.append(f'<rect x="180" y="{y}" width="{long:.1f}" height="11" fill="{svg.COLOURS[list(WAYS).index(way)]}"/>')
            parts.append(svg.text(186 + long, y + 9, f"{value:.3g}" + (" (longer than drawn)" if value > 1.15 * most else "")))
        top += 190
    pathlib.Path(sys.argv[2]).write_text(svg.document(700, top, parts, "CPU time for a sample: a loader each, TensorSocket, radrm.feed"))


if __name__ == "__main__":
    main()
