# SPDX-License-Identifier: MIT
import os
import sys

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.dirname(HERE), HERE]


try:  # slow to import, and every capture begins as a copy of this process
    import torch
    from torch._subclasses.fake_tensor import FakeTensorMode
    import radrm.capture.session  # noqa: F401
    FakeTensorMode()
    torch.set_num_threads(1)
except ImportError:
    pass


@pytest.fixture(autouse=True)
def usual_precision():
    """Captures begin as copies of this process: what one test decides about TF32 is not for the next."""
    yield
    if "torch" in sys.modules:
        torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32 = False, True


@pytest.fixture
def traced():
    """traced(setup, **options): the file of a capture, read back, with its notes."""
    from radrm import capture
    from reader import File

    def trace(setup, **options):
        found = capture.trace(setup, timeout=120, **options)
        file = File(found.data)
        file.notes, file.peak_bytes = found.notes, found.peak_bytes
        return file
    return trace
