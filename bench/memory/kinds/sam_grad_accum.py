# SPDX-License-Identifier: MIT
import torch, torch.nn as nn, torchvision
class SAM(torch.optim.Optimizer):
    def __init__(self, params, base, rho=0.05, **kw):
        super().__init__(params, dict(rho=rho, **kw)); self.base = base(self.param_groups, **kw); self.param_groups = self.base.param_groups
    @torch.no_grad()
    def first_step(self):
        n = torch.norm(torch.stack([p.grad.norm(2) for g in self.param_groups for p in g["params"] if p.grad is not None]), 2)
        for g in self.param_groups:
            for p in g["params"]:
                if p.grad is None: continue
                self.state[p]["old"] = p.data.clone(); p.add_(p.grad * (g["rho"] / (n + 1e-12)).to(p))
        self.zero_grad()
    @torch.no_grad()
    def second_step(self):
        for g in self.param_groups:
            for p in g["params"]:
                if p.grad is not None: p.data = self.state[p]["old"]
        self.base.step(); self.zero_grad()
    def step(self, closure=None): raise NotImplementedError
net = torchvision.models.efficientnet_b0(num_classes=10).cuda(); opt = SAM(net.parameters(), torch.optim.SGD, lr=0.1, momentum=0.9)
ema = torch.optim.swa_utils.AveragedModel(net, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.999))
for i in range(500):
    x, y = torch.randn(64, 3, 64, 64).cuda(), torch.randint(0, 10, (64,)).cuda()
    nn.functional.cross_entropy(net(x), y).backward(); opt.first_step()
    nn.functional.cross_entropy(net(x), y).backward(); opt.second_step(); ema.update_parameters(net)
