# SPDX-License-Identifier: MIT
import torch, torch.nn as nn, torch.nn.functional as F, copy, math
class Res(nn.Module):
    def __init__(self, i, o, t=512):
        super().__init__()
        self.n1, self.c1, self.n2, self.c2 = nn.GroupNorm(32, i), nn.Conv2d(i, o, 3, 1, 1), nn.GroupNorm(32, o), nn.Conv2d(o, o, 3, 1, 1)
        self.t = nn.Linear(t, o); self.s = nn.Conv2d(i, o, 1) if i != o else nn.Identity()
    def forward(self, x, t):
        h = self.c1(F.silu(self.n1(x))) + self.t(F.silu(t))[:, :, None, None]
        return self.c2(F.silu(self.n2(h))) + self.s(x)
class Attn(nn.Module):
    def __init__(self, c):
        super().__init__(); self.n, self.qkv, self.p = nn.GroupNorm(32, c), nn.Conv2d(c, 3 * c, 1), nn.Conv2d(c, c, 1)
    def forward(self, x):
        B, C, H, W = x.shape
        q, k, v = self.qkv(self.n(x)).reshape(B, 3, C, H * W).unbind(1)
        a = (q.transpose(1, 2) @ k * C ** -0.5).softmax(-1)
        return x + self.p((v @ a.transpose(1, 2)).reshape(B, C, H, W))
class UNet(nn.Module):
    def __init__(self, c=128):
        super().__init__()
        self.inp = nn.Conv2d(3, c, 3, 1, 1); self.tm = nn.Sequential(nn.Linear(c, 512), nn.SiLU(), nn.Linear(512, 512))
        self.d1, self.down, self.d2, self.a = Res(c, c), nn.Conv2d(c, c, 3, 2, 1), Res(c, 2 * c), Attn(2 * c)
        self.mid = Res(2 * c, 2 * c); self.u1, self.u2 = Res(4 * c, c), Res(2 * c, c); self.out = nn.Conv2d(c, 3, 3, 1, 1)
        self.c = c
    def forward(self, x, t):
        f = torch.exp(-math.log(10000) * torch.arange(self.c // 2, device=x.device) / (self.c // 2))
        e = t[:, None].float() * f[None]; t = self.tm(torch.cat([e.sin(), e.cos()], -1))
        h = self.inp(x); h1 = self.d1(h, t); h2 = self.a(self.d2(self.down(h1), t)); m = self.mid(h2, t)
        u = F.interpolate(self.u1(torch.cat([m, h2], 1), t), scale_factor=2, mode="nearest")
        return self.out(self.u2(torch.cat([u, h1], 1), t))
net = UNet().cuda(); ema = copy.deepcopy(net).requires_grad_(False).eval()
betas = torch.linspace(1e-4, 0.02, 1000, device="cuda"); ab = (1 - betas).cumprod(0)
opt = torch.optim.AdamW(net.parameters(), 2e-4)
for step in range(100000):
    x = torch.rand(64, 3, 32, 32, device="cuda") * 2 - 1; t = torch.randint(0, 1000, (64,), device="cuda"); n = torch.randn_like(x)
    a = ab[t].view(-1, 1, 1, 1); xt = a.sqrt() * x + (1 - a).sqrt() * n
    with torch.autocast("cuda", dtype=torch.bfloat16): loss = F.mse_loss(net(xt, t).float(), n)
    opt.zero_grad(); loss.backward(); nn.utils.clip_grad_norm_(net.parameters(), 1.0); opt.step()
    with torch.no_grad():
        for p, e in zip(net.parameters(), ema.parameters()): e.lerp_(p, 0.001)
    if step % 1000 == 0:
        with torch.no_grad():
            s = torch.randn(16, 3, 32, 32, device="cuda")
            for i in reversed(range(1000)):
                e = ema(s, torch.full((16,), i, device="cuda")); s = (s - betas[i] / (1 - ab[i]).sqrt() * e) / (1 - betas[i]).sqrt()
                if i: s += betas[i].sqrt() * torch.randn_like(s)
