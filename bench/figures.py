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
    without which it did not run. `counted`: words with which its instructions are counted, None where that says nothing: it is
    several programs, or goes on for a time and not for a number of rounds."""

    def __init__(self, name, program, must, full=(), short=None, before=None, counted=None):
        self.name, self.program, self.must, self.before = name, program, must, before
        self.full, self.short, self.counted = list(full), list(full if short is None else short), counted


def bench(name, must, **words):
    return Bench(name, "{build}/bench/bench-" + name, must, **words)


def script(name, must, **words):
    return Bench(name, "{source}/bench/bench_" + name + ".py", must, **words)


TRACE = ["{build}/rad", "trace", "make", "--tasks", "24", "--mix", "medium=83,heavy=17", "--seed", "1", "-o", "{work}/load.csv"]
SCHEDULE = ["{work}/load.csv", "{source}/models/workloads.csv", "4xa100-40g"]

BENCHES = [
    bench("core", ["sample_us_median", "place_us_median", "submit_us_median", "many_users.place_us_median",
                   "planned.place_us_median", "drained_submit_us_median", "lacking.submit_us_median"], counted=["strict", "1"]),
    bench("map", ["results[0].median_ns", "results[3].p99_ns"], counted=[]),
    bench("replay", ["results[0].read_us", "results[0].replay_us", "results[0].need_and_comfort_us"], counted=[]),
    bench("parse", ["median_us", "max_us"], counted=[]),
    bench("gpumemnet", ["ensemble_us", "encoder_us", "estimate_us"], counted=[]),
    bench("schedule", ["found_s", "lower_bound_s"], full=SCHEDULE + ["20000"], short=SCHEDULE + ["500"], before=TRACE,
          counted=SCHEDULE + ["500"]),
    bench("simulate", ["results[0].took_s", "results[0].peak_rss_mib"], short=["1000", "10"], counted=["1000", "10"]),
    bench("store", ["submissions_per_s_batched", "submissions_per_s_separate_commits", "start_ms"], full=["{work}"],
          short=["--short", "{work}"], counted=["{work}"]),
    script("daemon", ["submissions_per_s_one_connection", "idle_core_fraction", "idle_memory_mib"], full=["{build}"],
           short=["{build}", "--short"]),
    script("submit", ["held_ms_median", "starting_ms_median", "starting_ms_p95"], full=["{build}"], short=["{build}", "--short"]),
    script("sbatch", [], full=["{build}"], short=["{build}", "--short"]),
    script("turns", ["nothing_stall_ms", "acct_stall_ms", "array_stall_ms", "list_stall_ms"], full=["{build}"],
           short=["{build}", "--short"]),
    script("history", ["show_ended_cpu_ms", "why_ended_cpu_ms", "acct_7d_cpu_ms", "queue_cpu_ms", "start_ms"], full=["{build}"],
           short=["{build}", "--short"]),
    script("accounts", ["acct_reader_ms", "by_user_reader_ms", "start_fills_ms"], full=["{build}"], short=["{build}", "--short"]),
    script("waiting", ["submit_ms", "why_ms", "cancel_ms"], full=["{build}"], short=["{build}", "--short"]),
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


def filled(words, build, work):
    places = {"build": os.path.abspath(build), "source": os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "work": work}
    return [word.format(**places) for word in words]


def count_instructions(which, build, work, limit_s, words=None):
    """How many instructions a bench took, by callgrind: {all, functions: {name: instructions of it and what it called}}."""
    out = os.path.join(work, "callgrind.out")
    if which.before:
        call(filled(which.before, build, work), which.name, limit_s)
    call(["valgrind", "--quiet", "--tool=callgrind", "--callgrind-out-file=" + out] +
         filled([which.program] + (which.counted if words is None else words), build, work), which.name, limit_s)
    text = call(["callgrind_annotate", "--inclusive=yes", "--threshold=100", "--show-percs=no", "--auto=no", out], which.name, limit_s)
    rows = re.findall(r"^ *([\d,]+) +(?:\S*:)?(\w+(?: TOTALS)?)(?:\.\w+)*(?: \[.*)?$", text.decode(), re.M)
    counts = {}
    for count, name in rows:	# a name may stand there for several files: what it took in all is the largest
        counts[name] = max(counts.get(name, 0), int(count.replace(",", "")))
    if "PROGRAM TOTALS" not in counts:
        raise Failed(f"{which.name}: callgrind_annotate said nothing of {out}")
    return {"all": counts.pop("PROGRAM TOTALS"), "functions": counts}


def run(which, build, work, short, limit_s):
    """Runs one bench; returns {took_s, cpu_s, figures}. Raises Failed."""
    fill = lambda words: filled(words, build, work)
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
