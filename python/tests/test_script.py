# SPDX-License-Identifier: MIT
"""Unmodified scripts, limits, the cache, and values read from the GPU."""
import faulthandler
import os
import re
import signal
import subprocess
import sys
import textwrap
import time
import types

import pytest

torch = pytest.importorskip("torch")

from reader import File, peak  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
DATA_DEPENDENT, COMPILED, CUDNN_BENCHMARK, CUT_SHORT, PAIR = 1, 8, 16, 128, 256

TRAIN = """
    import argparse, sys, torch
    from torch import nn
    from torch.utils.data import DataLoader, TensorDataset
    p = argparse.ArgumentParser()
    p.add_argument("--width", type=int, default=32)
    args = p.parse_args()
    assert torch.cuda.is_available() and torch.cuda.device_count() == 1
    device = "cuda" if torch.cuda.is_available() else "cpu"
    data = TensorDataset(torch.randn(64, 10), torch.randint(2, (64,)))
    loader = DataLoader(data, batch_size=16, shuffle=True, num_workers=2, pin_memory=True)
    model = nn.Sequential(nn.Linear(10, args.width), nn.ReLU(), nn.Linear(args.width, 2)).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(1000):
        for x, y in loader:
            x, y = x.to(device, non_blocking=True), y.to(device, non_blocking=True)
            loss = nn.functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            print(f"epoch {epoch} loss {loss.item():.4f} {torch.cuda.max_memory_allocated() >> 20} MiB")
            EXTRA
        torch.save(model.state_dict(), "model.pt")
"""


def train(extra="pass"):
    return TRAIN.replace("EXTRA", extra)


def test_unmodified_script(capture, tmp_path):
    code, said, f = capture(train(), "--width", "64")
    assert code == 0, said
    assert (f.header["params"], f.header["batch"], f.header["optimizer"]) == (10 * 64 + 64 + 64 * 2 + 2, 16, "sgd")
    assert f.header["flags"] == 0 and len(f.header["key"]) == 64
    assert [p for _, p in f.marks].count(1) == 3
    assert not (tmp_path / "model.pt").exists()


def test_cache(capture):
    _, first, _ = capture(train())
    code, second, f = capture(train())
    _, other, _ = capture(train(), "--width", "33")
    assert code == 0 and f is not None
    assert ("from the cache" in first, "from the cache" in second, "from the cache" in other) == (False, True, False)
    assert "from the cache" not in capture(train("x = 1"))[1]


READER = """
    import yaml_like, os, glob, torch
    width = yaml_like.load(open("conf.yaml"))["width"] + int(os.environ.get("WIDTH", 0)) + len(glob.glob("data/*"))
    model = torch.nn.Linear(10, width).to("cuda")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    open("log.txt", "a").write("a line")
    print(open("/proc/uptime").read(), os.listdir("out") if os.path.exists("out") else os.mkdir("out"))
    for _ in range(9):
        model(torch.randn(4, 10).cuda()).sum().backward()
        optimizer.step()
    open("out.txt", "w").write("a line")
"""


def test_another_release_asks_another_question(monkeypatch):
    from radrm.capture import cache
    asked = cache.question("script", "train.py", [], 3)
    monkeypatch.setattr(cache, "read", lambda path: b"another")
    cache.rules.cache_clear()
    assert cache.question("script", "train.py", [], 3) != asked
    cache.rules.cache_clear()


def test_cache_knows_what_was_read(capture, tmp_path, monkeypatch):
    """A configuration file, a module outside of the script's folder, a variable, a folder: each decides what is asked for."""
    library, conf, data = tmp_path / "library" / "yaml_like.py", tmp_path / "conf.yaml", tmp_path / "data"
    library.parent.mkdir()
    data.mkdir()
    monkeypatch.syspath_prepend(library.parent)
    library.write_text("def load(f): return {'width': int(f.read().split(':')[1])}")
    conf.write_text("width: 32")

    def asked():
        code, said, f = capture(READER)
        assert code == 0, said
        return f.header["params"] // 11, "from the cache" in said
    assert [asked(), asked()] == [(32, False), (32, True)]
    conf.write_text("width: 99")
    assert [asked(), asked()] == [(99, False), (99, True)]
    monkeypatch.setenv("WIDTH", "1")
    assert [asked(), asked()] == [(100, False), (100, True)]
    library.write_text("def load(f): return {'width': 7 * int(f.read().split(':')[1])}")
    assert [asked(), asked()] == [(694, False), (694, True)]
    (data / "one").touch()
    assert [asked(), asked()] == [(695, False), (695, True)]
    library.write_text("def load(f): return {'width': int(f.read().split(':')[1])}")
    conf.write_text("width: 32")
    monkeypatch.delenv("WIDTH")
    (data / "one").unlink()
    assert asked() == (32, True)  # both answers are kept
    (tmp_path / "yaml_like.py").write_text("def load(f): return {'width': 5}")  # beside the script, so found before
    assert asked() == (5, False)


def test_a_cache_in_which_others_may_write_is_none(capture, tmp_path):
    capture(train())
    folder = tmp_path / "cache" / "rad" / "captures"
    before = sorted(folder.iterdir())
    folder.chmod(0o777)
    assert "from the cache" not in capture(train())[1]
    assert "from the cache" not in capture(train(), "--width", "33")[1]
    assert sorted(folder.iterdir()) == before
    folder.chmod(0o700)
    assert "from the cache" in capture(train())[1]


def test_what_an_older_version_kept_is_not_used(capture, tmp_path):
    capture(train())
    for path in (tmp_path / "cache" / "rad" / "captures").glob("*.json"):
        path.write_text(path.read_text().replace('"facts": [', '"facts_": ['))
    assert "from the cache" not in capture(train())[1]


@pytest.mark.parametrize("what, told", [
    ("if loss.item() > 0.5: x.sum()", "a comparison of a value"), ("if loss > 0.5: x.sum()", "a branch on a tensor"),
    ("range((y == 1).sum().item())", "a size or a count"), ("len(y.nonzero())", "nonzero"),
    ("x[y == 1].sum()", "a mask as an index"),
    ("range(y.unique().numel())", "unique"), ("range(int(y.sum()))", "a size or a count"),
    ("torch.zeros(y.sum().item())", "a size or a count"),
])
def test_data_dependent(capture, what, told):
    code, said, f = capture(train(what))
    assert code == 0, said
    assert f.header["flags"] == DATA_DEPENDENT
    line = 1 + textwrap.dedent(train(what)).splitlines().index(" " * 8 + what)
    assert f"train.py:{line}: data-dependent" in said and told in said


@pytest.mark.parametrize("what", ["total = 0.0 + 3 * loss.item() / 2; print('%.2f' % total, total)", "print(loss, float(loss))",
                                  "import json; print(json.dumps([loss.item(), (y == 1).sum().item()]))",
                                  "x.cpu().numpy().mean(); y.tolist()", "scaler = torch.amp.GradScaler('cuda'); scaler.update"])
def test_values_that_are_only_read(capture, what):
    code, said, f = capture(train(what))
    assert code == 0, said
    assert f.header["flags"] == 0


AS_PEOPLE_WRITE_THEM = """
    import os
    import torch
    from torch import nn
    from torch.cuda.amp import GradScaler, autocast
    import torch.backends.cudnn as cudnn

    cudnn.benchmark = True
    torch.manual_seed(0); torch.cuda.manual_seed_all(0); torch.cuda.set_device(0)
    props = torch.cuda.get_device_properties(0)
    print(props.name, props.total_memory, torch.cuda.get_device_name(0), torch.cuda.memory_summary(), torch.cuda.mem_get_info())
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                          nn.Linear(8, 4)).to(0)
    model = nn.DataParallel(model.to("cuda:0"), device_ids=[0])
    optimizer = torch.optim.AdamW(model.parameters())
    schedules = [torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.01, total_steps=99)]
    plateau, scaler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer), GradScaler()
    data = [(torch.randn(8, 3, 16, 16), torch.randint(4, (8,))) for _ in range(2)]
    for epoch in range(2):
        right, running = 0, 0.0
        for x, y in data:
            x, y = x.pin_memory().cuda(non_blocking=True), y.cuda(0)
            with autocast():
                loss = nn.functional.cross_entropy(model(x), y)
            optimizer.zero_grad(set_to_none=True)
            scaler.scale(loss).backward()
            scaler.unscale_(optimizer)
            norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer); scaler.update(); schedules[0].step()
            running += loss.item()
            print(f"{epoch} {running / 2:.3f} {norm:.2f} {loss:.4f} {scaler.get_scale()} {schedules[0].get_last_lr()[0]:.1e}")
            assert torch.isfinite(loss)
        torch.cuda.empty_cache(); torch.cuda.synchronize(); torch.cuda.reset_peak_memory_stats()
        model.eval()
        with torch.no_grad():
            for x, y in data:
                right += model(x.to("cuda")).argmax(1).eq(y.to("cuda")).sum().item()
        print(f"{100. * right / 16:.2f}%", torch.zeros(2, device=0).device)
        plateau.step(running)
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, "checkpoint.pt")
        model.train()
"""


def test_what_scripts_do_besides(capture):
    code, said, f = capture(AS_PEOPLE_WRITE_THEM)
    assert code == 0 and [p for _, p in f.marks].count(1) == 5, said  # all four steps: an evaluation is behind each epoch
    assert f.header["flags"] == CUDNN_BENCHMARK and f.header["precision"] == "amp-fp16"
    assert 6 in [p for _, p in f.marks] and 6 in [kind for kind, *_ in f.records]   # evaluation, empty_cache()


def test_torchrun(tmp_path):
    (tmp_path / "train.py").write_text(textwrap.dedent("""
        import os, torch, torch.distributed as dist
        from torch import nn
        from torch.nn.parallel import DistributedDataParallel as DDP
        dist.init_process_group("nccl")
        rank = int(os.environ["LOCAL_RANK"])
        torch.cuda.set_device(rank)
        assert (dist.get_rank(), dist.get_world_size(), torch.cuda.device_count()) == (0, 2, 2)
        data = torch.utils.data.TensorDataset(torch.randn(64, 512))
        sampler = torch.utils.data.distributed.DistributedSampler(data)
        model = DDP(nn.Linear(512, 512, bias=False).to(rank), device_ids=[rank])
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for x, in torch.utils.data.DataLoader(data, 8, sampler=sampler):
            optimizer.zero_grad()
            loss = model(x.to(rank)).sum()
            loss.backward()
            optimizer.step()
            total = loss.detach().clone()
            dist.all_reduce(total)
            dist.barrier()
    """))
    out = tmp_path / "out"
    done = subprocess.run([sys.executable, "-m", "radrm.capture", "--no-cache", "-o", str(out), "--", "torchrun",
                           "--standalone", "--nproc-per-node=2", "train.py"], cwd=tmp_path, text=True, capture_output=True,
                          env=dict(os.environ, PYTHONPATH=os.path.dirname(HERE)))
    assert done.returncode == 0, done.stderr
    f = File(out.read_bytes())
    assert (f.header["communicators"], f.header["flags"], f.header["batch"]) == (1, PAIR, 8)
    # weights, the copy that is sent, the bucket, and in the first step a gradient: 512 x 512 x 4 bytes each
    begin = [at for at, phase in f.marks if phase == 1][1]
    assert [e for e in f.events[:begin] if e > 0].count(512 * 512 * 4) == 4


def test_compiled_model_is_told(capture):
    code, said, f = capture(train().replace("optimizer = ", "model = torch.compile(model); optimizer = "))
    assert code == 0 and f.header["flags"] == COMPILED and "torch.compile" in said


def test_script_that_fails(capture):
    code, said, f = capture("raise ValueError('no such data set')")
    assert code == 1 and f is None
    assert "rad: capture: ValueError: no such data set (at train.py:1" in said


def test_a_python_without_pytorch(tmp_path):
    (tmp_path / "sitecustomize.py").write_text("import sys; sys.modules['torch'] = None")
    (tmp_path / "train.py").write_text("import torch")
    done = subprocess.run([sys.executable, "-m", "radrm.capture", "-o", "x.radcap", "--", "train.py"], cwd=tmp_path,
                          env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), os.path.dirname(HERE)])},
                          capture_output=True, text=True, timeout=200)
    assert done.returncode == 1
    assert f"rad: capture: {sys.executable} has no PyTorch: a capture needs the Python that trains" in done.stderr


@pytest.mark.parametrize("body", ["print('done')", train().replace('"cuda" if torch.cuda.is_available() else ', "")])
def test_script_that_never_uses_a_gpu(capture, body):
    code, said, f = capture(body)
    assert code == 4 and f is None and "never used a GPU" in said and "no GPU memory to claim" in said


def test_script_that_makes_an_optimizer_and_never_steps(capture):
    code, said, f = capture(train("raise SystemExit(0)").replace("optimizer.step()", "pass").replace(".item():", ":"))
    assert code == 0 and "the script made no optimizer step" in said and f.header["flags"] == 0


def test_later_failure_keeps_what_was_seen(capture):
    code, said, f = capture(train("n = globals().setdefault('seen', []); n.append(1); assert len(n) < 2, 'second step'"))
    assert code == 3 and f.header["flags"] == CUT_SHORT and f.steps == 0 and "second step" in said


def test_time_limit(capture):
    begun = time.monotonic()
    code, said, f = capture("while True: pass", options=["--timeout", "4", "--clock", "200"])
    assert code == 1 and f is None and "time: no end after 2 s of processor time" in said
    assert time.monotonic() - begun < 200


@pytest.mark.parametrize("body, why", [
    ("import subprocess, sys\nfor p in [subprocess.Popen([sys.executable, '-c', 'while True: pass']) for _ in range(2)]: p.wait()",
     "of processor time"),
    ("import subprocess, sys\nwhile True: subprocess.run([sys.executable, '-c', 'for _ in range(10 ** 6): pass'])", "of processor time"),
    ("import signal, subprocess, sys\nsignal.signal(signal.SIGCHLD, signal.SIG_IGN)\n"
     "while True: subprocess.run([sys.executable, '-c', 'for _ in range(2 * 10 ** 7): pass'])", "of processor time"),
    ("import threading\ndef work():\n    while True: pass\nthreading.Thread(target=work, daemon=True).start()\nthreading.Event().wait()",
     "of processor time"),
    ("import time\ntime.sleep(1000)", "in which it waited for something"),
    ("import os\nos.read(os.pipe()[0], 1)", "in which it waited for something"),
], ids=["children", "many-children", "unasked-children", "threads", "sleep", "pipe"])
def test_what_the_limit_counts(capture, body, why):
    code, said, f = capture(body, options=["--timeout", "4", "--clock", "200"])
    assert code == 1 and f is None and f"time: no end after 2 s {why}" in said, said


SLOW_TO_BEGIN = """
    import time, torch
    until = time.process_time() + 1.5
    while time.process_time() < until: pass
    x = torch.ones(8, device="cuda", requires_grad=True)
    optimizer = torch.optim.SGD([x], lr=0.1)
    for _ in range(9):
        x.sum().backward()
        optimizer.step()
"""


def test_a_busy_machine_sees_as_much(capture, busy_core):
    """Its limit is processor time."""
    begun = time.monotonic()
    code, said, f = capture(SLOW_TO_BEGIN, options=["--timeout", "4", "--clock", "200"])
    assert code == 0 and f.header["flags"] & CUT_SHORT == 0 and "clock" not in said, said
    assert time.monotonic() - begun > 6, "the others took nothing"


def test_the_clock_is_the_last_bound(capture, busy_core):
    code, said, f = capture("while True: pass", options=["--timeout", "60", "--clock", "4"])
    assert code == 1 and f is None and "time: no end after 2 s by the clock, on a busy machine" in said, said

def test_memory_limit(capture):
    code, said, f = capture("b = bytearray(60 << 30)", options=["--memory", "256"])
    assert code == 1 and f is None and "memory" in said


STAYS = """
    import os, signal
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGXCPU, signal.SIGCHLD):
        signal.signal(number, signal.SIG_IGN)
    for _ in range(2):  # away from their parents
        if not os.fork():
            os.setsid()
            if os.fork():
                os._exit(0)
    print("here", os.getpid(), file=open(f"here-{os.getpid()}", "w"))
    while True:
        pass
"""


def heeds_all():
    """Whatever the tests were begun by (nohup ignores HUP, a shell's background job INT): what was ignored stays so."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


@pytest.fixture
def staying(tmp_path):
    """staying(*words, options): a capture in a process of its own, of what stays whatever it is told. (it, those that it started)"""
    begun = []

    def start(*words, options=()):
        (tmp_path / "stays.py").write_text(textwrap.dedent(STAYS))
        own = subprocess.Popen([sys.executable, "-m", "radrm.capture", "-o", "x.radcap", "--clock", "1000", *options, "--", *words,
                                "stays.py"], cwd=tmp_path,
                               env={**os.environ, "PYTHONPATH": os.path.dirname(HERE), "TMPDIR": str(tmp_path)},
                               stderr=subprocess.PIPE, text=True, preexec_fn=heeds_all)
        begun.append(own)
        until = time.monotonic() + 200
        while len(found := [f for f in tmp_path.glob("here-*") if f.read_text()]) < 4:
            assert own.poll() is None and time.monotonic() < until, own.stderr.read()
            time.sleep(0.05)
        begun.extend(pids := [int(f.name[5:]) for f in found])
        return own, pids
    yield start
    for each in begun:
        try:
            os.kill(getattr(each, "pid", each), signal.SIGKILL)
        except ProcessLookupError:
            pass


def guard_of(pid):
    from radrm.capture import spent
    return spent.children(pid)[0]


OUTSIDE = ["env", "-i", sys.executable]  # a Python that the hook does not reach


@pytest.mark.parametrize("words", [[], OUTSIDE], ids=["script", "command"])
@pytest.mark.parametrize("name", ["TERM", "INT", "HUP", "KILL", "KILL of the guard"])
def test_nothing_is_left_of_one_that_is_ended(staying, words, name):
    """It trained on, for hours, when the terminal was closed or the capture was killed."""
    own, pids = staying(*words)
    number = getattr(signal, "SIG" + name.split()[0])
    os.kill(guard_of(own.pid) if "guard" in name else own.pid, number)
    code = own.wait(100)
    assert code == (1 if "guard" in name else -number if name == "KILL" else 128 + number)
    until = time.monotonic() + 100 * (name == "KILL")  # its guard may still be at it
    while any(os.path.exists(f"/proc/{pid}") for pid in pids):
        assert time.monotonic() < until
        time.sleep(0.02)


def test_a_command_that_the_hook_does_not_reach_has_the_same_limit(staying):
    own, pids = staying(*OUTSIDE, options=["--timeout", "3"])
    assert own.wait(200) == 1 and "time: no end after 3 s of processor time" in own.stderr.read()
    assert not any(os.path.exists(f"/proc/{pid}") for pid in pids)


def test_no_process_is_left(capture, tmp_path):
    code, said, f = capture("""
        import os, subprocess
        for detached in (False, True):
            p = subprocess.Popen(["sleep", "3600"], start_new_session=detached)
            open(f"pid{detached}", "w").write(str(p.pid))
        raise SystemExit(5)
    """, options=["--in-place"])
    assert code == 1 and "exit code 5" in said
    for name in ("pidFalse", "pidTrue"):
        assert not os.path.exists(f"/proc/{(tmp_path / name).read_text()}")


def test_no_device_is_visible(capture):
    code, said, _ = capture("import os, sys; sys.exit(os.environ['CUDA_VISIBLE_DEVICES'] == '' and 7)")
    assert "exit code 7" in said


def test_a_script_that_chooses_its_gpu_is_told(capture):
    own = textwrap.dedent(train())
    code, said, _ = capture('import os\nos.environ["CUDA_VISIBLE_DEVICES"] = str(1)\n' + own)
    assert code == 0 and "train.py:2: sets CUDA_VISIBLE_DEVICES to 1 itself" in said, said
    code, said, _ = capture('import os\nos.environ["CUDA_VISIBLE_DEVICES"] = ""\n' + own)
    assert code == 0 and "CUDA_VISIBLE_DEVICES" not in said


def test_conflicting_allocator_configurations(capture, monkeypatch):
    monkeypatch.setenv("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True")
    monkeypatch.setenv("PYTORCH_ALLOC_CONF", "expandable_segments:False")
    code, said, f = capture(train())
    assert code == 1 and f is None and "differ" in said


@pytest.mark.parametrize("words, told", [(["-c", "pass"], "-c"), (["missing.py"], "no such file"), (["-m"], "name is missing"),
                                         ([], "no script")])
def test_words_that_name_no_script(words, told, tmp_path):
    done = subprocess.run([sys.executable, "-m", "radrm.capture", "-o", str(tmp_path / "x"), "--", *words], text=True,
                          capture_output=True, env=dict(os.environ, PYTHONPATH=os.path.dirname(HERE)))
    assert done.returncode == 1 and told in done.stderr and not (tmp_path / "x").exists()


@pytest.mark.parametrize("model", ["mlp", "lstm", "dlrm"])
def test_workloads(model, tmp_path):
    out = tmp_path / "out"
    done = subprocess.run([sys.executable, "-m", "radrm.capture", "--no-cache", "-o", str(out), "--",
                           os.path.join(ROOT, "workloads", "train.py"), "--model", model, "--precision", "amp-fp16", "--steps", "70"],
                          text=True, capture_output=True, env=dict(os.environ, PYTHONPATH=os.path.dirname(HERE)))
    assert done.returncode == 0, done.stderr
    assert (File(out.read_bytes()).header["precision"], File(out.read_bytes()).steps) == ("amp-fp16", 70)


@pytest.mark.skipif(not os.access(os.path.join(os.environ.get("RAD_BUILD_ROOT", ""), "rad"), os.X_OK),
                    reason="no rad was built")
def test_rad_capture_and_what_the_replay_makes_of_it(tmp_path):
    rad = os.path.join(os.environ["RAD_BUILD_ROOT"], "rad")
    environment = dict(os.environ, RAD_PYTHONPATH=os.path.dirname(HERE), XDG_CACHE_HOME=str(tmp_path))
    out = str(tmp_path / "out.radcap")
    script = os.path.join(ROOT, "workloads", "train.py")
    subprocess.run([rad, "capture", "-o", out, "--", sys.executable, "-u", script, "--model", "mlp", "--batch-size", "64"],
                   check=True, env=environment, cwd=tmp_path)
    found = subprocess.run([rad, "estimate", "--capture", out, "--gpu-model", "NVIDIA H200", "--estimator", "replay", "--json"],
                           check=True, env=environment, text=True, capture_output=True).stdout
    import json
    replay, = json.loads(found)["estimates"]
    # Parameters, gradients, two moments and the foreach form's temporary: 5 x 80 MB; 32 MiB of cuBLAS for each thread; 766 MiB
    assert 1180 < replay["comfort_mib"] < 1400 and replay["need_mib"] <= replay["comfort_mib"]


@pytest.mark.parametrize("given, steps, kept", [("", 200, 100), ("history_size=7, line_search_fn='strong_wolfe'", 200, 7),
                                                ("max_iter=4", 10, 40)],
                         ids=["as many as it may", "fewer", "as many as it comes to"])
def test_what_lbfgs_keeps(capture, given, steps, kept):
    code, said, f = capture(f"""
        import torch
        w = torch.randn(1 << 20, device="cuda", requires_grad=True)
        optimizer = torch.optim.LBFGS([w], {given})
        def closure():
            optimizer.zero_grad()
            loss = w.pow(2).sum()
            loss.backward()
            return loss
        for step in range({steps}):
            optimizer.step(closure)
    """)
    assert code == 0 and f.steps == steps and f.header["growth"] == 0, said
    assert 2 * kept < f.live_at_end() / (4 << 20) < 2 * kept + 8


TOLD = """
    import numpy, torch
    w = torch.randn(1 << 10, device="cuda", requires_grad=True)
    optimizer = torch.optim.SGD([w], lr=0.1)
    BEFORE
    for n in range(9):
        w.sum().backward()
        optimizer.step()
        CHECK
    print("the end", flush=True)
"""


@pytest.mark.parametrize("before, check", [
    ("mask = torch.rand(40, 30, device='cuda') > 0.5",
     "few = (mask == 0).sum().cpu().numpy(); many = (mask == 1).sum().cpu().numpy(); total = few + many; assert total == 1200"),
    ("""
    def one_hot(action):
        reference = numpy.zeros_like(action)
        reference[action.argmax()] = 1
        if not numpy.allclose(reference, action):
            raise ValueError("not one")""", "one_hot(torch.softmax(w[:7].detach(), 0).cpu().numpy().copy())"),
    ("", "x = w[:12].detach().cpu().numpy().reshape(4, 3); x = x - x.mean(0); u, s, v = numpy.linalg.svd((x / x.std()).T @ x); "
         "numpy.linalg.inv(numpy.zeros((8, 3, 3)) * u)"),
    ("from scipy.spatial.transform import Rotation",
     "Rotation.from_matrix(w[:18].detach().cpu().numpy().reshape(2, 3, 3)).as_euler('zyx')"),
], ids=["asserted", "raised by a function that is given it", "by NumPy", "by SciPy"])
def test_what_is_computed_of_values_of_the_gpu_on_the_cpu_holds(capture, before, check):
    if "scipy" in before:
        pytest.importorskip("scipy", "1.17")  # before, rotations were written in C
    body = TOLD.replace("BEFORE", before).replace("CHECK", check)
    code, said, f = capture(body, options=["--iterations", "9"])
    assert code == 0 and len(f.marks) and f.steps == 9 and "not seen" not in said and "cut short" not in said, said
    code, said, _ = capture(body.replace("        w.sum()", "        assert n < 1; w.sum()", 1), options=["--no-cache"])
    assert "AssertionError" in said, said  # of what never was on a GPU


@pytest.mark.parametrize("given, before, steps, kept, whole", [
    ("max_iter=50000, history_size=50, line_search_fn='strong_wolfe', tolerance_change=0", "", 1, 50, 0),
    ("max_iter=50000, history_size=50, line_search_fn='strong_wolfe'", "adam()", 1, 50, 0),
    ("max_iter=2, line_search_fn='strong_wolfe'", "adam()", 3, 6, 2003),
], ids=["alone", "after Adam", "a few"])
def test_the_closure_is_evaluated_beside_what_lbfgs_keeps(capture, given, before, steps, kept, whole):
    """However many rounds a step has, a few are made; its own branches are no doubt. Of the few steps of a run each round counts."""
    code, said, f = capture(f"""
    import torch
    w = torch.randn(1 << 20, device="cuda", requires_grad=True)
    def loss():
        return w.repeat(7).pow(2).sum()
    def adam():
        optimizer = torch.optim.Adam([w], foreach=False)
        for n in range(2000):
            optimizer.zero_grad()
            loss().backward()
            optimizer.step()
    {before}
    optimizer = torch.optim.LBFGS([w], {given})
    def closure():
        optimizer.zero_grad()
        found = loss()
        found.backward()
        return found
    for n in range({steps}):
        optimizer.step(closure)
    """)
    assert code == 0 and f.header["flags"] == 0 and [p for _, p in f.marks].count(1) >= 3 and f.steps == whole, said
    # The weights, their copy, gradients and their copies, the direction; what is computed takes up to 28
    assert 2 * kept + 28 <= peak(f.events) / (4 << 20) <= 2 * kept + 40, peak(f.events) / (4 << 20)


def test_copies_are_given_back(capture):
    """deepcopy() of a tensor copies its storage, and nobody but the copy has it."""
    code, said, f = capture("""
    import copy, torch
    model = torch.nn.Linear(512, 512, bias=False).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(9):
        kept = copy.deepcopy(model), copy.deepcopy(model.state_dict())
        model(torch.randn(4, 512, device="cuda")).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    """)
    assert code == 0 and (f.live_at_end() // (512 * 512 * 4), f.header["growth"]) == (4, 0), said  # weights, a gradient, two copies


@pytest.mark.parametrize("where, copies", [("'cuda'", 1), ("torch.device('cuda', 0)", 1), ("torch.device(0)", 1),
                                           ("lambda storage, _: storage.cuda(0)", 1), ("{'cpu': 'cuda:0'}", 1),
                                           ("'cpu'", 0), ("None", 0), ("lambda storage, _: storage", 0)])
def test_a_checkpoint_is_where_the_script_wants_it(capture, tmp_path, where, copies):
    """What is kept of it there is there beside the weights and the states that were made from it."""
    model = torch.nn.Linear(512, 512, bias=False)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    model(torch.randn(4, 512)).sum().backward()
    optimizer.step()
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": 7,
                "sizes": [(torch.ones(512, 512),)]}, tmp_path / "last.pt")
    code, said, f = capture(f"""
    import torch
    model = torch.nn.Linear(512, 512, bias=False).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    last = torch.load("last.pt", map_location={where})
    model.load_state_dict(last["model"])
    optimizer.load_state_dict(last["optimizer"])
    for step in range(last["step"], 100):
        optimizer.zero_grad()
        model(torch.randn(4, 512, device="cuda")).sum().backward()
        optimizer.step()
    """)
    # weights, gradient, state; of the checkpoint the weights, what is in a list, and the state, which the optimizer takes as it is
    assert code == 0 and f.steps == 93 and f.live_at_end() // (512 * 512 * 4) == 3 + 2 * copies, said


def test_an_error_behind_the_training_is_told(capture):
    code, said, f = capture("""
    import torch
    model = torch.nn.Linear(64, 64).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(20):
        for x in torch.utils.data.DataLoader(torch.randn(64, 64), batch_size=4):
            model(x.cuda()).sum().backward()
            optimizer.step()
        with torch.no_grad():
            model(torch.ones(100, 64, device="cuda"))
    open("no such file")
    """)
    assert code == 0 and f.steps == 320 and "steps was not seen: FileNotFoundError" in said, said


def test_the_limit_does_not_come_again_while_the_file_is_written(monkeypatch):
    from radrm.capture import sandbox, script, spent
    left, said = [], []
    session = types.SimpleNamespace(late=False, finished=True, recorder=types.SimpleNamespace(recording=True),
                                    stopped=said.append, files=types.SimpleNamespace(end=lambda: None),
                                    later=types.SimpleNamespace(broken=lambda _: left.append(signal.getsignal(spent.NOTICE))))
    before = signal.getsignal(spent.NOTICE)
    monkeypatch.setattr(sandbox, "clock", spent.Clock(8))
    try:
        script.limit(session)
        assert spent.heeds(os.getpid())
        assert script.outcome(session, lambda: os.kill(os.getpid(), spent.NOTICE)) == (None, None, True)
        assert not spent.heeds(os.getpid())
    finally:
        signal.signal(spent.NOTICE, before)
    assert session.late and left == [signal.SIG_IGN] and said == ["no end after 5 s of processor time"]


@pytest.mark.parametrize("within, around", [("step()", "print('failed'); continue"), ("step()", "pass"),
                                            ("model(x).sum().backward(); steps and optimizer.step()", "continue")])
@pytest.mark.parametrize("limit, seen", [((), 3), (("--iterations", "100", "--timeout", "8"), 100), (("--timeout", "6"), 0)])
def test_an_end_that_nothing_holds(capture, limit, seen, within, around):
    """A bare `except:` takes what ends a capture for an error of the step; so does the next one around it. At the limit of time, too."""
    code, said, f = capture(f"""
    import torch
    model = torch.nn.Linear(8, 8).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x, steps = torch.randn(4, 8, device="cuda"), {seen}
    def step():
        try:
            model(x).sum().backward()
            if steps: optimizer.step()
        except: pass
    def train():
        while True:
            try: {within}
            except: {around}
    train()
    """, options=limit)
    # Of no step something is handed in where the time was over in a backward pass.
    assert code == (0 if f else 1) and (f or not seen), said
    assert not f or sum(phase == 1 for _, phase in f.marks) == max(seen, 1), said
    # At its limit the process may abort: C++ that calls back into Python lets no exception through.
    assert seen or re.search("time: no end after (3 s of processor time|6 s of processor time)", said), said
    assert seen or bool(f) == ("cut short after the forward pass of the first step" in said), said


@pytest.mark.parametrize("told, said", [(True, "time: no end after 2 s of processor time"), (False, "the process died of signal 6")])
def test_a_process_that_aborts_when_time_is_over(told, said):
    """C++ that lets no exception through, as where it asks a fake tensor for its device."""
    from radrm.capture import CaptureError, sandbox, spent

    def work():
        faulthandler.disable()  # what pytest prints of an abort
        if not told:
            os.abort()
        signal.signal(spent.NOTICE, lambda *_: os.abort())
        while True:
            pass
    with pytest.raises(CaptureError, match=said):
        sandbox.run(work, sandbox.Limits(seconds=2, clock=400))


SLOW = """
    import torch
    model = torch.nn.Linear(512, 512, bias=False).cuda()
    optimizer = torch.optim.Adam(model.parameters())
    def spin(gradient):
        while True: pass
    x = torch.randn(4096, 512, device="cuda", requires_grad=True)
    x.register_hook(spin)
    for step in range(60):
        optimizer.zero_grad()
        model(x).tanh().pow(2).mean().backward()
        optimizer.step()
"""


def test_the_time_is_over_in_the_first_step(capture):
    """Its forward pass was seen: that is most of what it takes."""
    code, said, f = capture(SLOW, options=["--timeout", "4", "--clock", "200"])
    assert code == 0 and f.header["flags"] & 128 and "cut short after the forward pass of the first step" in said, said
    whole = capture(SLOW.replace("while True: ", ""))[2]
    assert peak(whole.events) * 0.8 < peak(f.events) < peak(whole.events) * 1.3
    code, said, f = capture(SLOW.replace("def spin", "def spin(gradient): pass\n    def other").replace("model(x)", "other(model(x))"),
                            options=["--timeout", "4", "--clock", "200"])
    assert code == 1 and "before its first optimizer step was over" in said, said
