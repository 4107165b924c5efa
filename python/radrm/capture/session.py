# SPDX-License-Identifier: MIT
"""One capture: everything is put in place, a script or a function runs, iterations are told apart, a file comes out."""
import functools
import math
import os
import sys
import weakref

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from . import fileformat as ff
from . import attention, distributed, drawn, given, indexing, kernels, layers, lbfgs, linalg, losses, products, recurrent, repeated, sparse
from . import together, usedup, values
from .between import filled
from .ending import End, bring
from .gpu import Gpu
from .later import Later
from .length import Length
from .loading import Loading
from .masked import Masked
from .onhost import OnHost
from .recorder import Recorder, is_gpu
from .repeated import Repeated
from .silence import Silence
from .varied import Varied


class Finished(End):
    """Enough iterations were seen."""


def alloc_conf(environment):
    """The job's allocator configuration. ValueError when the two variables differ: which one wins depends on the version."""
    old, new = environment.get("PYTORCH_CUDA_ALLOC_CONF"), environment.get("PYTORCH_ALLOC_CONF")
    if old and new and old != new:
        raise ValueError(f"PYTORCH_CUDA_ALLOC_CONF={old!r} and PYTORCH_ALLOC_CONF={new!r} differ: which one PyTorch takes "
                         "depends on its version. Set one of them")
    return old or new or ""


PARTS = 1000  # forward passes at most that are parts of one, as of a model whose steps are modules, before the first optimizer is made
STEADY = 100  # forward passes without an optimizer after which a peak that did not grow is believed
TAUGHT = 10  # likewise, backward passes
GROWN = 1.001  # times as much; losses that are kept are no growth
MANY = 1000  # steps of a run of which it is not known how many it has
STATE = 2  # times the parameters: of most optimizers
LEAKED = 0.1  # of what it takes otherwise: less of what is left behind in a run is claimed (models/margins.h), more is told
SETTLING = 3  # steps more, where each left something behind: what is kept of the last evaluation, then of the best one too, does not grow
CONTEXT = 632 << 20  # bytes beside tensors, about (models/overheads.h)
LATER = 10  # steps that an optimizer which has not stepped is waited for, as a generator's, or a training after a first one
MOST = 4  # times as many are enough however many optimizers are made


class Session:
    """Use as a context. `iterations`: how many optimizer steps to see before Finished is raised by the last one's end (None:
    never; begin_iteration() is called from outside). Where no optimizer was made each backward pass ends an iteration, as where a
    script changes its parameters by hand, or without one, as in an evaluation, each outermost forward pass is one. Finished is then
    raised when many of them did not take more than those before."""

    def __init__(self, iterations=None, gpu=None):
        self.recorder = Recorder()
        self.recorder.masked, self.recorder.host = Masked(), OnHost(self.recorder)
        self.gpu, self.silence = Gpu(self.recorder, **(gpu or {})), Silence(functools.partial(self.recorder.note, 0))
        self.repeated = Repeated(self.recorder)
        self.varied = Varied(self.recorder)
        self.iterations = iterations
        self.finished = self.late = False  # Finished was raised; the limit of time was reached
        self.over = self.failed = False  # the script came to its end; it ended in an error before enough was seen
        self.steps = 0
        self.world = 0  # processes of the job, where it is distributed
        self.length = Length()
        self.loading = Loading(self)
        self.later = Later(self)
        self.length.around = self.later.trainings.around_us
        self.solvers = lbfgs.Solvers()
        self.recorder.brought = self.later.brought
        self.seen = None  # what of the file is known, once enough was seen and it goes on
        self.learns = False  # an optimizer was made, or a backward pass begun
        self.optimizes = False  # an optimizer was made
        self.guessed = False  # the model was described by such a pass
        self.passes = self.kept = 0  # outermost forward passes before that; bytes that were alive at the last one
        self.taught = 0  # outermost backward passes without an optimizer
        self.steady = (0, 0)  # the peak, and the pass that reached it
        self.depth = 0
        self.stepped = []  # weak references to optimizers that have stepped, in the order of their first steps
        self.waiting = weakref.WeakSet()  # those that have not
        self.awaits = False  # one of these comes in a round of the loops, later than was waited for
        self.optimizer = ""  # what the first is called
        self.parameters = 0  # tensors that they hold
        self.since = 0  # steps since the last one's first
        self.model = None
        self.batch = self.seq_len = 0
        self.shapes = []
        self.kinds, self.kind = set(), set()  # shapes of each iteration that is over, of this one
        self.lives = []
        self.autocast = None
        self.phase = ff.SETUP
        self.header = ff.Header(torch=torch.__version__, alloc_conf=alloc_conf(os.environ))

    # --- in place and out again ---

    def __enter__(self):
        recorder = self.recorder
        for part in (values, kernels, indexing, attention, recurrent, losses, linalg, together, sparse, given, drawn,
                     repeated, usedup):
            recorder.rules.update(getattr(part, "RULES", {}))
            for op, note in getattr(part, "AROUND", {}).items():
                recorder.around.setdefault(op, []).append(note)
        recorder.rules.update(distributed.rules())
        self.gpu.install()
        values.install(recorder, self.gpu.patch)
        kernels.install(recorder, self.gpu.patch)
        layers.install(recorder, self.gpu.patch)
        losses.install(recorder, self.gpu.patch)
        products.install(self.gpu.patch)
        layers.torchscript(recorder, self.gpu.patch)
        recurrent.install(recorder, self.gpu.patch)
        attention.install(recorder, self.gpu.patch, self.gpu.capability)
        lbfgs.install(self.gpu.patch)
        distributed.install(self)
        self._hooks = [register_optimizer_step_pre_hook(self._before_step), register_optimizer_step_post_hook(self._after_step)]
        self._threads = torch.autograd.set_multithreading_enabled(False)
        self._threads.__enter__()
        recorder.__enter__()
        recorder.calibrate()
        recorder.threads(self.gpu.patch)
        self._phases()
        return self

    def __exit__(self, *exception):
        self.recorder.recording = False
        self.recorder.__exit__(None, None, None)
        self._threads.__exit__(None, None, None)
        for hook in self._hooks:
            hook.remove()
        self.gpu.undo()

    # --- phases ---

    def mark(self, phase):
        if phase != self.phase or phase == ff.ITERATION:
            self.recorder.records.mark(phase)
            self.recorder.work.enter(phase)
            self.phase = phase

    def begin_iteration(self):
        self.lives.append(self.recorder.held())
        self.varied.begins()
        self.kinds.add(frozenset(self.kind))
        self.kind.clear()
        self.repeated.clear()
        self.mark(ff.ITERATION)

    def _phases(self):
        """Wraps what begins a phase."""
        session, recorder, patch = self, self.recorder, self.gpu.patch
        graph, Module, Optimizer = torch.autograd.graph, torch.nn.Module, torch.optim.Optimizer
        real_engine, real_call, real_zero = graph._engine_run_backward, Module.__call__, Optimizer.zero_grad
        real_make = Optimizer.__init__

        def learn(real, asks):
            def run(*args, **kwargs):
                session.learns = True
                session.repeated.asked |= asks and not recorder.in_backward
                if recorder.in_backward:
                    return real(*args, **kwargs)
                if session.optimizes and not session.lives and session.iterations is not None and session.used():
                    session.begin_iteration()  # of a script that has no module
                session.mark(ff.BACKWARD)
                session.varied.learns()
                try:
                    result = real(*args, **kwargs)
                finally:
                    session.repeated.backward_ends()
                session.later.teaches(sys._getframe(1))
                session._after_backward(sys._getframe(1))
                return result
            return run

        def make(optimizer, *args, **kwargs):
            if not session.optimizes:
                session.length.begin()  # what were steps without one are parts of one
            session.learns = session.optimizes = True
            session.waiting.add(optimizer)
            session.later.trainings.made(optimizer)
            return real_make(optimizer, *args, **kwargs)

        def engine(*args, **kwargs):
            recorder.in_backward += 1
            stream = recorder.stream
            try:
                return real_engine(*args, **kwargs)
            finally:
                recorder.in_backward, recorder.stream = recorder.in_backward - 1, stream

        def call(module, *args, **kwargs):
            recorder.work.host["modules"] += 1
            if session.depth or recorder.in_backward:
                return real_call(module, *args, **kwargs)
            run = session._forward(module, args, kwargs)
            recorder.passing = torch.is_grad_enabled() and module.training
            session.depth += 1
            try:
                return run(real_call, module, args, kwargs) if run else real_call(module, *args, **kwargs)
            finally:
                session.depth, recorder.passing = session.depth - 1, None

        @functools.wraps(real_zero)  # Accelerate asks for its arguments
        def zero_grad(optimizer, *args, **kwargs):
            session.mark(ff.ZERO_GRAD)
            return real_zero(optimizer, *args, **kwargs)
        for module in (graph, torch.autograd):
            if hasattr(module, "_engine_run_backward"):
                patch(module, "_engine_run_backward", engine)
        for name in ("backward", "grad"):
            patch(torch.autograd, name, learn(getattr(torch.autograd, name), name == "grad"))
        patch(Module, "__call__", call)
        patch(Optimizer, "zero_grad", zero_grad)
        patch(Optimizer, "__init__", make)

    def _forward(self, module, args, kwargs):
        """An outermost forward pass begins. Returns what runs it if it may be one of many that are alike."""
        if not any(is_gpu(distributed.part(p)) for p in module.parameters()):
            return None  # a loss without parameters, or a model on the CPU
        if self.iterations is not None and not self.learns:
            self.passes += 1
            if torch.is_grad_enabled() and self.recorder.live_bytes > self.kept and self.passes < PARTS:
                self.steady = self.recorder.peak_bytes, self.passes  # kept is what gradients will come from
            self.kept = self.recorder.live_bytes
            if not self.later.awaiting:
                self._pass(self.passes, STEADY)
            elif self.later.over_bound():
                self.recorder.note(ff.CUT_SHORT, f"the training behind {self.passes} forward passes was not seen: say what it needs "
                                                 "(rad submit --gpu-mem)")
                self._finish()
        elif not self.lives and self.iterations is not None:
            self.begin_iteration()
        if self.later.going:
            self.later.passes(torch.is_grad_enabled())
        self.mark(ff.FORWARD if torch.is_grad_enabled() else ff.EVAL)
        if self.learns and self.guessed and torch.is_grad_enabled():
            self.forget()
        if torch.is_grad_enabled():
            self.later.learners.add(module)
        if torch.is_grad_enabled() and not (self.later.going and self.later.tests()) or not self.learns:
            self.guessed = not self.learns
            self._describe(module, args, kwargs)
        if not (self.learns or self.later.awaiting) or self.iterations is None:
            return None
        if torch.is_grad_enabled():
            return None if self.world or self.repeated.asked or self.later.trying else self.repeated.learn
        return self.repeated.run

    def _after_backward(self, frame):
        if self.iterations is None or self.optimizes or not self.used():
            return
        if not self.taught:
            self.steady = (0, 0)
        self.taught += 1
        self.later.trainings.step(frame)
        if not self.later.going:
            self.length.step(frame)
        self._pass(self.taught, TAUGHT)

    def _pass(self, number, enough):
        """The `number`th iteration without an optimizer begins."""
        if self.recorder.peak_bytes > self.steady[0] * GROWN:
            self.steady = self.recorder.peak_bytes, number
        if self.later.going:
            if self.later.step():
                self._finish()
        elif number - self.steady[1] >= enough and (self.learns or not self.later.awaits(sys._getframe(1))):
            self._go_on(sys._getframe(1))
        self.begin_iteration()

    def forget(self):
        """What was described is not what is trained."""
        self.model, self.batch, self.seq_len, self.shapes, self.guessed = None, 0, 0, [], False
        self.kinds, self.kind = set(), set()

    def place(self):
        """Where it is, for back_to()."""
        return self.recorder.place(), self.phase, len(self.lives)

    def back_to(self, place):
        """What was captured since was in vain: what follows is done in its place."""
        recorded, phase, lives = place
        self.recorder.back_to(recorded)
        self.phase = phase
        self.steps = self.since = self.taught = self.passes = 0
        del self.lives[lives:], self.varied.taken[lives:]
        self.stepped.clear()
        self.optimizer, self.parameters = "", 0
        self.length.begin()
        self.loading.begin()
        self.recorder.work.begin()
        self.forget()

    def _describe(self, module, args, kwargs):
        """Model, batch and precision, from the first outermost forward pass that learns."""
        tensors = [a for a in (*args, *kwargs.values()) if isinstance(a, torch.Tensor) and a.dim()]
        shapes = [tuple(t.shape) for t in tensors]
        if self.model is None:
            self.model = module
        if tensors and not self.batch:
            self.batch = int(shapes[0][0])
            if len(shapes[0]) == 2 and not tensors[0].dtype.is_floating_point:
                self.seq_len = int(shapes[0][1])
        if self.model is module and shapes:
            self.kind.add(tuple(shapes))
            if shapes not in self.shapes:
                self.shapes.append(shapes)
        if torch.is_autocast_enabled("cuda"):
            self.autocast = torch.get_autocast_dtype("cuda")

    def varies(self):
        """Whether shapes differ from iteration to iteration: not where one has passes of several kinds, as an agent that acts
        on one state and learns from many, and another some of them."""
        kinds = sorted(self.kinds | {frozenset(self.kind)}, key=len)
        return not all(fewer <= more for fewer, more in zip(kinds, kinds[1:]))

    def _before_step(self, optimizer, args, kwargs):
        if all(one() is not optimizer for one in self.stepped):
            self.stepped.append(weakref.ref(optimizer))
            self.waiting.discard(optimizer)
            self.optimizer = self.optimizer or type(optimizer).__name__.lower()
            if any(one() for one in self.stepped[:-1]):  # beside it, not in its place
                self.since = 0
                self.kind.update(*self.kinds)  # what was an iteration until now is a part of one
                self.kinds.clear()
                if not self.later.trainings.in_turn(sys._getframe(1)):
                    self.length.begin()
                self.loading.begin()
                self.recorder.work.begin()
        self.mark(ff.STEP)
        if isinstance(optimizer, torch.optim.LBFGS) and self.iterations is not None:
            return self.solvers.begin(optimizer, args, kwargs, sys._getframe(1), self.later.going,
                                      lambda: self.recorder.records.mark(ff.ITERATION))
        return None

    def _after_step(self, optimizer, args, kwargs):
        self.solvers.end(optimizer)
        self.later.trainings.step(sys._getframe(1), optimizer)
        if optimizer is not self.stepped[-1]():
            return  # of several, the last one's step ends an iteration
        self.parameters = sum(len(group["params"]) for one in self.stepped if one() for group in one().param_groups)
        self.steps, self.since = self.steps + 1, self.since + 1
        if self.iterations is None:
            return
        if not self.later.going:
            self.loading.step(self.length.fetched)
            self.length.step(sys._getframe(1), optimizer)
        if not self.later.going:
            if self._enough():
                self._go_on(sys._getframe(1))
        else:
            if self.later.trainings.going:
                self.later.trainings.library(sys._getframe(1))
            if self.later.step():
                self._finish()
        self.begin_iteration()

    def _go_on(self, frame):
        """Enough was seen of its steps; of its memory not, where something comes later."""
        self.awaits = self.length.leaves_out(frame, list(self.waiting))
        self.lives.append(self.recorder.held())
        self.seen = self._figures()
        self._tell_growth()
        self.finished = True
        self.silence.begin()
        if not self.later.begins(frame):
            self._finish()

    def _leaves(self, lives):
        """Bytes that each step leaves behind, where that comes to much in the run; else 0. `lives`: what was alive between steps."""
        grown = [after - before for before, after in zip(lives[1:], lives[2:])]
        each = min(grown, default=0) if len(grown) > 1 and not self.varies() else 0
        return each if each * (self.length.steps or MANY) > LEAKED * (self.recorder.peak_bytes + CONTEXT) else 0

    def _tell_growth(self):
        """Of steps that each leave something behind: it may be given up later, so it is not claimed."""
        each, steps = self._leaves(self.lives), self.length.steps
        if each:
            whole = f"{each * steps >> 20} MiB after all {steps}" if steps else f"{each * MANY >> 20} MiB after {MANY}"
            self.recorder.note(0, f"each step leaves {each / (1 << 20):.1f} MiB on the GPU, {whole}, which is not claimed: "
                                  f"something is kept, as a loss with all that it "
                               "was computed from. Keep loss.item(), or say what the run needs (rad submit --gpu-mem)")

    def _enough(self):
        """By its loops a training may be over that early: a warm-up, after which the real one begins."""
        late, over = self.iterations + LATER, 0 < self.length.steps <= self.length.made
        seen = self.since >= self.iterations and (not self.waiting and not over or self.since >= late) or self.steps >= MOST * late
        self.finished |= seen  # others differ in size at most: an error there is none of the capture
        growing = self.since < self.iterations + SETTLING and self._leaves([*self.lives, self.recorder.held()])
        return seen and (over or not growing and (self.later.knows() or not self.varied.waits(self.since)))

    def _finish(self):
        if not self.finished:
            self.lives.append(self.recorder.held())
        self.finished, self.recorder.recording = True, False
        self.later.end()
        bring(Finished())

    def stopped(self, what):
        """The limit of time decided what was seen."""
        self.recorder.note(ff.CUT_SHORT, f"stopped by the clock: {what}: raise the limit (--timeout)")

    def came_back(self):
        """Whether the time was over in the backward pass of the first step. By then all is there that a step has but the optimizer's
        state, which is added."""
        if not (self.late and self.waiting and self.varied.most):
            return False
        held = {id(p): p for optimizer in self.waiting for group in optimizer.param_groups for p in group["params"] if is_gpu(p)}
        state = STATE * sum(p.numel() * p.element_size() for p in held.values())
        self.recorder.give_back(self.recorder.take(max(self.recorder.peak_bytes - self.recorder.live_bytes, 0) + state))
        return True

    def learnt(self):
        """Steps, or backward passes without an optimizer."""
        return self.steps or self.taught

    def used(self):
        """Whether anything was on the GPU."""
        return self.recorder.records.allocs > 0

    # --- the file ---

    def precision(self):
        dtypes = {p.dtype for p in self.model.parameters()} if self.model is not None else set()
        short = {torch.bfloat16: "bf16", torch.float16: "fp16"}
        if self.autocast in short:
            return "amp-" + short[self.autocast]
        if len(dtypes) == 1 and dtypes & short.keys():
            return short[dtypes.pop()]
        return "tf32" if torch.backends.cuda.matmul.allow_tf32 else "fp32"

    def result(self, key=""):
        """(file, notes, peak in bytes, flags, whether the script failed)"""
        return self.finish(key), self.recorder.notes, self.recorder.peak_bytes, self.header.flags, self.failed

    def finish(self, key=""):
        """The header filled; returns the file's bytes."""
        self.later.end()
        if self.awaits and self.waiting:
            self.recorder.note(ff.CUT_SHORT, "another optimizer comes later: what its step takes was not seen: say what it needs "
                                             "(rad submit --gpu-mem)")
        header, (work, flags, header.growth) = self.header, self.seen or self._figures()
        header.key, header.flags = key, flags | self.recorder.flags
        header.batch, header.seq_len = self.batch, self.seq_len
        if self.model is not None:
            header.model = header.model or type(self.model).__name__
            header.params = sum(p.numel() for p in self.model.parameters())
            header.precision = self.precision()
        header.optimizer = self.optimizer
        length, trainings, beside = self.length, self.later.trainings, 0
        steps, limit = (length.most_steps, length.limit_ms) if length.limit_ms else (length.steps, 0)
        if self.solvers.cut or trainings.unseen or self.failed or self.awaits:
            steps = limit = 0
        elif trainings.stages.another:
            limit, (steps, beside) = 0, trainings.stages.steps(self)
        for where in [length.clock.where] if length.clock and not trainings.stages.another else trainings.stages.clocks():
            self.recorder.note(0, f"{where}: the run ends by the clock"
                                  + (f" {limit / 1000:.0f} s after its first step" if limit else ": how many steps it has is not known"))
        beside += self.later.beside() if steps and not limit else 0
        return self._whole().file(header, *work, steps=steps, beside=beside, limit=limit,
                                  loaders=self.loading.result())

    def _whole(self):
        """The records, and what is known to be like them in the run."""
        records, steps, epoch = self.recorder.records, self.length.steps, self.length.inner
        result = filled(records, self.later.way)
        added = self.later.streams.filled(records, result, steps / epoch if 1 <= epoch <= steps else math.inf)
        if added:
            self.recorder.note(0, f"streams are made again and again, of which PyTorch keeps memory of each: what {added} take was added")
        return result

    def _figures(self):
        """(work, flags, growth) of the steps that were seen."""
        flags, growth = self.recorder.flags, 0
        if len(self.lives) >= 3:
            last = self.lives[-4 if self.varied.drawn() else -2:]  # what is kept of the last step is of its size, too
            growth = max(0, min(after - before for before, after in zip(last, last[1:])))
        if self.varies():
            flags |= ff.VARIABLE_SHAPES
        elif self.varied.drawn():
            self.recorder.note(ff.VARIABLE_SHAPES, f"steps differ in size: the largest of {self.learnt()} was taken")
        if torch.backends.cudnn.benchmark:
            flags |= ff.CUDNN_BENCHMARK
        if not torch.backends.cudnn.enabled:
            flags |= ff.CUDNN_OFF
        host, kernels = self.recorder.work.result(self.parameters)
        return (tuple(host), kernels), flags, growth
