#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# What ended leaves the store when somebody says so: what is counted first is what goes, and what lives, or is waited for, stays.

bats_require_minimum_version 1.5.0
load helpers.bash

setup() { new_world; start_radd; }
teardown() { end_world; }

ended() { local id; id=$(submit "$@"); rad wait "$id" >/dev/null 2>&1 || :; echo "$id"; }

@test "purge counts, asks for a yes, and removes what ended" {
	local one two held
	one=$(ended true)
	two=$(ended --array 0-4 true)
	held=$(submit --hold true)
	run -2 --separate-stderr rad purge --older 0s
	[[ "$output" == "Would remove 6 ended tasks"* ]]
	[[ "$stderr" == "rad: purge: nothing was removed: say --yes"* || "$stderr" == "rad: nothing was removed: say --yes"* ]]
	rad show "$one" >/dev/null
	[ "$(rad purge --older 1h --yes --json | jq .tasks)" = 0 ]
	[ "$(rad purge --older 1h --json </dev/null | jq -c '[.schema, .tasks, .dry_run]')" = '[1,0,true]' ]
	run -2 --separate-stderr rad purge --older 0s --json
	[ -z "$output" ]
	[ "$(rad purge --older 0s --dry-run --json | jq -c '[.tasks, .kept, .dry_run]')" = '[6,0,true]' ]
	[ "$(rad purge --older 0s --yes)" = "Removed 6 ended tasks" ]
	run -1 rad show "$one"
	run -1 rad show "${two}_3"
	[ "$(state "$held")" = HELD ]
	[ "$(rad purge --older 0s --yes --json | jq .tasks)" = 0 ]
	run -2 rad purge
	run -2 rad purge --older yesterday
}

@test "root purges his own, and is told how everybody's" {
	need_root
	stop_radd
	make_users
	start_radd
	rad wait "$(as "$ALICE" rad submit --parsable true)"
	[ "$(rad purge --older 0s --yes)" = "Removed 0 ended tasks of root's own; --user all: everybody's" ]
	[ "$(rad purge --older 0s --yes --user all)" = "Removed 1 ended task" ]
}

@test "what a waiting task depends on, and arrays that have not ended, stay" {
	local failed array waits
	failed=$(ended false)
	array=$(submit --array 0-1 bash -c "[ \${RAD_TASK_ID#*_} = 0 ] || { $(until_file "$PWD/go"); }")
	wait_state "${array}_0" COMPLETED
	waits=$(submit --hold --dependency="afternotok:$failed" true)
	local late
	late=$(submit --dependency="afterok:$failed" true)
	[ "$(rad purge --older 0s --yes --json | jq -c '[.tasks, .kept]')" = '[0,2]' ]
	[ "$(state "$failed")" = FAILED ]
	rad cancel "$late" "$waits"
	touch go
	wait_state "${array}_1" COMPLETED
	[ "$(rad purge --older 0s --yes --json | jq .tasks)" = 5 ]
}

@test "logs stay, and numbers are not given out again, after a purge and a restart, and with a store begun anew" {
	local id next
	id=$(ended --output "$PWD/log" echo hello)
	rad purge --older 0s --yes
	[ "$(cat log)" = hello ]
	stop_radd
	start_radd
	next=$(submit true)
	[ "$next" = $((id + 1)) ]
	rad wait "$next"
	kill_radd
	mkdir "$WORLD/away"
	mv "$WORLD"/state/rad.db* "$WORLD/away"
	start_radd
	[ "$(submit true)" -gt "$next" ]
	grep -q 'numbers of jobs go on from' "$WORLD/radd.log"
}

@test "a user removes his own tasks, the administrator everybody's" {
	[ "$(id -u)" = 0 ] || skip "needs root: two users"
	local mine theirs
	chmod 755 "$WORLD"
	cp "$RAD_BUILD_ROOT/rad" "$WORLD/rad"
	as_nobody() { setpriv --reuid=65534 --regid=65534 --clear-groups env HOME=/ "$WORLD/rad" "$@"; }
	mine=$(ended true)
	cd /
	theirs=$(as_nobody submit --parsable --output /dev/null true)
	rad wait "$theirs"
	run -1 as_nobody purge --older 0s --yes --user root
	[[ "$output" == *"is for the administrator"* ]]
	[ "$(as_nobody purge --older 0s --yes --json | jq .tasks)" = 1 ]
	rad show "$mine" >/dev/null
	[ "$(rad purge --older 0s --yes --user all --json | jq .tasks)" = 1 ]
}

@test "accounts of more tasks than one answer holds: all of them, each once" {
	submit --hold --array 0-9999 true >/dev/null
	submit --hold --array 0-99 true >/dev/null
	rad cancel --all
	submit --hold --array 0-99 true >/dev/null
	rad cancel --all
	rad acct --json >many.json
	jq -e '.truncated == false and .totals.tasks >= 10200' many.json
	jq -e '[.tasks[].id] | length == (unique | length)' many.json
	[ "$(jq '.tasks | length' many.json)" = "$(jq .totals.tasks many.json)" ]
	jq -e '(.totals.by_state.CANCELLED >= 10200) and (.totals.began < 100) and .users[0].tasks == .totals.tasks' many.json
	[ "$(rad acct --csv | wc -l)" -gt "$(jq .totals.tasks many.json)" ]
	rad report --json | jq -e '.runs[0] | .totals.trace_total_s != null and (.tasks | length) >= 10200'
}

@test "so are those of more tasks than one answer holds that ended in one moment" {
	submit --hold --array 0-9999 true >/dev/null
	submit --hold --array 0-4999 true >/dev/null
	rad cancel --all
	stop_radd
	python3 -c 'import sqlite3, sys, time
db, now = sqlite3.connect(sys.argv[1]), int(time.time() * 1000)
db.execute("UPDATE events SET t_ms = ? WHERE task IN (SELECT task FROM tasks WHERE live = 0)", (now,))
db.execute("UPDATE tasks SET end_ms = ? WHERE live = 0", (now,))
db.commit()' "$WORLD/state/rad.db"
	start_radd
	rad acct --since 1h --json >many.json
	jq -e '.truncated == false and .totals.tasks >= 15000' many.json
	[ "$(jq '[.tasks[].id] | unique | length' many.json)" = "$(jq .totals.tasks many.json)" ]
	[ "$(jq '.tasks | length' many.json)" = "$(jq .totals.tasks many.json)" ]
}
