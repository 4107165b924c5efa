# SPDX-License-Identifier: MIT
"""What makes a training job's memory differ from what its tensors suggest, one test each; all bytes are worked out by hand."""
import pytest

torch = pytest.importorskip("torch")

import torch.nn.functional as F  # noqa: E402
import torch.utils.checkpoint  # noqa: E402
from torch import nn  # noqa: E402

SETUP, ITERATION, FORWARD, BACKWARD, STEP, ZERO_GRAD, EVAL = range(7)
GEMM, CONV, ATTENTION = 1, 2, 3
DATA_DEPENDENT, PAIR = 1, 256
MATH, FLASH, EFFICIENT, CUDNN = range(4)
VERSION = tuple(int(part) for part in torch.__version__.split("+")[0].split(".")[:2])

# Two Linear(256, 256) without bias: 256 x 256 x 4 bytes each
W = 256 * 256 * 4


def asked(events):
    return [n for n in events if n > 0]


def kept(events):
    """Bytes requested and not given back."""
    return sum(events)


def two_layers(optimizer, before_step=None, **options):
    def setup():
        model = nn.Sequential(nn.Linear(256, 256, bias=False), nn.Linear(256, 256, bias=False)).cuda()
        x, learns = torch.randn(8, 256, device="cuda"), optimizer(model.parameters(), lr=0.1, **options)

        def step():
            learns.zero_grad()
            model(x).sum().backward()
            if before_step:
                before_step(model)
            learns.step()
        return step
    return setup


# --- optimizers ---
# (state kept after the first step, most temporaries in a later step), in weights of one layer. Two layers: a foreach form works
# on both at once, a loop on one after the other.

@pytest.mark.parametrize("optimizer, options, state, temporary", [
    (torch.optim.SGD, {}, 0, 0),                                    # in place, whichever form
    (torch.optim.SGD, {"foreach": False}, 0, 0),
    (torch.optim.SGD, {"momentum": 0.9}, 2, 0),                     # one buffer a weight
    (torch.optim.SGD, {"momentum": 0.9, "foreach": False}, 2, 0),
    (torch.optim.SGD, {"momentum": 0.9, "fused": True}, 2, 0),
    (torch.optim.SGD, {"weight_decay": 0.1}, 0, 2),                 # gradients + decay x weights, both layers
    (torch.optim.SGD, {"weight_decay": 0.1, "foreach": False}, 0, 1),   # one layer's
    (torch.optim.Adam, {}, 4, 2),                                   # two moments a weight; the root of the second, both layers
    (torch.optim.Adam, {"foreach": False}, 4, 3),   # root, root over correction: that of the layer before lives on
    (torch.optim.Adam, {"fused": True}, 4, 0),
    (torch.optim.Adam, {"amsgrad": True}, 6, 2),                    # and the largest second moment
    (torch.optim.Adam, {"weight_decay": 0.1}, 4, 2),                # gradients + decay x weights, gone before the roots come
    (torch.optim.AdamW, {"weight_decay": 0.1}, 4, 2),               # decays in place
    (torch.optim.AdamW, {"foreach": False}, 4, 3),
    (torch.optim.AdamW, {"fused": True}, 4, 0),
])
def test_optimizer(traced, optimizer, options, state, temporary):
    f = traced(two_layers(optimizer, **options))
    def whole(n):
        return n // W * W    # step counters and their like are less than a weight
    assert whole(kept(f.phase(0, STEP)) + 4) == state * W
    assert whole(peak_of(f.phase(1, STEP))) == temporary * W


def peak_of(sizes):
    live = most = 0
    for n in sizes:
        live += n
        most = max(most, live)
    return most


# --- gradients ---

def test_set_to_none_gives_gradients_back(traced):
    f = traced(two_layers(torch.optim.SGD))
    assert f.phase(1, ZERO_GRAD) == [-W, -W]


def test_zeroed_gradients_stay(traced):
    def setup():
        model = nn.Linear(256, 256, bias=False).cuda()
        x, learns = torch.randn(8, 256, device="cuda"), torch.optim.SGD(model.parameters(), lr=0.1)

        def step():
            learns.zero_grad(set_to_none=False)
            model(x).sum().backward()
            learns.step()
        return step
    f = traced(setup)
    # the new gradient is made beside the old one and added to it: W for a moment, nothing kept
    backward = f.phase(1, BACKWARD)
    assert W in backward and -W in backward


@pytest.mark.parametrize("early, most", [(True, 1), (False, 2)])
def test_zero_grad_before_or_after_the_forward_pass(traced, early, most):
    """h = x W of 256 samples is as large as W, and so is its exponential: W each for a moment. An iteration begins with the
    gradient of the last, W, which is gone before them or not: then they come on top."""
    def setup():
        model = nn.Linear(256, 256, bias=False).cuda()
        x, learns = torch.randn(256, 256, device="cuda"), torch.optim.SGD(model.parameters(), lr=0.1)

        def step():
            if early:
                learns.zero_grad()
            loss = model(x).exp().sum()
            if not early:
                learns.zero_grad()
            loss.backward()
            learns.step()
        return step
    assert peak_of(traced(setup).iteration(1)) // W == most


def sizes_between(f, begin, end):
    requests = [e for e in f.events if e > 0]
    return [e if e > 0 else -requests[-1 - e] for e in f.events[begin:end]]


def test_accumulation_adds_in_place(traced):
    """The second backward pass makes a gradient, adds it and gives it back: one W at a time beside the kept two."""
    def setup():
        model = nn.Sequential(nn.Linear(256, 256, bias=False), nn.Linear(256, 256, bias=False)).cuda()
        x, learns = torch.randn(8, 256, device="cuda"), torch.optim.SGD(model.parameters(), lr=0.1)

        def step():
            learns.zero_grad()
            for _ in range(2):
                model(x).sum().backward()
            learns.step()
        return step
    f = traced(setup)
    marks = [at for at, phase in f.marks if phase == BACKWARD]
    end = next(at for at, phase in f.marks if phase == STEP)
    second = sizes_between(f, marks[1], end)
    assert [n for n in second if abs(n) == W] == [W, -W, W, -W]


def test_clipping(traced):
    """foreach: the norms of both layers in partial sums, 4 bytes for each of 1 chunk of 65,536 elements (256 x 256) and each
    tensor, then 4 a norm; no copy of a gradient."""
    f = traced(two_layers(torch.optim.SGD, before_step=lambda m: nn.utils.clip_grad_norm_(m.parameters(), 1.0)))
    assert not [n for n in asked(f.phase(0, STEP)) if n >= W]
    assert asked(f.phase(0, BACKWARD)).count(2 * 4 * 1) >= 1


def test_clipping_one_by_one(traced):
    f = traced(two_layers(torch.optim.SGD, before_step=lambda m: nn.utils.clip_grad_norm_(m.parameters(), 1.0, foreach=False)))
    # a norm a layer, stacked: 2 x 4 bytes; gradients are scaled in place
    assert asked(f.phase(0, BACKWARD)).count(W) == 2


# --- what is kept for the backward pass ---

def once(function, *shapes, dtype=torch.float32):
    """A forward pass alone; what it gives is kept until the next."""
    def setup():
        inputs = [torch.randn(shape, device="cuda", dtype=dtype, requires_grad=True) for shape in shapes]
        held = []

        def step():
            held.clear()
            held.append(function(*inputs))
        return step
    return setup


N = 64 * 1024


@pytest.mark.parametrize("function, expected", [
    (lambda x: F.dropout(x, 0.1), 4 * N + N),           # the result, and a mask of 1 byte an element (a CPU keeps 4)
    (F.relu, 4 * N),                                    # keeps its result, which is there anyway
    (lambda x: F.relu(x * 2, inplace=True), 4 * N),     # in place: the product's storage
    (F.gelu, 4 * N), (F.silu, 4 * N),                   # keep their input
    (lambda x: x.exp().log(), 8 * N),                   # the logarithm keeps the exponential
    (lambda x: x.view(64, 1024).t().contiguous(), 4 * N),
    (lambda x: x.view(64, 1024).softmax(-1), 4 * N),
])
def test_kept_for_the_backward_pass(traced, function, expected):
    assert kept(traced(once(function, (N,))).iteration(0)) == expected


def test_batch_norm_keeps_what_it_found(traced):
    """Result; mean and 1/deviation of 64 channels in fp32."""
    f = traced(once(lambda x: F.batch_norm(x, None, None, training=True), (8, 64, 16, 16)))
    assert kept(f.iteration(0)) == 8 * 64 * 256 * 4 + 2 * 64 * 4


def test_pooling_keeps_places(traced):
    """Result of 8 x 8 in fp32, and its places in int64."""
    f = traced(once(lambda x: F.max_pool2d(x, 2), (4, 8, 16, 16)))
    assert kept(f.iteration(0)) == 4 * 8 * 64 * (4 + 8)


def test_layer_norm_of_a_tensor_with_gaps_reads_a_copy(traced):
    """Copy, result, mean and 1/deviation of 32 x 8 rows; the copy is given back."""
    f = traced(once(lambda x: F.layer_norm(x.transpose(0, 1), (64,)), (8, 32, 64)))
    n = 8 * 32 * 64 * 4
    assert f.iteration(0) == [n, n, 8 * 32 * 4, 8 * 32 * 4, -n]


def test_linear_of_a_tensor_with_gaps_adds_its_bias_in_place(traced):
    """Input copied for the product, result: the bias takes nothing."""
    f = traced(once(F.linear, (8, 32, 64), (16, 64), (16,)))
    g = traced(once(lambda x, w, b: F.linear(x.transpose(0, 1), w, b), (8, 32, 64), (16, 64), (16,)))
    y = 8 * 32 * 16 * 4
    assert f.iteration(0) == [y] and asked(g.iteration(0)) == [8 * 32 * 64 * 4, y]


# --- attention ---

def attend(dtype, width=64, mask=None, keys=128, causal=False):
    def function(q, k, v):
        m = None if mask is None else torch.ones(128, keys, dtype=torch.bool, device="cuda") if mask == "bool" else \
            torch.zeros(128, keys, dtype=dtype, device="cuda")
        return F.scaled_dot_product_attention(q, k, v, attn_mask=m, is_causal=causal)
    return once(function, (2, 4, 128, width), (2, 4, keys, width), (2, 4, keys, width), dtype=dtype)


@pytest.mark.parametrize("dtype, width, mask, kernel", [
    (torch.float32, 64, None, EFFICIENT), (torch.float32, 64, "bool", EFFICIENT), (torch.float32, 63, None, MATH),
    (torch.bfloat16, 64, None, FLASH), (torch.bfloat16, 64, "float", EFFICIENT), (torch.float16, 256, None, FLASH),
    (torch.float16, 320, None, EFFICIENT), (torch.float64, 64, None, MATH),
])
def test_attention_kernels_of_an_a100(traced, dtype, width, mask, kernel):
    """Kept: the result and the log-sum-exp, 4 bytes for each of 2 x 4 x 128 rows; flash's state of the random generator (16 + 8
    bytes); math keeps the weights, 128 x 128 for each of 2 x 4 heads."""
    f = traced(attend(dtype, width, mask), gpu={"capability": (8, 0), "name": "NVIDIA A100"})
    size = torch.empty(0, dtype=dtype).element_size()
    result, rows = 2 * 4 * 128 * width * size, 2 * 4 * 128 * 4
    if kernel == MATH:
        assert 2 * 4 * 128 * 128 * size in asked(f.iteration(0)) and f.ops(ATTENTION) == []
        return
    assert set(f.ops(ATTENTION)) == {(kernel,)}
    random = 24 if kernel == FLASH else 0
    bias = 128 * 128 * size if mask else 0      # kept for the backward pass
    assert kept(f.iteration(0)) - random - bias in (result + rows, result + rows + 16)


@pytest.mark.skipif(VERSION < (2, 11), reason="prefers flash before 2.11")
def test_attention_of_an_h200_is_cudnns(traced):
    assert set(traced(attend(torch.bfloat16)).ops(ATTENTION)) == {(CUDNN,)}


# --- convolutions ---

def test_convolution(traced):
    """in 4 x 8 x 16 x 16, out 4 x 16 x 16 x 16, weight 16 x 8 x 3 x 3, all fp32; forward, then both gradients; 9 taps, 1 group,
    contiguous."""
    def setup():
        model = nn.Conv2d(8, 16, 3, padding=1, bias=False).cuda()
        x = torch.randn(4, 8, 16, 16, device="cuda", requires_grad=True)
        return lambda: model(x).sum().backward()
    f = traced(setup)
    figures = (4 * 8 * 256 * 4, 4 * 16 * 256 * 4, 16 * 8 * 9 * 4, 9, 1, 0)
    assert f.ops(CONV)[:3] == [(0, *figures), (1, *figures), (2, *figures)]


@pytest.mark.parametrize("weights_too", [True, False])
def test_channels_last(traced, weights_too):
    """Convolution takes the layout that input or weights have; the other is copied: here 16 x 8 x 3 x 3 weights."""
    def setup():
        model = nn.Conv2d(8, 16, 3, padding=1, bias=False).cuda()
        if weights_too:
            model = model.to(memory_format=torch.channels_last)
        x = torch.randn(4, 8, 16, 16, device="cuda").to(memory_format=torch.channels_last)
        held = []

        def step():
            held[:] = [model(x)]
            assert held[0].is_contiguous(memory_format=torch.channels_last)
        return step
    f = traced(setup)
    assert f.ops(CONV)[0][-1] == 1
    assert (16 * 8 * 9 * 4 in asked(f.iteration(0))) == (not weights_too)


def test_channels_last_weights_of_depthwise_layers(traced):
    """Their layout shows in strides alone; a contiguous input is copied."""
    def setup():
        model = nn.Conv2d(8, 8, 3, padding=1, groups=8, bias=False).cuda().to(memory_format=torch.channels_last)
        x, held = torch.randn(4, 8, 16, 16, device="cuda"), []

        def step():
            held[:] = [model(x)]
        return step
    n = 4 * 8 * 256 * 4
    assert traced(setup).iteration(0)[:3] == [n, n, -n]    # copy, result


# --- precision ---

def test_autocast_keeps_a_copy_of_each_weight_until_its_context_ends(traced):
    """fp16 copies of two weights, W / 2 each: used twice, made once."""
    def setup():
        model = nn.Sequential(nn.Linear(256, 256, bias=False), nn.Linear(256, 256, bias=False)).cuda()
        x = torch.randn(1, 256, device="cuda")

        def step():
            with torch.autocast("cuda", dtype=torch.float16):
                model(x)
                model(x)
        return step
    iteration = traced(setup).iteration(0)
    assert asked(iteration).count(W // 2) == 2 and iteration[-2:] == [-W // 2] * 2
    assert kept(iteration) == 0


def test_gradient_scaler(traced):
    """The scale and the tracker of its growth, 4 bytes each, once; a flag of 4 bytes and 1 / scale in each step; no gradient is
    copied."""
    scaler = []

    def setup():
        model = nn.Linear(256, 256, bias=False).cuda()
        x, learns = torch.randn(8, 256, device="cuda"), torch.optim.SGD(model.parameters(), lr=0.1)
        scaler.append(torch.amp.GradScaler("cuda"))

        def step():
            learns.zero_grad()
            scaler[0].scale(model(x).sum()).backward()
            scaler[0].step(learns)
            scaler[0].update()
        return step
    f = traced(setup)
    assert asked(f.iteration(1)).count(W) == 1
    assert f.header["flags"] == 0 and len([1 for _, p in f.marks if p == STEP]) == 3


# --- checkpointing ---

@pytest.mark.parametrize("reentrant", [True, False])
def test_checkpointing(traced, reentrant):
    """Four blocks of relu(x W), 256 samples: activations are as large as W. Kept by a block is its input alone; the product and
    relu's result come again in the backward pass. Without checkpointing relu's results stay: as many, so what differs is the
    exponential that a block keeps besides."""
    def job(checkpointed):
        def setup():
            blocks = [nn.Linear(256, 256, bias=False).cuda() for _ in range(4)]
            x = torch.randn(256, 256, device="cuda", requires_grad=True)

            def step():
                y = x
                for block in blocks:
                    def run(t, block=block):
                        return block(t).exp().sin()
                    y = torch.utils.checkpoint.checkpoint(run, y, use_reentrant=reentrant) if checkpointed else run(y)
                y.sum().backward()
                x.grad = None
                for block in blocks:
                    block.weight.grad = None
            return step
        return setup
    def forward_keeps(f):
        backward = [at for at, phase in f.marks if phase == BACKWARD][0]
        start = [at for at, phase in f.marks if phase == ITERATION][0]
        return sum(sizes_between(f, start, backward)) // W
    assert forward_keeps(traced(job(False))) == 4 * 2   # exponential and sine of each
    assert forward_keeps(traced(job(True))) == 4        # sine of each


# --- evaluation, embeddings, recurrence, the rest ---

def test_products_on_streams(traced):
    """Each has a workspace there (replay.c), and one of the backward pass, which goes where the forward pass went, wherever it
    is begun. There are 32 streams."""
    def setup():
        layers = [torch.nn.Linear(64, 64, bias=False).cuda() for _ in range(2)]
        streams = [torch.cuda.Stream() for _ in range(34)]

        def step():
            y = 0
            for layer, stream in zip(layers, streams[-2:]):
                with torch.cuda.stream(stream):
                    y = y + layer(torch.ones(8, 64, device="cuda", requires_grad=True)).sum()
            y.backward()
            torch.cuda.set_stream(streams[2])
            torch.ones(8, 8, device="cuda") @ torch.ones(8, 8, device="cuda")
            torch.cuda.set_stream(torch.cuda.default_stream())
            torch.ones(8, 8, device="cuda") @ torch.ones(8, 8, device="cuda")
        return step
    stream, found = 0, []
    for kind, argument, figures in traced(setup).records:
        stream = argument if kind == 3 else stream
        found += [(stream, figures[0])] if kind == 5 and argument == 1 else []
    assert found == [(1, 0), (2, 0), (2, 1), (2, 1), (1, 1), (1, 1), (3, 0), (0, 0)] * 3


def test_evaluation_keeps_nothing(traced):
    """Three layers; at most two activations of 512 x 256 x 4 at a time."""
    def setup():
        model = nn.Sequential(*[nn.Linear(256, 256, bias=False) for _ in range(3)]).cuda()
        x = torch.randn(512, 256, device="cuda")

        def step():
            with torch.no_grad():
                model(x)
        return step
    f = traced(setup)
    assert EVAL in [p for _, p in f.marks]
    assert peak_of(f.iteration(0)) == 2 * 512 * 256 * 4 and kept(f.iteration(0)) == 0


def test_embedding_gradient_of_many_indices_is_sorted(traced):
    """4000 indices of int64: sorted ones, their places and the places before, 8 bytes each; and 4000 / 10 + min(4000, 50)
    partial sums of 16 values in fp32."""
    def setup():
        table, ids = nn.Embedding(50, 16).cuda(), torch.zeros(4000, dtype=torch.long, device="cuda")

        def step():
            table.weight.grad = None
            table(ids).sum().backward()
        return step
    backward = traced(setup).iteration(0)
    assert asked(backward).count(8 * 4000) == 5     # the three, begins of stretches, and those of all rows
    assert 4 * 16 * (400 + 50) in backward


@pytest.mark.parametrize("mode, more", [("sum", 0), ("max", 256 * 16 * 8)])
def test_embedding_bags(traced, mode, more):
    """256 bags of 4: result 256 x 16 in fp32, the bag of each index and the bags' sizes in int64; maxima keep their places."""
    def setup():
        bag = nn.EmbeddingBag(100, 16, mode=mode).cuda()
        ids, held = torch.zeros(256 * 4, dtype=torch.long, device="cuda"), []
        begins = torch.arange(0, 1024, 4, device="cuda")

        def step():
            held[:] = [bag(ids, begins)]
        return step
    assert kept(traced(setup).iteration(0)) == 256 * 16 * 4 + 1024 * 8 + 256 * 8 + more


@pytest.mark.parametrize("half", [False, True])
def test_recurrent_networks_keep_a_reserve(traced, half):
    """LSTM of 1 layer, 10 steps of 4 samples, 32 wide: 5 values for each, and 256 bytes. While it runs: 8 MiB, 20 values for
    each, 2 for each of the input, 8 for each of 4 x 32 states, and the weights."""
    def setup():
        model = nn.LSTM(32, 32).cuda()
        x = torch.randn(10, 4, 32, device="cuda")

        def step():
            with torch.autocast("cuda", dtype=torch.float16, enabled=half):
                model(x)[0].float().sum().backward()
            model.zero_grad()
        return step
    f = traced(setup)
    assert 5 * 10 * 4 * 32 * (2 if half else 4) + 256 in f.iteration(0)
    assert 2 * (4 * 32 * 64 + 8 * 32) in asked(f.iteration(0)) if half else True    # autocast: all weights in one buffer
    weights = 4 * 32 * 64 + 8 * 32
    assert (8 << 20) + (22 * 10 * 4 * 32 + 8 * 4 * 32 + weights) * (2 if half else 4) in f.iteration(0)


# As bench/memory/scratch.py --recurrent measured it: type, layers, directions, width, values of the input, steps, batch; bytes.
@pytest.mark.parametrize("net, dtype, layers, both, width, into, steps, batch, measured", [
    (nn.LSTM, torch.float32, 1, False, 200, 200, 64, 48, 24837248), (nn.LSTM, torch.bfloat16, 1, False, 650, 8, 200, 10, 24972672),
    (nn.LSTM, torch.float32, 1, True, 256, 256, 20, 40, 34243136), (nn.LSTM, torch.bfloat16, 1, True, 64, 64, 64, 40, 21946944),
    (nn.GRU, torch.float32, 2, False, 128, 128, 20, 22, 22430144), (nn.GRU, torch.float16, 2, False, 256, 256, 128, 16, 24723840),
    (nn.RNN, torch.float32, 1, False, 100, 100, 35, 88, 27160768), (nn.RNN, torch.bfloat16, 1, True, 128, 128, 100, 144, 61662592),
])
def test_workspaces_of_recurrent_networks(traced, net, dtype, layers, both, width, into, steps, batch, measured):
    def setup():
        model = net(into, width, layers, bidirectional=both).to("cuda", dtype)
        x = torch.zeros(steps, batch, into, device="cuda", dtype=dtype)

        def step():
            model(x)[0].sum().backward()
            model.zero_grad()
        return step
    taken = [n for n in traced(setup).iteration(0) if n > 8 << 20]
    assert sum(n == pytest.approx(measured, rel=0.01) for n in taken) >= 3      # forwards, backwards, for the weights


def test_tied_weights_are_there_once(traced):
    """A table of 100 x 64 that is the head's weight: one storage, one gradient, to which the second is added."""
    def setup():
        table, head = nn.Embedding(100, 64), nn.Linear(64, 100, bias=False)
        head.weight = table.weight
        model = nn.ModuleList([table, head]).cuda()
        ids, learns = torch.zeros(8, dtype=torch.long, device="cuda"), torch.optim.AdamW(model.parameters(), fused=True)

        def step():
            learns.zero_grad()
            head(table(ids)).sum().backward()
            learns.step()
        return step
    f = traced(setup)
    size = 100 * 64 * 4
    setup_ends = [at for at, phase in f.marks if phase == ITERATION][0]
    assert [e for e in f.events[:setup_ends]].count(size) == 1
    assert kept(f.iteration(0)) // size == 3    # its gradient, and AdamW's two moments


def test_in_place_operators_take_nothing(traced):
    def setup():
        x = torch.randn(1000, device="cuda")
        return lambda: x.add_(1).mul_(2).clamp_(0).relu_()
    assert traced(setup).iteration(0) == []


def test_sum_of_booleans_reads_a_copy_in_int64(traced):
    """1000 booleans: 1000 x 8; the result's 8 are held by nobody."""
    def setup():
        hits = torch.ones(1000, dtype=torch.bool, device="cuda")

        def step():
            hits.sum().item()
        return step
    assert asked(traced(setup).iteration(0))[:2] == [8, 8000]


@pytest.mark.parametrize("test, path, flags", [
    (lambda x: torch.isfinite(x).all(), True, 0), (lambda x: torch.isnan(x).any(), False, 0), (lambda x: torch.isinf(x).any(), False, 0),
    (lambda x: ~torch.isfinite(x).all(), False, 0), (lambda x: (x > 1).any(), True, 0), (lambda x: (x > 1).all(), False, DATA_DEPENDENT),
    (lambda x: torch.isnan(x).any() | (x > 1).any(), False, DATA_DEPENDENT),
])
def test_branches_take_the_path_of_ordinary_numbers(traced, test, path, flags):
    """Which is told, but where it is asked whether they are some. A mask holds somewhere, as it does where it is an index."""
    def setup():
        x = torch.randn(1000, device="cuda")

        def step():
            if test(x):
                torch.empty(77, device="cuda")
        return step
    f = traced(setup)
    assert (77 * 4 in f.iteration(0)) == path
    assert f.header["flags"] == flags


# --- several processes ---

def parallel(views, unused=False, cap=25, world=2):
    def setup():
        torch.distributed.init_process_group("nccl", rank=0, world_size=world)
        model = nn.Sequential(nn.Linear(256, 256, bias=False), nn.Linear(256, 256, bias=False)).cuda()
        model = nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=views, bucket_cap_mb=cap,
                                                    find_unused_parameters=unused)
        x, learns = torch.randn(8, 256, device="cuda"), torch.optim.SGD(model.parameters(), lr=0.1)

        def step():
            learns.zero_grad()
            model(x).sum().backward()
            learns.step()
            torch.distributed.all_reduce(x)
        return step
    return setup


@pytest.mark.parametrize("views", [False, True])
def test_buckets_of_data_parallel_training(traced, views):
    """One bucket of 2 W; gradients are W each besides, or parts of the bucket. In the setup both weights are sent in one flat
    copy of 2 W. Once the order of gradients is known, a bucket of theirs takes the first one's place."""
    f = traced(parallel(views))
    begin = [at for at, phase in f.marks if phase == ITERATION][0]
    assert [n for n in sizes_between(f, 0, begin) if abs(n) > W] == [2 * W, -2 * W, 2 * W]
    assert kept(f.iteration(0)) // W == (0 if views else 2)
    assert [n for n in f.iteration(1) if abs(n) > W] == [-2 * W, 2 * W] and not [n for n in f.iteration(2) if abs(n) > W]
    assert (f.header["communicators"], f.header["flags"]) == (1, PAIR)
    assert "distributed: the first of 2 processes was captured" in f.notes


def test_a_process_alone_is_not_the_first_of_several(traced):
    assert "distributed: the only process was captured" in traced(parallel(True, world=1)).notes


def test_more_than_two_processes_are_no_pair(traced):
    f = traced(parallel(True, world=3))
    assert (f.header["communicators"], f.header["flags"]) == (1, 0)


def test_normalization_over_all_processes(traced):
    """Its result, the gradient of that, which is copied since it has gaps, and that of the input; statistics, one number a
    channel, are gathered."""
    def setup():
        net = torch.nn.SyncBatchNorm(3 * 64).cuda()
        torch.distributed.init_process_group("nccl", rank=0, world_size=2, store=torch.distributed.HashStore())
        x = torch.ones(8, 192, 16, 16, device="cuda", requires_grad=True)
        return lambda: net(x).sum().backward()
    f = traced(setup)
    assert f.header["flags"] & 3 == 0, f.notes
    whole, one = 8 * 192 * 256 * 4, 192 * 4
    assert f.iteration(1).count(whole) == 3 and f.iteration(1).count(one) >= 6 and 2 * (2 * one + 4) in f.iteration(1)


def test_small_buckets_stay_where_gradients_may_be_missing(traced):
    """Buckets are closed at 1 MiB, then at 0.25 MiB: here W each after the first of 2 W (less than 1 MiB in all)."""
    f = traced(parallel(True, unused=True, cap=0.25))
    assert [n for n in f.iteration(1) if abs(n) > W] == []


def adam_steps(model):
    x, learns = torch.randn(8, 256, device="cuda"), torch.optim.Adam(model.parameters())

    def step():
        learns.zero_grad()
        model(x).sum().backward()
        learns.step()
    return step


def sharded(world, before=lambda model: model.cuda(), after=lambda model: None):
    """Two weights of W, sharded apart by FSDP2."""
    def setup():
        from torch.distributed.fsdp import fully_shard
        torch.distributed.init_process_group("nccl", rank=0, world_size=world)
        model = nn.Sequential(nn.Linear(256, 256, bias=False), nn.Linear(256, 256, bias=False))
        before(model)
        for part in (*model, model):
            fully_shard(part)
        after(model)
        return adam_steps(model)
    return setup


@pytest.mark.parametrize("world", [1, 2])
@pytest.mark.parametrize("before", [nn.Module.cuda, lambda _: None], ids=["moved before", "moved by it"])
def test_fully_sharded_training(traced, world, before):
    """Of two weights a process has its share, and as much of gradients and of each of Adam's two averages; a whole weight is
    there while it is used, in the forward pass the next one beside it. The averages are there after the first step."""
    f = traced(sharded(world, before))
    share = 2 * W // world
    assert kept(f.iteration(0)) // W == 3 * share // W and kept(f.iteration(1)) // W == 0
    assert sum(n for n in f.phase(1, STEP) if abs(n) > 1024) == 0
    assert f.peak_bytes == pytest.approx(max(5 * share, 4 * share + 2 * W), rel=0.1)
    assert f.header["params"] == 2 * 256 * 256 and f.marks[2][1] == FORWARD
    assert f"distributed: {'the first of 2 processes' if world > 1 else 'the only process'} was captured" in f.notes


def test_fully_sharded_training_from_meta(traced):
    def begin(model):
        model.to_empty(device="cuda")
        for layer in model:
            layer.reset_parameters()
    found = [traced(sharded(1, before, after)) for before, after in ((nn.Module.cuda, lambda _: None), (lambda m: m.to("meta"), begin))]
    assert found[0].peak_bytes == found[1].peak_bytes and found[0].iteration(2) == found[1].iteration(2)


@pytest.mark.parametrize("device", [0, None, torch.device("cuda")])
def test_the_older_form_of_sharded_training(traced, device):
    """FSDP1: beside a process's share of weights, gradients and averages, two gathered weights and a whole gradient; and a doubt."""
    def setup():
        from torch.distributed.fsdp import FullyShardedDataParallel
        torch.distributed.init_process_group("nccl", rank=0, world_size=2)
        model = nn.Sequential(*(FullyShardedDataParallel(nn.Linear(256, 256, bias=False).cuda(), device_id=device) for _ in range(2)))
        model = FullyShardedDataParallel(model, device_id=device)
        return adam_steps(model)
    f = traced(setup)
    assert f.peak_bytes == pytest.approx(4 * W + 3 * W, rel=0.05)
    assert f.header["flags"] & 2 and any("fully_shard()" in note for note in f.notes)


def test_parameters_that_are_moved_by_hand(traced):
    def setup():
        model = nn.Linear(256, 256)
        learns = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        for p in model.parameters():
            p.data = p.data.cuda()

        def step():
            model(torch.randn(8, 256, device="cuda")).sum().backward()
            learns.step()
        return step
    f = traced(setup)
    assert f.header["params"] == 257 * 256 and kept(f.iteration(0)) // W == 2  # gradients and momentum


@pytest.mark.parametrize("words, processes, rest", [
    ("torchrun --standalone --nproc-per-node=2 train.py --nproc 3", 2, ["train.py", "--nproc", "3"]),
    ("/venv/bin/torchrun --nnodes 2 --nproc_per_node 4 --rdzv-backend c10d -m pkg.train x", 8, ["-m", "pkg.train", "x"]),
    ("-m torch.distributed.run --nproc-per-node gpu train.py", 3, ["train.py"]),
    ("torchrun --nproc_per_node=auto --virtual-local-rank train.py", 3, ["train.py"]),
    ("-m torch.distributed.launch --nproc_per_node=4 --use_env main.py --coco x", 4, ["main.py", "--coco", "x"]),
    ("-m torch.distributed.launch --nproc_per_node 4 main.py -b 2", 4, ["main.py", "--local-rank=0", "-b", "2"]),
    ("train.py torchrun", 0, ["train.py", "torchrun"]),
])
def test_launchers(words, processes, rest):
    from radrm.capture.distributed import launcher
    assert launcher(words.split(), 3) == (processes, rest)


@pytest.mark.parametrize("make, whole", [
    (lambda: torch.ones(4, 8, dtype=torch.long, device="cuda"), True),
    (lambda: torch.ones(4, 8, dtype=torch.long).cuda(), True),
    (lambda: (torch.arange(8) < 5).expand(4, 8).cuda(), False), (lambda: torch.ones(4, 8, device="cuda").fill_(0), False),
])
def test_masks_whose_values_are_known(traced, make, whole):
    """A mask of ones is left out by models that look at it, which saves one of batch x length x length."""
    def setup():
        mask = make()

        def step():
            if not mask.to(torch.bool)[:, None, :6].all():
                torch.empty(4, 1, 8, 8, device="cuda")
        return step
    assert (4 * 64 * 4 in traced(setup).iteration(0)) == (not whole)


@pytest.mark.parametrize("autocast", [False, True])
def test_a_mask_that_learns_is_added_in_place(traced, autocast):
    """A mask whose rows have gaps is for attention of plain operators alone. 2 x 8 matrices of 64 x 64: the products and their
    softmax, and no sum beside them; in fp32 under autocast too."""
    def setup():
        q = torch.randn(2, 8, 64, 32, device="cuda", requires_grad=True)
        bias = torch.randn(64, 64, 8, device="cuda", requires_grad=True)

        def step():
            with torch.autocast("cuda", torch.bfloat16, enabled=autocast):
                torch.nn.functional.scaled_dot_product_attention(q, q, q, attn_mask=bias.permute(2, 0, 1)[None])
        return step
    assert asked(traced(setup).iteration(0)).count(2 * 8 * 64 * 64 * 4) == 2


def test_learning_through_second_derivatives(capture):
    """The engine makes zeros for what torch.func gave."""
    code, said, f = capture("""
        import torch
        from torch.func import hessian, vmap
        net = torch.nn.Sequential(torch.nn.Linear(16, 128), torch.nn.Tanh(), torch.nn.Linear(128, 1)).cuda()
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for step in range(100):
            x = torch.randn(256, 16, device="cuda")
            vmap(hessian(lambda one: net(one).squeeze()))(x).pow(2).mean().backward()
            optimizer.step()
            optimizer.zero_grad()
    """)
    assert code == 0 and f.steps == 100, said
