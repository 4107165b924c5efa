# SPDX-License-Identifier: MIT
"""A machine of fake GPUs (tests/fake-nvml), and what can be wrong with it."""
import json
import os
import re
import shutil

from world import descendants, words_of

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def calls_in_use():
    """From the table that loads them, so that a new call is covered by itself."""
    with open(f"{ROOT}/src/device/nvml_api.c") as f:
        return sorted(set(re.findall(r'\{ "(nvml\w+)", SLOT', f.read())))


def gpu(i):
    return {"uuid": f"GPU-{i}", "name": "NVIDIA H200", "pci": [0, 26 + i, 0], "cc": [9, 0], "cores": 16896, "total_mib": 143771,
            "reserved_mib": 600, "used_mib": 0, "power_mw": 75000, "energy_mj": 1, "util": 0, "processes": [], "mps": [],
            "mig": None, "gpm": {"1": 0, "2": 0, "3": 0, "10": 0, "20": 0, "21": 0}, "fail": {}}


def machine(n, order=None, lost=(), hang=(), fail=None, lie=None, driver="580.1.2"):
    gpus = [gpu(i) for i in (order if order is not None else range(n))]
    for g in gpus:
        if int(g["uuid"][4:]) in lost:
            g["fail"] = {"*": 15}
    return {"driver_version": driver, "hang": list(hang), "fail": fail or {}, "lie": lie or {}, "devices": gpus}


def script_of(way, call, rng):
    if way == "hang":
        return [call]
    if way == "fail":
        return {call: rng.choice([2, 3, 4, 6, 7, 9, 13, 15, 16, 18, 28, 999, -1])}
    return {call: rng.choice([0, 255, rng.randrange(256)])}


def write(world, script):
    with open(f"{world.folder}/nvml.new", "w") as f:
        json.dump(script, f)
    os.rename(f"{world.folder}/nvml.new", f"{world.folder}/nvml.json")


def prepare(world, script):
    world.devices = "nvml"
    world.environ.update({"RAD_NVML_LIBRARY": f"{world.build}/tests/fake-nvml/libnvidia-ml.so.1",
                          "RAD_DCGM_LIBRARY": "/none.so", "RAD_FAKE_NVML": f"{world.folder}/nvml.json"})
    write(world, script)


def fake_mps(world):
    """A copy: it looks for its mode beside itself, and writes there."""
    os.mkdir(f"{world.folder}/mps")
    shutil.copy(f"{ROOT}/tests/fake-mps/nvidia-cuda-mps-control", f"{world.folder}/mps/")
    world.environ["RAD_MPS_CONTROL"] = f"{world.folder}/mps/nvidia-cuda-mps-control"


def mps_controls(world):
    own = f"{world.folder}/mps/".encode()
    return [p for p in descendants(os.getpid()) if any(w.startswith(own) for w in words_of(p)[:3])]


def mps_servers(world):
    """The control daemons, and what they started."""
    controls = mps_controls(world)
    return [*controls, *(p for control in controls for p in descendants(control))]


def samplers(world):
    return [p for p in descendants(world.radd.pid) if b"--sampler" in words_of(p)] if world.radd else []
