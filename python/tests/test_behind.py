# SPDX-License-Identifier: MIT
"""What a script does with its model behind the loops of its training."""
import pytest

torch = pytest.importorskip("torch")

from reader import peak  # noqa: E402

TRAINED = """
    import sys
    import torch
    from torch import nn
    from torch.utils.data import DataLoader, TensorDataset
    model = nn.Sequential(*[nn.Linear(512, 512, bias=False) for _ in range(4)]).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    rows = TensorDataset(torch.randn(800, 512))
    learn, rest = DataLoader(rows, batch_size=8), DataLoader(rows, batch_size=800)
    loss_of = nn.MSELoss()

    def evaluate(n):
        with torch.no_grad():
            return model(torch.randn(n, 512, device="cuda")).sum().item()

    def step(x):
        optimizer.zero_grad()
        model(x.cuda()).sum().backward()
        optimizer.step()
        print("step", flush=True)
"""
EPOCHS = "for epoch in range(30):\n        for x, in learn: step(x)\n        "
STEPS = "for n in range(3000):\n        step(torch.randn(8, 512))"
WHILE = "n = 0\n    while n < 3000:\n        step(torch.randn(8, 512)); n += 1"
RETURNED = """def train():
        n = 0
        while True:
            for x, in learn:
                step(x); n += 1
                if n >= 3000: return VALUE
    train()"""
LARGE = 3 * 4000 * 512 * 4  # what an evaluation of so many rows takes at least: beside weights, and gradients


def iterations(f):
    return [phase for _, phase in f.marks].count(1)


@pytest.mark.parametrize("training", [
    EPOCHS + "print(epoch)", EPOCHS + "evaluate(2000)", EPOCHS + "if epoch % 5 == 0: evaluate(2000)",
    EPOCHS + "if epoch % 5 != 0: continue\n        evaluate(2000)", STEPS, STEPS + "\n        if n % 500 == 0: evaluate(2000)", WHILE,
    WHILE.replace("n < 3000", "True") + "\n        if n >= 3000: break", "for x, in learn: step(x)", RETURNED.replace("VALUE", ""),
    EPOCHS + "if epoch == 10: optimizer, learn = torch.optim.SGD(model.parameters(), lr=0.01), DataLoader(rows, batch_size=16)",
    "def main():\n        for n in range(3000):\n            step(torch.randn(8, 512))\n    main()",
], ids=["epochs", "each", "every five", "but for four", "steps", "every so many", "while", "while true", "one pass", "returned", "turns",
        "function"])
def test_a_larger_evaluation_behind_the_loops(capture, training):
    """It is reached after a few steps more; how many there are, and what one is, is what it was without it."""
    code, said, f = capture(TRAINED + "    " + training + "\n    evaluate(4000)", options=["-v"])
    _, _, before = capture(TRAINED + "    " + training)
    assert code == 0 and "not seen" not in said and f.header["flags"] == 0 and peak(f.events) >= LARGE > peak(before.events), said
    assert said.count("step\n") <= 20 and (f.steps, f.beside, f.kernels) == (before.steps, before.beside, before.kernels)


@pytest.mark.parametrize("body", [
    "model.eval(); y = model(torch.randn(4000, 512).cuda())", "with torch.no_grad(): y = net(torch.randn(4000, 512).cuda())",
    "test_it(model)", "def quiet():\n        with torch.no_grad(): torch.empty(4000, 3 * 512, device='cuda')\n    quiet()",
    "[torch.empty(4000, 3 * 512, device='cuda') for x, in rest]", "seen(data=rest)",
    "torch.optim.swa_utils.update_bn(DataLoader(torch.randn(4000, 512), batch_size=4000), "
    "nn.Sequential(model, nn.BatchNorm1d(512).cuda()), 'cuda')", "if 'x' not in sys.argv: sample(4)",
    "loss_of(torch.randn(4000, 512).cuda(), torch.randn(4000, 512).cuda())",
], ids=["model", "block", "name", "function", "comprehension", "given a loader", "a library given one", "samples", "loss"])
def test_what_shows_an_evaluation(capture, body):
    more = "\n    def test_it(net): torch.empty(4000, 3 * 512, device='cuda')\n    seen = sample = test_it\n    def seen(data): " \
           "[torch.empty(4000, 3 * 512, device='cuda') for x, in data]\n    net = model\n    "
    code, said, f = capture(TRAINED + more + EPOCHS + "\n    " + body)
    assert code == 0 and f.header["flags"] == 0 and peak(f.events) >= LARGE, said


@pytest.mark.parametrize("training", [STEPS + "\n    else:\n        evaluate(4000)",
                                      "try:\n        " + STEPS.replace("\n", "\n    ") + "\n    finally:\n        evaluate(4000)"],
                         ids=["else", "finally"])
def test_what_belongs_to_the_loop_is_behind_it(capture, training):
    code, said, f = capture(TRAINED + "    " + training)
    assert code == 0 and f.header["flags"] == 0 and peak(f.events) >= LARGE, said


@pytest.mark.parametrize("body", ["print('done')", "torch.save(model, 'x.pt')", "def evaluate_again(): evaluate(4000)",
                                  "print(model, rest)", "model.cpu().eval()"])
def test_what_shows_none(capture, body):
    code, said, f = capture(TRAINED + "    " + EPOCHS + "\n    " + body)
    assert code == 0 and iterations(f) == 3, said


@pytest.mark.parametrize("training", [RETURNED.replace("VALUE", "n"), STEPS + "\n    raise ValueError('short')",
                                      STEPS + "\n        if n == 2: raise ValueError('short')"])
def test_what_cannot_be_reached_is_told(capture, training):
    """It is a doubt."""
    body = TRAINED + "    " + training + "\n    evaluate(4000)"
    code, said, f = capture(body)
    line = len(body.splitlines())
    assert code == 0 and f"train.py:{line}: what runs behind the training was not seen" in said and f.header["flags"] == 128, said
    assert iterations(f) <= 6


def test_a_library_that_evaluates_and_trains(capture, tmp_path):
    """What is behind its training is reached, too, where it evaluates itself."""
    from test_evaluations import TRAINER, textwrap
    (tmp_path / "transformers").mkdir()
    stops = TRAINER.replace("self.optimizer.step()\n", "self.optimizer.step()\n"
                            "                    if self.control.should_training_stop: return\n")
    (tmp_path / "transformers" / "__init__.py").write_text(textwrap.dedent(stops.replace(
        "self.model =", "self.control = types.SimpleNamespace(should_training_stop=False)\n            self.model =")))
    code, said, f = capture("from transformers import Trainer; import torch; trainer = Trainer('epoch'); trainer.train()\n"
                            "with torch.no_grad(): trainer.model(torch.randn(4000, 3 * 512).view(-1, 512).cuda())")
    assert code == 0 and f.steps == 150 and f.beside > 0 and f.header["flags"] == 0 and peak(f.events) >= LARGE, said


def test_a_picture_of_all_epochs_ends_nothing(capture, tmp_path, monkeypatch):
    """Fewer were run than it has places for. A library of that name stands for matplotlib."""
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "matplotlib").mkdir()
    (tmp_path / "matplotlib" / "__init__.py").touch()
    (tmp_path / "matplotlib" / "axes.py").write_text(
        "class Axes:\n    def plot(self, x, y, label=''):\n        if len(x) != len(y):\n            raise ValueError((len(x), len(y)))\n"
        "        return [x]\n    scatter = bar = errorbar = plot\n")
    code, said, f = capture(TRAINED + "    from matplotlib.axes import Axes\n    losses = []\n    for epoch in range(30):\n        "
                            "for x, in learn: step(x)\n        losses.append(1)\n    line, = Axes().plot(range(30), losses, label='x')\n"
                            "    Axes().bar(range(1, 31), losses)\n    evaluate(4000)")
    assert code == 0 and "not seen" not in said and f.header["flags"] == 0 and peak(f.events) >= LARGE, said
