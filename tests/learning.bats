#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# What short runs teach, at the windows that are shipped: nothing here waits for 30 or 90 seconds.

bats_require_minimum_version 1.5.0
load helpers.bash

setup_file()
{
	DEVICES=sim:1xa100-40g
	export DEVICES
	new_world
	printf 'interval: 0.2\nkill_wait: 2\n' >"$RAD_CONFIG"
	start_radd
}

teardown_file() { end_world; }

setup() { cd "$WORLD/work"; }

brief() { submit "$@" -- rad simtask --mem 3000M --seconds 5 --ramp 0.2 --gract 0.3 --smact 0.2; }

@test "the second run of a task of seconds shares its GPU, with what the first took" {
	local first a b
	first=$(brief)
	[ "$(field "$first" .estimate.estimator)" = none ]
	timeout 200 rad wait "$first"
	a=$(brief)
	b=$(brief)
	timeout 200 rad wait "$a" "$b"
	rad show --json "$first" "$a" "$b" | jq -e '
		.tasks[0].attempts[0].peak_mib as $peak | .tasks[1:] |
		all(.[]; .estimate.estimator == "history" and .estimate.claim_mib < $peak * 1.2) and
		(.[0].attempts[0].end < .[1].attempts[0].start | not)'
}

@test "what it did alone is told with its spread and where it is from" {
	local id
	id=$(rad list --json 2>/dev/null | jq -r '.tasks[0].id // empty')
	rad show --json 1 | jq -e '.tasks[0].attempts[0].load |
		.source == "measured" and .smact > 0.15 and .smact < 0.25 and .smact_sd > 0'
	rad show 1 | grep -q 'SMACT 0.2[0-9]* ± 0.[0-9]* (measured alone)'
	LC_ALL=C rad show 1 | grep -q 'SMACT 0.2[0-9]* +- 0.[0-9]* (measured alone)'
}
