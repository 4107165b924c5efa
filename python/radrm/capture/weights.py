# SPDX-License-Identifier: MIT
"""Files of weights: none is written once anything is on the GPU, since there are none, and what was there before the capture stays as it is, however the script
would save over it: by name, into a file that it opened, or by a file that it moves or copies there. What was not saved can be loaded again, as the best weights
are for a test behind the training."""
import builtins
import copy
import functools
import io
import os
import shutil
import weakref

from .recorder import is_gpu

NAMES = (".pt", ".pth", ".pth.tar", ".ckpt", ".safetensors", ".distcp", "model.bin")


def located(file):
    try:
        return os.path.realpath(os.fsdecode(file))
    except TypeError:  # a descriptor, or a file without a name
        return ""


def formed(value):
    """What is to be saved, without the GPU's memory; None: it has something in it that cannot be made anew."""
    from torch.utils._pytree import tree_flatten, tree_unflatten
    leaves, spec = tree_flatten(value)
    if leaves == [value] and hasattr(value, "parameters"):
        return weakref.ref(value)  # a whole model: another like it, while there is one
    if any(hasattr(leaf, "state_dict") for leaf in leaves):
        return None
    return tree_unflatten([Form(leaf) if is_gpu(leaf) else leaf for leaf in leaves], spec)


def another(model):
    """A model like that, without gradients; None: it is gone."""
    gradients = [(parameter, parameter.grad) for parameter in (model.parameters() if model is not None else ())]
    try:
        for parameter, _ in gradients:
            parameter.grad = None
        return copy.deepcopy(model)
    finally:
        for parameter, gradient in gradients:
            parameter.grad = gradient


class Form:
    """A tensor on the GPU, without it."""

    def __init__(self, tensor):
        self.shape, self.dtype = tuple(tensor.shape), tensor.dtype


class Weights:
    def __init__(self, used):
        self.used = used  # whether anything was on the GPU
        self.own, self.unsaved = set(), {}  # paths: of files that the script made, and of those that it did not, though it believes so -> what is in them
        self.folders = set()  # that stay, likewise

    def is_kept(self, path):
        """Whether somebody made that file before."""
        return path not in self.own and os.path.exists(path)

    def is_theirs(self, path):
        return path.endswith(NAMES) and self.is_kept(path)

    def leaves(self, path, what=None):
        if path:
            self.unsaved[path] = what

    def install(self, patch):
        import torch
        patch(torch, "save", self.save(torch.save))
        for owner in (builtins, io):
            patch(owner, "open", self.opens(owner.open))
        for owner, name in ((os, "rename"), (os, "replace"), (shutil, "copy"), (shutil, "copy2"), (shutil, "copyfile")):
            patch(owner, name, self.moves(owner, getattr(owner, name)))
        for name in ("remove", "unlink"):
            patch(os, name, self.removes(getattr(os, name)))
        patch(shutil, "rmtree", self.removes_all(shutil.rmtree))
        patch(os, "mkdir", self.makes(os.mkdir))

    def save(self, real):
        @functools.wraps(real)
        def run(obj, f, *args, **kwargs):
            """What is prepared before anything is on the GPU is read again, as a data set; what comes later are weights."""
            opened = hasattr(f, "write")
            path = located(getattr(f, "name", None) if opened else f)
            if self.used() or not opened and self.is_kept(path):
                return self.leaves(path, formed(obj))
            self.own.add(path)
            return real(obj, f, *args, **kwargs)
        return run

    def loaded(self, f, place):
        """What was said to be saved there, on the CPU; place(storage, location) is asked as torch.load() asks it. None: that is a file, or it is not known."""
        import torch
        path = located(f)

        def one(leaf):
            if not isinstance(leaf, Form):
                return leaf
            tensor = torch.empty(leaf.shape, dtype=leaf.dtype)
            place(tensor.untyped_storage(), "cuda:0")
            return tensor
        found = None if os.path.exists(path) else self.unsaved.get(path)
        if isinstance(found, weakref.ref):
            return another(found())
        return torch.utils._pytree.tree_map(one, found)

    def opens(self, real):
        @functools.wraps(real)
        def run(file, mode="r", *args, **kwargs):
            if "w" in str(mode):
                path = located(file)
                if path.endswith(NAMES) and self.used() or self.is_theirs(path):
                    self.leaves(path)
                    file = os.devnull
                else:
                    self.own.add(path)
            return real(file, mode, *args, **kwargs)
        return run

    def moves(self, owner, real):
        @functools.wraps(real)
        def run(source, target, *args, **kwargs):
            before, path = located(source), located(target)
            if os.path.isdir(path):
                path = os.path.join(path, os.path.basename(before))
            if before in self.unsaved or self.is_theirs(path):
                if owner is os and before in self.own and os.path.isfile(before):
                    os.remove(before)
                self.leaves(path, self.unsaved.get(before))
                return target if owner is shutil else None
            if before in self.own:
                self.own.add(path)
            return real(source, target, *args, **kwargs)
        return run

    def removes(self, real):
        @functools.wraps(real)
        def run(path, **kwargs):
            place = located(path)
            if not kwargs and (self.is_theirs(place) or place in self.unsaved and not os.path.exists(place)):
                return None
            return real(path, **kwargs)
        return run

    def removes_all(self, real):
        @functools.wraps(real)
        def run(path, *args, **kwargs):
            """As trainers do with all checkpoints but the last few."""
            place = located(path)
            if any(self.is_theirs(os.path.join(folder, name)) for folder, _, names in os.walk(place) for name in names):
                return self.folders.add(place)
            return real(path, *args, **kwargs)
        return run

    def makes(self, real):
        @functools.wraps(real)
        def run(path, *args, **kwargs):
            """What was removed, as the script believes, is made anew."""
            place = located(path)
            if place not in self.folders:
                return real(path, *args, **kwargs)
            return self.folders.remove(place)
        return run
