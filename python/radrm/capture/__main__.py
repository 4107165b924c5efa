# SPDX-License-Identifier: MIT
"""python -m radrm.capture -o FILE [options] -- train.py ARGUMENTS: captures an unmodified script. `rad capture` calls this."""
import argparse
import os
import sys
import tempfile

from . import Capture, CaptureError, Limits, cache, distributed, fileformat, run, script


def arguments(argv):
    p = argparse.ArgumentParser(prog="rad capture", description="Captures what a training script asks of the GPU's memory, "
                                "without a GPU: it runs on fake tensors until it has done a few optimizer steps.")
    p.add_argument("-o", "--output", required=True, metavar="FILE", help="the capture file to write")
    p.add_argument("--iterations", type=int, default=3, metavar="N", help="optimizer steps to see (default 3)")
    p.add_argument("--timeout", type=float, default=300, metavar="S", help="seconds that it may take (default 300)")
    p.add_argument("--memory", type=int, default=32768, metavar="MIB", help="memory of this machine that it may take "
                   "(default 32768)")
    p.add_argument("--no-cache", action="store_true", help="capture even if the same script was captured before")
    p.add_argument("-v", "--verbose", action="store_true", help="show what the script prints")
    p.add_argument("words", nargs=argparse.REMAINDER, metavar="-- train.py ARGUMENTS")
    args = p.parse_args(argv)
    if args.words[:1] == ["--"]:
        del args.words[0]
    if not 1 <= args.iterations <= 100 or args.timeout <= 0 or args.memory <= 0:
        p.error("--iterations must be 1 to 100, --timeout and --memory above 0")
    return args


def capture(args):
    processes, words = distributed.launcher(args.words)
    kind, target, rest = script.parse(words)
    key = cache.key(kind, target, rest, args.iterations, processes)
    found = None if args.no_cache or key is None else cache.look(key)
    if found:
        return Capture(*found), True
    with tempfile.TemporaryFile() as said:
        output = 2 if args.verbose else said.fileno()
        try:
            result = Capture(*run(lambda: script.capture(kind, target, rest, args.iterations, args.timeout, key or "",
                                                         processes=processes), Limits(args.timeout, args.memory), output))
        except CaptureError:
            if not args.verbose:
                show(said)
            raise
    if key is not None and not result.flags & fileformat.CUT_SHORT:
        cache.keep(key, result)
    return result, False


def show(said, lines=20):
    """The end of what the script said."""
    said.seek(0, os.SEEK_END)
    said.seek(max(0, said.tell() - 16384))
    for line in said.read().decode(errors="replace").splitlines()[-lines:]:
        print("  " + line, file=sys.stderr)


def main(argv=None):
    args = arguments(argv)
    try:
        result, known = capture(args)
        result.save(args.output)
    except CaptureError as e:
        print(f"rad: capture: {e}", file=sys.stderr)
        return 1
    except OSError as e:
        print(f"rad: capture: {args.output}: {e.strerror}", file=sys.stderr)
        return 1
    for note in result.notes:
        print(f"rad: capture: {note}", file=sys.stderr)
    print(f"{args.output}: {len(result.data)} bytes, {(result.peak_bytes + (1 << 20) - 1) >> 20} MiB in tensors at most"
          + (", from the cache" if known else ""))
    return 0


if __name__ == "__main__":
    sys.exit(main())
