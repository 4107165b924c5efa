# SPDX-License-Identifier: MIT
"""Decompositions and solvers: what they bring besides their results."""
import pytest

torch = pytest.importorskip("torch")

from reader import peak  # noqa: E402

SOLVER = 512
GEMM = (5, 1)
N = 512
MATRIX = 4 * N * N


@pytest.fixture
def once(traced):
    """once(use): the file of a capture whose step calls use(a square matrix)."""
    def find(use, *batch):
        def setup():
            x = torch.randn(*batch, N, N, device="cuda")
            return lambda: use(x)
        return traced(setup)
    return find


def products(f):
    return sum((kind, argument) == GEMM for kind, argument, _ in f.records)


L = torch.linalg


@pytest.mark.parametrize("use, solver, multiplies", [
    (lambda x: x @ x, False, True), (L.qr, True, False), (L.svd, True, False), (L.eigvalsh, True, False), (L.cholesky, True, False),
    (L.inv, True, True), (lambda x: L.solve(x, x), True, True), (L.lu_factor, True, False), (L.slogdet, True, True), (L.pinv, True, True),
    (lambda x: L.solve_triangular(x, x, upper=True), False, True), (L.matrix_exp, False, True), (lambda x: x @ x[0], False, True),
    (lambda x: x[0] @ x[1], False, True), (lambda x: torch.addmv(x[0], x, x[1]), False, True),
    (lambda x: torch.outer(x[0], x[1]), False, False)],
    ids=["product", "qr", "svd", "eigvalsh", "cholesky", "inv", "solve", "lu", "slogdet", "pinv", "triangle", "exp", "vector",
         "dot", "addmv", "outer"])
def test_libraries(once, use, solver, multiplies):
    f = once(use)
    assert (bool(f.header["flags"] & SOLVER), products(f) > 0) == (solver, multiplies)
    assert f.header["flags"] & ~SOLVER == 0


@pytest.mark.parametrize("batch", [(), (8,)], ids=["one", "many"])
def test_workspaces(once, batch):
    """Matrices of a batch go one by one. Of 1024 lines a history had 6 MiB more than matrix and results (qr), 8.6 (eigh), 12.3 (svd)."""
    f = once(L.qr, *batch)
    assert peak(f.events) == f.peak_bytes == 3 * MATRIX * (batch or (1,))[0] + (3 << 20) + 3 * MATRIX


def test_learning_through_one(capture):
    code, said, f = capture("""
        import torch
        a = torch.randn(64, 64, device="cuda", requires_grad=True)
        optimizer = torch.optim.SGD([a], lr=0.1)
        for _ in range(100):
            torch.linalg.cholesky(a @ a.mT + torch.eye(64, device="cuda")).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
    """)
    assert code == 0 and f.header["flags"] == SOLVER, said


@pytest.mark.parametrize("use", [lambda x: L.lstsq(x, x), torch.geqrf, lambda x: torch.cholesky_inverse(x)],
                         ids=["lstsq", "geqrf", "cholesky_inverse"])
def test_what_fake_tensors_do_not_know(once, use):
    """Its memory is known all the same."""
    f = once(use)
    assert f.header["flags"] == SOLVER and not f.notes
