# SPDX-License-Identifier: MIT
import torch, torch.nn as nn
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
class SkipGram(nn.Module):
    def __init__(self, vocab, dim):
        super().__init__()
        self.u = nn.Embedding(vocab, dim, sparse=True)
        self.v = nn.Embedding(vocab, dim, sparse=True)
    def forward(self, c, p, n):
        c, p, n = self.u(c), self.v(p), self.v(n)
        pos = torch.nn.functional.logsigmoid((c * p).sum(-1))
        neg = torch.nn.functional.logsigmoid(-torch.bmm(n, c.unsqueeze(2)).squeeze()).sum(1)
        return -(pos + neg).mean()
model = SkipGram(100000, 256).to(device)
opt = torch.optim.SparseAdam(list(model.parameters()), lr=1e-3)
for step in range(2000):
    c = torch.randint(0, 100000, (4096,), device=device)
    p = torch.randint(0, 100000, (4096,), device=device)
    n = torch.randint(0, 100000, (4096, 5), device=device)
    opt.zero_grad()
    loss = model(c, p, n)
    loss.backward()
    opt.step()
    if step % 100 == 0:
        print(step, loss.item())
