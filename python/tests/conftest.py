# SPDX-License-Identifier: MIT
import os
import socket
import subprocess
import sys
import textwrap

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


@pytest.fixture
def capture(tmp_path, monkeypatch, capfd):
    """capture(body, *arguments, options=[...]): what the command line does with a script. Gives (exit code, what it said, the
    file or None). In this process, which has imported PyTorch already: the capture itself is always in one of its own. No clock ends it
    where `options` name none: a machine that is busy with much else has a tenth of a core for it."""
    from radrm.capture.__main__ import main
    from reader import File
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    def run(body, *arguments, options=(), name="train.py", words=None):
        script, out = tmp_path / name, tmp_path / "out.radcap"
        script.write_text(textwrap.dedent(body))
        out.unlink(missing_ok=True)
        capfd.readouterr()
        code = main(["-o", str(out), "--clock", "1000", *options, "--", *(words or [str(script)]), *arguments])
        said = capfd.readouterr()
        return code, said.out + said.err, File(out.read_bytes()) if out.exists() else None
    return run


@pytest.fixture
def own_address():
    """This machine's own in a network."""
    with socket.socket(type=socket.SOCK_DGRAM) as one:
        try:
            one.connect(("192.0.2.1", 9))  # which sends nothing
        except OSError:
            pytest.skip("this machine is in no network")
        return one.getsockname()[0]


@pytest.fixture
def busy_core():
    """One core for this process and what it starts, and seven others that want it."""
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cores)})
    others = [subprocess.Popen([sys.executable, "-c", "while True: pass"], start_new_session=True) for _ in range(7)]
    yield
    for p in others:
        p.kill()
        p.wait()
    os.sched_setaffinity(0, cores)
