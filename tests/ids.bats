#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Which tasks a command means: ids as `rad queue` prints them, and tasks by user, name and state.

bats_require_minimum_version 1.5.0
load helpers.bash

setup_file()
{
	new_world
	start_radd
}

teardown_file() { end_world; }

# Nothing of an earlier test is left.
setup()
{
	cd "$WORLD/work"
	rad cancel --all >/dev/null 2>&1
	for id in $(rad queue --json | jq -r '.tasks[].id'); do timeout 100 rad wait "$id" >/dev/null 2>&1 || :; done
}

# between SCRIPT ARGS...: a Python script that stands between rad and radd, in the background ($!), for five minutes at most.
between()
{
	cat >between.py <<-'PY'
		import socket, struct
		def frame(f): head = f.read(4); return head and head + f.read(struct.unpack(">I", head)[0])
		def listen(name):
		    here = socket.socket(socket.AF_UNIX); here.bind(name + ".sock"); here.listen()
		    open(name + ".ready", "w").close()
		    return here
	PY
	timeout 300 python3 "$@" 3>&- 4>&- &
}

# on_terminal ANSWER COMMAND...: with a terminal for all three, and that typed.
on_terminal()
{
	local answer=$1
	shift
	printf '%s\n' "$answer" | timeout 100 script -qec "$*" /dev/null
}

@test "what queue prints of an array is taken by hold, release, requeue, cancel, show, wait, why, logs, update" {
	id=$(submit --array=0-9 --hold true)
	run rad queue
	[[ "$output" == *"${id}_[0-9]"* ]]
	rad release "${id}_[2-3,5]"
	rad wait "${id}_[2-3,5]"
	[ "$(rad queue -t CD "$id" --json | jq -r '[.tasks[].id] | sort | join(" ")')" = "${id}_2 ${id}_3 ${id}_5" ]
	# those of the range that have ended are passed over
	[ "$(rad cancel --json "${id}_[0-5]" | jq .changed)" = 3 ]
	[ "$(rad show --json "${id}_[0-1,5]" | jq -r '[.tasks[].state] | join(" ")')" = "CANCELLED CANCELLED COMPLETED" ]
	rad update "${id}_[6-7]" priority=-3
	[ "$(rad show --json "${id}_[6-9]" | jq -c '[.tasks[].priority]')" = "[-3,-3,0,0]" ]
	run rad why "${id}_[8-9]"
	[[ "$output" == *"Task ${id}_8 is HELD"* ]]
	# of all of them, how many are in which state, and the one that says most
	run rad why "$id"
	[ "${lines[0]}" = "10 tasks:" ]
	[ "${lines[1]}" = "  ${id}_[6-9]: HELD (Held)" ]
	[ "${lines[2]}" = "  ${id}_[2-3,5]: COMPLETED" ]
	[ "${lines[3]}" = "  ${id}_[0-1,4]: CANCELLED" ]
	[[ "${lines[4]}" == "Task ${id}_6 is HELD: "* ]]
	rad why --json "$id" | jq -e --arg id "$id" '.task == $id + "_6" and (.elements | length == 3)
		and .elements[2] == {ids: ($id + "_[0-1,4]"), count: 3, state: "CANCELLED", reason: null}'
	rad why --json "${id}_6" | jq -e 'has("elements") | not'
	[ "$(rad requeue --json "${id}_[2-3]" | jq .changed)" = 2 ]
	rad wait "${id}_[2-3]"
	run rad logs "${id}_[2-3]"
	[ "$status" -eq 0 ]
	[[ "$output" == *"==> task ${id}_2 <=="*"==> task ${id}_3 <=="* ]]
	run rad logs "${id}_0" "${id}_2"
	[ "$status" -eq 1 ]
	[[ "$output" == *"task ${id}_0: never started (CANCELLED), so there is no log"*"==> task ${id}_2 <=="* ]]
	# a range of which nothing can be changed says why
	run rad release "${id}_[0-5]"
	[ "$status" -eq 1 ]
	one_line_error "task ${id}_0:"
	run rad cancel "${id}_[0-"
	[ "$status" -eq 2 ]
	one_line_error "names no tasks"
}

@test "of an array, rad show tells which elements are how, and rad why of one that failed; each is shown where it is named" {
	id=$(submit --array=0-5,7 --no-requeue -- sh -c 'case $RAD_ARRAY_TASK_ID in 3|5) exit 3 ;; 7) exec sleep 300 ;; esac')
	wait_for 30 eval '[ "$(rad queue -t CD,F --json "$id" | jq ".tasks | length")" = 6 ]'
	run -0 rad show "$id"
	[ "${lines[0]}" = "Job $id  an array of 7" ]
	[[ "${lines[1]}" == "       tasks  1 RUNNING: 7" ]]
	[[ "$output" == *" 4 COMPLETED: 0-2,4"*" 2 FAILED: 3,5"*"evidence  of ${id}_3: exit 3"*"rad-${id}_0.out, and so on"*"first start  "*"each  rad show ${id}_3; "* ]]
	[ "${#lines[@]}" -lt 20 ]
	[ "$(rad show "${id}_[0-5]" | grep -c '^Task ')" = 6 ]
	one=$(submit --array=4 -- true)		# an array of one is shown as what it is: all of it
	rad wait "$one"
	[[ "$(rad show "$one")" == "Task ${one}_4  COMPLETED"*" command  true"*"attempt 1"* ]]
	[ "$(rad show "${id}_3" | grep -c '^Task ')" = 1 ]
	rad cancel "$id"
	wait_state "${id}_7" CANCELLED
	run -0 rad why "$id"
	[ "${lines[0]}" = "7 tasks:" ]
	[[ "$output" == *"Task ${id}_3: FAILED"* ]]
	# Many: the list ends at a whole index.
	id=$(submit --hold --array=0-999:3 -- true)
	rad show "$id" | grep -qE '^       tasks  334 HELD \(Held\): (0|[0-9,]*[0-9]),\.\.\.$'
	rad cancel "$id"
}

@test "how many elements of an array run at once is changed while it runs" {
	id=$(submit --array=0-7%1 --gpu-mem 1G -- sleep 300)
	running() { rad queue -t R --json "$id" | jq '.tasks | length'; }
	wait_for 20 eval '[ "$(running)" = 1 ]'
	rad queue "$id" | grep -q "^ *${id}_\[1-7%1\] "
	[ "$(rad why "${id}_[1-7%1]" | grep -c ArrayLimit)" -ge 1 ]
	rad update "$id" --array=%3
	wait_for 20 eval '[ "$(running)" = 3 ]'
	[[ "$(rad why "${id}_7")" == *"ArrayLimit: 3 elements of its array run at once"* ]]
	rad update "$id" ArrayTaskThrottle=2
	rad cancel "${id}_0"
	wait_state "${id}_0" CANCELLED
	[ "$(running)" = 2 ]
	rad update "$id" --array=none
	wait_for 20 eval '[ "$(running)" -gt 2 ]'
	rad show --events "${id}_3" | grep -q 'updated .*array_limit 0, by '
	run -2 rad update "$id" --array=0-3%2
	one_line_error "how many run at once can be changed: %8, or none"
	run -2 rad update "${id}_3" --array=%2
	one_line_error "${id}_3 is an element: name the array, $id"
	rad cancel "$id"
	id=$(submit --hold true)
	run -2 rad update "$id" --array=%2
	one_line_error "task $id: is no array"
	rad cancel "$id"
}

@test "when a task begins is changed while it waits" {
	id=$(submit --begin tomorrow --gpu-mem 1G -- true)
	rad update "$id" --begin=now+2h
	[[ "$(rad why "$id")" == *"BeginTime: begins at "* ]]
	[ "$(( $(date -d "$(field "$id" .begin_time)" +%s) - $(date +%s) ))" -le 7200 ]
	rad update "$id" StartTime=now
	rad wait "$id"
	rad show --events "$id" | grep -q 'updated .*begin now, by '
	rad show --events "$id" | grep -Eq 'updated .*begin [-0-9]{10} [:0-9]{8}, by '
	run -2 rad update "$id" --begin=sometime
	one_line_error "begin: 'sometime': expected now+2h"
	id=$(submit --gpu-mem 1G -- sleep 300)
	wait_state "$id" RUNNING
	run -1 rad update "$id" --begin=now+1h
	one_line_error "is RUNNING, and its begin can be changed only while it waits"
	rad cancel "$id"
}

@test "a word that is no id is a wrong use of every verb that takes ids" {
	local verb
	for verb in show "show --script" "show --events" why logs queue acct cancel hold release requeue suspend resume \
		"update priority=1" "lease --give-back" "adopt --give-back" "capture true --for"; do
		# shellcheck disable=SC2086
		run env RAD_SOCKET="$WORLD/none" rad $verb 12x
		[ "$status" -eq 2 ] || { echo "rad $verb 12x: $status" >&2; return 1; }
		[ "${#lines[@]}" -eq 1 ]
		[[ "$output" == "rad: ${verb%% *}: "*"12x"*"(see rad ${verb%% *} --help)" ]]
	done
	for verb in wait "monitor --task"; do	# whose codes are a task's or a command's
		# shellcheck disable=SC2086
		run rad $verb 12x
		[ "$status" -eq 125 ]
		one_line_error "12x"
	done
	# the slip in the last word is found before anything is shown of the first
	id=$(submit --hold true)
	run rad why "$id" 12x
	[ "$status" -eq 2 ]
	one_line_error "'12x' names no tasks"
}

@test "rows and lists of ids; what is not there is passed over" {
	a=$(submit --hold true) b=$(submit --hold true) c=$(submit --hold true)
	rad release "$a,$c"
	rad wait "$a,$c"
	[ "$(state "$b")" = HELD ]
	[ "$(rad show --json "$a-$((c + 50))" | jq '.tasks | length')" = 3 ]
	[ "$(rad cancel --json "$a-$((c + 50))" | jq .changed)" = 1 ]
	[ "$(state "$b")" = CANCELLED ]
	run rad show "$((c + 10))-$((c + 20))"
	[ "$status" -eq 1 ]
	one_line_error "there is none"
	run rad cancel 1-99999
	[ "$status" -eq 2 ]
	one_line_error "more than 10000 tasks"
}

@test "a row of ids, and all that rad show and rad why ask, goes over one connection" {
	cat >count.py <<-'PY'
		import socket, sys
		from between import frame, listen
		here = listen("count")
		while True:
		    c = here.accept()[0]; f = c.makefile("rb")
		    d = socket.socket(socket.AF_UNIX); d.connect(sys.argv[1]); g = d.makefile("rb")
		    with open("count", "a") as out: out.write("one\n")
		    while asked := frame(f): d.sendall(asked); c.sendall(frame(g))
	PY
	between count.py "$RAD_SOCKET"
	local counter=$!
	wait_for 10 test -e count.ready
	a=$(submit --hold --array=0-9 true) b=$(submit --hold true)
	RAD_SOCKET=$PWD/count.sock run timeout 100 rad show --json "${a}_[0-9]" "$b" "$a-$((b + 5))"
	[ "$(jq '.tasks | length' <<<"$output")" = 22 ]
	[ "$(wc -l <count)" = 1 ]
	: >count
	RAD_SOCKET=$PWD/count.sock run timeout 100 rad why "${a}_0" "$b" "$a"
	kill "$counter"
	[ "$status" -eq 0 ]
	[ "$(grep -c ' is HELD' <<<"$output")" = 3 ]
	[ "$(wc -l <count)" = 1 ]
}

@test "radd restarts in the middle of a row of ids: each is shown once, as if it had not" {
	# Hands on two questions of rad, and hangs up at the third; from then on its path is radd's own.
	cat >cut.py <<-'PY'
		import os, socket, sys
		from between import frame, listen
		here = listen("cut")
		c = here.accept()[0]; f = c.makefile("rb")
		d = socket.socket(socket.AF_UNIX); d.connect(sys.argv[1]); g = d.makefile("rb")
		for _ in range(2): d.sendall(frame(f)); c.sendall(frame(g))
		frame(f); os.unlink("cut.sock"); here.close()
	PY
	a=$(submit --hold --array=0-9 true)
	local verb
	for verb in show why; do
		rm -f cut.ready cut.sock
		between cut.py "$RAD_SOCKET"
		local cutter=$!
		wait_for 10 test -e cut.ready
		RAD_SOCKET=$PWD/cut.sock timeout 200 rad "$verb" "${a}_1" "${a}_2" "${a}_3" >out 2>err 3>&- 4>&- &
		local asking=$!
		wait "$cutter"
		stop_radd
		start_radd
		ln -s "$RAD_SOCKET" cut.sock
		wait "$asking" || { cat err >&2; return 1; }
		[ "$(grep -oE "\b${a}_[1-3]\b" out | uniq | xargs)" = "${a}_1 ${a}_2 ${a}_3" ]
		[ "$(grep -cE "^Task ${a}_" out)" = 3 ]
	done
}

@test "radd hangs up on each question: it is asked three times, and that is said" {
	cat >shut.py <<-'PY'
		import struct
		from between import frame, listen
		here = listen("shut")
		c = here.accept()[0]; f = c.makefile("rb")
		answer = b'{"v":1,"tasks":[]}'
		frame(f); c.sendall(struct.pack(">I", len(answer)) + answer)
		while True: frame(f); c.close(); f.close(); c = here.accept()[0]; f = c.makefile("rb")
	PY
	between shut.py
	local shutter=$!
	wait_for 10 test -e shut.ready
	RAD_SOCKET=$PWD/shut.sock run timeout 100 rad show 1-5000
	kill "$shutter"
	[ "$status" -eq 3 ]
	one_line_error "radd closed the connection before it answered"
}

@test "a slip in one word leaves nothing half-done" {
	a=$(submit --hold true)
	run rad cancel "$a" 4-
	[ "$status" -eq 2 ]
	[ "$(state "$a")" = HELD ]
}

@test "requeue of an array whose elements have ended" {
	id=$(submit --array=0-3 -- bash -c 'exit $((RAD_ARRAY_TASK_ID % 2))')
	rad wait "$id" || :
	[ "$(rad requeue --json "$id" | jq .changed)" = 4 ]
	rad wait "$id" || :
	[ "$(rad show --json "$id" | jq -c '[.tasks[].attempts | length]')" = "[2,2,2,2]" ]
	# and those that failed alone
	[ "$(rad requeue --state=F "$id")" = "Requeued 2 tasks" ]
	rad wait "$id" || :
	[ "$(rad show --json "$id" | jq -c '[.tasks[] | [.id, (.attempts | length)]] | sort | map(.[1])')" = "[2,3,2,3]" ]
}

@test "a task that is said twice is changed once: by its id again, in a list, or as an element of its array" {
	a=$(submit --hold true) b=$(submit --hold --array=0-2 true)
	[ "$(rad cancel --json "$a" "$a" "$a,$a" "${b}_1" "$b" "${b}_[0-2]" "${b}_2" | jq .changed)" = 4 ]
	rad requeue "$a" "$a"		# the second would have been told that it runs, or have ended it
	rad wait "$a"
	[ "$(rad show --json "$a" | jq '.tasks[0].attempts | length')" = 1 ]
}

@test "tasks by name and state; a script is not asked, the count is told" {
	a=$(submit --name sweep-1 --hold true) b=$(submit --name sweep-2 --hold true) c=$(submit --name other --hold true)
	[ "$(rad release --name 'sweep-*')" = "Released 2 tasks" ]
	rad wait "$a" "$b"
	[ "$(state "$c")" = HELD ]
	[ "$(rad cancel --state=PD)" = "Cancelled 0 tasks" ]
	[ "$(rad cancel --state=H --name=other)" = "Cancelled 1 task" ]
	[ "$(state "$c")" = CANCELLED ]
	run rad cancel --state=nonsense
	[ "$status" -eq 2 ]
	run rad cancel --all --state=R
	[ "$status" -eq 2 ]
	run rad cancel --user=nobody-of-that-name
	[ "$status" -eq 2 ]
}

@test "on a terminal the count is asked about; anything but yes is no" {
	command -v script >/dev/null || skip "no script(1)"
	a=$(submit --hold true) b=$(submit --hold true)
	run on_terminal n rad cancel --all
	[[ "$output" == *"Cancel 2 tasks of $(id -un)? [y/N]"* ]]
	[[ "$output" == *"nothing was done"* ]]
	[ "$(state "$a")" = HELD ]
	run on_terminal y rad cancel --all
	[[ "$output" == *"Cancelled 2 tasks"* ]]
	[ "$(state "$b")" = CANCELLED ]
	c=$(submit --hold true)
	run on_terminal n rad cancel --all --yes
	[[ "$output" != *"[y/N]"* ]]
	[ "$(state "$c")" = CANCELLED ]
}

@test "root's --all is root's own; others' with --user, and no user's is another's to change" {
	[ "$(id -u)" = 0 ] || skip "needs root"
	chmod 755 "$WORLD" "$WORLD/work"
	chmod 666 "$RAD_SOCKET" 2>/dev/null || :
	nobody() { setpriv --reuid=65534 --regid=65534 --clear-groups "$@"; }
	b=$(cd /tmp && nobody env HOME=/tmp rad submit --parsable --hold -o /dev/null true) || skip "no user nobody here"
	a=$(submit --hold true)
	run rad cancel --all
	[[ "$output" == *"Cancelled 1 task"* ]]
	[ "$(state "$b")" = HELD ]
	run rad cancel --all
	[[ "$output" == *"those of others are meant with --user=NAME"* ]]
	a=$(submit --hold true)
	# one's own of a list that names both, and who owns the other
	run nobody rad cancel "$a,$b"
	[ "$status" -eq 1 ]
	one_line_error "task $a: belongs to"
	[ "$(state "$a") $(state "$b")" = "HELD CANCELLED" ]
	b=$(cd /tmp && nobody env HOME=/tmp rad submit --parsable --hold -o /dev/null true)
	[ "$(nobody rad cancel --user=all)" = "Cancelled 1 task" ] || [ "$(state "$a")" = HELD ]
	b=$(cd /tmp && nobody env HOME=/tmp rad submit --parsable --hold -o /dev/null true)
	[ "$(rad cancel --user=all)" = "Cancelled 2 tasks" ]
}
