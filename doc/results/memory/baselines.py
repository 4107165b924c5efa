#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""RAD-RM's `horus` beside the figures published for it; prints the tables of baselines.md.

    baselines.py RAD SUMMARIES ESTIMATES.csv WORKLOADS.csv

RAD is the command, SUMMARIES the folder of model summaries, the CSV files hold the published estimates (by model and batch
size) and the workloads (a column horus_mib).

Three figures stand side by side: what was published, what `rad estimate --estimator horus` says, and what the same formula
gives with parameters and activations counted as the published figures must have been (`their_counts`), which shows where
the two part.
"""
import csv
import json
import os
import re
import subprocess
import sys

MIB = 2.0 ** 20
CLIPPED = 40000  # the card: where an estimate is larger, the workloads say this

SUMMARIES = {
    "vgg16": "vgg_32", "resnet50": "resnet50_32", "Xception": "Xception_32", "mobilenetV2": "mobilenet_32",
    "mobilenet_v2": "mobilenet_32", "efficientnet": "efficientnet_32", "efficientnet_b0": "efficientnet_32",
    "inception": "Inception_32", "BERT_base": "BERT_base", "BERT_large": "BERT_large", "xlnet_base": "xlnet_base_cased",
    "gpt2_large": "gpt2_large", "gpt2_xl": "gpt2_xl", "mnist_train": "mnist_cnn_64",
    "resnet18": "resnet18_cifar100", "resnet34": "resnet34_cifar100", "mobilenetv3_small": "efficientNet_cifar100",
}
ON_CIFAR = {"efficientnet_b0": "efficientNet_cifar100"}


def horus_mib(batch, activations, params):
    return 4 * (batch * activations + params + batch * params) / MIB + 800


def table_counts(text):
    """Activations and parameters of a table, of the rows that were counted: an output with other than four dimensions
    counts for linear layers only, pooling by its channels, and BatchNorm under other names not at all."""
    activations = params = 0
    for kind, shape, figure in re.findall(r"^\s*(\w+)-\d+\s+\[(.*?)\]\s+([\d,]+)\s*$", text, re.M):
        dims = [int(d) for d in shape.split(",")][1:]
        size = 1
        for d in dims:
            size *= d
        if kind in ("Conv2d", "BatchNorm2d", "Linear"):
            activations += size
            params += int(figure.replace(",", ""))
        elif kind in ("ReLU", "ReLU6", "SiLU", "Dropout") and len(dims) == 3:
            activations += size
        elif kind == "AdaptiveAvgPool2d":
            activations += dims[0]
    return activations, params


def printed_counts(text, tokens=512):
    """Of a printed model: the total that stands under it; linear layers count their outputs for one token, embeddings those
    of all tokens (but not one with a padding index), and any other layer as many as the one before it."""
    activations = last = 0
    for line in text.splitlines():
        embedding = re.search(r"Embedding\(\d+, (\d+)\)", line)
        linear = re.search(r"Linear\(.*out_features=(\d+)", line)
        if embedding:
            last = tokens * int(embedding[1])
        elif linear:
            last = int(linear[1])
        elif not re.search(r"LayerNorm\(|Dropout\(|Conv1D\(", line):
            continue
        activations += last
    return activations, int(re.search(r"Total params: ([\d,]+)", text)[1].replace(",", ""))


def their_counts(path):
    text = open(path).read()
    return table_counts(text) if "Layer (type)" in text else printed_counts(text)


def ours(rad, path, batch):
    out = subprocess.run([rad, "estimate", "--estimator", "horus", "--summary", path, "--batch-size", str(batch), "--json"],
                         check=True, capture_output=True, text=True).stdout
    return json.loads(out)["estimates"][0]["claim_mib"]


def published(estimates, workloads):
    """(model, batch size, MiB, on CIFAR) of both files, each once."""
    rows, model = [], None
    for row in csv.reader(open(estimates)):
        if row[1].isdigit():
            model = row[0] or model
            rows.append((model, int(row[1]), float(row[5]), False))
    for row in csv.DictReader(open(workloads)):
        if row["horus_mib"]:
            rows.append((row["model"], int(row["batch_size"]), float(row["horus_mib"]), "cifar" in row["dataset"]))
    return sorted(set(rows), key=lambda r: (r[3], r[0].lower(), r[1], -r[2]))


def main():
    rad, folder, estimates, workloads = sys.argv[1:]
    print("| model | batch | published | `horus` | difference | with their counts |\n|---|---|---|---|---|---|")
    for model, batch, mib, cifar in published(estimates, workloads):
        stem = ON_CIFAR.get(model, SUMMARIES.get(model)) if cifar else SUMMARIES.get(model)
        path = os.path.join(folder, (stem or "none") + ".model")
        name = model + (", CIFAR-100" if cifar else "")
        if not os.path.exists(path):
            print(f"| {name} | {batch} | {mib:,.1f} | | | no summary |")
            continue
        batch_used = 64 if model == "mnist_train" else batch
        mine, theirs = ours(rad, path, batch_used), horus_mib(batch_used, *their_counts(path))
        difference = "clipped" if mib == CLIPPED else f"{100 * (mine / mib - 1):+.2f} %"
        print(f"| {name} | {batch_used} | {mib:,.1f} | {mine:,} | {difference} | {theirs:,.1f} |")


if __name__ == "__main__":
    main()
