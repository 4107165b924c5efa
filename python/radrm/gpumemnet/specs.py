# SPDX-License-Identifier: MIT
"""Random training configurations of three families, for the data set of GPUMemNet. Standard library only.

A spec is a dict that JSON can hold and from which models.py builds the same model on every machine. Ranges are those of the
dissertation, tables 5.2, 5.4 and 5.6, and what those leave out: optimizer, precision, sequence length, small vocabularies,
large batches, GPT-2's Conv1D, eager attention, RMSNorm and gated feed-forward layers, language-model heads.

    every spec   family, shape, batch, classes, activation, dropout, optimizer, precision
    mlp          input (features), widths (of the hidden layers), norm
    cnn          input (channels, height, width), widths (channels out of each convolution), kernel, down (convolutions behind
                 which the image is halved), pooling (max, stride), norm, inplace, head (pool, flatten)
    transformer  seq_len, vocabulary, width, heads, feedforward (width in each block), projection (mha, linear, conv1d),
                 attention (sdpa, eager), norm (layer, rms), first (norm before attention), gated, head (classify, lm, lm-tied).
                 Only gated ones have an lm head with weights of its own: a table does not show that, the name of the class does

What is drawn is balanced over memory, which a random draw is not (85 % of the published MLP set is one class): a size is drawn
first, half of the sizes by logarithm and half uniformly, then a configuration that estimate() takes to be of that size.
"""
import hashlib
import json
import math
import random

FAMILIES = ("mlp", "cnn", "transformer")
SHAPES = {
    "mlp": ("pyramid", "uniform", "bottleneck", "gradual", "hourglass", "residual", "dense"),
    "cnn": ("pyramid", "uniform", "bottleneck", "gradual", "hourglass", "residual", "dense"),
    "transformer": ("pyramid", "uniform", "bottleneck", "gradual", "hourglass"),  # of the feed-forward layers' widths
}
ACTIVATIONS = ("ReLU", "ReLU", "ReLU", "ELU", "Tanh", "GELU", "SiLU", "LeakyReLU", "Sigmoid", "SELU")
OPTIMIZERS = {"sgd": 0, "momentum": 1, "adam": 2, "adamw": 2}  # states a parameter
PRECISIONS = ("fp32", "tf32", "amp-bf16", "amp-fp16", "bf16")
GIB = 1 << 30
LARGEST = 45 * GIB  # of a configuration: three of them and the contexts of the others fit on one GPU
SMALLEST = 80 << 20  # of what the allocator holds; the process takes 0.6 to 0.75 GiB beside it
GPU_SECONDS = 0.2  # of three steps, by the estimate: what would hold up the others is not drawn
# Share of the sizes that are drawn by logarithm; the others uniformly.
BY_LOGARITHM = {"mlp": 0.6, "cnn": 0.33, "transformer": 0.33}


def canonical(spec):
    """The one text of a spec: what is hashed and stored."""
    return json.dumps(spec, separators=(",", ":"), sort_keys=True)


def identity(spec):
    """12 hexadecimal digits that name a spec."""
    return hashlib.sha256(canonical(spec).encode()).hexdigest()[:12]


# ---- drawing ----

def _log_int(rng, low, high):
    return min(high, max(low, round(math.exp(rng.uniform(math.log(low), math.log(high))))))


def _round_to(n, step):
    return max(step, round(n / step) * step)


def _profile(rng, shape, base, n, low, high, step):
    """n widths of a shape that begins at (or, for a CNN's widening shapes, ends near) `base`."""
    narrow = rng.choice((2, 4, 8))
    at = [i / max(1, n - 1) for i in range(n)]
    curve = {
        "pyramid": lambda x: narrow ** -x,  # geometric
        "gradual": lambda x: 1 - x * (1 - 1 / narrow),  # linear
        "bottleneck": lambda x: 1 / narrow if 0.3 < x < 0.7 else 1,
        "hourglass": lambda x: narrow ** -(1 - abs(2 * x - 1)),
    }.get(shape, lambda x: 1)
    return [min(high, max(low, _round_to(base * curve(x), step))) for x in at]


def _choices(rng, family):
    """What is chosen before the size, so that what is drawn again for its size or its time does not thin it out."""
    shapes = SHAPES[family] + (("uniform",) * 4 if family == "transformer" else ())
    return {"family": family, "shape": rng.choice(shapes), "optimizer": rng.choice(tuple(OPTIMIZERS)),
            "precision": rng.choice(PRECISIONS), "activation": rng.choice(ACTIVATIONS),
            "dropout": rng.choice((0, 0, 0.1, 0.2, 0.3, 0.5))}


def _mlp(rng, shape):
    n = rng.randint(1, 11)
    wide = rng.random() < 0.75  # what fills a GPU is wider than tables of features ask for
    base = _log_int(rng, 512, 24576) if wide else _log_int(rng, 8, 2048)
    step = rng.choice((1, 8, 64)) if base > 256 else 1
    input_ = _log_int(rng, 4, 4096)
    return {"input": input_, "widths": _profile(rng, shape, base, n, 4, 24576, step),
            "classes": _log_int(rng, 1, 1024), "norm": rng.random() < 0.5}


def _cnn(rng, shape):
    n = rng.randint(1, 29)
    base = _log_int(rng, 16, 512)
    if shape in ("pyramid", "gradual"):  # a CNN's grow towards the end
        widths = _profile(rng, shape, base, n, 8, 512, 8)[::-1]
    elif shape == "dense":
        base = min(base, 96)
        widths = [_round_to(base, 4)] * n
    else:
        widths = _profile(rng, shape, base, n, 8, 512, 8)
    side = rng.choice((28, 32, 32, 48, 64, 96, 112, 128, 160, 192, 224, 224, 256, 299, 384, 512))
    halvings = rng.randint(0, min(n, int(math.log2(side)) - 2, 5))
    down = sorted(rng.sample(range(n), halvings))
    if side >= 160 and halvings >= 2 and rng.random() < 0.6:
        down[0] = 0  # as most do: a stem that halves large images
    head = "flatten" if rng.random() < 0.2 else "pool"
    return {"input": [rng.choice((1, 3)), side, side], "widths": widths,
            "kernel": rng.choice((3, 3, 3, 5, 7)), "down": sorted(set(down)), "pooling": rng.choice(("max", "stride")),
            "norm": rng.random() < 0.7, "inplace": rng.random() < 0.5, "head": head, "classes": _log_int(rng, 2, 22000)}


def _transformer(rng, shape):
    heads = rng.choice((2, 4, 8, 12, 16))
    step = 8 * heads
    width = min(2048 // step * step, max(-(-128 // step) * step, _round_to(_log_int(rng, 128, 2048), step)))
    n = _log_int(rng, 1, 39)
    projection = rng.choice(("mha", "linear", "linear", "conv1d"))
    gated = projection == "linear" and rng.random() < 0.4
    rms = gated and rng.random() < 0.8
    head = rng.choice(("classify", "lm" if gated else "lm-tied"))
    vocabulary = _log_int(rng, 1000, 1000000) if head == "classify" else _log_int(rng, 4000, 130000)
    ratio = rng.uniform(2, 4)
    return {"seq_len": rng.choice((64, 128, 128, 256, 256, 512, 512, 1024, 1024, 2048)),
            "vocabulary": vocabulary, "width": width, "heads": heads, "projection": projection, "gated": gated,
            "feedforward": _profile(rng, shape, width * ratio, n, 64, 8192, 8), "norm": "rms" if rms else "layer",
            "attention": "eager" if projection != "mha" and rng.random() < 0.35 else "sdpa", "first": rng.random() < 0.6,
            "head": head, "classes": rng.choice((2, 3, 10, 100, 1000)) if head == "classify" else vocabulary,
            "activation": "SiLU" if gated else rng.choice(("GELU", "GELU", "ReLU")),
            "dropout": rng.choice((0, 0.1, 0.1, 0.2, 0.3, 0.5))}


_DRAW = {"mlp": _mlp, "cnn": _cnn, "transformer": _transformer}
# As in the tables, and larger ones, each half of the time.
_BATCHES = {"mlp": ((4, 1024), (1024, 131072)), "cnn": ((2, 62), (16, 512)), "transformer": ((1, 128), (1, 128))}


def _target(rng, family, largest):
    if rng.random() < BY_LOGARITHM[family]:
        return math.exp(rng.uniform(math.log(SMALLEST), math.log(largest)))
    return rng.uniform(SMALLEST, largest)


def _fit_batch(rng, spec, target, low, high):
    """The same model with a batch that makes it about that large; None: no batch of the range does."""
    one, two = (estimate({**spec, "batch": b})["bytes"] for b in (high // 4, high // 2))
    slope = (two - one) / (high // 4)
    batch = high // 4 + (target - one) / slope if slope > 0 else 0
    if not low <= batch <= high:
        return None
    if rng.random() < 0.5:
        batch = 2 ** round(math.log2(batch)) if rng.random() < 0.5 else _round_to(batch, 8 if batch > 32 else 1)
    return {**spec, "batch": min(high, max(low, round(batch)))}


def draw(family, rng, largest=LARGEST, tolerance=0.2):
    """One spec. Sizes are balanced by estimate(); what would take too long or too much is drawn again."""
    while True:
        target, chosen, batches = _target(rng, family, largest), _choices(rng, family), rng.choice(_BATCHES[family])
        for _ in range(100):
            spec = {**chosen, **_DRAW[family](rng, chosen["shape"]), "batch": _log_int(rng, *batches)}
            found = estimate(spec)
            if abs(found["bytes"] / target - 1) > tolerance:
                spec = _fit_batch(rng, spec, target, *batches)
                found = spec and estimate(spec)
            if (spec and abs(found["bytes"] / target - 1) <= tolerance and found["bytes"] < largest
                    and found["seconds"] <= GPU_SECONDS):
                return spec


def generate(seed, count, families=FAMILIES, largest=LARGEST):
    """`count` different specs of each family, one family after the other in turn. The same for the same seed, everywhere;
    a longer list begins with the shorter one."""
    streams = {f: random.Random(f"{seed} {f}") for f in families}
    seen = set()
    for _ in range(count):
        for family in families:
            while True:
                spec = draw(family, streams[family], largest)
                if identity(spec) not in seen:
                    break
            seen.add(identity(spec))
            yield spec


def sweeps():
    """Those of figures 5.4 and 5.5: plain networks of equal layers on images of ImageNet's size. Memory against width at four
    depths with a batch of 32, and against the batch for four networks."""
    def one(width, depth, batch):
        return {"family": "mlp", "shape": "uniform", "input": 3 * 224 * 224, "widths": [width] * depth, "classes": 1000,
                "norm": False, "dropout": 0, "activation": "ReLU", "batch": batch, "optimizer": "adam", "precision": "fp32"}
    for depth in (2, 8, 32, 128):
        yield from (one(width, depth, 32) for width in range(32, 1025, 32))
    for width, depth in ((256, 2), (256, 32), (1024, 2), (1024, 32)):
        yield from (one(width, depth, batch) for batch in (8, 16, 64, 128, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096))


# ---- what it will take, roughly ----

# Activation functions that keep their input for the backward pass; the others keep their output.
_KEEPS_INPUT = {"GELU", "SiLU", "LeakyReLU", "ELU", "SELU"}
_FLOPS = {"fp32": 45e12, "tf32": 220e12, "amp-bf16": 400e12, "amp-fp16": 400e12, "bf16": 400e12}


class _Sum:
    """Adds up a model: parameters, kept activations in bytes, the largest single output, work of one forward pass."""
    def __init__(self, spec):
        self.width = 2 if spec["precision"] in ("bf16", "amp-bf16", "amp-fp16") else 4
        self.params = self.kept = self.largest = self.flops = self.scratch = 0

    def keep(self, elements, width=None):
        self.kept += elements * (width or self.width)
        self.largest = max(self.largest, elements * (width or self.width))

    def weights(self, params, uses):
        self.params += params
        self.flops += 2 * params * uses


def _keep_extras(spec, s, elements):
    """An activation function keeps its input or its output; the next layer its input; dropout a mask of bytes."""
    s.keep(elements)
    if spec["dropout"] or spec["activation"] in _KEEPS_INPUT:
        s.keep(elements)
    s.kept += elements if spec["dropout"] else 0


def _mlp_sum(spec, s):
    b, inputs, dense = spec["batch"], spec["input"], spec["shape"] == "dense"
    s.keep(b * inputs, 4)
    for out in spec["widths"]:
        s.weights(inputs * out + out, b)
        if spec["norm"]:
            s.params += 2 * out
            s.keep(b * out)
        _keep_extras(spec, s, b * out)
        if dense:
            inputs += out
            s.keep(b * inputs)
        else:
            inputs = out
    s.weights(inputs * spec["classes"] + spec["classes"], b)


def _cnn_sum(spec, s):
    channels, side, _ = spec["input"]
    b, k, dense = spec["batch"], spec["kernel"], spec["shape"] == "dense"
    s.keep(b * channels * side * side, 4)
    for i, out in enumerate(spec["widths"]):
        before = b * channels * side * side
        if i in spec["down"] and spec["pooling"] == "stride":
            side = (side + 1) // 2
        here = b * out * side * side
        s.weights(k * k * channels * out + out, b * side * side)
        s.scratch = max(s.scratch, (before + here) * s.width)
        if spec["norm"]:
            s.params += 2 * out
            s.keep(here)
        _keep_extras(spec, s, here)
        if dense:
            channels += out
            s.keep(b * channels * side * side)
        else:
            channels = out
        if spec["shape"] == "residual" and i % 2:
            s.keep(here)
        if i in spec["down"] and spec["pooling"] == "max":
            s.keep(b * channels * (side // 2) ** 2)
            s.kept += 8 * b * channels * (side // 2) ** 2  # indices
            side //= 2
    flat = channels * side * side if spec["head"] == "flatten" else channels
    s.weights(flat * spec["classes"] + spec["classes"], b)
    s.keep(b * spec["classes"] * 3, 4)


def _attention_sum(spec, s, amp):
    scores = spec["batch"] * spec["heads"] * spec["seq_len"] ** 2
    s.flops += 4 * scores * spec["width"] // spec["heads"]
    if spec["attention"] == "eager":
        s.keep(scores, 4 if amp else s.width)
        s.kept += scores * ((2 if amp else 0) + (1 + s.width if spec["dropout"] else 0))


def _transformer_sum(spec, s):
    tokens, e = spec["batch"] * spec["seq_len"], spec["width"]
    amp = spec["precision"].startswith("amp")
    words = spec["vocabulary"] * e
    s.params += words + spec["seq_len"] * e
    for ff in spec["feedforward"]:
        s.weights(4 * e * e + (3 if spec["gated"] else 2) * e * ff, tokens)
        s.keep(tokens * e * 2, 4 if amp else s.width)  # inputs of the two norms
        s.keep(tokens * e * 6 + tokens * ff * (4 if spec["gated"] else 1 + (spec["activation"] == "GELU")))
        if spec["dropout"]:
            s.kept += tokens * e * 2 + (tokens * ff * (1 + s.width) if spec["projection"] == "mha" else 0)
        _attention_sum(spec, s, amp)
    if spec["head"] == "classify":
        s.params += e * spec["classes"]
        return
    s.flops += 2 * tokens * words
    s.params += words if spec["head"] == "lm" else 0
    s.keep(2 * tokens * spec["vocabulary"], 4 if amp else s.width)
    s.largest //= 2


_SUM = {"mlp": _mlp_sum, "cnn": _cnn_sum, "transformer": _transformer_sum}


def estimate(spec):
    """{bytes, seconds}: what the allocator will hold at its peak and how long a modern data-centre GPU takes for three steps.
    Good enough to choose what to measure and to share a GPU out; no more is asked of it."""
    s = _Sum(spec)
    _SUM[spec["family"]](spec, s)
    of_param = 2 if spec["precision"] == "bf16" else 4
    states = OPTIMIZERS[spec["optimizer"]]
    held = s.params * of_param * (1 + states)
    if spec["precision"].startswith("amp"):
        held += s.params * 2
    stepping = s.params * of_param * (1 + (states == 2))
    peak = (70 << 20) + held + max(s.kept + 2 * s.largest + s.scratch, stepping)
    traffic = 6 * s.kept + s.params * of_param * (10 + 4 * states)
    return {"bytes": int(peak), "seconds": 3 * (3 * s.flops / _FLOPS[spec["precision"]] + traffic / 3e12)}
