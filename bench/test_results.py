#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What scripts make of the raw data of doc/results, they make as it stands there: pages, pictures and the lines of tables.

Each runs over a copy. Who changes what an estimate, a law or a script says renews the pages too: the same command, without the copy.
Not here: what needs data that are not in the repository, numpy or matplotlib, what takes minutes (models/conv_scratch.h, activity.h);
and times, which are another machine's.
"""
import itertools
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[1]
BUILD = pathlib.Path(os.environ.get("RAD_BUILD_ROOT", ROOT / "build")).resolve()
RAD = BUILD / "rad"
TIMES = re.compile(r" ([0-9.]+ ms|[0-9.e-]+) \|$", re.M)  # the last column of tables of doc/results/memory


class Results(unittest.TestCase):
    def setUp(self):
        held = tempfile.TemporaryDirectory(prefix="rad-results.")
        self.addCleanup(held.cleanup)
        self.copy = pathlib.Path(held.name, "doc/results")
        shutil.copytree(ROOT / "doc/results", self.copy)

    def run_script(self, script, *words):
        """What it prints; words with {r} name the copy."""
        words = [str(word).replace("{r}", str(self.copy)) for word in words]
        python = [sys.executable, str(ROOT / script)] if "/" in script else [sys.executable, "-m", script]
        done = subprocess.run([*python, *words], capture_output=True, text=True, check=False, cwd=ROOT, timeout=120,
                              env={**os.environ, "PYTHONPATH": str(ROOT / "python"), "LC_ALL": "C.UTF-8"})
        self.assertEqual(done.returncode, 0, f"{script}: {done.stderr[-2000:]}")
        return done.stdout

    def files(self, folder, pattern):
        return sorted(path for path in (self.copy / folder).glob(pattern))

    def same(self, *names):
        for name in names:
            made, there = ((folder / name).read_text().splitlines() for folder in (self.copy, ROOT / "doc/results"))
            for n, (new, old) in enumerate(itertools.zip_longest(made, there), 1):
                self.assertEqual(new, old, f"doc/results/{name}:{n} is not what its script makes")

    def stands_in(self, pages, text, without=None):
        """Every line of a table that was printed stands in one of the pages."""
        there = "".join((ROOT / page).read_text() for page in pages.split())
        if without:
            text, there = without.sub("", text), without.sub("", there)
        lines = [line for line in text.splitlines() if line.startswith("|")]
        self.assertTrue(lines)
        for line in lines:
            self.assertIn(line + "\n", there, f"not in {pages}")

    def test_first_runs(self):
        pages = ("first.md", "scripts.md")
        sections = [(page, name) for page in pages for name in re.findall(r"<!-- ([\w ]*) runs -->", (self.copy / page).read_text())]
        self.assertGreater(len(sections), 4)
        for page, section in sections:
            folder = pathlib.Path("h200/first" if section == "first" else section.replace(" ", "/"))
            alone = folder.parent / "first/run-exclusive.json.gz"  # where a folder has none of its own
            more = [] if (self.copy / folder / alone.name).exists() else ["--alone", f"{{r}}/{alone}"]
            self.run_script("bench/hardware/run_first.py", "--bin", BUILD, "--out", f"{{r}}/{folder}", "--table", "--page", f"{{r}}/{page}",
                            "--section", section, *more)
            self.same(page, f"{folder}/first.svg")

    def test_picture_of_the_gains(self):
        self.run_script("bench/hardware/draw_gains.py", "{r}", "{r}/gains.svg")
        self.same("gains.svg")

    def test_policies(self):
        for folder in ("h200", "h100/trace", "h200/trace"):
            self.stands_in("doc/results/policies.md doc/results/faults.md", self.run_script("bench/hardware/table.py", f"{{r}}/{folder}"))
        self.stands_in("doc/results/policies.md", self.run_script("bench/hardware/simulate_policies.py", "--rad", RAD, "{r}/h200/check"))
        self.same("h200/check/simulated.svg")

    def test_load_on_another_gpu(self):
        words = ("--rad", RAD, "--captures", "{r}/load/captures.tar.xz", "--data", "{r}/load/h100")
        self.run_script("bench/hardware/score_solo.py", *words, "--page", "{r}/load/h100.md")
        self.run_script("bench/hardware/score_pace.py", *words, "--page", "{r}/load/pace.md", "--svg", "{r}/load/pace.svg")
        self.same("load/h100.md", "load/pace.md", "load/pace.svg")

    def test_what_simulations_are_off_by(self):
        self.run_script("bench/hardware/score_guesses.py", "--rad", RAD, "--page", "{r}/load/errors.md")
        self.run_script("bench/hardware/simulate_runs.py", "--rad", RAD, "--page", "{r}/simulation/runs.md")
        self.same("load/errors.md", "simulation/runs.md")

    def test_sharing(self):
        mixes, collocation = self.files("h200", "mixes*.jsonl.gz"), self.files("collocation", "*.jsonl.gz")
        self.run_script("bench/hardware/score_pairs.py", *mixes, *collocation, "--page", "{r}/pairs")
        self.run_script("bench/hardware/score_collocation.py", *collocation, "--page", "{r}/collocation")
        self.same("pairs/README.md", "pairs/pairs.svg", "collocation/README.md", "collocation/copies.svg", "collocation/small.svg")
        for which, pattern in (("held", "mixes.jsonl.gz"), ("all", "mixes-crowds-*.gz"), ("all", "mixes-pinned-*.gz")):
            self.stands_in("doc/share.md", self.run_script("bench/hardware/score_infer.py", "--infer", BUILD / "bench/bench-infer",
                                                           "--mixes", which, *self.files("h200", pattern)))

    def test_monitors(self):
        self.run_script("bench/hardware/run_metrics.py", "--out", "{r}/metrics", "--table")
        self.run_script("bench/hardware/run_watching.py", "--out", "{r}/watching", "--table")
        self.same("metrics/metrics.md", "metrics/metrics.svg", "watching/watching.svg")
        self.stands_in("doc/results/watching/README.md", (self.copy / "watching/watching.md").read_text())

    def test_feed_and_simulation(self):
        for data, picture, *what in (("tasks", "cpu"), ("gpu", "gpu", "samples"), ("gpu-h200", "gpu-h200", "samples"),
                                     ("gpu-h100", "gpu-h100", "samples")):
            self.run_script("bench/draw_feed.py", f"{{r}}/feed/{data}.jsonl", f"{{r}}/feed/{picture}.svg", *what)
            self.same(f"feed/{picture}.svg")
        self.run_script("bench/evaluation/cluster.py", "--again", "{r}/cluster")
        self.run_script("bench/evaluation/evaluate.py", "--chart", "--out", "{r}/simulation")
        self.same("cluster/README.md", "cluster/cluster.svg", "simulation/cost.svg")

    def test_memory(self):
        self.stands_in("doc/results/memory/README.md", self.run_script("bench/memory/score.py", "--rad", RAD), TIMES)

    def test_gpumemnet(self):
        self.run_script("radrm.gpumemnet.page", "{r}/memory/gpumemnet")
        self.same("memory/gpumemnet/README.md")
        self.stands_in("doc/results/memory/README.md", self.run_script("radrm.gpumemnet.beyond", "--out",
                                                                       "{r}/memory/gpumemnet/beyond.json", "--table"))


if __name__ == "__main__":
    unittest.main()
