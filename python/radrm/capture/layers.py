# SPDX-License-Identifier: MIT
"""Modules and functions that choose their kernels in Python or in C++ by asking the build: they choose as on a GPU here."""
import functools

import torch
import torch.nn.functional as F
from torch._subclasses.fake_tensor import FakeTensor

from .distributed import part
from .readnumbers import plain
from .recorder import is_gpu, wraps


def install(recorder, patch):
    """Patches them: patch(owner, name, value)."""
    patch(torch.nn.Module, "_apply", apply_to_module)
    patch(torch.Tensor, "data", property(DATA.__get__, give_data))
    subclasses(patch)
    linear(recorder, patch)
    foreach(patch)
    scaler(recorder, patch)


@functools.cache
def there(cls):
    """The class of tensors of a script's class that are on the GPU."""
    def new_empty(tensor, *args, **kwargs):  # deepcopy() wants one of the same class
        return of_class(FakeTensor.new_empty(tensor, *args, **kwargs), cls)
    return cls if issubclass(cls, FakeTensor) else type(cls)(cls.__name__, (cls, FakeTensor),
                                                             {"__module__": cls.__module__, "new_empty": new_empty})


def of_class(tensor, cls, learns=False):
    """A tensor on the GPU as one of a script's class, with the same memory."""
    found = tensor.detach().requires_grad_(learns)
    found.__class__ = there(cls)
    return found


def subclasses(patch):
    """A script's classes of tensors. With a dispatch mode PyTorch makes none, on the CPU either. What takes functions in hand
    itself is not told of tensors on the GPU (fastai's classes say what they show)."""
    real, real_new, real_make = torch.Tensor.as_subclass, torch.Tensor.__new__, torch.Tensor._make_subclass
    ordinary = torch.Tensor.__torch_function__.__func__

    def as_subclass(tensor, cls):
        if not is_gpu(tensor):
            return real(tensor, cls)
        return of_class(tensor, cls) if cls is not torch.Tensor and cls.__torch_function__.__func__ is ordinary else tensor

    def new(cls, *args, **kwargs):
        if cls is torch.Tensor or issubclass(cls, FakeTensor):
            return real_new(cls, *args, **kwargs)
        if args and is_gpu(args[0]):
            return of_class(args[0], cls)
        with torch._C._DisableTorchDispatch():
            return real_new(cls, *map(plain, args), **kwargs)

    def make(cls, data, require_grad=False, **kwargs):
        return of_class(data, cls, require_grad) if is_gpu(data) else real_make(cls, data, require_grad, **kwargs)
    for owner in (torch.Tensor, torch):
        patch(owner, "as_subclass", as_subclass)
    patch(torch.Tensor, "__new__", new)
    patch(torch.Tensor, "_make_subclass", staticmethod(make))


def linear(recorder, patch):
    """The bias of a linear layer is added in place where the layer's input has gaps (others take addmm); to a tensor subclass
    it would be added into a new tensor. While such a layer runs, sums with a vector are in place."""
    real = F.linear

    def run(input, weight, bias=None):
        recorder.adds_bias = bias is not None and is_gpu(input)
        try:
            return real(input, weight, bias)
        finally:
            recorder.adds_bias = False
    patch(F, "linear", run)


def foreach(patch):
    """Optimizers and clipping take their foreach forms for native CUDA tensors only; fake ones stand for such."""
    from torch.optim import optimizer
    from torch.utils import _foreach_utils
    for module in (_foreach_utils, optimizer):
        supported = getattr(module, "_foreach_supported_types", None)
        if supported is not None:
            patch(module, "_foreach_supported_types", [*supported, FakeTensor])


def scaler(recorder, patch):
    """No gradient is infinite: the scaled step is done. To know that, it waits for the GPU."""
    from torch.amp.grad_scaler import GradScaler

    def step(self, optimizer, optimizer_state, *args, **kwargs):
        recorder.work.host["waits"] += 1
        return optimizer.step(*args, **kwargs)
    patch(GradScaler, "_maybe_opt_step", step)


def apply_to_module(module, fn, recurse=True):
    """Module._apply, which .to(), .cuda() and .half() call. Parameters stay the objects they are (an optimizer, a tied layer
    may hold them); with fake tensors that needs an exchange of what is behind the object."""
    if recurse:
        for child in module.children():
            child._apply(fn)
    for parameter in module._parameters.values():
        if parameter is None:
            continue
        with torch.no_grad():
            exchange(parameter, fn(parameter))
            if parameter.grad is not None:
                exchange(parameter.grad, fn(parameter.grad))
    for name, buffer in module._buffers.items():
        if buffer is not None:
            module._buffers[name] = fn(buffer)
    return module


DATA = torch._C.TensorBase.data


def give_data(tensor, moved):
    """`tensor.data = moved`: where the one is on the CPU and the other on the GPU, as of a parameter that is moved by hand."""
    kind = type(tensor)
    if is_gpu(moved) and not is_gpu(part(tensor)) and (kind in (torch.Tensor, torch.nn.Parameter) or not wraps(kind)):
        with torch.no_grad():
            exchange(tensor, moved.detach() if kind is torch.Tensor or isinstance(tensor, torch.nn.Parameter) else of_class(moved, kind))
    else:
        DATA.__set__(tensor, moved)


def exchange(tensor, moved):
    """`tensor` becomes what `moved` is, and stays the same object."""
    if moved is tensor:
        return
    if torch._has_compatible_shallow_copy_type(tensor, moved) and not (is_gpu(part(tensor)) or is_gpu(part(moved))):
        tensor.data = moved
        return
    if isinstance(tensor, torch.nn.Parameter):
        moved = torch.nn.Parameter(moved, requires_grad=tensor.requires_grad)
    if part(moved) is not moved:
        torch.utils.swap_tensors(tensor, moved)
        return
    said = tensor.__dict__
    if is_gpu(tensor) and not is_gpu(moved):  # what a script said of it stays, and not what the capture did
        ours = vars(tensor.detach()).keys()
        said = {name: value for name, value in said.items() if name not in ours and not name.startswith("radrm_")}
    tensor.__class__, moved.__class__ = moved.__class__, tensor.__class__
    tensor.__dict__, moved.__dict__ = {**said, **moved.__dict__}, tensor.__dict__
    torch._C._swap_tensor_impl(tensor, moved)


def first_of(args, kwargs):
    """What is to be compiled: each function of torch.jit calls it by another name."""
    return args[0] if args else next((kwargs[name] for name in ("obj", "func", "mod", "fn") if name in kwargs), None)


def torchscript(recorder, patch):
    """TorchScript compiles Python that is not the user's own under a capture, and traces values: what it would compile runs as it
    is. Told of models only: libraries script small functions."""
    from . import fileformat as ff

    def as_it_is(name):
        real = getattr(torch.jit, name)

        def run(*args, **kwargs):
            what = first_of(args, kwargs)
            if getattr(what, "__module__", "").startswith("torch._decomp"):
                return real(*args, **kwargs)  # derivatives of its own, of which it wants the graph
            if isinstance(what, torch.nn.Module):
                recorder.note(ff.COMPILED, f"torch.jit.{name}: the eager run was captured", None)
            return what if what is not None else lambda f: f
        return run
    real_module = torch.jit.ScriptModule

    class Kind(type):
        def __instancecheck__(cls, value):
            return super().__instancecheck__(value) or isinstance(value, real_module)

    class ScriptModule(torch.nn.Module, metaclass=Kind):
        """A model written for TorchScript, method by method: as PyTorch has it where TorchScript is switched off."""
        def __init__(self, *_, **__):
            super().__init__()
            recorder.note(ff.COMPILED, "torch.jit.ScriptModule: the eager run was captured", None)
    patch(torch.jit, "ScriptModule", ScriptModule)
    patch(torch.jit, "script_method", lambda fn: fn)
    for name in ("script", "trace", "freeze", "optimize_for_inference", "script_if_tracing"):
        patch(torch.jit, name, as_it_is(name))
    patch(torch.jit, "trace_module", lambda *args, **kwargs: torch.jit.trace(first_of(args, kwargs)))
