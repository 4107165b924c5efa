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

UNTIL_GO='echo "gpus $CUDA_VISIBLE_DEVICES"; rad simtask --mem 20G --seconds 600 --ramp 0.1 & i=0; while [ ! -e go ] && [ $i -lt 900 ]; do i=$((i+1)); sleep 0.1; done; kill %1'

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
