# SPDX-License-Identifier: MIT
"""The process beside a task that runs its loader when its turn comes: forked from the task, ends with it.

It waits in the kernel for the lock of the feed, goes through the loader from where readers need it, and writes what comes into the ring.
It may be killed at any moment, so it ends by os._exit wherever it stands.
"""
import ctypes
import glob
import itertools
import json
import os
import random
import select
import signal
import sys
import threading
import time
import traceback

from . import _feedlib
from ._feedbatch import Form
from ._feedloader import Source
from ._feedworkers import Made

NUDGE_S, NUDGES_MAX = 0.02, 100
TRACE_MAX, TEXT_MAX = 5000, 2000    # characters of a report: with six bytes for each it is less than a pipe takes without a reader


def _form(batch):
    return batch if isinstance(batch, Made) else Form(batch)


class _Larger(Exception):
    """A batch that no slot has room for: the ring is made anew."""


class Maker:
    def __init__(self, name, sign, loader, options, parent, until, report):
        self._name, self._sign, self._options = name.encode(), sign.encode(), options
        self._source = Source(loader)
        self._parent, self._until, self._report = parent, until, report
        self._lib = _feedlib.load()
        self._writer, self._lock = None, threading.Lock()
        self._slot_bytes = options["slot_bytes"] or 0
        self._open = self._told = False
        self._ending = False    # whoever is not writing yet is not to begin
        self.at = (0, 0)

    def run(self):
        try:
            _calm()
            threading.Thread(target=self._watch, daemon=True).start()
            while self._feed():
                pass
        except BaseException as error:  # noqa: B036  the task is told, whatever it was
            self._tell(error)
            _end(1)
        _end(0)

    def _watch(self):
        """Ends with the task; and when the task has closed its feed, unless others read what is written here."""
        poll = select.poll()
        poll.register(self._parent, select.POLLIN)
        poll.register(self._until, select.POLLIN)
        for again in itertools.count():
            gone = self._parent in {fd for fd, _ in poll.poll()}
            self._ending = True
            with self._lock:
                if self._writer and gone:
                    self._lib.feed_writer_clean(self._writer)
                if self._writer and gone or again == NUDGES_MAX:
                    _end(0)
                writing = self._writer is not None
            if writing:
                poll.unregister(self._until)    # the writer looks at it too
            else:       # out of the kernel's queue: no lock may come to a process that ends
                signal.pthread_kill(threading.main_thread().ident, signal.SIGUSR1)
                time.sleep(NUDGE_S)

    def _tell(self, error):
        if self._told:
            return
        self._told = True
        text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
        said = {"type": type(error).__name__, "text": str(error)[:TEXT_MAX], "traceback": text[-TRACE_MAX:], "at": self.at}
        try:
            os.write(self._report, json.dumps(said, ensure_ascii=False).encode(errors="replace"))
        except OSError:
            pass

    def _feed(self):
        """Writes until nobody reads. True if it is to begin again, with a larger ring."""
        self._claim()
        try:
            epoch, index, seed = _feedlib.position(self._lib, self._writer)
            while self._epoch(epoch, index, seed):
                epoch, index = epoch + 1, 0
            return False
        except _Larger:
            return not select.select([self._until], [], [], 0)[0]
        except BaseException as error:  # noqa: B036
            self._tell(error)   # before another goes on: the task hears of it before it gets a batch from there
            raise
        finally:
            with self._lock:
                writer, self._writer = self._writer, None
                self._lib.feed_writer_close(writer)

    def _claim(self):
        error = _feedlib.Error()
        seed = self._options["seed"]
        seed = random.SystemRandom().getrandbits(31) if seed is None else seed
        writer = None
        while not writer:
            writer = self._lib.feed_writer_claim(self._name, self._sign, seed, ctypes.byref(error))
            if not writer and self._ending:
                self._lib.feed_writer_resign(self._name)
                _end(0)
            if not writer and error.code != _feedlib.UNAVAILABLE:
                raise RuntimeError(str(error))
        with self._lock:
            self._writer, self._open = writer, False
            if self._ending:
                self._lib.feed_writer_close(writer)
                _end(0)
        self._lib.feed_writer_until(writer, self._until)
        self._lib.feed_writer_wants(writer, self._options["wait_for"])

    def _epoch(self, epoch, index, seed):
        """One epoch from that batch on. False if nobody reads any more. In its middle the batch before is made again, to be compared."""
        self.at, count = (epoch, index), 0
        for number, batch in self._source.batches(seed, epoch, max(index - 1, 0)):
            self.at, count = (epoch, number), number + 1
            if number < index:
                self._make_again(_form(batch))
            elif not self._write(_form(batch)):
                return False
            self.at = (epoch, count)
            del batch
        if count < index:
            raise RuntimeError(f"epoch {epoch} had {index} batches and more when another task ran this loader, and has fewer now: the same "
                               "seed must give the same batches")
        return self._write(None)

    def _make_again(self, form):
        made = ctypes.create_string_buffer(form.bytes)
        form.fill(made)
        self._open_for(form.bytes)
        self._lib.feed_writer_again(self._writer, made, form.bytes)

    def _open_for(self, size):
        """The ring, of slots in which a batch of that size has room."""
        if self._open:
            return
        error = _feedlib.Error()
        self._slot_bytes = max(self._slot_bytes, 2 * size if self._options["slot_bytes"] is None else size)
        if self._options["pin"]:
            self._lib.feed_writer_pinnable(self._writer)
        if self._lib.feed_writer_open(self._writer, self._options["slots"], self._slot_bytes, self._options["patience_ms"],
                                      ctypes.byref(error)):
            raise MemoryError(str(error))
        self._open = True

    def _write(self, form):
        error = _feedlib.Error()
        size = form.bytes if form else 0
        self._open_for(size)
        place = ctypes.c_void_p()
        while self._lib.feed_writer_reserve(self._writer, size, ctypes.byref(place), ctypes.byref(error)):
            if error.code == _feedlib.NOT_FOUND:
                return False
            if error.code == _feedlib.INVALID:
                self._slot_bytes = 2 * size
                raise _Larger
            if error.code != _feedlib.UNAVAILABLE or error.no:
                raise MemoryError(str(error))
        if form:
            form.fill((ctypes.c_char * size).from_address(place.value))
        self._lib.feed_writer_publish(self._writer, _feedlib.BATCH if form else _feedlib.END, size)
        return True


def _end(code):
    """At once, with the workers of the loader: they would look for this process only every few seconds."""
    for path in glob.glob("/proc/self/task/*/children"):
        try:
            with open(path) as children:
                for pid in children.read().split():
                    os.kill(int(pid), signal.SIGKILL)
        except OSError:
            pass
    os._exit(code)


def _calm():
    """Ctrl-C is for the task, and so is SIGTERM, which RAD-RM sends to all that a task left: this process ends with its task, and takes
    the feed's files away then. Threads of PyTorch do not survive a fork: one is enough here, and the loader has workers of its own."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for number in (signal.SIGUSR1, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: None)     # not SIG_IGN: what a loader starts would inherit that
    signal.signal(signal.SIGUSR2, signal.SIG_DFL)
    processes = getattr(sys.modules.get("multiprocessing.process"), "_children", None)
    if processes is not None:
        processes.clear()
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.set_num_threads(1)


def start(name, sign, loader, options):
    """Forks it. Returns its pid, the descriptor that ends it when something is written there, and the one on which it reports."""
    sys.stdout.flush()
    sys.stderr.flush()
    parent = os.pidfd_open(os.getpid())
    until, said = os.pipe(), os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(until[1])
        os.close(said[0])
        Maker(name, sign, loader, options, parent, until[0], said[1]).run()
    for fd in (parent, until[0], said[1]):
        os.close(fd)
    os.set_blocking(said[0], False)
    return pid, until[1], said[0]
