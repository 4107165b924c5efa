#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Trains one of a few well-known models on synthetic data: a stand-in for real training tasks.

    python3 train.py --model resnet50 --batch-size 64 --steps 200

It prints its progress, and at the end one line of JSON with its speed and its peak memory. Random data and random initial
weights: memory and speed are those of a real run, the loss means nothing. Nothing is read from the network.
"""
import argparse
import contextlib
import json
import os
import signal
import socket
import sys
import time

VISION = ("resnet18", "resnet34", "resnet50", "resnet152", "vgg16", "mobilenet_v2", "mobilenet_v3_small", "efficientnet_b0",
          "efficientnet_v2_s", "inception_v3", "vit_b_16", "resnet26", "vit_xxs24")

# Config class, model class, and what differs from the configuration's defaults.
LANGUAGE = {
    "bert-base": ("BertConfig", "BertForMaskedLM", {}),
    "bert-large": ("BertConfig", "BertForMaskedLM", dict(hidden_size=1024, num_hidden_layers=24, num_attention_heads=16,
                                                         intermediate_size=4096)),
    "gpt2": ("GPT2Config", "GPT2LMHeadModel", {}),
    "gpt2-large": ("GPT2Config", "GPT2LMHeadModel", dict(n_embd=1280, n_layer=36, n_head=20)),
    "xlnet-base": ("XLNetConfig", "XLNetLMHeadModel", dict(d_model=768, n_layer=12, n_head=12, d_inner=3072)),
    "xlnet-large": ("XLNetConfig", "XLNetLMHeadModel", {}),
    "t5-small": ("T5Config", "T5ForConditionalGeneration", dict(decoder_start_token_id=0)),
    "llama-small": ("LlamaConfig", "LlamaForCausalLM", dict(hidden_size=768, num_hidden_layers=12, num_attention_heads=12,
                                                            intermediate_size=2048)),
}

OWN = ("mlp", "dlrm", "dlrm-large", "lstm")
LARGE_ROWS = 4_000_000  # of each of the 26 tables of dlrm-large: 25 GiB, with sparse gradients


def parse_args(words=None):
    p = argparse.ArgumentParser(description="Train a model on synthetic data.")
    p.add_argument("--model", required=True, choices=[*VISION, *LANGUAGE, *OWN], metavar="NAME",
                   help=", ".join([*VISION, *LANGUAGE, *OWN]))
    p.add_argument("--batch-size", type=int, default=32, help="per GPU (default 32)")
    p.add_argument("--steps", type=int, default=100, help="stop after so many; 0: no limit (default 100)")
    p.add_argument("--seconds", type=float, default=0, help="stop after so much training time; 0: no limit")
    p.add_argument("--optimizer", choices=["sgd", "momentum", "adam", "adamw"], default="adamw")
    p.add_argument("--precision", choices=["fp32", "tf32", "amp-bf16", "amp-fp16", "bf16"], default="tf32")
    p.add_argument("--image-size", type=int, default=224)
    p.add_argument("--seq-len", type=int, default=128)
    p.add_argument("--data", default="synthetic", metavar="WHERE", help="of each step's samples: synthetic (on the GPU, always the "
                   "same), host (the same, copied to the GPU in each step), or a folder of JPEG files, decoded in each step")
    p.add_argument("--loaders", type=int, default=4, metavar="N", help="threads that decode the files of --data (default 4)")
    p.add_argument("--lr", type=float, default=1e-3)
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--print-every", type=int, default=20, metavar="STEPS")
    p.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    p.add_argument("--gpus", type=int, default=1, metavar="N", help="N > 1: distributed data parallel, one process each")
    p.add_argument("--loader-ms", type=float, default=0, help="pause before each step, as a slow data loader makes one")
    p.add_argument("--lie-mib", type=int, default=0, help="take so much more GPU memory than the model needs ...")
    p.add_argument("--lie-at", type=int, default=10, metavar="STEP", help="... at this step")
    args = p.parse_args(words)
    if args.steps <= 0 and args.seconds <= 0:
        p.error("give --steps or --seconds above 0, or it would never end")
    if min(args.batch_size, args.gpus, args.print_every, args.loaders) < 1:
        p.error("--batch-size, --gpus, --print-every and --loaders must be at least 1")
    if args.model == "dlrm-large" and args.optimizer != "sgd":
        p.error("dlrm-large has sparse gradients: give --optimizer sgd")
    if args.data not in ("synthetic", "host") and args.model not in VISION:
        p.error("--data FOLDER has images, which " + args.model + " does not take")
    return args


# --- samples ---

def samples(args, torch, device, *tensors):
    """A function that gives one step's samples on the device: `tensors` there, or their like."""
    if args.data == "synthetic":
        return lambda: tensors
    if args.data != "host":
        import jpegs  # beside this file
        loader = jpegs.Loader(args.data, args.batch_size, args.image_size, args.loaders, pin=args.device == "cuda")
        return lambda: (loader.next().to(device, non_blocking=True), tensors[1])
    kept = [t.cpu().pin_memory() if args.device == "cuda" else t.cpu() for t in tensors]
    return lambda: [t.to(device, non_blocking=True) for t in kept]


# --- models: each builder gives a module, and a function that makes one batch -> the module's arguments and the loss ---

def build_vision(args, torch, device):
    try:
        from torchvision import models
    except ImportError as e:
        sys.exit(f"train.py: {args.model} needs torchvision: {e}. Install it beside torch, or use one of: "
                 + ", ".join([*LANGUAGE, *OWN]))
    classes = 1000 if args.image_size > 64 else 100
    kwargs = {"inception_v3": {"init_weights": False}, "vit_b_16": {"image_size": args.image_size}}.get(args.model, {})
    if args.model == "resnet26":
        net = models.resnet.ResNet(models.resnet.Bottleneck, [2, 2, 2, 2], num_classes=classes)
    elif args.model == "vit_xxs24":  # as deep and as narrow as CaiT XXS24
        net = models.VisionTransformer(args.image_size, 16, num_layers=24, num_heads=4, hidden_dim=192, mlp_dim=768,
                                       num_classes=classes)
    else:
        net = getattr(models, args.model)(weights=None, num_classes=classes, **kwargs)
    batch = samples(args, torch, device, torch.randn(args.batch_size, 3, args.image_size, args.image_size, device=device),
                    torch.randint(classes, (args.batch_size,), device=device))

    def loss(net):
        images, labels = batch()
        out = net(images)
        logits = out.logits if hasattr(out, "logits") else out  # Inception has a second head
        return torch.nn.functional.cross_entropy(logits.float(), labels)
    return net, loss


def build_language(args, torch, device):
    try:
        import transformers
    except ImportError as e:
        sys.exit(f"train.py: {args.model} needs transformers: {e}. pip install transformers, or use one of: "
                 + ", ".join([*VISION, *OWN]))
    config_class, model_class, changes = LANGUAGE[args.model]
    config = getattr(transformers, config_class)(**changes)
    for name in ("max_position_embeddings", "n_positions"):
        if 0 < getattr(config, name, 0) < args.seq_len:  # XLNet says -1: no limit
            setattr(config, name, args.seq_len)
    net = getattr(transformers, model_class)(config)
    ids = torch.randint(config.vocab_size, (args.batch_size, args.seq_len), device=device)
    return net, lambda net: net(input_ids=ids, labels=ids).loss


def build_own(args, torch, device):
    from torch import nn
    n = args.batch_size

    class LSTM(nn.Module):
        def __init__(self, words=10000, width=512):
            super().__init__()
            self.embed = nn.Embedding(words, width)
            self.rnn = nn.LSTM(width, width, num_layers=2, batch_first=True)
            self.head = nn.Linear(width, words)

        def forward(self, ids):
            return self.head(self.rnn(self.embed(ids))[0]).flatten(0, 1)

    class DLRM(nn.Module):
        """A recommendation model: embedding tables for categories, an MLP for numbers, their dot products, an MLP."""
        def __init__(self, rows, tables=26, width=64, sparse=False):
            super().__init__()
            self.tables = nn.ModuleList(nn.EmbeddingBag(rows, width, mode="sum", sparse=sparse) for _ in range(tables))
            self.bottom = nn.Sequential(nn.Linear(13, 512), nn.ReLU(), nn.Linear(512, width), nn.ReLU())
            pairs = (tables + 1) * tables // 2
            self.top = nn.Sequential(nn.Linear(pairs + width, 512), nn.ReLU(), nn.Linear(512, 2))
            self.register_buffer("pairs", torch.tril_indices(tables + 1, tables + 1, -1))

        def forward(self, numbers, categories):
            dense = self.bottom(numbers)
            x = torch.stack([dense] + [t(categories[:, i]) for i, t in enumerate(self.tables)], dim=1)
            dots = (x @ x.transpose(1, 2))[:, self.pairs[0], self.pairs[1]]
            return self.top(torch.cat([dense, dots], dim=1))

    if args.model == "mlp":
        net = nn.Sequential(nn.Linear(784, 4096), nn.ReLU(), nn.Linear(4096, 4096), nn.ReLU(), nn.Linear(4096, 10))
        inputs, labels = (torch.randn(n, 784, device=device),), torch.randint(10, (n,), device=device)
    elif args.model == "lstm":
        net = LSTM()
        ids = torch.randint(10000, (n, args.seq_len), device=device)
        inputs, labels = (ids,), ids.flatten()
    else:
        rows = LARGE_ROWS if args.model == "dlrm-large" else 100000
        net = DLRM(rows=rows, sparse=rows == LARGE_ROWS)
        inputs = (torch.randn(n, 13, device=device), torch.randint(rows, (n, 26, 4), device=device))
        labels = torch.randint(2, (n,), device=device)
    batch = samples(args, torch, device, *inputs, labels)

    def loss(net):
        *inputs, labels = batch()
        return nn.functional.cross_entropy(net(*inputs).float(), labels)
    return net, loss


def build(args, torch, device):
    if args.model in VISION:
        return build_vision(args, torch, device)
    if args.model in LANGUAGE:
        return build_language(args, torch, device)
    return build_own(args, torch, device)


def build_optimizer(args, torch, params):
    kinds = {"sgd": (torch.optim.SGD, {}), "momentum": (torch.optim.SGD, {"momentum": 0.9}),
             "adam": (torch.optim.Adam, {}), "adamw": (torch.optim.AdamW, {})}
    kind, kwargs = kinds[args.optimizer]
    return kind(params, lr=args.lr, **kwargs)


# --- training ---

def set_precision(args, torch):
    """Returns what to run a forward pass in, and the gradient scaler (a disabled one does nothing)."""
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = args.precision == "tf32"
    half = {"amp-bf16": torch.bfloat16, "amp-fp16": torch.float16}.get(args.precision)
    context = torch.autocast(args.device, dtype=half) if half else contextlib.nullcontext()
    if args.precision == "bf16":
        torch.set_default_dtype(torch.bfloat16)  # weights, activations and optimizer state
    return context, torch.amp.GradScaler(args.device, enabled=args.precision == "amp-fp16")


def memory_mib(torch, args):
    """Peak bytes in tensors, and peak bytes that PyTorch took from the GPU for them; both in MiB."""
    if args.device == "cpu":
        return None, None
    return torch.cuda.max_memory_allocated() >> 20, torch.cuda.max_memory_reserved() >> 20


def prepare(args, torch, rank=0):
    """The model in training, and a function that does one step and returns its loss. It does not wait for the GPU."""
    device = torch.device(args.device, rank) if args.device == "cuda" else torch.device("cpu")
    if args.device == "cuda":
        torch.cuda.set_device(device)
    torch.manual_seed(args.seed + rank)
    context, scaler = set_precision(args, torch)
    net, loss_of = build(args, torch, device)
    net = net.to(device).train()
    if args.gpus > 1:
        net = torch.nn.parallel.DistributedDataParallel(net, device_ids=[rank] if args.device == "cuda" else None,
                                                        find_unused_parameters=args.model.startswith("xlnet"))
    optimizer = build_optimizer(args, torch, net.parameters())

    def step():
        if args.loader_ms:
            time.sleep(args.loader_ms / 1000)
        with context:
            loss = loss_of(net)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad(set_to_none=True)
        return loss
    return net, step


def train(args, torch, rank):
    net, one_step = prepare(args, torch, rank)
    say = print if rank == 0 else lambda *a, **k: None
    name = torch.cuda.get_device_name() if args.device == "cuda" else "cpu"
    say(f"{args.model}: {sum(p.numel() for p in net.parameters()) / 1e6:.1f} M parameters, batch {args.batch_size}, "
        f"{args.optimizer}, {args.precision}, {args.gpus} x {name}, pid {os.getpid()}", flush=True)

    extra = None  # kept, so that the memory of --lie-mib stays taken
    step = printed = 0
    start = printed_at = after_first = time.monotonic()
    while not (args.steps and step >= args.steps) and not out_of_time(args, torch, start):
        if args.lie_mib and step == args.lie_at:
            say(f"step {step}: taking {args.lie_mib} MiB more", flush=True)
            extra = torch.ones(args.lie_mib << 20, dtype=torch.uint8, device=args.device)
        loss = one_step()
        step += 1
        if step == 1 or step % args.print_every == 0:
            value = loss.item()  # waits for the GPU, so that the time below is that of finished steps
            now = time.monotonic()
            rate = (step - printed) / (now - printed_at)
            of = f"/{args.steps}" if args.steps else ""
            taken = memory_mib(torch, args)[1]
            say(f"step {step}{of}  {now - start:.1f} s  loss {value:.3f}  {rate:.2f} steps/s"
                + (f"  {taken} MiB reserved" if taken is not None else ""), flush=True)
            printed, printed_at = step, now
            if step == 1:
                after_first = now
    if args.device == "cuda":
        torch.cuda.synchronize()
    del extra
    end = time.monotonic()
    allocated, reserved = memory_mib(torch, args)
    # The first step compiles and tunes kernels; it says nothing about speed.
    say(json.dumps({"model": args.model, "batch_size": args.batch_size, "precision": args.precision, "gpus": args.gpus,
                    "steps": step, "seconds": round(end - start, 3), "first_step_s": round(after_first - start, 3),
                    "steps_per_s": round((step - 1) / (end - after_first), 3) if step > 1 else None,
                    "peak_allocated_mib": allocated, "peak_reserved_mib": reserved, "device": name}), flush=True)


def out_of_time(args, torch, start):
    if not args.seconds:
        return False
    over = time.monotonic() - start >= args.seconds
    if args.gpus > 1:  # all processes must stop at the same step: they wait for one another in every one
        flag = torch.tensor([float(over)], device=args.device)
        torch.distributed.broadcast(flag, 0)
        over = bool(flag.item())
    return over


def worker(rank, args, port):
    """One process of a distributed run."""
    import torch
    stop_on_term()
    if args.device == "cuda":
        torch.cuda.set_device(rank)
    torch.distributed.init_process_group("nccl" if args.device == "cuda" else "gloo", rank=rank, world_size=args.gpus,
                                         init_method=f"tcp://127.0.0.1:{port}")
    try:
        train(args, torch, rank)
    finally:
        torch.distributed.destroy_process_group()


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def stop_on_term():
    def stop(signum, frame):
        os.write(1, b"terminated by SIGTERM\n")  # print() may be what was interrupted
        os._exit(128 + signum)
    signal.signal(signal.SIGTERM, stop)


def main():
    args = parse_args()
    stop_on_term()
    try:
        import torch  # slow, so only once the arguments are known to be good
    except ImportError as e:
        sys.exit(f"train.py: PyTorch is needed: {e}. See https://pytorch.org/get-started")
    if args.device == "cuda":
        if not torch.cuda.is_available():
            sys.exit("train.py: PyTorch sees no GPU (is CUDA_VISIBLE_DEVICES right?); --device cpu runs without one")
        if torch.cuda.device_count() < args.gpus:
            sys.exit(f"train.py: --gpus {args.gpus}, but PyTorch sees {torch.cuda.device_count()}")
    if args.gpus == 1:
        train(args, torch, 0)
    else:
        # The workers end with this process: torch.multiprocessing asks the kernel for that.
        torch.multiprocessing.spawn(worker, (args, os.environ.get("MASTER_PORT") or free_port()), nprocs=args.gpus)


if __name__ == "__main__":
    main()
