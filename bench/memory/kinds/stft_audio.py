# SPDX-License-Identifier: MIT
import torch, torch.nn as nn, torch.nn.functional as F
window = torch.hann_window(1024).cuda()
def spec(x, n=1024, hop=256):
    return torch.stft(x, n, hop, n, torch.hann_window(n, device=x.device), return_complex=True)
class Sep(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.LSTM(513, 400, 2, batch_first=True, bidirectional=True)
        self.mask = nn.Linear(800, 513)
    def forward(self, wav):
        s = torch.stft(wav, 1024, 256, window=window, return_complex=True)
        mag, ph = s.abs(), s.angle()
        h, _ = self.rnn(mag.transpose(1, 2).log1p())
        m = torch.sigmoid(self.mask(h)).transpose(1, 2)
        out = torch.polar(mag * m, ph)
        return torch.istft(out, 1024, 256, window=window, length=wav.shape[-1])
net = Sep().cuda(); opt = torch.optim.Adam(net.parameters(), 1e-3)
def mrstft(a, b):
    l = 0
    for n in (512, 1024, 2048):
        A, B = spec(a, n, n // 4).abs(), spec(b, n, n // 4).abs()
        l = l + (A - B).norm() / B.norm() + F.l1_loss(A.clamp_min(1e-7).log(), B.clamp_min(1e-7).log())
    return l
for it in range(500):
    mix, clean = torch.randn(8, 32000).cuda(), torch.randn(8, 32000).cuda()
    est = net(mix)
    loss = F.l1_loss(est, clean) + mrstft(est, clean)
    opt.zero_grad(); loss.backward(); nn.utils.clip_grad_norm_(net.parameters(), 5.0); opt.step()
