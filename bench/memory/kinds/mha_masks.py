# SPDX-License-Identifier: MIT
import torch, torch.nn as nn, math
class PE(nn.Module):
    def __init__(self, d, n=5000):
        super().__init__()
        pe = torch.zeros(n, 1, d); pos = torch.arange(n).unsqueeze(1); div = torch.exp(torch.arange(0, d, 2) * (-math.log(10000.0) / d))
        pe[:, 0, 0::2] = torch.sin(pos * div); pe[:, 0, 1::2] = torch.cos(pos * div)
        self.register_buffer("pe", pe)
    def forward(self, x): return x + self.pe[:x.size(0)]
class S2S(nn.Module):
    def __init__(self):
        super().__init__()
        self.s, self.t, self.pe = nn.Embedding(8000, 256), nn.Embedding(8000, 256), PE(256)
        self.tr = nn.Transformer(256, 8, 3, 3, 1024, 0.1)
        self.g = nn.Linear(256, 8000)
    def forward(self, src, tgt):
        m = nn.Transformer.generate_square_subsequent_mask(tgt.size(0)).to(src.device)
        sp, tp = (src == 1).t(), (tgt == 1).t()
        out = self.tr(self.pe(self.s(src)), self.pe(self.t(tgt)), tgt_mask=m, src_key_padding_mask=sp, tgt_key_padding_mask=tp,
                      memory_key_padding_mask=sp)
        return self.g(out)
model = S2S().cuda()
for p in model.parameters():
    if p.dim() > 1: nn.init.xavier_uniform_(p)
opt = torch.optim.Adam(model.parameters(), 1e-4, betas=(0.9, 0.98), eps=1e-9)
sched = torch.optim.lr_scheduler.LambdaLR(opt, lambda s: min((s + 1) ** -0.5, (s + 1) * 4000 ** -1.5))
for it in range(1000):
    src, tgt = torch.randint(0, 8000, (40, 64)).cuda(), torch.randint(0, 8000, (42, 64)).cuda()
    out = model(src, tgt[:-1])
    loss = nn.functional.cross_entropy(out.reshape(-1, 8000), tgt[1:].reshape(-1), ignore_index=1)
    opt.zero_grad(); loss.backward(); opt.step(); sched.step()
