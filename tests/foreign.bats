#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# GPUs that are used by others than the tasks that were sent there: tasks that went elsewhere, processes that are no task's,
# containers, reservations, drained GPUs. Under a radd of root with two users where that can be had.

bats_require_minimum_version 1.5.0
load helpers.bash

setup_file()
{
	new_world
	make_users
	echo 'stay_on_gpus: no' >>"$RAD_CONFIG"	# scripts choose here
	start_radd
	export SIM=$WORLD/state/sim-devices
}

teardown_file() { end_world; }

setup() { cd "$WORLD/work"; }

teardown()
{
	for id in $(rad reserve --json | jq '.reservations[].id'); do rad reserve --delete "$id"; done
	[ "$(id -u)" != 0 ] || { as "$ALICE" rad cancel --all; as "$BOB" rad cancel --all; } >/dev/null 2>&1 || :
	end_tasks
}

# gpu INDEX FILTER
gpu() { rad gpus --json | jq -r ".gpus[] | select(.index == $1) | $2"; }
# gpu_is INDEX FILTER VALUE
gpu_is() { [ "$(gpu "$1" "$2")" = "$3" ]; }

# ---- tasks that went elsewhere ----

@test "a task that sets CUDA_VISIBLE_DEVICES itself is booked where it runs, and its owner is told" {
	local id
	id=$(submit --gpu-mem 9G -- sh -c 'CUDA_VISIBLE_DEVICES=3 exec rad simtask --mem 8G --seconds 600 --ramp 0')
	wait_for 10 reason_is "$id" OtherGpus
	[[ "$(field "$id" .reason_text)" == *"was given GPU 0; its processes are on GPU"* ]]
	wait_for 10 gpu_is 0 .mem_held_mib 0
	gpu_is 3 '.tasks | join(" ")' "$id"
	gpu_is 3 .mem_held_mib 9216
	wait_for 10 gpu_is 3 .mem_foreign_mib 0
	rad queue | grep -q '3 (OtherGpus)'
	rad show "$id" | grep -q 'given.*GPU 0'
	rad show --events "$id" | grep -q moved
	grep -q "task $id: attempt 1: was given" "$WORLD/radd.log"
	# GPU 0 serves others again, GPU 3 not those who want it alone.
	local alone
	alone=$(submit --exclusive -- sleep 600)
	wait_state "$alone" RUNNING
	gpu_is 3 '.tasks | join(" ")' "$id"
}

@test "where a task went is known after radd was killed" {
	local id
	id=$(submit --gpu-mem 9G -- sh -c 'CUDA_VISIBLE_DEVICES=3 exec rad simtask --mem 8G --seconds 600 --ramp 0')
	wait_for 10 gpu_is 3 '.tasks | join(" ")' "$id"
	kill_radd
	start_radd
	gpu_is 3 '.tasks | join(" ")' "$id"
	wait_for 10 gpu_is 0 .mem_held_mib 0
	reason_is "$id" OtherGpus
}

# ---- processes that are no task's ----

# stranger USER GPU NAME WORDS...: a process of that user's on that GPU, which no radd started; its pid is in $WORLD/stranger.
stranger()
{
	local user=$1 index=$2 uuid
	shift 2
	uuid=$(gpu "$index" .uuid)
	as "$user" env RAD_SIM_DEVICES="$SIM" CUDA_VISIBLE_DEVICES="$uuid" bash -c 'echo $$ >stranger; exec -a "$@"' x "$1" \
		rad simtask --ramp 0 --seconds 600 "${@:2}" 3>&- 4>&- >/dev/null 2>&1 &
	wait_for 10 sh -c "rad gpus --json | jq -e '.gpus[$index].processes[] | select(.mem_mib > 1024)'"
	cp "$WORLD/$user/stranger" "$WORLD/stranger"
}

end_stranger() { kill -9 "$(cat "$WORLD/stranger")"; wait_for 10 gpu_is "$1" .mem_foreign_mib 0; }

@test "who holds a GPU without a task is named: user, program and age; its arguments are for its owner and root" {
	need_root
	stranger "$BOB" 1 $'/opt/\e[2Jpython3' --mem 12G
	local id pid
	pid=$(cat "$WORLD/stranger")
	run as "$ALICE" rad gpus
	grep -Eq "^ +1 +A100-SXM4-40GB .* foreign *$" <<<"$output"
	[[ "$output" == *"GPU 1: 12.0G held by $BOB's ?[2Jpython3 (pid $pid, "*" s), not a task of rad"* ]]
	[[ "$output" != *$'\e[2J'* && "$output" != *--mem* ]]
	run as "$ALICE" rad gpus -v
	[[ "$output" == *foreign* && "$output" != *--mem* ]]
	[ "$(as "$ALICE" rad gpus --json | jq -r '.gpus[1].processes[0] | [.user, .program, .command] | @json')" = \
		'["'"$BOB"'","?[2Jpython3",null]' ]
	[[ "$(as "$BOB" rad gpus --json | jq -r '.gpus[1].processes[0].command')" == *"simtask --ramp 0"*"--mem 12G" ]]
	[[ "$(rad gpus -v)" == *"--mem 12G"* ]]
	# What it stands in the way of says so.
	id=$(as "$ALICE" rad submit --parsable --gpus 4 --gpu-mem 1G -- sleep 600)
	wait_for 10 reason_is "$id" Gpus
	run as "$ALICE" rad why "$id"
	[[ "${output//$'\n'/ }" == *"12.0G by $BOB's ?[2Jpython3 (pid"*"which is no task of rad"* ]]
	[[ "$output" != *--mem* ]]
	as "$ALICE" rad submit --dry-run --gpus 4 --gpu-mem 1G --json -- true >"$WORLD/dry"
	run ! grep -e --mem "$WORLD/dry"
	grep -q "which is no task of rad" "$WORLD/dry"
	end_stranger 1
}

# ---- drained GPUs ----

@test "a GPU is drained for a reason and a while: told to everybody, kept over a restart, over by itself" {
	local id until
	until=$(date -d '+1 hour' +%Y-%m-%dT%H:%M)
	rad drain 1 --reason $'fan\a is changed' --until "$until"
	rad gpus | grep -q "GPU 1: drained by $(id -un) since .* until $(date -d "$until" '+%Y-%m-%d %H:%M:%S'): fan? is changed"
	kill_radd
	start_radd
	gpu_is 1 .drained true
	gpu_is 1 .drain.reason 'fan? is changed'
	id=$(submit --gpus 4 --gpu-mem 1G -- true)
	wait_for 10 reason_is "$id" Gpus
	rad why "$id" | tr -s ' \n' ' ' | grep -q "GPU 1: drained by an administrator; .* (by $(id -un), since .*, until .*): fan? is changed"
	# Another end, which comes.
	rad drain 1 --for 2h --reason short
	gpu_is 1 .drain.reason short
	rad drain 1 --for 2s --reason short
	wait_state "$id" COMPLETED
	gpu_is 1 .drained false
	gpu_is 1 .drain null
	grep -q 'its time out of use is over' "$WORLD/radd.log"
}

@test "a drain whose end came while no radd ran is over at the start" {
	rad drain 2 --for 1s
	kill_radd
	read -r -t 1.2 <> <(:) || :
	start_radd
	gpu_is 2 .drained false
}

@test "a drain that cannot be is refused" {
	run rad drain 1 --until 2020-01-01
	[ "$status" -eq 2 ]
	[[ "${lines[0]}" == *"is past"* ]]
	run rad drain 1 --until 18:00 --for 2h
	[ "$status" -eq 2 ]
	run rad drain 1 --until 25:00
	[ "$status" -eq 2 ]
	run rad drain 1 --reason "$(printf 'x%.0s' {1..201})"
	[ "$status" -eq 2 ]
	one_line_error reason
	run rad undrain 1 --reason x
	[ "$status" -eq 2 ]
	gpu_is 1 .drained false
	if [ "$(id -u)" = 0 ]; then
		run as "$BOB" rad drain 1 --until 18:00
		one_line_error "for the administrator"
	fi
}

# ---- reservations ----

reservation_is()
{
	[ "$(rad reserve --json | jq -c '.reservations[0] | [.id, .user, .by, .reason, (.gpus | length)]')" = "$1" ]
}

@test "reserved GPUs are their user's: others end before or wait, and the reservation is told and kept" {
	need_root
	local id brief hers until
	rad reserve --gpus 0-3 --user "$ALICE" --begin now+1h --for 2h --reason demo >"$WORLD/made"
	until=$(rad reserve --json | jq -r '.reservations[0].end_time')
	grep -Eq "^Reservation 1: GPU 0-3, 2[-0-9: ]{18} to $(date -d "$until" '+%F %T')\$" "$WORLD/made"
	id=$(as "$BOB" rad submit --parsable --gpu-mem 1G -- true)
	wait_for 10 reason_is "$id" Reserved
	as "$BOB" rad queue | grep -q '(Reserved)'
	rad queue --start --json | jq -e --arg id "$id" '.starts[] | select(.id == $id) | .start_time == null'
	as "$BOB" rad why "$id" | tr -s ' \n' ' ' >"$WORLD/why"
	grep -q "GPU 0: reserved for another user in .*nobody knows how long the task takes.*(reserve_lead).*(reservation 1, of $ALICE)" "$WORLD/why"
	brief=$(as "$BOB" rad submit --parsable --time 30m --gpu-mem 1G -- sh -c :)	# of which nothing is learnt for the other
	as "$BOB" rad update "$id" --time 30m
	wait_state "$brief" COMPLETED
	wait_state "$id" COMPLETED
	# Whoever is refused for it reads the same time as in the list.
	id=$(as "$BOB" rad submit --parsable --time 30m --gpu-mem 1G -- sleep 600)
	wait_state "$id" RUNNING
	run as "$BOB" rad suspend "$id"
	one_line_error "is reserved for another user from $(date -d "$(rad reserve --json | jq -r '.reservations[0].begin_time')" '+%F %T') on,"
	as "$BOB" rad cancel "$id"
	wait_state "$id" CANCELLED
	rad gpus | grep -q "GPU 3: reserved for $ALICE from .* to .* (reservation 1)"
	kill_radd
	start_radd
	reservation_is '[1,"'"$ALICE"'","'"$(id -un)"'","demo",4]'
	# What ran before is known to be brief, and may start.
	wait_state "$(as "$BOB" rad submit --parsable --gpu-mem 1G -- true)" COMPLETED
	id=$(as "$BOB" rad submit --parsable --gpu-mem 1G -- sleep 0)
	hers=$(as "$ALICE" rad submit --parsable --gpu-mem 1G -- true)
	wait_for 10 reason_is "$id" Reserved
	wait_state "$hers" COMPLETED
	run as "$BOB" rad reserve --delete 1
	one_line_error administrator
	as "$ALICE" rad reserve --delete 1
	wait_state "$id" COMPLETED
	[ "$(rad reserve)" = "No GPU is reserved" ]
}

@test "a reservation begins and ends by itself; its user goes first, and whoever runs is left alone" {
	need_root
	local runs waits hers until
	runs=$(as "$BOB" rad submit --parsable --share streams --gpu-mem 1G -- sleep 600)
	wait_state "$runs" RUNNING
	rad reserve 4 --user "$ALICE" --for 10s >"$WORLD/made"
	until=$(rad reserve --json | jq -r '.reservations[0].end_time')
	grep -q '^Reservation [0-9]*: 4 GPUs, chosen now: GPU 0-3, 2' "$WORLD/made"	# in order, though the busy one was the last to be chosen
	grep -q "task $runs of $BOB runs on GPU 0, nobody knows for how long; it is not ended for it" "$WORLD/made"
	waits=$(as "$BOB" rad submit --parsable --share streams --gpu-mem 1G -- true)
	hers=$(as "$ALICE" rad submit --parsable --share streams --gpu-mem 1G -- true)
	wait_state "$hers" COMPLETED
	[ "$(state "$runs")" = RUNNING ]
	wait_state "$waits" COMPLETED
	[[ "$(field "$hers" .start_time)" < "$until" && ! "$(field "$waits" .start_time)" < "$until" ]]
	grep -q 'reservation .* is over' "$WORLD/radd.log"
}

@test "a reservation that cannot be is refused" {
	local line words
	while IFS='|' read -r words line; do
		eval "run rad reserve $words"
		[ "$status" -ne 0 ]
		[[ "$output" == "rad: "*"$line"* ]] || { echo "$words: $output"; return 1; }
	done <<-'END'
		2|give either --for or --end
		--for 2h|give either how many GPUs
		2 --gpus 0 --for 2h|give either how many GPUs
		0 --for 2h|'0' is not how many GPUs, 1 to 64: which ones is said by --gpus 0
		0,1 --for 2h|'0,1' is not how many GPUs, 1 to 64: which ones is said by --gpus 0,1
		99 --for 2h|GPUs
		5 --for 2h|4 of 4
		--gpus 7 --for 2h|GPU '7'
		--gpus 0,0 --for 2h|named twice
		--gpus 0, --for 2h|GPU ''
		2 --for 2h --user no-such-user-here|there is no user
		2 --for 2h --begin 2020-01-01|is past
		2 --begin 2031-02-30 --for 1h|no such day
		2 --begin now+2h --end now|before it begins
		2 --for 100d|90 days
		2 --for 0|out of range: write 1s
		2 --for soon|--for
		2 --begin 2090-01-01 --for 1h|within a year
		--delete 77|reservation 77
		--delete x|--delete
		--delete 1 2|--delete goes alone
	END
	[ "$(rad reserve)" = "No GPU is reserved" ]
}

# ---- containers ----

@test "a container's process is its task's by the attempt's token, counted where it is, and ended with it" {
	need_root
	local id token pid
	id=$(as "$ALICE" rad submit --parsable --gpu-mem 4G -- sh -c 'echo $RAD_TASK_TOKEN >token.new; mv token.new token; sleep 600')
	wait_for 10 test -s "$WORLD/$ALICE/token"
	token=$(cat "$WORLD/$ALICE/token")
	[[ "$token" =~ ^[0-9a-f]{32}$ ]]
	# The id alone proves nothing, nor does another token.
	RAD_TASK_ID=$id RAD_TASK_TOKEN=${token/[0-9]/x} stranger "$BOB" 2 python --mem 3G
	gpu_is 2 '.processes[0].task' null
	end_stranger 2
	RAD_TASK_ID=$id stranger "$BOB" 2 python --mem 3G
	gpu_is 2 '.processes[0].task' null
	end_stranger 2
	RAD_TASK_ID=$id RAD_TASK_TOKEN=$token stranger "$BOB" 2 python --mem 3G
	pid=$(cat "$WORLD/stranger")
	wait_for 10 gpu_is 2 '.tasks | join(" ")' "$id"
	gpu_is 2 .mem_held_mib 4096
	wait_for 10 gpu_is 2 .mem_foreign_mib 0	# with the next sample
	reason_is "$id" OtherGpus
	kill_radd
	start_radd
	wait_for 10 gpu_is 2 '.processes[0].task' "$id"
	rad cancel "$id"
	wait_state "$id" CANCELLED
	gone "$pid"
	wait_for 10 gpu_is 2 .mem_held_mib 0
	run ! grep -r "$token" "$WORLD/radd.log"
}

@test "a container that does not end when its task is cancelled is told, and killed after a while" {
	need_root
	local id pid
	rm -f "$WORLD/$ALICE/token"
	sed -i 's/^kill_wait: .*/kill_wait: 20/' "$RAD_CONFIG"	# longer than the task itself takes to end
	kill -HUP "$(cat "$WORLD/pid")"
	id=$(as "$ALICE" rad submit --parsable --gpu-mem 4G -- sh -c 'echo $RAD_TASK_TOKEN >token.new; mv token.new token; sleep 600')
	wait_for 10 test -s "$WORLD/$ALICE/token"
	RAD_TASK_ID=$id RAD_TASK_TOKEN=$(cat "$WORLD/$ALICE/token") stranger "$BOB" 2 python --mem 3G
	pid=$(cat "$WORLD/stranger")
	wait_for 10 gpu_is 2 '.processes[0].task' "$id"
	kill -STOP "$pid"	# SIGTERM does not end it
	rad cancel "$id"
	wait_state "$id" CANCELLED
	grep -q "task $id: has ended, and process $pid of its container has not" "$WORLD/radd.log"
	[ -e "/proc/$pid" ]
	gone "$pid"
	grep -q "task $id: killed process $pid of its container" "$WORLD/radd.log"
}
