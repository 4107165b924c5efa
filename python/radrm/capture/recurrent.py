# SPDX-License-Identifier: MIT
"""LSTM, GRU and RNN through cuDNN: one buffer of all weights, one operator for all layers and steps, and what it keeps for the
backward pass.

Sizes of the reserve and of the workspace are cuDNN 9.19's on an H200. Of 1,666 networks drawn at random (bench/memory/scratch.py
--recurrent, doc/results/memory/recurrent.jsonl.gz), the workspace is within 0.1 % for half, within 7 % for nine in ten.
"""
import torch
from torch import _VF

from .recorder import aten, is_gpu

MODES = {"rnn_relu": 0, "rnn_tanh": 1, "lstm": 2, "gru": 3}
KEPT = {0: 1, 1: 1, 2: 5, 3: 6}         # values kept per step, sample and hidden unit, by mode
PRODUCTS = 8 << 20      # bytes of the workspace, for each layer in each direction
# Values in the workspace beside the weights, by mode, directions, and whether kernels keep the weights on the chip: for each value that
# one layer gives in one direction, of one layer or of more; for each of the input; for each of one layer's states.
RNN = {(1, False): (4, 3, 2, 7), (1, True): (12, 13, 3, 6), (2, False): (10, 12, 2, 14), (2, True): (15, 17, 6, 14)}
WORKSPACE = {
    0: RNN,
    1: RNN,
    2: {(1, False): (5, 5, 1, 11), (1, True): (20, 21, 2, 8), (2, False): (14, 12, 1, 24), (2, True): (26, 27, 5, 20)},
    3: {(1, False): (4, 4, 2, 5), (1, True): (17, 18, 3, 6), (2, False): (11, 12, 2, 14), (2, True): (20, 22, 6, 14)},
}
ON_CHIP = {0: 384, 1: 384, 2: 128, 3: 128}  # hidden units at most, not of bf16, and of sequences of one length

def install(recorder, patch):
    for name, mode in MODES.items():
        patch(_VF, name, network(recorder, getattr(_VF, name), mode))
    patch(torch.nn.RNNBase, "flatten_parameters", lambda module: flatten(recorder, module))


def flatten(recorder, module):
    """All weights become views of one new buffer."""
    weights = module._flat_weights
    if not all(isinstance(w, torch.Tensor) and is_gpu(w) and w.dtype == weights[0].dtype for w in weights):
        return
    if not torch.backends.cudnn.enabled or len(weights) != len(module._flat_weights_names):
        return
    with torch.no_grad():
        buffer, at = recorder.empty((sum(w.numel() for w in weights),), weights[0].dtype), 0
        for weight in weights:
            weight.data = buffer[at:at + weight.numel()].view(weight.shape)
            at += weight.numel()


def network(recorder, real, mode):
    """Stands for _VF.lstm and its like: (input, hidden, weights, biases, layers, dropout, train, bidirectional, batch_first),
    or with batch sizes after the input and no batch_first."""
    def run(data, *args):
        if not is_gpu(data) or not torch.backends.cudnn.enabled:
            return real(data, *args)
        packed = isinstance(args[0], torch.Tensor) and not is_gpu(args[0]) and len(args) == 8 and not isinstance(args[2], bool)
        sizes = args[0].tolist() if packed else []
        hidden, weights, biases, layers, dropout, train, both, *first = args[1:] if packed else args
        hx, cx = hidden if mode == MODES["lstm"] else (hidden, None)
        if torch.is_autocast_enabled("cuda") and data.dtype == torch.float32:
            half = torch.get_autocast_dtype("cuda")
            weights = joined(recorder, weights, half)
            cx = cx if cx is None else cx.to(half)
            hx, data = hx.to(half), data.to(half)
        projected = weights[4].shape[0] if mode == MODES["lstm"] and len(weights) // (layers * (1 + both)) == 5 else 0
        width = cx.shape[-1] if cx is not None else hx.shape[-1]
        state = recorder.dropout_state() if dropout > 0 and train else None
        with torch.autocast("cuda", enabled=False):  # what it would do is done
            out, hy, cy, _, _ = aten._cudnn_rnn(data, list(weights), 4 if biases else 2, None, hx, cx, mode, width, projected,
                                                layers, bool(first and first[0]), dropout, train, both, sizes, state)
        return (out, hy) if cx is None else (out, hy, cy)
    return run


def joined(recorder, weights, dtype):
    """Copies of the weights in one buffer, as autocast makes them."""
    with torch.no_grad():
        buffer, at, out = recorder.empty((sum(w.numel() for w in weights),), dtype), 0, []
    for weight in weights:
        out.append(Piece.apply(weight, buffer[at:at + weight.numel()].view(weight.shape)))
        at += weight.numel()
    return out


class Piece(torch.autograd.Function):
    """A weight's copy: its gradient is converted back."""

    @staticmethod
    def forward(ctx, weight, place):
        ctx.dtype = weight.dtype
        return place

    @staticmethod
    def backward(ctx, gradient):
        return gradient.to(ctx.dtype), None


def shape(data, rest):
    """(values of one batch of sequences in one layer, mode, layers, directions, dropout, batch first, packed); `rest`: mode and
    what follows it."""
    mode, width, _, layers, first, dropout, _, both, sizes = rest[:9]
    steps = data.shape[0] if sizes else data.shape[0] * data.shape[1]
    return steps * width, mode, layers, 2 if both else 1, dropout, first and not sizes, bool(sizes)


def reserve_bytes(unit, mode, layers, directions, dropout, size):
    between = (layers - 1) * directions * unit
    masks = between // 8 if dropout > 0 else 0
    return KEPT[mode] * unit * layers * directions * size + between * size + masks + 256


def workspace_bytes(data, hx, weights, rest):
    """The same in all three passes. Unlike that of a convolution it is not smaller when memory is short."""
    unit, mode, layers, directions, _, _, packed = shape(data, rest)
    on_chip = not packed and data.dtype != torch.bfloat16 and hx.shape[-1] <= ON_CHIP[mode]
    one, more, of_input, of_states = WORKSPACE[mode][directions, on_chip]
    values = (more if layers > 1 else one) * unit + of_input * data.numel() + of_states * hx.numel() // directions
    return PRODUCTS * layers * directions + (values + sum(w.numel() for w in weights)) * data.element_size()


def forward(recorder, func, args, kwargs):
    args = list(args)
    data, hx, cx, train = args[0], args[4], args[5], args[12]
    unit, mode, layers, directions, dropout, first, packed = shape(data, args[6:])
    copy = recorder.take(data.numel() * data.element_size()) if first else None
    out_width = hx.shape[-1] * directions
    lead = tuple(data.shape[:1] if packed else data.shape[:2])
    if first:
        out = recorder.evaluate(aten.transpose.int, (recorder.empty((lead[1], lead[0], out_width), data.dtype), 0, 1), {})
    else:
        out = recorder.empty((*lead, out_width), data.dtype)
    hy = recorder.empty(tuple(hx.shape), hx.dtype)
    cy = recorder.empty(tuple(cx.shape), cx.dtype) if cx is not None else recorder.empty((0,), hx.dtype)
    size = data.element_size()
    workspace = recorder.take(workspace_bytes(data, hx, args[1], args[6:]))
    kept = recorder.empty((reserve_bytes(unit, mode, layers, directions, dropout, size) if train else 0,), torch.uint8)
    recorder.give_back(workspace)
    if copy:
        recorder.give_back(copy)
    return out, hy, cy, kept, recorder.empty((0,), data.dtype)


def backward(recorder, func, args, kwargs):
    """Gradients of input and states, then those of the weights, as views of one buffer."""
    data, weights, hx, cx, output, above, mask = args[0], args[1], args[4], args[5], args[6], args[7], args[-1]
    first, size = shape(data, args[10:])[5], data.element_size()
    zeros = [recorder.take(t.numel() * size) for t, given in ((hx, args[8]), (cx, args[9])) if t is not None and given is None]
    dense = above is not None and (above.transpose(0, 1) if first else above).is_contiguous()
    copies = [recorder.take(output.numel() * size)] if not dense else []
    if first:
        copies.append(recorder.take(data.numel() * size))
        turned = recorder.empty((data.shape[1], data.shape[0], data.shape[2]), data.dtype)
        dx = recorder.evaluate(aten.transpose.int, (turned, 0, 1), {})
    else:
        dx = recorder.empty(tuple(data.shape), data.dtype)
    dhx = recorder.empty(tuple(hx.shape), hx.dtype)
    dcx = recorder.empty(tuple(cx.shape), cx.dtype) if cx is not None else None
    workspace = workspace_bytes(data, hx, weights, args[10:])
    recorder.scratch(workspace)
    for block in copies:
        recorder.give_back(block)
    dw = []
    if mask[3]:
        buffer, at = recorder.empty((sum(w.numel() for w in weights),), data.dtype), 0
        recorder.scratch(workspace)
        for weight in weights:
            part = recorder.evaluate(aten.slice.Tensor, (buffer, 0, at, at + weight.numel()), {})
            dw.append(recorder.evaluate(aten.view.default, (part, list(weight.shape)), {}))
            at += weight.numel()
    for block in zeros:
        recorder.give_back(block)
    return dx, dhx, dcx, dw


# --- one step: LSTMCell and GRUCell ---

def like(recorder, tensor, width=None):
    return recorder.empty((tensor.shape[0], width or tensor.shape[1]), tensor.dtype)


def sums(recorder, gates, has_bias):
    """The gradient of a bias."""
    return recorder.empty((gates.shape[1],), gates.dtype) if has_bias else None


def lstm_cell(recorder, func, args, kwargs):
    gates, cx = args[0], args[2]
    workspace = like(recorder, gates)
    return like(recorder, cx), like(recorder, cx), workspace


def lstm_cell_backward(recorder, func, args, kwargs):
    cx, workspace, has_bias = args[2], args[4], args[5]
    gates = like(recorder, workspace)
    return gates, like(recorder, cx), sums(recorder, gates, has_bias)


def gru_cell(recorder, func, args, kwargs):
    hx = args[2]
    workspace = like(recorder, hx, 5 * hx.shape[1])
    return like(recorder, hx), workspace


def gru_cell_backward(recorder, func, args, kwargs):
    above, workspace, has_bias = args
    gates = [like(recorder, above, 3 * above.shape[1]) for _ in range(2)]
    below = like(recorder, above)
    return *gates, below, *[sums(recorder, each, has_bias) for each in gates]


RULES = {aten._cudnn_rnn.default: forward, aten._cudnn_rnn_backward.default: backward,
         aten._thnn_fused_lstm_cell.default: lstm_cell, aten._thnn_fused_lstm_cell_backward_impl.default: lstm_cell_backward,
         aten._thnn_fused_gru_cell.default: gru_cell, aten._thnn_fused_gru_cell_backward.default: gru_cell_backward}
