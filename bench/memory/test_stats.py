#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Tests of the arithmetic of score.py and of the pool; no GPU, no PyTorch."""

import os
import pathlib
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import score
import stats
from pool import Pool


class Statistics(unittest.TestCase):
    def test_quantiles(self):
        self.assertEqual([stats.quantile(range(1, 101), p) for p in (0, 0.5, 0.95, 1)], [1, 50, 95, 100])
        self.assertEqual(stats.quantile([3], 0.5), 3)
        self.assertEqual(stats.quantile([2, 1], 0.5), 1)

    def test_interval_of_a_share(self):
        low, high = stats.wilson(5, 100)
        self.assertAlmostEqual(low, 0.0215, 4)
        self.assertAlmostEqual(high, 0.1118, 4)
        self.assertEqual(stats.wilson(0, 0), (0, 1))
        self.assertEqual(stats.wilson(0, 50)[0], 0)
        self.assertAlmostEqual(stats.wilson(0, 50)[1], 0.07135, 4)
        self.assertEqual(stats.wilson(50, 50)[1], 1)

    def test_conformal_margin(self):
        ramp = [n / 1000 for n in range(1, 100)]
        self.assertEqual(stats.conformal(ramp, 0.95), 0.095)
        self.assertEqual(stats.conformal(ramp, 0.99), 0.099)
        self.assertIsNone(stats.conformal(ramp[:98], 0.99))
        self.assertIsNone(stats.conformal([], 0.5))

    def test_a_family_does_not_set_its_own_margin(self):
        rows = [("a", "x", 0.5)] * 10 + [("b", "x", 0.1)] * 10 + [("c", "y", 0.01)] * 20
        margins = stats.left_out(rows, 0.9)
        self.assertEqual(margins["a", "x"], 0.1)
        self.assertEqual(margins["b", "x"], 0.5)
        self.assertEqual(margins["c", "y"], 0.5)  # none of its class is left: all others
        self.assertEqual(stats.left_out(rows, 0.9, 0.2)["a", "x"], 0.2)

    def test_summary(self):
        got = stats.summary([(110, 100), (95, 100), (100, 100), (104, 100)])
        self.assertEqual((got["n"], got["under"]), (4, 0.25))
        self.assertAlmostEqual(got["median"], 0.04)
        self.assertAlmostEqual(got["lowest"], -0.05)
        self.assertIsNone(stats.summary([]))


class Margins(unittest.TestCase):
    def test_what_nvml_did_not_tell_is_what_was_reserved_and_a_context(self):
        def mib(family, **line):
            return score.seen(line, {"family": family})["nvml_mib"]

        self.assertEqual(mib("unet", reserved=100 << 20), 732)
        self.assertEqual(mib("vgg", reserved=(100 << 20) + 1), 861)
        self.assertEqual(mib("vgg", reserved=100 << 20, nvml_mib=850), 850)

    def test_a_margin_is_on_the_highest_replay_whatever_notes_say(self):
        """Comfort 1000 MiB, the highest replay 1100, a margin of 8 % on it."""
        note = "replay: 240 MiB reserved, up to 20 for a convolution by rules; 700 MiB with expandable_segments:True"
        said = {"comfort_mib": 1000, "claim_mib": 1100 + 89, "low_mib": 1000 - 89, "notes": [note]}
        self.assertEqual(score.high_of(said), 1100)


class Processes(unittest.TestCase):
    def run_pool(self, work, items, again=lambda item, answer: None, **options):
        said = []

        def tell(pid, item, answer):
            said.append((item, answer))
            return again(item, answer)

        left = Pool(
            options.pop("workers", 3),
            options.pop("limit_s", 20),
            time.monotonic() + options.pop("seconds", 20),
            pause=0.02,
            **options
        ).run(work, items, tell)
        return left, dict(said)

    def test_each_answers_for_itself(self):
        left, said = self.run_pool(lambda n: [n, os.getpid()], range(8))
        self.assertEqual((left, sorted(said)), ([], list(range(8))))
        self.assertTrue(all(answer[0] == n for n, answer in said.items()))
        self.assertEqual(len({answer[1] for answer in said.values()} | {os.getpid()}), 9)

    def test_one_that_dies_or_hangs_harms_no_other(self):
        def work(n):
            if n == 1:
                os._exit(3)
            if n == 2:
                time.sleep(60)
            return n

        _, said = self.run_pool(work, range(4), limit_s=0.5)
        self.assertEqual((said[0], said[3]), (0, 3))
        self.assertIn("768", said[1]["error"])
        self.assertIn("time", said[2]["error"])

    def test_what_has_not_begun_is_told(self):
        left, said = self.run_pool(lambda n: n, range(4), seconds=-1)
        self.assertEqual((left, said), ([0, 1, 2, 3], {}))

    def test_room(self):
        """Those that together take more than there is do not run together; one that takes more than all runs alone."""
        begun = time.monotonic()
        _, said = self.run_pool(
            lambda n: [time.monotonic() - begun, time.sleep(0.2), time.monotonic() - begun],
            [1, 2, 5],
            room=2,
            cost=lambda n: n,
        )
        spans = sorted(answer[::2] for answer in said.values())
        self.assertTrue(all(after[0] >= before[1] for before, after in zip(spans, spans[1:])))

    def test_again(self):
        tries = []

        def again(item, answer):
            tries.append(item)
            return item if len(tries) == 1 else None

        _, said = self.run_pool(lambda n: n, [7], again)
        self.assertEqual((tries, said), ([7, 7], {7: 7}))


if __name__ == "__main__":
    unittest.main()
