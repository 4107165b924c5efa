# SPDX-License-Identifier: MIT
"""Several trainings in one script: the capture is to see the largest of them."""
import ast
import re
import sys
import types

import pytest

torch = pytest.importorskip("torch")

from radrm.capture import trainings  # noqa: E402

CUT_SHORT = 128
SCRIPT = """
    import itertools, sys, torch
    from torch import nn
    from torch.utils.data import DataLoader, TensorDataset
    ONLY = int(sys.argv[1]) if len(sys.argv) > 1 else None
    lines = TensorDataset(torch.randn(1600, 64))
    loader = DataLoader(lines, batch_size=16)

    def wanted(stages):
        return stages if ONLY is None else [stages[ONLY]]

    def net(width):
        return nn.Sequential(nn.Linear(64, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 1)).cuda()

    def fit(model, loader=loader, epochs=50, each=1):
        optimizer = torch.optim.Adam(model.parameters(), foreach=False)
        for epoch in range(epochs):
            for step, (x,) in enumerate(loader):
                model(x.cuda()).pow(2).mean().backward()
                if step % each == each - 1:
                    optimizer.step()
                    optimizer.zero_grad()

    def steps(model, number=5000, size=16):
        optimizer = torch.optim.Adam(model.parameters(), foreach=False)
        done = 0
        while done < number:
            optimizer.zero_grad()
            model(torch.randn(size, 64, device="cuda")).pow(2).mean().backward()
            optimizer.step()
            done += 1
"""
ONE_AFTER_THE_OTHER = """
    if ONLY in (None, 0):
        SMALL
    if ONLY in (None, 1):
        LARGE
"""


def after(small, large):
    return ONE_AFTER_THE_OTHER.replace("SMALL", small).replace("LARGE", large)


STYLES = {
    "widths": ("for width in wanted([32, 64, 1024]):\n        fit(net(width))", 2),
    "a grid": ("for rate, width in itertools.product([0.1], wanted([32, 64, 1024])):\n        fit(net(width))", 2),
    "batches, no loader": ("for size in wanted([16, 256, 4096]):\n        steps(net(64), size=size)", 2),
    "numbered stages": ("stages = wanted([32, 64, 1024])\n    for stage in range(len(stages)):\n        steps(net(stages[stage]))", 2),
    "warm up": (after("fit(net(32))", "fit(net(1024))"), 1),
    "warm up, no loader": (after("steps(net(32))", "steps(net(1024))"), 1),
    "gradients summed up": (after("fit(net(32))", "fit(net(1024), each=8)"), 1),
    "given to somebody": ("def tuned(objective, trials):\n        for n in trials:\n            objective(n)\n"
                          "    tuned(lambda n: fit(net(32 * 2 ** n)), wanted(range(6)))", 5),
    "one optimizer, larger inputs": ("model = nn.Conv2d(3, 16, 3).cuda(); optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
                                     "    for size, number in wanted([(32, 100), (64, 100), (192, 100)]):\n"
                                     "        for step in range(number):\n"
                                     "            optimizer.zero_grad(); model(torch.randn(16, 3, size, size, "
                                     "device='cuda')).sum().backward(); optimizer.step()", 2),
    "batches that are asked for": (after("first = iter(loader); model = net(32); optimizer = "
                                         "torch.optim.Adam(model.parameters(), foreach=False)\n        for n in range(90):\n"
                                         "            model(next(first)[0].cuda()).sum().backward(); optimizer.step()",
                                         "fit(net(1024))"), 1),
    "a cycle": ("def cycle(loader):\n        while True:\n            for batch in loader:\n"
                "                print('batch'); yield batch\n" + after(
        "batches = cycle(loader); model = net(32); optimizer = torch.optim.Adam(model.parameters(), foreach=False)\n"
        "        for n in range(900):\n"
        "            model(next(batches)[0].cuda()).sum().backward(); optimizer.step()", "fit(net(1024))"), 1),
    "a generator is made there": ("def main():\n        def batches():\n            while True:\n"
                                  "                yield torch.randn(16, 64)\n        for width in wanted([32, 64, 1024]):\n"
                                  "            model = net(width); optimizer = torch.optim.Adam(model.parameters(), foreach=False)\n"
                                  "            for n, x in zip(range(900), batches()):\n"
                                  "                model(x.cuda()).sum().backward(); optimizer.step()\n    main()", 2),
    "a comprehension": ("losses = {width: fit(net(width)) for width in wanted([32, 64, 1024])}", 2),
    "returned": ("def train(model):\n        optimizer = torch.optim.Adam(model.parameters(), foreach=False); done = 0\n"
                 "        while True:\n            for x, in loader:\n"
                 "                model(x.cuda()).pow(2).mean().backward(); optimizer.step(); done += 1\n"
                 "                if done == 90:\n                    return model, done\n"
                 + after("model, done = train(net(32))", "model, done = train(net(1024))"), 1),
    "if": ("small, large = net(32), net(1024)\n    first, second = (torch.optim.Adam(m.parameters(), foreach=False) for m in "
           "(small, large))\n"
           "    def learn(model, optimizer):\n        for x, in loader:\n"
           "            optimizer.zero_grad(); model(x.cuda()).pow(2).mean().backward(); optimizer.step()\n"
           "    for epoch in range(20):\n        if epoch < {None: 10, 0: 99, 1: 0}[ONLY]:\n            learn(small, first)\n"
           "        else:\n            learn(large, second)", 1),
    "another loader": ("model = nn.Linear(64, 2048).cuda(); optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
                       "    loader = DataLoader(lines, 1600 if ONLY else 16)\n"
                       "    for epoch in range(20):\n        if epoch == 10 and ONLY is None:\n"
                       "            loader = DataLoader(lines, batch_size=1600)\n        for x, in loader:\n"
                       "            optimizer.zero_grad(); model(x.cuda()).sum().backward(); optimizer.step()", 1),
}


def most(said):
    return int(re.search(r"(\d+) MiB in tensors", said)[1])


@pytest.mark.parametrize("body, largest", STYLES.values(), ids=STYLES)
def test_the_largest_of_several(capture, body, largest):
    code, said, f = capture(SCRIPT + "\n    " + body)
    assert code == 0 and f.header["flags"] & CUT_SHORT == 0, said
    _, alone, _ = capture(SCRIPT + "\n    " + body, str(largest))
    _, first, _ = capture(SCRIPT + "\n    " + body, "0")
    assert most(alone) <= most(said) <= 1.2 * most(alone) + 2 and most(first) < most(alone) / 1.5


def test_the_figures_are_of_the_first(capture):
    _, said, f = capture(SCRIPT + STYLES["warm up"][0])
    _, _, alone = capture(SCRIPT + STYLES["warm up"][0], "0")
    assert f.kernels == alone.kernels and f.header["params"] == alone.header["params"], said
    assert f.steps == 2 * alone.steps == 10000
    _, _, f = capture(SCRIPT + "\n    for rate, width in itertools.product([0.1], (32, 64, 1024)):\n        fit(net(width))")
    assert f.steps == 3 * 5000


GAN = """
    fit(net(32))
    critic, generator, done = net(64), net(64), 0
    optimizers = [torch.optim.Adam(model.parameters(), foreach=False) for model in (critic, generator)]

    def both(x):
        for n in range(2):
            critic(x).sum().backward()
            optimizers[0].step()
        if WHEN:
            raise ValueError("no data")
        generator(x).sum().backward()
        optimizers[1].step()

    for x in [torch.randn(16, 64, device="cuda") for n in range(8)]:
        both(x)
        done += 1
"""


@pytest.mark.parametrize("body, told", [
    (after("fit(net(32)); raise ValueError('no data')", "fit(net(1024))"), True),   # another one would have come
    (after("fit(net(32))", "fit(net(1024)); raise ValueError('no data')"), False),  # all were seen
    ("\n    fit(net(32)); raise ValueError('no data')", False),
    # an epoch that makes its loader: those that were left out are as many batches of chance as the rest
    ("""
    model = net(32); optimizer = torch.optim.Adam(model.parameters(), foreach=False)
    for epoch in range(50):
        for x, in DataLoader(lines, batch_size={49: 1600}.get(epoch, 16)):
            optimizer.zero_grad(); model(x.cuda()).sum().backward(); optimizer.step()
    """, False),
    # two optimizers in each step of the last training: what comes behind the first one's in it is none
    (GAN.replace("WHEN", "done == 1"), False),
    # batches of one training, of whatever they are
    (GAN.replace("fit(net(32))", "").replace("range(8)]:", "range(8)]:\n        if done == 4:\n"
                                                           "            raise ValueError('no data')").replace("WHEN", "False"), False),
])
def test_what_was_not_seen_is_told(capture, body, told):
    code, said, f = capture(SCRIPT + body)
    assert code == 0 and (f.header["flags"] & CUT_SHORT > 0) == ("several trainings" in said) == told, said


ENGINE = """
class Engine:
    def __init__(self, each):
        self.each = each
    def run(self, loader):
        for x, in loader:
            self.each(x)
"""


def test_what_a_librarys_engine_runs_is_not_a_function_of_that_name(capture, tmp_path):
    (tmp_path / "site-packages").mkdir()
    (tmp_path / "site-packages/engines.py").write_text(ENGINE)
    code, said, f = capture(SCRIPT + """
    import sys
    sys.path.append("site-packages")
    from engines import Engine
    def run():
        model = net(32); optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        def learn(x):
            optimizer.zero_grad(); model(x.cuda()).sum().backward(); optimizer.step()
        def look(x):
            with torch.no_grad(): model(x.cuda())
        trainer, evaluator = Engine(learn), Engine(look)
        for epoch in range(50):
            trainer.run(loader)
        evaluator.run(lines)
    run()
    """)
    assert code == 0 and [p for _, p in f.marks].count(1) == 3, said


@pytest.mark.parametrize("decorator", ["njit", "numba.jit(nopython=True)"])
def test_loops_of_what_numba_compiles_stay(decorator):
    """It knows no function that they would call."""
    tree = trainings.Looping().visit(ast.parse(f"@{decorator}\ndef f(a):\n    for i in range(9):\n        a = max(a, i)\n"
                                               f"for i in f(2):\n    print(i)"))
    assert trainings.FOR not in ast.unparse(tree.body[0]) and trainings.FOR in ast.unparse(tree.body[1])


@pytest.mark.parametrize("body", [
    "fit(net(32))\n    model = net(32); model.train(); print(model)",
    "for n in range(1):\n        d, g = net(32), net(32)\n    steps(d)",
    "model = net(32); optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n    for x, in loader:\n"
    "        optimizer.zero_grad(); model(x.cuda()).sum().backward()\n"
    "        optimizer.step()\n    print([p.sum().item() for p in model.parameters()])"])
def test_one_training_is_over_as_soon_as_before(capture, body):
    code, said, f = capture(SCRIPT + "\n    " + body)
    assert code == 0 and [p for _, p in f.marks].count(1) == 3, said


def test_many_that_are_alike(capture, monkeypatch):
    """Where they take long, the rest is believed to be like those that were seen, but for the last."""
    from radrm.capture import trainings
    monkeypatch.setattr(trainings, "LONG", 0)
    code, said, f = capture(SCRIPT + """
    for n in range(40):
        print("training", n, flush=True)
        fit(net(32 if n < 39 else 256))
    """, options=["-v"])
    seen = [int(n) for n in re.findall(r"training (\d+)", said)]
    assert code == 0 and len(seen) < 10 and seen[-1] == 39 and f.header["flags"] & CUT_SHORT, said  # as those between may be larger still
    _, said, f = capture(SCRIPT + "\n    for n in range(40):\n        fit(net(32))")
    assert f.header["flags"] & CUT_SHORT == 0, said


def test_what_is_alike_is_left_out_after_as_much_on_any_machine():
    session = types.SimpleNamespace(recorder=types.SimpleNamespace(operators=trainings.LONG + 7),
                                    later=types.SimpleNamespace(ran=7, deadline=0, patience=0))
    assert not trainings.Trainings(session).waits()
    session.recorder.operators += 1
    assert trainings.Trainings(session).waits()


def most_on_streams(f):
    """Bytes that are alive at once, of each stream that is not the first."""
    stream, of, live, most = 0, [], {}, {}
    for kind, argument, _ in f.records:
        if kind == 3:
            stream = argument
        elif kind == 1:
            of.append((stream, argument))
            live[stream] = live.get(stream, 0) + argument
            most[stream] = max(most.get(stream, 0), live[stream])
        elif kind == 2:
            where, nbytes = of[len(of) - 1 - argument]
            live[where] -= nbytes
    return {number: nbytes for number, nbytes in most.items() if number}


@pytest.mark.parametrize("made", ["for epoch in range(10):\n        batches = Fetched(DataLoader(lines, batch_size=16))",
                                  "for epoch in range(10):\n        batches = Fetched(loader)",
                                  "for epoch in range(1000):\n        batches = Fetched(loader)",
                                  "while True:\n        batches = Fetched(loader)"],
                         ids=["and a loader", "over one loader", "many", "without an end"])
def test_a_stream_of_each_epoch(capture, made):
    """What is fetched on a stream has memory of its own there, and every epoch's is another, of 32. Epochs that are gone
    through quickly fetch less at once."""
    code, said, f = capture(SCRIPT + """
    class Fetched:
        def __init__(self, loader):
            self.left, self.stream = iter(loader), torch.cuda.Stream()
            self.fetch()

        def fetch(self):
            with torch.cuda.stream(self.stream):
                self.next = next(self.left, [None])[0]
                self.next = self.next if self.next is None else self.next.cuda()

        def __iter__(self):
            while self.next is not None:
                now = self.next
                self.fetch()
                yield now

    model = net(32); optimizer = torch.optim.Adam(model.parameters(), foreach=False)
    MADE
        for x in batches:
            optimizer.zero_grad(); model(x).sum().backward(); optimizer.step()
    """.replace("MADE", made))
    streams = {argument for kind, argument, _ in f.records if kind == 3}
    number = 11 if "range(10)" in made else 33
    assert code == 0 and streams == set(range(number)), said
    assert most_on_streams(f) == {stream: 3 * 16 * 64 * 4 for stream in streams - {0}}, said


def test_what_a_loop_goes_over_is_the_scripts_own(capture):
    """Its attributes are not asked for, and a round's value is gone when the script has put another in its place."""
    code, said, _ = capture(SCRIPT + """
    class Settings(dict):
        __getattr__ = dict.__getitem__

    def batches():
        while True:
            yield torch.zeros(16, 1 << 20, device="cuda")

    for name in Settings(lines=16):
        print(str(name))
    model = net(32); optimizer = torch.optim.Adam(model.parameters(), foreach=False)
    for x in batches():
        x = x[:, :64].clone()
        larger = torch.zeros(16, 1 << 20, device="cuda")
        optimizer.zero_grad(); model(x).sum().backward(); optimizer.step()
        del larger
    """)
    assert code == 0 and 64 <= most(said) < 70, said


def test_a_source_too_deep_to_be_changed(capture):
    code, said, f = capture(SCRIPT + f"""
    number = {" + ".join(["1"] * 900)}
    fit(net(number - 836))
    """)
    assert code == 0 and f.steps == 5000, said


def test_loops_of_other_threads_are_beside_the_training(capture):
    code, said, f = capture(SCRIPT + """
    import queue, threading
    batches = queue.Queue(2)

    def feed():
        while True:
            batches.put(torch.randn(16, 64))
    threading.Thread(target=feed, daemon=True).start()
    model = net(32); optimizer = torch.optim.Adam(model.parameters(), foreach=False)
    for n in range(900):
        optimizer.zero_grad(); model(batches.get().cuda()).sum().backward(); optimizer.step()
    """)
    assert code == 0 and [p for _, p in f.marks].count(1) == 3, said


def test_short_loops_cost_little():
    """Those of what comes before a training, one for each line of a text, say."""
    from radrm.capture import trainings
    called, given = [], {}
    trainings.install(trainings.Trainings(None), lambda _, name, function: given.update({name: function}))

    def loop():
        for _ in given[trainings.FOR](range(3), 1):
            pass
    sys.setprofile(lambda frame, event, _: called.append(frame.f_code.co_name) if event == "call" else None)
    try:
        loop()
    finally:
        sys.setprofile(None)
    assert len(called) <= 9, called  # each round one, and what begins and ends the loop


@pytest.mark.parametrize("call, begins", [
    ("run(3)", True), ("run(3, False)", False), ("run(3, learns=False)", False), ("run(3, learns=quick)", True),
    ("whole(3)", False), ("whole(3, learns=True)", True),
    ("agent.train(3, False)", False), ("agent.train(3)", True), ("either(False)", True), ("run(*all)", True),
    ("run(learns=None, n=3)", False),
])
def test_a_function_that_is_told_not_to_train(tmp_path, call, begins):
    """As `train(loader, backprop=False)`, which is an evaluation."""
    script = tmp_path / "train.py"
    script.write_text("""
def run(n, learns=True):
    for _ in range(n):
        loss = model(x)
        if learns and n:
            loss.backward()
def whole(n, *, learns=False):
    if learns:
        run(n)
class Agent:
    def train(self, n, learns=True):
        if learns: loss.backward()
def either(learns):
    if learns: print(3)
    loss.backward()
""")
    names = trainings.functions([str(script)])
    assert trainings.begins_one(ast.parse(call, mode="eval").body, names) == begins


def test_an_evaluation_by_the_training_function_is_seen(capture):
    code, said, f = capture("""
    import torch
    from torch.utils.data import DataLoader
    model = torch.nn.Linear(64, 64).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    small, large = (DataLoader(torch.randn(n * 40, 64), batch_size=n) for n in (16, 4096))

    def train(loader, learns=True):
        for x in loader:
            loss = model(x.cuda()).sum()
            if learns:
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
    for epoch in range(100):
        train(small)
        train(large, False)
    """)
    assert code == 0 and f.header["flags"] & CUT_SHORT == 0 and "several" not in said
    assert any(4096 * 64 * 4 in f.iteration(n) for n in range(len(f.marks)))


def test_a_loader_of_several_batches_at_once_is_one_training(capture):
    code, said, f = capture("""
    import torch
    from torch.utils.data import DataLoader
    model = torch.nn.Linear(64, 64).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader, step = DataLoader(torch.randn(640, 64), batch_size=64, collate_fn=lambda x: [torch.stack(x[n::4]) for n in range(4)]), 0
    while True:
        for batches in loader:
            for x in batches:
                model(x.cuda()).sum().backward()
                optimizer.step()
                optimizer.zero_grad()
                step += 1
                if step % 6 == 0:
                    model.eval()
                    with torch.no_grad():
                        for x in DataLoader(torch.randn(16, 64)): model(x.cuda())
                    raise ValueError("of what was computed")
                if step == 1000: raise SystemExit
    """)
    assert code == 0 and f.header["flags"] & CUT_SHORT == 0 and "several trainings" not in said, said


def test_rounds_of_a_solver_are_alike(capture):
    """L-BFGS has thousands in a step: of a training that follows a few are enough, with all directions that it keeps, and what
    comes behind it is seen."""
    code, said, f = capture(SCRIPT + """
    fit(net(32))
    model, rounds = net(64), 0
    def closure():
        global rounds
        rounds += 1
        optimizer.zero_grad()
        loss = model(torch.randn(16, 64, device="cuda")).sum()
        loss.backward()
        return loss
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=5000, history_size=50, tolerance_grad=0, tolerance_change=0)
    for n in range(3):
        optimizer.step(closure)
    torch.empty(1000 if rounds < 20 else 1, 2**18, device="cuda")
    """)
    assert code == 0 and f.header["flags"] & CUT_SHORT == 0 and most(said) >= 1000, said
