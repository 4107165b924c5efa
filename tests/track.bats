#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# rad track: runs of MLflow, exactly once, whatever goes wrong between. Against a server of a few lines (mlflow/fake-mlflow) that keeps
# what it gets as it came; the last test against MLflow itself, where `mlflow` is in PATH.

bats_require_minimum_version 1.5.0
load helpers.bash

FAKE=$BATS_TEST_DIRNAME/mlflow/fake-mlflow

# start_fake FOLDER [PORT]: URI is where it listens.
start_fake()
{
	mkdir -p "$1"
	rm -f "$1/port"
	PORT=${2:-0} "$FAKE" "$1" 3>&- 4>&- >>"$1/log" 2>&1 </dev/null &
	echo $! >"$1/pid"
	wait_for 10 test -s "$1/port" || { cat "$1/log"; return 1; }
	port=$(cat "$1/port")
	export URI=http://127.0.0.1:$port
}

stop_fake()
{
	kill -9 "$(cat "$1/pid")" 2>/dev/null || return 0
	gone "$(cat "$1/pid")"
}

setup_file()
{
	new_world
	unset MLFLOW_TRACKING_URI MLFLOW_EXPERIMENT_NAME MLFLOW_TRACKING_TOKEN MLFLOW_TRACKING_USERNAME MLFLOW_TRACKING_PASSWORD
	unset XDG_STATE_HOME http_proxy https_proxy all_proxy
	DEVICES=sim:2xa100-40g start_radd
	git init -q repo
	git -C repo -c user.name=x -c user.email=x@y commit -q --allow-empty -m x
	# One of each kind: ended, failed, cancelled, run again after it ran out of memory.
	submit --gpu-mem 4G --gpus 2 --chdir repo --name two bash -c 'exec rad simtask --mem 3G --seconds 1.5' x --lr 0.1 --amp
	submit --gpu-mem 1G --name bad bash -c 'exit 3'
	submit --gpu-mem 1G --name long rad simtask --mem 1G --seconds 600
	submit --gpu-mem 2G --name oom rad simtask --mem 6G --seconds 1
	wait_state 1 COMPLETED
	wait_state 2 FAILED
	wait_state 3 RUNNING
	rad cancel 3
	wait_state 3 CANCELLED
	wait_state 4 COMPLETED
}

teardown_file() { end_world; }

setup()
{
	cd "$WORLD/work"
	M=$WORLD/mlflow-$BATS_TEST_NUMBER
	CURSOR=$M/cursor.json
	mkdir -p "$M"
}

teardown()
{
	local f
	for f in "$M/track.pid" "$M/pid"; do
		[ ! -s "$f" ] || kill -9 "$(cat "$f")" 2>/dev/null || :
	done
	# MLflow's server has processes of its own, in its group.
	[ ! -s "$M/server.pid" ] || kill -9 -- "-$(cat "$M/server.pid")" 2>/dev/null || :
}

once() { timeout 200 rad track --mlflow "$URI" --cursor "$CURSOR" --once "$@"; }

# start_track OPTIONS...: what it says is in $M/out.
start_track()
{
	rad track --mlflow "$URI" --cursor "$CURSOR" "$@" >"$M/out" 2>&1 3>&- 4>&- </dev/null &
	echo $! >"$M/track.pid"
}

stop_track()
{
	kill "-${1:-TERM}" "$(cat "$M/track.pid")"
	gone "$(cat "$M/track.pid")"
}

# run_of TASK FILTER: of the one run that task has.
run_of()
{
	jq -r --arg t "$1" '[.runs[] | select(.tags[] | .key == "rad.task" and .value == $t)] | if length == 1 then .[0] else
		error("task \($t): \(length) runs") end | '"$2" "$M/runs.json"
}
tag() { run_of "$1" ".tags[] | select(.key == \"$2\").value"; }
param() { run_of "$1" ".params[] | select(.key == \"$2\").value"; }

# No run twice, and no point.
nothing_twice()
{
	jq -e '[.runs[] | .tags[] | select(.key == "rad.key").value] | length == (unique | length)' "$M/runs.json" >/dev/null ||
		{ echo "a run is there twice"; return 1; }
	jq -e 'all(.runs[]; [.metrics[] | select(.key | startswith("system/")) | [.key, .step]] | length == (unique | length))' \
		"$M/runs.json" >/dev/null || { echo "a point is there twice"; return 1; }
}

# Every task's run, with its points and its end.
all_there()
{
	local id
	for id in 1 2 3 4; do
		[ -n "$(run_of $id '.info.end_time // empty')" ] || { echo "task $id has no end"; return 1; }
	done
	[ "$(run_of 1 '[.metrics[] | select(.key == "system/gpu_1_memory_usage_megabytes")] | length')" -ge 1 ] &&
		[ "$(run_of 3 '[.metrics[] | select(.key == "system/gpu_0_memory_usage_megabytes" or
			.key == "system/gpu_1_memory_usage_megabytes")] | length')" -ge 1 ]
}

@test "tasks are runs, in MLflow's words and with its names of metrics" {
	start_fake "$M"
	run -0 once
	[[ "$output" == "4 new runs, "* ]]
	all_there
	nothing_twice
	[ "$(for i in 1 2 3 4; do run_of $i .info.status; done | tr '\n' ' ')" = "FINISHED FAILED KILLED FINISHED " ]
	[ "$(run_of 1 .info.run_name)" = two-1 ]
	[ "$(tag 1 mlflow.user)" = "$(id -un)" ]
	[ "$(param 1 gpus)/$(param 1 lr)" = 2/0.1 ]
	[ "$(tag 2 rad.exit_code)" = 3 ]
	[ "$(tag 4 rad.state)" = COMPLETED ]
	[ "$(run_of 4 '.metrics[] | select(.key == "rad/attempts").value')" -ge 2 ]
	local gpu
	for gpu in 0 1; do
		for name in memory_usage_megabytes memory_usage_percentage utilization_percentage power_usage_watts; do
			run_of 1 '.metrics[].key' | grep -qx "system/gpu_${gpu}_$name"
		done
	done
	run_of 1 '.metrics[].key' | grep -qx 'system/DCGMI - SM Active'
	# The daemon's own times: submitted, started and ended.
	[ "$(run_of 1 .info.end_time)" -gt "$(run_of 1 .info.start_time)" ]
}

@test "a run that goes on: its commit, its points as they come, and its end" {
	start_fake "$M"
	local id
	id=$(submit --gpu-mem 1G --chdir repo rad simtask --mem 1G --seconds 600)
	wait_state "$id" RUNNING
	start_track --interval 1
	wait_for 20 run_of "$id" .info.run_id
	[ "$(tag "$id" mlflow.source.git.commit)" = "$(git -C repo rev-parse HEAD)" ]
	[ "$(run_of "$id" .info.status)" = RUNNING ]
	rad cancel "$id"
	wait_for 20 eval '[ "$(run_of '"$id"' .info.status)" = KILLED ]'
	run once
	one_line_error "another rad track is sending there already"
	[ "$status" -eq 1 ]
	stop_track
	nothing_twice
}

@test "a host whose name is not UTF-8: a task has one run, however often it is looked at" {
	need_root
	unshare -u true 2>/dev/null || skip "no host can be named here"
	start_fake "$M"
	local id rename='import os, socket, sys; socket.sethostname(b"caf\xe9"); os.execvp(sys.argv[1], sys.argv[1:])'
	id=$(submit --gpu-mem 1G rad simtask --mem 1G --seconds 600)
	wait_state "$id" RUNNING
	timeout 200 unshare -u python3 -c "$rename" rad track --mlflow "$URI" --cursor "$CURSOR" --once
	rad cancel "$id"
	wait_state "$id" CANCELLED
	timeout 200 unshare -u python3 -c "$rename" rad track --mlflow "$URI" --cursor "$CURSOR" --once
	[ "$(run_of "$id" .info.status)" = KILLED ]
	[[ "$(tag "$id" rad.key)" == "caf?:$id:"* ]]
}

@test "nothing is sent twice: not by a second call, and not without its cursor" {
	start_fake "$M"
	once
	all_there
	cp "$M/runs.json" before.json
	run -0 once
	[ "$output" = "0 new runs, 0 points" ]
	rm "$CURSOR"
	run -0 once
	[ "$output" = "0 new runs, 0 points" ]
	diff <(jq -S '.runs[] | [.info, (.metrics | map(select(.key | startswith("system/"))))]' before.json) \
		<(jq -S '.runs[] | [.info, (.metrics | map(select(.key | startswith("system/"))))]' "$M/runs.json")
}

@test "an answer that is lost, a server that is busy or broken: each is tried again, and nothing is there twice" {
	start_fake "$M"
	printf '%s\n' "experiments/create lose" "runs/create lose" "runs/log-batch lose" "runs/log-batch 429" "runs/update lose" \
		"runs/search 404html" "runs/log-batch lose" >"$M/faults"
	start_track --interval 1
	wait_for 40 all_there || { cat "$M/out" "$M/faults"; all_there; jq -c .calls "$M/runs.json"; return 1; }
	stop_track
	[ ! -s "$M/faults" ]
	nothing_twice
	grep -q 'trying again until it answers' "$M/out"
	grep -q 'it answers again' "$M/out"
}

@test "killed where an answer is awaited: the next one goes on, and nothing is there twice" {
	start_fake "$M"
	local at
	for at in runs/create runs/log-batch runs/update runs/log-batch; do
		echo "$at stall" >"$M/faults"
		start_track --once
		wait_for 20 test ! -s "$M/faults"
		stop_track KILL
	done
	once
	all_there
	nothing_twice
}

@test "a server that is away holds nothing up, and gets everything when it is back" {
	start_fake "$M"
	port=${URI##*:}
	stop_fake "$M"
	start_track --interval 1
	wait_for 10 grep -q 'trying again' "$M/out"
	local id
	id=$(submit --gpu-mem 1G true)
	wait_state "$id" COMPLETED
	start_fake "$M" "$port"
	wait_for 30 all_there
	wait_for 30 run_of "$id" .info.end_time
	# Away once more, while it sends: radd goes on, and so does it.
	stop_fake "$M"
	id=$(submit --gpu-mem 1G true)
	wait_state "$id" COMPLETED
	start_fake "$M" "$port"
	wait_for 30 run_of "$id" '.info.end_time // error'
	stop_track
	nothing_twice
	[ "$(grep -c 'trying again' "$M/out")" -le 3 ]
}

@test "who asks is told by variables or a file, and stands on no command line" {
	start_fake "$M"
	MLFLOW_TRACKING_TOKEN=t0ken once --since 1s
	[ "$(jq -r '.auth | unique[]' "$M/runs.json")" = "Bearer t0ken" ]
	mkdir -p "$HOME/.mlflow"
	printf '[mlflow]\nmlflow_tracking_username = ann\nmlflow_tracking_password = s3cret\n' >"$HOME/.mlflow/credentials"
	once --since 1s
	[ "$(jq -r '.auth[-1]' "$M/runs.json")" = "Basic $(printf ann:s3cret | base64)" ]
	rm -r "$HOME/.mlflow"
	run -2 rad track --once --mlflow "http://ann:s3cret@${URI#http://}"
	one_line_error "set MLFLOW_TRACKING_USERNAME"
	[[ "$output" != *s3cret* ]]
	echo "experiments/get-by-name 401" >"$M/faults"
	run -1 once
	one_line_error "does not let you in"
}

@test "what cannot be is said in one line" {
	run -2 rad track
	[[ "$output" == "rad: track: where to? "* ]] || [[ "$output" == *"where to?"* ]]
	run -2 rad track --once --mlflow sqlite:///mlflow.db
	one_line_error "expected the address of an MLflow server"
	URI=http://127.0.0.1:1
	run -1 once
	[[ "${lines[-1]}" == "rad: http://127.0.0.1:1: "* ]]
	start_fake "$M"
	run -2 once --user no-such-user
	[[ "$output" == *"no user 'no-such-user'"* ]]
	RAD_SOCKET=$M/none run -3 once
	echo '{}' >"$CURSOR"
	run -1 once
	one_line_error "is no cursor of rad track"
}

@test "of more tasks than one answer of radd's holds, none is left out" {
	local id
	start_fake "$M"
	submit --hold --array 0-9999 true >/dev/null
	submit --hold --array 0-99 true >/dev/null
	rad cancel --all
	id=$(submit --gpu-mem 1G true)
	rad wait "$id"
	run -0 once --since 1h
	all_there
	nothing_twice
	[ "$(run_of "$id" .info.status)" = FINISHED ]
	run -0 once
	[ "$output" = "0 new runs, 0 points" ]
}

@test "MLflow itself says the same" {
	command -v mlflow >/dev/null || skip "no mlflow in PATH (pip install mlflow)"
	local port
	port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
	URI=http://127.0.0.1:$port
	setsid mlflow server --host 127.0.0.1 --port "$port" --workers 1 --backend-store-uri "sqlite:///$M/mlflow.db" \
		--artifacts-destination "$M/artifacts" >"$M/log" 2>&1 3>&- 4>&- </dev/null &
	echo $! >"$M/server.pid"
	wait_for 200 curl -sf "$URI/health" || { cat "$M/log"; return 1; }
	run -0 once
	[[ "$output" == "4 new runs, "* || "$output" == *" new runs, "* ]]
	rm "$CURSOR"
	run -0 once
	[ "$output" = "0 new runs, 0 points" ]
	curl -sf -H 'Content-Type: application/json' -d '{"experiment_ids": ["1"], "filter": "tags.`rad.task` = '"'1'"'"}' \
		"$URI/api/2.0/mlflow/runs/search" >found.json
	[ "$(jq -r '.runs | length' found.json)" = 1 ]
	jq -e '.runs[0].data.metrics[].key' found.json | grep -q 'system/gpu_0_utilization_percentage'
	[ "$(jq -r '.runs[0].info.status' found.json)" = FINISHED ]
}
