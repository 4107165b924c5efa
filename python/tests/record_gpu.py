# SPDX-License-Identifier: MIT
"""Runs the jobs of jobs.py on a GPU and writes what its caching allocator was asked for:

    python3 record_gpu.py OUT.json.gz [JOB...]

One JSON object: the stack, and for each job the list of its events in order: bytes for a request, -1-n for giving back the n-th
request (from 0). Bytes are as asked, not rounded. A job that fails is left out, with its error.
"""
import gzip
import json
import sys

import torch
import torch.utils.checkpoint

import jobs


def history(build, steps=3):
    torch.cuda.empty_cache()
    torch.cuda.memory._record_memory_history(enabled="all", context=None, max_entries=1000000)
    step = build()
    for _ in range(steps):
        step()
    trace = torch.cuda.memory._snapshot()["device_traces"][0]
    torch.cuda.memory._record_memory_history(enabled=None)
    events, at, number = [], {}, 0
    for entry in trace:
        if entry["action"] == "alloc":
            at[entry["addr"]] = number
            number += 1
            events.append(entry["size"])
        elif entry["action"] == "free_requested" and entry["addr"] in at:
            events.append(-1 - at.pop(entry["addr"]))
    return events


def main():
    torch.backends.cuda.matmul.allow_tf32 = False
    found, errors = {}, {}
    every = {**jobs.JOBS, **jobs.SHAPES}
    for name in sys.argv[2:] or every:
        torch.manual_seed(0)
        try:
            history(every[name], 1)  # what is made once, as workspaces of cuBLAS, is there from here on
            found[name] = history(every[name])
        except Exception as e:
            errors[name] = f"{type(e).__name__}: {e}"
    out = {"torch": torch.__version__, "cudnn": torch.backends.cudnn.version(), "gpu": torch.cuda.get_device_name(),
           "jobs": found, "errors": errors}
    with gzip.open(sys.argv[1], "wt") as f:
        json.dump(out, f, separators=(",", ":"))
    print({name: len(events) for name, events in found.items()}, errors)


if __name__ == "__main__":
    main()
