# SPDX-License-Identifier: MIT
"""Libraries that have loops of their own, and know how many steps a training makes."""
import math

from .expressions import local


class Clock:
    """What ends a run by the time, if it is long enough. `where`: "train.py:12"; `seconds`: from now until then, infinite: not known;
    `local`: variables of the function that it is in have a part in that."""

    def __init__(self, where, seconds, local=False):
        self.where, self.seconds, self.local = where, seconds, local


class Told:
    """By a library: steps, after how many of them each evaluation comes, what has one come after the next step, what stops the
    training then, batches that an evaluation takes at most, and the Clock that ends it. `gone`: so many of these are over, where what is
    called steps here may be parts of one; 0: they are steps."""

    def __init__(self, steps, stop=lambda: None, every=math.inf, often=None, most=math.inf, clock=None, gone=0):
        self.steps, self.stop, self.every, self.often, self.most, self.clock, self.gone = steps, stop, every, often, most, clock, gone


def of_transformers(frame):
    own = local(frame, "self")
    state, arguments = getattr(own, "state", None), getattr(own, "args", None)
    steps, how = getattr(state, "max_steps", 0), getattr(arguments, "eval_strategy", "no")

    def stop():
        own.control.should_training_stop = True
    if how == "epoch":
        return Told(steps, stop, steps / arguments.num_train_epochs, nothing)
    if how == "steps" and 0 < state.eval_steps <= steps:
        return Told(steps, stop, state.eval_steps, lambda: setattr(state, "eval_steps", 1))
    return Told(steps, stop)


def of_lightning(frame):
    own = local(frame, "self")
    trainer = getattr(own, "trainer", own)
    steps = getattr(trainer, "estimated_stepping_batches", 0)

    def stop():
        trainer.should_stop = True
    left = [one.time_remaining() for one in getattr(trainer, "callbacks", ()) if type(one).__name__ == "Timer"]
    clock = Clock("max_time", left[0]) if left and left[0] is not None else None
    if not getattr(trainer, "enable_validation", False) or not steps < math.inf:
        return Told(steps, stop, clock=clock)
    epochs, batches = trainer.check_val_every_n_epoch or 1, trainer.num_training_batches
    times = max(batches // trainer.val_check_batch, 1) if trainer.check_val_every_n_epoch else batches / trainer.val_check_batch

    def often():
        trainer.val_check_batch = 1
        trainer.check_val_every_n_epoch = trainer.check_val_every_n_epoch and 1
    every = batches / trainer.accumulate_grad_batches * epochs / times
    return Told(steps, stop, every, often if every <= steps else None, max(trainer.num_val_batches, default=math.inf), clock)


def of_ignite(frame):
    """Its engine tells of iterations, of which several may be summed up for a step."""
    state = getattr(local(frame, "self"), "state", None)
    batches, whole = getattr(state, "epoch_length", None) or 0, getattr(state, "max_iters", None)
    whole = whole or batches * (getattr(state, "max_epochs", None) or 0)
    return Told(whole, every=batches or math.inf, gone=getattr(state, "iteration", 0))


def of_stable_baselines(frame):
    """Of one that learns of what it has just played: so often, and each time over all of it. Of those that keep what they played its loops
    tell."""
    own = local(frame, "self")
    played = getattr(getattr(own, "rollout_buffer", None), "buffer_size", 0) * getattr(own, "n_envs", 0)
    if not played:
        return Told(0)
    each = getattr(own, "n_epochs", 1) * math.ceil(played / (getattr(own, "batch_size", None) or played))
    return Told(math.ceil((own._total_timesteps - own._num_timesteps_at_start) / played) * each)


def of_keras(frame):
    """Its fit() has the loops; of data that come from a stream it is told how many batches are an epoch, or nobody knows."""
    own, batches = local(frame, "self"), None
    if frame.f_code.co_name == "fit":
        batches = getattr(local(frame, "epoch_iterator"), "num_batches", None)

    def stop():
        own.stop_training = True
    epochs = (local(frame, "epochs") or 0) - (local(frame, "initial_epoch") or 0) if batches else 0
    return Told(epochs * batches if batches else 0, stop, batches or math.inf)


def nothing():
    pass


def summed_up(frame):
    """(batches that Accelerate sums up for a step, those of a pass over the loader), where what is left at its end is a step, too. None:
    it does not, or nobody knows."""
    state = getattr(local(frame, "self"), "gradient_state", None)
    try:
        return (state.num_steps, len(state.active_dataloader)) if state.sync_with_dataloader and state.num_steps > 1 else None
    except (AttributeError, TypeError):  # it has no part in that; none is gone over, or one that has no length
        return None


LIBRARIES = {"ignite": of_ignite, "keras": of_keras, "lightning": of_lightning, "pytorch_lightning": of_lightning,
             "stable_baselines3": of_stable_baselines, "transformers": of_transformers}
