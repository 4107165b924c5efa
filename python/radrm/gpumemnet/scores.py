# SPDX-License-Identifier: MIT
"""How good classifications into bins of memory and claims are."""
import numpy


def classification(truth, said):
    """Accuracy, balanced accuracy (mean recall), precision, recall and F1 (means over the classes that occur), and the share of
    answers below the true bin."""
    classes = numpy.unique(truth)
    recalls = [float((said[truth == c] == c).mean()) for c in classes]
    precisions = [float((truth[said == c] == c).mean()) if (said == c).any() else 0.0 for c in classes]
    f1 = [2 * p * r / (p + r) if p + r else 0.0 for p, r in zip(precisions, recalls)]
    return {"accuracy": float((said == truth).mean()), "balanced_accuracy": float(numpy.mean(recalls)),
            "precision": float(numpy.mean(precisions)), "recall": float(numpy.mean(recalls)), "f1": float(numpy.mean(f1)),
            "under": float((said < truth).mean()), "classes": len(classes), "n": len(truth)}


def wilson(share, n):
    """95 % interval of a share."""
    z = 1.96
    middle, half = share + z * z / (2 * n), z * numpy.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    return [float((middle - half) / (1 + z * z / n)), float((middle + half) / (1 + z * z / n))]


def claims(mib, claim, middle):
    """Share of claims below what was taken, by how much the worst is, what claims hold in vain, and the error of the middle."""
    over, error = claim / mib - 1, numpy.abs(middle / mib - 1)
    under = float((claim < mib).mean())
    return {"under": under, "under_interval": wilson(under, len(mib)), "worst_under": float(over.min()),
            "median_over": float(numpy.median(over)), "p95_over": float(numpy.quantile(over, 0.95)),
            "median_error": float(numpy.median(error)), "p95_error": float(numpy.quantile(error, 0.95)), "n": len(mib)}


def all_of(figures):
    """Of one or several folds' figures together."""
    join = lambda key: numpy.concatenate([f[key] for f in figures])
    out = {"claim": claims(join("mib"), join("claim"), join("middle")), "bins": {}}
    for step in figures[0]["bins"]:
        truth, said, claimed = (numpy.concatenate([f["bins"][step][k] for f in figures]) for k in ("truth", "said", "claimed"))
        out["bins"][step] = {"said": classification(truth, said), "claimed": classification(truth, claimed)}
    return out
