# SPDX-License-Identifier: MIT
"""Questions in the script's own code that have another answer in a capture than on a GPU.

`type(x) is torch.Tensor`: tensors on the GPU are of a class of their own here. `assert found.size(0) == 1`: where the largest possible was taken of what
depends on values, it is of the size that the script asserts. Both ask here.
"""
import ast
import builtins

import torch
from torch._subclasses.fake_tensor import FakeTensor

from .masked import Sized
from .recorder import is_gpu

TYPE, SIZED = "__radrm_type__", "__radrm_sized__"  # what they call


def is_type(node):
    """`type(x)`"""
    return (isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "type" and len(node.args) == 1 and not node.keywords
            and not isinstance(node.args[0], ast.Starred))


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


class Answering(ast.NodeTransformer):
    """Has them ask."""

    def __init__(self):
        self.parts = 0

    def visit_Call(self, node):
        self.generic_visit(node)
        return self.asks(TYPE, node, node.func, node.args[0]) if is_type(node) else node

    def visit_Assert(self, node):
        """What may be of that size is, before it is compared."""
        self.generic_visit(node)
        test = node.test
        if not (isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], ast.Eq) and isinstance(test.comparators[0], ast.Constant)):
            return node
        found = sized(test.left)
        if found is None:
            return node
        asked = self.asks(SIZED, test, ast.Name(found[0].id, ast.Load()), found[1], test.comparators[0])
        node.test = ast.copy_location(ast.BoolOp(ast.And(), [asked, test]), test)
        return node

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
    if is_gpu(tensor) and not tensor.requires_grad and isinstance(size, int) and -tensor.dim() <= dim < tensor.dim() and 0 <= size < tensor.shape[dim]:
        shape = list(tensor.shape)
        shape[dim] = size
        tensor.resize_(shape)
    return True


def install(patch):
    patch(builtins, TYPE, type_of)
    patch(builtins, SIZED, take_size)
