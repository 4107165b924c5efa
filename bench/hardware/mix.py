# SPDX-License-Identifier: MIT
"""The tasks of the policy comparison: light CNNs on CIFAR-size images, medium ones on ImageNet-size, transformers, one that
waits for its loader. Each takes about five seconds of work alone on an H200, besides its start."""
from collections import namedtuple

# mem_mib: what its user declares, per GPU as NVML counts it. Then what it shows when alone, for simulated devices: seconds,
# GRACT, SMACT (measured on an H200, or taken from the nearest model that was). takes_mib: what it really takes; 0: somewhat less
# than declared.
Task = namedtuple("Task", "name mem_mib steps args seconds gract smact gpus takes_mib", defaults=[1, 0])

MOMENTUM = "--optimizer momentum"

# In the order of submission: heavy and light ones mixed, as they come.
TASKS = [
    Task("resnet50-b64",     8 << 10, 150, f"--model resnet50 --batch-size 64 {MOMENTUM}", 11, .99, .82),
    Task("resnet18-c128",       1536, 600, f"--model resnet18 --image-size 32 --batch-size 128 {MOMENTUM}", 10, .29, .14),
    Task("bert-base-b32",   10 << 10, 100, "--model bert-base --batch-size 32 --seq-len 128", 12, .99, .90),
    Task("mobilenet-c64",       1536, 280, f"--model mobilenet_v2 --image-size 32 --batch-size 64 {MOMENTUM}", 10, .14, .05),
    Task("vgg16-b32",        8 << 10, 180, f"--model vgg16 --batch-size 32 {MOMENTUM}", 10, .99, .92),
    Task("efficientnet-c128",  1536, 160, f"--model efficientnet_b0 --image-size 32 --batch-size 128 {MOMENTUM}", 10, .24, .14),
    Task("resnet34-c64",        1536, 380, f"--model resnet34 --image-size 32 --batch-size 64 {MOMENTUM}", 10, .34, .19),
    Task("mobilenet-b64",    7 << 10, 180, f"--model mobilenet_v2 --batch-size 64 {MOMENTUM}", 10, .97, .69),
    Task("gpt2-b4",          6 << 10, 100, "--model gpt2 --batch-size 4 --seq-len 256 --precision amp-bf16", 11, .90, .60),
    Task("resnet18-c32",        1536, 600, f"--model resnet18 --image-size 32 --batch-size 32 {MOMENTUM}", 10, .24, .11),
    Task("inception-b32",    6 << 10, 125, f"--model inception_v3 --batch-size 32 --image-size 299 {MOMENTUM}", 11, .89, .61),
    Task("dlrm-loader",      4 << 10, 200, "--model dlrm --batch-size 1024 --loader-ms 20 --optimizer sgd", 10, .10, .05),
    Task("resnet50-b128",   15 << 10,  80, f"--model resnet50 --batch-size 128 {MOMENTUM}", 11, .99, .86),
    Task("resnet34-c128",       1536, 380, f"--model resnet34 --image-size 32 --batch-size 128 {MOMENTUM}", 10, .32, .16),
]

# For machines of several GPUs: tasks of two, submitted among the others.
WIDE = {
    1: Task("resnet50-2x32",    5 << 10, 150, f"--model resnet50 --batch-size 32 --gpus 2 {MOMENTUM}", 12, .90, .60, 2),
    5: Task("bert-base-2x16",   8 << 10, 100, "--model bert-base --batch-size 16 --seq-len 128 --gpus 2", 12, .90, .70, 2),
    9: Task("gpt2-2x4",         7 << 10, 100, "--model gpt2 --batch-size 4 --seq-len 256 --precision amp-bf16 --gpus 2", 12, .80,
            .50, 2),
}

# Its user forgot something: at step 10 it takes more than was said. Where tasks are fenced it runs out of memory, alone, and
# runs again with more.
LIAR = Task("resnet18-liar", 3072, 400, f"--model resnet18 --image-size 32 --batch-size 128 {MOMENTUM} --lie-mib 2900 --lie-at 10",
            10, .29, .14, 1, 4000)

# A selection for a machine of two GPUs that takes little time: light, medium and heavy ones, two of two GPUs, the liar.
CHECK = ("resnet50-b64", "resnet50-2x32", "resnet18-c128", "bert-base-b32", "mobilenet-c64", "vgg16-b32", "resnet18-liar",
         "efficientnet-c128", "gpt2-2x4", "mobilenet-b64", "gpt2-b4", "inception-b32", "dlrm-loader")

QUICK = ("resnet18-c128", "mobilenet-c64", "resnet50-b64", "bert-base-b32")
