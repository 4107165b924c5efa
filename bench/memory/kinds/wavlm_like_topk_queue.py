# SPDX-License-Identifier: MIT
import torch, torch.nn as nn, torch.nn.functional as F
enc = nn.TransformerEncoder(nn.TransformerEncoderLayer(256, 4, 1024, batch_first=True, norm_first=True), 4,
                            enable_nested_tensor=False).cuda()
emb = nn.Parameter(torch.randn(256, device="cuda")); code = nn.Embedding(512, 256).cuda()
opt = torch.optim.AdamW([*enc.parameters(), emb, *code.parameters()], 1e-4)
for it in range(1000):
    x = torch.randn(16, 200, 256, device="cuda"); mask = torch.rand(16, 200, device="cuda") < 0.3
    x[mask] = emb.to(x.dtype); h = enc(x); sel = h[mask]
    tgt = torch.randint(0, 512, (sel.size(0),), device="cuda"); logits = F.gumbel_softmax(sel @ code.weight.T, tau=2, hard=True)
    neg = torch.multinomial(torch.ones(512, device="cuda"), 100)
    loss = F.nll_loss(logits.clamp_min(1e-9).log(), tgt) + (sel @ code.weight[neg].T).logsumexp(1).mean()
    opt.zero_grad(); loss.backward(); opt.step()
