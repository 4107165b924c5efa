# SPDX-License-Identifier: MIT
"""Lays the file system aside while a script is captured: what it writes, removes or renames, it and what it starts see, and nobody
else (src/cli/aside.c says how, decision 247 why). Its working folder and home are laid aside when it begins, for whatever writes
there; another folder when Python is about to change something in it, which its audit events tell.

Where a process may not do this, files are written where the script writes them.
"""
import contextlib
import ctypes
import errno
import functools
import os
import re
import shutil
import sys

from .sandbox import CaptureError

WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
# Audit events of changes -> how many paths they begin with.
CHANGES = {"open": 1, "os.mkdir": 1, "os.remove": 1, "os.rmdir": 1, "os.rename": 2, "os.link": 2, "os.symlink": 2, "os.truncate": 1,
           "os.chmod": 1, "os.chown": 1, "os.utime": 1, "os.setxattr": 1, "os.removexattr": 1, "shutil.rmtree": 1, "sqlite3.connect": 1}
AT = {"os.mkdir", "os.remove", "os.rmdir", "os.rename", "os.link", "os.symlink", "os.chmod", "os.chown", "os.utime"}  # a descriptor is last
FOLDERS = {"os.chdir": 0, "subprocess.Popen": 2}  # audit events of working folders -> which argument it is
NAMED = re.compile(r"(?<![^\s'\"=:,;(>])/[^\s'\";|&<>()$]+")  # a whole path in a word: of its own, --out=/data, a shell's
LARGE = 256 << 20  # bytes of a file that is better not copied

root = None  # a descriptor of the file system as others see it
scratch = None  # where what is laid aside is kept, in a process of which it is, and in the captures of a command that it started


def real(path):
    """A path by which others' view of that absolute path can be had."""
    return path if root is None else f"/proc/self/fd/{root}{path}"


class Aside:
    """`library`: libradcapture.so; `folder`: an empty one, which is the caller's to remove; `mib`: what may be written; `must`: or there
    is no capture (else whoever captures is told); `words`: of the command, which may name folders that it writes to; `programs`: what it
    starts is captured too."""

    def __init__(self, library, folder, mib, must=False, words=(), programs=False):
        self.library, self.folder, self.mib, self.must, self.words, self.programs = library, folder, mib, must, words, programs
        self.known = set()

    def enter(self):
        """In the process that becomes the capture, before it starts a thread, and while it still speaks to who captures."""
        try:
            self.calls = ctypes.CDLL(self.library or "libradcapture.so", use_errno=True)
            if not scratch:
                self.begin()
        except OSError as e:
            if self.must:
                raise CaptureError(f"what the script writes cannot be laid aside here: {e.strerror or e}") from None
            here = os.stat(".")
            foreign = os.geteuid() and (here.st_uid, here.st_gid) != (os.geteuid(), os.getegid())
            why = "this folder is another user's or group's" if foreign else "in this folder it cannot be laid aside"
            print(f"rad: capture: what the script writes is written for real, for {why} (rad doctor, rad-capture(1))", file=sys.stderr,
                  flush=True)
            return
        for path in (path for word in self.words[1:] for path in NAMED.findall(word)):
            self.enters(path)
        sys.addaudithook(self.event)

    def begin(self):
        global root, scratch
        folder, before = os.path.join(self.folder, "aside"), os.open("/", os.O_PATH | os.O_CLOEXEC)
        os.mkdir(folder, 0o700)
        self.call("aside_enter", os.fsencode(folder), ctypes.c_uint64(self.mib), self.programs)
        root, scratch = before, folder

    def call(self, name, *args):
        result = getattr(self.calls, name)(*args)
        if result < 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
        return result

    def enters(self, folder):
        """A working folder, or one that the command names: whatever program may write there, as in the first, and native code. Where it
        cannot be covered it is written to for real."""
        with contextlib.suppress(OSError):
            self.call("aside_cover", os.fsencode(scratch), os.fsencode(os.path.realpath(folder)) + b"/")

    def event(self, event, args):
        if event in FOLDERS and isinstance(args[FOLDERS[event]], (str, bytes, os.PathLike)):
            self.enters(args[FOLDERS[event]])
        most = CHANGES.get(event)
        if not most or event == "open" and not args[2] & WRITES:
            return
        at = args[-1] if event in AT and isinstance(args[-1], int) and args[-1] >= 0 else None
        for path in args[:most]:
            if isinstance(path, (str, bytes, os.PathLike)):
                path = os.path.join(os.getcwd() if at is None else os.readlink(f"/proc/self/fd/{at}"), os.fsdecode(path))
                # Of a folder that is opened to be written it is one in it that is made: tempfile does that.
                within = event == "shutil.rmtree" or event == "open" and os.path.isdir(path)
                self.cover(os.path.normpath(path) + "/" * within, at)

    def cover(self, path, at=None):
        """`at`: a descriptor of its folder; of one that is laid aside only now, it leads to the folder itself."""
        folder = os.path.dirname(path)
        if folder in self.known:
            return
        try:
            late = self.call("aside_cover", os.fsencode(scratch), os.fsencode(path)) and at is not None
        except OSError as e:
            raise OSError(errno.EROFS, f"a capture cannot lay this folder aside ({e.strerror})", path) from None
        if late:
            raise OSError(errno.EROFS, "a capture lays this folder aside only now that it is open", path)
        self.known.add(folder)


def moves(real_rename):
    """os.rename and os.replace, where what is one file system for others is not: a folder that was there before is copied, as mv does, and
    so is what comes from a folder for temporary files."""
    @functools.wraps(real_rename)
    def rename(src, dst, *args, **kwargs):
        try:
            return real_rename(src, dst, *args, **kwargs)
        except OSError as e:
            if e.errno != errno.EXDEV or scratch is None or args or kwargs:
                raise
        whole = os.path.isdir(src) and not os.path.islink(src)
        if os.path.lexists(dst):
            (os.rmdir if whole else os.unlink)(dst)
        if whole:
            shutil.copytree(src, dst, symlinks=True)
            shutil.rmtree(src)
        else:
            shutil.copy2(src, dst, follow_symlinks=False)
            os.unlink(src)
    return rename


def maps(real_new):
    """numpy.memmap.__new__ of a large file that is there: changed in memory, and not copied first."""
    def new(kind, filename, dtype="uint8", mode="r+", *args, **kwargs):
        try:
            large = mode in ("r+", "readwrite") and os.path.getsize(filename) > LARGE
        except (OSError, TypeError):
            large = False
        return real_new(kind, filename, dtype, "c" if large else mode, *args, **kwargs)
    return new


def install(patch):
    for name in ("rename", "replace"):
        patch(os, name, moves(getattr(os, name)))
    if "numpy" in sys.modules:
        memmap = sys.modules["numpy"].memmap
        patch(memmap, "__new__", maps(memmap.__new__))
