#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# What one task taught, the next is placed by: after it, after a restart, and in an array that waits.

bats_require_minimum_version 1.5.0
load helpers.bash

setup_file()
{
	DEVICES=sim:1xa100-40g
	export DEVICES
	new_world
	start_radd
}

teardown_file() { end_world; }

setup() { cd "$WORLD/work"; }

teardown()
{
	end_tasks
}

# A task without a word on its memory: small enough to be quick, long enough to be warm.
learnable() { submit "$@" -- rad simtask --mem 3000M --seconds 4 --ramp 0.2 --gract 0.3 --smact 0.2; }

@test "the second run is placed by what the first one took" {
	local a b
	a=$(learnable)
	[ "$(field "$a" .estimate.estimator)" = none ]
	rad wait "$a"
	b=$(learnable --name other)
	rad wait "$b"
	rad show --json "$a" "$b" | jq -e '
		(.tasks[0].attempts[0].peak_mib) as $peak | .tasks[1].estimate |
		.estimator == "history" and .comfort_mib == $peak and .need_mib == $peak and
		.claim_mib >= $peak + 256 and .claim_mib <= $peak * 1.2 and (.note | test("earlier run took"))'
	rad show "$b" | grep -q 'earlier run took'
}

@test "it is known after a restart too" {
	local a b
	a=$(learnable)
	rad cancel "$a"
	stop_radd
	start_radd
	b=$(learnable)
	[ "$(field "$b" .estimate.estimator)" = history ]
	[ "$(field "$b" .estimate.note)" = "$(field "$a" .estimate.note)" ]
	[ "$(field "$b" .estimate.claim_mib)" = "$(field "$a" .estimate.claim_mib)" ]
}

@test "elements of an array that wait learn from the ones that ended" {
	local id
	id=$(submit --array=0-3%1 -- rad simtask --mem 2000M --seconds 4 --ramp 0.2 --gract 0.3 --smact 0.2)
	timeout 200 rad wait "$id"
	[ "$(field "${id}_0" .estimate.estimator)" = none ]
	[ "$(field "${id}_3" .estimate.estimator)" = history ]
}

@test "another command knows nothing of it" {
	local id
	id=$(submit -- rad simtask --mem 1000M --seconds 1 --ramp 0.2)
	[ "$(field "$id" .estimate.estimator)" = none ]
	rad show "$id" | grep -q 'nothing is known of its memory'
}

# ---- slow estimators ----

captures=$BATS_TEST_DIRNAME/fuzz/corpus-capture

@test "a capture is replayed by a worker, and the task is placed by it" {
	local id
	id=$(submit --capture "$captures/max-split" -- rad simtask --mem 500M --seconds 1 --ramp 0.2)
	rad wait "$id"
	rad show --json "$id" | jq -e '.tasks[0].estimate | .estimator == "replay" and .claim_mib > 0 and (.note | startswith("replay:"))'
	rad show --events --json "$id" | jq -e '[.events[].event][:3] == ["submitted","estimated","placed"]'
}

@test "declared memory stands, and the capture tells the load beside it" {
	local id
	id=$(submit --gpu-mem 700M --capture "$captures/load" -- rad simtask --mem 500M --seconds 1 --ramp 0.2)
	rad wait "$id"
	rad show --json "$id" | jq -e '.tasks[0].estimate | .estimator == "declared" and .claim_mib == 700'
	rad show --events --json "$id" | jq -e '[.events[] | select(.event == "estimated")][0].data.load |
		.source == "guessed" and .gract > 0 and .gract <= 1 and .smact <= .gract'
}

@test "a task with a model summary is placed by what was learnt" {
	local id
	cp "$BATS_TEST_DIRNAME/summaries/vgg-torchsummary.txt" net.model
	id=$(submit --model net.model --batch-size 64 -- rad simtask --mem 500M --seconds 1 --ramp 0.2)
	rad wait "$id"
	rad show --json "$id" | jq -e '.tasks[0].estimate | .estimator == "gpumemnet" and .claim_mib > 500 and .claim_mib < 20000'
	rad show --events --json "$id" | jq -e '[.events[].event][:3] == ["submitted","estimated","placed"]'
	rad show --events --json "$id" | jq -e '[.events[] | select(.event == "estimated")][0].data.load |
		.source == "guessed" and .gract > 0 and .smact <= .gract and .smact_sd > 0.1'
}

@test "a worker that fails costs its estimate, not the task" {
	local id
	id=$(PYTORCH_CUDA_ALLOC_CONF=nonsense submit --capture "$captures/max-split" -- rad simtask --mem 500M --seconds 1 --ramp 0.2)
	rad wait "$id"
	[ "$(state "$id")" = COMPLETED ]
	rad show --json "$id" | jq -e '.tasks[0].estimate | .estimator == "none" and (.note | test("; replay: "))'
}

@test "tasks that were being estimated are asked about again after a restart" {
	local id
	id=$(submit --hold --capture "$captures/max-split" -- rad simtask --mem 510M --seconds 1 --ramp 0.2)
	kill_radd
	start_radd
	wait_for 15 sh -c "rad show --json $id | jq -e '.tasks[0].estimate.estimator == \"replay\"'"
	[ "$(state "$id")" = HELD ]
	rad release "$id"
	rad wait "$id"
}
