# SPDX-License-Identifier: MIT
import torch, torch.nn as nn, torch.nn.functional as F
from torch.func import functional_call, vmap, grad
net = nn.Sequential(nn.Conv2d(1, 64, 3, 2, 1), nn.ReLU(), nn.Conv2d(64, 64, 3, 2, 1), nn.ReLU(), nn.Flatten(), nn.Linear(64 * 49, 5)).cuda()
opt = torch.optim.Adam(net.parameters(), 1e-3)
for it in range(100):
    xs, ys = torch.randn(8, 25, 1, 28, 28, device="cuda"), torch.randint(0, 5, (8, 25), device="cuda")
    xq, yq = torch.randn(8, 25, 1, 28, 28, device="cuda"), torch.randint(0, 5, (8, 25), device="cuda")
    def task(xs, ys, xq, yq):
        p = dict(net.named_parameters())
        for _ in range(3):
            g = grad(lambda p: F.cross_entropy(functional_call(net, p, (xs,)), ys))(p)
            p = {k: p[k] - 0.1 * g[k] for k in g}
        return F.cross_entropy(functional_call(net, p, (xq,)), yq)
    loss = vmap(task)(xs, ys, xq, yq).mean()
    opt.zero_grad(); loss.backward(); opt.step()
