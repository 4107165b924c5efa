# SPDX-License-Identifier: MIT
"""Imported by every Python that a captured command starts (command.py): one that is to run a script becomes a capture of it. All
others, as pip or `python -c`, go on as they are. Imports as little as it can: it runs in any environment, of any Python."""
import os
import sys

VARIABLE = "RADRM_CAPTURE"
TOOLS = ("pip", "pip3", "uv", "conda", "mamba", "poetry", "pdm", "virtualenv", "wandb", "huggingface-cli", "hf", "jupyter", "ipython",
         "tensorboard", "pre-commit", "pytest", "ruff", "black", "gdown", "kaggle", "dvc", "aws", "gsutil", "nvitop", "gpustat")
MODULES = ("pip", "venv", "ensurepip", "site", "sysconfig", "json.tool", "http.server", "zipfile", "tarfile", "compileall",
           "virtualenv", "ipykernel_launcher", "this", "timeit", "platform", "nltk.downloader", "spacy")
VALUED = ("-X", "-W", "--check-hash-based-pycs")


def words():
    """Those that follow the interpreter."""
    try:
        with open("/proc/self/cmdline", "rb") as f:
            return [os.fsdecode(w) for w in f.read().split(b"\0")[1:-1]]
    except OSError:
        return []


def is_script(given):
    """Whether the interpreter was told to run a script or a module that may train."""
    at = 0
    while at < len(given) and given[at].startswith("-") and given[at] not in ("-m", "-c", "-"):
        at += 2 if given[at] in VALUED else 1
    if at >= len(given) or given[at] in ("-c", "-"):
        return False
    if given[at].startswith("-m"):
        return at + 1 < len(given) and given[at + 1] not in MODULES
    return os.path.isfile(given[at]) and os.path.basename(given[at]) not in TOOLS


def become():
    import json
    given, told = words(), json.loads(os.environ[VARIABLE])
    with open(os.path.join(told["folder"], "reached"), "ab") as f:
        f.write(b"%d\n" % os.getpid())
    if not is_script(given) or given[:2] == ["-m", "radrm.capture"]:
        return
    with open(os.path.join(told["folder"], "begun"), "ab") as f:
        f.write(b".")
    hook, package = os.environ.pop("RADRM_CAPTURE_PATH").split(os.pathsep)
    paths = [p for p in os.environ.get("PYTHONPATH", "").split(os.pathsep) if p != hook]
    if package in paths:
        paths.remove(package)  # once: it may be the user's, too
    told["path"] = os.pathsep.join(paths)
    preloaded = [p for p in os.environ.pop("LD_PRELOAD", "").split(":") if p != told["library"]]
    if any(preloaded):
        os.environ["LD_PRELOAD"] = ":".join(preloaded)
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [package, told["path"]]))
    os.environ[VARIABLE] = json.dumps(told)
    os.execv(sys.executable, [sys.executable, "-m", "radrm.capture", "-o", "-", *told["options"], "--", *given])


def others():
    """A sitecustomize that this one stands before."""
    import importlib.machinery
    import importlib.util
    here = os.path.dirname(os.path.abspath(__file__))
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", [p for p in sys.path if os.path.abspath(p or ".") != here])
    if spec is not None and spec.loader is not None:
        spec.loader.exec_module(importlib.util.module_from_spec(spec))


if os.environ.get(VARIABLE):
    become()
others()
