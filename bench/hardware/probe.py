#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Asks CUDA what it sees, through PyTorch: which GPU, how many, and how long it took. One line of JSON; an error is one too."""
import ctypes
import json
import os
import time

STEP_MIB = 256


def allocated(torch, device):
    return torch.empty(STEP_MIB << 20, dtype=torch.uint8, device=f"cuda:{device}")


def managed(torch, device):
    """Managed memory, written to by the GPU."""
    cuda, pointer = ctypes.CDLL("libcuda.so.1"), ctypes.c_uint64()
    torch.cuda.set_device(device)
    for code in (cuda.cuMemAllocManaged(ctypes.byref(pointer), ctypes.c_size_t(STEP_MIB << 20), 1),
                 cuda.cuMemsetD8_v2(pointer, ctypes.c_ubyte(1), ctypes.c_size_t(STEP_MIB << 20)), cuda.cuCtxSynchronize()):
        if code:
            raise torch.OutOfMemoryError(f"CUDA error {code}")
    return pointer


def take(torch, device, want_mib):
    """How much of it can be had there, in steps; it is kept."""
    one = managed if os.environ.get("PROBE_TAKE") == "managed" else allocated
    held = []
    try:
        while STEP_MIB * len(held) < want_mib:
            held.append(one(torch, device))
    except torch.OutOfMemoryError:
        pass
    return held


def main():
    out = {"visible": os.environ.get("CUDA_VISIBLE_DEVICES"), "pid": os.getpid()}
    try:
        import torch
        begin = time.monotonic()
        out["count"] = torch.cuda.device_count()
        x = torch.ones(256, 256, device="cuda")
        out["sum"] = float((x @ x).sum())
        out["uuids"] = [str(torch.cuda.get_device_properties(n).uuid) for n in range(out["count"])]
        out["uuid"] = out["uuids"][0]
        out["multiprocessors"] = torch.cuda.get_device_properties(0).multi_processor_count
        out["cuda_s"] = round(time.monotonic() - begin, 2)
        out["works"] = out["sum"] == 256.0 ** 3
        held = [take(torch, n, int(os.environ.get("PROBE_TAKE_MIB", "0"))) for n in range(out["count"])]
        out["taken_mib"] = [STEP_MIB * len(pieces) for pieces in held]
    except Exception as e:
        out.update(works=False, error=f"{type(e).__name__}: {e}"[:600])
    print(json.dumps(out), flush=True)
    time.sleep(float(os.environ.get("PROBE_STAY_S", "0")))  # so that others can see it in the driver's lists


if __name__ == "__main__":
    main()
