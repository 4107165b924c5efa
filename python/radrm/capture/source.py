# SPDX-License-Identifier: MIT
"""What stands in a script's files, for those who read them beside running them."""
import ast
import functools
import linecache


@functools.lru_cache(None)
def tree_of(path):
    """The syntax tree of a file, or of a script from standard input; of what cannot be read or is no Python, an empty one."""
    try:
        return ast.parse("".join(linecache.getlines(path)))
    except (SyntaxError, ValueError, RecursionError):
        return ast.Module([], [])
