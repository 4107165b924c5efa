# SPDX-License-Identifier: MIT
"""Runs an unmodified training script under capture, until it has done a few optimizer steps.

What a script does besides training is kept from doing harm or taking time: weights are not written, data loaders start no
workers, torch.compile leaves the model as it is. Its other side effects (log files, directories) are those of a real run.
"""
import os
import runpy
import signal
import sys
import traceback

from .sandbox import CaptureError

VALUED = ("-X", "-W", "--check-hash-based-pycs")  # options of the interpreter that take a value
RESERVE = 3  # seconds of the limit that are kept for writing the file


class TimeUp(BaseException):
    """The limit of time is near."""


def parse(words):
    """("-m" or "", module or path, arguments) of the words that would follow `python`. CaptureError for what is no script."""
    words = list(words)
    while words and words[0].startswith("-") and words[0] != "-m":
        option = words.pop(0)
        if option == "-c" or option == "-":
            raise CaptureError(f"{option}: code from the command line or a pipe cannot be captured: put it into a file")
        if option in VALUED and words:
            words.pop(0)
    if words and words[0] == "-m":
        if len(words) < 2:
            raise CaptureError("-m: the module's name is missing")
        return "-m", words[1], words[2:]
    if not words:
        raise CaptureError("no script: rad capture -o FILE -- python train.py ...")
    if not os.path.isfile(words[0]):
        raise CaptureError(f"{words[0]}: no such file: the script comes right after the interpreter and its options")
    return "", words[0], words[1:]


def capture(kind, target, arguments, iterations, seconds, key, gpu=None, processes=0):
    """Runs the script in this process; returns what Session.result() does. For the sandbox: nothing is put back. `processes`:
    how many of them torchrun would start; 0: without it."""
    before = sys.argv
    sys.argv = [target, *arguments]
    from . import fileformat as ff
    from .distributed import surroundings
    from .session import Finished, Session
    if processes:
        os.environ.update(surroundings(processes))
        gpu = {"count": processes, **(gpu or {})}
    session = Session(iterations=iterations, gpu=gpu)
    with session:
        install(session)
        limit(seconds)
        try:
            run(kind, target)
            ended = "the script ended by itself"
        except Finished:
            ended = None
        except TimeUp:
            ended = f"time: no end after {seconds - RESERVE:g} s"
        except MemoryError:
            ended = "memory: the limit was reached"
        except CaptureError:
            raise
        except SystemExit as e:
            ended = f"the script ended (exit code {e.code if e.code is not None else 0})"
        except BaseException as e:
            ended = failure(e)
        signal.setitimer(signal.ITIMER_REAL, 0)
        sys.argv = before
        if ended and session.steps == 0:
            raise CaptureError(f"{ended}, before its first optimizer step was over")
        if ended and not ended.startswith("the script ended"):
            session.recorder.note(ff.CUT_SHORT, f"cut short after {session.steps} steps: {ended}")
        return session.result(key)


def run(kind, target):
    if kind == "-m":
        sys.path.insert(0, os.getcwd())
        runpy.run_module(target, run_name="__main__", alter_sys=True)
    else:
        sys.path.insert(0, os.path.dirname(os.path.abspath(target)))
        runpy.run_path(target, run_name="__main__")


def failure(error):
    """The error and the lines of the script that led to it."""
    own = os.path.dirname(os.path.abspath(__file__))
    where = [f"{os.path.basename(f.filename)}:{f.lineno}: {f.line}" for f in traceback.extract_tb(error.__traceback__)
             if not f.filename.startswith((own, "<")) and "runpy" not in f.filename and "/torch/" not in f.filename]
    traceback.print_exception(error)
    return f"{type(error).__name__}: {error}" + (f" (at {where[-1]})" if where else "")


def limit(seconds):
    def up(*_):
        raise TimeUp
    signal.signal(signal.SIGALRM, up)
    signal.setitimer(signal.ITIMER_REAL, max(seconds - RESERVE, seconds / 2))


def install(session):
    """Patches for scripts, on top of the session's."""
    import torch
    import torch.utils.data

    from . import fileformat as ff
    patch, recorder = session.gpu.patch, session.recorder
    loader = torch.utils.data.DataLoader
    real_init, real_load = loader.__init__, torch.load

    def init(self, dataset, *args, **kwargs):
        args = list(args)
        if len(args) > 4:
            args[4] = 0
        if len(args) > 6:
            args[6] = False
        kwargs.update({name: value for name, value in (("num_workers", 0), ("pin_memory", False), ("persistent_workers", False),
                                                       ("prefetch_factor", None), ("timeout", 0)) if name in kwargs})
        real_init(self, dataset, *args, **kwargs)

    def compiled(model=None, **_):
        recorder.note(ff.COMPILED, "torch.compile: the eager run was captured", None)
        return model if model is not None else lambda f: f

    def load(f, map_location=None, *args, **kwargs):
        return real_load(f, "cpu", *args, **kwargs)
    patch(loader, "__init__", init)
    patch(torch, "compile", compiled)
    patch(torch.nn.Module, "compile", lambda *_, **__: compiled() and None)
    patch(torch, "save", lambda *_, **__: None)
    patch(torch, "load", load)
