# SPDX-License-Identifier: MIT
"""What a batch costs the data loaders of a script: processor time of its data set and of what puts samples together, measured where the
capture fetches a batch in the place of a worker; how many workers the script asked for, and how many batches a step takes.

Processor time and no other: a capture runs niced, beside whatever the machine does, and what a loader waits for keeps no core busy. A
loader's first batch imports and opens files, so it does not count; it shows whether anything of the GPU is in it. Where nothing is, the
next ones are fetched as a worker does, without the capture's look at each operator, which takes longer than many an operator. Else they are
not measured.
"""
import numbers
import statistics
import threading
import time
import weakref

from torch.utils._python_dispatch import _disable_current_modes
from torch.utils.data import dataloader
from torch.utils.data._utils import fetch as fetching

from . import limits

REMADE = {"accelerate", "lightning", "pytorch_lightning"}  # make a loader anew, of what one has that was made here


class Loader:
    """What one was seen to take. `costs`: nanoseconds of each batch but the first; `quiet`: whether that one was none of the capture's
    business, None: it was not fetched yet; `inner`: a data set fetches them, whose batches they are part of; `batches`: of all steps but
    the first."""

    def __init__(self, workers):
        self.workers, self.costs, self.quiet, self.inner, self.batches = workers, [], None, False, 0


def now():
    """Also what threads take that a library begins for a batch; of a script's own thread that fetches ahead only its own."""
    return time.process_time_ns() if threading.current_thread() is threading.main_thread() else time.thread_time_ns()


class Loading:
    """Told of each loader that is made, and of each step. Measures until the session has seen enough."""

    def __init__(self, session):
        self.session, self.host = session, session.recorder.host
        self.known = []  # (weak reference to a loader, Loader)
        self.passes = weakref.WeakKeyDictionary()  # pass over one -> Loader
        self.fetchers = weakref.WeakKeyDictionary()  # what fetches its batches -> Loader
        self.within = set()  # threads in which a batch is being fetched
        self.begin()

    def begin(self):
        """What was a step until now is none."""
        self.steps, self.stepped = 0, []  # Loaders of which steps took batches

    def made(self, loader, workers, frame):
        """`frame`: of who made it."""
        workers = min(int(workers), limits.MAX_WORKERS) if isinstance(workers, numbers.Integral) and workers > 0 else 0
        if not workers and frame.f_globals.get("__name__", "").partition(".")[0] in REMADE:
            workers = max((known.workers for one, known in self.known if getattr(one(), "dataset", None) is loader.dataset), default=0)
        self.known.append((weakref.ref(loader), Loader(workers)))

    def of(self, loader):
        return next((known for one, known in self.known if one() is loader), None)

    def step(self, fetched):
        """A step is over, which took so many batches of each pass over a loader. What the first took may have been fetched for others."""
        self.steps += 1
        for one, batches in fetched.items():
            found = self.passes.get(one)
            if found is None:
                continue
            if found not in self.stepped:
                self.stepped.append(found)
                found.batches = 0
            found.batches += batches if self.steps > 1 else 0

    def fetch(self, real, fetcher, index):
        """A batch, from where a worker would get it."""
        found, thread = self.fetchers.get(fetcher), threading.get_ident()
        if found is None or self.session.finished or thread in self.within:
            if found is not None:
                found.inner = found.inner or thread in self.within
            return real(fetcher, index)
        self.within.add(thread)
        try:
            if found.quiet is None:
                return self.first(found, real, fetcher, index)
            return self.measured(found, real, fetcher, index) if found.quiet and not self.host.of else real(fetcher, index)
        finally:
            self.within.discard(thread)

    def first(self, found, real, fetcher, index):
        recorder = self.session.recorder
        before = recorder.operators, recorder.undrawn
        batch = real(fetcher, index)
        found.quiet = (recorder.operators, recorder.undrawn) == before and not self.host.of
        return batch

    def measured(self, found, real, fetcher, index):
        began = now()
        try:
            with _disable_current_modes():
                batch = real(fetcher, index)
        except StopIteration:
            raise
        except Exception:
            found.quiet = False
            if isinstance(fetcher, fetching._IterableDatasetFetcher):
                raise
            return real(fetcher, index)
        found.costs.append(now() - began)
        return batch

    def result(self):
        """(workers, microseconds of a batch, how many that was measured of, batches, steps that took these) of each loader that
        training takes batches from. Of costs the median: a capture that others disturb has a few that are larger."""
        found = [(one.workers, round(statistics.median_low(one.costs or [0]) / 1000), len(one.costs), one.batches, self.steps - 1)
                 for one in self.stepped if one.batches and not one.inner]
        fits = len(found) <= limits.MAX_LOADERS and all(n <= limits.MAX_COUNT for one in found for n in one)
        return found if fits else []


def install(loading, patch):
    """Has passes over loaders tell whose they are, and what fetches batches for them how long it takes."""
    single = dataloader._SingleProcessDataLoaderIter
    real_init = single.__init__

    def init(self, loader):
        real_init(self, loader)
        known = loading.of(loader)
        if known is not None:
            loading.passes[self] = loading.fetchers[self._dataset_fetcher] = known

    def fetches(real):
        return lambda self, possibly_batched_index: loading.fetch(real, self, possibly_batched_index)
    patch(single, "__init__", init)
    for kind in (fetching._MapDatasetFetcher, fetching._IterableDatasetFetcher):
        patch(kind, "fetch", fetches(kind.fetch))
