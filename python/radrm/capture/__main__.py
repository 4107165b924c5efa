# SPDX-License-Identifier: MIT
"""python -m radrm.capture -o FILE [options] -- train.py ARGUMENTS: captures an unmodified script. `rad capture` calls this."""
import argparse
import contextlib
import os
import signal
import sys
import tempfile

from .. import _libraries
from . import Capture, CaptureError, Limits, cache, command, commands, fileformat, limits, reads, run, script
from .aside import Aside
from .sandbox import ENDINGS, KEEP, Unused

FAILED, UNUSED = 3, 4  # exit codes: the script ended in an error, and the file has what it did before; it never used a GPU


def arguments(argv):
    p = argparse.ArgumentParser(prog="rad capture", description="Captures what a training script asks of the GPU's memory, "
                                "without a GPU: it runs on fake tensors until it has done a few optimizer steps.")
    p.add_argument("-o", "--output", required=True, metavar="FILE", help="the capture file to write")
    p.add_argument("--iterations", type=int, default=3, metavar="N", help="optimizer steps to see (default 3)")
    p.add_argument("--timeout", type=float, default=300, metavar="S", help="seconds of processor time that it may take "
                   "(default 300)")
    p.add_argument("--clock", type=float, metavar="S", help="seconds that it may take by the clock (default: "
                   f"{limits.CLOCK} times --timeout)")
    p.add_argument("--memory", type=int, default=32768, metavar="MIB", help="memory of this machine that it may take "
                   "(default 32768)")
    p.add_argument("--gpus", type=int, default=1, metavar="N", help="GPUs that the script is to see (default 1)")
    p.add_argument("--in-place", action="store_true", help="let the script write its files where it writes them")
    p.add_argument("--aside", action="store_true", help="no capture where its files cannot be laid aside")
    p.add_argument("--no-cache", action="store_true", help="capture even if the same script was captured before")
    p.add_argument("-v", "--verbose", action="store_true", help="show what the script prints")
    p.add_argument("--python", action="store_true", help="the words are those behind `python`, whatever they look like")
    p.add_argument("words", nargs=argparse.REMAINDER, metavar="-- train.py ARGUMENTS")
    args = p.parse_args(argv)
    if args.words[:1] == ["--"]:
        del args.words[0]
    if not 1 <= args.iterations <= 100 or min(args.timeout, args.memory, args.gpus, args.clock or 1) <= 0:
        p.error("--iterations must be 1 to 100, --timeout, --memory and --gpus above 0")
    return args


def aside(args, folder):
    """What keeps its files from others; it may write half of the memory that it may take. None: nothing does. Caches are not laid aside,
    if they are there."""
    if args.in_place:
        return None
    with contextlib.suppress(OSError):
        os.makedirs(cache.folder(), mode=0o700, exist_ok=True)
    return Aside(args.library, folder, max(args.memory // 2, 1), args.aside, args.words, not command.is_python(args.words))


def capture(args, output, folder, variables):
    """(Capture, whether it was known) of a Python script. What it prints goes to `output`, as in sandbox.run(). `folder`: an
    empty one for the time of the capture, `variables`: the environment that the script is to see."""
    processes, words, given = commands.resolve(args.words, args.gpus)
    kind, target, rest = commands.parse(words)
    read = reads.standard_input() if output is KEEP else ""
    asked = cache.question(kind, target, rest, args.iterations, processes, args.gpus, read or "")
    found = None if args.no_cache or read is None else cache.look(asked, variables)
    if found:
        return Capture(*found), True
    *parts, facts = run(lambda: script.capture(kind, target, rest, args.iterations,
                                               {"count": processes or args.gpus}, given=given,
                                               variables=variables, asked=asked, programs=folder, library=args.library),
                        Limits(args.timeout, args.memory, args.clock), output, aside(args, folder))
    result = Capture(*parts)
    if read is not None and not result.flags & fileformat.CUT_SHORT:
        cache.keep(asked, facts, result)
    return result, False


def told(args):
    """As capture(), of any command; shows the end of what it said when it fails."""
    with tempfile.TemporaryFile() as said, tempfile.TemporaryDirectory(prefix="rad-capture-") as folder:
        output = 2 if args.verbose else said.fileno()
        try:
            if args.python or command.is_python(args.words):
                return capture(args, output, folder, dict(os.environ))
            return command.capture(args, output, folder, aside(args, folder))
        except CaptureError:
            if not args.verbose:
                show(said)
            raise


def show(said, lines=20):
    """The end of what the script said."""
    said.seek(0, os.SEEK_END)
    said.seek(max(0, said.tell() - 16384))
    for line in said.read().decode(errors="replace").splitlines()[-lines:]:
        print("  " + line, file=sys.stderr)


def leave(number, _):
    """At a signal, so that what it started is ended; another one does not come between."""
    for each in ENDINGS:
        signal.signal(each, signal.SIG_IGN)
    sys.exit(128 + number)


def main(argv=None):
    args = arguments(argv)
    for number in ENDINGS:
        if signal.getsignal(number) != signal.SIG_IGN:  # as under nohup
            signal.signal(number, leave)
    within = command.within()
    args.library = within.library if within else os.environ.pop(command.LIBRARY, None) or _libraries.find("libradcapture.so")
    if within is not None:
        return within.run(lambda folder, variables: capture(args, KEEP, folder, variables))
    try:
        result, known = told(args)
        result.save(args.output)
    except CaptureError as e:
        print(f"rad: capture: {e}", file=sys.stderr)
        return UNUSED if isinstance(e, Unused) and e.code in (None, 0) else 1
    except OSError as e:
        print(f"rad: capture: {args.output}: {e.strerror}", file=sys.stderr)
        return 1
    for note in result.notes:
        print(f"rad: capture: {note}", file=sys.stderr)
    steps, beside, _ = fileformat.steps_of(result.data)
    print(f"{args.output}: {len(result.data)} bytes, {(result.peak_bytes + (1 << 20) - 1) >> 20} MiB in tensors at most"
          + (f", {steps} steps in all" if steps else "") + (f" and evaluations as long as {beside}" if beside else "")
          + (", from the cache" if known else ""))
    return FAILED if result.failed else 0


if __name__ == "__main__":
    sys.exit(main())
