# SPDX-License-Identifier: MIT
"""What a script read while it was captured: files, listings of folders, variables of the environment, modules. The same script
asks for the same memory as long as all of that is as it was, so a capture is kept with it (cache.py).

Seen is what goes through Python: its audit events and os.environ. Not seen are the network, os.stat() and os.path.exists(), and
what native code opens or asks of the environment, but for files that are mapped or open at the end (Arrow, safetensors, HDF5).
Each fact is (kind, name, value), and value_of(kind, name) says what it is now.
"""
import functools
import glob
import hashlib
import importlib.util
import os
import select
import stat
import sys
import sysconfig
import threading

from . import aside

WHOLE_FILE = 1 << 20  # bytes; of larger ones size and time of change are compared, not what is in them
MOST_NAMES = 10000  # in a folder; of fuller ones the time of change
MOST_FACTS = 50000
NATIVE = ("PYTORCH_", "TORCH_", "CUBLAS_", "CUDA_", "NVIDIA_", "OMP_", "MKL_", "NCCL_")  # read by native code
OF_A_LOGIN = ("SSH_", "XDG_", "TMUX", "TERM", "DBUS_", "WINDOWID", "SHLVL", "STY", "LS_COLORS", "PS1", "OLDPWD", "RAD_", "_=")
LOOKING = ("importlib", "pkgutil", "pkg_resources")
SYSTEM = ("/proc/", "/sys/", "/dev/", "/usr/lib", "/usr/share/", "/lib")


@functools.lru_cache(None)
def targets():
    """Folders into which packages were installed (`pip install --target`), of those that modules are looked for in when it is
    first asked: before what the script reads is watched, since this reads too."""
    return tuple(os.path.abspath(p) + os.sep for p in sys.path if glob.glob(os.path.join(glob.escape(p), "*.dist-info", "RECORD")))


def installed():
    """Folders whose content is known by the versions of Python and of packages, each with a slash at its end."""
    paths = [sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    paths += [p for p in sys.path if p.endswith(("site-packages", "dist-packages"))]
    paths += targets()
    paths.append(os.path.dirname(os.path.abspath(__file__)))
    return tuple(sorted({os.path.realpath(p) + os.sep for p in paths if p} | {os.path.abspath(p) + os.sep for p in paths if p}))


def packages():
    """Names and versions of what is installed, as the folders of its metadata say them."""
    names = set()
    for folder in installed():
        try:
            names.update(n for n in os.listdir(folder) if n.endswith((".dist-info", ".egg-info", ".pth", ".egg-link")))
        except OSError:
            continue
    return sorted(names)


def digest(data):
    return hashlib.sha256(data).hexdigest()


# --- what is so now ---

def value_of(kind, name, variables):
    """The value of a fact. `variables`: the environment."""
    if kind == "file":
        return file_value(name)
    if kind == "folder":
        return folder_value(name)
    if kind == "modules":
        return modules_value(*name.split("\0"))
    if kind == "variable":
        value = variables.get(name)
        return "unset" if value is None else digest(value.encode("utf-8", "surrogateescape"))
    return digest("\0".join(sorted(f"{n}={v}" for n, v in variables.items()
                                   if not f"{n}=".startswith(OF_A_LOGIN))).encode("utf-8", "surrogateescape"))


def file_value(path):
    try:
        about = os.stat(path)
        if not stat.S_ISREG(about.st_mode):
            return "other"
        if about.st_size > WHOLE_FILE:
            return f"{about.st_size} {about.st_mtime_ns}"
        with open(path, "rb") as f:
            return digest(f.read(WHOLE_FILE + 1))
    except OSError:
        return "absent"


def folder_value(path):
    try:
        names = os.listdir(path)
        if len(names) > MOST_NAMES:
            return f"{len(names)} {os.stat(path).st_mtime_ns}"
        return digest("\0".join(sorted(names)).encode("utf-8", "surrogateescape"))
    except OSError:
        return "absent"


def modules_value(folder, *roots):
    """What modules of these names a folder of sys.path has: a new one may stand before the one that was found."""
    try:
        return " ".join(sorted(n for n in os.listdir(folder) if n.partition(".")[0] in roots and not n.endswith(".pyc")))
    except OSError:
        return "absent"


def standard_input():
    """What is to be read there, of which no event tells; "": nothing; None: nobody knows, as of a pipe into which somebody may still
    write. Where nobody does (`echo 1 | python train.py`), what is in the pipe is taken out: a file of its own is read in its place."""
    try:
        about = os.fstat(0)
    except OSError:
        return ""
    if stat.S_ISREG(about.st_mode):
        at = os.lseek(0, 0, os.SEEK_CUR)
        if about.st_size - at > WHOLE_FILE:
            return f"{about.st_dev} {about.st_ino} {about.st_size} {about.st_mtime_ns} {at}"
        return digest(os.pread(0, WHOLE_FILE, at))
    if not stat.S_ISFIFO(about.st_mode):
        return None if stat.S_ISSOCK(about.st_mode) else ""
    pipe = select.poll()
    pipe.register(0, 0)
    if not pipe.poll(0):  # nobody has left yet
        return None
    with open(0, "rb", closefd=False) as f, open(os.memfd_create("stdin"), "w+b") as own:
        data = f.read()
        own.write(data)
        own.seek(0)
        os.dup2(own.fileno(), 0)
    return digest(data)


# --- what was read ---

class Reads:
    """Watches this process, for good: audit hooks cannot be taken away. `variables` is the environment as it was before
    anybody changed it."""

    def __init__(self, variables):
        self.variables = dict(variables)
        self.files, self.folders, self.names = {}, {}, set()
        self.own, self.all_variables, self.yielded, self.lost = set(), False, None, False
        self.skip = installed()
        self.busy = threading.local()

    def begin(self):
        self._environment()
        sys.addaudithook(self._event)

    def _environment(self):
        """Reads of os.environ, and os.environb, which share a class."""
        kind, names = type(os.environ), self.names
        real_get, real_iter = kind.__getitem__, kind.__iter__

        def get(mapping, name):
            if name != self.yielded:  # else: one of all
                names.add(name)
            return real_get(mapping, name)

        def each(mapping):
            self.all_variables = True
            for self.yielded in real_iter(mapping):
                yield self.yielded
            self.yielded = None
        kind.__getitem__, kind.__iter__ = get, each

    def _event(self, event, args):
        if event == "open":
            if not getattr(self.busy, "now", False):
                self._guarded(self._opened, args)
        elif event in ("os.listdir", "os.scandir"):
            if not getattr(self.busy, "now", False):
                self._guarded(self._listed, args)

    def _guarded(self, note, args):
        self.busy.now = True
        try:
            note(*args)
        except Exception:  # noqa: B902  a name that is none: the script will hear of it
            pass
        finally:
            self.busy.now = False

    def _path(self, path):
        if isinstance(path, int):
            return None
        path = os.path.abspath(os.fsdecode(path if path is not None else "."))
        return None if (path + os.sep).startswith(self.skip + SYSTEM) else path

    def _opened(self, path, _mode, flags):
        path = self._path(path)
        if path is None or path in self.files or path in self.own:
            return
        if path.endswith(".pyc"):
            return  # its module's source counts
        was = seen(path)
        writes = flags & os.O_ACCMODE == os.O_WRONLY
        if flags & os.O_TRUNC or (was is None and (writes or flags & os.O_CREAT)):
            self.own.add(path)
        elif not writes:
            self._note(self.files, path, was)

    def _listed(self, path=None):
        asker = sys._getframe(3).f_code.co_filename
        if any(word in asker for word in LOOKING):
            return  # for modules and packages: see modules_value and packages
        path = self._path(path)
        if path is not None and path not in self.folders:
            self._note(self.folders, path, folder_value(aside.real(path)))  # without what the script made

    def _note(self, where, path, value):
        if len(self.files) + len(self.folders) >= MOST_FACTS:
            self.lost = True
            return
        where[path] = value

    def _modules(self):
        """Sources of what was imported from elsewhere than the installed packages."""
        for module in list(sys.modules.values()):
            path = getattr(module, "__file__", None)
            if not isinstance(path, str):
                continue
            path = self._path(importlib.util.source_from_cache(path) if "__pycache__" in path else path)
            if path is not None and path not in self.files:
                self._note(self.files, path, seen(path))

    def _mapped(self):
        """Files that native code has open or mapped."""
        paths = set()
        with open("/proc/self/maps") as f:
            paths.update(line.split(None, 5)[5].strip() for line in f if "/" in line)
        for number in os.listdir("/proc/self/fd"):
            try:
                paths.add(os.readlink(f"/proc/self/fd/{number}"))
            except OSError:
                continue
        for path in paths:
            path = self._path(path) if path.startswith("/") and not path.endswith((".so", " (deleted)")) else None
            if path and ".so." not in path and path not in self.files and path not in self.own and os.path.isfile(path):
                self._note(self.files, path, seen(path))

    def facts(self):
        """List of (kind, name, value); None when they are too many, or when a file changed after it was read."""
        self.busy.now = True
        try:
            self._modules()
            self._mapped()
            out = [("folder", path, value) for path, value in self.folders.items()]
            for path, was in self.files.items():
                value = file_value(path)
                if seen(path) != was:
                    return None
                out.append(("file", path, value))
            roots = sorted({name.partition(".")[0] for name in sys.modules})
            for folder in {os.path.abspath(p or ".") for p in sys.path}:
                if not (folder + os.sep).startswith(self.skip):
                    name = "\0".join([folder, *roots])
                    out.append(("modules", name, modules_value(folder, *roots)))
            names = {os.fsdecode(n) for n in self.names if isinstance(n, (str, bytes))}
            names.update(n for n in self.variables if n.startswith(NATIVE))
            kinds = [("variable", name) for name in sorted(names)] + [("variables", "")] * self.all_variables
            out += [(kind, name, value_of(kind, name, self.variables)) for kind, name in kinds]
            return None if self.lost else out
        finally:
            self.busy.now = False


def seen(path):
    """What tells cheaply that a file is as it was."""
    try:
        about = os.stat(path)
        return about.st_size, about.st_mtime_ns, about.st_ino
    except OSError:
        return None
