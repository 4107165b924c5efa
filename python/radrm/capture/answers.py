# SPDX-License-Identifier: MIT
"""Questions in the script's own code that have another answer in a capture than on a GPU.

`type(x) is torch.Tensor`: tensors on the GPU are of a class of their own here. `assert found.size(0) == 1`: where the largest
possible was taken of what depends on values, it is of the size that the script asserts. `int(x)`: a number on the GPU stays one
of which is seen what it decides. `zeros = (mask == 0).sum().cpu().numpy(); assert zeros + ones == n`: what was brought to the
CPU is computed with there, and has lost where it came from. All ask here.
"""
import ast
import builtins
import sys

import torch
from torch._subclasses.fake_tensor import FakeTensor

from .length import names_in
from .masked import Sized
from .recorder import is_gpu

TYPE, SIZED, INT, HELD = "__radrm_type__", "__radrm_sized__", "__radrm_int__", "__radrm_held__"  # what they call
BROUGHT = {"cpu", "numpy", "item", "tolist"}  # methods that bring values to the CPU


def asked_by(node):
    """What `type(x)` and `int(x)` call; None: it is neither."""
    one = isinstance(node.func, ast.Name) and len(node.args) == 1 and not node.keywords and not isinstance(node.args[0], ast.Starred)
    return {"type": TYPE, "int": INT}.get(node.func.id) if one else None


def sized(node):
    """(x, dimension) of `x.size(0)`, `x.shape[0]` or `len(x)`, with a name in place of x; None."""
    if isinstance(node, ast.Call) and len(node.args) == 1 and not node.keywords:
        if isinstance(node.func, ast.Attribute) and node.func.attr == "size":
            found = node.func.value, node.args[0]
        elif isinstance(node.func, ast.Name) and node.func.id == "len":
            found = node.args[0], ast.Constant(0)
        else:
            return None
    elif isinstance(node, ast.Subscript) and isinstance(node.value, ast.Attribute) and node.value.attr == "shape":
        found = node.value.value, node.slice
    else:
        return None
    return found if isinstance(found[0], ast.Name) and isinstance(found[1], ast.Constant) and isinstance(found[1].value, int) else None


def brought(function):
    """Names in a function of what was brought to the CPU, and of what is computed from that."""
    given = [(target, node.value) for node in ast.walk(function) if isinstance(node, (ast.Assign, ast.AugAssign, ast.AnnAssign))
             and node.value is not None
             for target in (node.targets if isinstance(node, ast.Assign) else [node.target])]
    found = set()
    while more := {name for target, value in given if brings(value, found) for name in names_in(target)} - found:
        found |= more
    return found


def brings(tree, names):
    """Whether something there is, or hangs on one of these names."""
    return any(isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in BROUGHT
               or isinstance(node, ast.Name) and node.id in names
               for node in ast.walk(tree))


class Answering(ast.NodeTransformer):
    """Has them ask."""

    def __init__(self):
        self.parts, self.brought = 0, set()

    def visit_FunctionDef(self, node):
        around, self.brought = self.brought, brought(node)
        self.generic_visit(node)
        self.brought = around
        return node

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_Module(self, node):
        self.brought = brought(ast.Module([part for part in node.body
                                           if not isinstance(part, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))], []))
        return self.generic_visit(node)

    def visit_If(self, node):
        """Where an error is raised at once."""
        self.generic_visit(node)
        if isinstance(node.body[0], ast.Raise) and names_in(node.test):
            node.test = self.either(ast.And(), node.test, ast.UnaryOp(ast.Not(), self.held(node.test)))
        return node

    def visit_Call(self, node):
        self.generic_visit(node)
        name = asked_by(node)
        return self.asks(name, node, node.func, node.args[0]) if name else node

    def visit_Assert(self, node):
        """What may be of that size is, before it is compared."""
        self.generic_visit(node)
        test = node.test
        if names_in(test):
            node.test = self.either(ast.Or(), test, self.held(test))
        if not (isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], ast.Eq)
                and isinstance(test.comparators[0], ast.Constant)):
            return node
        found = sized(test.left)
        if found is None:
            return node
        asked = self.asks(SIZED, test, ast.Name(found[0].id, ast.Load()), found[1], test.comparators[0])
        node.test = self.either(ast.And(), asked, node.test)
        return node

    def held(self, test):
        """Asks whether what fails there would hold on a GPU."""
        return self.asks(HELD, test, ast.Constant(brings(test, self.brought)), *map(ast.Constant, sorted(names_in(test))))

    def either(self, how, first, second):
        return ast.fix_missing_locations(ast.copy_location(ast.BoolOp(how, [first, second]), first))

    def asks(self, name, node, *arguments):
        self.parts += 1
        return ast.fix_missing_locations(ast.copy_location(ast.Call(ast.Name(name, ast.Load()), list(arguments), []), node))


def type_of(kind, value):
    """What the script's `type` says; of a tensor on the GPU what it says there."""
    found = kind(value)
    if kind is not type or not is_gpu(value):
        return found
    if found not in (FakeTensor, Sized):
        return found.__bases__[0] if FakeTensor in found.__bases__ else found
    return torch.nn.Parameter if isinstance(value, torch.nn.Parameter) else torch.Tensor


def take_size(tensor, dim, size):
    """Makes a tensor on the GPU that is larger as large as is asserted. Always true: the assertion itself follows."""
    if is_gpu(tensor) and not tensor.requires_grad and isinstance(size,
                                                                  int) and -tensor.dim() <= dim < tensor.dim() \
                                                                      and 0 <= size < tensor.shape[dim]:
        shape = list(tensor.shape)
        shape[dim] = size
        tensor.resize_(shape)
    return True


def stands_in(value):
    """Whether that is what values of the GPU are on the CPU: all ones."""
    if isinstance(value, torch.Tensor) and not is_gpu(value):
        return value.numel() > 0 and bool((value == 1).all())
    return type(value).__name__ == "ndarray" and value.size > 0 and value.dtype.kind in "fiu" and bool((value == 1).all())


def install(recorder, patch):
    def held(known, *names):
        """Of something that hangs on what was brought to the CPU, as is known, or if one of these names is of that."""
        own = sys._getframe(1).f_locals
        return recorder.values_read and (known or any(stands_in(own.get(name)) for name in names))
    patch(builtins, HELD, held)
    patch(builtins, TYPE, type_of)
    patch(builtins, SIZED, take_size)
