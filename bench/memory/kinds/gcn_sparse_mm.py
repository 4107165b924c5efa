# SPDX-License-Identifier: MIT
import torch, torch.nn as nn, torch.nn.functional as F
N, E, C, H = 50000, 600000, 128, 256
device = "cuda"
row, col = torch.randint(0, N, (2, E))
idx = torch.stack([row, col])
adj = torch.sparse_coo_tensor(idx, torch.ones(E), (N, N)).coalesce()
deg = torch.sparse.sum(adj, dim=1).to_dense().clamp(min=1)
val = adj.values() / deg[adj.indices()[0]]
adj = torch.sparse_coo_tensor(adj.indices(), val, (N, N)).to(device)
x = torch.randn(N, C, device=device)
y = torch.randint(0, 40, (N,), device=device)
train_mask = (torch.rand(N) < 0.5).to(device)
class GCN(nn.Module):
    def __init__(self):
        super().__init__()
        self.w1, self.w2 = nn.Linear(C, H, bias=False), nn.Linear(H, 40, bias=False)
    def forward(self, x, adj):
        x = F.relu(torch.sparse.mm(adj, self.w1(x)))
        x = F.dropout(x, 0.5, self.training)
        return torch.spmm(adj, self.w2(x))
model = GCN().to(device)
opt = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)
for epoch in range(200):
    model.train()
    opt.zero_grad()
    out = model(x, adj)
    loss = F.cross_entropy(out[train_mask], y[train_mask])
    loss.backward()
    opt.step()
    model.eval()
    with torch.no_grad():
        acc = (model(x, adj).argmax(1) == y).float().mean().item()
