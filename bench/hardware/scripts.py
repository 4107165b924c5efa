# SPDX-License-Identifier: MIT
"""Public training scripts as the tasks of an experiment: of folders as bench/memory/public.py describes them, those whose line has
`whole`, the command that ends by itself."""
import json
import shutil
import sys
from collections import namedtuple

# `said`: the command as the list has it, without the folders of this machine.
Script = namedtuple("Script", "name command folder said gpus", defaults=[1])


def read(parts):
    """In the order of their lines, a script of each folder in turn."""
    each = [[script(part.resolve(), entry) for entry in map(json.loads, (part / "list.jsonl").read_text().splitlines()) if "whole" in entry]
            for part in parts]
    return [found[at] for at in range(max(map(len, each))) for found in each if at < len(found)]


def script(part, entry):
    def filled(text):
        return text.replace("{here}", str(part))
    variables = [f"{name}={filled(value)}" for name, value in entry["env"].items()]
    words = [sys.executable if word == "python" else filled(word) for word in entry["whole"]]
    return Script(entry["name"], [*(["env", *variables] if variables else []), *words], part / entry["cwd"], " ".join(entry["whole"]))


def restore(parts):
    """Gives each part the sources it had at first: there are scripts that go on from a checkpoint of the run before. The first call
    keeps a copy of them, beside."""
    for part in parts:
        kept, making = part / "src-at-first", part / "src-at-first.part"
        if not kept.exists():
            shutil.rmtree(making, ignore_errors=True)
            shutil.copytree(part / "src", making, symlinks=True)
            making.rename(kept)
            continue
        shutil.rmtree(part / "src")
        shutil.copytree(kept, part / "src", symlinks=True)
