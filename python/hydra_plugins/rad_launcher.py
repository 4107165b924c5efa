# SPDX-License-Identifier: MIT
"""Hydra's multirun on the GPUs of a server: the jobs of a sweep are an array of tasks of radd.

    python train.py -m hydra/launcher=rad hydra.launcher.gpu_mem=10G lr=0.1,0.01,0.001

Other options of `rad submit` are members of hydra.launcher.options: +hydra.launcher.options.time=2h. Needs cloudpickle.
"""
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Dict, Optional

from hydra.core.config_store import ConfigStore
from hydra.core.singleton import Singleton
from hydra.core.utils import JobReturn, JobStatus, configure_log, filter_overrides, run_job, setup_globals
from hydra.plugins.launcher import Launcher
from omegaconf import OmegaConf, open_dict


@dataclass
class RadLauncherConf:
    _target_: str = "hydra_plugins.rad_launcher.RadLauncher"
    folder: str = "${hydra.sweep.dir}/.rad"
    at_once: Optional[int] = None   # tasks of the sweep that may run at a time
    gpus: Optional[int] = None
    gpu_mem: Optional[str] = None
    time: Optional[str] = None
    options: Dict[str, Any] = field(default_factory=dict)


ConfigStore.instance().store(group="hydra/launcher", name="rad", node=RadLauncherConf, provider="rad_launcher")


def _run_one(launcher, overrides, number, singletons):
    """In the task. An exception leaves it, so that radd sees how it ended and runs again what ran out of memory."""
    import os
    Singleton.set_state(singletons)
    setup_globals()
    config = launcher.hydra_context.config_loader.load_sweep_config(launcher.config, overrides)
    with open_dict(config.hydra.job):
        config.hydra.job.id = os.environ["RAD_TASK_ID"]
        config.hydra.job.num = number
    done = run_job(hydra_context=launcher.hydra_context, task_function=launcher.task_function, config=config,
                   job_dir_key="hydra.sweep.dir", job_subdir_key="hydra.sweep.subdir")
    done.return_value   # raises what the job raised
    return done


class RadLauncher(Launcher):
    def __init__(self, folder, at_once=None, options=None, **named):
        self.folder, self.at_once = folder, at_once
        self.options = {**{name: value for name, value in named.items() if value is not None}, **(options or {})}
        self.config = self.hydra_context = self.task_function = None

    def setup(self, *, hydra_context, task_function, config):
        self.hydra_context, self.task_function, self.config = hydra_context, task_function, config

    def launch(self, job_overrides, initial_job_idx):
        import logging
        from radrm.futures import RadExecutor
        setup_globals()
        configure_log(self.config.hydra.hydra_logging, self.config.hydra.verbose)
        Path(str(self.config.hydra.sweep.dir)).mkdir(parents=True, exist_ok=True)
        numbers = range(initial_job_idx, initial_job_idx + len(job_overrides))
        overrides = [list(o) for o in job_overrides]
        options = {name: OmegaConf.to_object(value) if OmegaConf.is_config(value) else value for name, value in self.options.items()}
        options.setdefault("name", self.config.hydra.job.name)
        executor = RadExecutor(self.folder, **options)
        n = len(overrides)
        futures = executor.map_futures(_run_one, [self] * n, overrides, numbers, [Singleton.get_state()] * n, at_once=self.at_once)
        for future, number, words in zip(futures, numbers, overrides):
            logging.getLogger(__name__).info("#%d : task %s : %s", number, future.task, " ".join(filter_overrides(words)))
        return [self._returned(future) for future in futures]

    @staticmethod
    def _returned(future):
        try:
            return future.result()
        except Exception as error:     # one that failed does not end the others: Hydra raises it where its result is used
            return JobReturn(status=JobStatus.FAILED, _return_value=error)
