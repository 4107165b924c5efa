# SPDX-License-Identifier: MIT
"""A batch as bytes in a slot, and read from there in place.

    8 bytes: length of the form | the form, JSON | arrays, each at a multiple of 64

The form says what the batch is: trees of lists, tuples, named tuples and dicts; at their ends arrays by kind, dtype, shape and place,
or values. No code is in it, so a reader runs nothing of the writer's.
"""
import collections
import functools
import json
import sys

ALIGN = 64
HEAD = 8


class NoBatch(TypeError):
    """What a loader gave is nothing that can be shared."""


def _up(at):
    return -(-at // ALIGN) * ALIGN


class Form:
    """What `batch` is, and how many bytes it takes. `fill` writes it."""

    def __init__(self, batch):
        self._arrays, self._at = [], 0
        tree = self._tree(batch, "batch")
        self._text = json.dumps(tree, separators=(",", ":")).encode()
        self._base = _up(HEAD + len(self._text))
        self.bytes = self._base + self._at

    def _place(self, array, nbytes):
        at = self._at
        self._at = _up(at + nbytes)
        self._arrays.append((array, at))
        return at

    def _tree(self, value, path):
        kind = type(value)
        if value is None or kind in (bool, int, float, str):
            return ["v", value]
        torch = sys.modules.get("torch")
        if torch is not None and isinstance(value, torch.Tensor):
            return self._tensor(torch, value, path)
        if kind.__module__ == "numpy":
            return self._array(value, path)
        if isinstance(value, dict):
            if not all(type(key) in (str, int) for key in value):
                raise NoBatch(f"{path}: a dict with keys that are neither text nor numbers")
            return ["d", [[key, self._tree(each, f"{path}[{key!r}]")] for key, each in value.items()]]
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            return ["n", kind.__name__, list(value._fields), [self._tree(each, f"{path}[{i}]") for i, each in enumerate(value)]]
        if isinstance(value, (list, tuple)):
            return ["u" if isinstance(value, tuple) else "l", [self._tree(each, f"{path}[{i}]") for i, each in enumerate(value)]]
        raise NoBatch(f"{path} is a {kind.__module__}.{kind.__qualname__}: a shared batch is made of tensors in the host's memory, NumPy "
                      "arrays, numbers, text, and lists, tuples and dicts of them")

    def _tensor(self, torch, tensor, path):
        if tensor.device.type != "cpu":
            raise NoBatch(f"{path} is a tensor on {tensor.device}: a shared loader gives tensors in the host's memory; each task copies "
                          "them to its GPU")
        if tensor.layout != torch.strided or tensor.is_quantized:
            raise NoBatch(f"{path} is a tensor of layout {tensor.layout}: only plain (strided) ones can be shared")
        return ["t", str(tensor.dtype).removeprefix("torch."), list(tensor.shape),
                self._place(tensor, tensor.numel() * tensor.element_size())]

    def _array(self, array, path):
        import numpy
        array = numpy.asarray(array)
        if array.dtype.hasobject or array.dtype.names:
            raise NoBatch(f"{path} is an array of {array.dtype}: only arrays of numbers and fixed text can be shared")
        return ["a", array.dtype.str, list(array.shape), self._place(array, array.nbytes)]

    def fill(self, room):
        """Writes it to `room`, a writable buffer of at least self.bytes."""
        view = memoryview(room).cast("B")
        view[:HEAD] = len(self._text).to_bytes(HEAD, "little")
        view[HEAD:HEAD + len(self._text)] = self._text
        end = HEAD + len(self._text)
        torch = sys.modules.get("torch")
        for array, at in self._arrays:
            view[end:self._base + at] = bytes(self._base + at - end)    # the same batch is the same bytes
            end = self._base + at + array.nbytes
            if torch is not None and isinstance(array, torch.Tensor):
                _view_tensor(room, self._base + at, array.dtype, array.shape).copy_(array.detach())
            elif array.size:
                _view_array(room, self._base + at, array.dtype, array.shape)[...] = array
        view[end:self.bytes] = bytes(self.bytes - end)


def _view_tensor(room, at, dtype, shape):
    import torch
    count = 1
    for n in shape:
        count *= n
    if count == 0:
        return torch.empty(shape, dtype=dtype)
    return torch.frombuffer(room, dtype=dtype, count=count, offset=at).reshape(shape)


def _view_array(room, at, dtype, shape):
    import numpy
    if numpy.dtype(dtype).hasobject:
        raise NoBatch("a batch of another task has an array of Python objects: their addresses mean nothing here")
    return numpy.ndarray(shape, dtype, room, at)


@functools.lru_cache(maxsize=64)
def _named(name, fields):
    return collections.namedtuple(name, fields)


@functools.lru_cache(maxsize=64)
def _parse(text):
    return json.loads(text)


def _value(tree, room, base):
    kind = tree[0]
    if kind == "v":
        return tree[1]
    if kind == "t":
        import torch
        return _view_tensor(room, base + tree[3], getattr(torch, tree[1]), tree[2])
    if kind == "a":
        return _view_array(room, base + tree[3], tree[1], tree[2])
    if kind == "d":
        return {key: _value(each, room, base) for key, each in tree[1]}
    values = [_value(each, room, base) for each in tree[-1]]
    if kind == "n":
        return _named(tree[1], tuple(tree[2]))(*values)
    return values if kind == "l" else tuple(values)


def read(room):
    """The batch in `room`, which lives as long as any array of the batch does."""
    view = memoryview(room).cast("B")
    length = int.from_bytes(view[:HEAD], "little")
    text = bytes(view[HEAD:HEAD + length])
    return _value(_parse(text), room, _up(HEAD + length))
