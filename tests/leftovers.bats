#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# What an earlier radd left in the state folder: that of its own ended attempts is swept, that of another store's is told, and
# neither adopted, nor ended, nor taken for the outcome of a task of the same id.

bats_require_minimum_version 1.5.0
load helpers.bash

setup() { new_world; start_radd; }
teardown() { touch "$WORLD/work/go"; [ -z "${STRAY:-}" ] || kill -9 -- "-$STRAY" 2>/dev/null || :; end_world; }

# A task that writes its pid and runs until `go` is there, then exits with 7.
begin_first()
{
	ID=$(submit "$@" bash -c "echo \$\$ >pid.new; mv pid.new pid; $(until_file "$PWD/go"); exit 7")
}

# After a kill -9 of radd. With the file that keeps numbers from being given out again, so that they are.
move_store_away() { mkdir "$WORLD/away"; mv "$WORLD"/state/rad.db* "$WORLD/state/next-job" "$WORLD/away"; }

begins_anew()
{
	local id
	id=$(submit bash -c "echo ran >>second; $(until_file "$PWD/second.go")")
	[ "$id" = "$ID" ]
	wait_state "$id" RUNNING
	wait_for 10 test -s second
	kill -0 "$(cat pid)"			# the other one goes on
	rad doctor | tr -s ' \n' ' ' | grep -q "processes, below pid $STRAY of uid $(id -u), still run"
	rad cancel "$id"
	wait_state "$id" CANCELLED
	kill -0 "$(cat pid)"			# and is not what is cancelled
	grep -q "attempts/$ID.1.* is no task's of this queue" "$WORLD/radd.log"
	eval "$(sed -n 's/.* when nobody needs them: //p' "$WORLD/radd.log")"	# as people are told
	gone "$(cat pid)"
	gone "$STRAY"
}

@test "a store that is begun anew: the task of the same id is not the one that runs" {
	begin_first
	wait_for 10 test -s pid
	STRAY=$(shim_of pid)
	kill_radd
	move_store_away
	start_radd
	begins_anew
}

@test "a store that is begun anew: the end of an older task is not that of the new one" {
	begin_first
	wait_for 10 test -s pid
	local shim
	shim=$(shim_of pid)
	kill_radd
	touch go
	gone "$shim"
	move_store_away
	start_radd
	[ "$(submit bash -c 'echo ran >second; exit 3')" = "$ID" ]
	wait_state "$ID" FAILED
	[ "$(cat second)" = ran ]
	[ "$(field "$ID" .exit_code)" = 3 ]
	grep -q "1 folder in .*/attempts is of another queue's tasks" "$WORLD/radd.log"
	ls "$WORLD/state/attempts" | grep -q "^$ID.1-"	# whoever puts the other store back finds it
}

@test "an older store that is put back runs its task anew, beside what runs" {
	begin_first --hold
	python3 - "$WORLD/state/rad.db" "$WORLD/copy" <<-'EOF'
		import sqlite3, sys
		sqlite3.connect(sys.argv[1]).backup(sqlite3.connect(sys.argv[2]))
	EOF
	rad release "$ID"
	wait_for 10 test -s pid
	STRAY=$(shim_of pid)
	kill_radd
	move_store_away
	cp "$WORLD/copy" "$WORLD/state/rad.db"
	start_radd
	mv pid first
	rad release "$ID"
	wait_for 10 test -s pid
	[ "$(cat pid)" != "$(cat first)" ]
	rad cancel "$ID"
	wait_state "$ID" CANCELLED
	kill -0 "$(cat first)"
	grep -q "attempts/$ID.1.* is no task's of this queue" "$WORLD/radd.log"
}

@test "memory of another store's task is foreign, whatever id it names" {
	submit --gpu-mem 2G rad simtask --mem 2G --seconds 600 >/dev/null
	wait_for 10 sh -c "rad gpus --json | jq -e '[.gpus[].processes[] | select(.task == \"1\" and .mem_mib > 1000)] | length == 1'"
	local pid i
	pid=$(rad gpus --json | jq '[.gpus[].processes[]][0].pid')
	STRAY=$(ps -o ppid= -p "$pid" | tr -d ' ')
	kill_radd
	move_store_away
	start_radd
	[ "$(submit --gpu-mem 1G sleep 600)" = 1 ]
	wait_state 1 RUNNING
	for i in $(seq 10); do			# readings of two seconds
		rad gpus --json | jq -e "[.gpus[].processes[] | select(.pid == $pid and .task != null)] | length == 0"
		read -r -t 0.2 <> <(:) || :
	done
	wait_for 10 sh -c "rad gpus --json | jq -e '[.gpus[].mem_foreign_mib] | add > 1000'"
}

our_cgroup()
{
	local i
	for i in /sys/fs/cgroup /sys/fs/cgroup/unified; do
		[ ! -e "$i/cgroup.procs" ] || echo "$i$(sed -n 's/^0:://p' /proc/self/cgroup)"
	done | head -n 1
}

@test "of an attempt that runs, the cgroup of a shim that came before and began nothing goes, and its own stays with those below it" {
	local own
	begin_first
	wait_for 10 test -s pid
	own=$(cat "$WORLD"/state/attempts/"$ID".1-*/cgroup) || skip "no cgroup can be made here"
	kill_radd
	mkdir "${own%-*-*}-999999-1" "$own/below"
	start_radd
	wait_for 10 test ! -e "${own%-*-*}-999999-1"
	[ "$(state "$ID")" = RUNNING ]
	[ -e "$own/below" ]
	touch go
	wait_state "$ID" FAILED
	wait_for 10 test ! -e "$own"
}

@test "attempts that ended while radd was being killed leave no folder and no cgroup" {
	local i id stale cgroup sleeper
	id=$(submit true)
	wait_state "$id" COMPLETED
	wait_for 10 sh -c "! ls $WORLD/state/attempts | grep ."
	# As kill -9 leaves them: the end is in the store, the folder not removed yet.
	stale=$(python3 - "$WORLD/state/rad.db" <<-'EOF'
		import json, sqlite3, sys
		db = sqlite3.connect(sys.argv[1])
		mark = db.execute("SELECT value FROM meta WHERE key = 'store'").fetchone()[0].split()[0]
		placed = db.execute("SELECT t_ms FROM events WHERE kind = 'placed'").fetchone()[0]
		print(f"1.1-{mark}-{placed:x}")
	EOF
	)
	kill_radd
	for i in "$stale" "${stale/1.1/2.4}"; do
		mkdir -m 700 "$WORLD/state/attempts/$i"
		echo "999999 1" >"$WORLD/state/attempts/$i/claim"
		: >"$WORLD/state/attempts/$i/exit"
	done
	mkdir -m 700 "$WORLD/state/attempts/9.1-0123456789abcdef-12"	# another store's
	cgroup=$(our_cgroup)
	if [ -n "$cgroup" ] && mkdir "$cgroup/rad-$stale-999999-1" 2>/dev/null; then
		mkdir "$cgroup/rad-9.1-0123456789abcdef-12-999999-1"
		sleep 1000 3>&- &		# what is in a cgroup keeps it, for as long as it is there
		sleeper=$!
		echo "$sleeper" >"$cgroup/rad-$stale-999999-1/cgroup.procs"
	else
		cgroup=
	fi
	start_radd
	wait_for 10 sh -c "! ls $WORLD/state/attempts | grep -v ^9.1-"
	[ "$(ls "$WORLD/state/attempts")" = "9.1-0123456789abcdef-12" ]
	grep -q '2 attempts that ended under an earlier radd left a folder: removed' "$WORLD/radd.log"
	if [ -n "$cgroup" ]; then
		rmdir "$cgroup/rad-9.1-0123456789abcdef-12-999999-1"
		[ -e "$cgroup/rad-$stale-999999-1" ]
		kill -9 "$sleeper"
		wait_for 10 test ! -e "$cgroup/rad-$stale-999999-1"
	fi
}
