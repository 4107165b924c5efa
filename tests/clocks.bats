#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Somebody sets the machine's clock while tasks wait and run, and while radd is away: no time between two moments changes.

load helpers.bash

setup_file()
{
	new_world
	mkdir "$WORLD/machine"
	head -c 8 /dev/zero >"$WORLD/machine/clock"
	machine_radd
}

teardown_file() { end_world; }

setup() { cd "$WORLD/work"; }

machine_radd()
{
	FAKE_MACHINE=$WORLD/machine LD_PRELOAD=$RAD_BUILD_ROOT/tests/fake-machine/libfake-machine.so start_radd
}

# set_clock SECONDS: so far ahead of the true time the wall clock of radd is. It has the file mapped.
set_clock()
{
	python3 -c 'import struct, sys; open(sys.argv[1], "r+b").write(struct.pack("=q", int(sys.argv[2])))' "$WORLD/machine/clock" "$1"
}

# moved TEXT: the task's log says so.
moved() { wait_for 10 eval "rad show --events $id | grep -q 'clock_set  *$1'"; }

# true_times AHEAD: nobody waited, was held or ran for an hour, and what runs began within the last ten minutes, by that clock.
true_times()
{
	rad show --json "$id" | TZ=UTC jq -e --argjson ahead "$1" '.tasks[0] | .run_s < 600 and .wait_s < 600 and .jct_s < 600
		and ((.start_time | .[:19] + "Z" | fromdate) - now - $ahead | . > -600 and . < 5)'
	rad show --json "$held" | jq -e '.tasks[0] | .held_s < 600 and .wait_s < 600'
}

@test "a clock that is set ahead, back, and while radd is away ends no task and changes no times" {
	id=$(submit --time=1:00:00 -- sh -c 'until [ -e go ]; do sleep 0.1; done')
	held=$(submit --hold -- true)
	wait_state "$id" RUNNING
	true_times 0
	set_clock 86400
	moved "forward by 1-00:00:00"
	true_times 86400
	kill_radd
	set_clock $((3 * 86400))
	machine_radd
	wait_state "$id" RUNNING
	true_times $((3 * 86400))
	set_clock -86400
	moved "back by 4-00:00:00"
	true_times -86400
	kill_radd
	machine_radd
	true_times -86400
	[ "$(rad show --events "$id" | grep -c clock_set)" -eq 3 ]
	touch go
	rad wait "$id"
	true_times -86400
	[ "$(field "$id" .state)" = COMPLETED ]
}

@test "what ended before the clock was set back is in accounts and reports, by their own times" {
	set_clock 86400
	id=$(submit -- true)
	rad wait "$id"
	set_clock 0
	rad acct --since 3d --json | jq -e --arg id "$id" '[.tasks[].id] | index($id)'
	rad report --since 3d --json | jq -e --arg id "$id" '[.runs[0].tasks[].id] | index($id)'
	[ "$(rad acct --since 3d --by user --json | jq .totals.tasks)" -eq "$(rad acct --since 3d --json | jq .totals.tasks)" ]
	set_clock $((400 * 86400))	# further than the months that rad tells of
	id=$(submit -- true)
	rad wait "$id"
	set_clock 0
	rad acct --since 3d --by month --json | jq -e --arg month "$(date -d "$(field "$id" .end_time)" +%Y-%m)" '[.groups[].month] | index($month)'
}
