# SPDX-License-Identifier: MIT
"""Forward passes that do not learn and repeat, as those of an evaluation do by the hundred, before the first optimizer step or
between two. The first few within an iteration are run; what later ones would ask of memory was asked then, so only their results
are made, and their work counted again."""
import weakref
from collections.abc import Mapping

import torch
from torch.utils._pytree import tree_leaves, tree_map

from .recorder import is_gpu
from .values import ReadFloat, ReadInt

ENOUGH = 5  # alike passes after which another is like them
PLAIN = (type(None), bool, int, float, str, torch.dtype, torch.device)


class Unlike(Exception):
    """Something of which it cannot be said whether it is what it was the last time."""


def described(value):
    """What of an argument decides what a pass asks for."""
    if is_gpu(value):
        return tuple(value.shape), value.stride(), value.dtype
    if type(value) in PLAIN:
        return type(value), value
    if type(value) is torch.Tensor and not value.dim():
        return value.dtype  # a number on the CPU, such as the time of a diffusion's step
    if isinstance(value, (list, tuple)):
        return tuple(map(described, value))
    if isinstance(value, Mapping):
        return tuple((name, described(v)) for name, v in value.items())
    raise Unlike


def asked(args, kwargs):
    """Hashable; equal for passes that ask for the same. None: cannot be said."""
    try:
        return (described(args), described(kwargs), torch.is_inference_mode_enabled(),
                torch.is_autocast_enabled("cuda") and torch.get_autocast_dtype("cuda"))
    except Unlike:
        return None


class Form:
    """A tensor on the GPU, without it."""

    def __init__(self, tensor):
        self.shape, self.dtype, self.stride = tuple(tensor.shape), tensor.dtype, tensor.stride()

    @classmethod
    def of(cls, leaf):
        return cls(leaf) if is_gpu(leaf) else leaf


def is_result(leaf):
    """Whether another one can be made like it."""
    return is_gpu(leaf) and not isinstance(leaf, torch.nn.Parameter) or type(leaf) in (*PLAIN, ReadFloat, ReadInt)


def is_watched(module):
    """Whether somebody is told of its passes."""
    return any(m._forward_hooks or m._forward_pre_hooks for m in module.modules())


class Alike:
    """Passes of one module that ask for the same."""

    def __init__(self):
        self.count, self.result = 0, None
        self.work = None  # what one of them does

    def begin(self, recorder):
        self.before, self.first = recorder.live_bytes, recorder.records.allocs

    def end(self, recorder, module, result):
        """Whatever a pass left behind beside its results, it counts anew until none does."""
        leaves = tree_leaves(result)
        keys = {leaf.untyped_storage()._cdata for leaf in leaves if is_gpu(leaf)}
        given = sum(recorder.live[key][1] for key in keys if key in recorder.live and recorder.live[key][0] >= self.first)
        if recorder.live_bytes - given > self.before:
            self.count = 0
        elif all(map(is_result, leaves)) and not is_watched(module):
            self.count, self.result = self.count + 1, tree_map(Form.of, result)


class Repeated:
    def __init__(self, recorder):
        self.recorder = recorder
        self.clear()

    def clear(self):
        """Another iteration: what is alive beside a pass may be something else."""
        self.passes = weakref.WeakKeyDictionary()  # module -> {asked: Alike}

    def run(self, call, module, args, kwargs):
        key = asked(args, kwargs)
        if key is None:
            return call(module, *args, **kwargs)
        alike = self.passes.setdefault(module, {}).setdefault(key, Alike())
        if alike.count >= ENOUGH:
            self.recorder.work.beside.include(alike.work)
            return tree_map(self.again, alike.result)
        alike.begin(self.recorder)
        given, alike.work = self.recorder.work.of(lambda: call(module, *args, **kwargs))
        alike.end(self.recorder, module, given)
        return given

    def again(self, leaf):
        return self.recorder.empty(leaf.shape, leaf.dtype, leaf.stride) if isinstance(leaf, Form) else leaf
