# SPDX-License-Identifier: MIT
import torch, torch.nn as nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence, pack_sequence
class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.e = nn.Embedding(20000, 200, padding_idx=0)
        self.r = nn.GRU(200, 256, 2, batch_first=True, bidirectional=True, dropout=0.3)
        self.l = nn.utils.parametrizations.weight_norm(nn.Linear(512, 20))
    def forward(self, x, n):
        p = pack_padded_sequence(self.e(x), n.cpu(), batch_first=True, enforce_sorted=False)
        o, h = self.r(p)
        o, _ = pad_packed_sequence(o, batch_first=True, total_length=x.size(1))
        return self.l(o)
data = [(torch.randint(1, 20000, (int(n),)), torch.randint(0, 20, (int(n),))) for n in torch.randint(5, 60, (5000,))]
def collate(b):
    b.sort(key=lambda p: -len(p[0]))
    return pad_sequence([x for x, _ in b], True), pad_sequence([y for _, y in b], True, -100), torch.tensor([len(x) for x, _ in b])
m = Tagger().cuda(); opt = torch.optim.Adam(m.parameters(), 1e-3)
for epoch in range(20):
    for x, y, n in torch.utils.data.DataLoader(data, 64, shuffle=True, collate_fn=collate, drop_last=True):
        x, y, n = x.cuda(), y.cuda(), n.cuda()
        loss = nn.functional.cross_entropy(m(x, n).transpose(1, 2), y, ignore_index=-100)
        opt.zero_grad(); loss.backward(); nn.utils.clip_grad_value_(m.parameters(), 1.0); opt.step()
