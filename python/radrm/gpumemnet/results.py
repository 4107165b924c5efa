# SPDX-License-Identifier: MIT
"""From finished trainings to what is kept: scores, the weights file, and figures for the test of the C code."""
import datetime
import hashlib
import json
import math
import pathlib

import numpy

from . import features, jobs, scores, weights
from .train import FOLDS

SHARES = (0.0, 0.5, 1.0)  # of the encoder in the answer
# What the C code is tested with: summaries of tests/summaries, as a user would name them.
CASES = (("vgg-torchsummary.txt", 16, "adam", "fp32"), ("inception-torchinfo.txt", 128, "sgd", None),
         ("mlp-torchinfo.txt", 256, None, None),
         ("mlp-torchsummary.txt", 4096, "adamw", "amp-bf16"), ("bert-classifier-printed.txt", 8, "adamw", "fp32"),
         ("gpt2-printed.txt", 2, "adamw", "bf16"), ("encoder-torchinfo.txt", 32, "momentum", "tf32"))


def _mixed(ensemble, encoder, share):
    if share in (0.0, 1.0):
        return encoder if share else ensemble
    return {**ensemble, "p": (1 - share) * ensemble["p"] + share * encoder["p"]}


def _surprise(answer, rows):
    """Mean of -log of the probability that the true bin was given, over all variants: lower is better."""
    y = numpy.log2(rows.mib[None, answer["at"]] / rows.reference[:, answer["at"]])
    at = numpy.clip(numpy.searchsorted(answer["edges"], y) - 1, 0, answer["p"].shape[2] - 1)
    weight = numpy.array([0.75, 0.25 / 3, 0.25 / 3, 0.25 / 3])
    found = numpy.take_along_axis(answer["p"], at[..., None], 2)[..., 0]
    return float((-numpy.log(found.clip(1e-9)).mean(1) * weight).sum())


def _share_of(of, results, rows):
    """The share whose answers on rows held out of the training (and of the test) are the least surprising."""
    def surprise(share):
        return sum(_surprise(_mixed(*(results[(of, "ours", kind, fold, 0)]["check"] for kind in ("ensemble", "encoder")), share), rows)
                   for fold in FOLDS)
    return min(SHARES, key=surprise)


def _ours(of, results, rows, family):
    """Scores of the ensemble, the encoder, and of what the product answers, over folds and on the 70/20/10 split."""
    share = _share_of(of, results, rows)
    out = {"share": share}
    for name, part in (("ensemble", 0.0), ("encoder", 1.0), ("product", share)):
        def figures(split, variant=0):
            answers = [results[(of, "ours", kind, split, 0)]["test"] for kind in ("ensemble", "encoder")]
            return jobs.conclude(_mixed(*answers, part), rows, family, variant)
        out[name] = {"folds": scores.all_of([figures(f) for f in FOLDS]), "split": None}
        if (of, "ours", "ensemble", "split", 0) in results:
            out[name]["split"] = scores.all_of([figures("split")])
        if name == "product":
            out["unknown"] = {v: scores.all_of([figures(f, i) for f in FOLDS])
                              for i, v in enumerate(("nothing", "optimizer", "precision", "both")) if i}
    return out


def _published(of, results, kind, step):
    def figures(split):
        return results[(of, "published", kind, split, step)]["figures"]
    whole = (of, "published", kind, "split", step) in results
    return {"folds": scores.all_of([figures(f) for f in FOLDS]), "split": scores.all_of([figures("split")]) if whole else None,
            "weights": figures("fold0")["weights"]}


def score(rows_of, results):
    out = {}
    for of in sorted({job[0] for job in results}):
        family, rows = of.split("/")[0].replace("a100", "mlp"), rows_of[of]
        taken = {step: {int(c): int(n) for c, n in zip(*numpy.unique(jobs.classes_of(rows.mib, step)[0], return_counts=True))}
                 for step in jobs.STEPS[family]}
        out[of] = {"rows": len(rows), "classes": taken, "ours": _ours(of, results, rows, family),
                   "published": {kind: {step: _published(of, results, kind, step) for step in jobs.STEPS[family]}
                                 for kind in ("ensemble", "encoder")}}
    return out


def nets_of(rows_of, results):
    """What the weights file holds: nets trained on all rows, the encoder's share as the folds showed it."""
    nets = {}
    for family in weights.FAMILIES:
        share = _share_of(family, results, rows_of[family])
        nets[family] = {"share": share, **{kind: results[(family, "ours", kind, "all", 0)]["about"] for kind in ("ensemble", "encoder")}}
    return nets


def expected(nets, tool, folder):
    """Answers of PyTorch for CASES, from the inputs that the C code makes."""
    out = []
    for name, batch, optimizer, precision in CASES:
        asked = {"summary": (pathlib.Path(folder) / name).read_text(), "batch_size": batch, "seq_len": 128}
        asked |= {k: v for k, v in (("optimizer", optimizer), ("precision", precision)) if v}
        said, = features.ask(tool, [asked])
        one = features.Rows(inputs=numpy.array([[said["inputs"]]], numpy.float32), reference=numpy.array([[said["reference_mib"]]]),
                            tokens=[numpy.array(said["tokens"], numpy.float32)], mib=numpy.array([1.0]))
        p = {kind: jobs.answers_of(nets[said["family"]][kind], one, [0], said["family"], kind)["p"][0, 0] for kind in
             ("ensemble", "encoder")}
        out.append({"summary": name, "batch_size": batch, "seq_len": 128, "optimizer": optimizer, "precision": precision,
                    "family": said["family"], "reference_mib": said["reference_mib"], **{k: [float(x) for x in v] for k, v in p.items()}})
    return out


def rounded(v):
    if isinstance(v, dict):
        return {str(k): rounded(x) for k, x in v.items()}
    if isinstance(v, list):
        return [rounded(x) for x in v]
    if isinstance(v, float):
        return None if math.isnan(v) else float(f"{v:.5g}")
    return v


def write(rows_of, results, args, out):
    nets = nets_of(rows_of, results)
    about = features.about(args.tool)
    blob = weights.file_of(nets, args.card, args.stack, about["tokens"], about["token"])
    (out / "weights.bin").write_bytes(blob)
    (out / "expected.json").write_text(json.dumps(expected(nets, args.tool, args.summaries), indent=0) + "\n")
    sizes = {f: {k: sum(w.numel() for w in nets[f][k]["net"].parameters()) for k in ("ensemble", "encoder")} for f in nets}
    bins = {f: len(nets[f]["ensemble"]["edges"]) - 1 for f in nets}
    data = {f: hashlib.sha256((pathlib.Path(args.data) / f"{f}.csv.gz").read_bytes()).hexdigest() for f in nets}
    report = {"date": datetime.date.today().isoformat(), "card": args.card, "stack": args.stack, "data_sha256": data,
              "weights_sha256": hashlib.sha256(blob).hexdigest(), "weights_bytes": len(blob), "parameters": sizes, "bins": bins,
              "trainings": len(results), "training_s": sum(r["seconds"] for r in results.values()), "scores": score(rows_of, results)}
    (out / "scores.json").write_text(json.dumps(rounded(report), indent=1) + "\n")
