# SPDX-License-Identifier: MIT
"""GPUMemNet's training: splits, bins, scores, and that the weights file holds what the nets are."""
import struct
import zlib

import pytest

numpy = pytest.importorskip("numpy")
torch = pytest.importorskip("torch")

from radrm.gpumemnet import features, jobs, nets, scores, weights  # noqa: E402

INPUTS, TOKEN = 5, 13


def toy_rows(n=240):
    """Configurations whose memory is a function of their inputs, and a little noise."""
    from radrm.gpumemnet.features import Rows
    random = numpy.random.RandomState(3)
    inputs = random.rand(4, n, INPUTS).astype(numpy.float32)
    inputs[1:] = inputs[0]
    reference = 1000 + 8000 * random.rand(n)
    mib = reference * (1 + inputs[0, :, 0]) * (1 + 0.01 * random.randn(n))
    tokens = [numpy.concatenate((numpy.eye(11)[random.randint(0, 11, k)], random.rand(k, TOKEN - 11)), 1).astype(numpy.float32)
              for k in random.randint(1, 9, n)]
    sequences = [numpy.concatenate((random.randint(0, 11, (k, 1)), random.rand(k, 2)), 1).astype(numpy.float32)
                 for k in random.randint(1, 9, n)]
    return Rows(inputs=inputs, reference=numpy.tile(reference, (4, 1)), tokens=tokens, mib=mib, sequences=sequences,
                published=numpy.stack((reference, inputs[0, :, 0]), 1).astype(float), ids=[str(i) for i in range(n)])


@pytest.mark.parametrize("names", [("fold0", "fold1", "fold2"), ("split",), ("all",)])
def test_splits_share_no_row(names):
    tests = []
    for name in names:
        parts = jobs.split(1000, name)
        assert sorted(numpy.concatenate(parts)) == list(range(1000))
        tests.append(parts[2])
    if len(names) == 3:
        assert sorted(numpy.concatenate(tests)) == list(range(1000))
    if names == ("split",):
        assert [len(p) for p in jobs.split(1000, "split")] == [700, 200, 100]


def test_the_uppermost_class_is_open_and_not_nearly_empty():
    mib = numpy.array([500.0] * 50 + [1500.0] * 20 + [9000.0] * 8 + [50000.0] * 4)
    of, bins = jobs.classes_of(mib, 1)
    assert bins == 9 and (of[50:70] == 1).all() and (of[70:] == 8).all()


def test_coarse_bins_get_what_lies_in_them():
    lower, upper = numpy.array([[0.0, 1000.0]]), numpy.array([[1000.0, 5000.0]])
    found = nets.coarse(numpy.array([[0.2, 0.8]]), lower, upper, 2000, 3)
    assert found[0] == pytest.approx([0.2 + 0.8 / 4, 0.8 / 2, 0.8 / 4])


def test_edges_rise_and_hold_everything():
    y = numpy.random.RandomState(1).randn(5000) * 0.1
    edges = nets.edges_of(y)
    assert (numpy.diff(edges) > 0.0099).all() and edges[0] < y.min() and edges[-1] > y.max() and len(edges) < 128


def test_scores():
    said = scores.classification(numpy.array([0, 0, 0, 1]), numpy.array([0, 0, 1, 0]))
    assert (said["accuracy"], said["under"]) == (0.5, 0.25)
    assert said["balanced_accuracy"] == pytest.approx((2 / 3 + 0) / 2)
    claim = scores.claims(numpy.array([100.0, 100.0]), numpy.array([90.0, 130.0]), numpy.array([95.0, 100.0]))
    assert claim["under"] == 0.5 and claim["worst_under"] == pytest.approx(-0.1) and claim["median_error"] == pytest.approx(0.025)


def test_rows_that_cannot_be_read_are_told(capsys):
    row = {"id": "a", "batch_size": "2", "optimizer": "adam", "precision": "fp32", "nvml_mib": "900"}
    good = {"family": "mlp", "inputs": [1.0], "reference_mib": 800.0, "tokens": [[1.0, 2.0]], "types": {"Linear": 1}, "activation": "ReLU",
            "params": 3, "activations": 4, "layers": [[1, 4, 3, 1]]}
    found = features.arrays("mlp", [row, row, row], [good] * 4 + [{"error": "no shapes"}] * 4 + [good] * 4)
    assert len(found) == 2 and found.inputs.shape == (4, 2, 1) and found.reference.shape == (4, 2)
    assert "mlp: 1 of 3 rows could not be read and are left out: no shapes" in capsys.readouterr().err


@pytest.mark.parametrize("kind", ["ensemble", "encoder"])
def test_what_can_be_learnt_is(kind):
    rows = toy_rows(1200)
    (_, test), about = jobs.ours(rows, "mlp", kind, "fold0", epochs=60)
    said = scores.all_of([jobs.conclude(test, rows, "mlp")])
    assert said["claim"]["median_error"] < 0.08 and said["claim"]["under"] < 0.25
    assert said["bins"][1]["said"]["accuracy"] > 0.4
    assert not about["net"].training


@pytest.mark.parametrize("kind", ["ensemble", "encoder"])
def test_published_nets_train(kind):
    figures = jobs.published(toy_rows(), "mlp", kind, "fold0", 2, epochs=4)
    assert len(figures["claim"]) == 80 and 1000 < figures["weights"] < 30000
    assert (figures["claim"] >= 2048).all() and (figures["claim"] % 2048 == 0).all()


def test_normalisation_is_folded_into_the_weights():
    torch.manual_seed(1)
    net = nets.Perceptron(INPUTS, [7, 6], 3)
    for _ in range(20):
        net(torch.randn(50, INPUTS) * 3 + 1)
    net.eval()
    x = torch.randn(4, INPUTS)
    y = x
    for i, (weight, bias) in enumerate(net.folded()):
        y = y @ weight.T + bias
        y = torch.relu(y) if i < 2 else y
    assert torch.allclose(y, net(x), atol=1e-5)


def test_weights_file():
    rows = toy_rows(120)
    made = {kind: jobs.ours(rows, "mlp", kind, "all", epochs=1)[1] for kind in ("ensemble", "encoder")}
    blob = weights.file_of({"cnn": {**made, "share": 0.5}}, "CARD", "STACK", 64, TOKEN)
    assert blob[:8] == b"RADNET\r\n" and zlib.crc32(blob[:-4]) == struct.unpack("<I", blob[-4:])[0]
    assert struct.unpack("<6I", blob[8:32]) == (1, len(blob), INPUTS, 64, TOKEN, 1)
    family, length, bins, members, blocks, width = struct.unpack("<6I", blob[128:152])
    assert (family, length, members, blocks, width) == (1, len(blob) - 132, len(nets.WIDTHS), nets.BLOCKS, nets.MODEL)
    edges = numpy.frombuffer(blob, "<f4", bins + 1, 128 + 40 + 16 * INPUTS)
    assert (edges == made["ensemble"]["edges"]).all()
