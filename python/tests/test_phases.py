# SPDX-License-Identifier: MIT
"""How many steps a script will make whose rounds are not alike: stages, phases, one loop after the other, grids. Unknown (0) is better than
what the first round had, times all of them."""
import textwrap

import pytest

torch = pytest.importorskip("torch")
from test_passes import BEGIN  # noqa: E402

STAGES = {
    "one trains, the other does not": ("""
        for phase in ("train", "test"):
            if phase == "train":
                for epoch in range(6):
                    for x in loader: update(x)
            else:
                for x in loader: model(x.cuda())
        """, 114),
    "a call says that nothing learns": ("""
        def one(x, learns):
            with torch.set_grad_enabled(learns): loss = model(x.cuda()).sum()
            if learns:
                loss.backward()
                optimizer.step()
        def epoch(batches, learns=True):
            for x in batches: one(x, learns)
        for n in range(6):
            epoch(loader)
            epoch(loader, learns=False)
        """, 114),
    "a call says that another learns": ("""
        def epoch(batches, learns=True):
            for x in batches:
                if learns: update(x)
        for n in range(6):
            epoch(loader)
            epoch(other, learns=n > 3)
        """, 0),
    "in each epoch": ("""
        for epoch in range(6):
            for phase in ["train", "val"]:
                for x in loader:
                    with torch.set_grad_enabled(phase == "train"):
                        if phase == "train": update(x)
                        else: model(x.cuda())
        """, 114),
    "each has a loop of its own": ("""
        for phase in ("warm", "main"):
            if phase == "warm":
                for epoch in range(2):
                    for x in loader: update(x)
            else:
                for epoch in range(4):
                    for x in loader: update(x)
        """, 0),
    "of numbers": ("""
        for epoch in range(12):
            if epoch < 6:
                for x in loader: update(x)
            else:
                for x in other: update(x)
        """, 0),
    "of numbers, in functions": ("""
        def warm(opt, x):
            learn(x)
            opt.step()
        def one(opt):
            for x in other: warm(opt, x)
        for epoch in range(12):
            if epoch < 6:
                for x in loader: update(x)
            else: one(optimizer)
        """, 0),
    "either way there is a step": ("""
        for name in ("a", "b", "c"):
            for x in loader:
                if name == "a": update(x)
                else: update(-x)
        """, 57),
    "the caller says how long": ("""
        def train(epochs):
            for epoch in range(epochs):
                for x in loader: update(x)
        for name, epochs in (("warm", 2), ("main", 4)): train(epochs)
        """, 114),
    "the caller has what they go over": ("""
        class Client:
            def __init__(self, loader): self.loader = loader
            def train(self):
                for i, x in enumerate(self.loader): update(x)
        clients = [Client(loader), Client(other)]
        for epoch in range(3):
            for client in clients: client.train()
        """, 84),
    "the caller has a name for each": ("""
        def train(loader, first=0):
            for x in loader: update(x)
        loaders = {"a": loader, "b": other}
        for epoch in range(3):
            for name, own in loaders.items(): train(own)
        """, 84),
}
BESIDE = {
    "two loops in an epoch": ("""
        for epoch in range(3):
            for x in loader: update(x)
            for x in other: update(x)
        """, 0),
    "two calls in an epoch": ("""
        def train(items):
            for x in items: update(x)
        def both():
            train(loader)
            train(other)
        for epoch in range(3): both()
        """, 0),
    "a bar, a scheduler and a clock": ("""
        class Bar:
            def update(self, n=1): self.n = n
            def step(self): pass
        bar, scheduler = Bar(), torch.optim.lr_scheduler.StepLR(optimizer, 1)
        for epoch in range(6):
            for x in loader: update(x)
            bar.update()
            bar.step()
            scheduler.step()
        """, 114),
    "another optimizer's": ("""
        judge = nn.Linear(4, 1).cuda()
        second = torch.optim.Adam(judge.parameters())
        def play(opt):
            judge(torch.randn(5, 4).cuda()).sum().backward()
            opt.step()
        for epoch in range(6):
            for n in range(3): play(second)
            for x in loader: update(x)
        """, 132),
}
PARTS = {
    "a number or a size": ("""
        for epoch in range(6):
            for x in loader:
                if epoch > 2 or len(x) < 5: continue
                update(x)
        """, 0),
    "a number and a size": ("""
        for epoch in range(6):
            for x in loader:
                if epoch < 2 and len(x) < 5: continue
                update(x)
        """, 0),
    "a name or a size": ("""
        for name in ("a", "b", "c"):
            for x in loader:
                if name == "b" or len(x) < 5: continue
                update(x)
        """, 36),
    "several threads fill a queue, each to its end": ("""
        q = queue.Queue(maxsize=4)
        for epoch in range(6):
            threads = [begin(fill, q, loader) for _ in range(2)]
            done = 0
            while done < 2:
                x = q.get()
                if x is None:
                    done += 1
                    continue
                update(x)
        """, 0),
}
GRIDS = {
    "of what a dictionary has": ("""
        from itertools import product
        grid = {"rate": [1e-2, 1e-3, 1e-4], "decay": [0, 1]}
        for values in product(*grid.values()):
            for x in loader: update(x)
        """, 114),
    "with a name": ("""
        grid = itertools.product([1e-2, 1e-3, 1e-4], ((1, 2), (3, 4)))
        for rate, decay in grid:
            for x in loader: update(x)
        """, 114),
    "of itself": ("""
        for rate, decay in itertools.product((1, 2), repeat=2):
            for x in loader: update(x)
        """, 76),
}
AGENTS = """
    class Agent:
        def __init__(self): self.seen = 0
        def play(self, steps):
            for _ in range(steps): self.seen += 1
        def train(self, n):
            for _ in range(n): update()
        def learn(self, most, steps, n):
            while self.seen < most:
                self.play(steps)
                if self.seen > 100: self.train(n)
    Agent().learn({})
    """
COUNTED = {
    "one step a move": (AGENTS.format("200, 1, 1"), 100),
    "two steps for four moves": (AGENTS.format("500, 4, 2"), 200),
    "more steps than are seen": (AGENTS.format("5000, 64, 80"), 0),
}
PIECES = """
    x = torch.randn(93, 4)
    def pieces(x, size, shuffled=True):
        order, {begin} = torch.randperm(len(x)), 0
        while {test}:
            end = min(len(x), start + size)
            {give}
    for epoch in range(6):
        for part in pieces(x, 5): update(part)
    """
GENERATED = {
    "it counts to the end": (PIECES.format(begin="start", test="start < len(x)", give="yield x[start:end]; start += size"), 114),
    "it counts first": (PIECES.format(begin="start", test="start < len(x)", give="start += size; yield x[end - 2:end]"), 114),
    "only whole ones": (PIECES.format(begin="start", test="start + size <= len(x)", give="yield x[start:end]; start += size"), 108),
    "some are left out": (PIECES.format(begin="start", test="start < len(x)", give="start += size\n            if end == 93: return\n"
                                        "            yield x[end - 2:end]"), 0),
}
PATIENCE = {
    "since it was best": ("""
        best, last, step = 0, 0, 0
        def fit():
            global best, last, step
            for epoch in range(6):
                for x in loader:
                    update(x)
                    step += 1
                    if step % 5 == 0:
                        if step % 10 > best: best = step % 10; last = step
                        elif step - last >= 50: return
        fit()
        """, 114),
}
PARTS_OF = STAGES, BESIDE, PARTS, GRIDS, COUNTED, GENERATED, PATIENCE
ALL = {name: case for part in PARTS_OF for name, case in part.items()}
assert len(ALL) == sum(map(len, PARTS_OF))


@pytest.mark.parametrize("name", ALL)
def test_steps(capture, name):
    body, steps = ALL[name]
    code, said, f = capture(BEGIN + textwrap.dedent(body))
    assert code == 0, said
    assert f.steps == steps


DIVIDES = """
    for epoch in range(6):
        total, loader = 0, DataLoader(torch.randn(93, 4), batch_size=5)
        for i, x in enumerate(loader):
            update(x)
            total += 1
        print(total / i)
        torch.save(model, "model.pt")
    """


def test_an_average_by_the_number_of_the_last_batch(capture):
    """An epoch that was ended with its first batch divided by 0."""
    code, said, f = capture(BEGIN + textwrap.dedent(DIVIDES))
    assert code == 0 and f.steps == 114 and "Error" not in said, said


IGNITE = '''
    import sys, types
    engine = types.ModuleType("ignite.engine.engine")
    exec("""
    class Engine:
        def run(self, loader, max_epochs, step):
            self.state = State()
            self.state.max_epochs, self.state.epoch_length = max_epochs, len(loader)
            self.handle(loader, step)
        def handle(self, loader, step):
            left = iter(loader)
            while True:
                try: x = next(left)
                except StopIteration:
                    self.state.max_epochs -= 1
                    left = iter(loader)
                    continue
                self.state.iteration += 1
                step(x, self.state.iteration)
                if self.state.iteration == self.state.whole: break
    class State:
        iteration, max_epochs, epoch_length, whole = 0, None, None, 114
    """, vars(engine))
    def once(x, n): update(x)
    def summed(x, n):
        learn(x)
        if n % 3 == 0: optimizer.step()
    engine.Engine().run(loader, 6, STEP)
    '''


@pytest.mark.parametrize("step, steps", [("once", 114), ("summed", 38)])
def test_a_library_that_tells_of_iterations(capture, step, steps):
    """As ignite's engine has them."""
    code, said, f = capture(BEGIN + textwrap.dedent(IGNITE.replace("STEP", step)))
    assert code == 0 and f.steps == steps, said
