# SPDX-License-Identifier: MIT
import torch, torch.nn as nn, itertools, gc
def train(width, lr):
    net = nn.Sequential(nn.Linear(100, width), nn.ReLU(), nn.Linear(width, 10)).cuda(); opt = torch.optim.Adam(net.parameters(), lr)
    for ep in range(5):
        for i in range(100):
            x, y = torch.randn(256, 100).cuda(), torch.randint(0, 10, (256,)).cuda()
            l = nn.functional.cross_entropy(net(x), y); opt.zero_grad(); l.backward(); opt.step()
    return l.item()
best = None
for w, lr in itertools.product([256, 1024, 4096], [1e-3, 1e-4]):
    v = train(w, lr); gc.collect(); torch.cuda.empty_cache()
    if best is None or v < best[0]: best = (v, w, lr)
print(best)
