# SPDX-License-Identifier: MIT
import torch, torch.nn as nn
from torch.autograd import grad
class PINN(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(2, 128), nn.Tanh(), nn.Linear(128, 128), nn.Tanh(), nn.Linear(128, 128), nn.Tanh(),
                                 nn.Linear(128, 1))
    def forward(self, x, t): return self.net(torch.cat([x, t], 1))
model = PINN().cuda()
adam = torch.optim.Adam(model.parameters(), 1e-3)
lbfgs = torch.optim.LBFGS(model.parameters(), max_iter=20, history_size=50, line_search_fn="strong_wolfe")
x = torch.rand(20000, 1, device="cuda", requires_grad=True); t = torch.rand(20000, 1, device="cuda", requires_grad=True)
def residual():
    u = model(x, t)
    ux, ut = grad(u, x, torch.ones_like(u), create_graph=True)[0], grad(u, t, torch.ones_like(u), create_graph=True)[0]
    uxx = grad(ux, x, torch.ones_like(ux), create_graph=True)[0]
    return (ut + u * ux - 0.01 / 3.14159 * uxx).pow(2).mean()
for it in range(2000):
    adam.zero_grad(); loss = residual(); loss.backward(); adam.step()
def closure():
    lbfgs.zero_grad(); l = residual(); l.backward(); return l
for it in range(100):
    lbfgs.step(closure)
