# SPDX-License-Identifier: MIT
"""`next(batches)` in a script's own code, where it counts on another batch: `for i in range(len(loader)): batch = next(batches)`. That
there is none would be an error, so such a pass over a loader is not ended before its time. Nor with its first batch, where something is
divided by the number of the last one: `for i, x in enumerate(loader): ...`, and then `loss / i`."""
import ast
import functools

from .length import BEGINNING, called
from .source import FUNCTION, is_own, tree_of

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


@functools.lru_cache(None)
def dividing(path):
    """Lines of a file at which a loop asks for another batch that counts them from 0, behind which something is divided by that number."""
    tree, found = tree_of(path), set()
    for scope in (tree, *(node for node in ast.walk(tree) if isinstance(node, FUNCTION))):
        inside = list(ast.walk(scope))
        divided = [(node.lineno, node.right.id) for node in inside if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div)
                   and isinstance(node.right, ast.Name)]
        for loop in (node for node in inside if isinstance(node, ast.For) and isinstance(node.target, ast.Tuple)):
            counts = any(called(node) == "enumerate" and len(node.args) == 1 and not node.keywords for node in ast.walk(loop.iter))
            if counts and any(line > loop.end_lineno and name == ast.unparse(loop.target.elts[0]) for line, name in divided):
                found.update(range(loop.lineno, loop.iter.end_lineno + 1))
    return found


def least(frame):
    """Batches that such a pass is to give at least, which that frame asks for one."""
    while frame is not None and not is_own(frame.f_code.co_filename):
        frame = frame.f_back
    return 2 if frame is not None and frame.f_lineno in dividing(frame.f_code.co_filename) else 0
