# SPDX-License-Identifier: MIT
"""Evaluations that come every so many steps or epochs: `if step % args.eval_every == 0: evaluate()`.

A capture is over long before. So a condition of that kind in the script's own code asks here whether it holds, and is told that it does
when its time has come to be looked at.
"""
import ast
import builtins
import functools
import importlib.machinery
import re
import runpy

from . import answers, growing, trainings
from .length import called
from .source import tree_of

TESTS = re.compile(r"(^|_)(eval|evaluate|evaluation|val|valid|validate|validation|test)(_|$)")
SAMPLES = re.compile(r"(^|_)(sample|samples|generate|visualize|inference|pipe|pipeline)(_|$)")
MAKES = re.compile(r"Pipeline$")  # classes of what makes samples when it is called
TRAINS = {"main", "train", "fit"}  # functions that may have something without gradients in them
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


def conditions(tree):
    """The conditions on such numbers of what looks, the part of the test of an `if` each."""
    quiet = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and is_quiet(node)} - TRAINS
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
    parts = {id(part) for part in conditions(tree) if part.lineno == line}
    return next(((node.body[0].lineno, node.body[-1].end_lineno) for node in ast.walk(tree)
                 if isinstance(node, ast.If) and any(id(part) in parts for part in ast.walk(node.test))), (0, 0))


class Asking(ast.NodeTransformer):
    """Has those conditions ask."""

    def __init__(self, tree):
        self.parts = set(conditions(tree))

    def visit(self, node):
        if node not in self.parts:
            return self.generic_visit(node)
        asked = ast.Call(ast.Name(NAME, ast.Load()), [node, period(node), ast.Constant(node.lineno)], [])
        return ast.fix_missing_locations(ast.copy_location(asked, node))


def install(answer, found, grows, is_own, recorder, patch):
    """Has the script and its modules ask answer(holds, n, line), and adds the lines to `found`; and grows(), as growing.py has
    it. `is_own`: which files are of it."""
    loader = importlib.machinery.SourceFileLoader
    real = loader.get_code

    def compiled(source, path, *args, **kwargs):
        try:
            tree = ast.parse(source, path)
            asking, sizes = Asking(tree), growing.Growing(tree)
            used = [part for part in (asking, sizes) if part.parts] + [trainings.Looping(), answers.Answering()]
            for part in used:
                tree = part.visit(tree)
        except (SyntaxError, ValueError, RecursionError):
            return compile(source, path, *args, **kwargs)
        found.update(part.lineno for part in asking.parts)
        return compile(tree if any(part.parts for part in used) else source, path, *args, **kwargs)

    def get_code(self, fullname):
        path = self.get_filename(fullname)
        return compiled(self.get_data(path), path, "exec", dont_inherit=True) if is_own(path) else real(self, fullname)
    patch(loader, "get_code", get_code)
    patch(runpy, "compile", compiled)
    patch(builtins, NAME, answer)
    patch(builtins, growing.NAME, grows)
    answers.install(recorder, patch)
