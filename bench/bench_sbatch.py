#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What RAD-RM adds to an `sbatch`:  bench/bench_sbatch.py BUILD [--short]  prints one JSON object.

A cluster of real Slurm is made for it (tests/cluster), whose job_submit plugin is ours. Each round submits a job that stays held, by
turns and so that what else goes on here is the same for all:

  plain_ms_*        sbatch, with no client plugin
  rad_sbatch_ms_*   rad sbatch, which estimates (a declared size) and becomes sbatch
  filter_ms_*       sbatch with the client's plugin, which has `rad sbatch --size` estimate
  unsized_ms_*      the same, of a script without a word for RAD-RM
  *_added_ms_median the difference of the medians to plain

Without Slurm: {"skipped": why}.
"""
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.append(os.path.join(HERE, "memory"))
from stats import quantile  # noqa: E402

CLUSTER = os.path.join(HERE, "..", "tests", "cluster")


def missing(build):
    if not os.path.exists(f"{build}/slurm/rad.so"):
        return "built without Slurm's headers"
    r = subprocess.run([CLUSTER, "check"], capture_output=True, text=True, check=False)
    return r.stderr.strip() if r.returncode else None


def write(path, text):
    with open(path, "w") as f:
        f.write(text)


class Command:
    def __init__(self, argv, environ):
        self.argv, self.environ, self.took_ms = argv, environ, []

    def run(self, folder):
        began = time.monotonic()
        subprocess.run(self.argv, env=self.environ, cwd=folder, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.took_ms.append((time.monotonic() - began) * 1000)


def measure(build, folder, rounds):
    os.chmod(folder, 0o755)     # munge wants that
    dir_of = f"{folder}/c"
    environ = dict(os.environ, PATH=f"{build}:{os.environ['PATH']}")
    subprocess.run([CLUSTER, "start", dir_of, "--nodes", "1", "--gres", "shard", "--plugin-dir", f"{build}/slurm", "--set",
                    "JobSubmitPlugins=rad"], env=environ, check=True)
    try:
        # The client's plugin is named in its own copy of slurm.conf; all else is the same.
        etc = f"{dir_of}/etc"
        os.mkdir(f"{etc}/filter")
        for name in ("slurm.conf", "gres.conf", "plugstack.conf"):
            with open(f"{etc}/{name}") as f:
                text = f.read()
            write(f"{etc}/filter/{name}", text + ("CliFilterPlugins=rad\n" if name == "slurm.conf" else ""))
        for place in (etc, f"{etc}/filter"):
            write(f"{place}/rad-slurm.conf", f"gpus: 2x40G\nrad: {build}/rad\n")
        sized, unsized = f"{folder}/sized.sh", f"{folder}/unsized.sh"
        write(sized, "#!/bin/sh\n#RAD --gpu-mem=8G\ntrue\n")
        write(unsized, "#!/bin/sh\ntrue\n")
        plain = dict(environ, SLURM_CONF=f"{etc}/slurm.conf")
        filtered = dict(environ, SLURM_CONF=f"{etc}/filter/slurm.conf")
        options = ["--hold", "--output=/dev/null"]
        commands = {
            "plain": Command(["sbatch", *options, "--gres=shard:8", sized], plain),
            "rad_sbatch": Command([f"{build}/rad", "sbatch", sized, *options], plain),
            "filter": Command(["sbatch", *options, sized], filtered),
            "unsized": Command(["sbatch", *options, unsized], filtered),
        }
        for _ in range(rounds):
            for command in commands.values():
                command.run(folder)
        return commands
    finally:
        subprocess.run([CLUSTER, "stop", dir_of], env=environ, check=True)


def main():
    build, short = os.path.abspath(sys.argv[1]), "--short" in sys.argv[2:]
    why = missing(build)
    if why:
        print(json.dumps({"skipped": why}))
        return
    with tempfile.TemporaryDirectory(prefix="rad-bench.") as folder:
        commands = measure(build, folder, 5 if short else 200)
    out = {"rounds": len(commands["plain"].took_ms)}
    for name, command in commands.items():
        out[f"{name}_ms_median"] = round(statistics.median(command.took_ms), 2)
        out[f"{name}_ms_p95"] = round(quantile(command.took_ms, 0.95), 2)
        if name != "plain":
            out[f"{name}_added_ms_median"] = round(out[f"{name}_ms_median"] - out["plain_ms_median"], 2)
    print(json.dumps(out))


main()
