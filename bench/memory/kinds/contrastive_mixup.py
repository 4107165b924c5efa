# SPDX-License-Identifier: MIT
import torch, torch.nn as nn, torch.nn.functional as F, torchvision, numpy as np
enc = torchvision.models.resnet18(); enc.fc = nn.Sequential(nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 128))
enc = nn.SyncBatchNorm.convert_sync_batchnorm(enc).cuda() if False else enc.cuda()
mom = torchvision.models.resnet18(); mom.fc = nn.Sequential(nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 128))
mom.load_state_dict(enc.state_dict()); mom.cuda().requires_grad_(False)
queue = F.normalize(torch.randn(128, 65536, device="cuda"), dim=0); ptr = torch.zeros(1, dtype=torch.long)
opt = torch.optim.SGD(enc.parameters(), 0.03, momentum=0.9, weight_decay=1e-4)
for it in range(2000):
    a, b = torch.randn(128, 3, 64, 64).cuda(), torch.randn(128, 3, 64, 64).cuda()
    q = F.normalize(enc(a), dim=1)
    with torch.no_grad():
        for p, m in zip(enc.parameters(), mom.parameters()): m.data = m.data * 0.999 + p.data * 0.001
        idx = torch.randperm(128).cuda(); k = F.normalize(mom(b[idx]), dim=1)[torch.argsort(idx)]
    pos = torch.einsum("nc,nc->n", [q, k]).unsqueeze(-1); neg = torch.einsum("nc,ck->nk", [q, queue.clone().detach()])
    logits = torch.cat([pos, neg], 1) / 0.07
    loss = F.cross_entropy(logits, torch.zeros(128, dtype=torch.long).cuda())
    p0 = int(ptr); queue[:, p0:p0 + 128] = k.T; ptr[0] = (p0 + 128) % 65536
    opt.zero_grad(); loss.backward(); opt.step()
