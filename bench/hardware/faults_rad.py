# SPDX-License-Identifier: MIT
"""Experiments on rad itself: a task that lies about its memory, a killed daemon, a cancel. They run on a GPU (PyTorch tasks)
and on a simulated one (`rad simtask`) alike."""
import os
import pathlib
import signal
import statistics
import time

from common import Rad, last_json, progress, tail, train, wait_for

HERE = pathlib.Path(__file__).resolve().parent

# Neighbours may not be kept apart by their load: the point is that they are together.
CONFIG = "placement: magm\nshare: mps\nmax_smact: off\nmax_tasks: off\nslack: 0\nwindow: 10\nsettle: 3\nkill_wait: 5\n"


def start(step):
    args = step.args
    config = CONFIG + args.config.replace("\\n", "\n") + "\n"
    return Rad(args.bin, step.ws, "sim:1xa100-40g" if args.sim else f"nvml:{args.gpu}", config).start()


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


def understated(step):
    """Tasks declare a twentieth and a fifth of what they take (MiB where GiB was meant): each grows until it fits, beside a neighbour."""
    rad = start(step)
    ids = {"neighbour": rad.submit("neighbour", light(step, 25 if step.args.sim else 90), "--gpu-mem", "1536M")}
    rad.wait_state(ids["neighbour"], {"RUNNING"}, 60)
    for name, claim, seconds in (("twentieth", "215M", 3), ("fifth", "860M", 4)):  # two commands, so that none learns from the other
        ids[name] = rad.submit(name, medium(step, seconds), "--gpu-mem", claim)
    rad.wait_all(ids.values(), 170)
    tasks = collect(step, rad, ids)
    for name, task in tasks.items():
        claims = ", ".join(str(a["claim_mib"]) for a in task["attempts"])
        step.note(f"{name}: {task['state']}, claims of {claims} MiB, {task['jct_s']:.0f} s in all")
        step.check(task["state"] == "COMPLETED", f"{name} ran to its end")
    step.check(len(tasks["neighbour"]["attempts"]) == 1, "the neighbour was not disturbed")
    rad.stop()


def paged(step):
    """A task with 3 GiB of managed memory, which NVML lists with no process: is it told, is the second run fenced with it in mind?"""
    rad = start(step)
    command = ["env", "PROBE_TAKE=managed", "PROBE_TAKE_MIB=3072", "PROBE_STAY_S=12", step.args.python, str(HERE / "probe.py")]
    tasks, foreign = {}, []
    for name in ("first", "second"):
        ids = {name: rad.submit(name, command)}
        rad.wait_state(ids[name], {"RUNNING"}, 60)
        wait_for(f"the memory of {name}", 60, lambda: "taken_mib" in (tail(rad.output(name)) or ""))
        time.sleep(7)  # readings in which it stands
        foreign.append(rad.json("gpus")["gpus"][0]["mem_foreign_mib"])
        rad.wait_all(ids.values(), 60)
        tasks.update(collect(step, rad, ids))
    for name, task in tasks.items():
        step.note(f"{describe(task)}; took {task['attempts'][-1]['peak_mib']} MiB, claim {task['attempts'][-1]['claim_mib']}")
    step.keep(foreign_mib=foreign, tasks=tasks)
    step.check(all(mib < 256 for mib in foreign), f"none of it is taken for a foreigner's ({foreign} MiB)")
    step.check(all(task["attempts"][0]["peak_mib"] > 3072 for task in tasks.values()), "it is the task's")
    step.check(tasks["second"]["state"] == "COMPLETED" and len(tasks["second"]["attempts"]) == 1, "the second run fits its fence")
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


def mps_processes(step):
    """{pid: (name, session, the pipe folder in its environment)} of MPS control daemons and servers that are there."""
    found = {}
    for entry in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0")
            name = pathlib.Path(words[0].decode()).name
            if not name.startswith("nvidia-cuda-mps"):
                continue
            session = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[3])
            environ = (entry / "environ").read_bytes().decode(errors="replace").split("\0")
            pipe = next((e.split("=", 1)[1] for e in environ if e.startswith("CUDA_MPS_PIPE_DIRECTORY=")), None)
            found[int(entry.name)] = (name, session, pipe)
        except (OSError, ValueError, IndexError):
            continue
    return {pid: seen for pid, seen in found.items() if seen[2] and str(step.ws.dir) in seen[2]}


def kill_control(step):
    """SIGKILL of every control daemon of ours; returns the servers that are left."""
    seen = mps_processes(step)
    controls = [pid for pid, (name, *_) in seen.items() if name.endswith("control")]
    for pid in controls:
        os.kill(pid, signal.SIGKILL)
    servers = {pid: what for pid, what in seen.items() if what[0].endswith("server")}
    step.keep(mps=seen)
    step.check(len(controls) == 1 and len(servers) == 1, f"one control daemon ({controls}) and one server ({list(servers)}) were there")
    for pid, (_, session, pipe) in servers.items():
        step.note(f"the server is in session {session} of control daemon {controls}, with {pathlib.Path(pipe).name} as its pipe's folder")
    return servers


def killed_control(step):
    """SIGKILL of the MPS control daemon, with a client: its server and client end too, the next task starts, the first one again."""
    rad = start(step)
    ids = {"first": rad.submit("first", light(step, 25), "--gpu-mem", "1536M")}
    wait_for("the first task to train", 60, lambda: progress(tail(rad.output("first"))))
    left = kill_control(step)
    begin = time.monotonic()
    ids["next"] = rad.submit("next", light(step, 3), "--gpu-mem", "1536M")
    rad.wait_all([ids["next"]], 60)
    step.note(f"next: done {time.monotonic() - begin:.1f} s after it was submitted")
    rad.wait_all(ids.values(), 60)
    step.check(not set(left) & set(mps_processes(step)), "nothing is left of the server")
    tasks = collect(step, rad, ids)
    for name in ids:
        step.note(f"{describe(tasks[name])} {speed_of(rad, name)}".strip())
        step.check(tasks[name]["state"] == "COMPLETED", f"{name} ran to its end")
    rad.stop()
