# SPDX-License-Identifier: MIT
import torch, torch.nn as nn, torch.distributions as D
class Coupling(nn.Module):
    def __init__(self, d):
        super().__init__(); self.n = nn.Sequential(nn.Linear(d // 2, 256), nn.ReLU(), nn.Linear(256, d))
        self.w = nn.Parameter(torch.linalg.qr(torch.randn(d, d))[0])
    def forward(self, x):
        ld = torch.slogdet(self.w)[1]; x = x @ self.w; a, b = x.chunk(2, 1); s, t = self.n(a).chunk(2, 1); s = torch.tanh(s)
        return torch.cat([a, b * s.exp() + t], 1), s.sum(1) + ld
f = nn.ModuleList([Coupling(64) for _ in range(8)]).cuda(); opt = torch.optim.Adam(f.parameters(), 1e-3)
prior = D.MultivariateNormal(torch.zeros(64).cuda(), torch.eye(64).cuda())
for i in range(1000):
    x = torch.randn(1024, 64).cuda(); ld = 0
    for m in f: x, l = m(x); ld = ld + l
    loss = -(prior.log_prob(x) + ld).mean(); opt.zero_grad(); loss.backward(); opt.step()
    if not torch.isfinite(loss): raise RuntimeError("nan")
