# SPDX-License-Identifier: MIT
"""Captures against figures worked out by hand, a few bytes' worth of every trap."""
import os

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from radrm.capture import Capture  # noqa: E402

from reader import peak  # noqa: E402

SETUP, ITERATION, FORWARD, BACKWARD, STEP, ZERO_GRAD, EVAL = range(7)
GEMM, CONV, ATTENTION = 1, 2, 3
DATA_DEPENDENT = 1

# One Linear(100, 50) on a batch of 8, fp32: bytes of its weights, its bias, a batch, an output
W, B, X, Y = 100 * 50 * 4, 50 * 4, 8 * 100 * 4, 8 * 50 * 4


def linear(optimizer=None, each=None, relu=True):
    def setup():
        model = nn.Sequential(nn.Linear(100, 50), *([nn.ReLU()] if relu else [])).cuda()
        x = torch.randn(8, 100, device="cuda")
        learns = optimizer(model.parameters()) if optimizer else None

        def step():
            if learns:
                learns.zero_grad()
            loss = model(x).sum()
            loss.backward()
            if each:
                each(model, loss)
            if learns:
                learns.step()
        return step
    return setup


def test_linear_relu_sgd_momentum(traced):
    f = traced(linear(lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9)))
    asked = [e for e in f.events if e > 0]
    assert asked[:3] == [W, B, X]
    assert f.phase(0, FORWARD)[:2] == [Y, Y]        # the product, then relu's result; relu keeps its result, not the product
    assert f.phase(0, FORWARD)[2:] == [-Y, 4]       # so that dies at once; the sum
    backward = f.phase(0, BACKWARD)
    assert [n for n in backward if n > 0] == [4, Y, W, B]   # of the sum (expanded as a view), of relu, weights and bias
    assert f.phase(0, STEP) == [W, B, -4]           # momentum buffers, in the first step; the loss dies with the function
    assert f.phase(1, STEP) == [-4]                 # foreach works in place
    assert [n for n in f.phase(1, ZERO_GRAD)] == [-W, -B]
    steady = W + B + X + W + B                      # parameters, batch, buffers
    assert peak(f.events) == f.peak_bytes
    assert f.peak_bytes >= steady + W + B


def test_header(traced):
    f = traced(linear(torch.optim.AdamW))
    h = f.header
    assert (h["torch"], h["model"], h["optimizer"], h["params"], h["batch"]) == (
        torch.__version__, "Sequential", "adamw", 5050, 8)
    assert (h["flags"], h["growth"], h["precision"]) == (0, 0, "fp32")
    assert [p for _, p in f.marks].count(ITERATION) == 3


def test_growth(traced):
    kept = []
    f = traced(linear(torch.optim.SGD, each=lambda model, loss: kept.append(loss)))
    assert f.header["growth"] >= 512


def test_a_loss_that_is_kept_is_a_block(traced):
    kept = []
    f = traced(linear(torch.optim.SGD, each=lambda model, loss: kept.append(loss.detach())))
    assert f.header["growth"] == 512


def test_nothing_is_computed_on_the_gpu_and_nothing_is_left(traced):
    def setup():
        big = torch.zeros(1 << 38, dtype=torch.uint8, device="cuda")    # 256 GiB
        return lambda: big.add_(1)
    assert traced(setup).events == [1 << 38]


def test_frees_follow_reference_counts(traced):
    def setup():
        def step():
            a = torch.empty(100, device="cuda")
            b = torch.empty(200, device="cuda")
            view = a[:10]
            del a
            c = torch.empty(300, device="cuda")
            del view, b, c
        return step
    assert traced(setup).iteration(0) == [400, 800, 1200, -400, -800, -1200]


def test_saved_through_nobodys_link(tmp_path):
    (tmp_path / "other").write_bytes(b"theirs")
    (tmp_path / f"x.radcap.{os.getpid()}.tmp").symlink_to(tmp_path / "other")
    Capture(b"ours", [], 0, 0).save(tmp_path / "x.radcap")
    assert (tmp_path / "x.radcap").read_bytes() == b"ours"
    assert (tmp_path / "other").read_bytes() == b"theirs"


def test_parameters_without_a_module(capture):
    code, said, f = capture("""
        import torch
        a = torch.randn(64, 64, device="cuda", requires_grad=True)
        optimizer = torch.optim.SGD([a], lr=0.1)
        for _ in range(100):
            a.square().sum().backward()
            optimizer.step()
            optimizer.zero_grad()
    """)
    assert code == 0 and [p for _, p in f.marks].count(ITERATION) == 3 and f.steps == 100, said
