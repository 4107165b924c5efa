# SPDX-License-Identifier: MIT
import torch, torch.nn as nn, torch.nn.functional as F
def scatter(src, index, dim_size=None, reduce="sum"):
    if dim_size is None: dim_size = int(index.max()) + 1 if index.numel() > 0 else 0
    out = src.new_zeros(dim_size, src.size(1)); idx = index.view(-1, 1).expand_as(src)
    return out.scatter_add_(0, idx, src) if reduce == "sum" else out.scatter_reduce_(0, idx, src, reduce="amax", include_self=False)
class L(nn.Module):
    def __init__(self, i, o): super().__init__(); self.l = nn.Linear(i, o)
    def forward(self, x, ei):
        n = x.size(0); loop = torch.arange(n, device=x.device).repeat(2, 1); m = ei[0] != ei[1]; ei = torch.cat([ei[:, m], loop], 1)
        row, col = ei; deg = scatter(torch.ones(row.numel(), 1, device=x.device), col, n).squeeze(1); w = deg.pow(-0.5)
        w[w == float("inf")] = 0
        return scatter(self.l(x)[row] * (w[row] * w[col])[:, None], col, n)
net = nn.ModuleList([L(32, 128), L(128, 128)]).cuda(); out = nn.Linear(128, 2).cuda()
opt = torch.optim.Adam([*net.parameters(), *out.parameters()], 1e-3)
class Data:
    def __init__(self, **k): self.__dict__.update(k)
    def to(self, d): return Data(**{k: v.to(d) for k, v in self.__dict__.items()})
def batch(k=64):
    xs, es, bs, o = [], [], [], 0
    for i in range(k):
        n = int(torch.randint(10, 50, (1,))); xs.append(torch.randn(n, 32)); es.append(torch.randint(0, n, (2, 4 * n)) + o)
        bs += [i] * n; o += n
    return Data(x=torch.cat(xs), edge_index=torch.cat(es, 1), batch=torch.tensor(bs), y=torch.randint(0, 2, (k,)))
for ep in range(100):
    for _ in range(20):
        d = batch().to("cuda"); h = d.x
        for m in net: h = F.relu(m(h, d.edge_index))
        loss = F.cross_entropy(out(scatter(h, d.batch)), d.y); opt.zero_grad(); loss.backward(); opt.step()
