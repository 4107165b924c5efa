#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A training loop that makes place: at the end of its time slot it saves everything that its next step hangs on, exits with
the code that says "start me again", and goes on from there as if it had never stopped (rad-submit(1), --slot).

    rad submit --slot 2h -- python plain.py --checkpoint run1.pt
"""
import argparse
import os
import signal
import sys

import torch
from torch import nn

AGAIN = int(os.environ.get("RAD_REQUEUE_CODE", 85))
asked = False


def on_signal(number, frame):
    """No more than a note: a step that is under way is finished first."""
    global asked
    asked = True


def save(path, **state):
    """Whole or not at all: whoever is killed in the midst of it has the one before."""
    draft = path + ".new"
    with open(draft, "wb") as f:
        torch.save(state, f)
        f.flush()
        os.fsync(f.fileno())
    os.replace(draft, path)


def random_state():
    return {"cpu": torch.get_rng_state(), "cuda": torch.cuda.get_rng_state_all() if torch.cuda.is_available() else []}


def set_random_state(state):
    torch.set_rng_state(state["cpu"])
    if state["cuda"]:
        torch.cuda.set_rng_state_all(state["cuda"])


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--checkpoint", default="checkpoint.pt")
    p.add_argument("--epochs", type=int, default=10)
    p.add_argument("--examples", type=int, default=4096)
    p.add_argument("--batch-size", type=int, default=64)
    args = p.parse_args()

    signal.signal(signal.SIGUSR1, on_signal)  # before what takes long: what has no handler yet is not asked
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(1)
    data = torch.randn(args.examples, 32)
    target = (data ** 2).sum(1, keepdim=True)
    model = nn.Sequential(nn.Linear(32, 128), nn.ReLU(), nn.Dropout(0.1), nn.Linear(128, 1)).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, args.epochs)
    per_epoch = args.examples // args.batch_size
    steps, step, loss = args.epochs * per_epoch, 0, None

    if os.path.exists(args.checkpoint):
        state = torch.load(args.checkpoint, map_location=device, weights_only=True)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        schedule.load_state_dict(state["schedule"])
        step = state["step"]
        set_random_state({k: v.cpu() if k == "cpu" else [c.cpu() for c in v] for k, v in state["random"].items()})
        print(f"goes on at step {step}/{steps}", flush=True)

    while step < steps:
        epoch, batch = divmod(step, per_epoch)
        # The order of an epoch is its own, so that it can be made again in the middle of one.
        order = torch.randperm(args.examples, generator=torch.Generator().manual_seed(epoch))
        chosen = order[batch * args.batch_size:(batch + 1) * args.batch_size]
        loss = nn.functional.mse_loss(model(data[chosen].to(device)), target[chosen].to(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        step += 1
        if batch + 1 == per_epoch:
            schedule.step()
        if step % 16 == 0:
            print(f"step {step}/{steps} loss {loss.item():.4f}", flush=True)
        if (asked and step < steps) or batch + 1 == per_epoch:  # every epoch too: not only slots end
            save(args.checkpoint, model=model.state_dict(), optimizer=optimizer.state_dict(), schedule=schedule.state_dict(),
                 step=step, random=random_state())
        if asked and step < steps:
            print(f"makes place at step {step}/{steps}", flush=True)
            return AGAIN
    model.eval()
    with torch.no_grad():
        print(f"final loss {nn.functional.mse_loss(model(data.to(device)), target.to(device)).item():.9f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
