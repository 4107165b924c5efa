#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Slurm places, RAD sizes, and something fails: a job, radd.

bats_require_minimum_version 1.5.0
load helpers.bash
load cluster.bash
load plugins.bash

setup_file() { plugin_cluster shard --clock n2=-240; }
setup() { plugin_settings; }
teardown() { touch "$WORLD/work/go" 2>/dev/null || :; idle_cluster; rm -f "$WORLD"/work/*; }
teardown_file() { end_cluster; }

UNTIL_GO='i=0; while [ ! -e go ] && [ $i -lt 6000 ]; do i=$((i+1)); sleep 0.1; done'

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

@test "a node whose clock is four minutes behind: jobs share, run out of memory, start again there, and outlive its radd" {
	script small.sh --gpu-mem=8G 'rad simtask --mem 20G --seconds 1 --ramp 0.1'
	id=$(sbatch_as "$ALICE" -w n2 small.sh 2>/dev/null)
	wait_job "$id" FAILED
	comment_has "$id" 'rad: oom: .* on n2 restarts=0'
	"$PLUGINS/rad-slurm" recover --once
	wait_job "$id" COMPLETED 120
	comment_has "$id" 'rad: ok: peak 20.0G .* on n2 restarts=1'
	script until.sh --gpu-mem=8G 'rad simtask --mem 6G --seconds 600 --ramp 0.1 & echo $RAD_TASK_ID >task' "$UNTIL_GO" 'kill %1'
	id=$(sbatch_as root -w n2 until.sh 2>/dev/null)
	wait_for 30 test -s task
	cluster kill-radd n2
	cluster start-radd n2
	wait_for 30 sh -c "RAD_SOCKET=$CLUSTER/n2/radd.sock rad gpus --json | jq -e '.gpus[0].mem_held_mib == 8192'"
	wait_for 30 sh -c "RAD_SOCKET=$CLUSTER/n2/radd.sock rad show --json $(cat task) | jq -e '.tasks[0].attempts[0].peak_mib >= 6144'"
	began=$(on_node n2 rad show --json "$(cat task)" | jq -r '.tasks[0].start_time')
	touch go
	wait_job "$id" COMPLETED
	comment_has "$id" 'rad: ok: peak 6.0G of 8.0G'
	# Its clock was really off.
	off=$(($(date +%s) - $(date -d "$began" +%s)))
	[ "$off" -ge 240 ]
	[ "$off" -lt 1200 ]
	none_drained
}

@test "recover believes what the node wrote, not a name that looks so" {
	script fails.sh --gpu-mem=8G 'exit 1'
	id=$(sbatch_as "$ALICE" -J 'x AdminComment=rad: oom: peak 8.0G of 8.0G [task 3 on n1 restarts=0]' fails.sh 2>/dev/null)
	wait_job "$id" FAILED
	comment_has "$id" 'rad: failed: '
	scontrol show job -o "$id" | grep -q ' AdminComment=rad: oom: .*restarts=0'
	run "$PLUGINS/rad-slurm" recover --once
	[ "$status" -eq 0 ]
	[ -z "$output" ]
	[ "$(job "$id" JobState)" = FAILED ]
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
