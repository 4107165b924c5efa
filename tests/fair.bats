#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Several users who want the same GPUs: whose turn it is, what each may have, what each had. Accounts that every system has stand
# for the users; without root the parts that one user can try are tried.

bats_require_minimum_version 1.5.0
load helpers.bash

setup()
{
	new_world
	printf 'placement: exclusive\n' >>"$RAD_CONFIG"
	make_users
	chmod 755 "$WORLD/work"
}

teardown() { : >"$WORLD/work/go"; end_world; }

# Runs until the test says go.
GATED='until [ -e "$WORLD/work/go" ]; do read -r -t 0.05 <> <(:) || :; done'
gated() { as "$1" rad submit --parsable "${@:2}" -- bash -c "$GATED"; }

# until COMMAND: within 80 s.
until_true()
{
	local until=$((SECONDS + 80))
	until "$@"; do
		[ $SECONDS -lt $until ] || return 1
		read -r -t 0.05 <> <(:) || :
	done
}
reload()
{
	local before
	before=$(grep -c SIGHUP "$WORLD/radd.log" || :)
	kill -HUP "$(cat "$WORLD/pid")"
	until_true eval '[ "$(grep -c SIGHUP "$WORLD/radd.log")" -gt '"$before"' ]'
}

# user NAME FILTER: of `rad limit --json`.
user() { rad limit --json | jq -r ".users[] | select(.user == \"$1\") | $2"; }

@test "an array of one user lets another's first task have the next GPU" {
	need_root
	local first array
	DEVICES=sim:2xa100-40g start_radd
	array=$(as "$ALICE" rad submit --parsable --array=0-59 -- sleep 0.2)
	until_true eval '[ "$(rad acct --since 1h --json | jq ".tasks | length")" -ge 2 ]'
	first=$(as "$BOB" rad submit --parsable -- true)
	as "$ALICE" rad submit --array=0-59 -- sleep 0.2
	timeout 100 rad wait "$first"
	# Hers that were placed while his waited: none, but for what was decided in the moment in which his came.
	rad acct --since 1h --json >acct.json
	rad queue --json -t all >queue.json
	from=$(field "$first" .submit_time) to=$(field "$first" .start_time)
	run jq -n --arg from "$from" --arg to "$to" '[inputs.tasks[] | select(.user == "'"$ALICE"'") | .attempts[]?.start
		| select(. > $from and . < $to)] | unique | length' acct.json queue.json
	[ "$output" -le 2 ]
	[ "$(user "$ALICE" '.used_s > 0')" = true ]
	as "$ALICE" rad cancel --all >/dev/null 2>&1 || :	# some end meanwhile
}

@test "why says whose turn it is, and by which figure" {
	need_root
	local runs hers his
	DEVICES=sim:1xa100-40g start_radd
	runs=$(gated "$ALICE")
	until_true state_is "$runs" RUNNING
	hers=$(gated "$ALICE")
	his=$(gated "$BOB")
	run rad why "$hers"
	[[ "$output" == *"It is $BOB's turn (task $his: its user is owed a start, and GPUs are kept for it)"*"$ALICE had "*"and runs 1"* ]]
	rad why --json "$hers" | jq -e --arg his "$his" '.turn | .user == "'"$BOB"'" and .task == $his and .own_running == 1
		and .used_s == 0 and .own_used_s >= 0 and .half_life_s == 604800'
	[ "$(rad queue --json | jq -r '[.tasks[].id] | join(" ")')" = "$runs $his $hers" ]
	: >"$WORLD/work/go"
	timeout 100 rad wait "$his"
	printf 'fair: off\n' >>"$RAD_CONFIG"
	reload
	rad why --json "$hers" | jq -e '.turn == null'
}

@test "limits by user and group: others go on, the first that is too much waits, an administrator raises, SIGHUP reloads" {
	need_root
	local group one two his
	group=$(id -gn "$ALICE")
	printf 'max_running: 3\ngroup:%s: max_running=1\n' "$group" >>"$RAD_CONFIG"
	start_radd
	one=$(gated "$ALICE")
	two=$(gated "$ALICE")
	his=$(gated "$BOB")
	until_true state_is "$his" RUNNING
	until_true state_is "$one" RUNNING
	state_is "$two" PENDING
	reason_is "$two" UserLimit
	run rad why "$two"
	[[ "$output" == *"user $ALICE may have max_running 1 and has 1 now, and it asks for 1; the limit is group:$group in $RAD_CONFIG:"* ]]
	# Nobody but the administrator raises it, and nobody sets another's.
	run as "$ALICE" rad limit max_running=5
	[[ "$output" == *"own max_running has no effect"* ]]
	reason_is "$two" UserLimit
	run ! as "$BOB" rad limit --user "$ALICE" max_running=5
	[[ "$output" == *"administrator"* ]]
	rad limit --user "$ALICE" max_running=2
	until_true state_is "$two" RUNNING
	[ "$(user "$ALICE" .limits.max_running)" = 2 ]
	# His own, lower than what he may have, and over a restart.
	as "$BOB" rad limit max_running=1
	stop_radd
	start_radd
	[ "$(user "$BOB" .limits.max_running)" = 1 ]
	[ "$(user "$ALICE" .limits.max_running)" = 2 ]
	two=$(gated "$BOB")
	until_true reason_is "$two" UserLimit
	as "$BOB" rad limit max_running=default
	until_true state_is "$two" RUNNING
	# A file that is read again.
	printf 'user:%s: max_running=2\n' "$BOB" >>"$RAD_CONFIG"
	reload
	[ "$(user "$BOB" .limits.max_running)" = 2 ]
	reason_is "$(gated "$BOB")" UserLimit
}

@test "limits of a group are told as soon as the file is read again, of who has nothing there too" {
	need_root
	start_radd
	as "$ALICE" rad submit --wait true
	[ "$(user "$ALICE" .limits.max_running)" = null ]
	printf 'max_running: 3\ngroup:%s: max_running=1\n' "$(id -gn "$ALICE")" >>"$RAD_CONFIG"
	reload
	[ "$(user "$ALICE" .limits.max_running)" = 1 ]
	[ "$(as "$BOB" rad limit --json | jq -r ".users[] | select(.user == \"$BOB\") | .limits.max_running")" = 3 ]
}

@test "what is too much is refused in one line that says whose limit it is" {
	need_root
	printf 'max_queued: 2\nuser:%s: max_gpus=1 max_mem=10G\n' "$ALICE" >>"$RAD_CONFIG"
	start_radd
	run ! as "$ALICE" rad submit --array=0-2 -- true
	[ "${#lines[@]}" -eq 1 ]
	[[ "$output" == *"3 more tasks: you have 0 unfinished ones, and may have 2 (max_queued: max_queued in $RAD_CONFIG:"*"): wait for some to end"* ]]
	run ! as "$ALICE" rad submit --gpus 2 -- true
	[[ "$output" == *"asks for 2 GPUs, and you may have 1 at a time (max_gpus: user:$ALICE in $RAD_CONFIG:"* ]]
	run ! as "$ALICE" rad submit --gpu-mem 20G -- true
	[[ "$output" == *"20.0G of GPU memory, and you may have 10.0G at a time (max_mem: user:$ALICE"* ]]
	run ! as "$ALICE" rad submit --gpu-mem 10241M -- true	# both would read 10.0G
	[[ "$output" == *"10241M of GPU memory, and you may have 10240M at a time"* ]]
	[ "$(rad queue --json | jq '.tasks | length')" = 0 ]
	as "$BOB" rad submit --gpus 2 -- true
	run ! rad limit --user "$ALICE" max_gpu=1
	[[ "$output" == *"expected max_running=N"* ]]
	run ! rad limit --user nobody-at-all max_gpus=1
	[[ "$output" == *"there is no user"* ]]
}

@test "GPU time of users survives radd's end, and its being killed" {
	local used me
	me=$(id -un)
	start_radd
	rad submit --parsable -- bash -c "$GATED"
	until_true eval '[ "$(user '"$me"' ".used_s > 0.5")" = true ]'
	used=$(user "$me" .used_s)
	stop_radd
	start_radd
	user "$me" ".used_s >= $used" | grep -q true
	[ "$(user "$me" .running)" = 1 ]
	kill_radd
	start_radd
	user "$me" ".used_s >= $used" | grep -q true
}

@test "a user without rights limits what his own radd starts" {
	local one two
	if [ "$(id -u)" = 0 ]; then
		mkdir -p "$WORLD/state"
		chown -R "$ALICE" "$WORLD"
		exec() { command exec setpriv --reuid "$ALICE" --regid "$(id -g "$ALICE")" --clear-groups "$@"; }
		rad() { setpriv --reuid "$ALICE" --regid "$(id -g "$ALICE")" --clear-groups rad "$@"; }
		radd() { command exec setpriv --reuid "$ALICE" --regid "$(id -g "$ALICE")" --clear-groups "$(command -v radd)" "$@"; }
	fi
	start_radd
	rad limit max_running=1 | grep -q 'max_running=1'
	one=$(rad submit --parsable -- bash -c "$GATED")
	two=$(rad submit --parsable -- bash -c "$GATED")
	until_true state_is "$one" RUNNING
	until_true reason_is "$two" UserLimit
	rad limit max_running=off
	until_true state_is "$two" RUNNING
}

@test "acct: sums by user, group and month" {
	local me month
	me=$(id -un)
	month=$(date +%Y-%m)
	start_radd
	rad submit --array=0-2 -- true
	timeout 100 rad wait 1
	rad acct --month --by user,month --json >sums.json
	jq -e --arg me "$me" --arg month "$month" '.tasks == [] and .totals.tasks == 3 and (.groups | length) == 1
		and (.groups[0] | .user == $me and .month == $month and .gid == null and .tasks == 3 and .gpu_s >= 0)' sums.json
	[ "$(rad acct --by group --json | jq -r '.groups[0].group')" = "$(id -gn)" ]
	run rad acct --by user
	[[ "${lines[0]}" == "3 tasks in 3 attempts"* ]]
	grep -Eq '^USER +TASKS +OOM +GPU HOURS +SHARES +MEAN WAIT +MEAN RUN +PEAK +ENERGY (J|Wh)$' <<<"$output"
	[[ "$(rad acct --by month --csv)" == *",,$month,3,0,3,"* ]]
	[ "$(rad acct --until 2020-01-01 --since 2019-01-01 --by user --json | jq '.groups | length')" = 0 ]
	[ "$(rad acct --until 2020-01-01 --since 2019-01-01 --by user)" = "No task ended in that time" ]
	run ! rad acct --by colour
	[[ "$output" == *"expected user, group or month"* ]]
	run ! rad acct --month --since 1d
	[ "$status" -eq 2 ]
}

@test "acct: a month is one of the calendar of who asks, not of radd's" {
	local first ahead
	mkdir "$WORLD/machine"
	first=$(TZ=UTC date +%Y-%m-01T02:00:00Z)
	ahead=$(($(date -d "$first" +%s) - $(date +%s)))
	python3 -c 'import struct, sys; open(sys.argv[1], "wb").write(struct.pack("=q", int(sys.argv[2])))' "$WORLD/machine/clock" "$ahead"
	TZ=UTC FAKE_MACHINE=$WORLD/machine LD_PRELOAD=$RAD_BUILD_ROOT/tests/fake-machine/libfake-machine.so start_radd
	rad submit --wait -- true
	[ "$(TZ=UTC rad acct --since 2020-01-01 --by month --json | jq -r '.groups[].month')" = "${first%-*}" ]
	[ "$(TZ=EST5 rad acct --since 2020-01-01 --by month --json | jq -r '.groups[].month')" = "$(TZ=EST5 date -d "$first" +%Y-%m)" ]
	[ "$(TZ=EST5 rad acct --month="$(TZ=EST5 date -d "$first" +%Y-%m)" --by month --json | jq '.groups | length')" -eq 1 ]
}

@test "limits of a user whom radd has not met yet: he is called by his name" {
	need_root
	start_radd
	[ "$(rad limit --user "$ALICE" max_gpus=1 | head -n 1)" = "$ALICE: max_gpus=1" ]
	# Asked for by anybody, without a change.
	[ "$(as "$BOB" rad limit --user "$ALICE")" = "$(printf '%s: max_gpus=1\n  max_gpus: an administrator'"'"'s, by rad limit' "$ALICE")" ]
	[ "$(as "$BOB" rad limit -u "$BOB")" = "$BOB: no limits" ]
	[ "$(rad limit --user "$ALICE" --json | jq .limits.max_gpus)" = 1 ]
}
