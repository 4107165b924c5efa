# SPDX-License-Identifier: MIT
"""From measured configurations to arrays. What the nets see comes from the product's own code (tools/vectors.c), by way of the
text of a summary, as a user's would."""
import ast
import csv
import hashlib
import json
import math
import pathlib
import re
import subprocess
import sys

import numpy

from . import dataset, table

KINDS = 11  # of layers that compute: summary_kind of src/parse/summary.h, up to the inputs
ACTIVATIONS = ["", "ELU", "GELU", "Identity", "LeakyReLU", "Mish", "PReLU", "ReLU", "SELU", "Sigmoid", "SiLU", "Softplus", "Tanh"]
# What a user may not say: 0 both are known, 1 no optimizer, 2 no precision, 3 neither.
VARIANTS = ((True, True), (False, True), (True, False), (False, False))
WORDS = {"fp32": "ieee-fp32"}  # the set's fp32 is without TF32 anywhere, which in convolutions is not PyTorch's default
LONGEST = 512  # layers of the published encoder's sequence


class Rows:
    """Arrays over n configurations:

    inputs     (variants, n, inputs), float32          tokens     a list of (tokens, numbers of a token), float32
    reference  (variants, n), MiB                      sequences  a list of (layers, 3), float32: of the published encoder
    mib        (n), what NVML showed, in MiB           published  (n, inputs of the published nets)
    ids        a list                                  plain      (n), whether of Adam or AdamW, in fp32 or TF32
    """
    def __init__(self, **arrays):
        self.__dict__.update(arrays)

    def __len__(self):
        return len(self.mib)

    def take(self, at):
        return Rows(**{k: v[:, at] if k in ("inputs", "reference") else [v[i] for i in at] if isinstance(v, list) else v[at]
                       for k, v in self.__dict__.items()})


def questions(row, text):
    """One for each variant. Every other row says how large an image is; a table alone does not."""
    asked = []
    for optimizer, precision in VARIANTS:
        q = {"summary": text, "batch_size": int(row["batch_size"])}
        if row.get("seq_len"):
            q["seq_len"] = int(row["seq_len"])
        side = [int(n) for n in re.findall(r"\d+", row.get("input") or "")]
        if len(side) == 3 and int(hashlib.sha256(row["id"].encode()).hexdigest(), 16) % 2:
            q["input"] = side
        if optimizer:
            q["optimizer"] = row["optimizer"]
        if precision:
            q["precision"] = WORDS.get(row["precision"], row["precision"])
        asked.append(q)
    return asked


def ask(tool, asked):
    """Answers of tools/vectors, in order."""
    done = subprocess.run([tool], input="".join(json.dumps(q) + "\n" for q in asked), capture_output=True, text=True, check=True)
    said = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(said) == len(asked)
    return said


def about(tool):
    """Sizes and names of what the tool gives."""
    return json.loads(subprocess.run([tool, "--about"], capture_output=True, text=True, check=True).stdout)


def _published(family, said, batch):
    types, kind = said["types"], lambda word: sum(n for t, n in said["types"].items() if word in t)
    angle = 2 * math.pi * (ACTIVATIONS.index(said["activation"]) if said["activation"] in ACTIVATIONS else 0) / len(ACTIVATIONS)
    linear, dropout = kind("Linear") + types.get("Conv1D", 0), kind("Dropout")
    params, activations = said["params"], said["activations"]
    if family == "mlp":
        return [linear, kind("BatchNorm"), dropout, batch, params, activations, math.cos(angle), math.sin(angle)]
    if family == "cnn":
        return [said["depth"], kind("Conv2d"), kind("BatchNorm"), dropout, batch, params, activations, math.cos(angle),
                math.sin(angle), activations * batch]
    return [said["depth"], linear, kind("Norm"), dropout, batch, params, activations, activations * batch]


def _sequence(said):
    """Layer type, activations, parameters: one row a layer."""
    rows = [[kind, math.log2(1 + a), math.log2(1 + p)] for kind, a, p, times in said["layers"] for _ in range(min(times, LONGEST))]
    return numpy.array(rows[:LONGEST], numpy.float32).reshape(-1, 3)


def arrays(family, rows, said):
    """`said`: answers to the questions of every row, in order. Rows that could not be read are left out, and told."""
    n, inputs, reference, tokens, published, sequences, kept = len(VARIANTS), [], [], [], [], [], []
    for i, row in enumerate(rows):
        mine = said[n * i:n * (i + 1)]
        if any("error" in s for s in mine) or mine[0]["family"] != family:
            continue
        kept.append(i)
        inputs.append([s["inputs"] for s in mine])
        reference.append([s["reference_mib"] for s in mine])
        tokens.append(numpy.array(mine[0]["tokens"], numpy.float32))
        published.append(_published(family, mine[0], int(row["batch_size"])))
        sequences.append(_sequence(mine[0]))
    if len(kept) < len(rows):
        why = next((s["error"] for s in said if "error" in s), "of another family")
        print(f"{family}: {len(rows) - len(kept)} of {len(rows)} rows could not be read and are left out: {why}", file=sys.stderr)
    of = [rows[i] for i in kept]
    return Rows(inputs=numpy.array(inputs, numpy.float32).swapaxes(0, 1), reference=numpy.array(reference).T, tokens=tokens,
                published=numpy.array(published, numpy.float64), sequences=sequences,
                mib=numpy.array([float(r["nvml_mib"]) for r in of]), ids=[r["id"] for r in of],
                plain=numpy.array([r["optimizer"].startswith("adam") and r["precision"] in ("fp32", "tf32") for r in of]))


def load(folder, family, tool, limit=None):
    """The measured rows of a family as arrays."""
    rows = dataset.read(pathlib.Path(folder) / f"{family}.csv.gz")[:limit]
    return arrays(family, rows, ask(tool, [q for row in rows for q in questions(row, table.summary(row["spec"]))]))


def _table(layers):
    """The text of a torchsummary table for a list of (type, activations, parameters)."""
    names = {"linear": "Linear", "batch_normalization": "BatchNorm1d", "dropout": "Dropout"}
    lines = ["        Layer (type)               Output Shape         Param #", "=" * 64]
    for i, (kind, activations, params) in enumerate(layers):
        lines.append(f"{names.get(kind, kind) + '-' + str(i + 1):>20} {f'[-1, {activations}]':>26} {params:>15,}")
    return "\n".join([*lines, "=" * 64, f"Total params: {sum(p for _, _, p in layers):,}", ""])


def load_published_mlps(path, tool):
    """The published set of MLPs (an A100, Adam, fp32): layers as it lists them."""
    with open(path, newline="") as f:
        rows = [{"id": str(i), "batch_size": r["Batch Size"], "optimizer": "adam", "precision": "fp32",
                 "nvml_mib": r["Max GPU Memory (MiB)"], "layers": r["Activations-Params"]} for i, r in enumerate(csv.DictReader(f))]
    said = ask(tool, [q for row in rows for q in questions(row, _table(ast.literal_eval(row["layers"])))])
    return arrays("mlp", rows, said)
