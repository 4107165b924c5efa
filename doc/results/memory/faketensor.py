#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""`rad estimate --estimator faketensor` beside the published FakeTensor figures, for two of their models. Needs PyTorch, no GPU.

    doc/results/memory/faketensor.py build/rad published_estimates.csv
"""
import csv
import json
import os
import subprocess
import sys
import tempfile

import torch
from torch import nn

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../python"))
from radrm import capture  # noqa: E402


def vgg16():
    layers, channels = [], 3
    for width in (64, 64, 0, 128, 128, 0, 256, 256, 256, 0, 512, 512, 512, 0, 512, 512, 512, 0):
        layers += [nn.Conv2d(channels, width, 3, padding=1), nn.ReLU(True)] if width else [nn.MaxPool2d(2)]
        channels = width or channels
    for inputs, outputs in ((25088, 4096), (4096, 4096)):
        layers += [nn.Flatten(), nn.Linear(inputs, outputs), nn.ReLU(True), nn.Dropout()]
    return nn.Sequential(*layers, nn.Linear(4096, 1000))


class Bottleneck(nn.Module):
    def __init__(self, inputs, width, stride):
        super().__init__()
        outputs = 4 * width
        self.body = nn.Sequential(
            nn.Conv2d(inputs, width, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(True),
            nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(True),
            nn.Conv2d(width, outputs, 1, bias=False), nn.BatchNorm2d(outputs))
        self.beside = nn.Sequential() if inputs == outputs else nn.Sequential(
            nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))
        self.relu = nn.ReLU(True)

    def forward(self, x):
        y = self.body(x)
        y += self.beside(x)
        return self.relu(y)


def resnet50():
    layers = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(True), nn.MaxPool2d(3, 2, 1)]
    inputs = 64
    for width, blocks, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for block in range(blocks):
            layers.append(Bottleneck(inputs, width, 1 if block else stride))
            inputs = 4 * width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, 1000))


def job(model, batch):
    def setup():
        net, images = model().cuda(), torch.randn(batch, 3, 224, 224, device="cuda")
        optimizer = torch.optim.SGD(net.parameters(), 0.1)

        def step():
            optimizer.zero_grad()
            net(images).sum().backward()
            optimizer.step()
        return step
    return setup


def estimate(rad, model, batch):
    """MiB"""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "job.radcap")
        capture.trace(job(model, batch)).save(path)
        out = subprocess.run([rad, "estimate", "--capture", path, "--estimator", "faketensor", "--json"], check=True,
                             capture_output=True, text=True).stdout
        return json.loads(out)["estimates"][0]["comfort_mib"]


def main():
    rad, published = sys.argv[1:]
    models, name = {"vgg16": vgg16, "resnet50": resnet50}, ""
    print("| model | batch | published | `faketensor` | difference |\n|---|---|---|---|---|")
    for row in csv.reader(open(published)):
        name = row[0] or name
        if name in models and row[1].isdigit():
            mib, theirs = estimate(rad, models[name], int(row[1])), float(row[4])
            print(f"| {name} | {row[1]} | {theirs:,.1f} | {mib:,} | {(mib / theirs - 1) * 100:+.1f} % |", flush=True)


if __name__ == "__main__":
    main()
