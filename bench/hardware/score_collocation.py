#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What collocation gains and costs, from what run_collocation.py measured: the tables and pictures of doc/results/collocation.

    python3 score_collocation.py doc/results/collocation/*.jsonl.gz [--page doc/results/collocation]

Beside each row stands the figure or table of the dissertation's chapter 4 that it measures again.
"""
import argparse
import pathlib
import statistics

import collocation_plan as plan
import pages
import score_mixes
import svg
from collocation_read import Study, energy_per_work, times_to_finish

MODES = ("mps", "streams", "percent")
FIGURES = {"resnet26-c128": "4.1", "effnet-m128": "4.2", "vit-l128": "4.3", "resnet26-c32": "4.7", "effnet-c128": "4.8",
           "resnet50-m32": "4.9", "resnet50-m128": "4.10", "resnet152-l32": "4.11", "resnet152-l128": "–"}
WORDS = {"mps": "MPS", "streams": "streams", "percent": "MPS, parts of the SMs"}
# Table 4.2 of the dissertation: hours of recommender and ResNet152, alone and together.
PUBLISHED = {"alone": (5.36, 1.05), "streams": (6.09, 1.11), "mps": (5.57, 1.10)}


def number(v, digits=2):
    return None if v is None else f"{v:.{digits}f}"


def degrees(study):
    return sorted({d for name in FIGURES for mode in MODES for d in study.copies(mode, name)})


def uniform_table(study):
    """STP by degree: how much more the GPU does than for one task at a time."""
    some = [d for d in (1, 2, 3, 7) if d in degrees(study)]
    rows = []
    for name, figure in FIGURES.items():
        for mode in MODES:
            points = study.copies(mode, name)
            if len(points) > 1:
                rows.append([figure, name, WORDS[mode], *(number(points[d]["stp"]) if d in points else None for d in some)])
    return pages.table(["figure", "task", "mode", *(f"{d} at a time" if d > 1 else "alone" for d in some)], rows)


def copies_table(study):
    rows = []
    for name in FIGURES:
        for mode in MODES:
            for degree, p in sorted(study.copies(mode, name).items()):
                loads, mean = p["loads"], sum(p["relative"]) / degree
                rows.append([name, WORDS[mode], degree, number(sum(p["steps_s"]) / degree, 1), number(1 / mean),
                             number(1 / min(p["relative"])), *(number(loads[k]) for k in ("gract", "smact", "smocc", "dram")),
                             number(loads["pcie_rx_mib_s"], 0), number(loads["watts"], 0), number(energy_per_work(p), 0)])
    return pages.table(["task", "mode", "copies", "steps/s of each", "step's time, against alone", "of the slowest", "GRACT", "SMACT",
                        "SMOCC", "DRAM", "PCIe to the GPU (MiB/s)", "W", "J for a second's work"], rows)


def crowd_table(study, name="resnet26-c32"):
    rows = []
    for degree in degrees(study):
        points = [study.copies(mode, name).get(degree) for mode in ("mps", "streams")]
        if all(points):
            rows.append([degree, *(number(p["stp"]) for p in points), *(number(energy_per_work(p), 0) for p in points),
                         *(number(p["loads"]["pcie_rx_mib_s"], 0) for p in points), *(number(p["loads"]["watts"], 0) for p in points)])
    return pages.table(["copies", "STP, MPS", "streams", "J for a second's work, MPS", "streams", "PCIe to the GPU (MiB/s), MPS", "streams",
                        "W, MPS", "streams"], rows)


def memory_table(study):
    """The GPU's own count of what it has in use, before and after models are built in processes that are there."""
    rows, first = [], {}
    for b in study.built:
        if b["failed"] or None in b["used_mib"]:
            continue
        each = (b["used_mib"][1] - b["used_mib"][0]) / len(b["built"])
        if len(b["built"]) == 1:
            first[b["mode"], b["built"][0]] = each
        elif len(set(b["built"])) == 1 and (b["mode"], b["built"][0]) in first:
            name, one = b["built"][0], first[b["mode"], b["built"][0]]
            rows.append([name, WORDS[b["mode"]], len(b["built"]) + 1, number(one, 0), number(each, 0), f"{each / one - 1:+.1%}"])
    return pages.table(["task", "mode", "copies", "the first (MiB)", "each of the others", "apart"], rows)


def alone_minutes(run, works):
    return sum(steps / run.best(name) for name, steps in works) / 60


def alone_joules(run, works):
    """One after the other, each as fast as it was alone at its best; None where a GPU did not tell watts."""
    watts = [run.load(name).get("watts") for name, _ in works]
    return sum(w * steps / run.best(name) for w, (name, steps) in zip(watts, works)) if all(watts) else None


SHORT = {plan.S: "S", plan.M: "M", plan.L: "L"}


def mixed_table(study):
    rows = []
    for mix in plan.MIXES:
        works = [(name, 2 * plan.EPOCH[name]) for name in mix]
        for mode in ("mps", "streams"):
            p = study.together(mode, mix)
            done = p and times_to_finish(p["run"], mode, works)
            if not done:
                continue
            ends, joules = done
            serial, own = alone_minutes(p["run"], works), alone_joules(p["run"], works)
            rows.append(["+".join(SHORT[m] for m in mix), WORDS[mode], number(p["stp"]), " ".join(f"{r:.2f}" for r in p["relative"]),
                         number(serial, 1), number(max(ends) / 60, 1), f"{max(ends) / 60 / serial - 1:+.0%}",
                         f"{joules / own - 1:+.0%}" if joules and own else None, number(p["loads"]["smact"])])
    return pages.table(["mix", "mode", "STP", "speeds", "serial (min)", "together (min)", "time", "energy", "SMACT with all"], rows)


def recommender_table(study):
    """Table 4.2 with the same lengths: ResNet152 for one epoch, the recommender for 5.36 / 1.05 of its time."""
    name, other = plan.L, "recommender"
    points = {mode: p for mode in ("streams", "mps") if (p := study.together(mode, [name, other]))}
    if not points:
        return "Not measured yet."
    run = next(iter(points.values()))["run"]  # a group is measured on one host
    epoch = plan.EPOCH[name]
    other_s = epoch / run.best(name) * PUBLISHED["alone"][0] / PUBLISHED["alone"][1]
    works = [(name, epoch), (other, run.best(other) * other_s)]
    serial = alone_minutes(run, works) / 60
    rows = [["one after the other", *(f"{h:.2f}" for h in PUBLISHED["alone"]), f"{sum(PUBLISHED['alone']):.2f}", number(other_s / 3600),
             number(epoch / run.best(name) / 3600), number(serial), None, None, None, None]]
    for mode, p in points.items():
        done = times_to_finish(run, mode, works)
        if not done:
            continue
        (resnet, recommender), _ = done
        total, loads = max(done[0]) / 3600, run.alone[mode, other]["loads"]
        rows.append([WORDS[mode], *(f"{h:.2f}" for h in PUBLISHED[mode]), f"{max(PUBLISHED[mode]):.2f} "
                     f"({max(PUBLISHED[mode]) / sum(PUBLISHED['alone']) - 1:+.0%})", number(recommender / 3600), number(resnet / 3600),
                     f"{total:.2f} ({total / serial - 1:+.0%})", " and ".join(number(r) for r in p["relative"]),
                     number(p["loads"]["smact"]), number(loads["gract"], 3), number(loads["smact"], 3)])
    return pages.table(["", "recommender (h), published", "ResNet152", "total", "recommender (h), here", "ResNet152", "total",
                        "speeds of ResNet152 and recommender", "SMACT together", "recommender's GRACT alone", "its SMACT"], rows)


def cores_table(study):
    rows = []
    for p in study.points:
        if p["group"] == "jpegs":
            rows.append([p["cores"] or p["run"].head.get("cores"), len(p["tasks"]), number(sum(p["steps_s"]), 1), number(p["stp"]),
                         number(p["loads"]["smact"]), number(p["loads"]["host_cpu"], 1)])
    return pages.table(["cores", "copies", "steps/s together", "STP", "SMACT", "cores busy"], sorted(rows)) if rows else "Not measured yet."


def law_table(study):
    """Speeds by src/share from GRACT and SMACT alone, against these: none of them was seen by its fit."""
    rows = []
    for mode in ("mps", "streams"):
        errors, mixes = [], 0
        for p in study.points:
            if p["mode"] == mode and len(p["tasks"]) > 1 and not p["cores"]:
                loads = [p["run"].load(n) for n in p["tasks"]]
                told = score_mixes.speeds(mode, score_mixes.frozen()[mode],
                                          [(*score_mixes.clamp((a["gract"], a["smact"])), None) for a in loads])
                errors += [t / min(1, r) - 1 for t, r in zip(told, p["relative"])]
                mixes += 1
        if errors:
            size = [abs(e) for e in errors]
            rows.append([WORDS[mode], mixes, len(errors), f"{statistics.median(size):.1%}", f"{score_mixes.quantile(size, 0.9):.1%}",
                         f"{statistics.median(errors):+.1%}"])
    return pages.table(["mode", "points", "speeds", "median error", "p90", "median, signed"], rows)


def missing_text(study):
    left = [f"{group.name} ({WORDS[mode]})" for group in plan.GROUPS for mode in group.modes if (mode, group.name) not in study.done]
    return ("Not measured yet: " + "; ".join(left) + ".") if left else "Nothing of the plan is missing."


def draw_copies(study, path):
    names = [n for n in FIGURES if any(len(study.copies(m, n)) > 1 for m in MODES)]
    plots = []
    for k, name in enumerate(names):
        lines = {mode: sorted((d, p["stp"]) for d, p in study.copies(mode, name).items()) for mode in MODES}
        most = max(d for line in lines.values() for d, _ in line)
        high = max(v for line in lines.values() for _, v in line)
        plot = svg.Plot(k, 3, f"{name} (figure {FIGURES[name]})", "copies", "STP", (0, most + 1), (0, max(2, high * 1.08)))
        for n, mode in enumerate(MODES):
            plot.line(n, lines[mode])
        plots.append(plot)
    path.write_text(svg.plots_document(plots, 3, [WORDS[m] for m in MODES], "Throughput of copies of a task"))


def draw_small(study, path, name="resnet26-c32"):
    plots = []
    fields = (("pcie_rx_mib_s", "PCIe to the GPU (figure 4.4)", "MiB/s"), ("watts", "power (figure 4.6)", "W"))
    series = [(title, unit, {m: sorted((d, p["loads"][key]) for d, p in study.copies(m, name).items() if p["loads"][key] is not None)
                             for m in MODES}) for key, title, unit in fields]
    series.append(("energy for a second's work (figure 4.5)", "J", {
        m: sorted((d, e) for d, p in study.copies(m, name).items() if (e := energy_per_work(p))) for m in MODES}))
    for k, (title, unit, lines) in enumerate(series):
        high = max((v for line in lines.values() for _, v in line), default=1)
        most = max((d for line in lines.values() for d, _ in line), default=1)
        plot = svg.Plot(k, 3, title, f"copies of {name}", unit, (0, most + 1), (0, high * 1.08))
        for n, mode in enumerate(MODES):
            plot.line(n, lines[mode])
        plots.append(plot)
    path.write_text(svg.plots_document(plots, 3, [WORDS[m] for m in MODES], f"PCIe, power and energy of copies of {name}"))


def main():
    p = argparse.ArgumentParser(description="Make tables and pictures of what run_collocation.py measured.")
    p.add_argument("files", nargs="+", metavar="FILE")
    p.add_argument("--page", metavar="FOLDER", help="fill its README.md, and draw its pictures")
    args = p.parse_args()
    study = Study(args.files)
    made = {"uniform": uniform_table(study), "crowd": crowd_table(study), "mixed": mixed_table(study),
            "recommender": recommender_table(study), "memory": memory_table(study), "cores": cores_table(study),
            "law": law_table(study), "copies": copies_table(study), "missing": missing_text(study)}
    if not args.page:
        print("\n\n".join(f"{name}\n\n{text}" for name, text in made.items()))
        return
    folder = pathlib.Path(args.page)
    pages.fill(folder / "README.md", made)
    draw_copies(study, folder / "copies.svg")
    draw_small(study, folder / "small.svg")


if __name__ == "__main__":
    main()
