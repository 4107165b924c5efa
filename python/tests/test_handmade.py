# SPDX-License-Identifier: MIT
"""Kernels that are no operators of PyTorch's, and ways of launching."""
import importlib.util
import textwrap

import pytest

torch = pytest.importorskip("torch")

COMPILED = 8
W = 256 * 256 * 4

# As Triton's: a kernel is launched by kernel[grid](arguments), which asks for the GPU's driver.
TRITON = {"triton/__init__.py": "from .runtime.jit import JITFunction as jit", "triton/runtime/jit.py": """
    class JITFunction:
        def __init__(self, fn):
            self.fn = fn
        def __getitem__(self, grid):
            return lambda *args, **kwargs: self.run(grid=grid, warmup=False, *args, **kwargs)
        def run(self, *args, grid, warmup, **kwargs):
            raise AssertionError("libcuda.so cannot found!")
""", "triton/runtime/autotuner.py": """
    class Autotuner:
        pass
    class Heuristics:
        pass
"""}
STEPS = """
    import torch
    model = torch.nn.Linear(256, 256, bias=False).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    BEFORE
    for step in range(20):
        y = model(torch.randn(256, 256, device="cuda"))
        BODY
        optimizer.zero_grad()
        y.sum().backward()
        optimizer.step()
"""


def test_triton(capture, tmp_path):
    if importlib.util.find_spec("triton") is None:
        for name, body in TRITON.items():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(textwrap.dedent(body))
    before = "import triton\n    @triton.jit\n    def kernel(x, out, n, BLOCK): pass"
    (code, said, plain), (_, told,
                          f) = (capture(STEPS.replace("BEFORE", before).replace("BODY", "out = torch.empty_like(y)" + body)) for body in (
        "", "; kernel[lambda meta: (9,)](y, out, 9, BLOCK=1)"))
    assert code == 0 and f.events == plain.events and "Triton" not in said and "Triton kernels" in told
    assert f.host["forward"] == plain.host["forward"] + 1
    assert sum(k[5] for k in f.kernels) - sum(k[5] for k in plain.kernels) == 2 * W


@pytest.mark.parametrize("before, body", [
    ("model = torch.cuda.make_graphed_callables(model, (torch.randn(256, 256, device='cuda'),))", "pass"),
    ("graph = torch.cuda.CUDAGraph()", "with torch.cuda.graph(graph): y + y\n        graph.replay()"),
])
def test_cuda_graphs(capture, before, body):
    code, said, f = capture(STEPS.replace("BEFORE", before).replace("BODY", body))
    assert code == 0 and f.steps == 20 and "CUDA graphs" in said and f.header["flags"] == COMPILED, said


@pytest.mark.parametrize("before, body, handles", [
    ("model = torch.cuda.make_graphed_callables(model, (torch.randn(256, 256, device='cuda'),))", "pass", 4),
    ("(graphed,) = torch.cuda.make_graphed_callables((torch.nn.functional.linear,), ((model.weight, model.weight),))",
     "y = graphed(y, model.weight)", 2 + 4),
    ("graph = torch.cuda.CUDAGraph()", "with torch.cuda.graph(graph): (y @ y).sum().backward(retain_graph=True)", 2 + 2),
    ("graph, stream = torch.cuda.CUDAGraph(), torch.cuda.Stream()", "with torch.cuda.graph(graph, stream=stream): y = "
                                                                    "model(y)\n        with torch.cuda.stream(stream): y + y", 2 + 2),
    ("pass", "pass", 2)], ids=["module", "function", "graph", "stream", "none"])
def test_products_in_cuda_graphs(capture, before, body, handles):
    """A workspace of cuBLAS is of a thread and a stream: those of trying, and of capturing, on an H100, too."""
    code, said, f = capture(STEPS.replace("BEFORE", before).replace("BODY", body))
    assert code == 0, said
    stream, seen = 0, set()
    for kind, argument, figures in f.records:
        stream = argument if kind == 3 else stream
        if kind == 5 and argument == 1:
            seen.add((stream, figures[0]))
    assert len(seen) == handles, seen


@pytest.mark.parametrize("heads", [4, 1])
def test_flexible_attention(capture, heads):
    """Kept for the backward pass as of flash attention: no scores of 4096 x 4096 for each of 8 heads, 256 MiB."""
    flex = pytest.importorskip("torch.nn.attention.flex_attention")
    assert flex
    code, said, f = capture("""
        import torch
        from torch.nn.attention.flex_attention import flex_attention
        flex_attention = torch.compile(flex_attention)
        model = torch.nn.Linear(64, 64).cuda()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for step in range(20):
            with torch.autocast("cuda", torch.bfloat16):
                q = model(torch.randn(2, 4, 4096, 64, device="cuda"))
                y = flex_attention(q, q[:, :HEADS], q[:, :HEADS], score_mod=lambda score, *_: score * 2, enable_gqa=True)
            optimizer.zero_grad()
            y.sum().backward()
            optimizer.step()
    """.replace("HEADS", str(heads)))
    assert code == 0 and f.steps == 20 and "flex_attention" in said, said
    assert max(f.events) < 16 << 20
