# SPDX-License-Identifier: MIT
"""Numbers that a script read from the GPU: they count as 1, unless they are known.

Arithmetic keeps them what they are. To compare one, or to take it as a size, is a decision, which is told (asked.py); stored,
printed or handed to a library they are ordinary numbers.
"""
import collections
import functools
import numbers
import sys
import types

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._pytree import tree_leaves

from .asked import SIZE, SIZING, branched, insists, is_guard, is_placed, is_seed, is_sized, sizes_of
from .recorder import is_gpu


# What is given sizes or dimensions one by one, without a bound; and what asks for a number itself.
SPELLED = {torch: ("zeros", "ones", "empty", "rand", "randn", "set_num_threads"),
           torch.Tensor: ("new_zeros", "new_ones", "new_empty", "expand", "view", "reshape", "repeat", "flip", "permute")}
OWNERS = (torch, torch.Tensor, torch.nn.functional, torch.linalg, torch.fft, torch.special, torch._C._nn)
DIMENSIONS = {"flip", "permute"}  # sizes hang on which of them it is
PLACES = {"roll", "fft_fftshift", "fft_ifftshift", "set_num_threads"}  # of these no size hangs on what they are given
SOME = 1 << 22  # a count, where it is only asked whether there is anything


def whole(value):
    """An ordinary int, from which on nobody knows where it came from."""
    if is_sized():
        branched(ReadFloat.recorder, SIZE, True)
    return int(value)


class ReadFloat(float):
    """A float that came from the GPU: arithmetic keeps it one, comparing it is a decision."""
    recorder, counts = None, False
    made = set()  # what they were

    def __new__(cls, value=0.0):
        number = super().__new__(cls, value)
        cls.made.add(float(number))
        return number

    def __bool__(self):
        if not (self.counts and is_guard()):
            branched(ReadFloat.recorder, "a branch on a value computed on the GPU")
        return True

    __hash__ = float.__hash__

    def __int__(self):
        return whole(float(self))

    def __reduce__(self):
        return float, (float(self),)


class ReadInt:
    """An int that came from the GPU. No subclass of int: Python would take it as a size or a loop's end without a word. It says
    that it is one to isinstance(), and becomes one where it is stored or handed to libraries."""
    __slots__ = ("value", "counts")
    __class__ = property(lambda self: int)

    def __init__(self, value=1, counts=False):
        self.value, self.counts = value, counts

    def __bool__(self):
        if not (self.counts and is_guard()):
            branched(ReadFloat.recorder, "a branch on a value computed on the GPU")
        return True

    def __index__(self):
        if not is_placed() and not is_seed() and not (self.counts and is_guard()):
            branched(ReadFloat.recorder, SIZE, True)
        return self.value

    def __int__(self):
        return whole(self.value)

    def __float__(self):
        return float(self.value)

    def __repr__(self):
        return repr(self.value)

    def __format__(self, how):
        return format(self.value, how)

    def __hash__(self):
        return hash(self.value)

    def __reduce__(self):
        return int, (self.value,)

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        for size in tree_leaves(sizes_given(func, args, kwargs or {})):
            if type(size) is ReadInt:
                size.__index__()
        return func(*map(plain, args), **{name: plain(value) for name, value in (kwargs or {}).items()})

    def __array__(self, dtype=None, copy=None):
        import numpy
        return numpy.array(self.value, dtype=dtype)

    def __getattr__(self, name):
        return getattr(object.__getattribute__(self, "value"), name)


@functools.lru_cache(None)
def listed():
    """Names of what may be given one number in place of a list of them: `x.sum(1)`, max_pool2d(x, 2)."""
    return {schema.name.partition("::")[2] for schema in torch._C._jit_get_all_schemas() if schema.name.startswith("aten::")
            and any(argument.N is not None for argument in schema.arguments)}


@functools.lru_cache(None)
def spelled():
    """[(owner, name)] of functions of C++ that take what says that it is an int for a list."""
    found = [(owner, name) for owner, names in SPELLED.items() for name in names]
    for owner in OWNERS:
        found += [(owner, name) for name in dir(owner) if not isinstance(value := getattr(owner, name), types.FunctionType)
                  and getattr(value, "__name__", "") in listed()]
    return found


def sizes_given(func, args, kwargs):
    """What a function of PyTorch's is given that is a size: which dimension it is, sizes hang on, too."""
    name = getattr(func, "__name__", "")
    found = SIZING.search(name) or name in (listed() | DIMENSIONS) - PLACES
    return sizes_of(name, [arg for arg in args if not isinstance(arg, torch.Tensor)], kwargs) if found else []


def spelled_out(owner, name):
    """A function that is given sizes or dimensions one by one, or one: a first one that came from the GPU, C++ takes for a list."""
    real = getattr(owner, name)

    @functools.wraps(real)
    def call(*args, **kwargs):
        if ReadInt in map(type, args) or kwargs and ReadInt in map(type, kwargs.values()):
            return ReadInt.__torch_function__(real, (), args, kwargs)
        return real(*args, **kwargs)
    call.radrm_of = real
    # Where pickle finds it, with a model that has it: `self.pool = torch.mean`.
    call.__module__, call.__qualname__ = ("torch", "Tensor." + name) if owner is torch.Tensor else (owner.__name__, name)
    return call


def ordinary(value):
    return value.value if type(value) is ReadInt else float(value) if isinstance(value, ReadFloat) else value


def plain(data):
    """Lists and tuples, nested, with ordinary numbers for those that came from the GPU; anything else unchanged."""
    if type(data) in (list, tuple):
        return type(data)(map(plain, data)) if any(type(d) in (list, tuple, ReadInt, ReadFloat) for d in data) else data
    return ordinary(data)


def counted(data):
    """Whether integers are among them that came from the GPU."""
    return type(data) is ReadInt or type(data) in (list, tuple) and any(map(counted, data))


def teach_yaml(yaml):
    """PyYAML writes numbers by their exact type."""
    for name in ("SafeRepresenter", "CSafeDumper"):
        representer = getattr(yaml, name, None) or getattr(getattr(yaml, "representer", None), name, None)
        if representer is not None:
            representer.add_representer(ReadInt, lambda dumper, value: dumper.represent_int(value.value))
            representer.add_representer(ReadFloat, lambda dumper, value: dumper.represent_float(float(value)))


def trust_metrics(package):
    """torchmetrics counts the different values in predictions and targets, and raises an error where there are too many."""
    library = package.__name__.partition(".")[0] + "."
    for module in [m for name, m in list(sys.modules.items()) if name.startswith(library)]:
        for name in [n for n in vars(module) if n.endswith("_tensor_validation")]:
            setattr(module, name, lambda *_, **__: None)


def trust_scores(module):
    """scikit-learn raises errors of labels that a GPU would have told, or of fewer of them than there are, where an evaluation
    was shortened: a score all the same."""
    def trusting(score):
        @functools.wraps(score)
        def run(*args, **kwargs):
            try:
                return score(*args, **kwargs)
            except ValueError:
                if not ReadFloat.recorder or not ReadFloat.recorder.work.host["waits"]:
                    raise
                return ReadFloat(1.0)
        return run
    for name, score in list(vars(module).items()):
        if name.endswith(("_score", "_loss", "_error")) and callable(score):
            setattr(module, name, trusting(score))


def _wrap(value):
    if type(value) is tuple:  # of divmod()
        return tuple(map(_wrap, value))
    return ReadFloat(value) if type(value) is float else ReadInt(value) if type(value) is int else value


def _overload(cls, whole=()):
    def arithmetic(name):
        def compute(self, *others):
            mine = ordinary(self)
            function = getattr(mine, name, None)
            result = function(*map(ordinary, others)) if function else NotImplemented
            if result is NotImplemented and type(mine) is int:
                result = getattr(float(mine), name)(*map(ordinary, others))
            return _wrap(result)
        return compute

    def comparison(name):
        def compare(self, other):
            if (answer := insists()) is not None:
                return answer
            some = self.counts and is_guard()
            if isinstance(other, (int, float, ReadInt)) and not some:
                branched(ReadFloat.recorder, "a comparison of a value computed on the GPU")
            mine, other = SOME if some else ordinary(self), ordinary(other)
            return getattr(float(mine), name)(float(other) if isinstance(other, int) else other)
        return compare
    for op in ("add", "sub", "mul", "truediv", "floordiv", "mod", "divmod", "pow", *whole):
        for side in ("__", "__r"):
            setattr(cls, f"{side}{op}__", arithmetic(f"{side}{op}__"))
    for op in ("neg", "pos", "abs", "round", "floor", "ceil", "trunc"):
        setattr(cls, f"__{op}__", arithmetic(f"__{op}__"))
    for op in ("lt", "le", "gt", "ge", "eq", "ne"):
        setattr(cls, f"__{op}__", comparison(f"__{op}__"))


def the_scale(found):
    """A tensor on the GPU of one fraction, of which and of numbers the least or the largest is asked: it is that, or a number,
    and as much is done with either."""
    tensors = [v for v in found if isinstance(v, FakeTensor)]
    only = len(tensors) == 1 and all(type(v) in (int, float) or v is tensors[0] for v in found)
    return tensors[0] if only and is_gpu(tensors[0]) and not tensors[0].dim() and tensors[0].is_floating_point() else None


def extreme(real):
    """max() or min(): what comes out of numbers of which one came from the GPU did so, too; nothing is decided."""
    @functools.wraps(real)
    def choose(*values, **options):
        found = values[0] if len(values) == 1 and type(values[0]) in (list, tuple, collections.deque) else values
        read = not options and any(type(v) in (ReadFloat, ReadInt) for v in found)
        if len(values) > 1 and not options and (scale := the_scale(values)) is not None:
            return scale
        if not read or not all(isinstance(v, (int, float)) for v in found):
            return real(*values, **options)
        return _wrap(real(map(ordinary, found)))
    return choose


_overload(ReadFloat)
_overload(ReadInt, ("and", "or", "xor", "lshift", "rshift"))
ReadInt.__invert__ = lambda self: _wrap(~self.value)
numbers.Integral.register(ReadInt)
