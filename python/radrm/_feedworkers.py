# SPDX-License-Identifier: MIT
"""What a DataLoader's workers make comes in memory that they share with the process that runs the loader, ready to be copied into the ring.

PyTorch makes shared memory for each tensor of each batch anew, and hands its descriptor over a connection of its own; with batches of
1.2 MB that took longer than copying them. A worker here has one memory, with some places that it uses by turns.

How many: batches are asked of workers by turns, and come in that order. A batch is copied before the next is asked for, and until
then its worker may have been asked for prefetch_factor more. So one more than these are enough, and none is written to while it is read.
"""
import ctypes
import mmap
import os
import sys
from multiprocessing.reduction import DupFd

from ._feedbatch import Form, NoBatch

PAGE = mmap.PAGESIZE


class _Memory:
    """Of one worker, from its own hands."""

    def __init__(self, places, size):
        self.stride = -(-2 * size // PAGE) * PAGE   # only pages that are written to are memory
        self.bytes, self.told = places * self.stride, False
        self.fd = os.memfd_create("radfeed-worker", os.MFD_CLOEXEC)
        os.ftruncate(self.fd, self.bytes)
        self.map = mmap.mmap(self.fd, self.bytes)

    def __del__(self):
        os.close(self.fd)


class _Sent:
    """In place of a batch in the workers' queue, which comes out of it as a Made. With the first there is the memory's descriptor."""

    def __init__(self, worker, memory, at, size):
        self._where, self._memory, self._first, memory.told = (worker, at, size), memory, not memory.told, True

    def __reduce__(self):
        return _made, (*self._where, self._memory.bytes if self._first else 0, DupFd(self._memory.fd) if self._first else None)


_memories = {}      # by worker, in the process that runs the loader


def _made(worker, at, size, whole, fd):
    if fd is not None:
        fd = fd.detach()
        try:
            _memories[worker] = mmap.mmap(fd, whole)    # in place of one that was too small, or of a worker that is no more
        finally:
            os.close(fd)
    return Made(_memories[worker], at, size)


class Made:
    """A batch as a worker laid it out: what a Form is that need only be copied."""

    def __init__(self, memory, at, size):
        self.bytes = size
        self._room = (ctypes.c_char * size).from_buffer(memory, at)

    def fill(self, room):
        ctypes.memmove(room, self._room, self.bytes)


class Collate:
    """In place of a loader's collate_fn."""

    def __init__(self, collate, prefetch):
        self._collate, self._places, self._memory, self._next = _on_heap(collate), prefetch + 1, None, 0

    def __call__(self, samples):
        batch = self._collate(samples)
        info = sys.modules["torch"].utils.data.get_worker_info()
        if info is None:
            return batch
        try:
            form = Form(batch)
        except NoBatch:     # the process that runs the loader says so
            return batch
        if self._memory is None or form.bytes > self._memory.stride:
            self._memory, self._next = _Memory(self._places, form.bytes), 0
        at = self._next * self._memory.stride
        self._next = (self._next + 1) % self._places
        form.fill((ctypes.c_char * form.bytes).from_buffer(self._memory.map, at))
        return _Sent(info.id, self._memory, at, form.bytes)


def _on_heap(collate):
    """PyTorch's own collate puts tensors into new shared memory where it runs in a worker."""
    module = sys.modules["torch"].utils.data._utils.collate
    table = getattr(module, "default_collate_fn_map", {})
    if collate is not module.default_collate or not table:
        return collate
    return _DefaultCollate()


class _DefaultCollate:
    def __call__(self, samples):
        module = sys.modules["torch"].utils.data._utils.collate
        return module.collate(samples, collate_fn_map={**module.default_collate_fn_map, sys.modules["torch"].Tensor: _stack})


def _stack(tensors, *, collate_fn_map=None):
    torch = sys.modules["torch"]
    if tensors[0].is_nested or tensors[0].layout != torch.strided:
        return torch.utils.data._utils.collate.default_collate_fn_map[torch.Tensor](tensors, collate_fn_map=collate_fn_map)
    return torch.stack(tensors, 0)
