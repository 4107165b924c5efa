# SPDX-License-Identifier: MIT
"""Pythons of a captured command that the hook does not reach (command.py): `python -I`, `env -i`, a container without its folder. They see
no GPU, so many a script trains on the CPU instead, for as long as the capture may take; it is told at once. Those that the hook
reaches say so in a file; whatever they start is the capture's matter."""
import os

from . import spent
from .sandbox import CaptureError

ENOUGH = 20  # seconds of processor time after which one that loaded PyTorch prepares nothing: it trains
TORCH = b"/libtorch"
FILE = "reached"  # in the capture's folder, with a process in each line


class Unreached:
    """Among the processes that this one starts."""

    def __init__(self, folder, hint):
        self.path, self.hint = os.path.join(folder, FILE), hint
        self.first = None  # the words of one

    def look(self):
        for pid in self.processes():
            if TORCH in spent.read(f"/proc/{pid}/maps"):
                self.first = self.first or spent.read(f"/proc/{pid}/cmdline").replace(b"\0", b" ").decode(errors="replace").strip()
                if spent.taken(pid) > ENOUGH:
                    self.tell()

    def tell(self):
        """That there was one."""
        if self.first:
            raise CaptureError(f"{self.first:.200}: runs PyTorch where the capture does not reach it, and so sees no GPU: is it told to "
                               "ignore its environment (python -I, -E, -S, env -i), or in a container? Name the script itself: "
                               f"rad capture -o FILE -- python train.py{self.hint}")

    def processes(self):
        reached = set(map(int, spent.read(self.path).split()))
        found = spent.children(os.getpid())
        for pid in found:
            if pid not in reached:
                yield pid
                found += spent.children(pid)
