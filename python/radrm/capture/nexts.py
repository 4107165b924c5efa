# SPDX-License-Identifier: MIT
"""`next(batches)` in a script's own code, where it counts on another batch: `for i in range(len(loader)): batch = next(batches)`. That
there is none would be an error, so such a pass over a loader is not ended before its time."""
import ast
import functools

from .length import BEGINNING, called
from .source import is_own, tree_of

ENDS = {"StopIteration"}
ANY = {"StopIteration", "Exception", "BaseException"}


def caught(node):
    """Names of errors that a `try`, or a `with suppress(...)`, holds."""
    if isinstance(node, ast.Try):
        kinds = [handler.type or ast.Name("BaseException") for handler in node.handlers]
    else:
        kinds = [arg for item in node.items if called(item.context_expr) == "suppress" for arg in item.context_expr.args]
    return {part.id for kind in kinds for part in ast.walk(kind) if isinstance(part, ast.Name)}


@functools.lru_cache(None)
def lines(path):
    """(lines of a file with a next() that has no other answer; those within something that holds the end of a loop; likewise, or any
    error)"""
    asks, ends, held = set(), set(), set()
    for node in ast.walk(tree_of(path)):
        if called(node) == "next" and len(node.args) == 1 or called(node) == "__next__":
            asks.update(range(node.lineno, node.end_lineno + 1))
        elif isinstance(node, (ast.Try, ast.With)):
            inside = {line for part in node.body for line in range(part.lineno, part.end_lineno + 1)}
            ends |= inside if caught(node) & ENDS else set()
            held |= inside if caught(node) & ANY else set()
    return asks, ends, held


def is_counted_on(frame):
    """Whether that frame, which asks for a batch, counts on there being one."""
    path, line = frame.f_code.co_filename, frame.f_lineno
    if not is_own(path) or line not in lines(path)[0] or line in lines(path)[2]:
        return False
    while frame is not None and frame.f_globals.get("__name__") not in BEGINNING:
        if is_own(frame.f_code.co_filename) and frame.f_lineno in lines(frame.f_code.co_filename)[1]:
            return False
        frame = frame.f_back
    return True
