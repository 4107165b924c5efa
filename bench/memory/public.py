#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Training scripts of public repositories, captured and run as they are.

    public.py --rad build/rad --out FOLDER [--workers N] [--seconds S] [--only NAME,...] PART...

A PART is a folder with the sources, which are not ours to ship; `data.py`, which makes the data they read; and `list.jsonl`, a line a script: `name`,
`repo`, `commit`, `path`, `cwd` in the folder, `command`, `env`, `data` (how it was made), `kind`. doc/results/memory/public.jsonl.gz has these lines
with the results. A line a script in FOLDER/public.jsonl: what `rad estimate` says of the capture and, where there is a GPU, what PyTorch's allocator
reserved and had in use at most, what NVML showed for the process, and how many steps optimizers made, until the script ended or S seconds after
it first used CUDA. Several run side by side, so it needs a GPU of 80 GiB that nobody else uses.
"""
import argparse
import concurrent.futures
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile

import later

# Read by Python before the script, which is not changed. Another sitecustomize on the path is read as it would be without this one.
HOOK = '''
import atexit, importlib.machinery, importlib.util, json, os, sys, threading, time

here = os.path.dirname(os.path.abspath(__file__))
sys.path[:] = [p for p in sys.path if os.path.abspath(p or ".") != here]
steps, began, owner, lock, told = [0], time.monotonic(), os.getpid(), threading.Lock(), []

def tell(why):
    torch = sys.modules.get("torch")
    with lock:
        if told or os.getpid() != owner or not torch or not torch.cuda.is_initialized():
            return
        told.append(why)
    torch.cuda.synchronize()
    with open(os.path.join(os.environ["PUBLIC_OUT"], str(owner)), "w") as out:
        json.dump({"pid": owner, "reserved": torch.cuda.max_memory_reserved() >> 20, "in_use": torch.cuda.max_memory_allocated() >> 20,
                   "steps": steps[0], "s": round(time.monotonic() - began, 1), "ended": why}, out)
    time.sleep(0.3)  # for who looks at NVML

def count(*_):
    steps[0] += 1

def watch():
    counts = False
    while True:
        time.sleep(0.05)
        found = sys.modules.get("torch.optim.optimizer")
        if not counts and hasattr(found, "register_optimizer_step_post_hook"):
            found.register_optimizer_step_post_hook(count)
            counts = True
        torch = sys.modules.get("torch")
        if hasattr(torch, "cuda") and hasattr(torch.cuda, "is_initialized") and torch.cuda.is_initialized():
            break
    time.sleep(float(os.environ["PUBLIC_S"]))
    tell("time")
    os._exit(0)

threading.Thread(target=watch, daemon=True).start()
atexit.register(tell, "itself")
if spec := importlib.machinery.PathFinder.find_spec("sitecustomize", sys.path):
    spec.loader.exec_module(importlib.util.module_from_spec(spec))
'''


def command_of(entry):
    return [sys.executable if word == "python" else word for word in entry["command"]]


def run_one(part, entry, watch, seconds, limit_s):
    """A run; over after so many seconds on the GPU. MiB."""
    with tempfile.TemporaryDirectory() as folder:
        hook, out = pathlib.Path(folder, "hook"), pathlib.Path(folder, "out")
        hook.mkdir()
        out.mkdir()
        (hook / "sitecustomize.py").write_text(HOOK)
        paths = [str(hook), *filter(None, [entry["env"].get("PYTHONPATH"), os.environ.get("PYTHONPATH")])]
        env = {**os.environ, **entry["env"], "PYTHONPATH": ":".join(paths), "PUBLIC_OUT": str(out), "PUBLIC_S": str(seconds)}
        ran = subprocess.Popen(command_of(entry), cwd=part / entry["cwd"], env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, text=True, errors="replace", start_new_session=True)
        try:
            text = ran.communicate(timeout=limit_s)[0]
        except subprocess.TimeoutExpired:
            os.killpg(ran.pid, signal.SIGKILL)
            text = f"no end after {limit_s} s\n" + ran.communicate()[0]
        try:
            os.killpg(ran.pid, signal.SIGKILL)  # workers of loaders
        except ProcessLookupError:
            pass
        told = [json.loads(path.read_text()) for path in out.iterdir() if path.stat().st_size]
    if not told:
        return {"error": text[-400:]}
    most = max(told, key=lambda t: t["reserved"])
    nvml = watch.most.get(most.pop("pid"))
    return {**most, "nvml": nvml, "rc": ran.returncode, **({"said": text[-400:]} if ran.returncode else {})}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rad", type=pathlib.Path, required=True)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--workers", type=int, default=6, help="captures at a time, and runs (default %(default)s)")
    parser.add_argument("--seconds", type=float, default=20, help="of a run, from its first use of CUDA (default %(default)s)")
    parser.add_argument("--limit", type=float, default=120, metavar="S", help="of a whole run (default %(default)s)")
    parser.add_argument("--only", metavar="NAME,...")
    parser.add_argument("parts", nargs="+", type=pathlib.Path, metavar="PART")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    rad, watch = args.rad.resolve(), later.Watch()
    gpu = watch.gpu.name if watch.gpu else "NVIDIA H100 80GB HBM3"
    names = args.only.split(",") if args.only else None
    todo = []
    for part in args.parts:
        subprocess.run([sys.executable, "data.py"], cwd=part, check=True, stdout=subprocess.DEVNULL)
        entries = [json.loads(line) for line in (part / "list.jsonl").read_text().splitlines()]
        todo += [(part.resolve(), entry) for entry in entries if not names or entry["name"] in names]

    def capture(part, entry):
        paths = list(filter(None, [entry["env"].get("PYTHONPATH"), os.environ.get("PYTHONPATH")]))
        env = {**os.environ, **entry["env"], **({"PYTHONPATH": ":".join(paths)} if paths else {})}
        return later.captured_command(rad, command_of(entry), args.out.resolve() / f"{entry['name']}.radcap", gpu, cwd=part / entry["cwd"], env=env)
    with concurrent.futures.ThreadPoolExecutor(args.workers) as captures, concurrent.futures.ThreadPoolExecutor(args.workers) as runs:
        waiting = [(entry, captures.submit(capture, part, entry),
                    runs.submit(run_one, part, entry, watch, args.seconds, args.limit) if watch.gpu else None) for part, entry in todo]
        with open(args.out / "public.jsonl", "w") as out:
            for entry, captured, ran in waiting:
                line = json.dumps({**entry, "gpu": gpu, "captured": captured.result(), "on_gpu": ran and ran.result()})
                print(line, file=out, flush=True)
                print(entry["name"], json.loads(line)["captured"].get("reserved"), json.loads(line)["on_gpu"], flush=True)


if __name__ == "__main__":
    main()
