#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# rad run --pty: a task on its user's terminal. tests/terminal.py sits at it.

bats_require_minimum_version 1.5.0
load helpers.bash

setup_file()
{
	new_world
	export BATS_TEST_DIRNAME
	echo "PS1='ready> '" >"$WORLD/bashrc"
	export PYTHONPATH=$WORLD PYTHONDONTWRITEBYTECODE=1
	cp "$BATS_TEST_DIRNAME/terminal.py" "$WORLD/"
	chmod 644 "$WORLD/terminal.py" "$WORLD/bashrc"
	unset XDG_RUNTIME_DIR
	make_users
	start_radd
}

teardown_file() { end_world; }

setup() { cd "$WORLD/work" && rm -f ./*; }

# Runs the Python on standard input; `shell` is a shell on a terminal, after its first prompt.
drive()
{
	{
		cat <<-'PY'
			from terminal import *
			import json, subprocess
			def shell(*options, **kw):
			    t = Terminal("rad", "run", *options, "--pty", "bash", "--rcfile", os.environ["WORLD"] + "/bashrc", **kw)
			    t.expect("ready> ")
			    return t
			def last():
			    return json.loads(subprocess.check_output(["rad", "acct", "--json", "--since", "1h"]))["tasks"][-1]
			def tasks():
			    return json.loads(subprocess.check_output(["rad", "queue", "--json"]))["tasks"]
		PY
		cat
	} >"$WORLD/drive.py"
	timeout 250 python3 "$WORLD/drive.py" 3>&- 4>&-
}

@test "a shell on a terminal of its own: size, modes, a window that changes, the task's GPU, its code" {
	drive <<-'PY'
		t = shell("--gpu-mem", "3G", rows=31, columns=97)
		t.type("tty; stty size; echo gpu-$CUDA_VISIBLE_DEVICES-$RAD_GPU_MEM_MIB\n")
		t.expect(r"/dev/pts/\d+")
		t.expect("31 97")
		t.expect(r"gpu-[^\r]+-3072")
		t.resize(12, 34)
		t.type("stty size\n")
		t.expect("12 34")
		# A program that waits is told.
		t.type("bash -c 'trap \"stty size; exit\" WINCH; echo wait$((1+1)); while :; do sleep 0.1; done'\n")
		t.expect("wait2")
		t.resize(13, 35)
		t.expect("13 35")
		t.type("exit 7\n")
		assert t.end() == 7, t.code
		assert t.modes_are_back()
	PY
}

@test "keys go to the program: ^C, ^Z and jobs, ^D, and bytes of any kind" {
	drive <<-'PY'
		t = shell()
		t.type("bash -c 'trap \"echo caught; exit 3\" INT; echo up$((1+1)); while :; do sleep 0.1; done'\n")
		t.expect("up2")
		t.type("\x03")
		t.expect("caught")
		t.expect("ready> ")
		t.type("echo code-$?\n")
		t.expect("code-3")
		t.type("sh -c 'echo up$((1+1)); exec sleep 100'\n")
		t.expect("up2")
		t.type("\x1a")
		t.expect("Stopped")
		t.type("kill -9 %1; wait; jobs; echo none$((1+1))\n")
		t.expect("none2")
		t.type("stty raw -echo; echo raw$((1+1)); head -c 5 | od -An -tx1; stty sane\n")
		t.expect("raw2")
		t.type("\x00\x03\x1a\x1c\x7f")
		t.expect("00 03 1a 1c 7f")
		t.expect("ready> ")		# ^D while stty is at work is lost
		t.type("\x04")
		assert t.end() == 0, t.code
	PY
}

@test "a program by itself: signals, codes, much output, what cannot be started" {
	drive <<-'PY'
		t = Terminal("rad", "run", "--pty", "sh", "-c", "kill -9 $$")
		assert t.end() == 137 and t.modes_are_back()
		t = Terminal("rad", "run", "--pty", "sh", "-c", "seq 200000; echo the-end")
		t.expect("199999\r\n200000\r\nthe-end\r\n")
		assert t.end() == 0
		t = Terminal("rad", "run", "--pty", "./none")
		t.expect("rad: .*none")
		assert t.end() == 127 and t.modes_are_back()
	PY
}

@test "in the queue a line says why, and ^C cancels" {
	drive <<-'PY'
		t = Terminal("rad", "run", "--hold", "--pty", "bash")
		t.expect(r"rad: task (\S+) waits")
		t.type("\x03")
		t.expect("cancelling task")
		assert t.end() == 125, t.code
		assert t.modes_are_back() and not tasks()
	PY
}

@test "^C is heeded while a task prints more than its user's terminal can show" {
	drive <<-'PY'
		t = Terminal("rad", "run", "--output", "much", "sh", "-c", "yes | head -c 100000000; exec sleep 100")
		t.expect("y\r\ny\r\n")
		t.type("\x03")
		assert t.expect("cancelling task").start() < 30000000
		t.type("\x03")
		t.expect("left; task")
		assert t.end() == 130, t.code
		wait_for(lambda: not tasks(), "the end of the task")
	PY
}

@test "a terminal that goes hangs up, as after ssh; in the queue it cancels" {
	drive <<-'PY'
		t = Terminal("rad", "run", "--pty", "sh", "-c", "trap 'echo hup >>got; exit 4' HUP; echo up; while :; do sleep 0.1; done")
		t.expect("up")
		t.hang_up()
		wait_for(lambda: not tasks(), "the end of the task")
		assert open("got").read() == "hup\n"
		t = Terminal("rad", "run", "--hold", "--pty", "bash")
		t.expect("waits")
		t.hang_up()
		wait_for(lambda: not tasks(), "the end of the task")
	PY
}

@test "rad run without --pty: a terminal that goes leaves the task where it is" {
	drive <<-'PY'
		t = Terminal("rad", "run", "sh", "-c", "echo up; while [ ! -e go ]; do sleep 0.1; done; echo went >got")
		t.expect("up")
		t.hang_up()
		w = Terminal("rad", "run", "--hold", "true")
		w.expect("waits")
		w.hang_up()
		os.waitpid(w.pid, 0)
		assert sorted(x["state"] for x in tasks()) == ["HELD", "RUNNING"], tasks()
		open("go", "w")
		wait_for(lambda: os.path.exists("got"), "the task's word")
		subprocess.check_call(["rad", "cancel", "--all"])
	PY
}

@test "rad that is killed hangs up; one that gets TERM cancels, and gives the terminal back" {
	drive <<-'PY'
		t = Terminal("rad", "run", "--pty", "sh", "-c", "trap 'echo hup >>got; exit 4' HUP; echo up; while :; do sleep 0.1; done")
		t.expect("up")
		t.signal(signal.SIGKILL)
		wait_for(lambda: not tasks(), "the end of the task")
		assert open("got").read() == "hup\n"
		t = Terminal("rad", "run", "--pty", "sh", "-c", "echo up$((1+1)); exec sleep 100")
		t.expect("up2")
		t.signal(signal.SIGTERM)
		assert t.end() == 143, t.code
		assert t.modes_are_back()
		t = Terminal("rad", "run", "--pty", "sh", "-c", "echo up$((1+1)); exec sleep 100")
		t.expect("up2")
		t.signal(signal.SIGSEGV)
		t.end()
		assert t.modes_are_back()
		wait_for(lambda: not tasks(), "the end of the task")
	PY
}

@test "stopped from outside, it gives the terminal back and takes it again" {
	drive <<-'PY'
		t = shell()
		t.signal(signal.SIGTSTP)
		wait_for(lambda: open(f"/proc/{t.pid}/stat").read().split()[2] == "T", "stopped")
		assert t.modes_are_back()
		t.resize(14, 36)
		t.signal(signal.SIGCONT)
		wait_for(lambda: not t.modes_are_back(), "raw again")
		t.type("stty size\n")
		t.expect("14 36")
		t.type("exit\n")
		assert t.end() == 0
	PY
}

@test "radd that is killed changes nothing for a session; the code comes from the next one" {
	drive <<-'PY'
		t = shell()
		t.type("echo before$((1+1))\n")
		t.expect("before2")
		open("ask", "w").close()
		os.kill(int(open(os.environ["WORLD"] + "/pid").read()), signal.SIGKILL)
		wait_for(lambda: subprocess.run(["rad", "queue"], capture_output=True).returncode != 0, "radd gone")
		t.type("echo after$((1+1))\n")
		t.expect("after2")
		t.type("exit 9\n")
		t.expect("exit\r\n")
		subprocess.check_call(["bash", "-c", ". $BATS_TEST_DIRNAME/helpers.bash; start_radd"])
		assert t.end() == 9, t.code
		assert t.modes_are_back()
	PY
}

@test "a shim that is killed takes the session along" {
	drive <<-'PY'
		t = shell()
		t.type("echo pid-$$-$PPID-\n")
		m = t.expect(r"pid-(\d+)-(\d+)-")
		os.kill(int(m[2]), signal.SIGKILL)
		t.end()
		assert t.modes_are_back()
		wait_for(lambda: not os.path.exists(f"/proc/{int(m[1])}"), "the shell gone")
	PY
}

@test "nobody reads what a program floods: others are answered, and it can be cancelled" {
	drive <<-'PY'
		t = Terminal("rad", "run", "--pty", "sh", "-c", "echo up; exec yes")
		t.expect("up")
		for i in range(20):
		    began = time.monotonic()
		    running = tasks()
		    assert time.monotonic() - began < 15
		subprocess.check_call(["rad", "cancel", running[0]["id"]])
		wait_for(lambda: not tasks(), "the end")
		# rad itself waits for its terminal, which is read again.
		assert t.end() == 143
		assert t.modes_are_back()
	PY
}

@test "a log is kept where one is asked for, and not else" {
	drive <<-'PY'
		t = Terminal("rad", "run", "--output", "kept.log", "--pty", "sh", "-c", "echo shown; exit 2")
		t.expect("shown")
		assert t.end() == 2
		assert "shown" in open("kept.log").read()
		t = Terminal("rad", "run", "--pty", "true")
		assert t.end() == 0
		assert os.listdir(".") == ["kept.log"], os.listdir(".")
	PY
	run rad logs "$(rad acct --json --since 1h | jq -r '.tasks[-1].id')"
	one_line_error "no log was asked for"
	drive <<-'PY'
		t = Terminal("rad", "run", "--pty", "false")
		assert t.end() == 1
	PY
	local id
	id=$(rad acct --json --since 1h | jq -r '.tasks[-1].id')
	rad show "$id" | grep -q "^ *log  none: it runs on its user's terminal$"
	run rad why "$id"
	[[ "$output" == *FAILED* && "$output" != *"rad logs"* ]]
}

@test "what does not go with a terminal is refused in one line" {
	: >"$WORLD/listens"
	run rad run --pty -- true </dev/null
	[ "$status" -ne 0 ]
	one_line_error "standard input is no terminal"
	run rad submit --pty -- true
	one_line_error "rad run --pty"
	drive <<-'PY'
		for options in (["--array=0-3"], ["--error", "e"]):
		    t = Terminal("rad", "run", *options, "--pty", "true")
		    t.expect("rad: .*--pty")
		    assert t.end() == 125, t.code
		t = Terminal("rad", "run", "--pty", "true")
		assert t.end() == 0
	PY
	run rad requeue "$(rad acct --json --since 1h | jq -r '.tasks[-1].id')"
	one_line_error "was run at a terminal"
	[ -z "$(find /tmp -maxdepth 1 -name 'rad-pty.*' -newer "$WORLD/listens")" ]
}

@test "two users: each on a terminal of his own, and neither gets at the other's" {
	need_root
	as "$ALICE" bash -c "cd $WORLD/$ALICE && cat >theirs.py" <<-'PY'
		import os, socket, struct, sys, json
		# Bob's `rad` that would be given Alice's shell, or the other way round: a listener of Bob's named in Alice's task.
		def ask(path, **request):
		    s = socket.socket(socket.AF_UNIX)
		    s.connect(path)
		    body = json.dumps(dict(request, v=1)).encode()
		    s.sendall(struct.pack(">I", len(body)) + body)
		    data = b""
		    while len(data) < 4 or len(data) < 4 + struct.unpack(">I", data[:4])[0]:
		        data += s.recv(65536)
		    return json.loads(data[4:])
		id = ask(os.environ["RAD_SOCKET"], op="submit", environ=["PATH=/usr/bin:/bin"],
		         spec={"argv": ["sh"], "name": "x", "cwd": "/tmp", "output": "/dev/null", "gpu_mem_mib": 100, "terminal": sys.argv[1]})["id"]
		t = ask(os.environ["RAD_SOCKET"], op="wait", ids=[id])["tasks"][0]
		print(t["state"], t["attempts"][0]["evidence"])
	PY
	as "$BOB" python3 - "$WORLD/$BOB/trap" >"$WORLD/$BOB/got" 3>&- 4>&- <<-'PY' &
		import os, socket, sys
		s = socket.socket(socket.AF_UNIX)
		s.bind(sys.argv[1])
		os.chmod(sys.argv[1], 0o777)
		s.listen()
		s.settimeout(100)
		c, _ = s.accept()
		c.settimeout(100)
		print("fds", len(socket.recv_fds(c, 1, 1)[1]), flush=True)
	PY
	local trap=$!
	wait_for 10 test -S "$WORLD/$BOB/trap"
	run as "$ALICE" python3 theirs.py "$WORLD/$BOB/trap"
	[[ "$output" == "FAILED"*"another user's"* ]]
	wait "$trap" || :
	[ "$(cat "$WORLD/$BOB/got")" = "fds 0" ]
	run as "$ALICE" python3 theirs.py "$WORLD/nowhere"
	[[ "$output" == "FAILED"*"is gone"* ]]
	export ALICE
	drive <<-'PY'
		import pwd, socket
		alice = pwd.getpwnam(os.environ["ALICE"])
		t = Terminal("setpriv", f"--reuid={alice.pw_uid}", f"--regid={alice.pw_gid}", "--clear-groups", "env", "-C", "/tmp",
		             "rad", "run", "--hold", "--pty", "bash", "--rcfile", os.environ["WORLD"] + "/bashrc")
		id = t.expect(r"rad: task (\S+) waits")[1].decode()
		# Root may enter the folder; what it sends is not taken for the task's.
		(path,) = [l.split()[-1] for l in open("/proc/net/unix") if "/rad-pty." in l]
		assert os.stat(os.path.dirname(path)).st_mode & 0o777 == 0o700
		s = socket.socket(socket.AF_UNIX)
		s.connect(path)
		m, _ = pty.openpty()
		try:
		    socket.send_fds(s, [b"T"], [m])
		    s.settimeout(60)
		    assert s.recv(1) == b""
		except (BrokenPipeError, ConnectionResetError):		# it was shut already
		    pass
		subprocess.check_call(["rad", "release", id])
		t.expect("ready> ")
		t.type("id -u; stat -c %U $(tty)\n")
		t.expect(f"{alice.pw_uid}\r\n{alice.pw_name}\r\n")
		t.type("exit\n")
		assert t.end() == 0, t.code
	PY
}

@test "rad run without --pty: why the task waits stands on a line that is gone when its output comes" {
	local first
	first=$(submit --hold --name first -- true)
	FIRST=$first drive <<-'PY'
		t = Terminal("rad", "run", "--dependency=afterany:" + os.environ["FIRST"], "--", "echo", "out-put")
		t.expect("waits for afterany:")
		subprocess.check_call(["rad", "release", os.environ["FIRST"]])
		t.expect(r"\r\x1b\[Kout-put\r\n")
		assert t.end() == 0, t.code
	PY
}
