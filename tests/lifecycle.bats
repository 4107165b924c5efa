#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# What becomes of tasks: waiting, running, ending, people's interventions, and a radd that dies and comes back.

bats_require_minimum_version 1.5.0
load helpers.bash

setup_file()
{
	new_world
	start_radd
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

# ---- the way of a task ----

@test "a task runs, its log and record are there" {
	local id
	id=$(submit --gpu-mem 2G -- sh -c 'echo out; echo err >&2; echo "gpu $CUDA_VISIBLE_DEVICES task $RAD_TASK_ID $RAD_GPU_MEM_MIB"')
	rad wait "$id"
	[ "$(state "$id")" = COMPLETED ]
	[ "$(grep -c . "rad-$id.out")" -eq 3 ]
	cat "rad-$id.out"
	grep -q -E "^gpu ([0-3]|GPU-[0-9a-f-]+) task $id 2048$" "rad-$id.out"
	[ "$(rad logs "$id" | sort | head -n 1)" = err ]
	rad show --events --json "$id" | jq -e '[.events[].event] == ["submitted","estimated","placed","started","ended"]'
}

@test "a task, of one GPU too, has a port for distributed training, where torchrun looks as well" {
	local id ports
	id=$(submit --gpu-mem 2G -- sh -c 'echo "$MASTER_PORT $PET_MASTER_PORT"')
	rad wait "$id"
	read -ra ports <"rad-$id.out"
	[ "${ports[0]}" -gt 1023 ]
	[ "${ports[0]}" = "${ports[1]}" ]
}

@test "a task takes memory and time on the simulated GPU, and is measured" {
	local id
	id=$(submit --gpu-mem 6G -- rad simtask --mem 5G --seconds 3 --ramp 0.5)
	wait_for 15 sh -c "rad gpus --json | jq -e 'any(.gpus[]; .tasks == [\"$id\"] and .mem_held_mib >= 5000 and .smact_now > 0.5)'"
	rad wait "$id"
	rad show --json "$id" | jq -e '.tasks[0].attempts[0] | .peak_mib >= 5000 and .peak_mib <= 6144 and .mean_smact > 0.5 and .energy_j > 0'
	wait_for 15 sh -c "rad gpus --json | jq -e 'all(.gpus[]; .mem_held_mib == 0 and .share == \"idle\")'"
}

@test "two tasks that fit share a GPU where only one is not drained" {
	local a b
	rad drain 1 2 3
	a=$(submit --gpu-mem 8G -- rad simtask --mem 6G --seconds 600 --smact 0.3 --gract 0.4 --ramp 0.2)
	b=$(submit --gpu-mem 8G -- rad simtask --mem 6G --seconds 600 --smact 0.3 --gract 0.4 --ramp 0.2)
	wait_state "$a" RUNNING
	wait_state "$b" RUNNING 30
	[ "$(field "$b" '.shared_with[0]')" = "$a" ]
	rad gpus --json | jq -e --arg a "$a" --arg b "$b" '.gpus[0].tasks == [$a, $b] and .gpus[1].drained'
	rad undrain 1 2 3
	rad gpus --json | jq -e 'all(.gpus[]; .drained | not)'
}

@test "out of memory: a verdict with evidence, a second attempt alone, then completed" {
	local id
	id=$(submit --gpu-mem 3G -- rad simtask --mem 6G --seconds 2 --ramp 0.5)
	wait_for 40 sh -c "[ \$(rad show --json $id | jq '.tasks[0].attempts | length') -ge 2 ]"
	[ "$(field "$id" '.attempts[0].verdict')" = oom ]
	[ -n "$(field "$id" '.attempts[0].evidence')" ]
	run rad wait "$id"
	[ "$status" -eq 0 ]
	rad show --json "$id" | jq -e '.tasks[0] | .state == "COMPLETED" and .lost_s > 0'
	grep -q 'CUDA out of memory' "rad-$id.out"
}

@test "run: output to stdout, the task's code, 128 + signal, what went wrong on stderr" {
	run --separate-stderr rad run -- sh -c 'echo hello; exit 7'
	[ "$status" -eq 7 ]
	[ "$output" = hello ]
	[[ "$stderr" == *FAILED*"exit 7"* ]]
	run --separate-stderr rad run -- sh -c 'kill -9 $$'
	[ "$status" -eq 137 ]
	run --separate-stderr rad run -- true
	[ "$status" -eq 0 ]
	[ -z "$stderr" ]
}

@test "run: a log that cannot be shown; the task's code all the same" {
	run --separate-stderr rad run -o /dev/null -- sh -c 'exit 7'
	[ "$status" -eq 7 ]
	[[ "$stderr" == *"/dev/null: is not a regular file: the output of task "*" is not shown"* ]]
	[ "$(grep -c "not shown" <<<"$stderr")" -eq 1 ]
}

@test "run: an interrupt while the task is handed over cancels it as one later does" {
	printf '%s\n' '#define _GNU_SOURCE' '#include <dlfcn.h>' '#include <signal.h>' '#include <string.h>' '#include <sys/socket.h>' \
		'ssize_t recv(int fd, void *to, size_t n, int flags) {' \
		'static int done; ssize_t got = ((ssize_t (*)(int, void *, size_t, int))dlsym(RTLD_NEXT, "recv"))(fd, to, n, flags);' \
		'if (got > 0 && !done && memmem(to, got, "capture_wait_s", 14)) done = !raise(SIGTERM); return got; }' \
		'ssize_t __recv_chk(int fd, void *to, size_t n, size_t m, int flags) { return recv(fd, to, n, flags); }' >handing.c
	cc -shared -fPIC -o handing.so handing.c -ldl
	run timeout 30 env LD_PRELOAD="$PWD/handing.so${LD_PRELOAD:+:$LD_PRELOAD}" rad run --name handed --gpu-mem 1G sleep 100
	[[ "$output" == *"cancelling task "* ]]
	[ "$status" -ne 124 ]
	[ "$(rad queue -t all --json | jq -r '.tasks[] | select(.name == "handed") | .state')" = CANCELLED ]
}

@test "run: an interrupt cancels the task, which may clean up" {
	rad run --output cancelled.log -- sh -c 'trap "echo cleaned; exit 9" TERM; echo ready; while :; do sleep 0.1; done' >shown 2>said &
	local pid=$! code=0
	wait_for 15 grep -q ready shown
	kill -TERM "$pid"
	wait "$pid" || code=$?
	[ "$code" -eq 9 ]
	grep -q cleaned shown
	grep -q 'cancelling task' said
}

@test "run shows what is written now, not what an older task left in that file" {
	echo stale >same.log
	touch -d '1 hour ago' same.log
	run --separate-stderr rad run --output same.log -- echo fresh
	[ "$output" = fresh ]
	[ "$(cat same.log)" = "$(printf 'stale\nfresh')" ]
}

@test "run: an older file of the name that its number gives, though it looks as if it were written now" {
	local next=$(($(rad submit --parsable -- true) + 1)) folder="$WORLD/work/[odd] *"
	mkdir "$folder"
	cd "$folder"
	printf 'older\nlines\n' >"rad-$next.out"
	touch -d '+1 hour' "rad-$next.out"	# its time says nothing: a task may have written before rad looks
	run --separate-stderr rad run -- echo new
	[ "$output" = new ]
	[[ "$(cat "rad-$next.out")" == $'older\nlines\n\n--- rad: task '"$next of "*$' ---\nnew' ]]
	printf 'older\n' >"x-007%-$((next + 1)).log"
	touch -d '+1 hour' "x-007%-$((next + 1)).log"
	run --separate-stderr rad run --output 'x-007%%-%j.log' -- echo newer
	[ "$output" = newer ]
	[ "$(wc -l <"x-007%-$((next + 1)).log")" -eq 2 ]
}

@test "logs: progress bars collapse, --raw keeps them, -n the last lines, -f to the end" {
	local id
	id=$(submit -- sh -c 'printf "\r1%%\r50%%\r100%%\nsecond\n"; '"$(until_file go)"'; printf last')
	wait_state "$id" RUNNING
	wait_for 15 grep -q started "rad-$id.out"
	[ "$(rad logs "$id" | head -n 1)" = "100%" ]
	[ "$(rad logs --raw "$id" | head -n 1 | tr -d -c '\r' | wc -c)" -eq 3 ]
	rad logs -f "$id" >followed &
	local pid=$!
	wait_for 15 grep -q started followed
	: >go
	wait "$pid"
	[ "$(tail -n 1 followed)" = last ]
	[ -z "$(rad logs -n 0 "$id")" ]
	[ "$(rad logs -n 1 "$id")" = last ]
	[ "$(rad logs -n 2 "$id")" = "$(printf 'started\nlast')" ]
}

@test "logs: -f of a task that waits says so on a terminal; of one that is cancelled meanwhile, that it never started" {
	local id pid
	id=$(submit --hold -- echo begun)
	PYTHONPATH=$BATS_TEST_DIRNAME PYTHONDONTWRITEBYTECODE=1 python3 - "$id" <<-'PY'
		from terminal import *
		t = Terminal("rad", "logs", "-f", sys.argv[1])
		t.expect("has not started, so there is no log yet: held by a person; .*it is waited for\r\n")
		os.system("rad release " + sys.argv[1])
		t.expect("begun")
		assert t.end() == 0
	PY
	id=$(submit --hold -- true)
	rad logs -f "$id" 2>said &
	pid=$!
	wait_for 15 has_socket "$pid"
	rad cancel "$id"
	wait "$pid" && return 1
	[ "$(cat said)" = "rad: task $id: never started (CANCELLED), so there is no log" ]
}

@test "wait: of several the first code that is not 0; array elements; a cancelled pending task is 125" {
	local a b c
	a=$(submit -- true)
	b=$(submit -- sh -c 'exit 3')
	c=$(submit -- sh -c 'exit 4')
	run rad wait "$a" "$b" "$c"
	[ "$status" -eq 3 ]
	a=$(submit --array 0-3 -- sh -c 'exit $RAD_ARRAY_TASK_ID')
	run rad wait "$a"
	[ "$status" -eq 1 ]
	run rad wait "${a}_2"
	[ "$status" -eq 2 ]
	a=$(submit --hold -- true)
	rad cancel "$a"
	run rad wait "$a"
	[ "$status" -eq 125 ]
}

# ---- people ----

@test "hold, release, update, priority" {
	local id
	id=$(submit --hold -- true)
	[ "$(state "$id")" = HELD ]
	rad update "$id" name=renamed priority=-5 time=90s gpu-mem=3G
	rad show --json "$id" | jq -e '.tasks[0] | .name == "renamed" and .priority == -5 and .time_limit_s == 90 and .estimate.claim_mib == 3072'
	# as submit reads them
	run -2 rad update "$id" --name ""
	one_line_error "name: expected a value"
	run -0 rad update "$id" time=24
	one_line_error "for hours write 24h"
	rad update "$id" time=infinite
	[ "$(field "$id" .time_limit_s)" = null ]
	run rad logs "$id"
	[ "$status" -eq 1 ]
	one_line_error "has not started"
	rad release "$id"
	run rad wait "$id"
	[ "$status" -eq 0 ]
	run rad hold "$id"
	[ "$status" -eq 1 ]
}

@test "update: GPUs, memory of the machine and retries of a task that waits; of one that runs, its retries" {
	local id
	id=$(submit --hold -- sh -c 'echo "[$CUDA_VISIBLE_DEVICES]"; exit 7')
	rad update "$id" --gpus 2 --mem 1G --retries=1
	[ "$(field "$id" '|"\(.gpus_requested) \(.host_mem_mib) \(.retries)"')" = "2 1024 1" ]
	rad show --events "$id" | grep -q 'updated .*gpus 2, host_mem_mib 1024, retries 1, by '
	run -2 rad update "$id" --gpus 65
	one_line_error "is not a whole number from 0 to 64"
	run -2 rad update "$id" --gpus 64
	one_line_error "64 GPUs wanted"
	run -2 rad update "$id" --gpus a100:2
	one_line_error "task $id: 'a100': the model of GPU cannot be changed, only how many, and it was submitted with none"
	run -2 rad update "$id" --gpus 0.5
	one_line_error "is no number of GPUs"
	run -2 rad update "$id" --retries -1
	run -2 rad update "$id" --mem plenty
	run -2 rad update "$id" --gpus 0 --gpu-mem 1G
	one_line_error "task $id: 'gpus' is 0 and 'gpu_mem' is of GPUs: --gpu-mem=0 takes that away too"
	[ "$(field "$id" '|"\(.gpus_requested) \(.host_mem_mib) \(.retries)"')" = "2 1024 1" ]
	rad update "$id" --gpus 0 --retries 0
	rad release "$id"
	wait_state "$id" FAILED
	[ "$(rad logs "$id")" = '[]' ]
	id=$(submit -- sleep 300)
	wait_state "$id" RUNNING
	run -1 rad update "$id" --gpus 2
	one_line_error "task $id: is RUNNING, and its gpus can be changed only while it waits; of a running task, these can: time, retries,"
	rad update "$id" --retries=4
	[ "$(field "$id" .retries)" = 4 ]
	id=$(submit --hold --no-requeue -- true)
	run -2 rad update "$id" --retries=4
	one_line_error "'retries' and --no-requeue"
	rad cancel --all
}

@test "update: another number of GPUs, of a task that says more of them or of the machine" {
	local id
	id=$(submit --hold --gpus a100:1 -- true)
	rad update "$id" --gpus A100:2
	rad update "$id" gres=gpu:a100:3
	[ "$(field "$id" '|"\(.gpus_requested) \(.gpu_model)"')" = "3 a100" ]
	rad show "$id" | grep -q '^ *asks for  3 GPUs (a100), share auto'
	run -2 rad update "$id" --gpus h100:2
	one_line_error "task $id: 'h100': the model of GPU cannot be changed, only how many, and it was submitted with 'a100'"
	run -2 rad update "$id" --gpus a100:5
	one_line_error "5 GPUs wanted"
	run -2 rad update "$id" --gpus 0
	one_line_error "task $id: 'gpus' is 0 and 'gpu_model', with which it was submitted, is of GPUs: cancel it and submit it anew"
	id=$(submit --hold --exclusive -- true)
	run -2 rad update "$id" --gpus 0
	one_line_error "'exclusive', with which it was submitted, is of GPUs"
	id=$(submit --hold --gpu-mem 2G -- true)
	rad update "$id" --gpus 0 --gpu-mem 0
	printf '#!/bin/sh\n#SBATCH --gpus=2 --mem-per-gpu=1G --cpus-per-gpu=1\ntrue\n' >per-gpu.sh
	id=$(submit --hold per-gpu.sh)
	run -0 --separate-stderr rad update "$id" --gpus=1
	[ "$stderr" = "rad: task $id: asks for 2 CPUs and 2.0G of the machine as before, whatever its number of GPUs (--mem changes the memory)" ]
	run -0 --separate-stderr rad update "$id" --gpus=2 --mem=4G
	[ "$stderr" = "rad: task $id: asks for 2 CPUs of the machine as before, whatever its number of GPUs" ]
	run -0 --separate-stderr rad update "$id" --gpus=2	# it has them
	[ -z "$stderr" ]
	rad cancel --all
}

@test "update --dependency=singleton: each waits for what is unfinished before it of its name, by the name it has then" {
	local a b c array other
	a=$(submit --hold --name one -- true)
	array=$(submit --hold --name one --array=0-2 -- true)
	b=$(submit --hold --name one -- true)
	c=$(submit --hold --name two -- true)
	other=$(submit --hold --name three -- true)
	rad update "$array" "$b" --dependency=singleton
	[ "$(field "$b" .dependency)" = "afterany:$a:$array" ]
	[ "$(rad show --json "$array" | jq -c '[.tasks[] | [.dependency, .array_limit]] | unique')" = "[[\"afterany:$a\",1]]" ]
	rad update "$a" --dependency=singleton	# nothing is before it
	[ "$(field "$a" .dependency)" = null ]
	rad update "$other" --name one --dependency="singleton,afterok:$c"
	[ "$(field "$other" .dependency)" = "afterok:$c,afterany:$a:$array:$b" ]
	run -2 rad update "${array}_1" --dependency=singleton
	one_line_error "dependency: singleton: ${array}_1 is an element: name the array, $array"
	rad update "$a" --dependency="after:$c"
	run -2 rad update "$c" --name one --dependency="singleton"
	one_line_error "dependency: task $c would wait for itself, by way of task $a"
	rad update "$b" --dependency=none
	[ "$(field "$b" .dependency)" = null ]
	rad cancel --all
}

@test "update: of an array whose elements differ in state, what was changed is told, and what was not and why" {
	local array
	array=$(submit --array=0-3%1 -- sleep 300)
	wait_state "${array}_0" RUNNING
	run -0 --separate-stderr rad update "$array" --mem 1G --name renamed
	[ "$stderr" = "rad: changed 3 tasks, but not 1: task ${array}_0: is RUNNING, and its mem can be changed only while it waits; of a running task, these can: time, retries, max-slowdown, array, name" ]
	[ "$(rad show --json "$array" | jq -c '[.tasks[] | .host_mem_mib]')" = "[null,1024,1024,1024]" ]
	[ "$(rad show --json "$array" | jq -r '.tasks[0].name')" != renamed ]
	run -0 --separate-stderr rad update "${array}_[0-1]" --priority=-2
	[[ "$stderr" == "rad: changed 1 task, but not 1: task ${array}_0: is RUNNING, and its priority"* ]]
	run -0 --separate-stderr rad update "$array" --retries=1
	[ -z "$stderr" ]
	run -1 rad update "${array}_0" --mem 2G
	one_line_error "is RUNNING, and its mem"
	run -0 --separate-stderr rad hold "$array"	# what can be
	[ -z "$stderr" ]
	rad cancel --all
}

@test "kill-on-invalid-dep: what waits in vain is cancelled, down a chain, says why, and is so after a restart" {
	local a stays b c array late
	a=$(submit --hold -- false)
	stays=$(submit --dependency "afterok:$a" --kill-on-invalid-dep=no -- true)
	b=$(submit --dependency "afterok:$a" --kill-on-invalid-dep=yes -- true)
	c=$(submit --dependency "afterok:$b" --kill-on-invalid-dep=yes -- true)
	array=$(submit --array=0-1 --dependency "afterany:$c,afterok:$c" --kill-on-invalid-dep yes -- true)
	rad release "$a"
	wait_state "$array" CANCELLED
	wait_state "$c" CANCELLED
	[ "$(field "$b" '|"\(.state) \(.reason): \(.reason_text)"')" = \
		"CANCELLED DependencyNeverSatisfied: afterok:$a could no longer be met, so it was cancelled (--kill-on-invalid-dep)" ]
	[[ "$(rad why "$b")" == "Task $b: CANCELLED: afterok:$a could no longer be met, so it was cancelled"* ]]
	rad show --events "$b" | grep -q "cancelled *dependency afterok:$a could no longer be met\$"
	run rad wait "$b"
	[ "$status" -eq 125 ]
	[ "$(field "$stays" '|"\(.state) \(.reason)"')" = "PENDING DependencyNeverSatisfied" ]
	run --separate-stderr rad submit --parsable --dependency "afterok:$a" --kill-on-invalid-dep=yes -- true
	late=$output
	[[ "$stderr" == *"task $late: afterok:$a could no longer be met"* ]]
	[ "$(state "$late")" = CANCELLED ]
	run -2 rad submit --kill-on-invalid-dep=maybe -- true
	rad requeue "$b"	# put back, it would wait in vain again
	wait_state "$b" CANCELLED
	rad cancel "$stays"
	a=$(submit -- sh -c "$(until_file fail); exit 1")
	b=$(submit --array=0-1 --dependency "afterok:$a" --kill-on-invalid-dep=yes -- true)
	wait_state "$a" RUNNING
	kill_radd
	: >fail
	start_radd
	wait_state "$a" FAILED
	wait_state "${b}_1" CANCELLED
	kill_radd
	start_radd
	[ "$(field "${b}_1" '|"\(.state) \(.reason)"')" = "CANCELLED DependencyNeverSatisfied" ]
}

@test "update: what a task waits for is set, replaced and taken away" {
	local a b c array
	a=$(submit --hold -- true)
	b=$(submit -- false)
	c=$(submit --dependency "afterok:$b" -- true)
	array=$(submit --array=0-1 --dependency "afterok:$a" -- true)
	wait_state "$b" FAILED
	wait_for 15 sh -c "[ \"\$(rad show --json $c | jq -r .tasks[0].reason)\" = DependencyNeverSatisfied ]"
	rad update "$c" --dependency "afterok:$a,afternotok:$b"
	[ "$(field "$c" '|"\(.reason) \(.dependency)"')" = "Dependency afterok:$a,afternotok:$b" ]
	rad show "$c" | grep -q "depends on *afterok:$a,afternotok:$b\$"
	rad show --events "$c" | grep -q "updated .*dependency afterok:$a,afternotok:$b, by "
	run -1 rad update "$c" --dependency afterok:99999
	one_line_error "dependency afterok:99999: there is no such task"
	run -2 rad update "$c" --dependency "$a"
	run -2 rad update "$a" --dependency "afterok:$array"
	one_line_error "dependency: task $a would wait for itself, by way of task $array"
	run -2 rad update "$array" --dependency "afterok:${array}_1"
	one_line_error "dependency: task ${array}_1 cannot wait for itself"
	run -2 rad update "$a" --dependency "aftercorr:$array"
	one_line_error "is between the elements of two arrays"
	rad update JobId="$c" Dependency=
	wait_state "$c" COMPLETED
	rad show --events "$c" | grep -q 'updated .*no dependency, by '
	rad update "${array}_[0-1]" --dependency=none
	rad wait "$array"
	run -1 rad update "$c" --dependency=none
	c=$(submit -- sleep 300)
	wait_state "$c" RUNNING
	run -1 rad update "$c" --dependency "afterok:$a"
	one_line_error "task $c: is RUNNING, and its dependency can be changed only while it waits"
	rad cancel --all
}

@test "cancel: a pending task at once, a running one by TERM, one that ignores TERM by KILL" {
	local a b c
	a=$(submit --hold -- true)
	rad cancel "$a"
	[ "$(state "$a")" = CANCELLED ]
	b=$(submit -- sleep 300)
	wait_state "$b" RUNNING
	rad cancel "$b"
	run rad wait "$b"
	[ "$status" -eq 143 ]
	[ "$(state "$b")" = CANCELLED ]
	c=$(submit -- sh -c 'trap "" TERM; echo deaf; while :; do sleep 0.2; done')
	wait_for 15 grep -q deaf "rad-$c.out"
	rad cancel "$c"
	run timeout 100 rad wait "$c"
	[ "$status" -eq 137 ]
}

@test "cancel: one that is just being started, and what it started" {
	python3 - "$RAD_SOCKET" "$PWD" <<-'PY'
	import json, socket, struct, sys

	def ask(connection, **request):
	    body = json.dumps(dict(request, v=1)).encode()
	    connection.sendall(struct.pack(">I", len(body)) + body)
	    data = b""
	    while len(data) < 4 or len(data) < 4 + struct.unpack(">I", data[:4])[0]:
	        data += connection.recv(65536)
	    return json.loads(data[4:])

	# The answer to a submission comes before the launch, so this cancels in the midst of it.
	with socket.socket(socket.AF_UNIX) as connection:
	    connection.connect(sys.argv[1])
	    for i in range(10):
	        task = ask(connection, op="submit", environ=["PATH=/usr/bin:/bin", "RAD_CANCELLED_EARLY=1"],
	                   spec={"argv": ["sleep", "1000"], "name": "early", "cwd": sys.argv[2], "output": "/dev/null", "gpu_mem_mib": 100})
	        said = ask(connection, op="cancel", id=task["id"])
	        assert "error" not in said, said
	        said = ask(connection, op="wait", ids=[task["id"]])
	        assert said["tasks"][0]["state"] == "CANCELLED" and said["tasks"][0]["signal"] == 15, said
	PY
	! grep -l RAD_CANCELLED_EARLY=1 /proc/[0-9]*/environ 2>/dev/null || false
}

@test "cancel ends children that left the process group" {
	local id child
	id=$(submit -- sh -c 'setsid sh -c "echo \$\$ >child; exec sleep 300" & wait')
	wait_for 15 test -s child
	child=$(cat child)
	rad cancel "$id"
	rad wait "$id" || :
	gone "$child"
	rm child
}

@test "requeue: a running task starts again, an ended one as well" {
	local id
	id=$(submit -- sh -c 'echo began; sleep 300')
	wait_for 15 grep -q began "rad-$id.out"
	rad requeue "$id"
	wait_for 30 sh -c "[ \$(grep -c began rad-$id.out) -eq 2 ]"
	[ "$(field "$id" '.attempts | length')" -eq 2 ]
	rad cancel "$id"
	rad wait "$id" || :
	rad requeue "$id"
	wait_for 30 sh -c "[ \$(grep -c began rad-$id.out) -eq 3 ]"
}

@test "time limit: the warning signal, once, though radd is killed after it, then TERM, then TIMEOUT" {
	local id
	id=$(submit --time 1h --signal USR1@3 -- sh -c 'trap "echo warned" USR1; echo ready; while :; do sleep 0.1; done')
	wait_for 15 grep -q ready "rad-$id.out"
	rad update "$id" "time=$(field "$id" '| .run_s + 6 | floor')s"	# its handler is there
	wait_for 15 grep -q warned "rad-$id.out"
	kill_radd
	start_radd
	run rad wait "$id"
	[ "$status" -eq 143 ]
	[ "$(state "$id")" = TIMEOUT ]
	[ "$(grep -c warned "rad-$id.out")" -eq 1 ]
}

@test "tasks that end together and wordlessly, and were no clients of MPS, have failed of their own: once, at once" {
	local id
	id=$(submit --gpu-mem 1G --array=0-4 -- sh -c 'touch here.$RAD_ARRAY_TASK_ID; until [ -e go ]; do sleep 0.1; done; exit 1')
	wait_for 20 eval '[ -e here.0 -a -e here.1 -a -e here.2 -a -e here.3 -a -e here.4 ]'	# two of them on one GPU
	: >go
	run timeout 100 rad wait "$id"
	[ "$status" -eq 1 ]
	[ "$(rad show --json "$id" | jq -c '[.tasks[] | [.state, (.attempts | length), .attempts[0].verdict, .attempts[0].share]] | unique')" = \
		'[["FAILED",1,"failed","mps"]]' ]
}

@test "dependencies: after ok, after failure, never" {
	local a ok notok never
	a=$(submit -- sh -c "$(until_file go); exit 3")
	notok=$(submit --dependency "afternotok:$a" -- true)
	ok=$(submit --dependency "afterok:$a" -- true)
	never=$(submit --dependency "afterany:$ok" -- true)
	[ "$(field "$notok" .reason)" = Dependency ]
	[ "$(field "$notok" .reason_text)" = "waits for afternotok:$a" ]
	: >go
	run rad wait "$notok"
	[ "$status" -eq 0 ]
	wait_for 15 sh -c "rad show --json $ok | jq -e '.tasks[0].reason == \"DependencyNeverSatisfied\"'"
	rad cancel "$ok"
	run rad wait "$never"
	[ "$status" -eq 0 ]
	rad show --json "$notok" | jq -e '.tasks[0] | .held_s > 0 and (.jct_s - .wait_s - .held_s - .run_s | fabs) < 0.005'
}

@test "arrays: one id, a limit of running elements, logs of their own" {
	local id
	id=$(submit --array '0-5%2' -- sh -c 'echo element $RAD_ARRAY_TASK_ID; '"$(until_file go)")
	wait_state "${id}_0" RUNNING
	wait_state "${id}_1" RUNNING 30
	[ "$(rad queue --json -t R | jq '.tasks | length')" -eq 2 ]
	[ "$(field "${id}_5" .reason)" = ArrayLimit ]
	run rad queue
	[[ "$output" == *"${id}_[2-5%2]"* ]]
	run rad logs "$id"
	[ "$status" -eq 2 ]
	one_line_error "${id}_0"
	: >go
	run rad wait "$id"
	[ "$status" -eq 0 ]
	[ "$(head -n 1 "rad-${id}_5.out")" = "element 5" ]
}

@test "why: the arithmetic for every GPU, what is short" {
	local a id
	rad drain 3
	# Programs that no other test runs: where it is known how long these take, a plan is made, and says where it starts instead.
	a=$(submit --gpus 3 --exclusive -- sh -c "$(until_file go); : holds three")
	wait_state "$a" RUNNING
	id=$(submit --gpu-mem 4G -- sh -c ': wants one')
	wait_for 10 sh -c "rad why --json $id | jq -e '.gpus | length == 4'"
	rad why --json "$id" | jq -e '[.gpus[].reason] | . == ["Mode","Mode","Mode","Drained"]'
	run rad why "$id"
	[[ "$output" == *"GPU 3: drained"* ]]
	[ "${#lines[@]}" -ge 5 ]
	rad undrain 3
	run rad wait "$id"
	[ "$status" -eq 0 ]
	run rad why "$id"
	[[ "$output" == *"attempt 1 on GPU 3"*ok* ]]
}

# ---- retries ----

# delayed ID N: N attempts of it failed, and it waits for the next.
delayed() { rad show --json "$1" | jq -e ".tasks[0] | .state == \"PENDING\" and .reason == \"BeginTime\" and .retries_used == $2" >/dev/null; }

@test "retries: what fails by itself runs again, is told so, and ends as its last attempt does" {
	local id killed
	id=$(submit --retries 2 -- sh -c 'echo "attempt $RAD_ATTEMPT"; [ "$RAD_ATTEMPT" = 3 ] || exit 7')
	wait_for 15 delayed "$id" 1
	[[ "$(rad why "$id")" == *"failed, and begins again at "*"retry 1 of 2"* ]]
	[[ "$(rad show --events "$id")" == *"exit 7"*"runs again in 00:10"* ]]
	rad update "$id" --begin=now
	wait_for 15 delayed "$id" 2
	[[ "$(rad show --events "$id")" == *"runs again in 00:20"* ]]
	rad update "$id" --begin=now
	run timeout 100 rad wait "$id"
	[ "$status" -eq 0 ]
	[ "$(grep attempt "rad-$id.out" | tr '\n' ' ')" = "attempt 1 attempt 2 attempt 3 " ]
	rad show --json "$id" | jq -e '.tasks[0] | [.attempts[].verdict] == ["failed", "failed", "ok"] and .retries == 2 and .retries_used == 2'
	[[ "$(rad show "$id")" == *"2 of 2 used"* ]]
	killed=$(submit --retries 1 -- sh -c 'kill -9 $$')
	wait_for 15 delayed "$killed" 1
	rad update "$killed" --begin=now
	run timeout 100 rad wait "$killed"
	[ "$status" -eq 137 ]
	[ "$(state "$killed")" = FAILED ]
	[ "$(field "$killed" '.attempts | length')" -eq 2 ]
	run rad submit --retries 1 --no-requeue true
	[ "$status" -eq 2 ]
	one_line_error "leave one out"
}

@test "retries: a cancel ends the delay, and it outlives radd" {
	local gone kept begins
	gone=$(submit --retries 5 -- false)
	wait_for 15 delayed "$gone" 1
	rad cancel "$gone"
	[ "$(state "$gone")" = CANCELLED ]
	[ "$(field "$gone" '.attempts | length')" -eq 1 ]
	kept=$(submit --retries 1 -- sh -c '[ "$RAD_ATTEMPT" = 2 ]')
	wait_for 15 delayed "$kept" 1
	begins=$(field "$kept" .begin_time)
	kill_radd
	start_radd
	delayed "$kept" 1
	[ "$(field "$kept" .begin_time)" = "$begins" ]
	run timeout 100 rad wait "$kept"
	[ "$status" -eq 0 ]
	rad show --events --json "$kept" | jq -e '[.events[] | select(.event == "ended" or .event == "placed") | .time |
		sub("[.][0-9]*Z$"; "Z") | fromdate] | .[2] - .[1] >= 9'
}

# ---- radd dies, and comes back ----

@test "kill -9 of radd: tasks go on, are adopted, and what ended meanwhile is known" {
	local runs ends waits queued code=0
	runs=$(submit --gpu-mem 2G -- sh -c "$(until_file go); exit 5")
	ends=$(submit --gpu-mem 2G -- sh -c "$(until_file "$WORLD/work/end-now"); echo ended; exit 6")
	queued=$(submit --hold --name kept -- true)
	wait_for 15 grep -q started "rad-$runs.out"
	wait_for 30 grep -q started "rad-$ends.out"
	rad wait "$runs" & waits=$!
	wait_for 15 has_socket "$waits"
	kill_radd
	: >end-now
	wait_for 15 grep -q ended "rad-$ends.out"
	start_radd
	run rad wait "$ends"
	[ "$status" -eq 6 ]
	[ "$(state "$runs")" = RUNNING ]
	[ "$(field "$runs" '.attempts | length')" -eq 1 ]
	[ "$(state "$queued")" = HELD ]
	: >go
	wait "$waits" || code=$?	# a wait outlives the daemon
	[ "$code" -eq 5 ]
	[ "$(grep -c started "rad-$runs.out")" -eq 1 ]
	rm -f end-now
}

@test "kill -9 of radd during a burst of submissions: what was acknowledged is there, once" {
	local n
	cat >burst.sh <<-'SH'
		for i in $(seq 300); do rad submit --parsable --hold --output=/dev/null true || exit 0; done
	SH
	bash burst.sh >acknowledged 2>/dev/null &
	local burst=$!
	wait_for 20 test -s acknowledged
	kill_radd
	wait "$burst"
	start_radd
	n=$(wc -l <acknowledged)
	[ "$n" -ge 1 ]
	[ "$n" -lt 300 ]
	while read -r id; do
		[ "$(state "$id")" = HELD ]
	done <acknowledged
	[ "$(rad queue --json | jq '[.tasks[] | select(.name == "true" and .state == "HELD")] | length')" -le $((n + 1)) ]
	[ "$(submit --hold true)" -gt "$(tail -n 1 acknowledged)" ]
	rad cancel --pending
}

@test "a full disk: nothing more is accepted, running tasks go on, and with room again so does everything" {
	[ "$(id -u)" -eq 0 ] || skip "mounts a small disk"
	stop_radd
	mkdir -p "$WORLD/small"
	mount -t tmpfs -o size=24m tmpfs "$WORLD/small" || skip "may not mount here"
	RAD_STATE=$WORLD/small start_radd --state "$WORLD/small/state"
	local id rc=0
	id=$(submit bash -c "$(until_file "$PWD/go")")
	wait_state "$id" RUNNING
	head -c 20m /dev/zero >"$WORLD/small/fill" 2>/dev/null || :
	run rad submit true
	echo "$output"
	[ "$status" -eq 3 ] && one_line_error "is full" || rc=1
	rad doctor | grep -q "^fail  *state  .*: no task is accepted until its disk has more than 16M" || rc=1
	: >go
	wait_state "$id" COMPLETED || rc=1
	rm "$WORLD/small/fill"
	timeout 100 rad wait "$(submit true)" || rc=1
	stop_radd
	umount "$WORLD/small"
	start_radd
	[ $rc -eq 0 ]
}

@test "state in a folder whose name is not UTF-8: radd tells what ran, and how it is" {
	stop_radd
	start_radd --state "$WORLD/caf"$'\xe9'
	local id
	id=$(submit -- true)
	timeout 100 rad wait "$id"
	rad acct --since 1d --json | jq -e --arg id "$id" '[.tasks[].id] == [$id]'
	rad version --json | jq -e '.radd != null'
	stop_radd
	start_radd
}

@test "restart: queue, holds, drained GPUs and ids are kept" {
	local a b
	a=$(submit --hold --name before -- true)
	rad drain 2
	stop_radd
	[ ! -e "$RAD_SOCKET" ]
	start_radd
	[ "$(state "$a")" = HELD ]
	rad gpus --json | jq -e '.gpus[2].drained'
	rad undrain 2
	b=$(submit --hold -- true)
	[ "$b" -gt "$a" ]
	rad release "$a"
	run rad wait "$a"
	[ "$status" -eq 0 ]
}

@test "a second radd on the same state, and on the same socket, is refused" {
	run radd --devices sim:1xa100-40g --state "$WORLD/state" --socket "$WORLD/other.sock"
	[ "$status" -eq 1 ]
	[[ "$output" == *"already runs on this state directory"* ]]
	run radd --devices sim:1xa100-40g --state "$WORLD/other" --socket "$RAD_SOCKET"
	[ "$status" -eq 1 ]
	[[ "$output" == *"already listens"* ]]
	rad queue
}

@test "an empty --state or --socket is a variable that is not set, and no place: nothing is written where radd was started" {
	mkdir "$WORLD/here"
	cd "$WORLD/here"
	for option in state socket; do
		run timeout 5 radd --devices sim:1xa100-40g --state "$WORLD/elsewhere" --socket "$WORLD/elsewhere.s" --$option=
		[ "$status" -eq 2 ]
		[[ "$output" == *"--$option"*"empty"* ]]
	done
	[ -z "$(ls -A "$WORLD/here")" ]
}

@test "RAD_SOCKET may be a relative path, of a radd that is started for it, too" {
	mkdir -p here there
	RAD_STATE=$WORLD/here-state RAD_SOCKET=here/s RAD_DEVICES=sim:1xa100-40g rad start
	[ -S here/s ]
	RAD_SOCKET=here/s run -7 rad run --chdir there --output "$PWD/out" -- sh -c 'rad queue >/dev/null && exit 7'
	RAD_SOCKET=here/s RAD_STATE=$WORLD/here-state rad stop
}

@test "state and socket may be given as relative paths" {
	mkdir -p far away
	mkfifo ready
	radd --devices sim:1xa100-40g --state near/state --socket near/s --ready-fd 7 7>ready 3>&- 4>&- 2>near.log </dev/null &
	pid=$!
	read -r -t 80 line <ready
	[ "$line" = ok ]
	RAD_SOCKET=$PWD/near/s run -7 rad run --chdir far --output "$PWD/out" -- sh -c 'test -S "$RAD_SOCKET" && exit 7'
	kill "$pid"
	gone "$pid"
	rm -f ready
}

@test "radd refuses a config with a typo, devices that are none, and a machine without a driver" {
	printf 'windw: 90\n' >bad.conf
	run radd --config bad.conf --devices sim:1xa100-40g --state "$WORLD/s2" --socket "$WORLD/s2.sock"
	[ "$status" -eq 1 ]
	[[ "$output" == *"bad.conf:1"*"did you mean 'window'"* ]]
	printf 'window: [1, 2]\n' >bad.conf
	run radd --config bad.conf --devices sim:1xa100-40g --state "$WORLD/s2" --socket "$WORLD/s2.sock"
	[ "$status" -eq 1 ]
	run radd --devices sim:4xnothing --state "$WORLD/s2" --socket "$WORLD/s2.sock"
	[ "$status" -eq 1 ]
	RAD_NVML_LIBRARY=$WORLD/none.so run radd --devices nvml --state "$WORLD/s2" --socket "$WORLD/s2.sock"
	[ "$status" -eq 69 ]	# so that its unit stays down
	[[ "$output" == *"sim:4xa100-40g"* ]]
}

# ---- a radd of one's own ----

@test "submit starts the user's own radd, once, and says so; its failure is shown" {
	export RAD_SOCKET=$WORLD/own.sock RAD_NO_START=0
	RAD_DEVICES=nvml RAD_NVML_LIBRARY=$WORLD/none.so run --separate-stderr rad submit -- true
	[ "$status" -eq 3 ]
	[[ "$stderr" == rad:*"sim:4xa100-40g"* ]]
	[ -z "$output" ]
	>"$WORLD/file"
	RAD_STATE=$WORLD/file/state run rad submit -- true
	one_line_error "$WORLD/file"
	one_line_error "export RAD_STATE=/var/tmp/rad-$(id -u), or another"
	# As somebody may have made /var/tmp/rad-UID, where there is no HOME: nothing is written there.
	mkdir -m 777 "$WORLD/others"
	chmod 777 "$WORLD/others"
	RAD_STATE=$WORLD/others run rad submit -- true
	[ "$status" -eq 1 ]
	one_line_error "others may write to it"
	[ -z "$(ls -A "$WORLD/others")" ]
	local i
	export RAD_DEVICES=sim:1xa100-40g
	for i in 1 2 3 4 5; do
		rad submit --parsable -- true >"own.$i" 2>"said.$i" &
	done
	wait
	[ "$(cat own.* | sort -n | tr '\n' ' ')" = "1 2 3 4 5 " ]
	[ "$(cat said.* | wc -l)" -eq 1 ]
	[[ "$(cat said.*)" =~ ^rad:\ started\ radd\ for\ you\ \(pid\ ([0-9]+),\ log\ .*\)$ ]]
	local pid=${BASH_REMATCH[1]}
	[ -s "$RAD_STATE/radd.log" ]
	run --separate-stderr rad submit --parsable --wait -- true
	[ "$output" = 6 ]
	[ -z "$stderr" ]
	[ "$(rad gpus --json | jq '.gpus | length')" -eq 1 ]
	kill "$pid"
	gone "$pid"
}

@test "a radd whose socket went with its user's last login is found again" {
	export XDG_RUNTIME_DIR=$WORLD/login RAD_STATE=$WORLD/again RAD_DEVICES=sim:1xa100-40g
	unset RAD_SOCKET
	[ "$(id -u)" != 0 ] || export RAD_SOCKET=$XDG_RUNTIME_DIR/rad/radd.sock	# root's own would be the machine's
	local pid asked
	mkdir -m 700 "$XDG_RUNTIME_DIR"
	rad start
	pid=$(rad start --json | jq .pid)
	kill -STOP "$pid"
	rm -r "$XDG_RUNTIME_DIR"
	mkdir -m 700 "$XDG_RUNTIME_DIR"
	RAD_NO_START=0 rad submit --parsable -- true >asked 3>&- 4>&- &
	asked=$!
	wait_for 10 eval '[ "$(cat /proc/'$asked'/comm)" = rad ]'
	kill -CONT "$pid"
	wait "$asked"	# who came just then has waited
	[ "$(cat asked)" = 1 ]
	[ "$(rad start --json | jq .pid)" = "$pid" ]
	[ "$(grep -c 'was removed: it is there again' "$RAD_STATE/radd.log")" = 1 ]
	rad stop
	gone "$pid"
}

@test "the log of a radd that rad started does not grow without end; one that somebody else keeps is left to them" {
	export RAD_SOCKET=$WORLD/grown.sock RAD_NO_START=0 RAD_STATE=$WORLD/grown RAD_DEVICES=sim:1xa100-40g
	local log=$RAD_STATE/radd.log pid
	mkdir -m 700 "$RAD_STATE"
	{ echo the first line; head -c 9M /dev/zero | tr '\0' .; echo; } >"$log"
	cp "$log" "$WORLD/kept.log"
	rad start
	pid=$(rad start --json | jq .pid)
	wait_for 10 eval "[ \$(stat -c %s '$log') -lt 10000 ]"
	[ "$(stat -c %a "$log.1")" = 600 ]
	[ "$(head -n 1 "$log.1")" = "the first line" ]
	cat "$log.1" "$log" | grep -aq 'info  radd .*devices sim:1xa100-40g'
	rad stop
	gone "$pid"
	grep -q "stopping; running tasks go on" "$log"	# it writes on from the beginning
	rm "$log".1
	radd 2>>"$WORLD/kept.log" 3>&- 4>&- &
	pid=$!
	RAD_NO_START=1 wait_for 10 eval '[ "$(rad gpus --json | jq ".gpus | length")" = 1 ]'	# it has read them
	kill "$pid"
	gone "$pid"
	[ "$(stat -c %s "$WORLD/kept.log")" -gt 9000000 ]
}

@test "a radd that run started ends by SIGTERM like any other" {
	export RAD_SOCKET=$WORLD/ran.sock RAD_NO_START=0 RAD_STATE=$WORLD/ran RAD_DEVICES=sim:1xa100-40g
	local pid
	run --separate-stderr rad run -- echo hello
	[ "$status" -eq 0 ]
	[ "$output" = hello ]
	pid=$(rad version --json >/dev/null && sed 's/.*(pid \([0-9]*\),.*/\1/' <<<"$stderr")
	kill "$pid"
	gone "$pid"
	[ ! -e "$RAD_SOCKET" ]
}

# Both want a radd on one socket, each with a state folder of its own, and the other's is first.
@test "who starts a radd while another one comes up on the same socket uses that one" {
	export RAD_SOCKET=$WORLD/both.sock RAD_NO_START=0 RAD_DEVICES=sim:1xa100-40g
	local real
	real=$(command -v radd)
	mkdir "$WORLD/bin"
	mkfifo "$WORLD/up"
	cp "$(command -v rad)" "$WORLD/bin/"
	printf '#!/bin/bash\n%q --state %q --ready-fd 8 8>%q 3>&- &\nread -r _ <%q\nexec %q "$@"\n' \
		"$real" "$WORLD/theirs" "$WORLD/up" "$WORLD/up" "$real" >"$WORLD/bin/radd"
	chmod +x "$WORLD/bin/radd"
	run --separate-stderr "$WORLD/bin/rad" submit --parsable --hold -- true
	[ "$status" -eq 0 ]
	[ "$output" = 1 ]
	[ -z "$stderr" ]
	grep -q 'another radd already listens' "$WORLD/own/radd.log"
	rad stop
}
