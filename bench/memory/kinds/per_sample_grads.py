# SPDX-License-Identifier: MIT
import torch, torch.nn as nn
from torch.func import functional_call, vmap, grad
net = nn.Sequential(nn.Conv2d(1, 16, 8, 2, padding=3), nn.ReLU(), nn.MaxPool2d(2, 1), nn.Conv2d(16, 32, 4, 2), nn.ReLU(),
                    nn.MaxPool2d(2, 1), nn.Flatten(), nn.Linear(512, 32), nn.ReLU(), nn.Linear(32, 10)).cuda()
params = {k: v for k, v in net.named_parameters()}
opt = torch.optim.SGD(net.parameters(), 0.1)
def loss_fn(p, x, y):
    out = functional_call(net, p, (x.unsqueeze(0),))
    return nn.functional.cross_entropy(out, y.unsqueeze(0))
ft = vmap(grad(loss_fn), in_dims=(None, 0, 0))
C, sigma = 1.0, 1.1
for it in range(200):
    x, y = torch.randn(256, 1, 28, 28, device="cuda"), torch.randint(0, 10, (256,), device="cuda")
    g = ft({k: v.detach() for k, v in params.items()}, x, y)
    norms = torch.stack([v.flatten(1).norm(dim=1) for v in g.values()]).norm(dim=0)
    clip = (C / (norms + 1e-6)).clamp(max=1.0)
    for k, p in params.items():
        gk = torch.einsum("b,b...->...", clip, g[k])
        p.grad = (gk + torch.randn_like(gk) * sigma * C) / len(x)
    opt.step(); opt.zero_grad()
