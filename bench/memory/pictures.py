# SPDX-License-Identifier: MIT
"""Pictures of score.py: SVG, told apart by marks and dashes as well as by colour."""

import matplotlib

matplotlib.use("svg")
matplotlib.rcParams["svg.hashsalt"] = "radrm"  # the same file from the same data
import matplotlib.pyplot as plt  # noqa: E402

MARKS = {"replay": ("o", "#1b1b1b"), "gpumemnet": ("s", "#7a7a7a"), "horus": ("^", "#4d7ea8"), "faketensor": ("x", "#b0552b")}


def save(figure, path):
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


def points(data, found, estimator):
    return [
        (data.truth[n]["nvml_mib"] / 1024, by[estimator]["comfort_mib"] / 1024) for n, by in found.items() if estimator in by
    ]


def scatter(folder, data, found):
    """Estimate against what NVML shows, an estimator a field."""
    names = [e for e in MARKS if any(e in by for by in found.values())]
    figure, fields = plt.subplots(1, len(names), figsize=(3.1 * len(names), 3.3), sharex=True, sharey=True, squeeze=False)
    for field, name in zip(fields[0], names):
        mark, colour = MARKS[name]
        pairs = points(data, found, name)
        field.plot([1, 100], [1, 100], color="black", linewidth=0.7)
        field.scatter(
            [x for x, _ in pairs],
            [min(max(y, 0.3), 400) for _, y in pairs],
            s=9,
            marker=mark,
            color=colour,
            linewidths=0.6,
            alpha=0.7,
        )
        field.set(xscale="log", yscale="log", xlim=(1, 100), ylim=(0.3, 400), title=name, xlabel="NVML (GiB)")
    fields[0][0].set_ylabel("estimate (GiB)")
    save(figure, folder / "estimates.svg")


def against(folder, data, found, estimator, number):
    """As figures 5.1 and 5.2 of the dissertation: actual and estimated memory, job by job."""
    pairs = sorted(points(data, found, estimator))
    figure, field = plt.subplots(figsize=(7, 2.8))
    field.plot([x for x, _ in pairs], color="black", linewidth=1.2, label="NVML")
    mark, colour = MARKS[estimator]
    field.scatter(
        range(len(pairs)), [min(y, 200) for _, y in pairs], s=6, marker=mark, color=colour, linewidths=0.6, label=estimator
    )
    field.set(yscale="log", xlabel="jobs, by what they take", ylabel="GiB")
    field.legend(frameon=False)
    save(figure, folder / f"figure-{number}-{estimator}.svg")


def differences(folder, data, found):
    """As figure 5.3: how far estimates are off, in GiB."""
    figure, field = plt.subplots(figsize=(7, 2.8))
    edges = [-40, -20, -10, -5, -2, -1, -0.5, 0.5, 1, 2, 5, 10, 20, 40]
    names = [e for e in MARKS if any(e in by for by in found.values())]
    for k, name in enumerate(names):
        pairs = points(data, found, name)
        counts = [0] * (len(edges) + 1)
        for truth, estimate in pairs:
            counts[sum(estimate - truth >= e for e in edges)] += 1
        shares = [100 * c / len(pairs) for c in counts]
        field.bar(
            [i + (k - (len(names) - 1) / 2) * 0.2 for i in range(len(counts))],
            shares,
            0.2,
            label=name,
            color=MARKS[name][1],
            hatch=("", "//", "..", "xx")[k],
            edgecolor="white",
            linewidth=0.3,
        )
    labels = [f"< {edges[0]}", *(f"{a} to {b}" for a, b in zip(edges, edges[1:])), f"> {edges[-1]}"]
    field.set_xticks(range(len(labels)), labels, rotation=40, ha="right", fontsize=7)
    field.set(xlabel="estimate less NVML (GiB)", ylabel="% of jobs")
    field.legend(frameon=False)
    save(figure, folder / "figure-5.3-differences.svg")


def over(folder, data, claims):
    """What claims of replay hold beyond what is taken: share of jobs up to each."""
    values = sorted(100 * (claims[n] / data.truth[n]["nvml_mib"] - 1) for n in claims)
    figure, field = plt.subplots(figsize=(4, 2.8))
    field.plot(values, [100 * (k + 1) / len(values) for k in range(len(values))], color="black", linewidth=1.2)
    field.axvline(0, color="black", linewidth=0.6, linestyle="--")
    field.set(xlabel="claim over NVML (%)", ylabel="% of jobs", xlim=(-10, 40), ylim=(0, 100))
    save(figure, folder / "claims.svg")


def draw(folder, data, found, claims):
    scatter(folder, data, found)
    for estimator, number in (("horus", "5.1"), ("faketensor", "5.2")):
        against(folder, data, found, estimator, number)
    differences(folder, data, found)
    over(folder, data, claims)
