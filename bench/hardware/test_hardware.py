#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Tests of what the experiments compute and promise; no GPU, no PyTorch. The experiments themselves run with --sim."""
import argparse
import contextlib
import io
import itertools
import json
import math
import multiprocessing
import os
import pathlib
import re
import subprocess
import sys
import tarfile
import tempfile
import time
import unittest
import unittest.mock
import xml.dom.minidom
from unittest import mock

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "workloads")]
import collocation_plan
import collocation_read
import captures
import common
import gantt
import meter
import mix
import mix_plan
import mix_worker
import nvml
import pages
import run_collocation
import run_cores
import run_faults
import run_first
import run_metrics
import run_mixes
import run_outside
import run_policies
import run_trace
import run_watching
import score_infer
import score_mixes
import score_guesses
import score_pace
import scripts
import score_pairs
import score_solo
import score_summary
import simulate_policies
import simulate_runs
import table
import train

BUILD = os.environ.get("RAD_BUILD_ROOT")

try:
    import fit_summary
    import load_model
    import numpy
except ImportError:  # fits alone need numpy and scipy
    fit_summary = None


def task(name, submit, end, wait, run, verdicts=("ok",)):
    return {"name": name, "state": "COMPLETED", "submit_time": f"2026-11-20T10:00:{submit:06.3f}Z",
            "end_time": f"2026-11-20T10:00:{end:06.3f}Z", "wait_s": wait, "run_s": run, "jct_s": wait + run,
            "attempts": [{"verdict": v} for v in verdicts]}


def sample(second, energy, smact):
    return {"t": run_policies.seconds_of(f"2026-11-20T10:00:{second:06.3f}Z"), "energy_j": energy, "smact": smact,
            "power_w": 100.0, "used_mib": 1000 + second}


class Watching(unittest.TestCase):
    LINES = [{"kind": "light", "steps": 100},
             *({"kind": "light", "tool": "none", "round": n, "seconds": s, "cpu_s": s / 2, "rss_mib": 10} for n,
               s in enumerate((2.0, 2.2))),
             *({"kind": "light", "tool": "rad monitor 1 s", "round": n, "seconds": s, "cpu_s": s, "rss_mib": 10, "tool_cpu_s": 0.01,
                "tool_s": 2.0, "tool_rss_mib": 4, "bytes_h": 600000} for n, s in enumerate((2.02, 2.2))),
             {"kind": "light", "tool": "pytorch", "round": 0, "part": 4, "seconds": 1.05, "cpu_s": 1, "rss_mib": 90, "bytes": 1050,
              "after_s": 3}]

    def test_each_epoch_is_against_the_one_of_its_round(self):
        more = run_watching.against_none(self.LINES, "light", "rad monitor 1 s")
        self.assertEqual([round(m, 6) for m in more], [0.01, 0.0])

    def test_a_part_of_an_epoch_is_against_that_part(self):
        self.assertAlmostEqual(run_watching.against_none(self.LINES, "light", "pytorch")[0], 1.05 / (2.1 / 4) - 1)

    def test_the_table(self):
        rows = {r["tool"]: r for r in run_watching.summary(self.LINES, "light")}
        self.assertAlmostEqual(rows["rad monitor 1 s"]["more"], 0.005)
        self.assertEqual((rows["rad monitor 1 s"]["tool_cpu"], rows["none"]["tool_cpu"]), (0.005, None))
        self.assertEqual((rows["rad monitor 1 s"]["bytes_h"], rows["pytorch"]["bytes_h"]), (1200000, 3600000))
        text = run_watching.tables(self.LINES)
        self.assertIn("| rad monitor 1 s | 2 | 2.110 | +0.50% | 0.50% |", text)
        self.assertIn("| none | 2 | 2.100 | – | – | 0.50 | 10 | – | – | – | – |", text)
        xml.dom.minidom.parseString(run_watching.picture(self.LINES))

    def test_it_runs_and_goes_on(self):
        with tempfile.TemporaryDirectory() as folder:
            out = pathlib.Path(folder)
            tool = out / "rad"  # writes its lines until it is told to end
            tool.write_text("#!/bin/sh\ntrap 'exit 0' INT\nshift 6\nprintf 'time,gpu\\nx,0\\n' >\"$1\"\nwhile :; do sleep 0.05; done\n")
            tool.chmod(0o755)
            for rounds in (1, 2):
                done = subprocess.run([sys.executable, HERE / "run_watching.py", "--sim", "--out", out / "r", "--bin", out, "--rounds",
                                       str(rounds), "--epoch-s", "0.05"], capture_output=True, text=True, timeout=60)
                self.assertEqual(done.returncode, 0, done.stderr)
                lines = run_watching.kept(out / "r" / "watching.jsonl")
                for kind in run_watching.KINDS:
                    of = [line for line in lines if line.get("kind") == kind and line.get("tool") == "rad monitor 1 s"]
                    self.assertEqual([line["round"] for line in of], list(range(rounds)))
                    self.assertEqual(of[0]["bytes_h"], 4 * 3600)
            with tarfile.open(out / "r" / "watching.tar.gz") as tar:
                self.assertLess({"watching.jsonl", "watching.md", "watching.svg"}, set(tar.getnames()))
            (out / "r" / "watching.tar.gz").unlink()
            subprocess.run([sys.executable, HERE / "run_watching.py", "--out", out / "r", "--table"], check=True, timeout=60)
            self.assertFalse((out / "r" / "watching.tar.gz").exists())


class MetricsStudy(unittest.TestCase):
    class Gpu:
        def driver(self):
            return "580"

        def utilization(self):
            return 1.0

        def activity(self):
            return {"gract": 0.99, "smact": 0.5, "smocc": None}

    def test_points_and_what_is_made_of_them(self):
        with tempfile.TemporaryDirectory() as folder, mock.patch.multiple(run_metrics, RAMP_S=0, WINDOW_S=0, REST_S=0):
            out = pathlib.Path(folder)
            program = out / "program"
            program.write_text("#!/bin/sh\necho 4 2 A GPU\nwhile read line; do echo 3 0.1; done\n")
            program.chmod(0o755)
            args = argparse.Namespace(out=out, program=program)
            run_metrics.run(args, self.Gpu(), time.monotonic() - 1)  # no time: nothing is measured
            self.assertEqual(run_metrics.points(run_metrics.kept(out / "metrics.jsonl")), [])
            run_metrics.run(args, self.Gpu(), time.monotonic() + 60)
            run_metrics.run(args, self.Gpu(), time.monotonic() + 60)  # nothing is done twice
            lines = run_metrics.kept(out / "metrics.jsonl")
            self.assertEqual([(p["kind"], p["blocks"], p["threads"]) for p in run_metrics.points(lines)], run_metrics.plan(4, 2))
            run_metrics.draw(out)
            self.assertIn("| 8 | 1024 | 100.0 | 99.0 | 50.0 | – |", (out / "metrics.md").read_text())
            xml.dom.minidom.parse(str(out / "metrics.svg"))

    def test_the_plan_goes_from_one_thread_to_all(self):
        points = run_metrics.plan(132, 32)
        self.assertEqual((points[0], points[35]), (("long", 1, 1), ("long", 132 * 32, 1024)))
        self.assertLess(len(points) * (run_metrics.RAMP_S + run_metrics.WINDOW_S + run_metrics.REST_S), 50)


class Metrics(unittest.TestCase):
    def test_of_two_tasks(self):
        tasks = [task("a", 2, 12, 0, 10), task("b", 2, 21, 10, 9, ("oom", "ok"))]
        samples = [sample(0, 0, 0.9), sample(4, 400, 0.2), sample(20, 2000, 0.4), sample(24, 2400, 0.9), {"t": 0, "error": "x"}]
        got = run_policies.metrics(tasks, samples)
        self.assertEqual(got["trace_total_s"], 19)
        self.assertEqual((got["avg_wait_s"], got["avg_exec_s"], got["avg_jct_s"]), (5, 9.5, 14.5))
        self.assertAlmostEqual(got["mean_smact"], 0.3)  # only what lies between the first submission and the last end
        self.assertAlmostEqual(got["energy_j"], 1900)   # 2 s to 21 s, between samples
        self.assertEqual((got["oom"], got["attempts"], got["completed"]), (1, 3, 2))

    def test_unknown_is_not_zero(self):
        got = run_policies.metrics([task("a", 2, 12, 0, 10)], [{**sample(5, 1, 0.5), "smact": None, "energy_j": None}])
        self.assertIsNone(got["mean_smact"])
        self.assertIsNone(got["energy_j"])

    def test_counter_outside_of_its_samples(self):
        self.assertIsNone(run_policies.counter_at([sample(4, 400, 0)], "energy_j", sample(4, 0, 0)["t"]))


class Table(unittest.TestCase):
    def test_change_against_the_first_policy(self):
        metrics = run_policies.metrics([task("a", 0, 20, 0, 20)], [])
        half = run_policies.metrics([task("a", 0, 10, 0, 10)], [])
        text = table.policies_table([{"policy": "exclusive", "metrics": metrics}, {"policy": "mps-rr", "metrics": half},
                                     {"policy": "mps-magm"}])
        self.assertIn("| exclusive | 20.0 | ", text)
        self.assertIn("| mps-rr | 10.0 (-50 %) | ", text)
        self.assertIn("| mps-magm | did not finish | ", text)
        self.assertEqual(len({line.count("|") for line in text.splitlines()}), 1)


class Simulated(unittest.TestCase):
    REAL = [("a", (0,), 0, 10, "ok"), ("b", (0,), 0, 9, "oom"), ("b", (0,), 9, 20, "ok"), ("c", (1,), 0, 20, "ok")]

    def test_gpus_may_have_other_names(self):
        turned = [(name, (1 - g[0],), start + 1, end, verdict) for name, g, start, end, verdict in self.REAL]
        self.assertEqual(simulate_policies.placements(self.REAL, turned), {"same_gpu": 3, "tasks": 3, "start_s": 1.0, "pairs": 1.0})

    def test_other_neighbours(self):
        moved = [("a", (0,), 0, 10, "ok"), ("b", (1,), 0, 20, "ok"), ("c", (1,), 0, 20, "ok")]
        found = simulate_policies.placements(self.REAL, moved)
        self.assertEqual((found["same_gpu"], found["pairs"]), (2, 0.0))

    def test_who_runs_beside_another_gets_a_lane_of_its_own(self):
        self.assertEqual([(lane, s[0]) for lane, s in gantt.lanes(self.REAL, 0)], [(0, "a"), (1, "b"), (1, "b")])

    def test_what_a_run_alone_tells(self):
        one = {**task("a", 0, 30, 2, 30), "gpus_requested": 1}
        one["attempts"] = [{"start": "2026-11-20T10:00:02.000Z", "end": one["end_time"], "gpus": ["GPU-1"], "peak_mib": 900}]
        begin = run_policies.seconds_of(one["attempts"][0]["start"])
        load = [{"t": begin + n, "each": [{"gract": 0, "smact": 0, "power_w": 70}, {"gract": g, "smact": g / 2, "power_w": w}]}
                for n, g, w in ((1, 0.1, 110), (9, 0.5, 200), (12, 0.6, 220), (27.5, 0.0, 120))]
        known = simulate_policies.alone({"gpus_before": {"gpus": [{"uuid": "GPU-0"}, {"uuid": "GPU-1"}]}, "samples": load,
                                         "tasks": [one], "summary": {"a": {"seconds": 22, "first_step_s": 1}}})["a"]
        self.assertEqual((known["solo_s"], known["start_s"], known["mem_mib"]), (28, 7, 900))
        self.assertEqual((round(known["gract"], 3), round(known["watts"])), (0.55, 210))


class Outside(unittest.TestCase):
    def test_a_step_that_differs_or_breaks_is_kept_and_told(self):
        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
            e = run_outside.Experiment.__new__(run_outside.Experiment)
            e.args = argparse.Namespace(out=pathlib.Path(folder))
            self.assertTrue(e.step(lambda: e.check(True, "so")))
            self.assertFalse(e.step(lambda: (e.check(False, "not so"), e.check(True, "so"))))
            self.assertFalse(e.step(lambda: {}["no such key"]))
            lines = [json.loads(line) for line in (e.args.out / "outside.jsonl").read_text().splitlines()]
        self.assertEqual([line["as_expected"] for line in lines], [True, False, False])
        self.assertEqual(lines[1]["findings"], ["NOT SO: not so", "so"])
        self.assertIn("KeyError", lines[2]["error"])


class First(unittest.TestCase):
    """run_first.py: what is done when, and what is made of it."""
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.out = pathlib.Path(folder.name)

    def args(self, *words):
        return run_first.parse_args(["--bin", "/nowhere", "--out", str(self.out), "--sim", "--tasks", "vit-b32,resnet26-c64", *words])

    def result(self, name, ends, gpu="GPU-0", **more):
        """Of a run in which each task is submitted at 0 and starts where the one before ended, if `gpu` is the same for all."""
        tasks, start = [], 0
        for n, (task_name, end) in enumerate(zip(("vit-b32", "resnet26-c64"), ends)):
            one = {**task(task_name, 0, end, start, end - start), "gpus_requested": 1}
            one["attempts"] = [{"start": f"2026-11-20T10:00:{start:06.3f}Z", "end": one["end_time"], "gpus": [gpu], "peak_mib": 900,
                                "verdict": "ok"}]
            tasks.append(one)
            start = end if name == "exclusive" else 0
        samples = [{**sample(t, 100 * t, 0.5), "gract": 0.6} for t in range(0, int(max(ends)) + 1)]
        result = {"policy": name, "tasks": tasks, "samples": samples, "summary": {"vit-b32": {"seconds": 6, "first_step_s": 1}},
                  "gpus_before": {"gpus": [{"uuid": "GPU-0", "name": "NVIDIA H200"}]}, **run_first.settings_of(self.args()), **more}
        return {**result, "metrics": run_policies.metrics(tasks, samples)}

    def test_the_tasks_are_none_of_mix(self):
        models = [words[words.index("--model") + 1] for words in (t.args.split() for t in run_first.TASKS)]
        self.assertFalse(set(models) & {t.args.split()[1] for t in mix.TASKS})
        self.assertEqual((len(set(models)), len({t.name for t in run_first.TASKS})), (len(models), len(models)))
        for t in run_first.TASKS:
            Workloads.accepts(self, [*t.args.split(), "--steps", str(t.steps)])

    def test_shipped_settings_are_judged(self):
        self.assertEqual([run_first.RUNS[n].settings for n in ("nothing", "first", "second")], [""] * 3)
        self.assertEqual([n for n, run in run_first.RUNS.items() if run.brings == run_first.CAPTURE],
                         ["first", "first-3", "second", "known", "magm-first", "magm-second", "magm-known"])

    def test_scripts_of_others_as_tasks(self):
        part = self.out / "part"
        part.mkdir()
        lines = [{"name": "a", "cwd": "src", "command": ["python", "a.py"], "env": {"HF_HOME": "{here}/hf"},
                  "whole": ["python", "a.py", "-n", "9"]},
                 {"name": "b", "cwd": "src", "command": ["python", "b.py"], "env": {}}]
        (part / "list.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        def args_of(*words):
            return run_first.parse_args(["--bin", "/nowhere", "--out", str(self.out), "--scripts", str(part), *words])
        args = args_of("--runs", "exclusive,first,auto")
        script, = args.tasks  # b has no end of its own
        self.assertEqual(run_first.command(args, script), ["env", f"HF_HOME={part}/hf", sys.executable, "a.py", "-n", "9"])
        self.assertEqual(run_first.settings_of(args)["commands"], {"a": "python a.py -n 9"})
        folder = ["--chdir", part / "src"]
        gpus = [{"mem_available_mib": 40000}, {"mem_available_mib": 41000}]

        def said(run):
            return run_first.options_of(args, run_first.RUNS[run], gpus)(script)
        self.assertEqual(said("exclusive"), folder)
        self.assertEqual(said("auto"), [*folder, "--capture=auto"])
        self.assertEqual(said("places-4"), [*folder, "--gpu-mem", "10000M"])
        (self.out / "captures").mkdir()
        (self.out / "captures" / "a.radcap").touch()
        self.assertEqual(said("first"), [*folder, "--capture", self.out / "captures" / "a.radcap"])
        with contextlib.redirect_stderr(io.StringIO()) as told, self.assertRaises(SystemExit):
            args_of("--runs", "memory")
        self.assertIn("no memory is known beforehand", told.getvalue())

    def test_each_run_finds_the_sources_as_they_were(self):
        part = self.out / "part"
        (part / "src" / "a").mkdir(parents=True)
        (part / "src" / "a" / "train.py").write_text("first")
        (part / "src" / "a" / "data").symlink_to("../../data")
        scripts.restore([part])
        for _ in range(2):
            (part / "src" / "a" / "train.py").write_text("changed")
            (part / "src" / "a" / "weights.pt").touch()
            scripts.restore([part])
            self.assertEqual(sorted(p.name for p in (part / "src" / "a").iterdir()), ["data", "train.py"])
            self.assertEqual((part / "src" / "a" / "train.py").read_text(), "first")
            self.assertTrue((part / "src" / "a" / "data").is_symlink())

    def test_what_is_there_is_not_done_again(self):
        self.assertEqual(run_first.missing(self.args(), {}), ["exclusive", "nothing", "first", "second"])
        found = {"exclusive": self.result("exclusive", (10, 20)), "first": self.result("first", (10, 12))}
        found["first"]["metrics"]["completed"] = 1
        self.assertEqual(run_first.missing(self.args(), found), ["nothing", "first", "second"])
        found["first"]["metrics"]["completed"] = 2
        self.assertEqual(run_first.missing(self.args("--runs", "first,second"), found), ["first", "second"])  # its state is lost
        run_first.state_file(self.args(), "first").touch()
        self.assertEqual(run_first.missing(self.args("--runs", "first,second"), found), ["second"])

    def test_a_run_after_one_that_failed(self):
        with contextlib.redirect_stdout(io.StringIO()):
            result = run_first.measure(self.args(), "second", 5)
        self.assertIn("first did not end well", result["error"])
        self.assertFalse(run_first.complete(result))

    def test_results_of_other_settings_are_refused(self):
        common.save(self.out / "run-exclusive.json", self.result("exclusive", (10, 20)))
        self.assertEqual(list(run_first.results_of(self.args())), ["exclusive"])
        with self.assertRaisesRegex(SystemExit, "with another scale"):
            run_first.results_of(self.args("--scale", "2"))

    def test_the_time_in_which_nobody_trains(self):
        self.assertEqual(run_first.untrained_s(self.result("exclusive", (10, 20))), 5)  # the first of ten trains for five
        self.assertEqual(run_first.untrained_s(self.result("first", (10, 12))), 0)     # the other one does from 0 on
        self.assertEqual(run_first.covered([(11, 13), (2, 12), (5, 10)]), 11)

    def test_the_share_of_the_bound(self):
        self.assertAlmostEqual(run_first.of_possible(20, 14, 10), 0.6)
        self.assertIsNone(run_first.of_possible(10, 10, 10))
        found = {"exclusive": self.result("exclusive", (10, 20)), "first": self.result("first", (10, 14))}
        text = run_first.runs_table(found, 10)
        self.assertIn("| as shipped, captures | 14.0 | 30 % | 60 % | 0.0 |", text)
        self.assertEqual(len({line.count("|") for line in text.splitlines()}), 1)
        self.assertIn("| vit-b32 | 2.5 | 5.0 | 5.0 | 900 | 0.60 | 0.50 | 10.0 | 10.0 |",
                      run_first.tasks_table(found, {"each": {"vit-b32": {"seconds": 2.5}}}))

    def test_captures_are_made_once_and_errors_told(self):
        rad = self.out / "rad"  # capture --no-cache --timeout S --gpus N -o FILE -- COMMAND
        rad.write_text("#!/bin/sh\n[ \"${10}\" = good ] && echo made for $6 >>\"$8\" || { echo no good; exit 4; }\n")
        rad.chmod(0o755)
        for n in range(2):
            with contextlib.redirect_stdout(io.StringIO()):
                made = captures.make(rad, self.out / "c", {"a": ["good"], "b": ["bad"]}, dict(os.environ), 2, 60, gpus={"a": 2})
            self.assertEqual({name: m.get("error") for name, m in made.items()}, {"b": "no good"} if n else {"a": None, "b": "no good"})
        self.assertEqual((self.out / "c" / "a.radcap").read_text(), "made for 2\n")
        late = captures.make(rad, self.out / "d", {"a": ["good"]}, dict(os.environ), 2, 0)
        self.assertEqual(late, {"a": {"seconds": 0, "error": "not begun in time"}})

    @unittest.skipUnless(BUILD, "RAD_BUILD_ROOT is not set")
    def test_it_runs_and_goes_on(self):
        command = [sys.executable, HERE / "run_first.py", "--sim", "--bin", BUILD, "--out", self.out, "--scale", "0.5", "--gpus", "2",
                   "--tasks", "vit-b32,resnet26-c64"]
        for runs in ("exclusive,first", "first,second"):
            done = subprocess.run([*command, "--runs", runs], capture_output=True, text=True, timeout=100)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("to measure: second\n", done.stdout)
        for name in ("exclusive", "first", "second"):
            result = json.loads((self.out / f"run-{name}.json").read_text())
            self.assertEqual((result["metrics"]["completed"], result["names"]), (2, ["vit-b32", "resnet26-c64"]))
            self.assertIn(f"| {run_first.RUNS[name].title} |", done.stdout)
        self.assertEqual([t["id"] for t in result["tasks"]], ["3", "4"])  # in the state that the first run left
        xml.dom.minidom.parse(str(self.out / "first.svg"))


class Cores(unittest.TestCase):
    """run_cores.py: eight tasks on few cores."""
    def setUp(self):
        self.dir = tempfile.TemporaryDirectory(prefix="rad-test-")
        self.out = pathlib.Path(self.dir.name) / "cores.jsonl"

    def tearDown(self):
        self.dir.cleanup()

    def test_eight_tasks_of_the_mix(self):
        args = run_cores.parse_args(["--bin", "/nowhere", "--out", str(self.out)])
        self.assertEqual([t.name for t in args.tasks], list(run_cores.NAMES))
        self.assertEqual((len(args.tasks), args.cores, args.max_cpu), (8, [2, 4, 8], ["off", "1"]))

    def test_cores_are_given_back(self):
        ours = os.sched_getaffinity(0)
        with run_cores.on_cores(1):
            self.assertEqual(len(os.sched_getaffinity(0)), 1)
        self.assertEqual(os.sched_getaffinity(0), ours)

    @unittest.skipUnless(BUILD, "RAD_BUILD_ROOT is not set")
    def test_it_runs_and_goes_on(self):
        command = [sys.executable, HERE / "run_cores.py", "--sim", "--bin", BUILD, "--out", self.out, "--scale", "0.02", "--cores", "1"]
        for max_cpu in ("off", "off,1"):
            done = subprocess.run([*command, "--max-cpu", max_cpu], capture_output=True, text=True, timeout=100)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        rows = [json.loads(line) for line in self.out.read_text().splitlines()]
        self.assertEqual([(r["cores"], r["max_cpu"], r["completed"], r["host"]["cores"]) for r in rows],
                         [(1, "off", 8, None), (1, "1", 8, 1)])


@unittest.skipUnless(BUILD, "RAD_BUILD_ROOT is not set")
class Sweep(unittest.TestCase):
    """run_sweep.py: like tasks after one of them alone."""
    def test_each_order_is_a_line_with_every_end(self):
        with tempfile.TemporaryDirectory() as folder:
            out = pathlib.Path(folder) / "sweep.jsonl"
            done = subprocess.run([sys.executable, HERE / "run_sweep.py", "--sim", "--bin", BUILD, "--out", out, "--scale", "0.1",
                                   "--count", "2", "--look", "0"], capture_output=True, text=True, timeout=120)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            rows = [json.loads(line) for line in out.read_text().splitlines()]
        self.assertEqual([r["order"] for r in rows], ["plan", "backfill"])
        for r in rows:
            self.assertEqual((r["completed"], len(r["ends_s"]), len(r["why"])), (2, 2, 2))
            self.assertLessEqual(0.9, r["alone_s"])
            self.assertLessEqual(r["alone_s"], r["ends_s"][-1] + 0.5)


class Trace(unittest.TestCase):
    """run_trace.py on a trace and workloads of its own."""
    COLUMNS = "workload,model,dataset,batch_size,gpus,solo_s_a100,mem_mib_2025,h200_steps_per_s,a100_gract,a100_smact"
    WORKLOADS = ("heavy,vgg16,imagenet,64,1,800,9000,20,0.8,0.7", "tiny,efficientnet_b0,cifar100,32,1,600,700,30,0.3,0.1",
                 "wide,gpt2_large,wiki,8,2,900,20000,3,0.9,0.8", "odd,maskrcnn,coco,8,1,900,20000,,0.9,0.8")
    TRACE = ("0,wide", "100,odd", "200,heavy", "400,tiny", "600,heavy")

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.out = pathlib.Path(folder.name)
        (self.out / "w.csv").write_text("\n".join([self.COLUMNS, *self.WORKLOADS]) + "\n")
        (self.out / "t.csv").write_text("\n".join(["submit_s,workload", *self.TRACE]) + "\n")
        for name in ("vgg_32", "vgg_128", "vgg_64", "efficientnet_32", "efficientNet_cifar100"):
            (self.out / f"{name}.model").touch()

    def words(self, *more):
        return [str(w) for w in ("--bin", BUILD or "/nowhere", "--trace", self.out / "t.csv", "--workloads", self.out / "w.csv", "--out",
                                 self.out / "o", "--sim", "--scale", "200", *more)]

    def trace(self, *more):
        with mock.patch.object(sys, "argv", ["run_trace.py", *self.words("--estimators", "none", *more)]):
            args = run_trace.parse_args()
        with contextlib.redirect_stdout(io.StringIO()) as said:
            return args, run_trace.read_trace(args), said.getvalue()

    def test_what_cannot_run_here_is_left_out(self):
        _, trace, said = self.trace("--tasks", "2")
        self.assertEqual([(at, name) for at, name, _ in trace], [(0, "00-heavy"), (1, "01-tiny")])
        self.assertIn("nothing like them: odd\n", said)
        self.assertIn("more GPUs than 1: wide\n", said)
        self.assertEqual([name for _, name, _ in self.trace("--gpus", "2")[1]], ["00-wide", "01-heavy", "02-tiny", "03-heavy"])

    def test_sizes_and_summaries_are_those_of_the_dataset(self):
        args, trace, _ = self.trace("--summaries", os.path.relpath(self.out))
        sizes = [words[words.index("--image-size") + 1] for words in (run_trace.words_of(w, 200) for _, _, w in trace[:2])]
        self.assertEqual(sizes, [224, 32])
        found = [run_trace.options_of(args, "gpumemnet", w)[3] for _, _, w in trace[:2]]
        self.assertEqual([f.name for f in found], ["vgg_64.model", "efficientNet_cifar100.model"])
        self.assertTrue(all(f.is_absolute() for f in found))
        self.assertEqual(run_trace.options_of(args, "none", trace[0][2]), ["--gpus", "1"])

    def test_a_gpu_is_small_for_all_who_may_share_it(self):
        args, _, _ = self.trace()
        args.sim = False
        with common.Workspace() as ws, mock.patch.object(run_trace.subprocess, "Popen", side_effect=RuntimeError("held")):
            with run_trace.holders(args, ws, "exclusive"):
                pass
            with self.assertRaisesRegex(RuntimeError, "held"), run_trace.holders(args, ws, "none"):
                pass

    @unittest.skipUnless(BUILD, "RAD_BUILD_ROOT is not set")
    def test_it_runs_and_goes_on(self):
        for estimators in ("exclusive", "exclusive,replay,shipped-replay"):
            done = subprocess.run([sys.executable, HERE / "run_trace.py",
                                   *self.words("--estimators", estimators, "--tasks", "2", "--scale", "500")],
                                  capture_output=True, text=True, timeout=100)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("to measure: replay, shipped-replay\n", done.stdout)
        self.assertRegex(done.stdout, r"replay: \d+ s \(.*%\), 0 OOM, 2/2 completed")
        found = {}
        for name in ("exclusive", "replay", "shipped-replay"):
            self.assertRegex(done.stdout, rf"\| {re.escape(table.ESTIMATORS[name])} \| .* \| 2/2 \|")
            found[name] = json.loads((self.out / "o" / f"trace-{name}.json").read_text())
        for name in ("replay", "shipped-replay"):
            self.assertEqual([t["attempts"][0]["claim_mib"] for t in found[name]["tasks"]], [9000, 700])
        self.assertNotIn("placement", found["shipped-replay"]["config"])
        self.assertEqual((self.out / "o" / "trace.svg").read_text().count("<title>tiny: "), 3)


class Output(unittest.TestCase):
    TEXT = ("resnet50: 25.6 M parameters, batch 32\nstep 1/150  2.5 s  loss 7.100  0.40 steps/s  900 MiB reserved\n"
            "step 10  3.0 s  loss 6.900  18.00 steps/s\n{broken\n{\"steps\": 10}\nterminated\n")

    def test_progress_lines(self):
        self.assertEqual(common.progress(self.TEXT), [(1, 0.4), (10, 18.0)])

    def test_summary_line(self):
        self.assertEqual(common.last_json(self.TEXT), {"steps": 10})
        self.assertIsNone(common.last_json("no summary"))


class Workloads(unittest.TestCase):
    def accepts(self, words):
        """Whether train.py takes them; `self` may be any test."""
        with mock.patch.object(sys, "argv", ["train.py", *words]), contextlib.redirect_stderr(io.StringIO()) as err:
            try:
                return train.parse_args()
            except SystemExit:
                self.fail(f"train.py refuses {' '.join(words)}: {err.getvalue()}")

    def test_mix(self):
        self.assertEqual(len({t.name for t in mix.TASKS}), len(mix.TASKS))
        self.assertLessEqual(set(mix.QUICK), {t.name for t in mix.TASKS})
        for t in mix.TASKS:
            self.accepts([*t.args.split(), "--steps", str(t.steps)])

    def test_workers_of_the_mixes(self):
        for copies, args in ((mix_plan.COPIES, mix_plan.ARGS), (mix_plan.CPU_COPIES, mix_plan.CPU_ARGS)):
            for name in copies:
                self.accepts(args[name].split())

    def test_workloads_of_the_trace(self):
        for name, model in {**{n: n for n in run_trace.MODELS}, "vgg3": "vgg16"}.items():
            workload = {"workload": name, "model": model, "dataset": "imagenet", "gpus": "2", "batch_size": "8", "h200_steps_per_s": "20",
                        "solo_s_a100": "900"}
            words = [str(w) for w in run_trace.words_of(workload, 300)]
            self.accepts(words)
            self.assertEqual((words[words.index("--steps") + 1], words[words.index("--batch-size") + 1]), ("60", "4"))

    def test_task_files(self):
        commands = 0
        for folder in ("workloads", "examples"):
            for path in (HERE.parents[1] / folder).iterdir():
                text = path.read_text().replace("\\\n", " ") if path.suffix in (".rad", ".sh") else ""
                for words in re.findall(r"^python3 \S*train\.py (.*)$", text, re.M):
                    self.accepts(words.replace('"${rates[$RAD_ARRAY_TASK_ID]}"', "0.1").split())
                    commands += 1
        self.assertGreaterEqual(commands, 8)

    def test_endless_training_is_refused(self):
        with mock.patch.object(sys, "argv", ["train.py", "--model", "mlp", "--steps", "0"]), self.assertRaises(SystemExit), \
                contextlib.redirect_stderr(io.StringIO()):
            train.parse_args()


class Promises(unittest.TestCase):
    def run_step(self, function, deadline):
        with contextlib.redirect_stdout(io.StringIO()):
            return run_faults.run_step("x", function, deadline, argparse.Namespace(gpu=0))

    def test_a_hanging_step_is_cut_and_keeps_what_it_knew(self):
        def hang(step):
            step.note("so far")
            step.keep(pid=subprocess.Popen(["sleep", "600"], env=step.ws.env).pid)
            time.sleep(600)
        result = self.run_step(hang, 1)
        common.wait_for("its process to be gone", 10, lambda: not os.path.exists(f"/proc/{result['raw']['pid']}/exe"))
        self.assertEqual(result["outcome"], "not within 1 s")
        self.assertEqual(result["findings"], ["so far"])

    def test_a_failing_step_says_why(self):
        def fail(step):
            raise RuntimeError("the reason")
        result = self.run_step(fail, 10)
        self.assertEqual(result["outcome"], "failed")
        self.assertIn("the reason", result["error"])

    def test_a_false_check_is_told(self):
        result = self.run_step(lambda step: step.check(False, "all is well"), 10)
        self.assertEqual((result["outcome"], result["findings"]), ("differs", ["NOT SO: all is well"]))

    def test_nothing_is_begun_that_cannot_end(self):
        done, said = [], io.StringIO()

        def measure(name, left_s):
            done.append((name, round(left_s)))
            time.sleep(0.3 if name == "b" else 0)
            return name != "a"
        with contextlib.redirect_stdout(said):
            self.assertEqual(common.in_turn("abc", 0.5, measure), 2)
            self.assertEqual(common.in_turn("d", 10, measure, 11), 1)
        self.assertEqual(done, [("a", 0), ("b", 0)])
        self.assertIn("c: left out, 0 s are left", said.getvalue())
        self.assertIn("d: left out, 10 s are left", said.getvalue())

    def test_a_workspace_ends_what_it_started_even_if_it_does_not_listen(self):
        with mock.patch.object(common.Workspace, "PATIENCE_S", 1), contextlib.redirect_stdout(io.StringIO()):
            with common.Workspace() as ws:
                deaf = subprocess.Popen(["bash", "-c", 'trap "" TERM; echo deaf; while :; do sleep 1; done'], env=ws.env,
                                        start_new_session=True, stdout=subprocess.PIPE)
                self.addCleanup(deaf.stdout.close)
                self.assertEqual(deaf.stdout.readline(), b"deaf\n")
                self.assertIn(deaf.pid, ws.processes())
        self.assertEqual(deaf.wait(5), -9)
        self.assertFalse(ws.dir.exists())
        self.assertNotIn(os.getpid(), ws.processes())


class Clock(unittest.TestCase):
    def test_steps_by(self):
        done = [1.0, 2.0, 4.0]
        self.assertEqual([mix_worker.steps_by(done, t) for t in (0, 0.5, 1, 3, 4, 9)], [0, 0.5, 1, 2.5, 3, 3])
        self.assertEqual(mix_worker.steps_by([], 1), 0)

    def test_the_rate_is_that_of_the_window(self):
        """The last step ends long after the window, the first one during the ramp."""
        clock = mock.Mock(times=lambda: [0.15, 0.3, 1.3, 2.3, 3.3, 9.3])
        said = mix_worker.train_for(lambda: None, clock, 0, 4.3)
        self.assertAlmostEqual(said["steps_s"], (5 + 1 / 6 - 2) / 4)
        self.assertEqual(said["host_s"], [])

    def test_the_host_and_its_first_steps(self):
        clock = mix_worker.HostClock()
        said = mix_worker.train_for(lambda: sum(range(20000)), clock, 0, time.monotonic() + 0.2, 0.1)
        self.assertEqual(len(said["host_s"]), mix_worker.FIRST_STEPS)
        self.assertTrue(0 < said["cpu"] < 1.5)


class Plan(unittest.TestCase):
    def test_mixes(self):
        copies = mix_plan.COPIES
        mixes = mix_plan.plan(copies, 200, 1)
        self.assertEqual(mixes, mix_plan.plan(copies, 200, 1))
        self.assertNotEqual(mixes, mix_plan.plan(copies, 200, 2))
        self.assertEqual((len(mixes), len({tuple(m) for m in mixes})), (200, 200))
        self.assertIn(["resnet18-c128"] * 4, mixes)
        for size in {*mix_plan.SIZES, *mix_plan.CROWDS}:
            self.assertGreaterEqual(sum(len(m) == size for m in mixes), 15)
        for m in mixes:
            self.assertTrue(all(m.count(name) <= copies[name] for name in m))
        self.assertGreaterEqual(sum(len(m) >= 4 and set(m) <= set(mix_plan.TINY) for m in mixes), 60)

    def test_few_workers_have_few_mixes(self):
        self.assertCountEqual(mix_plan.plan({"a": 2, "b": 1}, 50, 1), [["a", "a"], ["a", "b"], ["a", "a", "b"]])

    def test_what_a_gpu_cannot_hold_is_left_out(self):
        self.assertEqual(mix_plan.fitting(mix_plan.COPIES, 1 << 20), mix_plan.COPIES)
        few = mix_plan.fitting(mix_plan.COPIES, 40000)
        self.assertLessEqual(sum(n * mix_plan.MEM_MIB.get(name, mix_plan.SMALL_MIB) for name, n in few.items()), 40000)
        self.assertTrue(all(0 < n <= mix_plan.COPIES[name] for name, n in few.items()))
        self.assertEqual(mix_plan.fitting({"a": 3}, 100), {})

    def test_the_schedule_is_whole_and_halved_in_advance(self):
        whole = mix_plan.schedule(mix_plan.COPIES, 100, 6, 1)
        parts = [mix_plan.schedule(mix_plan.COPIES, 100, 6, 1, n, 2) for n in (0, 1)]
        self.assertEqual([m["mix"] for m in whole], list(range(130)))
        self.assertEqual(sorted(m["mix"] for part in parts for m in part), list(range(130)))
        for part in parts:
            self.assertEqual({m["split"] for m in part}, {"fit", "score"})
            for k in {m["chain"] for m in part} - {None}:
                spans = [m for m in part if m["chain"] == k]
                self.assertEqual([(m["span"], len(m["members"])) for m in spans], [(0, 2), (1, 3), (2, 4), (3, 3), (4, 2)])
                self.assertEqual(len({m["split"] for m in spans}), 1)
                first = part.index(spans[0])
                self.assertEqual(part[first:first + 5], spans)
        fit = sum(m["split"] == "fit" for m in whole)
        self.assertLess(abs(2 * fit - len(whole)), 8)
        self.assertEqual(mix_plan.schedule({"a": 2}, 9, 3, 1), [{"mix": 0, "members": ["a", "a"], "split": "fit", "chain": None,
                                                                "span": None}])

    def test_few_cores_come_behind_the_large_mixes(self):
        mixes = [{"members": ["a"] * n} for n in (2, 4, 6, 3, 8, 8)]
        order = [(len(m["members"]), cores) for m, cores in run_mixes.in_order(mixes, (2, 4))]
        self.assertEqual(order, [(2, None), (4, None), (4, 2), (4, 4), (6, None), (6, 2), (6, 4), (3, None), (8, None), (8, 2),
                                 (8, 4), (8, None)])
        self.assertEqual([cores for _, cores in run_mixes.in_order(mixes, ())], [None] * 6)


@unittest.skipUnless(fit_summary, "numpy or scipy is missing")
class WhatRolesCost(unittest.TestCase):
    def test_the_header_goes_there_and_back(self):
        text = fit_summary.HEADER.read_text()
        roles, values = fit_summary.read_header(text)
        self.assertEqual((roles[0], roles[-1], values.shape[1:]), ("ROLE_CONV", "ROLE_STEP", (2, 3)))
        self.assertEqual(fit_summary.write_header(text, roles, values), text)
        self.assertIn("[ROLE_STEP] = { { 9.3, ", fit_summary.write_header(text, ["ROLE_STEP"], [[[9.26, 1, 2], [3, 4, 5]]]))

    def test_what_a_role_costs_is_found_again(self):
        true = numpy.array([3.0, 0.5, 7.0, 2.0])
        times = numpy.random.default_rng(1).integers(0, 30, (40, 4)).astype(float)
        times[:, 3] = 0
        found = fit_summary.fit(times, times @ true, numpy.array([1.0, 1.0, 1.0, 4.0]), 1e-6)
        numpy.testing.assert_allclose(found, [3, 0.5, 7, 4], rtol=1e-3)  # of the last no task has any: it stays
        self.assertTrue((fit_summary.fit(times, times @ numpy.array([3, 0, 7, 0]), numpy.ones(4), 0.1) >= 0).all())
        drawn = fit_summary.fit(times, times @ true, numpy.ones(4), 1e6)
        numpy.testing.assert_allclose(drawn, 1, rtol=1e-3)


class AnotherGpu(unittest.TestCase):
    """Tasks of which the host was twice as slow as predicted, on a GPU that was predicted exactly."""
    machine = {"machine": {"gpu": "NVIDIA H100", "driver": "1", "torch": "2"}, "gpu_index": 0, "cores": 8, "cpu": "some", "launch_us": 5}

    @staticmethod
    def rows(families="abcdefg", busy_s=0.001):
        load = {"step_s": 0.010, "host_s": 0.010, "busy_s": busy_s, "gract": 0.1, "smact": 0.1, "dram": 0.1, "watts": 100,
                "step_spread": 0.2, "gract_sd": 0.1, "smact_sd": 0.1, "dram_sd": 0.1}
        line = {"step_s": 0.020, "gract": 0.05, "smact": 0.25, "dram": 0.1, "watts": 100}
        return [{"name": f, "family": f, "load": load, "errors": score_solo.errors(line, load), "gract": 0.05, "smact": 0.25,
                 "step_s": 0.020, "host_s": 0.020, "process": 0} for f in families]

    def test_the_page_says_what_was_asked_for(self):
        text = score_solo.page(self.rows(), ["x"], [self.machine])
        self.assertIn("7 tasks of 7 families; 1 more have no capture", text)
        self.assertIn("| all | step | 7 | 0.500 (missed: 0.2) | 0.500 (met: 0.6) | -0.500 | 0.0 |", text)
        self.assertIn("| all | smact | 7 | 0.150 (missed: 0.12) | 0.150 | -0.150 | 0.0 |", text)
        self.assertIn("| a | 1 | 0.500 | -0.500 | 0.150 |", text)

    def test_other_families_tell_the_pace_of_a_host(self):
        self.assertEqual([round(r["errors"]["step"], 6) for r in score_solo.paced(self.rows())], [0] * 7)
        self.assertEqual(score_solo.paced(self.rows("aaaaaaa")), [])
        self.assertEqual(score_solo.paced(self.rows("abcde")), [])  # four others are too few
        self.assertEqual(score_solo.paced(self.rows(busy_s=0.02)), [])  # where the GPU decides nothing is told of the host

    def test_a_machine_learns_from_those_before(self):
        rows = self.rows("abcdefghij")
        self.assertAlmostEqual(score_pace.told(rows[0]), 0.693147, 4)  # twice as slow
        fast = [score_pace.told(rows[0] | {"gract": gract}) for gract in (0.8, 0.9)]
        self.assertEqual(fast[0], fast[1])  # where the GPU decides, the most that the pace can be
        self.assertIsNone(score_pace.told(rows[0] | {"load": rows[0]["load"] | {"gract": 0.9}}))
        said = score_pace.sequence(rows)
        self.assertAlmostEqual(said[0]["errors"]["step"], -0.5)  # nothing is known yet
        for n, of in enumerate(said):
            self.assertAlmostEqual(of["pace"], 2 ** (n / (n + 5)), 5)
        self.assertLess(abs(said[9]["errors"]["step"]), 0.22)
        self.assertEqual({s["pace"] for s in score_pace.sequence(rows, learns=False)}, {1})
        found, drawn = score_pace.table(rows)
        self.assertEqual([row[2] for row in found if row[0] == "step"], [10, 10, 200])
        self.assertEqual([row[:2] for row in score_pace.by_seen(drawn)], [("0", 20), ("1 to 4", 80), ("5 to 9", 100)])

    def test_a_task_without_a_capture_is_named_and_one_without_a_step_is_not(self):
        lines = [self.machine, {"name": "a", "family": "a", "step_s": 1.0, "gpu_index": 0}, {"name": "b", "family": "b", "error": "no"}]
        self.assertEqual(score_solo.scored(lines, "rad", pathlib.Path("/nowhere"), "H100", lambda f: True), ([], ["a"]))


class Guesses(unittest.TestCase):
    """What captures are off by, taken apart and drawn."""
    def row(self, busy, host, active, family="a"):
        gract, smact, step = 0.5, 0.3, 0.01
        b, h = gract * math.exp(busy), score_guesses.other_of(1, gract) * math.exp(host)
        whole = score_guesses.larger(b, h)
        said = {"busy_s": b * step, "host_s": h * step, "step_s": whole * step, "gract": b / whole,
                "smact": b / whole / (1 + math.exp(-score_guesses.logit(smact / gract) - active))}
        return {"family": family, "where": "h100", "process": 0, "said": said, "was": {"gract": gract, "smact": smact, "step_s": step}}

    def test_errors_are_taken_apart(self):
        for key, value in score_guesses.parts(self.row(0.1, -0.2, 0.3)).items():
            self.assertAlmostEqual(value, {"busy": 0.1, "host": -0.2, "active": 0.3}[key])
        slow = score_guesses.seen(self.row(0, -0.4, 0))  # the host is slower than said: all that follows goes one way
        self.assertTrue(slow[0] > 0.1 and slow[1] > 0.05 and slow[2] < -0.2)
        full = {"said": {"gract": 1.0, "smact": 0.8, "busy_s": 1.2, "host_s": 0.1, "step_s": 1.2},
                "was": {"gract": 1.0, "smact": 0.8, "step_s": 1.0}}
        self.assertIsNone(score_guesses.parts(full)["host"])

    def test_what_is_drawn_has_the_stated_parts(self):
        none = dict.fromkeys(("BUSY_KIND", "BUSY", "ACTIVE_KIND", "ACTIVE", "HOST_KIND", "HOST", "PACE", "PACE_SD"), 0)
        self.assertLess(max(map(abs, score_guesses.drawn_now(none)(score_guesses.random.Random(1), 0.5, 0.3))), 1e-9)
        self.assertLessEqual(set(none), set(score_guesses.shipped()))
        of = [score_guesses.drawn_now({**none, "BUSY": 0.2})(score_guesses.random.Random(n), 1, 0.8) for n in range(400)]
        self.assertEqual({round(gract, 9) for gract, _, _ in of}, {0})  # where the GPU is always busy
        self.assertAlmostEqual(score_guesses.statistics.stdev(step for *_, step in of), 0.2, 1)

    def test_a_fitting_distribution_scores_lower(self):
        row = self.row(0, -0.4, 0)
        near, far = ([tuple(e + by * s for e, s in zip(score_guesses.seen(row), score_guesses.SCALE)) for by in shifts]
                     for shifts in ((-1, 0, 1), (4, 5, 6)))
        self.assertLess(score_guesses.energy(row, near), score_guesses.energy(row, far))

    def test_what_a_family_shares(self):
        between, within = score_guesses.between_and_within([[1, 1.2, 0.8], [-1, -1.2, -0.8], [5]])
        self.assertAlmostEqual(within, 0.2)
        self.assertAlmostEqual(between, 1.41, 2)
        chosen, held = score_guesses.halves([self.row(0, 0, 0, f) for f in "cabd"])
        self.assertEqual([[r["family"] for r in rows] for rows in (chosen, held)], [["c", "a"], ["b", "d"]])


class Simulated(unittest.TestCase):
    """Runs of run_first.py, simulated from what was known before them."""
    def test_what_was_known(self):
        known = {name: simulate_runs.known_before(run) for name, run in run_first.RUNS.items()}
        self.assertEqual([known[n] for n in ("first", "second", "known", "memory", "nothing")],
                         [["--loads", "guessed"], ["--loads", "guessed"], ["--loads", "known"], [], ["--estimator", "none"]])

    def test_settings_are_those_of_the_run(self):
        self.assertEqual(simulate_runs.settings("h100/alone", "first-3", {"config": "max_slowdown: 3\n"}), {"max_slowdown": "3"})
        self.assertEqual(simulate_runs.settings("h200/first", "magm-first", {"config": ""}),
                         {"placement": "magm", "order": "fifo", "settle": "30"})

    def test_a_start_that_takes_longer_leaves_the_training_as_long(self):
        made = simulate_runs.with_starts({"a": {"solo_s": 30.0, "start_s": 10.0, "mem_mib": 5}}, {"a": 14.0})
        self.assertEqual(made, {"a": {"solo_s": 34.0, "start_s": 14.0, "mem_mib": 5}})


class Visible(unittest.TestCase):
    """A second witness looks at the GPU that the experiment runs on."""
    def counted(self, left, index):
        with unittest.mock.patch.dict(os.environ, {"CUDA_VISIBLE_DEVICES": left}):
            return nvml.visible(index)

    def test_gpus_are_counted_among_those_that_are_left(self):
        self.assertEqual([self.counted("3,1", n) for n in (0, 1)], [3, 1])
        self.assertEqual([self.counted(left, 2) for left in ("", "GPU-3aa63f4e,GPU-11")], [2, 2])
        with self.assertRaisesRegex(OSError, "leaves 1 GPUs: none has index 1"):
            self.counted("3", 1)


class Metered(unittest.TestCase):
    class Gpu:
        """Half busy, then wholly; a hundred watts, counted every 20 ms."""
        def __init__(self):
            self.begin, self.asked = time.monotonic(), 0

        def energy_j(self):
            return 100 * ((time.monotonic() - self.begin) // 0.02 * 0.02)

        def activity(self):
            self.asked += 1
            return {"gract": 0.5 if self.asked % 2 else 1.0, "dram": None}

    def test_means_and_watts(self):
        seen = meter.Meter(self.Gpu(), [os.getpid()]).watch(time.monotonic() + 1.1)
        self.assertTrue(0.6 < seen["gract"] < 0.9)
        self.assertTrue(0.2 < seen["sd"]["gract"] < 0.3)
        self.assertIsNone(seen["dram"])
        self.assertAlmostEqual(seen["watts"], 100, delta=6)
        self.assertTrue(0.8 < seen["seconds"] < 1.4)
        self.assertTrue(0 <= seen["servers_cpu"] < 1.5)

    def test_what_cannot_be_read_is_unknown(self):
        gpu = mock.Mock(energy_j=lambda: None, activity=lambda: {"gract": None})
        seen = meter.Meter(gpu, [2 ** 30]).watch(time.monotonic() + 0.3)
        self.assertEqual((seen["gract"], seen["watts"], seen["servers_cpu"]), (None, None, None))
        self.assertEqual(meter.Meter(None).watch(0)["servers_cpu"], None)


def fake_serve(connection, words, env):
    """A worker without PyTorch: `words` say how it behaves and how fast it is at first; then it is half as fast."""
    if words[0] == "broken":
        connection.send({"error": "no such model"})
        return
    connection.send({"torch": "0"})
    with contextlib.suppress(EOFError):
        for n in itertools.count():
            told = connection.recv()
            if told == "kernels":
                connection.send({"steps": 2, "copies": 0, "each": [[1.5, 66, 128]]})
                continue
            if words[0] == "dies" and n:
                os._exit(3)
            connection.send({"steps_s": float(words[1]) / (2 if n else 1), "cpu": 0.5, "host_s": [0.1]})


class Mixes(unittest.TestCase):
    def crew(self, copies, args):
        self.lines = []
        crew = run_mixes.Crew(multiprocessing.get_context("forkserver"), "mps", meter.Meter(None), self.lines.append, fake_serve)
        self.addCleanup(self.quietly, crew.end)
        self.quietly(crew.start, copies, args, {}, 10)
        return crew

    def quietly(self, function, *args):
        with contextlib.redirect_stdout(io.StringIO()):
            return function(*args)

    def measure(self, crew, mixes, budget=60):
        args = argparse.Namespace(seconds=1, again=True, kernels=True, narrow=(), part=(0, 1))
        whole = [{"mix": n, "members": m, "split": "fit", "chain": None, "span": None} for n, m in enumerate(mixes)]
        return self.quietly(run_mixes.measure, crew, args, whole, time.monotonic() + budget)

    def test_measurements_in_order(self):
        crew = self.crew({"a": 2, "b": 1}, {"a": "fine 10", "b": "fine 4"})
        self.assertEqual(self.measure(crew, [["a", "b"]]), (1, 1))
        self.assertEqual([(x["alone"], x["again"], x["steps_s"]) for x in self.lines if "alone" in x],
                         [("a", False, 10), ("b", False, 4), ("a", True, 5), ("b", True, 2)])
        mixed, = [x for x in self.lines if "mix" in x]
        self.assertIsNotNone(mixed.pop("loads")["host_cpu"])
        self.assertEqual(mixed, {"mode": "mps", "mix": 0, "members": ["a", "b"], "split": "fit", "chain": None, "span": None,
                                 "solo": [10, 4], "together": [5, 2], "relative": [0.5, 0.5], "cpu": [0.5, 0.5],
                                 "host_s": [[0.1], [0.1]]})
        self.assertEqual([(x["kernels"], x["each"]) for x in self.lines if "kernels" in x],
                         [("a", [[1.5, 66, 128]]), ("b", [[1.5, 66, 128]])])

    def test_what_fails_is_told_and_left_out(self):
        crew = self.crew({"a": 2, "b": 1, "c": 1}, {"a": "fine 10", "b": "broken", "c": "dies 5"})
        self.assertEqual(self.measure(crew, [["a", "c"], ["a", "b"], ["a", "c"], ["a", "a"]]), (4, 1))
        self.assertEqual([(x["failed"], x["why"]) for x in self.lines if "failed" in x],
                         [("b", "no such model"), ("c", "ended with 3")])
        self.assertEqual([x["members"] for x in self.lines if "mix" in x], [["a", "a"]])

    def test_the_budget_holds(self):
        crew = self.crew({"a": 2}, {"a": "fine 10"})
        self.assertEqual(self.measure(crew, [["a", "a"]] * 3, budget=run_mixes.RESERVE_S), (0, 0))
        self.assertEqual(sum("alone" in x for x in self.lines), 2)

    def test_workers_end_when_told(self):
        crew = self.crew({"a": 3}, {"a": "fine 10"})
        self.quietly(crew.end)
        self.assertEqual([w.process.exitcode for w in crew.workers], [0, 0, 0])


def fake_trainer(connection, words, env):
    """A worker of run_collocation.py without PyTorch: a task has the speed that its last word says, the second to be built does not
    fit, and a third dies in its first run."""
    connection.send({"torch": "0"})
    step = None
    with contextlib.suppress(EOFError):
        while True:
            told = connection.recv()
            if told == "drop":
                step = connection.send({})
            elif "build" in told:
                step = float(told["build"][-1])
                connection.send({"failed": "out of memory"} if step < 0 else {"took_s": 0, "reserved_mib": 7})
            elif step == 0:
                os._exit(3)
            else:
                connection.send({"steps_s": step, "cpu": 0.5, "reserved_mib": 7})


class Collocation(unittest.TestCase):
    def measure(self, group, tasks, workers=3):
        lines = []
        pool = run_collocation.Pool(multiprocessing.get_context("forkserver"), "mps", None, lines.append, tasks, fake_trainer)
        group = group._replace(ramp_s=0)
        with contextlib.redirect_stdout(io.StringIO()), mock.patch.object(run_collocation, "ALONE_RAMP_S", 0):
            pool.start_all([None] * workers, {})
            try:
                done = run_collocation.measure_group(pool, group, 0.1)
            finally:
                pool.end()
        return done, lines

    def test_words_and_groups(self):
        for tasks in (collocation_plan.TASKS, collocation_plan.CPU_TASKS):
            for words in tasks.values():
                Workloads.accepts(self, words.format(jpegs="/x").split())
        for group in collocation_plan.GROUPS:
            for members, _ in group.points:
                self.assertTrue(all(members.count(m) <= group.of.count(m) for m in members))
        self.assertEqual(len(collocation_plan.workers_needed("percent")), 13)
        left = collocation_plan.remainders([["resnet26-c128", "resnet50-m128", "resnet50-m128"]])
        self.assertEqual([len(m) for m in left], [3, 2])

    def test_alone_before_the_others_are_there(self):
        group = collocation_plan.Group("g", ["a", "a", "b"], [(["a", "b"], None), (["a", "a"], 1)])
        done, lines = self.measure(group, {"a": "x 10", "b": "x 4"})
        self.assertTrue(done)
        self.assertEqual([x.get("built") or x["tasks"] for x in lines], [["a"], ["a"], ["b"], ["b"], ["a"], ["a", "b"], ["a", "a"]])
        self.assertEqual(lines[5]["steps_s"], [10, 4])
        self.assertEqual(lines[6]["cores"], 1)

    def test_what_does_not_fit_is_told(self):
        sizes = iter(["1", "-1", "1"])
        tasks = mock.MagicMock(__getitem__=lambda self, name: "x " + next(sizes))
        done, lines = self.measure(collocation_plan.Group("g", ["a"] * 3, [(["a"] * 2, None), (["a"] * 3, None)]), tasks)
        self.assertTrue(done)
        self.assertEqual(lines[-1]["does_not_fit"], ["a"] * 3)
        self.assertEqual(lines[-2]["tasks"], ["a", "a"])

    def test_a_lost_process_leaves_the_group_for_later(self):
        done, lines = self.measure(collocation_plan.Group("g", ["a", "b"], [(["a", "b"], None)]), {"a": "x 2", "b": "x 0"})
        self.assertFalse(done)
        self.assertEqual([x["why"] for x in lines if "failed" in x and "why" in x], ["ended with 3"])

    def test_what_earlier_runs_finished(self):
        with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as f:
            f.write('{"mode": "mps", "group": "mixed", "done": true}\n{"mode": "mps", "group": "mix')
            f.flush()
            done = run_collocation.done_in([f.name])
        self.assertEqual(done, {("mps", "mixed")})
        self.assertNotIn("mixed", [g.name for g in run_collocation.missing("mps", done)])
        self.assertIn("mixed", [g.name for g in run_collocation.missing("streams", done)])


class Studies(unittest.TestCase):
    def written(self, lines):
        with tempfile.NamedTemporaryFile("w", suffix=".jsonl", delete=False) as f:
            self.addCleanup(os.unlink, f.name)
            f.write("\n".join(map(json.dumps, lines)) + '\n{"mode": "mps", "gro')  # cut off
        return f.name

    def point(self, tasks, steps_s, watts=100, group="g"):
        loads = {"gract": 0.5, "smact": 0.4, "smocc": 0.2, "dram": 0.1, "watts": watts}
        return {"mode": "mps", "group": group, "tasks": tasks, "cores": None, "steps_s": steps_s, "loads": loads}

    def study(self):
        lines = [{"gpu": "x", "tasks": {}}, self.point(["a"], [10]), self.point(["b"], [4]), self.point(["a"], [8]),
                 self.point(["a", "b"], [5, 3], 200), self.point(["a", "c"], [5, 3])]
        return self.written(lines)

    def test_delta_is_equation_4_1(self):
        self.assertAlmostEqual(collocation_read.delta([10, 4], [5, 2]), (0.1 + 0.25) / 0.5)

    def test_points_against_the_best_alone(self):
        study = collocation_read.Study([self.study()])
        pair = study.together("mps", ["b", "a"])
        self.assertEqual((pair["relative"], pair["stp"]), ([0.5, 0.75], 1.25))
        self.assertIsNone(study.together("mps", ["a", "c"]))  # c was never alone

    def test_each_run_has_its_own_host(self):
        faster = self.written([{"gpu": "x", "tasks": {}}, self.point(["a"], [20]), self.point(["a", "a"], [10, 10])])
        study = collocation_read.Study([self.study(), faster])
        self.assertEqual([study.together("mps", members)["relative"] for members in (["a", "b"], ["a", "a"])], [[0.5, 0.75], [0.5, 0.5]])

    def test_who_is_done_leaves(self):
        run = collocation_read.Run(self.study())
        (a, b), joules = collocation_read.times_to_finish(run, "mps", [("a", 10), ("b", 10)])
        self.assertEqual((a, b), (2, 3))  # b: 6 steps beside a, the last 4 alone in a second
        self.assertEqual(joules, 2 * 200 + 1 * 100)

    def test_ranks(self):
        self.assertEqual(score_pairs.ranks([5, 1, 5, 9]), [2.5, 1, 2.5, 4])
        self.assertAlmostEqual(score_pairs.spearman([1, 2, 3, 4], [1, 4, 9, 16]), 1)
        self.assertAlmostEqual(score_pairs.spearman([1, 2, 3, 4], [4, 3, 2, 1]), -1)
        self.assertIsNone(score_pairs.spearman([1, 1, 1, 1], [4, 3, 2, 1]))

    def test_both_kinds_of_data_are_pairs(self):
        mixed, = score_pairs.read([self.study()])
        self.assertEqual((mixed.tasks, mixed.stp), (["a", "b"], 1.25))
        self.assertAlmostEqual(mixed.guesses["M"], 0.4)
        self.assertAlmostEqual(mixed.guesses["occupancy"], 1.0)

    def test_a_page_keeps_its_prose(self):
        with tempfile.NamedTemporaryFile("w+", suffix=".md") as f:
            f.write("before\n<!-- t -->\nold\n<!-- /t -->\nafter\n")
            f.flush()
            pages.fill(f.name, {"t": pages.table(["x"], [[None]])})
            self.assertEqual(open(f.name).read(), "before\n<!-- t -->\n| x |\n| --- |\n| – |\n<!-- /t -->\nafter\n")
            self.assertRaises(KeyError, pages.fill, f.name, {"other": ""})


class Summaries(unittest.TestCase):
    def test_what_a_task_is_by_its_name(self):
        task = score_summary.task_of("gpt_neo_125m-b14-s256-adamw-foreach-bf16-checkpoint-clip")
        self.assertEqual([task[k] for k in ("arch", "batch", "size", "optimizer", "precision")],
                         ["gpt_neo_125m", "14", "256", "adamw", "bf16"])
        self.assertEqual(task["extras"] & score_summary.UNSEEN, {"checkpoint"})
        self.assertEqual(score_summary.task_of("vae-b32-s28-adam-loop-fp32-keep-ieee")["precision"], "ieee-fp32")

    def test_every_task_has_its_summary(self):
        data = HERE.parents[1] / "doc" / "results" / "load"
        with tarfile.open(data / "summaries.tar.xz") as tar:
            kept = set(tar.getnames())
        tasks = [score_summary.task_of(l["name"]) for l in score_solo.lines_of(data / "solo.jsonl") if l.get("step_s")]
        self.assertEqual(len(tasks), 205)
        self.assertEqual({t["arch"] for t in tasks if f"{t['arch']}-{t['size']}.table" not in kept}, {"bart_base"})
        self.assertEqual([t for t in tasks if f"{t['arch']}-{t['size']}.printed" not in kept], [])


class LoadModel(unittest.TestCase):
    @unittest.skipUnless(BUILD and fit_summary, "needs a build, numpy and scipy")
    def test_rad_says_what_was_fitted(self):
        """Of every tenth kept capture, on the GPU of the fit and on another."""
        data = HERE.parents[1] / "doc" / "results" / "load"
        names = [l["name"] for l in score_solo.lines_of(data / "solo.jsonl") if l.get("step_s")][::10]
        with score_solo.captures_of(data / "captures.tar.xz") as captures:
            tasks = load_model.Tasks([captures / f"{name}.radcap" for name in names])
            for gpu in load_model.GPUS:
                made = load_model.shipped().predict(tasks, load_model.GPUS[gpu])
                for n, name in enumerate(names):
                    said = score_solo.estimate(f"{BUILD}/rad", captures / f"{name}.radcap", gpu)
                    for key, own in (("step_s", "step"), ("host_s", "host"), ("busy_s", "busy")):
                        self.assertAlmostEqual(said[key] / made[own][n], 1, 5, (name, gpu, key))
                    for key in ("gract", "smact", "dram", "watts"):
                        self.assertAlmostEqual(said[key], made[key][n], -1 if key == "watts" else 2, (name, gpu, key))


class Score(unittest.TestCase):
    LOADS = {"light": (0.34, 0.155), "heavy": (0.99, 0.95), "half": (0.5, 0.5), "unknown": (None, None)}

    def written(self, law, mixes):
        """A file of run_mixes.py from a world where the law holds."""
        lines = [{"gpu": "x"}] + [{"mode": "mps", "alone": n, "again": False, "steps_s": 10, "gract": g, "smact": s}
                                  for n, (g, s) in self.LOADS.items()]
        for n, members in enumerate(mixes):
            relative = score_mixes.speeds("mps", law, [score_mixes.clamp(self.LOADS[m]) for m in members])
            lines.append({"mode": "mps", "mix": n, "members": members, "together": [10 * r for r in relative]})
        with tempfile.NamedTemporaryFile("w", suffix=".jsonl", delete=False) as f:
            self.addCleanup(os.unlink, f.name)
            f.write("\n".join(map(json.dumps, lines)) + '\n{"mode": "mps", "mi')  # cut off
        return f.name

    def test_the_law_on_figures_of_its_document(self):
        law, tasks = score_mixes.frozen(), [(0.29, 0.139), (0.99, 0.949)]
        self.assertAlmostEqual(sum(score_mixes.speeds("streams", law["streams"], [(0.34, 0.2)] * 4)), 0.92 / 0.34)
        light, heavy = score_mixes.speeds("mps", law["mps"], tasks)
        capacity, exponent, _ = law["mps"]
        self.assertAlmostEqual(light, (1 - 0.949 * heavy / capacity) / 0.29 ** exponent)
        self.assertAlmostEqual(heavy, (1 - 0.139 * light / capacity) / 0.99 ** exponent)
        self.assertEqual(score_mixes.speeds("mps", law["mps"], [(0.3, 0.1), (0.4, 0.1)]), [1, 1])
        self.assertEqual(score_mixes.speeds("streams", law["streams"], [(0.1, 0.1), (0.99, 0.9)])[0], 1)

    def test_loads_are_bounded(self):
        self.assertEqual(score_mixes.clamp((None, 0.3)), (0.5, 0.3))
        self.assertEqual(score_mixes.clamp((0.2, 0.3)), (0.2, 0.2))
        self.assertEqual(score_mixes.clamp((0.2, 0.0)), (0.2, 0.01))

    def test_alone_is_the_better_of_two_and_nothing_is_faster(self):
        data = score_mixes.Mode()
        for again, rate in ((False, 10), (True, 20)):
            data.add({"mode": "mps", "alone": "a", "again": again, "steps_s": rate})
        data.add({"mode": "mps", "mix": 0, "members": ["a", "a"], "together": [5, 30]})
        self.assertEqual(data.mixes, [(["a", "a"], [0.25, 1.0])])

    def test_a_fit_finds_the_law_and_halves_are_apart(self):
        mixes = [list(m) for n in (2, 3, 4) for m in itertools.combinations_with_replacement(self.LOADS, n)]
        (mode, data), = score_mixes.read([self.written(score_mixes.Law(1.05, 0.6), mixes)])
        fitting, held = score_mixes.halves(data.mixes)
        self.assertEqual(len(fitting) + len(held), len(mixes))
        self.assertFalse({tuple(m) for m, _ in fitting} & {tuple(m) for m, _ in held})
        self.assertEqual(score_mixes.fit(mode, data.loads, fitting), score_mixes.Law(1.05, 0.6))
        rows, worst = score_mixes.score(mode, data, None)
        self.assertIn("| fitted, held out | 1.050 | 0.600 |", rows[3])
        self.assertIn("| 0.0% | 0.0% | 0.0% | +0.0% |", rows[3])
        self.assertGreater(worst[0][0], 0.02)  # of the law as it is

    def test_errors_are_relative_to_what_was_measured(self):
        mixes = [(["a", "b"], [0.5, 0.8]), (["a"], [1.0])]
        self.assertEqual([round(e, 6) for e in score_mixes.errors([[0.6, 0.4], [1.0]], mixes)], [0.2, -0.5, 0])

    def test_what_is_inferred_is_asked_of_whole_mixes_only(self):
        """On few cores the host decides what each does."""
        seen = {"mode": "mps", "members": ["light", "heavy"], "together": [9, 3], "loads": {"smact": 0.9}}
        lines = [{"mode": "mps", "alone": "light", "again": False, "steps_s": 10, "gract": 0.3, "smact": 0.2, "dram": 0.1},
                 {**seen, "mix": 0}, {**seen, "narrow": 0, "cores": 2}, {**seen, "mix": 1, "chain": 0}]
        with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as f:
            f.write("\n".join(map(json.dumps, lines)))
            f.flush()
            (_, _, mixes, chains), = score_infer.read([f.name])
        self.assertEqual(([m for m, _, _ in mixes], len(chains)), ([["light", "heavy"]], 1))

    def test_a_run_that_was_not_mps_is_told(self):
        data = score_mixes.Mode()
        data.add({"mode": "mps", "ready": 3, "mps_clients": 0})
        self.assertIn("0 of 3", data.notes[0])


if __name__ == "__main__":
    # What these tests import, once for all workers, of which each took 0.7 s for it.
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(HERE), os.environ.get("PYTHONPATH")]))
    multiprocessing.set_forkserver_preload(["test_hardware"])
    unittest.main()
