# SPDX-License-Identifier: MIT
import torch, torch.nn as nn, numpy as np
from torch.distributions import Categorical, Normal
dev = torch.device("cuda")
N, T, O, A = 64, 128, 48, 12
class Agent(nn.Module):
    def __init__(self):
        super().__init__()
        self.actor = nn.Sequential(nn.Linear(O, 256), nn.Tanh(), nn.Linear(256, 256), nn.Tanh(), nn.Linear(256, A))
        self.critic = nn.Sequential(nn.Linear(O, 256), nn.Tanh(), nn.Linear(256, 256), nn.Tanh(), nn.Linear(256, 1))
        self.logstd = nn.Parameter(torch.zeros(1, A))
    def act(self, x, a=None):
        mu = self.actor(x); d = Normal(mu, self.logstd.exp().expand_as(mu))
        if a is None: a = d.sample()
        return a, d.log_prob(a).sum(1), d.entropy().sum(1), self.critic(x)
agent = Agent().to(dev); opt = torch.optim.Adam(agent.parameters(), 2.5e-4, eps=1e-5)
obs, acts = torch.zeros(T, N, O, device=dev), torch.zeros(T, N, A, device=dev)
logp, rew, done, val = (torch.zeros(T, N, device=dev) for _ in range(4))
nobs, ndone = torch.randn(N, O, device=dev), torch.zeros(N, device=dev)
class Env:
    def step(self, a):
        return np.random.randn(N, O).astype("float32"), np.random.randn(N), np.random.rand(N) < 0.01
env = Env()
for update in range(1, 1001):
    for t in range(T):
        obs[t], done[t] = nobs, ndone
        with torch.no_grad():
            a, lp, _, v = agent.act(nobs); val[t] = v.flatten()
        acts[t], logp[t] = a, lp
        o, r, d = env.step(a.cpu().numpy())
        rew[t] = torch.tensor(r, device=dev).view(-1); nobs, ndone = torch.Tensor(o).to(dev), torch.Tensor(d).to(dev)
    with torch.no_grad():
        nv = agent.critic(nobs).reshape(1, -1); adv = torch.zeros_like(rew); last = 0
        for t in reversed(range(T)):
            nn_ = 1.0 - (ndone if t == T - 1 else done[t + 1]); nvv = nv if t == T - 1 else val[t + 1]
            delta = rew[t] + 0.99 * nvv * nn_ - val[t]; adv[t] = last = delta + 0.99 * 0.95 * nn_ * last
        ret = adv + val
    b = [x.reshape(-1, *x.shape[2:]) for x in (obs, acts, logp, adv, ret, val)]
    idx = np.arange(N * T); clipfracs = []
    for ep in range(4):
        np.random.shuffle(idx)
        for s in range(0, N * T, 2048):
            mb = idx[s:s + 2048]
            _, nl, ent, nv = agent.act(b[0][mb], b[1][mb])
            lr = nl - b[2][mb]; ratio = lr.exp()
            with torch.no_grad():
                kl = ((ratio - 1) - lr).mean(); clipfracs += [((ratio - 1.0).abs() > 0.2).float().mean().item()]
            ad = b[3][mb]; ad = (ad - ad.mean()) / (ad.std() + 1e-8)
            pg = torch.max(-ad * ratio, -ad * torch.clamp(ratio, 0.8, 1.2)).mean()
            vl = 0.5 * ((nv.view(-1) - b[4][mb]) ** 2).mean()
            loss = pg - 0.01 * ent.mean() + 0.5 * vl
            opt.zero_grad(); loss.backward(); nn.utils.clip_grad_norm_(agent.parameters(), 0.5); opt.step()
        if kl > 0.05: break
    var_y = np.var(b[4].cpu().numpy())
    ev = np.nan if var_y == 0 else 1 - np.var((b[4] - b[5]).cpu().numpy()) / var_y
