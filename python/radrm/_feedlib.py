# SPDX-License-Identifier: MIT
"""libradfeed.so by ctypes: src/feed/feed.h has the contract."""
import ctypes
import os
from ctypes import POINTER, byref, c_bool, c_char, c_char_p, c_int, c_uint32, c_uint64, c_void_p

from . import _libraries, _rad

BATCH, END = 1, 2
COPY_THERE, COPY_MAKE, COPY_SOON, COPY_NEVER = range(4)        # enum feed_copy
INVALID, NOT_FOUND, CONFLICT, UNAVAILABLE = 2, 3, 4, 6      # enum error_code


class FeedError(_rad.RadError):
    """Why there is no next batch in this task."""


class Error(ctypes.Structure):
    _fields_ = [("code", c_int), ("no", c_int), ("text", c_char * 1000)]

    def __str__(self):
        return self.text.decode(errors="replace")


class Item(ctypes.Structure):
    _fields_ = [("kind", c_uint32), ("slot", c_uint32), ("epoch", c_uint64), ("index", c_uint64), ("bytes", c_uint64),
                ("data", c_void_p), ("ring", c_void_p)]


class Memory(ctypes.Structure):
    _fields_ = [("fd", c_int), ("stride", c_uint64), ("bytes", c_uint64)]


def _declare(lib):
    error = POINTER(Error)
    for name, result, *arguments in (
            ("feed_writer_claim", c_void_p, c_char_p, c_char_p, c_uint64, error),
            ("feed_writer_position", None, c_void_p, POINTER(c_uint64), POINTER(c_uint64), POINTER(c_uint64)),
            ("feed_writer_open", c_int, c_void_p, c_uint32, c_uint64, c_uint32, error),
            ("feed_writer_pinnable", None, c_void_p),
            ("feed_writer_again", None, c_void_p, c_char_p, c_uint64),
            ("feed_writer_until", None, c_void_p, c_int),
            ("feed_writer_wants", None, c_void_p, c_uint32),
            ("feed_writer_reserve", c_int, c_void_p, c_uint64, POINTER(c_void_p), error),
            ("feed_writer_publish", None, c_void_p, c_int, c_uint64),
            ("feed_writer_clean", None, c_void_p),
            ("feed_writer_resign", None, c_char_p),
            ("feed_writer_close", None, c_void_p),
            ("feed_reader_open", c_void_p, c_char_p, c_char_p, c_int, error),
            ("feed_reader_next", c_int, c_void_p, c_int, POINTER(Item), error),
            ("feed_reader_differs", c_bool, c_void_p),
            ("feed_item_shared", c_void_p, POINTER(Item), POINTER(c_void_p), POINTER(c_uint64)),
            ("feed_item_slots", c_uint64, POINTER(Item)),
            ("feed_reader_copies", c_int, c_void_p, POINTER(Item), c_char_p, c_int, POINTER(Memory), POINTER(c_void_p), POINTER(c_int),
             error),
            ("feed_copies_size", None, c_void_p, POINTER(c_uint64), POINTER(c_uint64)),
            ("feed_copies_ask", c_int, c_void_p, POINTER(Item)),
            ("feed_copies_made", None, c_void_p, POINTER(Item), c_bool),
            ("feed_copies_close", None, c_void_p),
            ("feed_reader_release", None, c_void_p, c_void_p, c_uint32),
            ("feed_reader_close", None, c_void_p)):
        function = getattr(lib, name)
        function.restype, function.argtypes = result, arguments
    return lib


_loaded = None


def load():
    global _loaded
    if _loaded is None:
        named = os.environ.get("RADFEED_LIBRARY", "")
        path = named if os.path.isfile(named) else _libraries.find("libradfeed.so")
        if path is None:
            raise FeedError("libradfeed.so: not found where RAD-RM is installed; set RADFEED_LIBRARY to its path")
        _loaded = _declare(ctypes.CDLL(path))
    return _loaded


def position(lib, writer):
    epoch, index, seed = c_uint64(), c_uint64(), c_uint64()
    lib.feed_writer_position(writer, byref(epoch), byref(index), byref(seed))
    return epoch.value, index.value, seed.value
