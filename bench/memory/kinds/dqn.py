# SPDX-License-Identifier: MIT
import torch, torch.nn as nn, random, collections, numpy as np, copy
dev = "cuda"
q = nn.Sequential(nn.Conv2d(4, 32, 8, 4), nn.ReLU(), nn.Conv2d(32, 64, 4, 2), nn.ReLU(), nn.Conv2d(64, 64, 3), nn.ReLU(),
                  nn.Flatten(), nn.Linear(3136, 512), nn.ReLU(), nn.Linear(512, 6)).to(dev)
target = copy.deepcopy(q).eval()
opt = torch.optim.AdamW(q.parameters(), 1e-4, amsgrad=True)
buf = collections.deque(maxlen=10000)
state = np.zeros((4, 84, 84), dtype=np.uint8); eps = 1.0
for step in range(50000):
    if random.random() < eps: action = random.randrange(6)
    else:
        with torch.no_grad(): action = q(torch.tensor(state, device=dev).float().unsqueeze(0) / 255).max(1).indices.view(1, 1).item()
    nxt, r, d = np.random.randint(0, 255, (4, 84, 84), dtype=np.uint8), random.random(), random.random() < 0.01
    buf.append((state, action, r, nxt, d)); state = nxt; eps = max(0.05, eps - 1e-5)
    if len(buf) < 200: continue
    b = random.sample(buf, 128)
    s, a, r, n, dd = map(np.array, zip(*b))
    s, n = torch.from_numpy(s).to(dev).float() / 255, torch.from_numpy(n).to(dev).float() / 255
    a, r, dd = torch.from_numpy(a).to(dev), torch.from_numpy(r).float().to(dev), torch.from_numpy(dd).float().to(dev)
    qv = q(s).gather(1, a.unsqueeze(1)).squeeze(1)
    with torch.no_grad(): nv = target(n).max(1)[0]
    loss = nn.functional.smooth_l1_loss(qv, r + 0.99 * nv * (1 - dd))
    opt.zero_grad(); loss.backward(); nn.utils.clip_grad_value_(q.parameters(), 100); opt.step()
    if step % 1000 == 0: target.load_state_dict(q.state_dict())
