#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""How far off `rad estimate` is about step time and load, for tasks that run_solo.py measured:

    python3 score_solo.py --rad BUILD/rad --captures FOLDER --data FOLDER [--gpu-model NAME] [--families held-out|fitted|all] [--json F]

Step time and watts: |predicted / measured - 1|. GRACT, SMACT, DRAM: |predicted - measured|. `within`: how many are within the
spread that was told; two of three should be.
"""
import argparse
import gzip
import json
import pathlib
import statistics
import subprocess

# Families that no fit has seen, chosen before anything was measured.
HELD_OUT = {"bert", "convnext", "densenet", "dlrm", "opt", "resnet", "segmentation", "sound", "vit", "xlnet"}


def lines_of(path):
    """Of NAME.jsonl or NAME.jsonl.gz."""
    packed = path.with_name(path.name + ".gz")
    text = gzip.decompress(packed.read_bytes()).decode() if packed.exists() else path.read_text()
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


def estimate(rad, capture, gpu):
    out = subprocess.run([rad, "estimate", "--json", "--gpu-model", gpu, "--capture", capture], capture_output=True, text=True, check=True)
    answer = json.loads(out.stdout)
    if answer["load"] is None:
        raise SystemExit(f"{capture}: {answer['load_note']}")
    return answer["load"]


def errors(line, load):
    found = {"step": load["step_s"] / line["step_s"] - 1}
    found.update({key: load[key] - line[key] for key in ("gract", "smact", "dram") if line.get(key) is not None})
    if line.get("watts"):
        found["watts"] = load["watts"] / line["watts"] - 1
    return found


def table(rows):
    """{figure: {n, median, p90, bias, within}}"""
    out = {}
    for key in ("step", "gract", "smact", "dram", "watts"):
        e = [r["errors"][key] for r in rows if key in r["errors"]]
        if not e:
            continue
        size = sorted(map(abs, e))
        out[key] = {"n": len(e), "median": round(statistics.median(size), 3), "p90": round(size[int(0.9 * (len(size) - 1))], 3),
                    "bias": round(statistics.median(e), 3)}
        if key != "watts":
            spread = "step_spread" if key == "step" else f"{key}_sd"
            out[key]["within"] = round(sum(abs(r["errors"][key]) <= r["load"][spread] for r in rows if key in r["errors"]) / len(e), 2)
    return out


def show(name, rows):
    for key, row in table(rows).items():
        within = f"{100 * row['within']:.0f} %" if "within" in row else "–"
        print(f"| {name} | {key} | {row['n']} | {row['median']} | {row['p90']} | {row['bias']:+} | {within} |")


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--rad", required=True)
    p.add_argument("--captures", type=pathlib.Path, required=True)
    p.add_argument("--data", type=pathlib.Path, required=True, help="folder of solo.jsonl")
    p.add_argument("--gpu-model", help="default: the one it was measured on")
    p.add_argument("--families", choices=["held-out", "fitted", "all"], default="held-out")
    p.add_argument("--worst", type=int, default=0, metavar="N")
    p.add_argument("--json", type=pathlib.Path)
    args = p.parse_args()
    lines = lines_of(args.data / "solo.jsonl")
    gpu = args.gpu_model or next(l["machine"]["gpu"] for l in lines if "machine" in l)
    rows = []
    for line in lines:
        capture = args.captures / f"{line.get('name')}.radcap"
        if not line.get("step_s") or not capture.exists():
            continue
        if args.families != "all" and (line["family"] in HELD_OUT) != (args.families == "held-out"):
            continue
        load = estimate(args.rad, capture, gpu)
        rows.append({"name": line["name"], "family": line["family"], "load": load, "errors": errors(line, load), "gract": line["gract"]})
    print("| tasks | figure | n | median | p90 | bias | within its spread |\n|---|---|---|---|---|---|---|")
    show("all", rows)
    show("GPU busy (GRACT over 0.9)", [r for r in rows if (r["gract"] or 0) > 0.9])
    show("host decides", [r for r in rows if (r["gract"] or 0) <= 0.9])
    for row in sorted(rows, key=lambda r: -abs(r["errors"]["step"]))[:args.worst]:
        print(row["name"], {k: round(v, 2) for k, v in row["errors"].items()})
    if args.json:
        args.json.write_text(json.dumps({"gpu": gpu, "families": args.families, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
