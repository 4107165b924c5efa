# SPDX-License-Identifier: MIT
"""How many steps a script will make: by its loops, as people write them."""
import textwrap

import pytest

torch = pytest.importorskip("torch")
from reader import peak  # noqa: E402

BEGIN = """
    import argparse, itertools, math, torch
    from torch import nn
    from torch.utils.data import DataLoader, IterableDataset
    args = argparse.Namespace(epochs=7, max_steps=60, accumulate=4, grad=None)
    loader = DataLoader(torch.randn(100, 4), batch_size=5)
    model = nn.Linear(4, 4).cuda()
    optimizer = torch.optim.Adam(model.parameters())
    def learn(x):
        model(x.cuda()).sum().backward()
    def update(x=torch.randn(5, 4)):
        learn(x)
        optimizer.step()
        optimizer.zero_grad()
    def over(items):
        for x in items:
            yield x
"""
LOOPS = {
    "epochs over a loader": ("""
        for epoch in range(1, args.epochs + 1):
            for i, x in enumerate(loader):
                update(x)
        """, 140),
    "what is tried again": ("""
        def again(act):
            tries = 3
            while tries:
                try:
                    return act()
                except ValueError:
                    tries -= 1
        for n in range(40): again(update)
        """, 40),
    "a step in each pass": ("""
        for epoch in range(1, args.epochs + 1):
            for i, x in enumerate(loader):
                done = epoch * len(loader) + i
                learn(x)
                if done % len(loader) == 0: optimizer.step()
        """, 7),
    "in functions and a class": ("""
        class Trainer:
            def __init__(self): self.config = {"epochs": 3}
            def one(self, loader):
                for x in loader:
                    update(x)
            @torch.enable_grad()
            def fit(self):
                for epoch in range(self.config["epochs"]):
                    self.one(loader)
        Trainer().fit()
        """, 60),
    "until nothing gets better": ("""
        best, wait, bad = 0, 0, 0
        for epoch in range(50):
            update()
            score = 1
            if score > best:
                best, wait = score, 0
            else:
                wait += 1
                if wait > 10:
                    break
            if score > 2: bad = 0
            bad = bad + 1
            if bad > 20: break
        """, 50),
    "gradients summed up": ("""
        for epoch in range(args.epochs):
            for i, x in enumerate(loader):
                learn(x)
                if (i + 1) % args.accumulate == 0:
                    optimizer.step()
        """, 35),
    "until enough steps are made, out of all loops": ("""
        step = 0
        for epoch in range(1000):
            for x in loader:
                update(x)
                step += 1
                if step >= args.max_steps:
                    break
            if step >= args.max_steps:
                break
        """, 60),
    "a limit of zero is none": ("""
        step, args.max_steps = 0, 0
        for epoch in range(2):
            for x in loader:
                update(x)
                step += 1
                if args.max_steps and step >= args.max_steps: break
        """, 40),
    "a part of each epoch": ("""
        for epoch in range(args.epochs):
            for i, x in enumerate(loader):
                if i >= 10: break
                update(x)
        """, 70),
    "for ever, but for a number": ("""
        number = 0
        while True:
            for part in range(2):
                learn(torch.randn(5, 4))
            optimizer.step()
            number += 1
            if number > 600:
                break
        """, 601),
    "while a number is below": ("""
        class state: done = 0
        while state.done < 5000:
            update()
            state.done += 10
        """, 500),
    "while epochs are left": ("""
        epoch = 0
        while epoch < args.epochs:
            for x in loader: update(x)
            epoch += 1
        """, 140),
    "while not one of several": ("""
        step, args.seconds = 0, None
        while not (args.max_steps and step >= args.max_steps) and not args.seconds:
            update()
            step += 1
        """, 60),
    "patience is no end": ("""
        patience = 0
        for epoch in range(args.epochs):
            for x in loader: update(x)
            if patience >= 3: break
        """, 140),
    "the shorter of two": ("""
        for x, k in zip(loader, range(8)): update(x)
        """, 8),
    "of another length than its loader": ("""
        for x in itertools.islice(itertools.cycle(loader), math.ceil(25 / 2)): update(x)
        """, 13),
    "several optimizers": ("""
        optimizers = {"one": optimizer, "two": torch.optim.SGD(model.parameters(), lr=0.1)}
        for epoch in range(args.epochs):
            for x in loader:
                learn(x)
                for name, one in optimizers.items():
                    one.step()
        """, 140),
    "a loader that is made there": ("""
        for epoch in range(args.epochs):
            for i, x in enumerate(DataLoader(torch.randn(100, 4), batch_size=5)):
                update(x)
        """, 140),
    "again if memory is short": ("""
        size = 10
        while True:
            try:
                own = DataLoader(torch.randn(100, 4), batch_size=size)
                for x in own: update(x)
                break
            except torch.cuda.OutOfMemoryError:
                size //= 2
        """, 10),
    "gradients summed up of batches that no loader gives": ("""
        for i in range(100):
            learn(torch.randn(5, 4))
            if (i + 1) % args.accumulate == 0: optimizer.step(); optimizer.zero_grad()
        """, 25),
    "and of stretches": ("""
        rows = torch.randn(400, 4)
        for epoch in range(3):
            for n, i in enumerate(range(0, len(rows), 5)):
                learn(rows[i:i + 5])
                if n % 2: optimizer.step(); optimizer.zero_grad()
        """, 120),
    "stretches": ("""
        rows = torch.randn(400, 4)
        for epoch in range(3):
            for i in range(0, len(rows), 5): update(rows[i:i + 5])
        """, 240),
    "over a generator": ("""
        for epoch in range(3):
            for x in over(loader): update(x)
        """, 60),
    "nobody knows how long a generator is that leaves some out": ("""
        def some(items):
            for x in items:
                if x.sum() > 0: yield x
        for x in some(loader): update(x)
        """, 0),
    "over a class with a generator, and numbers": ("""
        class Batches:
            def __iter__(self): yield from loader
        for epoch in range(args.epochs):
            for i, x in enumerate(Batches()): update(x)
        """, 140),
    "in a comprehension": ("""
        def one():
            return [update(x) for n, x in enumerate(loader)]
        for epoch in range(args.epochs): one()
        """, 140),
    "for a sum": ("""
        for epoch in range(5): sum(n for n in (update(x) or 1 for x in loader))
        """, 100),
    "in a comprehension of some": ("""
        for epoch in range(7): [update(x) for x in loader if x.sum() > 0]
        """, 0),
    "for a list of all": ("""
        for epoch in range(args.epochs): list(map(update, loader))
        """, 140),
    "until there is no other batch": ("""
        for epoch in range(args.epochs):
            batches = iter(loader)
            while True:
                try:
                    x = next(batches)
                except StopIteration:
                    break
                update(x)
        """, 140),
    "of batches that all epochs share": ("""
        batches = iter(loader)
        for epoch in range(args.epochs):
            while True:
                try:
                    x = next(batches)
                except StopIteration:
                    break
                update(x)
        """, 0),
    "while one is fetched ahead": ("""
        class Ahead:
            def __init__(self):
                self.batches = iter(loader)
                self.fetch()
            def fetch(self):
                self.x = next(self.batches, None)
            def next(self):
                x = self.x
                self.fetch()
                return x
        for epoch in range(args.epochs):
            ahead = Ahead()
            x = ahead.next()
            while x is not None:
                update(x)
                x = ahead.next()
        """, 140),
    "counted for ever, but for a number": ("""
        for step in itertools.count(1):
            if step > args.max_steps: break
            update()
        """, 60),
    "once there is enough": ("""
        kept = []
        for episode in range(20):
            for t in range(10):
                kept.append(t)
                if len(kept) < 32: continue
                update()
        """, 169),
    "enough in each epoch": ("""
        for epoch in range(20):
            kept = []
            for t in range(10):
                kept.append(t)
                if len(kept) < 4: continue
                update()
        """, 0),
    "without the first of each epoch": ("""
        for epoch in range(6):
            for i, x in enumerate(loader):
                if i < 3: continue
                update(x)
        """, 102),
    "without the first of one epoch": ("""
        for epoch in range(6):
            for i, x in enumerate(loader):
                if epoch == 0 and i < 16: continue
                update(x)
        """, 0),
    "nor a stream": ("""
        class Stream(IterableDataset):
            def __iter__(self): return over(torch.randn(1000, 4))
        for x in DataLoader(Stream(), batch_size=5): update(x)
        """, 0),
    "nor where it goes on until it is good": ("""
        loss = 1.0
        while loss > 0.01:
            update()
            loss = 0.9 * loss + 0.001
        """, 0),
    "while a rate is multiplied": ("""
        rate = 1.0
        while rate > 0.01:
            update()
            rate *= 0.99
        """, 459),
    "until a rate is small": ("""
        rate = 1.0
        for step in range(10000):
            update()
            rate /= 2
            if rate < 1e-3: break
        """, 10),
    "while some are left": ("""
        left = 500
        while left:
            update()
            left -= 1
        """, 500),
    "until none are left": ("""
        left = 64000
        for epoch in range(1000):
            for x in loader:
                update(x)
                left -= x.numel()
            if left <= 0: break
        """, 3200),
    "while a list has some": ("""
        todo = list(range(300))
        while len(todo) > 0:
            todo.pop()
            update()
        """, 300),
    "backwards": ("""
        for epoch in range(args.epochs, 0, -1):
            for x in loader: update(x)
        """, 140),
    "a switch is no counter": ("""
        args.on = 3
        for step in range(60):
            update()
            if not args.on: break
        """, 60),
    "a time is over": ("""
        import time
        began = time.time()
        for step in range(1000):
            update()
            if time.time() - began > 600: break
        """, 1000),
    "a time is over in some epoch": ("""
        import time
        class Timer:
            def __init__(self): self.began = time.monotonic()
            def over(self): return time.monotonic() - self.began > 600
        timer = Timer()
        for epoch in range(1000):
            for x in loader: update(x)
            if timer.over(): break
        """, 20000),
    "time is summed up": ("""
        import time
        spent, then = 0, time.perf_counter()
        while spent < 100:
            update()
            now = time.perf_counter()
            spent += now - then
            then = now
        """, 0),
    "what a time decides about a step": ("""
        import time
        then = time.time()
        for step in range(60):
            update()
            while time.time() - then < 0.001: pass
            if time.time() - then > 60: print(step)
        """, 60),
    "what counts before it learns": ("""
        step = 0
        while True:
            step += 1
            if step > 600: break
            update()
        """, 600),
    "epochs that are counted before they begin": ("""
        epoch = 0
        while epoch < args.epochs:
            epoch += 1
            for x in loader: update(x)
        """, 140),
    "what is counted where it is called": ("""
        class Trainer:
            step = 0
            def one(self):
                update()
                self.step += 1
        trainer = Trainer()
        while trainer.step < 77: trainer.one()
        """, 77),
    "until it is left by an error": ("""
        step = 0
        while True:
            for x in loader:
                step += 1
                update(x)
                if step < 330: continue
                raise SystemExit
        """, 330),
    "counted anew in each epoch": ("""
        def one():
            step = 0
            while step < 30:
                update()
                step += 1
        for epoch in range(5): one()
        """, 150),
    "a list that is filled in each epoch": ("""
        todo = []
        for epoch in range(5):
            todo.extend(range(30))
            while todo:
                todo.pop()
                update()
        """, 150),
    "a list that is cut": ("""
        todo = list(range(400))
        while todo:
            now, todo = todo[:8], todo[8:]
            update()
        """, 50),
    "a list that is taken from where it is asked": ("""
        todo = list(range(50))
        def another(): return todo.pop()
        while todo: update(torch.randn(5, 4) * another())
        """, 50),
    "nobody knows what comes back into a list": ("""
        todo = [(n, 0) for n in range(50)]
        while todo:
            n, tries = todo.pop(0)
            update()
            if tries < 3: todo.append((n, tries + 1))
        """, 0),
    "stages of different lengths": ("""
        for size, steps in [(8, 100), (16, 50), (32, 20)]:
            for step in range(steps): update()
        """, 170),
    "a limit that rises": ("""
        step = limit = 0
        for epoch in range(5):
            limit += 30
            while step < limit:
                update()
                step += 1
        """, 0),
    "a number that moves between": ("""
        seen = 0
        while seen < 10000:
            for t in range(32): seen += 4
            for epoch in range(3):
                for part in range(0, 128, 32): update()
        """, 948),
    "gradients summed up, and those that remain": ("""
        for epoch in range(3):
            for i, x in enumerate(loader):
                learn(x)
                if (i + 1) % 6 == 0 or i + 1 == len(loader): optimizer.step(); optimizer.zero_grad()
        """, 12),
    "over what only runs": ("""
        rows = torch.randn(400, 4)
        for epoch in range(3):
            for part in torch.randperm(rows.size(0)).split(8): update(rows[part])
        """, 150),
    "no loop": ("""
        update(); update(); update()
        """, 0),
    "what its attributes do is its own affair": ("""
        class Odd:
            @property
            def epochs(self): raise RuntimeError("do not ask")
            def __len__(self): raise RuntimeError("nor this")
            def __iter__(self): return iter([torch.randn(5, 4)] * 5)
        odd = Odd()
        for x in odd: update(x)
        """, 0),
}


@pytest.mark.parametrize("name", LOOPS)
def test_loops(capture, name):
    body, steps = LOOPS[name]
    code, said, f = capture(textwrap.dedent(BEGIN) + textwrap.dedent(body))
    assert code == 0, said
    assert f.steps == steps
    assert (f"{f.steps} steps in all" in said) == (f.steps > 0)


def test_one_step_of_a_function_has_no_length():
    from radrm import capture as package
    from reader import File

    def setup():
        model = torch.nn.Linear(4, 4).to("cuda")
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

        def step():
            model(torch.randn(5, 4, device="cuda")).sum().backward()
            optimizer.step()
        return step
    assert File(package.trace(setup).data).steps == 0


IN_A_FUNCTION = """
    import torch
    def learn(model, optimizer, steps):
        for step in range(steps):
            optimizer.zero_grad()
            result = model(torch.ones(640, 64, device="cuda"))
            loss = result.pow(2).mean()
            loss.backward()
            optimizer.step()
    model = torch.nn.Linear(64, 4096, bias=False).cuda()
    learn(model, torch.optim.SGD(model.parameters(), lr=0.1), steps=50)
"""


def test_what_is_looked_at_in_a_function_does_not_live_on(capture):
    """The result of the step before is gone once there is another one: as in a script without functions."""
    code, said, f = capture(IN_A_FUNCTION)
    assert code == 0 and f.steps == 50, said
    assert 5 < peak(f.events) / (640 * 4096 * 4) < 5.5


def test_variables_that_a_function_asked_for_itself_stay(capture):
    code, said, f = capture(IN_A_FUNCTION.replace("for step", "given = locals()\n        for step").replace(
        "optimizer.step()", "optimizer.step()\n            assert given['steps'] == 50"))
    assert code == 0 and f.steps == 50, said


def test_variables_that_a_function_executed_stay(capture):
    code, said, f = capture(IN_A_FUNCTION.replace("for step", "exec('width = 7')\n        for step").replace(
        "optimizer.step()", "optimizer.step()\n            assert locals()['width'] == 7"))
    assert code == 0 and f.steps == 50 and "cut short" not in said, said
