# SPDX-License-Identifier: MIT
import torch, torch.nn as nn
m = nn.ModuleDict({"e": nn.Embedding(50000, 64, sparse=True), "l": nn.Linear(64, 10)}).cuda()
so, do = torch.optim.SparseAdam(m["e"].parameters(), 1e-3), torch.optim.Adam(m["l"].parameters(), 1e-3)
ema = torch.optim.swa_utils.AveragedModel(m["l"])
for ep in range(5):
    for i in range(100):
        x, y = torch.randint(0, 50000, (256, 20)).cuda(), torch.randint(0, 10, (256,)).cuda()
        loss = nn.functional.cross_entropy(m["l"](m["e"](x).mean(1)), y)
        so.zero_grad(); do.zero_grad(); loss.backward(); g = m["e"].weight.grad.coalesce(); n = g.values().norm()
        nnz = g.indices().shape[1]; so.step(); do.step(); ema.update_parameters(m["l"])
