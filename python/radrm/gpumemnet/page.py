# SPDX-License-Identifier: MIT
"""Writes the page of results from scores.json (train.py) and real.json (real.py), which lie in the folder named:

    python3 -m radrm.gpumemnet.page doc/results/memory/gpumemnet
"""
import argparse
import json
import pathlib

# As printed by the dissertation: accuracy, precision, recall, F1, by (family, net, GiB a bin): tables 5.3, 5.5 and 5.7.
PRINTED = {("mlp", "ensemble", "1"): (0.9542, 0.9251, 0.9542, 0.9386), ("mlp", "ensemble", "2"): (0.9706, 0.9621, 0.9706, 0.9662),
           ("mlp", "encoder", "1"): (0.9673, 0.9599, 0.9673, 0.9634), ("mlp", "encoder", "2"): (0.9804, 0.9707, 0.9804, 0.9755),
           ("cnn", "ensemble", "8"): (0.8825, 0.8816, 0.8825, 0.8803), ("cnn", "encoder", "8"): (0.8449, 0.8443, 0.8431, 0.8431),
           ("transformer", "ensemble", "8"): (0.8552, 0.8524, 0.8552, 0.8494),
           ("transformer", "encoder", "8"): (0.8650, 0.8650, 0.8650, 0.8596)}
FAMILIES = {"mlp": "MLPs", "cnn": "CNNs", "transformer": "Transformers"}
COLUMNS = ("accuracy", "balanced_accuracy", "precision", "recall", "f1", "under")


def _percent(v):
    return f"{100 * v:.1f}"


def _table(head, rows):
    return ["| " + " | ".join(head) + " |", "|---|" + "---:|" * (len(head) - 1), *("| " + " | ".join(row) + " |" for row in rows), ""]


def _cells(said):
    return [_percent(said[c]) for c in COLUMNS]


def _classification(scores, of, part, who=("published", "ours")):
    head = ("nets", "GiB a bin", "accuracy", "balanced", "precision", "recall", "F1", "under")
    rows = []
    for step in scores[of]["classes"]:
        if "published" in who:
            for kind in ("ensemble", "encoder"):
                found = scores[of]["published"][kind][step][part]
                rows.append([f"published {kind}", step, *_cells(found["bins"][step]["said"])])
        for kind in ("ensemble", "encoder", "product"):
            found = scores[of]["ours"][kind][part]
            name = "**ours, as shipped**" if kind == "product" else f"our {kind}"
            rows.append([name, step, *_cells(found["bins"][step]["said"])])
    return _table(head, rows)


def _claims(scores, of):
    head = ("who claims", "under, %", "95 % interval", "worst under, %", "median over, %", "p95 over, %", "median error, %", "p95 error, %")

    def row(name, c):
        return [name, _percent(c["under"]), " to ".join(map(_percent, c["under_interval"])), _percent(min(c["worst_under"], 0)),
                _percent(c["median_over"]), _percent(c["p95_over"]), _percent(c["median_error"]), _percent(c["p95_error"])]
    step = list(scores[of]["classes"])[-1]
    rows = [row(f"published {kind}, {step} GiB", scores[of]["published"][kind][step]["folds"]["claim"]) for kind in ("ensemble", "encoder")]
    rows += [row("**ours, as shipped**", scores[of]["ours"]["product"]["folds"]["claim"])]
    rows += [row(f"ours, {what} not known", part["claim"]) for what, part in scores[of]["ours"]["unknown"].items()]
    return _table(head, rows)


def _printed():
    head = ("family, nets", "GiB a bin", "accuracy", "precision", "recall", "F1")
    return _table(head, [[f"{family}, {kind}", step, *(_percent(v) for v in values)] for (family, kind, step), values in PRINTED.items()])


def _share(share):
    return {0.0: "the ensemble alone", 1.0: "the encoder alone"}.get(share, "the mean of ensemble and encoder")


def _family(report, family):
    scores, plain = report["scores"], f"{family}/plain"
    sizes = report["parameters"][family]
    small = scores[family]["published"]
    counts = "; ".join(f"{step} GiB: " + ", ".join(str(n) for n in classes.values()) for step, classes in scores[family]["classes"].items())
    return [f"## {FAMILIES[family]}", "",
            f"{scores[family]['rows']} configurations. Rows by class, the last open above: {counts}. Our nets have {sizes['ensemble']:,} "
            f"(ensemble) and {sizes['encoder']:,} (encoder) parameters and {report['bins'][family]} bins; the published ones "
            f"{', '.join(format(v['weights'], ',') for v in small['ensemble'].values())} and "
            f"{', '.join(format(v['weights'], ',') for v in small['encoder'].values())}. Shipped: "
            f"{_share(scores[family]['ours']['share'])}.", "",
            "Three folds, all rows:", "", *_classification(scores, family, "folds"), "70/20/10 split:", "",
            *_classification(scores, family, "split"),
            f"Three folds, only Adam and AdamW in fp32 or TF32 ({scores[plain]['rows']} rows; the published set knows nothing "
            f"else), all nets "
            "trained on those alone:", "", *_classification(scores, plain, "folds"), "Claims, three folds, all rows:", "",
            *_claims(scores, family)]


def _a100(report):
    scores = report["scores"]["a100"]
    counts = "; ".join(f"{step} GiB: " + ", ".join(f"{n}" for n in classes.values()) for step, classes in scores["classes"].items())
    most = max(scores["classes"]["1"].values()) / scores["rows"]
    return ["## The published MLP set", "",
            f"{scores['rows']} MLPs on an A100, as GPUMemNet's authors measured them. Rows by class: {counts}: who always says the first "
            f"occupied class of 1 GiB is right in {_percent(most)} % of the rows. Balanced accuracy says more. All nets trained and "
            "scored on this set alone; none of it is in the shipped weights.", "", "Three folds:", "",
            *_classification(report["scores"], "a100", "folds"), *_claims(report["scores"], "a100")]


def _real(rows):
    head = ("model", "batch", "actual", "published", "Horus", "ours by", "our middle", "our claim", "claim over, %")
    lines = []
    for r in rows:
        ours = r["ours"]
        lines.append([r["model"], *(str(n) for n in (r["batch_size"], r["actual_mib"], r["published_mib"], r["horus"]["comfort_mib"])),
                      {"gpumemnet": "nets"}.get(ours["estimator"], ours["estimator"]), str(ours["comfort_mib"]), str(ours["claim_mib"]),
                      _percent(ours["claim_mib"] / r["actual_mib"] - 1)])
    over = sorted(r["ours"]["claim_mib"] / r["actual_mib"] - 1 for r in rows)
    published = sorted(r["published_mib"] / r["actual_mib"] - 1 for r in rows)
    return ["## Real models that nobody trained on", "",
            "Summaries of real models, and what they took on an **A100** of 40 GB with another PyTorch, as GPUMemNet's authors measured "
            "(MiB). Ours learnt on an H200, and were asked for Adam and fp32 with TF32 convolutions, PyTorch's default; the "
            "difference of the two contexts is taken off. XLNet-large has no summary.", "",
            *_table(head, lines),
            f"Under: ours {sum(o < 0 for o in over)} of {len(over)}, published {sum(o < 0 for o in published)} of {len(published)}. "
            f"Median over: ours {_percent(over[len(over) // 2])} %, published {_percent(published[len(published) // 2])} %. Most of these "
            "models lie beyond the ranges of the training set (deeper than 29 convolutions, squeeze-and-excitation): the estimate's note "
            "says \"at its edge\", and the claim is at least 30 % above the middle. Where a model is too far beyond, the nets decline and "
            "`arithmetic` answers (Inception: no activation function shown; XLNet: 70 % of its parameters learn, by the file's "
            "totals).", ""]


FAILS = """## Where it fails

- **CNNs in fp32 without TF32.** cuDNN then chooses among kernels with scratch memory from none to several times what the layer itself
  holds (FFT); nothing in a summary tells. The worst claims above are theirs.
- **The tail of CNNs.** For VGG16 and Xception above the nets give 3 to 9 % to the last and widest bin, whose end is the largest
  scratch memory in the set; where that passes 5 %, the nets' claim is three to four times what is taken. `rad estimate` cuts it to the
  most that measured networks took of the reference (`models/arithmetic.h`), as in the table above; the claims of the folds are not cut.
- **What a summary does not show**: additions, multiplications and concatenations written in `forward`, relative attention (XLNet),
  activation checkpointing, frozen parts, several GPUs. A capture shows them: `rad capture`.
- **Sizes beyond the set**: more than 29 convolutions or 39 blocks, over 45 GiB. The note says so.
- **One GPU and one PyTorch.** On other cards cuDNN chooses other kernels; only the context is corrected for.
"""


def page(report, real):
    lines = ["# GPUMemNet's nets, ours and the published ones", "",
             f"Trained and scored on the measured set ([data card](../../../../models/gpumemnet/README.md), "
             f"[figures](data.md): {report['card']}, "
             f"{report['stack']}) by `python3 -m radrm.gpumemnet.train`, {report['date']}: {report['trainings']} trainings, "
             f"{report['training_s'] / 60:.0f} minutes in all, one core each (some encoders with an H200 beside it). Raw "
             f"scores: [scores.json](scores.json). How the nets work: "
             "[doc/gpumemnet-format.md](../../../gpumemnet-format.md).", "",
             "*Published* nets are those of the dissertation's section 5.4.4 as far as it describes them, trained again on the "
             "same rows and "
             "splits as ours: 13 perceptrons of 1 to 7 and 1 to 6 hidden layers with batch normalisation (about 1,500 parameters each, a "
             "generous reading of the text), logits averaged, on the published inputs standardised; and one encoder block over (type, "
             "activations, parameters) of every layer. *Ours* answer in their own bins, from which the published bins follow. Percent. "
             "*Balanced*, precision, recall and F1 are means over classes; *under*: share of answers below the true class. "
             "Claims are what the "
             "nets say by themselves, without the bounds and margins that `rad estimate` adds. How ensemble and encoder are "
             "mixed *as shipped* "
             "was chosen once a family, of three ways, on the rows that stopped the trainings of the folds: each fold's are no "
             "test rows of its "
             "own, but of the others.", "",
             "As printed in the dissertation (tables 5.3, 5.5 and 5.7; their data, weighted means): ", "", *_printed(),
             "Table 5.1, on their first set: accuracy 81.8, F1 81.2. Their repository's three folds: MLPs 97 to 98, CNNs 80, "
             "transformers 85 to "
             "86 % accuracy.", ""]
    for family in FAMILIES:
        lines += _family(report, family)
    if "a100" in report["scores"]:
        lines += _a100(report)
    if real:
        lines += _real(real)
    return "\n".join([*lines, FAILS])


def main():
    p = argparse.ArgumentParser(prog="python3 -m radrm.gpumemnet.page")
    p.add_argument("folder", type=pathlib.Path, help="of scores.json and real.json; its README.md is written")
    folder = p.parse_args().folder
    real = folder / "real.json"
    text = page(json.loads((folder / "scores.json").read_text()), json.loads(real.read_text()) if real.exists() else None)
    (folder / "README.md").write_text(text.rstrip() + "\n")


if __name__ == "__main__":
    main()
