#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Asks CUDA what it sees, through PyTorch: which GPU, how many, and how long it took. One line of JSON; an error is one too."""
import json
import os
import time


def take(torch, device, want_mib):
    """How much of it can be had there, in steps of 256 MiB; all of it is given back."""
    held = []
    try:
        while 256 * len(held) < want_mib:
            held.append(torch.empty(256 << 20, dtype=torch.uint8, device=f"cuda:{device}"))
    except torch.OutOfMemoryError:
        pass
    return 256 * len(held)


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
        out["taken_mib"] = [take(torch, n, int(os.environ.get("PROBE_TAKE_MIB", "0"))) for n in range(out["count"])]
    except Exception as e:
        out.update(works=False, error=f"{type(e).__name__}: {e}"[:600])
    print(json.dumps(out), flush=True)
    time.sleep(float(os.environ.get("PROBE_STAY_S", "0")))  # so that others can see it in the driver's lists


if __name__ == "__main__":
    main()
