#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Captures of the jobs of jobs.py, without a GPU:

    captures.py --out FOLDER [--workers N] [--deadline S] [--tiny] [--fresh] [WORD...]

For each job FOLDER/NAME.radcap, and a line in FOLDER/captures.jsonl: seconds without imports, bytes, peak of live tensors,
flags, notes, parameters, or the error. A job is captured in a process of its own, copied from one that has imported everything;
the capture itself is one more (radrm.capture.trace).
"""

import argparse
import gc
import json
import os
import pathlib
import sys
import time

os.environ["CUDA_VISIBLE_DEVICES"] = ""
HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "python")]

import torch  # noqa: E402

import jobs  # noqa: E402
import models  # noqa: E402
from pool import Pool  # noqa: E402
from radrm import capture  # noqa: E402
import radrm.capture.session  # noqa: E402,F401


def one(job, out, timeout):
    began = time.monotonic()
    line = {}
    try:
        found = capture.trace(jobs.setup(job), name=job.name, timeout=timeout, memory_mib=100 << 10)
        found.save(out / f"{job.name}.radcap")
        line.update(bytes=len(found.data), peak_bytes=found.peak_bytes, flags=found.flags, notes=found.notes)
    except Exception as e:
        line["error"] = str(e)[-600:]
    line["seconds"] = round(time.monotonic() - began, 3)
    return line


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--out", type=pathlib.Path, required=True)
    p.add_argument("--workers", type=int, default=2)
    p.add_argument("--deadline", type=float, default=1e6, help="seconds after which nothing more is begun")
    p.add_argument("--tiny", action="store_true", help="one small job an architecture")
    p.add_argument("--fresh", action="store_true", help="jobs of fresh.py")
    p.add_argument("words", nargs="*", help="jobs whose names contain one of these")
    args = p.parse_args()
    deadline = time.monotonic() + args.deadline
    args.out.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    models.preload()
    from torch._subclasses.fake_tensor import FakeTensorMode

    FakeTensorMode()
    gc.freeze()
    todo = jobs.chosen(args.words, args.tiny, jobs.FRESH if args.fresh else jobs.JOBS)
    with open(args.out / "captures.jsonl", "a") as f:

        def tell(pid, job, line):
            line = {"name": job.name, **line}
            f.write(json.dumps(line) + "\n")
            f.flush()
            print(
                job.name,
                line.get("seconds", ""),
                (line.get("error") or "")[-300:],
                "; ".join(line.get("notes", [])),
                flush=True,
            )

        f.write(json.dumps({"torch": torch.__version__, "cores": os.cpu_count(), "workers": args.workers}) + "\n")
        pool = Pool(args.workers, 150, deadline)
        left = pool.run(lambda job: one(job, args.out, 120), todo, tell)
        print(len(left), "jobs were not begun")


if __name__ == "__main__":
    main()
