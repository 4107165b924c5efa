#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Tasks that set CUDA_VISIBLE_DEVICES themselves stay on the GPUs that they were given (libradstay.so, stay_on_gpus). Tasks get
# GPU 1, since the others are drained: whoever says 0 would go where nobody was sent.

bats_require_minimum_version 1.5.0
load helpers.bash

setup_file()
{
	new_world
	[ -e "$RAD_BUILD_ROOT/libradstay.so" ] || skip "it is not built beside sanitizers"
	DEVICES=sim:3xa100-40g start_radd
	rad drain 0
	rad drain 2
}

teardown_file() { end_world; }

setup() { cd "$WORLD/work"; }

teardown() { end_tasks; }

# gpu_is INDEX FILTER VALUE
gpu_is() { [ "$(rad gpus --json | jq -r ".gpus[] | select(.index == $1) | $2")" = "$3" ]; }
# on ID INDEX: its memory is seen there, and it was not moved
on()
{
	wait_for 10 gpu_is "$2" '[(.tasks | join(" ")), .mem_used_mib > 4000] | @text' "[\"$1\",true]"
	gpu_is 0 '[(.tasks | length), .mem_foreign_mib] | @text' '[0,0]'
	[ "$(field "$1" .reason)" != OtherGpus ]
	! rad show --events "$1" | grep -q moved || false
}

@test "a number that a shell, env or Python says is one of the GPUs that the task was given" {
	local id how
	for how in 'CUDA_VISIBLE_DEVICES=0 rad simtask --mem 4G --seconds 600 --ramp 0' \
		'export CUDA_VISIBLE_DEVICES=0; bash -c "rad simtask --mem 4G --seconds 600 --ramp 0; true"' \
		'env CUDA_VISIBLE_DEVICES=0 sh -c "exec rad simtask --mem 4G --seconds 600 --ramp 0"' \
		'python3 -c "import os, subprocess
os.environ[\"CUDA_VISIBLE_DEVICES\"] = \"0\"
subprocess.run([\"rad\", \"simtask\", \"--mem\", \"4G\", \"--seconds\", \"600\", \"--ramp\", \"0\"])"' \
		'python3 -c "import os, subprocess
subprocess.run([\"rad\", \"simtask\", \"--mem\", \"4G\", \"--seconds\", \"600\", \"--ramp\", \"0\"], env=dict(os.environ, CUDA_VISIBLE_DEVICES=\"0\"))"'; do
		id=$(submit --gpu-mem 5G -- bash -c "$how")
		on "$id" 1
		rad cancel "$id"
		wait_state "$id" CANCELLED
	done
}

@test "what a program itself sets is right for CUDA, which reads it later, and what it may not do stays its own affair" {
	cat >see.py <<-'END'
		import ctypes, os
		libc = ctypes.CDLL(None)
		libc.getenv.restype = ctypes.c_char_p
		def see():
		    value = libc.getenv(b"CUDA_VISIBLE_DEVICES")
		    return "unset" if value is None else value.decode() or "none"
		seen = [see()]
		for value in "0", "1", "0,1", "", "-1", "7":
		    os.environ["CUDA_VISIBLE_DEVICES"] = value
		    seen.append(see())
		del os.environ["CUDA_VISIBLE_DEVICES"]
		seen.append(see())
		os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
		libc.putenv(b"CUDA_VISIBLE_DEVICES")
		seen.append(see())
		text = ctypes.create_string_buffer(b"CUDA_VISIBLE_DEVICES=0")
		libc.putenv(text)
		seen.append(see())
		text = ctypes.create_string_buffer(b"OTHER=0")
		libc.putenv(text)
		seen.append(libc.getenv(b"OTHER").decode())
		assert libc.setenv(b"CUDA_VISIBLE_DEVICES", b"9", 0) == 0
		seen.append(see())
		assert libc.setenv(b"A=B", b"0", 1) == -1 and libc.setenv(None, b"0", 1) == -1
		print(*seen)
	END
	rad run --gpu-mem 1G python3 see.py >said
	[ "$(tail -n 1 said)" = "1 1 1 0,1 none -1 1 1 1 1 0 1" ]
	rad undrain 2
	rad run --gpu-mem 1G --gpus 2 python3 see.py >said
	rad drain 2
	local given first
	read -r given _ <said
	first=${given%,*}
	[ "$(tr , '\n' <<<"$given" | sort | xargs)" = "1 2" ]
	[ "$(tail -n 1 said)" = "$given $first 1 $given none -1 $first $given $given $first 0 $first" ]
}

@test "what CUDA reads as a number, and a variable that is gone, stay on the GPU too" {
	local how id
	# file lines that Windows ended; a list that ends early; Python's pop; an environment without it
	for how in "CUDA_VISIBLE_DEVICES=\$'0\r' rad simtask" 'CUDA_VISIBLE_DEVICES=0,-1 rad simtask' \
		'unset CUDA_VISIBLE_DEVICES; rad simtask' 'env -u CUDA_VISIBLE_DEVICES rad simtask' \
		'python3 -c "import os, sys
os.environ.pop(\"CUDA_VISIBLE_DEVICES\")
os.execvp(sys.argv[1], sys.argv[1:])" rad simtask'; do
		id=$(submit --gpu-mem 5G -- bash -c "$how --mem 4G --seconds 60 --ramp 0")
		on "$id" 1
		rad cancel "$id"
		wait_state "$id" CANCELLED
	done
	# Who says that he wants none has none.
	rad run --gpu-mem 1G bash -c 'CUDA_VISIBLE_DEVICES= printenv CUDA_VISIBLE_DEVICES; CUDA_VISIBLE_DEVICES=-1 printenv CUDA_VISIBLE_DEVICES' >said
	[ "$(tail -n 2 said)" = $'\n-1' ]
	# The rest of the environment is whole, and can be changed.
	rad run --gpu-mem 1G bash -c 'env -u CUDA_VISIBLE_DEVICES X=1 python3 -c "import os
os.environ[\"Y\"] = \"2\"
os.system(\"echo \$X \$Y \$HOME \$CUDA_VISIBLE_DEVICES\")"' >said
	[ "$(tail -n 1 said)" = "1 2 $HOME 1" ]
}

@test "what runs a container does not hand the library on, which is not there" {
	cp "$(command -v printenv)" apptainer
	LD_PRELOAD=libm.so.6 rad run --gpu-mem 1G ./apptainer LD_PRELOAD >said
	[ "$(tail -n 1 said)" = libm.so.6: ]
	rad run --gpu-mem 1G sh -c './apptainer LD_PRELOAD; ./apptainer CUDA_VISIBLE_DEVICES; printenv LD_PRELOAD' >said
	[ "$(tail -n 3 said)" = $'\n'"1"$'\n'"$(realpath "$RAD_BUILD_ROOT")/libradstay.so" ]
}

@test "threads that set variables at the same time do each other no harm" {
	cat >threads.py <<-'END'
		import os, threading
		def work(n):
		    for i in range(2000):
		        os.environ["CUDA_VISIBLE_DEVICES"] = str(i % 9)
		        os.environ["V%d_%d" % (n, i % 50)] = str(i)
		all = [threading.Thread(target=work, args=(n,)) for n in range(8)]
		for t in all: t.start()
		for t in all: t.join()
		print("whole")
	END
	rad run --gpu-mem 1G python3 threads.py | grep -qx whole
}

@test "what the task preloads stays, in front; the library goes no further than the task, and its own way out is there" {
	LD_PRELOAD=libm.so.6 rad run --gpu-mem 1G bash -c 'echo "$LD_PRELOAD $RAD_VISIBLE_DEVICES"' >said
	[ "$(tail -n 1 said)" = "libm.so.6:$(realpath "$RAD_BUILD_ROOT")/libradstay.so 1" ]
	# A task that submits another has the variables of this one, and hands on no second library.
	rad run --gpu-mem 1G bash -c 'rad run --gpu-mem 1G bash -c "echo \$LD_PRELOAD"' >said
	[ "$(tail -n 1 said)" = "$(realpath "$RAD_BUILD_ROOT")/libradstay.so" ]
	[ "$(rad run --gpu-mem 1G env -u LD_PRELOAD env CUDA_VISIBLE_DEVICES=0 printenv CUDA_VISIBLE_DEVICES | tail -n 1)" = 0 ]
	[ "$(rad run --gpu-mem 1G env CUDA_VISIBLE_DEVICES=0 printenv CUDA_VISIBLE_DEVICES | tail -n 1)" = 1 ]
	# Neither radd nor the shim loads it.
	local id
	id=$(submit --gpu-mem 1G -- sleep 600)
	wait_state "$id" RUNNING
	wait_for 10 pgrep -u "$(id -u)" -f "rad-shim.*$WORLD/state/attempts/$id[.]"
	! grep -q radstay "/proc/$(cat "$WORLD/pid")/maps" "/proc/$(pgrep -f "rad-shim.*$WORLD/state/attempts/$id[.]" | head -n 1)/maps" || false
}

@test "stay_on_gpus: no leaves scripts to themselves, from a reload on" {
	local id
	printf 'stay_on_gpus: no\n' >>"$RAD_CONFIG"
	kill -HUP "$(cat "$WORLD/pid")"
	wait_for 10 grep -q 'stay_on_gpus' "$WORLD/radd.log"
	id=$(submit --gpu-mem 5G -- bash -c 'CUDA_VISIBLE_DEVICES=0 rad simtask --mem 4G --seconds 600 --ramp 0')
	wait_for 10 sh -c "rad show --json $id | jq -e '.tasks[0].reason == \"OtherGpus\"'"
	gpu_is 0 '.tasks | join(" ")' "$id"
	rad cancel "$id"
	rad run --gpu-mem 1G sh -c 'echo "<$LD_PRELOAD>"' | grep -qx '<>'
	sed -i '/stay_on_gpus/d' "$RAD_CONFIG"
	kill -HUP "$(cat "$WORLD/pid")"
	wait_for 10 sh -c '[ $(grep -c stay_on_gpus "$WORLD/radd.log") -ge 2 ]'
	[ "$(rad run --gpu-mem 1G env CUDA_VISIBLE_DEVICES=0 printenv CUDA_VISIBLE_DEVICES | tail -n 1)" = 1 ]
}

# An installation elsewhere: its programs, and the library or not.
installed_in()
{
	mkdir -p "$1/bin" "$1/lib/rad-rm"
	cp "$RAD_BUILD_ROOT"/rad "$RAD_BUILD_ROOT"/radd "$RAD_BUILD_ROOT"/rad-shim "$1/bin/"
	[ -z "$2" ] || cp "$RAD_BUILD_ROOT/libradstay.so" "$1/lib/rad-rm/"
}

# said_by_radd_in FOLDER: what LD_PRELOAD a task on one of two GPUs has, in "said", and radd's log
said_by_radd_in()
{
	local socket=$1/radd.sock
	PATH=$1/bin:$PATH RAD_SOCKET=$socket "$1/bin/radd" --devices sim:2xa100-40g --state "$1/state" 3>&- 4>&- >"$1/log" 2>&1 &
	echo $! >"$1/pid"
	wait_for 10 env RAD_SOCKET="$socket" rad gpus
	for _ in 1 2; do RAD_SOCKET=$socket rad run --gpu-mem 1G sh -c 'echo "<$LD_PRELOAD>"' >said; done
	kill "$(cat "$1/pid")"
	gone "$(cat "$1/pid")"
}

@test "it is found where it was installed; where it is missing, or no path for LD_PRELOAD, tasks start without, and radd says so once" {
	mkdir -m 755 "$WORLD/there" "$WORLD/without" "$WORLD/a blank"
	chmod 755 "$WORLD"
	installed_in "$WORLD/there" yes
	said_by_radd_in "$WORLD/there"
	[ "$(tail -n 1 said)" = "<$WORLD/there/lib/rad-rm/libradstay.so>" ]
	! grep -q stay "$WORLD/there/log" || false
	installed_in "$WORLD/without" ""
	said_by_radd_in "$WORLD/without"
	[ "$(tail -n 1 said)" = "<>" ]
	[ "$(grep -c 'libradstay.so: is not in lib/rad-rm.*tasks start without it' "$WORLD/without/log")" = 1 ]
	installed_in "$WORLD/a blank" yes
	said_by_radd_in "$WORLD/a blank"
	[ "$(tail -n 1 said)" = "<>" ]
	[ "$(grep -c 'LD_PRELOAD takes no path with a blank' "$WORLD/a blank/log")" = 1 ]
}
