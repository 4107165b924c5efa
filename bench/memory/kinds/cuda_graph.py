# SPDX-License-Identifier: MIT
import torch, torch.nn as nn
model = nn.Sequential(nn.Linear(1024, 4096), nn.ReLU(), nn.Linear(4096, 1024)).cuda()
opt = torch.optim.AdamW(model.parameters(), 1e-3, capturable=True)
loss_fn = nn.MSELoss()
sx, sy = torch.randn(512, 1024, device="cuda"), torch.randn(512, 1024, device="cuda")
s = torch.cuda.Stream(); s.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(s):
    for _ in range(3):
        opt.zero_grad(set_to_none=True)
        loss_fn(model(sx), sy).backward(); opt.step()
torch.cuda.current_stream().wait_stream(s)
g = torch.cuda.CUDAGraph()
opt.zero_grad(set_to_none=True)
with torch.cuda.graph(g):
    sp = model(sx)
    sl = loss_fn(sp, sy)
    sl.backward()
    opt.step()
for step in range(1000):
    sx.copy_(torch.randn(512, 1024)); sy.copy_(torch.randn(512, 1024))
    g.replay()
    if step % 100 == 0: print(sl.item())
