# SPDX-License-Identifier: MIT
"""Training on several GPUs: the first process of the job alone is captured.

A process group of PyTorch's backend "fake" stands for the others, which never answer and need not: what a collective asks of
memory is known from the call. DistributedDataParallel (DDP) is replaced by what it takes: buckets for all gradients.
fully_shard() (FSDP2) runs as it is; so does FullyShardedDataParallel (FSDP1), with a doubt: how many gathered layers there are
at one time is decided by the traffic with the others.
"""
import contextlib
import os

KEPT = {"device_ids", "output_device", "dim", "broadcast_buffers", "find_unused_parameters", "gradient_as_bucket_view", "static_graph",
        "mixed_precision"}  # what DDP was asked for and is read of it
FIRST_BUCKET, BROADCAST = 1 << 20, 250 << 20  # bytes; DDP's, fixed
SWITCHES = ("--standalone", "-m", "--module", "--no-python", "--no_python", "--run-path", "--run_path", "--use-env", "--use_env",
            "--virtual-local-rank", "--virtual_local_rank")
WORKERS = ("--nproc-per-node", "--nproc_per_node", "--nnodes")


def launcher(words, gpus):
    """(processes, words as for python) of a command line of torchrun, or python -m torch.distributed.run or launch; (0, words) of any
    other. `gpus`: those that the task sees, each of which has a process where the command says so. Other numbers that depend on the machine
    count as 2."""
    words = list(words)
    old = words[:2] == ["-m", "torch.distributed.launch"]
    if words and os.path.basename(words[0]) == "torchrun":
        del words[0]
    elif old or words[:2] == ["-m", "torch.distributed.run"]:
        del words[:2]
    else:
        return 0, words
    processes, module, given_by = 1, [], ["--local-rank=0"] if old else []
    while words and words[0].startswith("-"):
        option, given, value = words.pop(0).partition("=")
        if option in ("-m", "--module"):
            module = ["-m"]
        if option in ("--use-env", "--use_env"):
            given_by = []
        if option not in SWITCHES and not given and words:
            value = words.pop(0)
        if option in WORKERS:
            value = str(gpus) if value in ("gpu", "auto") else value.rpartition(":")[2]
            processes *= int(value) if value.isdecimal() and int(value) else 2
    return processes, [*module, *words[:1], *given_by, *words[1:]]


def surroundings(processes):
    """What torchrun would tell the first of `processes` on one machine."""
    return {"RANK": "0", "LOCAL_RANK": "0", "GROUP_RANK": "0", "ROLE_RANK": "0", "WORLD_SIZE": str(processes),
            "LOCAL_WORLD_SIZE": str(processes), "ROLE_WORLD_SIZE": str(processes), "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": "29500", "TORCHELASTIC_RUN_ID": "none", "TORCHELASTIC_RESTART_COUNT": "0",
            "TORCHELASTIC_MAX_RESTARTS": "0"}


class Done:
    """The handle of a collective that is over."""

    def wait(self, *_, **__):
        return True

    is_completed = is_success = wait

    def result(self):
        return []


def install(session):
    import torch.distributed as dist
    import torch.multiprocessing
    from . import fileformat as ff
    session.gpu.patch(torch.multiprocessing, "spawn", spawn)
    split(session.gpu.patch)
    if not dist.is_available():
        return
    c10d, patch, recorder, header = dist.distributed_c10d, session.gpu.patch, session.recorder, session.header
    backend_asked = "nccl"

    def both(name, value):
        for module in filter(None, (dist, c10d, getattr(dist, "device_mesh", None))):
            if hasattr(module, name):
                patch(module, name, value)

    real_init, real_group = c10d.init_process_group, c10d.new_group

    def init(backend=None, init_method=None, timeout=None, world_size=-1, rank=-1, *_, **__):
        from torch.testing._internal.distributed.fake_pg import FakeStore
        nonlocal backend_asked
        backend_asked = str(backend or "nccl")
        world = world_size if world_size > 0 else int(os.environ.get("WORLD_SIZE", 1))
        real_init(backend="fake", store=FakeStore(), rank=0, world_size=world)
        session.world = world
        header.communicators = 1 if "nccl" in backend_asked else 0
        which = f"the first of {world} processes" if world > 1 else "the only process"
        recorder.note(ff.PAIR if world <= 2 else 0, f"distributed: {which} was captured")
        sharding(recorder, patch)

    def new_group(ranks=None, timeout=None, backend=None, *args, **kwargs):
        if "nccl" in str(backend or backend_asked):
            header.communicators = min(header.communicators + 1, 64)
        return real_group(ranks)
    both("init_process_group", init)
    both("new_group", new_group)
    def alone(real, answer):
        """A script asks so without a group where a loader gave fewer batches than it has: once it goes on, a loader gives one."""
        return lambda *args, **kwargs: answer if session.later.going and not dist.is_initialized() else real(*args, **kwargs)
    both("get_rank", alone(c10d.get_rank, 0))
    both("get_world_size", alone(c10d.get_world_size, 1))
    both("get_backend", lambda *_, **__: backend_asked)
    both("is_nccl_available", lambda: True)
    collectives(recorder, patch, both)
    data_parallel(recorder, patch)


def spawn(fn, args=(), nprocs=1, *_, **__):
    """Stands for torch.multiprocessing.spawn(): the first process only, and here."""
    os.environ.setdefault("WORLD_SIZE", str(nprocs))
    fn(0, *args)


def collectives(recorder, patch, both):
    import torch.distributed
    from torch.utils._pytree import tree_leaves

    from . import fileformat as ff, writes
    from .recorder import is_gpu

    def flat(tensors):
        """The joined copy that NCCL needs of a list."""
        recorder.scratch(sum(t.numel() * t.element_size() for t in tensors if is_gpu(t)))

    def collective(before=None, gives=True):
        """`gives`: what others have, which is not known."""
        def run(*args, async_op=False, **kwargs):
            if before:
                before(*args, **kwargs)
            if gives:
                others(*args, **kwargs)
            return Done() if async_op else None
        return run

    def others(*args, **kwargs):
        if torch.distributed.is_initialized() and torch.distributed.get_world_size() > 1:
            for tensor in filter(is_gpu, tree_leaves((args, kwargs))):
                writes.wrote(tensor)
        return Done()

    def received(*args, **kwargs):
        others(*args, **kwargs)
        return 0

    def exchange(*_, **__):
        recorder.flags |= ff.ALL_TO_ALL

    def all_gather_object(object_list, obj, group=None):
        object_list[:] = [obj] * len(object_list)

    def gather_object(obj, object_gather_list=None, *_, **__):
        if object_gather_list is not None:
            object_gather_list[:] = [obj] * len(object_gather_list)

    def scatter_object_list(scatter_object_output_list, scatter_object_input_list=None, *_, **__):
        scatter_object_output_list[0] = scatter_object_input_list[0]
    for name in ("all_reduce", "reduce", "all_gather_into_tensor", "reduce_scatter_tensor", "_all_gather_base", "_reduce_scatter_base",
                 "scatter", "all_reduce_coalesced"):
        both(name, collective())
    for name in ("broadcast", "barrier", "monitored_barrier"):  # the first process has what comes
        both(name, collective(gives=False))
    both("all_gather", collective(lambda tensor_list, tensor, *_, **__: flat(tensor_list)))
    both("gather", collective(lambda tensor, gather_list=None, *_, **__: flat(gather_list or ())))
    both("reduce_scatter", collective(lambda output, input_list, *_, **__: flat(input_list)))
    for name in ("all_to_all", "all_to_all_single"):
        both(name, collective(exchange))
    for name in ("isend", "irecv"):
        both(name, others)
    for name in ("send", "recv"):
        both(name, received)
    patch(torch.distributed.ProcessGroup, "monitored_barrier", lambda *_, **__: None)
    both("batch_isend_irecv", lambda p2p_op_list: [others(one.tensor) for one in p2p_op_list])
    both("broadcast_object_list", lambda *_, **__: None)
    for function in (all_gather_object, gather_object, scatter_object_list):
        both(function.__name__, function)


# --- DDP ---

def assigned(parameters, limits):
    """Parameters in buckets, by DDP's rule: one is closed when it holds as much as the next of the limits (the last for all
    that follow); types do not mix."""
    open_, out, at = {}, [], {}
    for parameter in parameters:
        bucket = open_.setdefault(parameter.dtype, [])
        bucket.append(parameter)
        number = at.setdefault(parameter.dtype, 0)
        if sum(p.numel() * p.element_size() for p in bucket) >= limits[min(number, len(limits) - 1)]:
            out.append(open_.pop(parameter.dtype))
            at[parameter.dtype] = number + 1
    return out + list(open_.values())


class Buckets:
    """One gradient's worth of memory, flat: in one piece until the first backward pass has shown in which order gradients come,
    unless some of them may not come."""

    def __init__(self, recorder, parameters, cap, views, fixed):
        self.recorder, self.parameters, self.cap, self.views, self.fixed = recorder, parameters, cap, views, fixed
        self.ready, self.rebuilt, self.flat, self.place = [], False, [], {}
        self.broadcast()
        self.take(assigned(parameters, [FIRST_BUCKET, cap] if fixed else [1 << 62]))
        for parameter in parameters:
            parameter.register_post_accumulate_grad_hook(self.arrived)

    def broadcast(self):
        """The first process's parameters go to all others, in flat copies of which two are under way at a time."""
        under_way = []
        for bucket in assigned(self.parameters, [BROADCAST]):
            if len(under_way) == 2:
                self.recorder.give_back(under_way.pop(0))
            under_way.append(self.recorder.take(sum(p.numel() * p.element_size() for p in bucket)))
        for block in under_way:
            self.recorder.give_back(block)

    def take(self, buckets):
        import torch
        self.flat.clear()
        self.place.clear()
        with torch.no_grad():
            for bucket in buckets:
                flat, at = self.recorder.empty((sum(p.numel() for p in bucket),), bucket[0].dtype), 0
                self.flat.append(flat)
                for parameter in bucket if self.views else ():
                    self.place[parameter] = flat[at:at + parameter.numel()].view(parameter.shape)
                    at += parameter.numel()
                    if parameter.grad is not None:
                        parameter.grad = self.place[parameter]

    def arrived(self, parameter):
        if not self.rebuilt:
            self.ready.append(parameter)
        if self.views:
            parameter.grad = self.place[parameter]

    def _rebuild_buckets(self):  # this and the next as DDP's own is called, by Lightning also
        if self.ready and not self.rebuilt and not self.fixed:
            self.rebuilt = True
            self.take(assigned(dict.fromkeys(self.ready), [FIRST_BUCKET, self.cap]))

    def prepare_for_backward(self, _):
        pass


def data_parallel(recorder, patch):
    import inspect

    import torch
    from torch.nn.parallel import DistributedDataParallel as DDP

    from .recorder import is_gpu
    signature = inspect.signature(DDP.__init__)

    def init(self, *args, **kwargs):
        given = signature.bind(self, *args, **kwargs)
        given.apply_defaults()
        options = given.arguments
        torch.nn.Module.__init__(self)
        self.module, self.device = options["module"], next((p.device for p in options["module"].parameters()), None)
        for name in KEPT & options.keys():
            setattr(self, name, options[name])
        self.process_group = options["process_group"] or torch.distributed.distributed_c10d._get_default_group()
        self.require_backward_grad_sync = self.require_forward_param_sync = True
        self._use_replicated_tensor_module = False
        learned = [p for p in self.module.parameters() if p.requires_grad]
        if not learned:
            raise RuntimeError("DistributedDataParallel is not needed when a module doesn't have any parameters that require a "
                               "gradient.")
        on_gpu = [p for p in learned if is_gpu(p)]
        object.__setattr__(self, "reducer", Buckets(
            recorder, on_gpu, int((options["bucket_cap_mb"] or 25) * (1 << 20)), options["gradient_as_bucket_view"],
            options["find_unused_parameters"] and not options["static_graph"]) if on_gpu else None)

    def forward(self, *args, **kwargs):
        if self.reducer is not None:
            self.reducer._rebuild_buckets()
        return self.module(*args, **kwargs)

    @contextlib.contextmanager
    def join(*_, **__):
        yield
    for name, value in (("__init__", init), ("forward", forward), ("join", join), ("register_comm_hook", lambda *_, **__: None),
                        ("_set_static_graph", lambda _: None), ("_get_ddp_logging_data", lambda _: {})):
        patch(DDP, name, value)


def split(patch):
    """torch.nn.DataParallel on several GPUs: the first one's part of the batch; the results of all are gathered there."""
    import torch
    from torch.utils._pytree import tree_map_only
    real = torch.nn.DataParallel.forward

    def forward(self, *args, **kwargs):
        number = len(self.device_ids)
        if number < 2:
            return real(self, *args, **kwargs)

        def part(tensor):
            return (tensor.chunk(number, self.dim)[0] if tensor.dim() > self.dim else tensor).to("cuda")

        def gathered(tensor):
            return torch.cat([tensor] * number, self.dim) if tensor.dim() > self.dim else torch.stack([tensor] * number)
        args, kwargs = tree_map_only(torch.Tensor, part, (args, kwargs))
        return tree_map_only(torch.Tensor, gathered, self.module(*args, **kwargs))
    patch(torch.nn.DataParallel, "forward", forward)


def part(tensor):
    """What of a sharded tensor is here; any other, itself."""
    return getattr(tensor, "_local_tensor", tensor)


def sharding(recorder, patch):
    """Patches for training that is sharded over GPUs. Done once a job is known to be distributed: the imports are slow."""
    import functools
    import importlib

    from . import fileformat as ff
    from .gpu import indexed
    from .recorder import GPU

    def older(real):
        @functools.wraps(real)
        def init(self, *args, device_id=None, **kwargs):
            recorder.note(ff.UNKNOWN_OP, "FullyShardedDataParallel: how many gathered layers there are at one time is decided "
                                         "by the traffic between the GPUs; "
                          "captured as with fully_shard() (FSDP2), of which it is known")
            real(self, *args, device_id=indexed(device_id), **kwargs)
        return init
    for module, owner, name, value in (("torch.distributed.fsdp", "FullyShardedDataParallel", "__init__", older),
                                       ("torch.distributed.fsdp._init_utils", None, "_get_compute_device", lambda _: lambda *_: GPU),
                                       # Else a state of the GPU's random numbers would be asked for, to keep it alike everywhere.
                                       ("torch.distributed.tensor._random", None, "is_rng_supported_mesh", lambda _: lambda _: False),
                                       ("torch.distributed.tensor._dispatch", None, "is_rng_supported_mesh", lambda _: lambda _: False)):
        with contextlib.suppress(ImportError, AttributeError):
            found = importlib.import_module(module)
            found = getattr(found, owner) if owner else found
            patch(found, name, value(getattr(found, name)))


def same(recorder, func, args, kwargs):
    """The result of a collective is its own input, once it is waited for."""
    return args[0]


def rules():
    import torch
    wait = getattr(torch.ops._c10d_functional, "wait_tensor", None)
    return {wait.default: same} if wait else {}
