# SPDX-License-Identifier: MIT
"""Files of weights: none is written once anything is on the GPU, since there are none, and what was there before the capture stays as it is, however the script
would save over it: by name, into a file that it opened, or by a file that it moves or copies there."""
import builtins
import functools
import io
import os
import shutil

NAMES = (".pt", ".pth", ".pth.tar", ".ckpt", ".safetensors")


def located(file):
    try:
        return os.path.realpath(os.fsdecode(file))
    except TypeError:  # a descriptor, or a file without a name
        return ""


class Weights:
    def __init__(self, used):
        self.used = used  # whether anything was on the GPU
        self.own, self.unsaved = set(), set()  # paths: of files that the script made, and of those that it did not, though it believes so

    def is_kept(self, path):
        """Whether somebody made that file before."""
        return path not in self.own and os.path.exists(path)

    def is_theirs(self, path):
        return path.endswith(NAMES) and self.is_kept(path)

    def leaves(self, path):
        self.unsaved.update([path] if path else ())

    def install(self, patch):
        import torch
        patch(torch, "save", self.save(torch.save))
        for owner in (builtins, io):
            patch(owner, "open", self.opens(owner.open))
        for owner, name in ((os, "rename"), (os, "replace"), (shutil, "copy"), (shutil, "copy2"), (shutil, "copyfile")):
            patch(owner, name, self.moves(getattr(owner, name)))
        for name in ("remove", "unlink"):
            patch(os, name, self.removes(getattr(os, name)))

    def save(self, real):
        @functools.wraps(real)
        def run(obj, f, *args, **kwargs):
            """What is prepared before anything is on the GPU is read again, as a data set; what comes later are weights."""
            path = located(getattr(f, "name", f))
            if self.used() or not hasattr(f, "write") and self.is_kept(path):
                return self.leaves(path)
            self.own.add(path)
            return real(obj, f, *args, **kwargs)
        return run

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

    def moves(self, real):
        @functools.wraps(real)
        def run(source, target, *args, **kwargs):
            before, path = located(source), located(target)
            if os.path.isdir(path):
                path = os.path.join(path, os.path.basename(before))
            if before in self.unsaved or self.is_theirs(path):
                self.leaves(path)
                return target
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
