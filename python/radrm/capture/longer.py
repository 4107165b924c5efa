# SPDX-License-Identifier: MIT
"""Forward passes that do not learn, each as much longer than the one before, as when a text is generated word by word, with a
cache or without, or as long, of the last so many words.

After a few of them those are run that are larger by a sixteenth than the last that was, and one in sixteen. Of the others the
results are made, as large as they would be: what they would ask of memory lies between that of those that are run. Nobody knows
which pass is the last; it takes hardly more than the last that was run.
"""
import copy
import dataclasses
from collections.abc import Mapping

import torch
from torch.utils._pytree import tree_leaves, tree_map

from .readnumbers import ReadFloat, ReadInt
from .recorder import Form, is_gpu

EVERY = 16
ENOUGH = 5  # passes that grow evenly, after which the next is expected to
PLAIN = (type(None), bool, float, str, torch.dtype, torch.device)


class Unlike(Exception):
    """Something of which it cannot be said what it will be the next time."""


def is_record(value):
    return dataclasses.is_dataclass(value) and not isinstance(value, (type, Mapping))


def fields(value):
    return [getattr(value, field.name) for field in dataclasses.fields(value)]


def outline(value, sizes):
    """What stays the same of an argument; what may grow goes into `sizes`."""
    if is_gpu(value):
        sizes.extend(value.shape)
        return value.dim(), value.dtype
    if type(value) is int:
        sizes.append(value)
        return int
    if type(value) in PLAIN:
        return type(value), value
    if type(value) is torch.Tensor and not value.dim():
        return value.dtype
    if isinstance(value, (list, tuple)):
        return tuple(outline(v, sizes) for v in value)
    if isinstance(value, Mapping):
        return tuple((name, outline(v, sizes)) for name, v in value.items())
    if is_record(value):
        return type(value), *(outline(v, sizes) for v in fields(value))
    raise Unlike


def parts(value):
    """All that is not made of others."""
    return [part for leaf in tree_leaves(value) for part in (parts(fields(leaf)) if is_record(leaf) else [leaf])]


def changed(value, change):
    """The same with change(part) in place of each part that is not made of others."""
    def one(leaf):
        if not is_record(leaf):
            return change(leaf)
        other = copy.copy(leaf)
        for field in dataclasses.fields(leaf):
            object.__setattr__(other, field.name, changed(getattr(leaf, field.name), change))
        return other
    return tree_map(one, value)


class Longer:
    """Passes of one module whose arguments differ in size only."""

    def __init__(self):
        self.sizes, self.step, self.even = None, None, 0  # of the last one; by which it had grown; so many did by as much
        self.run = []  # sizes of the last that was run
        self.since = 0  # passes that were left out since one was run
        self.seen = []  # of the last that were run: how many passes each stands for, the sizes of its results
        self.result, self.forms = None, []  # of the last one that was run; None: another cannot be made like it
        self.work = None  # what it did

    def is_next(self, sizes):
        """A pass begins. Whether it is left out."""
        step = None if self.sizes is None else [now - before for now, before in zip(sizes, self.sizes)]
        self.even = self.even + 1 if step is not None and step == self.step else 0
        self.sizes, self.step = sizes, step
        larger = self.since + 1 >= EVERY and any(step or ()) or any(EVERY * (now - then) > then for now, then in zip(sizes, self.run))
        return self.even >= ENOUGH and not larger and self.growth() is not None

    def growth(self):
        """By how much each size of the results grows with a pass; None: not evenly, or it is not known."""
        if self.result is None or len(self.seen) < 3 or len({len(sizes) for _, sizes in self.seen}) > 1:
            return None
        (_, first), (n, second), (m, third) = self.seen
        found = [(after - before) / m for before, after in zip(second, third)]
        return list(map(int, found)) if found == [(b - a) / n for a,
                                                  b in zip(first, second)] and all(by == int(by) for by in found) else None

    def ran(self, given, grew, work):
        """One was run. `grew`: it left something behind beside its results."""
        known, fit = {}, [not grew]

        def form(leaf):
            if is_gpu(leaf):
                # No view of more.
                fit.append(leaf.layout is torch.strided and leaf.untyped_storage().nbytes() <= leaf.numel() * leaf.element_size())
                return known.setdefault(id(leaf), Form(leaf))
            fit.append(type(leaf) in (*PLAIN, int, ReadFloat, ReadInt))
            return leaf
        result = changed(given, form)
        self.result, self.forms, self.work = result if all(fit) else None, list(known.values()), work
        self.seen = [*self.seen[-2:], (self.since + 1, [size for one in self.forms for size in one.shape])]
        self.since, self.run = 0, self.sizes

    def make(self, empty):
        """What the one that is left out would give; empty(shape, dtype) makes a tensor."""
        self.since += 1
        growth = iter(self.growth())
        made = {id(one): empty(tuple(size + self.since * next(growth) for size in one.shape), one.dtype) for one in self.forms}
        return changed(self.result, lambda leaf: made[id(leaf)] if type(leaf) is Form else leaf)
