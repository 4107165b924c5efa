# SPDX-License-Identifier: MIT
"""radrm.feed: tasks are forks of this process, each with a loader of its own kind and a process beside it."""
import collections
import errno
import json
import os
import random
import select
import shutil
import signal
import tempfile
import time
import warnings

import numpy
import pytest
import torch

import radrm.feed
from radrm import _feedlib
from radrm._feedsizes import Sizes
from radrm.feed import FeedError, shared

WAIT = 60


@pytest.fixture(autouse=True)
def folder(monkeypatch):
    path = tempfile.mkdtemp(prefix="feed-")     # short: a socket's address is
    monkeypatch.setenv("RADFEED_DIR", path)
    if os.environ.get("RAD_BUILD_ROOT"):
        monkeypatch.setenv("RADFEED_LIBRARY", os.path.join(os.environ["RAD_BUILD_ROOT"], "libradfeed.so"))
    yield path
    radrm.feed._close_all()
    until(lambda: not os.listdir(path), "files are left: %s" % os.listdir(path))
    shutil.rmtree(path)


def until(true, text):
    deadline = time.monotonic() + WAIT
    while not true():
        assert time.monotonic() < deadline, text
        time.sleep(0.01)


class Numbers(torch.utils.data.Dataset):
    def __len__(self):
        return 60

    def __getitem__(self, i):
        return {"image": torch.full((4, 4), float(i)) + torch.rand(1), "label": i}


def loader(**options):
    return torch.utils.data.DataLoader(Numbers(), batch_size=8, shuffle=True, **options)


class Task:
    """A fork that calls run(say); what it says is read here."""

    def __init__(self, run):
        ours, theirs = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(ours)
            code = 0
            try:
                run(lambda *what: os.write(theirs, json.dumps(what).encode() + b"\n") and None)
            except BaseException as error:  # noqa: B036
                os.write(theirs, json.dumps([type(error).__name__, str(error)]).encode() + b"\n")
                code = 1
            radrm.feed._close_all()
            os._exit(code)
        os.close(theirs)
        self._fd, self._bytes = ours, b""

    def hear(self):
        """The next thing said; None at its end."""
        while b"\n" not in self._bytes:
            ready, _, _ = select.select([self._fd], [], [], WAIT)
            assert ready, "nothing was said"
            got = os.read(self._fd, 1 << 16)
            if not got:
                return None
            self._bytes += got
        line, _, self._bytes = self._bytes.partition(b"\n")
        return json.loads(line)

    def rest(self):
        said = list(iter(self.hear, None))
        os.close(self._fd)
        os.waitpid(self.pid, 0)
        return said


def sums(batch):
    return round(batch["image"].double().sum().item(), 4), batch["label"].tolist()


def epochs(make, count, pause=0, name="test", **options):
    def run(say):
        feed = shared(make(), name, **options)
        for epoch in range(count):
            for batch in feed:
                say(epoch, *sums(batch))
                batch["image"].zero_()      # nobody else sees it
                time.sleep(pause)
    return run


def alone(count):
    """From the first epoch on: under a name of its own, since tasks of the test may run still."""
    return [batch for _, *batch in Task(epochs(loader, count, name="alone", seed=5)).rest()]


def is_part_of(whole, said, count):
    """Whole epochs, one after the other, as they are without company."""
    assert len(said) == count * 8, said[-1]
    begin = whole.index(said[0])
    assert begin % 8 == 0 and said == whole[begin:begin + count * 8]


def test_tasks_get_the_same_batches_each_once():
    tasks = [Task(epochs(loader, 3, pause=0.002, seed=5)) for _ in range(3)]
    for said in [task.rest() for task in tasks]:    # all have left before one goes through the loader alone
        for epoch in range(3):
            labels = [label for number, _, some in said if number == epoch for label in some]
            assert sorted(labels) == list(range(60))
        assert said[0][2] != said[8][2], "every epoch has an order of its own"
        is_part_of(alone(30), [batch for _, *batch in said], 3)


def test_a_loader_with_workers_and_a_seed_gives_what_it_gave_before():
    first = Task(epochs(lambda: loader(num_workers=1), 2, seed=3)).rest()
    assert len(first) == 16 and first == Task(epochs(lambda: loader(num_workers=1), 2, seed=3)).rest()


def test_another_goes_on_where_the_killed_one_was():
    """The task that runs the loader is killed at moments by chance; the others miss nothing and get nothing twice."""
    whole = alone(60)
    rng = random.Random(1)
    for _ in range(6):
        first = Task(epochs(loader, 20, pause=0.005, seed=5, slots=3))
        first.hear()        # it makes the batches
        others = [Task(epochs(loader, 4, seed=5, slots=3)) for _ in range(2)]
        heard = [[task.hear() for _ in range(rng.randrange(1, 20))] for task in others]
        os.kill(first.pid, signal.SIGKILL)
        first.rest()
        for task, said in zip(others, heard):
            is_part_of(whole, [batch for _, *batch in said + task.rest()], 4)


def makers_of(pid):
    with open(f"/proc/{pid}/task/{pid}/children") as children:
        return [int(child) for child in children.read().split()]


def test_a_process_that_dies_beside_its_task_is_begun_again():
    def run(say):
        feed = shared(loader(), "test", seed=5, slots=3)
        for epoch in range(3):
            for number, batch in enumerate(feed):
                say(epoch, *sums(batch))
                if (epoch, number) == (0, 4):
                    os.kill(makers_of(os.getpid())[0], signal.SIGKILL)
    assert Task(run).rest() == Task(epochs(loader, 3, seed=5, slots=3)).rest()


def test_a_process_that_is_told_to_end_beside_its_task_ends_with_it_and_leaves_no_files():
    """The fixture looks for files."""
    task = Task(lambda say: [say(1) or signal.pause() for _ in shared(Raises(), "ends", slots=3)])
    task.hear()
    os.kill(makers_of(task.pid)[0], signal.SIGTERM)
    os.kill(task.pid, signal.SIGKILL)
    assert task.rest() == []


Pair = collections.namedtuple("Pair", "left right")


def test_trees_of_all_kinds_come_as_they_were():
    batches = [
        (torch.arange(6).reshape(2, 3), numpy.arange(4, dtype=">i2"), [1, 2.5, None, "é", True]),
        {"a": Pair(torch.ones(3, dtype=torch.bfloat16), torch.tensor(7)), 3: numpy.float32(1.5)},
        torch.empty(0, 4), numpy.zeros((2, 0)), torch.arange(12).reshape(3, 4).t(), torch.zeros(100000), numpy.array(["ab", "c"]),
    ]
    with shared(batches, "trees") as feed:
        got = list(batch if not isinstance(batch, torch.Tensor) else batch.clone() for batch in feed)
        assert torch.equal(got[0][0], batches[0][0]) and (got[0][1] == batches[0][1]).all() and got[0][2] == batches[0][2]
        assert got[0][1].dtype == batches[0][1].dtype and type(got[0]) is tuple
        assert torch.equal(got[1]["a"].left, batches[1]["a"].left) and got[1]["a"].right == 7 and got[1][3] == 1.5
        assert got[1]["a"]._fields == Pair._fields
        assert got[2].shape == (0, 4) and got[3].shape == (2, 0) and torch.equal(got[4], batches[4])
        assert torch.equal(got[5], batches[5]) and (got[6] == batches[6]).all()


def test_who_keeps_all_batches_is_told_and_may_go_on():
    with shared([torch.full((4,), i) for i in range(9)], "keeps", slots=3) as feed:
        kept, loop = [], iter(feed)
        with pytest.raises(FeedError, match=r"holds all 3 batches.*copy"):
            for batch in loop:
                kept.append(batch)
        assert [batch[0].item() for batch in kept] == [0, 1, 2]
        kept.clear()
        del batch
        assert feed._next().index == 3


class Busy:
    """A library whose feed has a place only at the fourth try."""

    def __init__(self, lib):
        self._lib, self._left = lib, 3

    def __getattr__(self, name):
        return getattr(self._lib, name)

    def feed_reader_next(self, reader, wait, item, error):
        if not self._left:
            return self._lib.feed_reader_next(reader, wait, item, error)
        self._left -= 1
        error._obj.code, error._obj.no, error._obj.text = _feedlib.UNAVAILABLE, errno.EBUSY, b"this feed has as many readers as it can"
        return -1


def test_who_finds_no_place_is_told_once():
    with shared([torch.full((4,), i) for i in range(3)], "full") as feed, warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        feed._lib = Busy(feed._lib)
        assert len(list(feed)) == 3
    assert [str(w.message) for w in said] == ["feed full: this feed has as many readers as it can: this task waits until "
                                              "another one leaves it"]
    assert said[0].filename == __file__


class Raises:
    def __init__(self, at=None):
        self.at = at

    def __iter__(self):
        for i in range(8):
            if i == self.at:
                raise ValueError("no such picture")
            yield torch.full((2,), i)


def numbers(name, make, **options):
    def run(say):
        for batch in shared(make(), name, **options):
            say(batch[0].item())
    return run


def test_a_loader_that_raises_is_its_own_tasks_affair():
    assert Task(numbers("raises", lambda: Raises(3))).rest()[-1] == [
        "FeedError", "feed raises: its loader failed at batch 3 of epoch 0: ValueError: no such picture"]
    one = Task(numbers("raises", lambda: Raises(5), slots=3))
    assert one.hear() == [0]
    two = Task(numbers("raises", Raises, slots=3))
    assert one.rest()[-1][0] == "FeedError"
    said = two.rest()
    assert [number for number, in said] == list(range(8)), said


class RaisesAtLength:
    def __iter__(self):
        raise ValueError("\u00e9" * 100000)


def test_a_long_reason_is_cut():
    [[_, text]] = Task(numbers("long", RaisesAtLength)).rest()
    assert text.startswith("feed long: its loader failed at batch 0 of epoch 0: ValueError: \u00e9\u00e9") and len(text) < 3000


@pytest.mark.parametrize("batch, text", [
    (object(), r"batch is a builtins.object"), ([{"x": {1, 2}}], r"batch\[0\]\['x'\] is a builtins.set"),
    (torch.empty(2, device="meta"), "a tensor on meta"), (numpy.array([object()]), "array of object"),
    ({(1, 2): 3}, "keys that are neither"), (torch.eye(2).to_sparse(), "torch.sparse_coo"),
])
def test_what_cannot_be_shared_is_named(batch, text):
    with pytest.raises(FeedError, match=text):
        next(iter(shared([batch], "kinds")))


def test_other_data_of_that_name_are_refused():
    with shared([torch.zeros(1)] * 3, "other") as feed:
        next(iter(feed))
        assert "used for other data" in Task(numbers("other", lambda: [torch.zeros(1)] * 4)).rest()[-1][1]
        assert next(iter(feed)).numel() == 1


def test_a_fork_has_no_part_in_it():
    with shared([torch.zeros(1)] * 3, "fork") as feed:
        next(iter(feed))
        assert "is a fork" in Task(lambda say: next(iter(feed))).rest()[-1][1]
        assert len(list(feed)) == 3, "an epoch that was left in its middle is not gone on with"


def test_iterators_and_wrong_words_are_refused():
    with pytest.raises(TypeError, match="gone through again.*generator"):
        shared(x for x in [1])
    with pytest.raises(ValueError, match="join"):
        shared([1], join="later")
    with pytest.raises(FeedError, match="feed name"):
        shared([1], "a/b")


def test_a_task_that_holds_up_the_others_is_dropped_by_rule():
    """The same patience is had with the quick one, which may not have a core for a while."""
    slow = Task(lambda say: [say(batch[0].item()) or signal.pause() for batch in shared(Raises(), "slow", slots=3, patience=5)])
    slow.hear()
    quick = Task(numbers("slow", Raises, slots=3, patience=5, join="now"))
    assert len(quick.rest()) > 2
    os.kill(slow.pid, signal.SIGKILL)
    slow.rest()


def test_the_first_epoch_waits_for_as_many_tasks_as_were_named():
    first = Task(numbers("waits", Raises, slots=3, wait_for=2))
    assert not select.select([first._fd], [], [], 0.5)[0], "it went on alone"
    second = Task(numbers("waits", Raises, slots=3, wait_for=2))
    assert first.rest() == second.rest() == [[i] for i in range(8)]
    with pytest.raises(ValueError, match="wait_for"):
        shared([1], wait_for=0)


class Decoded(Numbers):
    """Notes what is decoded in a file."""

    def __init__(self, path, broken=False):
        self.path, self.broken = path, broken

    def __getitem__(self, i):
        with open(self.path, "ab", buffering=0) as file:
            file.write(bytes([i]))
        sample = super().__getitem__(i)
        if self.broken:
            sample["image"] += time.monotonic()
        return sample


def decoding(path, workers=0, **options):
    return lambda: torch.utils.data.DataLoader(Decoded(path, **options), batch_size=8, shuffle=True, num_workers=workers)


def taken_over(make, second):
    """What the second task says where the first keeps batch 0 of three that the ring has room for, and is killed then."""
    first = Task(lambda say: [say(1) or signal.pause() for _ in shared(make(), "test", seed=5, slots=3)])
    first.hear()
    second = Task(second)
    said = [second.hear() for _ in range(3)]
    os.kill(makers_of(first.pid)[0], signal.SIGKILL)    # before its task: it would go on until it sees that that one is gone
    os.kill(first.pid, signal.SIGKILL)
    first.rest()
    return said + second.rest()


@pytest.mark.parametrize("workers", [0, 2])
def test_after_a_takeover_only_indices_are_passed_over(workers, tmp_path):
    """It begins with the last batch that was made, to compare it, and what it makes is the same."""
    said = taken_over(decoding(tmp_path / "first", workers), epochs(decoding(tmp_path / "second", workers), 1, seed=5, slots=3))
    is_part_of(alone(3), [batch for _, *batch in said], 1)
    wanted = sorted(label for _, _, labels in said[2:] for label in labels)
    assert sorted((tmp_path / "second").read_bytes()[:len(wanted)]) == wanted


@pytest.mark.parametrize("broken", [False, True])
def test_a_loader_that_is_not_the_same_twice_is_told_of(broken, tmp_path):
    def run(say):
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            for batch in shared(decoding(tmp_path / "x", broken=broken)(), "test", seed=5, slots=3):
                say(*sums(batch))
            say([str(one.message) for one in told])
    [told] = taken_over(decoding(tmp_path / "x", broken=broken), run)[-1]
    assert len(told) == broken and all("does not give the same twice" in text for text in told)


def of_size(size, count=1, **options):
    def run(say):
        feed = shared(loader(), "test", batch=size, **options)
        say(len(feed))
        for epoch in range(count):
            for batch in feed:
                say(epoch, batch["image"].double().sum((1, 2)).tolist(), batch["label"].tolist())
    return run


@pytest.mark.parametrize("size, lengths", [(8, [8] * 7 + [4]), (2, [2] * 30), (4, [4] * 15), (32, [32, 28]), (64, [60]),
                                           (16, [16] * 3 + [12])])
def test_batches_of_another_size_have_each_sample_once_and_in_order(size, lengths):
    tasks = [Task(of_size(each, 2, seed=5, slots=3)) for each in (size, 8)]
    (number, *said), (_, *whole) = [task.rest() for task in tasks]
    assert number == [len(lengths)]
    for epoch in range(2):
        mine = [one for one in said if one[0] == epoch]
        assert [len(labels) for _, _, labels in mine] == lengths
        flat = [pair for _, values, labels in mine for pair in zip(labels, values)]
        assert sorted(label for label, _ in flat) == list(range(60))
        if epoch == 0 and said[0][2][0] == whole[0][2][0]:      # they began with the same epoch
            assert flat == [pair for number, values, labels in whole if number == 0 for pair in zip(labels, values)]


def test_a_loop_may_be_left_in_the_middle_of_a_long_epoch():
    with shared([torch.full((4,), i) for i in range(30)], "left", slots=3) as feed:
        for _ in range(3):
            for batch in feed:
                if batch[0] == 2:
                    break
            del batch
        assert [batch[0].item() for batch in feed] == list(range(30))


def test_sizes_that_do_not_divide_and_batches_that_cannot_be_cut_are_refused():
    with pytest.raises(FeedError, match="batch=12: the loader's batches have 8 samples: a multiple of that, or a divisor"):
        shared(loader(), "sizes", batch=12)
    with pytest.raises(FeedError, match="does not say how large"):
        shared([torch.zeros(4)], "sizes", batch=2)


def cut(batches, size):
    class Sized(list):
        batch_size = 4
    return list(Sizes(Sized(batches), size)(iter(batches)))


def test_trees_are_cut_and_put_together():
    batches = [{"x": torch.arange(4) + 4 * i, "names": [f"{i}{k}" for k in range(4)], "of": Pair(numpy.arange(4.0) + i, 7)}
               for i in range(3)]
    small = cut(batches, 2)
    assert [one["x"].tolist() for one in small] == [[0, 1], [2, 3], [4, 5], [6, 7], [8, 9], [10, 11]]
    assert small[1]["names"] == ["02", "03"] and small[1]["of"].left.tolist() == [2, 3] and small[1]["of"].right == 7
    large = cut(batches, 8)
    assert [one["x"].tolist() for one in large] == [list(range(8)), list(range(8, 12))]
    assert large[0]["names"] == [f"{i}{k}" for i in range(2) for k in range(4)] and large[1]["of"].left.tolist() == [2, 3, 4, 5]
    assert isinstance(large[0]["of"], Pair) and large[0]["x"].dtype == torch.int64 and large[0]["of"].left.dtype == numpy.float64
    for make in numpy.arange, torch.arange:
        assert [one.tolist() for one in cut([make(3), make(4), make(4)], 8)] == [[0, 1, 2, 0, 1, 2, 3], [0, 1, 2, 3]]
    with pytest.raises(FeedError, match=r"batch\['y'\] has 3 in its first dimension, and the batch has 4"):
        cut([{"x": torch.zeros(4), "y": torch.zeros(3)}], 2)
    with pytest.raises(FeedError, match=r"batch is \(4, 3\).*cannot be put together"):
        cut([torch.zeros(4, 2), torch.zeros(4, 3)], 8)
    with pytest.raises(FeedError, match="without batch"):
        cut([{"x": torch.zeros(4), "y": torch.zeros(4)}, {"x": torch.zeros(4)}], 8)
    with pytest.raises(FeedError, match="has none"):
        cut([[1, 2, 3, 4]], 2)


def test_a_large_batch_holds_no_more_of_the_ring_than_a_small_one():
    """Ten batches make one, and the ring has room for three."""
    with shared(torch.utils.data.DataLoader(Numbers(), batch_size=2), "hold", batch=20, slots=3) as feed:
        kept = list(feed)
        assert [batch["label"].tolist() for batch in kept] == [list(range(at, at + 20)) for at in (0, 20, 40)]


class Varying:
    def __iter__(self):
        for i in range(6):
            yield torch.full((10 ** i,), i, dtype=torch.uint8)


def test_batches_of_varying_size_get_a_larger_ring():
    with shared(Varying(), "varying") as feed:
        assert [(len(batch), batch.unique().tolist()) for batch in feed] == [(10 ** i, [i]) for i in range(6)]


def test_a_ring_that_there_is_no_memory_for_is_an_error():
    with pytest.raises(FeedError, match="loader failed at batch 0.*ring|loader failed at batch 0.*memory"):
        next(iter(shared([torch.zeros(4)], "huge", slot_bytes=1 << 39, slots=4096)))


def test_only_members_of_a_group_take_part(folder):
    with pytest.raises(FeedError, match="there is no group"):
        shared([torch.zeros(1)], "x", group="no-such-group")
    os.chmod(folder, 0o2770)
    with shared([torch.zeros(1)] * 3, "x", group=str(os.getegid())) as feed:
        assert len(list(feed)) == 3
    os.chmod(folder, 0o777)
    with pytest.raises(FeedError, match="with mode 2770"):
        shared([torch.zeros(1)], "y", group=str(os.getegid()))
