# SPDX-License-Identifier: MIT
import torch, torch.nn as nn
class Quant(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, s):
        ctx.save_for_backward(x, s)
        return (x / s).round().clamp(-8, 7) * s
    @staticmethod
    def backward(ctx, g):
        x, s = ctx.saved_tensors
        q = x / s
        inside = (q > -8) & (q < 7)
        return g * inside, (g * torch.where(inside, q.round() - q, q.sign() * 7)).sum().view_as(s)
class MemEffSwish(torch.autograd.Function):
    @staticmethod
    def forward(ctx, i):
        ctx.save_for_backward(i); return i * torch.sigmoid(i)
    @staticmethod
    def backward(ctx, go):
        i, = ctx.saved_tensors; s = torch.sigmoid(i); return go * (s * (1 + i * (1 - s)))
class QLinear(nn.Linear):
    def __init__(self, *a):
        super().__init__(*a); self.s = nn.Parameter(torch.tensor(0.05))
    def forward(self, x): return nn.functional.linear(x, Quant.apply(self.weight, self.s), self.bias)
class Act(nn.Module):
    def forward(self, x): return MemEffSwish.apply(x)
net = nn.Sequential(QLinear(784, 2048), Act(), QLinear(2048, 2048), Act(), QLinear(2048, 10)).to("cuda:0")
ema = {k: v.detach().clone() for k, v in net.state_dict().items()}
opt = torch.optim.RMSprop(net.parameters(), 1e-3, momentum=0.9)
for i in range(3000):
    x, y = torch.randn(1024, 784).to("cuda:0"), torch.randint(0, 10, (1024,)).to("cuda:0")
    opt.zero_grad(); nn.functional.cross_entropy(net(x), y).backward(); opt.step()
    with torch.no_grad():
        for k, v in net.state_dict().items(): ema[k].mul_(0.999).add_(v, alpha=0.001)
