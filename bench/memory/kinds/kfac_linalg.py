# SPDX-License-Identifier: MIT
import torch, torch.nn as nn
net = nn.Sequential(nn.Linear(512, 512), nn.Tanh(), nn.Linear(512, 1)).cuda()
opt = torch.optim.SGD(net.parameters(), 0.01)
for it in range(100):
    x, y = torch.randn(2048, 512, device="cuda"), torch.randn(2048, 1, device="cuda")
    with torch.no_grad():
        sol = torch.linalg.lstsq(x, y).solution
        q, r = torch.linalg.qr(x.T @ x)
        a, tau = torch.geqrf(x)
        w = torch.linalg.solve(x.T @ x + 1e-3 * torch.eye(512, device="cuda"), x.T @ y)
    loss = (net(x) - y).pow(2).mean() + (net(x) - x @ sol).abs().mean() * 0.1 + (net[0].weight - q).pow(2).mean()
    opt.zero_grad(); loss.backward(); opt.step()
