# SPDX-License-Identifier: MIT
"""The table that torchinfo prints of a model in training, for a model that is never computed: `rad parse` reads it."""
from . import models


class _Row:
    def __init__(self, name, depth, index, module):
        self.name, self.depth, self.index, self.module, self.shape = name, depth, index, module, None


def _run(spec):
    """Rows in the order in which modules are entered, the outermost first, and the model."""
    import torch
    net, rows, open_, counts, handles = models.module(spec, "meta"), [], [], {}, []

    def enter(module, _inputs):
        depth = len(open_)
        counts[depth] = counts.get(depth, 0) + 1
        open_.append(_Row(type(module).__name__, depth, counts[depth], module))
        rows.append(open_[-1])

    def leave(_module, _inputs, outputs):
        open_.pop().shape = list((outputs[0] if isinstance(outputs, tuple) else outputs).shape)

    for module in net.modules():
        handles += [module.register_forward_pre_hook(enter), module.register_forward_hook(leave)]
    with torch.no_grad():
        net(models.example(spec, "meta"))
    for handle in handles:
        handle.remove()
    return rows, net


def _own(module, listed):
    """Parameters that no row below this one shows: of a module itself, and of children that are read but never called."""
    own = sum(p.numel() for p in module.parameters(recurse=False))
    return own + sum(_own(child, listed) for child in module.children() if id(child) not in listed)


def _line(row, listed, width):
    branch = "" if not row.depth else "├─" if row.depth == 1 else "│    " * (row.depth - 1) + "└─"
    name = branch + row.name + (f": {row.depth}-{row.index}" if row.depth else "")
    params = _own(row.module, listed)
    return f"{name:<{width}} {str(row.shape):<25} {f'{params:,}' if params else '--'}"


def summary(spec):
    """The text. Parameters that two layers share stand with both, as in torchinfo; the total counts them once."""
    rows, net = _run(spec)
    listed = {id(row.module) for row in rows}
    width = max(40, max(5 * row.depth + len(row.name) + 10 for row in rows))
    double = "=" * (width + 45)
    total = sum(p.numel() for p in net.parameters())
    size = 2 if spec["precision"] == "bf16" else 4
    return "\n".join([double, f"{'Layer (type:depth-idx)':<{width}} {'Output Shape':<25} Param #", double,
                      *(_line(row, listed, width) for row in rows), double, f"Total params: {total:,}",
                      f"Trainable params: {total:,}", "Non-trainable params: 0", double,
                      f"Params size (MB): {total * size / 1e6:.2f}", double, ""])


def layers(spec):
    """[(type, parameters, elements of its output for one sample)] of the modules that are layers: without children that run,
    or with parameters of their own; in the order in which they run. Computed from the model, not from the table."""
    rows, _ = _run(spec)
    listed = {id(row.module) for row in rows}
    found = []
    for i, row in enumerate(rows):
        parent = i + 1 < len(rows) and rows[i + 1].depth > row.depth
        params = _own(row.module, listed)
        if parent and not params:
            continue
        elements = 1
        for n in row.shape:
            elements *= n
        whole = row.shape[0] == 1  # made once for the whole batch
        found.append((row.name, params, 0 if row.name == "Flatten" else elements // (1 if whole else spec["batch"])))
    return found


