# SPDX-License-Identifier: MIT
"""Gradients of embeddings, bags of them, and of tensors taken by index: CUDA sorts the indices, then sums up stretches of equal
ones. Sizes were seen in the history of an H200's allocator, PyTorch 2.11; those of the sort itself are CUB's.
"""
import torch

from .kernels import nbytes, up
from .recorder import GPU, aten, is_gpu

FEW = 3072      # up to so many indices an embedding's gradient is summed up without a sort
ROWS = 10       # of one partial sum
SUM, MEAN, MAX = range(3)


def padded(n):
    return up(n, 256) * 256


def sort_scratch(n, size):
    """What CUB's radix sort of n pairs takes, each half of `size` bytes; one tile is sorted without."""
    if n <= 2048:
        return 1
    return 2 * padded(size * n) + 1024 * up(n, 4608) + 2048 * size + 511


def scan_scratch(n):
    return padded(16 * (32 + up(n, 4608))) + 511


def sort(recorder, n, size):
    """Sorted indices and their places, kept; and the places before the sort, given back."""
    kept = [recorder.take(size * n) for _ in range(2)]
    places = recorder.take(size * n)
    recorder.scratch(sort_scratch(n, size))
    recorder.give_back(places)
    return kept


def summed(recorder, n, size, weights, width, result):
    """The gradient of a table of `weights` rows from n sorted indices."""
    recorder.record(result)
    stretches, count = recorder.take(size * n), recorder.take(8)
    all_of_them = recorder.take(size * n)
    recorder.scratch(scan_scratch(n))
    recorder.give_back(all_of_them)
    most = min(n, weights)
    partial = [recorder.take(size * most) for _ in range(2)]
    recorder.scratch(scan_scratch(most))
    parts = n // ROWS + most
    recorder.scratch(8, size * parts, 4 * parts * width)
    for block in (*partial, count, stretches):
        recorder.give_back(block)


def dense_gradient(recorder, gradient, indices, weights, result):
    n, size = indices.numel(), indices.element_size()
    kept = sort(recorder, n, size)
    summed(recorder, n, size, weights, gradient.shape[-1], result)
    for block in reversed(kept):
        recorder.give_back(block)


def contiguous(recorder, tensor):
    """Blocks of the copy that is made of a tensor with gaps."""
    return [] if tensor.is_contiguous() else [recorder.take(nbytes(tensor))]


def embedding_backward(recorder, func, args, kwargs):
    gradient, indices, weights = args[:3]
    if indices.numel() <= FEW:
        return NotImplemented
    result = recorder.evaluate(func, args, kwargs)
    copies = contiguous(recorder, gradient)
    dense_gradient(recorder, gradient, indices, weights, result)
    for block in copies:
        recorder.give_back(block)
    return result


def bag(recorder, func, args, kwargs):
    """(result, bag of each index, size of each bag, places of the maxima)"""
    result = list(recorder.evaluate(func, args, kwargs))
    mode = args[4] if len(args) > 4 else kwargs.get("mode", SUM)
    if mode != MAX:
        with recorder.fake:
            result[3] = torch.empty((0,), dtype=torch.int64, device=GPU)
    for which in (2, 1, 0, 3):
        recorder.record(result[which])
    return tuple(result)


def bag_backward(recorder, func, args, kwargs):
    """Dense ones only: the gradient of a sparse table is its rows."""
    if args[9] or not is_gpu(args[0]):
        return NotImplemented
    return bag_gradient(recorder, args[0], args[1], args[6], args[8])


def bag_dense_backward(recorder, func, args, kwargs):
    """The same where PyTorch has told sparse and dense apart before (up to 2.5)."""
    return bag_gradient(recorder, args[0], args[1], args[5], args[7])


def bag_gradient(recorder, gradient, indices, weights, mode):
    with recorder.fake:
        result = torch.empty((weights, gradient.shape[-1]), dtype=gradient.dtype, device=GPU)
    copies = contiguous(recorder, gradient)
    if mode == MAX or indices.numel() == 0:
        recorder.record(result)
    else:
        dense_gradient(recorder, gradient, indices, weights, result)
    for block in copies:
        recorder.give_back(block)
    return result


RULES = {
    aten.embedding_dense_backward.default: embedding_backward,
    aten._embedding_bag.default: bag,
    aten._embedding_bag_forward_only.default: bag,
    aten._embedding_bag_backward.default: bag_backward,
    aten._embedding_bag_dense_backward.default: bag_dense_backward,
}
