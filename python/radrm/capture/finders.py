# SPDX-License-Identifier: MIT
"""What libraries try before they train: learning rates, by a training of a hundred steps that is thrown away, and batch sizes, until
the GPU is full. What is captured is the training after them, so they are left out: a rate is as good as any, and which
batch fits is known on the GPU alone."""
import collections
import functools
import inspect

RATE = 1e-3
FULL = "until the GPU that it runs on is full, which cannot be known here"


def after(session):
    """{module: what is done once it is imported}, as imports.Imports takes it."""
    recorder = session.recorder

    def tell(who, what):
        recorder.note(0, f"{who} tries batch sizes {FULL}: captured with {what}. Give the script the size that is found, or let the run "
                      "have a GPU to itself (rad submit --exclusive)")

    def lightning_rates(module):
        def find(trainer, model, min_lr=1e-8, max_lr=1, num_training=100, mode="exponential", *_, **__):
            found = module._LRFinder(mode, min_lr, max_lr, num_training)
            found.results, found._total_batch_idx = curve(min_lr, max_lr, num_training), num_training
            return found
        module._lr_find = find

    def lightning_sizes(module):
        signature = inspect.signature(module._scale_batch_size)

        def find(*args, **kwargs):
            given = signature.bind(*args, **kwargs)
            given.apply_defaults()
            trainer, name = given.arguments["trainer"], given.arguments["batch_arg_name"]
            size = module.lightning_getattr(trainer.lightning_module, name)
            tell("Lightning's batch size finder", f"the script's own, {size}")
            return size
        module._scale_batch_size = find

    def accelerate_sizes(module):
        real = module.find_executable_batch_size

        def find(function=None, starting_batch_size=128, *args, **kwargs):
            if function is None:
                return lambda function: find(function, starting_batch_size, *args, **kwargs)
            recorder.capacity = session.gpu.total_bytes
            tell("Accelerate's find_executable_batch_size", f"the largest from {starting_batch_size} down that fits an H200")
            before = None

            @functools.wraps(function)
            def attempt(*args, **kwargs):
                nonlocal before
                if before:  # one that was too large: it is all given back by now
                    session.back_to(before)
                before = session.place()
                return function(*args, **kwargs)
            return real(attempt, starting_batch_size, *args, **kwargs)
        module.find_executable_batch_size = find

    def range_test(module):
        def test(self, train_loader, val_loader=None, start_lr=None, end_lr=10, num_iter=100, *_, **__):
            self.history, self.best_loss = curve(start_lr or RATE, end_lr, num_iter), 1.0
        module.LRFinder.range_test = test

    def fastai_rates(module):
        def find(self, *_, suggest_funcs=(module.SuggestionMethod.Valley,), **__):
            # A partial of a function has its name; what is not to be had of it has another.
            names = [getattr(f, "__name__", getattr(getattr(f, "func", None), "__name__", f"rate{n}")) for n, f in
                     enumerate(suggest_funcs or ())]
            return collections.namedtuple("SuggestedLRs", names)(*[RATE] * len(names)) if names else None
        module.Learner.lr_find = find
    found = {"accelerate.utils.memory": accelerate_sizes, "torch_lr_finder.lr_finder": range_test, "fastai.callback.schedule": fastai_rates}
    for library in ("lightning.pytorch", "pytorch_lightning"):
        found[library + ".tuner.lr_finder"] = lightning_rates
        found[library + ".tuner.batch_size_scaling"] = lightning_sizes
    return found


def curve(first, last, number):
    """What a library has noted of rates that it tried."""
    rates = [first * (last / first) ** (n / max(number - 1, 1)) for n in range(number)]
    return {"lr": rates, "loss": [1 - n / (2 * number) for n in range(number)]}
