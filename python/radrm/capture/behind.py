# SPDX-License-Identifier: MIT
"""What a script does with its model once it has trained: `evaluate(test)`, `trainer.predict()`, a loop over another loader.

That stands behind all loops that a training is in. Once what was to be seen within these was, they end early (trainings.py), and the
script goes on to it.
"""
import ast

import torch
from torch.utils.data import DataLoader

from . import every, length, trainings
from .source import is_own, tree_of

PREDICTS = {"predict", "no_grad", "inference_mode"}


def unwrapped(node):
    """What an expression goes over: of enumerate() and its like their first argument."""
    while length.called(node) in length.OVER and node.args:
        node = node.args[0]
    return node


def is_a(kind, node, frame):
    """Whether an expression is one of these, in that frame; what goes over a loader is one."""
    try:
        return isinstance(trainings.unwrapped(length.value(unwrapped(node), frame)), kind)
    except Exception:  # of whatever stands in a script
        return False


def goes_over(statements, frame, own):
    """What there goes over a loader, beside what the frame is in the midst of; one of the functions `own` that is given a loader
    does."""
    for node in trainings.within(statements):
        if isinstance(node, ast.For):
            over = [node.iter]
        elif isinstance(node, trainings.COMPREHENSIONS):
            over = [part.iter for part in node.generators]
        elif length.called(node) in own:
            over = [*node.args, *(keyword.value for keyword in node.keywords)]
        else:
            continue
        if not node.lineno <= frame.f_lineno <= node.end_lineno and any(is_a(DataLoader, part, frame) for part in over):
            yield node


def runs(call, frame, names, quiet):
    """Whether a call evaluates, or runs a model: by what is called, or it is one of the script's functions `quiet`, or of something
    without gradients, or a model itself."""
    name = length.called(call)
    return every.is_test(call) or name in quiet and names.owns(call) or name in PREDICTS or is_a(torch.nn.Module, call.func, frame) or (
        name == "eval" and isinstance(call.func, ast.Attribute))


def last(frame, files, names):
    """(code, line) of the last of what evaluates in the script's own code behind all loops that the frame is in; None: nothing
    does. `files`: those of the script; `names`: of its functions."""
    quiet, found = set().union(*(every.quiet_in(tree_of(path)) for path in files)), None
    for at in trainings.outwards(frame):
        if is_own(at.f_code.co_filename):
            loops = length.loops_around(at)
            left = trainings.rest(trainings.body_of(at), at.f_lineno, loops[0] if loops else None)
            found = None if loops else found  # what was called in a loop is within it
            nodes = [*goes_over(left, at, names.bodies), *(call for call in trainings.calls(left) if runs(call, at, names, quiet))]
            found = (at.f_code, max(node.lineno for node in nodes)) if nodes else found
    return found
