# SPDX-License-Identifier: MIT
"""What scripts that people have do before, beside and instead of steps of an optimizer."""
import re
import time

import pytest

torch = pytest.importorskip("torch")

from radrm.capture import ending, script  # noqa: E402
from radrm.capture.session import Finished, Session  # noqa: E402
from reader import peak  # noqa: E402

DATA_DEPENDENT, CUT_SHORT = 1, 128

BY_HAND = """
    import torch
    model = torch.nn.Linear(256, 256).to("cuda")
    losses = []
    for step in range(100000):
        x = torch.randn(8, 256, device="cuda")
        model.zero_grad()
        losses.append(FORWARD.sum())
        losses[-1].backward()
        losses[-1] = losses[-1].detach()
        with torch.no_grad():
            for p in model.parameters():
                p.data.add_(p.grad, alpha=-0.1)
"""


@pytest.mark.parametrize("forward", ["model(x)", "(x @ model.weight + model.bias)"])
def test_parameters_changed_by_hand(capture, forward):
    code, said, f = capture(BY_HAND.replace("FORWARD", forward))
    assert code == 0 and re.search("no optimizer: 1[12] backward passes were captured", said), said
    assert f.header["flags"] & CUT_SHORT == 0 and [p for _, p in f.marks].count(1) >= 10
    assert 256 * 256 * 4 in f.iteration(1)  # the gradient of the weights


EVALUATED = """
    import torch
    ran = 0
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer, self.kept = torch.nn.Linear(64, 64), []
        def forward(self, x):
            global ran
            ran += not torch.is_grad_enabled()
            KEEP
            return {"y": self.layer(x), "n": 3, "none": None}
    model = Net().to("cuda")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    found = []
    for epoch in range(3):
        found.clear()
        with torch.no_grad(), torch.autocast("cuda", torch.bfloat16):
            for i in range(400):
                found.append(model(torch.randn(4 if i % 2 else 1024, 64, device="cuda"))["y"].cpu())
        assert len(found) == 400 and found[0].shape == (1024, 64) and found[1].shape == (4, 64)
        print("passes that ran:", ran, flush=True)
        model(torch.randn(4, 64, device="cuda"))["y"].sum().backward()
        optimizer.step()
"""


def passes_that_ran(said):
    return [int(line.rpartition(" ")[2]) for line in said.splitlines() if "passes that ran" in line]


WITHIN = """        with torch.no_grad(), torch.autocast("cuda", torch.bfloat16):
            for i in range(400):
                found"""
EACH = """        for i in range(400):
            with torch.no_grad(), torch.autocast("cuda", torch.bfloat16):
                found"""  # weights are made in less precision for each, and are alive at its end


@pytest.mark.parametrize("within", [WITHIN, EACH], ids=["all", "each"])
def test_passes_of_an_evaluation_that_repeat_are_not_run_again(capture, within):
    code, said, f = capture(EVALUATED.replace("KEEP", "pass").replace(WITHIN, within), options=["-v"])
    assert code == 0, said
    ran = passes_that_ran(said)
    assert len(ran) == 3 and ran[0] <= 20 and ran[2] <= 60, said
    assert f.iteration(1).count(1024 * 64 * 2) >= 3  # what the larger of the two asks for was asked


@pytest.mark.parametrize("keep", [
    "self.kept.append(x * 2)",  # it grows by each
    "self.layer._forward_hooks or self.layer.register_forward_hook(lambda *_: None)",  # somebody is told of each
])
def test_passes_that_leave_something_are_all_run(capture, keep):
    code, said, _ = capture(EVALUATED.replace("KEEP", keep), options=["-v"])
    assert code == 0 and passes_that_ran(said)[0] == 400, said



SUMMED = """
    import torch
    ran = 0
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layers, self.aside = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 8)), None
        def forward(self, x, y):
            global ran
            ran += 1
            z = self.layers(x)
            ASIDE
            return {"logits": z, "loss": torch.nn.functional.cross_entropy(z, y), "n": 3}
    model = Net().to("cuda")
    optimizer = torch.optim.AdamW(model.parameters())
    losses, all_of = [], []
    for step in range(5):
        for i in range(50):
            x, y = torch.randn(32, 64, device="cuda"), torch.randint(8, (32,), device="cuda")
            out = model(x, y)
            loss = out["loss"] / 50
            losses.append(loss.detach())
            BACKWARD
        print("passes that ran:", ran, flush=True)
        optimizer.step()
        optimizer.zero_grad()
"""


def summed(capture, aside="pass", backward="loss.backward()"):
    code, said, f = capture(SUMMED.replace("ASIDE", aside).replace("BACKWARD", backward), options=["-v", "--no-cache"])
    assert code == 0, said
    return passes_that_ran(said), f


def test_passes_that_are_summed_up_are_not_run_again(capture, monkeypatch):
    """And what was captured is the same: the work of a step, and memory but for the losses that are kept meanwhile."""
    from radrm.capture import repeated
    ran, f = summed(capture)
    monkeypatch.setattr(repeated, "LEARNT", 10**6)
    all_ran, g = summed(capture)
    assert ran == [4, 8, 12] and all_ran == [50, 100, 150]
    assert (f.host, f.kernels, f.steps) == (g.host, g.kernels, g.steps)
    assert 0 <= peak(g.events, 512) - peak(f.events, 512) <= 50 * 512


@pytest.mark.parametrize("aside, backward", [
    ("self.aside = z.square().mean()", "(loss + model.aside).backward()"),  # what learns comes another way
    ("pass", "torch.autograd.backward(loss, inputs=[*model.parameters()]); all_of = [p.grad.clone() for p in "
             "model.parameters()]; optimizer.zero_grad()"),
    ("pass", "for p, g in zip(model.parameters(), torch.autograd.grad(loss, [*model.parameters()])): p.grad = g"),
    ("pass", "all_of.append(out['logits']); loss.backward(retain_graph=True)"),
    ("self.layers[0].weight._backward_hooks or self.layers[0].weight.register_hook(lambda g: g)", "loss.backward()"),
], ids=["aside", "each by itself", "grad", "kept", "watched"])
def test_passes_that_are_not_only_summed_up_are_all_run(capture, aside, backward):
    assert summed(capture, aside, backward)[0] == [50, 100, 150]


KEPT = """
    import torch
    model, losses = torch.nn.Linear(512, 512, bias=False).cuda(), []
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(STEPS):
        loss = model(torch.randn(64, 512, device="cuda")).square().mean()
        optimizer.zero_grad()
        loss.backward(retain_graph=True)
        optimizer.step()
        losses.append(KEEP)
"""


@pytest.mark.parametrize("keep, steps, told", [
    ("loss", 2000, 500),  # the input, what the layer makes of it, and the loss: 256 KiB and some bytes
    ("loss.detach()", 2000, 0), ("loss.item()", 2000, 0), ("loss", 9, 0), ("loss.detach() if step else loss", 10**6, 488),
])
def test_what_each_step_leaves_behind_is_told(capture, keep, steps, told):
    code, said, f = capture(KEPT.replace("KEEP", keep).replace("STEPS", str(steps)))
    assert code == 0 and (f"MiB on the GPU, {told} MiB after all {steps}, which is not claimed" in said) == bool(told), said


def test_what_an_evaluation_keeps_of_its_last_and_best_is_no_growth(capture):
    _, said, f = capture("""
        import torch
        model, best = torch.nn.Linear(512, 512, bias=False).cuda(), None
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for step in range(2000):
            model(torch.randn(64, 512, device="cuda")).square().mean().backward()
            optimizer.step()
            tested = model(torch.randn(64, 512, device="cuda")).square().mean()
            if step == 0: best = tested
        """)
    assert f.steps == 2000 and "each step leaves" not in said, said


LATER = """
    import sys, torch
    model = torch.nn.Linear(8, 8).to("cuda")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    try:
        for _ in range(9):
            model(torch.randn(4, 8, device="cuda")).sum().backward()
            optimizer.step()
    except BaseException:
        HANDLE
"""


@pytest.mark.parametrize("handle", ["sys.exit(1)", "raise ValueError", "pass"])
def test_what_was_seen_counts_whatever_is_made_of_the_end(capture, handle):
    code, said, f = capture(LATER.replace("HANDLE", handle))
    assert code == 0 and f.header["flags"] & CUT_SHORT == 0 and [p for _, p in f.marks].count(1) == 3, said


def test_threads(capture):
    """As libraries load weights."""
    code, said, f = capture("""
        import torch
        from concurrent.futures import ThreadPoolExecutor
        model = torch.nn.Sequential(*(torch.nn.Linear(64, 64, bias=False) for _ in range(32)))
        with ThreadPoolExecutor(4) as pool:
            made = list(pool.map(lambda p: p.detach().to("cuda"), model.parameters()))
        for layer, weight in zip(model, made):
            layer.weight = torch.nn.Parameter(weight)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(9):
            model(torch.randn(4, 64, device="cuda")).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
    """)
    assert code == 0 and f.events[:f.marks[0][0]].count(64 * 64 * 4) == 32, said


def test_pictures_and_metrics(capture, tmp_path, monkeypatch):
    """Libraries of the same names stand for TensorBoard's writer and torchmetrics."""
    monkeypatch.syspath_prepend(tmp_path)
    metrics = tmp_path / "torchmetrics" / "functional" / "classification"
    metrics.mkdir(parents=True)
    (tmp_path / "tensorboardX").mkdir()
    for name in ("torchmetrics/__init__.py", "torchmetrics/functional/__init__.py", "tensorboardX/__init__.py"):
        (tmp_path / name).touch()
    (tmp_path / "tensorboardX" / "writer.py").write_text(
        "class SummaryWriter:\n    def add_graph(self, model, x):\n        import torch\n        torch.jit.trace(model, x).graph\n")
    (metrics / "__init__.py").write_text(
        "def _multiclass_tensor_validation(target):\n    if len(target.unique()) > 2:\n        raise RuntimeError(target)\n"
        "def accuracy(target):\n    _multiclass_tensor_validation(target)\n    return target.float().mean()\n")
    code, said, f = capture(STEP.replace("BODY", """
        from tensorboardX.writer import SummaryWriter
        from torchmetrics.functional.classification import accuracy
        SummaryWriter().add_graph(model, torch.ones(1, 8, device="cuda"))
        accuracy(y.argmax(1))"""))
    assert code == 0 and f.header["flags"] & CUT_SHORT == 0, said


def test_imports_take_of_the_time(capture, monkeypatch):
    """What is imported before the script begins is slow on a loaded machine: it is no reason to find nothing."""
    real = script.surround

    def slowly(*args):
        until = time.process_time() + 4
        while time.process_time() < until:
            pass
        real(*args)
    monkeypatch.setattr(script, "surround", slowly)
    code, said, f = capture(BY_HAND.replace("FORWARD", "model(x)").replace("100000", "2") + "    while True: pass\n",
                            options=["--timeout", "8"])
    assert code == 0 and "cut short after 2 backward passes: time" in said, said


STEP = """
    import torch
    from torch.distributions import Categorical, Dirichlet, Independent, MultivariateNormal, Normal
    model = torch.nn.Linear(8, 8).to("cuda")
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(9):
        y = model(torch.randn(4, 8, device="cuda"))
        BODY
        optimizer.zero_grad()
        y.sum().backward()
        optimizer.step()
"""


@pytest.mark.parametrize("body", [
    "Normal(y, y.exp()).log_prob(y.detach())",
    "a = Categorical(logits=y).sample(); Categorical(logits=y).log_prob(a); Categorical(probs=y.softmax(1)).entropy()",
    "Independent(Normal(y, torch.nn.functional.softplus(y)), 1).rsample()",
    "Dirichlet(y.exp()).log_prob(y.softmax(1))",
    "assert y.min() >= -99 and y.isfinite().all()",
    "assert (y.argmax(1) < 8).all(), \\\n            'classes'",
    "assert bool((y > 0).any()) and (y > 0).any().item() and y.sum().item() < 0",
    "if not torch.all(y < 99): raise ValueError",
    "if (y == 0).any(): raise ValueError('a zero')\n        if y.sum().item() < 5 or y.isnan().any():\n"
    "            raise RuntimeError(f'{y}')",
    "s = torch.cuda.Stream()\n        with torch.cuda.stream(stream=s): torch.cuda.current_stream(device='cuda:0').wait_stream(s)",
    "torch.cuda.memory_stats(device=0), torch.cuda.mem_get_info(device=0), torch.cuda.get_rng_state(device='cuda')",
    "model.share_memory()",
    "class Shown(torch.Tensor): pass\n        z = y.as_subclass(Shown) + torch.ones(8).as_subclass(Shown).cuda(); assert z.is_cuda",
    "import inspect; assert 'batch_size' in inspect.signature(torch.utils.data.DataLoader.__init__).parameters",
    "T = torch.cuda.FloatTensor; z = torch.ones(3).type(T); assert isinstance(z, T) and not isinstance(z, torch.cuda.LongTensor)",
    "T = torch.cuda.LongTensor; assert T(2, 3).shape == (2, 3) and T([1, 2]).tolist() == [1, 2] and T(torch.Size([4])).is_cuda",
    "assert torch.ones(3).type('torch.cuda.HalfTensor').dtype == torch.float16 and torch.cuda.FloatTensor().numel() == 0",
    "torch.set_default_tensor_type('torch.cuda.FloatTensor'); assert torch.ones(3).is_cuda and torch.Tensor([1e10]).is_cuda\n"
    "        assert torch.Tensor(2, 3).shape == (2, 3) and not torch.FloatTensor([1.]).is_cuda and torch.Tensor([y.sum().item()]).is_cuda",
    "s = torch.tensor(0.).cuda()\n        with torch.no_grad(): torch._foreach_add_([s], 1)\n        1 / s.item()",
    "z = y.new_tensor([1, 2]); assert z.is_cuda and z.dtype == y.dtype and (y[:, :2] - z).requires_grad",
    "z = y.new_tensor([y.sum().item()], requires_grad=True); assert z.requires_grad and y.new_tensor(y.detach()).shape == y.shape",
    "assert y.new_tensor(3, dtype=torch.long).item() == 3 and y.new_tensor([1.], device='cpu').tolist() == [1]",
    "assert torch.ones(3).new_tensor([1.], device='cuda').is_cuda and not torch.ones(3).new_tensor([1.]).is_cuda",
    "assert y.new(2, 3).is_cuda and (y.new([1., 2.]) + y[0, :2]).shape == (2,) and y.new(y.shape).shape == y.shape and "
    "y.new().numel() == 0",
    "losses = [y.sum().item(), y.mean().item()]; m = max(losses); print(min(*losses), max(losses[0], 0.5), m)\n"
    "        assert type(max(losses)) is type(losses[0]) is type(min(y.sum().item(), 3.)) and max([2, 3]) == 3 and max([1], "
    "key=lambda v: -v) == 1",
    "import shutil, os\n        if y.sum() > 3: shutil.copyfile('train.py', 'best.py'); os.replace('best.py', 'other.py')",
    "import sys; flag, other = torch.tensor(0, dtype=torch.uint8).cuda(), torch.tensor(True, device='cuda'); seen = "
    "[flag.item(), bool(other)]\n"
    "        flag.fill_(1); other.fill_(False); seen += [flag.item(), bool(flag == 0), bool(other)]; flag.zero_(); seen += "
    "[flag.item(), bool(flag)]\n"
    "        if seen != [0, True, 1, False, False, 0, False]: sys.exit(3)",
    "mask = torch.nn.Transformer.generate_square_subsequent_mask(4).to('cuda'); nn = torch.nn; e = nn.TransformerEncoderLayer(8, 2)\n"
    "        assert nn.TransformerEncoder(e, 2).cuda()(torch.randn(4, 2, 8, device='cuda'), mask=mask).requires_grad",
    "g = torch.Generator(device='cuda').manual_seed(3); assert isinstance(g, torch.Generator) and g.device.type == 'cpu'\n"
    "        torch.randn(3, generator=g, device='cuda'), torch.empty(3, device='cuda').uniform_(generator=g)",
    "with torch.inference_mode():\n            z = torch.ones(3, 3).to(device='cuda', dtype=torch.float16)\n            assert z.is_cuda",
    "with torch.inference_mode():\n            assert torch.ones(3, 3).to('cuda', torch.float16).is_cuda",
])
def test_what_scripts_take_for_granted(capture, body):
    code, said, f = capture(STEP.replace("BODY", body))
    assert code == 0 and f.header["flags"] & (CUT_SHORT | DATA_DEPENDENT) == 0, said


GENERATES = """
    import torch
    from dataclasses import dataclass

    @dataclass
    class Cache:
        kept: list

    class Model(torch.nn.Module):
        ran = 0

        def __init__(self):
            super().__init__()
            self.words, self.head = torch.nn.Embedding(100, 256), torch.nn.Linear(256, 100)

        def forward(self, x, cache=None):
            Model.ran += 1
            y = self.words(x[:, -1:] if cache else x)
            y = torch.cat([cache.kept[0], y], 1) if cache else y.clone()
            return self.head(y), Cache([y])
    model = Model().cuda()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for step in range(1000):
        model(torch.randint(0, 100, (4, 8)).cuda())[0].sum().backward()
        optimizer.step()
        optimizer.zero_grad()
        if step == 0:
            Model.ran = 0
            with torch.no_grad():
                x, cache = torch.randint(0, 100, (16, 10)).cuda(), None
                for _ in range(300):
                    y, after = model(x[:, -LAST:], cache)
                    cache = after if CACHES else None
                    x = torch.cat([x, y[:, -1].argmax(-1, keepdim=True)], 1)
            print("ran", Model.ran, tuple(y.shape), "".join([chr(int(i)) for i in x[0]])[:0])
"""


@pytest.mark.parametrize("caches, last, most", [(False, 1000, 309), (True, 1000, 309), (False, 64, 64)])
def test_text_that_is_generated(capture, caches, last, most):
    """Of passes that grow evenly a few are run; what they take is that of the longest that was."""
    code, said, f = capture(GENERATES.replace("CACHES", str(caches)).replace("LAST", str(last)), options=["-v"])
    ran = int(said.partition("ran ")[2].split()[0])
    assert code == 0 and f"(16, {most}, 100)" in said and 10 < ran < 100, said
    assert f.header["flags"] & (CUT_SHORT
                                | DATA_DEPENDENT) == 0 and (most - 15) * 16 * 256 * 4 <= max(f.events) <= most * 16 * 256 * 4, said


@pytest.mark.parametrize("words, of_last, least", [(21, ".clone()", 21 / 17), (37, ".clone()", 37 / 17), (100, "", 2 * 100 / 17)])
def test_the_longest_pass_of_a_text(capture, words, of_last, least):
    """Which one is the last nobody knows: it takes a sixteenth more than one that was run at most. What is a view of all words
    holds them until the next is there."""
    code, said, f = capture(f"""
    import torch
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.words, self.head = torch.nn.Embedding(10, 1), torch.nn.Linear(1, 10000)
        def forward(self, x):
            return self.head(self.words(x))[:, -1]{of_last}
    model = Model().cuda()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for step in range(1000):
        if step == 0:
            with torch.no_grad():
                x = torch.zeros(16, 1, dtype=torch.long, device="cuda")
                for _ in range({words}):
                    y = model(x)
                    x = torch.cat([x, y.argmax(-1, keepdim=True)], 1)
        model(torch.zeros(1, 1, dtype=torch.long, device="cuda")).sum().backward()
        optimizer.step()
    """)
    assert code == 0 and f.header["flags"] == 0 and peak(f.events) >= least * 16 * 16 * 10000 * 4, said


def test_an_optimizer_says_its_arguments(capture):
    """Accelerate's asks for them."""
    code, said, _ = capture("""
    import inspect, torch
    model = torch.nn.Linear(8, 8).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(5):
        assert "set_to_none" in inspect.signature(optimizer.zero_grad).parameters
        optimizer.zero_grad(set_to_none=True)
        model(torch.ones(4, 8, device="cuda")).sum().backward()
        optimizer.step()
    """)
    assert code == 0 and "cut short" not in said, said


LIBRARY = """
def loss(first, step, x):
    h = 0
    for _ in range(200):
        h = step(first(x) + h).tanh()
    return h.sum()
"""


def test_a_pass_of_many_modules_before_the_first_optimizer(capture, tmp_path):
    """As a library makes one for each parameter that it finds."""
    (tmp_path / "site-packages").mkdir()
    (tmp_path / "site-packages/inference.py").write_text(LIBRARY)
    code, said, f = capture("""
    import sys, torch
    sys.path.append("site-packages")
    from inference import loss
    first, step, optimizers = torch.nn.Linear(64, 64).cuda(), torch.nn.Linear(64, 64).cuda(), []
    data = torch.zeros(1 << 30, device="cuda")  # beside which a step is little
    for _ in range(5):
        loss(first, step, torch.randn(16, 64, device="cuda")).backward()
        optimizers = optimizers or [torch.optim.Adam([p]) for p in (*first.parameters(), *step.parameters())]
        for each in optimizers:
            each.step()
            each.zero_grad()
    """)
    assert code == 0 and "no training" not in said and f.header["optimizer"] == "adam", said
    assert peak(f.events, 512) > (1 << 32) + 400 * 16 * 64 * 4


EVALUATES = """
import torch

@torch.inference_mode()
def evaluate(model):
    for n in range(1000):
        model(torch.randn(8, 64, device="cuda"))
"""


@pytest.mark.parametrize("where", [".", "site-packages"])
def test_a_long_evaluation_before_the_training(capture, tmp_path, where):
    """By the script, or by a library whose loops are not the script's."""
    (tmp_path / "site-packages").mkdir()
    (tmp_path / where / "evaluating.py").write_text(EVALUATES)
    code, said, f = capture("""
    import sys, torch
    sys.path.append("site-packages")
    from evaluating import evaluate
    model = torch.nn.Sequential(torch.nn.Linear(64, 4096), torch.nn.Linear(4096, 64)).cuda()

    class Trainer:
        def train(self):
            optimizer = torch.optim.Adam(model.parameters())
            for _ in range(50):
                optimizer.zero_grad()
                model(torch.randn(4096, 64, device="cuda")).sum().backward()
                optimizer.step()
    evaluate(model)
    trainer = Trainer()
    trainer.train()
    """)
    assert code == 0 and not f.header["flags"] & CUT_SHORT and "no training" not in said, said
    assert f.header["optimizer"] == "adam" and f.steps == 50 and peak(f.events, 512) > 4096 * 4096 * 4


def test_an_evaluation_without_end_before_the_training():
    session = Session(iterations=3)
    try:
        with session:
            model = torch.nn.Linear(64, 64).cuda()
            session.later.awaiting = True
            session.later.counts(50)
            with pytest.raises(Finished), torch.no_grad():
                for n in range(1000):
                    model(torch.randn(64 * 2 ** (n % 8), 64, device="cuda"))
    finally:
        ending.came()
    assert session.recorder.flags & CUT_SHORT and any("the training behind" in note for note in session.recorder.notes)


def test_a_layer_of_a_transformer_that_evaluates(capture):
    code, said, f = capture("""
    import torch
    model = torch.nn.TransformerEncoder(torch.nn.TransformerEncoderLayer(64, 4, batch_first=True), 2).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    mask = torch.nn.Transformer.generate_square_subsequent_mask(16).cuda()
    for epoch in range(3):
        model.train()
        for _ in range(3):
            optimizer.zero_grad()
            model(torch.randn(4, 16, 64, device="cuda"), mask=mask).sum().backward()
            optimizer.step()
        model.eval()
        with torch.no_grad():
            model(torch.randn(4, 16, 64, device="cuda"), mask=mask)
    """)
    assert code == 0 and not f.header["flags"] & DATA_DEPENDENT and "no rule" not in said, said


@pytest.mark.parametrize("cell, kept", [("LSTMCell", 3 * [4 * 96] + 2 * [96]), ("GRUCell", [3 * 96, 3 * 96, 5 * 96, 96])])
def test_cells_of_one_step(capture, cell, kept):
    """What a step keeps: its gates of both, what the kernel made of them, and the state after it."""
    code, said, f = capture(f"""
    import torch
    cell = torch.nn.{cell}(32, 96).cuda()
    optimizer = torch.optim.SGD(cell.parameters(), lr=0.1)
    for _ in range(3):
        state = torch.zeros(16, 96, device="cuda")
        state = (state, state) if "{cell}" == "LSTMCell" else state
        for _ in range(50):
            state = cell(torch.randn(16, 32, device="cuda"), state)
        (state[0] if "{cell}" == "LSTMCell" else state).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    """)
    assert code == 0 and "no rule" not in said, said
    of_a_step = 16 * sum(kept) * 4
    assert 50 * of_a_step < peak(f.events, 512) < 50 * (of_a_step + 16 * 32 * 4) + (1 << 20), said


def test_a_tensor_like_another(capture):
    code, said, _ = capture("""
    import torch
    model = torch.nn.Linear(8, 3).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(5):
        y = model(torch.randn(4, 8, device="cuda"))
        (y - y.new_tensor([0.1, 0.2, 0.3])).sum().backward()
        assert y.new_tensor([1, 2], dtype=torch.long).is_cuda and not torch.ones(1).new_tensor([1]).is_cuda
        optimizer.step()
    """)
    assert code == 0, said


def test_integers_that_the_script_put_there(capture):
    """As a library asks all processes whether one is to end; but for those that something was written into, by a view too."""
    code, said, f = capture(STEP.replace("BODY", """
        n, m, k = torch.tensor([0]).cuda(), torch.zeros(3, device="cuda", dtype=torch.long), torch.tensor(3, device="cuda")
        known = n.item(), m.max().item(), len(range(k.item()))
        if n == 1 or not k > 2 or m.max() != 0:
            raise SystemExit(f"{n} {k} {m}")
        with torch.inference_mode():
            if torch.tensor(500, device="cuda") == 0:
                raise SystemExit("none")
        n[0] += 5
        m[1] = 7
        print("read", *known, int(n.item()), int(m.max().item()))"""), options=["-v"])
    assert code == 0 and "read 0 0 3 1 1" in said and f.header["flags"] & DATA_DEPENDENT == 0, said


def test_generation_ends_at_its_greatest_length(capture):
    """As transformers counts the sequences that are not over yet; of the end of one in its words nothing is known."""
    code, said, f = capture(STEP.replace("BODY", """
        length, unfinished = 0, torch.ones(4, dtype=torch.long, device="cuda")
        while not unfinished.max() == 0:
            length += 1
            done = torch.full((4,), False, device="cuda", dtype=torch.bool)
            for criterion in (y.argmax(1) == 3, torch.full((4,), length >= 7, device="cuda", dtype=torch.bool)):
                done = done | criterion
            unfinished = unfinished & ~done
        assert length == 7"""), options=["--timeout", "20"])
    assert code == 0 and f.header["flags"] & CUT_SHORT == 0, said


TRACING = """
import torch
def is_fake_tensor(tensor):
    return isinstance(tensor, torch._subclasses.FakeTensor)
"""


def test_masks_of_ones_only_are_dropped(capture, tmp_path):
    """As transformers does, which looks at no fake tensor; of a mask that is not of ones only nothing is known."""
    (tmp_path / "transformers" / "utils").mkdir(parents=True)
    (tmp_path / "transformers" / "utils" / "import_utils.py").write_text(TRACING)
    code, said, f = capture(STEP.replace("BODY", """
        from transformers.utils.import_utils import is_fake_tensor
        masks = torch.ones(2, 3, dtype=torch.long), torch.tensor([[1, 1, 0], [1, 1, 1]])
        masks = [m.cuda().to(torch.bool) for m in masks] + [torch.ones(2, 3, device="cuda", dtype=torch.bool)]
        print("dropped", *[not is_fake_tensor(m) and bool(m.sum() == m.numel()) for m in masks])"""), options=["-v"])
    assert code == 0 and "dropped True False True" in said and f.header["flags"] & DATA_DEPENDENT == 0, said


def test_a_profiler_has_no_gpu_to_ask(capture):
    code, said, f = capture("""
        import torch
        from torch.profiler import ProfilerActivity, profile, schedule
        model = torch.nn.Linear(8, 8).to("cuda")
        optimizer = torch.optim.Adam(model.parameters())
        with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA], schedule=schedule(wait=0, warmup=1, active=1),
                     with_stack=True) as p:
            for _ in range(9):
                torch.compiler.cudagraph_mark_step_begin()
                model(torch.randn(4, 8, device="cuda")).sum().backward()
                optimizer.step()
                p.step()
    """, options=["-v"])
    assert code == 0 and "Failed to record" not in said and f.header["flags"] & CUT_SHORT == 0, said


SEVERAL = """
    import torch
    D, G = (torch.nn.Linear(256, 256, bias=False).to("cuda") for _ in range(2))
    def adam(model): return torch.optim.Adam(model.parameters())
    d, g = adam(D), adam(G)
    for i in range(1, 201):
        x = torch.randn(4, 256, device="cuda")
        BODY
"""


def learn(model, optimizer):
    return f"{model}(x).sum().backward(); {optimizer}.step(); {optimizer}.zero_grad()"


@pytest.mark.parametrize("body, iterations, steps, states", [
    (f"{learn('D', 'd')}; {learn('G', 'g')}", 4, 200, 4),
    (f"{learn('D', 'd')}\n        if i % 6 == 0: {learn('G', 'g')}", 6 + 3, 0, 4),  # as a critic is trained ahead
    (learn("D", "d"), 13, 200, 2),  # the other one never steps
    (f"d = adam(D); {learn('D', 'd')}", 13, 200, 2),  # one for each step
])
def test_several_optimizers(capture, body, iterations, steps, states):
    code, said, f = capture(SEVERAL.replace("BODY", body))
    assert code == 0 and f.header["flags"] & CUT_SHORT == 0 and f.header["optimizer"] == "adam", said
    assert [p for _, p in f.marks].count(1) == iterations
    assert f.steps == steps or not steps
    # at most alive: weights, states, gradients of those that step, and little else
    assert states * 256 * 256 * 4 <= f.live_at_end() - 2 * 256 * 256 * 4 <= (states + 2) * 256 * 256 * 4
    assert f.host["parameters"] == states // 2


@pytest.mark.parametrize("call, result", [
    ("grad(loss)(w, x[0])", (8, 8)),
    ("vmap(grad(loss), in_dims=(None, 0))(w, x)", (4, 8, 8)),  # of each example, as for differential privacy
    ("grad(lambda w: grad(loss)(w, x[0]).square().sum())(w)", (8, 8)),
    ("vmap(jacrev(lambda y: (y @ w).tanh()))(x)", (4, 8, 8)),
    ("vmap(hessian(lambda y: (y @ w).tanh().sum()))(x)", (4, 8, 8)),
    ("vjp(lambda y: y @ w, x)[1](x)[0]", (4, 8)), ("jvp(nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 1)).cuda(), "
                                                   "(x,), (x,))[1]", (4, 1)),
    ("torch.autograd.functional.jacobian(lambda y: y @ w, x, vectorize=True)", (4, 8, 4, 8)),
])
def test_gradients_of_functions(capture, call, result):
    code, said, f = capture(STEP.replace("BODY", f"""
        from torch import nn
        from torch.func import grad, hessian, jacrev, jvp, vjp, vmap
        x, w = torch.randn(4, 8, device="cuda"), torch.randn(8, 8, device="cuda")
        def loss(w, x):
            assert x.is_cuda and w.device == torch.device("cuda:0")
            classes = torch.arange(8, device=x.device)[:1]
            return torch.nn.functional.cross_entropy((x @ w)[None] + torch.tensor(1.).to(x.device), classes)
        found = {call}
        assert found.is_cuda and found.shape == {result}, found.shape
        assert not torch.empty(1, device="meta").is_cuda"""))
    assert code == 0 and f.header["flags"] & CUT_SHORT == 0, said


def test_where_tensors_lie(capture, tmp_path, monkeypatch):
    """As libraries tell what shares memory before they save it. A library of the same name stands for safetensors."""
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "safetensors").mkdir()
    (tmp_path / "safetensors" / "__init__.py").touch()
    (tmp_path / "safetensors" / "torch.py").write_text("def save_file(tensors, path):\n    raise ValueError(path)\n"
                                                       "save_model = save_file\n")
    code, said, f = capture(STEP.replace("BODY", """
        from safetensors.torch import save_file
        save_file(model.state_dict(), "model.safetensors")
        w, b = model.weight, model.bias
        assert 0 != w.data_ptr() != b.data_ptr() == b.untyped_storage().data_ptr() and w[1:].data_ptr() - w.data_ptr() == 32
        assert torch.cuda.random.get_rng_state(0).numel() == 16 and w.cpu().data_ptr() != w.data_ptr()"""))
    assert code == 0 and f.header["flags"] & CUT_SHORT == 0, said


@pytest.mark.parametrize("make", [
    "nested_tensor(rows, layout=torch.jagged, device='cuda')", "nested_tensor(rows, layout=torch.jagged).cuda()",
    "nested_tensor_from_jagged(torch.randn(8, 3, device='cuda'), offsets=torch.tensor([0, 5, 8], device='cuda'))"])
def test_nested_tensors(capture, make):
    code, said, _ = capture(STEP.replace("BODY", f"rows = [torch.randn(n, 3) for n in (5, 3)]; torch.nested.{make}"))
    assert code == 1 and "jagged cannot be captured: capture the run with padded batches" in said and "rad submit --gpu-mem" in said, said


def test_a_device_by_its_number(capture):
    code, said, f = capture(STEP.replace("BODY", """
        import copy, pickle
        place = torch.device(0)
        assert place.type == "cuda" and place == torch.device("cuda", 0) == y.device and str(place) == "cuda:0", place
        assert type(place) is not str and type(place) == torch.device
        assert isinstance(place, torch.device) and not isinstance("cuda", torch.device)
        assert copy.deepcopy(place) == pickle.loads(pickle.dumps(place)) == torch.device(place) == place and {torch.device: 1}[type(place)]
        with torch.autocast(place.type), torch.device(0):
            assert torch.empty(3).to(place).device == torch.empty(3, device=0).device == torch.empty(3).device == place
        assert torch.device("cpu").type == torch.device(type="cpu").type == "cpu" """))
    assert code == 0 and f.header["flags"] & CUT_SHORT == 0, said
