# SPDX-License-Identifier: MIT
import torch, torch.nn as nn, copy
from torch.func import stack_module_state, functional_call, vmap, jacrev, hessian, jvp
device = "cuda"
models = [nn.Sequential(nn.Linear(64, 256), nn.Tanh(), nn.Linear(256, 1)).to(device) for _ in range(8)]
params, buffers = stack_module_state(models)
base = copy.deepcopy(models[0]).to("meta")
opt = torch.optim.Adam(params.values(), 1e-3)
def f(p, b, x): return functional_call(base, (p, b), (x,))
for it in range(300):
    x = torch.randn(512, 64, device=device)
    y = x.pow(2).sum(-1, keepdim=True)
    out = vmap(f, in_dims=(0, 0, None))(params, buffers, x)
    loss = (out - y).pow(2).mean()
    opt.zero_grad(); loss.backward(); opt.step()
