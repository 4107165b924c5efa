# SPDX-License-Identifier: MIT
"""What the GPU and the host have to do in one training step: for every kernel what it computes, what it moves and into how many
blocks it is cut; for the host how many operators it dispatches.

Which kernel a library takes, and how long that takes, is the reader's knowledge (models/activity.h), since it depends on the
GPU. Here stands only what follows from operators and shapes: alike kernels are counted together (see `Work.entries`).
"""
import functools
import math
import operator

import torch
from torch._subclasses.fake_tensor import FakeTensor

from . import fileformat as ff
from . import limits

max, min = max, min  # while a capture runs there are others, which take longer
TILE = (128, 64)    # results of a matrix product that one block is taken to compute
CHUNK = 65536       # elements of one tensor that one block of a multi-tensor kernel handles
LISTED = (110, 64, 48, 36, 30)  # tensors one such kernel takes, by the number of lists
CHUNKS = 320        # and blocks
FINE = 4            # kernels whose figures differ by less than this part of an octave are alike

def is_gpu(tensor):
    return isinstance(tensor, FakeTensor) and tensor.fake_device.type == "cuda"


NOTHING = {"empty", "empty_strided", "empty_like", "new_empty", "new_empty_strided", "_unsafe_view", "lift_fresh", "detach", "alias",
           "set_", "resize_", "is_same_size", "sym_size", "sym_stride", "record_stream", "_has_compatible_shallow_copy_type",
           "empty_permuted", "_reshape_alias", "_nested_tensor_from_mask"}
REDUCTIONS = {"sum", "mean", "amax", "amin", "max", "min", "prod", "argmax", "argmin", "norm", "linalg_vector_norm", "any", "all",
              "var", "std", "var_mean", "std_mean", "logsumexp", "count_nonzero", "aminmax", "_amp_foreach_non_finite_check"}
GATHERS = {"embedding", "index", "index_select", "gather", "take", "take_along_dim", "_embedding_bag", "grid_sampler_2d",
           "_embedding_bag_forward_only"}
SCATTERS = {"embedding_dense_backward", "_embedding_bag_dense_backward", "_embedding_bag_backward", "index_put", "index_put_",
            "_index_put_impl_", "_unsafe_index_put", "index_add", "index_add_", "scatter", "scatter_", "scatter_add",
            "scatter_add_", "index_copy", "index_copy_", "scatter_reduce", "index_fill_", "masked_scatter_backward"}
SORTS = {"sort", "topk", "cumsum", "cumprod", "unique", "_unique2", "nonzero", "argsort", "searchsorted", "bincount", "histc",
         "masked_select", "kthvalue", "median", "multinomial", "randperm", "roll"}
COPIES = {"copy_", "clone", "cat", "stack", "_to_copy", "contiguous", "constant_pad_nd", "slice_backward", "select_backward",
          "repeat", "flip", "split_with_sizes_copy", "as_strided_copy", "_foreach_copy_", "im2col", "col2im", "pixel_shuffle"}
POOLS = ("pool", "upsample", "unfold_backward", "reflection_pad", "replication_pad", "interpolate")
NORMS = ("batch_norm", "layer_norm", "group_norm", "rms_norm", "instance_norm")
SOFTMAXES = ("softmax", "nll_loss", "cross_entropy", "ctc_loss")


def class_by_name(name):
    """The class of an operator that no rule below knows, by what it is called."""
    plain = name.removesuffix("_backward")
    if name.startswith("_foreach") or name.startswith("_fused_") and name.endswith("_"):
        return ff.MANY
    if any(part in name for part in NORMS):
        return ff.NORM
    if any(part in name for part in SOFTMAXES):
        return ff.SOFTMAX
    if any(part in name for part in POOLS):
        return ff.POOL
    for names, which in ((REDUCTIONS, ff.REDUCE), (GATHERS, ff.GATHER), (SCATTERS, ff.SCATTER), (SORTS, ff.SORT),
                         (COPIES, ff.COPY)):
        if name in names or plain in names and which not in (ff.GATHER, ff.REDUCE):
            return which
    return ff.POINTWISE


def tensors_in(values):
    """GPU tensors among arguments, lists of them included."""
    for value in values:
        if isinstance(value, torch.Tensor):
            if is_gpu(value):
                yield value
        elif isinstance(value, (list, tuple)):
            yield from tensors_in(value)


def touched(tensor):
    """Bytes of the elements that lie behind a tensor: those of an expanded one once."""
    size = tensor.element_size()
    for n, stride in zip(tensor.shape, tensor.stride()):
        if stride or n <= 1:
            size *= n
    return size


def up(a, b):
    return -(-a // b)


def unit_of(dtype, convolution=False):
    """The units that multiply matrices of that type."""
    if dtype in (torch.float16, torch.bfloat16):
        return ff.HALF
    if dtype == torch.float32:
        allowed = torch.backends.cudnn.allow_tf32 if convolution else torch.backends.cuda.matmul.allow_tf32
        return ff.TF32 if allowed else ff.SINGLE
    return ff.DOUBLE if dtype in (torch.float64, torch.complex128) else ff.SINGLE


BETWEEN = (ff.SETUP, ff.ITERATION, ff.EVAL, ff.ZERO_GRAD)  # phases that are over when something learns


RATES = {ff.NONE: 4e13, ff.SINGLE: 4e13, ff.TF32: 2e14, ff.HALF: 4e14, ff.DOUBLE: 3e13}  # operations a second, about


@functools.lru_cache(100_000)
def bounded(flops, moved, blocks, depth):
    """(these, as a file has them, their steps): most kernels are like others."""
    figures = [min(max(int(n), 0), limits.MAX_WORK) for n in (flops, moved, max(blocks, 1), depth)]
    return figures, [round(FINE * math.log2(n + 1)) for n in figures]


class Tally:
    """What was done."""

    def __init__(self):
        self.kernels = {}  # (class, unit, layout, figures in steps) -> [count, flops, bytes, blocks, depth]
        self.host = dict.fromkeys(ff.HOST_FIELDS, 0)

    def add(self, which, flops, moved, blocks, *, unit=ff.NONE, layout=0, depth=0, count=1):
        """`count` kernels with these figures each."""
        figures, steps = bounded(flops, moved, blocks, depth)
        key = which, unit, layout, *steps
        entry = self.kernels.setdefault(key, [0] * (1 + len(figures)))
        entry[0] += count
        for n, figure in enumerate(figures, 1):
            entry[n] += count * figure

    def seconds(self):
        """Roughly, on any GPU: good for comparing with another."""
        gpu = sum(2e-6 * n + max(flops / RATES[key[1]], moved / 2e12) for key, (n, flops, moved, *_) in self.kernels.items())
        return max(gpu, 5e-6 * sum(self.host[name] for name in ("forward", "backward", "updates", "modules")))

    def size(self):
        return sum(entry[2] for entry in self.kernels.values()), sum(self.host.values())

    def include(self, other):
        for name, n in other.host.items():
            self.host[name] += n
        for key, entry in other.kernels.items():
            self.kernels[key] = list(map(operator.add, self.kernels.get(key, [0] * len(entry)), entry))

    def entries(self):
        """(class, unit, layout, count, flops, bytes, blocks, depth) of alike kernels, sums over all of them. Where there are too
        many, what is alike is taken more widely: within an octave, then all of a class."""
        found = [(*key[:3], *entry) for key, entry in self.kernels.items()]
        for fine in (True, False):
            if len(found) <= limits.MAX_KERNELS:
                break
            together = {}
            for entry in found:
                key = (*entry[:3], *((n // entry[3]).bit_length() for n in entry[4:6] if fine))
                together[key] = tuple(map(operator.add, together[key], entry[3:])) if key in together else entry[3:]
            found = [(*key[:3], *sums) for key, sums in together.items()]
        return sorted((*entry[:3], *(min(n, limits.MAX_WORK) for n in entry[3:])) for entry in found)


class Work:
    """The work of one iteration. `enter` is told of each phase, `note` of each operator on the GPU once it has run.

    What is done without gradients, and before a forward pass learns, is counted beside the rest. A step of the training has of it
    what every iteration has: a batch that comes, a teacher's forward pass, an average of the weights. What comes between some
    steps, as an evaluation, is no part of one."""

    def __init__(self, recorder):
        self.recorder = recorder
        self.phase = ff.SETUP
        self.kinds = {}  # operator -> (rule or None for no kernel, class)
        self.whole = self.least = None  # of the last iteration that is over; the least that one did beside
        self.begin()
        self.clear()

    def begin(self):
        """Another kind of iteration begins."""
        self.seen = 0  # of them that are over

    def clear(self):
        self.learning, self.beside = Tally(), Tally()

    @property
    def tally(self):
        return self.learning if self.phase == ff.STEP or self.recorder.learns(self.phase in BETWEEN) else self.beside

    @property
    def host(self):
        return self.tally.host

    def enter(self, phase):
        if phase == ff.ITERATION:
            if self.learning.host["backward"]:
                self.end()
            self.clear()
        self.phase = phase

    def end(self):
        """Of what the first iteration does nothing is known when there are others: what comes between two steps is in none of it."""
        self.seen += 1
        self.whole = self.learning
        if self.seen <= 2 or self.beside.size() < self.least.size():
            self.least = self.beside

    def result(self, parameters):
        """(host, entries) of the last iteration that was seen whole: the one that runs is, once its optimizer has stepped.
        `parameters`: tensors that the optimizers hold."""
        if self.whole is None or self.learning.host["updates"]:
            self.end()
        step = Tally()
        step.include(self.whole)
        step.include(self.least)
        return {**step.host, "parameters": parameters}.values(), step.entries()

    def of(self, call, which="beside"):
        """(what call() gives, its Tally) of something that does not learn, or does (`learning`)."""
        before = self.swap(which)
        try:
            return call(), getattr(self, which)
        finally:
            self.swap(which, before)

    def swap(self, which, before=None):
        """Begins a Tally of its own, and returns what was counted before; or goes on with that, and returns what was counted of its own."""
        now = getattr(self, which)
        if before:
            before.include(now)
        setattr(self, which, before or Tally())
        return now

    # --- what operators do ---

    def note(self, recorder, func, args, kwargs, result):
        known = self.kinds.get(func)
        if known is None:
            known = self.kinds[func] = self.kind(func)
        rule, which = known
        if rule is None:
            self.host["views"] += 1
            return
        self.host["backward" if recorder.in_backward else "updates" if self.phase == ff.STEP else "forward"] += 1
        if any(isinstance(t, torch.Tensor) and t.layout is not torch.strided for t in (*args, result)):
            rule, which = plain, ff.GATHER
            args, result = recorder.values_of(args), recorder.values_of((result,))[0]
        try:
            rule(self, which, args, kwargs, result)
        except (AttributeError, IndexError, KeyError, TypeError, ValueError) as e:  # its arguments are not those we know
            recorder.note(0, f"{func}: what it computes is not known, the load is told without it: {type(e).__name__}: {e}")

    def kind(self, func):
        schema, name = func._schema, func._schema.name.removeprefix("aten::")
        returned = [r.alias_info for r in schema.returns]
        if name in NOTHING or returned and all(a is not None and not a.is_write for a in returned):
            return None, None
        if name in RULES:
            return RULES[name], name
        which = class_by_name(name)
        return (many if which == ff.MANY else plain), which

    def add(self, *figures, **more):
        self.tally.add(*figures, **more)


# --- rules: rule(work, class, args, kwargs, result) ---

def plain(work, which, args, kwargs, result):
    """One kernel that reads its arguments and writes its results; the blocks are those of its largest tensor."""
    read, written = list(tensors_in((*args, *kwargs.values()))), list(tensors_in((result,)))
    if not read and not written:
        return
    largest = max(t.numel() for t in (*read, *written))
    moved = sum(touched(t) for t in written)
    if which == ff.GATHER:
        moved += moved + sum(touched(t) for t in read[1:])
    elif which == ff.SCATTER:
        moved += sum(touched(t) for t in read if t.numel() < largest) * 2
    else:
        moved += sum(touched(t) for t in read)
    work.add(which, largest, moved, blocks_of(which, largest, read, written))


def blocks_of(which, largest, read, written):
    """Into how many blocks the kernel is cut, roughly."""
    if which in (ff.NORM, ff.SOFTMAX) and written:
        shape = max((*read, *written), key=torch.Tensor.numel).shape
        return up(largest, max(shape[-1] if shape else 1, 1))
    if which == ff.REDUCE and written:
        return max(up(largest, 4096), min(written[0].numel(), 1 << 20))
    return up(largest, 1024)


def batch_norm(work, which, args, kwargs, result):
    """A block for each channel, which goes over it twice. Outside of training it is one more product and sum for each element."""
    read, written = list(tensors_in((*args, *kwargs.values()))), list(tensors_in((result,)))
    source = read[0]
    training = any(a is True for a in args) or "backward" in str(which)
    moved = sum(touched(t) for t in (*read, *written))
    if not training or source.dim() < 2:
        work.add(ff.POINTWISE, source.numel(), moved, up(source.numel(), 1024))
        return
    from .kernels import channels_last
    half = all(t.dtype in (torch.float16, torch.bfloat16) for t in read[:2])
    work.add(ff.CHANNEL_NORM, source.numel(), moved, source.shape[1], unit=ff.HALF if half else ff.NONE,
             layout=int(channels_last(source)), depth=source.numel() // max(source.shape[1], 1))


def listed(values):
    """The lists of tensors among arguments; of a single tensor argument, none."""
    return [v for v in values if isinstance(v, (list, tuple)) and v and isinstance(v[0], torch.Tensor)]


def many(work, which, args, kwargs, result):
    """A kernel over lists of tensors, cut so that each takes no more tensors and blocks than it has room to name."""
    lists = listed((*args, *kwargs.values()))
    if not lists:
        return plain(work, ff.POINTWISE, args, kwargs, result)
    sizes = [t.numel() for t in lists[0]]
    made = [] if result is None else listed((result,))
    depth = min(len(lists) + len(made), len(LISTED))
    launches, tensors, blocks = 1, 0, 0
    for size in sizes:
        if tensors == LISTED[depth - 1]:
            launches, tensors, blocks = launches + 1, 0, 0
        tensors += 1
        blocks += up(max(size, 1), CHUNK)
        if blocks > CHUNKS:
            launches, tensors, blocks = launches + up(blocks, CHUNKS) - 1, 1, blocks % CHUNKS
    work.host["listed"] += len(sizes)
    moved = sum(touched(t) for some in lists for t in some if is_gpu(t))
    moved += moved if not made else sum(touched(t) for t in made[0])
    chunks = sum(up(max(size, 1), CHUNK) for size in sizes)
    work.add(which, sum(sizes) / launches, moved / launches, chunks / launches, count=launches)


def gemm(work, which, args, kwargs, result):
    """(m, k) x (k, n), or batches of them: the last two matrices among the arguments."""
    matrices = [t for t in tensors_in(args) if t.dim() >= 2][-2:]
    if len(matrices) < 2:
        return plain(work, ff.POINTWISE, args, kwargs, result)
    first, second = matrices
    moved = touched(first) + touched(second) + result.numel() * result.element_size()
    batch = first.shape[0] if first.dim() == 3 else 1
    m, n, k = first.shape[-2], second.shape[-1], first.shape[-1]
    lines = {second.shape[-1] if second.stride(-1) == 1 else k, k if first.stride(-1) == 1 else m, n}
    uneven = any(length * first.element_size() % 16 for length in lines)
    work.add(ff.PRODUCT, 2 * m * n * k * batch, moved, up(m, TILE[0]) * up(n, TILE[1]) * batch, unit=unit_of(first.dtype),
             layout=2 * uneven, depth=k)


def vector_product(work, which, args, kwargs, result):
    plain(work, ff.REDUCE, args, kwargs, result)


def convolve(work, direction, source, out, weight, groups, last):
    """One of the three passes, as a product of matrices: what is summed over is (k), what is left is (m, n), in each group."""
    channels, taps = weight.shape[1], math.prod(weight.shape[2:])
    pixels, before = source.numel() // max(source.shape[1], 1), out.numel() // max(out.shape[1], 1)
    each = out.shape[1] // groups
    moved = touched(source) + touched(out) + touched(weight)
    alone = groups > 1 and channels == 1
    which = ((ff.DEPTHWISE, ff.DEPTHWISE, ff.DEPTHWISE_WEIGHTS) if alone
             else (ff.CONV_OUT, ff.CONV_INPUT, ff.CONV_WEIGHTS))[direction]
    m, n, k = ((before, each, channels * taps), (pixels, channels, each * taps), (each, channels * taps, before))[direction]
    flops = 2 * before * each * channels * taps * groups
    if alone:
        images, sums = out.shape[0], before // max(out.shape[0], 1)
        blocks, depth = (up(max(source.numel(), out.numel()), 1024), taps) if direction < 2 else (
            out.shape[1] * taps, images * up(sums, 32) * 32)
        work.add(which, flops, moved, blocks, unit=unit_of(source.dtype, True), layout=last, depth=depth)
        return
    blocks = up(m, TILE[0]) * up(n, TILE[1]) * groups
    work.add(which, flops, moved, blocks, unit=unit_of(source.dtype, True), layout=last + 2 * (groups > 1), depth=k)


def convolution(work, which, args, kwargs, result):
    from .kernels import channels_last
    source, weight, transposed, groups = args[0], args[1], args[6], args[8]
    last = int(channels_last(source) or channels_last(weight))
    if transposed:
        convolve(work, 1, result, source, weight, groups, last)
    else:
        convolve(work, 0, source, result, weight, groups, last)


def convolution_backward(work, which, args, kwargs, result):
    from .kernels import channels_last
    gradient, source, weight, transposed, groups = args[0], args[1], args[2], args[7], args[9]
    last = int(channels_last(source) or channels_last(weight))
    outer, inner = (gradient, source) if not transposed else (source, gradient)
    if result[0] is not None:
        convolve(work, 0 if transposed else 1, inner, outer, weight, groups, last)
    if result[1] is not None:
        convolve(work, 2, inner, outer, weight, groups, last)
    if result[2] is not None:
        plain(work, ff.REDUCE, (gradient,), {}, result[2])


# Where an operator has the argument that says whether the mask is causal.
CAUSAL = {"_scaled_dot_product_flash_attention": 4, "_scaled_dot_product_efficient_attention": 6,
          "_scaled_dot_product_cudnn_attention": 6, "_scaled_dot_product_flash_attention_backward": 11,
          "_scaled_dot_product_efficient_attention_backward": 11, "_scaled_dot_product_cudnn_attention_backward": 14}


def attention(work, name, args, kwargs, result):
    """Two products forward, five backward; a causal one computes half of them."""
    backward, where = name.endswith("_backward"), CAUSAL[name]
    query, key = args[1:3] if backward else args[:2]
    batch, heads, length, width = query.shape
    causal = kwargs.get("is_causal", len(args) > where and args[where])
    products = (5 if backward else 2) * (0.5 if causal and length == key.shape[2] else 1)
    moved = sum(touched(t) for t in tensors_in((*args[:6], result)) if t.dim() >= 2)
    rows, depth = (key.shape[2], length) if backward else (length, key.shape[2])
    work.add(ff.ATTENTIVE, products * 2 * batch * heads * length * key.shape[2] * width, moved,
             batch * heads * up(rows, 128), unit=unit_of(query.dtype), depth=depth)


def recurrent(work, which, args, kwargs, result):
    """One product a step, layer and direction; the same again for the gradients of states, and of weights in one for all."""
    data, weights = args[0], args[1]
    backward = len(args) > 16
    hx = args[4]
    first, sizes = (args[14], args[18]) if backward else (args[10], args[14])
    if sizes:  # packed: how many sequences each step has; a mean one
        steps, batch = len(sizes), sum(sizes) / len(sizes)
    else:
        steps, batch = (data.shape[1], data.shape[0]) if first is True else data.shape[:2]
    cells = hx.shape[0]
    each = sum(w.numel() for w in weights if w.dim() > 1) // max(cells, 1)
    size = data.element_size()
    turns = steps * cells
    work.add(ff.RECURRENT, 2 * each * batch, (each + 8 * batch * hx.shape[-1]) * size, up(each, TILE[0] * TILE[1]),
             unit=unit_of(data.dtype, True), depth=hx.shape[-1], count=turns)
    if backward:
        work.add(ff.PRODUCT, 2 * each * batch * steps, each * size + 5 * batch * steps * hx.shape[-1] * size,
                 up(each, TILE[0] * TILE[1]), unit=unit_of(data.dtype, True), depth=batch * steps, count=cells)


def to_copy(work, which, args, kwargs, result):
    """A copy on the GPU, or one to it or from it, which is another thing."""
    source = args[1] if isinstance(args[1] if len(args) > 1 else None, torch.Tensor) else args[0]
    target = args[0] if source is not args[0] else result
    if is_gpu(source) and is_gpu(target):
        work.add(ff.COPY if source.dtype == target.dtype else ff.POINTWISE, target.numel(), touched(source) + touched(target),
                 up(target.numel(), 1024))
        return
    if target.numel() == 0:
        return
    work.host["transferred"] += touched(target)
    work.host["transfers"] += 1


def wait(work, which, args, kwargs, result):
    work.host["waits"] += 1


RULES = {
    **{name: gemm for name in ("mm", "bmm", "addmm", "baddbmm", "addbmm", "_addmm_activation", "_scaled_mm", "_int_mm")},
    **{name: vector_product for name in ("mv", "addmv", "dot", "vdot")},
    **{name: attention for name in CAUSAL},
    **{name: to_copy for name in ("_to_copy", "copy_")},
    **{name: wait for name in ("_local_scalar_dense", "item", "is_nonzero", "equal")},
    **{name: batch_norm for name in ("native_batch_norm", "_native_batch_norm_legit", "native_batch_norm_backward",
                                     "cudnn_batch_norm", "cudnn_batch_norm_backward", "_batch_norm_with_update")},
    "convolution": convolution, "convolution_backward": convolution_backward,
    "_cudnn_rnn": recurrent, "_cudnn_rnn_backward": recurrent,
}
