# SPDX-License-Identifier: MIT
"""Trainings that come one behind another: a model that is trained, then tuned; two models, one after the other.

Of the first the loops tell how many steps it has (length.py). Where the script goes on for what others take (trainings.py), they tell of
each of those in the same way, by its own first steps. Once the script has come to its end, all of them were seen, and the run has the
steps of all. A step is of another training if it has no loop in common with the one before, be that the script's or a library's.
"""
import copy
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


class Stage:
    """One of them. `length`: its own; `seconds`: of a step, as work.py has them."""

    def __init__(self, length):
        self.length, self.looks, self.seconds = length, 0, 0
        self.stepped = []  # weak references to its optimizers

    def step(self, frame, optimizer, work):
        if optimizer is not None and all(one() is not optimizer for one in self.stepped):
            self.length.begin()
            self.looks = 0
            self.stepped.append(weakref.ref(optimizer))
        if self.looks < LOOKS and (optimizer is None or optimizer is self.stepped[-1]()):
            self.looks += 1
            self.length.step(frame, optimizer)
            self.seconds = work.learning.seconds()


class Stages:
    """All so far. `usual`: seconds of a step as the file has it; `over`: enough was seen, and no other follows."""

    def __init__(self):
        self.each, self.way, self.usual, self.over = [], [], 0, False

    @property
    def another(self):
        return len(self.each) > 1

    def step(self, frame, optimizer, session):
        """A step of any optimizer; None: a backward pass that is one. Until enough was seen the session counts."""
        before, self.way = self.way, way_to(frame)
        going, work = session.later.going, session.recorder.work
        if not self.each:
            self.each.append(Stage(session.length))
        elif not in_one_loop(before, self.way):
            length = Length(session.length.around)
            length.fetched = session.length.fetched
            if not going:
                self.each[-1].length, session.length.__dict__ = copy.copy(session.length), vars(length)
            self.each.append(Stage(length if going else session.length))
        last = self.each[-1]
        if last.length is session.length:
            last.seconds = last.seconds if going else work.learning.seconds()
        else:
            last.step(frame, optimizer, work)
        if going:
            session.length.fetched.clear()
        else:
            self.usual = work.learning.seconds()

    def steps(self, session):
        """(steps of all, how many more of the first would take as long as what the others' take longer); (0, 0): not known."""
        lengths = [one.length for one in self.each]
        if not (self.over or session.over) or not all(one.steps for one in lengths):
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
