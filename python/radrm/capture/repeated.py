# SPDX-License-Identifier: MIT
"""Forward passes that do not learn and repeat, as those of an evaluation do by the hundred, before the first optimizer step or
between two; and passes that learn, whose gradients are summed up for one step. The first few within an iteration are run; what later ones
would ask of memory was asked then, so only their results are made, and their work counted again. Where the script keeps what it has of
each, one that begins with more alive than the last that was run, by a sixteenth of the most so far, is run as well."""
import weakref
from collections.abc import Mapping

import torch
from torch.utils._pytree import tree_flatten, tree_leaves, tree_map, tree_unflatten

from .longer import EVERY, Longer, Unlike, outline, parts
from .readnumbers import ReadFloat, ReadInt
from .recorder import Form, aten, is_gpu

LEARNT = 2  # likewise, of passes that learn, after two that were not: before the first there were no gradients
NUMBERS = 64  # bytes that one of them may leave behind: a loss that is kept, not what it was computed from
ENOUGH = 5  # alike passes after which another is like them
PLAIN = (type(None), bool, int, float, str, torch.dtype, torch.device)


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


def is_result(leaf):
    """Whether another one can be made like it."""
    return is_gpu(leaf) and not isinstance(leaf, torch.nn.Parameter) or type(leaf) in (*PLAIN, ReadFloat, ReadInt)


def is_watched(module):
    """Whether somebody is told of its passes."""
    return any(m._forward_hooks or m._forward_pre_hooks or m._backward_hooks or m._backward_pre_hooks for m in module.modules())


def filled(module):
    """How many of its parameters have a gradient; 0 as well where what becomes of one is not known: it is no parameter's, or
    somebody is told of it."""
    number = 0
    for p in module.parameters():
        if not p.is_leaf or p._backward_hooks or getattr(p, "_post_accumulate_grad_hooks", None):
            return 0
        number += p.grad is not None
    return number


def keeps(module):
    """Whether it remembers something that a pass computed and that learns."""
    own = ("_parameters", "_buffers", "_modules")
    return any(getattr(leaf, "grad_fn", None) is not None for m in module.modules() for name, value in vars(m).items() if name not in own
               for leaf in (tree_leaves(value) if isinstance(value, (list, tuple, dict)) else [value]))


def casts(recorder, func, args, kwargs, result):
    """A weight in less precision: autocast makes it once for all passes within it."""
    if recorder.casts is not None and is_gpu(result) and args[0].requires_grad and args[0].is_leaf:
        key = result.untyped_storage()._cdata
        if key in recorder.live:
            recorder.casts[key] = recorder.live[key][0]


class Left(torch.autograd.Function):
    """A pass that was left out: its results learn, and their gradients go nowhere."""

    @staticmethod
    def forward(ctx, parameter, make, back):
        ctx.back = back
        ctx.set_materialize_grads(False)
        return make()

    @staticmethod
    def backward(ctx, *gradients):
        ctx.back()
        return None, None, None


class Alike:
    """Passes of one module that ask for the same."""

    def __init__(self):
        self.count, self.result = 0, None
        self.work = self.back = None  # what one of them does, and the backward pass through it
        self.live, self.filled = 0, 0  # before the last of those that learn: bytes alive, gradients

    def begin(self, recorder):
        self.before, self.first = recorder.live_bytes, recorder.records.allocs
        recorder.casts = {} if torch.is_autocast_enabled("cuda") and torch.is_autocast_cache_enabled() else None

    def end(self, recorder, module, result):
        """Whatever a pass left behind beside its results, and weights that autocast keeps until it is left, it counts anew
        until none does. Whether this one did."""
        leaves = tree_leaves(result)
        keys = {part.untyped_storage()._cdata for part in parts(result) if is_gpu(part)} | {
            key for key, number in (recorder.casts or {}).items() if recorder.live.get(key, (None,))[0] == number}
        recorder.casts = None
        given = sum(recorder.live[key][1] for key in keys if key in recorder.live and recorder.live[key][0] >= self.first)
        grew = recorder.live_bytes - given > self.before
        if grew:
            self.count = 0
        elif all(map(is_result, leaves)) and not is_watched(module):
            self.count, self.result = self.count + 1, tree_map(Form.of, result)
        return grew


class Repeated:
    def __init__(self, recorder):
        self.recorder = recorder
        self.asked = False  # for gradients of something else than parameters: what they come through is not left out
        self.through = None  # (Alike that the backward pass goes through, what was done before it)
        self.clear()

    def clear(self):
        """Another iteration: what is alive beside a pass may be something else."""
        self.passes = weakref.WeakKeyDictionary()  # module -> {asked: Alike; "live": bytes alive before the last that was run}

    def run(self, call, module, args, kwargs):
        recorder, passes = self.recorder, self.passes.setdefault(module, {})
        key = asked(args, kwargs)
        alike = passes.setdefault(key, Alike()) if key is not None else Alike()
        more = recorder.live_bytes - passes.get("live", 0) > recorder.peak_bytes / EVERY
        if alike.count >= ENOUGH and not more:
            recorder.work.beside.include(alike.work)
            return tree_map(self.again, alike.result)
        longer, sizes = self.longer(passes, args, kwargs)
        if longer and longer.is_next(sizes) and not more and not is_watched(module):
            recorder.work.beside.include(longer.work)
            return longer.make(recorder.empty)
        alike.begin(recorder)
        passes["live"] = recorder.live_bytes
        given, alike.work = recorder.work.of(lambda: call(module, *args, **kwargs))
        grew = alike.end(recorder, module, given)
        if longer:
            longer.ran(given, grew, alike.work)
        return given

    def longer(self, passes, args, kwargs):
        """(Longer, sizes) of a pass's arguments; (None, None): cannot be said."""
        sizes = []
        try:
            return passes.setdefault(("longer", outline((args, kwargs), sizes), torch.is_inference_mode_enabled()), Longer()), sizes
        except Unlike:
            return None, None

    def learn(self, call, module, args, kwargs):
        """A pass that learns."""
        number, key = filled(module), asked(args, kwargs)
        if key is None or any(is_gpu(leaf) and leaf.requires_grad for leaf in tree_leaves((args, kwargs))):
            return call(module, *args, **kwargs)
        alike = self.passes.setdefault(module, {}).setdefault((key, module.training), Alike())
        live = self.recorder.live_bytes
        same = number and number == alike.filled and live <= alike.live + NUMBERS
        alike.live, alike.filled = live, number
        if same and alike.count >= LEARNT:
            return self.left(alike, next(p for p in module.parameters() if p.grad is not None))
        given, alike.work = self.recorder.work.of(lambda: call(module, *args, **kwargs), "learning")
        leaves = tree_leaves(given)
        if not all(map(is_result, leaves)) or is_watched(module) or keeps(module):
            alike.filled = 0
            return given
        alike.count, alike.result = alike.count + 1 if same else 0, tree_map(Form.of, given)
        for leaf in leaves:
            if is_gpu(leaf) and leaf.requires_grad:
                leaf.register_hook(lambda _: self.comes_to(alike))
        return given

    def left(self, alike, parameter):
        """In place of such a pass."""
        work = self.recorder.work
        work.learning.include(alike.work)
        leaves, spec = tree_flatten(alike.result)
        at = [n for n, leaf in enumerate(leaves) if isinstance(leaf, Form) and leaf.learns]

        def made():
            return tuple(self.again(leaves[n]) for n in at)

        def back():
            if alike.back:
                work.learning.include(alike.back)
        learn = dict(zip(at, Left.apply(parameter, made, back) if at else ()))
        return tree_unflatten([learn[n] if n in learn else self.again(leaf) for n, leaf in enumerate(leaves)], spec)

    def comes_to(self, alike):
        """The backward pass comes to the results of a pass: what follows is of that."""
        if self.through and self.through[0] is alike:
            return
        self.backward_ends()
        self.through = alike, self.recorder.work.swap("learning")

    def backward_ends(self):
        if self.through:
            (alike, before), self.through = self.through, None
            alike.back = self.recorder.work.swap("learning", before)

    def again(self, leaf):
        return self.recorder.empty(leaf.shape, leaf.dtype, leaf.stride) if isinstance(leaf, Form) else leaf


AROUND = {aten._to_copy.default: casts}
