# SPDX-License-Identifier: MIT
import torch, torchvision
model = torchvision.models.detection.fasterrcnn_mobilenet_v3_large_fpn(weights=None, weights_backbone=None, num_classes=21).cuda()
opt = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], 0.005, 0.9, weight_decay=5e-4)
class D(torch.utils.data.Dataset):
    def __len__(self): return 2000
    def __getitem__(self, i):
        g = torch.Generator().manual_seed(i); n = int(torch.randint(1, 8, (1,), generator=g))
        b = torch.rand(n, 4, generator=g) * 100; b[:, 2:] += b[:, :2] + 20
        return torch.rand(3, 320, 320), {"boxes": b, "labels": torch.randint(1, 21, (n,))}
for epoch in range(10):
    model.train()
    for imgs, tg in torch.utils.data.DataLoader(D(), 4, True, collate_fn=lambda b: tuple(zip(*b)), num_workers=2):
        imgs = [i.cuda() for i in imgs]; tg = [{k: v.cuda() for k, v in t.items()} for t in tg]
        losses = model(imgs, tg); loss = sum(losses.values()); opt.zero_grad(); loss.backward(); opt.step()
    model.eval()
    with torch.no_grad(): out = model(imgs)
