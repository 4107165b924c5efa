# SPDX-License-Identifier: MIT
"""How many training steps a script is going to make, by the loops that it is in when an optimizer has stepped.

A capture ends after a few steps. What would have come after them stands in the script: `for epoch in range(args.epochs)`, `for batch
in loader`, `if step >= max_steps: break`. So the frames between the optimizer and the script's beginning are looked at: in which
loops does the line stand that each is at, and how long is what these go over? Lengths of loops inside each other multiply. A loop
that is left when a number reaches another (or that goes on while it has not) ends there: a number that the loop itself counts
bounds that loop, any other, by how much it moves from one step to the next, the whole run.

Of a round that is longer than others alike.py tells, and where something else in one has steps, beside.py: then nothing is known.

Only names, attributes, constants, sums of them and a few functions without effects are worked out. Where one loop's end is not
found, nothing is known: 0 steps; where one hangs on the time, what is known is after how long. It is a count of what the script says
now; that it stops early when it has learnt enough, nobody can know.
"""
import ast
import functools
import math
import numbers
import os
import sys
import time
import types
import weakref
from collections.abc import Mapping

from . import beside, clocks, ends, growing, limits, passes, queues, shorter, through
from .alike import Round, longer, plain_lengths, sums_up, unlike
from .deciding import decides
from .ends import POPS, names as names_in  # noqa: F401  for others
from .expressions import ENDLESS, OVER, RANGES, amount, elements, length, lengthwise, local, number, of_call, value
from .passes import Unknown, rounds_of, unwrapped
from .source import FUNCTION, called, is_own, tree_of
from .told import LIBRARIES, Clock, Told, summed_up

COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
ALL = {"list", "tuple", "set", "sum", "max", "min", "sorted", "deque"}  # ask for each
INLINED = sys.version_info >= (3, 12)  # those but the last have no frame of their own
BELOW = {ast.Lt: 0, ast.LtE: 1}  # `counter < bound` goes on for so many more than the difference
ABOVE = {ast.Gt: 0, ast.GtE: 1}  # `counter > bound`, of one that falls
UNKNOWN = [(math.inf, None)]
UNTIL = {ast.GtE: ast.Lt, ast.Gt: ast.LtE, ast.LtE: ast.Gt, ast.Lt: ast.GtE, ast.Eq: ast.NotEq}  # what ends it -> while what it goes on
EVEN = 1e-3  # of it, by which what counts may move more or less from one step to the next
MANY = 100_000  # rounds in which it is asked whether each has a step
CLOSE = 1e-6  # of numbers that are no integers
WHILE = "__radrm_while__"  # what a `while` calls (trainings.py)


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


@functools.lru_cache(64)
def maps_of(filename):
    """[(list(map(f, ...)) and what else asks for all that it gives, its loop as if it was written so)] of each in a file."""
    found = []
    for node in ast.walk(tree_of(filename)):
        if called(node) in ALL and node.args and called(node.args[0]) == "map" and len(node.args[0].args) > 1:
            given = node.args[0].args[1:]
            over = given[0] if len(given) == 1 else ast.copy_location(ast.Call(ast.Name("zip", ast.Load()), given, []), node)
            loop = ast.copy_location(ast.For(ast.Name("_", ast.Store()), over, [ast.copy_location(ast.Expr(node), node)], []), node)
            loop.filtered = loop.outermost = False
            found.append((node, loop))
    return found


def is_comprehension(frame):
    return frame.f_code.co_name in ("<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>")


def all_around(frame):
    """As loops_around(), with those of comprehensions: of elements of these that it is at."""
    own, at = is_comprehension(frame), place(frame)
    mapped = [loop for node, loop in maps_of(frame.f_code.co_filename)
              if ((node.lineno, node.col_offset), (node.end_lineno, node.end_col_offset)) == at]
    if not own and not INLINED:
        return loops_around(frame) + mapped
    found = [loops for node, element, loops in comprehensions_of(frame.f_code.co_filename)
             if is_at(element, frame) and (own or not isinstance(node, ast.GeneratorExp))]
    return (found[-1] if own and found else loops_around(frame) + [loop for loops in found for loop in loops]) + mapped


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
def by_the_clock(loop, path):
    """(conditions that end the loop and hang on the time, as ends.py has them; the function or module that it stands in)"""
    scope = next((function for *_, function, one in loops_of(path) if one is loop), None) or tree_of(path)
    return [(test, going_on) for test, going_on in ends.conditions(loop) if clocks.hangs(test, scope, tree_of(path))], scope


def timed(loops, n, frame):
    """The Clock that ends the n-th of these loops of a frame; None."""
    path, code = frame.f_code.co_filename, frame.f_code
    tests, scope = by_the_clock(loops[n], path)
    asked = clocks.Asked(frame, scope, tree_of(path), loops[0]) if tests else None
    tests = [(test, going_on) for test, going_on in tests if asked.decides(test) and not any(
        asked.truth(one) is (not holds) for one, holds in ends.around(loops[n], test))]
    if not tests:
        return None
    try:
        seconds = min(asked.until(test, going_on) for test, going_on in tests)
    except Exception:  # whatever a script's own objects do where they are asked
        seconds = math.inf
    used = set().union(*(names_in(test) for test, _ in tests)) - {"self"}
    return Clock(f"{os.path.basename(path)}:{tests[0][0].lineno}", seconds, bool(used & {*code.co_varnames, *code.co_cellvars}))


# --- what it comes to ---

def going(line):
    """The variable of a `while` that begins there, as long as it is gone through. Within a class Python changes names that do
    not end like this."""
    return f"{WHILE}{line}__"


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


PASSED = ("torch", "radrm", "accelerate", "fire")  # have no loop of a training; the last calls what the command line names in one
BEGINNING = {"runpy", "multiprocessing.process"}  # what began the script, or the process that it is in


class Length:
    """Told of every step. `steps`: how many there will be in all, as of the last one; 0: not known. Where the time may end the run
    before, `clock` says so, and `most_steps` how many there are at most."""

    def __init__(self, around=lambda: ()):
        """`around`: gives the loops that are being gone through, as trainings.py has them."""
        self.around = around
        self.steps = self.most_steps = 0
        self.made = 0
        self.moved = 0  # rounds of the innermost loop between the last two steps
        self.looped = self.hurried = False  # it is in a loop; loops end early
        self.clock, self.first_s = None, 0  # a Clock; when the first step was
        self.limit_ms = 0  # it ends the run so long after that; 0: none does, or it is not known when
        self.summed = 1  # batches whose gradients are one step
        self.inner = 0  # of them, of the innermost loop: an epoch, mostly; infinite: not known
        self.evaluates = None  # where a library does, after each: what has it do so after the next step
        self.most = math.inf  # batches of an evaluation, where a library knows
        self.before = {}  # counter of a guard -> what it was when the step before was made
        self.began, self.crowded = {}, False  # loop -> rounds of it before the first step; one round of the innermost has several
        self.optimizer, self.others = None, {}  # whose step it is, while that is looked at; where there may be others -> whether there are
        self.fetched = weakref.WeakKeyDictionary()  # pass over a loader -> batches that it gave since the last step; none that is over
        self.passes = []  # those that gave some before it, and were not over

    def another(self, hurried):
        """Of steps that are counted by themselves, in the same script. `hurried`: loops end early by now."""
        found = Length(self.around)
        found.fetched, found.hurried = self.fetched, hurried
        return found

    def begin(self):
        """What was a step until now is none: another optimizer steps."""
        self.made, self.before, self.moved, self.began, self.crowded = 0, {}, 0, {}, False

    def fetch(self, loader):
        self.fetched[loader] = self.fetched.get(loader, 0) + 1

    def step(self, frame, optimizer=None):
        """Called by who noticed it; `frame` is his."""
        self.made, self.optimizer = self.made + 1, optimizer
        self.first_s = self.first_s or time.monotonic()
        try:
            steps = self.look(frame)
        except Exception:  # whatever a script's own attributes do when they are asked
            steps = 0
        finally:
            self.optimizer = None  # which would live on in it
        self.most_steps = min(int(steps), limits.MAX_COUNT) if math.isfinite(steps) and steps >= self.made else 0
        self.steps, ends = 0 if self.clock else self.most_steps, self.clock.seconds if self.clock else math.inf
        self.limit_ms = min(round(1000 * (ends + time.monotonic() - self.first_s)), limits.MAX_COUNT) if ends < math.inf else 0
        self.passes, self.summed = list(self.fetched), self.batches()
        self.fetched.clear()

    def look(self, frame):
        product, whole, first, now, self.clock, within = 1, math.inf, True, {}, None, []
        since = []  # frames since the last one with a loop
        passed, once, hangs = 0, True, None  # steps that rounds before the first had not; whether none will be so again; what they hang on
        summed = None  # as summed_up() has it
        more, lengths = False, []  # something beside has steps; [(what a loop goes over, how long that is now)], as this frame has it
        while frame is not None and frame.f_globals.get("__name__") not in BEGINNING:
            library = frame.f_globals.get("__name__", "").partition(".")[0]
            told = LIBRARIES[library](frame) if library in LIBRARIES else Told(0)
            counted = isinstance(told.steps, (int, float)) and not isinstance(told.steps, bool) and 0 < told.steps < math.inf
            if counted or told.clock:
                self.clock = told.clock
                self.evaluates, self.inner, self.most = told.often, told.every, told.most
                self.looped = True
                each = told.gone / self.made if told.gone else 1
                self.inner /= each
                return told.steps / each if counted and each >= 1 else 0
            summed = summed or library == "accelerate" and summed_up(frame)
            loops = [loop for loop in all_around(frame) if not over_optimizers(loop, frame)] if library not in PASSED else []
            if loops and self.clock and self.clock.local:
                self.clock = Clock(self.clock.where, math.inf)  # each round has its own
            bounds, innermost = [], loops[-1] if first and loops else None
            for n in reversed(range(len(loops))):
                rounds, bound, stretches = self.rounds(loops, n, frame, within, None if first else product, now)
                if n + 1 < len(loops) and (found := self.differing(loops, n, bounds, frame)):
                    rounds = found
                bounds += bound
                over, since = self.passed_over(loops[n], frame, since, stretches, loops[:n]), []
                gone = self.before_first(loops[n], frame)
                if first:
                    each = self.moves(loops[n], frame, now, rounds)
                    if summed and rounds == summed[1] and over is not None:
                        rounds, gone = math.ceil(without(rounds, over) / summed[0]), 0
                    else:
                        rounds, gone = stepping(loops, n, frame, rounds, each, gone, over)
                    rounds = math.inf if self.has_several(loops[n], frame) else rounds
                    hangs = ends.hangs_on(loops[n], place(frame))
                else:
                    rounds, gone = self.chosen(loops, n, frame, without(rounds, over), gone, innermost)
                    if rounds == rounds_of(stretches):
                        rounds = longer(loops[n], frame, lengths, unlike(loops, n, frame, rounds, product))
                    more = more or self.has_more(loops[n], frame)
                    rounds = math.inf if more and rounds != 1 else rounds
                    if passed and rounds != 1:
                        anew = locals_of(within[-1]) if n + 1 == len(loops) else ends.begins(loops[n], loops[n + 1])
                        once = once and bool(hangs) and not hangs & anew
                passed, product = passed + gone * product, product * rounds
                lengths += plain_lengths(loops[n], frame, stretches)
                least = min((one.steps for one in bounds if one.scope == n), default=math.inf)
                if least < product:
                    passed, product = 0, least
                if first:
                    self.inner, first = product, False
            whole = min([whole, *(one.steps for one in bounds if one.scope < 0)])
            function = function_of(frame) if (lengths or not first and not more) and is_own(frame.f_code.co_filename) else None
            more = more or not first and isinstance(function, FUNCTION[:2]) and self.has_more(function, frame)
            within.append(frame)
            since.append(frame)
            lengths = through.in_caller(lengths, frame, function, place(frame.f_back)) if function is not None and frame.f_back else []
            frame = frame.f_back
        self.before, self.looped = now, not first
        return 0 if first else min(product - passed if once else math.inf, whole)

    def ends_by(self, clock):
        """The first of those that do: where one is not known, it may be that."""
        if clock and (self.clock is None or clock.seconds == math.inf or clock.seconds < self.clock.seconds < math.inf):
            self.clock = clock

    def has_more(self, block, frame):
        """Whether something that is done in a round of a loop, or in a function, has steps of the same optimizer beside the one that is
        seen."""
        key = frame.f_code, block.lineno, id(self.optimizer)
        if key not in self.others:
            self.others[key] = is_own(frame.f_code.co_filename) and beside.has_steps(
                list(beside.in_round(block.body, place(frame))), frame, self.optimizer)
        return self.others[key]

    def differing(self, loops, n, bounds, frame):
        """Rounds of a loop where those of one in it are as many as hangs on the round; 0: they do not."""
        outer, hangs = loops[n], ends.moving(loops[n])
        inner = [loop for loop in loops[n + 1:]
                 if isinstance(loop, ast.For) and called(loop.iter) in RANGES and names_in(loop.iter) & hangs]
        if inner:
            one = len(inner) == 1 and isinstance(outer, ast.For)
            return sums_up(outer, inner[0], frame, length(inner[0].iter, frame)) if one else math.inf
        return math.inf if any(one.limit & hangs and one.scope > 0 for one in bounds) else 0

    def leaves_out(self, frame, optimizers):
        """Whether a round of a loop that it is in has steps of one of these, too."""
        while frame is not None and frame.f_globals.get("__name__") not in BEGINNING:
            if is_own(frame.f_code.co_filename) and any(
                    beside.has_steps(list(beside.in_round(loop.body, place(frame))), frame, one)
                    for loop in loops_around(frame) for one in optimizers):
                return True
            frame = frame.f_back
        return False

    def moves(self, loop, frame, now, rounds):
        """Rounds of the innermost loop, which has so many, for a step; 0: that is not known yet. Where each pass through it had one step,
        those from one to the next."""
        gone, key = self.gone_through(loop, frame), (frame.f_code, loop.lineno, "rounds")
        try:
            one, at = (gone.number, gone.gone) if gone else (0, self.number_of(loop, frame))
        except (Unknown, AttributeError, KeyError, IndexError, TypeError):
            return self.batches()
        now[key], (before, was, had) = (one, at, rounds), self.before.get(key, (one, at, 0))
        if before == one and at > was:
            self.moved = at - was
        elif not self.moved and self.made > 1 and had < math.inf and not self.hurried:
            self.moved = had - was + at
        return self.moved or self.batches()

    def number_of(self, loop, frame):
        """The round that a loop over numbers is at, from 0."""
        at, start, stride = where(loop, frame)
        return (at - start) / stride

    def before_first(self, loop, frame):
        """Rounds of a `for` before the one that had the first step; 0: none, or nobody knows."""
        key = frame.f_code, loop.lineno, "first"
        if self.made == 1:
            gone = self.gone_through(loop, frame)
            try:
                self.began[key] = gone.gone - 1 if gone and isinstance(loop, ast.For) else self.number_of(loop, frame)
            except (Unknown, AttributeError, KeyError, IndexError, TypeError):
                self.began[key] = 0
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
        """What a `for` goes over, in stretches as passes.py has them, by that itself, or as it stands there; one without end where nobody
        knows."""
        if getattr(loop, "filtered", False):
            return UNKNOWN
        gone = self.gone_through(loop, frame)
        what = gone and unwrapped(gone.what)
        if isinstance(what, (range, list, tuple)) or passes.of_torch(what)[0] or hasattr(what, "__next__"):
            try:
                return UNKNOWN if gone.begun else passes.stretches(what, gone.gone, self)
            except Exception:  # whatever a script's own objects do where they are asked
                pass
        found = lengthwise(loop.iter, made_in(frame) if getattr(loop, "outermost", False) and is_comprehension(frame) else frame)
        if found == math.inf and len(self.fetched) == 1 and "loader" in of_call(loop.iter).lower():
            return passes.of_loader(next(iter(self.fetched)))  # one that is made there
        if found < math.inf or gone is None or called(loop.iter) in ENDLESS or isinstance(what, Mapping):
            return [(found, None)]
        for told in (lambda: [(len(what), None)], lambda: passes.stretches(gone.left, gone.gone, self), lambda: [(len(gone.what), None)]):
            try:
                return told()
            except Exception:
                continue
        return UNKNOWN

    def function(self, code):
        """As it stands in the script."""
        return function_of(types.SimpleNamespace(f_code=code, f_lasti=0, f_lineno=code.co_firstlineno))

    def generated(self, what, gone):
        """As passes.stretches(), of a generator that has one `yield`, in each round of the loops around that."""
        frame = what.gi_frame
        if frame is None:
            raise Unknown
        function, loops, within = function_of(frame), all_around(frame), what.gi_yieldfrom
        bar = frame.f_globals.get("__name__", "").startswith("tqdm")  # which has another one where it shows nothing
        if function is not None and not bar and sum(isinstance(node, (ast.Yield, ast.YieldFrom)) for node in ast.walk(function)) > 1:
            raise Unknown
        if bar and loops:
            return passes.stretches(passes.parts_of(what)[-1], gone, self)
        if within is not None and not loops:
            return passes.stretches(within, gone, self)
        if len(loops) == 1 and within is None and isinstance(loops[0], ast.For) and not is_comprehension(frame):
            parts = passes.parts_of(what) or passes.parts_of(frame)  # before Python 3.11
            return self.kept(loops[0], frame, passes.stretches(parts[-1], gone, self), gone)
        rounds = 1
        for n, loop in enumerate(loops):
            found = self.over(loop, frame) if isinstance(loop, ast.For) else self.taken(loops, n, frame, gone)
            if found == UNKNOWN and isinstance(loop, ast.While) and len(loops) == 1 and gone:
                rounds *= gone + counting(loop, frame)
                continue
            if found == UNKNOWN and (isinstance(loop, ast.For) or ends.turns(loop)):
                raise Unknown
            rounds *= rounds_of(self.kept(loop, frame, found, gone))
        return [(rounds if within is None else rounds * rounds_of(passes.stretches(within, 0, self)), None)]

    def kept(self, loop, frame, stretches, gone):
        """What a generator's loop gives of these: not what it passes over by its size. Unknown, where it does so by anything else."""
        tests = [] if hasattr(loop, "filtered") else shorter.tests_around(loop, place(frame), frame)
        sized = {one.whole for one in tests}
        known = sum(isinstance(node, ast.If) and node.test in sized and not node.orelse and ends.turns(node)
                    for node in ends.flat(loop.body))
        others = {test for test, _ in (*ends.conditions(loop), *ends.skips(loop, place(frame)))} - sized
        if isinstance(loop, ast.While):
            ended = bool(ends.taking(loop) or queues.getting(loop))
            known, others = known + ended, others if len(others - {loop.test}) > ended else ()
            if not ended and not (isinstance(loop.test, ast.Constant) and loop.test.value):
                raise Unknown
        if others or ends.turns(loop) > known:
            raise Unknown
        return shorter.kept(stretches, shorter.passed_over(tests, stretches, gone))

    def plainly(self, loop, frame, node):
        """Rounds of a loop that comes to something in it in each of them; Unknown."""
        at = (node.lineno, node.col_offset), (node.end_lineno, node.end_col_offset)
        if not isinstance(loop, ast.For) or ends.skips(loop, at) or ends.turns(loop):
            raise Unknown
        return rounds_of(self.over(loop, frame))

    def queued(self, what, gone):
        """As passes.stretches(), of what takes from a queue."""
        return [(queues.of_iterator(what, gone, self), None)]

    def taken(self, loops, n, frame, gone=0):
        """As over(), of a `while` that takes one after the other from something until that has no more. `gone`: rounds of it, where
        that is known."""
        name, code, one = ends.taking(loops[n]), frame.f_code, self.gone_through(loops[n], frame)
        anew = name and (name in ends.begins(loops[n - 1], loops[n]) if n else code.co_name == "<module>" or (
            name in code.co_varnames[code.co_argcount:] + code.co_cellvars))
        try:
            if not name:
                return [(queues.of_while(loops[n], frame, one.gone if one else gone, self), None)]
            what = value(ast.parse(name, mode="eval").body, frame)
            if not anew:
                return UNKNOWN
            parts = [what, *getattr(what, "__dict__", {}).values()]
            own = [one for one in self.fetched if any(one is part for part in parts)]
            if own:
                return passes.of_loader(own[0]) if len(self.fetched) == len(own) == 1 else UNKNOWN
            return passes.stretches(what, 0, self) if hasattr(what, "__next__") else UNKNOWN
        except Exception:  # whatever a script's own objects do where they are asked
            return UNKNOWN

    def rounds(self, loops, n, frame, within, product, now):
        """(rounds of the n-th of these loops, each around the next, infinite where nobody can tell; [Bound]; what it goes over, in
        stretches). `within`: frames of what it calls for a step; `product`: steps that a round has, as far as its loops tell, None: it
        is one."""
        loop, bounds = loops[n], []
        stretches = self.over(loop, frame) if isinstance(loop, ast.For) else self.taken(loops, n, frame)
        rounds = rounds_of(stretches)
        self.ends_by(timed(loops, n, frame))
        if ends.leaves(loop.body):
            return 1, bounds, stretches
        _, scope = by_the_clock(loop, frame.f_code.co_filename)
        for test, going_on in filter(None, (decides(*guard, loop, frame) for guard in ends.guards(loop))):
            if test in shorter.leaving(loop) or self.clock and clocks.hangs(test, scope, tree_of(frame.f_code.co_filename)):
                continue  # passed_over() and the clock know
            try:
                guard = Guard(ends.compared(test, ends.falling(loop)), going_on, loops, n, frame, within)
                if guard.own:
                    least, rounds = rounds, math.inf  # where it ends nobody knows, but by this
                    rounds = min(least, guard.whole_of_own())
                    continue
                since, moved, first = self.moved_since(guard, now)
                if not guard.known and product and 1 < product < MANY:
                    if (whole := self.in_rounds(guard, now, product)) is not None:
                        bounds.append(Bound(whole, guard.scope, guard.limit))
                    continue
                if product is None and moved == 0 and guard.counts and not any(one.sure for one in guard.counts):
                    rounds = math.inf  # it counts what is no step, as what ends each of several queues
                elif guard.outside(product) or moved == 0:
                    rounds = min(rounds, 1 + guard.further(first / guard.each(product)))
                elif moved > 0:
                    steps = (since if guard.scope >= 0 else self.made) + guard.further(guard.gap / moved)
                    whole = math.ceil(steps / product) * product if product and product < math.inf else steps
                    bounds.append(Bound(whole, guard.scope, guard.limit))
            except (Unknown, AttributeError, KeyError, IndexError, TypeError, ValueError, ZeroDivisionError):
                continue
        return rounds, bounds, stretches

    def chosen(self, loops, n, frame, rounds, gone, innermost):
        """(rounds of a loop in which what is asked in it, or in those inside, of what it goes over, is as it was for the step: `if phase ==
        "train":`; rounds before the first such that are still among them). Of numbers nobody knows: what comes of the last ones is asked
        for elsewhere (turning.py), by the length of the run. Nor where something else has steps then, but in its place in a round of the
        innermost loop."""
        if not isinstance(loops[n], ast.For) or not rounds <= MANY:
            return rounds, gone
        own, others = names_in(loops[n].target), set().union(*(ends.moving(loop) for loop in loops[:n] + loops[n + 1:]))
        asked, more = [], False
        for loop, (test, holds, instead) in ((loop, arm) for loop in loops[n:] for arm in ends.arms(loop, place(frame))):
            steps = beside.has_steps(instead, frame, self.optimizer)
            if steps and loop is innermost:
                continue
            parts = [(part, now) for part, now in ends.alone(test, holds) if clocks.is_plain(part) and names_in(part) & own
                     and not names_in(part) & (others - own)]
            asked, more = asked + parts, more or steps and bool(parts)
        try:
            tests = [(compile(ast.Expression(test), "<test>", "eval"), holds, names_in(test)) for test, holds in asked]
            every = [Round(frame, loops[n], element) for element in elements(loops[n].iter, frame)] if tests else []
            found = sum(all(bool(eval(test, frame.f_globals, {name: local(one, name) for name in names if name in own or local(
                frame, name, Unknown) is not Unknown})) == holds for test, holds, names in tests) for one in every)
        except Exception:  # whatever a script's own values do where they are asked
            return rounds, gone
        if len(every) != rounds or found in (0, rounds):
            return rounds, gone
        return (math.inf if more or called(loops[n].iter) in (*RANGES, "enumerate") else found), 0

    def passed_over(self, loop, frame, called_, stretches, outer=()):
        """Rounds of a loop that have no step since what it gives then is of another size, as shorter.py has them; None: nobody knows.
        `called_`: frames of what it calls for a step."""
        gone = self.gone_through(loop, frame)
        tests = [] if hasattr(loop, "filtered") else shorter.tests_around(loop, place(frame), frame)
        for at in called_:
            function = function_of(at) if is_own(at.f_code.co_filename) else None
            if isinstance(function, ast.FunctionDef):
                tests += shorter.tests_around(function, place(at), at)
        hangs = set().union(*map(ends.moving, outer)) - shorter.batch_names(loop) if tests and outer else set()
        if any(names_in(one.test) & hangs or any(names_in(other) & ends.moving(loop) for other in one.others) for one in tests):
            return None  # `if epoch < 2 and len(x) < 5: continue`
        try:
            return shorter.passed_over(tests, stretches, gone.gone if gone else 0)
        except (Unknown, AttributeError, KeyError, IndexError, TypeError):
            return None

    def in_rounds(self, guard, now, each):
        """Steps until a counter of which nobody sees what counts it comes to its end, where a round of its loop has `each`: in one of them
        it moves as it did in the last that was seen whole. None: none was yet."""
        key = (*guard.key, "gaps")
        now[key] = gaps = (*self.before.get(key, ()), guard.gap)[-int(each) - 1:]
        moved = gaps[0] - gaps[-1]
        if len(gaps) <= each or moved <= 0:
            return None
        return (math.ceil(self.made / each) + guard.further(guard.gap / moved)) * each

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
        sides = {bare(part) for side in (test.left, test.comparators[0]) for part in (side, *terms(side))}
        if {ast.unparse(n) for n in ast.walk(test) if isinstance(n, (ast.Name, ast.Attribute))} & ends.noted(self.loop):
            raise Unknown  # `step - best_step > patience`
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
        if not self.counts:
            self.order = [(self.test, call, self.place) for call in beside.calls(self.loop.body) if any(
                one.name.rpartition(".")[2] in words for one in beside.counts(call, self.frame))]

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
        if not self.counts and not self.takes:
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


def counting(loop, frame):
    """Rounds of a generator's `while` behind the one that it is at, where it counts to an end: `while at < len(x): yield ...; at += n`."""
    tests = ends.guards(loop)
    found = decides(*tests[0], loop, frame) if len(tests) == 1 and not ends.turns(loop) else None
    if found is None:
        raise Unknown
    guard = Guard(ends.compared(found[0], ends.falling(loop)), found[1], [loop], 0, frame, ())
    if not guard.counts or not all(one.sure and one.way for one in guard.counts):
        raise Unknown
    return guard.further(guard.gap / guard.each(None))


def without(rounds, over):
    """So many rounds, but for those that are passed over; infinite: nobody knows."""
    return math.inf if over is None or rounds == math.inf else rounds_of(shorter.kept([(rounds, None)], over))


def stepping(loops, n, frame, rounds, each, gone, over):
    """(steps in so many rounds of a loop, of which one comes every `each`; those of them that are gone, since rounds were passed before
    the first): of those in which what is asked before it says so, none are. `gone`: rounds before that of the first step; `over`: as
    passed_over() has them."""
    loop, skipped, kept = loops[n], max((gone + 1) / each - 1, 0), without(rounds, over)
    whole, tests = kept / each, [one for one in ends.skips(loop, place(frame)) if clocks.is_plain(one[0])]
    if each > 1 and kept != rounds:
        whole = math.inf  # of which step they would have been a part, only a counter tells
    if each <= 1 and not skipped or rounds > MANY or kept == math.inf or not tests:
        return whole, skipped
    try:
        _, start, stride = where(loop, frame)
        counter = ast.unparse(loop.target.elts[0] if isinstance(loop.target, ast.Tuple) else loop.target)
        asked = [(compile(ast.Expression(test), "<test>", "eval"), holds) for test, holds in tests if counter in names_in(test)]
        others = set().union(*(names_in(test) for test, _ in tests if counter in names_in(test)))
        named = {name: found for name in others if (found := local(frame, name, Unknown)) is not Unknown}
        found = sum(all(bool(eval(test, frame.f_globals, {**named, counter: start + at * stride})) == holds for test, holds in asked)
                    and not any(begin <= at < end for begin, end in over) for at in range(int(rounds)))
    except Exception:  # whatever a script's own values do where they are asked
        return whole, skipped
    alike = not skipped or not others & set().union(*map(ends.moving, loops[:n])) and not any(map(growing.COUNTS.match, others - {counter}))
    return (found, 0) if asked and alike and abs(found - kept / each + skipped) <= 1 else (whole, skipped)


def locals_of(frame):
    """Names of variables that a function has anew whenever it is called; numbers that count, too."""
    code = frame.f_code
    own = {*code.co_varnames[code.co_argcount + code.co_kwonlyargcount:], *code.co_cellvars}
    return (own if code.co_name != "<module>" else set()) | set(filter(growing.COUNTS.match, code.co_varnames))


def bare(side):
    """`todo`, of `len(todo)`."""
    return ast.unparse(side.args[0] if called(side) == "len" and len(side.args) == 1 else side)


def terms(side):
    """Those of a sum."""
    return (side.left, side.right) if isinstance(side, ast.BinOp) and isinstance(side.op, (ast.Add, ast.Sub)) else ()


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


def install(session, patch):
    """Has loaders tell what they give, and ask whether to."""
    from torch.utils.data import dataloader
    real = dataloader._BaseDataLoaderIter.__next__

    def give(self):
        try:
            if session.later.over(self):
                raise StopIteration
            batch = session.later.batch(self, lambda: real(self))
        except StopIteration:
            session.length.fetched.pop(self, None)
            raise
        session.length.fetch(self)
        return batch
    patch(dataloader._BaseDataLoaderIter, "__next__", give)

