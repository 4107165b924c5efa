#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Records what PyTorch's caching allocator does, for src/estimate/test_golden.c.

    record.py FOLDER [NAME ...]

Needs a GPU and PyTorch, nothing else. Each history is made in a process of its own, from its first CUDA allocation on, and
written as FOLDER/NAME.jsonl.gz: a first line with name, torch, reserved and allocated (peaks in bytes), and conf and cap where
they were set; then one line [action, address, size, stream] for each event. A history with a cap runs once without to learn
what it would reserve. One that runs out of memory ends there; that is part of it.
"""
import gzip
import json
import os
import subprocess
import sys

MIB = 1 << 20
MAX_BYTES = 60 * 1000

# name: (model, allocator configuration, share of the uncapped reserve that is allowed; None: no cap)
HISTORIES = {
    "mlp-sgd": ("mlp_sgd", "", None),
    "mlp-adamw": ("mlp_adamw", "", None),
    "conv-sgd": ("conv_sgd", "", None),
    "transformer-adamw-bf16": ("transformer", "", None),
    "lstm-adam": ("lstm", "", None),
    "growing-batches": ("growing", "", None),
    "two-streams": ("two_streams", "", None),
    "conv-capped": ("conv_sgd", "", 0.85),
    "growing-capped": ("growing", "", 0.80),
    "growing-out-of-memory": ("growing", "", 0.40),
    "growing-collected": ("growing", "garbage_collection_threshold:0.6", 0.95),
    "growing-max-split": ("growing", "max_split_size_mb:32", None),
    "growing-max-split-capped": ("growing", "max_split_size_mb:32", 0.85),
    "transformer-expandable": ("transformer", "expandable_segments:True", None),
    "growing-expandable": ("growing", "expandable_segments:True", None),
    "conv-expandable": ("conv_sgd", "expandable_segments:True", None),
    "growing-power2": ("growing", "roundup_power2_divisions:4", None),
    "growing-power2-ranges": ("growing", "roundup_power2_divisions:[4:8,16:4,64:2,>:1]", None),
    "growing-large-segment": ("growing", "large_segment_size_mb:40", None),
}


def steps(model, optimizer, batches, loss=None, context=None):
    """Trains one step a batch; gradients are set to None before each."""
    import contextlib
    for batch in batches:
        optimizer.zero_grad(set_to_none=True)
        with context() if context else contextlib.nullcontext():
            out = model(batch)
            value = loss(out) if loss else out.float().square().mean()
        value.backward()
        optimizer.step()


def mlp(torch, widths):
    layers = []
    for before, after in zip(widths, widths[1:]):
        layers += [torch.nn.Linear(before, after), torch.nn.ReLU()]
    return torch.nn.Sequential(*layers).cuda()


def mlp_sgd(torch):
    model = mlp(torch, [784, 2048, 2048, 1024, 10])
    batches = (torch.randn(256, 784, device="cuda") for _ in range(4))
    steps(model, torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9), batches)


def mlp_adamw(torch):
    model = mlp(torch, [512] + [1500] * 12 + [10])
    batches = (torch.randn(500, 512, device="cuda") for _ in range(4))
    steps(model, torch.optim.AdamW(model.parameters()), batches)


def conv_net(torch):
    layers, before = [], 3
    for width, stride in ((32, 1), (64, 2), (64, 1), (128, 2), (128, 1), (256, 2), (256, 1)):
        layers += [torch.nn.Conv2d(before, width, 3, stride, 1), torch.nn.BatchNorm2d(width), torch.nn.ReLU(inplace=True)]
        before = width
    layers += [torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(before, 100)]
    return torch.nn.Sequential(*layers).cuda()


def conv_sgd(torch):
    model = conv_net(torch)
    batches = (torch.randn(48, 3, 96, 96, device="cuda") for _ in range(4))
    steps(model, torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9), batches)


def transformer(torch):
    layer = torch.nn.TransformerEncoderLayer(384, 6, 1536, dropout=0.1, batch_first=True)
    model = torch.nn.TransformerEncoder(layer, 4, enable_nested_tensor=False).cuda()
    batches = (torch.randn(12, 200, 384, device="cuda") for _ in range(3))
    steps(model, torch.optim.AdamW(model.parameters()), batches,
          context=lambda: torch.autocast("cuda", dtype=torch.bfloat16))


def lstm(torch):
    model = torch.nn.LSTM(256, 700, num_layers=2, batch_first=True).cuda()
    batches = (torch.randn(64, 90, 256, device="cuda") for _ in range(3))
    steps(model, torch.optim.Adam(model.parameters()), batches, loss=lambda out: out[0].square().mean())


def growing(torch):
    """Batches of changing size: blocks of many sizes, few of which fit what comes next."""
    model = conv_net(torch)
    batches = (torch.randn(n, 3, 80, 80, device="cuda") for n in (8, 40, 16, 72, 33, 90, 24, 101, 60, 110))
    steps(model, torch.optim.Adam(model.parameters()), batches)


def two_streams(torch):
    side = torch.cuda.Stream()
    kept = []
    for i in range(60):
        kept.append(torch.empty((i * 7919 % 5000 + 1) * 1024, dtype=torch.uint8, device="cuda"))
        with torch.cuda.stream(side):
            kept.append(torch.empty((i * 104729 % 9000 + 1) * 1024, dtype=torch.uint8, device="cuda"))
        if i % 3 == 2:
            del kept[i * 31 % len(kept)]


def record(name, model, conf, cap, path):
    """In a process of its own: runs one model and writes its history."""
    import torch
    torch.manual_seed(1)
    torch.cuda.init()
    total = torch.cuda.get_device_properties(0).total_memory
    if cap:
        torch.cuda.set_per_process_memory_fraction(cap / total)
        cap = int(cap / total * total)
    torch.cuda.memory._record_memory_history(enabled="all", context=None, stacks="python", max_entries=1000000)
    try:
        globals()[model](torch)
    except torch.cuda.OutOfMemoryError:
        print(f"{name}: out of memory", file=sys.stderr)
    trace = torch.cuda.memory._snapshot()["device_traces"][0]
    header = {"name": name, "torch": torch.__version__, "reserved": torch.cuda.max_memory_reserved(),
              "allocated": torch.cuda.max_memory_allocated()}
    header.update({key: value for key, value in (("conf", conf), ("cap", cap)) if value})
    lines = [json.dumps(header)]
    for event in trace:
        if event["action"] in ("snapshot", "free_requested"):
            continue
        lines.append(json.dumps([event["action"], event.get("addr", 0), event["size"], event["stream"]]))
    with gzip.GzipFile(path, "wb", compresslevel=9, mtime=0) as out:
        out.write(("\n".join(lines) + "\n").encode())
    print(json.dumps(header))


def run(name, model, conf, cap, path):
    """Starts that process; returns its header."""
    environ = {k: v for k, v in os.environ.items() if k not in ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF")}
    if conf:
        environ["PYTORCH_CUDA_ALLOC_CONF"] = conf
    words = [sys.executable, os.path.abspath(__file__), "--one", name, model, conf, str(cap or 0), path]
    done = subprocess.run(words, env=environ, check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def main():
    if sys.argv[1:2] == ["--one"]:
        name, model, conf, cap, path = sys.argv[2:]
        record(name, model, conf, int(cap), path)
        return
    folder, names = sys.argv[1], sys.argv[2:] or list(HISTORIES)
    os.makedirs(folder, exist_ok=True)
    for name in names:
        model, conf, share = HISTORIES[name]
        path = os.path.join(folder, name + ".jsonl.gz")
        try:
            header = run(name, model, conf, None, path)
            if share:
                header = run(name, model, conf, int(header["reserved"] * share) // MIB * MIB, path)
        except subprocess.CalledProcessError as failure:
            print(f"{name}: {failure}", file=sys.stderr)
            continue
        size = os.path.getsize(path)
        print(f"{name}: reserved {header['reserved'] // MIB} MiB, file {size} bytes" + (" TOO LARGE" if size > MAX_BYTES else ""))


if __name__ == "__main__":
    main()
