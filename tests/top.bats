#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# rad top, on a terminal that is a Python script: what it draws, and that the terminal is as before, however it ends.

bats_require_minimum_version 1.5.0
load helpers.bash

setup_file()
{
	new_world
	start_radd
	rad submit --hold --name waiting-one -- true
	cat >"$WORLD/terminal.py" <<-'PY'
		# terminal.py PYTHON: runs rad top on a terminal, then the statements, which use wait(), keys(), resize().
		import fcntl, os, pty, select, struct, sys, termios, time
		leave = b"\033[?7h\033[?25h\033[?1049l"
		seen = b""
		def resize(rows, columns):
		    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
		def wait(text):
		    global seen
		    until = time.monotonic() + 15
		    while text not in seen:
		        assert time.monotonic() < until, (text, seen[-2000:])
		        if select.select([terminal], [], [], 0.2)[0]:
		            seen += os.read(terminal, 65536)
		    frame, seen = seen[:seen.index(text)], seen[seen.index(text) + len(text):]
		    return frame
		def keys(text):
		    os.write(terminal, text)
		terminal, slave = pty.openpty()
		resize(24, 80)
		before = termios.tcgetattr(slave)
		pid = os.fork()
		if not pid:
		    os.setsid()
		    fcntl.ioctl(slave, termios.TIOCSCTTY, 0)
		    for fd in range(3):
		        os.dup2(slave, fd)
		    os.environ["TERM"] = "xterm"
		    os.execvp("rad", ["rad", "top", "--delay", "0.2"])
		wait(b"\033[?1049h")
		wait(b"waiting-one")
		assert not termios.tcgetattr(slave)[3] & (termios.ECHO | termios.ICANON)
		exec(sys.argv[1])
		wait(leave)
		status = os.waitpid(pid, 0)[1]
		assert termios.tcgetattr(slave) == before, "the terminal is not as it was"
		print(os.waitstatus_to_exitcode(status))
	PY
}

teardown_file() { end_world; }

setup() { cd "$WORLD/work"; }

on_terminal()
{
	export BATS_TEST_DIRNAME
	run timeout 60 python3 "$WORLD/terminal.py" "$1"
	echo "$output"
}

@test "top: both tables, again and again, until q" {
	on_terminal 'for i in range(3): frame = wait(b"waiting-one"); assert b"A100" in frame and b"\033[H" in frame, frame
keys(b"xq")'
	[ "$output" = 0 ]
}

@test "top: a window that shrinks gets a frame that fits, with what is left out counted" {
	on_terminal 'resize(5, 40); wait(b"lines more"); wait(b"\033[H"); frame = wait(b"\033[J")
assert frame.count(b"\n") == 4 and b"waiting-one" not in frame, frame
keys(b"q")'
	[ "$output" = 0 ]
}

@test "top: Ctrl-C and a signal put the terminal back and end it as signals do" {
	on_terminal 'keys(b"\003")'
	[ "$output" = -2 ]
	on_terminal 'os.kill(pid, 15)'
	[ "$output" = -15 ]
}

@test "top: a radd that is away is told on the screen, and found again" {
	on_terminal 'import subprocess
subprocess.run(["bash", "-c", ". $BATS_TEST_DIRNAME/helpers.bash; stop_radd"], check=True)
wait(b"Trying again")
subprocess.run(["bash", "-c", ". $BATS_TEST_DIRNAME/helpers.bash; start_radd"], check=True)
wait(b"waiting-one"); keys(b"q")'
	[ "$output" = 0 ]
}

@test "top: no terminal, or no daemon: one line, and no escape sequence" {
	run rad top
	[ "$status" -eq 2 ]
	one_line_error "a terminal is needed"
	run env RAD_SOCKET="$WORLD/nobody.sock" python3 -c 'import pty, sys; pty.spawn(["rad", "top"])' </dev/null
	[[ "$output" == *"no radd listens on"* && "$output" != *$'\033'* ]]
}
