#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What captures are off by about tasks of families that no fit has seen, and whether a simulation draws that (models/guesses.h):

    python3 score_guesses.py --rad BUILD/rad [--page doc/results/load/errors.md]
    python3 score_guesses.py --fit --captures FOLDER --large FOLDER     # the unpacked archives; numpy, scipy, seven minutes

--fit writes doc/results/load/left-out.jsonl.gz: every task that was measured alone on H200 and H100, and what is said of it by a load model
that was fitted to those on H200 without its family. Everything else is made from that file and from the runs of run_first.py.
"""
import argparse
import collections
import gzip
import json
import math
import pathlib
import random
import re
import statistics

import pages
import score_pace
import simulate_policies
from score_pace import larger
from score_solo import captures_of, estimate, lines_of, quantile
from table import read

ROOT = pathlib.Path(__file__).resolve().parents[2]
LOAD = ROOT / "doc/results/load"
ROWS = LOAD / "left-out.jsonl.gz"
KEYS = {"step_s": "step", "host_s": "host", "busy_s": "busy", "gract": "gract", "smact": "smact", "dram": "dram"}
RUNS = ("h200/first", "h200/users", "h100/short", "h100/first", "h100/minutes", "h100/alone")  # each task alone, whose captures there are
LEVELS = ((0, 0.3), (0.3, 0.6), (0.6, 0.9), (0.9, 0.98), (0.98, 2))
DRAWS = 60      # of each task, by each form
SCALE = (0.1, 0.1, 0.2)  # what an error of GRACT, SMACT and the step's logarithm is counted in
# Of the families that the form was chosen on; models/guesses.h is of all.
CHOSEN = {"BUSY_KIND": 0.10, "BUSY": 0.17, "ACTIVE_KIND": 0.10, "ACTIVE": 0.49, "HOST_KIND": 0.15, "HOST": 0.20, "PACE": 0.19,
          "PACE_SD": 0.18}


# --- each family left out ---

def fit(captures, large):
    import numpy as np
    from fit_solo import Fit, GPUS, Model, measured

    def at(folder, where, held):
        return [{**line, "where": where} for line in measured(folder, held, set())]

    def processes(folder):
        process, of = {}, {}
        for n, line in enumerate(lines_of(folder / "solo.jsonl")):
            if "machine" in line:
                process[line.get("gpu_index")] = n
            of[line.get("name")] = (n, process.get(line.get("gpu_index")))
        return of
    folders = {"h200": LOAD, "large": LOAD / "large", "h100": LOAD / "h100"}
    of = {where: processes(folder) for where, folder in folders.items()}
    seen = Fit(at(LOAD, "h200", captures) + at(LOAD / "large", "large", large), [LOAD, LOAD / "large"], GPUS["NVIDIA H200"])
    other = Fit(at(LOAD / "h100", "h100", captures), [LOAD / "h100"], GPUS["NVIDIA H100 80GB HBM3"])
    rows = []
    for family in sorted(set(seen.family) | set(other.family)):
        model = Model(seen.solve(seen.family != family))
        for one in (seen, other):
            made = model.predict(one.tasks, one.gpu)
            for n in np.flatnonzero(one.family == family):
                line = one.lines[n]
                order, process = of[line["where"]][line["name"]]
                rows.append({"where": line["where"], "process": process, "order": order, "name": line["name"], "family": family,
                             "said": {key: round(float(made[name][n]), 7) for key, name in KEYS.items()},
                             "was": {key: line.get(key) for key in ("step_s", "host_s", "gract", "smact", "dram")}})
    rows.sort(key=lambda r: (r["where"], r["order"]))
    with gzip.GzipFile(ROWS, "wb", mtime=0) as out:
        out.write("".join(json.dumps(row) + "\n" for row in rows).encode())


# --- errors ---

def other_of(whole, a):
    return max(whole ** 8 - a ** 8, 0) ** (1 / 8)


def logit(part):
    part = min(max(part, 0.02), 0.98)
    return math.log(part / (1 - part))


def truth(row):
    """GRACT, SMACT."""
    gract = min(max(row["was"]["gract"], 0.005), 1)
    return gract, min(row["was"]["smact"], gract)


def seen(row):
    """Errors of GRACT, SMACT, and the logarithm of the step."""
    gract, smact = truth(row)
    return row["said"]["gract"] - gract, row["said"]["smact"] - smact, math.log(row["said"]["step_s"] / row["was"]["step_s"])


def parts(row):
    """What makes them: the logarithms of the GPU's and the host's time, and the logit of the active part. None: it shows nothing."""
    (gract, smact), said, step = truth(row), row["said"], row["was"]["step_s"]
    host = math.log(said["host_s"] / (other_of(1, gract) * step)) if gract < 0.6 else None
    return {"busy": math.log(said["busy_s"] / (gract * step)), "host": host,
            "active": logit(said["smact"] / said["gract"]) - logit(smact / gract)}


def throw(dice):
    return sum(dice.uniform(-1, 1) for _ in range(3))


def drawn_before(dice, gract, smact):
    """Until decision 182 was looked at again: independent, the same at every level."""
    g = min(max(gract + 0.09 * throw(dice), 0.02), 1)
    return g - gract, min(max(smact + 0.09 * throw(dice), 0.01), g) - smact, 0.2 * throw(dice)


def drawn_now(sizes):
    """As src/sim/known.c draws it."""
    def draw(dice, gract, smact):
        def off(name):
            return sizes[f"{name}_KIND"] * throw(dice) + sizes[name] * throw(dice)
        busy = gract * math.exp(off("BUSY"))
        host = other_of(1, gract) * math.exp(off("HOST") - sizes["PACE"] - sizes["PACE_SD"] * throw(dice))
        step = larger(busy, host)
        g = min(busy / step, 1)
        return g - gract, g / (1 + math.exp(-logit(smact / gract) - off("ACTIVE"))) - smact, math.log(step)
    return draw


def shipped():
    text = (ROOT / "models/guesses.h").read_text()
    return {name: float(value) for name, value in re.findall(r"#define GUESSES_(\w+) ([0-9.]+)", text)}


def draws(rows, form):
    dice = random.Random(1)
    return [[form(dice, *truth(row)) for _ in range(DRAWS)] for row in rows]


def energy(row, drawn):
    """The energy score of what was drawn for it: the lower, the better the distribution fits."""
    def distance(a, b):
        return math.sqrt(sum(((x - y) / s) ** 2 for x, y, s in zip(a, b, SCALE)))
    error = seen(row)
    return statistics.mean(distance(d, error) for d in drawn) - statistics.mean(map(distance, drawn, drawn[1:] + drawn[:1])) / 2


def by_family(rows, values):
    out = collections.defaultdict(list)
    for row, value in zip(rows, values):
        if value is not None:
            out[row["family"]].append(value)
    return list(out.values())


def interval(groups):
    """Mean, and where it is in nine of ten draws of families."""
    dice = random.Random(1)
    means = sorted(statistics.mean(v for g in dice.choices(groups, k=len(groups)) for v in g) for _ in range(2000))
    return statistics.mean(v for g in groups for v in g), means[100], means[-101]


def halves(rows):
    """Every other family by name: chosen on, and the rest."""
    chosen = set(sorted({row["family"] for row in rows})[::2])
    return [r for r in rows if r["family"] in chosen], [r for r in rows if r["family"] not in chosen]


def between_and_within(groups):
    """Deviations: between groups, and within one."""
    groups = [g for g in groups if len(g) > 1]
    n, all_mean = sum(map(len, groups)), statistics.mean(v for g in groups for v in g)
    within = sum((v - statistics.mean(g)) ** 2 for g in groups for v in g) / (n - len(groups))
    between = sum(len(g) * (statistics.mean(g) - all_mean) ** 2 for g in groups) / (len(groups) - 1)
    size = (n - sum(len(g) ** 2 for g in groups) / n) / (len(groups) - 1)
    return math.sqrt(max(0, (between - within) / size)), math.sqrt(within)


# --- tables ---

def sizes_of(errors):
    """Median and p90 of GRACT, SMACT and step; correlations."""
    columns = list(zip(*errors))
    cells = [f"{statistics.median(map(abs, c)):.3f}, {quantile(sorted(map(abs, c)), 0.9):.3f}" for c in columns]
    return cells + [f"{statistics.correlation(columns[a], columns[b]):+.2f}" for a, b in ((0, 1), (0, 2))]


def levels_table(rows, forms):
    out = []
    for low, high in LEVELS:
        some = [row for row in rows if low <= truth(row)[0] < high]
        name = f"{low:g} to {high:g}" if high < 2 else f"{low:g} and more"
        out.append([name, len(some), "seen", *sizes_of(list(map(seen, some)))])
        out += [["", "", how, *sizes_of([d for each in draws(some, form) for d in each])] for how, form in forms.items()]
    return pages.table(["GRACT alone", "n", "", "GRACT: median, p90", "SMACT", "step (log)", "correlation of GRACT with SMACT",
                        "with step"], out)


def machine_of(row):
    return row["where"], row["process"]


def parts_table(rows):
    found = [parts(row) for row in rows]
    paces = collections.defaultdict(list)
    for row, part in zip(rows, found):
        if part["host"] is not None and row["where"] != "large":
            paces[machine_of(row)].append(part["host"])
    machines = {key: statistics.median(v) for key, v in paces.items()}
    out = []
    for name, label in (("busy", "GPU's time (log)"), ("active", "active part of the SMs (logit)"),
                        ("host", "host's time (log), its machine's taken off")):
        values = [None if p[name] is None or (name == "host" and machine_of(r) not in machines) else
                  p[name] - (machines[machine_of(r)] if name == "host" else 0) for r, p in zip(rows, found)]
        between, within = between_and_within(by_family(rows, values))
        some = sorted(abs(v) for v in values if v is not None)
        out.append([label, len(some), f"{between:.2f}", f"{within:.2f}", f"{quantile(some, 0.683):.2f}"])
    spread = statistics.stdev(machines.values())
    told = ", ".join(f"{v:+.2f}" for v in machines.values())
    return pages.table(["off by", "n", "deviation between families", "within one", "two of three are within"], out), \
        f"Medians of the host's time by machine: {told}; mean {statistics.mean(machines.values()):+.2f}, deviation {spread:.2f}."


def sources_table(rows):
    out = []
    for where, name in (("h200", "H200"), ("large", "H200, larger tasks"), ("h100", "H100")):
        some = [row for row in rows if row["where"] == where]
        errors = list(zip(*map(seen, some)))
        errors.append([row["said"]["dram"] - row["was"]["dram"] for row in some if row["was"]["dram"] is not None])
        out.append([name, len(some), *(f"{statistics.median(map(abs, e)):.3f}, {quantile(sorted(map(abs, e)), 0.9):.3f}, "
                                       f"{statistics.median(e):+.3f}"
                                       for e in errors)])
    return pages.table(["", "n", "GRACT: median, p90, bias", "SMACT", "step (log)", "DRAM"], out)


def paced_table(rows):
    """As radd would have said it, learning the host's pace in the order of measurement."""
    out = []
    for where, name in (("h200", "H200"), ("h100", "H100")):
        some = [{**row["was"], "load": row["said"], "process": machine_of(row), "name": row["name"]} for row in rows
                if row["where"] == where]
        for how, learns in (("pace 1", False), ("pace learnt", True)):
            said = [s["errors"] for m in score_pace.machines(some) for s in score_pace.sequence(m, learns)]
            errors = [(e["gract"], e["smact"], math.log(1 + e["step"])) for e in said if len(e) == 3]
            biases = ", ".join(f"{statistics.median(c):+.3f}" for c in zip(*errors))
            out.append([name, how, len(errors), *sizes_of(errors), biases])
    return pages.table(["", "", "n", "GRACT: median, p90", "SMACT", "step (log)", "correlation of GRACT with SMACT",
                        "with step", "biases"], out)


def run_rows(rad):
    """The ten tasks of run_first.py, alone in six runs, beside what their captures say; the run in place of a family."""
    out = []
    with captures_of(LOAD / "run.tar.xz") as captures:
        for folder in RUNS:
            result = json.loads(read(ROOT / "doc/results" / folder / "run-exclusive.json.gz"))
            gpu = result["gpus_before"]["gpus"][0]["name"]
            for name, was in simulate_policies.alone(result).items():
                run = result["summary"][name]
                step = (run["seconds"] - run["first_step_s"]) / (run["steps"] - 1)
                out.append({"where": "runs", "family": folder, "said": estimate(rad, next(captures.rglob(f"{name}.radcap")), gpu),
                            "was": {"gract": was["gract"], "smact": was["smact"], "step_s": step}})
    return out


def runs_table(runs):
    out = []
    for folder in RUNS:
        errors = [seen(row) for row in runs if row["family"] == folder]
        out.append([folder, *sizes_of(errors), ", ".join(f"{statistics.median(c):+.3f}" for c in zip(*errors))])
    return pages.table(["run", "GRACT: median, p90", "SMACT", "step (log)", "correlation of GRACT with SMACT", "with step", "biases"], out)


def score_table(held, runs):
    """The energy scores of both forms on the families that the new one was not chosen on, and on runs on other machines."""
    def scores(form, rows):
        return [energy(row, drawn) for row, drawn in zip(rows, draws(rows, form))]
    out = []
    for name, some in (("the other families", held), ("- on H200", [r for r in held if r["where"] != "h100"]),
                       ("- on H100", [r for r in held if r["where"] == "h100"]), ("the ten tasks below, other machines", runs)):
        before, now = scores(drawn_before, some), scores(drawn_now(CHOSEN), some)
        mean, low, high = interval(by_family(some, [b - a for a, b in zip(before, now)]))
        out.append([name, len(some), f"{statistics.mean(before):.2f}", f"{statistics.mean(now):.2f}",
                    f"{mean:+.2f} ({low:+.2f} to {high:+.2f})"])
    return pages.table(["", "n", "before", "now", "difference (nine of ten draws of families, or runs)"], out)


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--rad", help="the rad command")
    p.add_argument("--page", type=pathlib.Path)
    p.add_argument("--fit", action="store_true")
    p.add_argument("--captures", type=pathlib.Path)
    p.add_argument("--large", type=pathlib.Path)
    args = p.parse_args()
    if args.fit:
        fit(args.captures, args.large)
        return
    rows = [json.loads(line) for line in gzip.decompress(ROWS.read_bytes()).decode().splitlines()]
    _, held = halves(rows)
    runs = run_rows(args.rad)
    by_part, machines = parts_table(rows)
    made = {"errors": sources_table(rows), "parts": f"{by_part}\n\n{machines}", "score": score_table(held, runs),
            "levels": levels_table(held, {"before": drawn_before, "now": drawn_now(shipped())}), "pace": paced_table(rows),
            "runs": runs_table(runs)}
    print(*made.values(), sep="\n\n")
    if args.page:
        pages.fill(args.page, made)


if __name__ == "__main__":
    main()
