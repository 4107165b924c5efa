# SPDX-License-Identifier: MIT
"""Branches on values that decide nothing of what runs on the GPU: the best loss is remembered, the best weights are saved, it is printed, the training
ends early. And those in which the best weights are copied, which takes memory: the value was better. Told from the source; what is not known to be of that kind is not.
"""
import ast
import functools
import os
import re

from .length import called
from .source import tree_of

CALLS = re.compile(r"save|print|log|write|wandb|add_scalar|^(info|debug|warning|append|item|cpu|detach|numpy|tolist|state_dict|items|keys|values|float|int|str|len"
                   r"|round|max|min|abs|format|join|open|dump|dumps|mkdir|Path|makedirs|time|get|isinstance|isnan|isfinite|getattr|unwrap_model|exit)$")
BEST = re.compile(r"best|patien|^pat$|wait|^bad|improv|stop|stale|no_|counter|lowest|highest|(min|max)_?(val|loss|acc|score|dice|iou)|path|ckpt|record|"
                  r"state$|(^|_)lr$|learning_rate$")  # what is assigned
TEXT = {"join", "chr"}  # what was generated becomes a text
LETTERS = re.compile(r"decode|^(chr|str|join|int|item|tolist|cpu|numpy|long|squeeze|flatten|view|map|lower|strip)$")  # what is called for it
FILES = {"os", "shutil"}
NUMBER = re.compile(r"(epoch|step|iter)s?$|^[eit]$|(^|_)lr$|learning_rate$", re.IGNORECASE)  # names of numbers: what is computed from one is no tensor
COPIES = re.compile(r"^(deepcopy|copy|clone|detach)$")
LIBRARIES = tuple(name.replace("/", os.sep) for name in (
    "torch/optim/lr_scheduler.py", "torch/nn/modules/transformer.py", "callbacks/early_stopping.py", "callbacks/model_checkpoint.py"))
DEEPER = (ast.If, ast.For, ast.With, ast.Try, ast.ExceptHandler)
SIMPLE = (ast.Expr, ast.Pass, ast.Break, ast.Raise, ast.Global, ast.Nonlocal)


def is_quiet(node):
    """Whether a call does nothing on the GPU: by its name, or it is one of those that work on files."""
    owner = getattr(node.func, "value", None)
    return bool(CALLS.search(called(node))) or getattr(owner, "id", "") in FILES


def assigned(target):
    """Whether that remembers what was best, or is a learning rate."""
    if isinstance(target, (ast.Tuple, ast.List)):
        return all(map(assigned, target.elts))
    if isinstance(target, ast.Subscript):
        return assigned(target.value) or bool(BEST.search(str(getattr(target.slice, "value", ""))))
    return bool(BEST.search(getattr(target, "id", getattr(target, "attr", "")).lower()))


def numbers(node):
    """Whether that is computed from numbers alone: `epoch + 1`."""
    return all(isinstance(part, ast.Constant) or isinstance(part, ast.Name) and NUMBER.search(part.id) for part in (node.left, node.right))


def idle(node, copies=False):
    """Whether a statement does nothing on the GPU, or only copies what was best."""
    if isinstance(node, ast.Try):
        return all(idle(n, copies) for n in [*node.body, *node.handlers, *node.orelse, *node.finalbody])
    if isinstance(node, DEEPER):
        fit = not isinstance(node, ast.For) or not any(isinstance(n, ast.Call) for n in ast.walk(node.iter))
        return fit and all(idle(n, copies) for n in [*node.body, *getattr(node, "orelse", ())])
    if isinstance(node, (ast.Assign, ast.AugAssign)):
        counts = not isinstance(node, ast.AugAssign) or isinstance(node.value, ast.Constant)
        fit = counts and all(map(assigned, getattr(node, "targets", ()) or [node.target])) and not any(
            isinstance(n, ast.BinOp) and not numbers(n) for n in ast.walk(node.value))
    else:
        fit = isinstance(node, SIMPLE)
    return fit and all(is_quiet(n) or copies and COPIES.search(called(n)) for n in ast.walk(node) if isinstance(n, ast.Call))


@functools.lru_cache(None)
def lines(path):
    """Lines of a file on which a value decides nothing, as far as it stands there."""
    found, other = set(), set()
    for node in ast.walk(tree_of(path)):
        if isinstance(node, (ast.If, ast.IfExp, ast.While, ast.Assert, ast.comprehension)):
            tests = node.ifs if isinstance(node, ast.comprehension) else [node.test]
            good = isinstance(node, ast.If) and idle(node)
            for test in tests:
                (found if good else other).update(range(test.lineno, test.end_lineno + 1))
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) and called(node.value) in ("max", "min") and idle(node):
            found.update(range(node.lineno, node.end_lineno + 1))
        elif isinstance(node, ast.Call) and called(node) in TEXT and all(LETTERS.search(called(n)) for n in ast.walk(node) if isinstance(n, ast.Call)):
            found.update(range(node.lineno, node.end_lineno + 1))
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and called(node.value) == "print" and idle(node):
            found.update(range(node.lineno, node.end_lineno + 1))  # what was best of several trainings, say
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and called(node.value) == "remove":
            found.update(range(node.lineno, node.end_lineno + 1))  # of a list of numbers: whichever it is, one fewer is left
    return found - other


@functools.lru_cache(None)
def better(path):
    """Lines of a file that ask whether something is the best so far, and copy it if it is."""
    return {line for node in ast.walk(tree_of(path)) if isinstance(node, ast.If) and not idle(node) and idle(node, copies=True) and any(
        isinstance(n, ast.Call) and COPIES.search(called(n)) for statement in node.body for n in ast.walk(statement)
    ) for line in range(node.test.lineno, node.test.end_lineno + 1)}


def is_idle(frame):
    """Whether what is asked there decides nothing."""
    path = frame.f_code.co_filename
    return path.endswith(LIBRARIES) or frame.f_lineno in lines(path)
