#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Pilots on a queue of files: two or three on this machine stand for as many nodes, each with a folder and simulated GPUs of its own.
# Slurm is tests/fake-slurm.

bats_require_minimum_version 1.5.0
load helpers.bash

setup()
{
	new_world
	export FAKE_SLURM=$WORLD/slurm RAD_QUEUE=$WORLD/queue PATH=$BATS_TEST_DIRNAME/fake-slurm:$PATH
	unset "${!SLURM_@}" RAD_DEVICES
	mkdir "$FAKE_SLURM"
}

# All of a node names its folder, in its command or its environment.
processes_of()
{
	local p
	for p in /proc/[0-9]*; do
		{ cat "$p/cmdline" "$p/environ" | grep -q -a -F "$WORLD/$1/"; } 2>/dev/null && ! grep -q '^State:.Z' "$p/status" && echo "${p#/proc/}"
	done
	return 0
}

# What a power cut does.
kill_node()
{
	local pids
	while pids=$(processes_of "$1") && [ -n "$pids" ]; do
		kill -STOP $pids 2>/dev/null || :
		kill -9 $pids 2>/dev/null || :
	done
}

teardown()
{
	local n
	for n in n1 n2 n3; do kill_node $n; done
	[ -n "$BATS_TEST_COMPLETED" ] || tail -n 30 "$WORLD"/n?.log "$WORLD"/n?/state/radd/radd.log
	cd /
	rm -rf "$WORLD"
}

# pilot NODE [options]: in the background; its pid is in $WORLD/NODE.pid.
pilot()
{
	local node=$1
	shift
	mkdir -p "$WORLD/$node"
	rad pilot --devices sim:2xa100-40g --state "$WORLD/$node/state" "$@" >>"$WORLD/$node.log" 2>&1 3>&- 4>&- </dev/null &
	echo $! >"$WORLD/$node.pid"
}

# in_job NODE JOB [options]: the same in an allocation.
in_job()
{
	local node=$1 job=$2
	shift 2
	[ -e "$FAKE_SLURM/job.$job" ] || echo RUNNING 0 >"$FAKE_SLURM/job.$job"
	SLURM_JOB_ID=$job SLURM_CLUSTER_NAME=test SLURMD_NODENAME=$node pilot "$node" "$@"
}

agent_of() { ps -o pid= --ppid "$(cat "$WORLD/$1.pid")" | tr -d ' '; }
radd_of()
{
	local pid
	for pid in $(processes_of "$1"); do
		[ "$(cat "/proc/$pid/comm")" != radd ] || { echo "$pid"; return; }
	done
}
flying() { [ -n "$(RAD_QUEUE='' RAD_SOCKET=$WORLD/$1/state/radd.sock rad gpus --json | jq -r '.gpus[0].uuid')" ]; }

# counts NAME: a command that begins NAME once more (a line), runs until `go-NAME` is there, and ends it.
counts() { printf 'echo "$$" >>%s.begun; while [ ! -e go-%s ]; do sleep 0.1; done; echo >>%s.ended' "$1" "$1" "$1"; }
begun() { [ "$(cat "$1.begun" 2>/dev/null | wc -l)" -eq "${2:-1}" ]; }

@test "two nodes take tasks from one queue, and what they came to is in it" {
	local a b c
	a=$(submit --gpu-mem 2G --name first -- sh -c 'echo out; exit 3')
	b=$(submit --gpu-mem 2G --array=0-5 -- sh -c 'echo $RAD_ARRAY_TASK_ID $RAD_QUEUE_TASK >e.$RAD_ARRAY_TASK_ID')
	c=$(submit --gpus 2 --exclusive --output 'log-%j-%x.txt' --name 'per%cent' -- sh -c 'echo two')
	run rad show "$a"
	[[ "$output" == *NoPilot* ]]
	pilot n1
	pilot n2
	timeout 60 rad wait "$a" "$b" "$c" || [ $? = 3 ]
	[ "$(state "$a")" = FAILED ]
	[ "$(field "$a" .exit_code)" = 3 ]
	[ "$(field "$a" '.attempts[0].verdict')" = failed ]
	[ "$(cat e.[0-5] | sort | tr '\n' ,)" = "0 ${b}_0,1 ${b}_1,2 ${b}_2,3 ${b}_3,4 ${b}_4,5 ${b}_5," ]
	[ "$(cat "log-$c-per%cent.txt")" = two ]
	[ "$(rad logs "$a")" = out ]
	[ "$(rad show --events --json "$a" | jq -r '[.events[].event] | join(" ")')" = "submitted claimed ended" ] || rad show --events "$a" | grep -q started
	rad queue -t all --json | jq -e '[.tasks[].state] | length == 8 and all(. == "COMPLETED" or . == "FAILED")'
	kill "$(cat "$WORLD/n1.pid")" "$(cat "$WORLD/n2.pid")"
	gone "$(cat "$WORLD/n1.pid")"
	gone "$(cat "$WORLD/n2.pid")"
	[ -z "$(ls "$RAD_QUEUE/pilots" "$RAD_QUEUE/live" "$RAD_QUEUE/tmp" | grep -v :)" ]
	[ -z "$(processes_of n1)" ]
}

@test "pilot, agent and radd are killed, one by one and all together: each task is begun once" {
	local a b
	a=$(submit --gpu-mem 2G -- sh -c "$(counts a)")
	b=$(submit --gpu-mem 2G -- sh -c "$(counts b)")
	pilot n1
	wait_for 40 begun a
	wait_for 40 begun b
	kill -9 "$(agent_of n1)"
	kill -9 "$(radd_of n1)"
	: >go-a
	timeout 60 rad wait "$a"
	kill -9 "$(cat "$WORLD/n1.pid")"
	kill -9 "$(radd_of n1)"
	pilot n1
	: >go-b
	timeout 60 rad wait "$b"
	begun a && begun b
	[ "$(field "$a" .claims) $(field "$b" .claims)" = "1 1" ]
}

@test "a node that dies gives its tasks back when Slurm says that its job is over, and not before" {
	local a
	a=$(submit --gpu-mem 2G -- sh -c "$(counts a)")
	in_job n1 11
	wait_for 40 begun a
	in_job n2 12 --lease 10s
	wait_for 40 flying n2
	kill_node n1
	wait_for 60 grep -q 'is silent' "$WORLD/n2.log"
	[ "$(field "$a" .reason)" = PilotSilent ] || wait_for 20 sh -c "rad show $a | grep -q PilotSilent"
	: >"$FAKE_SLURM/down"
	begun a
	rm "$FAKE_SLURM/down"
	echo COMPLETING 0 >"$FAKE_SLURM/job.11"
	begun a
	echo NODE_FAIL 0 >"$FAKE_SLURM/job.11"
	wait_for 60 begun a 2
	: >go-a
	timeout 40 rad wait "$a"
	[ "$(wc -l <a.ended)" = 1 ]
	rad show --events "$a" | grep -q "returned .*n1 is gone: Slurm's job 11 is NODE_FAIL"
	[ "$(ls "$RAD_QUEUE/pilots" | wc -l)" = 1 ]
}

@test "without Slurm a dead node's tasks wait for a person; a living pilot's are not taken" {
	local a
	a=$(submit --gpu-mem 2G -- sh -c "$(counts a)")
	pilot n1
	wait_for 40 begun a
	run rad requeue --force "$a"
	one_line_error "lives, and has it"
	kill_node n1
	run rad requeue "$a"
	[ "$status" = 0 ]
	begun a
	rad requeue --force "$a"
	pilot n2
	wait_for 40 begun a 2
	: >go-a
	timeout 40 rad wait "$a"
}

@test "the allocation ends: tasks are told, save, and go on elsewhere; one that does not is begun anew" {
	local a b c
	cat >save.sh <<-'X'
		[ -e saved ] && exit 0
		trap ': >saved; exit 85' USR1
		while :; do sleep 0.1; done
	X
	a=$(submit --gpu-mem 2G -- bash save.sh)
	b=$(submit --gpu-mem 2G -- sh -c "$(counts b)")
	c=$(submit --gpu-mem 2G --no-requeue -- sh -c "$(counts c)")
	echo 0:24 >"$FAKE_SLURM/left.11"
	in_job n1 11 --margin 12s --grace 12s
	wait_for 40 begun b
	wait_for 40 begun c
	gone "$(cat "$WORLD/n1.pid")"
	[ -e saved ]
	[ "$(state "$a") $(state "$b") $(state "$c")" = "PENDING PENDING LOST" ]
	[ -z "$(processes_of n1)" ]
	: >go-b
	pilot n2
	timeout 60 rad wait "$a" "$b"
	[ "$(state "$a") $(state "$b")" = "COMPLETED COMPLETED" ]
	rad show --events --json "$a" | jq -e '[.events[].event] | index("saved")'
}

@test "SIGTERM ends a pilot within its grace; what was cut off three times is held, and says why" {
	local a i
	a=$(submit --gpu-mem 2G -- sh -c "$(counts a)")
	for i in 1 2 3; do
		pilot n1 --grace 6s
		wait_for 40 begun a $i
		kill -TERM "$(cat "$WORLD/n1.pid")"
		gone "$(cat "$WORLD/n1.pid")"
	done
	[ "$(state "$a")" = HELD ]
	rad show "$a" | grep -q '3 times in a row'
	rad release "$a"
	: >go-a
	pilot n1
	timeout 40 rad wait "$a"
}

@test "cancel, hold, release and requeue, of what waits and of what runs" {
	local a b
	a=$(submit --gpu-mem 2G -- sh -c "$(counts a)")
	b=$(submit --hold --gpu-mem 2G -- sh -c "$(counts b)")
	pilot n1
	wait_for 40 begun a
	rad requeue "$a"
	wait_for 40 begun a 2
	rad cancel "$a"
	timeout 40 rad wait "$a" || :
	[ "$(state "$a")" = CANCELLED ]
	[ "$(state "$b")" = HELD ]
	run rad release "$a"
	one_line_error "has ended"
	rad release "$b"
	wait_for 40 begun b
	: >go-b
	timeout 40 rad wait "$b"
	rad requeue "$b"
	wait_for 40 begun b 2
	timeout 40 rad wait "$b"
	run rad cancel 99
	one_line_error "there is no such task"
	run rad gpus
	one_line_error "is a queue of files"
	run rad submit --dependency=afterok:1 -- true
	one_line_error "--dependency: is not for a queue of files"
}

@test "what fits no pilot says so; what has no time here is not begun" {
	local a b
	a=$(submit --gpus 4 -- true)
	b=$(submit --time 2:00:00 --gpu-mem 2G -- true)
	pilot n1 --time 10:00
	wait_for 40 sh -c "rad show $a | grep -q NeverFits"
	wait_for 40 sh -c "rad show $b | grep -q 'asks for 02:00:00'"
	[ "$(state "$b")" = PENDING ]
}

@test "the queue goes away and comes back: what runs goes on, and is told then" {
	local a
	a=$(submit --gpu-mem 2G -- sh -c "$(counts a)")
	pilot n1
	wait_for 40 begun a
	mv "$RAD_QUEUE/live" "$RAD_QUEUE/gone"
	wait_for 40 grep -q 'the queue does not answer' "$WORLD/n1.log"
	: >go-a
	wait_for 20 test -e a.ended
	mv "$RAD_QUEUE/gone" "$RAD_QUEUE/live"
	timeout 60 rad wait "$a"
	begun a
}

@test "the queue hangs to the end: tasks are told all the same, and the next pilot there carries it back" {
	local a
	cat >save.sh <<-'X'
		[ -e saved ] && exit 0
		trap ': >saved; exit 85' USR1
		: >ready
		while :; do sleep 0.1; done
	X
	a=$(submit --gpu-mem 2G -- bash save.sh)
	pilot n1 --time 20s --margin 10s
	wait_for 40 test -e ready
	kill -STOP "$(agent_of n1)"	# as one that waits for a file server
	gone "$(cat "$WORLD/n1.pid")"
	[ -e saved ]
	grep -q 'the queue has not answered' "$WORLD/n1.log"
	[ "$(state "$a")" != COMPLETED ]
	pilot n1
	timeout 60 rad wait "$a"
	[ "$(rad show --events --json "$a" | jq -r '[.events[].event] | map(select(. == "saved")) | length')" = 1 ]
}

@test "two pilots on one GPU: the second is refused, and leaves nothing behind" {
	unset RAD_CLAIMS_DIR
	export RAD_FAKE_NVML=$WORLD/nvml.json RAD_NVML_LIBRARY=$RAD_BUILD_ROOT/tests/fake-nvml/libnvidia-ml.so.1
	export RAD_DCGM_LIBRARY=$WORLD/none.so
	printf 'mps: off\n' >>"$RAD_CONFIG"
	echo "{\"devices\": [{\"uuid\": \"GPU-pilot-$$\", \"pci\": [0, 1, 0], \"name\": \"NVIDIA H200\", \"cc\": [9, 0],
		\"cores\": 16896, \"total_mib\": 143771, \"reserved_mib\": 600, \"used_mib\": 0, \"power_mw\": 75000, \"processes\": [],
		\"mps\": [], \"fail\": {}, \"mig\": null, \"gpm\": {}}]}" >"$RAD_FAKE_NVML"
	pilot n1 --devices nvml
	wait_for 40 flying n1
	mkdir "$WORLD/n2"
	run --separate-stderr rad pilot --devices nvml --state "$WORLD/n2/state"
	[ "$status" = 1 ]
	[[ "$stderr" == *"GPU GPU-pilot-$$: another pilot of yours (pid $(cat "$WORLD/n1.pid")) has it"* ]]
	[ -z "$(processes_of n2)" ]
	kill "$(cat "$WORLD/n1.pid")"
	gone "$(cat "$WORLD/n1.pid")"
	rm -f "/tmp/rad-pilot-$(id -u)/gpu-GPU-pilot-$$"
}

@test "a pilot is refused with one line" {
	run rad pilot --queue "$RAD_QUEUE"
	one_line_error "this is no Slurm allocation"
	SLURM_JOB_ID=5 run rad pilot
	one_line_error "has no GPUs"
	RAD_QUEUE='' run rad pilot
	one_line_error "which queue?"
	run rad pilot --devices sim:1xa100-40g --queue /usr
	one_line_error "holds other things"
	rad submit --parsable -- true
	sed -i 's/"format":1/"format":9/' "$RAD_QUEUE/spool"
	run rad pilot --devices sim:1xa100-40g
	one_line_error "format 9"
	run rad queue
	one_line_error "use the newer rad"
	sed -i 's/"format":9/"format":1/' "$RAD_QUEUE/spool"
	chmod 777 "$RAD_QUEUE"
	run rad submit -- true
	one_line_error "chmod go-w"
	chmod 700 "$RAD_QUEUE"
	pilot n1
	wait_for 40 flying n1
	run rad pilot --devices sim:2xa100-40g --state "$WORLD/n1/state"
	one_line_error "a pilot is at work here already"
}

@test "torn and strange files in the queue keep nobody from the rest" {
	local a b
	a=$(submit --gpu-mem 2G -- true)
	b=$(submit --gpu-mem 2G -- true)
	printf '{"format":1,"sta' >"$RAD_QUEUE/jobs/$a/t.1"
	: >"$RAD_QUEUE/live/strange"
	: >"$RAD_QUEUE/live/77"
	mkdir "$RAD_QUEUE/pilots/odd"
	ln -s /etc/passwd "$RAD_QUEUE/pilots/odd/status"
	mkdir "$RAD_QUEUE/jobs/3"
	printf '[[[[' >"$RAD_QUEUE/jobs/3/job"
	: >"$RAD_QUEUE/live/3"
	pilot n1
	timeout 40 rad wait "$b"
	[ "$(state "$a") $(field "$a" .reason)" = "HELD Broken" ]
	rad show "$a" | grep -q 'cannot be read'
	rad requeue "$a"
	timeout 40 rad wait "$a"
	run rad show 3
	one_line_error "cannot be read"
	[ "$(submit --gpu-mem 2G -- true)" = 4 ]
}

@test "allocations are asked for as the queue needs them, and a pilot with nothing to do leaves" {
	local i
	run rad pilot --submit
	one_line_error "there is no queue there"
	for i in 1 2 3 4 5; do submit --gpu-mem 2G -- true; done
	submit --hold -- true
	run rad pilot --submit --each 2 --most 2 --time 4:00:00 -- --partition=gpu --gres=gpu:2
	[ "$status" = 0 ]
	[ "${lines[2]}" = "5 tasks wait; 2 allocations are there or asked for" ]
	grep -q -- '--time 4:00:00 --partition=gpu --gres=gpu:2' "$FAKE_SLURM/asked.701"
	grep -q "^exec srun .*rad' pilot --queue '$RAD_QUEUE' --idle '5m'" "$FAKE_SLURM/asked.702"
	run rad pilot --submit --each 2 --most 9 --json
	[ "$(jq -c '[.waiting, .allocations, .jobs]' <<<"$output")" = '[5,2,["703"]]' ]
	: >"$FAKE_SLURM/refuses"
	run rad pilot --submit --each 1 --most 9
	one_line_error "Invalid account"
	: >"$FAKE_SLURM/down"
	run rad pilot --submit
	one_line_error "Unable to contact slurm controller"
	rm "$FAKE_SLURM/down"
	PATH=$(dirname "$(command -v rad)"):/usr/bin:/bin run rad pilot --submit
	[ "$status" = 3 ] || command -v squeue
	pilot n1 --idle 3s
	gone "$(cat "$WORLD/n1.pid")"
	rad queue -t CD --json | jq -e '.tasks | length == 5'
}
