# SPDX-License-Identifier: MIT
"""Batches that are copied to a GPU, on none: the driver is tests/fake-cuda, and a copy is made when somebody waits for it, not before."""
import os
import signal
import tempfile
import warnings

import pytest
import torch

import radrm.feed
from radrm import _feedpin
from radrm.feed import FeedError, shared
from test_feed import Numbers, Task, folder, makers_of, until  # noqa: F401  (folder: a fixture)


class LateGpu:
    """Its copies are as late as they may be."""

    def __init__(self, device):
        self.index, self._begun = 0, []

    def begin(self, tensor):
        copy = torch.full_like(tensor, -1)
        self._begun.append((copy, tensor))
        return copy

    def mark(self):
        begun, self._begun = self._begun, []

        class Event:
            @staticmethod
            def synchronize():
                while begun:
                    copy, tensor = begun.pop()
                    copy.copy_(tensor)
        return Event

    @staticmethod
    def use(event, tensors):
        event.synchronize()


@pytest.fixture(autouse=True)
def fake(monkeypatch, tmp_path):
    monkeypatch.setattr(_feedpin, "Gpu", LateGpu)
    monkeypatch.setenv("FAKE_CUDA_LOG", str(tmp_path / "log"))
    if not os.environ.get("RAD_BUILD_ROOT"):
        pytest.skip("RAD_BUILD_ROOT: the folder of a build, which has the fake driver")
    monkeypatch.setenv("RADFEED_CUDA", os.path.join(os.environ["RAD_BUILD_ROOT"], "tests/fake-cuda/libcuda.so.1"))
    return lambda: [line.split() for line in (tmp_path / "log").read_text().splitlines()] if (tmp_path / "log").exists() else []


class Counts:
    def __init__(self, count=40):
        self.count = count

    def __len__(self):
        return self.count

    def __iter__(self):
        for i in range(self.count):
            yield {"x": torch.full((3000,), i), "n": i}


def right(said):
    """Each batch is what the loader made, one after the other."""
    return all((x == n).all() for x, n in said) and [n for _, n in said] == list(range(len(said)))


def test_copies_are_of_what_the_slot_had_and_the_ring_is_registered_once(fake):
    with shared(Counts(), "gpu", device="cuda", slots=3) as feed:
        assert all(right([(batch["x"].clone(), batch["n"]) for batch in feed]) for _ in range(3))
        [[what, begin, size]] = fake()
        assert what == "register" and int(size) >= 3 * 24000
    assert [line[:2] for line in fake()] == [["register", begin], ["unregister", begin]]


def test_a_ring_is_let_go_before_it_is_gone(fake):
    with shared(Counts(400), "gpu", device="cuda", slots=3) as feed:
        said = []
        for batch in feed:
            said.append((batch["x"].clone(), batch["n"]))
            if batch["n"] in (50, 200, 300):
                os.kill(makers_of(os.getpid())[-1], signal.SIGKILL)
        assert right(said) and len(said) == 400
    lines = fake()
    assert [line[0] for line in lines] == ["register", "unregister"] * 4
    assert all(one[1] == two[1] for one, two in zip(lines[::2], lines[1::2]))


def test_a_task_that_asks_for_it_too_late_is_told_once_and_goes_on(fake, recwarn):
    """Its ring was made by a task that did not ask: nobody may write there, and so nobody may register it."""
    def run(say):
        feed, told = shared(Counts(), "gpu", seed=1), False
        while True:
            for batch in feed:
                told = told or say(batch["n"]) is None      # once: nobody reads a pipe that has become full
    first = Task(run)
    first.hear()
    with shared(Counts(), "gpu", device="cuda", seed=1, join="now") as feed:
        said = []
        while not said:     # "now" may be the end of an epoch
            said = [(batch["x"].clone(), batch["n"]) for batch in feed]
        assert all((x == n).all() for x, n in said)
    assert not fake() and len([1 for one in recwarn if "may not be pinned" in str(one.message)]) == 1
    os.kill(first.pid, signal.SIGKILL)
    first.rest()


@pytest.mark.parametrize("variable, value, text", [
    ("FAKE_CUDA_FAIL", "2", "CUDA error 2"), ("FAKE_CUDA_HANG", "1", "did not answer within"), ("RADFEED_CUDA", "/no/such", "cannot open"),
])
def test_without_pinned_memory_it_goes_on_with_one_warning(fake, monkeypatch, variable, value, text):
    monkeypatch.setattr(_feedpin, "CALL_S", 1 if "HANG" in variable else 30)
    monkeypatch.setenv(variable, value)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        with shared(Counts(), "gpu", device="cuda", slots=3) as feed:
            for _ in range(2):
                assert right([(batch["x"].clone(), batch["n"]) for batch in feed])
        assert len(told) == 1 and text in str(told[0].message) and "not pinned" in str(told[0].message)
    assert not fake()


def test_pin_false_registers_nothing(fake):
    with shared(Counts(), "gpu", device="cuda", pin=False) as feed:
        assert right([(batch["x"].clone(), batch["n"]) for batch in feed])
    assert not fake()


def test_batches_of_another_size_come_from_the_gpu_too(fake):
    with shared(torch.utils.data.DataLoader(Numbers(), batch_size=4), "gpu", device="cuda", batch=20, slots=3) as feed:
        assert [batch["label"].tolist() for batch in feed] == [list(range(at, at + 20)) for at in (0, 20, 40)]


def test_a_loop_that_is_left_gives_its_slots_back(fake):
    with shared(Counts(), "gpu", device="cuda", slots=3) as feed:
        for _ in range(5):
            for batch in feed:
                if batch["n"] == 3:
                    break
        assert right([(batch["x"].clone(), batch["n"]) for batch in feed])


def test_wrong_words_are_refused(monkeypatch):
    with pytest.raises(ValueError, match="pin=True is for device="):
        shared(Counts(), "gpu", pin=True)
    monkeypatch.undo()
    with pytest.raises(ValueError, match="a GPU is wanted"):
        _feedpin.Gpu("cpu")
    if not torch.cuda.is_available():
        with pytest.raises(FeedError, match="device='cuda'"):
            _feedpin.copier(radrm.feed._feedlib.load(), None, "gpu", "cuda", True)
