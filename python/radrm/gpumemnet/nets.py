# SPDX-License-Identifier: MIT
"""The nets of GPUMemNet and their training: ours, and those of the dissertation's section 5.4.4 as far as it describes them.

Ours classify log2(memory / reference) into bins of their own, fine where configurations are many; a distribution over
any other bins follows from theirs. The published ones classify memory into bins of 1, 2 or 8 GiB."""
import copy
import math

import numpy
import torch
from torch import nn
from torch.nn import functional

WIDTHS = (32, 48, 32, 48, 32, 32)  # of our perceptrons' hidden layers, and how many each has
DEPTHS = (1, 2, 3, 2, 3, 4)
MODEL, HEADS, INSIDE, BLOCKS, HIDDEN = 32, 2, 64, 2, 64  # our encoder
MASKED = 0.25  # share of configurations whose optimizer, precision or both are hidden, drawn anew in each epoch


class Perceptron(nn.Module):
    """Linear, batch normalisation, ReLU; a linear layer at the end."""
    def __init__(self, inputs, widths, outputs):
        super().__init__()
        layers = []
        for width in widths:
            layers += [nn.Linear(inputs, width), nn.BatchNorm1d(width), nn.ReLU()]
            inputs = width
        self.layers = nn.Sequential(*layers, nn.Linear(inputs, outputs))

    def forward(self, x):
        return self.layers(x)

    def folded(self):
        """[(weights, bias)] with normalisation made part of the linear layers before it."""
        parts, found = list(self.layers), []
        for i, part in enumerate(parts):
            if not isinstance(part, nn.Linear):
                continue
            weights, bias = part.weight.detach().double(), part.bias.detach().double()
            norm = parts[i + 1] if i + 1 < len(parts) else None
            if norm is not None:
                scale = norm.weight.detach().double() / (norm.running_var.double() + norm.eps).sqrt()
                weights, bias = weights * scale[:, None], (bias - norm.running_mean.double()) * scale + norm.bias.detach().double()
            found.append((weights.float(), bias.float()))
        return found


class Ensemble(nn.Module):
    """Members vote with probabilities (ours) or logits (published). The answer is log-probabilities, of each member in training."""
    def __init__(self, members, logits):
        super().__init__()
        self.members, self.logits = nn.ModuleList(members), logits

    def forward(self, inputs, *_):
        each = torch.stack([m(inputs) for m in self.members])
        if self.training:
            return functional.log_softmax(each, -1)
        if self.logits:
            return functional.log_softmax(each.mean(0), -1)
        return functional.softmax(each, -1).mean(0).clamp_min(1e-12).log()


class Block(nn.Module):
    """Norms first, attention over tokens, two linear layers."""
    def __init__(self, width, heads, inside):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, inside), nn.Linear(inside, width)

    def forward(self, x, there):
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in self.qkv(self.norm1(x)).chunk(3, -1))
        mixed = functional.scaled_dot_product_attention(q, k, v, attn_mask=there[:, None, None, :])
        x = x + self.out(mixed.transpose(1, 2).flatten(-2))
        return x + self.down(functional.relu(self.up(self.norm2(x))))


class Encoder(nn.Module):
    """A transformer encoder over tokens and a perceptron on what comes out of it and the inputs. `mean` and `scale` normalise
    tokens; `both` pools by mean and maximum, else by mean."""
    def __init__(self, token, inputs, outputs, mean, scale, sizes=(MODEL, HEADS, INSIDE, BLOCKS, HIDDEN), both=True):
        super().__init__()
        width, heads, inside, blocks, hidden = sizes
        self.both = both
        self.register_buffer("mean", mean)
        self.register_buffer("scale", scale)
        self.embed = nn.Linear(token, width)
        self.blocks = nn.ModuleList(Block(width, heads, inside) for _ in range(blocks))
        self.norm = nn.LayerNorm(width)
        self.hidden, self.head = nn.Linear((1 + both) * width + inputs, hidden), nn.Linear(hidden, outputs)

    def forward(self, inputs, tokens, there):
        x = self.embed((tokens - self.mean) * self.scale)
        for block in self.blocks:
            x = block(x, there)
        x = self.norm(x)
        pooled = [(x * there[..., None]).sum(1) / there.sum(1, keepdim=True)]
        if self.both:
            pooled.append(x.masked_fill(~there[..., None], -math.inf).amax(1))
        logits = self.head(functional.relu(self.hidden(torch.cat((*pooled, inputs), -1))))
        out = functional.log_softmax(logits, -1)
        return out[None] if self.training else out


# ---- bins ----

def edges_of(y):
    """Edges of our bins for values seen in training: half of them at quantiles, half evenly between the ends, none closer than
    0.7 %; the outermost a little beyond what was seen."""
    low, high = y.min() - 0.02, y.max() + 0.05
    at = numpy.concatenate((numpy.quantile(y, numpy.linspace(0, 1, 31)[1:-1]), numpy.linspace(*numpy.quantile(y, (0.01, 0.99)), 17)))
    edges = [low]
    for edge in sorted(at):
        if edge - edges[-1] >= 0.01 and high - edge >= 0.01:
            edges.append(edge)
    return numpy.array([*edges, high], numpy.float32)


def coarse(probabilities, lower, upper, step_mib, bins):
    """Probabilities of bins of `step_mib` from those of bins from `lower` to `upper` (MiB, one row a configuration), spread evenly
    inside each."""
    out = numpy.zeros((len(probabilities), bins))
    for k in range(bins):
        below, above = k * step_mib, (k + 1) * step_mib if k < bins - 1 else math.inf
        inside = numpy.minimum(upper, above) - numpy.maximum(lower, below)
        out[:, k] = (probabilities * numpy.clip(inside / (upper - lower), 0, 1)).sum(1)
    return out


# ---- training ----

def loss_of(log_p, target, ordered):
    """Cross-entropy, and, where bins are many, how far the cumulative probabilities are off: a neighbouring bin is half right."""
    target = target.expand(log_p.shape[:-1])
    loss = functional.nll_loss(log_p.flatten(0, -2), target.flatten())
    if ordered:
        cumulative = log_p.exp().cumsum(-1)
        reached = torch.arange(log_p.shape[-1], device=log_p.device) >= target[..., None]
        loss = loss + (cumulative - reached.float()).square().sum(-1).mean()
    return loss


def fit(net, batches, check, epochs, rate, ordered, patience=40):
    """Trains until `check` (a function of the net: its loss on configurations held out of training) has not become better for
    a while; the best net is kept. `batches(epoch)` gives (inputs, tokens, there, target)."""
    optimizer = torch.optim.AdamW(net.parameters(), rate, weight_decay=1e-3)
    plan = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda e: min(1, (e + 1) / 5)
                                             * (0.02 + 0.98 * (1 + math.cos(math.pi * e / epochs)) / 2))
    best, kept, since = math.inf, None, 0
    for epoch in range(epochs):
        net.train()
        for *x, target in batches(epoch):
            optimizer.zero_grad(set_to_none=True)
            loss_of(net(*x), target, ordered).backward()
            nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            optimizer.step()
        plan.step()
        if epoch % 2 == 0 or epoch == epochs - 1:
            net.eval()
            with torch.no_grad():
                now = check(net)
            since = 0 if now < best else since + 2
            if now < best:
                best, kept = now, copy.deepcopy(net.state_dict())
            if since >= patience:
                break
    net.load_state_dict(kept)
    return net.eval()
