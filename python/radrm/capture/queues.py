# SPDX-License-Identifier: MIT
"""What a script takes from a queue that one of its threads fills: `while True: item = q.get(); if item is None: break`.

How much that is stands in the thread's loops, as that of a training does in its own, as long as one place of it puts something in, and
then, behind these loops, what ends it. Once that is there, too, all is in the queue.
"""
import ast
import functools
import gc
import math
import queue
import sys
import threading
import types

from . import ends
from .expressions import value
from .passes import UNTIL, Unknown
from .source import called, is_own

PUT = {"put", "put_nowait"}
KINDS = queue.Queue, queue.SimpleQueue


class Own(dict):
    """Variables, as a frame has them, that nobody cleans up."""


@functools.lru_cache(256)
def getting(block):
    """(what is asked for another item, what that is compared with where there are no more) of a `while`, or of a __next__; None."""
    got = [(name, node.func.value) for name, node in named_in(block) if called(node) == "get" and isinstance(node.func, ast.Attribute)]
    every = [node for statement in block.body for node in ast.walk(statement) if called(node) == "get"]
    if isinstance(block, ast.While) and isinstance(block.test, ast.Compare):
        got += [(n.target.id, n.value.func.value) for n in ast.walk(block.test) if isinstance(n, ast.NamedExpr)
                and called(n.value) == "get" and isinstance(n.value.func, ast.Attribute)]
        every = every or got
    if len(got) != 1 or len(every) != 1:
        return None
    name, asked = got[0]
    for test, going_on in ends.conditions(block):
        if isinstance(test, ast.NamedExpr) or not isinstance(test, ast.Compare) or len(test.ops) != 1:
            continue
        left = test.left.target if isinstance(test.left, ast.NamedExpr) else test.left
        kinds = (ast.IsNot, ast.NotEq) if going_on else (ast.Is, ast.Eq)
        if isinstance(left, ast.Name) and left.id == name and isinstance(test.ops[0], kinds):
            return asked, test.comparators[0]
    return None


def named_in(block):
    return [(node.targets[0].id, node.value) for node in block.body if isinstance(node, ast.Assign) and len(node.targets) == 1
            and isinstance(node.targets[0], ast.Name)]


def of_while(loop, frame, gone, known):
    """Rounds of a `while` that takes items from a queue; Unknown."""
    found = getting(loop)
    if found is None:
        raise Unknown
    return given(value(found[0], frame), value(found[1], frame), gone, known)


def of_iterator(what, gone, known):
    """Likewise, how many iter(q.get, None) gives, or an object of the script that has a queue."""
    if isinstance(what, UNTIL):
        get, last = gc.get_referents(what)
        if getattr(get, "__name__", "") != "get":
            raise Unknown
        return given(get.__self__, last, gone, known)
    own = getattr(type(what), "__next__", None)
    if not isinstance(own, types.FunctionType) or not is_own(own.__code__.co_filename):
        raise Unknown
    function = known.function(own.__code__)
    if function is None or sum(isinstance(n, (ast.If, *ends.LOOPS)) for n in ast.walk(function)) != 1 or getting(function) is None:
        raise Unknown
    frame = types.SimpleNamespace(f_locals=Own({function.args.args[0].arg: what}), f_globals=own.__globals__, f_code=own.__code__)
    asked, last = getting(function)
    return given(value(asked, frame), value(last, frame), gone, known)


def given(what, last, gone, known):
    """Items that a queue gives until that one."""
    if not isinstance(what, KINDS):
        raise Unknown
    if any(calls_in(frame, {"get"}, what, known) for frame in others()):
        raise Unknown
    if gone and (left := left_in(what, last)) is not None:
        return gone + left
    filling = [(frame, puts) for frame in others() if (puts := calls_in(frame, PUT, what, known))]
    if len(filling) != 1:
        raise Unknown
    frame, puts = filling[0]
    function = known.function(frame.f_code)
    end = [node for node in puts if is_last(node, last, frame)]
    items = [node for node in puts if node not in end]
    if len(items) != 1 or not end:
        raise Unknown
    loops = [loop for loop in around(function, items[0]) if not any(loop in around(function, node) for node in end)]
    if any(node.lineno < items[0].lineno for node in end) or any(isinstance(n, ast.Return) for n in ast.walk(function)):
        raise Unknown
    return math.prod(known.plainly(loop, frame, items[0]) for loop in loops)


def left_in(what, last):
    """Items that are there before what ends it; None: that is not there yet."""
    items = list(getattr(what, "queue", ()))
    return next((n for n, item in enumerate(items) if item is last or isinstance(item, (str, int)) and item == last), None)


def others():
    """Frames of other threads, of the script's own code."""
    for thread, frame in sys._current_frames().items():
        while frame is not None and thread != threading.get_ident():
            if is_own(frame.f_code.co_filename):
                yield frame
            frame = frame.f_back


def calls_in(frame, names, what, known):
    """Calls of these methods of that queue in the function of a frame."""
    function, found = known.function(frame.f_code), []
    for node in ast.walk(function) if function is not None else ():
        if called(node) in names and isinstance(node.func, ast.Attribute):
            try:
                found += [node] if value(node.func.value, frame) is what else []
            except (Unknown, AttributeError, KeyError, IndexError, TypeError):
                continue
    return found


def is_last(node, last, frame):
    try:
        found = value(node.args[0] if node.args else node.keywords[0].value, frame)
    except (Unknown, AttributeError, KeyError, IndexError, TypeError):
        return False
    return found is last or isinstance(last, (str, int)) and type(found) is type(last) and found == last


def around(function, node):
    """The loops of a function that something in it is in, the outermost first."""
    return [loop for loop in ast.walk(function) if isinstance(loop, ends.LOOPS) and any(n is node for n in ast.walk(loop))]
