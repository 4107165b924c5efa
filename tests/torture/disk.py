# SPDX-License-Identifier: MIT
"""What a power cut leaves of the store: from the journal of tests/fake-disk, of every write since the last sync of its file
some are kept, some lost, some torn at a sector, whatever their order. Names of files are taken to be kept."""
import os
import struct

RECORD = struct.Struct("=IIQQQQ")
WRITE, SYNC = 1, 2
SECTOR = 512


def unsynced(path):
    """Of each file (0: database, 1: WAL) the writes since its last sync: (at, old, new, size before)."""
    found = {0: [], 1: []}
    try:
        with open(path, "rb") as f:
            data = f.read()
    except OSError:
        return found
    at = 0
    while at + RECORD.size <= len(data):
        what, part, where, n, old, size = RECORD.unpack_from(data, at)
        at += RECORD.size
        if what == SYNC:
            found[part] = []
        else:
            found[part].append((where, data[at:at + old], data[at + old:at + old + n], size))
            at += old + n
    return found


def undo(fd, where, old, new, size):
    os.pwrite(fd, old, where)
    if len(old) < len(new):
        os.ftruncate(fd, size)


def keep_some(fd, where, new, rng):
    chance = rng.random()
    if chance < 0.4:
        return 0
    if chance < 0.7:
        os.pwrite(fd, new, where)
        return 1
    for i in range(0, len(new), SECTOR):
        if rng.random() < 0.5:
            os.pwrite(fd, new[i:i + SECTOR], where + i)
    return 1


def cut(state, journal, rng):
    """Call while nobody has the store open. Returns how many writes were not synced."""
    n = 0
    for part, writes in unsynced(journal).items():
        path = f"{state}/rad.db" + ("-wal" if part else "")
        if not writes or not os.path.exists(path):
            continue
        fd = os.open(path, os.O_RDWR)
        for where, old, new, size in reversed(writes):
            undo(fd, where, old, new, size)
        for where, old, new, size in writes:
            keep_some(fd, where, new, rng)
            n += 1
        os.fsync(fd)
        os.close(fd)
    for path in (f"{state}/rad.db-shm", journal):
        if os.path.exists(path):
            os.unlink(path)
    return n
