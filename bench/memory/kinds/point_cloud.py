# SPDX-License-Identifier: MIT
import torch, torch.nn as nn, torch.nn.functional as F
def knn(x, k): return (-torch.cdist(x, x)).topk(k, -1)[1]
def fps(x, n):
    B, N, _ = x.shape; c = torch.zeros(B, n, dtype=torch.long, device=x.device); d = torch.full((B, N), 1e10, device=x.device)
    f = torch.randint(0, N, (B,), device=x.device); b = torch.arange(B, device=x.device)
    for i in range(n):
        c[:, i] = f; dist = ((x - x[b, f][:, None]) ** 2).sum(-1); m = dist < d; d[m] = dist[m]; f = d.max(-1)[1]
    return c
class Edge(nn.Module):
    def __init__(self, i, o):
        super().__init__(); self.c = nn.Sequential(nn.Conv2d(2 * i, o, 1, bias=False), nn.BatchNorm2d(o), nn.LeakyReLU(0.2))
    def forward(self, x):
        B, N, C = x.shape; idx = knn(x, 20); nb = x.gather(1, idx.view(B, -1, 1).expand(-1, -1, C)).view(B, N, 20, C)
        f = torch.cat([nb - x[:, :, None], x[:, :, None].expand_as(nb)], -1)
        return self.c(f.permute(0, 3, 1, 2)).max(-1)[0].transpose(1, 2)
net = nn.Sequential(Edge(3, 64), Edge(64, 128)).cuda(); head = nn.Linear(128, 40).cuda()
opt = torch.optim.Adam([*net.parameters(), *head.parameters()], 1e-3)
for i in range(1000):
    p = torch.rand(8, 1024, 3).cuda(); p = p.gather(1, fps(p, 64)[..., None].expand(-1, -1, 3)); y = torch.randint(0, 40, (8,)).cuda()
    loss = F.cross_entropy(head(net(p).amax(1)), y); opt.zero_grad(); loss.backward(); opt.step()
