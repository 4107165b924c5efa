# SPDX-License-Identifier: MIT
"""Evaluations that come every so many steps or epochs: `if step % args.eval_every == 0: evaluate()`.

A capture is over long before. So a condition of that kind in the script's own code asks here whether it holds, and is told that it does
when its time has come to be looked at.
"""
import ast
import builtins
import copy
import functools
import importlib.machinery
import re
import runpy

from . import answers, growing, trainings, turning
from .length import called, loops_around
from .source import tree_of

TESTS = re.compile(r"(^|_)(eval|evaluate|evaluation|val|valid|validate|validation|test)(_|$)")
SAMPLES = re.compile(r"(^|_)(sample|samples|generate|visualize|inference|pipe|pipeline)(_|$)")
MAKES = re.compile(r"Pipeline$")  # classes of what makes samples when it is called
TRAINS = {"main", "train", "fit"}  # functions that may have something without gradients in them
LEARNS = {"step", "backward", "zero_grad"}
NAME = "__radrm_every__"  # what the conditions call


def is_test(node):
    """Whether a call is of an evaluation or makes samples, by what is called: a function, or a method of what trains."""
    name, own = called(node), isinstance(node.func,
                                         ast.Name) or isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Name)
    made = isinstance(node.func, ast.Call) and MAKES.search(called(node.func))
    return bool(TESTS.search(name) and (name != "eval" or node.args) or own and SAMPLES.search(name) or made)


def is_quiet(node):
    """Whether something there has no gradients."""
    return any(isinstance(n, ast.Attribute) and n.attr in ("no_grad", "inference_mode") or
               isinstance(n, ast.Name) and n.id in ("no_grad", "inference_mode") for n in ast.walk(node))


def is_tested_behind(tree, frame):
    """Whether a model is put to a test, `model.eval()`, there behind the loop of steps that the frame is in."""
    steps = next((loop for loop in loops_around(frame) if loop is not tree), None)
    return steps is not None and any(called(node) == "eval" and isinstance(node.func, ast.Attribute) and not node.args
                                     and node.lineno > steps.end_lineno for node in trainings.calls(tree.body))


def looks(statements, quiet):
    """Whether an evaluation is among them, or samples are made, by what is called, or something without gradients, as the
    functions `quiet`."""
    for node in (inside for statement in statements for inside in ast.walk(statement)):
        if isinstance(node, ast.Call):
            name = called(node)
            if name in quiet or name in ("no_grad", "inference_mode") or is_test(node):
                return True
    return False


def simple(node):
    """Whether it can be worked out twice."""
    return not any(isinstance(inside, (ast.Call, ast.NamedExpr, ast.Await, ast.Yield, ast.YieldFrom)) for inside in ast.walk(node))


def period(test):
    """Of `step % n == 0`, or `not step % n`, the n; else None."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        rest = test.operand
    elif isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], ast.Eq):
        rest = test.left
    else:
        return None
    return rest.right if isinstance(rest, ast.BinOp) and isinstance(rest.op, ast.Mod) and simple(rest.right) else None


def counter(test):
    """What counts in one with a period, if that is all it hangs on; None."""
    rest = next(n for n in ast.walk(test) if isinstance(n, ast.BinOp) and isinstance(n.op, ast.Mod))
    owners = {n.value for n in ast.walk(rest.left) if isinstance(n, ast.Attribute)}
    found = [n for n in ast.walk(rest.left) if isinstance(n, (ast.Name, ast.Attribute)) and n not in owners]
    return found[0] if len(found) == 1 and simple(test) else None


def quiet_in(tree):
    """Names of functions there that have something without gradients."""
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and is_quiet(node)} - TRAINS


def skips(tree):
    """(test, what it passes over) of each `if epoch % n != 0: continue`, where that looks, and learns nothing."""
    quiet = quiet_in(tree)
    for loop in ast.walk(tree):
        for n, node in enumerate(loop.body if isinstance(loop, (ast.For, ast.While)) else ()):
            test, rest = getattr(node, "test", None), loop.body[n + 1:]
            skipped = isinstance(node, ast.If) and not node.orelse and isinstance(node.body[-1], ast.Continue) and isinstance(
                test, ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], ast.NotEq)
            if skipped and period(due(test)) is not None and looks(rest, quiet) and not any(
                    called(part) in LEARNS for statement in rest for part in ast.walk(statement)):
                yield test, rest


def due(test):
    """`step % n == 0`, of `step % n != 0`."""
    return ast.Compare(test.left, [ast.Eq()], test.comparators)


def conditions(tree):
    """The conditions on such numbers of what looks, the part of the test of an `if` each."""
    quiet = quiet_in(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and looks(node.body, quiet):
            parts = [node.test]
            while parts:
                part = parts.pop()
                if isinstance(part, ast.BoolOp):
                    parts += part.values
                elif period(part) is not None:
                    yield part


@functools.lru_cache(None)
def body(path, line):
    """(first line, last line) of what hangs on such a condition at that line of a file; (0, 0): on none."""
    tree = tree_of(path)
    for test, rest in skips(tree):
        if test.lineno == line:
            return rest[0].lineno, rest[-1].end_lineno
    parts = {id(part) for part in conditions(tree) if part.lineno == line}
    return next(((node.body[0].lineno, node.body[-1].end_lineno) for node in ast.walk(tree)
                 if isinstance(node, ast.If) and any(id(part) in parts for part in ast.walk(node.test))), (0, 0))


class Asking(ast.NodeTransformer):
    """Has those conditions ask."""

    def __init__(self, tree, others=()):
        """`others`: parts of tests that ask somebody else."""
        self.skips = {test for test, _ in skips(tree) if test not in others}
        self.parts = {*conditions(tree), *self.skips} - {*others}

    def visit(self, node):
        if node not in self.parts:
            return self.generic_visit(node)
        test = due(node) if node in self.skips else node
        asked = ast.Call(ast.Name(NAME, ast.Load()), [test, period(test), ast.Constant(node.lineno)], [])
        if (found := counter(test)) is not None:
            asked.args += [growing.of_counter(test, found), copy.deepcopy(found), ast.Constant(ast.unparse(found))]
        return ast.fix_missing_locations(ast.copy_location(ast.UnaryOp(ast.Not(), asked) if node in self.skips else asked, node))


def install(answer, found, grows, turns, is_own, recorder, patch):
    """Has the script and its modules ask answer(holds, n, line), with a function of what counts, that, and its name, where one thing
    does, and adds the lines to `found`; and grows(), as growing.py has it, and `turns`, as turning.py. `is_own`: which files are of it."""
    loader = importlib.machinery.SourceFileLoader
    real = loader.get_code

    def compiled(source, path, *args, **kwargs):
        try:
            tree = ast.parse(source, path)
            turning_ = turning.Turning(tree)
            asking, sizes = Asking(tree, turning_.inside), growing.Growing(tree)
            places = {(path, node.lineno, node.col_offset) for node in turning_.parts}
            used = [part for part in (asking, turning_, sizes) if part.parts] + [trainings.Looping(), answers.Answering()]
            for part in used:
                tree = part.visit(tree)
        except (SyntaxError, ValueError, RecursionError):
            return compile(source, path, *args, **kwargs)
        found.update(part.lineno for part in asking.parts)
        turns.places |= places
        return compile(tree if any(part.parts for part in used) else source, path, *args, **kwargs)

    def get_code(self, fullname):
        path = self.get_filename(fullname)
        return compiled(self.get_data(path), path, "exec", dont_inherit=True) if is_own(path) else real(self, fullname)
    patch(loader, "get_code", get_code)
    patch(runpy, "compile", compiled)
    patch(builtins, NAME, answer)
    patch(builtins, growing.NAME, grows)
    patch(builtins, turning.NAME, turns.ask)
    patch(builtins, turning.AT, turns.at)
    answers.install(recorder, patch)
