# SPDX-License-Identifier: MIT
"""Batch normalisation over all GPUs of a job (SyncBatchNorm), whose operators only CUDA has."""
import torch

from .recorder import aten


def statistics(recorder, tensor, number):
    """So many tensors with one number for each channel."""
    dtype = torch.float32 if tensor.dtype in (torch.float16, torch.bfloat16) else tensor.dtype
    return tuple(recorder.empty((tensor.shape[1],), dtype) for _ in range(number))


def stats(recorder, func, args, kwargs):
    return statistics(recorder, args[0], 2)


def reduce(recorder, func, args, kwargs):
    """(sum of the gradients, of them times what is normalised, gradients of weight and bias), what was asked for."""
    _, given, _, _, weight, *asked = args
    first = statistics(recorder, given, 2) if asked[0] else (None, None)
    return (*first, *(recorder.empty(tuple(weight.shape), weight.dtype) if wanted and weight is not None else None for wanted in asked[1:]))


def like(place):
    """Another tensor like that argument."""
    return lambda recorder, func, args, kwargs: recorder.plain(aten.empty_like.default, (args[place],), {})


RULES = {
    aten.batch_norm_stats.default: stats,
    aten.batch_norm_gather_stats_with_counts.default: stats,
    aten.batch_norm_elemt.default: like(0),
    aten.batch_norm_backward_reduce.default: reduce,
    aten.batch_norm_backward_elemt.default: like(1),
}
