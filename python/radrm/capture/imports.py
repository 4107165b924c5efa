# SPDX-License-Identifier: MIT
"""What happens when a script imports certain modules: some get answers of ours, and other frameworks end the capture at once."""
import ast
import os
import sys

from .reads import installed
from .source import tree_of

OTHERS = {"jax": "JAX", "flax": "JAX", "tensorflow": "TensorFlow", "keras": "TensorFlow"}
PYTORCH = {"torch", "torchvision", "torchaudio", "lightning", "pytorch_lightning", "lightning_fabric", "transformers", "accelerate",
           "timm", "fastai", "diffusers", "sentence_transformers", "ultralytics", "peft", "trl", "ignite", "monai", "torchtune",
           "torch_geometric", "dgl", "composer", "mmengine", "detectron2", "fairseq", "unsloth"}
INSTEAD = {
    "JAX": "say what the task needs (rad submit --gpu-mem; JAX takes three quarters of a GPU unless "
           "XLA_PYTHON_CLIENT_PREALLOCATE=false), or let its first run teach it",
    "TensorFlow": "print model.summary() into a file and give that (rad submit --model FILE), or say what the task needs "
                  "(--gpu-mem; TensorFlow takes the whole GPU unless TF_FORCE_GPU_ALLOW_GROWTH=true)",
}


class Stop(BaseException):
    """Nothing can be captured, and why. No Exception: a script's `except Exception` must not hold it."""


def named(path):
    """(the name, folders up from the file in which it is looked for, or 0) of all modules that a Python file imports, whenever it does;
    empty if it is none. What is taken from a module may be one, too."""
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            yield from ((alias.name, 0) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            within = node.module + "." if node.module else ""
            yield from ((within + alias.name, node.level) for alias in node.names)


def imported(path, is_own):
    """(first words of the names of modules, files that a Python file imports, of those that `is_own`)"""
    words, files = set(), set()
    for name, level in named(path):
        if not level:
            words.add(name.partition(".")[0])
        up = os.path.normpath(os.path.join(os.path.dirname(path), *[os.pardir] * (level - 1)))
        parts = name.split(".")
        for folder in [up] if level else [p or "." for p in sys.path]:
            for n in range(len(parts)):
                place = os.path.join(folder, *parts[:n + 1])
                files.update(file for file in (place + ".py", os.path.join(place, "__init__.py")) if is_own(file) and os.path.isfile(file))
    return words, files


def reach(files, is_own):
    """First words of the names of all modules that these files import, and those that they import, of those that `is_own`."""
    found, left, seen = set(), [path for path in files if is_own(path)], set()
    while left:
        path = os.path.abspath(left.pop())
        if path not in seen:
            seen.add(path)
            words, more = imported(path, is_own)
            found |= words
            left += more
    return found


class Imports:
    """A finder of modules, before all others. `after`: module -> function(module), called once it is
    imported."""

    def __init__(self, after):
        self.after, self.skip, self.before = after, installed(), set(sys.modules)

    def install(self):
        sys.meta_path.insert(0, self)
        for name in self.after.keys() & sys.modules.keys():  # PyTorch imports pynvml where there is one
            self.after[name](sys.modules[name])

    def find_spec(self, name, path=None, target=None):
        if name in OTHERS:
            self._other(name)
        if name not in self.after:
            return None
        for finder in sys.meta_path:
            spec = finder.find_spec(name, path, target) if finder is not self else None
            if spec is not None:
                self._follow(name, spec.loader)
                return spec
        return None

    def _follow(self, name, loader):
        real = loader.exec_module

        def run(module):
            real(module)
            self.after[name](module)
        loader.exec_module = run

    def _own_code(self, path):
        return isinstance(path, str) and not path.startswith("<") and not os.path.abspath(path).startswith(self.skip)

    def _other(self, name):
        """Another framework, imported by the user's code none of which is about PyTorch, nor will be: one that reads data by TensorFlow may
        come first."""
        framework, frame = OTHERS[name], sys._getframe(2)
        if name == "keras" and os.environ.get("KERAS_BACKEND") == "torch":
            return
        while frame is not None and ("importlib" in frame.f_code.co_filename):
            frame = frame.f_back
        importer = frame.f_code.co_filename if frame is not None else ""
        if not self._own_code(importer):
            return
        files, at = {importer}, frame
        while at is not None and at.f_globals.get("__name__") != "__main__":
            at = at.f_back
        files.add(at.f_code.co_filename if at is not None else "")  # the script's, also of `-m`
        files |= {getattr(module, "__file__", None) for name, module in list(sys.modules.items()) if name not in self.before}
        if reach(files, self._own_code) & PYTORCH:
            return
        raise Stop(f"{os.path.basename(importer)}:{frame.f_lineno}: uses {framework}, and only PyTorch can be captured: "
                   + INSTEAD[framework])
