# SPDX-License-Identifier: MIT
"""What a script does from some step or epoch on, or at one, long after a capture has seen enough."""
import ast
import re
import time

import pytest

torch = pytest.importorskip("torch")

from radrm.capture import turning  # noqa: E402

BODY = """
    import bisect, copy, math
    import torch
    from torch import nn
    from torch.utils.data import DataLoader, TensorDataset
    model = nn.Sequential(*[nn.Linear(512, 512, bias=False) for _ in range(4)]).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    rows = TensorDataset(torch.randn(800, 512))
    learn = DataLoader(rows, batch_size=8)

    def batch(n):
        return torch.randn(n, 512, device="cuda")

    def evaluate(n=4000):
        with torch.no_grad():
            return model(batch(n)).sum().item()

    def on(x):
        loss = model(x.cuda()).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss
"""
STEPS = "for step in range(600):\n        on(batch(8))\n        "
EPOCHS = "for epoch in range(20):\n        for n, (x,) in enumerate(learn):\n            on(x)\n            WITHIN\n        AFTER"
EVALUATED = 31  # MiB of weights and gradients, and what two layers take of 4000 rows
PLAIN = 8


def epochs(within="pass", after="pass"):
    return EPOCHS.replace("WITHIN", within).replace("AFTER", after)


def most(said):
    return int(re.search(r"(\d+) MiB in tensors", said)[1])


@pytest.mark.parametrize("body", [
    STEPS + "if step == 300: evaluate()", STEPS + "if step == 599: evaluate()", STEPS + "if step > 500 and step % 10 == 0: evaluate()",
    STEPS + "if step in (100, 300): evaluate()", STEPS + "if step < 590: continue\n        evaluate()",
    STEPS + "if step < 5: print(step)\n        else: evaluate()", STEPS + "last = step == 599\n        if last: evaluate()",
    STEPS + "loss = evaluate() if step == 300 else 0", STEPS + "step == 300 and evaluate()",
    epochs("if n == len(learn) - 1: evaluate()"), epochs("if (n + 1) % len(learn) == 0: evaluate()"),
    epochs(after="if epoch + 1 == 20: evaluate()"), epochs(after="if epoch < 15: continue\n        evaluate()"),
    "def is_due(step): return step > 0 and step % 300 == 0\n    " + STEPS + "if is_due(step): evaluate()",
    "def test(step):\n        if step != 300: return\n        evaluate()\n    " + STEPS + "test(step)",
    "last = 0\n    " + STEPS + "if step - last >= 300:\n            evaluate(); last = step",
], ids=["at", "at the last", "often from one on", "at some", "skipped before", "else", "flag", "expression", "and", "end of an epoch",
        "each epoch", "last epoch", "late epochs", "function", "returns before", "since the last"])
def test_an_evaluation_that_comes_late(capture, body):
    code, said, f = capture(BODY + "    " + body)
    assert code == 0 and most(said) in (EVALUATED, EVALUATED + 1) and f.header["flags"] == 0, said
    assert f.beside > 0


@pytest.mark.parametrize("body", [STEPS + "if step == 1000: evaluate()", epochs("if n == 100: evaluate()"),
                                  epochs(after="if epoch > 20: evaluate()"), STEPS + "if step % 100 == 99: print(step)",
                                  STEPS + "if step == 300:\n            for g in optimizer.param_groups: g['lr'] *= 0.1",
                                  STEPS + "if step >= 300: torch.save(model.state_dict(), 'x.pt')",
                                  STEPS + "[evaluate() for n in range(3) if n == 5]",
                                  "def rate_of(step):\n        if step < 100: return 1\n        return math.cos(step)\n    " + STEPS
                                  + "rate_of(step)"],
                         ids=["never", "beyond an epoch", "beyond the run", "told", "rate", "saved", "another loop", "rate of a step"])
def test_what_never_comes_and_what_takes_nothing(capture, body):
    code, said, f = capture(BODY + "    " + body)
    assert code == 0 and most(said) in (PLAIN, PLAIN + 1) and f.header["flags"] == 0 and f.beside == 0, said
    assert [phase for _, phase in f.marks].count(1) == 3 or "epoch" in body  # what stands behind epochs is looked at


@pytest.mark.parametrize("body, mib", [
    ("size = 8\n    for step in range(600):\n        if step == 500: size = 4000\n        on(batch(size))", 74),
    ("for step in range(600):\n        size = 8\n        if step > 500: size *= 500\n        on(batch(size))", 74),
    ("for step in range(600):\n        if step < 500: size = 8\n        else: size = 4000\n        on(batch(size))", 74),
    ("size = 8\n    for step in range(600):\n        if step % 100 == 99: size *= 2\n        on(batch(size))", 14),
    ("size, sizes = 8, {100: 64, 300: 4000}\n    for step in range(600):\n        if step in sizes: size = sizes[step]\n"
     "        on(batch(size))", 74),
    ("def rows_of(step):\n        if step < 200: return 8\n        if step < 400: return 400\n        return 4000\n"
     "    for step in range(600): on(batch(rows_of(step)))", 74),
    ("for epoch in range(30):\n        if epoch < 10: n = 8\n        elif epoch < 20: n = 400\n        else: n = 4000\n"
     "        for x, in learn: on(x.repeat(n // 8, 1))", 74),
    ("for step in range(600):\n        size = [8, 400, 4000][bisect.bisect([200, 400], step)]\n        on(batch(size))", 74),
    ("for epoch in range(20):\n        size = [n for at, n in [(0, 8), (5, 4000)] if at <= epoch][-1]\n"
     "        for _ in range(100): on(batch(size))", 74),
    (STEPS + "if step == 300: optimizer = torch.optim.AdamW(model.parameters())", 20),
    (epochs(after="if epoch == 10: optimizer = torch.optim.AdamW(model.parameters())"), 20),
    (epochs(after="if epoch == 10: mean = copy.deepcopy(model)\n        if epoch > 10: [a.data.mul_(0.9).add_(b.data) for a, b in "
                  "zip(mean.parameters(), model.parameters())]"), 20),
    ("for p in model[:3].parameters(): p.requires_grad = False\n    " + STEPS + "if step == 300:\n            for p in "
     "model.parameters(): p.requires_grad = True\n            optimizer = torch.optim.Adam(model.parameters())", 20),
    ("other = nn.Linear(512, 2048).cuda()\n    " + STEPS + "if step > 300: other(batch(2000)).sum().backward()", 35),
    ("for step in range(600):\n        loss = model(batch(8)).sum()\n        if step > 300: loss = loss + model(batch(3000)).sum()\n"
     "        loss.backward(); optimizer.step()", 39),
], ids=["at", "from one on", "else", "doubles", "table", "function", "elif", "bisect", "chosen", "optimizer",
        "optimizer of an epoch", "mean", "unfrozen", "another model", "another loss"])
def test_what_takes_more_later(capture, body, mib):
    code, said, f = capture(BODY + "    " + body)
    assert code == 0 and mib <= most(said) <= mib + 1 and f.header["flags"] & ~4 == 0, said


TIMER = """class Timer:
        def __init__(self): self.began = time.monotonic()
        def over(self): return time.monotonic() - self.began > 100
        def passed(self): return time.monotonic() - self.began
        @property
        def left(self): return 10 - (time.monotonic() - self.began) / 60
        def looks(self):
            self.now = time.monotonic()
            return self.now - self.began
    timer = Timer()
    """
BEGAN = "began = time.time()\n    "
MANY = "for step in range(10**6):\n        on(batch(8))\n        "


@pytest.mark.parametrize("body, mib", [
    (BEGAN + MANY + "if time.time() - began > 600:\n            evaluate()\n            break", EVALUATED),
    (BEGAN + "while time.time() - began < 60: on(batch(8))\n    evaluate()", EVALUATED),
    (BEGAN + STEPS + "now = time.time()\n        if now - began > 300:\n            evaluate()\n            began = now", EVALUATED),
    (BEGAN + "for step in range(600):\n        passed = (time.time() - began) / 60\n        size = 8 if passed < 10 else 4000\n"
     "        on(batch(size))", 74),
    (BEGAN + "for step in range(600):\n        left = 1 - (time.time() - began) / 3600\n        size = 4000 if left < 0.1 else 8\n"
     "        on(batch(size))", 74),
    (BEGAN + epochs(after="if (time.time() - began) // 60 >= 5: optimizer = torch.optim.AdamW(model.parameters())"), 20),
    ("end = datetime.datetime.now() + datetime.timedelta(minutes=5)\n    " + MANY + "if datetime.datetime.now() > end:\n"
     "            evaluate()\n            break", EVALUATED),
    (TIMER + STEPS + "if timer.over(): evaluate()", EVALUATED), (TIMER + STEPS + "if timer.passed() > 60: evaluate()", EVALUATED),
    (TIMER + STEPS + "if timer.left <= 0: evaluate()", EVALUATED),
    (BEGAN + STEPS + "if time.time() - began > 10: print(step); began = time.time()", PLAIN),
    (BEGAN + STEPS + "if time.time() - began > 10: torch.save(model.state_dict(), 'x.pt')", PLAIN),
    (BEGAN + epochs(after="if time.time() - began > 60: print('slow')"), PLAIN),
], ids=["ends", "while", "since the last", "size", "left", "epoch", "date", "method", "asked of a method", "property", "told", "saved",
        "told of an epoch"])
def test_what_a_clock_decides(capture, body, mib):
    code, said, f = capture(BODY + "    import datetime, time\n    " + body)
    assert code == 0 and mib <= most(said) <= mib + 1 and f.header["flags"] == 0 and f.beside == 0, said
    ends = "break" in body or "while" in body
    assert ("ends by the clock" in said) == ends == (f.limit > 0) and (f.steps > 0) == ("while" not in body), said


LIMITS = """began, given, endless = time.time(), types.SimpleNamespace(hours=None, minutes=5, seconds=math.inf, stop=False), math.inf
    def over(given, began):
        "Whether it is."
        if not given.hours:
            return False
        now = time.time()
        return now - began > given.hours * 3600
    def late(limit=None):
        return limit is not None and time.time() - began > limit
    def stops(): given.stop = True
    """


@pytest.mark.parametrize("body, steps", [
    (STEPS + "if given.hours and time.time() - began > given.hours * 3600: break", 600),
    (STEPS + "if given.hours is not None and time.time() - began > given.hours * 3600: break", 600),
    (STEPS + "if time.time() - began > given.seconds: break", 600), (STEPS + "if not time.time() - began < endless: break", 600),
    (STEPS + "elapsed = time.time() - began\n        if given.hours and elapsed > given.hours: break", 600),
    (STEPS + "if over(given, began): break", 600), (STEPS + "if late(): break", 600), (STEPS + "if late(limit=given.hours): break", 600),
    (STEPS + "if given.hours is not None:\n            elapsed = time.time() - began\n            if elapsed > given.hours: break", 600),
    (STEPS + "if given.minutes: pass\n        else:\n            if time.time() - began > given.minutes: break", 600),
    ("step = 0\n    while step < 600 and not over(given, began):\n        on(batch(8))\n        step += 1", 600),
    (STEPS + "if step > 500 and time.time() - began > 60: break", 0),
    (STEPS + "if step == 300: stops()\n        if given.stop and time.time() - began > 60: break", 0),
    (STEPS + "if step == 300: given.hours = 1\n        if given.hours and time.time() - began > 60: break", 0),
])
def test_a_limit_that_is_none(capture, body, steps):
    """A script that may be told to end by the clock, and was not, ends when its steps are over."""
    code, said, f = capture(BODY + "    import math, time, types\n    " + LIMITS + body)
    assert code == 0 and f.steps == steps and ("ends by the clock" in said) == (not steps), said


DATE, OWN = "began = datetime.datetime.now()\n    ", "timer = Timer(40)\n    "
PASS = "for x, in learn:\n            on(x)\n            if time.time() - began > 300: break"


@pytest.mark.parametrize("body, steps, seconds", [
    (STEPS + "if given.minutes and time.time() - began > given.minutes * 60: break", 600, 300),
    (STEPS + "if time.time() - began > given.minutes * 60: break", 600, 300), (STEPS + "if late(given.minutes): break", 600, 5),
    ("given.hours = 1\n    " + STEPS + "if over(given, began): break", 600, 3600),
    ("while time.time() < began + given.minutes * 60: on(batch(8))", 0, 300),
    ("step = 0\n    while step < 600 and time.time() - began < 300:\n        on(batch(8))\n        step += 1", 600, 300),
    ("step = 0\n    while not (step == 600 or time.time() - began >= 300):\n        on(batch(8))\n        step += 1", 600, 300),
    (DATE + STEPS + "if datetime.datetime.now() - began > datetime.timedelta(minutes=2): break", 600, 120),
    (DATE + STEPS + "if (datetime.datetime.now() - began).total_seconds() / 60 > 2: break", 600, 120),
    ("began = time.perf_counter_ns()\n    " + STEPS + "if time.perf_counter_ns() - began > 3e11: break", 600, 300),
    (OWN + STEPS + "if timer.over(): break", 600, 40), (OWN + STEPS + "if timer.left < 0: break", 600, 40),
    (STEPS + "if given.minutes and step % 10 == 0:\n            if time.time() - began > given.minutes * 60: break", 600, 300),
    (STEPS + "elapsed = time.time() - began\n        left = 300 - elapsed\n        if left < 60: break", 600, 240),
    (epochs("if time.time() - began > 300: sys.exit()"), 2000, 300),
    (epochs(after="if int(time.time() - began) >= 300: break"), 2000, 300),
    ("for n in range(2):\n        began = time.time()\n        " + PASS, 0, 0),
    ("def epoch():\n        began = time.time()\n        " + PASS + "\n    for n in range(2): epoch()", 0, 0),
    (STEPS + "if time.time() - began > 300 or time.time() * 0 + step > 9: break", 0, 0),
    (STEPS + "if time.time() % 60 > 59.9999: break", 0, 0), (STEPS + "if time.process_time() > 300: break", 0, 0),
    # Until when, not for how long: that hangs on when it begins, which is later, or was where a capture is found in the cache.
    *((f"end = {end}\n    " + STEPS + f"if {now} > end{less}: break", 0, 0) for end, now, less in (
        ("datetime.datetime.fromtimestamp(int(os.environ['END']))", "datetime.datetime.now()", ""),
        ("float(os.environ['END'])", "time.time()", " - 600"), ("int(os.environ['END'] + '0' * 9)", "time.time_ns()", ""))),
    # For how long, however that comes there.
    ("def until(end):\n        " + STEPS.replace("\n", "\n    ") + "if time.time() > end: break\n    until(time.time() + 300)", 600, 300),
    ("class Until:\n        def __init__(self, end): self.end = end\n    until = Until(end=began + 300)\n    "
     + STEPS + "if time.time() > until.end: break", 600, 300),
])
def test_a_limit_by_the_clock(capture, monkeypatch, body, steps, seconds):
    """Which comes first nobody knows: the steps are over, or the time. Where the time begins anew somewhere, it is not worked out."""
    monkeypatch.setenv("END", str(round(time.time()) + 50_000))
    timer = ("class Timer:\n        def __init__(self, limit): self.limit, self.start = limit, time.monotonic()\n"
             "        def over(self):\n            now = time.monotonic()\n            return now - self.start > self.limit\n"
             "        @property\n        def left(self): return self.limit - (time.monotonic() - self.start)\n    ")
    code, said, f = capture(BODY + "    import datetime, math, os, sys, time, types\n    " + LIMITS + timer + body)
    assert code == 0 and f.steps == steps and "ends by the clock" in said, said
    assert seconds - 20 < f.limit / 1000 < seconds + 1, (f.limit, said)


def test_what_a_clock_decides_somehow_is_told(capture):
    """It is a doubt."""
    code, said, f = capture(BODY + "    import time\n    " + TIMER + STEPS + "if timer.looks() > 60: evaluate()")
    assert code == 0 and "what is done at some time was not seen" in said and f.header["flags"] & 128, said


TAKEN = "todo = list(range(600))\n    while todo:\n        todo.pop()\n        on(batch(8))\n        "


@pytest.mark.parametrize("body, mib", [
    ("for step in reversed(range(600)):\n        on(batch(8))\n        if step == 0: evaluate()", EVALUATED),
    ("for step in range(599, -1, -1):\n        on(batch(8))\n        if step == 100: evaluate()", EVALUATED),
    ("for epoch in range(20, 0, -1):\n        for x, in learn: on(x)\n        if epoch == 1: evaluate()", EVALUATED),
    ("left = 300\n    " + STEPS + "left -= 1\n        if left == 0: evaluate()", EVALUATED),
    ("left = 300\n    " + STEPS + "left = left - 1\n        if not left: evaluate()", EVALUATED),
    ("left = 200\n    " + STEPS + "left -= 1\n        if left <= 0:\n            evaluate()\n            left = 200", EVALUATED),
    (TAKEN + "if len(todo) == 9: evaluate()", EVALUATED),
    (TAKEN + "if not todo: evaluate()", EVALUATED),
    ("left = 500\n    while left > 0:\n        size = 4000 if left < 100 else 8\n        on(batch(size))\n        left -= 1", 74),
    ("for epoch in range(20):\n        left = 20 - epoch\n        for x, in learn: on(x if left > 3 else x.repeat(500, 1))", 74),
    ("part = 0.0\n    while part < 1:\n        on(batch(8 if part < 0.5 else 4000))\n        part += 1 / 512", 74),
    ("heat = 1.0\n    while heat > 0.01:\n        on(batch(8 if heat > 0.1 else 4000))\n        heat *= 0.99", 74),
    ("seen = 0\n    for epoch in range(20):\n        for x, in learn:\n            on(x)\n            seen += len(x)\n"
     "            if seen == 8000: evaluate()", EVALUATED),
    ("todo = [(4000, 10), (8, 300)]\n    while todo:\n        size, times = todo.pop()\n        for _ in range(times): "
     "on(batch(size))", 74),
    (STEPS + "if step == 300:\n            evaluate()\n            break", EVALUATED),
    ("left = 700\n    " + STEPS + "left -= 1\n        if left == 0: evaluate()", PLAIN),
    ("wait = 5\n    for epoch in range(20):\n        for x, in learn: loss = on(x).item()\n        if loss < 0: wait = 5\n"
     "        else: wait -= 1\n        if wait == 0: break", PLAIN),
], ids=["reversed", "range", "epochs", "left", "not left", "again", "list", "list is empty", "size", "variable", "part", "factor",
        "samples", "taken from a list", "ends the loop", "beyond the run", "patience"])
def test_what_falls_or_is_no_integer(capture, body, mib):
    code, said, f = capture(BODY + "    " + body)
    assert code == 0 and mib <= most(said) <= mib + 1 and f.header["flags"] & ~4 == 0, said


@pytest.mark.parametrize("body, line", [
    (STEPS + "if step == 300:\n            evaluate()\n            raise ValueError('short')", 30),
])
def test_what_cannot_be_seen_is_told(capture, body, line):
    """It is a doubt."""
    code, said, f = capture(BODY + "    " + body)
    assert code == 0 and "what is done at step 300 was not seen" in said and f.header["flags"] & 128, said


@pytest.mark.parametrize("body", [
    "train(); evaluate()", "def main(): train(); evaluate()\n    main()", "a, b = train(), evaluate()", "print(train(), evaluate())",
    "ok = train() and evaluate()", "if train(): evaluate()", "test = lambda _: evaluate()\n    print(test(train()))",
    "both = lambda: (train(), evaluate())\n    for n in range(5): both()", "[(train(), evaluate()) for n in range(5)]",
    "def both():\n        train()\n        evaluate()\n    for n in range(5): both()", "for n in range(5): train(); evaluate()",
], ids=["statements", "in a function", "tuple", "arguments", "and", "if", "outer call", "lambda", "comprehension", "function", "loop"])
def test_on_one_line(capture, body):
    train = "    def train():\n        for x, in learn: on(x)\n        return 1\n"
    code, said, f = capture(BODY + train + "    " + body)
    assert code == 0 and most(said) in (EVALUATED, EVALUATED + 1) and f.header["flags"] == 0, said


@pytest.mark.parametrize("source, asks", [
    ("for i in range(9):\n    if i == 5: f(x)", ["i == 5"]),
    ("for i in range(9):\n    if i == 5: print(x)", []),
    ("for i in range(9):\n    if i % 5 == 0: evaluate(x)", []),  # every.py has it
    ("for i in range(9):\n    if i % 5 == 0 and i > 3: evaluate(x)", ["i % 5 == 0 and i > 3"]),
    ("for i in range(9):\n    if i > 5 and g(x): f(x)", ["i > 5"]),
    ("if rank == 0: f(x)", []),
    ("for i in range(9):\n    lr = 0.1 if i > 5 else 0.2", []),
    ("for i in range(9):\n    if i > 5: lr = 0.5", []),
    ("for i in range(9):\n    if i > 5: schedule = sched.step()", []),
    ("while n:\n    n -= 1\n    if time.time() - t > 5 and n: f(x)", ["time.time() - t > 5", "n"]),
    ("for i in range(9):\n    t = time.time()\n    f(x)\n    if t > 5: f(x)", ["t > 5"]),
    ("for i in range(9):\n    if time.time() - t > 5: t = time.time()", []),
    ("for i in range(9):\n    t += loss.item()\n    if t > 5: f(x)", []),
    ("for i in range(9):\n    if (time.time() - t) / i > 5: print(i)", []),
])
def test_which_tests_ask(source, asks):
    assert [ast.unparse(node) for node in turning.parts(ast.parse(source))] == asks


@pytest.mark.parametrize("body", [
    "for step in range(1, 600):\n        if step % 16 == 0: kept = on(batch(4000))\n        on(batch(8))\n        "
    "if step % 16 == 0: more(kept)",
    "for epoch in range(1, 20):\n        if epoch % 5 == 0: kept = torch.ones(4, device='cuda')\n        "
    "for (x,) in learn: on(x)\n        if epoch % 5 == 0:\n            more(kept)\n            evaluate()",
    "for epoch in range(12):\n        if epoch == 6: kept = torch.ones(4, device='cuda')\n        for (x,) in learn:\n            on(x)\n"
    "            if epoch >= 6: more(kept)"],
    ids=["step", "evaluation", "within an epoch"])
def test_tests_of_one_counter_hold_together(capture, body):
    """What one has made is there for the other, wherever in a round the capture goes on."""
    code, said, f = capture(BODY + "    def more(kept): torch.zeros(40 << 18, device='cuda') + kept.sum()\n    " + body)
    assert code == 0 and most(said) > EVALUATED and f.header["flags"] == 0, said


def test_a_sum_that_each_call_begins_anew_counts_nothing(capture):
    code, said, f = capture("""
    import torch
    from torch.nn import functional as F
    from torch.utils.data import DataLoader, TensorDataset
    class Fold(torch.nn.Module):
        def __init__(self, period):
            super().__init__()
            self.period, self.layer = period, torch.nn.Conv2d(1, 8, 3, padding=1)
        def forward(self, x):
            b, c, t = x.shape
            if t % self.period != 0:
                pad = self.period - t % self.period
                x = F.pad(x, (0, pad))
                t = t + pad
            return self.layer(x.view(b, c, t // self.period, self.period)).sum()
    folds = torch.nn.ModuleList(map(Fold, (2, 3, 5, 7))).cuda()
    optimizer = torch.optim.SGD(folds.parameters(), lr=0.1)
    for epoch in range(200):
        for (x,) in DataLoader(TensorDataset(torch.randn(64, 1, 4096)), batch_size=4):
            optimizer.zero_grad()
            sum(fold(x.cuda()) for fold in folds).backward()
            optimizer.step()
        with torch.no_grad():
            sum(fold(torch.randn(1, 1, 66150).cuda()) for fold in folds)
    """)
    assert code == 0 and f.steps == 3200 and "not seen" not in said, said


def test_what_took_no_more_when_it_was_done_again_is_no_doubt(capture):
    """Though not all of the times in an epoch were seen."""
    _, said, f = capture("""
        import torch
        from torch.utils.data import DataLoader
        loader, model = DataLoader(torch.randn(1600, 4), batch_size=4), torch.nn.Linear(4, 4).cuda()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        metrics = {"positive": lambda out: (out > 0).mean()}
        def train():
            told = []
            for i, x in enumerate(loader):
                out = model(x.cuda())
                out.sum().backward()
                optimizer.step()
                if i % 100 == 0:
                    out = out.data.cpu().numpy()
                    told.append({name: metrics[name](out) for name in metrics})
        def evaluate():
            with torch.no_grad():
                for x in loader: model(x.cuda())
        for epoch in range(30):
            train()
            evaluate()
        """)
    assert f.steps == 12000 and "was not seen" not in said, said
