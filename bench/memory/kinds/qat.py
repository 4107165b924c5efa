# SPDX-License-Identifier: MIT
import torch, torch.nn as nn
import torch.ao.quantization as tq
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.dq = tq.QuantStub(), tq.DeQuantStub()
        self.c1, self.b1, self.r1 = nn.Conv2d(3, 64, 3, padding=1), nn.BatchNorm2d(64), nn.ReLU()
        self.c2, self.b2, self.r2 = nn.Conv2d(64, 128, 3, 2, 1), nn.BatchNorm2d(128), nn.ReLU()
        self.p, self.f = nn.AdaptiveAvgPool2d(1), nn.Linear(128, 10)
    def forward(self, x):
        x = self.q(x); x = self.r1(self.b1(self.c1(x))); x = self.r2(self.b2(self.c2(x)))
        return self.dq(self.f(self.p(x).flatten(1)))
net = Net().train()
net.qconfig = tq.get_default_qat_qconfig("fbgemm")
net = tq.fuse_modules_qat(net, [["c1", "b1", "r1"], ["c2", "b2", "r2"]])
tq.prepare_qat(net, inplace=True); net.cuda()
opt = torch.optim.SGD(net.parameters(), 0.01, momentum=0.9)
for epoch in range(8):
    for i in range(100):
        x, y = torch.randn(128, 3, 32, 32).cuda(), torch.randint(0, 10, (128,)).cuda()
        loss = nn.functional.cross_entropy(net(x), y); opt.zero_grad(); loss.backward(); opt.step()
    if epoch > 3: net.apply(tq.disable_observer)
    if epoch > 2: net.apply(torch.nn.intrinsic.qat.freeze_bn_stats)
net.cpu().eval(); q = tq.convert(net)
