# SPDX-License-Identifier: MIT
"""Scaled dot product attention: which kernel PyTorch takes on the GPU, and what that kernel keeps.

PyTorch asks its CUDA code, which a fake tensor never reaches: it would take the math kernel, which keeps the whole matrix of
attention weights. The conditions are those of sdp_utils.cpp, for sm_80 and newer.
"""
import torch
import torch.nn.functional as F

from . import fileformat as ff
from .recorder import aten, is_gpu

MATH, FLASH, EFFICIENT, CUDNN = range(4)  # as in the file
HALF = (torch.float16, torch.bfloat16)


def allowed(kernel):
    cuda = torch.backends.cuda
    return {MATH: cuda.math_sdp_enabled, FLASH: cuda.flash_sdp_enabled, EFFICIENT: cuda.mem_efficient_sdp_enabled,
            CUDNN: getattr(cuda, "cudnn_sdp_enabled", lambda: False)}[kernel]()


def choose(query, key, value, mask, causal, gqa, capability):
    """The kernel, by the first whose conditions hold."""
    if query.dim() != 4 or min(query.shape[2], key.shape[2]) == 0 or any(t.stride(-1) != 1 for t in (query, key, value)):
        return MATH
    width, square = query.shape[-1], query.shape[2] == key.shape[2]
    same_width = width == key.shape[-1] == value.shape[-1]
    same_heads = query.shape[1] == key.shape[1] == value.shape[1]
    half = query.dtype in HALF
    fits = {
        FLASH: half and mask is None and same_width and width <= 256 and (square or not causal) and (same_heads or gqa)
        and capability >= (8, 0),
        EFFICIENT: (half or query.dtype == torch.float32) and width % (8 if half else 4) == 0
        and value.shape[-1] % (8 if half else 4) == 0 and same_heads and not (mask is not None and mask.requires_grad),
        CUDNN: half and same_width and width % 8 == 0 and width <= 128 and capability >= (8, 0) and (same_heads or gqa)
        and not (causal and not square) and not (mask is not None and mask.requires_grad),
        MATH: True,
    }
    order = (FLASH, EFFICIENT, MATH, CUDNN)
    for kernel in order:
        if fits[kernel] and allowed(kernel):
            return kernel
    return MATH


def additive(mask, dtype):
    """A mask of booleans as one that is added."""
    if mask is None or mask.dtype != torch.bool:
        return mask
    return torch.where(mask, torch.zeros((), dtype=dtype, device=mask.device),
                       torch.full((), float("-inf"), dtype=dtype, device=mask.device))


def aligned(mask, query, key):
    """The bias that the memory-efficient kernel reads: rows begin at multiples of 16 elements."""
    if mask is None:
        return None
    size = (query.shape[0], query.shape[1], query.shape[2], key.shape[2])
    last = mask.shape[-1]
    if last % 16:
        padded = F.pad(mask, (0, 16 - last % 16))
        return padded.expand(*size[:3], padded.shape[-1])[..., :last]
    return mask.expand(size)


def padded(tensor):
    extra = -tensor.shape[-1] % 8
    return F.pad(tensor, (0, extra)) if extra else tensor


def install(recorder, patch, capability):
    real = F.scaled_dot_product_attention

    def attention(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False):
        if not is_gpu(query):
            options = {"enable_gqa": True} if enable_gqa else {}
            return real(query, key, value, attn_mask=attn_mask, dropout_p=dropout_p, is_causal=is_causal, scale=scale, **options)
        if torch.is_autocast_enabled("cuda"):
            half = torch.get_autocast_dtype("cuda")
            query, key, value = (t.to(half) if t.dtype == torch.float32 else t for t in (query, key, value))
            if attn_mask is not None and attn_mask.dtype == torch.float32:
                attn_mask = attn_mask.to(half)
        kernel = choose(query, key, value, attn_mask, is_causal, enable_gqa, capability)
        recorder.attention = kernel
        mask = additive(attn_mask, query.dtype)
        width = query.shape[-1]
        keeps = torch.is_grad_enabled() and any(t.requires_grad for t in (query, key, value))
        if kernel == FLASH:
            scale = scale if scale is not None else width ** -0.5
            out = aten._scaled_dot_product_flash_attention(padded(query), padded(key), padded(value), dropout_p, is_causal,
                                                           False, scale=scale)[0]
            return out[..., :width] if out.shape[-1] != width else out
        if kernel == EFFICIENT:
            return aten._scaled_dot_product_efficient_attention(query, key, value, aligned(mask, query, key), keeps, dropout_p,
                                                                is_causal, scale=scale)[0]
        if kernel == CUDNN:
            return aten._scaled_dot_product_cudnn_attention(query, key, value, mask, keeps, dropout_p, is_causal, False,
                                                            scale=scale)[0]
        options = {"enable_gqa": True} if enable_gqa else {}
        return real(query, key, value, attn_mask=attn_mask, dropout_p=dropout_p, is_causal=is_causal, scale=scale, **options)
    patch(F, "scaled_dot_product_attention", attention)
    patch(torch._C._nn, "scaled_dot_product_attention", attention)


def marker(kernel):
    def mark(recorder, func, args, kwargs, result):
        recorder.records.op(ff.ATTENTION, kernel)
    return mark


def seeds(kernel):
    """The kernel's results without those that are on the CPU: the state of the random generator, sizes."""
    def run(recorder, func, args, kwargs):
        result = list(recorder.evaluate(func, args, kwargs))
        if kernel == FLASH:  # seed and offset of the random generator, with or without dropout
            result[6:8] = [recorder.empty((), torch.int64) for _ in range(2)]
        for tensor in result[:2]:
            recorder.record(tensor)
        recorder.records.op(ff.ATTENTION, kernel)
        return tuple(result)
    return run


KERNELS = ((FLASH, "_scaled_dot_product_flash_attention"), (EFFICIENT, "_scaled_dot_product_efficient_attention"),
           (CUDNN, "_scaled_dot_product_cudnn_attention"))
RULES = {getattr(aten, name).default: seeds(kernel) for kernel, name in KERNELS if hasattr(aten, name)}
AROUND = {getattr(aten, name + "_backward").default: marker(kernel) for kernel, name in KERNELS
          if hasattr(aten, name + "_backward")}
