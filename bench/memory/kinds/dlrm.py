# SPDX-License-Identifier: MIT
import torch, torch.nn as nn
class DLRM(nn.Module):
    def __init__(self, sizes, d=64):
        super().__init__()
        self.e = nn.ModuleList([nn.EmbeddingBag(n, d, mode="sum", sparse=True) for n in sizes])
        self.bot = nn.Sequential(nn.Linear(13, 512), nn.ReLU(), nn.Linear(512, d), nn.ReLU())
        k = len(sizes) + 1
        self.top = nn.Sequential(nn.Linear(k * (k - 1) // 2 + d, 512), nn.ReLU(), nn.Linear(512, 1))
        i, j = torch.tril_indices(k, k, -1); self.register_buffer("i", i); self.register_buffer("j", j)
    def forward(self, x, off, idx):
        b = self.bot(x); ly = [e(ix, o) for e, ix, o in zip(self.e, idx, off)]
        T = torch.stack([b, *ly], 1); Z = torch.bmm(T, T.transpose(1, 2))
        return torch.sigmoid(self.top(torch.cat([b, Z[:, self.i, self.j]], 1)))
sizes = [1000000, 500000, 200000, 1000, 50, 10]
m = DLRM(sizes).cuda(); opt = torch.optim.SGD(m.parameters(), 0.1); bce = nn.BCELoss()
for it in range(1000):
    x = torch.rand(2048, 13).cuda(); idx = [torch.randint(0, n, (2048 * 4,)).cuda() for n in sizes]
    off = [torch.arange(0, 8192, 4).cuda() for _ in sizes]
    y = torch.rand(2048, 1).round().cuda()
    loss = bce(m(x, off, idx), y); opt.zero_grad(); loss.backward(); opt.step()
    if it % 50 == 0: print(f"{it} {loss.item():.4f}")
