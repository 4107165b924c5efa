# SPDX-License-Identifier: MIT
"""What an operator gives of tensors on the GPU, by their shapes: asked of PyTorch's fake tensors once, made from that the next time.

They remember it, too, but what they look at before they do takes most of the time of a capture. Here are only operators that
write new tensors, or into their first argument, or view that, which may be a list, as optimizers have; of ordinary tensors and
numbers. All else is asked each time.
"""
import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._pytree import tree_leaves

subclass = torch.Tensor._make_subclass  # while a capture runs there is another one, which takes longer
PLAIN = {int, float, bool, str, complex, type(None), torch.dtype, torch.device, torch.layout, torch.memory_format}
MOST = 100_000  # that are remembered
OFTEN = {torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape, torch.Tag.inplace_view}
NEW, INTO, VIEW, LIST, NONE = range(5)  # LIST: into each of one, and nothing comes back


class Remembered:
    def __init__(self, mode):
        self.mode = mode
        self.kinds = {}  # operator -> one of these
        self.attributes = {}  # device -> what a fake tensor there has in Python that was just made
        self.known = {}  # (operator, what it is given) -> (tuple, list or None, form() of each result); None: to be asked

    def kind(self, func):
        found = self.kinds.get(func)
        if found is None:
            found = self.kinds[func] = self.kind_of(func)
        return found

    @staticmethod
    def kind_of(func):
        schema = func._schema
        aliased = [n for n, argument in enumerate(schema.arguments) if argument.alias_info is not None]
        returned, several = [str(one.type) for one in schema.returns], {"Tensor", "List[Tensor]"}
        if OFTEN & set(func.tags) or aliased not in ([], [0]) or not set(returned) <= (several if len(returned) == 1 else {"Tensor"}):
            return NONE
        if func is torch.ops.aten._unsafe_view.default:  # says that it makes a new one
            return VIEW
        if not aliased:
            return NEW if returned else NONE
        if schema.arguments[0].alias_info.is_write:
            return INTO if returned == ["Tensor"] else NONE if returned else LIST
        return VIEW if len(returned) == 1 else NONE

    def key(self, values, told=True):
        """Hashable; None: it cannot be said. `told`: also which fractions they are, on which nothing hangs of what is written into: an
        optimizer has others in each step."""
        found = []
        for value in values:
            kind = type(value)
            if kind is FakeTensor:
                if value.layout is not torch.strided or value.constant is not None or value.is_conj() or value.is_neg():
                    return None
                found.append((value.shape, value.stride(), value.dtype, value.storage_offset(), value.fake_device, value.requires_grad))
            elif kind in PLAIN:
                found.append((kind, value if told or kind is not float else None))
            elif kind in (list, tuple):
                inside = self.key(value, told)
                if inside is None:
                    return None
                found.append((kind, inside))
            else:
                return None
        return tuple(found)

    def run(self, func, args, kwargs, ask):
        """What ask() gives."""
        kind = self.kind(func)
        if kind == NONE or not args or not self.is_plain(args[0]) or torch.is_inference_mode_enabled():
            return ask()
        told = kind not in (INTO, LIST)
        first, more = self.key(args, told), self.key(kwargs.values(), told) if kwargs else ()
        if first is None or more is None:
            return ask()
        key = func, first, tuple(kwargs), more, torch.get_default_dtype()
        if key not in self.known:
            before = self.forms(args[0])
            result = ask()
            if len(self.known) < MOST:
                self.known[key] = self.forms(result) if self.fits(kind, result, args, before) else None
            return result
        forms = self.known[key]
        if forms is None:
            return ask()
        if kind in (INTO, LIST):
            return args[0] if kind == INTO else None
        several, each = forms
        made = [self.make(form, args[0] if kind == VIEW else None) for form in each]
        return several(made) if several else made[0]

    @staticmethod
    def is_plain(first):
        return type(first) is FakeTensor or type(first) in (list, tuple) and len(first) > 0 and all(
            type(one) is FakeTensor for one in first)

    def forms(self, result):
        several = type(result) if type(result) in (list, tuple) else None
        return several, [self.form(one) for one in (result if several else (result,))]

    @staticmethod
    def form(tensor):
        return (tuple(tensor.shape), tensor.stride(), tensor.dtype, tensor.storage_offset(),
                tensor.fake_device) if type(tensor) is FakeTensor else None

    def fits(self, kind, result, args, before):
        """Whether it is what the operator's kind says."""
        if kind in (INTO, LIST):
            return result is (args[0] if kind == INTO else None) and self.forms(args[0]) == before
        found = result if type(result) in (list, tuple) else (result,)
        if not found or any(type(one) is not FakeTensor or one.layout is not torch.strided or one.requires_grad or one.constant is not None
                            or one.is_conj() or one.is_neg() for one in found):
            return False
        storages = [one.untyped_storage()._cdata for one in found]
        if kind == VIEW:
            return type(args[0]) is FakeTensor and {*storages} == {args[0].untyped_storage()._cdata} and all(
                one is not args[0] for one in found)
        given = {one.untyped_storage()._cdata for one in tree_leaves(args) if type(one) is FakeTensor}
        return len({*storages}) == len(storages) and given.isdisjoint(storages) and all(map(self.is_whole, found))

    @staticmethod
    def is_whole(one):
        """Whether its storage is its own, and no larger."""
        elements = 1 + sum((size - 1) * stride for size, stride in zip(one.shape, one.stride())) if one.numel() else 0
        return one.storage_offset() == 0 and one.untyped_storage().nbytes() == elements * one.element_size()

    def make(self, form, base):
        shape, stride, dtype, offset, device = form
        made = torch.empty_strided(shape, stride, dtype=dtype, device="meta")
        if base is not None:
            made.set_(base.untyped_storage(), offset, shape, stride)
        if device not in self.attributes:
            first = FakeTensor(self.mode, made, device)
            self.attributes[device] = dict(vars(first))
            return first
        # As FakeTensor makes one, which sets each of them by itself: a quarter of the time that a remembered operator takes.
        fake = subclass(FakeTensor, made, False, dispatch_device=True, device_for_backend_keys=device)
        torch._C._set_throw_on_mutable_data_ptr(fake)
        vars(fake).update(self.attributes[device])
        return fake
