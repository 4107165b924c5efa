#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# What people who know Slurm type: dependencies, times to begin, environments, scripts of sbatch, listings.

bats_require_minimum_version 1.5.0
load helpers.bash

setup_file()
{
	new_world
	start_radd
}

teardown_file() { end_world; }

setup() { cd "$WORLD/work"; }

# ---- dependencies ----

@test "wait: a task whose dependency can no longer be met is waited for in vain: 125, and why" {
	a=$(submit -- false)
	rad wait "$a" || :
	b=$(submit --dependency=afterok:"$a" -- true)
	run timeout 10 rad wait "$b"
	[ "$status" -eq 125 ]
	one_line_error "task $b: is PENDING still and will not run: afterok:$a can no longer be met"
	# one that waits for that one, and an array
	c=$(submit --dependency=afterok:"$b" --array=0-2 -- true)
	run timeout 10 rad wait "$c"
	[ "$status" -eq 125 ]
	one_line_error "task $c: is PENDING"
	run timeout 10 rad run --dependency=afterok:"$a" true
	[ "$status" -eq 125 ]
	run timeout 10 rad submit --wait --dependency=afterok:"$a" true
	[ "$status" -eq 125 ]
	rad cancel --pending >/dev/null
}

@test "wait: it is over when what it hopes for fails meanwhile; a requeue gives hope again" {
	a=$(submit -- bash -c "$(until_file go-vain); [ -e go-well ]")
	b=$(submit --dependency=afterok:"$a" -- true)
	timeout 20 rad wait "$b" 2>err &
	waiter=$!
	touch go-vain
	rc=0
	wait $waiter || rc=$?
	[ "$rc" -eq 125 ]
	touch go-well
	rad requeue "$a"
	timeout 20 rad wait "$b"
	[ "$(state "$b")" = COMPLETED ]
}
