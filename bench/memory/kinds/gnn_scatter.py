# SPDX-License-Identifier: MIT
import torch, torch.nn as nn, torch.nn.functional as F
class Conv(nn.Module):
    def __init__(self, i, o):
        super().__init__()
        self.lin, self.edge = nn.Linear(i, o), nn.Linear(2 * o + 16, o)
        self.att = nn.Parameter(torch.randn(o))
    def forward(self, x, ei, ea):
        x = self.lin(x)
        src, dst = ei
        m = F.leaky_relu(self.edge(torch.cat([x[src], x[dst], ea], -1)))
        a = (m * self.att).sum(-1)
        amax = torch.full((x.size(0),), -1e9, device=x.device).scatter_reduce(0, dst, a, reduce="amax")
        a = (a - amax[dst]).exp()
        den = torch.zeros(x.size(0), device=x.device).index_add_(0, dst, a)
        a = a / (den[dst] + 1e-9)
        out = torch.zeros_like(x).index_add_(0, dst, m * a.unsqueeze(-1))
        return F.relu(x + out)
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.c = nn.ModuleList([Conv(32, 128), Conv(128, 128), Conv(128, 128)])
        self.out = nn.Linear(128, 1)
    def forward(self, x, ei, ea, batch, n):
        for c in self.c:
            x = c(x, ei, ea)
        pooled = torch.zeros(n, 128, device=x.device).scatter_add_(0, batch[:, None].expand(-1, 128), x)
        return self.out(pooled).squeeze(-1)
net = Net().cuda(); opt = torch.optim.Adam(net.parameters(), 1e-3)
def collate(graphs):
    xs, eis, eas, bs, ys, off = [], [], [], [], [], 0
    for i, (x, ei, ea, y) in enumerate(graphs):
        xs.append(x); eis.append(ei + off); eas.append(ea); bs.append(torch.full((len(x),), i)); ys.append(y); off += len(x)
    return torch.cat(xs), torch.cat(eis, 1), torch.cat(eas), torch.cat(bs), torch.tensor(ys)
class Mol(torch.utils.data.Dataset):
    def __len__(self): return 20000
    def __getitem__(self, i):
        g = torch.Generator().manual_seed(i); n = int(torch.randint(10, 40, (1,), generator=g)); e = 4 * n
        return torch.randn(n, 32), torch.randint(0, n, (2, e)), torch.randn(e, 16), float(n)
loader = torch.utils.data.DataLoader(Mol(), 128, shuffle=True, collate_fn=collate, num_workers=4, pin_memory=True)
for epoch in range(10):
    for x, ei, ea, b, y in loader:
        x, ei, ea, b, y = [t.cuda(non_blocking=True) for t in (x, ei, ea, b, y)]
        loss = F.mse_loss(net(x, ei, ea, b, int(b.max()) + 1), y)
        opt.zero_grad(set_to_none=True); loss.backward(); opt.step()
