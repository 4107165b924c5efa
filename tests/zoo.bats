#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Servers that people have: a row for each, played by a fake library. What is shown is what is known, and the administrator's word
# is the right one.

load helpers

setup_file()
{
	new_world
	fake_driver
	export COLUMNS=250
}

teardown_file() { end_world; }

setup() { cd "$WORLD/work"; }

teardown()
{
	rad cancel --all >/dev/null 2>&1 || :
	stop_radd
	rm -f "$WORLD/pid"
}

# What most have in common; each GPU says in what it differs.
usual='{"cc": [8, 0], "cores": 6912, "total_mib": 40960, "reserved_mib": 500, "used_mib": 0, "power_mw": 55000, "energy_mj": 1, "processes": [], "mps": []}'
hopper='"cc": [9, 0], "cores": 16896, "total_mib": 81559, "gpm": {"1": 5, "2": 3, "3": 1, "10": 1}'
NO_GPM='those before Hopper need DCGM'
DEAF='nothing can read the SMACT of 1 of 1 GPUs'
A100='"name": "NVIDIA A100-SXM4-40GB"'

# server GPU[;GPU...] [MORE]: a GPU is what stands between the braces of its object; MORE belongs to the whole.
server()
{
	jq -n --argjson usual "$usual" --argjson gpus "[${1//;/,}]" --argjson more "{${2:-}}" '$more + {devices: [$gpus | to_entries[] |
		{uuid: "GPU-\(.key)000", pci: [0, (.key + 1), 0]} + $usual + .value]}' >"$RAD_FAKE_NVML.new"
	mv "$RAD_FAKE_NVML.new" "$RAD_FAKE_NVML"
}

# doctor_says WHAT GPUS MORE HAS LACKS: of a machine on which no radd runs.
doctor_says()
{
	local failed=0
	server "$2" "$3"
	run rad doctor
	grep -Eq -- "$4" <<<"$output" || failed=1
	[ -z "$5" ] || ! grep -Eq -- "$5" <<<"$output" || failed=1
	! grep -q '^20' <<<"$output" || failed=1	# lines of a log
	[ $failed = 0 ] || printf '%s: not "%s", or "%s":\n%s\n' "$1" "$4" "$5" "$output" >&2
	return $failed
}

@test "doctor says of each server what there is to mend" {
	export RAD_SOCKET=$WORLD/nobody.sock RAD_DEVICES=nvml
	local fails=0
	row() { doctor_says "$@" || fails=$((fails + 1)); }
	row A100       "{$A100}" '' "^warn +activity +SMACT can be read for 0 of 1 GPUs: $NO_GPM" "$DEAF"
	row V100       '{"name": "Tesla V100-SXM2-16GB", "cc": [7, 0], "cores": 5120, "total_mib": 16384}' '' "$NO_GPM" "$DEAF"
	row T4         '{"name": "Tesla T4", "cc": [7, 5], "cores": 2560, "total_mib": 15360}' '' "$NO_GPM" "$DEAF"
	row L40S       '{"name": "NVIDIA L40S", "cc": [8, 9], "cores": 18176, "total_mib": 46068}' '' "$NO_GPM" "$DEAF"
	row A6000      '{"name": "NVIDIA RTX A6000", "cc": [8, 6], "cores": 10752, "total_mib": 49140}' '' "$NO_GPM" "$DEAF"
	row 3090       '{"name": "NVIDIA GeForce RTX 3090", "cc": [8, 6], "cores": 10496, "total_mib": 24576}' '' "^ok +activity +$DEAF" datacenter
	row 4090       '{"name": "NVIDIA GeForce RTX 4090", "cc": [8, 9], "cores": 16384, "total_mib": 24564}' '' "^ok +activity +$DEAF" datacenter
	row 5090       '{"name": "NVIDIA GeForce RTX 5090", "cc": [12, 0], "cores": 21760, "total_mib": 32607}' '' "$NO_GPM" "$DEAF"
	row P100       '{"name": "Tesla P100-PCIE-16GB", "cc": [6, 0], "cores": 3584, "total_mib": 16384}' '' "^ok +activity +$DEAF" datacenter
	row GH200      "{$hopper, \"name\": \"NVIDIA GH200 480GB\"}" '' 'answers, and shows 1 GPU$' 'warn  activity'
	row B200       "{$hopper, \"name\": \"NVIDIA B200\", \"cc\": [10, 0]};{$hopper, \"name\": \"NVIDIA B200\", \"cc\": [10, 0]}" '' \
		'answers, and shows 2 GPUs$' 'warn  activity'
	row mixed      "{$hopper, \"name\": \"NVIDIA H100 PCIe\"};{$A100};{\"name\": \"NVIDIA GeForce RTX 4090\", \"cc\": [8, 9]}" '' \
		'SMACT can be read for 1 of 3 GPUs' ''
	row GB10       '{"name": "NVIDIA GB10", "fail": {"nvmlDeviceGetMemoryInfo": 3, "nvmlDeviceGetMemoryInfo_v2": 3}}' '' \
		'^fail +driver +the memory of GPU 0 .NVIDIA GB10. cannot be read' ''
	row vGPU       '{"name": "GRID A100D-20C", "fail": {"nvmlDeviceGetComputeRunningProcesses_v3": 3, "nvmlDeviceGetPowerUsage": 3}}' '' \
		'^warn +activity +memory per process can be read for 0 of 1' ''
	row lost       "{$A100, \"fail\": {\"*\": 15}};{$A100}" '' '^fail +driver +1 of them do' ' of 2 GPUs:'
	row reset      "{$A100, \"fail\": {\"nvmlDeviceGetMemoryInfo_v2\": 16}};{$A100}" '' \
		'^warn +driver +nvml: GPU 0 .GPU-0000?. no longer answers: fake error 16' ' of 2 GPUs:'
	row one-process "{$A100, \"compute_mode\": 3}" '' '^warn +driver +nvml: GPU 0 .* exclusive-process mode' ''
	row prohibited "{$A100, \"compute_mode\": 2}" '' '^fail +driver +answers, and shows no GPU' 'shows 1'
	row MIG-empty  "{$hopper, \"name\": \"NVIDIA H100\", \"mig\": []};{$hopper, \"name\": \"NVIDIA H100\"}" '' \
		'^warn +driver +nvml: GPU 0 .* MIG mode without instances' ''
	row no-permission "{$A100, \"fail\": {\"nvmlDeviceGetHandleByIndex_v2\": 4}}" '' '^fail +driver +.*/dev/nvidia' 'shows 1'
	row mismatch   "{$A100}" '"fail": {"nvmlInit_v2": 18}' '^fail +driver +.*updated.*reload the kernel module, or reboot' ''
	row nouveau    "{$A100}" '"fail": {"nvmlInit_v2": 9}' '^fail +driver +.*modprobe nvidia' ''
	row nvidiactl  "{$A100}" '"fail": {"nvmlInit_v2": 4}' '^fail +driver +.*may not open /dev/nvidiactl' ''
	row none       '' '' '^fail +driver +.*sees no GPU' ''
	[ $fails = 0 ]
}

# shows GPUS LINE...: what rad gpus shows under a radd of its own; each LINE is to be found.
shows()
{
	local line
	server "$1"
	DEVICES=nvml start_radd
	run rad gpus
	shift
	for line; do
		grep -Eq -- "$line" <<<"$output" || { printf 'no "%s" in:\n%s\n' "$line" "$output" >&2; return 1; }
	done
}

@test "rad gpus shows what is not known as not known" {
	shows "{\"name\": \"NVIDIA GeForce RTX 3090\", \"cc\": [8, 6], \"total_mib\": 24576, \"used_mib\": 900, \"processes\": [[$$, null]],
		\"fail\": {\"nvmlDeviceGetPowerUsage\": 3, \"nvmlDeviceGetTotalEnergyConsumption\": 3}};
		{\"name\": \"NVIDIA GB10\", \"fail\": {\"nvmlDeviceGetMemoryInfo\": 3, \"nvmlDeviceGetMemoryInfo_v2\": 3}};
		{$A100, \"fail\": {\"*\": 15}}" \
		'^ +0 +GeForce RTX 3090 +- +- +1.4G/24G +0 +900M +22.6G +- +idle' \
		'^ +1 +GB10 +- +0% +-/- +0 +- +- ' \
		'^ +2 +unreachable GPU +- +- +-/- ' \
		'^GPU 0: used by .*, not a task of rad; nothing tells how much it holds$' \
		'^GPU 2 .unreachable-0.: does not answer'
	# Memory that no process is named for is somebody's all the same.
	rad doctor | grep -q 'SMACT of 2 of 2\|SMACT can be read for 0 of 2'
}

@test "a display that holds more than 1 GiB keeps tasks away, and both are told what to do" {
	server '{"name": "NVIDIA GeForce RTX 4090", "cc": [8, 9], "total_mib": 24564, "used_mib": 2000}'
	DEVICES=nvml start_radd
	rad doctor | grep -q 'GPU 0: what the driver names no process for .* holds 2.0 GiB; above 1 GiB it gets no task, unless rad.conf says foreign: share'
	id=$(submit --gpu-mem 1G true)
	wait_for 10 eval "rad why $id | grep -q 'foreign: share would allow it'"
}

two_share()
{
	rad cancel --all
	wait_state "$(submit --gpu-mem 2G --share=streams sleep 100)" RUNNING 2
	wait_state "$(submit --gpu-mem 2G --share=streams sleep 100)" RUNNING 2
}

@test "in exclusive-process mode tasks share under MPS or not at all" {
	local first second
	server "{$A100, \"compute_mode\": 3}"
	DEVICES=nvml start_radd
	first=$(submit --gpu-mem 2G --share=streams sleep 100)
	wait_state "$first" RUNNING
	second=$(submit --gpu-mem 2G --share=streams sleep 100)
	wait_for 10 eval "rad why $second | grep -q 'in exclusive-process mode'"
	[ "$(state "$second")" = PENDING ]
	server "{$A100}"
	wait_for 20 two_share
}

@test "a GPU in prohibited mode gets no task, until it is allowed" {
	server "{$A100, \"compute_mode\": 2};{$A100}"
	DEVICES=nvml start_radd
	[ "$(rad gpus --json | jq -r '[.gpus[].index] | join(",")')" = 1 ]
	server "{$A100};{$A100}"
	wait_for 10 eval '[ "$(rad gpus --json | jq ".gpus | length")" = 2 ]'
}

# fills N REASON: so many share the GPU, and the next one waits, for that.
fills()
{
	local i last
	DEVICES=nvml start_radd
	for i in $(seq "$1"); do
		wait_state "$(submit --gpu-mem 2G sleep 100)" RUNNING
	done
	last=$(submit --gpu-mem 2G sleep 100)
	wait_for 10 eval "rad why $last | grep -q '^Task $last is PENDING: $2:'"
	rad cancel --all
	stop_radd
}

@test "where no activity can be read, a task counts as half a GPU; without gain, max_tasks decides" {
	server '{"name": "NVIDIA GeForce RTX 4090", "cc": [8, 9], "total_mib": 24564}'
	fills 3 Gain
	cp "$RAD_CONFIG" usual.conf
	echo "placement: magm" >>"$RAD_CONFIG"
	fills 2 MaxTasks
	mv usual.conf "$RAD_CONFIG"
}

# In a container the driver tells the machine's pids, so that radd's own tasks would look like somebody else's.
@test "in a container with pids of its own, tasks do not keep each other away as foreign ones" {
	need_root
	local first
	server "{$A100}"
	mkfifo "$WORLD/ready"
	unshare --pid --fork --kill-child --mount-proc "$(command -v radd)" --devices nvml --state "$WORLD/state-c" --ready-fd 7 \
		7>"$WORLD/ready" 3>&- >"$WORLD/container.log" 2>&1 </dev/null &
	echo $! >"$WORLD/pid"
	read -r -t 80 _ <"$WORLD/ready"
	rm "$WORLD/ready"
	first=$(submit --gpu-mem 4G sleep 100)
	wait_state "$first" RUNNING
	server "{$A100, \"used_mib\": 3000, \"processes\": [[3999999, 3000]]}"
	wait_for 10 grep -q 'which are others in this container' "$WORLD/container.log"
	wait_for 10 eval 'rad gpus --json | jq -e ".gpus[0] | .mem_foreign_mib == 0 and .processes == []"'
	wait_state "$(submit --gpu-mem 4G sleep 100)" RUNNING
	rad cancel --all
}

@test "a driver that is updated under a running radd: doctor fails and says what to do" {
	server "{$A100}"
	DEVICES=nvml start_radd
	server "{$A100}" '"fail": {"nvmlInit_v2": 18}'
	run rad doctor
	[ "$status" -eq 1 ]
	grep -Eq '^fail +driver +.*reload the kernel module, or reboot' <<<"$output"
}
