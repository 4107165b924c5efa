#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""How far off `rad estimate --summary` is about step time and load, for tasks that run_solo.py measured:

    python3 score_summary.py --make FOLDER --data FOLDER                     # their summaries: torch, torchvision, transformers, torchinfo
    python3 score_summary.py --rad BUILD/rad --summaries FOLDER --data FOLDER [--form table|printed] [--images] [--families
    held-out|fitted|all]

Known to it are the summary, batch size, optimizer, precision, of language models the sequence length; with --images, how large
an image is. Not whether a task accumulates gradients, computes activations twice, evaluates in each step, which form its
optimizer has, or the layout of its images.
"""
import argparse
import contextlib
import json
import pathlib
import re
import subprocess
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "memory"))
from score_solo import HELD_OUT, errors, lines_of, show  # noqa: E402

UNSEEN = {"accumulate", "checkpoint", "eval"}  # a step is another one than a summary shows
NAME = re.compile(r"(?P<arch>.+)-b(?P<batch>\d+)-s(?P<size>\d+)-(?P<optimizer>\w+)-(?:foreach|fused|loop)-"
                  r"(?P<precision>amp-bf16|amp-fp16|bf16|fp32|tf32)(?P<extras>.*)")


def task_of(name):
    """What the name of a task of solo.py says."""
    task = NAME.fullmatch(name).groupdict()
    task["extras"] = set(task["extras"].split("-")) - {""}
    if task["precision"] == "fp32" and "ieee" in task["extras"]:
        task["precision"] = "ieee-fp32"
    return task


def table_of(arch, size):
    import solo
    import summaries
    from torchinfo import summary

    if arch.batch not in (solo.sounds, solo.clips):
        return summaries.table(arch, size)
    with solo.models.unfilled():
        model = arch.make(size).to("meta")
    return str(summary(model, input_data=arch.batch(2, size, "meta")[0], depth=20, device="meta", mode="train", verbose=0,
                       col_names=("output_size", "num_params"), row_settings=("depth",)))


def make(out, lines):
    """NAME-SIZE.table and NAME-SIZE.printed of every architecture that was measured, on the device "meta"."""
    import jobs
    import solo

    solo.models.preload()
    out.mkdir(parents=True, exist_ok=True)
    for name, size in sorted({(t["arch"], int(t["size"])) for t in (task_of(l["name"]) for l in lines)}):
        arch = jobs.ARCHS[name]
        with solo.models.unfilled():
            (out / f"{name}-{size}.printed").write_text(f"{arch.make(size).to('meta')}\n")
        try:
            with contextlib.redirect_stdout(sys.stderr):
                (out / f"{name}-{size}.table").write_text(table_of(arch, size) + "\n")
        except Exception as e:
            print(name, size, f"{type(e).__name__}: {e}"[:200], flush=True)


def image_of(printed, size):
    """CxHxW of what goes into a net of images, from the channels of its first convolution; None: it is no such net."""
    conv = re.search(r"Conv2d\((\d+), ", printed)
    return conv and "Embedding(" not in printed and f"{conv[1]}x{size}x{size}"


def estimate(rad, summary, task, gpu, tokens, image):
    given = ["--batch-size", task["batch"], "--optimizer", task["optimizer"], "--precision", task["precision"]]
    given += ["--seq-len", task["size"]] if tokens else []
    given += ["--input-size", image] if image else []
    out = subprocess.run([rad, "estimate", "--json", "--gpu-model", gpu, "--summary", summary, *given], capture_output=True, text=True,
                         check=True)
    answer = json.loads(out.stdout)
    return answer["load"] or print(summary.name, answer["load_note"])


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--make", type=pathlib.Path, metavar="FOLDER")
    p.add_argument("--rad")
    p.add_argument("--summaries", type=pathlib.Path)
    p.add_argument("--data", type=pathlib.Path, required=True, help="folder of solo.jsonl")
    p.add_argument("--form", choices=["table", "printed"], default="table")
    p.add_argument("--images", action="store_true", help="say how large an image is (--input-size)")
    p.add_argument("--families", choices=["held-out", "fitted", "all"], default="held-out")
    p.add_argument("--worst", type=int, default=0, metavar="N")
    p.add_argument("--json", type=pathlib.Path)
    args = p.parse_args()
    lines = lines_of(args.data / "solo.jsonl")
    gpu = next(l["machine"]["gpu"] for l in lines if "machine" in l)
    lines = [l for l in lines if l.get("step_s") and l.get("gract") is not None]
    if args.make:
        return make(args.make, lines)
    rows = []
    for line in lines:
        if args.families != "all" and (line["family"] in HELD_OUT) != (args.families == "held-out"):
            continue
        task = task_of(line["name"])
        summary = args.summaries / f"{task['arch']}-{task['size']}.{args.form}"
        printed = summary.with_suffix(".printed").read_text()
        image = image_of(printed, task["size"]) if args.images else None
        load = summary.exists() and estimate(args.rad, summary, task, gpu, "Embedding(" in printed, image)
        if load:
            rows.append({"name": line["name"], "family": line["family"], "load": load, "errors": errors(line, load),
                         "gract": line["gract"], "unseen": sorted(task["extras"] & UNSEEN)})
    print("| tasks | figure | n | median | p90 | bias | within its spread |\n|---|---|---|---|---|---|---|")
    show("all", rows)
    show("whose steps are as the summary shows", [r for r in rows if not r["unseen"]])
    show("GPU busy (GRACT over 0.9)", [r for r in rows if r["gract"] > 0.9])
    show("host decides", [r for r in rows if r["gract"] <= 0.9])
    for row in sorted(rows, key=lambda r: -abs(r["errors"]["step"]))[:args.worst]:
        print(row["name"], {k: round(v, 2) for k, v in row["errors"].items()})
    if args.json:
        args.json.write_text(json.dumps({"gpu": gpu, "families": args.families, "form": args.form, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
