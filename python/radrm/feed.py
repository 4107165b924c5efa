# SPDX-License-Identifier: MIT
"""One loader for all tasks that train on the same data.

    import radrm.feed
    loader = radrm.feed.shared(torch.utils.data.DataLoader(dataset, batch_size=64, shuffle=True, num_workers=4))
    for epoch in range(epochs):
        for images, labels in loader:
            ...

The first task that asks runs its loader, in a process beside it; the others get the same batches in place, without a copy. When it
ends, another goes on at the right batch. doc/feed.md says what a loader must promise.
"""
import atexit
import collections
import ctypes
import errno
import hashlib
import json
import os
import sys
import time
import warnings
import weakref

from . import _feedlib, _feedmaker, _feedpin
from ._feedbatch import read
from ._feedlib import FeedError
from ._feedsizes import Sizes

__all__ = ["Feed", "FeedError", "shared"]

SLICE_MS = 200          # so long in the C library at a time: then it looks what became of the process that runs the loader
DEATHS_MAX = 3          # of that process one after the other, without a batch between them


class Feed:
    """What `shared` returns: goes through the feed's epochs, one for each `for`. `len` is the loader's, or that of batch=."""

    def __init__(self, loader, name, join, options, timeout, batch=None, device=None, on_device=None):
        self.name, self._loader, self._options, self._timeout = name, loader, options, timeout
        self._sizes = None if batch is None else Sizes(loader, batch)
        self._pid, self._sign, self._lib = os.getpid(), _sign(loader, options["seed"]), _feedlib.load()
        self._closed, self._inside, self._full, self._deaths, self._failed = False, False, False, 0, None
        error = _feedlib.Error()
        self._reader = self._lib.feed_reader_open(name.encode(), self._sign.encode(), ("next", "now").index(join), ctypes.byref(error))
        if not self._reader:
            raise FeedError(str(error))
        self._copier = None
        if device is not None:
            self._copier = _feedpin.copier(self._lib, self._reader, name, device, options["pin"], on_device == "shared")
        self._maker = self._until = self._report = None
        self._start()

    @property
    def copies(self):
        """With on_device="shared": batches that this task copied to the GPU for all tasks there ("made"), that it found there
        ("found"), and that it copied from the host's memory for itself ("alone")."""
        return self._copier.counts if self._copier else collections.Counter()

    def __len__(self):
        return len(self._loader if self._sizes is None else self._sizes)

    def __iter__(self):
        while self._inside:     # the loop before was left in the middle of an epoch
            self._pass_over()
        batches = self._copier.batches(self._items()) if self._copier else map(self._take, self._items())
        return self._sizes(batches) if self._sizes else batches

    def _items(self):
        """Of one epoch."""
        while True:
            item = self._next()
            self._inside = item is not None
            if item is None:
                return
            yield item

    def _pass_over(self):
        item = self._next()
        self._inside = item is not None
        if item is not None and self._copier:
            self._copier.pass_over(item)
        elif item is not None:
            self._lib.feed_reader_release(self._reader, item.ring, item.slot)

    def close(self):
        """Leaves the feed. The process beside this one goes on while others read what it makes, and ends with this one."""
        if self._closed or self._pid != os.getpid():
            return
        self._closed = True
        _feeds.pop(id(self._loader), None)
        if self._copier:
            self._copier.close()
        self._lib.feed_reader_close(self._reader)
        self._stop()

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.close()
        return False

    def _start(self):
        self._maker, self._until, self._report = _feedmaker.start(self.name, self._sign, self._loader, self._options)

    def _stop(self):
        try:
            os.write(self._until, b"x")
        except OSError:
            pass
        os.close(self._until)
        os.close(self._report)

    def _next(self):
        """The next item; None at the end of an epoch."""
        if self._closed or self._pid != os.getpid():
            raise FeedError(f"feed {self.name}: closed" if self._closed else
                            f"feed {self.name}: this process is a fork of the one that joined it: call radrm.feed.shared in the fork")
        item, error = _feedlib.Item(), _feedlib.Error()
        since = time.monotonic()
        wait = SLICE_MS if self._timeout is None else min(SLICE_MS, max(0, int(1000 * self._timeout)))
        while self._lib.feed_reader_next(self._reader, wait, ctypes.byref(item), ctypes.byref(error)):
            if error.code == _feedlib.CONFLICT:
                raise FeedError(f"feed {self.name}: {error} (.clone(), .copy()), or ask for more with slots=; after a loop "
                                f"that was left, `del` "
                                "its last batch")
            if error.code != _feedlib.UNAVAILABLE:
                self._raise(str(error))
            self._tell_full(error)
            self._look_at_maker()
            if self._timeout is not None and time.monotonic() - since > self._timeout:
                self._raise(f"no batch for {self._timeout:g} s")
        self._deaths = 0
        said = self._said()
        if said:
            self._lib.feed_reader_release(self._reader, item.ring, item.slot)
            self._raise_for(said)
        if self._lib.feed_reader_differs(self._reader):
            warnings.warn(f"feed {self.name}: its loader does not give the same twice: the batch before number {item.index} of epoch "
                          f"{item.epoch}, made again after a takeover, is another than it was (does the data set take chance "
                          f"from elsewhere "
                          "than random, NumPy and PyTorch?)", RuntimeWarning, stacklevel=3)
        if item.kind == _feedlib.END:
            self._lib.feed_reader_release(self._reader, item.ring, item.slot)
            return None
        return item

    def _tell_full(self, error):
        """Once: it would wait in silence, and a task that waits looks like one that trains."""
        if error.no == errno.EBUSY and not self._full:
            self._full = True
            warnings.warn(f"feed {self.name}: {error}: this task waits until another one leaves it", RuntimeWarning, stacklevel=4)

    def _take(self, item):
        room = (ctypes.c_char * item.bytes).from_address(item.data)
        # When the last array of the batch is gone its slot may be written again.
        weakref.finalize(room, self._lib.feed_reader_release, self._reader, item.ring, item.slot).atexit = False
        return read(room)

    def _raise(self, text):
        self.close()
        raise FeedError(f"feed {self.name}: {text}")

    def _look_at_maker(self):
        """What became of the process that runs this task's loader, or would."""
        if self._maker is None:
            return
        try:
            pid, status = os.waitpid(self._maker, os.WNOHANG)
        except ChildProcessError:       # somebody else waited for it
            pid, status = self._maker, 0
        if not pid:
            return
        self._maker = None
        said = self._said()
        if said:
            self._raise_for(said)
        self._deaths += 1
        if self._deaths > DEATHS_MAX:
            end = f"signal {os.WTERMSIG(status)}" if os.WIFSIGNALED(status) else f"exit {os.waitstatus_to_exitcode(status)}"
            self._raise(f"the process that runs its loader was ended {self._deaths} times ({end}): out of memory?")
        self._stop()
        self._start()

    def _said(self):
        """What went wrong in that process, if it has said so."""
        try:
            return json.loads(os.read(self._report, 1 << 16) or b"null")
        except (OSError, ValueError):
            return None

    def _raise_for(self, said):
        epoch, index = said["at"]
        sys.stderr.write(said["traceback"])
        self._raise(f"its loader failed at batch {index} of epoch {epoch}: {said['type']}: {said['text']}")


def _sign(loader, seed):
    """What the data are, as far as a loader shows; tasks whose loaders differ in it do not share."""
    def size(thing):
        try:
            return len(thing)
        except TypeError:
            return None

    data = getattr(loader, "dataset", None)
    said = {"loader": type(loader).__name__, "batches": size(loader), "batch_size": getattr(loader, "batch_size", None)}
    if data is not None:
        said["data"], said["length"] = type(data).__name__, size(data)
    if seed is not None:
        said["seed"] = seed
    return json.dumps({key: value for key, value in said.items() if value is not None})[:1000]


_calls = 0
_feeds = {}     # by id of the loader, which each holds


def _name():
    """The same in all runs of a script, another for each call in it."""
    base = os.environ.get("RAD_FEED")
    if not base:
        script = os.path.realpath(sys.argv[0]) if sys.argv and sys.argv[0] not in ("", "-c") else os.getcwd()
        stem = "".join(c if c.isascii() and (c.isalnum() or c in "_-") else "_" for c in os.path.splitext(os.path.basename(script))[0])
        base = "%s-%s" % (stem[:30] or "feed", hashlib.sha1(script.encode()).hexdigest()[:10])
        if os.environ.get("RAD_ARRAY_JOB_ID"):      # an array has feeds of its own: another may have other data
            base += "-" + os.environ["RAD_ARRAY_JOB_ID"][:12]
    return base if _calls == 1 else f"{base}-{_calls}"


def shared(loader, name=None, *, join="next", slots=8, patience=None, seed=None, slot_bytes=None, timeout=None, wait_for=1, batch=None,
           device=None, pin=None, on_device=None, group=None):
    """`loader`, gone through once for all tasks that ask for the feed `name`. The same loader gives the same Feed."""
    global _calls
    if hasattr(loader, "__next__") or not (hasattr(loader, "__iter__") or hasattr(loader, "__getitem__")):
        raise TypeError("shared() needs what can be gone through again, as a DataLoader or a list: another task may have to take over, and "
                        f"every epoch is one more time. This is a {type(loader).__name__}")
    if join not in ("next", "now"):
        raise ValueError("join is \"next\" or \"now\"")
    if not 3 <= slots <= 4096:  # a loop holds one while it asks for the next, and the end of an epoch takes one
        raise ValueError("slots: 3 to 4096")
    if not 1 <= wait_for <= 64:
        raise ValueError("wait_for: 1 to 64 tasks")
    if pin and device is None:
        raise ValueError("pin=True is for device=: who copies a batch to the GPU from pinned memory has to know when it may be "
                         "written again")
    if on_device not in (None, "shared") or (on_device and device is None):
        raise ValueError("on_device=\"shared\" is for device=: tasks on one GPU have each batch copied there once")
    known = _feeds.get(id(loader))
    if known is not None and known._pid == os.getpid():
        return known
    _calls += 1
    options = {"slots": slots, "seed": seed, "slot_bytes": slot_bytes, "patience_ms": round(1000 * patience) if patience else 0,
               "wait_for": wait_for, "pin": device is not None and pin is not False}
    name = name or _name()
    feed = _feeds[id(loader)] = Feed(loader, name if group is None else f"{group}:{name}", join, options, timeout, batch, device,
                                          on_device)
    return feed


@atexit.register
def _close_all():
    for feed in list(_feeds.values()):
        feed.close()
