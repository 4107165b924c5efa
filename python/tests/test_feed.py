# SPDX-License-Identifier: MIT
"""radrm.feed: tasks are forks of this process, each with a loader of its own kind and a process beside it."""
import collections
import json
import os
import random
import select
import shutil
import signal
import tempfile
import time

import numpy
import pytest
import torch

import radrm.feed
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
                run(lambda *what: os.write(theirs, json.dumps(what).encode() + b"\n"))
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
    for task in tasks:
        said = task.rest()
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
    task = Task(epochs(loader, 3, seed=5, slots=3))
    said = [task.hear() for _ in range(5)]
    os.kill(makers_of(task.pid)[0], signal.SIGKILL)
    said += task.rest()
    assert said == Task(epochs(loader, 3, seed=5, slots=3)).rest()


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
    slow = Task(lambda say: [say(batch[0].item()) or signal.pause() for batch in shared(Raises(), "slow", slots=3, patience=0.2)])
    slow.hear()
    quick = Task(numbers("slow", Raises, slots=3, patience=0.2, join="now"))
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
