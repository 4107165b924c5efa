# SPDX-License-Identifier: MIT
"""What in a script hangs on the time, and variables that are nothing but an expression of a clock or a counter:
`elapsed = time.time() - start`, `left = epochs - epoch`."""
import ast
import copy
import datetime
import functools
import math
import operator
import re
import time
import types

from . import ends, expressions, growing

CLOCK = re.compile(r"^(\w+\.)?(time|perf_counter|monotonic|process_time)(_ns)?\(\)$|^(timeit\.)?default_timer\(\)$"
                   r"|^(\w+\.)*(datetime|dt)\.(now|utcnow)\(.*\)$")
WORDS = re.compile(r"^(time|perf_counter|monotonic|process_time)(_ns)?$|^(default_timer|now|utcnow)$")
MODULES = {"", "time", "_time", "t", "timeit"}  # whose functions these are
DEEP = 3  # variables of variables
DAYS = 100  # that clocks are tried for
BEGAN = time.time()  # before the script did
SECONDS = (1e9, 1e10)  # since 1970, of this century and the next two; nanoseconds are a billion times as many
COMPARISONS = {ast.Is: operator.is_, ast.IsNot: operator.is_not, ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt,
               ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge}
NO_CODE = types.SimpleNamespace(co_flags=0)  # of a frame that never ran
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


# --- whether it will ever matter ---

class Asked:
    """A test in a frame. `scope`: its function or module, of that file's `tree`; `loop`: the one that it ends."""

    def __init__(self, frame, scope, tree, loop=None):
        self.frame, self.scope, self.tree, self.moves = frame, scope, tree, attributes(tree) | (stored(loop) if loop else frozenset())

    def decides(self, node):
        """Whether the time may change what that comes to. It does not where a limit is none: `args.hours and ...`, `> math.inf`, a
        function that asks that first."""
        if not hangs(node, self.scope, self.tree):
            return False
        if isinstance(node, ast.BoolOp):
            ends = isinstance(node.op, ast.Or)
            return not any(self.truth(part) is ends for part in node.values) and any(map(self.decides, node.values))
        if isinstance(node, ast.UnaryOp):
            return self.decides(node.operand)
        if isinstance(node, ast.Compare):
            return not any(self.is_endless(part) for part in (node.left, *node.comparators))
        if isinstance(node, ast.Call) and (function := self.function(node.func)):
            return self.of_function(function, node)
        if isinstance(node, ast.Attribute) and (function := self.function(node)):
            return self.of_function(function, None, node.value)
        if isinstance(node, ast.Name) and (set_to := definitions(self.scope).values.get(node.id)):
            return self.decides(set_to.value)
        return True

    def until(self, test, going_on):
        """Seconds from now until the time has that condition end the loop, one for going on or for leaving it; infinite: it never does.
        Raises where nobody knows."""
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            return self.until(test.operand, not going_on)
        if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And) is going_on:  # each part by itself ends it
            return min(self.until(part, going_on) for part in test.values)
        if not self.decides(test):
            return math.inf
        least, most = 0, 1
        while bool(self.at(test, most)) is going_on:
            least, most = most, 2 * most
            if most > DAYS * 86400:
                raise expressions.Unknown
        while most - least > 1e-3:
            middle = (least + most) / 2
            least, most = (middle, most) if bool(self.at(test, middle)) is going_on else (least, middle)
        return most

    def truth(self, node):
        """True or False, of what hangs on no clock and stays as it is; None: it may change, or cannot be worked out."""
        try:
            return None if hangs(node, self.scope, self.tree) else bool(self.at(node))
        except Exception:  # whatever a script's own attributes do when they are asked
            return None

    def at(self, node, later=0):
        """What an expression comes to, so many seconds from now. Raises where that cannot be worked out."""
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            return not self.at(node.operand, later)
        if isinstance(node, ast.BoolOp):
            return (any if isinstance(node.op, ast.Or) else all)(self.at(part, later) for part in node.values)
        if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in COMPARISONS:
            return COMPARISONS[type(node.ops[0])](self.at(node.left, later), self.at(node.comparators[0], later))
        if growing.word(getattr(node, "func", None)) == "timedelta":
            return datetime.timedelta(*map(self.at, node.args), **{word.arg: self.at(word.value) for word in node.keywords})
        return self.moment(node, later) if hangs(node, self.scope, self.tree) else self.value(node)

    def moment(self, node, later):
        """The same of what hangs on the time."""
        if is_clock(node):
            if growing.word(node.func).startswith("process_time"):
                raise expressions.Unknown  # of processors that are busy it says nothing
            return moved(self.value(node.func)(*map(self.value, node.args)), later)
        if isinstance(node, ast.BinOp) and type(node.op) in expressions.OPERATORS:
            return expressions.OPERATORS[type(node.op)](plain(self.at(node.left, later)), plain(self.at(node.right, later)))
        if isinstance(node, ast.Call) and growing.word(node.func) in expressions.FUNCTIONS and not node.keywords:
            return expressions.FUNCTIONS[growing.word(node.func)](*(plain(self.at(part, later)) for part in node.args))
        if isinstance(node, ast.Call) and growing.word(node.func) == "total_seconds":
            return self.at(node.func.value, later).total_seconds()
        call = isinstance(node, ast.Call)
        if call or isinstance(node, ast.Attribute):
            if function := self.function(node.func if call else node):
                found, inside = self.returned(function, node if call else None, None if call else node.value)
                return inside.at(found, later)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.BinOp):
            return getattr(plain(self.at(node.value, later)), node.attr)
        set_to = definitions(self.scope).values.get(ast.unparse(node))
        if set_to and (ast.unparse(node) in self.moves or self.frame.f_code is NO_CODE):
            return self.at(set_to.value, later)
        return plain(self.value(node))

    def value(self, node):
        if any(isinstance(n, (ast.Name, ast.Attribute)) and ast.unparse(n) in self.moves for n in ast.walk(node)):
            raise expressions.Unknown
        found = expressions.value(node, self.frame)
        if is_date(found) and not any(ast.unparse(n) in moments(self.tree) for n in ast.walk(node)
                                      if isinstance(n, (ast.Name, ast.Attribute))):
            raise expressions.Unknown  # how long a run has until then hangs on when it begins, which is not now
        return found

    def is_endless(self, node):
        try:
            return not hangs(node, self.scope, self.tree) and abs(self.value(node)) == math.inf
        except Exception:
            return False

    def function(self, name):
        """Of the script's file, or of a class there; None: there is none, or several."""
        named, classes = declared(self.tree)
        found = named.get(growing.word(name), [])
        if len(found) > 1:
            if isinstance(name, ast.Attribute):
                found = [node for one in classes if one.name == self.kind(name.value) for node in one.body if node in found]
            else:
                found = [node for node in found if not any(node in one.body for one in classes)]
        return found[0] if len(found) == 1 else None

    def kind(self, node):
        try:
            return type(self.value(node)).__name__
        except Exception:  # whatever a script's own attributes do when they are asked
            return ""

    def returned(self, function, call, owner=None):
        """(that, in a frame of the function; Asked of this), as far as tests that hang on no clock lead to it. Raises where they do not."""
        owner = owner or (call.func.value if isinstance(call.func, ast.Attribute) else None)
        given = ([owner] if owner is not None else []) + (call.args if call else [])
        names = [a.arg for a in function.args.args]
        local = {name: node.value for name, node in zip(names[::-1], function.args.defaults[::-1]) if isinstance(node, ast.Constant)}
        local.update((name, self.value(node)) for name, node in zip(names, given))
        local.update((word.arg, self.value(word.value)) for word in (call.keywords if call else ()) if word.arg in names)
        inside = Asked(types.SimpleNamespace(f_locals=local, f_globals=self.frame.f_globals, f_code=NO_CODE), function, self.tree)
        for statement in function.body:
            if isinstance(statement, ast.Assign) or isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
                continue
            if isinstance(statement, ast.If):
                holds = inside.truth(statement.test)
                if holds is False and not statement.orelse:
                    continue
                statement = statement.body[0] if holds else None
            if not isinstance(statement, ast.Return):
                raise expressions.Unknown
            return statement.value or ast.Constant(None), inside
        return ast.Constant(None), inside

    def of_function(self, function, call, owner=None):
        """As decides(), of what it returns."""
        try:
            found, inside = self.returned(function, call, owner)
        except Exception:  # whatever a script's own attributes do when they are asked
            return True
        return inside.decides(found)


def moved(moment, seconds):
    """What a clock says that says this now, so much later."""
    if isinstance(moment, datetime.datetime):
        return moment + datetime.timedelta(seconds=seconds)
    return moment + (round(seconds * 1e9) if isinstance(moment, int) else seconds)


def is_date(found):
    """Whether that is a moment which did not come between the script's begin and now, as a clock on the wall has it."""
    if isinstance(found, datetime.datetime):
        found = found.timestamp()
    if type(found) not in (int, float):
        return False
    found = found / 1e9 if found > 1e9 * SECONDS[0] else found
    return SECONDS[0] < found < SECONDS[1] and not BEGAN <= found <= time.time()


@functools.lru_cache(64)
def moments(tree):
    """Variables, attributes and parameters that somewhere in that file are given what hangs on the time."""
    nodes, found, before = list(ast.walk(tree)), set(), None
    named, classes = declared(tree)
    made = {one.name: node for one in classes for node in one.body if isinstance(node, ast.FunctionDef) and node.name == "__init__"}
    calls = [(node, one) for node in nodes if isinstance(node, ast.Call)
             for one in (*named.get(growing.word(node.func), ()), *filter(None, [made.get(growing.word(node.func))]))]
    several = [pair for node in nodes if isinstance(node, ast.Assign) for pair in ends.pairs(node)]
    alone = [(node.target, node.value) for node in nodes if isinstance(node, (ast.AugAssign, ast.AnnAssign, ast.NamedExpr)) and node.value]
    while before != len(found):
        before = len(found)
        found |= {ast.unparse(target) for target, value in several + alone if contains(value, found)}
        for call, function in calls:
            names = [a.arg for a in function.args.args]
            given = [*zip(names[names[:1] == ["self"]:], call.args), *((word.arg, word.value) for word in call.keywords)]
            found |= {name for name, value in given if contains(value, found)}
    return found


def plain(found):
    """A number or a time as it is, and nothing that came from the GPU."""
    if type(found) not in (bool, int, float, datetime.datetime, datetime.timedelta):
        raise expressions.Unknown
    return found


@functools.lru_cache(64)
def declared(tree):
    """({name: functions of that name}, classes) of a file, wherever they stand in it."""
    functions, nodes = {}, list(ast.walk(tree))
    for node in nodes:
        if isinstance(node, ast.FunctionDef):
            functions.setdefault(node.name, []).append(node)
    return functions, [node for node in nodes if isinstance(node, ast.ClassDef)]


@functools.lru_cache(256)
def stored(place):
    """Names of variables and attributes that are set there."""
    return frozenset(ast.unparse(n) for n in ast.walk(place) if isinstance(getattr(n, "ctx", None), ast.Store))


@functools.lru_cache(64)
def attributes(tree):
    """Those that a function sets, when somebody calls it: but for `__init__`."""
    functions = [n for n in ast.walk(tree) if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef)) and n.name != "__init__"]
    return frozenset(name for function in functions for name in stored(function) if "." in name)


@functools.lru_cache(256)
def definitions(scope):
    return Definitions(scope, growing.within(scope))
