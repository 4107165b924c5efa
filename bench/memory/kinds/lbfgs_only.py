# SPDX-License-Identifier: MIT
import torch, torch.nn as nn
net = nn.Sequential(nn.Linear(2, 1000), nn.Tanh(), nn.Linear(1000, 1000), nn.Tanh(), nn.Linear(1000, 1)).cuda()
opt = torch.optim.LBFGS(net.parameters(), lr=1, max_iter=50, history_size=100, line_search_fn="strong_wolfe")
x = torch.rand(10000, 2).cuda()
for i in range(200):
    def closure():
        opt.zero_grad(); l = net(x).pow(2).mean(); l.backward(); return l
    l = opt.step(closure)
    print(i, l.item())
