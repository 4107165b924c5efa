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
from reader import peak  # noqa: E402

W = 512 * 512 * 4

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


def test_what_cannot_be_looked_at_is_told(capture):
    """Without a loader nothing can be left out. It is tried what the four weights would take, and the file has no part of it."""
    code, said, f = capture(frozen(loader=NO_LOADER))
    told = re.search(r"train.py:\d+: parameters that do not learn in what was captured may later: with all of them there would be (\d+) MiB", said)
    assert code == 0 and 16 <= int(told[1]) <= 20 and "rad submit --gpu-mem" in said and f.header["flags"] & 1024
    assert re.search(r"out.radcap: \d+ bytes, [45] MiB in tensors", said) and f.steps == 4000


def test_an_error_on_the_way_is_told(capture):
    code, said, f = capture(frozen().replace("total, n = ", "assert n or not epoch or epoch < 9; total, n = ", 1).replace(
        "if epoch == ", "if epoch == 9: raise ValueError('short')\n        if epoch == "))
    assert code == 0 and "what they would take then was not seen" in said and f.steps == 4000


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
    ("for step in range(2000):\n    length = min(1024, 64 + step // 50 * 64)\n    learn(torch.randn(8, length))", "a size grows in the run, from 64 to 1024", 1024),
    ("for step in range(500):\n    learn(torch.randn(8, 64 + step // 50 * 64))", "a size grows in the run, from 64 to 640", 640),
    ("for step, x in enumerate(rows):\n    n = 64 if step < 500 else 128\n    learn(x[:, :n])", "a size grows in the run, from 64 to 128", 128),
    ("for epoch in range(9):\n    n = 2 ** min(epoch + 3, 8)\n    for x in rows:\n        learn(x[:, :n])", "a size grows in the run, from 8 to 256", 256),
    ("class T:\n    step = 0\n    def length(self, step): return int(64 + 0.1 * step)\nt = T()\nfor x in rows:\n    learn(x[:, :t.length(t.step)])\n    t.step += 1",
     "a size grows in the run, from 64 to 163", 163),
    ("step = 0\nwhile True:\n    learn(torch.randn(8, min(1024, 64 + step // 50 * 64)))\n    step += 1", "a size grows in the run, from 64 to 1024", 1024),
    ("step = 0\nwhile True:\n    learn(torch.randn(8, 64 + step // 50 * 64))\n    step += 1", "a size grows in the run, from 64, and its end is not known", 64),
    ("for step in range(40):\n    length = min(1024, 64 + step // 50 * 64)\n    learn(torch.randn(8, length))", "", 64),
    ("for i in range(3):\n    width = 64 * 2 ** i\nfor step in range(400):\n    learn(torch.randn(8, 64))", "", 64),
    ("for step in range(400):\n    for i in range(3):\n        x = torch.randn(8, 2 ** (4 + i))\n    learn(x)", "", 64),
    ("for step in range(400):\n    rate = min(1, step / 10)\n    x = torch.randn(8, 1024)[:, step // 10 : step // 10 + 64]\n    learn(x)", "", 64),
], ids=["min", "argument", "if", "epoch", "method", "while", "for ever", "not so far", "before", "within", "no size"])
def test_sizes_that_grow_with_the_step(capture, loop, told, most):
    code, said, f = capture(textwrap.dedent(GROWING) + loop)
    assert code == 0 and max(f.events) == 8 * most * 64 * 4, said
    assert (re.search(r"train.py:\d+: " + told, said) if told else "grows" not in said and len([p for _, p in f.marks if p == 1]) <= 3), said


def widths(f):
    """Of the batches of 8 lines of so many times 64 numbers."""
    return [n // (8 * 64 * 4) for n in f.events if n > 16384]


def test_sizes_on_the_way_to_the_largest(capture):
    """PyTorch's allocator keeps a block of each."""
    code, said, f = capture(textwrap.dedent(GROWING) + "for step in range(2000):\n    length = min(1024, 64 + step // 50 * 64)\n    learn(torch.randn(8, length))")
    assert code == 0 and {*range(128, 1025, 64)} <= set(widths(f)), said
    code, said, f = capture(BUCKETS.replace("LENGTHS", "range(16, 816)").replace("MORE", "batch_size=8, collate_fn=pad_sequence"), options=["-v"])
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
    """The allocator keeps more with each order in which they come: as many steps of them as there are time and steps for, of whichever epoch, then the largest.
    A graph's size is that of what it is made of."""
    code, said, f = capture(GRAPHS.replace("EPOCHS", str(epochs)))
    steps = widths(f)[::2]  # the graph, what is computed of it
    assert code == 0 and f.steps == 10 * epochs and batches <= len(steps) <= batches + 5, (said, steps)
    assert set(steps) == set(range(10, 20)) and steps[-1] == 19 and "batches differ in size: the largest of 10 was taken" in said, (said, steps)


DRAWN = GRAPHS.replace("range(10, 20), shuffle=True", "[n for _, n in sorted((DRAW, n) for n in range(10, 20))]").replace("EPOCHS", "9")


@pytest.mark.parametrize("draw", ["random.random()", "numpy.random.rand()", "torch.rand(()).item()"])
def test_sizes_that_are_drawn_are_the_same_each_time(capture, monkeypatch, draw):
    """On a slow machine, too, where some 30 seconds pass until all were seen. Where operators are many there are fewer."""
    body = "\n    import random, numpy\n" + DRAWN.replace("DRAW", draw)
    _, _, once = capture(body)
    exec(f"import numpy, random\n{draw}")  # a capture begins as a copy of this process
    for module in (later, later.trainings):
        monkeypatch.setattr(module, "time", types.SimpleNamespace(monotonic=functools.partial(next, itertools.count(0, 0.15))))
    code, said, f = capture(body, options=["--no-cache"])
    assert code == 0 and len(widths(f)) > 100 and widths(f) == widths(once), said
    monkeypatch.setattr(later, "OPERATORS", 100)
    code, said, f = capture(body, options=["--no-cache"])
    assert code == 0 and 10 < len(widths(f)) < 50 and max(widths(f)) == 19, said


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


@pytest.mark.parametrize("more", ["pass", "torch.empty(4 * length, device='cuda') if length > 600 else None"], ids=["alike", "but for what is given back at once"])
def test_sizes_that_there_was_no_time_for(capture, monkeypatch, more):
    """Steps of them are put in between: as if all had been captured."""
    def some(self):
        self.reached = min(1, self.steps / 3)
        self.climb = min(self.climb, 3)
    body = textwrap.dedent(GROWING) + f"for step in range(2000):\n    length = min(1024, 64 + step // 50 * 64)\n    {more}\n    learn(torch.randn(8, length))"
    _, _, whole = capture(body)
    monkeypatch.setattr(later.Later, "climbs", some)
    code, said, f = capture(body, options=["--no-cache"])
    assert code == 0 and widths(f) == widths(whole) and f.live_at_end() == whole.live_at_end(), said


def test_a_size_that_grows_and_cannot_be_looked_at(capture):
    code, said, f = capture(textwrap.dedent(GROWING) + "for step in range(2000):\n    length = 64 + step // 50 * 64\n    assert length < 1000\n    learn(torch.randn(8, length))")
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

EVALUATED = """
    import torch
    from torch import nn
    from torch.utils.data import DataLoader, TensorDataset
    model = nn.Sequential(*[nn.Linear(512, 512, bias=False) for _ in range(4)]).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    rows = TensorDataset(torch.randn(800, 512))
    learn, rest = DataLoader(rows, batch_size=8), DataLoader(rows, batch_size=WIDTH)

    def evaluate(loader):
        with torch.no_grad():
            return sum(model(x.cuda()).sum().item() for x, in loader) / len(loader)  # of the batches that it says it has

    def loss_of(x):
        return model(x).sum()
    for epoch in range(30):
        for x, in learn:
            optimizer.zero_grad()
            loss_of(x.cuda()).backward()
            optimizer.step()
        AFTER
"""


@pytest.mark.parametrize("after, width, share", [
    ("print(evaluate(rest))", 8, 1),                      # as many batches as steps, each a pass forward
    ("print(evaluate(rest))", 16, 0.5),
    ("with torch.no_grad():\n            for x, in rest: loss_of(x.cuda())", 8, 1),
    ("if epoch % 5 == 4: print(evaluate(rest))", 8, 1 / 5),
    ("print(epoch)", 8, 0),
    ("class Stream(torch.utils.data.IterableDataset):\n            def __iter__(self): return iter(torch.randn(9, 512))\n"
     "        with torch.no_grad():\n            for x in DataLoader(Stream()): loss_of(x.cuda())", 8, 0),
])
def test_evaluations_of_the_whole_run(capture, after, width, share):
    """Of so small a model all is the host's: an evaluation's batch takes five modules and as many operators, a step twice the operators more."""
    code, said, f = capture(EVALUATED.replace("WIDTH", str(width)).replace("AFTER", after))
    assert code == 0 and f.steps == 3000, said
    assert share * 0.4 * 3000 <= f.beside <= share * 0.6 * 3000
    assert (f"3000 steps in all and evaluations as long as {f.beside}" in said) == (f.beside > 0)


def test_an_evaluation_that_takes_more_than_training(capture):
    """800 rows and what four layers make of them, of which two are alive at a time, beside weights of 4 MiB."""
    _, said, f = capture(EVALUATED.replace("WIDTH", "800").replace("AFTER", "print(evaluate(rest))"))
    whole = [p for _, p in f.marks if p == 1]
    _, _, before = capture(EVALUATED.replace("WIDTH", "800").replace("AFTER", "print(epoch)"))
    assert len(whole) == 5 and f.kernels == before.kernels and f.host == before.host
    assert max(f.events) >= 800 * 512 * 4 and 800 * 512 * 4 not in before.events, said


@pytest.mark.parametrize("mode", ["model.eval()", "pass"])
def test_an_evaluation_with_gradients_holds_two_graphs(capture, mode):
    """Of 400 rows each: what four layers take and give, while the name `out` holds that of the batch before; beside weights and gradients of 4 MiB."""
    test = f"def test(loader):\n        {mode}\n        for x, in loader: out = model(x.cuda())\n        model.train()\n\n    def loss_of"
    code, said, _ = capture(EVALUATED.replace("WIDTH", "400").replace("AFTER", "test(rest)").replace("def loss_of", test))
    assert code == 0 and f"{8 + 2 * 5 * 400 * 512 * 4 / (1 << 20):.0f} MiB in tensors at most" in said, said


@pytest.mark.parametrize("after, more", [
    ("for x, in rest: out = model(x.cuda())", ""),
    ("for n, (x,) in enumerate(iter(rest)): out = model(x.cuda())", ""),
    ("[model(x.cuda()) for x, in rest]", ""),
    ("check(rest)", "def check(them):\n        for x, in them: model(x.cuda())\n\n    "),
    ("check(data=both['test'])", "both = {'test': rest}\n    def check(data):\n        for x, in data: model(x.cuda())\n\n    "),
], ids=["loop", "counted", "comprehension", "function", "by name"])
def test_a_loop_over_another_loader_is_reached(capture, after, more):
    """Whatever it is called, and with gradients: 800 rows and what four layers make of them, beside weights and gradients of 4 MiB."""
    code, said, f = capture(EVALUATED.replace("WIDTH", "800").replace("AFTER", after).replace("def loss_of", more + "def loss_of"))
    assert code == 0 and len([p for _, p in f.marks if p == 1]) == 5, said
    assert peak(f.events) >= 2 * 4 * W + 5 * 800 * 512 * 4


@pytest.mark.parametrize("after", ["print(len(rest), rest)", "other = rest", "for x in range(len(rest)): print(x)", "def unused():\n            for x, in rest: model(x)"])
def test_a_loader_that_nothing_goes_over_is_no_sign(capture, after):
    _, said, f = capture(EVALUATED.replace("WIDTH", "800").replace("AFTER", after))
    assert len([p for _, p in f.marks if p == 1]) == 3, said


def test_the_last_graph_of_a_test_is_there_when_the_next_epoch_begins(capture):
    """Where it begins, all that four layers take and give of 800 rows is beside weights and gradients."""
    body = EVALUATED.replace("batch_size=8)", "batch_size=200)").replace("WIDTH", "800").replace(
        "AFTER", "model.eval()\n        for x, in rest: out = model(x.cuda()).sum()\n        model.train()")
    code, said, f = capture(body)
    last = [at for at, p in f.marks if p == 5][3]
    live, sizes = set(), []
    for event in f.events[:last]:
        live.add(len(sizes)) if event > 0 else live.discard(-1 - event)
        sizes += [event] * (event > 0)
    assert code == 0 and sum(sizes[n] for n in live) >= 2 * 4 * W + 4 * 800 * 512 * 4 and f.beside > 0, said


def test_loaders_that_were_left_leave_nothing(capture):
    """Each epoch has rows of its own on the GPU, 16 MiB, and the one before has gone, but for what is named."""
    code, said, _ = capture("""
    import torch
    from torch.utils.data import DataLoader, TensorDataset
    model = torch.nn.Linear(512, 512, bias=False).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(30):
        for x, in DataLoader(TensorDataset(torch.randn(8192, 512, device="cuda")), batch_size=4096, shuffle=True):
            optimizer.zero_grad()
            model(x).sum().backward()
            optimizer.step()
    """)
    assert code == 0 and int(said.split(" MiB in tensors")[0].split()[-1]) < 3 * 16 + 2 * 8 + 4, said


GATHERED = """
    import itertools, time, torch
    from torch import nn
    from torch.utils.data import DataLoader
    model = nn.Linear(512, WIDTH, bias=False).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    learn = rest = DataLoader(torch.randn(800, 512), batch_size=8)

    def ahead(loader):
        given = iter(loader)
        now = next(given)
        for then in given:
            yield now
            now = then
        yield now

    @torch.no_grad()
    def gather(loader):
        found = []
        for x in loader:
            y = model(x.cuda())
            EACH
        AFTER
    for epoch in range(30):
        model.train()
        for x in learn:
            optimizer.zero_grad()
            model(x.cuda()).sum().backward()
            optimizer.step()
        model.eval()
        gather(LOADER)
"""
JOINED = 800 * 1024 * 4


def gathered(loader="rest", each="found.append(y)", after="torch.cat(found)", width=1024, more=""):
    body = GATHERED.replace("LOADER", loader).replace("EACH", each).replace("AFTER", after).replace("WIDTH", str(width))
    return body.replace("optimizer =", more + "\n    optimizer =")


@pytest.mark.parametrize("body, joined", [
    (gathered(), JOINED),
    (gathered(each="found = torch.cat((found, y)) if len(found) else y", after="pass"), JOINED),
    (gathered("ahead(rest)"), JOINED),  # as Accelerate fetches batches
    (gathered("itertools.islice(rest, 30)"), JOINED * 3 // 10),
    (gathered(each="found.append(y) if len(found) < 9 else found.clear()", after="pass"), 0),  # as transformers' eval_accumulation_steps
    (gathered(each="found.append(y.cpu())"), 0),
    (gathered("ahead(rest)", each="pass", after="pass"), 0),
    (gathered(each="found.append(y.sum())", after="torch.stack(found)"), 0),  # nothing to speak of
], ids=["list", "joined each time", "ahead", "not all", "given up", "on the CPU", "nothing", "sums"])
def test_what_an_evaluation_keeps_of_each_batch(capture, body, joined):
    """All of it is there in the end, and once more where it is joined."""
    code, said, f = capture(body)
    assert code == 0 and f.steps == 3000 and f.beside > 0, said
    assert max(f.events) == max(joined, 512 * 1024 * 4) and f.header["flags"] == 0
    assert peak(f.events) >= 2 * joined and "an evaluation keeps" not in said
    assert joined or f.events.count(8 * 1024 * 4) < 50


def test_an_evaluation_that_keeps_too_much_to_be_gone_through(capture, monkeypatch):
    """Somebody is told of its passes, so each is run, and there is no time for all: what the rest would keep is added, and as much to join it."""
    monkeypatch.setattr("radrm.capture.later.PATIENCE", 1)
    code, said, f = capture(gathered(more="model.register_forward_hook(lambda *_: None if torch.is_grad_enabled() else time.sleep(0.05))"))
    number = int(re.search(r"of each of its 100 batches, of which (\d+) were captured", said)[1])
    assert code == 0 and 2 <= number < 40 and (100 - number) * JOINED // 50 in f.events, said


def test_what_an_evaluation_keeps_is_not_brought_to_this_machine(capture):
    """It may be more than it has; nobody is there to look at it."""
    code, said, f = capture(gathered(after="print('it', 'is', torch.cat(found).cpu()[0, 0])", width=131072), options=["-v"])
    assert code == 0 and JOINED * 128 in f.events and "it is" not in said and f.beside > 0, said


WARM = """
    import torch
    from torch import nn
    model = nn.Linear(512, 512, bias=False).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step(n):
        optimizer.zero_grad()
        model(torch.randn(n, 512, device="cuda")).sum().backward()
        optimizer.step()
    for _ in range(3):
        step(8)
    AFTER
"""


@pytest.mark.parametrize("after, steps, batch", [("for _ in range(500): step(800)", 500, 800), ("step(800)", 0, 800), ("pass", 3, 8)])
def test_steps_before_the_training(capture, after, steps, batch):
    """As before a CUDA graph is captured."""
    code, said, f = capture(WARM.replace("AFTER", after))
    assert code == 0 and abs(f.steps - steps) <= 3 and batch * 512 * 4 in f.events and f.header["flags"] & 128 == 0, said


TRAINER = """
    import types
    import torch
    from torch.utils.data import DataLoader
    class Trainer:
        def __init__(self, when):
            self.args = types.SimpleNamespace(eval_strategy=when, num_train_epochs=3)
            self.state = types.SimpleNamespace(max_steps=150)
            self.learn, self.rest = DataLoader(torch.randn(400, 512), batch_size=8), DataLoader(torch.randn(800, 512), batch_size=800)
            self.model = torch.nn.Linear(512, 512, bias=False).cuda()
            self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        def train(self):
            for epoch in range(3):
                for x in self.learn:
                    self.model(x.cuda()).sum().backward()
                    self.optimizer.step()
                self.look()
        @torch.no_grad()
        def look(self):
            for x in self.rest:
                self.model(x.cuda())
"""


@pytest.mark.parametrize("when, seen", [("epoch", True), ("no", False)])
def test_evaluations_of_a_library(capture, tmp_path, when, seen):
    (tmp_path / "transformers").mkdir()
    (tmp_path / "transformers" / "__init__.py").write_text(textwrap.dedent(TRAINER))
    code, said, f = capture(f"from transformers import Trainer; Trainer({when!r}).train()")
    assert code == 0 and f.steps == 150 and (800 * 512 * 4 in f.events) == seen and (f.beside > 0) == seen, said


@pytest.mark.parametrize("each, when, share", [
    ("if step % 100 == 0: print(evaluate(rest))", 8, 1),    # after each 100 of 3000 steps, of 100 batches
    ("if step % 300 == 299 and step > 3: print(evaluate(rest))", 8, 1 / 3),
    ("if not step % 100:\n                with torch.no_grad():\n                    for x, in rest: loss_of(x.cuda())", 16, 1 / 2),
    ("if step % 9000 == 0: print(evaluate(rest))", 800, 0),   # never comes
    ("if step % 100 == 0: print(step)", 800, 0),
    ("if step % 100 == 0: optimizer.zero_grad()", 800, 0),
])
def test_evaluations_every_so_many_steps(capture, each, when, share):
    loop = EVALUATED.replace("for epoch", "step = 0\n    for epoch").replace("AFTER", "print(epoch)").replace(
        "            optimizer.step()\n", "            optimizer.step()\n            step += 1\n            " + each + "\n")
    code, said, f = capture(loop.replace("WIDTH", str(when)))
    assert code == 0 and f.steps == 3000, said
    assert share * 0.4 * 3000 <= f.beside <= share * 0.6 * 3000, f.beside
    if not share:
        assert 800 * 512 * 4 not in f.events


def test_evaluations_in_modules_of_the_script(capture, tmp_path):
    """Without a loader, an evaluation is seen whole: four passes, each half of a step's work."""
    (tmp_path / "mine.py").write_text(textwrap.dedent("""
        import torch
        model = torch.nn.Sequential(*[torch.nn.Linear(512, 512, bias=False) for _ in range(4)]).cuda()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        def estimate_loss(n):
            with torch.no_grad():
                return [model(torch.randn(n, 512, device="cuda")).mean().item() for _ in range(4)]
        def after(step, interval):
            if step and step % interval == 0:
                estimate_loss(800)
        def train(interval):
            for step in range(1000):
                optimizer.zero_grad()
                model(torch.randn(8, 512, device="cuda")).sum().backward()
                optimizer.step()
                after(step, interval)
    """))
    code, said, f = capture("import mine; mine.train(interval=50)")
    assert code == 0 and f.steps == 1000 and 800 * 512 * 4 in f.events, said
    assert 20 * 4 * 0.3 <= f.beside <= 20 * 4 * 0.8
    code, said, f = capture("import mine; mine.train(interval=5000)")
    assert code == 0 and 800 * 512 * 4 not in f.events and f.beside == 0, said


ROLLED_OUT = """
    import torch
    model = torch.nn.Sequential(torch.nn.Linear(8, 64), torch.nn.ReLU(), torch.nn.Linear(64, 8)).cuda()
    optimizer = torch.optim.Adam(model.parameters())
    done, kept = 0, []

    @torch.no_grad()
    def roll_out():
        global done
        state = torch.zeros(1, 8, device="cuda")
        for n in range(3000):
            state = (((state + model(state)) * 1) * 1) * 1
            KEEP
            done += 1

    for step in range(500):
        model(torch.randn(32, 8, device="cuda")).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
        if step % 1000 == 0:
            for episode in range(2):
                roll_out()
        if step < 4:
            print("rounds:", step, done, flush=True)
"""


def rounds_after(said):
    return {int(step): int(number) for step, number in re.findall(r"rounds: (\d+) (\d+)", said)}


@pytest.mark.parametrize("keep, whole", [
    ("pass", False),
    ("kept.append(state)", True),  # each round leaves something
], ids=["alike", "kept"])
def test_an_evaluation_without_a_loader_is_over_when_its_rounds_are_alike(capture, keep, whole):
    code, said, f = capture(ROLLED_OUT.replace("KEEP", keep), options=["-v"])
    found = rounds_after(said)
    assert code == 0 and f.steps == 500, said
    assert (found[0] == 6000 if whole else 0 < found[0] < 6000), said


@pytest.mark.parametrize("steps, seen", [(50, True), (300, False)])
def test_evaluations_of_a_library_every_so_many_steps(capture, tmp_path, steps, seen):
    (tmp_path / "transformers").mkdir()
    (tmp_path / "transformers" / "__init__.py").write_text(textwrap.dedent(TRAINER.replace("num_train_epochs=3", "num_train_epochs=3, eval_steps=9").replace(
        "max_steps=150", f"max_steps=150, eval_steps={steps}, global_step=0").replace("self.optimizer.step()\n", """self.optimizer.step()
                    self.state.global_step += 1
                    if self.args.eval_strategy == "steps" and self.state.global_step % self.state.eval_steps == 0:
                        self.look()
""").replace("                self.look()\n        @", "        @")))
    code, said, f = capture("from transformers import Trainer; Trainer('steps').train()")
    assert code == 0 and f.steps == 150 and (800 * 512 * 4 in f.events) == seen and (f.beside > 0) == seen, said


@pytest.mark.parametrize("after, seen", [("trainer.look()", False), ("trainer.evaluate()", True), ("print(trainer.predict())", True)])
def test_what_a_library_evaluates_once_it_has_trained(capture, tmp_path, after, seen):
    """A training that its library can be told to end does, after enough of it was seen."""
    (tmp_path / "transformers").mkdir()
    (tmp_path / "transformers" / "__init__.py").write_text(textwrap.dedent(TRAINER.replace("self.look()", "").replace("self.optimizer.step()\n", """self.optimizer.step()
                    if self.control.should_training_stop:
                        return
""").replace("self.model =", "self.control = types.SimpleNamespace(should_training_stop=False)\n            self.model =")
        + "        evaluate = predict = look\n"))
    code, said, f = capture(f"from transformers import Trainer\ndef train():\n    trainer.train()\ntrainer = Trainer('no'); train()\n{after}")
    assert code == 0 and f.steps == 150 and (800 * 512 * 4 in f.events) == seen and f.beside == 0, said


def test_batches_of_an_evaluation_that_a_library_limits(capture, tmp_path):
    (tmp_path / "lightning").mkdir()
    (tmp_path / "lightning" / "__init__.py").write_text(textwrap.dedent(TRAINER.replace("batch_size=800", "batch_size=8").replace(
        "self.model =", """self.estimated_stepping_batches, self.enable_validation, self.check_val_every_n_epoch = 150, True, 1
            self.num_training_batches = self.val_check_batch = 50
            self.num_val_batches, self.accumulate_grad_batches = [20], 1
            self.model =""")))
    code, said, f = capture("from lightning import Trainer; Trainer('epoch').train()")
    assert code == 0 and f.steps == 150 and 3 * 20 * 0.2 <= f.beside <= 3 * 20 * 0.7, said


@pytest.mark.parametrize("body", [
    "(loss_of(x.cuda()) / 4).backward()\n            n += 1\n            if n % 4 == 0: optimizer.step(); optimizer.zero_grad()",
    "n, loss = n + 1, loss + loss_of(x.cuda())\n            if n % 4 == 0: loss.backward(); optimizer.step(); loss = 0",
])
def test_evaluations_after_epochs_of_batches_that_are_summed_up(capture, body):
    """100 batches of 8 are 25 steps of four. An evaluation's batch of 8 is an eighth of one."""
    loop = EVALUATED.replace("for epoch", "n = loss = 0\n    for epoch").replace("WIDTH", "8").replace("AFTER", "print(evaluate(rest))")
    begin, end = loop.index("            optimizer.zero_grad()"), loop.index("        print(evaluate")
    code, said, f = capture(loop[:begin] + "            " + body + "\n" + loop[end:])
    assert code == 0 and f.steps == 750, said
    assert 30 * 100 * 0.08 <= f.beside <= 30 * 100 * 0.18


BY_RANGE = """
    import torch
    model = torch.nn.Linear(512, 512, bias=False).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    rows, rest = torch.randn(800, 512, device="cuda"), torch.randn(9000, 512, device="cuda")

    def evaluate():
        with torch.no_grad():
            print("loss", model(rest).sum().item())

    def train():
        for at in range(0, 800, 8):
            print("step", flush=True)
            optimizer.zero_grad()
            model(rows[at:at + 8]).sum().backward()
            optimizer.step()
    for epoch in range(30):
        train()
        evaluate()
"""


@pytest.mark.parametrize("name, seen", [("evaluate", True), ("report", False)])
def test_evaluations_after_epochs_that_go_over_no_loader(capture, name, seen):
    """Epochs end early, so that they come."""
    code, said, f = capture(BY_RANGE.replace("evaluate", name), options=["-v"])
    assert code == 0 and f.steps == 3000 and f.header["flags"] == 0, said
    assert f.events.count(9000 * 512 * 4) == (3 if seen else 1)  # the rows themselves
    assert len(re.findall("^step$", said, re.MULTILINE)) <= 10


SAMPLED = """
    import torch

    class Net(torch.nn.Linear):
        def forward(self, x, t):
            if not torch.is_grad_enabled():
                print("one", flush=True)
            return super().forward(x) + t
    model = Net(512, 512, bias=False).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    learn = torch.utils.data.DataLoader(torch.randn(800, 512), batch_size=8)

    @torch.no_grad()
    def sample():
        x = torch.randn(800, 512, device="cuda")
        for t in torch.arange(1000):
            x = model(x, t)

    class SomePipeline:
        def __call__(self):
            return sample()
    for epoch in range(30):
        for x in learn:
            optimizer.zero_grad()
            model(x.cuda(), 1).sum().backward()
            optimizer.step()
        sample()
"""


@pytest.mark.parametrize("call", ["sample()", "pipeline = SomePipeline(); pipeline()", "SomePipeline()()",
                                  "if (epoch + 1) % 10 == 0 or epoch == 29: SomePipeline()()"])
def test_samples_at_the_end_of_an_epoch(capture, call):
    """Of a thousand passes after two epochs the first few are run: the numbers that they are given differ, the memory does not."""
    after = SAMPLED.rindex("sample()")
    code, said, f = capture(SAMPLED[:after] + call + SAMPLED[after + len("sample()"):], options=["-v"])
    assert code == 0 and f.steps == 3000 and 800 * 512 * 4 in f.events, said
    assert 2 <= len(re.findall("^one$", said, re.MULTILINE)) <= 20


@pytest.mark.parametrize("sizes, varies", [("1, 64", False), ("1, *([64] if n % 2 else [])", False), ("32 + n", True), ("1, 32 + n", True)])
@pytest.mark.parametrize("before", ["", "if n < 3: first(x).sum().backward(); other.step()"])
def test_passes_of_several_kinds_are_no_variation(capture, sizes, varies, before):
    """An agent acts on one state, and learns from many; two optimizers may step in turns at first."""
    code, said, f = capture(f"""
        import torch
        model, first = torch.nn.Linear(8, 8).cuda(), torch.nn.Linear(8, 8).cuda()
        optimizer, other = (torch.optim.SGD(m.parameters(), lr=0.1) for m in (model, first))
        for n in range(99):
            x = torch.randn(4, 8, device="cuda")
            model(x[:1])
            {before}
            for size in ({sizes},):
                y = model(torch.randn(size, 8, device="cuda"))
            y.sum().backward()
            optimizer.step()
    """)
    assert code == 0 and bool(f.header["flags"] & 4) == varies, said


def test_a_loader_that_ended_early_is_no_group_of_processes(capture):
    """As in torchvision's references: where an evaluation saw fewer images than there are, the first process of a group says so."""
    code, said, f = capture("""
    import torch
    from torch.utils.data import DataLoader, TensorDataset
    data = TensorDataset(torch.randn(640, 64))
    model = torch.nn.Linear(64, 64).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    def evaluate(model):
        model.eval()
        seen = 0
        with torch.inference_mode():
            for x, in DataLoader(data, batch_size=16):
                seen += len(model(x.cuda()))
        if seen != len(data) and torch.distributed.get_rank() == 0:
            print("fewer")
        torch.empty(100, 2**20, device="cuda")
    for epoch in range(10):
        for x, in DataLoader(data, batch_size=16):
            model(x.cuda()).sum().backward()
            optimizer.step()
        evaluate(model)
    """)
    assert code == 0 and "was not seen" not in said and int(re.search(r"(\d+) MiB in tensors", said)[1]) >= 400, said


def test_a_long_evaluation_before_enough_was_seen(capture):
    """Each of its many batches has operators of the script's own, as a rank that is looked up for each example: all of them would take minutes."""
    code, said, f = capture("""
    import torch
    from torch.utils.data import DataLoader, TensorDataset
    data = TensorDataset(torch.randn(80000, 64))
    model = torch.nn.Linear(64, 64).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(1000):
        model(torch.randn(16, 64, device="cuda")).sum().backward()
        optimizer.step()
        if step % 500 == 0:
            batches, ranks = 0, []
            with torch.no_grad():
                for x, in DataLoader(data, batch_size=16):
                    y = model(x.cuda()).argsort(1)
                    ranks += [(y[i] * 2 + 1 - 1).sum().item() for i in range(16)]
                    batches += 1
            print("batches:", batches, flush=True)
    """, options=["-v"])
    assert code == 0 and f.header["flags"] == 0 and int(re.search(r"batches: (\d+)", said)[1]) < 1000, said
