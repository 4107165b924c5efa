#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# One radd for one machine: what a user's rad does while the machine's own radd is away, whose task an id is, and radds of
# several users that share GPUs without an administrator. Where default paths are what is tried, it is in a mount namespace with
# empty folders over them.

bats_require_minimum_version 1.5.0
load helpers.bash

# as USER COMMAND...: in a folder of that user's, as after a login.
as()
{
	local user=$1
	shift
	(cd "$WORLD/$user" && exec setpriv --reuid "$user" --regid "$(id -g "$user")" --init-groups env HOME="$WORLD/$user" \
		XDG_RUNTIME_DIR="$WORLD/$user" "$@")
}

setup()
{
	new_world
	unset RAD_SOCKET RAD_STATE RAD_NO_START
	export RAD_CLAIMS_DIR=$WORLD/claims RAD_DEVICES=sim:1xa100-40g
	mkdir -m 1777 "$RAD_CLAIMS_DIR"
	chmod 1777 "$RAD_CLAIMS_DIR"
	chmod 755 "$WORLD" "$WORLD/work"
	if [ "$(id -u)" = 0 ]; then
		install -d -m 700 -o "$ALICE" "$WORLD/$ALICE"
		install -d -m 700 -o "$BOB" "$WORLD/$BOB"
	fi
	export -f as wait_for gone
}

teardown()
{
	local f
	for f in "$WORLD"/*/pid "$WORLD"/*.pid; do
		[ ! -e "$f" ] || kill "$(cat "$f")" 2>/dev/null || :
	done
	for f in $(cat "$WORLD"/*/.local/state/rad/lock "$WORLD"/state*/lock 2>/dev/null); do
		kill "$f" 2>/dev/null && gone "$f" || :
	done
	cd /
	rm -rf "$WORLD"
}

# machine SCRIPT: run by bash where /run, /var/lib, /etc/systemd and /etc/rad are empty folders of root's.
machine()
{
	cat >"$WORLD/script" <<-EOF
		set -eu
		mount -t tmpfs none /run
		mount -t tmpfs none /var/lib
		[ ! -d /etc/systemd ] || mount -t tmpfs none /etc/systemd
		[ ! -d /etc/rad ] || mount -t tmpfs none /etc/rad
		server() { radd --ready-fd 3 3>"$WORLD/ready" >>"$WORLD/radd.log" 2>&1 & echo \$! >"$WORLD/server.pid"; wait_for 10 grep -q ok "$WORLD/ready"; }
		stop() { kill "\$(cat "$WORLD/server.pid")"; gone "\$(cat "$WORLD/server.pid")"; }
		as_alice() { as "$ALICE" "\$@"; }
		as_bob() { as "$BOB" "\$@"; }
		$1
	EOF
	timeout 280 unshare -m --propagation private bash "$WORLD/script" 3>&- 4>&-
}

# ---- the machine's radd is away ----

@test "while the machine's radd is stopped, nobody's own is started, and what to do is said" {
	need_root
	run machine '
		server
		as_alice rad submit --parsable --hold -- true
		stop
		as_bob timeout 50 rad version >version; grep -c "^rad  " version; grep "^radd" version
		as_bob timeout 50 rad doctor | grep -E "(daemon|state|cgroup)  "
		as_bob env RAD_NO_START=0 rad submit -- true || echo "exit $?"
		ls "$WORLD/daemon"'
	echo "$output"
	[ "${lines[0]}" = 1 ]
	[ "${lines[1]}" = 1 ]
	away="this machine's radd does not answer (that it has one, /run/rad shows)"
	[[ "${lines[2]}" == "radd: $away"*"RAD_SOCKET=own"* ]]
	# Who asks what is wrong is told at once, and nothing of the folder and the cgroup that a radd of the caller's own would have.
	[[ "${lines[3]}" == "warn  daemon     $away"* ]]
	[[ "${lines[4]}" == "rad: this machine's radd does not answer: waiting for it"* ]]
	[[ "${lines[5]}" == "rad: $away"*"RAD_SOCKET=own"* ]]
	[ "${lines[6]}" = "exit 3" ]
	[ "${#lines[@]}" -eq 7 ]
}

@test "one that is named by its socket, as in each of its tasks, is waited for all the same" {
	need_root
	run machine '
		server
		stop
		for named in server /run/rad/radd.sock; do
			as_bob env RAD_SOCKET=$named timeout 50 rad version | grep "^radd"
			as_bob env RAD_SOCKET=$named RAD_NO_START=0 rad submit -- true || echo "exit $?"
		done'
	echo "$output"
	away="this machine's radd does not answer (that it has one, /run/rad shows)"
	for i in 0 4; do
		[[ "${lines[i]}" == "radd: $away"* ]]
		[[ "${lines[i + 1]}" == "rad: this machine's radd does not answer: waiting for it"* ]]
		[[ "${lines[i + 2]}" == "rad: $away"* ]]
		[ "${lines[i + 3]}" = "exit 3" ]
	done
	[ "${#lines[@]}" -eq 8 ]
}

@test "a radd that root tries elsewhere leaves nothing that looks like the machine's" {
	need_root
	run machine '
		RAD_STATE="$WORLD/tried" RAD_SOCKET="$WORLD/tried.sock"
		export RAD_STATE RAD_SOCKET
		server
		rad run -- true
		stop
		[ ! -e /run/rad ] || ls -R /run/rad'
	echo "$output"
	[ "$status" -eq 0 ]
	[[ "$output" != *"/run/rad"* ]]
}

@test "a radd of the machine's that could not start is not waited for: everybody is told why it is not there" {
	need_root
	[ -d /etc/systemd ] || skip "no /etc/systemd"
	echo "max_smactt: 1" >"$WORLD/bad.conf"
	run machine '
		mkdir -p /run/rad /run/systemd/system /etc/systemd/system/multi-user.target.wants
		ln -s /usr/lib/systemd/system/radd.service /etc/systemd/system/multi-user.target.wants
		! RAD_CONFIG="$WORLD/bad.conf" timeout 100 radd 2>"$WORLD/radd.log" || false
		as_bob timeout 50 rad queue || echo "exit $?"
		timeout 50 rad queue || echo "exit $?"
		RAD_CONFIG="$WORLD/bad.conf" timeout 50 rad doctor || echo "exit $?"
		server
		timeout 50 rad queue
		! timeout 100 radd --state "$WORLD/second" 2>"$WORLD/radd.log" || false	# one listens already
		ls /run/rad/radd.failed || echo none'
	[[ "${lines[0]}" == "rad: this machine's radd does not run (RAD_SOCKET=own "*"administrator: $WORLD/bad.conf:1: unknown key 'max_smactt': did you mean 'max_smact'?"* ]]
	[ "${lines[1]}" = "exit 3" ]
	[[ "${lines[2]}" == "rad: this machine's radd does not run: $WORLD/bad.conf:1:"*"Then: systemctl restart radd" ]]
	[ "${lines[3]}" = "exit 3" ]
	echo "$output"
	[[ "$output" == *"fail  daemon "*"fail  settings "*"exit 1"*"ID  NAME"*none ]]
}

@test "a radd that systemd could not start is not waited for, and where to look is said; one that crashed is" {
	need_root
	[ -d /etc/systemd ] || skip "no /etc/systemd"
	mkdir "$WORLD/bin"
	cat >"$WORLD/bin/systemctl" <<-EOF
		#!/bin/sh
		cat "$WORLD/unit"
	EOF
	chmod 755 "$WORLD/bin/systemctl"
	run machine '
		PATH=$WORLD/bin:$PATH
		unit() { printf "ActiveState=%s\nSubState=%s\nResult=exit-code\nExecMainStartTimestampMonotonic=%s\nActiveEnterTimestampMonotonic=%s\n" "$@" >"$WORLD/unit"; }
		mkdir -p /run/systemd/system /etc/systemd/system/multi-user.target.wants
		ln -s /usr/lib/systemd/system/radd.service /etc/systemd/system/multi-user.target.wants
		unit failed failed 5 0
		as_bob rad queue || echo "exit $?"
		rad queue || echo "exit $?"
		as_bob rad doctor | grep -E "daemon  "
		unit activating auto-restart 9 5
		as_bob rad submit -- true || echo "exit $?"
		unit failed failed 5 9
		rad queue || echo "exit $?"
		unit activating auto-restart 5 9
		as_bob rad queue & queue=$!
		server
		wait "$queue"'
	echo "$output"
	why="systemd could not start it (exit-code): 'systemctl status radd' and 'journalctl -u radd' say why"
	[ "${lines[0]}" = "rad: this machine's radd does not run (RAD_SOCKET=own has one of your own beside it). Tell its administrator: $why" ]
	[ "${lines[2]}" = "rad: this machine's radd does not run: $why. Then: systemctl restart radd" ]
	[[ "${lines[4]}" == "fail  daemon     this machine's radd does not run (RAD_SOCKET=own "* ]]
	[[ "$output" == *"$why"$'\n'"exit 3"$'\n'"rad: this machine's radd does not run: systemd does not start it again (exit-code)"* ]]
	[ "$(grep -c '^exit 3$' <<<"$output")" -eq 4 ]
	[[ "$output" == *"ID  NAME"* ]]
}

@test "who waits for a radd that is away asks systemd every two seconds, however often it looks" {
	need_root
	[ -d /etc/systemd ] || skip "no /etc/systemd"
	mkdir "$WORLD/bin"
	printf '#!/bin/sh\ndate +%%s%%3N >>%s/asked\n' "$WORLD" >"$WORLD/bin/systemctl"
	chmod 755 "$WORLD/bin/systemctl"
	machine '
		PATH=$WORLD/bin:$PATH
		mkdir -p /run/systemd/system /etc/systemd/system/multi-user.target.wants
		ln -s /usr/lib/systemd/system/radd.service /etc/systemd/system/multi-user.target.wants
		server
		rad submit --hold -- true
		rad wait 1 & wait=$!
		kill -9 "$(cat "$WORLD/server.pid")"
		thrice() { [ "$(wc -l <"$WORLD/asked")" -ge 3 ]; }
		wait_for 20 thrice
		kill "$wait"'
	[ $(($(sed -n 3p "$WORLD/asked") - $(sed -n 1p "$WORLD/asked"))) -ge 4000 ]
}

@test "radd tells systemd that it is ready, and only then" {
	need_root
	run machine '
		python3 - <<-PY
			import os, socket, subprocess, sys
			s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
			s.bind("/run/notify")
			s.settimeout(100)
			env = dict(os.environ, NOTIFY_SOCKET="/run/notify")
			p = subprocess.Popen(["radd"], env=env, stderr=subprocess.DEVNULL)
			print(s.recv(100).decode(), os.path.exists("/run/rad/radd.sock"))
			p.terminate()
			p.wait()
		PY'
	[ "$output" = "READY=1 True" ]
}

@test "a restart of the machine's radd is waited for" {
	need_root
	run --separate-stderr machine '
		server
		as_bob rad submit --parsable --hold -- true
		stop
		as_bob rad submit --parsable --hold -- true >"$WORLD/out" & pid=$!
		server
		wait $pid
		cat "$WORLD/out"'
	[ "$status" -eq 0 ]
	[ "$output" = "$(printf '1\n2')" ]
}

@test "a service that systemd is to start, and a store that is there, show that the machine has a radd" {
	need_root
	[ -d /etc/systemd ] || skip "no /etc/systemd"
	run machine '
		mkdir -p /run/systemd/system /etc/systemd/system/multi-user.target.wants
		ln -s /usr/lib/systemd/system/radd.service /etc/systemd/system/multi-user.target.wants
		(as_bob rad queue || echo "exit $?") & queue=$!
		rad submit -- true || echo "exit $?"
		wait "$queue"
		as_bob timeout 50 rad stop 2>&1 | tee "$WORLD/stopped"; echo "exit ${PIPESTATUS[0]}"'
	! grep "waiting for it" "$WORLD/stopped" || false
	[[ "$output" == *"multi-user.target.wants/radd.service shows"* ]]
	[[ "$output" == *"does not run: systemctl start radd"* ]]
	[[ "${lines[-2]}" == *"multi-user.target.wants/radd.service shows"* ]]
	[ "$(grep -c '^exit 3$' <<<"$output")" -eq 3 ]
	run machine '
		mkdir /var/lib/rad
		: >/var/lib/rad/rad.db
		as_bob rad start || echo "exit $?"'
	# No service, and not since the machine was started: it is not waited for.
	[[ "${lines[0]}" == "rad: this machine's radd has not run since "*"/var/lib/rad/rad.db shows"*"or for /var/lib/rad to be removed"* ]]
	[ "${lines[1]} ${#lines[@]}" = "exit 3 2" ]
}

@test "a container has the package, and no systemd that would start its service: a submission starts a radd" {
	need_root
	[ -d /etc/systemd ] || skip "no /etc/systemd"
	run machine '
		mkdir -p /etc/systemd/system/multi-user.target.wants
		ln -s /usr/lib/systemd/system/radd.service /etc/systemd/system/multi-user.target.wants
		as_bob rad queue || echo "exit $?"
		as_bob rad submit --wait -- true && echo "his own"
		rad submit --wait -- true && echo "root'"'"'s"
		rad stop'
	echo "$output"
	[[ "${lines[0]}" == "rad: no radd listens on "*"'rad start' or 'rad submit' starts one"* ]]
	[ "${lines[1]}" = "exit 3" ]
	[ "$(grep -cxF -e "his own" -e "root's" <<<"$output")" -eq 2 ]
	[[ "$output" != *"waiting for it"* ]]
}

@test "an id of one's own radd is not taken for the server's, nor the other way round" {
	need_root
	run machine '
		as_bob rad submit --parsable --hold -- true
		server
		as_alice rad submit --parsable --hold -- true
		as_bob rad submit --parsable --hold -- true
		as_bob rad cancel 1 || echo "exit $?"
		as_bob env RAD_SOCKET=server rad cancel 1 || echo "exit $?"
		as_bob rad cancel 2 && echo cancelled
		as_bob env RAD_SOCKET=own rad cancel 1 && echo cancelled
		as_bob rad cancel 1 || echo "exit $?"
		as_alice rad show --json 1 | jq -r ".tasks[0].state"'
	[ "${lines[1]}" = 1 ]
	[[ "${lines[0]}" == *"started radd for you"* ]]
	[ "${lines[2]}" = 1 ]
	[ "${lines[3]}" = 2 ]
	[[ "${lines[4]}" == *"a radd of your own ("*"has an unfinished task of that number too"*"RAD_SOCKET=server or RAD_SOCKET=own" ]]
	[ "${lines[5]}" = "exit 1" ]
	[[ "${lines[6]}" == *"belongs to nobody"* ]]
	[ "${lines[8]}" = cancelled ]
	[ "${lines[9]}" = cancelled ]
	[[ "${lines[10]}" == *"belongs to nobody"* ]]
	[ "${lines[12]}" = HELD ]
}

@test "what root starts by a submission is everybody's, and that is said" {
	need_root
	run machine '
		unset RAD_SOCKET RAD_NO_START RAD_CONFIG
		export RAD_DEVICES=sim:1xa100-40g
		rad submit --parsable --hold -- true
		as_bob rad queue -h | wc -l
		rad stop 2>&1
		as_bob timeout 50 rad queue || echo "exit $?"
		rad start
		as_bob rad queue -h | wc -l
		rad stop 2>"$WORLD/note"
		rm -r /run/rad /var/lib/rad		# as it said
		as_bob rad start'
	[[ "${lines[0]}" == "rad: started radd for everybody on this machine, since you are root (pid "*", log /var/lib/rad/radd.log)" ]]
	[ "${lines[1]} ${lines[2]}" = "1 1" ]
	# Once it was ended so, nobody waits for it, until it is started again.
	echo "$output"
	[[ "$output" == *"while /run/rad and /var/lib/rad are there, users get no radd of their own. Remove both "* ]]
	[[ "$output" == *"this machine's radd does not run (RAD_SOCKET=own "*"ended by 'rad stop'. 'rad start' has it back; "* ]]
	[[ "$output" == *$'\nexit 3\n'*"0 tasks are running, 1 waiting"* ]]
	[ "${lines[-4]}" = 1 ]
	[[ "${lines[-2]}" == *"started radd for you"* ]]
}

@test "rad stop of a radd that systemd starts: systemctl has it back, and nobody is told to remove its state" {
	need_root
	[ -d /etc/systemd ] || skip "no /etc/systemd"
	run machine '
		mkdir -p /run/systemd/system /etc/systemd/system/multi-user.target.wants
		ln -s /usr/lib/systemd/system/radd.service /etc/systemd/system/multi-user.target.wants
		server
		rad submit --parsable --hold -- true
		rad stop 2>&1
		as_bob timeout 50 rad queue || echo "exit $?"
		timeout 50 rad queue || echo "exit $?"'
	echo "$output"
	[[ "${lines[1]}" == "rad: it was everybody's: "*"systemctl start radd"* ]]
	[[ "${lines[2]}" == "radd was stopped (pid "*"; 1 waits for 'systemctl start radd'" ]]
	[[ "${lines[3]}" == *"Tell its administrator: it was ended by 'rad stop'" ]]
	[ "${lines[4]}" = "exit 3" ]
	[[ "${lines[5]}" == *"does not run: it was ended by 'rad stop'. Then: systemctl restart radd" ]]
	[ "${#lines[@]}" -eq 7 ]
}

@test "RAD_SOCKET=own has one's own beside the server's" {
	need_root
	run machine '
		server
		export RAD_SOCKET=own
		as_bob rad submit --parsable --hold -- true
		[ -S "$WORLD/daemon/rad/radd.sock" ]
		RAD_SOCKET=server as_bob rad queue --json | jq ".tasks | length"
		as_bob rad queue --json | jq ".tasks | length"
		as_bob rad show --json 1 | jq -r ".tasks[0].log_path"'
	[ "$status" -eq 0 ]
	[[ "${lines[0]}" == *"started radd for you"* ]]
	[ "${lines[1]} ${lines[2]} ${lines[3]}" = "1 0 1" ]
	[[ "${lines[4]}" == */rad-own-1.out ]]	# rad-1.out may be that of the server's task 1
}

# ---- rad start ----

@test "rad start: one's own goes on with its queue" {
	export RAD_SOCKET=$WORLD/own.sock RAD_STATE=$WORLD/state1
	run rad start
	[ "$status" -eq 0 ]
	[[ "${lines[1]}" == "radd was started (pid "*"): 0 tasks are running, 0 waiting" ]]
	# As the daemon makes it: root's lets its users' tasks through to simulated devices.
	[ "$(stat -c %a "$WORLD/state1")" = "$([ "$(id -u)" = 0 ] && echo 711 || echo 700)" ]
	kill "$(cat "$WORLD/state1/lock")"
	gone "$(cat "$WORLD/state1/lock")"
	run rad start
	[[ "${lines[1]}" == "radd was started"* ]]
	run rad start
	[[ "${lines[0]}" == "radd runs already"* ]]
	[ "${#lines[@]}" -eq 1 ]
	[ "$(rad start --json | jq -r .started)" = false ]
}

@test "rad doctor: a radd of one's own that would have nowhere to keep its queue" {
	need_root
	chmod 500 "$WORLD/$BOB"
	run as "$BOB" env RAD_SOCKET=own rad doctor
	[ "$status" -eq 1 ]
	[[ "$output" == *"fail  state      $WORLD/$BOB cannot be written to"*"RAD_STATE="* ]]
	run as "$BOB" env RAD_SOCKET=own RAD_STATE="$WORLD/elsewhere/rad" rad doctor
	[[ "$output" == *"fail  state      $WORLD cannot be written to"* ]]
	as "$ALICE" env RAD_SOCKET=own rad doctor | grep "ok    state      $WORLD/$ALICE/.local/state/rad will be made"
	as "$ALICE" mkdir -m 777 "$WORLD/$ALICE/open"
	run as "$ALICE" env RAD_SOCKET=own RAD_STATE="$WORLD/$ALICE/open" rad doctor
	[[ "$output" == *"fail  state      state folder $WORLD/$ALICE/open: others may write to it (mode 777): chmod go-w it"* ]]
}

@test "RAD_SOCKET of a radd that is not there: whose own runs elsewhere is told where" {
	need_root
	as "$ALICE" rad start >/dev/null 2>&1
	local said words
	for words in "rad queue" "rad version" "rad submit -- true" "rad start"; do
		# shellcheck disable=SC2086
		said=$(as "$ALICE" env RAD_SOCKET="$WORLD/none" $words 2>&1) || :
		echo "$words: $said"
		[[ "$said" == *"no radd listens on $WORLD/none, which RAD_SOCKET names: yours runs, and listens on $WORLD/$ALICE/rad/radd.sock: RAD_SOCKET=own reaches it"* ]]
	done
	as "$ALICE" env RAD_SOCKET=own rad queue
	# one that keeps its queue elsewhere is another, and may be started there
	said=$(as "$ALICE" env RAD_SOCKET="$WORLD/$ALICE/second" RAD_STATE="$WORLD/$ALICE/second.d" rad start 2>&1)
	[[ "$said" == *"started radd for you"* ]]
	as "$ALICE" env RAD_SOCKET="$WORLD/$ALICE/second" RAD_STATE="$WORLD/$ALICE/second.d" rad stop
	# and not where others may write; who calls rad has no option that names another
	install -d -m 777 "$WORLD/open"
	said=$(as "$ALICE" env RAD_SOCKET="$WORLD/open/s" RAD_STATE="$WORLD/$ALICE/third.d" rad start 2>&1) && return 1
	[[ "$said" == *"others could take our place there: give another path (RAD_SOCKET, or --socket of radd)"* ]]
}

@test "rad doctor: root is told what others may not, and of others it is tried" {
	# a home that is no folder for temporary files, and a setting that does not tell what the kernel does
	cat >"$WORLD/tell" <<-'SH'
		mount -t tmpfs none /mnt && install -d -o "$1" -g "$(id -g "$1")" /mnt/home && install -d -o "$1" -g 0 /mnt/others || exit
		as() { HOME=${2-/mnt/home} setpriv --reuid "$1" --regid "$(id -g "$1")" --init-groups rad doctor; }
		as "$1" | grep " captures "
		as "$1" /mnt/others | grep " captures "
		touch /mnt/others/t.py
		(cd /mnt/others && HOME=/mnt/home setpriv --reuid "$1" --regid "$(id -g "$1")" --init-groups \
			rad capture -o x.radcap -- python3 t.py 2>&1 | grep "written for real")
		mount --bind "$2" /proc/sys/user/max_user_namespaces || exit
		as "$1" | grep " captures "
		rad doctor | grep " captures "
	SH
	echo 0 >"$WORLD/forbidden"
	run unshare -m bash "$WORLD/tell" "$BOB" "$WORLD/forbidden"
	[ "${lines[0]%% *}" = ok ] || skip "others may not lay aside what their captures write: $output"
	[[ "${lines[1]}" == "warn "*" your home folder is another user's or group's: what a script writes"* ]]
	[[ "${lines[2]}" == *"written for real, for this folder is another user's or group's"* ]]
	[ "${lines[3]%% *}" = ok ]
	[[ "${lines[4]}" == *"user.max_user_namespaces is 0: what a script writes"* ]]
}

@test "one's own radd is found from where no login's variables are: cron, sudo" {
	need_root
	run machine '
		uid=$(as_alice id -u)
		login=/run/user/$uid
		mkdir /run/user
		install -d -m 700 -o "$uid" "$login"
		as_alice env XDG_RUNTIME_DIR="$login" rad submit --hold -- true
		as_alice env -u XDG_RUNTIME_DIR rad submit --parsable --hold -- true
		as_alice env -u XDG_RUNTIME_DIR rad stop'
	[ "$status" -eq 0 ]
	[ "$(grep -c "started radd for you" <<<"$output")" = 1 ]
	grep -qx 2 <<<"$output"
}

@test "rad stop: the radd ends, its tasks run on, and its queue waits for the next start" {
	export RAD_SOCKET=$WORLD/own.sock RAD_STATE=$WORLD/state1
	local pid
	rad start >/dev/null
	pid=$(cat "$WORLD/state1/lock")
	rad submit --exclusive -- sh -c 'until [ -e go ]; do sleep 0.1; done'
	rad submit --exclusive -- true
	wait_state 1 RUNNING
	run rad stop
	[ "$status" -eq 0 ]
	[ "$output" = "radd was stopped (pid $pid); 1 task runs on; 1 waits for the next 'rad start' or 'rad submit'" ]
	gone "$pid"
	run rad stop
	[ "$status" -eq 3 ]
	touch go
	rad start >/dev/null
	[ "$(rad wait 1 2 --json | jq -r '[.tasks[].state] | join(" ")')" = "COMPLETED COMPLETED" ]
	[ "$(RAD_DEVICES=sim:1xa100-40g rad stop --json | jq .pid)" -gt 1 ]
}

@test "rad stop: not what another user runs" {
	need_root
	run machine 'server; as_bob rad stop || echo "exit $?"; as_bob rad version --json | jq .radd; stop'
	[[ "$output" == *"not yours"*"systemctl stop radd"* ]]
	[ "${lines[1]}" = "exit 1" ]
	[[ "${lines[2]}" == \"*\" ]]
}

@test "who submits from a terminal to a machine's radd with simulated GPUs is told who decides that" {
	need_root
	export PYTHONPATH=$BATS_TEST_DIRNAME PYTHONDONTWRITEBYTECODE=1
	cat >"$WORLD/at_terminal.py" <<-'PY'
		from terminal import *
		t = Terminal("rad", "submit", "true")
		t.expect("this machine.s radd are simulated .sim:1xa100-40g.: .*devices in rad.conf")
		t.expect("Submitted task 1")
		assert t.end() == 0
	PY
	run machine 'server; as_bob env -u RAD_DEVICES RAD_SOCKET=server PYTHONPATH="$PYTHONPATH" python3 "$WORLD/at_terminal.py"; stop'
	echo "$output"
	[ "$status" -eq 0 ]
}

@test "who submits from a terminal to a radd of his own with simulated GPUs is told so, unless he asked for them" {
	export RAD_SOCKET=$WORLD/own.sock RAD_STATE=$WORLD/state1 PYTHONPATH=$BATS_TEST_DIRNAME PYTHONDONTWRITEBYTECODE=1
	rad start >/dev/null
	env -u RAD_DEVICES python3 -c 'from terminal import *
t = Terminal("rad", "submit", "true")
t.expect("simulated .sim:1xa100-40g.: for real ones .rad stop.")
t.expect("Submitted task 1")
assert t.end() == 0'
	python3 -c 'from terminal import *
t = Terminal("rad", "submit", "true")
assert b"simulated" not in t.expect("^(.*)Submitted task 2").group(1)
assert t.end() == 0'
	env -u RAD_DEVICES rad submit true 2>said	# no terminal
	[ ! -s said ]
}

@test "who submits what nothing is known of is told from a terminal what helps, with the first of his tasks" {
	export RAD_SOCKET=$WORLD/own.sock RAD_STATE=$WORLD/state1 PYTHONPATH=$BATS_TEST_DIRNAME PYTHONDONTWRITEBYTECODE=1
	rad start >/dev/null
	cat >told.py <<-'PY'
		import subprocess
		from terminal import *
		def told(*words):
		    t = Terminal("rad", "submit", "--hold", *words)
		    assert t.end() == 0
		    return t.shown.decode().count("its GPU memory is not known"), t.shown.decode()
		def alone(*words):
		    said = told(*words)
		    subprocess.check_call(["rad", "cancel", "--all"], stdout=subprocess.DEVNULL)
		    return said
		n, said = alone("true")
		assert n == 1 and "with --gpu-mem=SIZE it is placed" in said, said
		n, said = alone("--array=0-9", "python3", "-c", "1")
		assert n == 1 and "with --gpu-mem=SIZE or --capture=auto it is placed" in said, said
		for words in (["--gpu-mem=2G"], ["--parsable"], ["--json"], ["--exclusive"]):
		    n, said = alone(*words, "true")
		    assert n == 0, said
		assert told("true")[0] == 1
		assert told("true")[0] == 0
	PY
	python3 told.py
	rad cancel --all >/dev/null
	rad submit true 2>said	# no terminal
	[ ! -s said ]
}

@test "rad start --on-boot: a unit of the user's, or a line for cron" {
	export RAD_SOCKET=$WORLD/own.sock RAD_STATE="$WORLD/state1"
	mkdir "$WORLD/bin"
	printf '#!/bin/sh\necho "$(basename "$0") $*" >>%s/calls\n' "$WORLD" >"$WORLD/bin/systemctl"
	cp "$WORLD/bin/systemctl" "$WORLD/bin/loginctl"
	chmod +x "$WORLD/bin"/*
	PATH=$WORLD/bin:$PATH run rad start --on-boot
	[ "$status" -eq 0 ]
	local unit=$WORLD/.config/systemd/user/radd.service
	grep -q '^ExecStart=".*radd" --foreground$' "$unit"
	grep -q "^Environment=\"RAD_STATE=$WORLD/state1\"\$" "$unit"
	[ "$(cat "$WORLD/calls")" = "systemctl --user daemon-reload
systemctl --user enable radd.service
loginctl enable-linger" ]
	PATH=$WORLD/bin:$PATH rad start --json --on-boot 2>said | jq -se 'length == 1 and .[0].schema == 1'
	grep -q "^At boot: $unit\$" said
	printf '#!/bin/sh\nexit 1\n' >"$WORLD/bin/loginctl"
	PATH=$WORLD/bin:$PATH run rad start --on-boot
	[ "$status" -eq 1 ]
	[[ "$output" == *"loginctl enable-linger"* ]]
	printf '#!/bin/sh\nexit 1\n' >"$WORLD/bin/systemctl"
	PATH=$WORLD/bin:$PATH run rad start --on-boot
	[ "$status" -eq 1 ]
	[[ "$output" == *"@reboot RAD_STATE='$WORLD/state1'"*"/rad' start" ]]
	[ ! -e "$unit" ]
	# What cron makes of the line, and then its shell: cron takes \% for %, and what is behind another % for input.
	RAD_STATE="$WORLD/it's 5% of \\%x" PATH=$WORLD/bin:$PATH run rad start --on-boot
	python3 - "${lines[-1]}" "$WORLD/it's 5% of \\%x" <<-'PY'
		import re, subprocess, sys
		command = re.match("@reboot (.*)", sys.argv[1])[1]
		assert not re.search(r"(?<!\\)%", command), command
		shell = re.sub(r"(\S+) start$", 'sh -c \'printf %s "$RAD_STATE"\'', command.replace(r"\%", "%"))
		said = subprocess.run(["sh", "-c", shell], stdout=subprocess.PIPE, check=True, text=True).stdout
		assert said == sys.argv[2], said
	PY
}

@test "rad start --on-boot: of the machine's radd nothing is arranged by a user" {
	need_root
	run machine '
		server
		as_alice rad start --on-boot || echo "exit $?"
		as_alice find . -name radd.service'
	[[ "${lines[0]}" == "radd runs already (pid "* ]]
	[[ "${lines[1]}" == "rad: that radd is the machine's,"* ]]
	[ "${lines[2]}" = "exit 1" ]
	[ "${#lines[@]}" -eq 3 ]
}

# ---- radds of two users, no administrator ----

# Waits until that user's task is in that state.
becomes() { wait_for 15 is_in "$@"; }
is_in() { [ "$(as "$1" rad show --json "$2" | jq -r '.tasks[0].state')" = "$3" ]; }
why() { as "$1" rad show --json "$2" | jq -r '.tasks[0].reason'; }
reads() { [ "$(why "$1" "$2")" = "$3" ]; }
shows_claim() {
	as "$1" rad gpus --json | jq -e --argjson mib "$2" '.gpus[0] | .claims == [{"uid": .claims[0].uid, "user": "nobody", "tasks": 1,
		"held_mib": $mib, "used_mib": 0}] and .mem_foreign_mib == $mib'
}
is_claimed() { as "$ALICE" rad gpus --json | jq -e '.gpus[0].claims | length == 1'; }
radd_of() { cat "$WORLD/$1/.local/state/rad/lock"; }

@test "what one user's radd holds, another's counts, until its task ends or it is killed" {
	need_root
	export RAD_SOCKET=own
	local id
	id=$(as "$ALICE" rad submit --parsable --gpu-mem 10G -- sleep 600)
	becomes "$ALICE" "$id" RUNNING
	as "$BOB" rad submit --parsable --gpu-mem 1G -- sleep 600
	wait_for 10 reads "$BOB" 1 Foreign
	wait_for 10 shows_claim "$BOB" 10240	# in the table with the next sample
	[[ "$(as "$BOB" rad why 1)" == *"another daemon of this machine has tasks there"* ]]
	[[ "$(as "$BOB" rad gpus -v)" == *"nobody"*"claimed"* ]]
	as "$ALICE" rad cancel "$id"
	becomes "$BOB" 1 RUNNING
	as "$ALICE" rad submit --parsable --gpu-mem 1G -- true
	wait_for 10 reads "$ALICE" 2 Foreign
	# Killed or stopped, and started again, what it holds for the task that runs on stays held all the while. (Real GPUs show what
	# its tasks use, and not what they will take; these are each daemon's own.)
	kill -9 "$(radd_of "$BOB")"
	RAD_SOCKET=own as "$BOB" rad start >/dev/null
	reads "$ALICE" 2 Foreign
	id=$(radd_of "$BOB")
	kill "$id"
	gone "$id"
	as "$ALICE" rad submit --parsable --gpu-mem 1G -- true
	wait_for 10 reads "$ALICE" 2 Foreign
	RAD_SOCKET=own as "$BOB" rad start >/dev/null
	as "$BOB" rad cancel 1
	becomes "$ALICE" 2 COMPLETED
	[[ "$(as "$ALICE" rad show --json 2 | jq .tasks[0].start_time)" > "$(as "$BOB" rad show --json 1 | jq .tasks[0].end_time)" ]]
	# Without a radd, what its task holds goes when that ends.
	as "$BOB" rad submit --parsable --gpu-mem 10G -- sh -c 'echo $$ >task; exec sleep 600'
	becomes "$BOB" 2 RUNNING
	as "$ALICE" rad submit --parsable --gpu-mem 1G -- true
	wait_for 10 reads "$ALICE" 4 Foreign
	kill -9 "$(radd_of "$BOB")"
	kill "$(cat "$WORLD/$BOB/task")"
	becomes "$ALICE" 4 COMPLETED
}

@test "two users' tasks that come at the same moment never meet on a GPU" {
	need_root
	export RAD_SOCKET=own
	local user i
	for user in "$ALICE" "$BOB"; do
		as "$user" rad start >/dev/null
		(for i in 1 2 3 4 5 6; do
			as "$user" rad submit --parsable --exclusive -- sh -c 'date +%s%N; sleep 0.3; date +%s%N'
		done) >/dev/null &
	done
	wait
	for user in "$ALICE" "$BOB"; do
		as "$user" timeout 200 rad wait 1 2 3 4 5 6
	done
	# Spans by start; none begins before the one before it has ended.
	cat "$WORLD/$ALICE"/rad-*.out "$WORLD/$BOB"/rad-*.out | paste -d ' ' - - | sort -n >"$WORLD/spans"
	[ "$(wc -l <"$WORLD/spans")" -eq 12 ]
	awk '$1 < last { bad = 1; print "meets:", $0 } { last = $2 } END { exit bad }' "$WORLD/spans"
}

@test "a hostile user's files neither stop nor mislead another's radd, and the server's heeds nobody's" {
	need_root
	export RAD_SOCKET=own
	as "$BOB" sh -c 'cd "$RAD_CLAIMS_DIR" && id=$(id -u) && mkfifo rad-claims-$id-a && ln -s /dev/zero rad-claims-$id-b &&
		ln -s rad-claims-$id-c rad-claims-$id-c && head -c 100000 /dev/urandom >rad-claims-$id-d && mkdir rad-claims-$id-e &&
		for i in $(seq 300); do echo "rad-claims 1 1 1 1" >rad-claims-0-$i; done'
	[ "$(as "$ALICE" rad run -- echo ran 2>/dev/null)" = ran ]
	# All of the GPU, in a file as radd would write it, by a process that lives.
	cat >"$WORLD/lie" <<-'PY'
		import fcntl, os, sys, time, zlib
		stat = open("/proc/self/stat").read().rsplit(")", 1)[1].split()
		text = "rad-claims 1 %d %s %d\n" % (os.getpid(), stat[19], os.stat("/proc/self/ns/pid").st_ino)
		text += "%s %d 99999999 0 5\n%s 0 99999999 0 5\n" % (sys.argv[1], os.getuid(), sys.argv[1])
		text += "end %08x\n" % zlib.crc32(text.encode())
		f = open("%s/rad-claims-%d-lie" % (os.environ["RAD_CLAIMS_DIR"], os.getuid()), "w")
		fcntl.flock(f, fcntl.LOCK_EX)
		f.write(text)
		f.flush()
		open("lie.pid", "w").write(str(os.getpid()))
		time.sleep(600)
	PY
	chmod 644 "$WORLD/lie"
	rm -rf "$WORLD/claims"/rad-claims-"$(id -u "$BOB")"-*
	as "$BOB" python3 "$WORLD/lie" "$(as "$ALICE" rad gpus --json | jq -r '.gpus[0].uuid')" 3>&- 4>&- &
	wait_for 10 is_claimed
	as "$ALICE" rad submit -- true
	wait_for 10 reads "$ALICE" 2 Foreign
	as "$ALICE" rad gpus --json | jq -e '.gpus[0].claims | length == 1 and .[0].user == "daemon" and .[0].tasks == 5'
	RAD_SOCKET=$WORLD/root.sock RAD_STATE=$WORLD/stateroot rad run -- true
	kill "$(cat "$WORLD/$BOB/lie.pid")"
	becomes "$ALICE" 2 COMPLETED
}
