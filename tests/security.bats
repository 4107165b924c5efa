#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Several users on one radd of root's (doc/security.md): what tasks run with, what one user can do to another and to the daemon.
# Accounts that every system has stand for the users. Without root most of this cannot be tried, and is skipped.

bats_require_minimum_version 1.5.0
load helpers.bash

setup_file()
{
	new_world
	echo 'user_tasks: 20' >>"$RAD_CONFIG"
	make_users
	start_radd
}

teardown_file() { end_world; }

setup() { cd "$WORLD/work"; }

teardown()
{
	: >go
	rad cancel --all >/dev/null 2>&1 || :
	[ "$(id -u)" != 0 ] || { as "$ALICE" rad cancel --all; as "$BOB" rad cancel --all; } >/dev/null 2>&1 || :
	timeout 100 rad wait $(rad queue --json | jq -r '.tasks[].id') >/dev/null 2>&1 || :
	rm -f go
}

# out USER ID: the output of that task once it has ended.
out() { rad wait "$2" >/dev/null || :; cat "$WORLD/$1/rad-$2.out"; }

# ---- what tasks run with ----

@test "a task has its user's ids and groups, no capability, and no descriptor of the daemon" {
	need_root
	local id
	id=$(as "$ALICE" rad submit --parsable -- sh -c 'id -u; id -G; grep Cap /proc/self/status; ls /proc/self/fd; umask')
	run out "$ALICE" "$id"
	[ "${lines[0]}" = "$(id -u "$ALICE")" ]
	[ "${lines[1]}" = "$(id -G "$ALICE")" ]
	[ "$(grep -c -E '^Cap(Inh|Prm|Eff|Amb):.0+$' <<<"$output")" -eq 4 ]
	# 3 is the folder that ls reads.
	[ "$(grep -E '^[0-9]$' <<<"$output" | tr '\n' ' ')" = "0 1 2 3 " ]
}

@test "capabilities that radd could hand on are not handed on" {
	need_root
	stop_radd
	mkfifo "$WORLD/ready2"
	setpriv --inh-caps +net_raw,+sys_ptrace radd --devices sim:4xa100-40g --state "$WORLD/state" --ready-fd 7 7>"$WORLD/ready2" \
		3>&- 4>&- >>"$WORLD/radd.log" 2>&1 </dev/null &
	echo $! >"$WORLD/pid"
	head -n 1 "$WORLD/ready2" | grep -q ok
	run out "$ALICE" "$(as "$ALICE" rad submit --parsable -- grep CapInh /proc/self/status)"
	[[ "$output" =~ CapInh:[[:space:]]0+$ ]]
	stop_radd
	start_radd
}

@test "a program that is told of a task has nothing of radd's either" {
	need_root
	stop_radd
	rm -f "$WORLD/ready2"
	mkfifo "$WORLD/ready2"
	sh -c 'echo -500 >/proc/self/oom_score_adj; exec "$@"' - setpriv --inh-caps +net_raw,+sys_ptrace radd --devices sim:4xa100-40g \
		--state "$WORLD/state" --ready-fd 7 7>"$WORLD/ready2" 3>&- 4>&- >>"$WORLD/radd.log" 2>&1 </dev/null &
	echo $! >"$WORLD/pid"
	head -n 1 "$WORLD/ready2" | grep -q ok
	printf '#!/bin/sh\ncat /proc/self/status /proc/self/oom_score_adj >%s/got.new; mv %s/got.new %s/got\n' \
		"$WORLD/$ALICE" "$WORLD/$ALICE" "$WORLD/$ALICE" >"$WORLD/$ALICE/told"
	chmod 755 "$WORLD/$ALICE/told"
	as "$ALICE" rad run --notify=end --notify-to="exec:$WORLD/$ALICE/told" -- true
	wait_for 10 test -s "$WORLD/$ALICE/got"
	grep -qE 'CapInh:[[:space:]]0+$' "$WORLD/$ALICE/got"
	[ "$(tail -n 1 "$WORLD/$ALICE/got")" = 0 ]
	stop_radd
	start_radd
}

@test "a task cannot look into its shim, or into the state folder" {
	need_root
	local id
	id=$(as "$ALICE" rad submit --parsable -- sh -c "
		for f in fd cwd; do ls -l /proc/\$PPID/\$f/ && echo LEAK \$f; done
		for f in environ maps mem; do head -c 1 /proc/\$PPID/\$f && echo LEAK \$f; done
		ls $WORLD/state && echo LEAK state; ls $WORLD/state/attempts && echo LEAK attempts
		cat $WORLD/state/rad.db && echo LEAK db; echo done")
	run out "$ALICE" "$id"
	[[ "$output" != *LEAK* ]]
	[[ "$output" == *"Permission denied"* ]]
	[ "${lines[-1]}" = done ]
}

@test "who may not reach radd's socket is told whom to ask" {
	need_root
	mkdir -m 700 "$WORLD/closed"
	run as "$ALICE" env RAD_SOCKET="$WORLD/closed/radd.sock" rad queue
	one_line_error "you may not speak to that radd: ask its administrator"
}

@test "what waited while its user's account was deleted does not run as the account that has the uid now, nor does its notice" {
	need_root
	local id gone
	stop_radd
	cp /etc/passwd "$WORLD/passwd"
	radd() { exec unshare -m --propagation private sh -c 'mount --bind "$WORLD/passwd" /etc/passwd && exec radd "$@"' radd "$@"; }
	start_radd
	unset -f radd
	printf '#!/bin/sh\necho "$1" >>%s/told\n' "$WORLD/$BOB" >"$WORLD/$BOB/hook"
	chmod 755 "$WORLD/$BOB/hook"
	as "$BOB" rad run --notify=end --notify-to="exec:$WORLD/$BOB/hook" -- true
	wait_for 10 test -s "$WORLD/$BOB/told"
	rm "$WORLD/$BOB/told"
	id=$(as "$BOB" rad submit --parsable --hold --notify=end --notify-to="exec:$WORLD/$BOB/hook" -- touch ran)
	# What waits while the user database does not answer, or was deleted with its account, is tried again; then the account is back.
	gone=$(as "$BOB" rad submit --parsable --hold -- touch back)
	sed "/^$BOB:/d" /etc/passwd >"$WORLD/passwd"
	rad release "$gone"
	wait_for 10 sh -c "rad why $gone | grep -q \"was $BOB's, who submitted this, and has no account\""
	[ ! -e "$WORLD/$BOB/back" ]
	cat /etc/passwd >"$WORLD/passwd"
	rad wait "$gone"
	[ -e "$WORLD/$BOB/back" ]
	# Not nobody, whom systemd knows in any case.
	sed "s/^$BOB:/heir:/" /etc/passwd >"$WORLD/passwd"
	as "$BOB" rad release "$id"
	rad wait "$id" || :
	[ "$(state "$id")" = FAILED ]
	[[ "$(field "$id" '.attempts[0].evidence')" == *"was $BOB's, who submitted this, and is heir's now"* ]]
	wait_for 10 grep -q "a notice of $BOB's (task $id) was not sent: .* is heir's now" "$WORLD/radd.log"
	[ ! -e "$WORLD/$BOB/ran" ]
	[ ! -e "$WORLD/$BOB/told" ]
	stop_radd
	start_radd
}

@test "output goes where its user may write, also through a link" {
	need_root
	local id
	install -m 600 -o "$BOB" /dev/null "$WORLD/$BOB/secret"
	id=$(as "$ALICE" rad submit --parsable --hold --output "$WORLD/$ALICE/link" -- echo written)
	as "$ALICE" ln -sf "$WORLD/$BOB/secret" "$WORLD/$ALICE/link"
	as "$ALICE" rad release "$id"
	run rad wait "$id"
	rad show "$id"; [ "$(state "$id")" = FAILED ]
	[ ! -s "$WORLD/$BOB/secret" ]
	[[ "$(field "$id" '.attempts[0].evidence')" == *"another user's file (of uid $(id -u "$BOB"))"* ]]
}

@test "a log that leads elsewhere is shown to nobody who looks at another's task, and opened by nobody" {
	need_root
	local id
	echo 'root only' >"$WORLD/secret"
	chmod 600 "$WORLD/secret"
	id=$(as "$ALICE" rad submit --parsable -- sh -c 'echo said; exit 3')
	rad wait "$id" || :
	[ "$(rad logs "$id")" = said ]
	[[ "$(rad why "$id")" == *said* ]]
	as "$ALICE" ln -sf "$WORLD/secret" "$WORLD/$ALICE/rad-$id.out"
	run rad logs "$id"
	[ "$status" -ne 0 ]
	one_line_error "is a file of root's, and the task is $ALICE's"
	run rad why "$id"
	[[ "$output" != *"root only"* ]]
	as "$ALICE" ln -sf /dev/full "$WORLD/$ALICE/rad-$id.out"
	run rad logs "$id"
	one_line_error "is not a regular file"
	# What is one's own may lie anywhere.
	id=$(rad submit --parsable --output "$WORLD/secret" -- echo mine)
	rad wait "$id"
	[ "$(rad logs "$id" | tail -n 1)" = mine ]
}

@test "what another user's task is called and prints gives the administrator's terminal no orders" {
	need_root
	local id high order=$'\x1b]0;title\x07'
	high=$(printf '\302\233')		# U+009B, which is as good as ESC [
	id=$(as "$ALICE" rad submit --parsable -- printf '\033]0;title\007red \033[31m\302\2332J\n' "$high")
	rad wait "$id" || :
	at_terminal() { script -qec "$*" /dev/null </dev/null; }
	run at_terminal rad logs "$id"
	[[ "$output" == *"red "* && "$output" != *$'\x1b'* && "$output" != *"$high"* ]]
	run at_terminal rad logs --raw "$id"
	[[ "$output" == *"$order"* ]]
	[[ "$(rad logs "$id")" == *"$order"* ]]		# a file gets every byte
	run at_terminal rad show --script "$id"
	[[ "$output" == *printf* && "$output" != *"$high"* ]]
	run at_terminal rad show --json "$id"
	[[ "$output" == *'\u009B'* && "$output" != *"$high"* ]]
	[ "$(rad show --json "$id" | jq -r '.tasks[0].command | contains("'"$high"'")')" = true ]
	# One's own may have colours.
	run as "$ALICE" script -qec "rad logs $id" /dev/null </dev/null
	[[ "$output" == *"$order"* ]]
	run as "$ALICE" rad submit --name "a$high" -- true
	one_line_error "control character"
}

# ---- other people's tasks ----

@test "nobody changes another user's task, or sees its environment" {
	need_root
	local id
	id=$(SECRET=hidden as "$ALICE" rad submit --parsable --hold -- sleep 600)
	for verb in cancel hold release requeue "update --name x"; do
		run as "$BOB" rad $verb "$id"
		[ "$status" -ne 0 ]
		one_line_error "belongs to $ALICE"
	done
	run as "$BOB" rad show --events --json "$id"
	[ "$status" -eq 0 ]
	[[ "$output" != *hidden* ]]
	[ "$(state "$id")" = HELD ]
}

@test "only the administrator gives a priority above 0, drains, or goes beyond user_tasks" {
	need_root
	run as "$BOB" rad submit --priority 1 -- true
	one_line_error "priority"
	run as "$BOB" rad drain 0
	one_line_error "administrator"
	as "$BOB" rad submit --hold --array=0-18 -- true
	run as "$BOB" rad submit --hold --array=0-1 -- true
	one_line_error "2 more tasks: you have 19 unfinished ones"
	as "$BOB" rad submit --hold -- true
	as "$ALICE" rad submit --hold -- true
	rad submit --hold --priority 1 --array=0-30 -- true
}

@test "a finished task cannot be requeued beyond user_tasks" {
	need_root
	local id
	id=$(as "$BOB" rad submit --parsable -- true)
	rad wait "$id"
	as "$BOB" rad submit --hold --array=0-19 -- true
	run as "$BOB" rad requeue "$id"
	one_line_error "1 more tasks"
	[ "$(state "$id")" = COMPLETED ]
}

@test "a uid without an account submits nothing, and has no limits to be remembered" {
	need_root
	chmod 777 "$WORLD/work"
	run setpriv --reuid 123456 --regid 123456 --clear-groups rad submit -- true
	one_line_error "no account"
	run setpriv --reuid 123456 --regid 123456 --clear-groups rad limit max_gpus=1
	one_line_error "no account"
	setpriv --reuid 123456 --regid 123456 --clear-groups rad limit >/dev/null
}

@test "naming another user's task in the environment does not make a process part of it" {
	need_root
	local id
	id=$(as "$ALICE" rad submit --parsable --gpu-mem 4G -- sh -c "$(until_file "$WORLD/work/go")")
	wait_state "$id" RUNNING
	uuid=$(field "$id" '.attempts[0].gpus[0]')
	as "$BOB" env RAD_TASK_ID="$id" RAD_SIM_DEVICES="$WORLD/state/sim-devices" CUDA_VISIBLE_DEVICES="$uuid" RAD_GPU_UUIDS="$uuid" \
		rad simtask --mem 3G --seconds 600 --ramp 0.1 >/dev/null 3>&- 4>&- &
	local pid=$!
	wait_for 10 sh -c "rad gpus --json | jq -e 'any(.gpus[].processes[]; .user == \"$BOB\" and .task == null)'"
	kill "$pid"
	[ "$(field "$id" '.attempts[0].peak_mib')" = null ]
}

# ---- a shim that its user stops ----

@test "a stopped shim does not keep the GPU beyond the time limit" {
	need_root
	local id
	id=$(as "$ALICE" rad submit --parsable --time 1h -- sh -c 'echo $$ >pid; exec sleep 600')
	wait_for 10 test -s "$WORLD/$ALICE/pid"
	as "$ALICE" kill -STOP "$(shim_of "$WORLD/$ALICE/pid")"
	rad update "$id" --time=1s
	wait_state "$id" TIMEOUT 25
}

@test "a shim that is gone after a restart of the machine: lost, and nobody else's process is signalled" {
	local id pid
	id=$(submit -- sh -c 'echo $$ >pid; exec sleep 600')
	wait_for 10 test -s pid
	pid=$(cat pid)
	kill_radd
	kill -9 "$(shim_of pid)"
	python3 - "$WORLD/state/rad.db" <<-'EOF'
		import sqlite3, sys
		db = sqlite3.connect(sys.argv[1])
		db.execute("UPDATE meta SET value = 'an earlier boot' WHERE key = 'boot'")
		db.commit()
	EOF
	start_radd
	wait_state "$id" LOST
	[ "$(rad acct -nP -o state,exitcode "$id")" = "LOST|" ]		# 0:0 would be success
	[ "$(field "$id" .exit_code)" = null ]
	run rad wait "$id"
	[ "$status" -eq 125 ]
	kill -0 "$pid"
	kill -9 "$pid"
}

@test "where one's own radd would listen, another user's gets nothing" {
	need_root
	local run=$WORLD/$ALICE/run pid
	install -d -m 755 -o "$ALICE" "$run"
	install -d -m 755 -o "$BOB" "$run/rad"
	as "$BOB" python3 - "$run/rad/radd.sock" "$WORLD/$BOB/heard" 3>&- 4>&- <<-'PY' &
		import os, socket, sys
		listener = socket.socket(socket.AF_UNIX)
		listener.bind(sys.argv[1])
		os.chmod(sys.argv[1], 0o777)
		listener.listen()
		listener.settimeout(100)
		with listener.accept()[0] as s, open(sys.argv[2], "wb") as f:
		    s.settimeout(100)
		    f.write(s.recv(65536))
	PY
	pid=$!
	wait_for 10 test -S "$run/rad/radd.sock"
	run as "$ALICE" env SECRET=x RAD_SOCKET=own XDG_RUNTIME_DIR="$run" rad submit -- true
	wait "$pid"
	[ "$status" -eq 1 ]
	one_line_error "is served by uid $(id -u "$BOB"), neither you nor root"
	[ ! -s "$WORLD/$BOB/heard" ]
}

# ---- the daemon under load ----

@test "subordinate uids are their owner's: they are not so many users more" {
	need_root
	stop_radd
	printf '%s:700000:65536\n' "$ALICE" >"$WORLD/subuid"
	RAD_SUBUID_FILE=$WORLD/subuid start_radd
	cat >"$WORLD/many.py" <<-'EOF'
		import os, select, socket, sys, time
		held = []
		for i in range(200):
		    if os.fork() == 0:
		        os.setresgid(700000, 700000, 700000)
		        os.setresuid(700000 + i, 700000 + i, 700000 + i)
		        s = socket.socket(socket.AF_UNIX)
		        s.connect(sys.argv[1])
		        s.settimeout(400)
		        try: s.recv(1)
		        except Exception: pass
		        os._exit(0)
		time.sleep(600)
	EOF
	python3 "$WORLD/many.py" "$RAD_SOCKET" 3>&- 4>&- &
	local many=$! children
	wait_for 15 grep -q "too many connections" "$WORLD/radd.log"
	as "$BOB" rad queue >/dev/null
	wait_for 15 sh -c "! (cd / && timeout 5 setpriv --reuid $ALICE --regid $(id -g "$ALICE") --init-groups rad queue)"
	as "$BOB" rad queue >/dev/null
	children=$(pgrep -P "$many")
	kill $children "$many"
	wait_for 15 as "$ALICE" rad queue
	stop_radd
	start_radd
}

@test "few descriptors: one user's connections leave enough for others and for tasks" {
	need_root
	local id held i
	stop_radd
	(ulimit -n 96; start_radd)
	held=$(submit --hold -- true)
	for i in $(seq 30); do
		as "$BOB" rad wait "$held" >/dev/null 2>&1 3>&- 4>&- &
	done
	wait_for 10 grep -q "too many connections" "$WORLD/radd.log"
	id=$(as "$ALICE" rad submit --parsable -- true)
	wait_for 10 state_is "$id" COMPLETED
	rad cancel "$held"
	wait_for 10 sh -c "! pgrep -x -f 'rad wait $held'"
	stop_radd
	start_radd
}

@test "lists that are still being made count to what radd keeps for a user" {
	need_root
	stop_radd
	sed -i 's/^user_tasks: .*/user_tasks: 10000/' "$RAD_CONFIG"
	start_radd
	cat >"$WORLD/lists.py" <<-'EOF'
		import json, os, select, socket, struct, sys
		def sent(size, data):
		    s = socket.socket(socket.AF_UNIX)
		    s.connect(sys.argv[1])
		    s.sendall(struct.pack(">I", size) + data)
		    return s
		def asked(message):
		    data = json.dumps(dict(message, v=1)).encode()
		    return sent(len(data), data)
		spec = {"name": "n" * 900, "cwd": "/" + "c/" * 2000, "output": "/" + "o/" * 1900 + "%a", "argv": ["x" * 1000],
		        "share": "auto", "umask": 18, "hold": True, "array": list(range(5000))}
		assert b'"tasks":5000' in asked({"op": "submit", "spec": spec, "environ": []}).recv(65536)
		# Most of what one may have kept: 16 MiB for each message that is not whole. The rest is that of the lists, which come slowly.
		halves = [sent(20 << 20, bytes(9 << 20)) for _ in range(15)]
		lists, dropped = [asked({"op": "list"}) for _ in range(100)], select.poll()
		for s in lists: dropped.register(s, select.POLLRDHUP)
		dropped.poll()		# until then nobody goes or reads: radd has to keep what it made
	EOF
	as "$ALICE" timeout 300 python3 "$WORLD/lists.py" "$RAD_SOCKET" 3>&- 4>&- &
	wait_for 60 grep -q "asks for more than one user may have kept here" "$WORLD/radd.log"
	[ "$(awk '/VmHWM/ { print $2 }' "/proc/$(cat "$WORLD/pid")/status")" -lt 600000 ]
	kill $! 2>/dev/null || :
	stop_radd
	sed -i 's/^user_tasks: .*/user_tasks: 20/' "$RAD_CONFIG"
	rm -rf "$WORLD/state"
	start_radd
}

@test "arguments that are not UTF-8, or very long, are shown shortened and spoil no list" {
	local id long
	id=$(submit --hold -- echo $'\xff\xfe')
	[ "$(field "$id" .command)" = 'echo ????' ] || [ "$(field "$id" .command)" = 'echo ??' ]
	printf -v long '%0100000d' 0
	for i in 1 2 3 4 5 6 7 8; do
		submit --hold -- echo $long $long $long $long $long $long $long $long >/dev/null
	done
	rad queue --json | jq -e '[.tasks[].command | length] | max == 1000'
}

@test "waiting for the same task many times over is one wait" {
	local id
	id=$(submit --array=0-9 -- true)
	timeout 100 rad wait --json $(yes "$id" | head -n 500) | jq -e '.tasks | length == 10'
}

@test "where /proc hides others' processes, doctor says nothing of radd's cgroup that it cannot see" {
	need_root
	unshare --pid --fork true 2>/dev/null || skip "pid namespaces cannot be made here"
	local dir=$WORLD/hidden
	mkdir "$dir"
	cat >"$dir/in" <<-SH
		mount -t proc -o hidepid=2 proc /proc
		radd --devices sim:a100-40g --state "$dir/state" --socket "$dir/s" >"$dir/log" 2>&1 &
		export RAD_SOCKET="$dir/s"
		until rad queue >"$dir/queue" 2>&1; do sleep 0.1; done
		rad doctor | grep cgroup >"$dir/root"
		setpriv --reuid $(id -u "$ALICE") --regid $(id -g "$ALICE") --clear-groups rad doctor >"$dir/alice"
		kill %1
		wait
	SH
	timeout 100 unshare --pid --fork --kill-child --mount --propagation private bash "$dir/in" 3>&- 4>&-
	grep -q cgroup "$dir/root"
	grep -q "^ok  *state" "$dir/alice"
	! grep cgroup "$dir/alice" || false
}

@test "as process 1 radd leaves no zombies, and passes signals on" {
	need_root
	unshare --pid --fork true 2>/dev/null || skip "pid namespaces cannot be made here"
	local dir=$WORLD/one pid inner
	mkdir "$dir"
	unshare --pid --fork --kill-child --mount-proc radd --devices sim:a100-40g --state "$dir/state" --socket "$dir/s" \
		>"$dir/log" 2>&1 3>&- 4>&- &
	pid=$!
	wait_for 10 env RAD_SOCKET="$dir/s" rad queue
	inner=$(ps -o pid= --ppid "$pid" | tr -d ' ')
	for i in 1 2 3; do
		RAD_SOCKET="$dir/s" rad run -- true
	done
	wait_for 10 sh -c "! ps -o stat= --ppid $inner | grep -q Z"
	kill -TERM "$inner"
	gone "$inner"
	grep -q "stopping" "$dir/log"
	[ ! -e "$dir/s" ]
}
