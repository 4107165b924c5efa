#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# MPS on a machine of three GPUs, played by fake libraries: the third one is divided into MIG instances.

load helpers

setup_file()
{
	new_world
	echo 'mps_idle: 0' >>"$RAD_CONFIG"
	fake_driver
	export DEVICES=nvml
	local idle='"name": "NVIDIA H200", "cc": [9, 0], "cores": 16896, "total_mib": 143771, "reserved_mib": 600,
		"used_mib": 0, "power_mw": 75000, "processes": [], "mps": [],
		"gpm": {"1": 0, "2": 0, "3": 0, "10": 0, "20": 0, "21": 0}, "fail": {}'
	jq . >"$RAD_FAKE_NVML" <<-END
		{"devices": [{"uuid": "GPU-a", "pci": [0, 26, 0], $idle, "mig": null}, {"uuid": "GPU-b", "pci": [0, 27, 0], $idle,
		"mig": null}, {"uuid": "GPU-c", "pci": [0, 28, 0], $idle, "mig": []}]}
	END
	start_radd
}

teardown_file()
{
	end_world
}

setup() { cd "$WORLD/work"; rm -f leased; }

# What a test that failed left would hold the GPUs of the next one.
teardown()
{
	[ -z "${BATS_TEST_COMPLETED:-}" ] || return 0
	[ ! -s leased ] || kill -9 "$(cat leased)" || :
	end_tasks
}

# What an MPS task says of its world until the file GO is there.
look='env | grep -E "CUDA_(VISIBLE|MPS)" | sort >'
one_control() { [ "$(controls)" -eq 1 ]; }	# beside one that was begun to be tried, and ends

@test "one server for all GPUs serves tasks of one GPU and of two, fenced on each" {
	local go=$WORLD/go1 one two
	two=$(submit --gpus 2 --gpu-mem 6G -- sh -c "$look two.txt; $(until_file "$go")")
	wait_state "$two" RUNNING
	one=$(submit --gpu-mem 4G -- sh -c "$look one.txt; $(until_file "$go")")
	wait_for 20 grep -q PIPE two.txt
	wait_for 20 grep -q PIPE one.txt
	[ "$(field "$two" '.attempts[0].gpus | join(",")')" = GPU-a,GPU-b ]
	[ "$(rad gpus --json | jq -r '[.gpus[] | select(.tasks | length > 0).share] | unique | join(",")')" = mps ]
	grep -qx 'CUDA_VISIBLE_DEVICES=0,1' two.txt
	grep -qx 'CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=0=6144M,1=6144M' two.txt
	grep -qx 'CUDA_VISIBLE_DEVICES=[01]' one.txt
	grep -qx 'CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=0=4096M' one.txt
	[ "$(grep PIPE one.txt)" = "$(grep PIPE two.txt)" ]
	[ "$(controls)" -eq 1 ]
	# The divided GPU is not among those of the server.
	local pipe
	pipe=$(sed -n s/CUDA_MPS_PIPE_DIRECTORY=//p one.txt)
	grep -qx 'CUDA_VISIBLE_DEVICES=GPU-a,GPU-b' "$pipe/environment"
	touch "$go"
	rad wait "$one" "$two"
	wait_for 20 no_controls
}

@test "the example of a container hands on the GPU, the task's token and the server's pipe" {
	local one
	mkdir -p bin
	printf '%s\n' '#!/bin/sh' 'printf "%s\n" "$@" >docker.txt' >bin/docker
	chmod +x bin/docker
	one=$(PATH=$PWD/bin:$PATH submit --gpu-mem 4G -- "$RAD_SOURCE_ROOT/examples/container.sh" image python train.py "a  b")
	rad wait "$one"
	grep -Eqx '"device=GPU-[ab]"' docker.txt
	[ "$(grep -cxE "RAD_TASK_(ID|TOKEN)|CUDA_MPS_PIPE_DIRECTORY|CUDA_MPS_PINNED_DEVICE_MEM_LIMIT" docker.txt)" -eq 4 ]
	grep -Eqx '(/[^:]+):\1' <(grep -v "^$PWD:" docker.txt)
	grep -qxF -- "$(id -u):$(id -g)" docker.txt
	[ "$(tail -n 4 docker.txt)" = $'image\npython\ntrain.py\na  b' ]
	wait_for 20 no_controls
}

@test "a server outlives radd and is stopped by the next when its last task is over" {
	local go=$WORLD/go2 one next
	one=$(submit --gpu-mem 4G -- sh -c "$look before.txt; $(until_file "$go")")
	wait_for 20 grep -q PIPE before.txt
	kill_radd
	start_radd
	wait_for 10 one_control
	next=$(submit --gpu-mem 4G -- sh -c "$look after.txt; $(until_file "$go")")
	wait_for 20 grep -q PIPE after.txt
	[ "$(grep PIPE before.txt)" = "$(grep PIPE after.txt)" ]
	touch "$go"
	rad wait "$one" "$next"
	wait_for 20 no_controls
}

@test "a radd that cannot start leaves the servers of running tasks alone" {
	local go=$WORLD/go4 one
	one=$(submit --gpu-mem 4G -- sh -c "$look spared.txt; $(until_file "$go")")
	wait_for 20 grep -q PIPE spared.txt
	kill_radd
	# The server is found before the socket is bound, and the tasks are read after it.
	mkdir "$WORLD/taken"
	run radd --devices nvml --state "$WORLD/state" --socket "$WORLD/taken"
	[ "$status" -eq 1 ]
	[[ $output == *"$WORLD/taken"* ]]
	[[ $output != *"stopping the idle server"* ]]
	start_radd
	wait_for 10 one_control
	touch "$go"
	rad wait "$one"
	[ "$(state "$one")" = COMPLETED ]
	wait_for 20 no_controls
}

@test "a server that cannot be stopped just now is stopped later" {
	local go=$WORLD/go-later one
	stop_radd
	cp "$RAD_BUILD_ROOT/rad-shim" "$WORLD/shim"
	RAD_SHIM=$WORLD/shim start_radd
	one=$(submit --gpu-mem 4G -- sh -c "$look later.txt; $(until_file "$go")")
	wait_for 20 grep -q PIPE later.txt
	chmod -x "$WORLD/shim"
	touch "$go"
	rad wait "$one"
	wait_for 20 grep -q "stopping MPS of .*shim" "$WORLD/radd.log"
	[ "$(controls)" -eq 1 ]
	chmod +x "$WORLD/shim"
	wait_for 20 no_controls
	stop_radd
	start_radd
}

@test "a server that nobody uses any more is stopped by the radd that finds it" {
	local go=$WORLD/go3 one
	one=$(submit --gpu-mem 4G -- sh -c "$look idle.txt; $(until_file "$go")")
	wait_for 20 grep -q PIPE idle.txt
	# The next radd knows nothing of the task: its state was lost.
	kill_radd
	[ "$(controls)" -eq 1 ]
	touch "$go"
	rm "$WORLD"/state/rad.db*
	start_radd
	wait_for 20 no_controls
}

@test "a task placed when radd is killed before its server is ready starts once, under MPS" {
	local one
	echo hangs >"$WORLD/fake/mode"
	one=$(submit --gpu-mem 4G -- sh -c "$look late.txt; echo ran >>ran.txt")
	wait_state "$one" RUNNING
	kill_radd
	rm "$WORLD/fake/mode"
	start_radd
	rad wait "$one"
	grep -q 'PIPE.*/pipe$' late.txt
	[ "$(wc -l <ran.txt)" -eq 1 ]
	wait_for 20 no_controls
}

@test "a lease is fenced as a task is, and told of its server by the same variables" {
	local id pipe
	sh -c 'echo $$ >leased; exec sleep 300' >/dev/null 2>&1 3>&- 4>&- &
	wait_for 10 test -s leased
	rad lease --pid "$(cat leased)" --gpus 2 --gpu-mem 6G --json >place.json
	id=$(jq -r .id place.json)
	jq -e '.environ | (.CUDA_VISIBLE_DEVICES | split(",") | sort) == ["0", "1"] and .CUDA_MPS_PINNED_DEVICE_MEM_LIMIT == "0=6144M,1=6144M"
		and (.CUDA_MPS_PIPE_DIRECTORY | length > 0)' place.json
	pipe=$(jq -r .environ.CUDA_MPS_PIPE_DIRECTORY place.json)
	[ -e "$pipe/environment" ]
	[ "$(controls)" -eq 1 ]
	[ "$(field "$id" .share)" = mps ]
	kill_radd
	start_radd
	[ "$(state "$id")" = RUNNING ]
	wait_for 10 one_control
	kill -9 "$(cat leased)"
	wait_state "$id" COMPLETED
	wait_for 20 no_controls
}

@test "a server whose client met a fault of the GPU is stopped once it has no other, whatever mps_idle is" {
	local first neighbour faulty go=$WORLD/go-sick
	sed -i 's/^mps_idle:.*/mps_idle: 1h/' "$RAD_CONFIG"
	kill -HUP "$(cat "$WORLD/pid")"
	wait_for 10 grep -q 'SIGHUP: mps_idle: 0 -> ' "$WORLD/radd.log"
	neighbour=$(submit --gpu-mem 4G -- sh -c "$look beside.txt; $(until_file "$go")")
	wait_for 20 grep -q PIPE beside.txt
	first=$(pgrep -f "^[^ ]*bash $RAD_MPS_CONTROL -f")
	# Its own failure says nothing of the server.
	submit --gpu-mem 4G -- sh -c 'echo "ValueError: no such file" >&2; exit 1' | xargs rad wait || true
	faulty=$(submit --gpu-mem 4G -- sh -c 'echo "RuntimeError: CUDA error: an illegal memory access was encountered" >&2; exit 1')
	rad wait "$faulty" || true
	[ "$(pgrep -f "^[^ ]*bash $RAD_MPS_CONTROL -f")" = "$first" ]
	touch "$go"
	rad wait "$neighbour"
	wait_for 20 no_controls
	grep -q 'MPS: stopping the sick server' "$WORLD/radd.log"
	submit --gpu-mem 4G -- sh -c "$look well.txt" | xargs rad wait
	grep -q PIPE well.txt
	sed -i 's/^mps_idle:.*/mps_idle: 0/' "$RAD_CONFIG"
	kill -HUP "$(cat "$WORLD/pid")"
	wait_for 20 no_controls
	: >"$WORLD/radd.log"
}

@test "a task that is placed in the turn in which the last client of a faulty server ended gets another server" {
	local first faulty next go=$WORLD/go-fault held=$WORLD/go-held second
	sed -i 's/^mps_idle:.*/mps_idle: 1h/' "$RAD_CONFIG"
	kill -HUP "$(cat "$WORLD/pid")"
	wait_for 10 grep -q 'SIGHUP: mps_idle: 0 -> ' "$WORLD/radd.log"
	faulty=$(submit --gpu-mem 4G -- sh -c "$look faulty.txt; $(until_file "$go")
		echo 'RuntimeError: CUDA error: an illegal memory access was encountered' >&2; exit 1")
	wait_for 20 grep -q PIPE faulty.txt
	first=$(pgrep -f "^[^ ]*bash $RAD_MPS_CONTROL -f")
	# There is room for it beside the other: it waits for nothing but that end.
	next=$(submit --gpu-mem 4G --dependency "afterany:$faulty" -- sh -c "$look next.txt; $(until_file "$held")")
	[ "$(field "$next" .state)" = PENDING ]
	touch "$go"
	rad wait "$faulty" || true
	wait_for 20 grep -q PIPE next.txt
	second=$(pgrep -f "^[^ ]*bash $RAD_MPS_CONTROL -f")
	[ "$second" != "$first" ]
	[ "$(field "$next" '.attempts | length')" -eq 1 ]
	[ "$(grep -c 'MPS: stopping the sick server' "$WORLD/radd.log")" -eq 1 ]
	# What is new is not sick: it stays when its client ends well.
	touch "$held"
	rad wait "$next"
	[ "$(pgrep -f "^[^ ]*bash $RAD_MPS_CONTROL -f")" = "$second" ]
	sed -i 's/^mps_idle:.*/mps_idle: 0/' "$RAD_CONFIG"
	kill -HUP "$(cat "$WORLD/pid")"
	wait_for 20 no_controls
	: >"$WORLD/radd.log"
}

# Of the server whose pipe folder a task has: the one process that a control daemon of the fake's starts.
server_of() { cat "$(sed -n s/CUDA_MPS_PIPE_DIRECTORY=//p "$1")/server"; }
control_of() { cat "$(sed -n s/CUDA_MPS_PIPE_DIRECTORY=//p "$1")/nvidia-cuda-mps-control.pid"; }

@test "a control daemon that is killed alone: its server goes on for its clients beside the next one, and ends with the last" {
	local one next server go=$WORLD/go-left
	one=$(submit --gpu-mem 4G -- sh -c "$look one-left.txt; $(until_file "$go")")
	wait_for 20 grep -q PIPE one-left.txt
	server=$(server_of one-left.txt)
	kill -9 "$(control_of one-left.txt)"
	next=$(submit --gpu-mem 4G -- sh -c "$look next-left.txt; $(until_file "$go")")
	wait_for 30 grep -q PIPE next-left.txt
	[ "$(grep PIPE one-left.txt)" != "$(grep PIPE next-left.txt)" ]
	[ "$(state "$one")" = RUNNING ]
	kill -0 "$server"
	grep -q 'MPS: the control daemon of .* was killed, and its server left' "$WORLD/radd.log"
	# The next radd finds both, and sends nobody to the one that is left.
	kill_radd
	start_radd
	[ "$(state "$one")" = RUNNING ]
	kill -0 "$server"
	submit --gpu-mem 4G -- sh -c "$look third-left.txt" | xargs rad wait
	[ "$(grep PIPE third-left.txt)" = "$(grep PIPE next-left.txt)" ]
	touch "$go"
	rad wait "$one" "$next"
	wait_for 20 no_controls
	wait_for 20 sh -c "! kill -0 $server"
}

@test "a control daemon that hangs: it is told, its clients go on, and new tasks get another, under the next radd too" {
	local one next go=$WORLD/go-hangs control
	one=$(submit --gpu-mem 4G -- sh -c "$look one-hangs.txt; $(until_file "$go")")
	wait_for 20 grep -q PIPE one-hangs.txt
	control=$(control_of one-hangs.txt)
	kill -STOP "$control"
	wait_for 60 grep -q "MPS control daemon $control of .* does not answer any more" "$WORLD/radd.log"
	rad doctor | grep -q "control daemon of .* (pid $control) has not answered for [0-9]* s: its clients go on"
	rad gpus | tr -s ' \n' '  ' | grep -q "(pid $control) has not answered"
	next=$(submit --gpu-mem 4G -- sh -c "$look next-hangs.txt; $(until_file "$go")")
	wait_for 30 grep -q PIPE next-hangs.txt
	[ "$(grep PIPE one-hangs.txt)" != "$(grep PIPE next-hangs.txt)" ]
	[ "$(state "$one")" = RUNNING ]
	# The next radd does not know that it was ready, and ends nothing either.
	kill_radd
	start_radd
	wait_for 60 grep -q "MPS control daemon of .*: does not answer" "$WORLD/radd.log"
	submit --gpu-mem 4G -- sh -c "$look third-hangs.txt" | xargs rad wait
	[ "$(grep PIPE third-hangs.txt)" = "$(grep PIPE next-hangs.txt)" ]
	[ "$(state "$one")" = RUNNING ]
	kill -0 "$(server_of one-hangs.txt)"
	touch "$go"
	rad wait "$one" "$next"
	wait_for 60 no_controls
}

@test "a control daemon that hung for a while is used again" {
	local one go=$WORLD/go-again control
	one=$(submit --gpu-mem 4G -- sh -c "$look one-again.txt; $(until_file "$go")")
	wait_for 20 grep -q PIPE one-again.txt
	control=$(control_of one-again.txt)
	echo hangs >"$WORLD/fake/mode"
	wait_for 60 grep -q "MPS control daemon $control of .* does not answer any more" "$WORLD/radd.log"
	rm "$WORLD/fake/mode"
	wait_for 60 grep -q "MPS control daemon $control of .* answers again" "$WORLD/radd.log"
	[ "$(rad doctor | grep -c 'has not answered')" -eq 0 ]
	submit --gpu-mem 4G -- sh -c "$look next-again.txt" | xargs rad wait
	[ "$(grep PIPE one-again.txt)" = "$(grep PIPE next-again.txt)" ]
	touch "$go"
	rad wait "$one"
	wait_for 20 no_controls
}

@test "a control daemon that is killed alone without clients: its server has ended when the next one begins" {
	local server
	sed -i 's/^mps_idle:.*/mps_idle: 1h/' "$RAD_CONFIG"
	kill -HUP "$(cat "$WORLD/pid")"
	wait_for 10 grep -q 'SIGHUP: mps_idle: 0 -> ' "$WORLD/radd.log"
	submit --gpu-mem 4G -- sh -c "$look idle-left.txt" | xargs rad wait
	server=$(server_of idle-left.txt)
	kill -9 "$(control_of idle-left.txt)"
	# Its entry alone may be there still, until somebody has waited for it.
	submit --gpu-mem 4G -- sh -c "if grep -q . /proc/$server/cmdline; then echo alive; else $look after-left.txt; fi" | xargs rad wait
	grep -q PIPE after-left.txt
	sed -i 's/^mps_idle:.*/mps_idle: 0/' "$RAD_CONFIG"
	kill -HUP "$(cat "$WORLD/pid")"
	wait_for 20 no_controls
	: >"$WORLD/radd.log"
}

@test "a server without clients stays for mps_idle, serves the next task, and is in the way of none that wants a GPU alone" {
	local first other alone
	sed -i 's/^mps_idle:.*/mps_idle: 1h/' "$RAD_CONFIG"
	kill -HUP "$(cat "$WORLD/pid")"
	wait_for 10 grep -q 'SIGHUP: mps_idle: 0 -> ' "$WORLD/radd.log"
	submit --gpu-mem 4G -- sh -c "$look stays.txt" | xargs rad wait
	first=$(pgrep -f "^[^ ]*bash $RAD_MPS_CONTROL -f")
	alone=$(submit --gpus 2 --exclusive -- sh -c "$look alone.txt")
	rad wait "$alone"
	[ "$(field "$alone" .state)" = COMPLETED ]
	grep -q "PIPE_DIRECTORY=.*/no-mps$" alone.txt	# a folder in which no server is
	submit --gpu-mem 4G -- sh -c "$look again.txt" | xargs rad wait
	grep -q PIPE again.txt
	other=$(pgrep -f "^[^ ]*bash $RAD_MPS_CONTROL -f")
	[ "$first" = "$other" ]
	# One that ends while it idles is given up before a task asks for it.
	kill -9 "$other" "$(cat "$(sed -n s/CUDA_MPS_PIPE_DIRECTORY=//p again.txt)/server")"
	wait_for 30 grep -q 'MPS control daemon of .*: ended' "$WORLD/radd.log"
	submit --gpu-mem 4G -- sh -c "$look anew.txt" | xargs rad wait
	grep -q PIPE anew.txt
	# The next radd finds it idle, and stops it when it ends: nobody may come who would.
	kill_radd
	start_radd
	wait_for 10 one_control
	stop_radd
	wait_for 20 no_controls
	sed -i 's/^mps_idle:.*/mps_idle: 0/' "$RAD_CONFIG"
	start_radd
}
