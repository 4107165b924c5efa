# SPDX-License-Identifier: MIT
"""On what something was measured."""
import os
import platform
import subprocess
import tempfile


def line_of(path, key, otherwise=None):
    try:
        with open(path) as f:
            return next((line.split(":" if ":" in line else "=", 1)[1].strip().strip('"') for line in f if line.startswith(key)), otherwise)
    except OSError:
        return otherwise


def file_system(folder):
    said = subprocess.run(["stat", "-f", "-c", "%T", folder], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False)
    return said.stdout.decode().strip() or None


def facts():
    memory = line_of("/proc/meminfo", "MemTotal", "0").split()[0]
    return {"cpu": line_of("/proc/cpuinfo", "model name"), "cpus": len(os.sched_getaffinity(0)), "architecture": platform.machine(),
            "memory_mib": int(memory) // 1024, "kernel": platform.release(), "system": line_of("/etc/os-release", "PRETTY_NAME"),
            "scratch_file_system": file_system(tempfile.gettempdir()), "load_before": round(os.getloadavg()[0], 2)}
