# SPDX-License-Identifier: MIT
"""Where the shared libraries are that belong to these packages, for whoever was not told: `rad` tells what it runs where its own is
(paths_library in src/base/paths.c)."""
import glob
import os
import shutil
import site
import sys


def _places(name):
    here = os.path.dirname(os.path.abspath(__file__))
    for base in (os.path.join(here, "../../../.."), sys.prefix, site.getuserbase() or ""):   # share/rad/python/radrm; a wheel
        yield os.path.join(base, "lib/rad-rm", name)
        yield from glob.glob(os.path.join(base, "lib/*/rad-rm", name))
    rad = shutil.which(os.environ.get("RAD") or "rad")
    if rad:
        folder = os.path.dirname(os.path.realpath(rad))
        yield os.path.join(folder, "../lib/rad-rm", name)
        yield os.path.join(folder, name)     # a build


def find(name):
    """Its path; None where it is not installed."""
    return next(filter(os.path.isfile, _places(name)), None)
