# SPDX-License-Identifier: MIT
import torch, torch.nn as nn, torch.nn.functional as F
# neighbour sampling on the GPU, SAGE
N, E = 100000, 2000000
src, dst = torch.randint(0, N, (2, E)).cuda()
order = torch.argsort(dst); src, dst = src[order], dst[order]
rowptr = torch.zeros(N + 1, dtype=torch.long, device="cuda"); rowptr[1:] = torch.bincount(dst, minlength=N).cumsum(0)
feat = torch.randn(N, 100).cuda(); lab = torch.randint(0, 47, (N,)).cuda()
def sample(seeds, k):
    beg, deg = rowptr[seeds], rowptr[seeds + 1] - rowptr[seeds]
    r = (torch.rand(len(seeds), k, device="cuda") * deg.unsqueeze(1)).long().clamp_min(0)
    nb = src[(beg.unsqueeze(1) + r).clamp(max=E - 1)]
    nodes, inv = torch.unique(torch.cat([seeds, nb.flatten()]), return_inverse=True)
    return nodes, inv[:len(seeds)], inv[len(seeds):].view(len(seeds), k)
class SAGE(nn.Module):
    def __init__(self): super().__init__(); self.a, self.b, self.c = nn.Linear(200, 256), nn.Linear(512, 47), nn.BatchNorm1d(256)
    def forward(self, x, layers):
        for i, (lin, (s, nb)) in enumerate(zip((self.a, self.b), layers)):
            x = lin(torch.cat([x[s], x[nb].mean(1)], 1))
            if i == 0: x = F.dropout(F.relu(self.c(x)), 0.5, self.training)
        return x
m = SAGE().cuda(); opt = torch.optim.Adam(m.parameters(), 0.003)
for ep in range(10):
    for seeds in torch.randperm(N, device="cuda").split(1024):
        n1, s1, nb1 = sample(seeds, 10); n0, s0, nb0 = sample(n1, 15)
        loss = F.cross_entropy(m(feat[n0], [(s0, nb0), (s1, nb1)]), lab[seeds]); opt.zero_grad(); loss.backward(); opt.step()
