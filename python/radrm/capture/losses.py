# SPDX-License-Identifier: MIT
"""CTC loss as PyTorch's own CUDA kernel computes it: lengths go to the GPU for its time, and forward and backward pass each keep a
matrix of batch x time x (2 x longest target + 1). cuDNN's, for flat targets of int32 on the CPU alone, takes less."""
import torch

from . import given
from .asked import decided
from .recorder import aten, is_gpu

LENGTH_BYTES = 8


def longest(recorder, targets, batch, lengths):
    """Of the targets; the largest possible one where their lengths are computed on the GPU."""
    if not isinstance(lengths, torch.Tensor):
        return max(map(int, lengths), default=0)
    found = (given.of(lengths) or [None])[0] if is_gpu(lengths) else lengths
    if found is not None:
        with torch._C._DisableTorchDispatch():
            return int(found.max()) if found.numel() else 0
    decided(recorder, "the lengths of CTC targets are on the GPU: the largest possible were taken")
    return targets.shape[1] if targets.dim() == 2 else -(-targets.shape[0] // max(batch, 1))


def shape(log_probs):
    """(time, batch); without a batch it is 1."""
    return log_probs.shape[0], log_probs.shape[1] if log_probs.dim() == 3 else 1


def forward(recorder, func, args, kwargs):
    log_probs, targets, _, lengths = args[:4]
    time, batch = shape(log_probs)
    width = 2 * longest(recorder, targets, batch, lengths) + 1
    small = [recorder.take(batch * LENGTH_BYTES) for _ in range(3)]
    alpha = recorder.empty((batch, time, width), log_probs.dtype)
    loss = recorder.empty((batch,) if log_probs.dim() == 3 else (), log_probs.dtype)
    for block in small:
        recorder.give_back(block)
    return loss, alpha


def backward(recorder, func, args, kwargs):
    log_probs, alpha = args[1], args[6]
    batch = shape(log_probs)[1]
    small = [recorder.take(batch * LENGTH_BYTES) for _ in range(3)]
    gradient = recorder.empty(tuple(log_probs.shape), log_probs.dtype)
    beta = recorder.take(alpha.numel() * alpha.element_size())
    for block in (beta, *small):
        recorder.give_back(block)
    return gradient


RULES = {aten._ctc_loss.default: forward, aten._ctc_loss.Tensor: forward,
         aten._ctc_loss_backward.default: backward, aten._ctc_loss_backward.Tensor: backward}


def install(recorder, patch):
    """Lengths on the CPU are lists to PyTorch's C++, unless tensors are of a subclass: then it would mix devices."""
    import torch.nn.functional as F
    real = F.ctc_loss

    def plain(lengths):
        if isinstance(lengths, torch.Tensor) and not is_gpu(lengths):
            with torch._C._DisableTorchDispatch():
                return tuple(lengths.flatten().tolist())
        return lengths

    def ctc_loss(log_probs, targets, input_lengths, target_lengths, *args, **kwargs):
        if is_gpu(log_probs):
            input_lengths, target_lengths = plain(input_lengths), plain(target_lengths)
            if any(isinstance(n, torch.Tensor) for n in (input_lengths, target_lengths)):  # one of them is on the GPU
                input_lengths, target_lengths = (n if isinstance(n, torch.Tensor) else torch.tensor(n, device=log_probs.device)
                                                 for n in (input_lengths, target_lengths))
        return real(log_probs, targets, input_lengths, target_lengths, *args, **kwargs)
    patch(F, "ctc_loss", ctc_loss)
