# SPDX-License-Identifier: MIT
"""A place on a GPU for a Python that runs already: a notebook, an interpreter, a script that was not started by RAD-RM.

    import radrm
    radrm.lease("10G")          # waits for its turn; before CUDA is initialised
    import torch

The lease belongs to this process: radd watches it, counts its GPU memory, and shows it in `rad queue`. It ends with the process, at
the end of a `with`, or by release(). What decides and waits is the command `rad lease`, so that there is one client of radd.
"""
import atexit
import json
import os
import subprocess
import sys

from . import _rad

__all__ = ["Lease", "LeaseError", "lease"]


class LeaseError(_rad.RadError):
    """Why there is no lease, in one line."""


class Lease:
    """A place that this process has. `id` is its task; None where the process is a task's already, which has a place of its own."""

    def __init__(self, rad, task, environ):
        self.id = task
        self.environ = dict(environ)
        self._rad, self._pid = rad, os.getpid()
        self._before = {}
        if task is not None:
            self._before = {name: os.environ.get(name) for name in self.environ}
            os.environ.update(self.environ)
            atexit.register(self.release)

    def release(self):
        """Gives it back. Memory that this process still holds on the GPU is counted as foreign from then on."""
        task, self.id = self.id, None
        if task is None or os.getpid() != self._pid:    # a fork has its parent's lease, and does not end it
            return
        atexit.unregister(self.release)
        for name, value in self._before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
        subprocess.run([self._rad, "lease", "--give-back", task], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL, check=False)

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.release()
        return False

    def __repr__(self):
        where = self.environ.get("CUDA_VISIBLE_DEVICES", "?")
        whose = self.id or ("given back" if self._rad else "of task " + self.environ["RAD_TASK_ID"])
        return f"<radrm.Lease {whose}: GPU {where}>"


def _find_rad():
    try:
        return _rad.find()
    except _rad.RadError as error:
        raise LeaseError(str(error)) from None


def _refuse_if_too_late():
    cuda = getattr(sys.modules.get("torch"), "cuda", None)
    if cuda is not None and cuda.is_initialized():
        raise LeaseError("CUDA is initialised in this process already, and keeps the GPU that it has: call radrm.lease() before anything "
                         "is put on a GPU; a process that holds one becomes a task by `rad adopt %d`" % os.getpid())


def _command(rad, gpu_mem, gpus, hours, exclusive, share, name):
    given = {"pid": os.getpid(), "gpus": gpus, "gpu_mem": gpu_mem, "for": None if hours is None else "%ds" % max(1, round(hours * 3600)),
             "exclusive": bool(exclusive), "share": share, "name": name}
    return [rad, "lease", "--json", *_rad.options(given)]


def _wait(words):
    """What `rad lease` says of the wait goes to sys.stderr, which a notebook shows."""
    child = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                             errors="replace", start_new_session=True)
    last = ""
    try:
        for line in child.stderr:
            if last:
                print(last, file=sys.stderr, flush=True)
            last = line.rstrip("\n")
        out = child.stdout.read()
        code = child.wait()
    except BaseException:       # an interrupt: nobody waits any more
        child.terminate()
        child.wait()
        raise
    finally:
        child.stdout.close()
        child.stderr.close()
    if code:
        raise LeaseError(last.removeprefix("rad: ") or "rad lease: exit %d" % code)
    if last:
        print(last, file=sys.stderr, flush=True)
    return json.loads(out)


def lease(gpu_mem=None, gpus=1, hours=None, *, exclusive=False, share=None, name=None):
    """Waits until this process has `gpus` GPUs with `gpu_mem` ("10G") on each, for `hours` at most, and sets the variables by which CUDA
    is told of them. Without gpu_mem it is placed as a task of which nothing is known."""
    _refuse_if_too_late()
    if os.environ.get("RAD_TASK_ID") and os.environ.get("RAD_GPU_UUIDS"):
        print("radrm: this process is task %s's, which has its place" % os.environ["RAD_TASK_ID"], file=sys.stderr)
        return Lease(None, None, os.environ)
    rad = _find_rad()
    place = _wait(_command(rad, gpu_mem, gpus, hours, exclusive, share, name))
    return Lease(rad, place["id"], place["environ"])
