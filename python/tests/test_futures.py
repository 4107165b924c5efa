# SPDX-License-Identifier: MIT
"""radrm.futures: calls as tasks of a radd on simulated GPUs."""
import concurrent.futures
import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import textwrap
import threading
import time

import pytest

from radd import radd  # noqa: F401
from radrm.futures import RadError, RadExecutor, RadFuture, TaskFailed

WAIT = 60


def add(a, b=0):
    return a + b


def where():
    return os.environ["RAD_TASK_ID"], os.environ["CUDA_VISIBLE_DEVICES"], os.getpid()


class Odd(Exception):
    def __init__(self, one, two):   # unpickles with one argument, which is too few
        super().__init__(one)


def fail(kind):
    print("said before")
    if kind == "odd":
        raise Odd(1, 2)
    if kind == "exit":
        os._exit(7)
    if kind == "sys":
        sys.exit(4)
    if kind == "thing":
        return (x for x in [])
    raise KeyError(kind)


def until(path):
    """Runs until the file is there; says that it runs."""
    open(path + ".begun", "w").close()
    end = time.monotonic() + WAIT
    while not os.path.exists(path) and time.monotonic() < end:
        time.sleep(0.05)
    return path


def wait_for(what):
    end = time.monotonic() + WAIT
    while not what():
        assert time.monotonic() < end
        time.sleep(0.05)


def takes(mib):
    """What a training script does that takes more than was thought: its program says so, and it fails."""
    done = subprocess.run(["rad", "simtask", "--mem", "%dM" % mib, "--seconds", "1"], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stdout + done.stderr)
    return os.environ["RAD_ATTEMPT"]


@pytest.fixture
def executor(radd, tmp_path):  # noqa: F811
    with RadExecutor(tmp_path / "f", gpu_mem="1G") as made:
        yield made


def test_results(executor):
    first = executor.submit(add, 1, b=2)
    both = [executor.submit(where), executor.submit(lambda x: x * 2, 21) if has_cloudpickle() else executor.submit(add, 42)]
    assert first.result(WAIT) == 3 and both[1].result(WAIT) == 42
    task, gpu, pid = both[0].result(WAIT)
    assert task == both[0].task and gpu in ("0", "1") and pid != os.getpid()
    assert first.done() and not first.cancel() and first.exception() is None and first.call() == (add, (1,), {"b": 2})


def test_without_a_gpu(radd, tmp_path):  # noqa: F811
    with RadExecutor(tmp_path / "f", gpus=0) as executor:
        task, gpu, pid = executor.submit(where).result(WAIT)
    assert gpu == "" and pid != os.getpid()


def fails_first():
    if os.environ["RAD_ATTEMPT"] == "1":
        raise OSError("Connection reset by peer")
    return os.environ["RAD_ATTEMPT"]


def test_an_exception_counts_after_the_last_retry_only(radd, tmp_path):  # noqa: F811
    with RadExecutor(tmp_path / "f", gpu_mem="1G", retries=1) as executor:
        assert executor.submit(fails_first).result(WAIT) == "2"


def has_cloudpickle():
    try:
        import cloudpickle  # noqa: F401
    except ImportError:
        return False
    return True


def test_arrays(executor):
    assert list(executor.map(add, range(3), range(3), at_once=2)) == [0, 2, 4]
    assert list(executor.map(add, range(3), chunksize=2)) == list(range(3))
    assert list(executor.map(add, [])) == []
    with pytest.raises(KeyError, match="'b'"):
        list(executor.map(fail, "b"))


def test_exceptions(executor):
    futures = {kind: executor.submit(fail, kind) for kind in ("key", "odd", "exit", "sys", "thing")}
    with pytest.raises(KeyError, match="'key'") as caught:
        futures["key"].result(WAIT)
    assert 'in fail\n    raise KeyError(kind)' in str(caught.value.__cause__)
    with pytest.raises(RuntimeError, match="Odd: 1"):
        futures["odd"].result(WAIT)
    with pytest.raises(TaskFailed, match="FAILED: exit 7") as caught:
        futures["exit"].result(WAIT)
    assert caught.value.state == "FAILED"
    with pytest.raises(SystemExit, match="4"):
        futures["sys"].result(WAIT)
    with pytest.raises(TypeError, match="pickle"):
        futures["thing"].result(WAIT)
    assert "said before" in futures["key"].log()


def test_a_call_that_runs_out_of_memory_is_run_again(radd, tmp_path):  # noqa: F811
    with RadExecutor(tmp_path / "f", gpu_mem="2G") as executor:
        future = executor.submit(takes, 6000)
        assert int(future.result(WAIT)) >= 2


def test_cancel(executor, tmp_path):
    go = str(tmp_path / "go")
    running = executor.submit(until, go)
    wait_for(lambda: os.path.exists(go + ".begun"))
    held = RadExecutor(tmp_path / "f", gpu_mem="1G", hold=True)
    waiting = [held.submit(add, 1) for _ in range(2)]
    assert waiting[0].cancel() and waiting[0].cancelled() and waiting[0].cancel()
    assert concurrent.futures.wait([waiting[0]], timeout=5).done
    assert not running.cancel()
    held.shutdown(wait=False, cancel_futures=True)
    assert waiting[1].cancelled()
    with pytest.raises(RuntimeError, match="after shutdown"):
        held.submit(add, 1)
    running.kill()
    with pytest.raises(concurrent.futures.CancelledError):
        running.result(WAIT)


class Between:
    """Passes on what is said to radd, a message at a time; calls `before` when a `cancel` comes, ahead of it."""

    def __init__(self, path, to, before):
        self.to, self.before, self.listener = to, before, socket.socket(socket.AF_UNIX)
        self.listener.bind(path)
        self.listener.listen()
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        with contextlib.suppress(OSError):
            while True:
                client, _ = self.listener.accept()
                threading.Thread(target=self.pass_on, args=(client,), daemon=True).start()

    def pass_on(self, client):
        with socket.socket(socket.AF_UNIX) as radd_side, client, client.makefile("rb") as said:
            radd_side.connect(self.to)
            with radd_side.makefile("rb") as answered:
                while len(size := said.read(4)) == 4:
                    body = said.read(int.from_bytes(size, "big"))
                    if json.loads(body).get("op") == "cancel":
                        self.before()
                    radd_side.sendall(size + body)
                    size = answered.read(4)
                    client.sendall(size + answered.read(int.from_bytes(size, "big")))


def test_a_task_that_starts_while_it_is_cancelled_goes_on(radd, tmp_path, monkeypatch):  # noqa: F811
    go, to = str(tmp_path / "go"), os.environ["RAD_SOCKET"]
    with RadExecutor(tmp_path / "f", gpu_mem="1G", hold=True) as executor:
        future = executor.submit(until, go)

        def start():
            subprocess.run(["rad", "release", future.task], env={**os.environ, "RAD_SOCKET": to}, check=True)
            wait_for(lambda: os.path.exists(go + ".begun"))

        between = Between(str(tmp_path / "between"), to, start)
        with monkeypatch.context() as m:
            m.setenv("RAD_SOCKET", str(tmp_path / "between"))
            assert future.cancel() is False
        between.listener.close()
        open(go, "w").close()
        assert future.result(WAIT) == go


def test_a_folder_may_have_any_name(radd, tmp_path):  # noqa: F811
    with RadExecutor(tmp_path / "100%jobs", gpu_mem="1G") as executor:
        assert executor.submit(add, 1, 2).result(WAIT) == 3
        [failed] = executor.map_futures(fail, ["key"])
        with pytest.raises(KeyError):
            failed.result(WAIT)
        assert "said before" in failed.log()


def test_a_rad_that_cannot_be_run_is_tried_again(executor, tmp_path, monkeypatch, capfd):
    go, said = str(tmp_path / "go"), []
    future = executor.submit(until, go)
    with monkeypatch.context() as away:
        away.setenv("RAD", str(tmp_path / "nothing"))   # as while its package is replaced
        wait_for(lambda: said.append(capfd.readouterr().err) or "asking again" in "".join(said))
    open(go, "w").close()
    assert future.result(WAIT) == go
    assert "nothing" in "".join(said)


def test_a_python_that_is_killed_loses_no_task(radd, tmp_path):  # noqa: F811
    script, go = tmp_path / "sweep.py", str(tmp_path / "go")
    script.write_text(textwrap.dedent("""
        import os, sys
        sys.path.insert(0, %r)
        from radrm.futures import RadExecutor
        from calls import double, until
        executor = RadExecutor("f", gpu_mem="1G")
        one = executor.submit(double, 4)
        assert one.result(60) == 8
        executor.submit(until, %r)
        executor.map(double, range(3))
        os.kill(os.getpid(), 9)
    """ % (os.path.dirname(os.path.dirname(os.path.abspath(__file__))), go)))
    (tmp_path / "calls.py").write_text(textwrap.dedent("""
        import os, time
        def double(x):
            return 2 * x
        def until(path):
            end = time.monotonic() + 60
            while not os.path.exists(path) and time.monotonic() < end:
                time.sleep(0.05)
            return "went on"
    """))
    assert subprocess.run([sys.executable, str(script)], cwd=tmp_path).returncode == -9
    # Killed between the submission and the note of its id: found by its command.
    folders = sorted(p for p in (tmp_path / "f").iterdir())
    os.unlink(folders[-1] / "job")
    # And before the submission: submitted now.
    os.unlink(folders[0] / "job")
    setup = json.loads((folders[0] / "setup.json").read_text())
    new = tmp_path / "f" / "20000101T000000-new"
    os.rename(folders[0], new)
    setup["words"] = [w.replace(str(folders[0]), str(new)) for w in setup["words"]]
    (new / "setup.json").write_text(json.dumps(setup))
    (new / "result-0.pkl").unlink()

    executor = RadExecutor(tmp_path / "f")
    futures = executor.resume()
    open(go, "w").close()
    assert [f.result(WAIT) for f in futures] == [8, "went on", [0], [2], [4]]


def test_a_folder_in_which_others_may_write_is_refused(radd, tmp_path):  # noqa: F811
    old = os.umask(0o002)
    try:
        with RadExecutor(tmp_path / "calls") as executor:
            done = executor.submit(os.getpid)
            assert done.result(timeout=60) > 0
    finally:
        os.umask(old)
    files = [os.path.join(done.folder, name) for name in ("setup.json", "call-0.pkl", "result-0.pkl")]
    assert not any(os.stat(path).st_mode & 0o022 for path in (tmp_path / "calls", done.folder, *files))
    for folder in (done.folder, str(tmp_path / "calls"), *files):
        os.chmod(folder, 0o775)
        with pytest.raises(RadError, match="others may write there"):
            RadExecutor(tmp_path / "calls").resume()
        os.chmod(folder, 0o755)
    assert [future.result(timeout=60) for future in RadExecutor(tmp_path / "calls").resume()] == [done.result()]
    os.chmod(tmp_path / "calls", 0o777)
    with pytest.raises(RadError, match="others may write there"):
        RadExecutor(tmp_path / "calls").submit(os.getpid)
    os.chmod(tmp_path / "calls", 0o755)
    if os.geteuid() == 0:
        for path in (files[2], done.folder):
            os.chown(path, 1, 1)
            with pytest.raises(RadError, match="is another user's"):
                RadExecutor(tmp_path / "calls").resume()
            os.chown(path, 0, 0)


def test_what_was_refused_or_half_written_is_not_resumed(executor, tmp_path):
    done = executor.submit(add, 1)
    with pytest.raises(RadError, match="declare less"):
        RadExecutor(tmp_path / "f", gpu_mem="9T").submit(add, 2)
    half = tmp_path / "f" / "20260101T000000.000000000-0123456789ab.part"
    half.mkdir()
    (half / "setup.json").write_text('{"words": ["--", "true"], "n": 1, "array": false}')
    assert [f.result(WAIT) for f in RadExecutor(tmp_path / "f").resume()] == [1]
    assert done.result(WAIT) == 1


def rad_that_waits(tmp_path, monkeypatch):
    """Its submissions say that they are there, and wait for the file `go`. Returns what asks for those there were."""
    rad = tmp_path / "rad"
    rad.write_text(textwrap.dedent("""\
        #!/bin/sh
        [ $1 != submit ] || { echo $$ >>'%s/submits'; until [ -e '%s/go' ]; do sleep 0.05; done; }
        exec '%s' "$@"
    """ % (tmp_path, tmp_path, shutil.which("rad"))))
    rad.chmod(0o755)
    monkeypatch.setenv("RAD", str(rad))
    return lambda: (tmp_path / "submits").read_text().split() if (tmp_path / "submits").exists() else []


def one_waits(setup):
    """For the lock of that file."""
    with open("/proc/locks") as locks:
        return any(" -> FLOCK" in line and ":%d " % setup.stat().st_ino in line for line in locks)


def test_what_is_refused_while_another_resumes_is_not_submitted(radd, tmp_path, monkeypatch):  # noqa: F811
    submits = rad_that_waits(tmp_path, monkeypatch)
    with concurrent.futures.ThreadPoolExecutor(2) as both:
        refused = both.submit(RadExecutor(tmp_path / "f", gpu_mem="9T").submit, add, 1)
        wait_for(submits)
        setup = next((tmp_path / "f").iterdir()) / "setup.json"
        resumed = both.submit(RadExecutor(tmp_path / "f").resume)
        wait_for(lambda: one_waits(setup))
        (tmp_path / "go").touch()
        assert resumed.result(WAIT) == []
        assert isinstance(refused.exception(WAIT), RadError)
    assert len(submits()) == 1


def test_of_two_who_resume_at_once_one_submits(radd, executor, tmp_path, monkeypatch):  # noqa: F811
    executor.submit(add, 1, 2).result(WAIT)
    folder = next((tmp_path / "f").iterdir())
    os.rename(folder, tmp_path / "f" / "resumed-by-two")    # no task names it: as if nothing had been submitted
    folder = tmp_path / "f" / "resumed-by-two"
    for name in ("job", "result-0.pkl"):
        os.unlink(folder / name)
    setup = folder / "setup.json"
    setup.write_text(json.dumps(dict(json.loads(setup.read_text()), words=["--output=/dev/null", "--", "true"])))
    submits = rad_that_waits(tmp_path, monkeypatch)
    with concurrent.futures.ThreadPoolExecutor(2) as both:
        resumed = [both.submit(RadExecutor(tmp_path / "f").resume) for _ in range(2)]
        wait_for(lambda: len(submits()) == 2 or (submits() and one_waits(setup)))
        (tmp_path / "go").touch()
        futures = [future for one in resumed for future in one.result(WAIT)]
    assert len(submits()) == 1 and len(futures) == 2 and futures[0].task == futures[1].task
    assert all(isinstance(future.exception(WAIT), TaskFailed) for future in futures)    # `true` leaves no result


def test_a_task_that_was_not_noted_is_found_by_its_log(radd, executor, tmp_path):  # noqa: F811
    folder, python = os.path.split(sys.executable)
    long = RadExecutor(tmp_path / "f", gpu_mem="1G", python=folder + "/." * 600 + "/" + python)     # its command is cut where it is shown
    future = long.submit(add, 1, 2)
    assert future.result(WAIT) == 3
    os.unlink(os.path.join(future.folder, "job"))
    assert [f.task for f in long.resume()] == [future.task]


def test_a_task_that_was_not_noted_is_looked_for_since_its_call(executor, tmp_path, monkeypatch):
    future = executor.submit(add, 1, 2)
    assert future.result(WAIT) == 3
    os.unlink(os.path.join(future.folder, "job"))
    os.utime(os.path.join(future.folder, "setup.json"), (time.time() - 30 * 86400,) * 2)
    rad = tmp_path / "rad"
    rad.write_text("#!/bin/sh\n[ $1 != acct ] || [ ${4%%d} -ge 31 ] || exec echo '{\"tasks\": []}'\nexec '%s' \"$@\"\n"
                   % shutil.which("rad"))
    rad.chmod(0o755)
    monkeypatch.setenv("RAD", str(rad))
    assert [f.task for f in executor.resume()] == [future.task]


def run_script(tmp_path, end):
    """A script as people write one, where cloudpickle is not installed; what it says."""
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent("""
        import sys
        sys.modules["cloudpickle"] = None
        sys.path.insert(0, %r)
        from radrm.futures import RadExecutor
        class Point:
            def __init__(self, x):
                self.x = x
        def main(point):     # also the name of a function of the worker's
            return Point(2 * point.x)
    """ % os.path.dirname(os.path.dirname(os.path.abspath(__file__)))) + textwrap.dedent(end))
    return subprocess.run([sys.executable, "script.py"], cwd=tmp_path, capture_output=True, text=True, timeout=WAIT)


def test_functions_of_a_script_need_no_cloudpickle(radd, tmp_path):  # noqa: F811
    done = run_script(tmp_path, """
        if __name__ == "__main__":
            executor = RadExecutor("f", gpu_mem="1G")
            print([p.x for p in executor.map(main, [Point(1), Point(2)])])
    """)
    assert done.stdout == "[2, 4]\n", done.stderr
    done = run_script(tmp_path, "RadExecutor('g', gpu_mem='1G').submit(main, Point(1)).result(60)")
    assert done.returncode and "calls belong under if __name__" in done.stderr
    assert len(list((tmp_path / "g").iterdir())) == 1
    done = subprocess.run([sys.executable, "-"], cwd=tmp_path, capture_output=True, text=True,
                          input=(tmp_path / "script.py").read_text())
    assert done.returncode and "needs cloudpickle" in done.stderr
    done = run_script(tmp_path, "RadExecutor('h').submit(lambda: 1)")
    assert done.returncode and "PicklingError" in done.stderr and "needs cloudpickle: pip install cloudpickle" in done.stderr
    assert not os.listdir(tmp_path / "h")   # nor is half of a call left


def test_radd_may_be_restarted(radd, executor, tmp_path, capfd):  # noqa: F811
    go = str(tmp_path / "go")
    future = executor.submit(until, go)
    wait_for(lambda: os.path.exists(go + ".begun"))
    radd.kill()
    told = []
    wait_for(lambda: told.append(capfd.readouterr().err) or "asking again" in "".join(told))
    radd.start()
    open(go, "w").close()
    assert future.result(WAIT) == go


def test_a_task_that_was_purged_keeps_no_other_from_its_end(executor, tmp_path):
    go = str(tmp_path / "go")
    lives, fails = executor.submit(until, go), executor.submit(fail, "key")
    purged = RadFuture("90000", str(tmp_path / "nowhere"), 0)   # as one is of which radd knows nothing any more
    executor._watcher.add([purged])
    with pytest.raises(TaskFailed, match="LOST: radd knows it no more"):
        purged.result(WAIT)
    with pytest.raises(KeyError):
        fails.result(WAIT)
    open(go, "w").close()
    assert lives.result(WAIT) == go
    alone = [RadFuture("90000", str(tmp_path / "nowhere"), 0), RadFuture("90001_4", str(tmp_path / "nowhere"), 4)]
    executor._watcher.add(alone)    # rad fails where it knows none of those that it is asked for
    for future in alone:
        assert future.cancel() is False
        with pytest.raises(TaskFailed, match="LOST: radd knows it no more"):
            future.result(WAIT)


def test_a_log_that_cannot_be_read_keeps_nobody_waiting(executor, tmp_path):
    go = str(tmp_path / "go")
    blind, lives = RadFuture("90000", str(tmp_path), 0), executor.submit(until, go)
    os.mkdir(tmp_path / "log-0.out")
    executor._watcher.add([blind])
    with pytest.raises(TaskFailed, match="LOST.*\n.its log: .*directory"):
        blind.result(WAIT)
    open(go, "w").close()
    assert lives.result(WAIT) == go


def test_what_rad_refuses_is_told(radd, tmp_path, monkeypatch):  # noqa: F811
    with pytest.raises(RadError, match="gpus"):
        RadExecutor(tmp_path / "f", gpus=65).submit(add, 1)
    with pytest.raises(RadError, match="gpumem"):
        RadExecutor(tmp_path / "f", gpumem=1).submit(add, 1)
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(RadError, match="not found in PATH"):
        RadExecutor(tmp_path / "f")
