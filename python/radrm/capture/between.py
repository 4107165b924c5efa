# SPDX-License-Identifier: MIT
"""Steps of the sizes between two that were captured.

On the way to the largest size a capture goes through as many as there is time for. PyTorch's allocator keeps blocks of each, so
what was left out is put in between the steps around it: what they ask for, in sizes between theirs, as long as they ask for it
in the same order.
"""
from .fileformat import ALLOC, ATTENTION, CONV, FREE, GEMM, OP, SCRATCH, Records

FIGURES = {GEMM: 2, CONV: 7, ATTENTION: 1, SCRATCH: 1}  # of an OP
MOST = 300_000  # records in all


def entries(out):
    """(kind, argument, figures, number of the storage) of each record."""
    numbers = varints(out)
    allocs = 0
    for head in numbers:
        kind, argument = head & 7, head >> 3
        figures = tuple(next(numbers) for _ in range(FIGURES[argument] if kind == OP else 0))
        allocs += kind == ALLOC
        yield kind, argument, figures, allocs - 1 - (argument if kind == FREE else 0)


def varints(out):
    value = shift = 0
    for byte in out:
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            yield value
            value = shift = 0


def lean(step):
    """Without what is given back at once: whether a library takes it depends on sizes."""
    kept = []
    for entry in step:
        if entry[0] == FREE and kept and kept[-1][0] == ALLOC and kept[-1][3] == entry[3]:
            kept.pop()
        else:
            kept.append(entry)
    return kept


def matched(first, second):
    """{storage of the second step: that of the first}, where both ask for the same in the same order and the second gives back nothing
    older than the first; else None."""
    if len(first) != len(second):
        return None
    begin, pairs = next((entry[3] for entry in first if entry[0] == ALLOC), 0), {}
    for (kind, argument, figures, number), (other, argument_2, figures_2, number_2) in zip(first, second):
        sized = kind == OP and argument in (CONV, SCRATCH)
        if kind != other or not sized and figures != figures_2 or kind not in (ALLOC, FREE) and argument != argument_2:
            return None
        if kind == ALLOC:
            pairs[number_2] = number
        elif kind == FREE and (pairs[number_2] != number if number_2 in pairs else number >= begin or number_2 < begin):
            return None
    return pairs


class Filled(Records):
    """Records as they were, and steps between."""

    def __init__(self):
        super().__init__()
        self.moved = {}  # number of a storage as it was -> as it is

    def put(self, kind, argument, figures, number, own):
        """`own`: a mapping like `moved`, of the step that it is in."""
        if kind == ALLOC:
            own[number] = self.allocs
            self.allocs += 1
        elif kind == FREE:
            argument = self.allocs - 1 - (own[number] if number in own else self.moved[number])
        self._put(kind, argument, *figures)

    def between(self, first, second, pairs, part):
        own = {}
        for (kind, argument, figures, _), (_, argument_2, figures_2, number) in zip(first, second):
            if kind == ALLOC:
                argument = round(argument + (argument_2 - argument) * part)
            figures = tuple(round(a + (b - a) * part) for a, b in zip(figures, figures_2))
            self.put(kind, argument, figures, number, own)
        for number, before in pairs.items():
            self.moved[before] = own[number]


def filled(records, way):
    """Those records with the steps between. `way`: of each step on the way (records before it, sizes left out before it)."""
    if records.count > MOST or not any(left_out for _, left_out in way):
        return records
    found, places = list(entries(records.out)), [place for place, _ in way]
    steps = [found[begin:end] for begin, end in zip(places, [*places[1:], len(found)])]
    result, room = Filled(), MOST - len(found)
    for entry in found[:places[0]]:
        result.put(*entry, result.moved)
    before = None
    for step, (_, left_out) in zip(steps, way):
        if left_out and before:
            first, second = before, step
            pairs = matched(first, second)
            if pairs is None:
                first, second = lean(first), lean(second)
                pairs = matched(first, second)
            number = min(left_out, room // max(len(second), 1)) if pairs else 0
            for n in range(number):
                result.between(first, second, pairs, (n + 1) / (number + 1))
            room -= number * len(second)
        for entry in step:
            result.put(*entry, result.moved)
        before = step
    return result
