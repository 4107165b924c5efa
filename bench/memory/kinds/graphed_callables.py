# SPDX-License-Identifier: MIT
import torch, torch.nn as nn
net = nn.Sequential(nn.Linear(512, 2048), nn.GELU(), nn.Linear(2048, 512)).cuda()
head = nn.Linear(512, 10).cuda()
x = torch.randn(256, 512, device="cuda")
net = torch.cuda.make_graphed_callables(net, (x,))
opt = torch.optim.SGD([*net.parameters(), *head.parameters()], 0.1)
for i in range(1000):
    x, y = torch.randn(256, 512, device="cuda"), torch.randint(0, 10, (256,), device="cuda")
    opt.zero_grad(); loss = nn.functional.cross_entropy(head(net(x)), y); loss.backward(); opt.step()
