# SPDX-License-Identifier: MIT
"""Captures that were made before: the same script, arguments and packages ask for the same memory.

Data that a script reads is not looked at; who changes it in a way that changes shapes says --no-cache.
"""
import hashlib
import importlib.metadata
import json
import os
import platform
import sys

FORMAT = 3  # raise it when captures of the same script would differ
MOST_FILES, MOST_BYTES = 2000, 32 << 20


def folder():
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return os.path.join(base, "rad", "captures")


def key(kind, target, arguments, iterations, processes=0):
    """SHA-256, hexadecimal, of all that decides what a script asks for; None when its sources are too many to read."""
    found = hashlib.sha256()

    def add(*parts):
        for part in parts:
            found.update(str(part).encode("utf-8", "surrogateescape") + b"\0")
    add("capture", FORMAT, iterations, processes, kind, target, len(arguments), *arguments, os.getcwd(),
        platform.python_version(), sys.prefix)
    add(*sorted(f"{d.metadata['Name']}=={d.version}" for d in importlib.metadata.distributions()))
    add(*(f"{name}={value}" for name, value in sorted(os.environ.items())
          if name.startswith(("PYTORCH_", "TORCH_", "CUBLAS_"))))
    top = os.getcwd() if kind == "-m" else os.path.dirname(os.path.abspath(target))
    sources = list(python_files(top))
    if len(sources) > MOST_FILES or sum(size for _, size in sources) > MOST_BYTES:
        return None
    if not kind:
        sources.append((os.path.abspath(target), 0))
    for path, _ in sorted(sources):
        try:
            with open(path, "rb") as f:
                add(path, hashlib.sha256(f.read()).hexdigest())
        except OSError:
            return None
    return found.hexdigest()


def python_files(top):
    """(path, size) of the Python files below a folder; stops when there are too many."""
    n = 0
    for path, folders, names in os.walk(top):
        folders[:] = [f for f in folders if not f.startswith(".") and f not in ("__pycache__", "node_modules")
                      and not os.path.exists(os.path.join(path, f, "pyvenv.cfg"))]
        for name in names:
            if name.endswith(".py"):
                full = os.path.join(path, name)
                n += 1
                try:
                    yield full, os.path.getsize(full)
                except OSError:
                    continue
        if n > MOST_FILES:
            return


def look(found_key):
    """(data, notes, peak_bytes, flags) of an earlier capture, or None."""
    try:
        with open(os.path.join(folder(), found_key + ".json")) as f:
            about = json.load(f)
        with open(os.path.join(folder(), found_key + ".radcap"), "rb") as f:
            data = f.read()
        if hashlib.sha256(data).hexdigest() != about["sha256"]:
            return None
        return data, about["notes"], about["peak_bytes"], about["flags"]
    except (OSError, ValueError, KeyError):
        return None


def keep(found_key, capture):
    """Best effort: a cache that cannot be written to is none."""
    about = {"sha256": hashlib.sha256(capture.data).hexdigest(), "notes": capture.notes, "peak_bytes": capture.peak_bytes,
             "flags": capture.flags}
    path = os.path.join(folder(), found_key)
    try:
        os.makedirs(folder(), mode=0o700, exist_ok=True)
        capture.save(path + ".radcap")
        with open(f"{path}.{os.getpid()}.tmp", "w") as f:
            json.dump(about, f)
        os.replace(f"{path}.{os.getpid()}.tmp", path + ".json")
    except OSError:
        pass
