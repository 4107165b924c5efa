#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Time slots: tasks that save and make place for others, those that do not, and a radd that dies meanwhile. One GPU, and tasks of
# which one fits at a time.

bats_require_minimum_version 1.5.0
load helpers.bash

setup_file()
{
	new_world
	printf 'order: backfill\nslot_grace: 6\n' >>"$RAD_CONFIG"
	DEVICES=sim:1xa100-40g start_radd
}

teardown_file() { end_world; }

setup()
{
	cd "$WORLD/work"
	rm -f -- *.ckpt go ready
}

teardown()
{
	: >go
	end_tasks
}

# trains SECONDS NAME [options]: a task with a slot that saves into NAME.ckpt.
trains()
{
	local seconds=$1 name=$2
	shift 2
	submit --gpu-mem 30G --slot 5s --name "$name" "$@" -- rad simtask --mem 20G --seconds "$seconds" --ramp 0.2 \
		--progress bar --print-every 0.3 --checkpoint "$name.ckpt"
}

events() { rad show --events --json "$1" | jq -r '.events[].event'; }
asked() { [ "$(events "$1" | grep -c slot_asked)" -ge "${2:-1}" ]; }

@test "two tasks take turns, each goes on where it was, and what that cost is told" {
	local a b
	a=$(trains 10 a)
	wait_state "$a" RUNNING
	b=$(trains 10 b)
	timeout 200 rad wait "$a" "$b"
	[ "$(state "$a")" = COMPLETED ]
	[ "$(state "$b")" = COMPLETED ]
	# One went on alone once the other was done: nobody is asked while nobody waits.
	rad show --json "$a" | jq -e '.tasks[0] | .slots >= 1 and .slots == ([.attempts[] | select(.verdict == "slot")] | length) and
		.slot_lost_s > 0 and .slot_lost_s < .run_s and .lost_s == .slot_lost_s and .slot_s == 5 and
		.attempts[0].exit_code == 85 and .attempts[0].slot_asks == 1 and (.attempts[1] | has("begin_s"))'
	grep -q '^checkpoint: goes on at step [1-9]' "rad-$a.out"
	# Nothing was done twice: alone it takes 10 s of work.
	rad show --json "$a" | jq -e '.tasks[0].run_s < 30'
	rad show "$a" | grep -q '^ *time slot  .*made place'
	rad show "$a" | grep -q 'slot'
}

@test "a task that knows nothing of slots runs on, is told, and ends as it would have" {
	local a b
	a=$(submit --gpu-mem 30G --slot 5s -- sh -c 'while [ ! -e go ]; do sleep 0.1; done')
	wait_state "$a" RUNNING
	b=$(submit --gpu-mem 30G -- true)
	wait_for 20 asked "$a"
	wait_for 10 sh -c "rad show --json $a | jq -e '.tasks[0] | .reason == \"SlotOver\" and (.reason_text | test(\"handler\"))'"
	rad why "$a" | grep -q 'handler'
	[ "$(state "$b")" = PENDING ]
	: >go
	timeout 100 rad wait "$a" "$b"
	[ "$(state "$a")" = COMPLETED ]
}

@test "one that hears and stays keeps its GPU; its time limit still ends it" {
	local a b
	a=$(submit --gpu-mem 30G --slot 5s --time 45s -- bash -c 'trap "echo heard" USR1; while :; do sleep 0.1; done')
	wait_state "$a" RUNNING
	b=$(submit --gpu-mem 30G -- true)
	wait_for 20 grep -q heard "rad-$a.out"
	[ "$(field "$a" .reason)" = SlotEnds ]
	wait_for 10 sh -c "[ \"\$(rad show --json $a | jq -r '.tasks[0].reason')\" = SlotOver ]"
	wait_for 20 asked "$a" 2
	[ "$(state "$b")" = PENDING ]
	timeout 100 rad wait "$a" || :
	[ "$(state "$a")" = TIMEOUT ]
	timeout 100 rad wait "$b"
}

@test "the shell of a script is no handler: it passes the code on" {
	local a b
	cat >train.sh <<-'END'
		#!/bin/bash
		#RAD --slot=5s --gpu-mem=30G --requeue-code=42
		bash -c 'trap "exit 42" USR1; [ -e again.ckpt ] && exit 0; : >again.ckpt; while :; do sleep 0.1; done'
	END
	a=$(rad submit --parsable train.sh)
	wait_state "$a" RUNNING
	b=$(submit --gpu-mem 30G -- true)
	timeout 100 rad wait "$a" "$b"
	[ "$(field "$a" '.slots')" = 1 ]
	[ "$(state "$a")" = COMPLETED ]
}

@test "radd is killed in the middle of a slot, and between the signal and the exit" {
	local a b
	a=$(submit --gpu-mem 30G --slot 5s -- bash -c '
		[ -e r.ckpt ] && exit 0
		trap "echo heard; n=1" USR1
		while [ ! -e go ]; do sleep 0.1; done
		: >r.ckpt; exit 85')
	wait_state "$a" RUNNING
	b=$(submit --gpu-mem 30G -- true)
	kill_radd
	DEVICES=sim:1xa100-40g start_radd
	wait_for 20 grep -q heard "rad-$a.out"
	kill_radd
	DEVICES=sim:1xa100-40g start_radd
	: >go
	timeout 100 rad wait "$a" "$b"
	[ "$(state "$a")" = COMPLETED ]
	[ "$(field "$a" '.slots')" = 1 ]
	[ "$(field "$a" '.attempts[0].verdict')" = slot ]
	[ "$(grep -c heard "rad-$a.out")" = 1 ]	# one that was told is not told again
}

@test "radd was killed before its signal reached anybody: it is sent after the restart, while there is time for it" {
	local a b
	a=$(submit --gpu-mem 30G --slot 5s --signal USR1@60 -- bash -c '
		[ -e late.ckpt ] && exit 0
		while [ ! -e go ]; do sleep 0.1; done
		trap ": >late.ckpt; exit 85" USR1
		: >ready
		while :; do sleep 0.1; done')
	wait_state "$a" RUNNING
	b=$(submit --gpu-mem 30G -- true)
	wait_for 20 asked "$a"
	kill_radd
	: >go
	wait_for 10 test -e ready
	DEVICES=sim:1xa100-40g start_radd
	timeout 100 rad wait "$a" "$b"
	[ "$(field "$a" '.slots')" = 1 ]
	[ "$(events "$a" | grep -c slot_asked)" = 1 ]
}

@test "what cannot be is refused" {
	run -2 rad submit --slot 5m --no-requeue true
	[[ "$output" == *"--no-requeue"* ]]
	run -2 rad submit --slot 1s true
	[[ "$output" == *"out of range: write "*"s to 3660d"* ]]
	run -2 rad submit --slot soon true
	run -2 rad submit --requeue-code 0 true
	run -2 rad submit --requeue-code 256 true
	run -2 rad submit --signal USR1 true
	[[ "$output" == *"--slot"* ]]
	rad submit --signal TERM --slot 2h --hold true
}

@test "a default slot is the server's; none declines it" {
	printf 'slot: 5\n' >>"$RAD_CONFIG"
	kill -HUP "$(cat "$WORLD/pid")"
	wait_for 10 sh -c 'radd --check-config --config "$RAD_CONFIG" --json | jq -e "any(.settings[]; .name == \"slot\" and .value == \"5\")"'
	local a b c
	a=$(submit --gpu-mem 30G --slot none -- rad simtask --mem 20G --seconds 8 --ramp 0.2 --checkpoint none.ckpt)
	wait_state "$a" RUNNING
	b=$(submit --gpu-mem 30G -- rad simtask --mem 20G --seconds 15 --ramp 0.2 --checkpoint all.ckpt)
	timeout 100 rad wait "$a"
	[ "$(field "$a" '.slots')" = 0 ]
	wait_state "$b" RUNNING
	c=$(submit --gpu-mem 30G -- true)
	timeout 100 rad wait "$b" "$c"

	[ "$(field "$b" '.slots')" = 1 ]
}

@test "a task of four GPUs gets them from those that are asked, however long the last one saves" {
	local ids=() last wide id
	stop_radd
	DEVICES=sim:4xa100-40g start_radd
	for id in 1 2 3; do
		ids+=("$(trains 300 "w$id")")
	done
	last=$(submit --gpu-mem 30G --slot 5s -- bash -c '
		[ -e go ] && exit 0
		trap "asked=1" USR1
		: >ready
		while [ ! -e go ] || [ -z "$asked" ]; do read -r -t 0.1 <> <(:) || :; done
		exit 85')
	wait_for 10 test -e ready
	for id in "${ids[@]}"; do wait_state "$id" RUNNING; done
	wide=$(submit --gpus 4 --exclusive --gpu-mem 30G --slot none -- true)
	# Three have saved and wait; nobody starts on what they left before the last one has saved, too.
	wait_for 30 asked "$last"
	for id in "${ids[@]}"; do wait_state "$id" PENDING; done
	wait_for 10 sh -c "rad why --json ${ids[0]} | jq -e '[.gpus[] | select(.reason == \"Kept\")] | length == 4'"
	[ "$(state "$wide")" = PENDING ]
	: >go
	timeout 100 rad wait "$wide"
	[ "$(state "$wide")" = COMPLETED ]
	for id in "${ids[@]}" "$last"; do
		[ "$(rad show --json "$id" | jq '.tasks[0] | [.attempts[] | select(.verdict == "slot")] | length')" = 1 ]
	done
}

@test "a task that has no handler is not waited for: what fits beside it starts at once, and nobody else is asked in vain" {
	local deaf hears wide small
	stop_radd
	sed -i 's/^slot_grace: .*/slot_grace: 600/' "$RAD_CONFIG"
	DEVICES=sim:2xa100-40g start_radd
	deaf=$(submit --gpu-mem 30G --slot 5s -- sh -c 'while [ ! -e go ]; do sleep 0.1; done')
	hears=$(submit --gpu-mem 30G --slot 5s -- bash -c 'trap "exit 85" USR1; : >ready; while [ ! -e go ]; do sleep 0.1; done')
	wait_for 10 test -e ready
	wide=$(submit --gpus 2 --gpu-mem 35G -- true)
	wait_for 20 asked "$deaf"
	wait_for 10 sh -c "rad why $deaf | grep -q 'none of its processes has a handler for SIGUSR1, so'"
	small=$(submit --gpu-mem 5G -- true)
	timeout 100 rad wait "$small"
	[ "$(state "$wide")" = PENDING ]
	run ! asked "$hears"
	: >go
	timeout 100 rad wait "$deaf" "$hears" "$wide"
}
