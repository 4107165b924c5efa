# SPDX-License-Identifier: MIT
"""The tasks of run_solo.py: what the architectures of bench/memory, and a few small ones that people begin with, are trained
with here so that light and heavy steps are both there: images of 32 to 256 pixels, batches of 1 to 512, every optimizer in every
form, every precision. Needs PyTorch; a task is measured on a GPU and captured without one by the same function.
"""
import contextlib
import pathlib
import random
import sys

import torch
import torch.nn.functional as F
from torch import nn

HERE = pathlib.Path(__file__).resolve().parent
sys.path.append(str(HERE.parent / "memory"))
import jobs
import models

GIB = (1.2, 4, 0.9, 7, 2, 9, 1.6, 5)  # about what a task of full-sized samples takes, in turn
SMALL = ((32, 128), (32, 32), (64, 64), (32, 512), (64, 8), (96, 16), (32, 256))  # side of the image, batch
LEAST_SIDE = {"alexnet": 64, "inception_v3": 96, "googlenet": 64, "densenet121": 32, "densenet169": 32}
SHORT = ((64, 4), (32, 32), (128, 1), (64, 16), (32, 2))  # tokens, batch
LARGE_GIB = (92, 108, 98, 116, 102, 112)  # the same of tasks that a GPU of 80 GiB cannot hold
MORE = {"mnasnet1_0": 2, "t5_base": 1.7, "opt_125m": 1.6, "xlnet_large": 1.45, "electra_base": 1.4, "distilbert": 1.4, "tinyllama_1b": 1.4,
        "resnet34": 1.3, "convnext_tiny": 1.3, "shufflenet_v2_x1_0": 1.3, "resnet50": 1.3, "efficientnet_b0": 1.25, "efficientnet_b3": 1.25,
        "gru_lm": 0.8}  # where `mib` is far off in that precision
ONLY = {"gpt2_large": 2, "tinyllama_1b": 2, "xlnet_large": 2, "dlrm_large": 2, "gpt2_medium": 3, "qwen2_0_5b": 3, "bert_large": 3}
FIXED = set(jobs.FIXED_SIZE) | {"swin_t", "unet", "unet_bilinear", "fcn_resnet50", "deeplabv3_resnet50"}


class Digits(nn.Module):
    """The convolutional net of first tutorials."""

    def __init__(self, side):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 32, 3), nn.ReLU(), nn.Conv2d(32, 64, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Dropout(0.25),
                                  nn.Flatten(), nn.Linear(64 * (side // 2 - 2) ** 2, 128), nn.ReLU(), nn.Linear(128, 100))

    def forward(self, x):
        return self.body(x)


class Vae(nn.Module):
    def __init__(self, side):
        super().__init__()
        self.inputs = 3 * side * side
        self.into = nn.Sequential(nn.Linear(self.inputs, 400), nn.ReLU(), nn.Linear(400, 40))
        self.out_of = nn.Sequential(nn.Linear(20, 400), nn.ReLU(), nn.Linear(400, self.inputs), nn.Sigmoid())

    def forward(self, x):
        mean, log_variance = self.into(x.flatten(1)).chunk(2, 1)
        return self.out_of(mean + torch.randn_like(mean) * (0.5 * log_variance).exp()), mean, log_variance


def vae_loss(model, x, _):
    made, mean, log_variance = model(x)
    apart = -0.5 * (1 + log_variance - mean.pow(2) - log_variance.exp()).sum()
    return F.binary_cross_entropy(made.float(), x.flatten(1).float(), reduction="sum") + apart


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
        self.asked, self.answered = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        parts = self.asked(self.before(x)).unflatten(2, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(*parts, is_causal=True)
        x = x + self.answered(y.transpose(1, 2).flatten(2))
        return x + self.mlp(self.between(x))


class Characters(nn.Module):
    """A small language model, written out as tutorials do."""

    def __init__(self, width=384, heads=6, layers=6, words=1000, longest=1024):
        super().__init__()
        self.embed, self.place = nn.Embedding(words, width), nn.Embedding(longest, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, words, bias=False)

    def forward(self, ids):
        x = self.embed(ids) + self.place(torch.arange(ids.shape[1], device=ids.device))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


class Sound(nn.Module):
    """Convolutions of one dimension, over samples of sound."""

    def __init__(self, width=128):
        super().__init__()
        layers, before = [], 1
        for k in range(5):
            layers += [nn.Conv1d(before, width << k // 2, 15, stride=4, padding=7), nn.BatchNorm1d(width << k // 2), nn.ReLU()]
            before = width << k // 2
        self.body = nn.Sequential(*layers, nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(before, 100))

    def forward(self, x):
        return self.body(x)


def sounds(batch, size, where):
    return torch.rand(batch, 1, size, device=where), torch.randint(100, (batch,), device=where)


def clips(batch, size, where):
    return torch.rand(batch, 3, 8, size, size, device=where), torch.randint(100, (batch,), device=where)


def video(size):
    from torchvision.models.video import r3d_18
    return r3d_18(weights=None)


OWN = {
    "digits": models.Arch("digits", Digits, models.images, models.classify, 28, 0.4, 20, None, True),
    "vae": models.Arch("vae", Vae, models.images, vae_loss, 28, 0.1, 20, None, True),
    "mlp_small": models.Arch("mlp", lambda size: models.Mlp(256, 2), models.images, models.classify, 32, 0.05, 20),
    "characters": models.Arch("characters", lambda size: Characters(), models.tokens, models.next_word, 256, 40, 170),
    "sound": models.Arch("sound", lambda size: Sound(), sounds, models.classify, 16000, 15, 60),
    "video": models.Arch("video", video, clips, models.classify, 112, 180, 530),
    "lstm_small": models.Arch("rnn", lambda size: models.Recurrent(nn.LSTM, 256, 1), models.tokens, models.next_word, 64, 10, 250),
}
for archs in (models.ARCHS, jobs.ARCHS):
    archs.update(OWN)


def variants_of(arch):
    return jobs.VARIANTS if arch.conv or arch.batch is sounds or arch.batch is clips else jobs.LANGUAGE


def shape(name, arch, n, k, optimizer, precision, extras):
    """(size, batch) of the k-th task of the n-th architecture."""
    images, tokens = arch.batch is models.images, arch.batch in (models.tokens, models.masked_tokens)
    if k % 2 and images and arch.conv and name not in FIXED:
        side, batch = SMALL[(2 * n + k // 2) % len(SMALL)]
        return max(side, LEAST_SIDE.get(name, 32)), batch
    if k % 4 == 3 and tokens:
        return SHORT[n % len(SHORT)]
    if k % 2 and arch.batch is sounds or arch.mib < 2:
        return arch.size, (32, 256, 64, 512, 128, 16)[(n + k) % 6]
    beside = arch.fixed / 1024 if tokens else 0  # so that large models have more than a sample or two
    return arch.size, jobs.batch_of(arch, arch.size, GIB[(3 * n + k) % len(GIB)] + beside, optimizer, precision, extras)


def plan(each=5):
    """All tasks, in an order whose every beginning has some of each architecture."""
    found = {}
    for n, (name, arch) in enumerate(models.ARCHS.items()):
        variants = variants_of(arch)
        for k in range(min(each, ONLY.get(name, each))):
            optimizer, form, precision, extras = jobs.fitting(arch, variants[(5 * n + 3 * k) % len(variants)])
            if name == "vae" and precision.startswith("amp"):
                precision = "fp32"  # its loss refuses autocast
            if precision == "fp32" and (n + k) % 3 == 0:
                extras = (*extras, "ieee")
            size, batch = shape(name, arch, n, k, optimizer, precision, extras)
            words = [name, f"b{batch}", f"s{size}", optimizer, form, precision, *extras]
            found["-".join(words)] = (k, jobs.Job("-".join(words), arch.family, name, batch, size, optimizer, form, precision,
                                                  tuple(extras)))
    chance = random.Random(7)
    return [job for _, _, job in sorted((k, chance.random(), job) for k, job in found.values())]


def large():
    """A task of each architecture that by its claim a GPU of 80 GiB cannot hold and one of 141 GiB can, in a fair order too. Not of
    those that would need tens of thousands of samples for it."""
    found = []
    for n, (name, arch) in enumerate(models.ARCHS.items()):
        if arch.mib < 10 or name == "lstm_small":
            continue
        optimizer, form, precision, extras = jobs.fitting(arch, variants_of(arch)[(5 * n + 1) % len(variants_of(arch))])
        extras = tuple(e for e in extras if e != "checkpoint")
        batch = jobs.batch_of(arch, arch.size, LARGE_GIB[n % len(LARGE_GIB)] * MORE.get(name, 1), optimizer, precision, extras)
        words = "-".join([name, f"b{batch}", f"s{arch.size}", optimizer, form, precision, *extras])
        found.append(jobs.Job(words, arch.family, name, batch, arch.size, optimizer, form, precision, extras))
    random.Random(7).shuffle(found)
    return found


def setup(job, device="cuda", made_there=False):
    """As jobs.setup, with true fp32 in convolutions where the task says "ieee". `made_there`: parameters are made on the device,
    which is quicker than moving them, but no constructor that computes there can be captured."""
    build = jobs.setup(job, device)

    def prepared():
        torch.backends.cudnn.allow_tf32 = "ieee" not in job.extras
        with torch.device(device) if made_there else contextlib.nullcontext():
            return build()
    return prepared
