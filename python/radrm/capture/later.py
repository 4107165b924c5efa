# SPDX-License-Identifier: MIT
"""What comes later in a run and takes more memory than its first steps: layers that are frozen at first, images that grow from
phase to phase, other batches.

Where the script has signs of it, it goes on after enough steps were seen, quickly: each pass over a data loader gives one batch, so
that an epoch is a step. What is asked of memory then belongs to the capture; what a step is and how many there are was seen before.
Where no loader is passed over nothing can be left out: it is tried what frozen parameters would take if they learnt, and told.
An evaluation that keeps something on the GPU of each of its batches is gone through to its end, with one batch again and again.

An evaluation at the end of an epoch is such a thing, too: it may take more than training. How long those of the whole run are is seen
on the way.
"""
import ast
import contextlib
import copy
import functools
import itertools
import math
import os
import re
import sys
import traceback
import weakref
from collections import UserDict
from collections.abc import Mapping

from . import behind, every, expressions, fileformat as ff, given, growing, nexts, sandbox, spent
from . import length, trainings, turning
from .recorder import is_gpu
from .source import is_own, tree_of
from .streams import Streams

# Operators for it, some 30 seconds where nobody else uses the machine: what is captured does not hang on how busy that is.
PATIENCE = 120_000
READ = 30_000  # numbers of batches that are read count as one operator
STEPS = 200  # at most
ENDS = 2  # of epochs, to see an evaluation, and whether one comes at each
TRIED = 2  # steps with frozen parameters that learn: the first makes the optimizer's state, the second has it all along
MORE = 1.02  # times the memory that is worth telling
HUGE = 1 << 28  # bytes that go to the CPU
SAMPLES, WHOLE = 64, 1 << 17  # batches that are looked at for the largest one, and of which they are taken
FEWER, NUMBERS = 16, 1 << 27  # as many where they are large, as of images, and numbers in all of them from which on they are
LOOKING = 1 / 4  # of what is left of the limit at most
OPERATORS = 50_000  # that may run for sizes on the way to the largest, beside the others
LOOKS = 3  # batches of an evaluation that tell whether something is kept of each: one may be fetched ahead
SIZES = re.compile(r"(size|resolution|length|seq_len|transforms?)$")
DATA = re.compile(r"load|data|batch", re.IGNORECASE)
WEIGHTS = re.compile(r"param|modules|children|layers", re.IGNORECASE)
FREES = re.compile(r"unfreeze|fine_tune$|Finetuning$")


def own_files(before):
    """Of the script and the modules that are loaded, but those `before` it."""
    found = {getattr(module, "__file__", None) for name, module in list(sys.modules.items()) if name not in before} | {sys.argv[0]}
    return sorted({os.path.abspath(path) for path in found if isinstance(path, str) and is_own(os.path.abspath(path))})


def may_free(node, batches=()):
    """Whether that has parameters learn; `batches`: names of what is none."""
    def is_input(value):
        return isinstance(value, ast.BinOp) or length.called(value) in ("detach", "clone") or getattr(value, "id", None) in batches
    if isinstance(node, (ast.Assign, ast.AugAssign)):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        return any(isinstance(t, ast.Attribute) and t.attr == "requires_grad" and not is_input(t.value)
                   for t in targets) and not is_false(node.value)
    if isinstance(node, ast.Call):
        name = length.called(node)
        learns = name == "requires_grad_" and not (node.args and is_false(node.args[0]))
        return learns and not is_input(getattr(node.func, "value", None)) or bool(FREES.search(name))
    return isinstance(node, ast.ClassDef) and any(FREES.search(name) for base in node.bases for name in names(base))


@functools.lru_cache(None)
def batches_of(path):
    """Names in a file of what loops over data give, and no other loop."""
    found, others = set(), set()
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.For):
            iterated = ast.unparse(node.iter)
            (found if DATA.search(iterated) and not WEIGHTS.search(iterated) else others).update(names(node.target))
    return found - others


def is_false(node):
    return isinstance(node, ast.Constant) and not node.value


def names(node):
    return [n.id if isinstance(n, ast.Name) else n.attr for n in ast.walk(node) if isinstance(n, (ast.Name, ast.Attribute))]


def resizes(tree):
    """Whether something there has batches of another size from then on, by what it is called."""
    for node in ast.walk(tree):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AugAssign) else ()
        if any(isinstance(t, ast.Attribute) and SIZES.search(t.attr) for t in targets):
            return True
        if isinstance(node, ast.Call) and re.match("set_|update_", length.called(node)) and SIZES.search(length.called(node)):
            return True
    return False


def tests_of(path):
    """Names of functions of a file that go through data without gradients."""
    return {node.name for node in ast.walk(tree_of(path)) if isinstance(node, ast.FunctionDef) and node.name not in every.TRAINS
            and every.is_quiet(node) and any(
        isinstance(inside, ast.For) and DATA.search(ast.unparse(inside.iter)) for inside in ast.walk(node))}


def evaluates(tree, tests):
    """Whether something there is an evaluation, by what it is called, or one of the functions `tests`, or a loop without gradients."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and (every.is_test(node) or length.called(node) in tests):
            return True
        quiet = "no_grad", "inference_mode", "set_grad_enabled"
        if isinstance(node, ast.With) and any(expressions.of_call(item.context_expr) in quiet for item in node.items):
            return any(isinstance(inside, ast.For) for inside in ast.walk(node))
    return False


def loops_from(frame):
    """The loops that the script's own code is in, from that frame on outwards: {(code, line): loop}."""
    found = {}
    while frame is not None and frame.f_globals.get("__name__") not in length.BEGINNING:
        if is_own(frame.f_code.co_filename):
            found.update({(frame.f_code, loop.lineno): loop for loop in length.loops_around(frame)})
        frame = frame.f_back
    return found


def repeated(frame):
    """[(what is gone through again and again, the frame that it is in)]: the outermost loop, and functions that were called in it."""
    found, inside = [], []
    while frame is not None and frame.f_globals.get("__name__") not in length.BEGINNING:
        if is_own(frame.f_code.co_filename):
            loops = length.loops_around(frame)
            if loops:
                found = [*inside, (loops[0], frame)]
            inside.append((block_of(frame), frame))
        frame = frame.f_back
    return found


def block_of(frame):
    """The block that it is in, as if it stood alone."""
    body = trainings.body_of(frame)
    own = ast.Module([ast.Expr(part) if isinstance(part, ast.expr) else part for part in body], [])
    own.lineno, own.end_lineno = (body[0].lineno, body[-1].end_lineno) if body else (0, 0)
    return own


def again(batch):
    """The same batch once more, whatever was taken out of it, or put in its place."""
    if isinstance(batch, (dict, UserDict)):
        batch = copy.copy(batch)
        for name in batch:
            batch[name] = again(batch[name])
    elif type(batch) in (list, tuple):
        batch = type(batch)(map(again, batch))
    elif is_made_of(batch):
        batch = copy.copy(batch)
    return batch


def is_tensor(value):
    return hasattr(value, "numel") and hasattr(value, "dtype")


def is_made_of(value):
    """Whether a batch is an object of a class with tensors in it, as a graph is."""
    return hasattr(value, "__dict__") and not is_tensor(value) and not isinstance(value, (type, type(re)))


def elements(batch, within=8):
    """Numbers in the tensors of a batch; of objects so deep."""
    if is_tensor(batch):
        return batch.numel()
    if isinstance(batch, (Mapping, UserDict)):
        return sum(elements(value, within) for value in batch.values())
    if isinstance(batch, (list, tuple)):
        return sum(elements(value, within) for value in batch)
    return elements(vars(batch), within - 1) if within and is_made_of(batch) else 0


def sampler_of(one):
    """What all passes over that loader have in common: a function that gives it, and keeps none alive whose data may lie on the GPU."""
    sampler = getattr(one, "_index_sampler", None)
    try:
        return weakref.ref(sampler)
    except TypeError:  # a list of batches, or none
        return lambda: sampler


def may_differ(one):
    """Whether batches of that pass over a loader may be of different sizes: somebody else puts them together."""
    from torch.utils.data import _DatasetKind, _utils, BatchSampler
    return getattr(one, "_dataset_kind",
                   None) == _DatasetKind.Map and hasattr(one, "_dataset_fetcher") and one._index_sampler is not None and (
        one._collate_fn not in (_utils.collate.default_collate, _utils.collate.default_convert)
        or type(one._index_sampler) is not BatchSampler)


def processor_left():
    """Seconds of processor time until the capture is told to end."""
    return sandbox.clock.processor_left() if sandbox.clock else math.inf


def differing(one, size, most, stopped):
    """(what is in each batch on the way to the largest, the largest, how many were looked at, whether sizes are drawn) of some
    batches all over that loader, in its order. Of three sizes or more, up to `most` of its next epochs, too. None: there are
    less, and no batch has more than `size` elements. Which are in one, loaders know beforehand."""
    left, began = processor_left(), spent.own()
    asked = list(itertools.islice(iter(one._index_sampler), WHOLE))
    found, largest, sizes, places = None, 0, {}, [len(asked) - 1] if asked else []
    while places:
        if spent.own() > began + LOOKING * left:
            stopped(f"of {len(sizes) + len(places)} batches {len(sizes)} were read in {LOOKING * left:.0f} s of processor time, for the "
                    "largest of them")
            break
        at = places.pop(0)
        batch = one._dataset_fetcher.fetch(asked[at])
        if not sizes:
            looks = max(FEWER, min(SAMPLES, NUMBERS // max(elements(batch), 1)))
            places = sorted({n * len(asked) // looks for n in range(looks)} - {at})
        sizes[at] = elements(batch)
        if sizes[at] > largest:
            found, largest = batch, sizes[at]
    several = len({*sizes.values()}) > 2
    if largest <= MORE * (min(sizes.values(), default=0) if several else size):
        return None
    way = [asked[next(alike)] for _, alike in itertools.groupby(sorted(sizes), sizes.get)]
    while several and len(way) < most and (more := list(itertools.islice(iter(one._index_sampler), most - len(way)))):
        way += more
    return way, found, len(sizes), any(sizes[one] > sizes[other] for one, other in zip(sorted(sizes), sorted(sizes)[1:-1]))


class Larger:
    """Batches of one loader on the way to the largest."""

    def __init__(self, one, records, last):
        self.fetcher, self.records, self.last = one._dataset_fetcher, records, last

    def batch(self, at):
        return self.fetcher.fetch(self.records[at]) if at < len(self.records) - 1 else again(self.last)


class Pass:
    """Over a loader: batches that it gave since, and has in all (a stream: 0); whether they are learnt from, None: not known."""

    def __init__(self, one, given=0, most=math.inf):
        """`most`: batches that are taken of one that is not learnt from."""
        self.given, self.batches, self.learns = given, 0, None
        self.climbs = False  # it gives batches on the way to the largest, and that
        self.whole = False  # it is not ended before its time
        self.ran = False  # something was done with the last batch
        self.taught = 0  # backward passes of the script before that batch
        self.lives = []  # bytes alive when something had been done with one more
        self.kept = 0  # of them each batch leaves so many, and all would be worth telling
        with contextlib.suppress(Exception):  # of whatever a dataset says of its length
            self.batches = min(len(one), most)

    def grows(self, live, peak):
        """Whether what was done with the last two batches left something of each, at so many bytes alive."""
        if self.ran:
            self.lives, self.ran = [*self.lives[-1:], live], False
            more = live - self.lives[0]
            if len(self.lives) == 2 and not self.kept and more * self.batches > (MORE - 1) * peak:
                self.first, self.kept = again(self.last), more
            elif more <= 0:
                self.kept = 0
        return self.kept > 0


class Later:
    """Told of what a script does. `going`: it goes on after enough was seen; `trying`: frozen parameters learn."""

    def __init__(self, session):
        self.session = session
        self.going = self.trying = False
        self.awaiting = False  # nothing learns yet, and a training follows
        self.trainings = trainings.Trainings(session)
        self.streams = Streams()
        self.loaded = set(sys.modules) - {"__main__"}
        self.freed = set()  # (file, line) that had something learn
        self.made = set()  # loops in which a loader or a stream was made
        self.given = weakref.WeakKeyDictionary()  # pass over a loader -> Pass
        # Pass over a loader without gradients -> (operators before it, or before more was taken; bytes alive and in all at
        # most).
        self.quiet = weakref.WeakKeyDictionary()
        self.last = self.stepped = None  # the Pass that gave the last batch; that of the last step, where it is not ended
        self.sizes = weakref.WeakKeyDictionary()  # pass over a loader -> most elements of a batch that it gave before it goes on
        self.larger = {}  # dataset, by its id -> Larger, that it gives then
        self.rising = {}  # (file, line) of a size that hangs on what counts -> growing.Asked
        self.risen = {}  # those that become larger -> the counters as they do
        self.climb, self.reached = 0, 1  # steps before that of the largest, and what part of that way is behind it
        self.drawn = False  # sizes of batches come in no order
        self.climbing, self.way = 0, []  # sizes on that way; of each step since it goes on: (records before it, sizes left out before it)
        self.gathered = set()  # batches of evaluations that kept something of each, and were gone through to their end
        self.used = set()  # of which something was done with one since the last step
        self.conditions = set()  # lines, in whatever file, that ask whether an evaluation is due
        self.asked = {}  # (file, line) of those that did -> [how often it did, after how many steps first, every how many]
        self.turns = turning.Turns(self)
        self.seen = 0  # steps before it goes on
        self.due = {}  # likewise, that was told so -> after how many of what it counts
        self.shortened = False  # one of these was not seen whole
        self.enough = ENDS  # that tell how often one comes
        self.ends = []  # of each epoch that ended: (batches that are evaluated, what one takes, in steps)
        self.steps = self.since = 0  # since it goes on, and since something changed
        self.learners = weakref.WeakSet()  # modules whose passes learn
        self.taught = 0  # backward passes
        # sampler_of() the last batch; of those that a backward pass followed, by the sampler's id.
        self.current, self.teaching = lambda: None, {}
        self.behind = None  # (code, line) of the last evaluation that stands behind all loops
        self.stays = False  # it comes to no end of its loops
        self.led = 0  # once it goes on to that: steps until it is given up
        self.where = None  # a line that frees parameters and has not yet
        self.read = 0  # numbers of batches
        self.clock = None  # processor time when it went on, and for how many seconds more at most

    # --- how long it goes on ---

    def counts(self, bound):
        """From now on it may do so much. Time is for what no operator tells of, as a script's own computing on the CPU."""
        self.bound, self.ran, self.read = bound, self.session.recorder.operators, 0
        self.clock = spent.own(), processor_left() / 2

    def done(self):
        """What was done since, in operators."""
        return self.session.recorder.operators - self.ran + self.read // READ

    def over_bound(self, part=1):
        """Whether that part of it is done."""
        if self.done() > part * self.bound:
            return True
        began, seconds = self.clock
        if spent.own() <= began + part * seconds:
            return False
        self.session.stopped(f"what comes later in the run took more than {part * seconds:.0f} s of processor time")
        return True

    # --- what is told ---

    def frees(self, frame):
        """Something learns from now on, by that line."""
        while frame is not None and not is_own(frame.f_code.co_filename):
            frame = frame.f_back
        if frame is not None:
            self.freed.add((os.path.abspath(frame.f_code.co_filename), frame.f_lineno))

    def makes(self, frame):
        """A loader is made, or a stream, which has memory of its own: a loop in which that is done takes more in rounds to come."""
        self.trainings.makes()
        try:
            self.made.update(loops_from(frame))
        except Exception:  # a sign less
            pass

    def over(self, one):
        """Whether a pass over a loader is to end, in place of giving another batch."""
        if not self.going:
            return self.is_long(one) and not nexts.is_counted_on(sys._getframe(2))
        if self.over_bound():
            self.unseen(self.given.get(one))
            self.session._finish()
        self.last = now = self.given.setdefault(one, Pass(one, most=self.session.length.most))
        now.climbs = now.climbs or self.reached < 1
        over = now.given >= max(self.most(now, one), nexts.least(sys._getframe(2))) and not self.trainings.asked(sys._getframe(2))
        if over and nexts.is_counted_on(sys._getframe(2)):
            now.whole, over = True, False
        now.given += not over
        now.taught = self.taught
        return over

    def is_long(self, one):
        """Whether a pass without gradients, before enough steps were seen, has had enough batches: each leaves nothing, and
        none took more than those before."""
        import torch
        if torch.is_grad_enabled() or not self.session.learnt():
            return False
        recorder = self.session.recorder
        began, live, peak = self.quiet.setdefault(one, (recorder.operators, 0, 0))
        if recorder.live_bytes > live or recorder.peak_bytes > peak:
            began, live, peak = self.quiet[one] = recorder.operators, max(recorder.live_bytes, live), recorder.peak_bytes
        return recorder.operators > began + trainings.QUIET

    def most(self, now, one):
        """Batches that such a pass is to give."""
        if now.ran and now.taught == self.taught and not self.was_taught(sampler_of(one)()):
            now.learns = False  # an evaluation, though with gradients: the last batch's graph lives on beside the next one's
        if not now.learns and (now.learns is False or self.tests()):
            recorder = self.session.recorder
            if now.grows(recorder.live_bytes, recorder.peak_bytes) and now.batches not in self.gathered:
                if now.given == now.batches:
                    self.gathered.add(now.batches)
                return now.batches
            return min(LOOKS, now.batches or LOOKS) if len(now.lives) < 2 else 0
        another = self.trainings.batch(one)
        if self.trainings.going and now.learns and not now.climbs:
            return now.given + another
        return max(self.session.length.summed * (1 + now.climbs * self.climb), 1 + (0 < self.since < TRIED))

    def climbs(self):
        """On the way to the largest size: one a step, and further on where steps are long. PyTorch's allocator keeps blocks of
        each size, and of those that grow it can use none again."""
        if self.reached < 1:
            ran = self.done() / OPERATORS
            self.reached = min(1, max(self.steps / self.climb, ran))
            if self.reached == 1:
                self.climb = self.steps

    def at(self, n):
        """Which of so many sizes it has reached; the same throughout a step."""
        return round(self.reached * (n - 1))

    def left_out(self, behind):
        """Sizes since that one. Of those that are drawn none is put in between: that would be sizes which may never come, and
        each takes blocks of its own."""
        return 0 if self.drawn else max(self.at(self.climbing + 1) - behind - 1, 0)

    def tests(self):
        """Whether what comes now is an evaluation, of a loader that fetches ahead: nothing was done with its batch yet."""
        import torch
        return not torch.is_grad_enabled() or bool(self.learners) and not any(module.training for module in self.learners)

    def batch(self, one, fetch):
        """What a pass over a loader gives."""
        now, self.current = self.given.get(one), sampler_of(one)
        if now is None:
            batch = fetch()
            self.sizes[one] = max(elements(batch), self.sizes.get(one, 0))
            return batch
        if id(one._dataset) in self.larger and not self.tests():
            found = self.larger[id(one._dataset)]
            return found.batch(self.at(len(found.records)))
        if not now.kept:
            now.last = fetch()
            self.read += elements(now.last)
            return now.last
        return again(now.first)

    def unseen(self, now):
        """No time is left for more of that pass: what the rest of its batches would leave is added, twice, since it is put
        together in the end."""
        if now is not None and now.kept and now.given < now.batches:
            left = now.kept * (now.batches - now.given)
            self.session.recorder.take(2 * left)
            self.session.recorder.note(0, f"an evaluation keeps {now.kept / (1 << 20):.1f} MiB on the GPU of each of its "
                                          f"{now.batches} batches, of which "
                                       f"{now.given} were captured: the rest was added, and what it takes to join them. "
                                       f"Results moved to the CPU take nothing")

    def brought(self, nbytes):
        """So much goes to the CPU. What an evaluation kept there was seen, and may be more than this machine has."""
        if self.going and self.gathered and nbytes >= HUGE:
            self.count()
            self.enough = len(self.ends)
            self.session._finish()

    def teaches(self, frame):
        """A backward pass is over, which came from there."""
        self.trainings.teaches(frame)
        self.taught += 1
        self.teaching[id(self.current())] = self.current

    def was_taught(self, sampler):
        """Whether a backward pass ever followed one of its batches."""
        found = self.teaching.get(id(sampler))
        return found is not None and found() is sampler

    def passes(self, learns):
        """A forward pass begins, of the last batch. (That a loader which fetches ahead gave for another step, so it is not counted.)"""
        if self.last is not None:
            self.last.learns, self.last.ran = bool(self.last.learns or learns), True
            self.used.add(self.last)

    def is_due(self, holds, number, line, *counts):
        """Whether an evaluation is due, which it is every so many steps or epochs; `holds`: whether the script says so. `counts`: as
        Turns.told() has it; until what that is told to count to is there, nothing is due before its time."""
        where = sys._getframe(1).f_code.co_filename, line
        holds, waits = self.turns.told(holds, sys._getframe(1), *counts) if counts and not self.trying else (holds, False)
        if not self.going:
            asked = self.asked.setdefault(where, [0, self.session.learnt(), number])
            asked[0] += 1
        elif len(self.ends) < ENDS and not self.trying and (holds or not waits) and self.comes(where, number):
            self.due[where] = number
            holds = True
        if holds:
            self.trainings.tests(sys._getframe(1).f_code, every.body(*where))
        return holds

    def grows(self, value, function, counter, line):
        """A size that hangs on what counts is asked for."""
        frame = sys._getframe(1)
        where = frame.f_code.co_filename, line
        if type(value) is not int or type(counter) not in (int, float):
            return value
        if not self.going:
            self.rising.setdefault(where, growing.Asked(counter)).again(value, function, counter, self.session.learnt())
        elif where in self.risen and not self.trying:
            found = self.risen[where]
            return max(value, function(found[self.at(len(found))]))
        return value

    def rises(self, loops):
        """What will be larger than it was, of steps in these loops."""
        steps, inner = self.session.length.steps, self.session.length.inner
        for (path, line), asked in self.rising.items():
            if not asked.goes_on(any(code.co_filename == path and loop.lineno <= line <= loop.end_lineno for (code, _),
                                     loop in loops.items())):
                continue
            end = asked.end(steps, steps / inner if 1 <= inner <= steps else 1) if steps else None
            value, found = asked.larger(end)
            what = f"{os.path.basename(path)}:{line}: a size grows in the run, from {asked.value}"
            if value is None:
                self.session.recorder.note(0, f"{what}, and its end is not known: say what the run needs (rad submit --gpu-mem)")
            elif value > asked.value:
                self.risen[path, line] = found
                self.session.recorder.note(0, f"{what} to {value}: its memory is that of the largest, its time and load are of the first")

    # --- signs ---

    def frozen(self):
        """Parameters on the GPU that have no gradient, of what learns."""
        found = {id(p): p for module in self.learners for p in module.parameters()}
        return [p for p in found.values() if is_gpu(p) and not p.requires_grad and p.is_floating_point()]

    def line(self):
        """"file.py:12" of a line that has parameters learn, and has not yet; None."""
        for path in own_files(self.loaded):
            for node in ast.walk(tree_of(path)):
                lines = range(node.lineno, node.end_lineno + 1) if hasattr(node, "lineno") else ()
                if may_free(node, batches_of(path)) and not any((path, line) in self.freed for line in lines):
                    return f"{os.path.basename(path)}:{node.lineno}"
        return None

    def looks(self):
        """What of it may change: how much learns, and of which shapes."""
        learn = sum(p.numel() for module in self.learners for p in module.parameters() if p.requires_grad)
        return learn, len(self.session.shapes)

    # --- what follows ---

    def awaits(self, frame):
        """Many forward passes were seen, the last at that frame, and nothing that learns. Whether a training follows."""
        try:
            names = trainings.functions(own_files(self.loaded))
            self.awaiting = trainings.follows(trainings.outwards(frame), names, is_own, stepping=False)
        except Exception:  # of whatever stands in a script
            return False
        self.counts(PATIENCE)
        return self.awaiting

    def begins(self, frame):
        """Enough was seen, at that frame. Whether the script goes on."""
        try:
            loops = loops_from(frame)
            files = own_files(self.loaded)
            self.where = self.line() if self.frozen() else None
            parts = repeated(frame)
            trees = [tree for tree, _ in parts]
            resized = any(map(resizes, trees))
            self.phases = bool(self.made & loops.keys()) or resized
            self.seen = self.session.learnt()
            several = self.trainings.begins(frame, files, is_own, resized or bool(self.where))
            there = [*trees, *self.trainings.names.called_in(trees)]
            due = any(self.comes(where, number) for where, (*_, number) in self.asked.items()) or any(
                tree.lineno <= line <= tree.end_lineno for tree in there for line in self.conditions - {line for _, line in self.asked})
            turning_, unasked, outer = self.turns.begins(loops, there)
            due = due or turning_
            tests = set().union(*map(tests_of, files))
            tested = due or unasked or self.session.length.evaluates or any(evaluates(tree, tests) for tree in trees)
            tested = tested or any(isinstance(node, ast.Call) and trainings.is_off(node, self.trainings.names) for tree in trees
                                   for node in ast.walk(tree)) or any(
                any(behind.goes_over(tree.body, where, self.trainings.names.bodies.__contains__)) or every.is_tested_behind(tree, where)
                for tree, where in parts)
            self.behind = behind.last(frame, files, self.trainings.names) if self.session.learnt() else None
            self.stays = not 0 < self.session.length.steps <= STEPS and any(
                isinstance(loop, ast.While) and trainings.returns(loop) for loop in loops.values())
        except Exception:  # whatever a script's own attributes do when they are asked
            return False
        passes = self.session.length.passes or list(self.session.length.fetched)
        for one in self.session.length.passes:
            self.looks_for(one)
        with contextlib.suppress(Exception):  # of whatever stands in a script
            self.rises(loops)
        outer = outer or any(self.rising[where].times == 1 for where in self.risen)
        if (tested and not due or outer) and not passes and len(loops) > 1:
            several = self.trainings.shortens()
        inside = bool(self.where or self.phases or tested or self.larger or self.risen or several)
        if not inside and not self.behind:
            return False
        sizes = max([len(found.records) for found in self.larger.values()] + [len(found) for found in self.risen.values()], default=1)
        self.climb = self.climbing = min(sizes, SAMPLES) - 1
        self.reached = 0 if self.climb else 1
        self.counts(PATIENCE + OPERATORS * bool(self.climb))
        self.climbs()
        self.way.append((self.session.recorder.records.count, self.left_out(-1)))
        self.going, self.before = True, self.looks()
        work = self.session.recorder.work
        self.usual = [tally.seconds() if tally else 0 for tally in (work.whole, work.least)]
        for one in passes:
            self.given[one] = Pass(one, not self.risen and id(one._dataset) not in self.larger)
        if self.session.length.evaluates:
            self.session.length.evaluates()
        if not inside or not passes and not due and not self.risen and not several:
            self.going = self.where is not None and self.tries() or self.leads()
        return self.going

    def leads(self):
        """All was seen of its loops. Whether it goes on to what evaluates behind them: they end early from now on."""
        if self.behind is None or self.stays or self.led or self.over_bound():
            return False
        self.led, self.trainings.going, self.trainings.held = self.steps + STEPS, True, False
        return True

    def knows(self):
        """Whether a loader can say which of its batches is the largest."""
        try:
            return any(map(may_differ, self.session.length.passes))
        except Exception:  # of a loader with ideas of its own
            return False

    def looks_for(self, one):
        """Of batches that differ in size the largest is to be in the capture."""
        try:
            if not may_differ(one):
                return
            length = self.session.length
            found = differing(one, self.sizes.get(one, 0), min(SAMPLES, length.steps * length.summed or SAMPLES), self.session.stopped)
            if found:
                way, last, looked, drawn = found
                self.drawn = self.drawn or drawn
                self.larger[id(one._dataset)] = Larger(one, [*way, None], last)
                self.session.recorder.note(ff.VARIABLE_SHAPES, f"batches differ in size: the largest of {looked} was taken")
        except Exception:  # of a dataset, or a sampler, with ideas of its own
            pass

    def step(self):
        """A step later. Whether that is enough."""
        if self.is_within() and not self.trying:
            return self.ends_within()
        self.steps, now = self.steps + 1, self.looks()
        if self.trying:
            return self.tried()
        behind = self.at(self.climbing + 1)
        self.climbs()
        self.way.append((self.session.recorder.records.count, self.left_out(behind)))
        if self.steps > self.climb:
            self.count()
        self.since = 1 if now != self.before else self.since + 1 if self.since else 0
        self.before = now
        most = self.led or (math.inf if self.trainings.going else STEPS if self.where or self.phases else self.climb + ENDS)
        if self.behind and self.trainings.held and self.trainings.hurries():
            self.trainings.held = False
        over = self.steps >= most or not self.led and self.where and self.since >= TRIED and not self.frozen()
        ended = self.over_bound()
        over = over and not (self.turns.waits() and self.steps < STEPS) or ended
        return over and not (self.where and self.frozen() and self.tries() or not ended and self.turns.leave() or self.leads())

    def is_within(self):
        """Whether it is a step further on in a pass that is not ended: an epoch's end is not reached."""
        learning = self.last if self.last is not None and self.last.whole and self.last.learns is not False else None
        within = learning is not None and self.stepped in (None, learning) and not self.trainings.going and not self.climb
        self.stepped = learning
        return within

    def ends_within(self):
        """Whether there are too many of them."""
        if self.over_bound():
            self.session.recorder.note(0, f"what comes behind {self.session.steps} steps was not seen: next() takes batch after batch")
            return True
        return False

    def count(self):
        """What was evaluated at the end of an epoch."""
        work = self.session.recorder.work
        if len(self.ends) < ENDS:
            tested = [one for one in self.used if not one.learns]
            learnt, beside = self.usual
            usual = beside * min(1, work.whole.seconds() / (learnt or 1))  # fewer batches are summed up now, where an epoch ends early
            extra = max(work.beside.seconds() - usual, 0) / (learnt + beside or 1)
            batches, seen = sum(one.batches for one in tested), sum(one.given for one in tested)
            if self.due and extra and not tested:
                batches, seen = not self.shortened, 1  # of no loader: it was seen whole, or it is not known how long it is
            self.ends.append((batches, extra / max(seen, 1)))
        self.used.clear()

    def after(self, where, number):
        """Every how many steps that line has an evaluation. It counts what it was asked for again and again in those that were
        seen, else epochs."""
        times, first, _ = self.asked.get(where, (0, 0, 0))
        if times > 1 or first:
            return number / max(1, round(times / max(self.seen - first, 1)))
        return number * self.session.length.inner

    def comes(self, where, number):
        """Whether that is before the end of the run."""
        return 0 < self.after(where, number) <= (self.session.length.steps or math.inf)

    def beside(self):
        """What evaluations of the whole run take, in steps; 0: none, or it is not known."""
        steps, inner = self.session.length.steps, self.session.length.inner
        if self.due:  # where some come more often than others: as the others
            inner = max(self.after(*due) for due in self.due.items())
        certain = bool(self.due or self.session.length.evaluates)  # that one comes, and how often
        ends = [end for end in self.ends if end[0] or not certain]
        if len(ends) < (1 if certain else self.enough) or not all(batches for batches, _ in ends) or not steps or not 1 <= inner <= steps:
            return 0
        return round(steps / inner * sum(batches * each for batches, each in ends) / len(ends))

    # --- trying ---

    def tries(self):
        """From now on frozen parameters learn, and nothing is written down. Whether there are any."""
        frozen, recorder = self.frozen(), self.session.recorder
        optimizer = self.session.stepped[-1]() if self.session.stepped else None
        if not frozen or optimizer is None:
            return False
        held = {id(p) for group in optimizer.param_groups for p in group["params"]}
        for p in frozen:
            p.requires_grad = True
        try:
            optimizer.add_param_group({"params": [p for p in frozen if id(p) not in held]})
        except (ValueError, TypeError, RuntimeError):  # of an optimizer with ideas of its own: told without its state
            pass
        self.trying, self.steps = True, 0
        self.counts(PATIENCE)
        recorder.records, self.records = ff.Unwritten(recorder.records), recorder.records
        self.peak, recorder.peak_bytes = recorder.peak_bytes, recorder.live_bytes
        return True

    def tried(self):
        if self.steps < TRIED:
            return False
        if self.session.recorder.peak_bytes > MORE * self.peak:
            self.tell(f"with all of them there would be {self.session.recorder.peak_bytes >> 20} MiB in tensors at most")
        return True

    def tell(self, what):
        self.session.recorder.note(ff.MAY_LEARN, f"{self.where}: parameters that do not learn in what was captured may later: "
                                                 f"{what}: say what the run "
                                   "needs (rad submit --gpu-mem) if it comes to that")

    def misses(self, frames):
        """It ends there. Told, if that is before the last evaluation behind the loops."""
        code, line = self.behind or (None, 0)
        if any(at.f_code is code and at.f_lineno < line for at in frames):
            self.session.recorder.note(ff.CUT_SHORT, f"{os.path.basename(code.co_filename)}:{line}: what runs behind the training was not "
                                                     "seen: say what it needs (rad submit --gpu-mem)")

    def broken(self, error):
        """An error, or a limit, ended the script before its end."""
        frames = [at for at, _ in traceback.walk_tb(error.__traceback__)]
        if self.trainings.going and not isinstance(error, SystemExit):
            self.trainings.broken(frames[::-1])
        self.misses(frames)
        self.turns.misses(isinstance(error, Exception))
        if self.going and self.where and not self.trying and self.frozen():
            self.tell("what they would take then was not seen")

    def end(self):
        """Nothing more is recorded."""
        self.trainings.end()
        self.misses(trainings.outwards(sys._getframe(1)))
        self.turns.misses()
        given.once(self.session.recorder)
        if self.risen and self.steps <= self.climb:
            self.session.recorder.note(ff.VARIABLE_SHAPES, "of sizes that grow in the run the largest could not be captured: "
                                                           "say what the run needs (rad submit --gpu-mem)")
        if self.trying:
            self.trying = False
            self.session.recorder.records, self.session.recorder.peak_bytes = self.records, self.peak
        self.session.recorder.masked.settle(self.session.recorder)


def install(later, patch):
    import torch
    trainings.install(later.trainings, patch)
    every.install(later.is_due, later.conditions, later.grows, later.turns, is_own, later.session.recorder, patch)
    inner = torch._C.TensorBase
    real_module = torch.nn.Module.requires_grad_

    def give(tensor, value):
        if value:
            later.frees(sys._getframe(1))
        inner.requires_grad.__set__(tensor, value)

    def method(tensor, requires_grad=True):
        if requires_grad:
            later.frees(sys._getframe(1))
        return inner.requires_grad_(tensor, requires_grad)

    def module(self, requires_grad=True):
        if requires_grad:
            later.frees(sys._getframe(1))
        return real_module(self, requires_grad)
    patch(torch.Tensor, "requires_grad", property(inner.requires_grad.__get__, give))
    patch(torch.Tensor, "requires_grad_", method)
    patch(torch.nn.Module, "requires_grad_", module)
