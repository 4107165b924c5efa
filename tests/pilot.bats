#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Pilots on a queue of files: several nodes, kills, nodes that die, a queue that goes away, strange files in it.

bats_require_minimum_version 1.5.0
load helpers.bash
load pilot.bash

@test "two nodes take tasks from one queue, and what they came to is in it" {
	local a b c
	a=$(submit --gpu-mem 2G --name first -- sh -c 'echo out; exit 3')
	b=$(submit --gpu-mem 2G --array=0-5 -- sh -c 'echo $RAD_ARRAY_TASK_ID $RAD_QUEUE_TASK >e.$RAD_ARRAY_TASK_ID')
	c=$(submit --gpus 2 --exclusive --output 'log-%j-%x.txt' --name 'per%cent' -- sh -c 'echo two')
	run rad show "$a"
	[[ "$output" == *NoPilot* ]]
	pilot n1
	pilot n2
	timeout 200 rad wait "$a" "$b" "$c" || [ $? = 3 ]
	[ "$(state "$a")" = FAILED ]
	[ "$(field "$a" .exit_code)" = 3 ]
	[ "$(field "$a" '.attempts[0].verdict')" = failed ]
	[ "$(cat e.[0-5] | sort | tr '\n' ,)" = "0 ${b}_0,1 ${b}_1,2 ${b}_2,3 ${b}_3,4 ${b}_4,5 ${b}_5," ]
	[ "$(cat "log-$c-per%cent.txt")" = two ]
	[ "$(rad logs "$a")" = out ]
	[ "$(rad show --events --json "$a" | jq -r '[.events[].event] | join(" ")')" = "submitted claimed ended" ] || rad show --events "$a" | grep -q started
	rad queue -t all --json | jq -e '[.tasks[].state] | length == 8 and all(. == "COMPLETED" or . == "FAILED")'
	kill "$(cat "$WORLD/n1.pid")" "$(cat "$WORLD/n2.pid")"
	gone "$(cat "$WORLD/n1.pid")"
	gone "$(cat "$WORLD/n2.pid")"
	[ -z "$(ls "$RAD_QUEUE/pilots" "$RAD_QUEUE/live" "$RAD_QUEUE/tmp" | grep -v :)" ]
	[ -z "$(processes_of n1)" ]
}

@test "pilot, agent and radd are killed, one by one and all together: each task is begun once" {
	local a b
	a=$(submit --gpu-mem 2G -- sh -c "$(counts a)")
	b=$(submit --gpu-mem 2G -- sh -c "$(counts b)")
	pilot n1
	wait_for 40 begun a
	wait_for 40 begun b
	kill -9 "$(agent_of n1)"
	kill -9 "$(radd_of n1)"
	: >go-a
	timeout 200 rad wait "$a"
	kill -9 "$(cat "$WORLD/n1.pid")"
	kill -9 "$(radd_of n1)"
	pilot n1
	: >go-b
	timeout 200 rad wait "$b"
	begun a
	begun b
	[ "$(field "$a" .claims) $(field "$b" .claims)" = "1 1" ]
}

@test "a node that dies gives its tasks back when Slurm says that its job is over, and not before" {
	local a
	a=$(submit --gpu-mem 2G -- sh -c "$(counts a)")
	fast in_job n1 11
	wait_for 40 begun a
	fast in_job n2 12 --lease 10s
	wait_for 40 flying n2
	kill_node n1
	wait_for 60 grep -q 'is silent' "$WORLD/n2.log"
	[ "$(field "$a" .reason)" = PilotSilent ] || wait_for 20 sh -c "rad show $a | grep -q PilotSilent"
	: >"$FAKE_SLURM/down"
	begun a
	rm "$FAKE_SLURM/down"
	echo COMPLETING 0 >"$FAKE_SLURM/job.11"
	begun a
	echo NODE_FAIL 0 >"$FAKE_SLURM/job.11"
	wait_for 60 begun a 2
	: >go-a
	timeout 100 rad wait "$a"
	[ "$(wc -l <a.ended)" = 1 ]
	rad show --events "$a" | grep -q "returned .*n1 is gone: Slurm's job 11 is NODE_FAIL"
	wait_for 60 sh -c "[ \$(ls '$RAD_QUEUE/pilots' | wc -l) = 1 ]"
}

@test "without Slurm a dead node's tasks wait for a person; a living pilot's are not taken" {
	local a
	a=$(submit --gpu-mem 2G -- sh -c "$(counts a)")
	pilot n1
	wait_for 40 begun a
	run rad requeue --force "$a"
	one_line_error "lives, and has it"
	kill_node n1
	run rad requeue "$a"
	[ "$status" = 0 ]
	begun a
	fast rad requeue --force "$a"
	pilot n2
	wait_for 40 begun a 2
	: >go-a
	timeout 100 rad wait "$a"
}

@test "cancel, hold, release and requeue, of what waits and of what runs" {
	local a b
	a=$(submit --gpu-mem 2G --open-mode=truncate -o log-a -- sh -c "echo here; $(counts a)")
	b=$(submit --hold --gpu-mem 2G -- sh -c "$(counts b)")
	pilot n1
	wait_for 40 begun a
	rad requeue "$a"
	wait_for 40 begun a 2
	[ "$(grep -c here log-a)" = 2 ]	# the log is emptied before the first beginning alone
	rad cancel "$a"
	timeout 100 rad wait "$a" || :
	[ "$(state "$a")" = CANCELLED ]
	[ "$(state "$b")" = HELD ]
	run rad release "$a"
	one_line_error "has ended"
	rad release "$b"
	wait_for 40 begun b
	: >go-b
	timeout 100 rad wait "$b"
	rad requeue "$b"
	wait_for 40 begun b 2
	timeout 100 rad wait "$b"
	run rad cancel 99
	one_line_error "there is no such task"
	run rad gpus
	one_line_error "is a queue of files"
	run rad submit --dependency=afterok:99 -- true
	one_line_error "dependency afterok:99: there is no such task"
}

@test "who has no name on a machine goes by his number, and finds his tasks" {
	[ "$(id -u)" = 0 ] || skip "needs root"
	nameless() { setpriv --reuid=54321 --regid=54321 --clear-groups "$@"; }
	chmod 755 "$WORLD"
	chown 54321 "$WORLD/work"
	export RAD_QUEUE=$WORLD/work/queue
	nameless rad submit --parsable -- true
	[ "$(nameless rad queue --me -h -o %u)" = 54321 ]
}

@test "a pilot whose folder is not UTF-8 says who it is: by that its job is asked about when it is silent" {
	pilot n1 --state "$WORLD/n1/caf"$'\xe9'
	wait_for 30 eval 'jq -e .host "$RAD_QUEUE"/pilots/*/pilot'
}

@test "a queue in a folder whose name is not UTF-8: its tasks know where it is" {
	export RAD_QUEUE=$WORLD/caf$'\xe9'/queue
	local id
	mkdir "$WORLD/caf"$'\xe9'
	id=$(submit --gpu-mem 2G -- sh -c 'printf %s "$RAD_QUEUE" >where')
	pilot n1
	timeout 200 rad wait "$id"
	[ "$(cat where)" = "$RAD_QUEUE" ]
}

@test "on a host whose name is not UTF-8 what is submitted to the queue is there, and a pilot runs it and says who it is" {
	need_root
	unshare -u true 2>/dev/null || skip "no host can be named here"
	cat >strange <<-'SH'
	python3 -c 'import socket; socket.sethostname(b"caf\xe9")'
	. "$1/helpers.bash"
	. "$1/pilot.bash"
	submit --gpu-mem 2G -- true
	pilot n1
	SH
	id=$(unshare -u bash strange "$BATS_TEST_DIRNAME")
	timeout 200 rad wait "$id"
	rad show --json "$id" | jq -e '.tasks[0].state == "COMPLETED"'
	jq -e '.host == "caf?"' "$RAD_QUEUE"/pilots/*/pilot
}

@test "the queue goes away and comes back: what runs goes on, and is told then" {
	local a
	a=$(submit --gpu-mem 2G -- sh -c "$(counts a)")
	pilot n1
	wait_for 40 begun a
	mv "$RAD_QUEUE/live" "$RAD_QUEUE/gone"
	wait_for 40 grep -q 'the queue does not answer' "$WORLD/n1.log"
	: >go-a
	wait_for 20 test -e a.ended
	mv "$RAD_QUEUE/gone" "$RAD_QUEUE/live"
	timeout 200 rad wait "$a"
	begun a
}

@test "torn and strange files in the queue keep nobody from the rest" {
	local a b
	a=$(submit --gpu-mem 2G -- true)
	b=$(submit --gpu-mem 2G -- true)
	printf '{"format":1,"sta' >"$RAD_QUEUE/jobs/$a/t.1"
	: >"$RAD_QUEUE/live/strange"
	: >"$RAD_QUEUE/live/77"
	mkdir "$RAD_QUEUE/pilots/odd"
	ln -s /etc/passwd "$RAD_QUEUE/pilots/odd/status"
	mkdir "$RAD_QUEUE/jobs/3"
	printf '[[[[' >"$RAD_QUEUE/jobs/3/job"
	: >"$RAD_QUEUE/live/3"
	pilot n1
	timeout 100 rad wait "$b"
	[ "$(state "$a") $(field "$a" .reason)" = "HELD Broken" ]
	rad show "$a" | grep -q 'cannot be read'
	rad requeue "$a"
	timeout 100 rad wait "$a"
	# Damaged after it had ended, and was on no list any more.
	wait_for 40 sh -c "! ls '$RAD_QUEUE/live' | grep -q '^$a'"
	printf '{' >"$RAD_QUEUE/jobs/$a/$(ls "$RAD_QUEUE/jobs/$a" | grep '^t' | sort -t. -k2n | tail -n 1)"
	rad requeue "$a"
	timeout 100 rad wait "$a"
	run rad show 3
	one_line_error "cannot be read"
	[ "$(submit --gpu-mem 2G -- true)" = 4 ]
}
