# SPDX-License-Identifier: MIT
"""What is known of values ends with a write into the memory that they are in, whatever tensor writes."""
import pytest

pytest.importorskip("torch")

from reader import peak  # noqa: E402

WRITTEN = """
import torch
import torch.distributed as dist
model = torch.nn.Linear(64, 64).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
ones, count, other = torch.ones(4).cuda(), torch.zeros(4, device="cuda"), torch.tensor([0, 0, 0, 0]).cuda()
data, halves = count.data, count.view(2, 2)
assert not (count > 0).any() and other.sum() == 0
WRITE
for i in range(5):
    if (READ > 0).any() or other.sum() > 0:
        big = torch.zeros(1 << 26, device="cuda")
        del big
    model(torch.ones(2, 64, device="cuda")).sum().backward()
    optimizer.step()
"""


@pytest.mark.parametrize("write, read", [
    ("pass", None), ("ones.data.add_(1); ones.data = torch.ones(4).cuda()", None), ("other.data.add_(0 * other.data)", "count"),
    ("count.data.add_(1)", "count"), ("other.data.add_(1)", "count"), ("count.data.copy_(ones)", "count"),
    ("count.data.copy_(torch.ones(4))", "count"), ("count.data = torch.rand(4, device='cuda')", "count"),
    ("other.data = torch.randint(5, (4,)).cuda().flip(0) * torch.randint(5, (4,), device='cuda')", "count"),
    ("count.data[0] = 1.0", "count"), ("count.data.fill_(1)", "count"), ("count.data.view(2, 2)[0].add_(1)", "count"),
    ("count.detach().add_(1)", "count"), ("halves[0].add_(1)", "count"), ("count.add_(1)", "data"), ("count.add_(1)", "data.view(2, 2)"),
    ("halves.data.add_(1)", "count[:2]"), ("torch._foreach_add_([count.data], 1)", "count"),
    ("torch.add(ones, 1, out=count.data)", "count"),
    ("with torch.inference_mode(): data.add_(1)", "count"), ("count.untyped_storage().copy_(ones.untyped_storage())", "count"),
    ("count.untyped_storage().fill_(1)", "count"), ("count.set_(torch.rand(4, device='cuda'))", "count"),
    ("dist.init_process_group('nccl', rank=0, world_size=2); dist.all_reduce(count)", "count"),
    ("dist.init_process_group('nccl', rank=0, world_size=1); dist.all_reduce(count)", None),
    ("dist.init_process_group('nccl', rank=0, world_size=2); dist.recv(other, 1)", "count"),
    ("dist.init_process_group('nccl', rank=0, world_size=2); dist.batch_isend_irecv([dist.P2POp(dist.irecv, count, 1)])", "count"),
    ("norm = torch.nn.BatchNorm1d(4).cuda(); norm(torch.randn(8, 4, device='cuda')); count = norm.running_mean", "count"),
    ("norm = torch.nn.BatchNorm1d(4).cuda().eval(); norm(torch.randn(8, 4, device='cuda')); count = norm.running_mean", None),
])
def test_what_was_written_through_another_tensor_is_not_known(capture, write, read):
    """`.data` has a counter of writes of its own, as autograd sees it."""
    code, said, f = capture(WRITTEN.replace("WRITE", write).replace("READ", read or "count"))
    assert code == 0 and (peak(f.events) > 256 << 20) == (read is not None), said


def test_what_is_copied_to_a_buffer_of_the_cpu(capture):
    """As with .cpu()."""
    code, said, f = capture("""
    import torch
    model = torch.nn.Linear(64, 64).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    mine, rest = torch.zeros(3, dtype=torch.long), torch.zeros(3)
    for n in range(5):
        mine.copy_(torch.tensor([3, 4, 5]).cuda(), non_blocking=True)
        rest.copy_(torch.rand(3, device="cuda"))
        assert mine.tolist() == [3, 4, 5] and rest.tolist() == [1.0, 1.0, 1.0]
        model(torch.ones(2, 64, device="cuda")).sum().backward()
        optimizer.step()
    """)
    assert code == 0 and f.header["flags"] == 0, said


@pytest.mark.parametrize("put, doubts", [("params[2] = out.mean() * 100", 2), ("params[2] = 3", 2), ("params[2:].fill_(3)", 2),
                                         ("params[2] = torch.tensor(3.0, device='cuda')", 2)])
def test_a_part_of_what_is_known_is_written(capture, put, doubts):
    """Settings and what is worked out once in one buffer, as of a memory bank: the settings are still known."""
    code, said, f = capture(f"""
    import torch
    net = torch.nn.Linear(8, 8).cuda()
    params = torch.tensor([4.0, 0.07, -1.0]).cuda()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(9):
        k, norm = int(params[0].item()), params[2].item()
        out = net(torch.randn(8 * (k + 1), device="cuda").view(5, 8)).exp()
        if norm < 0:
            {put}
        (out / norm).mean().backward()
        optimizer.step()
    """)
    assert (code == 0 and f.steps == 9 or code == 3 and not f.steps) and said.count("data-dependent") <= doubts, said


def test_a_mask_of_which_a_part_is_written_is_not_known(capture):
    code, said, f = capture("""
    import torch
    mask = torch.zeros(4, dtype=torch.bool).cuda()
    model = torch.nn.Linear(8, 8).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(9):
        y = model(torch.randn(4, 8, device="cuda"))
        mask[0] = y.sum() > 0
        y[mask].sum().backward()
        optimizer.step()
    """)
    assert code == 0 and f.header["flags"] & 1, said


def test_columns_of_what_a_mask_takes_are_written(capture):
    """Of so many boxes as there are in a batch, where the largest number possible was taken (YOLOv7's)."""
    code, said, f = capture("""
    import torch
    net = torch.nn.Linear(4, 4).cuda()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(9):
        boxes = torch.cat([torch.randint(3, (30, 1)).float(), torch.rand(30, 3)], 1).cuda()
        mine = boxes[boxes[:, 0] == 1]
        corners = mine.clone()
        corners[:, 1] = mine[:, 1] - mine[:, 3] / 2
        net(corners).sum().backward()
        optimizer.step()
    """)
    assert code == 0 and f.steps == 9 and "cut short" not in said, said
