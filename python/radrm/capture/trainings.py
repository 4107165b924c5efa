# SPDX-License-Identifier: MIT
"""Several trainings in one script: folds, a search for hyperparameters, one that warms up and then the real one, stages with
larger images or models.

Enough is seen early in the first. Where the source says that another comes, the script goes on (later.py), and its loops tell
of their rounds here: those over steps and epochs end after two, those over trainings go on, to the last one by a leap where
many were alike or time is short.
"""
import ast
import builtins
import functools
import inspect
import itertools
import linecache
import math
import re
import sys
import threading
import weakref
from types import GeneratorType

from torch.utils.data import DataLoader

from . import expressions, fileformat as ff, length
from .length import WHILE
from .passes import unwrapped
from .source import tree_of
from .stages import Stages, way_to

FOR = "__radrm_for__"  # what loops call; a `while`
NUMBA = {"jit", "njit", "vectorize", "guvectorize", "stencil"}  # its decorators
ROUNDS = 2  # with steps, of a loop over steps or epochs: the first makes the optimizer's state, the second has it all along
WAITS = 10  # for an optimizer that has not stepped, as a generator's
ALIKE = 3  # trainings after each other that took no more than those before
LONG = 12_000  # operators after which these are believed to be like the rest, some seconds
HIGHER = 1.02  # times the memory
QUIET = 20_000  # likewise, in batches without gradients, or rounds of an evaluation's loops, that all took the same
MANY = 10_000  # rounds of one of which it is not known how many it has
RECORDS = 1_000_000
BACKWARD = {"backward", "manual_backward"}
LIBRARY = {"fit", "fit_one_cycle", "fine_tune", "train", "learn"}  # methods that train, of what is called like that:
TRAINER = re.compile(r"(trainer|learn|learner)\b(\(.*\))?$", re.IGNORECASE | re.DOTALL)
KERAS = re.compile(r"model$", re.IGNORECASE)
# Names of methods that are no training's own: many other things are called so.
NEVER = {"step", "zero_grad", "forward", "__call__", "backward", "closure", "eval"}
RUNS = re.compile(r"train|engine|agent|exper|runner|self$|solver|exp$", re.IGNORECASE)  # of x.train(): x is no module
TUNERS = {"optuna", "ray", "hyperopt", "skopt", "wandb", "nevergrad", "ax", "bayes_opt"}  # libraries that call a training again and again
SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)


# --- what stands in the script ---

class Looping(ast.NodeTransformer):
    """Has loops tell of their rounds."""

    def __init__(self):
        self.parts = 0

    def tells(self, node):
        found = any(isinstance(inside, ast.Call) for statement in node.body for inside in ast.walk(statement))
        self.parts += found
        return found

    def visit_FunctionDef(self, node):
        """Those of a generator go on, as whoever asks it does: `while True: yield from loader`; and Numba compiles what stands there."""
        compiled = any(getattr(part, "id", getattr(part, "attr", "")) in NUMBA for decorator in node.decorator_list
                       for part in ast.walk(decorator))
        return node if compiled or any(isinstance(inside, (ast.Yield, ast.YieldFrom))
                                       for inside in within(node.body)) else self.generic_visit(node)

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_For(self, node):
        self.generic_visit(node)
        if self.tells(node):
            node.iter = self.call(FOR, node, node.iter)
        return node

    def visit_While(self, node):
        self.generic_visit(node)
        if returns(node) or not self.tells(node):
            return node
        name = length.going(node.lineno)
        begins = ast.Assign([ast.Name(name, ast.Store())], self.call(WHILE, node))
        node.test = ast.BoolOp(ast.And(), [node.test, ast.Call(ast.Name(name, ast.Load()), [], [])])
        ends = ast.Assign([ast.Name(name, ast.Store())], ast.Constant(None))
        return [ast.fix_missing_locations(ast.copy_location(part, node)) for part in (begins, node, ends)]

    def call(self, name, node, *arguments):
        return ast.fix_missing_locations(ast.copy_location(ast.Call(ast.Name(name, ast.Load()),
                                                                    [*arguments, ast.Constant(node.lineno)], []), node))


def returns(loop):
    """Whether a `return` of something is all that ends a `while True`: its function would give nothing if it ended otherwise."""
    own = list(loop.body)
    for node in own:
        if not isinstance(node, (ast.For, ast.AsyncFor, ast.While, *SCOPES)):  # a `break` there ends that one
            own += ast.iter_child_nodes(node)
    return (isinstance(loop.test, ast.Constant) and bool(loop.test.value) and not any(isinstance(node, ast.Break) for node in own)
            and any(isinstance(node, ast.Return) and node.value is not None for node in within(loop.body)))


def trains(call):
    """Whether a call is of a training as such, or of a library's."""
    name = length.called(call)
    if name in BACKWARD:
        return True
    if name not in LIBRARY or not isinstance(call.func, ast.Attribute):
        return False
    owner = ast.unparse(call.func.value)
    return bool(TRAINER.search(owner)) or name == "fit" and bool(KERAS.search(owner))


class Names(set):
    """Of functions, methods and classes that train. `methods`: names that methods have; `modules`: that were imported;
    `bodies`: name -> what it is called for."""

    def __init__(self):
        super().__init__()
        self.methods, self.modules, self.bodies = set(), set(), {}
        self.closures = set()  # of functions of whatever name with a backward pass in them: an optimizer's step may be told to call one
        self.switches = {}  # name -> of what it is called for that trains: (it, parameters without which nothing does)

    def has(self, call):
        """Whether it may be one of these."""
        return length.called(call) in self and self.owns(call) and (length.called(call) not in NEVER or isinstance(call.func, ast.Name))

    def owns(self, call):
        """Whether what is called may be the script's: what something else has of a function's name, as the `run` of a library's
        engine, is not."""
        return (not isinstance(call.func, ast.Attribute) or length.called(call) in self.methods
                or ast.unparse(call.func.value) in self.modules)


    def called_in(self, trees):
        """Functions of the script that are called there, and by those."""
        found, waiting = [], list(trees)
        for tree in waiting:
            more = [body for call in ast.walk(tree) if length.called(call) in self.bodies and self.owns(call)
                    for body in self.bodies.get(length.called(call), ())]
            more = [body for body in dict.fromkeys(more) if body not in found]
            found += more
            waiting += more
        return found


def functions(paths):
    """Names of functions, methods and classes of these files that train when they are called."""
    bodies, found, inside_class = [], Names(), set()
    for path in paths:
        found.modules |= {alias.asname or alias.name for node in ast.walk(tree_of(path))
                          if isinstance(node, (ast.Import, ast.ImportFrom)) for alias in node.names}
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.ClassDef):
                methods = [inside for inside in node.body if isinstance(inside, SCOPES[:2])]
                found.methods |= {inside.name for inside in methods}
                inside_class |= set(methods)
                bodies += [(node.name, inside) for inside in node.body if isinstance(inside, ast.FunctionDef) and inside.name == "__init__"]
            elif isinstance(node, SCOPES[:2]) and node.name != "__init__" and not (node.name in NEVER and node in inside_class):
                bodies.append((node.name, node))
            if isinstance(node, SCOPES[:2]) and any(length.called(inside) in BACKWARD for inside in ast.walk(node)):
                found.closures.add(node.name)
    for name, body in bodies:
        found.bodies.setdefault(name, []).append(body)
    calls = [(name, [n for n in ast.walk(body) if isinstance(n, ast.Call)]) for name, body in bodies]
    while more := {name for name, inside in calls if name not in found and any(may_begin(call, found) for call in inside)}:
        found |= more
    return found


def begins_one(call, names):
    """Whether a call trains, by these names of functions that do."""
    return may_begin(call, names) and not is_off(call, names)


def is_off(call, names):
    """Whether a call says that there is to be no training: `train(epoch, loader, backprop=False)`."""
    name = length.called(call)
    if name not in names.switches:
        names.switches[name] = [(body, found) for body in names.bodies.get(name, ()) if (found := switches(body, names)) is not None]
    return bool(names.switches[name]) and all(any(is_false(given(call, body, switch)) for switch in found) for body,
                                              found in names.switches[name])


def is_false(node):
    return isinstance(node, ast.Constant) and node.value in (False, None)


def given(call, function, name):
    """What a call gives for a parameter; its default, or None."""
    own, arguments = function.args, [a.arg for a in (*function.args.posonlyargs, *function.args.args)]
    arguments = arguments[arguments[:1] == ["self"] and isinstance(call.func, ast.Attribute) or function.name == "__init__":]
    said = {**dict(zip(arguments, call.args)), **{keyword.arg: keyword.value for keyword in call.keywords}}
    usual = {**dict(zip(arguments[len(arguments) - len(own.defaults):], own.defaults)),
             **dict(zip((a.arg for a in own.kwonlyargs), own.kw_defaults))}
    return None if any(isinstance(a, ast.Starred) for a in call.args) or None in said else said.get(name, usual.get(name))


def switches(function, names):
    """Parameters without which nothing in a function trains; None: nothing does anyway."""
    own = {a.arg for a in (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)}

    def outside(node, asked):
        """What was asked for where something trains."""
        if isinstance(node, ast.Call) and may_begin(node, names):
            yield asked
        inside = asked
        if isinstance(node, ast.If):
            tests = node.test.values if isinstance(node.test, ast.BoolOp) and isinstance(node.test.op, ast.And) else [node.test]
            inside = asked | {test.id for test in tests if isinstance(test, ast.Name)}
        for child in ast.iter_child_nodes(node):
            yield from outside(child, inside if isinstance(node, ast.If) and child in node.body else asked)
    found = list(outside(function, frozenset()))
    return own.intersection(*found) if found else None


def may_begin(call, names):
    """As begins_one(), whatever is said to what is called; a function may be given to somebody else who calls it."""
    if trains(call) or any(isinstance(a, ast.Name) and a.id in names for a in (*call.args, *(k.value for k in call.keywords))):
        return True
    if length.called(call) == "step" and isinstance(call.func, ast.Attribute):
        return any(getattr(a, "id", getattr(a, "attr", "")) in names.closures for a in call.args)
    if not names.has(call):
        return False
    return not (length.called(call) == "train" and isinstance(call.func, ast.Attribute)) or bool(RUNS.search(ast.unparse(call.func.value)))


def within(statements):
    """What these are made of, but for what is in functions that are only made there."""
    waiting = list(statements)
    for node in waiting:
        if not isinstance(node, SCOPES):
            waiting += ast.iter_child_nodes(node)
            yield node


def calls(statements):
    return (node for node in within(statements) if isinstance(node, ast.Call))


def rest(body, frame, steps):
    """What of that block, and of those in it that the frame is in, may run after what it is at. `steps`: the loop whose rounds are
    steps."""
    at = max((n for n, statement in enumerate(body) if length.is_at(statement, frame)), default=None)
    if at is None:
        return []
    found, inside = body[at + 1:], body[at]
    if inside is steps or isinstance(inside, SCOPES[:2]):
        return found + (inside.orelse if inside is steps else [])
    blocks = [getattr(inside, name, []) for name in ("body", "orelse", "finalbody")] + [h.body for h in getattr(inside, "handlers", ())]
    blocks = [block for block in blocks if isinstance(block, list) and block]
    here = next((block for block in blocks if any(length.is_at(statement, frame) for statement in block)), None)
    if here is None:
        return found + [part for block in blocks for part in block] + later_in(inside, frame)
    found += rest(here, frame, steps)
    if here is not getattr(inside, "finalbody", here):
        found += inside.finalbody
    if here is inside.body and not isinstance(inside, ast.If):
        found += getattr(inside, "orelse", [])
    if here is inside.body and isinstance(inside, (ast.For, ast.While)):
        found += here[:next(n for n, statement in enumerate(here) if length.is_at(statement, frame))]
    return found


def later_in(statement, frame):
    """Calls of a statement that come after the one that the frame is at: `return train(), evaluate()`, `print(train())`."""
    _, end = length.place(frame)
    return [] if len(end) < 2 else [
        call for call in calls([statement]) if (call.end_lineno, call.end_col_offset) > end and (
            (call.lineno, call.col_offset) >= end or length.is_at(call, frame))]


def body_of(frame):
    """The block of the function, or the module, that it is in; what a lambda, or a comprehension, comes to."""
    code = frame.f_code
    if code.co_name == "<module>":
        return tree_of(code.co_filename).body
    if length.is_comprehension(frame):
        return [part for node in comprehensions(frame) for part in (getattr(node, "elt", None), getattr(node, "value", None)) if part][-1:]
    found = length.function_of(frame)
    return [] if found is None else found.body if isinstance(found.body, list) else [found.body]


def call_at(frame):
    """The call that it is at; None: nobody can tell."""
    found = length.place(frame)
    return next((node for node in ast.walk(tree_of(frame.f_code.co_filename)) if isinstance(node, ast.Call)
                 and ((node.lineno, node.col_offset), (node.end_lineno, node.end_col_offset)) == found), None)


def comprehensions(frame):
    """Those that what it is at stands in: one that trains does so for each of something."""
    return (node for node in ast.walk(tree_of(frame.f_code.co_filename)) if isinstance(node, length.COMPREHENSIONS)
            and length.is_at(node, frame))


def outwards(frame):
    while frame is not None and frame.f_globals.get("__name__") not in length.BEGINNING:
        yield frame
        frame = frame.f_back


def follows(frames, names, is_own, stepping=True, parts=(), taught=()):
    """Whether the script's own code has another training further on, beside the loop whose rounds are steps, if it is in one.
    `frames`: from where it is outwards; `parts`: where loops stand whose rounds are parts of one training; `taught`: lines from
    which backward passes came: what they stand in is none."""
    within = False  # a library, whose object's method the script calls to train
    for frame in frames:
        library = frame.f_globals.get("__name__", "").partition(".")[0]
        outer, within = within, False
        if library in TUNERS:
            return True
        if not is_own(frame.f_code.co_filename):
            within = library not in length.PASSED
            stepping = stepping and not (library in length.LIBRARIES or within and length.loops_around(frame))
            continue
        if any(begins_one(call, names) for call in calls(comprehensions(frame))):
            return True
        loops = [loop for loop in length.loops_around(frame) if not length.over_optimizers(loop, frame)]
        if stepping and not loops:
            continue
        steps = loops[-1] if stepping else next((loop for loop in loops if (frame.f_code.co_filename, loop.lineno) in parts), None)
        stepping = False
        left = [one for one in rest(body_of(frame), frame, steps)
                if not any((frame.f_code.co_filename, line) in taught for line in range(one.lineno, one.end_lineno + 1))]
        own = call_at(frame) if outer else None
        if any(begins_one(call, names) or own is not None and is_like(call, own) for call in calls(left)):
            return True
    return False


def is_like(call, other):
    """Whether a call is of a library's training, as the other is."""
    if not (isinstance(call.func, ast.Attribute) and length.called(call) == length.called(other)):
        return False
    owner = ast.unparse(call.func.value)
    return length.called(call) in LIBRARY or owner == ast.unparse(getattr(other.func, "value", other)) or bool(TRAINER.search(owner))


# --- what they tell ---

class Loop:
    """One that is being gone through. Scripts have millions, most of them before any training: what these cost is what is done
    to make one, and in each of their rounds."""
    rounds, stepped = 0, False  # since the script goes on: rounds in which a step was made; whether this is one
    # Optimizers that step in loops within it; whether another one does right in it, as a generator beside its critic.
    beneath, direct = frozenset(), False
    steps = most = 0  # in this round; in any
    loads = False  # a loader or a stream was made in it
    own, foreign, made = (), False, False  # optimizers that were; whether another one steps in it, whether one was made
    tests = 0  # rounds in an evaluation
    peak = streams = alike = 0  # rounds after each other that took no more than those before; streams before this one
    order = None  # where the streams of the last one were made
    left = None  # what a `for` goes over, as it does
    counted = 0  # steps in this round that were counted (length.py)
    gone = 0  # rounds, with this one
    begun = False  # whether it goes on with a generator where another loop left it

    def __init__(self, trainings, where, what=None):
        """`what`: a `for` goes over."""
        self.trainings, self.where, self.what = trainings, where, what
        self.number, self.thread = next(trainings.numbers), threading.get_ident()
        trainings.loops[self.number] = weakref.ref(self)
        if trainings.going:
            self.streams = len(trainings.session.later.streams.made)

    def __del__(self):
        self.trainings.loops.pop(self.number, None)

    @property
    def inside(self):
        """Whether another loop is in it, in which the steps are."""
        return len(self.beneath) > 0 and not self.direct

    @property
    def counts(self):
        """Whether its rounds are numbers: nothing in them hangs on what it goes over."""
        if self.what is None:
            return not takes(*self.where)
        return isinstance(unwrapped(self.what), (range, itertools.count)) and not takes(*self.where)

    def trains(self):
        """Whether each round is a training of its own."""
        return self.made and not self.foreign and (self.inside or self.most > 1)

    def repeats(self):
        """Whether each round is one, or may be of another size than the one before."""
        return self.trains() or self.inside and (self.loads or not self.counts)

    def differs(self):
        """Whether a round may be another training than the one before, and not just an epoch that makes its loader, or some
        batches of one."""
        return self.trains() or not self.counts and not isinstance(unwrapped(self.what), DataLoader)

    def round(self):
        """Another round would begin. Whether the loop is to "end", or to go on with its "last" round."""
        trainings, self.steps, self.counted = self.trainings, 0, 0
        if trainings.testing:
            self.tests += 1
            if self.tests > ALIKE and trainings.tested(sys._getframe(2), self):
                return "end"
        if (trainings.going or trainings.testing and trainings.session.later.going) and trainings.over():
            trainings.session._finish()
        if trainings.session.later.led and self.number in trainings.around:
            return "end"
        if not trainings.going or not self.stepped:
            return ""
        self.rounds, self.stepped = self.rounds + 1, False
        peak, order = trainings.session.recorder.peak_bytes, trainings.session.later.streams.since(self.streams)
        self.alike = self.alike + 1 if peak <= HIGHER * self.peak and order == self.order else 0
        self.peak, self.streams, self.order = peak, self.streams + len(order), order
        if order:
            trainings.session.later.streams.rounds = self.number_of(trainings.around_us())
        if self.repeats():
            if self.differs():
                trainings.repeated[self.where] = self.alike
            enough = trainings.waits() if self.trains() else not trainings.phased
            return "last" if trainings.hurries() or self.alike >= ALIKE and enough else ""
        if trainings.session.waiting and self.rounds < WAITS or self.inside and trainings.held or not trainings.climbed() \
                or trainings.session.later.turns.waits(self.inside):
            return ""
        return "end" if self.rounds >= ROUNDS else ""

    def number_of(self, loops):
        """Rounds that it has in the whole run, where it is in these loops; infinite: not known."""
        return math.prod(rounds_of(loop.what, math.inf) for loop in loops
                         if loop.number <= self.number)

    def __call__(self):
        """Whether a `while` goes on."""
        self.gone += 1
        end = (self.stepped or self.trainings.going or self.trainings.testing) and self.round()
        return not (end == "end" or end and self.alike >= ALIKE)

    def over(self):
        """What a `for` goes over, as far as that is needed. Nothing here holds what was given: the script may free it, or put
        something else in its place."""
        left = self.left = iter(self.what)
        self.begun = type(left) is GeneratorType and inspect.getgeneratorstate(left) != inspect.GEN_CREATED

        def given(each):
            self.gone += 1
            end = (self.stepped or self.trainings.going or self.trainings.testing) and self.round()
            if end == "last" and self.ends(sys._getframe(1)):
                for each in left:
                    if self.differs():
                        self.trainings.skip(self.alike)
            elif end == "end" or end and self.alike >= ALIKE:
                raise StopIteration  # which ends a map()
            return each
        return map(given, left)

    def ends(self, frame):
        """Whether that has an end, as far as can be told."""
        return hasattr(type(self.what), "__len__") or any(
            expressions.lengthwise(loop.iter, frame) < math.inf for loop in length.loops_around(frame) if isinstance(loop, ast.For)
            and loop.lineno == self.where[1])


class Trainings:
    """Told of loops, optimizers and steps. `going`: the script goes on for what other trainings take. `held`: loops over epochs
    do not end early; `phased`: nor where epochs were alike."""

    def __init__(self, session):
        self.session = session
        self.going = self.held = self.phased = False
        self.numbers, self.loops = itertools.count(), {}  # number -> weak reference to a loop that is being gone through
        self.steps, self.passing = 0, weakref.WeakKeyDictionary()  # of any optimizer; pass over a loader -> steps before it, batches
        self.around = set()  # numbers of loops that the first is in
        self.passed = None  # (number, place, rounds) of the innermost loop of the last step
        self.stages, self.unseen = Stages(), False  # whether there is another one of which nothing was seen
        self.parts = set()  # where loops stand that had steps, of optimizers that are older
        self.taught = set()  # (file, line) that a backward pass came from, by whatever functions
        self.told = {}  # (a library's trainer, by its id, the training that it is) -> steps of it
        self.repeated = {}  # where a loop stands whose rounds are trainings -> those after each other that took no more than those before
        # An evaluation: (code, lines that it stands in, operators before it or before more was taken, bytes alive and in all at
        # most).
        self.testing = None
        self.most = math.inf  # where trainings were left out: bytes that those before took, if they were alike, else 0

    def around_us(self):
        """The loops that this is in, from the outermost on. Those of other threads go on beside it."""
        return [loop for ref in list(self.loops.values()) if (loop := ref()) is not None and loop.thread == threading.get_ident()]

    # --- what is told ---

    def made(self, optimizer):
        for loop in self.around_us():
            loop.made = True
            loop.own = loop.own or weakref.WeakSet()
            loop.own.add(optimizer)

    def makes(self):
        for loop in self.around_us():
            loop.loads = True

    def teaches(self, frame):
        """A backward pass came from there."""
        self.testing = None
        self.taught.update((at.f_code.co_filename, at.f_lineno) for at in outwards(frame))

    def step(self, frame, optimizer=None):
        """Of any optimizer, or a backward pass without one."""
        self.steps, self.testing = self.steps + 1, None
        self.stages.step(frame, optimizer, self.session)
        loops = self.around_us()
        for loop in loops:
            loop.foreign |= optimizer not in loop.own
            if loop is not loops[-1]:
                loop.beneath |= {id(optimizer)}
            else:
                loop.direct |= id(optimizer) not in loop.beneath
            loop.stepped, loop.steps = True, loop.steps + 1
            loop.most = max(loop.most, loop.steps)
            (self.parts.discard if loop.made else self.parts.add)(loop.where)
        self.passed = (loops[-1].number, loops[-1].where, loops[-1].gone) if loops else None

    def in_turn(self, frame):
        """Whether an optimizer that steps there for the first time has its turn now, in another pass through the loop that the one before
        had several steps in: models of several folds or clients, an epoch each."""
        if not self.passed or way_to(frame) != self.stages.way:
            return False
        number, where, rounds = self.passed
        loops = self.around_us()
        return bool(loops) and rounds > 1 and loops[-1].where == where and loops[-1].number != number

    def tests(self, code, lines):
        """An evaluation comes, in these lines: `if step % 1000 == 0: roll_out()`."""
        self.testing = code, lines, self.session.recorder.operators, 0, 0

    def tested(self, frame, loop):
        """Whether that is within it, and there were enough rounds of a loop: what they leave, as words of a text, comes to no
        more than half of what was taken before, and none took more. Once it goes on that is asked when time is short, since how
        long an evaluation takes is seen then."""
        code, (first, last), began, live, peak = self.testing
        recorder, later = self.session.recorder, self.session.later
        rounds = rounds_of(loop.what, MANY)
        if recorder.peak_bytes > peak or live + max(recorder.live_bytes - live, 0) * rounds / loop.tests > peak / 2:
            self.testing, loop.tests = (code, (first, last), recorder.operators, max(recorder.live_bytes, live), recorder.peak_bytes), 0
        elif recorder.operators > began + QUIET and (not later.going or self.hurries()) and any(
                at.f_code is code and first <= at.f_lineno <= last for at in outwards(frame)):
            later.shortened = later.going
            return True
        return False

    # --- what follows ---

    def begins(self, frame, files, is_own, held):
        """Enough was seen of the first, at that frame. Whether another one follows. `held`: something comes in a later epoch anyway."""
        self.names, self.is_own = functions(files), is_own
        self.held = self.phased = held
        loops = self.around_us()
        self.going = self.session.awaits or any(loop.repeats() for loop in loops) or follows(outwards(frame), self.names, is_own)
        self.around = {loop.number for loop in loops}
        self.stages.over = not self.going
        for loop in loops:
            loop.rounds, loop.stepped = 0, False
            loop.peak, loop.streams = self.session.recorder.peak_bytes, len(self.session.later.streams.made)
        return self.going

    def shortens(self):
        """Epochs that go over no loader are to end early, for the evaluation that is behind each. Whether anything is seen then."""
        self.going = self.going or not self.held
        return self.going

    def waits(self):
        """Whether it takes long enough to leave out what is alike."""
        return self.session.recorder.operators > self.session.later.ran + LONG

    def over(self):
        return self.session.recorder.records.count > RECORDS or self.session.later.over_bound()

    def hurries(self):
        return self.session.recorder.records.count > RECORDS / 2 or self.session.later.over_bound(1 / 2)

    def climbed(self):
        """Whether all sizes on the way to the largest were seen."""
        return self.session.later.reached >= 1

    def asked(self, frame):
        """Whether a pass over a loader, which is asked for a batch by that frame, is to go on: `next(batches)` in a loop that
        has its own end."""
        line = linecache.getline(frame.f_code.co_filename, frame.f_lineno)
        return self.going and self.is_own(frame.f_code.co_filename) and "next(" in line

    def batch(self, one):
        """Whether a pass over a loader that learns gives another batch: until a step was made, however many batches are summed
        up for one."""
        found = self.passing.setdefault(one, [self.steps, 0])
        found[1] += 1
        return self.steps == found[0] or len(self.session.waiting) > 0 and found[1] < WAITS

    def library(self, frame):
        """A library's own training ends after as many steps."""
        for at in outwards(frame):
            library = at.f_globals.get("__name__", "").partition(".")[0]
            if library in length.LIBRARIES:
                told, own = length.LIBRARIES[library](at), (id(expressions.local(at, "self")), len(self.stages.each))
                self.told[own] = steps = self.told.get(own, 0) + 1
                if steps >= ROUNDS or self.session.later.led:
                    told.stop()
                elif told.often:
                    told.often()
                return

    def skip(self, alike):
        """Another round of a loop is left out, after so many that took no more than those before."""
        self.most = min(self.most, self.session.recorder.peak_bytes if alike >= ALIKE else 0)

    def tell(self, what):
        self.session.recorder.note(ff.CUT_SHORT, f"the script has several trainings, and {what}: say what the largest needs "
                                                 f"(rad submit --gpu-mem)")

    def broken(self, frames):
        """The script did not come to its end: an error came from there, the innermost first."""
        again = any(self.repeated.get((frame.f_code.co_filename, loop.lineno), ALIKE) < ALIKE for frame in frames
                    for loop in length.loops_around(frame))
        other = follows(frames, self.names, self.is_own, False, self.parts, self.taught)
        self.unseen |= other
        if again or other:
            self.tell("not all of them were seen")

    def end(self):
        """Nothing more is recorded."""
        if self.session.recorder.peak_bytes > HIGHER * self.most:
            self.tell("some that are in between were left out")


def rounds_of(what, otherwise):
    """How often a loop over that goes round; `otherwise`: nobody knows. A progress bar over what has no length has one that gives None."""
    try:
        return len(what)
    except Exception:
        return otherwise


@functools.lru_cache(None)
def takes(path, line):
    """Whether that `for` takes something by the numbers that it goes over: `sizes[n]`; or a `while` takes from a list."""
    for *_, loop in length.loops_of(path):
        if loop.lineno == line and isinstance(loop, ast.While):
            return any(length.called(node) in length.POPS for node in calls(loop.body))
        if loop.lineno == line:
            own = length.names_in(loop.target)
            return any(isinstance(n, ast.Subscript) and isinstance(n.ctx, ast.Load) and own & length.names_in(n.slice)
                       for n in ast.walk(loop))
    return False


def install(trainings, patch):
    patch(builtins, FOR, lambda what, line: Loop(trainings, (sys._getframe(1).f_code.co_filename, line), what).over())
    patch(builtins, WHILE, lambda line: Loop(trainings, (sys._getframe(1).f_code.co_filename, line)))
