# SPDX-License-Identifier: MIT
"""What an expression in a script's source comes to in one of its frames: of names, attributes, constants, sums of them and a few functions
without effects. Nothing else is worked out.
"""
import ast
import collections
import inspect
import math
import numbers
import operator
import sys

from .passes import Unknown
from .source import called

OVER = {"enumerate", "iter", "list", "tuple", "reversed", "sorted", "tqdm", "track", "progress_bar"}  # as long as their first argument
RANGES = ("range", "trange", "prange")
ENDLESS = {"cycle", "count"}
FUNCTIONS = {"len": len, "int": int, "float": float, "min": min, "max": max, "abs": abs, "round": round, "ceil": math.ceil,
             "floor": math.floor}
MEASURES = {"size", "numel", "nelement"}  # methods of tensors
UNARY = {ast.USub: operator.neg, ast.UAdd: operator.pos}
OPERATORS = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
             ast.FloorDiv: operator.floordiv}
ALONE = 3  # references to a frame's copy of its variables that nobody else has: the frame's and two of who looks


def local(frame, name, otherwise=None):
    """A variable of a function that runs, or of a module. Before 3.13 Python makes a copy of all of them, which stays with the
    frame: tensors that the function gives up afterwards would live on in it. What exec() made is there only, and stays."""
    found, code = frame.f_locals, frame.f_code
    wanted = found.get(name, otherwise)
    if type(found) is dict and code.co_flags & inspect.CO_OPTIMIZED and sys.getrefcount(found) == ALONE:
        for own in code.co_varnames + code.co_cellvars + code.co_freevars:
            found.pop(own, None)
    return wanted


def value(node, frame):
    """Of an expression without effects, in that frame."""
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Name):
        found = local(frame, node.id, frame.f_globals.get(node.id, Unknown))
        if found is Unknown:
            raise Unknown
        return found
    if isinstance(node, ast.Attribute):
        return getattr(value(node.value, frame), node.attr)
    if isinstance(node, ast.Subscript):
        return value(node.value, frame)[value(node.slice, frame)]
    if isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
        return OPERATORS[type(node.op)](number(node.left, frame), number(node.right, frame))
    if isinstance(node, ast.UnaryOp) and type(node.op) in UNARY:
        return UNARY[type(node.op)](number(node.operand, frame))
    if isinstance(node, ast.Call) and called(node) in FUNCTIONS and not node.keywords:
        return FUNCTIONS[called(node)](*(value(a, frame) for a in node.args))
    if called(node) in MEASURES and isinstance(node.func, ast.Attribute) and hasattr(owner := value(node.func.value, frame), "dtype"):
        return getattr(owner, node.func.attr)(*(value(a, frame) for a in node.args))
    raise Unknown


def number(node, frame):
    """What came from the GPU is none: it counts nothing, and to ask how large it is would be a doubt."""
    from .readnumbers import ReadFloat, ReadInt
    found = value(node, frame)
    if isinstance(found, (bool, ReadFloat, ReadInt)) or not isinstance(found, numbers.Real) or not math.isfinite(found):
        raise Unknown
    return found


def of_call(node):
    """What is called, of enumerate() and its like their first argument; "": nothing is."""
    while isinstance(node, ast.Call) and called(node) in OVER and node.args:
        node = node.args[0]
    return called(node) if isinstance(node, ast.Call) else ""


def length(node, frame):
    """How often a `for` over that goes round."""
    if isinstance(node, ast.Call):
        name, args = called(node), node.args
        if name in RANGES and args:
            return len(range(*(int(number(a, frame)) for a in args)))
        if name == "zip" and args:
            return min(length(a, frame) for a in args)
        if name == "product" and args and not node.keywords:
            return math.prod(length(a, frame) for a in args)
        if name == "islice" and len(args) == 2:
            return min(int(number(args[1], frame)), lengthwise(args[0], frame))
        if name in OVER and args:
            return length(args[0], frame)
        if name in ENDLESS:
            return math.inf
        raise Unknown
    if isinstance(node, (ast.List, ast.Tuple)) and not any(isinstance(part, ast.Starred) for part in node.elts):
        return len(node.elts)
    return len(value(node, frame))


def amount(node, frame):
    """A number, or how many are in a list."""
    found = value(node, frame)
    return len(found) if isinstance(found, (list, set, dict, collections.deque)) else number(node, frame)


def lengthwise(node, frame):
    try:
        return length(node, frame)
    except (Unknown, TypeError):
        return math.inf


def elements(node, frame):
    """What a `for` goes over, where that is a list, or numbers."""
    if called(node) in RANGES:
        return range(*(int(number(a, frame)) for a in node.args))
    if called(node) == "enumerate":
        return list(enumerate(elements(node.args[0], frame)))
    if called(node) in ("tqdm", "list", "sorted", "reversed"):
        found = elements(node.args[0], frame)
        return found[::-1] if called(node) == "reversed" else found
    if isinstance(node, (ast.List, ast.Tuple)):
        return [elements(n, frame) if isinstance(n, (ast.List, ast.Tuple)) else value(n, frame) for n in node.elts]
    found = value(node.func.value if called(node) == "items" else node, frame)
    if not isinstance(found, (list, tuple, range, dict)):
        raise Unknown
    return list(found.items()) if called(node) == "items" else list(found)
