#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A cluster run in the ways that a site with Slurm has, simulated by `rad simulate` on traces like Philly's (`rad trace make --like
philly`), at several loads: makes the traces, runs every way on them, and writes runs.json, the tables of README.md between their
marks, and cluster.svg. What is modelled and what is not stands in that README.

    bench/evaluation/cluster.py --rad build/rad --out doc/results/cluster [--seeds 3] [--jobs 100000] [--nodes 512]
    bench/evaluation/cluster.py --again doc/results/cluster       # tables and picture from runs.json, without a run
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "hardware"))
import pages  # noqa: E402
import svg  # noqa: E402

GPUS = 8		# a node
MEAN_GPU_S = 25270	# alone, of a job of these traces: mean over seeds 1 to 3
LOADS = (0.8, 1.2)
SCALE = 2048		# nodes of the runs that show what simulating costs
CPUS = ["--cpus-per-node", "256", "--cpus-per-gpu", "8"]
MPS = ["--shard-share", "mps", "--shard-gpu", "least"]
PLACES = ["--placement", "magm", "--order", "fifo"]  # where radds place: plans of 512 nodes would take hours to simulate

# Name and options.
WAYS = [
    ("whole GPUs", ["--cluster", "whole"]),
    ("shards, declared", ["--cluster", "shard-declared"]),
    ("shards, estimated", ["--cluster", "shard-estimated"]),
    ("shards, declared, MPS", ["--cluster", "shard-declared", *MPS]),
    ("shards, estimated, MPS", ["--cluster", "shard-estimated", *MPS]),
    ("shards, declared, MPS, CR_LLN", ["--cluster", "shard-declared", *MPS, "--nodes", "spread"]),
    ("node places, CR_LLN", ["--cluster", "node", "--nodes", "spread"]),
]
# On a smaller cluster, what settings of it come to.
SMALL = 64
VARIANTS = [
    ("whole GPUs", ["--cluster", "whole"]),
    ("CR_LLN", ["--cluster", "node", "--nodes", "spread"]),
    ("CR_LLN, `gain` and `backfill`", ["--cluster", "node", "--nodes", "spread", "--placement", "gain", "--order", "backfill"]),
    ("CR_LLN, `gain` and `plan`, as shipped", ["--cluster", "node", "--nodes", "spread", "--placement", "gain", "--order", "plan"]),
    ("first node that fits", ["--cluster", "node"]),
    ("CR_LLN, radd is waited for 10 min", ["--cluster", "node", "--nodes", "spread", "--node-wait", "600"]),
    ("CR_LLN, requeue after 5 s", ["--cluster", "node", "--nodes", "spread", "--requeue-delay", "5"]),
    ("CR_LLN, jobs of several GPUs alone", ["--cluster", "node", "--nodes", "spread", "--wide", "alone"]),
    ("CR_LLN, loads known", ["--cluster", "node", "--nodes", "spread", "--loads", "known"]),
    ("CR_LLN, true memory known", ["--cluster", "node", "--nodes", "spread", "--estimator", "oracle"]),
]


def make_trace(rad, folder, load, nodes, jobs, seed):
    path = folder / f"philly-{load}-{nodes}-{seed}.csv"
    interval = MEAN_GPU_S / (nodes * GPUS * load)
    subprocess.run([rad, "trace", "make", "--like", "philly", "--tasks", str(jobs), "--interval", f"{interval:.3f}", "--seed", str(seed),
                    "-o", str(path)], check=True)
    return path


def simulate(rad, trace, nodes, options):
    """The result, with the CPU seconds and the memory that it took."""
    command = [rad, "simulate", "--devices", f"{nodes}x{GPUS}xa100-40g", "--trace", str(trace), "--json", *CPUS, *PLACES, *options]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    out = child.stdout.read()
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        sys.exit(f"{' '.join(command)}: exit {child.returncode}")
    result = json.loads(out)
    result.update(cpu_s=round(usage.ru_utime + usage.ru_stime, 2), peak_rss_mib=usage.ru_maxrss // 1024)
    return result


def run_all(rad, seeds, jobs, nodes, keep):
    """Calls keep with all runs so far after each."""
    runs = []
    todo = [(nodes, jobs, load, seed, WAYS) for seed in range(1, seeds + 1) for load in LOADS]
    todo += [(SCALE, jobs, load, 1, WAYS) for load in LOADS]
    todo += [(SMALL, jobs * SMALL // nodes, load, seed, VARIANTS) for seed in range(1, seeds + 1) for load in LOADS]
    with tempfile.TemporaryDirectory() as folder:
        for n, count, load, seed, ways in todo:
            trace = make_trace(rad, pathlib.Path(folder), load, n, count, seed)
            for name, options in ways:
                result = simulate(rad, trace, n, options)
                runs.append({"way": name, "options": options, "load": load, "nodes": n, "seed": seed, "result": result})
                keep(runs)
                print(f"{n} nodes, load {load}, seed {seed}, {name}: {result['cpu_s']} s", file=sys.stderr, flush=True)
            trace.unlink()
    return runs


def values(runs, way, load, nodes, key):
    return [r["result"][key] for r in runs if (r["way"], r["load"], r["nodes"]) == (way, load, nodes)]


def mean(runs, way, load, nodes, key):
    return statistics.mean(values(runs, way, load, nodes, key))


def clock(seconds):
    """1:05 h, 12 min, 7 s."""
    if seconds >= 5400:
        return f"{seconds / 3600:.1f} h"
    return f"{seconds / 60:.0f} min" if seconds >= 90 else f"{seconds:.0f} s"


def table(runs, load, nodes, ways):
    lines = ["| | wait, mean | median | 95 % | completion, mean | median | 95 % | GPU-hours in use | makespan | energy | OOMs | sent back "
             "| past limit |", "|---|" + "---|" * 12]
    base = mean(runs, "whole GPUs", load, nodes, "avg_jct_s")
    for name, _ in ways:
        if not values(runs, name, load, nodes, "oom"):  # stopped before it came to that
            continue
        of = lambda key: mean(runs, name, load, nodes, key)
        change = "" if name == "whole GPUs" else f" ({(of('avg_jct_s') / base - 1) * 100:+.0f} %)"
        lines.append(f"| {name} | " + " | ".join([clock(of(k)) for k in ("avg_wait_s", "p50_wait_s", "p95_wait_s")] + [
            clock(of("avg_jct_s")) + change, clock(of("p50_jct_s")), clock(of("p95_jct_s")), f"{of('gpu_hours'):,.0f}",
            f"{of('trace_total_s') / 3600:.0f} h", f"{of('energy_j') / 3.6e9:.0f} MWh", f"{of('oom'):,.0f}", f"{of('sent_back'):,.0f}",
            f"{of('past_limit'):,.0f}"]) + " |")
    return lines


def cost_table(runs, nodes):
    lines = ["| 100,000 jobs | " + " | ".join(f"{n * GPUS:,} GPUs, load {load}" for n in (nodes, SCALE) for load in LOADS) + " |",
             "|---|" + "---|" * (2 * len(LOADS))]
    for name, _ in WAYS:
        cells = []
        for n in (nodes, SCALE):
            for load in LOADS:
                known = values(runs, name, load, n, "cpu_s")
                cells.append(f"{statistics.mean(known):.1f} s, {max(values(runs, name, load, n, 'peak_rss_mib'))} MiB" if known else "")
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return lines


def spread(runs, nodes):
    """How far single traces are from their mean, of mean completion times."""
    far = 0.0
    for name, _ in WAYS:
        for load in LOADS:
            known = values(runs, name, load, nodes, "avg_jct_s")
            far = max(far, (max(known) - min(known)) / 2 / statistics.mean(known))
    return far


def picture(runs, nodes):
    parts, y = [], 8
    for load in LOADS:
        for key, title, unit_s, digits in (("avg_jct_s", "mean completion time, hours", 3600, 2),
                                           ("avg_wait_s", "of it waiting, minutes", 60, 1)):
            rows = []
            for name, _ in WAYS:
                known = [v / unit_s for v in values(runs, name, load, nodes, key)]
                rows.append((name, statistics.mean(known), (max(known) - min(known)) / 2))
            panel, high = svg.bars(70, y, 700, f"Load {load}: {title}", rows, f"{{:.{digits}f}}".format)
            parts += panel
            y += high + 10
    return svg.document(780, y, parts, "A cluster of 4,096 GPUs, run in several ways")


def write(folder, runs, nodes):
    page = folder / "README.md"
    made = {"cost": cost_table(runs, nodes)}
    for load in LOADS:
        made |= {f"load {load}": table(runs, load, nodes, WAYS), f"settings, load {load}": table(runs, load, SMALL, VARIANTS)}
    if page.exists():
        pages.fill(page, {name: "\n".join(lines) for name, lines in made.items()})
    (folder / "cluster.svg").write_text(picture(runs, nodes))
    print(f"single traces are at most {spread(runs, nodes):.0%} from the mean completion times")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rad", help="the program")
    parser.add_argument("--out", type=pathlib.Path, help="folder of runs.json, README.md and cluster.svg")
    parser.add_argument("--again", type=pathlib.Path, help="only tables and picture, from the runs there")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=100000)
    parser.add_argument("--nodes", type=int, default=512)
    options = parser.parse_args()
    if options.again:
        kept = json.loads((options.again / "runs.json").read_text())
        write(options.again, kept["runs"], kept["nodes"])
        return
    if not options.rad or not options.out:
        parser.error("needs --rad and --out, or --again")
    options.out.mkdir(parents=True, exist_ok=True)
    kept = {"schema": 1, "jobs": options.jobs, "nodes": options.nodes, "gpus_per_node": GPUS, "cpus": CPUS}

    def keep(runs):
        (options.out / "runs.json").write_text(json.dumps(kept | {"runs": runs}, indent=1) + "\n")

    write(options.out, run_all(options.rad, options.seeds, options.jobs, options.nodes, keep), options.nodes)


if __name__ == "__main__":
    main()
