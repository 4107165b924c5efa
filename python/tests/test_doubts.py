# SPDX-License-Identifier: MIT
"""What is asked of values that only a GPU knows, and decides nothing of what runs: it is no doubt. Beside each what does decide."""
import pytest

pytest.importorskip("torch")

DATA_DEPENDENT = 1

SCRIPT = """
    import collections, logging, sys, torch
    from torch import nn
    model = nn.Linear(1024, 1024, bias=False).to("cuda")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    logger, bins, counts, kept = logging.getLogger(), {i: 0 for i in range(10)}, [0] * 10, {}
    def letter(token):
        return str(chr(max(32, token)))
    def part(x, token):
        return x[:max(2, token)]
    for n in range(9):
        x = torch.randn(4, 1024, device="cuda")
        y = model(x)
        words, mask, loss = y.argmax(-1), y > 0, y.mean()
        BODY
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    print({i: bins[i] / 2 for i in range(10)}, counts[3])
"""


def doubts(capture, body):
    code, said, f = capture(SCRIPT.replace("BODY", body.replace("\n", "\n        ")))
    assert code == 0, said
    return bool(f.header["flags"] & DATA_DEPENDENT), said


@pytest.mark.parametrize("body, doubt", [
    ("print(''.join(map(letter, words)))", False), ("part(x, words[0])", True),
    ("print('high' if loss > 3 else 'low')", False), ("y = model(x) if loss > 3 else x", True),
    ("print([w for w in words if w > 3])", False), ("y = [model(x) for w in words if w > 3]", True),
    ("logger.info('%d of %s', loss.item(), 'high' if loss > 3 else 'low')", False),
    ("logger.info(model(x) if loss > 3 else 0)", True),
    ("kept.update(a=model(x) if loss > 3 else 0)", True),
])
def test_text(capture, body, doubt):
    found, said = doubts(capture, body)
    assert found == doubt, said


@pytest.mark.parametrize("body, doubt", [
    ("assert torch.allclose(x, y)", False), ("assert torch.equal(x, y), 'other'", False), ("assert (x >= 0).all()", False),
    ("assert not torch.isnan(loss)", False), ("assert loss.item() > 0 and \\\n    not loss.item() == 7", False),
    ("if not torch.allclose(x, y): raise ValueError", False),
    ("assert not torch.allclose(x, y)", False), ("assert loss.item() in (3, 4)", False),
    ("torch.testing.assert_close(x, y)", False),
    ("if not torch.allclose(x, y):\n    print('other')\n    raise ValueError", False),
    ("if torch.isnan(loss) or loss > 1e6:\n    print('other')\n    sys.exit(1)", False),
    ("if torch.allclose(x, y): model(x)", True), ("if torch.equal(x, y): model(x)", True), ("if not torch.equal(x, y):\n    model(x)\n    raise ValueError", False),
])
def test_checks_that_a_run_passes(capture, body, doubt):
    found, said = doubts(capture, body)
    assert found == doubt, said
