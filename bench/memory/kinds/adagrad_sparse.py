# SPDX-License-Identifier: MIT
import torch, torch.nn as nn
m = nn.ModuleDict({"t": nn.EmbeddingBag(300000, 64, sparse=True), "o": nn.Linear(64, 1)}).cuda()
opt = torch.optim.Adagrad(m.parameters(), 0.05)
for i in range(500):
    x = torch.randint(0, 300000, (4096, 10), device="cuda")
    loss = nn.functional.binary_cross_entropy_with_logits(m["o"](m["t"](x)).squeeze(), torch.rand(4096, device="cuda").round())
    opt.zero_grad(); loss.backward(); opt.step()
