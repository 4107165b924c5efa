# SPDX-License-Identifier: MIT
"""RAD-RM's Python side: only what PyTorch itself must be asked, a lease for a Python that runs already, and one loader for many
tasks (radrm.feed)."""

__all__ = ["Lease", "LeaseError", "lease"]


def __getattr__(name):  # what a capture runs beside a script needs none of it
    if name == "feed":
        import importlib
        return importlib.import_module(".feed", __name__)
    if name not in __all__:
        raise AttributeError(f"module 'radrm' has no attribute {name!r}")
    from . import _lease
    return getattr(_lease, name)
