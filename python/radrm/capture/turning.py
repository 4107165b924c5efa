# SPDX-License-Identifier: MIT
"""What a script does from some step or epoch on, or at one: `if step == 1000: evaluate()`, `if epoch >= 10: unfreeze()`,
`if step > 500: size *= 2`.

A capture sees the first steps. So a test in the script's own code that hangs on something that counts, and decides about more than
what is told, asks here. Once enough was seen otherwise it is given the answers that are still to come in the run. What is not reached
all the same is told, as a doubt.
"""
import ast
import copy
import functools
import os
import re
import sys

from . import fileformat as ff, growing, idle
from .length import called
from .source import tree_of

NAME, AT = "__radrm_turns__", "__radrm_at__"  # what the tests call; what stands in their arms for a counter
FAR = 1 << 20  # counters that are tried; as far as a run is looked at whose end is not known
MOST = 16  # answers that are given of a test whose arm changes a size by what it was
TRIED = 2  # steps after one: the first makes an optimizer's state, the second has it all along
WAITS = 4  # steps after which a test that was asked once is asked again
COUNTS = re.compile(r"^(current_|cur_|global_|train_)?(step|epoch|ep|iter|it|itr|iteration|update)(_num|_idx|_no)?$"
                    r"|^(n|num)_(iter|updates)$")
# Calls that take no memory on the GPU beside those of idle.py.
QUIET = re.compile(r"^(range|enumerate|zip|sum|mean|pow|sorted|set_\w*epoch|set_postfix|set_description|refresh|tqdm|barrier|synchronize"
                   r"|flush|empty_cache|collect|zero_grad|perf_counter|close|group|sleep|exists|is_main_process|next|iter)$")
RATES = re.compile(r"(^|_)(lr|rate|learning_rate|sched\w*|beta|decay|warm\w*|anneal\w*|lambda|weight|temperature|momentum|cosine)(_|$)")
OWNERS = re.compile(r"sched|bar$|meter|metric|logger|tqdm|profil|timer|^prof$", re.IGNORECASE)  # of step() and update()
MODULES = {"math", "time", "os", "sys", "json", "logging", "random", "gc"}
MODES = {"train", "eval"}  # without arguments
LOOKS = (*growing.PLAIN, ast.BoolOp, ast.boolop, ast.Set, ast.Dict)


class Part:
    """Such a test: its `counter`, lines of `loops` that count it, whether it `restarts` within the run; what is done where it holds, and
    where not; whether a loop is around that in its function."""

    def __init__(self, counter, arms, scope):
        self.counter, self.arms, self.scope = counter, arms, scope
        loops = [node for node in growing.within(scope) if isinstance(node, (ast.For, ast.While))]
        name, arms = ast.unparse(counter), {node for arm in arms.values() for node in arm}
        self.loops = {loop.lineno for loop in loops if isinstance(loop, ast.For) and name in map(ast.unparse, ast.walk(loop.target))}
        self.restarts = bool(self.loops) or any(is_number(node, name) for loop in loops for node in ast.walk(loop))
        self.looped = any(node in arms for loop in loops for node in ast.walk(loop))

    @functools.cached_property
    def named(self):
        """What says how large something is there."""
        return {ast.unparse(node) for node in growing.sizes(growing.within(self.scope))}

    def matters(self, holds):
        return any(matters(node, self.named, self.scope) for node in self.arms[holds])

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


def matters(node, named, scope):
    """Whether more may be taken once that is done. `named`: what says how large something is, `scope`: the function that it is in."""
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Raise)):
        return False
    if isinstance(node, (ast.If, ast.For, ast.While, ast.With, ast.Try)):
        inside = [*node.body, *getattr(node, "orelse", ()), *getattr(node, "finalbody", ())]
        return any(matters(n, named, scope) for n in inside) or isinstance(node, ast.For) and calls(node.iter)
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
    return grad or number or isinstance(value, (ast.Name, ast.Attribute)) or isinstance(value, ast.Constant) and isinstance(
        value.value, (bool, str))


# --- which tests ---

def counter_of(node, counts):
    """What counts in a test without effects; None: nothing does, or it has some. `counts`: what does for sure, as it stands there."""
    inside = list(ast.walk(node))
    if not any(isinstance(n, (ast.Compare, ast.Mod)) for n in inside):
        return None
    words = {name.rpartition(".")[2] for name in counts}
    found = [n for n in inside if (word := growing.word(n)) and (word in words or COUNTS.search(word))]
    if not found or not all(isinstance(n, LOOKS) and not (isinstance(n, ast.Call) and (
            growing.word(n.func) not in growing.FUNCTIONS or n.keywords)) for n in inside):
        return None
    return next((n for n in found if ast.unparse(n) in counts), next((n for n in found if COUNTS.search(growing.word(n))), None))


def units(test, counts):
    """(part of a test, its counter) of all that hangs on a counter alone."""
    counter = counter_of(test, counts)
    if counter is not None:
        yield test, counter
    elif isinstance(test, ast.BoolOp):
        for value in test.values:
            yield from units(value, counts)


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
    """{test, or part of one: Part} of a file."""
    from .every import looks, period, quiet_in, skips
    scopes = [n for n in ast.walk(tree) if isinstance(n, (ast.Module, ast.FunctionDef, ast.AsyncFunctionDef))]
    known, quiet = functools.cache(lambda: flags(scopes)), functools.cache(lambda: quiet_in(tree))
    skipped, found = functools.cache(lambda: {test for test, _ in skips(tree)}), {}

    def is_known(unit, counts, arms):
        """Whether every.py has it."""
        whole = [n for n in ast.walk(unit) if isinstance(n, (ast.Compare, ast.UnaryOp)) and counter_of(n, counts) is not None]
        return unit in skipped() or any(period(n) is not None for n in whole) and all(
            period(n) is not None for n in whole) and looks(arms[True], quiet())
    for scope in scopes:
        nodes = growing.within(scope)
        counts = growing.counters(scope, nodes)
        sizes = functools.cache(lambda scope=scope: {n for node in growing.growing(scope) for n in ast.walk(node)})
        asked = [(test, arms, True) for test, arms in of_flags(nodes, scope, known)]
        for test, arms, flag in asked + [(test, arms, False) for test, arms in tests(scope)]:
            for unit, counter in units(test, counts):
                if (flag or not is_known(unit, counts, arms)) and unit not in sizes():
                    part = Part(counter, arms, scope)
                    if part.matters(True) or part.matters(False):
                        found[unit] = part
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
        counter = self.parts[node].counter
        given = ast.Lambda(ast.arguments([], [ast.arg("__counter")], None, [], [], None, []),
                           growing.Put(ast.unparse(counter)).visit(copy.deepcopy(node)))
        return self.call(node, NAME, node, given, copy.deepcopy(counter), ast.Constant(node.lineno), ast.Constant(node.col_offset))

    def call(self, node, name, *arguments):
        return ast.fix_missing_locations(ast.copy_location(ast.Call(ast.Name(name, ast.Load()), list(arguments), []), node))


# --- what they are told ---

class Turn(growing.Asked):
    """Such a test, as growing.py has sizes. `coming`: counters of the run whose answers are to be given, None: not known yet."""

    def __init__(self, counter, part):
        super().__init__(counter)
        self.part, self.answers, self.coming, self.given, self.shift, self.stepped = part, set(), None, 0, 0, -1
        self.missed = self.began = None

    def again(self, value, function, counter, step):
        super().again(bool(value), function, counter, step)
        self.answers.add(bool(value))

    def wanted(self):
        """Answers that were not seen, and matter, or matter more each time."""
        return {holds for holds in (True, False) if self.part.matters(holds) and (holds not in self.answers or self.part.adds(holds))}

    def find(self, end):
        """What is to come up to that counter; None: nobody knows how far it counts."""
        self.coming, wanted = [], self.wanted()
        last, end = self.last, self.last + FAR if end is None else int(min(end, self.last + FAR))
        end += any(map(self.part.leaves, wanted))  # there it ends
        before = bool(self.function(last))
        for counter in range(last + 1, end + 1) if wanted else ():
            holds = bool(self.function(counter))
            if holds != before and holds in wanted:
                self.coming.append(counter)
                if not self.part.adds(holds) or len(self.coming) >= MOST:
                    break
            before = holds

        if self.coming and self.part.leaves(holds):  # told only: what else there is would not be seen
            self.missed, self.coming = self.coming[0], []

    @property
    def outer(self):
        """Whether it is asked once an epoch."""
        return self.times == 1 or self.began is not None

    @property
    def waits(self):
        return self.coming is not None and self.given < len(self.coming)

    def answer(self, counter, step):
        """The next of them, one a step."""
        if self.waits and step != self.stepped:
            self.shift, self.stepped, self.given = self.coming[self.given] - counter, step, self.given + 1
        return self.function(counter + self.shift)


class Turns:
    """Told of what such tests ask, while a script runs."""

    def __init__(self, later):
        self.later, self.asked = later, {}  # (file, line, column) -> Turn
        self.turned = -TRIED  # steps since the script goes on, as of the last one that was given
        self.places = set()  # (file, line, column) of all that may ask

    def ask(self, holds, function, counter, line, column):
        """What such a test comes to."""
        frame, later = sys._getframe(1), self.later
        where = frame.f_code.co_filename, line, column
        if type(counter) is not int or later.trying:
            return holds
        if where not in self.asked:
            self.asked[where] = Turn(counter, parts_of(where[0])[line, column])
        turn, step = self.asked[where], later.session.learnt()
        if not later.going:
            turn.again(holds, function, counter, step)
            return holds
        if turn.coming is None:
            new = turn.times == 0
            turn.counts = turn.counts and step not in turn.steps  # not in a loop within a step
            turn.again(holds, function, counter, step)
            if new or not turn.counts:
                turn.began = later.steps
                return holds
            self.decide(turn, where[0])
        turn.function, before = function, turn.given
        found = turn.answer(counter, step) if before or turn.waits else holds
        if turn.given > before:
            self.tells(turn, frame.f_code, where, found)
        return found

    def at(self, counter, line, column):
        """A counter in an arm of such a test."""
        turn = self.asked.get((sys._getframe(1).f_code.co_filename, line, column))
        return counter + turn.shift if turn is not None and type(counter) is int else counter

    def tells(self, turn, code, where, holds):
        from . import every
        later, arm = self.later, turn.part.arms[bool(holds)]
        self.turned = later.steps
        if arm and turn.part.looks(bool(holds), every.quiet_in(tree_of(where[0]))):
            later.due[where[:2]] = number = max(turn.coming[turn.given - 1] - turn.first, 1)
            later.asked.setdefault(where[:2], [0 if turn.outer else turn.times, 0, number])
            later.trainings.tests(code, (arm[0].lineno, arm[-1].end_lineno))

    def decide(self, turn, path):
        """What comes of one; where it counts trainings, nothing: they are gone through."""
        if any(loop.where[0] == path and loop.where[1] in turn.part.loops and loop.trains() for loop in self.later.trainings.around_us()):
            turn.coming = []
            return
        length = self.later.session.length
        steps, inner = length.steps, length.inner
        epochs = steps / inner if 1 <= inner <= steps else 0
        try:
            end = turn.end(steps, epochs or 1) if steps and (epochs or turn.times > 1) else None
            if turn.began is not None:  # an epoch is a step by now
                end = turn.first + (epochs if turn.part.restarts else steps) if epochs else None
            elif turn.part.restarts and turn.moved() > 0 and inner < steps:
                end = min(end, turn.first + round(turn.moved() * (inner - 1)))
            turn.find(end)
        except Exception:  # whatever a script's own values do where they are asked
            turn.coming = []

    def begins(self, loops, trees):
        """Enough was seen. (whether one that was asked turns, in the loops that the steps are in; whether one that was not may, in
        what is gone through again and again; whether one turns that is asked once an epoch)"""
        for (path, line, _), turn in self.asked.items():
            if turn.goes_on(any(code.co_filename == path and loop.lineno <= line <= loop.end_lineno for (code, _), loop in loops.items())):
                self.decide(turn, path)
            else:
                turn.coming = []
        unasked = any(tree.lineno <= line <= tree.end_lineno for _, line, _ in self.places - self.asked.keys() for tree in trees)
        found = [turn.outer for turn in self.asked.values() if turn.waits]
        return bool(found), unasked, any(found)

    def waits(self, within=True):
        """Whether answers are still to be given, or what followed the last was not seen to its end. `within`: in whatever loop, not
        only where it is asked in each step."""
        steps = self.later.steps
        if not within:
            return any(turn.waits and not turn.outer for turn in self.asked.values())
        return steps < self.turned + TRIED or any(turn.waits if turn.coming is not None else turn.counts and steps < turn.began + WAITS
                                                  for turn in self.asked.values())

    def misses(self, broken=False):
        """It ends there. Told, if that is before all were given."""
        for (path, line, _), turn in self.asked.items():
            counter = turn.missed
            if turn.waits or broken and turn.given and turn.stepped >= self.later.session.learnt() - 1:
                counter = turn.coming[min(turn.given, len(turn.coming) - 1)]
            if counter is not None:
                self.later.session.recorder.note(
                    ff.CUT_SHORT, f"{os.path.basename(path)}:{line}: what is done at {ast.unparse(turn.part.counter)} {counter} was not "
                                  "seen: say what it needs (rad submit --gpu-mem)")
