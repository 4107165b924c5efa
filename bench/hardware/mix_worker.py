# SPDX-License-Identifier: MIT
"""One training task of run_mixes.py: it builds its model once, then trains whenever it is told to, from an instant that all
tasks of a mix share. PyTorch is imported only in the process that trains.
"""
import os
import time

WARM_UP_STEPS = 5  # the first ones load and choose kernels
RAMP_S = 0.3       # at the start of a run the queues fill; not counted


def steps_by(done, t):
    """How many steps were finished at time t, with the part of the one under way; `done`: when each one was, ascending."""
    before = 0.0
    for n, at in enumerate(done):
        if at >= t:
            return n + (t - before) / (at - before)
        before = at
    return float(len(done))


class HostClock:
    """When steps end, where a step is over once its function returns."""
    def start(self):
        self.begin, self.done = time.monotonic(), []

    def mark(self):
        self.done.append(time.monotonic() - self.begin)

    def times(self):
        return self.done


class CudaClock:
    """When steps end on the GPU. Asking there holds nobody up: launches run ahead of the GPU, as in real training."""
    def __init__(self, torch):
        self.cuda = torch.cuda

    def _event(self):
        event = self.cuda.Event(enable_timing=True)
        event.record()
        return event

    def start(self):
        self.begin, self.done = self._event(), []

    def mark(self):
        self.done.append(self._event())

    def times(self):
        self.cuda.synchronize()
        return [self.begin.elapsed_time(event) / 1000 for event in self.done]


def train_for(step, clock, at, seconds):
    """Trains from `at` (time.monotonic()) for so long; returns the steps per second of the time that counts."""
    time.sleep(max(0.0, at - time.monotonic()))
    clock.start()
    while time.monotonic() < at + seconds:
        step()
        clock.mark()
    done = clock.times()
    return (steps_by(done, seconds) - steps_by(done, RAMP_S)) / (seconds - RAMP_S)


def set_up(words):
    import torch
    import train
    args = train.parse_args(words)
    _, step = train.prepare(args, torch)
    for _ in range(WARM_UP_STEPS if args.device == "cuda" else 1):
        step()
    if args.device != "cuda":
        return step, HostClock(), torch
    torch.cuda.synchronize()
    return step, CudaClock(torch), torch


def serve(connection, words, env):
    """The process: says {"torch": version} when it is ready, then answers each (at, seconds) with steps per second. It ends
    when the other side closes. A failure is the last thing it says: {"error": text}."""
    os.environ.update(env)  # before CUDA starts
    try:
        step, clock, torch = set_up(words)
        connection.send({"torch": torch.__version__})
        while True:
            connection.send(train_for(step, clock, *connection.recv()))
    except (EOFError, ConnectionError, KeyboardInterrupt):
        return
    except (Exception, SystemExit) as e:
        connection.send({"error": f"{type(e).__name__}: {e}"[:600]})


def nothing():
    """Runs once, so that whoever waits for it knows that the modules are loaded."""
