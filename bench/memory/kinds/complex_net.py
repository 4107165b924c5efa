# SPDX-License-Identifier: MIT
import torch, torch.nn as nn
class CLin(nn.Module):
    def __init__(self, i, o): super().__init__(); self.w = nn.Parameter(torch.randn(o, i, dtype=torch.complex64) * 0.02)
    def forward(self, x): return x @ self.w.mH
net = nn.Sequential(CLin(256, 512), CLin(512, 256)).cuda(); opt = torch.optim.Adam(net.parameters(), 1e-3)
scale = nn.Parameter(torch.ones(256, device="cuda")); opt.add_param_group({"params": [scale]})
for i in range(500):
    x = torch.fft.fft(torch.randn(128, 256, device="cuda")); y = net(x); z = torch.view_as_real(y).pow(2).sum(-1).sqrt() * scale
    f = torch.fft.fftshift(torch.fft.fft2(torch.complex(z, z)), dim=-1); g = torch.fft.irfft(torch.fft.rfft(z), n=256)
    conv = torch.fft.ifft(torch.fft.fft(z, 512) * torch.fft.fft(z, 512)).real
    loss = f.abs().mean() + g.mean() + conv.mean() + y.angle().mean() + y.conj().real.mean(); opt.zero_grad(); loss.backward()
    nn.utils.clip_grad_norm_(net.parameters(), 1.0); opt.step()
