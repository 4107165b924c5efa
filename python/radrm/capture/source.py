# SPDX-License-Identifier: MIT
"""What stands in a script's files, for those who read them beside running them."""
import ast
import functools
import linecache
import os

from .reads import targets

FUNCTION = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
NOT_OWN = ("site-packages", "dist-packages", os.path.dirname(os.__file__), os.path.dirname(os.path.abspath(__file__)))


@functools.lru_cache(None)
def tree_of(path):
    """The syntax tree of a file, or of a script from standard input; of what cannot be read or is no Python, an empty one."""
    try:
        return ast.parse("".join(linecache.getlines(path)))
    except (SyntaxError, ValueError, RecursionError):
        return ast.Module([], [])


def is_own(path):
    """Whether a source file is the script's, or of what it is part of."""
    return (bool(path) and path.endswith(".py") and not any(part in path for part in NOT_OWN)
            and not os.path.abspath(path).startswith(targets()))


def called(node):
    """The last word of what is called; "": nothing is."""
    if not isinstance(node, ast.Call):
        return ""
    return node.func.id if isinstance(node.func, ast.Name) else node.func.attr if isinstance(node.func, ast.Attribute) else ""
