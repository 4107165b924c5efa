#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What zsh makes of a line when its user presses Tab:  complete_zsh.py FOLDER LINE EXPECTED

FOLDER holds the completion _rad. zsh runs on a terminal of its own, as for a person; the line that it then has is read back
through a key of ours, and its end compared. Exit status 0 when it is EXPECTED, 1 with what it was."""
import os
import pty
import select
import sys
import time

DEADLINE_S = 90


class Shell:
    def __init__(self, folder):
        self.seen = b""
        pid, self.fd = pty.fork()
        if not pid:
            os.environ.update(TERM="dumb", PS1="", ZDOTDIR=folder)
            os.execvp("zsh", ["zsh", "-f", "-i"])
        self.end = time.monotonic() + DEADLINE_S

    def send(self, text):
        os.write(self.fd, text.encode())

    def wait_for(self, word):
        while word.encode() not in self.seen:
            left = self.end - time.monotonic()
            if left <= 0 or not select.select([self.fd], [], [], left)[0]:
                sys.exit(f"no {word!r} in {DEADLINE_S} s: {self.seen[-2000:]!r}")
            try:
                self.seen += os.read(self.fd, 65536)
            except OSError:
                sys.exit(f"zsh went away: {self.seen[-2000:]!r}")


folder, line, expected = sys.argv[1:]
shell = Shell(os.path.abspath(folder))
shell.send("unsetopt zle; PROMPT=; fpath=($ZDOTDIR $fpath); autoload -Uz compinit; compinit -u -D; "
           "tell() { print -r -- \"<<$BUFFER>>\" >$ZDOTDIR/line; print -r -- to''ld; BUFFER=; }; zle -N tell; "
           "bindkey '^X' tell; bindkey '^I' complete-word; setopt zle; echo rea''dy\n")
shell.wait_for("ready")
shell.send(line + "\t\x18")
shell.wait_for("told")
with open(os.path.join(folder, "line"), encoding="utf-8") as told:
    got = told.read().strip("\n")
if got != f"<<{expected}>>":
    sys.exit(f"{got}, and not <<{expected}>>")
