# SPDX-License-Identifier: MIT
import torch, torch.nn as nn
class GP(nn.Module):
    def __init__(self):
        super().__init__(); self.net = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 4))
        self.ls, self.n = nn.Parameter(torch.zeros(4)), nn.Parameter(torch.tensor(-2.0))
    def forward(self, x, y):
        z = self.net(x) / self.ls.exp()
        K = torch.exp(-0.5 * torch.cdist(z, z).pow(2)) + (self.n.exp() + 1e-4) * torch.eye(len(x), device=x.device)
        L = torch.linalg.cholesky(K); a = torch.cholesky_solve(y.unsqueeze(1), L)
        return 0.5 * (y @ a.squeeze(1)) + L.diagonal().log().sum()
m = GP().cuda(); opt = torch.optim.Adam(m.parameters(), 0.01)
X, Y = torch.randn(2000, 16).cuda(), torch.randn(2000).cuda()
for i in range(500):
    opt.zero_grad(); l = m(X, Y); l.backward(); opt.step()
    d = torch.distributions.MultivariateNormal(torch.zeros(8, device="cuda"), torch.eye(8, device="cuda")).rsample((16,))
    S = torch.linalg.svdvals(m.net[0].weight.detach()); e = torch.linalg.eigvalsh(m.net[0].weight.detach().T @ m.net[0].weight.detach())
