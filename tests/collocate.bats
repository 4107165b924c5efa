#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# rad bench: commands side by side on simulated devices, through the queue and without it; what goes wrong; Ctrl-C.

bats_require_minimum_version 1.5.0
load helpers.bash

setup_file()
{
	new_world
	DEVICES=sim:1xa100-40g,1xa100-40g/mig=3g.20gb+2g.10gb start_radd
	cat >"$WORLD/work/task" <<-'END'
		#!/bin/sh
		exec rad simtask --seconds 600 --ramp 0.1 --print-every 0.2 --mem 2G --gract 0.6 --smact 0.5 "$@"
	END
	chmod +x "$WORLD/work/task"
}

teardown_file() { end_world; }

setup() { cd "$WORLD/work"; }

# here OPTIONS...: on GPU 0, without the queue.
here() { RAD_SIM_DEVICES=$WORLD/state/sim-devices rad bench collocate --gpu 0 --seconds 0.6 --repeat 1 "$@"; }
nobody() { [ "$(rad gpus --json | jq '[.gpus[].processes[]] | length')" -eq 0 ]; }

@test "through the queue, on a GPU alone: a row for each mode and degree, JSON, CSV and a page" {
	run --separate-stderr rad bench collocate --seconds 1 --repeat 2 --degrees 2 --json --csv r.csv --page r.html -o q.jsonl -- ./task
	[ "$status" -eq 0 ]
	jq -e '.schema == 1 and [.runs[] | .mode, .degree] == ["serial", 1, "streams", 2, "mps", 2]' <<<"$output"
	jq -e '.runs[2] | .stp > 1.2 and .stp < 3 and .power_w > 100 and .energy_j > 0 and .smocc == null and .repeats == 2' <<<"$output"
	# Time slicing has 0.92 of the GPU for two who want 0.6 each: 1.53. A task does ten steps a second, so there is room for one each.
	jq -e '.runs[1] | .stp > 1 and .stp < 2.2 and (.tasks | length) == 2' <<<"$output"
	[ "$(wc -l <r.csv)" -eq 6 ]
	grep -q '^mps,2,2,task,' r.csv
	grep -q '<h1>Collocation on NVIDIA A100' r.html
	grep -q '>SMACT<' r.html
	run ! grep -q '>SMOCC<' r.html	# a column without a figure
	[ "$(rad queue -t all --json | jq -r '.tasks[-1] | .name, .state' | paste -sd' ')" = "bench COMPLETED" ]
	wait_for 10 nobody
}

@test "what is there is not measured again, and other degrees are added" {
	here --degrees 1 --modes streams -o again.jsonl -- ./task
	cp again.jsonl first.jsonl
	here --degrees 1,3 --modes streams --json -o again.jsonl -- ./task >out
	cmp -n "$(stat -c %s first.jsonl)" first.jsonl again.jsonl
	[ "$(wc -l <again.jsonl)" -eq 4 ]
	jq -e '[.runs[].degree] == [1, 1, 3]' out
	run -1 here --seconds 2 -o again.jsonl -- ./task
	[[ "$output" == *"holds a bench of other commands"* ]]
}

@test "different commands: each alone, then all of them" {
	here --json -o mixed.jsonl --modes mps -- ./task + ./task --gract 0.9 --smact 0.8 >out
	jq -e '[.runs[] | [.mode, .degree, (.tasks | length)]] == [["serial", 1, 1], ["serial", 1, 1], ["mps", 2, 2]]' out
	jq -e '.runs[2] | (.tasks[0].name | startswith("task")) and .tasks[1].name == "task --gract 0.9 --smact 0.8" and .delta > 0.5' out
}

@test "MIG: a task an instance, and no more of them than there are" {
	RAD_SIM_DEVICES=$WORLD/state/sim-devices run -1 --separate-stderr rad bench collocate --gpu 1 --seconds 0.6 --repeat 1 \
		--degrees 1,2,3 --modes mig --json -o mig.jsonl -- ./task
	jq -e '[.runs[] | [.mode, .degree, .error != null]] ==
		[["serial", 1, false], ["mig", 1, false], ["mig", 2, false], ["mig", 3, true]]' <<<"$output"
	[[ "$stderr" == *"mig, 3 at a time: there are 2 MIG instances here"* ]]
}

@test "MIG in a task, which has one instance: what to do instead" {
	submit --wait --share mig --output=bench.out --chdir "$PWD" -- rad bench collocate --seconds 0.6 --repeat 1 \
		--degrees 2 --modes mig --json -o one.jsonl -- "$PWD/task" || :
	cat bench.out
	grep -q "mig, 2 at a time: there is 1 MIG instance here, what this task was given: drain .* with --gpu, outside of a task" bench.out
}

@test "a degree that does not fit: the others are measured, and it is told" {
	run -1 --separate-stderr here --json --degrees 2,3 --modes streams,mps -o fit.jsonl -- ./task --mem 16G
	jq -e '[.runs[] | select(.error) | [.mode, .degree]] == [["streams", 3], ["mps", 3]]' <<<"$output"
	jq -e '[.runs[] | select(.stp)] | length == 3' <<<"$output"
	[[ "$stderr" == *"task 3 of 3 "*"torch.OutOfMemoryError"* ]]
	wait_for 10 nobody
}

# refused TEXT ARGS...: nothing was measured, one line that ends in why, nothing left.
refused()
{
	local text=$1
	shift
	run -1 --separate-stderr here -o "bad$BATS_TEST_NUMBER.jsonl" "$@"
	[[ "$stderr" == *"$text"* ]] || { echo "$stderr"; return 1; }
	rm -f "bad$BATS_TEST_NUMBER.jsonl"
	wait_for 10 nobody
}

@test "commands that fail, end, say nothing, or are none" {
	refused "ended with exit code 1: it printed nothing" -- false
	refused "ended before it was measured" -- sh -c 'echo step 1/2; echo step 2/2'
	refused "no-such: No such file or directory" -- no-such
	refused "printed no progress that rad knows in 1 s; say how its lines look with --pattern" --patience 1 -- sleep 60
	refused "printed nothing that matches --pattern in 1 s" --patience 1 --pattern 'epoch ([0-9]+)' -- ./task
	refused "--pattern: 'a(': Unmatched" --pattern 'a(' -- ./task
	refused "no more progress in 1 s" --patience 1 --degrees 1 -- sh -c 'echo step 1/9; sleep 0.1; echo step 2/9; sleep 60'
}

@test "whoever starts it ignores the ends of children: it hears of them all the same" {
	RAD_SOCKET=$WORLD/nobody.sock run timeout -k 1 100 python3 -c '
import os, signal
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
os.execvp("rad", ["rad", "bench", "collocate", "-o", "none.jsonl", "--", "true"])'
	[ "$status" = 1 ]
}

@test "a wrong command line, a GPU or a mode that is not there" {
	run -2 rad bench
	one_line_error "collocate or solo"
	run -2 rad bench solo --seconds 3 true
	one_line_error "bench solo: unknown option '--seconds' (see rad bench solo --help)"
	[[ "$(rad bench solo --help)" == "Usage: rad bench solo [options] FILE.rad"* ]]
	run -2 here -- ./task +
	one_line_error "a command is missing"
	run -2 here --degrees 1,99 -- ./task
	one_line_error "--degrees"
	run -2 here --modes mps,nvlink -- ./task
	one_line_error "'nvlink': serial, streams, mps, mps-percent or mig"
	run -1 here --modes mig -- ./task
	one_line_error "no MIG instances"
	RAD_SIM_DEVICES=$WORLD/state/sim-devices run -1 rad bench collocate --gpu 7 -- ./task
	one_line_error "there is no GPU 7"
	RAD_NVML_LIBRARY=/none RAD_SIM_DEVICES= run -1 rad bench collocate --gpu 0 -- ./task
	one_line_error "NVIDIA driver: /none was not found"
	RAD_SOCKET=$WORLD/none run -1 rad bench collocate -o none.jsonl -- ./task
	one_line_error "no radd listens on"
	[ ! -e none.jsonl ]
	echo notes >notes.txt
	run -1 here -o notes.txt -- ./task
	one_line_error "notes.txt:1: is no row of a bench"
	[ "$(cat notes.txt)" = notes ]
}

@test "the queue gives a whole GPU, however long that takes; with --modes mig an instance" {
	local id code=0
	id=$(submit --exclusive --constraint '!mig' ./task)
	wait_state "$id" RUNNING
	rad bench collocate --seconds 0.6 --repeat 1 --degrees 1 --modes streams --json -o whole.jsonl -- ./task >whole.out 2>whole.err 3>&- &
	local bench=$!
	waits() { [ "$(rad queue --json | jq -r '[.tasks[] | select(.name == "bench")][-1].state')" = PENDING ]; }
	wait_for 15 waits
	# Instances are idle; a task that takes any GPU gets one at once.
	run -0 rad bench collocate --seconds 0.6 --repeat 1 --degrees 1 --modes mig --json -o instance.jsonl -- ./task
	grep '^{' <<<"$output" | jq -e '.gpu | test("MIG")'
	waits
	rad cancel "$id"
	wait $bench || code=$?
	[ $code -eq 0 ]
	jq -e '(.gpu | test("MIG") | not) and ([.runs[].mode] == ["serial", "streams"])' whole.out
	wait_for 10 nobody
}

@test "a GPU that others use is not measured" {
	local id
	id=$(submit --gpu-mem 4G ./task)
	wait_for 15 sh -c "rad gpus --json | jq -e '.gpus[].processes[] | select(.mem_mib > 1024)'"
	local gpu
	gpu=$(rad gpus --json | jq '.gpus[] | select(.processes | length > 0).index')
	RAD_SIM_DEVICES=$WORLD/state/sim-devices run -1 rad bench collocate --gpu "$gpu" -o busy.jsonl -- ./task
	one_line_error "of another holds"
	rad cancel "$id"
	run rad wait "$id"
	wait_for 10 nobody
}

@test "Ctrl-C: what was measured is kept, nothing runs on, and the same command goes on" {
	RAD_SIM_DEVICES=$WORLD/state/sim-devices rad bench collocate --gpu 0 --seconds 0.6 --repeat 1 --degrees 1,2,3 --modes streams \
		-o int.jsonl -- sh -c './task & wait' >int.out 2>int.err 3>&- &
	local bench=$! code=0
	wait_for 20 grep -q '"streams","degree":2' int.jsonl
	kill -INT $bench
	wait $bench || code=$?
	[ $code -eq 130 ]
	grep -q "interrupted; what was measured is in int.jsonl" int.err
	grep -q '^streams *2 ' int.out
	wait_for 10 nobody
	local before
	before=$(wc -l <int.jsonl)
	here --degrees 1,2,3 --modes streams -o int.jsonl -- sh -c './task & wait' 2>&1 >/dev/null | grep -c measured >rest
	[ "$(cat rest)" -eq 1 ]
	[ "$(wc -l <int.jsonl)" -eq $((before + 1)) ]
}

@test "a terminal's Ctrl-C in the queue: the end of its task is waited for" {
	# A terminal tells the whole process group.
	setsid rad bench collocate --seconds 0.6 --repeat 1 --degrees 1,2,3 --modes streams -o queued.jsonl -- ./task >queued.out 2>queued.err 3>&- &
	local bench=$! code=0
	wait_for 20 grep -qs '"streams","degree":1' queued.jsonl
	kill -INT -- -$bench
	wait $bench || code=$?
	[ $code -eq 130 ]
	[ "$(rad queue -t all --json | jq -r '[.tasks[] | select(.name == "bench")][-1].state')" = CANCELLED ]
	[ "$(grep -c "; task .* is radd's now" queued.err)" -eq 0 ]
	grep -q "interrupted; what was measured is in queued.jsonl" queued.err
	wait_for 10 nobody
}

@test "told to end in the moment at which its task is to be queued: it ends" {
	printf '%s\n' '#define _GNU_SOURCE' '#include <signal.h>' '#include <stdlib.h>' '#include <unistd.h>' \
		'pid_t fork(void) { int now = !!getenv("END_AT_FORK"); unsetenv("END_AT_FORK"); pid_t pid = _Fork();' \
		'if (pid > 0 && now) raise(SIGTERM); return pid; }' >ending.c
	cc -shared -fPIC -o ending.so ending.c
	local code=0
	timeout -s KILL 100 env END_AT_FORK=1 LD_PRELOAD="$PWD/ending.so${LD_PRELOAD:+:$LD_PRELOAD}" rad bench collocate --seconds 600 --repeat 1 \
		--degrees 1 --modes streams -o ending.jsonl -- ./task 2>ending.err 3>&- || code=$?
	[ $code -ne 137 ]
	wait_for 10 nobody
}

@test "a full disk ends the bench with one line and whole rows" {
	export FAKE_DISK=$WORLD/broken	# of files with this name
	LD_PRELOAD=$RAD_BUILD_ROOT/tests/fake-disk/libfake-disk.so${LD_PRELOAD:+:$LD_PRELOAD} RAD_SIM_DEVICES=$WORLD/state/sim-devices \
		rad bench collocate --gpu 0 --seconds 0.6 --repeat 99 --degrees 1 --modes streams -o rad.db.jsonl -- ./task >out 2>err 3>&- &
	local bench=$! code=0
	wait_for 20 grep -q '"repeat":2' rad.db.jsonl
	echo 28 >"$FAKE_DISK"
	wait $bench || code=$?
	[ $code -eq 1 ]
	grep -q 'rad.db.jsonl: No space left on device' err
	jq -c . rad.db.jsonl >/dev/null
	wait_for 10 nobody
}

@test "solo: a task of radd's, beside what was predicted, and the next prediction knows it" {
	local task="--ramp 0.1 --mem 3G --smact 0.5 --print-every 0.2"
	run -0 --separate-stderr rad bench solo --json --capture "$BATS_TEST_DIRNAME/fuzz/corpus-capture/load" rad simtask --seconds 9 $task
	jq -e '.runs[0] | .mode == "solo" and .mem_used_mib == 3072 and (.smact - 0.5 | fabs) < 0.1' <<<"$output"
	jq -e '.runs[0].tasks[0].steps_s | . > 2 and . < 30' <<<"$output"	# what the shim last told of a run this short
	jq -e '.load.step_ms > 0 and .load.watts > 0 and .estimate.estimator == "replay"' <<<"$output"
	rad submit --dry-run --json rad simtask --seconds 9 $task | jq -e '.estimate | .estimator == "history" and .comfort_mib == 3072'
	run -1 rad bench solo false
}

@test "real MPS is started for it and stopped, a part of the SMs for each where asked; a server that dies is told" {
	local fake=$WORLD/fake
	fake_driver
	cat >"$RAD_FAKE_NVML" <<-'END'
		{"devices": [{"uuid": "GPU-a", "pci": [0, 26, 0], "name": "NVIDIA H200", "cc": [9, 0], "cores": 16896, "total_mib": 143771,
		"reserved_mib": 600, "used_mib": 5000, "power_mw": 300000, "processes": [], "mps": [], "mig": null,
		"gpm": {"1": 90, "2": 60, "3": 20, "10": 30, "20": 5, "21": 400}, "fail": {}}]}
	END
	cat >steps <<-'END'
		#!/bin/sh
		echo "$CUDA_VISIBLE_DEVICES $CUDA_MPS_PIPE_DIRECTORY $CUDA_MPS_ACTIVE_THREAD_PERCENTAGE" >>"$OUT"
		i=0
		while [ $i -lt 999 ]; do i=$((i + 1)); echo "step $i/999"; sleep 0.1; done
	END
	chmod +x steps
	OUT=$WORLD/seen run -0 --separate-stderr rad bench collocate --gpu 0 --seconds 1 --repeat 1 --degrees 2 --modes mps,mps-percent \
		--json -o mps.jsonl -- ./steps
	jq -e '[.runs[] | .mode] == ["serial", "mps", "mps-percent"]' <<<"$output"
	jq -e '.runs[1] | [.gract, .smact, .smocc, .dram, .pcie_rx_mib_s, .power_w] == [0.9, 0.6, 0.2, 0.3, 400, 300]' <<<"$output"
	[ "$(wc -l <"$WORLD/seen")" -eq 5 ]
	[ "$(grep -c '^[^ ]* /tmp/rad-bench[^ ]*/none $' "$WORLD/seen")" -eq 1 ]
	[ "$(grep -c '^[^ ]* /tmp/rad-bench[^ ]*/pipe $' "$WORLD/seen")" -eq 2 ]
	[ "$(grep -c '^[^ ]* /tmp/rad-bench[^ ]*/pipe 50$' "$WORLD/seen")" -eq 2 ]
	echo dies >"$fake/mode"
	OUT=$WORLD/seen run -1 --separate-stderr rad bench collocate --gpu 0 --seconds 1 --repeat 1 --degrees 2 --modes mps -o dies.jsonl \
		-- ./steps
	[[ "$stderr" == *"the MPS control daemon does not come up"* ]]
	! pgrep -f "$RAD_MPS_CONTROL -f" || false
	! grep -q . <(cut -d' ' -f2 "$WORLD/seen" | while read -r folder; do ls -d "${folder%/*}"; done 2>/dev/null) || false
}

@test "a driver's counter of energy that starts over takes nothing away" {
	fake_driver
	rm -f "$WORLD/fake/mode"
	cat >"$RAD_FAKE_NVML" <<-'END'
		{"devices": [{"uuid": "GPU-a", "pci": [0, 26, 0], "name": "NVIDIA H200", "cc": [9, 0], "cores": 16896, "total_mib": 143771,
		"reserved_mib": 600, "used_mib": 5000, "energy_mj": 990000000, "processes": [], "mps": [], "mig": null,
		"gpm": {"1": 90, "2": 60}, "fail": {"nvmlDeviceGetPowerUsage": 3}}]}
	END
	cat >over <<-'END'
		#!/bin/sh
		i=0
		while [ $i -lt 999 ]; do
			i=$((i + 1))
			sed "s/\"energy_mj\": [0-9]*/\"energy_mj\": $((990000000 + i * 9000 - i / 5 * 1000000))/" "$RAD_FAKE_NVML" >"$RAD_FAKE_NVML.new"
			mv "$RAD_FAKE_NVML.new" "$RAD_FAKE_NVML"
			echo "step $i/999"
			sleep 0.1
		done
	END
	chmod +x over
	run -0 --separate-stderr rad bench collocate --gpu 0 --seconds 1 --repeat 1 --degrees 1 --json -o over.jsonl -- ./over
	jq -e '.runs[0] | .power_w > 20 and .power_w < 200 and .energy_j > 0' <<<"$output"
}
