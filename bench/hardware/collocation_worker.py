# SPDX-License-Identifier: MIT
"""One process of run_collocation.py: it stays, and becomes one training task after another. PyTorch is imported only there."""
import gc
import os
import time

import mix_worker

WARM_STEPS = 6   # the first load and choose kernels
WARM_S = 0.3     # and no fewer than this lasts


class Trainer:
    """At most one task at a time."""
    def __init__(self):
        import torch
        self.torch, self.step, self.clock = torch, None, None
        self.cuda = torch.cuda.is_available()
        if self.cuda:
            torch.ones(1, device="cuda")
            torch.cuda.synchronize()

    def build(self, words):
        """Becomes the task of these words of train.py. {took_s, reserved_mib}"""
        import jpegs
        import train
        begin, args = time.monotonic(), train.parse_args(words)
        if args.data not in ("synthetic", "host"):
            jpegs.make(args.data)
        if self.cuda:
            self.torch.cuda.reset_peak_memory_stats()
        with self.torch.device(args.device):  # quicker than to make parameters on the host and move them
            _, self.step = train.prepare(args, self.torch)
        self.clock = mix_worker.CudaClock(self.torch) if self.cuda else mix_worker.HostClock()
        end = time.monotonic() + WARM_S
        n = 0
        while n < WARM_STEPS or time.monotonic() < end:
            self.step()
            n += 1
        if self.cuda:
            self.torch.cuda.synchronize()
        return {"took_s": round(time.monotonic() - begin, 2), "reserved_mib": self.reserved()}

    def drop(self):
        import jpegs
        jpegs.close_all()
        self.step = self.clock = None
        gc.collect()
        if self.cuda:
            self.torch.cuda.empty_cache()
        return {}

    def reserved(self):
        return self.torch.cuda.max_memory_reserved() >> 20 if self.cuda else None

    def train(self, told):
        return {**mix_worker.train_for(self.step, self.clock, told["at"], told["seconds"], told["ramp_s"]),
                "reserved_mib": self.reserved()}


def answer(trainer, told, all_cores):
    """What is said to that. A task that does not fit fails, and the process goes on: {failed: why}."""
    try:
        if told == "drop":
            return trainer.drop()
        if "build" in told:
            return trainer.build(told["build"])
        mix_worker.keep_to({sorted(all_cores)[n] for n in told["cores"]} if told["cores"] else all_cores)
        return trainer.train(told)
    except (RuntimeError, FileNotFoundError, SystemExit) as e:  # PyTorch's out-of-memory error is a RuntimeError
        why = f"{type(e).__name__}: {e}"[:300]
    trainer.drop()
    return {"failed": why}


def serve(connection, words, env):
    """The process: says {"torch": version} when it is ready, then answers {"build": words}, "drop" and what mix_worker.serve
    calls a run. It ends when the other side closes."""
    os.environ.update(env)  # before CUDA starts
    try:
        trainer = Trainer()
        all_cores = os.sched_getaffinity(0)
        connection.send({"torch": trainer.torch.__version__, "pid": os.getpid()})
        while True:
            connection.send(answer(trainer, connection.recv(), all_cores))
    except (EOFError, ConnectionError, KeyboardInterrupt):
        return
    except Exception as e:
        connection.send({"error": f"{type(e).__name__}: {e}"[:600]})
