# SPDX-License-Identifier: MIT
"""Tensors on the CPU whose values came from the GPU, where nothing was computed: what is computed from them is not known either.

So a number that is read from one is as one that is read from the GPU (values.py). A mark is on a storage: views share it, and it goes
to what operators on the CPU make of it. NumPy's arrays, and lists, bear none; whether a size comes of one is read from the source.
"""
import weakref

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._pytree import tree_leaves

from .asked import SIZE, becomes_size, branched, is_sizing

aten = torch.ops.aten
# Operators of which the size of what they give hangs on values.
SIZED = {op for name in ("nonzero", "masked_select", "_unique", "_unique2", "unique_dim", "unique_consecutive", "bincount",
                         "repeat_interleave")
         for packet in [getattr(aten, name)] for op in (getattr(packet, kind) for kind in packet.overloads())}


class OnHost:
    """Those of a recording."""

    def __init__(self, recorder):
        self.recorder = recorder
        self.of = {}  # storage's address -> (weak reference to it, whether the size of what is there hangs on such values, too)

    def mark(self, tensor, sized=False):
        storage = tensor.untyped_storage()
        key, before = storage._cdata, self.found(tensor)

        def gone(reference):
            if self.of.get(key, (None,))[0] is reference:
                del self.of[key]
        reference, was = before or (weakref.ref(storage, gone), False)
        self.of[key] = reference, was or sized

    def found(self, tensor):
        """What is noted of a tensor, which may be anything; None: nothing is."""
        if not self.of or not isinstance(tensor, torch.Tensor) or isinstance(tensor, FakeTensor) or tensor.layout is not torch.strided:
            return None
        try:
            return self.of.get(tensor.untyped_storage()._cdata)
        except (NotImplementedError, RuntimeError):  # torch.func's wrappers have none
            return None

    def knows(self, tensor):
        """Whether its values came from the GPU."""
        return self.found(tensor) is not None

    def hangs(self, tensor):
        """Whether its size does, too."""
        return (self.found(tensor) or (None, False))[1]

    def follow(self, func, args, kwargs, result):
        """An operator ran on the CPU."""
        sources = [(arg, found) for arg in tree_leaves((args, kwargs)) if (found := self.found(arg))]
        if not sources:
            return
        taken = func is aten.index.Tensor and any(arg.dtype in (torch.bool, torch.uint8) and arg is not args[0] for arg, _ in sources)
        if func is aten._local_scalar_dense.default and is_sizing() or (func in SIZED or taken) and becomes_size(True):
            branched(self.recorder, SIZE, True)
        sized = func in SIZED or taken or any(sized for _, (_, sized) in sources)
        for part in tree_leaves(result):
            if isinstance(part, torch.Tensor) and not isinstance(part, FakeTensor) and part.layout is torch.strided:
                self.mark(part, sized)

    def leaves(self, tensor):
        """It becomes a list or an array."""
        if self.knows(tensor) and becomes_size():
            branched(self.recorder, SIZE, True)
