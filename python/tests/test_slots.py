# SPDX-License-Identifier: MIT
"""The examples of time slots really go on: a run that is asked to make place, as often as it takes, ends with the loss of one that
never was."""
import importlib.util
import os
import re
import signal
import subprocess
import sys

import pytest

pytest.importorskip("torch")
EXAMPLES = os.path.join(os.path.dirname(__file__), "..", "..", "examples", "slots")
AGAIN = 42  # not the default: the examples are to heed what the task is told


def run(script, folder, arguments, ask_at=None):
    """One run, asked when a line of its output matches; returns its exit code and what it said."""
    env = dict(os.environ, RAD_REQUEUE_CODE=str(AGAIN), CUDA_VISIBLE_DEVICES="", OMP_NUM_THREADS="1", PYTHONUNBUFFERED="1",
               HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false")
    command = [sys.executable, "-W", "ignore", os.path.join(EXAMPLES, script), *arguments]
    said = []
    with subprocess.Popen(command, cwd=folder, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as p:
        for line in p.stdout:
            said.append(line)
            if ask_at and re.search(ask_at, line):
                p.send_signal(signal.SIGUSR1)
                ask_at = None
    return p.returncode, "".join(said)


def final_loss(said):
    return float(re.search(r"final loss ([0-9.]+)", said)[1])


def goes_on(script, tmp_path, arguments, asks):
    (tmp_path / "whole").mkdir()
    (tmp_path / "parts").mkdir()
    code, whole = run(script, tmp_path / "whole", arguments)
    assert code == 0, whole
    steps = []
    for ask in asks:
        code, said = run(script, tmp_path / "parts", arguments, ask)
        assert code == AGAIN, said
        steps.append(int(re.search(r"makes place at step (\d+)", said)[1]))
    assert steps == sorted(set(steps)), steps
    code, said = run(script, tmp_path / "parts", arguments)
    assert code == 0, said
    return final_loss(whole), final_loss(said)


def test_plain_loop(tmp_path):
    whole, parts = goes_on("plain.py", tmp_path, ["--epochs", "6"], [r"step 32/", r"step 176/", r"step 304/"])
    assert parts == whole


def test_plain_loop_that_is_asked_when_it_is_done(tmp_path):
    """Asked in its last step it is done, and says so."""
    code, said = run("plain.py", tmp_path, ["--epochs", "1"], r"step 64/64")
    assert code == 0, said


@pytest.mark.skipif(not any(map(importlib.util.find_spec, ("lightning", "pytorch_lightning"))), reason="Lightning is not installed")
def test_lightning(tmp_path):
    whole, parts = goes_on("lightning_slot.py", tmp_path, ["--epochs", "4"], [r"step 32 ", r"step 144 "])
    assert parts == pytest.approx(whole, rel=1e-6)


@pytest.mark.skipif(not all(map(importlib.util.find_spec, ("transformers", "accelerate"))), reason="transformers is not installed")
def test_hf_trainer(tmp_path):
    whole, parts = goes_on("hf_trainer_slot.py", tmp_path, ["--epochs", "4"], [r"'loss'"])
    assert parts == pytest.approx(whole, rel=1e-6)
