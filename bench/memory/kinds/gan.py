# SPDX-License-Identifier: MIT
import torch, torch.nn as nn
from torch.nn.utils import spectral_norm
from torch.nn.utils.parametrizations import spectral_norm as sn2
G = nn.Sequential(nn.ConvTranspose2d(100, 512, 4, 1, 0, bias=False), nn.BatchNorm2d(512), nn.ReLU(True),
                  nn.ConvTranspose2d(512, 256, 4, 2, 1, bias=False), nn.BatchNorm2d(256), nn.ReLU(True),
                  nn.ConvTranspose2d(256, 128, 4, 2, 1, bias=False), nn.BatchNorm2d(128), nn.ReLU(True),
                  nn.ConvTranspose2d(128, 3, 4, 2, 1), nn.Tanh()).cuda()
D = nn.Sequential(spectral_norm(nn.Conv2d(3, 128, 4, 2, 1)), nn.LeakyReLU(0.2), sn2(nn.Conv2d(128, 256, 4, 2, 1)),
                  nn.LeakyReLU(0.2), spectral_norm(nn.Conv2d(256, 512, 4, 2, 1)), nn.LeakyReLU(0.2), nn.Conv2d(512, 1, 4)).cuda()
def init(m):
    if isinstance(m, (nn.Conv2d, nn.ConvTranspose2d)) and hasattr(m, "weight"): m.weight.data.normal_(0, 0.02)
G.apply(init)
og, od = torch.optim.Adam(G.parameters(), 2e-4, betas=(0.5, 0.999)), torch.optim.Adam(D.parameters(), 2e-4, betas=(0.5, 0.999))
fixed = torch.randn(64, 100, 1, 1, device="cuda")
for it in range(10000):
    for _ in range(5):
        real = torch.randn(64, 3, 32, 32).cuda(); z = torch.randn(64, 100, 1, 1, device="cuda")
        fake = G(z).detach()
        eps = torch.rand(64, 1, 1, 1, device="cuda")
        mid = (eps * real + (1 - eps) * fake).requires_grad_(True)
        o = D(mid)
        gp = torch.autograd.grad(o, mid, torch.ones_like(o), create_graph=True, retain_graph=True, only_inputs=True)[0]
        gp = ((gp.view(64, -1).norm(2, 1) - 1) ** 2).mean()
        ld = D(fake).mean() - D(real).mean() + 10 * gp
        od.zero_grad(); ld.backward(); od.step()
    lg = -D(G(torch.randn(64, 100, 1, 1, device="cuda"))).mean()
    og.zero_grad(); lg.backward(); og.step()
    if it % 100 == 0:
        with torch.no_grad(): img = G(fixed).cpu()
