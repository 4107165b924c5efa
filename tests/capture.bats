# SPDX-License-Identifier: MIT
# Captures that are made while a task waits. What captures is a stand-in here, since PyTorch is not on every machine: it does
# what $STAND_IN says; the package itself is tested in python/tests.
load helpers

captures=$BATS_TEST_DIRNAME/fuzz/corpus-capture

setup_file()
{
	new_world
	printf 'capture_wait: 20\n' >>"$RAD_CONFIG"
	mkdir -p "$WORLD/python/radrm/capture" "$WORLD/bin"
	export RAD_PYTHONPATH=$WORLD/python XDG_CACHE_HOME=$WORLD/cache PATH=$WORLD/bin:$PATH
	cat >"$WORLD/python/radrm/capture/__main__.py" <<-'PYTHON'
		import os, shutil, sys, time
		out, words = sys.argv[sys.argv.index("-o") + 1], sys.argv[sys.argv.index("--") + 1:]
		with open(os.environ["WORLD"] + "/captured", "a") as f:
		    print(os.getcwd(), os.nice(0), os.getsid(0) == os.getppid(), *words, file=f)
		with open(os.environ["WORLD"] + "/options", "w") as f:
		    print(*sys.argv[1:sys.argv.index("--")], file=f)
		with open(os.environ["WORLD"] + "/capturing", "w") as f:
		    print(os.getpid(), file=f)
		with open(os.environ["WORLD"] + "/paths", "w") as f:
		    print(os.environ["PATH"], os.environ["PYTHONPATH"], sep="\n", file=f)
		with open(os.environ["WORLD"] + "/library", "w") as f:
		    print(os.environ.get("RADRM_CAPTURE_LIBRARY"), file=f)
		what = os.environ.get("STAND_IN", "fail")
		while what == "hang" and not os.path.exists("go"):
		    time.sleep(0.05)
		if what == "fail":
		    print("rad: capture: ModuleNotFoundError: No module named 'nothere' (at train.py:1)", file=sys.stderr, flush=True)
		sys.stderr.buffer.write(os.environb.get(b"NOTES", b"") + b"\n")
		if what == "fail":
		    sys.exit(1)
		if what != "hang":
		    shutil.copy(what, out)
		sys.exit(int(os.environ.get("STATUS", 0)))
	PYTHON
	touch "$WORLD/python/radrm/__init__.py" "$WORLD/python/radrm/capture/__init__.py"
	# The task itself: nothing of Python's is needed to run it.
	printf '#!/bin/sh\nexec rad simtask --mem 500M --seconds 0.5 --ramp 0.1\n' >"$WORLD/bin/task.py"
	chmod +x "$WORLD/bin/task.py"
	start_radd
	keep_busy
}

# No GPU is idle, where a task would not wait for its capture.
keep_busy() { export BUSY=$(submit --gpus 4 --gpu-mem 1G -- rad simtask --mem 500M --smact 0.01 --gract 0.01 --seconds 3600); }

setup() { cd "$WORLD/work"; rm -f "$WORLD/captured" go; unset STAND_IN NOTES STATUS; }
teardown_file() { end_world; }

@test "a capture is made while the task waits, and decides where it goes" {
	mkdir -p sub
	export STAND_IN=$captures/max-split
	id=$(submit --capture=auto --chdir sub -- task.py "$BATS_TEST_NUMBER")
	rad wait "$id"
	rad show --json "$id" | jq -e '.tasks[0].estimate | .estimator == "replay" and .claim_mib > 0'
	[ "$(state "$id")" = COMPLETED ]
	# in the task's folder, nice, in a session of its own
	[[ "$(cat "$WORLD/captured")" == *"/work/sub 19 "* ]]
	[[ "$(cat "$WORLD/options")" == *" --gpus 1"* ]]
}

@test "of a copy of the code: its programs and modules are the copy's there, too" {
	local copy
	mkdir -p repo/bin repo/lib
	cd repo
	git init -q .
	cp "$WORLD/bin/task.py" bin/own.py
	touch lib/part.py
	git add -A
	export STAND_IN=$captures/max-split
	id=$(PATH=$PWD/bin:$PATH PYTHONPATH=$PWD/lib submit --snapshot --capture=auto -- own.py "$BATS_TEST_NUMBER")
	rad wait "$id"
	copy=$(field "$id" .cwd)
	[ "$copy" != "$PWD" ]
	[[ ":$(head -n 1 "$WORLD/paths"):" == *":$copy/bin:"* ]]
	[[ ":$(tail -n 1 "$WORLD/paths"):" == *":$copy/lib:"* ]]
	[[ "$(cat "$WORLD/paths")" != *"$PWD/"* ]]
}

@test "until then it waits, and rad why says for what" {
	export STAND_IN=hang
	id=$(submit --capture=auto -- task.py "$BATS_TEST_NUMBER")
	wait_for 10 test -e "$WORLD/captured"
	rad why --json "$id" | jq -e '.reason == "Estimating" and (.reason_text | startswith("its capture is under way"))'
	rad show --json "$id" | jq -e '.tasks[0].state == "PENDING" and .tasks[0].estimate == null'
	touch go
	rad wait "$id"
}

@test "on an idle GPU it begins at once, and is estimated when its capture is there, also when radd is started anew" {
	export STAND_IN=hang
	local id other
	rad cancel "$BUSY"
	rad wait "$BUSY" || :
	printf '#!/bin/sh\nexec rad simtask --mem 500M --seconds 3600 --ramp 0.1\n' >long.py
	chmod +x long.py
	id=$(submit --capture=auto -- ./long.py "$BATS_TEST_NUMBER")
	wait_for 10 test -e "$WORLD/captured"
	begun() { [ "$(state "$id")" = RUNNING ]; }	# once its capture has said that its files are its own
	wait_for 10 begun
	[[ "$(field "$id" .estimate.note)" == *"a GPU was idle, so it began before its capture was made"* ]]
	kill_radd
	start_radd
	touch go	# what hangs writes none
	is_said() { [[ "$(field "$id" .estimate.note)" == *"no capture: "* ]]; }
	wait_for 10 is_said
	[ "$(state "$id")" = RUNNING ]
	export STAND_IN=$captures/max-split
	other=$(submit --capture=auto -- ./long.py "$BATS_TEST_NUMBER" other)
	is_captured() { [ "$(field "$other" .estimate.estimator)" = replay ]; }
	wait_for 10 is_captured
	[ "$(state "$other")" = RUNNING ]
	[ "$(rad show --json "$other" | jq '.tasks[0] | .attempts[0].claim_mib == .estimate.claim_mib')" = true ]
	[[ "$(cat "$WORLD/options")" == *" --aside"* ]]
	rad cancel "$id" "$other"
	keep_busy
}

# A folder for temporary files is shared by design, so what is written there stays.
@test "a task and its capture do not write the same files: where they would, it waits on an idle GPU too" {
	export STAND_IN=hang
	local id
	rad cancel --all --yes
	none_left() { [ "$(rad queue --json | jq '.tasks | length')" = 0 ]; }
	wait_for 10 none_left
	id=$(TMPDIR=$PWD submit --capture=auto -- task.py "$BATS_TEST_NUMBER")
	wait_for 10 test -e "$WORLD/captured"
	rad why --json "$id" | jq -e '.reason == "Estimating"'
	[[ "$(cat "$WORLD/options")" == *" --in-place"* && "$(cat "$WORLD/options")" != *" --aside"* ]]
	touch go
	rad wait "$id"
	keep_busy
}

@test "a capture that fails costs its estimate, not the task, and rad show says why" {
	id=$(submit --capture=auto -- task.py "$BATS_TEST_NUMBER")
	rad wait "$id"
	[ "$(state "$id")" = COMPLETED ]
	rad show --json "$id" | jq -e '.tasks[0].estimate | .estimator == "none" and (.note | test("no capture: ModuleNotFoundError"))'
	rad show "$id" | grep -q "no capture: ModuleNotFoundError: No module named 'nothere'"
}

@test "a script that ends in an error of its own: what it did before is its estimate" {
	STAND_IN=$captures/max-split STATUS=3 NOTES="rad: capture: cut short after 2 steps: ValueError"
	export STAND_IN STATUS NOTES
	id=$(submit --capture=auto -- task.py "$BATS_TEST_NUMBER")
	rad wait "$id"
	rad show --json "$id" | jq -e '.tasks[0].estimate.estimator == "replay"'
	rad show "$id" | grep "cut short after 2 steps: ValueError"
}

@test "its notes are in rad show, for each element of an array, also when radd is started anew" {
	export STAND_IN=$captures/max-split NOTES=$'words\nrad: capture: sets CUDA_VISIBLE_DEVICES itself\nrad: capture: größer'
	id=$(submit --capture=auto --array 0-1 -- task.py "$BATS_TEST_NUMBER")
	rad wait "$id"
	run rad show "${id}_1"
	[[ "$output" == *$'\n    captured  sets CUDA_VISIBLE_DEVICES itself\n              größer\n'* && "$output" != *words* ]]
	kill_radd
	start_radd
	[ "$(field "${id}_1" .capture_notes)" = $'sets CUDA_VISIBLE_DEVICES itself\ngrößer' ]
}

@test "as many notes as there is room for, whatever bytes they are" {
	export STAND_IN=$captures/max-split NOTES
	NOTES=$(printf 'rad: capture: %0990d\xff\n' {1..9})
	id=$(submit --capture=auto -- task.py "$BATS_TEST_NUMBER")
	rad wait "$id"
	[ "$(field "$id" .estimate.estimator)" = replay ]
	[ "$(field "$id" .capture_notes | wc -l)" = 4 ]
}

@test "a reason that is too long is cut, between characters, and told at once" {
	export NOTES=$(printf 'rad: capture: x'; printf 'ä%.0s' {1..900})
	id=$(submit --capture=auto -- task.py "$BATS_TEST_NUMBER")
	rad wait "$id"
	[[ "$(field "$id" .estimate.note)" == *"replay: no capture: x??"* ]]
}

@test "one that is none is not believed" {
	export STAND_IN=/etc/passwd
	id=$(submit --capture=auto -- task.py "$BATS_TEST_NUMBER")
	rad wait "$id"
	rad show "$id" | grep -q "no capture: .*not a capture file"
}

@test "an array is captured once" {
	export STAND_IN=$captures/max-split
	id=$(submit --capture=auto --array 0-2 -- task.py "$BATS_TEST_NUMBER")
	rad wait "$id"
	rad show --json "$id" | jq -e '[.tasks[].estimate.estimator] == ["replay", "replay", "replay"]'
	[ "$(wc -l <"$WORLD/captured")" = 1 ]
}

@test "what is declared is not waited for, also when it comes later" {
	export STAND_IN=hang
	id=$(submit --capture=auto --gpu-mem 1G -- task.py "$BATS_TEST_NUMBER")
	rad wait "$id"
	[ ! -e "$WORLD/captured" ]
	id=$(submit --capture=auto -- task.py "$BATS_TEST_NUMBER" later)
	rad update "$id" --gpu-mem 1G
	rad wait "$id"
	[ "$(field "$id" .estimate.estimator)" = declared ]
	touch go
}

@test "a script is captured as a script, with its settings" {
	export STAND_IN=$captures/max-split
	printf 'capture: auto\nname: net\nX=1\ntask.py $1 # not python\n' >net.rad
	id=$(submit net.rad word)
	rad wait "$id"
	[ "$(field "$id" .estimate.estimator)" = replay ]
	[[ "$(cat "$WORLD/captured")" == *" bash -e /dev/fd/"*" word" ]]
}

@test "a time that is none: a wrong command line" {
	run rad capture --for 1 --timeout soon -- python3 train.py
	[ "$status" -eq 2 ]
	[[ "$output" == "rad: capture: --timeout: 'soon' is not"* ]]
}

@test "rad capture takes a task file, in its folder" {
	export STAND_IN=$captures/max-split
	mkdir -p far
	printf 'capture: net.radcap\ngpus: 2\ntask.py\n' >far/net.rad
	rad capture -o net.radcap -- far/net.rad
	[[ "$(cat "$WORLD/options")" == *" --gpus 2" ]]
	cmp net.radcap "$captures/max-split"
	[[ "$(cat "$WORLD/captured")" == */work/far\ *" bash -e /dev/fd/"* ]]
	mkfifo pipe
	run rad capture -o pipe -- task.py "$BATS_TEST_NUMBER"
	[ "$status" -eq 2 ]
	one_line_error "-o: pipe: is no file"
	[ -p pipe ]
	run rad capture -o x --for 3 -- task.py "$BATS_TEST_NUMBER"
	[ "$status" = 2 ]
	one_line_error "either -o FILE or --for ID"
}

@test "a task that was cancelled meanwhile, one of another state, one that waits for none" {
	export STAND_IN=hang
	id=$(submit --capture=auto -- task.py "$BATS_TEST_NUMBER")
	wait_for 10 test -e "$WORLD/captured"
	rad cancel "$id"
	touch go
	rad wait "$id" || :
	STAND_IN=$captures/max-split run rad capture --for "$id" --timeout 5 -- task.py "$BATS_TEST_NUMBER"
	[ "$status" = 1 ]
	id=$(submit --hold -- task.py "$BATS_TEST_NUMBER")
	STAND_IN=$captures/max-split run rad capture --for "$id" --timeout 5 -- task.py "$BATS_TEST_NUMBER"
	[ "$status" = 1 ]
	rad cancel "$id"
}

@test "radd is started anew meanwhile: the task still waits, and gets its capture" {
	export STAND_IN=hang
	id=$(submit --capture=auto -- task.py "$BATS_TEST_NUMBER")
	wait_for 10 test -e "$WORLD/captured"
	kill_radd
	start_radd
	rad why --json "$id" | jq -e '.reason_text | startswith("its capture is under way")'
	touch go
	rad wait "$id"
	rad show "$id" | grep -q "no capture: "	# the stand-in wrote none
}

# Its limit is processor time: a busy machine may take longer.
@test "a capture that takes longer than capture_wait by the clock is waited for, until its task is cancelled" {
	printf 'capture_wait: 3\n' >>"$RAD_CONFIG"
	kill -HUP "$(cat "$WORLD/pid")"
	wait_for 10 grep -q 'SIGHUP: capture_wait' "$WORLD/radd.log"
	export STAND_IN=hang
	local id pid
	id=$(submit --capture=auto -- task.py "$BATS_TEST_NUMBER")
	wait_for 10 test -e "$WORLD/captured"
	pid=$(cat "$WORLD/capturing")
	lasts() { [ "$(ps -o etimes= -p "$pid")" -ge 4 ]; }
	wait_for 10 lasts
	rad why --json "$id" | jq -e '.reason == "Estimating"'
	rad cancel "$id"
	is_gone() { ! kill -0 "$pid" 2>/dev/null; }
	wait_for 10 is_gone
	sed -i '/capture_wait: 3$/d' "$RAD_CONFIG"
	kill -HUP "$(cat "$WORLD/pid")"
	wait_for 10 grep -q 'SIGHUP: capture_wait: 3 -> 20' "$WORLD/radd.log"
}

@test "a capture that never comes: the task goes on when its time is over" {
	printf 'capture_wait: 1\n' >>"$RAD_CONFIG"
	kill -HUP "$(cat "$WORLD/pid")"
	wait_for 10 grep -q 'SIGHUP: capture_wait' "$WORLD/radd.log"
	export STAND_IN=hang
	id=$(submit --capture=auto -- task.py "$BATS_TEST_NUMBER")
	rad wait "$id"
	[ "$(state "$id")" = COMPLETED ]
	rad show "$id" | grep -qE "no capture: (it was not there in time|it took too long)"
	touch go
	sed -i '/capture_wait: 1$/d' "$RAD_CONFIG"
	kill -HUP "$(cat "$WORLD/pid")"
}

# All places are taken by the test: the captures of three tasks wait. One that is killed meanwhile costs its task capture_wait.
@test "captures wait for their turn, in the order of the tasks, and that time is not theirs" {
	printf 'capture_wait: 3\n' >>"$RAD_CONFIG"
	kill -HUP "$(cat "$WORLD/pid")"
	wait_for 10 grep -q 'SIGHUP: capture_wait: 20 -> 3' "$WORLD/radd.log"
	export STAND_IN=$captures/max-split
	local places=() fd id ids=() n
	mkdir -p "$XDG_CACHE_HOME/rad"
	for n in {0..7}; do
		exec {fd}>>"$XDG_CACHE_HOME/rad/capturing-$n"
		flock -n "$fd"
		places+=("$fd")
	done
	for n in first second third; do
		ids+=("$(submit --capture=auto -- task.py "$n" 3>&-)")
		wait_for 10 compgen -G "$XDG_CACHE_HOME/rad/capture-turn-*0${ids[-1]}-*"
	done
	rad why --json "${ids[2]}" | jq -e '.reason == "CaptureTurn" and (.reason_text | startswith("its capture waits for its turn"))'
	n=$(compgen -G "$XDG_CACHE_HOME/rad/capture-turn-*0${ids[1]}-*")
	kill -9 "$((10#${n##*-}))"
	rad wait "${ids[1]}"
	rad show "${ids[1]}" | grep -q 'no capture: its turn did not come in time'
	for id in "${ids[0]}" "${ids[2]}"; do
		rad why --json "$id" | jq -e '.reason == "CaptureTurn"'
	done
	[ ! -e "$WORLD/captured" ]
	exec {places[0]}>&-
	for id in "${ids[0]}" "${ids[2]}"; do
		rad wait "$id"
		[ "$(field "$id" .estimate.estimator)" = replay ]
	done
	[ "$(awk '{ print $NF }' "$WORLD/captured" | paste -sd ' ')" = "first third" ]
	[ -z "$(compgen -G "$XDG_CACHE_HOME/rad/capture-turn-*")" ]
	for fd in "${places[@]:1}"; do exec {fd}>&-; done
	sed -i '/capture_wait: 3$/d' "$RAD_CONFIG"
	kill -HUP "$(cat "$WORLD/pid")"
	wait_for 10 grep -q 'SIGHUP: capture_wait: 3 -> 20' "$WORLD/radd.log"
}

@test "the setting makes it the default for what runs Python and says nothing of its memory" {
	printf 'capture: auto\n' >>"$RAD_CONFIG"
	kill -HUP "$(cat "$WORLD/pid")"
	wait_for 10 grep -q 'SIGHUP: capture: off -> auto' "$WORLD/radd.log"
	export STAND_IN=$captures/max-split
	id=$(submit -- task.py "$BATS_TEST_NUMBER")
	rad wait "$id"
	[ "$(field "$id" .estimate.estimator)" = replay ]
	rm "$WORLD/captured"
	rad wait "$(submit --capture=off -- task.py --another)"
	rad wait "$(submit -- rad simtask --mem 500M --seconds 0.2 --ramp 0.1)"
	rad submit --dry-run -- task.py --third
	[ ! -e "$WORLD/captured" ]
}

# MODE LOCK...: a task is captured though all of these are held, in a folder of that mode. As $owner's files, if that is set.
captured_beside_locks() {
	local folder=$XDG_CACHE_HOME/rad lock fd id places=()
	mkdir -p "$folder"
	chmod "$1" "$folder"
	for lock in "${@:2}"; do
		exec {fd}>>"$folder/$lock"
		flock -n "$fd"
		if [ -n "${owner-}" ]; then
			chown "$owner" "$folder/$lock"
			chmod 666 "$folder/$lock"
		fi
		places+=("$fd")
	done
	id=$(submit --capture=auto -- task.py "$BATS_TEST_NUMBER" 3>&-)
	rad wait "$id"
	[ "$(field "$id" .estimate.estimator)" = replay ]
	for fd in "${places[@]}"; do exec {fd}>&-; done
}

@test "a Python that cannot be run: why not" {
	ln -s /nowhere/python3 python3
	run rad capture -o x.radcap -- ./python3 train.py
	one_line_error "./python3: is a link to /nowhere/python3, which leads nowhere"
	mkdir closed
	printf '#!/bin/sh\n' >closed/python3
	run rad capture -o x.radcap -- closed/python3 train.py
	one_line_error "closed/python3: is not executable, or in a folder that you may not enter"
	run rad capture -o x.radcap -- python3.999 train.py
	one_line_error "there is no python3.999 in PATH: is it installed"
}

@test "nobody waits for locks in a folder in which others may write" {
	export STAND_IN=$captures/max-split XDG_CACHE_HOME=$WORLD/shared
	captured_beside_locks 777 capturing-{0..7}
}

@test "nor for another user's locks, where a umask of 002 made the folder" {
	need_root
	export STAND_IN=$captures/max-split XDG_CACHE_HOME=$WORLD/groups
	owner=$BOB captured_beside_locks 775 capture-turn-0000000000-0000000001 capturing-{0..7}
}

@test "the rad that runs says where its library for commands is, whatever rad is in PATH" {
	local build
	build=$(realpath "$RAD_BUILD_ROOT")
	mkdir -p other/bin other/lib/rad-rm installed/bin installed/lib/rad-rm
	touch other/lib/rad-rm/libradcapture.so installed/lib/rad-rm/libradcapture.so
	cp "$build/rad" other/bin
	cp "$build/rad" installed/bin
	export STAND_IN=$captures/max-split PATH=$PWD/other/bin:$PATH
	"$build/rad" capture -o x.radcap -- task.py
	[ "$(cat "$WORLD/library")" = "$build/libradcapture.so" ]
	installed/bin/rad capture -o x.radcap -- task.py
	[ "$(cat "$WORLD/library")" = "$PWD/installed/lib/rad-rm/libradcapture.so" ]
	rm installed/lib/rad-rm/libradcapture.so
	RADRM_CAPTURE_LIBRARY=before installed/bin/rad capture -o x.radcap -- task.py
	[ "$(cat "$WORLD/library")" = None ]
}
