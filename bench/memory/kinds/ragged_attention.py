# SPDX-License-Identifier: MIT
import torch, torch.nn as nn, torch.nn.functional as F
from torch.nn.attention import sdpa_kernel, SDPBackend
class B(nn.Module):
    def __init__(self, d=512): super().__init__(); self.q, self.o = nn.Linear(d, 3 * d), nn.Linear(d, d)
    def forward(self, x, m):
        q, k, v = [t.view(*t.shape[:2], 8, 64).transpose(1, 2) for t in self.q(x).chunk(3, -1)]
        with sdpa_kernel([SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]):
            y = F.scaled_dot_product_attention(q, k, v, attn_mask=m)
        return x + self.o(y.transpose(1, 2).flatten(2))
net = nn.ModuleList([B() for _ in range(4)]).cuda().bfloat16(); opt = torch.optim.AdamW(net.parameters(), 1e-4)
for i in range(1000):
    n = torch.randint(50, 200, (16,)); x = torch.randn(16, 200, 512).cuda().bfloat16(); m = (torch.arange(200)[None] < n[:, None]).cuda()
    h = x
    for b in net: h = b(h, m[:, None, None, :])
    loss = h[m].float().pow(2).mean(); opt.zero_grad(); loss.backward(); opt.step()
