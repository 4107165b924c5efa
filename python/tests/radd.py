# SPDX-License-Identifier: MIT
"""A radd of one's own on simulated GPUs, for tests of what speaks with one."""
import os
import pathlib
import shutil
import subprocess
import tempfile

import pytest

BUILD = os.environ.get("RAD_BUILD_ROOT") or str(pathlib.Path(__file__).resolve().parents[2] / "build")


class Radd:
    def __init__(self, folder, devices="sim:2xa100-40g"):
        self.folder, self.devices = folder, devices
        with open(os.path.join(folder, "rad.conf"), "w") as f:
            f.write("interval: 0.2\nwindow: 2\nsettle: 0.5\nwarm: 1\nkill_wait: 2\n")
        os.environ.update(RAD_SOCKET=folder + "/radd.sock", RAD_NO_START="1", RAD_CONFIG=folder + "/rad.conf", RAD_CLAIMS_DIR="",
                          RAD_STATE=folder + "/own", HOME=folder, PATH=BUILD + os.pathsep + os.environ["PATH"])
        self.start()

    def start(self):
        read, write = os.pipe()
        with open(self.folder + "/radd.log", "a") as log:
            self.process = subprocess.Popen([BUILD + "/radd", "--devices", self.devices, "--state", self.folder + "/state", "--ready-fd",
                                             str(write)], pass_fds=[write], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        os.close(write)
        with os.fdopen(read) as ready:
            assert ready.readline() == "ok\n"

    def kill(self):
        self.process.kill()
        self.process.wait()

    def stop(self):
        subprocess.run(["rad", "cancel", "--all"], capture_output=True, check=False)
        self.process.terminate()
        self.process.wait(timeout=100)


@pytest.fixture(scope="module")
def radd():
    if not os.access(BUILD + "/radd", os.X_OK):
        pytest.skip("no radd in " + BUILD)
    before = dict(os.environ)
    folder = tempfile.mkdtemp(prefix="rad-py.", dir="/tmp")     # short: a socket's name may have 107 characters
    daemon = Radd(folder)
    try:
        yield daemon
    finally:
        daemon.stop()
        os.environ.clear()
        os.environ.update(before)
        shutil.rmtree(folder)
