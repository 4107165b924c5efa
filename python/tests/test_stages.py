# SPDX-License-Identifier: MIT
"""Steps of a run that has several trainings, one behind another."""
import textwrap

import pytest

torch = pytest.importorskip("torch")

BEGIN = """
import time, torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
loader = DataLoader(TensorDataset(torch.randn(40, 4)), batch_size=4)
one, other = nn.Linear(4, 4).cuda(), nn.Linear(4, 400).cuda()
optimizer, second = torch.optim.Adam(one.parameters()), torch.optim.SGD(other.parameters(), lr=0.1)
def update(model=one, optimizer=optimizer):
    optimizer.zero_grad()
    model(torch.randn(4, 4).cuda()).sum().backward()
    optimizer.step()
def train(model, epochs, batches):
    own = torch.optim.Adam(model.parameters())
    for epoch in range(epochs):
        for n in range(batches): update(model, own)
def step(): update()
"""
RUNS = {
    "a function for both": ("train(one, 3, 20); train(other, 5, 7)", 95),
    "three": ("train(one, 3, 20); train(other, 5, 7); train(one, 1, 5)", 100),
    "the same optimizer": ("""
        for n in range(100): update()
        for n in range(50): update()
        """, 150),
    "another optimizer": ("""
        for epoch in range(4):
            for x in loader: update()
        for epoch in range(6):
            for x in loader: update(other, second)
        """, 100),
    "an epoch of one, then one of the other": ("""
        for epoch in range(5):
            for x in loader: update()
            for x in range(8): update(other, second)
        """, 90),
    "a function that is an epoch of either": ("""
        def epoch(model, own):
            for x in loader: update(model, own)
        for n in range(5): epoch(one, optimizer); epoch(other, second)
        """, 100),
    "an epoch of each of several": ("""
        models = [nn.Linear(4, 4).cuda() for _ in range(3)]
        own = [torch.optim.Adam(model.parameters()) for model in models]
        for epoch in range(5):
            for n in range(3):
                for x in loader: update(models[n], own[n])
        """, 150),
    "each batch is for all of several": ("""
        models = [nn.Linear(4, 4).cuda() for _ in range(3)]
        own = [torch.optim.Adam(model.parameters()) for model in models]
        for epoch in range(5):
            for x in loader:
                for n in range(3): update(models[n], own[n])
        """, 50),
    "one of them has more": ("""
        for epoch in range(5):
            for x in loader: update()
            for x in range(8): update(other, second)
            for x in loader: update()
        """, 0),
    "several of one for one of the other": ("""
        for n in range(30):
            for _ in range(5): update()
            update(other, second)
        """, 30),
    "rounds in which nobody sees the one alone": ("""
        for n in range(30):
            for _ in range(4): update()
            for _ in range(2): update(other, second)
        """, 0),
    "a function called like a method of optimizers": ("""
        for n in range(100): step()
        for n in range(50): step()
        """, 150),
    "batches that are summed up": ("""
        for x in loader: update()
        for epoch in range(3):
            for n, x in enumerate(loader):
                other(x[0].cuda()).sum().backward()
                if (n + 1) % 5 == 0: second.step()
        """, 16),
    "the second is left": ("""
        for n in range(10): update()
        seen = 0
        while True:
            update()
            seen += 1
            if seen >= 30: break
        """, 40),
    "the second ends where nobody knows": ("""
        for n in range(10): update()
        loss = 9
        while loss > 1e-3: loss = one(torch.randn(4, 4).cuda()).sum().item() / 2; update()
        """, 0),
    "a loop that nobody follows": ("""
        def run():
            step = 0
            while True:
                for x in loader:
                    update()
                    step += 1
                    if step >= 35: return step
        run()
        """, 35),
    "a callback with a loop": ("""
        import sys
        sys.path.append("site-packages")
        from engines import Trainer
        def twice():
            for n in range(2): update()
        Trainer(twice, 3).train()
        """, 30),
    "one in a loop, one behind": ("""
        for fold in range(3): train(one, 2, 4)
        train(other, 1, 6)
        """, 30),
    "a second with a model in each round": ("""
        for n in range(30): update()
        for n in range(50):
            small = nn.Linear(4, 4).cuda()
            own = torch.optim.Adam(small.parameters())
            for n in range(100): update(small, own)
        """, 5030),
    "under what reads the command line in a loop": ("""
        import sys
        sys.path.append("site-packages")
        import fire
        def both(): train(one, 3, 20); train(other, 5, 7)
        fire.Fire(both)
        """, 95),
    "by hand": ("""
        for n in range(30):
            one(torch.randn(4, 4).cuda()).sum().backward()
            with torch.no_grad():
                for p in one.parameters(): p -= 0.1 * p.grad
        """.replace("one", "free"), 30),
    "by hand, twice a round": ("""
        for n in range(30):
            free(torch.randn(4, 4).cuda()).sum().backward()
            free(torch.randn(4, 4).cuda()).sum().backward()
        """, 0),
    "by hand, a second": ("""
        for n in range(30): free(torch.randn(4, 4).cuda()).sum().backward()
        for epoch in range(3):
            for x in loader: free(x[0].cuda()).square().sum().backward()
        """, 60),
}


ENGINE = """
class Trainer:
    def __init__(self, update, epochs): self.update, self.epochs = update, epochs
    def train(self, batches=5):
        for epoch in range(self.epochs):
            for n in range(batches): self.update()
"""


@pytest.fixture(autouse=True)
def engines(tmp_path):
    (tmp_path / "site-packages").mkdir()
    (tmp_path / "site-packages/engines.py").write_text(ENGINE)
    (tmp_path / "site-packages/fire.py").write_text("def Fire(run, left=1):\n    while left:\n        run()\n        left -= 1\n")


@pytest.mark.parametrize("name", RUNS)
def test_steps(capture, name):
    body, steps = RUNS[name]
    begin = BEGIN if "hand" not in name else BEGIN[:BEGIN.index("optimizer, second")] + "free = nn.Linear(4, 4).cuda()\n"
    code, said, f = capture(begin + textwrap.dedent(body))
    assert code == 0 and f.steps == steps, said


@pytest.mark.parametrize("body, steps", [("t = Trainer(update, 3)\nt.train()\nt.train(9)", 42),
                                         ("first, last = Trainer(update, 3), Trainer(update, 2)\nfirst.train()\nlast.train()", 25)])
def test_a_librarys_training_twice(capture, body, steps):
    code, said, f = capture(f"{BEGIN}\nimport sys\nsys.path.append('site-packages')\nfrom engines import Trainer\n{body}\n")
    assert code == 0 and f.steps == steps, said


def test_one_that_fails_before_it_was_seen(capture):
    code, said, f = capture(f"{BEGIN}\nfor n in range(2): update()\nraise ValueError('no data')\nfor n in range(20): update()\n")
    assert code == 3 and f.steps == 0 and "cut short after 2 steps: ValueError: no data" in said, said


def test_a_second_that_takes_longer(capture):
    _, said, f = capture(f"{BEGIN}\ntrain(one, 1, 20); train(nn.Sequential(*(nn.Linear(4, 4).cuda() for _ in range(40))), 1, 20)")
    assert f.steps == 40 and f.beside > 60, said
    _, said, f = capture(f"{BEGIN}\ntrain(nn.Sequential(*(nn.Linear(4, 4).cuda() for _ in range(40))), 1, 20); train(one, 1, 20)")
    assert f.steps == 40 and f.beside == 0 and "2 trainings one behind another, of 20, 20 steps" in said, said


def test_clocks_one_behind_another(capture):
    _, said, f = capture(BEGIN + """
for seconds in (600,):
    began = time.time()
    while time.time() - began < seconds: step()
began = time.time()
while time.time() - began < 300: step()
""")
    assert f.steps == f.limit == 0 and said.count("the run ends by the clock: how many steps it has is not known") == 2, said
