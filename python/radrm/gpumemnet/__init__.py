# SPDX-License-Identifier: MIT
"""GPUMemNet: what a training job takes of a GPU's memory, learned from measured jobs (dissertation, section 5.4).

    specs.generate(seed, count)    random configurations; standard library only
    build(spec)                    the model, the shape of its input, and how to train it
    summary(spec)                  its torchinfo table, which `rad parse` turns into features
"""


def build(spec):
    """(module on the CPU, input shape with the batch, setup): setup(device) gives the function of one training step."""
    import functools

    from . import models
    return models.module(spec), models.input_shape(spec), functools.partial(models.setup, spec)


def summary(spec):
    from .table import summary as text
    return text(spec)
