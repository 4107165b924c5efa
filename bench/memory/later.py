#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What takes memory later than a run's first steps: scripts of that kind, captured and run.

    later.py --rad build/rad --out FOLDER [--workers N] [--alloc-conf PYTORCH_CUDA_ALLOC_CONF] [NAME...]

A line a script in FOLDER/later.jsonl: the replay's figures (for the GPU that is here, else an H100) and, where there is a GPU, what its
allocator reserved and had in use at most and what NVML showed for its process, in MiB. All runs are side by side, so it needs
a GPU of 80 GiB that nobody else uses; a minute and a half. Needs PyTorch, and for `trainer` transformers and accelerate; downloads nothing.
"""
import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import subprocess
import sys
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "hardware"))
import nvml  # noqa: E402

MODEL = """
import torch
from torch import nn
from torch.nn.functional import cross_entropy
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, TensorDataset

class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.attention = nn.MultiheadAttention(width, heads, batch_first=True)
        self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
    def forward(self, x):
        y = self.before(x)
        x = x + self.attention(y, y, y, need_weights=False)[0]
        return x + self.mlp(self.between(x))

class Model(nn.Module):
    def __init__(self, words=8000, width=512):
        super().__init__()
        self.words, self.head = nn.Embedding(words, width), nn.Linear(width, words)
        self.blocks = nn.Sequential(*[Block(width, 8) for _ in range(6)])
    def forward(self, x):
        return self.head(self.blocks(self.words(x)))

def rows(n, length=128):
    return torch.randint(0, 8000, (n, length))

def loss_of(model, x):
    return cross_entropy(model(x).flatten(0, 1), x.flatten())

torch.manual_seed(1)
model = Model().cuda()
optimizer = torch.optim.AdamW(model.parameters(), 1e-4)

def learn(x):
    optimizer.zero_grad()
    loss_of(model, x.cuda()).backward()
    optimizer.step()
"""

EVALUATED = MODEL + """
for epoch in range(2):
    for x, in DataLoader(TensorDataset(rows(320)), batch_size=8):
        learn(x)
    model.eval()
    kept = KEPT
    with torch.no_grad():
        for x, in DataLoader(TensorDataset(rows(ROWS)), batch_size=8):
            y = model(x.cuda())
            KEEP
    AFTER
    del kept, y
    model.train()
"""


def evaluated(keep, after="", kept="[]", lines=640):
    return EVALUATED.replace("KEPT", kept).replace("ROWS", str(lines)).replace("KEEP", keep).replace("AFTER", after)


SCRIPTS = {
    "list_joined": evaluated("kept.append(y)", "kept = torch.cat(kept)"),
    "list": evaluated("kept.append(y.softmax(-1))"),
    "joined_each": evaluated("kept = y if kept is None else torch.cat((kept, y))", kept="None", lines=320),
    "to_cpu": evaluated("kept.append(y.cpu())", "kept = torch.cat(kept)", lines=320),
    "trainer": """
import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments
def lines(n):
    return [{name: torch.randint(0, 8000, (128,)) for name in ("input_ids", "labels")} for _ in range(n)]
model = GPT2LMHeadModel(GPT2Config(n_embd=256, n_layer=4, n_head=4, vocab_size=8000, n_positions=128))
settings = TrainingArguments("out", per_device_train_batch_size=8, per_device_eval_batch_size=8, num_train_epochs=1, eval_strategy="epoch",
                             save_strategy="no", report_to=[], disable_tqdm=True)
Trainer(model, settings, train_dataset=lines(320), eval_dataset=lines(400),
        compute_metrics=lambda found: {"n": len(found.predictions)}).train()
""",
    "losses": MODEL + """
losses, x = [], rows(16, 256)
for step in range(80):
    optimizer.zero_grad()
    loss = loss_of(model, x.cuda())
    loss.backward()
    optimizer.step()
    losses.append(loss.detach())
""",
    "micro_batches": MODEL + """
for epoch in range(3):
    for i, (x,) in enumerate(DataLoader(TensorDataset(rows(1024)), batch_size=8)):
        (loss_of(model, x.cuda()) / 32).backward()
        if i % 32 == 31:
            optimizer.step()
            optimizer.zero_grad()
""",
    "streams": MODEL + """
other, streams = Model().cuda(), [torch.cuda.Stream() for _ in range(2)]
optimizer.add_param_group({"params": list(other.parameters())})
for step in range(60):
    x, losses = rows(8, 256).cuda(), []
    optimizer.zero_grad()
    for stream, one in zip(streams, (model, other)):
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            losses.append(loss_of(one, x))
        torch.cuda.current_stream().wait_stream(stream)
    sum(losses).backward()
    optimizer.step()
""",
    "longer": MODEL + """
x = rows(16, 1024)
for step in range(170):
    length = min(1024, 64 + step // 10 * 64)
    learn(x[:, :length])
""",
    "sorted": MODEL + """
lines = sorted((rows(1, int(n))[0] for n in torch.randint(8, 700, (960,))), key=len)
for epoch in range(2):
    for x in DataLoader(lines, batch_size=16, collate_fn=lambda found: pad_sequence(found, batch_first=True)):
        learn(x)
""",
    "unfrozen": MODEL + """
model.requires_grad_(False)
model.head.requires_grad_(True)
x = rows(32, 256)
for epoch in range(6):
    if epoch == 3:
        model.requires_grad_(True)
    for i in range(10):
        learn(x)
""",
}
MEASURED = """
import os, runpy, sys, threading, time
import torch
script, seconds = sys.argv.pop(1), float(sys.argv.pop(1))
def over():
    torch.cuda.synchronize()
    print("MIB", torch.cuda.max_memory_reserved() >> 20, torch.cuda.max_memory_allocated() >> 20, flush=True)
    time.sleep(0.3)
    os._exit(0)
def watch():
    while not torch.cuda.is_initialized():
        time.sleep(0.1)
    time.sleep(seconds)
    over()
if seconds:
    threading.Thread(target=watch, daemon=True).start()
runpy.run_path(script, run_name="__main__")
over()
"""


class Watch:
    """What NVML shows for each process, at most."""

    def __init__(self):
        self.most = {}
        try:
            self.gpu = nvml.Gpu()
        except OSError:
            self.gpu = None
        else:
            threading.Thread(target=self.look, daemon=True).start()

    def look(self):
        while True:
            for process in self.gpu.processes() or ():
                self.most[process["pid"]] = max(self.most.get(process["pid"], 0), process["mem_mib"] or 0)
            time.sleep(0.03)


def captured(rad, script, gpu, *words):
    return captured_command(rad, [sys.executable, script, *words], script.with_suffix(".radcap"), gpu, cwd=script.parent)


def captured_command(rad, command, file, gpu, **how):
    """The replay's figures of a command, in MiB; `how`: what subprocess.run is told."""
    began = time.monotonic()
    done = subprocess.run([rad, "capture", "--no-cache", "-o", file, "--", *command], capture_output=True, text=True, **how)
    if done.returncode:
        return {"error": done.stderr[-300:]}
    said = json.loads(subprocess.run([rad, "estimate", "--json", "--gpu-model", gpu, "--capture", file], capture_output=True,
                                     text=True, check=True).stdout)
    one = said["estimates"][0]
    found = re.search(r"(\d+) MiB reserved for (\d+) in use.* (\d+) outside", one["notes"][0])
    if not found:  # no replay, as its note says
        replayed = subprocess.run([rad, "estimate", "--gpu-model", gpu, "--capture", file], capture_output=True, text=True).stdout
        return {"error": next((line for line in replayed.splitlines() if line.startswith("replay")), one["notes"][0])}
    reserved, used, outside = found.groups()
    return {"s": round(time.monotonic() - began, 1), "reserved": int(reserved), "in_use": int(used), "outside": int(outside),
            "claim": one["claim_mib"], "note": one["notes"][0]}


def measured(script, watch, seconds, *words, env=None):
    """A run of the script with these words; over after so many seconds on the GPU, 0: at its end. MiB; steps a second, if it
    prints RATE and a number."""
    ran = subprocess.Popen([sys.executable, "-c", MEASURED, script, str(seconds), *words], cwd=script.parent, env=env,
                           stdout=subprocess.PIPE,
                           stderr=subprocess.STDOUT, text=True)
    text = ran.communicate()[0]
    found, rate = (re.search(pattern, text, re.MULTILINE) for pattern in (r"^MIB (\d+) (\d+)$", r"^RATE (\S+)$"))
    if not found:
        return {"error": text[-300:]}
    line = {"reserved": int(found[1]), "in_use": int(found[2]), "nvml": watch.most.get(ran.pid)}
    return {**line, "steps_a_s": round(float(rate[1]), 2)} if rate else line


def run(about, scripts, seconds=0):
    """Those that are named, of {name: text}, captured and run; a run is over after so many seconds on the GPU, 0: at its end."""
    parser = argparse.ArgumentParser(description=about.splitlines()[0])
    parser.add_argument("--rad", type=pathlib.Path, required=True)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--workers", type=int, default=max(1, (os.cpu_count() or 2) // 2))
    parser.add_argument("--alloc-conf", metavar="WORDS", help="PYTORCH_CUDA_ALLOC_CONF of captures and runs, as expandable_segments:True")
    parser.add_argument("names", nargs="*", default=list(scripts), metavar="NAME")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    if args.alloc_conf:
        os.environ["PYTORCH_CUDA_ALLOC_CONF"] = args.alloc_conf
    rad, watch = args.rad.resolve(), Watch()
    gpu = watch.gpu.name if watch.gpu else "NVIDIA H100 80GB HBM3"
    with concurrent.futures.ThreadPoolExecutor(args.workers) as captures, concurrent.futures.ThreadPoolExecutor(4) as runs:
        waiting = []
        for name in args.names:
            script = args.out.resolve() / f"{name}.py"
            script.write_text(scripts[name])
            waiting.append((name, captures.submit(captured, rad, script, gpu), runs.submit(measured, script, watch, seconds)
                            if watch.gpu else None))
        with open(args.out / (pathlib.Path(sys.argv[0]).stem + ".jsonl"), "w") as out:
            for name, capture, ran in waiting:
                line = json.dumps({"name": name, "gpu": gpu, "captured": capture.result(), "on_gpu": ran and ran.result()})
                print(line, file=out, flush=True)
                print(line, flush=True)


if __name__ == "__main__":
    run(__doc__, SCRIPTS)
