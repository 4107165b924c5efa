# SPDX-License-Identifier: MIT
"""One training: a family's rows, one kind of net (ours or the published, ensemble or encoder), one split; and what it then says of
the rows that took no part in it."""
import math

import numpy
import torch

from . import nets

COVERAGE = 0.95
GIB = 1024  # MiB
STEPS = {"mlp": (1, 2), "cnn": (8,), "transformer": (8,)}  # GiB a bin, as published
EPOCHS = {"ensemble": 300, "encoder": 160}
BATCH = 256


LEAST = 10  # configurations in the uppermost class, which has no end


def classes_of(mib, step):
    """(class of each configuration in bins of `step` GiB, number of classes)."""
    of = (mib // (step * GIB)).astype(int)
    bins = max(int(numpy.sort(of)[-min(LEAST, len(of))]), 1) + 1
    return numpy.minimum(of, bins - 1), bins


def split(n, name, seed=1):
    """(train, check, test) rows. `fold0` to `fold2`: thirds take turns as the test; `split`: 70, 20 and 10 %; `all`: no test, for
    the weights that are shipped."""
    order = numpy.random.RandomState(seed).permutation(n)
    if name == "split":
        return order[:int(0.7 * n)], order[int(0.7 * n):int(0.9 * n)], order[int(0.9 * n):]
    if name == "all":
        return order[:int(0.9 * n)], order[int(0.9 * n):], order[:0]
    third = int(name[-1])
    test = order[third::3]
    rest = numpy.concatenate([order[k::3] for k in range(3) if k != third])
    rest = rest[numpy.random.RandomState(seed + 1 + third).permutation(len(rest))]
    return rest[:int(0.85 * len(rest))], rest[int(0.85 * len(rest)):], test


def _padded(sequences, device):
    longest = max(len(s) for s in sequences)
    out = torch.zeros(len(sequences), longest, sequences[0].shape[1])
    there = torch.zeros(len(sequences), longest, dtype=torch.bool)
    for i, s in enumerate(sequences):
        out[i, :len(s)] = torch.from_numpy(s)
        there[i, :len(s)] = True
    return out.to(device), there.to(device)


def _normal(x):
    """Mean and 1 / deviation of columns; a column that is always the same counts as it is."""
    deviation = x.std(0)
    return x.mean(0), torch.where(deviation > 1e-6, 1 / deviation.clamp_min(1e-6), torch.ones_like(deviation))


class _Data:
    """Tensors of the rows of one split's part; sorted by length inside a batch, so that padding costs little."""
    def __init__(self, inputs, target, sequences, device):
        self.inputs, self.target = inputs.to(device), target.to(device)
        self.tokens, self.there = _padded(sequences, device) if sequences else (None, None)
        self.lengths = self.there.sum(1).cpu() if sequences else None

    def batch(self, at, variant):
        x = (self.inputs[variant, at], self.target[variant, at])
        if self.tokens is None:
            return x[0], None, None, x[1]
        longest = int(self.lengths[at.cpu()].max())
        return x[0], self.tokens[at, :longest], self.there[at, :longest], x[1]

    def batches(self, random, masked):
        n = self.inputs.shape[1]
        order = torch.from_numpy(random.permutation(n))
        variants = torch.from_numpy(numpy.where(random.rand(n) < masked, random.randint(1, len(self.inputs), n) if masked else 0, 0))
        if self.lengths is not None:  # alike in length together, batches in random order
            order = order[torch.argsort(self.lengths[order] + 4
                                        * torch.rand(n, generator=torch.Generator().manual_seed(int(random.randint(1 << 30)))))]
        starts = list(range(0, n, BATCH))
        for i in random.permutation(len(starts)):
            at = order[starts[i]:starts[i] + BATCH]
            if len(at) > 1:  # batch normalisation needs two
                yield self.batch(at.to(self.inputs.device), variants[at].to(self.inputs.device))

    def whole(self, net, variant):
        """Log-probabilities of all rows."""
        out = []
        for start in range(0, self.inputs.shape[1], 512):
            at = torch.arange(start, min(start + 512, self.inputs.shape[1]), device=self.inputs.device)
            *x, _ = self.batch(at, torch.full_like(at, variant))
            out.append(net(*x))
        return torch.cat(out)


def _one_hot(sequences):
    """Kind of layer as numbers of its own, beside activations and parameters."""
    from .features import KINDS
    return [numpy.concatenate((numpy.eye(KINDS, dtype=numpy.float32)[s[:, 0].astype(int)], s[:, 1:]), 1) for s in sequences]


def _token_scale(sequences, first):
    """Numbers of tokens from column `first` on are normalised, kinds are not."""
    mean, scale = _normal(torch.from_numpy(numpy.concatenate(sequences)))
    mean[:first], scale[:first] = 0, 1
    return mean, scale


def _published_net(kind, inputs, bins, tokens):
    if kind == "ensemble":  # 13 of 1 to 7 and of 1 to 6 hidden layers, about 1,500 parameters each
        def width(depth):
            a, b = depth - 1, inputs + bins + 3 * depth
            return max(4, round((-b + math.sqrt(b * b + 4 * a * 1500)) / (2 * a) if a else 1500 / b))
        return nets.Ensemble([nets.Perceptron(inputs, [width(d)] * d, bins) for d in (*range(1, 8), *range(1, 7))], True)
    return nets.Encoder(tokens[0].shape[1], inputs, bins, *_token_scale(tokens, tokens[0].shape[1] - 2), sizes=(24, 2, 48, 1, 48),
                        both=False)


def _our_net(kind, inputs, bins, tokens):
    if kind == "ensemble":
        return nets.Ensemble([nets.Perceptron(inputs, [w] * d, bins) for w, d in zip(nets.WIDTHS, nets.DEPTHS)], False)
    from .features import KINDS
    return nets.Encoder(tokens[0].shape[1], inputs, bins, *_token_scale(tokens, KINDS))


def _train(net, data, check, kind, seed, ordered, masked, epochs):
    random = numpy.random.RandomState(seed)

    def held_out(net):
        variants = range(len(data.inputs)) if masked else (0,)
        weights = [1 - masked] + [masked / 3] * 3
        return sum(weights[v] * float(nets.loss_of(check.whole(net, v)[None], check.target[v], ordered)) for v in variants)
    return nets.fit(net, lambda epoch: data.batches(random, masked), held_out, epochs, 3e-3 if kind == "ensemble" else 2e-3, ordered)



def _reach(p, probability):
    """The bin in which that cumulative probability is reached."""
    return numpy.minimum((p.cumsum(1) < probability).sum(1), p.shape[1] - 1)


def ours(rows, family, kind, name, device="cpu", seed=1, epochs=None):
    """(answers on the test rows, and the net with what its weights file needs). `name`: of a split, or (train, check, test)."""
    torch.manual_seed(seed)
    train, check, test = name if isinstance(name, tuple) else split(len(rows), name)
    y = numpy.log2(rows.mib[None] / rows.reference)
    edges = nets.edges_of(numpy.concatenate([y[0, train]] * 3 + [y[v, train] for v in (1, 2, 3)]))
    target = torch.from_numpy(numpy.clip(numpy.searchsorted(edges, y.astype(numpy.float32)) - 1, 0, len(edges) - 2))
    x = torch.from_numpy(rows.inputs)
    low, high = x[:, train].amin((0, 1)), x[:, train].amax((0, 1))
    x = x.clamp(low, high)
    mean, scale = _normal(x[:, train].flatten(0, 1))
    x = (x - mean) * scale
    tokens = rows.tokens if kind == "encoder" else None

    def part(at):
        return _Data(x[:, at], target[:, at], [tokens[i] for i in at] if tokens else None, device)
    net = _our_net(kind, x.shape[2], len(edges) - 1, [tokens[i] for i in train] if tokens else None).to(device)
    net = _train(net, part(train), part(check), kind, seed, True, nets.MASKED, epochs or EPOCHS[kind])
    about = {"net": net.cpu(), "low": low, "high": high, "mean": mean, "scale": scale, "edges": edges}
    return [answers_of(about, rows, at, family, kind) for at in (check, test)], about


def answers_of(about, rows, at, family, kind):
    """What our net says of rows, by variant: probabilities are kept, so that two kinds can be mixed afterwards."""
    if not len(at):
        return None
    x = (torch.from_numpy(rows.inputs[:, at]).clamp(about["low"], about["high"]) - about["mean"]) * about["scale"]
    data = _Data(x, torch.zeros(x.shape[:2], dtype=torch.long), [rows.tokens[i] for i in at] if kind == "encoder" else None, "cpu")
    with torch.no_grad():
        p = numpy.stack([data.whole(about["net"], v).exp().double().numpy() for v in range(len(x))])
    p[p < 1e-5] = 0
    return {"at": at, "p": (p / p.sum(-1, keepdims=True)).astype(numpy.float32), "edges": about["edges"]}


def conclude(answer, rows, family, variant=0):
    """Figures for rows: truth, claim and middle in MiB, and the published bins, by their width in GiB."""
    at, p, edges = answer["at"], answer["p"][variant].astype(float), answer["edges"].astype(float)
    reference, mib = rows.reference[variant, at], rows.mib[at]
    lower, upper = (2 ** edges[None, :-1] * reference[:, None], 2 ** edges[None, 1:] * reference[:, None])
    row = numpy.arange(len(at))
    out = {"mib": mib, "claim": upper[row, _reach(p, COVERAGE)], "middle": upper[row, _reach(p, 0.5)], "bins": {}}
    for step in STEPS[family]:
        truth, bins = classes_of(rows.mib, step)
        q = nets.coarse(p, lower, upper, step * GIB, bins)
        out["bins"][step] = {"truth": truth[at], "said": q.argmax(1), "claimed": _reach(q, COVERAGE)}
    return out


def published(rows, family, kind, name, step, device="cpu", seed=1, epochs=None):
    """Figures of the published net for the test rows, in bins of `step` GiB."""
    torch.manual_seed(seed)
    train, check, test = split(len(rows), name)
    truth, bins = classes_of(rows.mib, step)
    target = torch.from_numpy(truth)[None]
    x = torch.from_numpy(rows.published)
    mean, scale = _normal(x[train])
    x = ((x - mean) * scale).float()[None]
    tokens = _one_hot(rows.sequences) if kind == "encoder" else None

    def part(at):
        return _Data(x[:, at], target[:, at], [tokens[i] for i in at] if tokens else None, device)
    net = _published_net(kind, x.shape[2], bins, [tokens[i] for i in train] if tokens else None).to(device)
    net = _train(net, part(train), part(check), kind, seed, False, 0, epochs or EPOCHS[kind])
    with torch.no_grad():
        p = part(test).whole(net, 0).exp().double().cpu().numpy()
    claimed = _reach(p, COVERAGE)
    upper = numpy.append(numpy.arange(1, bins) * step * GIB, numpy.ceil(rows.mib.max() / (step * GIB)) * step * GIB)
    weights = sum(w.numel() for w in net.parameters())
    return {"at": test, "mib": rows.mib[test], "claim": upper[claimed], "middle": upper[p.argmax(1)],
            "weights": weights, "bins": {step: {"truth": truth[test], "said": p.argmax(1), "claimed": claimed}}}
