# SPDX-License-Identifier: MIT
"""Scaled dot product attention: which kernel PyTorch takes on the GPU, and what that kernel keeps.

PyTorch asks its CUDA code, which a fake tensor never reaches: it would take the math kernel, which keeps the whole matrix of
attention weights. The conditions are those of sdp_utils.cpp, for sm_80 and newer.
"""
import sys

import torch
import torch.nn.functional as F

from . import fileformat as ff
from .kernels import VERSION
from .recorder import aten, is_gpu
from .values import is_sure

TRANSFORMERS = "transformers.utils.import_utils"
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
        FLASH: half and mask is None and same_width and width <= 256 and (square or not causal)
        and (same_heads or gqa) and capability >= (8, 0),
        EFFICIENT: (half or query.dtype == torch.float32) and width % (8 if half else 4) == 0
        and value.shape[-1] % (8 if half else 4) == 0 and same_heads and (mask is None or mask.stride(-1) == 1),
        CUDNN: half and same_width and width % 8 == 0 and width <= (256 if capability >= (9, 0) else 128)
        and (same_heads or gqa) and query.shape[2] > 1 and not (mask is not None and mask.requires_grad),
        MATH: True,
    }
    order = (FLASH, EFFICIENT, MATH, CUDNN)
    if capability in ((9, 0), (10, 0)) and VERSION >= (2, 11):  # seen with 2.11 and cuDNN 9.19; older ones take flash first
        order = (CUDNN, FLASH, EFFICIENT, MATH)
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
    """The bias that the memory-efficient kernel reads: rows begin at multiples of 8 elements."""
    if mask is None:
        return None
    size = (query.shape[0], query.shape[1], query.shape[2], key.shape[2])
    last = mask.shape[-1]
    if last % 8:
        wider = F.pad(mask, (0, 8 - last % 8))
        return wider.expand(*size[:3], wider.shape[-1])[..., :last]
    return mask.expand(size)


def padded(tensor):
    extra = -tensor.shape[-1] % 8
    return F.pad(tensor, (0, extra)) if extra else tensor


def ask_masks(module, patch=setattr):
    """transformers drops a mask of ones only, so other kernels come into question, but looks at no fake one: it does at what is
    known of it."""
    fake = getattr(module, "is_fake_tensor", None)
    if fake is not None:
        patch(module, "is_fake_tensor", lambda tensor: fake(tensor) and not (is_gpu(tensor) and is_sure(tensor)))


def install(recorder, patch, capability):
    patch(torch.backends.mha, "_is_fastpath_enabled", False)  # one operator for a whole layer, of whose memory nothing is known
    if TRANSFORMERS in sys.modules:
        ask_masks(sys.modules[TRANSFORMERS], patch)
    real = F.scaled_dot_product_attention

    def attention(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False):
        if not is_gpu(query):
            options = {"enable_gqa": True} if enable_gqa else {}
            return real(query, key, value, attn_mask=attn_mask, dropout_p=dropout_p, is_causal=is_causal, scale=scale,
                        **options)
        if torch.is_autocast_enabled("cuda"):
            half = torch.get_autocast_dtype("cuda")
            query, key, value = (t.to(half) if t.dtype == torch.float32 else t for t in (query, key, value))
            if attn_mask is not None and attn_mask.dtype == torch.float32:
                attn_mask = attn_mask.to(half)
        kernel = choose(query, key, value, attn_mask, is_causal, enable_gqa, capability)
        recorder.attention = kernel
        width = query.shape[-1]
        keeps = torch.is_grad_enabled() and any(t.requires_grad for t in (query, key, value))
        if kernel == FLASH:
            scale = scale if scale is not None else width ** -0.5
            out = aten._scaled_dot_product_flash_attention(padded(query), padded(key), padded(value), dropout_p, is_causal,
                                                           False, scale=scale)[0]
            return out[..., :width] if out.shape[-1] != width else out
        if kernel == EFFICIENT:
            mask = aligned(additive(attn_mask, query.dtype), query, key)
            return aten._scaled_dot_product_efficient_attention(query, key, value, mask, keeps, dropout_p, is_causal,
                                                                scale=scale)[0]
        if kernel == CUDNN:
            mask = additive(attn_mask, query.dtype)
            return aten._scaled_dot_product_cudnn_attention(query, key, value, mask, keeps, dropout_p, is_causal, False,
                                                            scale=scale)[0]
        options = {"enable_gqa": True} if enable_gqa else {}
        mask = additive(attn_mask, query.dtype)
        recorder.adds_mask = mask is not None  # in place; to a tensor subclass it would be added into a new tensor
        try:
            with torch.autocast("cuda", enabled=False):  # as below F.scaled_dot_product_attention: it computes in fp32
                return aten._scaled_dot_product_attention_math(query, key, value, mask, dropout_p, is_causal, scale=scale,
                                                               **options)[0]
        finally:
            recorder.adds_mask = False
    patch(F, "scaled_dot_product_attention", attention)
    patch(torch._C._nn, "scaled_dot_product_attention", attention)


def forward(kernel):
    """Result and log-sum-exp. Flash and cuDNN keep the state of the random generator too, with or without dropout."""
    def run(recorder, func, args, kwargs):
        result = list(recorder.evaluate(func, args, kwargs))
        if kernel == CUDNN:
            result[6:8] = [recorder.empty((), torch.int64) for _ in range(2)]
        for tensor in result[:2]:
            recorder.record(tensor)
        if kernel == FLASH:
            result[6:8] = [recorder.empty((2,), torch.int64), recorder.empty((), torch.int64)]
        recorder.records.op(ff.ATTENTION, kernel)
        if kernel == CUDNN:
            recorder.scratch(256)
        return tuple(result)
    return run


def flash_backward(recorder, func, args, kwargs):
    """Gradients; copies of what lies in another order; a sum a row and the query's gradient in fp32, both for rows in blocks of
    128; with grouped heads the gradients of keys and values for every head of the query."""
    above, query, key, out = args[0], args[1], args[2], args[4]
    batch, heads, length, width = query.shape
    result = recorder.evaluate(func, args, kwargs)
    recorder.record(result)
    copies = [recorder.take(t.numel() * t.element_size()) for t in (above, out) if not t.transpose(1, 2).is_contiguous()]
    rows = 4 * batch * heads * -(-length // 128) * 128
    wide = -(-width // 32) * 32
    spread = 0 if heads == key.shape[1] else batch * key.shape[2] * heads * width * key.element_size()
    recorder.records.op(ff.ATTENTION, FLASH)
    recorder.scratch(rows, rows * wide, spread, spread)
    for block in reversed(copies):
        recorder.give_back(block)
    return result


def efficient_backward(recorder, func, args, kwargs):
    """Gradients; the rows' sums of out * gradient, which take their product in fp32; a buffer in which blocks of 64 queries add
    up their gradients."""
    above, query = args[0], args[1]
    result = recorder.evaluate(func, args, kwargs)
    recorder.record(result)
    turned = above.transpose(1, 2)
    copy = [recorder.take(above.numel() * above.element_size())] if not turned.is_contiguous() else []
    batch, heads, length, width = query.shape
    product = recorder.take(4 * query.numel())
    rows = [recorder.take(4 * batch * heads * length) for _ in range(2)]
    recorder.give_back(rows[0])
    recorder.give_back(product)
    buffer = recorder.take(4 * batch * heads * -(-length // 64) * -(-width // 64) * (64 * 64 + 4))
    recorder.records.op(ff.ATTENTION, EFFICIENT)
    for block in (rows[1], buffer, *copy):
        recorder.give_back(block)
    return result


def cudnn_backward(recorder, func, args, kwargs):
    """Gradients; the query's gradient in fp32, a number a row, and with grouped heads the gradients of keys and values for
    every head of the query."""
    above, query = args[0], args[1]
    result = recorder.evaluate(func, args, kwargs)
    recorder.record(result)
    spread = any(stride == 0 and n > 1 for n, stride in zip(above.shape, above.stride()))
    copy = [recorder.take(above.numel() * above.element_size())] if spread else []
    recorder.records.op(ff.ATTENTION, CUDNN)
    heads, key = query.shape[1], args[2]
    spread = 0 if heads == key.shape[1] else 2 * key.numel() // key.shape[1] * heads * key.element_size()
    recorder.scratch(4 * query.numel() + 4 * query.shape[0] * heads * query.shape[2] + spread + 256)
    for block in copy:
        recorder.give_back(block)
    return result


KERNELS = ((FLASH, "_scaled_dot_product_flash_attention"), (EFFICIENT, "_scaled_dot_product_efficient_attention"),
           (CUDNN, "_scaled_dot_product_cudnn_attention"))
RULES = {getattr(aten, name).default: forward(kernel) for kernel, name in KERNELS if hasattr(aten, name)}
for _name, _rule in (("_scaled_dot_product_efficient_attention_backward", efficient_backward),
                     ("_scaled_dot_product_flash_attention_backward", flash_backward),
                     ("_scaled_dot_product_cudnn_attention_backward", cudnn_backward)):
    if hasattr(aten, _name):
        RULES[getattr(aten, _name).default] = _rule
