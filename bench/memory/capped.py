#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The strictest test of an estimate: the job runs with no more memory than it claims.

    capped.py --claims FILE --out FOLDER [--phases free,fraction,need,mps] [--workers N] [--deadline S] [WORD...]

FILE: a JSON object, for each job claim_mib, need_mib and outside_mib (what it takes outside PyTorch's allocator), as score.py
--claims writes it: margins that its own family took no part in. Phases:
  free      no cap, for its speed
  fraction  PYTORCH_CUDA_ALLOC_CONF=per_process_memory_fraction at the claim, less what is outside
  need      the same at the smallest cap that is said to work
  mps       a client of an MPS server, CUDA_MPS_PINNED_DEVICE_MEM_LIMIT at the claim
A line a run in FOLDER/capped.jsonl. The MPS server is the script's own and ends with it.
"""

import argparse
import gc
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

os.environ["PYTORCH_NVML_BASED_CUDA_CHECK"] = "1"  # CUDA must not be started here, see pool.py
import torch  # noqa: E402

import jobs  # noqa: E402
import models  # noqa: E402
import truth  # noqa: E402
from pool import Pool  # noqa: E402

MIB = 1 << 20
STEPS = 6


def cap_of(phase, figures):
    """MiB that the allocator may reserve; None: no cap of its own."""
    if phase == "fraction":
        return figures["claim_mib"] - figures["outside_mib"]
    if phase == "need":
        return figures["need_mib"] - figures["outside_mib"]
    return None


def run(job, phase, figures, total_mib, pipe):
    cap = cap_of(phase, figures)
    if cap is not None:
        os.environ["PYTORCH_CUDA_ALLOC_CONF"] = f"per_process_memory_fraction:{(cap + 0.5) / total_mib:.9f}"
    if phase == "mps":
        os.environ["CUDA_MPS_PIPE_DIRECTORY"] = pipe
        os.environ["CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"] = f"0={figures['claim_mib']}M"
    torch.cuda.init()
    took = torch.cuda.get_per_process_memory_fraction() if cap is not None else None
    if took == 1:
        return {"cap_mib": cap, "error": "PyTorch did not read the cap"}
    return {"cap_mib": cap, "fraction": took, **truth.train(job, None, STEPS)}


def memory_of_device():
    """MiB, as PyTorch takes fractions of it. For a process of its own."""
    return torch.cuda.mem_get_info()[1] / MIB


def serve(folder):
    """Starts an MPS control daemon of one's own; returns its environment."""
    env = {**os.environ, "CUDA_MPS_PIPE_DIRECTORY": folder, "CUDA_MPS_LOG_DIRECTORY": folder}
    subprocess.run(["nvidia-cuda-mps-control", "-d"], env=env, check=True)
    return env


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--claims", type=pathlib.Path, required=True)
    p.add_argument("--out", type=pathlib.Path, required=True)
    p.add_argument("--phases", default="free,fraction,need,mps")
    p.add_argument("--workers", type=int, default=10)
    p.add_argument("--room", type=float, default=128, help="GiB of GPU memory that jobs take together")
    p.add_argument("--deadline", type=float, default=1e6, help="seconds after which nothing more is begun")
    p.add_argument("words", nargs="*", help="jobs whose names contain one of these")
    args = p.parse_args()
    end = time.monotonic() + args.deadline
    claims = json.loads(args.claims.read_text())
    args.out.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    models.preload()
    gc.freeze()
    todo = [j for j in truth.ordered(jobs.chosen(args.words)) if j.name in claims]
    phases = args.phases.split(",")
    total = []
    Pool(1, 60, end).run(lambda item: memory_of_device(), ["memory"], lambda pid, item, answer: total.append(answer) and None)

    def cost(job):  # GiB
        return claims[job.name]["claim_mib"] * 1.05 / 1024 + 0.3

    with tempfile.TemporaryDirectory() as pipe, open(args.out / "capped.jsonl", "a") as f:
        env = serve(pipe) if "mps" in phases else None
        try:
            for n, phase in enumerate(phases):
                left = end - time.monotonic()
                deadline = time.monotonic() + left / (len(phases) - n)

                def tell(pid, job, line):
                    f.write(json.dumps({"name": job.name, "phase": phase, **claims[job.name], **line}) + "\n")
                    f.flush()
                    print(phase, job.name, line.get("error", line.get("step_s")), flush=True)

                pool = Pool(args.workers, 100, deadline, args.room, cost)
                some = todo[::2] if phase == "free" else todo
                print(
                    phase,
                    len(pool.run(lambda job: run(job, phase, claims[job.name], total[0], pipe), some, tell)),
                    "not begun",
                )
        finally:
            if env:
                subprocess.run(["nvidia-cuda-mps-control"], input="quit\n", text=True, env=env, timeout=20, check=False)


if __name__ == "__main__":
    main()
