#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Tests of what the experiments compute and promise; no GPU, no PyTorch. The experiments themselves run with --sim."""
import argparse
import contextlib
import io
import os
import pathlib
import re
import subprocess
import sys
import time
import unittest
from unittest import mock

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "workloads")]
import common
import mix
import run_faults
import run_policies
import table
import train


def task(name, submit, end, wait, run, verdicts=("ok",)):
    return {"name": name, "state": "COMPLETED", "submit_time": f"2026-11-20T10:00:{submit:06.3f}Z",
            "end_time": f"2026-11-20T10:00:{end:06.3f}Z", "wait_s": wait, "run_s": run, "jct_s": wait + run,
            "attempts": [{"verdict": v} for v in verdicts]}


def sample(second, energy, smact):
    return {"t": run_policies.seconds_of(f"2026-11-20T10:00:{second:06.3f}Z"), "energy_j": energy, "smact": smact,
            "power_w": 100.0, "used_mib": 1000 + second}


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

    def test_a_workspace_ends_what_it_started_even_if_it_does_not_listen(self):
        with mock.patch.object(common.Workspace, "PATIENCE_S", 1), contextlib.redirect_stdout(io.StringIO()):
            with common.Workspace() as ws:
                deaf = subprocess.Popen(["bash", "-c", 'trap "" TERM; while :; do sleep 1; done'], env=ws.env,
                                        start_new_session=True)
                common.wait_for("the process to be marked", 5, lambda: deaf.pid in ws.processes())
        self.assertEqual(deaf.wait(5), -9)
        self.assertFalse(ws.dir.exists())
        self.assertNotIn(os.getpid(), ws.processes())


if __name__ == "__main__":
    unittest.main()
