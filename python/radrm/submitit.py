# SPDX-License-Identifier: MIT
"""submitit on the GPUs of a server: its jobs become tasks of radd.

    from radrm.submitit import RadExecutor

    executor = RadExecutor(folder="log")
    executor.update_parameters(gpu_mem="10G", time="2h", array_parallelism=4)
    jobs = executor.map_array(train, (0.1, 0.01))
    print([job.result() for job in jobs])

Parameters are options of `rad submit`, and of submitit's own timeout_min, gpus_per_node, cpus_per_task, mem_gb, name and
array_parallelism; nodes and tasks_per_node are 1. Where the package is installed as a plugin of submitit, AutoExecutor(cluster="rad") is
the same, with options of `rad submit` as rad_gpu_mem="10G".

A call that runs out of GPU memory is run again by radd before submitit is told. With slot="2h", a Checkpointable is asked to save at
the end of its time slot, when others wait, and goes on at its next turn.
"""
import json
import os
import shlex
import shutil
import sys
import uuid

from submitit.core import core, job_environment, plugins, submission, utils

from . import _rad

__all__ = ["RadExecutor", "RadJob", "RadJobEnvironment"]

_OWN = {"timeout_min": "time", "gpus_per_node": "gpus", "mem_gb": "mem", "cpus_per_task": "cpus_per_task", "name": "name"}


class RadInfoWatcher(core.InfoWatcher):
    def _make_command(self):
        jobs = sorted({job.partition("_")[0] for job in self._registered - self._finished})
        return [_rad.find(), "show", "--json", *jobs] if jobs else None

    def read_info(self, string):
        return {task["id"]: {"State": task["state"], "Reason": task.get("reason_text") or ""} for task in json.loads(string)["tasks"]}

    def get_state(self, job_id, mode="standard"):
        state = self.get_info(job_id, mode=mode).get("State") or "UNKNOWN"
        return "PENDING" if state == "HELD" else state


class RadJob(core.Job):
    _cancel_command = "rad cancel"
    watcher = RadInfoWatcher(delay_s=5)

    def cancel(self, check=True):
        try:
            _rad.call(["cancel", self.job_id])
        except _rad.RadError:
            if check:
                raise


class RadJobEnvironment(job_environment.JobEnvironment):
    # The last ones are never set: a task is one process on one machine, and what it starts itself is its own.
    _env = {"job_id": "RAD_TASK_ID", "array_job_id": "RAD_ARRAY_JOB_ID", "array_task_id": "RAD_ARRAY_TASK_ID",
            **{name: "RAD_SUBMITIT_" + name.upper() for name in ("num_tasks", "num_nodes", "node", "global_rank", "local_rank")}}

    @property
    def raw_job_id(self):
        return os.environ["RAD_TASK_ID"].partition("_")[0]

    def activated(self):
        return os.environ.get("SUBMITIT_EXECUTOR") == self.name()

    def _requeue(self, countdown):
        sys.exit(int(os.environ.get("RAD_REQUEUE_CODE") or 85))


class RadExecutor(core.PicklingExecutor):
    """submitit's executor for radd; see the module."""

    job_class = RadJob

    def __init__(self, folder, max_num_timeout=3, max_pickle_size_gb=1.0, python=None):
        super().__init__(folder, max_num_timeout=max_num_timeout, max_pickle_size_gb=max_pickle_size_gb)
        self.python = shlex.quote(sys.executable) if python is None else python
        self._array = None

    @classmethod
    def _equivalence_dict(cls):
        return None     # names stay as they are given: both submitit's and rad's are understood

    @classmethod
    def _valid_parameters(cls):
        return {"gpus", "gpu_mem", "exclusive", "share", "time", "mem", "name", "priority", "nice", "slot", "constraint", "max_slowdown",
                "dependency", "begin", "hold", "notify", "notify_to", "env", "requeue", "signal", "batch_size", "capture", "setup",
                "array_parallelism", "chdir", "export"}

    @classmethod
    def affinity(cls):
        """There, or not (-1); an AutoExecutor that names no cluster does not take it."""
        return 0 if os.environ.get("RAD") or shutil.which("rad") else -1

    def _internal_update_parameters(self, **kwargs):
        known = self._valid_parameters() | set(_OWN) | {"nodes", "tasks_per_node", "stderr_to_stdout"}
        for name in kwargs:
            if name not in known:
                raise ValueError("radrm.submitit: no parameter %s: there are %s" % (name, ", ".join(sorted(known))))
        for name in ("nodes", "tasks_per_node"):
            if (kwargs.get(name) or 1) > 1:
                raise ValueError("radrm.submitit: %s must be 1: radd is of one machine, and a task starts its own processes" % name)
        super()._internal_update_parameters(**kwargs)

    def _internal_process_submissions(self, delayed_submissions):
        if len(delayed_submissions) == 1:
            jobs = super()._internal_process_submissions(delayed_submissions)
            self._begin(jobs[0])
            return jobs
        folder = utils.JobPaths.get_first_id_independent_folder(self.folder)
        folder.mkdir(parents=True, exist_ok=True)
        pickles = []
        for delayed in delayed_submissions:
            pickles.append(folder / ("%s.pkl" % uuid.uuid4().hex))
            delayed.set_timeout(self.parameters.get("timeout_min", 5), self.max_num_timeout)
            delayed.dump(pickles[-1])
        self._array = len(delayed_submissions)
        try:
            first = self._submit_command(self._submitit_command_str)
        finally:
            self._array = None
        jobs = [self.job_class(folder=self.folder, job_id="%s_%d" % (first.job_id, i), tasks=[0]) for i in range(len(pickles))]
        for job, path in zip(jobs, pickles):
            job.paths.move_temporary_file(path, "submitted_pickle")
            self._begin(job)
        return jobs

    @property
    def _submitit_command_str(self):
        return " ".join([self.python, "-u", "-m", "radrm.submitit", shlex.quote(str(self.folder))])

    def _num_tasks(self):
        return 1

    def _options(self):
        given = {name: value for name, value in self.parameters.items() if name in self._valid_parameters()}
        given.pop("setup", None)
        limit = given.pop("array_parallelism", None)
        for name, option in _OWN.items():
            value = self.parameters.get(name)
            if value is not None:
                given.setdefault(option, "%ds" % round(60 * value) if name == "timeout_min" else "%dM" % round(1024 * value)
                                 if name == "mem_gb" else value)
        if given.get("time") or given.get("slot"):     # without an end that is known there is nothing to be told of
            given.setdefault("signal", job_environment.JobEnvironment.USR_SIG + "@60")
        if self._array:
            given["array"] = "0-%d%s" % (self._array - 1, "%%%d" % limit if limit else "")
        for option, name in self._logs().items():
            given[option] = os.path.join(_rad.literal(self._log_folder()), name.replace("%j", "%A_%a" if self._array else "%j"))
        return _rad.options(given)

    # Logs are opened when there is an id and a folder by it is not yet there: such ones are linked into it.

    def _logs(self):
        both = {"output": "%j_0_log.out", "error": "%j_0_log.err"}
        return {"output": both["output"]} if self.parameters.get("stderr_to_stdout") else both

    def _log_folder(self):
        return utils.JobPaths.get_first_id_independent_folder(self.folder)

    def _begin(self, job):
        """Its logs are linked. A radd that numbers anew finds another's job of that number in the folder: what is not newer than the call
        is that one's: a file system's clock has ticks of milliseconds, in which no Python begins."""
        result, call = job.paths.result_pickle, job.paths.submitted_pickle
        if result.exists() and result.stat().st_mtime_ns <= call.stat().st_mtime_ns:
            result.unlink()
        for name in self._logs().values():
            log = self._log_folder() / name.replace("%j", job.job_id)
            there = job.paths.folder / log.name
            if there != log:
                there.unlink(missing_ok=True)
                there.symlink_to(log)

    def _make_submission_file_text(self, command, uid):
        path = os.pathsep.join([os.path.dirname(os.path.dirname(os.path.abspath(__file__))), *filter(None, [os.environ.get("PYTHONPATH")])])
        lines = ["#!/bin/bash", "# submitit %s" % uid, "export SUBMITIT_EXECUTOR=rad PYTHONPATH=%s" % shlex.quote(path)]
        setup = self.parameters.get("setup") or []
        return "\n".join([*lines, *([setup] if isinstance(setup, str) else setup), "exec " + command, ""])

    def _make_submission_command(self, submission_file_path):
        return [_rad.find(), "submit", "--parsable", *self._options(), "--", "bash", str(submission_file_path)]

    @staticmethod
    def _get_job_id_from_submission_command(string):
        return (string.decode() if isinstance(string, bytes) else string).strip().split("\n")[-1]


def _is_out_of_memory(error):
    return "out of memory" in str(error).lower() or "OutOfMemory" in type(error).__name__


def main(folder):
    """What a task runs: submitit's own worker, which here finds the environment of RadJobEnvironment."""
    plugins.get_job_environments.cache_clear()
    environments = dict(plugins.get_job_environments())
    environments.setdefault(RadJobEnvironment.name(), RadJobEnvironment())
    plugins.get_job_environments = lambda: environments
    os.environ["SUBMITIT_FOLDER"] = folder
    result = job_environment.JobEnvironment().paths.result_pickle
    if result.exists():     # of an attempt that radd runs again
        result.unlink()
    try:
        submission.process_job(folder)
    except Exception as error:
        if _is_out_of_memory(error) and result.exists():
            result.unlink()     # radd runs it again, and submitit takes what is there for the end
        raise


if __name__ == "__main__":
    main(sys.argv[1])
