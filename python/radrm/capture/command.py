# SPDX-License-Identifier: MIT
"""Captures what a command runs that is not Python itself: a shell script, `env`, `uv run`, `conda run`, a launcher.

The command runs as it is, with no GPU in sight. Every Python that it starts, however deep, imports hook/sitecustomize.py, which
turns it into a capture of the script that it was to run; where the command sets PYTHONPATH anew, libradcapture.so (src/cli/capture_hook.c)
puts the hook in front again. The first that has used a GPU answers and ends everything. One that
used none (it looked for a free port, prepared data) ended as it would have, and the command goes on. What others would have trained, beside
it or after it, nobody saw: a doubt.

outside     capture(): starts the command, waits for the answer; unreached.py sees Pythons without the hook
inside      within(): the capture that a Python of the command became; it writes its answer into a pipe
"""
import json
import os
import re
import select
import subprocess
import threading
import time
import types

from . import Capture, Limits, aside, fileformat, nvidia, run
from .sandbox import CaptureError, Unused
from .unreached import Unreached

HOOK = os.path.join(os.path.dirname(os.path.abspath(__file__)), "hook")
LIBRARY = "RADRM_CAPTURE_LIBRARY"  # the path of `rad capture`'s own libradcapture.so, which it tells
VARIABLE = "RADRM_CAPTURE"  # what the hook and the capture that it begins are to know; JSON
INCOMPLETE = (" (libradcapture.so is not where RAD-RM is installed, so a Python whose PYTHONPATH the command sets is not captured: is the "
              "installation complete?)")
LOOK = 1  # seconds between two looks at what the command started
PYTHONS = ("torchrun", "accelerate", "deepspeed")  # launchers whose command lines are read instead of run

SHELLS = ("sh", "bash", "dash", "zsh", "ksh")
SHEBANG = re.compile(rf"#!\s*\S*?(?:\benv\s+)?(?:{'|'.join(SHELLS)})\b")
COMMENT = re.compile(r"(?:^|(?<=\s))#.*", re.M)
TRAINS = re.compile(r"(?<![\w.-])(?:python[\d.]*[ \t]+(?!-c\b|-V\b|--version|-m[ \t]+(?:pip|venv)\b)\S|torchrun[ \t]"
                    r"|accelerate[ \t]+launch\b)")
BEGINS, ENDS = re.compile(r"\b(?:for|while|until)\b"), re.compile(r"\bdone\b")  # of a loop


def is_python(words):
    """Whether these are words that would follow `python`, as a file that is no program by itself, or those of a launcher that
    is a Python program."""
    first = words[0] if words else ""
    told = os.path.isfile(first) and not os.access(first, os.X_OK)
    return not first or first.startswith("-") or first.endswith(".py") or told or os.path.basename(first) in PYTHONS


def capture(args, output, folder, files):
    """(Capture, whether it was known) of the command. `files`: as `aside` of sandbox.run()."""
    answer = run(lambda: _outside(args, folder, args.library), Limits(args.timeout, args.memory, args.clock), output, files)
    if "error" in answer:
        raise CaptureError(answer["error"])
    if "file" not in answer:
        raise Unused(answer["ended"] + ("" if args.library else INCOMPLETE), 0 if answer["code"] == 0 else 1)
    with open(answer["file"], "rb") as f:
        found = Capture(f.read(), answer["notes"], answer["peak_bytes"], answer["flags"], answer["failed"])
    unseen = others(args.words, *(count(folder, what) for what in ("begun", "ended")))
    if unseen:
        found.data, found.flags = fileformat.with_flags(found.data, fileformat.CUT_SHORT), found.flags | fileformat.CUT_SHORT
        found.notes.append(unseen)
    return found, answer["known"]


def script_of(words):
    """What a shell is to run, without comments; "" where that is nothing, or cannot be read."""
    shell = next((n for n, word in enumerate(words) if os.path.basename(word) in SHELLS), None)
    if shell is not None:
        words, says = words[shell + 1:], False
        while words and words[0].startswith(("-", "+")):
            option = words.pop(0)
            says |= bool(re.match(r"-\w*c", option))
            del words[:option in ("--rcfile", "--init-file") or bool(re.match(r"[-+]\w*[oO]$", option))]
        if says:
            return COMMENT.sub("", "".join(words[:1]))
    path = "".join(words[:1])
    try:
        with open(path if os.path.isfile(path) else os.devnull, errors="replace") as f:  # a pipe would be waited for
            text = f.read(1 << 20)
    except OSError:
        return ""
    return COMMENT.sub("", text) if shell is not None or SHEBANG.match(text) else ""


def others(words, begun, ended):
    """Of what the command trains besides what was captured, in one line; None if as far as can be seen that is nothing. `begun`: scripts of
    Python, the captured one among them; `ended`: those that used no GPU."""
    if begun - ended > 1:
        return f"{begun - ended} scripts ran side by side: one of them was captured"
    text = script_of(words)
    if any(TRAINS.search(text, begins.end()) for text in ENDS.split(text)[:-1] if (begins := BEGINS.search(text))):
        return "the command runs Python in a loop: the first run was captured"
    if len(TRAINS.findall(text)) > begun:
        return "the command runs Python again after this: the first script that uses a GPU was captured"
    return None


def count(folder, what):
    try:
        return os.path.getsize(os.path.join(folder, what))
    except OSError:
        return 0


def _outside(args, folder, library):
    pipe = os.path.join(folder, "answer")
    os.mkfifo(pipe, 0o600)
    reader = os.open(pipe, os.O_RDWR | os.O_NONBLOCK)
    ways = os.pathsep.join([HOOK, os.path.dirname(os.path.dirname(os.path.dirname(HOOK)))])
    told = {"folder": folder, "library": library, "aside": aside.scratch}
    told["options"] = [
        "--iterations", str(args.iterations), "--timeout", str(args.timeout), "--memory", str(args.memory),
        "--gpus", str(args.gpus), *["--clock", str(args.clock)] * bool(args.clock), *["--no-cache"] * args.no_cache,
        *["--in-place"] * (aside.scratch is None)]
    nvidia.put_program(types.SimpleNamespace(**nvidia.H200), folder)
    environment = {**os.environ, VARIABLE: json.dumps(told), "RADRM_CAPTURE_PATH": ways,
                   "PYTHONPATH": os.pathsep.join(filter(None, [ways, os.environ.get("PYTHONPATH")]))}
    if library and not set(library) & set(" :"):  # which LD_PRELOAD cannot have
        environment["LD_PRELOAD"] = os.pathsep.join(filter(None, [library, os.environ.get("LD_PRELOAD")]))
    try:
        started = subprocess.Popen(args.words, env=environment, close_fds=False)
    except OSError as e:
        raise CaptureError(f"{args.words[0]}: {e.strerror}") from None

    def wait():
        code = started.wait()
        tell(pipe, {"ended": f"the command ended (exit code {code}), and nothing that it ran with Python used a GPU",
                    "code": code})
    threading.Thread(target=wait, daemon=True).start()
    beside = Unreached(folder, "" if library else INCOMPLETE)
    answer = heard(reader, beside.look)
    if "ended" in answer:
        beside.tell()
    return answer


def heard(reader, look):
    """The first whole line of the pipe."""
    data = b""
    while b"\n" not in data:
        if select.select([reader], [], [], LOOK)[0]:
            data += os.read(reader, 1 << 16)
        else:
            look()
    return json.loads(data.partition(b"\n")[0])


def tell(pipe, answer):
    """In one write, so that answers of two programs do not mix: notes, and then words, are cut to what a pipe takes at once."""
    while len(line := json.dumps(answer).encode() + b"\n") > select.PIPE_BUF:
        if answer.get("notes"):
            answer["notes"] = answer["notes"][:-1]
        else:
            longest = max((name for name in answer if isinstance(answer[name], str)), key=lambda name: len(answer[name]))
            answer = {**answer, longest: answer[longest][:len(answer[longest]) // 2]}
    with open(pipe, "wb", buffering=0) as f:
        f.write(line)


class Within:
    """The capture that a Python of the command became."""

    def __init__(self, told):
        self.folder, self.library, aside.scratch = told["folder"], told["library"], told["aside"]
        self.pipe = os.path.join(self.folder, "answer")
        os.environ.pop(VARIABLE)
        if told["path"]:
            os.environ["PYTHONPATH"] = told["path"]
        else:
            os.environ.pop("PYTHONPATH", None)
        paths = os.environ.get("PATH", "").split(os.pathsep)
        os.environ["PATH"] = os.pathsep.join(p for p in paths if p != self.folder)

    def run(self, work):
        """Calls work(folder, variables), tells what came out, and waits for the end; or returns the exit code with which the
        command goes on."""
        programs = os.path.join(self.folder, f"programs-{os.getpid()}")
        os.mkdir(programs)
        try:
            result, known = work(programs, dict(os.environ))
            path = os.path.join(self.folder, f"{os.getpid()}.radcap")
            result.save(path)
            answer = {"file": path, "notes": result.notes, "peak_bytes": result.peak_bytes, "flags": result.flags,
                      "failed": result.failed, "known": known}
        except Unused as e:
            if e.code is not None:
                with open(os.path.join(self.folder, "ended"), "ab") as f:
                    f.write(b".")
                return e.code
            answer = {"ended": str(e), "code": 0}
        except CaptureError as e:
            answer = {"error": str(e)}
        except OSError as e:
            answer = {"error": f"{e.filename}: {e.strerror}"}
        tell(self.pipe, answer)
        while True:
            time.sleep(3600)  # whoever reads it ends us, and what started us


def within():
    """Within, if a command's hook began this process; else None."""
    told = os.environ.get(VARIABLE)
    return Within(json.loads(told)) if told else None
