# SPDX-License-Identifier: MIT
"""Captures that were made before: the same question, while all that was read for the answer is as it was, has the same answer.

A question is the script's name, its arguments, folder, interpreter and packages, and how captures are made here. For each there is a
file of answers, newest first, each with the facts that it rests on (reads.py) and the name of its capture. A capture without facts
is not kept.
"""
import functools
import hashlib
import json
import os
import platform
import sys

from . import reads

MOST_ANSWERS = 8  # to one question
MOST_FILES = 1000  # in the folder; older ones go


def folder():
    said = os.environ.get("XDG_CACHE_HOME", "")
    return os.path.join(said if os.path.isabs(said) else os.path.expanduser("~/.cache"), "rad", "captures")


def is_own():
    """Whether the folder is there and nobody else may write in it: what others put there would be believed, and followed."""
    try:
        found = os.stat(folder())
    except OSError:
        return False
    return found.st_uid == os.geteuid() and not found.st_mode & 0o022


def sha256(*parts):
    found = hashlib.sha256()
    for part in parts:
        found.update(str(part).encode("utf-8", "surrogateescape") + b"\0")
    return found.hexdigest()


@functools.lru_cache(None)
def rules():
    """SHA-256, hexadecimal, of this package: another release would capture otherwise, and keep something else beside it."""
    own, found = os.path.dirname(os.path.abspath(__file__)), hashlib.sha256()
    for name in sorted(name for name in os.listdir(own) if name.endswith(".py")):
        found.update(name.encode() + b"\0" + (read(os.path.join(own, name)) or b"") + b"\0")
    return found.hexdigest()


def question(kind, target, arguments, iterations, processes=0, gpus=1, read=""):
    """SHA-256, hexadecimal, of what is known before the script runs. `read`: what reads.standard_input() says."""
    return sha256("capture", rules(), iterations, processes, gpus, read, kind, target, len(arguments), *arguments, os.getcwd(),
                  platform.python_version(), sys.prefix, *reads.packages())


def key(asked, facts):
    """What a capture is known by: the question and the facts; "" without facts."""
    return "" if facts is None else sha256(asked, *(part for fact in sorted(facts) for part in fact))


def read(path):
    try:
        with open(path, "rb") as f:
            return f.read()
    except OSError:
        return None


def answers(asked):
    try:
        found = json.loads(read(os.path.join(folder(), asked + ".json")) or b"[]")
        return found if isinstance(found, list) else []
    except ValueError:
        return []


def look(asked, variables):
    """(data, notes, peak_bytes, flags) of an earlier capture, or None. `variables`: the environment."""
    known = {}
    if not is_own():
        return None

    def holds(kind, name, value):
        if (kind, name) not in known:
            known[kind, name] = reads.value_of(kind, name, variables)
        return known[kind, name] == value
    for answer in answers(asked):
        try:
            if not answer["facts"] or not all(holds(*fact) for fact in answer["facts"]):
                continue
            data = read(os.path.join(folder(), answer["key"] + ".radcap"))
            if data is not None and hashlib.sha256(data).hexdigest() == answer["sha256"]:
                return data, answer["notes"], answer["peak_bytes"], answer["flags"]
        except (KeyError, TypeError):
            continue
    return None


def keep(asked, facts, capture):
    """Best effort: a cache that cannot be written to is none."""
    if not facts:
        return
    answer = {"key": key(asked, facts), "sha256": hashlib.sha256(capture.data).hexdigest(), "facts": facts,
              "notes": capture.notes, "peak_bytes": capture.peak_bytes, "flags": capture.flags}
    path = os.path.join(folder(), asked + ".json")
    try:
        os.makedirs(folder(), mode=0o700, exist_ok=True)
        if not is_own():
            return
        forget()
        capture.save(os.path.join(folder(), answer["key"] + ".radcap"))
        others = [a for a in answers(asked) if isinstance(a, dict) and a.get("key") != answer["key"]]
        with open(f"{path}.{os.getpid()}.tmp", "w") as f:
            json.dump([answer, *others[:MOST_ANSWERS - 1]], f)
        os.replace(f"{path}.{os.getpid()}.tmp", path)
    except OSError:
        pass


def forget():
    """The oldest half goes when there are too many."""
    files = [entry for entry in os.scandir(folder()) if entry.is_file(follow_symlinks=False)]
    if len(files) > MOST_FILES:
        for entry in sorted(files, key=lambda e: e.stat().st_mtime)[:len(files) // 2]:
            os.unlink(entry.path)
