#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""models/conv_scratch.h: when cuDNN copies the tensors of a convolution of one tap, learnt from what scratch.py measured:

    learn_scratch.py SCRATCH-*.jsonl.gz > models/conv_scratch.h

A decision tree (CART, Gini) for each direction and width of element. Nothing but convolutions drawn at random takes part. Prints what
the trees are right about, learnt on one half and asked about the other, to stderr. Standard library only.
"""

import argparse
import gzip
import json
import sys

FEATURES = ("batch", "in", "out", "pixels", "out_pixels", "strided", "weight_kib", "pixels_mod_8")
LEAVES, LEAST = 20, 10
NONE, COPIES, SUMS = 0, 1, 2
NAMES = ("SCRATCH_NONE", "SCRATCH_COPIES", "SCRATCH_SUMS")


def rows(paths):
    """(half, direction) -> [(features, class)]"""
    found = {}
    for path in paths:
        for line in gzip.open(path, "rt"):
            c = json.loads(line)
            if c["kernel"] != [1, 1] or c["groups"] != 1 or c["last"] or c["in"][0] <= 4 or c["stride"] > 2 or "forward" not in c:
                continue
            half, batch = c["type"] != "tf32", c["batch"]
            element = 2 if half else 4
            (into, side, _), (out, after, _) = c["in"], c["out"]
            io = element * batch * (into * side * side + out * after * after)
            weight = into * out * element
            x = (batch, into, out, side * side, after * after, int(side != after), weight >> 10, side * side % 8)
            for direction in ("forward", "input", "weights"):
                took = c[direction]
                sums = batch * into * out * 4
                kind = NONE if took < 0.15 * io else COPIES if abs(took / io - 1) < 0.3 or direction != "weights" else SUMS
                if direction == "weights" and kind != NONE and abs(took - sums) < abs(took - io):
                    kind = SUMS
                found.setdefault((half, direction), []).append((x, kind))
    return found


def impurity(counts):
    n = sum(counts)
    return n - sum(k * k for k in counts) / n if n else 0.0


def best_split(part):
    """(gain, feature, threshold); in whole numbers: x <= threshold goes left."""
    whole = [sum(y == k for _, y in part) for k in range(3)]
    best = (0.0, 0, 0)
    for f in range(len(FEATURES)):
        order = sorted(part, key=lambda r: r[0][f])
        left, n = [0, 0, 0], len(order)
        for i in range(n - 1):
            left[order[i][1]] += 1
            if order[i][0][f] == order[i + 1][0][f] or i + 1 < LEAST or n - i - 1 < LEAST:
                continue
            gain = impurity(whole) - impurity(left) - impurity([a - b for a, b in zip(whole, left)])
            if gain > best[0] + 1e-9:
                best = (gain, f, (order[i][0][f] + order[i + 1][0][f]) // 2)
    return best


def grow(part):
    """Nodes [feature, threshold, left, right] or [class]; the most useful split first, until LEAVES."""
    nodes, open_ = [None], [(0, part, best_split(part))]
    leaves = 1
    while leaves < LEAVES and any(s[0] > 0 for _, _, s in open_):
        at = max(range(len(open_)), key=lambda i: open_[i][2][0])
        node, part, (_, f, threshold) = open_.pop(at)
        sides = [r for r in part if r[0][f] <= threshold], [r for r in part if r[0][f] > threshold]
        nodes[node] = [f, threshold, len(nodes), len(nodes) + 1]
        for side in sides:
            open_.append((len(nodes), side, best_split(side)))
            nodes.append(None)
        leaves += 1
    for node, part, _ in open_:
        counts = [sum(y == k for _, y in part) for k in range(3)]
        nodes[node] = [counts.index(max(counts))]
    return nodes


def ask(nodes, x):
    at = 0
    while len(nodes[at]) > 1:
        f, threshold, left, right = nodes[at]
        at = left if x[f] <= threshold else right
    return nodes[at][0]


def main():
    parser = argparse.ArgumentParser(description="Learn when cuDNN copies, from what scratch.py measured.")
    parser.add_argument("files", nargs="+", metavar="SCRATCH.jsonl.gz")
    found = rows(parser.parse_args().files)
    print("/* SPDX-License-Identifier: MIT\n *\n * Made by bench/memory/learn_scratch.py from "
          "doc/results/memory/scratch.jsonl.gz: not for editing. */")
    print("#ifndef RAD_MODELS_CONV_SCRATCH_H\n#define RAD_MODELS_CONV_SCRATCH_H\n\n#include <stdint.h>\n")
    print("enum scratch_kind { SCRATCH_NONE, SCRATCH_COPIES, SCRATCH_SUMS };\n")
    words = [f"SCRATCH_{f.upper()}," for f in (*FEATURES, "features")]
    print("enum scratch_feature {\n\t" + " ".join(words[:7]) + "\n\t" + " ".join(words[7:]) + "\n};\n")
    print("/* x[feature] <= threshold: go to node `left`, else to `left` + 1; `left` 0: a leaf, of kind `threshold`. */")
    print("struct scratch_node { uint8_t feature, left; uint32_t threshold; };\n")
    names = {}
    for (half, direction), of in sorted(found.items()):
        parts = of[::2], of[1::2]
        right = sum(ask(grow(parts[i]), x) == y for i in (0, 1) for x, y in parts[1 - i])
        print(f"{'half' if half else 'tf32'} {direction}: {right / len(of):.3f} of {len(of)}", file=sys.stderr)
        name = names[half, direction] = f"scratch_{'half' if half else 'full'}_{direction}"
        nodes = grow(of)
        cells = [f"{{ {n[0]}, {n[2]}, {n[1]} }}" if len(n) > 1 else f"{{ 0, 0, {NAMES[n[0]]} }}" for n in nodes]
        print(f"static const struct scratch_node {name}[] = {{")
        for i in range(0, len(cells), 4):
            print("\t" + ", ".join(cells[i : i + 4]) + ",")
        print("};\n")
    print("/* By element (fp32 with TF32, half) and direction (forward, input, weights). */")
    print("static const struct scratch_node *const scratch_trees[2][3] = {")
    for half in (False, True):
        print("\t{ " + ", ".join(names[half, d] for d in ("forward", "input", "weights")) + " },")
    print("};\n\n#endif")


if __name__ == "__main__":
    main()
