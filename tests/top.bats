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
	rad submit --hold --name second-one -- true
	cat >"$WORLD/terminal.py" <<-'PY'
		# terminal.py PYTHON: runs rad top on a terminal, then the statements, which use wait(), keys(), resize().
		import fcntl, os, pty, re, select, struct, sys, termios, time
		leave = b"\033[?7h\033[?25h\033[?1049l"
		seen = b""
		def resize(rows, columns):
		    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
		def wait(text):
		    global seen
		    until = time.monotonic() + 60
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
		    command = os.environ.get("COMMAND", "rad top --delay 0.2")
		    os.execvp("bash", ["bash", "--norc", "--noprofile", "-ic" if "fg" in command else "-c", "exec " * ("fg" not in command) + command])
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
	run timeout 250 python3 "$WORLD/terminal.py" "$1"
	echo "$output"
}

@test "top: both tables, again and again, until q" {
	on_terminal 'for i in range(3): frame = wait(b"waiting-one"); assert b"A100" in frame and b"\033[H" in frame, frame
keys(b"xq")'
	[ "$output" = 0 ]
}

@test "top: a window that shrinks gets frames that fit it" {
	on_terminal 'resize(5, 40); wait(b"\033[H"); wait(b"\033[J"); frame = wait(b"\033[J")
while frame.count(b"\n") != 4: frame = wait(b"\033[J")
plain = re.sub(rb"\033\[[0-9;?]*[a-zA-Z]", b"", frame).decode()
assert max(len(l.rstrip("\r")) for l in plain.split("\n")) <= 40, plain
keys(b"q")'
	[ "$output" = 0 ]
}

@test "top: at 60 columns and at 200 nothing is wider, and state, time and place are there" {
	on_terminal 'for columns in 60, 61, 80, 120, 200:
    resize(24, columns)
    wait(b"\033[J"); wait(b"\033[J"); frame = wait(b"\033[J")
    plain = re.sub(rb"\033\[[0-9;?]*[a-zA-Z]", b"", frame).decode()
    assert max(len(l.rstrip("\r")) for l in plain.split("\n")) <= columns, plain
    assert len(plain.split("\n")[-1]) < columns, (columns, plain)	# its last column is cleared with what lies below
    for word in "ID", "NAME", "USER", "ST", "TIME", "GPU(REASON)", "(Held)", "SMACT", "USED", "FREE", "TASKS", "q quit":
        assert word in plain, (columns, word, plain)
keys(b"q")'
	[ "$output" = 0 ]
}

@test "top: keys choose, find, sort, filter by user, and help" {
	on_terminal 'keys(b"/second\r"); frame = wait(b"with \x27second\x27"); wait(b"second-one"); frame = wait(b"\033[J")
assert b"waiting-one" not in frame, frame
keys(b"\033"); wait(b"waiting-one")
keys(b"ss"); wait(b"by NAME"); frame = wait(b"\033[J"); assert frame.index(b"second-one") < frame.index(b"waiting-one"), frame
keys(b"r"); wait(b"by NAME, reversed"); frame = wait(b"\033[J"); assert frame.index(b"waiting-one") < frame.index(b"second-one"), frame
keys(b"\033[F"); wait(b"\033[7m")
keys(b"unobody-here\r"); wait(b"No such task"); keys(b"\033"); wait(b"waiting-one")
keys(b"?"); wait(b"H hold, R release"); keys(b" "); wait(b"waiting-one")
keys(b"vv"); wait(b"\033[J"); wait(b"\033[J"); assert b"waiting-one" not in wait(b"\033[J")
keys(b"q")'
	echo "$output"
	[ "$output" = 0 ]
}

@test "top: keys cancel, hold and release the task that is chosen, and the answer is shown" {
	local id
	id=$(submit --hold --name third-one --begin=now+1hour --array=3-5 -- true)	# so that nothing changes by itself
	on_terminal 'wait(b"third-one"); keys(b"/third\r"); wait(b"with \x27third\x27")
keys(b"c"); wait(b"cancel '"$id"'_[3-5] (third-one) of "); wait(b", HELD? y: yes"); keys(b"n"); wait(b"nothing was done")
keys(b"R"); wait(b"Release '"$id"'_[3-5]: 3 tasks"); wait(b"(BeginTime)")
keys(b"vv"); wait(b"\033[J"); keys(b"c"); wait(b"no task is chosen"); keys(b"v"); wait(b"third-one")
keys(b"\033[F"); keys(b"c"); wait(b"? y: yes"); keys(b"y"); wait(b"Cancel '"$id"'_[3-5]: 3 tasks"); wait(b"No such task")
keys(b"q")'
	[ "$output" = 0 ]
	[ "$(state "${id}_5")" = CANCELLED ]
	on_terminal 'wait(b"waiting-one"); keys(b"/nothing-here\r"); wait(b"No such task"); keys(b"c"); wait(b"no task is chosen"); keys(b"H")
wait(b"no task is chosen"); keys(b"\033"); wait(b"waiting-one"); keys(b"/waiting-one\r"); wait(b"with \x27wait"); keys(b"H")
wait(b"is HELD, so it cannot be held"); keys(b"q")'
	[ "$output" = 0 ]
}

@test "top: a task of somebody else is radd's to refuse" {
	need_root
	make_users
	on_terminal_of() { export COMMAND="setpriv --reuid $ALICE --regid $(id -g "$ALICE") --init-groups env HOME=$WORLD/$ALICE rad top --delay 0.2"; on_terminal "$1"; }
	on_terminal_of 'wait(b"waiting-one"); keys(b"R"); wait(b"belongs to"); keys(b"c"); wait(b"y: yes"); keys(b"y"); wait(b"belongs to"); keys(b"q")'
	[ "$output" = 0 ]
	[ "$(rad queue -h -t H | wc -l)" = 2 ]
}

@test "top: the log of a task as it grows, and why it waits" {
	local id
	id=$(submit --gpu-mem 1G --name talks --output "$PWD/talks.out" -- sh -c "printf '\\033[31mred\\033[0m line\n'; $(until_file more); echo grew; $(until_file go)")
	wait_state "$id" RUNNING
	on_terminal 'wait(b"talks"); keys(b"/talks\r"); wait(b"with \x27talks\x27"); keys(b"l"); wait(b"red line")
open("more", "w").close(); wait(b"grew")
keys(b"q"); wait(b"talks"); keys(b"w"); wait(b"attempt 1 on GPU"); keys(b"\033"); keys(b"i"); wait(b"submitted"); keys(b"qq")'
	: >go
	[ "$output" = 0 ]
	rad wait "$id"
}

@test "top: ended by a crash, the terminal is as before" {
	on_terminal 'os.kill(pid, 11)'
	[ "$output" = -11 ]
}

@test "top: Ctrl-Z gives the terminal back, fg takes it again" {
	COMMAND='rad top --delay 0.2; echo stopped; stty -a; fg' on_terminal 'keys(b"\032"); wait(leave); wait(b"stopped"); wait(b" icanon")
wait(b"\033[?1049h"); wait(b"waiting-one"); keys(b"q")'
	[ "$output" = 0 ]
}

@test "top: without colours where NO_COLOR says so" {
	NO_COLOR=1 on_terminal 'frame = wait(b"waiting-one")
assert not re.search(rb"\033\[(1|2|9[0-9])m", frame), frame
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

@test "queue: on a terminal how many there are in each state comes first, elsewhere the titles" {
	run python3 -c 'import pty; pty.spawn(["rad", "queue"])' </dev/null
	[[ "${lines[0]}" == *"2 held"* && "${lines[1]}" == *"GPU(REASON)"* ]]
	[[ "$(rad queue | head -n 1)" == *"GPU(REASON)" ]]
}

@test "top: no terminal, or no daemon: one line, and no escape sequence" {
	run rad top
	[ "$status" -eq 2 ]
	one_line_error "a terminal is needed"
	run env RAD_SOCKET="$WORLD/nobody.sock" python3 -c 'import pty, sys; pty.spawn(["rad", "top"])' </dev/null
	[[ "$output" == *"no radd listens on"* && "$output" != *$'\033'* ]]
}
