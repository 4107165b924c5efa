# SPDX-License-Identifier: MIT
"""radrm.submitit: submitit's jobs as tasks of a radd on simulated GPUs."""
import os
import shutil
import subprocess
import sys
import textwrap

import pytest

submitit = pytest.importorskip("submitit")

from radd import radd  # noqa: E402, F401
from radrm.submitit import RadExecutor  # noqa: E402
from test_futures import add, fail, takes  # noqa: E402

PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


@pytest.fixture
def executor(radd, tmp_path, monkeypatch):  # noqa: F811
    monkeypatch.setenv("PYTHONPATH", os.path.dirname(os.path.abspath(__file__)))    # submitit pickles functions by name
    made = RadExecutor(folder=tmp_path / "%j")
    made.update_parameters(gpu_mem="1G", timeout_min=5, name="sweep")
    return made


def test_jobs(executor):
    job, bad = executor.submit(add, 3, b=4), executor.submit(fail, "key")
    assert job.result() == 7 and job.state in ("RUNNING", "COMPLETED") and job.done()
    with pytest.raises(submitit.core.utils.FailedJobError, match="KeyError: 'key'"):
        bad.result()
    assert "said before" in bad.stdout()


def test_a_job_without_a_time_limit(radd, tmp_path, monkeypatch):  # noqa: F811
    monkeypatch.setenv("PYTHONPATH", os.path.dirname(os.path.abspath(__file__)))
    made = RadExecutor(folder=tmp_path / "%j")
    made.update_parameters(gpu_mem="1G")
    assert made.submit(add, 3, b=4).result() == 7
    made.update_parameters(slot="1h")
    assert "--signal=%s@60" % submitit.JobEnvironment.USR_SIG in made._options()


def test_arrays(executor):
    executor.update_parameters(array_parallelism=2)
    jobs = executor.map_array(add, range(4), range(4))
    assert [job.result() for job in jobs] == [0, 2, 4, 6]
    assert len({job.job_id.partition("_")[0] for job in jobs}) == 1
    with executor.batch():
        batch = [executor.submit(add, i) for i in range(2)]
    assert [job.result() for job in batch] == [0, 1]


def test_a_job_that_runs_out_of_memory_is_run_again(executor):
    executor.update_parameters(gpu_mem="2G")
    assert int(executor.submit(takes, 6000).result()) >= 2


def test_cancel(executor):
    executor.update_parameters(hold=True)
    job = executor.submit(add, 1)
    job.cancel()
    assert job.watcher.get_state(job.job_id, mode="force") == "CANCELLED"


def test_what_another_radd_left_of_a_job_of_that_number_is_not_its_result(executor, tmp_path):
    array = executor.map_array(add, range(2))
    assert array[1].result() == 1
    for id in (int(array[0].job_id.partition("_")[0]) + n for n in (1, 2)):
        for name, element in ((str(id), array[0]), ("%d_1" % id, array[1])):
            shutil.copytree(element.paths.folder, tmp_path / name, symlinks=True)
            for there in (tmp_path / name).iterdir():
                there.rename(there.with_name(there.name.replace(element.job_id, name)))
    executor.update_parameters(hold=True)
    jobs = [executor.submit(add, 7), executor.map_array(add, (7, 8))[1]]
    assert not any(job.done(force_check=True) for job in jobs)
    subprocess.run(["rad", "release", *(job.job_id for job in jobs)], check=True)
    assert [job.result() for job in jobs] == [7, 8]
    # within one tick of the file system's clock
    paths = jobs[0].paths
    of_call = paths.submitted_pickle.stat().st_mtime_ns
    os.utime(paths.result_pickle, ns=(of_call, of_call))
    executor._begin(jobs[0])
    assert not paths.result_pickle.exists()


def test_parameters(executor):
    executor.update_parameters(gpus_per_node=2, mem_gb=1.5, cpus_per_task=1, timeout_min=90)
    words = executor._options()
    assert {"--gpus=2", "--mem=1536M", "--cpus-per-task=1", "--time=5400s", "--gpu-mem=1G", "--name=sweep"} <= set(words)
    with pytest.raises(ValueError, match="no parameter gpumem"):
        executor.update_parameters(gpumem=1)
    with pytest.raises(ValueError, match="nodes must be 1"):
        executor.update_parameters(nodes=2)


def test_as_a_plugin(radd, tmp_path):  # noqa: F811
    """As where the package was installed with its entry points."""
    info = tmp_path / "radrm-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: radrm\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[submitit]\nexecutor = radrm.submitit:RadExecutor\n"
                                           "job_environment = radrm.submitit:RadJobEnvironment\n")
    script = tmp_path / "auto.py"
    script.write_text(textwrap.dedent("""
        import submitit
        executor = submitit.AutoExecutor(folder="log", cluster="rad")
        executor.update_parameters(timeout_min=2, rad_gpu_mem="1G")
        job = executor.submit(max, 3, 8)
        print(job.result(), submitit.AutoExecutor(folder="log").cluster != "rad")
    """))
    said = subprocess.run([sys.executable, str(script)], cwd=tmp_path, capture_output=True, text=True, timeout=120,
                          env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), PACKAGE])})
    assert said.stdout == "8 True\n", said.stderr      # nobody who did not ask for it gets it: Slurm, or this machine
