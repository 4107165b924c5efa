# SPDX-License-Identifier: MIT
"""What a script does from some step or epoch on, or at one: `if step == 1000: evaluate()`, `if epoch >= 10: unfreeze()`,
`if step > 500: size *= 2`, `if time.time() - start > 600: evaluate()`.

A capture sees the first steps. So a test in the script's own code that hangs on something that counts, up or down, or on the time, and
decides about more than what is told, asks here. Once enough was seen otherwise it is given the answers that are still to come in the
run; those that end a loop last of all. What is not reached all the same is told, as a doubt.
"""
import ast
import copy
import functools
import math
import os
import re
import sys
from datetime import datetime, timedelta

from . import fileformat as ff, growing, idle
from .clocks import DAYS, Definitions, Inline, functions, hangs, is_clock, is_plain
from .length import POPS, called
from .source import tree_of

NAME, AT = "__radrm_turns__", "__radrm_at__"  # what the tests call; what stands in their arms for a counter
FAR = 1 << 20  # counters that are tried; as far as a run is looked at whose end is not known
MOST = 16  # answers that are given of a test whose arm changes a size by what it was
FINER = 1.1  # times as much time, from one to the next
TRIED = 2  # steps after one: the first makes an optimizer's state, the second has it all along
WAITS = 4  # steps after which a test that was asked once is asked again
COUNTS = re.compile(r"^(current_|cur_|global_|train_)?(step|epoch|ep|iter|it|itr|iteration|update)(_num|_idx|_no)?$"
                    r"|^(n|num)_(iter|updates)$")
# Calls that take no memory on the GPU beside those of idle.py.
QUIET = re.compile(r"^(range|enumerate|zip|sum|mean|pow|sorted|set_\w*epoch|set_postfix|set_description|refresh|tqdm|barrier|synchronize"
                   r"|flush|empty_cache|collect|zero_grad|perf_counter|close|group|sleep|exists|is_main_process|next|iter)$")
RATES = re.compile(r"(^|_)(lr|rate|learning_rate|sched\w*|beta|decay|warm\w*|anneal\w*|lambda|weight|temperature|momentum|cosine)(_|$)")
OWNERS = re.compile(r"sched|bar$|meter|metric|logger|tqdm|profil|timer|^prof$", re.IGNORECASE)  # of step() and update()
MODULES = {"math", "time", "datetime", "datetime.datetime", "os", "sys", "json", "logging", "random", "gc"}
MODES = {"train", "eval"}  # without arguments
AMOUNTS = (ast.Name, ast.Attribute, ast.Constant, ast.BinOp, ast.UnaryOp, ast.Call, ast.Subscript, ast.operator, ast.unaryop,
           ast.expr_context)
MEASURES = {"len", "numel", "nelement", "size"}  # what else is called in one


class Part:
    """Such a test: its `counter`, of which it is that function, whether that is a clock, which `way` it counts; lines of `loops` that
    count it, whether it `restarts` within the run; what is done where it holds, and where not; whether a loop is around that in its
    function."""

    def __init__(self, counter, function, arms, scope, counts):
        self.counter, self.function, self.arms, self.scope = counter, function, arms, scope
        way = counts.get(ast.unparse(counter), 1)
        self.clock, self.way = is_clock(counter) or way == 0, way or 1
        loops = [node for node in growing.within(scope) if isinstance(node, (ast.For, ast.While))]
        name, arms = ast.unparse(counter), {node for arm in arms.values() for node in arm}
        self.loops = {loop.lineno for loop in loops if isinstance(loop, ast.For) and name in map(ast.unparse, ast.walk(loop.target))}
        own = {node for arm in arms for node in ast.walk(arm)}
        self.restarts = bool(self.loops) or any(is_number(node, name) and node not in own for loop in loops for node in ast.walk(loop))
        self.scaled = any(isinstance(getattr(node, "op", None), (ast.Mult, ast.Div)) and ast.unparse(node.target) == name
                          for node in growing.within(scope) if isinstance(node, ast.AugAssign))
        self.looped = any(node in arms for loop in loops for node in ast.walk(loop))

    @functools.cached_property
    def named(self):
        """What says how large something is there."""
        return {ast.unparse(node) for node in growing.sizes(growing.within(self.scope))}

    def matters(self, holds):
        return any(matters(node, self.named, self.scope, self.leaves(holds)) for node in self.arms[holds])

    def adds(self, holds):
        """Whether it may matter more each time."""
        return any(isinstance(n, ast.AugAssign) or called(n) in ("append", "add_module", "add_param_group") or assigns_anew(n)
                   or isinstance(n, ast.Subscript) and ast.unparse(n.slice) == ast.unparse(self.counter)
                   for node in self.arms[holds] for n in ast.walk(node))

    def leaves(self, holds):
        """Whether the loop around is over then."""
        last = self.arms[holds][-1] if self.arms[holds] else None
        return isinstance(last, ast.Break) or isinstance(last, ast.Return) and self.looped

    def looks(self, holds, quiet):
        from .every import looks
        return looks(self.arms[holds], quiet)


def assigns_anew(node):
    """`size = size * 2`."""
    return isinstance(node, ast.Assign) and any(ast.unparse(target) == ast.unparse(n) for target in node.targets
                                                for n in ast.walk(node.value) if isinstance(n, (ast.Name, ast.Attribute)))


def is_quiet(call):
    """Whether a call takes no memory on the GPU, by its name and whose it is."""
    name, owner = called(call), ast.unparse(call.func.value) if isinstance(call.func, ast.Attribute) else ""
    return (idle.is_quiet(call) or bool(QUIET.search(name) or RATES.search(name)) or owner in MODULES
            or name in ("step", "update") and bool(OWNERS.search(owner))
            or name in MODES and bool(owner) and not call.args and not call.keywords)


def calls(node):
    """Whether something is called there that may take memory."""
    return any(isinstance(n, ast.Call) and not is_quiet(n) for n in ast.walk(node))


def matters(node, named, scope, leaves=False):
    """Whether more may be taken once that is done. `named`: what says how large something is, `scope`: the function that it is in;
    `leaves`: the loop around is over then, so flags decide nothing."""
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Raise)):
        return False
    if isinstance(node, (ast.If, ast.For, ast.While, ast.With, ast.Try)):
        inside = [*node.body, *getattr(node, "orelse", ()), *getattr(node, "finalbody", ())]
        return any(matters(n, named, scope, leaves) for n in inside) or isinstance(node, ast.For) and calls(node.iter)
    if isinstance(node, ast.expr):
        return calls(node) or isinstance(node, ast.Constant) and type(node.value) is int
    value = getattr(node, "value", None)
    if value is not None and calls(node):
        return True
    number = isinstance(value, ast.Constant) and type(value.value) is int
    if isinstance(node, ast.Return):
        name = getattr(scope, "name", "")
        return number and not RATES.search(name) or bool(growing.SIZES.search(name))
    targets = idle.targets_of(node)
    if any(growing.SIZES.search(growing.word(target)) or ast.unparse(target) in named for target in targets):
        return True
    if not targets or idle.idle(node) or all(idle.BEST.search(growing.word(target).lower()) for target in targets):
        return False
    grad = any(growing.word(target) == "requires_grad" for target in targets)
    if grad or leaves:
        return grad
    return number or isinstance(value, (ast.Name, ast.Attribute)) or isinstance(value, ast.Constant) and isinstance(
        value.value, (bool, str))


# --- which tests ---

def counts_of(scope, nodes, asks):
    """What counts there, as growing.py has it, by whatever amount, or by a factor; how many are left in a list; 0, what the functions
    `asks` give that only ask a clock, as clocks.py has them."""
    anew = begun_anew(scope, nodes)
    nodes = [node for node in nodes if node not in anew]
    found = growing.counters(scope, nodes)
    for node in nodes:
        name = called(node)
        if asks.get(name) == "()" or isinstance(node, ast.Attribute) and asks.get(node.attr) == "":
            found[ast.unparse(node)] = 0
        elif name in POPS | {"append"} and isinstance(node.func, ast.Attribute):
            found.setdefault(f"len({ast.unparse(node.func.value)})", 1 if name == "append" else -1)
        counted = growing.added(node)
        if counted and is_amount(counted[2]):
            found.setdefault(ast.unparse(counted[0]), counted[1])
        elif isinstance(node, ast.AugAssign) and isinstance(node.op, (ast.Mult, ast.Div)) and is_amount(node.value):
            found.setdefault(ast.unparse(node.target), 1)
    return found


def begun_anew(scope, nodes):
    """Sums in a function, of variables that are its own, in none of its loops: `t = t + pad`. The next call begins with others."""
    if not isinstance(scope, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return set()
    given = {a.arg for a in (*scope.args.posonlyargs, *scope.args.args, *scope.args.kwonlyargs)}
    given |= {name for node in nodes if isinstance(node, (ast.Global, ast.Nonlocal)) for name in node.names}
    looped = {inside for node in nodes if isinstance(node, (ast.For, ast.While)) for inside in ast.walk(node)}
    sums = ((node, growing.added(node)) for node in nodes if node not in looped)
    return {node for node, found in sums if found and isinstance(found[0], ast.Name) and found[0].id not in given}


def is_amount(node):
    """Whether it may be a number, worked out without effects."""
    return all(isinstance(n, AMOUNTS) and (not isinstance(n, ast.Call) or growing.word(n.func) in MEASURES) for n in ast.walk(node))


def of_not(test):
    return test.operand if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not) else test


def counter_of(node, counts):
    """What counts in a test without effects, a clock too; None: nothing does, or more than one thing, or it has some. `counts`: what
    does for sure, as it stands there."""
    bare = of_not(node)
    if isinstance(bare, (ast.Name, ast.Attribute)) and counts.get(ast.unparse(bare)) == -1 or called(bare) == "len" and ast.unparse(
            bare) in counts:
        return bare
    inside = list(ast.walk(node))
    if not any(isinstance(n, (ast.Compare, ast.Mod)) for n in inside):
        return None
    words = {name.rpartition(".")[2] for name in counts}
    found = [n for n in inside if (word := growing.word(n)) and (word in words or COUNTS.search(word)) or isinstance(n, ast.Call)
             and ast.unparse(n) in counts]
    clock = next(filter(is_clock, inside), None)
    if not (found or clock) or found and clock and isinstance(node, ast.BoolOp) or not is_plain(node, found):
        return None
    return clock or next((n for n in found if ast.unparse(n) in counts), next((n for n in found if COUNTS.search(growing.word(n))), None))


def of_list(test, counts):
    """`len(todo)`, of a test `not todo`, where that gets shorter; None."""
    bare = of_not(test)
    if isinstance(bare, (ast.Name, ast.Attribute)) and counts.get(f"len({ast.unparse(bare)})") == -1:
        return ast.copy_location(ast.Call(ast.Name("len", ast.Load()), [bare], []), bare)
    return None


def units(test, counts, known=lambda: None):
    """(part of a test, its counter, what it is of that) of all that hangs on a counter alone, or on a variable that does; `known`: gives
    Definitions."""
    counter = counter_of(test, counts)
    if counter is None and (bare := of_list(test, counts)) is not None:
        yield test, bare, Inline(ast.unparse(bare.args[0]), bare).visit(copy.deepcopy(test))
    elif counter is not None:
        yield test, counter, test
    elif isinstance(test, ast.BoolOp):
        for value in test.values:
            yield from units(value, counts, known)
    elif isinstance(test, (ast.Compare, ast.UnaryOp)) and is_plain(test) and known() is not None:
        found = known().of(test, lambda node: counter_of(node, counts) is not None, is_plain)
        if found is not None:
            yield test, counter_of(found, counts), found


def blocks(scope):
    """Lists of statements of a function or a module."""
    for node in (scope, *growing.within(scope)):
        for name in ("body", "orelse", "finalbody"):
            block = getattr(node, name, None)
            if isinstance(block, list):
                yield block


def tests(scope):
    """(test, {whether it holds: what is done then}) of a function or a module."""
    for block in blocks(scope):
        for n, node in enumerate(block):
            if isinstance(node, ast.If):
                leaves = isinstance(node.body[-1], (ast.Continue, ast.Return))
                yield node.test, {True: node.body, False: node.orelse or (block[n + 1:] if leaves else [])}
    for node in growing.within(scope):
        if isinstance(node, ast.IfExp):
            yield node.test, {True: [node.body], False: [node.orelse]}
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.BoolOp) and isinstance(node.value.op, ast.And):
            for value in node.value.values[:-1]:
                yield value, {True: [node.value.values[-1]], False: []}


def flags(scopes):
    """({(scope, name): arms} of what is asked by a variable's name, {name: arms} by a function's)"""
    variables, functions = {}, {}

    def visit(scope, test, arms):
        if isinstance(test, ast.BoolOp):
            for value in test.values:
                visit(scope, value, arms)
        elif isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            visit(scope, test.operand, {holds: arms[not holds] for holds in arms})
        elif isinstance(test, (ast.Name, ast.Attribute)):
            add(variables, (scope, ast.unparse(test)), arms)
        elif called(test):
            add(functions, called(test), arms)

    def add(found, key, arms):
        known = found.setdefault(key, {True: [], False: []})
        for holds in arms:
            known[holds] += arms[holds]
    for scope in scopes:
        for test, arms in tests(scope):
            visit(scope, test, arms)
    return variables, functions


def is_number(node, name):
    """Whether that is set to a number there."""
    return isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant) and name in map(ast.unparse, node.targets)


def of_flags(nodes, scope, known):
    """(test, its arms) of what is nothing but one: a variable's value, what a function gives. `known`: gives what flags() does."""
    for node in nodes:
        value = getattr(node, "value", None)
        if not isinstance(value, (ast.Compare, ast.BoolOp, ast.UnaryOp)):
            continue
        arms = None
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            arms = known()[0].get((scope, ast.unparse(node.targets[0])))
        elif isinstance(node, ast.Return):
            arms = known()[1].get(getattr(scope, "name", ""))
        if arms:
            yield value, arms


def parts(tree):
    """{test, or part of one: Part} of a file; of those that hang on the time in a way that is not to be worked out, the counter is
    None."""
    from .every import looks, period, quiet_in, skips
    scopes = [n for n in ast.walk(tree) if isinstance(n, (ast.Module, ast.FunctionDef, ast.AsyncFunctionDef))]
    known, quiet = functools.cache(lambda: flags(scopes)), functools.cache(lambda: quiet_in(tree))
    skipped, found, unclear, asked_of = functools.cache(lambda: {test for test, _ in skips(tree)}), {}, [], set()

    def is_known(unit, counts, arms):
        """Whether every.py has it."""
        whole = [n for n in ast.walk(unit) if isinstance(n, (ast.Compare, ast.UnaryOp)) and counter_of(n, counts) is not None]
        return unit in skipped() or any(period(n) is not None for n in whole) and all(
            period(n) is not None for n in whole) and looks(arms[True], quiet())
    for scope in scopes:
        nodes = growing.within(scope)
        counts = counts_of(scope, nodes, functions(tree))
        defined = functools.cache(lambda scope=scope, nodes=nodes: Definitions(scope, nodes))
        sizes = functools.cache(lambda scope=scope: {n for node in growing.growing(scope) for n in ast.walk(node)})
        asked = [(test, arms, True) for test, arms in of_flags(nodes, scope, known)]
        for test, arms, flag in asked + [(test, arms, False) for test, arms in tests(scope)]:
            alone = list(units(test, counts, defined))
            if alone and flag:
                asked_of.add(getattr(scope, "name", ""))
            if not alone and any(isinstance(n, (ast.Compare, ast.Call)) for n in ast.walk(test)) and hangs(test, scope, tree):
                unclear.append((test, Part(ast.Constant(None), test, arms, scope, counts)))
            for unit, counter, function in alone:
                if (flag or not is_known(unit, counts, arms)) and unit not in sizes():
                    part = Part(counter, function, arms, scope, counts)
                    if part.matters(True) or part.matters(False):
                        found[unit] = part
    found.update((test, part) for test, part in unclear if called(of_not(test)) not in asked_of and part.matters(True))
    return found


@functools.lru_cache(None)
def parts_of(path):
    return {(node.lineno, node.col_offset): part for node, part in parts(tree_of(path)).items()}


class Turning(ast.NodeTransformer):
    """Has those tests ask."""

    def __init__(self, tree):
        self.parts = parts(tree)
        self.inside = {n for part in self.parts for n in ast.walk(part)}
        self.places = {}  # a counter in an arm: `sizes[step]`, behind `step in sizes` -> the test
        for unit, part in self.parts.items():
            held = {ast.unparse(n.comparators[0]) for n in ast.walk(unit) if isinstance(n, ast.Compare) and isinstance(n.ops[0], ast.In)}
            for n in (n for node in part.arms[True] for n in ast.walk(node)):
                if isinstance(n, ast.Subscript) and ast.unparse(n.value) in held and ast.unparse(n.slice) == ast.unparse(part.counter):
                    self.places[n.slice] = unit

    def visit(self, node):
        if node in self.places:
            unit = self.places[node]
            return self.call(node, AT, node, ast.Constant(unit.lineno), ast.Constant(unit.col_offset))
        if node not in self.parts:
            return self.generic_visit(node)
        counter, function = self.parts[node].counter, self.parts[node].function
        return self.call(node, NAME, node, growing.of_counter(function, counter), copy.deepcopy(counter), ast.Constant(node.lineno),
                         ast.Constant(node.col_offset))

    def call(self, node, name, *arguments):
        return ast.fix_missing_locations(ast.copy_location(ast.Call(ast.Name(name, ast.Load()), list(arguments), []), node))


# --- what they are told ---

class Counter:
    """What counts, for all tests that hang on it: they see the same in a round, so what one has made is there for the next. `turns`: those
    that may be given answers; `shift`: by how much it is told to be further on than it is."""

    def __init__(self):
        self.turns, self.counter, self.now, self.shift, self.stepped = [], None, None, 0, -1

    @property
    def waits(self):
        return any(turn.waits for turn in self.turns)

    def at(self, counter, step):
        """Where it is told to be: for the first that asks in a round it leaps to the next answer to be given, once a step."""
        if counter == self.counter:
            return self.now
        self.counter, self.now = counter, counter + self.shift if self.shift else counter
        coming = [turn.coming[turn.given] for turn in self.turns if turn.waits] if step != self.stepped else []
        if coming:
            self.now = (min if self.turns[0].part.way > 0 else max)(coming)
            self.shift, self.stepped = self.now - counter, step
        return self.now


class Turn(growing.Asked):
    """Such a test, as growing.py has sizes. `coming`: counters of the run whose answers are to be given, None: not known yet; `ending`:
    the counter at which a loop ends; `by`: whole numbers that it counts by; `count`: its Counter; `peaks`: bytes that were taken at most
    when each answer was given."""

    def __init__(self, counter, part, count):
        super().__init__(counter, part.way)
        self.part, self.answers, self.coming, self.given, self.stepped, self.count = part, set(), None, 0, -1, count
        count.turns.append(self)
        self.ending = self.began = None
        self.by, self.factor, self.peaks = 0, 1, []

    def again(self, value, function, counter, step):
        if type(counter) is int and type(self.last) is int:
            self.by = math.gcd(self.by, counter - self.last)
        if self.part.scaled and counter != self.last and self.last:
            self.factor = counter / self.last
        super().again(bool(value), function, counter, step)
        self.answers.add(bool(value))

    @property
    def each(self):
        """By how much it moved from one time to the next."""
        return abs(self.last - self.first) / max(self.times - 1, 1)

    def wanted(self):
        """Answers that were not seen, and matter, or matter more each time."""
        return {holds for holds in (True, False) if self.part.matters(holds) and (holds not in self.answers or self.part.adds(holds))}

    def ahead(self, end, more):
        """What it counts from now on, up to that; None: nobody knows how far. `more`: once more at the end."""
        last, whole = self.last, type(self.last) is int
        if self.part.clock:
            moment = self.way * (timedelta(milliseconds=1) if isinstance(last, datetime) else 10**6 if whole else 1e-3)
            for n in range(round(math.log(DAYS * 86400e3, FINER))):
                yield last + (round(moment * FINER**n) if whole else moment * FINER**n)
        elif self.factor != 1:
            for n in range(1, FAR if end is None else round(abs(end - last) / self.each) + 1 if self.each else 0):
                if not 1e-300 < abs(last) < 1e300:
                    break
                last *= self.factor
                yield last
        elif whole or self.each:
            by = self.way * ((self.by or 1) if whole else self.each)
            times = FAR if end is None else min(FAR, math.floor(abs(end - last) / abs(by) + 1e-6)) + more
            yield from (last + by * n for n in range(1, times + 1))

    def find(self, end):
        """What is to come up to that counter; None: nobody knows how far it counts."""
        self.coming, wanted = [], self.wanted()
        before = bool(self.function(self.last))
        for counter in self.ahead(end, any(map(self.part.leaves, wanted))) if wanted else ():
            holds = bool(self.function(counter))
            if holds != before and holds in wanted:
                if self.part.leaves(holds):
                    self.ending = counter
                    break
                self.coming.append(counter)
                if not self.part.adds(holds) or len(self.coming) >= MOST:
                    break
            before = holds

    def after(self, counter):
        """How often it is asked until that; infinite: nobody knows."""
        if self.part.clock or self.factor != 1:
            return math.inf
        return max(abs(counter - self.first) / (self.each or 1), 1)

    @property
    def outer(self):
        """Whether it is asked once an epoch."""
        return self.times == 1 or self.began is not None

    @property
    def waits(self):
        return self.coming is not None and self.given < len(self.coming)

    def answer(self, holds, now, step):
        """What is to be told where it counts that; one that ends a loop waits for all others."""
        if self.waits and now == self.coming[self.given]:
            self.stepped, self.given = step, self.given + 1
        return self.function(now) if self.counts and self.ending is None else holds


class Turns:
    """Told of what such tests ask, while a script runs."""

    def __init__(self, later):
        self.later, self.asked = later, {}  # (file, line, column) -> Turn
        self.turned = -TRIED  # steps since the script goes on, as of the last one that was given
        self.places = set()  # (file, line, column) of all that may ask
        self.unclear = {}  # likewise, of those that hang on the time somehow -> answers
        self.counters = {}  # (function or file, as it stands there) -> Counter

    def count(self, frame, name):
        """The Counter of that name."""
        code = frame.f_code
        own = name in code.co_varnames + code.co_cellvars + code.co_freevars
        return self.counters.setdefault((code if own else code.co_filename, name), Counter())

    def ask(self, holds, function, counter, line, column):
        """What such a test comes to."""
        frame, later = sys._getframe(1), self.later
        where = frame.f_code.co_filename, line, column
        if counter is None:
            self.unclear.setdefault(where, set()).add(bool(holds))
        if type(counter) not in (int, float, datetime) or later.trying:
            return holds
        if where not in self.asked:
            part = parts_of(where[0])[line, column]
            self.asked[where] = Turn(counter, part, Counter() if part.clock else self.count(frame, ast.unparse(part.counter)))
        turn, step = self.asked[where], later.session.learnt()
        if not later.going:
            turn.again(holds, function, counter, step)
            turn.count.at(counter, step)
            return holds
        if turn.coming is None:
            new = turn.times == 0
            turn.counts = turn.counts and (step not in turn.steps or turn.part.clock)  # not in a loop within a step
            turn.again(holds, function, counter, step)
            if new or not turn.counts:
                turn.began = later.steps
                turn.count.at(counter, step)
                return holds
            self.decide(turn, where[0])
        now = turn.count.at(counter, step)
        turn.function, before = function, turn.given
        found = turn.answer(holds, now, step)
        if turn.given > before:
            turn.peaks.append(later.session.recorder.peak_bytes)
            self.tells(turn, frame.f_code, where, found)
        return found

    def told(self, holds, frame, function, counter, name):
        """(whether another test of what counts by that name holds, whether answers of that are still to be given)"""
        if type(counter) is not int:
            return holds, False
        count = self.count(frame, name)
        now = count.at(counter, self.later.session.learnt())
        return function(now) if now != counter else holds, count.waits

    def at(self, counter, line, column):
        """A counter in an arm of such a test."""
        turn = self.asked.get((sys._getframe(1).f_code.co_filename, line, column))
        return counter + turn.count.shift if turn is not None and type(counter) is int else counter

    def tells(self, turn, code, where, holds):
        from . import every
        later, arm = self.later, turn.part.arms[bool(holds)]
        self.turned = later.steps
        if arm and turn.part.looks(bool(holds), every.quiet_in(tree_of(where[0]))):
            later.due[where[:2]] = number = turn.after(turn.coming[turn.given - 1])
            later.asked.setdefault(where[:2], [0 if turn.outer else turn.times, 0, number])
            later.trainings.tests(code, (arm[0].lineno, arm[-1].end_lineno))

    def decide(self, turn, path):
        """What comes of one; where it counts trainings, nothing: they are gone through."""
        if any(loop.where[0] == path and loop.where[1] in turn.part.loops and loop.trains() for loop in self.later.trainings.around_us()):
            turn.coming = []
            return
        try:
            turn.find(None if turn.part.clock else self.end(turn))
        except Exception:  # whatever a script's own values do where they are asked
            turn.coming = []

    def end(self, turn):
        """What its counter comes to; None: nobody knows."""
        length = self.later.session.length
        steps, inner = length.steps, length.inner
        epochs = steps / inner if 1 <= inner <= steps else 0
        if turn.began is not None:  # an epoch is a step by now
            return turn.first + turn.way * (epochs if turn.part.restarts else steps) if epochs else None
        end = turn.end(steps, epochs or 1) if steps and (epochs or turn.times > 1) else None
        if end is not None and turn.part.restarts and turn.moved() and inner < steps:
            end = min(end, turn.first + round(turn.moved() * (inner - 1)), key=lambda one: abs(one - turn.first))
        return end

    def leave(self):
        """All else was seen: one that ends a loop is answered so. Whether there is any."""
        for turn in self.asked.values():
            if turn.ending is not None and turn.coming is not None and not turn.waits:
                turn.coming, turn.ending = [*turn.coming[:turn.given], turn.ending], None
                return True
        return False

    def begins(self, loops, trees):
        """Enough was seen. (whether one that was asked turns, in the loops that the steps are in; whether one that was not may, in
        what is gone through again and again; whether one turns that is asked once an epoch)"""
        for (path, line, _), turn in self.asked.items():
            if turn.goes_on(any(code.co_filename == path and loop.lineno <= line <= loop.end_lineno for (code, _), loop in loops.items())):
                self.decide(turn, path)
            else:
                turn.coming = []
        unasked = any(tree.lineno <= line <= tree.end_lineno for _, line, _ in self.places - self.asked.keys() for tree in trees)
        found = [turn.outer for turn in self.asked.values() if turn.waits or turn.ending is not None]
        return bool(found), unasked, any(found)

    def waits(self, within=True):
        """Whether answers are still to be given, or what followed the last was not seen to its end. `within`: in whatever loop, not
        only where it is asked in each step."""
        steps = self.later.steps
        if not within:
            return any(turn.waits and not turn.outer for turn in self.asked.values())
        return steps < self.turned + TRIED or any(turn.waits if turn.coming is not None else turn.counts and steps < turn.began + WAITS
                                                  for turn in self.asked.values())

    def tell(self, path, line, when):
        self.later.session.recorder.note(ff.CUT_SHORT, f"{os.path.basename(path)}:{line}: what is done {when} was not seen: say what it "
                                                       "needs (rad submit --gpu-mem)")

    def misses(self, broken=False):
        """It ends there. Told, if that is before all were given."""
        for (path, line, _), answers in self.unclear.items():
            if len(answers) < 2:
                self.tell(path, line, "at some time")
        self.unclear.clear()
        for (path, line, _), turn in self.asked.items():
            counter = turn.ending
            if turn.waits and len(turn.peaks) > 1 and turn.peaks[1] == self.later.session.recorder.peak_bytes:
                continue  # it took no more when it was done again
            if turn.waits or broken and turn.given and turn.stepped >= self.later.session.learnt() - 1:
                counter = turn.coming[min(turn.given, len(turn.coming) - 1)]
            if counter is not None:
                self.tell(path, line, "at some time" if turn.part.clock else f"at {ast.unparse(turn.part.counter)} {counter}")
