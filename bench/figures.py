# SPDX-License-Identifier: MIT
"""What the benches have in common: which there are, running one of them, and its figures by name and unit."""
import json
import os
import re
import resource
import subprocess
import time

# Parts of a figure's name that tell its unit; the longest first.
UNITS = [("per_s", "1/s"), ("core_fraction", "cores"), ("fraction", "1"), ("ratio", "1"), ("over", "1"), ("mib", "MiB"), ("ns", "ns"),
         ("us", "us"), ("ms", "ms"), ("s", "s"), ("bytes", "B")]


class Failed(Exception):
    """A bench that did not do what it should; says which and why."""


class Bench:
    """`full`, `short`: words after the program; {build}, {source} and {work} (an empty folder) are filled in. `must`: figures
    without which it did not run."""

    def __init__(self, name, program, must, full=(), short=None, before=None):
        self.name, self.program, self.must, self.before = name, program, must, before
        self.full, self.short = list(full), list(full if short is None else short)


def bench(name, must, **words):
    return Bench(name, "{build}/bench/bench-" + name, must, **words)


def script(name, must, **words):
    return Bench(name, "{source}/bench/bench_" + name + ".py", must, **words)


TRACE = ["{build}/rad", "trace", "make", "--tasks", "24", "--mix", "medium=83,heavy=17", "--seed", "1", "-o", "{work}/load.csv"]
SCHEDULE = ["{work}/load.csv", "{source}/models/workloads.csv", "4xa100-40g"]

BENCHES = [
    bench("core", ["sample_us_median", "place_us_median", "submit_us_median", "many_users.place_us_median"]),
    bench("map", ["results[0].median_ns", "results[3].p99_ns"]),
    bench("replay", ["results[0].read_us", "results[0].replay_us", "results[0].need_and_comfort_us"]),
    bench("parse", ["median_us", "max_us"]),
    bench("gpumemnet", ["ensemble_us", "encoder_us", "estimate_us"]),
    bench("schedule", ["found_s", "lower_bound_s"], full=SCHEDULE + ["20000"], short=SCHEDULE + ["500"], before=TRACE),
    bench("simulate", ["results[0].took_s", "results[0].peak_rss_mib"], short=["1000", "10"]),
    bench("store", ["submissions_per_s_batched", "submissions_per_s_separate_commits", "start_ms"], full=["{work}"],
          short=["--short", "{work}"]),
    script("daemon", ["submissions_per_s_one_connection", "idle_core_fraction", "idle_memory_mib"], full=["{build}"],
           short=["{build}", "--short"]),
    script("submit", ["held_ms_median", "starting_ms_median", "starting_ms_p95"], full=["{build}"], short=["{build}", "--short"]),
    script("sbatch", [], full=["{build}"], short=["{build}", "--short"]),
    script("turns", ["nothing_stall_ms", "acct_stall_ms", "array_stall_ms", "list_stall_ms"], full=["{build}"],
           short=["{build}", "--short"]),
]


def unit_of(name):
    words = re.split(r"[_.\[\]]+", name)
    for part, unit in UNITS:
        if re.search(rf"(^|_){part}(_|$)", "_".join(words)):
            return unit
    return None


def flatten(value, name=""):
    """(name, figure) of all numbers in a JSON value; lists by index."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from flatten(inner, f"{name}.{key}" if name else key)
    elif isinstance(value, list):
        for i, inner in enumerate(value):
            yield from flatten(inner, f"{name}[{i}]")
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        yield name, value


def cpu_s():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def call(words, name, limit_s):
    try:
        done = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=limit_s)
    except OSError as why:
        raise Failed(f"{name}: {why}") from why
    except subprocess.TimeoutExpired as why:
        raise Failed(f"{name}: took more than {limit_s} s") from why
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().splitlines()
        raise Failed(f"{name}: exit code {done.returncode}" + (f": {said[-1]}" if said else ""))
    return done.stdout


def run(which, build, work, short, limit_s):
    """Runs one bench; returns {took_s, cpu_s, figures}. Raises Failed."""
    places = {"build": os.path.abspath(build), "source": os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "work": work}
    fill = lambda words: [word.format(**places) for word in words]
    if which.before:
        call(fill(which.before), which.name, limit_s)
    began, used = time.monotonic(), cpu_s()
    said = call(fill([which.program] + (which.short if short else which.full)), which.name, limit_s)
    took, used = time.monotonic() - began, cpu_s() - used
    try:
        printed = json.loads(said)
    except ValueError as why:
        raise Failed(f"{which.name}: what it printed is not JSON: {why}") from why
    figures = dict(flatten(printed))
    missing = [name for name in which.must if name not in figures]
    if missing:
        raise Failed(f"{which.name}: did not print {', '.join(missing)}")
    return {"took_s": round(took, 3), "cpu_s": round(used, 3),
            "figures": {name: {"value": value, "unit": printed.get("unit") if name.startswith("files.") else unit_of(name)}
                        for name, value in figures.items()}}
