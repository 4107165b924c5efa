#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""How much of what sharing could gain is gained when tasks run for the first time, and for the second, with what is shipped.

    bench/hardware/run_first.py --bin dist/rad/bin --out results             # on a GPU; again for what is missing
    bench/hardware/run_first.py --bin build --out results --sim              # on a simulated one
    bench/hardware/run_first.py --bin build --out results --table --page doc/results/first.md
    bench/hardware/run_first.py --bin dist/rad/bin --out results --scripts PART...   # public scripts in place of its own tasks

The same tasks, submitted at once, each time with a private radd: `exclusive`, one a GPU; `nothing`, with nothing declared; `first`,
each with its capture; `second`, the same again with what the first run left; named by --runs, too: `known`, with all that
`exclusive` taught; `memory`, with --gpu-mem; `auto`, captured while they wait (--capture=auto); some of these with `settle: 30`
or `max_slowdown: 3`, or under `magm` and `fifo`; `places-4`, four at a time, as schedulers do that do not look at the GPU. But for
what RUNS says, settings are those of an empty configuration, which are what is shipped. Other captures are made beforehand, without
the GPU. Writes OUT/run-NAME.json after each, and the table and the picture of all that are there.

The share of what the bound allows is (exclusive - total) / (exclusive - bound), as in bench/evaluation. The bound is `lower_bound_s` of
`rad simulate` (src/sim/bound.h) under MPS, for tasks that do what each did in `exclusive`. That may have used more GPUs than the others,
to take less long (with --gpus, its state file copied to the --out of the others): what its tasks took is added up then.
"""
import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from collections import namedtuple

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import captures
import gantt
import pages
import scripts
import simulate_policies
from common import WORKLOADS, Rad, Users, Workspace, in_turn, save, say
from mix import MOMENTUM, Task
from run_policies import command, declared, measured, run_tasks, seconds_of, tell, warm_up, watched
from table import cell, change, read

# No architecture of mix.py. Each trains for 8 to 10 s alone on an H200 by what `rad estimate` says of its capture, and so are
# the loads here, for simulated devices; light and heavy ones mixed.
TASKS = [
    Task("vit-b32",         6 << 10, 250, f"--model vit_b_16 --batch-size 32 {MOMENTUM}", 9, .99, .87),
    Task("mobilenet3-c256",    1536, 560, f"--model mobilenet_v3_small --image-size 32 --batch-size 256 {MOMENTUM}", 8, .36, .18),
    Task("llama-b8",        6 << 10, 230, "--model llama-small --batch-size 8 --seq-len 256", 9, .56, .44),
    Task("resnet152-b32",   8 << 10, 200, f"--model resnet152 --batch-size 32 {MOMENTUM}", 9, .85, .66),
    Task("lstm-b128",       5 << 10, 420, "--model lstm --batch-size 128 --seq-len 128", 8, .91, .52),
    Task("resnet26-c64",       1536, 940, f"--model resnet26 --image-size 32 --batch-size 64 {MOMENTUM}", 8, .28, .11),
    Task("bert-large-b32", 15 << 10, 125, "--model bert-large --batch-size 32 --seq-len 128", 9, .99, .86),
    Task("vit-xxs-b32",     4 << 10, 190, f"--model vit_xxs24 --batch-size 32 {MOMENTUM}", 9, .37, .27),
    Task("mlp-b2048",       2 << 10, 4300, "--model mlp --batch-size 2048", 9, .95, .84),
    Task("effnet2-b24",     6 << 10, 175, f"--model efficientnet_v2_s --batch-size 24 {MOMENTUM}", 9, .57, .36),
]

# title; the settings that are not the shipped ones; what tasks come with; the run whose state there is before; places on each GPU.
Run = namedtuple("Run", "title settings brings after places", defaults=[None, None])
NOTHING, MEMORY, CAPTURE, AUTO, PLACE = range(5)
MAGM = "placement: magm\norder: fifo\n"


def places(n):
    """What a fixed number of places on each GPU gives (shards, Kubernetes' time slices, a queue of so many slots): the next task takes
    the next place and its part of the memory, whatever it will do there."""
    text = ("placement: rr\norder: fifo\nshare: streams\nmax_smact: off\nmax_gract: off\nmax_cpu: off\nmin_free: off\nslack: 0\n"
            "settle: 0\nfence: off\n")
    return Run(f"{n} places on a GPU, time slices", text, PLACE, places=n)


RUNS = {
    "exclusive": Run("one a GPU", "placement: exclusive\nshare: never\n", NOTHING),
    "nothing": Run("as shipped (gain, plan), nothing known", "", NOTHING),
    "nothing-30": Run("the same with `settle: 30`", "settle: 30\n", NOTHING),
    "memory": Run("as shipped, memory said", "", MEMORY),
    "memory-30": Run("the same with `settle: 30`", "settle: 30\n", MEMORY),
    "first": Run("as shipped, captures", "", CAPTURE),
    "first-3": Run("the same with `max_slowdown: 3`", "max_slowdown: 3\n", CAPTURE),
    "auto": Run("as shipped, captured while they wait", "", AUTO),
    "second": Run("as shipped, captures, second time", "", CAPTURE, "first"),
    "known": Run("as shipped, captures, each alone before", "", CAPTURE, "exclusive"),
    **{f"places-{n}": places(n) for n in (2, 4, 10)},
    "magm-nothing": Run("magm, fifo, nothing known", MAGM, NOTHING),
    "magm-first": Run("magm, fifo, captures", MAGM, CAPTURE),
    "magm-second": Run("magm, fifo, captures, second time", MAGM, CAPTURE, "magm-first"),
    "magm-known": Run("magm, fifo, captures, each alone before", MAGM, CAPTURE, "exclusive"),
}
DEFAULT = ("exclusive", "nothing", "first", "second")
CAPTURES_AT_A_TIME = 8


def parse_args(words=None):
    p = argparse.ArgumentParser(description="Measure what the first and the second run of unknown tasks gain by sharing.")
    p.add_argument("--bin", required=True, help="folder that holds rad and radd")
    p.add_argument("--out", required=True, type=pathlib.Path, help="folder for the results; what it has is not measured again")
    p.add_argument("--runs", default=",".join(DEFAULT), help=f"some of {', '.join(RUNS)}, in this order (default %(default)s)")
    p.add_argument("--tasks", help="names of some of them, with commas between")
    p.add_argument("--scripts", type=pathlib.Path, nargs="+", default=[], metavar="PART",
                   help="folders of public scripts (bench/memory/public.py)")
    p.add_argument("--scale", type=float, default=1.0, help="steps of every task times this (default 1)")
    p.add_argument("--gpus", type=int, default=1, metavar="N", help="how many are used (default 1)")
    p.add_argument("--gpu", type=int, default=0, metavar="INDEX", help="the first of them (default 0)")
    p.add_argument("--users", default="", metavar="A,B", help="accounts that submit in turns to one radd, which must be root's")
    p.add_argument("--deadline", type=float, default=300, metavar="S", help="of one run (default 300)")
    p.add_argument("--budget", type=float, default=570, metavar="S", help="for all together (default 570)")
    p.add_argument("--sim", action="store_true", help="simulated GPUs, `rad simtask` as the tasks, declared memory for captures")
    p.add_argument("--table", action="store_true", help="measure nothing: tables and picture of what is there")
    p.add_argument("--alone", type=pathlib.Path, metavar="FILE", help="with --table: the run-exclusive.json of another folder")
    p.add_argument("--page", help="with --table: the page that gets the tables, between its comments")
    p.add_argument("--section", default="first", help="how those comments begin (default %(default)s)")
    args = p.parse_args(words)
    args.runs = args.runs.split(",")
    args.users = [name for name in args.users.split(",") if name]
    if unknown := set(args.runs) - set(RUNS):
        p.error(f"no such run: {', '.join(sorted(unknown))}; there are {', '.join(RUNS)}")
    if args.scripts and (args.sim or args.users or any(RUNS[name].brings == MEMORY for name in args.runs)):
        p.error("--scripts: of these no load and no memory is known beforehand, and users cannot read them: no --sim, --users, "
                "nor such runs")
    every = scripts.read(args.scripts) if args.scripts else TASKS
    names = args.tasks.split(",") if args.tasks else [t.name for t in every]
    if unknown := set(names) - {t.name for t in every}:
        p.error(f"no such task: {', '.join(sorted(unknown))}; there are {', '.join(t.name for t in every)}")
    args.tasks = [t for t in every if t.name in names]
    return args


# --- measuring ---

def state_file(args, name):
    return args.out / f"state-{name}.tar.gz"


def keep_state(rad, path):
    """What a daemon leaves, without sockets and pipes."""
    with tarfile.open(path, "w:gz") as tar:
        tar.add(rad.state, arcname=".", filter=lambda member: member if member.isreg() or member.isdir() else None)


def captures_of(args):
    """What the captures took, made if they are not there; kept beside them."""
    path = args.out / "captures.json"
    known = json.loads(path.read_text()) if path.exists() else {"wall_s": 0, "each": {}}
    begin = time.monotonic()
    with Workspace() as ws:
        made = captures.make(pathlib.Path(args.bin).resolve() / "rad", args.out / "captures",
                             {t.name: command(args, t) for t in args.tasks},
                             ws.env, CAPTURES_AT_A_TIME, min(args.deadline, 180), {t.name: t.folder for t in args.tasks if args.scripts})
    if made:
        known = {"at_a_time": CAPTURES_AT_A_TIME, "wall_s": round(known["wall_s"] + time.monotonic() - begin, 1),
                 "each": {**known["each"], **made}}
        save(path, known)
        say(f"captures: {len(made)} in {known['wall_s']} s, {CAPTURES_AT_A_TIME} at a time")
    return known


def options_of(args, run, gpus):
    """The options of a task of that run, as a function. `gpus`: as radd reported them before."""
    brought = brought_of(args, run, gpus)
    return lambda task: [*(["--chdir", task.folder] if args.scripts else []), *brought(task)]


def brought_of(args, run, gpus):
    """What a task of that run says of itself, as a function."""
    if run.brings == PLACE:
        part = min(g["mem_available_mib"] for g in gpus) // run.places
        return lambda task: ["--gpu-mem", f"{part}M"]
    if run.brings in (NOTHING, AUTO):
        return lambda task: ["--capture=auto"] if run.brings == AUTO else []
    if args.sim or run.brings == MEMORY:
        return declared

    def captured(task):
        path = args.out.resolve() / "captures" / f"{task.name}.radcap"
        if not path.exists():
            say(f"note: {task.name} goes without a capture: there is none")
            return []
        return ["--capture", path]
    return captured


class InTurns(Users):
    """Submits a task as one of its users, the next one as the next."""
    def submit(self, name, command, *options):
        user = self.user_of(name)
        words = [str(w).replace(str(WORKLOADS / "train.py"), str(self.work / "train.py")) for w in command]
        return self.submit_of(user, name, words, *(self.readable(o) for o in options))

    def user_of(self, name):
        return self.users[[t.name for t in TASKS].index(name) % len(self.users)]

    def readable(self, option):
        if not isinstance(option, pathlib.Path):
            return option
        copy = pathlib.Path(shutil.copy(option, self.work))
        copy.chmod(0o644)
        return copy

    def output(self, name):
        return self.output_of(self.user_of(name), name)


def radd_of(args, ws, run):
    devices = f"sim:{args.gpus}xa100-40g" if args.sim else "nvml:" + ",".join(str(args.gpu + i) for i in range(args.gpus))
    return InTurns(args.bin, ws, devices, run.settings, args.users) if args.users else Rad(args.bin, ws, devices, run.settings)


def measure(args, name, deadline_s):
    run = RUNS[name]
    result = {"policy": name, **settings_of(args), "config": run.settings, "after": run.after, "tasks": [],
              "started": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())}
    scripts.restore(args.scripts)
    with measured(name, result) as ws:
        rad = radd_of(args, ws, run)
        if run.after:
            if not state_file(args, run.after).exists():
                raise RuntimeError(f"{run.after} did not end well: there is no state to begin with")
            with tarfile.open(state_file(args, run.after)) as tar:
                tar.extractall(rad.state)
        with watched(args, rad, result, args.gpu):
            run_tasks(args, name, rad, result, deadline_s, options_of(args, run, result["gpus_before"]["gpus"]))
        if all(t["state"] == "COMPLETED" for t in result["tasks"]) and any(r.after == name for r in RUNS.values()):
            keep_state(rad, state_file(args, name))
    return result


def settings_of(args):
    """What must be the same in all results of a folder."""
    return {"sim": args.sim, "scale": args.scale, "gpus": args.gpus, "names": [t.name for t in args.tasks],
            **({"commands": {t.name: t.said for t in args.tasks}} if args.scripts else {}),
            **({"users": args.users} if args.users else {})}


def complete(result):
    return bool(result) and "metrics" in result and result["metrics"]["completed"] == len(result["names"])


def results_of(args):
    """{name: result} of the runs that are there, in the order of RUNS. Ends the program where they are not of these settings."""
    found = {}
    for name in RUNS:
        for path in (args.out / f"run-{name}.json", args.out / f"run-{name}.json.gz"):
            if path.exists():
                found[name] = json.loads(read(path))
    if args.alone:
        found["exclusive"] = json.loads(read(args.alone))
    if not args.table:
        for name, result in found.items():
            if other := [k for k, v in settings_of(args).items() if result.get(k) != v]:
                sys.exit(f"run_first.py: {args.out}/run-{name}.json was measured with another {' and '.join(other)}: take another --out")
    return found


def missing(args, found):
    """Names of the runs to do: those asked for that are not there as a whole, and those whose state they need."""
    todo = {n for n in args.runs if not complete(found.get(n))}
    todo |= {RUNS[n].after for n in todo if RUNS[n].after and not state_file(args, RUNS[n].after).exists()}
    return [n for n in RUNS if n in todo]


def measure_all(args, found):
    """Measures what is missing within the budget. Returns how many runs failed or were left out."""
    begin, todo = time.monotonic(), missing(args, found)
    say("to measure:", ", ".join(todo) or "nothing")
    if todo and not args.sim:
        if not shutil.which("nvidia-cuda-mps-control"):
            say("note: no nvidia-cuda-mps-control here: tasks will share in time slices")
        warm_up(args.out)
        if any(RUNS[n].brings == CAPTURE for n in todo):
            captures_of(args)

    def measure_one(name, left_s):
        found[name] = measure(args, name, min(args.deadline, left_s))
        save(args.out / f"run-{name}.json", found[name])
        tell(name, found[name])
        return complete(found[name])
    alone_s = found["exclusive"]["metrics"]["trace_total_s"] if complete(found.get("exclusive")) else 0.0
    return in_turn(todo, args.budget - (time.monotonic() - begin), measure_one, alone_s)


# --- what came out ---

def in_parts(found):
    """Whether `exclusive` had more GPUs than the other runs."""
    return found["exclusive"]["gpus"] > min(r["gpus"] for r in found.values())


def bound_s(rad, found):
    """The lower bound of the tasks as `exclusive` saw them, on the GPUs of all other runs."""
    base = found["exclusive"]
    gpus = base["gpus_before"]["gpus"][:min(r["gpus"] for r in found.values())]
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        simulate_policies.write_inputs(folder, simulate_policies.alone(base), {**base, "gpus_before": {"gpus": gpus}})
        done = subprocess.run([rad, "simulate", "--trace", folder / "trace.csv", "--workloads", folder / "workloads.csv", "--devices",
                               folder / "devices.yaml", "--share", "mps", "--json"], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"run_first.py: rad simulate: {done.stderr.strip()}")
    return json.loads(done.stdout)["lower_bound_s"]


def starts(result):
    """{name: seconds that its last attempt took before it trained}."""
    return {t["name"]: simulate_policies.start_of(t["attempts"][-1], result["summary"].get(t["name"])) for t in result["tasks"]}


def tells_starts(result):
    """Whether its tasks say how long they trained, as train.py does; a script as it is says nothing."""
    return any(told and "first_step_s" in told for told in result["summary"].values())


def covered(spans):
    """The length of what the spans cover together."""
    at = total = 0.0
    for since, until in sorted(spans):
        total += max(0.0, until - max(since, at))
        at = max(at, until)
    return total


def untrained_s(result):
    """For how long of the total no task of a GPU trained: mean of the GPUs. Nobody computed then, or only an attempt that was lost."""
    gpus, begin = simulate_policies.Gpus(result), starts(result)
    trained = [covered((seconds_of(a["start"]) + begin[t["name"]], seconds_of(a["end"])) for t in result["tasks"]
                       for a in t["attempts"][-1:] if gpu in gpus.of(a)) for gpu in range(result["gpus"])]
    return result["metrics"]["trace_total_s"] - sum(trained) / len(trained)


def of_possible(alone_s, total_s, least_s):
    return (alone_s - total_s) / (alone_s - least_s) if alone_s > least_s else None


def percent(part):
    return None if part is None else f"{part:.0%}".replace("%", " %")


def runs_table(found, least_s):
    """One row a run, and the bound."""
    base, rows, added = found["exclusive"]["metrics"], [], in_parts(found)
    alone_s = sum(t["run_s"] for t in found["exclusive"]["tasks"]) if added else base["trace_total_s"]
    for name, result in found.items():
        m = result.get("metrics")
        if not m:
            rows.append([RUNS[name].title, "did not finish", *[None] * 10])
            continue
        done = f"{m['completed']}/{m['tasks']}"
        if name == "exclusive" and added:
            rows.append([f"{RUNS[name].title}, {result['gpus']} GPUs, added up", cell(alone_s, 1), *[None] * 4, cell(m["avg_exec_s"], 1),
                         *[None] * 3, m["oom"], done])
            continue
        total = m["trace_total_s"]
        first = name == "exclusive"
        joules = None if m["energy_j"] is None else cell(m["energy_j"] / 1e3, 1)
        rows.append([RUNS[name].title, cell(total, 1), None if first else percent(1 - total / alone_s),
                     None if first else percent(of_possible(alone_s, total, least_s)), cell(untrained_s(result), 1)
                     if tells_starts(result) else None,
                     cell(m["avg_wait_s"], 1), cell(m["avg_exec_s"], 1), cell(m["avg_jct_s"], 1), cell(m["mean_smact"], 2),
                     joules if first or added or not joules else joules + change(m["energy_j"], base["energy_j"]), m["oom"], done])
    rows.append(["*lower bound*", cell(least_s, 1), percent(1 - least_s / alone_s), "100 %", *[None] * 8])
    return pages.table(["", "total (s)", "shorter", "of what the bound allows", "of the total, nobody trained (s)", "mean wait (s)",
                        "mean execution (s)", "mean JCT (s)", "SMACT", "energy (kJ)", "OOMs", "completed"], rows)


def tasks_table(found, took):
    """What each task is alone, and how long it ran in each run. `took`: of its capture."""
    known, rows, told = simulate_policies.alone(found["exclusive"]), [], tells_starts(found["exclusive"])
    ran = {name: {t["name"]: t for t in r["tasks"]} for name, r in found.items() if "metrics" in r}
    for name, alone in known.items():
        capture = took["each"].get(name, {})
        rows.append([name, cell(None if "error" in capture else capture.get("seconds"), 1), cell(alone["start_s"], 1) if told else None,
                     cell(alone["solo_s"] - alone["start_s"], 1) if told else None, alone["mem_mib"], cell(alone["gract"], 2),
                     cell(alone["smact"], 2),
                     *(cell(tasks[name]["run_s"], 1) + (f", {n} attempts" if (n := len(tasks[name]["attempts"])) > 1 else "")
                       for tasks in ran.values())])
    return pages.table(["task", "capture (s)", "start (s)", "training (s)", "MiB", "GRACT", "SMACT",
                        *(f"{name} (s)" for name in ran)], rows)


def show(args, found):
    """Prints the tables and draws the picture, as far as there is something of each."""
    if "metrics" not in found.get("exclusive", {}):
        say("no table: exclusive is missing, and nothing is known of the tasks alone")
        return
    took = json.loads((args.out / "captures.json").read_text()) if (args.out / "captures.json").exists() else {"each": {}}
    drawn = [(f"{RUNS[n].title}: {r['metrics']['trace_total_s']:.0f} s", simulate_policies.measured_spans(r), starts(r))
             for n, r in found.items() if "metrics" in r and (n != "exclusive" or not in_parts(found))]
    picture = args.out / "first.svg"
    picture.write_text(gantt.picture(drawn, "Tasks on GPUs over time; pale: before a task trains; with a red edge: lost"))
    runs = runs_table(found, bound_s(pathlib.Path(args.bin).resolve() / "rad", found))
    tasks = tasks_table(found, took)
    if "wall_s" in took:
        tasks += f"\n\nAll captures together took {took['wall_s']} s, {took['at_a_time']} at a time."
    print(runs, tasks, sep="\n\n")
    if args.page:
        link = os.path.relpath(picture, pathlib.Path(args.page).parent)
        pages.fill(args.page, {
            f"{args.section} runs": f"{runs}\n\n![Which task ran where and when in each run; pale: before it trains]({link})",
            f"{args.section} tasks": tasks})


def main():
    args = parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    found = results_of(args)
    failed = 0 if args.table else measure_all(args, found)
    show(args, {name: found[name] for name in RUNS if name in found})
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
