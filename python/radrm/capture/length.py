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
import inspect
import math
import numbers
import operator
import os
import sys
import weakref

from . import clocks, growing, limits
from .source import tree_of

OVER = {"enumerate", "iter", "list", "tuple", "reversed", "sorted", "tqdm", "track", "progress_bar"}  # as long as their first argument
RANGES = ("range", "trange", "prange")
FUNCTIONS = {"len": len, "int": int, "float": float, "min": min, "max": max, "abs": abs, "round": round, "ceil": math.ceil,
             "floor": math.floor}
UNARY = {ast.USub: operator.neg, ast.UAdd: operator.pos}
OPERATORS = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
             ast.FloorDiv: operator.floordiv}
BELOW = {ast.Lt: 0, ast.LtE: 1}  # `counter < bound` goes on for so many more than the difference
ABOVE = {ast.Gt: 0, ast.GtE: 1}  # `counter > bound`, of one that falls
UNTIL = {ast.GtE: ast.Lt, ast.Gt: ast.LtE, ast.LtE: ast.Gt, ast.Lt: ast.GtE, ast.Eq: ast.NotEq}  # what ends it -> while what it goes on
POPS = {"pop", "popleft", "popitem"}
EVEN = 1e-3  # of it, by which what counts may move more or less from one step to the next
CLOSE = 1e-6  # of numbers that are no integers
WHILE = "__radrm_while__"  # what a `while` calls (trainings.py)
ALONE = 3  # references to a frame's copy of its variables that nobody else has: the frame's and two of who looks
FUNCTION = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)


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


def comparisons(test, going_on, falling):
    """(comparison, whether the loop goes on while it holds) of a condition for going on, or for leaving it. `falling`: variables that
    are greater than 0 where they hold."""
    if isinstance(test, ast.Compare):
        yield test, going_on
    elif isinstance(test, ast.BoolOp):
        for part in test.values:
            yield from comparisons(part, going_on, falling)
    elif isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        yield from comparisons(test.operand, not going_on, falling)
    elif isinstance(test, (ast.Name, ast.Attribute)) and ast.unparse(test) in falling:
        yield ast.copy_location(ast.Compare(test, [ast.Gt()], [ast.Constant(0)]), test), going_on


@functools.lru_cache(256)
def conditions(loop):
    """(condition, whether it is one for going on) of all that ends the loop: its own, and where it is left from inside."""
    found, waiting = [(loop.test, True)] if isinstance(loop, ast.While) else [], list(loop.body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.If) and isinstance(node.body[-1], (ast.Break, ast.Return)):
            found.append((node.test, False))
        # A `break` in a loop inside ends that one.
        waiting += [child for child in ast.iter_child_nodes(node) if not isinstance(node, (ast.For, ast.While, *FUNCTION))]
    return found


@functools.lru_cache(256)
def guards(loop):
    """What comparisons() gives of these."""
    falling = {name for name, way in added(loop).items() if way < 0}
    return [part for test, going_on in conditions(loop) for part in comparisons(test, going_on, falling)]


@functools.lru_cache(256)
def added(loop):
    """{variable that is counted in the loop: 1 or -1}; a list of which something is taken, too."""
    inside = [n for statement in loop.body for n in ast.walk(statement)]
    taken = {ast.unparse(n.func.value): -1 for n in inside if called(n) in POPS and isinstance(n.func, ast.Attribute)}
    return taken | {ast.unparse(found[0]): found[1] for found in map(growing.added, inside) if found}


@functools.lru_cache(256)
def scaled(loop):
    """Variables that are multiplied in each round."""
    return {ast.unparse(n.target) for statement in loop.body for n in ast.walk(statement)
            if isinstance(n, ast.AugAssign) and isinstance(n.op, (ast.Mult, ast.Div))}


@functools.lru_cache(256)
def timed(loop, path):
    """The line of a condition that ends the loop by the clock; 0: none does."""
    scope = next((function for *_, function, one in loops_of(path) if one is loop), None) or tree_of(path)
    return next((test.lineno for test, _ in conditions(loop) if clocks.hangs(test, scope, tree_of(path))), 0)


@functools.lru_cache(256)
def begun_anew(loop):
    """What is set to a constant inside the loop, as it stands there: epochs without progress, say, which count what nobody can know."""
    found = set()
    for node in (n for statement in loop.body for n in ast.walk(statement) if isinstance(n, ast.Assign)):
        for target in node.targets:
            pairs = zip(target.elts,
                        node.value.elts) if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple) else [(target, node.value)]
            found.update(ast.unparse(t) for t, v in pairs if isinstance(v, ast.Constant))
    return found


def leaves(statements):
    """Whether they end the loop around them whatever happens, but for an error."""
    return any(isinstance(s, (ast.Break, ast.Return)) or
               isinstance(s, (ast.Try, ast.With)) and leaves([*s.body, *getattr(s, "orelse", ())]) for s in statements)


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
    raise Unknown


def number(node, frame):
    found = value(node, frame)
    if isinstance(found, bool) or not isinstance(found, numbers.Real) or not math.isfinite(found):
        raise Unknown
    return found


def of_call(node):
    """What is called, of enumerate() and its like their first argument; "": nothing is."""
    while isinstance(node, ast.Call) and called(node) in OVER and node.args:
        node = node.args[0]
    return called(node) if isinstance(node, ast.Call) else ""


def called(node):
    """The last word of what is called; "": nothing is."""
    if not isinstance(node, ast.Call):
        return ""
    return node.func.id if isinstance(node.func, ast.Name) else node.func.attr if isinstance(node.func, ast.Attribute) else ""


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


def over_optimizers(loop, frame):
    """Whether all rounds of the loop are one step, of several optimizers."""
    return isinstance(loop, ast.For) and any(hasattr(local(frame, name), "param_groups") for name in names_in(loop.target))


def names_in(node):
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}


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

    def __init__(self):
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
        self.fetched = weakref.WeakKeyDictionary()  # pass over a loader -> batches that it gave since the last step; none that is over
        self.passes = []  # those that gave some before it, and were not over

    def begin(self):
        """What was a step until now is none: another optimizer steps."""
        self.made, self.before, self.moved = 0, {}, 0

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
        product, whole, first, now, self.clock = 1, math.inf, True, {}, ""
        while frame is not None and frame.f_globals.get("__name__") not in BEGINNING:
            library = frame.f_globals.get("__name__", "").partition(".")[0]
            told = LIBRARIES[library](frame) if library in LIBRARIES else Told(0)
            if isinstance(told.steps, (int, float)) and not isinstance(told.steps, bool) and 0 < told.steps < math.inf:
                self.evaluates, self.inner, self.most = told.often, told.every, told.most
                self.looped = True
                return told.steps
            loops = [loop for loop in loops_around(frame) if not over_optimizers(loop, frame)] if library not in PASSED else ()
            for loop in reversed(loops):
                rounds, bound = self.rounds(loop, frame, now)
                if first:
                    rounds = self.inner = rounds / max(self.batches(), self.moves(loop, frame, now))
                product, whole, first = product * rounds, min(whole, bound), False
            frame = frame.f_back
        self.before, self.looped = now, not first
        return 0 if first or self.clock else min(product, whole)

    def moves(self, loop, frame, now):
        """Rounds of the innermost loop for a step, by the number that it counts; 0: it counts none, or that is not known yet."""
        try:
            node = loop.iter
            while called(node) in OVER and called(node) != "enumerate":
                node = node.args[0]
            stride = number(node.args[2], frame) if called(node) in RANGES and len(node.args) == 3 else 1
            at = number(loop.target.elts[0] if called(node) == "enumerate" else loop.target,
                        frame) if called(node) in (*RANGES, "enumerate") else None
            if at is None:
                return 0
        except (Unknown, AttributeError, KeyError, IndexError, TypeError):
            return 0
        key = frame.f_code, loop.lineno, "rounds"
        now[key], moved = at, (at - self.before.get(key, at)) / stride
        self.moved = moved if moved > 0 else self.moved
        return self.moved

    def batches(self):
        """Rounds of the innermost loop for a step: those whose gradients are summed up."""
        return max(self.fetched.values(), default=1)

    def rounds(self, loop, frame, now):
        """(of the loop, and of steps in the whole run, at most), infinite where nobody can tell."""
        rounds = 1 if leaves(loop.body) else lengthwise(loop.iter, frame) if isinstance(loop, ast.For) else math.inf
        if rounds == math.inf and isinstance(loop, ast.For) and len(self.fetched) == 1 and "loader" in of_call(loop.iter).lower():
            rounds = len(next(iter(self.fetched)))  # one that is made there
        own = names_in(loop.target) if isinstance(loop, ast.For) else set()
        whole = math.inf
        if line := timed(loop, frame.f_code.co_filename):
            self.clock = f"{os.path.basename(frame.f_code.co_filename)}:{line}"
            return math.inf, math.inf
        for test, going_on in guards(loop):
            try:
                left, right, gap, way = counted(test, going_on, frame)
                sides = {ast.unparse(side) for side in (test.left, test.comparators[0])}
                if sides & scaled(loop):
                    gap = abs(math.log(left / right))
            except (Unknown, AttributeError, KeyError, IndexError, TypeError, ValueError, ZeroDivisionError):
                continue
            if sides & begun_anew(loop):
                continue
            key = frame.f_code, test.lineno, test.col_offset
            before, usual = self.before.get(key, (gap, None))
            moved = before - gap
            now[key] = gap, moved
            if not sides & (added(loop).keys() | scaled(loop)) and usual and abs(moved - usual) > EVEN * abs(usual):
                continue  # a value, as a loss, of which nobody knows when it is small enough
            if names_in(test) & own:
                end = (left if names_in(test.left) & own else right) + gap
                rounds = min(rounds, end) if (way > 0) == bool(names_in(test.left) & own) and end > 0 else rounds
            elif moved > 0 and gap > 0:
                whole = min(whole, self.made + math.ceil(gap / moved - CLOSE))
            elif going_on and not sides & scaled(loop):  # moves when a loop inside has ended
                rounds = gap
        return rounds, whole


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

