#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What torch.backends.cudnn.benchmark takes, and what it does within the limit that a task without it would be given.

    benchmarked.py --rad build/rad --out FOLDER [--workers N] [NAME...]

Each network is captured without it, which gives the claim; then it trains thrice, alone, as a client of an MPS server of the script's own:
  plain    without it
  free     with it, as much memory as it likes
  fenced   with it, CUDA_MPS_PINNED_DEVICE_MEM_LIMIT at the claim
A line a network in FOLDER/benchmarked.jsonl: MiB as PyTorch and NVML have them at most, steps a second, what a run that failed
said. Every eighth batch has another size, as the last of an epoch does. Needs PyTorch, torchvision and a GPU that nobody else
uses; half a minute a network.
"""
import argparse
import concurrent.futures
import json
import pathlib
import re
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "hardware"))
import later  # noqa: E402
import mps  # noqa: E402
from common import Workspace  # noqa: E402

# name: how it is made, batch, size of a picture, whether in fp16 by AMP, whether channels come last
NETWORKS = {
    "resnet18-64": ("models.resnet18()", 128, (3, 64, 64), False, False),
    "resnet50": ("models.resnet50()", 64, (3, 224, 224), False, False),
    "resnet50-amp": ("models.resnet50()", 128, (3, 224, 224), True, True),
    "vgg16": ("models.vgg16()", 32, (3, 224, 224), False, False),
    "densenet121": ("models.densenet121()", 32, (3, 224, 224), False, False),
    "efficientnet-amp": ("models.efficientnet_b0()", 64, (3, 224, 224), True, False),
    "convnext-amp": ("models.convnext_tiny()", 32, (3, 224, 224), True, True),
    "fcn-amp": ("Dense(models.segmentation.fcn_resnet50(weights=None, weights_backbone=None, num_classes=8))", 8, (3, 512, 512),
                True, False),
    "r3d18": ("models.video.r3d_18()", 8, (3, 16, 112, 112), False, False),
    "small": ("Small()", 256, (3, 32, 32), False, False),
}
SCRIPT = """
import sys, time
import torch
from torch import nn
from torchvision import models

class Dense(nn.Module):
    def __init__(self, net):
        super().__init__()
        self.net = net
    def forward(self, x):
        return self.net(x)["out"].mean((2, 3))

class Small(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Conv2d(3, 32, 5, padding=2), nn.ReLU(), nn.Conv2d(32, 64, 3, stride=2), nn.ReLU(), nn.Conv2d(64, 64, 1),
                         nn.ReLU(), nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(1024, 10))

batch, shape, amp, last = BATCH, SHAPE, AMP, LAST
torch.backends.cudnn.benchmark = sys.argv[1] == "on"
model = NET.cuda()
if last:
    model = model.to(memory_format=torch.channels_last)
optimizer = torch.optim.SGD(model.parameters(), 0.01, momentum=0.9)
scaler = torch.amp.GradScaler("cuda", enabled=amp)
for step in range(64):
    if step == 32:
        torch.cuda.synchronize()
        began = time.monotonic()
    n = batch if step % 8 < 7 else batch - 3
    x = torch.randn(n, *shape, device="cuda")
    if last:
        x = x.to(memory_format=torch.channels_last)
    with torch.autocast("cuda", torch.float16, enabled=amp):
        loss = nn.functional.cross_entropy(model(x), torch.randint(0, 8, (n,), device="cuda"))
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
torch.cuda.synchronize()
print("RATE", 32 / (time.monotonic() - began))
"""


def script_of(name):
    net, batch, shape, amp, last = NETWORKS[name]
    text = SCRIPT
    for word, value in (("BATCH", batch), ("SHAPE", shape), ("AMP", amp), ("LAST", last), ("NET", net)):
        text = re.sub(rf"\b{word}\b", str(value), text)
    return text


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rad", type=pathlib.Path, required=True)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--workers", type=int, default=4, help="captures at a time (default 4)")
    parser.add_argument("names", nargs="*", default=list(NETWORKS), metavar="NAME")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    rad, watch = args.rad.resolve(), later.Watch()
    gpu = watch.gpu.name if watch.gpu else "NVIDIA H100 80GB HBM3"
    with concurrent.futures.ThreadPoolExecutor(args.workers) as pool:
        scripts = {name: args.out.resolve() / f"{name}.py" for name in args.names}
        for name, script in scripts.items():
            script.write_text(script_of(name))
        captures = dict(zip(scripts, pool.map(lambda script: later.captured(rad, script, gpu, "off"), scripts.values())))
    with Workspace() as workspace, mps.Mps(workspace, "own", watch.gpu.uuid) if watch.gpu else workspace as server, \
            open(args.out / "benchmarked.jsonl", "w") as out:
        for name, script in scripts.items():
            line = {"name": name, "gpu": gpu, "captured": captures[name]}
            if watch.gpu and "claim" in line["captured"]:
                env = server.client_env(watch.gpu.uuid)
                fence = {"CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": f"0={line['captured']['claim']}M"}
                line.update(plain=later.measured(script, watch, 0, "off", env=env), free=later.measured(script, watch, 0, "on", env=env),
                            fenced=later.measured(script, watch, 0, "on", env={**env, **fence}))
            print(json.dumps(line), file=out, flush=True)
            print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
