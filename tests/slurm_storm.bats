#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# What is in force on a cluster of real Slurm, killed at random moments under load: tests/cluster-storm, each way in short. Its seed is
# in what is shown of a failure; it has a cluster of its own.

bats_require_minimum_version 1.5.0

setup() { "$RAD_SOURCE_ROOT/tests/cluster" check 2>"$BATS_TEST_TMPDIR/missing" || skip "$(cat "$BATS_TEST_TMPDIR/missing")"; }

# storm WAY: some seconds of kills; whatever it was, nothing is lost and nothing runs beside itself.
storm()
{
	run --separate-stderr timeout 240 "$RAD_SOURCE_ROOT/tests/cluster-storm" --way "$1" --minutes 0.25
	printf '%s\n' "$output" "$stderr"
	[ "$status" -eq 0 ]
	tail -n 1 <<<"$output" | jq -e '.accepted > 10 and .ended + .killed_by_slurm == .accepted and .lost == 0 and .doubled == 0'
}

@test "storm: jobs that run a task on their node's radd" { storm node; }

@test "storm: jobs that their node's radd places" {
	[ -e "$RAD_BUILD_ROOT/slurm/rad.so" ] || skip "built without Slurm's headers"
	storm place
}

@test "storm: a queue of files and its pilots" { storm pilot; }
