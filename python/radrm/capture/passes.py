# SPDX-License-Identifier: MIT
"""What an iterator goes over, as it is while it runs: how often it gives something, and batches of which sizes.

Python's own iterators have no length, but what they are made of is there: what a zip() goes over, all that a chain() does, where an
islice() ends, the iterators of a generator's loops. So that is told where it is known to the last part. It is a list of stretches,
(how many, size of each; None: not known), since the last batch of a loader is smaller than the others.
"""
import gc
import itertools
import math
import operator
import sys
import types
import warnings
from collections.abc import Mapping

MANY = 100_000  # elements of a list that are looked at
INDEXED = type("", (), {"__getitem__": None})()  # as NumPy's arrays are
COUNTED = tuple({type(iter(what)) for what in ([], (), range(1), range(1 << 70), {}, {}.values(), {}.items(), "", set(), INDEXED)})
OF_LISTS = type(iter([])), type(iter(()))
UNTIL = type(iter(int, 1))  # iter(q.get, None)


class Unknown(Exception):
    """Not to be worked out."""


def rounds_of(stretches):
    return sum(rounds for rounds, _ in stretches)


def cut(stretches, begin, end=math.inf):
    """Those of what comes from the `begin`th on, up to the `end`th."""
    found, at = [], 0
    for rounds, size in stretches:
        some = min(at + rounds, end) - max(at, begin)
        if some > 0:
            found.append((some, size))
        at += rounds
    return found


def unwrapped(what):
    """What is beneath a progress bar. Whatever attributes do that a script's own classes make up when they are asked."""
    try:
        return vars(what)["iterable"]
    except Exception:
        return what


def size_of(batch):
    """Of what has a shape the first, of several such of the first of these."""
    if isinstance(batch, Mapping):
        batch = list(batch.values())
    if isinstance(batch, (list, tuple)) and batch and hasattr(batch[0], "shape"):
        batch = batch[0]
    if hasattr(batch, "shape"):
        return int(batch.shape[0]) if len(batch.shape) else None
    return len(batch) if isinstance(batch, (list, tuple, str)) else None


def of_list(items):
    if len(items) > MANY:
        return [(len(items), None)]
    return [(len(list(same)), size) for size, same in itertools.groupby(map(size_of, items))]


def of_loader(loader):
    """Of one, or of a pass over it."""
    from torch.utils.data import BatchSampler, dataloader
    rounds, sampler = len(loader), loader._index_sampler
    if type(sampler) is not BatchSampler or loader._dataset_kind == dataloader._DatasetKind.Iterable:
        return [(rounds, None)]
    rest = 0 if sampler.drop_last else len(sampler.sampler) % sampler.batch_size
    return [part for part in ((rounds - 1, sampler.batch_size), (1, rest)) if part[0]] if rest else [(rounds, sampler.batch_size)]


def of_torch(what):
    """(whether it is a loader, whether it is a pass over one). PyTorch is not loaded for this: whoever has one has loaded it."""
    data = sys.modules.get("torch.utils.data.dataloader")
    return data is not None and isinstance(what, data.DataLoader), data is not None and isinstance(what, data._BaseDataLoaderIter)


def parts_of(what):
    """The iterators that one goes over."""
    found = gc.get_referents(what)
    if isinstance(what, (zip, map)):
        return next(part for part in found if isinstance(part, tuple))
    return [part for part in found if hasattr(part, "__next__") and not isinstance(part, type)]  # from Python 3.12 on its own, too


def stretches(what, gone, known):
    """Of anything that a `for` goes over. `gone`: how often it gave something there; 0: it is as it was when it was made. `known`: who
    knows of generators, and of what else a script makes itself (length.py)."""
    is_loader, is_pass = of_torch(what)
    if is_loader:
        return of_loader(what)
    if is_pass:
        return cut(of_loader(what), max(what._num_yielded - gone, 0) if gone else 0)
    if isinstance(what, (list, tuple)):
        return of_list(what)
    if isinstance(what, types.GeneratorType):
        return known.generated(what, gone)
    if isinstance(what, COUNTED):
        return of_counted(what, gone)
    if isinstance(what, (map, zip)):
        return alike([stretches(part, gone, known) for part in parts_of(what)])
    if isinstance(what, (enumerate, itertools.starmap)):
        return stretches(parts_of(what)[0], gone, known)
    if isinstance(what, itertools.islice):
        return of_islice(what, gone, known)
    if isinstance(what, itertools.chain):
        return [one for part in chained(what) for one in stretches(unwrapped(part), 0, known)]
    if isinstance(what, (itertools.cycle, itertools.count)):
        return [(math.inf, None)]
    if isinstance(what, itertools.product):
        pools = next(part for part in gc.get_referents(what) if isinstance(part, tuple) and all(isinstance(one, tuple) for one in part))
        return [(math.prod(map(len, pools)), None)]
    if isinstance(what, itertools.repeat):
        left = operator.length_hint(what, -1)
        return [(gone + left if left >= 0 else math.inf, None)]
    if hasattr(what, "__next__"):
        return known.queued(what, gone)
    return [(len(what), None)]


def of_counted(what, gone):
    """Of one that says how many are left."""
    items = next((part for part in gc.get_referents(what) if isinstance(part, (list, tuple))), None) if isinstance(what, OF_LISTS) else None
    if not gone and items is None:
        raise Unknown
    left = operator.length_hint(what, -1)
    if left < 0:
        raise Unknown
    rounds, whole = gone + left, items is not None and of_list(items)
    return whole if whole and (not gone or rounds_of(whole) == rounds) else [(rounds, None)]


def alike(parts):
    """Of what goes over several at once, until one has no more. Of which of them a batch is nobody knows where several tell sizes."""
    least = min(map(rounds_of, parts), default=math.inf)
    sized = [part for part in (cut(one, 0, least) for one in parts) if any(size is not None for _, size in part)]
    several = [part for part in sized if len(part) > 1]
    return several[0] if len(several) == 1 else sized[0] if len(sized) == 1 else [(least, None)]


def of_islice(what, gone, known):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Python 3.14 has it no more
        _, (within, following, stop, step), taken = what.__reduce__()
    found, first = stretches(within, taken, known), following - gone * step
    stop = min(rounds_of(found), math.inf if stop is None else stop)
    if stop == math.inf:
        return [(math.inf, None)]
    return cut(found, first, stop) if step == 1 else [(len(range(first, stop, step)), None)]


def chained(what):
    """All that a chain() goes over."""
    source = parts_of(what)[0]
    found = [part for part in gc.get_referents(source) if isinstance(part, (list, tuple))]
    if not isinstance(source, OF_LISTS) or not found:
        raise Unknown
    return found[0]
