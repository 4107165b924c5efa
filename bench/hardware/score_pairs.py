#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Who goes well with whom: what loads measured alone say of a mix, against what the mix then did.

    python3 score_pairs.py doc/results/h200/mixes*.jsonl.gz [doc/results/collocation/*.jsonl.gz] [--page doc/results/pairs]

Reads what run_mixes.py and run_collocation.py wrote. Predictors, each from the loads of the tasks alone: our law (src/share),
the sums of GRACT, SMACT, SMOCC and DRAM activity, and the two figures of Tabrizian's thesis (doc/results/pairs): weighted
bandwidth M and weighted occupancy. Scores are rank correlations (Spearman) with system throughput, with delta of equation 4.1,
and with how far the slowest of the mix keeps its speed, over mixes of one size, since a larger mix has more of everything.
"""
import argparse
import collections
import pathlib

import collocation_read
import pages
import score_mixes
import svg
import table

Mix = collections.namedtuple("Mix", "mode tasks alone speeds stp delta slowest guesses steady", defaults=[True])
STEADY = 0.1  # the host was, if what a task did alone before and after the mixes differs by no more

# name: what is made of the loads of all tasks; more of it means more interference, but of the law, which tells throughput.
PREDICTORS = {
    "law": None,
    "law, delta": None,
    "sum of SMACT": lambda a: sum(t["smact"] for t in a),
    "sum of GRACT": lambda a: sum(t["gract"] for t in a),
    "sum of SMOCC": lambda a: sum(t["smocc"] for t in a),
    "sum of DRAM": lambda a: sum(t["dram"] for t in a),
    "M": lambda a: sum(t["dram"] / t["gract"] for t in a),
    "occupancy": lambda a: sum(t["smocc"] / t["smact"] for t in a),
}
TARGETS = ("stp", "delta", "slowest")
SIZES = (("2", 2, 2), ("3", 3, 3), ("4", 4, 4), ("5 to 8", 5, 8))


def ranks(values):
    """Places from 1 on; equal values share the mean of theirs."""
    order, out = sorted(range(len(values)), key=values.__getitem__), [0.0] * len(values)
    n = 0
    while n < len(order):
        m = n
        while m + 1 < len(order) and values[order[m + 1]] == values[order[n]]:
            m += 1
        for k in order[n:m + 1]:
            out[k] = (n + m) / 2 + 1
        n = m + 1
    return out


def spearman(xs, ys):
    """None where one side does not vary or there are fewer than four."""
    if len(xs) < 4:
        return None
    a, b = ranks(xs), ranks(ys)
    mean = (len(a) + 1) / 2
    spread = [sum((v - mean) ** 2 for v in r) for r in (a, b)]
    if not all(spread):
        return None
    return sum((x - mean) * (y - mean) for x, y in zip(a, b)) / (spread[0] * spread[1]) ** 0.5


def mix_of(mode, tasks, alone, together, activity):
    """None where a load is not known."""
    loads = [activity.get(name) for name in tasks]
    if not all(a and all(a[k] for k in ("gract", "smact", "smocc", "dram")) for a in loads) or min(*alone, *together) <= 0:
        return None
    speeds = [min(1.0, r / a) for r, a in zip(together, alone)]  # nothing is faster in company but by noise
    law = score_mixes.speeds(mode, score_mixes.frozen()[mode], [(*score_mixes.clamp((a["gract"], a["smact"])), None) for a in loads])
    guesses = {name: make(loads) for name, make in PREDICTORS.items() if make}
    guesses |= {"law": sum(law), "law, delta": collocation_read.delta(alone, [a * s for a, s in zip(alone, law)])}
    return Mix(mode, tasks, alone, speeds, sum(speeds), collocation_read.delta(alone, [a * s for a, s in zip(alone, speeds)]),
               len(tasks) * min(speeds), guesses)


def of_mixes(paths):
    for mode, data in score_mixes.read(paths):
        moved = {n: abs(data.again[n] / data.alone[n] - 1) for n in data.again if data.alone.get(n)}
        for members, together in data.measured:
            mix = mix_of(mode, members, [data.best(n) for n in members], together, data.activity)
            yield mix and mix._replace(steady=all(moved.get(n, 1) <= STEADY for n in members))


def of_collocation(paths):
    for run in map(collocation_read.Run, paths):
        activity = {name: {k: run.load(name).get(k) for k in ("gract", "smact", "smocc", "dram")} for name in run.rates}
        moved = {name: max(rates) / min(rates) - 1 for name, rates in run.rates.items() if min(rates) > 0}
        for p in run.points:
            if p["mode"] in ("mps", "streams") and len(p["tasks"]) > 1 and not p["cores"]:
                mix = mix_of(p["mode"], p["tasks"], p["alone"], p["steps_s"], activity)
                yield mix and mix._replace(steady=all(moved.get(n, 1) <= STEADY for n in p["tasks"]))


def is_collocation(path):
    return '"tasks"' in table.read(path).split("\n", 1)[0]


def read(paths):
    mine = [p for p in paths if is_collocation(p)]
    found = list(of_mixes([p for p in paths if p not in mine])) + (list(of_collocation(mine)) if mine else [])
    return [m for m in found if m]


def of_size(mixes, mode, least, most):
    return [m for m in mixes if m.mode == mode and least <= len(m.tasks) <= most]


def scores(mixes, mode, least, most):
    """{predictor: [correlation with each target]}"""
    some = of_size(mixes, mode, least, most)
    return {name: [spearman([m.guesses[name] for m in some], [getattr(m, t) for m in some]) for t in TARGETS]
            for name in PREDICTORS}


def shown(v):
    return None if v is None else f"{v:+.2f}".replace("-", "−")


def score_table(mixes):
    """A row for each predictor; a column for each mode and size: STP, delta, slowest."""
    parts = [(mode, words, least, most) for mode in ("mps", "streams") for words, least, most in SIZES
             if len(of_size(mixes, mode, least, most)) >= 4]
    by = [scores(mixes, mode, least, most) for mode, _, least, most in parts]
    rows = [[name, *(", ".join(shown(v) or "–" for v in one[name]) for one in by)] for name in PREDICTORS]
    heads = [f"{mode}, {len(of_size(mixes, mode, least, most))} mixes of {words}" for mode, words, least, most in parts]
    return pages.table(["predictor", *heads], rows)


def pair_table(mixes, mode):
    rows = []
    for m in sorted(of_size(mixes, mode, 2, 2), key=lambda m: -m.stp):
        g = m.guesses
        rows.append([" + ".join(m.tasks), " and ".join(f"{s:.2f}" for s in m.speeds), f"{m.stp:.2f}", f"{g['law']:.2f}", f"{m.delta:.2f}",
                     f"{g['law, delta']:.2f}", f"{g['sum of SMACT']:.2f}", f"{g['M']:.2f}", f"{g['occupancy']:.2f}"])
    return pages.table(["pair", "speeds", "STP", "law", "delta", "law's delta", "SMACT", "M", "occupancy"], rows)


def draw(mixes, path):
    pairs = {f"{mode}, host steady": [m for m in of_size(mixes, mode, 2, 2) if m.steady] for mode in ("mps", "streams")}
    pairs["host not steady"] = [m for m in mixes if len(m.tasks) == 2 and not m.steady]
    plots = []
    for n, (name, low, high, words) in enumerate((("law", 0.8, 2.05, "law of src/share"), ("sum of SMACT", 0, 2, "sum of SMACT"),
                                                  ("M", 0, 1.0, "weighted bandwidth M, sum"),
                                                  ("occupancy", 0, 1.4, "weighted occupancy, sum"))):
        plot = svg.Plot(n, 2, words, words, "STP measured", (low, high), (0.8, 2.05))
        for k, which in reversed(list(enumerate(pairs))):
            plot.points(k, [(min(max(m.guesses[name], low), high), m.stp) for m in pairs[which]])
        plots.append(plot)
    names = [f"{which}: {len(some)}" for which, some in pairs.items()]
    path.write_text(svg.plots_document(plots, 2, names, "Throughput of pairs against what predicts it"))


def main():
    p = argparse.ArgumentParser(description="Score what predicts who goes well with whom.")
    p.add_argument("files", nargs="+", metavar="FILE", help="of run_mixes.py and run_collocation.py")
    p.add_argument("--page", metavar="FOLDER", help="fill its README.md, and draw pairs.svg there")
    args = p.parse_args()
    mixes = read(args.files)
    made = {"scores": score_table(mixes), "steady": score_table([m for m in mixes if m.steady]),
            "mps": pair_table(mixes, "mps"), "streams": pair_table(mixes, "streams")}
    if not args.page:
        print("\n\n".join(made.values()))
        return
    pages.fill(pathlib.Path(args.page) / "README.md", made)
    draw(mixes, pathlib.Path(args.page) / "pairs.svg")


if __name__ == "__main__":
    main()
