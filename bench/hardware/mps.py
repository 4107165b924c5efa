# SPDX-License-Identifier: MIT
"""One MPS control daemon by hand, without rad: for the experiments on MPS itself."""
import subprocess

from common import tail, wait_for

CONTROL = "nvidia-cuda-mps-control"


class Mps:
    def __init__(self, workspace, name, visible=None):
        """`visible`: CUDA_VISIBLE_DEVICES of the daemon, and so of its server; None: not set."""
        self.dir = workspace.dir / f"mps-{name}"
        self.logs = self.dir / "log"
        self.logs.mkdir(parents=True)
        self.env = {**workspace.env, "CUDA_MPS_PIPE_DIRECTORY": str(self.dir), "CUDA_MPS_LOG_DIRECTORY": str(self.logs),
                    "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
        self.env.pop("CUDA_VISIBLE_DEVICES", None)
        if visible is not None:
            self.env["CUDA_VISIBLE_DEVICES"] = visible

    def __enter__(self):
        output = self.logs / "start.log"  # a file: the daemon may keep it open, and a pipe would never end
        with open(output, "w") as f:
            done = subprocess.run([CONTROL, "-d"], env=self.env, stdin=subprocess.DEVNULL, stdout=f, stderr=f, timeout=20)
        if done.returncode:
            raise RuntimeError(f"{CONTROL} -d: exit {done.returncode}: {tail(output)}")
        wait_for("the MPS control daemon to answer", 15, lambda: self.ask("get_server_list") is not None)
        return self

    def __exit__(self, *_):
        self.ask("quit -t 5")  # what is left after that, the workspace ends

    def ask(self, command):
        """What the control daemon answers; None if it does not within ten seconds."""
        try:
            done = subprocess.run([CONTROL], input=command + "\n", env=self.env, capture_output=True, text=True, timeout=10)
        except (subprocess.TimeoutExpired, OSError):
            return None
        return done.stdout.strip() if done.returncode == 0 else None

    def servers(self):
        return [int(w) for w in (self.ask("get_server_list") or "").split() if w.isdigit()]

    def clients(self):
        return [int(w) for s in self.servers() for w in (self.ask(f"get_client_list {s}") or "").split() if w.isdigit()]

    def status(self):
        return {s: self.ask(f"get_server_status {s}") for s in self.servers()}

    def client_env(self, visible=None, **more):
        """The environment of a client; `visible` as for the daemon."""
        env = {**self.env, **more}
        env.pop("CUDA_VISIBLE_DEVICES", None)
        if visible is not None:
            env["CUDA_VISIBLE_DEVICES"] = visible
        return env

    def logged(self):
        return {name: tail(self.logs / name, 8192) for name in ("control.log", "server.log")}


def without_mps(workspace):
    """The environment of a process that must not become a client: an empty pipe directory."""
    empty = workspace.dir / "no-mps"
    empty.mkdir(exist_ok=True)
    return {**workspace.env, "CUDA_MPS_PIPE_DIRECTORY": str(empty), "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
