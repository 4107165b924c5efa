# SPDX-License-Identifier: MIT
import torch, torch.nn as nn
class Rec(nn.Module):
    def __init__(self):
        super().__init__()
        self.users = nn.Embedding(200000, 64, sparse=True)
        self.items = nn.EmbeddingBag(500000, 64, mode="sum", sparse=True)
        self.top = nn.Sequential(nn.Linear(128, 256), nn.ReLU(), nn.Linear(256, 1))
    def forward(self, u, i, off):
        return self.top(torch.cat([self.users(u), self.items(i, off)], 1)).squeeze(1)
m = Rec().cuda()
sparse = torch.optim.SGD([*m.users.parameters(), *m.items.parameters()], lr=0.1)
dense = torch.optim.Adam(m.top.parameters(), 1e-3)
for it in range(1000):
    u = torch.randint(0, 200000, (8192,)).cuda()
    i = torch.randint(0, 500000, (8192 * 20,)).cuda()
    off = torch.arange(0, 8192 * 20, 20).cuda()
    y = torch.rand(8192).round().cuda()
    loss = nn.functional.binary_cross_entropy_with_logits(m(u, i, off), y)
    sparse.zero_grad(); dense.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(m.top.parameters(), 1.0)
    sparse.step(); dense.step()
