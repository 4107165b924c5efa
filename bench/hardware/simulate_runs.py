#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Every run of run_first.py in doc/results beside what today's simulator makes of it, from what was known before:

    bench/hardware/simulate_runs.py --rad build/rad [--page doc/results/simulation/runs.md] [--only h100/alone]

A task does what it did alone: in run-exclusive.json of the same folder, or of another (FOLDERS). Known before are nothing (`--estimator
none`), its memory, what a capture tells (`--loads guessed`), or what it did alone (`--loads known`), by what the run brought; a second time
is a trace that holds the tasks twice. Runs in which nothing was known of loads are left out: all were measured before decision 258,
since which such tasks start otherwise. Settings are those of the run, `settle` too. Medians of the throws. Once more with
the starts that tasks had in that run: beside others a start takes longer than alone, which no simulation knows.
"""
import argparse
import itertools
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import pages
import simulate_policies
from run_first import CAPTURE, MAGM, MEMORY, PLACE, RUNS, starts
from table import read

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Folder, and where its tasks were alone. `settle` was 30 until decision 205, and `magm` and `fifo` the defaults until 163.
FOLDERS = {"h200/first": "h200/first", "h200/users": "h200/users", "h100/short": "h100/short", "h200/places": "h200/places",
           "h100/first": "h100/first", "h100/users": "h100/first", "h100/minutes": "h100/minutes", "h100/alone": "h100/alone"}
BEFORE_205 = {"h200/first"}
LATER_S = 100000  # until the second time, when the first is long over
HEADS = ["folder", "run", "total, s", "simulated, s", "throws", "error", "with its starts", "mean JCT, s", "simulated, s", "error"]


def known_before(run):
    """Options of rad simulate."""
    if run.after == "exclusive":
        return ["--loads", "known"]
    return {CAPTURE: ["--loads", "guessed"], MEMORY: []}.get(run.brings, ["--estimator", "none"])


def knew_loads(run):
    return "--loads" in known_before(run) or run.after


def settings(folder, name, result):
    config = (MAGM if name.startswith("magm") else "") + ("settle: 30\n" if folder in BEFORE_205 else "") + result["config"]
    return dict(line.split(": ") for line in config.splitlines() if line)


def write_trace(path, names, times):
    path.write_text("submit_s,workload\n" + "".join(f"{LATER_S * k},{n}\n" for k in range(times) for n in names))


def simulated(rad, folder, options, times, throws):
    """[(total, mean JCT)] of the last time, one a throw."""
    for seed in range(1, throws + 1):
        done = subprocess.run([rad, "simulate", "--json", "--trace", folder / "trace.csv", "--workloads",
                               folder / "workloads.csv", "--devices",
                               folder / "devices.yaml", "--seed", str(seed), *options], capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"simulate_runs.py: {done.stderr.strip()}")
        result = json.loads(done.stdout)
        last = result["tasks"][-(len(result["tasks"]) // times):]
        yield (max(t["end_s"] for t in last) - LATER_S * (times - 1), statistics.mean(t["end_s"] - t["submit_s"] for t in last))


def with_starts(known, starts):
    """The same tasks with other starts."""
    return {name: {**w, "solo_s": w["solo_s"] + starts[name] - w["start_s"], "start_s": starts[name]} for name, w in known.items()}


def simulate_run(rad, root, folder, result, throws):
    """What simulated() says of it, and of the same with the starts of the run."""
    name = result["policy"]
    run = RUNS[name]
    times = 2 if run.after and run.after != "exclusive" else 1
    base = json.loads(read(root / FOLDERS[folder] / "run-exclusive.json.gz"))
    known = simulate_policies.alone(base)
    sets = itertools.chain.from_iterable(["--set", f"{k}={v}"] for k, v in settings(folder, name, result).items())
    options, found = [*known_before(run), *sets], []
    for tasks in (known, with_starts(known, starts(result))):
        with tempfile.TemporaryDirectory() as held:
            held = pathlib.Path(held)
            simulate_policies.write_inputs(held, tasks, {**base, "gpus_before": {"gpus": base["gpus_before"]["gpus"][:result["gpus"]]}})
            write_trace(held / "trace.csv", [t["name"] for t in result["tasks"]], times)
            found.append(list(simulated(rad, held, options, times, throws)))
    return found


def rows(rad, root, throws, only=None):
    for folder in [only] if only else FOLDERS:
        for path in sorted((root / folder).glob("run-*.json*")):
            result = json.loads(read(path))
            run = RUNS[result["policy"]]
            if "metrics" in result and result["policy"] != "exclusive" and run.brings != PLACE and knew_loads(run):
                yield folder, path.name.split(".")[0][4:], result["metrics"], *simulate_run(rad, root, folder, result, throws)


def table(found):
    def off(made, measured):
        return f"{made / measured - 1:+.0%}".replace("%", " %")

    def one(folder, name, m, throws, own):
        totals, means = zip(*throws)
        total, mean, measured = statistics.median(totals), statistics.median(means), m["trace_total_s"]
        return [folder, name, f"{measured:.0f}", f"{total:.0f}", f"{min(totals):.0f} to {max(totals):.0f}", off(total, measured),
                off(statistics.median(t for t, _ in own), measured), f"{m['avg_jct_s']:.0f}", f"{mean:.0f}", off(mean, m["avg_jct_s"])]
    return pages.table(HEADS, [one(*f) for f in found])


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--rad", required=True, help="the rad command")
    p.add_argument("--only", choices=FOLDERS, help="the runs of one folder")
    p.add_argument("--throws", type=int, default=3)
    p.add_argument("--page", type=pathlib.Path, help="fill its table")
    args = p.parse_args()
    made = table(rows(args.rad, ROOT / "doc/results", args.throws, args.only))
    print(made)
    if args.page:
        pages.fill(args.page, {"runs": made})


if __name__ == "__main__":
    main()
