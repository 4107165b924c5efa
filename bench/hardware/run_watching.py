#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What watching costs (table 3.2 and figures 3.2 to 3.4 of the dissertation): epochs of a light and of a heavy training with nothing
beside them, with nvidia-smi dmon, with rad monitor at 1 s and at 0.1 s, and under PyTorch's profiler; with DCGM (dcgmi) and Nsight
Systems (nsys) where they are installed.

    bench/hardware/run_watching.py --bin /tmp/rad-*/bin --out results              # two minutes
    bench/hardware/run_watching.py --out results --table                           # the tables and the picture again, without a GPU

One process trains all the time; tools come and go beside it, each for an epoch, by turns (each round in the other direction), so that
what changes with time changes for all of them. Writes watching.jsonl as it goes, an epoch a line; then watching.md,
watching.svg and, after a measurement, watching.tar.gz, which holds all of them. A second run with the same folder adds what the
first had no time for. `--sim` needs no GPU.
"""
import argparse
import json
import os
import pathlib
import shutil
import signal
import statistics
import subprocess
import sys
import tarfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE)]
import svg  # noqa: E402
from common import kept, say, tail  # noqa: E402

KINDS = ("light", "heavy")
SETTLE_S = 0.3      # a tool is up by then
PROFILER_S = 14     # what a quarter of an epoch and writing its trace take
PROFILER = "pytorch"
NSYS = "nsys"
LINES = {"rad monitor 1 s": 2, "rad monitor 0.1 s": 2}  # at each interval: one of the GPU, one of the process on it; others write one


class Tool:
    """A program beside the training. `needs`: what must be in PATH; `file`: whether it writes its output itself, of which a line is
    for one interval."""

    def __init__(self, name, words, needs=None, file=False, interval_s=1.0):
        self.name, self.words, self.needs, self.file, self.interval_s = name, words, needs, file, interval_s

    def there(self):
        return self.needs is None or shutil.which(self.needs) is not None


def tools(rad, sim):
    devices = ["--devices", "sim:1xh200-141g"] if sim else []
    monitor = lambda interval: [rad, "monitor", *devices, "--interval", interval, "--output", "{out}"]
    return [Tool("none", None),
            Tool("nvidia-smi dmon", ["nvidia-smi", "dmon", "-s", "pucvmt", "-d", "1", "-f", "{out}"], "nvidia-smi", file=True),
            Tool("rad monitor 1 s", monitor("1"), rad, file=True),
            Tool("rad monitor 0.1 s", monitor("0.1"), rad, file=True, interval_s=0.1),
            Tool("dcgmi dmon", ["dcgmi", "dmon", "-e", "1001,1002,1003,1004,1005,1009,1010,155,156", "-d", "1000"], "dcgmi")]


def peak_mib(pid):
    """The most that this program had in memory: what its parent had when it was started is not in it, as it is in rusage."""
    try:
        with open(f"/proc/{pid}/status") as f:
            return next((int(line.split()[1]) / 1024 for line in f if line.startswith("VmHWM:")), None)
    except OSError:
        return None


def bytes_an_hour(path, interval_s):
    """If there were one line for each interval; headings come once."""
    lines = path.read_bytes().splitlines(True) if path.exists() else []
    lines = [line for line in lines if not line.startswith((b"#", b"time,", b"ID"))]
    return round(sum(map(len, lines)) / len(lines) * 3600 / interval_s) if lines else None


class Beside:
    """A tool that runs; at its end what it used."""

    def __init__(self, tool, folder):
        self.tool, self.out = tool, folder / (tool.name.replace(" ", "-") + ".out")
        self.began, self.process = time.monotonic(), None
        self.out.unlink(missing_ok=True)
        if not tool.words:
            return
        words = [word.replace("{out}", str(self.out)) for word in tool.words]
        stdout = subprocess.DEVNULL if tool.file else open(self.out, "wb")
        self.process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=stdout, stderr=subprocess.DEVNULL)

    def end(self):
        """{tool_cpu_s, tool_s, tool_rss_mib, bytes_h}; None where it had ended before, so that nothing was watched."""
        if not self.process:
            return {}
        if self.process.poll() is not None:
            return None
        seconds, peak = time.monotonic() - self.began, peak_mib(self.process.pid)
        self.process.send_signal(signal.SIGINT)
        _, _, used = os.wait4(self.process.pid, 0)
        self.process.returncode = 0
        return {"tool_cpu_s": round(used.ru_utime + used.ru_stime, 4), "tool_s": round(seconds, 3),
                "tool_rss_mib": peak and round(peak, 1), "bytes_h": bytes_an_hour(self.out, self.tool.interval_s)}


class Training:
    def __init__(self, kind, sim, epoch_s, before=()):
        words = [sys.executable, HERE / "watching_load.py", kind, "--epoch-s", str(epoch_s), *(["--sim"] if sim else [])]
        self.process = subprocess.Popen([*before, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.steps = self.read()["steps"]

    def read(self):
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"the training ended with {self.process.wait()}")
        return json.loads(line)

    def ask(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return self.read()

    def close(self):
        self.process.stdin.close()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


class Study:
    def __init__(self, args):
        self.args, self.path = args, args.out / "watching.jsonl"
        self.lines = kept(self.path)
        self.tools = [t for t in tools(args.rad, args.sim) if t.there()]
        self.broken = set()

    def keep(self, line):
        self.lines.append(line)
        with open(self.path, "a") as f:
            f.write(json.dumps(line) + "\n")

    def has(self, kind, tool, number):
        return any((l.get("kind"), l.get("tool"), l.get("round")) == (kind, tool, number) for l in self.lines)

    def epoch(self, training, kind, tool, number):
        beside = Beside(tool, self.args.out)
        if tool.words:
            time.sleep(SETTLE_S)
        found = training.ask("epoch")
        used = beside.end()
        if used is None:
            say(f"{tool.name} ended by itself: it is left out: {(tail(beside.out, 300) or '').strip()}")
            self.broken.add(tool.name)
            return
        self.keep({"kind": kind, "tool": tool.name, "round": number, **found, **used})

    def rounds(self, training, kind, deadline):
        for number in range(self.args.rounds):
            order = self.tools if number % 2 == 0 else self.tools[::-1]
            for tool in order:
                if tool.name in self.broken or self.has(kind, tool.name, number):
                    continue
                if time.monotonic() > deadline:
                    return
                self.epoch(training, kind, tool, number)

    def profiler(self, training, kind):
        if self.args.sim or self.has(kind, PROFILER, 0):
            return
        trace = self.args.out / "trace.json"
        self.keep({"kind": kind, "tool": PROFILER, "round": 0, "part": 4, **training.ask(f"profile {trace}")})
        trace.unlink(missing_ok=True)

    def nsys(self, kind, deadline):
        """It starts the program that it profiles, so it gets one of its own."""
        if self.args.sim or not shutil.which(NSYS) or self.has(kind, NSYS, 0) or time.monotonic() > deadline:
            return
        report = self.args.out / "nsys-report"
        words = [NSYS, "profile", "-o", report, "-f", "true", sys.executable, HERE / "watching_load.py", kind, "--epoch-s",
                 str(self.args.epoch_s), "--epochs", "1"]
        began = time.monotonic()
        done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120)
        found = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"')]
        files = list(self.args.out.glob("nsys-report.*"))
        if len(found) == 2:
            self.keep({"kind": kind, "tool": NSYS, "round": 0, "steps": found[0]["steps"], **found[1],
                       "bytes": sum(f.stat().st_size for f in files), "whole_s": round(time.monotonic() - began, 1)})
        for f in files:
            f.unlink()

    def run(self):
        began = time.monotonic()
        for n, kind in enumerate(KINDS):
            deadline = began + self.args.budget * (n + 1) / len(KINDS) - (1 if self.args.sim else PROFILER_S)
            training = Training(kind, self.args.sim, self.args.epoch_s)
            say(f"{kind}: ready, {training.steps} steps an epoch")
            self.keep({"kind": kind, "steps": training.steps})
            try:
                self.rounds(training, kind, deadline)
                self.profiler(training, kind)  # last: what it hangs into CUDA stays there
            finally:
                training.close()
            self.nsys(kind, deadline)
            say(f"{kind}: {sum(l.get('kind') == kind and 'tool' in l for l in self.lines)} epochs")


# Tables and the picture ------------------------------------------------------------------------------------------------


def epochs_of(lines, kind, tool):
    return [l for l in lines if l.get("kind") == kind and l.get("tool") == tool and "seconds" in l]


def whole(lines, line):
    """Seconds that all steps of an epoch would have taken; what was under a profiler was a part of one."""
    steps = next((l["steps"] for l in reversed(lines) if l.get("kind") == line["kind"] and "tool" not in l), None)
    done = line.get("steps") or (max(5, steps // line["part"]) if steps and "part" in line else steps)
    return line["seconds"] * steps / done if steps else line["seconds"]


def against_none(lines, kind, tool):
    """Each epoch over the one without a tool of the same round, minus 1; for what ran once, over the median of those."""
    none = {l["round"]: l["seconds"] for l in epochs_of(lines, kind, "none")}
    if tool in (PROFILER, NSYS) and none:
        return [whole(lines, l) / statistics.median(none.values()) - 1 for l in epochs_of(lines, kind, tool)]
    return [l["seconds"] / none[l["round"]] - 1 for l in epochs_of(lines, kind, tool) if l["round"] in none]


def middle(values):
    return statistics.median(values) if values else None


def spread(values):
    """Standard error of the mean."""
    return statistics.stdev(values) / len(values) ** 0.5 if len(values) > 1 else None


def summary(lines, kind):
    """A row a tool: {tool, n, seconds, more, error, cpu, tool_cpu, tool_rss, bytes_h}."""
    names = list(dict.fromkeys(l["tool"] for l in lines if l.get("kind") == kind and "tool" in l))
    rows = []
    for tool in names:
        epochs, more = epochs_of(lines, kind, tool), against_none(lines, kind, tool)
        many = [l for l in epochs if "tool_s" in l]
        rows.append({"tool": tool, "n": len(epochs), "seconds": middle([whole(lines, l) for l in epochs]),
                     "more": None if tool == "none" else middle(more), "error": None if tool == "none" else spread(more),
                     "cpu": middle([l["cpu_s"] / l["seconds"] for l in epochs]), "rss": middle([l["rss_mib"] for l in epochs]),
                     "tool_cpu": middle([l["tool_cpu_s"] / l["tool_s"] for l in many]),
                     "tool_rss": middle([l["tool_rss_mib"] for l in many if l["tool_rss_mib"]]),
                     "bytes_h": middle([l["bytes_h"] * LINES.get(tool, 1) if "bytes_h" in l else l["bytes"] / l["seconds"] * 3600
                                        for l in epochs if l.get("bytes_h") or "bytes" in l]),
                     "after": middle([l["after_s"] for l in epochs if "after_s" in l])})
    return rows


def cell(value, form):
    return "–" if value is None else form.format(value)


def size(value):
    if value is None:
        return "–"
    for unit, many in (("GiB", 2 ** 30), ("MiB", 2 ** 20), ("KiB", 2 ** 10)):
        if value >= many:
            return f"{value / many:.1f} {unit}"
    return f"{value:.0f} B"


def tables(lines):
    out = []
    for kind in KINDS:
        rows = summary(lines, kind)
        if not rows:
            continue
        out += [f"{kind.capitalize()} training:", "",
                "| tool | epochs | an epoch (s) | against none | of it, standard error | training: cores | MiB | tool: cores | MiB "
                "| bytes an hour | afterwards (s) |", "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|"]
        out += [f"| {r['tool']} | {r['n']} | {cell(r['seconds'], '{:.3f}')} | {cell(r['more'], '{:+.2%}')} | {cell(r['error'], '{:.2%}')}"
                f" | {cell(r['cpu'], '{:.2f}')} | {cell(r['rss'], '{:.0f}')} | {cell(r['tool_cpu'], '{:.4f}')}"
                f" | {cell(r['tool_rss'], '{:.0f}')} | {size(r['bytes_h'])} | {cell(r['after'], '{:.1f}')} |" for r in rows] + [""]
    return "\n".join(out)


def picture(lines):
    parts, y = [], 10
    for kind in KINDS:
        rows = summary(lines, kind)
        compared = [(r["tool"], 1 + (r["more"] or 0), r["error"]) for r in rows]
        cores = [(r["tool"], r["tool_cpu"], None) for r in rows if r["tool_cpu"] is not None]
        for title, of, words in ((f"{kind} training: an epoch, with nothing beside it = 1", compared, "{:.4f}".format),
                                 (f"{kind} training: cores that the tool keeps busy", cores, "{:.4f}".format)):
            drawn, high = svg.bars(10, y, 700, title, of, words)
            parts += drawn
            y += high + 8
    return svg.document(720, y + 6, parts, "What watching costs")


def draw(out):
    lines = kept(out / "watching.jsonl")
    (out / "watching.md").write_text(tables(lines))
    (out / "watching.svg").write_text(picture(lines))


def pack(out):
    with tarfile.open(out / "watching.tar.gz", "w:gz") as tar:
        for path in sorted(out.glob("*")):
            if path.suffix in (".jsonl", ".md", ".svg", ".out"):
                tar.add(path, path.name)


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--out", type=pathlib.Path, required=True)
    p.add_argument("--bin", type=pathlib.Path, default=HERE.parents[1] / "build", help="where rad is (build)")
    p.add_argument("--budget", type=float, default=120, help="seconds (120)")
    p.add_argument("--rounds", type=int, default=100, help="at most so many epochs with each tool")
    p.add_argument("--epoch-s", type=float, default=2.2, help="about how long an epoch takes (2.2)")
    p.add_argument("--sim", action="store_true", help="no GPU and no PyTorch, to try this script out")
    p.add_argument("--table", action="store_true", help="only the tables and the picture, of what is there")
    args = p.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    args.rad = str((args.bin / "rad").resolve())
    if not args.table:
        try:
            Study(args).run()
        finally:
            draw(args.out)
            pack(args.out)
        return
    draw(args.out)


if __name__ == "__main__":
    main()
