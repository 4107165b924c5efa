#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes the markdown tables of doc/results from the JSON that run_policies.py, run_trace.py and run_faults.py wrote.

    bench/hardware/table.py results/            # policy-*.json, trace-*.json and faults.jsonl in there
"""
import gzip
import json
import pathlib
import sys

import pages

ORDER = ["exclusive", "streams-rr", "streams-magm", "mps-rr", "mps-magm", "mps-gain", "plan", "mps-packed"]
# Of run_trace.py: under magm, but for the first and the last two.
ESTIMATORS = {"exclusive": "one a GPU", "none": "none", "gpumemnet": "GPUMemNet", "replay": "replay of captures",
              "shipped": "as shipped (gain, plan): none", "shipped-replay": "as shipped: replay of captures"}
COLUMNS = [("trace total (s)", "trace_total_s", 1), ("mean wait (s)", "avg_wait_s", 1), ("mean execution (s)", "avg_exec_s", 1),
           ("mean JCT (s)", "avg_jct_s", 1), ("SMACT", "mean_smact", 3), ("energy (kJ)", "energy_j", 1), ("OOMs", "oom", 0),
           ("completed", "completed", 0)]


def read(path):
    """Text of a file, or of its .gz form, which is how results are kept."""
    with gzip.open(path, "rt") if str(path).endswith(".gz") else open(path) as f:
        return f.read()


def cell(value, digits):
    return "–" if value is None else f"{value:.{digits}f}"


def change(value, base):
    return f" ({(value / base - 1) * 100:+.0f} %)" if value is not None and base else ""


def policies_table(results, what="policy"):
    """One row a policy; in brackets, against the first that was run."""
    rows = []
    base = next((r["metrics"] for r in results if "metrics" in r), {})
    for result in results:
        found = result.get("metrics")
        if not found:
            rows.append([result["policy"], "did not finish"] + [""] * (len(COLUMNS) - 1))
            continue
        cells = []
        for _, name, digits in COLUMNS:
            scale = 1e-3 if name == "energy_j" and found[name] is not None else 1
            text = cell(found[name] * scale if found[name] is not None else None, digits)
            if name in ("trace_total_s", "avg_jct_s", "energy_j") and found is not base:
                text += change(found[name], base.get(name))
            cells.append(f"{text}/{found['tasks']}" if name == "completed" else text)
        rows.append([result["policy"], *cells])
    return pages.table([what, *(title for title, _, _ in COLUMNS)], rows)


def estimators_table(found):
    """`found`: {estimator: what run_trace.py wrote}."""
    return policies_table([{**found[name], "policy": title} for name, title in ESTIMATORS.items() if name in found], "estimator")


def tasks_table(results):
    """Execution time of each task under each policy: what sharing costs the single task."""
    names = [t["name"] for t in results[0]["tasks"]] if results else []
    rows = []
    for name in names:
        runs = [next((t for t in r["tasks"] if t["name"] == name), None) for r in results]
        again = [f", {len(t['attempts'])} attempts" if t and len(t["attempts"]) > 1 else "" for t in runs]
        rows.append([name, *(cell(t and t["run_s"], 1) + more for t, more in zip(runs, again))])
    return pages.table(["task", *(r["policy"] for r in results)], rows)


def faults_table(steps):
    rows = []
    for step in steps:
        seen = "; ".join(step.get("findings", [])) or step.get("error", "").strip()[-200:]
        rows.append([step["step"], step["outcome"], seen.replace("\n", " ")])
    return pages.table(["experiment", "result", "what was seen"], rows)


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: table.py FOLDER")
    folder = pathlib.Path(sys.argv[1])
    results = [json.loads(read(p)) for p in sorted(folder.glob("policy-*.json*"))]
    results.sort(key=lambda r: ORDER.index(r["policy"]) if r["policy"] in ORDER else len(ORDER))
    traces = [json.loads(read(p)) for p in sorted(folder.glob("trace-*.json*"))]
    faults = sorted(folder.glob("faults.jsonl*"))
    if not results and not traces and not faults:
        sys.exit(f"table.py: no policy-*.json, no trace-*.json and no faults.jsonl in {folder}")
    if results:
        print(policies_table(results), "\n", tasks_table(results), sep="\n")
    if traces:
        print(estimators_table({t["estimator"]: t for t in traces}))
    for path in faults:
        print("\n" + faults_table([json.loads(line) for line in read(path).splitlines()]))


if __name__ == "__main__":
    main()
