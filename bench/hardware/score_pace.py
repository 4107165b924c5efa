#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What a machine would have said of tasks in the order in which it ran them, learning its host's pace from those before each
(src/estimate/hostpace.h):

    python3 score_pace.py --rad BUILD/rad --captures FOLDER --data FOLDER [--page PAGE.md --svg PICTURE.svg] [--json F]
    python3 score_pace.py --left-out --captures FOLDER --data doc/results/load [--json F]    # H200: numpy, scipy, ten minutes

Each process that measured is a machine that knows nothing in the beginning. Steps: |predicted / measured - 1|; GRACT, SMACT:
|predicted - measured|. In the order of measurement, and in 20 orders drawn with seeds 1 to 20. --left-out: each family is predicted
by a fit to all others, and what models/hostpace.h was made from is printed.
"""
import argparse
import json
import math
import pathlib
import random
import re
import statistics

import pages
import svg
from score_solo import captures_of, estimate, lines_of, quantile, scored

ROOT = pathlib.Path(__file__).resolve().parents[2]
ORDERS = 20
SEEN = ((0, 0), (1, 4), (5, 9), (10, 19), (20, 1000))  # tasks that ran before
MOST = 4.0  # HOSTPACE_MOST


def parameter(name):
    return float(re.search(rf"#define {name} ([0-9.]+)", (ROOT / "models" / "hostpace.h").read_text())[1])


SHRINK, BUSY, KEPT = (parameter(f"HOSTPACE_{name}") for name in ("SHRINK", "BUSY", "KEPT"))


def larger(a, b):
    return (a ** 8 + b ** 8) ** (1 / 8)


def longer(load, pace):
    """How many times as long a step is at that pace."""
    h, b = load["host_s"] / load["step_s"], load["gract"]
    return 1 + larger(pace * h, b) - larger(h, b)


def told(row):
    """The logarithm of the pace that a task tells of; None: it tells none."""
    load, gract = row["load"], row["gract"]
    h, b = load["host_s"] / load["step_s"], load["gract"]
    if gract is None or not h > b > 0 or not b < BUSY or not 0 < gract <= 1:
        return None
    whole = b / min(gract, BUSY) - 1 + larger(h, b)
    return math.log(min(max(max(whole ** 8 - b ** 8, 0) ** (1 / 8) / h, 1 / MOST), MOST)) if whole > b else -math.log(MOST)


def pace_by(words):
    words = words[-int(KEPT):]
    return math.exp(statistics.median(words) * len(words) / (len(words) + SHRINK)) if words else 1.0


def row_at(row, pace, place):
    load, by = row["load"], longer(row["load"], pace)
    found = {"step": load["step_s"] * by / row["step_s"] - 1}
    found.update({key: load[key] / by - row[key] for key in ("gract", "smact") if row.get(key) is not None})
    return {"name": row["name"], "place": place, "pace": pace, "errors": found}


def sequence(rows, learns=True):
    """Of each task what was said of it when it came."""
    words, out = [], []
    for place, row in enumerate(rows):
        out.append(row_at(row, pace_by(words) if learns else 1.0, place))
        word = told(row)
        words += [] if word is None else [word]
    return out


def machines(rows):
    found = {}
    for row in rows:
        found.setdefault(row["process"], []).append(row)
    return list(found.values())


def shuffled(rows, seed):
    rows = list(rows)
    random.Random(seed).shuffle(rows)
    return rows


def sizes(said, key):
    e = sorted(abs(s["errors"][key]) for s in said if key in s["errors"])
    return (statistics.median(e), quantile(e, 0.9), statistics.median(s["errors"][key] for s in said if key in s["errors"]))


def table(rows):
    """Rows of (which, figure, n, median and p90 without, the same learning)."""
    in_order = [said for m in machines(rows) for said in sequence(m)]
    drawn = [said for seed in range(1, ORDERS + 1) for m in machines(rows) for said in sequence(shuffled(m, seed))]
    plain = [said for m in machines(rows) for said in sequence(m, learns=False)]
    out = []
    for key in ("step", "gract", "smact"):
        for name, said in (("pace 1", plain), ("learnt, as measured", in_order), (f"learnt, {ORDERS} orders", drawn)):
            median, p90, bias = sizes(said, key)
            out.append((key, name, len(said), f"{median:.3f}", f"{p90:.3f}", f"{bias:+.3f}"))
    return out, drawn


def by_seen(drawn):
    out = []
    for low, high in SEEN:
        said = [s for s in drawn if low <= s["place"] <= high]
        if said:
            step, smact, paces = sizes(said, "step"), sizes(said, "smact"), sorted(s["pace"] for s in said)
            out.append((f"{low}" if low == high else f"{low} to {high}" if high < 1000 else f"{low} and more", len(said), f"{step[0]:.3f}",
                        f"{step[1]:.3f}", f"{smact[0]:.3f}", f"{smact[1]:.3f}", f"{statistics.median(paces):.2f}",
                        f"{paces[len(paces) // 20]:.2f} to {paces[-1 - len(paces) // 20]:.2f}"))
    return out


HEADS = (("figure", "pace", "n", "median", "p90", "bias"),
         ("tasks before", "n", "step, median", "p90", "SMACT, median", "p90", "pace, median", "nine of ten"))


def picture(drawn, plain, path):
    """Errors of steps by how many tasks ran before, over all orders; flat, without a pace."""
    most = max(s["place"] for s in drawn)
    middles = [n for n in range(most + 1) if n < 10 or n % 3 == 0]
    near = {n: [s for s in drawn if abs(s["place"] - n) <= (0 if n < 2 else 1)] for n in middles}
    plot = svg.Plot(0, 1, "A step, |predicted / measured - 1|", "tasks that ran here before", "error", (0, most), (0, 0.5))
    for k, at in enumerate((0, 1)):
        plot.line(k, [(n, sizes(near[n], "step")[at]) for n in middles])
        plot.line(k + 2, [(0, sizes(plain, "step")[at]), (most, sizes(plain, "step")[at])])
    names = ("median", "p90", "median, pace 1", "p90, pace 1")
    parts = [part for k, name in enumerate(names) for part in (svg.mark(k, 60 + k % 2 * 120, 11 + k // 2 * 15),
                                                              svg.text(69 + k % 2 * 120, 15 + k // 2 * 15, name))]
    parts.append('<g transform="translate(0 20)">' + "".join(plot.parts) + "</g>")
    path.write_text(svg.document(330, 300, parts, "Errors of steps as a machine learns its host's pace"))


def left_out(lines, folder, captures):
    """Rows as of score_solo.scored, each family predicted by a fit to all others."""
    import numpy as np
    from fit_solo import Fit, GPUS, Model, measured
    fit = Fit(measured(folder, captures, set()), [folder], GPUS["NVIDIA H200"])
    process, of = {}, {}
    for n, line in enumerate(lines):
        if "machine" in line:
            process[line["gpu_index"]] = n
        of[line.get("name")] = process.get(line.get("gpu_index"))
    rows = []
    for family in sorted(set(fit.family)):
        made = Model(fit.solve(fit.family != family)).predict(fit.tasks, fit.gpu)
        for n in np.flatnonzero(fit.family == family):
            line = fit.lines[n]
            load = {key: float(made[name][n]) for key, name in
                    (("step_s", "step"), ("host_s", "host"), ("busy_s", "busy"), ("gract", "gract"), ("smact", "smact"))}
            rows.append({"name": line["name"], "family": family, "load": load, "process": of[line["name"]],
                         **{key: line.get(key) for key in ("step_s", "gract", "smact")}})
    order = {line.get("name"): n for n, line in enumerate(lines)}
    return sorted(rows, key=lambda r: order[r["name"]])


def spreads(rows):
    """What SHRINK is: between tasks of a process, between processes."""
    words = [[w for w in map(told, m) if w is not None] for m in machines(rows)]
    middles = [statistics.median(w) for w in words]
    within = statistics.mean(1.4826 * statistics.median(abs(v - c) for v in w) for w, c in zip(words, middles))
    own = statistics.mean(math.pi / 2 * within ** 2 / len(w) for w in words)
    between = math.sqrt(statistics.variance(middles) - own)
    print(f"{sum(map(len, words))} tasks tell: medians {', '.join(f'{c:+.3f}' for c in middles)}; within a process {within:.3f}, between "
          f"{between:.3f}: shrink {math.pi / 2 * within ** 2 / between ** 2:.1f}")


def agree(rad, rows, captures, gpu):
    """rad says the same of a host of that pace."""
    for row in rows:
        for pace in (0.8, 1.3):
            said = estimate(rad, captures / f"{row['name']}.radcap", gpu, pace)
            if abs(said["step_s"] / (row["load"]["step_s"] * longer(row["load"], pace)) - 1) > 0.01:
                raise SystemExit(f"{row['name']}: at pace {pace} rad estimate says {said['step_s']}")


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--rad")
    p.add_argument("--captures", type=pathlib.Path, required=True, help="folder, or archive of one")
    p.add_argument("--data", type=pathlib.Path, required=True, help="folder of solo.jsonl")
    p.add_argument("--left-out", action="store_true")
    p.add_argument("--page", type=pathlib.Path, help="fill its tables")
    p.add_argument("--svg", type=pathlib.Path)
    p.add_argument("--json", type=pathlib.Path, help="rows, to be looked at")
    args = p.parse_args()
    lines = lines_of(args.data / "solo.jsonl")
    with captures_of(args.captures) as captures:
        if args.left_out:
            rows = left_out(lines, args.data, captures)
            spreads(rows)
        else:
            gpu = next(m["machine"]["gpu"] for m in lines if "machine" in m)
            rows, _ = scored(lines, args.rad, captures, gpu, lambda family: True)
            agree(args.rad, rows, captures, gpu)
    found, drawn = table(rows)
    made = {"pace": pages.table(HEADS[0], found), "seen": pages.table(HEADS[1], by_seen(drawn))}
    print(made["pace"], made["seen"], sep="\n\n")
    if args.page:
        pages.fill(args.page, made)
    if args.svg:
        picture(drawn, [said for m in machines(rows) for said in sequence(m, learns=False)], args.svg)
    if args.json:
        args.json.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
