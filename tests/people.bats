#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# What people are told: who changed what, by name; notices of their own tasks; what an administrator's programs do before and
# after each attempt; and when a waiting task is expected to start. Accounts that every system has stand for the users.

bats_require_minimum_version 1.5.0
load helpers.bash

ALICE=nobody BOB=daemon

as()
{
	local user=$1
	shift
	(cd "$WORLD/$user" && exec setpriv --reuid "$user" --regid "$(id -g "$user")" --init-groups env HOME="$WORLD/$user" "$@")
}

setup_file()
{
	new_world
	mkdir -m 755 "$WORLD/admin"
	if [ "$(id -u)" = 0 ]; then
		chmod 755 "$WORLD"
		install -d -m 755 -o "$ALICE" "$WORLD/$ALICE"
		install -d -m 755 -o "$BOB" "$WORLD/$BOB"
	fi
	start_radd
}

teardown_file() { end_world; }

setup() { cd "$WORLD/work"; }

teardown()
{
	: >go
	rad cancel --all >/dev/null 2>&1 || :
	timeout 20 rad wait $(rad queue --json | jq -r '.tasks[].id') >/dev/null 2>&1 || :
	rm -f go
}

need_root() { [ "$(id -u)" = 0 ] || skip "needs root: it is about several users"; }

# ---- who did it ----

@test "every change says who made it, by name, and whether as the administrator" {
	need_root
	local id
	id=$(as "$ALICE" rad submit --parsable --hold -- sleep 60)
	as "$ALICE" rad update --name changed "$id"
	rad update --priority 3 "$id"
	rad release "$id"
	wait_state "$id" RUNNING
	rad cancel "$id"
	rad wait "$id" || :
	rad show --events --json "$id" | jq -e '[.events[] | select(.by) | [.event, .by, .administrator]] ==
		[["updated", "nobody", false], ["updated", "root", true], ["released", "root", true], ["stop_asked", "root", true]]' ||
		{ rad show --events "$id"; false; }
	[[ "$(as "$ALICE" rad show --events "$id")" == *'"priority":3}, by root'* ]]
	grep -q "task $id of nobody: changed by nobody\$" "$WORLD/radd.log"
	grep -q "task $id of nobody: changed by root (administrator)" "$WORLD/radd.log"
	grep -q "task $id of nobody: asked to stop by root (administrator)" "$WORLD/radd.log"
	rad drain 0
	rad undrain 0
	grep -q "root (administrator): GPU GPU-.* drained" "$WORLD/radd.log"
	grep -q "root (administrator): GPU GPU-.* put back into use" "$WORLD/radd.log"
}

@test "a time limit is nobody's act" {
	local id
	id=$(submit --time 1s -- sleep 60)
	rad wait "$id" || :
	rad show --events --json "$id" | jq -e '[.events[] | select(.by)] == []'
}
