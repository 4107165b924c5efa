# SPDX-License-Identifier: MIT
"""What a capture does to files nobody else sees."""
import os
import pathlib
import pwd
import shutil
import sys
import tempfile
import textwrap

import pytest

torch = pytest.importorskip("torch")

from radd import BUILD  # noqa: E402
from radrm.capture import CaptureError, Limits, aside, run  # noqa: E402

LIBRARY = os.path.join(BUILD, "libradcapture.so")
TRAIN = """
import os, pathlib, shutil, sqlite3, subprocess, sys, torch
model = torch.nn.Linear(8, 8).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
def train(steps=9):
    for step in range(steps):
        model(torch.randn(4, 8).cuda()).sum().backward()
        optimizer.step()
"""


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    """Its own, and libradcapture.so of the build. Skips where the machine does not permit any of this."""
    monkeypatch.setenv("RADRM_CAPTURE_LIBRARY", LIBRARY)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    with tempfile.TemporaryDirectory() as folder:
        try:
            run(lambda: None, Limits(), aside=aside.Aside(LIBRARY, folder, 16, must=True))
        except CaptureError as e:
            pytest.skip(str(e))


@pytest.fixture
def elsewhere():
    """Neither in the working folder, nor in $HOME, nor for temporary files."""
    folder = tempfile.mkdtemp(dir=pwd.getpwuid(os.getuid()).pw_dir, prefix=".rad-test-")
    yield pathlib.Path(folder)
    shutil.rmtree(folder)


def tree(folder):
    """All that is in it: path -> content, None: a folder."""
    return {path.relative_to(folder): path.read_bytes() if path.is_file() else None for path in sorted(folder.rglob("*"))
            if "cache" not in path.parts and path.name not in ("train.py", "out.radcap")}


def test_files_are_as_they_were(capture, tmp_path):
    """Whatever the script does to them, and whoever does it for the script."""
    (tmp_path / "results").mkdir()
    for name in ("results/old.csv", "log.txt", "study.db", "renamed.txt", "removed.txt"):
        (tmp_path / name).write_text("of an earlier run")
    (tmp_path / "study.db").unlink()
    before = tree(tmp_path)
    code, said, f = capture(TRAIN + textwrap.dedent("""
        shutil.rmtree("results")
        os.makedirs("results")
        log, table = open("log.txt", "a"), open("results/old.csv", "w")
        os.rename("renamed.txt", "now.txt")
        pathlib.Path("removed.txt").unlink()
        sqlite3.connect("study.db").execute("create table trials(value)")
        train()
        print("a line", file=log, flush=True)
        print("a row", file=table, flush=True)
        subprocess.run("mkdir native && cp log.txt native && echo more >> log.txt", shell=True, check=True)
        assert open("native/log.txt").read().endswith("a line\\n") and open("log.txt").read().endswith("more\\n")
        assert sorted(os.listdir()) == sorted({*os.listdir(), "native", "now.txt", "study.db"} - {"renamed.txt", "removed.txt"})
        sys.exit(3)
    """))
    assert code == 0 and "3 steps" not in said, said
    assert tree(tmp_path) == before


@pytest.mark.parametrize("change", [
    "os.rename('old', 'now')\nassert open('now/deep/a').read() == 'a'", "os.makedirs('now')\npathlib.Path('old').replace('now')",
    "shutil.move('old', 'now')", "os.rename('/tmp/' + given, 'now')",
    "os.replace('/tmp/' + given, 'link')\nassert not os.path.islink('link')",
])
def test_what_others_could_rename_can_be(capture, tmp_path, change):
    """An overlay renames no folder from below it, and what is not laid aside is another file system."""
    (tmp_path / "old" / "deep").mkdir(parents=True)
    (tmp_path / "old" / "deep" / "a").write_text("a")
    (tmp_path / "link").symlink_to("old/deep/a")
    before = tree(tmp_path)
    with tempfile.NamedTemporaryFile(dir="/tmp", delete=False) as given:
        code, said, _ = capture(f"{TRAIN}\ngiven = {os.path.basename(given.name)!r}\n{change}\ntrain()\n")
    pathlib.Path(given.name).unlink(missing_ok=True)
    assert code == 0, said
    assert tree(tmp_path) == before


def test_temporary_files(capture, tmp_path):
    """Some have no name, and are made by opening their folder."""
    code, said, _ = capture(TRAIN + textwrap.dedent("""
        import tempfile
        for folder in (None, ".", os.path.expanduser("~")):
            for kind in (tempfile.TemporaryFile, tempfile.NamedTemporaryFile):
                with kind(dir=folder) as f:
                    f.write(b"x")
        train()
    """))
    assert code == 0, said


@pytest.mark.parametrize("change", [
    "open(f'{there}/was', 'w')", "os.makedirs(f'{there}/new/deep')", "os.remove(f'{there}/was')", "shutil.rmtree(there)",
    "os.rename(f'{there}/was', f'{there}/is')", "pathlib.Path(there, 'was').chmod(0o600)", "os.truncate(f'{there}/was', 0)",
    "sqlite3.connect(f'{there}/new')", "os.chdir(there); open('new', 'w')", "shutil.move(f'{there}/was', 'was')",
    "os.chdir(there); subprocess.run(['touch', 'new'], check=True)", "subprocess.run('touch new', shell=True, cwd=there, check=True)",
])
def test_nor_is_anything_changed_elsewhere(capture, elsewhere, change):
    (elsewhere / "was").write_text("before")
    code, said, _ = capture(f"{TRAIN}\nthere = {str(elsewhere)!r}\n{change}\ntrain()\n")
    assert code == 0, said
    assert tree(elsewhere) == {pathlib.Path("was"): b"before"} and (elsewhere / "was").stat().st_mode & 0o777 == 0o644


@pytest.mark.parametrize("given", ["{}", "--out={}", "--out={}/new/deep"])
def test_a_folder_that_the_command_names(capture, elsewhere, given):
    """Native code may write there, of which no audit event tells."""
    code, said, _ = capture(TRAIN + "os.mkfifo(sys.argv[1].split('=')[-1].replace('/new/deep', '') + '/new')\ntrain()\n",
                            given.format(elsewhere))
    assert code == 0 and not os.listdir(elsewhere), said


def test_and_one_that_a_shell_is_told(capture, elsewhere):
    code, said, _ = capture(TRAIN + f"assert os.path.isdir('{elsewhere}/new')\ntrain()\n",
                            words=["sh", "-c", f"mkdir -p {elsewhere}/new; {sys.executable} train.py >{elsewhere}/log"])
    assert code == 0 and not os.listdir(elsewhere), said


def test_nor_is_anything_changed_elsewhere_by_what_a_command_starts(capture, elsewhere):
    """Its Python may lay more aside, with rights that it was passed on."""
    code, said, _ = capture(f"{TRAIN}\nopen('{elsewhere}/new', 'w')\ntrain()\n", words=["sh", "-c", f"{sys.executable} train.py"])
    assert code == 0 and not os.listdir(elsewhere), said


def test_what_was_open_before_is_not_changed(capture, elsewhere):
    """A descriptor of a folder leads past what is laid over the folder."""
    (elsewhere / "was").write_text("before")
    code, said, _ = capture(f"{TRAIN}\nhere = os.open({str(elsewhere)!r}, os.O_RDONLY)\nos.remove('was', dir_fd=here)\ntrain()\n")
    assert code == 1 and "lays this folder aside only now" in said, said
    assert (elsewhere / "was").exists()


def test_caches_stay(capture, tmp_path):
    """They are made to be shared, and what was downloaded need not be again."""
    code, said, _ = capture(TRAIN + "os.makedirs(os.environ['XDG_CACHE_HOME'] + '/hub')\ntrain()\n")
    assert code == 0 and (tmp_path / "cache" / "hub").is_dir(), said


def test_what_a_script_makes_is_no_reason_to_capture_it_again(capture):
    body = TRAIN + "os.makedirs('results')\nprint(os.listdir())\ntrain()\n"
    assert ["from the cache" in capture(body)[1] for _ in range(2)] == [False, True]


def test_a_command_has_one_world(capture, tmp_path):
    """What one of its programs writes the next one reads."""
    code, said, _ = capture(TRAIN + "assert open('results/given').read() == 'here\\n'\ntrain()\nopen('results/mine', 'w')\n",
                            words=["sh", "-c", f"mkdir results && echo here > results/given && {sys.executable} train.py"])
    assert code == 0 and not (tmp_path / "results").exists(), said


def test_in_place(capture, tmp_path):
    code, said, _ = capture(TRAIN + "open('made', 'w')\ntrain()\n", options=["--in-place"])
    assert code == 0 and (tmp_path / "made").exists(), said


def test_where_it_cannot_be(capture, tmp_path, monkeypatch):
    """The working folder is for temporary files."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    tempfile.tempdir = None
    try:
        code, said, _ = capture(TRAIN + "open('made', 'w')\ntrain()\n", options=["--aside"])
        assert code == 1 and "what the script writes cannot be laid aside here" in said and not (tmp_path / "made").exists()
        real = "rad: capture: what the script writes is written for real, for in this folder it cannot be laid aside"
        code, said, _ = capture(TRAIN + "open('made', 'w')\ntrain()\n")
        assert code == 0 and (tmp_path / "made").exists() and real in said, said
        assert real not in capture(TRAIN + "open('made', 'w')\ntrain()\n")[1]  # from the cache: nothing ran
        code, said, _ = capture(TRAIN + "open('too', 'w')\ntrain()\n", options=["-v"], words=["sh", "-c", f"{sys.executable} train.py"])
        assert code == 0 and (tmp_path / "too").exists() and said.count(real) == 1, said
        assert real not in capture(TRAIN + "open('third', 'w')\ntrain()\n", options=["--in-place"])[1]
    finally:
        tempfile.tempdir = None


def test_a_large_file_is_mapped_and_not_copied(capture, tmp_path, monkeypatch):
    np = pytest.importorskip("numpy")
    monkeypatch.setattr(aside, "LARGE", 100)
    np.arange(64, dtype="uint8").tofile(tmp_path / "small")
    np.arange(128, dtype="uint8").tofile(tmp_path / "large")
    code, said, _ = capture(TRAIN + textwrap.dedent("""
        import numpy as np
        for name in ("small", "large"):
            data = np.memmap(name)
            data[0] = 77
            assert data[0] == 77 and data.mode == ("r+" if name == "small" else "c")
        train()
    """), options=["--in-place"])
    assert code == 0, said
    assert (tmp_path / "small").read_bytes()[0] == 77 and (tmp_path / "large").read_bytes()[0] == 0


def test_no_more_is_written_than_is_allowed(capture):
    code, said, _ = capture(TRAIN + textwrap.dedent("""
        with open("large", "wb") as f:
            for _ in range(100):
                f.write(bytes(1 << 20))
        train()
    """), options=["--memory", "80"])
    assert code == 1 and ("No space left" in said or "File too large" in said), said
