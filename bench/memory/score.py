#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Scores the estimators against what the jobs took on the GPU. Needs no GPU and no PyTorch; pictures need matplotlib.

    score.py --rad BUILD/rad [--data doc/results/memory] [--write] [--rows] [--claims FILE]

Reads the raw data (truth, captures, summaries, capped runs), asks `rad estimate --estimator all` about every job, and prints
the tables; --write puts them into README.md between its marks, with the pictures beside it and the estimates in
estimates.jsonl.gz.
--rows prints the rows of the design's table as JSON, --claims writes what capped.py runs with.

Margins of `replay` are fitted here with the family that is scored left out: that is how the table's "after margin" is meant.
"""

import argparse
import collections
import concurrent.futures
import gzip
import json
import math
import os
import pathlib
import re
import subprocess
import sys
import tarfile
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(HERE))
import stats  # noqa: E402

COVERAGE = 0.98
BEGIN, END = "<!-- tables: bench/memory/score.py -->", "<!-- end of tables -->"
CNN = set("resnet vgg densenet mobile squeezenet efficientnet inception regnet convnext maxvit segmentation unet".split())
ORDER = ("replay", "gpumemnet", "arithmetic", "gpumemnet or arithmetic", "gpumemnet-raw", "horus", "faketensor", "4 x parameters")
ORDER += ("peak of live tensors",)
OTHERS = {
    "deepspeed": "DeepSpeed, ZeRO-2 model states",
    "deepspeed3": "DeepSpeed, ZeRO-3 model states",
    "accelerate": "Accelerate, `estimate-memory`",
    "memtracker": "PyTorch, `MemTracker`",
}


def lines(path):
    with gzip.open(path, "rt") as f:
        return [json.loads(line) for line in f if line.strip()]


# Without matrix products: cuBLAS is not loaded, and a process takes less outside the allocator.
NO_PRODUCTS = {"segmentation", "squeezenet", "unet"}


def seen(line, job):
    """The line with what NVML shows. Where NVML did not tell processes apart (a container of its own), that is what the allocator
    reserved, and the context: 742 to 764 MiB with matrix products, 630 to 634 without, in all jobs where it did."""
    if line.get("nvml_mib") is None and "reserved" in line:
        line["nvml_mib"] = math.ceil(line["reserved"] / 2**20) + (632 if job["family"] in NO_PRODUCTS else 760)
    return line


class Data:
    """What was measured, by name of job. `excluded`: why a job is not scored."""

    def __init__(self, folder):
        self.folder = folder
        self.jobs = {j["name"]: j for j in lines(folder / "jobs.jsonl.gz")}
        self.machine, self.truth, self.excluded = {}, {}, {}
        for line in lines(folder / "truth.jsonl.gz"):
            if "gpu" in line:
                self.machine = line
            elif line["name"] in self.jobs:
                self.truth[line["name"]] = seen(line, self.jobs[line["name"]])  # a later one is a repetition
        self.captures = {}
        for line in lines(folder / "captures.jsonl.gz"):
            if line.get("name") in self.jobs:
                self.captures[line["name"]] = line
        capped = folder / "capped.jsonl.gz"
        self.capped = lines(capped) if capped.exists() else []
        for name in self.jobs:
            why = self.why_not(name)
            if why:
                self.excluded[name] = why

    def why_not(self, name):
        truth = self.truth.get(name)
        if not truth:
            return "was not run"
        if "error" in truth:
            return truth["error"].split("\n")[0]
        if truth["retries"]:
            return "the GPU was full beside it: it released its cache"
        if truth["scale"] and truth["steps"] - math.log2(65536 / truth["scale"]) < 3:
            return "its gradients overflowed in fp16: the optimizer stepped less than three times"
        return None

    def scored(self):
        return [name for name in self.jobs if name not in self.excluded]


def ask(rad, work, job, gpu):
    """The estimates of one job, by estimator; also the baselines that need no code of rad."""
    words = [
        rad,
        "estimate",
        "--estimator",
        "all",
        "--json",
        "--gpu-model",
        gpu,
        "--batch-size",
        str(job["batch"]),
        "--optimizer",
        job["optimizer"].replace("momentum", "sgd"),
        "--precision",
        job["precision"],
    ]
    summary, capture = work / "summaries" / f"{job['arch']}-{job['size']}.txt", work / "captures" / f"{job['name']}.radcap"
    if summary.exists():
        words += ["--summary", str(summary)]
    if capture.exists():
        words += ["--capture", str(capture)]
    said = subprocess.run(words, capture_output=True, text=True, check=False)
    if said.returncode:
        raise SystemExit(f"{' '.join(words)}: {said.stderr}")
    found = {e["estimator"]: e for e in json.loads(said.stdout)["estimates"] if e["comfort_mib"]}
    if "gpumemnet" in found or "arithmetic" in found:
        found["gpumemnet or arithmetic"] = found.get("gpumemnet") or found["arithmetic"]
    header = parameters_of(capture) if capture.exists() else None
    if header:
        found["4 x parameters"] = {"comfort_mib": 16 * header / 2**20, "claim_mib": 16 * header / 2**20, "took_us": 0}
    return found


def parameters_of(path):
    """The count of parameters in a capture's header (doc/capture-format.md): six texts, then the number."""
    data, at = path.read_bytes(), 9

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    for _ in range(6):
        length = varint()
        at += length
    return varint()


def others_table(data, found):
    """What others.py asked, beside ours."""
    path = data.folder / "others.jsonl.gz"
    if not path.exists():
        return []
    said = {o["name"]: o for o in lines(path) if "name" in o and o["name"] in found}
    rows = [
        "| estimator | jobs | could not say | median error | p90 | under | over double | seconds a job |",
        "|---|---|---|---|---|---|---|---|",
    ]

    def row(label, pairs, refused, seconds):
        s = stats.summary(pairs)
        p90 = stats.quantile([abs(e / t - 1) for e, t in pairs], 0.9)
        double = sum(e > 2 * t for e, t in pairs) / len(pairs)
        rows.append(
            f"| {label} | {s['n'] + refused} | {refused} | {percent(s['median'])} | {percent(p90)} | {percent(s['under'])} | "
            f"{percent(double)} | {seconds} |"
        )

    for key, label in OTHERS.items():
        asked = {n: o[key] for n, o in said.items() if key in o}
        if not asked:
            continue
        pairs = [(o["mib"], data.truth[n]["nvml_mib"]) for n, o in asked.items() if "mib" in o]
        seconds = stats.quantile([o["seconds"] for o in asked.values()], 0.5)
        row(label, pairs, len(asked) - len(pairs), f"{seconds:.3g}")
    captured = stats.quantile([c["seconds"] for n, c in data.captures.items() if n in found and "error" not in c], 0.5)
    for key in ("replay", "gpumemnet or arithmetic", "gpumemnet-raw", "horus"):
        names = [n for n in found if key in found[n]]
        pairs = [(found[n][key]["comfort_mib"], data.truth[n]["nvml_mib"]) for n in names]
        took = stats.quantile([found[n][key]["took_us"] for n in names], 0.5) / 1e6
        row(f"`{key}`", pairs, len(found) - len(names), f"{captured:.2g}, its capture" if key == "replay" else f"{took:.1g}")
    return rows


def estimates(rad, data):
    """{job: {estimator: estimate}}"""
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        for name in ("captures", "summaries"):
            with tarfile.open(data.folder / f"{name}.tar.xz") as tar:
                tar.extraction_filter = getattr(tarfile, "data_filter", None)  # Debian 12's Python has none
                tar.extractall(work)
        names = data.scored()
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            answers = pool.map(lambda n: ask(rad, work, data.jobs[n], data.machine["gpu"]), names)
            found = dict(zip(names, answers))
    for name, by in found.items():
        peak = data.captures.get(name, {}).get("peak_bytes")
        if peak:
            by["peak of live tensors"] = {"comfort_mib": peak / 2**20, "claim_mib": peak / 2**20, "took_us": 0}
    return found


def kind_of(estimate):
    """The class of a replay that has a margin of its own: whether scratch memory of convolutions was guessed."""
    return "convolutions" if "for a convolution" in estimate["notes"][0] else "others"


def high_of(estimate):
    """What the margin is on, in MiB: comfort, or more where guesses of workspaces move it, and what grows (replay_conclude() of
    src/estimate/replay_estimate.c: the claim is that and the margin, low_mib is comfort less the margin)."""
    return estimate["claim_mib"] - (estimate["comfort_mib"] - estimate["low_mib"])


def left_out_claims(data, found):
    """{job: claim in MiB of `replay`} with margins that the job's own family took no part in."""
    rows, of = [], {}
    for name, by in found.items():
        if "replay" in by:
            e = by["replay"]
            of[name] = (data.jobs[name]["family"], kind_of(e))
            rows.append((*of[name], data.truth[name]["nvml_mib"] / high_of(e) - 1))
    margins = stats.left_out(rows, COVERAGE, 0.01)
    return (
        {name: math.ceil(high_of(found[name]["replay"]) * (1 + margins[key])) for name, key in of.items()},
        margins,
        rows,
    )


# --- tables ---


def percent(x, digits=1):
    return f"{100 * x:.{digits}f} %"


def signed(x):
    return f"{100 * x:+.1f} %"


def score_row(label, pairs, claims, took):
    s = stats.summary(pairs)
    c = stats.summary(claims)
    share = "{} ({} to {})".format(percent(c["under"]), *map(percent, c["under_interval"]))
    return (
        f"| {label} | {s['n']} | {percent(s['median'])} | {percent(s['p95'])} | {signed(s['lowest'])} | "
        f"{signed(s['highest'])} | "
        f"{percent(s['under'])} | {share} | {signed(c['median_over'])} | {took} |"
    )


HEAD = [
    "| {} | jobs | median error | p95 | lowest | highest | under | claim under (95 % interval) | claim over, median | time |",
    "|---|---|---|---|---|---|---|---|---|---|",
]


def times(found, estimator):
    took = [by[estimator]["took_us"] for by in found.values() if by.get(estimator, {}).get("took_us")]
    return f"{stats.quantile(took, 0.5) / 1000:.2f} ms" if took else ""


def main_table(data, found, claims):
    rows = [HEAD[0].format("estimator"), HEAD[1]]
    for estimator in ORDER:
        names = [n for n in found if estimator in found[n]]
        if not names:
            continue
        t = {n: data.truth[n]["nvml_mib"] for n in names}
        claim = {n: claims[n] if estimator == "replay" else found[n][estimator]["claim_mib"] for n in names}
        rows.append(
            score_row(
                f"`{estimator}`" if estimator[0].isalpha() and " " not in estimator else estimator,
                [(found[n][estimator]["comfort_mib"], t[n]) for n in names],
                [(claim[n], t[n]) for n in names],
                times(found, estimator),
            )
        )
    return rows


def family_table(data, found, claims, estimator="replay"):
    rows = [HEAD[0].format("family"), HEAD[1]]
    groups = collections.defaultdict(list)
    for name in found:
        if estimator in found[name]:
            groups[data.jobs[name]["family"]].append(name)
    both = {
        "all": [n for v in groups.values() for n in v],
        "all convolutional networks": [n for f, v in groups.items() if f in CNN for n in v],
        "all others": [n for f, v in groups.items() if f not in CNN for n in v],
    }
    for label, names in [*sorted(groups.items()), *both.items()]:
        if names:
            t = {n: data.truth[n]["nvml_mib"] for n in names}
            rows.append(
                score_row(
                    label,
                    [(found[n][estimator]["comfort_mib"], t[n]) for n in names],
                    [(claims[n] if estimator == "replay" else found[n][estimator]["claim_mib"], t[n]) for n in names],
                    times({n: found[n] for n in names}, estimator),
                )
            )
    return rows


def shipped_table(data, found):
    """Claims as `rad estimate` makes them, its own margins in them: of captures with convolutions, and of what reads summaries."""
    convolutions = [n for n, by in found.items() if "replay" in by and kind_of(by["replay"]) == "convolutions"]
    declined = [n for n, by in found.items() if "arithmetic" in by and "gpumemnet" not in by]
    both = "gpumemnet or arithmetic"
    rows = [
        "| claims as shipped | jobs | median error | p90 | over double | claims under | claims over, median | p90 | highest claim |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for label, estimator, names in (
        ("`replay`, with convolutions", "replay", convolutions),
        ("`gpumemnet-raw`", "gpumemnet-raw", found),
        ("`gpumemnet`", "gpumemnet", found),
        ("`arithmetic` where that declines", "arithmetic", declined),
        ("both", both, found),
    ):
        of = [(found[n][estimator], data.truth[n]["nvml_mib"]) for n in names if estimator in found[n]]
        if not of:
            continue
        errors = [e["comfort_mib"] / t - 1 for e, t in of]
        claims = [e["claim_mib"] / t - 1 for e, t in of]
        sizes = [abs(e) for e in errors]
        rows.append(
            f"| {label} | {len(of)} | {percent(stats.quantile(sizes, 0.5))} | {percent(stats.quantile(sizes, 0.9))} | "
            f"{sum(e > 1 for e in errors)} | {percent(sum(c < 0 for c in claims) / len(of))} | {signed(stats.quantile(claims, 0.5))} | "
            f"{signed(stats.quantile(claims, 0.9))} | {1 + max(claims):.1f} x |"
        )
    return rows


def worst_table(data, found, count=12):
    rows = ["| job | NVML | `replay` | error |", "|---|---|---|---|"]
    errors = sorted(
        ((by["replay"]["comfort_mib"] / data.truth[n]["nvml_mib"] - 1, n) for n, by in found.items() if "replay" in by),
        key=lambda e: -abs(e[0]),
    )
    for error, name in errors[:count]:
        rows.append(
            f"| {name} | {data.truth[name]['nvml_mib']:,} | {found[name]['replay']['comfort_mib']:,} | {signed(error)} |"
        )
    return rows


PHASES = {
    "fraction": "`per_process_memory_fraction` at the claim",
    "mps": "MPS limit at the claim",
    "need": "`per_process_memory_fraction` at *need*",
}


def capped_table(data):
    free = {r["name"]: r["step_s"] for r in data.capped if r["phase"] == "free" and r.get("step_s")}
    rows = [
        "| cap | jobs | finished | out of memory | other errors | released cache to fit | time of a step, median (p95) |",
        "|---|---|---|---|---|---|---|",
    ]
    for phase, label in PHASES.items():
        runs = [r for r in data.capped if r["phase"] == phase and r["name"] not in data.excluded]
        done = [r for r in runs if "error" not in r]
        out = [r for r in runs if r.get("oom") or "out of memory" in r.get("error", "").lower()]
        if not runs:
            continue
        slow = [r["step_s"] / free[r["name"]] for r in done if r["name"] in free]
        rows.append(
            f"| {label} | {len(runs)} | {len(done)} ({percent(len(done) / len(runs))}; "
            + "{} to {}".format(*map(percent, stats.wilson(len(done), len(runs))))
            + f") | {len(out)} | "
            f"{len(runs) - len(done) - len(out)} | {sum(r['retries'] > 0 for r in done)} | "
            + (f"{stats.quantile(slow, 0.5):.2f} x ({stats.quantile(slow, 0.95):.2f} x, {len(slow)} jobs)" if slow else "")
            + " |"
        )
    return rows


def excluded_text(data):
    why = collections.Counter(data.excluded.values())
    return [f"- {count} not scored: {reason}" for reason, count in why.most_common()]


def margin_text(rows):
    kinds = collections.defaultdict(list)
    for _, kind, residual in rows:
        kinds[kind].append(residual)
    return [
        f"- {kind}: {percent(stats.conformal(v, COVERAGE) or max(v), 2)} over {len(v)} jobs"
        for kind, v in sorted(kinds.items())
    ]


def report(data, found):
    claims, margins, rows = left_out_claims(data, found)
    m = data.machine
    took = [c["seconds"] for c in data.captures.values() if "error" not in c and c["name"] in found]
    others = others_table(data, found)
    text = [
        f"Measured on one {m['gpu']} ({m['total_mib']:,} MiB), driver {m['driver']}, CUDA {m['cuda']}, cuDNN {m['cudnn']}, "
        f"PyTorch {m['torch']}, torchvision {m['torchvision']}, transformers {m['transformers']}. "
        f"{len(found)} jobs of {len({data.jobs[n]['arch'] for n in found})} architectures in "
        f"{len({data.jobs[n]['family'] for n in found})} families, "
        f"{min(data.truth[n]['nvml_mib'] for n in found) / 1024:.1f} to "
        f"{max(data.truth[n]['nvml_mib'] for n in found) / 1024:.1f} GiB. "
        f"A capture took {stats.quantile(took, 0.5):.1f} s (median), {stats.quantile(took, 0.95):.1f} s (p95), "
        f"{max(took):.1f} s at most.",
        "",
        *excluded_text(data),
        "",
        "### Every estimator",
        "",
        *main_table(data, found, claims),
        "",
        *(["### Beside what others reach for", "", *others, ""] if others else []),
        "### `replay`, by family",
        "",
        *family_table(data, found, claims),
    ]
    for estimator in ("gpumemnet or arithmetic", "gpumemnet-raw", "horus"):
        if any(estimator in by for by in found.values()):
            text += ["", f"### `{estimator}`, by family", "", *family_table(data, found, claims, estimator)]
    text += [
        "",
        "### Claims with the margins that are shipped",
        "",
        *shipped_table(data, found),
        "",
        "### The worst of `replay`",
        "",
        *worst_table(data, found),
        "",
        f"### Margins of `replay` on all jobs ({percent(COVERAGE, 0)} one-sided)",
        "",
        *margin_text(rows),
    ]
    if data.capped:
        text += ["", "### Jobs run with no more than they claim", "", *capped_table(data)]
    return text


def design_rows(data, found):
    claims, _, _ = left_out_claims(data, found)
    names = [n for n in found if "replay" in found[n]]
    t = {n: data.truth[n]["nvml_mib"] for n in names}
    raw = stats.summary([(found[n]["replay"]["comfort_mib"], t[n]) for n in names])
    claim = stats.summary([(claims[n], t[n]) for n in names])
    took = [c["seconds"] for c in data.captures.values() if "error" not in c and c["name"] in found]
    ran = [r for r in data.capped if r["phase"] == "fraction" and r["name"] not in data.excluded]
    return [
        {
            "what": "estimate error against NVML (replay), unseen families on H200",
            "n": raw["n"],
            "median": round(raw["median"], 4),
            "p95": round(raw["p95"], 4),
            "reach": "median <= 0.03, p95 <= 0.10",
            "elsewhere": "xMem: median 0.037, p95 0.09 to 0.10",
        },
        {
            "what": "claim under NVML, margin of other families",
            "share": round(claim["under"], 4),
            "interval": [round(x, 4) for x in claim["under_interval"]],
            "median_over": round(claim["median_over"], 4),
            "reach": "<= 0.02 at <= 0.10 median over",
            "elsewhere": "xMem: 0.39 under",
        },
        {
            "what": "capture without imports, s",
            "median": stats.quantile(took, 0.5),
            "p95": stats.quantile(took, 0.95),
            "max": max(took),
            "reach": "<= 5",
            "elsewhere": "xMem: 24",
        },
        {
            "what": "reading and replaying a capture: need and comfort, ms",
            "median": round(stats.quantile([found[n]["replay"]["took_us"] for n in names], 0.5) / 1000, 3),
            "p95": round(stats.quantile([found[n]["replay"]["took_us"] for n in names], 0.95) / 1000, 3),
            "reach": "< 1",
        },
        {
            "what": "jobs that finish with no more than their claim",
            "n": len(ran),
            "share": round(sum("error" not in r for r in ran) / len(ran), 4) if ran else None,
            "elsewhere": "xMem: 0.905 pass both validations",
        },
    ]


def write_claims(path, data, found):
    claims, _, _ = left_out_claims(data, found)
    out = {}
    for name, claim in claims.items():
        e = found[name]["replay"]
        outside = int(re.search(r"(\d+) outside", e["notes"][0]).group(1))
        out[name] = {"claim_mib": claim, "need_mib": e["need_mib"], "outside_mib": outside}
    path.write_text(json.dumps(out))


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--rad", required=True)
    p.add_argument("--data", type=pathlib.Path, default=ROOT / "doc/results/memory")
    p.add_argument("--write", action="store_true")
    p.add_argument("--rows", action="store_true")
    p.add_argument("--claims", type=pathlib.Path)
    args = p.parse_args()
    data = Data(args.data)
    found = estimates(os.path.abspath(args.rad), data)
    if args.claims:
        write_claims(args.claims, data, found)
    if args.rows:
        for row in design_rows(data, found):
            print(json.dumps({"schema": 1, "bench": "memory", **row}))
        return
    text = report(data, found)
    print("\n".join(text))
    if args.write:
        readme = args.data / "README.md"
        before, _, rest = readme.read_text().partition(BEGIN)
        readme.write_text(before + BEGIN + "\n" + "\n".join(text) + "\n" + END + rest.partition(END)[2])
        with gzip.open(args.data / "estimates.jsonl.gz", "wt") as f:
            for name, by in found.items():
                f.write(json.dumps({"name": name, **{k: round(e["comfort_mib"], 1) for k, e in by.items()}}) + "\n")
        import pictures

        pictures.draw(args.data, data, found, left_out_claims(data, found)[0])


if __name__ == "__main__":
    main()
