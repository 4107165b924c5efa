# SPDX-License-Identifier: MIT
"""How many elements of a mask hold that was drawn, at most, whichever they are: tokens that are masked for BERT, patches of a picture.

Of one that is drawn on the GPU the chances are known: `torch.rand(n, device="cuda") < 0.15`. One that came from the CPU is known, but the
next one is another: where it looks drawn, the next is taken to have no row with more than the fullest here. Where those that hold stand
together, as in a batch of sentences that end somewhere, nothing is known of the next.
"""
import math

import torch

from .asked import script_line, script_place
from .readnumbers import ReadFloat
from .recorder import aten, is_gpu
from .writes import version_of

SIGMAS = 6
FEW = 256  # elements of a mask from the CPU of which nothing is said
ALONE = 0.8  # of the changes between holding and not that so many drawn elements have: fewer, and they stand together
ROWS = 16  # of a mask of one dimension


def spread(number):
    return math.ceil(SIGMAS * math.sqrt(number))


def whole_rows(number, mask):
    """As many or more, and as many in each row: what is put into rows again fits."""
    rows = max(mask.shape[0], 1) if mask.dim() > 1 else 1
    return min(-(-number // rows) * rows, mask.numel())


# --- from the CPU ---

def next_time(seen, held):
    """Of a mask whose values are known (on the CPU): how many hold of one like it, at most. `seen`: of each row, where a mask was
    asked for here that had as many in each."""
    held = held.detach().bool()
    number, size = int(held.count_nonzero()), held.numel()
    line = held.reshape(-1)
    changes = int((line[1:] != line[:-1]).count_nonzero())
    if size < FEW or not number or changes < ALONE * 2 * number * (1 - number / size):
        return size
    several = held.dim() > 1 and held.shape[0] > 1  # of one alone nothing is said by its being as full as all others
    rows = held.reshape(held.shape[0], -1) if several else line[:size // ROWS * ROWS].reshape(ROWS, -1)
    counts = rows.count_nonzero(1)
    if several and bool((counts == counts[0]).all()):  # so many are drawn of each row, or another number each time
        return number if seen.setdefault((script_line(), tuple(held.shape)), number) == number else size
    return whole_rows(int(counts.max()) * size // rows[0].numel() + spread(number), held)


# --- on the GPU ---

def chances(tensor):
    """(least, most) chance of an element to hold, or to be 1, and how many elements at most were drawn as one; None: not known."""
    found, version = getattr(tensor, "radrm_chances", (None, None))
    return found if found is not None and version == version_of(tensor) else None


def number(seen, mask):
    """How many of it hold, at most. `seen`: the chance where a mask was asked for before; one that was another then is another again."""
    found = chances(mask)
    if found is None or seen.setdefault((script_place(), "chance"), found[1]) != found[1]:
        return mask.numel()
    _, most, alike = found
    likely = mask.numel() / alike * most
    return whole_rows(math.ceil((math.ceil(likely) + spread(likely * (1 - most)) + 1) * alike), mask)


def is_told(least, most):
    """Whether the script says so. A number that came from the GPU counts as 1, and what is computed from it is no chance; of one that
    the script made an ordinary one before, 0 and 1 come most."""
    return least < 1 and most > 0 and ReadFloat.made.isdisjoint({least, most} - {0, 1})


def put(tensor, least, most, alike=1, later=0):
    if isinstance(tensor, torch.Tensor) and is_gpu(tensor):
        tensor.radrm_chances = (min(max(least, 0), 1), min(max(most, 0), 1), alike), version_of(tensor) + later


def wider(result, source, alike):
    """How many are alike where each element of `source` stands in several places."""
    return alike * max(result.numel() / source.numel(), 1) if source.numel() else alike


def even(recorder, func, args, kwargs, result):
    """Drawn evenly between 0 and 1."""
    result.radrm_even = (version_of(result),)


def evenly(recorder, func, args, kwargs, result):
    if (args[1] if len(args) > 1 else kwargs.get("from", 0), args[2] if len(args) > 2 else kwargs.get("to", 1)) == (0, 1):
        args[0].radrm_even = (version_of(args[0]) + 1,)


def below(recorder, func, args, kwargs, result):
    """What was drawn evenly is compared with a number."""
    if getattr(args[0], "radrm_even", ()) == (version_of(args[0]),):
        chance = args[1] if func in (aten.lt.Scalar, aten.le.Scalar) else 1 - args[1]
        if is_told(args[1], args[1]):
            put(result, chance, chance)
    elif (found := chances(args[0])) and func is aten.gt.Scalar and args[1] in (0, 0.5):
        put(result, *found)


def given(recorder, func, args, kwargs, result):
    """bernoulli() with one chance for all."""
    chance = args[1] if len(args) > 1 else 0.5
    if is_told(chance, chance):
        put(result, chance, chance, later=func is aten.bernoulli_.float)


def each(recorder, func, args, kwargs, result):
    """bernoulli() with a chance for each."""
    source, writes = (args[1], True) if func is aten.bernoulli_.Tensor else (args[0], False)
    if (found := limits(source)) and is_told(*found):
        put(result, *found, later=writes)


def limits(tensor, noted=None):
    """(least, most) number in a tensor of chances. `noted`: what was known of it before this write."""
    value, version, _ = noted or getattr(tensor, "radrm_value", None) or (None, None, None)
    if value is not None and version == version_of(tensor):
        return value, value
    found, version = getattr(tensor, "radrm_limits", (None, None))
    return found if found is not None and version == version_of(tensor) else None


def replaced(recorder, func, args, kwargs, result):
    """Some of them are another number: no special token is masked."""
    writes = func is aten.masked_fill_.Scalar
    before = limits(args[0], recorder.overwritten["radrm_value"] if writes else None)
    if before:
        result.radrm_limits = (min(*before, args[2]), max(*before, args[2])), version_of(result) + writes


def kept(recorder, func, args, kwargs, result):
    if found := chances(args[0]):
        put(result, *found[:2], wider(result, args[0], found[2]))


def both(recorder, func, args, kwargs, result):
    """No more hold than of each."""
    found = [(one[1], wider(result, arg, one[2])) for arg in args[:2] if isinstance(arg, torch.Tensor) and (one := chances(arg))]
    if found:
        put(result, 0, *min(found))


def others(recorder, func, args, kwargs, result):
    """Of integers all bits are turned, and 1 does not become 0."""
    if (found := chances(args[0])) and (args[0].dtype == torch.bool or func is aten.logical_not.default):
        put(result, 1 - found[1], 1 - found[0], found[2])


def compared(recorder, func, args, kwargs, result):
    """With 0 or 1, of what is either."""
    if (found := chances(args[0])) and args[1] in (0, 1):
        holds = bool(args[1]) == (func is aten.eq.Scalar)
        put(result, *found) if holds else put(result, 1 - found[1], 1 - found[0], found[2])


SAME = ("view", "_unsafe_view", "expand", "slice", "select", "unsqueeze", "squeeze", "transpose", "permute", "t", "alias", "detach",
        "clone", "_to_copy")


def packets(*names):
    return [op for name in names for op in (getattr(getattr(aten, name), kind) for kind in getattr(aten, name).overloads())
            if not op._schema.is_mutable and op is not aten.view.dtype]


AROUND = {
    **{op: even for op in (aten.rand.default, aten.rand_like.default)}, aten.uniform_.default: evenly,
    **{getattr(aten, name).Scalar: below for name in ("lt", "le", "gt", "ge")},
    aten.bernoulli.p: given, aten.bernoulli_.float: given, aten.bernoulli.default: each, aten.bernoulli_.Tensor: each,
    aten.masked_fill.Scalar: replaced, aten.masked_fill_.Scalar: replaced,
    **{op: kept for op in packets(*SAME)},
    **{op: both for op in (aten.logical_and.default, aten.bitwise_and.Tensor, aten.mul.Tensor)},
    **{op: others for op in (aten.logical_not.default, aten.bitwise_not.default)},
    aten.eq.Scalar: compared, aten.ne.Scalar: compared,
}
