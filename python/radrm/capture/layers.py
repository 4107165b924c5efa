# SPDX-License-Identifier: MIT
"""Modules and functions that choose their kernels in Python or in C++ by asking the build: they choose as on a GPU here."""
import torch
import torch.nn.functional as F
from torch._subclasses.fake_tensor import FakeTensor

from .distributed import part
from .recorder import is_gpu


def install(recorder, patch):
    """Patches them: patch(owner, name, value)."""
    patch(torch.nn.Module, "_apply", apply_to_module)
    patch(torch.Tensor, "data", property(DATA.__get__, give_data))
    subclasses(patch)
    linear(recorder, patch)
    foreach(patch)
    scaler(recorder, patch)


def subclasses(patch):
    """A tensor on the GPU has a class already: it is not made one of the script's (fastai's say what they show)."""
    real = torch.Tensor.as_subclass
    for owner in (torch.Tensor, torch):
        patch(owner, "as_subclass", lambda tensor, cls: tensor if is_gpu(tensor) else real(tensor, cls))


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
    if is_gpu(moved) and not is_gpu(part(tensor)) and type(tensor) in (torch.Tensor, torch.nn.Parameter):
        with torch.no_grad():
            exchange(tensor, moved.detach())
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
    tensor.__class__, moved.__class__ = moved.__class__, tensor.__class__
    tensor.__dict__, moved.__dict__ = {**tensor.__dict__, **moved.__dict__}, tensor.__dict__
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
    for name in ("script", "trace", "freeze", "optimize_for_inference", "script_if_tracing"):
        patch(torch.jit, name, as_it_is(name))
    patch(torch.jit, "trace_module", lambda *args, **kwargs: torch.jit.trace(first_of(args, kwargs)))
