# SPDX-License-Identifier: MIT
"""Steps that differ in size, and no batch or loader says so."""
import pytest

torch = pytest.importorskip("torch")

from reader import peak  # noqa: E402

VARIABLE_SHAPES = 4
SCRIPT = """
    import itertools, torch
    layer = torch.nn.Linear(64, 64, bias=False)
    numbers = itertools.cycle(NUMBERS)

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = layer

        def forward(self, x):
            return self.layer(x.repeat(next(numbers), 1)).tanh()
    model = Model().cuda()
    optimizer = torch.optim.Adam(model.parameters())
    for step in range(5000):
        optimizer.zero_grad()
        model(torch.randn(16, 64, device="cuda")).sum().backward()
        optimizer.step()
"""
LARGEST = 2000 * 16 * 64 * 4


@pytest.mark.parametrize("numbers", ["[400, 300, 500, 450, 350, 600] * 3 + [2000]", "[400, 800, 402, 801, 401, 600, 500] * 2 + [2000]"],
                         ids=["at once", "that seem to be two"])
def test_of_many_sizes(capture, numbers):
    code, said, f = capture(SCRIPT.replace("NUMBERS", numbers))
    assert code == 0 and f.header["flags"] & VARIABLE_SHAPES and "steps differ in size" in said, said
    assert f.steps == 5000 and peak(f.events, 512) > 2 * LARGEST
    assert 20 < [p for _, p in f.marks].count(1) < 40


def test_of_a_largest_that_comes_early(capture):
    """It is believed once enough behind it took no more."""
    code, said, f = capture(SCRIPT.replace("NUMBERS", "[400, 300, 2000, 450, 350, 600, 1000]"))
    assert code == 0 and f.header["flags"] & VARIABLE_SHAPES and peak(f.events, 512) > 2 * LARGEST, said
    assert [p for _, p in f.marks].count(1) < 22


@pytest.mark.parametrize("numbers, most", [("[400, 800]", 7), ("[400]", 6)])
def test_of_few_sizes(capture, numbers, most):
    """As those of a critic and a generator are, in turn."""
    code, said, f = capture(SCRIPT.replace("NUMBERS", numbers))
    assert code == 0 and not f.header["flags"] & VARIABLE_SHAPES and f.steps == 5000, said
    assert [p for _, p in f.marks].count(1) < most


def test_of_sizes_that_grow_with_each_step(capture):
    """Something is kept of each: there is no largest."""
    code, said, f = capture(SCRIPT.replace("NUMBERS", "[400]").replace("optimizer.zero_grad()", """optimizer.zero_grad()
        kept = [*(kept if step else []), torch.zeros(1 << 16, device="cuda")]"""))
    assert code == 0 and not f.header["flags"] & VARIABLE_SHAPES and "each step leaves" in said, said
