# SPDX-License-Identifier: MIT
"""Captures of an experiment's tasks, made side by side on the CPU by `rad capture`, as a user would make them."""
import subprocess
import time

from common import WORKLOADS, say, tail

PER_CAPTURE_S = 300


def make(rad, folder, commands, env, at_a_time, deadline_s, folders={}, gpus={}):
    """Writes folder/NAME.radcap for each of `commands` ({name: command}) that it lacks, run in `folders` ({name: folder}) if it
    is there, and on as many GPUs as `gpus` says ({name: number}; else one). Returns {name: {"seconds": S}, with "error" where
    there is no capture}; nothing is begun after the deadline, and what then runs is ended."""
    folder.mkdir(parents=True, exist_ok=True)
    todo = [name for name in commands if not (folder / f"{name}.radcap").exists()]
    running, out, end = {}, {}, time.monotonic() + deadline_s
    while todo or running:
        late = time.monotonic() >= end
        while todo and (late or len(running) < at_a_time):
            name = todo.pop(0)
            if late:
                out[name] = {"seconds": 0, "error": "not begun in time"}
                continue
            log = folder / f"{name}.log"
            with open(log, "w") as f:
                running[name] = log, time.monotonic(), subprocess.Popen(
                    [rad, "capture", "--no-cache", "--timeout", str(PER_CAPTURE_S), "--gpus", str(gpus.get(name, 1)),
                     "-o", folder / f"{name}.radcap", "--", *map(str, commands[name])],
                    env=env, cwd=folders.get(name, WORKLOADS), stdin=subprocess.DEVNULL, stdout=f, stderr=f)
        for name, (log, begin, process) in list(running.items()):
            if late:
                process.terminate()
                process.wait()
            if process.poll() is None:
                continue
            del running[name]
            out[name] = {"seconds": round(time.monotonic() - begin, 2)}
            if process.returncode:
                out[name]["error"] = (tail(log, 2000) or "").strip() or f"exit {process.returncode}"
                say(f"capture of {name}: {out[name]['error']}")
            log.unlink()
        time.sleep(0.05)
    return out
