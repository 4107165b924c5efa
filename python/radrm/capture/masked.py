# SPDX-License-Identifier: MIT
"""What is as large as a mask holds: `x[mask]`, masked_select(), nonzero(), and all that is computed from it.

It is taken as large as it can be, by a mask that holds everywhere, or as often as is likely at most where that is known
(drawn.py). Whether that is a doubt comes out in the end. It is none where nobody asked for such a size but to tell it, or to see
whether there is anything, so that nothing hangs on it but how large these tensors are, which is no more than was taken; and where
all of them together are little, so that their sizes, which differ from step to step, do not cut up PyTorch's cache.
"""
import math
import sys

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._pytree import tree_leaves

from . import fileformat as ff
from .asked import OWN, TORCH, is_guard, script_line
from .idle import is_idle
from .recorder import aten, is_gpu

LITTLE = 0.02  # of the most that was in use
GIVEN = {getattr(aten, "new_" + name).default for name in ("empty", "empty_strided", "zeros", "ones", "full")}  # whose sizes are given
# Operators that give what is as large as their first argument.
INTO = {op for name in ("index_put", "index_add", "index_copy", "index_fill", "scatter", "scatter_add", "scatter_reduce",
                        "masked_fill", "masked_scatter")
        for op in (getattr(getattr(aten, name), overload) for overload in getattr(aten, name).overloads())}
# Operators that give several -> where their arguments say along which dimension.
PARTS = {aten.unbind.int: 1, aten.split.Tensor: 2, aten.split_with_sizes.default: 2}


def asks(tensor):
    """Somebody asks how large it is, and not only whether there is anything, or to tell it; what PyTorch itself makes of that
    is in the capture."""
    frame = sys._getframe(2)
    if not frame.f_code.co_filename.startswith((OWN, TORCH)) and not is_guard() and not is_idle(frame):
        Sized.masked.asks(tensor)


def fitting(tensor, shape):
    """So many of its elements as there are by the shape that it is to have: `x[mask].view(len(x), 4, 4)`, where more was taken."""
    sizes = shape[0] if len(shape) == 1 and isinstance(shape[0], (tuple, list)) else shape
    if not all(isinstance(size, int) for size in sizes):
        return tensor  # another type
    number, known = FakeTensor.numel(tensor), math.prod(size for size in sizes if size != -1)
    wanted = known if -1 not in sizes else number - number % known if known else 0
    return tensor.flatten().narrow(0, 0, wanted) if 0 < wanted < number else tensor


class Sized(FakeTensor):
    """A tensor that tells when it is asked for its size."""
    masked = None

    @property
    def shape(self):
        asks(self)
        return FakeTensor.shape.__get__(self)

    def size(self, *dim):
        asks(self)
        return super().size(*dim)

    def numel(self):
        asks(self)
        return super().numel()

    nelement = numel

    def __len__(self):
        asks(self)
        return super().__len__()

    def __iter__(self):
        asks(self)
        return super().__iter__()

    def view(self, *shape):
        return FakeTensor.view(fitting(self, shape), *shape)

    def reshape(self, *shape):
        return FakeTensor.reshape(fitting(self, shape), *shape)

    def plain(self):
        """The same for whom its type counts, and who has its size as well: it tells no more."""
        Sized.masked.asks(self)
        self.__class__ = FakeTensor
        return self

    def __deepcopy__(self, memo):
        return self.plain().__deepcopy__(memo)

    def __reduce_ex__(self, protocol):
        return self.plain().__reduce_ex__(protocol)


class Masked:
    """Such tensors of a recording."""

    def __init__(self):
        # Storage's address -> (how many elements were taken to hold of the mask that its size hangs on, the fewest; how many
        # times as many it has).
        self.of = {}
        # (what was done, line of the script) -> how many elements were taken to hold, of how many; line -> the fewest and the most that
        # did, as far as it is known; somebody asked for such a size: then it is a doubt, and no more need be known.
        self.all, self.seen, self.asked = {}, {}, False
        self.bytes = self.most = 0  # of such tensors that are alive, if all elements held; at most
        Sized.masked = self

    def sees(self, number):
        """So many elements of a mask hold, on which a size hangs now."""
        fewest, most = self.seen.get(script_line(), (number, number))
        self.seen[script_line()] = min(fewest, number), max(most, number)

    def begin(self, recorder, what, result, number, size):
        """That is as large as a mask of `size` elements holds, which was taken to be `number` of them."""
        key = what, script_line()
        self.all[key] = max(self.all.get(key, (0, 0)), (number, size))
        self.mark(recorder, result, (number, size // max(number, 1)))

    def mark(self, recorder, tensor, hangs):
        key = tensor.untyped_storage()._cdata
        if key in recorder.live and key not in self.of:
            self.of[key] = hangs
            self.bytes += recorder.live[key][1] * hangs[1]
            self.most = max(self.most, self.bytes)
        if key in self.of and type(tensor) is FakeTensor:
            tensor.__class__ = Sized

    def gone(self, key, nbytes):
        if (hangs := self.of.pop(key, None)) is not None:
            self.bytes -= nbytes * hangs[1]

    def number(self, tensor):
        """What its size hangs on; None: on none of these."""
        return self.of.get(tensor.untyped_storage()._cdata) if is_gpu(tensor) and tensor.layout is torch.strided and tensor.dim() else None

    def asks(self, tensor):
        self.asked = self.asked or self.number(tensor) is not None

    def follow(self, recorder, func, args, kwargs, result):
        """What was computed from some is as large as they are, unless it is one number, or was there before."""
        if self.asked or func in GIVEN or func._schema.is_mutable:
            return
        numbers = [n for n in map(self.number, tree_leaves(args[0] if func in INTO else (args, kwargs))) if n is not None]
        if not numbers:
            return
        for part in tree_leaves(result):
            if is_gpu(part) and part.layout is torch.strided and part.dim():
                self.mark(recorder, part, min(numbers))
        if func in PARTS:  # but not where nonzero() is taken apart by its dimensions
            self.asked = args[0].shape[args[PARTS[func]] if len(args) > PARTS[func] else 0] >= min(numbers)[0]

    def settle(self, recorder):
        """Nothing more is recorded."""
        if self.asked or self.most > LITTLE * recorder.peak_bytes:
            for (what, line), (number, size) in self.all.items():
                taken = "the largest possible was taken" if number == size else f"as if {number} of {size} held"
                fewest, most = self.seen.get(line, (0, 0))
                seen = f" ({fewest}{f' to {most}' if most > fewest else ''} of {size} held in what was seen)" if most else ""
                recorder.note(ff.DATA_DEPENDENT, f"data-dependent: {what}: {taken}{seen}", line)
