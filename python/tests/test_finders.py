# SPDX-License-Identifier: MIT
"""What libraries try before they train. They are stood in for, by modules with the functions that are left out."""
import re
import textwrap

import pytest

from reader import sizes

torch = pytest.importorskip("torch")

LIGHTNING = {
    "lightning/pytorch/tuner/lr_finder.py": """
        class _LRFinder:
            def __init__(self, mode, lr_min, lr_max, num_training):
                self.results = {}
        def _lr_find(trainer, model, min_lr=1e-8, max_lr=1, num_training=100, mode="exponential", update_attr=False):
            raise NotImplementedError
    """,
    "lightning/pytorch/tuner/batch_size_scaling.py": """
        def lightning_getattr(module, name):
            return getattr(module, name)
        def _scale_batch_size(trainer, mode="power", steps_per_trial=3, init_val=2, max_trials=25, batch_arg_name="batch_size"):
            raise NotImplementedError
    """}
RANGE = {"torch_lr_finder/lr_finder.py": """
    class LRFinder:
        def range_test(self, train_loader, end_lr=10, num_iter=100):
            raise NotImplementedError
"""}
FASTAI = {"fastai/callback/schedule.py": """
    class SuggestionMethod:
        def Valley(*_):
            pass
    class Learner:
        pass
"""}
# As Accelerate's: smaller after each error that says so.
ACCELERATE = {"accelerate/utils/memory.py": """
    import functools
    def find_executable_batch_size(function=None, starting_batch_size=128, reduce_batch_size_fn=None):
        if function is None:
            return functools.partial(find_executable_batch_size, starting_batch_size=starting_batch_size)
        def find():
            size = starting_batch_size
            while True:
                try:
                    return function(size)
                except RuntimeError as e:
                    if len(e.args) != 1 or "CUDA out of memory." not in e.args[0]:
                        raise
                size //= 2
        return find
"""}
TRAIN = """
def train(batch):
    model = torch.nn.Linear(1024, 1024, bias=False).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(50):
        optimizer.zero_grad()
        model(torch.randn(batch, 1024, device="cuda")).sum().backward()
        optimizer.step()
"""


@pytest.fixture
def tried(capture, tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", "")

    def run(files, use):
        for name, body in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(textwrap.dedent(body))
            for folder in path.relative_to(tmp_path).parents[:-1]:
                (tmp_path / folder / "__init__.py").touch()
        return capture("import torch\n" + TRAIN + textwrap.dedent(use), options=["-v"])
    return run


@pytest.mark.parametrize("files, use", [
    (LIGHTNING, """
        from lightning.pytorch.tuner.lr_finder import _lr_find
        rates = _lr_find(None, None, num_training=50, update_attr=True).results
        assert len(rates["lr"]) == len(rates["loss"]) == 50 and rates["loss"][0] > rates["loss"][-1] > 0
    """),
    (RANGE, """
        from torch_lr_finder.lr_finder import LRFinder
        finder = LRFinder()
        finder.range_test(None, num_iter=30)
        assert len(finder.history["lr"]) == 30 and abs(finder.history["lr"][-1] - 10) < 1e-9
    """),
    (FASTAI, """
        from fastai.callback.schedule import Learner
        def minimum(): pass
        def steep(): pass
        found = Learner().lr_find(suggest_funcs=(minimum, steep))
        assert found.minimum == found.steep and Learner().lr_find()[0] > 0
    """)], ids=["Lightning", "torch-lr-finder", "fastai"])
def test_rates_are_not_looked_for(tried, files, use):
    code, said, f = tried(files, use + "\ntrain(8)\n")
    assert code == 0 and f.steps == 50 and f.header["batch"] == 8, said


def test_sizes_are_not_looked_for(tried):
    code, said, f = tried(LIGHTNING, """
        import types
        from lightning.pytorch.tuner.batch_size_scaling import _scale_batch_size
        module = types.SimpleNamespace(batch_size=16)
        train(_scale_batch_size(types.SimpleNamespace(lightning_module=module)))
    """)
    assert code == 0 and f.header["batch"] == 16 and f.steps == 50
    assert "batch size finder tries batch sizes until the GPU" in said and "rad submit --exclusive" in said


@pytest.mark.parametrize("first, fits, most", [(1024, 1024, 20), (1 << 26, 1 << 24, 131200)])
def test_a_batch_that_is_tried_runs_out_of_memory(tried, first, fits, most):
    """2^26 lines of 4 KiB are 256 GiB, more than an H200 has; of 2^25 the result is too much beside them, of 2^24 it just is not."""
    code, said, f = tried(ACCELERATE, f"""
        from accelerate.utils.memory import find_executable_batch_size
        @find_executable_batch_size(starting_batch_size={first})
        def begin(batch):
            train(batch)
        begin()
    """)
    assert code == 0 and f.header["batch"] == fits, said
    assert f"from {first} down that fits an H200" in said and int(re.search(r"(\d+) MiB in tensors", said)[1]) < most


def test_what_was_too_large_is_not_claimed(tried):
    """2^25 lines of 1 KiB are 32 GiB: five layers' results and a gradient do not fit, of half as many they do. What an attempt
    leaves is alive, and what it gave back of what was there is not."""
    code, said, f = tried(ACCELERATE, """
        from accelerate.utils.memory import find_executable_batch_size
        model = torch.nn.Sequential(*[torch.nn.Linear(256, 256, bias=False) for _ in range(5)]).cuda()
        spare, left = [torch.zeros(77, device="cuda")], []
        @find_executable_batch_size(starting_batch_size=1 << 25)
        def begin(batch):
            spare.clear()
            left.append(torch.ones(55, device="cuda"))
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for step in range(50):
                optimizer.zero_grad()
                model(torch.randn(batch, 256, device="cuda")).sum().backward()
                optimizer.step()
        begin()
    """)
    assert code == 0 and f.header["batch"] == 1 << 24 and f.steps == 50 and f.header["optimizer"] == "sgd", said
    freed = [-n for n in sizes(f.events) if n < 0]
    assert max(f.events) == 256 * 4 << 24 and f.events.count(77 * 4) == freed.count(77 * 4) == 1
    assert f.events.count(55 * 4) == 2 and 55 * 4 not in freed


def test_what_nobody_tries_may_be_as_large_as_it_is(capture):
    code, said, f = capture("import torch\n" + TRAIN + "train(1 << 26)\n")
    assert code == 0 and int(re.search(r"(\d+) MiB in tensors", said)[1]) > 400000
