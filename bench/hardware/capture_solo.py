#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Captures of the tasks of run_solo.py, without a GPU:

    python3 capture_solo.py --out FOLDER [--workers N] [--deadline S] [--count N] [--large] [WORD...]

For each task FOLDER/NAME.radcap, and a line in FOLDER/captures.jsonl: seconds without imports, flags, notes, or the error. Tasks
that the folder has are not captured again.
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

import solo  # noqa: E402
from pool import Pool  # noqa: E402
from radrm import capture  # noqa: E402
import radrm.capture.session  # noqa: E402,F401


def one(job, out):
    began, line = time.monotonic(), {}
    try:
        found = capture.trace(solo.setup(job), name=job.name, timeout=150, memory_mib=100 << 10)
        found.save(out / f"{job.name}.radcap")
        line.update(bytes=len(found.data), flags=found.flags, notes=found.notes)
    except Exception as e:
        line["error"] = str(e)[-600:]
    return {**line, "seconds": round(time.monotonic() - began, 3)}


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--out", type=pathlib.Path, required=True)
    p.add_argument("--workers", type=int, default=1)
    p.add_argument("--deadline", type=float, default=1e6, help="seconds after which nothing more is begun")
    p.add_argument("--count", type=int, default=10000)
    p.add_argument("--large", action="store_true", help="the tasks for more than 80 GiB instead")
    p.add_argument("words", nargs="*", help="tasks whose names contain one of these")
    args = p.parse_args()
    deadline = time.monotonic() + args.deadline
    args.out.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    solo.models.preload()
    from torch._subclasses.fake_tensor import FakeTensorMode

    FakeTensorMode()
    gc.freeze()
    todo = [job for job in (solo.large() if args.large else solo.plan()) if not args.words
            or any(w in job.name for w in args.words)][:args.count]
    todo = [job for job in todo if not (args.out / f"{job.name}.radcap").exists()]
    with open(args.out / "captures.jsonl", "a") as f:

        def tell(pid, job, line):
            f.write(json.dumps({"name": job.name, **line}) + "\n")
            f.flush()
            if "error" in line:
                print(job.name, line["error"][-400:], flush=True)

        left = Pool(args.workers, 180, deadline).run(lambda job: one(job, args.out), todo, tell)
    print(len(todo) - len(left), "captures,", len(left), "not begun")


if __name__ == "__main__":
    main()
