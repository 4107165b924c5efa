#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What cuDNN takes beside a convolution's own tensors, a convolution at a time:

    scratch.py --out FOLDER [--seconds 150] [--workers 8] [--seed 1] [--count 60000] [--dilated | --recurrent] [--pretend]
    scratch.py --table FOLDER/scratch-*.jsonl.gz

Convolutions are drawn at random, of the sizes that networks have; none is taken from a job of jobs.py. Each is run forwards
and backwards in one process after the other, alone on its stream. FOLDER/scratch-WORKER.jsonl.gz has a line for each: its shape and,
for each direction, the bytes that were asked for beyond its result (forward, input, weights; -1: it failed). Lines are flushed
as they come, and all ends at the deadline. --dilated draws others: of one dimension, as in networks for sequences, and of two,
with taps that are further and further apart, and some without gaps to compare with; a minute of them is enough. --recurrent draws
LSTMs, GRUs and RNNs in their place; `reserve` is what the forward pass keeps for the backward one. --pretend draws and writes
without a GPU. --table prints how much was taken, as a part of input and output, which is 1 where both are copied.
"""

import argparse
import collections
import gzip
import json
import math
import os
import pathlib
import random
import sys
import time

CHANNELS = (16, 24, 32, 40, 48, 64, 80, 96, 112, 128, 144, 160, 192, 224, 240, 256, 288, 320, 384, 448, 480, 512, 576, 640, 672)
CHANNELS += (728, 768, 832, 896, 960, 1024, 1152, 1280, 1536, 1920, 2048)
SIDES = (6, 7, 8, 10, 11, 12, 13, 14, 16, 17, 18, 20, 22, 24, 28, 30, 32, 35, 36, 44, 48, 56, 64, 71, 72, 75, 88, 96, 112, 128)
SIDES += (144, 147, 150, 160, 192, 224, 256, 299)
BATCHES = tuple(n * 2**k for k in range(0, 11) for n in (1, 3, 5, 7, 9, 11))
LENGTHS = (24, 48, 64, 96, 100, 128, 192, 250, 256, 320, 400, 500, 512, 784, 1000, 1020, 1024, 2000, 2048, 4000, 4096, 8000,
           8192, 16000, 16384)
MOST = 3 << 30  # bytes of one tensor
LEAST = 1 << 12


def kernel_of(r, side):
    """(height, width), stride, dilation"""
    kind = r.random()
    if kind < 0.40:
        return (3, 3), r.choice((1, 1, 1, 1, 2, 2)), r.choice((1,) * 8 + (2, 4, 12))
    if kind < 0.72:
        return (1, 1), r.choice((1, 1, 1, 1, 1, 2)), 1
    if kind < 0.80:
        return (5, 5), r.choice((1, 1, 2)), 1
    if kind < 0.90:
        return (7, 7), r.choice((1, 1, 2)), 1
    if kind < 0.95:
        return r.choice(((1, 7), (7, 1), (1, 3), (3, 1))), 1, 1
    n = r.choice((2, 4, 8, 11, 16))
    return (n, n), r.choice((n, 4, 2)), 1


def draw(r):
    """One convolution, or None where its sizes are no network's."""
    side = r.choice(SIDES)
    (kh, kw), stride, dilation = kernel_of(r, side)
    what = r.random()
    if what < 0.12:  # reads an image
        side, into, out, groups = r.choice((32, 64, 96, 128, 160, 176, 192, 224, 224, 256, 299)), r.choice((1, 3, 3, 3, 3, 4)), 0, 1
        out = r.choice((16, 24, 32, 48, 64, 64, 96, 128, 768))
    elif what < 0.27:  # depthwise
        into = groups = out = r.choice(CHANNELS)
    elif what < 0.34:  # groups
        width, groups = r.choice((4, 8, 16, 24, 32, 48, 64)), r.choice((2, 4, 8, 14, 16, 24, 32))
        into = out = width * groups
    else:
        into, groups = r.choice(CHANNELS), 1
        near = [c for c in CHANNELS if into / 6 <= c <= into * 6]
        out = into if r.random() < 0.3 else r.choice(near)
        if r.random() < 0.04:
            out = r.choice((10, 21, 100, 255))
    if into * side > 72 * 1024 or kh > side or kw > side:
        return None
    pad = r.choice(((kh - 1) // 2, (kh - 1) // 2, (kh - 1) // 2, 0)) * dilation
    pad = (pad, (kw - 1) // 2 * dilation if pad else 0)
    sides = [(side + 2 * p - dilation * (k - 1) - 1) // stride + 1 for p, k in zip(pad, (kh, kw))]
    kind = r.choice(("tf32", "tf32", "bf16", "fp16"))
    element, batch = (4 if kind == "tf32" else 2), r.choice(BATCHES)
    sizes = [batch * into * side * side * element, batch * out * sides[0] * sides[1] * element]
    if min(sides) < 1 or not LEAST <= min(sizes) or max(sizes) > MOST or into * out // groups * kh * kw > 64 << 20:
        return None
    if r.random() < (sum(sizes) / MOST) ** 0.5 / 1.5:  # large ones take time and say the same
        return None
    return {
        "type": kind,
        "batch": batch,
        "in": [into, side, side],
        "out": [out, *sides],
        "kernel": [kh, kw],
        "stride": stride,
        "pad": list(pad),
        "dilation": dilation,
        "groups": groups,
        "last": r.random() < 0.4,
    }


def draw_dilated(r):
    """One whose taps are apart, mostly; or None. Padded on both sides by all that it reaches, as causal ones are before they
    are cut, by half of it, or not."""
    n = r.choice((1, 1, 1, 2))
    side = r.choice(LENGTHS if n == 1 else SIDES)
    taps, dilation = r.choice((2, 3, 3, 4, 5, 7, 8, 16) if n == 1 else (3, 3, 5)), 2 ** r.randrange(10 if n == 1 else 6)
    into = r.choice(CHANNELS)
    out, groups = into if r.random() < 0.5 else r.choice(CHANNELS), 1
    if r.random() < 0.1:
        out = groups = into
    reach = dilation * (taps - 1)
    pad = r.choice((reach, reach // 2, reach // 2, 0))
    after = side + 2 * pad - reach
    kind, batch = r.choice(("tf32", "tf32", "bf16", "fp16")), r.choice(BATCHES)
    sizes = [batch * c * s**n * (4 if kind == "tf32" else 2) for c, s in ((into, side), (out, after))]
    if after < 1 or reach > 4 * side or not LEAST <= min(sizes) or max(sizes) > MOST or r.random() < (sum(sizes) / MOST) ** 0.5 / 1.5:
        return None
    return {
        "type": kind,
        "batch": batch,
        "in": [into] + [side] * n,
        "out": [out] + [after] * n,
        "kernel": [taps] * n,
        "stride": 1,
        "pad": [pad] * n,
        "dilation": dilation,
        "groups": groups,
        "last": n == 2 and r.random() < 0.4,
    }


def draw_recurrent(r):
    """One of torch.nn's, or None."""
    mode, layers, both = r.choice(("rnn_tanh", "lstm", "lstm", "gru")), r.choice((1, 1, 1, 2, 2, 3, 4)), r.random() < 0.3
    width = r.choice((32, 50, 64, 100, 128, 200, 256, 300, 400, 512, 650, 768, 1000, 1024, 1150, 1280, 1500, 1536, 1840, 2048))
    into = width if r.random() < 0.5 else r.choice((8, 32, 64, 100, 128, 256, 300, 400, 512, 768, 1024))
    steps, batch = r.choice((1, 5, 10, 20, 35, 50, 64, 70, 100, 128, 200, 256, 512)), r.choice(BATCHES)
    kind = r.choice(("tf32", "tf32", "bf16", "fp16"))
    kept = steps * batch * width * layers * (2 if both else 1) * 6 * (4 if kind == "tf32" else 2)
    if batch > 512 or kept > MOST or r.random() < (kept / MOST) ** 0.5 / 1.5:
        return None
    return {"type": kind, "mode": mode, "layers": layers, "both": both, "width": width, "in": into, "steps": steps, "batch": batch,
            "dropout": 0.5 if layers > 1 and r.random() < 0.5 else 0.0}


def drawn(seed, count, draw=draw):
    r = random.Random(seed)
    while count:
        found = draw(r)
        if found:
            count -= 1
            yield found


def measure(torch, c):
    """Bytes beyond the result, for each direction."""
    kind = {"tf32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}[c["type"]]
    layout = torch.channels_last if c["last"] else torch.contiguous_format
    x = torch.empty((c["batch"], *c["in"]), dtype=kind, device="cuda", memory_format=layout).zero_()
    w = torch.empty((c["out"][0], c["in"][0] // c["groups"], *c["kernel"]), dtype=kind, device="cuda", memory_format=layout).zero_()
    n = len(c["kernel"])
    pairs = [[c["stride"]] * n, c["pad"], [c["dilation"]] * n, False, [0] * n, c["groups"]]
    g = torch.empty((c["batch"], *c["out"]), dtype=kind, device="cuda", memory_format=layout).zero_()
    back = torch.ops.aten.convolution_backward

    def beyond(run):
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_stats()["requested_bytes.all.current"]
        try:
            made = run()
        except Exception:
            torch.cuda.empty_cache()
            return -1
        size = sum(t.numel() * t.element_size() for t in made if t is not None)
        return torch.cuda.memory_stats()["requested_bytes.all.peak"] - before - size

    return {
        "forward": beyond(lambda: [torch.ops.aten.convolution(x, w, None, *pairs)]),
        "input": beyond(lambda: back(g, x, w, None, *pairs, [True, False, False])),
        "weights": beyond(lambda: back(g, x, w, None, *pairs, [False, True, False])),
    }


def requested(torch, run):
    """(bytes asked for at most beyond what was there and what `run` returns, what it returns)"""
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_stats()["requested_bytes.all.current"]
    made = run()
    size = sum(t.untyped_storage().nbytes() for t in {t.untyped_storage().data_ptr(): t for t in made if t is not None}.values())
    return torch.cuda.memory_stats()["requested_bytes.all.peak"] - before - size, made


def measure_recurrent(torch, c):
    """Bytes beyond the results, for each direction, and of the reserve."""
    kind = {"tf32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}[c["type"]]
    kinds = {"rnn_tanh": (torch.nn.RNN, 1), "lstm": (torch.nn.LSTM, 2), "gru": (torch.nn.GRU, 3)}
    make, mode = kinds[c["mode"]]
    layers, dropout, both = c["layers"], c["dropout"], c["both"]
    net = make(c["in"], c["width"], layers, dropout=dropout, bidirectional=both).to("cuda", kind)
    weights = [w.detach() for w in net._flat_weights]
    x = torch.zeros(c["steps"], c["batch"], c["in"], dtype=kind, device="cuda")
    h = torch.zeros(layers * (2 if both else 1), c["batch"], c["width"], dtype=kind, device="cuda")
    cell = torch.zeros_like(h) if mode == 2 else None
    state = torch._cudnn_init_dropout_state(dropout, True, 1, dtype=torch.uint8, device="cuda") if dropout else None
    rest = (mode, c["width"], 0, layers, False, dropout, True, both, [], state)
    forward, made = requested(torch, lambda: torch._cudnn_rnn(x, weights, 4, None, h, cell, *rest))
    out, reserve, buffer = made[0], made[3], made[4]

    def back(mask):
        grown = torch.ops.aten._cudnn_rnn_backward(x, weights, 4, buffer, h, cell, out, out, h, cell, *rest, reserve, mask)
        return [*grown[:3], *grown[3]]
    into, _ = requested(torch, lambda: back([True, True, mode == 2, False]))
    every, _ = requested(torch, lambda: back([True, True, mode == 2, True]))
    return {"forward": forward, "input": into, "both_passes": every, "reserve": reserve.numel()}


def work(n, args, deadline):
    """Every `workers`-th of the convolutions, from the n-th on."""
    if not args.pretend:
        import torch

        torch.cuda.set_per_process_memory_fraction(min(1.0, 0.95 / args.workers))
    done = 0
    draw_one, measure_one = (draw_recurrent, measure_recurrent) if args.recurrent else (draw_dilated if args.dilated else draw, measure)
    with gzip.open(args.out / f"scratch-{n}.jsonl.gz", "wt", 6) as f:
        for i, c in enumerate(drawn(args.seed, args.count, draw_one)):
            if time.monotonic() > deadline:
                break
            if i % args.workers != n:
                continue
            try:
                c.update({} if args.pretend else measure_one(torch, c))
            except Exception as e:  # no room for its tensors beside the others'
                c["error"] = str(e)[:80]
                torch.cuda.empty_cache()
            f.write(json.dumps(c, separators=(",", ":")) + "\n")
            done += 1
            if done % 50 == 0:
                f.flush()
                if not args.pretend and torch.cuda.memory_reserved() > 6 << 30:
                    torch.cuda.empty_cache()
    print(f"worker {n}: {done} convolutions", flush=True)


def table(paths):
    """Quarters of what was taken, and how many took nothing, by kind of convolution."""
    found = collections.defaultdict(list)
    for c in (json.loads(line) for path in paths for line in gzip.open(path, "rt")):
        if c["groups"] > 1 or "forward" not in c:
            continue
        both = sum(math.prod(c[name]) for name in ("in", "out")) * c["batch"] * (4 if c["type"] == "tf32" else 2)
        layout = "channels last" if c["last"] else "contiguous"
        for direction in ("forward", "input", "weights"):
            if c[direction] >= 0:
                found[len(c["kernel"]), c["type"].replace("bf16", "fp16"), layout, direction, c["dilation"]].append(c[direction] / both)
    print("| sides | numbers | layout | direction | dilation | convolutions | a quarter below | half | three quarters | "
          "nothing |\n" + "|---" * 10 + "|")
    for key, parts in sorted(found.items()):
        parts.sort()
        quarters = [f"{parts[(len(parts) - 1) * n // 4]:.2f}" for n in (1, 2, 3)]
        print("| " + " | ".join(map(str, [*key, len(parts), *quarters, sum(part < 0.01 for part in parts)])) + " |")


def main():
    if sys.argv[1:2] == ["--table"]:
        return table(sys.argv[2:])
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--out", type=pathlib.Path, required=True)
    p.add_argument("--seconds", type=float, default=150)
    p.add_argument("--workers", type=int, default=8)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--count", type=int, default=60000)
    p.add_argument("--dilated", action="store_true")
    p.add_argument("--recurrent", action="store_true")
    p.add_argument("--pretend", action="store_true")
    args = p.parse_args()
    deadline = time.monotonic() + args.seconds
    args.out.mkdir(parents=True, exist_ok=True)
    children = []
    for n in range(args.workers):
        pid = os.fork()
        if pid == 0:
            try:
                work(n, args, deadline)
            finally:
                os._exit(0)
        children.append(pid)
    for pid in children:
        os.waitpid(pid, 0)


if __name__ == "__main__":
    main()
