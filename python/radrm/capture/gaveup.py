# SPDX-License-Identifier: MIT
"""A script that ends itself before it trains since a check failed: `if abs(left - expected) > 5: quit()`. What it counted came from the
GPU, and so is not known in a capture; a run would have gone on, and what it takes then was not seen."""
import ast
import os

from .expressions import value
from .source import is_own, tree_of

FRACTIONS = ("numpy", "torch", __package__)  # where types come from of what was counted


def place(error):
    """"prune.py:41: quit()", the line at which sys.exit() and its like end a script, if that hangs on a number that may have come from
    the GPU; else None."""
    found, at = None, error.__traceback__
    while at is not None:
        if is_own(at.tb_frame.f_code.co_filename):
            found = at
        at = at.tb_next
    if found is None:
        return None
    path, line, frame = found.tb_frame.f_code.co_filename, found.tb_lineno, found.tb_frame
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.If) and node.body[0].lineno <= line <= node.end_lineno and any(
                counted(part, frame) for part in ast.walk(node.test)):
            last = next(part for part in ast.walk(node) if isinstance(part, ast.stmt) and part.lineno == line)
            return f"{os.path.basename(path)}:{line}: {ast.unparse(last)}"
    return None


def counted(node, frame):
    """Whether that name stands for a number which is none of the script's own: those are whole ones, texts, and whether something is."""
    if not isinstance(node, (ast.Name, ast.Attribute)):
        return False
    try:
        found = value(node, frame)
    except Exception:  # whatever an attribute does
        return False
    return isinstance(found, float) or type(found).__module__.startswith(FRACTIONS) and not callable(found)
