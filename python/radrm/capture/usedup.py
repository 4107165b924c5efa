# SPDX-License-Identifier: MIT
"""Masks from which one place after the other is taken, as of towns that a tour has not come to: `mask.scatter_(1, town, 0)`.

Which place that is, is not known. Each time it is taken to be another one, in each row, so such a mask is used up after as many steps as
a row has places, and `if not mask.any(): break` ends the loop then. That is told as any other guess, and says nothing of sizes.
"""
import torch

from . import given
from .asked import decided, script_place
from .recorder import aten, is_gpu
from .writes import version_of

LIMIT = 1 << 20  # elements of such a mask


def root(tensor):
    """What its values hang on if they are such a guess; else None."""
    found = given.noted(tensor)
    return taken_from(found[1]) if found else None


def taken_from(roots):
    return next((one for one in roots if hasattr(one, "radrm_taken")), None)


def tell(recorder, tensor):
    """Something hangs on such a guess: a loop ends, which is less than it may be."""
    if root(tensor) is not None:
        decided(recorder, "how often a loop takes a place from a mask: each place once")


def content(recorder, tensor):
    """(values on the CPU, what they hang on) of a tensor or a number; None: they are not known."""
    if not isinstance(tensor, torch.Tensor):
        return tensor, ()
    found = given.values_of(recorder, tensor)
    values = found and (found[0].get() if isinstance(found[0], given.Unasked) else found[0])
    return None if values is None else (values, found[1])


def written(recorder, func, args):
    """As content(), of what is written into, before that."""
    tensor = args[0]
    if func._schema.is_mutable:
        vars(tensor).update({name: was for name, was in recorder.overwritten.items() if was is not None})
    found = content(recorder, tensor)
    if func._schema.is_mutable:
        for name in recorder.overwritten:
            vars(tensor).pop(name, None)
    return found


def take(rows, value):
    """Puts it into the first place of each row that does not have it yet."""
    free = rows != value
    rows[free & (free.cumsum(-1) == 1)] = value


def keep(func, result, values, roots, length):
    """`length`: places in a row."""
    before, one = taken_from(roots), torch.tensor(version_of(result))  # another one the next time
    one.radrm_taken, one.radrm_most = (before.radrm_taken if before is not None else 0) + 1, length
    given.put(result, values, (one,), False, later=int(func._schema.is_mutable))


def scattered(recorder, func, args, kwargs, result):
    """One in each row."""
    tensor, dim, places = args[:3]
    if not is_gpu(tensor) or not 0 < tensor.numel() <= LIMIT or places.dim() != tensor.dim() or places.shape[dim] != 1 \
       or hasattr(result, "radrm_holds"):
        return
    whole = all(mine == its for d, (mine, its) in enumerate(zip(tensor.shape, places.shape)) if d != dim % tensor.dim())
    with torch._C._DisableTorchDispatch():
        found, value, at = written(recorder, func, args), content(recorder, args[3]), content(recorder, places)
        if None in (found, value) or isinstance(value[0], torch.Tensor) and value[0].unique().numel() != 1 or not at and not whole:
            return
        values, number = found[0].clone(memory_format=torch.contiguous_format), float(torch.as_tensor(value[0]).reshape(-1)[0])
        if at and at[1] and values.numel() > given.BATCH:
            return
        if at:
            values.scatter_(dim, at[0], number)
            return given.put(result, values, (*found[1], *value[1], *at[1]), False, later=int(func._schema.is_mutable))
        take(values.movedim(dim, -1), number)
        keep(func, result, values, found[1], tensor.shape[dim])


def put(recorder, func, args, kwargs, result):
    """mask[rows, place] = 0: of the rows it is known which they are."""
    tensor, indices = args[:2]
    if not is_gpu(tensor) or not 0 < tensor.numel() <= LIMIT or len(indices) != tensor.dim() or tensor.dim() < 2 or any(
            index is None for index in indices) or args[2].numel() != 1:
        return
    with torch._C._DisableTorchDispatch():
        found, value = written(recorder, func, args), content(recorder, args[2])
        known = [content(recorder, index) for index in indices]
        if None in (found, value) or known.count(None) != 1 or any(one and one[0].dtype == torch.bool for one in known):
            return
        dim, shape = known.index(None), torch.broadcast_shapes(*(index.shape for index in indices))
        values = found[0].clone(memory_format=torch.contiguous_format)
        rows, at = values.movedim(dim, -1), tuple(one[0].expand(shape).reshape(-1) for one in known if one)
        part = rows[at]
        take(part, float(value[0].reshape(())))
        rows[at] = part
        keep(func, result, values, found[1], tensor.shape[dim])


class Progress:
    """Whether a loop that goes on while something is left of such a mask may be believed to end: each time that it asks, more has been
    taken, and no more than a row has."""

    def __init__(self):
        self.before = {}  # place in the script -> how often something had been taken when it asked

    def __call__(self, tensor):
        one, place = root(tensor), script_place()
        before, self.before[place] = self.before.get(place), one.radrm_taken
        return before != one.radrm_taken <= one.radrm_most


AROUND = {**{getattr(packet, kind): scattered for packet in (aten.scatter, aten.scatter_) for kind in ("value", "src")},
          **{op: put for op in (aten.index_put.default, aten.index_put_.default)}}
