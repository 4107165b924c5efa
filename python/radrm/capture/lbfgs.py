# SPDX-License-Identifier: MIT
"""L-BFGS: what a step of it does hangs on values at every turn, so it is told. It may have thousands of rounds in a step, and
dozens of evaluations in each round's line search, which are alike: a few are made. From the first on it keeps as many
directions and steps as it has in the end, and the closure is evaluated beside them."""
import sys
import weakref

import torch
from torch.optim import lbfgs

from .length import Length

MANY = 1000  # steps of a run of which it is not known how many it has
ROUNDS, AGAIN = 5, 2  # of a step; where a script goes on after enough was seen
STEADY = 3  # iterations that a capture is to have
EVALUATIONS = 5  # of a line search
FILE = lbfgs.__file__


def is_asking(frame):
    """Whether it asks there: whatever the answer, what it may come to take was seen."""
    return frame.f_code.co_filename == FILE


class Solvers:
    """Told of steps."""

    def __init__(self):
        self.lengths = weakref.WeakKeyDictionary()  # optimizer -> Length of its own steps
        self.cut = False  # a step takes longer than what was seen of it
        self.said = weakref.WeakKeyDictionary()  # optimizer in a step -> what the script had said of rounds, evaluations and tolerance

    def begin(self, optimizer, args, kwargs, frame, going, another):
        """A step begins, after enough was seen of a first training or not. What it is to be called with. `another`: called
        where a round begins of the few steps that the run has."""
        group, length = optimizer.param_groups[0], self.lengths.setdefault(optimizer, Length())
        length.step(frame)
        steps = length.steps or (MANY if length.looped else 1)
        few = 0 < steps < STEADY and not going
        most = min(group["history_size"], group["max_iter"] * steps)
        rounds = AGAIN if going else ROUNDS
        self.cut |= group["max_eval"] > ROUNDS * EVALUATIONS
        self.said[optimizer] = {name: group[name] for name in ("max_iter", "max_eval", "tolerance_change")}
        group["max_iter"], group["tolerance_change"] = min(group["max_iter"], rounds), -1
        group["max_eval"] = min(group["max_eval"], rounds * EVALUATIONS)

        def filling(closure):
            def run():
                if fill(sys._getframe(1), most) and few:
                    another()
                return closure()
            return run
        if len(args) > 1:
            return (args[0], filling(args[1]), *args[2:]), kwargs
        return args, {**kwargs, "closure": filling(kwargs["closure"])} if "closure" in kwargs else kwargs

    def end(self, optimizer):
        optimizer.param_groups[0].update(self.said.pop(optimizer, {}))


def fill(frame, most):
    """Within a step: as many directions and steps as it keeps in the end. Whether it keeps one is not known, so the newest of
    each it only has at hand. Whether it is past the first evaluation."""
    while frame is not None and not (is_asking(frame) and frame.f_code.co_name == "step"):
        frame = frame.f_back
    if frame is None:
        return False
    own = frame.f_locals
    d, dirs, stps, ro = (own.get(name) for name in ("d", "old_dirs", "old_stps", "ro"))
    if d is None or dirs is None:
        return False
    with torch.no_grad():
        while len(dirs) < most - 1:
            dirs.append(torch.empty_like(d))
            stps.append(torch.empty_like(d))
            ro.append(d.new_ones(()))
    return True


def install(patch):
    real = lbfgs._strong_wolfe

    def search(*args, max_ls=25, **kwargs):
        return real(*args, max_ls=min(max_ls, EVALUATIONS), **kwargs)
    patch(lbfgs, "_strong_wolfe", search)
