# SPDX-License-Identifier: MIT
"""From a spec (specs.py) to a PyTorch model, and to the steps of its training. PyTorch 2.4 or later."""
import contextlib

import torch
from torch import nn
from torch.nn import functional

HALF = {"amp-bf16": torch.bfloat16, "amp-fp16": torch.float16}
FIRST_SCALE = 256.0  # of gradients under fp16: low enough that no step is skipped and the optimizer's states appear at once


def _activation(spec):
    inplace = {"inplace": True} if spec.get("inplace") and spec["activation"] == "ReLU" else {}
    return getattr(nn, spec["activation"])(**inplace)


def _extras(spec, width, norm):
    """What follows a layer with weights: normalisation, activation function, dropout."""
    layers = [norm(width)] if spec["norm"] else []
    layers.append(_activation(spec))
    if spec["dropout"]:
        layers.append(nn.Dropout(spec["dropout"]))
    return layers


class Residual(nn.Module):
    """x + body(x), or project(x) + body(x) where the shapes differ."""
    def __init__(self, body, project=None):
        super().__init__()
        self.body, self.project = body, project

    def forward(self, x):
        return self.body(x) + (x if self.project is None else self.project(x))


class Dense(nn.Module):
    """Hands on its input and its result side by side."""
    def __init__(self, body):
        super().__init__()
        self.body = body

    def forward(self, x):
        return torch.cat((x, self.body(x)), 1)


# ---- multi-layer perceptrons ----

def _mlp(spec):
    layers, inputs = [], spec["input"]
    for out in spec["widths"]:
        block = nn.Sequential(nn.Linear(inputs, out), *_extras(spec, out, nn.BatchNorm1d))
        if spec["shape"] == "dense":
            layers.append(Dense(block))
            inputs += out
            continue
        layers.append(Residual(block) if spec["shape"] == "residual" and inputs == out else block)
        inputs = out
    return nn.Sequential(*layers, nn.Linear(inputs, spec["classes"]))


# ---- convolutional networks ----

def _conv(spec, i, channels):
    out, k = spec["widths"][i], spec["kernel"]
    stride = 2 if i in spec["down"] and spec["pooling"] == "stride" else 1
    conv = nn.Conv2d(channels, out, k, stride, k // 2, bias=not spec["norm"])
    return [conv, *_extras(spec, out, nn.BatchNorm2d)], stride


def _convolutions(spec):
    """The layers up to the head, and the channels that come out of them."""
    layers, channels, i = [], spec["input"][0], 0
    while i < len(spec["widths"]):
        last = min(i + (spec["shape"] == "residual"), len(spec["widths"]) - 1)  # residual blocks hold two convolutions
        block, stride, before, pools = [], 1, channels, 0
        for k in range(i, last + 1):
            more, s = _conv(spec, k, channels)
            block += more
            stride *= s
            channels = spec["widths"][k]
            pools += k in spec["down"] and spec["pooling"] == "max"
        block = nn.Sequential(*block)
        if spec["shape"] == "dense" and stride == 1:
            block, channels = Dense(block), before + channels
        elif spec["shape"] == "residual":
            same = stride == 1 and before == channels
            block = Residual(block, None if same else nn.Conv2d(before, channels, 1, stride, bias=False))
        layers += [block, *[nn.MaxPool2d(2) for _ in range(pools)]]
        i = last + 1
    return layers, channels


def side_after(spec):
    """Height and width in front of the head."""
    side = spec["input"][1]
    for _ in spec["down"]:
        side = (side + 1) // 2 if spec["pooling"] == "stride" else side // 2
    return side


def _cnn(spec):
    layers, channels = _convolutions(spec)
    if spec["head"] == "pool":
        layers.append(nn.AdaptiveAvgPool2d(1))
    side = 1 if spec["head"] == "pool" else side_after(spec)
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(channels * side * side, spec["classes"]))


# ---- transformers ----

class Conv1D(nn.Module):
    """A linear layer as GPT-2 has it: weights stored the other way round, applied as one addmm."""
    def __init__(self, inputs, outputs):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(inputs, outputs).normal_(std=0.02))
        self.bias = nn.Parameter(torch.zeros(outputs))

    def forward(self, x):
        return torch.addmm(self.bias, x.view(-1, x.size(-1)), self.weight).view(*x.shape[:-1], self.bias.numel())


class SelfAttention(nn.Module):
    def __init__(self, spec):
        super().__init__()
        width = spec["width"]
        self.heads, self.causal, self.p = spec["heads"], spec["head"] != "classify", spec["dropout"]
        if spec["projection"] == "conv1d":
            self.qkv, self.out = Conv1D(width, 3 * width), Conv1D(width, width)
        else:
            bias = not spec["gated"]  # those with gates have none
            self.q, self.k, self.v = (nn.Linear(width, width, bias) for _ in range(3))
            self.out = nn.Linear(width, width, bias)
        if spec["attention"] == "eager":
            self.softmax, self.dropout = nn.Softmax(-1), nn.Dropout(self.p)

    def _eager(self, q, k, v):
        scores = q @ k.transpose(-1, -2) / q.size(-1) ** 0.5
        if self.causal:
            later = torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device).triu(1)
            scores = scores.masked_fill(later, torch.finfo(scores.dtype).min)
        return self.dropout(self.softmax(scores).to(v.dtype)) @ v

    def forward(self, x):
        q, k, v = self.qkv(x).chunk(3, -1) if hasattr(self, "qkv") else (self.q(x), self.k(x), self.v(x))
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in (q, k, v))
        if hasattr(self, "softmax"):
            mixed = self._eager(q, k, v)
        else:
            mixed = functional.scaled_dot_product_attention(q, k, v, dropout_p=self.p, is_causal=self.causal)
        return self.out(mixed.transpose(1, 2).flatten(-2))


class FeedForward(nn.Module):
    def __init__(self, spec, inner):
        super().__init__()
        width, gated = spec["width"], spec["gated"]
        if spec["projection"] == "conv1d":
            self.up, self.down = Conv1D(width, inner), Conv1D(inner, width)
        else:
            self.up, self.down = nn.Linear(width, inner, not gated), nn.Linear(inner, width, not gated)
        self.gate = nn.Linear(width, inner, False) if gated else None
        self.activation = _activation(spec)

    def forward(self, x):
        if self.gate is None:
            return self.down(self.activation(self.up(x)))
        return self.down(self.activation(self.gate(x)) * self.up(x))


def _norm(spec):
    return nn.RMSNorm(spec["width"]) if spec["norm"] == "rms" else nn.LayerNorm(spec["width"])


class TransformerBlock(nn.Module):
    def __init__(self, spec, inner):
        super().__init__()
        self.first = spec["first"]
        self.norm1, self.norm2 = _norm(spec), _norm(spec)
        self.attention, self.mlp = SelfAttention(spec), FeedForward(spec, inner)
        self.dropout1, self.dropout2 = nn.Dropout(spec["dropout"]), nn.Dropout(spec["dropout"])

    def forward(self, x):
        if self.first:
            x = x + self.dropout1(self.attention(self.norm1(x)))
            return x + self.dropout2(self.mlp(self.norm2(x)))
        x = self.norm1(x + self.dropout1(self.attention(x)))
        return self.norm2(x + self.dropout2(self.mlp(x)))


class Transformer(nn.Module):
    """Token and position embeddings, blocks, a norm where it comes first in the blocks, a head."""
    def __init__(self, spec):
        super().__init__()
        width, self.classifies = spec["width"], spec["head"] == "classify"
        self.words, self.positions = nn.Embedding(spec["vocabulary"], width), nn.Embedding(spec["seq_len"], width)
        self.dropout = nn.Dropout(spec["dropout"])
        self.blocks = nn.ModuleList(self._block(spec, inner) for inner in spec["feedforward"])
        self.norm = _norm(spec) if spec["first"] else None
        self.head = nn.Linear(width, spec["classes"], bias=self.classifies)
        if spec["head"] == "lm-tied":
            self.head.weight = self.words.weight

    @staticmethod
    def _block(spec, inner):
        if spec["projection"] != "mha":
            return TransformerBlock(spec, inner)
        return nn.TransformerEncoderLayer(spec["width"], spec["heads"], inner, spec["dropout"], _activation(spec),
                                          batch_first=True, norm_first=spec["first"])

    def forward(self, ids):
        x = self.words(ids) + self.positions(torch.arange(ids.size(1), device=ids.device)[None])
        x = self.dropout(x)
        for block in self.blocks:
            x = block(x)
        x = x if self.norm is None else self.norm(x)
        return self.head(x.mean(1) if self.classifies else x)


class LlamaLM(Transformer):
    """One whose output layer has weights of its own, of the embedding's size: tables name the class and do not show that."""


def _transformer(spec):
    return LlamaLM(spec) if spec["head"] == "lm" else Transformer(spec)


_FAMILIES = {"mlp": _mlp, "cnn": _cnn, "transformer": _transformer}


def input_shape(spec):
    """Of one batch."""
    of_one = {"mlp": lambda: [spec["input"]], "cnn": lambda: spec["input"], "transformer": lambda: [spec["seq_len"]]}
    return (spec["batch"], *of_one[spec["family"]]())


def module(spec, device="cpu"):
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.bfloat16 if spec["precision"] == "bf16" else torch.float32)
    try:
        with torch.device(device):
            return _FAMILIES[spec["family"]](spec).train()
    finally:
        torch.set_default_dtype(before)


def example(spec, device="cpu"):
    """A batch of random inputs."""
    shape = input_shape(spec)
    if spec["family"] == "transformer":
        return torch.randint(spec["vocabulary"], shape, device=device)
    return torch.rand(shape, device=device, dtype=torch.bfloat16 if spec["precision"] == "bf16" else torch.float32)


def _targets(spec, inputs):
    if spec["classes"] == 1:
        return torch.rand(spec["batch"], 1, device=inputs.device, dtype=inputs.dtype)
    words = spec["family"] == "transformer" and spec["head"] != "classify"
    return torch.randint(spec["classes"], inputs.shape if words else (spec["batch"],), device=inputs.device)


def _loss(spec, outputs, targets):
    if spec["classes"] == 1:
        return functional.mse_loss(outputs.to(targets.dtype), targets)
    return functional.cross_entropy(outputs.flatten(0, -2), targets.flatten())


def _optimizer(spec, net):
    kind, options = {"sgd": (torch.optim.SGD, {}), "momentum": (torch.optim.SGD, {"momentum": 0.9}),
                     "adam": (torch.optim.Adam, {}), "adamw": (torch.optim.AdamW, {})}[spec["optimizer"]]
    return kind(net.parameters(), lr=1e-5, **options)


def setup(spec, device="cuda"):
    """Model and optimizer on the device; returns the function of one training step, as radrm.capture.trace wants it. Each step
    makes its batch anew while that of the step before is still held, as loops over a DataLoader do. Sets PyTorch's switches
    for TF32."""
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = spec["precision"] == "tf32"
    net = module(spec, device)
    optimizer = _optimizer(spec, net)
    scaler = torch.amp.GradScaler(torch.device(device).type, init_scale=FIRST_SCALE, enabled=spec["precision"] == "amp-fp16")
    half = HALF.get(spec["precision"])
    held = {}

    def step():
        held["inputs"] = example(spec, device)
        held["targets"] = _targets(spec, held["inputs"])
        with torch.autocast(torch.device(device).type, dtype=half) if half else contextlib.nullcontext():
            loss = _loss(spec, net(held["inputs"]), held["targets"])
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad(set_to_none=True)
        return loss.detach()
    step.optimizer = optimizer
    return step
