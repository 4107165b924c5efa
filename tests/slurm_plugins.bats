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

@test "which GPUs a job has is Slurm's word, whatever its user sets" {
	export SLURM_GPUS_ON_NODE=2 SLURM_JOB_GPUS=1 SLURM_STEP_GPUS=1 CUDA_VISIBLE_DEVICES=1 SLURM_SHARDS_ON_NODE=30
	printf '#!/bin/sh\necho "task ${RAD_TASK_ID:-none}"\n' >none.sh
	id=$(sbatch_as root -w n1 none.sh)
	wait_job "$id" COMPLETED
	[ "$(cat "job-$id.out")" = "task none" ]
	[ "$(srun -w n1 sh -c 'echo "task ${RAD_TASK_ID:-none}"')" = "task none" ]
	script two.sh --gpu-mem=2G 'echo "$RAD_TASK_ID" >task'
	for run in sbatch_as\ root srun; do
		rm -f task
		SLURM_RAD_MEM=40000 $run -w n1 --gres=shard:2 two.sh >/dev/null 2>&1
		wait_for 60 test -s task
		on_node n1 rad show --json "$(cat task)" |
			jq -e '.tasks[0].attempts[0] | .claim_mib == 2048 and (.gpus[0] | endswith("-000000000000"))'
	done
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
