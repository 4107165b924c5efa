# SPDX-License-Identifier: MIT
"""What is asked of values and decides nothing of what runs on the GPU: the best loss is remembered, the best weights are saved,
it is printed, the training ends early; it is counted, sorted, or given to a library of the CPU (decision 173). And those in
which the best weights are copied, which takes memory: the value was better. Told from the source; what is not known to be of
that kind is not.
"""
import ast
import functools
import os
import re
import sys
import types

from .length import called, names_in
from .source import is_own, tree_of

CALLS = re.compile(r"save|print|log|write|wandb|add_scalar|^(info|debug|warning|append|item|cpu|detach|numpy|tolist|state_dict"
                   r"|items|keys|values|float|int|str|len|round|max|min|abs|format|join|open|dump|dumps|mkdir|Path|makedirs|time"
                   r"|get|isinstance|isnan|isfinite|getattr|unwrap_model|exit)$")
# What is called like one of them, and computes.
COMPUTES = re.compile(r"logit|log_?(prob|soft|sigmoid|det|sum|add|cumsum|space|likelihood|normal|1p)|fingerprint")
# What a script's own functions are called that save or tell something, and may run a model for it.
NAMED = re.compile(r"save|print|log|write")
PLAIN = {"save", "print", "log", "write"}
RUNS = re.compile(r"^(forward|generate|sample|eval|no_grad|inference_mode|model|net|generator|encoder|decoder|netG|G)$")
# Methods of a tensor that make one as large.
MAKES = {"float", "half", "double", "long", "int", "bool", "abs", "round", "log", "exp"}
ON_HOST = {"item", "cpu", "numpy", "tolist"}
# What is assigned.
BEST = re.compile(r"best|patien|^pat$|wait|(^|_)bad|improv|stop|stale|no_|counter|lowest|highest"
                  r"|(min|max)_?(val|loss|acc|score|dice|iou)|path|ckpt|record|state$|(^|_)lr$|learning_rate$")
TEXT = {"join", "chr"}  # what was generated becomes a text
# What is called to make a text.
LETTERS = re.compile(r"decode|^(chr|str|join|int|item|tolist|cpu|numpy|long|squeeze|flatten|view|map|lower|strip)$")
# What is told of a tensor.
MEASURES = {"numel", "nelement", "size", "dim", "unique", "sum", "mean", "std", "any", "all", "argmax", "argmin"}
FILES = {"os", "shutil"}
# Calls that tell, and give nothing back.
TELLS = re.compile(r"^(print|log|info|debug|warning|error|write|writerow|add_scalars?|add_text|set_description(_str)?|set_postfix(_str)?)$")
# Names of numbers: what is computed from one is no tensor.
NUMBER = re.compile(r"(epoch|step|iter)s?$|^[eit]$|(^|_)lr$|learning_rate$", re.IGNORECASE)
# Methods that write into a tensor, and take nothing.
INTO = re.compile(r"^(mul|div|add|sub|clamp|clamp_min|clamp_max|neg|zero|fill|copy|nan_to_num)_$")
HOLDS = {"append", "appendleft", "extend", "insert", "add", "put"}  # what it is given lives on in a list
FILLS = {"append", "add", "sort"}  # a list or a set of the host
GIVES = re.compile(r"^(named_)?(parameters|children|modules)$")  # goes over what is there
COPIES = re.compile(r"^(deepcopy|copy|clone|detach)$")
LIBRARIES = tuple(name.replace("/", os.sep) for name in (
    "torch/optim/lr_scheduler.py", "torch/nn/modules/transformer.py", "callbacks/early_stopping.py", "callbacks/model_checkpoint.py"))
ORDERS = {"sorted", "sort", "max", "min"}  # what was there before
TOTALS = {"tensor", "all_reduce", "sum", *ORDERS}  # what is counted becomes a sum, as large whatever it is
NUMBERS = {"int", "float", "len", "item"}  # gives one
KEEPS = {"append", "get"}  # quiet, but what they are given may come out again of what keeps it
SCOPES = (ast.Module, ast.FunctionDef, ast.AsyncFunctionDef)
TEST = (ast.Compare, ast.BoolOp, ast.UnaryOp)
DEEPER = (ast.If, ast.For, ast.With, ast.Try, ast.ExceptHandler)
SIMPLE = (ast.Expr, ast.Pass, ast.Break, ast.Raise, ast.Global, ast.Nonlocal)


def is_quiet(node):
    """Whether a call takes no memory on the GPU: by its name, it is one of those that work on files, or it changes a gradient
    where it is."""
    owner, name = getattr(node.func, "value", None), called(node)
    if COMPUTES.search(name) or NAMED.search(name) and name not in PLAIN and is_heavy(name):
        return False
    changes = INTO.search(called(node)) and of_gradient(owner) and not computes([*node.args, *node.keywords])
    return bool(CALLS.search(name) or changes) or getattr(owner, "id", "") in FILES


@functools.lru_cache(1)
def own_paths(_):
    """Files of the script that are loaded; asked anew when there are other modules."""
    paths = {getattr(module, "__file__", None) for module in list(sys.modules.values())} | {sys.argv[0]}
    return [path for path in paths if isinstance(path, str) and is_own(os.path.abspath(path))]


@functools.lru_cache(None)
def heavy_in(path):
    """Names of a file's functions that may run a model: they say so, or call what they are given."""
    return {function.name for function in ast.walk(tree_of(path)) if isinstance(function, SCOPES[1:])
            for n in ast.walk(function) if isinstance(n, ast.Call)
            if RUNS.search(called(n)) or getattr(n.func, "id", None) in {arg.arg for arg in function.args.args}}


def is_heavy(name):
    """Whether the script has a function of that name that may run a model: save_samples(), log_images()."""
    return any(name in heavy_in(path) for path in own_paths(len(sys.modules)))


def makes(value):
    """Whether a tensor may come of it that is as large as another: `x.float()`."""
    return any(isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute) and n.func.attr in MAKES and not n.args
               and called(n.func.value) not in ON_HOST for n in ast.walk(value))


def of_gradient(node):
    """Whether that is a gradient: `p.grad`, `p.grad.data`."""
    while isinstance(node, ast.Attribute) and node.attr == "data":
        node = node.value
    return isinstance(node, ast.Attribute) and node.attr == "grad"


def assigned(target, free):
    """Whether that remembers what was best, or is a learning rate, or one of the names `free`, which decide nothing."""
    if isinstance(target, (ast.Tuple, ast.List)):
        return all(assigned(part, free) for part in target.elts)
    if isinstance(target, ast.Subscript):
        return assigned(target.value, ()) or bool(BEST.search(str(getattr(target.slice, "value", ""))))
    return getattr(target, "id", None) in free or bool(BEST.search(getattr(target, "id", getattr(target, "attr", "")).lower()))


def computes(parts):
    """Whether something there may be computed from tensors."""
    return any(isinstance(n, ast.BinOp) and not numbers(n) for part in parts for n in ast.walk(part))


def numbers(node):
    """Whether that is computed from numbers alone: `epoch + 1`."""
    return all(isinstance(part, ast.Constant) or isinstance(part, ast.Name) and NUMBER.search(part.id) for part in (node.left, node.right))


def idle(node, copies=False, free=()):
    """Whether a statement does nothing on the GPU, or only copies what was best."""
    if isinstance(node, ast.Try):
        return all(idle(n, copies, free) for n in [*node.body, *node.handlers, *node.orelse, *node.finalbody])
    if isinstance(node, DEEPER):
        fit = not isinstance(node, ast.For) or all(GIVES.search(called(n)) for n in ast.walk(node.iter) if isinstance(n, ast.Call))
        return fit and all(idle(n, copies, free) for n in [*node.body, *getattr(node, "orelse", ())])
    if isinstance(node, (ast.Assign, ast.AugAssign)):
        counts = not isinstance(node, ast.AugAssign) or isinstance(node.value, ast.Constant)
        changes = isinstance(node, ast.AugAssign) and of_gradient(node.target)
        fit = (changes or counts and all(assigned(target, free) for target in targets_of(node))) and not computes([node.value]) \
            and not makes(node.value)
    else:
        fit = isinstance(node, SIMPLE)
    return fit and all(is_quiet(n) or copies and COPIES.search(called(n)) for n in ast.walk(node) if isinstance(n, ast.Call))


def keeps(branch):
    """Whether something lives on in a branch that may be large: by another name, and it is neither what was asked for nor a number."""
    asked = {ast.unparse(node) for node in ast.walk(branch.test) if isinstance(node, (ast.Name, ast.Attribute))}

    def may_be(value):
        if isinstance(value, (ast.Tuple, ast.List)):
            return any(map(may_be, value.elts))
        if called(value) == "detach" and isinstance(value.func, ast.Attribute):
            return may_be(value.func.value)
        name = ast.unparse(value)
        return isinstance(value, (ast.Name, ast.Attribute)) and name not in asked and not NUMBER.search(name)
    parts = [node for statement in branch.body for node in ast.walk(statement)]
    return any(may_be(node.value) for node in parts if isinstance(node, ast.Assign)) or any(
        may_be(arg) for node in parts if called(node) in HOLDS for arg in node.args)


def is_floor(branch):
    """`if mse == 0: mse = 1e-5`, for its logarithm: a number becomes another. What hangs on it asks for itself."""
    asked = {n.id for n in ast.walk(branch.test) if isinstance(n, ast.Name)}
    return not branch.orelse and all(
        isinstance(n, ast.Assign) and isinstance(n.value, ast.Constant) and type(n.value.value) is float
        and all(getattr(target, "id", None) in asked for target in n.targets) for n in branch.body)


def targets_of(node):
    return node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, (ast.AugAssign, ast.AnnAssign)) else []


def place(node):
    """The name of that in which an expression is a place, as in `counts[0]`, or which it is."""
    while isinstance(node, ast.Subscript):
        node = node.value
    return getattr(node, "id", None)


def receiver(call):
    """The name of that whose method is called, or in which it is a place."""
    return place(getattr(call.func, "value", None))


def gathers(node, free):
    """Whether a statement adds something up in places of what decides nothing, or puts a number there: which places those are,
    decides nothing either. Of tensors that are put there it does: more or fewer are kept."""
    def adds(target):
        before = ast.unparse(node.value.left) if isinstance(node.value, ast.BinOp) else None
        return isinstance(node, ast.AugAssign) or isinstance(node.value,
                                                             ast.Constant) or called(node.value) in NUMBERS or before == ast.unparse(target)
    targets = targets_of(node)
    return bool(targets) and all(isinstance(target, ast.Subscript) and place(target) in free and adds(target) for target in targets)


def is_plain(node):
    """Whether a value that is asked for there makes no size, and has nothing run but what is quiet, or orders what is there."""
    parts = list(ast.walk(node))
    indices = [n.slice for n in parts if isinstance(n, ast.Subscript) and called(n.value) != "sorted"]
    sizes = [n for index in indices for one in ast.walk(index) if isinstance(one, ast.Slice) for n in ast.walk(one)]
    return all(is_quiet(n) or called(n) in ORDERS for n in parts
               if isinstance(n, ast.Call)) and not any(isinstance(n, (ast.Name, ast.Call)) for n in sizes)


def heard(node, free, quiet=False):
    """Names that stand where they may decide something, if the names `free` do not: not where an idle branch asks for them,
    where they are only told, or in what one of these becomes."""
    if isinstance(node, ast.If) and idle(node, free=free):
        return
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and not quiet:
        yield node.id
    if isinstance(node, ast.Call):
        quiet = quiet and (is_quiet(node) or called(node) in TOTALS)
    elif isinstance(node, ast.Expr):
        quiet = isinstance(node.value, ast.Call) and (called(node.value) not in KEEPS or receiver(node.value) in free)
    elif targets_of(node):
        quiet = gathers(node, free) or all(getattr(target, "id", None) in free for target in targets_of(node))
    elif isinstance(node, (ast.stmt, ast.IfExp, ast.comprehension)):
        quiet = False
    for child in ast.iter_child_nodes(node):
        yield from heard(child, free, quiet)


@functools.lru_cache(None)
def free_in(scope):
    """Names of a function, or of a module, that decide nothing."""
    free = {node.id for node in ast.walk(scope) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    free -= {name for node in ast.walk(scope) if isinstance(node, (ast.Global, ast.Nonlocal)) for name in node.names}
    while free and (more := free.intersection(name for node in scope.body for name in heard(node, free))):
        free -= more
    return free


def own(scope):
    """What stands in it, but for what is in functions within."""
    waiting = list(scope.body)
    for node in waiting:
        yield node
        if not isinstance(node, SCOPES):
            waiting += ast.iter_child_nodes(node)


def is_test(node):
    """Whether that is a test, of which nothing but the answer comes."""
    return isinstance(node, TEST) and all(is_quiet(n) for n in ast.walk(node) if isinstance(n, ast.Call))


def is_told(node, free):
    """Whether a statement, or an expression, does nothing with a value but tell it, or remember it."""
    value = getattr(node, "value", None)
    name = called(value if isinstance(node, ast.AugAssign) else node)
    if isinstance(node, ast.Assign):
        # is_best = accuracy > best; counts[int(label)] = 1.
        known = all(getattr(target, "id", None) in free for target in node.targets) or gathers(node, free)
        return known and is_plain(node) or called(value) in ("max", "min") and idle(node, free=free)
    if isinstance(node, ast.For):  # it goes over what is there in another order
        return called(node.iter) == "sorted" and is_plain(node.iter) and all(idle(statement, free=free) for statement in node.body)
    if isinstance(node, ast.AugAssign) and gathers(node, free):
        return is_plain(node)
    if isinstance(node, ast.AugAssign):  # right += int(guess == label)
        counted = value.args[0] if name in ("int", "float") and len(value.args) == 1 else value
        return is_test(counted) and getattr(node.target, "id", None) in free
    if isinstance(node, ast.Expr):
        name = called(value)
        if name in FILLS and receiver(value) in free:
            return is_plain(value)
        calls = [n for n in ast.walk(node) if isinstance(n, ast.Call)]
        fit = all(is_quiet(n) or called(n) in ORDERS | MEASURES or any(words.search(called(n)) for words in (TELLS, LETTERS))
                  for n in calls)
        return bool(TELLS.search(name)) and fit or name == "remove"  # of a list of numbers: whichever it is, one fewer is left
    return name in TEXT and all(called(n) in ORDERS or LETTERS.search(called(n)) for n in ast.walk(node) if isinstance(n, ast.Call))


def answer_of(test):
    """What each part of a test is where the test holds; None: not all are the same (`a and not b`)."""
    denied = [node for node in ast.walk(test) if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)]
    return not denied if denied in ([], [test]) else None


@functools.lru_cache(None)
def picks(path):
    """{line of a file that asks, of one after the other that a loop goes over, whether it is kept: the answer with which the test holds,
    or None} of each `if score[i] > 0: kept.append(i)`. How many are may decide something, if `kept` does."""
    found = {}
    for scope in [node for node in ast.walk(tree_of(path)) if isinstance(node, SCOPES)]:
        free = free_in(scope)
        loops = {node: loop for loop in own(scope) if isinstance(loop, ast.For) for node in ast.walk(loop)}  # the innermost one
        for node in [node for node in loops if isinstance(node, ast.If) and names_in(loops[node].target) & names_in(node.test)]:
            if any(called(n) in HOLDS and receiver(n) not in free for statement in node.body + node.orelse for n in ast.walk(statement)):
                found.update(dict.fromkeys(range(node.test.lineno, node.test.end_lineno + 1), answer_of(node.test)))
    return found


@functools.lru_cache(None)
def lines(path):
    """(lines of a file on which a value decides nothing, as far as it stands there; those on which a test is what is returned)"""
    found, other, returned, inside = set(), set(), set(), set()

    def reach(node):
        return range(node.lineno, node.end_lineno + 1)
    for scope in [node for node in ast.walk(tree_of(path)) if isinstance(node, SCOPES)]:
        free = free_in(scope)
        for node in own(scope):
            if node in inside:  # which of several texts it is, which numbers are in it
                inside.update(ast.iter_child_nodes(node))
            elif isinstance(node, (ast.If, ast.IfExp, ast.While, ast.Assert, ast.comprehension)):
                good = isinstance(node, ast.If) and (idle(node, free=free) and not keeps(node) or is_floor(node))
                for test in node.ifs if isinstance(node, ast.comprehension) else [node.test]:
                    (found if good else other).update(reach(test))
            elif isinstance(node, ast.Return) and is_test(node.value):
                returned.update(reach(node))
            elif is_told(node, free):
                found.update(reach(node.iter if isinstance(node, ast.For) else node))
                if not targets_of(node) and not isinstance(node, ast.For):
                    inside.update(ast.iter_child_nodes(node))
    return found - other - picks(path).keys(), returned - other


def is_record(branch):
    """Whether it is asked there for the best so far, which what is compared with it becomes: once it does, and then all that
    stands there is done."""
    if not isinstance(branch.test, ast.Compare) or len(branch.test.ops) != 1:
        return False
    pairs = [(target, node.value) for statement in branch.body for node in ast.walk(statement) if isinstance(node, ast.Assign)
             for target in node.targets]
    pairs += [pair for target, value in pairs if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple)
              for pair in zip(target.elts, value.elts)]
    names = {ast.unparse(branch.test.left), ast.unparse(branch.test.comparators[0])}
    return any({ast.unparse(target), ast.unparse(value)} == names for target, value in pairs)


@functools.lru_cache(None)
def better(path):
    """Lines of a file that ask whether something is the best so far, and copy, keep or note something if it is, or do more then."""
    found = set()
    for scope in [node for node in ast.walk(tree_of(path)) if isinstance(node, SCOPES)]:
        free = free_in(scope)
        for node in own(scope):
            if not isinstance(node, ast.If) or idle(node, free=free) and not (keeps(node) or is_record(node)):
                continue
            copies = any(isinstance(n, ast.Call) and COPIES.search(called(n)) for statement in node.body for n in ast.walk(statement))
            if idle(node, True, free) and (keeps(node) or copies) or is_record(node) and all(idle(n, free=free) for n in node.orelse):
                found.update(range(node.test.lineno, node.test.end_lineno + 1))
    return found


def is_idle(frame):
    """Whether what is asked there decides nothing: there, or where the answer is returned to."""
    path = frame.f_code.co_filename
    found, returned = lines(path)
    while frame.f_lineno in returned and frame.f_back is not None:
        frame = frame.f_back
        path = frame.f_code.co_filename
        found, returned = lines(path)
    return path.endswith(LIBRARIES) or frame.f_lineno in found


@functools.lru_cache(None)
def has_torch(library):
    """Whether a module of a library that is loaded has anything of PyTorch."""
    kinds = (types.ModuleType, types.FunctionType, type)
    values = (value for name, module in list(sys.modules.items()) if name.partition(".")[0] == library and module is not None
              for value in list(vars(module).values()) if isinstance(value, kinds))
    return any((value.__name__ if isinstance(value, types.ModuleType) else str(value.__module__)).partition(".")[0] == "torch"
               for value in values)


def is_on_host(frame):
    """Whether that is of a library that computes on the CPU alone: what it makes of a number, as the next state of an
    environment, is of the CPU, as what .numpy() gives."""
    return not is_own(frame.f_code.co_filename) and not has_torch(frame.f_globals.get("__name__", "torch").partition(".")[0])
