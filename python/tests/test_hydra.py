# SPDX-License-Identifier: MIT
"""hydra_plugins.rad_launcher: the jobs of a multirun as tasks of a radd on simulated GPUs."""
import os
import subprocess
import sys
import textwrap

import pytest

pytest.importorskip("hydra")
pytest.importorskip("cloudpickle")

from radd import radd  # noqa: E402, F401

PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def test_multirun(radd, tmp_path):  # noqa: F811
    (tmp_path / "app.py").write_text(textwrap.dedent("""
        import os, hydra
        from hydra.core.hydra_config import HydraConfig

        @hydra.main(version_base=None, config_path=None)
        def app(config):
            number = HydraConfig.get().job.num
            print("job", number, config.lr, os.environ["RAD_TASK_ID"])
            with open(os.path.join(HydraConfig.get().runtime.output_dir, "lr"), "w") as f:
                f.write(str(config.lr))
            if config.lr == 2:
                raise KeyError("two")

        app()
    """))
    words = ["app.py", "-m", "hydra/launcher=rad", "hydra.launcher.gpu_mem=1G", "hydra.launcher.at_once=2",
             "+hydra.launcher.options.time=5m", "hydra.sweep.dir=out", "+lr=1,2,3"]
    said = subprocess.run([sys.executable, *words], cwd=tmp_path, capture_output=True, text=True, timeout=120,
                          env={**os.environ, "PYTHONPATH": PACKAGE})
    assert [(tmp_path / "out" / str(i) / "lr").read_text() for i in range(3)] == ["1", "2", "3"], said.stderr
    assert "KeyError: 'two'" in said.stderr and said.returncode == 1
    assert "task" in said.stdout and "_1 : +lr=2" in said.stdout
