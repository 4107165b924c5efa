#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Fits models/activity.h to what run_solo.py measured, and says how far off the model is.

    python3 fit_solo.py --captures FOLDER... --data FOLDER... [--write models/activity.h] [--show]

Needs numpy and scipy. Tasks of the families in HELD_OUT are never looked at here: score_solo.py scores on them what `rad estimate`
says. Among the others every family is left out once to choose what belongs into the model (--show): the errors printed are those
of families left out.
"""
import argparse
import json
import pathlib

import numpy as np
from scipy.optimize import least_squares

from load_model import CLASSES, COSTS, GPUS, HOST, UNITS, Model, Tasks, larger
from score_solo import HELD_OUT, lines_of


def measured(folder, captures, held_out=HELD_OUT):
    """Lines of tasks that were measured whole and captured, of the families that a fit may see, each with its capture."""
    lines = [{**l, "capture": captures / f"{l['name']}.radcap"} for l in lines_of(folder / "solo.jsonl")
             if l.get("step_s") and l.get("gract") is not None]
    return [l for l in lines if l["family"] not in held_out and l["capture"].exists()]


def first_guess():
    """Where fits begin, and what a class that no task has keeps."""
    classes, units = len(CLASSES), len(UNITS)
    guess = {"fixed_us": np.full(classes, 2.5), "memory": np.full(classes, 0.7), "compute": np.full((classes, units), 0.45),
             "turned_us": np.full(1, 3.0), "turned": np.full(1, 0.3), "grouped": np.full(1, 0.3), "uneven": np.full(units, 0.6),
             "deep": np.full(1, 512.0),
             "cache": np.full(1, 1.6), "channel": np.array([0.2, 2.0]), "window_ns": np.full(1, 0.4), "strips": np.array([0.02, 0.1, 0.1]),
             "taps": np.array([0.05, 0.1]), "gap_us": np.full(1, 1.0), "copy_gb_s": np.full(1, 9.4), "wait": np.full(1, 0.15),
             "host_us": np.array([12, 8, 6, 3, 8, 0.6, 3, 20, 8, 500]),
             "active": np.full(classes, 0.9), "lead_us": np.full(1, 1.0), "dram": np.array([0.3, 0.8]),
             "watts": np.array([0.1, 0.35, 0.3, 0.3])}
    for name in ("DEPTHWISE", "DEPTHWISE_WEIGHTS"):
        guess["memory"][CLASSES.index(name)] = 0.3
    return guess


KERNELS = ("fixed_us", "memory", "compute", "turned_us", "turned", "grouped", "uneven", "deep", "cache", "channel", "window_ns",
           "strips", "taps")
STAGES = (("gap_us",), ("host_us",), ("wait",), ("active", "lead_us"), ("dram",), ("watts",))


def pack(values, keys):
    return np.log(np.concatenate([values[key].ravel() for key in keys]))


def unpack(x, values, keys):
    out, at = dict(values), 0
    for key in keys:
        size = values[key].size
        out[key] = np.exp(x[at:at + size]).reshape(values[key].shape)
        at += size
    return out


def solve(values, keys, residuals, pull):
    """The values that make residuals(values) small, each drawn to its guess as far as nothing speaks against it."""
    start = pack(values, keys)
    before = residuals(values)
    moves = [n for n in range(len(start)) if not np.array_equal(before, residuals(unpack(nudged(start, n), values, keys)))]

    def whole(part):
        x = start.copy()
        x[moves] = part
        return x

    def all_of(part):
        return np.concatenate([residuals(unpack(whole(part), values, keys)), pull * (part - start[moves])])
    found = least_squares(all_of, start[moves], loss="soft_l1", f_scale=0.1, max_nfev=25)
    return unpack(whole(found.x), values, keys)


def nudged(x, n):
    """With one of its numbers a little larger: what does not move the residuals is not fitted."""
    x = x.copy()
    x[n] += 0.01
    return x


def column(lines, key):
    return np.array([l[key] if l.get(key) is not None else np.nan for l in lines], dtype=float)


# Operators as a profiler names them, by the classes of kernels that a capture counts for them: the first whose word is in the name.
GROUPS = (("PRODUCT", ("::mm", "::addmm", "::bmm", "::baddbmm")), ("ATTENTIVE", ("_attention",)),
          ("NORM CHANNEL_NORM", ("batch_norm", "layer_norm", "group_norm")),
          ("CONV_INPUT CONV_WEIGHTS DEPTHWISE DEPTHWISE_WEIGHTS", ("conv_depthwise2d", "convolution_backward")), ("CONV_OUT", ("conv",)),
          ("SOFTMAX", ("softmax", "nll_loss")),
          ("RECURRENT", ("_rnn",)), ("MANY", ("_foreach", "_fused_", "_amp_")), ("POOL", ("pool", "upsample")),
          ("GATHER SCATTER SORT", ("embedding", "index", "gather", "scatter")),
          ("REDUCE", ("::sum", "::mean", "::norm", "linalg_vector_norm", "::any", "::all", "::amax", "::max", "::argmax", "::var")),
          ("POINTWISE COPY", ("",)))
GROUP_OF = {name: n for n, (names, _) in enumerate(GROUPS) for name in names.split()}
CONVOLVED, BACK = GROUP_OF["CONV_OUT"], GROUP_OF["CONV_INPUT"]


def seen(lines, kernels):
    """Seconds of each task's kernels by group, NaN where they were not looked at."""
    table = np.full((len(lines), len(GROUPS)), np.nan)
    for n, line in enumerate(lines):
        if line["name"] not in kernels:
            continue
        table[n] = 0
        for operator, kernel, _, us, _ in kernels[line["name"]]:
            if "HtoD" not in kernel and "DtoH" not in kernel:
                table[n, next(g for g, (_, words) in enumerate(GROUPS) if any(w in operator for w in words))] += us * 1e-6
    return table


class Fit:
    """Measured tasks of one GPU, and what is fitted to them."""

    def __init__(self, lines, folders, gpu):
        self.lines, self.gpu = lines, gpu
        self.tasks = Tasks([l["capture"] for l in lines])
        kernels = {l["name"]: l["kernels"] for folder in folders if any(folder.glob("kernels.jsonl*"))
                   for l in lines_of(folder / "kernels.jsonl") if l.get("kernels")}
        self.seen = self.together(seen(lines, kernels))
        self.family = np.array([l["family"] for l in lines])
        for key in ("step_s", "host_s", "gract", "smact", "dram", "watts"):
            setattr(self, key, column(lines, key))
        self.group = np.array([GROUP_OF[name] for name in CLASSES])
        self.waits = self.tasks.host[:, HOST.index("waits")]
        self.copied = self.tasks.host[:, HOST.index("transferred")] / 9.4e9
        gaps = first_guess()["gap_us"][0] * 1e-6 * self.tasks.sum(self.tasks.count)
        self.busy = np.where(np.isnan(self.seen[:, 0]), self.gract * self.step_s - gaps, self.seen.sum(1))

    def by_group(self, model):
        t, n = self.tasks, len(self.lines)
        seconds = model.kernels(t, self.gpu) * t.count
        return self.together(np.bincount(t.task * len(GROUPS) + self.group[t.kind], seconds, n * len(GROUPS)).reshape(n, len(GROUPS)))

    def together(self, table):
        """Of depthwise convolutions a capture does not tell forward from backward: there all convolutions are one group."""
        mixed = self.tasks.sum(self.tasks.kind == CLASSES.index("DEPTHWISE")) > 0
        table[:, BACK] += np.where(mixed, table[:, CONVOLVED], 0)
        table[:, CONVOLVED] *= ~mixed
        return table

    def of_kernels(self, mask):
        """Of each group of them, and of all of a task together; where they were not looked at, the latter alone."""
        known = ~np.isnan(self.seen[mask, 0])
        seen, busy = self.seen[mask][known], self.busy[mask]
        weight = np.sqrt(seen / seen.sum(1, keepdims=True))

        def residuals(values):
            made = self.by_group(Model(values))[mask]
            return np.concatenate([(np.log((made[known] + 2e-6) / (seen + 2e-6)) * weight).ravel(), 2 * np.log(made.sum(1) / busy)])
        return residuals

    def of_stage(self, key, mask):
        def residuals(values):
            made = {k: v[mask] for k, v in Model(values).predict(self.tasks, self.gpu).items()}
            step = self.step_s[mask]
            if key == "gap_us":
                return np.log(made["busy"] / (self.gract * self.step_s)[mask])
            if key == "host_us":  # where it decides; of two measurements of the same thing the mean
                bound = ((self.gract < 0.8) & (self.waits == 0))[mask]
                both = np.sqrt(np.maximum(self.host_s[mask] - self.copied[mask], 1e-5) * np.maximum(step - self.copied[mask], 1e-5))
                return np.where(bound, np.log(made["host"] / both), np.minimum(np.log(step / made["host"]), 0))
            if key == "wait":
                return np.where(self.waits[mask] > 0, np.log(made["step"] / step), 0)
            if key == "watts":
                return (made["watts"] - self.watts[mask]) / self.watts[mask]
            name = {"active": "smact", "dram": "dram"}[key]
            return (made[name] - getattr(self, name)[mask]) * made["step"] / step
        return residuals

    def solve(self, mask):
        values = solve(first_guess(), KERNELS, self.of_kernels(mask), 0.25)
        for keys in STAGES:
            values = solve(values, keys, self.of_stage(keys[0], mask), 0.2 if keys == ("host_us",) else 0.05)
        return values

    def errors(self, values, mask):
        made = Model(values).predict(self.tasks, self.gpu)
        out = {"step": np.log(made["step"] / self.step_s), "busy": np.log(made["busy"] / (self.gract * self.step_s)),
               "watts": made["watts"] / self.watts - 1}
        out.update({key: made[key] - getattr(self, key) for key in ("gract", "smact", "dram")})
        return {key: e[mask] for key, e in out.items()}

    def replaced(self, values, mask):
        """Errors of steps where some of what makes them is put in as it was measured: whose fault they are."""
        model = Model(values)
        made = model.predict(self.tasks, self.gpu)
        rest = made["step"] - larger(made["busy"], made["host"])
        host, groups = np.maximum(self.host_s - rest, 1e-5), self.by_group(model)
        seen = made["busy"] + (self.seen - groups).sum(1)

        def off(busy, host):
            return np.log((larger(busy, host) + rest) / self.step_s)[mask]
        out = {"host": off(made["busy"], host), "kernels": off(seen, made["host"]), "both": off(seen, host),
               "another span": np.log(column(self.lines, "whole_s") / self.step_s)[mask]}
        for n, (names, _) in enumerate(GROUPS):
            out[names.split()[0]] = off(made["busy"] + self.seen[:, n] - groups[:, n], made["host"])
        return out

    def left_out(self):
        """Errors of each family by what was fitted to the others."""
        found = {}
        for family in sorted(set(self.family)):
            mask = self.family == family
            values = self.solve(~mask)
            replaced = {f"step, measured: {key}": e for key, e in self.replaced(values, mask).items()}
            for key, e in {**self.errors(values, mask), **replaced}.items():
                found.setdefault(key, np.full(len(self.lines), np.nan))[mask] = e
        return found


def told(errors):
    return {key: {"median": round(float(np.nanmedian(abs(e))), 3), "p90": round(float(np.nanquantile(abs(e), 0.9)), 3),
                  "bias": round(float(np.nanmedian(e)), 3)} for key, e in errors.items()}


def spread(e):
    """One standard deviation, as two of three errors show it."""
    e = abs(e[np.isfinite(e)])
    return float(np.quantile(e, 0.683)) if len(e) else 0.3


HEADER = """/* SPDX-License-Identifier: MIT
 *
 * Parameters of the load model (src/estimate/activity), which says what they do. Frozen: written by bench/hardware/fit_solo.py, by
 * hand only by mistake. A change is a new fit.
 *
 * Source: %(n)d training tasks of %(families)d families, each alone on one %(gpu)s, PyTorch 2.11, driver 580 (doc/results/load).
 * Spreads hold two of three tasks when each family is left out of the fit in turn. Errors are then, as logarithms: of a step
 * %(step)s, of SMACT %(smact)s.
 */
#ifndef RAD_MODELS_ACTIVITY_H
#define RAD_MODELS_ACTIVITY_H

"""


def spreads(rows):
    """Of what score_solo.py scored (its --json): by figure; of a step where the GPU decides, and where the host does."""
    def of(key, kept=lambda r: True):
        return spread(np.array([r["errors"][key] for r in rows if kept(r)]))

    def by_host(r):
        return r["load"]["host_s"] > r["load"]["busy_s"]
    return {"STEP": of("step", lambda r: not by_host(r)), "HOST": of("step", by_host), "GRACT": of("gract"), "SMACT": of("smact"),
            "DRAM": of("dram")}


def header(values, fit, out):
    """models/activity.h, with the spreads of families left out of the fit."""
    def number(v):
        return f"{float(v):.4g}"

    def row(items):
        return "{ " + ", ".join(number(v) for v in items) + " }"
    bound = fit.host_s > 0.9 * fit.step_s
    widths = {"STEP": spread(out["step"][~bound]), "HOST": spread(out["step"][bound]), "GRACT": spread(out["gract"]),
               "SMACT": spread(out["smact"]), "DRAM": spread(out["dram"])}
    text = HEADER % {"n": len(fit.lines), "families": len(set(fit.family)), "gpu": "NVIDIA H200",
                     **{key: f"median {np.nanmedian(abs(out[key])):.3f}, p90 {np.nanquantile(abs(out[key]), 0.9):.3f}"
                        for key in ("step", "smact")}}
    text += "#define ACTIVITY_FITTED \"H200\"\t/* its row of models/gpus.h */\n"
    text += "/* Wider by so much on another GPU, and for a capture that says it may go another way: judged, not measured. */\n"
    text += "#define ACTIVITY_OTHER_GPU 2\n#define ACTIVITY_DOUBTFUL 2\n"
    for name, v in widths.items():
        text += f"#define ACTIVITY_SPREAD_{name} {number(max(v, 0.02))}\n"
    singles = {"DEEP": "deep", "GROUPED": "grouped", "CACHE": "cache", "GAP_US": "gap_us", "LEAD_US": "lead_us", "WAIT": "wait",
               "COPY_GB_S": "copy_gb_s", "TURNED_US": "turned_us", "TURNED": "turned", "WINDOW_NS": "window_ns"}
    for name, key in singles.items():
        text += f"#define ACTIVITY_{name} {number(values[key][0])}\n"
    for names, key in ((("CHANNEL_NS", "CHANNEL_HALF"), "channel"), (("DRAM_SMALL", "DRAM_LARGE"), "dram"),
                       (("WATTS_GRACT", "WATTS_SMACT", "WATTS_DRAM", "WATTS_WORK"), "watts")):
        for name, v in zip(names, values[key]):
            text += f"#define ACTIVITY_{name} {number(v)}\n"
    text += "\n/* By enum capture_class: microseconds of any kernel; parts of the memory's bandwidth, of the SMs, of each unit's peak. */\n"
    text += "static const struct activity_class { double fixed_us, memory, active, compute[5]; } activity_classes[] = {\n"
    for n, name in enumerate(CLASSES):
        text += (f"\t{{ {number(values['fixed_us'][n])}, {number(values['memory'][n])}, {number(values['active'][n])}, "
                 f"{row(values['compute'][n])} }},\t/* {name} */\n")
    text += "};\n\n/* By enum capture_unit: of rows that do not begin at multiples of 16 bytes. */\n"
    text += f"static const double activity_uneven[] = {row(values['uneven'])};\n\n"
    text += ("/* Depthwise convolutions, parts of the peak in fp32: not channels last, channels last; "
             "of weights: the last in half precision. */\n")
    text += f"static const double activity_taps[] = {row(values['taps'])};\n"
    text += f"static const double activity_strips[] = {row(values['strips'])};\n\n"
    names = [*HOST[:COSTS], "recurrent", "step"]
    text += "/* Microseconds of the host. */\n"
    text += f"static const struct activity_host {{ double {', '.join(names)}; }} activity_host_us = {{\n\t"
    text += ", ".join(f".{name} = {number(v)}" for name, v in zip(names, values["host_us"])) + "\n};\n\n#endif\n"
    return text


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--captures", type=pathlib.Path, nargs="+", required=True, help="a folder for each of --data")
    p.add_argument("--data", type=pathlib.Path, nargs="+", required=True, help="folders of solo.jsonl, with kernels.jsonl or without")
    p.add_argument("--gpu", default="NVIDIA H200")
    p.add_argument("--write", type=pathlib.Path)
    p.add_argument("--spreads", type=pathlib.Path, metavar="FILE", help="only print the spreads of this file of score_solo.py")
    p.add_argument("--all", action="store_true", help="fit to those held out, too: what is shipped once they were scored")
    p.add_argument("--show", action="store_true", help="errors of families left out, one line each, and the tasks that are worst")
    args = p.parse_args()
    if args.spreads:
        print("\n".join(f"#define ACTIVITY_SPREAD_{k} {v:.4g}" for k, v in spreads(json.loads(args.spreads.read_text())["rows"]).items()))
        return
    lines = [l for data, captures in zip(args.data, args.captures, strict=True)
             for l in measured(data, captures, set() if args.all else HELD_OUT)]
    fit = Fit(lines, args.data, GPUS[args.gpu])
    everything = np.ones(len(fit.lines), dtype=bool)
    values = fit.solve(everything)
    print(len(fit.lines), "tasks;", "fitted:", json.dumps(told(fit.errors(values, everything))))
    out = fit.left_out() if args.show or args.write else None
    if args.show:
        print("families left out:", json.dumps(told(out)))
        for n in np.argsort(-abs(out["step"]))[:25]:
            print(f"{fit.lines[n]['name'][:64]:64s}", " ".join(f"{key} {e[n]:+.2f}" for key, e in out.items() if "," not in key))
    if args.write:
        args.write.write_text(header(values, fit, out))


if __name__ == "__main__":
    main()
