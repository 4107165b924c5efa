#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Pilots on a queue of files: what waits for others, arrays with a limit, and allocations for what can begin.

bats_require_minimum_version 1.5.0
load helpers.bash
load pilot.bash

reason() { rad show --json "$1" | jq -r '.tasks[0] | "\(.state) \(.reason)"'; }
reads() { [ "$(reason "$1")" = "$2" ]; }

@test "what waits for others begins when they have come to it, and says so when they never will" {
	local a b c d e f g
	a=$(submit --gpu-mem 2G -- sh -c "$(counts a)")
	b=$(submit --gpu-mem 2G --dependency=afterok:$a -- sh -c 'cp a.ended b.saw')
	c=$(submit --gpu-mem 2G --dependency=afternotok:$a -- sh -c ': >c.ran')
	d=$(submit --gpu-mem 2G --dependency=after:$a -- sh -c 'cp a.begun d.saw')
	e=$(submit --gpu-mem 2G --dependency=afterok:$c -- sh -c ': >e.ran')
	f=$(submit --gpu-mem 2G --dependency=afterany:$b,afterok:$d -- sh -c 'ls >f.saw')
	reads "$b" "PENDING Dependency"
	rad show "$b" | grep -q "waits for afterok:$a"
	reads "$a" "PENDING NoPilot"
	pilot n1
	pilot n2
	wait_for 60 begun a
	timeout 90 rad wait "$d"
	[ -e d.saw ]
	reads "$b" "PENDING Dependency"
	: >go-a
	timeout 90 rad wait "$b" "$f"
	[ -e b.saw ]
	grep -q b.saw f.saw
	# In vain, and what rests on the success of that too: told, and neither is begun.
	reads "$c" "PENDING DependencyNeverSatisfied"
	reads "$e" "PENDING DependencyNeverSatisfied"
	rad show "$c" | grep -q "afternotok:$a can no longer be met: cancel it, or requeue that one"
	g=$(submit --gpu-mem 2G --dependency=afterok:$a -- true)	# of one that has ended and is on no list any more
	timeout 90 rad wait "$g"
	reads "$c" "PENDING DependencyNeverSatisfied"
	[ ! -e c.ran ]
	[ ! -e e.ran ]
	rad requeue "$c" && false || rad cancel "$c"
	timeout 100 rad wait "$c" || :
	reads "$e" "PENDING DependencyNeverSatisfied"
}

@test "elements of one array wait for those of another; tasks of one name for each other" {
	local a b c d
	a=$(submit --gpu-mem 2G --array=0-2 -- sh -c 'if [ $RAD_ARRAY_TASK_ID = 1 ]; then while [ ! -e go-a ]; do sleep 0.1; done; fi')
	b=$(submit --gpu-mem 2G --array=0-2 --dependency=aftercorr:$a -- true)
	c=$(submit --gpu-mem 2G --name one --dependency=singleton -- sh -c "$(counts c)")
	d=$(submit --gpu-mem 2G --name one --dependency=singleton -- sh -c 'cp c.ended d.saw')
	pilot n1
	pilot n2
	timeout 90 rad wait "${b}_0" "${b}_2"
	wait_for 60 begun c
	wait_for 20 reads "${b}_1" "PENDING Dependency"
	reads "$d" "PENDING Dependency"
	rad show "$d" | grep -q "waits for task $c, which is of its name"
	: >go-a
	: >go-c
	timeout 90 rad wait "$b" "$d"
	[ -e d.saw ]
}

@test "of an array with a limit no more elements run at once than it says, at several pilots, one of which is killed" {
	local a i
	mkdir run
	cat >one.sh <<-'X'
		: >run/$RAD_QUEUE_TASK
		n=$(ls run | wc -l)
		echo "$n" >>seen
		while [ ! -e go ]; do sleep 0.1; done
		i=0
		while [ $i -lt 4 ]; do i=$((i + 1)); sleep 0.1; ls run | wc -l >>seen; done
		rm run/$RAD_QUEUE_TASK
	X
	a=$(submit --gpu-mem 1G --array=0-19%3 -- sh one.sh)
	[ "$(jq .format "$RAD_QUEUE/jobs/$a/job")" = 2 ]
	pilot n1
	pilot n2
	pilot n3
	wait_for 60 sh -c '[ $(ls run | wc -l) = 3 ]'
	wait_for 20 sh -c "rad queue --json | jq -e '[.tasks[] | select(.reason == \"ArrayLimit\")] | length == 17'"
	: >go
	kill -9 "$(cat "$WORLD/n2.pid")"
	pilot n2
	timeout 200 rad wait "$a"
	[ "$(sort -n seen | tail -n 1)" = 3 ]
	[ "$(rad queue -t CD --json | jq '.tasks | length')" = 20 ]
	# Its places are damaged: those that run have them.
	a=$(submit --gpu-mem 1G --array=0-3%1 -- sh one.sh)
	printf '{"format":1,"places":[[0,' >"$RAD_QUEUE/jobs/$a/g.1"
	: >seen
	timeout 90 rad wait "$a"
	[ "$(sort -n seen | tail -n 1)" = 1 ]
}

@test "what a submission waits for has to be there, and who is too old for it leaves it alone" {
	local a
	a=$(submit --gpu-mem 2G --array=0-3 -- true)
	run rad submit --dependency=afterok:7 -- true
	one_line_error "dependency afterok:7: there is no such task in $RAD_QUEUE"
	run rad submit --dependency=afterok:${a}_9 -- true
	one_line_error "dependency afterok:${a}_9: there is no such task"
	run rad submit --dependency=aftercorr:$a -- true
	one_line_error "is between the elements of two arrays"
	run rad submit --array=2-5 --dependency=aftercorr:$a -- true
	one_line_error "no array with the indices of this one"
	run rad submit --dependency=afterok:x -- true
	[ "$status" != 0 ]
	[ "$(submit --gpu-mem 2G --dependency=afterok:$a -- true)" = 2 ]
	sed -i 's/"format":2/"format":9/' "$RAD_QUEUE/jobs/2/job"	# of a release to come
	pilot n1
	timeout 90 rad wait "$a"
	run rad show 2
	one_line_error "was submitted by a newer rad"
	[ ! -e "$RAD_QUEUE/jobs/2/t.1" ]
}

@test "what waits shows the memory that was declared for it" {
	local a b
	a=$(submit --gpu-mem 3G -- true)
	b=$(submit -- true)
	[ "$(field "$a" '.estimate | "\(.estimator) \(.claim_mib)"')" = "declared 3072" ]
	rad show "$a" | grep -q 'held on each GPU (declared'
	[ "$(field "$b" .estimate)" = null ]
	rad show "$b" | grep -q 'is estimated by the pilot that takes it'
}

@test "no allocation is asked for what cannot begin yet" {
	local a b i
	a=$(submit --gpu-mem 2G --begin now+2hours -- true)
	run rad pilot --submit --each 1 --most 9 --json
	[ "$(jq -c '[.waiting, .jobs]' <<<"$output")" = '[0,[]]' ]
	reads "$a" "PENDING BeginTime"
	b=$(submit --gpu-mem 2G --array=0-9%2 -- true)
	submit --gpu-mem 2G --array=0-9 --dependency=afterok:$b -- true
	run rad pilot --submit --each 1 --most 9 --json
	[ "$(jq -c '[.waiting, .jobs]' <<<"$output")" = '[2,["701","702"]]' ]
}

@test "who stays asks as tasks come, never for more than it may, and gives up what nothing waits for" {
	local i pid
	asked() { [ "$(ls "$FAKE_SLURM" | grep -c '^asked')" = "$1" ]; }
	for i in 1 2 3; do submit --hold --gpu-mem 2G -- true; done
	rad pilot --submit --every 1s --each 1 --most 2 >"$WORLD/stay.log" 2>&1 3>&- </dev/null &
	pid=$!
	submit --gpu-mem 2G -- true
	wait_for 30 asked 1
	rad release 1 2 3
	wait_for 30 asked 2
	# The controller is away for a while: it is told once, and asked again.
	: >"$FAKE_SLURM/down"
	wait_for 30 grep -q 'it is tried again' "$WORLD/stay.log"
	rm "$FAKE_SLURM/down"
	: >"$FAKE_SLURM/runs.701"
	rad cancel 1 2 3 4
	wait_for 60 asked 1
	[ -e "$FAKE_SLURM/asked.701" ]
	grep -q 'given up: job 702' "$WORLD/stay.log"
	[ "$(grep -c 'Asked Slurm' "$WORLD/stay.log")" = 2 ]
	kill -TERM "$pid"
	wait "$pid"
	grep -c 'it is tried again' "$WORLD/stay.log" | grep -qx 1
}

@test "who stays tells each round as it comes, as JSON too; a full disk is told as such" {
	local pid
	submit --hold --gpu-mem 2G -- true
	rad pilot --submit --every 1h --json >"$WORLD/stay.json" 2>"$WORLD/stay.log" 3>&- </dev/null &
	pid=$!
	wait_for 30 test -s "$WORLD/stay.json"
	kill -TERM "$pid"
	wait "$pid"
	run bash -c 'rad pilot --submit >/dev/full'
	[ "$status" = 1 ]
	[ "$output" = "rad: output: No space left on device" ]
}

@test "what was killed in the midst of writing is removed, by the file system's own time, and nothing else" {
	local a
	a=$(submit --gpu-mem 2G -- true)
	local tmp=$RAD_QUEUE/tmp/0000000000000000000000000000000	# names of 32 digits are made there
	mkdir "${tmp}1" "${tmp}2"
	echo '{' >"${tmp}1/job"
	: >"${tmp}3"
	: >"${tmp}4"
	: >"${tmp}5"
	: >"$RAD_QUEUE/tmp/mine"
	touch -d '2 days ago' "${tmp}1" "${tmp}3" "$RAD_QUEUE/tmp/mine"
	touch -d '2 days' "${tmp}5"
	pilot n1
	timeout 90 rad wait "$a"
	[ "$(cd "$RAD_QUEUE/tmp" && echo *2 *4 *5 mine; ls "$RAD_QUEUE/tmp" | wc -l)" = "${tmp##*/}2 ${tmp##*/}4 ${tmp##*/}5 mine
4" ]
	grep -q '2 files that were begun in the queue and not finished were removed' "$WORLD/n1.log"
}

@test "notices are sent by the pilot, by the number in the queue, once each; none for what goes back into the queue" {
	local a b c i
	cat >"$WORLD/told" <<-X
		#!/bin/sh
		echo "\$1 \$2 \$3" >>$WORLD/notices
	X
	chmod +x "$WORLD/told"
	submit --hold -- true
	a=$(submit --gpu-mem 2G --notify begin,end,fail --notify-to "exec:$WORLD/told" -- sh -c "$(counts a)")
	b=$(submit --gpu-mem 2G --notify fail --notify-to "exec:$WORLD/told" -- false)
	# Claimed once, and given back before it began: it begins for the first time after that.
	c=$(submit --gpu-mem 2G --hold --notify begin --notify-to "exec:$WORLD/told" -- true)
	echo '{"format":1,"state":"claimed","pilot":"n0-1","claim":1,"claims":1,"cuts":0,"time_ms":1,"ran_s":0,"started":false}' \
		>"$RAD_QUEUE/jobs/$c/t.1"
	echo '{"format":1,"state":"held","pilot":"n0-1","claim":1,"claims":1,"cuts":0,"time_ms":1,"ran_s":0,"started":false}' \
		>"$RAD_QUEUE/jobs/$c/t.2"
	pilot n1 --grace 6s
	wait_for 60 begun a
	timeout 200 rad wait "$b" || :
	kill "$(cat "$WORLD/n1.pid")"
	gone "$(cat "$WORLD/n1.pid")"
	wait_for 30 grep -q "fail $b FAILED" "$WORLD/notices"
	: >go-a
	rad release "$c"
	# More places than are kept in mind at once.
	for i in $(seq 22); do
		ln "$WORLD/told" "$WORLD/told$i"
		submit --gpu-mem 1G --notify end --notify-to "exec:$WORLD/told$i" -- true >>"$WORLD/many"
	done
	pilot n2
	timeout 200 rad wait "$a" "$c"
	timeout 200 rad wait $(cat "$WORLD/many")
	kill "$(cat "$WORLD/n2.pid")"	# what was gathered goes with it
	gone "$(cat "$WORLD/n2.pid")"
	wait_for 30 grep -q "end $a COMPLETED" "$WORLD/notices"
	grep -v "^end [0-9]* COMPLETED" "$WORLD/notices" | sort >"$WORLD/sorted"
	[ "$(tr '\n' , <"$WORLD/sorted")" = "begin $a RUNNING,begin $c RUNNING,fail $b FAILED," ]
	[ "$(grep -c "^end [0-9]* COMPLETED" "$WORLD/notices")" = 23 ]
}

@test "what is not for a queue is refused, and says what to do" {
	run script -qec 'rad run --pty -- true' /dev/null	# with a terminal
	[[ "$output" == *"--pty: is not for a queue of files"*"srun --pty"* ]]
	run rad lease $$
	one_line_error "unset RAD_QUEUE"
	run rad adopt $$
	one_line_error "unset RAD_QUEUE"
	[ ! -e "$RAD_QUEUE/jobs/1" ]
}

@test "a pilot of an older release beside: what a dead one has claimed of which that cannot read is not forgotten" {
	local a n1
	a=$(submit --gpu-mem 2G --array=0-0%1 -- sh -c "$(counts a)")
	in_job n1 11 --lease 10s
	wait_for 60 begun a
	n1=$(basename "$RAD_QUEUE"/pilots/n1*)
	kill_node n1
	echo FAILED 0 >"$FAKE_SLURM/job.11"
	# What an older one does for whom it knows to be dead and to have no tasks.
	rm "$RAD_QUEUE/pilots/$n1/status" "$RAD_QUEUE/pilots/$n1/pilot"
	rmdir "$RAD_QUEUE/pilots/$n1" || :
	in_job n2 12 --lease 10s
	wait_for 60 begun a 2
	: >go-a
	timeout 200 rad wait "${a}_0"
	wait_for 60 test ! -e "$RAD_QUEUE/pilots/$n1"
}
