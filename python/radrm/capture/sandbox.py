# SPDX-License-Identifier: MIT
"""Runs a capture in a process of its own: no GPU is visible to it, its time and its memory are limited, nothing of it stays.

The code that runs there is the caller's own and has the caller's rights; this is no defence against it, but against its
mistakes: an endless loop, a leak, helpers left behind.
"""
import ctypes
import os
import pickle
import resource
import select
import signal
import sys
import time

from . import spent
from .spent import children

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
MAX_ANSWER = 32 << 20  # bytes


class CaptureError(Exception):
    """The capture failed; the text says what, why and what to do."""


class Unused(CaptureError):
    """The script never used a GPU. `code`: with which it ended by itself; None: it was stopped."""

    def __init__(self, text, code=None):
        super().__init__(text, code)
        self.code = code

    def __str__(self):
        return self.args[0]


class Limits:
    """`seconds`: of processor time, and `clock`: by the clock (spent.py); `memory_mib`: address space beyond what the process has when
    it begins, since builds of PyTorch with CUDA map many GiB that they never touch."""

    def __init__(self, seconds=300, memory_mib=32768, clock=None):
        if seconds <= 0 or memory_mib <= 0 or clock is not None and clock <= 0:
            raise ValueError("limits must be above 0")
        self.seconds, self.memory_mib, self.clock = seconds, memory_mib, clock


KEEP = object()  # as `output` of run(): the child prints where its parent does
clock = None  # spent.Clock, in a child and what it starts


def run(work, limits, output=None):
    """Calls work() in a child process and returns what it returned (it must be picklable). What the child prints goes to the
    file descriptor `output`, or nowhere, or to its parent's (KEEP). Raises CaptureError when it fails, ends early, or reaches a
    limit; then, and in every case, the child and all that it started are gone."""
    global clock
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)  # what the child leaves behind becomes ours, to be ended
    before = set(children(os.getpid()))
    reader, writer = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    ours, shared = clock, spent.Clock(limits.seconds, limits.clock)
    clock = shared
    parent, child = os.getpid(), os.fork()
    if child == 0:
        os.close(reader)
        _child(work, limits, output, writer, parent, libc)
    clock = ours
    os.close(writer)
    try:
        answer = _read(reader, spent.Watch(shared, child, before))
    finally:
        os.close(reader)
        status = _end(child, before)
    return _result(answer, status, shared)


def _child(work, limits, output, writer, parent, libc):
    """Never returns."""
    try:
        os.setsid()
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:
            os._exit(1)
        os.set_inheritable(writer, False)
        not_for_copies(writer)
        null = os.open(os.devnull, os.O_RDWR)
        os.dup2(null, 0)
        for number in (1, 2) if output is not KEEP else ():
            os.dup2(output if output is not None else null, number)
        restrict(limits)
        try:
            answer = (True, work())
        except CaptureError as e:
            answer = (False, e)
        except MemoryError:
            answer = (False, f"memory: more than {limits.memory_mib} MiB: raise the limit (--memory) if the job needs so much "
                             "on the CPU")
        except ModuleNotFoundError as e:
            if e.name != "torch":
                raise
            answer = (False, f"{sys.executable} has no PyTorch: a capture needs the Python that trains: activate its "
                             f"environment, or name it "
                             "(-- /path/to/python train.py)")
        sys.stdout.flush()
        _write(writer, pickle.dumps(answer))
        os._exit(0)
    except BaseException as e:  # noqa: B902  nothing may escape into the caller's code
        try:
            _write(writer, pickle.dumps((False, f"{type(e).__name__}: {e}")))
        finally:
            os._exit(1)


def not_for_copies(fd):
    """Closes it in processes that fork from this one, which may stay for longer: whoever reads waits until nobody has it."""
    left = [fd]

    def close():
        while left:
            os.close(left.pop())
    os.register_at_fork(after_in_child=close)


def restrict(limits):
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    mapped = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
    if "torch" not in sys.modules:
        mapped += 24 << 30  # of a build with CUDA, once imported
    size = mapped + (limits.memory_mib << 20)
    _lower(resource.RLIMIT_AS, size, size)


def _lower(which, soft, hard):
    _, most = resource.getrlimit(which)
    if most != resource.RLIM_INFINITY:
        soft, hard = min(soft, most), min(hard, most)
    resource.setrlimit(which, (soft, hard))


def _write(fd, data):
    while data:
        data = data[os.write(fd, data):]


def _read(fd, watch):
    """All that comes until the other end closes; None where a limit is reached first."""
    data = bytearray()
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    while True:
        if not watch.look():
            return None
        if not poll.poll(spent.LOOK * 1000):
            continue
        part = os.read(fd, 1 << 16)
        if not part:
            return bytes(data)
        data += part
        if len(data) > MAX_ANSWER:
            return bytes(data)


def _end(child, before):
    """Ends the child's group and whatever it left behind, until nothing new is a child of ours. Returns the child's status."""
    status = None
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        left = [pid for pid in children(os.getpid()) if pid not in before]
        if not left:
            break
        for pid in left:
            for kill in (os.killpg, os.kill):
                try:
                    kill(pid, signal.SIGKILL)
                except (ProcessLookupError, PermissionError):
                    pass
        for pid in left:
            try:
                _, ended = os.waitpid(pid, 0)
            except ChildProcessError:
                continue
            if pid == child:
                status = ended
    return status


def _result(answer, status, clock):
    # Told that time is over while C++ calls it, which lets no exception through, a process aborts.
    aborted = status is not None and os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGABRT
    if answer is None or aborted and clock.nearest()[1] <= clock.reserve:
        raise CaptureError(f"time: no end after {clock.over()}: raise the limit (--timeout), or make the script's set-up shorter")
    try:
        good, value = pickle.loads(answer)
    except Exception:
        raise CaptureError(_death(status)) from None
    if not good:
        raise value if isinstance(value, CaptureError) else CaptureError(value)
    return value


def _death(status):
    if status is not None and os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        if number == signal.SIGKILL:
            return f"the process was ended (signal {number}): out of memory on this machine"
        return f"the process died of signal {number} ({signal.Signals(number).name})"
    code = os.WEXITSTATUS(status) if status is not None else "?"
    return f"the script ended (exit code {code}) before its first training step was over"
