#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Tasks without GPUs: they run beside busy GPUs, as many as the machine has CPUs, see no GPU, and are told of consistently.

bats_require_minimum_version 1.5.0
load helpers.bash

setup_file()
{
	new_world
	chmod 755 "$WORLD"	# the exporter, started as root, asks as nobody
	printf 'host_mem: 4\nhost_cpus: 3\norder: backfill\n' >>"$RAD_CONFIG"
	DEVICES=sim:1xa100-40g start_radd
}

teardown_file() { end_world; }

setup()
{
	cd "$WORLD/work"
	rm -f go
}

teardown()
{
	: >go
	end_tasks
}

waits() { submit "$@" -- sh -c 'while [ ! -e go ]; do sleep 0.1; done'; }

@test "a chain from the CPU to a GPU and back, while the GPU is taken" {
	local busy a b c
	busy=$(waits --exclusive)
	wait_state "$busy" RUNNING
	a=$(submit --gpus 0 -- sh -c 'echo prepared')
	b=$(submit --dependency=afterok:"$a" --gpu-mem 1G -- sh -c 'echo "trained on $CUDA_VISIBLE_DEVICES"')
	printf 'gpus: 0\necho plotted\n' >plot.rad
	c=$(submit --dependency=afterok:"$b" plot.rad)
	wait_state "$a" COMPLETED
	[ "$(state "$b")" = PENDING ]
	: >go
	wait_state "$c" COMPLETED
	[ "$(cat "rad-$a.out" "rad-$b.out" "rad-$c.out")" = $'prepared\ntrained on 0\nplotted' ]
}

@test "no GPU is in its environment, whatever it sets, and one thread, as it counts as one CPU" {
	local a
	a=$(unset OMP_NUM_THREADS; submit --gpus 0 -- sh -c 'echo "[$CUDA_VISIBLE_DEVICES] [$RAD_GPU_UUIDS] [$RAD_GPU_MEM_MIB] $OMP_NUM_THREADS"
		CUDA_VISIBLE_DEVICES=0 sh -c "echo [\$CUDA_VISIBLE_DEVICES]"; env -u CUDA_VISIBLE_DEVICES sh -c "echo [\$CUDA_VISIBLE_DEVICES]"
		CUDA_VISIBLE_DEVICES=GPU-1 python3 -c "
import os
print([os.environ[\"CUDA_VISIBLE_DEVICES\"]])
os.environ[\"CUDA_VISIBLE_DEVICES\"] = \"0\"
os.system(\"echo [\$CUDA_VISIBLE_DEVICES]\")"')
	wait_state "$a" COMPLETED
	[ "$(cat "rad-$a.out")" = $'[] [] [] 1\n[]\n[]\n[\'\']\n[]' ]
}

@test "a container is given no GPU" {
	local a
	mkdir -p bin
	printf '%s\n' '#!/bin/sh' 'printf "%s\n" "$@" >docker.txt' >bin/docker
	chmod +x bin/docker
	a=$(PATH=$PWD/bin:$PATH submit --gpus 0 -- "$RAD_SOURCE_ROOT/examples/container.sh" image true)
	wait_state "$a" COMPLETED
	grep -qx NVIDIA_VISIBLE_DEVICES=void docker.txt
	run -1 grep -E -- '--gpus|device=' docker.txt
}

@test "as many run as the machine has CPUs, and rad why tells it; drained GPUs hold none" {
	local a b
	rad drain 0
	a=$(waits --gpus 0 --array 0-3)
	wait_state "${a}_2" RUNNING
	b=$(waits --gpus 0 --cpus-per-task 2)
	[ "$(field "${a}_3" .reason)" = HostCpus ]
	rad why "${a}_3" | grep -q 'asks for 1 CPU (as a task without GPUs does by itself): 0 of 3 are free'
	rad why "$b" | grep -q 'asks for 2 CPUs: 0 of 3 are free'
	rad queue --start --json | jq -e --arg b "$b" '.starts[] | select(.id == $b) | .source == null'
	rad gpus | grep -qx 'Host: 3 of 3 CPUs asked for by running tasks'
	rad gpus --json | jq -e '.gpus[0].tasks == []'
	rad undrain 0
	rad cancel "${a}_0"
	wait_state "${a}_3" RUNNING
}

@test "it is found again when radd was killed, and its time limit ends it" {
	local a b
	a=$(waits --gpus 0)
	b=$(waits --gpus 0 --time 20s)
	wait_state "$a" RUNNING
	wait_state "$b" RUNNING
	kill_radd
	DEVICES=sim:1xa100-40g start_radd
	[ "$(state "$a")" = RUNNING ]
	rad gpus --json | jq -e '.host.cpus_held == 2'
	wait_state "$b" TIMEOUT
	[[ $(rad why "$b") == *"What helps: a longer --time"[!,]* ]]
	: >go
	wait_state "$a" COMPLETED
	[ "$(field "$a" '.attempts | length')" = 1 ]
}

@test "it can be cancelled, suspended, held, released and run again" {
	local a
	a=$(waits --gpus 0 --hold)
	[ "$(state "$a")" = HELD ]
	rad release "$a"
	wait_state "$a" RUNNING
	wait_for 10 rad suspend "$a"
	[ "$(field "$a" .reason)" = Suspended ]
	[[ $(rad why "$a") == *"its processes are stopped, and it keeps its CPUs and memory; 'rad resume'"* ]]
	rad resume "$a"
	rad requeue "$a"
	wait_for 10 sh -c "[ \$(rad show --json $a | jq '.tasks[0].attempts | length') = 2 ]"
	rad cancel "$a"
	wait_state "$a" CANCELLED
}

@test "what is of GPUs is refused" {
	local words
	for words in '--gpu-mem 1G' --exclusive '--share mps' '--constraint a100' '--max-slowdown 2' --capture=auto '--slot 1h'; do
		run -2 rad submit --gpus 0 $words true
		[[ "$output" == *"'gpus' is 0 and '"*"' is of GPUs: leave one of them out" ]]
	done
	run -2 rad lease --gpus 0
	[[ "$output" == *"'gpus' is 0 and 'lease'"* ]]
	run -2 rad submit --gpus 0 --cpus-per-task 4 true
	[[ "$output" == *"4 CPUs wanted, and tasks here get 3 in all"* ]]
	printf '#!/bin/sh\n#SBATCH --gres=none\n#SBATCH --mem=5G\necho hi\n' >job.sh
	run -2 rad submit job.sh
	[[ "$output" == *"5.0G of host memory"* ]]
	local a
	a=$(waits --gpus 0)
	run -1 rad update --gpu-mem 1G "$a"
	rad cancel "$a"
	a=$(waits --gpus 0 --hold)
	run -2 rad update --gpu-mem 1G "$a"
	[[ "$output" == *"asks for no GPU"* ]]
}

@test "an out-of-memory in its output makes it no task that runs again" {
	local a
	a=$(submit --gpus 0 -- sh -c 'echo "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB" >&2; exit 1')
	wait_state "$a" FAILED
	[ "$(field "$a" '.attempts | length')" = 1 ]
}

@test "a line of a script, and Slurm's spellings; rad run waits for it at a terminal, too" {
	local a
	printf '#!/bin/sh\n#RAD --gpus=0\necho from the script\n' >job.sh
	[ "$(rad run job.sh)" = 'from the script' ]
	printf '#!/bin/sh\n#SBATCH --gres=none\necho "[$CUDA_VISIBLE_DEVICES]"\n' >job.sh
	[ "$(rad run job.sh)" = '[]' ]
	a=$(submit --gpus-per-node 0 true)
	[ "$(field "$a" .gpus_requested)" = 0 ]
	wait_state "$a" COMPLETED
}

@test "lists, accounts, reports and metrics have it with no GPU and no energy" {
	local a
	a=$(waits --gpus 0 --name bare)
	wait_state "$a" RUNNING
	rad queue | grep -E "^ *$a +bare +.* 0 +- +-$"
	rad show "$a" | grep -q 'asks for  no GPU'
	rad show "$a" | grep -q 'CPUs  1, and one thread, since it does not say (--cpus-per-task)'
	rad show "$a" | grep -q 'to now without a GPU'
	rad why "$a" | grep -q 'attempt 1 without a GPU: running'
	: >go
	wait_state "$a" COMPLETED
	rad show --events "$a" | grep -q 'placed .*without a GPU'
	rad acct --json | jq -e --arg a "$a" '.tasks[] | select(.id == $a) | .gpu_s == 0 and .gpus_requested == 0 and .attempts[0].energy_j == null'
	[[ "$(rad acct)" != *nan* && "$(rad acct --csv)" == *"$a,bare,"* && "$(rad acct --csv)" != *nan* ]]
	rad report --since 1d -o page.html
	grep -q bare page.html
	rad show --json "$a" | jq -e '.tasks[0].attempts[0].gpus == [] and .tasks[0].estimate.claim_mib == null'
	rad acct --by user --json | jq -e '.totals.tasks == ([.groups[].tasks] | add)'
	[ "$(rad acct --by user --json | jq .totals.tasks)" -eq "$(rad acct --json | jq .totals.tasks)" ]
}

@test "Prometheus is told of it" {
	local a line address
	a=$(waits --gpus 0)
	wait_state "$a" RUNNING
	mkfifo said
	rad exporter --listen 127.0.0.1:0 --tasks >said 2>/dev/null 3>&- 4>&- &
	exporter=$!
	IFS= read -r -t 80 line <said
	address=${line#rad exporter: }
	curl -s --max-time 20 "$address" >metrics
	kill "$exporter"
	gone "$exporter"
	grep -q "^rad_task_gpus{.*task=\"$a\".*} 0$" metrics
	run ! grep -q NaN metrics
}

@test "a pilot takes it from a queue of files" {
	local a
	export RAD_QUEUE=$WORLD/queue
	a=$(submit --gpus 0 -- sh -c 'echo "[$CUDA_VISIBLE_DEVICES]"')
	run -2 rad submit --gpus 0 --gpu-mem 1G true
	[[ "$output" == *"'gpus' is 0 and 'gpu_mem'"* ]]
	rad pilot --devices sim:1xa100-40g --state "$WORLD/pilot" >pilot.log 2>&1 3>&- 4>&- </dev/null &
	pilot=$!
	timeout 200 rad wait "$a" || cat pilot.log
	kill $pilot
	gone $pilot
	[ "$(rad logs "$a")" = '[]' ]
	[ "$(field "$a" .gpus_requested)" = 0 ]
}
