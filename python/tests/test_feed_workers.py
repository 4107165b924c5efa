# SPDX-License-Identifier: MIT
"""Batches of a loader's workers, which come in memory that they share with the process that runs the loader."""
import ctypes
import os
import random
import time

import numpy
import pytest
import torch

from radrm import _feedworkers
from radrm._feedbatch import read
from radrm._feedloader import Source
from radrm.feed import FeedError, shared
from test_feed import folder  # noqa: F401  (a fixture)


class Rows(torch.utils.data.Dataset):
    """A sample is full of its number; `sizes` are their lengths, by turns."""

    def __init__(self, count=200, sizes=(3000,)):
        self.count, self.sizes = count, sizes

    def __len__(self):
        return self.count

    def __getitem__(self, i):
        return {"x": torch.full((self.sizes[i // 10 % len(self.sizes)],), i), "n": numpy.float32(i), "name": str(i)}


def loader(data, workers=2, **options):
    return torch.utils.data.DataLoader(data, batch_size=10, num_workers=workers, **options)


@pytest.fixture
def made(monkeypatch, tmp_path):
    """How many batches came so, in the process that runs the loader."""
    real = _feedworkers.Made.fill

    def fill(self, room):
        with open(tmp_path / "made", "a") as file:
            file.write("x")
        real(self, room)
    monkeypatch.setattr(_feedworkers.Made, "fill", fill)
    return lambda: (tmp_path / "made").stat().st_size if (tmp_path / "made").exists() else 0


def all_of(feed, check):
    count = 0
    for number, batch in enumerate(feed):
        check(number, batch)
        count += 1
        del batch
    return count


def right(number, batch):
    assert (batch["x"] == torch.arange(10 * number, 10 * number + 10)[:, None]).all()
    assert batch["n"].tolist() == list(range(10 * number, 10 * number + 10)) and batch["name"] == [str(int(n)) for n in batch["n"]]


@pytest.mark.parametrize("options", [{}, {"persistent_workers": True}, {"prefetch_factor": 1},
                                     {"multiprocessing_context": "spawn", "persistent_workers": True}])
def test_batches_are_what_they_were_and_none_is_written_to_while_it_is_read(made, monkeypatch, options):
    """The process that runs the loader is slow between having a batch and copying it, as on a busy machine."""
    real = _feedworkers.Made.fill

    def late(self, room):
        time.sleep(0.01)
        real(self, room)
    monkeypatch.setattr(_feedworkers.Made, "fill", late)
    with shared(loader(Rows(), **options), "workers", slots=3) as feed:
        for _ in range(3):
            assert all_of(feed, right) == 20
    assert made() >= 60


def test_batches_that_are_larger_than_the_first_get_larger_memory(made):
    with shared(loader(Rows(sizes=(100, 70000, 5, 900000))), "workers", slots=3, slot_bytes=1 << 27) as feed:
        assert [all_of(feed, right) for _ in range(2)] == [20, 20]
    assert made() >= 40


def pairs(samples):
    batch = torch.utils.data.default_collate(samples)
    return batch["x"], (batch["n"], batch["name"], torch.empty(0, 3))


def test_a_collate_function_of_ones_own_and_empty_tensors(made):
    with shared(loader(Rows(), collate_fn=pairs), "workers", slots=3) as feed:
        def check(number, batch):
            x, (n, name, none) = batch
            right(number, {"x": x, "n": n, "name": name})
            assert none.shape == (0, 3)
        assert all_of(feed, check) == 20
    assert made() >= 20


def sets(samples):
    return {"x": torch.zeros(3), "odd": {1, 2}}


def test_what_cannot_be_shared_is_named_as_without_workers():
    with pytest.raises(FeedError, match=r"batch\['odd'\] is a builtins.set"):
        next(iter(shared(loader(Rows(), collate_fn=sets), "workers")))


class Fails(Rows):
    def __getitem__(self, i):
        if i == 35:
            raise ValueError("row 35 is broken")
        return super().__getitem__(i)


def test_an_error_in_a_worker_is_told_as_before():
    with pytest.raises(FeedError, match="failed at batch 3 of epoch 0: ValueError.*"):
        all_of(shared(loader(Fails()), "workers"), right)


class Chance(torch.utils.data.Sampler):
    """Draws as it goes along, of the process's generators."""

    def __init__(self):
        super().__init__()

    def __len__(self):
        return 40

    def __iter__(self):
        for _ in range(40):
            time.sleep(0.002)
            yield [random.randrange(200) for _ in range(4)]


def test_indices_that_are_sent_to_workers_leave_the_samplers_chance_alone():
    """Each batch seeds who makes it, and nobody who only hands it on."""
    def drawn(workers):
        source = Source(torch.utils.data.DataLoader(Rows(), batch_sampler=Chance(), num_workers=workers, collate_fn=names))
        return [batch if workers == 0 else bytes_of(batch) for _, batch in source.batches(7, 0, 0)]

    def names(samples):
        return torch.tensor([int(sample["name"]) for sample in samples])

    def bytes_of(batch):
        room = ctypes.create_string_buffer(batch.bytes)
        batch.fill(room)
        return read(room)
    random.seed(7)
    first = drawn(2)
    assert len({tuple(batch.tolist()) for batch in first}) > 35
    for _ in range(3):
        assert all(torch.equal(one, other) for one, other in zip(first, drawn(2)))


def test_the_process_that_runs_a_loader_pins_nothing():
    mine = loader(Rows(), pin_memory=True)
    Source(mine)
    assert not mine.pin_memory


def test_workers_that_are_no_more_leave_no_memory():
    """Each epoch has workers of its own; what the process beside holds of them stays the same."""
    with shared(loader(Rows()), "workers", slots=3) as feed:
        def mapped():
            with open(f"/proc/{os.getpid()}/task/{os.getpid()}/children") as children:
                [maker] = [int(pid) for pid in children.read().split() if "radfeed-worker" in open(f"/proc/{pid}/maps").read()]
            with open(f"/proc/{maker}/maps") as maps:
                return sum("radfeed-worker" in line for line in maps)
        counts = []
        for _ in range(6):
            all_of(feed, right)
            counts.append(mapped())
    assert max(counts) <= 2
