# SPDX-License-Identifier: MIT
"""What stands in the source where a value is asked for: whether it decides anything, which answer goes on, for how many rounds
a loop does."""
import ast
import contextlib
import functools
import os
import re
import sys
import warnings
import weakref

import torch
import typing_extensions

from . import fileformat as ff, lbfgs
from .ends import LEAVES
from .idle import HOLDS as KEEPS, SCOPES, better, is_idle, is_on_host, is_quiet, own, picks
from .expressions import local, value
from .length import called, going, names_in
from .passes import Unknown
from .source import is_own, tree_of

OWN = os.path.dirname(os.path.abspath(__file__)) + os.sep
# Of a loop whose end is not known: steps that the solver of a neural ODE came to (torchdiffeq's example, within 55 steps of its
# training).
ROUNDS = 6
TORCH = os.path.dirname(os.path.abspath(torch.__file__)) + os.sep
# Where no line is the script's: here, PyTorch, code without a file, and what wraps others' functions (@deprecated).
WITHIN = (OWN, TORCH, "<", *(module.__file__ for module in (contextlib, functools, typing_extensions, warnings)))
SIZING = re.compile(r"^(new_)?(zeros|ones|empty|full|rand|randn|randint|randperm|arange|linspace|eye)$|^(range|view|reshape"
                    r"|expand|repeat|repeat_interleave|tile|narrow|split|chunk|topk|pad|interpolate|one_hot|tri[lu]_indices|"
                    r"unflatten|resize_)$")  # what is called with sizes
# Of what these are given: which are sizes.
SIZES = {"full": slice(1), "new_full": slice(1), "linspace": slice(2, 3), "randint": slice(-1, None)}
# Functions that are given a tensor first.
RESIZES = {"view", "reshape", "repeat_interleave", "tile", "narrow", "split", "chunk", "topk", "pad", "interpolate", "one_hot", "unflatten"}
MODULES = {"torch", "F", "np", "numpy"}
FILLS = {"fill_value", "value", "low", "high"}  # likewise, by their names: which are none
# Calls that make what stands for something that is not there.
SMALL = re.compile(r"^(zeros|ones|full|new_zeros|new_tensor|zeros_like|tensor|sum|to|cuda|warn|requires_grad_)$")
MANY = 1 << 30  # calls
LENGTHS = {"len", "shape", "size", "numel", "nelement", "ndim", "dim"}  # what asks how much there is
ZERO = {(ast.Eq, 0): True, (ast.NotEq, 0): False, (ast.Gt, 0): False, (ast.GtE, 1): False, (ast.Lt, 1): True, (ast.LtE, 0): True,
        (ast.Gt, 1): False, (ast.LtE, 1): True}  # comparison with a number -> what it says of 0
SEEDS = re.compile(r"seed(_all)?$|^(RandomState|default_rng)$")  # what is called with a seed, as one that all processes agree on
PLACING = {"roll", "select"}  # what is called with places: how far, which one
SIZE = "a size or a count computed on the GPU"  # what branched() is told of one
# What these ask holds: torch.nn compares a square mask with a causal one, assert_close() what a script expects.
HOLDS = {"_detect_is_causal_mask", "_compare_regular_values_close"}


def script_place():
    """("file.py:12", instruction) of the innermost frame that is the script's, or a library's that it uses; (None, 0) if there is none."""
    frame = sys._getframe(1)
    while frame is not None:
        name = frame.f_code.co_filename
        if not name.startswith(WITHIN):
            return f"{os.path.basename(name)}:{frame.f_lineno}", frame.f_lasti
        frame = frame.f_back
    return None, 0


def script_line():
    return script_place()[0]


@functools.lru_cache(None)
def insisted(path):
    """Lines of a file on which a value must be true: it is asserted, or an error is raised where it is false; and those on
    which it must be false."""
    must, may = set(), set()

    def visit(test, wanted):
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            visit(test.operand, not wanted)
        elif isinstance(test, ast.BoolOp):
            for value in test.values:
                visit(value, wanted)
        else:
            (must if wanted else may).update(range(test.lineno, test.end_lineno + 1))
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Assert):
            visit(node.test, True)
        elif isinstance(node, ast.If):
            for arm, holds in ((node.body, False), (node.orelse, True)):
                if arm and isinstance(arm[-1], ast.Raise):
                    visit(node.test, holds)
    return must - may, may - must


def asking():
    """The frame that asks for a value now."""
    frame = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith((OWN, "<")):
        frame = frame.f_back
    return frame


def insists():
    """The answer that the script insists on: it asserts it, or raises an error otherwise, or more is done then; None: on none.
    A run gives it, or ends there."""
    frame = asking()
    if frame is None:
        return None
    must, may = insisted(frame.f_code.co_filename)
    if frame.f_code.co_name in HOLDS or frame.f_lineno in must or frame.f_lineno in better(frame.f_code.co_filename):
        return True
    return False if frame.f_lineno in may else None


def affirmed(test):
    """(a test without the `not` in front of it, whether it is to hold)"""
    holds = True
    while isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        test, holds = test.operand, not holds
    return test, holds


@functools.lru_cache(None)
def loops(path):
    """{line of the test: (whether it goes on where that holds, its first line, its last line)} of each `while` that hangs on one test."""
    found = {}
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.While):
            test, holds = affirmed(node.test)
            if not isinstance(test, ast.BoolOp):
                found.update(dict.fromkeys(range(node.test.lineno, node.test.end_lineno + 1), (holds, node.lineno, node.end_lineno)))
    return found


@functools.lru_cache(None)
def left(path):
    """Likewise, of each `while True` that an `if` in it ends: `if (probability != 0).all(): break`."""
    found = {}
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.While) and isinstance(node.test, ast.Constant) and node.test.value:
            for one in node.body:
                if isinstance(one, ast.If) and isinstance(one.body[-1], ast.Break) and not isinstance(affirmed(one.test)[0], ast.BoolOp):
                    found.update(dict.fromkeys(range(one.test.lineno, one.test.end_lineno + 1),
                                               (not affirmed(one.test)[1], node.lineno, node.end_lineno)))
    return found


def ends(arm):
    """Whether one of these statements ends the loop around it, its round, the function, or the program, or asserts something."""
    return any(isinstance(statement, (ast.Break, ast.Continue, ast.Return, ast.Raise, ast.Assert))
               or called(getattr(statement, "value", None)) in LEAVES
               for statement in arm)


@functools.lru_cache(None)
def endings(path):
    """Lines of the test of each `if` that, where the value that is asked for holds, ends something."""
    found = set()
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.If):
            arm = node.body if affirmed(node.test)[1] else node.orelse
            if ends(arm):
                found.update(range(node.test.lineno, node.test.end_lineno + 1))
    return found


def is_ending():
    """Whether less is done if it is true; so it is taken of libraries, which ask whether something is wrong."""
    frame = asking()
    return frame is None or not is_own(frame.f_code.co_filename) or frame.f_lineno in endings(frame.f_code.co_filename)


def nothing(test):
    """What a test says of a size or a count that is 0, where it asks for no more than whether it is; else None."""
    if not isinstance(test, ast.Compare):
        return False
    number = getattr(test.comparators[0], "value", None)
    return ZERO.get((type(test.ops[0]), number)) if type(number) is int and len(test.ops) == 1 else None


def little(body, other):
    """(answers of a test with which next to nothing is done, and not more than with the other one)"""
    def calls(nodes):
        parts = [n for node in nodes for n in ast.walk(node)]
        found = [n for n in parts if isinstance(n, ast.Call)]
        few = all(is_quiet(n) or SMALL.search(called(n)) for n in found) and not any(isinstance(n, ast.MatMult) for n in parts)
        return len(found) if few else MANY
    first, second = calls(body), calls(other) if other or not ends(body) else MANY
    return {answer for answer, mine, others in ((True, first, second), (False, second, first)) if mine <= others and mine < MANY}


@functools.lru_cache(None)
def guards(path):
    """{line: (the answers with which next to nothing is done, what it says of nothing)} of what is asked for an `if`: it guards
    against nothing being there where that is among them."""
    found = {}

    def visit(test, answers):
        test, holds = affirmed(test)
        answers = {answer == holds for answer in answers}
        if isinstance(test, ast.BoolOp):
            for value in test.values:
                visit(value, answers)
        else:
            found.update(dict.fromkeys(range(test.lineno, test.end_lineno + 1), (answers, nothing(test))))
    rest = rests(tree_of(path))
    for node in ast.walk(tree_of(path)):
        if isinstance(node, (ast.If, ast.IfExp)):
            arms = (node.body, node.orelse) if isinstance(node, ast.If) else ([node.body], [node.orelse])
            visit(node.test, little(*arms) | (little(node.body, rest[node]) if rest.get(node) and not node.orelse else set()))
    return found


def rests(tree):
    """{`if` that returns: what stands behind it in its function, and is done otherwise}"""
    return {node: scope.body[n + 1:] for scope in ast.walk(tree) if isinstance(scope, (ast.FunctionDef, ast.AsyncFunctionDef))
            for n, node in enumerate(scope.body) if isinstance(node, ast.If) and isinstance(node.body[-1], ast.Return)}


def is_guard(answer=None):
    """Whether it is asked only in order to do next to nothing where nothing is there. `answer`: what says that something is;
    None: it is a size or a count, which the test tells."""
    frame = asking()
    least, said = guards(frame.f_code.co_filename).get(frame.f_lineno, ((), None)) if frame is not None else ((), None)
    return (said if answer is None else not answer) in least


@functools.lru_cache(None)
def choices(path):
    """{line of the test: whether more is called where it holds than where it does not} of each `if` with an `else`."""
    def calls(nodes):
        return sum(isinstance(n, ast.Call) for node in nodes for n in ast.walk(node))
    return {line: calls(node.body) > calls(node.orelse) for node in ast.walk(tree_of(path))
            if isinstance(node, ast.If) and node.orelse and not isinstance(node.test, (ast.BoolOp, ast.UnaryOp))
            for line in range(node.test.lineno, node.test.end_lineno + 1)}


@functools.lru_cache(None)
def tests(path):
    """Lines of a file on which something is asked for that decides what runs."""
    return {line for node in ast.walk(tree_of(path)) for test in getattr(node, "ifs", [getattr(node, "test", None)]) if test is not None
            for line in range(test.lineno, test.end_lineno + 1)}


def sizes_in(nodes):
    """Expressions among them that are sizes: what such calls are given, and ends of slices."""
    for node in nodes:
        if isinstance(node, ast.Call) and SIZING.search(called(node)):
            owner = getattr(getattr(node.func, "value", node.func), "id", None)
            given = called(node) in RESIZES and len(node.args) > 1 and owner in MODULES
            yield from sizes_of(called(node), node.args[given:], {keyword.arg: keyword.value for keyword in node.keywords})
        elif isinstance(node, ast.Slice):
            yield from filter(None, (node.lower, node.upper))


def sizes_of(name, args, kwargs):
    """Of what a call of that name is given: what is a size."""
    return [*args[SIZES.get(name, slice(None))], *(value for key, value in kwargs.items() if key not in FILLS)]


@functools.lru_cache(None)
def sizings(path):
    """Calls of PyTorch's in a file with sizes that have a name, as is_at() wants them."""
    found = [node for node in ast.walk(tree_of(path)) if SIZING.search(called(node)) and called(node) != "range"
             and any(isinstance(part, ast.Name) for size in sizes_in([node]) for part in ast.walk(size))]
    return places_of(found)


def places_of(calls):
    """(where they end in the source, lines that they are on)"""
    return ({(node.end_lineno, node.end_col_offset) for node in calls},
            {line for node in calls for line in range(node.lineno, node.end_lineno + 1)})


@functools.lru_cache(64)
def ends_in(code):
    """Of each instruction, where what it does ends in the source: (line, column)."""
    return [(line, column) for _, line, _, column in code.co_positions()]


def is_at(frame, places):
    """Whether one of these calls is what a frame is at. Before 3.11 Python says on which line alone."""
    ends, lines = places
    if frame.f_lineno not in lines or not hasattr(frame.f_code, "co_positions"):
        return frame.f_lineno in lines
    end = ends_in(frame.f_code)[frame.f_lasti // 2]
    return None in end or end in ends


def is_sizing():
    """Whether a value is asked for where something is called with sizes."""
    frame = asking()
    return frame is not None and is_at(frame, sizings(frame.f_code.co_filename))


def worked_out(node):
    """What a size is worked out from: not what else is called for it, or which of several it is."""
    waiting = [node]
    for part in waiting:
        yield part
        if not isinstance(part, (ast.Call, ast.Subscript)) or called(part) in ("min", "max"):
            waiting += ast.iter_child_nodes(part)


@functools.lru_cache(None)
def sized(path):
    """Lines of a file on which int() makes a size, there or where a variable of the same function is one."""
    found = set()
    for scope in (node for node in ast.walk(tree_of(path)) if isinstance(node, (ast.Module, ast.FunctionDef, ast.AsyncFunctionDef))):
        parts = [part for size in sizes_in(ast.walk(scope)) for part in worked_out(size)]
        own = {part.id for part in parts if isinstance(part, ast.Name)}
        parts += [node.value for node in ast.walk(scope) if isinstance(node, ast.Assign)
                  and any(getattr(target, "id", None) in own for target in node.targets)]
        found.update(part.lineno for part in parts if called(part) == "int")
    return found


def values_in(node, sized):
    """What values hang on in an expression: not which of several it is, nor, unless sizes hang on values (`sized`), what is asked for
    its size."""
    waiting = [node]
    for part in waiting:
        yield part
        if isinstance(part, ast.Subscript):
            waiting.append(part.value)
        elif sized or called(part) not in LENGTHS and getattr(part, "attr", None) not in LENGTHS:
            waiting += ast.iter_child_nodes(part)


def given_in(node):
    """[(what gets a value in a statement, or a part of one, the value)]"""
    if isinstance(node, ast.Assign):
        return [(target, node.value) for target in node.targets]
    if isinstance(node, (ast.AugAssign, ast.AnnAssign, ast.NamedExpr)):
        return [(node.target, node.value)] if node.value else []
    if isinstance(node, (ast.For, ast.comprehension)):
        return [(node.target, node.iter)]
    return [(node.func.value, arg) for arg in node.args] if called(node) in KEEPS and isinstance(node.func, ast.Attribute) else []


@functools.lru_cache(None)
def becoming(path, sized):
    """Calls in a file of which a size comes, there or by variables of the same function, as is_at() wants them. `sized`: as in
    values_in()."""
    found = []
    for scope in (node for node in ast.walk(tree_of(path)) if isinstance(node, SCOPES)):
        nodes = list(own(scope))
        given = [pair for node in nodes for pair in given_in(node)]
        parts, names = [part for size in sizes_in(nodes) for part in values_in(size, sized)], set()
        while more := {part.id for part in parts if isinstance(part, ast.Name)} - names:
            names |= more
            parts += [part for target, value in given if names_in(target) & more for part in values_in(value, sized)]
        found += [part for part in parts if isinstance(part, ast.Call)]
    return places_of(found)


def becomes_size(sized=False):
    """Whether what is asked for now becomes a size, or is returned to where it does; or its own size does (`sized`)."""
    frame = asking()
    while frame is not None:
        path, line = frame.f_code.co_filename, frame.f_lineno
        if not path.startswith(TORCH) and (is_at(frame, becoming(path, sized)) or line not in returning(path)):
            return is_at(frame, becoming(path, sized))
        frame = frame.f_back
    return False


@functools.lru_cache(None)
def returning(path):
    """Lines of a file on which something is returned."""
    return {line for node in ast.walk(tree_of(path)) if isinstance(node, ast.Return) and node.value
            for line in range(node.lineno, node.end_lineno + 1)}


@functools.lru_cache(None)
def placed(path):
    """Lines of a file on which int() makes nothing but a place: how far a tensor is rolled, which of its rows is taken."""
    found, other = set(), set()

    def visit(node, place):
        if called(node) == "int":
            (found if place else other).add(node.lineno)
        for child in ast.iter_child_nodes(node):
            visit(child, called(node) in PLACING or place and isinstance(node, (ast.UnaryOp, ast.BinOp, ast.keyword, ast.Tuple, ast.List)))
    visit(tree_of(path), False)
    return found - other


@functools.lru_cache(None)
def seeded(path):
    """Lines of a file that call something with a seed."""
    return {line for node in ast.walk(tree_of(path)) if isinstance(node, ast.Call) and SEEDS.search(called(node))
            for line in range(node.lineno, node.end_lineno + 1)}


def is_seed():
    """Whether the number that is asked for now is nothing but a seed."""
    frame = asking()
    return frame is not None and frame.f_lineno in seeded(frame.f_code.co_filename)


def is_placed():
    """Whether the number that is asked for now is nothing but a place: int() makes it, or a stretch begins there that is as long
    wherever it does."""
    frame = asking()
    if frame is None or frame.f_lineno in placed(frame.f_code.co_filename):
        return frame is not None
    found = stretches(frame.f_code.co_filename)
    if not found or not hasattr(frame.f_code, "co_positions"):
        return False
    try:
        return all(type(value(part, frame)) is int for part in found[ends_in(frame.f_code)[frame.f_lasti // 2]])
    except (Unknown, LookupError, AttributeError, TypeError):
        return False


@functools.lru_cache(None)
def stretches(path):
    """{where a subscript ends in a file: how long its slices are} of those with no others than `queue[:, at:at + n]`."""
    def long(part):
        """[how long it is]; None: that is no such slice."""
        if part.lower is None and part.upper is None:
            return []
        fits = isinstance(part.upper, ast.BinOp) and isinstance(part.upper.op, ast.Add) and part.lower is not None
        return [part.upper.right] if fits and ast.dump(part.lower) == ast.dump(part.upper.left) else None
    found = {}
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Subscript):
            parts = [long(part) for part in ast.walk(node.slice) if isinstance(part, ast.Slice)]
            if any(parts) and None not in parts:
                found[node.end_lineno, node.end_col_offset] = [one for part in parts for one in part]
    return found


def is_sized():
    """Whether the number that int() makes now becomes a size."""
    frame = asking()
    return frame is not None and frame.f_lineno in sized(frame.f_code.co_filename)


def is_round():
    """Whether it is asked for another round of a `while`."""
    frame = asking()
    return frame is not None and frame.f_lineno in loops(frame.f_code.co_filename)


def keeping():
    """The answer with which one of many is kept, where it is asked for that, with nothing done otherwise; else None."""
    frame = asking()
    if frame is None or frame.f_lineno in choices(frame.f_code.co_filename):
        return None
    return picks(frame.f_code.co_filename).get(frame.f_lineno)


def is_left():
    """Whether it is asked in order to leave a `while True`."""
    frame = asking()
    return frame is not None and frame.f_lineno in left(frame.f_code.co_filename)


class Rounds:
    """Of a `while` that goes on until something holds that is not known: neither none nor one without end. What is tried in a
    round succeeds: it may be what a solver keeps for the backward pass."""

    def __init__(self):
        # (code, line) -> (rounds of a loop that is gone through; 0: it is over; weak reference to what is there as long as it
        # is gone through, or None).
        self.made = {}

    def __call__(self, otherwise):
        """The value that is asked for now, in such a loop; else `otherwise`."""
        frame = asking()
        if frame is None:
            return otherwise
        path, line = frame.f_code.co_filename, frame.f_lineno
        found = loops(path).get(line) or left(path).get(line)
        if found:
            holds, first, _ = found
            if line in left(path) and getattr(local(frame, going(first)), "most", 0):
                return otherwise  # a training, which ends when it has learnt enough
            made, there = self.made.get((frame.f_code, line), (0, None))
            if there is None or there() is None:  # that of before was left by a `break`, say
                loop = local(frame, going(first))
                made, there = made * (there is None), loop and weakref.ref(loop)
            made = (made + 1) % (ROUNDS + (line in loops(path)))  # the one that it is left in was gone through
            self.made[frame.f_code, line] = made, there
            return holds == bool(made)
        return choices(path)[line] if line in choices(path) and self.inside(frame) else otherwise

    def inside(self, frame):
        while frame is not None:
            if any(made and frame.f_code is code and line <= frame.f_lineno <= loops(code.co_filename)[line][2]
                   for (code, line), (made, _) in self.made.items() if line in loops(code.co_filename)):
                return True
            frame = frame.f_back
        return False


def branched(recorder, what, size=False):
    """As decided(), of a comparison or a branch, or a size, which may decide nothing."""
    frame = asking()
    if frame is None or not (is_idle(frame) or not size and is_on_host(frame) or lbfgs.is_asking(frame)):
        decided(recorder, what)


def decided(recorder, what, where=None):
    recorder.note(ff.DATA_DEPENDENT, f"data-dependent: {what}", where or script_line())
