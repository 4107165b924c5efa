# SPDX-License-Identifier: MIT
"""Masks from which a loop takes one place after the other."""
import pytest

torch = pytest.importorskip("torch")

DATA_DEPENDENT = 1
TOUR = """
    import torch
    model = torch.nn.Linear(2, 12).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    towns, rows = torch.rand(4, 12, 2, device="cuda"), torch.arange(4, device="cuda")
    for epoch in range(5):
        steps, loss, at = 0, 0, towns[:, 0]
        BEGIN
        LOOP
            scores = model(at)
            town = torch.distributions.Categorical(logits=scores).sample()
            loss = loss + scores.logsumexp(1).sum()
            at = towns[rows, town]
            TAKE
            steps += 1
        print("steps", steps)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
"""
LEFT = "mask = torch.ones(4, 12, device='cuda')"
BEEN = "been = torch.zeros(4, 12, dtype=torch.bool, device='cuda')"


def steps_of(capture, begin, loop, take):
    body = TOUR
    for name, text in (("BEGIN", begin), ("LOOP", loop), ("TAKE", take)):
        body = body.replace(name, text.replace("\n", "\n        "))
    code, said, f = capture(body, options=["-v", "--timeout", "30"])
    assert code == 0, said
    return {int(line.split()[1]) for line in said.splitlines() if line.startswith("steps")}, said, f


@pytest.mark.parametrize("begin, loop, take", [
    (LEFT, "for _ in range(1000):\n    if not mask.byte().any():\n        break", "mask = mask.scatter_(1, town.unsqueeze(1), 0).detach()"),
    (BEEN, "while True:\n    if been.all():\n        break", "been = been.scatter(1, town[:, None], True)"),
    (BEEN, "while not been.all():", "been[rows, town] = True"),
    (LEFT, "while mask.sum() > 0:", "mask[torch.arange(4), town] = 0"),
    (LEFT, "for _ in range(1000):\n    if mask.sum().item() == 0:\n        break",
     "mask = mask.scatter(1, town.unsqueeze(1), torch.zeros(4, 1, device='cuda'))"),
    (LEFT, "for _ in range(1000):\n    if (mask == 0).all():\n        break", "mask[rows, town] = 0"),
])
def test_a_tour_ends_when_every_town_was_visited(capture, begin, loop, take):
    """A thousand steps were run, or six."""
    steps, said, f = steps_of(capture, begin, loop, take)
    assert steps == {12} and f.header["flags"] & DATA_DEPENDENT, said


@pytest.mark.parametrize("begin, loop, take", [
    (BEEN, "while not been.all():", "been = been | torch.nn.functional.one_hot(town, 12).bool()"),
    (BEEN, "while True:\n    if been.all():\n        break", "been = torch.zeros_like(been).scatter(1, town[:, None], True)"),
    (LEFT, "while mask.any():", "mask[rows, town] = 0; mask[:, 0] = 1"),
])
def test_a_loop_of_which_it_is_not_known_ends(capture, begin, loop, take):
    steps, said, f = steps_of(capture, begin, loop, take)
    assert max(steps) <= 12 + 7 and f.header["flags"] & DATA_DEPENDENT, said


def test_what_is_taken_is_no_size(capture):
    """Places that are drawn may be the same."""
    code, said, f = capture("""
        import torch
        model = torch.nn.Linear(64, 64).cuda()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for step in range(5):
            x, mask = torch.rand(4, 256, 64, device="cuda"), torch.ones(4, 256, dtype=torch.bool, device="cuda")
            for _ in range(128):
                mask.scatter_(1, torch.randint(256, (4, 1), device="cuda"), False)
            taken = x[mask]
            print("taken", len(taken))
            model(taken).sum().backward()
            optimizer.step()
    """, options=["-v"])
    assert code == 0 and f.header["flags"] & DATA_DEPENDENT and "taken 1024" in said and "taken 512" not in said, said
