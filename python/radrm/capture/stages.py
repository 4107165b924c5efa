# SPDX-License-Identifier: MIT
"""Trainings that come one behind another: a model that is trained, then tuned; two models, one after the other.

Of the first the loops tell how many steps it has (length.py). Where the script goes on for what others take (trainings.py), they tell of
each of those in the same way, by its own first steps. Once the script has come to its end, all of them were seen, and the run has the
steps of all. A step is of another training if it has no loop in common with the one before, be that the script's or a library's; or if
it is another optimizer's, in a loop of its own beside that of the one before: an epoch of one model, then an epoch of the other.
"""
import weakref

from .length import BEGINNING, PASSED, Length, all_around, loops_around
from .source import is_own

LOOKS = 3  # first steps by which it is told how many there are: later ones are of rounds that end early
SHORTER = 0.9  # of the time that is said: where later trainings take less, that is told


def way_to(frame):
    """[(function, what it is at, lines of the loops that this is in)] of those that led to a step, the outermost first."""
    found = []
    while frame is not None and frame.f_globals.get("__name__") not in BEGINNING:
        own = is_own(frame.f_code.co_filename)
        if own or frame.f_globals.get("__name__", "").partition(".")[0] not in PASSED:
            found.append((frame.f_code, frame.f_lasti, {loop.lineno for loop in (all_around if own else loops_around)(frame)}))
        frame = frame.f_back
    return found[::-1]


def in_one_loop(way, other):
    for (code, at, loops), (its_code, its_at, its_loops) in zip(way, other):
        if code is not its_code or not loops & its_loops and at != its_at:
            return False
        if loops & its_loops:
            return True
    return True


def loops_on(way):
    """The loops on it, each with what led to it, the outermost first."""
    found, above = [], ()
    for code, at, loops in way:
        found += [(*above, code, line) for line in sorted(loops)]
        above += code, at
    return found


class Stage:
    """One of them. `length`: its own; `seconds`: of a step, as work.py has them; `loops`: those that its last step is in."""

    def __init__(self, length):
        self.length, self.looks, self.seconds, self.loops = length, 0, 0, []
        self.stepped = []  # weak references to its optimizers

    def has(self, optimizer):
        return any(one() is optimizer for one in self.stepped)

    def is_beside(self, optimizer, loops):
        """Whether a step in these loops is of another one, which comes in a round of a loop beside this one."""
        return optimizer is not None and not self.has(optimizer) and bool(self.loops and loops) and loops[-1] not in self.loops \
            and self.loops[-1] not in loops

    def step(self, frame, optimizer, work):
        if optimizer is not None and not self.has(optimizer):
            if any(one() for one in self.stepped):  # beside it, not in its place
                self.length.begin()
                self.looks = 0
            self.stepped.append(weakref.ref(optimizer))
        if self.looks < LOOKS and (optimizer is None or optimizer is self.stepped[-1]()):
            self.looks += 1
            self.length.step(frame, optimizer)
            self.seconds = work.learning.seconds()


class Stages:
    """All so far. `usual`: seconds of a step as the file has it; `over`: enough was seen, and no other follows; `mixed`: what the file has
    of a step is of several."""

    def __init__(self):
        self.each, self.way, self.usual, self.over, self.mixed = [], [], 0, False, False

    @property
    def another(self):
        return len(self.each) > 1

    def step(self, frame, optimizer, session):
        """A step of any optimizer; None: a backward pass that is one. Until enough was seen the session counts."""
        before, self.way = self.way, way_to(frame)
        going, work, loops = session.later.going, session.recorder.work, loops_on(self.way)
        if any(loops and one.loops[-1:] == loops[-1:] for one in self.each[:-1]):  # in another round
            self.mixed |= not going
            return
        if not self.each:
            self.each.append(Stage(session.length))
        elif not in_one_loop(before, self.way) or self.each[-1].is_beside(optimizer, loops):
            self.each.append(Stage(session.length.another(going)))
            if not going:
                session.length = self.each[-1].length
        last = self.each[-1]
        last.loops = loops
        if last.length is not session.length:
            last.step(frame, optimizer, work)
        else:
            last.seconds = last.seconds if going else work.learning.seconds()
            if optimizer is not None and not last.has(optimizer):
                last.stepped.append(weakref.ref(optimizer))
        if going:
            session.length.fetched.clear()
        else:
            self.usual = work.learning.seconds()

    def steps(self, session):
        """(steps of all, how many more of the first would take as long as what the others' take longer); (0, 0): not known."""
        lengths = [one.length for one in self.each]
        if self.mixed or not (self.over or session.over) or not all(one.steps for one in lengths):
            return 0, 0
        steps = [one.steps for one in lengths]
        whole, told = sum(steps), sum(n * one.seconds / (self.usual or 1) for n, one in zip(steps, self.each))
        if told < SHORTER * whole:
            session.recorder.note(0, f"{len(steps)} trainings one behind another, of {', '.join(map(str, steps))} steps: some take less "
                                     "than the one that all are counted as")
        return whole, max(round(told - whole), 0)

    def clocks(self):
        """Where one of them is ended by the time."""
        return list(dict.fromkeys(one.length.clock.where for one in self.each if one.length.clock))
