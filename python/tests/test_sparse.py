# SPDX-License-Identifier: MIT
"""Sparse tensors on the GPU: their indices and values, and what is made of them."""
import pytest

torch = pytest.importorskip("torch")

from reader import sizes  # noqa: E402

N, E, D = 1000, 8192, 256
INDICES, VALUES, DENSE = 2 * 8 * E, 4 * E, 4 * N * D
UNKNOWN = 2

GRAPH = f"""
    import torch
    from torch import nn
    N, E, D = {N}, {E}, {D}
    index, numbers = torch.randint(0, N, (2, E)), torch.ones(E)
    graph = GRAPH
    model = nn.Linear(D, D, bias=False).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x = torch.randn(N, D, device="cuda")
    for step in range(100):
        USE.sum().backward()
        optimizer.step()
        optimizer.zero_grad()
"""
COO = "torch.sparse_coo_tensor(index, numbers, (N, N))"


@pytest.mark.parametrize("graph, parts", [
    (f"{COO}.cuda()", [INDICES, VALUES]), (f"{COO}.coalesce().to('cuda')", None), (f"{COO[:-1]}, device='cuda')", [INDICES, VALUES]),
    (COO.replace("index", "index.cuda()").replace("numbers", "numbers.cuda()"), [INDICES, VALUES]),
    (f"{COO}.cuda().coalesce()", [INDICES, VALUES]), (f"{COO}.to_sparse_csr().cuda()", None),
    (f"{COO}.cuda().to_sparse_csr()", [8 * (N + 1), 8 * E, VALUES]),
    ("torch.eye(N).to_sparse_csr().to('cuda')", [8 * (N + 1), 8 * N, 4 * N])],
                         ids=["moved", "sorted", "device", "parts", "sorted there", "rows", "rows there", "diagonal"])
@pytest.mark.parametrize("use", ["torch.sparse.mm(graph, model(x))", "(graph @ model(x))"], ids=["mm", "@"])
def test_products(capture, graph, parts, use):
    """Forward with the tensor, backward with its transposed one."""
    code, said, f = capture(GRAPH.replace("GRAPH", graph).replace("USE", use))
    assert code == 0 and not f.header["flags"] & UNKNOWN, said
    before = f.events[:f.marks[0][0]]
    assert parts is None or all(before.count(n) >= parts.count(n) for n in parts)
    step = f.iteration(2)
    assert step.count(DENSE) >= 4, "two products and the two results copied"
    assert sum(entry[4] for entry in f.kernels) < 3 * 2 * N * D * D, "not the work of dense matrices"


def test_values_that_learn(capture):
    code, said, f = capture(GRAPH.replace("GRAPH", "nn.Parameter(numbers.cuda())").replace("model.parameters()", "[graph]").replace(
        "USE", "torch.sparse.mm(torch.sparse_coo_tensor(index.cuda(), graph, (N, N)), x)"))
    assert code == 0, said
    assert 4 * N * N in f.iteration(2), "its gradient is masked from a dense one"


@pytest.mark.parametrize("optimizer, states", [("SparseAdam", 2), ("Adagrad", 1), ("SGD", 0)])
@pytest.mark.parametrize("use", ["table(lines).sum()", "table(lines).sum() + table(lines[:64]).sum()"], ids=["once", "twice"])
def test_tables_of_sparse_gradients(capture, optimizer, states, use):
    code, said, f = capture(f"""
        import torch
        table = torch.nn.Embedding(100000, 64, sparse=True).cuda()
        optimizer = torch.optim.{optimizer}(table.parameters(), lr=0.1)
        for step in range(100):
            lines = torch.randint(0, 100000, (512,), device="cuda")
            optimizer.zero_grad()
            ({use}).backward()
            optimizer.step()
    """)
    assert code == 0 and not f.header["flags"] & UNKNOWN, said
    assert [n for n in sizes(f.events) if n == 4 * 100000 * 64] == [4 * 100000 * 64] * (1 + states)
    once = "[" not in use
    gradient = 4 * 64 * (512 if once else 512 + 64)
    stepped = {"SparseAdam": 8, "Adagrad": 5, "SGD": 0}[optimizer]  # coalesced, masked, and what is computed of it
    assert f.iteration(2).count(gradient) == 1 + once + stepped, "itself, the lines where there are no others, and in the step"


@pytest.mark.parametrize("use, copies", [("table(lines) * weights", 0), ("table(lines)", 1)])
def test_gradients_that_are_kept(traced, use, copies):
    """Without gaps it is kept as it is: of a sum each number is the same one, which is copied."""
    def setup():
        table, weights = torch.nn.Embedding(N, D, sparse=True).cuda(), torch.randn(E, D, device="cuda")
        lines = torch.randint(0, N, (E,), device="cuda")

        def step():
            table.weight.grad = None
            eval(use, {"table": table, "weights": weights, "lines": lines}).sum().backward()
            assert table.weight.grad._nnz() == E
        return step
    step = traced(setup).iteration(1)
    assert step.count(8 * E) == copies and step.count(4 * E * D) == 2 + (not copies)


def test_gradients_that_are_added_up(traced):
    """Each backward pass leaves its numbers beside those before."""
    def setup():
        table, lines = torch.nn.Embedding(N, D, sparse=True).cuda(), torch.randint(0, N, (64,), device="cuda")

        def step():
            table.weight.grad = None
            for _ in range(3):
                table(lines).sum().backward()
            assert table.weight.grad._nnz() == 3 * 64
        return step
    assert 4 * 3 * 64 * D in traced(setup).iteration(1)


def test_blocks_of_a_mask(traced):
    """Its numbers from a dense tensor, times ones: on an H100 4 bytes, the numbers, indices and the product, of which the first
    two are given back."""
    def setup():
        dense = torch.randn(N, D, device="cuda")
        places = torch.sparse_coo_tensor(torch.randint(0, N, (1, 64)), torch.randn(64, D), (N, D)).coalesce().cuda()
        return lambda: dense.sparse_mask(places)
    step = traced(setup).iteration(0)
    values = step[1]
    assert step[0] == 4 and step[1:4] == [values, values // 4 // D * 8, values]


@pytest.mark.parametrize("make", ["graph.cpu()", "graph.to_sparse_csr().cpu()", "(graph * 2).to_dense().cpu()",
                                  "torch.sparse.sum(graph, 1).to_dense().cpu()",
                                  "torch.eye(N).cuda().to_sparse().cpu()", "torch.sparse.softmax(graph, 1).cpu()"])
def test_what_is_made_of_one(capture, make):
    body = GRAPH.replace("GRAPH", f"{COO}.coalesce().cuda()").replace("USE", "(graph @ model(x))")
    code, said, f = capture(body.replace("    for step", f"    made = {make}\n    assert made.shape[0] == N and "
                                                         f"made.device.type == 'cpu'\n    for step"))
    assert code == 0, said


def test_blocks_of_a_product(traced):
    """As on an H100: 25,600,000 bytes of zeros, of the result and of what it is made in, rows and columns in 32 bits, here with
    fewer lines."""
    def setup():
        places = torch.stack([torch.arange(E) % N, torch.arange(E) // N])
        graph = torch.sparse_coo_tensor(places, torch.ones(E), (N, N)).coalesce().cuda()
        x = torch.randn(N, D, device="cuda")
        return lambda: torch.sparse.mm(graph, x)
    f = traced(setup)
    before = INDICES + VALUES + DENSE
    assert f.peak_bytes - before == 3 * DENSE + 4 * E + 4 * (N + 1)


def test_blocks_of_what_is_coalesced(traced):
    """On an H100 20,000 indices took three times 160,000 bytes, and 320,511 for a sort that were given back before the values were made."""
    def setup():
        sparse = torch.sparse_coo_tensor(torch.randint(0, N, (1, E)), torch.randn(E, D), (N, D)).cuda()
        return lambda: sparse.coalesce()
    f = traced(setup)
    assert f.peak_bytes == 2 * (8 * E + 4 * E * D) + 3 * 8 * E
    assert f.iteration(0)[:4] == [8 * E] * 3 + [16 * E]
