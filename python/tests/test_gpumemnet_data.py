# SPDX-License-Identifier: MIT
"""The configurations of GPUMemNet's data set: how they are drawn, built, described and collected."""
import collections
import gzip
import hashlib
import itertools
import json
import os
import re
import subprocess
import time

import pytest

torch = pytest.importorskip("torch")

from radrm.gpumemnet import build, collect, dataset, models, specs, summary, table  # noqa: E402

RAD = os.path.join(os.environ.get("RAD_BUILD_ROOT", ""), "rad")
rad = pytest.mark.skipif(not os.access(RAD, os.X_OK), reason="no rad in RAD_BUILD_ROOT")

SMALL = {
    "mlp": {"input": 12, "widths": [16, 16, 8, 8], "norm": True, "classes": 5},
    "cnn": {"input": [3, 16, 16], "widths": [4, 4, 8, 8, 4], "kernel": 3, "down": [0, 3], "pooling": "stride", "norm": True,
            "inplace": True, "head": "pool", "classes": 5},
    "transformer": {"seq_len": 8, "vocabulary": 1200, "width": 16, "heads": 2, "feedforward": [32, 24], "projection": "linear",
                    "attention": "sdpa", "norm": "layer", "first": True, "gated": False, "head": "classify", "classes": 5},
}


def small(family, **changes):
    return {"family": family, "shape": "uniform", "activation": "ReLU", "dropout": 0.1, "batch": 3, "optimizer": "adam",
            "precision": "fp32", **SMALL[family], **changes}


def every_kind():
    ways = list(itertools.product(specs.OPTIMIZERS, specs.PRECISIONS))
    for family, shapes in specs.SHAPES.items():
        for shape, (optimizer, precision) in zip(shapes, ways):
            yield small(family, shape=shape, optimizer=optimizer, precision=precision)
    for precision in specs.PRECISIONS:
        yield small("transformer", precision=precision, attention="eager", projection="conv1d", head="lm-tied", classes=1200)
    yield small("transformer", projection="mha", activation="GELU", first=False)
    yield small("transformer", gated=True, norm="rms", head="lm", activation="SiLU", classes=1200)
    yield small("transformer", projection="conv1d", dropout=0)
    yield small("cnn", pooling="max", head="flatten", norm=False, activation="ELU", shape="dense")
    yield small("cnn", pooling="max", down=[0, 1, 2], shape="residual", optimizer="momentum")
    yield small("mlp", classes=1, norm=False, dropout=0, precision="bf16")


KINDS = list(every_kind())


def test_the_same_seed_draws_the_same():
    first = [specs.canonical(s) for s in specs.generate(5, 6)]
    assert first == [specs.canonical(s) for s in specs.generate(5, 6)]
    assert first == [specs.canonical(s) for s in specs.generate(5, 9)][:18]
    assert not set(first) & {specs.canonical(s) for s in specs.generate(6, 6)}
    assert len(set(first)) == 18


def test_ranges_and_balance():
    drawn = list(specs.generate(3, 100))
    assert {(s["family"], s["shape"]) for s in drawn} == {(f, s) for f in specs.FAMILIES for s in specs.SHAPES[f]}
    for family in specs.FAMILIES:
        own = [s for s in drawn if s["family"] == family]
        sizes = collections.Counter(specs.estimate(s)["bytes"] // (8 << 30) for s in own)
        assert set(sizes) == set(range(6)) and max(sizes.values()) < (0.8 if family == "mlp" else 0.6) * len(own)
        assert {s["precision"] for s in own} == set(specs.PRECISIONS) and {s["optimizer"] for s in own} == set(specs.OPTIMIZERS)
    for s in drawn:
        assert specs.estimate(s)["bytes"] < specs.LARGEST and specs.estimate(s)["seconds"] <= specs.GPU_SECONDS
        assert json.loads(specs.canonical(s)) == s
        if s["family"] == "mlp":
            assert 4 <= s["input"] <= 4096 and 1 <= s["classes"] <= 1024 and 1 <= len(s["widths"]) <= 11
        elif s["family"] == "cnn":
            assert 1 <= len(s["widths"]) <= 29 and 2 <= s["classes"] <= 22000 and s["kernel"] in (3, 5, 7)
            assert max(s["widths"]) <= 512 and models.side_after(s) >= 1
        else:
            assert 128 <= s["width"] <= 2048 and s["width"] % s["heads"] == 0 and 1 <= s["batch"] <= 128


@pytest.mark.parametrize("spec", KINDS, ids=lambda s: f"{s['family']}-{s['shape']}-{s['precision']}-{s['optimizer']}")
def test_builds_and_trains(spec):
    net, shape, setup = build(spec)
    assert tuple(models.example(spec).shape) == shape and shape[0] == spec["batch"]
    torch.manual_seed(0)
    step = setup("cpu")
    params = [p for group in step.optimizer.param_groups for p in group["params"]]
    before = [p.detach().clone() for p in params]
    losses = [float(step()) for _ in range(2)]
    assert all(map(torch.isfinite, map(torch.tensor, losses)))
    assert sum(p.numel() for p in params) == sum(p.numel() for p in net.parameters())
    if spec["optimizer"].startswith("adam") and spec["precision"] != "bf16":
        assert any(not torch.equal(a, b) for a, b in zip(before, params))
    assert collect._states(step.optimizer, spec)
    assert {p.dtype for p in params} == {torch.bfloat16 if spec["precision"] == "bf16" else torch.float32}


def parsed(spec, tmp_path):
    file = tmp_path / "x.model"
    file.write_text(summary(spec))
    done = subprocess.run([RAD, "parse", "--json", str(file)], capture_output=True, text=True, timeout=20)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def modules_of(spec):
    """[(depth, class, shape of the output, parameters that no row below it shows)] of the model as it runs."""
    net, rows, open_ = models.module(spec, "meta"), [], []

    def enter(module, _inputs):
        rows.append([len(open_), type(module).__name__, None, module])
        open_.append(rows[-1])

    def leave(_module, _inputs, outputs):
        open_.pop()[2] = list((outputs[0] if isinstance(outputs, tuple) else outputs).shape)
    for module in net.modules():
        module.register_forward_pre_hook(enter)
        module.register_forward_hook(leave)
    with torch.no_grad():
        net(models.example(spec, "meta"))
    listed = {id(row[3]) for row in rows}

    def own(module):
        inner = sum(own(child) for child in module.children() if id(child) not in listed)
        return inner + sum(p.numel() for p in module.parameters(recurse=False))
    return [(depth, name, shape, own(module)) for depth, name, shape, module in rows], sum(p.numel() for p in net.parameters())


@pytest.mark.parametrize("specs_", [KINDS, list(specs.generate(12, 4))], ids=["kinds", "drawn"])
def test_the_table_is_that_of_the_module(specs_):
    for spec in specs_:
        rows, total = modules_of(spec)
        assert [(depth, node.name, node.shape, node.params) for depth, node in table.rows(spec)] == rows
        assert table.params(spec) == total


@rad
def test_rad_parse_counts_what_the_table_says(tmp_path):
    for spec in KINDS + list(specs.generate(11, 25)):
        found, layers = parsed(spec, tmp_path), table.layers(spec)
        assert found["family"] == spec["family"] and found["batch_size"] == spec["batch"]
        assert found["params"] == table.params(spec)
        assert (found["layers"], found["activations"]) == (len(layers), sum(elements for _, _, elements in layers))
        assert found["seq_len"] == spec.get("seq_len")
        assert not [n for n in found["notes"] if "embedding" not in n]


def test_layers_in_one_word():
    alike = [("Linear", 10, 2), ("Linear", 10, 2), ("ReLU", 0, 2), ("Linear", 10, 3)]
    assert table.encode(alike) == "Linear:10:2*2 ReLU:0:2 Linear:10:3"


def test_summary_is_torchinfo_s():
    torchinfo = pytest.importorskip("torchinfo")
    for spec in (small("cnn", shape="residual"), small("transformer", projection="mha"), small("mlp", shape="dense")):
        text = str(torchinfo.summary(models.module(spec), input_data=models.example(spec), depth=10, verbose=0, mode="train"))

        def rows(of):  # type, shape and parameters; depths differ where torchinfo lists a ModuleList, which never runs
            cells = (line.replace("│", " ").replace("├─", "").replace("└─", "").split(None, 1) for line in of.splitlines())
            return [(c[0].rstrip(":"), c[1][c[1].index("["):].split()) for c in cells if len(c) == 2 and "[" in c[1]]
        assert rows(summary(spec)) == rows(text)


# ---- collecting ----

class Dying(collect.Pretended):
    def peaks(self):
        os._exit(7)


class Full(collect.Pretended):
    def peaks(self):
        raise RuntimeError("CUDA out of memory")


def collected(tmp_path, meter, list_, **options):
    c = collect.Collection(meter, 2, tmp_path, time.monotonic() + 60, 8 << 30)
    left = c.run(collect.jobs_of(list_, "rows"), **options)
    assert c.free == c.total  # all that was lent came back
    return left, [json.loads(line) for line in open(tmp_path / "rows.jsonl")]


def test_collects_every_spec_once(tmp_path):
    left, rows = collected(tmp_path, collect.Pretended, KINDS[:5])
    assert left == 0 and sorted(r["id"] for r in rows) == sorted(map(specs.identity, KINDS[:5]))
    assert all(r["states"] and r["reserved"] == 80 << 20 and r["before"] == 0 for r in rows)


def test_each_in_a_process_of_its_own(tmp_path):
    left, rows = collected(tmp_path, collect.Pretended, KINDS[:4], alone=True)
    assert left == 0 and [r["nth"] for r in rows] == [1] * 4


@pytest.mark.parametrize("meter, error", [(Dying, "died"), (Full, "oom")])
def test_what_fails_is_told_and_the_rest_goes_on(tmp_path, meter, error):
    left, rows = collected(tmp_path, meter, KINDS[:3])
    assert left == 0 and [r["error"] for r in rows] == [error] * 3


def test_a_job_that_waits_for_room_is_overtaken_by_few():
    c = collect.Collection.__new__(collect.Collection)
    c.free = 10
    small_ones = [{"need": 5, "n": n} for n in range(collect.LOOK_AHEAD + 5)]
    pending = [{"need": 20}, *small_ones]
    assert c._next(pending) == small_ones[0]
    pending[1:1] = [{"need": 20}] * (collect.LOOK_AHEAD - 1)  # a window full of large ones holds up the small one behind it
    assert c._next(pending) is None
    c.free = 20
    assert c._next(pending) == {"need": 20}


def test_goes_on_where_a_run_ended(tmp_path):
    collected(tmp_path, collect.Pretended, KINDS[:2])
    with gzip.open(tmp_path / "rows.jsonl.gz", "wb") as z:
        z.write((tmp_path / "rows.jsonl").read_bytes() + json.dumps({"id": "x", "set": "rows", "error": "oom"}).encode())
    assert collect.measured_in([tmp_path]) == set(map(specs.identity, KINDS[:2]))


# ---- cleaning ----

MIB = 1 << 20


def row(spec=KINDS[0], **changes):
    return {"id": specs.identity(spec), "set": "rows", "nth": 1, "before": 0, "states": True, "allocated": 3 * MIB + 512,
            "reserved": 22 * MIB, "held": 22 * MIB, "second": 22 * MIB, "nvml_mib": 800, "seconds": 0.1, **changes}


def cleaned(*rows):
    return dataset.clean(list(rows), {specs.identity(s): s for s in KINDS})


@pytest.mark.parametrize("changes, why", [
    ({"before": 512}, "still there"), ({"states": False}, "optimizer"), ({"nvml_mib": None}, "NVML"),
    ({"nvml_mib": 21}, "NVML"), ({"allocated": 23 * MIB}, "more than was allocated"), ({"allocated": 512}, "weights"),
    ({"held": 24 * MIB, "nvml_mib": 900}, "more than"), ({"error": "oom"}, "oom")])
def test_rows_that_contradict_themselves_go(changes, why):
    kept, dropped = cleaned(row(**changes), row(KINDS[1]))
    assert [r["id"] for r in kept] == [specs.identity(KINDS[1])]
    assert len(dropped) == 1 and why in next(iter(dropped))


def test_what_came_twice_and_jumps_outside_the_allocator_go():
    kept, dropped = cleaned(row(), row())
    assert len(kept) == 1 and dropped == {"twice": 1}
    # Two processes; the second jumps at its third row, and stays there.
    rows = [row(spec, nth=nth, nvml_mib=nvml) for spec, nth, nvml in zip(
        KINDS, (1, 1, 2, 2, 3, 3, 5), (764, 764, 780, 780, 1800, 784, 1810))]
    kept, dropped = cleaned(*rows)
    assert len(kept) == 6 and rows[4] not in kept and sum(dropped.values()) == 1


def test_a_table_comes_back_as_it_was_written(tmp_path):
    records = [dataset.record(row(spec, set=set_), spec) for spec, set_ in zip(KINDS[:3], ("rows", "fresh", "rows"))]
    for name in ("a", "b"):
        dataset.write(tmp_path / name, records[::-1] if name == "b" else records)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    found = {r["id"]: r for r in dataset.read(tmp_path / "a")}
    assert len(found) == 3
    for spec, nvml in zip(KINDS, (22 + 742, 22 + 778, 22 + 742)):
        r = found[specs.identity(spec)]
        assert r["spec"] == spec and r["allocated_mib"] == 4 and r["reserved_mib"] == 22 and r["nvml_mib"] == nvml
        assert r["layers"] == table.encode(table.layers(spec)) and r["batch_size"] == spec["batch"]


# ---- the data ----

@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """The data set, made of the measurements."""
    folder = tmp_path_factory.mktemp("data")
    said = dataset.make(dataset.RAW, 1, 4000, folder)
    assert sum(sum(dropped.values()) for _, dropped in said.values()) == 20
    return folder


def test_the_measurements_give_the_files_that_the_card_names(data):
    named = dict(re.findall(r"\| `(\w+\.csv)\.gz` \|.*\| `([0-9a-f]{64})` \|", (dataset.FOLDER / "README.md").read_text()))
    assert named == {f.stem: hashlib.sha256(gzip.decompress(f.read_bytes())).hexdigest() for f in data.glob("*.csv.gz")}
    assert set(named) >= {f"{family}.csv" for family in specs.FAMILIES}


def test_the_data_are_what_the_card_says(data):
    for family in specs.FAMILIES:
        rows = dataset.read(data / f"{family}.csv.gz")
        assert len({r["id"] for r in rows}) == len(rows) > 1000
        for r in rows:
            assert r["family"] == r["spec"]["family"] == family and r["id"] == specs.identity(r["spec"])
            assert r["labels_from"] == "measured" and r["allocated_mib"] <= r["reserved_mib"] < r["nvml_mib"]
            assert r["nvml_mib"] - r["reserved_mib"] == dataset.outside_mib(family, r["precision"])
        for r in rows[::50]:
            assert r["layers"] == table.encode(table.layers(r["spec"]))
