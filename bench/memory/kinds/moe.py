# SPDX-License-Identifier: MIT
import torch, torch.nn as nn, torch.nn.functional as F
class MoE(nn.Module):
    def __init__(self, d, n=8, k=2):
        super().__init__()
        self.gate = nn.Linear(d, n, bias=False); self.k, self.n = k, n
        self.ex = nn.ModuleList([nn.Sequential(nn.Linear(d, 4 * d), nn.SiLU(), nn.Linear(4 * d, d)) for _ in range(n)])
    def forward(self, x):
        B, T, D = x.shape; f = x.view(-1, D); logits = self.gate(f); p = F.softmax(logits, -1, dtype=torch.float)
        w, sel = torch.topk(p, self.k, -1); w = (w / w.sum(-1, keepdim=True)).to(x.dtype); out = torch.zeros_like(f)
        mask = F.one_hot(sel, self.n).permute(2, 1, 0)
        for i in range(self.n):
            j, top = torch.where(mask[i])
            if top.shape[0] == 0: continue
            out.index_add_(0, top, self.ex[i](f[None, top].reshape(-1, D)) * w[top, j, None])
        load = mask.float().mean((1, 2)); self.aux = self.n * (load * p.mean(0)).sum()
        return out.view(B, T, D)
class Block(nn.Module):
    def __init__(self, d):
        super().__init__(); self.a = nn.MultiheadAttention(d, 8, batch_first=True); self.m = MoE(d)
        self.n1, self.n2 = nn.RMSNorm(d), nn.RMSNorm(d)
    def forward(self, x, mask):
        y = self.n1(x); x = x + self.a(y, y, y, attn_mask=mask, need_weights=False, is_causal=True)[0]; return x + self.m(self.n2(x))
class LM(nn.Module):
    def __init__(self, d=512):
        super().__init__(); self.e = nn.Embedding(16000, d); self.b = nn.ModuleList([Block(d) for _ in range(4)])
        self.h = nn.Linear(d, 16000, bias=False); self.h.weight = self.e.weight
    def forward(self, x):
        mask = nn.Transformer.generate_square_subsequent_mask(x.size(1), device=x.device); h = self.e(x)
        for b in self.b: h = b(h, mask)
        return self.h(h), sum(b.m.aux for b in self.b)
m = LM().cuda(); opt = torch.optim.AdamW(m.parameters(), 3e-4, betas=(0.9, 0.95), weight_decay=0.1)
for it in range(1000):
    x = torch.randint(0, 16000, (8, 257), device="cuda"); l, aux = m(x[:, :-1])
    loss = F.cross_entropy(l.flatten(0, 1), x[:, 1:].flatten()) + 0.01 * aux
    opt.zero_grad(); loss.backward(); nn.utils.clip_grad_norm_(m.parameters(), 1.0); opt.step()
