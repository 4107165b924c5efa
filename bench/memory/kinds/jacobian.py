# SPDX-License-Identifier: MIT
import torch, torch.nn as nn
from torch.func import jacrev, jacfwd, hessian, vmap, functional_call, jvp, vjp
net = nn.Sequential(nn.Linear(16, 128), nn.Tanh(), nn.Linear(128, 1)).cuda(); opt = torch.optim.Adam(net.parameters(), 1e-3)
for it in range(100):
    x = torch.randn(256, 16, device="cuda")
    H = vmap(hessian(lambda z: net(z).squeeze()))(x)
    lap = H.diagonal(dim1=1, dim2=2).sum(1)
    J = vmap(jacrev(net))(x)
    _, t = jvp(net, (x,), (torch.randn_like(x),))
    loss = lap.pow(2).mean() + J.pow(2).mean() + t.mean()
    opt.zero_grad(); loss.backward(); opt.step()
