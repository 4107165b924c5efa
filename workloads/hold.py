#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Holds most of a GPU's memory and does nothing: makes a big GPU small, to see how tasks share a scarce one.

    python3 hold.py --leave 40960        # MiB that stay free for others

Prints one line when the memory is taken, then waits until it gets SIGTERM or SIGINT. Needs the driver alone (libcuda).
Plain allocations only: with managed memory the driver could move it out of the way, or hang the GPU.
"""
import argparse
import ctypes
import os
import signal
import sys

CHUNKS_MIB = (1024, 64, 2)  # large pieces first, then what is left of the difference in small ones


class Cuda:
    """The few driver calls needed; each raises with CUDA's own name of the error."""
    def __init__(self):
        try:
            self.lib = ctypes.CDLL("libcuda.so.1")
        except OSError as e:
            sys.exit(f"hold.py: no NVIDIA driver here: {e}")

    def call(self, name, *args):
        code = getattr(self.lib, name)(*args)
        if code:
            text = ctypes.c_char_p()
            self.lib.cuGetErrorName(code, ctypes.byref(text))
            raise RuntimeError(f"{name}: {(text.value or b'error').decode()} ({code})")

    def open(self, index):
        device, context = ctypes.c_int(), ctypes.c_void_p()
        self.call("cuInit", 0)
        self.call("cuDeviceGet", ctypes.byref(device), index)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self.call("cuCtxSetCurrent", context)

    def free_mib(self):
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        self.call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
        return free.value >> 20

    def take(self, mib):
        pointer = ctypes.c_uint64()
        self.call("cuMemAlloc_v2", ctypes.byref(pointer), ctypes.c_size_t(mib << 20))


def take_all_but(cuda, leave_mib):
    """Returns how much was taken. Looks again before each piece: others may allocate meanwhile."""
    held = 0
    for chunk in CHUNKS_MIB:
        while cuda.free_mib() >= leave_mib + chunk:
            cuda.take(chunk)
            held += chunk
    return held


def main():
    p = argparse.ArgumentParser(description="Hold all GPU memory but --leave MiB, until terminated.")
    p.add_argument("--leave", type=int, required=True, metavar="MIB", help="how much stays free")
    p.add_argument("--gpu", type=int, default=0, metavar="INDEX", help="which GPU, in PCI order (default 0)")
    args = p.parse_args()
    if args.leave < 0:
        p.error("--leave must not be negative")
    os.environ["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"
    os.environ["CUDA_MPS_PIPE_DIRECTORY"] = "/nonexistent"  # a foreign process, never a client of somebody's MPS server
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: os._exit(0))
    cuda = Cuda()
    try:
        cuda.open(args.gpu)
        held = take_all_but(cuda, args.leave)
    except RuntimeError as e:
        sys.exit(f"hold.py: GPU {args.gpu}: {e}")
    print(f"ready: holds {held} MiB, {cuda.free_mib()} MiB are free, pid {os.getpid()}", flush=True)
    while True:
        signal.pause()


if __name__ == "__main__":
    main()
