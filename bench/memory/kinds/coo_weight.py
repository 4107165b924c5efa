# SPDX-License-Identifier: MIT
import torch, torch.nn as nn
class SparseLinear(nn.Module):
    def __init__(self, i, o, density=0.01):
        super().__init__()
        n = int(i * o * density)
        self.register_buffer("idx", torch.stack([torch.randint(0, o, (n,)), torch.randint(0, i, (n,))]))
        self.v = nn.Parameter(torch.randn(n) * 0.1); self.b = nn.Parameter(torch.zeros(o)); self.shape = (o, i)
    def forward(self, x):
        w = torch.sparse_coo_tensor(self.idx, self.v, self.shape)
        return torch.sparse.mm(w, x.t()).t() + self.b
net = nn.Sequential(SparseLinear(4096, 8192), nn.ReLU(), SparseLinear(8192, 1000)).cuda(); opt = torch.optim.Adam(net.parameters(), 1e-3)
for i in range(500):
    x, y = torch.randn(256, 4096, device="cuda"), torch.randint(0, 1000, (256,), device="cuda")
    loss = nn.functional.cross_entropy(net(x), y); opt.zero_grad(); loss.backward(); opt.step()
