# SPDX-License-Identifier: MIT
"""What is asked of values that only a GPU knows, and decides nothing of what runs: it is no doubt. Beside each what does decide."""
import pytest

pytest.importorskip("torch")

from reader import peak  # noqa: E402

DATA_DEPENDENT = 1

SCRIPT = """
    import collections, logging, math, numpy, sys, torch
    from torch import nn
    model = nn.Linear(1024, 1024, bias=False).to("cuda")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    logger, bins, counts, kept = logging.getLogger(), {i: 0 for i in range(10)}, [0] * 10, {}
    def save_samples(run, x):
        with torch.no_grad():
            run(x)
    def save_names(path, names):
        print(path, *names)
    def letter(token):
        return str(chr(max(32, token)))
    def part(x, token):
        return x[:max(2, token)]
    def dice(y, guess):
        total = torch.sum(y)
        if total > 0:
            return 2 * torch.masked_select(guess, guess > 0).sum() / total
        return torch.tensor(float("nan"), device="cuda")
    def either(y, guess):
        total = torch.sum(y)
        if total > 0:
            return guess
        return model(guess)
    for n in range(9):
        x = torch.randn(4, 1024, device="cuda")
        y = model(x)
        words, mask, loss = y.argmax(-1), y > 0, y.mean()
        BODY
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    print({i: bins[i] / 2 for i in range(10)}, counts[3])
"""


def doubts(capture, body):
    code, said, f = capture(SCRIPT.replace("BODY", body.replace("\n", "\n        ")))
    assert code in (0, 3), said  # 3: what it made of a made-up number cut it short
    return bool(f.header["flags"] & DATA_DEPENDENT), said


@pytest.mark.parametrize("body, doubt", [
    ("print(''.join(map(letter, words)))", False), ("part(x, words[0])", True),
    ("print('high' if loss > 3 else 'low')", False), ("y = model(x) if loss > 3 else x", True),
    ("print([w for w in words if w > 3])", False), ("y = [model(x) for w in words if w > 3]", True),
    ("logger.info('%d of %s', loss.item(), 'high' if loss > 3 else 'low')", False),
    ("logger.info(model(x) if loss > 3 else 0)", True),
    ("kept.update(a=model(x) if loss > 3 else 0)", True),
])
def test_text(capture, body, doubt):
    found, said = doubts(capture, body)
    assert found == doubt, said


def test_a_doubt_is_told_of_a_line_of_the_script(capture):
    """What wraps a function of a library, as @deprecated does, is nobody's line."""
    found, said = doubts(capture, """import typing_extensions
exec("def some(n): return torch.zeros(int(n), device='cuda')", globals())
typing_extensions.deprecated("no")(some)(y.argmax())""")
    assert found and "train.py:" in said and "typing_extensions" not in said


@pytest.mark.parametrize("body, doubt", [
    ("if loss > 3: save_names('a', [])", False), ("if loss > 3: save_samples(model, x)", True),
    ("if loss > 3: best_logits = logger.manager.logits(x)", True), ("if loss > 3: logger.info(n)", False),
    ("if loss > 3: best_x = x.double()", True), ("if loss > 3: best = loss.item()", False),
    ("if loss > 3: best = loss.cpu().float()", False),
    ("if loss > 3: best = float(loss)", False), ("if loss > 3: print(float(loss), x.shape)", False),
    ("seed = int(words[0])\nnumpy.random.seed((seed + 1) % 99)\nnumpy.random.RandomState(seed)\ntorch.manual_seed(seed)", False),
    ("seed = int(words[0])\ntorch.zeros(seed)", True),
    ("mse = loss.item()\nif mse == 0: mse = 1e-5\nlogger.info(-10 * math.log10(mse))", False),
    ("mse = loss.item()\nif mse == 0: x = 1e-5\nlogger.info(x)", True),
])
def test_what_is_called_like_what_tells(capture, body, doubt):
    """And computes, or runs a model."""
    found, said = doubts(capture, body)
    assert found == doubt, said


@pytest.mark.parametrize("body, doubt", [
    ("assert torch.allclose(x, y)", False), ("assert torch.equal(x, y), 'other'", False), ("assert (x >= 0).all()", False),
    ("assert not torch.isnan(loss)", False), ("assert loss.item() > 0 and \\\n    not loss.item() == 7", False),
    ("if not torch.allclose(x, y): raise ValueError", False),
    ("assert not torch.allclose(x, y)", False), ("assert loss.item() in (3, 4)", False),
    ("torch.testing.assert_close(x, y)", False),
    ("if not torch.allclose(x, y):\n    print('other')\n    raise ValueError", False),
    ("if torch.isnan(loss) or loss > 1e6:\n    print('other')\n    sys.exit(1)", False),
    ("if torch.allclose(x, y): model(x)", True), ("if torch.equal(x, y): model(x)", True),
    ("if not torch.equal(x, y):\n    model(x)\n    raise ValueError", False),
])
def test_checks_that_a_run_passes(capture, body, doubt):
    found, said = doubts(capture, body)
    assert found == doubt, said


@pytest.mark.parametrize("body, doubt", [
    ("for t in loss[None]: bins[int(t)] += loss.item()", False), ("counts[int(loss)] += 1", False),
    ("counts[int(loss * 3)] = counts[int(loss * 3)] + 1", False),
    ("counts[words[0]] += 1", False),
    ("kept[int(loss)] = y\nprint(len(kept))", True), ("bins[int(loss)] += 1\nmodel(x[:bins[1]])", True),
    ("lists = [[], []]\nlists[int(loss)].append(loss.item())\nprint(lists)", False),
    ("lists = [[], []]\nlists[int(loss)].append(3)\nmodel(x[:len(lists[0])])", True),
    ("counts[int(loss)] = 3", False), ("counts[int(loss)] += x[:words[0]].min().item()", True), ("row = x[:words[0]]\nprint(row)", True),
    ("name = 'abcd'[int(loss)]\nprint(name)", False),
    ("layer = [model, model][int(loss)]\nlayer(x)", True),
])
def test_what_is_counted_by_a_number(capture, body, doubt):
    found, said = doubts(capture, body)
    assert found == doubt, said


PICKED = "keep = []\nfor i, row in enumerate(y):\n    if CHECK: keep.append(i)\n"


@pytest.mark.parametrize("check, body, doubt", [
    ("y[i, 0] > 0", "model(x[keep])", True), ("row.mean() > 0", "model(x[keep])", True),
    ("y[i, 0].item() > 0", "loss = loss + x[:len(keep)].mean()", True),
    ("not y[i, 0] < 0 and n >= 0", "model(x[keep])", True), ("y[i, 0] > 0", "kept['all'] = keep", True), ("i > 2", "model(x[keep])", False),
    ("y[i, 0] > 0", "print(len(keep), keep)", False), ("y[i, 0] > 0", "keep.sort()\nlogger.info('%d', len(keep))", False),
    ("n > 0 and loss > 3", "model(x[keep])", False),  # that was asked of no row
    ("y[i, 0] > 0: pass\n    else", "model(x[keep])", True), ("y[i, 0] > 0: pass\n    else", "print(keep)", False),
])
def test_what_is_kept_one_by_one(capture, check, body, doubt):
    """How many are hangs on values, and something on that."""
    found, said = doubts(capture, PICKED.replace("CHECK", check) + body)
    assert found == doubt, said


@pytest.mark.parametrize("kept", ["if y[i, 0] > 0: keep.append(i)", "if not y[i, 0] > 0: keep.append(i)",
                                  "if y[i, 0] > 0: keep.append(x[i])", "if y[i, 0] <= 0: continue\n            keep.append(i)",
                                  "if ~(y[i, 0] > 0): keep.append(i)", "if y[i, 0] > 0 and y[i, 1] > 0: keep.append(i)",
                                  "if not (y[i, 0] > 0 or y[i, 1] > 0): keep.append(i)",
                                  "if y[i, 0] > 0: pass\n            else: keep.append(i)"])
def test_all_are_kept(capture, kept):
    """As of a mask that is an index: four rows, of which 2 ** 20 numbers each are made."""
    body = f"keep = []\n        for i in range(4):\n            {kept}\n        torch.empty(len(keep), 1 << 20, device='cuda')"
    code, said, f = capture(SCRIPT.replace("BODY", body))
    assert code == 0 and f.header["flags"] & DATA_DEPENDENT and 4 << 22 in f.events, said


PAIRS = "pairs = [(v.item(), n) for v in x[0, :3]]\n"


@pytest.mark.parametrize("body, doubt", [
    ("best = sorted(pairs, key=lambda p: p[0])[:2]\nprint(best)", False), ("pairs.sort()\nprint(pairs)", False),
    ("pairs.sort(key=lambda p: p[0], reverse=True)\nprint(pairs)", False),
    ("for value, name in sorted(pairs):\n    print(value, name)", False),
    ("pairs.sort()\nmodel(x[:1 + pairs[0][1]])", True), ("print(sorted(pairs))", False),
    ("print(sorted([v.item() for v in x[0, :3]]))", False), ("v = sorted([v.item() for v in x[0, :3]])\nm = v[1]\nprint(m)", False),
    ("print(max(pairs), min(pairs, key=lambda p: p[0]))", False), ("top = max(pairs)\nprint(top)", False),
    ("top = max(pairs)\nmodel(x[:, :top[1]] if top[1] else x)", True), ("for value, name in sorted(pairs):\n"
                                                                        "    model(x[:name] if name > 9 else x)", True),
    ("best = sorted(pairs)[0]\nmodel(x[:best[1]] if 0 else x)", True),
])
def test_orders(capture, body, doubt):
    found, said = doubts(capture, PAIRS + body)
    assert found == doubt, said


@pytest.mark.parametrize("body, doubt", [
    ("if len(x[mask]) == 0: continue", False), ("if mask.sum() == 0: continue", False), ("if not mask.any(): continue", False),
    ("if mask.sum() > 0: loss = loss + y[mask].mean()", False), ("if y[mask].numel() > 0: loss = loss + y[mask].mean()", False),
    ("number = mask.sum().item()\nif number == 0: continue", False), ("if mask.any(): loss = loss + y[mask].mean()", False),
    ("if not len(y[mask]): continue\nloss = loss + y[mask].mean()", False),
    ("places = mask.nonzero()\nif places.shape[0] < 1: continue", False),
    ("if mask.any().item() and n < 5: loss = loss + y[mask].mean()", False),
    ("loss = loss + y[mask].mean() if len(y[mask]) > 1 else loss", False), ("if mask.sum(): loss = loss + y[mask].mean()", True),
    ("if int(mask.sum()) == 0:\n    print('nothing')\n    continue", False), ("assert len(y[mask]) > 0", True),
    ("rows = mask[0].sum(0)\nloss = loss + y[mask].mean() if rows != 0 else torch.zeros(1).cuda()", False),
    ("number = mask.float().sum()\nif number == 0: loss = loss - x.mean()\nelse: loss = (loss - x.mean()) / number", True),
    ("number, more = mask.float().sum(), y.mean()\nif number == 0:\n    loss = loss - more\nelse:\n"
     "    loss = (loss - more) / number", False),
    ("number = mask.float().sum().item()\nif number > 0:\n    loss = model(x).mean() / number", False),
    ("number = y.sum()\nif number > 0: loss = model(x).mean() / number", False),
    ("norm, grown = torch.norm(y.data), x.norm()\nif norm != 0 and grown != 0:\n    loss = (loss + model(x).mean()) * norm / grown", False),
    ("loss = loss * min(x.norm() / y.norm(), 1)", False), ("x = x[:int(max(y.norm(), 2))]", True),
    ("loss = loss * (model(x) if min(x.norm(), y.norm()) > 3 else x).mean()", True),
    ("if y.norm() > 3: loss = model(x).mean()", True), ("if y.norm() == 0: loss = model(x).mean()", True),
    ("from torch.distributions import MultivariateNormal\n"
     "MultivariateNormal(y[:, :8], torch.diag_embed(y[:, :8].exp())).log_prob(x[:, :8])", False),
    ("if words[0] == 0: continue", True), ("if words[0].item() == 0: continue", True),
    ("if (torch.rand(4) > 2).cuda().sum() == 0: continue", False),
    ("labels = torch.tensor([0, 1, 2 + n]).cuda()\nif (labels == 99).sum() > 0: model(x)", True),
    ("if x.sum() == 0: continue", False), ("if x.abs().sum() > 0: loss = loss + y.mean()", False),
    ("loss = loss + dice(mask.float(), y)", False),
    ("if x.sum() == 3: continue", True), ("if x.sum() > 0: pass\nelse: y = model(model(x))", True), ("y = either(mask.float(), y)", True),
    ("if -torch.arange(1, 5 + n).cuda().float().sum().item() > 0: loss = model(x).mean()", True),
    ("if x.mean() == 0: y = model(model(x))", True),
    ("if mask.sum() == 0: y = model(model(x))", True), ("if len(y[mask]) > 5: y = model(model(x))", True),
    ("if (loss > 0).item(): y = model(model(x))", True),
    ("if mask.any(): loss = y.sum()\nelse: loss = (x @ model.weight).sum()", True),
    ("if mask.any(): loss = loss + (x @ model.weight).sum()", False),
    ("if mask.all(): y = model(model(x))", True), ("if mask.any(): y = x\nelse: y = model(model(x))", True),
    ("if y[mask].numel() == 0: loss = model(x).sum()", True),
    ("while mask.any():\n    model(x)\n    mask = mask & (model(x) > 0)", True),
])
def test_guards_against_nothing(capture, body, doubt):
    found, said = doubts(capture, body)
    assert found == doubt, said


@pytest.mark.parametrize("how", ["", ".item()"])
@pytest.mark.parametrize("test", ["n > 0", "n > 1", "not n <= 1", "n >= 1", "not n == 0"])
@pytest.mark.parametrize("number", ["(y > 0).sum()", "y.norm()"])
def test_what_is_done_where_something_is_there(capture, number, test, how):
    """Of one that is more than 1, too."""
    code, said, f = capture(f"""
    import torch
    model = torch.nn.Linear(8, 8).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(4):
        y = model(torch.randn(4, 8, device="cuda"))
        n, loss = {number}{how}, y.sum()
        if {test}:
            loss = loss + torch.zeros(1 << 20, device="cuda").mean() * y.sum()
        loss.backward()
        optimizer.step()
    """)
    assert code == 0 and not f.header["flags"] & 1 and peak(f.events) > 1 << 22, said


@pytest.mark.parametrize("body, doubt", [
    ("assert torch.Tensor([loss, loss]).shape == (2,)", False), ("assert torch.tensor([loss, loss]).shape == (2,)", False),
    ("x[words[0]:]", True),
])
def test_numbers_that_are_no_sizes(capture, body, doubt):
    found, said = doubts(capture, body)
    assert found == doubt, said


@pytest.mark.parametrize("body, doubt", [
    ("square = x @ x.new_ones(4, 1024).T\nmask = (torch.ones_like(square) - torch.eye(4, device='cuda')).bool()\n"
     "loss = square.masked_select(mask).view(4, -1).sum() + loss\nassert square[mask].shape == (12,)", False),
    ("square = x @ x.T\nassert square[torch.ones(4, 4, device='cuda').triu(1).bool()].shape == (6,)", False),
    ("square = x @ x.T\nassert square[(torch.ones_like(square) - square).bool()].shape == (16,)", True),
    ("big = torch.randn(600, 600, device='cuda')\nmask = torch.eye(600, dtype=torch.bool).to('cuda')\nlabels = torch.arange(600) // 2\n"
     "labels = (labels[None] == labels[:, None]).float().to('cuda')[~mask].view(600, -1)\n"
     "assert big[~mask].view(600, -1)[labels.bool()].view(600, -1).shape == (600, 1)", False),
    ("places = torch.rand(4, 1024, device='cuda').topk(700, dim=-1).indices\nmask = torch.zeros_like(y).scatter_(1, places, 1).bool()\n"
     "assert y[mask].view(4, 700).shape[0] == 4 and y[~mask].shape == (4 * 324,)", False),
    ("places = torch.rand(4, 1024, device='cuda').argsort(dim=-1)[:, :700]\n"
     "mask = torch.zeros(y.shape, dtype=torch.bool, device='cuda')\nmask.scatter_(1, places, True)\n"
     "assert y[mask].view(4, 700).shape[0] == 4", False),
    ("places = torch.rand(4, 1024, device='cuda').topk(700, dim=0 + 1).indices\n"
     "mask = torch.ones_like(y).scatter_(1, places, 0).bool()\nassert y[mask].view(4, 324).shape[0] == 4", False),
    ("places = torch.rand(1024, 4, device='cuda').topk(700, dim=0).indices\n"
     "mask = torch.zeros_like(y).scatter_(1, places[:4], 1).bool()\ny[mask].tolist()", True),
    ("places = torch.randint(0, 9, (4, 700), device='cuda')\nmask = torch.zeros_like(y).scatter_(1, places, 1).bool()\n"
     "y[mask].tolist()", True),
    ("places = torch.rand(4, 1024, device='cuda').topk(700, dim=-1).indices % 9\n"
     "mask = torch.zeros_like(y).scatter_(1, places, 1).bool()\ny[mask].tolist()", True),
    ("places = torch.rand(4, 1024, device='cuda').topk(700, dim=-1).indices\n"
     "mask = torch.zeros_like(y).scatter_(1, places, 1)\nmask.mul_(y)\ny[mask.bool()].tolist()", True),
])
def test_how_many_hold_of_what_the_script_made(capture, body, doubt):
    found, said = doubts(capture, body)
    assert found == doubt, said


@pytest.mark.parametrize("body, doubt", [
    ("if loss.item() > best: model(x)", True), ("value = loss.item()\nif value > best:\n    best = value\n"
                                                "    assert model(x) is not None", False),
    ("value = loss.item()\nif best < value:\n    best, seen = value, model(x)\nelse:\n    patience = 3", False),
    ("value = loss.item()\nif value > best:\n    best = value\n    model(x)\nelse:\n    model(model(x))", True),
    ("value = loss.item()\nif value > best:\n    best = 2 * value\n    model(x)", True),
    ("value = loss.item()\nif best > 3 and value > best:\n    best = value\n    model(x)", True),
])
def test_the_best_so_far(capture, body, doubt):
    """It is, once; what is done then is done."""
    found, said = doubts(capture, "best = 99\n" + body)
    assert found == doubt, said


@pytest.mark.parametrize("body, doubt", [
    ("bins[0] += int((words == 3).sum())\nright = 0\nright += int(words.sum())\nprint(right / 4)", False),
    ("share = int(mask.sum()) / 4\nif share > 0.5: model(x)", True),
    ("right = int((words == 3).sum()) / len(words)\nloss = loss * right", False), ("n = int(mask.sum())\nx[:, :n]", True),
    ("def half(n): return n // 2\nx[:half(int(words.sum()))]", True),
    ("for _ in range(int(words[0])): model(x)", True), ("sizes = [int(w) for w in words]\nx.split(sizes)", True),
    ("if int(words[0]) == 3: model(x)", True),
    ("n = int(torch.tensor([2, 2]).cuda().sum())\nx[:n]", False), ("torch.zeros(int(mask.sum()), device='cuda')", True),
    ("if int((x[0, 0] > 3)): model(x)", True),
])
def test_whole_numbers(capture, body, doubt):
    """int() of a number on the GPU decides nothing by itself: what becomes of it does, or does not."""
    found, said = doubts(capture, body)
    assert found == doubt, said


@pytest.mark.parametrize("body, doubt", [
    ("for k in range(4): y[:, :4][torch.full((4, 4), 1).cuda() * words[0] == k]", False),
    ("for k in range(4): x[:len(x[(words == k)])]", True),
    ("for k in range(4): model(x.repeat(99, 1)[(words.repeat(99) == k)])", True), ("print(f'{words.unique().numel()}')", False),
    ("class Bar:\n    def set_description(self, text): pass\nbar = Bar()\nbar.set_description(f'{words.unique().numel()}')", False),
])
def test_little_that_hangs_on_a_mask(capture, body, doubt):
    """Also of masks of one number after the other, which are not taken to hold everywhere: if they did, it were little."""
    found, said = doubts(capture, body)
    assert found == doubt, said


@pytest.mark.parametrize("write, doubt", [("pass", False), ("torch._foreach_add_([flags, marks], 1.0)", True),
                                          ("flags.add_(loss.detach())", True), ("torch.add(loss.detach(), 1, out=flags)", True)])
def test_what_was_written_into_is_not_known(capture, write, doubt):
    """Of what a list of tensors is written into autograd counts no writes."""
    found, said = doubts(capture, f"flags, marks = torch.zeros((), device='cuda'), torch.zeros(3).cuda()\n"
                                  f"with torch.no_grad(): {write}\nif flags == 0:\n    print(3)\nelse:\n    model(x)")
    assert found == doubt, said


@pytest.mark.parametrize("library, doubt", [("", False), ("import torch", True), ("from torch import nn", True)])
def test_libraries_of_the_cpu(capture, tmp_path, library, doubt):
    """As an environment that is told an action."""
    (tmp_path / "site-packages" / "world").mkdir(parents=True)
    (tmp_path / "site-packages" / "world" / "__init__.py").write_text(library)
    (tmp_path / "site-packages" / "world" / "cart.py").write_text("def step(action):\n    return 1.0 if action == 1 else -1.0\n"
                                                                  "def many(n):\n    return [0] * n\n")
    found, said = doubts(capture, "sys.path.append('site-packages')\nfrom world.cart import step\nstep(words[0].item())")
    assert found == doubt, said


def test_sizes_in_libraries_of_the_cpu(capture):
    found, said = doubts(capture, "import random\nx[:random.randrange(words[0].item())]")
    assert found, said


def test_boxes_of_each_picture_of_a_batch(capture):
    """As detectors gather them: for each picture its own, into a place for as many as the picture with the most has."""
    code, said, f = capture("""
        import torch
        from torch import nn
        model = nn.Linear(1024, 1024, bias=False).cuda()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for n in range(4):
            boxes = torch.rand(n + 9, 6)
            boxes[:, 0] = torch.tensor([0] * (n + 5) + [1, 3, 3, 3])
            boxes = boxes.cuda()
            numbers, counts = boxes[:, 0].unique(return_counts=True)
            place = torch.zeros(4, counts.max(), 5, device="cuda")
            for picture in range(4):
                matches = boxes[:, 0] == picture
                many = matches.sum()
                if many:
                    place[picture, :many] = boxes[matches, 1:]
            assert place.shape == (4, n + 5, 5), place.shape
            (model(torch.randn(4, 1024, device="cuda")).mean() + place.mean()).backward()
            optimizer.step()
            optimizer.zero_grad()
    """)
    assert code == 0 and "cut short" not in said and f.header["flags"] & DATA_DEPENDENT, said


@pytest.mark.parametrize("branch, kept", [
    ("hard.append(x)", True), ("hard.append((n, x.detach()))", True), ("best_x = x.detach(); print(best_x.shape)", True),
    ("hard.append(loss.item())", False), ("hard.append(n); print(len(hard))", False),
])
def test_what_lives_on_where_a_value_was_small(capture, branch, kept):
    """It may be large: hard examples. So it is in the claim."""
    code, said, f = capture(f"""
    import torch
    model = torch.nn.Linear(64, 64).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    hard, best_x = [], None
    for n in range(50):
        x = torch.zeros(1 << 22, device="cuda")
        loss = model(x[:64]).mean()
        loss.backward()
        optimizer.step()
        if loss.item() < 0.5: {branch}
        x = loss = None
    """)
    assert code == 0 and f.header["flags"] & DATA_DEPENDENT == 0 and (f.live_at_end() > 24 << 20) == kept, said


@pytest.mark.parametrize("test", ["(prob != 0).all()", "(prob != 0).all().item()", "not (prob == 0).any()"])
def test_loops_that_are_left_within(capture, test):
    """Drawn again until none is 0 (POMO's): they had no end. A training that ends so goes on."""
    code, said, f = capture(f"""
    import torch
    model = torch.nn.Linear(512, 512).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    while True:
        p, rounds = torch.softmax(model(torch.randn(64, 512, device="cuda")), 1), 0
        while True:
            prob = p.gather(1, p.multinomial(1))
            rounds += 1
            if {test}:
                break
        print("rounds", rounds)
        loss = prob.log().mean()
        loss.backward()
        optimizer.step()
        if loss < 1:
            break
    """, options=["-v", "--timeout", "20"])
    rounds = [line for line in said.splitlines() if line.startswith("rounds")]
    assert code == 0 and rounds and set(rounds) == {"rounds 6"} and f.steps == 0, said


@pytest.mark.parametrize("test, told", [
    ("left - 512 * 512 * share > 5", True), ("np.abs(counts.left - 512 * 512 * share) >= 5", True), ("mask.mean() > share", True),
    ("left and counts.mode == 'test'", True), ("counts.mode == 'test'", False), ("counts.only", False), ("True", False)])
@pytest.mark.parametrize("leave", ["quit()", "sys.exit()"])
def test_a_check_that_ends_the_script_before_it_trains(capture, test, told, leave):
    """What came before was the claim, which looked whole. One that is only to evaluate ends there, too."""
    pytest.importorskip("numpy")
    code, said, f = capture(f"""
        import sys, types, numpy as np, torch
        model = torch.nn.Linear(512, 512).cuda()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

        def check(share):
            mask = (torch.rand(512, 512, device="cuda") < share).float().cpu().numpy()
            left = mask.sum()
            counts = types.SimpleNamespace(left=left, mode="test", only=1)
            if {test}:
                print("not as expected")
                {leave}
        check(0.01)
        for _ in range(5):
            model(torch.randn(64, 512, device="cuda")).sum().backward()
            optimizer.step()
    """)
    if told:
        assert code == 1 and f"{leave}: the script ended itself before its first optimizer step, by a test of numbers" in said, said
    else:
        assert code == 0 and "the script made no optimizer step" in said, said


@pytest.mark.parametrize("crop", ["torch.masked_select(x, mask).view(6, 3, 32, 32)", "x[mask.expand_as(x)].reshape((6, 3, 32, -1))",
                                  "x[mask.expand_as(x)].view(-1, 3, 32, 32)"])
def test_a_shape_says_how_many_a_mask_holds(capture, crop):
    """What was taken to hold all 36 by 36 failed."""
    code, said, f = capture(f"""
        import torch
        layer = torch.nn.Conv2d(3, 4, 3).cuda()
        optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
        for _ in range(5):
            x = torch.randn(6, 3, 36, 36).cuda()
            mask = torch.rand(6, 1, 36, 36, device="cuda") > 0.2
            layer({crop}).mean().backward()
            optimizer.step()
    """)
    assert code == 0 and f.steps == 5, said
