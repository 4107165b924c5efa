# SPDX-License-Identifier: MIT
# Pilots for the system tests: two or three on this machine stand for as many nodes, each with a folder and simulated GPUs of its own.
# Slurm is tests/fake-slurm.

setup()
{
	new_world
	export FAKE_SLURM=$WORLD/slurm RAD_QUEUE=$WORLD/queue PATH=$BATS_TEST_DIRNAME/fake-slurm:$PATH
	unset "${!SLURM_@}" RAD_DEVICES
	mkdir "$FAKE_SLURM"
	BOOTED=$(cut -d . -f 1 /proc/uptime)
}

# All of a node names its folder, in its command or its environment; one that has ended has neither. The search does not name it.
processes_of()
{
	grep -l -s -a -F -f <(echo "$WORLD/$1/") /proc/[0-9]*/cmdline /proc/[0-9]*/environ | cut -d / -f 3 | sort -un
}

# What a power cut does.
kill_node()
{
	local pids
	while pids=$(processes_of "$1") && [ -n "$pids" ]; do
		kill -STOP $pids 2>/dev/null || :
		kill -9 $pids 2>/dev/null || :
	done
}

teardown()
{
	local n
	for n in n1 n2 n3; do kill_node $n; done
	[ -n "$BATS_TEST_COMPLETED" ] || tail -n 30 "$WORLD"/n?.log "$WORLD"/n?/state/radd/radd.log
	cd /
	rm -rf "$WORLD"
}

# pilot NODE [options]: in the background; its pid is in $WORLD/NODE.pid.
pilot()
{
	local node=$1
	shift
	mkdir -p "$WORLD/$node"
	rad pilot --devices sim:2xa100-40g --state "$WORLD/$node/state" "$@" >>"$WORLD/$node.log" 2>&1 3>&- 4>&- </dev/null &
	echo $! >"$WORLD/$node.pid"
}

# in_job NODE JOB [options]: the same in an allocation.
in_job()
{
	local node=$1 job=$2
	shift 2
	[ -e "$FAKE_SLURM/job.$job" ] || echo RUNNING 0 >"$FAKE_SLURM/job.$job"
	SLURM_JOB_ID=$job SLURM_CLUSTER_NAME=test SLURMD_NODENAME=$node pilot "$node" "$@"
}

# fast COMMAND...: its time runs five times as fast, as that of every other that is called so: leases end, silence is long enough.
fast()
{
	LD_PRELOAD=$RAD_BUILD_ROOT/tests/fake-files/libfake-files.so${LD_PRELOAD:+:$LD_PRELOAD} FAKE_CLOCK_FAST=5@$BOOTED "$@"
}

agent_of() { ps -o pid= --ppid "$(cat "$WORLD/$1.pid")" | tr -d ' '; }
radd_of()
{
	local pid
	for pid in $(processes_of "$1"); do
		[ "$(cat "/proc/$pid/comm")" != radd ] || { echo "$pid"; return; }
	done
}
flying() { [ -n "$(RAD_QUEUE='' RAD_SOCKET=$WORLD/$1/state/radd.sock rad gpus --json | jq -r '.gpus[0].uuid')" ]; }

# counts NAME: a command that begins NAME once more (a line), runs until `go-NAME` is there, and ends it.
counts() { printf 'echo "$$" >>%s.begun; while [ ! -e go-%s ]; do sleep 0.1; done; echo >>%s.ended' "$1" "$1" "$1"; }
begun() { [ "$(cat "$1.begun" 2>/dev/null | wc -l)" -eq "${2:-1}" ]; }
