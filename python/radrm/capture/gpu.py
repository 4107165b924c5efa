# SPDX-License-Identifier: MIT
"""Makes PyTorch and a script believe in one GPU that is not there.

Two things stand in the way on a machine or in a process without one. C++ looks up a device guard for CUDA: the one that does
nothing is put in its place. And torch.cuda asks the driver: its functions get answers here. Everything is undone by undo(), but
captures run in a process of their own, so nothing depends on it.
"""
import contextlib
import ctypes
import operator
import os
import types

import torch
import torch.utils._device
from torch._subclasses import fake_tensor

from . import tensortypes
from .nvidia import H200
from .readnumbers import counted, plain
from .recorder import GPU, SPARE, is_gpu
from .sandbox import CaptureError

CUDA_INDEX, META_INDEX, OTHER_INDEX = 1, 14, 20  # c10::DeviceType, unchanged from 2.0 to 2.13; OTHER is PrivateUse1
NO_NUMPY = "can't convert cuda:0 device type tensor to numpy. Use Tensor.cpu() to copy the tensor to host memory first."
GUARDS = "_ZN3c104impl26device_guard_impl_registryE"


def install_guard():
    """Gives CUDA a device guard that does nothing, as "meta" has one.

    The autograd engine also asks which accelerator the process has, to stash its streams. A build with CUDA says CUDA, even
    with no device, and then fails; with a name registered for the spare device type it says that one, which has no tensors."""
    library = ctypes.CDLL(os.path.join(os.path.dirname(torch.__file__), "lib", "libc10.so"))
    table = (ctypes.c_void_p * (OTHER_INDEX + 1)).in_dll(library, GUARDS)
    table[CUDA_INDEX] = table[OTHER_INDEX] = table[META_INDEX]
    if torch._C._get_privateuse1_backend_name() == "privateuseone":
        torch.utils.rename_privateuse1_backend(SPARE)
        torch._register_device_module(SPARE, types.SimpleNamespace(_lazy_init=lambda: None, is_initialized=lambda: True,
                                                                   is_available=lambda: False, current_device=lambda: 0))


def install_kernels():
    """Registers CUDA kernels for operators that builds without CUDA compose of others, above where a capture looks. They never
    run. Returns what keeps them registered."""
    library = torch.library.Library("aten", "IMPL")
    for name in ("silu_backward", "mish_backward", "_fused_rms_norm"):
        if hasattr(torch.ops.aten, name) and not torch._C._dispatch_has_kernel_for_dispatch_key(f"aten::{name}", "CUDA"):
            library.impl(name, lambda *_, **__: None, "CUDA")
    return library


def indexed(device):
    """"cuda" and numbers as "cuda:0"; C++ would ask the guard for the index, and the one for "meta" knows none. Anything else
    unchanged."""
    if isinstance(device, bool):
        return device
    if isinstance(device, int):
        return GPU
    if isinstance(device, str) and device.startswith("cuda"):
        return GPU
    if isinstance(device, torch.device) and device.type == "cuda":
        return GPU
    return device


def standing(real, make):
    """A class that stands for one of C++: what is made of it make() makes."""
    class Kind(type):
        def __instancecheck__(cls, value):
            return isinstance(value, real)

        def __call__(cls, *args, **kwargs):
            return make(*args, **kwargs)

        def __eq__(cls, other):
            return other is cls or other is real

        def __hash__(cls):
            return hash(real)
    return Kind(real.__name__, (), {"__module__": "torch"})


def generators(real):
    """The class of random generators. One for the GPU is one of the CPU: nobody asks it for numbers. A seed may come from the GPU."""
    class Generator(real):
        def manual_seed(self, seed):
            return super().manual_seed(int(seed))
    return standing(real, lambda device="cpu": Generator("cpu" if indexed(device) == GPU else device))


def devices(real):
    """The class of devices. A number alone is one of the machine's accelerator: to C++ that is another one (install_guard)."""
    def make(*args, **kwargs):
        found = real(*args, **kwargs)
        return real("cuda", found.index) if found.type == SPARE else found
    return standing(real, make)


class Stream:
    """A CUDA stream: a number. Kernels do not run, so there is nothing to wait for. PyTorch has POOL of each priority, and
    gives one after the other."""

    POOL = 32
    made = [0, 0]

    def __init__(self, device=None, priority=0, number=None, **_):
        if number is None:
            number = self.numbered(Stream.made, priority < 0)
        self.device, self.number = GPU, number
        self.cuda_stream = self.stream_id = number
        self.device_index = 0

    @classmethod
    def numbered(cls, made, high):
        """The number of the next one, after so many of each priority."""
        made[high] += 1
        return (made[high] - 1) % cls.POOL + 1 + high * cls.POOL

    def wait_stream(self, *_, **__):
        pass

    wait_event = synchronize = wait_stream

    def query(self):
        return True

    def is_capturing(self):
        return False

    def record_event(self, event=None):
        return event or Event()

    def __eq__(self, other):
        return isinstance(other, Stream) and other.number == self.number

    def __hash__(self):
        return hash(self.number)

    def __enter__(self):
        self._context = torch.cuda.stream(self)
        self._context.__enter__()
        return self

    def __exit__(self, *exception):
        self._context.__exit__(*exception)


class Event:
    """A CUDA event: always there already; 1 ms between any two."""

    def __init__(self, *_, **__):
        pass

    def record(self, *_, **__):
        pass

    wait = synchronize = record

    def query(self):
        return True

    def elapsed_time(self, end_event):
        return 1.0


class Gpu:
    """The GPU that the script sees, and the patches that show it."""

    def __init__(self, recorder, **asked):
        """`asked`: what differs from an H200, as nvidia.H200 names it."""
        asked = {**H200, **asked}
        self.recorder = recorder
        self.name, self.total_bytes, self.capability = asked["name"], asked["total_bytes"], asked["capability"]
        self.processors = recorder.processors = asked["processors"]
        self.count = asked["count"]
        self._undo = []

    def patch(self, owner, name, value):
        had = name in vars(owner)
        before = vars(owner).get(name)
        self._undo.append((owner, name, had, before))
        setattr(owner, name, value)

    def undo(self):
        self._library._destroy()
        while self._undo:
            owner, name, had, before = self._undo.pop()
            if had:
                setattr(owner, name, before)
            else:
                delattr(owner, name)

    def properties(self):
        major, minor = self.capability
        return types.SimpleNamespace(name=self.name, major=major, minor=minor, total_memory=self.total_bytes,
                                     multi_processor_count=self.processors, is_integrated=0, is_multi_gpu_board=0,
                                     warp_size=32, L2_cache_size=50 << 20, max_threads_per_multi_processor=2048,
                                     regs_per_multiprocessor=65536, shared_memory_per_block_optin=232448,
                                     gcnArchName=self.name, uuid="GPU-00000000-0000-0000-0000-000000000000")

    def install(self):
        install_guard()
        self._library = install_kernels()
        torch._C._set_only_lift_cpu_tensors(True)  # torch.tensor(..., device="cuda") is made on the CPU and then moved
        self._presence()
        self._memory()
        self._streams()
        self._settings()
        self._devices()
        self._addresses()
        self._functions()
        for name in ("init_gpu_context", "init_cuda_context"):  # each fake tensor would touch the GPU that is not there
            if hasattr(fake_tensor, name):
                self.patch(fake_tensor, name, lambda *_: None)

    def _devices(self):
        """Where a script names a device: the index is put in."""
        real_to, lazy = torch.Tensor.to, torch.nn.parameter.UninitializedTensorMixin
        real_infer = torch.nn.modules.lazy.LazyModuleMixin._infer_parameters

        def from_parts(real):
            """Made where the parts are, then moved."""
            def make(*args, device=None, requires_grad=False, **kwargs):
                result = real(*args, **kwargs)
                return (result if device is None else to(result, device)).requires_grad_(requires_grad or result.requires_grad)
            return make

        def with_index(real):
            def make(*args, device=None, **kwargs):
                found, device = [plain(arg) for arg in args], indexed(device)
                kwargs = {name: plain(value) for name, value in kwargs.items()}
                if all(map(operator.is_, found, args)) or not counted(args):
                    return real(*found, device=device, **kwargs)
                learns = kwargs.pop("requires_grad", False)  # what is moved is no leaf
                result = real(*found, **kwargs)
                self.recorder.host.mark(result)
                return (result if device is None else to(result, device)).requires_grad_(learns)
            return make

        def jagged(*_, **__):
            raise CaptureError("nested tensors of layout jagged cannot be captured: capture the run with padded batches of its "
                               "greatest length, or say what the task "
                               "needs (rad submit --gpu-mem)")

        def to(tensor, *args, **kwargs):
            if tensor.is_nested and tensor.layout is torch.jagged:
                jagged()
            if args and not isinstance(args[0], torch.Tensor):
                args = (indexed(args[0]), *args[1:])
            if "device" in kwargs:
                kwargs["device"] = indexed(kwargs["device"])
            if isinstance(tensor, lazy):
                tensor.radrm_moved = args, kwargs
                return tensor
            return real_to(tensor, *args, **kwargs)

        def infer(*args, **kwargs):
            """What lazy layers have is made on the CPU once its shape is known, then put where they were moved to meanwhile."""
            places = [own.radrm_moved for own in args[1].parameters(recurse=False) if hasattr(own, "radrm_moved")]
            result = real_infer(*args, **kwargs)
            for words, options in places[:1]:
                args[1].to(*words, **options)
            return result

        def cuda(tensor, device=None, non_blocking=False, memory_format=torch.preserve_format):
            return to(tensor, GPU, non_blocking=non_blocking, memory_format=memory_format)
        if hasattr(fake_tensor.FakeTensor, "get_nested_int"):
            self.patch(fake_tensor.FakeTensor, "get_nested_int", jagged)
        parse_to = torch._C._nn._parse_to

        def parse(*args, **kwargs):
            return parse_to(*map(indexed, args), **{k: indexed(v) for k, v in kwargs.items()})
        self.patch(torch._C._nn, "_parse_to", parse)
        real_new, real_tensor = torch.Tensor.new, torch.Tensor.new_tensor

        def new(tensor, *args, device=None, **kwargs):
            if is_gpu(tensor) and tensor.layout is torch.strided and indexed(device) in (None, GPU):
                return tensortypes.made(tensor.dtype, *args)
            return real_new(tensor, *args, device=device, **kwargs)

        def new_tensor(tensor, data, *, dtype=None, device=None, requires_grad=False, **_):
            """Where the tensor is: C++ takes the place of one on the GPU for "meta"."""
            device = tensor.device if device is None else indexed(device)
            if device != GPU:
                return real_tensor(tensor, plain(data), dtype=dtype, device=device, requires_grad=requires_grad)
            found = data.detach().clone() if isinstance(data, torch.Tensor) else torch.tensor(plain(data), dtype=dtype or tensor.dtype)
            return to(found, GPU, dtype or tensor.dtype).requires_grad_(requires_grad)
        real_numpy, real_array = torch.Tensor.numpy, torch.Tensor.__array__

        def numpy(tensor, *, force=False):
            if not is_gpu(tensor):
                return real_numpy(tensor, force=force)
            if force:
                return real_numpy(tensor.detach().cpu())
            raise TypeError(NO_NUMPY)

        def array(tensor, *args, **kwargs):
            if is_gpu(tensor):
                raise TypeError(NO_NUMPY)
            return real_array(tensor, *args, **kwargs)
        for name, value in (("to", to), ("cuda", cuda), ("new", new), ("new_tensor", new_tensor), ("numpy", numpy), ("__array__", array)):
            self.patch(torch.Tensor, name, value)
        self.patch(torch.nn.modules.lazy.LazyModuleMixin, "_infer_parameters", infer)
        self.patch(lazy, "_allowed_methods", [*lazy._allowed_methods, to, cuda])
        tensortypes.install(self.patch)
        self.patch(torch, "Generator", generators(torch.Generator))
        self.patch(torch, "device", devices(torch.device))
        torch.utils._device._device_constructors()  # remembers the real ones: what torch.set_default_device() is about
        for name in ("tensor", "as_tensor", "asarray"):
            self.patch(torch, name, with_index(getattr(torch, name)))
        for name in ("sparse_coo_tensor", "sparse_compressed_tensor", "sparse_csr_tensor", "sparse_csc_tensor"):
            self.patch(torch, name, from_parts(getattr(torch, name)))
        context = torch.utils._device.DeviceContext
        real_init = context.__init__
        self.patch(context, "__init__", lambda self, device: real_init(self, indexed(device)))

    def _addresses(self):
        """What shares memory is told by where it lies: in saving, in counting parameters."""
        real, real_storage = torch.Tensor.data_ptr, torch.UntypedStorage.data_ptr
        self.patch(torch.Tensor, "data_ptr", lambda tensor: tensor.untyped_storage()._cdata + tensor.storage_offset()
                   * tensor.element_size()
                   if is_gpu(tensor) else real(tensor))
        self.patch(torch.UntypedStorage, "data_ptr", lambda storage: storage._cdata if storage.device.type == "meta"
                   else real_storage(storage))

    def _functions(self):
        """What torch.func wraps tensors in says itself where they are."""
        recorder, inner = self.recorder, torch._C.TensorBase
        wrapped = torch._C._functorch.is_functorch_wrapped_tensor

        def device(tensor):
            found = inner.device.__get__(tensor)
            return GPU if found.type == "meta" and wrapped(tensor) else found
        where, on_gpu = property(device), property(lambda tensor: tensor.device == GPU)

        def enter():
            if not recorder.lifted:
                torch.Tensor.device, torch.Tensor.is_cuda = where, on_gpu
            recorder.lifted += 1

        def leave():
            recorder.lifted -= 1
            if not recorder.lifted:
                del torch.Tensor.device, torch.Tensor.is_cuda

        def nesting(real):
            @contextlib.contextmanager
            def nest(*args, **kwargs):
                enter()
                try:
                    with real(*args, **kwargs) as level:
                        yield level
                finally:
                    leave()
            return nest

        def after(real, then):
            return lambda: (then(), real())[1]
        for module, name in ((torch._functorch.eager_transforms, "grad_increment_nesting"),
                             (torch._functorch.vmap, "vmap_increment_nesting")):
            self.patch(module, name, nesting(getattr(module, name)))
        for name, then in (("_vmapmode_increment_nesting", enter), ("_vmapmode_decrement_nesting", leave)):
            self.patch(torch._C, name, after(getattr(torch._C, name), then))

    def _presence(self):
        cuda, answer = torch.cuda, lambda value: lambda *_, **__: value
        for name, value in (("is_available", True), ("device_count", self.count), ("current_device", 0),
                            ("is_initialized", True), ("_is_compiled", True), ("init", None),
                            ("is_bf16_supported", self.capability >= (8, 0)),
                            ("_lazy_init", None), ("set_device", None), ("synchronize", None), ("ipc_collect", None),
                            ("get_device_name", self.name), ("get_device_capability", self.capability),
                            ("get_device_properties", self.properties()), ("manual_seed", None), ("manual_seed_all", None),
                            ("seed", None), ("seed_all", None), ("initial_seed", 0), ("set_rng_state", None),
                            ("set_rng_state_all", None), ("can_device_access_peer", False), ("_exchange_device", 0),
                            ("_maybe_exchange_device", 0), ("get_arch_list", ["sm_%d%d" % self.capability]),
                            ("is_current_stream_capturing", False), ("utilization", 0), ("memory_usage", 0),
                            ("temperature", 30), ("power_draw", 75000), ("clock_rate", 1980), ("list_gpu_processes", ""),
                            ("_check_capability", None)):
            for module in (cuda, cuda.random):
                if hasattr(module, name):
                    self.patch(module, name, answer(value))
        for module in (cuda, cuda.random):
            self.patch(module, "get_rng_state", lambda *_, **__: torch.zeros(16, dtype=torch.uint8))
            self.patch(module, "get_rng_state_all", lambda: [torch.zeros(16, dtype=torch.uint8)])
        self.patch(cuda, "_lazy_call", lambda *_, **__: None)
        self.patch(cuda, "default_generators", (torch.default_generator,))
        self.patch(cuda, "device", Selected)
        self.patch(cuda, "device_of", lambda _: contextlib.nullcontext())
        self.patch(torch.version, "cuda", torch.version.cuda or "13.0")
        self.patch(torch.backends.cuda, "is_built", answer(True))
        if hasattr(torch._C, "_get_accelerator"):
            self.patch(torch._C, "_get_accelerator", answer(torch.device("cuda")))
        accelerator = getattr(torch, "accelerator", None)  # 2.6 on
        if accelerator is not None:
            for name, value in (("is_available", True), ("device_count", self.count), ("current_device_index", 0),
                                ("synchronize", None), ("current_accelerator", torch.device("cuda")),
                                ("set_device_index", None)):
                if hasattr(accelerator, name):
                    self.patch(accelerator, name, answer(value))
            self.patch(accelerator, "current_stream", lambda *_, **__: Stream(number=0))

    def _memory(self):
        cuda, recorder = torch.cuda, self.recorder
        now = lambda *_, **__: recorder.live_bytes
        peak = lambda *_, **__: recorder.peak_bytes
        for module in (cuda, cuda.memory):
            for name, function in (("memory_allocated", now), ("memory_reserved", now), ("max_memory_allocated", peak),
                                   ("max_memory_reserved", peak), ("reset_peak_memory_stats", lambda *_, **__: None),
                                   ("reset_max_memory_allocated", lambda *_, **__: None),
                                   ("reset_accumulated_memory_stats", lambda *_, **__: None),
                                   ("empty_cache", lambda *_: recorder.records.empty_cache()),
                                   ("mem_get_info", lambda *_, **__: (self.total_bytes - recorder.live_bytes, self.total_bytes)),
                                   ("memory_summary", lambda *_, **__: ""), ("memory_stats", lambda *_, **__: Zeros()),
                                   ("set_per_process_memory_fraction", lambda *_, **__: None)):
                if hasattr(module, name):
                    self.patch(module, name, function)

    def _streams(self):
        recorder, real_to = self.recorder, torch.Tensor.to

        @contextlib.contextmanager
        def stream(stream):
            before = recorder.stream
            recorder.switch(stream.number if stream is not None else before)
            try:
                yield
            finally:
                recorder.switch(before)
        for owner in (torch.cuda, torch):
            self.patch(owner, "Stream", Stream)
            self.patch(owner, "Event", Event)
        self.patch(torch.cuda, "stream", stream)
        self.patch(torch.cuda, "set_stream", lambda stream: recorder.switch(stream.number))
        self.patch(torch.cuda, "current_stream", lambda *_, **__: Stream(number=recorder.stream))
        self.patch(torch.cuda, "default_stream", lambda *_, **__: Stream(number=0))
        self.patch(torch.Tensor, "record_stream", lambda *_, **__: None)
        self.patch(torch._C, "_scatter", lambda tensor, *_: (real_to(tensor, GPU),))  # of DataParallel, for its one GPU

    def _settings(self):
        cudnn = torch.backends.cudnn
        self.patch(cudnn, "is_available", lambda: True)
        self.patch(cudnn, "version", lambda: 91002)
        self.patch(cudnn, "is_acceptable", lambda _: cudnn.enabled)
        self.patch(torch.Tensor, "pin_memory", lambda tensor, *_, **__: tensor)
        self.patch(torch.Tensor, "is_pinned", lambda *_, **__: False)
        real_share = torch.Tensor.share_memory_
        self.patch(torch.Tensor, "share_memory_", lambda tensor: tensor if is_gpu(tensor) else real_share(tensor))
        profile = torch.autograd.profiler.profile
        real_profile = profile.__init__
        # Of each operator it would say, at length, that there is no GPU to ask; stacks it does not bear beside a dispatch mode.
        self.patch(profile, "__init__", lambda self, *args, **kwargs: real_profile(
            self, *args, **{**kwargs, "use_cpu": True, "use_device": None, "with_stack": False}))
        nvtx = types.SimpleNamespace(range_push=lambda *_: 0, range_pop=lambda: 0, mark=lambda *_: None,
                                     range=lambda *_, **__: contextlib.nullcontext())
        self.patch(torch.cuda, "nvtx", nvtx)


class Selected:
    """torch.cuda.device(n)."""

    def __init__(self, device):
        self.idx = 0

    def __enter__(self):
        pass

    def __exit__(self, *_):
        return False


class Zeros(dict):
    def __missing__(self, _):
        return 0
