# SPDX-License-Identifier: MIT
"""Tensors that came from the CPU and were not written since, and what is told by them alone: a mask, a constant of a buffer.
Their values are known.

A batch came from there, too, and the next one is another. So what hangs on values is certain where they were the same each time
that this line asked.

Numbers that are spread evenly, as times of a solver, eye(), and what was filled with one number are made on the GPU of numbers
of the script alone: they are certain, and so is what is computed from them.
"""
import operator

import torch
from torch.utils._pytree import tree_leaves, tree_map

from .asked import decided, script_place
from .recorder import aten, is_gpu
from .writes import version_of

LIMIT = 1 << 22  # elements of one
BATCH = 1 << 16  # likewise, of one that more is computed of than is left when nobody asks
SMALL = 1 << 10  # likewise, of one that is computed at once
DEEP = 16  # computations of larger ones that wait for somebody to ask
INTEGERS = {torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64}
PLACE = {"device", "layout", "pin_memory", "non_blocking"}  # arguments that say nothing of values


class Unasked:
    """What a tensor holds, computed when somebody asks: of most masks nobody does."""

    def __init__(self, func, args, kwargs):
        self.how, self.values = (func, args, kwargs), None
        self.depth = 1 + max((arg.depth for arg in tree_leaves((args, kwargs)) if isinstance(arg, Unasked)), default=0)

    def get(self):
        if self.how:
            (func, args, kwargs), self.how = self.how, None
            args, kwargs = tree_map(lambda arg: arg.get() if isinstance(arg, Unasked) else arg, (args, kwargs))
            try:
                with torch._C._DisableTorchDispatch():
                    self.values = func(*args, **kwargs)
            # A view that there is none of on the CPU, or a type that it does not compute with.
            except (RuntimeError, TypeError, IndexError):
                self.values = None
        return self.values


def noted(tensor):
    """(its values on the CPU, or an Unasked, the tensors they were told by, there as well, whether they are numbers()); None:
    they are not known, or something was written into it."""
    found, version = getattr(tensor, "radrm_given", (None, None))
    return found if found is not None and version == version_of(tensor) else None


def of(tensor):
    """Likewise, the values themselves, without the last."""
    values, roots, _ = noted(tensor) or (None, (), False)
    values = values.get() if isinstance(values, Unasked) else values
    return None if values is None else (values, roots)


def numbers(tensor):
    """The values of integers that come of nothing but few integers that the script put there, as of lengths: they are numbers
    of the script, whatever hangs on them."""
    found = noted(tensor)
    return of(tensor)[0] if found and found[2] and of(tensor) else None


def put(tensor, values, roots, sized, later=0):
    """`later`: so many more writes are noted until it holds that."""
    tensor.radrm_given = (values, roots, sized), version_of(tensor) + later


def came(result, source):
    """A tensor came from the CPU. Weights are written soon."""
    if 0 < source.numel() <= LIMIT and not source.requires_grad and not source.dtype.is_complex and result.shape == source.shape:
        with torch._C._DisableTorchDispatch():
            values = source.detach().to(result.dtype, copy=True)
            put(result, values, (values,), source.numel() <= SMALL and {source.dtype, result.dtype} <= INTEGERS)


def is_constant(tensor):
    """Whether its values hang on nothing but numbers of the script."""
    found = of(tensor)
    return found is not None and not found[1]


def made(recorder, func, args, kwargs, result):
    """Made of sizes alone, and not all the same: eye()."""
    if 0 < result.numel() <= LIMIT and not result.dtype.is_complex:
        put(result, Unasked(func, args, {"dtype": result.dtype}), (), False)


def constant(tensor):
    """The values of a tensor that the script itself filled with one number; None: of one that it did not."""
    value, version, sure = getattr(tensor, "radrm_value", (None, None, False))
    return Unasked(torch.full, (tuple(tensor.shape), value), {"dtype": tensor.dtype}) if sure and version == version_of(tensor) else None


def spread(recorder, func, args, kwargs, result):
    """Made of numbers."""
    if 0 < result.numel() <= SMALL and not result.dtype.is_complex:
        with torch._C._DisableTorchDispatch():
            put(result, func(*args, dtype=result.dtype, device="cpu"), (), result.dtype in INTEGERS)


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


def told(recorder, func, args, kwargs, result, later=0):
    """What is computed from such tensors and from numbers, by an operator whose results hang on nothing else."""
    if any(is_gpu(arg) and not vars(arg).keys() & {"radrm_given", "radrm_value"} for arg in args):
        return
    single = not isinstance(result, (tuple, list))
    results, tensors = [result] if single else list(result), [arg for arg in tree_leaves((args, kwargs)) if isinstance(arg, torch.Tensor)]
    found = [values_of(recorder, arg) for arg in tensors]
    # No batch comes of numbers of the script alone.
    limit = LIMIT if func in LEFT or not any(roots for _, roots, _ in filter(None, found)) else BATCH
    largest = max((t.numel() for t in (*tensors, *results)), default=0)
    if None in found or not all(map(is_gpu, results)) or not 0 < largest <= limit or len(results) > SMALL:
        return
    roots = tuple({id(root): root for _, roots, _ in found for root in roots}.values())
    sized = func not in COUNTS and all(sized for *_, sized in found)
    # As many are counted by it, the graphs of a batch by their numbers.
    sized = sized or func is aten.max.default and tensors[0].dtype in INTEGERS
    by = {id(tensor): values for tensor, (values, *_) in zip(tensors, found)}
    args, kwargs = tree_map(lambda arg: by.get(id(arg), arg),
                            (list(args), {name: value for name, value in kwargs.items() if name not in PLACE}))
    values = Unasked(func, args, kwargs)
    if largest <= SMALL or values.depth > DEEP:
        values.get()
    for number, part in enumerate(results):
        one = values if single else Unasked(operator.getitem, (values, number), {})
        put(part, one if one.depth <= DEEP and one.how else one.get(), roots, sized and part.dtype in INTEGERS, later)


def turned(recorder, func, args, kwargs, result):
    """It became another view of itself."""
    if recorder.overwritten["radrm_given"] is not None:
        args[0].radrm_given = recorder.overwritten["radrm_given"]
        told(recorder, TURNS[func], args, kwargs, args[0], later=1)


def placed(recorder, func, args, kwargs, result):
    """A number is put into a tensor's element, or a part: `params[2] = norm`. The rest is what it was, and what is not known is
    1, as where it is read; but that is told by nothing that would be the same the next time."""
    part, source = args[0], args[1]
    base = part._base
    found = None if base is None or not is_gpu(part) or not base.is_contiguous() else of(base)
    if found is None or base.numel() > SMALL or found[0].shape != base.shape:  # of a mask's elements there may be fewer
        return
    values, roots, sized = noted(base)
    new = values_of(recorder, source) if isinstance(source, torch.Tensor) else (source, (), True)
    if new is None and not base.dtype.is_floating_point:  # a mask, or lengths: too much hangs on these
        return
    with torch._C._DisableTorchDispatch():
        value, more, whole = new or (1, (torch.tensor(version_of(base)),), False)
        values = found[0].clone(memory_format=torch.contiguous_format)
        place = values.as_strided(part.shape, part.stride(), part.storage_offset() - base.storage_offset())
        place.copy_(torch.as_tensor(value.get() if isinstance(value, Unasked) else value))
        put(base, values, (*roots, *more), sized and whole, later=1)


def values_of(recorder, tensor):
    """As noted(); a tensor on the CPU tells what it holds now."""
    if is_gpu(tensor):
        return noted(tensor) or ((values, (), False) if (values := constant(tensor)) else None)
    if type(tensor) is not torch.Tensor or tensor.numel() > SMALL or tensor.requires_grad or recorder.host.knows(tensor):
        return None
    with torch._C._DisableTorchDispatch():
        values = tensor.clone()
    return values, (values,), tensor.dtype in INTEGERS


def agreed(recorder, tensor):
    """Its values, on which something hangs now; None: they are not known, or they were told by others when this line asked before."""
    found = of(tensor)
    if found is None:
        return None
    values, roots = found
    before = recorder.given.setdefault(script_place(), [roots, 0])
    before[1] += 1
    if before[0] is None:
        return None
    with torch._C._DisableTorchDispatch():
        same = len(before[0]) == len(roots) and all(a is b or a.shape == b.shape and a.dtype == b.dtype and torch.equal(a, b)
                                                    for a, b in zip(before[0], roots))
    if not same:
        before[0] = None
        return None
    return values


def once(recorder):
    """What hung on such values and was seen but once may be of a batch."""
    for (line, _), (roots, times) in recorder.given.items():
        if roots and times == 1:
            decided(recorder, "a value that came from the CPU: it may be another the next time", line)


def pure(*names):
    """The operators of these names that write nothing."""
    packets = [getattr(aten, name) for name in names if hasattr(aten, name)]
    return {op for packet in packets for op in (getattr(packet, kind) for kind in packet.overloads()) if not op._schema.is_mutable}


LEFT = pure("view", "_unsafe_view", "expand", "slice", "select", "unsqueeze", "squeeze", "transpose", "permute", "t", "alias",
            "detach", "clone", "_to_copy", "eq", "ne", "lt", "le",
            "gt", "ge", "logical_not", "logical_and", "logical_or", "bitwise_not", "bitwise_and", "bitwise_or", "all", "any",
            "max", "min", "sum",
            "index")  # that masks are made with, and taken by them
PURE = LEFT | pure("add", "sub", "rsub", "mul", "div", "floor_divide", "remainder", "neg", "abs", "sign", "floor", "ceil",
                   "round", "trunc", "clamp", "clamp_min", "clamp_max",
                   "maximum", "minimum", "where", "masked_fill", "sort", "argsort", "topk", "argmax", "argmin", "amax", "amin",
                   "cumsum", "prod", "mean", "count_nonzero", "flip", "roll",
                   "cat", "stack", "repeat", "gather", "index_select", "unbind", "split", "split_with_sizes", "tril", "triu",
                   "diagonal", "logical_xor", "bitwise_xor", "pow", "square", "sqrt", "rsqrt", "reciprocal", "exp", "log", "log2", "log10",
                   "norm", "linalg_vector_norm", "fmod")
# Counted of a batch they are no numbers of the script: its labels that are 1 are no lengths.
COUNTS = pure("sum", "prod", "cumsum", "count_nonzero", "argmax", "argmin", "argsort", "topk")
TURNS = {aten.transpose_.default: aten.transpose.int, aten.t_.default: aten.t.default, aten.unsqueeze_.default: aten.unsqueeze.default,
         aten.squeeze_.default: aten.squeeze.default, aten.squeeze_.dim: aten.squeeze.dim}
NUMBERED = (aten.linspace.default, aten.logspace.default, aten.arange.default, aten.arange.start, aten.arange.start_step)
AROUND = {**{op: turned for op in TURNS}, aten.eye.default: made, aten.eye.m: made, **{op: spread for op in NUMBERED},
          **{op: placed for op in (aten.copy_.default, aten.fill_.Scalar, aten.fill_.Tensor)}, **{op: told for op in PURE}}
RULES = {getattr(packet, name): spread_on_cpu for packet in (aten.linspace, aten.logspace)
         for name in ("Tensor_Tensor", "Tensor_Scalar", "Scalar_Tensor")
         if hasattr(packet, name)}
