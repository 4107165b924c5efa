# SPDX-License-Identifier: MIT
"""The rows of models/arithmetic.h: quantiles of memory / reference over the measured set.

    python3 -m radrm.gpumemnet.bounds [--tool build/tools/vectors]
"""
import argparse
import math
import pathlib

from . import dataset, specs, table
from .features import WORDS, ask

QUANTILES = (0.005, 0.5, 0.98, 0.995)


def quantile(values, p):
    """Rounded to hundredths away from the middle, so that it covers what it says."""
    ordered = sorted(values)
    at = p * (len(ordered) - 1)
    value = ordered[math.floor(at) if p < 0.5 else math.ceil(at)]
    return math.floor(value * 100) / 100 if p < 0.5 else math.ceil(value * 100) / 100


def ratios(folder, tool):
    """{class: [memory / reference]}"""
    rows = [r for family in specs.FAMILIES for r in dataset.read(pathlib.Path(folder) / f"{family}.csv.gz")]
    said = ask(tool, [{"summary": table.summary(r["spec"]), "batch_size": r["batch_size"], "seq_len": r["seq_len"] or 0,
                       "optimizer": r["optimizer"], "precision": WORDS.get(r["precision"], r["precision"])} for r in rows])
    found = {}
    for row, answer in zip(rows, said):
        kind = "cnn_ieee" if row["family"] == "cnn" and row["precision"] == "fp32" else row["family"]
        found.setdefault(kind, []).append(row["nvml_mib"] / answer["reference_mib"])
    return found


def main():
    p = argparse.ArgumentParser(prog="python3 -m radrm.gpumemnet.bounds")
    p.add_argument("--tool", default="build/tools/vectors")
    p.add_argument("--data", default="models/gpumemnet")
    args = p.parse_args()
    for kind, of in ratios(args.data, args.tool).items():
        numbers = ", ".join(f"{quantile(of, q):.2f}" for q in QUANTILES)
        print(f"\t[ARITHMETIC_{kind.upper()}] = {{ {numbers} }},\t/* of {len(of):,} */")


if __name__ == "__main__":
    main()
