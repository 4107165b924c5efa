# SPDX-License-Identifier: MIT
"""The version of the capture file and its limits, for its writer and, made into C by tools/capture-limits, for its reader; and how long
one may take. What each means is doc/capture-format.md. One `NAME = number` a line, `number` in digits or as `1 << 46`."""
VERSION = 6

MAX_BYTES = 6 << 20  # of a file
MAX_ALLOCS = 1_000_000
MAX_RECORDS = 3_000_000
MAX_REQUEST = 1 << 46  # bytes of one storage
MAX_LIVE = 1 << 50  # bytes of all together; also of `params` and `growth`
MAX_STREAM = 255
MAX_FACTOR = 1 << 20  # taps and groups of a convolution
MAX_COUNT = 1 << 32  # `batch`, `seq_len`, `steps`, `beside`, `limit`, and each figure of a loader
MAX_COMMUNICATORS = 64
MAX_KERNELS = 4096  # entries of the load part
MAX_WORK = 1 << 60  # each figure there
MAX_LOADERS = 16
MAX_WORKERS = 4096  # of one

# A capture may take so many times its limit of processor time by the clock (spent.py).
CLOCK = 5

# Characters of the header's texts.
MAX_TORCH = 40
MAX_ALLOC_CONF = 500
MAX_MODEL = 200
MAX_OPTIMIZER = 40
MAX_PRECISION = 40
MAX_KEY = 64
