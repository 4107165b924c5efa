#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Scripts of kinds that other benches do not have (kinds/), captured and run for nine seconds each.

    kinds.py --rad build/rad --out FOLDER [--workers N] [NAME...]

A line a script in FOLDER/kinds.jsonl, as of later.py. What a run took is the least that it would: it was not run to its end.
They were written as people write them. Needs PyTorch, and a GPU of 80 GiB that nobody else uses.
"""
import later

if __name__ == "__main__":
    later.run(__doc__, {path.stem: path.read_text() for path in sorted((later.HERE / "kinds").glob("*.py"))}, seconds=9)
