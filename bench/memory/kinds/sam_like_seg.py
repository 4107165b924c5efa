# SPDX-License-Identifier: MIT
import torch, torch.nn as nn, torch.nn.functional as F, torchvision
m = torchvision.models.segmentation.deeplabv3_resnet50(weights=None, weights_backbone=None, num_classes=21, aux_loss=True).cuda()
params = [{"params": m.backbone.parameters(), "lr": 0.001},
          {"params": [*m.classifier.parameters(), *m.aux_classifier.parameters()], "lr": 0.01}]
opt = torch.optim.SGD(params, momentum=0.9, weight_decay=1e-4); sch = torch.optim.lr_scheduler.PolynomialLR(opt, 1000, 0.9)
scaler = torch.amp.GradScaler(); conf = torch.zeros(21, 21, dtype=torch.int64, device="cuda")
for it in range(1000):
    x, y = torch.randn(4, 3, 128, 128).cuda(), torch.randint(0, 21, (4, 128, 128)).cuda(); y[y == 20] = 255
    with torch.autocast("cuda"):
        o = m(x); loss = F.cross_entropy(o["out"], y, ignore_index=255) + 0.4 * F.cross_entropy(o["aux"], y, ignore_index=255)
    opt.zero_grad(); scaler.scale(loss).backward(); scaler.step(opt); scaler.update(); sch.step()
    with torch.no_grad():
        p = o["out"].argmax(1).flatten(); t = y.flatten(); k = (t >= 0) & (t < 21)
        conf += torch.bincount(21 * t[k] + p[k], minlength=441).reshape(21, 21)
