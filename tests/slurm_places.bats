#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# The node places: a partition whose nodes advertise memory of GPUs alone (gres/radmem), and radd says which GPU, or not now.

bats_require_minimum_version 1.5.0
load helpers.bash
load cluster.bash
load plugins.bash

setup_file() { plugin_cluster radmem; }
setup() { plugin_settings "place: main" "place_limit: 2" "place_tries: 50"; }
teardown() { touch "$WORLD/work/go" 2>/dev/null || :; idle_cluster; rm -f "$WORLD"/work/*; }
teardown_file() { end_cluster; }

UNTIL_GO='echo "gpus $CUDA_VISIBLE_DEVICES"; rad simtask --mem 20G --seconds 600 --ramp 0.1 & i=0; while [ ! -e go ] && [ $i -lt 9000 ]; do i=$((i+1)); sleep 0.1; done; kill %1'

runs() { grep -q ^gpus "job-$1.out"; }

@test "jobs of several users get GPUs from radd; what has no place now is put back by Slurm, and comes later" {
	script part.sh "--gpu-mem=25G" "$UNTIL_GO"
	a=$(sbatch_as "$ALICE" -p main -w n1 part.sh 2>/dev/null)
	b=$(sbatch_as "$BOB" -p main -w n1 part.sh 2>/dev/null)
	[ "$(job "$a" TresPerNode)" = gres:radmem:25 ]
	wait_for 60 runs "$a"
	wait_for 60 runs "$b"
	[ "$(cat "job-$a.out" "job-$b.out" | grep ^gpus | sort)" = $'gpus 0\ngpus 1' ]
	# 30 of 80 GiB are free, and no GPU has 25 of them.
	c=$(sbatch_as "$ALICE" -p main -w n1 --open-mode=append part.sh 2>/dev/null)
	wait_for 60 grep -q "no place on a GPU of this node now: exit 75" "job-$c.out"
	wait_for 60 sh -c "[ \$(scontrol show job -o $c | grep -o 'Restarts=[0-9]*' | cut -d= -f2) -ge 1 ]"
	[ "$(on_node n1 rad queue --json | jq '.tasks | length')" -le 3 ]
	touch go
	wait_job "$a" COMPLETED
	wait_job "$b" COMPLETED
	wait_job "$c" COMPLETED 120
	grep -q '^gpus [01]$' "job-$c.out"
	none_drained
}

@test "a job of two GPUs has both at once, and memory on each" {
	script two.sh "--gpu-mem=10G --gpus=2" 'echo "$CUDA_VISIBLE_DEVICES $RAD_TASK_ID"; rad simtask --mem 9G --seconds 2 --ramp 0.1'
	id=$(sbatch_as "$ALICE" -p main -w n2 two.sh 2>/dev/null)
	[ "$(job "$id" TresPerNode)" = gres:radmem:20 ]
	wait_job "$id" COMPLETED
	[[ "$(head -n 1 "job-$id.out")" == "0,1 "* ]]
	comment_has "$id" 'rad: ok: peak 9.0G of 10.0G'
}

@test "a job that never finds a place ends after so many tries, and says so" {
	plugin_settings "place: main" "place_limit: 1" "place_tries: 1"
	script all.sh "--gpu-mem=30G" "$UNTIL_GO"
	script late.sh "--gpu-mem=15G" true
	a=$(sbatch_as "$ALICE" -p main -w n1 all.sh 2>/dev/null)
	b=$(sbatch_as "$ALICE" -p main -w n1 all.sh 2>/dev/null)
	wait_for 60 runs "$a"
	wait_for 60 runs "$b"
	id=$(sbatch_as "$BOB" -p main -w n1 --open-mode=append late.sh 2>/dev/null)
	wait_job "$id" FAILED 120
	[ "$(job "$id" ExitCode)" = 74:0 ]
	grep -q 'no place on a GPU in 2 tries' "job-$id.out"
}

@test "a job that ran out of memory has a GPU to itself when it comes again" {
	script small.sh "--gpu-mem=8G" 'rad simtask --mem 20G --seconds 1 --ramp 0.1'
	id=$(sbatch_as "$ALICE" -p main small.sh 2>/dev/null)
	wait_job "$id" FAILED
	"$PLUGINS/rad-slurm" recover --once
	[ "$(job "$id" TresPerNode)" = gres:radmem:40 ]
	wait_job "$id" COMPLETED 120
	comment_has "$id" 'rad: ok: peak 20.0G'
}

@test "who asks for no GPU memory where radd places is refused, at once, in the default partition and in several too" {
	scontrol create partitionname=other nodes=n1,n2 state=up >/dev/null 2>&1 || :
	script part.sh "--gpu-mem=25G" true
	for words in "" "-p main" "-p main,other" "--gres=craynetwork:0"; do
		run sbatch $words --wrap true
		[ "$status" -ne 0 ]
		[[ "$output" == *"radd places there, by the GPU memory that a job asks for, and this one asks for none: add --rad-gpu-mem=8G"* ]]
	done
	run timeout 100 srun true
	[ "$status" -ne 0 ]
	run sbatch -p main,other part.sh
	[ "$status" -ne 0 ]
	[[ "$output" == *"name partitions of one kind"* ]]
	run rad sbatch part.sh -p main,other
	[ "$status" -ne 0 ]
	[[ "$output" == *"name partitions of one kind"* ]]
	[ -z "$(squeue -h)" ]
	# What says it is taken: by the script, by sbatch's own option, without a client of ours, and of several where one can run it.
	id=$(sbatch_as root -p main -H part.sh 2>/dev/null)
	[ "$(job "$id" TresPerNode)" = gres:radmem:25 ]
	id=$(sbatch --parsable -H <part.sh)
	[ "$(job "$id" TresPerNode)" = gres:radmem:25 ]
	id=$(sbatch --parsable -H -p main,other --gres=radmem:3 --wrap true)
	id=$(sbatch --parsable -H -p other --wrap true)
	run scontrol update jobid="$id" partition=main
	[ "$status" -ne 0 ]
	scontrol update jobid="$id" partition=main trespernode=gres:radmem:3
}

@test "a job takes no GPU by its own word: its request is dropped later, its environment is forged" {
	scontrol create partitionname=other nodes=n1,n2 state=up >/dev/null 2>&1 || :
	script told.sh "--gpu-mem=25G" 'echo "task ${RAD_TASK_ID:-none}"'
	id=$(sbatch_as root -p main -H told.sh 2>/dev/null)
	scontrol update jobid="$id" trespernode=
	[ -z "$(job "$id" TresPerNode)" ]
	scontrol release "$id"
	wait_job "$id" FAILED
	[ "$(job "$id" ExitCode)" = 74:0 ]
	grep -q "it asks Slurm for no GPU memory, by which radd places here" "job-$id.out"
	# Slurm gives no GPUs here, so what says so is the user's.
	export SLURM_GPUS_ON_NODE=2 SLURM_JOB_GPUS=0,1 SLURM_STEP_GPUS=0,1 CUDA_VISIBLE_DEVICES=0,1 SLURM_SHARDS_ON_NODE=3 SLURM_RAD_MEM=1024
	printf '#!/bin/sh\necho "task ${RAD_TASK_ID:-none} $SLURM_GPUS_ON_NODE"\n' >forged.sh
	id=$(sbatch_as root -p other forged.sh)
	wait_job "$id" COMPLETED
	[ "$(cat "job-$id.out")" = "task none 2" ]
	[ "$(timeout 200 srun -p other sh -c 'echo "task ${RAD_TASK_ID:-none}"')" = "task none" ]
	[ "$(on_node n1 rad queue --json | jq '.tasks | length')" = 0 ]
	# Nor is its partition the user's to say.
	export SLURM_JOB_PARTITION=other
	[ "$(timeout 200 srun -p main --gres=radmem:2 -w n1 sh -c 'echo "task ${RAD_TASK_ID:+told}"')" = "task told" ]
}

@test "a radd that hangs: the job is put back, and runs when radd goes on" {
	script quick.sh "--gpu-mem=2G" 'echo "gpus $CUDA_VISIBLE_DEVICES"'
	local pid
	pid=$(radd_pid n1)
	kill -STOP "$pid"
	id=$(sbatch_as "$ALICE" -p main -w n1 --open-mode=append quick.sh 2>/dev/null)
	wait_for 60 grep -q "no place on a GPU of this node now" "job-$id.out"
	kill -CONT "$pid"
	wait_job "$id" COMPLETED 120
	grep -q '^gpus [01]$' "job-$id.out"
	wait_for 30 sh -c "RAD_SOCKET=$CLUSTER/n1/radd.sock rad queue --json | jq -e '.tasks == []'"
	none_drained
}
