# SPDX-License-Identifier: MIT
"""Which tasks run_mixes.py keeps ready, and which mixes of them it measures: chosen by a seed, before anything is measured, and
each one marked then as one to fit a law on or one to score it with.
"""
import itertools
import random

import mix

# How many processes of each: none runs twice at a time in a mix. Light and heavy ones, convolutions and transformers, one that
# waits for its loader. The names are those of mix.py where it has the task.
COPIES = {"resnet18-c128": 4, "resnet18-c32": 4, "mobilenet-c64": 3, "efficientnet-c128": 3, "gpt2-b4": 3, "lstm-b32": 2,
          "mlp-b512": 2, "mlp-adamw": 1, "dlrm-loader": 1, "dlrm-b4096": 1, "resnet50-b64": 1, "vgg16-b32": 1,
          "mobilenet-b64": 1, "bert-base-b32": 1,
          "inception-b32": 1}
ARGS = {**{t.name: t.args for t in mix.TASKS},
        "mlp-b512": "--model mlp --batch-size 512 --optimizer momentum",
        "mlp-adamw": "--model mlp --batch-size 64 --optimizer adamw",  # these two wait for memory, not for SMs
        "dlrm-b4096": "--model dlrm --batch-size 4096 --optimizer sgd",
        "lstm-b32": "--model lstm --batch-size 32 --seq-len 128"}
CPU_COPIES = {"mlp-cpu": 2, "lstm-cpu": 1}
CPU_ARGS = {"mlp-cpu": "--model mlp --batch-size 2 --optimizer sgd --device cpu",
            "lstm-cpu": "--model lstm --batch-size 1 --seq-len 4 --optimizer sgd --device cpu"}

# Thousands of small kernels a step, or hundreds and many steps: the crowds are drawn of these.
TINY = ("resnet18-c128", "resnet18-c32", "mobilenet-c64", "efficientnet-c128", "gpt2-b4", "lstm-b32", "mlp-b512", "dlrm-loader")
# What one process of each holds of the GPU's memory at most, in MiB; below a GiB and a half where nothing is said.
MEM_MIB = {"resnet50-b64": 7600, "vgg16-b32": 6900, "mobilenet-b64": 6500, "bert-base-b32": 9000, "inception-b32": 5300,
           "gpt2-b4": 5600, "dlrm-loader": 3000, "dlrm-b4096": 3500, "lstm-b32": 2000}
SMALL_MIB = 1536

# Sizes in turn, and what they are drawn of: every second one is a crowd of tiny kernels.
SIZES = (2, 3, 4, 6)
CROWDS = (4, 6, 8)
CHAIN_EVERY = 6    # random mixes between two chains


def fitting(copies, mem_mib):
    """The copies that a GPU with so much memory can hold at a time: of the kind with most of them one less, until they fit."""
    copies = dict(copies)

    def held(name):
        return MEM_MIB.get(name, SMALL_MIB)
    while sum(n * held(name) for name, n in copies.items()) > mem_mib:
        name = max(copies, key=lambda c: (copies[c], held(c)))
        copies[name] -= 1
        copies = {k: n for k, n in copies.items() if n}
    return copies


def turns(bag):
    """(what to draw of, how many), in turn for ever; nothing that the bag has not."""
    crowd = [name for name in bag if name in TINY]
    every = [(bag, n) for n in SIZES if n <= len(bag)]
    crowds = [(crowd, n) for n in CROWDS if n <= len(crowd)] or every
    return itertools.chain.from_iterable(zip(itertools.cycle(every), itertools.cycle(crowds)))


def plan(copies, count, seed):
    """That many different mixes, each a sorted list of names: all-equal ones and random ones of each size, in random order."""
    rng = random.Random(seed)
    bag = [name for name, n in copies.items() for _ in range(n)]
    mixes = {(name,) * n for name, most in copies.items() for n in range(2, most + 1)}
    draws = turns(bag)
    for _ in range(20 * count):  # a small bag has few mixes
        if len(mixes) >= count:
            break
        pool, n = next(draws)
        mixes.add(tuple(sorted(rng.sample(pool, n))))
    ordered = sorted(mixes)
    rng.shuffle(ordered)
    return [list(m) for m in ordered[:count]]


def chains(copies, count, seed):
    """What a server sees: tasks come and go one at a time. Of four different tasks each: ab, abc, abcd, bcd, cd."""
    rng = random.Random(seed + 1)
    if len(copies) < 4:
        return []
    picked = [rng.sample(sorted(copies), 4) for _ in range(count)]
    return [[[a, b], [a, b, c], [a, b, c, d], [b, c, d], [c, d]] for a, b, c, d in picked]


def schedule(copies, count, n_chains, seed, part=0, parts=1):
    """What is measured, in order: [{mix: number, members, split: "fit" or "score", chain, span: None, or the numbers of a chain
    and of its span}]. Of random mixes of one size, and of chains, every other one is for fitting. Chains come between mixes, as
    wholes; part `part` of `parts` has every so manieth group."""
    seen, groups = {}, []
    for members in plan(copies, count, seed):
        seen[len(members)] = seen.get(len(members), 0) + 1
        groups.append([{"members": members, "split": "fit" if seen[len(members)] % 2 else "score", "chain": None, "span": None}])
    for k, spans in enumerate(chains(copies, n_chains, seed)):
        whole = [{"members": members, "split": "score" if k // parts % 2 else "fit", "chain": k, "span": n}
                 for n, members in enumerate(spans)]
        groups.insert(min(len(groups), (k // parts * (CHAIN_EVERY + 1) + 1) * parts + k % parts), whole)
    number = itertools.count()
    numbered = [[{"mix": next(number), **m} for m in group] for group in groups]
    return [m for group in numbered[part::parts] for m in group]
