# SPDX-License-Identifier: MIT
"""What comes later in a run than the steps that are captured."""
import functools
import itertools
import re
import textwrap
import types

import pytest

torch = pytest.importorskip("torch")

from radrm.capture import later  # noqa: E402
from radrm.capture.recorder import Recorder  # noqa: E402

FROZEN = """
    import torch
    from torch import nn
    from torch.utils.data import DataLoader, TensorDataset
    body, head = nn.Sequential(*[nn.Linear(512, 512, bias=False) for _ in range(4)]), nn.Linear(512, 8, bias=False)
    model = nn.Sequential(body, head).cuda()
    body.requires_grad_(False)
    LEARN
    optimizer = torch.optim.Adam(OF, foreach=False)

    loader = LOADER

    def round(epoch):
        total = n = 0
        for x, y in loader:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(x.cuda()), y.cuda())
            loss.backward()
            optimizer.step()
            total, n = total + loss.item(), n + 1
        print(f"epoch {epoch}, mean loss {total / n}, {n} batches", flush=True)
    for epoch in range(40):
        if epoch == WHEN:
            FREE
        round(epoch)
"""
LOADER = "DataLoader(TensorDataset(torch.randn(400, 512), torch.zeros(400, dtype=torch.int64)), batch_size=4)"
NO_LOADER = "[(torch.randn(4, 512), torch.zeros(4, dtype=torch.int64))] * 100"


def frozen(of="model.parameters()", when="30", free="body.requires_grad_()", loader=LOADER, learn="", more=""):
    body = FROZEN.replace("LEARN", learn).replace("OF", of).replace("WHEN", when).replace("FREE", free).replace("LOADER", loader)
    return body + more


@pytest.mark.parametrize("of, free", [
    ("model.parameters()", "body.requires_grad_()"),
    ("head.parameters()", "[setattr(p, 'requires_grad', True) for p in body.parameters()]; unfreeze = optimizer.add_param_group("
     "{'params': body.parameters()}); body.requires_grad_(True)"),
    ("[p for p in model.parameters() if p.requires_grad]", "body.requires_grad_(True); optimizer = torch.optim.Adam(model.parameters(), "
     "foreach=False)"),
])
def test_layers_that_are_frozen_at_first(capture, of, free):
    """With four weights that learn: they, their gradients, and two averages of each. How many steps there are, and what one is, is that of
    the first."""
    code, said, f = capture(frozen(of, free=free))
    assert code == 0 and f.steps == 4000, said
    assert "100 batches" not in said and "may later" not in said
    most = int(re.search(r"(\d+) MiB in tensors", said)[1])
    assert 16 <= most <= 20 and f.host["parameters"] in (1, 5) and f.header["flags"] == 0
    _, _, first = capture(frozen(when="400"))
    assert first.kernels == f.kernels


@pytest.mark.parametrize("learn, when, more", [
    ("[p.requires_grad_(True) for p in head.parameters()]", "-1", ""),  # that line had its parameters learn before
    ("", "400", ""),                                                    # never comes: the script was seen to its end
], ids=["done", "never"])
def test_layers_that_stay_frozen(capture, learn, when, more):
    code, said, f = capture(frozen(learn=learn, when=when, free="pass" if learn else "body.requires_grad_()"))
    assert code == 0 and "may later" not in said
    assert int(re.search(r"(\d+) MiB in tensors", said)[1]) <= 5 and len([p for _, p in f.marks if p == 1]) == (3 if learn else 43)


@pytest.mark.parametrize("line", ["x = x.detach().requires_grad_(True)", "z = (x * 0.5 + 0.5).requires_grad_()", "x.requires_grad = True",
                                  "x.requires_grad_()"])
def test_an_input_that_would_learn_is_no_layer(capture, line):
    """As of an attack, or a penalty on gradients, that another setting has: a frozen teacher has no doubt of it."""
    code, said, f = capture(frozen(free="pass").replace("optimizer.zero_grad()", f"if epoch > 999: {line}; x.mean()\n"
                                                                                 "            optimizer.zero_grad()"))
    assert code == 0 and "may later" not in said and len([p for _, p in f.marks if p == 1]) == 3, said


def test_what_cannot_be_looked_at_is_told(capture):
    """Without a loader nothing can be left out. It is tried what the four weights would take, and the file has no part of it."""
    code, said, f = capture(frozen(loader=NO_LOADER, when="late()", learn="late = lambda: 30"))
    told = re.search(r"train.py:\d+: parameters that do not learn in what was captured may later: "
                     r"with all of them there would be (\d+) MiB", said)
    assert code == 0 and 16 <= int(told[1]) <= 20 and "rad submit --gpu-mem" in said and f.header["flags"] & 1024
    assert re.search(r"out.radcap: \d+ bytes, [45] MiB in tensors", said) and f.steps == 4000


def test_an_error_on_the_way_is_told(capture):
    script = frozen(when="late()", learn="late = lambda: 30").replace("total, n = ", "assert n or not epoch or epoch < 9; total, n = ", 1)
    code, said, f = capture(script.replace("if epoch == ", "if epoch == 9: raise ValueError('short')\n        if epoch == "))
    assert code == 0 and "what they would take then was not seen" in said and f.steps == 900  # the run ends there, too


PHASES = """
    import torch
    from torch import nn
    from torch.utils.data import DataLoader, Dataset
    model = nn.Linear(64, 64).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    class Lines(Dataset):
        def __init__(self, length):
            self.length = length

        def __len__(self):
            return 400

        def __getitem__(self, i):
            return torch.randn(self.length, 64)

    def epoch(loader, number):
        SET
        for x in loader:
            optimizer.zero_grad()
            model(x.cuda()).sum().backward()
            optimizer.step()
"""


@pytest.mark.parametrize("set, loop", [
    ("pass", """
    for length in (16, 64, 256):
        loader = DataLoader(Lines(length), batch_size=16)
        for number in range(3):
            epoch(loader, number)
    """),
    ("if number == 5: loader.dataset.length = 256", """
    loader = DataLoader(Lines(16), batch_size=16)
    for number in range(9):
        epoch(loader, number)
    """),
    ("if number == 5: loader.batch_sampler.batch_size = 256", """
    loader = DataLoader(Lines(16), batch_size=16)
    for number in range(9):
        epoch(loader, number)
    """)], ids=["loaders", "sizes", "batches"])
def test_batches_that_grow(capture, set, loop):
    """The largest batch and what the linear layer makes of it, 1 MiB each."""
    code, said, f = capture(PHASES.replace("SET", set) + loop)
    assert code == 0 and f.header["batch"] == 16 and f.header["flags"] == 0, said
    assert int(re.search(r"(\d+) MiB in tensors", said)[1]) in (3, 4)


@pytest.mark.parametrize("set", ["if epoch in grows: size = grows[epoch]", "if epoch == 5:\n            size = 256"])
def test_a_size_that_an_epoch_sets(capture, set):
    """Of each line there are so many: 1 MiB, and as much is made of it."""
    code, said, f = capture(PHASES.replace("SET", "pass") + f"""
    grows, size, loader = {{9: 64, 20: 256}}, 16, DataLoader(Lines(1), batch_size=16)
    for epoch in range(30):
        {set}
        for x in loader:
            optimizer.zero_grad()
            model(x.cuda().expand(-1, size, -1).contiguous()).sum().backward()
            optimizer.step()
    """)
    assert code == 0 and f.header["flags"] & ~4 == 0 and f.steps == 750 and 16 * 256 * 64 * 4 in f.events, said


BUCKETS = """
    import torch
    from torch.nn.utils.rnn import pad_sequence
    from torch.utils.data import DataLoader
    class Lines(list):
        def __getitem__(self, i):
            print("asked", i)
            return super().__getitem__(i)
    lines = Lines([torch.ones(n, 64) for n in (LENGTHS)])
    model = torch.nn.Linear(64, 64, bias=False).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = DataLoader(lines, MORE)
    for epoch in range(2):
        for batch in loader:
            x = batch["x"] if isinstance(batch, dict) else batch
            model(x.cuda()).sum().backward()
            optimizer.step()
"""


@pytest.mark.parametrize("lengths, more, most", [
    ("range(16, 816)", "batch_size=8, collate_fn=pad_sequence", 815),
    ("range(16, 816)", "batch_size=8, collate_fn=lambda found: {'x': pad_sequence(found)}", 815),
    ("range(16, 816)", "batch_sampler=[range(n, n + 8) for n in range(0, 800, 8)], collate_fn=pad_sequence", 815),
    ("[16] * 800", "batch_sampler=[range(8)] * 3 + [range(16)] * 97", 32),
    ("[16] * 800", "batch_size=8, collate_fn=pad_sequence", 16), ("[16] * 800", "batch_size=8", 16),
], ids=["padded", "dict", "sampler", "sizes", "alike", "usual"])
def test_the_largest_of_batches_that_differ(capture, lengths, more, most):
    """Sorted by their lengths, the first ones are the smallest."""
    code, said, f = capture(BUCKETS.replace("LENGTHS", lengths).replace("MORE", more), options=["-v"])
    assert code == 0 and max(f.events[1:]) == most * 8 * 64 * 4 and f.steps == 200, said
    assert ("batches differ in size: the largest of 65 was taken" in said) == (most > 16) == bool(f.header["flags"] & 4)
    assert said.count("asked") <= (24 if more == "batch_size=8" else 24 + 67 * 16)


GROWING = """
    import torch
    from torch.utils.data import DataLoader
    model = torch.nn.Linear(64, 64, bias=False).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    rows = DataLoader(torch.randn(8000, 1024), batch_size=8)

    def learn(x):
        model(x[:, :, None].expand(-1, -1, 64).contiguous().cuda()).sum().backward()
        optimizer.step()
"""


@pytest.mark.parametrize("loop, told, most", [
    ("for step in range(2000):\n    length = min(1024, 64 + step // 50 * 64)\n    learn(torch.randn(8, length))",
     "a size grows in the run, from 64 to 1024", 1024),
    ("for step in range(500):\n    learn(torch.randn(8, 64 + step // 50 * 64))", "a size grows in the run, from 64 to 640", 640),
    ("for step, x in enumerate(rows):\n    n = 64 if step < 500 else 128\n    learn(x[:, :n])",
     "a size grows in the run, from 64 to 128", 128),
    ("lengths, length = {100: 128, 1500: 256}, 64\nfor step in range(2000):\n    length = lengths.get(step, length)\n"
     "    learn(torch.randn(8, length))", "a size grows in the run, from 64 to 256", 256),
    ("for epoch in range(9):\n    n = 2 ** min(epoch + 3, 8)\n    for x in rows:\n        learn(x[:, :n])",
     "a size grows in the run, from 8 to 256", 256),
    ("class T:\n    step = 0\n    def length(self, step): return int(64 + 0.1 * step)\nt = T()\nfor x in rows:\n"
     "    learn(x[:, :t.length(t.step)])\n    t.step += 1",
     "a size grows in the run, from 64 to 163", 163),
    ("step = 0\nwhile True:\n    learn(torch.randn(8, min(1024, 64 + step // 50 * 64)))\n    step += 1",
     "a size grows in the run, from 64 to 1024", 1024),
    ("step = 0\nwhile True:\n    learn(torch.randn(8, 64 + step // 50 * 64))\n    step += 1",
     "a size grows in the run, from 64, and its end is not known", 64),
    ("for step in range(40):\n    length = min(1024, 64 + step // 50 * 64)\n    learn(torch.randn(8, length))", "", 64),
    ("for i in range(3):\n    width = 64 * 2 ** i\nfor step in range(400):\n    learn(torch.randn(8, 64))", "", 64),
    ("for step in range(400):\n    for i in range(3):\n        x = torch.randn(8, 2 ** (4 + i))\n    learn(x)", "", 64),
    ("for step in range(400):\n    rate = min(1, step / 10)\n    x = torch.randn(8, 1024)[:, step // 10 : step // 10 + 64]\n"
     "    learn(x)", "", 64),
], ids=["min", "argument", "if", "table", "epoch", "method", "while", "for ever", "not so far", "before", "within", "no size"])
def test_sizes_that_grow_with_the_step(capture, loop, told, most):
    code, said, f = capture(textwrap.dedent(GROWING) + loop)
    assert code == 0 and max(f.events) == 8 * most * 64 * 4, said
    assert (re.search(r"train.py:\d+: " + told, said) if told else "grows" not in said
            and len([p for _, p in f.marks if p == 1]) <= 3), said


def widths(f):
    """Of the batches of 8 lines of so many times 64 numbers."""
    return [n // (8 * 64 * 4) for n in f.events if n > 16384]


def test_sizes_on_the_way_to_the_largest(capture):
    """PyTorch's allocator keeps a block of each."""
    code, said, f = capture(textwrap.dedent(GROWING) + "for step in range(2000):\n    length = min(1024, 64 + step // 50 * "
                                                       "64)\n    learn(torch.randn(8, length))")
    assert code == 0 and {*range(128, 1025, 64)} <= set(widths(f)), said
    code, said, f = capture(BUCKETS.replace("LENGTHS",
                                            "range(16, 816)").replace("MORE", "batch_size=8, collate_fn=pad_sequence"), options=["-v"])
    assert code == 0 and f.steps == 200 and len(set(widths(f))) > 40, said


GRAPHS = """
    import torch
    from torch.utils.data import DataLoader
    class Graph:
        def __init__(self, n):
            self.nodes = {"x": torch.ones(8 * n, 64)}
        def cuda(self):
            self.nodes = {name: x.cuda() for name, x in self.nodes.items()}
            return self
    model = torch.nn.Linear(64, 64, bias=False).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = DataLoader(range(10, 20), shuffle=True, collate_fn=lambda found: Graph(*found))
    for epoch in range(EPOCHS):
        for graph in loader:
            model(graph.cuda().nodes["x"]).sum().backward()
            optimizer.step()
"""


@pytest.mark.parametrize("epochs, batches", [(9, 64), (2, 20)])
def test_sizes_that_are_drawn(capture, epochs, batches):
    """The allocator keeps more with each order in which they come: as many steps of them as there are time and steps for, of
    whichever epoch, then the largest. A graph's size is that of what it is made of."""
    code, said, f = capture(GRAPHS.replace("EPOCHS", str(epochs)))
    steps = widths(f)[::2]  # the graph, what is computed of it
    assert code == 0 and f.steps == 10 * epochs and batches <= len(steps) <= batches + 5, (said, steps)
    assert set(steps) == set(range(10,
                                   20)) and steps[-1] == 19 and "batches differ in size: the largest of 10 was taken" in said, (said, steps)


DRAWN = GRAPHS.replace("range(10, 20), shuffle=True", "[n for _, n in sorted((DRAW, n) for n in range(10, 20))]").replace("EPOCHS", "9")


@pytest.mark.parametrize("draw", ["random.random()", "numpy.random.rand()", "torch.rand(()).item()"])
def test_sizes_that_are_drawn_are_the_same_each_time(capture, monkeypatch, draw):
    """On a slow machine, too, where some 30 seconds pass until all were seen. Where operators are many there are fewer."""
    body = "\n    import random, numpy\n" + DRAWN.replace("DRAW", draw)
    _, _, once = capture(body)
    exec(f"import numpy, random\n{draw}")  # a capture begins as a copy of this process
    monkeypatch.setattr(later, "spent", types.SimpleNamespace(own=functools.partial(next, itertools.count(0, 0.15))))
    code, said, f = capture(body, options=["--no-cache"])
    assert code == 0 and len(widths(f)) > 100 and widths(f) == widths(once), said
    monkeypatch.setattr(later, "OPERATORS", 100)
    code, said, f = capture(body, options=["--no-cache"])
    assert code == 0 and 10 < len(widths(f)) < 50 and max(widths(f)) == 19, said


MANY_TRAININGS = """
    import torch
    from torch import nn
    x = torch.randn(4, 32)
    for width in range(1, 60):
        model = nn.Sequential(*[nn.Linear(32, 32) for _ in range(16)], nn.Linear(32, width)).cuda()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, foreach=False)
        for step in range(100):
            model(x.cuda()).sum().backward()
            optimizer.step()
"""


def slow(monkeypatch, seconds):
    """So many pass with each operator."""
    now, real = [0], Recorder.run

    def run(*args):
        now[0] += seconds
        return real(*args)
    monkeypatch.setattr(Recorder, "run", run)
    monkeypatch.setattr(later, "spent", types.SimpleNamespace(own=lambda: now[0]))


@pytest.mark.parametrize("body, seconds", [(MANY_TRAININGS, 1 / 400), (GRAPHS.replace("EPOCHS", "9"), 0.1), (frozen(), 1 / 10)],
                         ids=["trainings", "sizes", "frozen"])
def test_a_slow_machine_sees_as_much(capture, monkeypatch, body, seconds):
    """Of a script of which an idle one goes through some 10 seconds more, and of those that are short."""
    code, once, found = capture(body)
    slow(monkeypatch, seconds)
    code, said, f = capture(body, options=["--no-cache"])
    assert code == 0 and f.apart_from_times() == found.apart_from_times() and "clock" not in said
    assert re.sub(r"\d+ bytes", "", said) == re.sub(r"\d+ bytes", "", once)


def test_where_the_clock_ends_it_that_is_told(capture, monkeypatch):
    slow(monkeypatch, 1 / 4)
    code, said, f = capture(MANY_TRAININGS)
    assert code == 0 and f.header["flags"] & 128 and "stopped by the clock: what comes later in the run took more than" in said, said
    code, said, f = capture("import time, torch\nx = torch.ones(8, device='cuda', requires_grad=True)\n"
                            "optimizer = torch.optim.SGD([x], lr=0.1)\nother = torch.optim.SGD([x], lr=0.1)\n"
                            "for n in range(90):\n    x.sum().backward()\n    optimizer.step()\n    time.sleep(9 * (n == 5))",
                            options=["--timeout", "8"])
    assert code == 0 and f.header["flags"] & 128 and "stopped by the clock: no end after 5 s in which it waited" in said, said


def test_drawn_sizes_that_there_was_no_time_for(capture, monkeypatch):
    """There are none between those that come."""
    def some(self):
        self.reached = min(1, self.steps / 9)
        self.climb = min(self.climb, 9)
    monkeypatch.setattr(later.Later, "climbs", some)
    code, said, f = capture(GRAPHS.replace("EPOCHS", "9").replace("Graph(*found)", "Graph(2 * found[0])"))
    assert code == 0 and len(widths(f)) < 40 and {n % 2 for n in widths(f)} == {0} and max(widths(f)) == 38, (said, widths(f))


def test_of_large_batches_fewer_are_looked_at(capture, monkeypatch):
    monkeypatch.setattr(later, "NUMBERS", 20 * 815 * 8 * 64)
    code, said, f = capture(BUCKETS.replace("LENGTHS", "range(16, 816)").replace("MORE", "batch_size=8, collate_fn=pad_sequence"))
    assert code == 0 and "the largest of 21 was taken" in said and max(f.events[1:]) == 815 * 8 * 64 * 4, said


def test_a_graph_that_is_given_again_is_as_it_was():
    """Some are moved in place, which would hold one on the GPU."""
    class Graph:
        def __init__(self):
            self.x = torch.ones(3)
    first = Graph()
    once = later.again([first])[0]
    once.x = None
    assert first.x is not None and later.elements(first) == 3 and once is not first


@pytest.mark.parametrize("more", ["pass", "torch.empty(4 * length, device='cuda') if length > 600 else None"],
                         ids=["alike", "but for what is given back at once"])
def test_sizes_that_there_was_no_time_for(capture, monkeypatch, more):
    """Steps of them are put in between: as if all had been captured."""
    def some(self):
        self.reached = min(1, self.steps / 3)
        self.climb = min(self.climb, 3)
    body = textwrap.dedent(GROWING) + ("for step in range(2000):\n    length = min(1024, 64 + step // 50 * 64)\n"
                                       f"    {more}\n    learn(torch.randn(8, length))")
    _, _, whole = capture(body)
    monkeypatch.setattr(later.Later, "climbs", some)
    code, said, f = capture(body, options=["--no-cache"])
    assert code == 0 and widths(f) == widths(whole) and f.live_at_end() == whole.live_at_end(), said


def test_a_size_that_grows_and_cannot_be_looked_at(capture):
    code, said, f = capture(textwrap.dedent(GROWING) + "for step in range(2000):\n    length = 64 + step // 50 * 64\n"
                                                       "    assert length < 1000\n    learn(torch.randn(8, length))")
    assert code == 0 and "the largest could not be captured" in said and f.header["flags"] & 4, said


def test_no_sign_no_more_steps(capture):
    code, _, f = capture(PHASES.replace("SET", "pass") + """
    loader = DataLoader(Lines(16), batch_size=16)
    for number in range(9):
        epoch(loader, number)
    """)
    assert code == 0 and [p for _, p in f.marks].count(1) == 3 and f.steps == 225


def test_parameters_are_looked_for_by_equal(traced):
    def setup():
        one, other = (torch.nn.Parameter(torch.zeros(4, device="cuda")) for _ in range(2))

        def step():
            if torch.equal(one, one) and not torch.equal(one, other):
                torch.empty(77, device="cuda")
        return step
    assert 77 * 4 in traced(setup).iteration(0)
