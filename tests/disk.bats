#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# A state disk that fails: what was not stored is told to nobody, and what people are told to do is right. The disk is
# tests/fake-disk, which fails while the file $FAKE_DISK is there.

bats_require_minimum_version 1.5.0
load helpers.bash

setup()
{
	new_world
	export FAKE_DISK=$WORLD/broken
	DISK=$RAD_BUILD_ROOT/tests/fake-disk/libfake-disk.so
	start_failing
}

teardown() { rm -f "$FAKE_DISK"; end_world; }

start_failing() { LD_PRELOAD=$DISK${LD_PRELOAD:+:$LD_PRELOAD} start_radd; }

# A task that exits with 9 as soon as the file `go` is there; `rad wait` waits for it and writes what it was told into `waited`.
begin_task()
{
	ID=$(submit bash -c "$(until_file "$PWD/go"); exit 9")
	wait_state "$ID" RUNNING
	rad wait --json "$ID" >waited 2>waited.err 3>&- &
	WAITER=$!
	wait_for 10 has_socket "$WAITER"
}

# break_disk ERRNO [all]: the task ends on a broken disk, and radd with it.
break_disk()
{
	echo "$@" >"$FAKE_DISK"
	: >go
	gone "$(cat "$WORLD/pid")"
	[ ! -s waited ]
	[ ! -s waited.err ]
}

# The disk is back: who waited all the time, and who asks now, are told the truth.
truth_comes_out()
{
	rm "$FAKE_DISK"
	start_radd
	local code=0
	wait "$WAITER" || code=$?
	[ $code -eq 9 ]
	jq -e '.tasks[0] | .state == "FAILED" and .exit_code == 9' waited
	run -9 rad wait "$ID"
}

@test "a disk that does not write: nobody is told of an end that was not stored" {
	begin_task
	break_disk 5
	grep -q 'rad.db: disk error (Input/output error): check the disk' "$WORLD/radd.log"
	! grep -E 'damaged|move' "$WORLD/radd.log" || false
	truth_comes_out
}

@test "a disk that does not even read: no list without the task, and no store called damaged" {
	begin_task
	break_disk 5 all
	run start_failing
	[ "$status" -ne 0 ]
	[[ "$output" == *"Input/output error"* ]]
	! grep -E 'damaged|move' "$WORLD/radd.log" || false
	truth_comes_out
}

@test "no room on the disk: nobody is told of an end that was not stored" {
	begin_task
	break_disk 28
	grep -q 'rad.db: no room on the disk' "$WORLD/radd.log"
	truth_comes_out
}

@test "a disk that does not take the record of a task's end, full or failing: the task is not lost" {
	local errno
	stop_radd
	cat >"$WORLD/shim" <<-SH
		#!/bin/sh
		export FAKE_DISK=$FAKE_DISK FAKE_DISK_FILE=/exit LD_PRELOAD=$DISK${LD_PRELOAD:+:$LD_PRELOAD}
		exec $RAD_BUILD_ROOT/rad-shim "\$@"
	SH
	chmod +x "$WORLD/shim"
	RAD_SHIM=$WORLD/shim start_radd
	for errno in 28 5; do
		rm -f go "$FAKE_DISK.met"
		begin_task
		echo $errno >"$FAKE_DISK"
		: >go
		wait_for 20 sh -c '[ "$(wc -c <"$FAKE_DISK.met")" -ge 5 ]'	# two may be of its progress
		[ "$(state "$ID")" = RUNNING ]
		rm "$FAKE_DISK"
		run -9 rad wait "$ID"
		[ "$(state "$ID")" = FAILED ]
		wait "$WAITER" || [ $? -eq 9 ]
	done
}

@test "a submission that could not be stored is refused, with the reason" {
	echo 5 >"$FAKE_DISK"
	run -3 --separate-stderr rad submit true
	[[ "$stderr" == "rad: "*"rad.db: disk error (Input/output error)"* ]]
	rm "$FAKE_DISK"
	gone "$(cat "$WORLD/pid")"
	start_failing
	rad queue --json | jq -e '.tasks == []'
}

@test "a disk that takes writes and does not sync them: nobody is told that it was kept, or that it was not" {
	echo "5 sync" >"$FAKE_DISK"
	run -3 --separate-stderr rad submit true
	[[ "$stderr" == "rad: "*"rad.db: disk error (Input/output error)"*"whether this was kept, 'rad queue' tells then" ]]
	rm "$FAKE_DISK"
	gone "$(cat "$WORLD/pid")"
	start_failing
	rad queue --json | jq -e '.tasks | length <= 1'
}

@test "a state folder that is mounted read-only: what to do is said, and the queue is there afterwards" {
	need_root
	local id
	id=$(submit --hold true)
	stop_radd
	cat >only-read <<-'EOF'
		mount --bind "$WORLD/state" "$WORLD/state"
		mount -o remount,ro,bind "$WORLD/state"
		radd --devices sim:4xa100-40g --state "$WORLD/state" --foreground
		export RAD_STATE=$WORLD/state RAD_NO_START=0
		rad submit true
		rad doctor | grep 'state  '
		RAD_STATE=$WORLD/state/new rad doctor | grep 'state  '
	EOF
	run unshare -m --propagation private bash only-read
	echo "$output"
	[[ "${lines[0]}" == "radd: $WORLD/state/lock: Read-only file system: have it mounted for writing"*"what was stored in $WORLD/state is safe"* ]]
	[[ "${lines[1]}" == "rad: starting radd: $WORLD/state/start.lock: Read-only file system: have it mounted for writing"*"export RAD_STATE="* ]]
	[[ "${lines[2]}" == "fail  state "*"$WORLD/state is mounted read-only"* ]]
	[[ "${lines[3]}" == "fail  state "*"$WORLD/state is mounted read-only"* ]]	# one that is to be made there
	[ "${#lines[@]}" -eq 4 ]
	start_radd
	[ "$(state "$id")" = HELD ]
}

@test "a state folder that becomes read-only while radd runs: a task waits, with the reason, and runs when it can" {
	need_root
	stop_radd
	cat >only-read <<-'EOF'
		. "$BATS_TEST_DIRNAME/helpers.bash"
		start_radd
		mount --bind "$WORLD/state" "$WORLD/state"
		mount -o remount,ro,bind "$WORLD/state"
		id=$(submit true)
		wait_for 20 sh -c "rad show --json $id | grep -q 'Read-only file system'"
		field "$id" .reason_text
		umount "$WORLD/state"
		timeout 100 rad wait "$id"
		state "$id"
		stop_radd
	EOF
	export BATS_TEST_DIRNAME
	run unshare -m --propagation private bash only-read 3>&- 4>&-
	echo "$output"
	[[ "${lines[0]}" == *"Read-only file system"* ]]
	[ "${lines[-1]}" = COMPLETED ]
}

# An ext4 that took an error stays mounted for writing by all its flags; so it is made to take one.
@test "rad doctor tells of a state folder that became read-only, or whose file system took an error, while radd runs" {
	need_root
	stop_radd
	truncate -s 64M ext4.img
	mkfs.ext4 -q ext4.img || skip "no mkfs.ext4"
	mkdir -p "$WORLD/state"
	make_users
	cat >only-read <<-'EOF'
		. "$BATS_TEST_DIRNAME/helpers.bash"
		state_line() { rad doctor | grep 'state  '; }
		mount -o loop,errors=remount-ro ext4.img "$WORLD/state" || exit 77
		chmod 755 "$WORLD/state"
		start_radd
		state_line
		mount --bind "$WORLD/state" "$WORLD/state"
		mount -o remount,ro,bind "$WORLD/state"
		state_line
		as "$BOB" rad doctor | grep 'state  '
		umount "$WORLD/state"
		state_line
		echo 1 >"/sys/fs/ext4/$(basename "$(findmnt -no SOURCE "$WORLD/state")")/trigger_fs_error" || exit 77
		state_line
		as "$BOB" rad doctor | grep 'state  '
		stop_radd
		umount "$WORLD/state"
	EOF
	export BATS_TEST_DIRNAME
	run unshare -m --propagation private bash only-read 3>&- 4>&-
	echo "$output"
	[ "$status" -ne 77 ] || skip "no loop device for an ext4, or none that can be made to fail"
	[ "$(grep -c "^warn  *state  .* of room" <<<"$output")" -eq 2 ]
	[ "$(grep -c "^fail  *state  .*/state is mounted read-only: .*mount -o remount,rw" <<<"$output")" -eq 2 ]
	[ "$(grep -c "^fail  *state  .*/state: its file system took an error and lets nobody write" <<<"$output")" -eq 2 ]
}
