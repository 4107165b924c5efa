#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Tasks that share a data loader: how they are told its name, where they run, what they take of the host, and what `rad feed` and
# `rad show` see of who makes batches and who waits for whom. Batches are plain Python; tensors are tried in python/tests.

bats_require_minimum_version 1.5.0
load helpers.bash

setup_file()
{
	new_world
	printf 'host_mem: 8\nhost_cpus: 8\nplacement: magm\n' >>"$RAD_CONFIG"
	export PYTHONPATH=$BATS_TEST_DIRNAME/../python PYTHONDONTWRITEBYTECODE=1 RADFEED_LIBRARY=$RAD_BUILD_ROOT/libradfeed.so
	unset RADFEED_DIR RAD_FEED
	make_users
	# train.py [BATCHES [STOP]]: an epoch after the other of small batches, until the file `go` is there; at batch STOP it waits for that.
	cat >"$WORLD/train.py" <<-'PY'
		import os, sys, time
		import radrm.feed
		class Loader:
		    def __len__(self):
		        return int(sys.argv[1]) if len(sys.argv) > 1 else 50
		    def __iter__(self):
		        for i in range(len(self)):
		            time.sleep(0.01)
		            yield [i, "x" * 1000]
		stop = int(sys.argv[2]) if len(sys.argv) > 2 else -1
		feed = radrm.feed.shared(Loader(), slots=4)
		print(feed.name, flush=True)
		while True:
		    for number, batch in enumerate(feed):
		        while number == stop and not os.path.exists("go"):
		            time.sleep(0.05)
		        if os.path.exists("go"):
		            sys.exit(0)
	PY
	DEVICES=sim:2xa100-40g start_radd
}

teardown_file() { end_world; }

setup()
{
	cd "$WORLD/work"
	rm -f go
	export RADFEED_DIR=$WORLD/feeds
}

teardown()
{
	: >go
	rad cancel --all >/dev/null 2>&1 || :
	timeout 100 rad wait $(rad queue --json | jq -r '.tasks[].id') >/dev/null 2>&1 || :
}

train() { submit --gpu-mem 500M "$@"; }
# feed NAME FILTER: whether that holds of it.
feed() { local said; said=$(rad feed --json "$1") && jq -e ".feeds[0] | $2" <<<"$said"; }
# shown ID FILTER: the same of what `rad show` says of the task.
shown() { rad show --json "$1" | jq -e ".tasks[0].feed | $2"; }
reads() { feed "$1" "[.readers[] | select(.batches_s > 0).task] | contains([\"$2\"])"; }

@test "tasks of one feed run together, are seen, and another runs the loader when its task is cancelled" {
	local a b c first
	a=$(train --feed pictures -- python3 "$WORLD/train.py")
	wait_for 60 reads pictures "$a"
	b=$(train --feed pictures -- python3 "$WORLD/train.py")
	c=$(train --feed pictures -- python3 "$WORLD/train.py")
	wait_for 60 feed pictures '.readers | length == 3'
	wait_for 60 reads pictures "$b"
	wait_for 60 reads pictures "$c"
	[ "$(field "$a" '.attempts[0].gpus')" = "$(field "$b" '.attempts[0].gpus')" ]
	wait_for 60 grep -qx pictures "rad-$a.out"
	feed pictures ".state == \"runs\" and .slots == 4 and .memory_bytes > 1000 and .producer.task == \"$a\" and .tasks == 3
		and (.data | fromjson | .batches == 50) and .wait_fraction >= 0 and .wait_fraction <= 1"
	shown "$a" ".name == \"pictures\" and .role == \"producer\" and .producer == \"$a\" and (.readers | sort) == [\"$a\", \"$b\", \"$c\"]
		and .batches_s > 0 and .bytes_s > 0 and .wait_fraction >= 0"
	shown "$b" ".role == \"reader\" and .producer == \"$a\" and .batches_s > 0"
	rad show "$b" | grep -q "feed  pictures: its loader is run by task $a; gets"
	rad show "$a" | grep -q 'feed  pictures: it runs the loader; gets'
	rad why "$b" | grep -Eq "^  feed pictures: the loader is run by task $a; it got [0-9.]+ batches/s and waited [0-9]+% of the time"
	rad why --json "$a" | jq -e '.feed | .role == "producer" and .batches_s > 0'
	rad report --json | jq -e ".runs[0].note | contains(\"pictures of $(id -un): tasks\") and contains(\"; task $a feeds them, \")"
	run rad feed
	[[ "${lines[0]}" == "Feed pictures: 3 tasks, epoch "*" 4 slots of "* ]]
	[[ "${lines[1]}" == *ROLE*TASK*PID*BATCHES/S* ]]
	grep -q "^loader  $a " <<<"$output"
	[ "$(grep -c '^reader' <<<"$output")" = 3 ]
	rad cancel "$a"
	wait_for 60 feed pictures ".state == \"runs\" and .producer.task != \"$a\" and (.readers | length == 2)"
	wait_for 60 reads pictures "$b"
	: >go
	rad wait "$b" "$c"
	[ "$(rad feed)" = "No feeds of yours on this machine." ]
	run -1 rad feed none-of-that-name
	one_line_error "no feed none-of-that-name of yours on this machine: there is none in $WORLD/feeds"
}

@test "who holds up the others is named, and that nobody gets anything while a loader hangs" {
	local slow quick
	slow=$(train --feed held -- python3 "$WORLD/train.py" 50 5)
	wait_for 60 reads held "$slow"
	quick=$(train --feed held -- python3 "$WORLD/train.py")
	wait_for 60 feed held ".waits_for == \"$slow\" and (.readers | length) == 2"
	says() { rad feed held | grep -q "; the loader waits for task $slow\$"; }
	wait_for 60 says
	wait_for 60 shown "$quick" '.waits_for == "producer"'
	rad why "$quick" | grep -q '; now it waits for the loader$'
	wait_for 60 shown "$slow" ".role != \"producer\" or .waits_for == \"$slow\""
	# The loader stands still: its figures are those of before, and can be read.
	kill -STOP "$(feed held .producer.pid)"
	feed held ".state == \"runs\" and .waits_for == \"$slow\""
	kill -CONT "$(feed held .producer.pid)"
}

@test "a task that a full feed has no place for is told to wait by rad why" {
	cat >many.py <<-'PY'
		import ctypes, os, sys
		from radrm import _feedlib
		lib, item, error = _feedlib.load(), _feedlib.Item(), _feedlib.Error()
		readers = [lib.feed_reader_open(sys.argv[1].encode(), sys.argv[2].encode(), 1, error) for _ in range(63)]
		while not os.path.exists("go"):
		    for reader in readers:
		        if lib.feed_reader_next(reader, 5, ctypes.byref(item), ctypes.byref(error)) == 0:
		            lib.feed_reader_release(reader, item.ring, item.slot)
	PY
	train --feed crowd -- python3 "$WORLD/train.py"
	wait_for 20 feed crowd '.readers | length == 1'
	train -- python3 many.py crowd "$(rad feed --json crowd | jq -r '.feeds[0].data')"
	wait_for 30 feed crowd '.readers | length == 64'
	id=$(train --feed crowd -- python3 "$WORLD/train.py")
	wait_state "$id" RUNNING
	wait_for 20 shown "$id" '.full'
	rad why "$id" | grep -q "feed crowd: it has as many tasks as it takes, and this is none of them: it waits until one leaves"
	run ! sh -c 'rad why "$0" | grep "as it takes"' "$((id - 2))"
}

@test "an array has a feed of its own, and a task that radd did not start may join a feed" {
	local a b outside
	a=$(train --array 0-1 -- python3 "$WORLD/train.py")
	b=$(train -- python3 "$WORLD/train.py")
	found() { reads "$(basename "$RADFEED_DIR"/$1 .feed)" "$2"; }
	wait_for 60 found "train-*-$a.feed" "${a}_1"
	wait_for 60 found 'train-??????????.feed' "$b"
	two() { rad feed --json | jq -e '.feeds | length == 2 and ([.[].readers | length] | sort) == [1, 2]'; }
	wait_for 60 two
	shown "${a}_0" "(.readers | sort) == [\"${a}_0\", \"${a}_1\"]"
	python3 "$WORLD/train.py" >outside 2>&1 3>&- &
	outside=$!	# not later: what wait_for sleeps on has a process too
	wait_for 60 feed "$(shown "$b" .name | tr -d '"')" '[.readers[].task] | contains([null])'
	rad feed | grep -Eq '^reader  - +[0-9]+ '
	: >go
	wait "$outside"
}

@test "the name is what the option says, and not what the submitter has; bad ones are refused" {
	local id
	id=$(RAD_FEED=exported submit --feed said -- sh -c 'echo "$RAD_FEED"')
	rad wait "$id"
	[ "$(cat "rad-$id.out")" = said ]
	id=$(RAD_FEED=another submit -- sh -c 'echo "<$RAD_FEED>"')	# as of a task that submits others
	rad wait "$id"
	[ "$(cat "rad-$id.out")" = "<>" ]
	[ "$(field "$id" .feed)" = null ]
	printf '#!/bin/sh\n#RAD --feed=of-a-script --feed-cpus=2\necho "$RAD_FEED"\n' >script.sh
	id=$(submit script.sh)
	rad wait "$id"
	[ "$(cat "rad-$id.out")" = of-a-script ]
	[ "$(field "$id" .feed.name)" = of-a-script ]
	printf 'feed: of-a-file\nfeed_mem: 1G\nsh -c "echo $RAD_FEED"\n' >file.rad
	id=$(submit file.rad)
	rad wait "$id"
	[ "$(cat "rad-$id.out")" = of-a-file ]
	run -2 rad submit --feed a/b true
	[[ "$output" == *'feed name "a/b"'* ]]
	run -2 rad submit --feed "$(printf 'x%.0s' {1..61})" true
	[[ "$output" == *"1 to 60 letters"* ]]
	run -2 rad submit --feed-cpus 2 true
	[[ "$output" == *"add --feed"* ]]
}

@test "a loader takes host memory and CPUs once for all its tasks" {
	local a b c script='while [ ! -e go ]; do sleep 0.1; done'
	a=$(train --feed x --feed-cpus 4 --feed-mem 5G --cpus-per-task 1 -- sh -c "$script")
	b=$(train --feed x --feed-cpus 4 --feed-mem 5G --cpus-per-task 1 -- sh -c "$script")
	wait_state "$a" RUNNING
	wait_state "$b" RUNNING
	rad gpus --json | jq -e '.host | .cpus_held == 6 and .mem_held_mib == 5120'
	c=$(train --feed y --feed-mem 5G -- sh -c "$script")
	wait_for 60 eval '[ "$(field "$c" .reason)" = HostMemory ]'
	# As much after a restart.
	kill_radd
	DEVICES=sim:2xa100-40g start_radd
	rad gpus --json | jq -e '.host | .cpus_held == 6 and .mem_held_mib == 5120'
	rad cancel "$a"
	wait_state "$a" CANCELLED 30
	[ "$(state "$c")" = PENDING ]
	rad cancel "$b"
	wait_state "$c" RUNNING 30
	run -2 rad submit --feed z --feed-mem 9G true
	[[ "$output" == *"9.0G of host memory wanted"* ]]
}

@test "where a task of the feed runs is said before it is submitted" {
	local id
	id=$(train --feed near -- sh -c 'while [ ! -e go ]; do sleep 0.1; done')
	wait_state "$id" RUNNING
	rad submit --dry-run --json --gpu-mem 1G --feed near true | jq -e '[.gpus[].text | contains("tasks of its feed run there")] | any'
	rad submit --dry-run --json --gpu-mem 1G --feed far true | jq -e '[.gpus[].text | contains("tasks of its feed run there")] | any | not'
}

@test "feeds of one name of two users are two, and nobody sees the other's" {
	need_root
	local a b name=bats-$$ folder
	unset RADFEED_DIR
	[ -r "$PYTHONPATH/radrm/feed.py" ] && as "$ALICE" test -r "$PYTHONPATH/radrm/feed.py" -a -r "$RADFEED_LIBRARY" ||
		skip "the source is not readable by others"
	chmod 644 "$WORLD/train.py"
	a=$(as "$ALICE" rad submit --parsable --gpu-mem 1G --feed "$name" -- python3 "$WORLD/train.py" 30)
	b=$(as "$BOB" rad submit --parsable --gpu-mem 1G --feed "$name" -- python3 "$WORLD/train.py" 40)
	theirs()
	{
		local said
		said=$(as "$1" rad feed --json "$name") &&
			jq -e ".feeds[0] | [.readers[].task] == [\"$2\"] and .producer.task == \"$2\"" <<<"$said"
	}
	wait_for 60 theirs "$ALICE" "$a"
	wait_for 60 theirs "$BOB" "$b"
	run rad feed "$name"
	[ "$status" -eq 1 ]
	# Another's task shows the name, and no figures.
	rad show --json "$a" | jq -e ".tasks[0].feed == {name: \"$name\", tasks: [\"$a\"]}"
	# A folder that is not one's own is not looked into.
	run as "$BOB" env RADFEED_DIR="/tmp/radfeed-$(id -u "$ALICE")" rad feed
	[ "$status" -eq 1 ]
	one_line_error "must be a folder of yours"
	as "$ALICE" rad cancel "$a"
	as "$BOB" rad cancel "$b"
	wait_state "$a" CANCELLED 30
	wait_state "$b" CANCELLED 30
}
