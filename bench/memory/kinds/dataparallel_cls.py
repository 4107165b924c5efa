# SPDX-License-Identifier: MIT
import torch, torch.nn as nn, torchvision
model = nn.DataParallel(torchvision.models.resnet18(num_classes=100)).cuda()
crit = nn.CrossEntropyLoss(label_smoothing=0.1).cuda()
opt = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9, weight_decay=1e-4, nesterov=True)
torch.backends.cudnn.benchmark = True
swa = torch.optim.swa_utils.AveragedModel(model)
class Fake(torch.utils.data.IterableDataset):
    def __iter__(self):
        info = torch.utils.data.get_worker_info()
        for i in range(50000 // (info.num_workers if info else 1)):
            yield torch.randn(3, 64, 64), i % 100
loader = torch.utils.data.DataLoader(Fake(), batch_size=128, num_workers=4, pin_memory=True, prefetch_factor=4, persistent_workers=True)
for epoch in range(90):
    model.train()
    for i, (x, y) in enumerate(loader):
        x, y = x.cuda(non_blocking=True), y.cuda(non_blocking=True)
        out = model(x)
        loss = crit(out, y)
        opt.zero_grad(); loss.backward(); opt.step()
        _, pred = out.topk(5, 1, True, True)
        correct = pred.t().eq(y.view(1, -1).expand_as(pred.t()))
        top5 = correct[:5].reshape(-1).float().sum(0, keepdim=True).mul_(100.0 / 128)
        if i % 10 == 0: print(loss.item(), top5.item())
    if epoch >= 75: swa.update_parameters(model)
torch.optim.swa_utils.update_bn(loader, swa, device="cuda")
