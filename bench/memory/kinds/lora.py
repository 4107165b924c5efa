# SPDX-License-Identifier: MIT
import torch, torch.nn as nn, math
from transformers import LlamaConfig, LlamaForCausalLM
class LoRA(nn.Module):
    def __init__(self, base, r=8, alpha=16):
        super().__init__(); self.base = base; base.weight.requires_grad = False
        self.A, self.B, self.s = nn.Parameter(torch.empty(r, base.in_features)), nn.Parameter(torch.zeros(base.out_features, r)), alpha / r
        nn.init.kaiming_uniform_(self.A, a=math.sqrt(5)); self.d = nn.Dropout(0.05)
    def forward(self, x): return self.base(x) + (self.d(x).to(self.A.dtype) @ self.A.T @ self.B.T).to(x.dtype) * self.s
model = LlamaForCausalLM(LlamaConfig(hidden_size=512, intermediate_size=1376, num_hidden_layers=4, num_attention_heads=8,
                                     vocab_size=16000)).to(torch.bfloat16)
for p in model.parameters(): p.requires_grad = False
for n, mod in list(model.named_modules()):
    if n.endswith(("q_proj", "v_proj")):
        parent = model.get_submodule(n.rsplit(".", 1)[0]); setattr(parent, n.rsplit(".", 1)[1], LoRA(mod))
model.cuda(); model.enable_input_require_grads()
model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
opt = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], 2e-4)
print(sum(p.numel() for p in model.parameters() if p.requires_grad))
acc = 4
for step in range(1000):
    x = torch.randint(0, 16000, (4, 512)).cuda()
    loss = model(input_ids=x, labels=x, attention_mask=torch.ones_like(x)).loss / acc
    loss.backward()
    if (step + 1) % acc == 0: opt.step(); opt.zero_grad()
torch.save({k: v for k, v in model.state_dict().items() if ".A" in k or ".B" in k}, "lora.pt")
