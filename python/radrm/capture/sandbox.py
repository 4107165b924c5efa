# SPDX-License-Identifier: MIT
"""Runs a capture in a process of its own: no GPU is visible to it, its time and its memory are limited, nothing of it stays.

    who asks - a guard - the capture - all that this starts

The guard watches the limits, and ends everything when one is reached, when the capture is over, and when it or who asked is gone, by
whatever signal. What left its parent is the guard's (a subreaper's), in whatever session; were the guard killed, it is who asked's.

The code that runs there is the caller's own and has the caller's rights; this is no defence against it, but against its
mistakes: an endless loop, a leak, helpers left behind.
"""
import ctypes
import os
import pickle
import resource
import signal
import struct
import sys
import time

from . import spent
from .spent import children

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
ENDINGS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)  # end it, and all that it started
MAX_ANSWER = 32 << 20  # bytes
STATUS, LATE, KILLED = struct.Struct("i"), -1, int(signal.SIGKILL)  # as waitpid() has it; a limit was reached


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


KEEP = object()  # as `output` of run(): the child prints where its parent does, and reads where that does
clock = None  # spent.Clock, in a child and what it starts


def run(work, limits, output=None, aside=None):
    """Calls work() in a child process and returns what it returned (it must be picklable). What the child prints goes to the
    file descriptor `output`, or nowhere, or to its parent's (KEEP). `aside`: an aside.Aside for what it does to files; None: it does
    that for real. Raises CaptureError when it fails, ends early, or reaches a
    limit; then, and in every case, the child and all that it started are gone."""
    global clock
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    before = set(children(os.getpid()))
    reader, writer = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    ours, shared = clock, spent.Clock(limits.seconds, limits.clock)
    clock = shared
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, (*ENDINGS, signal.SIGCHLD))
    parent, guard = os.getpid(), os.fork()
    if guard == 0:
        os.close(reader)
        _guard(lambda of: _child(work, limits, output, aside, writer, of, libc, mask), writer, parent, libc)
    try:
        clock = ours
        os.close(writer)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        answer = _read(reader)
    finally:
        os.close(reader)
        _end(guard, before)
    return _result(answer, shared)


def _guard(begin, writer, parent, libc):
    """Never returns. Behind what the capture writes it writes a status: of the capture, or LATE."""
    status = KILLED
    try:
        os.setsid()
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
        if os.getppid() != parent:
            os._exit(1)
        mine, child = os.getpid(), os.fork()
        if child == 0:
            begin(mine)
        watch = spent.Watch(clock, child)
        while in_time := watch.look():
            came = signal.sigtimedwait((*ENDINGS, signal.SIGCHLD), spent.LOOK)
            if came and (came.si_signo != signal.SIGCHLD or _is_over(child)):
                break
        ended = _end(child)
        status = LATE if not in_time else KILLED if ended is None else ended
    except BaseException as e:  # noqa: B902  nothing may escape into the caller's code
        _write(writer, pickle.dumps((False, f"{type(e).__name__}: {e}")))
    finally:
        try:
            _write(writer, STATUS.pack(status))
        finally:
            os._exit(0)


def _is_over(child):
    """Whether it has ended; it is still to be waited for."""
    return os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _child(work, limits, output, aside, writer, parent, libc, mask):
    """Never returns."""
    try:
        os.setsid()
        for number in ENDINGS:
            if signal.getsignal(number) != signal.SIG_IGN:
                signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:
            os._exit(1)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        os.set_inheritable(writer, False)
        not_for_copies(writer)
        try:
            if aside:
                aside.enter()
            null = os.open(os.devnull, os.O_RDWR)
            for number in (0, 1, 2) if output is not KEEP else ():
                os.dup2(null if number == 0 or output is None else output, number)
            restrict(limits)
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


def _read(fd):
    """All that comes until the other end closes."""
    data = bytearray()
    while len(data) <= MAX_ANSWER:
        part = os.read(fd, 1 << 16)
        if not part:
            break
        data += part
    return bytes(data)


def _end(child, before=()):
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


def _result(said, clock):
    answer, status = said[:-STATUS.size], STATUS.unpack(said[-STATUS.size:])[0] if len(said) >= STATUS.size else KILLED
    # Told that time is over while C++ calls it, which lets no exception through, a process aborts.
    aborted = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGABRT
    if status == LATE or aborted and clock.nearest()[1] <= clock.reserve:
        raise CaptureError(f"time: no end after {clock.over()}: raise the limit (--timeout), or make the script's set-up shorter")
    try:
        good, value = pickle.loads(answer)
    except Exception:
        raise CaptureError(_death(status)) from None
    if not good:
        raise value if isinstance(value, CaptureError) else CaptureError(value)
    return value


def _death(status):
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        if number == signal.SIGKILL:
            return f"the process was ended (signal {number}): out of memory on this machine"
        return f"the process died of signal {number} ({signal.Signals(number).name})"
    return f"the script ended (exit code {os.WEXITSTATUS(status)}) before its first training step was over"
