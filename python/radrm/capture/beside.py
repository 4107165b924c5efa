# SPDX-License-Identifier: MIT
"""What else has steps in a round of a loop, beside what the step that was seen is in: an epoch that goes over two loaders one after the
other, a stage that warms up and one that trains. Nobody has seen how many these are.

As it stands in the script: an optimizer's step, or a call of a function of the script that has one. What is called there is asked for in
the frame, so that `update()` of a progress bar is none. A step of an optimizer that steps beside this one, as a discriminator's, is none.
"""
import ast
import inspect
import re
import types

from . import clocks, ends, through
from .expressions import value
from .queues import Own
from .source import FUNCTION, called, is_own, tree_of

OPTIMIZER = re.compile(r"opt|scaler|solver", re.IGNORECASE)
DEEP = 4  # calls within calls
FAULTS = Exception  # whatever a script's own objects do where they are asked


def in_round(block, place):
    """Statements of a block, and of the arms that `place` is in, that are done as well; what of loops is in another round of theirs."""
    begin, _ = place
    for node in block:
        if not (node.lineno, node.col_offset)[:len(begin)] <= begin <= (node.end_lineno, node.end_col_offset):
            yield node
        elif not isinstance(node, (*ends.LOOPS, *FUNCTION)):
            parts = [getattr(node, name, []) for name in ("body", "orelse", "finalbody")]
            holds = [part for part in parts if part and part[0].lineno <= begin[0] <= part[-1].end_lineno]
            for part in holds if isinstance(node, ast.If) else parts:
                yield from in_round(part, place)


def calls(statements, said=None):
    """Those that are made where these are run. `said`: {parameter: what it is there}, by which arms are left out."""
    waiting = list(statements)
    for node in waiting:
        if not isinstance(node, FUNCTION):
            waiting += taken(node, said or {})
            if isinstance(node, ast.Call):
                yield node


def taken(node, said):
    """What of a statement or an expression may be run."""
    if not said or not isinstance(node, (ast.If, ast.IfExp)):
        return ast.iter_child_nodes(node)
    arms = [arm for arm, holds in ((node.body, True), (node.orelse, False)) if not is_never(node.test, holds, said)]
    return [node.test, *(part for arm in arms for part in (arm if isinstance(arm, list) else [arm]))]


def is_never(test, holds, said):
    """Whether a condition cannot hold, or cannot but hold, by what is said."""
    parts = [(part, now) for part, now in ends.alone(test, holds) if clocks.is_plain(part) and ends.names(part)
             and ends.names(part) <= said.keys()]
    try:
        return any(bool(eval(compile(ast.Expression(part), "<test>", "eval"), {}, said)) != now for part, now in parts)
    except FAULTS:
        return False


def has_steps(statements, frame, optimizer, deep=DEEP):
    """Whether something there has steps of that optimizer, as far as can be told; None: backward passes are steps."""
    return any(steps(call, frame, optimizer, deep) for call in calls(statements, getattr(frame, "said", None)))


def steps(call, frame, optimizer, deep):
    if optimizer is None and called(call) == "backward":
        return True
    if called(call) == "step" and isinstance(call.func, ast.Attribute):
        known = [found for node in (call.func.value, *call.args) if (found := asked(node, frame)) is not None]
        own = [each for one in known for each in (one, getattr(one, "optimizer", None)) if hasattr(each, "param_groups")]
        if own:
            return hasattr(known[0], "zero_grad") and any(each is optimizer for each in own) or any(each is optimizer for each in known[1:])
        return not known and bool(OPTIMIZER.search(ast.unparse(call.func.value))) and "sched" not in ast.unparse(call.func.value).lower()
    function, body = called_there(call, frame)
    if not deep or body is None or not is_own(function.__code__.co_filename):
        return False
    bound = getattr(function, "__self__", None)
    names = [a.arg for a in (*body.args.posonlyargs, *body.args.args)]
    given = through.given(body, call, bound is not None)
    spread = any(isinstance(a, ast.Starred) for a in call.args) or any(keyword.arg is None for keyword in call.keywords)
    usual = function.__defaults__ or () if not spread else ()
    known = {name: one for name, one in zip(names[len(names) - len(usual):], usual) if name not in given}
    known.update((name, found) for name, node in given.items() if (found := asked(node, frame)) is not None)
    said = {name: one for name, one in known.items()
            if not spread and is_said(given.get(name), frame) and name not in ends.stored(body.body)}
    if bound is not None and names:
        known[names[0]] = bound
    unset = {name: None for name in names if name not in known}
    inside = types.SimpleNamespace(f_locals=Own({**unset, **known}), f_globals=function.__globals__, f_code=function.__code__,
                                   said=said)
    return has_steps(body.body, inside, optimizer, deep - 1)


def is_said(node, frame):
    """Whether what a call gives is the same whenever it is made; `node` None: it gives nothing, and the function has a default."""
    return node is None or isinstance(node, ast.Constant) or isinstance(node, ast.Name) and node.id in getattr(frame, "said", ())


def called_there(call, frame):
    """(what is called, as it stands in its file), as far as that is a function in Python, and no generator; None: it is none."""
    function = asked(call.func, frame)
    code = getattr(function, "__code__", None)
    if not isinstance(code, types.CodeType) or code.co_flags & inspect.CO_GENERATOR:
        return function, None
    return function, next((node for node in ast.walk(tree_of(code.co_filename)) if isinstance(node, FUNCTION[:2])
                           and node.name == code.co_name and node.lineno >= code.co_firstlineno), None)


def counts(call, frame):
    """What counts in the function that is called there, as ends.counts() has it."""
    _, body = called_there(call, frame)
    return ends.counts(body) if body is not None else []


def asked(node, frame):
    """What that is there; None: nobody knows."""
    try:
        return value(node, frame)
    except FAULTS:
        return None
