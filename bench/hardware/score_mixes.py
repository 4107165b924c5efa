#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""How well src/share predicts what run_mixes.py measured, and which parameters would predict best.

    python3 score_mixes.py mixes.jsonl... [--rad PATH]

The law of doc/share.md with the parameters of models/share.h, on all mixes and on the half that no fit sees; then parameters
fitted on the other half. Errors are (predicted - measured) / measured, one for each task of each mix. With --rad the
predictions come from `rad simulate --mix`, and the law as it is written here is checked against them.

Where watts were measured, a second table says how well they follow from each task's watts alone; and where a mix had several
processes of one task, how much those differ from their own mean, which no law can know.
"""
import argparse
import collections
import functools
import itertools
import json
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

import table

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "memory"))
from stats import quantile  # noqa: E402

MODELS = pathlib.Path(__file__).resolve().parents[2] / "models"
HEADER, POWER = MODELS / "share.h", MODELS / "power.h"
BOARDS = {"NVIDIA H200": (75, 700), "NVIDIA H100 80GB HBM3": (70, 700)}  # idle and peak, as simulated devices have them
LEAST, UNKNOWN = 0.01, 0.5
AGREE = 1e-6  # between rad and the law below

# The exponent is that of GRACT under MPS, 0 under streams; wait: how much of each neighbour's kernel a launch waits for.
Law = collections.namedtuple("Law", "capacity exponent wait", defaults=[0.0])
CAPACITIES = {"streams": [c / 200 for c in range(160, 221)], "mps": [c / 500 for c in range(501, 601)]}
EXPONENTS = {"streams": [0.0], "mps": [e / 80 for e in range(40, 81)]}


class Mode:
    """What was measured in one mode."""
    def __init__(self):
        self.loads, self.alone, self.again, self.measured, self.notes = {}, {}, {}, [], []
        self.splits, self.watts_alone, self.watts, self.board, self.counts = [], {}, [], None, {}
        self.host_alone, self.hosts, self.activity = {}, [], {}

    @property
    def mixes(self):
        """(members, speeds relative to alone). Alone is the better of two measurements, before the mixes and after them: a task
        that was faster the second time had not been at its speed. Nothing runs faster than alone but by noise."""
        best = {n: self.best(n) for n in self.alone}
        return [(members, [min(1.0, rate / best[n]) for n, rate in zip(members, together)]) for members, together in self.measured]

    def add_alone(self, name, line):
        """Loads are those of the better measurement, as the rate is."""
        if line["again"]:
            self.again[name] = line["steps_s"]
        else:
            self.alone[name] = line["steps_s"]
        if name in self.loads and line["steps_s"] < max(self.alone[name], self.again.get(name, 0)):
            return
        if name not in self.loads or line.get("gract") is not None:
            self.loads[name] = (line.get("gract"), line.get("smact"))
            self.watts_alone[name] = line.get("watts")
            self.host_alone[name] = line.get("host_s")
            self.activity[name] = {k: line.get(k) for k in ("gract", "smact", "smocc", "dram")}

    def best(self, name):
        return max(self.alone[name], self.again.get(name, 0))

    def tasks(self, members):
        """(GRACT, SMACT, kernels in a second or None) of each, as src/share takes them."""
        return [(*clamp(self.loads[n]), self.counts[n] * self.best(n) if n in self.counts else None) for n in members]

    def caps(self, number):
        """How fast the host alone was then, against alone: a step's time on the host, before the queue of launches was full."""
        members, hosts = self.measured[number][0], self.hosts[number]
        known = hosts and all(hosts) and all(self.host_alone.get(n) for n in members)
        return [min(1.0, min(self.host_alone[n]) / min(h)) for n, h in zip(members, hosts)] if known else None

    def add(self, line):
        if "mix" in line:
            self.measured.append((line["members"], line["together"]))
            self.splits.append(line.get("split"))
            self.watts.append((line.get("loads") or {}).get("watts"))
            self.hosts.append(line.get("host_s"))
        elif "alone" in line:
            self.add_alone(line["alone"], line)
        elif "failed" in line:
            self.notes.append(f"{line['failed']} was left out: {line['why']}")
        elif "error" in line:
            self.notes.append(f"the run failed: {line['error'].strip().splitlines()[-1]}")
        elif line.get("mps_clients") is not None and line["mps_clients"] < line["ready"]:
            self.notes.append(f"only {line['mps_clients']} of {line['ready']} tasks were clients of MPS: this may not be MPS")


def read_lines(path):
    """Its lines of JSON, but for those that were cut off."""
    for text in table.read(path).splitlines():
        try:
            line = json.loads(text)
        except ValueError:
            continue
        yield line


def read(paths):
    """One list entry for each mode of each file: (mode, Mode)."""
    found, counts = [], {}
    for path in paths:
        modes, board = {}, None
        for data in read_lines(path):
            board = BOARDS.get(data.get("gpu"), board)
            if "mode" in data:
                modes.setdefault(data["mode"], Mode()).add(data)
                modes[data["mode"]].board, modes[data["mode"]].counts = board, counts
            if "kernels" in data:  # what a step launches is the same everywhere
                counts[data["kernels"]] = len(data["each"]) / data["steps"]
        found += modes.items()
    return found


def frozen():
    """The laws as they are in models/share.h; the exponent is in src/share/share.c."""
    text = HEADER.read_text()
    capacity = {m: float(re.search(rf"#define SHARE_{m}_CAPACITY ([\d.]+)", text)[1]) for m in ("STREAMS", "MPS", "KERNELS")}
    wait = float(re.search(r"#define SHARE_KERNELS_WAIT ([\d.]+)", text)[1])
    return {"streams": Law(capacity["STREAMS"], 0.0), "mps": Law(capacity["MPS"], 13 / 16),
            "kernels": Law(capacity["KERNELS"], 7 / 8, wait)}


def clamp(loads):
    """GRACT and SMACT of a task alone, as src/share takes them."""
    gract, smact = (min(max(UNKNOWN if load is None else load, LEAST), 1) for load in loads)
    return gract, min(smact, gract)


@functools.cache
def crowds():
    """From which sum of SM activity on kernels take longer, and by how much, as in models/share.h."""
    return [float(re.search(rf"#define SHARE_{name} ([\d.]+)", HEADER.read_text())[1]) for name in ("CROWDED", "CROWDING")]


def crowding(tasks):
    """How many times as long kernels take on a GPU as full of MPS clients as that, beside all that they wait for."""
    begin, each = crowds()
    return 1 + each * max(0.0, sum(t[1] for t in tasks) - begin)


def kernel_us(gract, kernels):
    """How long a kernel is on average, as far as it was measured."""
    return min(max(gract / kernels * 1e6, 2.0), 100.0)


def speeds(mode, law, tasks, caps=None):
    """Weighted max-min fairness for tasks with these (GRACT, SMACT), and kernels in a second where the law asks for them:
    doc/share.md. `caps`: the most that each gets, 1 if not given."""
    caps = caps or [1.0] * len(tasks)
    longer = 1.0 if mode == "streams" else crowding(tasks)
    demands = [(t[0] if mode == "streams" else t[1]) * cap for t, cap in zip(tasks, caps)]
    if mode == "streams":
        weights, idle = [1.0] * len(tasks), 0.0
    else:
        us = [kernel_us(t[0], t[2]) if law.wait else 1.0 for t in tasks]
        stretched = [t[0] ** law.exponent + law.wait * t[0] / own * (sum(us) - own) for t, own in zip(tasks, us)]
        weights, idle = [t[1] / (d - t[1] / law.capacity) for t, d in zip(tasks, stretched)], law.capacity
    speed = [None] * len(demands)
    while None in speed:
        left = law.capacity - sum(d for d, s in zip(demands, speed) if s)
        level = left / (idle + sum(w for w, s in zip(weights, speed) if not s))
        served = [i for i, s in enumerate(speed) if not s and level * weights[i] >= demands[i]]
        if not served:
            speed = [s or level * w * cap / d for s, w, d, cap in zip(speed, weights, demands, caps)]
        for i in served:
            speed[i] = caps[i]
    return [s / longer for s in speed]


def errors(predicted, mixes):
    return [p / m - 1 for ps, (_, ms) in zip(predicted, mixes) for p, m in zip(ps, ms)]


def predict(mode, law, loads, mixes):
    return [speeds(mode, law, [clamp(loads[name]) for name in members]) for members, _ in mixes]


def halves(mixes, splits=()):
    """(to fit on, held out): as was chosen before the measurement, or of the mixes of each size every other one, in the order of
    measurement."""
    seen, out = collections.Counter(), ([], [])
    if all(splits) and len(splits) == len(mixes):
        return [[m for m, s in zip(mixes, splits) if s == part] for part in ("fit", "score")]
    for entry in mixes:
        size = len(entry[0])
        out[seen[size] % 2].append(entry)
        seen[size] += 1
    return out


def fit(mode, loads, mixes):
    """The law of the grid with the smallest mean absolute error. Streams have one parameter, MPS two."""
    def mean(law):
        return statistics.fmean(map(abs, errors(predict(mode, law, loads, mixes), mixes)))
    return min((Law(c, e) for c in CAPACITIES[mode] for e in EXPONENTS[mode]), key=mean)


def ask_rad(rad, mode, loads, mixes):
    """The speeds that rad predicts."""
    with tempfile.NamedTemporaryFile("w", suffix=".csv") as f:
        f.write("workload,gpus,solo_s,mem_mib,gract,smact\n")
        for name, pair in loads.items():
            f.write(f"{name},1,1,1,{','.join(str(UNKNOWN if load is None else min(load, 1.0)) for load in pair)}\n")
        f.flush()
        command = [rad, "simulate", "--devices", "1xh200-141g", "--mix", f.name, "--share", mode, "--json"]
        return [json.loads(subprocess.run([*command, *members], check=True, capture_output=True, text=True).stdout)
                ["relative_speed"] for members, _ in mixes]


def row(mode, what, law, predicted, mixes):
    all_ = errors(predicted, mixes)
    size = [abs(e) for e in all_]
    return (f"| {mode} | {what} | {law.capacity:.3f} | {law.exponent:.3f} | {len(mixes)} | {len(all_)} "
            f"| {statistics.median(size):.1%} | {quantile(size, 0.9):.1%} | {max(size):.1%} "
            f"| {statistics.median(all_):+.1%} |")


HEAD = ("| mode | law, mixes | capacity | exponent | mixes | tasks | median error | p90 | worst | median, signed |\n"
        "|---|---|---|---|---|---|---|---|---|---|")


def score(mode, data, rad):
    """The lines of the table of one mode, and the ten worst predictions."""
    law, (fitting, held) = frozen()[mode], halves(data.mixes, data.splits)
    predicted = predict(mode, law, data.loads, data.mixes)
    if rad:
        theirs = ask_rad(rad, mode, data.loads, data.mixes)
        worst = max(abs(a - b) for x, y in zip(theirs, predicted) for a, b in zip(x, y))
        if worst > AGREE:
            data.notes.append(f"rad and score_mixes.py differ by up to {worst:.2g}: one of them has another law")
        predicted = theirs
    rows = [row(mode, "as it is, all", law, predicted, data.mixes)]
    if held:
        rows.append(row(mode, "as it is, held out", law, predict(mode, law, data.loads, held), held))
        new = fit(mode, data.loads, fitting)
        for what, mixes in (("fitted, fitting half", fitting), ("fitted, held out", held)):
            rows.append(row(mode, what, new, predict(mode, new, data.loads, mixes), mixes))
    each = [(abs(p / m - 1), name, members, m, p) for ps, (members, ms) in zip(predicted, data.mixes)
            for name, m, p in zip(members, ms, ps)]
    return rows, sorted(each, reverse=True)[:10]


def watts(data):
    """[(split, predicted, measured)]: each task adds what it draws alone beyond an occupied GPU, times its speed."""
    if not data.board:
        return []
    idle, peak = data.board
    occupied = idle + float(re.search(r"#define POWER_OCCUPIED ([\d.]+)", POWER.read_text())[1]) * (peak - idle)
    out = []
    for (members, together), split, measured in zip(data.measured, data.splits, data.watts):
        own = [data.watts_alone.get(n) for n in members]
        if measured and all(own):
            parts = [max(w - occupied, 0) * rate / data.best(n) for n, w, rate in zip(members, own, together)]
            out.append((split, min(peak, occupied + sum(parts)), measured))
    return out


def watts_rows(found):
    rows = []
    for mode in sorted({mode for mode, _ in found}):
        each = [w for m, data in found if m == mode for w in watts(data)]
        for what, parts in (("all", (None, "fit", "score")), ("held out", ("score",))):
            off = [p / m - 1 for split, p, m in each if split in parts]
            if off:
                size = [abs(e) for e in off]
                rows.append(f"| {mode} | {what} | {len(off)} | {statistics.median(size):.1%} | {quantile(size, 0.9):.1%} "
                            f"| {max(size):.1%} | {statistics.median(off):+.1%} |")
    return ["", "| watts of mixes | mixes | n | median error | p90 | worst | median, signed |", "|---|---|---|---|---|---|---|",
            *rows] if rows else []


def twins(data):
    """How far processes of the same task in one mix are from their own mean: what no law can predict."""
    out = []
    for members, speeds_ in data.mixes:
        for name in set(members):
            own = [s for n, s in zip(members, speeds_) if n == name]
            out += [abs(s / statistics.fmean(own) - 1) for s in own if len(own) > 1]
    return out


def held_out(data):
    """Places of the mixes that no fit saw."""
    return [n for _, n in halves([(members, n) for n, (members, _) in enumerate(data.mixes)], data.splits)[1]]


def pooled(found):
    """Rows of several files together: as it is, with the kernels of all known, and either with what the host was doing."""
    rows, by_mode = [], {}
    for mode, data in found:
        if data.mixes and any(pair != (None, None) for pair in data.loads.values()):
            by_mode.setdefault(mode, []).append(data)
    for mode, several in by_mode.items():
        for what, part in (("all", lambda d: range(len(d.mixes))), ("held out", held_out)):
            for kernels, host in itertools.product((False, True), repeat=2):
                law = frozen()["kernels" if kernels else mode]
                at = [(d, n) for d in several for n in part(d)
                      if not (kernels and (mode != "mps" or set(d.mixes[n][0]) - set(d.counts))) and not (host and not d.caps(n))]
                told = [speeds(mode, law, d.tasks(d.mixes[n][0]), d.caps(n) if host else None) for d, n in at]
                words = f"{what}{', kernels known' * kernels}{', host known' * host}"
                if at and (kernels or host or len(several) > 1):
                    rows.append(row(mode, words, law, told, [d.mixes[n] for d, n in at]))
    return rows


def describe(mode, data, worst):
    """Everything that is not in the table."""
    moved = {n: data.again[n] / rate - 1 for n, rate in data.alone.items() if n in data.again}
    if moved:
        name = max(moved, key=lambda n: abs(moved[n]))
        yield (f"{mode}: alone, at the end against the beginning: median {statistics.median(moved.values()):+.1%}, "
               f"most {moved[name]:+.1%} ({name})")
    yield f"{mode}: loads alone (GRACT, SMACT): " + ", ".join(f"{n} {g} {s}" for n, (g, s) in sorted(data.loads.items()))
    if same := twins(data):
        yield (f"{mode}: {len(same)} processes that had a twin in their mix differ from the mean of those by {statistics.median(same):.1%} "
               f"(median), {quantile(same, 0.9):.1%} (p90)")
    yield from (f"{mode}: note: {note}" for note in data.notes)
    for error, name, members, measured, predicted in worst:
        yield f"{mode}: {error:.0%} off: {name} measured {measured:.3f}, predicted {predicted:.3f}, in {' + '.join(members)}"


def main():
    p = argparse.ArgumentParser(description="Score src/share against measured mixes.")
    p.add_argument("files", nargs="+", metavar="FILE", help="what run_mixes.py wrote")
    p.add_argument("--rad", metavar="PATH", help="the rad command to ask for predictions")
    args = p.parse_args()
    rows, text, found = [], [], read(args.files)
    for mode, data in found:
        worst = []
        if not data.mixes:
            data.notes.append("no mix was measured")
        elif all(pair == (None, None) for pair in data.loads.values()):
            data.notes.append("no load was measured, so there is nothing to predict from")
        else:
            more, worst = score(mode, data, args.rad)
            rows += more
        text += describe(mode, data, worst)
    if not rows:
        print("\n".join(text), file=sys.stderr)
        sys.exit("score_mixes.py: nothing to score")
    print("\n".join([HEAD, *rows, *pooled(found), *watts_rows(found), "", *text]))


if __name__ == "__main__":
    main()
