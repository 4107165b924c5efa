#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# GPUs that are used by others than the tasks that were sent there: tasks that went elsewhere, processes that are no task's,
# containers, reservations, drained GPUs. Under a radd of root with two users where that can be had.

bats_require_minimum_version 1.5.0
load helpers.bash

ALICE=nobody BOB=daemon

# as USER COMMAND...: in a folder of that user's.
as()
{
	local user=$1
	shift
	(cd "$WORLD/$user" && exec setpriv --reuid "$user" --regid "$(id -g "$user")" --init-groups env HOME="$WORLD/$user" "$@")
}

setup_file()
{
	new_world
	if [ "$(id -u)" = 0 ]; then
		chmod 755 "$WORLD"
		install -d -m 755 -o "$ALICE" "$WORLD/$ALICE"
		install -d -m 755 -o "$BOB" "$WORLD/$BOB"
	fi
	start_radd
	export SIM=$WORLD/state/sim-devices
}

teardown_file() { end_world; }

setup() { cd "$WORLD/work"; }

teardown()
{
	[ "$(id -u)" != 0 ] || { as "$ALICE" rad cancel --all; as "$BOB" rad cancel --all; } >/dev/null 2>&1 || :
	rad cancel --all >/dev/null 2>&1 || :
	timeout 20 rad wait $(rad queue --json | jq -r '.tasks[].id') >/dev/null 2>&1 || :
}

need_root() { [ "$(id -u)" = 0 ] || skip "needs root: it is about several users"; }

# gpu INDEX FILTER
gpu() { rad gpus --json | jq -r ".gpus[] | select(.index == $1) | $2"; }
# gpu_is INDEX FILTER VALUE
gpu_is() { [ "$(gpu "$1" "$2")" = "$3" ]; }
# reason_is ID WORD
reason_is() { [ "$(field "$1" .reason)" = "$2" ]; }

# ---- tasks that went elsewhere ----

@test "a task that sets CUDA_VISIBLE_DEVICES itself is booked where it runs, and its owner is told" {
	local id
	id=$(submit --gpu-mem 9G -- sh -c 'CUDA_VISIBLE_DEVICES=3 exec rad simtask --mem 8G --seconds 60 --ramp 0')
	wait_for 10 reason_is "$id" OtherGpus
	[[ "$(field "$id" .reason_text)" == *"was given GPU 0; its processes are on GPU"* ]]
	wait_for 10 gpu_is 0 .mem_held_mib 0
	gpu_is 3 '.tasks | join(" ")' "$id"
	gpu_is 3 .mem_held_mib 9216
	gpu_is 3 .mem_foreign_mib 0
	rad queue | grep -q '3 (OtherGpus)'
	rad show "$id" | grep -q 'given.*GPU 0'
	rad show --events "$id" | grep -q moved
	grep -q "task $id: attempt 1: was given" "$WORLD/radd.log"
	# GPU 0 serves others again, GPU 3 not those who want it alone.
	local alone
	alone=$(submit --exclusive -- sleep 60)
	wait_state "$alone" RUNNING
	gpu_is 3 '.tasks | join(" ")' "$id"
}

@test "where a task went is known after radd was killed" {
	local id
	id=$(submit --gpu-mem 9G -- sh -c 'CUDA_VISIBLE_DEVICES=3 exec rad simtask --mem 8G --seconds 60 --ramp 0')
	wait_for 10 gpu_is 3 '.tasks | join(" ")' "$id"
	kill_radd
	start_radd
	gpu_is 3 '.tasks | join(" ")' "$id"
	wait_for 10 gpu_is 0 .mem_held_mib 0
	reason_is "$id" OtherGpus
}
