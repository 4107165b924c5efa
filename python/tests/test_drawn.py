# SPDX-License-Identifier: MIT
"""How much a mask takes that was drawn: what is likely at most, where that is known, and all of it elsewhere."""
import re

import pytest

pytest.importorskip("torch")

from reader import peak  # noqa: E402

SCRIPT = """
    import torch
    from torch import nn
    B, L, D, V = 32, 128, 64, 32000
    def tokens(chance, least):
        lengths = torch.randint(least, L + 1, (B,))
        ids = torch.randint(5, V, (B, L))
        ids[torch.arange(L)[None] >= lengths[:, None]] = 0
        labels = torch.where((torch.rand(B, L) < chance) & (ids != 0), ids, -100)
        return ids, labels
    body, head = nn.Embedding(V, D).cuda(), nn.Linear(D, V, bias=False).cuda()
    optimizer = torch.optim.SGD([*body.parameters(), *head.parameters()], lr=0.1)
    for step in range(6):
        ids, labels = [t.cuda() for t in tokens(CHANCE, LEAST)]
        h = body(ids)
        m = MASK
        loss = nn.functional.cross_entropy(head(h[m]), ids[m])
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
"""
ROW = 4 * 32000  # bytes of a token's logits; these, their logarithms and their gradient are there together
WEIGHTS = 3 * 4 * 32000 * 64


def taken(capture, mask, chance=0.15, least=128):
    """(tokens of which logits were taken, what was said)"""
    body = SCRIPT.replace("MASK", mask.replace("\n", "\n        ")).replace("CHANCE", str(chance)).replace("LEAST", str(least))
    code, said, f = capture(body)
    assert code == 0 and f.header["flags"] & 1, said
    return (peak(f.events) - WEIGHTS) / (3 * ROW), said


@pytest.mark.parametrize("mask", [
    "torch.rand(B, L, device='cuda') < 0.15", "(torch.rand(ids.shape, device='cuda') <= 0.15) & (ids != 0)",
    "torch.bernoulli(torch.full((B, L), 0.15, device='cuda')).bool()", "~(torch.rand_like(h[..., 0]) < 0.85)",
    "torch.full((B, L), 0.15, device='cuda')\nm.masked_fill_(ids == 0, 0.0)\nm = torch.bernoulli(m) == 1",
    "torch.empty(B, L, device='cuda').uniform_() > 0.85", "torch.zeros(B, L, device='cuda').bernoulli_(0.15).bool()",
    "(torch.rand(B, L, device='cuda') >= 0.15) == 0",
])
def test_drawn_on_the_gpu(capture, mask):
    """614 are expected; 770 come once in 10^9 times."""
    number, said = taken(capture, mask)
    assert 700 < number < 850 and "as if 768 of 4096 held" in said, (number, said)


@pytest.mark.parametrize("mask, at_most", [
    ("(labels != -100) & (h.mean(-1) > 0)", 1200), ("(h.mean(-1) > 0) & (labels != -100)", 1200),
    ("torch.logical_and(h.mean(-1) > 0, labels != -100)", 1200), ("((labels != -100) & (h.mean(-1) > 0))[:B]", 1200),
    ("torch.zeros(B, L, dtype=torch.bool, device='cuda').scatter_(1, h[..., 0].topk(4)[1], True) & (h.mean(-1) > 0)", 150),
    ("(labels != -100) & (h.mean(-1) > 0) | (ids == 7)", 5000),
])
def test_no_more_than_of_each(capture, mask, at_most):
    """Of a mask that the GPU computes, and one that is known to hold seldom."""
    number, said = taken(capture, mask)
    assert at_most * 0.7 < number < at_most, (number, said)


@pytest.mark.parametrize("mask, at_most", [
    ("(torch.rand(B, 1, device='cuda') < 0.15).expand(B, L)", 2432), ("(torch.rand(B, 1, device='cuda') < 0.15) & (ids != 0)", 2432),
    ("(torch.rand(B, 1, device='cuda') < 0.15).expand(B, 2 * L)[:, :L]", 3328),  # a cut is not seen to leave fewer that are alike
])
def test_drawn_once_for_many(capture, mask, at_most):
    """Of 32 lines 5 are expected, and 19 once in 10^8 times."""
    number, said = taken(capture, mask)
    assert abs(number / at_most - 1) < 0.02 and f"as if {at_most} of 4096 held" in said, (number, said)


@pytest.mark.parametrize("mask", [
    "torch.rand(B, L, device='cuda') < h.mean()", "torch.rand(B, L, device='cuda')\nm = m.mul_(h[..., 0].detach()) < 0.15",
    "torch.rand(B, L, device='cuda') + h[..., 0] < 0.15", "torch.empty(B, L, device='cuda').uniform_(-1, 1) < 0.15",
    "(torch.rand(B, L, device='cuda') < 0.15) | (ids == 3)", "h[..., 0] > 0.85", "torch.randn(B, L, device='cuda') < 0.15",
    "torch.bernoulli(torch.full((B, L), 0.15, device='cuda').masked_fill(ids == 3, 1.0)).bool()",
])
def test_of_what_is_not_known_all_is_taken(capture, mask):
    number, said = taken(capture, mask)
    assert number > 4000 and "the largest possible was taken" in said, (number, said)


@pytest.mark.parametrize("mask", ["labels != -100", "(labels + 100).ne(0)"])
@pytest.mark.parametrize("least", [128, 20])
def test_drawn_on_the_cpu(capture, mask, least):
    """Each row may be as full as the fullest: sentences that are shorter in this batch than in the next."""
    number, said = taken(capture, mask, least=least)
    assert 614 + 6 * 23 < number < 1500 and "held in what was seen" in said, (number, said)


@pytest.mark.parametrize("mask, chance", [("ids != 0", 0.15), ("labels != -100", 1.0),
                                          ("(torch.arange(L)[None] < torch.randint(20, L, (B, 1))).cuda()", 0.15)])
def test_sentences_that_end_somewhere(capture, mask, chance):
    """Those of the next batch may all be longer. What was seen is told."""
    number, said = taken(capture, mask, chance, least=20)
    assert number > 4000 and "the largest possible was taken (" in said and "of 4096 held in what was seen" in said, (number, said)


@pytest.mark.parametrize("each, whole", [("70", True), ("60 + step", False)])
def test_as_many_of_each_row(capture, each, whole):
    """Patches of a picture that are left: what is put into rows again fits. Where they are more each time nobody knows the most."""
    code, said, f = capture(f"""
    import torch
    model = torch.nn.Linear(256, 256).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(4):
        order = torch.rand(16, 256).argsort(1)
        mask = torch.zeros(16, 256, dtype=torch.bool).scatter_(1, order[:, :{each}], True).cuda()
        x = torch.randn(16, 256, 256, device="cuda")
        model(x[mask].view(16, -1, 256)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    """)
    assert code == 0, said
    assert f.header["flags"] & 1 and ("as if 1120 of 4096 held" if whole else "the largest possible was taken (960 to 1008") in said, said


@pytest.mark.parametrize("mask", [
    "torch.rand(B, L, device='cuda') > h.mean().item()", "torch.rand(B, L, device='cuda') < 1 - h.mean().item()",
    "torch.rand(B, L, device='cuda') < 0.1 * h.mean().item()", "~(torch.rand(B, L, device='cuda') < float(h.mean()))",
    "torch.bernoulli(torch.full((B, L), 1 - h.mean().item(), device='cuda')).bool()",
    "torch.zeros(B, L, device='cuda').bernoulli_(0.2 * h.mean().item()).bool()", "torch.rand(B, L, device='cuda') < step / 10",
    "~(torch.rand(B, L, device='cuda') < 0.85).to(torch.uint8)",
])
def test_a_chance_that_is_not_known(capture, mask):
    """A number that came from the GPU, one that is another in each step; and the bits of integers that are turned."""
    number, said = taken(capture, mask)
    assert number > 4000 and "the largest possible was taken" in said, (number, said)


def test_a_chance_that_is_not_named(capture):
    number, said = taken(capture, "torch.zeros(B, L, device='cuda').bernoulli_(0.5).bool()")
    assert "as if 2272 of 4096 held" in said, (number, said)


def test_no_mask_at_all(capture):
    code, said, _ = capture("""
    import torch
    model = torch.nn.Linear(256, 256).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(4):
        x = torch.randn(0, 5, device="cuda")[torch.rand(0, 5, device="cuda") < 0.5]
        one = torch.randn(4, device="cuda")[torch.rand((), device="cuda") < 0.5]
        none = torch.randn(64, device="cuda")[torch.rand(64, device="cuda") < float("nan")]
        (model(torch.randn(16, 256, device="cuda")).sum() + x.sum() + one.sum() + none.sum()).backward()
        optimizer.step()
        optimizer.zero_grad()
    """)
    assert code == 0, said


def test_of_one_line_as_many_are_not_known(capture):
    """Of a batch of one, each as long as another, other lengths are each seen once."""
    code, said, _ = capture("""
    import torch
    model = torch.nn.Linear(256, 256).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(4):
        torch.manual_seed(0)
        mask = torch.rand(1, 4096 + step) < 0.15
        model(torch.randn(1, 4096 + step, 256, device="cuda")[mask.cuda()]).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    """)
    taken_here, seen = map(int, re.search(r"as if (\d+) of \d+ held \((?:\d+ to )?(\d+) of", said).groups())
    assert code == 0 and taken_here > seen, said
