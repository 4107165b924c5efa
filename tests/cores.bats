#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Cores of the machine: what tasks take of them and wait for is seen, told, and placed by. The tasks are real; so is the one core that
# they get.

bats_require_minimum_version 1.5.0
load helpers.bash

setup()
{
	new_world
	[ "$(cut -d ' ' -f 3 /proc/self/schedstat 2>/dev/null || echo 0)" -gt 0 ] || skip "the kernel does not tell how long threads wait"
	cd "$WORLD/work"
}

teardown()
{
	: >go
	rad cancel --all >/dev/null 2>&1 || :
	end_world
}

# one_core LINE...: a radd that has one core, with these settings.
one_core()
{
	local mask
	printf '%s\n' 'placement: magm' 'order: backfill' 'max_smact: off' 'max_gract: off' 'max_tasks: off' "$@" >>"$RAD_CONFIG"
	mask=$(taskset -p $$ | sed 's/.*: //')
	taskset -p "$(printf %x $((0x$mask & -0x$mask)))" $$ >/dev/null
	DEVICES=sim:1xa100-40g start_radd
	taskset -p "$mask" $$ >/dev/null
}

sleeps() { submit --gpu-mem 1G "$@" -- sh -c 'while [ ! -e go ]; do sleep 0.5; done'; }
spins() { submit --gpu-mem 1G "$@" -- sh -c 'while [ ! -e go ]; do i=0; while [ $i -lt 9999 ]; do i=$((i + 1)); done; done'; }
told() { field "$1" ".attempts[0] | $2"; }

@test "one that was not seen counts as a core, and joins nobody; once it is seen to take none, others do" {
	local a b
	one_core 'host_cpus: 1' 'max_cpu: 1'
	a=$(sleeps)
	wait_state "$a" RUNNING
	b=$(sleeps)
	[ "$(field "$b" .reason)" = Cores ]
	rad why "$b" >why
	grep -q 'running tasks need 0.7 of 1 cores and this one about 0.7: it would gain 0.50 of a task' why
	grep -q "task $a needs 0.7: as is expected, it was not seen yet" why
	wait_state "$b" RUNNING 30
	[ "$(told "$a" '.cores < 0.3')" = true ]
	rad show "$a" | grep -q "took 0\.[0-2][0-9] of the machine's cores"
}

@test "those that starve each other are seen; nobody joins them while they do" {
	local a b c
	one_core 'host_cpus: 1' 'max_cpu: 2'
	a=$(spins)
	b=$(spins)
	wait_state "$b" RUNNING
	# Half a core each, less where others use the machine; both want all of it.
	wait_for 40 eval '[ "$(told $a ".cores > 0.1 and .cores < 0.8 and .cores_waited > 0.2")" = true ]'
	wait_for 40 eval '[ "$(told $b ".cores > 0.1 and .cores < 0.8 and .cores_waited > 0.2")" = true ]'
	rad show --json "$a" "$b" | jq -e '[.tasks[].attempts[0].cores] | add < 1.1'
	sed -i 's/max_cpu: 2/max_cpu: 1/' "$RAD_CONFIG"
	kill -HUP "$(cat "$WORLD/pid")"
	c=$(sleeps)
	wait_for 10 eval '[ "$(field $c .reason)" = Cores ]'
	rad why --json "$c" | jq -e '.cores | .have == 1 and .used_up and ([.tasks[] | select(.cores_waited > 0.1)] | length) == 2'
	rad why "$c" | grep -q "task $a needs 0.[1-7]: it takes 0.[0-9] and waits for 0.[1-9] more"
	: >go
	wait_state "$a" COMPLETED 20
	wait_state "$c" COMPLETED 20
	[ "$(told "$a" '.cores_waited > 0.1')" = true ]
	[[ "$(rad acct -nP -o Cores "$a")" =~ ^0\.[0-9]{2}$ ]]
}

@test "processes that are pinned to one of several cores want that one, however many they are" {
	local a mask
	mask=$(taskset -p $$ | sed 's/.*: //')
	(( 0x$mask & (0x$mask - 1) )) || skip "there is one core"
	echo 'host_cpus: 4' >>"$RAD_CONFIG"
	DEVICES=sim:1xa100-40g start_radd
	a=$(submit --gpu-mem 1G -- taskset "$(printf %x $((0x$mask & -0x$mask)))" \
		sh -c 'for i in 1 2 3 4; do while [ ! -e go ]; do :; done & done; wait')
	wait_for 40 eval '[ "$(told $a ".cores > 0.1")" = true ]'
	[ "$(told "$a" '.cores + .cores_waited < 1.2')" = true ]
}

@test "that the shell which pinned them is not pinned changes nothing" {
	local a mask
	mask=$(taskset -p $$ | sed 's/.*: //')
	(( 0x$mask & (0x$mask - 1) )) || skip "there is one core"
	echo 'host_cpus: 4' >>"$RAD_CONFIG"
	DEVICES=sim:1xa100-40g start_radd
	a=$(submit --gpu-mem 1G -- sh -c "taskset $(printf %x $((0x$mask & -0x$mask))) \
		sh -c 'for i in 1 2 3 4; do while [ ! -e go ]; do :; done & done; wait'; true")
	wait_for 40 eval '[ "$(told $a ".cores > 0.1")" = true ]'
	[ "$(told "$a" '.cores + .cores_waited < 1.2')" = true ]
}

@test "off: nobody is placed by cores; on simulated GPUs, unless host_cpus is set, neither" {
	local a b
	one_core 'host_cpus: 1' 'max_cpu: off'
	a=$(sleeps)
	b=$(sleeps)
	wait_state "$b" RUNNING
	rad gpus --json | jq -e '.host | .cpus == 1 and .cores == null and .cores_needed == null'
	stop_radd
	sed -i '/host_cpus/d; /max_cpu/d' "$RAD_CONFIG"
	DEVICES=sim:1xa100-40g start_radd
	rad gpus --json | jq -e '.host | .cpus >= 1 and .cores == null'
	[ "$(field "$a" .state)" = RUNNING ]
}

@test "of which nobody ran before, the third waits for the cores that its capture says its loaders will keep busy" {
	local capture=$BATS_TEST_DIRNAME/fuzz/corpus-capture/loaders a b c
	one_core 'host_cpus: 8' 'max_cpu: 1'
	a=$(sleeps --capture "$capture")
	b=$(sleeps --capture "$capture")
	wait_state "$b" RUNNING
	c=$(sleeps --capture "$capture")
	wait_for 20 eval '[ "$(field "$c" .reason)" = Cores ]'
	[ "$(field "$c" '.estimate.cores_expected | "\(.cores) \(.source)"')" = "5 capture" ]
	rad show "$c" | grep -q "about 5.0 expected, by its capture: what its data loaders keep busy"
	# What the others are seen to take while they start is no sign of what comes.
	wait_for 30 eval '[ "$(told $a ".cores != null")" = true ]'
	[ "$(field "$c" .reason)" = Cores ]
	rad why "$c" | grep -q "task $a needs 4.7: as is expected, since it only starts: it takes 0"
	wait_state "$c" PENDING
}
