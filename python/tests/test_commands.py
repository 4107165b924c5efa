# SPDX-License-Identifier: MIT
"""Scripts that do not train, scripts that ask about the GPU by other ways, other frameworks, and commands that are not Python."""
import os
import stat
import subprocess
import sys
import textwrap

import pytest

torch = pytest.importorskip("torch")

import radrm  # noqa: E402
from radd import BUILD  # noqa: E402
from test_script import COMPILED, train  # noqa: E402

EVALUATE = """
    import torch
    from torch import nn
    model = nn.Sequential(nn.Conv2d(3, 64, 3), nn.ReLU(), nn.Flatten(), nn.Linear(64 * 30 * 30, 10)).cuda().eval()
    right = 0
    with torch.no_grad():
        for i in range(BATCHES):
            x = torch.randn(32, 3, 32, 32).cuda()
            right += (model(x).argmax(1) == 3).sum().item()
    print(f"{right / 32}")
"""


def test_what_needs_no_pytorch_does_not_load_it():
    """Commands that are not Python, and captures that are kept, wait for no import of it, and need none."""
    code = "import sys, radrm.capture.__main__; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}).returncode == 0


@pytest.mark.parametrize("batches, grad", [(5, "no_grad"), (10 ** 9, "no_grad"), (5, "inference_mode"), (5, "enable_grad")])
def test_evaluation(capture, batches, grad):  # noqa: F811
    """As long as it takes more, then no longer: a script may evaluate for hours."""
    code, said, f = capture(EVALUATE.replace("BATCHES", str(batches)).replace("no_grad", grad))
    assert code == 0 and "forward passes without an optimizer" in said, said
    assert (f.header["batch"], f.header["model"], f.header["optimizer"], f.header["flags"]) == (32, "Sequential", "", 0), said
    assert 3 <= [p for _, p in f.marks].count(1) <= 200
    assert f.events.count(32 * 64 * 30 * 30 * 4) >= 5


def test_inference_mode_takes_what_no_grad_takes(traced):
    def setup(mode):
        layer = torch.nn.TransformerEncoderLayer(64, 4).cuda()
        lstm, conv = torch.nn.LSTM(64, 64).cuda(), torch.nn.Conv1d(16, 8, 3, padding=1).cuda()

        def step():
            with getattr(torch, mode)():
                y = layer(torch.randn(8, 16, 64).to("cuda"))
                torch.softmax(conv(lstm(y)[0]).to(torch.bfloat16).reshape(8, -1), 1)[:, 0].sum().item()
        return step
    one, other = (traced(lambda mode=mode: setup(mode)) for mode in ("inference_mode", "no_grad"))
    assert one.header["flags"] == 0 and one.iteration(1) == other.iteration(1)


def test_memory_that_grows_is_seen_to_its_end(capture):  # noqa: F811
    """As in the generation of text: what is kept grows with every token."""
    code, said, f = capture("""
        import torch
        model, kept = torch.nn.Linear(256, 256).cuda(), []
        with torch.no_grad():
            for token in range(300):
                kept.append(model(torch.randn(1, 256).cuda()))
    """)
    assert code == 0 and f.header["growth"] > 0
    assert sum(1 for p in f.marks if p[1] == 1) == 300


def test_a_first_evaluation_does_not_end_the_capture(capture):  # noqa: F811
    first = "\n    with torch.no_grad():\n        for i in range(500): model(torch.randn(16, 10).cuda())\n    for epoch"
    code, said, f = capture(train().replace("\n    for epoch", first))
    assert code == 0 and f.header["optimizer"] == "sgd" and [p for _, p in f.marks].count(4) == 3, said


ASKS = """
    import subprocess, sys, torch
    total = subprocess.check_output(["nvidia-smi", "--query-gpu=memory.total,name", "--format=csv,noheader,nounits"], text=True)
    assert total.strip() == "143771, NVIDIA H200", total
    assert "MiB" in subprocess.check_output("nvidia-smi -i 0 --query-gpu=memory.free --format=csv", shell=True, text=True)
    assert subprocess.check_output(["nvidia-smi", "-L"], text=True).startswith("GPU 0: NVIDIA H200 (UUID: GPU-")
    assert "NVIDIA-SMI" in subprocess.check_output(["nvidia-smi"], text=True)
    import pynvml
    pynvml.nvmlInit()
    handle = pynvml.nvmlDeviceGetHandleByIndex(0)
    assert pynvml.nvmlDeviceGetMemoryInfo(handle).total == 143771 << 20 and pynvml.nvmlDeviceGetName(handle) == "NVIDIA H200"
    torch.ones(1).cuda()
"""


def test_questions_about_the_gpu(capture, tmp_path):  # noqa: F811
    """Also on a machine that has another GPU, and another nvidia-smi."""
    (tmp_path / "pynvml.py").write_text("class NVMLError(Exception): pass\n" + "".join(
        f"def nvml{name}(*_): raise NVMLError('the real one')\n" for name in ("Init", "DeviceGetHandleByIndex", "DeviceGetName",
                                                                             "DeviceGetMemoryInfo")))
    code, said, _ = capture(ASKS)
    assert code == 0, said


@pytest.mark.parametrize("module, name, instead", [("jax", "JAX", "--gpu-mem"), ("tensorflow", "TensorFlow", "--model FILE"),
                                                   ("keras", "TensorFlow", "--model FILE")])
def test_other_frameworks_end_it_at_once(capture, tmp_path, module, name, instead):  # noqa: F811
    (tmp_path / f"{module}.py").write_text("raise SystemExit('imported')")
    code, said, f = capture(f"try:\n    import {module}\nexcept Exception:\n    pass\nwhile True: pass", options=["--timeout", "60"])
    assert code == 1 and f is None and f"train.py:2: uses {name}, and only PyTorch can be captured" in said and instead in said


def test_pytorch_beside_another_framework(capture, tmp_path):  # noqa: F811
    """As one that only writes its logs."""
    (tmp_path / "tensorflow.py").write_text("log = print")
    (tmp_path / "logs.py").write_text("import tensorflow as tf")
    code, said, _ = capture(train("pass").replace("import argparse", "import logs, argparse"))
    assert code == 0, said


@pytest.mark.parametrize("later", ["import core.model", "from core import model", "from core.model import torch", "from core import *"])
def test_pytorch_that_comes_after_another_framework(capture, tmp_path, later):  # noqa: F811
    """As where one of several sets of data is read by TensorFlow: it was taken for what trains."""
    (tmp_path / "tensorflow.py").write_text("data = print")
    (tmp_path / "bair.py").write_text("import tensorflow as tf")
    (tmp_path / "core").mkdir()
    (tmp_path / "core" / "__init__.py").write_text("from .parts.layers import torch" if "*" in later else "")
    (tmp_path / "core" / "parts").mkdir()
    (tmp_path / "core" / "parts" / "layers.py").write_text("from ..base import torch")
    (tmp_path / "core" / "base.py").write_text("import torch")
    (tmp_path / "core" / "model.py").write_text("from .parts.layers import torch")
    code, said, _ = capture(f"""
        import bair
        {later}
        import sys
        nn, optim = sys.modules["torch"].nn, sys.modules["torch"].optim
        model = nn.Linear(8, 8).cuda()
        optimizer = optim.SGD(model.parameters(), lr=0.1)
        for _ in range(5):
            model(model.weight).sum().backward()
            optimizer.step()
    """)
    assert code == 0, said


def test_a_module_that_is_run_may_ask_for_another_framework(capture, tmp_path):  # noqa: F811
    (tmp_path / "board.py").write_text("try:\n    import tensorflow\nexcept ImportError:\n    pass\n")
    code, said, _ = capture(train("pass").replace("import argparse", "import board, argparse"), words=["-m", "train"])
    assert code == 0, said


def test_packages_in_a_folder_are_not_the_scripts_own(tmp_path, monkeypatch):
    """As `pip install --target` puts them there."""
    from radrm.capture import reads, source
    folder, own = tmp_path / "packages", tmp_path / "own"
    (folder / "board-1.0.dist-info").mkdir(parents=True)
    (folder / "board-1.0.dist-info/RECORD").write_text("board.py,,")
    for path in (folder, own):
        monkeypatch.syspath_prepend(str(path))
    reads.targets.cache_clear()
    assert not source.is_own(str(folder / "board.py")) and source.is_own(str(own / "train.py"))
    assert str(folder / "board.py").startswith(reads.installed()) and not str(own / "train.py").startswith(reads.installed())
    reads.targets.cache_clear()


# --- commands ---

@pytest.fixture
def programs(tmp_path, monkeypatch):
    """A folder first in PATH. programs(name, text): a program in it."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    for name in ("python", "python3"):
        (folder / name).symlink_to(sys.executable)

    def add(name, text):
        (folder / name).write_text(text)
        (folder / name).chmod(stat.S_IRWXU)
    return add


def width(f):
    return (f.header["params"] - 2) // 13  # of train()


@pytest.mark.parametrize("words", [
    ["env", "X=1", sys.executable, "train.py", "--width", "48"], ["bash", "run.sh", "48"],
    ["uv", "run", "train.py", "--width", "48"], ["nice", "-n", "1", sys.executable, "-u", "train.py", "--width=48"],
])
def test_commands(capture, programs, tmp_path, words):  # noqa: F811
    """`uv run` stands for whatever enters an environment and runs Python there."""
    programs("uv", f"#!/bin/sh\nshift\nexec {sys.executable} \"$@\"\n")
    (tmp_path / "run.sh").write_text(f"""
        set -e
        nvidia-smi --query-gpu=name --format=csv,noheader | grep -q H200
        {sys.executable} -c 'print(1)' | grep -q 1
        port=$({sys.executable} port.py)
        test "$port" = 1234
        {sys.executable} train.py --width $1
        touch too-late
    """)
    (tmp_path / "port.py").write_text("print(1234)")
    code, said, f = capture(train(), words=words)
    assert code == 0 and width(f) == 48 and f.header["optimizer"] == "sgd", said
    assert not (tmp_path / "too-late").exists()


@pytest.mark.parametrize("line", [
    "export PYTHONPATH=$PWD/own:$PYTHONPATH; python train.py", "PYTHONPATH=own python train.py", "export PYTHONPATH=own; ./train.py",
    "exec env PYTHONPATH=own nice python train.py", "python train.py",
])
def test_commands_that_set_the_path_of_modules(capture, tmp_path, monkeypatch, line):  # noqa: F811
    """They keep what they say, and are captured all the same; so is what was said outside. What was to be loaded before is."""
    monkeypatch.setenv("RADRM_CAPTURE_LIBRARY", os.path.join(BUILD, "libradcapture.so"))  # as `rad capture` does
    monkeypatch.setenv("PATH", os.path.dirname(sys.executable) + ":/usr/bin:/bin")  # whatever `rad` is there
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "sizes.py").write_text("import os\nWIDTH = 48 if os.environ['LD_PRELOAD'] == 'libm.so.6' else 16\n")
    (tmp_path / "run.sh").write_text(line.replace("python ", f"{sys.executable} "))
    monkeypatch.setenv("LD_PRELOAD", "libm.so.6")
    if line == "python train.py":
        monkeypatch.setenv("PYTHONPATH", f"own:{os.environ.get('PYTHONPATH', '')}")
    body = f"#!{sys.executable}\nimport os, sizes\nassert 'own' in os.environ['PYTHONPATH'] and 'RADRM_CAPTURE_LIBRARY' not in os.environ\n"
    body += textwrap.dedent(train().replace("args.width", "sizes.WIDTH"))
    (tmp_path / "train.py").write_text(body)
    (tmp_path / "train.py").chmod(stat.S_IRWXU)
    code, said, f = capture(body, words=["bash", "run.sh"])
    assert code == 0 and width(f) == 48, said


@pytest.mark.parametrize("line", [
    "{} train.py <<EOF\nWIDTH\nEOF", "echo WIDTH > width; {} train.py < width", "(read; exec {} train.py) <<EOF\n9\nWIDTH\nEOF"])
def test_what_a_command_gives_it_to_read(capture, line):  # noqa: F811
    """The cache knows it by what is still to be read there."""
    body = "width = int(input())\n" + textwrap.dedent(train()).replace("args.width", "width")
    for width_, known in ((48, False), (64, False), (48, True)):
        code, said, f = capture(body, words=["bash", "-c", line.replace("WIDTH", str(width_)).format(sys.executable)])
        assert code == 0 and width(f) == width_ and ("from the cache" in said) == known, said


def test_a_pipe_into_which_more_may_come(capture):  # noqa: F811
    """The capture waits for nobody who may still write, and does not know what the script will read."""
    body = "width = int(input())\n" + textwrap.dedent(train()).replace("args.width", "width")
    words = ["bash", "-c", f"(echo 48; exec sleep 1000) | {sys.executable} train.py"]
    found = [capture(body, words=words) for _ in range(2)]
    assert [(code, width(f), "from the cache" in said) for code, said, f in found] == [(0, 48, False)] * 2, found


def test_a_library_that_is_missing_is_told(capture, monkeypatch):  # noqa: F811
    monkeypatch.delenv("RADRM_CAPTURE_LIBRARY", raising=False)
    monkeypatch.setattr("radrm._libraries.find", lambda name: None)
    code, said, _ = capture("print(1)", words=["env", "PYTHONPATH=own", sys.executable, "train.py"])
    assert code == 4 and "used a GPU (libradcapture.so is not where RAD-RM is installed, so a Python" in said, said


@pytest.mark.parametrize("line, told", [
    ("exec {} -I train.py", True), ("env -i {} short.py", True), ("{} -I sum.py; {} train.py --width 48", False),
    ("{} -c 'import torch; print(sum(range(3 * 10 ** 8)))'; {} train.py --width 48", False)])
def test_a_python_that_the_hook_does_not_reach(capture, tmp_path, monkeypatch, line, told):  # noqa: F811
    """It trained on the CPU until the limit; that it did not use a GPU was no answer."""
    monkeypatch.setattr("radrm.capture.unreached.ENOUGH", 4)
    (tmp_path / "short.py").write_text("import torch\nsum(range(10 ** 8))\n")
    (tmp_path / "sum.py").write_text("sum(range(3 * 10 ** 8))\n")
    (tmp_path / "run.sh").write_text(line.replace("{}", sys.executable))
    body = train().replace("import argparse", "import torch\n    while not torch.cuda.is_available(): pass\n    import argparse")
    code, said, f = capture(body, words=["bash", "run.sh"], options=["--timeout", "60"])
    if told:
        assert code == 1 and "y: runs PyTorch where the capture does not reach it, and so sees no GPU" in said, said
    else:
        assert code == 0 and width(f) == 48, said


@pytest.mark.parametrize("lines, told", [
    ("python other.py\npython -c 'print(1)'\n# python train.py --width 64\necho pip install python\npython train.py --width 48", None),
    ("for i in 1 2; do echo $i; done; python train.py --width 48", None),
    ("python train.py --width 48\npython train.py --width 64", "runs Python again after this"),
    ("for w in 48 64; do\n  python train.py --width $w\ndone", "in a loop"),
    ("python other.py &\nwhile [ ! -e began ]; do sleep 0.1; done\nexec python train.py --width 48", "2 scripts ran side by side"),
])
def test_what_a_command_trains_besides(capture, tmp_path, lines, told):  # noqa: F811
    """A claim for the first is not to be the limit of what comes after it."""
    (tmp_path / "other.py").write_text("open('began', 'w').close()" + "; import time; time.sleep(100)" * ("&" in lines))
    (tmp_path / "run.sh").write_text(lines.replace("python ", f"{sys.executable} "))
    for _ in range(2):  # made, and from the cache
        code, said, f = capture(train(), words=["bash", "-e", "run.sh"])
        assert (code, width(f), f.header["flags"]) == (0, 48, 128 if told else 0) and (told or "captured") in said + "captured", said


@pytest.mark.parametrize("text, words, script", [
    ("python a.py # b\n#c", ["nice", "sh", "-x", "F"], "python a.py \n"), ("", ["bash", "-c", "python a.py", "F"], "python a.py"),
    ("#!/usr/bin/env bash\na", ["./F"], "\na"), ("#!/bin/sh -e\na", ["./F", "sh"], ""), ("#!/bin/zsh\na", ["./F"], "\na"),
    ("#!/usr/bin/python\nbash", ["./F"], ""), ("a", ["bash"], ""), ("a", ["bash", "-c"], ""),
    ("", ["bash", "-lc", "a", "F"], "a"), ("b", ["bash", "-euo", "pipefail", "-c", "a"], "a"),
    ("a", ["bash", "+x", "-euo", "pipefail", "--norc", "F", "-c", "b"], "a"), ("a", ["bash", "no-such-file"], ""), ("\xff\0", ["./F"], ""),
])
def test_what_a_shell_is_to_run(tmp_path, monkeypatch, text, words, script):
    from radrm.capture.command import script_of
    monkeypatch.chdir(tmp_path)
    (tmp_path / "F").write_text(text)
    assert script_of(words) == script


def test_what_is_said_is_cut_to_what_a_pipe_takes(tmp_path):
    """A letter may take six bytes: of what was cut to a thousand of these there was no end."""
    os.mkfifo(tmp_path / "pipe")
    code = """if True:
        import os
        from radrm.capture import command
        reader = os.open("pipe", os.O_RDWR)
        command.tell("pipe", {"error": "\u00e4" * 5000, "notes": ["a" * 5000], "code": 1})
        said = command.json.loads(os.read(reader, 1 << 16))
        assert said["notes"] == [] and said["code"] == 1 and len(said["error"]) > 300, said
    """
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
                   timeout=100, check=True)


@pytest.mark.parametrize("words", ["['bash', '-c', 'for ' * (1 << 18)]", "['bash', 'pipe']"])
def test_a_command_is_looked_through_at_once(tmp_path, words):
    """However long it is: each `for` was followed to the end. Out of a pipe nothing comes any more."""
    os.mkfifo(tmp_path / "pipe")
    code = f"from radrm.capture.command import others; others({words}, 1, 0)"
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
                   timeout=100, check=True)


def test_a_command_is_answered_from_the_cache(capture):  # noqa: F811
    words = ["env", "WIDTH=1", sys.executable, "train.py"]
    assert ["from the cache" in capture(train(), words=words)[1] for _ in range(2)] == [False, True]


@pytest.mark.parametrize("script, code, told", [
    ("exit 4", 1, "exit code 4"), ("true", 4, "nothing that it ran with Python used a GPU"),
    (f"{sys.executable} train.py --no-such-option; true", 4, "used a GPU"),
    (f"{sys.executable} broken.py", 1, "broken.py:1"), ("sleep 100", 1, "time:"),
])
def test_commands_that_come_to_nothing(capture, tmp_path, script, code, told):  # noqa: F811
    (tmp_path / "broken.py").write_text("import torch; torch.ones(1).cuda(); raise ValueError('broken')")
    found, said, f = capture(train(), words=["bash", "-c", script], options=["--timeout", "60" if "100" not in script else "2"])
    assert (found, f) == (code, None) and told in said, said


def test_a_script_by_whatever_name(capture, tmp_path):  # noqa: F811
    """`python bin/train`: what is no program by itself is Python's."""
    (tmp_path / "run").write_text("import runpy; runpy.run_path('train.py', run_name='__main__')")
    code, said, f = capture(train(), words=["run", "--width", "48"])
    assert code == 0 and width(f) == 48, said


def test_a_command_that_is_not_there(capture):  # noqa: F811
    code, said, _ = capture(train(), words=["no-such-program", "train.py"])
    assert code == 1 and "no-such-program: No such file" in said


def test_accelerate(capture, tmp_path, monkeypatch):  # noqa: F811
    """Its command line is read, not run: it need not be installed."""
    body = train("import os; assert (os.environ['ACCELERATE_MIXED_PRECISION'], os.environ.get('WORLD_SIZE')) == ('bf16', COUNT)")
    words = ["accelerate", "launch", "--mixed_precision", "bf16"]
    code, said, f = capture(body.replace("COUNT", "None"), words=[*words, "train.py", "--width", "40"])
    assert code == 0 and width(f) == 40, said
    (tmp_path / "two.yaml").write_text("compute_environment: LOCAL_MACHINE\nnum_processes: 2\nmixed_precision: 'bf16'\n")
    code, said, f = capture(body.replace("COUNT", "'2'").replace("== 1", "== 2"),
                            words=["-m", "accelerate.commands.launch", "--config_file", "two.yaml", "train.py"])
    assert code == 0, said
    for sharded in (["--use_fsdp", "train.py"], ["--config_file", "three.yaml", "train.py"], ["--config_file", "no.yaml", "train.py"]):
        (tmp_path / "three.yaml").write_text("distributed_type: FSDP\n")
        code, said, _ = capture(body, words=[*words, *sharded])
        assert code == 1 and ("sharded over several GPUs" in said or "no.yaml" in said)


@pytest.mark.parametrize("words, processes, rest, given", [
    ("accelerate launch --multi_gpu --num_processes=4 --num_machines 1 -m pkg.train x", 4, ["-m", "pkg.train", "x"], "4"),
    ("-u -m torch.distributed.run --nproc-per-node 2 train.py", 2, ["train.py"], "2"),
    ("train.py accelerate launch", 0, ["train.py", "accelerate", "launch"], None),
])
def test_launchers(words, processes, rest, given):
    from radrm.capture.commands import resolve
    found = resolve(words.split(), 1)
    assert found[:2] == (processes, rest) and found[2].get("WORLD_SIZE") == given


@pytest.mark.parametrize("named", ["python", "itself"])
def test_a_script_that_is_a_program(tmp_path, named):
    """`python train`, whatever else that file may be: it was looked for in PATH."""
    script = tmp_path / "train"
    script.write_text(f"#!{sys.executable}\n" + textwrap.dedent("""
        import torch
        layer = torch.nn.Linear(4, 4).cuda()
        optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
        for _ in range(7):
            layer(torch.randn(2, 4).cuda()).sum().backward()
            optimizer.step()
    """))
    script.chmod(0o755)
    words = [sys.executable, "train"] if named == "python" else ["./train"]
    done = subprocess.run([BUILD + "/rad", "capture", "--no-cache", "-o", "x.radcap", "--", *words], cwd=tmp_path, text=True,
                          capture_output=True, env={**os.environ, "PATH": os.path.dirname(sys.executable) + os.pathsep + os.environ["PATH"],
                               "RAD_PYTHONPATH": os.path.dirname(os.path.dirname(radrm.__file__))})
    assert done.returncode == 0 and "7 steps in all" in done.stdout, done.stderr
