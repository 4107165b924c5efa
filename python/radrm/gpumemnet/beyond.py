# SPDX-License-Identifier: MIT
"""How far beyond what they learnt the nets can be believed: our ensemble is trained on the rows of which one input is below its
median, or above it, and asked about the others, by their distance from the range in octaves.

    python3 -m radrm.gpumemnet.beyond --tool build/tools/vectors --out doc/results/memory/gpumemnet/beyond.json [--family cnn]
    python3 -m radrm.gpumemnet.beyond --out doc/results/memory/gpumemnet/beyond.json --table     # of what is there

Takes a minute of one core for each of the 22 trainings. Nothing but the measured set takes part."""
import argparse
import json
import os
import pathlib

INPUTS = ("batch size", "parameters", "activations of a batch", "depth", "reference")  # sizes, which are logarithms
FAMILIES = {"mlp": ("parameters", "depth"), "cnn": INPUTS, "transformer": ("batch size", "parameters", "activations of a batch", "depth")}
STEPS = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 99.0)


def halves(values, side):
    """(rows to learn from, rows to ask about, distance of the latter in octaves); half of those that are alike are learnt from."""
    import numpy
    middle = numpy.median(values)
    inside = values <= middle if side == "above" else values >= middle
    return numpy.flatnonzero(inside), numpy.flatnonzero(~inside), numpy.abs(values - middle)[~inside]


def summary(over, distance):
    """[octaves, octaves, rows, share under, median over, p95 over], where there are 20 rows; `over` is claim / truth."""
    import numpy
    lines = []
    for a, b in zip(STEPS, STEPS[1:]):
        part = over[(distance > a) & (distance <= b)]
        if len(part) >= 20:
            lines.append([a, b, len(part), *(round(float(x), 4) for x in
                          ((part < 1).mean(), numpy.median(part) - 1, numpy.percentile(part, 95) - 1))])
    return lines


def table(found):
    """Share of claims that are too low by distance, of all sizes together."""
    lines = ["| doublings beyond | " + " | ".join(f"to {b:g}" if b < STEPS[-1] else "more" for b in STEPS[1:]) + " |",
             "|---|" + "---|" * (len(STEPS) - 1)]
    for label, family in (("MLPs", "mlp"), ("CNNs", "cnn"), ("transformers", "transformer"), ("all", "")):
        cells = []
        for a in STEPS[:-1]:
            of = [(rows, under) for name, parts in found.items() if name.startswith(family) for low, _, rows, under, *_ in parts
                  if low == a]
            n = sum(rows for rows, _ in of)
            cells.append(f"{100 * sum(rows * under for rows, under in of) / n:.1f} %" if n else "–")
        lines.append(f"| {label} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main():
    p = argparse.ArgumentParser(prog="python3 -m radrm.gpumemnet.beyond")
    p.add_argument("--tool", default="build/tools/vectors")
    p.add_argument("--data", default="models/gpumemnet")
    p.add_argument("--out", required=True)
    p.add_argument("--family")
    p.add_argument("--epochs", type=int, default=150)
    p.add_argument("--table", action="store_true", help="train nothing: the table of what --out holds")
    args = p.parse_args()
    if args.table:
        print(table(json.loads(pathlib.Path(args.out).read_text())))
        return
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    import numpy
    import torch
    from . import features, jobs
    torch.set_num_threads(1)
    names = features.about(args.tool)["inputs"]
    out = pathlib.Path(args.out)
    found = json.loads(out.read_text()) if out.exists() else {}
    for family, inputs in FAMILIES.items():
        if args.family and family != args.family:
            continue
        rows = features.load(args.data, family, args.tool)
        for name in inputs:
            for side in ("above", "below"):
                known, asked, distance = halves(rows.inputs[0][:, names.index(name)], side)
                known = numpy.random.RandomState(1).permutation(known)
                cut = int(0.85 * len(known))
                (_, answer), _ = jobs.ours(rows, family, "ensemble", (known[:cut], known[cut:], asked), epochs=args.epochs)
                figures = jobs.conclude(answer, rows, family)
                lines = summary(figures["claim"] / figures["mib"], distance)
                found[f"{family}, {name}, {side}"] = lines
                out.write_text(json.dumps(found, indent=1) + "\n")
                print(family, name, side, *lines, sep="\n  ", flush=True)


if __name__ == "__main__":
    main()
