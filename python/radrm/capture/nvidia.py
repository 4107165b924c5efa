# SPDX-License-Identifier: MIT
"""The GPU that is not there, as nvidia-smi and pynvml tell of it: a script that asks which GPU it has gets the one that is
captured for, not the one of the machine on which the capture is made."""
import os
import stat
import sys
import types

H200 = {"name": "NVIDIA H200", "total_bytes": 143771 << 20, "capability": (9, 0), "processors": 132, "count": 1}
UUID = "GPU-00000000-0000-0000-0000-000000000000"
DRIVER = "580.82.07"

SMI = '''#!{python} -ES
import sys
GPUS = {gpus!r}
DRIVER = {driver!r}
args = dict.fromkeys(["", *sys.argv[1:]], "")
for word in sys.argv[1:]:
    name, _, value = word.partition("=")
    args[name] = value
words = sys.argv[1:]
for name in ("-i", "--id"):
    if name in words[:-1]:
        args[name] = words[words.index(name) + 1]
chosen = args.get("-i") or args.get("--id") or ""
gpus = [g for g in GPUS if not chosen or g["index"] in chosen.split(",") or g["uuid"] in chosen.split(",")]
query = args.get("--query-gpu")
form = args.get("--format", "csv").split(",")
UNITS = {{"memory": "MiB", "power": "W", "utilization": "%", "clocks": "MHz", "enforced": "W"}}
if query is not None:
    fields = [f.strip() for f in query.split(",")]
    unit = lambda f, v: v if "nounits" in form or not v[:1].isdigit() or f.split(".")[0] not in UNITS else v + " " + UNITS[f.split(".")[0]]
    if "noheader" not in form:
        print(", ".join(f + (" [" + UNITS[f.split(".")[0]] + "]" if f.split(".")[0] in UNITS else "") for f in fields))
    for g in gpus:
        print(", ".join(unit(f, g.get(f, "[N/A]")) for f in fields))
elif "-L" in args or "--list-gpus" in args:
    for g in gpus:
        print("GPU %s: %s (UUID: %s)" % (g["index"], g["name"], g["uuid"]))
elif any(a.startswith("--query-") for a in args):
    pass
else:
    print("NVIDIA-SMI %s    Driver Version: %s    CUDA Version: 13.0" % (DRIVER, DRIVER))
    for g in gpus:
        print("|  %s  %s  |  0MiB / %sMiB  |  0%%  Default |" % (g["index"], g["name"], g["memory.total"]))
'''


def described(gpu, index):
    total = str(gpu.total_bytes >> 20)
    return {"index": str(index), "name": gpu.name, "gpu_name": gpu.name, "uuid": UUID[:-1] + str(index % 10),
            "gpu_uuid": UUID[:-1] + str(index % 10), "count": str(gpu.count), "memory.total": total, "memory.used": "0",
            "memory.free": total, "memory.reserved": "0", "utilization.gpu": "0", "utilization.memory": "0",
            "temperature.gpu": "30", "power.draw": "75.00", "power.limit": "700.00", "driver_version": DRIVER,
            "compute_cap": "%d.%d" % gpu.capability, "compute_mode": "Default", "mig.mode.current": "Disabled",
            "persistence_mode": "Enabled", "pstate": "P0", "display_active": "Disabled", "pci.bus_id": "00000000:%02X:00.0" % index}


def put_program(gpu, folder):
    """Writes an nvidia-smi that answers for the GPU, first in PATH from now on."""
    path = os.path.join(folder, "nvidia-smi")
    with open(path, "w") as f:
        f.write(SMI.format(python=sys.executable, gpus=[described(gpu, i) for i in range(gpu.count)], driver=DRIVER))
    os.chmod(path, stat.S_IRWXU)
    os.environ["PATH"] = folder + os.pathsep + os.environ.get("PATH", os.defpath)


def watch_choice(gpu, recorder):
    """A script that chooses GPUs by itself may leave the one that its task was given: its owner should know before it runs."""
    from .asked import script_line
    real = os.putenv

    def putenv(name, value):
        real(name, value)
        chosen = os.fsdecode(value)
        if os.fsdecode(name) == "CUDA_VISIBLE_DEVICES" and chosen.strip() not in ("", "-1"):
            recorder.note(0, f"sets CUDA_VISIBLE_DEVICES to {chosen[:60]} itself. In a task the numbers count among the GPUs "
                             f"that it was given; if it names more "
                             "than these, others by UUID, or stay_on_gpus is off, it leaves them. Better let it not", script_line())
    gpu.patch(os, "putenv", putenv)


def answer_pynvml(gpu, recorder):
    """A function for imports.Imports: makes the module pynvml speak of the GPU."""
    def replace(module):
        known = {
            "Init": lambda: None, "InitWithFlags": lambda *_: None, "Shutdown": lambda: None,
            "SystemGetDriverVersion": lambda: DRIVER, "SystemGetNVMLVersion": lambda: "13." + DRIVER,
            "SystemGetCudaDriverVersion": lambda: 13000, "SystemGetCudaDriverVersion_v2": lambda: 13000,
            "DeviceGetCount": lambda: gpu.count, "DeviceGetHandleByIndex": lambda index: int(index),
            "DeviceGetHandleByUUID": lambda _: 0, "DeviceGetHandleByPciBusId": lambda _: 0, "DeviceGetIndex": lambda handle: handle,
            "DeviceGetName": lambda _: gpu.name, "DeviceGetUUID": lambda handle: UUID[:-1] + str(handle % 10),
            "DeviceGetMemoryInfo": lambda *_, **__: types.SimpleNamespace(
                total=gpu.total_bytes, used=recorder.live_bytes, free=gpu.total_bytes - recorder.live_bytes, reserved=0),
            "DeviceGetUtilizationRates": lambda _: types.SimpleNamespace(gpu=0, memory=0),
            "DeviceGetTemperature": lambda *_: 30, "DeviceGetPowerUsage": lambda _: 75000,
            "DeviceGetEnforcedPowerLimit": lambda _: 700000, "DeviceGetPowerManagementLimit": lambda _: 700000,
            "DeviceGetTotalEnergyConsumption": lambda _: 0, "DeviceGetCudaComputeCapability": lambda _: gpu.capability,
            "DeviceGetComputeRunningProcesses": lambda _: [], "DeviceGetGraphicsRunningProcesses": lambda _: [],
            "DeviceGetClockInfo": lambda *_: 1980, "DeviceGetMaxClockInfo": lambda *_: 1980, "DeviceGetMigMode": lambda _: [0, 0],
        }

        def unknown(*_, **__):
            raise module.NVMLError(getattr(module, "NVML_ERROR_NOT_SUPPORTED", 3))
        for name in [n for n in vars(module) if n.startswith("nvml") and n[4:5].isupper() and callable(getattr(module, n))]:
            setattr(module, name, known.get(name[4:].removesuffix("_v2"), unknown))
    return replace
