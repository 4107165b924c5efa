#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The Trainer of Hugging Face, with a callback that makes place at the end of a time slot (rad-submit(1), --slot).

    rad submit --slot 2h -- python hf_trainer_slot.py --output-dir run1

The callback is all there is to take over. The Trainer's checkpoints hold model, optimizer, schedule, random states and how far
it is; it skips what it had read of an epoch when it goes on.
"""
import argparse
import os
import signal
import sys

import torch
from transformers import Trainer, TrainerCallback, TrainingArguments
from transformers.trainer_utils import get_last_checkpoint

AGAIN = int(os.environ.get("RAD_REQUEUE_CODE", 85))


class MakePlace(TrainerCallback):
    """On the signal: finishes the step, has the Trainer save, stops the training."""

    def __init__(self, number=signal.SIGUSR1):
        self.asked = self.stopped = False
        signal.signal(number, self.on_signal)

    def on_signal(self, number, frame):
        self.asked = True

    def agreed(self, device):
        """All processes of a training get the signal, each in a step of its own: they agree on one."""
        if not (torch.distributed.is_available() and torch.distributed.is_initialized()):
            return self.asked
        flag = torch.tensor(float(self.asked), device=device)
        torch.distributed.all_reduce(flag, torch.distributed.ReduceOp.MAX)
        return flag.item() > 0

    def on_step_end(self, args, state, control, **_):
        if state.global_step < state.max_steps and self.agreed(args.device):
            self.stopped = control.should_save = control.should_training_stop = True


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Sequential(torch.nn.Linear(32, 128), torch.nn.ReLU(), torch.nn.Dropout(0.1), torch.nn.Linear(128, 1))

    def forward(self, x, labels):
        out = self.net(x)
        return {"loss": torch.nn.functional.mse_loss(out, labels), "logits": out}


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--output-dir", default="hf-run")
    p.add_argument("--epochs", type=int, default=10)
    p.add_argument("--examples", type=int, default=4096)
    args = p.parse_args()
    torch.manual_seed(1)
    x = torch.randn(args.examples, 32)
    y = (x ** 2).sum(1, keepdim=True)
    place = MakePlace()
    trainer = Trainer(model=Model(), train_dataset=[{"x": a, "labels": b} for a, b in zip(x, y)], callbacks=[place],
                      args=TrainingArguments(output_dir=args.output_dir, num_train_epochs=args.epochs, seed=1,
                                             per_device_train_batch_size=64, learning_rate=1e-3, logging_steps=16,
                                             save_strategy="no", save_total_limit=2, report_to=[], dataloader_num_workers=0))
    last = get_last_checkpoint(args.output_dir) if os.path.isdir(args.output_dir) else None
    trainer.train(resume_from_checkpoint=last)
    if place.stopped:
        print(f"makes place at step {trainer.state.global_step}", flush=True)
        return AGAIN
    with torch.no_grad():
        model = trainer.model.eval().cpu()
        print(f"final loss {torch.nn.functional.mse_loss(model.net(x), y).item():.9f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
