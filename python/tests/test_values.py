# SPDX-License-Identifier: MIT
"""What scripts do with numbers that they read from the GPU."""
import textwrap

import pytest

torch = pytest.importorskip("torch")

from reader import peak  # noqa: E402

DATA_DEPENDENT = 1


@pytest.fixture
def flags(traced):
    """flags(use): what the capture says of a step that calls use(a float, an int), both read from the GPU."""
    def find(use):
        def setup():
            x = torch.randn(4, device="cuda")
            return lambda: use((x * 2).sum().item(), (x > 0).sum().item())
        return traced(setup).header["flags"]
    return find


def into_tensors(a, n):
    assert torch.tensor([a, a]).tolist() == [1.0, 1.0] and torch.tensor([[n], [n]]).tolist() == [[1], [1]]
    assert torch.tensor(n).dtype == torch.int64 and torch.as_tensor((a, n)).shape == (2,)
    assert torch.tensor([a], device="cuda").device.type == "cuda"
    torch.ones(2).mul_(n).add_(a).div(n)
    assert (torch.ones(2, device="cuda") * n + n * torch.ones(2, device="cuda") / n - a).device.type == "cuda"
    assert (n - torch.zeros(2)).tolist() == [1, 1]


def into_numpy(a, n):
    import numpy as np
    assert np.array([n, n]).dtype.kind == "i" and np.array([a]).dtype == np.float64
    assert np.mean([a, a]) == 1 and np.mean([n, n]) == 1 and np.float32(n) == 1 and np.round(n) == 1
    out = np.zeros(3)
    out[0], out[1] = a, n
    assert np.asarray(n) + 1 == 2 and out.sum() == 2


def into_text(a, n):
    import copy
    import csv
    import io
    import json
    import pickle
    assert json.loads(json.dumps({"a": a, "n": n})) == {"a": 1.0, "n": 1}
    assert json.loads(json.dumps({"a": [a], "n": [n], n: {"n": n}}, indent=2)) == {"a": [1.0], "n": [1], "1": {"n": 1}}
    for value, kind in ((a, float), (n, int)):
        assert type(pickle.loads(pickle.dumps(value))) is kind and copy.deepcopy([value]) == [1]
        assert isinstance(value, kind)
    csv.writer(io.StringIO()).writerow([a, n])
    assert f"{n:05d} {a:.2f} {n}" == "00001 1.00 1" and "%d %.1f" % (n, a) == "1 1.0"


def into_arithmetic(a, n):
    import math
    import statistics
    assert math.sqrt(n) + math.floor(a) + math.ceil(n) == 3 and n & 1 and n.bit_length() == 1 and round(a, 2)
    assert statistics.mean([a, a]) == 1 and sum([n, n, a]) / 3 == 1 and [*map(float, (a, n))] == [1.0, 1.0]


@pytest.mark.parametrize("use", [into_tensors, into_numpy, into_text])
def test_numbers_are_numbers(flags, use):
    if use is into_numpy:
        pytest.importorskip("numpy")
    assert flags(use) & ~DATA_DEPENDENT == 0


def test_arithmetic(flags):
    flags(into_arithmetic)


def test_a_number_that_decides_is_still_seen(flags):
    counted, compared = flags(lambda a, n: range(n)), flags(lambda a, n: [0] * 9 if a > 0.5 else 0)
    assert counted == compared == DATA_DEPENDENT
    assert flags(lambda a, n: torch.tensor([a, n])) == 0


def test_yaml(flags):
    yaml = pytest.importorskip("yaml")
    from radrm.capture.readnumbers import teach_yaml
    teach_yaml(yaml)
    assert flags(lambda a, n: [yaml.safe_dump({"a": a, "n": n}), yaml.dump([n])]) == 0


def scripted(form):
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU()).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x = torch.randn(4, 8, device="cuda")

    @torch.jit.script
    def scaled(y: torch.Tensor, by: float):
        return y * by
    run = {"script": lambda: torch.jit.script(model), "trace": lambda: torch.jit.trace(model, x), "none": lambda: model}[form]()

    def step():
        optimizer.zero_grad()
        scaled(run(x), 2.0).sum().backward()
        optimizer.step()
    return step


@pytest.mark.parametrize("form", ["script", "trace"])
def test_torchscript_is_the_eager_run(traced, form):
    found, eager = traced(lambda: scripted(form)), traced(lambda: scripted("none"))
    assert found.iteration(1) == eager.iteration(1) and any("torch.jit" in note for note in found.notes)


@pytest.mark.parametrize("lengths_on_gpu", [False, True])
def test_ctc(traced, lengths_on_gpu):
    """T x N x C log-probabilities, targets of at most S: alpha, and in the backward pass beta, of N x T x (2 S + 1)."""
    T, N, C, S = 50, 16, 20, 30

    def setup():
        device = "cuda" if lengths_on_gpu else "cpu"
        logits = torch.randn(T, N, C, device="cuda", requires_grad=True)
        targets = torch.randint(1, C, (N, S), device="cuda")
        lengths = torch.full((N,), T, device=device), torch.full((N,), S, device=device)

        def step():
            loss = torch.nn.functional.ctc_loss(logits.log_softmax(2), targets, *lengths)
            loss.backward()
            logits.grad = None
        return step
    f = traced(setup)
    asked = [n for n in f.iteration(1) if n > 0]
    assert asked.count(N * T * (2 * S + 1) * 4) == 2 and not any("no rule" in note for note in f.notes)


@pytest.mark.parametrize("branch, doubt", [
    ("if value < best: best = value; torch.save(model.state_dict(), 'best.pt')", False),
    ("if value < best: best, patience = value, 0\n        else:\n            patience += 1\n            if patience > 5: break", False),
    ("epoch = _\n        if value < best: best = value; best_epoch = epoch + 1; torch.save(model.state_dict(), 'best.pt')", False),
    ("if value < best: best = value\n        else: lr /= 4.0", False), ("if value < best: lr = lr * 0.5", False),
    ("if value > best:\n            for group in optimizer.param_groups: group['lr'] *= 0.1", False),
    ("for p in model.parameters():\n            norm = p.grad.data.norm(2)\n            if norm > 1: p.grad.data.mul_(1)", False),
    ("coef = 1 / value\n        if coef < 1:\n            for name, p in model.named_parameters(): p.grad.mul_(coef)", False),
    ("coef = 1 / value\n        if coef < 1:\n            for p in model.parameters():\n"
     "                if p.grad is not None: p.grad.data *= coef", False),
    ("if value > 1:\n            for p in model.parameters(): p.grad.data.add_(x.sum() * p.data)", True),
    ("if value > 1:\n            for p in model.parameters(): p.grad = p.grad.mul(2)", True), ("if value > 1: x.mul_(2)", True),
    ("if value > 1:\n            for p in model.parameters(): p.grad.data += model(p)", True),
    ("if value > 1: p = model.weight; p.grad.resize_(99, 99)", True),
    ("if value > best:\n            for row in x: model(row)", True), ("if value > best:\n            for row in model(x): best = 3", True),
    ("best = max(best, value)", False),
    ("print('best', min([best, value]))", False),
    ("print(model(x) if value < best else best)", True),
    ("if value > 3: print(f'{value + 1}'); sys.exit(1)", False),
    ("if value < best: model(x)", True),
    ("if value < best: width = 512\n        x[:, :width]", True), ("if value < best: width = 512\n        else: print(width)", False),
    ("if value < best:\n            file = os.path.join('.', 'a.pt')\n            torch.save(model.state_dict(), file)", False),
    ("if value < best: seen = value; torch.save(model.state_dict(), 'best.pt')\n        torch.zeros(seen)", True),
    ("is_best = value < best\n        save_it(model.state_dict(), is_best)", False),
    ("is_best = not best or value < best\n        if is_best: best = value", False),
    ("is_best = value < best\n        if is_best: model(x)", True), ("is_best = value < best\n        run = is_best\n"
                                                                     "        while run: model(x); break", True),
    ("if better(value, best): bad = 0\n        else: num_bad = 1", False), ("if better(value, best): model(x)", True),
    ("json.dumps({'loss': [value]}, indent=4)", False), ("print(str(chr(max(32, x.long()[0, 0]))), end='')", False),
    ("print(model(x[:int(x.long()[0, 0])]))", True),
    ("if value < best: best = x * 2", True), ("step_out = x\n        if value < best: best = step_out * 2", True),
    ("''.join(chr(int(i)) for i in x.long()[0])", False), ("names = 'abc'\n        ''.join(names[int(i)] for i in x.long()[0])", False),
    ("''.join(str(model(x[:int(n)]).shape) for n in x.long()[0])", True),
    ("best = 3 if value < best else 5", True),
    ("width += int(value == best)\n        print(width / 9)", False), ("width += value == best\n        print(width)", False),
    ("width += int(value == best)\n        model(x[:width])", True),
    ("width += int(value == best)\n        total = torch.tensor(width, device='cuda')\n        print(total.item())", False),
    ("width += int(value == best)\n        total = torch.tensor(width, device='cuda')\n        model(x[total:])", True),
    ("torch.zeros(int(value), device='cuda')", True), ("n = int(x.long().sum().item())\n        x.expand(n, -1, -1)", True),
    ("x[:, : 1 + max(int(value), 1)]", True),
    ("for _ in range(int(value)): model(x)", True), ("n = int(value); print(n, range(len(str(n))))", False),
    ("torch.roll(x, -int(x.argmax()), -1)", False), ("x[:, :int(x.argmax())]", True),
    ("torch.roll(x, len(model(x[:int(x.argmax())])), -1)", True),
    ("if int(x.argmax()) > 2: model(x)", True),
    ("counts = [0] * 9; counts[int(value)] += int(x.sum().item())", False),
    ("torch.full((3,), 2.0 * x.shape[int(value)], device='cuda')", False),
    ("labels = [0, 1, 2]; labels.remove(value)", False), ("labels = [0, 1, 2]\n        if value in labels: model(x)", True),
    ("width = max(width, value)", False), ("width = max(width, value)\n        if width > 2: model(x)", True),
])
def test_branches_that_decide_nothing(capture, branch, doubt):
    code, said, f = capture(f"""
    import json, os, sys, torch
    model = torch.nn.Linear(8, 8).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    best, patience, width, lr = 99, 0, 1, 0.1
    def better(a, b):
        return a < b * 0.99
    def save_it(state, is_best):
        if is_best: torch.save(state, 'best.pt')
    for _ in range(9):
        x = torch.randn(4, 8, device="cuda")
        loss = model(x).sum()
        loss.backward()
        optimizer.step()
        value = loss.item()
        {branch}
    """)
    assert code in (0, 3) and bool(f.header["flags"] & 1) == doubt, said


@pytest.mark.parametrize("use, doubt", [
    ("labels = (torch.arange(8)[None] % 4 == torch.arange(8)[:, None] % 4).float().to('cuda'); diagonal = torch.eye(8, "
     "dtype=torch.bool).to('cuda')\n"
     "            labels, alike = labels[~diagonal].view(8, -1), (x @ x.T)[~diagonal].view(8, -1)\n"
     "            assert alike[labels.bool()].view(8, -1).shape == (8, 1) and alike[~labels.bool()].view(8, -1).shape == (8, 6)", False),
    ("if model.table[0, 0] == 0: model(x)", False), ("model.table.add_(1)\n            if model.table[0, 0] == 0: model(x)", True),
    ("x[torch.rand(8).to('cuda') > 0.5]", True), ("if (torch.rand(8).to('cuda') > 0.5).all(): model(x)", True),
    ("if not n: x[torch.ones(8).to('cuda') > 0.5]", True), ("assert torch.arange(5000.).to('cuda').cpu()[4999] == 4999", False),
])
def test_what_came_from_the_cpu_is_known(capture, use, doubt):
    code, said, f = capture(f"""
    import torch
    model = torch.nn.Linear(8, 8)
    model.register_buffer("table", torch.cos(torch.outer(torch.arange(300.), torch.arange(8.))))
    model = model.to("cuda")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for n in range(9):
        x = torch.randn(8, 8, device="cuda")
        with torch.no_grad():
            {use}
        model(x).sum().backward()
        optimizer.step()
    """)
    assert code == 0 and bool(f.header["flags"] & 1) == doubt, said


@pytest.mark.parametrize("use, doubt", [
    ("loss = nn.functional.smooth_l1_loss(y[mask], x[mask])", False), ("loss = y.masked_select(mask).mean()", False),
    ("print(y[mask].std().item())", False),
    ("rows, columns = torch.where(mask); loss = y[rows, columns].mean()", False),
    ("z = x.clone(); z[mask] = y[mask]; loss = z.mean() * len(z)", False),
    ("z = torch.zeros_like(y).index_put((mask,), y[mask]); loss = z.mean() * z.numel()", False),
    ("loss = y[mask].sum() / mask.sum()", False),
    ("first, second = torch.stack((y[mask], x[mask]), -1).chunk(2, -1); loss = (first - second).mean()", False),
    ("assert type(y[mask]) is torch.Tensor", False), ("more = [y[mask] for _ in range(99)]", True),
    ("takes(len(y[mask]))", True), ("takes(y[mask].shape)", True), ("takes((y[mask] * 2).size(0))", True),
    ("takes(torch.cat((y[mask], y[~mask])).detach().numel())", True),
    ("takes(torch.where(mask)[0].nelement())", True), ("takes([one for one in y[mask]][-1:])", True),
    ("y[mask].tolist()", True), ("y[mask].detach().cpu()", True),
    ("loss = y.mean() * nn.Parameter(y[mask].detach()).sum()", False), ("copy.deepcopy(y[mask].detach())", True),
    ("print(f'{len(y[mask])} of {y.shape}', y[mask].unique().numel())", False), ("takes(y[mask].unique().numel())", True),
    ("y[mask].split(99)", True), ("torch.unbind(y[mask])", True), ("takes(mask.nonzero().shape)", True),
    ("y.masked_select(mask).unsqueeze(0).shape", True),
])
def test_how_much_a_mask_holds(capture, use, doubt):
    """All of it is taken. That is no doubt where nobody asks for it and it is little, as 16 KiB are of 9 MiB and 99 times as
    much are not."""
    code, said, f = capture(f"""
    import copy, torch
    from torch import nn
    model = nn.Linear(1024, 1024, bias=False).to("cuda")
    def takes(size):
        return size
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for n in range(9):
        x = torch.randn(4, 1024, device="cuda")
        y = model(x)
        mask, loss = y > 0, y.mean()
        {use}
        loss.backward()
        optimizer.step()
    """)
    assert code == 0 and bool(f.header["flags"] & 1) == doubt and ("train.py:12" in said) == doubt, said


@pytest.mark.parametrize("use, mib", [
    ("if mask.any(): more = torch.ones(1 << 20, device='cuda')", 4), ("if torch.any(mask): more = torch.ones(1 << 20, device='cuda')", 4),
    ("if not mask.any(): continue\n        more = torch.ones(1 << 20, device='cuda')", 4),
    ("if mask.any().item(): more = torch.ones(1 << 20, device='cuda')", 4),
    ("if mask.any():\n            assert False\n        more = torch.ones(1 << 20, device='cuda')", 4),
    ("if mask.any(): raise SystemExit\n        more = torch.ones(1 << 20, device='cuda')", 4),
    ("if mask.any(): exit(1)\n        more = torch.ones(1 << 20, device='cuda')", 4),
    ("if mask.any(): continue\n        more = torch.ones(1 << 20, device='cuda')", 4),
    ("if torch.isnan(x).any(): more = torch.ones(1 << 20, device='cuda')", 0),
])
def test_a_mask_holds_somewhere(capture, use, mib):
    """As it does where it is an index; but no round is left out for it."""
    code, said, f = capture(f"""
    import torch
    model = torch.nn.Linear(8, 8).to("cuda")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for n in range(9):
        x = torch.randn(8, 8, device="cuda")
        model(x).sum().backward()
        optimizer.step()
        mask, more = model(x) > 0, None
        {use}
    """)
    assert code == 0 and peak(f.events) >> 22 == mib >> 2, said


def test_what_is_not_known_does_not_stay(capture):
    """Tensors that are looked at for what is known of them go when the script lets them go, not when Python's collector comes."""
    code, said, f = capture("""
    import gc, torch
    gc.disable()
    model = torch.nn.Linear(8, 8).to("cuda")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for n in range(9):
        for _ in range(6):
            much = (torch.randn(1 << 20, device="cuda").view(1024, 1024) > 0).t()
        model(torch.randn(8, 8, device="cuda")).sum().backward()
        optimizer.step()
    """)
    assert code == 0 and peak(f.events) < 7 << 20, said


def test_a_branch_on_a_batch_goes_as_in_a_run(capture):
    """What a script draws into a batch on the CPU is there, as are answers that hang on it; the next batch may give others."""
    code, said, f = capture("""
    import torch
    model = torch.nn.Linear(8, 8).to("cuda")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for n in range(9):
        at_first = torch.zeros(20000).uniform_(0, n) == 0
        more = None if torch.all(at_first.to("cuda")) else torch.ones(1 << 20, device="cuda")
        model(torch.randn(8, 8, device="cuda")).sum().backward()
        optimizer.step()
    """)
    assert code == 0 and peak(f.events) > 4 << 20, said


@pytest.mark.parametrize("use, doubt", [
    ("assert all(a < b for a, b in zip(times[:-1], times[1:]))\n"
     "        if all(a < b for a, b in zip(times[:-1], times[1:])): pass\n        else: raise ValueError('times')", False),
    ("if not (times[1:] > times[:-1]).all(): raise ValueError('times')", False),
    ("if not ((times[1:] - times[:-1]) > 0).all(): model(x)", False), ("if (-times).flip(0)[0] > times[1]: model(x)\n"
                                                                       "        assert times[3].item() == 6", False),
    ("if torch.logspace(0, 3, 4, device='cuda')[-1] < 999: 1 / 0\n        else: model(x)", False),
    ("if (times * x.sum() > 0).all(): model(x)", True), ("if times.add_(x.sum())[0] > 0: model(x)", True),
])
def test_numbers_that_are_spread_evenly_are_known(capture, use, doubt):
    code, said, f = capture(f"""
    import torch
    model = torch.nn.Linear(8, 8).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for n in range(9):
        times, x = torch.linspace(0, 10, steps=6, device="cuda"), torch.randn(8, 8, device="cuda")
        {use}
        model(x).sum().backward()
        optimizer.step()
    """)
    assert code == 0 and bool(f.header["flags"] & 1) == doubt, said


@pytest.mark.parametrize("use, doubt", [
    ("torch.arange(n, device='cuda')", True), ("torch.zeros(3, n, device='cuda')", True), ("x.new_zeros((2, n))", True),
    ("torch.eye(n, device='cuda')", True), ("x.repeat(n, 1)", True), ("x[:, None].expand(-1, n, -1)", True),
    ("torch.linspace(0, 1, n, device='cuda')", True), ("torch.randint(9, (n,), device='cuda')", True),
    ("torch.nn.functional.pad(x, (0, n))", True), ("torch.nn.functional.one_hot(x.argmax(1), n + 1)", True),
    ("torch.tril_indices(n, 5, device='cuda')", True), ("torch.full((n,), 1, device='cuda')", True),
    ("torch.zeros(n, 4, device='cuda')", True), ("torch.randn(n, 1, 4)", True), ("x.new_ones(n, 4)", True),
    ("x[None].expand(n, -1, -1)", True),
    ("torch.empty(length, 4, device='cuda')", False), ("with torch.device('cuda'): assert torch.zeros(3, 4).is_cuda", False),
    ("torch.full((2,), n, device='cuda')", False), ("torch.linspace(0, n, 5, device='cuda')", False),
    ("torch.arange(length, device='cuda')", False), ("torch.zeros(3, length, device='cuda')", False), ("x.add(x, alpha=n)", False),
    ("[x.add(x, alpha=n) for _ in range(step)]", False),
])
@pytest.mark.parametrize("how", ["", ".item()"])
def test_sizes_that_pytorch_is_given(capture, use, how, doubt):
    """A tensor of one number, or the number, where a size is wanted: of an operator that takes either."""
    code, said, f = capture(f"""
    import torch
    model = torch.nn.Linear(8, 8).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(4):
        x = torch.randn(4, 8, device="cuda")
        lengths = torch.tensor([3 + step, 2]).cuda()
        n, length = (model(x) > 0).sum(){how}, lengths.max(){how}
        {use}
        model(x).sum().backward()
        optimizer.step()
    """)
    assert code == 0 and bool(f.header["flags"] & 1) == doubt, said


def test_as_many_classes_as_the_largest_label(capture):
    """Which a model told."""
    code, said, f = capture("""
    import torch
    model = torch.nn.Linear(8, 8).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(4):
        x = model(torch.randn(4, 8, device="cuda"))
        loss = x.sum() + (torch.nn.functional.one_hot(x.argmax(1)) * 2).sum()
        loss.backward()
        optimizer.step()
    """)
    assert code == 0 and f.header["flags"] & 1, said


@pytest.mark.parametrize("ends", ["x[0, 0], x[0, 1]", "x[0, 0], 7.5", "0.5, x[0, 1]", "x.new_zeros(2).cpu()[0], x[0, 1]"])
def test_numbers_between_two_on_the_gpu_come_to_the_cpu(capture, ends):
    """linspace() takes its ends from there, and makes what it makes on the CPU."""
    code, said, f = capture(f"""
    import torch
    model = torch.nn.Linear(8, 8).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for n in range(9):
        x = torch.randn(8, 8, device="cuda")
        times = torch.linspace({ends}, 5)
        rising = times[1:] > times[:-1]
        assert rising.all() or (~rising).all()
        assert times.device.type == "cpu" and type(times) is torch.Tensor and times.numpy()[0] < times.numpy()[-1]
        (model(x) * times.cuda()[0]).sum().backward()
        optimizer.step()
    """)
    assert code == 0 and f.header["flags"] & 1 == 0, said


@pytest.mark.parametrize("copy, copies", [
    ("best, kept_best = value, copy.deepcopy(model.state_dict())", 1),
    ("best, best_state = value, {name: w.detach().clone() for name, w in model.state_dict().items()}", 1),
    ("best, best_state = value, {name: w.cpu().clone() for name, w in model.state_dict().items()}", 0),
    ("best = value; output = double", 1), ("best, best_output = value, double", 1), ("best, best_step = value, step", 0),
])
@pytest.mark.parametrize("rest", ["", "; patience = 0\n        else:\n            patience += 1\n            if patience > 5: break"])
def test_the_best_weights_are_kept(capture, copy, copies, rest):
    """A branch that copies them is taken: it is, mostly, and it takes memory."""
    code, said, f = capture(f"""
    import copy, torch
    model = torch.nn.Linear(512, 512, bias=False).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    best, double = 0, None
    for step in range(9):
        model(torch.randn(4, 512, device="cuda")).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
        value = sum(p.sum().item() for p in model.parameters()) - 5
        double = model.weight.detach() * 2
        if value > best: {copy}{rest}
        del double
    """)
    assert code in (0, 3) and f.header["flags"] & 1 == 0, said
    assert f.live_at_end() // (512 * 512 * 4) == 2 + copies  # with the gradient


@pytest.mark.parametrize("lengths", ["torch.tensor([40, 20, 10, 10])", "torch.full((4,), 40)"], ids=["several", "one"])
def test_lengths_that_are_computed(traced, lengths):
    """As of what convolutions make of recordings: they are packed, and the longest target is known."""
    T, N, S = 40, 4, 8

    def setup():
        network = torch.nn.GRU(16, 32).cuda()
        x, targets = torch.randn(T, N, 16, device="cuda", requires_grad=True), torch.randint(1, 32, (N, 2 * S), device="cuda")

        def step():
            n = eval(lengths, {"torch": torch}).cuda()
            n = torch.div(n * 2 - 1, 2, rounding_mode="floor") + 1
            assert n.cpu().tolist() == eval(lengths, {"torch": torch}).tolist() and n.max().item() == T
            out, _ = network(torch.nn.utils.rnn.pack_padded_sequence(x, n.cpu()))
            logits, _ = torch.nn.utils.rnn.pad_packed_sequence(out)
            torch.nn.functional.ctc_loss(logits.log_softmax(2), targets, n, torch.tensor([S, 3, 2, 1]).cuda()).backward()
        return step
    f = traced(setup)
    assert f.header["flags"] == 0, f.notes
    assert f.iteration(2).count(4 * N * T * (2 * S + 1)) == 2 and 4 * sum(eval(lengths, {"torch": torch}).tolist()) * 32 in f.iteration(2)


@pytest.mark.parametrize("most, flags", [(40, 0), (30, 4)])
def test_what_is_packed_varies(traced, most, flags):
    """So does what a network takes, in a batch of one shape."""
    def setup():
        network, x, seen = torch.nn.GRU(16, 32).cuda(), torch.randn(40, 4, 16, device="cuda"), []

        def step():
            seen.append(1)
            out, _ = network(torch.nn.utils.rnn.pack_padded_sequence(x, torch.tensor([40, 20, 10, 10 if len(seen) < 3 else most - 30])))
            out.data.sum().backward()
        return step
    assert traced(setup).header["flags"] == flags


def test_small_integers_that_the_script_put_there(capture):
    """As shapes and lengths that processes tell each other: they come back, by views too, until something is written."""
    code, said, f = capture("""
    import torch
    model = torch.nn.Linear(8, 8).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(9):
        n = torch.tensor([3, 1, 4], device="cuda")
        assert n[None].cpu().tolist() == [[3, 1, 4]] and n.tolist() == [3, 1, 4] and n[2].item() == 4
        assert torch.zeros(n[0].item()).shape == (3,) and n.clone().float().cpu().tolist() == [3, 1, 4]
        n[1] = 7
        assert n.cpu().tolist() == [1, 1, 1]
        model(torch.randn(4, 8, device="cuda")).sum().backward()
        optimizer.step()
    """)
    assert code == 0 and f.header["flags"] & 1 == 0, said


LENGTHS = """
    import torch
    model = torch.nn.Linear(8, 8).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    drawn = torch.Generator().manual_seed(1)
    for n in range(9):
        host = torch.randint(1, 50, (64,), generator=drawn)
        length, rows = host.cuda(), torch.cuda.LongTensor([[1 + n] * k + [0] * (49 - k) for k in host.tolist()])
        mask = (torch.arange(49)[None] < host[:, None]).float()[:, :, None].cuda()
        BODY
        model(torch.randn(4, 8, device="cuda")).sum().backward()
        optimizer.step()
"""


@pytest.mark.parametrize("body", [
    "by, at = torch.sort(length, descending=True)\n        assert by.data.tolist() == sorted(host.tolist(), reverse=True) and "
    "host[at.cpu()].tolist() == by.tolist()",
    "rows.transpose_(0, 1)\n        assert rows[:].gt(0).float().sum(0).int().cpu().tolist() == host.tolist()",
    "rows.t_().unsqueeze_(0).squeeze_(0)\n        assert (rows != 0).sum(dim=0).tolist() == host.tolist()",
    "table = dict.fromkeys(range(1, 50), 0)\n        for k in mask.squeeze(2).sum(1).long(): table[k.item()] += 1\n"
    "        assert table == {k: host.tolist().count(k) for k in table}",
    "assert length[length.argsort()].tolist() == sorted(host.tolist()) and length.cumsum(0).cpu()[-1] == host.sum()",
    "assert length.topk(3)[0].tolist() == host.topk(3)[0].tolist() and mask.sum((1, 2)).max(0)[1].tolist() == host.max(0)[1].tolist()",
    "assert torch.cat([length, length + 1]).split(64)[1].tolist() == (host + 1).tolist()",
    "assert torch.arange(64, device='cuda').repeat_interleave(length).shape == (int(host.sum()),)",
    "more = length.clone()\n        more.mul_(2)\n        assert more[1:].view(-1, 7).sum(1).tolist() == [1] * 9",
    "with torch.inference_mode():\n            assert host.cuda().sort()[0].tolist() == sorted(host.tolist())",
], ids=["sorted", "a mask", "in place", "keys", "places", "largest", "joined", "repeated", "written", "inference"])
def test_what_is_computed_of_few_known_numbers(capture, body):
    """Lengths go there, are sorted, counted, compared; they come back as lengths and keys."""
    code, said, f = capture(LENGTHS.replace("BODY", body))
    assert code == 0 and (f.header["flags"] & DATA_DEPENDENT == 0 or "item()" in body), said


MIXTURE = """
    import torch
    from torch import nn
    experts = nn.ModuleList(nn.Linear(64, 64, bias=False) for _ in range(8)).cuda()
    optimizer = torch.optim.SGD(experts.parameters(), lr=0.1)
    for _ in range(9):
        x, which = torch.randn(1000, 64, device="cuda"), torch.randint(0, 8, (1000, 1), device="cuda")
        out = torch.zeros_like(x)
        for number, expert in enumerate(experts):
            TAKE
            out.index_add_(0, rows, expert(x[rows]))
        out.sum().backward()
        assert all(p.grad is not None for p in experts.parameters())
        optimizer.step()
        optimizer.zero_grad()
"""


@pytest.mark.parametrize("take", [
    "rows, _ = torch.where(which == number)",
    "rows = (which == number).any(-1).nonzero().flatten()",
    "mask = which.squeeze(1) == number\n            assert x[mask].shape[0] == torch.masked_select(which[:, 0], "
    "mask).shape[0]\n            rows = mask.nonzero()[:, 0]",
    "masks = ALL.permute(2, 1, 0) if not number else masks\n            _, rows = torch.where(masks[number])",
    "masks = ALL.squeeze(1).transpose(0, 1) if not number else masks\n            rows = masks[7 - number].nonzero()[:, 0]",
    "masks = ALL.permute(2, 1, 0) if not number else masks\n            _, rows = torch.where(masks[which[:1, 0]].squeeze(0))",
])
def test_each_goes_to_one_of_many(capture, take):
    """A thousand lines go to eight experts, and few more than a thousand come out; each expert learns."""
    code, said, f = capture(MIXTURE.replace("TAKE", take).replace("ALL", "torch.nn.functional.one_hot(which, 8)"))
    rows = [n // 256 for n in f.iteration(1) if n > 0 and n % 256 == 0]
    assert code == 0 and f.header["flags"] & 1, said
    assert rows.count(1000) <= 10 and rows.count(2) >= 7 * 2


def test_what_is_added_to_ones_is_no_choice(capture):
    """Of what was written into, and of another dimension, as many may hold as there are."""
    taken = """masks = torch.nn.functional.one_hot(which, 8).permute(2, 1, 0).contiguous().add_(number)
            _, rows = torch.where(masks[number])
            other = torch.nn.functional.one_hot(which, 8)[number].nonzero()
            assert rows.shape[0] == 1000 and other.shape[0] == 8"""
    code, said, f = capture(MIXTURE.replace("TAKE", taken))
    assert code == 0, said


STEP = """
    import torch
    model = torch.nn.Linear(8, 8).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(9):
        y = torch.randint(0, 2, (9,), device="cuda")
        BODY
        model(torch.randn(4, 8, device="cuda")).sum().backward()
        optimizer.step()
"""


def test_masks_that_the_script_put_there(capture):
    """As many elements hold as hold; but of one that was written into nothing is known."""
    body = STEP.replace("BODY", """
        mask = torch.arange(900) % 3 == 0
        mask, x = mask.cuda(), torch.ones(900, 64, device="cuda")
        assert x[mask].shape[0] == mask.nonzero().shape[0] == torch.masked_select(x[:, 0], mask).shape[0] == 300
        assert x[~mask].shape[0] == 600 and x[~~mask].shape[0] == mask.clone().view(30, 30).nonzero().shape[0] == 300
        assert x[:, 0][torch.logical_not(mask)].shape[0] == 600
        CHANGE""")
    code, said, f = capture(body.replace("CHANGE", ""))
    assert code == 0 and f.header["flags"] & DATA_DEPENDENT == 0, said
    code, said, f = capture(body.replace("CHANGE", "mask[0] = False; assert x[mask].shape[0] == 900"))
    assert code == 0 and f.header["flags"] & DATA_DEPENDENT, said


@pytest.mark.parametrize("body, flags", [
    ("assert torch.bincount(y, minlength=10).shape == (10,) and torch.bincount(y, minlength=3).dtype == torch.int64", 0),
    ("torch.bincount(y, weights=torch.rand(9, device='cuda'), minlength=2).add_(1.0)", 0),
    ("torch.bincount(y)", DATA_DEPENDENT),
    ("w = model.weight.detach().requires_grad_(); torch.fake_quantize_per_tensor_affine(w, 0.1, 0, -128, 127).sum().backward()", 0),
    ("w = model.weight.detach().requires_grad_(); s = torch.ones(8, device='cuda'); "
     "torch.fake_quantize_per_channel_affine(w, s, s.int(), 0, -128, 127).sum().backward()", 0),
], ids=["counts", "weights", "how many", "tensor", "channels"])
def test_counts_and_quantizations(capture, body, flags):
    code, said, f = capture(STEP.replace("BODY", body))
    assert code == 0 and f.header["flags"] == flags, said


def test_each_of_two_may_be_all(capture):
    code, said, f = capture(STEP.replace("BODY", "a = y[y == 0]\n        b = y[y == 1]; b.float().topk(b.numel() - 1)"))
    assert code == 0, said


def test_written_into_it_is_another(capture):
    code, said, f = capture(STEP.replace("BODY", "z = torch.zeros(5, device='cuda', dtype=torch.long)\n"
                                         "        for n in range(3): z += 1; assert z[z == n].numel() == 5"))
    assert code == 0, said


@pytest.mark.parametrize("where", ["groups.cuda()", "groups.view(-1, 1).cuda().squeeze(1).clone()",
                                   "groups.to(torch.int32).cuda()"], ids=["moved", "viewed", "int32"])
@pytest.mark.parametrize("read", ["int({}.max())", "{}.max().item()"])
def test_the_largest_of_numbers_that_the_script_put_there(capture, where, read):
    """As of the graphs of a batch, which are counted so."""
    code, said, f = capture(f"""
        import torch
        w = torch.randn(64, device="cuda", requires_grad=True)
        optimizer = torch.optim.SGD([w], lr=0.1)
        for step in range(100):
            groups = torch.arange(128).repeat_interleave(50)
            number = {read.format(where)} + 1
            found = torch.zeros(number, 64, device="cuda").index_add_(0, groups.cuda(), w.expand(6400, 64))
            (found - torch.ones(128, 64).cuda()).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
    """)
    assert code == 0 and "data-dependent" not in said and not f.header["flags"] & 1, said


def test_the_largest_is_not_known_once_something_was_written(capture):
    code, said, f = capture("""
        import torch
        groups = torch.arange(6400).cuda()
        groups.mul_(2)
        torch.zeros(int(groups.max()) + 1, device="cuda")
    """)
    assert code == 0 and "a size or a count computed on the GPU" in said, said


def test_what_pytorch_itself_insists_on(capture):
    """istft() asks whether windows add up to anything."""
    code, said, f = capture("""
        import torch
        w, window = torch.randn(8, 32000, device="cuda", requires_grad=True), torch.hann_window(1024).cuda()
        optimizer = torch.optim.SGD([w], lr=0.1)
        for step in range(100):
            found = torch.stft(w, 1024, 256, window=window, return_complex=True)
            torch.istft(found * 2, 1024, 256, window=window, length=32000).sum().backward()
            optimizer.step()
    """)
    assert code == 0 and "data-dependent" not in said, said


@pytest.mark.parametrize("end, solve", [("break", "solve"), ("return", "solve"), ("raise ValueError", "solve"), ("break", "Solver.solve")])
def test_a_loop_that_was_left_begins_anew(capture, end, solve):
    """All but the first time it has its six rounds."""
    solver = f"""
    def solve(last):
        rounds = 0
        while t < model.weight.sum():
            t.add_(1)
            rounds += 1
            if rounds == last:
                {end}
        print("rounds", rounds)"""
    within = textwrap.indent(solver, "    ")
    code, said, f = capture(f"""
    import torch
    model = torch.nn.Linear(512, 512, bias=False).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    t = torch.zeros((), device="cuda")
{solver}
    class Solver:
        @staticmethod
{within}
    for step in range(8):
        try:
            {solve}(99 if step else 4)
        except ValueError:
            pass
    model(torch.ones(4, 512, device="cuda")).sum().backward()
    optimizer.step()
    """, options=["-v"])
    assert code == 0 and said.count("rounds 6") == 7, said


@pytest.mark.parametrize("test, leave", [("t < y.sum()", ""), ("(t < y.sum()).item()", ""), ("not (t >= y.sum())", ""),
                                         ("t < end", ""), ("not done.all()", "done = t >= y.sum()")])
def test_loops_whose_end_is_not_known(capture, test, leave):
    """As an adaptive solver's: six steps, each of which succeeds, are kept for the backward pass. The next loop has as many."""
    code, said, f = capture(f"""
    import torch
    model = torch.nn.Linear(512, 512, bias=False).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(100):
        y, rounds = torch.randn(512, 512).cuda(), 0
        t, end = torch.zeros(()).cuda(), torch.ones(()).cuda()  # known, until something was done
        done = torch.zeros(4, 4, device="cuda") > y[:4, :4]
        while {test}:
            rounds += 1
            z = torch.tanh(model(y))
            if (z - y).abs().max() <= 1:
                y = z.sin().cos()
            else:
                z = None
            {leave}
            t = t + 1
        print("rounds", rounds)
        y.sum().backward()
        optimizer.step()
    """, options=["-v", "--timeout", "20"])
    rounds = [int(line.split()[1]) for line in said.splitlines() if line.startswith("rounds")]
    assert code == 0 and rounds and set(rounds) == {6} and f.header["flags"] & DATA_DEPENDENT and f.header["flags"] & 128 == 0, said
    assert peak(f.events) >= (2 + 3 * 6) * 512 * 512 * 4


@pytest.mark.parametrize("labels", ["(x[:, 0] > 0).cpu().numpy()", "[0, 1, 0]"])
def test_scores_of_values_that_are_not_known(capture, labels):
    pytest.importorskip("sklearn")
    code, said, f = capture(f"""
    import torch
    from sklearn.metrics import log_loss
    model = torch.nn.Linear(8, 8).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(9):
        x = torch.randn(4, 8, device="cuda")
        y = model(x).sigmoid()
        y.sum().backward()
        optimizer.step()
        best = max([0.0, log_loss({labels}, y[:, 0].detach().cpu().numpy().astype("float64"))])
    """)
    assert code == 0 and f.header["flags"] == 0 and f.steps == 9, said


def test_sizes_that_are_worked_out_of_numbers_from_the_cpu(capture):
    """Of how many cells a grid has along each side (TensoRF's): it came back as ones."""
    code, said, f = capture("""
    import torch
    low, high = torch.tensor([[-1.5, -1.5, -1.5], [1.5, 1.5, 1.5]]).to("cuda")
    side = ((high - low).prod() / 512).pow(1 / 3)
    sizes = ((high - low) / side + 0.5).long().tolist()
    assert sizes == [8, 8, 8], sizes
    assert ((high - low).norm() / torch.tensor(3.0).cuda().sqrt()).long().tolist() == 3
    model = torch.nn.Parameter(torch.rand(sizes, device="cuda"))
    optimizer = torch.optim.SGD([model], lr=0.1)
    for n in range(9):
        model.sum().backward()
        optimizer.step()
    """)
    assert code == 0 and 8 ** 3 * 4 in f.events, said
