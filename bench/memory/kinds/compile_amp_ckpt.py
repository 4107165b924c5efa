# SPDX-License-Identifier: MIT
import torch, torch.nn as nn
from torch.utils.checkpoint import checkpoint, checkpoint_sequential
class Block(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.ln = nn.LayerNorm(d); self.fc = nn.Sequential(nn.Linear(d, 4*d), nn.GELU(), nn.Linear(4*d, d), nn.Dropout(0.1))
    def forward(self, x): return x + self.fc(self.ln(x))
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(10000, 512)
        self.a = nn.ModuleList([Block(512) for _ in range(4)]); self.b = nn.ModuleList([Block(512) for _ in range(4)])
        self.c = nn.Sequential(*[Block(512) for _ in range(4)])
        self.head = nn.Linear(512, 10000)
    def forward(self, x):
        x = self.emb(x)
        for m in self.a: x = checkpoint(m, x, use_reentrant=True)
        for m in self.b: x = checkpoint(m, x, use_reentrant=False)
        x = checkpoint_sequential(self.c, 2, x, use_reentrant=False)
        return self.head(x)
model = torch.compile(Net().cuda(), mode="max-autotune")
opt = torch.optim.AdamW(model.parameters(), 3e-4, fused=True)
scaler = torch.cuda.amp.GradScaler()
for step in range(1000):
    x = torch.randint(0, 10000, (16, 257), device="cuda")
    with torch.cuda.amp.autocast(dtype=torch.float16):
        logits = model(x[:, :-1])
        loss = nn.functional.cross_entropy(logits.view(-1, 10000), x[:, 1:].reshape(-1))
    scaler.scale(loss).backward()
    scaler.unscale_(opt)
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(opt); scaler.update(); opt.zero_grad(set_to_none=True)
