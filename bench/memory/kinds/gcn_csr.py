# SPDX-License-Identifier: MIT
import torch, torch.nn as nn, torch.nn.functional as F
N, E, C = 50000, 600000, 128
row, col = torch.randint(0, N, (2, E))
A = torch.sparse_coo_tensor(torch.stack([row, col]), torch.ones(E), (N, N)).coalesce().to_sparse_csr().cuda()
x = torch.randn(N, C).cuda(); y = torch.randint(0, 10, (N,)).cuda()
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(C, 256), nn.Linear(256, 10)
    def forward(self, x):
        x = F.relu(self.a(A @ x))
        return self.b(A @ x)
net = Net().cuda()
opt = torch.optim.AdamW(net.parameters(), 1e-3)
for e in range(300):
    loss = F.cross_entropy(net(x), y)
    opt.zero_grad(); loss.backward(); opt.step()
