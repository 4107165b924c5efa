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
import signal
import sys

from .sandbox import CaptureError

PATIENCE = 1  # seconds that the script may go on for after a process has handed in, as to start others


class Processes:
    """`capture(run)`: what a process does in place of running; gives its exit code and what it hands in (None: nothing).
    `hurry()`: called when one has."""

    def __init__(self, capture, hurry):
        self.capture, self.hurry = capture, hurry
        self.answers = os.memfd_create("answers")

    def install(self, patch):
        context, base = multiprocessing.context, multiprocessing.process.BaseProcess
        for kind in (context.SpawnProcess, context.ForkServerProcess):  # a new interpreter would be without all this
            patch(kind, "_Popen", staticmethod(context.ForkProcess._Popen))
        real = base.start

        def start(process):
            run = process.run
            process.run = lambda: self.work(run)
            try:
                real(process)
            finally:
                del process.run
        patch(base, "start", start)
        signal.signal(signal.SIGCHLD, self.ended)

    def work(self, run):
        """In the process."""
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        code, answer = self.capture(run)
        if answer is not None:
            os.write(self.answers, pickle.dumps(answer))  # in one piece: its place in the file is shared
        sys.exit(code)

    def ended(self, *_):
        if os.fstat(self.answers).st_size:
            self.hurry()

    def wait(self):
        """As Python does at its end: for those that it may not end."""
        for process in multiprocessing.process.active_children():
            if not process.daemon:
                process.join()

    def handed_in(self):
        found, file = [], io.BytesIO(os.pread(self.answers, os.fstat(self.answers).st_size, 0))
        try:
            while True:
                found.append(pickle.load(file))
        except (EOFError, pickle.UnpicklingError):
            return found


def choose(answers):
    """The capture that counts, or None. An answer: (a capture, processes of its distributed job or 0), or the text of an error."""
    captures = [answer for answer in answers if not isinstance(answer, str)]
    if len(captures) > 1 and not captures[0][1]:
        _, _, peak_bytes, *_ = captures[0][0]
        raise CaptureError(f"{len(captures)} processes that the script starts train beside each other, and only one can be captured: say "
                           f"what those on a GPU take in sum (rad submit --gpu-mem). The first has {peak_bytes >> 20} MiB in tensors "
                           "at most, and each some 500 MiB for a context of its own")
    if answers and not captures:
        raise CaptureError(answers[0])
    return captures[0][0] if captures else None
