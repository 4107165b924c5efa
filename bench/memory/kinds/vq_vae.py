# SPDX-License-Identifier: MIT
import torch, torch.nn as nn, torch.nn.functional as F
class VQ(nn.Module):
    def __init__(self, n=512, d=64):
        super().__init__(); e = torch.randn(d, n); self.register_buffer("e", e); self.register_buffer("cs", torch.zeros(n))
        self.register_buffer("ea", e.clone())
    def forward(self, x):
        f = x.reshape(-1, 64); d = f.pow(2).sum(1, keepdim=True) - 2 * f @ self.e + self.e.pow(2).sum(0, keepdim=True)
        i = (-d).max(1)[1]; oh = F.one_hot(i, 512).type(f.dtype); q = F.embedding(i.view(*x.shape[:-1]), self.e.t())
        if self.training:
            self.cs.data.mul_(0.99).add_(oh.sum(0), alpha=0.01); self.ea.data.mul_(0.99).add_(f.t() @ oh, alpha=0.01); n = self.cs.sum()
            self.e.data.copy_(self.ea / ((self.cs + 1e-5) / (n + 512 * 1e-5) * n).unsqueeze(0))
        diff = (q.detach() - x).pow(2).mean(); return x + (q - x).detach(), diff
enc = nn.Sequential(nn.Conv2d(3, 128, 4, 2, 1), nn.ReLU(), nn.Conv2d(128, 64, 4, 2, 1))
dec = nn.Sequential(nn.ConvTranspose2d(64, 128, 4, 2, 1), nn.ReLU(), nn.ConvTranspose2d(128, 3, 4, 2, 1))
vq = VQ(); m = nn.ModuleList([enc, vq, dec]).cuda(); opt = torch.optim.Adam(m.parameters(), 3e-4)
for i in range(2000):
    x = torch.rand(128, 3, 64, 64).cuda(non_blocking=True); q, d = vq(enc(x).permute(0, 2, 3, 1))
    loss = F.mse_loss(dec(q.permute(0, 3, 1, 2)), x) + 0.25 * d
    opt.zero_grad(); loss.backward(); opt.step()
    if i % 100 == 0:
        used = torch.unique(vq.e.argmax(0)).numel(); print(used)
