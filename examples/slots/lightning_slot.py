#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Lightning, with a callback that makes place at the end of a time slot (rad-submit(1), --slot).

    rad submit --slot 2h -- python lightning_slot.py --checkpoint run1.ckpt

Take over the callback and the loader: hand them to your Trainer, the callback's path to `fit`, and exit as `main` does. A
checkpoint in the midst of an epoch holds model, optimizers, schedules and how many batches were done, but not where a plain loader
was: it would begin at its first batch again. Torchdata's StatefulDataLoader does what the one here does, and for shuffled data too.
"""
import argparse
import os
import signal
import sys

import torch

try:
    import lightning.pytorch as pl
except ImportError:
    import pytorch_lightning as pl

AGAIN = int(os.environ.get("RAD_REQUEUE_CODE", 85))


class MakePlace(pl.Callback):
    """On the signal: finishes the step, saves to `path`, stops the training."""

    def __init__(self, path, number=signal.SIGUSR1):
        self.path, self.asked, self.stopped = path, False, False
        signal.signal(number, self.on_signal)

    def on_signal(self, number, frame):
        self.asked = True

    def on_train_batch_end(self, trainer, *_):
        # All processes of a training get the signal, each in a step of its own: they agree on one.
        if trainer.strategy.reduce_boolean_decision(self.asked, all=False) and not self.stopped:
            self.stopped = True
            trainer.save_checkpoint(self.path + ".new")
            if trainer.is_global_zero:
                os.replace(self.path + ".new", self.path)
            trainer.strategy.barrier()
            trainer.should_stop = True

    def last(self):
        """What `fit` goes on from; None at the beginning."""
        return self.path if os.path.exists(self.path) else None


class Loader(torch.utils.data.DataLoader):
    """Knows where it is in an epoch, and goes on from there. What it passes over it reads, so a shuffle needs its old seed."""
    done = skip = 0

    def state_dict(self):
        return {"done": self.done}

    def load_state_dict(self, state):
        self.skip = state["done"]

    def __iter__(self):
        skip, self.skip = self.skip, 0
        for self.done, batch in enumerate(super().__iter__(), 1):
            if self.done > skip:
                yield batch
        self.done = 0


class Model(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Sequential(torch.nn.Linear(32, 128), torch.nn.ReLU(), torch.nn.Linear(128, 1))

    def training_step(self, batch, index):
        x, y = batch
        loss = torch.nn.functional.mse_loss(self.net(x), y)
        if index % 16 == 0:
            print(f"step {self.global_step} loss {loss.item():.4f}", flush=True)
        return loss

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3)


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--checkpoint", default="lightning.ckpt")
    p.add_argument("--epochs", type=int, default=10)
    p.add_argument("--examples", type=int, default=4096)
    args = p.parse_args()
    pl.seed_everything(1)
    x = torch.randn(args.examples, 32)
    loader = Loader(torch.utils.data.TensorDataset(x, (x ** 2).sum(1, keepdim=True)), batch_size=64)
    model, place = Model(), MakePlace(args.checkpoint)
    trainer = pl.Trainer(max_epochs=args.epochs, callbacks=[place], logger=False, enable_checkpointing=False,
                         enable_progress_bar=False, enable_model_summary=False)
    trainer.fit(model, loader, ckpt_path=place.last())
    if place.stopped:
        print(f"makes place at step {trainer.global_step}", flush=True)
        return AGAIN
    with torch.no_grad():
        model.eval().cpu()
        print(f"final loss {torch.nn.functional.mse_loss(model.net(x), (x ** 2).sum(1, keepdim=True)).item():.9f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
