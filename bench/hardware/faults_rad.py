# SPDX-License-Identifier: MIT
"""Experiments on rad itself: a task that lies about its memory, a killed daemon, a cancel. They run on a GPU (PyTorch tasks)
and on a simulated one (`rad simtask`) alike."""
import pathlib
import statistics
import time

from common import Rad, last_json, progress, tail, train, wait_for

HERE = pathlib.Path(__file__).resolve().parent

# Neighbours may not be kept apart by their load: the point is that they are together.
CONFIG = "placement: magm\nshare: mps\nmax_smact: off\nmax_tasks: off\nslack: 0\nwindow: 10\nsettle: 3\nkill_wait: 5\n"


def start(step):
    args = step.args
    config = CONFIG + args.config.replace("\\n", "\n") + "\n"
    return Rad(args.bin, step.ws, "sim:1xa100-40g" if args.sim else "nvml", config).start()


def light(step, seconds):
    """A task of about 1 GiB that trains for so long."""
    if step.args.sim:
        return [rad_command(step), "simtask", "--mem", "900", "--seconds", str(seconds), "--gract", "0.25", "--smact", "0.1"]
    return train("--model", "resnet18", "--image-size", 32, "--batch-size", 128, "--steps", 0, "--seconds", seconds,
                 "--optimizer", "momentum", "--print-every", 50, python=step.args.python)


def medium(step, seconds, *more):
    """A task of about 4.2 GiB."""
    if step.args.sim:
        return [rad_command(step), "simtask", "--mem", "4300", "--seconds", str(seconds), "--gract", "0.5", "--smact", "0.4"]
    return train("--model", "resnet50", "--batch-size", 32, "--steps", 0, "--seconds", seconds, "--optimizer", "momentum",
                 "--print-every", 10, *more, python=step.args.python)


def rad_command(step):
    return str(pathlib.Path(step.args.bin).resolve() / "rad")


def marked(command):
    """The same, with a line before and a line after it: shows how often it ran, and that it ran to its end."""
    return ["bash", "-c", 'echo STARTED $$; "$@"; code=$?; echo FINISHED $code; exit $code', "marked", *command]


def collect(step, rad, ids):
    """Everything about these tasks into the result; returns the task objects by name."""
    tasks = {name: rad.show(i) for name, i in ids.items()}
    step.keep(tasks=tasks, outputs={n: tail(rad.output(n), 6000) for n in ids},
              summaries={n: last_json(tail(rad.output(n))) for n in ids}, radd_log=tail(rad.log, 32 << 10))
    return tasks


def describe(task):
    tries = ", ".join(f"{a['verdict']} (exit {a['exit_code']}; {a['evidence']})" for a in task["attempts"])
    return f"{task['name']}: {task['state']} after {len(task['attempts'])} attempts: {tries}"


def speed_of(rad, name):
    rates = [r for _, r in progress(tail(rad.output(name), 1 << 20))][1:]
    return f"{min(rates):.1f}/{statistics.median(rates):.1f}/{max(rates):.1f} steps/s (lowest/middle/highest)" if rates else ""


def liar(step):
    """A task declares less than it takes: it must fail alone at its fence, and be recovered."""
    rad = start(step)
    seconds = 15 if step.args.sim else 45
    ids = {"neighbour-1": rad.submit("neighbour-1", medium(step, seconds), "--gpu-mem", "5G"),
           "neighbour-2": rad.submit("neighbour-2", light(step, seconds), "--gpu-mem", "1536M")}
    for i in ids.values():
        rad.wait_state(i, {"RUNNING"}, 60)
    if step.args.sim:
        lying = [rad_command(step), "simtask", "--mem", "4300", "--grow-to", "6000", "--grow-at", "2", "--seconds", "5",
                 "--gract", "0.4", "--smact", "0.3"]
    else:
        lying = train("--model", "resnet50", "--batch-size", 32, "--steps", 150, "--optimizer", "momentum", "--print-every", 10,
                      "--lie-mib", 1536, "--lie-at", 50, python=step.args.python)
    ids["liar"] = rad.submit("liar", lying, "--gpu-mem", "5G")
    rad.wait_all(ids.values(), 120)
    tasks = collect(step, rad, ids)
    for name in ids:
        step.note(f"{describe(tasks[name])} {speed_of(rad, name)}".strip())
    first = tasks["liar"]["attempts"][0]
    step.check(first["verdict"] == "oom", "the liar's first attempt ended out of memory")
    step.check(tasks["liar"]["state"] == "COMPLETED" and len(tasks["liar"]["attempts"]) > 1, "the liar was recovered")
    for name in ("neighbour-1", "neighbour-2"):
        step.check(tasks[name]["state"] == "COMPLETED" and len(tasks[name]["attempts"]) == 1, f"{name} finished untouched")
    rad.stop()


def killed_daemon(step):
    """kill -9 of radd while tasks run and one waits; one ends while there is no daemon; then a new radd on the same state."""
    rad = start(step)
    ids = {}
    for name, seconds in (("short", 6), ("long-1", 20), ("long-2", 20), ("long-3", 20)):
        ids[name] = rad.submit(name, marked(light(step, seconds)), "--gpu-mem", "1536M")
    ids["waiting"] = rad.submit("waiting", marked(light(step, 3)), "--gpu-mem", "1536M", "--exclusive")
    for name in ("short", "long-1", "long-2", "long-3"):
        wait_for(f"{name} to start", 60, lambda n=name: "STARTED" in (tail(rad.output(n)) or ""))
    step.check(rad.show(ids["waiting"])["state"] == "PENDING", "one task was waiting when radd was killed")
    rad.kill()
    wait_for("the short task to end without a daemon", 60, lambda: "FINISHED" in tail(rad.output("short")))
    time.sleep(1)  # its shim writes the exit record
    begin = time.monotonic()
    rad.start()
    step.note(f"the new radd answered after {time.monotonic() - begin:.2f} s")
    step.keep(after_restart=rad.json("queue", "-t", "all"))
    rad.wait_all(ids.values(), 90)
    tasks = collect(step, rad, ids)
    for name in ids:
        output = tail(rad.output(name), 1 << 20)
        once = output.count("STARTED") == 1 and output.count("FINISHED 0") == 1
        step.check(once and tasks[name]["state"] == "COMPLETED" and len(tasks[name]["attempts"]) == 1,
                   f"{name}: {tasks[name]['state']}, {len(tasks[name]['attempts'])} attempt, ran exactly once")
    rad.stop()


def cancel(step):
    """Two tasks are cancelled with work in flight, one of them deaf to SIGTERM; a neighbour and a next one go on."""
    rad = start(step)
    ids = {"neighbour": rad.submit("neighbour", light(step, 30), "--gpu-mem", "1536M"),
           "polite": rad.submit("polite", medium(step, 100), "--gpu-mem", "5G")}
    busy = light(step, 100) if step.args.sim else [step.args.python, str(HERE / "culprit.py"), "busy"]
    # simtask hears SIGTERM whatever its parent ignores; so what is deaf there is the shell around it.
    deaf = 'trap "" TERM; "$@"; sleep 100' if step.args.sim else 'trap "" TERM; exec "$@"'
    ids["deaf"] = rad.submit("deaf", ["bash", "-c", deaf, "deaf", *busy], "--gpu-mem", "1536M")
    for i in ids.values():
        rad.wait_state(i, {"RUNNING"}, 60)
    if not step.args.sim:
        wait_for("work in flight", 60, lambda: "work in flight" in (tail(rad.output("deaf")) or "")
                 and progress(tail(rad.output("polite"))) and progress(tail(rad.output("neighbour"))))
    for name in ("polite", "deaf"):
        begin = time.monotonic()
        rad.run("cancel", ids[name])
        rad.wait_state(ids[name], {"CANCELLED"}, 60)
        step.note(f"{name}: cancelled within {time.monotonic() - begin:.1f} s")
        step.keep(**{f"gpus_after_{name}": rad.json("gpus")})
    ids["next"] = rad.submit("next", light(step, 3), "--gpu-mem", "1536M")
    rad.wait_all(ids.values(), 60)
    tasks = collect(step, rad, ids)
    for name in ids:
        step.note(f"{describe(tasks[name])} {speed_of(rad, name)}".strip())
    for name in ("neighbour", "next"):
        step.check(tasks[name]["state"] == "COMPLETED" and len(tasks[name]["attempts"]) == 1, f"{name} was not disturbed")
    rad.stop()
