# SPDX-License-Identifier: MIT
"""Runs an unmodified training script under capture, until it has done a few optimizer steps.

What a script does besides training is kept from doing harm or taking time: weights are not written, data loaders start no
workers, torch.compile leaves the model as it is. What it does to other files nobody else sees (aside.py).
"""
import functools
import os
import random
import runpy
import signal
import sys
import time
import traceback

from . import aside, cache, ending, finders, gaveup, imports, nvidia, ports, reads, sandbox, spent, trackers
from .commands import parse  # noqa: F401  beside capture(): a script is named, then run
from .processes import Processes, choose
from .sandbox import CaptureError, Unused

# What a DataLoader is told that loads in this process: option -> (where it stands behind the data set, None: by name alone; the value).
UNAIDED = {"num_workers": (4, 0), "pin_memory": (6, False), "timeout": (8, 0), "multiprocessing_context": (10, None),
           "persistent_workers": (None, False), "prefetch_factor": (None, None)}


class TimeUp(ending.End):
    """The limit of time is near."""


def capture(kind, target, arguments, iterations, gpu=None, *, variables=None, given=None, asked=None,
            programs=None, library=None):
    """Runs the script in this process; returns what Session.result() does, and the facts that it rests on (reads.py; None when
    they are not known). For the sandbox: nothing is put back. `given`: the variables that it would set, `variables`: the
    environment before any of this, `asked`: the cache's question (None: nothing is kept), `programs`: an empty folder for
    programs that stand for those of the machine, `library`: libradcapture.so, or None."""
    witness = None
    if asked is not None:
        witness = reads.Reads(os.environ if variables is None else variables)
        witness.begin()
    before, sys.argv = sys.argv, [target, *arguments]
    from .session import Session
    os.environ.update({**trackers.VARIABLES, **(given or {})})
    session = Session(iterations=iterations, gpu=gpu)
    with session:
        install(session)
        session.silence.library = library
        surround(session, programs)

        def found(ended, code, whole):
            conclude(session, ended, code, whole)
            facts = witness.facts() if witness and whole else None
            return (*session.result(cache.key(asked, facts)), facts)

        def within(run):
            """In a process that the script starts: (its exit code, what it hands in)."""
            limit(session)
            before = session.learnt()
            for of_who_started_it in (session.later.trainings.loops, session.files.made):
                of_who_started_it.clear()
            try:
                ended, code, whole = outcome(session, run)
                if session.learnt() > before:
                    return 0, (found(ended, code, whole), session.world)
                return code or 0, None if code == 0 else ended
            except CaptureError as e:
                return 1, str(e)
        children = Processes(within, limit(session))
        children.install(session.gpu.patch)

        def whole():
            run(kind, target)
            if not session.learnt():
                children.wait()
        try:
            how = outcome(session, whole)
        finally:
            unlimited()
        sys.argv = before
        return (None if session.learnt() else choose(children.handed_in())) or found(*how)


def outcome(session, run):
    """Runs it. (how it ended or None when enough was seen, its exit code, whether nothing cut it short)"""
    error = None
    try:
        run()
        unlimited()
    except BaseException as e:
        error = e
        ending.came()
        unlimited()  # what is left to do may take longer than the limit waits before it comes again
        session.later.broken(e)
    session.files.end()
    session.over = error is None or isinstance(error, SystemExit) and not error.code
    if session.finished and isinstance(error, Exception) and session.recorder.recording:
        session.recorder.note(0, f"what comes behind {session.steps} steps was not seen: {failure(error)}")
    if session.finished or session.late and session.since >= session.iterations:
        if session.late:
            session.stopped(f"no end after {sandbox.clock.over(sandbox.clock.reserve)}")
        return None, None, True  # whatever the script, or a library on its way out, made of Finished
    if session.late:
        return f"time: no end after {sandbox.clock.over(sandbox.clock.reserve)}", None, False
    if isinstance(error, SystemExit) and session.optimizes and not session.steps and session.recorder.values_read \
       and (place := gaveup.place(error)):
        raise CaptureError(f"{place}: the script ended itself before its first optimizer step, by a test of numbers that may have come "
                           "from the GPU, which a capture does not know: what it trains was not seen. Say what it needs "
                           "(rad submit --gpu-mem), or let its first run teach it")
    return end(error) if error else ("the script ended by itself", 0, True)


def end(error):
    """As outcome(), of a script that an error ended, or sys.exit()."""
    if isinstance(error, MemoryError):
        return "memory: the limit was reached", None, False
    if isinstance(error, imports.Stop):
        raise CaptureError(str(error)) from None
    if isinstance(error, CaptureError):
        raise error
    if isinstance(error, SystemExit):
        code = error.code if isinstance(error.code, int) else 0 if error.code is None else 1
        return f"the script ended (exit code {code if not isinstance(error.code, str) else error.code})", code, code == 0
    return failure(error), 1, False


def conclude(session, ended, code, whole):
    """Says what the run was, or raises why it is none."""
    from . import fileformat as ff
    if not session.used() and (ended is None or code is not None):
        what = f"{ended}, and never used a GPU" if ended else "the script trains on the CPU: it never used a GPU"
        if code in (None, 0):
            raise Unused(what + ": there is no GPU memory to claim. Is a device named, as in model.to(\"cuda\")?", code)
        raise Unused(f"{ended}, before its first optimizer step was over", code)
    seen = passes(session)
    begun = session.steps == 0 and not whole and not seen
    if begun and not session.came_back():
        raise CaptureError(f"{ended}, before its first optimizer step was over")
    if session.steps == 0 and not begun:
        session.recorder.note(0, "no training: the script made no optimizer step, and the memory of what it did was captured"
                              if not seen else f"no optimizer: {seen} were captured" if session.taught else
                              f"no training: {seen} without an optimizer were captured")
    session.failed = code not in (None, 0)
    if ended and not whole:
        after = f"{session.steps} steps" if session.steps else seen or ("the forward pass of the first step, with room for its "
                                                                        "optimizer's state")
        session.recorder.note(ff.CUT_SHORT, f"cut short after {after}: {ended}")


def passes(session):
    """What was captured of a script without an optimizer; "": it has one."""
    if session.optimizes:
        return ""
    return f"{session.taught} backward passes" if session.taught else f"{session.passes} forward passes" if session.passes else ""


def surround(session, programs):
    """What the script asks beside PyTorch about the GPU, and other frameworks."""
    from . import attention, degenerate, handmade, readnumbers
    imports.Imports({**finders.after(session), **handmade.after(session), **trackers.after(programs), **session.silence.after(),
                     attention.TRANSFORMERS: attention.ask_masks,
                     "pynvml": nvidia.answer_pynvml(session.gpu, session.recorder), "yaml": readnumbers.teach_yaml,
                     "numpy.linalg": functools.partial(degenerate.trust, session.recorder),
                     "scipy.spatial.transform": functools.partial(degenerate.trust_rotations, session.recorder),
                     "torchmetrics.functional.classification": readnumbers.trust_metrics, "sklearn.metrics": readnumbers.trust_scores,
                     "matplotlib.axes": draw_what_there_is, "safetensors.torch": functools.partial(save_safely, session.files),
                     "torch.utils.tensorboard.writer": draw_no_graph, "tensorboardX.writer": draw_no_graph}).install()
    nvidia.watch_choice(session.gpu, session.recorder)
    ports.install(session.silence.library)
    session.gpu.patch(time, "sleep", session.silence.waits(time.sleep))
    if programs:
        nvidia.put_program(session.gpu, programs)


def save_safely(files, safetensors):
    """Weights have no contents."""
    for name in ("save_file", "save_model"):
        setattr(safetensors, name, files.save(getattr(safetensors, name)))
    safetensors.save = lambda *_, **__: b""


def draw_what_there_is(axes):
    """A curve of all epochs, of which fewer were run, would be an error: nothing is drawn then, and the script goes on."""
    def drawing(real):
        @functools.wraps(real)
        def draw(self, *args, **kwargs):
            try:
                return real(self, *args, **kwargs)
            except ValueError:
                return real(self, [], [])
        return draw
    for name in ("plot", "scatter", "bar", "errorbar"):
        setattr(axes.Axes, name, drawing(getattr(axes.Axes, name)))


def draw_no_graph(writer):
    """A picture of the model is made by TorchScript's tracing."""
    writer.SummaryWriter.add_graph = lambda *_, **__: None


def run(kind, target):
    """What a script draws, as the order of its batches, is the same each time, as long as it does not ask for something else:
    so is what is said of it."""
    import torch
    random.seed(0)
    torch.default_generator.manual_seed(0)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(0)
    if kind == "-m":
        sys.path.insert(0, os.getcwd())
        runpy.run_module(target, run_name="__main__", alter_sys=True)
    else:
        sys.path.insert(0, os.path.dirname(os.path.abspath(target)))
        runpy.run_path(target, run_name="__main__")


def failure(error):
    """The error and the line of the script that led to it; where none of it did, the nearest of somebody else's."""
    from .source import is_own
    own = os.path.dirname(os.path.abspath(__file__))
    frames = [f for f in traceback.extract_tb(error.__traceback__)
              if not f.filename.startswith((own, "<")) and "runpy" not in f.filename and "/torch/" not in f.filename]
    traceback.print_exception(type(error), error, error.__traceback__)
    nearest = next((f for f in reversed(frames) if is_own(f.filename)), frames[-1] if frames else None)
    return f"{type(error).__name__}: {error}" + (f" (at {os.path.basename(nearest.filename)}:{nearest.lineno}: {nearest.line})"
                                                 if nearest else "")


def limit(session):
    """From now on TimeUp comes when the time is nearly over. Returns what raises it."""
    def up(*_):
        session.late = session.late or session.recorder.recording
        ending.bring(TimeUp())
    signal.signal(spent.NOTICE, up)
    return up


def unlimited():
    signal.signal(spent.NOTICE, signal.SIG_IGN)
    signal.setitimer(signal.ITIMER_REAL, 0)


def to_gpu(wanted, storage, location):
    """Whether torch.load(), with that `map_location`, puts something on the GPU that was saved at that location."""
    if isinstance(wanted, dict):
        wanted = wanted.get(location)
    elif callable(wanted):
        try:
            wanted = getattr(wanted(storage, location), "device", None)
        except Exception:  # there is no GPU
            return True
    return str(location if wanted is None else wanted).startswith("cuda")


def brought(value, there, known):
    """What was loaded, with the tensors that are to be there on the GPU. `known`: those that were moved."""
    import torch
    if isinstance(value, torch.nn.Module):
        return value.cuda() if any(p.untyped_storage().data_ptr() in there for p in value.parameters()) else value
    if isinstance(value, torch.Tensor):
        if value.layout is not torch.strided or value.untyped_storage().data_ptr() not in there:
            return value
        if id(value) not in known:
            moved = value.detach().cuda()
            known[id(value)] = value, torch.nn.Parameter(moved, value.requires_grad) if isinstance(value, torch.nn.Parameter) else moved
        return known[id(value)][1]
    if isinstance(value, (dict, list)):
        for at in list(value) if isinstance(value, dict) else range(len(value)):
            value[at] = brought(value[at], there, known)
    elif type(value) is tuple:
        value = tuple(brought(each, there, known) for each in value)
    return value


def install(session):
    """Patches for scripts, on top of the session's."""
    import torch
    import torch.utils.data

    from . import fileformat as ff
    from . import handmade, later, length, loading, weights
    from .gpu import Stream
    patch, recorder = session.gpu.patch, session.recorder
    loader, files = torch.utils.data.DataLoader, weights.Weights(session.used)
    session.files = files
    real_init, real_load, real_stream = loader.__init__, torch.load, Stream.__init__

    @functools.wraps(real_init)  # Lightning makes a loader anew of what its __init__ is seen to take
    def init(self, dataset, *args, **kwargs):
        session.later.makes(sys._getframe(1))
        args = list(args)
        workers = args[4] if len(args) > 4 else kwargs.get("num_workers", 0)
        for name, (at, value) in UNAIDED.items():
            if name in kwargs:
                kwargs[name] = value
            elif at is not None and at < len(args):
                args[at] = value
        real_init(self, dataset, *args, **kwargs)
        session.loading.made(self, workers, sys._getframe(1))

    def streams(self, *args, number=None, **kwargs):
        real_stream(self, *args, number=number, **kwargs)
        if number is None:
            session.later.makes(sys._getframe(1))
            session.later.streams.makes(recorder.records.count, self.number, sys._getframe(1))

    def compiled(model=None, **_):
        recorder.note(ff.COMPILED, "torch.compile: the eager run was captured", None)
        return model if model is not None else lambda f: f

    def load(f, map_location=None, *args, **kwargs):
        there = set()  # addresses of what the script would have on the GPU

        def place(storage, location):
            if to_gpu(map_location, storage, location):
                there.add(storage.data_ptr())
            return storage
        found = files.loaded(f, place)
        return brought(real_load(f, place, *args, **kwargs) if found is None else found, there, {})
    length.install(session, patch)
    loading.install(session.loading, patch)
    later.install(session.later, patch)
    handmade.install(recorder, patch)
    aside.install(patch)
    files.install(patch)
    patch(loader, "__init__", init)
    patch(Stream, "__init__", streams)
    patch(torch, "compile", compiled)
    patch(torch.compiler, "cudagraph_mark_step_begin", lambda: None)  # imports what builds for the CPU have not
    patch(torch.nn.Module, "compile", lambda *_, **__: compiled() and None)
    patch(torch, "load", load)
