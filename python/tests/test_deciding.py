# SPDX-License-Identifier: MIT
"""Steps of a loop that ends by several conditions, by one that never holds, or by one that has a name."""
import textwrap

import pytest

torch = pytest.importorskip("torch")

BEGIN = """
import torch
model = torch.nn.Linear(4, 4).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
def update():
    optimizer.zero_grad()
    loss = model(torch.randn(4, 4).cuda()).sum()
    loss.backward()
    optimizer.step()
    return loss.item()
class settings: debug, limit, none, patience, least, levels = False, 30, None, 5, 20, [2, 3]
best, counter, step, done = 9, 0, 0, False
"""
ENDS = {
    "one that never holds": ("""
        for n in range(100):
            update()
            if settings.debug and n >= 10: break
        """, 100),
    "it is not asked": ("""
        for n in range(100):
            update()
            if settings.debug:
                if n >= 10: break
        """, 100),
    "none is given": ("""
        for n in range(100):
            update(); step += 1
            if settings.none is not None and step >= settings.limit: break
        """, 100),
    "one is given": ("""
        for epoch in range(10):
            for n in range(10):
                update(); step += 1
                if settings.limit and step >= settings.limit: break
            if settings.limit and step >= settings.limit: break
        """, 30),
    "patience, but not before": ("""
        for epoch in range(100):
            loss = update()
            if loss < best: best, counter = loss, 0
            else:
                counter += 1
                if counter == settings.patience and epoch > settings.least: break
        """, 100),
    "both have to hold": ("while step < 10 or step < settings.limit: update(); step += 1", 0),
    "not one of them": ("""
        while True:
            update(); step += 1
            if not (step < 10 or step < settings.limit): break
        """, 0),
    "one is enough": ("while step < 100 and step < settings.limit: update(); step += 1", 30),
    "it has a name": ("""
        while True:
            last = step == settings.limit
            if last or step % 25 == 0: model(torch.ones(1, 4).cuda())
            if last: break
            update()
            step += 1
        """, 30),
    "its name is asked at the top": ("""
        while not done:
            update()
            step += 1
            done = step >= settings.limit
        """, 30),
    "it counts in between": ("""
        while True:
            last = step + 1 >= settings.limit
            update()
            step += 1
            if last: break
        """, 0),
    "a grid around folds": ("""
        class Grid:
            def __iter__(self): return ({"epochs": n} for n in (2, 3))
            def __len__(self): return 2
        for one in Grid():
            for fold in range(5):
                for epoch in range(one["epochs"]): update()
        """, 0),
    "a list around folds": ("""
        for epochs in settings.levels:
            for fold in range(5):
                for epoch in range(epochs): update()
        """, 25),
    "another optimizer comes late": ("""
        other = torch.nn.Linear(4, 4).cuda()
        second = torch.optim.SGD(other.parameters(), lr=0.1)
        for n in range(10):
            for k in range(100): update()
            other(torch.randn(400, 4).cuda()).sum().backward()
            second.step()
        """, 0),
}


@pytest.mark.parametrize("name", ENDS)
def test_steps(capture, name):
    body, steps = ENDS[name]
    code, said, f = capture(BEGIN + textwrap.dedent(body))
    assert code == 0 and f.steps == steps and "not seen" not in said, said
