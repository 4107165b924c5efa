# SPDX-License-Identifier: MIT
"""The table that torchinfo prints of a spec's model in training, which `rad parse` reads. Standard library only: worked out
from the spec, thousands of them in seconds. A test compares it with the modules of models.py as they run, and with torchinfo."""


class Node:
    """A module: its class, the shape of its output, parameters that are its own, and the modules it runs, in order."""
    def __init__(self, name, shape, params=0, children=()):
        self.name, self.shape, self.params, self.children = name, list(shape), params, list(children)


def _extras(spec, shape, norm):
    nodes = [Node(norm, shape, 2 * shape[1])] if spec["norm"] else []
    nodes.append(Node(spec["activation"], shape))
    return nodes + ([Node("Dropout", shape)] if spec["dropout"] else [])


def _linear(inputs, shape, bias=True):
    return Node("Linear", shape, (inputs + bias) * shape[-1])


def _mlp(spec):
    nodes, b, inputs = [], spec["batch"], spec["input"]
    for out in spec["widths"]:
        block = Node("Sequential", (b, out), 0, [_linear(inputs, (b, out)), *_extras(spec, (b, out), "BatchNorm1d")])
        if spec["shape"] == "dense":
            inputs += out
            nodes.append(Node("Dense", (b, inputs), 0, [block]))
            continue
        nodes.append(Node("Residual", (b, out), 0, [block]) if spec["shape"] == "residual" and inputs == out else block)
        inputs = out
    return Node("Sequential", (b, spec["classes"]), 0, [*nodes, _linear(inputs, (b, spec["classes"]))])


def _halved(side, stride):
    return (side + 1) // 2 if stride == 2 else side


def _convolutions(spec, i, n, channels, side):
    """Nodes of convolutions i to i + n - 1 and what follows each; the height and width behind them."""
    nodes, k = [], spec["kernel"]
    for i in range(i, i + n):
        out = spec["widths"][i]
        side = _halved(side, 2 if i in spec["down"] and spec["pooling"] == "stride" else 1)
        shape = (spec["batch"], out, side, side)
        nodes += [Node("Conv2d", shape, out * (channels * k * k + (not spec["norm"]))), *_extras(spec, shape, "BatchNorm2d")]
        channels = out
    return nodes, side


def _cnn_block(spec, i, n, channels, side):
    """The node of one block, the channels and the side behind it."""
    nodes, after = _convolutions(spec, i, n, channels, side)
    out = spec["widths"][i + n - 1]
    shape = (spec["batch"], out, after, after)
    block = Node("Sequential", shape, 0, nodes)
    strides = spec["pooling"] == "stride" and any(k in spec["down"] for k in range(i, i + n))
    if spec["shape"] == "dense" and not strides:
        out += channels
        return Node("Dense", (spec["batch"], out, after, after), 0, [block]), out, after
    if spec["shape"] == "residual":
        project = [Node("Conv2d", shape, channels * out)] if strides or channels != out else []
        block = Node("Residual", shape, 0, [block, *project])
    return block, out, after


def _cnn(spec):
    b, (channels, side, _), nodes, i = spec["batch"], spec["input"], [], 0
    while i < len(spec["widths"]):
        n = min(2 if spec["shape"] == "residual" else 1, len(spec["widths"]) - i)
        node, channels, side = _cnn_block(spec, i, n, channels, side)
        nodes.append(node)
        for k in range(i, i + n):
            if k in spec["down"] and spec["pooling"] == "max":
                side //= 2
                nodes.append(Node("MaxPool2d", (b, channels, side, side)))
        i += n
    if spec["head"] == "pool":
        side = 1
        nodes.append(Node("AdaptiveAvgPool2d", (b, channels, 1, 1)))
    flat, out = channels * side * side, (b, spec["classes"])
    return Node("Sequential", out, 0, [*nodes, Node("Flatten", (b, flat)), _linear(flat, out)])


def _norm(spec):
    rms = spec["norm"] == "rms"
    return Node("RMSNorm" if rms else "LayerNorm", (spec["batch"], spec["seq_len"], spec["width"]), spec["width"] * (2 - rms))


def _attention(spec, x):
    b, s, e = x
    scores = (b, spec["heads"], s, s)
    eager = [Node("Softmax", scores), Node("Dropout", scores)] if spec["attention"] == "eager" else []
    if spec["projection"] == "conv1d":
        return Node("SelfAttention", x, 0, [Node("Conv1D", (b, s, 3 * e), 3 * e * (e + 1)), *eager,
                                            Node("Conv1D", x, e * (e + 1))])
    linears = [_linear(e, x, not spec["gated"]) for _ in range(4)]
    return Node("SelfAttention", x, 0, [*linears[:3], *eager, linears[3]])


def _feed_forward(spec, x, inner):
    e, wide = x[2], (*x[:2], inner)
    if spec["projection"] == "conv1d":
        up, down = Node("Conv1D", wide, (e + 1) * inner), Node("Conv1D", x, (inner + 1) * e)
    else:
        up, down = _linear(e, wide, not spec["gated"]), _linear(inner, x, not spec["gated"])
    act = Node(spec["activation"], wide)
    return Node("FeedForward", x, 0, [_linear(e, wide, False), act, up, down] if spec["gated"] else [up, act, down])


def _transformer_block(spec, x, inner):
    e, norm1, norm2 = x[2], _norm(spec), _norm(spec)
    if spec["projection"] == "mha":
        name, attention = "TransformerEncoderLayer", Node("MultiheadAttention", x, 4 * e * (e + 1))
        wide = (*x[:2], inner)
        mlp = [_linear(e, wide), Node(spec["activation"], wide), Node("Dropout", wide), _linear(inner, x)]
    else:
        name, attention, mlp = "TransformerBlock", _attention(spec, x), [_feed_forward(spec, x, inner)]
    attend, feed = [attention, Node("Dropout", x)], [*mlp, Node("Dropout", x)]
    return Node(name, x, 0, [norm1, *attend, norm2, *feed] if spec["first"] else [*attend, norm1, *feed, norm2])


def _transformer(spec):
    b, s, e = x = (spec["batch"], spec["seq_len"], spec["width"])
    out = (b, spec["classes"]) if spec["head"] == "classify" else (b, s, spec["classes"])
    nodes = [Node("Embedding", x, spec["vocabulary"] * e), Node("Embedding", (1, s, e), s * e), Node("Dropout", x),
             *(_transformer_block(spec, x, inner) for inner in spec["feedforward"]), *([_norm(spec)] if spec["first"] else []),
             _linear(e, out, spec["head"] == "classify")]
    return Node("LlamaLM" if spec["head"] == "lm" else "Transformer", out, 0, nodes)


_FAMILIES = {"mlp": _mlp, "cnn": _cnn, "transformer": _transformer}


def rows(spec):
    """[(depth, Node)] in the order in which modules begin to run, the whole model first."""
    found = []

    def visit(depth, node):
        found.append((depth, node))
        for child in node.children:
            visit(depth + 1, child)
    visit(0, _FAMILIES[spec["family"]](spec))
    return found


def layers(spec):
    """[(class, parameters, elements of its output for one sample)] of what runs no others."""
    def elements(node):
        n = 1
        for size in node.shape:
            n *= size
        whole = node.shape[0] == 1  # made once for the whole batch
        return 0 if node.name == "Flatten" else n // (1 if whole else spec["batch"])
    return [(node.name, node.params, elements(node)) for _, node in rows(spec) if not node.children]


def params(spec):
    """Of the whole model; what two layers share counts once."""
    shared = spec["vocabulary"] * spec["width"] if spec.get("head") == "lm-tied" else 0
    return sum(node.params for _, node in rows(spec)) - shared


def encode(list_):
    """layers() in one word: class:parameters:elements, and "*n" behind what comes n times in a row."""
    out, i = [], 0
    while i < len(list_):
        n = 1
        while i + n < len(list_) and list_[i + n] == list_[i]:
            n += 1
        out.append(":".join(map(str, list_[i])) + (f"*{n}" if n > 1 else ""))
        i += n
    return " ".join(out)


def _name(depth, index, node):
    branch = "" if not depth else "├─" if depth == 1 else "│    " * (depth - 1) + "└─"
    return branch + node.name + (f": {depth}-{index}" if depth else "")


def summary(spec):
    """The text. Parameters that two layers share stand with both, as in torchinfo; the total counts them once."""
    counts, lines = {}, []
    for depth, node in rows(spec):
        counts[depth] = counts.get(depth, 0) + 1
        lines.append((_name(depth, counts[depth], node), str(node.shape), f"{node.params:,}" if node.params else "--"))
    width = max(40, max(len(name) for name, _, _ in lines))
    total, double = f"{params(spec):,}", "=" * (width + 45)
    megabytes = params(spec) * (2 if spec["precision"] == "bf16" else 4) / 1e6
    return "\n".join([double, f"{'Layer (type:depth-idx)':<{width}} {'Output Shape':<25} Param #", double,
                      *(f"{name:<{width}} {shape:<25} {n}" for name, shape, n in lines), double, f"Total params: {total}",
                      f"Trainable params: {total}", "Non-trainable params: 0", double, f"Params size (MB): {megabytes:.2f}",
                      double, ""])
