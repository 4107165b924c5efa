# SPDX-License-Identifier: MIT
"""Rounds of a loop that are not like the one that was seen: where what another goes over that is in it, or that it calls, is longer or
shorter in them."""
import ast
import math

from .ends import names as names_in
from .expressions import elements, length, lengthwise, local, value
from .passes import Unknown, rounds_of


class Round:
    """A frame as it is in another round of a loop."""

    def __init__(self, frame, loop, element):
        self.f_globals, self.f_code = frame.f_globals, frame.f_code
        self.f_locals = self
        self.frame, self.known = frame, dict(self.bound(loop.target, element))
        self.set = {node.targets[0].id: node.value for node in loop.body if isinstance(node, ast.Assign) and len(node.targets) == 1
                    and isinstance(node.targets[0], ast.Name)}

    def bound(self, target, element):
        if isinstance(target, ast.Name):
            yield target.id, element
        elif isinstance(target, ast.Tuple) and len(target.elts) == len(element):
            for part, one in zip(target.elts, element):
                yield from self.bound(part, one)

    def get(self, name, otherwise=None):
        if name in self.set and name not in self.known:
            self.known[name] = value(self.set[name], self)
        return self.known[name] if name in self.known else local(self.frame, name, otherwise)


def sums_up(outer, inner, frame, now):
    """Rounds of a loop in all those of the one around it, where there are `now` in this one and others in others; infinite: nobody
    can tell."""
    try:
        return sum(length(inner.iter, Round(frame, outer, element)) for element in elements(outer.iter, frame)) / now
    except (Unknown, TypeError, AttributeError, KeyError, IndexError, ValueError, ZeroDivisionError):
        return math.inf


def unlike(loops, n, frame, rounds, product):
    """Rounds of a loop, where the one in it goes over what it gives, as one loader after the other. `product`: steps that this round
    has; where that is a part of them alone, nobody knows of the others."""
    inner = loops[n + 1] if n + 1 < len(loops) else None
    if not isinstance(inner, ast.For) or not isinstance(loops[n], ast.For) or not names_in(inner.iter) & names_in(loops[n].target):
        return rounds
    now = lengthwise(inner.iter, frame)
    found = sums_up(loops[n], inner, frame, now) if now < math.inf else math.inf
    return rounds if found in (rounds, math.inf) else found if product == now else math.inf


def longer(loop, frame, lengths, rounds):
    """Rounds of a loop where what those go over that it calls is longer or shorter in others of them; infinite: nobody can tell."""
    own, times = names_in(loop.target) if isinstance(loop, ast.For) else set(), rounds
    for node, now in lengths:
        if not own & names_in(node):
            continue
        try:
            each = [length(node, Round(frame, loop, element)) for element in elements(loop.iter, frame)]
        except Exception:  # whatever a script's own objects do where they are asked
            continue
        if len(each) == rounds and sum(each) != now * rounds:
            times = sum(each) / now if times == rounds else math.inf
    return times


def plain_lengths(loop, frame, stretches):
    """[(what a `for` goes over, how long that is)] where that stands there, and is as long as it is found to be."""
    now = lengthwise(loop.iter, frame) if isinstance(loop, ast.For) and not hasattr(loop, "filtered") else math.inf
    return [(loop.iter, now)] if 0 < now < math.inf and now == rounds_of(stretches) else []
