# SPDX-License-Identifier: MIT
"""What must hold, whatever was killed: every acknowledged submission is there and ended, none ran twice (again only where the
verdict of the attempt before says so, or a person), what is said agrees with what the tasks wrote themselves, and nothing is
left over. Returns texts, one for each thing that does not hold."""
import datetime
import os
import time

from world import Gone, Refused, until

AGAIN = {"oom", "neighbour", "launch"}      # after these an attempt follows by itself
GOES_ON_S = 2       # a program may end by itself, or be dying, when its end is told
ENDED = {"COMPLETED", "FAILED", "OUT_OF_MEMORY", "CANCELLED", "TIMEOUT", "LOST"}


def read_ledgers(world):
    """task -> attempt -> starts [(pid, ms)] and ends [(code, ms)]"""
    ran = {}
    for path in world.ledgers.values():
        with open(path) as f:
            for line in f:
                what, task, attempt, number, ms = line.split()
                a = ran.setdefault(task, {}).setdefault(int(attempt), {"starts": [], "ends": []})
                a["starts" if what == "S" else "ends"].append((int(number), int(ms)))
    return ran


def let_end(world, load, seconds=60):
    """Releases what is held, waits, cancels what waits for what never comes. None, or a text."""
    end = time.monotonic() + seconds
    connection = world.connect()
    while time.monotonic() < end:
        world.reap()        # who is dead and not waited for counts against limits
        tasks = connection.call("list")["tasks"]
        if not tasks:
            connection.close()
            return None
        moving = [t for t in tasks if t["state"] == "RUNNING" or
                  (t["state"] == "PENDING" and "Dependency" not in (t["reason"] or ""))]
        for t in tasks:
            try:
                if t["state"] == "HELD":
                    connection.call("release", id=t["id"])
                elif not moving or "Never" in (t["reason"] or ""):
                    mark_cancelled(load, t["id"])
                    connection.call("cancel", id=t["id"])
            except Refused:
                pass
        time.sleep(0.1)
    text = "; ".join(f"{t['id']} {t['state']} {t['reason']}: {t['reason_text']}" for t in tasks[:5])
    return f"{len(tasks)} tasks have not ended after {seconds} s: {text}"


def mark_cancelled(load, task):
    for job in load.jobs:
        if job.id == task.split("_")[0]:
            job.cancels += 1


def check_attempts(task, job, ran):
    said = task["attempts"]
    for number, a in ran.items():
        if number > len(said) or number < 1:
            yield f"attempt {number} ran, and radd knows {len(said)}"
        if len(a["starts"]) > 1:
            yield f"RAN TWICE: attempt {number} was started {len(a['starts'])} times"
    by_people = sum(a["verdict"] not in AGAIN for a in said[:-1])
    if by_people > job.requeues:
        verdicts = [a["verdict"] for a in said]
        yield f"RAN TWICE: {by_people} further attempts that neither a verdict nor a person explains ({verdicts})"


def check_state(task, job, ran, lossy, tolerated):
    state, said = task["state"], task["attempts"]
    last = ran.get(len(said), {"starts": [], "ends": []})
    code = last["ends"][-1][0] if last["ends"] else None
    if state not in ENDED:
        yield f"is {state} at the end"
    elif state == "COMPLETED" and code != 0:
        yield f"is COMPLETED, and wrote {last}"
    elif state == "FAILED" and said and said[-1]["verdict"] == "failed" and code not in (job.code, 143) and not lossy:
        yield f"is FAILED with {task['exit_code']} ({said[-1]['evidence']}), and wrote {last}"
    elif state == "CANCELLED" and not job.cancels:
        yield "is CANCELLED, and nobody asked for it"
    elif state == "TIMEOUT" and "time_limit_s" not in job.spec:
        yield "is TIMEOUT without a limit"
    elif state == "LOST" and not lossy:
        yield f"is LOST ({said[-1]['evidence'] if said else ''}), and wrote {last}"
    elif state == "FAILED" and said and said[-1]["verdict"] in ("launch", "host_oom") and said[-1]["verdict"] not in tolerated:
        yield f"is FAILED by {said[-1]['verdict']} ({said[-1]['evidence']})"
    if state == "FAILED" and code is not None and not lossy and task["exit_code"] not in (code, None):
        yield f"exit code {task['exit_code']}, and it wrote {code}"


def check_lost(connection, task, ran):
    """Nothing of a lost attempt goes on: it would hold a GPU that others are given."""
    ends = ran.get(len(task["attempts"]), {"ends": []})["ends"]
    if task["state"] != "LOST" or not ends:
        return
    told = [e["time"] for e in connection.call("events", id=task["id"])["events"] if e["event"] == "ended"][-1]
    wrote = time.time() - time.monotonic() + ends[-1][1] / 1000
    more = wrote - datetime.datetime.fromisoformat(told).timestamp()
    if more > GOES_ON_S:
        yield f"is LOST, and its program went on for {more:.1f} s"


def check_order(job, ran, by_id):
    """afterok: nothing of it began before what it waits for had ended well. A requeue of either undoes the order."""
    for kind, other in job.spec.get("deps", []):
        before = by_id.get(other)
        if kind != "afterok" or not before or before.requeues or job.requeues:
            continue
        ends = [ms for e in before.elements() for a in ran.get(e, {}).values() for code, ms in a["ends"] if code == 0]
        for a in ran.get(job.id, {}).values():
            if not ends or a["starts"] and a["starts"][0][1] < max(ends):
                yield f"began before {other} had ended well"


def check_tasks(world, load, fault):
    ran, by_id = read_ledgers(world), {j.id: j for j in load.acknowledged()}
    connection = world.connect()
    found = {"tasks": 0, "starts": sum(len(a["starts"]) for t in ran.values() for a in t.values()), "lost": 0, "twice": 0}
    wrong = []
    for job in load.acknowledged():
        try:
            tasks = {t["id"]: t for t in connection.call("show", id=job.id)["tasks"]}
        except Refused as e:
            tasks = {}
            wrong.append(f"LOST SUBMISSION: {job.id} ({job.name}): {e}")
        for element in job.elements():
            found["tasks"] += 1
            task = tasks.get(element)
            if not task:
                found["lost"] += 1
                wrong.append(f"LOST SUBMISSION: {element} of {job.name} is not known")
                continue
            wrote = ran.get(element, {})
            texts = [*check_attempts(task, job, wrote), *check_state(task, job, wrote, fault.lossy, fault.tolerated),
                     *check_lost(connection, task, wrote)]
            found["twice"] += any("RAN TWICE" in t for t in texts)
            found[task["state"]] = found.get(task["state"], 0) + 1
            wrong += [f"task {element}: {t}" for t in texts]
        wrong += [f"job {job.id}: {t}" for t in check_order(job, ran, by_id)]
    for element in ran:
        if element.split("_")[0] not in by_id:
            wrong.append(f"task {element} ran, and nobody submitted it")
    connection.close()
    return found, wrong


def check_clean(world, connection):
    """After all has ended: no claim, no process, no folder, no cgroup."""
    def claims():
        return [f"GPU {g['index']}: {g['mem_held_mib']} MiB held, tasks {g['tasks']}"
                for g in connection.call("gpus")["gpus"] if g["mem_held_mib"] or g["tasks"]]

    def processes():
        return [f"{p} {b' '.join(open(f'/proc/{p}/cmdline', 'rb').read().split(bytes(1)))[:80]}" for p in world.others()
                if os.path.exists(f"/proc/{p}/cmdline")]
    wrong = []
    for what, look in (("claims", claims), ("processes", processes), ("attempt folders", world.attempts),
                       ("cgroups", world.cgroups)):
        if not until(15, lambda look=look: not look()):
            left = look()
            if left:
                wrong.append(f"left over: {len(left)} {what}: {left[:4]}")
    return wrong


def check_all(world, load, fault, seconds=60):
    """Ends everything, then looks. Returns (counts, texts)."""
    try:
        connection = world.connect()
        wrong = load.find_unanswered(connection)
        stuck = let_end(world, load, seconds)
        if stuck:
            wrong.append(stuck)
        found, more = check_tasks(world, load, fault)
        wrong += more + load.troubles + check_clean(world, connection)
        connection.close()
    except Gone as e:
        return {"tasks": 0, "starts": 0, "lost": 0, "twice": 0}, [f"radd does not answer at the end: {e}"]
    return found, wrong
