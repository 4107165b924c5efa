# SPDX-License-Identifier: MIT
import torch, torch.nn as nn
def block(i, o):
    return nn.Sequential(nn.Conv3d(i, o, 3, padding=1), nn.InstanceNorm3d(o), nn.LeakyReLU(inplace=True),
                         nn.Conv3d(o, o, 3, padding=1), nn.InstanceNorm3d(o), nn.LeakyReLU(inplace=True))
class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = block(1, 32), block(32, 64), block(64, 128); self.p = nn.MaxPool3d(2)
        self.u1, self.d1, self.u2, self.d2 = nn.ConvTranspose3d(128, 64, 2,
                                                                2), block(128, 64), nn.ConvTranspose3d(64, 32, 2, 2), block(64, 32)
        self.o = nn.Conv3d(32, 3, 1)
    def forward(self, x):
        a = self.a(x); b = self.b(self.p(a)); c = self.c(self.p(b))
        return self.o(self.d2(torch.cat([self.u2(self.d1(torch.cat([self.u1(c), b], 1))), a], 1)))
def dice(l, y):
    p = l.softmax(1); y = nn.functional.one_hot(y, 3).permute(0, 4, 1, 2, 3).float()
    return 1 - (2 * (p * y).sum((2, 3, 4)) / ((p + y).sum((2, 3, 4)) + 1e-5)).mean()
net = UNet().to("cuda", memory_format=torch.channels_last_3d)
opt = torch.optim.SGD(net.parameters(), 0.01, 0.99, nesterov=True); sc = torch.amp.GradScaler("cuda")
for it in range(250):
    x, y = torch.randn(2, 1, 64, 64, 64).cuda(), torch.randint(0, 3, (2, 64, 64, 64)).cuda()
    with torch.autocast("cuda"): l = net(x); loss = dice(l, y) + nn.functional.cross_entropy(l, y)
    opt.zero_grad(); sc.scale(loss).backward(); sc.step(opt); sc.update()
