#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What the simulator makes of the tasks that `run_policies.py --check` ran, from what was known before: each task alone.

    bench/hardware/simulate_policies.py --rad build/rad results        # policy-*.json in there

The policy `exclusive` ran every task alone: that is what is known of each (time, start, memory, GRACT, SMACT, watts). From it
`rad simulate` runs every policy again, with the settings that radd had. captures.json, where the folder has one ({task: what `rad
estimate --capture` says of it}), tells with how much less than it takes a task still works; else it is taken to need it all.
Prints time, energy and placements of both, and writes simulated.html into the folder, which shows the runs side by side, and
simulated.svg.
"""
import argparse
import itertools
import json
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import gantt
import pages
from run_policies import POLICIES, mean, seconds_of
from table import ORDER, read

MODELS = {"NVIDIA H200": "h200-141g", "NVIDIA H100 80GB HBM3": "h100-80g", "NVIDIA A100-SXM4-40GB": "a100-40g",
          "NVIDIA A100-SXM4-80GB": "a100-80g"}
END_S = 1.0  # at its end a task no longer computes; of the samples of a second, the last is left out


class Gpus:
    """The GPUs of a result, and what was read of them."""
    def __init__(self, result):
        self.list = result["gpus_before"]["gpus"]
        self.index = {g["uuid"]: n for n, g in enumerate(self.list)}
        self.samples = [s for s in result["samples"] if "error" not in s]

    def of(self, attempt):
        return tuple(sorted(self.index[uuid] for uuid in attempt["gpus"]))

    def readings(self, gpu, begin, end):
        """Of one GPU between two times."""
        return [s["each"][gpu] if "each" in s else s for s in self.samples if begin <= s["t"] <= end]

    def idle_w(self):
        return min(r["power_w"] for n in range(len(self.list)) for r in self.readings(n, 0, 1e18))


def start_of(attempt, summary):
    """Seconds that an attempt took before it trained: what train.py does not count as training, with its first step."""
    run_s = seconds_of(attempt["end"]) - seconds_of(attempt["start"])
    return max(0.0, run_s - summary["seconds"] + summary["first_step_s"]) if summary and "first_step_s" in summary else 0.0


def alone(result):
    """{name: what one run alone tells}."""
    gpus, out = Gpus(result), {}
    for t in result["tasks"]:
        attempt = t["attempts"][-1]
        begin, end = seconds_of(attempt["start"]), seconds_of(attempt["end"])
        start_s = start_of(attempt, (result.get("summary") or {}).get(t["name"]))
        seen = [r for n in gpus.of(attempt) for r in gpus.readings(n, begin + start_s + END_S, end - END_S)]
        known = {k: mean(r[k] for r in seen) for k in ("gract", "smact", "power_w")}
        if None in (known["gract"], known["smact"]):
            sys.exit(f"simulate_policies.py: {t['name']} ran too shortly to be seen: {end - begin:.1f} s, {start_s:.1f} s of them start")
        out[t["name"]] = {"gpus": t["gpus_requested"], "solo_s": round(end - begin, 3), "start_s": round(start_s, 3),
                          "mem_mib": attempt["peak_mib"], "gract": min(1, known["gract"]), "smact": min(1, known["smact"]),
                          "watts": known["power_w"] or ""}
    return out


def declared_of(result):
    """What the first attempts claimed: in policies whose tasks declare their memory that is what their users said."""
    return {t["name"]: t["attempts"][0]["claim_mib"] for t in result["tasks"]}


def add_needs(known, captures):
    """What PyTorch's allocator keeps and would give back before it gives up, by the replay of a capture."""
    for name, c in captures.items():
        if name in known:
            known[name]["need_mib"] = known[name]["mem_mib"] - max(0, c["comfort_mib"] - c["need_mib"])


def write_inputs(folder, known, result):
    declares = POLICIES[result["policy"]][2]
    declared = declared_of(result) if declares else {}
    columns = ["workload", "gpus", "solo_s", "start_s", "mem_mib", "need_mib", "gract", "smact", "watts", "declared_mib"]
    rows = [[name, *(w.get(c, "") for c in columns[1:-1]), declared.get(name) or ""] for name, w in known.items()]
    csv = "\n".join(",".join(map(str, r)) for r in [columns, *rows]) + "\n"
    (folder / "workloads.csv").write_text(csv)
    first = min(seconds_of(t["submit_time"]) for t in result["tasks"])
    order = sorted(result["tasks"], key=lambda t: seconds_of(t["submit_time"]))
    (folder / "trace.csv").write_text("submit_s,workload\n" + "".join(
        f"{seconds_of(t['submit_time']) - first:.3f},{t['name']}\n" for t in order))
    (folder / "rad.yaml").write_text("order: fifo\n" + result["config"])  # the default when it was measured; a later line counts
    gpus = Gpus(result)
    (folder / "devices.yaml").write_text("devices:\n" + "".join(
        f"  - model: {MODELS[g['name']]}\n    idle_w: {gpus.idle_w():.1f}\n" for g in gpus.list))
    return order


def simulate(rad, known, result):
    """(the result of rad simulate, its report)."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        order = write_inputs(folder, known, result)
        more = ["--loads", "known"] if result.get("learnt") else []
        if not POLICIES[result["policy"]][2]:
            more += ["--estimator", "none"]
        command = [rad, "simulate", "--trace", folder / "trace.csv", "--workloads", folder / "workloads.csv", "--devices",
                   folder / "devices.yaml", "--config", folder / "rad.yaml", "--json", "--report", folder / "report.json", *more]
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"simulate_policies.py: {result['policy']}: {done.stderr.strip()}")
        return json.loads(done.stdout), json.loads((folder / "report.json").read_text()), [t["name"] for t in order]


def measured_spans(result):
    """[(name, gpus, start, end, verdict)] of every attempt, in seconds from the first submission."""
    gpus, first = Gpus(result), min(seconds_of(t["submit_time"]) for t in result["tasks"])
    return [(t["name"], gpus.of(a), seconds_of(a["start"]) - first, seconds_of(a["end"]) - first, a["verdict"])
            for t in result["tasks"] for a in t["attempts"] if a["end"]]


def simulated_spans(simulated, names):
    origin = min(seconds_of(t["submit_time"]) for t in simulated["tasks"]) if "submit_time" in simulated["tasks"][0] else None

    def when(text):
        return seconds_of(text) - origin if isinstance(text, str) else text
    return [(name, tuple(sorted(a["gpus"])), when(a.get("start", a.get("start_s"))), when(a.get("end", a.get("end_s"))), a["verdict"])
            for name, t in zip(names, simulated["tasks"]) for a in t["attempts"]]


def firsts(spans):
    """{name: its first span}."""
    out = {}
    for span in sorted(spans, key=lambda s: s[2]):
        out.setdefault(span[0], span)
    return out


def beside(spans):
    """The pairs that were on one GPU at one time, for most of the time of the one that had less."""
    pairs = set()
    for a, b in itertools.combinations(spans, 2):
        both = min(a[3], b[3]) - max(a[2], b[2])
        if set(a[1]) & set(b[1]) and both > 0.5 * min(a[3] - a[2], b[3] - b[2]):
            pairs.add(frozenset((a[0], b[0])))
    return pairs


def placements(measured, simulated):
    """How alike they are: {same_gpu: tasks whose first attempt went to the same GPUs, with the GPUs named as fits best; start_s:
    mean difference of their starts; pairs: of those that ran side by side in either, the part that did in both}."""
    real, made = firsts(measured), firsts(simulated)
    gpus = sorted({g for s in measured + simulated for g in s[1]})
    best = max(sum(tuple(sorted(turn[g] for g in made[n][1])) == real[n][1] for n in real if n in made)
               for turn in (dict(zip(gpus, p)) for p in itertools.islice(itertools.permutations(gpus), 5040)))
    a, b = beside(measured), beside(simulated)
    return {"same_gpu": best, "tasks": len(real), "start_s": mean(abs(real[n][2] - made[n][2]) for n in real if n in made),
            "pairs": len(a & b) / len(a | b) if a | b else 1.0}


def compare(rad, folder):
    """One dict a policy, and the reports of both to be laid side by side."""
    results = [json.loads(read(p)) for p in sorted(folder.glob("policy-*.json*"))]
    results = sorted((r for r in results if "metrics" in r), key=lambda r: ORDER.index(r["policy"]))
    base = next((r for r in results if r["policy"] == "exclusive"), None)
    if not base:
        sys.exit(f"simulate_policies.py: {folder} has no finished policy-exclusive.json: nothing is known of the tasks alone")
    known, rows, reports = alone(base), [], []
    if (folder / "captures.json").exists():
        add_needs(known, json.loads(read(folder / "captures.json")))
    for result in results:
        made, report, names = simulate(rad, known, result)
        spans = measured_spans(result), simulated_spans(made, names)
        rows.append({"policy": result["policy"], "measured_s": result["metrics"]["trace_total_s"], "simulated_s": made["trace_total_s"],
                     "measured_j": result["metrics"]["energy_j"], "simulated_j": made["energy_j"],
                     "measured_oom": result["metrics"]["oom"], "simulated_oom": made["oom"], **placements(*spans), "spans": spans})
        report["title"] = f"{result['policy']}, simulated"
        for run in report["runs"]:
            run["name"] = report["title"]
        reports += [r for r in (result.get("report"), report) if r]
    return rows, reports


def table(rows):
    def one(r):
        joules = f"{r['measured_j'] / 1e3:.1f}" if r["measured_j"] else None
        return [r["policy"], f"{r['measured_s']:.1f}", f"{r['simulated_s']:.1f}", f"{r['simulated_s'] / r['measured_s'] - 1:+.1%}", joules,
                f"{r['simulated_j'] / 1e3:.1f}", joules and f"{r['simulated_j'] / r['measured_j'] - 1:+.1%}", r["measured_oom"],
                r["simulated_oom"], f"{r['same_gpu']}/{r['tasks']}", f"{r['start_s']:.1f}", f"{r['pairs']:.0%}"]
    return pages.table(["policy", "measured, s", "simulated, s", "error", "measured, kJ", "simulated, kJ", "error", "OOMs", "simulated",
                        "on the same GPU", "starts differ by, s", "same neighbours"], map(one, rows))


def picture(rows):
    """For each policy what was measured above what was simulated."""
    return gantt.picture([(f"{r['policy']}, {what}: {total:.0f} s", spans, {}) for r in rows for what, spans, total in
                          zip(("measured", "simulated"), r["spans"], (r["measured_s"], r["simulated_s"]))],
                         "Tasks on GPUs over time, measured and simulated; with a red edge: out of memory")


def page(rad, folder, reports):
    """One page of all runs, as `rad report` makes it; it takes twelve."""
    with tempfile.TemporaryDirectory() as name:
        files = []
        for n, report in enumerate(reports[:12]):
            files.append(pathlib.Path(name, f"{n:02}.json"))
            files[-1].write_text(json.dumps(report))
        subprocess.run([rad, "report", "--title", "Measured and simulated", "-o", str(folder / "simulated.html"), *map(str, files)],
                       check=True)


def main():
    p = argparse.ArgumentParser(description="Compare the simulator with what run_policies.py --check measured.")
    p.add_argument("folder", type=pathlib.Path, help="with its policy-*.json")
    p.add_argument("--rad", required=True, help="the rad command")
    p.add_argument("--json", action="store_true", help="print JSON instead of the table")
    args = p.parse_args()
    rows, reports = compare(args.rad, args.folder)
    (args.folder / "simulated.svg").write_text(picture(rows))
    page(args.rad, args.folder, reports)
    print(json.dumps([{k: v for k, v in r.items() if k != "spans"} for r in rows], indent=1) if args.json else table(rows))


if __name__ == "__main__":
    main()
