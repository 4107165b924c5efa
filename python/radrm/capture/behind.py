# SPDX-License-Identifier: MIT
"""What a script does with its model once it has trained: `evaluate(test)`, `trainer.predict()`, a loop over another loader.

That stands behind all loops that a training is in. Once what was to be seen within these was, they end early (trainings.py), and the
script goes on to it.
"""
import ast
import re

import torch
from torch.utils.data import DataLoader

from . import every, expressions, length, passes, trainings
from .source import is_own, tree_of

PREDICTS = {"predict", "no_grad", "inference_mode"}
LOADER = re.compile("loader", re.IGNORECASE)
TELLS = {"len", "print", "iter", *expressions.OVER}  # calls with a loader that do not go over it


def unwrapped(node):
    """What an expression goes over: of enumerate() and its like their first argument."""
    while length.called(node) in expressions.OVER and node.args:
        node = node.args[0]
    return node


def is_model(node, frame):
    """Whether an expression is a module, in that frame."""
    try:
        return isinstance(expressions.value(node, frame), torch.nn.Module)
    except Exception:  # of whatever stands in a script
        return False


def is_loader(node, frame):
    """Whether an expression is a data loader, in that frame; what is not there yet, by its name."""
    node = unwrapped(node)
    try:
        return isinstance(passes.unwrapped(expressions.value(node, frame)), DataLoader)
    except Exception:
        return bool(LOADER.search(length.called(node) or getattr(node, "id", getattr(node, "attr", ""))))


def goes_over(statements, frame, is_one):
    """What there goes over a loader, beside what the frame is in the midst of; what is called with a loader does, if is_one() of what
    it is called."""
    for node in trainings.within(statements):
        if isinstance(node, ast.For):
            over = [node.iter]
        elif isinstance(node, length.COMPREHENSIONS):
            over = [part.iter for part in node.generators]
        elif isinstance(node, ast.Call) and is_one(length.called(node)):
            over = [*node.args, *(keyword.value for keyword in node.keywords)]
        else:
            continue
        if not length.is_at(node, frame) and any(is_loader(part, frame) for part in over):
            yield node


def runs(call, frame, names, quiet):
    """Whether a call evaluates, or runs a model: by what is called, or it is one of the script's functions `quiet`, or of something
    without gradients, or a model itself."""
    name = length.called(call)
    return every.is_test(call) or name in quiet and names.owns(call) or name in PREDICTS or is_model(call.func, frame) or (
        name == "eval" and isinstance(call.func, ast.Attribute) and length.called(call.func.value) != "cpu")


def last(frame, files, names):
    """(code, line) of the last of what evaluates in the script's own code behind all loops that the frame is in; None: nothing
    does. `files`: those of the script; `names`: of its functions."""
    quiet, found = set().union(*(every.quiet_in(tree_of(path)) for path in files)), None
    for at in trainings.outwards(frame):
        if is_own(at.f_code.co_filename):
            loops = length.loops_around(at)
            left = trainings.rest(trainings.body_of(at), at, loops[0] if loops else None)
            found = None if loops or length.is_comprehension(at) else found  # what was called in a loop is within it
            nodes = [*goes_over(left, at, lambda name: name not in TELLS),
                     *(call for call in trainings.calls(left) if runs(call, at, names, quiet))]
            found = (at.f_code, max(node.lineno for node in nodes)) if nodes else found
    return found
