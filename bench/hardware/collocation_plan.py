# SPDX-License-Identifier: MIT
"""What run_collocation.py measures, the most important first: the studies of chapter 4 of the dissertation, as groups. Each is
measured as a whole, in each of its modes.

The models are those of table 4.1 or their nearest of the same size: ResNet26, ResNet50, ResNet152 and EfficientNetV2-S from
torchvision; a vision transformer as deep and as narrow as CaiT XXS24; a recommender of 25 GiB of tables that waits for its samples.
The samples have the sizes of CIFAR10 (32), ImageNet64 (64) and ImageNet (224), and are copied to the GPU in each step.
"""
from collections import namedtuple

COMMON = "--data host --optimizer momentum"
TASKS = {
    "resnet26-c32": f"--model resnet26 --image-size 32 --batch-size 32 {COMMON}",
    "resnet26-c128": f"--model resnet26 --image-size 32 --batch-size 128 {COMMON}",
    "effnet-c128": f"--model efficientnet_v2_s --image-size 32 --batch-size 128 {COMMON}",
    "resnet50-m32": f"--model resnet50 --image-size 64 --batch-size 32 {COMMON}",
    "resnet50-m128": f"--model resnet50 --image-size 64 --batch-size 128 {COMMON}",
    "effnet-m128": f"--model efficientnet_v2_s --image-size 64 --batch-size 128 {COMMON}",
    "vit-l128": f"--model vit_xxs24 --batch-size 128 {COMMON}",
    "resnet152-l32": f"--model resnet152 --batch-size 32 {COMMON}",
    "resnet152-l128": f"--model resnet152 --batch-size 128 {COMMON}",
    "recommender": "--model dlrm-large --batch-size 2048 --loader-ms 20 --optimizer sgd --data host",
    "resnet50-jpeg": "--model resnet50 --batch-size 32 --data {jpegs} --optimizer momentum",
}
CPU_TASKS = {name: "--model mlp --batch-size 2 --optimizer sgd --device cpu --data host" for name in TASKS}
CPU_TASKS["resnet50-jpeg"] = "--model resnet18 --image-size 32 --batch-size 1 --data {jpegs} --loaders 1 --optimizer sgd --device cpu"

# An epoch in steps, from the datasets' sizes: 50,000 and 1,281,167 samples. Figure 4.12 is of two.
EPOCH = {"resnet26-c128": 391, "resnet50-m128": 10009, "resnet152-l32": 40036}
S, M, L = "resnet26-c128", "resnet50-m128", "resnet152-l32"

# of: what is resident, first to last; the first alone, before the others are built. points: (how many of it, or names; cores).
# Degree 1 of every task of a group is always measured.
Group = namedtuple("Group", "name of points modes ramp_s", defaults=[("mps", "streams"), 0.3])


def copies(name, degrees, *more):
    return Group(f"copies {name}", [name] * max(degrees), [([name] * d, None) for d in degrees if d > 1], *more)


ALL = ("mps", "streams", "percent")
MIXES = [[S, M], [S, L], [M, L], [S, M, M], [S, S, M, M], [S, M, M, M], [S, S, S, L], [S, M, L]]


def remainders(mixes):
    """Every mix, and what is left of it as its members end from the smallest on, each once; what is one task only is alone."""
    order, seen = [S, M, L], []
    for mix in mixes:
        left = list(mix)
        while len(left) > 1:
            if left not in seen:
                seen.append(left)
            smallest = min(left, key=order.index)
            left = [m for m in left if m != smallest]
    return seen


GROUPS = [
    copies("resnet26-c32", (1, 2, 3, 4, 7, 10, 13, 16), ALL),
    copies("resnet50-m128", (1, 2, 3, 7), ALL),
    copies("vit-l128", (1, 2, 3, 7), ALL),
    copies("resnet152-l32", (1, 2, 3, 7)),
    Group("recommender", [L, "recommender"], [([L, "recommender"], None)]),
    Group("mixed", [S, S, S, M, M, M, L], [(mix, None) for mix in remainders(MIXES)]),
    copies("resnet26-c128", (1, 2, 3, 7)),
    copies("effnet-m128", (1, 2, 3, 7)),
    Group("jpegs", ["resnet50-jpeg"] * 4, [(["resnet50-jpeg"] * d, cores) for cores in (None, 8, 4) for d in (1, 2, 3, 4)
                                           if cores or d > 1], ("mps",), 1.0),
    copies("resnet50-m32", (1, 2, 3, 7)),
    copies("effnet-c128", (1, 2, 3, 7)),
    copies("resnet152-l128", (1, 2, 3)),
]

# Workers of the mode "percent": the part of the SMs that MPS gives each, fixed when CUDA starts there. The first is for alone.
PERCENT = {1: [100], 2: [50] * 2, 3: [33] * 3, 7: [14] * 7}


def workers_needed(mode):
    """How many processes, or in "percent" the percentages of each."""
    if mode == "percent":
        return [p for part in PERCENT.values() for p in part]
    return [None] * max(len(g.of) for g in GROUPS if mode in g.modes)


def points_of(group, mode):
    return [p for p in group.points if mode != "percent" or len(p[0]) in PERCENT]
