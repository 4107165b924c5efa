# SPDX-License-Identifier: MIT
"""Decompositions and solvers of matrices: torch.linalg, and what is made of it.

They load cuSOLVER, whose memory is the driver's and not the allocator's: the file says so, and how much it is stands in
models/overheads.h. Their workspaces are the allocator's: seen in its history on an H100, PyTorch 2.11, with matrices of 256 and 1024 lines.
Which of them load cuBLAS, too, was measured there: inverses and solve do, LU does not, and triangles load cuBLAS alone. The
others that solve were not measured, and are taken to load both.
"""
from . import fileformat as ff
from .kernels import gemm
from .recorder import aten

WORKSPACE = 3 << 20  # bytes, and so many
MATRICES = 3         # times one matrix: those of a batch go one by one


def factors(recorder, func, args, kwargs, result):
    recorder.flags |= ff.SOLVER


def decomposes(recorder, func, args, kwargs, result):
    factors(recorder, func, args, kwargs, result)
    lines, columns = args[0].shape[-2:]
    recorder.scratch(WORKSPACE + MATRICES * lines * columns * args[0].element_size())


def solves(recorder, func, args, kwargs, result):
    factors(recorder, func, args, kwargs, result)
    gemm(recorder, func, args, kwargs, result)


def both(recorder, func, args, kwargs, result):
    decomposes(recorder, func, args, kwargs, result)
    gemm(recorder, func, args, kwargs, result)


NAMES = {
    factors: ("linalg_cholesky_ex", "cholesky", "linalg_lu_factor_ex", "linalg_lu"),
    decomposes: ("_linalg_eigh", "linalg_eig", "linalg_eigvals", "_linalg_eigvals", "linalg_qr", "geqrf",
                 "linalg_householder_product", "ormqr", "_linalg_svd"),
    solves: ("linalg_inv_ex", "_linalg_solve_ex", "linalg_lu_solve", "_linalg_det", "_linalg_slogdet", "linalg_ldl_factor_ex",
             "linalg_ldl_solve", "cholesky_inverse", "cholesky_solve"),
    both: ("linalg_lstsq", "linalg_pinv"),
    gemm: ("linalg_matrix_exp", "linalg_solve_triangular", "triangular_solve"),  # products within
}

AROUND = {getattr(packet, overload): note for note, names in NAMES.items()
          for packet in (getattr(aten, name, None) for name in names) if packet
          for overload in packet.overloads()}
RULES = {}
