# SPDX-License-Identifier: MIT
import torch, torch.nn as nn, torch.nn.functional as F
class Spectral(nn.Module):
    def __init__(self, c, m):
        super().__init__()
        self.m = m
        self.w1 = nn.Parameter(torch.rand(c, c, m, m, dtype=torch.cfloat) / c**2)
        self.w2 = nn.Parameter(torch.rand(c, c, m, m, dtype=torch.cfloat) / c**2)
    def forward(self, x):
        ft = torch.fft.rfft2(x)
        out = torch.zeros(x.size(0), x.size(1), x.size(-2), x.size(-1)//2 + 1, dtype=torch.cfloat, device=x.device)
        out[:, :, :self.m, :self.m] = torch.einsum("bixy,ioxy->boxy", ft[:, :, :self.m, :self.m], self.w1)
        out[:, :, -self.m:, :self.m] = torch.einsum("bixy,ioxy->boxy", ft[:, :, -self.m:, :self.m], self.w2)
        return torch.fft.irfft2(out, s=(x.size(-2), x.size(-1)))
class FNO(nn.Module):
    def __init__(self, c=32, m=12):
        super().__init__()
        self.inp = nn.Conv2d(3, c, 1)
        self.s = nn.ModuleList([Spectral(c, m) for _ in range(4)]); self.c = nn.ModuleList([nn.Conv2d(c, c, 1) for _ in range(4)])
        self.out = nn.Conv2d(c, 1, 1)
    def forward(self, x):
        x = self.inp(x)
        for s, c in zip(self.s, self.c):
            x = F.gelu(s(x) + c(x))
        return self.out(x)
model = FNO().cuda(); opt = torch.optim.Adam(model.parameters(), 1e-3, weight_decay=1e-4)
sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, 100)
for ep in range(100):
    for i in range(50):
        x, y = torch.randn(20, 3, 64, 64).cuda(), torch.randn(20, 1, 64, 64).cuda()
        opt.zero_grad(); loss = (model(x) - y).norm() / y.norm(); loss.backward(); opt.step()
    sched.step()
