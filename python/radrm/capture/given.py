# SPDX-License-Identifier: MIT
"""Tensors that came from the CPU and were not written since, and what is told by them alone: a mask, a constant of a buffer. Their values are known.

A batch came from there, too, and the next one is another. So what hangs on values is certain where they were the same each time that this line asked.

Numbers that are spread evenly, as times of a solver, are made on the GPU of numbers of the script alone: they are certain, and so is what is computed from them.
"""
import contextlib

import torch
from torch.utils._pytree import tree_leaves, tree_map

from .asked import decided, script_line
from .recorder import aten, is_gpu

LIMIT = 1 << 22  # elements of one
SMALL = 1 << 10  # likewise, of one that is computed
DEEP = 16  # computations of large ones that wait for somebody to ask


class Unasked:
    """What a large tensor holds, computed when somebody asks: of most masks nobody does."""

    def __init__(self, func, args, kwargs):
        self.how, self.values = (func, args, kwargs), None
        self.depth = 1 + max((arg.depth for arg in tree_leaves(args) if isinstance(arg, Unasked)), default=0)

    def get(self):
        if self.how:
            (func, args, kwargs), self.how = self.how, None
            args = tree_map(lambda arg: arg.get() if isinstance(arg, Unasked) else arg, args)
            with torch._C._DisableTorchDispatch(), contextlib.suppress(RuntimeError):  # of a view that there is none of on the CPU
                self.values = func(*args, **kwargs)
        return self.values


def noted(tensor):
    """(its values on the CPU, or an Unasked, the tensors they were told by, there as well); None: they are not known, or something was written into it."""
    found, version = getattr(tensor, "radrm_given", (None, None))
    return found if found is not None and not tensor.is_inference() and version == tensor._version else None


def of(tensor):
    """Likewise, the values themselves."""
    values, roots = noted(tensor) or (None, ())
    values = values.get() if isinstance(values, Unasked) else values
    return None if values is None else (values, roots)


def put(tensor, values, roots):
    if not tensor.is_inference():
        tensor.radrm_given = (values, roots), tensor._version


def came(result, source):
    """A tensor came from the CPU. Weights are written soon."""
    if 0 < source.numel() <= LIMIT and not source.requires_grad and not source.dtype.is_complex and result.shape == source.shape:
        with torch._C._DisableTorchDispatch():
            values = source.detach().to(result.dtype, copy=True)
        put(result, values, (values,))


def is_constant(tensor):
    """Whether its values hang on nothing but numbers of the script."""
    found = of(tensor)
    return found is not None and not found[1]


def spread(recorder, func, args, kwargs, result):
    """Made of numbers."""
    if 0 < result.numel() <= SMALL and not result.dtype.is_complex:
        with torch._C._DisableTorchDispatch():
            put(result, func(*args, dtype=result.dtype, device="cpu"), ())


def spread_on_cpu(recorder, func, args, kwargs):
    """linspace() and logspace() between numbers on the GPU, by themselves on the CPU: they are read, and are known not to be the same."""
    if kwargs.get("device") is not None and kwargs["device"].type == "cuda":
        return NotImplemented
    recorder.value_read()
    first, last = ((of(arg) or [None])[0] if is_gpu(arg) else arg for arg in args[:2])
    with torch._C._DisableTorchDispatch():
        first = 0.0 if first is None else float(first)
        last = first + 1 if last is None else float(last)
        return getattr(aten, func._schema.name.removeprefix("aten::")).default(first, last, *args[2:], **kwargs)


def computed(recorder, func, args, kwargs, result):
    """From constants and numbers alone; a batch is not computed on the CPU as well."""
    if isinstance(result, torch.Tensor) and result.numel() <= SMALL and all(is_constant(arg) for arg in args if is_gpu(arg)):
        told(recorder, func, args, kwargs, result)


def unbound(recorder, func, args, kwargs, results):
    """A loop goes over one."""
    if of(args[0]) is not None and args[0].numel() <= SMALL:
        for number, result in enumerate(results):
            told(recorder, aten.select.int, (args[0], args[1] if len(args) > 1 else 0, number), {}, result)


def told(recorder, func, args, kwargs, result):
    """What is computed from such tensors and from numbers."""
    if not is_gpu(result) or not 0 < result.numel() <= LIMIT or result.is_inference():
        return
    roots = {}
    args = values_of(args, roots)
    if id(None) not in roots:
        found = Unasked(func, args, {name: value for name, value in kwargs.items() if name in ("dtype", "memory_format")})
        if result.numel() <= SMALL or found.depth > DEEP:
            found = found.get()
        if found is not None:
            put(result, found, tuple(roots.values()))


def values_of(arg, roots):
    """An argument with values in place of tensors; `roots` gets what they were told by, by id, and None where one is not known."""
    if isinstance(arg, (list, tuple)):
        return [values_of(part, roots) for part in arg]
    if not isinstance(arg, torch.Tensor):
        return arg
    found, more = is_gpu(arg) and noted(arg) or (None, (None,))
    roots.update((id(root), root) for root in more)
    return found


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
        if roots and times == 1:
            decided(recorder, "a value that came from the CPU: it may be another the next time", line)


AROUND = {
    aten.linspace.default: spread, aten.logspace.default: spread,
    aten.unbind.int: unbound,
    **{op: computed for op in (*(getattr(getattr(aten, name), kind) for name in ("add", "sub", "mul", "div") for kind in ("Tensor", "Scalar")),
                               aten.rsub.Scalar, aten.neg.default, aten.flip.default, aten.cumsum.default)},
    **{op: told for op in (
        aten.view.default, aten._unsafe_view.default, aten.expand.default, aten.slice.Tensor, aten.select.int, aten.unsqueeze.default, aten.squeeze.default,
        aten.squeeze.dim, aten.transpose.int, aten.permute.default, aten.t.default, aten.alias.default, aten.detach.default, aten.clone.default, aten._to_copy.default,
        *(getattr(getattr(aten, name), kind) for name in ("eq", "ne", "lt", "le", "gt", "ge") for kind in ("Tensor", "Scalar")),
        *(getattr(aten, name).default for name in ("logical_not", "bitwise_not", "logical_and", "logical_or", "all", "any", "max", "min", "sum")),
        aten.bitwise_and.Tensor, aten.bitwise_or.Tensor)}}
RULES = {getattr(packet, name): spread_on_cpu for packet in (aten.linspace, aten.logspace) for name in ("Tensor_Tensor", "Tensor_Scalar", "Scalar_Tensor")
         if hasattr(packet, name)}
