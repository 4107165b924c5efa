# SPDX-License-Identifier: MIT
"""Processes that a script starts by multiprocessing. Each is a copy of the capture, however it was to be begun: what loads data or
plays a game does that. One that trains hands in what was captured of it, and is over.

Of a distributed job the first answer is the job's: its processes are alike. Others that train beside each other have each memory
and a context of their own, which one capture cannot say."""
import io
import multiprocessing.context
import multiprocessing.process
import os
import pickle
import resource
import signal
import sys
import threading

from . import spent
from .sandbox import CaptureError

# Once a process has handed in, those beside it, and the script that may start more, have so many seconds more of processor time than it
# took, or wait for so long, in one piece: however busy the machine is.
PATIENCE = 1
LOOK = 0.1  # seconds between two looks at that


class Patience:
    """With one process, which had taken `taken` seconds of processor time before."""

    def __init__(self, taken):
        self.enough, self.waited = taken + PATIENCE, 0

    def over(self, taken, waits):
        self.waited = (self.waited + LOOK) * waits
        return taken >= self.enough or self.waited >= PATIENCE


class Processes:
    """`capture(run)`: what a process does in place of running; gives its exit code and what it hands in (None: nothing).
    `enough()`: called when those that train have handed in."""

    def __init__(self, capture, enough):
        self.capture, self.enough = capture, enough
        self.answers = os.memfd_create("answers")
        self.beside = []  # processes that were started before the first has handed in
        self.patience, self.mine, self.switches = {}, None, 0  # with each of them; with this one; how often it waited

    def install(self, patch):
        base = multiprocessing.process.BaseProcess
        real = base.start

        def start(process):
            """A new interpreter, as also kinds that libraries have of their own begin one (joblib's), would be without all this."""
            run = process.run
            process.run, process._Popen = lambda: self.work(run), multiprocessing.context.ForkProcess._Popen
            try:
                real(process)
            finally:
                del process.run, process._Popen
            if not self.has_answers():
                self.beside.append(process.pid)
        patch(base, "start", start)
        signal.signal(signal.SIGCHLD, self.ended)

    def work(self, run):
        """In the process."""
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        self.beside.clear()
        code, answer = self.capture(run)
        if answer is not None:
            os.write(self.answers, pickle.dumps((answer, spent.own())))  # in one piece: its place in the file is shared
        sys.exit(code)

    def has_answers(self):
        return os.fstat(self.answers).st_size > 0

    def ended(self, *_):
        """One of them has. Were it that the last handed in, nobody would look on."""
        if self.mine is None and self.has_answers():
            self.mine = Patience(spent.own())
            signal.signal(signal.SIGALRM, self.look)
            signal.setitimer(signal.ITIMER_REAL, LOOK, LOOK)

    def look(self, *_):
        found = self.answered()
        if not found:  # it is being written
            return
        switches = resource.getrusage(resource.RUSAGE_SELF).ru_nvcsw
        mine = self.mine.over(spent.own(), switches > self.switches)
        self.switches = switches
        if is_of_many(found[0][0]) or self.all_had(found[0][1]) and mine:
            signal.setitimer(signal.ITIMER_REAL, 1, 1)  # again, where an `except:` held it
            self.enough()

    def all_had(self, first):
        """Whether nothing is to be expected any more of those beside the first, which took that long."""
        over = [self.patience.setdefault(pid, Patience(first)).over(spent.taken(pid), not spent.is_busy(pid))
                for pid in self.beside if spent.lives(pid)]
        return all(over)

    def wait(self):
        """As Python does at its end: for those that it may not end, and for threads."""
        for thread in threading.enumerate():
            if thread is not threading.current_thread() and not thread.daemon:
                thread.join()
        for process in multiprocessing.process.active_children():
            if not process.daemon:
                process.join()

    def handed_in(self):
        return [answer for answer, _ in self.answered()]

    def answered(self):
        """[(what it handed in, seconds of processor time that it took)]"""
        found, file = [], io.BytesIO(os.pread(self.answers, os.fstat(self.answers).st_size, 0))
        try:
            while True:
                found.append(pickle.load(file))
        except (EOFError, pickle.UnpicklingError):
            return found


def is_of_many(answer):
    """Whether it is of a distributed job, whose processes are alike."""
    return not isinstance(answer, str) and answer[1] > 0


def choose(answers):
    """The capture that counts, or None. An answer: (a capture, processes of its distributed job or 0), or the text of an error."""
    captures = [answer for answer in answers if not isinstance(answer, str)]
    if len(captures) > 1 and not is_of_many(captures[0]):
        _, _, peak_bytes, *_ = captures[0][0]
        raise CaptureError(f"{len(captures)} processes that the script starts train beside each other, and only one can be captured: say "
                           f"what those on a GPU take in sum (rad submit --gpu-mem). The first has {peak_bytes >> 20} MiB in tensors "
                           "at most, and each some 500 MiB for a context of its own")
    if answers and not captures:
        raise CaptureError(answers[0])
    return captures[0][0] if captures else None
