# SPDX-License-Identifier: MIT
import torch, torch.nn as nn
class DS2(nn.Module):
    def __init__(self):
        super().__init__()
        self.c = nn.Sequential(nn.Conv2d(1, 32, (41, 11), (2, 2), (20, 5)), nn.BatchNorm2d(32), nn.Hardtanh(0, 20, True),
                               nn.Conv2d(32, 32, (21, 11), (2, 1), (10, 5)), nn.BatchNorm2d(32), nn.Hardtanh(0, 20, True))
        self.r = nn.LSTM(32 * 20, 512, 3, bidirectional=True); self.o = nn.Linear(1024, 29)
    def forward(self, x, n):
        x = self.c(x); B, C, F, T = x.shape
        x = x.view(B, C * F, T).permute(2, 0, 1)
        n = torch.div(n - 1, 2, rounding_mode="floor") + 1
        x = nn.utils.rnn.pack_padded_sequence(x, n.cpu(), enforce_sorted=False); x, _ = self.r(x)
        x, _ = nn.utils.rnn.pad_packed_sequence(x)
        return self.o(x).log_softmax(-1), n
m = DS2().cuda(); opt = torch.optim.AdamW(m.parameters(), 3e-4); ctc = nn.CTCLoss(blank=0, zero_infinity=True)
sch = torch.optim.lr_scheduler.OneCycleLR(opt, 3e-4, total_steps=1000)
for it in range(1000):
    n = torch.randint(200, 400, (16,)); n[0] = 400; x = torch.randn(16, 1, 80, 400).cuda()
    tl = torch.randint(10, 50, (16,)); t = torch.randint(1, 29, (int(tl.sum()),)).cuda()
    lp, ol = m(x, n.cuda()); loss = ctc(lp, t, ol, tl.cuda())
    opt.zero_grad(); loss.backward(); nn.utils.clip_grad_norm_(m.parameters(), 400); opt.step(); sch.step()
    if torch.isnan(loss) or torch.isinf(loss): print("skip"); continue
