#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""How well src/share/infer finds what tasks do alone, from what a GPU showed of mixes: run_mixes.py's measurements.

    python3 score_infer.py mixes.jsonl... --infer build/bench/bench-infer [--mixes held|fitted|all]

Only mixes of 2 to 4 tasks that no fit saw are scored (every other one of each size, as in score_mixes.py). Of each mix each
task is asked for in turn, by what was known of the others:
    known     they were measured alone: one equation in one unknown
    nothing   of nobody anything is known
    guessed   of everybody a guess, off by 0.15 (normal, seeded), as a capture may give one
with one, two or three spans: mixes in which the task takes part, the others coming and going. Lines with "chain" are spans
in the order in which they were measured, with nobody known; each task is asked for at the chain's end.
"""
import argparse
import collections
import json
import random
import statistics
import subprocess
import sys

from score_mixes import halves, quantile, read_lines

GUESS_SD = 0.15
HEAD = ("| mode | of the others | spans | asked | SMACT: median error | p90 | within 2 sd | GRACT: median error | p90 | DRAM: "
        "median error |\n"
        "|---|---|---|---|---|---|---|---|---|---|")


def read(paths):
    """By mode: (loads alone as means of all measurements, mixes as (members, loads), chains as lists of such)."""
    alone = collections.defaultdict(lambda: collections.defaultdict(list))
    mixes, chains = collections.defaultdict(list), collections.defaultdict(lambda: collections.defaultdict(list))
    for path in paths:
        for line in read_lines(path):
            if line.get("smact") is not None and "alone" in line:
                alone[line["mode"]][line["alone"]].append([line.get(k) for k in ("gract", "smact", "dram")])
            elif "mix" in line and line.get("loads", {}).get("smact") is not None:  # not those on few cores ("narrow")
                entry = (line["members"], line["loads"], line["loads"].get("seconds", 2.0))
                if line.get("chain") is not None:
                    chains[line["mode"]][path, line["chain"]].append(entry)
                else:
                    mixes[line["mode"]].append(entry)
    for mode, of in alone.items():
        loads = {name: [statistics.fmean(v) for v in zip(*seen)] for name, seen in of.items()}
        yield mode, loads, mixes[mode], list(chains[mode].values())


class Asker:
    """Writes a script for bench-infer; answers come in the order of the questions."""
    def __init__(self, rng):
        self.script, self.truth, self.rng = [], [], rng

    def join(self, number, load, knowledge):
        if knowledge == "known":
            self.script.append(f"join {number} {load[0]:.4f} {load[1]:.4f} 0.03 3")
        elif knowledge == "guessed":
            off = [min(max(v + self.rng.gauss(0, GUESS_SD), 0.01), 1) for v in load[:2]]
            self.script.append(f"join {number} {max(off):.4f} {off[1]:.4f} {GUESS_SD} 1")
        else:
            self.script.append(f"join {number}")

    def span(self, mode, seen, seconds):
        figures = [f"{seen[k]:.4f}" if seen.get(k) is not None else "nan" for k in ("gract", "smact", "dram")]
        self.script.append(f"span {mode} {' '.join(figures)} {seconds}")

    def tell(self, number, load):
        self.script.append(f"tell {number}")
        self.truth.append(load)

    def answers(self, program):
        out = subprocess.run([program], input="\n".join(self.script) + "\n", check=True, capture_output=True, text=True).stdout
        return list(zip(self.truth, map(json.loads, out.splitlines())))


def ask_spans(asker, mode, loads, name, spans, knowledge):
    """One task stays, the others come and go."""
    asker.script.append("new")
    asker.join(0, loads[name], "guessed" if knowledge == "guessed" else "nothing")
    number, here = 1, []
    for members, seen, seconds in spans:
        others = list(members)
        others.remove(name)
        new = range(number, number + len(others))
        for k, other in zip(new, others):
            asker.join(k, loads[other], knowledge)
        asker.script += [f"leave {k}" for k in here]
        asker.span(mode, seen, seconds)
        number, here = number + len(others), list(new)
    asker.tell(0, loads[name])


def ask_chain(asker, mode, loads, chain):
    """Who is in the next span and was in the last one has stayed."""
    numbers, number = {}, 0
    asker.script.append("new")
    for members, seen, seconds in chain:
        for name in members:
            if name not in numbers:
                numbers[name] = number
                asker.join(number, loads[name], "nothing")
                number += 1
        asker.script += [f"leave {n}" for name, n in numbers.items() if name not in members and f"leave {n}" not in asker.script]
        asker.span(mode, seen, seconds)
    for name, n in numbers.items():
        asker.tell(n, loads[name])


def row(mode, knowledge, spans, pairs):
    def off(field, key):
        return sorted(abs(said[key] - truth[field]) for truth, said in pairs)
    gract, smact, dram = off(0, "gract"), off(1, "smact"), off(2, "dram")
    within = statistics.fmean(abs(said["smact"] - truth[1]) <= 2 * said["smact_sd"] for truth, said in pairs)
    return (f"| {mode} | {knowledge} | {spans} | {len(pairs)} | {statistics.median(smact):.3f} | {quantile(smact, 0.9):.3f} "
            f"| {within:.0%} | {statistics.median(gract):.3f} | {quantile(gract, 0.9):.3f} | {statistics.median(dram):.3f} |")


def score(mode, loads, mixes, chains, program, which):
    held = mixes if which == "all" else halves(mixes)[which == "held"]
    held = [m for m in held if len(m[0]) <= 4 and all(name in loads for name in m[0])]
    for knowledge in ("known", "guessed", "nothing"):
        for spans in (1, 2, 3):
            asker = Asker(random.Random(1))
            for at, mix in enumerate(held):
                for name in sorted(set(mix[0])):
                    later = [m for m in held[at + 1:] + held[:at] if name in m[0]][:spans - 1]
                    if len(later) == spans - 1:
                        ask_spans(asker, mode, loads, name, [mix, *later], knowledge)
            if asker.truth:
                yield row(mode, knowledge, spans, asker.answers(program))
    asker = Asker(random.Random(1))
    parts = []
    for chain in chains:
        one = Asker(random.Random(1))
        ask_chain(one, mode, loads, chain)
        parts.append(one)
    for one in parts:
        asker.script += one.script
        asker.truth += one.truth
    if asker.truth:
        yield row(mode, "nothing", "chains", asker.answers(program))


def main():
    p = argparse.ArgumentParser(description="Score src/share/infer against measured mixes.")
    p.add_argument("files", nargs="+", metavar="FILE", help="what run_mixes.py wrote")
    p.add_argument("--infer", required=True, metavar="PATH", help="the program bench-infer")
    p.add_argument("--mixes", choices=["held", "fitted", "all"], default="held", help="which half of the mixes; all: of files on "
                   "which nothing was fitted")
    args = p.parse_args()
    rows = [r for mode, *data in read(args.files) for r in score(mode, *data, args.infer, args.mixes)]
    if not rows:
        sys.exit("score_infer.py: nothing to score: no mix with loads of the GPU")
    print("\n".join([HEAD, *rows]))


if __name__ == "__main__":
    main()
