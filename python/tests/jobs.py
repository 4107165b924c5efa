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
        return classify(
            model,
            torch.randn(64, 784, device="cuda"),
            10,
            torch.optim.AdamW(model.parameters()),
            each=lambda m, _: nn.utils.clip_grad_norm_(m.parameters(), 1.0, **options),
        )

    return build


def mlp_amp(dtype, scaled):
    def build():
        model = mlp(784, 1024, 2048, 10).cuda()
        return classify(
            model,
            torch.randn(64, 784, device="cuda"),
            10,
            torch.optim.AdamW(model.parameters()),
            scaler=torch.amp.GradScaler("cuda") if scaled else None,
            autocast=dtype,
        )

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
        self.body = nn.Sequential(
            nn.Conv2d(channels, out, 3, stride, 1, bias=False),
            nn.BatchNorm2d(out),
            nn.ReLU(inplace=True),
            nn.Conv2d(out, out, 3, 1, 1, bias=False),
            nn.BatchNorm2d(out),
        )
        self.skip = (
            None
            if stride == 1 and out == channels
            else nn.Sequential(nn.Conv2d(channels, out, 1, stride, bias=False), nn.BatchNorm2d(out))
        )
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x):
        y = self.body(x)
        y += x if self.skip is None else self.skip(x)
        return self.relu(y)


def resnet():
    return nn.Sequential(
        nn.Conv2d(3, 64, 7, 2, 3, bias=False),
        nn.BatchNorm2d(64),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(3, 2, 1),
        Residual(64),
        Residual(64),
        Residual(64, 2, 128),
        Residual(128, 2, 256),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(256, 100),
    ).cuda()


def resnet_with(autocast=None, last=False, dtype=None):
    def build():
        model, x = resnet(), torch.randn(32, 3, 128, 128, device="cuda")
        if last:
            model, x = model.to(memory_format=torch.channels_last), x.to(memory_format=torch.channels_last)
        if dtype:
            model, x = model.to(dtype), x.to(dtype)
        return classify(
            model, x, 100, torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4), autocast=autocast
        )

    return build


def vgg():
    layers, before = [], 3
    for width in (64, "M", 128, "M", 256, 256, "M", 512, "M"):
        if width == "M":
            layers.append(nn.MaxPool2d(2, 2))
        else:
            layers += [nn.Conv2d(before, width, 3, padding=1), nn.ReLU(inplace=True)]
            before = width
    model = nn.Sequential(
        *layers,
        nn.AdaptiveAvgPool2d(4),
        nn.Flatten(),
        nn.Linear(512 * 16, 1024),
        nn.ReLU(inplace=True),
        nn.Dropout(),
        nn.Linear(1024, 100),
    ).cuda()
    return classify(
        model, torch.randn(16, 3, 64, 64, device="cuda"), 100, torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    )


def depthwise():
    model = nn.Sequential(
        nn.Conv2d(3, 32, 3, 2, 1),
        nn.BatchNorm2d(32),
        nn.Hardswish(),
        nn.Conv2d(32, 32, 3, 1, 1, groups=32),
        nn.BatchNorm2d(32),
        nn.SiLU(),
        nn.Conv2d(32, 64, 1),
        nn.GELU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(64, 10),
    ).cuda()
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
    model = nn.ModuleDict(
        {
            "group": nn.GroupNorm(4, 32),
            "prelu": nn.PReLU(),
            "up": nn.ConvTranspose2d(32, 16, 2, 2),
            "one": nn.Conv1d(16, 8, 3),
            "bn1": nn.BatchNorm1d(8),
        }
    ).cuda()
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
        (
            top
            + F.binary_cross_entropy_with_logits(z, torch.ones_like(z))
            + F.normalize(z, dim=1).mean()
            + F.kl_div(F.log_softmax(z, 1), torch.softmax(z.detach(), 1), reduction="batchmean")
        ).backward()
        optimizer.step()

    return step


SGD, ADAM, ADAMW = torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW
JOBS = {
    "mlp-sgd": mlp_with(SGD),
    "mlp-momentum": mlp_with(SGD, momentum=0.9),
    "mlp-momentum-decay": mlp_with(SGD, momentum=0.9, weight_decay=1e-4, nesterov=True),
    "mlp-sgd-loop": mlp_with(SGD, momentum=0.9, foreach=False),
    "mlp-sgd-fused": mlp_with(SGD, momentum=0.9, fused=True),
    "mlp-adam": mlp_with(ADAM),
    "mlp-adam-loop": mlp_with(ADAM, foreach=False),
    "mlp-adam-fused": mlp_with(ADAM, fused=True),
    "mlp-adam-decay": mlp_with(ADAM, weight_decay=1e-2),
    "mlp-adam-amsgrad": mlp_with(ADAM, amsgrad=True),
    "mlp-adamw": mlp_with(ADAMW),
    "mlp-adamw-loop": mlp_with(ADAMW, foreach=False),
    "mlp-adamw-fused": mlp_with(ADAMW, fused=True),
    "mlp-adagrad": mlp_with(torch.optim.Adagrad),
    "mlp-rmsprop": mlp_with(torch.optim.RMSprop, momentum=0.9, centered=True),
    "mlp-nadam": mlp_with(torch.optim.NAdam),
    "mlp-clip": mlp_clip(),
    "mlp-clip-loop": mlp_clip(foreach=False),
    "mlp-clip-inf": mlp_clip(norm_type=float("inf")),
    "mlp-amp-bf16": mlp_amp(torch.bfloat16, False),
    "mlp-amp-fp16": mlp_amp(torch.float16, True),
    "mlp-accumulate": mlp_accumulate,
    "mlp-eval": mlp_eval,
    "resnet": resnet_with(),
    "resnet-last": resnet_with(last=True),
    "resnet-amp": resnet_with(torch.bfloat16),
    "resnet-amp-last": resnet_with(torch.float16, True),
    "resnet-bf16": resnet_with(dtype=torch.bfloat16),
    "vgg": vgg,
    "depthwise": depthwise,
    "language": language(),
    "language-untied": language(tied=False),
    "language-causal": language(causal=True),
    "language-masked": language(masked=True),
    "language-amp": language(torch.bfloat16, causal=True),
    "language-amp-masked": language(torch.float16, masked=True),
    "language-bf16": language(dtype=torch.bfloat16, causal=True),
    "language-large": language(batch=32, length=256),
    "language-heads": language(torch.bfloat16, width=240, heads=4, length=100),
    "language-checkpoint": language(checkpoint=False),
    "language-checkpoint-reentrant": language(checkpoint=True),
    "encoder": encoder(),
    "encoder-amp": encoder(True),
    "lstm": recurrent(nn.LSTM),
    "lstm-dropout": recurrent(nn.LSTM, dropout=0.2, bidirectional=True),
    "gru": recurrent(nn.GRU),
    "rnn": recurrent(nn.RNN),
    "bag-sum": embeddings(),
    "bag-mean": embeddings("mean"),
    "bag-max": embeddings("max"),
    "bag-sparse": embeddings(sparse=True),
    "bag-long": embeddings(length=20),
    "embedding-small": embedding(16, 64),
    "embedding-large": embedding(64, 128),
    "operators": operators,
}


def rnn_shape(kind, batch, length, size, hidden, layers=1, dtype=torch.float32, autocast=False, packed=False, **options):
    """One forward and backward pass, for the memory that cuDNN keeps between them."""

    def build():
        model = kind(size, hidden, num_layers=layers, **options).to("cuda", dtype)
        x = torch.randn(length, batch, size, device="cuda", dtype=dtype)
        if packed:
            x = nn.utils.rnn.pack_padded_sequence(x, torch.linspace(length, 1, batch).long())

        def step():
            with torch.autocast("cuda", dtype=torch.float16, enabled=autocast):
                y = model(x)[0]
            (y.data if packed else y).float().sum().backward()
            model.zero_grad()

        return step

    return build


def attention_shape(batch, heads, length, width, dtype, mask=None, causal=False, keys=None, dropout=0.0, gqa=0):
    """One forward and backward pass of attention alone. `mask`: None, "bool", "float" or "row"."""

    def build():
        keys_ = keys or length
        q = torch.randn(batch, heads, length, width, device="cuda", dtype=dtype, requires_grad=True)
        k, v = (
            torch.randn(batch, gqa or heads, keys_, width, device="cuda", dtype=dtype, requires_grad=True) for _ in range(2)
        )
        m = {
            None: lambda: None,
            "bool": lambda: torch.ones(batch, 1, length, keys_, dtype=torch.bool, device="cuda"),
            "float": lambda: torch.zeros(batch, 1, length, keys_, dtype=dtype, device="cuda"),
            "row": lambda: torch.ones(batch, 1, 1, keys_, dtype=torch.bool, device="cuda"),
        }[mask]()

        def step():
            F.scaled_dot_product_attention(
                q, k, v, attn_mask=m, is_causal=causal, dropout_p=dropout, **({"enable_gqa": True} if gqa else {})
            ).sum().backward()
            q.grad = k.grad = v.grad = None

        return step

    return build


def operator(function, *shapes, dtype=torch.float32, parameters=()):
    """One forward and backward pass of a function of tensors of these shapes."""

    def build():
        inputs = [torch.randn(shape, device="cuda", dtype=dtype, requires_grad=True) for shape in shapes]
        function_ = function() if isinstance(function, type) else function

        def step():
            y = function_(*inputs)
            y.backward(torch.empty_like(y))
            for x in inputs:
                x.grad = None

        return step

    return build


H, BF, FP = torch.float16, torch.bfloat16, torch.float32
SHAPES = {}
for _kind in (nn.LSTM, nn.GRU, nn.RNN):
    for _n, (_b, _l, _s, _h, _o) in enumerate(
        (
            (32, 50, 128, 256, {}),
            (64, 50, 128, 256, {}),
            (32, 100, 128, 256, {}),
            (32, 50, 256, 256, {}),
            (32, 50, 128, 512, {}),
            (32, 50, 128, 256, {"layers": 2}),
            (32, 50, 128, 256, {"layers": 3, "bidirectional": True}),
            (32, 50, 128, 256, {"layers": 2, "dropout": 0.3}),
            (32, 50, 128, 256, {"dtype": H}),
            (33, 51, 100, 200, {}),
            (7, 13, 20, 30, {"layers": 2}),
            (32, 50, 128, 256, {"autocast": True}),
            (32, 50, 128, 256, {"packed": True}),
        )
    ):
        SHAPES[f"{_kind.__name__.lower()}-{_n}"] = rnn_shape(_kind, _b, _l, _s, _h, **_o)
for _n, _a in enumerate(
    (
        (4, 8, 128, 64, FP),
        (4, 8, 128, 64, FP, "bool"),
        (4, 8, 128, 64, FP, "float"),
        (4, 8, 128, 64, FP, "row"),
        (4, 8, 128, 128, FP),
        (4, 8, 100, 64, FP),
        (4, 8, 100, 64, FP, "bool"),
        (4, 8, 130, 32, FP, "bool"),
        (4, 8, 128, 96, FP),
        (4, 8, 128, 256, FP),
        (2, 4, 1024, 64, FP),
        (2, 4, 1024, 128, FP),
        (4, 8, 128, 60, FP),
        (4, 8, 128, 63, FP),
        (4, 8, 128, 64, FP, None, True),
        (4, 8, 128, 64, FP, None, False, 200),
        (4, 8, 128, 64, FP, None, False, None, 0.1),
        (4, 8, 128, 64, BF),
        (4, 8, 128, 64, BF, "bool"),
        (4, 8, 128, 64, BF, "float"),
        (4, 8, 128, 64, BF, "row"),
        (4, 8, 128, 128, BF),
        (4, 8, 100, 64, BF),
        (4, 8, 100, 64, BF, "bool"),
        (4, 8, 128, 96, BF),
        (4, 8, 128, 256, BF),
        (4, 8, 128, 256, BF, "bool"),
        (2, 4, 1024, 64, BF),
        (2, 4, 1024, 64, BF, "bool"),
        (2, 4, 1024, 128, BF, "bool"),
        (4, 8, 128, 60, BF),
        (4, 8, 128, 63, BF),
        (4, 8, 128, 64, BF, None, True),
        (4, 8, 128, 64, BF, None, False, 200),
        (4, 8, 128, 64, BF, None, True, 200),
        (4, 8, 128, 64, BF, None, False, None, 0.1),
        (4, 8, 128, 64, H),
        (4, 8, 128, 64, H, "bool"),
        (4, 8, 128, 64, BF, None, True, None, 0.0, 2),
        (4, 8, 128, 64, FP, None, True, None, 0.0, 2),
        (4, 8, 128, 64, BF, "bool", False, None, 0.0, 2),
        (4, 8, 128, 32, H, "bool"),
        (4, 8, 1, 64, BF),
    )
):
    SHAPES[f"attention-{_n}"] = attention_shape(*_a)
for _name, _f, _shapes, _dtype in (
    ("layer-norm", lambda x: F.layer_norm(x, (768,)), [(1024, 768)], FP),
    ("layer-norm-affine", lambda x, w, b: F.layer_norm(x, (768,), w, b), [(1024, 768), (768,), (768,)], FP),
    ("layer-norm-half", lambda x, w, b: F.layer_norm(x, (768,), w, b), [(1024, 768), (768,), (768,)], BF),
    ("rms-norm", lambda x, w: F.rms_norm(x, (768,), w), [(1024, 768), (768,)], FP),
    ("group-norm", lambda x, w, b: F.group_norm(x, 8, w, b), [(16, 64, 32, 32), (64,), (64,)], FP),
    ("instance-norm", lambda x: F.instance_norm(x), [(16, 64, 32, 32)], FP),
    ("sum-all", lambda x: x.sum(), [(1 << 20,)], FP),
    ("mean-all-2d", lambda x: x.square().mean(), [(1024, 1024)], FP),
    ("mean-all-half", lambda x: x.mean(), [(1 << 20,)], BF),
    ("sum-rows", lambda x: x.sum(1), [(64, 1 << 16)], FP),
    ("sum-columns", lambda x: x.sum(0), [(1 << 16, 64)], FP),
    ("sum-columns-half", lambda x: x.sum(0), [(1 << 16, 64)], BF),
    ("mean-image", lambda x: x.mean((2, 3)), [(32, 64, 56, 56)], FP),
    ("var", lambda x: x.var(0), [(1 << 14, 64)], FP),
    ("std-all", lambda x: x.std(), [(1 << 20,)], FP),
    ("norm", lambda x: x.norm(), [(1 << 20,)], FP),
    ("max-all", lambda x: x.max(), [(1 << 20,)], FP),
    ("max-dim", lambda x: x.max(0)[0], [(1 << 14, 64)], FP),
    ("prod", lambda x: x.prod(), [(1 << 16,)], FP),
    ("logsumexp", lambda x: x.logsumexp(1), [(64, 1 << 14)], FP),
    ("softmax", lambda x: x.softmax(-1), [(64, 4096)], FP),
    ("softmax-half", lambda x: x.softmax(-1), [(64, 4096)], BF),
    ("cross-entropy", lambda x: F.cross_entropy(x, torch.zeros(512, dtype=torch.long, device="cuda")), [(512, 5000)], FP),
    (
        "cross-entropy-smooth",
        lambda x: F.cross_entropy(x, torch.zeros(512, dtype=torch.long, device="cuda"), label_smoothing=0.1),
        [(512, 5000)],
        FP,
    ),
    ("nll-2d", lambda x: F.cross_entropy(x, torch.zeros(8, 64, 64, dtype=torch.long, device="cuda")), [(8, 21, 64, 64)], FP),
    ("gelu", F.gelu, [(1 << 16,)], FP),
    ("silu", F.silu, [(1 << 16,)], FP),
    ("elu", F.elu, [(1 << 16,)], FP),
    ("sort", lambda x: x.sort(-1)[0], [(64, 4096)], FP),
    ("sort-all", lambda x: x.sort()[0], [(1 << 18,)], FP),
    ("topk", lambda x: x.topk(8, -1)[0], [(64, 4096)], FP),
    ("cumsum", lambda x: x.cumsum(-1), [(64, 4096)], FP),
    ("cumsum-all", lambda x: x.cumsum(0), [(1 << 18,)], FP),
    ("cumprod", lambda x: x.cumprod(-1), [(64, 128)], FP),
    ("index-select", lambda x: x.index_select(0, torch.arange(64, device="cuda")), [(1024, 64)], FP),
    ("index", lambda x: x[torch.arange(64, device="cuda")], [(1024, 64)], FP),
    ("gather", lambda x: x.gather(0, torch.zeros(64, 64, dtype=torch.long, device="cuda")), [(1024, 64)], FP),
    (
        "scatter-add",
        lambda x: x.scatter_add(0, torch.zeros(64, 64, dtype=torch.long, device="cuda"), torch.ones(64, 64, device="cuda")),
        [(1024, 64)],
        FP,
    ),
    ("bilinear", lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"), [(8, 16, 32, 32)], FP),
    ("nearest", lambda x: F.interpolate(x, scale_factor=2), [(8, 16, 32, 32)], FP),
    ("adaptive-pool", lambda x: F.adaptive_avg_pool2d(x, 7), [(8, 64, 32, 32)], FP),
    ("adaptive-pool-1", lambda x: F.adaptive_avg_pool2d(x, 1), [(8, 64, 32, 32)], FP),
    ("max-pool", lambda x: F.max_pool2d(x, 3, 2, 1), [(8, 64, 32, 32)], FP),
    ("avg-pool", lambda x: F.avg_pool2d(x, 2), [(8, 64, 32, 32)], FP),
    ("batch-norm-1d", lambda x: F.batch_norm(x, None, None, training=True), [(256, 512)], FP),
    (
        "batch-norm-affine",
        lambda x, w, b: F.batch_norm(x, torch.zeros(64, device="cuda"), torch.ones(64, device="cuda"), w, b, training=True),
        [(16, 64, 32, 32), (64,), (64,)],
        FP,
    ),
    (
        "batch-norm-last",
        lambda x, w, b: F.batch_norm(x.to(memory_format=torch.channels_last), None, None, w, b, training=True),
        [(16, 64, 32, 32), (64,), (64,)],
        FP,
    ),
    (
        "batch-norm-last-half",
        lambda x, w, b: F.batch_norm(x.to(BF, memory_format=torch.channels_last), None, None, w, b, training=True),
        [(16, 64, 32, 32), (64,), (64,)],
        FP,
    ),
    (
        "batch-norm-half",
        lambda x, w, b: F.batch_norm(x.to(H), None, None, w, b, training=True),
        [(16, 64, 32, 32), (64,), (64,)],
        FP,
    ),
    ("batch-norm-5d", lambda x, w, b: F.batch_norm(x, None, None, w, b, training=True), [(4, 16, 8, 16, 16), (16,), (16,)], FP),
    ("conv1d", lambda x, w: F.conv1d(x, w), [(16, 32, 512), (64, 32, 3)], FP),
    ("conv3d", lambda x, w: F.conv3d(x, w), [(2, 8, 16, 32, 32), (16, 8, 3, 3, 3)], FP),
    ("conv-half", lambda x, w, b: F.conv2d(x, w, b, padding=1), [(16, 32, 32, 32), (64, 32, 3, 3), (64,)], H),
    ("conv-group", lambda x, w: F.conv2d(x, w, padding=1, groups=4), [(16, 32, 32, 32), (64, 8, 3, 3)], FP),
    ("conv-depthwise", lambda x, w, b: F.conv2d(x, w, b, padding=1, groups=32), [(16, 32, 32, 32), (32, 1, 3, 3), (32,)], FP),
    ("conv-depthwise-half", lambda x, w: F.conv2d(x, w, padding=1, groups=32), [(16, 32, 32, 32), (32, 1, 3, 3)], H),
    (
        "conv-weight-last",
        lambda x, w: F.conv2d(x.to(memory_format=torch.channels_last), w, padding=1),
        [(16, 32, 32, 32), (64, 32, 3, 3)],
        FP,
    ),
    ("conv-transposed", lambda x, w: F.conv_transpose2d(x, w, stride=2), [(16, 32, 16, 16), (32, 16, 2, 2)], FP),
    ("matmul-broadcast", lambda x, y: x @ y, [(8, 128, 64), (64, 32)], FP),
    ("einsum", lambda x, y: torch.einsum("bij,bjk->bik", x, y), [(8, 128, 64), (8, 64, 32)], FP),
    ("linear-3d", lambda x, w, b: F.linear(x, w, b), [(8, 128, 64), (32, 64), (32,)], FP),
    ("linear-strided", lambda x, w, b: F.linear(x.transpose(0, 1), w, b), [(8, 128, 64), (32, 64), (32,)], FP),
    ("glu", lambda x: F.glu(x), [(64, 1024)], FP),
    ("prelu", lambda x, w: F.prelu(x, w), [(16, 32, 64), (32,)], FP),
    ("where", lambda x: torch.where(x > 0, x, 0.0), [(64, 1024)], FP),
    ("clamp", lambda x: x.clamp(0, 1), [(64, 1024)], FP),
    ("dropout2d", lambda x: F.dropout2d(x, 0.5, True), [(16, 32, 16, 16)], FP),
    ("pow", lambda x: x**3, [(1 << 16,)], FP),
    ("pad", lambda x: F.pad(x, (1, 1)), [(64, 1022)], FP),
    ("cdist", torch.cdist, [(64, 16), (32, 16)], FP),
    ("cosine", F.cosine_similarity, [(64, 128), (64, 128)], FP),
    ("normalize", F.normalize, [(64, 128)], FP),
    ("grid", lambda x: F.grid_sample(x, torch.zeros(4, 16, 16, 2, device="cuda"), align_corners=False), [(4, 8, 16, 16)], FP),
    ("fft", lambda x: torch.fft.rfft(x).abs(), [(64, 1024)], FP),
    ("weight-norm", lambda v, g: torch._weight_norm(v, g, 0), [(64, 128), (64, 1)], FP),
    (
        "ctc",
        lambda x: F.ctc_loss(
            x.log_softmax(2), torch.ones(8, 10, dtype=torch.long, device="cuda"), torch.full((8,), 50), torch.full((8,), 10)
        ),
        [(50, 8, 20)],
        FP,
    ),
):
    SHAPES[_name] = operator(_f, *_shapes, dtype=_dtype)
for _n in (100, 3072, 3073, 8192, 100000):
    SHAPES[f"embedding-{_n}"] = operator(
        lambda w, n=_n: F.embedding(torch.zeros(n, dtype=torch.long, device="cuda"), w), (5000, 64)
    )
SHAPES["embedding-padding"] = operator(
    lambda w: F.embedding(torch.zeros(5000, dtype=torch.long, device="cuda"), w, padding_idx=0), (5000, 64)
)
