# SPDX-License-Identifier: MIT
"""What the estimators say of real models, beside what those took and what was published: published_estimates.csv of GPUMemNet's
authors (an A100 of 40 GB, Adam, fp32) and the summaries of the same models:

    python3 -m radrm.gpumemnet.real --rad build/rad --summaries FOLDER --actual published_estimates.csv >real.json

A line a model: what was taken and published, and what is said by us (`gpumemnet`; `arithmetic` where that declines) and by `horus`.
Memory in MiB.
"""
import argparse
import csv
import json
import pathlib
import subprocess

# Summary and sequence length of each model of the list; XLNet-large has no summary there.
SUMMARIES = {"vgg16": ("vgg_{}.model", None), "resnet50": ("resnet50_{}.model", None), "Xception": ("Xception_{}.model", None),
             "mobilenetV2": ("mobilenet_{}.model", None), "efficientnet": ("efficientnet_{}.model", None),
             "inception": ("Inception_{}.model", None), "BERT_base": ("BERT_base.model", 512), "BERT_large": ("BERT_large.model", 512),
             "xlnet_base": ("xlnet_base_cased.model", 512), "gpt2_large": ("gpt2_large.model", 1024), "gpt2_xl": ("gpt2_xl.model", 1024)}


def rows(path):
    """Names stand once for several batch sizes."""
    name = None
    with open(path, newline="") as f:
        for row in csv.DictReader(f):
            name = row[""] or name
            yield name, {k.strip(): v for k, v in row.items()}


def main():
    p = argparse.ArgumentParser(prog="python3 -m radrm.gpumemnet.real")
    for name in ("rad", "summaries", "actual"):
        p.add_argument(f"--{name}", required=True)
    args = p.parse_args()
    out = []
    for name, row in rows(args.actual):
        known = {"model": name, "batch_size": int(row["batch_size"]), "actual_mib": int(row["Actual GPU memory"]),
                 "published_mib": int(row["GPUMemNet"])}
        pattern, seq = SUMMARIES.get(name, (None, None))
        if not pattern:
            continue
        asked = [args.rad, "estimate", "--summary", str(pathlib.Path(args.summaries) / pattern.format(row["batch_size"])), "--batch-size",
                 row["batch_size"], "--optimizer", "adam", "--precision", "fp32", "--gpu-model", "NVIDIA A100-SXM4-40GB",
                 "--estimator", "all", "--json"]
        done = subprocess.run([*asked, *(["--seq-len", str(seq)] if seq else [])], check=True, capture_output=True, text=True)
        said = {e["estimator"]: e for e in json.loads(done.stdout)["estimates"]}
        ours = "gpumemnet" if said["gpumemnet"]["claim_mib"] else "arithmetic"  # as `auto` chooses
        for name_of, estimator in (("ours", ours), ("horus", "horus")):
            e = said[estimator]
            known[name_of] = {"estimator": estimator, **{k: e[k] for k in ("comfort_mib", "claim_mib", "low_mib")}, "note": e["notes"][0]}
        out.append(known)
    print(json.dumps(out, indent=1))


if __name__ == "__main__":
    main()
