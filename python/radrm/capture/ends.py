# SPDX-License-Identifier: MIT
"""What ends the loops of a script, as it stands there: what is compared, what counts, and whether a round counts, learns or asks first."""
import ast
import copy
import functools
import itertools

from . import growing
from .source import FUNCTION, called

LOOPS = (ast.For, ast.While)
POPS = {"pop", "popleft", "popitem"}
PUTS = {"append", "appendleft", "extend", "extendleft", "insert", "add", "put"}
LEAVES = {"exit", "quit", "_exit"}


class Count:
    """Something counts there: `way` 1 or -1, `much` each time; 0: it is multiplied, or nobody knows. `inside`: the loops that it is in
    within the one that was asked; `sure`: it is in no branch of these."""

    def __init__(self, name, way, much, node, inside=(), sure=True):
        self.name, self.way, self.much, self.node, self.inside, self.sure = name, way, much, node, inside, sure


def count(node):
    """(what counts, which way, by how much) there; None."""
    if called(node) in POPS and isinstance(node.func, ast.Attribute):
        return ast.unparse(node.func.value), -1, ast.Constant(1)
    if isinstance(node, ast.Delete) and isinstance(node.targets[0], ast.Subscript):
        return ast.unparse(node.targets[0].value), -1, ast.Constant(1)
    if isinstance(node, ast.Assign) and (cut := shortened(node)):
        return cut
    if isinstance(node, ast.AugAssign) and isinstance(node.op, (ast.Mult, ast.Div)):
        return ast.unparse(node.target), 0, node.value
    found = growing.added(node)
    return (ast.unparse(found[0]), *found[1:]) if found else None


def pairs(node):
    """(target, value) of an assignment."""
    for target in node.targets:
        several = isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple) and len(target.elts) == len(node.value.elts)
        yield from zip(target.elts, node.value.elts) if several else [(target, node.value)]


def shortened(node):
    """`todo = todo[n:]`, as count() has it."""
    for target, value in pairs(node):
        if isinstance(value, ast.Subscript) and isinstance(value.slice, ast.Slice) and ast.unparse(value.value) == ast.unparse(target):
            if value.slice.lower is not None and value.slice.upper is None:
                return ast.unparse(target), -1, value.slice.lower
    return None


@functools.lru_cache(256)
def counts(loop):
    found, waiting = [], [(statement, (), True) for statement in loop.body]
    for node, inside, sure in waiting:
        if counted := count(node):
            found.append(Count(*counted, node, inside, sure))
        if not isinstance(node, FUNCTION):
            deeper = (*inside, node) if isinstance(node, LOOPS) else inside
            sure = sure and not isinstance(node, (ast.If, ast.Try, ast.IfExp))
            waiting += [(child, deeper, sure) for child in ast.iter_child_nodes(node)]
    return found


@functools.lru_cache(256)
def added(loop):
    """{what counts in the loop: 1 or -1}"""
    return {one.name: one.way for one in counts(loop) if one.way}


@functools.lru_cache(256)
def scaled(loop):
    """Variables that are multiplied in each round."""
    return {one.name for one in counts(loop) if not one.way}


@functools.lru_cache(256)
def refilled(loop):
    """Lists that something is put into in the loop."""
    return {ast.unparse(n.func.value) for statement in loop.body for n in ast.walk(statement)
            if called(n) in PUTS and isinstance(n.func, ast.Attribute)}


@functools.lru_cache(256)
def begun_anew(loop):
    """What is set to a constant inside the loop, as it stands there: epochs without progress, say, which count what nobody can know."""
    return {ast.unparse(target) for statement in loop.body for node in ast.walk(statement) if isinstance(node, ast.Assign)
            for target, value in pairs(node) if isinstance(value, ast.Constant)}


@functools.lru_cache(256)
def noted(loop):
    """Variables that are set to what counts in the loop, or what it goes over: `best_epoch = epoch`, from which on nothing got better."""
    counting = added(loop).keys() | (names(loop.target) if isinstance(loop, ast.For) else set())
    return {ast.unparse(target) for statement in loop.body for node in ast.walk(statement) if isinstance(node, ast.Assign)
            for target, value in pairs(node) if isinstance(value, (ast.Name, ast.Attribute)) and ast.unparse(value) in counting}


@functools.lru_cache(256)
def begins(outer, inner):
    """What is set, or filled, in a loop but not in the one `inner` within: it counts anew in each round."""
    found, waiting = names(outer.target) if isinstance(outer, ast.For) else set(), list(outer.body)
    for node in waiting:
        if node is inner or isinstance(node, FUNCTION):
            continue
        if isinstance(node, ast.Assign) and not growing.added(node):
            found |= {ast.unparse(target) for target, value in pairs(node) if not names(target) & names(value)}
        elif isinstance(node, ast.For):
            found |= names(node.target)
        elif called(node) in PUTS and isinstance(node.func, ast.Attribute):
            found.add(ast.unparse(node.func.value))
        waiting += ast.iter_child_nodes(node)
    return found


@functools.lru_cache(256)
def moving(loop):
    """What may be another in each of its rounds, since it hangs on what it goes over, counts or takes."""
    found = (names(loop.target) if isinstance(loop, ast.For) else set()) | added(loop).keys()
    while True:
        more = {ast.unparse(part) for statement in loop.body for node in ast.walk(statement) if isinstance(node, ast.Assign)
                for target, value in pairs(node) if names(value) & found or any(called(n) in POPS for n in ast.walk(value))
                for part in (target.elts if isinstance(target, ast.Tuple) else [target])} - found
        if not more:
            return found
        found |= more


def names(node):
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}


# --- conditions ---

def alternatives(test, going_on):
    """[[(part, whether it is one for going on)]] of a condition for going on, or for leaving: the loop ends where all parts of one of these
    say so."""
    if isinstance(test, ast.BoolOp):
        each = [alternatives(part, going_on) for part in test.values]
        if isinstance(test.op, ast.And) == going_on:
            return [parts for found in each for parts in found]
        return [[part for parts in found for part in parts] for found in itertools.product(*each)]
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return alternatives(test.operand, not going_on)
    if isinstance(test, ast.Constant):
        return [] if bool(test.value) == going_on else [[]]
    return [[(test, going_on)]]


def compared(test, falling):
    """A part as a comparison: of what is none, whether there is any of it. `falling`: variables that are greater than 0 where they hold;
    others may be lists."""
    if not isinstance(test, (ast.Name, ast.Attribute)):
        return test
    left = test if ast.unparse(test) in falling else ast.Call(ast.Name("len", ast.Load()), [test], [])
    return ast.fix_missing_locations(ast.copy_location(ast.Compare(left, [ast.Gt()], [ast.Constant(0)]), test))


def is_leaving(statement):
    return isinstance(statement, (ast.Break, ast.Return, ast.Raise)) or isinstance(statement, ast.Expr) and called(
        statement.value) in LEAVES


@functools.lru_cache(256)
def conditions(loop):
    """(condition, whether it is one for going on) of all that ends the loop: its own, and where it is left from inside."""
    found, waiting = [(loop.test, True)] if isinstance(loop, ast.While) else [], list(loop.body)
    for n, node in enumerate(loop.body):
        if isinstance(node, ast.If) and isinstance(node.body[-1], ast.Continue) and any(map(is_leaving, loop.body[n + 1:])):
            found.append((node.test, True))
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.If) and is_leaving(node.body[-1]):
            found.append((node.test, False))
        # A `break` in a loop inside ends that one.
        waiting += [child for child in ast.iter_child_nodes(node) if not isinstance(node, (*LOOPS, *FUNCTION))]
    return found


def around(loop, test):
    """(test, whether it holds) of the `if`s in a loop that the `if` of that test is in."""
    def search(nodes, path):
        for node in nodes:
            if isinstance(node, ast.If):
                if node.test is test:
                    return path
                found = search(node.body, [*path, (node.test, True)]) or search(node.orelse, [*path, (node.test, False)])
            else:
                found = None if isinstance(node, (*LOOPS, *FUNCTION)) else search(ast.iter_child_nodes(node), path)
            if found:
                return found
        return []
    return search(loop.body, [])


@functools.lru_cache(256)
def guards(loop):
    """[(parts that all have to say so, as alternatives() has them; `if`s around, as around() has them)] of all that ends a loop."""
    return [(parts, around(loop, test)) for test, going_on in conditions(loop)
            for parts in alternatives(Meant(loop, test).of(test), going_on) if parts]


class Meant(ast.NodeTransformer):
    """Puts what a variable was set to in the round in its place, in a condition of that: `last = step == most; ...; if last: break`."""

    def __init__(self, loop, test):
        self.block = list(flat(loop.body))
        at = next((n for n, node in enumerate(self.block) if any(part is test for part in ast.walk(node))), len(self.block))
        self.before, self.known = self.block[:at], {}
        for n, node in enumerate(self.before):
            if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.value, (ast.Compare, ast.BoolOp, ast.UnaryOp)):
                self.known[ast.unparse(node.targets[0])] = n

    def of(self, test):
        return self.visit(copy.deepcopy(test)) if names(test) & self.known.keys() else test

    def visit_Compare(self, node):
        return node

    def visit_Name(self, node):
        n = self.known.pop(node.id, None)
        if n is None or sum(node.id in stored([each]) for each in self.block) > 1:
            return node
        value = self.before[n].value
        if stored(self.before[n + 1:]) & {ast.unparse(part) for part in ast.walk(value) if isinstance(part, (ast.Name, ast.Attribute))}:
            return node
        found = self.visit(copy.deepcopy(value))
        for part in ast.walk(found):
            ast.copy_location(part, node)
        return found


@functools.lru_cache(256)
def falling(loop):
    """Variables that are counted down in it."""
    return {one.name for one in counts(loop) if one.way < 0 and isinstance(one.node, (ast.AugAssign, ast.Assign)) and not (
        isinstance(one.node, ast.Assign) and shortened(one.node))}


@functools.lru_cache(256)
def set_in(loop):
    """What is set in it, as it stands there."""
    return stored(([loop.target] if isinstance(loop, ast.For) else []) + loop.body)


def stored(nodes):
    found = (n for node in nodes for n in ast.walk(node) if isinstance(n, (ast.Name, ast.Attribute)))
    return {ast.unparse(n) for n in found if isinstance(n.ctx, ast.Store)}


def goes_on(statements):
    """Whether what is behind them in a loop may be passed over."""
    return any(isinstance(node, ast.If) and any(isinstance(inside, ast.Continue) for inside in ast.walk(node)) for node in statements)


def leaves(statements):
    """Whether they end the loop around them whatever happens, but for an error."""
    return not goes_on(statements) and any(
        isinstance(s, (ast.Break, ast.Return)) or isinstance(s, (ast.Try, ast.With)) and leaves([*s.body, *getattr(s, "orelse", ())])
        for s in statements)


# --- the order of a round ---

def flat(statements):
    """These, and in the place of a `with` or a `try` what is in that."""
    for node in statements:
        yield from flat(node.body) if isinstance(node, (ast.With, ast.Try)) else [node]


def skips(loop, place):
    """(test, whether it holds) of what in a round is passed before a step that is made at `place`: an arm that it is in, or a
    `continue` that comes before."""
    begin, _ = place
    return asked_before(loop, place) + [
        (node.test, False) for node in flat(loop.body) if isinstance(node, ast.If) and isinstance(node.body[-1], ast.Continue)
        and (node.end_lineno, node.end_col_offset)[:len(begin)] < begin]


def alone(test, holds):
    """[(test, whether it holds)] of the parts of one that all say so: of `not (a or b)` both are not."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return alone(test.operand, not holds)
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And) == holds:
        return [part for each in test.values for part in alone(each, holds)]
    return [(test, holds)]


def arms(loop, place):
    """[(test, whether it holds, what is done in the step's place)] of skips()."""
    found = {node.test: node for node in ast.walk(loop) if isinstance(node, ast.If)}
    return [(test, holds, found[test].orelse if holds else found[test].body) for test, holds in skips(loop, place)]


def turns(loop):
    """How many statements in a loop leave it, or the function, or go on with another round, of it or of one inside."""
    return sum(isinstance(n, (ast.Break, ast.Return, ast.Raise, ast.Continue)) for statement in loop.body for n in ast.walk(statement))


def leaving(block):
    """What in each round of a loop, or in a function, leaves it by a test."""
    return [node for node in flat(block.body) if isinstance(node, ast.If) and is_leaving(node.body[-1])]


def hangs_on(loop, place):
    """Names that it hangs on whether a round of the loop gets to a step at `place`."""
    return set().union(*(names(test) for test, _ in skips(loop, place)))


def taking(loop):
    """The name of the iterator, or of what has one, that a `while` takes something from in each round until it has no more: `try: batch =
    next(it) except StopIteration: break`, `while batch is not None: ...; batch = prefetcher.next()`; None: it is no such loop."""
    if not isinstance(loop, ast.While):
        return None
    ended = [node for node in loop.body if isinstance(node, ast.Try) and any(
        isinstance(handler.type, ast.Name) and handler.type.id == "StopIteration" and is_leaving(handler.body[-1])
        for handler in node.handlers)]
    if ended:
        within = [n for statement in ended[0].body for n in ast.walk(statement)]
    elif isinstance(loop.test, ast.Compare) and isinstance(loop.test.ops[0], ast.IsNot) and not goes_on(loop.body):
        named = {n.target.id for n in ast.walk(loop.test) if isinstance(n, ast.NamedExpr)} or names(loop.test)
        within = [n for statement in (ast.Expr(loop.test), *loop.body) for node in ast.walk(statement)
                  if isinstance(node, ast.NamedExpr) or isinstance(node, ast.Assign)
                  for target, value in ([(node.target, node.value)] if isinstance(node, ast.NamedExpr) else pairs(node))
                  if names(target) & named for n in ast.walk(value)]
    else:
        return None
    found = {ast.unparse(n.args[0] if n.args else n.func.value) for n in within if called(n) in ("next", "__next__")
             and (n.args or isinstance(n.func, ast.Attribute))}
    made = any(isinstance(n, ast.Assign) and any(ast.unparse(target) in found for target, _ in pairs(n))
               for statement in loop.body for n in ast.walk(statement))
    return None if made or len(found) != 1 else found.pop()


def asked_before(loop, place):
    """(test, whether it holds) of the branches of a loop that a step is in which is made at `place`."""
    found, block, (begin, _) = [], loop.body, place
    while node := next((n for n in block if (n.lineno, n.col_offset)[:len(begin)] <= begin <= (n.end_lineno, n.end_col_offset)), None):
        if isinstance(node, ast.If):
            holds = (node.body[-1].end_lineno, node.body[-1].end_col_offset) >= begin
            found.append((node.test, holds))
        blocks = [getattr(node, name, []) for name in ("body", "orelse", "finalbody")]
        block = [] if isinstance(node, (*LOOPS, *FUNCTION)) else [n for part in blocks for n in part]
    return found


def asks_first(test, counting, place):
    """Whether from a step on that is made at `place` a test comes before the node that counts, which is None at the loop's top; a test
    that is None is at the end of what is called for the step. What counts as part of it, as in its arguments, has done so before."""
    begin, end = place

    def behind(at):
        return at[:len(begin)] <= begin, at
    asked = behind((test.lineno, test.col_offset)) if test is not None else (True, ())
    if counting is None:
        return not asked[0]
    own = (counting.lineno, counting.col_offset), (counting.end_lineno, counting.end_col_offset)
    within = begin <= own[0][:len(begin)] and own[1][:len(end)] <= end
    return asked < ((True, begin) if within else behind(own[1]))
