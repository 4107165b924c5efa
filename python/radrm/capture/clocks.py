# SPDX-License-Identifier: MIT
"""What in a script hangs on the time, and variables that are nothing but an expression of a clock or a counter:
`elapsed = time.time() - start`, `left = epochs - epoch`."""
import ast
import copy
import functools
import re

from . import growing

CLOCK = re.compile(r"^(\w+\.)?(time|perf_counter|monotonic|process_time)(_ns)?\(\)$|^(timeit\.)?default_timer\(\)$"
                   r"|^(\w+\.)*(datetime|dt)\.(now|utcnow)\(.*\)$")
WORDS = re.compile(r"^(time|perf_counter|monotonic|process_time)(_ns)?$|^(default_timer|now|utcnow)$")
MODULES = {"", "time", "_time", "t", "timeit"}  # whose functions these are
DEEP = 3  # variables of variables
LOOKS = (*growing.PLAIN, ast.BoolOp, ast.boolop, ast.Set, ast.Dict)


def is_clock(node):
    """Whether that asks what time it is."""
    return isinstance(node, ast.Call) and bool(WORDS.search(growing.word(node.func))) and bool(CLOCK.search(found := ast.unparse(node))) \
        and ("." not in found or found.rpartition(".")[0] in MODULES or "now" in growing.word(node.func))


def is_plain(node, known=()):
    """Whether an expression has no effects; those `known` have none."""
    return all(isinstance(n, LOOKS) and not (isinstance(n, ast.Call) and n not in known and not is_clock(n) and growing.word(
        n.func) != "total_seconds" and (growing.word(n.func) not in growing.FUNCTIONS or n.keywords)) for n in ast.walk(node))


def contains(node, names=()):
    """Whether there is a clock in it, or one of these variables."""
    return any(is_clock(n) or isinstance(n, (ast.Name, ast.Attribute)) and names and ast.unparse(n) in names for n in ast.walk(node))


class Definitions:
    """Variables of a function or a module that are set in one place, and to what."""

    def __init__(self, scope, nodes):
        self.loops, waiting = {}, [(node, None) for node in (scope.body if isinstance(scope.body, list) else [scope.body])]
        for node, loop in waiting:
            self.loops[node] = loop
            if not isinstance(node, growing.SCOPES):
                inside = node if isinstance(node, (ast.For, ast.While)) else loop
                waiting += [(child, inside) for child in ast.iter_child_nodes(node)]
        places, self.values = {}, {}
        for node in nodes:
            if isinstance(getattr(node, "ctx", None), ast.Store):
                places[ast.unparse(node)] = places.get(ast.unparse(node), 0) + 1
        for node in nodes:
            if isinstance(node, ast.Assign) and len(node.targets) == 1 and places.get(name := ast.unparse(node.targets[0])) == 1:
                self.values[name] = node

    def of(self, test, hangs, plain):
        """What it is with variables in place that come to something which `hangs` on what moves; None: none does. Of a clock where
        it is asked in each round that the test is; `plain`: whether an expression has no effects."""
        found, home = test, self.loops.get(test)
        for _ in range(DEEP):
            fit = [node for n in ast.walk(found) if isinstance(n, (ast.Name, ast.Attribute)) and (node := self.values.get(ast.unparse(n)))
                   and plain(node.value) and (self.loops[node] is home or self.loops[node] and not contains(node.value))]
            if not fit:
                return None
            node = max(fit, key=lambda node: node.lineno)
            found = Inline(ast.unparse(node.targets[0]), node.value).visit(copy.deepcopy(found))
            if hangs(found):
                return found
        return None


class Inline(ast.NodeTransformer):
    """A variable's value in its place."""

    def __init__(self, name, value):
        self.name, self.value = name, value

    def visit(self, node):
        if isinstance(node, (ast.Name, ast.Attribute)) and ast.unparse(node) == self.name:
            return copy.deepcopy(self.value)
        return self.generic_visit(node)


def timed(nodes):
    """Variables that are set to what hangs on the time."""
    found, more = set(), True
    while more:
        more = {ast.unparse(target) for node in nodes if isinstance(node, (ast.Assign, ast.AugAssign)) and contains(node.value, found)
                for target in (node.targets if isinstance(node, ast.Assign) else [node.target])} - found
        found |= more
    return found


@functools.lru_cache(64)
def functions(tree):
    """{name: how it is called} of a file's functions that give what hangs on the time: "()", or "" of a property, where that is all that
    they do; else None."""
    found = {}
    for scope in ast.walk(tree):
        if isinstance(scope, (ast.FunctionDef, ast.AsyncFunctionDef)):
            nodes = growing.within(scope)
            returned = [node.value for node in nodes if isinstance(node, ast.Return) and node.value is not None]
            if returned and any(contains(value, timed(nodes)) for value in returned):
                body = [node for node in scope.body if not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))]
                asked = "" if any(growing.word(part) == "property" for part in scope.decorator_list) else "()"
                found[scope.name] = asked if len(body) == 1 and is_plain(returned[0]) else None
    return found


@functools.lru_cache(256)
def names(scope):
    return timed(growing.within(scope))


def hangs(test, scope, tree):
    """Whether a test of that function or module, of that file, hangs on the time."""
    found = functions(tree)
    return contains(test, names(scope)) or any(
        (growing.word(n.func) if isinstance(n, ast.Call) else growing.word(n)) in found for n in ast.walk(test)
        if isinstance(n, (ast.Call, ast.Attribute)))
