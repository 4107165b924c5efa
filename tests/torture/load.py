# SPDX-License-Identifier: MIT
"""A busy lab: random submissions (arrays, dependencies, held ones, time limits), cancels, holds, releases, requeues and
changes of random tasks, by several users, many of them under way at once. It notes what was acknowledged and what was asked for,
which is all that check.py believes beside the ledger."""
import json
import random

from world import Gone, Refused


class Job:
    """One submission: what it is to do, and what was asked about it later."""

    def __init__(self, name, uid, spec, code):
        self.name, self.uid, self.spec, self.code = name, uid, spec, code
        self.id = None              # once acknowledged, or found
        self.cancels = self.requeues = 0        # asked for, answered or not
        self.cancel_acknowledged = False

    def elements(self):
        return [f"{self.id}_{i}" for i in self.spec["array"]] if "array" in self.spec else [self.id]


class Load:
    def __init__(self, world, rng, longest_ms=400):
        self.world, self.rng, self.longest_ms = world, rng, longest_ms
        self.jobs = []
        self.connections = {}
        self.troubles = []          # answers that should never come

    def acknowledged(self):
        return [j for j in self.jobs if j.id]

    def connect(self, uid):
        if uid not in self.connections:
            self.connections[uid] = self.world.connect(uid)
        return self.connections[uid]

    def hang_up(self):
        for c in self.connections.values():
            c.close()
        self.connections = {}

    def make(self, uid):
        rng, w = self.rng, self.world
        name, code = f"t{len(self.jobs)}", rng.choice([0, 0, 0, 0, 7])
        ms = int(rng.expovariate(4 / self.longest_ms))
        words = [f"{w.build}/tests/torture/torture-task", w.ledgers[uid], str(ms), str(code)]
        if rng.random() < 0.03:
            words.append("stubborn")
        spec = {"argv": words, "name": name, "cwd": "/tmp", "output": "/dev/null",
                "gpu_mem_mib": rng.choice([1000, 3000, 9000]), "gpus": rng.choice([0, 1, 1, 1, 1, 2])}
        if not spec["gpus"]:
            del spec["gpu_mem_mib"]
        kind = rng.random()
        known = self.acknowledged()
        if kind < 0.12:
            spec["array"] = list(range(rng.randint(2, 10)))
            spec["array_limit"] = rng.choice([0, 0, 1, 3])
        elif kind < 0.35 and known:
            spec["deps"] = [[rng.choice(["afterok", "afterany", "afternotok"]), rng.choice(known).id]
                            for _ in range(rng.randint(1, 2))]
        elif kind < 0.42:
            spec["hold"] = True
        elif kind < 0.46:
            spec["time_limit_s"] = 1
            words[2] = "3000"
        return Job(name, uid, spec, code)

    def step(self):
        """Sends one request. Returns (uid, what its answer means)."""
        rng, known = self.rng, self.acknowledged()
        if not known or rng.random() < 0.55:
            uid = rng.choice(self.world.users)
            job = self.make(uid)
            self.jobs.append(job)
            self.connect(uid).send("submit", spec=job.spec, environ=["PATH=/usr/bin:/bin"])
            return uid, lambda answer: setattr(job, "id", answer["id"])
        job = rng.choice(known[-30:])
        connection = self.connect(job.uid)
        what = rng.choice(["cancel", "hold", "release", "release", "requeue", "update", "show", "list", "why"])
        target = rng.choice([job.id, *job.elements()])
        if what == "requeue":
            target = rng.choice(job.elements())
            job.requeues += 1
        if what == "cancel":
            job.cancels += 1
        if what == "update":
            connection.send(what, id=target, priority=-rng.randint(0, 5))
        elif what == "list":
            connection.send(what)
        else:
            connection.send(what, id=target)

        def answered(_):
            job.cancel_acknowledged |= what == "cancel" and target == job.id
        return job.uid, answered

    def run(self, requests, patient=True):
        """Sends so many ahead, then reads the answers that come. False: radd went away meanwhile."""
        under_way = []
        alive = True
        try:
            for _ in range(requests):
                under_way.append(self.step())
        except Gone:
            alive = False
        if patient or not alive:
            return self.read(under_way) and alive
        self.under_way = under_way
        return True

    def read(self, under_way):
        gone = set()
        for uid, meaning in under_way:
            if uid in gone:
                continue
            try:
                meaning(self.connections[uid].receive())
            except Refused as e:
                self.refused(str(e))
            except (Gone, KeyError):
                gone.add(uid)
        for uid in gone:        # an answer that comes late must not be taken for that of a later request
            if uid in self.connections:
                self.connections.pop(uid).close()
        return not gone

    def refused(self, text):
        """Most refusals are right: a task that ended cannot be held. That there is none of an acknowledged id never is."""
        if "there is none of that id" in text or "no such task" in text:
            self.troubles.append(text)

    def settle(self, answers):
        """What was sent before a kill: answers that came count."""
        self.read(answers)
        self.hang_up()

    def find_unanswered(self, connection):
        """Submissions without an answer may be there, each once: they count as acknowledged then. Returns what is wrong."""
        by_name, taken = {j.name: j for j in self.jobs}, {j.id for j in self.acknowledged()}
        known = {int(i) for i in taken} or {1, 1001, 2001}      # a radd that was killed may leave a gap in the numbers
        wrong = []
        near = sorted({n for k in known for n in range(max(k - 80, 1), k + 80)} - {int(i) for i in taken})
        for number in near:
            try:
                name = connection.call("show", id=str(number))["tasks"][0]["name"]
            except Refused:
                continue
            if name not in by_name or by_name[name].id:
                wrong.append(f"{name} was accepted twice: {number}, {by_name[name].id if name in by_name else None}")
            else:
                by_name[name].id = str(number)
        return wrong


def seeded(seed, *more):
    return random.Random(json.dumps([seed, *more]))
