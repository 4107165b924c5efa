# SPDX-License-Identifier: MIT
"""One copy of each batch on a GPU, for all tasks there: whoever needs a batch first copies it, the others find it.

Each slot of the ring has a place in memory of the GPU that all tasks there have mapped; src/feed/copies.h says who copies what, and when
a copy may be read. From there each task takes what is its own, on the GPU. Nobody depends on another: where a copy does not come, a task
makes its own from the host's memory, as it would without this.
"""
import ctypes
import os
import time

from . import _feedlib
from ._feedcuda import Refused

ASK_MS = 5000           # for the process that runs the loader to answer, which may be in the middle of a batch
SOON_S = 0.5            # for another task's copy, which takes milliseconds; then it is stopped, or the GPU is very full
PAUSE_S = 0.0002
OTHERS_S = 1            # for what another task is making to be there, where this one was refused it
ALIGN = 512             # of places, as the driver's own


class Gone(Exception):
    """The ring's writer is no more: there is nothing to share in what it left."""


class Stage:
    def __init__(self, lib, reader, item, gpu, driver, counts):
        """For the ring of that item. Into `counts`: batches that this task "made" for all there, and that it "found" there."""
        self._lib, self._gpu, self._driver, self._counts = lib, gpu, driver, counts
        self._copies, fd = self._meet(reader, item, driver.uuid())
        try:
            stride, size = ctypes.c_uint64(), ctypes.c_uint64()
            lib.feed_copies_size(self._copies, ctypes.byref(stride), ctypes.byref(size))
            self._stride, self._size = stride.value, size.value
            self._place = driver.map(fd, self._size)
        except Refused:
            lib.feed_copies_close(self._copies)
            raise
        finally:
            os.close(fd)
        try:
            self._there = gpu.at(self._place, self._size)
        except Exception as error:  # PyTorch does not take it for the GPU's
            self.close()
            raise Refused(f"PyTorch: {error}") from None

    def _ask(self, reader, item, key, offer=None):
        copies, memory, error = ctypes.c_void_p(), ctypes.c_int(-1), _feedlib.Error()
        rc = self._lib.feed_reader_copies(reader, ctypes.byref(item), key.encode(), ASK_MS, offer, ctypes.byref(copies),
                                          ctypes.byref(memory), ctypes.byref(error))
        if rc < 0:
            raise (Gone if error.code == _feedlib.NOT_FOUND else Refused)(str(error))
        return rc, copies.value, memory.value

    def _meet(self, reader, item, key):
        """What others have made, or else what this task makes: the copies, and the memory's descriptor."""
        rc, copies, memory = self._ask(reader, item, key)
        self.created = False        # whether the memory is of this task's making
        if rc:
            return copies, memory
        slots, size = ctypes.c_void_p(), ctypes.c_uint64()
        self._lib.feed_item_shared(ctypes.byref(item), ctypes.byref(slots), ctypes.byref(size))
        count = self._lib.feed_item_slots(ctypes.byref(item))
        # A slot has twice the first batch as a rule, and this item may be the small one at an epoch's end.
        stride = -(-max(item.bytes, size.value // count // 2) // ALIGN) * ALIGN
        try:
            fd, whole = self._driver.create(count * stride)
        except Refused as why:
            return self._made_by_another(reader, item, key, why)
        try:
            rc, copies, memory = self._ask(reader, item, key, _feedlib.Memory(fd, stride, whole))
        except BaseException:
            os.close(fd)
            raise
        if not rc:
            self.created = True
            return copies, fd
        os.close(fd)    # another was quicker
        return copies, memory

    def _made_by_another(self, reader, item, key, why):
        """Tasks that begin at once all make some, and where the GPU has no room for so much the first has it soon."""
        until = time.monotonic() + OTHERS_S
        while True:
            rc, copies, memory = self._ask(reader, item, key)
            if rc:
                return copies, memory
            if time.monotonic() > until:
                raise why
            time.sleep(OTHERS_S / 20)

    def place(self, item, room):
        """The item's bytes on the GPU, until it is released; None: they are not there. `room`: the same here."""
        until = time.monotonic() + SOON_S
        answer = self._lib.feed_copies_ask(self._copies, ctypes.byref(item))
        while answer == _feedlib.COPY_SOON and time.monotonic() < until:
            time.sleep(PAUSE_S)
            answer = self._lib.feed_copies_ask(self._copies, ctypes.byref(item))
        there = self._there[item.slot * self._stride:item.slot * self._stride + item.bytes]
        if answer == _feedlib.COPY_THERE:
            self._counts["found"] += 1
        elif answer == _feedlib.COPY_MAKE:
            self._make(item, there, room)
        else:
            return None
        return there

    def _make(self, item, there, room):
        import torch
        whole = False
        try:
            self._gpu.fill(there, torch.frombuffer(room, dtype=torch.uint8))
            whole = True
        finally:
            self._lib.feed_copies_made(self._copies, ctypes.byref(item), whole)
        self._counts["made"] += 1

    def close(self):
        """When nothing reads from it any more."""
        self._there = None
        self._lib.feed_copies_close(self._copies)
        try:
            self._driver.unmap(self._place, self._size)
        except Refused:     # it goes with this process
            pass
