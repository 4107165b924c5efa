#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The same sweep, written against submitit: only the executor's name is another than on a Slurm cluster.

    PYTHONPATH=/usr/local/share/rad/python python3 submitit_sweep.py
"""
from radrm.submitit import RadExecutor
from sweep import train

if __name__ == "__main__":
    executor = RadExecutor(folder="log")
    executor.update_parameters(gpu_mem="1536M", timeout_min=60, array_parallelism=3, name="sweep")
    rates = (0.3, 0.1, 0.03, 0.01, 0.003, 0.001)
    for lr, job in zip(rates, executor.map_array(train, rates)):
        print(f"task {job.job_id}: lr {lr}: loss {job.result():.4g}")
