# SPDX-License-Identifier: MIT
"""Sparse tensors: their indices and values, of which fake tensors know the shapes alone, and what operators make of them.

Blocks beside results are those of an H100's history, PyTorch 2.11: of what is coalesced three numbers for each index, and what
its sort takes; of a product rows and columns in 32 bits, and its result once more. cuSPARSE takes nothing beside them.
"""
import sys

import torch
from torch._subclasses import fake_tensor

from .asked import decided
from .recorder import ENGINE_CODE, GPU, aten, is_gpu

COMPRESSED = {torch.sparse_csr: (aten.crow_indices.default, aten.col_indices.default, aten.values.default),
              torch.sparse_csc: (aten.ccol_indices.default, aten.row_indices.default, aten.values.default)}
PARTS = {torch.sparse_coo: (aten._indices.default, aten._values.default), **COMPRESSED}
TURNED = {torch.sparse_csr: torch.sparse_csc, torch.sparse_csc: torch.sparse_csr}


def is_sparse(tensor):
    return isinstance(tensor, torch.Tensor) and tensor.layout in PARTS


def is_sorted(tensor):
    return tensor.layout is torch.sparse_coo and tensor.is_coalesced()


def parts(recorder, tensor):
    """Indices and values."""
    return [recorder.evaluate(part, (tensor,), {}) for part in PARTS[tensor.layout]]


def made(recorder, layout, found, size, sorted=False):
    """As of_parts(), not recorded."""
    values = found[-1]
    if layout is torch.sparse_coo:
        with recorder.fake:
            return aten._sparse_coo_tensor_with_dims_and_tensors.default(
                len(found[0]), values.dim() - 1, size, *found, dtype=values.dtype, layout=layout, device=GPU, is_coalesced=sorted)
    with fake_tensor.in_kernel_invocation_manager(recorder.fake):  # where all are on "meta"
        inner = aten._sparse_compressed_tensor_unsafe.default(*found, size, dtype=values.dtype, layout=layout, device=torch.device("meta"))
    return fake_tensor.FakeTensor(recorder.fake, inner, GPU)


def of_parts(recorder, *of):
    """A tensor on the GPU: its layout, parts that are there, its size, and whether it is coalesced, of COO."""
    result = made(recorder, *of)
    recorder.record(result)
    return result


def copied(recorder, tensor, dtype=None):
    """Parts on the GPU like those of a tensor, wherever that is."""
    if is_gpu(tensor):
        found = parts(recorder, tensor)
    else:
        with torch._C._DisableTorchDispatch():
            found = [part(tensor) for part in PARTS[tensor.layout]]
    shapes = [(tuple(part.shape), part.dtype) for part in found]
    shapes[-1] = shapes[-1][0], dtype or shapes[-1][1]
    return [recorder.empty(*shape) for shape in shapes]


def moved(recorder, tensor, device, dtype):
    """.to(), part by part. On the CPU there are ones, all at one place."""
    if device is None or device.type == "cuda":
        return of_parts(recorder, tensor.layout, copied(recorder, tensor, dtype), tuple(tensor.shape), is_sorted(tensor))
    recorder.value_read()
    values = tuple(parts(recorder, tensor)[-1].shape)
    with torch._C._DisableTorchDispatch():
        indices = torch.zeros(tensor.dim() - len(values) + 1, values[0], dtype=torch.int64)
        result = torch.sparse_coo_tensor(indices, torch.ones(values, dtype=dtype or tensor.dtype), tuple(tensor.shape))
        return result if tensor.layout is torch.sparse_coo else result.to_sparse(layout=tensor.layout)


def like(recorder, tensor, dtype=None):
    """With the indices of another, and values of its own."""
    *indices, values = parts(recorder, tensor)
    own = recorder.empty(tuple(values.shape), dtype or values.dtype)
    return of_parts(recorder, tensor.layout, [*indices, own], tuple(tensor.shape), is_sorted(tensor))


def first(args):
    """Among arguments."""
    return next((arg for arg in args if is_sparse(arg) and is_gpu(arg)), None)


# --- rules of operators: of tensors that are not sparse they are NotImplemented ---

def shared(recorder, func, args, kwargs):
    """The same parts."""
    tensor = args[0]
    return of_parts(recorder, tensor.layout, parts(recorder, tensor), tuple(tensor.shape),
                    is_sorted(tensor)) if is_sparse(tensor) else NotImplemented


def cloned(recorder, func, args, kwargs):
    """Autograd keeps a gradient of parts without gaps as it is; of a tensor subclass it makes a clone."""
    tensor = args[0]
    if not is_sparse(tensor):
        return NotImplemented
    found = parts(recorder, tensor)
    if sys._getframe(3).f_code is not ENGINE_CODE or not all(part.is_contiguous() for part in found):
        found = [recorder.empty(tuple(part.shape), part.dtype) for part in reversed(found)][::-1]
    return of_parts(recorder, tensor.layout, found, tuple(tensor.shape), is_sorted(tensor))


def turned(recorder, func, args, kwargs):
    """A transposed one of compressed rows is one of compressed columns."""
    layout = TURNED.get(args[0].layout)
    return of_parts(recorder, layout, parts(recorder, args[0]), tuple(reversed(args[0].shape))) if layout else NotImplemented


def elementwise(recorder, func, args, kwargs):
    found = first(args)
    return NotImplemented if found is None else like(recorder, found)


def joined(recorder, left, right, in_place):
    """The sum of two: as many numbers as both have."""
    with recorder.fake:
        found = [torch.cat(pair, dim) for pair, dim in zip(zip(parts(recorder, left), parts(recorder, right)), (1, 0))]
    result = made(recorder, left.layout, found, tuple(left.shape))
    if in_place:
        result = recorder.evaluate(aten.copy_sparse_to_sparse_.default, (left, result), {})
    recorder.record(result)
    return result


def added(recorder, func, args, kwargs):
    left, right = args[:2]
    in_place = func._schema.is_mutable
    if not (isinstance(right, torch.Tensor) and is_sparse(right) and right.layout is torch.sparse_coo):
        return NotImplemented
    if is_sparse(left):
        return joined(recorder, left, right, in_place)
    result = left if in_place else recorder.empty(tuple(left.shape), left.dtype)
    if right.sparse_dim() > 1 and not is_sorted(right):
        recorder.scratch(8 * right._nnz())
    return result


def coalesced(recorder, func, args, kwargs):
    """Indices in one number each are sorted with their places; as many are left at most."""
    nbytes = 8 * args[0]._nnz()
    blocks = [recorder.take(nbytes) for _ in range(3 if nbytes else 0)]
    recorder.scratch(2 * nbytes)
    result = of_parts(recorder, torch.sparse_coo, copied(recorder, args[0]), tuple(args[0].shape), True)
    for block in reversed(blocks):
        recorder.give_back(block)
    return result


def masked(recorder, func, args, kwargs):
    """The values of a dense tensor at the places of a sparse one, multiplied by ones."""
    *indices, values = parts(recorder, args[1])
    blocks = [recorder.take(n * args[0].element_size()) for n in (1, values.numel()) if n]
    found = [recorder.empty(tuple(part.shape), part.dtype) for part in indices] + [recorder.empty(tuple(values.shape), args[0].dtype)]
    for block in reversed(blocks):
        recorder.give_back(block)
    return of_parts(recorder, args[1].layout, found, tuple(args[1].shape), is_sorted(args[1]))


def product(recorder, func, args, kwargs):
    left, right = [arg for arg in args if isinstance(arg, torch.Tensor)][-2:]
    found = first((left, right))
    if found is None:
        return NotImplemented
    if is_sparse(left) and is_sparse(right):
        decided(recorder, "a product of two sparse tensors: as many results as the larger has numbers were taken")
        return like(recorder, max(left, right, key=lambda tensor: tensor._nnz()))
    result = recorder.empty((left.shape[0], *right.shape[1:]), left.dtype)
    small = [4 * found._nnz(), 4 * (found.shape[0] + 1)] if found.layout is torch.sparse_coo else []
    recorder.scratch(*small, result.numel() * result.element_size())
    return result


def compressed(recorder, func, args, kwargs):
    """Of rows and columns."""
    layout = kwargs.get("layout") or torch.sparse_csr
    if layout not in COMPRESSED or len(args) < 4:
        return NotImplemented
    return of_parts(recorder, layout, list(args[:3]), tuple(args[3]))


def numbers(recorder, source):
    """How many there are in what becomes a sparse tensor."""
    if is_sparse(source):
        return source._nnz()
    decided(recorder, "a sparse tensor of a dense one: as if no number were 0")
    return source.numel()


def rows(recorder, func, args, kwargs):
    source = args[0]
    number = numbers(recorder, source)
    found = [recorder.empty((source.shape[0] + 1,), torch.int64), recorder.empty((number,), torch.int64),
             recorder.empty((number,), source.dtype)]
    return of_parts(recorder, torch.sparse_csr, found, tuple(source.shape))


def places(recorder, func, args, kwargs):
    source = args[0]
    number = numbers(recorder, source)
    found = [recorder.empty((source.dim(), number), torch.int64), recorder.empty((number,), source.dtype)]
    return of_parts(recorder, torch.sparse_coo, found, tuple(source.shape), True)


def dense(recorder, func, args, kwargs):
    return recorder.empty(tuple(args[0].shape), args[0].dtype) if is_sparse(args[0]) else NotImplemented


def summed(recorder, func, args, kwargs):
    """Over some dimensions; as many numbers are left at most."""
    dims = {d % args[0].dim() for d in args[1]}
    kept = [n for d, n in enumerate(args[0].shape) if d not in dims]
    indices, values = parts(recorder, args[0])
    lines = sum(d not in dims for d in range(len(indices)))
    width = [n for d, n in enumerate(args[0].shape) if d >= len(indices) and d not in dims]
    if not lines:
        return recorder.empty(tuple(width), values.dtype)
    found = [recorder.empty((lines, values.shape[0]), torch.int64), recorder.empty((values.shape[0], *width), values.dtype)]
    return of_parts(recorder, torch.sparse_coo, found, tuple(kept))


NAMES = {
    shared: ("detach", "alias"),
    cloned: ("clone",),
    turned: ("t", "transpose.int"),
    elementwise: ("mul.Tensor", "mul.Scalar", "div.Tensor", "div.Scalar", "neg", "pow.Tensor_Scalar", "sqrt", "abs", "relu",
                  "_sparse_softmax", "_sparse_log_softmax", "_sparse_softmax_backward_data", "_sparse_log_softmax_backward_data"),
    added: ("add_.Tensor",),
    coalesced: ("_coalesce",),
    masked: ("sparse_mask", "_sparse_mask_projection"),
    product: ("mm", "addmm", "mv", "_sparse_addmm", "_sparse_sparse_matmul"),
    compressed: ("sparse_compressed_tensor.comp_plain_value_size", "sparse_compressed_tensor.comp_plain_value",
                 "_sparse_compressed_tensor_unsafe",
                 "sparse_csr_tensor.crow_col_value_size", "_sparse_csr_tensor_unsafe"),
    rows: ("_to_sparse_csr",),
    places: ("_to_sparse", "_to_sparse.sparse_dim"),
    dense: ("_to_dense",),
    summed: ("_sparse_sum.dim",),
}


def operators(rules):
    for rule, names in rules.items():
        for name in names:
            packet, _, overload = name.partition(".")
            found = getattr(getattr(aten, packet, None), overload or "default", None)
            if found is not None:
                yield found, rule


RULES = dict(operators(NAMES))
