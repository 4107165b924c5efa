# SPDX-License-Identifier: MIT
"""Evaluations, which come later in a run than the steps that are captured."""
import itertools
import re
import textwrap
import types

import pytest

torch = pytest.importorskip("torch")

from radrm.capture import later  # noqa: E402
from reader import peak  # noqa: E402
from test_later import LOADER  # noqa: E402

W = 512 * 512 * 4

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
    ("if (epoch + 1) % 5 != 0: continue\n        print(evaluate(rest))", 8, 1 / 5),
    ("print(epoch)", 8, 0),
    ("class Stream(torch.utils.data.IterableDataset):\n            def __iter__(self): return iter(torch.randn(9, 512))\n"
     "        with torch.no_grad():\n            for x in DataLoader(Stream()): loss_of(x.cuda())", 8, 0),
])
def test_evaluations_of_the_whole_run(capture, after, width, share):
    """Of so small a model all is the host's: an evaluation's batch takes five modules and as many operators, a step twice the
    operators more."""
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
    """Of 400 rows each: what four layers take and give, while the name `out` holds that of the batch before; beside weights and
    gradients of 4 MiB."""
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


@pytest.mark.parametrize("before, after, passes", [
    ("", "model.eval()\n        for n in range(4): out = model(torch.randn(800, 512).cuda())", 5),
    ("model.eval()", "for n in range(4): print(n)", 3),
], ids=["behind", "before"])
def test_a_model_that_is_put_to_a_test_behind_the_steps(capture, before, after, passes):
    """Of pictures by their numbers, in no loader: an epoch is ended for it. What comes before the steps is no sign."""
    body = EVALUATED.replace("for x, in learn:", f"n = epoch; {before or 'pass'}\n        for x, in learn:", 1)
    code, said, f = capture(body.replace("WIDTH", "8").replace("AFTER", after))
    assert code == 0 and len([p for _, p in f.marks if p == 1]) == passes, said
    assert (peak(f.events) >= 2 * 4 * W + 2 * 5 * 800 * 512 * 4) == (passes == 5)


@pytest.mark.parametrize("after", ["print(len(rest), rest)", "other = rest", "for x in range(len(rest)): print(x)",
                                   "def unused():\n            for x, in rest: model(x)"])
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


def test_a_pass_beside_all_that_was_kept(capture):
    """What the last passes take for a while is there beside what is kept of all before: 100 times 8 rows of 1024, and a pass that makes
    16 MiB. Few are run for it."""
    body = gathered(after="pass").replace("model = nn.Linear(512, 1024, bias=False)", """class Net(nn.Linear):
        def forward(self, x):
            return super().forward(x) + torch.empty(4096, 1024, device="cuda").sum()
    model = Net(512, 1024, bias=False)""").replace("batch_size=8)", "batch_size=80)").replace("randn(800", "randn(8000")
    code, said, f = capture(body)
    kept = 8000 * 1024 * 4
    assert code == 0 and 0.93 * (kept + (16 << 20)) <= peak(f.events) - 4 * 512 * 1024 <= 1.1 * (kept + (16 << 20)), (said, peak(f.events))
    assert f.events.count(16 << 20) <= 40


def test_an_evaluation_that_keeps_too_much_to_be_gone_through(capture, monkeypatch):
    """Somebody is told of its passes, so each is run, and there is no time for all: what the rest would keep is added, and as
    much to join it."""
    monkeypatch.setattr("radrm.capture.later.PATIENCE", 40)
    code, said, f = capture(gathered(more="model.register_forward_hook(lambda *_: None)"))
    number = int(re.search(r"of each of its 100 batches, of which (\d+) were captured", said)[1])
    assert code == 0 and 2 <= number < 40 and (100 - number) * JOINED // 50 in f.events, said


TEXT = """
    import torch
    from torch import nn
    model = nn.Sequential(nn.Embedding(256, 64), *[nn.Linear(64, 64) for _ in range(20)], nn.Linear(64, 256)).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, foreach=False)
    def generate(text):
        for n in ROUNDS:
            logits = model.forward(text)[:, -1]
            text = torch.cat([text, logits.argmax(-1, keepdim=True)], 1)
        return text
    for step in range(2000):
        model(torch.zeros(64, 512, dtype=torch.int64, device="cuda")).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
        if step and step % 500 == 0:
            generate(torch.zeros(1, 1, dtype=torch.int64, device="cuda"))
            torch.empty(1234567, device="cuda")
"""


@pytest.mark.parametrize("rounds, patience, end", [("range(8000)", 2000, True), ("iter(int, 1)", 800, False)], ids=["an end", "none"])
def test_a_text_that_is_written_without_a_loader(capture, monkeypatch, rounds, patience, end):
    """A word a round, with gradients, each round a little more than the one before: enough is enough, and what is behind it is
    seen. One that has no end ends it."""
    monkeypatch.setattr("radrm.capture.later.PATIENCE", patience)
    monkeypatch.setattr("radrm.capture.trainings.QUIET", 300 if end else 10**6)
    code, said, f = capture(TEXT.replace("ROUNDS", rounds), options=["--timeout", "60"])
    assert code == 0 and f.header["flags"] == 0 and (4 * 1234567 in f.events) == end, said


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
    (tmp_path / "transformers"
     / "__init__.py").write_text(textwrap.dedent(TRAINER.replace("num_train_epochs=3", "num_train_epochs=3, eval_steps=9").replace(
        "max_steps=150", f"max_steps=150, eval_steps={steps}, global_step=0").replace("self.optimizer.step()\n", """self.optimizer.step()
                    self.state.global_step += 1
                    if self.args.eval_strategy == "steps" and self.state.global_step % self.state.eval_steps == 0:
                        self.look()
""").replace("                self.look()\n        @", "        @")))
    code, said, f = capture("from transformers import Trainer; Trainer('steps').train()")
    assert code == 0 and f.steps == 150 and (800 * 512 * 4 in f.events) == seen and (f.beside > 0) == seen, said


@pytest.mark.parametrize("after, seen", [("print(trainer)", False), ("trainer.evaluate()", True), ("print(trainer.predict())", True)])
def test_what_a_library_evaluates_once_it_has_trained(capture, tmp_path, after, seen):
    """A training that its library can be told to end does, after enough of it was seen."""
    (tmp_path / "transformers").mkdir()
    trainer = TRAINER.replace("self.look()", "").replace("self.optimizer.step()\n", """self.optimizer.step()
                    if self.control.should_training_stop:
                        return
""").replace("self.model =", "self.control = types.SimpleNamespace(should_training_stop=False)\n            self.model =")
    trainer += "        evaluate = predict = look\n"
    (tmp_path / "transformers" / "__init__.py").write_text(textwrap.dedent(trainer))
    code, said, f = capture(f"from transformers import Trainer\ndef train():\n    trainer.train()\n"
                            f"trainer = Trainer('no'); train()\n{after}")
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
    """Each of its many batches has operators of the script's own, as a rank that is looked up for each example: all of them
    would take minutes."""
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


NEXT = """
    import torch
    from torch.utils.data import DataLoader, TensorDataset
    loader, test = (DataLoader(TensorDataset(torch.randn(64, 64)), batch_size=4) for _ in range(2))
    model = torch.nn.Linear(64, 64).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step(batch):
        model(batch[0].cuda()).sum().backward()
        optimizer.step()
        optimizer.zero_grad()

    def evaluate():
        with torch.no_grad():
            for batch in test:
                torch.zeros(1 << 26, device="cuda")

    BODY
"""
NEXTS = {
    "range": """for epoch in range(3):
        batches = iter(loader)
        for i in range(len(loader)): step(next(batches))
        evaluate()""",
    "function": """def get(batches):
        return next(batches)
    for epoch in range(3):
        try:
            batches = iter(loader)
            for i in range(16): step(get(batches))
        except RuntimeError:
            pass
        evaluate()""",
    "two of them": """for epoch in range(3):
        batches, i = iter(loader), 0
        while i < 16:
            for _ in range(2):
                step(next(batches))
                i += 1
        evaluate()""",
    "restart": """batches = iter(loader)
    for i in range(48):
        try:
            batch = next(batches)
        except StopIteration:
            batches = iter(loader)
            batch = next(batches)
            evaluate()
        step(batch)""",
    "restart elsewhere": """def get():
        return next(batches)
    batches = iter(loader)
    for i in range(48):
        try:
            batch = get()
        except StopIteration:
            batches = iter(loader)
            batch = get()
            evaluate()
        step(batch)""",
    "default": """for epoch in range(3):
        batches = iter(loader)
        while (batch := next(batches, None)) is not None: step(batch)
        evaluate()""",
    "it is over": """for epoch in range(3):
        batches = iter(loader)
        for batch in batches: step(batch)
        assert next(batches, 7) == 7
        evaluate()
        assert next(batches, 7) == 7""",
}


@pytest.mark.parametrize("body", NEXTS.values(), ids=NEXTS)
def test_batches_that_next_gives(capture, body):
    """A loader that ends before its time ends no script that counts on more; one that begins it anew then does so."""
    code, said, f = capture(NEXT.replace("BODY", body))
    assert code == 0 and f.header["flags"] == 0 and "not seen" not in said and peak(f.events) > 256 << 20, said


def test_too_many_batches_that_next_gives(capture, monkeypatch):
    monkeypatch.setattr("radrm.capture.later.PATIENCE", 400)
    body = NEXT.replace("BODY", NEXTS["range"]).replace("torch.randn(64, 64)", "torch.randn(4000, 64)")
    code, said, f = capture(body)
    assert code == 0 and "steps was not seen: next() takes batch after batch" in said and peak(f.events) < 256 << 20, said


def test_an_evaluation_over_what_gives_no_length(capture):
    """A progress bar over what has none says that it has one (TensoRF's evaluation was not seen)."""
    code, said, f = capture("""
    import torch
    class Bar:
        def __init__(self, iterable):
            self.iterable, self.total = iterable, None
        def __len__(self):
            return self.total
        def __iter__(self):
            yield from self.iterable
    model = torch.nn.Linear(64, 64).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    def evaluate():
        with torch.no_grad():
            for n, x in Bar(enumerate(torch.rand(20, 4, 64))):
                model(x.cuda())
                big = torch.zeros(1 << 26, device="cuda") if n == 19 else None
    for step in range(1000):
        model(torch.randn(4, 64).cuda()).sum().backward()
        optimizer.step()
        if step % 100 == 99: evaluate()
    """)
    assert code == 0 and "not seen" not in said and peak(f.events) > 256 << 20, said
