#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""torchinfo's table of each model at each size, two samples, on the device "meta":  summaries.py FOLDER [--fresh]

For the estimators that read summaries. Needs torchinfo; takes a minute or two and no memory to speak of.
"""

import contextlib
import pathlib
import sys


import jobs
import models


def table(arch, size):
    from torchinfo import summary

    with models.unfilled():
        model = arch.make(size).to("meta")
    batch = arch.batch(2, size, "meta")
    if arch.batch in (models.images, models.pixels):
        data = {"input_data": batch[0]}
    elif arch.batch is models.clicks:
        data = {"input_data": [batch[0], batch[1]]}
    elif arch.loss is models.next_word:
        data = {"input_data": batch[0]}
    else:
        data = {
            "input_data": {"input_ids": batch[0], "labels": batch[0][:, 0] % 2 if arch.loss is models.labelled else batch[0]}
        }
    return str(
        summary(
            model,
            **data,
            depth=20,
            device="meta",
            mode="train",
            verbose=0,
            col_names=("output_size", "num_params"),
            row_settings=("depth",),
        )
    )


def main():
    out = pathlib.Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    models.preload()
    for name, size in sorted({(j.arch, j.size) for j in (jobs.FRESH if "--fresh" in sys.argv else jobs.JOBS)}):
        try:
            with contextlib.redirect_stdout(sys.stderr):
                text = table(jobs.ARCHS[name], size)
            (out / f"{name}-{size}.txt").write_text(text + "\n")
        except Exception as e:
            print(name, size, f"{type(e).__name__}: {e}"[:300], flush=True)


if __name__ == "__main__":
    main()
