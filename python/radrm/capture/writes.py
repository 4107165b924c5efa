# SPDX-License-Identifier: MIT
"""How often the memory of a tensor on the GPU was written into, by whatever tensor has it. What is known of values is of one such state.

Autograd counts writes, too, but anew for each `.data`, not of what a list of operators or out= writes into, and of nothing that was
made in inference mode.
"""
import itertools

import torch
from torch._subclasses.fake_tensor import FakeTensor

MANY = 1 << 32  # writes
numbers = itertools.count(1)  # of storages: an address comes again
states = {}  # storage's address -> its number * MANY and writes; as long as it lives (Recorder._died)


def version_of(tensor):
    """The state of what it holds: no other storage has the same. None: nobody counts."""
    if isinstance(tensor, FakeTensor) and tensor.fake_device.type == "cuda" and tensor.layout is torch.strided:
        return state(tensor.untyped_storage())
    return None if tensor.is_inference() else tensor._version


def state(storage):
    key = storage._cdata
    found = states.get(key)
    if found is None:
        found = states[key] = next(numbers) * MANY
    return found


def wrote(tensor):
    """Something was written into it, or may have been."""
    if isinstance(tensor, FakeTensor) and tensor.fake_device.type == "cuda" and tensor.layout is torch.strided:
        wrote_into(tensor.untyped_storage())


def wrote_into(storage):
    states[storage._cdata] = state(storage) + 1


def gone(key):
    states.pop(key, None)
