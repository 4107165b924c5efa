# SPDX-License-Identifier: MIT
"""What CUDA does and fake tensors do not know.

Fake tensors know the shapes of results. Which kernel a composite operator picks, what a kernel keeps for the backward pass and
what it takes while it runs are decided by CUDA builds at run time: those decisions are here, each with its condition. Most
were seen in the allocator's history on an H200 with PyTorch 2.11 (python/tests/test_gpu.py says which jobs match); other
versions were not compared with a run.
"""
import math
import sys

import torch

from . import fileformat as ff
from . import sparse
from .recorder import ENGINE_CODE, GPU, aten, is_gpu

VERSION = tuple(int(part) for part in torch.__version__.split("+")[0].split(".")[:2])


# --- matrix products ---

def gemm(recorder, func, args, kwargs, result):
    recorder.records.op(ff.GEMM, 1 if recorder.in_backward else 0, 0, stream=recorder.stream)


def addmm(recorder, func, args, kwargs, result):
    """A bias goes through cuBLASLt."""
    bias = args[0]
    lt = bias.dim() == 1 and kwargs.get("beta", 1) == 1 and bias.is_contiguous() and min(args[2].shape) > 1
    recorder.records.op(ff.GEMM, 1 if recorder.in_backward else 0, 1 if lt else 0, stream=recorder.stream)


# Products with a vector, too: they are cuBLAS's, with a handle and its workspace.
GEMMS = [aten.mm.default, aten.bmm.default, aten.baddbmm.default, aten.addbmm.default, aten.mm.out, aten.bmm.out,
         aten.addmm.out, aten.mv.default, aten.addmv.default, aten.addmv_.default, aten.dot.default, aten.vdot.default]


def of_type(recorder, func, args, kwargs):
    """A product in another type, added to something: fake tensors take the type for a factor."""
    _, one, other, dtype = args
    result = kwargs["out"] if "out" in kwargs else recorder.empty((*one.shape[:-1], other.shape[-1]), dtype)
    gemm(recorder, func, args, kwargs, result)
    return result


# --- convolutions ---

def nbytes(tensor):
    return tensor.numel() * tensor.element_size()


def channels_last(tensor):
    """Whether PyTorch takes a tensor as channels last: by the order of its strides, those of sides of length 1 too, which a
    layer's .to(memory_format=torch.channels_last) sets even where they do not matter."""
    if tensor.dim() not in (4, 5):
        return False
    shape, stride = tensor.shape, tensor.stride()
    least = 0
    for d in (1, *range(tensor.dim() - 1, 1, -1), 0):
        if shape[d] == 0 or stride[d] < least or (d == 0 and least == stride[1]):
            return False
        least = stride[d] * max(shape[d], 1)
    return stride[1] != 0


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


def laid_out(recorder, tensor, last):
    """The tensor, not recorded yet, in the layout that cuDNN gives a result; a fake tensor has that of a CPU."""
    if tensor is None or not last or tensor.dim() != 4:
        return tensor
    n, channels, height, width = tensor.shape
    with recorder.fake:
        return torch.empty_strided((n, channels, height, width), (channels * height * width, 1, width * channels, channels),
                                   dtype=tensor.dtype, device=tensor.device)


def install(recorder, patch):
    """Builds with CUDA ask the GPU's properties which library convolves (up to 2.10): cuDNN does."""
    cudnn = torch._C._ConvBackend.Cudnn
    patch(torch._C, "_select_conv_backend", lambda *_, **__: cudnn)


def convolution(recorder, func, args, kwargs):
    source, weight, groups = args[0], args[1], args[8]
    last = channels_last(source) or channels_last(weight)
    copies = [recorder.take(n) for n in (relaid(source, last), relaid(weight, last)) if n]
    result = laid_out(recorder, recorder.evaluate(func, args, kwargs), last)
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
    result = (laid_out(recorder, result[0], last), laid_out(recorder, result[1], last), result[2])
    copies = [recorder.take(n) for n in (relaid(gradient, last),) if n]
    for direction, made, other in ((1, result[0], weight), (2, result[1], source)):
        if made is None:
            continue
        copy = [recorder.take(n) for n in (relaid(other, last),) if n]
        recorder.record(made)
        conv_op(recorder, direction, source, gradient, weight, groups)
        for block in copy:
            recorder.give_back(block)
    for block in copies:
        recorder.give_back(block)
    if result[2] is not None:
        recorder.record(result[2])
        recorder.scratch(*reduction_scratch(gradient, {0, *range(2, gradient.dim())}, recorder.processors))
    return result


# --- reductions ---

def threads(first, second, most):
    """(width, height) of a block for a loop of two dimensions (Reduce.cuh, set_block_dimension)."""
    first, second = (min(most, 1 << (max(n, 1).bit_length() - 1)) for n in (first, second))
    width = min(first, 32)
    height = min(second, most // width)
    return min(first, most // height), height


def up(a, b):
    return -(-a // b)


def reduction_scratch(source, dims, processors, size=4):
    """Bytes of (partial results, counters) when a reduction is split over thread blocks, (0, 0) when it is not: the launch
    configuration of Reduce.cuh, setReduceConfig."""
    inner = sorted((st, n) for d, (n, st) in enumerate(zip(source.shape, source.stride())) if d in dims and n > 1)
    outer = sorted((st, n) for d, (n, st) in enumerate(zip(source.shape, source.stride())) if d not in dims and n > 1)
    inputs, outputs = math.prod(n for _, n in inner), math.prod(n for _, n in outer)
    if not inner:
        return 0, 0
    fast = not outer or inner[0][0] < outer[0][0]
    flat = not outer and all(st == before[0] * before[1] for before, (st, _) in zip(inner, inner[1:]))
    first, second = (inputs, outputs) if fast else (outputs, inputs)
    vector = 1
    if (inner if fast else outer)[0][0] == 1:
        if fast and first > 128 and flat:
            first //= 4
        elif not fast:
            vector = 4
            while any(n % vector for n in (outer[0][1], *(st for st, _ in inner), *(st for st, _ in outer[1:]))):
                vector //= 2
            first //= vector
    width, height = threads(first, second, 512 // vector)
    step_in, step_out = (width, 1) if fast else (1, width)
    split = up(inputs, step_in) >= min(height * 16, 256)
    if split:
        step_in *= height
    else:
        step_out *= height
    values, grid = up(inputs, step_in), up(outputs // vector, step_out)
    target = processors * (2048 // (width * height))
    if not split or values < 256 or grid > target:
        return 0, 0
    blocks = max(min(up(target, grid), up(values, 16)), up(values, 256))
    if blocks <= 1:
        return 0, 0
    return size * outputs * blocks * (1 if fast else width * vector), 4 * grid


def converted(recorder, source, result):
    """The copy in the result's type, a block and its stand-in, that a sum makes of what it reads: bool and int become int64
    first. Half precision is read as it is."""
    if not isinstance(result, torch.Tensor) or result.dtype == source.dtype or source.dtype.itemsize == 2:
        return None, source
    with recorder.fake:
        stand_in = torch.empty(source.shape, dtype=result.dtype, device=GPU)
    return recorder.take(nbytes(stand_in)), stand_in


def reduced(size=4, dim=1, converts=False):
    """A rule's second half: the scratch memory of a reduction over args[dim] (None: all)."""
    def note(recorder, func, args, kwargs, result):
        dims = args[dim] if len(args) > dim else kwargs.get("dim")
        copy, source = converted(recorder, args[0], result) if converts else (None, args[0])
        if dims is None or dims == []:
            dims = range(source.dim())
        elif isinstance(dims, int):
            dims = [dims]
        recorder.scratch(*reduction_scratch(source, {d % max(source.dim(), 1) for d in dims}, recorder.processors,
                                            max(size, source.element_size()) if copy else size))
        if copy:
            recorder.give_back(copy)
    return note


REDUCTIONS = {
    aten.sum.dim_IntList: reduced(converts=True), aten.sum.default: reduced(converts=True),
    aten.mean.default: reduced(converts=True), aten.mean.dim: reduced(converts=True),
    aten.amax.default: reduced(), aten.amin.default: reduced(), aten.max.default: reduced(), aten.min.default: reduced(),
    aten.max.dim: reduced(16), aten.min.dim: reduced(16), aten.argmax.default: reduced(16), aten.prod.default: reduced(),
    aten.linalg_vector_norm.default: reduced(dim=2), aten.norm.Scalar: reduced(dim=9), aten.any.default: reduced(1),
    aten.all.default: reduced(1), aten.var.correction: reduced(16), aten.std.correction: reduced(16),
}


# --- optimizers ---

def foreach_norm(recorder, func, args, kwargs):
    """Partial norms of each tensor's chunks of 65,536 elements, then one norm a tensor."""
    tensors = args[0]
    partial = recorder.take(4 * len(tensors) * max(up(t.numel(), 65536) for t in tensors))
    result = recorder.evaluate(func, args, kwargs)
    recorder.record(result)
    recorder.give_back(partial)
    return result


def no_library(recorder, func, args, kwargs):
    """cuDNN's CTC loss wants targets on the CPU, in int32; otherwise PyTorch's own is taken."""
    return False


def nothing(recorder, func, args, kwargs):
    """In place, without memory of its own, and without a fake implementation."""
    return None


# --- results in the order in which their memory is taken ---

def in_order(*order):
    def run(recorder, func, args, kwargs):
        result = recorder.evaluate(func, args, kwargs)
        for which in order:
            recorder.record(result[which])
        return result
    return run


# --- layer normalisation ---

def dense_like(recorder, tensor):
    """Copies, as blocks, of a tensor that is not contiguous."""
    return [] if tensor is None or tensor.is_contiguous() else [recorder.take(nbytes(tensor))]


def in_rows(recorder, tensor):
    """A tensor of that shape without gaps, not recorded yet."""
    with recorder.fake:
        return torch.empty(tuple(tensor.shape), dtype=tensor.dtype, device=GPU)


def layer_norm(recorder, func, args, kwargs):
    """Reads a copy without gaps, and gives such a result."""
    result = list(recorder.evaluate(func, args, kwargs))
    copies = dense_like(recorder, args[0])
    if copies:
        result[0] = in_rows(recorder, result[0])
    recorder.record(result)
    for block in copies:
        recorder.give_back(block)
    return tuple(result)


def layer_norm_backward(recorder, func, args, kwargs):
    result = list(recorder.evaluate(func, args, kwargs))
    copies = dense_like(recorder, args[0]) + dense_like(recorder, args[1])
    if copies and result[0] is not None:
        result[0] = in_rows(recorder, result[0])
    recorder.record(result)
    for block in copies:
        recorder.give_back(block)
    return tuple(result)


# --- softmax ---

def softmax_backward(recorder, func, args, kwargs):
    """Takes the product of gradient and result first."""
    result = recorder.evaluate(func, args, kwargs)
    recorder.record(result)
    recorder.scratch(nbytes(args[0]))
    return result


def safe_softmax(recorder, func, args, kwargs):
    """Rows that are all masked become zeros: found by comparing every element."""
    result = recorder.evaluate(func, args, kwargs)
    recorder.record(result)
    recorder.scratch(args[0].numel(), args[0].numel() // max(args[0].shape[args[1]], 1), result.element_size())
    return result


# --- sampling by a grid ---

def grid_sampler(recorder, func, args, kwargs):
    """cuDNN's, which PyTorch takes for bilinear samples of float32 whose corners are aligned."""
    source, grid = args
    copies = dense_like(recorder, source) + dense_like(recorder, grid)
    result = recorder.empty((*source.shape[:2], *grid.shape[1:3]), source.dtype)
    for block in copies:
        recorder.give_back(block)
    return result


def grid_sampler_backward(recorder, func, args, kwargs):
    source, grid, gradient = args
    copies = dense_like(recorder, source) + dense_like(recorder, grid) + dense_like(recorder, gradient)
    result = recorder.empty(tuple(source.shape), source.dtype), recorder.empty(tuple(grid.shape), grid.dtype)
    for block in copies:
        recorder.give_back(block)
    return result


def affine_grid(recorder, func, args, kwargs):
    theta, n, _, height, width = args
    copies = dense_like(recorder, theta)
    result = recorder.empty((n, height, width, 2), theta.dtype)
    for block in copies:
        recorder.give_back(block)
    return result


def affine_grid_backward(recorder, func, args, kwargs):
    copies = dense_like(recorder, args[0])
    result = recorder.empty((args[1], 2, 3), args[0].dtype)
    for block in copies:
        recorder.give_back(block)
    return result


# --- masks of bytes ---

def where(recorder, func, args, kwargs):
    """A condition of uint8, as masks once were: PyTorch makes a bool of it first."""
    if args[0].dtype != torch.uint8:
        return NotImplemented
    condition = recorder.evaluate(aten._to_copy.default, (args[0],), {"dtype": torch.bool}) if is_gpu(args[0]) else args[0].bool()
    recorder.record(condition)
    return recorder.plain(func, (condition, *args[1:]), kwargs)


# --- the autograd engine ---

def added(recorder, func, args, kwargs):
    if sparse.first(args) is not None:
        return sparse.added(recorder, func, args, kwargs)
    if recorder.adds_mask and len(args) == 2 and isinstance(args[1], torch.Tensor) and args[0].dim() == args[1].dim() == 4:
        recorder.adds_mask = False
        return recorder.evaluate(aten.alias.default, (args[0],), {})
    if recorder.adds_bias and len(args) == 2 and isinstance(args[1], torch.Tensor) and args[1].dim() == 1 < args[0].dim():
        return recorder.evaluate(aten.alias.default, (args[0],), {})
    return engine_adds(recorder, func, args, kwargs)


def engine_adds(recorder, func, args, kwargs):
    """Two gradients of one tensor: the engine adds the second to the first in place where nobody else holds the first. With a
    tensor subclass it never does, so that is done here."""
    if sys._getframe(4).f_code is not ENGINE_CODE or len(args) != 2 or kwargs or torch.is_grad_enabled():
        return NotImplemented
    first, second = args
    if not (is_gpu(first)
            and is_gpu(second)) or first.shape != second.shape or first.dtype != second.dtype or first.layout is not torch.strided:
        return NotImplemented
    return first if recorder.sole(first) and dense(first) else NotImplemented


def engine_fills(recorder, func, args, kwargs):
    """The backward pass of a selection fills a new tensor of zeros in place; a tensor subclass would get a filled copy."""
    if sys._getframe(3).f_code is not ENGINE_CODE or torch.is_grad_enabled() or not is_gpu(args[0]):
        return NotImplemented
    return args[0] if recorder.sole(args[0]) else NotImplemented


def dense(tensor):
    """Whether the elements lie without gaps and without overlap."""
    expected = 1
    for size, stride in sorted(((n, s) for n, s in zip(tensor.shape, tensor.stride()) if n != 1), key=lambda pair: pair[1]):
        if stride != expected:
            return False
        expected *= size
    return True


def quantized(recorder, func, args, kwargs):
    """What would be left after a quantization, and which values were within its bounds."""
    with recorder.fake:
        result = torch.empty_like(args[0])
    recorder.record(result)
    return result, recorder.empty(tuple(args[0].shape), torch.bool, result.stride())


RULES = {
    **{getattr(aten, name).default: quantized for name in (
        "fake_quantize_per_tensor_affine_cachemask", "fake_quantize_per_channel_affine_cachemask",
        "_fake_quantize_per_tensor_affine_cachemask_tensor_qparams") if hasattr(aten, name)},
    **{getattr(packet, name): of_type for packet in (aten.addmm, aten.baddbmm) for name in ("dtype", "dtype_out")
       if name in packet.overloads()},
    aten.convolution.default: convolution,
    aten.convolution_backward.default: convolution_backward,
    aten.native_dropout.default: in_order(1, 0),
    aten.add.Tensor: added,
    aten._foreach_norm.Scalar: foreach_norm,
    aten.native_layer_norm.default: layer_norm,
    aten.native_layer_norm_backward.default: layer_norm_backward,
    aten._softmax_backward_data.default: softmax_backward,
    aten.cudnn_grid_sampler.default: grid_sampler,
    aten.cudnn_grid_sampler_backward.default: grid_sampler_backward,
    aten.cudnn_affine_grid_generator.default: affine_grid,
    aten.cudnn_affine_grid_generator_backward.default: affine_grid_backward,
    aten.where.self: where,
    **{op: engine_fills for op in (aten.index_add.default, aten.scatter_add.default, aten.scatter.src, aten.scatter.value)},
    **{getattr(aten, name).default: nothing for name in ("_fused_sgd_",) if hasattr(aten, name)},
    **{getattr(op, name): no_library for op in (aten._use_cudnn_ctc_loss, getattr(aten, "_use_miopen_ctc_loss", None)) if op
       for name in op.overloads()},
    **{getattr(aten, name).default: safe_softmax for name in ("_safe_softmax",) if hasattr(aten, name)},  # 2.5 on
}

AROUND = {**REDUCTIONS, **{op: gemm for op in GEMMS}, aten.addmm.default: addmm}
