# SPDX-License-Identifier: MIT
"""Records what the caching allocator would be asked for.

A dispatch mode sees every operator below autograd and autocast. Operators that touch the GPU run on fake tensors, which have
shapes, strides and storages but no memory; all others run as they are, so that data loaders, tokenizers and metrics work.
Every new storage on the GPU becomes an ALLOC. A weak reference tells when it dies, which with reference counting is the moment
at which PyTorch would give the block back: that becomes a FREE.
"""
import bisect
import functools
import math
import sys
import threading
import weakref

import torch
from torch._subclasses.fake_tensor import (DataDependentOutputException, DynamicOutputShapeException, FakeTensor,
                                           FakeTensorMode, UnsupportedOperatorException)
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map_only

from . import fileformat as ff
from . import writes
from .remembered import Remembered
from .sandbox import CaptureError
from .work import Work

DEVICE = torch.device  # a capture has another one there, which takes longer to ask
GPU = torch.device("cuda:0")
META = torch.device("meta")
SPARE = "radrm"  # what the device type PrivateUse1 is called: the one that C++ takes for the machine's accelerator
aten = torch.ops.aten
ENGINE_CODE = torch.autograd.graph._engine_run_backward.__code__
FILL_LIMIT = 4096  # elements; larger random fills of weights on the CPU are skipped: their values cannot matter
DRAWN_LIMIT = 1 << 20  # likewise, of other tensors, on which a branch may hang: larger ones take long

SWITCHES = 10000  # of streams that are remembered
LEAF = 1 << 62  # numbers of nodes are below it, but those of gradients that are added up
BLOCK = 512  # bytes
GENERATOR_BYTES = 6488064  # on an H200
ZEROS_LIMIT = 1 << 30  # bytes of arguments with which an operator without a fake implementation is run
# Of deepcopy(): the cache of fake tensors would keep the storage for ever.
HOLDS = {aten.set_.source_Storage, aten.set_.source_Storage_storage_offset}
SHAPELESS = (UnsupportedOperatorException, DynamicOutputShapeException, DataDependentOutputException, NotImplementedError)

RANDOM_FILLS = {aten.normal_.default, aten.uniform_.default, aten.bernoulli_.float, aten.exponential_.default,
                aten.log_normal_.default, aten.cauchy_.default}


def is_gpu(tensor):
    return isinstance(tensor, FakeTensor) and tensor.fake_device.type == "cuda"


class Form:
    """A tensor on the GPU, without it."""

    def __init__(self, tensor):
        self.shape, self.dtype = tuple(tensor.shape), tensor.dtype
        self.stride = tensor.stride() if tensor.layout is torch.strided else None
        self.learns = tensor.requires_grad

    @classmethod
    def of(cls, leaf):
        return cls(leaf) if is_gpu(leaf) else leaf


@functools.lru_cache(None)
def composed(func):
    """Whether an operator is made of others, for every device. In inference mode it comes whole: what would take it apart belongs
    to autograd."""
    return func._can_decompose() and torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), "CompositeImplicitAutograd")


@functools.lru_cache(None)
def wraps(kind):
    """Whether tensors of that class are others', whose operators it calls."""
    return not issubclass(kind, FakeTensor) and kind.__torch_dispatch__ is not torch._C._disabled_torch_dispatch_impl


def imagined():
    """Whether something asks for shapes alone, of fake tensors of its own: those of a sharded tensor, before its first operator."""
    return torch._C._get_dispatch_mode(torch._C._TorchDispatchModeKey.FAKE) is not None


# Of values.py and given.py: what is known of a tensor until something is written into it.
KNOWN = ("radrm_value", "radrm_given", "radrm_holds")


@functools.lru_cache(None)
def places_of_writes(func):
    """(place, name) of each argument that an operator writes into."""
    return [(n, argument.name) for n, argument in enumerate(func._schema.arguments) if argument.alias_info is not None
            and argument.alias_info.is_write]


def written(func, args, kwargs):
    """The tensors that it writes into."""
    found = (args[n] if n < len(args) else kwargs.get(name) for n, name in places_of_writes(func))
    return [part for arg in found for part in (arg if isinstance(arg, (list, tuple)) else [arg]) if isinstance(part, FakeTensor)]


class Recorder(TorchDispatchMode):
    """One recording. `records` grows as operators run; `live` maps a storage's address to its number and size."""

    def __init__(self):
        super().__init__()
        self.records = ff.Records()
        self.live = {}
        self.given = {}  # (line, instruction) -> [what values that hang on it were told by, of given.py; how often it asked]
        self.overwritten = None  # what was known of what is written into now, likewise
        self.numbers = {}  # (storage, its version, line) -> what it was compared with, of values.py
        self.rows = {}  # (line, shape of a mask) -> how many held, where as many did in each row; (place, "chance") -> it; of drawn.py
        self.packed = {}  # line -> how many sequences each step has that it packs
        self.masked = None  # what is as large as a mask holds, of masked.py
        self.host = None  # what is on the CPU and came from the GPU, of onhost.py
        self.emptied = {}  # storage's address -> weak reference to it: was live, and was resized to nothing
        self.live_bytes = 0
        self.capacity = math.inf  # bytes, where a script asks what fits
        self.peak_bytes = 0
        self.flags = 0
        self.notes = []
        self.in_backward = 0
        self.lifted = 0  # within transforms of functions (torch.func), so many
        self.passing = None  # within an outermost forward pass: whether it learns
        self.stream = 0
        self.switched = []  # (number of the next node of autograd, stream of those from it on)
        self.fake = FakeTensorMode(allow_non_fake_inputs=True, allow_fallback_kernels=False)
        self.remembered = Remembered(self.fake)
        self.rules = {}  # operator -> function(recorder, func, args, kwargs) that runs it the way CUDA would
        self.around = {}  # operator -> list of function(recorder, func, args, kwargs, result), called when results are recorded
        self.recording = True
        self.operators = 0  # that ran: how long a capture took, on whatever machine
        self.undrawn = 0  # numbers on the CPU that were to be drawn and were not
        self.work = Work(self)
        self.counts = (0, 0)
        self.values_read = False  # the script was given one from the GPU
        self.casts = None  # of repeated.py: weights that autocast keeps, by their storages' keys
        self.generators = None
        self.adds_bias = False  # a linear layer is running
        self.turn = threading.RLock()  # a dispatch mode is a thread's own: see threads(); one at a time is recorded
        self.adds_mask = False  # attention of plain operators is running, with a mask

    def threads(self, patch):
        """Records what threads do that begin from now on: libraries load weights in some."""
        real, real_resize = threading.Thread._bootstrap_inner, torch.UntypedStorage.resize_

        def begin(thread):
            with self, torch.autograd.set_multithreading_enabled(False):
                real(thread)

        def resize(storage, size):
            result = real_resize(storage, size)
            self.resized(storage)
            return result

        def writing(real):
            def write(storage, *args, **kwargs):
                writes.wrote_into(storage)
                return real(storage, *args, **kwargs)
            return write
        patch(threading.Thread, "_bootstrap_inner", begin)
        patch(torch.UntypedStorage, "resize_", resize)
        for name in ("copy_", "fill_", "__setitem__"):
            patch(torch.UntypedStorage, name, writing(getattr(torch.UntypedStorage, name)))

    # --- storages ---

    def storage(self, tensor):
        """Records the storage of a fake GPU tensor unless it is known."""
        if tensor.layout is not torch.strided:
            self.sparse(tensor)
            return
        storage = tensor.untyped_storage()
        key = storage._cdata
        known = self.live.get(key)
        nbytes = storage.nbytes()
        if known is not None:
            if known[1] != nbytes:
                self._resized(key, known, nbytes, storage)
            return
        if nbytes == 0 or not self.recording:
            return
        self._born(key, nbytes, storage)

    def sparse(self, tensor):
        """A sparse tensor is its indices and its values."""
        from .sparse import parts
        for part in parts(self, tensor):
            self.storage(part)

    def values_of(self, args):
        """Arguments, with its values in place of a sparse tensor on the GPU."""
        from .sparse import parts
        return [parts(self, arg)[-1] if is_gpu(arg) and arg.layout is not torch.strided else arg for arg in args]

    def _born(self, key, nbytes, storage):
        if self.live_bytes + nbytes > self.capacity:
            raise torch.cuda.OutOfMemoryError(f"CUDA out of memory. Tried to allocate {nbytes / (1 << 20):.2f} MiB. GPU 0 has a total "
                                         f"capacity of {self.capacity / (1 << 30):.2f} GiB (a capture)")
        self._lives(key, nbytes, storage)
        self._count(nbytes)

    def _lives(self, key, nbytes, storage):
        number = self.records.alloc(nbytes, self.stream)
        self.live[key] = (number, nbytes, weakref.ref(storage, lambda _, key=key, number=number: self._died(key, number)))

    def _died(self, key, number):
        known = self.live.get(key)
        if known is None or known[0] != number:
            return
        del self.live[key]
        self.live_bytes -= known[1]
        self.masked.gone(key, known[1])
        writes.gone(key)
        self.records.free(number)

    def _resized(self, key, known, nbytes, storage):
        """resize_() takes the new block before it gives the old one back."""
        del self.live[key]
        self.masked.gone(key, known[1])
        if nbytes:
            self._born(key, nbytes, storage)
        self.live_bytes -= known[1]
        self.records.free(known[0])

    def resized(self, storage):
        """A script resized a storage itself: sharded training gives parameters back so, and takes them again."""
        key, nbytes = storage._cdata, storage.nbytes()
        known = self.live.get(key)
        if known is not None and known[1] != nbytes:
            self._resized(key, known, nbytes, storage)
            if not nbytes:
                self.emptied[key] = weakref.ref(storage, lambda _: self.emptied.pop(key, None))
        elif known is None and nbytes and self.emptied.pop(key, None):
            self._born(key, nbytes, storage)

    def held(self):
        """Bytes that are alive, in the blocks that the allocator gives for them at least."""
        return sum(-(-nbytes // BLOCK) * BLOCK for _, nbytes, _ in self.live.values())

    def _count(self, nbytes):
        self.live_bytes += nbytes
        if self.live_bytes > self.peak_bytes:
            self.peak_bytes = self.live_bytes

    def scratch(self, *sizes):
        """Blocks that an operator takes and gives back, last one first, before it returns."""
        for number in reversed([self.records.alloc(n, self.stream) for n in sizes if n > 0]):
            self.records.free(number)
        self.peak_bytes = max(self.peak_bytes, self.live_bytes + sum(sizes))

    def place(self):
        """Where it is, for back_to()."""
        return self.records.place(), self.peak_bytes, {number for number, *_ in self.live.values()}

    def back_to(self, place):
        """What was recorded since was not: but for what came of it, that some are alive and others are not."""
        records, self.peak_bytes, before = place
        self.records.back_to(records)
        now = {number for number, *_ in self.live.values()}
        for number in sorted(before - now):
            self.records.free(number)
        for key, (number, nbytes, storage) in list(self.live.items()):
            if number not in before and storage() is not None:
                self._lives(key, nbytes, storage())
        self.peak_bytes = max(self.peak_bytes, self.live_bytes)

    def take(self, nbytes):
        """A block without a tensor. Returns what give_back() wants."""
        self._count(nbytes)
        return self.records.alloc(nbytes, self.stream), nbytes

    def give_back(self, block):
        self.live_bytes -= block[1]
        self.records.free(block[0])

    def switch(self, stream):
        """What follows runs on another stream."""
        self.stream = stream
        self.switched.append((torch._C._autograd._get_sequence_nr(), stream))
        del self.switched[:-SWITCHES]

    def stream_of(self, node):
        """That of the forward pass: the engine takes it again."""
        number = node._sequence_nr() if node is not None else LEAF
        at = bisect.bisect(self.switched, (number, math.inf))
        return self.switched[at - 1][1] if at and number < LEAF else 0

    def brought(self, nbytes):
        """So many bytes go to the CPU."""

    # --- notes ---

    def value_read(self):
        """The script was given a value: it waited for the GPU."""
        self.values_read = True
        self.work.host["waits"] += 1

    def learns(self, between):
        """Whether what runs is for gradients: outside of passes it may be, unless it is between two steps."""
        outside = torch.is_grad_enabled() and not between
        return bool(self.in_backward) or (outside if self.passing is None else self.passing)

    def note(self, flag, what, where=None):
        """Remembers, once, something a person should know; `flag` goes into the file."""
        self.flags |= flag
        line = f"{where}: {what}" if where else what
        if line not in self.notes and len(self.notes) < 100:
            self.notes.append(line)

    # --- dispatch ---

    def dispatch(self, func, types, args=(), kwargs=None):
        if func is torch.ops.prim.device.default:
            return self._device(args[0])
        if imagined():
            return func(*args, **(kwargs or {}))
        if any(map(wraps, types)):
            return NotImplemented  # a sharded tensor, say: comes back with the part that it has
        kwargs = kwargs or {}
        device = kwargs.get("device")
        if device is not None and device.type == SPARE:
            device = GPU  # a number was given for it
            kwargs = dict(kwargs, device=device)
        if device is not None and device.type == "meta" and (self.lifted or sys._getframe(1).f_code is ENGINE_CODE):
            device = GPU  # the engine makes a tensor like one whose device it asked for: see _device
            kwargs = dict(kwargs, device=device)
        if not self._on_gpu(func, args, kwargs, device):
            return self._on_cpu(func, args, kwargs)
        with self.turn:
            return self.run(func, args, kwargs)

    def _device(self, tensor):
        """C++ asks a fake tensor where it is. The autograd engine would look for CUDA streams: to it, and only to it, the
        tensor is on "meta", which has none; and to what torch.func wraps tensors in, of which the engine asks nothing else."""
        if self.lifted or sys._getframe(2).f_code is ENGINE_CODE:
            return META
        return tensor.fake_device

    def _on_gpu(self, func, args, kwargs, device):
        if device is not None and device.type == "cuda":
            return True
        for arg in args:
            if isinstance(arg, FakeTensor) or isinstance(arg, DEVICE) and arg.type == "cuda":
                return True
            if isinstance(arg, (list, tuple)) and any(isinstance(a, FakeTensor) for a in arg):
                return True
        return any(isinstance(a, FakeTensor) for a in tree_leaves(kwargs)) if kwargs else False

    def _on_cpu(self, func, args, kwargs):
        drawn = func in RANDOM_FILLS and args[0].is_floating_point()
        if drawn and args[0].numel() > (FILL_LIMIT if args[0].requires_grad else DRAWN_LIMIT):
            self.undrawn += 1
            return args[0]
        result = func(*args, **kwargs)
        if self.host.of:
            self.host.follow(func, args, kwargs, result)
        return result

    def run(self, func, args, kwargs):
        """Runs an operator with a tensor on the GPU among its arguments or results, and records the latter."""
        self.operators += 1
        if self.in_backward and self.switched:
            self.stream = self.stream_of(torch._C._current_autograd_node())
        rule = self.rules.get(func)
        result = rule(self, func, args, kwargs) if rule is not None else NotImplemented
        if result is NotImplemented and torch.is_inference_mode_enabled() and composed(func):
            with self:
                return func.decompose(*args, **kwargs)
        if result is NotImplemented:
            result = self.plain(func, args, kwargs)
        if self.masked.of:
            self.masked.follow(self, func, args, kwargs, result)
        if func._schema.is_mutable and func is not aten.detach_.default:
            for part in written(func, args, kwargs):
                writes.wrote(part)
        if self.recording:
            self.work.note(self, func, args, kwargs, result)
        return result

    def plain(self, func, args, kwargs):
        result = self.evaluate(func, args, kwargs)
        if func._schema.is_mutable and func is not aten.detach_.default:
            # Of a list of them autograd counts no writes; kept is what was known of the first.
            for part in reversed(written(func, args, kwargs)):
                self.overwritten = {name: vars(part).pop(name, None) for name in KNOWN}
        if isinstance(result, FakeTensor) and result.fake_device.type == "cpu":
            return self.on_cpu_made(result)
        self.record(result)
        for after in self.around.get(func, ()):
            after(self, func, args, kwargs, result)
        return result

    def on_cpu_made(self, result):
        """An operator takes something from the GPU and makes something on the CPU: an ordinary tensor, of ones."""
        self.value_read()
        with torch._C._DisableTorchDispatch():
            result = torch.ones(tuple(result.shape), dtype=result.dtype)
            self.host.mark(result)
        return result

    def evaluate(self, func, args, kwargs):
        """The operator on fake tensors; nothing is recorded."""
        return self.remembered.run(func, args, kwargs, lambda: self.asked(func, args, kwargs))

    def asked(self, func, args, kwargs):
        """As evaluate(), of those that are not remembered."""
        cached = self.fake.cache_enabled
        try:
            self.fake.cache_enabled = cached and func not in HOLDS
            with self.fake:
                return func(*args, **kwargs)
        except SHAPELESS:
            return self.on_zeros(func, args, kwargs)
        finally:
            self.fake.cache_enabled = cached

    def on_zeros(self, func, args, kwargs):
        """An operator of whose results fake tensors know nothing: run on the CPU, on zeros, for the shapes of its results."""
        from .asked import script_line
        name, where = str(func).removeprefix("aten."), script_line()
        if func not in self.around:
            self.note(ff.UNKNOWN_OP, f"{name}: no rule of its memory is known: its results are counted, its scratch memory is not",
                      where)
        given, bytes_left = {}, ZEROS_LIMIT

        def real(tensor):
            nonlocal bytes_left
            bytes_left -= tensor.numel() * tensor.element_size()
            if bytes_left < 0:
                raise CaptureError(f"{name} (at {where}): fake tensors do not know it, and its arguments are too large to run")
            with self.fake:
                shape, stride, dtype = tuple(tensor.shape), tensor.stride(), tensor.dtype
            with torch._C._DisableTorchDispatch():
                zeros = torch.empty_strided(shape, stride, dtype=dtype).zero_()
            given[id(zeros)] = (zeros, tensor)
            return zeros

        def fake(tensor):
            if id(tensor) in given:
                return given[id(tensor)][1]
            with self.fake:
                return torch.empty_strided(tuple(tensor.shape), tensor.stride(), dtype=tensor.dtype, device=GPU)
        args, kwargs = tree_map_only(FakeTensor, real, (args, kwargs))
        try:
            with torch._C._DisableTorchDispatch():
                result = func(*args, **{k: torch.device("cpu") if k == "device" else v for k, v in kwargs.items()})
        except Exception as e:
            raise CaptureError(f"{name} (at {where}): fake tensors do not know it, and it does not run on the CPU: "
                               f"{str(e).splitlines()[0][:200]}") from None
        return tree_map_only(torch.Tensor, fake, result)

    def record(self, result):
        if isinstance(result, FakeTensor):
            if result.fake_device.type == "cuda":
                self.storage(result)
        elif isinstance(result, (tuple, list)):
            for item in result:
                self.record(item)

    def sole(self, tensor):
        """Whether nobody but the engine holds the tensor and its storage. Called by the rule of an operator that the engine
        itself called."""
        counts = tensor._use_count(), torch._C._storage_Use_Count(tensor.untyped_storage()._cdata)
        if self.counts is None:
            self.counts = counts
        return counts <= self.counts

    def calibrate(self):
        """Finds out how often a gradient is held that only the engine holds, in this version of PyTorch: that of a tensor which
        is used twice is the sum of two."""
        self.recording, self.counts = False, None
        with torch.enable_grad():
            leaf = torch.ones(1, device=GPU).requires_grad_()
            torch.autograd.backward([(leaf * 2 + leaf * 3).sum()])
        self.recording = True

    def dropout_state(self):
        """cuDNN's random generators for dropout between layers of recurrent networks: made once, kept."""
        if self.generators is None:
            self.generators = self.empty((GENERATOR_BYTES,), torch.uint8)
        return self.generators

    def empty(self, size, dtype, stride=None):
        """A recorded tensor on the GPU."""
        with self.fake:
            tensor = (torch.empty(size, dtype=dtype, device=GPU) if stride is None
                      else torch.empty_strided(size, stride, dtype=dtype, device=GPU))
        self.record(tensor)
        return tensor


# Set here and not in the class: a base class wraps what it finds there, and the engine's frame is told by its place.
Recorder.__torch_dispatch__ = Recorder.dispatch
