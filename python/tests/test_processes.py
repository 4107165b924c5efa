# SPDX-License-Identifier: MIT
"""Training in processes that the script starts itself."""
import os
import pickle
import signal
import types

import pytest

torch = pytest.importorskip("torch")

CUT_SHORT, PAIR = 128, 256
SCRIPT = """
    import os, pickle, sys, torch
    import torch.distributed as dist
    import torch.multiprocessing as mp
    from concurrent.futures import ProcessPoolExecutor
    from torch.nn.parallel import DistributedDataParallel

    def steps(model, number=50):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        for _ in range(number):
            model(torch.randn(4, 512).to("cuda")).sum().backward()
            optimizer.step()
            optimizer.zero_grad()

    def learn(rank, model):
        torch.manual_seed(rank)
        steps(model)

    def learn_later(rank, model):
        os.nice(10 * (rank > 0))
        learn(rank, model)

    def one_of_many(rank, world):
        os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29500")
        dist.init_process_group("nccl", rank=rank, world_size=world)
        torch.cuda.set_device(rank)
        steps(DistributedDataParallel(torch.nn.Linear(512, 512).to(rank), device_ids=[rank]))

    def parallel(model):
        model = torch.nn.DataParallel(model)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(50):
            y = model(torch.randn(64, 512).to("cuda"))
            assert y.shape == (64, 512)
            y.sum().backward()
            optimizer.step()

    def numbers(queue):
        n = 0
        while True:
            queue.put(n)
            n += 1

    def double(n):
        return 2 * n

    class Sent(mp.Process):
        # As joblib's: what is to be done is sent to a new interpreter.
        @staticmethod
        def _Popen(process):
            pickle.dumps(process)
            raise AssertionError("it does without what is around it")

    def score(number, queue):
        queue.put(number)

    def fail(rank, model):
        raise ValueError("no data")

    def begin(target, *args, number):
        processes = [mp.Process(target=target, args=(rank, *args)) for rank in range(number)]
        for p in processes:
            p.start()
        for p in processes:
            p.join()

    if __name__ == "__main__":
        mp.set_start_method(METHOD, force=True)
        model = torch.nn.Linear(512, 512).to("cuda")
        model.share_memory()
        BODY
        print("it goes on", flush=True)
"""


@pytest.fixture
def started(capture):
    def run(body, method="spawn", **options):
        return capture(SCRIPT.replace("BODY", body).replace("METHOD", repr(method)), **options)
    return run


@pytest.mark.parametrize("method", ["spawn", "fork", "forkserver"])
def test_one_process(started, method):
    code, said, f = started("begin(learn, model, number=1)", method)
    assert code == 0 and f.header["flags"] & CUT_SHORT == 0 and f.header["optimizer"] == "sgd", said
    assert f.steps == 50 and [p for _, p in f.marks].count(1) == 3
    assert "from the cache" in started("begin(learn, model, number=1)", method)[1]


@pytest.mark.parametrize("method", ["spawn", "fork"])
def test_one_that_nobody_waits_for(started, method):
    """Python does, at its end: so I-JEPA begins its only one."""
    code, said, f = started("mp.Process(target=learn, args=(0, model)).start()", method)
    assert code == 0 and f.header["flags"] & CUT_SHORT == 0 and f.steps == 50, said


def test_a_thread_that_nobody_waits_for(started):
    code, said, f = started("import threading; threading.Thread(target=steps, args=(model,)).start()")
    assert code == 0 and f.header["flags"] & CUT_SHORT == 0 and f.steps == 50, said


def test_processes_of_a_librarys_own_kind(started):
    """They score what is trained on the CPU."""
    code, said, f = started("""queue = mp.Queue()
        for n in range(2):
            Sent(target=score, args=(n, queue)).start()
        print(sorted([queue.get(), queue.get()]), flush=True)
        steps(model)""")
    assert code == 0 and "[0, 1]" in said and f.header["flags"] & CUT_SHORT == 0 and f.steps == 50, said


def test_a_process_leaves_folders_of_who_started_it(started, tmp_path):
    """Those of weights are gone once nothing runs any more that made them."""
    code, said, _ = started("""os.mkdir("step-1")
        torch.save(model, "step-1/model.pt")
        begin(learn, model, number=1)
        open("step-1/state.json", "x").close()
        print("written")""")
    assert code == 0 and "written" in said and not (tmp_path / "step-1").exists(), said


def test_ddp_of_processes(started):
    code, said, f = started("begin(one_of_many, 4, number=4)")
    assert code == 0 and "the first of 4 processes was captured" in said
    assert f.header["communicators"] == 1 and f.header["flags"] & (PAIR | CUT_SHORT) == 0 and f.steps == 50
    assert (512 * 512 + 512) * 4 in f.events  # a bucket


def test_an_answer_that_is_being_written():
    """Another process ended meanwhile, and somebody looks."""
    from radrm.capture import processes
    ended, answer = [], pickle.dumps(((b"capture", 4), 0.5))
    asked = processes.Processes(None, lambda: ended.append(1))
    os.write(asked.answers, answer[:7])
    before = signal.getsignal(signal.SIGALRM)
    try:
        asked.ended()
        asked.look()
        assert asked.mine is not None and not ended
        os.write(asked.answers, answer[7:])
        asked.look()
        assert ended
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        os.close(asked.answers)


def test_a_script_that_ended_has_time_to_hand_in():
    """The limit comes when it is over."""
    from radrm.capture import script
    before = signal.getsignal(signal.SIGXCPU)
    session = types.SimpleNamespace(late=False, finished=False, since=0, iterations=3, recorder=types.SimpleNamespace(recording=False),
                                    files=types.SimpleNamespace(end=lambda: os.kill(os.getpid(), signal.SIGXCPU)))
    try:
        script.limit(session)
        assert script.outcome(session, lambda: None) == ("the script ended by itself", 0, True)
    finally:
        signal.signal(signal.SIGXCPU, before)


def test_processes_that_share_a_gpu_are_told(started):
    code, said, f = started("begin(learn, model, number=3)")
    assert code == 1 and f is None
    assert "3 processes that the script starts train beside each other" in said and "--gpu-mem" in said


def test_processes_that_get_less_of_a_busy_machine_count_too(started):
    """The first is done long before the other, which has one core with what always runs."""
    code, said, f = started("""import subprocess
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
        for _ in range(3): subprocess.Popen([sys.executable, "-c", "while True: pass"])
        begin(learn_later, model, number=2)""", "fork")
    assert code == 1 and f is None and "2 processes that the script starts train beside each other" in said, said


def test_one_that_fails_is_told(started):
    code, said, _ = started("begin(fail, model, number=1)")
    assert code == 1 and "ValueError: no data (at train.py:" in said, said


def test_a_script_that_waits_for_what_never_comes(started):
    code, said, f = started("p = mp.Process(target=learn, args=(0, model)); p.start(); mp.Queue().get()")
    assert code == 0 and f.header["flags"] & CUT_SHORT == 0, said


@pytest.mark.parametrize("body", [
    "queue = mp.Queue(2); p = mp.Process(target=numbers, args=(queue,), daemon=True); p.start(); assert [queue.get(), "
    "queue.get()] == [0, 1]",
    "with mp.Pool(2) as pool: assert pool.map(double, range(5)) == [0, 2, 4, 6, 8]",
    "with ProcessPoolExecutor(2, mp.get_context('spawn')) as pool: assert list(pool.map(double, range(5))) == [0, 2, 4, 6, 8]",
    "p = mp.Process(target=sys.exit, args=(3,)); p.start(); p.join(); assert p.exitcode == 3",
])
def test_processes_that_only_help(started, body):
    code, said, f = started(body + "\n        steps(model)")
    assert code == 0 and f.steps == 50 and f.header["flags"] & CUT_SHORT == 0, said


def test_processes_that_help_and_begin_late(started):
    """They are copies of one that learnt, and did not learn themselves: nobody waits for the script to end."""
    code, said, f = started("""import signal
        steps(model, 2)
        with mp.Pool(2) as pool:
            assert pool.map(double, range(5)) == [0, 2, 4, 6, 8]
        p = mp.Process(target=double, args=(3,)); p.start(); p.join()
        assert signal.getitimer(signal.ITIMER_REAL)[0] == 0
        steps(model)""")
    assert code == 0 and f.header["flags"] & CUT_SHORT == 0 and 3 <= [p for _, p in f.marks].count(1) <= 8, said


def test_a_process_for_each_gpu(started):
    code, said, f = started("n = torch.cuda.device_count(); mp.spawn(one_of_many, args=(n,), nprocs=n)", options=["--gpus", "4"])
    assert code == 0 and "the first of 4 processes was captured" in said and f.steps == 50, said
    assert f.header["flags"] & (PAIR | CUT_SHORT) == 0
    body = "assert torch.cuda.device_count() == 1; steps(model)"
    assert "from the cache" not in started(body)[1] + started(body, options=["--gpus", "2"])[1]


def test_data_parallel_has_a_part_of_the_batch(started):
    code, said, f = started("parallel(model)", options=["--gpus", "4"])
    assert code == 0, said
    out = [n for n in f.iteration(1) if n > 0]
    assert out.count(64 * 512 * 4) <= 3 and out.count(16 * 512 * 4) >= 2  # the batch, the results of all, their gradient; a part
