#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# What radd is short of (room on its disk, inodes, descriptors, its own shim) delays starts and ends, is told, and is never
# counted against a task.

bats_require_minimum_version 1.5.0
load helpers.bash

setup() { new_world; }
teardown()
{
	end_world
	! mountpoint -q "$WORLD/small" || umount -l "$WORLD/small"
}

# All tasks of an array have ended well, at the first attempt.
all_completed()
{
	rad wait "$1" >/dev/null
	[ "$(rad show --json "$1" | jq '[.tasks[] | select(.state == "COMPLETED" and (.attempts | length) == 1)] | length')" = "$2" ]
}

# A shim of this test's own, which can be taken away.
own_shim()
{
	cp "$RAD_BUILD_ROOT/rad-shim" "$WORLD/shim"
	export RAD_SHIM=$WORLD/shim
}

@test "a shim that is missing for a while: tasks wait for it, are told so, and run" {
	own_shim
	start_radd
	mv "$WORLD/shim" "$WORLD/away"
	local id
	id=$(submit --array 0-19 true)
	wait_for 10 sh -c "rad why ${id}_0 | grep -q 'Delayed.*not started yet.*the program that starts tasks'"
	rad queue | grep -q Delayed
	rad doctor | tr -s ' \n' ' ' | grep -q 'tasks\? \(is\|are\) delayed; task .*not started yet'
	grep -q 'not started yet, and tried again' "$WORLD/radd.log"
	mv "$WORLD/away" "$WORLD/shim"
	all_completed "$id" 20
}

@test "one whose start is delayed can be cancelled, and its time limit does not run" {
	own_shim
	start_radd
	mv "$WORLD/shim" "$WORLD/away"
	local id limited
	id=$(submit true)
	limited=$(submit --time 2 sleep 0.5)
	wait_for 10 sh -c "rad why $id | grep -q Delayed"
	rad cancel "$id"
	wait_state "$id" CANCELLED
	read -r -t 3 <> <(:) || :	# the limit and more
	[ "$(state "$limited")" = RUNNING ]
	mv "$WORLD/away" "$WORLD/shim"
	all_completed "$limited" 1
}

@test "a shim that dies before it began: the attempt is begun again" {
	printf '#!/bin/sh\nexit 18\n' >"$WORLD/shim"
	chmod +x "$WORLD/shim"
	export RAD_SHIM=$WORLD/shim
	start_radd
	local id
	id=$(submit bash -c 'echo x >>runs')
	wait_for 10 sh -c "rad why $id | grep -q 'Delayed.*its shim ended before it began'"
	cp "$RAD_BUILD_ROOT/rad-shim" "$WORLD/new"
	mv "$WORLD/new" "$WORLD/shim"
	all_completed "$id" 1
	[ "$(cat runs)" = x ]
}

# small_disk OPTIONS: the state lies on a disk of its own, whose name is $WORLD/small.
small_disk()
{
	[ "$(id -u)" = 0 ] || skip "needs root: it mounts a file system"
	mkdir "$WORLD/small"
	mount -t tmpfs -o "$1" none "$WORLD/small" || skip "no file system can be mounted here"
	chmod 755 "$WORLD/small"
	mkdir "$WORLD/small/attempts" "$WORLD/state"
	ln -s "$WORLD/small/attempts" "$WORLD/state/attempts"	# the store has room: that is another test's
	chmod 700 "$WORLD/small/attempts"
}

@test "no room for attempts: starts wait until there is" {
	small_disk size=200k
	start_radd
	head -c 1M /dev/zero >"$WORLD/small/full" 2>/dev/null || :
	local id
	id=$(submit --array 0-29 true)
	wait_for 10 sh -c "rad why ${id}_0 | grep -q 'Delayed.*No space left'"
	rm "$WORLD/small/full"
	all_completed "$id" 30
}

@test "no inodes for attempts: starts wait until there are" {
	small_disk size=10m,nr_inodes=20
	start_radd
	local id i=0
	while : >"$WORLD/small/full.$i"; do i=$((i + 1)); done 2>/dev/null || :
	id=$(submit --array 0-29 true)
	wait_for 10 sh -c "rad why ${id}_0 | grep -q 'Delayed.*No space left'"
	rm "$WORLD"/small/full.*
	all_completed "$id" 30
}

@test "no inode for a task's log: its start waits, and it is the first attempt that runs" {
	small_disk size=10m,nr_inodes=20
	start_radd
	local id i=0
	mkdir "$WORLD/small/logs"
	rm "$WORLD/state/attempts"
	mkdir -m 700 "$WORLD/state/attempts"
	while : >"$WORLD/small/full.$i"; do i=$((i + 1)); done 2>/dev/null || :
	id=$(submit --output "$WORLD/small/logs/log" bash -c 'echo x >>runs')
	wait_for 10 sh -c "rad why $id | grep -q 'Delayed.*No space left'"
	[ ! -e runs ]
	rm "$WORLD"/small/full.*
	all_completed "$id" 1
	[ "$(cat runs)" = x ]
}

@test "where the disk of its log is full, a task that failed says so: its own words went there" {
	small_disk size=1m
	start_radd
	rm "$WORLD/state/attempts"
	mkdir -m 700 "$WORLD/state/attempts"
	local id
	id=$(submit --output "$WORLD/small/log" bash -c "head -c 2000000 /dev/zero >$WORLD/small/fill; echo my last words; exit 1")
	rad wait "$id" || :
	run rad why "$id"
	[[ "$output" == *"FAILED"*"The disk that its log is on is full"* ]]
	run rad logs "$id"
	one_line_error "the disk that its log is on is full"
	run rad run --output "$WORLD/small/log" false
	[ "$status" -eq 1 ]
	[[ "${lines[-1]}" == "rad: the disk that its log is on is full"* ]]
	rm "$WORLD/small/fill"
	run rad why "$id"
	[[ "$output" != *"is full"* ]]
}

@test "no room for a thread: radd has those that it needs, or does not start" {
	start_radd
	local id pid
	pid=$(cat "$WORLD/pid")
	# A thread has a stack of 8 MiB; for the rest there is enough.
	prlimit --pid "$pid" --as="$(awk '/^VmSize/ { print ($2 + 6144) * 1024 }' "/proc/$pid/status"):"
	id=$(submit --gpu-mem 100M true)
	rad queue
	prlimit --pid "$pid" --as=unlimited:
	rad wait "$id"
	[ "$(cat "$WORLD/pid")" = "$pid" ]
	kill -0 "$pid"
	stop_radd
	run bash -c 'ulimit -s 8000000; ulimit -v 4000000; radd --devices sim:1xa100-40g --state "$0/other" --socket "$0/other.s"' "$WORLD"
	[ "$status" -eq 1 ]
	[[ "$output" == *"no thread can be made"*"(ulimit -u, -v)"* ]]
}

@test "few descriptors: starts wait for one, and no end is thrown away" {
	(ulimit -n 64; start_radd)
	local id
	id=$(submit --gpu-mem 100M --array 0-99 true)
	all_completed "$id" 100
}

@test "more words and variables than a program is started with are refused at once, where radd's stack limit is less than its users', too" {
	local long
	long=$(printf '%090000d' 0)
	(ulimit -s 512; start_radd)
	ulimit -s 8192
	run -2 rad submit --gpu-mem 100M -- true "$long" "$long"
	[[ "$output" == "rad: 'argv' has 176 KiB and 'environ' "*", and a program is started with 96 KiB of both"*"(--export), or raise that limit (ulimit -s)" ]]
	ulimit -s 512
	run -2 env -i PATH="$PATH" RAD_SOCKET="$RAD_SOCKET" rad submit --gpu-mem 100M --export "A=$long,B=x" -- true "$(printf '%010000d' 0)"
	[[ "$output" == "rad: 'argv' has 10 KiB and 'environ' 8"*", and a program is started with 96 KiB of both"* ]]
	[ "$(rad queue --json | jq '.tasks | length')" = 0 ]
	all_completed "$(submit --gpu-mem 100M -- true "${long:0:80000}")" 1
}
