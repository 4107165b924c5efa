# SPDX-License-Identifier: MIT
"""Trains and scores GPUMemNet's nets, ours and the published ones, on the measured set. In three steps, of which the second needs
nothing but PyTorch and runs wherever that is fast:

    python3 -m radrm.gpumemnet.train prepare --tool build/tools/vectors --rows rows.pickle.gz
    python3 -m radrm.gpumemnet.train run --rows rows.pickle.gz --trained FOLDER [--jobs 16] [--device cuda]
    python3 -m radrm.gpumemnet.train write --tool build/tools/vectors --rows rows.pickle.gz --trained FOLDER --out FOLDER

The last leaves weights.bin (nets trained on all rows, for models/gpumemnet), expected.json (for tests/gpumemnet) and scores.json, which
page.py turns into text. --published names the published set of MLPs (mlp_dataset.csv), to score both on; --tiny tries everything on
a few rows.
"""
import argparse
import gzip
import multiprocessing
import os
import pathlib
import pickle
import time

from .specs import FAMILIES

FOLDS = ("fold0", "fold1", "fold2")
KINDS = ("ensemble", "encoder")


def plan(with_published_set):
    """Jobs: (rows, who, kind, split, GiB a bin). `rows` is a family, `family/plain` its rows of Adam and AdamW in fp32 and TF32, or
    `a100` for the published set. The longest first."""
    from .jobs import STEPS
    jobs = []
    for family in FAMILIES:
        for kind in KINDS:
            jobs += [(family, "ours", kind, name, 0) for name in (*FOLDS, "split", "all")]
            jobs += [(family, "published", kind, name, step) for name in (*FOLDS, "split") for step in STEPS[family]]
            jobs += [(f"{family}/plain", "published", kind, name, step) for name in FOLDS for step in STEPS[family]]
            jobs += [(f"{family}/plain", "ours", kind, name, 0) for name in FOLDS]
    if with_published_set:
        for kind in KINDS:
            jobs += [("a100", "ours", kind, name, 0) for name in (*FOLDS, "split")]
            jobs += [("a100", "published", kind, name, step) for name in (*FOLDS, "split") for step in STEPS["mlp"]]
    order = {"transformer": 0, "cnn": 1, "a100": 3, "mlp": 2}
    return sorted(jobs, key=lambda j: (j[2] == "ensemble", j[3] != "all", order[j[0].split("/")[0]], j))


_rows = {}


def _run(args):
    job, tiny, device = args
    import torch
    torch.set_num_threads(1)
    from . import jobs
    of, who, kind, name, step = job
    family, rows = of.split("/")[0].replace("a100", "mlp"), _rows[of]
    epochs, began = (4 if tiny else None), time.monotonic()
    device = device if kind == "encoder" else "cpu"
    if who == "ours":
        (check, test), about = jobs.ours(rows, family, kind, name, device, epochs=epochs)
        result = {"check": check, "test": test, "about": about if name == "all" else None}
    else:
        result = {"figures": jobs.published(rows, family, kind, name, step, device, epochs=epochs)}
    return job, {**result, "seconds": time.monotonic() - began}


def prepare(args):
    from . import features
    rows = {}
    for family in FAMILIES:
        of = rows[family] = features.load(args.data, family, args.tool, 90 if args.tiny else None)
        rows[f"{family}/plain"] = of.take([i for i in range(len(of)) if of.plain[i]])
    if args.published:
        of = features.load_published_mlps(args.published, args.tool)
        rows["a100"] = of.take(list(range(0, len(of), 30))) if args.tiny else of
    with gzip.open(args.rows, "wb", compresslevel=6) as f:
        pickle.dump(rows, f)


def _read(path):
    with gzip.open(path, "rb") as f:
        return pickle.load(f)


def _inherit(path):
    _rows.update(_read(path))


def run(args):
    """Results by job, a file for each set of rows."""
    jobs, began, results = plan("a100" in _read(args.rows)), time.monotonic(), {}
    folder = pathlib.Path(args.trained)
    folder.mkdir(parents=True, exist_ok=True)
    with multiprocessing.get_context("spawn").Pool(args.jobs, _inherit, (args.rows,)) as pool:
        for job, result in pool.imap_unordered(_run, [(j, args.tiny, args.device) for j in jobs]):
            results[job] = result
            print(f"{time.monotonic() - began:6.0f} s  {len(results)}/{len(jobs)}  {' '.join(map(str, job))}  {result['seconds']:.0f} s",
                  flush=True)
            if sum(j[0] == job[0] for j in results) == sum(j[0] == job[0] for j in jobs):
                with gzip.open(folder / f"{job[0].replace('/', '-')}.pickle.gz", "wb", compresslevel=6) as f:
                    pickle.dump({j: r for j, r in results.items() if j[0] == job[0]}, f)


def write(args):
    from . import results
    trained = {}
    for path in pathlib.Path(args.trained).glob("*.pickle.gz"):
        trained.update(_read(path))
    pathlib.Path(args.out).mkdir(parents=True, exist_ok=True)
    results.write(_read(args.rows), trained, args, pathlib.Path(args.out))


def main():
    p = argparse.ArgumentParser(prog="python3 -m radrm.gpumemnet.train")
    p.add_argument("step", choices=("prepare", "run", "write"))
    p.add_argument("--rows", required=True)
    p.add_argument("--data", default="models/gpumemnet")
    p.add_argument("--tool", default="build/tools/vectors")
    p.add_argument("--trained")
    p.add_argument("--out")
    p.add_argument("--jobs", type=int, default=os.cpu_count())
    p.add_argument("--device", default="cpu", help="of the encoders; ensembles are too small for a GPU")
    p.add_argument("--published")
    p.add_argument("--summaries", default="tests/summaries")
    p.add_argument("--card", default="NVIDIA H200")
    p.add_argument("--stack", default="driver 580.159, CUDA 13.0, PyTorch 2.11.0+cu130")
    p.add_argument("--tiny", action="store_true")
    args = p.parse_args()
    {"prepare": prepare, "run": run, "write": write}[args.step](args)


if __name__ == "__main__":
    main()
