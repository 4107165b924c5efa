# SPDX-License-Identifier: MIT
"""concurrent.futures on the GPUs of a server: calls become tasks of radd.

    from radrm.futures import RadExecutor

    with RadExecutor(gpu_mem="10G", time="2h") as executor:
        futures = [executor.submit(train, lr=lr) for lr in (0.1, 0.01)]
        scores = list(executor.map(evaluate, range(100), at_once=8))        # an array

Keywords are options of `rad submit` (gpus, gpu_mem, exclusive, share, time, name, slot, ...). What runs where and when is radd's to
decide; a call that runs out of GPU memory is run again by it before anybody here is told. Calls and results are pickled into
`folder` (with cloudpickle where it is installed, else the function must have a name in a file), so they outlive this process: a later one
gets them by RadExecutor(folder).resume().
"""
import concurrent.futures
import contextlib
import fcntl
import glob
import json
import multiprocessing.spawn
import os
import pickle
import shutil
import sys
import threading
import time
import uuid

from . import _rad
from ._rad import RadError
from ._worker import dumps, write

__all__ = ["RadError", "RadExecutor", "RadFuture", "TaskFailed"]

_LARGEST_ARRAY = 10000
_LOOK_S = 0.2       # between looks for results
_ASK_S = 1.0        # between questions to radd, or longer where an answer takes long
_FORGOTTEN = {"state": "LOST", "attempts": [{"evidence": "radd knows it no more (rad purge)"}]}


@contextlib.contextmanager
def _submitting(folder):
    """For one at a time, whatever process; but where the file system has no locks."""
    with open(os.path.join(folder, "setup.json"), "r+b") as f:
        with contextlib.suppress(OSError):
            fcntl.flock(f, fcntl.LOCK_EX)
        yield f.fileno()


def _check_own(path, found):
    """What lies there is run, and read by pickle, as whoever asks for it."""
    if found.st_uid != os.geteuid():
        raise RadError("%s: is another user's, who could have code run as you: name a folder of your own" % path)
    if found.st_mode & 0o022:
        raise RadError("%s: others may write there, and could have code run as you: chmod -R go-w it" % path)


def _check_calls(folder):
    """And what was put there when others might still write in it, which stays theirs."""
    _check_own(folder, os.stat(folder))
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.endswith((".pkl", ".json")):
                _check_own(entry.path, entry.stat(follow_symlinks=False))


class TaskFailed(RuntimeError):
    """The task ended without a result, and not by an exception of the call. `state` is radd's word, `log` the end of what it printed."""

    def __init__(self, task, state, why, log):
        super().__init__("task %s: %s%s%s" % (task, state, ": " + why if why else "", "\n" + log if log else ""))
        self.task, self.state, self.log = task, state, log

    def __reduce__(self):
        return RuntimeError, self.args


class _RemoteTraceback(Exception):
    def __init__(self, text):
        super().__init__(text)
        self.text = text

    def __str__(self):
        return "\n" + self.text


class RadFuture(concurrent.futures.Future):
    """A call that is a task. `task` is its id."""

    def __init__(self, task, folder, index):
        super().__init__()
        self.task, self.folder, self.index = task, folder, index

    def _path(self, kind):
        return os.path.join(self.folder, "%s-%d.pkl" % (kind, self.index))

    def log(self):
        """What it printed so far."""
        try:
            with open(os.path.join(self.folder, "log-%d.out" % self.index), errors="replace") as f:
                return f.read()
        except FileNotFoundError:
            return ""

    def call(self):
        """The function, its arguments and its keywords."""
        with open(self._path("call"), "rb") as f:
            return pickle.load(f)

    def cancel(self):
        """As everywhere: what runs already is not cancelled, and False returned; see kill()."""
        if self.done():
            return self.cancelled()
        if os.path.exists(self._path("result")) or not self._cancel_waiting():
            return False
        if super().cancel():
            self._notify()
        return self.cancelled()

    def _cancel_waiting(self):
        """radd decides whether it waits still: it may start in this moment."""
        try:
            return json.loads(_rad.call(["cancel", "--json", "--state=PD,H", self.task]))["changed"]
        except _rad.RadError:
            if _rad.tasks([self.task]).get(self.task, _FORGOTTEN)["state"] in ("PENDING", "HELD"):
                raise
            return 0

    def kill(self):
        """Ends it, whether it runs or not; result() raises CancelledError then."""
        if not self.done():
            _rad.call(["cancel", self.task])

    def _notify(self):
        """Whoever waits for it is told that it runs, or is cancelled."""
        try:
            self.set_running_or_notify_cancel()
        except RuntimeError:
            pass    # by another thread, in this moment

    def _start(self):
        if not self.running() and not self.done():
            self._notify()

    def _settle(self, value, error):
        try:
            self._start()
            self.set_exception(error) if error else self.set_result(value)
        except concurrent.futures.InvalidStateError:
            pass    # cancelled in this moment

    def _take_result(self):
        try:
            with open(self._path("result"), "rb") as f:
                value = pickle.load(f)
        except Exception as error:
            self._settle(None, error)
        else:
            self._settle(value, None)

    def _take_end(self, task):
        """It has ended by radd's word, and left no result."""
        attempts = task.get("attempts") or [{}]
        try:
            with open(self._path("error"), "rb") as f:
                error, trace = pickle.load(f)
        except Exception:
            error = trace = None
        if task["state"] == "CANCELLED":
            error = concurrent.futures.CancelledError("task %s was cancelled" % self.task)
        elif error is None or task["state"] in ("TIMEOUT", "LOST"):
            try:
                log = "\n".join(self.log().splitlines()[-20:])
            except OSError as unread:
                log = "(its log: %s)" % unread
            error = TaskFailed(self.task, task["state"], attempts[-1].get("evidence") or "", log)
        else:
            error.__cause__ = _RemoteTraceback(trace)
        self._settle(None, error)


def _names_in(folder):
    try:
        return set(os.listdir(folder))
    except OSError:     # a file system that does not answer just now
        return set()


class _Watcher(threading.Thread):
    """Sees to futures until all are done. A daemon: the end of this process ends no task."""

    def __init__(self):
        super().__init__(name="radrm.futures", daemon=True)
        self._change = threading.Condition()
        self._open = []
        self._said = False

    def add(self, futures):
        with self._change:
            self._open += futures
            if not self.is_alive():
                self.start()
            self._change.notify()

    def run(self):
        ask_at = 0.0
        while True:
            with self._change:
                while not self._open:
                    self._change.wait()
                now = list(self._open)
            self._take_results(now)
            if time.monotonic() >= ask_at:
                began = time.monotonic()
                self._ask([f for f in now if not f.done()])
                ask_at = time.monotonic() + max(_ASK_S, 10 * (time.monotonic() - began))
            with self._change:
                self._open = [f for f in self._open if not f.done()]
                if self._open:
                    self._change.wait(_LOOK_S)

    @staticmethod
    def _take_results(futures):
        folders = {}
        for future in futures:
            if future.folder not in folders:
                folders[future.folder] = _names_in(future.folder)
            if not future.done() and "result-%d.pkl" % future.index in folders[future.folder]:
                future._take_result()

    def _ask(self, futures):
        try:
            found = _rad.tasks(list({f.task.partition("_")[0] for f in futures}))
            self._said = False
        except (RadError, ValueError) as error:
            if not self._said:   # radd is being restarted, say
                print("radrm: %s: asking again; what runs goes on" % error, file=sys.stderr, flush=True)
            self._said = True
            return
        for future in futures:
            task = found.get(future.task, _FORGOTTEN)
            if future.done():
                continue
            if task["state"] == "RUNNING":
                future._start()
            elif _rad.is_over(task["state"]):
                if os.path.exists(future._path("result")):      # written since the look before
                    future._take_result()
                else:
                    future._take_end(task)


def _dumps_call(call):
    try:
        return dumps(call)
    except (pickle.PicklingError, AttributeError) as error:
        if sys.modules.get("cloudpickle"):
            raise
        raise pickle.PicklingError("%s: a lambda, or a function within another, needs cloudpickle: pip install cloudpickle"
                                   % error) from error


def _main_of(data):
    """How a task finds what a call names of __main__, as a process of multiprocessing does; None: it names nothing, or by value."""
    if b"__main__" not in data or sys.modules.get("cloudpickle"):
        return None
    said = multiprocessing.spawn.get_preparation_data("task")
    main = {key: said[key] for key in ("init_main_from_name", "init_main_from_path", "sys_argv") if key in said}
    if len(main) < 2 or not os.path.exists(main.get("init_main_from_path", "/")):
        raise ValueError("a call of what is in no file, such as a notebook's function, needs cloudpickle: pip install cloudpickle")
    return main


def _run_chunk(function, calls):
    return [function(*args) for args in calls]


class RadExecutor(concurrent.futures.Executor):
    """Calls as tasks of radd. Keywords: options of `rad submit`, for all of its calls. `python` runs them, this one by default."""

    def __init__(self, folder="rad-futures", *, python=None, **options):
        self._folder, self._python = os.path.abspath(folder), python or sys.executable
        self._options = _rad.options(options)
        self._watcher, self._futures = _Watcher(), []
        self._lock, self._closed = threading.Lock(), False
        _rad.find()

    def submit(self, fn, /, *args, **kwargs):
        return self._start([(fn, args, kwargs)], None)[0]

    def map_futures(self, fn, *iterables, at_once=None):
        """A future for each call, as tasks of one array, at most `at_once` at a time."""
        calls = [(fn, args, {}) for args in zip(*iterables)]
        futures = []
        for at in range(0, len(calls), _LARGEST_ARRAY):
            futures += self._start(calls[at:at + _LARGEST_ARRAY], at_once or 0)
        return futures

    def map(self, fn, *iterables, timeout=None, chunksize=1, at_once=None):
        """As everywhere, by an array: `chunksize` calls a task, at most `at_once` tasks at a time."""
        end = None if timeout is None else time.monotonic() + timeout
        calls = list(zip(*iterables))
        chunks = [calls[at:at + chunksize] for at in range(0, len(calls), chunksize)]
        futures = self.map_futures(_run_chunk, [fn] * len(chunks), chunks, at_once=at_once)

        def results():
            try:
                for future in futures:
                    yield from future.result(None if end is None else end - time.monotonic())
            finally:
                for future in futures:
                    if not future.done():
                        future.cancel()
        return results()

    def resume(self):
        """Futures of all calls in the folder, oldest first: those of a process that is gone, of others that are still there,
        and one's own."""
        futures = []
        for setup in sorted(glob.glob(os.path.join(glob.escape(self._folder), "*[!t]", "setup.json"))):     # not .part
            folder = os.path.dirname(setup)
            try:
                _check_own(self._folder, os.stat(self._folder))
                _check_calls(folder)
                with open(setup) as f:
                    said = json.load(f)
                job = self._noted(folder) or self._queue_once(folder, said["words"])
            except FileNotFoundError:
                if os.path.exists(setup):
                    raise
                continue    # refused meanwhile, and forgotten
            futures += self._futures_of(folder, job, said["n"], said["array"])
        with self._lock:
            self._futures += futures
        self._watcher.add(futures)
        return futures

    def shutdown(self, wait=True, *, cancel_futures=False):
        with self._lock:
            self._closed = True
            futures, self._futures = self._futures, []
        if cancel_futures:
            for future in futures:
                future.cancel()
        if wait:
            concurrent.futures.wait(futures)

    # From a call to a task: the folder is written whole, then submitted, then the id noted. A process that is killed between leaves a
    # folder without an id, whose task, if there is one, is found by its log or its command (long ones are cut). Until the id is noted
    # the folder is locked, by `rad submit` too, which goes on where this process is killed.

    def _start(self, calls, at_once):
        with self._lock:
            if self._closed:
                raise RuntimeError("cannot schedule new futures after shutdown")
        if getattr(sys.modules["__main__"], "loading_main", False):
            raise RuntimeError("a task reads the script that made it, and would make tasks of its own: calls belong under "
                               "if __name__ == \"__main__\":")
        if not calls:
            return []
        now = time.time_ns()
        when = "%s.%09d" % (time.strftime("%Y%m%dT%H%M%S", time.localtime(now // 10 ** 9)), now % 10 ** 9)
        folder = os.path.join(self._folder, "%s-%s" % (when, uuid.uuid4().hex[:12]))
        os.makedirs(self._folder, 0o755, exist_ok=True)
        _check_own(self._folder, os.stat(self._folder))
        os.mkdir(folder + ".part", 0o755)
        try:
            main = None
            for i, call in enumerate(calls):
                data = _dumps_call(call)
                main = main or _main_of(data)
                write(os.path.join(folder + ".part", "call-%d.pkl" % i), data)
        except BaseException:   # nobody would remove it
            shutil.rmtree(folder + ".part", ignore_errors=True)
            raise
        function = calls[0][1][0] if calls[0][0] is _run_chunk else calls[0][0]
        words = self._words(function, folder, len(calls), at_once)
        setup = {"path": [os.path.abspath(p) for p in sys.path], "words": words, "n": len(calls), "array": at_once is not None,
                 "main": main}
        write(os.path.join(folder + ".part", "setup.json"), json.dumps(setup).encode())
        with _submitting(folder + ".part") as lock:
            os.rename(folder + ".part", folder)
            try:
                job = self._queue(folder, words, lock)
            except RadError:
                self._forget(folder)
                raise
        futures = self._futures_of(folder, job, len(calls), at_once is not None)
        with self._lock:
            self._futures += futures
        self._watcher.add(futures)
        return futures

    def _words(self, function, folder, n, at_once):
        words = ["--output=" + os.path.join(_rad.literal(folder), "log-%a.out" if at_once is not None else "log-0.out")]
        if not any(option.startswith("--name=") for option in self._options):
            words.append("--name=" + getattr(function, "__name__", type(function).__name__).strip("<>"))
        if at_once is not None:
            words.append("--array=0-%d%s" % (n - 1, "%%%d" % at_once if at_once else ""))
        worker = os.path.join(os.path.dirname(os.path.abspath(__file__)), "_worker.py")
        return [*words, *self._options, "--", self._python, worker, folder]

    @staticmethod
    def _queue(folder, words, lock):
        job = _rad.call(["submit", "--parsable", *words], [lock]).strip()
        write(os.path.join(folder, "job"), job.encode())
        return job

    def _forget(self, folder):
        """What was refused is no call that resume() finds; unless there is a task of it all the same, or nobody can say."""
        try:
            if self._found(folder) is None:
                shutil.rmtree(folder, ignore_errors=True)
        except (RadError, ValueError):
            pass

    def _queue_once(self, folder, words):
        with _submitting(folder) as lock:
            os.stat(os.path.join(folder, "setup.json"))     # who had the lock before may have forgotten it
            return self._noted(folder) or self._found(folder) or self._queue(folder, words, lock)

    @staticmethod
    def _noted(folder):
        try:
            with open(os.path.join(folder, "job")) as f:
                return f.read()
        except FileNotFoundError:
            return None

    @staticmethod
    def _found(folder):
        name = os.path.basename(folder)
        age = time.time() - os.stat(os.path.join(folder, "setup.json")).st_mtime
        for words in (["queue", "--json"], ["acct", "--json", "--since", "%dd" % max(7, age // 86400 + 2)]):
            for task in json.loads(_rad.call(words))["tasks"]:
                command = (task.get("command") or "").rstrip("'")
                if name == os.path.basename(os.path.dirname(task.get("log_path") or "")) or command.endswith(name):
                    return task["id"].partition("_")[0]
        return None

    @staticmethod
    def _futures_of(folder, job, n, array):
        return [RadFuture("%s_%d" % (job, i) if array else job, folder, i) for i in range(n)]
