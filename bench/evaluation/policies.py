#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compares settings on 20 generated traces, each run with several throws of run times:

    policies.py --rad build/rad [--seeds 121-125] [--throws 12] [--known learnt|guessed|known] [--lines] [--json F]

Prints how much of what the lower bound allows each reaches, the median of the throws, and on how many traces it is more than 2 points below
the first. How much of that is chance says the first itself, run again with as many other throws: on each trace it differs from itself by so
much, and only what a setting is below by more than 2 points on top of that is its own doing. A plan takes a second or two a
run. Seeds 101 to 120 are for choosing, others for scoring, once.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import tempfile

DEVICES = pathlib.Path(__file__).resolve().parent / "dgx-station-a100.yaml"
KINDS = {"mixed": ["--tasks", "90"], "heavy": ["--tasks", "60", "--mix", "medium=83,heavy=17", "--interval", "150"],
         "light": ["--tasks", "90", "--mix", "light=1", "--interval", "20"], "burst": ["--tasks", "60", "--interval", "1"]}
SETTINGS = {"magm, fifo": ["--placement", "magm", "--order", "fifo"], "gain, backfill": ["--placement", "gain", "--order", "backfill"],
            "gain, plan": ["--placement", "gain", "--order", "plan"]}
FIRST = next(iter(SETTINGS))
AGAIN = f"{FIRST}, again"
ALONE = ["--placement", "exclusive", "--order", "fifo"]  # the yardstick: it stays what it is where defaults change
BELOW = 2.0  # points


def seed_of(kind, seed, throw):
    """Of a throw on that trace: another on each, so that what captures are off by (--known guessed) is not the same on all of them."""
    return (list(KINDS).index(kind) * 10000 + seed) * 100 + throw


def simulate(rad, trace, throw, options):
    done = subprocess.run([rad, "simulate", "--json", "--trace", trace, "--workloads", "catalogue", "--devices", str(DEVICES), "--seed",
                           str(throw)] + options, capture_output=True, text=True, check=True)
    result = json.loads(done.stdout)
    return {key: result[key] for key in ("trace_total_s", "lower_bound_s", "energy_j", "avg_jct_s")}


def of_possible(alone, own):
    """Points: of the medians of throws."""
    before, after = (statistics.median(r["trace_total_s"] for r in runs) for runs in (alone, own))
    return 100 * (before - after) / (before - own[0]["lower_bound_s"])


def measure(rad, seeds, throws, extra):
    """{trace: {setting: [a run a throw]}}, with what it takes one task a GPU as `exclusive`, and the first setting with other throws."""
    found = {}
    runs = {"exclusive": (ALONE, 1), **{n: (o + extra, 1) for n, o in SETTINGS.items()},
            AGAIN: (SETTINGS[FIRST] + extra, throws + 1)}
    with tempfile.TemporaryDirectory() as folder:
        for kind, options in KINDS.items():
            for seed in seeds:
                trace = f"{folder}/{kind}-{seed}.csv"
                subprocess.run([rad, "trace", "make", "--seed", str(seed), "--output", trace] + options, check=True)
                found[f"{kind} {seed}"] = {
                    name: [simulate(rad, trace, seed_of(kind, seed, throw), how) for throw in range(begin, begin + throws)]
                    for name, (how, begin) in runs.items()}
    return found


def rows(found):
    names = [*SETTINGS, AGAIN]
    points = {trace: {name: of_possible(runs["exclusive"], runs[name]) for name in names} for trace, runs in found.items()}
    chance = {trace: abs(own[FIRST] - own[AGAIN]) for trace, own in points.items()}
    worse = {name: {trace: own[FIRST] - own[name] for trace, own in points.items()} for name in names}
    yield ["", *names]
    for trace, own in points.items():
        yield [trace, *(f"{own[name]:.1f}" for name in names)]
    yield ["mean", *(f"{statistics.mean(own[name] for own in points.values()):.1f}" for name in names)]
    yield [f"more than {BELOW:g} below", *(str(sum(w > BELOW for w in worse[name].values())) for name in names)]
    yield ["beyond chance", *(str(sum(w > BELOW + chance[trace] for trace, w in worse[name].items())) for name in names)]
    yield ["worst", *(f"{max(worse[name].values()):.1f}" for name in names)]


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    p.add_argument("--rad", default="rad")
    p.add_argument("--seeds", default="121-125", metavar="A-B")
    p.add_argument("--throws", type=int, default=12)
    p.add_argument("--known", choices=["learnt", "guessed", "known"], default="learnt")
    p.add_argument("--lines", action="store_true", help="tasks print how far they are")
    p.add_argument("--json", type=pathlib.Path)
    args = p.parse_args()
    low, high = map(int, args.seeds.split("-"))
    extra = ["--loads", args.known] + (["--progress-lines", "yes"] if args.lines else [])
    found = measure(args.rad, range(low, high + 1), args.throws, extra)
    for row in rows(found):
        print("| " + " | ".join(row) + " |")
    if args.json:
        args.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
