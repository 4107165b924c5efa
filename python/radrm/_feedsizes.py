# SPDX-License-Identifier: MIT
"""Batches of another size than the loader's: each sample once, in order.

A smaller one is a part of a batch, in place. A larger one is put together from several, each of which is copied and given back before
the next is taken: what is held does not grow with the size. At an epoch's end a batch has what is left.
"""
from ._feedlib import FeedError


def _is_array(value):
    return type(value).__module__ in ("torch", "numpy") and hasattr(value, "shape")


def _is_plain(value):
    return value is None or isinstance(value, (bool, int, float, str))


def samples(batch):
    """How many a batch has: the length of its first array."""
    if _is_array(batch):
        return batch.shape[0] if batch.shape else None
    parts = batch.values() if isinstance(batch, dict) else batch if isinstance(batch, (list, tuple)) else ()
    return next((n for n in map(samples, parts) if n is not None), None)


def _map(batch, n, function, path="batch"):
    """The same tree, with function(value, path) of what has a part for each of n samples: arrays, and lists of values."""
    if _is_array(batch) and batch.shape:
        if batch.shape[0] != n:
            raise FeedError(f"{path} has {batch.shape[0]} in its first dimension, and the batch has {n} samples: it cannot be "
                            f"cut for batch=")
        return function(batch, path)
    if isinstance(batch, dict):
        return {key: _map(value, n, function, f"{path}[{key!r}]") for key, value in batch.items()}
    if isinstance(batch, (list, tuple)):
        if len(batch) == n and all(map(_is_plain, batch)):
            return function(batch, path)
        values = [_map(value, n, function, f"{path}[{i}]") for i, value in enumerate(batch)]
        return type(batch)(*values) if hasattr(batch, "_fields") else type(batch)(values)
    return batch


def _count(batch):
    n = samples(batch)
    if n is None:
        raise FeedError("batch= is for batches with tensors or arrays of which each sample has a part; this one has none")
    return n


def parts(batches, size):
    for batch in batches:
        n = _count(batch)
        for at in range(0, n, size):
            yield _map(batch, n, lambda value, _: value[at:at + size])
        del batch


class _Column:
    """What grows: rows of one array, or values of a list."""

    def __init__(self, path, rows):
        self.path, self._rows, self._room, self._at = path, rows, None, 0

    def add(self, value):
        if not _is_array(value):
            self._room = [*(self._room or []), *value]
            return
        before, end = self._room, self._at + len(value)
        if before is not None and (before.shape[1:] != value.shape[1:] or before.dtype != value.dtype):
            raise FeedError(f"{self.path} is {tuple(value.shape)} {value.dtype}, and of the batch before {tuple(before.shape[1:])} "
                            f"{before.dtype} a sample: they cannot be put together for batch=")
        if before is None or end > len(before):     # a collate that leaves samples out may begin with a small batch
            shape = (max(self._rows, end), *value.shape[1:])
            self._room = value.new_empty(shape) if hasattr(value, "new_empty") else type(value)(shape, value.dtype)
            if before is not None:
                self._room[:self._at] = before[:self._at]
        self._room[self._at:end] = value
        self._at = end

    def done(self):
        return self._room[:self._at] if _is_array(self._room) else self._room


class _Growing:
    def __init__(self, batch, times):
        self._columns, self.count = {}, 0
        n = _count(batch)

        def column(_, path):
            self._columns[path] = _Column(path, n * times)
            return self._columns[path]
        self._tree = _map(batch, n, column)

    def add(self, batch):
        seen = []

        def put(value, path):
            seen.append(path)
            if path not in self._columns:
                raise FeedError(f"{path}: the batches before have nothing there: they cannot be put together for batch=")
            self._columns[path].add(value)
        _map(batch, _count(batch), put)
        if len(seen) != len(self._columns):
            raise FeedError(f"a batch without {(set(self._columns) - set(seen)).pop()}: they cannot be put together for batch=")
        self.count += 1

    def done(self):
        def leaf(value):
            if isinstance(value, _Column):
                return value.done()
            if isinstance(value, dict):
                return {key: leaf(each) for key, each in value.items()}
            if isinstance(value, (list, tuple)):
                values = [leaf(each) for each in value]
                return type(value)(*values) if hasattr(value, "_fields") else type(value)(values)
            return value
        return leaf(self._tree)


def joined(batches, times):
    growing = None
    for batch in batches:
        if growing is None:
            growing = _Growing(batch, times)
        growing.add(batch)
        del batch
        if growing.count == times:
            yield growing.done()
            growing = None
    if growing is not None:
        yield growing.done()


class Sizes:
    """What becomes of a loader's batches where the task wants `wanted` samples in each."""

    def __init__(self, loader, wanted):
        own = getattr(loader, "batch_size", None)
        if not isinstance(own, int) or isinstance(own, bool):
            raise FeedError(f"batch={wanted}: this loader does not say how large its batches are (a {type(loader).__name__} "
                            f"without batch_size)")
        if not isinstance(wanted, int) or wanted < 1 or (own % wanted and wanted % own):
            raise FeedError(f"batch={wanted}: the loader's batches have {own} samples: a multiple of that, or a divisor")
        self._loader, self._own, self._wanted = loader, own, wanted

    def __len__(self):
        whole = len(self._loader) * self._own
        sampler = getattr(self._loader, "sampler", None)
        if not getattr(self._loader, "drop_last", False) and hasattr(sampler, "__len__"):
            whole = min(whole, len(sampler))
        return -(-whole // self._wanted)

    def __call__(self, batches):
        if self._wanted == self._own:
            return batches
        return parts(batches, self._wanted) if self._wanted < self._own else joined(batches, self._wanted // self._own)
