# SPDX-License-Identifier: MIT
"""A terminal with somebody at it, for tests: starts a program on a pseudo-terminal, types, and waits for what is shown."""
import fcntl, os, pty, re, select, signal, struct, sys, termios, time  # some for who imports all of it

DEADLINE = 60


class Terminal:
    def __init__(self, *argv, rows=30, columns=100, env=None):
        self.shown = b""
        # Kept open here, so that the terminal's modes can be looked at when the program has gone.
        self.master, self.slave = pty.openpty()
        self.resize(rows, columns, quiet=True)
        self.before = termios.tcgetattr(self.slave)
        self.pid = os.fork()
        if self.pid == 0:
            os.setsid()
            fcntl.ioctl(self.slave, termios.TIOCSCTTY, 0)
            for fd in (0, 1, 2):
                os.dup2(self.slave, fd)
            os.closerange(3, 100)
            os.environ.update(env or {})
            signal.signal(signal.SIGINT, signal.SIG_DFL)    # what a script runs in the background ignores it
            os.execvp(argv[0], argv)
        self.code = None

    def resize(self, rows, columns, quiet=False):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def type(self, text):
        os.write(self.master, text.encode())

    def _read(self, until):
        left = until - time.monotonic()
        if left <= 0 or not select.select([self.master], [], [], left)[0]:
            raise SystemExit(f"never shown; what was: {self.shown[-2000:]!r}")
        try:
            self.shown += os.read(self.master, 65536)
        except OSError:
            raise SystemExit(f"the terminal is gone; what was shown: {self.shown[-2000:]!r}")

    def expect(self, pattern, seconds=DEADLINE):
        """Waits for the pattern, and forgets all that was shown up to its end."""
        until, regex = time.monotonic() + seconds, re.compile(pattern.encode(), re.S)
        while not (m := regex.search(self.shown)):
            self._read(until)
        self.shown = self.shown[m.end():]
        return m

    def end(self, seconds=DEADLINE):
        """Waits for the program's end; its exit code, or minus the signal."""
        until = time.monotonic() + seconds
        while self.code is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.code = os.waitstatus_to_exitcode(status)
            elif select.select([self.master], [], [], 0.05)[0]:
                self._read(until)
            elif time.monotonic() > until:
                raise SystemExit(f"it does not end; what was shown: {self.shown[-2000:]!r}")
        while select.select([self.master], [], [], 0)[0]:
            self._read(until)
        return self.code

    def signal(self, number):
        os.kill(self.pid, number)

    def hang_up(self):
        os.close(self.slave)
        os.close(self.master)

    def modes_are_back(self):
        return termios.tcgetattr(self.slave) == self.before


def wait_for(true, what, seconds=DEADLINE):
    until = time.monotonic() + seconds
    while not true():
        if time.monotonic() > until:
            raise SystemExit(f"never: {what}")
        select.select([], [], [], 0.05)
