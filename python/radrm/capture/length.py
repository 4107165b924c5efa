# SPDX-License-Identifier: MIT
"""How many training steps a script is going to make, by the loops that it is in when an optimizer has stepped.

A capture ends after a few steps. What would have come after them stands in the script: `for epoch in range(args.epochs)`, `for batch
in loader`, `if step >= max_steps: break`. So the frames between the optimizer and the script's beginning are looked at: in which
loops does the line stand that each is at, and how long is what these go over? Lengths of loops inside each other multiply. A loop
that is left when a number reaches another (or that goes on while it has not) ends there: a number that the loop itself counts
bounds that loop, any other, by how much it moves from one step to the next, the whole run.

Only names, attributes, constants, sums of them and a few functions without effects are worked out. Where one loop's end is not
found, or hangs on the time, nothing is known: 0 steps. It is a count of what the script says now; that it stops early when it has
learnt enough, nobody can know.
"""
import ast
import collections
import functools
import gc
import inspect
import math
import numbers
import operator
import os
import sys
import types
import weakref
from collections.abc import Mapping

from . import clocks, ends, growing, limits
from .ends import POPS, names as names_in  # noqa: F401  for others
from .source import FUNCTION, called, is_own, tree_of

OVER = {"enumerate", "iter", "list", "tuple", "reversed", "sorted", "tqdm", "track", "progress_bar"}  # as long as their first argument
RANGES = ("range", "trange", "prange")
ENDLESS = {"cycle", "count"}
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
INLINED = sys.version_info >= (3, 12)  # those but the last have no frame of their own
FUNCTIONS = {"len": len, "int": int, "float": float, "min": min, "max": max, "abs": abs, "round": round, "ceil": math.ceil,
             "floor": math.floor}
MEASURES = {"size", "numel", "nelement"}  # methods of tensors
UNARY = {ast.USub: operator.neg, ast.UAdd: operator.pos}
OPERATORS = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
             ast.FloorDiv: operator.floordiv}
BELOW = {ast.Lt: 0, ast.LtE: 1}  # `counter < bound` goes on for so many more than the difference
ABOVE = {ast.Gt: 0, ast.GtE: 1}  # `counter > bound`, of one that falls
UNTIL = {ast.GtE: ast.Lt, ast.Gt: ast.LtE, ast.LtE: ast.Gt, ast.Lt: ast.GtE, ast.Eq: ast.NotEq}  # what ends it -> while what it goes on
EVEN = 1e-3  # of it, by which what counts may move more or less from one step to the next
MANY = 100_000  # rounds in which it is asked whether each has a step
CLOSE = 1e-6  # of numbers that are no integers
WHILE = "__radrm_while__"  # what a `while` calls (trainings.py)
ALONE = 3  # references to a frame's copy of its variables that nobody else has: the frame's and two of who looks


class Unknown(Exception):
    """Not to be worked out."""


# --- what stands in the script ---

@functools.lru_cache(64)
def loops_of(filename):
    """[(first line, last line, the function's node or None, loop)] of a file, outer ones first; of what cannot be read, none."""
    found, waiting = [], [(tree_of(filename), None)]
    while waiting:
        node, function = waiting.pop(0)
        if isinstance(node, (ast.For, ast.While)):
            found.append((node.body[0].lineno, node.body[-1].end_lineno, function, node))
        inside = node if isinstance(node, FUNCTION) else function
        waiting += [(child, inside) for child in ast.iter_child_nodes(node)]
    return found


def loops_around(frame):
    """The loops of its function that the line it is at stands in, outer ones first."""
    code, line = frame.f_code, frame.f_lineno
    there = [(function, loop) for first, last, function, loop in loops_of(code.co_filename) if first <= line <= last]
    if code.co_name == "<module>":
        return [loop for function, loop in there if function is None]
    return [loop for function, loop in there if function is not None and begins(function) == code.co_firstlineno]


@functools.lru_cache(64)
def comprehensions_of(filename):
    """[(what each of its elements comes to, its loops as if they were written so)] of each in a file, outer ones first."""
    found = []
    for node in ast.walk(tree_of(filename)):
        if isinstance(node, COMPREHENSIONS):
            element = getattr(node, "elt", None) or node.value
            body = [ast.copy_location(ast.Expr(element), element)]
            loops = [ast.copy_location(ast.For(each.target, each.iter, body, []), node) for each in node.generators]
            for loop, each in zip(loops, node.generators):
                loop.filtered, loop.outermost = bool(each.ifs), each is node.generators[0]
            found.append((node, element, loops))
    return found


def is_comprehension(frame):
    return frame.f_code.co_name in ("<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>")


def all_around(frame):
    """As loops_around(), with those of comprehensions: of elements of these that it is at."""
    own = is_comprehension(frame)
    if not own and not INLINED:
        return loops_around(frame)
    found = [loops for node, element, loops in comprehensions_of(frame.f_code.co_filename)
             if is_at(element, frame) and (own or not isinstance(node, ast.GeneratorExp))]
    return found[-1] if own and found else loops_around(frame) + [loop for loops in found for loop in loops]


def made_in(frame):
    """The frame that a comprehension stands in which that one runs."""
    at = frame.f_back
    while at is not None and frame.f_code not in at.f_code.co_consts:
        at = at.f_back
    return at or frame


def function_of(frame):
    """The function that it is in, as it stands in the script; None: none."""
    code = frame.f_code
    return next((n for n in ast.walk(tree_of(code.co_filename)) if isinstance(n, FUNCTION[:3]) and begins(n) == code.co_firstlineno
                 and getattr(n, "name", "<lambda>") == code.co_name and (not isinstance(n, ast.Lambda) or is_at(n, frame))), None)


@functools.lru_cache(256)
def positions(code):
    """Where in the source each of its instructions stands: (line, column) twice, of begin and end. Before Python 3.11 nobody says so."""
    return [((line, at), (end, to)) for line, end, at, to in code.co_positions()] if hasattr(code, "co_positions") else []


def place(frame):
    """Where what that frame is at begins and ends; its line alone where Python tells no more."""
    found = positions(frame.f_code)[frame.f_lasti // 2:][:1]
    return found[0] if found and None not in (*found[0][0], *found[0][1]) else ((frame.f_lineno,), (frame.f_lineno,))


def is_at(node, frame):
    """Whether that frame is at something that stands there."""
    begin, end = place(frame)
    last = (node.end_lineno, node.end_col_offset)[:len(end)]
    return (node.lineno, node.col_offset)[:len(begin)] <= begin and end <= last


def begins(function):
    """The line that its code object says it begins at."""
    return min(n.lineno for n in (function, *getattr(function, "decorator_list", ())))


@functools.lru_cache(256)
def timed(loop, path):
    """The line of a condition that ends the loop by the clock; 0: none does."""
    scope = next((function for *_, function, one in loops_of(path) if one is loop), None) or tree_of(path)
    return next((test.lineno for test, _ in ends.conditions(loop) if clocks.hangs(test, scope, tree_of(path))), 0)


# --- what it comes to ---

def going(line):
    """The variable of a `while` that begins there, as long as it is gone through. Within a class Python changes names that do
    not end like this."""
    return f"{WHILE}{line}__"


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
        if name == "product" and args:
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


class Round:
    """A frame as it is in another round of a loop."""

    def __init__(self, frame, loop, element):
        self.f_globals, self.f_code = frame.f_globals, frame.f_code
        self.f_locals = self
        self.frame, self.known = frame, dict(self.bound(loop.target, element))
        self.set = {node.targets[0].id: node.value for node in loop.body if isinstance(node, ast.Assign) and len(node.targets) == 1
                    and isinstance(node.targets[0], ast.Name)}

    def bound(self, target, element):
        if isinstance(target, ast.Name):
            yield target.id, element
        elif isinstance(target, ast.Tuple) and len(target.elts) == len(element):
            for part, one in zip(target.elts, element):
                yield from self.bound(part, one)

    def get(self, name, otherwise=None):
        if name in self.set and name not in self.known:
            self.known[name] = value(self.set[name], self)
        return self.known[name] if name in self.known else local(self.frame, name, otherwise)


def sums_up(outer, inner, frame, now):
    """Rounds of a loop in all those of the one around it, where there are `now` in this one and others in others; infinite: nobody
    can tell."""
    try:
        return sum(length(inner.iter, Round(frame, outer, element)) for element in elements(outer.iter, frame)) / now
    except (Unknown, TypeError, AttributeError, KeyError, IndexError, ValueError, ZeroDivisionError):
        return math.inf


def over_optimizers(loop, frame):
    """Whether all rounds of the loop are one step, of several optimizers."""
    return isinstance(loop, ast.For) and any(hasattr(local(frame, name), "param_groups") for name in names_in(loop.target))


def counted(test, going_on, frame):
    """(two numbers that are compared, how far they are from where the loop ends, 1 where the first rises to that, -1 where it falls)"""
    if len(test.ops) != 1:
        raise Unknown
    op = type(test.ops[0]) if going_on else UNTIL.get(type(test.ops[0]))
    left, right = amount(test.left, frame), amount(test.comparators[0], frame)
    if op in BELOW:
        return left, right, right - left + BELOW[op], 1
    if op in ABOVE:
        return left, right, left - right + ABOVE[op], -1
    if op is not ast.NotEq:
        raise Unknown
    return left, right, abs(right - left), 1 if left <= right else -1


# --- libraries that have loops of their own, and know ---

class Told:
    """By a library: steps, after how many of them each evaluation comes, what has one come after the next step, what stops the
    training then, and batches that an evaluation takes at most."""

    def __init__(self, steps, stop=lambda: None, every=math.inf, often=None, most=math.inf):
        self.steps, self.stop, self.every, self.often, self.most = steps, stop, every, often, most


def of_transformers(frame):
    own = local(frame, "self")
    state, arguments = getattr(own, "state", None), getattr(own, "args", None)
    steps, how = getattr(state, "max_steps", 0), getattr(arguments, "eval_strategy", "no")

    def stop():
        own.control.should_training_stop = True
    if how == "epoch":
        return Told(steps, stop, steps / arguments.num_train_epochs, nothing)
    if how == "steps" and 0 < state.eval_steps <= steps:
        return Told(steps, stop, state.eval_steps, lambda: setattr(state, "eval_steps", 1))
    return Told(steps, stop)


def of_lightning(frame):
    own = local(frame, "self")
    trainer = getattr(own, "trainer", own)
    steps = getattr(trainer, "estimated_stepping_batches", 0)

    def stop():
        trainer.should_stop = True
    if not getattr(trainer, "enable_validation", False) or not steps < math.inf:
        return Told(steps, stop)
    epochs, batches = trainer.check_val_every_n_epoch or 1, trainer.num_training_batches
    times = max(batches // trainer.val_check_batch, 1) if trainer.check_val_every_n_epoch else batches / trainer.val_check_batch

    def often():
        trainer.val_check_batch = 1
        trainer.check_val_every_n_epoch = trainer.check_val_every_n_epoch and 1
    every = batches / trainer.accumulate_grad_batches * epochs / times
    return Told(steps, stop, every, often if every <= steps else None, max(trainer.num_val_batches, default=math.inf))


def nothing():
    pass


LIBRARIES = {"transformers": of_transformers, "lightning": of_lightning, "pytorch_lightning": of_lightning}
PASSED = ("torch", "radrm", "accelerate")  # have no loop of a training
BEGINNING = {"runpy", "multiprocessing.process"}  # what began the script, or the process that it is in


class Length:
    """Told of every step. `steps`: how many there will be in all, as of the last one; 0: not known."""

    def __init__(self, around=lambda: ()):
        """`around`: gives the loops that are being gone through, as trainings.py has them."""
        self.around = around
        self.steps = 0
        self.made = 0
        self.moved = 0  # rounds of the innermost loop between the last two steps
        self.looped = False  # it is in a loop
        self.clock = ""  # "train.py:12": its end hangs on the time there
        self.summed = 1  # batches whose gradients are one step
        self.inner = 0  # of them, of the innermost loop: an epoch, mostly; infinite: not known
        self.evaluates = None  # where a library does, after each: what has it do so after the next step
        self.most = math.inf  # batches of an evaluation, where a library knows
        self.before = {}  # counter of a guard -> what it was when the step before was made
        self.began, self.crowded = {}, False  # loop -> rounds of it before the first step; one round of the innermost has several
        self.fetched = weakref.WeakKeyDictionary()  # pass over a loader -> batches that it gave since the last step; none that is over
        self.passes = []  # those that gave some before it, and were not over

    def begin(self):
        """What was a step until now is none: another optimizer steps."""
        self.made, self.before, self.moved, self.began, self.crowded = 0, {}, 0, {}, False

    def fetch(self, loader):
        self.fetched[loader] = self.fetched.get(loader, 0) + 1

    def step(self, frame):
        """Called by who noticed it; `frame` is his."""
        self.made += 1
        try:
            steps = self.look(frame)
        except Exception:  # whatever a script's own attributes do when they are asked
            steps = 0
        self.steps = min(int(steps), limits.MAX_COUNT) if math.isfinite(steps) and steps >= self.made else 0
        self.passes, self.summed = list(self.fetched), self.batches()
        self.fetched.clear()

    def look(self, frame):
        product, whole, first, now, self.clock, within = 1, math.inf, True, {}, "", []
        passed, once, hangs = 0, True, None  # steps that rounds before the first had not; whether none will be so again; what they hang on
        while frame is not None and frame.f_globals.get("__name__") not in BEGINNING:
            library = frame.f_globals.get("__name__", "").partition(".")[0]
            told = LIBRARIES[library](frame) if library in LIBRARIES else Told(0)
            if isinstance(told.steps, (int, float)) and not isinstance(told.steps, bool) and 0 < told.steps < math.inf:
                self.evaluates, self.inner, self.most = told.often, told.every, told.most
                self.looped = True
                return told.steps
            loops = [loop for loop in all_around(frame) if not over_optimizers(loop, frame)] if library not in PASSED else []
            bounds = []
            for n in reversed(range(len(loops))):
                rounds, more = self.rounds(loops, n, frame, within, None if first else product, now)
                if n + 1 < len(loops) and (found := self.differing(loops[n], loops[n + 1], bounds, frame)):
                    rounds = found
                bounds += more
                gone = self.before_first(loops[n], frame, first)
                if first:
                    each = max(self.batches(), self.moves(loops[n], frame, now))
                    rounds, gone = stepping(loops, n, frame, rounds, each, gone)
                    rounds = math.inf if self.has_several(loops[n], frame) else rounds
                    hangs = ends.hangs_on(loops[n], place(frame))
                elif passed and rounds != 1:
                    anew = locals_of(within[-1]) if n + 1 == len(loops) else ends.begins(loops[n], loops[n + 1])
                    once = once and bool(hangs) and not hangs & anew
                passed, product = passed + gone * product, product * rounds
                least = min((one.steps for one in bounds if one.scope == n), default=math.inf)
                if least < product:
                    passed, product = 0, least
                if first:
                    self.inner, first = product, False
            whole = min([whole, *(one.steps for one in bounds if one.scope < 0)])
            within.append(frame)
            frame = frame.f_back
        self.before, self.looped = now, not first
        return 0 if first or self.clock else min(product - passed if once else math.inf, whole)

    def differing(self, outer, inner, bounds, frame):
        """Rounds of a loop where those of the one in it are as many as hangs on the round; 0: they do not."""
        hangs = ends.moving(outer)
        if isinstance(inner, ast.For) and called(inner.iter) in RANGES and names_in(inner.iter) & hangs:
            return sums_up(outer, inner, frame, length(inner.iter, frame)) if isinstance(outer, ast.For) else math.inf
        return math.inf if any(one.limit & hangs and one.scope > 0 for one in bounds) else 0

    def moves(self, loop, frame, now):
        """Rounds of the innermost loop for a step, by the number that it counts; 0: it counts none, or that is not known yet."""
        try:
            at, _, stride = where(loop, frame)
        except (Unknown, AttributeError, KeyError, IndexError, TypeError):
            return 0
        key = frame.f_code, loop.lineno, "rounds"
        now[key], moved = at, (at - self.before.get(key, at)) / stride
        self.moved = moved if moved > 0 else self.moved
        return self.moved

    def before_first(self, loop, frame, inner):
        """Rounds of a `for` before the one that had the first step; 0: none, or nobody knows. `inner`: it is the innermost."""
        key = frame.f_code, loop.lineno, "first"
        if self.made == 1:
            try:
                at, start, stride = where(loop, frame)
                self.began[key] = (at - start) // stride
            except (Unknown, AttributeError, KeyError, IndexError, TypeError):
                gone = self.gone_through(loop, frame)
                fetches = inner and gone is not None and (gone.left in self.fetched or hasattr(gone.what, "iterable"))
                self.began[key] = self.batches() - 1 if fetches else 0
        return self.began.get(key, 0)

    def has_several(self, loop, frame):
        """Whether the innermost loop has several steps in a round: there is another that nobody sees, as where something maps."""
        gone = self.gone_through(loop, frame)
        if gone is not None:
            gone.counted = 1 if self.made == 1 else gone.counted + 1
            self.crowded = self.crowded or gone.counted > 1
        return self.crowded

    def batches(self):
        """Rounds of the innermost loop for a step: those whose gradients are summed up."""
        return max(self.fetched.values(), default=1)

    def gone_through(self, loop, frame):
        """What trainings.py has of a loop; None."""
        where = frame.f_code.co_filename, loop.lineno
        return None if hasattr(loop, "filtered") else next((one for one in reversed(self.around()) if one.where == where), None)

    def over(self, loop, frame):
        """How often a `for` goes round, by what it goes over, or as it stands there."""
        if getattr(loop, "filtered", False):
            return math.inf
        gone = self.gone_through(loop, frame)
        what = gone and gone.what
        if isinstance(what, (range, list, tuple)):
            return len(what)
        found = lengthwise(loop.iter, made_in(frame) if getattr(loop, "outermost", False) and is_comprehension(frame) else frame)
        if found == math.inf and len(self.fetched) == 1 and "loader" in of_call(loop.iter).lower():
            return len(next(iter(self.fetched)))  # one that is made there
        if found < math.inf or gone is None or called(loop.iter) in ENDLESS or isinstance(what, Mapping):
            return found
        try:
            return len(what)
        except Exception:  # it has none
            return min(self.gives(what), self.gives(gone.left))

    def gives(self, what):
        """How many a generator gives that has one `yield`, in each round of the loops around that; infinite: nobody knows."""
        while isinstance(what, enumerate):
            what = next((one for one in gc.get_referents(what) if hasattr(one, "__next__")), None)
        if not isinstance(what, types.GeneratorType) or what.gi_frame is None:
            return math.inf
        frame = what.gi_frame
        function, loops = function_of(frame), all_around(frame)
        yields = sum(isinstance(node, (ast.Yield, ast.YieldFrom)) for node in ast.walk(function)) if function is not None else 1
        if yields > 1 or any(isinstance(loop, ast.While) or ends.conditions(loop) or ends.goes_on(loop.body)
                             or ends.leaves(loop.body) or ends.skips(loop, place(frame)) for loop in loops):
            return math.inf
        within = what.gi_yieldfrom
        try:
            return (1 if within is None else len(within)) * math.prod(self.over(loop, frame) for loop in loops)
        except Exception:  # it has none
            return math.inf

    def taken(self, loops, n, frame):
        """Rounds of a `while` that takes one after the other from something until that has no more, of which it knows how many."""
        name, code = ends.taking(loops[n]), frame.f_code
        if not name or n and name not in ends.begins(loops[n - 1], loops[n]) or not n and code.co_name != "<module>" and (
                name not in code.co_varnames + code.co_cellvars or name in code.co_varnames[:code.co_argcount]):
            return math.inf
        try:
            what = value(ast.parse(name, mode="eval").body, frame)
            if isinstance(what, (types.GeneratorType, enumerate)):
                return self.gives(what)
            passes = [one for one in self.fetched if one is what or any(one is part for part in vars(what).values())]
            return len(passes[0]) if len(self.fetched) == len(passes) == 1 else math.inf
        except Exception:  # whatever a script's own objects do where they are asked
            return math.inf

    def rounds(self, loops, n, frame, within, product, now):
        """(rounds of the n-th of these loops, each around the next, infinite where nobody can tell; [Bound]). `within`: frames of what
        it calls for a step; `product`: steps that a round has, as far as its loops tell, None: it is one."""
        loop, bounds = loops[n], []
        rounds = 1 if ends.leaves(loop.body) else self.over(loop, frame) if isinstance(loop, ast.For) else self.taken(loops, n, frame)
        if line := timed(loop, frame.f_code.co_filename):
            self.clock = f"{os.path.basename(frame.f_code.co_filename)}:{line}"
            return math.inf, []
        for test, going_on in ends.guards(loop):
            try:
                guard = Guard(test, going_on, loops, n, frame, within)
                if guard.own:
                    least, rounds = rounds, math.inf  # where it ends nobody knows, but by this
                    rounds = min(least, guard.whole_of_own())
                    continue
                since, moved, first = self.moved_since(guard, now)
                if guard.outside(product) or moved == 0:
                    rounds = min(rounds, 1 + guard.further(first / guard.each(product)))
                elif moved > 0:
                    steps = (since if guard.scope >= 0 else self.made) + guard.further(guard.gap / moved)
                    whole = math.ceil(steps / product) * product if product and product < math.inf else steps
                    bounds.append(Bound(whole, guard.scope, guard.limit))
            except (Unknown, AttributeError, KeyError, IndexError, TypeError, ValueError, ZeroDivisionError):
                continue
        return rounds, bounds

    def moved_since(self, guard, now):
        """(steps since its counter began, by how much that moved with the last, how far from its end it was at first)"""
        gap, usual, since, first = self.before.get(guard.key, (guard.gap, None, 0, guard.gap))
        moved = gap - guard.gap
        if moved < 0 and guard.scope >= 0:
            moved, since, first = usual or 0, 0, guard.gap
        now[guard.key] = guard.gap, moved, since + 1, first
        if not guard.known and usual and abs(moved - usual) > EVEN * abs(usual):
            raise Unknown  # a value, as a loss, of which nobody knows when it is small enough
        return since + 1, moved, first


class Bound:
    """Steps at most, of all rounds of the loop number `scope` of a function; -1: of the run. `limit`: names that it hangs on."""

    def __init__(self, steps, scope, limit):
        self.steps, self.scope, self.limit = steps, scope, limit


class Guard:
    """A comparison that ends a loop, and what of it counts."""

    def __init__(self, test, going_on, loops, n, frame, within):
        self.test, self.going_on, self.loop, self.inner, self.frame = test, going_on, loops[n], loops[n + 1:n + 2], frame
        self.key, self.place = (frame.f_code, test.lineno, test.col_offset), place(frame)
        left, right, self.gap, self.way = counted(test, going_on, frame)
        sides = {bare(side) for side in (test.left, test.comparators[0])}
        if sides & (ends.begun_anew(self.loop) | ends.refilled(self.loop) & ends.added(self.loop).keys()):
            raise Unknown
        self.own = names_in(self.loop.target) & names_in(test) if isinstance(self.loop, ast.For) else set()
        self.scales = bool(sides & ends.scaled(self.loop))
        if self.scales:
            self.gap = abs(math.log(left / right))
        if self.gap <= 0:
            raise Unknown
        self.counts = [one for one in ends.counts(self.loop) if one.name in sides]
        self.known, counters = bool(self.counts), {one.name for one in self.counts} or sides
        self.limit = names_in(test) - counters
        self.scope = self.begins_in(loops, n, counters)
        self.takes = not isinstance(value(test.left, frame), numbers.Real) or called(test.left) == "len"  # of a list, for the step
        self.order = [(test, one.node, self.place) for one in self.counts]
        if not self.counts:
            self.looks_within(within, sides)

    def begins_in(self, loops, n, counters):
        """The outermost loop in all of whose rounds it goes on counting; -1: it does so wherever its function is called."""
        for outer in reversed(range(n)):
            if ends.begins(loops[outer], loops[outer + 1]) & counters or self.limit & ends.added(loops[outer]).keys():
                return outer + 1
        code = self.frame.f_code
        return 0 if code.co_name == "<module>" or counters <= {*code.co_varnames, *code.co_cellvars} else -1

    def looks_within(self, within, sides):
        """It counts in what is called: `self.step += 1`, by the word."""
        words = {side.rpartition(".")[2] for side in sides}
        for at in within:
            function = function_of(at) if is_own(at.f_code.co_filename) else None
            found = [one for one in ends.counts(function) if one.name.rpartition(".")[2] in words] if function is not None else []
            self.counts, self.order = self.counts + found, self.order + [(None, one.node, place(at)) for one in found]

    def whole_of_own(self):
        """Rounds of a `for` that ends by what it goes over."""
        at, start, stride = where(self.loop, self.frame, self.own)
        if (self.way * stride > 0) != bool(names_in(self.test.left) & self.own):
            raise Unknown
        return (at - start) // stride + 1 + self.further(self.gap / abs(stride), ends.asks_first(self.test, None, self.place))

    def outside(self, product):
        """Whether it counts rounds of the loop, in which others have the steps."""
        return product is not None and self.known and not any(
            one.inside[:1] == tuple(self.inner) for one in self.counts if one.inside) and all(one.way for one in self.counts)

    def each(self, product):
        """By how much it moves in a round that was not seen to its end."""
        if self.scales or not self.going_on and not (self.counts and all(one.sure for one in self.counts)):
            raise Unknown
        if not self.counts:
            return 1
        return sum(abs(number(one.much, self.frame)) * math.prod(lengthwise(loop.iter, self.frame) if isinstance(
            loop, ast.For) else math.inf for loop in one.inside) for one in self.counts)

    def further(self, times, asks=None):
        """Rounds behind this one, of a counter that moves so often until its end."""
        if asks is None:
            asks = all(ends.asks_first(*one) for one in self.order) if self.order else self.takes
        return math.ceil(times - CLOSE) - (not asks)


def stepping(loops, n, frame, rounds, each, gone):
    """(steps in so many rounds of a loop, of which one comes every `each`; those of them that are gone, since rounds were passed before
    the first): of those in which what is asked before it says so, none are. `gone`: rounds before that of the first step."""
    loop, skipped = loops[n], max((gone + 1) / each - 1, 0)
    whole, tests = rounds / each, [one for one in ends.skips(loop, place(frame)) if clocks.is_plain(one[0])]
    if each <= 1 and not skipped or rounds > MANY or not tests:
        return whole, skipped
    try:
        _, start, stride = where(loop, frame)
        counter = ast.unparse(loop.target.elts[0] if isinstance(loop.target, ast.Tuple) else loop.target)
        asked = [(compile(ast.Expression(test), "<test>", "eval"), holds) for test, holds in tests if counter in names_in(test)]
        others = set().union(*(names_in(test) for test, _ in tests if counter in names_in(test)))
        named = {name: found for name in others if (found := local(frame, name, Unknown)) is not Unknown}
        found = sum(all(bool(eval(test, frame.f_globals, {**named, counter: start + at * stride})) == holds for test, holds in asked)
                    for at in range(int(rounds)))
    except Exception:  # whatever a script's own values do where they are asked
        return whole, skipped
    alike = not skipped or not others & set().union(*map(ends.moving, loops[:n])) and not any(map(growing.COUNTS.match, others - {counter}))
    return (found, 0) if asked and alike and abs(found - whole + skipped) <= 1 else (whole, skipped)


def locals_of(frame):
    """Names of variables that a function has anew whenever it is called; numbers that count, too."""
    code = frame.f_code
    own = {*code.co_varnames[code.co_argcount + code.co_kwonlyargcount:], *code.co_cellvars}
    return (own if code.co_name != "<module>" else set()) | set(filter(growing.COUNTS.match, code.co_varnames))


def bare(side):
    """`todo`, of `len(todo)`."""
    return ast.unparse(side.args[0] if called(side) == "len" and len(side.args) == 1 else side)


def where(loop, frame, own=None):
    """(the number that a `for` is at, its first, by how much it rises); `own`: of its variables, what is asked for."""
    node = loop.iter
    while called(node) in OVER and called(node) != "enumerate":
        node = node.args[0]
    name, target = called(node), loop.target
    if name not in (*RANGES, "enumerate", "count"):
        raise Unknown
    target = target.elts[0] if name == "enumerate" else target
    if own is not None and target.id not in own:
        raise Unknown
    given = node.args[name == "enumerate":] + [keyword.value for keyword in node.keywords if keyword.arg == "start"]
    first = given[0] if given and (name not in RANGES or len(given) > 1) else ast.Constant(0)
    stride = given[-1] if name in RANGES and len(given) == 3 or name == "count" and len(given) == 2 else ast.Constant(1)
    return number(target, frame), number(first, frame), number(stride, frame)


def install(length_, later, patch):
    """Has loaders tell what they give, and ask whether to."""
    from torch.utils.data import dataloader
    real = dataloader._BaseDataLoaderIter.__next__

    def give(self):
        try:
            if later.over(self):
                raise StopIteration
            batch = later.batch(self, lambda: real(self))
        except StopIteration:
            length_.fetched.pop(self, None)
            raise
        length_.fetch(self)
        return batch
    patch(dataloader._BaseDataLoaderIter, "__next__", give)

