# SPDX-License-Identifier: MIT
"""Files of weights: none is written once anything is on the GPU, since there are none, and what was there before the capture
stays as it is, however the script would save over it: by name, into a file that it opened, or by a file that it moves or copies
there, or moves away. What was not saved can be loaded again, as the best weights are for a test behind the training. A folder
that was made for them, and is called like a checkpoint, is gone in the end, with what else is in it: a run would go on from it.
Other folders stay: somebody else may write there meanwhile."""
import builtins
import functools
import inspect
import io
import os
import pickle
import re
import shutil
import sys
import tempfile

from .recorder import Form

NAMES = (".pt", ".pth", ".pth.tar", ".ckpt", ".safetensors", ".distcp", "model.bin")
# What folders of weights are called.
CHECKPOINT = re.compile(r"(checkpoint|ckpt|epoch|step|iter)\D*\d+$|(^|[-_])(best|final|last|latest)([-_]|$)", re.IGNORECASE)
MARK = len(b"radrm ") + 16  # bytes of what stands in memory in place of weights


def located(file):
    """Its path; of an open file that it was opened by. "": it has none."""
    try:
        return os.path.realpath(os.fsdecode(getattr(file, "name", None) if hasattr(file, "read") else file))
    except TypeError:  # a descriptor, or a file without a name
        return ""


def which(folder):
    """That folder, whatever it is called by now; None: there is none."""
    try:
        found = os.lstat(folder)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def empty(real, file, mode, *args, **kwargs):
    """What open() gives, of nothing: named as that file is."""
    opened = real(os.devnull, mode.replace("x", "w"), *args, **kwargs)
    raw = getattr(opened, "buffer", opened)
    getattr(raw, "raw", raw).name = file
    return opened


def copied(real, file, mode, *args, **kwargs):
    """What open() gives, of a copy that nobody else sees."""
    with tempfile.TemporaryDirectory() as folder:
        place = os.path.join(folder, "copy")
        with real(file, "rb") as original, real(place, "wb") as copy_of_it:
            shutil.copyfileobj(original, copy_of_it)
        return real(place, mode, *args, **kwargs)


def formed(value):
    """What is to be saved, without the GPU's memory; None: it has something in it that cannot be made anew."""
    from torch.utils._pytree import tree_flatten, tree_unflatten
    leaves, spec = tree_flatten(value)
    if any(hasattr(leaf, "state_dict") for leaf in leaves):  # a whole model, or an optimizer
        try:
            return Pickled(value)
        except Exception:  # of whatever objects do when they are pickled
            return None
    return tree_unflatten(map(Form.of, leaves), spec)


class Pickled:
    """What has objects of the script in it, each in a place that nobody can see from without: as it is read again."""
    tensor = None  # while one is read: what gives a tensor

    def __init__(self, value):
        self.data = pickle.dumps(value, pickle.HIGHEST_PROTOCOL)

    def read(self, tensor):
        before, Pickled.tensor = Pickled.tensor, tensor
        try:
            return pickle.loads(self.data)
        finally:
            Pickled.tensor = before


def unpickled(form, device, learns):
    """A tensor in place of one that was pickled; `learns`: it was a parameter. A run, which has none of this, fails here."""
    import torch
    tensor = Pickled.tensor(form) if Pickled.tensor else torch.empty(form.shape, dtype=form.dtype, device=device)
    return torch.nn.Parameter(tensor, form.learns) if learns else tensor.requires_grad_(form.learns)


class Weights:
    def __init__(self, used):
        self.used = used  # whether anything was on the GPU
        # Paths: of files that the script made, and of those that it did not, though it believes so -> what is in them.
        self.own, self.unsaved = set(), {}
        self.marks = {}  # what stands in files in memory -> what is not in them
        self.pickled, self.stood_in = set(), 0  # files with what stands for tensors on the GPU, which of it there was
        self.folders = set()  # that stay, likewise
        self.made = {}  # folders that the script made once anything was on the GPU -> which they are

    def is_kept(self, path):
        """Whether somebody made that file before."""
        return path not in self.own and os.path.exists(path)

    def is_theirs(self, path):
        """Of an earlier run: weights, or what lies beside them, as its number of steps."""
        return self.is_kept(path) and (path.endswith(NAMES) or self.used() and self.holds(os.path.dirname(path)))

    def holds(self, folder):
        """Whether weights of an earlier run lie in that folder."""
        try:
            return any(self.is_kept(os.path.join(folder, name)) for name in os.listdir(folder) if name.endswith(NAMES))
        except OSError:  # it may not be listed
            return False

    def below(self, folder):
        """Files there, and in its folders, that others made and are weights, or what the script believes to have saved."""
        paths = (os.path.join(at, name) for at, _, names in os.walk(folder) for name in names)
        return (path for path in paths if (path.endswith(NAMES) or path in self.unsaved) and self.is_kept(path))

    def end(self):
        """Nothing of the script runs any more. Weights that are there are somebody else's, and so is a folder that took the
        place of one that it made."""
        for path in filter(self.own.__contains__, self.pickled):
            try:
                os.remove(path)
            except OSError:  # the script itself did
                pass
        for folder in self.made.keys() & {os.path.dirname(path) for path in self.unsaved}:
            if CHECKPOINT.search(os.path.basename(folder)) and which(folder) == self.made[folder] and not any(self.below(folder)):
                self.real_rmtree(folder, ignore_errors=True)

    def leaves(self, path, what=None):
        if path:
            self.unsaved[path] = what

    def install(self, patch):
        import torch
        from torch._subclasses.fake_tensor import FakeTensor
        patch(torch, "save", self.save(torch.save))
        patch(pickle, "dump", self.pickles(pickle.dump))
        patch(FakeTensor, "__reduce_ex__", self.stands_in(FakeTensor.__reduce_ex__))
        for owner in (builtins, io):
            patch(owner, "open", self.opens(owner.open))
        for owner, name in ((os, "rename"), (os, "replace"), (shutil, "copy"), (shutil, "copy2"), (shutil, "copyfile")):
            patch(owner, name, self.moves(owner, getattr(owner, name)))
        for name in ("remove", "unlink", "chmod", "utime"):
            patch(os, name, self.changes(getattr(os, name)))
        self.real_rmtree = shutil.rmtree
        patch(shutil, "rmtree", self.removes_all(shutil.rmtree))
        patch(os, "mkdir", self.makes(os.mkdir))
        patch(os, "symlink", self.links(os.symlink))

    def save(self, real):
        asked = inspect.signature(real).bind

        @functools.wraps(real)
        def run(*args, **kwargs):
            """What is prepared before anything is on the GPU is read again, as a data set; what comes later are weights."""
            obj, f = asked(*args, **kwargs).args[:2]
            path = located(f)
            if self.used() and isinstance(f, io.BytesIO):
                mark = b"radrm %016x" % len(self.marks)
                self.marks[mark] = formed(obj)
                return f.write(mark) and None
            if self.used() or not hasattr(f, "write") and self.is_kept(path):
                return self.leaves(path, formed(obj))
            self.own.add(path)
            return real(*args, **kwargs)
        return run

    def stands_in(self, real):
        @functools.wraps(real)
        def run(tensor, protocol):
            """What the pickler is given of a tensor on the GPU. copy.copy() asks, too."""
            import torch
            if sys._getframe(1).f_globals.get("__name__") == "copy":
                return real(tensor, protocol)
            self.stood_in += 1
            return unpickled, (Form(tensor), tensor.device.type, isinstance(tensor, torch.nn.Parameter))
        return run

    def pickles(self, real):
        @functools.wraps(real)
        def run(obj, file, *args, **kwargs):
            before = self.stood_in
            try:
                return real(obj, file, *args, **kwargs)
            finally:
                if self.stood_in > before:
                    self.pickled.add(located(file))
        return run

    def loaded(self, f, place):
        """What was said to be saved there, on the CPU; place(storage, location) is asked as torch.load() asks it. None: that is
        a file, or it is not known."""
        import torch
        path = located(f)

        def one(leaf):
            if not isinstance(leaf, Form):
                return leaf
            tensor = torch.empty(leaf.shape, dtype=leaf.dtype)
            place(tensor.untyped_storage(), "cuda:0")
            return tensor
        found = self.unsaved.get(path) if not os.path.exists(path) or not os.path.getsize(path) else None
        if isinstance(f, io.BytesIO):
            at = f.tell()
            found = self.marks.get(f.read(MARK))
            f.seek(at)
        if isinstance(found, Pickled):
            return found.read(one)
        return torch.utils._pytree.tree_map(one, found)

    def opens(self, real):
        @functools.wraps(real)
        def run(file, mode="r", *args, **kwargs):
            if set("wxa+") & set(str(mode)):
                path = located(file)
                if path.endswith(NAMES) and self.used() and "r" not in mode or self.is_theirs(path):
                    self.leaves(path)
                    read = "+" in mode and not {"w", "x"} & set(mode) and os.path.exists(path)
                    return self.heard((copied if read else empty)(real, file, mode, *args, **kwargs), path)
                if path and not os.path.exists(path) or "w" in mode:
                    self.own.add(path)
            if "r" in str(mode) and self.unsaved and (path := located(file)) in self.unsaved and not os.path.exists(path):
                return empty(real, file, mode, *args, **kwargs)
            return real(file, mode, *args, **kwargs)
        return run

    def heard(self, opened, path):
        """That file of nothing, as one into which somebody writes what was saved in memory."""
        real = opened.write

        def write(data):
            if isinstance(data, (bytes, bytearray, memoryview)) and (mark := bytes(data[:MARK])) in self.marks:
                self.leaves(path, self.marks[mark])
            return real(data)
        opened.write = write
        return opened

    def saved(self, path):
        """What the script believes to have saved there."""
        if path in self.unsaved or path not in self.own or not self.marks or not os.path.isfile(path):
            return self.unsaved.get(path)
        with open(path, "rb") as f:
            return self.marks.get(f.read(MARK))

    def moves(self, owner, real):
        @functools.wraps(real)
        def run(src, dst, *args, **kwargs):
            before, path = located(src), located(dst)
            if os.path.isdir(path):
                path = os.path.join(path, os.path.basename(before))
            moved = owner is os and self.used() and before.endswith(NAMES) and self.is_kept(before)  # an earlier run's
            if before in self.unsaved or moved or self.is_theirs(path) or self.used() and before in self.own and path.endswith(NAMES):
                saved = self.saved(before)
                if owner is os and before in self.own and os.path.isfile(before):
                    os.remove(before)
                self.leaves(path, saved)
                return dst if owner is shutil else None
            if before in self.own:
                self.own.add(path)
            result = real(src, dst, *args, **kwargs)
            if before in self.made and owner is os:
                self.follows(before, located(dst))
            return result
        return run

    def follows(self, before, now):
        """A folder that the script made is called otherwise now, as where a checkpoint is made whole before it gets its name."""
        self.made[now] = self.made.pop(before)
        for path in [path for path in self.unsaved if path.startswith(before + os.sep)]:
            self.unsaved[now + path[len(before):]] = self.unsaved.pop(path)

    def links(self, real):
        @functools.wraps(real)
        def run(src, dst, *args, **kwargs):
            """To the last weights, say: they can be loaded by that name. A link that leads to none would be in a run's way."""
            path = located(dst)
            before = located(os.path.join(os.path.dirname(os.path.abspath(os.fsdecode(dst))), os.fsdecode(src)))
            if not kwargs and (before in self.unsaved or self.is_theirs(path)):
                return self.leaves(path, self.unsaved.get(before))
            return real(src, dst, *args, **kwargs)
        return run

    def changes(self, real):
        @functools.wraps(real)
        def run(path, *args, **kwargs):
            place = located(path)
            if not kwargs and (self.is_theirs(place) or place in self.unsaved and not os.path.exists(place)):
                return None
            return real(path, *args, **kwargs)
        return run

    def removes_all(self, real):
        @functools.wraps(real)
        def run(path, *args, **kwargs):
            """As trainers do with all checkpoints but the last few."""
            place = located(path)
            if any(self.below(place)):
                return self.folders.add(place)
            real(path, *args, **kwargs)
            for folder in [folder for folder in self.made if not os.path.isdir(folder)]:
                del self.made[folder]
        return run

    def makes(self, real):
        @functools.wraps(real)
        def run(path, *args, **kwargs):
            """What was removed, as the script believes, is made anew."""
            place = located(path) if kwargs.get("dir_fd") is None else ""
            if place in self.folders:
                return self.folders.remove(place)
            real(path, *args, **kwargs)
            if self.used() and place:
                self.made[place] = which(place)
        return run
