# SPDX-License-Identifier: MIT
"""A loader that is gone through from any batch on, and gives the same batches in whichever process.

Chance begins anew at each batch, from the feed's seed and the batch's position: so what a batch is does not depend on which batches this
process made before it, and those that another task has made already can be passed over. Of a DataLoader over a map-style data set only
the sampler's indices are passed over then, and nothing is decoded; of any other loader the batches are made and thrown away.
"""
import random
import sys

from ._feedworkers import Collate


def _mixed(*numbers):
    mixed = 0
    for number in numbers:
        mixed = (mixed * 1000003 + number) % 2**31
    return mixed


def _seed_all(seed):
    random.seed(seed)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(seed)
    if "torch" in sys.modules:
        sys.modules["torch"].default_generator.manual_seed(seed)


class _Indices(list):
    """The samples of one batch. Whoever makes it, this process or a worker of the loader, goes through them first."""

    def __iter__(self):
        _seed_all(self.seed)
        return super().__iter__()

    def __reduce__(self):       # who sends them to a worker does not go through them
        return _indices, (self[:], self.seed)


def _indices(samples, seed):
    made = _Indices(samples)
    made.seed = seed
    return made


class _Positions:
    """In place of a DataLoader's batch sampler."""

    def __init__(self, sampler):
        self._sampler, self.seed, self.first = sampler, 0, 0

    def __len__(self):
        return len(self._sampler)

    def __iter__(self):
        for number, batch in enumerate(self._sampler):
            if number >= self.first:
                if isinstance(batch, (list, tuple)):
                    batch = _indices(batch, _mixed(self.seed, number))
                yield batch


class Source:
    """For the process that runs the loader: the loader is altered."""

    def __init__(self, loader):
        self._loader, self._positions = loader, None
        self._parts = [loader, getattr(loader, "sampler", None), getattr(loader, "batch_sampler", None)]
        torch = sys.modules.get("torch")
        if torch is None or not isinstance(loader, torch.utils.data.DataLoader):
            return
        if not isinstance(loader.dataset, torch.utils.data.IterableDataset) and loader.batch_sampler is not None:
            self._positions = _Positions(loader.batch_sampler)
            vars(loader)["batch_sampler"] = self._positions     # a DataLoader refuses it otherwise; this one is the process's own
            if loader.num_workers and getattr(loader, "in_order", True):
                loader.collate_fn = Collate(loader.collate_fn, loader.prefetch_factor)
        loader.pin_memory = False   # that memory would be this process's, which has no need of a GPU
        # Workers that stay are those of the process that this one was forked from. Kept: its end would be told to them.
        self._of_parent, vars(loader)["_iterator"] = vars(loader).get("_iterator"), None

    def batches(self, seed, epoch, first):
        """(number, batch) of that epoch, from `first` on."""
        mixed = _mixed(seed, epoch)
        _seed_all(mixed)
        torch = sys.modules.get("torch")
        for part in self._parts:
            if hasattr(part, "set_epoch"):
                part.set_epoch(epoch)
            generator = getattr(part, "generator", None)
            if torch is not None and isinstance(generator, torch.Generator):
                generator.manual_seed(mixed)
        begin = 0
        if self._positions is not None:
            self._positions.seed, self._positions.first = mixed, first
            begin = first
        for number, batch in enumerate(self._loader, begin):
            if number >= first:
                yield number, batch
            del batch       # while the next is made it takes no memory, nor a slot
