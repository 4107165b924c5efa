# SPDX-License-Identifier: MIT
"""Training jobs for the tests of radrm.capture: each function builds its model, optimizer and batch on "cuda" and returns the
function of one step. They run the same on a real GPU: record_gpu.py writes what its allocator is asked for, and the tests
compare captures with that."""
import torch
import torch.nn.functional as F
from torch import nn


def classify(model, x, classes, optimizer, scaler=None, autocast=None, each=None):
    """One step of classification. `each(model, optimizer)` is called between backward pass and optimizer step."""
    y = torch.randint(classes, (x.shape[0],), device="cuda")

    def step():
        optimizer.zero_grad()
        if autocast:
            with torch.autocast("cuda", dtype=autocast):
                loss = F.cross_entropy(model(x), y)
        else:
            loss = F.cross_entropy(model(x), y)
        (scaler.scale(loss) if scaler else loss).backward()
        if each:
            each(model, optimizer)
        if scaler:
            scaler.step(optimizer)
            scaler.update()
        else:
            optimizer.step()
    return step


def mlp(*widths):
    layers = []
    for before, after in zip(widths, widths[1:]):
        layers += [nn.Linear(before, after), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def mlp_with(optimizer, **options):
    def build():
        model = mlp(784, 1024, 2048, 10).cuda()
        return classify(model, torch.randn(64, 784, device="cuda"), 10, optimizer(model.parameters(), lr=1e-3, **options))
    return build


def mlp_clip(**options):
    def build():
        model = mlp(784, 1024, 2048, 10).cuda()
        return classify(model, torch.randn(64, 784, device="cuda"), 10, torch.optim.AdamW(model.parameters()),
                        each=lambda m, _: nn.utils.clip_grad_norm_(m.parameters(), 1.0, **options))
    return build


def mlp_amp(dtype, scaled):
    def build():
        model = mlp(784, 1024, 2048, 10).cuda()
        return classify(model, torch.randn(64, 784, device="cuda"), 10, torch.optim.AdamW(model.parameters()),
                        scaler=torch.amp.GradScaler("cuda") if scaled else None, autocast=dtype)
    return build


def mlp_accumulate():
    model = mlp(784, 1024, 2048, 10).cuda()
    optimizer = torch.optim.Adam(model.parameters())
    x, y = torch.randn(64, 784, device="cuda"), torch.randint(10, (64,), device="cuda")

    def step():
        for _ in range(3):
            (F.cross_entropy(model(x), y) / 3).backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=False)
    return step


def mlp_eval():
    model = mlp(784, 1024, 2048, 10).cuda()
    train = classify(model, torch.randn(64, 784, device="cuda"), 10, torch.optim.SGD(model.parameters(), lr=0.1))
    held_out = torch.randn(512, 784, device="cuda")

    def step():
        train()
        model.eval()
        with torch.no_grad():
            (model(held_out).argmax(1) == 1).sum().item()
        model.train()
    return step


class Residual(nn.Module):
    def __init__(self, channels, stride=1, out=None):
        super().__init__()
        out = out or channels
        self.body = nn.Sequential(nn.Conv2d(channels, out, 3, stride, 1, bias=False), nn.BatchNorm2d(out), nn.ReLU(inplace=True),
                                  nn.Conv2d(out, out, 3, 1, 1, bias=False), nn.BatchNorm2d(out))
        self.skip = None if stride == 1 and out == channels else nn.Sequential(
            nn.Conv2d(channels, out, 1, stride, bias=False), nn.BatchNorm2d(out))
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x):
        y = self.body(x)
        y += x if self.skip is None else self.skip(x)
        return self.relu(y)


def resnet():
    return nn.Sequential(nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(inplace=True),
                         nn.MaxPool2d(3, 2, 1), Residual(64), Residual(64), Residual(64, 2, 128), Residual(128, 2, 256),
                         nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(256, 100)).cuda()


def resnet_with(autocast=None, last=False, dtype=None):
    def build():
        model, x = resnet(), torch.randn(32, 3, 128, 128, device="cuda")
        if last:
            model, x = model.to(memory_format=torch.channels_last), x.to(memory_format=torch.channels_last)
        if dtype:
            model, x = model.to(dtype), x.to(dtype)
        return classify(model, x, 100, torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4),
                        autocast=autocast)
    return build


def vgg():
    layers, before = [], 3
    for width in (64, "M", 128, "M", 256, 256, "M", 512, "M"):
        if width == "M":
            layers.append(nn.MaxPool2d(2, 2))
        else:
            layers += [nn.Conv2d(before, width, 3, padding=1), nn.ReLU(inplace=True)]
            before = width
    model = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(512 * 16, 1024), nn.ReLU(inplace=True),
                          nn.Dropout(), nn.Linear(1024, 100)).cuda()
    return classify(model, torch.randn(16, 3, 64, 64, device="cuda"), 100,
                    torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9))


def depthwise():
    model = nn.Sequential(nn.Conv2d(3, 32, 3, 2, 1), nn.BatchNorm2d(32), nn.Hardswish(), nn.Conv2d(32, 32, 3, 1, 1, groups=32),
                          nn.BatchNorm2d(32), nn.SiLU(), nn.Conv2d(32, 64, 1), nn.GELU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                          nn.Linear(64, 10)).cuda()
    return classify(model, torch.randn(16, 3, 64, 64, device="cuda"), 10, torch.optim.RMSprop(model.parameters(), lr=1e-3))


class Attention(nn.Module):
    def __init__(self, width, heads, causal=False, masked=False, dropout=0.0):
        super().__init__()
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.heads, self.causal, self.masked, self.dropout = heads, causal, masked, dropout

    def forward(self, x):
        n, length, width = x.shape
        q, k, v = self.qkv(x).view(n, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        mask = torch.ones(n, 1, length, length, dtype=torch.bool, device=x.device) if self.masked else None
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=self.causal, dropout_p=self.dropout)
        return self.out(y.transpose(1, 2).reshape(n, length, width))


class Block(nn.Module):
    def __init__(self, width, heads, dropout=0.1, **options):
        super().__init__()
        self.attention = Attention(width, heads, **options)
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width), nn.Dropout(dropout))

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class Language(nn.Module):
    def __init__(self, words=5000, width=256, heads=4, layers=2, tied=True, checkpoint=None, **options):
        super().__init__()
        self.embed, self.place = nn.Embedding(words, width), nn.Embedding(512, width)
        self.blocks = nn.ModuleList(Block(width, heads, **options) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, words, bias=False)
        if tied:
            self.head.weight = self.embed.weight
        self.checkpoint = checkpoint

    def forward(self, ids):
        x = self.embed(ids) + self.place(torch.arange(ids.shape[1], device=ids.device))
        for block in self.blocks:
            if self.checkpoint is None:
                x = block(x)
            else:
                x = torch.utils.checkpoint.checkpoint(block, x, use_reentrant=self.checkpoint)
        return self.head(self.norm(x))


def language(autocast=None, dtype=None, batch=8, length=128, **options):
    def build():
        model = Language(**options).cuda()
        if dtype:
            model = model.to(dtype)
        optimizer = torch.optim.AdamW(model.parameters())
        ids = torch.randint(5000, (batch, length), device="cuda")

        def step():
            optimizer.zero_grad()
            with torch.autocast("cuda", dtype=autocast or torch.bfloat16, enabled=autocast is not None):
                logits = model(ids)
                loss = F.cross_entropy(logits.view(-1, logits.shape[-1]), ids.view(-1))
            loss.backward()
            optimizer.step()
            return float(loss.detach())
        return step
    return build


def encoder(autocast=None):
    def build():
        layer = nn.TransformerEncoderLayer(256, 4, 1024, dropout=0.1, batch_first=True)
        model = nn.TransformerEncoder(layer, 3, enable_nested_tensor=False).cuda()
        optimizer = torch.optim.AdamW(model.parameters())
        x = torch.randn(8, 100, 256, device="cuda")

        def step():
            optimizer.zero_grad()
            with torch.autocast("cuda", dtype=torch.bfloat16, enabled=bool(autocast)):
                loss = model(x).float().square().mean()
            loss.backward()
            optimizer.step()
        return step
    return build


def recurrent(kind, **options):
    def build():
        model = kind(128, 256, num_layers=2, batch_first=True, **options).cuda()
        optimizer = torch.optim.Adam(model.parameters())
        x = torch.randn(32, 50, 128, device="cuda")

        def step():
            optimizer.zero_grad()
            model(x)[0].square().mean().backward()
            optimizer.step()
        return step
    return build


def embeddings(mode="sum", sparse=False, length=4):
    def build():
        model = nn.ModuleList(nn.EmbeddingBag(10000, 64, mode=mode, sparse=sparse) for _ in range(3)).cuda()
        head = nn.Linear(192, 2).cuda()
        kind = torch.optim.SGD
        optimizer = kind([*model.parameters(), *head.parameters()], lr=0.1)
        ids = torch.randint(10000, (256, 3, length), device="cuda")
        y = torch.randint(2, (256,), device="cuda")

        def step():
            optimizer.zero_grad()
            x = torch.cat([bag(ids[:, i]) for i, bag in enumerate(model)], dim=1)
            F.cross_entropy(head(x), y).backward()
            optimizer.step()
        return step
    return build


def embedding(n, length):
    def build():
        model = nn.Sequential(nn.Embedding(5000, 64), nn.Linear(64, 8)).cuda()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        ids = torch.randint(5000, (n, length), device="cuda")

        def step():
            optimizer.zero_grad()
            model(ids).square().mean().backward()
            optimizer.step()
        return step
    return build


def operators():
    """Operators of many models, one after the other."""
    model = nn.ModuleDict({"group": nn.GroupNorm(4, 32), "prelu": nn.PReLU(), "up": nn.ConvTranspose2d(32, 16, 2, 2),
                           "one": nn.Conv1d(16, 8, 3), "bn1": nn.BatchNorm1d(8)}).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x = torch.randn(8, 32, 16, 16, device="cuda")
    index = torch.randint(32, (20,), device="cuda")

    def step():
        optimizer.zero_grad()
        y = model["prelu"](model["group"](x))
        y = F.interpolate(model["up"](y), scale_factor=2, mode="bilinear")
        y = F.avg_pool2d(y, 2) + F.max_pool2d(y, 2)
        y = model["bn1"](model["one"](y.flatten(2)))
        z = torch.softmax(y, -1).log() * F.leaky_relu(y) + torch.tanh(y).clamp(-0.5, 0.5)
        z = torch.cat([z, y.cumsum(-1)], 1)[:, :, index] + torch.where(y[:, :1, :1] > 0, 1.0, 2.0)
        top = z.topk(3, -1)[0].std() + torch.norm(z) + F.mse_loss(z, torch.zeros_like(z)) + F.smooth_l1_loss(z, z.detach() * 2)
        (top + F.binary_cross_entropy_with_logits(z, torch.ones_like(z)) + F.normalize(z, dim=1).mean() +
         F.kl_div(F.log_softmax(z, 1), torch.softmax(z.detach(), 1), reduction="batchmean")).backward()
        optimizer.step()
    return step


SGD, ADAM, ADAMW = torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW
JOBS = {
    "mlp-sgd": mlp_with(SGD), "mlp-momentum": mlp_with(SGD, momentum=0.9), "mlp-momentum-decay":
    mlp_with(SGD, momentum=0.9, weight_decay=1e-4, nesterov=True), "mlp-sgd-loop": mlp_with(SGD, momentum=0.9, foreach=False),
    "mlp-sgd-fused": mlp_with(SGD, momentum=0.9, fused=True),
    "mlp-adam": mlp_with(ADAM), "mlp-adam-loop": mlp_with(ADAM, foreach=False), "mlp-adam-fused": mlp_with(ADAM, fused=True),
    "mlp-adam-decay": mlp_with(ADAM, weight_decay=1e-2), "mlp-adam-amsgrad": mlp_with(ADAM, amsgrad=True),
    "mlp-adamw": mlp_with(ADAMW), "mlp-adamw-loop": mlp_with(ADAMW, foreach=False),
    "mlp-adamw-fused": mlp_with(ADAMW, fused=True), "mlp-adagrad": mlp_with(torch.optim.Adagrad),
    "mlp-rmsprop": mlp_with(torch.optim.RMSprop, momentum=0.9, centered=True), "mlp-nadam": mlp_with(torch.optim.NAdam),
    "mlp-clip": mlp_clip(), "mlp-clip-loop": mlp_clip(foreach=False), "mlp-clip-inf": mlp_clip(norm_type=float("inf")),
    "mlp-amp-bf16": mlp_amp(torch.bfloat16, False), "mlp-amp-fp16": mlp_amp(torch.float16, True),
    "mlp-accumulate": mlp_accumulate, "mlp-eval": mlp_eval,
    "resnet": resnet_with(), "resnet-last": resnet_with(last=True), "resnet-amp": resnet_with(torch.bfloat16),
    "resnet-amp-last": resnet_with(torch.float16, True), "resnet-bf16": resnet_with(dtype=torch.bfloat16),
    "vgg": vgg, "depthwise": depthwise,
    "language": language(), "language-untied": language(tied=False), "language-causal": language(causal=True),
    "language-masked": language(masked=True),
    "language-amp": language(torch.bfloat16, causal=True), "language-amp-masked": language(torch.float16, masked=True),
    "language-bf16": language(dtype=torch.bfloat16, causal=True), "language-large": language(batch=32, length=256),
    "language-heads": language(torch.bfloat16, width=240, heads=4, length=100),
    "language-checkpoint": language(checkpoint=False), "language-checkpoint-reentrant": language(checkpoint=True),
    "encoder": encoder(), "encoder-amp": encoder(True),
    "lstm": recurrent(nn.LSTM), "lstm-dropout": recurrent(nn.LSTM, dropout=0.2, bidirectional=True),
    "gru": recurrent(nn.GRU), "rnn": recurrent(nn.RNN),
    "bag-sum": embeddings(), "bag-mean": embeddings("mean"), "bag-max": embeddings("max"), "bag-sparse": embeddings(sparse=True),
    "bag-long": embeddings(length=20), "embedding-small": embedding(16, 64), "embedding-large": embedding(64, 128),
    "operators": operators,
}
