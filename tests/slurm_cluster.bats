#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# RAD-RM inside of real Slurm, on a cluster of three nodes that tests/cluster makes on this machine.

bats_require_minimum_version 1.5.0
load helpers.bash
load cluster.bash

setup_file() { new_cluster; }
setup() { use_cluster; }
teardown() { idle_cluster; }
teardown_file() { end_cluster; }

# ---- the cluster itself ----

@test "cluster: three nodes, each with GPUs of Slurm's and a radd with as many; all of it on the loopback interface" {
	[ "$(sinfo -h -N -o '%N %G %T' | sort)" = $'n1 gpu:2 idle\nn2 gpu:2 idle\nn3 gpu:2 idle' ]
	run -0 srun -N 3 sh -c 'echo "$SLURMD_NODENAME $CUDA_VISIBLE_DEVICES $(rad gpus --json | jq ".gpus | length")"'
	[ "$(sort <<<"$output")" = $'n1  2\nn2  2\nn3  2' ]
	[ "$(srun --gres=gpu:2 sh -c 'echo $CUDA_VISIBLE_DEVICES')" = 0,1 ]
	for port in $(sed -n 's/.*Port=\([0-9]*\).*/\1/p' "$CLUSTER/etc/slurm.conf"); do
		ss -ltnH "sport = :$port" | awk '{ print $4 }' | grep -Fqx "127.0.0.1:$port"
	done
}

@test "cluster: jobs of two users run as these, and so do the tasks of their radd" {
	need_root
	printf '#!/bin/sh\nid -un; rad run -- id -un\n' >who.sh
	for user in "$ALICE" "$BOB"; do
		id=$(sbatch_as "$user" who.sh)
		wait_job "$id" COMPLETED
		[ "$(cat "job-$id.out")" = "$user"$'\n'"$user" ]
	done
}

@test "cluster: a job on a node that fails is queued again; the node boots, and takes jobs" {
	cat >again.sh <<-'END'
		#!/bin/sh
		echo "$SLURMD_NODENAME ${SLURM_RESTART_COUNT:-0}"
		[ -n "$SLURM_RESTART_COUNT" ] || sleep 600
	END
	id=$(sbatch_as "$ALICE" --open-mode=append -w n2 again.sh)
	wait_for 30 grep -q 'n2 0' "job-$id.out"
	node_fails n2
	wait_for 30 eval 'squeue -h -o "%A %T" | grep -q "^$id PENDING"'
	cluster start-node n2
	wait_job "$id" COMPLETED
	[ "$(cat "job-$id.out")" = $'n2 0\nn2 1' ]
}

@test "cluster: slurmctld is killed under a job, and started again; the job runs on and ends" {
	printf '#!/bin/sh\necho began\nwhile [ ! -e go ]; do sleep 0.1; done\n' >until.sh
	id=$(sbatch_as "$ALICE" until.sh)
	wait_for 30 grep -q began "job-$id.out"
	saved "$id"
	cluster kill-ctld
	run ! timeout 5 squeue
	cluster restart-ctld
	[ "$(job "$id" JobState)" = RUNNING ]
	touch go
	wait_job "$id" COMPLETED
	[ "$(cat "job-$id.out")" = began ]
}

@test "cluster: a job that exits with RequeueExit's code runs again; with RequeueExitHold's it is held" {
	printf '#!/bin/sh\nexit "$([ "${SLURM_RESTART_COUNT:-0}" = 0 ] && echo 75 || echo 99)"\n' >codes.sh
	id=$(sbatch_as "$ALICE" codes.sh)
	wait_job "$id" SPECIAL_EXIT
	[ "$(job "$id" Restarts)" -ge 1 ]
	scancel "$id"
}

# ---- what a task sees ----

@test "a task begun from a Slurm step is no rank of that step: submitit, Lightning and MPI do not take it for one" {
	python=python3
	[ ! -x "$RAD_BUILD_ROOT/python-venv/bin/python" ] || python=$RAD_BUILD_ROOT/python-venv/bin/python
	detect="$python -B $RAD_SOURCE_ROOT/tests/cluster-detect"
	export SUBMITIT_EXECUTOR=slurm		# as submitit's scripts do
	mkdir step && cd step	# each node counts its tasks: the log of another user's task 1 may lie beside
	run -0 --separate-stderr srun --mpi=pmi2 --gres=gpu:1 $detect
	[ "$(awk '{ print $1, $2 }' <<<"$output")" = $'submitit yes\nlightning yes\npmi yes' ]
	run -0 --separate-stderr srun --mpi=pmi2 --gres=gpu:1 rad run -- $detect
	[ "$(awk '{ print $1, $2 }' <<<"$output")" = $'submitit no\nlightning no\npmi no' ]
	run ! grep -E '^(SLURM|SRUN|PMI|SUBMITIT|ROCR_|ZE_|GPU_DEVICE)' <(srun --mpi=pmi2 --gres=gpu:1 rad run -- env)
}

# ---- inside of an allocation ----

# pilot: an allocation of one node with a pilot, Alice's; prints the job's number. Her queue is $RAD_QUEUE. Each node has a folder for its
# pilot, as its own /tmp would be.
pilot()
{
	cat >"$WORLD/work/pilot.sh" <<-END
		#!/bin/sh
		exec rad pilot --devices sim:2xa100-40g --lease 10s --grace 4s --margin 5s --state "$RAD_QUEUE-\$SLURMD_NODENAME"
	END
	chmod 755 "$WORLD/work/pilot.sh"
	RAD_CLAIMS_DIR= sbatch_as "$ALICE" --gres=gpu:2 -c 16 --requeue "$WORLD/work/pilot.sh"
}

# A queue of Alice's own in each test.
use_queue()
{
	if [ "$(id -u)" != 0 ]; then
		ALICE=$(id -un)
		mkdir -p "$WORLD/$ALICE"
	fi
	export RAD_QUEUE=$WORLD/$ALICE/queue-$BATS_TEST_NUMBER
}

alice() { if [ "$(id -u)" = 0 ]; then as "$ALICE" "$@"; else "$@"; fi; }

running() { [ "$(alice rad queue --json | jq '[.tasks[] | select(.state == "RUNNING")] | length')" = "$1" ]; }
all_completed() { alice rad show --json $tasks | jq -e '[.tasks[].state] | all(. == "COMPLETED")'; }

@test "pilot: three allocations run one queue; a node fails: its tasks run again on the others, each once to its end" {
	use_queue
	tasks=
	for i in 1 2 3 4 5 6 7 8 9; do
		tasks="$tasks $(alice rad submit --parsable --gpu-mem 12G -- \
			sh -c "echo began >>$RAD_QUEUE-$i; $(until_file "$RAD_QUEUE-go"); echo ended >>$RAD_QUEUE-$i")"
	done
	pilot; pilot; pilot
	wait_for 60 running 9
	[ "$(sort "$RAD_QUEUE"-[1-9] | uniq -c | xargs)" = "9 began" ]
	on_n2=$(alice rad show --json $tasks | jq '[.tasks[] | select(.pilot | startswith("n2-"))] | length')
	node_fails n2
	alice touch "$RAD_QUEUE-go"
	wait_for 100 all_completed
	[ "$(sort "$RAD_QUEUE"-[1-9] | uniq -c | xargs)" = "$((9 + on_n2)) began 9 ended" ]
	[ "$(grep -c ended "$RAD_QUEUE"-[1-9] | grep -c ':1$')" = 9 ]
	cluster start-node n2
}

@test "pilot: an allocation ends under its tasks, slurmctld is killed: they go back into the queue, and the next one runs them" {
	use_queue
	tasks=
	for i in 1 2 3; do
		tasks="$tasks $(alice rad submit --parsable --gpu-mem 12G -- sh -c "$(until_file "$RAD_QUEUE-go")")"
	done
	job=$(pilot)
	wait_for 60 running 3
	scancel "$job"
	wait_for 60 no_jobs
	wait_for 30 running 0
	alice rad show --json $tasks | jq -e '[.tasks[].state] | all(. == "PENDING")'
	job=$(pilot)
	wait_for 60 running 3
	cluster kill-ctld
	alice touch "$RAD_QUEUE-go"
	wait_for 60 all_completed
	cluster restart-ctld
}
