#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Slurm's side without Slurm: rad sbatch, and rad-slurm, which its plugins call, with a radd of their own; sbatch, squeue and
# scontrol are scripts that note what they are called with.

bats_require_minimum_version 1.5.0
load helpers.bash

setup_file()
{
	new_world
	mkdir "$WORLD/bin"
	local name
	for name in sbatch scontrol squeue; do
		printf '#!/bin/sh\necho "%s $*" >>"$WORLD/called"\n[ ! -e "$WORLD/%s" ] || . "$WORLD/%s"\n' $name $name $name >"$WORLD/bin/$name"
		chmod 755 "$WORLD/bin/$name"
	done
	export PATH=$WORLD/bin:$PATH RAD_SLURM_CONF=$WORLD/rad-slurm.conf
	unset SLURM_JOB_ID SLURM_CONF
	start_radd
	wait_for 10 sh -c "rad gpus --json | jq -e '.gpus | length == 4'"
}

teardown_file() { end_world; }

setup()
{
	cd "$WORLD/work"
	rm -f ./* "$WORLD/called" "$WORLD/squeue" "$WORLD/scontrol" "$WORLD/sbatch"
	printf 'gpus: 4x40G\n' >"$RAD_SLURM_CONF"
	STEPS=
}

teardown()
{
	[ -z "$STEPS" ] || kill -9 -- $STEPS 2>/dev/null || :
	timeout 100 rad wait $(rad queue --json | jq -r '.tasks[].id') >/dev/null 2>&1 || :
}

slurm() { "$RAD_BUILD_ROOT/slurm/rad-slurm" "$@"; }

need_helper() { [ -x "$RAD_BUILD_ROOT/slurm/rad-slurm" ] || skip "built without Slurm's headers"; }

# A process that stands for slurmstepd: its pid is in STEP. It runs the commands that come through the pipe `orders`.
step()
{
	rm -f orders pid
	mkfifo orders
	setsid sh -c 'echo $$ >pid; while :; do . ./orders; done' >/dev/null 2>step.err 3>&- 4>&- &
	wait_for 10 test -s pid
	STEP=$(cat pid)
	STEPS="$STEPS -$STEP"
}

# announce [options]: prints what tasks get, one a line.
announce()
{
	slurm announce --socket="$RAD_SOCKET" --uid="$(id -u)" --gid="$(id -g)" --pid="$STEP" "$@" >answer || return
	tr '\0' '\n' <answer
}

@test "rad sbatch: a declared size becomes shards; the user's words, and its reason, in one line" {
	printf '#!/bin/sh\n#RAD --gpu-mem=8G\ntrue\n' >train.sh
	run --separate-stderr rad sbatch train.sh -p gpus --time=10
	[ "$status" -eq 0 ]
	[ "$stderr" = "rad: train.sh: takes 8.0G on its GPU (declared): asks Slurm for --gres=shard:8, by its estimate" ]
	[ "$(cat "$WORLD/called")" = "sbatch --gres=shard:8 -p gpus --time=10 train.sh" ]
	rm "$WORLD/called"
	run --separate-stderr rad sbatch --dry-run --gpu-mem=39G train.sh
	[ "$output" = "sbatch --gres=shard:40 train.sh" ]
	[[ "$stderr" == *"more than a share of a GPU pays for"* ]]
	[ ! -e "$WORLD/called" ]
}

@test "rad sbatch: options and arguments as of sbatch, several GPUs, one alone, and what the user asked for himself" {
	printf '#!/bin/sh\n#RAD --gpu-mem=8G --gpus=2\ntrue\n' >two.sh
	[ "$(rad sbatch --dry-run -p a two.sh x --gres=y 2>/dev/null)" = "sbatch --gres=gpu:2 -p a two.sh x --gres=y" ]
	[ "$(rad sbatch --dry-run two.sh -p a -- x --gpu-mem 2>/dev/null)" = "sbatch --gres=gpu:2 -p a two.sh x --gpu-mem" ]
	# What can be no option's value is the script's, as for sbatch; one that is a script itself is not submitted in its place.
	printf '#!/bin/sh\n' >other.sh
	[ "$(rad sbatch --dry-run two.sh other.sh --time=1 2>/dev/null)" = "sbatch --gres=gpu:2 two.sh other.sh --time=1" ]
	[ "$(rad sbatch --dry-run two.sh -p a --time=10 other.sh -- x 2>/dev/null)" = "sbatch --gres=gpu:2 -p a --time=10 two.sh other.sh -- x" ]
	[ "$(rad sbatch --dry-run two.sh -p a --gpu-mem 9G x 2>/dev/null)" = "sbatch --gres=gpu:2 -p a two.sh x" ]
	run -2 --separate-stderr rad sbatch --dry-run two.sh --gpu-mem
	[[ "$stderr" == "rad: sbatch: --gpu-mem: how much?"* ]]
	printf '#!/bin/sh\n#RAD --gpu-mem=8G --exclusive\ntrue\n' >alone.sh
	[ "$(rad sbatch --dry-run alone.sh 2>/dev/null)" = "sbatch --gres=shard:40 alone.sh" ]
	run --separate-stderr rad sbatch --dry-run alone.sh --gres=gpu:1
	[ "$output" = "sbatch --gres=gpu:1 alone.sh" ]
	[[ "$stderr" == *"in its own words"* ]]
	printf 'gpus: 4x40G\nplace: colo\n' >"$RAD_SLURM_CONF"
	[ "$(rad sbatch --dry-run two.sh -p colo 2>/dev/null)" = "sbatch --gres=radmem:16 -p colo two.sh" ]
}

@test "rad sbatch: a job without a GPU is Slurm's alone" {
	printf '#!/bin/sh\n#RAD --gpus=0\ntrue\n' >ours.sh
	printf '#!/bin/sh\n#SBATCH --gres=none\ntrue\n' >slurms.sh
	local f
	for f in ours.sh slurms.sh; do
		run --separate-stderr rad sbatch --dry-run "$f"
		[ "$output" = "sbatch $f" ]
		[ "${stderr_lines[-1]}" = "rad: $f: asks for no GPU: left as it is" ]
		[ -z "$(rad sbatch --size "$f" 2>/dev/null)" ]
	done
}

@test "rad sbatch: lines of #SBATCH are sbatch's: partitions and GPUs count, nothing is refused or told of the rest" {
	printf 'gpus: 4x40G\nplace: colo,night\n' >"$RAD_SLURM_CONF"
	printf '#!/bin/sh\n#SBATCH -J x --part=colo --container=x --newer # -p y\n#RAD --gpu-mem=8G\nsrun x\n#SBATCH -p main\n' >lines.sh
	run --separate-stderr rad sbatch --dry-run lines.sh
	[ "$output" = "sbatch --gres=radmem:8 lines.sh" ]
	[ "$(grep -vc 'behind the first command' <<<"$stderr")" = 1 ]
	[ "$(SBATCH_PARTITION=main rad sbatch --dry-run lines.sh 2>/dev/null)" = "sbatch --gres=shard:8 lines.sh" ]
	[ "$(SBATCH_PARTITION=main rad sbatch --dry-run -p night,colo lines.sh 2>/dev/null)" = "sbatch --gres=radmem:8 -p night,colo lines.sh" ]
	printf '#!/bin/sh\n#SBATCH --gpus-per-task=1 --ntasks=2 --gpus-per-socket=9\n#RAD --gpu-mem=8G\ntrue\n' >two.sh
	[ "$(rad sbatch --dry-run two.sh 2>/dev/null)" = "sbatch --gres=gpu:2 two.sh" ]
	# Of partitions of both kinds, one is Slurm's and one is radd's: what is asked for of the one, the other does not have.
	run rad sbatch -p main,colo lines.sh
	[ "$status" -eq 2 ]
	[[ "$output" == *"name partitions of one kind ('place' of rad-slurm.conf: colo,night)"* ]]
	[ "$(rad sbatch --dry-run lines.sh -p main,colo --gres=radmem:3 2>/dev/null)" = "sbatch -p main,colo --gres=radmem:3 lines.sh" ]
	[ ! -e "$WORLD/called" ]
}

@test "rad sbatch: what only radd would do is said; a capture is made before, in a bounded time" {
	printf '#!/bin/sh\n#RAD --gpu-mem=8G --time=10 # --array=2\n#RAD --priority 3\ntrue\n' >idle.sh
	run --separate-stderr rad sbatch --dry-run idle.sh
	[ "$output" = "sbatch --gres=shard:8 idle.sh" ]
	[[ "$stderr" == *"idle.sh: --time, --priority: not told to Slurm"* ]]
	printf '#!/bin/sh\n#RAD -t 10 --gpu-mem=8G -G1 --no-requeue\n#RAD --env x --mail-type=END\ntrue\n' >short.sh
	run --separate-stderr rad sbatch --dry-run short.sh
	[[ "$stderr" == *"short.sh: --time, --no-requeue, --env, --mail-type: not told to Slurm"* ]]
	printf 'gpu_mem: 8G\nname: a\ntime_limit: 2h\nfeed_cpus: 2\necho priority: 3\n' >idle.rad
	run --separate-stderr rad sbatch --dry-run idle.rad
	[[ "$stderr" == *"idle.rad: time, feed-cpus: not told to Slurm"* ]]
	printf '#!/bin/sh\n#RAD --capture=auto\ntouch "$BATS_TEST_TMPDIR/ran"\n' >none.sh
	run --separate-stderr rad sbatch --dry-run none.sh
	[ "$output" = "sbatch --gres=shard:40 none.sh" ]
	[[ "$stderr" == *"none.sh: no capture: the command ended (exit code 0), and nothing that it ran with Python used a GPU"* ]]
	[ -e "$BATS_TEST_TMPDIR/ran" ]	# temporary files stay; in its folder nothing is left
	# What says what it takes, or asks Slurm itself, is not captured; nor is a task that hangs waited for.
	rm "$BATS_TEST_TMPDIR/ran"
	printf '#!/bin/sh\n#RAD --capture=auto --gpu-mem=8G\ntouch "$BATS_TEST_TMPDIR/ran"\n' >said.sh
	rad sbatch --dry-run said.sh
	rad sbatch --dry-run none.sh --gres=gpu:1
	[ ! -e "$BATS_TEST_TMPDIR/ran" ]
	printf '#!/bin/sh\n#RAD --capture=auto\necho $$ >"$BATS_TEST_TMPDIR/hangs"; exec sleep 1000\n' >hangs.sh
	run --separate-stderr timeout 200 rad sbatch --size hangs.sh
	[ "$status" -eq 0 ]
	grep -qx gres=shard:40 <<<"$output"
	[[ "$stderr" == *"hangs.sh: no capture: it took longer than 7 s"* ]]
	wait_for 10 sh -c '! kill -0 "$(cat "$BATS_TEST_TMPDIR/hangs")"'
}

@test "rad sbatch: a capture and a model summary are sized as rad estimate has them" {
	export RAD_SOCKET=$WORLD/nobody
	local file=$RAD_SOURCE_ROOT/tests/fuzz/corpus-capture/max-split mib
	printf '#!/bin/sh\n#RAD --capture=%s\ntrue\n' "$file" >capture.sh
	mib=$(rad estimate --capture "$file" --json | jq '.estimates[0].claim_mib')
	run --separate-stderr rad sbatch --dry-run capture.sh
	[ "$output" = "sbatch --gres=shard:$(((mib + 1023) / 1024)) capture.sh" ]
	[[ "$stderr" == *"(replay)"* ]]
	file=$RAD_SOURCE_ROOT/tests/summaries/bert-classifier-printed.txt
	printf '#!/bin/sh\n#RAD --model=%s --batch-size=32 --seq-len=128\ntrue\n' "$file" >model.sh
	mib=$(rad estimate --summary "$file" --batch-size 32 --seq-len 128 --json | jq '.estimates[0].claim_mib')
	run --separate-stderr rad sbatch --dry-run model.sh
	[ "$output" = "sbatch --gres=shard:$(((mib + 1023) / 1024)) model.sh" ]
	[[ "$stderr" == *"(gpumemnet)"* ]]
}

@test "rad sbatch: what earlier runs took goes before what is unknown" {
	printf '#!/bin/sh\n#RAD --batch-size=8\nrad simtask --mem 6G --seconds 3 --ramp 0.1\n' >learn.sh
	run --separate-stderr rad sbatch --dry-run learn.sh
	[ "$output" = "sbatch --gres=shard:40 learn.sh" ]
	[[ "$stderr" == *"nothing says what it takes"* ]]
	rad run learn.sh >/dev/null
	by_history() { rad sbatch --dry-run learn.sh >asked 2>why && grep -q "(history)" why; }
	wait_for 10 by_history		# radd has two seconds for its answer
	[[ "$(cat asked)" =~ --gres=shard:[6-9]\  ]]
}

@test "rad sbatch: slips are refused, with nothing submitted: a #RAD line, more than any GPU has, a missing script" {
	printf '#!/bin/sh\n#RAD --gpu=1\ntrue\n' >slip.sh
	run rad sbatch slip.sh
	[ "$status" -eq 2 ]
	one_line_error "did you mean '--gpus'"
	printf '#!/bin/sh\n#RAD --gpu-mem=200G\ntrue\n' >huge.sh
	run rad sbatch huge.sh
	[ "$status" -eq 2 ]
	one_line_error "200.0G does not fit any GPU of this cluster: the largest has 40.0G"
	run rad sbatch none.sh
	[ "$status" -eq 1 ]
	one_line_error "none.sh"
	run rad sbatch -p x
	[ "$status" -eq 2 ]
	printf 'gpus: lots\n' >"$RAD_SLURM_CONF"
	run rad sbatch huge.sh
	one_line_error "rad-slurm.conf:1: gpus"
	[ ! -e "$WORLD/called" ]
}

@test "rad sbatch: a .rad file goes as a script, in its folder and under its name" {
	printf 'name: net\ngpu_mem: 8G\necho hello\n' >train.rad
	echo 'cat >"$WORLD/work/script"' >"$WORLD/sbatch"
	rad sbatch train.rad --hold 2>/dev/null
	[ "$(cat "$WORLD/called")" = "sbatch --job-name=net --chdir=$WORLD/work --gres=shard:8 --hold" ]
	[ "$(head -n 1 script)" = "#!/bin/bash -e" ]
	grep -qx 'echo hello' script
	! grep -q 'gpu_mem:' script || false
}

@test "a job's name is its user's: control characters of any kind keep radd from no job" {
	need_helper
	step
	run -0 announce --job=31 --at=2 --pieces=8 --gpu-mem=8G --name="$(printf 'a\033[2J\302\2332Jb')"
	[ "$(field "$(sed -n 's/^id=//p' <<<"$output")" .name)" = 'a?[2J?2Jb' ]
}

@test "a job that Slurm placed: counted where it is, its processes are its own, judged by how it ended" {
	need_helper
	step
	run -0 announce --job=7 --at=2 --pieces=8 --gpu-mem=8G --name=train
	id=$(sed -n 's/^id=//p' <<<"$output")
	grep -qx 'joined=0' <<<"$output"
	grep -qx "RAD_TASK_ID=$id" <<<"$output"
	grep -q '^RAD_SIM_DEVICES=' <<<"$output"
	rad show --json "$id" | jq -e '.tasks[0] | .state == "RUNNING" and .name == "train" and .command == "slurm job 7"
		and .attempts[0].claim_mib == 8192'
	wait_for 10 sh -c "rad gpus --json | jq -e '.gpus[2].mem_held_mib == 8192'"
	# Another step of it is told the same.
	run -0 announce --job=7 --at=2 --pieces=8 --gpu-mem=8G
	grep -qx "id=$id" <<<"$output"
	grep -qx 'joined=1' <<<"$output"
	{ grep -a -z -v -E '^(id|joined|RAD_MPS)=' answer | tr '\0' '\n' | sed 's/^/export /'; echo 'rad simtask --mem 3G --seconds 300 --ramp 0.1 &'; } >orders
	wait_for 15 sh -c "rad gpus --json | jq -e 'any(.gpus[2].processes[]; .task == \"$id\" and .mem_mib >= 3072)'"
	printf 'loss 1\nTraceback (most recent call last):\ntorch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n' >err
	slurm depart --socket="$RAD_SOCKET" --id="$id" --job=7 --restarts=1 --uid="$(id -u)" --gid="$(id -g)" --exit-code=1 --output="$PWD/err"
	[ "$(state "$id")" = OUT_OF_MEMORY ]
	grep -q '^scontrol update JobId=7 AdminComment=rad: oom: peak .* of 8.0G; .*CUDA out of memory.* restarts=1\]$' "$WORLD/called"
}

@test "a job that radd places: GPUs now, or 'not now', and then nothing of it is left" {
	need_helper
	step
	echo 'echo "gres:radmem:120"' >"$WORLD/squeue"
	run -0 announce --job=8 --place=10 --gpu-mem=30G --gpus=4
	id=$(sed -n 's/^id=//p' <<<"$output")
	[ "$(sed -n 's/^RAD_GPU_UUIDS=//p' <<<"$output" | tr ',' '\n' | wc -l)" = 4 ]
	first=$STEP
	step
	echo 'echo "gres:radmem:30"' >"$WORLD/squeue"
	run -75 announce --job=9 --place=1 --gpu-mem=30G
	[ "$(rad queue --json | jq -r '.tasks[].id')" = "$id" ]
	echo 'echo "gres:radmem:100"' >"$WORLD/squeue"
	run -1 announce --job=9 --place=1 --gpu-mem=100G
	# Its word alone takes nothing: Slurm has to have it down for memory, and to say so.
	echo 'echo "gres:shard:30"' >"$WORLD/squeue"
	run -74 announce --job=9 --place=1 --gpu-mem=1G
	[[ "$output" == *"it asks Slurm for no GPU memory"* ]]
	echo 'exit 1' >"$WORLD/squeue"
	run -1 announce --job=9 --place=1 --gpu-mem=1G
	[[ "$output" == *"slurmctld did not say what the job asks for"* ]]
	rm "$WORLD/called"
	echo '[ "$(wc -l <"$WORLD/called")" -lt 3 ] && exit 1; echo gres:radmem:120' >"$WORLD/squeue"
	run -75 announce --job=9 --place=1 --gpu-mem=1G --gpus=4
	# Its end is noticed without a word.
	kill -9 "$first"
	wait_state "$id" COMPLETED
	# What Slurm has it down for counts, whatever its environment says.
	echo 'echo "gres:radmem:12"' >"$WORLD/squeue"
	run -0 announce --job=9 --place=10 --gpu-mem=30G --all=40
	id=$(sed -n 's/^id=//p' <<<"$output")
	rad show --json "$id" | jq -e '.tasks[0] | .state == "RUNNING" and .attempts[0].claim_mib == 12288'
	run -74 announce --job=12 --place=1 --gpu-mem=1G --gpus=13
	[[ "$output" == *"ask for memory on each"* ]]
	step
	echo 'echo "gres:radmem:40"' >"$WORLD/squeue"
	run -0 announce --job=13 --place=10 --gpu-mem=2G --all=40
	rad show --json "$(sed -n 's/^id=//p' <<<"$output")" | jq -e '.tasks[0].share == "never"'
}

@test "a job's own words: no number, more than it was given, a name that is none" {
	need_helper
	step
	run -0 announce --job=14 --at=3 --pieces=4 --gpu-mem=lots --name=$'a\nb'
	rad show --json "$(sed -n 's/^id=//p' <<<"$output")" | jq -e '.tasks[0] | .name == "a?b" and .attempts[0].claim_mib == 4096'
	step
	run -0 announce --job=15 --at=3 --pieces=4 --gpu-mem=39G --name=$'\xff'
	rad show --json "$(sed -n 's/^id=//p' <<<"$output")" | jq -e '.tasks[0] | .name == "slurm job 15" and .attempts[0].claim_mib == 4096'
	step
	run -0 announce --job=16 --at=0,1 --gpu-mem=4G
	rad show --json "$(sed -n 's/^id=//p' <<<"$output")" | jq -e '.tasks[0] | .share == "never" and .gpus_requested == 2'
	# Alone is who has all pieces.
	step
	run -0 announce --job=17 --at=3 --pieces=4 --all=40 --exclusive --signature="$(printf '%0200d' 1)"
	rad show --json "$(sed -n 's/^id=//p' <<<"$output")" | jq -e '.tasks[0] | .share != "never" and .attempts[0].claim_mib == 4096'
	# Nor where it is not known how many pieces a GPU has: Slurm has it down for one.
	step
	echo 'echo "gres:radmem:1"' >"$WORLD/squeue"
	run -0 announce --job=19 --place=10 --exclusive
	rad show --json "$(sed -n 's/^id=//p' <<<"$output")" | jq -e '.tasks[0] | .share != "never" and .attempts[0].claim_mib == 1024'
	# Whoever says that his runs are another user's is told of all the same: radd would not hear of a job on its GPU.
	step
	run -0 announce --job=18 --at=2 --pieces=4 --signature=u99999-0123456789abcdef
	[ "$(state "$(sed -n 's/^id=//p' <<<"$output")")" = RUNNING ]
}

@test "radd is killed under a job, and started again: the job is where it was, and is no second one" {
	need_helper
	step
	run -0 announce --job=10 --at=1 --pieces=5
	id=$(sed -n 's/^id=//p' <<<"$output")
	kill_radd
	run -1 announce --job=11 --at=1
	start_radd
	[ "$(state "$id")" = RUNNING ]
	wait_for 10 sh -c "rad gpus --json | jq -e '.gpus[1].mem_held_mib == 5120'"
	run -0 announce --job=10 --at=1 --pieces=5
	grep -qx "id=$id" <<<"$output"
	slurm depart --socket="$RAD_SOCKET" --id="$id" --job=10 --restarts=0 --uid="$(id -u)" --gid="$(id -g)" --exit-code=0
	[ "$(state "$id")" = COMPLETED ]
	run -1 slurm depart --socket="$RAD_SOCKET" --id="$id" --job=10 --restarts=0 --uid="$(id -u)" --gid="$(id -g)" --exit-code=0
}

@test "a job ends while radd is away: it is told when it is there again, in the time there is for that" {
	need_helper
	step
	run -0 announce --job=21 --at=1 --pieces=5
	id=$(sed -n 's/^id=//p' <<<"$output")
	printf 'torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n' >err
	depart() { slurm depart --socket="$RAD_SOCKET" --id="$id" --job=21 --restarts=0 --uid="$(id -u)" --gid="$(id -g)" --exit-code=1 "$@"; }
	kill_radd
	run -1 depart --limit=1
	depart --limit=60 --output="$PWD/err" 3>&- 4>&- &
	local departs=$!
	start_radd
	wait "$departs"
	[ "$(state "$id")" = OUT_OF_MEMORY ]
	grep -q '^scontrol update JobId=21 AdminComment=rad: oom: ' "$WORLD/called"
}

@test "radd ends between the note of an end and its answer: the verdict is in the comment all the same" {
	need_helper
	local fake
	cat >fake.py <<-'PY'
		import json, socket, struct
		here = socket.socket(socket.AF_UNIX); here.bind("fake.sock"); here.listen()
		def answer(with_what):
		    c = here.accept()[0]; f = c.makefile("rb")
		    if with_what is None: return c.recv(1), c.close()
		    asked = json.loads(f.read(struct.unpack(">I", f.read(4))[0]))["op"]
		    said = json.dumps({"v": 1, "schema": 1, **with_what}).encode()
		    c.sendall(struct.pack(">I", len(said)) + said)
		    print(asked, flush=True)
		answer(None)
		answer({"error": {"code": "conflict", "text": "task 5: is no announced job that runs"}})
		answer({"tasks": [{"id": "5", "state": "FAILED", "attempts": []}]})
	PY
	python3 fake.py >asked 3>&- 4>&- &
	fake=$!
	wait_for 10 test -S fake.sock
	run -0 timeout 200 "$RAD_BUILD_ROOT/slurm/rad-slurm" depart --socket="$PWD/fake.sock" --id=5 --job=22 --restarts=0 --uid=0 --gid=0 --exit-code=1 --limit=50
	wait "$fake"
	[ "$(tr '\n' ' ' <asked)" = "depart show " ]
	grep -q '^scontrol update JobId=22 AdminComment=rad: ' "$WORLD/called"
}

@test "nobody but the administrator announces" {
	need_root
	need_helper
	make_users
	step
	run -1 as "$ALICE" "$RAD_BUILD_ROOT/slurm/rad-slurm" announce --socket="$RAD_SOCKET" --job=1 --uid=0 --gid=0 --pid="$STEP" --at=0
	[[ "$output" == *"announcing jobs is for the administrator"* ]]
}

@test "no Slurm: each of ours says so in one line, and nothing else happens" {
	printf '#!/bin/sh\n#RAD --gpu-mem=8G\ntrue\n' >train.sh
	mkdir -p "$WORLD/empty"
	run --separate-stderr env PATH="$WORLD/empty:$RAD_BUILD_ROOT" "$RAD_BUILD_ROOT/rad" sbatch train.sh
	[ "$status" -eq 1 ]
	[ "$(tail -n 1 <<<"$stderr")" = "rad: sbatch: not found in PATH: is Slurm installed here? 'rad submit' needs none" ]
	need_helper
	run env PATH="$WORLD/empty" "$RAD_BUILD_ROOT/slurm/rad-slurm" recover --once
	[ "$status" -eq 1 ]
	[ "$output" = "rad-slurm: squeue failed: does slurmctld answer?" ]
}

@test "recover: what ran out of GPU memory starts again with whole GPUs, once; others are let alone" {
	need_helper
	cat >"$WORLD/squeue" <<'END'
line() { printf '%-24s%-24s%-12s%-128s\n' "$@"; }
case "$*" in *admin_comment*)
	several=
	case $6 in 18 | 19 | 20) several=' gpus=2' ;; esac
	[ "$6" = 16 ] || printf '%-24s%-400s\n' 1 "" "$6" "rad: oom: peak 8.0G of 8.0G [task 3 on n1$several restarts=0]"
	[ "$6" != 16 ] || printf '%-24s%-400s\n' 1 "rad: oom: another's [task 3 on n1 restarts=0]" 16 ""
	return ;;
esac
line 11 FAILED 0 gres:shard:8
line 12 FAILED 1 gres:shard:8
line 13 SPECIAL_EXIT 1 gres:shard:8
line 14 FAILED 0 gres:shard:40
line 15 FAILED 0 gres:gpu:1
line 16 FAILED 0 gres:shard:8
line 17 FAILED 0 gres:radmem:8
line 18 FAILED 0 gres:radmem:16
line 19 FAILED 0 gres:radmem:60
line 20 FAILED 0 gres:radmem:80
line 21 FAILED 0 gres:radmem:40
END
	slurm recover --once >said
	grep -v squeue "$WORLD/called" >did
	diff - did <<'END'
scontrol requeuehold 11
scontrol update JobId=11 TresPerNode=gres:shard:40
scontrol release 11
scontrol update JobId=13 TresPerNode=gres:shard:40
scontrol release 13
scontrol requeuehold 17
scontrol update JobId=17 TresPerNode=gres:radmem:40
scontrol release 17
scontrol requeuehold 18
scontrol update JobId=18 TresPerNode=gres:radmem:80
scontrol release 18
scontrol requeuehold 19
scontrol update JobId=19 TresPerNode=gres:radmem:80
scontrol release 19
END
	[ "$(wc -l <said)" = 5 ]
	rm "$WORLD/squeue"
	echo 'exit 1' >"$WORLD/squeue"
	run slurm recover --once
	[ "$status" -eq 1 ]
	[[ "$output" == *"does slurmctld answer?"* ]]
}
