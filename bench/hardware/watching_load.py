#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The training that run_watching.py watches: epochs of a light or a heavy model, one at each line of standard input.

    epoch          ->  {"seconds", "cpu_s", "rss_mib"}
    profile FILE   ->  the same under PyTorch's profiler with its defaults, and {"after_s", "bytes"}: writing its trace there

The first line it prints says how many steps an epoch has: as many as take the time asked for. The host's work is in it: a batch is
taken from memory and sent to the GPU at each step, as loaders do.
"""
import argparse
import json
import os
import resource
import sys
import time


def used():
    """Processor seconds of this process, and MiB of it in memory."""
    own = resource.getrusage(resource.RUSAGE_SELF)
    with open("/proc/self/statm") as f:
        pages = int(f.read().split()[1])
    return own.ru_utime + own.ru_stime, pages * os.sysconf("SC_PAGESIZE") / 2 ** 20


class Simulated:
    """No PyTorch, no GPU: a step is a millisecond of the processor's time."""

    def step(self):
        end = time.thread_time() + 0.001
        while time.thread_time() < end:
            pass

    def wait(self):
        pass


class Training:
    def __init__(self, kind):
        import torch
        from torch import nn
        self.torch = torch
        torch.set_num_threads(4)
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
        torch.backends.cudnn.benchmark = True
        self.model, side, channels, batch, self.classes = light(nn) if kind == "light" else heavy(nn)
        self.model = self.model.cuda()
        self.items = torch.rand(max(8 * batch, 512), channels, side, side).pin_memory()
        self.labels = torch.randint(self.classes, (len(self.items),)).pin_memory()
        self.batch, self.at = batch, 0
        self.loss = nn.CrossEntropyLoss()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01, momentum=0.9)

    def step(self):
        at = self.at
        self.at = (at + self.batch) % (len(self.items) - self.batch + 1)
        x = self.items[at:at + self.batch].cuda(non_blocking=True)
        y = self.labels[at:at + self.batch].cuda(non_blocking=True)
        self.optimizer.zero_grad(set_to_none=True)
        self.loss(self.model(x), y).backward()
        self.optimizer.step()

    def wait(self):
        self.torch.cuda.synchronize()


def light(nn):
    """The convolutional net of first tutorials, on images of MNIST's size, 64 at a time."""
    return nn.Sequential(nn.Conv2d(1, 32, 3), nn.ReLU(), nn.Conv2d(32, 64, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Dropout(0.25),
                         nn.Flatten(), nn.Linear(9216, 128), nn.ReLU(), nn.Dropout(0.5), nn.Linear(128, 10)), 28, 1, 64, 10


def heavy(nn):
    """ResNet50 on images of ImageNet's size, 64 at a time."""
    from torchvision.models import resnet50
    return resnet50(weights=None), 224, 3, 64, 1000


def epoch(training, steps):
    cpu, began = used()[0], time.monotonic()
    for _ in range(steps):
        training.step()
    training.wait()
    seconds = time.monotonic() - began
    now, rss_mib = used()
    return {"seconds": round(seconds, 5), "cpu_s": round(now - cpu, 3), "rss_mib": round(rss_mib)}


def profiled(training, steps, path):
    from torch.profiler import profile
    with profile() as p:
        found = epoch(training, steps)
    began = time.monotonic()
    p.export_chrome_trace(path)
    return {**found, "after_s": round(time.monotonic() - began, 2), "bytes": os.path.getsize(path), "rss_mib": round(used()[1])}


def steps_of(training, seconds):
    """Warms it up, and counts."""
    for _ in range(10):
        training.step()
    training.wait()
    return max(5, round(seconds / (epoch(training, 30)["seconds"] / 30)))


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("kind", choices=["light", "heavy"])
    p.add_argument("--epoch-s", type=float, default=3)
    p.add_argument("--epochs", type=int, default=0, help="run so many at once and end, for a profiler that starts programs")
    p.add_argument("--sim", action="store_true")
    args = p.parse_args()
    training = Simulated() if args.sim else Training(args.kind)
    steps = steps_of(training, args.epoch_s)
    say = lambda found: print(json.dumps(found), flush=True)
    say({"steps": steps})
    for _ in range(args.epochs):
        say(epoch(training, steps))
    for line in () if args.epochs else sys.stdin:
        words = line.split(None, 1)
        say(profiled(training, max(5, steps // 4), words[1].strip()) if words[0] == "profile" else epoch(training, steps))


if __name__ == "__main__":
    main()
