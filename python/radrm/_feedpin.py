# SPDX-License-Identifier: MIT
"""Batches copied to a GPU, each while the task works on the one before.

The memory that all tasks share is registered with the driver once for each ring, so that the GPU reads it in place. The copy is
made here and not by the task, because a slot may be written again as soon as the copy is done and not before: who copies has to know when.
The mapping that the task writes to is a private one, and registering that would copy it (decision 142).
"""
import collections
import ctypes
import math
import os
import time
import warnings

from . import _feedlib
from ._feedbatch import read
from ._feedcuda import Driver, Refused
from ._feedstage import Gone, Stage

PROT_READ, PROT_WRITE = 1, 2
# Who was refused a shared copy on the GPU asks again: after AGAIN_S or so often what asking took, twice that the next time, and so on.
AGAIN_S, AGAIN_TIMES, AGAIN_MAX_S, REFUSALS_MAX = 10, 20, 600, 8


def _protect(begin, size, how):
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mprotect(ctypes.c_void_p(begin), ctypes.c_size_t(size), how):
        raise Refused("its ring may not be pinned (a group's, or made by a task that did not ask for it): "
                      + os.strerror(ctypes.get_errno()))


class Gpu:
    """Copies beside the stream that the task works on."""

    def __init__(self, device):
        import torch
        self._torch, self._device = torch, torch.device(device)
        if self._device.type != "cuda":
            raise ValueError(f"device={device!r}: a GPU is wanted (\"cuda\", \"cuda:1\"); without device= batches are in the host's memory")
        self._stream = torch.cuda.Stream(self._device)
        self.index = self._stream.device.index

    def begin(self, tensor):
        with self._torch.cuda.stream(self._stream):
            return tensor.to(self._stream.device, non_blocking=True, copy=True)

    def at(self, place, size):
        """That memory of the GPU, as bytes."""
        class Memory:
            __cuda_array_interface__ = {"shape": (size,), "typestr": "|u1", "data": (place, False), "version": 3, "strides": None}
        return self._torch.as_tensor(Memory(), device=self._stream.device)

    def fill(self, there, here):
        """Returns when it is done: other processes may read it then, and no work of this one's is to be found there later."""
        with self._torch.cuda.stream(self._stream):
            there.copy_(here, non_blocking=True)
        event = self._torch.cuda.Event(blocking=True)
        event.record(self._stream)
        event.synchronize()

    def mark(self):
        """Something to wait for (.synchronize()): all copies that were begun so far."""
        event = self._torch.cuda.Event()
        event.record(self._stream)
        return event

    def use(self, event, tensors):
        """What the task does from here on comes after the copies, and its tensors are not given away before that is done."""
        current = self._torch.cuda.current_stream(self._stream.device)
        current.wait_event(event)
        for tensor in tensors:
            tensor.record_stream(current)


class Copier:
    def __init__(self, lib, reader, name, gpu, driver, pin, share):
        """`pin`: whether the host's memory is to be registered; `share`: whether one copy on the GPU is to serve all tasks there."""
        self._lib, self._reader, self._name, self._gpu, self._driver = lib, reader, name, gpu, driver
        self._pins, self._shares, self._wants_shared = pin, share, share    # until refused (_share); what was asked for
        self._ring = self._pinned = self._stage = None
        self._refusals, self._ask_at = 0, 0.0   # of shared copies, one after the other; by time.monotonic()
        self.counts = collections.Counter()     # of batches, by how they came (_feedstage.py)
        self._held = collections.deque()    # (event, item): slots from which a copy may still be read

    def batches(self, items):
        ahead = None
        for item in items:
            now = self._begin(item)
            if ahead:
                yield self._ready(ahead)
            ahead = now
        if ahead:
            yield self._ready(ahead)

    def close(self):
        self._leave_ring()

    def _ready(self, copied):
        batch, event, tensors = copied
        self._gpu.use(event, tensors)
        return batch

    def _begin(self, item):
        place, tensors = self._place(item), []
        self._share(item)
        try:
            room = (ctypes.c_char * item.bytes).from_address(place)
            there = self._stage.place(item, room) if self._stage else None
            if there is None and self._wants_shared:
                self.counts["alone"] += 1
            batch = self._copy(read(room), tensors, place, there)
        finally:    # where a copy fails, for want of memory say, those before it may still come, and the slot is held no longer than they
            event = self._gpu.mark()
            self._hold(event, item)
        return batch, event, tensors

    def pass_over(self, item):
        self._place(item)
        self._hold(self._gpu.mark(), item)

    def _place(self, item):
        slots, size = ctypes.c_void_p(), ctypes.c_uint64()
        place = self._lib.feed_item_shared(ctypes.byref(item), ctypes.byref(slots), ctypes.byref(size))
        if item.ring != self._ring:
            self._leave_ring()
            self._ring = item.ring
            self._pin(slots.value, size.value)
            self._ask_at = 0.0      # of whoever writes this one
        return place

    def _hold(self, event, item):
        """In place of the one before, which was held until here so that its ring is there for as long as it is registered."""
        self._release()
        self._held.append((event, item))

    def _copy(self, value, tensors, place, there):
        """`there`: the whole item on the GPU, if it is there; `place`: where it is here."""
        if hasattr(value, "is_pinned"):
            source = value
            if there is not None and value.nbytes:
                at = value.data_ptr() - place
                source = there[at:at + value.nbytes].view(value.dtype).reshape(value.shape)
            tensors.append(self._gpu.begin(source))
            return tensors[-1]
        if type(value).__module__ == "numpy":
            return value.copy()
        if isinstance(value, dict):
            return {key: self._copy(each, tensors, place, there) for key, each in value.items()}
        if isinstance(value, (list, tuple)):
            values = [self._copy(each, tensors, place, there) for each in value]
            return type(value)(*values) if hasattr(value, "_fields") else type(value)(values)
        return value

    def _release(self):
        while self._held:
            event, item = self._held.popleft()
            event.synchronize()
            self._lib.feed_reader_release(self._reader, item.ring, item.slot)

    def _pin(self, begin, size):
        if not self._pins:
            return
        try:
            _protect(begin, size, PROT_READ | PROT_WRITE)
            try:
                self._driver.register(begin, size)
            finally:    # the pages are taken; this task is to write there as little as any
                _protect(begin, size, PROT_READ)
            self._pinned = begin
        except Refused as why:
            self._pins = False
            warnings.warn(f"feed {self._name}: its memory is not pinned, so each copy to the GPU takes the CPU's time: {why}",
                          RuntimeWarning,
                          stacklevel=2)

    def _share(self, item):
        if self._stage or not self._shares or time.monotonic() < self._ask_at:
            return
        began = time.monotonic()
        try:
            self._stage = Stage(self._lib, self._reader, item, self._gpu, self._driver, self.counts)
            self._refusals = 0
        except Refused as why:
            now = time.monotonic()
            self._ask_at = now + min(AGAIN_MAX_S, max(AGAIN_S, AGAIN_TIMES * (now - began)) * 2 ** self._refusals)
            self._refusals += 1
            self._shares = self._refusals < REFUSALS_MAX
            if self._refusals == 1:
                warnings.warn(f"feed {self._name}: batches on the GPU are not shared, each task copies them for itself, and "
                              f"asks again from "
                              f"time to time: {why}", RuntimeWarning, stacklevel=2)
        except Gone:    # the rest of its ring is copied by each, and the next ring is asked for again
            self._ask_at = math.inf

    def _leave_ring(self):
        """Before its last item is released: then the memory is no more."""
        for event, _ in self._held:
            event.synchronize()
        if self._stage:
            self._stage.close()
            self._stage = None
        if self._pinned is not None:
            try:
                self._driver.unregister(self._pinned)
            except Refused as why:
                self._pins = False
                warnings.warn(f"feed {self._name}: pinned memory was not given back: {why}", RuntimeWarning, stacklevel=2)
            self._pinned = None
        self._release()
        self._ring = None


def copier(lib, reader, name, device, pin, share=False):
    try:
        gpu = Gpu(device)
    except (RuntimeError, AssertionError, ImportError) as error:    # no PyTorch, or one without CUDA, or no such GPU
        raise _feedlib.FeedError(f"feed {name}: device={device!r}: {error}") from None
    return Copier(lib, reader, name, gpu, Driver(gpu.index), pin, share)
