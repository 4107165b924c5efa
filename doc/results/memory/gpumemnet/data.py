#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What is in GPUMemNet's data set (made by `python3 -m radrm.gpumemnet.dataset`): prints the tables of data.md, draws its pictures.

    data.py                the tables; standard library only
    data.py --pictures     and the pictures beside this file; needs numpy and matplotlib
"""
import argparse
import collections
import math
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[3]
sys.path.insert(0, str(ROOT / "python"))

from radrm.gpumemnet import dataset, specs, table  # noqa: E402

DATA = ROOT / "models" / "gpumemnet"
WEIGHTED = ("Linear", "Conv2d", "Conv1D", "Embedding", "MultiheadAttention")


def features(row):
    """What a summary says of a configuration, in numbers."""
    spec = row["spec"]
    layers = table.layers(spec)
    activations = sum(n for _, _, n in layers)
    return {"layers with weights": sum(name in WEIGHTED for name, _, _ in layers), "parameters": table.params(spec),
            "activations": activations, "batch": spec["batch"], "activations x batch": activations * spec["batch"],
            "optimizer states": specs.OPTIMIZERS[spec["optimizer"]],
            "bytes a value": 4 if spec["precision"] in ("fp32", "tf32") else 2}


def load():
    found = {}
    for name in (*specs.FAMILIES, "sweeps", "fresh"):
        found[name] = dataset.read(DATA / f"{name}.csv.gz")
        for row in found[name]:
            row["features"] = features(row)
    return found


def print_table(head, rows):
    print("| " + " | ".join(head) + " |")
    print("|---|" + "---:|" * (len(head) - 1))
    for row in rows:
        print("| " + " | ".join(map(str, row)) + " |")
    print()


# ---- tables ----

def bin_of(row, gib):
    return row["nvml_mib"] // (gib << 10)


def classes(data):
    print("## Rows by memory (`nvml_mib`)\n")
    rows = []
    for family in specs.FAMILIES:
        count = collections.Counter(bin_of(r, 8) for r in data[family])
        rows.append([family, len(data[family]), *(count[b] for b in range(7))])
    print_table(["family", "rows", *(f"{8 * b} to {8 * b + 8} GiB" for b in range(7))], rows)
    count = collections.Counter(bin_of(r, 1) for r in data["mlp"])
    print("MLPs in bins of 1 GiB: " + ", ".join(f"{b}: {count[b]}" for b in range(max(count) + 1)) + ".\n")
    largest = max(count.values()) / len(data["mlp"])
    print(f"The largest of these holds {largest:.0%} of the MLPs.\n")


def of_range(values):
    values = sorted(values)
    return f"{values[0]:,} to {values[-1]:,} (median {values[len(values) // 2]:,})"


def ranges(data):
    print("## Ranges\n")
    rows = []
    for name in ("layers with weights", "parameters", "activations", "batch"):
        rows.append([name, *(of_range(r["features"][name] for r in data[f]) for f in specs.FAMILIES)])
    rows.append(["outputs", *(of_range(r["classes"] for r in data[f]) for f in specs.FAMILIES)])
    rows.append(["memory, MiB (`nvml_mib`)", *(of_range(r["nvml_mib"] for r in data[f]) for f in specs.FAMILIES)])
    print_table(["", *specs.FAMILIES], rows)
    for family in specs.FAMILIES:
        over = sorted(r["reserved_mib"] / r["allocated_mib"] for r in data[family])
        print(f"reserved over allocated, {family}: median {over[len(over) // 2]:.2f}, 95 % below "
              f"{over[len(over) * 95 // 100]:.2f}, largest {over[-1]:.2f}  ")
    for key in ("shape", "optimizer", "precision"):
        for family in specs.FAMILIES:
            count = collections.Counter(r[key] for r in data[family])
            print(f"{key}, {family}: " + ", ".join(f"{k} {n}" for k, n in sorted(count.items())) + "  ")
    print()


def ranks(values):
    order = sorted(range(len(values)), key=values.__getitem__)
    out, i = [0.0] * len(values), 0
    while i < len(order):
        k = i
        while k < len(order) and values[order[k]] == values[order[i]]:
            k += 1
        for n in order[i:k]:
            out[n] = (i + k - 1) / 2
        i = k
    return out


def correlation(a, b):
    mean_a, mean_b = sum(a) / len(a), sum(b) / len(b)
    over = sum((x - mean_a) * (y - mean_b) for x, y in zip(a, b))
    under = math.sqrt(sum((x - mean_a) ** 2 for x in a) * sum((y - mean_b) ** 2 for y in b))
    return over / under if under else 0.0


def correlations(data):
    print("## Rank correlation (Spearman) with `nvml_mib`\n")
    memory = {f: ranks([r["nvml_mib"] for r in data[f]]) for f in specs.FAMILIES}
    rows = []
    for name in data["mlp"][0]["features"]:
        rows.append([name, *(f"{correlation(ranks([r['features'][name] for r in data[f]]), memory[f]):+.2f}"
                             for f in specs.FAMILIES)])
    print_table(["", *specs.FAMILIES], rows)


def agreement(data):
    print("## How sure the labels are\n")
    again = {r["id"]: r for f in specs.FAMILIES for r in data[f]}
    pairs = [(r, again[r["id"]]) for r in data["fresh"] if r["id"] in again]
    same = sum(a["reserved_mib"] == b["reserved_mib"] for a, b in pairs)
    worst = max(abs(a["reserved_mib"] - b["reserved_mib"]) for a, b in pairs)
    print(f"- {len(pairs)} configurations were measured twice, in a process of their own and in one that had measured others "
          f"before: `reserved_mib` is the same for {same}, at most {worst} MiB apart.")
    outside = collections.defaultdict(collections.Counter)
    for r in data["fresh"]:
        outside[dataset.outside_mib(r["family"], r["precision"])][r["outside_mib"]] += 1
    for taken, found in sorted(outside.items()):
        print(f"- Outside the allocator, where {taken} MiB is taken: "
              + ", ".join(f"{n} x {mib}" for mib, n in sorted(found.items())) + " MiB in fresh processes.")
    off = [r["nvml_mib"] - (r["reserved_mib"] + dataset.outside_mib(r["family"], r["precision"])) for r in data["fresh"]]
    print(f"- So `nvml_mib` as it is defined is between {max(off)} MiB below and {-min(off)} MiB above what NVML showed for "
          f"those {len(off)}.")
    late = [r["outside_mib"] for f in specs.FAMILIES for r in data[f]]
    usual = [n for n in late if n < 1000]
    print(f"- In long-lived processes it was {min(usual)} to {max(usual)} MiB, and {len(late) - len(usual)} times "
          f"{min(n for n in late if n >= 1000)} to {max(late)} MiB.")
    all_ = [r for f in specs.FAMILIES for r in data[f]]
    grew = [r for r in all_ if r["reserved_mib"] > r["second_mib"]]
    print(f"- The third step raised the peak of {len(grew)} of {len(all_)} rows ({len(grew) / len(all_):.1%}).\n")


# ---- pictures ----

def _axes(plt, n, width=5.0, height=3.6):
    figure, axes = plt.subplots(1, n, figsize=(width * n, height), layout="constrained", squeeze=False)
    for axis in axes[0]:
        axis.spines[["top", "right"]].set_visible(False)
    return figure, axes[0]


def _save(plt, figure, name):
    plt.rcParams["svg.hashsalt"] = name
    path = HERE / name
    figure.savefig(path, metadata={"Date": None} if name.endswith("svg") else {"Software": None}, dpi=85)
    plt.close(figure)


def staircase(plt, data):
    """Figure 5.4."""
    figure, axes = _axes(plt, 2)
    lines = collections.defaultdict(list)
    for r in data["sweeps"]:
        if r["batch_size"] == 32:
            lines[len(r["spec"]["widths"])].append((r["spec"]["widths"][0], r["reserved_mib"], r["allocated_mib"]))
    for depth, points in sorted(lines.items()):
        widths, reserved, allocated = zip(*sorted(points))
        line, = axes[0].plot(widths, [m / 1024 for m in reserved], marker=".", lw=1, label=f"{depth} layers")
        axes[0].plot(widths, [m / 1024 for m in allocated], color=line.get_color(), lw=0.7, ls=":")
        if depth == 32:
            axes[1].plot(widths, [r - a for r, a in zip(reserved, allocated)], marker=".", lw=1, color=line.get_color(),
                         label="32 layers: reserved less allocated")
    axes[0].set(xlabel="neurons a layer", ylabel="GiB (line: reserved, dots: allocated)")
    axes[1].set(xlabel="neurons a layer", ylabel="MiB")
    for axis in axes:
        axis.legend(frameon=False)
    _save(plt, figure, "staircase.svg")


def batches(plt, data):
    """Figure 5.5."""
    figure, (axis,) = _axes(plt, 1)
    lines = collections.defaultdict(list)
    for r in data["sweeps"]:
        lines[r["spec"]["widths"][0], len(r["spec"]["widths"])].append((r["batch_size"], r["reserved_mib"]))
    for (width, depth), points in sorted(lines.items()):
        if len(points) > 5:
            axis.plot(*zip(*sorted(points)), marker=".", label=f"{depth} layers of {width}")
    axis.set(xlabel="batch size", ylabel="MiB reserved", xscale="log", yscale="log")
    axis.legend(frameon=False)
    _save(plt, figure, "batch.svg")


def histograms(plt, data):
    figure, axes = _axes(plt, 3, 4.2, 2.8)
    for axis, family in zip(axes, specs.FAMILIES):
        axis.hist([r["nvml_mib"] / 1024 for r in data[family]], bins=range(0, 58), color="#4477aa")
        axis.set(title=f"{family}: {len(data[family])} rows", xlabel="GiB", ylabel="rows")
    _save(plt, figure, "classes.svg")


def principal(np, rows):
    """Rows on the first two principal components of their features' logarithms, each scaled to unit variance; and the share of
    variance that the two hold."""
    names = [n for n in rows[0]["features"]]
    x = np.array([[math.log1p(r["features"][n]) for n in names] for r in rows])
    x = (x - x.mean(0)) / np.where(x.std(0) > 0, x.std(0), 1)
    _, s, v = np.linalg.svd(x, full_matrices=False)
    return x @ v[:2].T, (s[:2] ** 2).sum() / (s ** 2).sum()


def affinities(np, x, perplexity=30):
    """How near each row takes each other one to be (van der Maaten and Hinton, Visualizing Data using t-SNE, section 2)."""
    square = ((x[:, None] - x[None]) ** 2).sum(-1)
    low, high, beta = np.zeros(len(x)), np.full(len(x), np.inf), np.ones(len(x))
    for _ in range(50):  # each row's width by bisection, until its entropy is that of `perplexity` neighbours
        p = np.exp(-(square - np.partition(square, 1, 1)[:, 1:2]) * beta[:, None])
        np.fill_diagonal(p, 0)
        p /= p.sum(1, keepdims=True)
        wide = -(p * np.log(np.maximum(p, 1e-300))).sum(1) > math.log(perplexity)
        low, high = np.where(wide, beta, low), np.where(wide, high, beta)
        beta = np.where(np.isinf(high), beta * 2, (low + np.where(np.isinf(high), 0, high)) / 2)
    return (p + p.T) / (2 * len(x))


def neighbours(np, rows, steps=300):
    """t-SNE in two dimensions, from the principal components on: the same picture every time."""
    start, _ = principal(np, rows)
    names = [n for n in rows[0]["features"]]
    x = np.array([[math.log1p(r["features"][n]) for n in names] for r in rows])
    x = (x - x.mean(0)) / np.where(x.std(0) > 0, x.std(0), 1)
    p, y, speed = affinities(np, x), start * 1e-2 / start.std(), 0
    for step in range(steps):
        q = 1 / (1 + ((y[:, None] - y[None]) ** 2).sum(-1))
        np.fill_diagonal(q, 0)
        w = ((12 if step < 120 else 1) * p - q / q.sum()) * q
        speed = (0.5 if step < 120 else 0.8) * speed - 4 * len(x) / 12 * (w.sum(1)[:, None] * y - w @ y)
        y = y + speed
    return y


def maps(plt, np, data):
    """Figures 5.6, 5.8, 5.9 and 5.10, above by principal components, below by t-SNE."""
    figure, axes = plt.subplots(2, 4, figsize=(17, 7.6), layout="constrained")
    shown_as = (("sweeps", 1, "5.6"), ("mlp", 1, "5.8"), ("cnn", 8, "5.9"), ("transformer", 8, "5.10"))
    for (name, gib, number), column in zip(shown_as, axes.T):
        rows = data[name]
        colour = [min(bin_of(r, gib), 12 if gib == 1 else 6) for r in rows]
        at, share = principal(np, rows)
        for axis, points in zip(column, (at, neighbours(np, rows))):
            shown = axis.scatter(points[:, 0], points[:, 1], c=colour, s=7, cmap="viridis", linewidths=0, rasterized=True)
            axis.set(xticks=[], yticks=[])
        column[0].set_title(f"{name}, as figure {number} (PCA: {share:.0%})", fontsize=10)
        figure.colorbar(shown, ax=column, label=f"memory, bins of {gib} GiB" + (" (12: and above)" if gib == 1 else ""))
    _save(plt, figure, "maps.png")


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--pictures", action="store_true")
    args = p.parse_args()
    data = load()
    for part in (classes, ranges, correlations, agreement):
        part(data)
    if args.pictures:
        import matplotlib
        import numpy
        matplotlib.use("svg")
        from matplotlib import pyplot
        for draw in (staircase, batches, histograms):
            draw(pyplot, data)
        maps(pyplot, numpy, data)


if __name__ == "__main__":
    main()
