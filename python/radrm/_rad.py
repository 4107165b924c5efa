# SPDX-License-Identifier: MIT
"""The command `rad`, which is the one client of radd: found, called, its JSON read."""
import json
import os
import re
import shutil
import subprocess
import sysconfig


class RadError(RuntimeError):
    """Why something could not be asked of radd, in one line."""


def _places():
    # What the user would call. Then what came with this file, for a Python that no shell prepared, as a notebook's often is: the bin
    # beside share/rad/python, or where pip puts the programs of a wheel.
    yield "rad"
    yield os.path.abspath(os.path.join(os.path.dirname(__file__), "../../../../bin/rad"))
    yield os.path.join(sysconfig.get_path("scripts"), "rad")
    yield os.path.join(sysconfig.get_path("scripts", os.name + "_user"), "rad")


def find():
    found = os.environ.get("RAD") or next(filter(None, map(shutil.which, _places())), None)
    if not found:
        raise RadError("rad: not found in PATH; set RAD to its path")
    return found


def call(words, keep=()):
    """What it prints. What it says besides goes to this process's stderr; a failure is a RadError with its line. `keep`: descriptors that
    it has too."""
    try:
        child = subprocess.run([find(), *words], stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", check=False,
                               pass_fds=keep)
    except OSError as error:    # rad is being replaced, or no process can be made just now
        raise RadError("rad: cannot be run: %s" % error) from error
    said = child.stderr.strip()
    if child.returncode:
        raise RadError(said.split("\n")[-1].removeprefix("rad: ") or "rad %s: exit %d" % (words[0], child.returncode))
    return child.stdout


def tasks(ids):
    """Task objects by id, as `rad show` has them: of arrays each element. Those that radd does not know are passed over."""
    found = {}
    for at in range(0, len(ids), 200):
        try:
            said = call(["show", "--json", ",".join(ids[at:at + 200])])
        except RadError as error:   # rad fails where it knows none of them
            if not re.match(r"task [\d_]+: there is no", str(error)):
                raise
            continue
        found.update((task["id"], task) for task in json.loads(said)["tasks"])
    return found


def options(given):
    """Options of `rad submit` from keywords: gpu_mem="10G" is --gpu-mem=10G, exclusive=True is --exclusive."""
    words = []
    for name, value in given.items():
        if value is True:
            words.append("--" + name.replace("_", "-"))
        elif value is not None and value is not False:
            words.append("--%s=%s" % (name.replace("_", "-"), value))
    return words


def literal(path):
    """A path for --output: % begins a replacement there."""
    return str(path).replace("%", "%%")


def is_over(state):
    return state not in ("PENDING", "HELD", "RUNNING")
