# SPDX-License-Identifier: MIT
"""Captures what a training job asks of the GPU's memory, without a GPU.

    from radrm import capture
    capture.trace(setup).save("job.radcap")

`setup()` builds model, optimizer and batch on "cuda" and returns a function that does one training step. It runs on fake
tensors in a process of its own: nothing is computed, no device is visible, time and memory are limited. The file that comes out
is what `rad estimate --capture` and the key `capture:` of a task file read (doc/capture-format.md).
"""
import os
import secrets

from .sandbox import CaptureError, Limits, run

__all__ = ["Capture", "CaptureError", "trace"]


class Capture:
    """What trace() found.

    data        the capture file, bytes
    notes       list of str: what makes it less than the whole story, and where ("train.py:12: data-dependent: ...")
    peak_bytes  most bytes in tensors at one time, as torch.cuda.max_memory_allocated() would say without its rounding
    flags       of the file (radrm.capture.fileformat)
    failed      whether the script ended in an error of its own before as many steps were seen as were to be
    """

    def __init__(self, data, notes, peak_bytes, flags, failed=False):
        self.data, self.notes, self.peak_bytes, self.flags, self.failed = data, notes, peak_bytes, flags, failed

    def save(self, path):
        """Writes the file, whole or not at all. OSError as open() and replace() raise it."""
        path = os.fspath(path)
        # `rad submit` has it in /tmp, where others could lay a link under a name that they can guess.
        temporary = f"{path}.{secrets.token_hex(8)}.tmp"
        try:
            with open(temporary, "xb") as f:
                f.write(self.data)
                f.flush()
                os.fsync(f.fileno())
            os.replace(temporary, path)
        except BaseException:
            if os.path.exists(temporary):
                os.unlink(temporary)
            raise


def trace(setup, iterations=3, *, name="", timeout=300, memory_mib=32768, gpu=None):
    """Captures `iterations` training steps.

    setup       called once, without arguments, in the capturing process; returns the function of one step, without arguments.
                What it closes over is copied into that process; tensors of the caller that are on a real GPU cannot be used
    iterations  1 to 100. Less than 3 gives a file that is read with a doubt: optimizer state comes in the first, the second is
                the steady state, the third confirms it
    name        what the job is called in the file; default: the class of its model
    timeout     seconds of processor time, of all its processes; and seconds in which they only wait
    memory_mib  address space that the capturing process may take
    gpu         dict of name, total_bytes, capability, processors: what torch.cuda tells about the GPU; default: an H200.
                Capability decides which attention kernels are taken

    Returns a Capture. Raises CaptureError with one text that says what went wrong; nothing is left running.
    """
    if not callable(setup):
        raise TypeError("setup must be a function that returns the function of one training step")
    if not 1 <= iterations <= 100:
        raise ValueError("iterations must be 1 to 100")
    return Capture(*run(lambda: _trace(setup, iterations, name, gpu), Limits(timeout, memory_mib)))


def _trace(setup, iterations, name, gpu):
    import traceback

    from .session import Session
    try:
        with Session(gpu=gpu) as session:
            session.header.model = name
            step = setup()
            if not callable(step):
                raise CaptureError("setup() returned no function")
            for _ in range(iterations):
                session.begin_iteration()
                step()
            session.lives.append(session.recorder.held())
            return session.result()
    except CaptureError:
        raise
    except Exception as e:
        raise CaptureError(traceback.format_exc(limit=-6) if e else str(e)) from None
