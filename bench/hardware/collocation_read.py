# SPDX-License-Identifier: MIT
"""Reads what run_collocation.py wrote, and says of each point what the studies ask: speed against alone, system throughput,
delta of equation 4.1, joules a sample of work. Standard library only."""

from score_mixes import read_lines


def delta(alone, together):
    """Equation 4.1: the steps' times alone, added up, over the longest of them together. Rates in steps a second."""
    return sum(1 / r for r in alone) / max(1 / r for r in together) if min(*alone, *together) > 0 else None


def key(line):
    """What a measurement is of."""
    return line["mode"], line["group"], tuple(line["tasks"]), line["cores"]


class Run:
    """One file: what was measured on one host at one time. points: lines of run_collocation.py with `alone` (steps a second of each task
    alone: the best of what this run measured in any mode, since a task that was slower another time had waited for the host; another
    host's best says nothing of this one), `relative`, `stp`, `delta` and `run` beside. Of what was measured twice the later counts.
    alone: of each mode and task the line of the best. rates: of a task alone, whenever it was measured."""
    def __init__(self, path):
        self.rates, self.head, self.alone, self.built, self.done = {}, {}, {}, [], set()
        found = {}
        for line in read_lines(path):
            self._line(line, found)
        self.points = [p for p in found.values() if self._compare(p)]

    def _line(self, line, found):
        if "gpu" in line:
            self.head = line
        elif "tasks" in line:
            found[key(line)] = line
            if len(line["tasks"]) == 1 and not line["cores"]:
                self.rates.setdefault(line["tasks"][0], []).append(line["steps_s"][0])
                kept = self.alone.get((line["mode"], line["tasks"][0]))
                if not kept or line["steps_s"][0] > kept["steps_s"][0]:
                    self.alone[line["mode"], line["tasks"][0]] = line
        elif "built" in line:
            self.built.append(line)
        elif line.get("done"):
            self.done.add((line["mode"], line["group"]))

    def _compare(self, p):
        p["run"], p["alone"] = self, [self.best(name) for name in p["tasks"]]
        if not all(p["alone"]):
            return False
        p["relative"] = [r / a if a else 0 for r, a in zip(p["steps_s"], p["alone"])]
        p["stp"], p["delta"] = sum(p["relative"]), delta(p["alone"], p["steps_s"])
        return True

    def best(self, name):
        return max((line["steps_s"][0] for (_, n), line in self.alone.items() if n == name), default=0)

    def load(self, name):
        """What the GPU showed with the task alone, when it was at its best."""
        return max((line for (_, n), line in self.alone.items() if n == name), key=lambda line: line["steps_s"][0])["loads"]

    def together(self, mode, members):
        """The point with exactly these members, in any order; None."""
        return next((p for p in self.points if p["mode"] == mode and not p["cores"] and sorted(p["tasks"]) == sorted(members)), None)


class Study:
    """All runs on one model of GPU. Of what two of them measured the later counts."""
    def __init__(self, paths):
        self.runs = [Run(path) for path in paths]
        self.points = list({key(p): p for run in self.runs for p in run.points}.values())
        self.built = [line for run in self.runs for line in run.built]
        self.done = set().union(*(run.done for run in self.runs))

    def copies(self, mode, name):
        """{degree: point}; degree 1 with everything at hand."""
        return {len(p["tasks"]): p for p in self.points
                if p["mode"] == mode and set(p["tasks"]) == {name} and not p["cores"] and p["group"] == f"copies {name}"}

    def together(self, mode, members):
        """The point with exactly these members, of the last run that has it; None."""
        return next((p for run in reversed(self.runs) if (p := run.together(mode, members))), None)


def energy_per_work(p):
    """Joules for as much work as a task alone does in a second, in the mean over the tasks: watts over STP."""
    watts = p["loads"].get("watts")
    return watts / p["stp"] if watts and p["stp"] else None


def times_to_finish(run, mode, works):
    """works: [(task, steps)]. When each ends if all start together and whoever is done leaves, from the rates measured of what is left;
    (seconds of each, joules or None). None where one of those mixes was not measured."""
    left, now, ends, joules = dict(enumerate(works)), 0.0, {}, 0.0
    while left:
        members = [name for name, _ in left.values()]
        p = run.together(mode, members) if len(members) > 1 else run.alone.get((mode, members[0]))
        if not p:
            return None
        rates = {name: [r for n, r in zip(p["tasks"], p["steps_s"]) if n == name] for name in members}
        mean = {name: sum(r) / len(r) for name, r in rates.items()}  # copies do as much work: they end together
        if not all(mean.values()):
            return None
        span = min(steps / mean[name] for name, steps in left.values())
        watts = p["loads"].get("watts")
        joules = joules + watts * span if watts and joules is not None else None
        now += span
        rest = {}
        for n, (name, steps) in left.items():
            steps -= mean[name] * span
            if steps <= 1e-6 * works[n][1]:
                ends[n] = now
            else:
                rest[n] = (name, steps)
        left = rest
    return [ends[n] for n in range(len(works))], joules
