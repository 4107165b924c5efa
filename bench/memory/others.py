#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What the estimators that people reach for say of the jobs of jobs.py; no GPU:

    others.py --out FILE [--every N] [--deadline S] [WORD...]

FILE has a line a job, {"name", "deepspeed": {"mib", "seconds"} ...}, or {"error"} in place of MiB:
  deepspeed     estimate_zero2_model_states_mem_needs (one GPU, no offload), by the number of parameters
  deepspeed3    estimate_zero3_model_states_mem_needs, the same way, with the largest layer
  accelerate    what `accelerate estimate-memory` prints as "training using Adam", for the job's precision; the model is made here
                instead of fetched by its name
  memtracker    torch.distributed._tools.mem_tracker.MemTracker under FakeTensorMode: peak of tensors over two steps
torch.distributed._tools.memory_tracker.MemoryTracker and torch.cuda.memory's recorders count what a GPU has already given: they
need one, and are not here. MemTracker takes seconds a job: --every N asks it about every N-th job (in the order of jobs.py), the
others about all. Needs others-requirements.txt; PyTorch's build for the CPU will do.
"""

import argparse
import importlib
import json
import os
import pathlib
import sys
import time

os.environ["CUDA_VISIBLE_DEVICES"] = ""
HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE)]

import torch  # noqa: E402

import jobs  # noqa: E402
import models  # noqa: E402
from pool import Pool  # noqa: E402

MIB = 1 << 20
DTYPES = {"fp32": "float32", "tf32": "float32", "bf16": "bfloat16", "amp-bf16": "bfloat16", "amp-fp16": "float16"}


def timed(work):
    began = time.monotonic()
    try:
        found = {"mib": round(work() / MIB, 1)}
    except Exception as e:
        found = {"error": f"{type(e).__name__}: {e}".split("\n")[0][:160]}
    return {**found, "seconds": round(time.monotonic() - began, 4)}


def states(job):
    """Those that look at the model alone. It is made on no device, which is not counted as time."""
    from accelerate.commands.estimate import estimate_training_usage
    from accelerate.utils import calculate_maximum_sizes
    from deepspeed.runtime.zero.stage3 import estimate_zero3_model_states_mem_needs as zero3
    from deepspeed.runtime.zero.stage_1_and_2 import estimate_zero2_model_states_mem_needs as zero2

    with torch.device("meta"), models.unfilled():
        model = jobs.ARCHS[job.arch].make(job.size)
    count = sum(p.numel() for p in model.parameters())
    largest = max(sum(p.numel() for p in m.parameters(recurse=False)) for m in model.modules())
    return {
        "deepspeed": timed(lambda: zero2(count, cpu_offload=False)[1]),
        "deepspeed3": timed(lambda: zero3(count, largest, cpu_offload=False)[1]),
        "accelerate": timed(
            lambda: max(estimate_training_usage(calculate_maximum_sizes(model)[0], DTYPES[job.precision]).values())
        ),
    }


def on_the_cpu(job):
    """What jobs.py has on "cuda" is on the CPU: fake tensors take as much there, and no build for a GPU is needed. A model of fake
    tensors cannot be converted while they are tracked, so it is made in the end's precision."""
    arch, build, cast, optimizer = jobs.ARCHS[job.arch], jobs.build_model, torch.autocast, jobs.optimizer_of
    batch = arch.batch
    to = torch.Tensor.to

    def made(job):
        torch.set_default_dtype(torch.bfloat16 if job.precision == "bf16" else torch.float32)
        try:
            return build(job)
        finally:
            torch.set_default_dtype(torch.float32)

    def together(job, parameters):  # what PyTorch does on a GPU, and not on a CPU, where nothing is said
        made = optimizer(job, parameters)
        if job.form == "foreach":
            made.defaults["foreach"] = True
            for group in made.param_groups:
                group["foreach"] = True
        return made

    arch.batch = lambda n, size, where: batch(n, size, "cpu")
    jobs.build_model, jobs.optimizer_of = made, together
    torch.nn.Module.to = lambda self, *args, **options: self
    torch.Tensor.to = lambda self, *args, **options: self if args[:1] == ("cuda",) else to(self, *args, **options)
    torch.autocast = lambda kind, **options: cast("cpu", **options)
    torch.amp.GradScaler = lambda kind, real=torch.amp.GradScaler: real("cpu")


def peak(job):
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.distributed._tools.mem_tracker import MemTracker

    on_the_cpu(job)
    with FakeTensorMode(allow_non_fake_inputs=True):
        tracker = MemTracker()
        loss = jobs.ARCHS[job.arch].loss

        def once(model, *batch):  # its statistics of modules know one forward pass
            tracker.reset_mod_stats()
            return loss(model, *batch)

        jobs.ARCHS[job.arch].loss = once
        with tracker:
            step = jobs.setup(job)()
            for _ in range(2):
                step()
        found = tracker.get_tracker_snapshot("peak")
    return sum(of["Total"] for of in found.values())


def one(job, nth, every):
    line = states(job)
    if nth % every == 0:
        line["memtracker"] = timed(lambda: peak(job))
    return line


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--out", type=pathlib.Path, required=True)
    p.add_argument("--every", type=int, default=1)
    p.add_argument("--deadline", type=float, default=1e6, help="seconds after which nothing more is begun")
    p.add_argument("words", nargs="*", help="jobs whose names contain one of these")
    args = p.parse_args()
    torch.set_num_threads(1)
    models.preload()
    import accelerate
    import deepspeed
    import accelerate.commands.estimate
    import deepspeed.runtime.zero.stage3  # noqa: F401
    import deepspeed.runtime.zero.stage_1_and_2  # noqa: F401
    importlib.import_module("torch.distributed._tools.mem_tracker")

    deadline = time.monotonic() + args.deadline
    nth = {j.name: i for i, j in enumerate(jobs.JOBS)}
    with open(args.out, "a") as f:

        def tell(pid, job, line):
            f.write(json.dumps({"name": job.name, **line}) + "\n")
            f.flush()

        versions = {"torch": torch.__version__, "accelerate": accelerate.__version__, "deepspeed": deepspeed.__version__}
        f.write(json.dumps({**versions, "every": args.every}) + "\n")
        left = Pool(1, 120, deadline).run(lambda j: one(j, nth[j.name], args.every), jobs.chosen(args.words), tell)
    print(len(left), "jobs were not begun")


if __name__ == "__main__":
    main()
