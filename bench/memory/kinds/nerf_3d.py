# SPDX-License-Identifier: MIT
import torch, torch.nn as nn, torch.nn.functional as F
class NeRF(nn.Module):
    def __init__(self):
        super().__init__()
        self.l = nn.ModuleList([nn.Linear(63 if i == 0 else 256 + (63 if i == 4 else 0), 256) for i in range(8)])
        self.s, self.c = nn.Linear(256, 1), nn.Linear(256, 3)
    def forward(self, x):
        h = x
        for i, l in enumerate(self.l): h = F.relu(l(torch.cat([h, x], -1) if i == 4 else h))
        return torch.sigmoid(self.c(h)), F.relu(self.s(h))
def enc(x): return torch.cat([x] + [f(2.0 ** i * x) for i in range(10) for f in (torch.sin, torch.cos)], -1)
net = NeRF().cuda(); grid = nn.Parameter(torch.randn(1, 4, 64, 64, 64, device="cuda"))
opt = torch.optim.Adam([{"params": net.parameters(), "lr": 5e-4}, {"params": [grid], "lr": 1e-2}])
rays = torch.randn(100000, 6)
for it in range(5000):
    b = rays[torch.randint(0, 100000, (1024,))].cuda(); z = torch.linspace(2, 6, 64, device="cuda").expand(1024, 64)
    z = z + torch.rand_like(z) * 0.1
    p = b[:, None, :3] + b[:, None, 3:] * z[..., None]; rgb, sig = net(enc(p).view(-1, 63))
    rgb, sig = rgb.view(1024, 64, 3), sig.view(1024, 64)
    f = F.grid_sample(grid, p.view(1, 1, 1024, 64, 3), align_corners=True).mean(1).view(1024, 64)
    a = 1 - torch.exp(-(sig + F.softplus(f)) * 0.06)
    w = a * torch.cumprod(torch.cat([torch.ones(1024, 1, device="cuda"), 1 - a + 1e-10], -1), -1)[:, :-1]
    idx = torch.searchsorted(w.cumsum(-1).contiguous(), torch.rand(1024, 32, device="cuda"), right=True).clamp(max=63)
    col = (w[..., None] * rgb).sum(1); loss = F.mse_loss(col, torch.rand(1024, 3, device="cuda")); opt.zero_grad()
    loss.backward(); opt.step()
    psnr = -10 * torch.log10(loss.detach())
