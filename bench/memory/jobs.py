# SPDX-License-Identifier: MIT
"""The training configurations of the memory evaluation. `JOBS` is the list, `FRESH` one of other architectures (fresh.py);
`setup(job)` gives the function that truth.py runs on a GPU and captures.py traces without one: it builds model, optimizer and
batch on "cuda" and returns the function of one step.

Every architecture of models.py is trained in several of VARIANTS, at batches that spread the jobs over about 1 to 60 GiB.
"""

import collections
import contextlib
import json
import os
import sys

import torch

import fresh
import models

Job = collections.namedtuple("Job", "name family arch batch size optimizer form precision extras")

# optimizer, form, precision, extras
VARIANTS = [
    ("momentum", "foreach", "fp32", ()),
    ("adam", "foreach", "fp32", ("loader",)),
    ("adamw", "fused", "amp-bf16", ("channels_last",)),
    ("momentum", "foreach", "amp-fp16", ()),
    ("sgd", "foreach", "tf32", ("accumulate",)),
    ("adamw", "loop", "bf16", ()),
    ("momentum", "fused", "fp32", ("channels_last", "loader")),
    ("adamw", "foreach", "tf32", ("checkpoint",)),
    ("adam", "loop", "amp-bf16", ("keep",)),
    ("adam", "fused", "tf32", ("clip", "last")),
    ("momentum", "loop", "fp32", ("eval",)),
    ("adamw", "foreach", "amp-fp16", ("channels_last", "clip")),
    ("adamw", "foreach", "amp-bf16", ("last",)),
    ("adam", "foreach", "bf16", ("checkpoint", "clip")),
]
LANGUAGE = [
    ("adamw", "foreach", "fp32", ()),
    ("adamw", "fused", "amp-bf16", ("clip",)),
    ("adamw", "foreach", "amp-bf16", ("loader",)),
    ("adam", "foreach", "amp-fp16", ("clip",)),
    ("adamw", "loop", "tf32", ("checkpoint",)),
    ("adamw", "fused", "bf16", ("accumulate",)),
    ("sgd", "foreach", "tf32", ("last",)),
    ("adamw", "foreach", "bf16", ("checkpoint", "clip")),
    ("adam", "loop", "fp32", ("accumulate", "keep")),
    ("momentum", "foreach", "amp-bf16", ("eval",)),
    ("adamw", "foreach", "tf32", ("accumulate", "clip")),
]
TARGETS_GIB = (1.5, 10, 3, 22, 5, 36, 2, 14, 7, 55)
OTHER_SIZES = {"images": (224, 176, 224, 256, 224, 224, 192), "tokens": (1, 0.5, 1, 2, 1, 0.75, 1)}
FIXED_SIZE = "vit_b_16 vit_b_32 vit_l_16 deit_s_16 maxvit_t swin_v2_t inception_v3 roberta_base".split()


def nice(n):
    """A batch as people choose them."""
    for step in (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024):
        if n < 12 * step:
            return max(1, int(n / step + 0.5) * step)
    return int(n / 2048 + 0.5) * 2048


def sizes_of(name, arch):
    if arch.batch is models.images and arch.conv and arch.size == 224 and name not in FIXED_SIZE:
        return OTHER_SIZES["images"]
    if arch.batch in (models.tokens, models.masked_tokens) and name not in FIXED_SIZE:
        return [int(arch.size * f) for f in OTHER_SIZES["tokens"]]
    return (arch.size,)


def fitting(arch, variant):
    """The variant, less what the architecture does not know."""
    optimizer, form, precision, extras = variant
    extras = [e for e in extras if not (e == "channels_last" and not arch.conv or e == "checkpoint" and arch.blocks is None)]
    if arch.family == "rnn" and precision == "bf16":
        precision = "amp-bf16"
    return optimizer, form, precision, tuple(extras)


def batch_of(arch, size, target, optimizer, precision, extras):
    growth = (size / arch.size) ** 2 if arch.batch in (models.images, models.pixels) else size / arch.size
    sample = arch.mib * growth * (0.55 if precision == "bf16" else 0.7 if precision.startswith("amp") else 1)
    if "checkpoint" in extras:  # takes long for its memory
        sample, target = sample * 0.35, min(target, 14)
    fixed = arch.fixed * {"sgd": 0.5, "momentum": 0.75}.get(optimizer, 1) * (0.5 if precision == "bf16" else 1)
    return nice(max((target * 1024 - 600 - fixed) / sample, 4 if arch.conv else 2))


def plan(archs):
    jobs = {}
    for n, (name, arch) in enumerate(archs.items()):
        variants = VARIANTS if arch.conv else LANGUAGE
        sizes = sizes_of(name, arch)
        for k in range(arch.count):
            optimizer, form, precision, extras = fitting(arch, variants[(5 * n + k) % len(variants)])
            size, target = sizes[k % len(sizes)], TARGETS_GIB[(3 * n + k) % len(TARGETS_GIB)]
            batch = batch_of(arch, size, target, optimizer, precision, extras)
            words = [name, f"b{batch}", f"s{size}", optimizer, form, precision, *extras]
            job = Job("-".join(words), arch.family, name, batch, size, optimizer, form, precision, extras)
            jobs[job.name] = job
    return list(jobs.values())


ARCHS = {**models.ARCHS, **fresh.ARCHS}
JOBS, FRESH = plan(models.ARCHS), plan(fresh.ARCHS)


def optimizer_of(job, parameters):
    kind, options = {
        "sgd": (torch.optim.SGD, {"lr": 1e-3}),
        "momentum": (torch.optim.SGD, {"lr": 1e-3, "momentum": 0.9, "weight_decay": 1e-4}),
        "adam": (torch.optim.Adam, {"lr": 1e-4}),
        "adamw": (torch.optim.AdamW, {"lr": 1e-4}),
    }[job.optimizer]
    form = {"foreach": {}, "fused": {"fused": True}, "loop": {"foreach": False}}[job.form]
    return kind(parameters, **options, **form)


def checkpoint(model, blocks):
    from torch.utils.checkpoint import checkpoint as again

    if blocks == "":
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
        return
    for module in model.modules():
        if type(module).__name__ in blocks:
            forward = module.forward
            module.forward = lambda *args, forward=forward: again(forward, *args, use_reentrant=False)


def build_model(job):
    arch = ARCHS[job.arch]
    with models.unfilled():
        model = arch.make(job.size)
    model.train()
    if "checkpoint" in job.extras:
        checkpoint(model, arch.blocks)
    return arch, model


def setup(job, device="cuda"):
    """The function that builds the job and returns the function of one step, which has the gradient scaler as `scaler`."""

    def build():
        arch, model = build_model(job)
        torch.set_float32_matmul_precision("high" if job.precision == "tf32" else "highest")
        half = torch.bfloat16 if job.precision == "bf16" else None
        layout = torch.channels_last if "channels_last" in job.extras else None
        model = model.to(device, memory_format=layout) if layout else model.to(device)
        model = model.to(half) if half else model
        models.fill(model)
        optimizer = optimizer_of(job, model.parameters())
        scaler = torch.amp.GradScaler(device) if job.precision == "amp-fp16" else None
        autocast = {"amp-bf16": torch.bfloat16, "amp-fp16": torch.float16}.get(job.precision)
        waiting = arch.batch(job.batch, job.size, "cpu" if "loader" in job.extras else device)
        rounds = 2 if "accumulate" in job.extras else 1

        def shaped(t):
            t = t.to(device, non_blocking=True)
            if half and t.is_floating_point():
                t = t.to(half)
            return t.contiguous(memory_format=layout) if layout and t.dim() == 4 else t

        held = None if "loader" in job.extras else [shaped(t) for t in waiting]
        if held:
            waiting = None

        def context():
            return torch.autocast(device, dtype=autocast) if autocast else contextlib.nullcontext()

        def learn():
            batch = held or [shaped(t) for t in waiting]
            with context():
                loss = arch.loss(model, *batch) / rounds
            (scaler.scale(loss) if scaler else loss).backward()

        def update():
            if "clip" in job.extras:
                if scaler:
                    scaler.unscale_(optimizer)
                torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            if scaler:
                scaler.step(optimizer)
                scaler.update()
            else:
                optimizer.step()

        def evaluate():
            model.eval()
            with torch.no_grad(), context():
                arch.loss(model, *(held or [shaped(t) for t in waiting]))
            model.train()

        def step():
            if "last" not in job.extras:
                optimizer.zero_grad(set_to_none="keep" not in job.extras)
            for _ in range(rounds):
                learn()
            update()
            if "last" in job.extras:
                optimizer.zero_grad()
            if "eval" in job.extras:
                evaluate()

        step.scaler = scaler
        return step

    return build


def chosen(words, tiny=False, of=JOBS):
    """Jobs whose name contains one of the words (all, when there are none); one an architecture when `tiny`."""
    found = [j for j in of if not words or any(w in j.name for w in words)]
    if tiny:
        first = {}
        for job in found:
            first.setdefault(job.arch, job._replace(batch=4 if ARCHS[job.arch].conv else 2))
        found = list(first.values())
    return found


def guesses():
    """MiB a job takes about, from an earlier round; {} without one. Only for deciding what runs at the same time."""
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "guesses.json")
    if not os.path.exists(path):
        return {}
    with open(path) as f:
        return json.load(f)


if __name__ == "__main__":
    for job in FRESH if "--fresh" in sys.argv else JOBS:
        print(json.dumps(job._asdict()))
