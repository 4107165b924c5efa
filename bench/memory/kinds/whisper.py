# SPDX-License-Identifier: MIT
import torch
from transformers import WhisperConfig, WhisperForConditionalGeneration, get_linear_schedule_with_warmup
cfg = WhisperConfig(d_model=384, encoder_layers=4, decoder_layers=4, encoder_attention_heads=6, decoder_attention_heads=6,
                    encoder_ffn_dim=1536, decoder_ffn_dim=1536)
model = WhisperForConditionalGeneration(cfg).to("cuda"); model.gradient_checkpointing_enable(); model.config.use_cache = False
opt = torch.optim.AdamW(model.parameters(), lr=1e-5); sch = get_linear_schedule_with_warmup(opt, 50, 500)
model.train()
for step in range(500):
    feats = torch.randn(8, 80, 3000).to("cuda"); labels = torch.randint(0, 50000, (8, 64)).to("cuda")
    with torch.autocast("cuda", dtype=torch.float16): loss = model(input_features=feats, labels=labels).loss
    loss.backward(); opt.step(); sch.step(); opt.zero_grad()
    if step % 100 == 99:
        model.eval()
        with torch.no_grad(): out = model.generate(feats[:2], max_new_tokens=20)
        model.train()
