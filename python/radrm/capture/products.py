# SPDX-License-Identifier: MIT
"""cumprod() as PyTorch computes its backward pass where no factor is 0. Of a tensor subclass it does not ask, and goes through
the factors one by one: thousands of operators that a GPU never sees."""
import functools

import torch
from torch.autograd import forward_ad

from .recorder import aten, is_gpu


class CumProd(torch.autograd.Function):
    @staticmethod
    def forward(ctx, factors, dim):
        result = aten.cumprod.default(factors, dim)
        ctx.dim = dim
        ctx.save_for_backward(factors, result)
        return result

    @staticmethod
    def backward(ctx, gradient):
        factors, result = ctx.saved_tensors
        weighed = result * gradient
        none = factors == 0  # stays until the end
        none.any()
        turned = weighed.flip(ctx.dim)
        added = turned.cumsum(ctx.dim)
        back = added.flip(ctx.dim)
        del turned, added
        return back.div(factors), None


def install(patch):
    def instead(real):
        @functools.wraps(real)
        def cumprod(input, *args, **kwargs):
            dim = args[0] if len(args) == 1 and not kwargs else kwargs.get("dim") if not args and len(kwargs) == 1 else None
            if type(dim) is not int or not is_gpu(input) or not input.requires_grad or not torch.is_grad_enabled() \
                    or not input.is_floating_point() or input.numel() <= 1 or torch._C._are_functorch_transforms_active() \
                    or forward_ad._current_level >= 0:
                return real(input, *args, **kwargs)
            if torch.is_autocast_enabled("cuda") and input.dtype in (torch.float16, torch.bfloat16):
                input = input.float()  # as autocast does, and keeps
            return CumProd.apply(input, dim)
        return cumprod
    for owner in (torch, torch.Tensor):
        patch(owner, "cumprod", instead(owner.cumprod))
