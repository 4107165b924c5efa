# SPDX-License-Identifier: MIT
"""Operators that fake tensors do not know as CUDA has them, and classes of tensors that scripts make."""
import copy

import pytest

torch = pytest.importorskip("torch")

import torch.nn.functional as F  # noqa: E402

MIB = 1 << 20
DATA_DEPENDENT, UNKNOWN_OP = 1, 2


def asked(events):
    return [n for n in events if n > 0]


def test_a_grid_of_samples(traced):
    """RAFT's: cuDNN's operator, forward and backward."""
    def setup():
        x, grid = (torch.randn(size, device="cuda", requires_grad=True) for size in ((2, 64, 64, 64), (2, 32, 32, 2)))

        def step():
            y = F.grid_sample(x, grid, mode="bilinear", align_corners=True)
            assert y.shape == (2, 64, 32, 32) and y.is_contiguous()
            y.sum().backward()
            assert x.grad.shape == x.shape and grid.grad.shape == grid.shape
            x.grad = grid.grad = None
        return step
    f = traced(setup)
    sizes = asked(f.iteration(1))
    assert sizes.count(2 * 64 * 32 * 32 * 4) >= 1 and 2 * MIB in sizes and 2 * 32 * 32 * 2 * 4 in sizes
    assert f.header["flags"] & UNKNOWN_OP == 0


@pytest.mark.skipif("dtype" not in torch.ops.aten.addmm.overloads(), reason="this PyTorch has no such products")
def test_products_in_another_type(traced):
    """As TRL's losses have them."""
    def setup():
        x, w, b = (torch.randn(64, 64, device="cuda", dtype=kind) for kind in (torch.bfloat16, torch.bfloat16, torch.float32))

        def step():
            for y in (torch.addmm(b, x, w, out_dtype=torch.float32), torch.baddbmm(b[None], x[None], w[None], out_dtype=torch.float32)):
                assert y.dtype is torch.float32 and y.shape[-2:] == (64, 64) and y.is_cuda
            torch.addmm(b, x, w, out_dtype=torch.float32, out=b)
        return step
    f = traced(setup)
    assert asked(f.iteration(1)).count(64 * 64 * 4) == 2 and f.header["flags"] & UNKNOWN_OP == 0


def test_backward_of_cumprod(traced):
    """It takes the way of factors that are not 0: a few operators, not some for each of them. The gradient is PyTorch's."""
    def setup():
        x = torch.randn(8, 300, device="cuda", requires_grad=True)

        def step():
            x.sigmoid().cumprod(1).sum().backward()
            x.grad = None
        return step
    assert len(asked(traced(setup).iteration(1))) < 30
    from radrm.capture.products import CumProd
    x = torch.rand(3, 7, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: CumProd.apply(x, 1), x)


def test_what_cumprod_keeps(traced):
    """With autocast the factors in full precision, and what of them is 0 to the end of the backward pass."""
    def setup():
        x = torch.randn(256, 1024, device="cuda", requires_grad=True)
        half = x.detach().half().requires_grad_()

        def step():
            y = x.cumprod(1)
            y.backward(x.detach())
            del y
            with torch.autocast("cuda"):
                z = half.cumprod(1)
            x.grad = half.grad = None
            assert z.dtype == torch.float32
            with torch.autograd.forward_ad.dual_level():
                assert torch.autograd.forward_ad.make_dual(x, x.detach())[:1, :2].cumprod(1).requires_grad
        return step
    f = traced(setup)
    sizes = [n for n in asked(f.iteration(1)) if n >= MIB // 4]
    assert sizes == [MIB, MIB, MIB // 4, *[MIB] * 4, *[MIB] * 2] and f.peak_bytes // (MIB // 4) == 27


def test_a_grid_of_cudnn(traced):
    def setup():
        theta = torch.randn(4, 2, 3, device="cuda")

        def step():
            assert torch.cudnn_affine_grid_generator(theta, 4, 3, 16, 8).shape == (4, 16, 8, 2)
            assert torch.ops.aten.cudnn_affine_grid_generator_backward(torch.randn(4, 16, 8, 2, device="cuda"), 4, 3, 16,
                                                                       8).shape == theta.shape
        return step
    assert traced(setup).header["flags"] & UNKNOWN_OP == 0


def test_a_condition_of_bytes(traced):
    """A mask of uint8, as masks once were: a bool is made of it first."""
    def setup():
        mask, x = torch.zeros(MIB, dtype=torch.uint8, device="cuda"), torch.randn(MIB, device="cuda", requires_grad=True)

        def step():
            torch.where(mask, x, x - 1).sum().backward()
            x.grad = None
        return step
    sizes = asked(traced(setup).iteration(1))
    assert sizes[:3] == [4 * MIB, MIB, 4 * MIB]  # x - 1, the bool, the result


def test_a_mask_on_the_cpu_as_an_index(traced):
    """As many rows in the backward pass as it has in the forward pass: MergedLinear of loralib."""
    def setup():
        mask, x = torch.arange(3072) % 3 > 0, torch.randn(2048, 256, device="cuda", requires_grad=True)

        def step():
            result = x.new_zeros((3072, 256))
            result[mask] = x
            result.sum().backward()
            assert x.grad.shape == (2048, 256)
            x.grad = None
        return step
    assert traced(setup).header["flags"] & DATA_DEPENDENT == 0


class Drawn(torch.Tensor):
    """As BigGAN's Distribution."""
    def begin(self, mean):
        self.mean_of = mean
        return self

    def sample_(self):
        return self.normal_(self.mean_of, 1)

    def to(self, *args, **kwargs):
        new = Drawn(self).begin(self.mean_of)
        new.data = super().to(*args, **kwargs)
        return new


def test_a_class_of_tensors(traced):
    def setup():
        assert type(Drawn(torch.randn(3)) + 1) is Drawn and Drawn([1.0, 2.0]).shape == (2,) and Drawn(3, 4).shape == (3, 4)
        drawn = Drawn(torch.randn(256, 256)).begin(0.5)
        there = copy.deepcopy(drawn.to("cuda"))
        model = torch.nn.Linear(256, 256).cuda()
        assert isinstance(there, Drawn) and there.is_cuda and there.mean_of == 0.5 and not drawn.is_cuda

        def step():
            there.sample_()
            model(there).sum().backward()
            model.weight.grad = model.bias.grad = None
            for one in (Drawn(there), there.detach().as_subclass(Drawn), torch.Tensor._make_subclass(Drawn, torch.ones(3, device="cuda"))):
                assert isinstance(one, Drawn) and one.is_cuda and (one + 1).device.type == "cuda"
        return step
    f = traced(setup)
    assert sum(n for n in f.iteration(1)) == 0


BOXES = """
    import torch
    from torchvision.ops import batched_nms, nms
    model = torch.nn.Linear(4, 4).to("cuda")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(50):
        x, scores = torch.rand(NUMBER, 4).to("cuda"), torch.rand(NUMBER, device="cuda")
        model(x).sum().backward()
        optimizer.step()
        CALL
        assert kept.shape == (NUMBER,) and kept.is_cuda and kept.dtype == torch.int64
        del kept
"""


@pytest.mark.parametrize("number, call", [
    (20_000, "kept = nms(x, scores, 0.5)"), (90_000, 'kept = batched_nms(x, scores, torch.randint(90, (NUMBER,), device="cuda"), 0.5)')])
def test_boxes_that_suppress_each_other(capture, number, call):
    """A bit for each pair. Nothing is computed on the CPU: for so many that would take minutes."""
    pytest.importorskip("torchvision")
    code, said, f = capture(BOXES.replace("CALL", call).replace("NUMBER", str(number)), options=["--timeout", "60"])
    together = min(number, 25_000)
    assert code == 0 and f.header["flags"] & (DATA_DEPENDENT | UNKNOWN_OP) == 0, said
    assert together * -(-together // 64) * 8 in f.iteration(1) and number * 8 in f.iteration(1)


def test_a_model_of_script_methods(capture):
    """PlaNet's: functions of torch.nn.functional are attributes of it."""
    code, said, f = capture("""
        import torch
        from torch import jit, nn
        from torch.nn import functional as F

        class Model(jit.ScriptModule):
            __constants__ = ["least"]

            def __init__(self, function="relu"):
                super().__init__()
                self.function, self.least = getattr(F, function), 0.1
                self.layer = nn.Linear(64, 64)

            @jit.script_method
            def forward(self, x: torch.Tensor) -> torch.Tensor:
                return F.linear(self.function(self.layer(x)) + self.least, self.layer.weight)
        model = Model().to("cuda")
        assert isinstance(model, jit.ScriptModule)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(50):
            model(torch.randn(8, 64, device="cuda")).sum().backward()
            optimizer.step()
    """)
    assert code == 0 and f.header["optimizer"] == "sgd" and "ScriptModule: the eager run was captured" in said, said


def test_types_of_tensors(capture):
    """What a script asks of a tensor on the GPU it is told as there is one."""
    code, said, f = capture("""
        import copy, torch
        class Own(torch.Tensor):
            pass
        def number(value):
            if type(value) == torch.Tensor:
                value = value.item()
            return value
        def shadowed(type):
            return type("7")
        model = torch.nn.Linear(64, 64).to("cuda")
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        assert type(model.weight) is torch.nn.Parameter and type(Own(model.weight)) is Own and type(3) is int and shadowed(int) == 7
        assert type("Other", (), {}).__name__ == "Other"
        for _ in range(50):
            loss = model(torch.randn(8, 64, device="cuda")).sum()
            assert type(loss) is torch.Tensor and not type(loss) != torch.Tensor and type(loss) in (torch.Tensor, float), type(loss)
            loss.backward()
            assert isinstance(number(loss), float)
            optimizer.step()
    """)
    assert code == 0 and f.header["flags"] == 0, said


@pytest.mark.parametrize("asserted", ["found.size(0) == 1", "found.shape[0] == 1, found", "len(found) == 1"])
def test_a_size_that_is_asserted(capture, asserted):
    """KnowledgeGraphEmbedding's: of what depends on values the largest possible was taken, and the script knows better."""
    code, said, f = capture("""
        import torch
        model = torch.nn.Linear(64, 5000).to("cuda")
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(50):
            loss = model(torch.randn(8, 64, device="cuda")).sum()
            loss.backward()
            optimizer.step()
            order = model(torch.randn(1, 64, device="cuda")).argsort(dim=1)
            found = (order[0, :] == torch.randint(5000, (1,)).to("cuda")[0]).nonzero()
            assert ASSERTED
            print(1 + found.item())
    """.replace("ASSERTED", asserted))
    assert code == 0 and "AssertionError" not in said and "not seen" not in said, said


@pytest.mark.parametrize("call", ["x.numpy()", "np.isnan(x)", "np.asarray(x)"])
def test_no_array_of_a_tensor_on_the_gpu(capture, call):
    """What CUDA says, and the script's own line."""
    code, said, _ = capture("""
        import json, torch
        import numpy as np
        x = torch.ones(3, device="cuda")
        assert x.numpy(force=True).tolist() == [1, 1, 1]
        CALL
    """.replace("CALL", call))
    assert code == 1 and "TypeError: can't convert cuda:0 device type tensor to numpy. Use Tensor.cpu()" in said \
        and f"(at train.py:6: {call})" in said, said


def test_the_script_s_own_line(capture):
    """Not that of the library in which the error is raised."""
    code, said, _ = capture("""
        import numpy, torch
        x = torch.ones(3, device="cuda")
        numpy.no_such_function([1])
    """)
    assert code == 1 and "(at train.py:4: numpy.no_such_function([1]))" in said, said
