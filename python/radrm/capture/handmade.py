# SPDX-License-Identifier: MIT
"""Kernels that are no operators of PyTorch's, and ways of launching: Triton's, attention that torch.compile makes, CUDA graphs."""
import functools

import torch

from . import fileformat as ff
from . import work, writes
from .recorder import is_gpu


TOGETHER = 25_000  # boxes: torchvision looks at those of all classes at once
WORD = 64  # boxes that one number of nms' mask is of


def nms(recorder, func, args, kwargs):
    """torchvision's: sorted by their scores, each box has a bit for each other one. All may be kept."""
    boxes, scores = args[:2]
    n = boxes.shape[0]
    if not n:
        return recorder.empty((0,), torch.int64)
    order = recorder.run(torch.ops.aten.sort.stable, (scores,), {"stable": True, "dim": 0, "descending": True})[1]
    boxes = recorder.run(torch.ops.aten.index_select.default, (boxes, 0, order), {})
    mask, keep = recorder.take(n * -(-n // WORD) * 8), recorder.take(n)
    result = recorder.empty((n,), torch.int64)
    recorder.give_back(keep)
    recorder.give_back(mask)
    return result


def after(session):
    """{module: what is done once it is imported}, as imports.Imports takes it."""
    recorder = session.recorder

    def launch(self, *args, grid=None, warmup=False, **kwargs):
        """A Triton kernel writes into tensors that the script has made. It is taken to read or write each of its arguments once."""
        given = [*args, *kwargs.values()]
        if not any(map(is_gpu, given)):
            return None
        recorder.work.host["backward" if recorder.in_backward else "forward"] += 1
        work.plain(recorder.work, ff.POINTWISE, given, {}, None)
        for one in filter(is_gpu, given):
            writes.wrote(one)
        recorder.note(0, "Triton kernels: how much they compute is not known, only what they read and write")

    def kernels(module):
        module.JITFunction.run = launch

    def tuned(module):
        module.Autotuner.run = module.Heuristics.run = launch

    def flexible(module):
        def flex_attention(query, key, value, score_mod=None, block_mask=None, scale=None, enable_gqa=False, return_lse=False, *_, **more):
            if not is_gpu(query):
                return real(query, key, value, score_mod, block_mask, scale, enable_gqa, return_lse, *_, **more)
            recorder.note(ff.COMPILED, "flex_attention: captured as flash attention, as which torch.compile has it; what a "
                                       "score_mod learns is "
                          "not in it")
            groups = query.shape[-3] // key.shape[-3]
            if groups > 1:
                key, value = (t.unsqueeze(-3).expand(*t.shape[:-2], groups, *t.shape[-2:]).flatten(-4, -3) for t in (key, value))
            out = torch.nn.functional.scaled_dot_product_attention(query, key, value, is_causal=block_mask is not None, scale=scale)
            lse = query.new_zeros(query.shape[:-1], dtype=torch.float32) if return_lse or more.get("return_aux") is not None else None
            return (out, lse) if lse is not None else out
        real = module.flex_attention
        module.flex_attention = flex_attention

    def vision(module):
        def one_by_one(boxes, scores, idxs, iou_threshold):
            """Of many boxes those of one class after the other are looked at. How many each has is not known: no more than
            would be looked at all together."""
            torch.ops.torchvision.nms(boxes[:TOGETHER], scores[:TOGETHER], iou_threshold)
            return scores.sort(descending=True)[1]
        real = module._batched_nms_vanilla
        module._batched_nms_vanilla = lambda boxes, *args: (one_by_one if is_gpu(boxes) else real)(boxes, *args)
        recorder.rules[torch.ops.torchvision.nms.default] = nms
    return {"torchvision.ops.boxes": vision, "triton.runtime.jit": kernels, "triton.runtime.autotuner": tuned,
            "torch.nn.attention.flex_attention": flexible}


def install(recorder, patch):
    """CUDA graphs: what they are captured of runs as it is, on the stream of captures: cuBLAS has workspaces of its own there."""
    def told():
        recorder.note(ff.COMPILED, "CUDA graphs: the eager run was captured; a graph has memory of its own beside it", None)

    class Graph:
        def __init__(self, *_, **__):
            told()

        def __getattr__(self, name):
            return lambda *_, **__: None

    @functools.cache
    def capturing():
        return torch.cuda.Stream()

    def warmed(run):
        """As it is tried before it is captured, on another stream."""
        first = [torch.cuda.Stream()]

        def call(*args, **kwargs):
            with torch.cuda.stream(first.pop() if first else capturing()):
                return run(*args, **kwargs)
        return call

    def graphed(callables, *_, **__):
        told()
        if isinstance(callables, tuple):
            return tuple(map(graphed, callables))
        if not isinstance(callables, torch.nn.Module):
            return warmed(callables)
        callables.forward = warmed(callables.forward)
        return callables

    def graph(_=None, pool=None, stream=None, **__):
        return torch.cuda.stream(stream or capturing())
    for owner in (torch.cuda, torch.cuda.graphs):
        for name, value in (("CUDAGraph", Graph), ("graph", graph), ("make_graphed_callables", graphed),
                            ("graph_pool_handle", lambda: (0, 0))):
            if hasattr(owner, name):
                patch(owner, name, value)
