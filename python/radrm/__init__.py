# SPDX-License-Identifier: MIT
"""RAD-RM's Python side: only what PyTorch itself must be asked, and a lease for a Python that runs already."""

__all__ = ["Lease", "LeaseError", "lease"]


def __getattr__(name):  # what a capture runs beside a script needs none of it
    if name not in __all__:
        raise AttributeError(f"module 'radrm' has no attribute {name!r}")
    from . import _lease
    return getattr(_lease, name)
