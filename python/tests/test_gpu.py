# SPDX-License-Identifier: MIT
"""Captures against what the caching allocator of an H200 was asked for by the same jobs (gpu-h200.json.gz, record_gpu.py)."""
import gzip
import json
import os

import pytest

torch = pytest.importorskip("torch")
import torch.utils.checkpoint  # noqa: E402,F401

import jobs  # noqa: E402
from reader import peak, sizes  # noqa: E402

with gzip.open(os.path.join(os.path.dirname(__file__), "gpu-h200.json.gz"), "rt") as f:
    GPU = json.load(f)

# Every request and every return, in order, to the byte. The recordings are of 2.11: before 2.9 the same peak, but for 1 part in
# 1000.
EXACT = """
mlp-sgd mlp-momentum mlp-momentum-decay mlp-sgd-loop mlp-sgd-fused mlp-adam mlp-adam-loop mlp-adam-fused mlp-adam-decay
mlp-adam-amsgrad mlp-adamw mlp-adamw-loop mlp-adamw-fused mlp-adagrad mlp-rmsprop mlp-nadam mlp-clip mlp-clip-loop mlp-clip-inf
mlp-accumulate mlp-eval language language-untied language-causal language-masked language-checkpoint
language-checkpoint-reentrant embedding-small embedding-large embedding-3073 embedding-100000 embedding-padding bag-sum bag-mean
bag-max bag-long attention-0 attention-1 attention-6 attention-10 attention-16 attention-42 layer-norm-affine rms-norm
cross-entropy batch-norm-affine linear-3d sum-columns max-pool bilinear scatter-add index-select gather silu softmax
softmax-half""".split()
# The same with cuDNN's attention kernel, which PyTorch prefers on that card since 2.11; those whose widths it does not take go
# to flash.
SINCE_2_11 = """
language-bf16 attention-17 attention-18 attention-23 attention-29 attention-30 attention-34 attention-38 attention-40""".split()
# The same peak, but for 1 part in 1000; some scratch memory in between is not known.
PEAK = """
mlp-amp-bf16 mlp-amp-fp16 language-amp language-amp-masked language-heads encoder encoder-amp operators depthwise attention-13
attention-39 sort""".split()
NEWER = {"rms-norm": (2, 9), "attention-39": (2, 5)}  # the first version with the operator
# Convolutions and recurrent networks: all but the workspaces of cuDNN, which a capture names and does not count.
WORKSPACES = {"resnet": 0, "resnet-amp": 0, "resnet-bf16": 0, "vgg": 0}

VERSION = tuple(int(part) for part in torch.__version__.split("+")[0].split(".")[:2])


def both(traced, name):
    return traced({**jobs.JOBS, **jobs.SHAPES}[name]).events, GPU["jobs"][name]


@pytest.mark.parametrize("name", EXACT + SINCE_2_11)
def test_same_requests_in_the_same_order(traced, name):
    since = (2, 11) if name in SINCE_2_11 else NEWER.get(name, VERSION)
    if VERSION < since:
        pytest.skip(f"another kernel before {since}")
    ours, gpu = both(traced, name)
    if VERSION < (2, 9):
        assert peak(ours, 512) == pytest.approx(peak(gpu, 512), rel=1e-3)
    else:
        assert sizes(ours) == sizes(gpu)


@pytest.mark.parametrize("name", PEAK)
def test_same_peak(traced, name):
    if VERSION < NEWER.get(name, VERSION):
        pytest.skip("not in this version")
    ours, gpu = both(traced, name)
    assert peak(ours, 512) == pytest.approx(peak(gpu, 512), rel=1e-3)


def without_workspaces(events):
    """What is given back at once, right after it was asked for, left out."""
    out, i, listed = [], 0, sizes(events)
    while i < len(listed):
        n = listed[i]
        if n > 0 and listed[i + 1:i + 2] == [-n]:
            i += 2
        elif n > 0 and listed[i + 1:i + 4] == [listed[i + 1], -listed[i + 1], -n]:
            i += 4
        else:
            out.append(n)
            i += 1
    return out


@pytest.mark.parametrize("name", WORKSPACES)
def test_same_but_for_workspaces(traced, name):
    ours, gpu = both(traced, name)
    assert without_workspaces(ours) == without_workspaces(gpu)


@pytest.mark.parametrize("kind", ["lstm", "gru", "rnn"])
def test_what_recurrent_networks_keep(traced, kind):
    for number in (0, 5, 6, 7, 8):
        name = f"{kind}-{number}"
        ours, gpu = both(traced, name)
        kept = [b for a, b, c in zip(sizes(gpu), sizes(gpu)[1:], sizes(gpu)[2:]) if a > 12 << 20 and b > 0 and c == -a]
        assert kept and set(kept) <= set(sizes(ours))


@pytest.mark.parametrize("kind", ["lstm", "gru"])
def test_workspaces_of_two_directions(traced, kind):
    def workspace(events):
        return max(a for a, b, c in zip(sizes(events), sizes(events)[1:], sizes(events)[2:]) if c == -a or b == -a)
    ours, gpu = both(traced, f"{kind}-6")
    assert workspace(ours) == pytest.approx(workspace(gpu), abs=18 << 20)


@pytest.mark.parametrize("moved", ["cuda()", "to('cuda')", "to(device='cuda')"])
def test_layers_whose_shapes_come_with_the_first_batch(capture, moved):
    code, said, f = capture(f"""
    import torch
    from torch import nn
    model = nn.Sequential(nn.LazyConv2d(8, 3), nn.LazyBatchNorm2d(), nn.ReLU(), nn.Flatten(), nn.LazyLinear(1024)).{moved}
    model(torch.randn(2, 3, 16, 16, device="cuda"))
    assert not any(isinstance(p, nn.UninitializedParameter) for p in model.parameters())
    assert all(p.is_cuda for p in [*model.parameters(), *model.buffers()])
    optimizer = torch.optim.Adam(model.parameters(), foreach=False)
    for _ in range(10):
        model(torch.randn(2, 3, 16, 16, device="cuda")).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    """)
    weight = 1024 * 8 * 14 * 14 * 4
    # With its gradient and two moments.
    assert code == 0 and f.header["flags"] == 0 and f.live_at_end() // weight == 4, (said, f.live_at_end())
