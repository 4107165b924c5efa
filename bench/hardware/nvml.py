# SPDX-License-Identifier: MIT
"""A second witness: reads the GPU through NVML by itself, so that what rad reports can be compared with what the driver says.

Standard library only. Every reading that the driver or the GPU does not give is None, never 0.
"""
import ctypes
import os
import threading
import time

GPM = {1: "gract", 2: "smact", 3: "smocc", 10: "dram"}  # NVML's metric ids; percent there, fractions here
PCIE = {20: "pcie_tx_mib_s", 21: "pcie_rx_mib_s"}        # as the GPU sees them: it receives what the host copies to it
METRICS_MAX = 512  # more than any driver's table has: NVML reads only as many as asked for


class Memory(ctypes.Structure):
    _fields_ = [("version", ctypes.c_uint), ("total", ctypes.c_ulonglong), ("reserved", ctypes.c_ulonglong),
                ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong)]


class Process(ctypes.Structure):
    _fields_ = [("pid", ctypes.c_uint), ("used", ctypes.c_ulonglong), ("gpu_instance", ctypes.c_uint),
                ("compute_instance", ctypes.c_uint)]


class GpmMetric(ctypes.Structure):
    _fields_ = [("id", ctypes.c_uint), ("result", ctypes.c_int), ("value", ctypes.c_double), ("texts", ctypes.c_void_p * 3)]


class GpmQuery(ctypes.Structure):
    _fields_ = [("version", ctypes.c_uint), ("count", ctypes.c_uint), ("before", ctypes.c_void_p),
                ("after", ctypes.c_void_p), ("metrics", GpmMetric * METRICS_MAX)]


def visible(index):
    """The index in PCI order of a GPU counted as CUDA counts: among those that CUDA_VISIBLE_DEVICES leaves, where it has indices."""
    left = os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")
    if not all(word.strip().isdigit() for word in left):
        return index
    if index >= len(left):
        raise OSError(f"CUDA_VISIBLE_DEVICES leaves {len(left)} GPUs: none has index {index}")
    return int(left[index])


class Gpu:
    """One GPU, by its index as CUDA counts them. Raises OSError where there is no driver or no such GPU. `metrics`: which of GPM's
    activity() gives, by their ids."""
    def __init__(self, index=0, metrics=GPM):
        self.lib = ctypes.CDLL("libnvidia-ml.so.1")
        self.handle, self.metrics = ctypes.c_void_p(), metrics
        self._must("nvmlInit_v2")
        self._must("nvmlDeviceGetHandleByIndex_v2", visible(index), ctypes.byref(self.handle))
        self.name = self._text("nvmlDeviceGetName")
        self.uuid = self._text("nvmlDeviceGetUUID")
        self.before = self._gpm_sample()

    def _call(self, name, *args):
        try:
            return getattr(self.lib, name)(*args)
        except AttributeError:  # an older driver
            return -1

    def _must(self, name, *args):
        code = self._call(name, *args)
        if code:
            raise OSError(f"{name} failed: NVML error {code}")

    def _text(self, name):
        buffer = ctypes.create_string_buffer(96)
        return None if self._call(name, self.handle, buffer, 96) else buffer.value.decode()

    def _number(self, name, kind, scale):
        value = kind()
        return None if self._call(name, self.handle, ctypes.byref(value)) else value.value * scale

    def driver(self):
        buffer = ctypes.create_string_buffer(80)
        return None if self._call("nvmlSystemGetDriverVersion", buffer, 80) else buffer.value.decode()

    def clocks(self):
        """MHz of the SMs and of the memory."""
        value, found = ctypes.c_uint(), []
        for which in (1, 2):
            found.append(None if self._call("nvmlDeviceGetClockInfo", self.handle, which, ctypes.byref(value)) else value.value)
        return found

    def utilization(self):
        """The share of the time in which some kernel ran, over the driver's own period (up to a second)."""
        percent = (ctypes.c_uint * 2)()
        return None if self._call("nvmlDeviceGetUtilizationRates", self.handle, percent) else percent[0] / 100

    def energy_j(self):
        return self._number("nvmlDeviceGetTotalEnergyConsumption", ctypes.c_ulonglong, 1e-3)

    def memory(self):
        m = Memory(version=ctypes.sizeof(Memory) | 2 << 24)
        return None if self._call("nvmlDeviceGetMemoryInfo_v2", self.handle, ctypes.byref(m)) else m

    def processes(self, mps=False):
        """[{pid, mem_mib, name}], from the compute list or from the list of MPS clients; None if the driver has none."""
        name = "nvmlDeviceGetMPSComputeRunningProcesses_v3" if mps else "nvmlDeviceGetComputeRunningProcesses_v3"
        count, list_ = ctypes.c_uint(256), (Process * 256)()
        if self._call(name, self.handle, ctypes.byref(count), list_):
            return None
        unknown = 2 ** 64 - 1
        return [{"pid": p.pid, "mem_mib": None if p.used == unknown else p.used >> 20, "name": process_name(p.pid)}
                for p in list_[:count.value]]

    def _gpm_sample(self):
        sample = ctypes.c_void_p()
        if self._call("nvmlGpmSampleAlloc", ctypes.byref(sample)):
            return None
        if self._call("nvmlGpmSampleGet", self.handle, sample):
            self._call("nvmlGpmSampleFree", sample)
            return None
        return sample

    def activity(self):
        """Means since the call before: {gract, smact, smocc, dram}, or of whatever metrics were wanted."""
        after = self._gpm_sample()
        none = dict.fromkeys(self.metrics.values())
        if not after or not self.before:
            self.before = after
            return none
        query = GpmQuery(version=1, count=len(self.metrics), before=self.before, after=after)
        for slot, number in zip(query.metrics, self.metrics):
            slot.id = number
        code = self._call("nvmlGpmMetricsGet", ctypes.byref(query))
        self._call("nvmlGpmSampleFree", self.before)
        self.before = after
        if code:
            return none
        return {self.metrics[m.id]: None if m.result else m.value if m.id in PCIE else m.value / 100
                for m in query.metrics[:len(self.metrics)]}

    def read(self):
        m = self.memory()
        return {"t": round(time.time(), 3), "used_mib": m.used >> 20 if m else None,
                "reserved_mib": m.reserved >> 20 if m else None, "total_mib": m.total >> 20 if m else None,
                "power_w": self._number("nvmlDeviceGetPowerUsage", ctypes.c_uint, 1e-3),
                "energy_j": self.energy_j(), **self.activity(), "processes": self.processes()}


def process_name(pid):
    try:
        with open(f"/proc/{pid}/comm") as f:
            return f.read().strip()
    except OSError:
        return None


class Logger(threading.Thread):
    """Calls read() at once, once a second, and a last time at its end. Keeps what it gave."""
    def __init__(self, read, period_s=1.0):
        super().__init__(daemon=True)
        self.read, self.period_s, self.samples = read, period_s, []
        self.over = threading.Event()
        self.sample()

    def sample(self):
        try:
            self.samples.append(self.read())
        except Exception as e:  # a witness that fails once must still see the rest
            self.samples.append({"t": round(time.time(), 3), "error": str(e)})

    def run(self):
        while not self.over.wait(self.period_s):
            self.sample()
        self.sample()

    def stop(self):
        self.over.set()
        self.join(10)
        return self.samples
