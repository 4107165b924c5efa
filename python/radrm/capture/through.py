# SPDX-License-Identifier: MIT
"""What a loop goes over, as those have it who call its function: `for name, epochs in stages: train(epochs)`. So it can be asked how long
it is in other rounds of theirs."""
import ast
import copy

from . import shorter
from .expressions import value
from .source import FUNCTION, tree_of


def given(function, call, bound):
    """{parameter: what a call gives for it}; `bound`: the first is the object that it is a method of."""
    names = [a.arg for a in (*function.args.posonlyargs, *function.args.args)]
    if any(isinstance(a, ast.Starred) for a in call.args):
        return {}
    return {**dict(zip(names[bound:], call.args)), **{keyword.arg: keyword.value for keyword in call.keywords if keyword.arg}}


class InCaller(ast.NodeTransformer):
    """Has names of a function be what its caller gives for them, and others what they are now."""

    def __init__(self, frame, parameters, made):
        self.frame, self.parameters, self.made = frame, parameters, made

    def visit_Call(self, node):
        if not isinstance(node.func, ast.Name):
            node.func = self.visit(node.func)
        node.args = [self.visit(each) for each in node.args]
        return node

    def visit_Name(self, node):
        if node.id in self.parameters:
            return copy.deepcopy(self.parameters[node.id])
        now, to = value(node, self.frame), self.made.pop(node.id, None)
        try:
            return self.visit(copy.deepcopy(to)) if to is not None and value(to, self.frame) == now else ast.Constant(now)
        except Exception:  # whatever a script's own objects do where they are asked
            return ast.Constant(now)


def in_caller(nodes, frame, function, at):
    """[(expression of a function's frame as its caller has it, what goes with it)] of those of which that can be told. `function`: as it
    stands in the script; `at`: where its caller is."""
    call = next((node for node in ast.walk(tree_of(frame.f_back.f_code.co_filename)) if isinstance(node, ast.Call)
                 and ((node.lineno, node.col_offset), (node.end_lineno, node.end_col_offset)) == at), None) if nodes else None
    if call is None or not isinstance(function, FUNCTION[:2]):
        return []
    bound = isinstance(call.func, ast.Attribute) and [a.arg for a in function.args.args][:1] == ["self"]
    parameters, found = given(function, call, bound), []
    if bound:
        parameters["self"] = call.func.value
    for node, what in nodes:
        try:
            made = {name: to for name, to in shorter.made_in(function).items() if name not in parameters}
            found.append((InCaller(frame, parameters, made).visit(copy.deepcopy(node)), what))
        except Exception:
            continue
    return found
