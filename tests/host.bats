#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Memory and CPUs of the machine, and models of GPU: what tasks ask for is placed by, held, told, and enforced where the kernel does.

bats_require_minimum_version 1.5.0
load helpers.bash

setup_file()
{
	new_world
	printf 'host_mem: 4\nhost_cpus: 8\norder: backfill\n' >>"$RAD_CONFIG"
	DEVICES=sim:2xa100-40g,1xh100-80g start_radd
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

waits() { submit --gpu-mem 1G "$@" -- sh -c 'while [ ! -e go ]; do sleep 0.1; done'; }

@test "tasks wait for memory and CPUs of the host, and are told so; who asks for nothing takes nothing" {
	local a b c d
	a=$(waits --mem 3G --cpus-per-task 2)
	wait_state "$a" RUNNING
	b=$(waits --mem 2G)
	c=$(waits -c 7)
	d=$(waits)
	wait_state "$d" RUNNING
	[ "$(field "$b" .reason)" = HostMemory ]
	[ "$(field "$c" .reason)" = HostCpus ]
	rad queue --start --json | jq -e --arg b "$b" '.starts[] | select(.id == $b) | .source == null'
	rad why "$b" | grep -q 'asks for 2.0G of host memory: 1.0G of 4.0G are free'
	rad gpus | grep -q '^Host: 2 of 8 CPUs and 3.0G of 4.0G of memory'
	rad gpus --json | jq -e '.host | del(.cores, .cores_needed) == {mem_mib: 4096, mem_held_mib: 3072, cpus: 8, cpus_held: 2}'
	rad show --json "$a" | jq -e '.tasks[0] | .cpus == 2 and .host_mem_mib == 3072'
	# What runs is counted after a restart as well.
	kill_radd
	DEVICES=sim:2xa100-40g,1xh100-80g start_radd
	rad gpus --json | jq -e '.host.mem_held_mib == 3072'
	[ "$(field "$b" .reason)" = HostMemory ]
	rad cancel "$a"
	wait_state "$b" RUNNING 20
	wait_state "$c" RUNNING 20
}

@test "what the machine does not have is refused" {
	run -2 rad submit --mem 5G true
	[[ "$output" == *"5.0G of host memory wanted"*"4.0G in all (host_mem"* ]]
	run -2 rad submit --cpus-per-task 9 true
	[[ "$output" == *"9 CPUs wanted"*host_cpus* ]]
	run -2 rad submit --cpus-per-task 0 true
	run -2 rad submit --mem much true
}

@test "a task is told its CPUs; its own word about threads stands" {
	local a b c
	a=$(submit --gpu-mem 1G -c 3 -- sh -c 'echo "$RAD_CPUS $OMP_NUM_THREADS"')
	b=$(OMP_NUM_THREADS=5 submit --gpu-mem 1G -c 3 -- sh -c 'echo "$RAD_CPUS $OMP_NUM_THREADS"')
	c=$(env -u OMP_NUM_THREADS rad submit --parsable --gpu-mem 1G -- sh -c 'echo "${RAD_CPUS-none} ${OMP_NUM_THREADS-none}"')
	timeout 100 rad wait "$a" "$b" "$c"
	grep -q '^3 3$' "rad-$a.out"
	grep -q '^3 5$' "rad-$b.out"
	grep -q '^none none$' "rad-$c.out"
}

@test "models of GPU: by gres, by constraint, in a script's lines; what is not there is refused with what is" {
	local id
	for how in "--gres=gpu:h100" "--gres=gpu:h100:1" "--constraint=h100" "--constraint=mem>=70G" "-C b200|h100"; do
		id=$(submit --gpu-mem 1G $how -- sh -c 'echo "$RAD_GPU_UUIDS"')
		timeout 100 rad wait "$id"
		[ "$(rad show --json "$id" | jq -r '.tasks[0].attempts[0].gpus[0]')" = "$(rad gpus --json | jq -r '.gpus[2].uuid')" ]
	done
	id=$(submit --gpu-mem 1G --gres=gpu:2 --constraint a100 -- true)
	timeout 100 rad wait "$id"
	rad show --json "$id" | jq -e '.tasks[0].attempts[0].gpus | length == 2'
	printf '#!/bin/bash\n#RAD --gres=gpu:h100:1 --mem=1G --cpus-per-task=2\ntrue\n' >job.sh
	id=$(rad submit --parsable --gpu-mem 1G job.sh)
	timeout 100 rad wait "$id"
	[ "$(field "$id" '.attempts[0].gpus[0]')" = "$(rad gpus --json | jq -r '.gpus[2].uuid')" ]
	run -2 rad submit --gres=gpu:h100:2 true
	[[ "$output" == *"2 GPUs of 'h100' wanted, and 1 here is that; there are: "*"A100-SXM4-40GB (39."* ]]
	run -2 rad submit --constraint v100 true
	[[ "$output" == *"'v100' wanted, and none here is that; "* ]]
	run -2 rad submit --constraint 'mem>=' true
	run -2 rad submit --gres=cpu:2 true
}

@test "why of what ran out of memory: a larger GPU where there is one, and of the machine's memory what that is" {
	local id
	id=$(submit -C a100 -- sh -c 'echo "torch.OutOfMemoryError: CUDA out of memory."; exit 1')
	run rad wait "$id"
	[ "$(state "$id")" = OUT_OF_MEMORY ]
	[[ "$(rad why "$id")" == *"a GPU with more memory (--constraint='mem>40G')"* ]]
	id=$(submit -C 'mem>40G' -- sh -c 'echo "torch.OutOfMemoryError: CUDA out of memory."; exit 1')
	run rad wait "$id"
	field "$id" '.attempts[-1].gpus[0]' | grep -q -f <(rad gpus --json | jq -r '.gpus[2].uuid')
	[[ "$(rad why "$id")" == *"no GPU here has more memory"* ]]
	id=$(submit -- sh -c "echo \"RuntimeError: DefaultCPUAllocator: can't allocate memory\"; exit 1")
	run rad wait "$id"
	[[ "$(rad why "$id")" == *"memory of the machine"* ]]
}

@test "one that waits for its model is told of each GPU" {
	local a b
	a=$(waits --gres=gpu:h100 --exclusive)
	wait_state "$a" RUNNING
	b=$(waits --gres=gpu:h100 --exclusive)
	rad why "$b" | grep -q 'GPU 0: .*A100.*not what is asked for (h100)'
	[ "$(state "$b")" = PENDING ]
}

@test "without a cgroup a task's memory is watched: told when it is near, and at its end; nobody is ended for it" {
	local id
	! grep -q 'the kernel holds each task' "$WORLD/radd.log" || skip "the kernel holds tasks to their memory here"
	printf '#!/bin/sh\necho "$1 $2" >>%s/near\n' "$WORLD" >"$WORLD/near.sh"
	chmod 755 "$WORLD/near.sh"
	id=$(submit --gpu-mem 1G --mem 20M --notify=mem --notify-to="exec:$WORLD/near.sh" -- python3 -c '
import os, time
x = bytearray(b"x") * (100 << 20)
while not os.path.exists("go"): time.sleep(0.1)
raise SystemExit(3)')
	wait_for 20 grep -q "^mem $id\$" "$WORLD/near"
	grep -q "task $id of .*: took 1[0-9][0-9]M of the 20M of host memory that it asked for" "$WORLD/radd.log"
	# its peak is shown while it runs, and kept when it has ended
	wait_for 30 eval '[ "$(field $id ".attempts[0].host_peak_mib >= 100")" = true ]'
	rad show "$id" | grep -q "peak of the machine's memory 1[0-9][0-9]M"
	: >go
	timeout 100 rad wait "$id" || :
	[[ "$(rad acct -nP -o MaxRSS "$id")" =~ ^1[0-9]{5}K$ ]]
	[ "$(wc -l <"$WORLD/near")" -eq 1 ]
	[ "$(state "$id")" = FAILED ]
	rad show --json "$id" | jq -e '.tasks[0].attempts[0] | .exit_code == 3 and (.evidence | test("it took 1[0-9][0-9]M of host memory and asked for 20M"))'
}

@test "in a container what that has of memory and CPU time counts, not what the machine has" {
	[ "$(id -u)" = 0 ] || skip "only root can put other limits in the place of the kernel's"
	unshare -m true 2>/dev/null || skip "no mount namespace can be made here"
	stop_radd
	mkdir -p "$WORLD/cgroup" "$WORLD/contained"
	: >"$WORLD/cgroup/cgroup.procs"
	echo 1073741824 >"$WORLD/cgroup/memory.max"
	echo '50000 100000' >"$WORLD/cgroup/cpu.max"
	cat >"$WORLD/contained/radd" <<-'END'
		#!/bin/sh
		exec unshare -m sh -c 'mount --bind "$WORLD/cgroup" /sys/fs/cgroup && exec "$RADD" "$@"' radd "$@"
	END
	chmod +x "$WORLD/contained/radd"
	RADD=$(command -v radd)
	export WORLD RADD
	: >"$WORLD/contained.conf"
	RAD_CONFIG=$WORLD/contained.conf PATH=$WORLD/contained:$PATH DEVICES=sim:2xa100-40g,1xh100-80g start_radd
	rad gpus --json | jq -e '.host | .mem_mib == 1024 and .cpus == 1'
	stop_radd
	DEVICES=sim:2xa100-40g,1xh100-80g start_radd
}

# A part of the cgroup tree with the memory controller, and a radd in a leaf of it: as systemd gives one with DelegateSubgroup=.
delegated()
{
	local top=/sys/fs/cgroup
	[ "$(id -u)" = 0 ] || skip "needs root"
	grep -qw memory "$top/cgroup.controllers" 2>/dev/null || skip "no memory controller of cgroup version 2 here"
	grep -qw memory "$top/cgroup.subtree_control" || skip "the memory controller is not given to cgroups below the top here"
	CGROUP=$top/rad-test.$$
	mkdir -p "$CGROUP/rad-daemon" 2>/dev/null || skip "no cgroup can be made here"
}

@test "with a part of the cgroup tree the kernel holds a task to its memory; it is told, and runs again with more" {
	local id
	delegated
	stop_radd
	cat >"$WORLD/inside" <<-'END'
		#!/bin/sh
		echo $$ >"$CGROUP/rad-daemon/cgroup.procs" && exec "$RADD" "$@"
	END
	chmod +x "$WORLD/inside"
	export CGROUP
	RADD=$(command -v radd)
	export RADD
	mkdir -p "$WORLD/bin"
	ln -sf "$WORLD/inside" "$WORLD/bin/radd"
	PATH=$WORLD/bin:$PATH DEVICES=sim:2xa100-40g,1xh100-80g start_radd
	grep -q 'the kernel holds each task' "$WORLD/radd.log"
	id=$(submit --gpu-mem 1G --mem 100M -- python3 -c 'import time; x = bytearray(b"x") * (130 << 20); time.sleep(1)')
	timeout 200 rad wait "$id" || :
	rad show --json "$id" | jq -e '.tasks[0] | .state == "COMPLETED" and .attempts[0].verdict == "host_oom" and .host_mem_mib == 150'
	stop_radd
	rmdir "$CGROUP"/*/ "$CGROUP" 2>/dev/null || :
	DEVICES=sim:2xa100-40g,1xh100-80g start_radd
}
