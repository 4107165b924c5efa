# SPDX-License-Identifier: MIT
"""Types of tensors by their old names, torch.cuda.FloatTensor and the like: what makes tensors, converts to and tells them."""
import torch

from .readnumbers import plain
from .recorder import GPU, is_gpu

NAMES = {"FloatTensor": torch.float32, "DoubleTensor": torch.float64, "HalfTensor": torch.float16, "BFloat16Tensor": torch.bfloat16,
         "ByteTensor": torch.uint8, "CharTensor": torch.int8, "ShortTensor": torch.int16, "IntTensor": torch.int32,
         "LongTensor": torch.int64, "BoolTensor": torch.bool}


def made(dtype, *args):
    """A tensor on the GPU of a size or of values, as the old constructors tell them apart."""
    if len(args) == 1 and not isinstance(args[0], (int, torch.Size)):
        return torch.as_tensor(plain(args[0])).to(GPU, dtype)
    return torch.empty(*args or (0,), dtype=dtype, device=GPU)


class Type(type):
    def __instancecheck__(cls, value):
        return is_gpu(value) and value.dtype is cls.dtype

    def __call__(cls, *args, **_):
        return made(cls.dtype, *args)


def found(kind):
    """The Type that a type or its name means; None: it is none of these."""
    if isinstance(kind, str) and kind.startswith("torch.cuda."):
        return vars(torch.cuda).get(kind.removeprefix("torch.cuda."))
    return kind if isinstance(kind, Type) else None


def install(patch):
    real_type, real_default = torch.Tensor.type, torch.set_default_tensor_type

    def convert(tensor, dtype=None, *args, **kwargs):
        kind = found(dtype)
        return tensor.to(GPU, kind.dtype) if kind else real_type(tensor, dtype, *args, **kwargs)

    def default(kind):
        known = found(kind)
        if not known:
            return real_default(kind)
        real_new = torch.Tensor.__new__
        torch.set_default_dtype(known.dtype)
        torch.set_default_device(GPU)
        patch(torch.Tensor, "__new__", lambda cls, *args, **kwargs: known(*args) if cls is torch.Tensor else real_new(cls, *args, **kwargs))
    for name, dtype in NAMES.items():
        patch(torch.cuda, name, Type(name, (), {"dtype": dtype, "__module__": "torch.cuda"}))
    patch(torch.Tensor, "type", convert)
    patch(torch, "set_default_tensor_type", default)
