# SPDX-License-Identifier: MIT
import torch, torch.nn as nn, torch.nn.functional as F
class S4D(nn.Module):
    def __init__(self, h, n=64):
        super().__init__(); self.C = nn.Parameter(torch.view_as_real(torch.randn(h, n // 2, dtype=torch.cfloat)))
        self.dt = nn.Parameter(torch.rand(h) * 4 - 6)
        self.la, self.ai = nn.Parameter(torch.log(0.5 * torch.ones(h, n // 2))), nn.Parameter(torch.arange(n // 2).float().repeat(h, 1))
        self.D = nn.Parameter(torch.randn(h)); self.o = nn.Sequential(nn.Conv1d(h, 2 * h, 1), nn.GLU(-2))
    def forward(self, u):
        L = u.size(-1); dt = self.dt.exp(); C = torch.view_as_complex(self.C); A = -self.la.exp() + 1j * self.ai
        dA = A * dt[:, None]; K = dA[..., None] * torch.arange(L, device=u.device); C = C * (dA.exp() - 1) / A
        K = 2 * torch.einsum("hn,hnl->hl", C, K.exp()).real
        y = torch.fft.irfft(torch.fft.rfft(u, n=2 * L) * torch.fft.rfft(K, n=2 * L), n=2 * L)[..., :L] + u * self.D[:, None]
        return self.o(F.gelu(y))
net = nn.Sequential(S4D(128), S4D(128)).cuda(); opt = torch.optim.AdamW(net.parameters(), 1e-3)
for i in range(300):
    x = torch.randn(16, 128, 1024).cuda(); loss = net(x).pow(2).mean(); opt.zero_grad(); loss.backward(); opt.step()
