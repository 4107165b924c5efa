#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Asks CUDA what it sees, through PyTorch: which GPU, how many, and how long it took. One line of JSON; an error is one too."""
import json
import os
import time


def main():
    out = {"visible": os.environ.get("CUDA_VISIBLE_DEVICES"), "pid": os.getpid()}
    try:
        import torch
        begin = time.monotonic()
        out["count"] = torch.cuda.device_count()
        x = torch.ones(256, 256, device="cuda")
        out["sum"] = float((x @ x).sum())
        out["uuid"] = str(torch.cuda.get_device_properties(0).uuid)
        out["multiprocessors"] = torch.cuda.get_device_properties(0).multi_processor_count
        out["cuda_s"] = round(time.monotonic() - begin, 2)
        out["works"] = out["sum"] == 256.0 ** 3
    except Exception as e:
        out.update(works=False, error=f"{type(e).__name__}: {e}"[:600])
    print(json.dumps(out), flush=True)
    time.sleep(float(os.environ.get("PROBE_STAY_S", "0")))  # so that others can see it in the driver's lists


if __name__ == "__main__":
    main()
