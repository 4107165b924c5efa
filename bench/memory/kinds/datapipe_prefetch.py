# SPDX-License-Identifier: MIT
import torch, torch.nn as nn, threading, queue
class Prefetcher:
    def __init__(self, loader): self.loader = iter(loader); self.stream = torch.cuda.Stream(); self.preload()
    def preload(self):
        try: self.next = next(self.loader)
        except StopIteration: self.next = None; return
        with torch.cuda.stream(self.stream):
            self.next = [t.cuda(non_blocking=True) for t in self.next]; self.next[0] = self.next[0].float().sub_(127).div_(58)
    def __iter__(self):
        while self.next is not None:
            torch.cuda.current_stream().wait_stream(self.stream); b = self.next
            for t in b: t.record_stream(torch.cuda.current_stream())
            self.preload(); yield b
net = nn.Sequential(nn.Conv2d(3, 64, 7, 2, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                    nn.Linear(64, 10)).cuda().to(memory_format=torch.channels_last)
opt = torch.optim.SGD(net.parameters(), 0.1)
ds = torch.utils.data.TensorDataset(torch.randint(0, 255, (2000, 3, 64, 64), dtype=torch.uint8), torch.randint(0, 10, (2000,)))
for ep in range(10):
    for x, y in Prefetcher(torch.utils.data.DataLoader(ds, 64, shuffle=True, num_workers=2, pin_memory=True, drop_last=True)):
        loss = nn.functional.cross_entropy(net(x.contiguous(memory_format=torch.channels_last)), y); opt.zero_grad()
        loss.backward(); opt.step()
