# SPDX-License-Identifier: MIT
"""Tensors that came from the CPU and were not written since, and what is told by them alone: a mask, a constant of a buffer. Their values are known.

A batch came from there, too, and the next one is another. So what hangs on values is certain where they were the same each time that this line asked.
"""
import contextlib

import torch

from .asked import decided, script_line
from .recorder import aten, is_gpu

LIMIT = 1 << 22  # elements of one


def of(tensor):
    """(its values on the CPU, the tensors they were told by, there as well); None: they are not known, or something was written into it."""
    found, version = getattr(tensor, "radrm_given", (None, None))
    return found if found is not None and not tensor.is_inference() and version == tensor._version else None


def put(tensor, values, roots):
    if not tensor.is_inference():
        tensor.radrm_given = (values, roots), tensor._version


def came(result, source):
    """A tensor came from the CPU. Weights are written soon."""
    if 0 < source.numel() <= LIMIT and not source.requires_grad and not source.dtype.is_complex and result.shape == source.shape:
        with torch._C._DisableTorchDispatch():
            values = source.detach().to(result.dtype, copy=True)
        put(result, values, (values,))


def told(recorder, func, args, kwargs, result):
    """What is computed from such tensors and from numbers."""
    if not is_gpu(result) or not 0 < result.numel() <= LIMIT or result.is_inference():
        return
    roots = {}

    def values(arg):
        if isinstance(arg, (list, tuple)):
            return [values(part) for part in arg]
        if not isinstance(arg, torch.Tensor):
            return arg
        if not is_gpu(arg):
            roots[id(arg)] = None
            return arg
        found, more = of(arg) or (None, (None,))
        roots.update((id(root), root) for root in more)
        return found
    args = values(args)
    if roots and None not in roots.values():
        with torch._C._DisableTorchDispatch(), contextlib.suppress(RuntimeError):  # of a view that there is none of on the CPU
            put(result, func(*args, **{name: value for name, value in kwargs.items() if name in ("dtype", "memory_format")}), tuple(roots.values()))


def agreed(recorder, tensor):
    """Its values, on which something hangs now; None: they are not known, or they were told by others when this line asked before."""
    found = of(tensor)
    if found is None:
        return None
    values, roots = found
    before = recorder.given.setdefault(script_line(), [roots, 0])
    before[1] += 1
    if before[0] is None:
        return None
    with torch._C._DisableTorchDispatch():
        same = len(before[0]) == len(roots) and all(a is b or a.shape == b.shape and a.dtype == b.dtype and torch.equal(a, b) for a, b in zip(before[0], roots))
    if not same:
        before[0] = None
        return None
    return values


def once(recorder):
    """What hung on such values and was seen but once may be of a batch."""
    for line, (roots, times) in recorder.given.items():
        if roots is not None and times == 1:
            decided(recorder, "a value that came from the CPU: it may be another the next time", line)


AROUND = {op: told for op in (
    aten.view.default, aten._unsafe_view.default, aten.expand.default, aten.slice.Tensor, aten.select.int, aten.unsqueeze.default, aten.squeeze.default,
    aten.squeeze.dim, aten.transpose.int, aten.permute.default, aten.t.default, aten.alias.default, aten.detach.default, aten.clone.default, aten._to_copy.default,
    *(getattr(getattr(aten, name), kind) for name in ("eq", "ne", "lt", "le", "gt", "ge") for kind in ("Tensor", "Scalar")),
    *(getattr(aten, name).default for name in ("logical_not", "bitwise_not", "logical_and", "logical_or", "all", "any", "max", "min", "sum")),
    aten.bitwise_and.Tensor, aten.bitwise_or.Tensor)}
