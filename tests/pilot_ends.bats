#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Pilots on a queue of files: how they begin, and how their allocations end.

bats_require_minimum_version 1.5.0
load helpers.bash
load pilot.bash

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
	timeout 200 rad wait "$a" "$b"
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
	timeout 100 rad wait "$a"
}

@test "a task that failed waits for its retry at its pilot, which takes others meanwhile" {
	local a b
	a=$(submit --gpu-mem 2G --retries 2 -- sh -c 'echo $RAD_ATTEMPT >>tried; [ "$RAD_ATTEMPT" = 3 ]')
	pilot n1
	wait_for 60 grep -qs 2 tried
	b=$(submit --gpu-mem 2G -- sh -c 'cp tried seen')
	timeout 200 rad wait "$b"
	[ "$(tail -n 1 seen)" = 2 ]
	timeout 200 rad wait "$a"
	[ "$(state "$a")" = COMPLETED ]
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
	timeout 200 rad wait "$a"
	[ "$(rad show --events --json "$a" | jq -r '[.events[].event] | map(select(. == "saved")) | length')" = 1 ]
}

@test "the pilot's radd hangs to the end: tasks are told all the same, and the keeper goes when the time is over" {
	printf 'trap ": >told" USR1; : >ready; while :; do sleep 0.1; done\n' >hear.sh
	submit --gpu-mem 2G -- bash hear.sh
	pilot n1 --time 14s --margin 6s
	wait_for 40 test -e ready
	kill -STOP "$(radd_of n1)"
	wait_for 20 test -e told
	gone "$(cat "$WORLD/n1.pid")"
	grep -q 'the allocation is over' "$WORLD/n1.log"
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

@test "a pilot's radd has its user's settings, wherever those of any radd would be" {
	[ "$(id -u)" -ne 0 ] || skip "root's are in /etc"
	mkdir -p "$WORLD/plain/.config/rad"
	printf 'slack: 7\n' >"$WORLD/plain/.config/rad/rad.conf"
	(unset RAD_CONFIG; HOME=$WORLD/plain XDG_CONFIG_HOME='' pilot n1)
	wait_for 40 flying n1
	grep -qx 'slack: 7' "$WORLD/n1/state/rad.conf"
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
	mkdir -m 777 "$WORLD/everybodys"
	run rad pilot --devices sim:1xa100-40g --state "$WORLD/everybodys/state"
	one_line_error "the pilot's folder on this node (--state): $WORLD/everybodys: belongs to uid"
	one_line_error "others could take our place there: give another folder with --state"
	pilot n1
	wait_for 40 flying n1
	run rad pilot --devices sim:2xa100-40g --state "$WORLD/n1/state"
	one_line_error "a pilot is at work here already"
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
	run rad pilot --submit --each 2 --most 9 --json -- $(seq 300)
	[ "$(jq -c '[.waiting, .allocations, .jobs]' <<<"$output")" = '[5,2,["703"]]' ]
	grep -q " $(seq -s ' ' 300) \$" "$FAKE_SLURM/asked.703"
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

@test "a queue whose folder's name means something to Slurm is named so that it does not, or refused" {
	RAD_QUEUE="$WORLD/50%j of it" submit -- true
	RAD_QUEUE="$WORLD/50%j of it" rad pilot --submit
	grep -Fq -- "--output $WORLD/50%%j of it/pilots/.slurm-%j.log" "$FAKE_SLURM/asked.701"
	RAD_QUEUE="$WORLD/50\\" submit -- true
	RAD_QUEUE="$WORLD/50\\" run rad pilot --submit
	one_line_error "50\\: Slurm cannot write a log there, for the '\\' in its name"
	[ ! -e "$FAKE_SLURM/asked.702" ]
}
