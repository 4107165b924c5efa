# SPDX-License-Identifier: MIT
"""Batches that are copied to a GPU, on none: the driver is tests/fake-cuda, and a copy is made when somebody waits for it, not before."""
import ctypes
import os
import random
import signal
import threading
import time
import warnings

import pytest
import torch

import radrm.feed
from radrm import _feedcuda, _feedpin, _feedstage
from radrm.feed import FeedError, shared
from test_feed import WAIT, Numbers, Task, folder, makers_of, until  # noqa: F401  (folder: a fixture)


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
    def at(place, size):
        return torch.frombuffer((ctypes.c_char * size).from_address(place), dtype=torch.uint8)

    @staticmethod
    def fill(there, here):
        there.copy_(here)

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
    monkeypatch.setattr(_feedcuda, "CALL_S", 1 if "HANG" in variable else 30)
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
    lib = radrm.feed._feedlib.load()
    monkeypatch.undo()
    with pytest.raises(ValueError, match="a GPU is wanted"):
        _feedpin.Gpu("cpu")
    if not torch.cuda.is_available():
        with pytest.raises(FeedError, match="device='cuda'"):
            _feedpin.copier(lib, None, "gpu", "cuda", True)


class SlowGpu(LateGpu):
    """Copies from the host in pieces, so that a task may be killed between two."""

    @staticmethod
    def fill(there, here):
        for one, other in zip(there.chunk(6), here.chunk(6)):
            one.copy_(other)
            time.sleep(0.0005)


def on_gpu(epochs, count=40, before=None, **options):
    """A task: says each batch's number and whether its bytes were right, and last what it copied and found."""
    def run(say):
        feed = shared(Counts(count), "gpu", device="cuda", on_device="shared", seed=1, **options)
        for epoch in range(epochs):
            for batch in feed:
                say(epoch, batch["n"], bool((batch["x"] == batch["n"]).all()))
                batch["x"].zero_()      # nobody else sees it
                if before:
                    before(feed, batch)
        say("copies", *(feed.copies[what] for what in ("made", "found", "alone")))
    return run


def each_once(said, epochs, count=40):
    assert said[-1][0] == "copies", said[-1]
    assert [one[:2] for one in said[:-1]] == [[epoch, n] for epoch in range(epochs) for n in range(count)]
    assert all(one[2] for one in said[:-1]), "bytes of another batch"
    return said[-1][1:]


def test_one_copy_on_the_gpu_serves_all_tasks(fake, monkeypatch):
    monkeypatch.setattr(_feedstage, "SOON_S", 60)
    tasks = [Task(on_gpu(2, wait_for=3, slots=4)) for _ in range(3)]
    stages = [each_once(task.rest(), 2) for task in tasks]
    assert sum(made for made, _, _ in stages) == 80 and sum(found for _, found, _ in stages) == 160
    assert not any(alone for _, _, alone in stages)
    lines = [line[0] for line in fake()]
    assert lines.count("map") == lines.count("unmap") == 3
    assert 1 <= lines.count("create") <= 3      # who asked at the same time has made some in vain


def test_a_task_that_has_no_room_for_the_memory_that_another_makes_finds_that(fake, monkeypatch, tmp_path):
    """All begin at once, and each asks for some: the GPU has room for one."""
    monkeypatch.setattr(_feedstage, "SOON_S", 60)
    monkeypatch.setenv("FAKE_CUDA_FULL", str(tmp_path / "full"))
    tasks = [Task(on_gpu(2, wait_for=3, slots=4, pin=False)) for _ in range(3)]
    stages = [each_once(task.rest(), 2) for task in tasks]
    assert (tmp_path / "full.refused").exists() and all(made + found == 80 and not alone for made, found, alone in stages)
    assert [line[0] for line in fake()].count("create") == 1


def test_memory_that_pytorch_does_not_take_is_one_warning(fake, monkeypatch):
    class Refuses(LateGpu):
        @staticmethod
        def at(place, size):
            raise RuntimeError("no memory of a GPU")
    monkeypatch.setattr(_feedpin, "Gpu", Refuses)
    with pytest.warns(RuntimeWarning, match="copies them for itself, .*: PyTorch: no memory of a GPU"):
        with shared(Counts(), "gpu", device="cuda", on_device="shared", pin=False) as feed:
            assert right([(batch["x"].clone(), batch["n"]) for batch in feed])
    assert [line[0] for line in fake()] == ["create", "map", "unmap"]


@pytest.mark.parametrize("on_device", [None, "shared"])
def test_a_copy_that_fails_holds_no_slot(fake, monkeypatch, on_device):
    """As where the GPU is full: the task may free some and go on."""
    class Full(LateGpu):
        fails = False

        def begin(self, tensor):
            if Full.fails:
                raise MemoryError("the GPU is full")
            return super().begin(tensor)
    monkeypatch.setattr(_feedpin, "Gpu", Full)
    with shared(Counts(), "gpu", device="cuda", on_device=on_device, pin=False, slots=3) as feed:
        for _ in range(5):
            with pytest.raises(MemoryError):
                for batch in feed:
                    Full.fails = batch["n"] == 3
            Full.fails = False
        assert right([(batch["x"].clone(), batch["n"]) for batch in feed])


def filling(fill, run):
    """A task whose copies from the host are made by `fill`."""
    def patched(say):
        LateGpu.fill = staticmethod(fill)   # in a fork
        run(say)
    return Task(patched)


def test_a_copy_that_a_dead_task_had_begun_is_not_read(fake, monkeypatch, tmp_path):
    """What a dead task's GPU does may come in late: nothing is put there again."""
    monkeypatch.setattr(_feedstage, "SOON_S", 0.01)

    def waits(there, here):
        (tmp_path / "begun").touch()
        while not (tmp_path / "go").exists():
            time.sleep(0.01)
        there.copy_(here)

    def dies(there, here):
        there.fill_(255)
        os.kill(os.getpid(), signal.SIGKILL)
    first = filling(waits, on_gpu(2, slots=4))  # runs the loader, and copies the first batch
    until((tmp_path / "begun").exists, "no copy was begun")
    second = filling(dies, on_gpu(1, slots=4))
    assert second.rest() == []                  # it copied the first for itself, and the second for all
    (tmp_path / "go").touch()
    made, found, alone = each_once(first.rest(), 2)
    assert found == 0 and 19 <= alone <= 21 and made + alone == 80      # that slot comes each fourth time


def test_a_task_that_is_stopped_in_a_copy_does_not_hold_up_the_others(fake, monkeypatch):
    monkeypatch.setattr(_feedstage, "SOON_S", 0.05)

    def stops(there, here):
        there.fill_(255)
        os.kill(os.getpid(), signal.SIGSTOP)
        there.copy_(here)

    stopped = filling(stops, on_gpu(1, slots=4))
    os.waitpid(stopped.pid, os.WUNTRACED)
    other = Task(on_gpu(1, slots=4))
    said = [other.hear() for _ in range(3)]     # so many as there are slots, but the one that is copied ahead
    assert [one[1:] for one in said] == [[n, True] for n in range(3)]
    os.kill(stopped.pid, signal.SIGKILL)
    stopped.rest()
    assert each_once(said + other.rest(), 1)[2] >= 1


def test_tasks_on_one_gpu_that_are_killed_at_random_moments_leave_the_others_right(fake, monkeypatch):
    """Whoever made the memory, copies, or runs the loader: the others have every batch once and with its bytes."""
    monkeypatch.setattr(_feedpin, "Gpu", SlowGpu)
    rng, shared_ones = random.Random(int(os.environ.get("FEED_GPU_SEED", "1"))), 0
    for _ in range(int(os.environ.get("FEED_GPU_ROUNDS", "6"))):
        victims = [Task(on_gpu(50, slots=4)) for _ in range(2)]
        victims[0].hear()
        others = [Task(on_gpu(3, slots=4)) for _ in range(2)]
        heard = [[task.hear() for _ in range(rng.randrange(1, 30))] for task in others]
        for victim in victims:
            end = time.monotonic() + rng.random() * 0.02
            while time.monotonic() < end:
                pass
            os.kill(rng.choice(makers_of(victim.pid) or [victim.pid]), signal.SIGKILL)
            os.kill(victim.pid, signal.SIGKILL)
            victim.rest()
        for task, said in zip(others, heard):
            shared_ones += sum(each_once(said + task.rest(), 3)[:2])
    assert shared_ones > 0


@pytest.mark.parametrize("variable, text", [("FAKE_CUDA_NO_FD", "CUDA error 801"), ("RADFEED_CUDA", "cannot open")])
def test_where_the_driver_cannot_each_copies_for_itself_with_one_warning(fake, monkeypatch, variable, text):
    monkeypatch.setenv(variable, "/no/such")
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        with shared(Counts(), "gpu", device="cuda", on_device="shared", pin=False, slots=3) as feed:
            for _ in range(2):
                assert right([(batch["x"].clone(), batch["n"]) for batch in feed])
            assert feed.copies == {"alone": 80}
    assert len(told) == 1 and text in str(told[0].message) and "each task copies them for itself" in str(told[0].message)


class Slow(Counts):
    """Hangs once, in batch 1, until it may go on."""

    def __init__(self, go):
        super().__init__()
        self._go = go

    def __iter__(self):
        for batch in super().__iter__():
            if batch["n"] == 1 and self._go:
                self._go = self._go()
            yield batch


def test_who_was_refused_because_the_loader_was_slow_once_shares_later(fake, monkeypatch):
    """It is asked about batch 0 while batch 1 is made, and answers between two."""
    monkeypatch.setattr(_feedstage, "ASK_MS", 50)
    monkeypatch.setattr(_feedpin, "AGAIN_S", 0)
    monkeypatch.setattr(_feedpin, "AGAIN_TIMES", 0)
    hears, says = os.pipe()
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        with shared(Slow(lambda: os.read(hears, 1) and None), "gpu", device="cuda", on_device="shared", pin=False, slots=3) as feed:
            def go():
                until(lambda: feed.copies["alone"], "it was not refused")
                monkeypatch.setattr(_feedstage, "ASK_MS", 1000 * WAIT)
                os.write(says, b"x")
            thread = threading.Thread(target=go)
            thread.start()
            for _ in range(2):
                assert right([(batch["x"].clone(), batch["n"]) for batch in feed])
            thread.join()
            assert feed.copies == {"alone": 1, "made": 79}
    assert len(told) == 1 and "did not answer" in str(told[0].message)
    assert [line[0] for line in fake()] == ["create", "map", "unmap"]


@pytest.mark.parametrize("refused, copies", [(3, {"alone": 8, "made": 72}), (99, {"alone": 80})])
def test_who_was_refused_asks_again_so_often_and_at_growing_intervals(fake, monkeypatch, refused, copies):
    """Each batch takes 10 s."""
    clock, asked = [0.0], []

    class Later:
        @staticmethod
        def monotonic():
            return clock[0]

    def create(self, size):
        asked.append(clock[0])
        if len(asked) > refused:
            return real(self, size)
        raise _feedcuda.Refused("not now")
    real = _feedcuda.Driver.create
    monkeypatch.setattr(_feedcuda.Driver, "create", create)
    monkeypatch.setattr(_feedstage, "OTHERS_S", 0)
    monkeypatch.setattr(_feedpin, "time", Later)
    monkeypatch.setattr(_feedpin, "REFUSALS_MAX", 5)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        with shared(Counts(), "gpu", device="cuda", on_device="shared", pin=False, slots=3) as feed:
            for _ in range(2):
                for batch in feed:
                    assert (batch["x"] == batch["n"]).all()
                    clock[0] += 10
            assert feed.copies == copies
    assert len(told) == 1 and "not now" in str(told[0].message)
    assert asked == [0, 10, 30, 70, 150][:refused + 1]


def test_a_groups_feed_is_not_shared_on_the_gpu(fake, folder):  # noqa: F811
    os.chmod(folder, 0o2770)
    with pytest.warns(RuntimeWarning, match="a group's feed has no copies"):
        with shared(Counts(), "gpu", device="cuda", on_device="shared", pin=False, group=str(os.getgid())) as feed:
            assert right([(batch["x"].clone(), batch["n"]) for batch in feed])


def test_each_new_ring_has_copies_of_its_own(fake):
    with shared(Counts(400), "gpu", device="cuda", on_device="shared", slots=3, pin=False) as feed:
        said = []
        for batch in feed:
            said.append((batch["x"].clone(), batch["n"]))
            if batch["n"] in (50, 200):
                os.kill(makers_of(os.getpid())[-1], signal.SIGKILL)
        assert right(said) and len(said) == 400
    lines = [line[0] for line in fake()]
    assert lines == ["create", "map", "unmap"] * 3


def test_on_device_is_for_device(fake):
    with pytest.raises(ValueError, match="on_device="):
        shared(Counts(), "gpu", on_device="shared")
    with pytest.raises(ValueError, match="on_device="):
        shared(Counts(), "gpu", device="cuda", on_device="all")
