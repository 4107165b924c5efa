# SPDX-License-Identifier: MIT
"""What CUDA does and fake tensors do not know.

Fake tensors know the shapes of results. Which kernel a composite operator picks, what a kernel keeps for the backward pass and
what it takes while it runs are decided by CUDA builds at run time: those decisions are here, each with its condition. All but
the versions named were seen in the allocator's history on an H200 with PyTorch 2.11.
"""
import math
import sys

import torch

from . import fileformat as ff
from .recorder import ENGINE_CODE, aten, is_gpu

VERSION = tuple(int(part) for part in torch.__version__.split("+")[0].split(".")[:2])


# --- matrix products ---

def gemm(recorder, func, args, kwargs, result):
    recorder.records.op(ff.GEMM, 1 if recorder.in_backward else 0, 0)


def addmm(recorder, func, args, kwargs, result):
    """A bias goes through cuBLASLt."""
    bias = args[0]
    lt = bias.dim() == 1 and kwargs.get("beta", 1) == 1 and bias.is_contiguous() and min(args[2].shape) > 1
    recorder.records.op(ff.GEMM, 1 if recorder.in_backward else 0, 1 if lt else 0)


GEMMS = [aten.mm.default, aten.bmm.default, aten.baddbmm.default, aten.addbmm.default, aten.mm.out, aten.bmm.out,
         aten.addmm.out]


# --- convolutions ---

def nbytes(tensor):
    return tensor.numel() * tensor.element_size()


def channels_last(tensor):
    """Whether cuDNN takes the tensor as channels last, as its suggested memory format says."""
    if tensor.dim() == 4:
        return tensor.is_contiguous(memory_format=torch.channels_last) and not tensor.is_contiguous()
    return tensor.dim() == 5 and tensor.is_contiguous(memory_format=torch.channels_last_3d) and not tensor.is_contiguous()


def conv_op(recorder, direction, source, result, weight, groups):
    taps = math.prod(weight.shape[2:])
    layout = channels_last(source) or channels_last(weight)
    recorder.records.op(ff.CONV, direction, nbytes(source), nbytes(result), nbytes(weight), taps, groups, int(layout))


def relaid(tensor, last):
    """Bytes of the copy that a convolution makes of a tensor that is not in its layout."""
    if tensor.dim() != 4:
        return 0
    format = torch.channels_last if last else torch.contiguous_format
    return 0 if tensor.is_contiguous(memory_format=format) else nbytes(tensor)


def convolution(recorder, func, args, kwargs):
    source, weight, groups = args[0], args[1], args[8]
    last = channels_last(source) or channels_last(weight)
    copies = [recorder.take(n) for n in (relaid(source, last), relaid(weight, last)) if n]
    result = recorder.evaluate(func, args, kwargs)
    recorder.record(result)
    conv_op(recorder, 0, source, result, weight, groups)
    for block in copies:
        recorder.give_back(block)
    return result


def convolution_backward(recorder, func, args, kwargs):
    """The gradient of the input, then that of the weights, then that of the bias; each after its own memory."""
    gradient, source, weight, groups = args[0], args[1], args[2], args[9]
    last = channels_last(source) or channels_last(weight)
    result = recorder.evaluate(func, args, kwargs)
    copies = [recorder.take(n) for n in (relaid(gradient, last),) if n]
    for direction, made, other in ((1, result[0], weight), (2, result[1], source)):
        if made is None:
            continue
        copy = [recorder.take(n) for n in (relaid(other, last),) if n]
        recorder.record(made)
        conv_op(recorder, direction, source, gradient, weight, groups)
        for block in copy:
            recorder.give_back(block)
    recorder.record(result[2])
    for block in copies:
        recorder.give_back(block)
    return result


# --- results in the order in which their memory is taken ---

def in_order(*order):
    def run(recorder, func, args, kwargs):
        result = recorder.evaluate(func, args, kwargs)
        for which in order:
            recorder.record(result[which])
        return result
    return run


# --- the autograd engine ---

def engine_adds(recorder, func, args, kwargs):
    """Two gradients of one tensor: the engine adds the second to the first in place where nobody else holds the first. With a
    tensor subclass it never does, so that is done here."""
    if sys._getframe(3).f_code is not ENGINE_CODE or len(args) != 2 or kwargs or torch.is_grad_enabled():
        return NotImplemented
    first, second = args
    if not (is_gpu(first) and is_gpu(second)) or first.shape != second.shape or first.dtype != second.dtype:
        return NotImplemented
    return first if recorder.sole(first) and dense(first) else NotImplemented


def dense(tensor):
    """Whether the elements lie without gaps and without overlap."""
    expected = 1
    for size, stride in sorted(((n, s) for n, s in zip(tensor.shape, tensor.stride()) if n != 1), key=lambda pair: pair[1]):
        if stride != expected:
            return False
        expected *= size
    return True


RULES = {
    aten.convolution.default: convolution,
    aten.convolution_backward.default: convolution_backward,
    aten.native_dropout.default: in_order(1, 0),
    aten.add.Tensor: engine_adds,
}

AROUND = {**{op: gemm for op in GEMMS}, aten.addmm.default: addmm}
