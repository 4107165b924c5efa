#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Slurm places, RAD sizes: the plugins in real Slurm, on nodes whose GPUs can be had in pieces of 1 GiB.

bats_require_minimum_version 1.5.0
load helpers.bash
load cluster.bash
load plugins.bash

setup_file() { plugin_cluster shard; }
setup() { plugin_settings; }
teardown() { touch "$WORLD/work/go" 2>/dev/null || :; idle_cluster; rm -f "$WORLD"/work/*; }
teardown_file() { end_cluster; }

UNTIL_GO='i=0; while [ ! -e go ] && [ $i -lt 600 ]; do i=$((i+1)); sleep 0.1; done'

@test "an estimate changes what sbatch asks for; the comment says what the job took" {
	script train.sh --gpu-mem=8G 'rad simtask --mem 6G --seconds 2 --ramp 0.1'
	run --separate-stderr sbatch_as root -w n1 train.sh
	id=$output
	[ "$stderr" = "rad: train.sh: takes 8.0G on its GPU (declared): asks Slurm for --gres=shard:8, by its estimate" ]
	[ "$(job "$id" TresPerNode)" = gres:shard:8 ]
	wait_job "$id" COMPLETED
	comment_has "$id" 'rad: ok: peak 6.0G of 8.0G.* on n1 restarts=0'
	# The same by our own command, and where nothing but --rad-gpu-mem says it.
	id=$(rad sbatch train.sh --parsable 2>/dev/null)
	[ "$(job "$id" TresPerNode)" = gres:shard:8 ]
	run -0 --separate-stderr srun --rad-gpu-mem=3G sh -c 'echo $SLURM_SHARDS_ON_NODE $CUDA_MPS_PINNED_DEVICE_MEM_LIMIT'
	[ "$output" = "3 0=3072M" ]
	none_drained
}

@test "what says nothing of RAD is left as it is; what asks for GPUs itself, too" {
	printf '#!/bin/sh\ntrue\n' >plain.sh
	run --separate-stderr sbatch_as root plain.sh
	[ -z "$stderr" ]
	[ -z "$(job "$output" TresPerNode)" ]
	script own.sh --gpu-mem=8G true
	id=$(sbatch_as root --gres=gpu:1 own.sh 2>/dev/null)
	[ "$(job "$id" TresPerNode)" = gres:gpu:1 ]
}

@test "jobs of two users share a GPU: each with its fence, counted by the node's radd" {
	need_root
	script share.sh --gpu-mem=8G 'echo "$CUDA_VISIBLE_DEVICES $CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"' 'rad simtask --mem 6G --seconds 600 --ramp 0.1'
	a=$(sbatch_as "$ALICE" -w n2 share.sh 2>/dev/null)
	b=$(sbatch_as "$BOB" -w n2 share.sh 2>/dev/null)
	wait_for 60 sh -c "RAD_SOCKET=$CLUSTER/n2/radd.sock rad gpus --json | jq -e '.gpus[0] | .share == \"mps\" and .mem_held_mib == 16384 and
		(.tasks | length) == 2 and ([.processes[] | select(.task != null)] | length) == 2'"
	on_node n2 rad queue --json | jq -e --arg a "$ALICE" --arg b "$BOB" '[.tasks[].user] | sort == ([$a, $b] | sort)'
	[ "$(head -n 1 "job-$a.out")" = "0 0=8192M" ]
	[ "$(head -n 1 "job-$b.out")" = "0 0=8192M" ]
	scancel "$a" "$b"
	wait_for 60 sh -c "RAD_SOCKET=$CLUSTER/n2/radd.sock rad gpus --json | jq -e '.gpus[0].mem_held_mib == 0'"
}

@test "a step of a batch job is of the job's task" {
	script steps.sh --gpu-mem=8G 'echo "$RAD_TASK_ID"' 'srun --overlap sh -c "echo \$RAD_TASK_ID; rad simtask --mem 6G --seconds 2 --ramp 0.1" >step' 'exit 3'
	id=$(sbatch_as root -w n1 steps.sh 2>/dev/null)
	wait_job "$id" FAILED
	[ "$(head -n 1 step)" = "$(head -n 1 "job-$id.out")" ]
	comment_has "$id" 'rad: failed: peak 6.0G of 8.0G; exit 3'
	task=$(head -n 1 step)
	[ "$(on_node n1 rad show --json "$task" | jq -r '.tasks[0].exit_code')" = 3 ]
}

@test "a job that ran out of memory starts again with a whole GPU: where it failed, and where it exits with 99" {
	script small.sh --gpu-mem=8G 'rad simtask --mem 20G --seconds 1 --ramp 0.1 || exit $(cat code)'
	"$PLUGINS/rad-slurm" recover --interval 1 >said 2>&1 3>&- 4>&- &
	local watcher=$!
	for code in 1 99; do
		echo $code >code
		id=$(sbatch_as root small.sh 2>/dev/null)
		wait_job "$id" COMPLETED 120
		[ "$(job "$id" TresPerNode)" = gres:shard:40 ]
		[ "$(job "$id" Restarts)" -ge 1 ]
		grep -q "^job $id: ran out of GPU memory with gres:shard:8: starts again with shard:40$" said
		comment_has "$id" 'rad: ok: peak 20.0G .* restarts=[12]'
	done
	kill "$watcher"
	[ "$(wc -l <said)" = 2 ]
}

@test "what no GPU has is refused at once, whichever way it is asked for" {
	script huge.sh --gpu-mem=200G true
	script small.sh --gpu-mem=2G true
	for words in huge.sh "--rad-gpu-mem=200G small.sh" "--gres=shard:200 small.sh"; do
		run sbatch $words
		[ "$status" -ne 0 ]
		[[ "$output" == *"200.0G does not fit any GPU of this cluster: the largest has 40.0G"* ]]
	done
	run sbatch --gres=gpu:9 small.sh
	[ "$status" -ne 0 ]
	[[ "$output" == *"9 GPUs of one node: no node of this cluster has more than 2"* ]]
	run sbatch <huge.sh	# no client could read it
	[ "$status" -ne 0 ]
	[[ "$output" == *"200.0G does not fit any GPU"* ]]
	[ -z "$(squeue -h)" ]
	id=$(sbatch --parsable <small.sh)
	[ "$(job "$id" TresPerNode)" = gres:shard:2 ]
}

@test "radd is killed under a job, and comes back: the job goes on, and is counted to its end" {
	script until.sh --gpu-mem=8G 'rad simtask --mem 6G --seconds 600 --ramp 0.1 & echo $RAD_TASK_ID >task' "$UNTIL_GO" 'kill %1'
	id=$(sbatch_as root -w n1 until.sh 2>/dev/null)
	wait_for 30 test -s task
	cluster kill-radd n1
	cluster start-radd n1
	wait_for 30 sh -c "RAD_SOCKET=$CLUSTER/n1/radd.sock rad gpus --json | jq -e '.gpus[0].tasks == [\"$(cat task)\"] and .gpus[0].mem_held_mib == 8192'"
	touch go
	wait_job "$id" COMPLETED
	comment_has "$id" 'rad: ok: peak 6.0G of 8.0G'
	[ "$(on_node n1 rad show --json "$(cat task)" | jq -r '.tasks[0].state')" = COMPLETED ]
}

@test "a radd that hangs, or is away: jobs run all the same, and no node is drained" {
	script quick.sh --gpu-mem=2G 'echo "task ${RAD_TASK_ID:-none}"'
	local pid
	pid=$(radd_pid n1)
	kill -STOP "$pid"
	id=$(sbatch_as root -w n1 quick.sh 2>/dev/null)
	wait_job "$id" COMPLETED
	kill -CONT "$pid"
	[ "$(cat "job-$id.out")" = "task none" ]
	cluster kill-radd n1
	id=$(sbatch_as root -w n1 quick.sh 2>/dev/null)
	wait_job "$id" COMPLETED
	[ "$(cat "job-$id.out")" = "task none" ]
	grep -q "job $id: radd was not told of it" "$CLUSTER/n1/slurmd.log"
	cluster start-radd n1
	# It hangs when the job ends.
	script end.sh --gpu-mem=2G 'echo $RAD_TASK_ID >task' "$UNTIL_GO"
	id=$(sbatch_as root -w n1 end.sh 2>/dev/null)
	wait_for 30 test -s task
	pid=$(radd_pid n1)
	kill -STOP "$pid"
	touch go
	wait_job "$id" COMPLETED
	wait_for 60 grep -q "job $id: its end: no answer in time" "$CLUSTER/n1/slurmd.log"
	kill -CONT "$pid"
	wait_for 30 sh -c "RAD_SOCKET=$CLUSTER/n1/radd.sock rad queue --json | jq -e '.tasks == []'"
	none_drained
}
