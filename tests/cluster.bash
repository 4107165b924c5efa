# SPDX-License-Identifier: MIT
# For system tests on a cluster of real Slurm (tests/cluster): load it after helpers.bash. A file's setup_file calls new_cluster,
# its setup use_cluster, its teardown idle_cluster and its teardown_file end_cluster. Without Slurm its tests are skipped, and say so.

# cluster WORD [ARGS]: tests/cluster, on this file's.
cluster() { local word=$1; shift; "$RAD_SOURCE_ROOT/tests/cluster" "$word" "$CLUSTER" "$@"; }

# new_cluster [options of tests/cluster start]: a world (helpers.bash) with a cluster in $CLUSTER, each radd with short windows.
new_cluster()
{
	new_world
	export CLUSTER=$WORLD/c
	local rc=0
	"$RAD_SOURCE_ROOT/tests/cluster" check 2>"$WORLD/missing" || rc=$?
	[ $rc != 77 ] || return 0
	make_users
	chmod 1777 "$WORLD/work"
	cluster start --rad-conf "$RAD_CONFIG" "$@"
}

# Each radd is its node's, so RAD_SOCKET names none here: jobs have it from Slurm, a test from on_node.
use_cluster()
{
	[ -e "$CLUSTER" ] || skip "$(cat "$WORLD/missing")"
	unset RAD_SOCKET
	eval "$(cluster env)"
	cd "$WORLD/work"
}

# All jobs end, and all tasks.
idle_cluster()
{
	[ -e "$CLUSTER" ] || return 0
	[ -z "${BATS_TEST_COMPLETED:-}" ] && show_cluster
	scancel $(squeue -h -o %A) 2>/dev/null || :
	wait_for 60 no_jobs
	local socket
	for socket in "$CLUSTER"/n*/radd.sock; do
		RAD_SOCKET=$socket rad cancel --all >/dev/null 2>&1 || :
	done
}

end_cluster()
{
	[ ! -e "$CLUSTER" ] || cluster stop
	cd /
	rm -rf "$WORLD"
}

show_cluster()
{
	squeue
	sinfo -N -o '%N %T %E'
	local log
	for log in "$CLUSTER"/ctld/log "$CLUSTER"/n*/slurmd.log "$CLUSTER"/n*/radd.out; do
		echo "--- $log"
		grep -v -i mpi "$log" | tail -n 15
	done
}

no_jobs() { local jobs; jobs=$(squeue -h) && [ -z "$jobs" ]; }

# on_node NODE COMMAND...: with that node's radd.
on_node() { local node=$1; shift; RAD_SOCKET=$CLUSTER/$node/radd.sock "$@"; }

# sbatch_as USER [options of sbatch] SCRIPT: prints the job's number. Output: job-NUMBER.out in the work folder.
sbatch_as()
{
	local user=$1
	shift
	if [ "$(id -u)" = 0 ] && [ "$user" != root ]; then
		setpriv --reuid "$user" --regid "$(id -g "$user")" --init-groups sbatch --parsable --output "$WORLD/work/job-%j.out" "$@"
	else
		sbatch --parsable --output "$WORLD/work/job-%j.out" "$@"
	fi
}

# job ID KEY: what Slurm says of a job: job 12 JobState
job() { scontrol show job -o "$1" | tr ' ' '\n' | sed -n "s/^$2=//p" | head -n 1; }

# wait_job ID STATE [SECONDS]
wait_job()
{
	local until=$((SECONDS + 4 * ${3:-60})) now
	while now=$(job "$1" JobState) && [ "$now" != "$2" ]; do
		[ $SECONDS -lt $until ] || { echo "job $1 is $now, not $2" >&2; scontrol show job "$1" >&2; return 1; }
		read -r -t 0.1 <> <(:) || :
	done
}

# node_fails NODE: its power is cut, and Slurm told so, as it would find out after SlurmdTimeout.
node_fails()
{
	cluster kill-node "$1"
	scontrol update nodename="$1" state=down reason=power
}

# saved ID: waits until slurmctld has that job, as it is now, on disk: it answers first, and saves within seconds.
saved()
{
	local mark=saved-$1-$RANDOM
	scontrol update jobid="$1" comment="$mark"
	wait_for 30 grep -q "$mark" "$CLUSTER/ctld/state/job_state"
}
