#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# A machine whose host is slower than those that the load model was fitted on finds it out from its tasks.

bats_require_minimum_version 1.5.0
load helpers.bash

setup_file()
{
	DEVICES=sim:1xh200-141g
	export DEVICES
	new_world
	start_radd
}

teardown_file() { end_world; }

setup()
{
	cd "$WORLD/work"
	capture=$BATS_TEST_DIRNAME/fuzz/corpus-capture/load	# on an H200 it is said to keep the GPU busy for 15 % of the time
}

# alone N: the Nth kind of task, seen alone at two thirds of that.
alone() { timeout 200 rad run --capture "$capture" rad simtask --seconds 4 --ramp 0.1 --mem "$((800 + $1))M" --gract 0.1 --smact 0.02 >/dev/null; }

step_ms() { rad estimate --json --capture "$capture" --gpu-model "NVIDIA H200" "$@" | jq '.load.step_s * 1000'; }

pace() { rad estimate --json --capture "$capture" --gpu-model "NVIDIA H200" | jq -c '.load.host_pace'; }

@test "nothing is known of a host before a task was seen alone" {
	[ "$(pace)" = null ]
	run -0 rad estimate --capture "$capture" --gpu-model "NVIDIA H200"
	[[ "$output" != *"host's pace"* ]]
	run rad doctor
	[[ "$output" != *"what it launches takes"* ]]
}

@test "a host's pace is learnt from tasks seen alone, and told with how many they were" {
	for n in 1 2 3; do alone $n; done
	alone 3
	pace | jq -e '.tasks == 3 and .pace > 1.1 and .pace < 1.25'	# of 1.5, three eighths count
	run -0 rad estimate --capture "$capture" --gpu-model "NVIDIA H200"
	[[ "$output" == *"All at this host's pace: what it launches takes 1."*" times as long"*", by 3 tasks seen here" ]]
	run rad doctor
	[[ "$output" == *"host"*"what it launches takes 1."*" by 3 tasks seen alone"* ]]
	jq -en "$(step_ms) > 1.1 * $(step_ms --host-pace 1)"
}

@test "a capture that counted the steps of a run tells how long it takes here, and when the next one starts" {
	local steps=$BATS_TEST_DIRNAME/fuzz/corpus-capture/steps id next json
	json=$(rad estimate --json --capture "$steps" --gpu-model "NVIDIA H200")
	jq -e '.load | .steps == 702000 and (.run_s / (702000 * .step_s) | . > 0.999 and . < 1.001)' <<<"$json"
	rad estimate --json --capture "$capture" --gpu-model "NVIDIA H200" | jq -e '.load | .steps == null and .run_s == null'
	run -0 rad estimate --capture "$steps" --gpu-model "NVIDIA H200"
	[[ "$output" == *"The run: 702000 steps, "*", and what the script does between them"* ]]
	id=$(submit --capture "$steps" --name counted -- rad simtask --seconds 600 --mem 900M)
	wait_for 20 eval '[ "$(field "$id" .state)" = RUNNING ]'
	rad show --json "$id" | jq -e --argjson said "$json" '.tasks[0].estimate.load.run_s - $said.load.run_s | fabs < 0.002'
	rad show "$id" | grep -q 'takes .* alone, by its capture'
	next=$(submit --exclusive --gpu-mem 1G -- rad simtask --seconds 1 --mem 900M)
	rad queue --start --json | jq -e --arg id "$next" --argjson said "$json" \
		'.starts[] | select(.id == $id) | (.source == "capture" or .source == "plan") and .in_s > $said.load.run_s - 300 and .in_s <= $said.load.run_s'
	rad cancel "$id" "$next"
}

@test "what waits is shown as it is expected of this host, and what was measured as it was" {
	local id
	id=$(submit --hold --capture "$capture" -- rad simtask --seconds 1 --mem 900M)
	wait_for 20 eval '[ "$(field "$id" .estimate.load.source)" = guessed ]'
	rad show --json "$id" | jq -e '.tasks[0].estimate.load | .gract < 0.138 and .gract > 0.11 and .host_pace.tasks == 3'
	rad show "$id" | grep -q 'expected .*(guessed before it ran, at a host.s pace of 1.[0-9]* by 3 tasks here)'
	rad cancel "$id"
	rad show --json 1 | jq -e '.tasks[0] | .attempts[-1].load.source == "measured" and .estimate.load == null'
	rad show 1 | grep -q '(measured alone)'
}

@test "a host's pace outlives a radd that is killed" {
	local before
	before=$(pace)
	kill_radd
	[ "$(pace)" = null ]
	start_radd
	[ "$(pace)" = "$before" ]
}

@test "a radd that hangs holds rad estimate up for a moment only" {
	local pid
	pid=$(cat "$WORLD/pid")
	kill -STOP "$pid"
	run timeout 100 rad estimate --json --capture "$capture" --gpu-model "NVIDIA H200"
	kill -CONT "$pid"
	[ "$status" = 0 ]
	jq -e '.load | .step_s > 0 and .host_pace == null' <<<"$output"
}

@test "--host-pace is asked of nobody, and bounded" {
	jq -en "$(step_ms --host-pace 2) > 1.9 * $(step_ms --host-pace 1)"
	run -0 rad estimate --capture "$capture" --gpu-model "NVIDIA H200" --host-pace 2
	[[ "$output" == *"All for a host on which launches take 2.00 times as long"*"(--host-pace)" ]]
	for bad in 0 -1 100 nan x; do
		run -2 rad estimate --capture "$capture" --gpu-model "NVIDIA H200" --host-pace "$bad"
		[[ "$output" == *"--host-pace: "* ]]
	done
}
