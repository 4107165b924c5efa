# SPDX-License-Identifier: MIT
"""Values that only a GPU knows, brought to the CPU: what hangs on them is as uncertain as it was there."""
import pytest

pytest.importorskip("torch")

from reader import peak  # noqa: E402

SCRIPT = """
    import math, numpy as np, torch
    import torch.nn.functional as F
    model = torch.nn.Linear(512, 512).to("cuda")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    labels = torch.tensor([0, 1, 1, 0, 3, 3, 1, 0] * 8)
    def count(mask):
        return mask.sum(0).cpu().numpy()
    def ask(mask):
        for n in range(2):
            if mask.sum().cpu() > n: return n
    for step in range(4):
        x = torch.randn(64, 512, device="cuda")
        y = model(x)
        mask, idx = y[:, 0] > 0, y.argmax(-1) % 8
        truth = labels.to("cuda")
        BODY
        y.mean().backward()
        optimizer.step()
        optimizer.zero_grad()
"""


def captured(capture, body):
    code, said, f = capture(SCRIPT.replace("BODY", body.replace("\n", "\n        ")))
    assert code == 0, said
    return bool(f.header["flags"] & 1), said, f


@pytest.mark.parametrize("number", [
    "int(mask.sum().cpu())", "mask.sum().cpu().item()", "mask.sum().tolist()", "int(mask.sum().cpu().numpy())",
    "mask.sum().cpu().numpy().item()", "mask.sum().to('cpu')", "mask.cpu().sum().item()", "mask.cpu().numpy().sum()",
    "len(mask.nonzero())", "mask.nonzero().cpu().shape[0]", "torch.unique(idx.cpu()).numel()", "idx.max().cpu().item() + 1",
    "torch.tensor(0).copy_(mask.sum())", "torch.count_nonzero(mask).cpu().long().item()", "int(np.asarray(mask.cpu()).sum())",
    "math.ceil(mask.sum().cpu().item() / 2)", "round(mask.float().mean().cpu().item() * 64)",
    "max(int(mask.sum().cpu()), 1)", "int(count(mask))", "torch.tensor([int(mask.sum()), 3]).max().item()",
    "torch.tensor([int(mask.sum()), 3], device='cuda').max().item()", "int(mask.cpu().cuda().sum())",
])
def test_sizes(capture, number):
    found, said, _ = captured(capture, f"n = {number}\nz = torch.zeros(n, 512, device='cuda')")
    assert found, said


@pytest.mark.parametrize("body, doubt", [
    ("x[mask.cpu()]", True), ("x[mask.cpu().nonzero()[:, 0].cuda()]", True),
    ("start = 0\nfor n in idx.bincount(minlength=8).cpu().numpy():\n    model(x[start:start + n])\n    start += n", True),
    ("ends = np.cumsum(idx.bincount(minlength=8).cpu().numpy())\nfor end in ends: model(x[:end])", True),
    ("for n in range(int(mask.sum().cpu())): model(x)", True), ("F.one_hot(idx.cpu()).cuda()", True),
    ("if mask.sum().cpu() > 5: model(x)", True), ("ask(mask)", True), ("if y.mean().cpu().item() > 3: model(x)", True),
    ("if mask.sum().cpu() == 0: continue", False), ("if y.mean().cpu() > 3: print('high')", False),
    ("names = [str(n) for n in idx.cpu().numpy()]\nprint(names)", False), ("assert (idx.cpu() < 8).all()", False),
    ("right = (idx.cpu() == labels).sum().item()\nif right > 40: print(right / 64)", False),
    ("p = y.detach().cpu().numpy()\nfor i in range(0, len(p), 8): print(p[i:i + 8].mean())", False),
    ("p = y.detach().cpu().numpy()\ntorch.from_numpy(np.pad(p, 1)).cuda()", False),
    ("p = idx.tolist()\nprint(sum(a == b for a, b in zip(p, truth.tolist())) / len(p))", False),
    ("x[y[:, 0].cpu().topk(5)[1].cuda()]", False), ("print(len(torch.unique(idx.cpu())))", False),
    ("x[:truth.cpu().max().item()]", False), ("x.split(truth.bincount(minlength=4).tolist())", True),
    ("x[:int(torch.full((3,), 7, device='cuda').cpu()[0])]", False),
])
def test_what_hangs_on_them(capture, body, doubt):
    found, said, _ = captured(capture, body)
    assert found == doubt, said


def test_a_loop_until_they_say_so(capture):
    """Ends, as one that asks the GPU does."""
    found, said, _ = captured(capture, "z = y\nwhile (z.abs() > 1e-3).any().cpu():\n    z = z * 0.5")
    assert found, said


@pytest.mark.parametrize("sizes", ["idx.bincount(minlength=8).tolist()", "idx.bincount(minlength=8).cpu().tolist()",
                                   "[int((idx == k).sum()) for k in range(8)]"])
@pytest.mark.parametrize("split", ["x.split(sizes)", "torch.split(x, sizes)"])
def test_split_among_experts(capture, sizes, split):
    """What there is, in as many parts: it ended with PyTorch's error that they do not sum to it."""
    found, said, f = captured(capture, f"sizes = {sizes}\nparts = [model(part) for part in {split}]\nassert len(parts) == 8\n"
                                       "y = torch.cat(parts)\nassert len(y) == 64")
    assert found, said


@pytest.mark.parametrize("body, doubt", [
    ("x.sum(n)", True), ("x.mean(dim=n)", True), ("x.amax(n)", True), ("x.permute(n, 0)", True),
    ("x.view(n, -1)", True), ("x.reshape(n, -1)", True), ("x.repeat(n, 1)", True), ("x.logsumexp(n)", True),
    ("x.roll(n)", False), ("x.roll(n, 0)", False), ("torch.roll(x, n)", False), ("torch.fft.fftshift(x, n)", False),
    ("torch.sum(x, n)", True), ("torch.std(x, dim=n)", True), ("x.nanmean(n)", True), ("torch.linalg.vector_norm(x, dim=n)", True),
    ("torch.special.logsumexp(x, n)", True), ("torch.fft.fftn(x, dim=n)", True),
    ("F.max_pool2d(x[None], n)", True), ("F.avg_pool1d(x, n)", True), ("torch.nn.AdaptiveAvgPool2d(n)(x[None])", True),
    ("F.conv2d(x[None, None], x[None, None, :3, :3], stride=n)", True), ("torch._C._nn.avg_pool2d(x[None], n)", True),
    ("torch.Generator().manual_seed(n)", False), ("torch.Generator('cuda').manual_seed(n)", False), ("torch.set_num_threads(n)", False),
])
def test_the_only_one_of_a_list(capture, body, doubt):
    """C++ takes what says that it is an int for a list of them, or asks for the number itself."""
    found, said, _ = captured(capture, f"n = mask.sum().item()\n{body}")
    assert found == doubt, said


def test_a_model_that_has_one_is_pickled(capture):
    """As the functions that they stand for: by their names."""
    found, said, _ = captured(capture, "import pickle\nfor one in (torch.mean, torch.Tensor.sum, F.avg_pool2d, torch.linalg.vector_norm):\n"
                              "    model.pool = one\n    assert pickle.loads(pickle.dumps(model)).pool is one")
    assert not found, said


def test_torchscript_knows_them(capture):
    """It compiles derivatives of PyTorch's own, which call them."""
    found, said, _ = captured(capture, "import torch._decomp.decompositions_for_jvp as own\n"
                              "def norm(x): return torch.sum(torch.mean(x, 0), 0)\nnorm.__module__ = 'torch._decomp'\n"
                              "print(torch.jit.script(norm).graph)")
    assert not found and "TorchScript" not in said, said


@pytest.mark.parametrize("body, doubt", [
    ("torch.zeros(k, 5, device='cuda')[idx[0]]", False), ("torch.zeros(k, idx[0], device='cuda')", True),
    ("torch.zeros(k,\n    idx[0], device='cuda')", True), ("x.view(k, -1)[:, idx[0]]", False), ("x[idx[0]].view(k, -1)", False),
])
def test_an_index_beside_a_size(capture, body, doubt):
    import sys
    if sys.version_info < (3, 11) and not doubt:
        pytest.skip("Python says on which line alone")
    found, said, _ = captured(capture, f"k = 4\n{body}")
    assert found == doubt, said


@pytest.mark.parametrize("body, doubt", [
    ("queue[:, at:at + size] = 1", False), ("x[at:at + x.shape[1] // 2]", False), ("x[at:at + at]", True), ("x[at:]", True),
    ("x[at:at + size, :at]", True), ("x[at:at + 4].view(4, at, -1)", True), ("x[at:size + at]", True), ("x[at:at + more]", True),
])
def test_stretches_that_begin_somewhere(capture, body, doubt):
    """As MoCo's queue is filled: they are as long wherever that is. Unless how long is of the GPU, too."""
    import sys
    if sys.version_info < (3, 11) and not doubt:
        pytest.skip("Python says on which line alone")
    found, said, _ = captured(capture, "at, more, size = int(mask.sum()), idx.max().item(), len(x)\n"
                                       f"queue = torch.zeros(8, 512, device='cuda')\n{body}")
    assert found == doubt, said


def test_what_is_given_up_is_forgotten(capture):
    """Marks go with what they are of: another tensor may lie where one was."""
    found, said, f = captured(capture, "for _ in range(99): y.sum().cpu()\nn = [int(torch.tensor(5)) for _ in range(99)][-1]\n"
                                       "torch.zeros(n, 1 << 20, device='cuda')")
    assert not found and peak(f.events) > 20 << 20, said


@pytest.mark.parametrize("body", [
    """def loss(t): return (t * t).sum() if t.sum() > 0 else t.sum()
w = torch.ones(4)
print(mask.cpu(), torch.func.grad(loss)(w), torch.func.jacrev(loss)(w), torch.func.jvp(loss, (w,), (w,)))""",
    "n = mask.sum().cpu().item()\nprint(divmod(n, 60), divmod(640, n), ~n)",
    """weight = torch.tensor([mask.sum().item(), 3], dtype=torch.float, device='cuda', requires_grad=True)
other = torch.optim.SGD([weight], lr=0.1)
(weight.sum() * y.mean()).backward(retain_graph=True)
other.step()""",
])
def test_what_runs_goes_on_running(capture, body):
    found, said, _ = captured(capture, body)
    assert not found, said
