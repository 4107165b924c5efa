# SPDX-License-Identifier: MIT
"""Steps that take differently much, though their batches look alike or no loader knows of them: patches whose sizes are drawn in the
model, tables that a loop of the script cuts at random.

The first few are not the largest, and PyTorch's allocator keeps blocks of each size. So more of them are seen; what they take is noted
as the backward pass of each begins."""

STEPS, STILL = 32, 16  # of which the largest is believed; behind the largest, likewise
FEW, TWICE = 8, 2  # after which those of two kinds, as of a critic and a generator in turn, are believed; once each came so often
OPERATORS = 50_000  # that may run for that
DIFFERENT = 0.01  # of what is alive at most


class Varied:
    def __init__(self, recorder):
        self.recorder, self.began = recorder, None
        self.taken = []  # bytes that each iteration has more alive than it began with; None: no backward pass yet
        self.before = self.most = 0  # alive as it began, and at most

    def begins(self):
        """An iteration."""
        self.taken.append(None)
        self.before = self.recorder.live_bytes

    def learns(self):
        """A backward pass of it begins."""
        live, self.most = self.recorder.live_bytes, max(self.most, self.recorder.live_bytes)
        if self.taken:
            self.taken[-1] = max(live - self.before, live - self.before if self.taken[-1] is None else self.taken[-1])

    def sizes(self):
        """Of the iterations but the first, which has no optimizer's state."""
        return [size for size in self.taken if size is not None][1:]

    def kinds(self, sizes):
        found = sorted(sizes)
        return len(found[:1]) + sum(after > before + DIFFERENT * self.most for before, after in zip(found, found[1:]))

    def waits(self, steps):
        """Whether more are to be seen, after so many."""
        sizes, ran = self.sizes(), self.recorder.operators
        kinds = self.kinds(sizes)
        alike = len({*sizes}) == 2 and min(map(sizes.count, sizes)) >= TWICE
        if kinds < 2 or kinds == 2 and (steps >= FEW or alike) or steps >= STEPS:
            return False
        if len(sizes) - sizes.index(max(sizes)) > STILL:
            return False
        self.began = self.began or ran
        return ran <= self.began + OPERATORS

    def drawn(self):
        """Whether sizes are of many kinds, in no order: in the later half, since the first steps may do more, in a way that is theirs."""
        sizes = self.sizes()
        return self.kinds(sizes[len(sizes) // 2:]) > 2 and sizes != sorted(sizes)
