# SPDX-License-Identifier: MIT
"""The arithmetic of score.py: no PyTorch, no files."""

import math


def quantile(values, p):
    """The smallest value that at least p of them do not exceed."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(p * len(ordered) - 1e-9) - 1)]


def wilson(k, n, z=1.96):
    """95 % interval of a share of which k of n were seen (Wilson's score)."""
    if not n:
        return 0.0, 1.0
    share, extra = k / n, z * z / n
    middle = (share + extra / 2) / (1 + extra)
    half = z / (1 + extra) * math.sqrt(share * (1 - share) / n + extra / (4 * n))
    return max(0.0, middle - half), min(1.0, middle + half)


def conformal(residuals, coverage):
    """The margin above which the next residual lies with a probability of at most 1 - coverage (split conformal, one-sided):
    the ceil((n + 1) * coverage)-th smallest; None: too few are known."""
    k = math.ceil((len(residuals) + 1) * coverage - 1e-9)
    return None if k > len(residuals) else sorted(residuals)[k - 1]


def left_out(rows, coverage, least=0.0):
    """Margin for each family, from the rows of all the others. A row is (family, class, residual); what counts are the others
    of the same class; all others where those are too few. {(family, class): margin}"""
    margins = {}
    for family, kind in {(r[0], r[1]) for r in rows}:
        others = [r for r in rows if r[0] != family]
        margin = conformal([r[2] for r in others if r[1] == kind], coverage)
        if margin is None:
            margin = conformal([r[2] for r in others], coverage)
        if margin is None:
            margin = max((r[2] for r in others), default=0.0)
        margins[family, kind] = max(margin, least)
    return margins


def summary(pairs):
    """Of (estimate, truth): n, median and 95th percentile of the error's size, lowest and highest error, share below the truth
    with its interval."""
    errors = [e / t - 1 for e, t in pairs]
    if not errors:
        return None
    under = sum(e < 0 for e in errors)
    return {
        "n": len(errors),
        "median": quantile([abs(e) for e in errors], 0.5),
        "p95": quantile([abs(e) for e in errors], 0.95),
        "lowest": min(errors),
        "highest": max(errors),
        "under": under / len(errors),
        "under_interval": wilson(under, len(errors)),
        "median_over": quantile(errors, 0.5),
    }
