# SPDX-License-Identifier: MIT
"""Sizes that grow in a run: `length = min(1024, 64 + step // 50 * 64)`.

A capture sees the first steps. So an expression of that kind in the script's own code, which hangs on something that counts and
says how large something is, asks here what it comes to, and is told the largest that it will be when enough was seen otherwise.
"""
import ast
import copy
import re

NAME = "__radrm_growing__"  # what the expressions call
SIZES = re.compile(r"(^|_)(seq_?len|len|length|size|res|resolution|ctx|context|window|tokens|frames|width|height|bs|T|L)$")
COUNTS = re.compile(r"^(current_|cur_|global_|train_|n_|num_)?(step|steps|epoch|epochs|iter|iters|it|iteration|iterations"
                    r"|update|updates)(_num|_idx|_no)?$")
LOOPS = {"range", "trange", "count", "enumerate", "tqdm", "reversed"}
SHAPED = {"randn", "rand", "randint", "zeros", "ones", "empty", "full", "arange", "interpolate", "resize", "expand", "repeat",
          "view", "reshape", "narrow",
          "get_batch", "randperm"}
FUNCTIONS = {"min", "max", "int", "round", "len", "float", "pow", "bisect", "bisect_left", "bisect_right", "sum", "get"}
PLAIN = (ast.Name, ast.Attribute, ast.Constant, ast.BinOp, ast.UnaryOp, ast.IfExp, ast.Compare, ast.Call, ast.operator,
         ast.unaryop, ast.cmpop, ast.expr_context, ast.Subscript, ast.Tuple, ast.List, ast.ListComp, ast.comprehension)
SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
SAMPLES = 1 << 15  # moments of the run: of a shorter one all


def word(node):
    """The last word of a name."""
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def within(node):
    """All that stands in a function or a module, but for scopes within."""
    waiting = list(node.body) if isinstance(node.body, list) else [node.body]
    for inside in waiting:
        if not isinstance(inside, SCOPES):
            waiting += ast.iter_child_nodes(inside)
    return waiting


def way(over):
    """Whether numbers that a loop goes over rise, 1, or fall, -1."""
    name, args = word(over.func) if isinstance(over, ast.Call) else "", getattr(over, "args", ())
    if name == "reversed" and args:
        return -way(args[0])
    if name in ("range", "trange") and len(args) == 3:
        return -1 if isinstance(args[2], ast.UnaryOp) and isinstance(args[2].op, ast.USub) else 1
    return way(args[0]) if name in ("tqdm", "list") and args else 1


def added(node):
    """(target, 1 or -1, how much) of `n += 1`, `n -= 1`, `n = n + 1`; None."""
    if isinstance(node, ast.AugAssign):
        target, op, value = node.target, node.op, node.value
    elif isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.value, ast.BinOp) and ast.unparse(
            node.value.left) == ast.unparse(node.targets[0]):
        target, op, value = node.targets[0], node.value.op, node.value.right
    else:
        return None
    return (target, 1 if isinstance(op, ast.Add) else -1, value) if isinstance(op, (ast.Add, ast.Sub)) else None


def counters(scope, nodes):
    """What counts there, as it stands in the source: 1 where it rises, -1 where it falls."""
    found = {}
    if isinstance(scope, (ast.FunctionDef, ast.AsyncFunctionDef)):
        found.update((a.arg, 1) for a in scope.args.args if COUNTS.match(a.arg))
    for node in nodes:
        if isinstance(node, ast.For) and isinstance(node.iter, ast.Call) and word(node.iter.func) in LOOPS:
            first = node.target.elts[0] if isinstance(node.target, ast.Tuple) else node.target
            found[ast.unparse(first)] = way(node.iter)
        elif (counted := added(node)) and isinstance(counted[2], ast.Constant):
            found[ast.unparse(counted[0])] = counted[1]
    return found


def hangs_on(node, counts):
    """The counter that an expression without effects is made of, and that it may grow with by leaps; None."""
    inside = list(ast.walk(node))
    plain = all(isinstance(n, PLAIN) and not (isinstance(n, ast.Call) and (word(n.func) not in FUNCTIONS or n.keywords)) for n in inside)
    leaps = any(isinstance(n, (ast.FloorDiv, ast.Pow, ast.IfExp, ast.LShift, ast.Subscript, ast.ListComp)) or isinstance(n, ast.Call)
                and word(n.func) in ("min", "int", "round", "get") for n in inside)
    found = [n for n in inside if isinstance(n, (ast.Name, ast.Attribute)) and ast.unparse(n) in counts] if plain and leaps else []
    return found[0] if found else None


def sizes(nodes):
    """Expressions that say how large something is."""
    for node in nodes:
        if isinstance(node, ast.Slice) and node.lower is None and node.upper is not None:
            yield node.upper
        elif isinstance(node, ast.Call):
            yield from (k.value for k in node.keywords if k.arg and SIZES.search(k.arg))
            if word(node.func) in SHAPED:
                for argument in node.args:
                    yield from argument.elts if isinstance(argument, (ast.Tuple, ast.List)) else [argument]


def growing(scope):
    """{expression: its counter} of a function or a module."""
    nodes = within(scope)
    counts, said = counters(scope, nodes), list(sizes(nodes))
    named = {ast.unparse(n) for n in said}
    for node in nodes:
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and (SIZES.search(word(node.targets[0]))
                                                                        or ast.unparse(node.targets[0]) in named):
            said.append(node.value)
        elif isinstance(node, ast.Return) and node.value is not None and SIZES.search(getattr(scope, "name", "")):
            said.append(node.value)
    return {node: found for node in said if (found := hangs_on(node, counts)) is not None}


class Growing(ast.NodeTransformer):
    """Has those expressions ask."""

    def __init__(self, tree):
        self.parts = {}
        for scope in ast.walk(tree):
            if isinstance(scope, (ast.Module, ast.FunctionDef, ast.AsyncFunctionDef)):
                self.parts.update(growing(scope))

    def visit(self, node):
        if node not in self.parts:
            return self.generic_visit(node)
        counter = self.parts[node]
        asked = ast.Call(ast.Name(NAME, ast.Load()), [node, of_counter(node, counter), copy.deepcopy(counter),
                                                      ast.Constant(node.lineno)], [])
        return ast.fix_missing_locations(ast.copy_location(asked, node))


def of_counter(node, counter):
    """An expression, as a function of what counts in it."""
    return ast.Lambda(ast.arguments([], [ast.arg("__counter")], None, [], [], None, []),
                      Put(ast.unparse(counter)).visit(copy.deepcopy(node)))


class Put(ast.NodeTransformer):
    """The argument of a function in place of a counter."""

    def __init__(self, counter):
        self.counter = counter

    def visit(self, node):
        if isinstance(node, (ast.Name, ast.Attribute, ast.Call)) and ast.unparse(node) == self.counter:
            return ast.copy_location(ast.Name("__counter", ast.Load()), node)
        return self.generic_visit(node)


class Asked:
    """Such an expression, of the steps that were seen: how often it asked, after how many steps, its value, its function, and
    where the counter was first and is."""

    def __init__(self, counter, way=1):
        """`way`: whether it rises, 1, or falls, -1, as far as its source tells."""
        self.times, self.first, self.last, self.counts, self.steps = 0, counter, counter, True, set()
        self.way, self.seen = way, 0

    def again(self, value, function, counter, step):
        if counter != self.last:
            way = 1 if counter > self.last else -1
            self.counts = self.counts and self.seen in (0, way)
            self.way = self.seen = way
        self.times, self.value, self.function, self.last = self.times + 1, value, function, counter
        self.steps.add(step)

    def goes_on(self, around):
        """Whether its counter is one of the run, not of a loop within a step or before them. `around`: it stands in a loop that
        the steps are in."""
        return self.counts and (len(self.steps) > 1 or around and self.times == 1)

    def moved(self):
        """By how much the counter rose with a step, or fell."""
        return (self.last - self.first) / max(self.times - 1, 1) * self.times / (max(self.steps) - min(self.steps) + 1)

    def end(self, steps, epochs):
        """What the counter comes to in a run of so many steps and epochs. Before the first step it was asked in front of each."""
        moved, last = self.moved(), steps - (min(self.steps) == 0)
        return self.last + (moved * max(last - max(self.steps), 0) if moved else self.way * max(epochs - 1, 0))

    def larger(self, end):
        """(its largest value, counters on the way to that, each with a larger value) up to its end, or (None, []), where it
        grows for ever."""
        ends = [self.function(self.way * 10**n) for n in (6, 7)] if end is None else []
        if len(set(ends)) > 1:
            return None, []
        whole = round if type(self.last) is int else float
        samples = SAMPLES if end is None or whole is float else max(min(SAMPLES, round(abs(end - self.last))), 1)
        moments = [self.way * 2**n for n in range(21)] if end is None else (whole(self.last + (end - self.last) * n / samples)
                                                                            for n in range(samples + 1))
        found, most = [], self.value
        for counter in moments:
            value = self.function(counter)
            if value > most:
                found.append(counter)
                most = value
        return most, found
