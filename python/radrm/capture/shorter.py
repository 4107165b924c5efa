# SPDX-License-Identifier: MIT
"""Batches that a script passes over by their size, as the last one of an epoch: `if len(x) < batch_size: continue`.

A step was made, so what was asked of the size before it is known. It is asked again of the sizes that come later in the loop, which
passes.py tells: nothing is run, what has the size of a batch is taken to be of another.
"""
import ast
import functools
import math
import operator
from collections.abc import Mapping

from . import ends
from .expressions import MEASURES, local, number, value
from .passes import Unknown, cut
from .source import FUNCTION, called

COMPARED = {ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge, ast.Eq: operator.eq,
            ast.NotEq: operator.ne}
GIVES = {"next", "__next__", "get"}
OTHER = (1 << 40) + 1  # a size that no batch has


# --- what stands in the script ---

def assigned(body):
    """(name, what it is set to) of assignments there, (B, T) = x.shape as two."""
    for node in (inside for statement in body for inside in ast.walk(statement)):
        if isinstance(node, ast.Assign):
            for target, to in ends.pairs(node):
                parts = target.elts if isinstance(target, ast.Tuple) else ()
                yield from [(target.id, to)] if isinstance(target, ast.Name) else [
                    (part.id, ast.Subscript(to, ast.Constant(n), ast.Load())) for n, part in enumerate(parts) if isinstance(part, ast.Name)]


@functools.lru_cache(256)
def made_in(block):
    """{name: what it is set to} of what a loop's body, or a function's, sets once."""
    found = {}
    for name, to in assigned(block.body):
        found[name] = None if name in found else to
    return {name: to for name, to in found.items() if to is not None}


@functools.lru_cache(256)
def batch_names(block):
    """Names of what a loop goes over, or takes from elsewhere, and of what is made of it; of what a function is given."""
    if isinstance(block, FUNCTION):
        found = {a.arg for a in (*block.args.posonlyargs, *block.args.args, *block.args.kwonlyargs)}
    else:
        found = {name for name, to in assigned(block.body) if any(called(n) in GIVES for n in ast.walk(to))}
        found |= ends.names(block.target) if isinstance(block, ast.For) else set()
    counts = ends.added(block).keys()
    while more := {name for name, to in assigned(block.body) if ends.names(to) & found and name not in counts} - found:
        found |= more
    return found - counts


def parts(node, names, made, deep=3):
    """What stands in an expression, and in those that the variables of these names in it are set to."""
    for n in ast.walk(node):
        yield n
        if deep and isinstance(n, ast.Name) and n.id in names and n.id in made:
            yield from parts(made[n.id], names, made, deep - 1)


def asks_size(test, names, made):
    """Whether that asks how large something is of these names."""
    return any((called(n) in MEASURES | {"len"} or isinstance(n, ast.Attribute) and n.attr == "shape") and ends.names(n) & names
               for n in parts(test, names, made))


# --- what it comes to ---

class Part:
    """In the place of a tensor, or a list."""
    dtype = None

    def __init__(self, shape):
        self.shape = shape

    def __len__(self):
        return self.shape[0]

    def size(self, dim=None):
        return self.shape if dim is None else self.shape[dim]

    def numel(self):
        return math.prod(self.shape)

    nelement = numel


def resized(what, size, other):
    """That, of another size."""
    if hasattr(what, "shape") and hasattr(what, "dtype"):
        shape = tuple(what.shape)
        at = shape.index(size) if size in shape else len(shape)
        return Part((*shape[:at], other, *shape[at + 1:]) if at < len(shape) else shape)
    if isinstance(what, Mapping):
        return {key: resized(each, size, other) for key, each in what.items()}
    if isinstance(what, (list, tuple)):
        own = len(what) == size and not all(getattr(each, "shape", ())[:1] == (size,) for each in what)
        return Part((other,)) if own else [resized(each, size, other) for each in what]
    return Part((other,)) if isinstance(what, str) and len(what) == size else what


class Resized:
    """A frame as it is where what a loop gives is of another size. `guarded`: the test ends a loop, so what it hangs on beside sizes is
    asked for by length.py."""

    def __init__(self, frame, block, size, other, guarded):
        self.f_globals, self.f_code, self.f_locals = frame.f_globals, frame.f_code, self
        self.frame, self.sizes, self.asking, self.guarded = frame, (size, other), set(), guarded
        self.names, self.made, self.counts = batch_names(block), made_in(block), ends.added(block).keys()

    def get(self, name, otherwise=None):
        found = local(self.frame, name, otherwise)
        if name not in self.names:
            return found
        if not isinstance(found, int):
            return resized(found, *self.sizes)
        if name not in self.made or name in self.asking:
            raise Unknown
        self.asking.add(name)
        found = value(self.made[name], self)
        self.asking.remove(name)
        return found


def answer(test, frame, now, numbers):
    """What a test says there, which says `now` at the moment; the numbers that it compares are added. Of what else it hangs on nothing is
    expected to change."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return not answer(test.operand, frame, not now, numbers)
    if isinstance(test, ast.BoolOp):
        every, found = isinstance(test.op, ast.And), []
        for part in test.values:
            try:
                found.append(answer(part, frame, now, numbers))
            except Unknown:
                if every != now or asks_size(part, frame.names, frame.made) or not frame.guarded:
                    raise
        return all(found) if every else any(found)
    if not isinstance(test, ast.Compare) or not COMPARED.keys() >= set(map(type, test.ops)):
        raise Unknown
    if any(isinstance(n, (ast.Name, ast.Attribute)) and ast.unparse(n) in frame.counts for n in parts(test, frame.names, frame.made)):
        raise Unknown  # `if seen + len(x) > most`: it will be another
    sides = [number(side, frame) for side in (test.left, *test.comparators)]
    numbers += sides
    return all(COMPARED[type(op)](left, right) for op, left, right in zip(test.ops, sides, sides[1:]))


@functools.lru_cache(256)
def leaving(loop):
    """Comparisons by which a loop is left that ask for the size of a batch."""
    names, made = batch_names(loop), made_in(loop)
    return {part for node in ends.leaving(loop) for part in ast.walk(node.test)
            if isinstance(part, ast.Compare) and asks_size(part, names, made)}


class Test:
    """One in the round of a step: `holds` there. `over`: rounds from that one on that have no step where it does not; infinite: none has.
    A test that comes behind the step has one. `whole`: what it is a part of."""

    def __init__(self, test, holds, block, frame, over=(0, 1), whole=None):
        self.test, self.holds, self.block, self.frame, self.over, self.whole = test, holds, block, frame, over, whole or test
        self.others = []  # parts of it that ask for no size
        self.loops, self.asks = not isinstance(block, FUNCTION), asks_size(test, batch_names(block), made_in(block))

    def at(self, size, other):
        """(what it says for such a size, numbers that it compares)"""
        numbers = []
        return answer(self.test, Resized(self.frame, self.block, size, other, self.over[1] == math.inf), self.holds, numbers), numbers

    def passes(self, size, other):
        """Whether a batch of another size than this one is passed over."""
        says, numbers = self.at(size, size)
        if says != self.holds:
            raise Unknown
        if numbers == self.at(size, OTHER)[1]:
            if self.loops:
                raise Unknown  # something else that nobody knows of the others, as how long a text is
            return False
        return self.at(size, other)[0] != self.holds


def tests_around(block, place, frame):
    """Of a loop's round, or of a function, what asks for a size, and whether there is a step at `place`, or another round, hangs on it."""
    begin, _ = place
    found = [Test(part, now, block, frame, whole=test) for test, holds in ends.skips(block, place)
             for part, now in ends.alone(test, holds)]
    for one in found:
        one.others = [other.test for other in found if other.whole is one.whole and not other.asks]
    for node in ends.leaving(block):
        before = (node.end_lineno, node.end_col_offset)[:len(begin)] < begin
        if isinstance(block, ends.LOOPS):
            found.append(Test(node.test, False, block, frame, (not before, math.inf)))
        elif before:
            found.append(Test(node.test, False, block, frame))
    return [one for one in found if one.asks]


def passed_over(tests, stretches, gone):
    """[(begin, end)] of rounds of a loop over those stretches that have no step, after so many rounds. Unknown, where such a test is none
    that is understood."""
    if not tests:
        return []
    if any(size is None for _, size in stretches):
        raise Unknown
    size, found, at = (cut(stretches, max(gone - 1, 0)) or stretches)[0][1], [], 0
    for rounds, other in stretches:
        for one in tests:
            if one.passes(size, other):
                begin, end = one.over
                found.append((at + begin, at + rounds - 1 + end))
        at += rounds
    return found


def kept(stretches, over):
    """What is left of these without those, the same of which more than one test may have named."""
    for begin, end in sorted(set(over), reverse=True):
        stretches = cut(stretches, 0, begin) + cut(stretches, end)
    return stretches
