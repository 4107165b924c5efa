# SPDX-License-Identifier: MIT
"""As much of libcuda as a feed needs beside PyTorch: registering the host's memory, and memory of a GPU that outlives who made it.

That memory is made by cuMemCreate and handed on as a file descriptor. Whoever holds the descriptor, or has it mapped, keeps it; so it does
not end with the process that made it, as memory of cudaIpcGetMemHandle does (decision 151).
"""
import ctypes
import os
import threading

CALL_S = 10             # longer than any call takes; a driver that hangs is not waited for
PORTABLE = 1            # CU_MEMHOSTREGISTER_PORTABLE
PINNED, POSIX_FD, ON_DEVICE, READ_WRITE = 1, 1, 1, 3    # CUmemAllocationType, ...HandleType, CUmemLocationType, CUmemAccess_flags


class Refused(Exception):
    """Why the driver did not do it."""


class _Properties(ctypes.Structure):
    """CUmemAllocationProp"""
    _fields_ = [("type", ctypes.c_int), ("handles", ctypes.c_int), ("where", ctypes.c_int), ("device", ctypes.c_int),
                ("windows", ctypes.c_void_p), ("flags", ctypes.c_ubyte * 8)]


class _Access(ctypes.Structure):
    """CUmemAccessDesc"""
    _fields_ = [("where", ctypes.c_int), ("device", ctypes.c_int), ("flags", ctypes.c_int)]


class Driver:
    """Each call in a thread of its own, with a deadline."""

    def __init__(self, index):
        self._index, self._context = index, None

    def _call(self, what):
        said = []

        def run():
            try:
                said.append(what())
            except BaseException as error:  # noqa: B036
                said.append(error)
        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        thread.join(CALL_S)
        if not said:
            raise Refused(f"the driver did not answer within {CALL_S} s")
        if isinstance(said[0], BaseException):
            raise Refused(str(said[0]))
        return said[0]

    def _must(self, name, *arguments):
        code = getattr(self._lib, name)(*arguments)
        if code:
            raise OSError(f"{name}: CUDA error {code}")

    def _enter(self):
        """The context that PyTorch has on this GPU, in this thread."""
        if self._context is None:
            self._lib = ctypes.CDLL(os.environ.get("RADFEED_CUDA") or "libcuda.so.1")
            device, context = ctypes.c_int(), ctypes.c_void_p()
            self._must("cuInit", 0)
            self._must("cuDeviceGet", ctypes.byref(device), self._index)
            self._must("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
            self._context = context
        self._must("cuCtxSetCurrent", self._context)

    def register(self, begin, size):
        def run():
            self._enter()
            self._must("cuMemHostRegister_v2", ctypes.c_void_p(begin), ctypes.c_size_t(size), PORTABLE)
        self._call(run)

    def unregister(self, begin):
        def run():
            self._enter()
            self._must("cuMemHostUnregister", ctypes.c_void_p(begin))
        self._call(run)

    def uuid(self):
        """Of the GPU, or of the part of it (MIG) that this process has: the same in all processes."""
        def run():
            self._enter()
            device, said = ctypes.c_int(), (ctypes.c_ubyte * 16)()
            self._must("cuDeviceGet", ctypes.byref(device), self._index)
            self._must("cuDeviceGetUuid_v2", said, device)
            return bytes(said).hex()
        return self._call(run)

    def create(self, size):
        """Memory of the GPU, of that many bytes at least: (descriptor, bytes)."""
        def run():
            self._enter()
            device, each, handle, fd = ctypes.c_int(), ctypes.c_size_t(), ctypes.c_uint64(), ctypes.c_int(-1)
            self._must("cuDeviceGet", ctypes.byref(device), self._index)
            what = _Properties(PINNED, POSIX_FD, ON_DEVICE, device.value)
            self._must("cuMemGetAllocationGranularity", ctypes.byref(each), ctypes.byref(what), 0)
            whole = -(-size // each.value) * each.value
            self._must("cuMemCreate", ctypes.byref(handle), ctypes.c_size_t(whole), ctypes.byref(what), ctypes.c_ulonglong(0))
            try:
                self._must("cuMemExportToShareableHandle", ctypes.byref(fd), handle, POSIX_FD, ctypes.c_ulonglong(0))
            finally:
                self._must("cuMemRelease", handle)
            os.set_inheritable(fd.value, False)
            return fd.value, whole
        return self._call(run)

    def map(self, fd, size):
        """Where that memory is in this process."""
        def run():
            self._enter()
            handle, place = ctypes.c_uint64(), ctypes.c_uint64()
            size_ = ctypes.c_size_t(size)
            self._must("cuMemImportFromShareableHandle", ctypes.byref(handle), ctypes.c_void_p(fd), POSIX_FD)
            try:
                self._must("cuMemAddressReserve", ctypes.byref(place), size_, ctypes.c_size_t(0), ctypes.c_uint64(0), ctypes.c_ulonglong(0))
                try:
                    self._must("cuMemMap", place, size_, ctypes.c_size_t(0), handle, ctypes.c_ulonglong(0))
                    try:
                        device = ctypes.c_int()
                        self._must("cuDeviceGet", ctypes.byref(device), self._index)
                        access = _Access(ON_DEVICE, device.value, READ_WRITE)
                        self._must("cuMemSetAccess", place, size_, ctypes.byref(access), ctypes.c_size_t(1))
                    except OSError:
                        self._must("cuMemUnmap", place, size_)
                        raise
                except OSError:
                    self._must("cuMemAddressFree", place, size_)
                    raise
            finally:
                self._must("cuMemRelease", handle)      # the mapping keeps it
            return place.value
        return self._call(run)

    def unmap(self, place, size):
        def run():
            self._enter()
            self._must("cuMemUnmap", ctypes.c_uint64(place), ctypes.c_size_t(size))
            self._must("cuMemAddressFree", ctypes.c_uint64(place), ctypes.c_size_t(size))
        self._call(run)
