# SPDX-License-Identifier: MIT
"""Whether a loop ends by one of several conditions that all have to hold: `if args.debug and step >= 10: break`. What stays as it is was
asked once and for all; where several that change are left, as a counter and a loss that gets no better, nobody knows when both hold.
"""
import ast

from . import clocks, ends
from .ends import names as names_in
from .expressions import local, value
from .passes import Unknown

ORDER = ast.Lt, ast.LtE, ast.Gt, ast.GtE
PLAIN = bool, int, float, str, type(None)


def settled(test, loop, frame):
    """True or False, of a condition in a loop that stays as it is; None: it may change. One of what grows outside of the loop's own lines
    may become true."""
    looked = {ast.unparse(n) for n in ast.walk(test) if isinstance(n, (ast.Name, ast.Attribute))}
    if not clocks.is_plain(test) or looked & ends.set_in(loop):
        return None
    try:
        if not all(type(found) in PLAIN for found in asked_of(test, frame)):
            return None
        names = {name: local(frame, name) for name in names_in(test) if local(frame, name, Unknown) is not Unknown}
        found = bool(eval(compile(ast.Expression(test), "<test>", "eval"), frame.f_globals, names))
    except Exception:  # whatever a script's own attributes do when they are asked
        return None
    return found or (None if any(isinstance(op, ORDER) for n in ast.walk(test) for op in getattr(n, "ops", ())) else False)


def asked_of(test, frame):
    """Values of the variables and attributes in a condition; of what is only asked whether it is there, none."""
    if isinstance(test, (ast.Name, ast.Attribute)):
        yield value(test, frame)
    elif not (isinstance(test, ast.Compare) and all(isinstance(op, (ast.Is, ast.IsNot)) for op in test.ops)):
        for child in ast.iter_child_nodes(test):
            yield from asked_of(child, frame)


def decides(parts, path, loop, frame):
    """The one of these parts, as ends.guards() has them, on which it hangs when the loop ends; None: it does not by these, or hangs on
    several of them."""
    for test, holds in path:
        found = settled(test, loop, frame)
        if found is (not holds) or found is None and isinstance(test, ast.Compare) and isinstance(test.ops[0], ORDER):
            return None
    if len(parts) == 1:
        return parts[0]
    changing = []
    for test, going_on in parts:
        found = settled(test, loop, frame)
        if found is going_on:
            return None
        if found is None:
            changing.append((test, going_on))
    return changing[0] if len(changing) == 1 else None
