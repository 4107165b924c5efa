#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Pilots on a queue of files whose file system is full, fails, or lacks what it needs, and on nodes whose clocks differ.

bats_require_minimum_version 1.5.0
load helpers.bash
load pilot.bash

eval "pilot_$(declare -f teardown)"
teardown()
{
	local dir
	for dir in "$RAD_QUEUE" "$WORLD/n1/state"; do
		! grep -q " $dir " /proc/mounts || umount -l "$dir"
	done
	pilot_teardown
}

# faulty COMMAND...: with calls below the queue failing as $WORLD/fail says, while that is there.
faulty()
{
	LD_PRELOAD=$RAD_BUILD_ROOT/tests/fake-files/libfake-files.so FAKE_FILES=$WORLD/fail FAKE_FILES_UNDER=${UNDER:-$RAD_QUEUE} "$@"
}

@test "a queue that is full, over its quota, broken or read-only takes nothing, says so, and keeps nothing half" {
	local fault text
	submit --hold -- true
	while IFS='|' read -r fault text; do
		echo "$fault" >"$WORLD/fail"
		faulty run rad submit -- true
		one_line_error "$text"
		[[ "$output" == *"nothing was queued"* ]]
		[ -z "$(ls "$RAD_QUEUE/tmp")" ]
		[ ! -e "$RAD_QUEUE/jobs/2" ]
		faulty run rad cancel 1
		[ "$status" = 1 ] || [ "${fault%% *}" = renameat ]
		rm "$WORLD/fail"
		[ "${fault%% *}" = renameat ] || [ "$(state 1)" = HELD ]
	done <<-X
		write 28|No space left on device
		write 122|Disk quota exceeded
		fsync 28|No space left on device
		fsync 122|Disk quota exceeded
		close 122|Disk quota exceeded
		fsync 5|Input/output error
		create 30|Read-only file system
		create 5|Input/output error
		renameat 122|Disk quota exceeded
		renameat 5|Input/output error
	X
	echo 'openat 5' >"$WORLD/fail"
	faulty run rad queue
	one_line_error "Input/output error"
	rm "$WORLD/fail"
	[ "$(submit -- true)" = 2 ]
}

@test "a file system without hard links, or that gives a name twice, is refused with the alternative; locks are not needed" {
	local fault
	for fault in 'linkat 1' 'linkat 95' 'linkat 31'; do
		echo "$fault" >"$WORLD/fail"
		faulty run rad submit -- true
		one_line_error "does not give a name to one process alone"
		[[ "$output" == *"put the queue on NFS, Lustre, GPFS or a local disk"* ]]
		faulty run rad pilot --devices sim:1xa100-40g --state "$WORLD/n1/state"
		one_line_error "does not give a name to one process alone"
		[ -z "$(ls "$RAD_QUEUE/jobs" "$RAD_QUEUE/tmp" | grep -v :)" ]
	done
	# A queue that was made elsewhere, or before: a pilot does not begin there either.
	rm "$WORLD/fail"
	submit --gpu-mem 2G -- true
	echo 'linkat 1' >"$WORLD/fail"
	faulty run rad pilot --devices sim:1xa100-40g --state "$WORLD/n1/state"
	one_line_error "does not give a name to one process alone"
	echo 'flock 37' >"$WORLD/fail"
	faulty pilot n1
	timeout 200 rad wait 1
	mkdir "$WORLD/n2"
	UNDER=$WORLD/n2 faulty run rad pilot --devices sim:1xa100-40g --state "$WORLD/n2/state"
	one_line_error "No locks available: give a folder on a local disk with --state"
}

@test "the queue fails under a pilot in every way: what runs goes on, its end is told later, and nothing is begun twice" {
	local fault n=0 a
	mkdir "$WORLD/none"
	faulty pilot n1
	wait_for 40 flying n1
	for fault in 'write 28' 'fsync 122' 'close 122' 'linkat 5' 'create 30' 'openat 116'; do
		n=$((n + 1))
		a=$(submit --gpu-mem 2G -- sh -c "$(counts a$n)")
		wait_for 40 begun a$n
		wait_for 20 sh -c "rad show --json $a | jq -e '.tasks[0].state == \"RUNNING\"'"
		echo "$fault" >"$WORLD/fail"
		: >go-a$n
		wait_for 20 test -e a$n.ended
		wait_for 40 sh -c "[ \$(grep -c 'the queue does not answer' '$WORLD/n1.log') -ge $n ]"
		[ "$(state "$a")" = RUNNING ]
		rm "$WORLD/fail"
		timeout 200 rad wait "$a"
		begun a$n
	done
	[ "$(field "$a" .claims)" = 1 ]
}

@test "a disk that is really full: nothing is lost, and it goes on when there is room" {
	local a
	need_root
	mkdir "$RAD_QUEUE"
	mount -t tmpfs -o size=256k,mode=700 tmpfs "$RAD_QUEUE" || skip "cannot mount a tmpfs here"
	a=$(submit --gpu-mem 2G -- sh -c "$(counts a)")
	pilot n1
	wait_for 40 begun a
	wait_for 20 sh -c "rad show --json $a | jq -e '.tasks[0].state == \"RUNNING\"'"
	cat /dev/zero >"$RAD_QUEUE/tmp/fill" 2>/dev/null || :
	run rad submit -- true
	one_line_error "No space left on device"
	: >go-a
	wait_for 20 test -e a.ended
	wait_for 40 grep -q 'the queue does not answer' "$WORLD/n1.log"
	rm "$RAD_QUEUE/tmp/fill"
	timeout 200 rad wait "$a"
	begun a
	mount -o remount,ro "$RAD_QUEUE"
	run rad submit -- true
	one_line_error "Read-only file system"
	run rad pilot --devices sim:1xa100-40g --state "$WORLD/n2/state"
	one_line_error "Read-only file system"
	rad show "$a"
	mount -o remount,rw "$RAD_QUEUE"
	kill "$(cat "$WORLD/n1.pid")"
	gone "$(cat "$WORLD/n1.pid")"
}

@test "a node whose own disk is full takes nothing, and says why; it goes on when there is room" {
	local a
	need_root
	mkdir -p "$WORLD/n1/state"
	mount -t tmpfs -o size=48m,mode=700 tmpfs "$WORLD/n1/state" || skip "cannot mount a tmpfs here"
	cat /dev/zero >"$WORLD/n1/state/fill" 2>/dev/null || :
	truncate -s 46m "$WORLD/n1/state/fill"
	a=$(submit --gpu-mem 2G -- true)
	pilot n1
	wait_for 40 grep -q "nothing more can be taken from the queue for now: the disk of $WORLD/n1/state/radd is full" "$WORLD/n1.log"
	[ "$(field "$a" .claims)" = 0 ]
	rm "$WORLD/n1/state/fill"
	timeout 200 rad wait "$a"
	[ "$(grep -c 'nothing more can be taken' "$WORLD/n1.log")" = 1 ]
}

@test "nodes whose clocks differ by minutes: nobody is taken for dead, and a dead one's tasks come back all the same" {
	local a b
	a=$(submit --gpu-mem 2G -- sh -c "$(counts a)")
	FAKE_CLOCK_S=420 faulty in_job n1 11 --lease 10s
	wait_for 40 begun a
	FAKE_CLOCK_S=-300 faulty in_job n2 12 --lease 10s
	wait_for 40 flying n2
	b=$(submit --gpu-mem 30G --dependency=after:$a --array=0-3%1 -- true)
	timeout 200 rad wait "$b"
	kill_node n1
	wait_for 60 grep -q 'is silent' "$WORLD/n2.log"
	! grep -q 'is silent' "$WORLD/n1.log" || false
	begun a
	echo NODE_FAIL 0 >"$FAKE_SLURM/job.11"
	wait_for 60 begun a 2
	: >go-a
	timeout 100 rad wait "$a"
	rad show --events "$a" | grep -q "returned .*n1 is gone"
}
