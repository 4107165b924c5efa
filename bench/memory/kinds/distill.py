# SPDX-License-Identifier: MIT
import torch, torch.nn as nn, torch.nn.functional as F, torchvision
teacher = torchvision.models.resnet50(num_classes=100).cuda().eval()
for p in teacher.parameters(): p.requires_grad_(False)
student = torchvision.models.mobilenet_v2(num_classes=100).cuda()
feats = {}
teacher.layer4.register_forward_hook(lambda m, i, o: feats.__setitem__("t", o))
student.features.register_forward_hook(lambda m, i, o: feats.__setitem__("s", o))
proj = nn.Conv2d(1280, 2048, 1).cuda()
opt = torch.optim.SGD([*student.parameters(), *proj.parameters()], 0.05, momentum=0.9, weight_decay=5e-4)
T = 4.0
for it in range(2000):
    x, y = torch.randn(64, 3, 96, 96).cuda(), torch.randint(0, 100, (64,)).cuda()
    with torch.no_grad(): t = teacher(x)
    s = student(x)
    kd = F.kl_div(F.log_softmax(s / T, 1), F.softmax(t / T, 1), reduction="batchmean") * T * T
    ft = F.mse_loss(F.normalize(proj(feats["s"]).flatten(1)), F.normalize(feats["t"].flatten(1)))
    loss = F.cross_entropy(s, y) + kd + ft
    opt.zero_grad(); loss.backward(); opt.step()
