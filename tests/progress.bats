#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# How far tasks are, by what they print: shown, kept through a radd that dies, unknown where it cannot be believed; and what company
# cost them, by their own progress.

bats_require_minimum_version 1.5.0
load helpers.bash

setup_file()
{
	new_world
	DEVICES=sim:1xa100-40g start_radd
}

teardown_file() { end_world; }

setup() { cd "$WORLD/work"; }

teardown()
{
	end_tasks
}

# shows ID FILTER: waits until it holds of the task's progress.
shows() { wait_for 25 sh -c "rad show --json $1 | jq -e '.tasks[0].progress | $2'"; }

simtask() { submit --gpu-mem 2G -- rad simtask --mem 1G --ramp 0.2 --print-every 0.3 "$@"; }

@test "simtask that is over before its first step draws its bar" {
	run -0 rad run --gpu-mem 2G -- rad simtask --mem 1G --seconds 0.04 --print-every 0.01 --progress bar
	[[ "$output" == *"/1 ["* ]]
}

@test "a bar: percent, rate and end in queue and show, within 80 columns; an ended task has none" {
	local id
	id=$(simtask --seconds 55 --progress bar)
	shows "$id" '.percent > 5 and .left_s != null'
	rad show --json "$id" | jq -e '.tasks[0].progress | .total == 550 and .unit == "it" and .source == "tqdm" and
		.rate > 5 and .rate < 15 and .left_s > 5 and .left_s < 100 and .spread_s >= 0 and
		(.ends_ms / 1000 - now - .left_s | fabs) < 5'
	run env COLUMNS=80 rad queue
	[[ "${lines[0]}" == *DONE*LEFT* ]]
	[[ "${lines[1]}" =~ [0-9]%\ +([0-9]+s|[0-9]+:[0-9]+) ]]
	[ "$(printf '%s\n' "$output" | wc -L)" -le 80 ]
	rad show "$id" | grep -E '^ +progress  [0-9.]+ %, it [0-9]+ of 550, [0-9.]+ it/s, ends .* by its own output \(tqdm\)'
	rad cancel "$id"
	timeout 100 rad wait "$id" || :
	[ "$(field "$id" .progress)" = null ]
	run rad queue
	[[ "${lines[0]}" != *DONE* ]]
}

@test "bars of epochs count as a part of the whole" {
	local id
	id=$(simtask --seconds 20 --progress epochs)
	shows "$id" '.epochs == 5 and .epoch >= 2 and .percent > 40 and .total == 40'
	timeout 100 rad wait "$id"
}

@test "radd is killed in the midst: what a task said stands, and its sums go on" {
	local id before
	id=$(simtask --seconds 600 --progress bar)
	shows "$id" '.left_s != null'
	before=$(field "$id" .progress.done)
	kill_radd
	DEVICES=sim:1xa100-40g start_radd
	wait_state "$id" RUNNING
	shows "$id" ".left_s != null and .done > $before"
}

@test "a task that lies, one that prints nothing, one without a file: nothing is known" {
	local liar quiet nowhere
	liar=$(simtask --seconds 600 --progress lies)
	quiet=$(submit --gpu-mem 2G -- sh -c 'echo begun; sleep 600')
	nowhere=$(submit --gpu-mem 2G --output /dev/null -- rad simtask --mem 1G --seconds 600 --print-every 0.3)
	wait_state "$nowhere" RUNNING
	wait_for 20 sh -c "[ \$(grep -c step rad-$liar.out) -ge 15 ]"
	wait_for 20 sh -c "rad show --json $liar | jq -e '.tasks[0].progress | .percent == null and .source == \"lines\"'"
	rad show --json "$liar" "$quiet" "$nowhere" | jq -e 'all(.tasks[]; .progress.percent == null and .progress.ends_ms == null)'
}

@test "several tasks that print into one file: nobody's progress" {
	local a b
	a=$(submit --gpu-mem 2G --output both -- rad simtask --mem 1G --ramp 0.2 --seconds 600 --print-every 0.3)
	shows "$a" '.percent != null'
	b=$(submit --gpu-mem 2G --output both -- rad simtask --mem 1G --ramp 0.2 --seconds 600 --print-every 0.3)
	wait_state "$b" RUNNING
	wait_for 20 sh -c "rad show --json $a $b | jq -e 'all(.tasks[]; .progress == null)'"
}

@test "what company cost is measured, where both were seen; else the law says it, and says so" {
	local a b alone
	a=$(simtask --seconds 40 --gract 0.97)
	wait_for 25 sh -c "rad show --json $a | jq -e '.tasks[0].attempts[0].pace.alone_s > 4'"
	rad show --json "$a" | jq -e '.tasks[0] | .slowdown == 1 and .slowdown_source == "alone"'
	b=$(simtask --seconds 8 --gract 0.97)
	timeout 200 rad wait "$a" "$b"
	rad show --json "$a" "$b"
	rad show --json "$a" | jq -e '.tasks[0] | .slowdown_source == "measured" and .slowdown > 1.1 and .slowdown < 2 and
		(.attempts[0].pace | .alone_per_s > 9 and .alone_per_s < 11 and .company_per_s < 8 and .units == 400)'
	rad show --json "$b" | jq -e '.tasks[0] | .slowdown_source == "law"'
	rad show "$b" | grep -E '^ +slowdown  1\.[0-9]+ \(predicted\)'
	rad show "$a" | grep -E '^ +slowdown  1\.[0-9]+ \(measured\)'
}
