# SPDX-License-Identifier: MIT
"""From what collect.py measured to the data set, and back. Standard library only.

    python3 -m radrm.gpumemnet.dataset [--raw FOLDER...] [--seed 1] [--rows 4000] [--out models/gpumemnet]

writes mlp.csv.gz, cnn.csv.gz and transformer.csv.gz, sweeps.csv.gz (figures 5.4 and 5.5) and fresh.csv.gz (configurations of
the others, measured in processes of their own), and prints what was left out and why. The columns are described in README.md there.
Without options it makes the project's data set of the project's measurements, as everything that reads it expects.
"""
import argparse
import collections
import csv
import gzip
import io
import json
import pathlib

from . import specs, table

MIB = 1 << 20
ROOT = pathlib.Path(__file__).resolve().parents[3]
FOLDER = ROOT / "models" / "gpumemnet"
RAW = [ROOT / "doc" / "results" / "memory" / "gpumemnet" / name for name in ("raw", "raw2")]
COLUMNS = ("id", "family", "shape", "optimizer", "precision", "batch_size", "seq_len", "input", "classes", "allocated_mib",
           "reserved_mib", "nvml_mib", "labels_from", "second_mib", "outside_mib", "nth", "spec", "layers")
NUMBERS = ("batch_size", "seq_len", "classes", "allocated_mib", "reserved_mib", "nvml_mib", "second_mib", "outside_mib", "nth")
JUMP_MIB = 500  # of the memory outside the allocator, at once: more than kernels take when they are first loaded


def outside_mib(family, precision):
    """What a process of its own takes outside PyTorch's allocator on an H200 (driver 580.159, CUDA 13.0, PyTorch 2.11): the
    largest that fresh processes of that kind showed. See README.md beside the data for how they spread."""
    return 758 if family == "cnn" or (family == "transformer" and precision in ("amp-bf16", "amp-fp16", "bf16")) else 742


# ---- cleaning ----

def _outside(row):
    return row["nvml_mib"] - row["held"] // MIB


def contradiction(row, spec):
    """Why the figures of a row cannot be right; None: nothing speaks against them."""
    of_param = 2 if spec["precision"] == "bf16" else 4
    least = table.params(spec) * of_param * (1 + specs.OPTIMIZERS[spec["optimizer"]])
    if row["before"]:
        return "tensors of the row before were still there"
    if not row["states"]:
        return "no step of the optimizer was taken"
    if row["nvml_mib"] is None or _outside(row) < 0:
        return "NVML does not show what the allocator holds"
    if not least <= row["allocated"] <= row["reserved"] or row["held"] > row["reserved"]:
        return "weights and optimizer states are more than was allocated"
    return None


def _jumped(rows):
    """Ids of rows at which a process's memory outside the allocator grew at once by more than JUMP_MIB, as when a kernel makes
    the driver set aside more local memory for good. What a job of its own would show then is not known to the MiB."""
    usual = min(map(_outside, rows), default=0)
    grown, found = [], set()  # `grown`: the latest row of each process that has jumped; rows come in the order of measuring
    for row in rows:
        if _outside(row) <= usual + JUMP_MIB:
            continue
        before = [nth for nth in grown if nth < row["nth"]]
        if before:
            grown.remove(max(before))
        else:
            found.add(row["id"])
        grown.append(row["nth"])
    return found


def clean(rows, known):
    """Rows of one set that can be used, and a Counter of why others cannot. `known`: id to spec."""
    dropped, kept, seen = collections.Counter(), [], set()
    for row in rows:
        why = row.get("error") or ("twice" if row["id"] in seen else contradiction(row, known[row["id"]]))
        if why:
            dropped[why] += 1
            continue
        seen.add(row["id"])
        kept.append(row)
    jumped = _jumped(kept)
    dropped["memory outside the allocator jumped"] += len(jumped)
    return [row for row in kept if row["id"] not in jumped], +dropped


# ---- tables ----

def _up(n):
    return -(-n // MIB)


def record(row, spec):
    """One line of a table."""
    family, precision = spec["family"], spec["precision"]
    image = "x".join(map(str, spec["input"])) if family == "cnn" else spec["input"] if family == "mlp" else ""
    alone = row["set"] == "fresh"
    outside = _outside(row)
    taken = outside if alone else outside_mib(family, precision)
    return {"id": row["id"], "family": family, "shape": spec["shape"], "optimizer": spec["optimizer"], "precision": precision,
            "batch_size": spec["batch"], "seq_len": spec.get("seq_len", ""), "input": image, "classes": spec["classes"],
            "allocated_mib": _up(row["allocated"]), "reserved_mib": _up(row["reserved"]),
            "nvml_mib": _up(row["reserved"]) + taken, "labels_from": "measured",
            "second_mib": _up(row["second"]), "outside_mib": outside, "nth": row["nth"], "spec": specs.canonical(spec),
            "layers": table.encode(table.layers(spec))}


def write(path, records):
    """The same bytes for the same records."""
    text = io.StringIO()
    out = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    out.writeheader()
    out.writerows(sorted(records, key=lambda r: r["id"]))
    with open(path, "wb") as f, gzip.GzipFile("", "wb", 9, f, mtime=0) as z:
        z.write(text.getvalue().encode())


def read(path):
    """Rows of a table: dicts with numbers as such and `spec` as a dict."""
    if not path.exists():
        raise FileNotFoundError(f"{path}: the data set is not in the repository: python3 -m radrm.gpumemnet.dataset makes it")
    with gzip.open(path, "rt", newline="") as f:
        rows = list(csv.DictReader(f))
    for row in rows:
        row.update({k: int(row[k]) for k in NUMBERS if row[k]}, spec=json.loads(row["spec"]))
    return rows


def make(raw_folders, seed, rows, out):
    """Writes the tables into the folder `out`. Returns what of each set was left out, and why."""
    known = {specs.identity(s): s for s in [*specs.sweeps(), *specs.generate(seed, rows)]}
    raw, said = [], {}
    for folder in raw_folders:
        with gzip.open(folder / "rows.jsonl.gz", "rt") as f:
            raw += map(json.loads, f)
    out.mkdir(parents=True, exist_ok=True)
    for set_ in ("rows", "sweep", "fresh"):
        kept, dropped = clean([r for r in raw if r["set"] == set_], known)
        records = [record(r, known[r["id"]]) for r in kept]
        said[set_] = (len(kept), dict(dropped))
        if set_ != "rows":
            write(out / f"{'sweeps' if set_ == 'sweep' else set_}.csv.gz", records)
            continue
        for family in specs.FAMILIES:
            write(out / f"{family}.csv.gz", [r for r in records if r["family"] == family])
    return said


def main():
    p = argparse.ArgumentParser(prog="radrm.gpumemnet.dataset")
    p.add_argument("--raw", type=pathlib.Path, nargs="+", default=RAW, help="folders that collect.py wrote")
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--rows", type=int, default=4000, help="of each family that were drawn")
    p.add_argument("--out", type=pathlib.Path, default=FOLDER)
    args = p.parse_args()
    for set_, (kept, dropped) in make(args.raw, args.seed, args.rows, args.out).items():
        print(f"{set_}: {kept} rows; left out: {dropped}")


if __name__ == "__main__":
    main()
