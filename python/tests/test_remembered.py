# SPDX-License-Identifier: MIT
"""What operators give by shapes is asked of PyTorch once."""
import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from radrm.capture import remembered  # noqa: E402

SCRIPT = """
    import torch
    from torch import nn
    class Odd(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv, self.norm = nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8)
            self.lstm, self.head = nn.LSTM(8, 8, batch_first=True), nn.Linear(8, 5)
        def forward(self, x):
            y = self.norm(self.conv(x)).relu_().mean((2, 3))
            z, _ = self.lstm(y.unsqueeze(1).expand(-1, 6, -1))
            w = torch.view_as_complex(z.float().reshape(-1, 2).contiguous()).conj().abs().view(z.shape[0], -1)
            u = z.transpose(1, 2).contiguous().transpose(1, 2)[:, 1:, ::2]
            u = u.masked_fill(u > 0.5, 0).half().float().cumsum(1)
            v = torch.zeros_like(u).copy_(u).add_(1)
            q, k = nn.functional.layer_norm(z, (8,)).chunk(2, -1)
            a, b = torch.var_mean(nn.functional.dropout(q + k, 0.1), -1)
            c = torch.stack(z.unbind(1)).split([2, 4])[1].permute(1, 0, 2).reshape(-1, 4).max(1)[0]
            v = v + a.sum() + b.sum() + c.sum()
            return self.head(z[:, -1]).log_softmax(-1), w.sum() + v.sum() + u.flatten()[3:].sort()[0].sum()
    model = Odd().cuda()
    optimizer = torch.optim.Adam(model.parameters(), foreach=FOREACH, amsgrad=FOREACH)
    for step in range(4):
        for n in (2, 3):
            x = torch.randn(n, 3, 16, 16, device="cuda")
            with torch.autocast("cuda", torch.bfloat16, enabled=step > 1):
                found, more = model(x.to(memory_format=torch.channels_last) if n > 2 else x)
            (nn.functional.nll_loss(found.float(), torch.zeros(n, dtype=torch.int64, device="cuda")) + more).backward()
        optimizer.step()
        optimizer.zero_grad()
"""


def ordered(f):
    """Records, blocks that are given back one after the other by their numbers."""
    found, freed, allocs = [], [], 0
    for kind, argument, figures in f.records:
        allocs += kind == 1
        if kind == 2:
            freed.append(allocs - 1 - argument)
            continue
        found += [sorted(freed), (kind, argument, figures)]
        freed = []
    return [*found, sorted(freed)]


@pytest.mark.parametrize("foreach", ["False", "True"])
def test_a_capture_is_as_if_all_were_asked(capture, monkeypatch, foreach):
    script = SCRIPT.replace("FOREACH", foreach)
    code, once, f = capture(script)
    monkeypatch.setattr(remembered.Remembered, "run", lambda self, func, args, kwargs, ask: ask())
    _, said, other = capture(script, options=["--no-cache"])
    assert code == 0 and said == once and ordered(f) == ordered(other) and f.kernels == other.kernels and f.host == other.host, said


def test_what_is_remembered_is_as_it_was(traced, monkeypatch):
    """Of its shape, type, place and storage; and most is."""
    asked = []
    real = remembered.Remembered.run
    monkeypatch.setattr(remembered.Remembered, "run", lambda self, func, args, kwargs,
                        ask: real(self, func, args, kwargs, lambda: (asked.append(func), ask())[1]))

    def setup():
        def step():
            before = len(asked)
            x = torch.ones(4, 6, device="cuda")
            y = x.t()[1:, 2:]
            assert (y.shape, y.stride(), y.storage_offset(), y.dtype) == ((5, 2), (1, 6), 13, torch.float32)
            assert y.untyped_storage()._cdata == x.untyped_storage()._cdata != (x + 1).untyped_storage()._cdata
            assert (x + y.sum()).to(torch.half).dtype == torch.half and x.mul_(2) is x and x.view(torch.int32).dtype == torch.int32
            assert x.add(1).dtype == torch.float32 and x.int().add(1).dtype == torch.int32 and x.int().add(1.0).dtype == torch.float32
            torch._foreach_mul_([x, y.contiguous()], 0.5 + len(asked) / 7)
            each = torch._foreach_sqrt([x, y])
            mean, left = x.unbind(), nn.functional.layer_norm(x, (6,))
            assert len(each) == 2 and each[1].shape == y.shape and not x.is_set_to(each[0]) and left.shape == x.shape
            assert len(mean) == 4 and mean[2].untyped_storage()._cdata == x.untyped_storage()._cdata and mean[2].storage_offset() == 12
            step.asked = len(asked) - before
            assert step.asked < 3 or step.first
            step.first = False
        step.first = True
        return step
    traced(setup, iterations=4)
