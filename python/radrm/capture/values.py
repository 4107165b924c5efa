# SPDX-License-Identifier: MIT
"""Values that a script reads from the GPU: nothing was computed, so there are none.

A number that is only printed does no harm: it is 1. One that decides something (a branch, a size) makes the capture a guess,
and that is told: flag DATA_DEPENDENT and the line of the script. Shapes that depend on data (nonzero, masks) take their upper
bound, told the same way.
"""
import builtins
import functools
import json
import operator
import os
import sys

import torch
from torch._subclasses.fake_tensor import FakeTensor

from . import drawn, fileformat as ff, given, usedup
from .answers import INT
from .asked import (SIZE, Rounds, asking, branched, decided, insists, is_ending, is_guard, is_left, is_placed, is_round, is_sizing,
                    keeping, script_line, script_place, tests)
from .readnumbers import ReadFloat, ReadInt, extreme, ordinary, spelled, spelled_out
from .recorder import aten, is_gpu
from .writes import version_of, wrote

WHOLE = os.path.join("torch", "nn", "modules", "_functions.py")  # of SyncBatchNorm, which leaves out GPUs without any sample


# Of some tensors the value of all elements is known: of masks of ones as they come from the CPU, of constants, of tests. A test
# says what it says of ordinary numbers: none is infinite, none is no number (isfinite(x) is x == x and |x| != inf). One of
# which nothing is known is False.

def known(tensor):
    """The value of all elements of a tensor; None if it is not known, or something was written into it or a view of it since."""
    value, version, _ = getattr(tensor, "radrm_value", (None, None, False))
    return value if value is not None and version == version_of(tensor) else None


def remember(tensor, value, sure=False):
    """`sure`: it follows from what the script put there, not from what numbers usually are."""
    if value is not None:
        tensor.radrm_value = bool(value) if tensor.dtype == torch.bool else value, version_of(tensor), sure


def filled(recorder, func, args, kwargs, result):
    """Written in place, by a constant: a flag that says that something was done. The write is counted when it is over."""
    tensor, value = args[0], args[1] if len(args) > 1 else 0
    if not is_gpu(tensor) or not isinstance(value,
                                            (bool, int)) or tensor.dtype.is_floating_point or tensor.dtype.is_complex:
        return
    after = version_of(tensor) + 1
    tensor.radrm_value = bool(value) if tensor.dtype == torch.bool else value, after, True
    if 0 < tensor.numel() <= given.SMALL:
        with torch._C._DisableTorchDispatch():
            given.put(tensor, torch.full(tuple(tensor.shape), value, dtype=tensor.dtype), (), tensor.dtype in given.INTEGERS, later=1)


def is_sure(tensor):
    return known(tensor) is not None and tensor.radrm_value[2]


def told(rule, sure=lambda *_: False):
    """Remembers the value of a result; `rule`(arguments) tells. It is sure where those of the arguments are, or `sure`(arguments)."""
    def note(recorder, func, args, kwargs, result):
        if isinstance(result, torch.Tensor):
            remember(result, rule(*args), sure(*args) or all(is_sure(arg) for arg in args if isinstance(arg, torch.Tensor)))
    return note


def always(value):
    """Of a test whether numbers are numbers, which a run that learns has passed, and of what was filled with it: no guess."""
    return told(lambda *_: value, lambda *_: True)


def compared(how):
    def rule(first, second, *_):
        value = known(first)
        return None if value is None else how(value, second)
    return asks_whether(how, told(rule))


def asks_whether(how, note):
    """And of a count, compared with 0 or 1, and of a sum, compared with 0, what it says if something is there."""
    def noted(recorder, func, args, kwargs, result):
        note(recorder, func, args, kwargs, result)
        numbers = (0, 1) if counts(args[0]) else (0,) if is_sum(args[0]) else ()
        if args[1] in numbers and how(0, args[1]) != how(given.LIMIT, args[1]):
            result.radrm_some = how(given.LIMIT, args[1]), version_of(result)
    return noted


def equals(recorder, func, args, kwargs, result):
    """No element is equal to two numbers: of the masks that one line makes of a tensor for one number after the other, as of a
    mixture's experts, the first is taken to hold everywhere, and each of the others at two places."""
    compared(operator.eq)(recorder, func, args, kwargs, result)
    if isinstance(args[1], (bool, int)) and is_gpu(args[0]) and args[0].layout is torch.strided:
        one_of_many(recorder, args[0], args[1], result)


def one_of_many(recorder, source, number, result):
    """The mask of a number is taken of a tensor. `number` is None: of one that was not before."""
    storage = recorder.live.get(source.untyped_storage()._cdata)
    if storage is not None:
        numbers = recorder.numbers.setdefault((storage[0], version_of(source), script_line()), [])
        if number not in numbers or number is None:
            numbers.append(number)
        if len(numbers) > 1 if number is None else number != numbers[0]:
            result.radrm_most = 2, version_of(result)


def counts_up(recorder, func, args, kwargs, result):
    result.radrm_counts_up = version_of(result)


def hot(tensor):
    """The dimension of a tensor in which one number is 1 and all others are 0, as F.one_hot() makes it; None: of none is that known."""
    dim, version = getattr(tensor, "radrm_hot", (None, None))
    return dim if dim is not None and version == version_of(tensor) else None


def compared_with(recorder, func, args, kwargs, result):
    """With itself it is equal; of the numbers 0, 1, 2 ... one at most is what it is."""
    told(lambda first, second: True if first is second else None, lambda first,
         second: first is second)(recorder, func, args, kwargs, result)
    first, second = args
    counts = hasattr(second, "radrm_counts_up") and second.radrm_counts_up == version_of(second) and second.dim() == 1
    if counts and first.dim() and first.shape[-1] == 1:
        result.radrm_hot = result.dim() - 1, version_of(result)


def still_hot(recorder, func, args, result):
    """Of all that is taken along that dimension, as for one expert after the other, there are no more ones than numbers: see equals()."""
    dim, source = hot(args[0]), args[0]
    if dim is None or not is_gpu(result):
        return
    if func is aten.select.int:
        taken, number = args[1] % source.dim(), args[2] % source.shape[args[1]]
        if taken == dim:
            return one_of_many(recorder, source, number, result)
        dim -= taken < dim
    elif func is aten.permute.default:
        dim = [d % source.dim() for d in args[1]].index(dim)
    elif func is aten.transpose.int:
        pair = [d % source.dim() for d in args[1:3]]
        dim = pair[1 - pair.index(dim)] if dim in pair else dim
    elif func is aten.squeeze.dim and result.dim() < source.dim():
        dim -= args[1] % source.dim() < dim
    elif result.shape != source.shape:
        return
    result.radrm_hot = dim, version_of(result)


def picked(recorder, func, args, kwargs, result):
    """The same by a tensor: which one that is, is not known."""
    if hot(args[0]) == 0 and len(args[1]) == 1 and args[1][0].numel() == 1:
        one_of_many(recorder, args[0], None, result)


def distinct(recorder, func, args, kwargs, result):
    """Places along a dimension, each once."""
    source, place = args[0], 2 if func is aten.topk.default else 1
    dim = args[place] if len(args) > place else kwargs.get("dim", -1)
    if source.dim():
        places = result[1] if isinstance(result, (tuple, list)) else result
        places.radrm_distinct = dim % source.dim(), version_of(places)


def scattered(recorder, func, args, kwargs, result):
    """A number is put in places that are distinct, of what was filled with another: as many hold as are put there, or as are left."""
    source, dim, places, value = args[:4]
    writes = func is aten.scatter_.value
    before, version, _ = (recorder.overwritten["radrm_value"] if writes else getattr(source, "radrm_value", None)) or (None, None, None)
    if before is None or version != version_of(source) or bool(before) == bool(value) \
        or places.dim() != source.dim() or not places.dim():
        return
    if getattr(places, "radrm_distinct", None) == (dim % source.dim(), version_of(places)):
        result.radrm_holds = places.numel() if value else source.numel() - places.numel(), version_of(result) + writes


def same_mask(recorder, func, args, kwargs, result):
    """A view of a mask, or whether anything in its rows holds, has no more elements that hold."""
    viewed(recorder, func, args, kwargs, result)
    still_hot(recorder, func, args, result)
    if func is aten.slice.Tensor and "radrm_distinct" in vars(args[0]) and args[0].radrm_distinct[1] == version_of(args[0]):
        result.radrm_distinct = args[0].radrm_distinct[0], version_of(result)
    casts = func is aten._to_copy.default and result.dtype == torch.bool and is_gpu(args[0])
    if func is aten._to_copy.default and is_mask(args[0]):
        result.radrm_mask = (version_of(result),)
    if (func in SEEN or casts) and is_mask(result) and result.numel() == args[0].numel() and counted(args[0]) is not None:
        result.radrm_holds = counted(args[0]), version_of(result)
    number, version = getattr(args[0], "radrm_most", (None, None))
    if number is not None and version == version_of(args[0]) and is_gpu(result):
        result.radrm_most = number * max(result.numel() // max(args[0].numel(), 1), 1), version_of(result)


def counted(mask):
    """How many elements of a mask hold that the script itself put there; None: it is not known, or something was written into it."""
    if mask.device.type == "cpu":
        with torch._C._DisableTorchDispatch():
            return int(mask.count_nonzero())
    number, version = getattr(mask, "radrm_holds", (None, None))
    return number if number is not None and version == version_of(mask) else None


def hits(recorder, mask):
    """(how many elements of a mask hold, at most; whether so many do)"""
    if recorder.host.knows(mask):
        return mask.numel(), False
    number = counted(mask)
    if number is not None:
        recorder.masked.sees(number)
        return number, True
    found = given.of(mask)
    if found is None or usedup.root(mask) is not None:
        return min(most(mask), drawn.number(recorder.rows, mask)), False
    number, at_most = likely(recorder.rows, found[0])
    recorder.masked.sees(number)
    return (number, True) if given.agreed(recorder, mask) is not None else (max(min(most(mask), at_most), number), False)


def likely(seen, values):
    """How many of a mask hold whose values are known, and of the next one like it, at most."""
    with torch._C._DisableTorchDispatch():
        number = int(torch.count_nonzero(values))
        return number, max(number, drawn.next_time(seen, values))


def most(mask):
    """How many elements of a mask hold, at most."""
    if counted(mask) is not None:
        return counted(mask)
    number, version = getattr(mask, "radrm_most", (None, None))
    return min(mask.numel(), number) if version == version_of(mask) else mask.numel()


def anded(recorder, func, args, kwargs, result):
    """No more hold than of each; of what is known of both, all is known."""
    told(both)(recorder, func, args, kwargs, result)
    masks = [(n, mask, given.of(mask)) for n, mask in enumerate(args[:2]) if is_gpu(mask) and mask.dtype == torch.bool and mask.numel()]
    for n, mask, found in masks if not all(found for _, _, found in masks) else ():
        number = most(mask) if found is None else likely(recorder.rows.setdefault((script_place(), n), {}), found[0])[1]
        result.radrm_most = min(most(result), number * result.numel() // mask.numel()), version_of(result)


def differs(first, second):
    if abs(second) == float("inf"):
        return True
    return None if known(first) is None else known(first) != second


def both(first, second, *_):
    values = known(first), known(second) if isinstance(second, torch.Tensor) else second
    return False if 0 in values else True if values == (1, 1) else None


def either(first, second, *_):
    values = known(first), known(second) if isinstance(second, torch.Tensor) else second
    if first.dtype != torch.bool:
        return None
    return True if True in values else False if values == (False, False) else None


def opposite(tensor):
    return not known(tensor) if tensor.dtype == torch.bool else None


def negated(recorder, func, args, kwargs, result):
    """Where one mask holds the other does not."""
    told(opposite)(recorder, func, args, kwargs, result)
    if args[0].dtype == torch.bool and counted(args[0]) is not None:
        result.radrm_holds = args[0].numel() - counted(args[0]), version_of(result)


def kept(tensor, *_):
    return known(tensor)


def summed(tensor, *_):
    return known(tensor) * tensor.numel() if is_sure(tensor) else None  # a number that is only likely would decide too much


VIEWS = (aten.view.default, aten._unsafe_view.default, aten.expand.default, aten.slice.Tensor, aten.select.int,
         aten.unsqueeze.default, aten.squeeze.default, aten.squeeze.dim, aten.transpose.int, aten.permute.default,
         aten.t.default,
         aten.alias.default, aten.detach.default, aten.clone.default, aten._to_copy.default, aten.lift_fresh.default,
         aten.all.default, aten.all.dim, aten.any.default, aten.any.dim, aten.max.default, aten.min.default,
         *(getattr(aten, name).default for name in ("_is_all_true", "_is_any_true") if hasattr(aten, name)))
SEEN = {aten.view.default, aten.select.int, aten.slice.Tensor, aten.unsqueeze.default, aten.squeeze.default, aten.squeeze.dim,
        aten.alias.default, aten.detach.default, aten.clone.default, aten.expand.default}  # that change no value


def is_some(tensor):
    """Whether it says that a mask holds somewhere, or counts something, and nothing more is known: as an index the mask is
    taken to hold everywhere. None: it says neither."""
    answer, version = getattr(tensor, "radrm_some", (None, None))
    return answer if known(tensor) is None and version == version_of(tensor) else None


def viewed(recorder, func, args, kwargs, result):
    told(kept)(recorder, func, args, kwargs, result)
    if func is aten.any.default:
        result.radrm_some = True, version_of(result)


def counts(tensor):
    """Whether that is how many elements of something hold, or their sum."""
    return getattr(tensor, "radrm_counts", ()) == (version_of(tensor),)


def is_sum(tensor):
    return getattr(tensor, "radrm_sum", ()) == (version_of(tensor),)


def counting(recorder, func, args, kwargs, result):
    if func is aten.sum.default:
        told(summed)(recorder, func, args, kwargs, result)
    of_mask = getattr(args[0], "radrm_mask", ()) == (version_of(args[0]),)
    if not result.dim() and (of_mask or args[0].dtype in (torch.bool, *given.INTEGERS)):
        result.radrm_counts = (version_of(result),)
    elif func is aten.sum.default:  # of numbers that may stand for a mask: MONAI's Dice of its labels
        result.radrm_sum = (version_of(result),)


def norm(recorder, func, args, kwargs, result):
    """It is 0 where nothing is, as a count."""
    if not result.dim() and args[0].numel():
        result.radrm_counts = (version_of(result),)


def normalized(recorder, func, args, kwargs, result):
    """It writes into means and variances, which its declaration does not say."""
    if args[5]:
        for running in args[3:5]:
            wrote(running)


AROUND = {
    **{getattr(aten, name).default: normalized for name in (
        "cudnn_batch_norm", "native_batch_norm", "batch_norm_gather_stats_with_counts")},
    **{op: norm for op in (aten.linalg_vector_norm.default, aten.norm.Scalar, aten.norm.ScalarOpt_dim)},
    aten.eq.Tensor: compared_with,
    aten.arange.default: counts_up,
    aten.index.Tensor: picked,
    aten.ne.Scalar: asks_whether(operator.ne, told(differs, lambda _, second: abs(second) == float("inf"))),
    **{getattr(aten, name).default: always(False) for name in ("isnan", "isinf", "isposinf", "isneginf")},
    **{getattr(aten, name).Scalar: compared(getattr(operator, name)) for name in ("lt", "le", "gt", "ge")},
    aten.eq.Scalar: equals,
    aten.mul.Tensor: told(both),
    **{op: anded for op in (aten.logical_and.default, aten.bitwise_and.Tensor)},
    **{op: told(either) for op in (aten.logical_or.default, aten.bitwise_or.Tensor)},
    **{op: negated for op in (aten.logical_not.default, aten.bitwise_not.default)},
    **{op: same_mask for op in VIEWS},
    **{op: distinct for op in (aten.topk.default, aten.sort.default, aten.argsort.default)},
    aten.scatter.value: scattered, aten.scatter_.value: scattered,
    aten.fill_.Scalar: filled, aten.zero_.default: filled,
    **{op: counting for op in (aten.sum.default, aten.sum.dim_IntList, aten.count_nonzero.default)},
    **{getattr(aten, name).default: always(1) for name in ("ones", "ones_like", "new_ones")},
    **{getattr(aten, name).default: always(0) for name in ("zeros", "zeros_like", "new_zeros")},
    aten.full.default: told(lambda _, value, *__: value, lambda *_: True),
    aten.full_like.default: told(lambda _, value, *__: value, lambda *_: True),
}
UNIFORM_LIMIT = 1 << 22  # elements of a tensor on the CPU whose values are looked at


def uniform(tensor):
    """The value of all elements of a tensor on the CPU, of a type that masks have; else None."""
    if tensor.dtype.is_floating_point or tensor.dtype.is_complex or not 0 < tensor.numel() <= UNIFORM_LIMIT:
        return None
    first = tensor.flatten()[0]
    return first.item() if bool((tensor == first).all()) else None


def item(tensor):
    """What tensor.item() gives: 1.0, 1 or whether a test is known to be True; an integer that the script itself put there."""
    if tensor.numel() != 1:
        raise RuntimeError(f"a Tensor with {tensor.numel()} elements cannot be converted to Scalar")
    if tensor.dtype.is_complex:
        return complex(1)
    value, found = known(tensor), given.of(tensor)
    with torch._C._DisableTorchDispatch():
        found = None if found is None else found[0].reshape(()).tolist()
    if tensor.dtype == torch.bool:
        return bool(value if found is None else found)
    if tensor.dtype.is_floating_point:
        if given.is_constant(tensor):
            return found
        number = ReadFloat(1.0 if found is None else found)
        number.counts = counts(tensor) and found != 0
        return number
    if given.numbers(tensor) is not None:
        return found
    if type(value) is int:
        return value
    found = found if found is not None else 1 if value is None else int(value)
    return ReadInt(found, counts(tensor) and found > 0)  # a bool comes of tests, and of what they know nothing of


def is_certain(tensor):
    """Whether its values are those of the script itself, whatever batch comes."""
    return is_sure(tensor) or given.numbers(tensor) is not None or given.is_constant(tensor)


def on_host(recorder, tensor, dtype=None):
    """The copy on the CPU that tensor.cpu() gives: ones, where it is not known what was there."""
    recorder.value_read()
    recorder.masked.asks(tensor)
    recorder.brought(tensor.numel() * tensor.element_size())
    found = (given.of(tensor) or [None])[0]
    with torch._C._DisableTorchDispatch():
        if found is not None:
            result = found.to(dtype or tensor.dtype, copy=True)
        else:
            result = torch.ones(tuple(tensor.shape), dtype=dtype or tensor.dtype)
        if not is_certain(tensor):
            recorder.host.mark(result)
    return result


def came_back(value):
    """What item() gives of a tensor on the CPU whose values came from the GPU."""
    return value if type(value) in (bool, complex) else ReadFloat(value) if type(value) is float else ReadInt(value)


def parted(recorder, real):
    """split() into as many of each as a list says, which came from the GPU and was not known there: alike ones are taken, as of
    experts among which what comes is divided."""
    @functools.wraps(real)
    def split(tensor, split_size, dim=0):
        parts = split_size if isinstance(split_size, (list, tuple)) else ()
        if recorder.values_read and parts and tensor.shape[dim] != len(parts) and all(
                type(part) in (int, ReadInt) and ordinary(part) == 1 for part in parts):
            branched(recorder, "split() into parts whose sizes the GPU computed: alike ones were taken", True)
            whole, number = tensor.shape[dim], len(parts)
            split_size = [whole * (n + 1) // number - whole * n // number for n in range(number)]
        return real(tensor, split_size, dim)
    return split


def kinds_of(cls):
    return {kind for sub in cls.__subclasses__() for kind in (sub, *kinds_of(sub))}


def held(check):
    """A constraint of a distribution, which raises an error where it does not hold: of values on the GPU it does."""
    @functools.wraps(check)
    def run(*args, **kwargs):
        result = check(*args, **kwargs)
        if is_gpu(result):
            remember(result, True, True)
        return result
    return run


def install(recorder, patch):
    """Patches what reads values: patch(owner, name, value)."""
    ReadFloat.recorder, ReadFloat.made = recorder, set()
    real_item, real_tolist, real_default = torch.Tensor.item, torch.Tensor.tolist, json.JSONEncoder.default
    real_format, real_numpy, rounds, progress = torch.Tensor.__format__, torch.Tensor.numpy, Rounds(), usedup.Progress()

    host = recorder.host

    def read(tensor):
        gpu = is_gpu(tensor)
        if not gpu and not host.knows(tensor):
            return real_item(tensor)
        recorder.value_read()
        frame = asking()
        if tensor.dtype == torch.bool and tensor.numel() == 1 and frame is not None and frame.f_lineno in tests(frame.f_code.co_filename):
            return truth(tensor)  # `if mask.any().item()`
        usedup.tell(recorder, tensor)
        return item(tensor) if gpu else came_back(real_item(tensor))

    def truth(tensor):
        gpu = is_gpu(tensor)
        if not gpu and not host.knows(tensor):
            return bool(real_item(tensor))
        if (answer := insists()) is not None:
            recorder.value_read()
            return answer
        if not gpu:
            found = bool(real_item(tensor))
            if not is_guard(found):
                branched(recorder, "a branch on a value computed on the GPU")
            return rounds(found) if is_round() else found
        if tensor.numel() == 1 and is_sure(tensor):
            recorder.value_read()
            return bool(known(tensor))
        some = is_some(tensor)
        guards = some is not None and not is_left() and is_guard(some)
        if guards and ((found := given.of(tensor)) is None or bool(real_item(found[0])) == some):
            recorder.value_read()
            return some
        # What a loop does may be none of that.
        if tensor.numel() == 1 and not is_round() and (found := given.agreed(recorder, tensor)) is not None:
            recorder.value_read()
            return bool(real_item(found))
        branched(recorder, "a branch on a tensor on the GPU")
        taken = (is_round() or is_left()) and usedup.root(tensor) is not None
        goes_on = progress(tensor) if taken else not is_round()
        if tensor.numel() == 1 and goes_on and (found := given.of(tensor)) is not None:
            usedup.tell(recorder, tensor)
            return bool(real_item(found[0]))  # of this batch: as a run would, though the next one may not
        if (answer := keeping()) is not None:
            return answer
        if some and not is_round() and not is_left() and not is_ending():
            return True
        found = bool(scalar(recorder, None, (tensor,), {}))
        return found if known(tensor) is not None else rounds(found)

    def size(tensor):
        if is_gpu(tensor) and given.numbers(tensor) is None and not (counts(tensor) and is_guard()) or host.knows(tensor):
            branched(recorder, SIZE, True)
        return int(ordinary(read(tensor)))

    def index(tensor):
        if tensor.dtype.is_floating_point or tensor.dtype.is_complex:  # torch.Tensor([loss, loss]) asks whether these are sizes
            raise TypeError("only integer tensors of a single element can be converted to an index")
        return size(tensor)

    def integer(kind, value):
        """int(x) in the script's own code."""
        if kind is not int or not is_gpu(value) and not host.knows(value):
            return kind(value)
        found = read(value)
        certain = type(found) is int or type(found) is float or is_gpu(value) and given.numbers(value) is not None
        return int(ordinary(found)) if certain else ReadInt(int(ordinary(found)), counts(value))

    def listed(tensor):
        if not tensor.dim() and (is_gpu(tensor) or host.knows(tensor)):
            return read(tensor)
        found = on_host(recorder, tensor) if is_gpu(tensor) else tensor
        host.leaves(found)
        return real_tolist(found)

    def array(tensor, *args, **kwargs):
        host.leaves(tensor)
        return real_numpy(tensor, *args, **kwargs)

    def written(tensor, how):
        return format(read(tensor), how) if is_gpu(tensor) and tensor.dim() == 0 else real_format(tensor, how)
    for one in (max, min):
        patch(builtins, one.__name__, extreme(one))
    patch(builtins, INT, integer)
    for owner, name in spelled():
        patch(owner, name, spelled_out(owner, name))
    find = torch.jit._builtins._find_builtin  # TorchScript takes sum() for PyTorch's own
    patch(torch.jit._builtins, "_find_builtin", lambda fn: find(getattr(fn, "radrm_of", fn)))
    patch(torch.Tensor, "split", parted(recorder, torch.Tensor.split))
    patch(torch.Tensor, "item", read)
    patch(torch.Tensor, "__format__", written)
    for owner in (torch.Tensor, FakeTensor) if "tolist" in vars(FakeTensor) else (torch.Tensor,):  # its own in 2.4
        patch(owner, "tolist", listed)
    patch(torch.Tensor, "numpy", array)
    patch(torch.Tensor, "__float__", lambda tensor: float(ordinary(read(tensor))))
    patch(torch.Tensor, "__bool__", truth)
    patch(torch.Tensor, "__int__", lambda tensor: int(ordinary(read(tensor))) if is_placed() else size(tensor))
    patch(torch.Tensor, "__index__", index)
    for kind in kinds_of(torch.distributions.constraints.Constraint):
        if "check" in vars(kind):
            patch(kind, "check", held(kind.check))
    patch(json.JSONEncoder, "default",
          lambda self, o: int(o) if type(o) is ReadInt else real_default(self, o))
    # The encoder in Python, which writes with an indent, takes what says that it is an int for one.
    patch(json.encoder, "_make_iterencode",
          functools.partial(json.encoder._make_iterencode, _intstr=lambda value: int.__repr__(ordinary(value))))


# --- rules of operators ---

def copy_to(recorder, func, args, kwargs):
    """.to(): to the GPU a new storage without reading the source, from the GPU a tensor of ones."""
    source, device = args[0], kwargs.get("device")
    if source.layout is not torch.strided:
        from . import sparse
        return sparse.moved(recorder, source, device, kwargs.get("dtype"))
    if is_gpu(source):
        if device is None or device.type == "cuda":
            if device is not None and sys_engine() and kwargs.get("dtype") in (None, source.dtype):
                return source  # the engine thinks that it is on "meta" and wants it where it already is
            return NotImplemented
        return on_host(recorder, source, kwargs.get("dtype"))
    with torch._C._DisableTorchDispatch():
        shape, stride, dtype = tuple(source.shape), source.stride(), source.dtype
        value = uniform(source)
        # Of what is put there before the training: masks of later batches are others.
        counts = value is None and source.dtype == torch.bool and recorder.work.phase == ff.SETUP
        holds = int(source.sum()) if counts and source.numel() <= UNIFORM_LIMIT else None
    with recorder.fake:
        stand_in = torch.empty_strided(shape, stride, dtype=dtype)
    if recorder.host.knows(source):
        if recorder.host.hangs(source):
            decided(recorder, "a shape that depends on values of the GPU")
        return recorder.plain(func, (stand_in,) + tuple(args[1:]), kwargs)
    remember(stand_in, value, True)
    result = recorder.plain(func, (stand_in,) + tuple(args[1:]), kwargs)
    if holds is not None and result.dtype == torch.bool:
        result.radrm_holds = holds, version_of(result)
    given.came(result, source)
    return result


def from_nowhere(recorder, func, args, kwargs):
    """The engine makes zeros where it takes a result of torch.func to be, which is "meta", and moves them."""
    return recorder.empty(tuple(args[0].shape), args[0].dtype) if type(args[0]) is torch.Tensor and args[0].is_meta else NotImplemented


def sys_engine():
    """Whether the autograd engine itself, not a script's hook, called the operator."""
    from .recorder import ENGINE_CODE
    return sys._getframe(4).f_code is ENGINE_CODE


def copy_into(recorder, func, args, kwargs):
    """copy_(): nothing moves; what is on the CPU has the same then as with .cpu()."""
    if is_gpu(args[0]) and is_gpu(args[1]):
        return NotImplemented
    if not is_gpu(args[0]):
        recorder.value_read()
        recorder.masked.asks(args[1])
        found = (given.of(args[1]) or [None])[0]
        with torch._C._DisableTorchDispatch():
            args[0].fill_(1) if found is None else args[0].copy_(found)
            if not is_certain(args[1]):
                recorder.host.mark(args[0])
    return args[0]


def scalar(recorder, func, args, kwargs):
    """C++ asks: of a size, of an index, of a factor."""
    recorder.value_read()
    tensor = args[0]
    certain = func is None or is_sure(tensor) or given.numbers(tensor) is not None
    if not certain and is_sizing() and given.agreed(recorder, tensor) is None:
        branched(recorder, SIZE, True)
    if (found := given.of(tensor)) is not None:
        with torch._C._DisableTorchDispatch():
            return found[0].item()
    return bool(known(tensor)) if tensor.dtype == torch.bool else 1.0 if tensor.dtype.is_floating_point else 1


def compare(recorder, func, args, kwargs):
    if (answer := insists()) is not None:
        return answer
    branched(recorder, "torch.equal() or allclose() of tensors on the GPU")
    return True


def equal(recorder, func, args, kwargs):
    """A parameter is itself, and no other: so it is looked for among those of an optimizer. C++ asks so whether a test holds, too."""
    first, second = args
    if first.shape != second.shape:
        return False
    if first.dtype == second.dtype == torch.bool and not first.dim() and known(second) is not None:
        return bool(known(first)) == known(second)
    if all(isinstance(t, torch.nn.Parameter) for t in args):
        return first is second or compare(recorder, func, args,
                                          kwargs) and first.untyped_storage()._cdata == second.untyped_storage()._cdata
    return compare(recorder, func, args, kwargs)


def nonzero(recorder, func, args, kwargs):
    tensor = args[0]
    number, certain = hits(recorder, tensor)
    result = recorder.empty((number, tensor.dim()), torch.int64, (1, max(number, 1)))
    if not certain:
        at_most(recorder, "a shape that depends on values (nonzero, a mask as an index)", result, number, tensor)
    return result


def at_most(recorder, what, result, number, mask):
    """The size of a result hangs on how many elements of a mask hold; so many were taken."""
    recorder.masked.begin(recorder, what, result, number, mask.numel())


def masked_select(recorder, func, args, kwargs):
    number, certain = hits(recorder, args[1])
    size = torch.broadcast_shapes(args[0].shape, args[1].shape)
    result = recorder.empty((int(torch.Size(size).numel()) * number // max(args[1].numel(), 1),), args[0].dtype)
    if not certain:
        at_most(recorder, "a shape that depends on values (masked_select)", result, number, args[1])
    return result


def unique(recorder, func, args, kwargs):
    """As many as there are elements, at most. Where it is known how many there are of each, the rest are none."""
    tensor, n = args[0], args[0].numel()
    found, parts, number, certain = given.of(tensor) if n <= given.BATCH else None, (), n, False
    if found is not None:
        with torch._C._DisableTorchDispatch():
            parts = func(found[0], *args[1:], **kwargs)
        certain = given.agreed(recorder, tensor) is not None
        number = parts[0].numel() if certain else n
    result = (recorder.empty((number,), tensor.dtype), recorder.empty(tuple(tensor.shape), torch.int64),
              recorder.empty((number,), torch.int64))
    for part, values, fill in zip(result, parts, (parts[0][-1:] if n else 0, 0, 0) if parts else ()):
        if values.numel():
            with torch._C._DisableTorchDispatch():
                whole = values if values.shape == part.shape else torch.cat(
                    [values, torch.as_tensor(fill, dtype=values.dtype).expand(number - values.numel())])
            given.put(part, whole, found[1], False)
    if not certain:
        for part in (result[0], result[2]):
            recorder.masked.begin(recorder, "a shape that depends on values (unique)", part, n, n)
    return result


def expand(recorder, func, args, kwargs):
    """What is taken as large as it can be is put into a place of so many: it is as many."""
    tensor, size = args[0], args[1]
    if recorder.masked.number(tensor) is None:
        return NotImplemented
    for dim, (mine, asked) in enumerate(zip(tensor.shape, size[len(size) - tensor.dim():])):
        if mine != 1 and 0 <= asked < mine:
            tensor = recorder.evaluate(aten.slice.Tensor, (tensor, dim, 0, asked), {})
    return NotImplemented if tensor is args[0] else recorder.evaluate(func, (tensor, size, *args[2:]), kwargs)


def index(recorder, func, args, kwargs):
    """x[mask]: a mask becomes the indices of its elements, all of them."""
    indices = list(args[1])
    if not any(is_mask(i) for i in indices):
        return NotImplemented
    frame, found = asking(), [hits(recorder, i) if is_mask(i) else None for i in indices]
    out, temporary = [], []
    for i, one in zip(indices, found):
        if not one:
            out.append(i)
            continue
        columns = recorder.empty((one[0], i.dim()), torch.int64, (1, max(one[0], 1)))
        temporary.append(columns)
        out += recorder.evaluate(aten.unbind.int, (columns, 1), {})
    result = recorder.plain(func, (args[0], out) + tuple(args[2:]), kwargs)
    for i, one in zip(indices, found):
        if one and not one[1] and not (frame is not None and frame.f_code.co_filename.endswith(WHOLE)):
            at_most(recorder, "a mask as an index", result, one[0], i)
    given.told(recorder, func, args, kwargs, result)
    return result


def is_mask(tensor):
    return isinstance(tensor, torch.Tensor) and tensor.dtype in (torch.bool, torch.uint8)


def bincount(recorder, func, args, kwargs):
    """As many results as the script asks for at least; more where a value is larger."""
    least = args[2] if len(args) > 2 else kwargs.get("minlength", 0)
    weights = args[1] if len(args) > 1 else kwargs.get("weights")
    recorder.value_read()
    if not least:
        decided(recorder, "a shape that depends on values (bincount without minlength): one result was taken")
    kind = torch.int64 if weights is None else torch.float32 if weights.dtype == torch.float32 else torch.float64
    return recorder.empty((least or 1,), kind)


def repeat_interleave(recorder, func, args, kwargs):
    size, found = kwargs.get("output_size"), given.numbers(args[0])
    if size is None and found is not None:
        with torch._C._DisableTorchDispatch():
            size = int(found.sum())
    if size is None:
        decided(recorder, "repeat_interleave() with repeats on the GPU: each once was taken")
        size = args[0].numel()
    return recorder.empty((size,), torch.int64)


def packed(recorder, func, args, kwargs):
    """pack_padded_sequence(): the steps of each time are gathered, then joined. Lengths are on the CPU."""
    data, lengths, first = args
    if first:
        data = recorder.evaluate(aten.transpose.int, (data, 0, 1), {})
    counts = [int((lengths > at).sum()) for at in range(int(lengths[0]))]
    if recorder.packed.setdefault(script_line(), counts) != counts:
        recorder.flags |= ff.VARIABLE_SHAPES
    width = tuple(data.shape[2:])
    stretches = [n * counts.count(n) for n in sorted(set(counts), reverse=True)]
    parts = [recorder.empty((n, *width), data.dtype) for n in stretches] if len(stretches) > 1 else []
    out = recorder.empty((sum(counts), *width), data.dtype)
    del parts
    with torch._C._DisableTorchDispatch():
        return out, torch.tensor(counts)


RULES = {
    aten._pack_padded_sequence.default: packed,
    aten._to_copy.default: copy_to,
    aten.copy_.default: copy_into,
    **{getattr(aten.to, name): from_nowhere for name in ("dtype_layout", "device", "other")},
    aten._local_scalar_dense.default: scalar,
    aten.equal.default: equal,
    aten.allclose.default: compare,
    aten.nonzero.default: nonzero,
    aten.masked_select.default: masked_select,
    aten._unique2.default: unique,
    aten.expand.default: expand,
    aten.index.Tensor: index,
    aten.repeat_interleave.Tensor: repeat_interleave,
    aten.bincount.default: bincount,
}
