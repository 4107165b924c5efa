#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Two users under MPS on one GPU of a radd of root's: one server for both, what they can do to it and to each other, and turns
# where each has his own. The control daemon is a fake that serves a second user only when it was started for all, the driver
# another. Without root there is one user, and this is skipped.

bats_require_minimum_version 1.5.0
load helpers.bash

setup_file()
{
	need_root
	new_world
	printf 'order: backfill\nmps_idle: 0\nmps_users: together\nmax_tasks: 8\nslack: 0\n' >>"$RAD_CONFIG"
	fake_driver
	export DEVICES=nvml
	jq . >"$RAD_FAKE_NVML" <<-END
		{"devices": [{"uuid": "GPU-a", "pci": [0, 26, 0], "name": "NVIDIA H200", "cc": [9, 0], "cores": 16896, "total_mib": 143771,
		"reserved_mib": 600, "used_mib": 0, "power_mw": 75000, "processes": [], "mps": [],
		"gpm": {"1": 0, "2": 0, "3": 0, "10": 0, "20": 0, "21": 0}, "fail": {}, "mig": null}]}
	END
	make_users
	start_radd
}

teardown_file() { [ -z "${WORLD:-}" ] || end_world; }

setup()
{
	cd "$WORLD/work"
	GO=$WORLD/go$BATS_TEST_NUMBER
	# What a CUDA program does first: it goes to the control daemon that its environment names.
	COME="echo connect \$\$ | timeout 20 $RAD_MPS_CONTROL"
	STAY="$COME; echo \$CUDA_MPS_PIPE_DIRECTORY; echo \$CUDA_MPS_PINNED_DEVICE_MEM_LIMIT; $(until_file "$GO")"
}

teardown()
{
	: >"$GO"
	rad cancel --all >/dev/null 2>&1 || :
	as "$ALICE" rad cancel --all >/dev/null 2>&1 || :
	as "$BOB" rad cancel --all >/dev/null 2>&1 || :
	timeout 100 rad wait $(rad queue --json | jq -r '.tasks[].id') >/dev/null 2>&1 || :
	wait_for 20 no_controls
	rm -f "$WORLD/fake/mode"
}

are_controls() { [ "$(controls)" -eq "$1" ]; }
has_line() { grep -qx "$2" "$WORLD/$1"; }
out() { cat "$WORLD/$1/rad-$2.out"; }
# set_config LINE...: in force when radd says so.
set_config()
{
	local n
	n=$(grep -c SIGHUP "$WORLD/radd.log") || :
	sed -i "/^${1%%:*}:/d" "$RAD_CONFIG"
	echo "$1" >>"$RAD_CONFIG"
	kill -HUP "$(cat "$WORLD/pid")"
	wait_for 10 eval "[ \$(grep -c SIGHUP $WORLD/radd.log) -gt $n ]"
}
restart() { stop_radd; start_radd; }

@test "two users' tasks share a GPU under one server, each with its own fence" {
	local a b
	a=$(as "$ALICE" rad submit --parsable --gpu-mem 4G -- sh -c "$STAY")
	b=$(as "$BOB" rad submit --parsable --gpu-mem 6G -- sh -c "$STAY")
	wait_for 20 has_line "$ALICE/rad-$a.out" started
	wait_for 20 has_line "$BOB/rad-$b.out" started
	has_line "$ALICE/rad-$a.out" "served by uid 0"
	has_line "$BOB/rad-$b.out" "served by uid 0"
	has_line "$ALICE/rad-$a.out" "0=4096M"
	has_line "$BOB/rad-$b.out" "0=6144M"
	[ "$(out "$ALICE" "$a" | grep /pipe)" = "$(out "$BOB" "$b" | grep /pipe)" ]
	[ "$(controls)" -eq 1 ]
	pgrep -f "$RAD_MPS_CONTROL -f -multiuser-server"
	[ "$(field "$a" '.shared_with[0]')" = "$b" ]
	rad gpus --json | jq -e '.gpus[0] | .share == "mps" and .mps_users == "together"'
	rad doctor --json | jq -e '.checks[] | select(.check == "mps") | .grade == "ok" and (.text | test("one server for all users"))'
	# One is cancelled: the other stays.
	as "$ALICE" rad cancel "$a"
	wait_state "$a" CANCELLED
	[ "$(state "$b")" = RUNNING ]
	touch "$GO"
	rad wait "$b"
}

@test "a user reaches the server for all, and can neither end it nor put anything in its place" {
	local a b pipe
	a=$(as "$ALICE" rad submit --parsable --gpu-mem 4G -- sh -c "$STAY")
	wait_for 20 has_line "$ALICE/rad-$a.out" started
	pipe=$(out "$ALICE" "$a" | grep /pipe)
	b=$(as "$BOB" rad submit --parsable --gpu-mem 4G -- sh -c "$COME; cd \$CUDA_MPS_PIPE_DIRECTORY || exit 1
		for c in quit 'quit -t 0'; do echo \$c | timeout 10 $RAD_MPS_CONTROL; done
		rm -f control && echo REMOVED; mv control x && echo MOVED; touch mine && echo MADE; ln -s /etc/passwd y && echo LINKED
		mkdir ../mine && echo BESIDE; mv ../pipe ../x && echo AWAY; ls ../log && echo LOG; kill \$(cat ../pid | cut -d' ' -f1) && echo KILLED
		chmod 777 . && echo OPENED; echo done")
	rad wait "$b"
	has_line "$BOB/rad-$b.out" "served by uid 0"
	has_line "$BOB/rad-$b.out" done
	[ "$(out "$BOB" "$b" | grep -c "Not enough privilege")" -eq 2 ]
	! out "$BOB" "$b" | grep -E '^[A-Z]+$' || false
	[ "$(stat -c '%U %a' "$pipe" "$pipe/log" "$pipe/../log" "$pipe/.." | tr '\n' ,)" = "root 755,root 600,root 700,root 755," ]
	# It serves as before.
	b=$(as "$BOB" rad submit --parsable --gpu-mem 4G -- sh -c "$COME")
	rad wait "$b"
	has_line "$BOB/rad-$b.out" "served by uid 0"
	[ "$(state "$a")" = RUNNING ]
}

@test "a server for all outlives radd, and the next radd's tasks join it" {
	local a b
	a=$(as "$ALICE" rad submit --parsable --gpu-mem 4G -- sh -c "$STAY")
	wait_for 20 has_line "$ALICE/rad-$a.out" started
	kill_radd
	start_radd
	wait_for 10 are_controls 1	# the one whose trial tells what the driver has goes at once
	b=$(as "$BOB" rad submit --parsable --gpu-mem 4G -- sh -c "$STAY")
	wait_for 20 has_line "$BOB/rad-$b.out" started
	[ "$(out "$ALICE" "$a" | grep /pipe)" = "$(out "$BOB" "$b" | grep /pipe)" ]
	[ "$(controls)" -eq 1 ]
}

@test "when mps_users is changed, a server's clients end under it and nobody joins them" {
	local a b
	a=$(as "$ALICE" rad submit --parsable --gpu-mem 4G -- sh -c "$STAY")
	wait_for 20 has_line "$ALICE/rad-$a.out" started
	set_config "mps_users: apart"
	b=$(as "$ALICE" rad submit --parsable --gpu-mem 4G -- sh -c "$COME; echo \$CUDA_MPS_PIPE_DIRECTORY")
	wait_for 10 reason_is "$b" MpsUser
	rad why "$b" | grep -q "from before mps_users was changed"
	# The same after a restart: which server an attempt is a client of is kept with it.
	kill_radd
	start_radd
	wait_for 10 reason_is "$b" MpsUser
	touch "$GO"
	rad wait "$a" "$b"
	has_line "$ALICE/rad-$b.out" "served by uid $(id -u "$ALICE")"
	out "$ALICE" "$b" | grep -q "/mps/$(id -u "$ALICE")\.[0-9]*/pipe"
	set_config "mps_users: together"
}

@test "a driver without such a server keeps users apart, and says so once" {
	local a b pipe before
	before=$(wc -l <"$WORLD/radd.log")
	echo old >"$WORLD/fake/mode"
	restart
	[ "$(tail -n +$((before + 1)) "$WORLD/radd.log" | grep -c "though mps_users is together: its control daemon does not know")" -eq 1 ]
	rad doctor --json | jq -e '.checks[] | select(.check == "mps") | .grade == "warn" and (.text | test("does not know"))'
	rad gpus --json | jq -e '.gpus[0].mps_users == "apart"'
	a=$(as "$ALICE" rad submit --parsable --gpu-mem 4G -- sh -c "$STAY")
	wait_for 20 has_line "$ALICE/rad-$a.out" started
	has_line "$ALICE/rad-$a.out" "served by uid $(id -u "$ALICE")"
	pipe=$(out "$ALICE" "$a" | grep /pipe)
	[ "$(stat -c '%U %a' "$pipe")" = "$ALICE 700" ]
	b=$(as "$BOB" rad submit --parsable --gpu-mem 4G -- sh -c "$COME")
	wait_for 10 reason_is "$b" MpsUser
	wait_for 10 eval "rad why $b | grep -q \"user $ALICE's MPS server runs there\""
	touch "$GO"
	rad wait "$a" "$b"
	has_line "$BOB/rad-$b.out" "served by uid $(id -u "$BOB")"
	rm "$WORLD/fake/mode"
	restart
}

@test "where users are apart, another's array makes room for the one who goes first" {
	local jobs b
	set_config "mps_users: apart"
	# Each element ends by itself, and another begins; without turns some of them would always be there.
	jobs=$(as "$ALICE" rad submit --parsable --gpu-mem 4G --array=0-199%4 -- bash -c 'sleep 0.$((3 + RANDOM % 7))')
	wait_for 20 eval "rad queue --json | jq -e 'any(.tasks[]; .state == \"RUNNING\")'"
	b=$(as "$BOB" rad submit --parsable --gpu-mem 4G -- sh -c "$COME")
	rad update "$b" --priority 10
	wait_state "$b" COMPLETED 20
	has_line "$BOB/rad-$b.out" "served by uid $(id -u "$BOB")"
	rad queue --json | jq -e 'any(.tasks[]; .state == "PENDING")'
	as "$ALICE" rad cancel "$jobs"
	set_config "mps_users: together"
}

@test "a server that does not come up delays its tasks, and fails none" {
	local a
	wait_for 20 are_controls 0	# one that is there still would serve it
	echo dies >"$WORLD/fake/mode"
	a=$(as "$ALICE" rad submit --parsable --gpu-mem 4G -- sh -c "$COME")
	wait_for 20 reason_is "$a" Delayed
	wait_for 20 eval "rad doctor --json | jq -e 'any(.checks[]; .check == \"starts\" and (.text | test(\"MPS server of all users did not start\")))'"
	wait_for 20 eval "[ \$(grep -c 'MPS control daemon of all users: ended' $WORLD/radd.log) -ge 4 ]"
	rm "$WORLD/fake/mode"
	rad wait "$a"
	[ "$(field "$a" '.attempts | length')" -eq 1 ]
	has_line "$ALICE/rad-$a.out" "served by uid 0"
}
