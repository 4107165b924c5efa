#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""How far off `rad estimate` is about step time and load, for tasks that run_solo.py measured:

    python3 score_solo.py --rad BUILD/rad --captures FOLDER --data FOLDER [--gpu-model NAME] [--families held-out|fitted|all] [--json F]
    python3 score_solo.py --rad BUILD/rad --captures doc/results/load/captures.tar.xz --data FOLDER --page PAGE.md    # on another GPU

Step time and watts: |predicted / measured - 1|. GRACT, SMACT, DRAM: |predicted - measured|. `within`: how many are within the
spread that was told; two of three should be. --page: all families, as a page; targets are those of a GPU that nothing was fitted to. There,
steps are told once more with what the tasks of other families say of the host: `rad` knows nothing of it.
"""
import argparse
import contextlib
import gzip
import json
import math
import pathlib
import statistics
import subprocess
import sys
import tarfile
import tempfile

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "memory"))
from stats import quantile  # noqa: E402

# Families that no fit has seen, chosen before anything was measured.
HELD_OUT = {"bert", "convnext", "densenet", "dlrm", "opt", "resnet", "segmentation", "sound", "vit", "xlnet"}


def lines_of(path):
    """Of NAME.jsonl or NAME.jsonl.gz."""
    packed = path.with_name(path.name + ".gz")
    text = gzip.decompress(packed.read_bytes()).decode() if packed.exists() else path.read_text()
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


def estimate(rad, capture, gpu, pace=1):
    """What is said of it for a host of that pace; whatever a radd here may have learnt is not asked."""
    out = subprocess.run([rad, "estimate", "--json", "--gpu-model", gpu, "--host-pace", str(pace), "--capture", capture],
                         capture_output=True, text=True, check=True)
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
        out[key] = {"n": len(e), "median": round(statistics.median(size), 3), "p90": round(quantile(size, 0.9), 3),
                    "bias": round(statistics.median(e), 3)}
        if key != "watts":
            spread = "step_spread" if key == "step" else f"{key}_sd"
            out[key]["within"] = round(sum(abs(r["errors"][key]) <= r["load"][spread] for r in rows if key in r["errors"]) / len(e), 2)
    return out


def show(name, rows):
    for key, row in table(rows).items():
        within = f"{100 * row['within']:.0f} %" if "within" in row else "–"
        print(f"| {name} | {key} | {row['n']} | {row['median']} | {row['p90']} | {row['bias']:+} | {within} |")


@contextlib.contextmanager
def captures_of(path):
    """The folder, or an archive unpacked for as long as that."""
    if path.is_dir():
        yield path
        return
    with tempfile.TemporaryDirectory() as folder, tarfile.open(path) as archive:
        archive.extraction_filter = getattr(tarfile, "data_filter", None)  # Debian 12's Python has none
        archive.extractall(folder)
        yield pathlib.Path(folder)


def scored(lines, rad, captures, gpu, wanted):
    """A row a task that was measured whole and captured, and the names of those without a capture."""
    rows, missing, process = [], [], {}
    for n, line in enumerate(lines):
        if "machine" in line:
            process[line.get("gpu_index")] = n
        if not line.get("step_s") or not wanted(line["family"]):
            continue
        capture = captures / f"{line['name']}.radcap"
        if not capture.exists():
            missing.append(line["name"])
            continue
        load = estimate(rad, capture, gpu)
        rows.append({"name": line["name"], "family": line["family"], "load": load, "errors": errors(line, load), "gract": line.get("gract"),
                     "smact": line.get("smact"), "step_s": line["step_s"], "host_s": line.get("host_s"),
                     "process": process.get(line.get("gpu_index"))})
    return rows, missing


def paced(rows):
    """The same rows with steps at the pace of their host: the median of measured over predicted host's time, where the host decides, of
    tasks of other families that the same process measured."""
    def decided(r):
        return r["host_s"] and r["gract"] is not None and r["gract"] < 0.8 and r["load"]["host_s"] > r["load"]["busy_s"]

    out = []
    for row in rows:
        said = [math.log(r["host_s"] / r["load"]["host_s"]) for r in rows
                if decided(r) and r["process"] == row["process"] and r["family"] != row["family"]]
        if len(said) < 5:
            continue
        host, busy = row["load"]["host_s"], row["load"]["busy_s"]
        step = row["load"]["step_s"] + max(host * math.exp(statistics.median(said)), busy) - max(host, busy)
        out.append({**row, "errors": {"step": step / row["step_s"] - 1}})
    return out


# Of a GPU that nothing was fitted to: within twice what is asked for where it was.
TARGETS = {"step": (0.2, 0.6), "smact": (0.12, None)}


def cell(value, target):
    return f"{value:.3f}" + ("" if target is None else f" ({'met' if value <= target else 'missed'}: {target})")


def page_rows(name, rows, keys=("step", "gract", "smact", "dram", "watts"), targets=()):
    for key, row in table(rows).items():
        if key in keys:
            median, p90 = dict(targets).get(key, (None, None))
            yield (f"| {name} | {key} | {row['n']} | {cell(row['median'], median)} | {cell(row['p90'], p90)} | {row['bias']:+.3f} | "
                   f"{row.get('within', '–')} |")


def page(rows, missing, machines):
    """Markdown for doc/results/load."""
    said = sorted({f"{m['machine'].get('gpu')}, driver {m['machine'].get('driver')}, PyTorch {m['machine'].get('torch')}, "
                   f"{m.get('cores')} cores "
                   f"of {m.get('cpu')}, {m.get('launch_us')} µs a launch" for m in machines})
    lines = ["# Step time and load on another GPU", "", "Measured by `run_solo.py`, said by `rad estimate --capture` with what "
                                                        "was fitted on "
             "the H200 and this GPU's data sheet, scored", "by `score_solo.py --page`. No parameter was fitted here. Steps and "
                                                           "watts: |predicted / "
             "measured - 1|; others: |predicted - measured|.", "", *(f"- {line}" for line in said),
             f"- {len(rows)} tasks of {len({r['family'] for r in rows})} families"
             + (f"; {len(missing)} more have no capture" if missing else ""),
             "", "| tasks | figure | n | median | p90 | bias | within its spread |", "|---|---|---|---|---|---|---|",
             *page_rows("all", rows, targets=TARGETS.items()),
             *page_rows("GPU over 90 % busy", [r for r in rows if (r["gract"] or 0) > 0.9], ("step", "smact", "watts")),
             *page_rows("others, where the host decides", [r for r in rows if (r["gract"] or 0) <= 0.9], ("step", "smact", "watts")),
             *page_rows("all, the host's pace known from other families", paced(rows), ("step",)), "",
             "| family | n | step, median | bias | SMACT, median |", "|---|---|---|---|---|"]
    for family in sorted({r["family"] for r in rows}):
        own = table([r for r in rows if r["family"] == family])
        smact = f"{own['smact']['median']:.3f}" if "smact" in own else "–"
        lines.append(f"| {family} | {own['step']['n']} | {own['step']['median']:.3f} | {own['step']['bias']:+.3f} | {smact} |")
    return "\n".join(lines) + "\n"


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--rad", required=True)
    p.add_argument("--captures", type=pathlib.Path, required=True, help="folder, or archive of one")
    p.add_argument("--data", type=pathlib.Path, required=True, help="folder of solo.jsonl")
    p.add_argument("--gpu-model", help="default: the one it was measured on")
    p.add_argument("--families", choices=["held-out", "fitted", "all"], help="default: held-out; all with --page")
    p.add_argument("--worst", type=int, default=0, metavar="N")
    p.add_argument("--json", type=pathlib.Path)
    p.add_argument("--page", type=pathlib.Path, help="write a page of it: what is fitted on one GPU, on another")
    args = p.parse_args()
    families = args.families or ("all" if args.page else "held-out")
    lines = lines_of(args.data / "solo.jsonl")
    machines = [l for l in lines if "machine" in l]
    gpu = args.gpu_model or next((m["machine"]["gpu"] for m in machines), None)
    if not gpu:
        raise SystemExit(f"{args.data / 'solo.jsonl'}: no line says on which GPU it was measured: --gpu-model NAME")
    with captures_of(args.captures) as captures:
        rows, missing = scored(lines, args.rad, captures, gpu, lambda f: families == "all" or (f in HELD_OUT) == (families == "held-out"))
    if not rows:
        raise SystemExit(f"{args.data}: no task there was measured whole and has a capture in {args.captures}: capture_solo.py makes them")
    if args.page:
        args.page.write_text(page(rows, missing, machines))
    print("| tasks | figure | n | median | p90 | bias | within its spread |\n|---|---|---|---|---|---|---|")
    show("all", rows)
    show("GPU busy (GRACT over 0.9)", [r for r in rows if (r["gract"] or 0) > 0.9])
    show("host decides", [r for r in rows if (r["gract"] or 0) <= 0.9])
    for row in sorted(rows, key=lambda r: -abs(r["errors"]["step"]))[:args.worst]:
        print(row["name"], {k: round(v, 2) for k, v in row["errors"].items()})
    if args.json:
        args.json.write_text(json.dumps({"gpu": gpu, "families": families, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
