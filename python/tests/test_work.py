# SPDX-License-Identifier: MIT
"""What a capture says of the work of one step: counted by hand for jobs small enough for that."""
import pytest
import torch
from torch import nn

from radrm import capture
from radrm.capture import fileformat as ff
from reader import File


def load(setup, **options):
    return File(capture.trace(setup, timeout=60, **options).data)


def training(model, batch, *, optimizer=lambda p: torch.optim.SGD(p, lr=0.1), autocast=None, rounds=1):
    """A setup: mean squares of what the model makes of a batch."""
    def setup():
        net, x = model().to("cuda"), torch.zeros(batch, device="cuda")
        steps = optimizer(net.parameters())

        def step():
            steps.zero_grad()
            for _ in range(rounds):
                with torch.autocast("cuda", dtype=autocast or torch.bfloat16, enabled=autocast is not None):
                    loss = net(x).float().pow(2).mean()
                loss.backward()
            steps.step()
        return step
    return setup


def of(f, *classes):
    return [k for k in f.kernels if k[0] in classes]


def total(kernels, figure):
    """Of (class, unit, layout, count, flops, bytes, blocks, depth)."""
    return sum(k[figure] for k in kernels)


def test_products_of_a_linear_layer():
    f = load(training(lambda: nn.Linear(256, 512, bias=False), (64, 256)))
    products = of(f, ff.PRODUCT)
    assert total(products, 3) == 2  # forward and the gradient of the weights: nobody asks for that of the input
    assert total(products, 4) == 2 * 2 * 64 * 256 * 512
    assert total(products, 5) == 2 * 4 * (64 * 256 + 256 * 512 + 64 * 512)
    assert {k[1] for k in products} == {ff.SINGLE}
    assert sorted(k[7] // k[3] for k in products) == [64, 256]


def test_units_follow_the_precision():
    try:
        torch.set_float32_matmul_precision("high")
        assert {k[1] for k in of(load(training(lambda: nn.Linear(64, 64), (8, 64))), ff.PRODUCT)} == {ff.TF32}
    finally:
        torch.set_float32_matmul_precision("highest")
    f = load(training(lambda: nn.Linear(64, 64), (8, 64), autocast=torch.bfloat16))
    assert {k[1] for k in of(f, ff.PRODUCT)} == {ff.HALF}


def test_autocast_has_more_kernels():
    plain, cast = (load(training(lambda: nn.Linear(64, 64), (8, 64), autocast=dtype)) for dtype in (None, torch.float16))
    assert total(of(cast, ff.POINTWISE), 3) > total(of(plain, ff.POINTWISE), 3)


@pytest.mark.parametrize("groups,classes", [(1, (ff.CONV_OUT, ff.CONV_INPUT, ff.CONV_WEIGHTS)),
                                            (32, (ff.DEPTHWISE, ff.DEPTHWISE, ff.DEPTHWISE_WEIGHTS))])
def test_passes_of_a_convolution(groups, classes):
    def model():
        return nn.Sequential(nn.Conv2d(32, 32, 1, bias=False), nn.Conv2d(32, 32, 3, padding=1, groups=groups, bias=False))
    f = load(training(model, (4, 32, 10, 10)))
    flops = 2 * 400 * 32 * 32 * 9 // groups
    small = 2 * 400 * 32 * 32
    assert total(of(f, *classes), 4) == 3 * flops + (2 * small if groups == 1 else 0)
    assert all(k[1] == ff.TF32 for k in of(f, *classes))


def test_optimizers_by_form():
    def model():
        return nn.Sequential(*(nn.Linear(16, 16) for _ in range(10)))

    def adam(**form):
        return load(training(model, (4, 16), optimizer=lambda p: torch.optim.Adam(p, **form)))
    loop, foreach, fused = adam(foreach=False), adam(foreach=True), adam(fused=True)
    assert loop.host["updates"] > 20 * 5 and loop.host["listed"] == 0
    assert foreach.host["updates"] < 20 and foreach.host["listed"] >= 20 * 5
    assert fused.host["updates"] < 5 and total(of(fused, ff.MANY), 3) < total(of(foreach, ff.MANY), 3)
    assert loop.host["parameters"] == foreach.host["parameters"] == 20


def test_two_rounds_are_twice_the_work():
    once, twice = (load(training(lambda: nn.Linear(64, 64), (8, 64), rounds=n)) for n in (1, 2))
    assert total(of(twice, ff.PRODUCT), 4) == 2 * total(of(once, ff.PRODUCT), 4)
    assert twice.host["backward"] >= 2 * once.host["backward"]
    assert twice.host["updates"] == once.host["updates"]


def test_waits_and_copies_are_the_hosts():
    def setup():
        net, x = nn.Linear(8, 8).to("cuda"), torch.zeros(4, 8)

        def step():
            loss = net(x.to("cuda")).sum()
            loss.backward()
            loss.item()
        return step
    f = load(setup)
    assert (f.host["waits"], f.host["transfers"], f.host["transferred"]) == (1, 1, 4 * 8 * 4)


def test_views_are_no_kernels():
    f = load(training(lambda: nn.Sequential(nn.Unflatten(1, (2, 8)), nn.Flatten(), nn.Linear(16, 16, bias=False)), (4, 16)))
    more = load(training(lambda: nn.Sequential(nn.Linear(16, 16, bias=False)), (4, 16)))
    assert f.host["views"] > more.host["views"]
    assert total(f.kernels, 3) == total(more.kernels, 3)


def test_steps_of_a_recurrent_network():
    def setup():
        net, x = nn.LSTM(16, 32, 2, batch_first=True).to("cuda"), torch.zeros(4, 7, 16, device="cuda")
        return lambda: net(x)[0].sum().backward()
    f = load(setup)
    assert total(of(f, ff.RECURRENT), 3) == 2 * 7 * 2  # forward and backward, 7 steps, 2 layers


def test_a_packed_batch_takes_as_many_steps_as_its_longest_sequence():
    def setup(lengths):
        net, x = nn.LSTM(16, 32, 2, batch_first=True).to("cuda"), torch.zeros(4, 7, 16, device="cuda")
        return lambda: net(nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True))[0].data.sum().backward()
    whole, ragged = (of(load(lambda: setup(lengths)), ff.RECURRENT) for lengths in ([7, 7, 7, 7], [7, 5, 3, 1]))
    assert total(whole, 3) == total(ragged, 3) == 2 * 7 * 2
    assert total(ragged, 4) == pytest.approx(total(whole, 4) * 16 / 28, rel=0.05)


def test_entries_stay_within_bounds(monkeypatch):
    from radrm.capture import limits
    from radrm.capture.work import Tally
    work = Tally()
    for n in range(1, 3000):
        work.add(n % 3, n, n * n * 7, n // 5)
    sums = [sum(e[k] for e in work.entries()) for k in range(3, 8)]
    monkeypatch.setattr(limits, "MAX_KERNELS", 5)
    few = work.entries()
    assert len(few) <= 5 and [sum(e[k] for e in few) for k in range(3, 8)] == sums


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_products_of_attention(dtype, causal):
    """Two forward and five backward; half of them where the mask is causal."""
    def setup():
        x = torch.zeros(2, 4, 256, 64, device="cuda", dtype=dtype, requires_grad=True)
        return lambda: nn.functional.scaled_dot_product_attention(x, x, x, is_causal=causal).sum().backward()
    f = load(setup)
    whole = 2 * 2 * 4 * 256 * 256 * 64
    assert total(of(f, ff.ATTENTIVE), 3) == 2
    assert total(of(f, ff.ATTENTIVE), 4) == 7 * whole // (2 if causal else 1)


TRAINING = """
    import torch
    from torch import nn
    from torch.utils.data import DataLoader
    model, teacher = nn.Linear(64, 64).cuda(), nn.Linear(64, 256).cuda().eval()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader, other = DataLoader(torch.randn(8 * ACCUMULATE, 64), batch_size=4), DataLoader(torch.randn(70000, 64), batch_size=10000)
    def evaluate(over=other):
        model.eval()
        for x in over:
            model(x.cuda()).sum().item()
        model.train()
    for epoch in range(50):
        for i, x in enumerate(loader):
            INSIDE
            x = x.cuda()
            model(x).sum().backward()
            if (i + 1) % ACCUMULATE == 0:
                optimizer.step()
                optimizer.zero_grad()
        BETWEEN
"""


@pytest.fixture
def trained(capture):
    def run(inside="pass", between="pass", accumulate=1):
        code, said, f = capture(TRAINING.replace("INSIDE", inside).replace("BETWEEN", between).replace("ACCUMULATE", str(accumulate)))
        assert code == 0, said
        return f
    return run


@pytest.mark.parametrize("where", [
    {"between": "with torch.no_grad(): evaluate()"},
    {"between": "it = iter(other)\n        with torch.inference_mode(): evaluate(it)"},
    {"inside": "if i: torch.no_grad()(evaluate)()"},
    {"accumulate": 3, "between": "torch.no_grad()(evaluate)()"},
    {"between": "[p.cpu() for p in teacher.parameters()]; torch.no_grad()(evaluate)(); torch.ones(10000, 64).cuda().sum().item()"},
])
def test_an_evaluation_is_no_part_of_a_step(trained, where):
    plain, f = trained(accumulate=where.get("accumulate", 1)), trained(**where)
    assert (f.kernels, f.host, f.steps) == (plain.kernels, plain.host, plain.steps) and plain.steps == 100
    assert f.requests > plain.requests and 10000 * 64 * 4 in f.events  # but what it asks for counts


def test_an_evaluation_with_gradients_that_nobody_takes(trained):
    plain, f = trained(), trained(between="evaluate()")
    assert of(f, ff.PRODUCT) == of(plain, ff.PRODUCT) and f.steps == plain.steps


@pytest.mark.parametrize("accumulate", [1, 8])
def test_what_every_step_does_without_gradients_is_part_of_it(trained, accumulate):
    def products(f):
        return total(of(f, ff.PRODUCT), 4)
    f = trained(inside="with torch.no_grad(): teacher(x.cuda())", accumulate=accumulate)
    assert products(f) - products(trained(accumulate=accumulate)) == accumulate * 2 * 4 * 64 * 256
