#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The evaluation of the dissertation's chapter 6 as one command: every placement, estimator and way of sharing of its section
6.4, simulated by `rad simulate`, beside the published figures; then the same for the settings of this project.

Each row is run as it stands and with ten seeds, which vary the run times by up to 2 %: a cascade of placements amplifies small
differences, so a single run says little. See README.md.
"""
import argparse
import json
import math
import pathlib
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
COLUMNS = "solo_s=solo_s_a100,mem_mib=mem_mib_2025,gract=a100_gract,smact=a100_smact"
SEEDS = range(1, 11)

# Where a row says no order, nothing passes a task that does not fit (`strict`), as in the dissertation: its first come first served.
# The machine of the dissertation ran one MPS server for all its GPUs, and placed by what the driver shows.
THEIRS = ["--ledger", "off", "--mps-multi-gpu", "on"]
BLIND = ["--estimator", "none"]
NOTHING_ASKED = ["--max-smact", "off", "--max-gract", "off", "--min-free", "off"]


def row(label, options, published=None, trace=90):
    return {"label": label, "trace": trace, "options": options, "published": published or {}}


def exclusive(trace):
    return row("exclusive", ["--placement", "exclusive"], {"oom": 0, "energy_mj": 33.198} if trace == 60 else None, trace)


def oracle_rows():
    names = {"ff": "first fit (OFF)", "mug": "best fit (OBF)", "magm": "worst fit (OWF)", "lug": "least utilized (OLUG)"}
    published = {("magm", "mps"): {"shorter": 30.13}}
    yield exclusive(90)
    for share in ("mps", "streams"):
        for placement, name in names.items():
            yield row(f"{name}, {share}", ["--placement", placement, "--share", share] + THEIRS,
                      published.get((placement, share)))


def recovery_rows():
    def one(label, placement, smact, gib, published):
        limits = ["--max-smact", smact, "--min-free", gib]
        return row(label, ["--placement", placement] + BLIND + limits + THEIRS, published)
    yield exclusive(90)
    yield one("RR, no condition", "rr", "off", "off", {"oom": 8})
    yield one("MAGM, no condition", "magm", "off", "off", {"oom": 5})
    yield one("MAGM, SMACT ≤ 80 %", "magm", "0.80", "off", {"oom": 4})
    yield one("MAGM, SMACT ≤ 80 %, ≥ 2 GB", "magm", "0.80", "2", {"oom": 2})
    yield one("MAGM, SMACT ≤ 80 %, ≥ 5 GB", "magm", "0.80", "5", {"oom": 2})
    yield one("LUG, SMACT ≤ 80 %, ≥ 5 GB", "lug", "0.80", "5", {"oom": 2, "shorter": 28.0})
    yield one("MAGM, SMACT ≤ 75 %, ≥ 5 GB", "magm", "0.75", "5", {"oom": 1})
    yield one("MAGM, SMACT ≤ 85 %, ≥ 5 GB", "magm", "0.85", "5", {"oom": 2})


def estimator_rows():
    published = {("off", "horus"): {"oom": 1}, ("off", "faketensor"): {"oom": 0}, ("off", "gpumemnet"): {"oom": 1},
                 ("0.80", "horus"): {"oom": 0}, ("0.80", "faketensor"): {"oom": 0},
                 ("0.80", "gpumemnet"): {"oom": 0, "shorter": 25.0}}
    yield exclusive(90)
    for smact in ("off", "0.80"):
        for estimator in ("horus", "faketensor", "gpumemnet"):
            condition = ", SMACT ≤ 80 %" if smact != "off" else ""
            yield row(f"MAGM, {estimator}{condition}", ["--placement", "magm", "--estimator", estimator, "--slack", "0",
                      "--max-smact", smact] + THEIRS, published[smact, estimator])


def heavy_rows():
    """Tables 6.5 and 6.6. Exclusive and round robin on streams calibrated the machine's power, so they are not scored."""
    two = ["--max-smact", "0.80", "--min-free", "2"]
    yield exclusive(60)
    yield row("RR on streams, recovery", ["--placement", "rr", "--share", "streams"] + BLIND + NOTHING_ASKED + THEIRS,
              {"oom": 9, "energy_mj": 34.745}, 60)
    yield row("RR on MPS, recovery", ["--placement", "rr"] + BLIND + NOTHING_ASKED + THEIRS, {"oom": 6, "energy_mj": 29.601}, 60)
    yield row("MAGM (2 GB, 80 %), recovery", ["--placement", "magm"] + BLIND + two + THEIRS, {"oom": 4, "energy_mj": 28.781}, 60)
    yield row("LUG (2 GB, 80 %), recovery", ["--placement", "lug"] + BLIND + two + THEIRS, {"oom": 4}, 60)
    for estimator, published in (("horus", {"oom": 2, "energy_mj": 29.042}), ("faketensor", {"oom": 3, "energy_mj": 30.306}),
                                 ("gpumemnet", {"oom": 1, "energy_mj": 28.502})):
        yield row(f"MAGM, {estimator} (80 %)", ["--placement", "magm", "--estimator", estimator, "--slack", "0"] + THEIRS,
                  published, 60)


GAIN = ["--placement", "gain", "--order", "backfill"]
PLAN = ["--placement", "gain", "--order", "plan"]
KNOWN = ["--loads", "known"]
NARROW = ["--mps-multi-gpu", "off"]
OURS = {
    "magm, fifo, oracle": ["--order", "fifo"],
    "magm, backfill, oracle": ["--order", "backfill"],
    "gain, strict, oracle": ["--placement", "gain"],
    "gain, backfill, oracle": GAIN,
    "gain, backfill, gpumemnet": GAIN + ["--estimator", "gpumemnet"],
    "gain, backfill, none": GAIN + ["--estimator", "none"],
    "gain, backfill, oracle, each ran before": GAIN + KNOWN,
    "gain, backfill, oracle, slow-down ≤ 2": GAIN + ["--max-slowdown", "2"],
    "gain, plan, oracle": PLAN,
    "gain, plan, oracle, each ran before": PLAN + KNOWN,
    "gain, plan, gpumemnet, each ran before": PLAN + KNOWN + ["--estimator", "gpumemnet"],
}


def our_rows(trace):
    """This project's settings: with one MPS server for all GPUs, as radd has it, then with MPS for tasks of one GPU only."""
    yield exclusive(trace)
    for narrow in ([], NARROW):
        said = ", MPS for one GPU" if narrow else ""
        for estimator in ("oracle", "gpumemnet", "none"):
            yield row(f"magm, strict, {estimator}{said}", ["--estimator", estimator] + narrow, trace=trace)
        for name, options in OURS.items():
            yield row(f"{name}{said}", options + narrow, trace=trace)
    yield row("magm, strict, oracle, streams", ["--estimator", "oracle", "--share", "streams"], trace=trace)


SECTIONS = [
    ("6.4.1 Oracles, 90 tasks (figures 6.5, 6.6)", oracle_rows),
    ("6.4.2 Recovery only, 90 tasks (table 6.3, figures 6.7, 6.8)", recovery_rows),
    ("6.4.3 Estimators, 90 tasks (table 6.4, figures 6.9, 6.10)", estimator_rows),
    ("6.4.4, 6.4.6 The heavier 60 tasks (tables 6.5, 6.6, figures 6.11, 6.12)", heavy_rows),
    ("Settings of this project, 60 tasks", lambda: our_rows(60)),
    ("Settings of this project, 90 tasks", lambda: our_rows(90)),
]


DEVICES = HERE / "dgx-station-a100.yaml"


class Simulator:
    def __init__(self, rad, search, earlier):
        self.rad = rad
        self.search = search
        self.earlier = earlier

    def shortest_s(self, trace, workloads, columns, steps):
        """The shortest schedule that a long search with full knowledge finds; None without the program for it, where no earlier
        evaluation has it."""
        if self.earlier:
            return self.earlier[str(trace.stem)]
        if not self.search:
            return None
        command = [self.search, str(trace), str(workloads), str(DEVICES), str(steps)] + ([columns] if columns else [])
        return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)["found_s"]

    def run(self, trace, workloads, options, columns=None, seed=0):
        command = [self.rad, "simulate", "--json", "--trace", str(trace), "--workloads", str(workloads), "--devices",
                   str(DEVICES), "--seed", str(seed), "--placement", "magm", "--order",
                   "strict"] + (["--map", columns] if columns else []) + options
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            sys.exit(f"{' '.join(command)}: {done.stderr.strip()}")
        result = json.loads(done.stdout)
        del result["tasks"]
        return result


def measure(simulator, trace, workloads, options, columns):
    plain = simulator.run(trace, workloads, options, columns)
    varied = [simulator.run(trace, workloads, options, columns, seed) for seed in SEEDS]
    for key in ("trace_total_s", "oom", "energy_j", "avg_jct_s"):
        values = [v[key] for v in varied]
        plain[key + "_range"] = [min(values), statistics.median(values), max(values)]
    return plain


def gain(result, base):
    """How much shorter, and how much of what the lower bound allows, in percent; medians over the seeds."""
    own, alone = result["trace_total_s_range"][1], base["trace_total_s_range"][1]
    bound = result["lower_bound_s"]
    return {"shorter": (1 - own / alone) * 100, "of_possible": (alone - own) / (alone - bound) * 100 if alone > bound else None,
            "less_energy": (1 - result["energy_j_range"][1] / base["energy_j_range"][1]) * 100}


def number(value, digits=1):
    return "–" if value is None else f"{value:.{digits}f}"


def spread(values, scale=1.0, digits=0):
    low, middle, high = (v / scale for v in values)
    return f"{middle:.{digits}f} ({low:.{digits}f}–{high:.{digits}f})"


def table(title, rows):
    lines = [f"## {title}", "",
             "| | total, h | bound, h | shorter, % | published | of possible, % | wait, s | exec, s | JCT, s | OOM | published | MJ | "
             "published | less, % |", "|---" * 14 + "|"]
    for r in rows:
        m, p = r["result"], r["published"]
        lines.append("| " + " | ".join([
            r["label"], spread(m["trace_total_s_range"], 3600, 2), number(m["lower_bound_s"] / 3600, 2),
            number(r["gain"]["shorter"]), number(p.get("shorter"), 2) if "shorter" in p else "",
            number(r["gain"]["of_possible"], 0), number(m["avg_wait_s"], 0),
            number(m["avg_exec_s"], 0), number(m["avg_jct_s"], 0), spread(m["oom_range"]), str(p.get("oom", "")),
            spread(m["energy_j_range"], 1e6, 1), number(p["energy_mj"], 1) if "energy_mj" in p else "",
            number(r["gain"]["less_energy"])]) + " |")
    return lines + [""]


def evaluate(simulator, traces, workloads):
    sections, found = [], {}
    for trace in (60, 90):
        found[trace] = simulator.shortest_s(traces / f"philly-{trace}.csv", workloads, COLUMNS, 1000000)
    for title, make in SECTIONS:
        rows, base = [], None
        for r in make():
            r["result"] = measure(simulator, traces / f"philly-{r['trace']}.csv", workloads, r["options"], COLUMNS)
            base = base or r["result"]
            r["gain"] = gain(r["result"], base)
            rows.append(r)
        sections.append((title, rows))
    return sections, found


GENERATED = [("90 tasks, 65/27/8", ["--tasks", "90"], range(1, 6)),
             ("60 tasks, 0/83/17", ["--tasks", "60", "--mix", "medium=83,heavy=17", "--interval", "150"], range(6, 11)),
             ("90 light tasks", ["--tasks", "90", "--mix", "light=1", "--interval", "20"], range(11, 16))]
SETTINGS = [("magm", []), ("gain, backfill", GAIN), ("gain, plan, each ran before", PLAN + KNOWN),
            ("gain, backfill, MPS for one GPU", GAIN + NARROW)]


def generated(simulator, folder):
    """Traces of our own catalogue: makespan and energy against exclusive, and against the lower bound."""
    rows = []
    for label, options, seeds in GENERATED:
        for seed in seeds:
            trace = folder / f"{label} {seed}.csv".replace("/", "-")
            subprocess.run([simulator.rad, "trace", "make", "--seed", str(seed), "--output", str(trace)] + options, check=True)
            alone = simulator.run(trace, "catalogue", ["--placement", "exclusive"])
            found = simulator.shortest_s(trace, "catalogue", None, 100000)
            for name, extra in SETTINGS:
                own = simulator.run(trace, "catalogue", extra)
                rows.append({"mix": label, "seed": seed, "options": name, "exclusive_s": alone["trace_total_s"], "found_s": found,
                             "total_s": own["trace_total_s"], "lower_bound_s": own["lower_bound_s"],
                             "exclusive_j": alone["energy_j"], "energy_j": own["energy_j"], "oom": own["oom"],
                             "avg_jct_s": own["avg_jct_s"]})
            trace.unlink()
    return rows


def of_possible(r, total_s):
    return (r["exclusive_s"] - total_s) / (r["exclusive_s"] - r["lower_bound_s"]) * 100


def generated_table(rows):
    lines = ["## Generated traces", "", "Means over the seeds of each kind; all rows are in `evaluation.json`. Found: the same of the "
             "shortest schedule that a search with full", "knowledge finds.", "",
             "| traces | settings | shorter, % | of possible, % (single traces) | found, % | less energy, % | JCT, s |",
             "|---|---|---|---|---|---|---|"]
    for mix, _, _ in GENERATED:
        for name, _ in SETTINGS:
            own = [r for r in rows if r["mix"] == mix and r["options"] == name]
            possible = [of_possible(r, r["total_s"]) for r in own]
            found = [of_possible(r, r["found_s"]) for r in own if r["found_s"]]
            lines.append(f"| {mix} | {name} | {statistics.mean((1 - r['total_s'] / r['exclusive_s']) * 100 for r in own):.1f} | "
                         f"{statistics.mean(possible):.0f} ({' '.join(f'{v:.0f}' for v in possible)}) | "
                         f"{number(statistics.mean(found) if found else None, 0)} | "
                         f"{statistics.mean((1 - r['energy_j'] / r['exclusive_j']) * 100 for r in own):.1f} | "
                         f"{statistics.mean(r['avg_jct_s'] for r in own):.0f} |")
    return lines + [""]


def found_lines(sections, found):
    lines = ["## What is attainable", ""]
    for trace, found_s in found.items():
        base = next(r for _, rows in sections for r in rows if r["label"] == "exclusive" and r["trace"] == trace)["result"]
        bound = next(r for _, rows in sections for r in rows if r["label"] == "gain, plan, oracle" and r["trace"] == trace)
        if found_s:
            one = {"exclusive_s": base["trace_total_s"], "lower_bound_s": bound["result"]["lower_bound_s"]}
            lines.append(f"- {trace} tasks: the shortest schedule found by a search with full knowledge (`bench/bench_schedule.c`) takes "
                         f"{found_s / 3600:.2f} h: {of_possible(one, found_s):.0f} % of what the bound allows.")
    return lines + [""]


# The chart of what simulating costs: lines of equal GPUs, both axes logarithmic. Shapes and dashes, so that it reads in grey.
MARKS = [("", "circle"), ("6 3", "square"), ("2 3", "diamond")]


def mark(kind, x, y):
    if kind == "circle":
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4"/>'
    turn = f' transform="rotate(45 {x:.1f} {y:.1f})"' if kind == "diamond" else ""
    return f'<rect x="{x - 3.5:.1f}" y="{y - 3.5:.1f}" width="7" height="7"{turn}/>'


def cost_chart(results):
    def x(tasks):
        return 70 + 360 * (math.log10(tasks) - 3) / 2

    def y(seconds):
        return 250 - 210 * (math.log10(seconds) + 2.3) / 3.3

    out = ['<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 560 310" font-family="sans-serif" font-size="12" role="img">',
           "<title>Seconds that a simulation takes, by tasks and GPUs</title>", '<rect width="560" height="310" fill="#fff"/>']
    for seconds in (0.01, 0.1, 1, 10):
        out.append(f'<path d="M70 {y(seconds):.1f}H440" stroke="#ddd"/><text x="62" y="{y(seconds) + 4:.1f}" text-anchor="end">'
                   f"{seconds:g} s</text>")
    for tasks in (1000, 10000, 100000):
        out.append(f'<text x="{x(tasks):.1f}" y="272" text-anchor="middle">{tasks:,}</text>')
    out.append('<text x="250" y="296" text-anchor="middle">tasks</text>')
    for (dash, kind), gpus in zip(MARKS, sorted({r["gpus"] for r in results})):
        points = sorted((r["tasks"], r["took_s"]) for r in results if r["gpus"] == gpus)
        path = "L".join(f"{x(t):.1f} {y(s):.1f}" for t, s in points)
        out.append(f'<g stroke="#333" fill="#333"><path d="M{path}" fill="none" stroke-width="1.5" stroke-dasharray="{dash}"/>')
        out += [mark(kind, x(t), y(s)) for t, s in points]
        last = points[-1]
        above = any(r["tasks"] == last[0] and r["gpus"] != gpus and r["took_s"] < last[1] for r in results)
        out.append(f'<text x="{x(last[0]) + 10:.1f}" y="{y(last[1]) + (-6 if above else 14):.1f}" stroke="none">{gpus:,} GPUs</text></g>')
    return "\n".join(out + ["</svg>", ""])


def found_earlier(path):
    """What the search found, by the name of the trace. Its steps are counted, not timed: where neither traces nor the law of sharing
    changed it finds the same again."""
    old = json.loads(path.read_text(encoding="utf-8"))
    found = {f"philly-{trace}": found_s for trace, found_s in old["found_s"].items()}
    return {**found, **{f"{r['mix']} {r['seed']}".replace("/", "-"): r["found_s"] for r in old["generated"]}}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--rad", default="rad", help="the command to evaluate")
    parser.add_argument("--traces", type=pathlib.Path, help="folder of philly-60.csv and philly-90.csv")
    parser.add_argument("--workloads", type=pathlib.Path, help="CSV of their workloads")
    parser.add_argument("--out", required=True, type=pathlib.Path, help="folder for evaluation.json, evaluation.md and cost.svg")
    parser.add_argument("--search", help="bench-schedule, to look for what is attainable; takes some ten minutes")
    parser.add_argument("--found", type=pathlib.Path, metavar="FILE", help="an earlier evaluation.json, in place of searching again")
    parser.add_argument("--chart", action="store_true", help="only draw cost.svg from cost.json in the folder of --out")
    arguments = parser.parse_args()
    costs = json.loads((arguments.out / "cost.json").read_text(encoding="utf-8"))["results"]
    (arguments.out / "cost.svg").write_text(cost_chart(costs), encoding="utf-8")
    if arguments.chart:
        return
    simulator = Simulator(arguments.rad, arguments.search, found_earlier(arguments.found) if arguments.found else None)
    sections, found = evaluate(simulator, arguments.traces, arguments.workloads)
    made = generated(simulator, arguments.out)
    lines = ["# The evaluation of chapter 6, simulated", "",
             "Made by `bench/evaluation/evaluate.py`; what the columns mean and where the figures differ from the published ones, and",
             "why: `bench/evaluation/README.md`. Totals, out-of-memory crashes and energies: median (smallest–largest) of ten seeds;",
             "other times: of the run without variation. Published figures where text or tables give one.", ""]
    for title, rows in sections:
        lines += table(title, rows)
    lines += found_lines(sections, found) + generated_table(made)
    (arguments.out / "evaluation.md").write_text("\n".join(lines), encoding="utf-8")
    (arguments.out / "evaluation.json").write_text(json.dumps(
        {"schema": 1, "found_s": found, "sections": [{"title": t, "rows": r} for t, r in sections], "generated": made}, indent=1) + "\n",
        encoding="utf-8")


if __name__ == "__main__":
    main()
